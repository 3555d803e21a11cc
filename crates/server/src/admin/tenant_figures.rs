//! What `/metrics` tells of each tenant, and of which tenants it does.

use base::{ByteCount, TenantId};
use rustc_hash::{FxHashMap, FxHashSet};
use storage::PageTally;

use crate::ledger::LedgerFigures;
use crate::shared::Shared;

/// Tenants with series of their own, 73 each at most. The rest are summed.
pub(super) const TENANTS_MAX: usize = 1_000;
/// The name they are summed under. A tenant of that name would share their series, so it has none of its own.
const OTHERS: &str = "(others)";

/// Who has series of their own. Once a tenant has, it keeps them until it is dropped: a counter that came and went would be taken for one
/// that was reset.
#[derive(Default)]
pub(super) struct Chosen(FxHashSet<TenantId>);

impl Chosen {
    /// Fills the places there are, `max` in all, with the tenants that used the most processor time. `used`: every tenant there is, and how much
    /// it used.
    fn choose(&mut self, mut used: Vec<(TenantId, f64)>, max: usize) -> &FxHashSet<TenantId> {
        let there: FxHashSet<TenantId> = used.iter().map(|(tenant, _)| *tenant).collect();
        self.0.retain(|tenant| there.contains(tenant));
        let room = max.saturating_sub(self.0.len());
        used.retain(|(tenant, _)| !self.0.contains(tenant));
        used.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        self.0.extend(used.into_iter().take(room).map(|(tenant, _)| tenant));
        &self.0
    }
}

/// Of one tenant, or of several together.
#[derive(Default)]
pub(super) struct TenantFigures {
    pub(super) name: String,
    pub(super) cpu_seconds: f64,
    pub(super) ledger: LedgerFigures,
    pub(super) commits: u64,
    pub(super) sessions: usize,
    /// How many of them are in memory.
    pub(super) open: usize,
    pub(super) resident: ByteCount,
    pub(super) memory_promised: ByteCount,
    pub(super) pages: PageTally,
}

impl TenantFigures {
    fn add(&mut self, other: &TenantFigures) {
        self.cpu_seconds += other.cpu_seconds;
        self.ledger = self.ledger + other.ledger;
        self.commits += other.commits;
        self.sessions += other.sessions;
        self.open += other.open;
        self.resident += other.resident;
        self.memory_promised += other.memory_promised;
        self.pages = self.pages + other.pages;
    }
}

/// Every chosen tenant's figures by name, then those of the others together, if there are any.
pub(super) fn gather(shared: &Shared, chosen: &mut Chosen) -> Vec<TenantFigures> {
    let totals = shared.ledger.totals();
    let mut all = FxHashMap::default();
    for (name, entry) in shared.tenants.list() {
        let (resident, pages) = entry.home.page_figures();
        let spent = shared.spent_by(entry.id);
        let figures = TenantFigures {
            name,
            cpu_seconds: spent.running.0.as_secs_f64(),
            ledger: LedgerFigures { totals: totals(entry.id), waits: spent.waits },
            commits: entry.home.commits(),
            sessions: shared.sessions.count_of(entry.id),
            open: usize::from(entry.home.is_open()),
            resident,
            memory_promised: entry.row().promise.memory.memory,
            pages,
        };
        all.insert(entry.id, figures);
    }
    let used = all.iter().filter(|(_, figures)| figures.name != OTHERS);
    let used = used.map(|(tenant, figures)| (*tenant, figures.cpu_seconds)).collect();
    summed(all, chosen.choose(used, TENANTS_MAX))
}

fn summed(all: FxHashMap<TenantId, TenantFigures>, chosen: &FxHashSet<TenantId>) -> Vec<TenantFigures> {
    let mut others: Option<TenantFigures> = None;
    let mut told = Vec::new();
    for (tenant, figures) in all {
        if chosen.contains(&tenant) {
            told.push(figures);
        } else {
            let fresh = || TenantFigures { name: OTHERS.to_owned(), ..TenantFigures::default() };
            others.get_or_insert_with(fresh).add(&figures);
        }
    }
    told.sort_by(|a, b| a.name.cmp(&b.name));
    told.extend(others);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tenant: u64, cpu_seconds: f64) -> (TenantId, TenantFigures) {
        let name = format!("t{tenant}");
        (TenantId(tenant), TenantFigures { name, cpu_seconds, sessions: 1, ..TenantFigures::default() })
    }

    fn told(chosen: &mut Chosen, tenants: &[(u64, f64)], max: usize) -> Vec<(String, f64)> {
        let all: FxHashMap<_, _> = tenants.iter().map(|(tenant, used)| of(*tenant, *used)).collect();
        let used = all.iter().map(|(tenant, figures)| (*tenant, figures.cpu_seconds)).collect();
        let told = summed(all, chosen.choose(used, max));
        let sessions: usize = told.iter().map(|figures| figures.sessions).sum();
        assert_eq!(sessions, tenants.len(), "everybody is in it");
        told.into_iter().map(|figures| (figures.name, figures.cpu_seconds)).collect()
    }

    fn named(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
        expected.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect()
    }

    #[test]
    fn series_are_bounded_and_stay_with_whom_they_are() {
        let mut chosen = Chosen::default();
        let first = told(&mut chosen, &[(1, 5.0), (2, 1.0), (3, 9.0), (4, 2.0)], 2);
        assert_eq!(first, named(&[("t1", 5.0), ("t3", 9.0), (OTHERS, 3.0)]));
        // Others have used more since.
        let later = told(&mut chosen, &[(1, 5.0), (2, 50.0), (3, 9.0), (4, 60.0)], 2);
        assert_eq!(later, named(&[("t1", 5.0), ("t3", 9.0), (OTHERS, 110.0)]));
        // A place that is free goes to who has used the most by then.
        let dropped = told(&mut chosen, &[(1, 5.0), (2, 50.0), (4, 60.0)], 2);
        assert_eq!(dropped, named(&[("t1", 5.0), ("t4", 60.0), (OTHERS, 50.0)]));
        assert_eq!(told(&mut chosen, &[(1, 5.0), (4, 60.0)], 2).len(), 2, "no others");
    }
}
