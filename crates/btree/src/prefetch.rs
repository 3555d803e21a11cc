//! Asking the processor for memory ahead of need. Only a speed-up.

const LINE_LEN: usize = 64;

/// Asks for all cache lines of `bytes` at once. Reads nothing.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE_LEN) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults, and the address is that of a live byte.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes.chunks(LINE_LEN);
}
