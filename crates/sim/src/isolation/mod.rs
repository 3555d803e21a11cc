//! Whether a history of concurrent transactions is one that an isolation level allows, by Elle's method (Kingsbury and
//! Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020).
//!
//! A history is what clients sent and were told, nothing else. From values that are written once only, each model infers
//! in which order versions came ([`lists`] from what a list holds, [`registers`] from who read what before writing), so
//! who depends on whom; a cycle of dependencies is an anomaly, named by the kinds of its edges. What is inferred is
//! certain, so there are no false alarms; what cannot be inferred is not found.
//!
//! Two edges more than in the paper's base model: a transaction that began after another's end was told comes after it
//! in real time, which this server promises at every level, power cuts in between included.

mod cycles;
mod graph;
pub mod lists;
pub mod registers;
#[cfg(test)]
mod tests;

use std::fmt;

use rustc_hash::FxHashMap;

use graph::{Dependency, Graph};

/// A key of the history.
pub type Key = i64;
/// A value; each is written once to a key in a history.
pub type Value = i64;

/// What is known of a transaction's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its commit was acknowledged.
    Committed,
    /// It was rolled back, or refused.
    Aborted,
    /// Its client never learnt.
    Unknown,
}

/// One transaction as its client saw it: the operations that were answered, in order, and at an unknown end the last
/// one sent.
#[derive(Clone, Debug)]
pub struct Transaction<O> {
    pub operations: Vec<O>,
    pub outcome: Outcome,
    /// When its first operation was sent, in any unit that grows.
    pub began: u64,
    /// When its end was told; not used unless it committed.
    pub ended: u64,
}

/// PostgreSQL's isolation levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    ReadCommitted,
    /// Snapshot isolation.
    RepeatableRead,
    Serializable,
}

/// What may be wrong with a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    /// A read contradicts what its own transaction wrote before.
    OwnWrite,
    /// A read contradicts what its own transaction read before.
    Internal,
    /// A read returned what nobody wrote.
    Garbage,
    /// G1a: a read returned what an aborted transaction wrote.
    AbortedRead,
    /// G1b: a read returned what its writer wrote over in the same transaction.
    IntermediateRead,
    /// A list holds an element twice.
    Duplicate,
    /// Two reads of a list, neither of which begins with the other.
    IncompatibleOrder,
    /// Versions of a register of which each came before the other.
    CyclicVersions,
    /// A read missed a write that was told of, by its acknowledgement or by a read's reply, before the reader began.
    StaleRead,
    /// A cycle of writes over writes.
    G0,
    /// A cycle of writes over writes and reads of writes.
    G1c,
    /// A cycle with one read that a write came after: read skew, lost update.
    GSingle,
    /// A cycle with several reads that a write came after, none of them next to each other.
    GNonadjacent,
    /// Any other cycle: write skew.
    G2Item,
}

impl Level {
    /// Whether a history at this level may have it.
    pub fn allows(self, anomaly: Anomaly) -> bool {
        match self {
            Level::ReadCommitted => matches!(
                anomaly,
                Anomaly::Internal | Anomaly::GSingle | Anomaly::GNonadjacent | Anomaly::G2Item
            ),
            Level::RepeatableRead => anomaly == Anomaly::G2Item,
            Level::Serializable => false,
        }
    }
}

/// An anomaly that was found, with what shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub anomaly: Anomaly,
    pub evidence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.anomaly, self.evidence)
    }
}

/// Who wrote a value, and whether it wrote the same key again afterwards.
#[derive(Clone, Copy, Debug)]
struct Writer {
    transaction: usize,
    is_last: bool,
}

/// Who wrote which value of which key.
#[derive(Default)]
struct Writers(FxHashMap<(Key, Value), Writer>);

impl Writers {
    /// Notes the writes of a transaction, in order.
    fn note(&mut self, transaction: usize, writes: &[(Key, Value)]) {
        for (place, (key, value)) in writes.iter().enumerate() {
            let is_last = writes[place + 1..].iter().all(|(later, _)| later != key);
            let twice = self.0.insert((*key, *value), Writer { transaction, is_last });
            assert!(twice.is_none(), "a history writes {value} to key {key} once only");
        }
    }

    fn of(&self, key: Key, value: Value) -> Option<Writer> {
        self.0.get(&(key, value)).copied()
    }

    /// What is wrong with reading `value` as the newest version of `key`.
    fn fault_of_read<O: fmt::Debug>(
        &self,
        history: &[Transaction<O>],
        reader: usize,
        (key, value): (Key, Value),
    ) -> Option<Finding> {
        let about = |anomaly, what: &str| {
            let evidence = format!("{value} of key {key}, {what}, read by {:?}", history[reader]);
            Some(Finding { anomaly, evidence })
        };
        match self.of(key, value) {
            None => about(Anomaly::Garbage, "written by nobody"),
            Some(writer) if writer.transaction == reader => None,
            Some(writer) if history[writer.transaction].outcome == Outcome::Aborted => {
                about(Anomaly::AbortedRead, "written by an aborted transaction")
            }
            Some(writer) if !writer.is_last => about(Anomaly::IntermediateRead, "overwritten by its writer"),
            Some(_) => None,
        }
    }
}

/// Whether `first` was known to be over when `second` began.
fn precedes<O>(first: &Transaction<O>, second: &Transaction<O>) -> bool {
    first.outcome == Outcome::Committed && first.ended < second.began
}

/// Adds the order of real time among transactions that did not abort: an edge from each to those that began after its
/// end, except where others lie between.
fn add_real_time<O>(history: &[Transaction<O>], graph: &mut Graph) {
    let taking_part = || history.iter().enumerate().filter(|(_, t)| t.outcome != Outcome::Aborted);
    let begins = taking_part().map(|(index, t)| (t.began, false, index));
    let ends = taking_part().filter(|(_, t)| t.outcome == Outcome::Committed);
    let mut events: Vec<(u64, bool, usize)> =
        begins.chain(ends.map(|(index, t)| (t.ended, true, index))).collect();
    // At one instant beginnings come first, so that such transactions count as concurrent.
    events.sort_unstable();
    // Over, and no other that is over began after its end.
    let mut newest: Vec<usize> = Vec::new();
    for (_, is_end, index) in events {
        if is_end {
            newest.retain(|earlier| !precedes(&history[*earlier], &history[index]));
            newest.push(index);
        } else {
            newest.iter().for_each(|earlier| graph.add(*earlier, index, Dependency::RealTime));
        }
    }
}
