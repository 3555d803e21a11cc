//! Working memory: what the sorts, hashes and overlays of each tenant may hold before they spill.
//!
//! A tenant is promised `work_memory` for all its operators together, and has it whenever it asks. Beyond that it may hold `work_memory_max`; what is between the two is a *loan* out of
//! what the server has ([`WorkMemory`]) and those who have operators were not promised: `claimed + lent ≤ capacity`, where `claimed` sums the promises of tenants with
//! operators. Example: capacity 100 MiB, A and B promised 30 each, only A has operators: it may hold 100, 70 of them lent. B's first operator claims 30: A's operators are refused
//! more until its loan is down to 40, which spilling brings about; B has its 30 at once, so that for this while 130 may be held. Promises of tenants
//! without operators are lent, so a loan is taken back by refusing: an operator that can spill spills then, and gives back what it held.
//!
//! [`WorkOperator::try_grow`] refuses with the reason; an operator that cannot spill fails its statement with it (53200), and nobody else notices. No operator takes what another one of its tenant needs to go on:
//!
//! * Under a `work_memory_max` those that can spill have equal parts of what the others leave of it, of seven eighths at most, or of the promise if that is more. One that holds more than its part, since it began when there were
//!   fewer, is refused more, so the limit can be exceeded until it spills. Those that cannot spill never exceed it.
//! * Where there is nothing to lend, a quarter of the promise is there for those that cannot spill and the rest for those that can, in equal parts, whatever the others hold. So a tenant can hold up to twice its promise until those that hold more than
//!   their part next ask.
//!
//! Called by any thread, workers and analytical threads alike, so there is no lock: each tenant's promise, operators and bytes are one word, and so are the server's two sums.
//! A change adds to the server's sums before it is made and takes from them after it was made, so they are never less than what is true. Bytes are granted in units of 64 KiB, so most requests touch neither
//! word. Whoever audits this is told the same requests and asks nothing here ([`crate::WorkMemoryMeter`]).

mod operator;
mod tenant;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::{ByteCount, TenantId};

pub use operator::WorkOperator;
pub use tenant::TenantWorkMemory;

use crate::promise::MemoryPromise;

/// What is granted at once.
const UNIT: u64 = 64 << 10;

/// Units that a field of a word can count: 1 TiB. More than that is not granted to a tenant, nor lent by a server.
const UNITS_MAX: u64 = (1 << 24) - 1;

/// In whole units, rounded up.
fn units(bytes: ByteCount) -> u64 {
    bytes.0.div_ceil(UNIT).min(UNITS_MAX)
}

fn bytes(units: u64) -> ByteCount {
    ByteCount(units * UNIT)
}

/// Why memory was refused. All of them are 53200 to a client, where the operator cannot spill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkMemoryRefusal {
    /// The tenant would hold more than its `work_memory_max`, or the operator more than its part of it.
    Limit { tenant: TenantId, held: ByteCount, wanted: ByteCount, max: ByteCount },
    /// More than was promised, and the server has nothing left to lend, or wants back what it lent.
    NothingToLend { tenant: TenantId, held: ByteCount, wanted: ByteCount, promised: ByteCount },
}

impl fmt::Display for WorkMemoryRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkMemoryRefusal::Limit { held, wanted, max, .. } => {
                write!(
                    f,
                    "working memory is at its limit: {wanted} wanted, {held} held, work_memory_max is {max}"
                )
            }
            WorkMemoryRefusal::NothingToLend { held, wanted, promised, .. } => write!(
                f,
                "the server has no working memory to lend: {wanted} wanted, {held} held, work_memory is {promised}"
            ),
        }
    }
}
impl std::error::Error for WorkMemoryRefusal {}

/// The server's two sums, in units: a word of `claimed` and `lent`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sums {
    claimed: u64,
    lent: u64,
}

impl Sums {
    fn of(word: u64) -> Sums {
        Sums { claimed: word >> 24, lent: word & UNITS_MAX }
    }

    /// As one word: 1 TiB lent, and 65,536 tenants that were each promised as much.
    fn word(self) -> u64 {
        assert!(self.claimed < 1 << 40 && self.lent <= UNITS_MAX, "{self:?}");
        self.claimed << 24 | self.lent
    }
}

/// The server's working memory: what is lent beyond promises. One a server.
pub struct WorkMemory {
    sums: AtomicU64,
    /// In units; `u64::MAX`: all that anybody wants.
    capacity: AtomicU64,
}

impl WorkMemory {
    /// Of so many bytes, rounded up to 64 KiB; `None`: whatever anybody wants is lent.
    pub fn new(capacity: Option<ByteCount>) -> Arc<WorkMemory> {
        let memory = WorkMemory { sums: AtomicU64::new(0), capacity: AtomicU64::new(0) };
        memory.set_capacity(capacity);
        Arc::new(memory)
    }

    /// Changes how much there is. Less than is claimed and lent: loans are taken back.
    pub fn set_capacity(&self, capacity: Option<ByteCount>) {
        self.capacity.store(capacity.map_or(u64::MAX, |capacity| capacity.0.div_ceil(UNIT)), Relaxed);
    }

    /// A tenant's part of it. One for each tenant, made when it is opened or created and kept with it.
    pub fn tenant(self: &Arc<Self>, tenant: TenantId, promise: &MemoryPromise) -> Arc<TenantWorkMemory> {
        TenantWorkMemory::new(self.clone(), tenant, promise)
    }

    /// Promised to tenants that have operators.
    pub fn claimed(&self) -> ByteCount {
        bytes(Sums::of(self.sums.load(Relaxed)).claimed)
    }

    /// Held beyond promises.
    pub fn lent(&self) -> ByteCount {
        bytes(Sums::of(self.sums.load(Relaxed)).lent)
    }

    /// Whether more is claimed and lent than there is: those with loans are refused more.
    fn is_short(&self) -> bool {
        let sums = Sums::of(self.sums.load(Relaxed));
        sums.claimed + sums.lent > self.capacity.load(Relaxed)
    }

    /// Adds to the sums if there is room for it, or if it `must`: claims need none, they were promised.
    fn add(&self, added: Sums, must: bool) -> bool {
        let capacity = self.capacity.load(Relaxed);
        let add = |word| {
            let sums = Sums::of(word);
            let sums = Sums { claimed: sums.claimed + added.claimed, lent: sums.lent + added.lent };
            let has_room = sums.claimed + sums.lent <= capacity && sums.lent <= UNITS_MAX;
            (must || has_room).then(|| sums.word())
        };
        self.sums.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    fn take(&self, taken: Sums) {
        let take = |word| {
            let sums = Sums::of(word);
            let less = |sum: u64, taken| sum.checked_sub(taken).expect("no more is taken than was added");
            Some(
                Sums { claimed: less(sums.claimed, taken.claimed), lent: less(sums.lent, taken.lent) }.word(),
            )
        };
        self.sums.fetch_update(Relaxed, Relaxed, take).expect("always a new word");
    }
}
