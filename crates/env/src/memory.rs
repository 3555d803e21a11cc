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

/// Memory for a stack that code runs on, with a page below it that may not be touched. Physical memory is taken at the first touch.
pub struct StackMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it uniquely owns a mapping; nothing about that is tied to a thread.
unsafe impl Send for StackMemory {}

/// Below a stack: at least a page on the platforms that Rowhouse runs on.
const STACK_GUARD_LEN: usize = 64 << 10;

impl StackMemory {
    /// Room for `len` bytes, of which none counts as used before it is touched. `None` if there is none in the address space.
    ///
    /// # Panics
    /// Unless `len` is a multiple of 64 KiB.
    pub fn new(len: usize) -> Option<StackMemory> {
        assert!(len > 0 && len.is_multiple_of(STACK_GUARD_LEN));
        let whole = len + STACK_GUARD_LEN;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping where the kernel likes touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let memory = StackMemory { start: NonNull::new(start.cast())?, len };
        let (above_guard, access) =
            (memory.range().start as *mut libc::c_void, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the range lies within the new mapping, which nobody else knows of. Huge pages would take 2 MiB for the first touch.
        let refused = unsafe {
            libc::madvise(above_guard, len, libc::MADV_NOHUGEPAGE);
            libc::mprotect(above_guard, len, access) != 0
        };
        if refused { None } else { Some(memory) }
    }

    /// Addresses from its end, where a stack cannot grow any further, to its beginning.
    pub fn range(&self) -> std::ops::Range<usize> {
        let end = self.start.as_ptr() as usize + STACK_GUARD_LEN;
        end..end + self.len
    }

    /// Gives back the memory of all but the first `keep` bytes of a stack that nothing runs on. One system call.
    ///
    /// # Panics
    /// Unless `keep` is a multiple of 64 KiB and no more than there is.
    pub fn trim(&mut self, keep: usize) {
        assert!(keep <= self.len && keep.is_multiple_of(STACK_GUARD_LEN));
        let from = self.range().start as *mut libc::c_void;
        // SAFETY: the range is this mapping's, of which nothing is in use, as `&mut` says.
        unsafe { libc::madvise(from, self.len - keep, libc::MADV_DONTNEED) };
    }
}

impl Drop for StackMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone, and nothing runs on it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len + STACK_GUARD_LEN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trimmed_stack_has_lost_what_was_below_its_beginning_only() {
        let len = 1 << 20;
        let mut stack = StackMemory::new(len).expect("there is room");
        let range = stack.range();
        assert_eq!(range.len(), len);
        // SAFETY: the range is this test's alone.
        let bytes = unsafe { std::slice::from_raw_parts_mut(range.start as *mut u8, len) };
        bytes.fill(7);
        stack.trim(128 << 10);
        assert!(bytes[..len - (128 << 10)].iter().step_by(1000).all(|byte| *byte == 0));
        assert!(bytes[len - (128 << 10)..].iter().step_by(1000).all(|byte| *byte == 7));
    }

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
