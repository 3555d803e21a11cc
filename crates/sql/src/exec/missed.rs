//! Going on past a page that is not in memory, to learn which others a query will miss.
//!
//! A query that joins by key, or looks up a list of keys, would miss a page, wait, run again and miss the next one. Where more
//! look-ups follow it leaves out what it misses instead and goes on, for a while; it gives out nothing from then on, and its
//! outcome is the list of what it missed. The caller has all of it read at a time and runs the query again.

use std::cell::{Cell, RefCell};

use base::PageNo;
use tenant::Interrupt;

use super::{ExecError, Flow, Halt, Run};
use crate::plan::{PointPlan, PointStatement, TableUse};

/// Pages a run goes on past at most.
const PAGES_MAX: usize = 256;

/// Rows a run looks at past the first page it missed, at most: some 100 us.
const ROWS_MAX: u64 = 1024;

/// What a run has missed so far.
#[derive(Default)]
pub(super) struct Missed {
    /// Whether the run may go on past a page: nothing it does otherwise than it should must be seen.
    goes_on: bool,
    pages: RefCell<Vec<PageNo>>,
    /// How many rows had been looked at when the first page was missed.
    since: Cell<u64>,
}

impl Missed {
    /// For a run of `plan`: one that only reads goes on.
    pub(super) fn for_plan(plan: &PointPlan) -> Missed {
        let reads = matches!(plan.statement, PointStatement::Select(_))
            && plan.tables.iter().all(|(_, what)| *what == TableUse::Read);
        Missed { goes_on: reads, ..Missed::default() }
    }

    /// Whether the run has gone on past a page: then what it finds is not the whole.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.since.get() > 0
    }

    /// What became of a run that may have gone on past pages.
    pub(super) fn outcome(&self, outcome: Halt<()>) -> Halt<()> {
        if !self.any() {
            return outcome;
        }
        let mut pages = self.pages.take();
        match outcome {
            // Somebody wants it to end, or it is for another path.
            Err(error @ (ExecError::Interrupt(Interrupt::Asked) | ExecError::Outgrew)) => return Err(error),
            Err(ExecError::Interrupt(Interrupt::Miss(page))) => pages.push(page),
            // An error may come of what was left out.
            Ok(()) | Err(_) => {}
        }
        Err(ExecError::Missed(pages))
    }
}

impl Run<'_, '_> {
    /// Goes on past a missed page, if more look-ups follow that may miss others.
    #[inline]
    pub(super) fn past_miss(&self, found: Halt<Flow>) -> Halt<Flow> {
        match found {
            Err(ExecError::Interrupt(Interrupt::Miss(page))) if self.goes_past(page) => Ok(Flow::More),
            found => found,
        }
    }

    #[cold]
    fn goes_past(&self, page: PageNo) -> bool {
        let missed = &self.missed;
        let examined = self.examined.get();
        if !missed.goes_on || (missed.any() && examined - missed.since.get() > ROWS_MAX) {
            return false;
        }
        let mut pages = missed.pages.borrow_mut();
        if !missed.any() {
            // A look-up that missed was counted as looking at a row.
            missed.since.set(examined.max(1));
        }
        if !pages.contains(&page) {
            if pages.len() == PAGES_MAX {
                return false;
            }
            pages.push(page);
        }
        true
    }
}
