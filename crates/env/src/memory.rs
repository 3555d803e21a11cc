//! Memory from the kernel in large pieces, for whoever divides it himself.

use std::ptr::{self, NonNull};

/// Bytes of a huge page on the platforms that Rowhouse runs on.
pub const HUGE_PAGE_LEN: usize = 2 << 20;

/// Reserves `len` bytes of zeros, aligned to [`HUGE_PAGE_LEN`] and never given back, backed by huge pages where the kernel
/// grants them. Physical memory is taken at the first touch. `None` if there is no room for it in the address space.
///
/// A general allocator's memory will not do: it may have touched the range already, and a range with one small page in it
/// stays on small pages.
///
/// # Panics
/// Unless `len` is a multiple of [`HUGE_PAGE_LEN`].
pub fn reserve_huge(len: usize) -> Option<NonNull<u8>> {
    assert!(len > 0 && len.is_multiple_of(HUGE_PAGE_LEN));
    if cfg!(miri) {
        let layout = std::alloc::Layout::from_size_align(len, HUGE_PAGE_LEN).ok()?;
        // SAFETY: the layout's size is not zero.
        return NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let whole = len + HUGE_PAGE_LEN;
    // SAFETY: a new mapping where the kernel likes touches nothing that exists.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), whole, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let before = start.align_offset(HUGE_PAGE_LEN);
    // SAFETY: `before` is below HUGE_PAGE_LEN, so all three parts lie within the new mapping; the parts before and behind the
    // aligned one are unmapped before anyone knows of them. The advice changes how a range is backed, never its content.
    unsafe {
        let aligned = start.add(before);
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        libc::munmap(aligned.add(len).cast(), HUGE_PAGE_LEN - before);
        libc::madvise(aligned.cast(), len, libc::MADV_HUGEPAGE);
        NonNull::new(aligned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_memory_is_aligned_zeroed_and_writable() {
        let len = 2 * HUGE_PAGE_LEN;
        let start = reserve_huge(len).expect("there is room");
        assert_eq!(start.as_ptr() as usize % HUGE_PAGE_LEN, 0);
        // SAFETY: the range is this test's alone.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) };
        assert!(bytes.iter().step_by(1000).all(|byte| *byte == 0));
        bytes.fill(7);
        assert!(bytes.iter().step_by(1000).all(|byte| *byte == 7));
    }
}
