//! What comes in the course of a turn, and when it is seen.

use std::time::{Duration, Instant};

use base::{Nanos, TenantId, WorkerId};
use env::Env;
use governor::{CpuPromise, MilliCores};

use super::*;

const PROMISED: TenantId = TenantId(16);
const OTHER: TenantId = TenantId(17);

fn spin(duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Whether a task whose wait of 20 us ends beside four polls of another tenant, 60 us each, is polled again in the turn of these.
fn is_seen_within_its_turn(reserved: MilliCores) -> bool {
    let env = Env::real();
    let mut worker = Worker::new(&env, WorkerId(0), &Governing::new(1, 1, env.now())).unwrap();
    let handle = worker.handle();
    let promise = CpuPromise { reserved, ..CpuPromise::default() };
    handle.set_terms(PROMISED, Terms { promise, ..Terms::default() });
    let waits = handle.spawn(PROMISED, env::sleep(Nanos::from_micros(20)));
    for _ in 0..4 {
        handle.spawn(OTHER, async { spin(Duration::from_micros(60)) }).detach();
    }
    worker.turn(Some(Nanos(0))).unwrap();
    waits.is_finished()
}

#[test]
fn who_is_due_is_seen_between_two_polls_of_others() {
    // Whatever else the machine does, some turn has its 250 us for itself.
    assert!((0..200).any(|_| is_seen_within_its_turn(MilliCores(1000))));
}

#[test]
fn who_is_promised_nothing_waits_for_the_end_of_the_turn() {
    assert!(!(0..20).any(|_| is_seen_within_its_turn(MilliCores(0))));
}
