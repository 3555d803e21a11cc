//! The meter's rows equal a recomputation from the trace.

use std::sync::Arc;

use base::{Nanos, TenantId};
use governor::{
    Cause, CpuAccounts, CpuAudit, CpuFeed, CpuMeters, CpuPromise, CpuScheduler, CpuTerms, LedgerRow,
    MilliCores, OwnLimit, Pick,
};

use super::world::*;

fn terms(reserved: u32) -> CpuTerms {
    CpuTerms { reserved: MilliCores(reserved), ..CpuTerms::default() }
}

fn collect(audit: &mut CpuAudit, now: u64) -> Vec<LedgerRow> {
    let mut rows = Vec::new();
    audit.collect(Nanos(now), |row| rows.push(row));
    rows
}

#[test]
fn what_is_under_way_has_its_row_when_the_server_ends() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), CpuTerms { interval: Some(Nanos(60 * SECOND)), ..terms(500) }, Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    feed.used(id(0), Nanos(300 * MS), Nanos(SECOND));
    assert!(collect(&mut audit, SECOND).is_empty(), "its interval goes on");
    let mut finish = || {
        let mut rows = Vec::new();
        audit.finish(Nanos(SECOND), |row| rows.push((row.from.0, row.to.0, row.given, row.missed)));
        rows
    };
    assert_eq!(finish(), [(0, SECOND, 300 * MS, 200 * MS)]);
    assert_eq!(finish(), [], "it is told once");
}

/// Random changes of tasks on several workers, told in order of time.
#[test]
fn rows_equal_a_recomputation_from_the_trace() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let meters = CpuMeters::new();
        let mut audit = CpuAudit::new(meters.clone(), 4, Nanos(0));
        let mut feeds: Vec<CpuFeed> = (0..4).map(|_| CpuFeed::new(meters.clone())).collect();
        let reserved: Vec<u32> = (0..5).map(|_| random.between(0, 3500) as u32).collect();
        for (tenant, reserved) in reserved.iter().enumerate() {
            meters.set_terms(id(tenant), terms(*reserved), Nanos(0));
        }
        let mut tasks = [[0u32; 5]; 4];
        let (mut owed, mut active, mut used) = ([0u64; 5], [0u64; 5], [0u64; 5]);
        let (mut now, mut left) = (0, [0u64; 5]);
        for interval in 1..=3u64 {
            let end = interval * SECOND;
            while now < end {
                let next = (now + random.between(0, 2 * MS)).min(end);
                for tenant in 0..5 {
                    let sum: u64 = tasks.iter().map(|tasks| u64::from(tasks[tenant])).sum();
                    owed[tenant] += (next - now) * u64::from(reserved[tenant]).min(sum * 1000);
                    active[tenant] += if sum > 0 { next - now } else { 0 };
                }
                now = next;
                let (worker, tenant) = (random.between(0, 3) as usize, random.between(0, 4) as usize);
                let count = random.between(0, 3) as u32;
                feeds[worker].tasks(id(tenant), count, Nanos(now));
                tasks[worker][tenant] = count;
                let time = random.between(0, MS);
                feeds[worker].used(id(tenant), Nanos(time), Nanos(now));
                feeds[worker].take_back(id(tenant), Nanos(time / 3), Nanos(now));
                used[tenant] += time - time / 3;
            }
            let rows = collect(&mut audit, now);
            assert_eq!(rows.len(), 5);
            for (tenant, row) in rows.iter().enumerate() {
                let demanded = (owed[tenant] + left[tenant]) / 1000;
                left[tenant] = (owed[tenant] + left[tenant]) % 1000;
                assert_eq!(row.tenant, id(tenant));
                assert_eq!((row.from, row.to), (Nanos(end - SECOND), Nanos(end)));
                assert_eq!(row.promised, u64::from(reserved[tenant]) * MS, "seed {seed}");
                assert_eq!(
                    (row.demanded, row.active.0, row.given),
                    (demanded, active[tenant], used[tenant]),
                    "seed {seed}"
                );
                assert_eq!(row.missed, demanded.saturating_sub(used[tenant]), "seed {seed}");
            }
            (owed, active, used) = ([0; 5], [0; 5], [0; 5]);
        }
    }
}

/// The same for what a whole world did under the scheduler.
#[test]
fn rows_of_a_world_equal_its_trace() {
    for seed in 0..10 {
        let mut random = Random(seed);
        let tenants = (0..6)
            .map(|n| {
                let load = Load::Bursts { work: (US, 4 * MS), sleep: (US, 9 * MS) };
                Tenant::new(random.between(0, 1500) as u32, n % 2, load.clone(), (US, 300 * US))
                    .also_on(1 - n % 2, load)
            })
            .collect();
        let mut world = World::new(2, tenants, seed);
        world.run_until(2 * SECOND);
        for tenant in 0..6 {
            let of = |amount: fn(&LedgerRow) -> u64| -> u64 {
                world.rows.iter().filter(|row| row.tenant == id(tenant)).map(amount).sum()
            };
            assert_eq!(of(|row| row.given), world.used(tenant));
            // A worker's last poll ends a little after the other's, out of order.
            let owed = world.owed_between(tenant, 0, 2 * SECOND) / 1000;
            assert!(
                of(|row| row.demanded).abs_diff(owed) <= 4 * MS,
                "seed {seed}: {} {owed}",
                of(|row| row.demanded)
            );
        }
    }
}

#[test]
fn tasks_on_two_workers_at_once_are_owed_once() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let mut feeds = [CpuFeed::new(meters.clone()), CpuFeed::new(meters.clone())];
    meters.set_terms(id(0), terms(1000), Nanos(0));
    // Together from 200 to 400 ms, alone from 100 and until 600.
    feeds[0].tasks(id(0), 1, Nanos(100 * MS));
    feeds[1].tasks(id(0), 1, Nanos(200 * MS));
    feeds[0].tasks(id(0), 0, Nanos(400 * MS));
    feeds[1].tasks(id(0), 0, Nanos(600 * MS));
    feeds[0].used(id(0), Nanos(150 * MS), Nanos(400 * MS));
    let row = collect(&mut audit, SECOND)[0];
    assert_eq!((row.active.0, row.demanded, row.given, row.missed), (500 * MS, 500 * MS, 150 * MS, 350 * MS));
}

#[test]
fn owed_is_what_was_promised_at_each_moment_of_demand() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), terms(100), Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    feed.used(id(0), Nanos(40 * MS), Nanos(500 * MS));
    feed.tasks(id(0), 0, Nanos(500 * MS));
    let row = collect(&mut audit, SECOND)[0];
    assert_eq!((row.demanded, row.missed, row.promised), (50 * MS, 10 * MS, 100 * MS));
    // Nothing to say, then a change of promise in the middle.
    assert_eq!(collect(&mut audit, 2 * SECOND), []);
    feed.tasks(id(0), 1, Nanos(2 * SECOND));
    meters.set_terms(id(0), terms(300), Nanos(2 * SECOND + 500 * MS));
    let row = collect(&mut audit, 3 * SECOND)[0];
    assert_eq!((row.demanded, row.promised), (200 * MS, 200 * MS));
}

#[test]
fn tenants_have_intervals_of_their_own() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), CpuTerms { interval: Some(Nanos(100 * MS)), ..terms(100) }, Nanos(0));
    meters.set_terms(id(1), CpuTerms { interval: Some(Nanos(300 * MS)), ..terms(100) }, Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    feed.tasks(id(1), 1, Nanos(0));
    let mut rows = Vec::new();
    audit.collect(Nanos(0), |_| panic!("nothing has ended"));
    for _ in 0..6 {
        let end = audit.next_end().unwrap();
        rows.extend(collect(&mut audit, end.0));
    }
    let of = |tenant| {
        rows.iter().filter(|row| row.tenant == id(tenant)).map(|row| row.demanded).collect::<Vec<_>>()
    };
    assert_eq!(of(0), [10 * MS; 6]);
    assert_eq!(of(1), [30 * MS; 2]);
}

#[test]
fn intervals_of_one_length_end_together() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    let made_at = [0, 300 * MS, 600 * MS];
    for (tenant, at) in (0..).zip(made_at) {
        meters.set_terms(id(tenant), terms(100), Nanos(at));
        feed.tasks(id(tenant), 1, Nanos(at));
    }
    let spans = |rows: &[LedgerRow]| rows.iter().map(|row| (row.from.0, row.to.0)).collect::<Vec<_>>();
    assert_eq!(audit.next_end(), Some(Nanos(SECOND)));
    // Late, and each interval as long as it was.
    let late = SECOND + 20 * MS;
    assert_eq!(spans(&collect(&mut audit, late)), [(0, late), (300 * MS, late)]);
    assert_eq!(audit.next_end(), Some(Nanos(2 * SECOND)));
    let rows = collect(&mut audit, 2 * SECOND);
    assert_eq!(spans(&rows), [(late, 2 * SECOND), (late, 2 * SECOND), (600 * MS, 2 * SECOND)]);
    assert!(
        rows.iter().all(|row| row.demanded == (row.to - row.from).0 / 10),
        "nothing is lost between them"
    );
    assert_eq!(audit.next_end(), Some(Nanos(3 * SECOND)));
}

#[test]
fn a_changed_interval_is_that_of_what_is_under_way() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), terms(100), Nanos(0));
    meters.set_terms(id(1), CpuTerms { interval: Some(Nanos(SECOND)), ..terms(100) }, Nanos(0));
    (0..2).for_each(|tenant| feed.tasks(id(tenant), 1, Nanos(0)));
    audit.collect(Nanos(0), |_| panic!("nothing has ended"));
    // Longer: it goes on.
    meters.set_interval(Nanos(2 * SECOND));
    let rows = collect(&mut audit, SECOND);
    assert_eq!(rows.iter().map(|row| (row.tenant, row.demanded)).collect::<Vec<_>>(), [(id(1), 100 * MS)]);
    assert_eq!(audit.next_end(), Some(Nanos(2 * SECOND)));
    // Shorter: it ends, having lasted longer, and nothing of it is lost.
    meters.set_interval(Nanos(200 * MS));
    assert_eq!(audit.next_end(), Some(Nanos(200 * MS)), "which has passed");
    let row = collect(&mut audit, SECOND + 100 * MS)[0];
    assert_eq!((row.tenant, row.from, row.demanded), (id(0), Nanos(0), 110 * MS));
    assert_eq!(audit.next_end(), Some(Nanos(SECOND + 200 * MS)));
    assert_eq!(collect(&mut audit, SECOND + 200 * MS)[0].demanded, 10 * MS);
}

#[test]
fn tenant_that_is_gone_has_a_last_row() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), terms(500), Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    feed.remove(id(0), Nanos(100 * MS));
    meters.forget(id(0));
    assert_eq!(collect(&mut audit, 200 * MS)[0].demanded, 50 * MS);
    assert_eq!((collect(&mut audit, 2 * SECOND), audit.next_end()), (vec![], None));
}

#[test]
fn cause_tells_overbooking_from_the_server_and_from_neighbours() {
    let cause = |reserved: [u32; 2], home: [u32; 2], system_used: u64| {
        let meters = CpuMeters::new();
        let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
        let mut feed = CpuFeed::new(meters.clone());
        meters.set_terms(TenantId::SYSTEM, terms(100), Nanos(0));
        feed.used(TenantId::SYSTEM, Nanos(system_used), Nanos(0));
        for tenant in 0..2 {
            meters.set_terms(
                id(tenant),
                CpuTerms { home: Some(home[tenant]), ..terms(reserved[tenant]) },
                Nanos(0),
            );
            feed.tasks(id(tenant), 1, Nanos(0));
        }
        feed.used(id(0), Nanos(u64::from(reserved[0] - 50) * MS), Nanos(0));
        collect(&mut audit, SECOND)[1].cause
    };
    assert_eq!(cause([500, 500], [0, 0], 0), Some(Cause::Neighbour), "exactly full is not overbooked");
    assert_eq!(cause([500, 501], [0, 0], 0), Some(Cause::Overbooked), "on its home");
    assert_eq!(cause([500, 501], [0, 1], 0), Some(Cause::Neighbour));
    assert_eq!(cause([1000, 1000], [0, 1], 0), Some(Cause::Neighbour), "both cores, exactly");
    assert_eq!(cause([450, 450], [0, 0], 150 * MS), Some(Cause::System), "50 ms beyond its 100");
    assert_eq!(cause([450, 450], [0, 0], 149 * MS), Some(Cause::Neighbour));
    // With what the server's own work had of its promise, half of which is for that worker.
    assert_eq!(cause([500, 500], [0, 0], MS), Some(Cause::Overbooked));
    assert_eq!(cause([475, 475], [0, 0], 140 * MS), Some(Cause::Neighbour), "exactly full");
    assert_eq!(cause([475, 476], [0, 0], 140 * MS), Some(Cause::Overbooked));
    assert_eq!(cause([475, 476], [0, 1], 140 * MS), Some(Cause::Neighbour));
    assert_eq!(cause([500, 1000], [0, 1], 140 * MS), Some(Cause::Neighbour), "it was on the other worker");
}

#[test]
fn who_moves_because_it_does_not_fit_missed_what_it_missed_for_that() {
    let causes = |reserved: [u32; 2]| {
        let meters = CpuMeters::new();
        let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
        let mut feed = CpuFeed::new(meters.clone());
        let set = |tenant: usize, home, at| {
            let terms = CpuTerms { home: Some(home), ..terms(reserved[tenant]) };
            meters.set_terms(id(tenant), terms, Nanos(at));
        };
        for tenant in 0..2 {
            set(tenant, 0, 0);
            feed.tasks(id(tenant), 1, Nanos(0));
        }
        let mut cause_at = |second: u64, change: &dyn Fn()| {
            change();
            feed.used(id(0), Nanos(u64::from(reserved[0]) * MS), Nanos(second * SECOND));
            feed.used(id(1), Nanos(u64::from(reserved[1] - 50) * MS), Nanos(second * SECOND));
            collect(&mut audit, second * SECOND)[1].cause
        };
        let moves = |home, at| set(1, home, at);
        let moved = cause_at(1, &|| moves(1, 900 * MS));
        // Whose home is what it was has no old one.
        let came_back = cause_at(2, &|| {
            moves(0, SECOND + 100 * MS);
            moves(1, SECOND + 200 * MS);
        });
        [moved, came_back, cause_at(3, &|| ())]
    };
    let neighbour = Some(Cause::Neighbour);
    assert_eq!(causes([600, 600]), [Some(Cause::Overbooked), neighbour, neighbour]);
    assert_eq!(causes([400, 600]), [neighbour; 3], "exactly full");
}

#[test]
fn what_the_server_uses_beside_its_workers_is_of_no_core_of_theirs() {
    let cause = |is_elsewhere: bool, reserved: u32| {
        let meters = CpuMeters::new();
        let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
        let mut feed = CpuFeed::new(meters.clone());
        meters.set_terms(TenantId::SYSTEM, terms(400), Nanos(0));
        match is_elsewhere {
            true => feed.used_elsewhere(TenantId::SYSTEM, Nanos(150 * MS), Nanos(0)),
            false => feed.used(TenantId::SYSTEM, Nanos(150 * MS), Nanos(0)),
        }
        for (tenant, home) in [(0, 0), (1, 1)] {
            meters.set_terms(id(tenant), CpuTerms { home: Some(home), ..terms(reserved) }, Nanos(0));
            feed.tasks(id(tenant), 1, Nanos(0));
        }
        feed.used(id(0), Nanos(u64::from(reserved - 50) * MS), Nanos(0));
        let rows = collect(&mut audit, SECOND);
        assert_eq!((rows[0].tenant, rows[0].given), (TenantId::SYSTEM, 150 * MS));
        rows[1].cause
    };
    assert_eq!(cause(false, 900), Some(Cause::Overbooked), "on its home");
    assert_eq!(cause(true, 900), Some(Cause::Neighbour));
    assert_eq!(cause(true, 925), Some(Cause::Neighbour), "both cores, exactly");
    assert_eq!(cause(true, 926), Some(Cause::Overbooked));
}

#[test]
fn what_was_taken_before_a_start_hides_nothing_that_is_missed() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), CpuTerms { max: Some(MilliCores(1000)), ..terms(500) }, Nanos(0));
    feed.used_before(id(0), Nanos(20 * SECOND), Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    let mut row_of = |feed: &mut CpuFeed, second: u64, given: u64| {
        feed.used(id(0), Nanos(given * MS), Nanos(second * SECOND));
        let row = collect(&mut audit, second * SECOND)[0];
        (row.given / MS, row.missed / MS, row.over / MS)
    };
    assert_eq!(row_of(&mut feed, 1, 300), (20_300, 200, 0));
    // Nor is it taken for what the limit remembers.
    assert_eq!(row_of(&mut feed, 2, 100), (100, 400, 0));
}

#[test]
fn clock_that_steps_back_is_not_counted() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), terms(1000), Nanos(0));
    feed.tasks(id(0), 1, Nanos(500 * MS));
    feed.tasks(id(0), 2, Nanos(499 * MS));
    feed.tasks(id(0), 1, Nanos(600 * MS));
    feed.tasks(id(0), 0, Nanos(100 * MS));
    assert_eq!(collect(&mut audit, SECOND)[0].active, Nanos(100 * MS));
}

#[test]
fn who_came_while_nobody_looked_has_waited_since_the_middle() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), terms(500), Nanos(0));
    // A poll of a neighbour's from 100 to 500 ms.
    feed.came_unseen(id(0), 1, Nanos(100 * MS), Nanos(500 * MS));
    feed.came_unseen(id(0), 1, Nanos(100 * MS), Nanos(500 * MS));
    feed.tasks(id(0), 0, Nanos(520 * MS));
    feed.used(id(0), Nanos(20 * MS), Nanos(520 * MS));
    let row = collect(&mut audit, SECOND)[0];
    assert_eq!((row.active.0, row.demanded, row.missed), (220 * MS, 110 * MS, 90 * MS));
    // One that was at work while it began may have been for all of it, and one elsewhere is counted there.
    feed.tasks(id(0), 1, Nanos(SECOND));
    feed.tasks(id(0), 0, Nanos(SECOND + 100 * MS));
    feed.came_unseen(id(0), 1, Nanos(SECOND + 50 * MS), Nanos(SECOND + 400 * MS));
    let mut elsewhere = CpuFeed::of_worker(meters.clone(), 1);
    elsewhere.came_unseen(id(0), 1, Nanos(SECOND), Nanos(SECOND + 450 * MS));
    elsewhere.tasks(id(0), 0, Nanos(SECOND + 500 * MS));
    feed.tasks(id(0), 0, Nanos(SECOND + 500 * MS));
    assert_eq!(collect(&mut audit, 2 * SECOND)[0].active.0, 200 * MS);
    // It may have been before the interval, and then is none of it.
    feed.came_unseen(id(0), 1, Nanos(2 * SECOND - 400 * MS), Nanos(2 * SECOND + 200 * MS));
    let row = collect(&mut audit, 3 * SECOND)[0];
    assert_eq!((row.active.0, row.demanded), (SECOND, 500 * MS));
}

#[test]
fn who_was_on_its_way_between_workers_has_waited_by_the_servers_doing() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let [mut from, mut to] = [0, 1].map(|worker| CpuFeed::of_worker(meters.clone(), worker));
    meters.set_terms(id(0), terms(500), Nanos(0));
    from.tasks(id(0), 1, Nanos(0));
    from.used(id(0), Nanos(200 * MS), Nanos(400 * MS));
    from.tasks(id(0), 0, Nanos(400 * MS));
    // The other worker is in a long poll from 300 to 700 ms.
    to.was_on_its_way(id(0), Nanos(400 * MS), Nanos(700 * MS));
    to.came_unseen(id(0), 1, Nanos(300 * MS), Nanos(700 * MS));
    to.used(id(0), Nanos(150 * MS), Nanos(SECOND));
    let row = collect(&mut audit, SECOND)[0];
    assert_eq!((row.active.0, row.missed, row.cause), (SECOND, 150 * MS, Some(Cause::System)));
    // One with tasks elsewhere is counted there.
    from.was_on_its_way(id(0), Nanos(SECOND), Nanos(2 * SECOND));
    assert_eq!(collect(&mut audit, 2 * SECOND)[0].active.0, SECOND);
}

/// Threads that change one tenant's tasks while a collector cuts: nothing is lost, nothing counted twice.
#[test]
fn workers_and_collector_at_once_lose_nothing() {
    const ROUNDS: u64 = 20_000;
    let meters = CpuMeters::new();
    meters.set_terms(id(0), CpuTerms { interval: Some(Nanos(1)), ..terms(4000) }, Nanos(0));
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let clock = std::sync::atomic::AtomicU64::new(0);
    let tick = || Nanos(clock.fetch_add(10, std::sync::atomic::Ordering::SeqCst));
    let (mut demanded, mut active, mut given) = (0, 0, 0);
    let mut add = |row: LedgerRow| {
        demanded += row.demanded;
        active += row.active.0;
        given += row.given;
    };
    // One task is there throughout, so that every moment is active.
    let mut base = CpuFeed::new(meters.clone());
    let start = tick();
    base.tasks(id(0), 1, start);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut feed = CpuFeed::new(meters.clone());
                    for _ in 0..ROUNDS {
                        feed.tasks(id(0), 1, tick());
                        feed.used(id(0), Nanos(3), Nanos(0));
                        feed.tasks(id(0), 0, tick());
                    }
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            audit.collect(tick(), &mut add);
        }
    });
    let end = tick();
    base.tasks(id(0), 0, end);
    audit.collect(tick(), &mut add);
    assert_eq!(given, 3 * 2 * ROUNDS);
    assert_eq!(active, (end - start).0);
    assert!(demanded >= active - 1000 && demanded <= 3 * active, "{demanded} {active}");
}

#[test]
fn what_is_missed_while_the_server_held_a_tenant_up_is_the_systems_doing() {
    let cause_of = |held: u64| {
        let meters = CpuMeters::new();
        let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
        let mut feed = CpuFeed::new(meters.clone());
        meters.set_terms(id(0), terms(500), Nanos(0));
        feed.tasks(id(0), 1, Nanos(0));
        // Of the 500 ms that are owed, 8 are missing.
        feed.used(id(0), Nanos(492 * MS), Nanos(SECOND));
        feed.held_up(id(0), Nanos(held), Nanos(SECOND));
        let rows = collect(&mut audit, SECOND);
        assert_eq!(rows[0].missed, 8 * MS);
        // It is told of once.
        feed.tasks(id(0), 1, Nanos(2 * SECOND));
        feed.used(id(0), Nanos(492 * MS), Nanos(2 * SECOND));
        assert_eq!(collect(&mut audit, 2 * SECOND)[0].cause, Some(Cause::Neighbour));
        rows[0].cause
    };
    assert_eq!(cause_of(16 * MS), Some(Cause::System), "half a core of 16 ms");
    assert_eq!(cause_of(15 * MS), Some(Cause::Neighbour));
}

#[test]
fn what_is_missed_is_priced_as_it_was_promised() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    let set = |reserved, penalty_micros, at| {
        meters.set_terms(id(0), CpuTerms { penalty_micros, ..terms(reserved) }, Nanos(at));
    };
    let mut row_at = |end| {
        let row = collect(&mut audit, end)[0];
        (row.missed / MS, row.owed_micros)
    };
    set(500, 2_000_000, 0);
    feed.tasks(id(0), 1, Nanos(0));
    set(500, 0, 750 * MS);
    assert_eq!(row_at(SECOND), (500, 750_000), "three quarters of it at 2, the rest at nothing");
    // A time in which nothing is promised has no price.
    set(0, 0, SECOND);
    set(500, 2_000_000, 1900 * MS);
    assert_eq!(row_at(2 * SECOND), (50, 100_000));
}

/// A tenant with a limit that is its reservation, half a core, with a task all the time; what it was given each second, from its beginning.
fn missed_of(given: &[u64]) -> Vec<(u64, u64)> {
    missed_where(true, given)
}

fn missed_where(limits_held: bool, given: &[u64]) -> Vec<(u64, u64)> {
    rows_where(limits_held, given).iter().map(|row| (row.missed / MS, row.over / MS)).collect()
}

fn rows_where(limits_held: bool, given: &[u64]) -> Vec<LedgerRow> {
    let meters = CpuMeters::new();
    meters.set_limits_held(limits_held);
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), CpuTerms { max: Some(MilliCores(500)), ..terms(500) }, Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    let mut rows = Vec::new();
    for (second, given) in (1..).zip(given) {
        for ms in 1..=*given {
            feed.used(id(0), Nanos(MS), Nanos((second - 1) * SECOND + ms * MS));
        }
        rows.extend(collect(&mut audit, second * SECOND));
    }
    assert!(rows.iter().all(|row| row.demanded.saturating_sub(row.given) == row.missed));
    rows
}

#[test]
fn what_a_tenants_own_limit_kept_from_it_is_not_missed() {
    assert_eq!(missed_of(&[500, 450]), [(0, 0), (50, 0)], "it had no more before");
    // A call that could not be stopped, and a second without.
    assert_eq!(missed_of(&[900, 100, 500]), [(0, 400), (0, 0), (0, 0)]);
    assert_eq!(missed_of(&[900, 50, 450]), [(0, 400), (50, 0), (50, 0)], "what others took is missed");
    // In two seconds as in one.
    assert_eq!(missed_of(&[900, 200, 400, 490]), [(0, 400), (0, 0), (0, 0), (10, 0)]);
    // Where limits are not held they are no excuse.
    assert_eq!(missed_where(false, &[900, 100, 500]), [(0, 400), (400, 0), (0, 0)]);
    // A limit stops nobody for longer than a second, with what a bucket holds.
    assert_eq!(missed_of(&[1000, 1000, 1000, 0, 490]), [(0, 500), (0, 500), (0, 500), (0, 0), (5, 0)]);
}

#[test]
fn a_row_says_what_is_owed_to_a_limit_what_is_forgiven_and_what_it_kept() {
    let limit_of = |limits_held, given: &[u64]| {
        let rows = rows_where(limits_held, given);
        let mut debt = 0;
        for row in &rows {
            let OwnLimit { debt: owed, forgiven, .. } = row.own_limit;
            let explained = SECOND / 2 + owed + forgiven;
            assert!(row.given + debt <= explained || !limits_held, "beyond the limit for no reason: {row:?}");
            debt = owed;
        }
        let in_ms = |of: OwnLimit| (of.held / MS, of.debt / MS, of.forgiven / MS);
        rows.iter().map(|row| in_ms(row.own_limit)).collect::<Vec<_>>()
    };
    assert_eq!(limit_of(true, &[500, 450]), [(0, 0, 0); 2]);
    // A call that could not be stopped, and the second in which it is paid for.
    assert_eq!(limit_of(true, &[900, 100, 500]), [(0, 400, 0), (400, 0, 0), (0, 0, 0)]);
    // What is owed is a second's and what a bucket holds.
    let of_calls = [(0, 500, 0), (0, 505, 495), (0, 505, 500), (500, 5, 0), (5, 0, 0)];
    assert_eq!(limit_of(true, &[1000, 1000, 1000, 0, 490]), of_calls);
    assert_eq!(limit_of(false, &[1000, 1000, 0]), [(0, 0, 0); 3], "it is not held");
    let rows = rows_where(true, &[1000, 0]);
    assert!(rows[1].demanded == 0 && rows[1].is_telling(), "all that is promised was held: {:?}", rows[1]);
}

#[test]
fn what_a_lower_limit_forgives_while_a_tenant_rests_is_told_in_its_next_row() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    let limit = |max| CpuTerms { max: Some(MilliCores(max)), ..terms(0) };
    meters.set_terms(id(0), limit(500), Nanos(0));
    feed.used(id(0), Nanos(900 * MS), Nanos(SECOND));
    let row = collect(&mut audit, SECOND)[0];
    assert_eq!((row.own_limit.debt / MS, row.own_limit.forgiven), (450, 0));
    // 0.2 s are not paid for yet, which are two seconds of the new limit; a second of it and what a bucket holds are left.
    meters.set_terms(id(0), limit(100), Nanos(1500 * MS));
    assert!(collect(&mut audit, 2 * SECOND).is_empty(), "it rests");
    feed.used(id(0), Nanos(10 * MS), Nanos(3 * SECOND));
    let row = collect(&mut audit, 3 * SECOND)[0];
    assert_eq!((row.given / MS, row.own_limit.forgiven / MS), (10, 99));
}

#[test]
fn what_others_waited_for_is_told_once() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    meters.set_terms(id(0), CpuTerms { max: Some(MilliCores(100)), ..terms(100) }, Nanos(0));
    for second in 1..=2 {
        let now = Nanos(second * SECOND);
        feed.used(id(0), Nanos(700 * MS), now);
        if second == 1 {
            feed.was_awaited(id(0), Nanos(600 * MS), now);
        }
        let row = collect(&mut audit, now.0)[0];
        let awaited = if second == 1 { 600 } else { 0 };
        assert_eq!((row.given / MS, row.over / MS, row.own_limit.awaited / MS), (700, 600, awaited));
    }
    // The worker's thread did not run for a part of the time.
    let now = Nanos(3 * SECOND);
    feed.used(id(0), Nanos(700 * MS), now);
    feed.was_awaited(id(0), Nanos(700 * MS), now);
    feed.take_back(id(0), Nanos(200 * MS), now);
    let row = collect(&mut audit, now.0)[0];
    assert_eq!((row.given / MS, row.own_limit.awaited / MS), (500, 500), "a part of what was given");
}

/// A tenant whose polls take three seconds under a limit of a quarter of a core, which the scheduler charges so many times: what is
/// forgiven by the ledger, and by the scheduler's account.
fn forgiven_where(charged: u32) -> (u64, u64) {
    let (accounts, meters) = (Arc::new(CpuAccounts::default()), CpuMeters::new());
    let mut scheduler = CpuScheduler::sharing(accounts.clone());
    let mut audit = CpuAudit::new(meters.clone(), 1, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    let max = Some(MilliCores(250));
    scheduler.set_promise(id(0), &CpuPromise { max, ..CpuPromise::default() }, Nanos(0));
    meters.set_terms(id(0), CpuTerms { max, ..terms(0) }, Nanos(0));
    scheduler.runnable(id(0), Nanos(0));
    feed.tasks(id(0), 1, Nanos(0));
    let (mut now, poll) = (Nanos(0), Nanos(3 * SECOND));
    for _ in 0..4 {
        if let Pick::NotBefore(until) = scheduler.pick(now) {
            now = until;
        }
        assert_eq!(scheduler.pick(now), Pick::Run(id(0)));
        now += poll;
        (0..charged).for_each(|_| scheduler.charge(id(0), poll, now));
        feed.used(id(0), poll, now);
    }
    let mut rows = Vec::new();
    audit.finish(now, |row| rows.push(row));
    let OwnLimit { debt, forgiven, .. } = rows[0].own_limit;
    assert!(rows[0].over.abs_diff(debt + forgiven) <= MS, "{:?}", rows[0]);
    let account = accounts.account(id(0));
    assert!(account.debt(now).0.abs_diff(debt) <= 5 * MS, "{:?} {:?}", account.debt(now), rows[0]);
    (forgiven, account.forgiven().0)
}

#[test]
fn what_is_forgiven_is_found_without_the_scheduler() {
    let (told, account) = forgiven_where(1);
    // To within what a bucket holds, each time.
    assert!(told.abs_diff(account) <= 4 * 5 * MS, "{told} {account}");
    let (still, account) = forgiven_where(2);
    assert!(still == told && account >= told + 10 * SECOND, "{still} {told} {account}");
}

#[test]
fn what_a_limit_kept_from_who_had_rested_is_not_missed() {
    let meters = CpuMeters::new();
    let mut audit = CpuAudit::new(meters.clone(), 2, Nanos(0));
    let mut feed = CpuFeed::new(meters.clone());
    let half = CpuTerms { max: Some(MilliCores(500)), ..terms(500) };
    meters.set_terms(id(0), half, Nanos(0));
    // As the scheduler gives it: 5 ms at the beginning of each 10.
    let by_its_limit = |feed: &mut CpuFeed, from: u64, to: u64| {
        for at in (from..to).step_by(10) {
            feed.used(id(0), Nanos(5 * MS), Nanos((at + 5) * MS));
        }
    };
    let mut row_at = |end: u64| {
        let row = collect(&mut audit, end)[0];
        (row.demanded / MS, row.missed / MS)
    };
    // A call of 200 ms in the last 200 ms of a second: 100 of them are beyond the limit.
    feed.tasks(id(0), 1, Nanos(800 * MS));
    feed.used(id(0), Nanos(200 * MS), Nanos(SECOND));
    assert_eq!(row_at(SECOND), (100, 0));
    by_its_limit(&mut feed, 1200, 2000);
    assert_eq!(row_at(2 * SECOND), (400, 0), "it was stopped for 200 ms");
    by_its_limit(&mut feed, 2000, 2800);
    assert_eq!(row_at(3 * SECOND), (500, 100), "it was not");
}

#[test]
fn a_tenant_at_its_limit_misses_nothing_of_a_reservation_as_large() {
    for (share, poll) in [(300, (100 * US, 400 * US)), (100, (2 * MS, 9 * MS))] {
        let limited = Tenant::busy(share).at_most(share).polling(poll.0, poll.1);
        let mut world = World::new(1, vec![limited, Tenant::busy(0)], 7);
        world.run_until(10 * SECOND);
        let missed: u64 = world.rows.iter().map(|row| row.missed).sum();
        // What a poll that goes on at an interval's end has used is told at its own.
        assert!(missed <= poll.1, "{missed}: {:?}", world.rows);
    }
}
