//! A part of a long statement: as much as one turn may take.

use std::cell::{Cell, RefCell};

use types::Datum;

use super::Key;

/// What a slice may cost, in rows looked at: some 250 us.
const COST_MAX: u32 = 1024;

/// What changing a row costs.
const COST_OF_CHANGE: u32 = 8;

/// Bytes of changed rows that cost as much as a row looked at, so that a slice changes 256 KiB at most, or one row.
const BYTES_OF_COST: usize = 256;

/// Where a slice ended and the next one goes on.
#[derive(Clone, Debug)]
pub enum Position {
    /// Behind this key of the tree that is scanned: the table's or an index's.
    After(Key),
    /// With this row of those given.
    Row(usize),
    /// With this value of a series, which has the end and the step that it had in the first slice.
    Series { next: Datum, stop: Datum, step: Datum },
}

/// The bounds of one run of a plan that [`crate::plan::PointPlan::runs_in_slices`].
#[derive(Debug)]
pub struct Slice<'a> {
    from: Option<&'a Position>,
    cost: Cell<u32>,
    next: RefCell<Option<Position>>,
}

impl<'a> Slice<'a> {
    /// From where the slice before ended; `None` for the first.
    pub fn new(from: Option<&'a Position>) -> Slice<'a> {
        Slice { from, cost: Cell::new(0), next: RefCell::default() }
    }

    /// Where the next slice goes on; `None` if the statement is through.
    pub fn next(self) -> Option<Position> {
        self.next.into_inner()
    }

    /// Whether another slice is to follow.
    pub fn has_next(&self) -> bool {
        self.next.borrow().is_some()
    }

    /// The first row of those given that belongs to it.
    pub fn first_row(&self) -> usize {
        match self.from {
            Some(Position::Row(first)) => *first,
            _ => 0,
        }
    }

    pub(super) fn from(&self) -> Option<&'a Position> {
        self.from
    }

    pub(super) fn note_examined(&self) {
        self.cost.set(self.cost.get() + 1);
    }

    pub(crate) fn note_changed(&self) {
        self.cost.set(self.cost.get() + COST_OF_CHANGE);
    }

    pub(crate) fn note_bytes(&self, bytes: usize) {
        let cost = u32::try_from(bytes / BYTES_OF_COST).unwrap_or(COST_MAX);
        self.cost.set(self.cost.get().saturating_add(cost));
    }

    pub(crate) fn is_full(&self) -> bool {
        self.cost.get() >= COST_MAX
    }

    pub(super) fn end_at(&self, position: Position) {
        self.next.replace(Some(position));
    }
}
