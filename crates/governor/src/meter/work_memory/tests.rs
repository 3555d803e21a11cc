//! Who has what was promised misses nothing, and a pool that does not give it is found out.

use proptest::prelude::*;

use super::*;
use crate::fixture::{Draws, tenant_id};
use crate::promise::MemoryPromise;
use crate::work_memory::{WorkMemory, WorkOperator};

const MIB: u64 = 1 << 20;
const SECOND: Nanos = Nanos::from_secs(1);

fn terms(promised: u64) -> WorkMemoryTerms {
    WorkMemoryTerms { promised: ByteCount(promised * MIB), penalty_micros: 10 }
}

/// What a broken pool does to an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    RefusesAt(u64),
    LendsAnything,
}

/// A sort that is fed by a pool: refused, it spills what it holds and asks again.
struct Sort {
    operator: WorkOperator,
    meter: OperatorWorkMeter,
    statement: Arc<StatementWorkMeter>,
    fault: Fault,
    has_spilled: bool,
}

impl Sort {
    fn feed(&mut self, bytes: u64) {
        let bytes = ByteCount(bytes);
        if !self.try_grow(bytes) {
            self.meter.refused();
            self.spill();
            // What does not fit although nothing is held is taken all the same.
            if !self.try_grow(bytes) {
                self.operator.grow(bytes);
            }
        }
        self.meter.grew(bytes);
    }

    fn try_grow(&self, bytes: ByteCount) -> bool {
        match self.fault {
            Fault::RefusesAt(held) if self.operator.held() + bytes > ByteCount(held) => false,
            Fault::LendsAnything => {
                self.operator.grow(bytes);
                true
            }
            _ => self.operator.try_grow(bytes).is_ok(),
        }
    }

    fn spill(&mut self) {
        let held = self.operator.held();
        if held > ByteCount(0) {
            self.has_spilled = true;
            self.statement.spilled(held);
            self.operator.shrink(held);
            self.meter.shrank(held);
        }
    }

    /// The data is read back: it gives back what it holds, spilling it if it has spilled before.
    fn finish(mut self) {
        if self.has_spilled {
            self.meter.refused();
            self.spill();
        }
    }
}

fn sort(
    meter: &Arc<WorkMemoryMeter>,
    pool: &Arc<crate::work_memory::TenantWorkMemory>,
    tenant: TenantId,
    now: Nanos,
    fault: Fault,
) -> (Arc<StatementWorkMeter>, Sort) {
    let statement = meter.statement(tenant, now);
    let own = statement.clone();
    let sort = Sort {
        operator: pool.operator(true),
        meter: own.operator(),
        statement: own,
        fault,
        has_spilled: false,
    };
    (statement, sort)
}

fn one_sort(fault: Fault, mib: u64) -> LedgerRow {
    let (memory, meter) = (WorkMemory::new(Some(ByteCount(64 * MIB))), WorkMemoryMeter::new());
    let tenant = tenant_id(0);
    let promise = MemoryPromise { work_memory: ByteCount(64 * MIB), ..MemoryPromise::default() };
    let pool = memory.tenant(tenant, &promise);
    meter.set_terms(tenant, terms(64));
    let (statement, mut sort) = sort(&meter, &pool, tenant, Nanos(0), fault);
    (0..mib).for_each(|_| sort.feed(MIB));
    sort.finish();
    statement.end(Nanos(500_000_000));
    let rows = meter.close(Nanos(0), SECOND, Some(ByteCount(64 * MIB)));
    assert_eq!(rows[0].needs.max(), mib * MIB);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.ledger.active, row.ledger.from, row.ledger.to), (Nanos(500_000_000), Nanos(0), SECOND));
    row.ledger
}

#[test]
fn a_sort_larger_than_its_promise_may_spill_all_of_it() {
    let row = one_sort(Fault::None, 100);
    assert_eq!((row.promised, row.demanded, row.given, row.missed), (1600, 1600, 1600, 0));
    assert!(row.is_kept());
    let row = one_sort(Fault::None, 64);
    assert_eq!((row.promised, row.given), (0, 0), "exactly what was promised is held");
    let row = one_sort(Fault::LendsAnything, 100);
    assert_eq!((row.promised, row.given, row.missed), (1600, 0, 0), "lent more, it spills less");
}

#[test]
fn a_pool_that_refuses_what_was_promised_is_found_out() {
    let row = one_sort(Fault::RefusesAt(10 * MIB), 40);
    assert_eq!((row.promised, row.given, row.missed), (0, 640, 640));
    assert_eq!((row.cause, row.owed_micros), (Some(Cause::Neighbour), 6400));
}

#[test]
fn where_nothing_is_promised_nothing_is_missed() {
    let (memory, meter) = (WorkMemory::new(Some(ByteCount(MIB))), WorkMemoryMeter::new());
    let pool = memory.tenant(tenant_id(0), &MemoryPromise::default());
    let (statement, mut sort) = sort(&meter, &pool, tenant_id(0), Nanos(0), Fault::None);
    (0..10).for_each(|_| sort.feed(MIB / 2));
    sort.finish();
    statement.end(SECOND);
    let row = meter.close(Nanos(0), SECOND, None)[0].ledger;
    assert_eq!((row.promised, row.given, row.missed, row.cause), (0, 80, 0, None));
}

#[test]
fn more_operators_than_there_is_memory_for_are_overbooking() {
    let (memory, meter) = (WorkMemory::new(Some(ByteCount(10 * MIB))), WorkMemoryMeter::new());
    let tenant = tenant_id(0);
    let promise = MemoryPromise { work_memory: ByteCount(8 * MIB), ..MemoryPromise::default() };
    let pool = memory.tenant(tenant, &promise);
    meter.set_terms(tenant, terms(8));
    // One after the other they have room.
    for _ in 0..2 {
        let (statement, mut sort) = sort(&meter, &pool, tenant, Nanos(0), Fault::None);
        (0..6).for_each(|_| sort.feed(MIB));
        sort.finish();
        statement.end(SECOND);
    }
    let row = meter.close(Nanos(0), SECOND, Some(ByteCount(10 * MIB)))[0].ledger;
    assert_eq!(row.missed, 0);
    // Both at a time they were promised 16 MiB of 10.
    let mut sorts: Vec<_> = (0..2).map(|_| sort(&meter, &pool, tenant, SECOND, Fault::None)).collect();
    for _ in 0..6 {
        sorts.iter_mut().for_each(|(_, sort)| sort.feed(MIB));
    }
    for (statement, sort) in sorts {
        sort.finish();
        statement.end(SECOND + SECOND);
    }
    let row = meter.close(SECOND, SECOND + SECOND, Some(ByteCount(10 * MIB)))[0].ledger;
    assert!(row.missed > 0);
    assert_eq!(row.cause, Some(Cause::Overbooked));
}

#[test]
fn what_is_given_back_without_a_refusal_was_not_spilled() {
    let meter = WorkMemoryMeter::new();
    meter.set_terms(tenant_id(0), terms(1));
    let statement = meter.statement(tenant_id(0), Nanos(0));
    let operator = statement.operator();
    // Refused once, it went on with a window that slides over much data.
    operator.refused();
    for _ in 0..100 {
        operator.grew(ByteCount(MIB / 2));
        operator.shrank(ByteCount(MIB / 2));
    }
    drop(operator);
    statement.end(SECOND);
    let rows = meter.close(Nanos(0), SECOND, None);
    assert_eq!((rows[0].ledger.promised, rows[0].needs.max()), (0, MIB / 2));
}

#[test]
fn what_a_statement_spills_is_priced_as_it_was_promised() {
    let meter = WorkMemoryMeter::new();
    let tenant = tenant_id(0);
    let terms_at = |penalty_micros| WorkMemoryTerms { penalty_micros, ..terms(1) };
    let begin = |penalty_micros| {
        meter.set_terms(tenant, terms_at(penalty_micros));
        meter.statement(tenant, Nanos(0))
    };
    let (dear, cheap) = (begin(10), begin(4));
    dear.spilled(ByteCount(MIB));
    cheap.spilled(ByteCount(2 * MIB));
    // What it costs from now on is for what begins from now on.
    meter.set_terms(tenant, terms_at(0));
    [dear, cheap].iter().for_each(|statement| statement.end(SECOND));
    let row = meter.close(Nanos(0), SECOND, None)[0].ledger;
    assert_eq!((row.missed, row.owed_micros), (48, 16 * 10 + 32 * 4));
}

#[test]
fn a_statement_counts_where_it_ends_and_is_active_all_the_while() {
    let meter = WorkMemoryMeter::new();
    let tenant = tenant_id(0);
    meter.set_terms(tenant, terms(1));
    let statement = meter.statement(tenant, Nanos(250_000_000));
    statement.spilled(ByteCount(3 * MIB));
    meter.forget(tenant);
    let first = meter.close(Nanos(0), SECOND, None)[0].ledger;
    assert_eq!((first.given, first.active), (0, Nanos(750_000_000)));
    statement.end(Nanos(1_500_000_000));
    let second = meter.close(SECOND, SECOND + SECOND, None)[0].ledger;
    assert_eq!((second.given, second.missed, second.active), (48, 48, Nanos(500_000_000)));
    assert!(meter.close(SECOND, SECOND, None).is_empty() && meter.lock().is_empty());
}

proptest! {
    /// Tenants with one sort at a time, whose promises fit, beside others who were promised nothing and take what they can: no promise is
    /// broken, whoever comes first. Take away the memory of one, and the ledger says that, and of nobody else.
    #[test]
    fn promises_that_fit_are_kept_beside_anybody(seed in any::<u64>(), tenants in 2..6usize, is_faulty in any::<bool>()) {
        let mut draws = Draws(seed);
        let promised: Vec<u64> = (0..tenants).map(|t| if t % 2 == 0 { draws.between(1, 20) } else { 0 }).collect();
        let capacity = ByteCount(MIB * (promised.iter().sum::<u64>() + draws.between(0, 30)));
        let (memory, meter) = (WorkMemory::new(Some(capacity)), WorkMemoryMeter::new());
        let pools: Vec<_> = (0..tenants).map(|t| {
            meter.set_terms(tenant_id(t), terms(promised[t]));
            memory.tenant(tenant_id(t), &MemoryPromise { work_memory: ByteCount(promised[t] * MIB), ..MemoryPromise::default() })
        }).collect();
        let fault = |t: usize| if is_faulty && t == 0 { Fault::RefusesAt(promised[0] * MIB / 2) } else { Fault::None };
        let mut running: Vec<Option<(Arc<StatementWorkMeter>, Sort, u64)>> = (0..tenants).map(|_| None).collect();
        let mut would_miss = false;
        for step in 0..200 {
            let t = draws.between(0, tenants as u64 - 1) as usize;
            match &mut running[t] {
                None => {
                    let (statement, sort) = sort(&meter, &pools[t], tenant_id(t), Nanos(step), fault(t));
                    running[t] = Some((statement, sort, 0));
                }
                Some((_, sort, fed)) if draws.between(0, 5) > 0 => {
                    let bytes = draws.between(1, 3 * MIB);
                    *fed += bytes;
                    sort.feed(bytes);
                }
                Some(_) => {
                    let (statement, sort, fed) = running[t].take().expect("it runs");
                    would_miss |= t == 0 && sort.has_spilled && fed <= promised[0] * MIB;
                    sort.finish();
                    statement.end(Nanos(step));
                }
            }
        }
        for (t, running) in running.into_iter().enumerate() {
            if let Some((statement, sort, fed)) = running {
                would_miss |= t == 0 && sort.has_spilled && fed <= promised[0] * MIB;
                sort.finish();
                statement.end(Nanos(200));
            }
        }
        let rows = meter.close(Nanos(0), SECOND, Some(capacity));
        for row in rows {
            let is_broken = row.ledger.tenant == tenant_id(0) && would_miss;
            prop_assert_eq!(row.ledger.missed > 0, is_broken, "{:?}", row.ledger);
            prop_assert_eq!(row.ledger.cause, is_broken.then_some(Cause::Neighbour));
        }
        prop_assert!(is_faulty || !would_miss);
        prop_assert_eq!(meter.demanded.load(Relaxed), 0);
    }
}

#[test]
fn operators_whose_promises_pass_64_bits_together_are_overbooked() {
    let (meter, tenant) = (WorkMemoryMeter::new(), tenant_id(0));
    meter.set_terms(tenant, WorkMemoryTerms { promised: ByteCount(1 << 60), penalty_micros: 0 });
    let statement = meter.statement(tenant, Nanos(0));
    let operators: Vec<OperatorWorkMeter> = (0..32).map(|_| statement.operator()).collect();
    statement.spilled(ByteCount(MIB));
    drop(operators);
    statement.end(Nanos(5));
    let row = meter.close(Nanos(0), SECOND, Some(ByteCount(1 << 40)))[0].ledger;
    assert_eq!((row.missed, row.cause), (16, Some(Cause::Overbooked)));
    assert_eq!(meter.demanded.load(Relaxed), 0);
}

#[test]
fn a_statement_without_operators_is_no_sample() {
    let meter = WorkMemoryMeter::new();
    let plain = meter.statement(tenant_id(0), Nanos(0));
    let sorts = meter.statement(tenant_id(0), Nanos(0));
    sorts.operator().grew(ByteCount(MIB));
    // It asked for nothing, and might have.
    let counts = meter.statement(tenant_id(0), Nanos(0));
    drop(counts.operator());
    [plain, sorts, counts].iter().for_each(|statement| statement.end(Nanos(5)));
    let rows = meter.close(Nanos(0), SECOND, None);
    assert_eq!(rows[0].needs.ranges().collect::<Vec<_>>(), [(0, 0, 1), (MIB, MIB, 1)]);
}

#[test]
fn nothing_is_kept_of_a_tenant_that_is_gone_and_whose_statement_comes_late() {
    let meter = WorkMemoryMeter::new();
    let [gone, there] = [0, 1].map(tenant_id);
    for tenant in [gone, there] {
        meter.set_terms(tenant, terms(1));
    }
    meter.forget(gone);
    assert!(meter.close(Nanos(0), SECOND, None).is_empty());
    // It waited for a thread.
    let late = meter.statement(gone, SECOND);
    assert_eq!(meter.close(SECOND, SECOND + SECOND, None).len(), 1, "it is under way");
    late.end(SECOND + SECOND);
    meter.close(SECOND + SECOND, SECOND + SECOND + SECOND, None);
    assert_eq!(meter.lock().keys().copied().collect::<Vec<_>>(), [there]);
    // One that is made known is kept from then on.
    let early = meter.statement(gone, SECOND);
    meter.set_terms(gone, terms(1));
    early.end(SECOND);
    meter.close(SECOND, SECOND + SECOND, None);
    assert_eq!(meter.lock().len(), 2);
}
