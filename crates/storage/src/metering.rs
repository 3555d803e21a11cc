//! What the governor's meter is told of a map's pages, and what it says of the price at which they leave.
//!
//! Only the pages of a sample are metered, and of those only the first use after a sweep or the meter forgot the one before: it
//! comes by the way of a page whose address is not set in its entry, which leaves the resident fast path as it is. Readers
//! without an entry of the live map, of snapshots on any thread, post their uses ([`Posts`]); the home takes them in when it comes by.
//! What is posted too fast is lost, and a read is lost with its use, so the comparison with the baseline stays fair.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use base::{ByteCount, PageNo};
use governor::{
    EvictionTime, MemoryMeter, MemoryPrice, MemoryShare, MemoryTally, OwnAges, PageSample, PageUse, UseTimes,
    VictimChoice, WriteCause,
};

use crate::PageMap;
use crate::cold_leaf::ColdLeaf;
use crate::radix::Entry;
use crate::version::{MapShared, PageVersion};

/// At the home.
#[derive(Default)]
pub(crate) struct Metering {
    meter: RefCell<Option<MemoryMeter>>,
    /// What the meter takes, charged to the map.
    charged: ByteCount,
    own: OwnAges,
    /// The next checkpoint makes room.
    writes_for_room: bool,
}

/// For readers on any thread.
#[derive(Default)]
pub(crate) struct Metered {
    /// The sample's, 0 for none.
    sample: AtomicU8,
    /// Set with the sample for the first time.
    posts: std::sync::OnceLock<Box<Posts>>,
    share: std::sync::OnceLock<Arc<MemoryShare>>,
}

const POSTS: usize = 1024;

/// Uses that are to be told, the newest of them; any thread posts, the home takes.
struct Posts {
    /// A page's number with how it was used, or 0.
    slots: [AtomicU64; POSTS],
    /// How many were ever posted, modulo 2^32.
    posted: AtomicU32,
    taken: AtomicU32,
}

impl Posts {
    fn new() -> Box<Posts> {
        let slots = [const { AtomicU64::new(0) }; POSTS];
        Box::new(Posts { slots, posted: AtomicU32::new(0), taken: AtomicU32::new(0) })
    }

    fn post(&self, no: PageNo, is_read: bool) {
        let at = self.posted.fetch_add(1, Ordering::Relaxed) as usize % POSTS;
        self.slots[at].store(u64::from(no.0) << 2 | u64::from(is_read) << 1 | 1, Ordering::Relaxed);
    }

    /// By one thread at a time.
    fn take(&self, mut each: impl FnMut(PageNo, bool)) {
        let posted = self.posted.load(Ordering::Relaxed);
        let taken = self.taken.swap(posted, Ordering::Relaxed);
        let count = posted.wrapping_sub(taken).min(POSTS as u32);
        for i in (1..=count).rev() {
            // One that is counted and not stored yet is taken in some later round of the ring, or lost.
            let post = self.slots[posted.wrapping_sub(i) as usize % POSTS].swap(0, Ordering::Relaxed);
            if post != 0 {
                each(PageNo((post >> 2) as u32), post & 2 != 0);
            }
        }
    }

    fn has_any(&self) -> bool {
        self.posted.load(Ordering::Relaxed) != self.taken.load(Ordering::Relaxed)
    }
}

impl Metered {
    fn has(&self, no: PageNo) -> bool {
        PageSample::from_bits(self.sample.load(Ordering::Relaxed)).is_some_and(|sample| sample.has(no))
    }

    /// A use of a version of page `no` by a reader that has no entry to leave a trace in. `is_read`: it was not in memory, or read ahead
    /// and not used yet.
    pub(crate) fn post_use(&self, no: PageNo, version: &PageVersion, is_read: bool) {
        if !self.has(no) {
            return;
        }
        let uses = version.uses();
        if (is_read || !uses.is_told())
            && let Some(posts) = self.posts.get()
        {
            // A read is not one more use: the next one is told.
            if !is_read {
                version.set_uses(uses.told());
            }
            posts.post(no, is_read);
        }
    }

    pub(crate) fn share(&self) -> Option<&MemoryShare> {
        self.share.get().map(Arc::as_ref)
    }
}

impl PageMap {
    /// Keeps to a tenant's limit of memory, and evicts by its promise, from now on; meters nothing before [`PageMap::set_memory_terms`].
    ///
    /// # Panics
    /// If it keeps to another `share`.
    pub fn limit_memory(&mut self, share: &Arc<MemoryShare>) {
        let kept = self.shared.metered.share.get_or_init(|| Arc::clone(share));
        assert!(Arc::ptr_eq(kept, share), "a map has one share");
    }

    /// Keeps to a tenant's terms of memory, and meters its pages into `tally`, from now on; call it again when they change: the
    /// ghosts begin anew then. Takes some 20 ns for each page of the sample that the map has.
    ///
    /// # Panics
    /// If it keeps to another `share`.
    pub fn set_memory_terms(&mut self, share: &Arc<MemoryShare>, tally: &Arc<MemoryTally>) {
        self.limit_memory(share);
        if let Some(budget) = self.shared.budget() {
            budget.holds().set_promised(&self.shared.holds, share.promised());
        }
        let meter = MemoryMeter::new(share.promised(), Arc::clone(tally));
        let sample = meter.as_ref().map(MemoryMeter::sample);
        let memory = meter.as_ref().map_or(ByteCount(0), MemoryMeter::memory);
        self.refund_meter();
        self.shared.charge(memory.0 as usize);
        self.metering.charged = memory;
        *self.metering.meter.get_mut() = meter;
        if sample.is_some() {
            self.shared.metered.posts.get_or_init(Posts::new);
        }
        self.shared.metered.sample.store(sample.map_or(0, PageSample::to_bits), Ordering::Relaxed);
        let Some(sample) = sample else { return };
        let other_limit = self.branch.as_ref().map_or(0, |branch| branch.other.numbers.limit());
        sample.pages_below(self.current.numbers.limit().max(other_limit)).for_each(|no| self.forget_use(no));
    }

    /// The meter, if there is one, goes.
    pub(crate) fn refund_meter(&mut self) {
        self.shared.refund(std::mem::take(&mut self.metering.charged).0 as usize);
    }

    /// Has the next use of page `no` told: its address is cleared, and what that says to the sweep is kept for it.
    fn forget_use(&self, no: PageNo) {
        let was_used = self.cool(no);
        let forget = |entry: &Entry| {
            if let Some(version) = &entry.version {
                let uses = version.uses().untold();
                version.set_uses(if was_used { uses.touched() } else { uses });
            }
        };
        self.current.warm_entry(no).into_iter().for_each(forget);
        if let Some(branch) = &self.branch {
            branch.other.warm_entry(no).into_iter().for_each(forget);
        }
    }

    /// Tells a use of page `no`, whose entry had no address.
    pub(crate) fn note_use(&self, no: PageNo, how: PageUse) {
        if self.shared.metered.has(no) {
            self.tell(no, how);
        }
    }

    fn tell(&self, no: PageNo, how: PageUse) {
        if let Some(meter) = self.metering.meter.borrow_mut().as_mut()
            // Posted before the sample changed, maybe.
            && meter.sample().has(no)
        {
            meter.used(no, how, |no| self.forget_use(no));
        }
    }

    /// Takes in what other readers posted.
    pub(crate) fn take_posts(&self) {
        if let Some(posts) = self.shared.metered.posts.get().filter(|posts| posts.has_any()) {
            posts.take(|no, is_read| self.tell(no, if is_read { PageUse::ReadOnce } else { PageUse::Found }));
        }
    }

    /// Page `no`, in memory, is changed for the first time since the last checkpoint began.
    pub(crate) fn note_change(&mut self, no: PageNo) {
        self.with_meter(no, |meter| meter.changed(no));
    }

    pub(crate) fn note_release(&mut self, no: PageNo, was_changed: bool) {
        self.with_meter(no, |meter| meter.released(no, was_changed));
    }

    fn with_meter(&mut self, no: PageNo, tell: impl FnOnce(&mut MemoryMeter)) {
        if let Some(meter) = self.metering.meter.get_mut().as_mut().filter(|meter| meter.sample().has(no)) {
            tell(meter);
        }
    }

    /// The next checkpoint is begun to make room in memory: what it writes would not have been written now by a tenant that had
    /// its promised memory alone.
    pub fn write_for_room(&mut self) {
        self.metering.writes_for_room = true;
    }

    pub(crate) fn note_checkpoint(&mut self) {
        self.take_posts();
        let for_room = std::mem::take(&mut self.metering.writes_for_room);
        if let Some(meter) = self.metering.meter.get_mut() {
            meter.checkpointed(if for_room { WriteCause::Room } else { WriteCause::Log });
        }
    }

    /// All pages were evicted because somebody asked for it.
    pub(crate) fn note_emptied(&mut self) {
        if let Some(meter) = self.metering.meter.get_mut() {
            meter.emptied();
        }
    }

    /// The price of its pages at this moment, and whether anything is promised.
    fn price(&self) -> (MemoryPrice, bool) {
        match self.shared.metered.share() {
            // What a tenant has beyond its limit goes first, whatever it is promised.
            Some(share) if share.promised().0 > 0 && self.shared.own_excess().0 == 0 => {
                let pages = self.shared.resident_frames().0.saturating_sub(self.metering.charged.0);
                (share.price_at(ByteCount(pages)), true)
            }
            _ => (MemoryPrice::LEAST, false),
        }
    }

    /// Whether a page that was not used since the last visit is to leave.
    pub(crate) fn is_victim(&self, choice: &mut VictimChoice, uses: UseTimes, now: EvictionTime) -> bool {
        match self.price() {
            (price, true) => choice.is_victim_of(&self.metering.own, price, uses, now),
            (price, false) => choice.is_victim(price, uses, now),
        }
    }

    /// Notes for the choice a page that was used.
    pub(crate) fn note_used(&self, choice: &mut VictimChoice, uses: UseTimes, now: EvictionTime) {
        choice.note_used(self.price().0, uses, now);
    }
}

impl MapShared {
    /// Bytes of pages, without versions and map leaves.
    pub(crate) fn resident_frames(&self) -> ByteCount {
        let (cold, leaves) = self.cold();
        let beside =
            self.versions().saturating_sub(cold) * BESIDE_LEN + leaves * size_of::<ColdLeaf>() as u64;
        ByteCount(self.resident_bytes().saturating_sub(beside))
    }
}

/// What a page takes in memory beside its frame: its version, and its part of a map leaf.
const BESIDE_LEN: u64 = (size_of::<PageVersion>() + 2 * size_of::<usize>() + size_of::<Entry>()) as u64;
