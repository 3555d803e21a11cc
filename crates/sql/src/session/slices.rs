//! Long changes: run in slices, a turn each, on a branch of the tenant.
//!
//! A change begins like any other. When it has looked at more rows than one turn may, it is taken back, its transaction gets a
//! branch, and it runs again in slices: each finds some rows on the statement's snapshot, changes them as they are by then,
//! and pours the changes into the branch. Between two slices others have their turns. What cannot run so is listed in
//! `docs/sql-compat.md`.

use std::sync::Arc;

use base::{Lsn, SqlResult};
use tenant::{BRANCH_BYTES_MIN, CaughtUp};
use types::Datum;

use super::prepared::Planned;
use super::run::pause;
use super::{Home, Pause, Session};
use crate::exec::{ExecDone, ExecLimits, Position, RowSink, Slice};

/// Rows that a change may look at in one turn; what looks at more runs in slices.
const TURN_ROWS_MAX: u64 = 4096;

/// Bytes of changes that a transaction with a branch gathers before they are poured, outside of slices.
const POUR_BYTES_MIN: usize = 128 << 10;

/// A statement that runs in slices.
#[derive(Default)]
pub(super) struct Slicing {
    /// Its snapshot was taken, and slices have run.
    began: bool,
    /// Where the next slice goes on.
    position: Option<Position>,
    /// Rows changed so far.
    rows: u64,
}

impl Slicing {
    /// Whether a slice has run: what goes before the rows was sent.
    pub(super) fn has_begun(&self) -> bool {
        self.began
    }
}

impl Session {
    /// Whether the statement is one that may run in slices, in its transaction as it is.
    pub(super) fn may_slice(&mut self, planned: &Planned) -> bool {
        planned.bound.point().is_some_and(|plan| plan.runs_in_slices()) && self.may_pour()
    }

    /// Whether what the transaction changed may go to a branch, from where it cannot be taken back alone.
    fn may_pour(&mut self) -> bool {
        self.transaction.open().is_some_and(|open| !open.has_savepoints() && open.txn.can_branch())
    }

    /// Runs a change that may run in slices: all of it, or the next slice.
    ///
    /// # Errors
    /// [`Pause::Slice`] when a slice is done and more are to come.
    pub(super) fn run_in_slices(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[Datum],
        sink: &mut dyn RowSink,
    ) -> Result<ExecDone, Pause> {
        let Some(mut slicing) = self.slicing.take() else {
            let limits = ExecLimits { rows_examined_max: Some(TURN_ROWS_MAX), ..ExecLimits::default() };
            if let Some(done) = self.run_point(home, planned, parameters, sink, limits)? {
                return Ok(done);
            }
            self.slicing = Some(Slicing::default());
            return Err(Pause::Yield);
        };
        let outcome = self.run_slice(home, planned, parameters, sink, &mut slicing);
        if !matches!(outcome, Ok(_) | Err(Pause::Error(_))) {
            self.slicing = Some(slicing);
        } else if let Some(open) = self.transaction.open() {
            home.tenant.end_statement(&open.txn);
        }
        outcome
    }

    fn run_slice(
        &mut self,
        home: &mut Home<'_>,
        planned: &Arc<Planned>,
        parameters: &[Datum],
        sink: &mut dyn RowSink,
        slicing: &mut Slicing,
    ) -> Result<ExecDone, Pause> {
        self.await_memory(home)?;
        self.begin_branch(home)?;
        self.catch_up(home)?;
        let open = self.transaction.open().expect("a statement runs in a transaction");
        if !slicing.began {
            if open.txn.changed_bytes() > 0 {
                // In a turn of its own: what follows is taken back to where it begins.
                return Err(Pause::Slice(self.pour(home)?));
            }
            home.tenant.begin_statement(&open.txn);
        }
        let slice = Slice::new(slicing.position.as_ref());
        let limits = ExecLimits { slice: Some(&slice), ..ExecLimits::default() };
        let done = self.run_point(home, planned, parameters, sink, limits)?;
        let done = done.expect("nothing limits the rows of a slice");
        let end = self.pour(home)?;
        let next = slice.next();
        slicing.began = true;
        slicing.rows += done.rows;
        slicing.position = next;
        match slicing.position {
            Some(_) => Err(Pause::Slice(end)),
            None => Ok(ExecDone { rows: slicing.rows, ..done }),
        }
    }

    /// Gives the transaction a branch.
    fn begin_branch(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let open = self.transaction.open().expect("a statement runs in a transaction");
        home.tenant.begin_branch(&mut open.txn).map_err(|interrupt| pause(interrupt, home.tenant, &open.txn))
    }

    /// Brings the transaction's branch up to date, where it has one: it then stays so for this turn.
    pub(super) fn catch_up(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(open) = self.transaction.open() else { return Ok(()) };
        match home.tenant.catch_up(&mut open.txn)? {
            CaughtUp::All => Ok(()),
            CaughtUp::Part => Err(Pause::Yield),
            CaughtUp::Miss(request) => Err(Pause::Pages(vec![request])),
            CaughtUp::Memory(wait) => Err(Pause::Memory(wait)),
        }
    }

    /// Pours what a transaction has gathered, if that is much. To be called between statements, or between rows of one that
    /// are never taken back together.
    ///
    /// # Errors
    /// [`Pause::Slice`] if it did; the statement then goes on where it was.
    pub(super) fn pour_if_much(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(open) = self.transaction.peek() else { return Ok(()) };
        let much = if open.txn.has_branch() { POUR_BYTES_MIN } else { BRANCH_BYTES_MIN };
        if open.txn.changed_bytes() < much || !self.may_pour() {
            return Ok(());
        }
        self.await_memory(home)?;
        self.begin_branch(home)?;
        self.catch_up(home)?;
        Err(Pause::Slice(self.pour(home)?))
    }

    fn pour(&mut self, home: &mut Home<'_>) -> SqlResult<Lsn> {
        let open = self.transaction.open().expect("a statement runs in a transaction");
        home.tenant.pour(&mut open.txn, home.redo)
    }
}
