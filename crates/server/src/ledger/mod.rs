//! The ledger: what each tenant was promised, wanted and got, interval by interval.
//!
//! Rows come from the meters, which share nothing with the schedulers they audit (`isolation.md`, "The ledger"). A thread of its own
//! ([`LedgerThread`]) collects them at the end of each metering interval and publishes what is known ([`Published`]). Whoever reads takes
//! that as a whole: a lock is held to exchange or copy one pointer and no longer, so it may be read from a worker's turn, and what was
//! taken may be looked through on an analytical thread.
//!
//! Rows of intervals in which a tenant wanted something of what it was promised, got more than its limit or was kept from what it was
//! promised by that, are kept for an hour; of every tenant that did anything the last row is. By the minute it is on disk for 62 days ([`history`]), where another thread writes it ([`writing`]).

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
mod writing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{SqlError, SqlResult, SqlState, TenantId};
use governor::LedgerRow;
use rustc_hash::FxHashSet;
use sql::session::LedgerRows;

pub(crate) use collect::LedgerThread;
pub(crate) use history::History;
use published::Published;
pub(crate) use published::View;
pub(crate) use recent::{Judged, Recent, RecentIntervals, RecentResource};
pub(crate) use statement_totals::{BOUNDS as STATEMENT_BOUNDS, StatementTotals};
pub(crate) use totals::{LedgerFigures, ResourceTotals, Totals};

use crate::shared::Shared;

/// Tenants that are advised on themselves at a time. What is on record of one that was never idle in 62 days takes some 300 MB as it is looked through, which nothing counts.
const ADVISED_MAX: usize = 2;

/// The ledger as far as it has been collected. Readable from any thread.
#[derive(Default)]
pub(crate) struct Ledger {
    published: Mutex<Arc<Published>>,
    recent: RecentIntervals,
    /// Who is being advised.
    advised: Mutex<FxHashSet<TenantId>>,
}

/// A tenant is being advised, until it is dropped.
struct AdvicePlace<'l> {
    ledger: &'l Ledger,
    tenant: TenantId,
}

impl Drop for AdvicePlace<'_> {
    fn drop(&mut self) {
        self.ledger.lock_advised().remove(&self.tenant);
    }
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

    fn lock_advised(&self) -> MutexGuard<'_, FxHashSet<TenantId>> {
        self.advised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a tenant to be advised.
    ///
    /// # Errors
    /// 53400: it is advised already, or as many others are.
    fn place_to_advise(&self, tenant: TenantId) -> SqlResult<AdvicePlace<'_>> {
        let mut advised = self.lock_advised();
        if advised.len() >= ADVISED_MAX || !advised.insert(tenant) {
            let bound = format!("A tenant asks in one statement at a time, and {ADVISED_MAX} tenants do.");
            let message = "advice is being given already";
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .with_detail(bound)
                .with_hint("Ask again in a moment."));
        }
        Ok(AdvicePlace { ledger: self, tenant })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_advised_once_at_a_time_and_few_are_at_all() {
        let ledger = Ledger::default();
        let refused = |tenant| ledger.place_to_advise(TenantId(tenant)).err().map(|error| error.state());
        let first = ledger.place_to_advise(TenantId(16)).expect("a place");
        assert_eq!(refused(16), Some(SqlState::CONFIGURATION_LIMIT_EXCEEDED), "it is already");
        let second = ledger.place_to_advise(TenantId(17)).expect("another place");
        assert_eq!(refused(18), Some(SqlState::CONFIGURATION_LIMIT_EXCEEDED), "two others are");
        drop(first);
        assert_eq!((refused(17).is_some(), refused(18), refused(16)), (true, None, None));
        drop(second);
        assert!(ledger.lock_advised().is_empty());
    }
}
