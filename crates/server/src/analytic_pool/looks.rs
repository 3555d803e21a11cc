//! Queries that look at nothing but the server's own tables, while their tenant has no place left for them.
//!
//! Who wants to know what keeps a database busy (`pg_stat_activity`, psql's `\d`) would else wait for the very queries that keep it so. So each tenant
//! has one place more for such a query, all together a bounded number.

use std::collections::VecDeque;

use base::TenantId;
use rustc_hash::FxHashMap;

use super::turns::WAITING_MAX;

/// Of all tenants on one worker, that run side by side.
const RUNNING_MAX_ALL: usize = 64;

struct OfTenant<J> {
    waiting: VecDeque<J>,
    runs: bool,
}

/// Those that wait, and who has one that runs.
pub(super) struct Looks<J> {
    /// Those with one that waits or runs.
    tenants: FxHashMap<TenantId, OfTenant<J>>,
    /// Those with one that waits and none that runs, in order.
    order: VecDeque<TenantId>,
    running: usize,
}

impl<J> Default for Looks<J> {
    fn default() -> Looks<J> {
        Looks { tenants: FxHashMap::default(), order: VecDeque::new(), running: 0 }
    }
}

impl<J> Looks<J> {
    /// Takes a query in; gives it back if too many of the tenant's wait.
    pub(super) fn push(&mut self, tenant: TenantId, job: J) -> Result<(), J> {
        let nothing = || OfTenant { waiting: VecDeque::new(), runs: false };
        let of_tenant = self.tenants.entry(tenant).or_insert_with(nothing);
        if of_tenant.waiting.len() >= WAITING_MAX {
            return Err(job);
        }
        if of_tenant.waiting.is_empty() && !of_tenant.runs {
            self.order.push_back(tenant);
        }
        of_tenant.waiting.push_back(job);
        Ok(())
    }

    /// The query to run next, if one may. [`Looks::ended`] is told when it has ended.
    pub(super) fn take(&mut self) -> Option<(TenantId, J)> {
        if self.startable() == 0 {
            return None;
        }
        let tenant = self.order.pop_front()?;
        let of_tenant = self.tenants.get_mut(&tenant).expect("it waits");
        let job = of_tenant.waiting.pop_front().expect("it waits");
        of_tenant.runs = true;
        self.running += 1;
        Some((tenant, job))
    }

    /// The query of `tenant` that ran has ended.
    ///
    /// # Panics
    /// If none runs.
    pub(super) fn ended(&mut self, tenant: TenantId) {
        let of_tenant = self.tenants.get_mut(&tenant).expect("one ran");
        assert!(std::mem::take(&mut of_tenant.runs), "one ran");
        self.running -= 1;
        if of_tenant.waiting.is_empty() {
            self.tenants.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
    }

    /// How many queries may be taken now, one after the other.
    pub(super) fn startable(&self) -> usize {
        self.order.len().min(RUNNING_MAX_ALL - self.running)
    }

    /// Takes all queries out that wait.
    pub(super) fn drain(&mut self) -> Vec<J> {
        self.order.clear();
        let waiting = self.tenants.values_mut().flat_map(|tenant| tenant.waiting.drain(..)).collect();
        self.tenants.retain(|_, tenant| tenant.runs);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(16);
    const B: TenantId = TenantId(17);

    #[test]
    fn each_tenant_has_one_at_a_time_in_order() {
        let mut looks = Looks::default();
        for (tenant, job) in [(A, 1), (A, 2), (B, 3), (A, 4)] {
            looks.push(tenant, job).expect("room");
        }
        assert_eq!((looks.startable(), looks.take()), (2, Some((A, 1))));
        assert_eq!((looks.startable(), looks.take()), (1, Some((B, 3))));
        assert_eq!((looks.startable(), looks.take()), (0, None));
        looks.ended(B);
        assert_eq!(looks.take(), None);
        looks.ended(A);
        assert_eq!(looks.take(), Some((A, 2)));
        assert_eq!(looks.drain(), [4]);
        looks.ended(A);
        assert!(looks.tenants.is_empty() && looks.running == 0);
    }

    #[test]
    fn all_together_are_bounded() {
        let mut looks = Looks::default();
        for tenant in 0..RUNNING_MAX_ALL as u64 + 1 {
            looks.push(TenantId(tenant), tenant).expect("room");
        }
        assert_eq!(std::iter::from_fn(|| looks.take()).count(), RUNNING_MAX_ALL);
        looks.ended(TenantId(5));
        assert_eq!(looks.take(), Some((TenantId(RUNNING_MAX_ALL as u64), RUNNING_MAX_ALL as u64)));
        for job in 0..WAITING_MAX as u64 {
            looks.push(TenantId(1), job).expect("room");
        }
        assert_eq!(looks.push(TenantId(1), 7), Err(7));
    }
}
