//! Cost of the I/O scheduler's and meter's decisions. Prints nanoseconds an I/O, fastest and median of twenty parts. Run with
//! `cargo bench -p governor`.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock itself")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant;

use base::{ByteCount, IoClass, Nanos, TenantId};
use governor::{
    IoCost, IoInterval, IoMeter, IoMeterVolume, IoPromise, IoQueue, IoVolume, Next, Overbooking, Policy,
    Submitted,
};

const PAGE: IoCost = IoCost::of(ByteCount(8192));

/// Runs `each` so often and prints what one run takes, in the fastest and the median of twenty equal parts.
fn measure(name: &str, count: u64, mut each: impl FnMut(u64)) {
    let part = count / 20;
    let mut costs: Vec<f64> = (0..20)
        .map(|n| {
            let start = Instant::now();
            (n * part..(n + 1) * part).for_each(&mut each);
            start.elapsed().as_nanos() as f64 / part as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{name:<58} {:>8.1} {:>8.1} ns", costs[0], costs[10]);
}

fn tenant(n: u64) -> TenantId {
    TenantId(TenantId::FIRST_USER.0 + n)
}

fn fast_path(depth: Option<NonZeroU32>, name: &str) {
    let volume = IoVolume::new(2);
    volume.set_depth(depth);
    let mut queue = IoQueue::new(&volume, 0);
    measure(name, 20_000_000, |n| {
        let submitted = queue.submit(tenant(0), IoClass::Short, PAGE, n, Nanos(n * 100));
        let Submitted::Issue(payload, place) = submitted else { panic!("nothing governs the volume") };
        black_box(payload);
        queue.completed(place);
    });
}

/// Each of `active` tenants keeps `waiting` requests queued; `known` have promises.
fn governed(known: u64, active: u64, waiting: u64, dial: u16, name: &str) {
    let volume = IoVolume::new(2);
    let overbooking = Overbooking::from_permille(dial).expect("at most 1000");
    volume.set_policy(Policy::Reservations(overbooking), Nanos(0));
    volume.set_depth(NonZeroU32::new(32));
    for n in 0..known {
        // All are due at once at the beginning, and then each 1,000 I/Os or so a tenth of them.
        let promise =
            IoPromise { iops: 100 + n % 100, iops_max: Some(1_000_000_000), ..IoPromise::default() };
        volume.set_promise(tenant(n), &promise, 0, Nanos(0));
    }
    let mut queue = IoQueue::new(&volume, 0);
    // Every tenant has been there once.
    for n in 0..known {
        let _ = queue.submit(tenant(n), IoClass::Short, PAGE, n, Nanos(0));
        if let Next::Issue(_, place) = queue.next(Nanos(1)) {
            queue.completed(place);
        }
    }
    let stride = known / active;
    let mut now = 1_000_000_000;
    for n in 0..active * waiting {
        let _ =
            queue.submit(tenant(n % active * stride), IoClass::Short, PAGE, n % active * stride, Nanos(now));
    }
    let mut in_flight = std::collections::VecDeque::with_capacity(32);
    measure(name, 2_000_000, |_| {
        now += 20_000;
        if in_flight.len() == 31 {
            queue.completed(in_flight.pop_front().expect("31 are in flight"));
        }
        let Next::Issue(whose, place) = queue.next(Nanos(now)) else { panic!("requests wait") };
        in_flight.push_back(place);
        let _ = queue.submit(tenant(whose), IoClass::Short, PAGE, whose, Nanos(now));
    });
}

fn metered(known: u64, active: u64, name: &str) {
    let volume = IoMeterVolume::new(0, Nanos::from_micros(250));
    let mut meter = IoMeter::new(&volume);
    for n in 0..known {
        volume.set_promise(tenant(n), &IoPromise { iops: 1000, ..IoPromise::default() }, 0, Nanos(0));
        meter.arrived(tenant(n), PAGE, Nanos(0));
        meter.issued(tenant(n), PAGE, Nanos(0));
    }
    let stride = known / active;
    let mut interval = IoInterval::default();
    meter.close(Nanos(1000), &mut interval);
    measure(name, 4_000_000, |n| {
        let (whose, now) = (tenant(n % active * stride), Nanos(n * 1000));
        meter.arrived(whose, PAGE, now);
        meter.issued(whose, PAGE, now);
        meter.started(now);
        meter.completed(PAGE, now);
    });
}

/// A change of one tenant's promise while so many have one.
fn promised(known: u64, name: &str) {
    let volume = IoVolume::new(2);
    let promise = |n| IoPromise { iops: 100 + n % 100, ..IoPromise::default() };
    (0..known).for_each(|n| volume.set_promise(tenant(n), &promise(n), 0, Nanos(0)));
    measure(name, 200_000, |n| {
        // To another one each time round, and to none in between.
        let promise = if n % 2 == 0 { IoPromise::default() } else { promise(n / known) };
        volume.set_promise(tenant(n % known), &promise, 0, Nanos(n));
    });
}

fn main() {
    println!("{:<58} {:>8} {:>8}", "submit + next + completed", "fastest", "median");
    fast_path(None, "nothing promised, no depth");
    fast_path(NonZeroU32::new(32), "nothing promised, depth 32");
    governed(20, 20, 4, 0, "20 active of 20 with promises");
    governed(20, 20, 4, 500, "20 active of 20, dial half-way");
    governed(10_000, 20, 4, 0, "20 active of 10,000");
    governed(500, 500, 4, 0, "500 active of 500");
    println!("{:<58} {:>8} {:>8}", "arrived + issued + started + completed", "fastest", "median");
    metered(20, 20, "meter, 20 active of 20");
    metered(10_000, 20, "meter, 20 active of 10,000");
    println!("{:<58} {:>8} {:>8}", "set_promise", "fastest", "median");
    promised(20, "20 known");
    promised(10_000, "10,000 known");
}
