//! DataFusion's memory pool over the tenant's working memory: each of its consumers is an operator there, and one that the meter hears.
//!
//! A hash join and an aggregate have one consumer each; a sort has two, one that spills and one for its merges. While a sort merges what it holds in memory, its merge asks for the same batches again, and the sort
//! gives them back one by one: so merges have as much as the sorts of their query held at most, and that is counted once ([`Operator::shared`]).

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use base::ByteCount;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use governor::{OperatorWorkMeter, StatementWorkMeter, TenantWorkMemory, WorkMemoryRefusal, WorkOperator};
use rustc_hash::FxHashMap;

/// Operators of a query that are counted each by itself; further ones are one together. A tenant can have so many in each of a few queries at a time.
const OPERATORS_MAX: usize = 4_096;

/// One query's part of its tenant's working memory.
pub(crate) struct QueryMemory {
    pool: Arc<TenantWorkMemory>,
    meter: Option<Arc<StatementWorkMeter>>,
    operators: Mutex<Operators>,
}

#[derive(Default)]
struct Operators {
    by_consumer: FxHashMap<usize, Operator>,
    /// Those beyond the most that are counted, and how many they are. It cannot spill: so it is not held to a part of what can.
    rest: Option<(Operator, usize)>,
    /// The most that sorts held at a time.
    sorts_peak: Cell<u64>,
}

struct Operator {
    memory: WorkOperator,
    heard: Option<OperatorWorkMeter>,
    role: Role,
    /// Bytes of a merge that its query's sorts held.
    shared: Cell<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Sort,
    Merge,
    Other,
}

impl Role {
    fn of(consumer: &MemoryConsumer) -> Role {
        let name = consumer.name();
        if name.starts_with("ExternalSorterMerge[") {
            Role::Merge
        } else if name.starts_with("ExternalSorter[") {
            Role::Sort
        } else {
            Role::Other
        }
    }
}

impl Operator {
    fn grow(&self, more: ByteCount) {
        self.memory.grow(more);
        self.hear(|heard| heard.grew(more));
    }

    fn try_grow(&self, more: ByteCount) -> std::result::Result<(), WorkMemoryRefusal> {
        let grown = self.memory.try_grow(more);
        self.hear(|heard| match grown {
            Ok(()) => heard.grew(more),
            Err(_) => heard.refused(),
        });
        grown
    }

    fn shrink(&self, less: ByteCount) {
        let own = less.min(self.memory.held());
        self.memory.shrink(own);
        self.hear(|heard| heard.shrank(own));
        let shared =
            self.shared.get().checked_sub(less.0 - own.0).expect("no more is given back than it holds");
        self.shared.set(shared);
    }

    /// Whether a merge has these bytes of what the sorts of its query held.
    fn share(&self, more: ByteCount, operators: &Operators) -> bool {
        if self.role != Role::Merge {
            return false;
        }
        let shared = operators.sum_of(Role::Merge, |merge| merge.shared.get());
        let has_them = shared + more.0 <= operators.sorts_peak.get();
        if has_them {
            self.shared.set(self.shared.get() + more.0);
        }
        has_them
    }

    fn hear(&self, tell: impl FnOnce(&OperatorWorkMeter)) {
        if let Some(heard) = &self.heard {
            tell(heard);
        }
    }
}

impl Operators {
    fn sum_of(&self, role: Role, what: fn(&Operator) -> u64) -> u64 {
        self.by_consumer.values().filter(|one| one.role == role).map(what).sum()
    }

    /// `operator` has grown.
    fn note_growth(&self, operator: &Operator) {
        if operator.role == Role::Sort {
            let held = self.sum_of(Role::Sort, |sort| sort.memory.held().0);
            self.sorts_peak.set(self.sorts_peak.get().max(held));
        }
    }

    fn of(&self, consumer: &MemoryConsumer) -> &Operator {
        let found = self.by_consumer.get(&consumer.id());
        found.or(self.rest.as_ref().map(|(rest, _)| rest)).expect("a consumer registers before it asks")
    }
}

impl QueryMemory {
    pub(crate) fn new(pool: Arc<TenantWorkMemory>, meter: Option<Arc<StatementWorkMeter>>) -> QueryMemory {
        QueryMemory { pool, meter, operators: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Operators> {
        self.operators.lock().expect("no panic under the operators' lock")
    }

    fn operator(&self, can_spill: bool, role: Role) -> Operator {
        let heard = self.meter.as_ref().map(StatementWorkMeter::operator);
        Operator { memory: self.pool.operator(can_spill), heard, role, shared: Cell::new(0) }
    }
}

fn bytes(len: usize) -> ByteCount {
    ByteCount(len as u64)
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "work_memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let mut operators = self.lock();
        if operators.by_consumer.len() < OPERATORS_MAX {
            operators
                .by_consumer
                .insert(consumer.id(), self.operator(consumer.can_spill(), Role::of(consumer)));
        } else {
            operators.rest.get_or_insert_with(|| (self.operator(false, Role::Other), 0)).1 += 1;
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut operators = self.lock();
        if operators.by_consumer.remove(&consumer.id()).is_some() {
            return;
        }
        let (_, count) = operators.rest.as_mut().expect("a consumer registers before it leaves");
        *count -= 1;
        if *count == 0 {
            operators.rest = None;
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let operators = self.lock();
        let operator = operators.of(reservation.consumer());
        operator.grow(bytes(additional));
        operators.note_growth(operator);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.lock().of(reservation.consumer()).shrink(bytes(shrink));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let operators = self.lock();
        let operator = operators.of(reservation.consumer());
        if operator.share(bytes(additional), &operators) {
            return Ok(());
        }
        let grown = operator.try_grow(bytes(additional));
        operators.note_growth(operator);
        grown.map_err(|refusal| {
            DataFusionError::ResourcesExhausted(format!("{}: {refusal}", reservation.consumer().name()))
        })
    }

    fn reserved(&self) -> usize {
        let operators = self.lock();
        let rest = operators.rest.iter().map(|(rest, _)| rest);
        let held: u64 = operators.by_consumer.values().chain(rest).map(|one| one.memory.held().0).sum();
        usize::try_from(held).unwrap_or(usize::MAX)
    }

    /// Always some: what the server can lend ends where there is no limit of the tenant's.
    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.pool.max().0).unwrap_or(usize::MAX))
    }
}

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryMemory({})", ByteCount(self.reserved() as u64))
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TenantId;
    use governor::{MemoryPromise, WorkMemory};

    fn pool(max: u64) -> (Arc<TenantWorkMemory>, Arc<dyn MemoryPool>) {
        let promise =
            MemoryPromise { work_memory_max: Some(ByteCount::from_mib(max)), ..MemoryPromise::default() };
        let pool = WorkMemory::new(None).tenant(TenantId(7), &promise);
        let query = QueryMemory::new(pool.clone(), None);
        (pool, Arc::new(query))
    }

    #[test]
    fn operators_share_what_their_tenant_may_have_and_give_it_back() {
        let (tenant, query) = pool(4);
        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&query);
        let join = MemoryConsumer::new("join").register(&query);
        join.try_grow(3 << 20).unwrap();
        sort.try_grow(1 << 20).unwrap();
        let error = join.try_grow(1 << 20).unwrap_err();
        assert!(error.to_string().contains("join: working memory is at its limit"), "{error}");
        assert_eq!((query.reserved(), tenant.held()), (4 << 20, ByteCount::from_mib(4)));
        // A second reservation of the same operator is the operator's.
        let other = join.new_empty();
        join.free();
        other.try_grow(2 << 20).unwrap();
        drop(join);
        assert_eq!(query.reserved(), 3 << 20);
        drop((other, sort));
        assert_eq!((query.reserved(), tenant.held()), (0, ByteCount(0)));
    }

    #[test]
    fn a_merge_of_what_a_sort_holds_is_counted_once() {
        let (tenant, query) = pool(4);
        let sort = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&query);
        let merge = MemoryConsumer::new("ExternalSorterMerge[0]").register(&query);
        merge.try_grow(1 << 20).unwrap();
        sort.try_grow(2 << 20).unwrap();
        merge.try_grow(2 << 20).expect("the sort's");
        assert_eq!(tenant.held(), ByteCount::from_mib(3));
        assert!(merge.try_grow(2 << 20).is_err(), "more than the sort has, and than is left");
        merge.try_grow(1 << 20).expect("left");
        sort.free();
        assert_eq!(tenant.held(), ByteCount::from_mib(2));
        merge.shrink(3 << 20);
        assert_eq!((merge.size(), tenant.held()), (1 << 20, ByteCount(0)));
        drop((merge, sort));
        assert_eq!(tenant.held(), ByteCount(0));
    }

    #[test]
    fn more_operators_than_are_counted_are_one() {
        let (tenant, query) = pool(1024);
        let consumers: Vec<MemoryReservation> = (0..OPERATORS_MAX + 10)
            .map(|_| MemoryConsumer::new("one").with_can_spill(true).register(&query))
            .collect();
        for one in &consumers[OPERATORS_MAX..] {
            one.try_grow(100 << 10).unwrap();
        }
        assert_eq!(query.reserved(), 10 * (100 << 10));
        assert_eq!(tenant.held(), ByteCount::from_mib(1), "1000 KiB of one operator, in units of 64 KiB");
        drop(consumers);
        assert_eq!((query.reserved(), tenant.held()), (0, ByteCount(0)));
    }
}
