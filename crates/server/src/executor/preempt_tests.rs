//! Calls that are suspended in the middle, on one worker that suspends them wherever it can.

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use base::{Nanos, TenantId, WorkerId};
use env::Env;
use governor::{CpuPromise, MilliCores};

use super::preempt::SUSPENDED_MAX;
use super::*;

const A: TenantId = TenantId(16);
const B: TenantId = TenantId(17);

/// Steps that take longer than a turn polls, being suspended after each.
const MORE_THAN_A_TURN: u32 = 20_000;

fn spin(duration: Duration) {
    let until = Instant::now() + duration;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

async fn at_length<R: Send + 'static>(residence: &Residence, body: impl FnOnce() -> R) -> R {
    let used = Arc::default();
    // SAFETY: the tests' tasks are not leaked.
    unsafe { preemptible(residence, &used, body) }.await
}

struct Stage {
    worker: Worker,
    residence: Arc<Residence>,
    /// What the calls of A change.
    cell: Arc<HomeCell<Vec<u32>>>,
}

impl Stage {
    fn new(turn_max: Nanos) -> Stage {
        let env = Env::real();
        let governing = Governing { turn_max, ..Governing::new(1, 1, env.now()) };
        let worker = Worker::new(&env, WorkerId(0), &governing).unwrap();
        let residence = Residence::new(A, &worker.handle());
        let cell = Arc::new(HomeCell::new(&residence, Vec::new()));
        Stage { worker, residence, cell }
    }

    /// A task of A whose call notes each of its steps, and whether it could be suspended between them.
    fn call(&self, steps: std::ops::Range<u32>, end: fn()) -> impl Future<Output = usize> + Send + 'static {
        let (residence, cell) = (self.residence.clone(), self.cell.clone());
        async move {
            let body = || {
                cell.with(|noted| {
                    for step in steps {
                        noted.push(step);
                        preemption_point(|| {}, || {});
                    }
                    end();
                    noted.len()
                })
            };
            at_length(&residence, body).await
        }
    }

    fn turn_until(&mut self, mut done: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !done() {
            assert!(Instant::now() < until, "still not done after ten seconds");
            self.worker.turn(Some(Nanos::from_millis(1))).unwrap();
        }
    }

    fn noted(&self) -> Vec<u32> {
        self.worker.enter(|| self.cell.with(|noted| noted.clone()))
    }
}

#[test]
fn others_have_their_turns_while_a_call_is_half_way() {
    let mut stage = Stage::new(Nanos(0));
    let steps = Arc::new(AtomicU64::new(0));
    let (mine, residence) = (steps.clone(), stage.residence.clone());
    let long = stage.residence.spawn(async move {
        // Ends only if B is polled between two of its steps.
        let body = || {
            while mine.load(Ordering::Relaxed) < 3 {
                preemption_point(|| {}, || {})
            }
        };
        at_length(&residence, body).await
    });
    let others = steps.clone();
    let short = stage.worker.handle().spawn(B, async move {
        for _ in 0..3 {
            others.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    stage.turn_until(|| long.is_finished() && short.is_finished());
    assert_eq!(env::block_on(&Env::real(), long), Some(()));
}

#[test]
fn a_call_is_not_suspended_before_its_turn_is_over() {
    let mut stage = Stage::new(Nanos::from_secs(1000));
    let task = stage.residence.spawn(stage.call(0..100, || {}));
    stage.worker.turn(Some(Nanos(0))).unwrap();
    assert!(task.is_finished(), "one poll sufficed");
}

/// How often a call of half a millisecond is suspended, in a turn without an end, when another tenant has just fallen asleep.
fn suspensions_after_a_sleep(reserved: MilliCores) -> u32 {
    let mut stage = Stage::new(Nanos::from_secs(1000));
    let handle = stage.worker.handle();
    let promise = CpuPromise { reserved, ..CpuPromise::default() };
    handle.set_terms(B, Terms { promise, ..Terms::default() });
    handle.spawn(B, env::sleep(Nanos::from_secs(1000))).detach();
    let residence = stage.residence.clone();
    let long = stage.residence.spawn(async move {
        let body = || {
            let suspended = Cell::new(0);
            for _ in 0..5 {
                spin(Duration::from_micros(110));
                preemption_point(|| suspended.set(suspended.get() + 1), || {});
            }
            suspended.get()
        };
        at_length(&residence, body).await
    });
    stage.turn_until(|| long.is_finished());
    env::block_on(&Env::real(), long).unwrap()
}

#[test]
fn a_call_gives_way_early_where_who_was_promised_time_is_due() {
    // Whatever else the machine does, some call follows at once upon the sleep.
    assert!((0..200).any(|_| suspensions_after_a_sleep(MilliCores(1000)) > 0));
    assert!((0..20).all(|_| suspensions_after_a_sleep(MilliCores(0)) == 0), "nobody owes it");
}

#[test]
fn its_tenants_other_tasks_wait_for_its_end() {
    let mut stage = Stage::new(Nanos(0));
    let first = stage.residence.spawn(stage.call(0..20, || {}));
    let second = stage.residence.spawn(stage.call(100..103, || {}));
    stage.turn_until(|| first.is_finished() && second.is_finished());
    let expected: Vec<u32> = (0..20).chain(100..103).collect();
    assert_eq!(stage.noted(), expected, "no step of the second came between two of the first");
}

#[test]
fn who_uses_the_tenants_state_meanwhile_finds_the_call_at_its_end_and_does_not_pay_for_it() {
    let mut stage = Stage::new(Nanos(0));
    let task = stage.residence.spawn(stage.call(0..3, || spin(Duration::from_millis(30))));
    let cell = stage.cell.clone();
    let visitor = stage.worker.handle().spawn(B, async move { cell.with(|noted| noted.clone()) });
    stage.turn_until(|| task.is_finished() && visitor.is_finished());
    let seen = env::block_on(&Env::real(), visitor).unwrap();
    assert!(seen.is_empty() || seen == [0, 1, 2], "seen half-way: {seen:?}");
    assert_eq!(env::block_on(&Env::real(), task), Some(3));
    let handle = stage.worker.handle();
    let (of_a, of_b) = (handle.account(A).used(), handle.account(B).used());
    assert!(of_a > of_b, "{of_a:?} of A, {of_b:?} of B");
}

#[test]
fn a_suspended_call_goes_on_before_its_tenants_other_work_even_as_background_work() {
    let mut stage = Stage::new(Nanos(0));
    let background = Background::default();
    background.set(true);
    let first = stage.residence.spawn_with(background, stage.call(0..MORE_THAN_A_TURN, || {}));
    // Half-way.
    stage.worker.turn(Some(Nanos(0))).unwrap();
    assert!(!first.is_finished());
    let after = MORE_THAN_A_TURN..MORE_THAN_A_TURN + 3;
    let second = stage.residence.spawn(stage.call(after.clone(), || {}));
    stage.turn_until(|| first.is_finished() && second.is_finished());
    assert_eq!(stage.noted(), (0..after.end).collect::<Vec<u32>>());
    let suspended = stage.worker.enter(suspensions);
    assert!(suspended >= u64::from(MORE_THAN_A_TURN), "run to its end by another after {suspended} steps");
}

#[test]
fn what_a_finished_call_took_is_its_tasks_and_not_the_visitors() {
    let mut stage = Stage::new(Nanos(0));
    let (mine, theirs) = (Arc::new(TaskUse::default()), Arc::new(TaskUse::default()));
    let (residence, cell, used) = (stage.residence.clone(), stage.cell.clone(), mine.clone());
    let long = async move {
        let body = || {
            cell.with(|noted| {
                preemption_point(|| {}, || {});
                // Only the visitor lets it go on so soon. By the thread's own clock: others may have the core meanwhile.
                let clock = Env::real().clock;
                let until = clock.thread_cpu() + Nanos::from_millis(40);
                while clock.thread_cpu() < until {}
                noted.push(1);
            })
        };
        // SAFETY: the task is not leaked.
        unsafe { preemptible(&residence, &used, body) }.await
    };
    // The visitor stands in the inbox, so that it has its turn while the call is suspended.
    let task = stage.residence.spawn(Noted::new(&mine, long));
    let cell = stage.cell.clone();
    let visitor = Noted::new(&theirs, async move { cell.with(|noted| noted.len()) });
    let visitor = stage.worker.handle().spawn(B, visitor);
    stage.turn_until(|| task.is_finished() && visitor.is_finished());
    let reader = |used: &Arc<TaskUse>| stage.worker.enter(|| used.taken().0);
    let (of_call, of_visitor) = (reader(&mine), reader(&theirs));
    assert!(of_call >= Nanos::from_millis(20), "the call took {of_call:?}");
    assert!(of_visitor < Nanos::from_millis(20), "the visitor took {of_visitor:?}");
}

#[test]
fn a_panic_is_its_tasks_own() {
    let mut stage = Stage::new(Nanos(0));
    let task = stage.residence.spawn(stage.call(0..3, || panic!("of the call")));
    let cell = stage.cell.clone();
    let visitor = stage.worker.handle().spawn(B, async move { cell.with(|noted| noted.len()) });
    stage.turn_until(|| task.is_finished() && visitor.is_finished());
    assert_eq!(env::block_on(&Env::real(), task), None);
    assert!(env::block_on(&Env::real(), visitor).is_some());
    assert_eq!(stage.noted(), [0, 1, 2]);
    // The worker goes on.
    let next = stage.residence.spawn(stage.call(3..4, || {}));
    stage.turn_until(|| next.is_finished());
}

#[test]
fn a_call_that_is_dropped_half_way_runs_to_its_end() {
    let stage = Stage::new(Nanos(0));
    let task = stage.residence.spawn(stage.call(0..MORE_THAN_A_TURN, || {}));
    let Stage { mut worker, cell, .. } = stage;
    worker.turn(Some(Nanos(0))).unwrap();
    assert!(!task.is_finished());
    drop(worker);
    drop(task);
    let noted = Arc::try_unwrap(cell).ok().expect("the task is gone and its call with it").into_inner();
    assert_eq!(noted.len(), MORE_THAN_A_TURN as usize);
}

#[test]
fn a_held_tenant_has_no_call_half_way() {
    let mut stage = Stage::new(Nanos(0));
    let task = stage.residence.spawn(stage.call(0..MORE_THAN_A_TURN, || {}));
    stage.worker.turn(Some(Nanos(0))).unwrap();
    assert!(!task.is_finished());
    let (residence, cell) = (stage.residence.clone(), stage.cell.clone());
    let holder = stage.worker.handle().spawn(TenantId::SYSTEM, async move {
        let held = residence.hold();
        let noted = cell.with(|noted| noted.len());
        yield_now().await;
        drop(held);
        noted
    });
    stage.turn_until(|| task.is_finished() && holder.is_finished());
    assert_eq!(env::block_on(&Env::real(), holder), Some(MORE_THAN_A_TURN as usize));
}

/// How often a call of each of so many tenants is suspended that could be ten times, all at once.
fn suspended_of(tenants: usize) -> Vec<i32> {
    let mut stage = Stage::new(Nanos(0));
    let ids = (100..).map(TenantId).take(tenants);
    let homes: Vec<_> = ids.map(|id| Residence::new(id, &stage.worker.handle())).collect();
    let tasks: Vec<_> = homes
        .iter()
        .map(|residence| {
            let mine = residence.clone();
            residence.spawn(async move {
                let body = || {
                    let suspended = Cell::new(0);
                    for _ in 0..10 {
                        preemption_point(|| suspended.set(suspended.get() + 1), || {});
                    }
                    suspended.get()
                };
                at_length(&mine, body).await
            })
        })
        .collect();
    stage.turn_until(|| tasks.iter().all(TaskHandle::is_finished));
    tasks.into_iter().map(|task| env::block_on(&Env::real(), task).unwrap()).collect()
}

#[test]
fn long_statements_of_hundreds_of_tenants_give_way_to_others() {
    assert!(suspended_of(SUSPENDED_MAX - 1).iter().all(|times| *times == 10));
    const { assert!(SUSPENDED_MAX > 1_000) };
}

#[test]
fn calls_beyond_the_bound_keep_their_turns() {
    let all = SUSPENDED_MAX + 100;
    let suspended = suspended_of(all);
    assert!(suspended.iter().all(|times| *times == 10 || *times == 0), "{suspended:?}");
    let at_length = suspended.iter().filter(|times| **times == 10).count();
    assert!((SUSPENDED_MAX * 3 / 4..all).contains(&at_length), "{at_length} of {all}: {suspended:?}");
}

#[test]
fn after_long_polls_the_next_flush_starts_before_the_next_polls() {
    #[derive(Default)]
    struct Log {
        gathering: bool,
        may_start: bool,
        flusher: Option<Waker>,
        events: Vec<&'static str>,
    }
    let mut stage = Stage::new(TURN_MAX);
    let log = Arc::new(Mutex::new(Log::default()));
    let (at_end, flushed, appends) = (log.clone(), log.clone(), log.clone());
    let end_turn = move || {
        let mut log = at_end.lock().unwrap();
        if log.gathering
            && let Some(flusher) = log.flusher.take()
        {
            log.may_start = true;
            flusher.wake();
        }
    };
    let flush = async move {
        loop {
            std::future::poll_fn(|cx| {
                let mut log = flushed.lock().unwrap();
                if std::mem::take(&mut log.may_start) {
                    (log.gathering, log.flusher) = (false, None);
                    log.events.push("flush");
                    return Poll::Ready(());
                }
                log.flusher = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            env::sleep(Nanos::from_millis(1)).await;
        }
    };
    stage.worker.set_flusher(end_turn, flush);
    let task = stage.worker.handle().spawn(A, async move {
        for _ in 0..4 {
            {
                let mut log = appends.lock().unwrap();
                log.gathering = true;
                log.events.push("poll");
            }
            spin(Duration::from_millis(3));
            yield_now().await;
        }
    });
    stage.turn_until(|| task.is_finished());
    assert_eq!(log.lock().unwrap().events[..6], ["poll", "flush", "poll", "flush", "poll", "flush"]);
}
