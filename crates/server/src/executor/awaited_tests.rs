//! Upkeep that others wait for, and the limit of processor time that does not hold it. By a clock that only work moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::{Nanos, TenantId, WorkerId};
use env::sim::{Latency, Speeds};
use governor::{AwaitedFor, CpuPromise, MilliCores};

use super::*;

const LIMITED: TenantId = TenantId(16);
const OTHER: TenantId = TenantId(17);
/// Far more than any of the tests' waits takes where it ends.
const TURNS_MAX: usize = 100_000;

/// Has more to do until it is stopped, 20 us at a time.
#[derive(Clone, Default)]
struct Busy {
    polls: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Busy {
    async fn run(self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.polls.fetch_add(1, Ordering::Relaxed);
            while poll_elapsed() < Nanos::from_micros(20) {}
            yield_now().await;
        }
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }
}

/// Turns until a task was polled so often again.
fn turn_until_polled(worker: &mut Worker, busy: &Busy, polls: usize) {
    let until = busy.polls() + polls;
    for _ in 0..TURNS_MAX {
        if busy.polls() >= until {
            return;
        }
        worker.turn(Some(Nanos::from_millis(1))).unwrap();
    }
    panic!("polled {} times, not {until}", busy.polls());
}

#[test]
fn a_limit_of_processor_time_does_not_hold_upkeep_that_others_wait_for() {
    let world = env::sim::World::new(1);
    let env = world.env();
    let mut worker = Worker::new(&env, WorkerId(0), &Governing::new(1, 1, env.now())).unwrap();
    let handle = worker.handle();
    let promise = CpuPromise { max: Some(MilliCores(10)), ..CpuPromise::default() };
    handle.set_terms(LIMITED, Terms { promise, ..Terms::default() });
    let residence = Residence::new(LIMITED, &handle);
    let (statements, upkeep, other) = (Busy::default(), Busy::default(), Busy::default());
    residence.spawn(statements.clone().run()).detach();
    residence.spawn_upkeep(upkeep.clone().run()).detach();
    handle.spawn(OTHER, other.clone().run()).detach();
    let of_limited = || statements.polls() + upkeep.polls();

    turn_until_polled(&mut worker, &other, 2000);
    assert!(of_limited() < 200, "{} polls under a limit of 0.01", of_limited());

    residence.set_awaited(AwaitedFor::Log, true);
    residence.set_awaited(AwaitedFor::Room, true);
    // Once as it stood there already.
    turn_until_polled(&mut worker, &upkeep, 2);
    residence.set_awaited(AwaitedFor::Room, false);
    let (held, beside) = (statements.polls(), other.polls());
    turn_until_polled(&mut worker, &upkeep, 1000);
    assert_eq!(statements.polls(), held, "its statements are held as ever");
    let beside = other.polls() - beside;
    assert!(beside >= 900, "{beside} polls of another tenant beside 1000 of equal weight");

    // What it took is owed.
    residence.set_awaited(AwaitedFor::Log, false);
    let before = of_limited();
    turn_until_polled(&mut worker, &other, 2000);
    assert!(of_limited() <= before + 20, "{} polls while a debt is paid", of_limited() - before);
    for busy in [&statements, &upkeep, &other] {
        busy.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_call_before_awaited_upkeep_has_a_second_in_a_minute_without_the_limit() {
    let world = env::sim::World::new(1);
    let (env, tick) = (world.env(), Nanos::from_micros(5));
    world.set_speeds(Speeds { tick: Latency { min: tick, max: tick }, ..world.speeds() });
    let mut worker = Worker::new(&env, WorkerId(0), &Governing::new(1, 1, env.now())).unwrap();
    let handle = worker.handle();
    let promise = CpuPromise { max: Some(MilliCores(10)), ..CpuPromise::default() };
    handle.set_terms(LIMITED, Terms { promise, ..Terms::default() });
    let residence = Residence::new(LIMITED, &handle);
    let (upkeep, other, stop) = (Busy::default(), Busy::default(), Arc::new(AtomicBool::new(false)));
    let (mine, stopped) = (residence.clone(), stop.clone());
    let call = async move {
        let used = Arc::default();
        let body = || {
            while !stopped.load(Ordering::Relaxed) {
                preemption_point(|| {}, || {});
            }
        };
        // SAFETY: the test's tasks are not leaked.
        unsafe { preemptible(&mine, &used, body) }.await;
    };
    residence.spawn(call).detach();
    handle.spawn(OTHER, other.clone().run()).detach();
    turn_until_polled(&mut worker, &other, 500);
    residence.set_awaited(AwaitedFor::Log, true);
    residence.spawn_upkeep(upkeep.clone().run()).detach();
    let before = handle.account(LIMITED).used();
    let until = env.now() + Nanos::from_secs(6);
    while env.now() < until {
        worker.turn(Some(Nanos::from_millis(1))).unwrap();
    }
    let took = handle.account(LIMITED).used() - before;
    assert_eq!(upkeep.polls(), 0, "it would have run the call to its end");
    let millis = Nanos::from_millis;
    assert!(
        took >= millis(990) && took <= millis(1_500),
        "{took:?} of six seconds, a hundredth of which it may have"
    );
    // Once it has ended, the upkeep has what it wants.
    stop.store(true, Ordering::Relaxed);
    turn_until_polled(&mut worker, &upkeep, 1000);
    for busy in [&upkeep, &other] {
        busy.stop.store(true, Ordering::Relaxed);
    }
}
