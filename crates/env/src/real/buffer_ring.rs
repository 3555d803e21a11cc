//! Buffers a ring hands to receives at the moment bytes arrive, so that a thousand idle connections pin none.
//!
//! A received piece is copied out and its buffer given back at once, so the buffers need only cover the completions of
//! one turn. When they run out a receive falls back to a buffer of its own.

use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::io_buf::IoBuf;
use crate::net::RECV_SPARE_MIN;

/// Group of these buffers; a ring has no other.
pub(super) const GROUP: u16 = 0;
/// The kernel takes them in turn, so all of them are written to, whatever comes at once: these few stay in the cache, where as many as a worker
/// has sessions would push out what they are copied to. Linux receives 20 pieces at most before it lets them be given back (6.13).
const BUFFERS: u16 = 32;
const BUFFER_LEN: usize = RECV_SPARE_MIN;
const _: () = assert!(BUFFERS.is_power_of_two() && size_of::<BufRingEntry>() == 16);

pub(super) struct BufferRing {
    /// The entries shared with the kernel: read by it, written by us. The kernel's tail lies in the first one.
    entries: IoBuf,
    buffers: IoBuf,
    tail: u16,
}

impl BufferRing {
    /// Registers buffers with `ring`; `None` where the kernel knows no such thing (before 5.19). They must live until
    /// the ring is gone.
    pub(super) fn register(ring: &IoUring) -> Option<BufferRing> {
        let mut entries = IoBuf::zeroed(usize::from(BUFFERS) * size_of::<BufRingEntry>());
        let buffers = IoBuf::zeroed(usize::from(BUFFERS) * BUFFER_LEN);
        let address = entries.as_mut_ptr() as u64;
        // SAFETY: page-aligned memory for that many entries, owned by the returned value; see the caller's duty above.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0) }.ok()?;
        let mut this = BufferRing { entries, buffers, tail: 0 };
        (0..BUFFERS).for_each(|id| this.provide(id));
        Some(this)
    }

    /// The first `len` bytes of a buffer the kernel filled.
    pub(super) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        let start = usize::from(id) * BUFFER_LEN;
        &self.buffers[start..start + len]
    }

    /// Lets the kernel use a buffer (again).
    pub(super) fn provide(&mut self, id: u16) {
        assert!(id < BUFFERS);
        let buffer = self.buffers[usize::from(id) * BUFFER_LEN..].as_mut_ptr();
        let base = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        // SAFETY: the index is below the number of entries by the mask; the kernel reads an entry only once the tail
        // below has passed it. Entry 0 holds the tail in a field that none of these setters touches.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & (BUFFERS - 1)));
            entry.set_addr(buffer as u64);
            entry.set_len(BUFFER_LEN as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail's place in initialised, aligned memory shared with the kernel; Release orders the entry
        // before it.
        unsafe {
            AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()).store(self.tail, Ordering::Release)
        };
    }
}
