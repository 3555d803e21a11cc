//! Whether promises are kept, whatever the neighbours do.

use governor::{Cause, Overbooking, Policy};

use crate::world::{Draws, Habit, Plan, World};

/// Reads of each tenant in a world between two moments.
fn reads_between(world: &mut World, warm: u64, seconds: u64) -> Vec<u64> {
    world.run(warm);
    let before: Vec<u64> = world.tenants.iter().map(|tenant| tenant.reads).collect();
    world.run(seconds);
    world.tenants.iter().zip(before).map(|(tenant, before)| tenant.reads - before).collect()
}

fn reads_alone(plan: &Plan, warm: u64, seconds: u64) -> u64 {
    reads_between(&mut World::dedicated(plan), warm, seconds)[0]
}

/// At most 5 % more, and a few pages of chance.
fn assert_kept(world: &World, i: usize, beside: u64, alone: u64) {
    let plan = &world.tenants[i].plan;
    assert!(beside * 100 <= alone * 105 + 100 * 20, "{beside} reads, alone {alone}: {plan:?}");
    let counts = world.tenants[i].counts();
    let (io, baseline) = (counts.actual.total(), counts.baseline().total());
    assert!(io * 100 <= baseline * 105 + 100 * 64, "{io} by the meter, baseline {baseline}: {plan:?}");
}

#[test]
fn a_reserved_tenant_beside_a_scanner_reads_what_it_would_alone() {
    let own = [
        Habit::Skewed { pages: 4000, skew: 0.8 },
        Habit::Skewed { pages: 800, skew: 0.5 },
        Habit::Mixed { pages: 2000, skew: 0.9, scanned: 4500, every: 5 },
    ];
    let neighbours = [
        Habit::Scan { pages: 10_000 },
        Habit::ScanOnce { pages: 10_000 },
        Habit::Scan { pages: 950 },
        Habit::Skewed { pages: 1500, skew: 0.2 },
    ];
    for habit in own {
        let plan = Plan::of(1024, habit, 20, 1);
        let alone = reads_alone(&plan, 8, 14);
        for neighbour in &neighbours {
            let plans = [plan.clone(), Plan::of(0, neighbour.clone(), 40, 2)];
            let mut world = World::new(2560, &plans);
            let beside = reads_between(&mut world, 8, 14)[0];
            assert_kept(&world, 0, beside, alone);
            assert_eq!(world.overdrafts, 0);
        }
    }
}

#[test]
fn promises_that_fit_are_kept_among_random_tenants() {
    for seed in 0..4 {
        let mut draws = Draws(1000 + seed);
        let limit = 3000;
        // What evictors leave: two sixteenths are kept free.
        let mut promisable = limit - 2 * (limit / 16);
        let mut plans = Vec::new();
        for i in 0..3 {
            let promised = draws.between(200, (promisable - 200) / 2);
            promisable -= promised;
            let pages = draws.between(promised / 2, promised * 4);
            let skew = draws.between(2, 11) as f64 / 10.0;
            let habit = if draws.between(0, 2) == 0 {
                Habit::Mixed { pages, skew, scanned: 2 * promised, every: draws.between(3, 9) }
            } else {
                Habit::Skewed { pages, skew }
            };
            plans.push(Plan::of(promised, habit, draws.between(5, 25), seed << 8 | i));
        }
        for i in 0..2 {
            let pages = draws.between(1000, 9000);
            let habit = match draws.between(0, 2) {
                0 => Habit::Scan { pages },
                1 => Habit::ScanOnce { pages },
                _ => Habit::Skewed { pages, skew: 0.3 },
            };
            plans.push(Plan::of(0, habit, draws.between(10, 50), seed << 8 | 16 | i));
        }
        let mut world = World::new(limit, &plans);
        let beside = reads_between(&mut world, 6, 12);
        assert_eq!(world.overdrafts, 0);
        for (i, plan) in plans[..3].iter().enumerate() {
            assert_kept(&world, i, beside[i], reads_alone(plan, 6, 12));
        }
    }
}

#[test]
fn writers_write_back_what_they_would_alone() {
    let mut plan = Plan::of(1024, Habit::Skewed { pages: 3000, skew: 0.7 }, 20, 1);
    plan.changes_percent = 30;
    let alone = reads_alone(&plan, 10, 30);
    let mut world = World::new(2560, &[plan, Plan::of(0, Habit::Scan { pages: 9000 }, 40, 2)]);
    let beside = reads_between(&mut world, 10, 30)[0];
    assert_kept(&world, 0, beside, alone);
    let counts = world.tenants[0].counts();
    let (counted, done) = (counts.actual.write_backs, world.tenants[0].write_backs);
    assert!(counted * 10 > done * 8 && counted * 10 < done * 12, "{counted} counted, {done} written");
}

#[test]
fn idle_memory_is_lent_and_comes_back_within_ten_seconds() {
    let mut plan = Plan::of(1024, Habit::Skewed { pages: 900, skew: 0.3 }, 20, 1);
    plan.idle = 1000..4000;
    let mut world = World::new(2048, &[plan, Plan::of(0, Habit::Skewed { pages: 6000, skew: 0.5 }, 40, 2)]);
    world.run(10);
    let held = world.tenants[0].resident;
    world.run(30);
    let left = world.tenants[0].resident;
    assert!(held > 850 && left < held / 3, "{held} pages, {left} after 30 s without a use");
    world.run(20);
    let by_second = &world.tenants[0].reads_by_second;
    assert!(world.tenants[0].resident > 850);
    assert_eq!(by_second[49], by_second[59], "reads ten seconds after its return: {by_second:?}");
}

#[test]
fn where_too_much_is_promised_the_policy_says_whose_pages_leave() {
    let missed = |policy: Policy| {
        let plans = [1_000_000, 9_000_000].map(|penalty_micros| {
            let habit = Habit::Skewed { pages: 1500, skew: 0.4 };
            Plan { penalty_micros, ..Plan::of(1400, habit, 20, penalty_micros) }
        });
        let mut world = World::new(2048, &plans);
        world.policy = policy;
        world.run(30);
        assert!(world.rows.iter().all(|row| row.ledger.cause.is_none_or(|cause| cause == Cause::Overbooked)));
        let of = |i: usize| {
            let rows = world.rows.iter().filter(|row| row.ledger.tenant == world.tenants[i].id);
            rows.map(|row| row.ledger.missed).sum::<u64>()
        };
        [of(0), of(1)]
    };
    let spread = missed(Policy::Reservations(Overbooking::SPREAD));
    let least = missed(Policy::Reservations(Overbooking::LEAST_PENALTY));
    assert!(spread[0] > 500 && spread[1] > 500 && spread[0] < 2 * spread[1], "{spread:?}");
    assert!(least[1] * 5 < spread[1] && least[0] > spread[0], "{least:?}, spread {spread:?}");
}
