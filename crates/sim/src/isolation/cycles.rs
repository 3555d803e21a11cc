//! Anomalies that are cycles of dependencies: a short one of each kind.

use super::graph::{Allowed, Dependency, Edge, Graph, Walk};
use super::{Anomaly, Finding, Level, Transaction};

/// A kind of cycle: it has an edge `first`, and goes on along `rest`.
struct Kind {
    anomaly: Anomaly,
    first: Dependency,
    rest: Allowed,
    /// Edges from reads to writes over them are never next to each other.
    apart: bool,
}

const WRITES: Allowed = |by| matches!(by, Dependency::WriteWrite | Dependency::RealTime);
const NO_READ_WRITE: Allowed = |by| by != Dependency::ReadWrite;
const ANY: Allowed = |_| true;

const KINDS: [Kind; 5] = [
    Kind { anomaly: Anomaly::G0, first: Dependency::WriteWrite, rest: WRITES, apart: false },
    Kind { anomaly: Anomaly::G1c, first: Dependency::WriteRead, rest: NO_READ_WRITE, apart: false },
    Kind { anomaly: Anomaly::GSingle, first: Dependency::ReadWrite, rest: NO_READ_WRITE, apart: false },
    Kind { anomaly: Anomaly::GNonadjacent, first: Dependency::ReadWrite, rest: ANY, apart: true },
    Kind { anomaly: Anomaly::G2Item, first: Dependency::ReadWrite, rest: ANY, apart: false },
];

/// How many beginnings of a cycle are tried to find a short one.
const BEGINNINGS_MAX: usize = 50;

/// A short cycle of each kind that `level` excludes, if there is one.
pub(super) fn find<O: std::fmt::Debug>(
    history: &[Transaction<O>],
    graph: &Graph,
    level: Level,
) -> Vec<Finding> {
    let excluded = KINDS.iter().filter(|kind| !level.allows(kind.anomaly));
    let found = excluded.filter_map(|kind| Some((kind.anomaly, short(graph, kind)?)));
    let finding = |(anomaly, walk): (Anomaly, Walk)| Finding { anomaly, evidence: told(history, &walk) };
    found.map(finding).collect()
}

fn short(graph: &Graph, kind: &Kind) -> Option<Walk> {
    let first_or_rest: Allowed = if kind.first == Dependency::ReadWrite { ANY } else { kind.rest };
    let component = graph.components(first_or_rest);
    let may_begin =
        |(from, edge): &(usize, Edge)| edge.by == kind.first && component[*from] == component[edge.to];
    let walks = graph
        .edges()
        .filter(may_begin)
        .filter_map(|(from, edge)| graph.closed_walk(from, edge, kind.rest, kind.apart))
        .filter(|walk| match kind.anomaly {
            Anomaly::GNonadjacent => read_writes(walk) > 1,
            Anomaly::G2Item => read_writes(walk) > 1 && has_neighbours(walk),
            _ => true,
        });
    walks.take(BEGINNINGS_MAX).min_by_key(Vec::len)
}

fn read_writes(walk: &Walk) -> usize {
    walk.iter().filter(|(_, by)| *by == Dependency::ReadWrite).count()
}

/// Whether two edges from reads to writes over them follow each other.
fn has_neighbours(walk: &Walk) -> bool {
    let is_rw = |place: usize| walk[place % walk.len()].1 == Dependency::ReadWrite;
    (0..walk.len()).any(|place| is_rw(place) && is_rw(place + 1))
}

fn told<O: std::fmt::Debug>(history: &[Transaction<O>], walk: &Walk) -> String {
    let step = |(node, by): &(usize, Dependency)| format!("{:?} -{by:?}->", history[*node]);
    let steps: Vec<String> = walk.iter().map(step).collect();
    format!("{} the first", steps.join(" "))
}
