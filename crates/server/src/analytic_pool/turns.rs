//! Whose query the next thread runs: a tenant with many queries does not keep others waiting behind them.
//!
//! A tenant has a few threads at most, and of those that want one more the tenant with the fewest gets it. All threads together are
//! bounded, but for one that the server's own tenant gets in any case: whoever looks why nothing moves is answered. How much
//! of the processor each query gets is the governor's affair, not that of the number of threads.

use std::collections::VecDeque;

use base::TenantId;
use rustc_hash::FxHashMap;

/// Queries of one tenant that advance side by side on one worker.
pub(super) const RUNNING_MAX: usize = 4;
/// Of all tenants on one worker.
pub(super) const RUNNING_MAX_ALL: usize = 64;
/// Queries of one tenant that wait for a thread; one more is refused (53000's class).
pub(super) const WAITING_MAX: usize = 1_000;

struct OfTenant<J> {
    waiting: VecDeque<J>,
    running: usize,
}

impl<J> OfTenant<J> {
    /// How many more of its queries may run, were there threads for all.
    fn startable(&self) -> usize {
        self.waiting.len().min(RUNNING_MAX.saturating_sub(self.running))
    }
}

/// Queries that wait, and how many run.
pub(super) struct Turns<J> {
    /// Those with queries that wait or run.
    tenants: FxHashMap<TenantId, OfTenant<J>>,
    /// Those with a query that waits, in the order in which they last had a turn.
    order: VecDeque<TenantId>,
    running: usize,
}

impl<J> Default for Turns<J> {
    fn default() -> Turns<J> {
        Turns { tenants: FxHashMap::default(), order: VecDeque::new(), running: 0 }
    }
}

impl<J> Turns<J> {
    /// Takes a query in; gives it back if too many of the tenant's wait.
    pub(super) fn push(&mut self, tenant: TenantId, job: J) -> Result<(), J> {
        let fresh = || OfTenant { waiting: VecDeque::new(), running: 0 };
        let of_tenant = self.tenants.entry(tenant).or_insert_with(fresh);
        if of_tenant.waiting.len() >= WAITING_MAX {
            return Err(job);
        }
        if of_tenant.waiting.is_empty() {
            self.order.push_back(tenant);
        }
        of_tenant.waiting.push_back(job);
        Ok(())
    }

    fn may_run(&self, tenant: TenantId) -> bool {
        let of_tenant = &self.tenants[&tenant];
        let has_place =
            self.running < RUNNING_MAX_ALL || (tenant == TenantId::SYSTEM && of_tenant.running == 0);
        has_place && of_tenant.startable() > 0
    }

    /// The query to run next, if one may. [`Turns::ended`] is told when it has ended.
    pub(super) fn take(&mut self) -> Option<(TenantId, J)> {
        let candidates = self.order.iter().enumerate().filter(|(_, tenant)| self.may_run(**tenant));
        let (at, tenant) = candidates.min_by_key(|(_, tenant)| self.tenants[*tenant].running)?;
        let tenant = *tenant;
        self.order.remove(at);
        let of_tenant = self.tenants.get_mut(&tenant).expect("it waits");
        let job = of_tenant.waiting.pop_front().expect("it waits");
        of_tenant.running += 1;
        self.running += 1;
        if !of_tenant.waiting.is_empty() {
            self.order.push_back(tenant);
        }
        Some((tenant, job))
    }

    /// A query of `tenant` has ended.
    ///
    /// # Panics
    /// If none runs.
    pub(super) fn ended(&mut self, tenant: TenantId) {
        let of_tenant = self.tenants.get_mut(&tenant).expect("one ran");
        of_tenant.running = of_tenant.running.checked_sub(1).expect("one ran");
        self.running -= 1;
        if of_tenant.running == 0 && of_tenant.waiting.is_empty() {
            self.tenants.remove(&tenant);
        }
    }

    /// How many queries may be taken now, one after the other, or one more where the server's own are among them.
    pub(super) fn startable(&self) -> usize {
        let startable: usize = self.order.iter().map(|tenant| self.tenants[tenant].startable()).sum();
        let system = self.tenants.get(&TenantId::SYSTEM);
        let beside = system.is_some_and(|system| system.running == 0 && system.startable() > 0);
        startable.min(RUNNING_MAX_ALL.saturating_sub(self.running) + usize::from(beside))
    }

    /// Takes all queries out that wait.
    pub(super) fn drain(&mut self) -> Vec<J> {
        self.order.clear();
        let waiting: Vec<J> = self.tenants.values_mut().flat_map(|tenant| tenant.waiting.drain(..)).collect();
        self.tenants.retain(|_, tenant| tenant.running > 0);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: TenantId = TenantId(16);
    const B: TenantId = TenantId(17);

    fn turns(jobs: &[(TenantId, u32)]) -> Turns<u32> {
        let mut turns = Turns::default();
        jobs.iter().for_each(|(tenant, job)| turns.push(*tenant, *job).expect("room"));
        turns
    }

    #[test]
    fn many_queries_of_one_tenant_do_not_hold_up_another() {
        let mut turns = turns(&[(A, 1), (A, 2), (A, 3), (A, 4), (A, 5), (B, 6)]);
        assert_eq!(turns.startable(), 5);
        let order: Vec<u32> = std::iter::from_fn(|| turns.take()).map(|(_, job)| job).collect();
        assert_eq!(order, [1, 6, 2, 3, 4], "the fifth waits for one of its own");
        assert_eq!(turns.startable(), 0);
        turns.ended(B);
        assert_eq!(turns.take(), None);
        turns.ended(A);
        assert_eq!(turns.take(), Some((A, 5)));
    }

    #[test]
    fn the_server_itself_is_answered_when_all_threads_are_taken() {
        let mut turns = Turns::default();
        for tenant in 0..RUNNING_MAX_ALL as u64 {
            turns.push(TenantId(16 + tenant), 0).expect("room");
            assert!(turns.take().is_some());
        }
        turns.push(TenantId(1_000), 1).expect("room");
        assert_eq!((turns.startable(), turns.take()), (0, None));
        turns.push(TenantId::SYSTEM, 2).expect("room");
        turns.push(TenantId::SYSTEM, 3).expect("room");
        assert_eq!((turns.startable(), turns.take()), (1, Some((TenantId::SYSTEM, 2))));
        assert_eq!((turns.startable(), turns.take()), (0, None), "one of its own, no more");
        turns.ended(TenantId(16));
        assert_eq!(turns.take(), None, "it has as many as there are places and one");
        turns.ended(TenantId(17));
        assert!(turns.take().is_some());
    }

    #[test]
    fn the_last_place_and_the_servers_own_are_two() {
        let mut turns = Turns::default();
        for tenant in 1..RUNNING_MAX_ALL as u64 {
            turns.push(TenantId(16 + tenant), 0).expect("room");
            assert!(turns.take().is_some());
        }
        turns.push(TenantId(1_000), 1).expect("room");
        turns.push(TenantId::SYSTEM, 2).expect("room");
        assert_eq!(turns.startable(), 2, "a thread for each");
        assert!(turns.take().is_some() && turns.take().is_some());
        assert_eq!(turns.startable(), 0);
    }

    #[test]
    fn a_tenant_with_too_many_is_refused_alone() {
        let mut turns = Turns::default();
        for job in 0..WAITING_MAX {
            turns.push(A, job).expect("room");
        }
        assert_eq!(turns.push(A, 9_999), Err(9_999));
        assert_eq!(turns.push(B, 5), Ok(()));
        assert_eq!(turns.drain().len(), WAITING_MAX + 1);
        assert_eq!(turns.take(), None);
    }

    proptest! {
        /// Each query runs once, a tenant's in their order, and where one may run, one is given out.
        #[test]
        fn nothing_is_lost_and_nobody_waits_for_nothing(
            steps in prop::collection::vec((0..3u8, 0..40u64), 1..600),
        ) {
            let (mut turns, mut pushed, mut taken) = (Turns::default(), Vec::new(), Vec::new());
            let mut running: Vec<TenantId> = Vec::new();
            for (step, who) in steps {
                // Eight of ten belong to one of few.
                let tenant = TenantId(if who == 0 { TenantId::SYSTEM.0 } else { 16 + who / 8 * who });
                match step {
                    0 => {
                        turns.push(tenant, pushed.len()).expect("room");
                        pushed.push(tenant);
                    }
                    1 if !running.is_empty() => turns.ended(running.swap_remove(who as usize % running.len())),
                    _ => {
                        let startable = turns.startable();
                        let took = turns.take();
                        prop_assert_eq!(took.is_some(), startable > 0);
                        prop_assert!(turns.startable() + 2 > startable, "one taken is one less at most");
                        if let Some((tenant, job)) = took {
                            prop_assert_eq!(pushed[job], tenant);
                            taken.push(job);
                            running.push(tenant);
                            prop_assert!(running.iter().filter(|other| **other == tenant).count() <= RUNNING_MAX);
                            prop_assert!(running.len() <= RUNNING_MAX_ALL + 1);
                        }
                    }
                }
            }
            let mut left = turns.drain();
            for tenant in &pushed {
                let of = |jobs: &[usize]| jobs.iter().filter(|job| pushed[**job] == *tenant).copied().collect::<Vec<_>>();
                let ran = of(&taken);
                prop_assert!(ran.is_sorted());
                prop_assert!(of(&left).iter().all(|job| ran.last().is_none_or(|last| job > last)));
            }
            left.extend(&taken);
            left.sort_unstable();
            prop_assert_eq!(left, (0..pushed.len()).collect::<Vec<_>>());
        }
    }
}
