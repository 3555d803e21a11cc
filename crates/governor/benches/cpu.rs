//! Cost of the scheduler and the meter at each poll. Prints nanoseconds a poll, and of a poll of 100 us in per cent. Run with
//! `cargo bench -p governor --bench cpu`.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock itself")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use base::{Nanos, TenantId};
use governor::{CpuAccounts, CpuFeed, CpuMeters, CpuPromise, CpuScheduler, MilliCores, Overbooking, Policy};

const POLLS: u64 = 200_000;
const POLL: u64 = 100_000;

struct Case {
    name: &'static str,
    known: u64,
    runnable: u64,
    /// Thousandths of a core, each.
    reserved: u32,
    max: Option<u32>,
    policy: Policy,
    poll: u64,
}

const CASE: Case = Case {
    name: "",
    known: 20,
    runnable: 20,
    reserved: 0,
    max: None,
    policy: Policy::Reservations(Overbooking::SPREAD),
    poll: POLL,
};

fn scheduler(case: &Case) -> CpuScheduler {
    let mut scheduler = CpuScheduler::new();
    scheduler.set_policy(case.policy, Nanos(0));
    let promise = CpuPromise {
        reserved: MilliCores(case.reserved),
        max: case.max.map(MilliCores),
        ..CpuPromise::default()
    };
    for tenant in 0..case.known {
        scheduler.set_promise(TenantId(tenant), &promise, Nanos(0));
    }
    // Spread over all that are known, as in a server that has been up for a while.
    for tenant in 0..case.runnable {
        scheduler.runnable(TenantId(tenant * (case.known / case.runnable)), Nanos(0));
    }
    scheduler
}

/// Prints what `each` poll costs, in the fastest and the median of twenty equal parts: other programs on the machine
/// disturb the fastest least.
fn measure(name: &str, mut each: impl FnMut(u64)) {
    let part = POLLS / 20;
    (0..part).for_each(&mut each);
    let mut costs: Vec<f64> = (1..21)
        .map(|n| {
            let start = Instant::now();
            (n * part..(n + 1) * part).for_each(&mut each);
            start.elapsed().as_nanos() as f64 / part as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    let percent = costs[0] / POLL as f64 * 100.0;
    println!("{name:<58} {:>8.1} {:>8.1} ns {percent:>6.3} %", costs[0], costs[10]);
}

fn pick_and_charge(case: &Case) {
    let mut scheduler = scheduler(case);
    let mut now = 0;
    measure(case.name, |_| {
        let Some(tenant) = scheduler.pick(Nanos(now)).tenant() else {
            now += 1_000_000;
            return;
        };
        now += case.poll;
        scheduler.charge(tenant, Nanos(case.poll), Nanos(now));
    });
}

/// As the executor does it for a statement: the tenant wakes, runs once and sleeps.
fn wake_run_sleep(case: &Case) {
    let mut scheduler = scheduler(case);
    let mut now = 0;
    measure(case.name, |_| {
        let Some(tenant) = scheduler.pick(Nanos(now)).tenant() else { return };
        now += case.poll;
        scheduler.charge(tenant, Nanos(case.poll), Nanos(now));
        scheduler.blocked(tenant, Nanos(now));
        scheduler.runnable(tenant, Nanos(now));
    });
}

/// A tenant with a reservation, charged by two workers as fast as they can: its account is contended.
fn two_workers_charge_one_tenant() {
    let accounts = Arc::new(CpuAccounts::default());
    let worker = || {
        let mut scheduler = CpuScheduler::sharing(accounts.clone());
        let promise = CpuPromise { reserved: MilliCores(500), ..CpuPromise::default() };
        scheduler.set_promise(TenantId(0), &promise, Nanos(0));
        scheduler.runnable(TenantId(0), Nanos(0));
        let mut now = 0;
        move || {
            let tenant = scheduler.pick(Nanos(now)).tenant();
            now += POLL;
            tenant.inspect(|tenant| scheduler.charge(*tenant, Nanos(POLL), Nanos(now)));
        }
    };
    let stop = AtomicBool::new(false);
    let (mut ours, mut theirs) = (worker(), worker());
    measure("1 of 1, 0.5 reserved", |_| ours());
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                theirs();
            }
        });
        measure("the same, charged by another worker all the time", |_| ours());
        stop.store(true, Ordering::Relaxed);
    });
}

fn main() {
    println!("{:<58} {:>8} {:>8}", "", "fastest", "median");
    pick_and_charge(&Case { name: "20 runnable of 20, weights only", ..CASE });
    pick_and_charge(&Case { name: "20 runnable of 10,000, weights only", known: 10_000, ..CASE });
    pick_and_charge(&Case { name: "20 runnable of 20, 0.05 reserved each", reserved: 50, ..CASE });
    pick_and_charge(&Case {
        name: "20 runnable of 10,000, 0.05 reserved each",
        known: 10_000,
        reserved: 50,
        ..CASE
    });
    let many = Case { known: 500, runnable: 500, reserved: 2, ..CASE };
    pick_and_charge(&Case { name: "500 runnable of 500, 0.002 reserved each", ..many });
    pick_and_charge(&Case { name: "500 runnable of 500, overbooked twice, spread", reserved: 4, ..many });
    let dear = Policy::Reservations(Overbooking::LEAST_PENALTY);
    pick_and_charge(&Case {
        name: "500 runnable of 500, overbooked twice, least penalty",
        reserved: 4,
        policy: dear,
        ..many
    });
    pick_and_charge(&Case {
        name: "500 runnable of 500, 0.001 each and at most 0.002",
        reserved: 1,
        max: Some(2),
        ..many
    });
    wake_run_sleep(&Case {
        name: "1 of 1 wakes, runs 10 us, sleeps; weights only",
        known: 1,
        runnable: 1,
        poll: 10_000,
        ..CASE
    });
    wake_run_sleep(&Case { name: "20 of 20 wake, run 10 us, sleep; weights only", poll: 10_000, ..CASE });
    wake_run_sleep(&Case {
        name: "20 of 20 wake, run 10 us, sleep; 0.05 reserved",
        reserved: 50,
        poll: 10_000,
        ..CASE
    });

    two_workers_charge_one_tenant();
    let mut busy = scheduler(&Case { reserved: 50, ..CASE });
    measure("20 runnable: must the running one yield", |n| {
        std::hint::black_box(busy.must_yield(TenantId(n % 20), Nanos(1000), Nanos(n)));
    });
    let mut feed = CpuFeed::new(CpuMeters::new());
    measure("meter: wakes, used, sleeps; 20 of 20", |n| {
        let tenant = TenantId(n % 20);
        feed.tasks(tenant, 1, Nanos(n * 10_000));
        feed.used(tenant, Nanos(10_000), Nanos(n * 10_000 + 10_000));
        feed.tasks(tenant, 0, Nanos(n * 10_000 + 10_000));
    });
}
