//! Page versions: one content of one page, shared by every root that holds it.
//!
//! Where a version lies in the file and where it lies in memory are each one atomic in one place, so loading a page
//! or giving it a slot is one store whatever number of roots share it. A version's bytes are written only by the live
//! map's owner, and only while no snapshot can reach it; `radix.rs` keeps the epoch that says so.
//!
//! A frame leaves its version by `evict`, which only the live map's owner calls, while it borrows the map exclusively and
//! has cleared the frame's address in the map's own entry. So bytes may be read in three ways: through a borrow of the live
//! map; in a version that has no location, which is never evicted; and pinned, from any thread.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::limits::PAGE_SIZE;
use base::{ByteCount, SlotNo, TenantId};
use governor::{EvictionTime, TenantHolds, UseTimes};

use crate::PageBytes;
use crate::file_reader::FileReader;
use crate::frame::{Frame, FrameCell};
use crate::memory_budget::{MemoryBudget, PageCounts};
use crate::metering::Metered;

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
    /// Charged too, once the map has one.
    budget: OnceLock<Arc<MemoryBudget>>,
    pub(crate) counts: PageCounts,
    pub(crate) metered: Metered,
    /// Pages that the tenant's statements hold.
    pub(crate) holds: TenantHolds,
    /// Rooms that its loads have taken.
    pub(crate) rooms: AtomicU64,
    /// So many misses at home are read at once, blocking, instead of being told. Used at home alone.
    turn_reads: AtomicU32,
    /// Page versions that some root holds, and pages of cold leaves.
    versions: AtomicU64,
    /// Pages of cold leaves that nobody has looked into: known by their places alone.
    cold: AtomicU64,
    cold_leaves: AtomicU64,
    released: ReleasedSlots,
    /// Set when the live map is gone: its file takes no more slots back.
    closed: AtomicBool,
}

impl MapShared {
    pub(crate) fn new(reader: Option<Arc<FileReader>>) -> Arc<MapShared> {
        Arc::new(MapShared { reader, ..MapShared::default() })
    }

    /// Whose pages they are: only a map with a file reads any.
    pub(crate) fn tenant(&self) -> TenantId {
        self.reader.as_ref().map_or(TenantId::SYSTEM, |reader| reader.tenant)
    }

    pub(crate) fn charge(&self, bytes: usize) {
        let was_over = self.is_over_limit();
        self.resident_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(budget) = self.budget.get() {
            budget.charge(bytes as u64);
            // An evictor that was told goes on by itself until there is no more than the limit.
            if !was_over && self.is_over_limit() {
                budget.press_tenants();
            }
        }
    }

    pub(crate) fn is_over_limit(&self) -> bool {
        self.metered.share().is_some_and(|share| share.is_over(self.resident_frames()))
    }

    /// Bytes of pages that are to leave because of the tenant's limit.
    pub(crate) fn own_excess(&self) -> ByteCount {
        self.metered.share().map_or(ByteCount(0), |share| share.excess(self.resident_frames()))
    }

    pub(crate) fn refund(&self, bytes: usize) {
        self.resident_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        if let Some(budget) = self.budget.get() {
            budget.refund(bytes as u64);
        }
    }

    /// Charges what is resident, and what comes, to `budget`. The caller is the only one that charges meanwhile.
    pub(crate) fn charge_to(&self, budget: &Arc<MemoryBudget>) {
        budget.charge(self.resident_bytes());
        assert!(self.budget.set(Arc::clone(budget)).is_ok(), "a map has one budget");
    }

    pub(crate) fn eviction_time(&self) -> EvictionTime {
        self.budget().map_or(EvictionTime::default(), |budget| budget.eviction_time())
    }

    /// Whether the present miss is read at once; then one less is.
    pub(crate) fn take_turn_read(&self) -> bool {
        let left = self.turn_reads.load(Ordering::Relaxed);
        self.turn_reads.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    pub(crate) fn set_turn_reads(&self, pages_max: u32) {
        self.turn_reads.store(pages_max, Ordering::Relaxed);
    }

    pub(crate) fn budget(&self) -> Option<&Arc<MemoryBudget>> {
        self.budget.get()
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn versions(&self) -> u64 {
        self.versions.load(Ordering::Relaxed)
    }

    /// So many pages are known by their places alone.
    pub(crate) fn note_versions(&self, pages: u64) {
        self.versions.fetch_add(pages, Ordering::Relaxed);
    }

    /// So many pages are not known by their places alone any more.
    pub(crate) fn forget_versions(&self, pages: u64) {
        self.versions.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Pages that have no version and no entry, and leaves that keep places, whether somebody has looked into them or not.
    pub(crate) fn cold(&self) -> (u64, u64) {
        (self.cold.load(Ordering::Relaxed), self.cold_leaves.load(Ordering::Relaxed))
    }

    pub(crate) fn note_cold(&self, pages: u64) {
        self.cold.fetch_add(pages, Ordering::Relaxed);
    }

    pub(crate) fn forget_cold(&self, pages: u64) {
        self.cold.fetch_sub(pages, Ordering::Relaxed);
    }

    pub(crate) fn note_cold_leaf(&self) {
        self.cold_leaves.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn forget_cold_leaf(&self) {
        self.cold_leaves.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says that nothing in memory points to `location` any more.
    pub(crate) fn release(&self, location: Option<Location>) {
        if let Some(location) = location
            && !self.is_closed()
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

    /// Whether the live map is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
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
pub(crate) const VERSION_LEN: usize = size_of::<PageVersion>() + 2 * size_of::<usize>();
const _: () = assert!(VERSION_LEN <= 40, "a million pages should cost 40 MB of versions");

impl PageVersion {
    /// A version that only memory has.
    pub(crate) fn resident(mut frame: Frame, shared: &Arc<MapShared>) -> PageVersion {
        frame.set_uses(UseTimes::read_at(shared.eviction_time()));
        shared.charge(VERSION_LEN + PAGE_SIZE);
        shared.versions.fetch_add(1, Ordering::Relaxed);
        PageVersion {
            location: LocationCell::default(),
            frame: FrameCell::new(frame),
            shared: Arc::clone(shared),
        }
    }

    /// A version that only the file has, of a page that counts already. The caller has charged [`VERSION_LEN`] for it.
    pub(crate) fn thawed(location: Location, shared: &Arc<MapShared>) -> PageVersion {
        PageVersion {
            location: LocationCell::new(Some(location)),
            frame: FrameCell::default(),
            shared: Arc::clone(shared),
        }
    }

    /// Where the page lies, of a version that goes although its page stays: it goes on counting, and its slot is released by whoever has its place.
    pub(crate) fn freeze(mut self) -> Option<Location> {
        assert!(!self.is_resident(), "only what is in the file alone is known by its place");
        self.shared.note_versions(1);
        self.location.take()
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

    /// Where the bytes are in memory; the module says how long.
    pub(crate) fn data(&self) -> Option<NonNull<PageBytes>> {
        self.frame.data()
    }

    /// The bytes of a version that only memory has.
    pub(crate) fn unwritten_bytes(&self) -> Option<&PageBytes> {
        assert!(self.location().is_none(), "a version with a location may be evicted");
        // SAFETY: without a location the frame stays (`evict`), and its bytes are written only through a map entry of the
        // current epoch, which no one but the writing owner can reach. Locations come from a checkpoint, which has read
        // the bytes before.
        self.data().map(|data| unsafe { data.as_ref() })
    }

    /// Keeps the bytes in memory until the pin is dropped; `None` if they are not there.
    pub(crate) fn pin(&self) -> Option<PinnedPage<'_>> {
        let data = self.frame.pin()?;
        Some(PinnedPage { version: self, data })
    }

    /// Makes `frame`, just read from this version's location, its bytes in memory, unless another reader was first. One that
    /// is read ahead counts as never used until somebody does.
    pub(crate) fn load(&self, mut frame: Frame, is_ahead: bool) {
        let counts = &self.shared.counts;
        counts.reads.fetch_add(1, Ordering::Relaxed);
        if is_ahead {
            counts.ahead_asked.fetch_add(1, Ordering::Relaxed);
            frame.set_uses(UseTimes::default());
        } else {
            frame.set_uses(UseTimes::read_at(self.shared.eviction_time()));
        }
        if self.frame.fill(frame).is_ok() {
            self.shared.charge(PAGE_SIZE);
        }
    }

    /// Whether the file has the bytes, so that they may leave memory.
    pub(crate) fn is_evictable(&self) -> bool {
        self.location.get().is_some() || self.shared.budget().is_some_and(|budget| budget.drops_unwritten())
    }

    /// Drops the bytes in memory; false if there are none, if they are pinned, or if they are the only copy. The caller is
    /// the live map's owner, as the module says.
    pub(crate) fn evict(&self) -> bool {
        if !self.is_evictable() {
            return false;
        }
        let unused = self.uses() == UseTimes::default();
        let evicted = self.frame.empty().is_some();
        if evicted {
            self.shared.counts.ahead_wasted.fetch_add(u64::from(unused), Ordering::Relaxed);
            self.shared.counts.evictions.fetch_add(1, Ordering::Relaxed);
            if let Some(budget) = self.shared.budget() {
                budget.count_eviction();
            }
            self.shared.refund(PAGE_SIZE);
        }
        evicted
    }

    pub(crate) fn is_resident(&self) -> bool {
        self.frame.data().is_some()
    }

    /// Whether the live map that it was of is gone, so that its place in the file may be another page's.
    pub(crate) fn is_of_the_past(&self) -> bool {
        self.shared.is_closed()
    }

    /// When the page was used, if it is in memory.
    pub(crate) fn uses(&self) -> UseTimes {
        self.frame
            .uses()
            .map_or(UseTimes::default(), |uses| UseTimes::from_bits(uses.load(Ordering::Relaxed)))
    }

    /// Notes uses. What another thread notes at the same moment may be lost: it is a hint.
    pub(crate) fn set_uses(&self, times: UseTimes) {
        if let Some(uses) = self.frame.uses()
            && uses.load(Ordering::Relaxed) != times.to_bits()
        {
            uses.store(times.to_bits(), Ordering::Relaxed);
        }
    }

    /// Notes a use by a reader that does not go through the live map's entry; true if the page was read ahead for it.
    pub(crate) fn touch(&self) -> bool {
        let is_first = self.note_first_use();
        if !is_first {
            self.set_uses(self.uses().touched());
        }
        is_first
    }

    /// Notes that a page which was read ahead is used; false if it was before, or was not read ahead.
    pub(crate) fn note_first_use(&self) -> bool {
        let is_first = self.uses() == UseTimes::default();
        if is_first {
            self.shared.counts.ahead_used.fetch_add(1, Ordering::Relaxed);
            self.set_uses(UseTimes::read_at(self.shared.eviction_time()));
        }
        is_first
    }
}

/// The bytes of a page, kept in memory while this lives.
pub(crate) struct PinnedPage<'v> {
    version: &'v PageVersion,
    data: NonNull<PageBytes>,
}

impl Deref for PinnedPage<'_> {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: pinned until `drop`. The bytes are written only through a map entry of the current epoch; whoever pins
        // holds a snapshot that reaches the version, or borrows the live map, so there is no such entry or no writer.
        unsafe { self.data.as_ref() }
    }
}

impl Drop for PinnedPage<'_> {
    fn drop(&mut self) {
        self.version.frame.unpin();
    }
}

impl Drop for PageVersion {
    fn drop(&mut self) {
        let frame = if self.frame.data().is_some() { PAGE_SIZE } else { 0 };
        self.shared.refund(VERSION_LEN + frame);
        self.shared.versions.fetch_sub(1, Ordering::Relaxed);
        self.shared.release(self.location.get());
    }
}
