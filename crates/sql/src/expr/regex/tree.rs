//! What a pattern is parsed into: a tree of what the positions of its groups depend on, and regular expressions as its leaves.

use std::cell::OnceCell;
use std::rc::Rc;

use super::char_set::CharSet;
use super::program::Program;

/// An expression in the strict sense: a set of strings, and where they may stand. Of groups it knows nothing.
#[derive(Clone, Debug)]
pub(super) enum Re {
    Empty,
    Set(Rc<CharSet>),
    /// Shared, as alternatives are: what stands around a group has it too, level by level.
    Cat(Rc<Vec<Re>>),
    Alt(Rc<Vec<Re>>),
    Repeat {
        of: Rc<Re>,
        least: u32,
        most: Option<u32>,
    },
    Assert(Assertion),
    Look(Rc<Look>),
    /// Any text at all, for what is known only when a group has matched.
    Anything,
}

impl Re {
    /// `self` followed by `next`.
    pub(super) fn then(self, next: Re) -> Re {
        match (self, next) {
            (Re::Empty, other) | (other, Re::Empty) => other,
            (Re::Cat(mut parts), next) => {
                Rc::make_mut(&mut parts).push(next);
                Re::Cat(parts)
            }
            (first, next) => Re::Cat(Rc::new(vec![first, next])),
        }
    }

    /// Nothing is itself however often it is repeated: so each round of a repetition has a state at least, and their number bounds
    /// what repetitions within repetitions take.
    pub(super) fn repeat(self, least: u32, most: Option<u32>) -> Re {
        match (self, least, most) {
            (Re::Empty, ..) | (_, _, Some(0)) => Re::Empty,
            (re, 1, Some(1)) => re,
            (re, least, most) => Re::Repeat { of: Rc::new(re), least, most },
        }
    }

    /// What matches the same texts read from their ends.
    pub(super) fn reversed(&self) -> Re {
        match self {
            Re::Cat(parts) => Re::Cat(Rc::new(parts.iter().rev().map(Re::reversed).collect())),
            Re::Alt(parts) => Re::Alt(Rc::new(parts.iter().map(Re::reversed).collect())),
            Re::Repeat { of, least, most } => {
                Re::Repeat { of: Rc::new(of.reversed()), least: *least, most: *most }
            }
            other => other.clone(),
        }
    }
}

/// A condition on a position between two characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Assertion {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordBoundary,
    NotWordBoundary,
}

/// What must, or must not, follow or go before a position.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) behind: bool,
    pub(super) negated: bool,
    /// Reversed, if it is about what goes before.
    pub(super) part: Part,
}

/// Whether a longer match is better, and what a node has within. PostgreSQL's `regguts.h` has the rules.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Traits(u8);

impl Traits {
    pub(super) const LONGER: Traits = Traits(1);
    pub(super) const SHORTER: Traits = Traits(2);
    const MIXED: Traits = Traits(4);
    pub(super) const GROUP: Traits = Traits(8);
    pub(super) const BACKREF: Traits = Traits(16);
    /// What a node has because of its children.
    const UP: u8 = 4 | 8 | 16;

    pub(super) fn has(self, of: Traits) -> bool {
        self.0 & of.0 != 0
    }

    pub(super) fn with(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }

    pub(super) fn is_mixed(self) -> bool {
        self.has(Traits::MIXED)
    }

    /// Whether it prefers a longer or a shorter match, or does not care.
    pub(super) fn preference(self) -> Traits {
        Traits(self.0 & 3)
    }

    pub(super) fn up(self) -> Traits {
        let mixed = if self.0 & 3 == 3 { Traits::MIXED.0 } else { 0 };
        Traits(self.0 & Traits::UP | mixed)
    }

    /// Whether where its parts match has to be found out one by one.
    pub(super) fn is_messy(self) -> bool {
        self.0 & Traits::UP != 0
    }

    pub(super) fn combine(self, other: Traits) -> Traits {
        let preference = if self.preference().0 != 0 { self.preference() } else { other.preference() };
        self.with(other).up().with(preference)
    }
}

/// A regular expression with its programs, which are made when they are first wanted.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) re: Re,
    pub(super) forward: OnceCell<Rc<Program>>,
    pub(super) backward: OnceCell<Rc<Program>>,
}

impl Part {
    pub(super) fn new(re: Re) -> Part {
        Part { re, forward: OnceCell::new(), backward: OnceCell::new() }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) op: Op,
    pub(super) traits: Traits,
    /// The groups that this node is the whole of.
    pub(super) groups: Vec<usize>,
    pub(super) part: Part,
}

#[derive(Debug)]
pub(super) enum Op {
    /// Nothing within matters.
    Plain,
    Cat(Vec<Node>),
    Alt(Vec<Node>),
    Repeat {
        of: Box<Node>,
        least: u32,
        most: Option<u32>,
        unlimited: Part,
    },
    Backref {
        group: usize,
        least: u32,
        most: Option<u32>,
    },
}

impl Node {
    pub(super) fn plain(re: Re, traits: Traits) -> Node {
        Node { op: Op::Plain, traits, groups: Vec::new(), part: Part::new(re) }
    }

    /// One after the other.
    pub(super) fn cat(nodes: Vec<Node>, traits: Traits) -> Node {
        let parts = nodes.iter().map(|node| node.part.re.clone()).filter(|re| !matches!(re, Re::Empty));
        let re = match parts.collect::<Vec<_>>() {
            parts if parts.len() > 1 => Re::Cat(Rc::new(parts)),
            mut parts => parts.pop().unwrap_or(Re::Empty),
        };
        Node { op: Op::Cat(nodes), traits, groups: Vec::new(), part: Part::new(re) }
    }
}
