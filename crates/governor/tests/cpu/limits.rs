//! Limits hold, for short polls and long ones, on one worker and on several; and nobody idles below them.

use base::{Nanos, TenantId};
use governor::{CpuPromise, CpuScheduler, MilliCores, Pick, Policy};

use super::world::*;

fn limited(random: &mut Random, workers: usize) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    for worker in 0..workers {
        for _ in 0..random.between(1, 5) {
            let reserved = random.between(0, 150) as u32;
            let max = reserved + random.between(1, 300) as u32;
            let load = match random.between(0, 1) {
                0 => Load::Busy,
                _ => Load::Bursts { work: (US, 3 * MS), sleep: (10 * US, 30 * MS) },
            };
            let low = random.between(US, 400 * US);
            let tenant =
                Tenant::new(reserved, worker, load, (low, random.between(low, 500 * US))).at_most(max);
            tenants.push(match random.between(0, 3) {
                0 if workers > 1 => tenant.also_on((worker + 1) % workers, Load::Busy),
                _ => tenant,
            });
        }
    }
    tenants
}

/// `World` itself checks that nobody runs over a limit and that no worker idles while somebody may run.
#[test]
fn no_limit_is_exceeded_by_more_than_a_refill_and_a_poll_a_worker() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let workers = random.between(1, 3) as usize;
        let mut world = World::new(workers, limited(&mut random, workers), seed);
        world.run_until(2 * SECOND);
        for tenant in 0..world.tenants.len() {
            let debt_max = 500 * US * world.tenants[tenant].loads.len() as u64;
            world.check_limit(tenant, debt_max);
            let account = world.accounts.account(id(tenant));
            assert!(account.debt(Nanos(2 * SECOND)).0 <= debt_max, "seed {seed}");
            assert_eq!(account.forgiven(), Nanos(0), "seed {seed}");
        }
    }
}

#[test]
fn limit_holds_for_polls_of_a_few_microseconds() {
    let tenants = vec![Tenant::busy(0).at_most(130).polling(2 * US, 9 * US)];
    let mut world = World::new(1, tenants, 5);
    world.run_until(2 * SECOND);
    assert!(world.used(0).abs_diff(260 * MS) <= 9 * US + 2 * MS, "{}", world.used(0));
    assert!(world.idle(0) >= 1735 * MS);
    assert!(world.rows.iter().all(|row| row.over <= 2 * MS), "one bucket's worth: {:?}", world.rows);
}

#[test]
fn limit_allows_polls_of_many_refills_as_much_as_short_ones() {
    for (max, poll) in [(250, 200 * MS), (500, 200 * MS), (1000, 200 * MS), (500, 15 * MS)] {
        let mut world = World::new(1, vec![Tenant::busy(0).at_most(max).polling(poll, poll)], 5);
        world.run_until(10 * SECOND);
        let due = u64::from(max) * 10 * MS;
        assert!(world.used(0).abs_diff(due) <= poll + REFILL, "{max}, {poll}: {}", world.used(0));
        world.check_limit(0, poll);
    }
}

#[test]
fn limit_of_the_tenant_holds_over_its_workers_together() {
    let tenants = vec![Tenant::busy(0).at_most(1500).also_on(1, Load::Busy).also_on(2, Load::Busy)];
    let mut world = World::new(3, tenants, 5);
    world.run_until(2 * SECOND);
    assert!(world.used(0).abs_diff(3 * SECOND) <= 16 * MS, "{}", world.used(0));
}

#[test]
fn burst_after_idleness_is_one_refill() {
    let burst = Tenant::new(0, 0, Load::Between { from: 5 * SECOND, to: 6 * SECOND }, (50 * US, 50 * US))
        .at_most(100);
    let mut world = World::new(1, vec![burst], 5);
    world.run_until(6 * SECOND);
    assert!(world.used(0).abs_diff(100 * MS) <= MS + 50 * US, "{}", world.used(0));
}

#[test]
fn very_long_poll_is_paid_for_up_to_a_second_and_the_rest_is_stated() {
    let mut scheduler = CpuScheduler::new();
    let tenant = TenantId(9);
    let promise = CpuPromise { max: Some(MilliCores(100)), ..CpuPromise::default() };
    scheduler.set_promise(tenant, &promise, Nanos(0));
    scheduler.runnable(tenant, Nanos(0));
    scheduler.charge(tenant, Nanos(5 * SECOND), Nanos(5 * SECOND));
    let Pick::NotBefore(until) = scheduler.pick(Nanos(5 * SECOND)) else { panic!("over its limit") };
    assert_eq!(until, Nanos(6 * SECOND + REFILL));
    assert_eq!(scheduler.pick(Nanos(until.0 - 1)), Pick::NotBefore(until));
    assert_eq!(scheduler.pick(until), Pick::Run(tenant));
}

#[test]
fn limit_that_changes_acts_on_who_waits_for_the_old_one() {
    let mut world = World::new(1, vec![Tenant::busy(0).at_most(1).polling(900 * US, 900 * US)], 1);
    world.run_until(SECOND);
    world.set_promise(0, CpuPromise { max: Some(MilliCores(900)), ..CpuPromise::default() });
    world.run_until(2 * SECOND);
    let faster = world.used_between(0, SECOND, 2 * SECOND);
    assert!(faster.abs_diff(900 * MS) <= 20 * MS, "{faster}");
    world.set_promise(0, CpuPromise::default());
    world.run_until(3 * SECOND);
    assert!(world.used_between(0, 2 * SECOND, 3 * SECOND) >= 989 * MS);
}

#[test]
fn running_tenant_yields_at_its_limit() {
    let mut scheduler = CpuScheduler::new();
    let tenant = TenantId(9);
    scheduler.set_promise(
        tenant,
        &CpuPromise { max: Some(MilliCores(100)), ..CpuPromise::default() },
        Nanos(0),
    );
    scheduler.runnable(tenant, Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(tenant));
    assert!(!scheduler.must_yield(tenant, Nanos(999 * US), Nanos(999 * US)));
    assert!(scheduler.must_yield(tenant, Nanos(MS), Nanos(MS)));
}

#[test]
fn best_effort_knows_no_limit_and_max_only_no_reservation() {
    let tenants =
        || vec![Tenant::busy(600).weighing(100), Tenant::busy(0).weighing(100), Tenant::busy(0).at_most(100)];
    let shares = |policy| {
        let mut world = World::new(1, tenants(), 1).with_policy(policy);
        world.run_until(2 * SECOND);
        [0, 1, 2].map(|tenant| (world.used_between(tenant, SECOND, 2 * SECOND) + 5 * MS) / (10 * MS))
    };
    assert_eq!(shares(Policy::BestEffort), [33, 33, 33]);
    assert_eq!(shares(Policy::MaxOnly), [45, 45, 10]);
    assert_eq!(shares(Policy::default()), [75, 15, 10]);
}

#[test]
fn policy_is_switched_while_tasks_are_queued() {
    let mut world = World::new(1, vec![Tenant::busy(800), Tenant::busy(0), Tenant::busy(0).at_most(40)], 1);
    let mut given = Vec::new();
    for policy in [Policy::BestEffort, Policy::default(), Policy::MaxOnly, Policy::default()] {
        world.set_policy(policy);
        let from = given.len() as u64 * SECOND;
        world.run_until(from + SECOND);
        given.push((world.used_between(0, from, from + SECOND) + 5 * MS) / (10 * MS));
    }
    assert_eq!(given, [33, 88, 48, 88]);
}
