//! Page versions: one content of one page, shared by every root that holds it.
//!
//! Where a version lies in the file and where it lies in memory are each one atomic in one place, so loading a page
//! or giving it a slot is one store whatever number of roots share it. A version's bytes are written only by the live
//! map's owner, and only while no snapshot can reach it; `radix.rs` keeps the epoch that says so.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use base::SlotNo;
use base::limits::PAGE_SIZE;

use crate::PageBytes;
use crate::file_reader::FileReader;
use crate::frame::{Frame, FrameCell};

/// Where a page lies in its data file, and the CRC-32C its bytes must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub(crate) slot: SlotNo,
    pub(crate) checksum: u32,
}

/// A location that is given once: 0 while there is none (slot 0 is a superblock, so no page lies there).
#[derive(Default)]
pub(crate) struct LocationCell(AtomicU64);

impl LocationCell {
    pub(crate) fn new(location: Option<Location>) -> LocationCell {
        let cell = LocationCell::default();
        if let Some(location) = location {
            cell.set(location);
        }
        cell
    }

    pub(crate) fn get(&self) -> Option<Location> {
        let packed = self.0.load(Ordering::Acquire);
        let location = Location { slot: SlotNo((packed >> 32) as u32), checksum: packed as u32 };
        (packed != 0).then_some(location)
    }

    pub(crate) fn set(&self, location: Location) {
        assert!(location.slot.0 != 0, "slot 0 is a superblock");
        self.0.store(u64::from(location.slot.0) << 32 | u64::from(location.checksum), Ordering::Release);
    }

    pub(crate) fn take(&mut self) -> Option<Location> {
        let location = self.get();
        *self.0.get_mut() = 0;
        location
    }
}

/// What all roots of one live map share: the file they are read from, the bytes they hold, the slots they gave back.
#[derive(Default)]
pub(crate) struct MapShared {
    pub(crate) reader: Option<Arc<FileReader>>,
    resident_bytes: AtomicU64,
    released: ReleasedSlots,
    /// Set when the live map is gone: its file takes no more slots back.
    closed: AtomicBool,
}

impl MapShared {
    pub(crate) fn new(reader: Option<Arc<FileReader>>) -> Arc<MapShared> {
        Arc::new(MapShared { reader, ..MapShared::default() })
    }

    pub(crate) fn charge(&self, bytes: usize) {
        self.resident_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn refund(&self, bytes: usize) {
        self.resident_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }

    /// Says that nothing in memory points to `location` any more.
    pub(crate) fn release(&self, location: Option<Location>) {
        if let Some(location) = location
            && !self.closed.load(Ordering::Relaxed)
        {
            self.released.push(location.slot);
        }
    }

    /// The slots released so far; taking them costs nothing, walking them is up to the caller.
    pub(crate) fn take_released(&self) -> ReleasedChain {
        self.released.take_all()
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

/// Slots whose last reference in memory is gone. Any thread pushes, the home takes all at once; no lock.
#[derive(Default)]
struct ReleasedSlots(AtomicPtr<Released>);

struct Released {
    slot: SlotNo,
    below: *mut Released,
}

impl ReleasedSlots {
    fn push(&self, slot: SlotNo) {
        let node = Box::into_raw(Box::new(Released { slot, below: std::ptr::null_mut() }));
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` is ours until the exchange below succeeds.
            unsafe { (*node).below = head };
            match self.0.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn take_all(&self) -> ReleasedChain {
        ReleasedChain(self.0.swap(std::ptr::null_mut(), Ordering::Acquire))
    }
}

impl Drop for ReleasedSlots {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Released slots taken off the stack, to be iterated; owned by one thread.
pub(crate) struct ReleasedChain(*mut Released);

// SAFETY: the chain was swapped out of the stack, so its nodes belong to the holder alone, like a list of boxes.
unsafe impl Send for ReleasedChain {}

impl Iterator for ReleasedChain {
    type Item = SlotNo;

    fn next(&mut self) -> Option<SlotNo> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: a node of the chain is a Box made by `push`, and is taken once because the head moves past it.
        let owned = unsafe { Box::from_raw(self.0) };
        self.0 = owned.below;
        Some(owned.slot)
    }
}

impl Drop for ReleasedChain {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// One content of one page: on disk, in memory, or both.
pub(crate) struct PageVersion {
    location: LocationCell,
    frame: FrameCell,
    shared: Arc<MapShared>,
}

/// With the two counts of its `Arc`.
const VERSION_LEN: usize = size_of::<PageVersion>() + 2 * size_of::<usize>();
const _: () = assert!(VERSION_LEN <= 40, "a million pages should cost 40 MB of versions");

impl PageVersion {
    /// A version that only memory has.
    pub(crate) fn resident(frame: Frame, shared: &Arc<MapShared>) -> PageVersion {
        shared.charge(VERSION_LEN + PAGE_SIZE);
        PageVersion {
            location: LocationCell::default(),
            frame: FrameCell::new(frame),
            shared: Arc::clone(shared),
        }
    }

    /// A version that only the file has.
    pub(crate) fn stored(location: Location, shared: &Arc<MapShared>) -> PageVersion {
        shared.charge(VERSION_LEN);
        PageVersion {
            location: LocationCell::new(Some(location)),
            frame: FrameCell::default(),
            shared: Arc::clone(shared),
        }
    }

    pub(crate) fn location(&self) -> Option<Location> {
        self.location.get()
    }

    /// Says that the bytes now lie at `location` too, durably.
    pub(crate) fn set_location(&self, location: Location) {
        self.location.set(location);
    }

    /// Forgets the place on disk because the owner is about to change the bytes.
    pub(crate) fn take_location(&mut self) -> Option<Location> {
        assert!(self.frame.data().is_some(), "a version keeps its frame or its slot");
        self.location.take()
    }

    /// Where the bytes are in memory; valid as long as `self` is, for frames leave only through `evict`.
    pub(crate) fn data(&self) -> Option<NonNull<PageBytes>> {
        self.frame.data()
    }

    pub(crate) fn bytes(&self) -> Option<&PageBytes> {
        // SAFETY: the frame stays while `self` is borrowed (`evict` needs `&mut`), and its bytes are written only
        // through a map entry of the current epoch, which no one but the writing owner can reach.
        self.data().map(|data| unsafe { data.as_ref() })
    }

    /// Makes `frame`, just read from this version's location, its bytes in memory, unless another reader was first.
    pub(crate) fn load(&self, frame: Frame) {
        if self.frame.fill(frame).is_ok() {
            self.shared.charge(PAGE_SIZE);
        }
    }

    /// Drops the bytes in memory; false if there are none, or if they are the only copy.
    pub(crate) fn evict(&mut self) -> bool {
        if self.location.get().is_none() {
            return false;
        }
        let evicted = self.frame.empty().is_some();
        if evicted {
            self.shared.refund(PAGE_SIZE);
        }
        evicted
    }
}

impl Drop for PageVersion {
    fn drop(&mut self) {
        let frame = if self.frame.data().is_some() { PAGE_SIZE } else { 0 };
        self.shared.refund(VERSION_LEN + frame);
        self.shared.release(self.location.get());
    }
}
