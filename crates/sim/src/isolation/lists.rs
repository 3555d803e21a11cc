//! Lists that are only appended to: what a list holds tells the order of all its versions.

use std::collections::BTreeMap;

use super::graph::{Dependency, Graph};
use super::{
    Anomaly, Finding, Key, Level, Outcome, Transaction, Value, Writers, add_real_time, cycles, precedes,
};

/// What a transaction does to a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    Append(Key, Value),
    /// With what it found, an absent list being empty.
    Read(Key, Vec<Value>),
}

type History = [Transaction<Operation>];

/// What is wrong with a history, held against `level`.
///
/// # Panics
/// If a value is appended twice to a key.
pub fn check(history: &History, level: Level) -> Vec<Finding> {
    let mut writers = Writers::default();
    for (index, transaction) in history.iter().enumerate() {
        writers.note(index, &appends(transaction));
    }
    let committed = || history.iter().enumerate().filter(|(_, t)| t.outcome == Outcome::Committed);
    let mut findings: Vec<Finding> = Vec::new();
    for (index, transaction) in committed() {
        findings.extend(within(transaction));
        for (key, found) in reads(transaction) {
            findings.extend(faults_of_read(history, &writers, index, key, found));
        }
    }
    let (orders, disagreements) = version_orders(history);
    findings.extend(disagreements);
    findings.extend(stale_reads(history));
    let graph = dependencies(history, &writers, &orders);
    findings.retain(|finding| !level.allows(finding.anomaly));
    findings.extend(cycles::find(history, &graph, level));
    findings
}

fn appends(transaction: &Transaction<Operation>) -> Vec<(Key, Value)> {
    let append = |operation: &Operation| match operation {
        Operation::Append(key, value) => Some((*key, *value)),
        Operation::Read(..) => None,
    };
    transaction.operations.iter().filter_map(append).collect()
}

fn reads(transaction: &Transaction<Operation>) -> impl Iterator<Item = (Key, &Vec<Value>)> {
    transaction.operations.iter().filter_map(|operation| match operation {
        Operation::Read(key, found) => Some((*key, found)),
        Operation::Append(..) => None,
    })
}

/// Contradictions of a transaction's reads to what it did and saw before.
fn within(transaction: &Transaction<Operation>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // What each list was found to hold, and what was appended by the transaction itself.
    let mut seen: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    let mut own: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for operation in &transaction.operations {
        match operation {
            Operation::Append(key, value) => own.entry(*key).or_default().push(*value),
            Operation::Read(key, found) => {
                let own = own.get(key).map(Vec::as_slice).unwrap_or_default();
                let about = |anomaly| Finding { anomaly, evidence: format!("key {key} in {transaction:?}") };
                match found.strip_suffix(own) {
                    None => findings.push(about(Anomaly::OwnWrite)),
                    Some(foreign) => match seen.insert(*key, foreign.to_vec()) {
                        Some(before) if before != foreign => findings.push(about(Anomaly::Internal)),
                        _ => {}
                    },
                }
            }
        }
    }
    findings
}

fn faults_of_read(
    history: &History,
    writers: &Writers,
    reader: usize,
    key: Key,
    found: &[Value],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, value) in found.iter().enumerate() {
        if found[..place].contains(value) {
            let evidence = format!("{value} of key {key}, read by {:?}", history[reader]);
            findings.push(Finding { anomaly: Anomaly::Duplicate, evidence });
        }
        // Elements of one writer stand together; only the last of them can be one that it wrote over.
        let writer = |place: usize| found.get(place).and_then(|v| writers.of(key, *v)).map(|w| w.transaction);
        if place + 1 == found.len() || writer(place) != writer(place + 1) {
            findings.extend(writers.fault_of_read(history, reader, (key, *value)));
        }
    }
    findings
}

/// The order of each list's elements: what the longest read found, with which all others must agree.
fn version_orders(history: &History) -> (BTreeMap<Key, Vec<Value>>, Vec<Finding>) {
    let mut orders: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    let mut findings = Vec::new();
    let committed = history.iter().filter(|t| t.outcome == Outcome::Committed);
    for transaction in committed {
        for (key, found) in reads(transaction) {
            let order = orders.entry(key).or_default();
            let (longer, shorter) =
                if found.len() > order.len() { (found, &*order) } else { (&*order, found) };
            if !longer.starts_with(shorter) {
                let evidence = format!("key {key}: {order:?}, and in {transaction:?}");
                findings.push(Finding { anomaly: Anomaly::IncompatibleOrder, evidence });
            } else if found.len() > order.len() {
                order.clone_from(found);
            }
        }
    }
    (orders, findings)
}

/// Reads that lack what was known before their transaction began, by the acknowledgement of its commit or by a read of it.
fn stale_reads(history: &History) -> Vec<Finding> {
    let mut known: BTreeMap<Key, Vec<(usize, Value)>> = BTreeMap::new();
    for (index, transaction) in history.iter().enumerate() {
        let newest_read = reads(transaction).filter_map(|(key, found)| Some((key, *found.last()?)));
        for (key, value) in appends(transaction).into_iter().chain(newest_read) {
            known.entry(key).or_default().push((index, value));
        }
    }
    let mut findings = Vec::new();
    for reader in history.iter().filter(|t| t.outcome == Outcome::Committed) {
        for (key, found) in reads(reader) {
            let before =
                known.get(&key).into_iter().flatten().filter(|(who, _)| precedes(&history[*who], reader));
            if let Some((_, value)) = before.into_iter().find(|(_, value)| !found.contains(value)) {
                let evidence = format!("{value} of key {key}, not found by {reader:?}");
                findings.push(Finding { anomaly: Anomaly::StaleRead, evidence });
            }
        }
    }
    findings
}

fn dependencies(history: &History, writers: &Writers, orders: &BTreeMap<Key, Vec<Value>>) -> Graph {
    let mut graph = Graph::new(history.len());
    add_real_time(history, &mut graph);
    let writer = |key: Key, value: Option<&Value>| value.and_then(|value| writers.of(key, *value));
    for (key, order) in orders {
        for pair in order.windows(2) {
            if let (Some(first), Some(second)) = (writer(*key, Some(&pair[0])), writer(*key, Some(&pair[1])))
            {
                graph.add(first.transaction, second.transaction, Dependency::WriteWrite);
            }
        }
    }
    let unseen = unseen(history, orders);
    for (key, later) in &unseen {
        if let Some(last) = writer(*key, orders.get(key).and_then(|order| order.last())) {
            later.iter().for_each(|later| graph.add(last.transaction, *later, Dependency::WriteWrite));
        }
    }
    for (reader, transaction) in history.iter().enumerate() {
        if transaction.outcome != Outcome::Committed {
            continue;
        }
        let own = appends(transaction);
        for (key, found) in reads(transaction) {
            // What comes after one's own append is told by the order of writes.
            if found.iter().any(|value| own.contains(&(key, *value))) {
                continue;
            }
            if let Some(read) = writer(key, found.last()) {
                graph.add(read.transaction, reader, Dependency::WriteRead);
            }
            let order = orders.get(&key).map(Vec::as_slice).unwrap_or_default();
            if let Some(next) = writer(key, order.get(found.len())).filter(|_| order.starts_with(found)) {
                graph.add(reader, next.transaction, Dependency::ReadWrite);
            } else if found == order {
                let unseen = unseen.get(&key).into_iter().flatten();
                unseen.for_each(|later| graph.add(reader, *later, Dependency::ReadWrite));
            }
        }
    }
    graph
}

/// By list, who committed an append that nobody found: it came after all that were found, since none is ever lost.
fn unseen(history: &History, orders: &BTreeMap<Key, Vec<Value>>) -> BTreeMap<Key, Vec<usize>> {
    let mut unseen: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (index, transaction) in history.iter().enumerate().filter(|(_, t)| t.outcome == Outcome::Committed) {
        for (key, value) in appends(transaction) {
            if !orders.get(&key).is_some_and(|order| order.contains(&value)) {
                unseen.entry(key).or_default().push(index);
            }
        }
    }
    unseen
}
