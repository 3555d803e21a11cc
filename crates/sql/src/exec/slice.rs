//! A part of a long statement: as much as one turn may take.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use types::Datum;

use super::Key;

/// What a slice may cost, in rows looked at: some 250 us.
const COST_MAX: u32 = 1024;

/// What changing a row costs.
const COST_OF_CHANGE: u32 = 8;

/// Bytes of changed rows that cost as much as a row looked at, so that a slice changes 256 KiB at most, or one row.
const BYTES_OF_COST: usize = 256;

/// The values that key columns may have: of each column, in their order. Each slice but the first has them from the one before.
pub(super) type KeySets = Vec<Vec<Datum>>;

/// Where a slice ended and the next one goes on.
#[derive(Clone, Debug)]
pub enum Position {
    /// Behind this key of the tree that is scanned: the table's or an index's.
    After(Key),
    /// With the combination of this number of the values that key columns may have, behind this key of those that it finds.
    Combination { sets: Arc<KeySets>, number: usize, after: Option<Key> },
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
    /// The combination of values whose rows are gone through now.
    combination: RefCell<Option<(Arc<KeySets>, usize)>>,
    next: RefCell<Option<Position>>,
}

impl<'a> Slice<'a> {
    /// From where the slice before ended; `None` for the first.
    pub fn new(from: Option<&'a Position>) -> Slice<'a> {
        Slice { from, cost: Cell::new(0), combination: RefCell::default(), next: RefCell::default() }
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

    /// The values that key columns had in the slices before, and the first of their combinations that belongs to it; `None` for the first slice.
    pub(super) fn sets(&self) -> Option<(&'a Arc<KeySets>, usize)> {
        match self.from {
            Some(Position::Combination { sets, number, .. }) => Some((sets, *number)),
            _ => None,
        }
    }

    /// Goes on with this combination; false if that is the next slice's.
    pub(super) fn begin_combination(&self, sets: &Arc<KeySets>, number: usize) -> bool {
        if self.is_full() {
            self.end_at(Position::Combination { sets: Arc::clone(sets), number, after: None });
            return false;
        }
        self.combination.replace(Some((Arc::clone(sets), number)));
        self.note_examined();
        true
    }

    /// The key behind which it goes on in the range that is scanned now; `None` from the range's start.
    pub(super) fn start(&self) -> Option<&'a Key> {
        match (self.from, &*self.combination.borrow()) {
            (Some(Position::After(key)), None) => Some(key),
            (Some(Position::Combination { number, after, .. }), Some((_, now))) if now == number => {
                after.as_ref()
            }
            _ => None,
        }
    }

    /// Ends behind this key of the range that is scanned now.
    pub(super) fn end_after(&self, key: &[u8]) {
        let key = Key::from_slice(key);
        self.end_at(match self.combination.take() {
            None => Position::After(key),
            Some((sets, number)) => Position::Combination { sets, number, after: Some(key) },
        });
    }

    pub(super) fn end_at(&self, position: Position) {
        self.next.replace(Some(position));
    }
}
