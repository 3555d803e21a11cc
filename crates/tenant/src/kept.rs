//! Work that a statement does not lose when it is taken back to be run again.
//!
//! A statement that looks at every row of a table, to build an index or to check a constraint, stops whenever its turn is over or a page
//! is missing, and is run again from its start. What it has done by then of such a *piece* stays with the transaction, and the next run
//! goes on with it: pieces come in the same order in each run. The table's lock keeps its rows as they are meanwhile (where a constraint is validated, whoever
//! changes one checks it or leaves it in its place; where an index is built beside them, they note it), and a piece counts
//! only while the transaction has the same changes of its own as when it was kept. Behind changes of the same statement nothing is kept: those are made
//! anew by each run, and need not be the same.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Oid, TreeId};
use types::Row;

use crate::catalog::{Index, IndexColumn, Table, encode_record};
use crate::cursor::{Direction, Scan};
use crate::ddl::{Beside, Filling};
use crate::interrupt::Step;
use crate::overlay::OverlayMark;
use crate::row::keys::{Key, KeyRange};
use crate::tenant::Tenant;
use crate::txn::Txn;
use crate::view::{Access, State, View};

/// Rows or entries that a turn goes through: some 200 us, as a slice of a long change.
pub(crate) const TURN_STEPS: u32 = 256;

/// What a statement does with all rows of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// An index of these columns is filled, with the rows of which `predicate` is true. That is as a record has it: a NaN in it is not equal to itself.
    Index {
        table: Oid,
        columns: Vec<IndexColumn>,
        unique: bool,
        nulls_not_distinct: bool,
        predicate: Option<Vec<u8>>,
    },
    /// The table goes to a new tree, by this key.
    Cluster { table: Oid, key: Vec<usize> },
    /// Each row is looked at.
    Rows { table: Oid },
}

impl Piece {
    pub(crate) fn index(table: Oid, index: &Index) -> Piece {
        Piece::Index {
            table,
            columns: index.columns.clone(),
            unique: index.unique,
            nulls_not_distinct: index.nulls_not_distinct,
            predicate: index.predicate.as_deref().map(encode_record),
        }
    }
}

/// How far a piece is.
#[derive(Debug)]
pub(crate) enum Work {
    /// A tree is being filled with the rows of another one, up to the key `after`.
    Filling { filling: Box<Filling>, after: Option<Key>, rows: u64 },
    /// A tree is being filled beside those who change the rows.
    Beside(Box<Beside>),
    /// This tree is filled.
    Filled(TreeId),
    /// The rows up to this key were looked at.
    Looked(Key),
    /// All rows were.
    LookedAtAll,
}

/// A piece of work, and the transaction's own changes that it goes by; `None`: it does not outlive this run of its statement.
#[derive(Debug)]
pub(crate) struct Kept {
    piece: Piece,
    changes: Option<OverlayMark>,
    work: Work,
}

impl Kept {
    fn trees(&self) -> Vec<TreeId> {
        match &self.work {
            Work::Filling { filling, .. } => filling.trees().collect(),
            Work::Beside(build) => build.trees(),
            Work::Filled(tree) => vec![*tree],
            Work::Looked(_) | Work::LookedAtAll => Vec::new(),
        }
    }
}

/// Pieces of a transaction's statements.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Those that the statement, when it is run again, goes on with, in their order.
    kept: VecDeque<Kept>,
    /// Those that are done, while nothing takes them back.
    done: Vec<Kept>,
}

impl Pieces {
    /// How many are done.
    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    /// A statement is taken back to where so many were done: what it did since is kept for its next run. The trees of what is not.
    pub(crate) fn keep_from(&mut self, done: usize) -> Vec<TreeId> {
        let mut lost = Vec::new();
        for kept in self.done.drain(done..).rev() {
            match kept.changes {
                Some(_) => self.kept.push_front(kept),
                None => lost.extend(kept.trees()),
            }
        }
        lost
    }

    /// The trees of all that is kept, which is kept no more.
    fn take_kept(&mut self) -> Vec<TreeId> {
        self.kept.drain(..).flat_map(|kept| kept.trees()).collect()
    }

    /// Forgets everything: the transaction has ended.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.done.clear();
    }
}

impl Txn {
    /// Whether a statement of it that is run again goes on with what it did.
    pub fn keeps_work(&self) -> bool {
        !self.pieces.kept.is_empty()
    }
}

impl Tenant {
    /// Gives up what is kept of a statement that will not be run again. Between turns.
    pub fn give_up_kept(&mut self, txn: &mut Txn) {
        txn.session_locks.forget();
        txn.sequence_calls.forget();
        self.end_watch(txn.id);
        for tree in txn.pieces.take_kept() {
            self.at_side_of(txn, |tenant| tenant.give_up_tree(tree));
        }
    }
}

impl View<'_> {
    /// What the transaction changed before this statement, if the statement has changed nothing yet.
    fn changes_before(&mut self) -> Option<OverlayMark> {
        let changes = self.txn.overlay.mark();
        Some(changes).filter(|changes| self.txn.begun_at == *changes)
    }

    /// What an earlier run of the statement did of this piece.
    pub(crate) fn resume(&mut self, piece: &Piece) -> Option<Work> {
        let changes = self.changes_before();
        let first = self.txn.pieces.kept.front()?;
        if first.piece == *piece && first.changes == changes {
            return self.txn.pieces.kept.pop_front().map(|kept| kept.work);
        }
        // Of a statement that ended otherwise.
        for tree in self.txn.pieces.take_kept() {
            self.tenant.give_up_tree(tree);
        }
        None
    }

    /// Keeps a piece that is not done, for the statement's next run.
    pub(crate) fn keep(&mut self, piece: Piece, work: Work) {
        let kept = Kept { piece, changes: self.changes_before(), work };
        if kept.changes.is_some() {
            self.txn.pieces.kept.push_front(kept);
            return;
        }
        for tree in kept.trees() {
            self.tenant.give_up_tree(tree);
        }
    }

    /// The piece is done.
    pub(crate) fn note_done(&mut self, piece: Piece, work: Work) {
        let changes = self.changes_before();
        self.txn.pieces.done.push(Kept { piece, changes, work });
    }

    /// Whether others run between two turns of the statement: not where it would change all again that it has changed before it came here.
    /// Without a session nobody would run it again.
    pub(crate) fn takes_turns(&mut self) -> bool {
        self.session.is_some() && self.changes_before().is_some()
    }

    /// A look at every row of a table, the newest committed ones with the transaction's own. The table is locked against changes.
    pub fn look_through(&mut self, table: &Arc<Table>) -> Look {
        let piece = Piece::Rows { table: table.oid };
        let (after, is_over) = match self.resume(&piece) {
            Some(Work::Looked(after)) => (Some(after), false),
            Some(Work::LookedAtAll) => (None, true),
            Some(Work::Filling { .. } | Work::Beside(_) | Work::Filled(_)) => {
                unreachable!("rows are only looked at")
            }
            None => (None, false),
        };
        let range = KeyRange::behind(after.as_ref());
        let scan = self.scan_state(table, Access::Table, range, Direction::Forward, State::Newest);
        Look { scan, piece, after, at: Key::new(), is_over, left: TURN_STEPS }
    }
}

/// A look at every row of a table, which the statement goes on with when it is run again.
#[derive(Debug)]
pub struct Look {
    scan: Scan<'static>,
    piece: Piece,
    /// The last row that nothing is left to do for.
    after: Option<Key>,
    /// The row that was shown last.
    at: Key,
    is_over: bool,
    /// Rows left to this turn.
    left: u32,
}

impl Look {
    /// The next row's values; nothing is left to do for the one before. `None` when there are no more.
    ///
    /// # Errors
    /// As a scan's, and at the turn's end; end the look with [`Look::stop`] then.
    pub fn next_row(&mut self, view: &mut View<'_>) -> Step<Option<Row>> {
        if self.is_over {
            return Ok(None);
        }
        if !self.at.is_empty() {
            self.after = Some(std::mem::take(&mut self.at));
        }
        if self.left == 0 && view.takes_turns() {
            return Err(view.end_turn());
        }
        self.left = self.left.saturating_sub(1);
        let Some(row) = view.next(&mut self.scan)? else {
            self.is_over = true;
            return Ok(None);
        };
        self.at = Key::from_slice(row.key());
        Ok(Some(row.to_row()?))
    }

    /// Ends the look, whether all rows were seen or something came in between: rows for which nothing is left to do are not shown
    /// again.
    pub fn stop(self, view: &mut View<'_>) {
        match (self.is_over, self.after) {
            (true, _) => view.note_done(self.piece, Work::LookedAtAll),
            (false, Some(after)) => view.keep(self.piece, Work::Looked(after)),
            (false, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use types::Datum;

    use super::*;
    use crate::catalog::{Blanks, Comparison, RowTest};

    #[test]
    fn an_index_that_is_filled_is_known_again_whatever_its_predicate_compares_with() {
        let piece = |constant: Datum| {
            let (comparison, blanks) = (Comparison::Less, Blanks::Count);
            Piece::index(
                Oid(16384),
                &Index {
                    oid: Oid(16385),
                    name: "i".into(),
                    columns: vec![IndexColumn::ascending(0)],
                    unique: false,
                    nulls_not_distinct: false,
                    constraint: None,
                    tree: TreeId(20),
                    predicate: Some(Arc::new(RowTest::Compare { column: 1, comparison, blanks, constant })),
                    included: Vec::new(),
                },
            )
        };
        for constant in [Datum::Float8(f64::NAN), Datum::Float4(f32::NAN), Datum::Int4(1), Datum::text("x")] {
            assert_eq!(piece(constant.clone()), piece(constant.clone()), "{constant:?}");
        }
        assert_ne!(piece(Datum::Int4(1)), piece(Datum::Int4(2)));
    }
}
