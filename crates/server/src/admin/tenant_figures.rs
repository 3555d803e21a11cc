//! What `/metrics` tells of each tenant, and of which tenants it does.

use base::{ByteCount, TenantId};
use rustc_hash::{FxHashMap, FxHashSet};
use storage::PageTally;

use crate::ledger::LedgerFigures;
use crate::shared::Shared;

/// Tenants with series of their own, 76 each at most. The rest are summed.
pub(super) const TENANTS_MAX: usize = 1_000;
/// The name they are summed under. A tenant of that name would share their series, so it has none of its own.
const OTHERS: &str = "(others)";

/// Who has series of their own. Once a tenant has, it keeps them until it is dropped: a counter that came and went would be taken for one
/// that was reset. So would the sums of the others, were they less for a tenant that was dropped, or got a place: what it had counted stays in them.
#[derive(Default)]
pub(super) struct Chosen {
    tenants: FxHashSet<TenantId>,
    /// Those that have no place, as they were told last.
    others: FxHashMap<TenantId, TenantFigures>,
    /// What those had counted that were among the others, and are no more.
    left: TenantFigures,
}

impl Chosen {
    /// Fills the places there are, `max` in all, with the tenants that used the most processor time. `used`: every tenant there is, and how much
    /// it used.
    fn choose(&mut self, mut used: Vec<(TenantId, f64)>, max: usize) {
        let there: FxHashSet<TenantId> = used.iter().map(|(tenant, _)| *tenant).collect();
        self.tenants.retain(|tenant| there.contains(tenant));
        let room = max.saturating_sub(self.tenants.len());
        used.retain(|(tenant, _)| !self.tenants.contains(tenant));
        used.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        self.tenants.extend(used.into_iter().take(room).map(|(tenant, _)| tenant));
    }

    /// Takes what the others have counted by now; with that of those who have left them since.
    fn take_others(&mut self, others: FxHashMap<TenantId, TenantFigures>) -> Option<TenantFigures> {
        let before = std::mem::replace(&mut self.others, others);
        for (_, figures) in before.iter().filter(|(tenant, _)| !self.others.contains_key(tenant)) {
            self.left.add(&figures.counted());
        }
        if self.others.is_empty() && self.left.cpu_seconds <= 0.0 {
            return None;
        }
        let mut sum = TenantFigures { name: OTHERS.to_owned(), ..TenantFigures::default() };
        self.others.values().chain([&self.left]).for_each(|figures| sum.add(figures));
        Some(sum)
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
    /// What only grows of it.
    fn counted(&self) -> TenantFigures {
        TenantFigures {
            cpu_seconds: self.cpu_seconds,
            ledger: self.ledger,
            commits: self.commits,
            pages: self.pages,
            ..TenantFigures::default()
        }
    }

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
    chosen.choose(used, TENANTS_MAX);
    summed(all, chosen)
}

fn summed(all: FxHashMap<TenantId, TenantFigures>, chosen: &mut Chosen) -> Vec<TenantFigures> {
    let (mut told, mut others) = (Vec::new(), FxHashMap::default());
    for (tenant, figures) in all {
        if chosen.tenants.contains(&tenant) {
            told.push(figures);
        } else {
            others.insert(tenant, figures);
        }
    }
    told.sort_by(|a, b| a.name.cmp(&b.name));
    told.extend(chosen.take_others(others));
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
        chosen.choose(used, max);
        let told = summed(all, chosen);
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
        assert_eq!(dropped, named(&[("t1", 5.0), ("t4", 60.0), (OTHERS, 110.0)]));
        // What was counted of the others does not get less, whoever of them is dropped.
        let later = told(&mut chosen, &[(1, 5.0), (4, 61.0), (5, 2.0)], 2);
        assert_eq!(later, named(&[("t1", 5.0), ("t4", 61.0), (OTHERS, 112.0)]));
        let alone = told(&mut chosen, &[(1, 5.0), (4, 61.0)], 2);
        assert_eq!(alone, named(&[("t1", 5.0), ("t4", 61.0), (OTHERS, 112.0)]));
        assert_eq!(told(&mut Chosen::default(), &[(1, 5.0), (4, 60.0)], 2).len(), 2, "no others");
    }
}
