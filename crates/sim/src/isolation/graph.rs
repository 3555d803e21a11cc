//! A graph of dependencies between transactions, its strongly connected components, and walks in it.

use std::collections::VecDeque;

/// Why a transaction comes after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dependency {
    /// It wrote over the other's write.
    WriteWrite,
    /// It read the other's write.
    WriteRead,
    /// It wrote over what the other read.
    ReadWrite,
    /// It began after the other's end.
    RealTime,
}

/// Kinds of edges to walk along.
pub(super) type Allowed = fn(Dependency) -> bool;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    pub(super) to: usize,
    pub(super) by: Dependency,
}

/// Nodes are transactions by their place in the history.
pub(super) struct Graph {
    edges: Vec<Vec<Edge>>,
}

/// A closed walk: each node with the edge that leaves it.
pub(super) type Walk = Vec<(usize, Dependency)>;

impl Graph {
    pub(super) fn new(nodes: usize) -> Graph {
        Graph { edges: vec![Vec::new(); nodes] }
    }

    /// Adds an edge unless it is there or would lead back to its beginning.
    pub(super) fn add(&mut self, from: usize, to: usize, by: Dependency) {
        let edge = Edge { to, by };
        if from != to && !self.edges[from].contains(&edge) {
            self.edges[from].push(edge);
        }
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (usize, Edge)> + '_ {
        self.edges.iter().enumerate().flat_map(|(from, edges)| edges.iter().map(move |edge| (from, *edge)))
    }

    /// The strongly connected component of each node, along allowed edges: Tarjan's algorithm, with a stack of its own
    /// so that long histories do not overflow the thread's.
    pub(super) fn components(&self, allowed: Allowed) -> Vec<usize> {
        let mut search = Search::new(self.edges.len());
        for root in 0..self.edges.len() {
            if search.number[root].is_none() {
                search.explore(self, root, allowed);
            }
        }
        search.component
    }

    /// The shortest closed walk that begins with the edge `first` from `from` and goes on along allowed edges; with
    /// `apart` no two edges next to each other are [`Dependency::ReadWrite`].
    pub(super) fn closed_walk(
        &self,
        from: usize,
        first: Edge,
        allowed: Allowed,
        apart: bool,
    ) -> Option<Walk> {
        let is_rw = |by| by == Dependency::ReadWrite;
        // States are nodes, twice: reached by a ReadWrite edge or by another.
        let state = |edge: Edge| edge.to * 2 + usize::from(is_rw(edge.by));
        let mut reached_from: Vec<Option<(usize, Edge)>> = vec![None; self.edges.len() * 2];
        let mut waiting = VecDeque::from([state(first)]);
        while let Some(at) = waiting.pop_front() {
            for edge in self.edges[at / 2].iter().filter(|edge| allowed(edge.by)) {
                if apart && at % 2 == 1 && is_rw(edge.by) {
                    continue;
                }
                let closes = edge.to == from && !(apart && is_rw(edge.by) && is_rw(first.by));
                if closes {
                    return Some(unwind(&reached_from, (from, first), at, edge.by));
                }
                let next = state(*edge);
                if next != state(first) && reached_from[next].is_none() {
                    reached_from[next] = Some((at, *edge));
                    waiting.push_back(next);
                }
            }
        }
        None
    }
}

fn unwind(
    reached_from: &[Option<(usize, Edge)>],
    (from, first): (usize, Edge),
    mut at: usize,
    last: Dependency,
) -> Walk {
    let mut walk = vec![(at / 2, last)];
    while let Some((before, edge)) = reached_from[at] {
        walk.push((before / 2, edge.by));
        at = before;
    }
    walk.push((from, first.by));
    walk.reverse();
    walk
}

struct Search {
    next: usize,
    number: Vec<Option<usize>>,
    lowest: Vec<usize>,
    component: Vec<usize>,
    is_open: Vec<bool>,
    open: Vec<usize>,
}

impl Search {
    fn new(nodes: usize) -> Search {
        Search {
            next: 0,
            number: vec![None; nodes],
            lowest: vec![0; nodes],
            component: vec![0; nodes],
            is_open: vec![false; nodes],
            open: Vec::new(),
        }
    }

    fn enter(&mut self, node: usize) {
        self.number[node] = Some(self.next);
        self.lowest[node] = self.next;
        self.next += 1;
        self.open.push(node);
        self.is_open[node] = true;
    }

    fn leave(&mut self, node: usize) {
        if Some(self.lowest[node]) != self.number[node] {
            return;
        }
        // The component is named by its first node.
        loop {
            let member = self.open.pop().expect("a component ends with its first node");
            self.is_open[member] = false;
            self.component[member] = node;
            if member == node {
                return;
            }
        }
    }

    fn explore(&mut self, graph: &Graph, root: usize, allowed: Allowed) {
        self.enter(root);
        let mut path = vec![(root, 0)];
        while let Some((node, place)) = path.last_mut() {
            let node = *node;
            let Some(edge) = graph.edges[node].get(*place) else {
                path.pop();
                self.leave(node);
                if let Some((above, _)) = path.last() {
                    self.lowest[*above] = self.lowest[*above].min(self.lowest[node]);
                }
                continue;
            };
            *place += 1;
            match self.number[edge.to] {
                _ if !allowed(edge.by) => {}
                None => {
                    self.enter(edge.to);
                    path.push((edge.to, 0));
                }
                Some(number) if self.is_open[edge.to] => {
                    self.lowest[node] = self.lowest[node].min(number);
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dependency::{ReadWrite, WriteRead, WriteWrite};
    use super::*;

    fn graph(edges: &[(usize, usize, Dependency)]) -> Graph {
        let mut graph = Graph::new(8);
        edges.iter().for_each(|(from, to, by)| graph.add(*from, *to, *by));
        graph
    }

    #[test]
    fn components_are_those_along_allowed_edges() {
        let ring = [
            (0, 1, WriteWrite),
            (1, 2, WriteRead),
            (2, 0, WriteWrite),
            (2, 3, WriteWrite),
            (3, 4, ReadWrite),
        ];
        let graph = graph(&ring);
        let all = graph.components(|_| true);
        assert!(all[0] == all[1] && all[1] == all[2] && all[2] != all[3] && all[3] != all[4]);
        let writes = graph.components(|by| by == WriteWrite);
        assert!(writes[0] != writes[1] && writes[1] != writes[2]);
    }

    #[test]
    fn long_chains_do_not_overflow_the_stack() {
        let nodes = 200_000;
        let mut graph = Graph::new(nodes);
        (0..nodes).for_each(|node| graph.add(node, (node + 1) % nodes, WriteWrite));
        let components = graph.components(|_| true);
        assert!(components.iter().all(|component| *component == components[0]));
    }

    #[test]
    fn closed_walks_keep_reads_apart_when_asked() {
        let skew = graph(&[(0, 1, ReadWrite), (1, 0, ReadWrite)]);
        let first = Edge { to: 1, by: ReadWrite };
        assert_eq!(skew.closed_walk(0, first, |_| true, false).unwrap(), [(0, ReadWrite), (1, ReadWrite)]);
        assert!(skew.closed_walk(0, first, |_| true, true).is_none());
        let apart = graph(&[(0, 1, ReadWrite), (1, 2, WriteWrite), (2, 3, ReadWrite), (3, 0, WriteRead)]);
        assert_eq!(apart.closed_walk(0, first, |_| true, true).unwrap().len(), 4);
    }
}
