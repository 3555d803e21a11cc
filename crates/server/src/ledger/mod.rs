//! The ledger: what each tenant was promised, wanted and got, interval by interval.
//!
//! Rows come from the meters, which share nothing with the schedulers they audit (`isolation.md`, "The ledger"). A thread of its own
//! ([`LedgerThread`]) collects them at the end of each metering interval and publishes what is known ([`Published`]). Whoever reads takes
//! that as a whole: a lock is held to exchange or copy one pointer and no longer, so it may be read from a worker's turn, and what was
//! taken may be looked through on an analytical thread.
//!
//! Rows of intervals in which a tenant wanted something of what it was promised, or got more than its limit, are kept for an hour; of
//! every tenant that did anything the last row is. By the minute it is on disk for 62 days ([`history`]).

mod advice;
mod collect;
mod history;
mod io_audit;
mod published;
mod recent;
mod statement_totals;
mod totals;
mod unwritten;
mod volume_numbers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::TenantId;
use governor::LedgerRow;
use sql::session::LedgerRows;

pub(crate) use collect::LedgerThread;
pub(crate) use history::History;
use published::Published;
pub(crate) use published::View;
pub(crate) use recent::{Judged, Recent, RecentIntervals, RecentResource};
pub(crate) use statement_totals::{BOUNDS as STATEMENT_BOUNDS, StatementTotals};
pub(crate) use totals::{LedgerFigures, ResourceTotals, Totals};

use crate::shared::Shared;

/// The ledger as far as it has been collected. Readable from any thread.
#[derive(Default)]
pub(crate) struct Ledger {
    published: Mutex<Arc<Published>>,
    recent: RecentIntervals,
}

impl Ledger {
    fn slot(&self) -> MutexGuard<'_, Arc<Published>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> Arc<Published> {
        self.slot().clone()
    }

    fn publish(&self, next: Published) {
        let before = std::mem::replace(&mut *self.slot(), Arc::new(next));
        // Outside the lock: it may be the last of its kind.
        drop(before);
    }

    /// What the intervals that ended brought since somebody looked.
    pub(crate) fn recent(&self) -> &RecentIntervals {
        &self.recent
    }

    /// Leaves out a tenant that was dropped, at once.
    pub(crate) fn forget(&self, tenant: TenantId) {
        let mut next = Published::clone(&self.published());
        next.tenants.remove(&tenant);
        self.publish(next);
    }

    /// What a session may see of it: its own tenant's, or all for `None`.
    pub(crate) fn view(&self, shared: &Arc<Shared>, of: Option<TenantId>) -> Arc<dyn LedgerRows> {
        Arc::new(View::new(self.published(), shared, of))
    }

    /// As [`Ledger::view`], for the console.
    pub(crate) fn history_view(&self, shared: &Arc<Shared>, of: Option<TenantId>) -> View {
        View::new(self.published(), shared, of)
    }

    /// All rows, oldest first.
    pub(crate) fn rows(&self) -> Vec<LedgerRow> {
        self.published().rows.iter().flat_map(|rows| rows.iter().copied()).collect()
    }

    /// In how many rows of the last hour a tenant's promise was broken.
    pub(crate) fn broken_hour(&self) -> impl Fn(TenantId) -> u64 + use<> {
        let published = self.published();
        move |tenant| published.tenants.get(&tenant).map_or(0, |known| known.broken_hour)
    }

    /// Every tenant's sums, for `/metrics`.
    pub(crate) fn totals(&self) -> impl Fn(TenantId) -> Totals + use<> {
        let published = self.published();
        move |tenant| published.tenants.get(&tenant).map(|known| known.totals).unwrap_or_default()
    }
}
