//! Reservations that fit are kept.

use base::Nanos;
use governor::{Cause, CpuPromise, MilliCores};

use super::world::*;

/// Longest poll of these tests.
const POLL_MAX: u64 = 250 * US;

/// Tenants whose reservations fit their workers, among others without any. `full`: they fill them.
fn fitting(random: &mut Random, workers: usize, full: bool) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    let mut taken = 0;
    if workers > 1 && random.between(0, 1) == 1 {
        // Tasks on every worker. All of its reservation may have to come from any of them.
        taken = random.between(1, 400) as u32;
        let shared = Tenant::new(taken, 0, Load::Busy, (20 * US, POLL_MAX));
        tenants.push((1..workers).fold(shared, |tenant, worker| tenant.also_on(worker, Load::Busy)));
    }
    for worker in 0..workers {
        let mut left = if full { 1000 } else { random.between(400, 1000) as u32 } - taken;
        while left > 0 {
            let reserved = (random.between(1, 600) as u32).min(left);
            left -= reserved;
            let load = match random.between(0, 2) {
                0 => Load::Busy,
                1 => Load::Bursts { work: (10 * US, 5 * MS), sleep: (10 * US, 20 * MS) },
                _ => Load::Bursts { work: (US, 200 * US), sleep: (50 * US, 2 * MS) },
            };
            let low = random.between(US, POLL_MAX);
            tenants.push(Tenant::new(reserved, worker, load, (low, random.between(low, POLL_MAX))));
        }
        for _ in 0..random.between(1, 4) {
            let weight = random.between(1, 1000) as u32;
            tenants.push(Tenant::new(0, worker, Load::Busy, (20 * US, POLL_MAX)).weighing(weight));
        }
    }
    tenants
}

fn is_busy(tenant: &Tenant) -> bool {
    tenant.loads.iter().all(|load| matches!(load.1, Load::Busy))
}

/// A tenant that always has tasks gets its own to within one quantum a worker, in each interval and in all of them together:
/// misses do not add up. One that sleeps may find a poll under way each time it wakes, and loses its share of that.
#[test]
fn every_reservation_that_fits_is_kept_in_every_interval() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let workers = random.between(1, 3) as usize;
        let tenants = fitting(&mut random, workers, seed % 2 == 0);
        let mut world = World::new(workers, tenants, seed);
        world.run_until(3 * SECOND);
        let mut behind = vec![0i64; world.tenants.len()];
        for row in &world.rows {
            let index = (row.tenant.0 - 100) as usize;
            let tenant = &world.tenants[index];
            let mut allowed = POLL_MAX * tenant.loads.len() as u64;
            if is_busy(tenant) {
                behind[index] += row.demanded as i64 - row.given as i64;
                assert!(
                    behind[index] <= allowed as i64,
                    "seed {seed}: {tenant:?} fell behind by {}",
                    behind[index]
                );
            } else {
                allowed +=
                    world.wakes_between(index, row.from.0, row.to.0) * POLL_MAX * tenant.reserved() / 1000;
            }
            assert!(row.missed <= allowed, "seed {seed}: {tenant:?} missed more than {allowed}: {row:?}");
        }
    }
}

#[test]
fn five_hundred_tenants_fill_two_workers_and_each_gets_its_own() {
    let tenants = (0..500).map(|n| Tenant::new(4, n % 2, Load::Busy, (50 * US, 150 * US))).collect();
    let mut world = World::new(2, tenants, 1);
    world.run_until(3 * SECOND);
    assert_eq!(world.rows.len(), 1500);
    for row in &world.rows {
        assert_eq!(row.demanded, 4 * MS);
        assert!(row.missed <= 250 * US, "a slice and a poll: {row:?}");
    }
}

/// Polls that are longer than a slice run before the slices of others that are due earlier by then: no promise is broken by that.
#[test]
fn five_hundred_tenants_with_long_polls_get_their_own_beside_some_that_take_all_they_can() {
    const POLL: u64 = 650 * US;
    let reserved = |n: usize| if n < 300 { 2 } else { 1 };
    let mut tenants: Vec<Tenant> =
        (0..500).map(|n| Tenant::new(reserved(n), 0, Load::Busy, (550 * US, POLL))).collect();
    tenants.extend((0..8).map(|_| Tenant::new(0, 0, Load::Busy, (20 * US, 250 * US))));
    let mut world = World::new(1, tenants, 5);
    world.run_until(6 * SECOND);
    let mut behind = vec![0i64; 500];
    for row in world.rows.iter().filter(|row| row.tenant.0 < 600) {
        let index = (row.tenant.0 - 100) as usize;
        behind[index] += row.demanded as i64 - row.given as i64;
        assert!(
            behind[index] <= (POLL + 100 * US) as i64,
            "a slice and a poll: {} at {row:?}",
            behind[index]
        );
    }
}

#[test]
fn half_a_worker_is_kept_against_many_without_reservation() {
    let mut tenants = vec![Tenant::new(
        500,
        0,
        Load::Bursts { work: (50 * US, 3 * MS), sleep: (20 * US, 300 * US) },
        (5 * US, 50 * US),
    )];
    tenants.extend((0..24).map(|_| Tenant::new(0, 0, Load::Busy, (50 * US, 250 * US))));
    let mut world = World::new(1, tenants, 7);
    world.run_until(5 * SECOND);
    for row in world.rows.iter().filter(|row| row.tenant == id(0)) {
        let share = row.given as f64 / row.active.0 as f64;
        assert!(share >= 0.5, "{share} of the time it had tasks: {row:?}");
    }
}

/// Its promise leaves its 40 us 200 us of time, not the 500 us of a whole slice, so not all slices of a tenant that is promised more go before it.
#[test]
fn who_takes_little_at_a_time_does_not_wait_as_if_it_took_a_slice() {
    let little = Load::Bursts { work: (40 * US, 40 * US), sleep: (100 * US, 200 * US) };
    let tenants = vec![
        Tenant::new(200, 0, little, (10 * US, 10 * US)),
        Tenant::busy(400).polling(12 * US, 37 * US),
        Tenant::busy(0).polling(12 * US, 37 * US),
    ];
    let mut world = World::new(1, tenants, 11);
    world.run_until(3 * SECOND);
    let delays = &world.wake_delays[&0];
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!(mean <= 45 * US, "{mean} ns from waking to the first turn");
    for row in world.rows.iter().filter(|row| row.tenant == id(1)) {
        assert!(row.missed <= 100 * US, "a slice at most: {row:?}");
    }
}

#[test]
fn promise_of_two_cores_is_kept_on_two_workers_and_its_one_task_is_owed_one() {
    let both = Tenant::new(1600, 0, Load::Busy, (100 * US, 200 * US))
        .also_on(1, Load::Between { from: 0, to: 2 * SECOND });
    let mut tenants = vec![both];
    tenants.extend(
        (0..6).map(|n| Tenant::new(if n < 2 { 190 } else { 0 }, n % 2, Load::Busy, (100 * US, 200 * US))),
    );
    let mut world = World::new(2, tenants, 3);
    world.run_until(4 * SECOND);
    let demanded: Vec<u64> =
        world.rows.iter().filter(|row| row.tenant == id(0)).map(|row| (row.demanded + MS / 2) / MS).collect();
    assert_eq!(demanded, [1600, 1600, 1000, 1000]);
    for row in world.rows.iter().filter(|row| row.to.0 <= 2 * SECOND) {
        assert!(row.missed <= 2 * 200 * US, "{row:?}");
    }
    // Then its home is overbooked by 0.19; each goes short in proportion.
    for row in
        world.rows.iter().filter(|row| row.from.0 >= 3 * SECOND && [0, 1].contains(&(row.tenant.0 - 100)))
    {
        let got = row.given as f64 / row.demanded as f64;
        assert!((got - 1.0 / 1.19).abs() < 0.01, "{got}: {row:?}");
        assert_eq!(row.cause, Some(Cause::Overbooked));
    }
}

/// What a tenant takes on one worker counts on the others: where one is full, it takes its own from the other one.
#[test]
fn reservation_is_found_on_the_worker_that_has_it() {
    let shared = Tenant::new(1000, 0, Load::Busy, (100 * US, 100 * US)).also_on(1, Load::Busy);
    let tenants = vec![
        shared,
        Tenant::new(800, 0, Load::Busy, (100 * US, 100 * US)),
        Tenant::new(200, 1, Load::Busy, (100 * US, 100 * US)),
    ];
    let mut world = World::new(2, tenants, 3);
    world.run_until(4 * SECOND);
    for row in world.rows.iter().skip(3) {
        assert!(row.missed <= 200 * US, "{row:?}");
    }
}

#[test]
fn change_of_promise_holds_for_what_is_queued() {
    let mut tenants = vec![Tenant::busy(100), Tenant::busy(800)];
    tenants.extend((0..8).map(|_| Tenant::busy(0)));
    let mut world = World::new(1, tenants, 1).with_interval(100 * MS);
    world.run_until(SECOND);
    let reserving = |cores| CpuPromise { reserved: MilliCores(cores), ..CpuPromise::default() };
    world.set_promise(1, reserving(50));
    world.set_promise(0, reserving(900));
    let since = world.rows.len();
    world.run_until(2 * SECOND);
    world.set_promise(0, reserving(0));
    world.set_promise(1, reserving(1000));
    world.run_until(3 * SECOND);
    for row in &world.rows {
        assert!(row.missed <= 200 * US, "a slice and the poll under way: {row:?}");
    }
    let first = world.rows[since..].iter().find(|row| row.tenant == id(0)).unwrap();
    assert_eq!(first.demanded, 90 * MS, "in force from the first interval on");
}

#[test]
fn time_taken_alone_is_not_held_against_a_tenant() {
    let tenants = vec![
        Tenant::busy(300).polling(50 * US, 400 * US),
        Tenant::new(700, 0, Load::Between { from: 5 * SECOND, to: 9 * SECOND }, (100 * US, 100 * US)),
        Tenant::new(0, 0, Load::Between { from: 5 * SECOND, to: 9 * SECOND }, (100 * US, 100 * US)),
    ];
    let mut world = World::new(1, tenants, 1);
    world.run_until(7 * SECOND);
    assert!(world.rows.iter().all(|row| row.missed <= 400 * US), "{:?}", world.rows);
    assert!(world.used_between(0, 0, 5 * SECOND) >= 5 * SECOND - MS);
}

#[test]
fn credit_raises_its_owner_above_spare_time_and_never_above_a_reservation() {
    let burst = |burst| {
        let mut bursty =
            Tenant::new(200, 0, Load::Between { from: 2 * SECOND, to: 3 * SECOND }, (100 * US, 100 * US));
        bursty.promise.burst = Nanos(burst);
        let mut tenants = vec![bursty, Tenant::busy(500)];
        tenants.extend((0..9).map(|_| Tenant::busy(0)));
        let mut world = World::new(1, tenants, 1);
        world.run_until(3 * SECOND);
        assert!(world.rows.iter().all(|row| row.missed <= 100 * US), "{:?}", world.rows);
        world.used_between(0, 2 * SECOND, 3 * SECOND)
    };
    let without = burst(0);
    // Its own 200 ms and a tenth or so of the 300 ms that are spare.
    assert!((225 * MS..240 * MS).contains(&without), "{without}");
    let with = burst(100 * MS);
    assert!(
        (with - without).abs_diff(90 * MS) <= 3 * MS,
        "100 ms of credit, and less of the spare rest: {with}"
    );
    let bounded = burst(10 * SECOND);
    assert!(
        bounded.abs_diff(500 * MS) <= MS,
        "all that is spare, but two seconds' 400 ms of credit at most: {bounded}"
    );
}

/// Threads, not the simulated workers: the account is exact whatever order they charge in.
#[test]
fn workers_that_charge_one_tenant_at_once_lose_nothing() {
    const POLLS: u64 = 20_000;
    let accounts = std::sync::Arc::new(governor::CpuAccounts::default());
    let mut promise =
        CpuPromise { reserved: MilliCores(1500), max: Some(MilliCores(1800)), ..CpuPromise::default() };
    promise.burst = Nanos(10 * MS);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut scheduler = governor::CpuScheduler::sharing(accounts.clone());
                scheduler.set_promise(id(0), &promise, Nanos(0));
                scheduler.runnable(id(0), Nanos(0));
                let (mut now, mut polls) = (0, 0);
                while polls < POLLS {
                    now += 50 * US;
                    if scheduler.pick(Nanos(now)).tenant().is_some() {
                        polls += 1;
                        now += 50 * US;
                        scheduler.charge(id(0), Nanos(50 * US), Nanos(now));
                    }
                }
                scheduler.blocked(id(0), Nanos(now));
            });
        }
    });
    let account = accounts.account(id(0));
    assert_eq!(account.used(), Nanos(3 * POLLS * 50 * US));
    assert!(account.due_taken() <= account.used());
}
