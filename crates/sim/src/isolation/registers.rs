//! Registers that are read and written: a version came after another if its writer had read that one, or began after
//! that one's writer had ended; and after the empty beginning in any case.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Dependency, Edge, Graph};
use super::{
    Anomaly, Finding, Key, Level, Outcome, Transaction, Value, Writers, add_real_time, cycles, precedes,
};

/// What a transaction does to a register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    Write(Key, Value),
    /// With what it found; `None` before the first write.
    Read(Key, Option<Value>),
}

type History = [Transaction<Operation>];
/// Which version directly came before which, in one register.
type Order = BTreeSet<(Option<Value>, Value)>;

/// What is wrong with a history, held against `level`.
///
/// # Panics
/// If a value is written twice to a key.
pub fn check(history: &History, level: Level) -> Vec<Finding> {
    let mut writers = Writers::default();
    for (index, transaction) in history.iter().enumerate() {
        writers.note(index, &writes(transaction));
    }
    let mut findings: Vec<Finding> = Vec::new();
    for (index, transaction) in history.iter().enumerate().filter(|(_, t)| t.outcome == Outcome::Committed) {
        findings.extend(within(transaction));
        let read = reads(transaction).filter_map(|(key, found)| found.map(|value| (key, value)));
        findings.extend(read.filter_map(|read| writers.fault_of_read(history, index, read)));
    }
    let orders = version_orders(history);
    findings.extend(orders.iter().filter_map(|(key, order)| cyclic(*key, order)));
    let graph = dependencies(history, &writers, &orders);
    findings.extend(stale_reads(history, &graph));
    findings.retain(|finding| !level.allows(finding.anomaly));
    findings.extend(cycles::find(history, &graph, level));
    findings
}

fn writes(transaction: &Transaction<Operation>) -> Vec<(Key, Value)> {
    let write = |operation: &Operation| match operation {
        Operation::Write(key, value) => Some((*key, *value)),
        Operation::Read(..) => None,
    };
    transaction.operations.iter().filter_map(write).collect()
}

fn reads(transaction: &Transaction<Operation>) -> impl Iterator<Item = (Key, Option<Value>)> + '_ {
    transaction.operations.iter().filter_map(|operation| match operation {
        Operation::Read(key, found) => Some((*key, *found)),
        Operation::Write(..) => None,
    })
}

/// Reads of what others wrote: those before the transaction's own first write of the key.
fn foreign_reads(transaction: &Transaction<Operation>) -> Vec<(Key, Option<Value>)> {
    let mut written = BTreeSet::new();
    let mut foreign = Vec::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Write(key, _) => drop(written.insert(*key)),
            Operation::Read(key, found) if !written.contains(key) => foreign.push((*key, *found)),
            Operation::Read(..) => {}
        }
    }
    foreign
}

/// The last write of each key: the others nobody may see.
fn installed(transaction: &Transaction<Operation>) -> BTreeMap<Key, Value> {
    writes(transaction).into_iter().collect()
}

/// Contradictions of a transaction's reads to what it did and saw before.
fn within(transaction: &Transaction<Operation>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // What each register must hold, and whether by the transaction's own write.
    let mut known: BTreeMap<Key, (Option<Value>, bool)> = BTreeMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Write(key, value) => drop(known.insert(*key, (Some(*value), true))),
            Operation::Read(key, found) => {
                let (expected, is_own) = *known.entry(*key).or_insert((*found, false));
                if expected != *found {
                    let anomaly = if is_own { Anomaly::OwnWrite } else { Anomaly::Internal };
                    findings.push(Finding { anomaly, evidence: format!("key {key} in {transaction:?}") });
                    known.insert(*key, (*found, is_own));
                }
            }
        }
    }
    findings
}

/// Whether a transaction's writes count: it committed, or somebody who committed read them.
fn took_effect(history: &History) -> Vec<bool> {
    let committed = || history.iter().filter(|t| t.outcome == Outcome::Committed);
    let read: BTreeSet<(Key, Value)> =
        committed().flat_map(reads).filter_map(|(key, found)| Some((key, found?))).collect();
    let seen = |t: &Transaction<Operation>| installed(t).into_iter().any(|write| read.contains(&write));
    history.iter().map(|t| t.outcome == Outcome::Committed || seen(t)).collect()
}

fn version_orders(history: &History) -> BTreeMap<Key, Order> {
    let mut orders: BTreeMap<Key, Order> = BTreeMap::new();
    let mut writers: BTreeMap<Key, Vec<(&Transaction<Operation>, Value)>> = BTreeMap::new();
    for (transaction, _) in history.iter().zip(took_effect(history)).filter(|(_, counts)| *counts) {
        let installed = installed(transaction);
        for (key, found) in foreign_reads(transaction) {
            if let Some(value) = installed.get(&key) {
                orders.entry(key).or_default().insert((found, *value));
            }
        }
        for (key, value) in installed {
            writers.entry(key).or_default().push((transaction, value));
        }
    }
    for (key, writers) in writers {
        let order = orders.entry(key).or_default();
        order.extend(in_real_time(&writers));
        for (_, value) in &writers {
            if order.iter().all(|(_, after)| after != value) {
                order.insert((None, *value));
            }
        }
    }
    orders
}

/// Pairs of writes of which one was over before the other began, with none in between.
fn in_real_time(writers: &[(&Transaction<Operation>, Value)]) -> Vec<(Option<Value>, Value)> {
    let mut pairs = Vec::new();
    for (second, after) in writers {
        let earlier: Vec<_> = writers.iter().filter(|(first, _)| precedes(first, second)).collect();
        let latest_begin = earlier.iter().map(|(first, _)| first.began).max().unwrap_or(0);
        let direct = earlier.iter().filter(|(first, _)| first.ended >= latest_begin);
        pairs.extend(direct.map(|(_, before)| (Some(*before), *after)));
    }
    pairs
}

/// Versions that each came before the other.
fn cyclic(key: Key, order: &Order) -> Option<Finding> {
    let versions: Vec<Option<Value>> = order
        .iter()
        .flat_map(|(before, after)| [*before, Some(*after)])
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let place = |version: &Option<Value>| versions.binary_search(version).expect("collected above");
    let mut graph = Graph::new(versions.len());
    for (before, after) in order {
        graph.add(place(before), place(&Some(*after)), Dependency::WriteWrite);
    }
    let component = graph.components(|_| true);
    let (from, edge): (usize, Edge) =
        graph.edges().find(|(from, edge)| component[*from] == component[edge.to])?;
    let evidence =
        format!("key {key}: {:?} and {:?} each before the other", versions[from], versions[edge.to]);
    Some(Finding { anomaly: Anomaly::CyclicVersions, evidence })
}

fn dependencies(history: &History, writers: &Writers, orders: &BTreeMap<Key, Order>) -> Graph {
    let mut graph = Graph::new(history.len());
    add_real_time(history, &mut graph);
    let mut readers: BTreeMap<(Key, Option<Value>), Vec<usize>> = BTreeMap::new();
    for (reader, transaction) in history.iter().enumerate().filter(|(_, t)| t.outcome == Outcome::Committed) {
        for (key, found) in foreign_reads(transaction) {
            readers.entry((key, found)).or_default().push(reader);
            if let Some(read) = found.and_then(|value| writers.of(key, value)) {
                graph.add(read.transaction, reader, Dependency::WriteRead);
            }
        }
    }
    for (key, order) in orders {
        for (before, after) in order {
            let Some(second) = writers.of(*key, *after) else { continue };
            if let Some(first) = before.and_then(|before| writers.of(*key, before)) {
                graph.add(first.transaction, second.transaction, Dependency::WriteWrite);
            }
            for reader in readers.get(&(*key, *before)).into_iter().flatten() {
                graph.add(*reader, second.transaction, Dependency::ReadWrite);
            }
        }
    }
    graph
}

/// Reads of a version that was known to be written over before their transaction began, by the acknowledgement of that
/// commit or by a read of it.
fn stale_reads(history: &History, graph: &Graph) -> Vec<Finding> {
    let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (writer, edge) in graph.edges().filter(|(_, edge)| edge.by == Dependency::WriteRead) {
        readers.entry(writer).or_default().push(edge.to);
    }
    let stale = |(reader, edge): &(usize, Edge)| {
        let knew = readers.get(&edge.to).into_iter().flatten().chain([&edge.to]);
        edge.by == Dependency::ReadWrite
            && knew.into_iter().any(|who| precedes(&history[*who], &history[*reader]))
    };
    let finding = |(reader, edge): (usize, Edge)| Finding {
        anomaly: Anomaly::StaleRead,
        evidence: format!("{:?} was not seen by {:?}", history[edge.to], history[reader]),
    };
    graph.edges().filter(stale).map(finding).collect()
}
