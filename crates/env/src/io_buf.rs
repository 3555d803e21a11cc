//! Owned, aligned buffers for direct I/O, recycled through a per-thread pool.
//!
//! The pool is only a speed-up: it holds at most [`POOL_BYTES_MAX`] a thread, and a buffer may be dropped on another
//! thread than the one that made it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every buffer and the unit of its capacity; enough for O_DIRECT on any block device we know.
pub const IO_ALIGN: usize = 4096;

/// Bytes one thread keeps for reuse.
const POOL_BYTES_MAX: usize = 4 << 20;
/// Capacities of `IO_ALIGN << class` for `class < POOL_CLASSES` are pooled: 4 KiB to 1 MiB.
const POOL_CLASSES: usize = 9;

#[derive(Default)]
struct Pool {
    free: [Vec<Raw>; POOL_CLASSES],
    bytes: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// One allocation of `capacity` initialised bytes at `IO_ALIGN`.
struct Raw {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: `Raw` uniquely owns plain bytes; nothing about them is tied to a thread.
unsafe impl Send for Raw {}
// SAFETY: shared access to `Raw` gives shared access to bytes only.
unsafe impl Sync for Raw {}

impl Raw {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, IO_ALIGN).expect("an I/O buffer fits the address space")
    }

    fn allocate(capacity: usize) -> Raw {
        assert!(capacity > 0 && capacity.is_multiple_of(IO_ALIGN));
        let layout = Raw::layout(capacity);
        // SAFETY: the layout's size is not zero (asserted above).
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Raw { start, capacity }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout and is freed once, here.
        unsafe { dealloc(self.start.as_ptr(), Raw::layout(self.capacity)) }
    }
}

/// An owned byte buffer aligned to [`IO_ALIGN`], its capacity a whole number of `IO_ALIGN`.
pub struct IoBuf {
    raw: Option<Raw>,
    len: usize,
}

impl IoBuf {
    /// A buffer of no bytes and no allocation.
    pub const fn empty() -> IoBuf {
        IoBuf { raw: None, len: 0 }
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> IoBuf {
        let mut buf = IoBuf::recycled(len);
        buf.fill(0);
        buf
    }

    /// `len` bytes of unspecified content (zeros, or what an earlier buffer of this thread held), to be overwritten.
    pub fn recycled(len: usize) -> IoBuf {
        if len == 0 {
            return IoBuf::empty();
        }
        let capacity = match class_of(len) {
            Some(class) => IO_ALIGN << class,
            None => len.next_multiple_of(IO_ALIGN),
        };
        let pooled = class_of(len).and_then(|class| {
            POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                let raw = pool.free[class].pop()?;
                pool.bytes -= raw.capacity;
                Some(raw)
            })
            .ok()
            .flatten()
        });
        IoBuf { raw: Some(pooled.unwrap_or_else(|| Raw::allocate(capacity))), len }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> IoBuf {
        let mut buf = IoBuf::recycled(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Frees what the calling thread keeps for reuse: for one that may have nothing to read or write for long.
    pub fn free_spares() {
        // A thread that ends may have no pool any more.
        let _ = POOL.try_with(RefCell::take);
    }

    /// Bytes it can be resized to without a new allocation.
    pub fn capacity(&self) -> usize {
        self.raw.as_ref().map_or(0, |raw| raw.capacity)
    }

    /// Changes the length; bytes past the old length are unspecified.
    ///
    /// # Panics
    /// If `len` is more than [`IoBuf::capacity`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "an I/O buffer does not grow past its capacity");
        self.len = len;
    }
}

/// The pool class whose capacity holds `len` bytes, if it is pooled at all.
fn class_of(len: usize) -> Option<usize> {
    let blocks = len.div_ceil(IO_ALIGN).max(1);
    let class = blocks.next_power_of_two().trailing_zeros() as usize;
    (class < POOL_CLASSES).then_some(class)
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.raw {
            // SAFETY: `capacity >= len` bytes are allocated and initialised (zeroed at allocation).
            Some(raw) => unsafe { std::slice::from_raw_parts(raw.start.as_ptr(), self.len) },
            None => &[],
        }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.raw {
            // SAFETY: as in `deref`, and `&mut self` makes the access unique.
            Some(raw) => unsafe { std::slice::from_raw_parts_mut(raw.start.as_ptr(), self.len) },
            None => &mut [],
        }
    }
}

impl Clone for IoBuf {
    /// Copies the bytes.
    fn clone(&self) -> IoBuf {
        IoBuf::copy_of(self)
    }
}

impl Default for IoBuf {
    fn default() -> IoBuf {
        IoBuf::empty()
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        let Some(class) = class_of(raw.capacity).filter(|class| IO_ALIGN << class == raw.capacity) else {
            return;
        };
        // While the thread ends its pool may be gone; the buffer is then simply freed.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut()
                && pool.bytes + raw.capacity <= POOL_BYTES_MAX
            {
                pool.bytes += raw.capacity;
                pool.free[class].push(raw);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_hold_what_was_asked() {
        for len in [0, 1, 4095, 4096, 4097, 65_536, (1 << 20) + 1, 3 << 20] {
            let mut buf = IoBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert!(len == 0 || (buf.as_ptr() as usize).is_multiple_of(IO_ALIGN));
            assert!(buf.iter().all(|byte| *byte == 0));
            buf.fill(7);
            assert_eq!(*buf.clone(), *buf);
        }
    }

    #[test]
    fn dropped_buffer_is_reused_and_zeroed_means_zero() {
        let mut buf = IoBuf::zeroed(8192);
        buf.fill(9);
        let address = buf.as_ptr();
        drop(buf);
        let again = IoBuf::zeroed(8000);
        assert_eq!(again.as_ptr(), address);
        assert!(again.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn spares_are_freed_when_their_thread_says_so() {
        IoBuf::free_spares();
        drop([IoBuf::zeroed(8192), IoBuf::zeroed(256 << 10)]);
        let spare = || POOL.with_borrow(|pool| pool.bytes);
        assert_eq!(spare(), 8192 + (256 << 10));
        IoBuf::free_spares();
        assert_eq!(spare(), 0);
        assert_eq!(IoBuf::zeroed(8192).len(), 8192);
        assert_eq!(spare(), 8192, "the pool serves on");
    }
}
