//! Long changes: run in slices, a turn each, on a branch of the tenant.
//!
//! A change begins like any other. When it has looked at more rows than one turn may, it is taken back, its transaction gets a
//! branch, and it runs again in slices: each finds some rows on the statement's snapshot, changes them as they are by then,
//! and pours the changes into the branch. Between two slices others have their turns. CREATE TABLE AS makes its table and stores the rows
//! in slices likewise. What cannot run so is listed in `docs/sql-compat.md`.

use std::sync::Arc;

use base::{ByteCount, Lsn, Oid, SqlResult, SqlState};
use tenant::{BRANCH_BYTES_MIN, CaughtUp, Interrupt, WriterWait};
use types::{Datum, row_memory};

use super::prepared::Planned;
use super::row_store::RowStore;
use super::run::pause;
use super::{Home, Pause, Session};
use crate::exec::{ExecDone, ExecLimits, Position, RowSink, Slice};

/// Rows that a change may look at in one turn; what looks at more runs in slices.
const TURN_ROWS_MAX: u64 = 4096;

/// Bytes of changes that a transaction with a branch gathers before they are poured, outside of slices.
const POUR_BYTES_MIN: usize = 128 << 10;

/// Rows, and bytes of them, that a new table may be given in the turn in which it is made, without a branch.
const FILLED_AT_ONCE: (usize, ByteCount) = (1024, ByteCount::from_mib(1));

/// A table that CREATE TABLE AS has made, and the rows that it is to have.
pub(crate) struct FilledTable {
    table: Oid,
    rows: RowStore,
    /// Those stored and poured.
    stored: usize,
}

/// A statement that runs in slices.
#[derive(Default)]
pub(super) struct Slicing {
    /// Its snapshot was taken, and slices have run.
    began: bool,
    /// Where the next slice goes on.
    position: Option<Position>,
    /// Rows changed so far.
    rows: u64,
    /// All of them are, and what is left are checks that were put off.
    is_checking: bool,
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
        planned.bound.point().is_some_and(|plan| plan.runs_in_slices) && self.may_pour()
    }

    /// Whether what the transaction changed may go to a branch, from where it cannot be taken back alone.
    fn may_pour(&mut self) -> bool {
        self.transaction.open().is_some_and(|open| open.may_pour())
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
            match self.run_point(home, planned, parameters, sink, limits) {
                Ok(None) => {}
                // Few rows, and large ones: slices hold some of them at a time.
                Err(Pause::Error(error)) if error.state() == SqlState::OUT_OF_MEMORY => {}
                outcome => return outcome.map(|done| done.expect("looked at above")),
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
        if slicing.is_checking {
            self.with_view(home, |view| view.check_own())?;
            return Ok(ExecDone { rows: slicing.rows, examined: 0 });
        }
        // Once, and not before each slice: one that changes nothing logs nothing.
        if !slicing.began {
            self.await_own_cap(home)?;
        }
        // Before the wait for memory, as `run_point` has it. A branch that begins now is behind nobody.
        self.catch_up(home)?;
        self.await_memory(home)?;
        if self.begin_branch(home)?.is_err() {
            let done = self.run_point(home, planned, parameters, sink, ExecLimits::default())?;
            return Ok(done.expect("nothing limits its rows"));
        }
        let open = self.transaction.open().expect("a statement runs in a transaction");
        if !slicing.began {
            if open.txn.changed_bytes() > 0 {
                // In a turn of its own: what follows is taken back to where it begins.
                return Err(Pause::Slice(self.pour(home)?));
            }
            home.tenant.begin_statement(&open.txn);
            if let Some(table) = planned.bound.point().and_then(|plan| plan.table_met_again()) {
                home.tenant.remember_put(&open.txn, table);
            }
        }
        let has_left = open.txn.carries_checks();
        let slice = Slice::new(slicing.position.as_ref());
        let limits = ExecLimits { slice: Some(&slice), ..ExecLimits::default() };
        let own = planned.bound.point().and_then(|plan| plan.refers_to_itself());
        self.look_later(own);
        let done = self.run_point(home, planned, parameters, sink, limits);
        self.look_later(None);
        let done = done?.expect("nothing limits the rows of a slice");
        if let Some(open) = self.transaction.open() {
            open.txn.carry_checks();
        }
        let end = self.pour(home)?;
        let next = slice.next();
        slicing.began = true;
        slicing.rows += done.rows;
        if !has_left {
            slicing.position = next;
        }
        let open = self.transaction.open().expect("as above");
        let is_through = slicing.position.is_none() && !open.txn.carries_checks();
        slicing.is_checking = is_through && open.txn.has_checks_due();
        match is_through && !slicing.is_checking {
            true => Ok(ExecDone { rows: slicing.rows, ..done }),
            false => Err(Pause::Slice(end)),
        }
    }

    /// Says of which table the checks of rows that refer to each other are left to the statement's end.
    fn look_later(&mut self, table: Option<Oid>) {
        if let Some(open) = self.transaction.open() {
            open.txn.look_later(table);
        }
    }

    /// Has the statement, which has just made `table`, give it these rows: now where they are few, else in slices.
    ///
    /// # Errors
    /// [`Pause::Slice`] where they will be stored in slices, by [`Session::fill_on`]: the rows are gone then, and the table stays made. Other
    /// pauses, after which the statement begins anew, with the same rows.
    pub(crate) fn fill(&mut self, home: &mut Home<'_>, table: Oid, rows: &mut RowStore) -> Result<(), Pause> {
        if (rows.len() > FILLED_AT_ONCE.0 || rows.bytes() > FILLED_AT_ONCE.1) && self.may_pour() {
            self.filling = Some(FilledTable { table, rows: std::mem::take(rows), stored: 0 });
            // Nothing is to become durable first.
            return Err(Pause::Slice(Lsn(0)));
        }
        self.bring_in(home, rows, &ExecLimits::default())?;
        let stored = self.store_rows_of(home, table, rows, 0, None)?;
        assert_eq!(stored, rows.len(), "all rows were brought in");
        Ok(())
    }

    /// Goes on with the table that the statement under way has made, if it has; how many rows it was given in all, once it has them.
    ///
    /// # Errors
    /// [`Pause::Slice`] when some are stored and more are to come; other pauses.
    pub(super) fn fill_on(&mut self, home: &mut Home<'_>) -> Result<Option<usize>, Pause> {
        let Some(mut filling) = self.filling.take() else { return Ok(None) };
        let outcome = self.fill_some(home, &mut filling);
        let end = match outcome {
            Ok(_) if filling.stored == filling.rows.len() => return Ok(Some(filling.stored)),
            Ok(end) => Pause::Slice(end),
            Err(error @ Pause::Error(_)) => return Err(error),
            Err(pause) => pause,
        };
        self.filling = Some(filling);
        Err(end)
    }

    fn fill_some(&mut self, home: &mut Home<'_>, filling: &mut FilledTable) -> Result<Lsn, Pause> {
        if filling.stored == 0 {
            self.await_own_cap(home)?;
        }
        self.catch_up(home)?;
        self.await_memory(home)?;
        self.begin_branch(home)??;
        if let Some(loaded) = self.loaded_rows.take() {
            filling.rows.load(loaded);
        }
        let slice = Slice::new(None);
        let stored =
            self.store_rows_of(home, filling.table, &mut filling.rows, filling.stored, Some(&slice))?;
        let end = self.pour(home)?;
        self.progress.end_part((stored - filling.stored) as u64);
        filling.stored = stored;
        Ok(end)
    }

    /// Stores the rows from number `from` on that are in memory, as many as belong to the slice if there is one; the number of the next.
    fn store_rows_of(
        &mut self,
        home: &mut Home<'_>,
        table: Oid,
        rows: &mut RowStore,
        from: usize,
        slice: Option<&Slice<'_>>,
    ) -> Result<usize, Pause> {
        let rows = rows.rows_from(from).map_err(Pause::StoredRows)?;
        let mut next = from;
        self.with_view(home, |view| {
            let table = view.table(table)?;
            for row in rows {
                if slice.is_some_and(Slice::is_full) {
                    break;
                }
                view.insert(&table, row)?;
                if let Some(slice) = slice {
                    slice.note_changed();
                    slice.note_bytes(row_memory(row));
                }
                next += 1;
            }
            Ok(())
        })?;
        Ok(next)
    }

    /// Gives the transaction a branch.
    ///
    /// # Errors
    /// A pause while another transaction has one. Within `Ok`, 40P01: whoever has it waits for the transaction itself, as DDL does that has come to wait for a
    /// table which this one reads. The change then goes on without a branch.
    fn begin_branch(&mut self, home: &mut Home<'_>) -> Result<SqlResult<()>, Pause> {
        let open = self.transaction.open().expect("a statement runs in a transaction");
        match home.tenant.begin_branch(&mut open.txn) {
            Ok(()) => Ok(Ok(())),
            Err(Interrupt::Error(error)) if error.state() == SqlState::DEADLOCK_DETECTED => Ok(Err(error)),
            Err(interrupt) => Err(pause(interrupt, home.tenant, &open.txn)),
        }
    }

    /// Brings the transaction's branch up to date, where it has one: it then stays so for this turn.
    pub(super) fn catch_up(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(open) = self.transaction.open() else { return Ok(()) };
        let host = &*self.start.host;
        match home.tenant.catch_up_giving_way(&mut open.txn, &|| host.give_way())? {
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
    /// [`Pause::Slice`] if it did, a pause for the tenant's limit of log writes, one for each part of it that is logged before, and for pages that left
    /// memory; the statement then goes on where it was.
    pub(super) fn pour_if_much(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(open) = self.transaction.peek() else { return Ok(()) };
        let much = if open.txn.has_branch() { POUR_BYTES_MIN } else { BRANCH_BYTES_MIN };
        let is_much = open.txn.changed_bytes() >= much || home.tenant.has_many_changes(&open.txn);
        if !is_much || !self.may_pour() {
            return Ok(());
        }
        self.await_own_cap(home)?;
        self.catch_up(home)?;
        self.await_memory(home)?;
        if self.begin_branch(home)?.is_err() {
            return Ok(());
        }
        let open = self.transaction.open().expect("looked at above");
        if let Some(end) = home.tenant.log_ahead(&mut open.txn, home.redo)? {
            return Err(Pause::Memory(WriterWait::Log(end)));
        }
        let host = &*self.start.host;
        let missing = home.tenant.pour_requests(&mut open.txn, &|| host.give_way())?;
        if !missing.is_empty() {
            return Err(Pause::Pages(missing));
        }
        let end = self.pour(home)?;
        // The next one has as many pages to hold.
        let open = self.transaction.open().expect("as above");
        home.tenant.release_pages(&open.txn);
        Err(Pause::Slice(end))
    }

    fn pour(&mut self, home: &mut Home<'_>) -> SqlResult<Lsn> {
        let open = self.transaction.open().expect("a statement runs in a transaction");
        let has_savepoints = open.has_savepoints();
        open.txn.keep_for_savepoints(has_savepoints);
        let host = &*self.start.host;
        home.tenant.pour_giving_way(&mut open.txn, home.redo, &|| host.give_way())
    }
}
