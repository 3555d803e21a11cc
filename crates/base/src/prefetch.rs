//! Asking the processor for memory ahead of need. Only a speed-up.

/// Bytes that come from memory at once.
const LINE_LEN: usize = 64;

/// Asks for all cache lines of `bytes` at once. Reads nothing.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    bytes.chunks(LINE_LEN).for_each(|line| ask(line.as_ptr()));
}

/// Asks for all of a value, what it points at left out, from memory at once: for what was last used so long ago that each of its lines would be waited for,
/// one after the other. Reads nothing.
#[inline]
pub fn prefetch_value<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let last = size_of::<T>().saturating_sub(1);
    (0..last).step_by(LINE_LEN).chain([last]).for_each(|offset| ask(start.wrapping_add(offset)));
}

/// Asks for the line that `address` is in.
#[inline]
fn ask(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::prefetch_value;

    #[test]
    fn values_of_any_size_stay_as_they_are() {
        let (nothing, byte, many) = ((), 7u8, [9u64; 100]);
        prefetch_value(&nothing);
        prefetch_value(&byte);
        prefetch_value(&many);
        assert!(byte == 7 && many.iter().all(|word| *word == 9));
    }
}
