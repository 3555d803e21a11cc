//! Promises are had at once, loans are what is left, and nothing is lost between threads.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;
use crate::fixture::{Draws, tenant_id};

const MIB: u64 = 1 << 20;

fn promise(promised: u64, max: Option<u64>) -> MemoryPromise {
    MemoryPromise {
        work_memory: ByteCount(promised * MIB),
        work_memory_max: max.map(|max| ByteCount(max * MIB)),
        ..MemoryPromise::default()
    }
}

fn mib(n: u64) -> ByteCount {
    ByteCount(n * MIB)
}

#[test]
fn an_absent_tenants_promise_is_lent_and_taken_back() {
    let memory = WorkMemory::new(Some(mib(100)));
    let a = memory.tenant(tenant_id(0), &promise(30, None));
    let b = memory.tenant(tenant_id(1), &promise(30, None));
    let sort = a.operator(true);
    sort.try_grow(mib(100)).unwrap();
    assert_eq!((memory.claimed(), memory.lent(), a.borrowed()), (mib(30), mib(70), mib(70)));
    let refusal = sort.try_grow(ByteCount(1)).unwrap_err();
    assert!(matches!(refusal, WorkMemoryRefusal::NothingToLend { .. }), "{refusal}");
    assert!(!a.must_give_back());
    let hash = b.operator(false);
    assert!(a.must_give_back() && !b.must_give_back());
    hash.try_grow(mib(30)).expect("it was promised, whoever holds it");
    assert!(hash.try_grow(mib(1)).is_err(), "nothing to lend");
    sort.shrink(mib(25));
    assert!(a.must_give_back() && sort.try_grow(ByteCount(1)).is_err());
    sort.shrink(mib(5));
    assert!(!a.must_give_back());
    sort.shrink(mib(70));
    sort.try_grow(mib(70)).expect("30 are promised and 40 are left");
    drop((sort, hash));
    assert_eq!((memory.claimed(), memory.lent(), a.held(), b.held()), (mib(0), mib(0), mib(0), mib(0)));
}

#[test]
fn no_operator_takes_what_another_one_of_its_tenant_needs_to_go_on() {
    let memory = WorkMemory::new(Some(mib(16)));
    let pool = memory.tenant(tenant_id(0), &promise(16, None));
    let (sort, hash) = (pool.operator(true), pool.operator(false));
    sort.try_grow(mib(16)).expect("it is alone");
    hash.try_grow(mib(4)).expect("a quarter is kept for those that cannot spill");
    assert!(hash.try_grow(ByteCount(1)).is_err());
    let late = pool.operator(true);
    late.try_grow(mib(6)).expect("half of the rest is kept for it");
    assert!(late.try_grow(ByteCount(1)).is_err() && sort.try_grow(ByteCount(1)).is_err());
    assert_eq!((pool.held(), pool.assured()), (mib(26), mib(16)));
    sort.shrink(mib(16));
    late.try_grow(mib(6)).expect("what another one gave back");
    // Under a limit likewise, and nobody who cannot spill goes beyond it.
    let pool = memory.tenant(tenant_id(1), &promise(0, Some(8)));
    let (sort, hash) = (pool.operator(true), pool.operator(false));
    drop((memory.tenant(tenant_id(2), &promise(0, None)).operator(true), late));
    assert!(sort.try_grow(mib(8)).is_err(), "an eighth of the limit is for those that cannot spill");
    assert_eq!(pool.assured(), mib(0));
    drop((sort, hash));
}

#[test]
fn what_is_promised_up_to_the_limit_one_sort_may_hold() {
    let memory = WorkMemory::new(Some(mib(100)));
    let pool = memory.tenant(tenant_id(0), &promise(8, Some(8)));
    let sort = pool.operator(true);
    sort.try_grow(mib(8)).expect("promised");
    let late = pool.operator(true);
    late.try_grow(mib(4)).expect("its part, although the limit is reached");
    assert!(late.try_grow(mib(1)).is_err() && sort.try_grow(mib(1)).is_err());
    let hash = pool.operator(false);
    assert!(matches!(hash.try_grow(mib(1)), Err(WorkMemoryRefusal::Limit { .. })), "the limit is reached");
    sort.shrink(mib(6));
    hash.try_grow(mib(2)).expect("below the limit again");
    assert!(matches!(hash.try_grow(mib(1)), Err(WorkMemoryRefusal::Limit { .. })));
}

#[test]
fn operators_beyond_those_that_are_counted_get_on_and_leave_nothing_behind() {
    let memory = WorkMemory::new(Some(mib(100)));
    let pool = memory.tenant(tenant_id(0), &promise(30, None));
    let mut operators: Vec<WorkOperator> = (0..70_000).map(|n| pool.operator(n % 2 == 0)).collect();
    assert_eq!(memory.claimed(), mib(30));
    let last = operators.last().expect("many");
    last.try_grow(mib(1)).expect("it was promised");
    last.grow(mib(49));
    assert_eq!((pool.held(), memory.lent()), (mib(50), mib(20)));
    // Those that were counted end first.
    drop(operators.drain(..66_000));
    assert_eq!((memory.claimed(), memory.lent()), (mib(0), mib(20)));
    drop(operators);
    assert_eq!((memory.claimed(), memory.lent(), pool.held()), (mib(0), mib(0), mib(0)));
    let sort = pool.operator(true);
    assert_eq!(memory.claimed(), mib(30), "counted again");
    drop(sort);
}

#[test]
fn nobody_is_hindered_by_default() {
    let memory = WorkMemory::new(None);
    let pool = memory.tenant(tenant_id(0), &MemoryPromise::default());
    let (sort, hash) = (pool.operator(true), pool.operator(false));
    sort.try_grow(ByteCount(1 << 38)).unwrap();
    hash.try_grow(ByteCount(1 << 38)).unwrap();
    assert!(!pool.must_give_back());
    assert!(sort.try_grow(ByteCount(u64::MAX)).is_err(), "but for what no machine has");
    assert_eq!(sort.held(), ByteCount(1 << 38));
}

#[test]
fn the_limit_holds_and_says_so() {
    let memory = WorkMemory::new(None);
    let pool = memory.tenant(tenant_id(0), &promise(1, Some(10)));
    let hash = pool.operator(false);
    hash.try_grow(mib(10)).unwrap();
    let refusal = hash.try_grow(ByteCount(1)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "working memory is at its limit: 64KiB wanted, 10MiB held, work_memory_max is 10MiB"
    );
    hash.grow(ByteCount(1));
    assert_eq!(pool.held(), ByteCount(10 * MIB + UNIT), "what is held already is counted");
    hash.shrink(ByteCount(1));
    pool.set_promise(&promise(1, Some(5)));
    assert!(hash.try_grow(ByteCount(1)).is_err());
    hash.shrink(mib(6));
    hash.try_grow(mib(1)).unwrap();
}

#[test]
fn under_a_limit_those_that_can_spill_have_equal_parts_of_what_others_leave() {
    let memory = WorkMemory::new(None);
    let pool = memory.tenant(tenant_id(0), &promise(0, Some(12)));
    let (sort, other, hash) = (pool.operator(true), pool.operator(true), pool.operator(false));
    hash.try_grow(mib(4)).unwrap();
    assert!(sort.try_grow(mib(5)).is_err());
    sort.try_grow(mib(4)).unwrap();
    drop(other);
    sort.try_grow(mib(4)).unwrap();
    hash.shrink(mib(1));
    sort.try_grow(mib(1)).unwrap();
}

#[test]
fn a_promise_changes_for_what_is_held() {
    let memory = WorkMemory::new(Some(mib(20)));
    let pool = memory.tenant(tenant_id(0), &promise(10, None));
    let sort = pool.operator(true);
    sort.try_grow(mib(10)).unwrap();
    pool.set_promise(&promise(4, None));
    assert_eq!((memory.claimed(), memory.lent()), (mib(4), mib(6)));
    pool.set_promise(&promise(30, None));
    assert_eq!((memory.claimed(), memory.lent()), (mib(30), mib(0)));
    sort.try_grow(mib(20)).expect("promised, though there is less: the server is overbooked");
    pool.set_promise(&promise(0, None));
    assert!(pool.must_give_back());
    memory.set_capacity(Some(mib(30)));
    assert!(!pool.must_give_back());
}

#[test]
#[should_panic(expected = "given back")]
fn more_is_not_given_back_than_is_held() {
    let memory = WorkMemory::new(None);
    let operator = memory.tenant(tenant_id(0), &promise(1, None)).operator(true);
    operator.grow(ByteCount(10));
    // What is held after this panic is given back as ever.
    operator.shrink(ByteCount(11));
}

/// What one operator of a model holds.
struct Modelled {
    tenant: usize,
    can_spill: bool,
    operator: WorkOperator,
    held: u64,
}

/// What operators of one tenant are granted, in units, by the definition: nothing is remembered.
struct Parts {
    promised: u64,
    max: Option<u64>,
    spillers: u64,
    others: u64,
    unspillable: u64,
}

impl Parts {
    fn of(operators: &[Modelled], tenant: usize, promised: u64, max: Option<u64>) -> Parts {
        let of_kind = |can_spill: bool| {
            operators.iter().filter(move |one| one.tenant == tenant && one.can_spill == can_spill)
        };
        let in_units = |mib: u64| mib * MIB / UNIT;
        Parts {
            promised: in_units(promised),
            max: max.map(in_units),
            spillers: of_kind(true).count() as u64,
            others: of_kind(false).count() as u64,
            unspillable: of_kind(false).map(|one| one.held.div_ceil(UNIT)).sum(),
        }
    }

    /// Whether the limit forbids an operator to hold `own` where its tenant would hold `all`.
    fn is_limit(&self, can_spill: bool, own: u64, all: u64) -> bool {
        let Some(max) = self.max else { return false };
        let for_spillers = (max - max / 8).max(self.promised).min(max.saturating_sub(self.unspillable));
        if can_spill { own > for_spillers / self.spillers } else { all > max }
    }

    fn is_assured(&self, can_spill: bool, own: u64) -> bool {
        let quarter = self.promised / 4;
        own <= if can_spill { (self.promised - quarter) / self.spillers } else { quarter / self.others }
    }
}

proptest! {
    /// Against sums made anew each time: what is promised is never refused, what is lent fits, refusals have their reason.
    #[test]
    fn grants_are_those_of_the_definition(seed in any::<u64>(), capacity in 0..60u64, steps in 1..150usize) {
        let mut draws = Draws(seed);
        let memory = WorkMemory::new(Some(mib(capacity)));
        let mut promised: Vec<u64> = (0..4).map(|_| draws.between(0, 20)).collect();
        let mut max: Vec<Option<u64>> = promised.iter().map(|promised| (draws.between(0, 1) == 0).then(|| promised + draws.between(0, 30))).collect();
        let pools: Vec<_> = (0..4).map(|t| memory.tenant(tenant_id(t), &promise(promised[t], max[t]))).collect();
        let mut operators: Vec<Modelled> = Vec::new();
        for _ in 0..steps {
            let units_of = |operators: &[Modelled], t: usize| {
                operators.iter().filter(|operator| operator.tenant == t).map(|operator| operator.held.div_ceil(UNIT)).sum::<u64>()
            };
            let pick = draws.next() as usize;
            match draws.between(0, 6) {
                0 => {
                    let tenant = pick % 4;
                    let can_spill = draws.between(0, 1) == 0;
                    operators.push(Modelled { tenant, can_spill, operator: pools[tenant].operator(can_spill), held: 0 });
                }
                1 if !operators.is_empty() => drop(operators.swap_remove(pick % operators.len())),
                2 => {
                    let t = pick % 4;
                    promised[t] = draws.between(0, 20);
                    max[t] = max[t].map(|max| max.max(promised[t]));
                    pools[t].set_promise(&promise(promised[t], max[t]));
                }
                3 if !operators.is_empty() => {
                    let at = pick % operators.len();
                    let less = draws.between(0, operators[at].held);
                    operators[at].operator.shrink(ByteCount(less));
                    operators[at].held -= less;
                }
                _ if !operators.is_empty() => {
                    let at = pick % operators.len();
                    let (t, own) = (operators[at].tenant, operators[at].held);
                    let more = draws.between(0, 4 * MIB);
                    let delta = (own + more).div_ceil(UNIT) - own.div_ceil(UNIT);
                    let (before, after) = (units_of(&operators, t), units_of(&operators, t) + delta);
                    let (own_promise, can_spill) = (promised[t] * MIB / UNIT, operators[at].can_spill);
                    let (claimed, lent) = expected(&operators, &promised);
                    let borrows = after.saturating_sub(own_promise) - before.saturating_sub(own_promise);
                    let fits = borrows == 0 || claimed + lent + borrows <= mib(capacity).0 / UNIT;
                    let parts = Parts::of(&operators, t, promised[t], max[t]);
                    let own_after = own.div_ceil(UNIT) + delta;
                    let is_limit = parts.is_limit(can_spill, own_after, after);
                    let granted = delta == 0 || !is_limit && (fits || parts.is_assured(can_spill, own_after));
                    let answer = operators[at].operator.try_grow(ByteCount(more));
                    prop_assert_eq!(answer.is_ok(), granted, "{:?}", answer);
                    if let Err(refusal) = answer {
                        prop_assert_eq!(matches!(refusal, WorkMemoryRefusal::Limit { .. }), is_limit);
                    } else {
                        operators[at].held += more;
                    }
                }
                _ => {}
            }
            let (claimed, lent) = expected(&operators, &promised);
            prop_assert_eq!((memory.claimed(), memory.lent()), (bytes(claimed), bytes(lent)));
            for (t, pool) in pools.iter().enumerate() {
                let held = units_of(&operators, t);
                prop_assert_eq!(pool.held(), bytes(held));
                let over = held.saturating_sub(promised[t] * MIB / UNIT);
                prop_assert_eq!(pool.must_give_back(), over > 0 && claimed + lent > mib(capacity).0 / UNIT);
            }
        }
        drop(operators);
        prop_assert_eq!((memory.claimed(), memory.lent()), (mib(0), mib(0)));
    }
}

/// Claimed and lent, in units.
fn expected(operators: &[Modelled], promised: &[u64]) -> (u64, u64) {
    let (mut claimed, mut lent) = (0, 0);
    for (t, promised) in promised.iter().enumerate() {
        let own: Vec<_> = operators.iter().filter(|operator| operator.tenant == t).collect();
        let held: u64 = own.iter().map(|operator| operator.held.div_ceil(UNIT)).sum();
        claimed += if own.is_empty() { 0 } else { promised * MIB / UNIT };
        lent += held.saturating_sub(promised * MIB / UNIT);
    }
    (claimed, lent)
}

/// Several threads on the same operators: never more lent than there is, and in the end nothing is left.
#[test]
fn threads_lose_nothing() {
    let memory = WorkMemory::new(Some(mib(64)));
    let pools: Vec<_> = (0..3).map(|t| memory.tenant(tenant_id(t), &promise(8, Some(48)))).collect();
    // They claim all the while, so that no claim comes on top of a loan.
    let shared: Vec<WorkOperator> = pools.iter().map(|pool| pool.operator(false)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|thread| {
                let (pools, shared) = (&pools, &shared);
                scope.spawn(move || {
                    let mut draws = Draws(thread);
                    let mut own = Vec::new();
                    for _ in 0..20_000 {
                        let t = draws.between(0, 2) as usize;
                        let more = ByteCount(draws.between(1, MIB));
                        match draws.between(0, 3) {
                            0 => own.push(pools[t].operator(draws.between(0, 1) == 0)),
                            1 => own.truncate(draws.between(0, own.len() as u64) as usize),
                            2 if !own.is_empty() => {
                                let at = draws.next() as usize % own.len();
                                let refused = own[at].try_grow(more).is_err();
                                if refused {
                                    own[at].shrink(own[at].held());
                                }
                            }
                            // Grown and shrunk by all of them at once.
                            _ if shared[t].try_grow(more).is_ok() => shared[t].shrink(more),
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        let watch = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let sums = Sums::of(memory.sums.load(Relaxed));
                assert!(bytes(sums.claimed + sums.lent) <= mib(64), "{sums:?}");
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Relaxed);
        watch.join().expect("never more is lent than there is");
        ends.into_iter().for_each(|end| end.expect("no thread fails"));
    });
    for (operator, pool) in shared.iter().zip(&pools) {
        assert_eq!((operator.held(), pool.held()), (mib(0), mib(0)));
        assert_eq!(pool.unspillable.load(Relaxed), 0);
        assert_eq!(pool.spillers.load(Relaxed), 0);
    }
    assert_eq!((memory.claimed(), memory.lent()), (mib(24), mib(0)));
    drop(shared);
    assert_eq!(memory.claimed(), mib(0));
}

/// Threads that change the same two words all the time, each beyond the promise: what a change that comes too late added is taken back.
#[test]
fn changes_that_meet_lose_nothing() {
    let memory = WorkMemory::new(None);
    let pool = memory.tenant(tenant_id(0), &MemoryPromise::default());
    let operator = pool.operator(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    operator.try_grow(ByteCount(UNIT)).expect("there is no limit");
                    operator.shrink(ByteCount(UNIT));
                }
            });
        }
    });
    assert_eq!((operator.held(), pool.held(), memory.lent()), (mib(0), mib(0), mib(0)));
    assert_eq!(pool.unspillable.load(Relaxed), 0);
}
