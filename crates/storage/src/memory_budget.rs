//! The memory that all tenants' pages may take together, who waits for some of it, and who makes room.
//!
//! Every map charges its frames, page versions and map nodes here as well as to its own tenant, and a tenant what its open transactions hold in
//! changes ([`crate::ChangeCharge`]). Nothing that is under way
//! fails or waits for want of memory: a commit takes what it needs. What waits is what can: a read of a missed page, and a
//! statement that would hold its first page ([`crate::RoomAsker`]). Evictors, one a worker, sleep until the charge passes a mark below the
//! limit and evict until it is below a second one.
//!
//! Charges come from any thread, threads of low priority among them, so charging takes no lock; the lists of waiting tasks
//! are locked by workers alone.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use base::ByteCount;
use base::limits::PAGE_SIZE;
use futures::task::AtomicWaker;
use governor::{EvictionTime, HoldPool};

use crate::room::{Line, RoomAsker, Waiter};

/// The least memory a server should be given: below, map nodes and the pages of a few statements do not fit, and loads go over
/// the limit again and again. A simulation wants just that.
pub const MEMORY_MIN: ByteCount = ByteCount::from_mib(8);

/// The most memory that pages may be given: the frames of one process are bounded.
pub const MEMORY_MAX: ByteCount = ByteCount::from_mib(1 << 20);

/// Pages read along with another one at most: a read of 1 MiB.
pub const READ_AHEAD_MAX: usize = 127;

/// Kept free between the mark at which evictors begin and the limit, so that loads rarely wait: a 16th of the limit, at most
/// this. Evictors end at twice that below the limit.
const HEADROOM_MAX: u64 = 32 << 20;
const HEADROOM_PART: u64 = 16;

/// The part of the limit that statements may hold pages in while they are run again and again.
const HELD_PART: u64 = 4;

pub(crate) const PAGE: u64 = PAGE_SIZE as u64;

/// What became of a tenant's pages since it was opened.
#[derive(Default)]
pub(crate) struct PageCounts {
    pub(crate) misses: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) write_backs: AtomicU64,
    pub(crate) ahead_asked: AtomicU64,
    pub(crate) ahead_used: AtomicU64,
    pub(crate) ahead_wasted: AtomicU64,
}

/// [`PageCounts`] at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageTally {
    /// Times a statement found a page missing and was taken back.
    pub misses: u64,
    /// Pages read from the data file.
    pub reads: u64,
    /// Pages dropped from memory.
    pub evictions: u64,
    /// Pages written by checkpoints.
    pub write_backs: u64,
    /// Of `reads`, those a scan had not asked for yet.
    pub ahead_asked: u64,
    /// Of `ahead_asked`, those that were used.
    pub ahead_used: u64,
    /// Of `ahead_asked`, those that left memory without having been used.
    pub ahead_wasted: u64,
}

impl std::ops::Add for PageTally {
    type Output = PageTally;

    fn add(self, other: PageTally) -> PageTally {
        PageTally {
            misses: self.misses + other.misses,
            reads: self.reads + other.reads,
            evictions: self.evictions + other.evictions,
            write_backs: self.write_backs + other.write_backs,
            ahead_asked: self.ahead_asked + other.ahead_asked,
            ahead_used: self.ahead_used + other.ahead_used,
            ahead_wasted: self.ahead_wasted + other.ahead_wasted,
        }
    }
}

impl PageCounts {
    pub(crate) fn tally(&self) -> PageTally {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PageTally {
            misses: get(&self.misses),
            reads: get(&self.reads),
            evictions: get(&self.evictions),
            write_backs: get(&self.write_backs),
            ahead_asked: get(&self.ahead_asked),
            ahead_used: get(&self.ahead_used),
            ahead_wasted: get(&self.ahead_wasted),
        }
    }
}

/// One for a process, shared by all its maps.
pub struct MemoryBudget {
    limit: u64,
    headroom: u64,
    read_ahead: usize,
    resident: AtomicU64,
    /// Of `resident`, what holds changes of open transactions ([`crate::ChangeCharge`]).
    pub(crate) changes: AtomicU64,
    /// The most that ever was resident.
    peak: AtomicU64,
    /// Pages that statements hold.
    holds: HoldPool,
    /// Pages that may be loaded over the limit, because nothing can be evicted.
    overdraft: AtomicU64,
    overdrafts: AtomicU64,
    /// Times that a writer went on without room.
    turns_over: AtomicU64,
    evicted: AtomicU32,
    /// Evictors were told of the present pressure.
    pressed: AtomicBool,
    /// For each evictor, whether it is to look which tenants have more than their own limits.
    tenants_pressed: Box<[AtomicBool]>,
    evictors: Box<[AtomicWaker]>,
    /// Loads that found no room and have not found any since.
    pub(crate) loads_waiting: AtomicU32,
    pub(crate) line: Mutex<Line>,
    /// Of threads that block, on their way to `line`.
    pub(crate) door: Mutex<Vec<Arc<Waiter>>>,
    /// Whether `line` or `door` may have any; read without the locks.
    pub(crate) has_line: AtomicBool,
    pub(crate) waiting_to_hold: Mutex<Vec<(RoomAsker, Waker)>>,
    /// For each evictor, whether it found nothing to evict when it last looked at everything.
    dry: Box<[AtomicBool]>,
    /// For each evictor, the bytes of changed pages that it last met, and of how many tenants.
    dirty: Box<[(AtomicU64, AtomicU64)]>,
    #[cfg(debug_assertions)]
    drops_unwritten: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryBudget {
    /// A budget of `limit` with so many evictors; see [`MEMORY_MIN`]. A scan that misses a page reads up to `read_ahead`
    /// pages along with it, at most [`READ_AHEAD_MAX`].
    ///
    /// # Panics
    /// If `limit` is less than four pages: a statement holds a quarter of it, and could not hold one.
    pub fn new(limit: ByteCount, read_ahead: usize, evictors: usize) -> Arc<MemoryBudget> {
        let limit = limit.0;
        assert!(limit >= HELD_PART * PAGE, "{limit} bytes of memory for pages");
        let headroom = (limit / HEADROOM_PART).min(HEADROOM_MAX);
        Arc::new(MemoryBudget {
            limit,
            headroom,
            read_ahead: read_ahead.min(READ_AHEAD_MAX),
            resident: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            holds: HoldPool::new(limit / HELD_PART / PAGE, ByteCount(limit - 2 * headroom)),
            overdraft: AtomicU64::new(0),
            overdrafts: AtomicU64::new(0),
            turns_over: AtomicU64::new(0),
            evicted: AtomicU32::new(0),
            pressed: AtomicBool::new(false),
            tenants_pressed: (0..evictors).map(|_| AtomicBool::new(false)).collect(),
            evictors: (0..evictors).map(|_| AtomicWaker::new()).collect(),
            loads_waiting: AtomicU32::new(0),
            line: Mutex::default(),
            door: Mutex::default(),
            has_line: AtomicBool::new(false),
            waiting_to_hold: Mutex::default(),
            dry: (0..evictors).map(|_| AtomicBool::new(true)).collect(),
            dirty: (0..evictors).map(|_| Default::default()).collect(),
            #[cfg(debug_assertions)]
            drops_unwritten: AtomicBool::new(false),
        })
    }

    /// A mistake for simulations to find, in debug builds alone: from here on pages leave memory that no checkpoint has
    /// written.
    #[cfg(debug_assertions)]
    pub fn drop_unwritten(&self) {
        self.drops_unwritten.store(true, Ordering::Relaxed);
    }

    /// A mistake for simulations to find, in debug builds alone: from here on the statements of one tenant may hold all that may be held.
    #[cfg(debug_assertions)]
    pub fn share_nothing(&self) {
        self.holds.share_nothing();
    }

    #[cfg(debug_assertions)]
    pub(crate) fn drops_unwritten(&self) -> bool {
        self.drops_unwritten.load(Ordering::Relaxed)
    }

    #[cfg(not(debug_assertions))]
    pub(crate) fn drops_unwritten(&self) -> bool {
        false
    }

    /// Pages that a scan reads at most along with one it missed.
    pub fn read_ahead(&self) -> usize {
        self.read_ahead
    }

    /// What may be resident.
    pub fn limit(&self) -> ByteCount {
        ByteCount(self.limit)
    }

    /// What may be promised to tenants together: what evictors leave in memory.
    pub fn promisable(&self) -> ByteCount {
        ByteCount(self.limit - 2 * self.headroom)
    }

    /// Bytes charged now.
    pub fn resident(&self) -> ByteCount {
        ByteCount(self.resident.load(Ordering::Relaxed))
    }

    /// The most bytes that were ever charged.
    pub fn peak(&self) -> ByteCount {
        ByteCount(self.peak.load(Ordering::Relaxed))
    }

    /// Pages loaded although the limit was reached, because nothing could be evicted.
    pub fn overdrafts(&self) -> u64 {
        self.overdrafts.load(Ordering::Relaxed)
    }

    /// Times that a transaction went on to change pages, or to read within its turn, although there was no room, because it had waited for some often enough.
    pub fn turns_over(&self) -> u64 {
        self.turns_over.load(Ordering::Relaxed)
    }

    /// Notes that a transaction goes on to change pages, or to read within its turn, although there is no room.
    pub fn count_turn_over(&self) {
        self.turns_over.fetch_add(1, Ordering::Relaxed);
    }

    /// The clock by which pages age.
    pub fn eviction_time(&self) -> EvictionTime {
        EvictionTime(self.evicted.load(Ordering::Relaxed))
    }

    pub(crate) fn count_eviction(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn charge(&self, bytes: u64) {
        // Sequentially consistent, as all of `resident` and `pressed`: either the evictor that goes to sleep sees these bytes,
        // or this thread sees that it has cleared `pressed`.
        let now = self.resident.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if now > self.limit - self.headroom {
            self.peak.fetch_max(now, Ordering::Relaxed);
            self.press();
        }
    }

    pub(crate) fn refund(&self, bytes: u64) {
        let before = self.resident.fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "{bytes} bytes are refunded of {before}");
    }

    pub(crate) fn press(&self) {
        if !self.pressed.load(Ordering::SeqCst) && !self.pressed.swap(true, Ordering::SeqCst) {
            self.evictors.iter().for_each(AtomicWaker::wake);
        }
    }

    /// Has all evictors look which tenants have more than their own limits.
    pub fn press_tenants(&self) {
        (0..self.evictors.len()).for_each(|evictor| self.press_tenants_of(evictor));
    }

    /// Has one evictor look which of its tenants have more than their own limits.
    pub fn press_tenants_of(&self, evictor: usize) {
        let pressed = &self.tenants_pressed[evictor];
        if !pressed.load(Ordering::SeqCst) && !pressed.swap(true, Ordering::SeqCst) {
            self.evictors[evictor].wake();
        }
    }

    /// Whether there is less room than there should be, or a load waits for some.
    pub fn is_short(&self) -> bool {
        self.resident.load(Ordering::SeqCst) > self.limit - self.headroom || self.has_line()
    }

    /// Whether a load waits for room and has none yet.
    pub(crate) fn has_line(&self) -> bool {
        self.has_line.load(Ordering::SeqCst)
    }

    #[cfg(test)]
    pub(crate) fn door_len(&self) -> usize {
        lock(&self.door).len()
    }

    pub(crate) fn holds(&self) -> &HoldPool {
        &self.holds
    }

    /// Waits, as evictor number `evictor`, until there is something to do: the charge is above the first mark, a
    /// load waits for room, or a tenant may have more than its own limit.
    pub async fn pressure(&self, evictor: usize) {
        poll_fn(|cx| {
            self.evictors[evictor].register(cx.waker());
            self.pressed.store(false, Ordering::SeqCst);
            let of_tenants = self.tenants_pressed[evictor].swap(false, Ordering::SeqCst);
            if self.is_short() || of_tenants { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Bytes that evictors should still evict; 0 when the second mark is reached.
    pub fn excess(&self) -> ByteCount {
        ByteCount(self.resident.load(Ordering::Relaxed).saturating_sub(self.promisable().0))
    }

    /// Bytes of unwritten pages of one tenant at which it is to be checkpointed: a quarter of the limit.
    pub fn dirty_start(&self) -> ByteCount {
        ByteCount(self.limit / 4)
    }

    /// Bytes of unwritten pages of one tenant at which its writers wait for its checkpoint: three eighths of the limit.
    pub fn dirty_max(&self) -> ByteCount {
        ByteCount(self.limit / 8 * 3)
    }

    /// Notes the bytes of changed pages of the tenants of evictor number `evictor`, and how many tenants have any.
    pub fn note_dirty(&self, evictor: usize, bytes: ByteCount, tenants: usize) {
        self.dirty[evictor].0.store(bytes.0, Ordering::Relaxed);
        self.dirty[evictor].1.store(tenants as u64, Ordering::Relaxed);
    }

    /// Whether changed pages of all tenants together take so many eighths of the limit, as far as evictors have met them, and a tenant with
    /// `own` bytes of them has a good part: half of what each has on average, or more.
    fn is_dirty_part(&self, own: ByteCount, eighths: u64) -> bool {
        let (bytes, tenants) = self.dirty.iter().fold((0, 0), |(bytes, tenants), of_evictor| {
            (bytes + of_evictor.0.load(Ordering::Relaxed), tenants + of_evictor.1.load(Ordering::Relaxed))
        });
        bytes >= self.limit / 8 * eighths && own.0 * tenants * 2 >= bytes
    }

    /// Whether a tenant with `own` bytes of changed pages is to be checkpointed because all together have half of the limit.
    pub fn is_dirty_together(&self, own: ByteCount) -> bool {
        own.0 > 0 && self.is_dirty_part(own, 4)
    }

    /// Whether its writers are to wait for that, because all together have five eighths of the limit: what statements hold has a
    /// quarter, and the rest is everybody's.
    pub fn is_too_dirty_together(&self, own: ByteCount) -> bool {
        own.0 > 0 && self.is_dirty_part(own, 5)
    }

    /// Whether there is room for one more page at this moment.
    pub fn has_room(&self) -> bool {
        self.resident.load(Ordering::SeqCst) + PAGE <= self.limit
    }

    /// Pages there is room for at this moment.
    pub(crate) fn pages_left(&self) -> usize {
        (self.limit.saturating_sub(self.resident.load(Ordering::SeqCst)) / PAGE) as usize
    }

    pub(crate) fn try_reserve(&self) -> bool {
        let within = |resident: u64| (resident + PAGE <= self.limit).then_some(resident + PAGE);
        if self.resident.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok() {
            self.press_if_above();
            return true;
        }
        let one_less = |left: u64| left.checked_sub(1);
        if self.overdraft.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            self.overdrafts.fetch_add(1, Ordering::Relaxed);
            self.charge(PAGE);
            return true;
        }
        false
    }

    fn press_if_above(&self) {
        if self.resident.load(Ordering::SeqCst) > self.limit - self.headroom {
            self.press();
        }
    }

    /// Whether a load has found no room, and not found any since, woken or not.
    pub fn has_waiting(&self) -> bool {
        self.loads_waiting.load(Ordering::SeqCst) > 0
    }

    /// Notes whether evictor number `evictor` finds nothing to evict; true if none of them does.
    pub fn note_dry(&self, evictor: usize, dry: bool) -> bool {
        self.dry[evictor].store(dry, Ordering::Relaxed);
        self.dry.iter().all(|dry| dry.load(Ordering::Relaxed))
    }

    /// Lets one waiting load go over the limit: called by an evictor that went over all pages and could evict none, as when
    /// map nodes and pages being written take all of a small budget. The load makes its statement end, and room comes.
    pub fn overdraw(&self) {
        self.overdraw_next();
        self.wake_waiting();
    }

    /// Lets the next load that looks for room go over the limit, whoever waits: for one that blocks the thread that makes room.
    pub fn overdraw_next(&self) {
        self.overdraft.store(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn evictors_work_between_the_marks() {
        let budget = MemoryBudget::new(ByteCount::from_mib(16), 0, 1);
        assert!(!is_ready(budget.pressure(0)));
        budget.charge(15 << 20);
        assert!(!is_ready(budget.pressure(0)), "a sixteenth is free");
        budget.charge(PAGE);
        assert!(is_ready(budget.pressure(0)));
        assert_eq!(budget.excess().0, (1 << 20) + PAGE);
        budget.refund(1 << 20);
        assert!(!is_ready(budget.pressure(0)));
    }

    #[test]
    fn who_has_most_of_the_changed_pages_waits_when_there_are_too_many() {
        let budget = MemoryBudget::new(ByteCount::from_mib(64), 0, 2);
        let mib = ByteCount::from_mib;
        assert!(!budget.is_dirty_together(mib(20)), "nobody has met any");
        budget.note_dirty(0, mib(20), 1);
        budget.note_dirty(1, mib(13), 2);
        // 33 of 64 MiB, 11 on average.
        assert!(budget.is_dirty_together(mib(20)) && !budget.is_too_dirty_together(mib(20)));
        assert!(!budget.is_dirty_together(mib(5)) && !budget.is_dirty_together(ByteCount(0)));
        budget.note_dirty(1, mib(22), 2);
        assert!(budget.is_too_dirty_together(mib(20)) && budget.is_too_dirty_together(mib(7)));
        assert!(!budget.is_too_dirty_together(mib(6)));
        budget.note_dirty(0, ByteCount(0), 0);
        assert!(!budget.is_dirty_together(mib(6)));
    }
}
