//! One tenant's working memory: what all its operators hold, against its promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use base::{ByteCount, TenantId};

use super::{Sums, UNITS_MAX, WorkMemory, WorkMemoryRefusal, WorkOperator, bytes, units};
use crate::promise::MemoryPromise;

/// What decides what a tenant takes of the server's sums; a word. In units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Standing {
    /// 16 bits.
    operators: u64,
    /// 24 bits.
    promised: u64,
    /// 24 bits.
    held: u64,
}

const OPERATORS_MAX: u64 = (1 << 16) - 1;
const _: () = assert!(UNITS_MAX == (1 << 24) - 1);

impl Standing {
    fn of(word: u64) -> Standing {
        Standing { operators: word >> 48, promised: word >> 24 & UNITS_MAX, held: word & UNITS_MAX }
    }

    fn word(self) -> u64 {
        assert!(
            self.operators <= OPERATORS_MAX && self.promised <= UNITS_MAX && self.held <= UNITS_MAX,
            "{self:?}"
        );
        self.operators << 48 | self.promised << 24 | self.held
    }

    fn sums(self) -> Sums {
        let claimed = if self.operators > 0 { self.promised } else { 0 };
        Sums { claimed, lent: self.held.saturating_sub(self.promised) }
    }
}

/// A tenant's pool, which its operators share. On a cache line of its own.
#[repr(align(64))]
pub struct TenantWorkMemory {
    pub(super) tenant: TenantId,
    memory: Arc<WorkMemory>,
    standing: AtomicU64,
    /// In units; `u64::MAX`: no limit.
    max: AtomicU64,
    /// What operators that cannot spill hold, in units. This and the next only divide what is under the limit.
    pub(super) unspillable: AtomicU64,
    /// Operators that can spill.
    pub(super) spillers: AtomicU32,
}

impl TenantWorkMemory {
    pub(super) fn new(
        memory: Arc<WorkMemory>,
        tenant: TenantId,
        promise: &MemoryPromise,
    ) -> Arc<TenantWorkMemory> {
        let pool = TenantWorkMemory {
            tenant,
            memory,
            standing: AtomicU64::new(0),
            max: AtomicU64::new(u64::MAX),
            unspillable: AtomicU64::new(0),
            spillers: AtomicU32::new(0),
        };
        pool.set_promise(promise);
        Arc::new(pool)
    }

    /// Changes what is promised and the limit, for what is held too: a loan becomes due or is none any more, and who is over the new limit is refused more.
    pub fn set_promise(&self, promise: &MemoryPromise) {
        self.max.store(promise.work_memory_max.map_or(u64::MAX, |max| max.0.div_ceil(super::UNIT)), Relaxed);
        let promised = units(promise.work_memory);
        let changed = self.change(true, |standing| Some(Standing { promised, ..standing }));
        assert!(changed.is_ok(), "nothing refuses a promise");
    }

    /// An operator that begins. It claims the tenant's promise if it is the first one. Those beyond 65,535 at a time claim nothing: where they alone are left, others may
    /// be lent what they hold of it.
    pub fn operator(self: &Arc<Self>, can_spill: bool) -> WorkOperator {
        let one_more = |standing: Standing| {
            let operators = standing.operators + 1;
            (operators <= OPERATORS_MAX).then_some(Standing { operators, ..standing })
        };
        let claims = self.change(true, one_more).is_ok();
        if can_spill {
            self.spillers.fetch_add(1, Relaxed);
        }
        WorkOperator::new(self.clone(), can_spill, claims)
    }

    /// `claims`: it is among those that the word counts.
    pub(super) fn operator_ended(&self, can_spill: bool, claims: bool) {
        if can_spill {
            self.spillers.fetch_sub(1, Relaxed);
        }
        if claims {
            let one_less =
                |standing: Standing| Some(Standing { operators: standing.operators - 1, ..standing });
            self.change(true, one_less).expect("an end is not refused");
        }
    }

    /// What is there for its operators in any case: its promise, or its limit if that is less.
    pub fn assured(&self) -> ByteCount {
        bytes(self.promised()).min(self.max())
    }

    /// What its operators may hold together: its `work_memory_max`, or the most that any tenant can have.
    pub fn max(&self) -> ByteCount {
        bytes(self.max.load(Relaxed).min(UNITS_MAX))
    }

    /// What its operators hold.
    pub fn held(&self) -> ByteCount {
        bytes(Standing::of(self.standing.load(Relaxed)).held)
    }

    /// The part of it that was not promised.
    pub fn borrowed(&self) -> ByteCount {
        bytes(Standing::of(self.standing.load(Relaxed)).sums().lent)
    }

    /// Whether the server wants back what it lent the tenant: its operators that can spill should.
    pub fn must_give_back(&self) -> bool {
        self.memory.is_short() && self.borrowed().0 > 0
    }

    /// Units at most for an operator that can spill: its part of what the others leave of the limit, and of seven eighths of it in any case. What is promised is never less.
    fn part_max(&self, max: u64) -> u64 {
        let left = max.saturating_sub(self.unspillable.load(Relaxed)).min(self.promised().max(max - max / 8));
        left / self.spillers()
    }

    fn promised(&self) -> u64 {
        Standing::of(self.standing.load(Relaxed)).promised
    }

    fn spillers(&self) -> u64 {
        u64::from(self.spillers.load(Relaxed).max(1))
    }

    /// Whether so much of the promise is there for an operator whatever the others hold: an equal part of a quarter of it if it cannot spill, else of the rest.
    fn is_kept_for_it(&self, more: u64, own: u64, can_spill: bool) -> bool {
        let for_unspillable = self.promised() / 4;
        if can_spill {
            own + more <= (self.promised() - for_unspillable) / self.spillers()
        } else {
            let operators = Standing::of(self.standing.load(Relaxed)).operators;
            let others = operators.saturating_sub(u64::from(self.spillers.load(Relaxed)));
            own + more <= for_unspillable / others.max(1)
        }
    }

    /// Grants units to an operator that has `own` of them.
    pub(super) fn try_take(&self, more: u64, own: u64, can_spill: bool) -> Result<(), WorkMemoryRefusal> {
        let max = self.max.load(Relaxed);
        if max != u64::MAX && can_spill && own + more > self.part_max(max) {
            let held = Standing::of(self.standing.load(Relaxed)).held;
            return Err(self.limit(more, held, max));
        }
        // Those that can spill are held to their parts: others of them that began when parts were larger come down to theirs.
        let max = if can_spill { UNITS_MAX } else { max.min(UNITS_MAX) };
        // One that has a loan asks for more of it.
        let must_give_back = |standing: Standing| standing.sums().lent > 0 && self.memory.is_short();
        let granted = self.change(false, |standing| {
            let held = standing.held + more;
            let refused = held > max || must_give_back(standing);
            (!refused).then_some(Standing { held, ..standing })
        });
        let Err(standing) = granted else { return Ok(()) };
        if standing.held + more > max {
            return Err(self.limit(more, standing.held, max));
        }
        if self.is_kept_for_it(more, own, can_spill) {
            self.take(more);
            return Ok(());
        }
        let (held, promised) = (bytes(standing.held), bytes(standing.promised));
        Err(WorkMemoryRefusal::NothingToLend { tenant: self.tenant, held, wanted: bytes(more), promised })
    }

    fn limit(&self, more: u64, held: u64, max: u64) -> WorkMemoryRefusal {
        let (held, wanted, max) = (bytes(held), bytes(more), bytes(max.min(UNITS_MAX)));
        WorkMemoryRefusal::Limit { tenant: self.tenant, held, wanted, max }
    }

    /// Takes units that are held already, whatever the limits.
    pub(super) fn take(&self, more: u64) {
        let taken = self.change(true, |standing| Some(Standing { held: standing.held + more, ..standing }));
        taken.expect("it is not asked");
    }

    pub(super) fn give_back(&self, units: u64) {
        let less = |standing: Standing| {
            let held = standing.held.checked_sub(units).expect("no more is given back than was taken");
            Some(Standing { held, ..standing })
        };
        self.change(true, less).expect("giving back is not refused");
    }

    /// Changes the word, and the server's sums with it: those that grow before, so that they are never too small. The word that was found if the change is refused, by
    /// `to` or, unless it `must` be, for want of room.
    fn change(&self, must: bool, to: impl Fn(Standing) -> Option<Standing>) -> Result<(), Standing> {
        let mut word = self.standing.load(Relaxed);
        loop {
            let before = Standing::of(word);
            let after = to(before).ok_or(before)?;
            let (old, new) = (before.sums(), after.sums());
            let more = Sums {
                claimed: new.claimed.saturating_sub(old.claimed),
                lent: new.lent.saturating_sub(old.lent),
            };
            let less = Sums {
                claimed: old.claimed.saturating_sub(new.claimed),
                lent: old.lent.saturating_sub(new.lent),
            };
            let is_more = more != Sums::default();
            if is_more && !self.memory.add(more, must) {
                return Err(before);
            }
            match self.standing.compare_exchange_weak(word, after.word(), Relaxed, Relaxed) {
                Ok(_) => {
                    if less != Sums::default() {
                        self.memory.take(less);
                    }
                    return Ok(());
                }
                Err(found) => {
                    if is_more {
                        self.memory.take(more);
                    }
                    word = found;
                }
            }
        }
    }
}

impl Drop for TenantWorkMemory {
    fn drop(&mut self) {
        let standing = Standing::of(*self.standing.get_mut());
        assert!(standing.operators == 0 && standing.held == 0, "operators keep their tenant's pool");
    }
}
