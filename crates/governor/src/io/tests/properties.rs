//! What holds whatever tenants ask and whatever the device does.

use base::{ByteCount, Nanos};
use proptest::prelude::*;

use crate::fixture::{Arrivals, DevicePlan, Draws, TenantPlan, WAKE, What, World, tenant_id};
use crate::io::IoCost;
use crate::io::account::CATCH_UP;
use crate::policy::{Overbooking, Policy};
use crate::promise::IoPromise;

const SECONDS: u64 = 4;

/// How much of the device the reservations may take together, in percent.
fn plans(draws: &mut Draws, device: &DevicePlan, booked_percent: u64, workers: usize) -> Vec<TenantPlan> {
    let count = draws.between(1, 8);
    let parts: Vec<u64> = (0..count).map(|_| draws.between(0, 10)).collect();
    let all = parts.iter().sum::<u64>().max(1);
    let capacity = device.iops();
    let plan = |part: &u64| {
        let iops = capacity * booked_percent * part / all / 100;
        let arrivals = match draws.between(0, 2) {
            0 => Arrivals::Closed {
                clients: draws.between(1, 24) as u32,
                think: Nanos(draws.between(0, 5_000_000)),
            },
            1 => Arrivals::Open { every: Nanos(draws.between(1_000_000_000 / capacity, 200_000_000)) },
            _ => Arrivals::Burst {
                count: draws.between(1, 40) as u32,
                every: Nanos(draws.between(20_000_000, 900_000_000)),
            },
        };
        let from = Nanos::from_millis(draws.between(0, 3) * 700);
        let to = from + Nanos::from_millis(draws.between(300, SECONDS * 1000));
        let mut promise = IoPromise { iops, ..IoPromise::default() };
        promise.iops_max = (draws.between(0, 2) == 0).then(|| iops + draws.between(5, capacity));
        promise.bandwidth_max = (draws.between(0, 4) == 0).then(|| ByteCount::from_mib(draws.between(1, 40)));
        promise.weight = (draws.between(1, 500) as u32).try_into().expect("not zero");
        TenantPlan {
            promise,
            penalty: draws.between(0, 1_000_000),
            arrivals,
            active: (from, to),
            bytes_max: if draws.between(0, 2) == 0 { 300_000 } else { 8192 },
            worker: (draws.between(0, 1) == 0).then(|| draws.between(0, workers as u64 - 1) as usize),
        }
    };
    parts.iter().map(plan).collect()
}

fn device(draws: &mut Draws) -> DevicePlan {
    let mut device = DevicePlan::steady(draws.between(1, 16) as u32, draws.between(100, 3000));
    device.jitter_percent = [0, 30, 90][draws.between(0, 2) as usize];
    device
}

/// A dial at either end or anywhere between.
fn dialled(world: World, draws: &mut Draws) -> World {
    let dial = [0, 1000, draws.between(1, 999) as u16][draws.between(0, 2) as usize];
    let overbooking = Overbooking::from_permille(dial).expect("at most 1000");
    world.volume.set_policy(Policy::Reservations(overbooking), world.now);
    world
}

/// No tenant has more than its limit in any time, but for what it may catch up on and a request a worker.
fn check_limits(world: &World, workers: usize) -> Result<(), TestCaseError> {
    for (tenant, plan) in world.plans.iter().enumerate() {
        let (max, is_bytes) = match (plan.promise.iops_max, plan.promise.bandwidth_max) {
            (_, Some(max)) => (max.0, true),
            (Some(max), None) => (max, false),
            (None, None) => continue,
        };
        let (mut level, mut at) = (0.0f64, 0.0);
        for event in &world.trace {
            if event.what != What::Issued || event.tenant != tenant_id(tenant) {
                continue;
            }
            let now = event.at.as_secs_f64();
            level = (level - (now - at) * max as f64).max(0.0)
                + if is_bytes { event.cost.bytes().0 as f64 } else { event.cost.ios() };
            at = now;
            let largest = if is_bytes { 300_000.0 } else { 5.0 };
            let debt = 0.010 * max as f64 + largest * workers as f64;
            prop_assert!(level <= debt + 1e-3, "tenant {} is {} over at {}", tenant, level, now);
        }
    }
    Ok(())
}

/// I/Os of the largest request.
fn largest(plan: &TenantPlan) -> f64 {
    IoCost::of(ByteCount(plan.bytes_max)).ios()
}

/// For how long a due request of the tenant may wait for its place, in seconds: the bound of `docs/decisions/0011-io-tags-at-issue.md`.
fn wait_max(world: &World, device: &DevicePlan, workers: usize, tenant: usize) -> f64 {
    // Of a place, by an I/O; a worker may have to be woken for it.
    let of_one = device.service.as_secs_f64() + if workers > 1 { WAKE.as_secs_f64() } else { 0.0 };
    let dial = match world.volume.policy() {
        Policy::Reservations(dial) => dial,
        policy => panic!("{policy:?} keeps no reservations"),
    };
    let plans = &world.plans;
    let longest = plans.iter().map(largest).fold(0.0, f64::max) * of_one;
    let all_places = f64::from(device.depth);
    // What the others may have due at once, and in each second.
    let others = |goes_before: &dyn Fn(&TenantPlan) -> bool| {
        let others = plans.iter().enumerate().filter(|(other, _)| *other != tenant).map(|(_, plan)| plan);
        let others: Vec<_> = others.filter(|plan| plan.promise.iops > 0 && goes_before(plan)).collect();
        let at_once = others.iter().map(|plan| largest(plan)).sum::<f64>() * of_one / all_places;
        let rate = others.iter().map(|plan| plan.promise.iops as f64).sum::<f64>() * of_one / all_places;
        (at_once, rate)
    };
    match dial {
        Overbooking::SPREAD => longest + others(&|_| true).0,
        Overbooking::LEAST_PENALTY => {
            let (at_once, rate) = others(&|plan| plan.penalty >= plans[tenant].penalty);
            (longest + at_once) / (1.0 - rate)
        }
        _ => {
            // Two due times of each, its own too.
            let (at_once, rate) = others(&|_| true);
            let own_rate = plans[tenant].promise.iops as f64 * of_one / all_places;
            let own = 2.0 * largest(&plans[tenant]) * of_one / all_places;
            (longest + own + 2.0 * at_once) / (1.0 - rate - own_rate)
        }
    }
}

/// Whether what comes due in a wait is more than the tenant's own limit makes up for.
fn limit_decides(plan: &TenantPlan, wait: f64) -> bool {
    let due = plan.promise.iops as f64 * wait;
    let makes_up = |max: u64| max as f64 * CATCH_UP.nanos().as_secs_f64();
    let by_ios = plan.promise.iops_max.is_some_and(|max| due > makes_up(max));
    let bytes = due * plan.bytes_max as f64 / largest(plan);
    by_ios || plan.promise.bandwidth_max.is_some_and(|max| bytes > makes_up(max.0))
}

fn check_promises(world: &World, device: &DevicePlan, workers: usize) -> Result<(), TestCaseError> {
    for (tenant, plan) in world.plans.iter().enumerate() {
        // What came due while the last one waited, and a whole request.
        let wait = wait_max(world, device, workers, tenant);
        if limit_decides(plan, wait) {
            continue;
        }
        let allowed = plan.promise.iops as f64 * wait + largest(plan);
        let id = tenant_id(tenant);
        for (second, row) in
            world.rows.iter().enumerate().flat_map(|(second, rows)| rows.iter().map(move |row| (second, row)))
        {
            prop_assert!(
                row.ledger.tenant != id || row.usage.missed.ios() <= allowed,
                "second {}: missed {} of {:?}, {} allowed",
                second,
                row.usage.missed.ios(),
                row.ledger,
                allowed
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Reservations that fit are kept, limits hold, and no place is empty while somebody may have it.
    #[test]
    fn reservations_that_fit_are_kept(seed in any::<u64>(), workers in 1..4usize) {
        let mut draws = Draws(seed);
        let device = device(&mut draws);
        let mut plans = plans(&mut draws, &device, 85, workers);
        plans.iter_mut().for_each(|plan| plan.worker = plan.worker.or(Some(0)));
        let mut world = dialled(World::new(seed, workers, device.clone(), plans), &mut draws);
        world.run_until(Nanos::from_secs(SECONDS));
        prop_assert_eq!(&world.wrong, &Vec::<String>::new());
        check_limits(&world, workers)?;
        check_promises(&world, &device, workers)?;
    }

    /// A device that stalls, or is slower than it should be, and reservations that do not fit: limits hold, nothing is lost, nothing idles.
    #[test]
    fn limits_hold_on_devices_that_fail_their_calibration(seed in any::<u64>(), workers in 1..4usize) {
        let mut draws = Draws(seed);
        let mut device = device(&mut draws);
        match draws.between(0, 2) {
            0 => device.stall = Some((Nanos::from_millis(1500), Nanos::from_millis(3500))),
            1 => device.slower = draws.between(2, 4),
            _ => {}
        }
        let booked = draws.between(50, 400);
        let plans = plans(&mut draws, &device, booked, workers);
        let mut world = dialled(World::new(seed, workers, device, plans), &mut draws);
        world.run_until(Nanos::from_secs(SECONDS));
        prop_assert_eq!(&world.wrong, &Vec::<String>::new());
        check_limits(&world, workers)?;
        let count = |what| world.trace.iter().filter(|event| event.what == what).count();
        prop_assert!(count(What::Issued) <= count(What::Arrived));
    }

    /// Once nobody asks any more, everything that was asked for has been issued and completed: nothing is forgotten in a queue.
    #[test]
    fn everything_is_issued_in_the_end(seed in any::<u64>(), workers in 1..4usize) {
        let mut draws = Draws(seed);
        let device = device(&mut draws);
        let mut plans = plans(&mut draws, &device, 120, workers);
        for plan in &mut plans {
            plan.active.1 = plan.active.1.min(Nanos::from_secs(2));
            plan.promise.iops_max = plan.promise.iops_max.map(|max| max.max(50));
            plan.promise.bandwidth_max = None;
        }
        let mut world = dialled(World::new(seed, workers, device, plans), &mut draws);
        world.run_until(Nanos::from_secs(100));
        let count = |what| world.trace.iter().filter(|event| event.what == what).count();
        prop_assert_eq!(count(What::Completed), count(What::Arrived));
        prop_assert_eq!(world.volume.in_flight(), 0);
        prop_assert_eq!(&world.wrong, &Vec::<String>::new());
    }
}
