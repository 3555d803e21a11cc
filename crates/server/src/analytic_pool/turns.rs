//! Whose query the next thread runs: a tenant with many queries does not keep others waiting behind them.
//!
//! A tenant has a few places at most, and of those that want one more the tenant with the fewest gets it. All places together are
//! bounded, but for one that the server's own tenant gets in any case (whoever looks why nothing moves is answered), and one for each of a bounded
//! number of tenants with a promise of processor time: who was promised some has a query that advances, whatever others hold. How much
//! of the processor each query gets is the governor's affair, not that of the number of threads.
//!
//! A query that waits for its client leaves its place ([`Turns::park`]) and asks for it back after that, before queries that have not begun. What it
//! keeps is its thread, which stands still, and what it holds in memory: so a tenant has so many of those at most, and beyond that they
//! keep its places, not others'. One that its tenant's own limit holds keeps a place of its tenant's and none of others ([`Turns::hold`]); it goes on without asking.

use std::collections::VecDeque;

use base::TenantId;
use rustc_hash::FxHashMap;

/// Queries of one tenant that advance side by side on one worker.
pub(super) const RUNNING_MAX: usize = 4;
/// Of all tenants on one worker.
pub(super) const RUNNING_MAX_ALL: usize = 64;
/// More than that, each the only one of a tenant with a promise of processor time.
pub(super) const RUNNING_MAX_PROMISED: usize = 64;
/// Queries of one tenant that wait for a thread; one more is refused (53000's class).
pub(super) const WAITING_MAX: usize = 1_000;
/// Queries of one tenant that have begun, those that wait for their clients among them.
pub(super) const BEGUN_MAX: usize = 16;
/// Queries of all tenants on one worker that wait for their clients, or for their tenants' own limits, and have no place.
pub(super) const PARKED_MAX_ALL: usize = 1_024;

struct OfTenant<J> {
    waiting: VecDeque<J>,
    running: usize,
    /// Without a place, while their clients do not read.
    parked: usize,
    /// Without a place, which they want back.
    returning: usize,
    is_promised: bool,
    /// What [`Turns::changed_wish`] said last.
    told: u32,
}

impl<J> Default for OfTenant<J> {
    fn default() -> OfTenant<J> {
        OfTenant {
            waiting: VecDeque::new(),
            running: 0,
            parked: 0,
            returning: 0,
            is_promised: false,
            told: 0,
        }
    }
}

impl<J> OfTenant<J> {
    fn begun(&self) -> usize {
        self.running + self.parked + self.returning
    }

    /// How many of those that want their places back may have them, were there places for all.
    fn returnable(&self) -> usize {
        self.returning.min(RUNNING_MAX.saturating_sub(self.running))
    }

    /// How many more of its queries may begin, were there places for all.
    fn startable(&self) -> usize {
        let places = RUNNING_MAX.saturating_sub(self.running + self.returning);
        self.waiting.len().min(places).min(BEGUN_MAX.saturating_sub(self.begun()))
    }
}

/// What became of a query's place while it waits for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parked {
    Free,
    /// It keeps it: too many wait for their clients.
    TooMany,
}

/// Queries that wait, and how many run.
pub(super) struct Turns<J> {
    /// Those with queries that wait or have begun.
    tenants: FxHashMap<TenantId, OfTenant<J>>,
    /// Those with a query that waits, in the order in which they last had a turn.
    order: VecDeque<TenantId>,
    /// Places of all that are taken.
    running: usize,
    parked: usize,
    /// Queries that count as running for their tenants alone: their own limits hold them.
    held: usize,
}

impl<J> Default for Turns<J> {
    fn default() -> Turns<J> {
        Turns { tenants: FxHashMap::default(), order: VecDeque::new(), running: 0, parked: 0, held: 0 }
    }
}

impl<J> Turns<J> {
    /// Takes a query in; gives it back if too many of the tenant's wait. `is_promised`: the tenant has a promise of processor time.
    pub(super) fn push(&mut self, tenant: TenantId, is_promised: bool, job: J) -> Result<(), J> {
        let of_tenant = self.tenants.entry(tenant).or_default();
        of_tenant.is_promised = is_promised;
        if of_tenant.waiting.len() >= WAITING_MAX {
            return Err(job);
        }
        if of_tenant.waiting.is_empty() {
            self.order.push_back(tenant);
        }
        of_tenant.waiting.push_back(job);
        Ok(())
    }

    /// The tenant is, or is not any more, promised processor time: for its queries that wait, too. Whether that is news to any.
    pub(super) fn set_promised(&mut self, tenant: TenantId, is_promised: bool) -> bool {
        let Some(of_tenant) = self.tenants.get_mut(&tenant) else { return false };
        std::mem::replace(&mut of_tenant.is_promised, is_promised) != is_promised
    }

    /// Whether a tenant that has a query is promised processor time, as far as was said last.
    pub(super) fn is_promised(&self, tenant: TenantId) -> bool {
        self.tenants.get(&tenant).is_some_and(|of_tenant| of_tenant.is_promised)
    }

    /// Whether a query that came now would run at once.
    pub(super) fn has_place_for_one(&self, tenant: TenantId, is_promised: bool) -> bool {
        let taken = self.taken();
        match self.tenants.get(&tenant) {
            None => taken < RUNNING_MAX_ALL || is_promised || tenant == TenantId::SYSTEM,
            Some(of_tenant) => {
                let own = of_tenant.running + of_tenant.returning + of_tenant.waiting.len();
                own < RUNNING_MAX && of_tenant.begun() < BEGUN_MAX && self.has_place(tenant, taken)
            }
        }
    }

    /// Whether there is a place for one more query of the tenant beside `taken` ones.
    fn has_place(&self, tenant: TenantId, taken: usize) -> bool {
        let of_tenant = &self.tenants[&tenant];
        let most = match of_tenant.running {
            0 if tenant == TenantId::SYSTEM => usize::MAX,
            0 if of_tenant.is_promised => RUNNING_MAX_ALL + RUNNING_MAX_PROMISED,
            _ => RUNNING_MAX_ALL,
        };
        taken < most
    }

    /// Places that are taken, or wanted back by queries that may have them.
    fn taken(&self) -> usize {
        self.running + self.tenants.values().map(OfTenant::returnable).sum::<usize>()
    }

    /// The query to run next, if one may. [`Turns::ended`] is told when it has ended.
    pub(super) fn take(&mut self) -> Option<(TenantId, J)> {
        let taken = self.taken();
        let may_run =
            |tenant: &TenantId| self.tenants[tenant].startable() > 0 && self.has_place(*tenant, taken);
        let candidates = self.order.iter().enumerate().filter(|(_, tenant)| may_run(tenant));
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

    /// A query of `tenant` waits for its client: it has no place from here on, unless too many do so.
    ///
    /// # Panics
    /// If none runs.
    pub(super) fn park(&mut self, tenant: TenantId) -> Parked {
        if self.parked + self.held >= PARKED_MAX_ALL {
            return Parked::TooMany;
        }
        let of_tenant = self.tenants.get_mut(&tenant).expect("one runs");
        of_tenant.running = of_tenant.running.checked_sub(1).expect("one runs");
        of_tenant.parked += 1;
        self.running -= 1;
        self.parked += 1;
        Parked::Free
    }

    /// A query that runs waits for its tenant's own limit, of I/O or of processor time: its place is another tenant's until [`Turns::go_on`], and its tenant
    /// has no more queries for that. False, and it keeps it, if too many have left theirs.
    pub(super) fn hold(&mut self) -> bool {
        let leaves = self.parked + self.held < PARKED_MAX_ALL;
        if leaves {
            self.held += 1;
            self.running -= 1;
        }
        leaves
    }

    /// A query that was held goes on, also where others have all places.
    pub(super) fn go_on(&mut self) {
        self.held = self.held.checked_sub(1).expect("one was held");
        self.running += 1;
    }

    /// A query of `tenant` that was parked wants a place again. [`Turns::come_back`] until it has it.
    pub(super) fn ask_back(&mut self, tenant: TenantId) {
        let of_tenant = self.tenants.get_mut(&tenant).expect("one was parked");
        of_tenant.parked = of_tenant.parked.checked_sub(1).expect("one was parked");
        of_tenant.returning += 1;
        self.parked -= 1;
    }

    /// Gives a query its place again if there is one, or in any case to one that only `ends`.
    pub(super) fn come_back(&mut self, tenant: TenantId, ends: bool) -> bool {
        let has_place = self.tenants[&tenant].returnable() > 0 && self.has_place(tenant, self.running);
        if has_place || ends {
            let of_tenant = self.tenants.get_mut(&tenant).expect("it has one");
            of_tenant.returning = of_tenant.returning.checked_sub(1).expect("one asked");
            of_tenant.running += 1;
            self.running += 1;
        }
        has_place || ends
    }

    /// A query of `tenant` that runs has ended.
    ///
    /// # Panics
    /// If none runs.
    pub(super) fn ended(&mut self, tenant: TenantId) {
        let of_tenant = self.tenants.get_mut(&tenant).expect("one ran");
        of_tenant.running = of_tenant.running.checked_sub(1).expect("one ran");
        self.running -= 1;
    }

    /// How many queries may be taken now, one after the other, or one more where some have places of their own.
    pub(super) fn startable(&self) -> usize {
        let startable = |tenant: &TenantId| self.tenants[tenant].startable();
        let all: usize = self.order.iter().map(startable).sum();
        let taken = self.taken();
        let left = RUNNING_MAX_ALL.saturating_sub(taken);
        let has_own = |tenant: &&TenantId| {
            startable(tenant) > 0 && self.has_place(**tenant, RUNNING_MAX_ALL.max(taken))
        };
        all.min(left + self.order.iter().filter(has_own).count())
    }

    /// Whether a query waits for a place that it would have if others had none.
    pub(super) fn are_kept_waiting(&self) -> bool {
        self.tenants.values().any(|tenant| tenant.startable() + tenant.returnable() > 0)
    }

    /// How many places the tenant's queries want that others have, if that is another number than was said last.
    pub(super) fn changed_wish(&mut self, tenant: TenantId) -> Option<u32> {
        let of_tenant = self.tenants.get(&tenant)?;
        let wished = match self.has_place(tenant, self.taken()) {
            true => 0,
            false => (of_tenant.startable() + of_tenant.returnable()) as u32,
        };
        let of_tenant = self.tenants.get_mut(&tenant).expect("just seen");
        let is_other = std::mem::replace(&mut of_tenant.told, wished) != wished;
        if of_tenant.begun() == 0 && of_tenant.waiting.is_empty() {
            self.tenants.remove(&tenant);
        }
        is_other.then_some(wished)
    }

    /// Takes all queries out that wait.
    pub(super) fn drain(&mut self) -> Vec<J> {
        self.order.clear();
        let waiting: Vec<J> = self.tenants.values_mut().flat_map(|tenant| tenant.waiting.drain(..)).collect();
        self.tenants.retain(|_, tenant| tenant.begun() > 0);
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
        jobs.iter().for_each(|(tenant, job)| turns.push(*tenant, false, *job).expect("room"));
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
            turns.push(TenantId(16 + tenant), false, 0).expect("room");
            assert!(turns.take().is_some());
        }
        turns.push(TenantId(1_000), false, 1).expect("room");
        assert_eq!((turns.startable(), turns.take()), (0, None));
        turns.push(TenantId::SYSTEM, false, 2).expect("room");
        turns.push(TenantId::SYSTEM, false, 3).expect("room");
        assert_eq!((turns.startable(), turns.take()), (1, Some((TenantId::SYSTEM, 2))));
        assert_eq!((turns.startable(), turns.take()), (0, None), "one of its own, no more");
        turns.ended(TenantId(16));
        assert_eq!(turns.take(), None, "it has as many as there are places and one");
        turns.ended(TenantId(17));
        assert!(turns.take().is_some());
    }

    /// Turns all of whose places queries that do not end have, as many as each of their tenants may.
    fn full() -> Turns<u32> {
        let mut turns = Turns::default();
        for tenant in 0..RUNNING_MAX_ALL / RUNNING_MAX {
            let tenant = TenantId(100 + tenant as u64);
            for _ in 0..RUNNING_MAX {
                turns.push(tenant, false, 0).expect("room");
                assert_eq!(turns.take(), Some((tenant, 0)));
            }
        }
        turns
    }

    #[test]
    fn who_waits_for_its_own_limit_keeps_places_of_its_own_alone() {
        let mut turns = full();
        let limited = TenantId(100);
        turns.push(limited, false, 1).expect("room");
        turns.push(B, false, 2).expect("room");
        assert_eq!((turns.startable(), turns.take()), (0, None));
        assert!(turns.hold());
        assert_eq!((turns.startable(), turns.take()), (1, Some((B, 2))), "its tenant has its four");
        assert!(!turns.are_kept_waiting());
        turns.push(B, false, 3).expect("room");
        assert_eq!(turns.take(), None);
        // It goes on though there is no place, and who comes next waits for two to end.
        turns.go_on();
        turns.ended(B);
        assert_eq!(turns.take(), None);
        turns.ended(limited);
        assert_eq!(turns.take(), Some((B, 3)));
    }

    #[test]
    fn who_was_promised_processor_time_has_a_query_that_advances() {
        let mut turns = full();
        turns.push(B, false, 1).expect("room");
        assert_eq!((turns.startable(), turns.take()), (0, None));
        for job in 0..3 {
            turns.push(A, true, job).expect("room");
        }
        assert_eq!((turns.startable(), turns.take()), (1, Some((A, 0))));
        assert_eq!((turns.startable(), turns.take()), (0, None), "one, whatever others hold");
        assert_eq!(
            (turns.changed_wish(A), turns.changed_wish(B)),
            (Some(2), Some(1)),
            "they are kept waiting"
        );
        assert_eq!(turns.changed_wish(A), None, "as it was told");
        // As many as are stated, and no more.
        let taken = (1..100).filter(|n| {
            turns.push(TenantId(1_000 + n), true, 9).expect("room");
            turns.take().is_some()
        });
        assert_eq!(taken.count(), RUNNING_MAX_PROMISED - 1);
        turns.ended(A);
        assert_eq!(turns.take(), Some((A, 1)), "before others that were promised some: it came before them");
    }

    #[test]
    fn a_query_that_waits_has_a_place_once_its_tenant_is_promised_processor_time() {
        let mut turns = full();
        turns.push(A, false, 1).expect("room");
        assert_eq!((turns.take(), turns.changed_wish(A)), (None, Some(1)));
        assert!(turns.set_promised(A, true) && !turns.set_promised(A, true));
        assert!(!turns.set_promised(B, true), "it has no query");
        assert_eq!((turns.startable(), turns.changed_wish(A)), (1, Some(0)));
        assert_eq!((turns.take(), turns.is_promised(A)), (Some((A, 1)), true), "it came before that");
        turns.push(A, true, 2).expect("room");
        turns.ended(A);
        assert!(turns.set_promised(A, false));
        assert_eq!((turns.startable(), turns.take()), (0, None));
    }

    #[test]
    fn a_query_that_waits_for_its_client_has_no_place_and_gets_one_back_before_others_begin() {
        let mut turns = full();
        let slow = TenantId(100);
        turns.push(B, false, 1).expect("room");
        turns.push(A, false, 2).expect("room");
        turns.push(slow, false, 3).expect("room");
        assert_eq!(turns.park(slow), Parked::Free);
        assert_eq!((turns.startable(), turns.take()), (1, Some((B, 1))));
        assert!(turns.take().is_none());
        turns.ask_back(slow);
        assert!(!turns.come_back(slow, false));
        assert_eq!(turns.changed_wish(slow), Some(1), "it wants to go on");
        turns.ended(TenantId(101));
        assert_eq!((turns.startable(), turns.take()), (0, None), "the place is for what has begun");
        assert!(turns.come_back(slow, false));
        assert_eq!(turns.changed_wish(slow), Some(0), "its next one waits for one of its own");
        turns.ended(B);
        assert_eq!(turns.take(), Some((A, 2)));
        // One that only ends needs no place.
        assert_eq!(turns.park(slow), Parked::Free);
        turns.push(B, false, 4).expect("room");
        assert!(turns.take().is_some());
        turns.ask_back(slow);
        assert!(turns.come_back(slow, true));
    }

    #[test]
    fn clients_that_do_not_read_keep_so_many_of_their_tenants_threads() {
        let mut turns = Turns::default();
        for job in 0..BEGUN_MAX {
            turns.push(A, false, job).expect("room");
            assert!(turns.take().is_some() && turns.park(A) == Parked::Free, "{job}");
        }
        turns.push(A, false, 99).expect("room");
        turns.push(B, false, 1).expect("room");
        assert_eq!(turns.take(), Some((B, 1)));
        assert_eq!((turns.take(), turns.changed_wish(A)), (None, None), "it waits for its own clients");
        for tenant in 0.. {
            let tenant = TenantId(1_000 + tenant / BEGUN_MAX as u64);
            turns.push(tenant, false, 0).expect("room");
            assert!(turns.take().is_some());
            if turns.park(tenant) == Parked::TooMany {
                break;
            }
        }
        assert!(!turns.are_kept_waiting());
        assert_eq!(turns.parked, PARKED_MAX_ALL);
    }

    #[test]
    fn the_last_place_and_the_servers_own_are_two() {
        let mut turns = Turns::default();
        for tenant in 1..RUNNING_MAX_ALL as u64 {
            turns.push(TenantId(16 + tenant), false, 0).expect("room");
            assert!(turns.take().is_some());
        }
        turns.push(TenantId(1_000), false, 1).expect("room");
        turns.push(TenantId::SYSTEM, false, 2).expect("room");
        assert_eq!(turns.startable(), 2, "a thread for each");
        assert!(turns.take().is_some() && turns.take().is_some());
        assert_eq!(turns.startable(), 0);
    }

    #[test]
    fn a_tenant_with_too_many_is_refused_alone() {
        let mut turns = Turns::default();
        for job in 0..WAITING_MAX {
            turns.push(A, false, job).expect("room");
        }
        assert_eq!(turns.push(A, false, 9_999), Err(9_999));
        assert_eq!(turns.push(B, false, 5), Ok(()));
        assert_eq!(turns.drain().len(), WAITING_MAX + 1);
        assert_eq!(turns.take(), None);
    }

    proptest! {
        /// Each query runs once, a tenant's in their order, and where one may run, one is given out.
        #[test]
        fn nothing_is_lost_and_nobody_waits_for_nothing(
            steps in prop::collection::vec((0..5u8, 0..40u64), 1..600),
        ) {
            let (mut turns, mut pushed, mut taken) = (Turns::default(), Vec::new(), Vec::new());
            let [mut running, mut parked, mut returning]: [Vec<TenantId>; 3] = Default::default();
            for (step, who) in steps {
                // Eight of ten belong to one of few.
                let tenant = TenantId(if who == 0 { TenantId::SYSTEM.0 } else { 16 + who / 8 * who });
                match step {
                    0 => {
                        turns.push(tenant, false, pushed.len()).expect("room");
                        pushed.push(tenant);
                    }
                    1 if !running.is_empty() => turns.ended(running.swap_remove(who as usize % running.len())),
                    2 if !running.is_empty() => {
                        let slow = running.swap_remove(who as usize % running.len());
                        prop_assert_eq!(turns.park(slow), Parked::Free);
                        parked.push(slow);
                    }
                    3 if !parked.is_empty() => {
                        let slow = parked.swap_remove(who as usize % parked.len());
                        turns.ask_back(slow);
                        returning.push(slow);
                    }
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
                let of = |all: &[TenantId], tenant| all.iter().filter(|other| **other == tenant).count();
                returning.retain(|slow| {
                    let is_back = turns.come_back(*slow, false);
                    running.extend(is_back.then_some(*slow));
                    !is_back
                });
                prop_assert!(returning.iter().all(|slow| of(&running, *slow) == RUNNING_MAX));
                let begun = of(&running, tenant) + of(&parked, tenant) + of(&returning, tenant);
                prop_assert!(begun <= BEGUN_MAX && of(&running, tenant) <= RUNNING_MAX);
                turns.changed_wish(tenant);
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
