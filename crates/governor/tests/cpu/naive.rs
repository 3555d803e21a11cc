//! The cases that break naive schedulers.

use base::{Nanos, TenantId};
use governor::{CpuPromise, CpuScheduler, MilliCores, Overbooking, Pick, Policy};

use super::world::*;

fn reserving(cores: u32) -> CpuPromise {
    CpuPromise { reserved: MilliCores(cores), ..CpuPromise::default() }
}

/// Statements that end before any check are charged all the same.
#[test]
fn very_short_statements_keep_their_promise_and_take_no_more_than_their_share() {
    let short = Load::Bursts { work: (US, 4 * US), sleep: (US, 3 * US) };
    let mut tenants =
        vec![Tenant::new(200, 0, short.clone(), (US, 10 * US)), Tenant::new(0, 0, short, (US, 10 * US))];
    tenants.extend((0..4).map(|n| Tenant::busy(if n == 0 { 500 } else { 0 }).polling(20 * US, 50 * US)));
    let mut world = World::new(1, tenants, 1);
    world.run_until(2 * SECOND);
    for row in world.rows.iter().filter(|row| row.tenant == id(2)) {
        assert!(row.missed <= 50 * US, "{row:?}");
    }
    for row in world.rows.iter().filter(|row| row.tenant == id(0)) {
        // A wake-up may find a poll of 50 us under way.
        let allowed = world.wakes_between(0, row.from.0, row.to.0) * 50 * US / 5;
        assert!(row.missed <= allowed && row.given > 0, "{row:?}");
    }
    let others: u64 = (3..6).map(|tenant| world.used(tenant)).max().unwrap();
    assert!(world.used(1) <= others + MS, "{} {others}", world.used(1));
}

/// Time it was idle is not made up for.
#[test]
fn burst_after_idleness_breaks_nobody_elses_promise() {
    let burst = Load::Between { from: 3 * SECOND, to: 5 * SECOND };
    let mut tenants = vec![Tenant::new(500, 0, burst, (100 * US, 250 * US))];
    tenants.extend((0..5).map(|_| Tenant::busy(100)));
    tenants.push(Tenant::busy(0));
    let mut world = World::new(1, tenants, 1).with_interval(100 * MS);
    world.run_until(5 * SECOND);
    for row in &world.rows {
        assert!(row.missed <= 250 * US, "{row:?}");
    }
    let first = world.used_between(0, 3 * SECOND, 3 * SECOND + 100 * MS);
    assert!(first <= 50 * MS + 600 * US, "what it was idle for is not owed: {first}");
    // It had its first turn at once, not in its turn among seven.
    assert!(world.wake_delays[&0][0] <= 250 * US);
}

/// The scheduler picks tenants, not tasks: a hundred tasks are one that is always there.
#[test]
fn one_task_against_a_hundred_gets_the_same_share() {
    let tenants =
        vec![Tenant::busy(0), Tenant::new(0, 0, Load::Busy, (10 * US, 200 * US)), Tenant::busy(300)];
    let mut world = World::new(1, tenants, 1);
    world.run_until(SECOND);
    assert!(world.used(0).abs_diff(world.used(1)) <= MS);
    assert!(world.used(2) >= 300 * MS);
}

#[test]
fn only_runnable_tenants_are_picked_of_ten_thousand() {
    let mut scheduler = CpuScheduler::new();
    for tenant in 0..10_000 {
        scheduler.set_promise(TenantId(tenant), &reserving((tenant % 3) as u32), Nanos(0));
    }
    for tenant in 0..20 {
        scheduler.runnable(TenantId(tenant * 500), Nanos(0));
    }
    assert_eq!(scheduler.runnable_count(), 20);
    for poll in 1..10_000 {
        let now = Nanos(poll * 10_000);
        let tenant = scheduler.pick(now).tenant().unwrap();
        assert_eq!(tenant.0 % 500, 0);
        scheduler.charge(tenant, Nanos(10_000), now);
    }
}

#[test]
fn reservations_of_exactly_the_capacity_are_all_kept() {
    let tenants = [250, 125, 125, 300, 199, 1].map(|cores| Tenant::busy(cores).polling(20 * US, 200 * US));
    let mut world = World::new(1, tenants.to_vec(), 9);
    world.run_until(5 * SECOND);
    for row in &world.rows {
        assert!(row.missed <= 300 * US, "{row:?}");
    }
}

/// An hour passes between two polls, as when a virtual machine was suspended.
#[test]
fn clock_that_jumps_ahead_costs_each_tenant_a_little_and_starves_nobody() {
    let jump = 3_600 * SECOND;
    let mut tenants: Vec<Tenant> = [400, 300, 200].map(Tenant::busy).to_vec();
    tenants.push(Tenant::new(
        100,
        0,
        Load::Bursts { work: (MS, MS), sleep: (9 * MS, 9 * MS) },
        (100 * US, 100 * US),
    ));
    tenants.push(Tenant::busy(0).at_most(500));
    let mut world = World::new(1, tenants, 1);
    world.run_until(SECOND);
    world.jump(jump);
    let rows = world.rows.len();
    world.run_until(jump + SECOND);
    world.rows.truncate(rows);
    world.run_until(jump + 4 * SECOND);
    for row in &world.rows[rows..] {
        assert!(row.missed <= 200 * US, "{row:?}");
    }
    let delays = &world.wake_delays[&3];
    let longest = delays.iter().max().unwrap();
    assert!(*longest <= 20 * MS, "arrears of 10 ms of time go first, no more: {longest}");
}

#[test]
fn clock_set_back_stops_nobody() {
    let mut scheduler = CpuScheduler::new();
    let (reserved, limited, plain) = (TenantId(1), TenantId(2), TenantId(3));
    scheduler.set_promise(reserved, &reserving(500), Nanos(0));
    scheduler.set_promise(
        limited,
        &CpuPromise { max: Some(MilliCores(200)), ..CpuPromise::default() },
        Nanos(0),
    );
    for tenant in [reserved, limited, plain] {
        scheduler.runnable(tenant, Nanos(3_600 * SECOND));
    }
    let mut used = [0; 4];
    let mut now = 3_600 * SECOND;
    for step in 0..40_000 {
        if step == 10_000 {
            now = 5 * SECOND;
            used = [0; 4];
        }
        let tenant = scheduler.pick(Nanos(now)).tenant().expect("somebody may always run");
        now += 100 * US;
        used[tenant.0 as usize] += 100 * US;
        scheduler.charge(tenant, Nanos(100 * US), Nanos(now));
    }
    assert!(used[1] >= 1500 * MS - 200 * US, "{used:?}");
    assert!((300 * MS..=610 * MS).contains(&used[2]), "stopped for a second at most: {used:?}");
}

#[test]
fn small_steps_back_between_threads_clocks_add_no_time() {
    let mut scheduler = CpuScheduler::new();
    let (reserved, plain) = (TenantId(1), TenantId(2));
    scheduler.set_promise(reserved, &reserving(100), Nanos(0));
    let mut now = SECOND;
    scheduler.runnable(reserved, Nanos(now));
    scheduler.runnable(plain, Nanos(now));
    let mut used = 0;
    for _ in 0..20_000 {
        let tenant = scheduler.pick(Nanos(now)).tenant().unwrap();
        scheduler.runnable(TenantId(3), Nanos(now - 90 * US));
        scheduler.blocked(TenantId(3), Nanos(now - 80 * US));
        now += 100 * US;
        scheduler.charge(tenant, Nanos(100 * US), Nanos(now));
        used += if tenant == reserved { 100 * US } else { 0 };
    }
    // Its due of 200 ms and half of the rest.
    assert!(used.abs_diff(1100 * MS) <= 200 * US, "{used}");
}

/// A worker that could not pick for two seconds, as behind one huge commit or a device that stalled.
#[test]
fn poll_of_two_seconds_is_not_held_against_its_tenant_for_longer_than_a_quantum() {
    let mut scheduler = CpuScheduler::new();
    let (long, other) = (TenantId(1), TenantId(2));
    scheduler.set_promise(long, &reserving(500), Nanos(0));
    scheduler.runnable(long, Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(long));
    scheduler.charge(long, Nanos(2 * SECOND), Nanos(2 * SECOND));
    scheduler.runnable(other, Nanos(2 * SECOND));
    let (mut used, mut now) = (0, 2 * SECOND);
    while now < 3 * SECOND {
        let tenant = scheduler.pick(Nanos(now)).tenant().unwrap();
        now += 100 * US;
        scheduler.charge(tenant, Nanos(100 * US), Nanos(now));
        used += if tenant == long { 100 * US } else { 0 };
    }
    assert!(used >= 500 * MS - 700 * US, "{used}");
}

#[test]
fn wake_up_with_a_deficit_preempts_what_runs_on_spare_time_or_later_deadlines() {
    let mut scheduler = CpuScheduler::new();
    let (spare, late, early) = (TenantId(1), TenantId(2), TenantId(3));
    scheduler.set_promise(late, &reserving(100), Nanos(0));
    scheduler.set_promise(early, &reserving(500), Nanos(0));
    scheduler.runnable(spare, Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(spare));
    assert!(!scheduler.must_yield(spare, Nanos(40 * US), Nanos(40 * US)));
    scheduler.runnable(late, Nanos(50 * US));
    assert!(scheduler.must_yield(spare, Nanos(60 * US), Nanos(60 * US)));
    scheduler.charge(spare, Nanos(60 * US), Nanos(60 * US));
    assert_eq!(scheduler.pick(Nanos(60 * US)), Pick::Run(late));
    assert!(!scheduler.must_yield(late, Nanos(50 * US), Nanos(110 * US)));
    scheduler.runnable(early, Nanos(110 * US));
    assert!(scheduler.must_yield(late, Nanos(50 * US), Nanos(110 * US)));
    scheduler.charge(late, Nanos(50 * US), Nanos(110 * US));
    assert_eq!(scheduler.pick(Nanos(110 * US)), Pick::Run(early));
    // Its own slice is over and another has a deficit.
    assert!(!scheduler.must_yield(early, Nanos(99 * US), Nanos(209 * US)));
    assert!(scheduler.must_yield(early, Nanos(100 * US), Nanos(210 * US)));
}

/// Promises, policies and clocks change at random while tenants of all kinds run on several workers. `World` checks every pick:
/// nobody without a task, nobody over its limit, no worker idle while somebody may run.
#[test]
fn whatever_changes_every_pick_is_legal_and_all_time_is_on_the_ledger() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let workers = random.between(1, 3) as usize;
        let promise = |random: &mut Random| {
            let mut promise = reserving(random.between(0, 3) as u32 * random.between(0, 500) as u32);
            if random.between(0, 2) == 0 {
                promise.max = Some(MilliCores(promise.reserved.0 + random.between(1, 500) as u32));
            }
            promise.burst = Nanos(random.between(0, 1) * random.between(0, 200 * MS));
            promise
        };
        let tenants = (0..random.between(2, 9))
            .map(|_| {
                let load = match random.between(0, 2) {
                    0 => Load::Busy,
                    1 => Load::Bursts { work: (US, 3 * MS), sleep: (US, 5 * MS) },
                    _ => Load::Bursts { work: (US, 30 * US), sleep: (US, 300 * US) },
                };
                let worker = random.between(0, workers as u64 - 1) as usize;
                let mut tenant = Tenant::new(0, worker, load, (US, 400 * US)).priced(random.between(0, 9));
                tenant.promise = promise(&mut random);
                match random.between(0, 2) {
                    0 if workers > 1 => tenant.also_on((worker + 1) % workers, Load::Busy),
                    _ => tenant,
                }
            })
            .collect();
        let mut world = World::new(workers, tenants, seed).with_interval(20 * MS);
        let mut now = 0;
        for _ in 0..30 {
            now += random.between(1, 5) * 20 * MS;
            world.run_until(now);
            let tenant = random.between(0, world.tenants.len() as u64 - 1) as usize;
            match random.between(0, 5) {
                0 => world.set_policy(Policy::BestEffort),
                1 => world.set_policy(Policy::MaxOnly),
                2 | 3 => {
                    let dial = Overbooking::from_permille(random.between(0, 1000) as u16).unwrap();
                    world.set_policy(Policy::Reservations(dial));
                }
                _ => world.set_promise(tenant, promise(&mut random)),
            }
        }
        for tenant in 0..world.tenants.len() {
            let rows = world.rows.iter().filter(|row| row.tenant == id(tenant));
            assert_eq!(rows.map(|row| row.given).sum::<u64>(), world.used(tenant), "seed {seed}");
            let account = world.accounts.account(id(tenant));
            assert_eq!(account.used().0, world.used(tenant), "seed {seed}");
            assert!(account.due_taken() <= account.used(), "seed {seed}");
        }
    }
}
