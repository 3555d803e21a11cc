//! Advice to the kernel about memory that the caller allocated.

use std::ptr::NonNull;

/// Asks for huge pages under `len` bytes from `start`, which the caller owns. Only a hint: where the kernel does not
/// follow it, nothing else changes.
pub fn advise_huge_pages(start: NonNull<u8>, len: usize) {
    // Miri has no such call, and no kernel to follow the hint.
    if cfg!(miri) {
        return;
    }
    // SAFETY: MADV_HUGEPAGE changes how the range is backed, never its content, whatever the range is.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}
