//! What tenants took of their homes' cores lately. Queries that may run on any core are no load of the home: they go where there is most to spare.

use base::{Nanos, TenantId};
use governor::MilliCores;
use rustc_hash::FxHashMap;

/// A change of load is seen for two thirds after this time: much longer than the interval of looking, so that no burst moves anybody, and short beside
/// the rest of a tenant that has moved.
const SMOOTHED_OVER: Nanos = Nanos::from_secs(10);
/// Shorter intervals say nothing.
const INTERVAL_MIN: Nanos = Nanos::from_millis(200);

/// What a tenant has used since the server's start.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) by_tasks: Nanos,
    pub(super) by_queries: Nanos,
    /// Its queries may run beside others' homes.
    pub(super) may_roam: bool,
}

/// Exponentially weighted means.
#[derive(Default)]
pub(super) struct Loads {
    at: Option<Nanos>,
    by_tenant: FxHashMap<TenantId, Load>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    /// At the last look.
    used: Used,
    milli_cores: f64,
}

impl Loads {
    /// Takes in what each tenant has used by `now` since the server's start; who is not among them is forgotten.
    pub(super) fn take_in(&mut self, used: &FxHashMap<TenantId, Used>, now: Nanos) {
        let Some(before) = self.at else {
            self.at = Some(now);
            let begun =
                |(tenant, used): (&TenantId, &Used)| (*tenant, Load { used: *used, milli_cores: 0.0 });
            self.by_tenant = used.iter().map(begun).collect();
            return;
        };
        let time = now - before;
        if time < INTERVAL_MIN {
            return;
        }
        self.at = Some(now);
        let weight = time.as_secs_f64() / (time + SMOOTHED_OVER).as_secs_f64();
        self.by_tenant.retain(|tenant, _| used.contains_key(tenant));
        for (tenant, used) in used {
            let load = self.by_tenant.entry(*tenant).or_default();
            // Nothing where time was taken back, since a worker was preempted.
            let by_tasks = used.by_tasks - load.used.by_tasks;
            let by_queries = if used.may_roam { Nanos(0) } else { used.by_queries - load.used.by_queries };
            let rate = (by_tasks + by_queries).as_secs_f64() / time.as_secs_f64() * 1e3;
            load.used = *used;
            load.milli_cores += weight * (rate - load.milli_cores);
        }
    }

    /// Thousandths of a core; less than one is none.
    pub(super) fn of(&self, tenant: TenantId) -> MilliCores {
        MilliCores(self.by_tenant.get(&tenant).map_or(0, |load| load.milli_cores as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(16);
    const B: TenantId = TenantId(17);

    fn used(a: u64, b: u64) -> FxHashMap<TenantId, Used> {
        let by_tasks = |ms| Used { by_tasks: Nanos::from_millis(ms), ..Used::default() };
        [(A, by_tasks(a)), (B, by_tasks(b))].into_iter().collect()
    }

    #[test]
    fn queries_are_load_of_the_home_where_they_stay_there() {
        let mut loads = Loads::default();
        let mut look = |second: u64, may_roam: bool| {
            let by_queries = Nanos::from_millis(1000 * second);
            let used = Used { by_tasks: Nanos::from_millis(100 * second), by_queries, may_roam };
            loads.take_in(&[(A, used)].into_iter().collect(), Nanos::from_secs(1 + second));
            loads.of(A).0
        };
        let mut last = |seconds: std::ops::Range<u64>, may_roam: bool| {
            seconds.fold(0, |_, second| look(second, may_roam))
        };
        let roams = last(0..101, true);
        assert!((99..=100).contains(&roams), "{roams}");
        // A promise that keeps it at home makes no load of what was before.
        assert!(last(101..102, false) <= 200);
        let stays = last(102..201, false);
        assert!((1098..=1100).contains(&stays), "{stays}");
    }

    #[test]
    fn load_follows_what_is_used_and_bursts_hardly_show() {
        let mut loads = Loads::default();
        loads.take_in(&used(5000, 0), Nanos::from_secs(1));
        assert_eq!(loads.of(A), MilliCores(0), "what was before is not known in time");
        for second in 1..=100 {
            loads.take_in(&used(5000 + 500 * second, 0), Nanos::from_secs(1 + second));
        }
        assert!((499..=500).contains(&loads.of(A).0), "{:?}", loads.of(A));
        loads.take_in(&used(55_500, 1000), Nanos::from_secs(102));
        assert!((85..=95).contains(&loads.of(B).0), "{:?}: a second of a whole core", loads.of(B));
        loads.take_in(&used(55_500, 1000), Nanos::from_secs(112));
        assert_eq!(loads.of(B), MilliCores(45), "half of it is forgotten after ten seconds");
    }

    #[test]
    fn looks_in_a_row_change_nothing_and_the_gone_are_forgotten() {
        let mut loads = Loads::default();
        loads.take_in(&used(0, 0), Nanos::from_secs(1));
        loads.take_in(&used(1000, 0), Nanos::from_secs(2));
        let before = loads.of(A);
        loads.take_in(&used(2000, 0), Nanos::from_millis(2100));
        assert_eq!(loads.of(A), before);
        loads.take_in(&[(B, Used::default())].into_iter().collect(), Nanos::from_secs(3));
        assert_eq!(loads.of(A), MilliCores(0));
    }
}
