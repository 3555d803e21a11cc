//! Memory for pages: aligned frames cut from 2 MiB chunks, taken and returned by any thread without a lock.
//!
//! Threads of low priority return frames while a worker takes them, so a lock here would let a preempted analytic
//! query stop a worker. Free frames form a stack whose links lie in a side table, never in the frames, so that a
//! slow reader of a link can at worst read a stale number and then lose the compare-and-swap (the head carries a tag).
//! Chunks are huge pages where the kernel grants them, and are kept until the process ends. The `unsafe` here makes
//! bytes owned; `version.rs`, `radix.rs` and `map.rs` share them.

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use base::ByteCount;
use base::limits::PAGE_SIZE;
use governor::UseTimes;

use crate::{MEMORY_MAX, PageBytes, frame_stock};

/// A chunk is one huge page: 256 frames of 8 KiB.
const CHUNK_LEN: usize = env::HUGE_PAGE_LEN;
const CHUNK_FRAMES: usize = CHUNK_LEN / PAGE_SIZE;
const _: () = assert!(CHUNK_LEN.is_multiple_of(PAGE_SIZE));

/// 2^20 chunks of 2 MiB: 2 TiB of frames in one process, twice what pages may take. The tables of them are address space alone
/// until they are used.
const CHUNKS_MAX: usize = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
const _: () = assert!(CHUNKS_MAX as u64 * CHUNK_LEN as u64 >= 2 * MEMORY_MAX.0 || cfg!(miri));
/// Frames are numbered from 1 in half a word.
const _: () = assert!(CHUNKS_MAX * CHUNK_FRAMES < u32::MAX as usize);
/// Address space is reserved for this many chunks at a time: 1 GiB.
const REGION_CHUNKS: usize = if cfg!(miri) { 4 } else { 512 };

struct Chunk {
    base: NonNull<PageBytes>,
    /// For each frame that is free: the frame below it on the stack, as index + 1, or 0.
    below: [AtomicU32; CHUNK_FRAMES],
    /// For each frame in use: `UseTimes` of its page as bits.
    uses: [AtomicU64; CHUNK_FRAMES],
}

static CHUNKS: [AtomicPtr<Chunk>; CHUNKS_MAX] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS_MAX];
/// Where the chunks of each region begin; null until the first of them is made.
static REGIONS: [AtomicPtr<u8>; CHUNKS_MAX / REGION_CHUNKS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS_MAX / REGION_CHUNKS];
static CHUNK_COUNT: AtomicU32 = AtomicU32::new(0);
/// Top of the stack of free frames: index + 1 (or 0) in the low half, a tag that grows with every change above.
static FREE: AtomicU64 = AtomicU64::new(0);
/// Frames on the stack; may lag behind it for a moment.
static FREE_COUNT: AtomicUsize = AtomicUsize::new(0);

fn chunk_of(index: u32) -> &'static Chunk {
    let chunk = CHUNKS[index as usize / CHUNK_FRAMES].load(Ordering::Acquire);
    // SAFETY: an index exists only after its chunk was stored in the table, and chunks are never freed.
    unsafe { &*chunk }
}

fn data_of(index: u32) -> NonNull<PageBytes> {
    // SAFETY: the offset is below CHUNK_FRAMES, so the result lies inside the chunk's allocation.
    unsafe { chunk_of(index).base.add(index as usize % CHUNK_FRAMES) }
}

fn below(index: u32) -> &'static AtomicU32 {
    &chunk_of(index).below[index as usize % CHUNK_FRAMES]
}

fn uses_of(index: u32) -> &'static AtomicU64 {
    &chunk_of(index).uses[index as usize % CHUNK_FRAMES]
}

fn pop_free() -> Option<u32> {
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        let top = head as u32;
        let index = top.checked_sub(1)?;
        let next = below(index).load(Ordering::Relaxed);
        let new = (((head >> 32) + 1) << 32) | u64::from(next);
        match FREE.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                if FREE_COUNT.fetch_sub(1, Ordering::Relaxed) == frame_stock::LOW {
                    frame_stock::wake();
                }
                return Some(index);
            }
            Err(now) => head = now,
        }
    }
}

/// Puts the `count` frames `top ..= bottom`, already linked to each other, on the stack.
fn push_free(top: u32, bottom: u32, count: usize) {
    // Counted before they can be taken, so that the count never falls below zero.
    FREE_COUNT.fetch_add(count, Ordering::Relaxed);
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        below(bottom).store(head as u32, Ordering::Relaxed);
        let new = (((head >> 32) + 1) << 32) | u64::from(top + 1);
        match FREE.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Makes one more chunk, keeps its first frame for the caller and gives the rest to everyone.
#[cold]
fn grow() -> u32 {
    frame_stock::note_empty();
    let first = new_chunk();
    push_free(first + 1, first + CHUNK_FRAMES as u32 - 1, CHUNK_FRAMES - 1);
    first
}

/// Memory of the chunk of that number, zeroed.
fn chunk_memory(number: usize) -> NonNull<u8> {
    let region = &REGIONS[number / REGION_CHUNKS];
    let mut start = region.load(Ordering::Acquire);
    if start.is_null() {
        let made = env::reserve_huge(REGION_CHUNKS * CHUNK_LEN).expect("address space for page frames");
        // Should another thread have been first, this address space stays reserved in vain; it holds no memory.
        start = match region.compare_exchange(start, made.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made.as_ptr(),
            Err(theirs) => theirs,
        };
    }
    // SAFETY: the offset lies within the region's REGION_CHUNKS chunks.
    let memory = unsafe { start.add(number % REGION_CHUNKS * CHUNK_LEN) };
    NonNull::new(memory).expect("a region does not begin at zero")
}

/// Makes a chunk whose frames are linked in ascending order and owned by the caller; returns the first.
fn new_chunk() -> u32 {
    let number = CHUNK_COUNT.fetch_add(1, Ordering::Relaxed) as usize;
    assert!(number < CHUNKS_MAX, "more page frames than a process may have");
    let base = chunk_memory(number);
    let first = (number * CHUNK_FRAMES) as u32;
    let link = |i: usize| AtomicU32::new(if i + 1 < CHUNK_FRAMES { first + i as u32 + 2 } else { 0 });
    let uses = [const { AtomicU64::new(0) }; CHUNK_FRAMES];
    let chunk = Box::new(Chunk { base: base.cast(), below: std::array::from_fn(link), uses });
    CHUNKS[number].store(Box::into_raw(chunk), Ordering::Release);
    first
}

/// Makes sure that at least `frames_min` frames are free, and that the memory of those it makes has been touched once.
pub(crate) fn stock_frames(frames_min: usize) {
    while FREE_COUNT.load(Ordering::Relaxed) < frames_min {
        let first = new_chunk();
        // SAFETY: the chunk is this thread's alone until it is pushed, and is CHUNK_LEN bytes long.
        unsafe { chunk_of(first).base.cast::<u8>().write_bytes(0, CHUNK_LEN) };
        push_free(first, first + CHUNK_FRAMES as u32 - 1, CHUNK_FRAMES);
    }
}

/// Memory in frames: all there is in this process, and how much of it is free.
pub fn frame_memory() -> (ByteCount, ByteCount) {
    let all = CHUNK_COUNT.load(Ordering::Relaxed) as usize * CHUNK_LEN;
    let free = FREE_COUNT.load(Ordering::Relaxed) * PAGE_SIZE;
    (ByteCount(all as u64), ByteCount(free.min(all) as u64))
}

/// Exclusive ownership of one frame whose bytes are initialised. Returned to the pool when dropped, on any thread.
pub(crate) struct Frame {
    index: u32,
    data: NonNull<PageBytes>,
}

// SAFETY: a Frame owns its memory alone, like a Box<PageBytes>; the pool behind it is made of atomics.
unsafe impl Send for Frame {}
// SAFETY: as above; a shared Frame only gives shared bytes.
unsafe impl Sync for Frame {}

impl Frame {
    /// A frame of zeros.
    pub(crate) fn zeroed() -> Frame {
        let index = pop_free().unwrap_or_else(grow);
        let data = data_of(index);
        // SAFETY: popping made this thread the only owner of the frame's PAGE_SIZE bytes.
        unsafe { data.write_bytes(0, 1) };
        Frame { index, data }
    }

    /// A frame with a copy of `bytes`.
    pub(crate) fn copy_of(bytes: &PageBytes) -> Frame {
        let index = pop_free().unwrap_or_else(grow);
        let data = data_of(index);
        // SAFETY: as in `zeroed`; `bytes` lies elsewhere because nobody can borrow a free frame.
        unsafe { ptr::copy_nonoverlapping(bytes, data.as_ptr(), 1) };
        Frame { index, data }
    }

    /// Says when the page in it was used, before it is given to a cell.
    pub(crate) fn set_uses(&mut self, uses: UseTimes) {
        uses_of(self.index).store(uses.to_bits(), Ordering::Relaxed);
    }
}

impl Deref for Frame {
    type Target = PageBytes;
    fn deref(&self) -> &PageBytes {
        // SAFETY: initialised when made, owned until dropped.
        unsafe { self.data.as_ref() }
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut PageBytes {
        // SAFETY: as in `deref`, and `&mut self` is the only way to the bytes.
        unsafe { self.data.as_mut() }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        push_free(self.index, self.index, 1);
    }
}

/// A place for a frame: filled by any thread, read by whoever pins it, emptied while no one does.
///
/// One word: the frame's index + 1 (or 0) in the low half, the number of pins in the high half. An empty cell has no pins.
#[derive(Default)]
pub(crate) struct FrameCell(AtomicU64);

/// One pin.
const PIN: u64 = 1 << 32;

/// The frame that a cell's word names.
fn frame_of(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}

impl FrameCell {
    pub(crate) fn new(frame: Frame) -> FrameCell {
        let cell = FrameCell::default();
        assert!(cell.fill(frame).is_ok(), "a new cell is empty");
        cell
    }

    /// Where the bytes are. The pointer is valid until the cell is emptied or dropped; whoever keeps it must know that
    /// neither happens, or pin it instead.
    pub(crate) fn data(&self) -> Option<NonNull<PageBytes>> {
        // Acquire pairs with the release in `fill`: the bytes were written before the index.
        frame_of(self.0.load(Ordering::Acquire)).map(data_of)
    }

    /// Keeps the frame where it is until `unpin`, and says where the bytes are; `None` if there is none.
    pub(crate) fn pin(&self) -> Option<NonNull<PageBytes>> {
        // Acquire as in `data`; and whoever finds the cell empty sees what was there before it was emptied.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let index = frame_of(word)?;
            assert!(word >> 32 < u64::from(u32::MAX), "fewer than 2^32 pins");
            match self.0.compare_exchange_weak(word, word + PIN, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(data_of(index)),
                Err(now) => word = now,
            }
        }
    }

    /// Ends one `pin`.
    pub(crate) fn unpin(&self) {
        // Release pairs with the acquire in `empty`: what was read through the pin was read before the frame is reused.
        let before = self.0.fetch_sub(PIN, Ordering::Release);
        assert!(before >= PIN, "a cell was unpinned more often than pinned");
    }

    /// Gives the cell its frame; `Err` returns the frame because another thread was first.
    pub(crate) fn fill(&self, frame: Frame) -> Result<(), Frame> {
        let word = u64::from(frame.index + 1);
        match self.0.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                std::mem::forget(frame);
                Ok(())
            }
            Err(_) => Err(frame),
        }
    }

    /// Takes the frame out unless it is pinned. The caller knows that no one reads through a pointer from `data`.
    pub(crate) fn empty(&self) -> Option<Frame> {
        let word = self.0.load(Ordering::Relaxed);
        let index = frame_of(word)?;
        if word >= PIN || self.0.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return None;
        }
        Some(Frame { index, data: data_of(index) })
    }

    /// The use times of the page in the frame; meaningless for an empty cell. Written now and then, by any reader.
    pub(crate) fn uses(&self) -> Option<&'static AtomicU64> {
        frame_of(self.0.load(Ordering::Relaxed)).map(uses_of)
    }
}

impl Drop for FrameCell {
    fn drop(&mut self) {
        let frame = self.empty();
        assert!(frame.is_some() || *self.0.get_mut() == 0, "a pinned frame was dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_aligned_zeroed_and_distinct() {
        let count = if cfg!(miri) { 20 } else { 600 };
        let mut frames: Vec<Frame> = (0..count).map(|_| Frame::zeroed()).collect();
        for (i, frame) in frames.iter_mut().enumerate() {
            assert_eq!(frame.as_ptr() as usize % PAGE_SIZE, 0);
            assert!(**frame == [0; PAGE_SIZE]);
            frame.fill(i as u8);
        }
        for (i, frame) in frames.iter().enumerate() {
            assert!(**frame == [i as u8; PAGE_SIZE]);
        }
    }

    #[test]
    fn a_stock_of_frames_is_there_to_be_taken() {
        let count = if cfg!(miri) { 20 } else { 300 };
        stock_frames(count);
        let (all, free) = frame_memory();
        assert!(all.0 >= (count * PAGE_SIZE) as u64 && free <= all);
        let frames: Vec<Frame> = (0..count).map(|_| Frame::zeroed()).collect();
        assert!(frames.iter().all(|frame| frame[PAGE_SIZE - 1] == 0));
    }

    #[test]
    fn a_cell_is_filled_once() {
        let cell = FrameCell::new(Frame::copy_of(&[7; PAGE_SIZE]));
        assert!(cell.fill(Frame::zeroed()).is_err());
        assert_eq!(cell.empty().expect("filled")[100], 7);
        assert!(cell.data().is_none());
    }

    #[test]
    fn a_pinned_frame_stays() {
        let cell = FrameCell::new(Frame::copy_of(&[7; PAGE_SIZE]));
        assert!(cell.pin().is_some() && cell.pin().is_some());
        assert!(cell.empty().is_none());
        cell.unpin();
        assert!(cell.empty().is_none());
        cell.unpin();
        assert!(cell.empty().is_some());
        assert!(cell.pin().is_none());
    }

    #[test]
    fn pinned_bytes_stay_what_they_are_while_the_cell_is_emptied_and_filled() {
        let rounds = if cfg!(miri) { 50 } else { 50_000 };
        let cell = FrameCell::new(Frame::copy_of(&[1; PAGE_SIZE]));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let Some(data) = cell.pin() else { continue };
                        // SAFETY: pinned above and unpinned below.
                        let bytes = unsafe { data.as_ref() };
                        let mark = bytes[0];
                        assert!(mark != 0 && bytes[PAGE_SIZE / 2] == mark && bytes[PAGE_SIZE - 1] == mark);
                        cell.unpin();
                    }
                });
            }
            for round in 0..rounds {
                if let Some(mut frame) = cell.empty() {
                    frame.fill(0);
                    drop(frame);
                    let mark = (round % 255) as u8 + 1;
                    assert!(cell.fill(Frame::copy_of(&[mark; PAGE_SIZE])).is_ok());
                }
            }
        });
    }

    #[test]
    fn frames_cross_threads_without_ever_being_shared() {
        let rounds = if cfg!(miri) { 10 } else { 20_000 };
        std::thread::scope(|scope| {
            let (give, take) = std::sync::mpsc::sync_channel::<Frame>(64);
            scope.spawn(move || {
                for frame in take {
                    let mark = frame[0];
                    assert!(*frame == [mark; PAGE_SIZE], "someone else wrote to an owned frame");
                }
            });
            for mark in 1..=3_u8 {
                let give = give.clone();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let mut frame = Frame::zeroed();
                        frame.fill(mark);
                        give.send(frame).expect("the receiver lives");
                    }
                });
            }
            drop(give);
        });
    }
}
