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

/// Of a list of values that key columns may have, each slice evaluates and sorts all: so one may cost this part of their number, if that is more than others may, and
/// so many times as much as others at most.
const PART_OF_LIST: usize = 4;
const COST_MAX_TIMES: u32 = 16;

/// Where a slice ended and the next one goes on.
#[derive(Clone, Debug)]
pub enum Position {
    /// Behind this key of the tree that is scanned: the table's or an index's.
    After(Key),
    /// With this combination of the values that key columns may have, behind this key of those that it finds.
    Combination { number: usize, after: Option<Key> },
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
    cost_max: Cell<u32>,
    /// The combination of values whose rows are gone through now.
    combination: Cell<Option<usize>>,
    next: RefCell<Option<Position>>,
}

impl<'a> Slice<'a> {
    /// From where the slice before ended; `None` for the first.
    pub fn new(from: Option<&'a Position>) -> Slice<'a> {
        let (cost, cost_max, combination) = (Cell::new(0), Cell::new(COST_MAX), Cell::new(None));
        Slice { from, cost, cost_max, combination, next: RefCell::default() }
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
        self.cost.get() >= self.cost_max.get()
    }

    /// The first combination of values that belongs to it, of so many.
    pub(super) fn first_combination(&self, of: usize) -> usize {
        let part = u32::try_from(of / PART_OF_LIST).unwrap_or(u32::MAX);
        self.cost_max.set(part.clamp(COST_MAX, COST_MAX_TIMES * COST_MAX));
        match self.from {
            Some(Position::Combination { number, .. }) => *number,
            _ => 0,
        }
    }

    /// Goes on with this combination; false if that is the next slice's.
    pub(super) fn begin_combination(&self, number: usize) -> bool {
        if self.is_full() {
            self.end_at(Position::Combination { number, after: None });
            return false;
        }
        self.combination.set(Some(number));
        self.note_examined();
        true
    }

    /// The key behind which it goes on in the range that is scanned now; `None` from the range's start.
    pub(super) fn start(&self) -> Option<&'a Key> {
        match (self.from, self.combination.get()) {
            (Some(Position::After(key)), None) => Some(key),
            (Some(Position::Combination { number, after }), Some(now)) if now == *number => after.as_ref(),
            _ => None,
        }
    }

    /// Ends behind this key of the range that is scanned now.
    pub(super) fn end_after(&self, key: &[u8]) {
        let key = Key::from_slice(key);
        self.end_at(match self.combination.get() {
            None => Position::After(key),
            Some(number) => Position::Combination { number, after: Some(key) },
        });
    }

    pub(super) fn end_at(&self, position: Position) {
        self.next.replace(Some(position));
    }
}
