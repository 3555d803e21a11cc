//! What tenants took of the processors lately.

use base::{Nanos, TenantId};
use governor::MilliCores;
use rustc_hash::FxHashMap;

/// A change of load is seen for two thirds after this time: much longer than the interval of looking, so that no burst moves anybody, and short beside
/// the rest of a tenant that has moved.
const SMOOTHED_OVER: Nanos = Nanos::from_secs(10);
/// Shorter intervals say nothing.
const INTERVAL_MIN: Nanos = Nanos::from_millis(200);

/// Exponentially weighted means.
#[derive(Default)]
pub(super) struct Loads {
    at: Option<Nanos>,
    by_tenant: FxHashMap<TenantId, Load>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    /// At the last look.
    used: Nanos,
    milli_cores: f64,
}

impl Loads {
    /// Takes in what each tenant has used by `now` since the server's start; who is not among them is forgotten.
    pub(super) fn take_in(&mut self, used: &FxHashMap<TenantId, Nanos>, now: Nanos) {
        let Some(before) = self.at else {
            self.at = Some(now);
            let begun =
                |(tenant, used): (&TenantId, &Nanos)| (*tenant, Load { used: *used, milli_cores: 0.0 });
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
            // Time is taken back where a worker was preempted.
            let rate = (*used - load.used.min(*used)).as_secs_f64() / time.as_secs_f64() * 1e3;
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

    fn used(a: u64, b: u64) -> FxHashMap<TenantId, Nanos> {
        [(A, Nanos::from_millis(a)), (B, Nanos::from_millis(b))].into_iter().collect()
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
        loads.take_in(&[(B, Nanos(0))].into_iter().collect(), Nanos::from_secs(3));
        assert_eq!(loads.of(A), MilliCores(0));
    }
}
