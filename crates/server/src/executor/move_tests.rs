//! A tenant's tasks and cells on two workers, which run on threads of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use base::{Nanos, TenantId, WorkerId};
use env::{Env, JoinHandle};

use super::*;
use crate::pauses::Pauses;

const A: TenantId = TenantId(16);
const B: TenantId = TenantId(17);

/// Workers that turn until they are stopped.
struct Workers {
    handles: Vec<WorkerHandle>,
    threads: Vec<JoinHandle>,
    env: Env,
}

impl Workers {
    fn start(count: u16) -> Workers {
        let env = Env::real();
        let governing = Governing::new(usize::from(count), 1, env.now());
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        for id in 0..count {
            let (governing, (tell, told)) = (governing.clone(), mpsc::channel());
            let body = move || {
                let mut worker = Worker::new(&Env::real(), WorkerId(id), &governing).unwrap();
                tell.send(worker.handle()).unwrap();
                worker.run().unwrap();
            };
            threads.push(env.threads.spawn("worker", None, Box::new(body)).unwrap());
            handles.push(told.recv().unwrap());
        }
        Workers { handles, threads, env }
    }

    /// Moves a tenant, between two polls of its tasks.
    fn make_home(&self, residence: &Arc<Residence>, to: usize) {
        let (residence, to) = (residence.clone(), self.handles[to].clone());
        let from = residence.worker();
        let moved = from.spawn(TenantId::SYSTEM, async move {
            let held = residence.hold();
            yield_now().await;
            held.move_to(&to, Terms::default(), &Arc::new(Pauses::default()), env::now());
        });
        env::block_on(&self.env, moved).expect("a move does not panic");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.handles.iter().for_each(WorkerHandle::stop);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn tasks_go_on_where_their_tenant_is_and_others_stay() {
    let workers = Workers::start(2);
    let residence = Residence::new(A, &workers.handles[0]);
    let cell = Arc::new(HomeCell::new(&residence, 0u64));
    let stop = Arc::new(AtomicBool::new(false));
    let task = |n: u64| {
        let (cell, stop, residence) = (cell.clone(), stop.clone(), residence.clone());
        async move {
            let mut turns = 0;
            while !stop.load(Ordering::Relaxed) {
                // By timers that began on the worker before, by turns, and by each other.
                if n.is_multiple_of(2) {
                    env::sleep(Nanos::from_micros(50)).await
                } else {
                    yield_now().await
                }
                assert!(residence.is_here() && current_tenant() == Some(A));
                cell.with(|count| *count += 1);
                turns += 1;
            }
            turns
        }
    };
    let tasks: Vec<_> = (0..8).map(|n| residence.spawn(task(n))).collect();
    let (stopped, seen) = (stop.clone(), Arc::new(AtomicU64::new(0)));
    let stays = workers.handles[0].spawn(B, async move {
        while !stopped.load(Ordering::Relaxed) {
            assert_eq!(current_worker().map(|worker| worker.id()), Some(WorkerId(0)));
            seen.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    let polled_on = |worker: &WorkerHandle| worker.account_if_known(A).is_some_and(|a| a.polls() > 0);
    let (mut round, begun) = (0, workers.env.now());
    // On a busy machine tasks may have been moved on before a worker came to poll one.
    while round < 200 || !workers.handles.iter().all(|worker| polled_on(worker)) {
        assert!(workers.env.now() - begun < Nanos::from_secs(120), "a worker polls none of its tasks");
        round += 1;
        workers.make_home(&residence, round % 2);
        assert_eq!(usize::from(residence.worker().id().0), round % 2);
    }
    stop.store(true, Ordering::Relaxed);
    let turns: u64 = tasks.into_iter().map(|task| env::block_on(&workers.env, task).expect("no panic")).sum();
    assert!(env::block_on(&workers.env, stays).is_some());
    let (count, home) = (cell.clone(), residence.clone());
    let counted = env::block_on(
        &workers.env,
        residence.spawn(async move {
            assert!(home.is_here());
            count.with(|count| *count)
        }),
    );
    assert_eq!(counted, Some(turns));
}

#[test]
fn held_tasks_stand_still_and_go_on_when_nothing_came_of_the_move() {
    let workers = Workers::start(1);
    let residence = Residence::new(A, &workers.handles[0]);
    let turns = Arc::new(AtomicU64::new(0));
    let (counted, stop) = (turns.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let task = residence.spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            counted.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    let (home, seen) = (residence.clone(), turns.clone());
    let holder = workers.handles[0].spawn(TenantId::SYSTEM, async move {
        while seen.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        let held = home.hold();
        let before = seen.load(Ordering::Relaxed);
        env::sleep(Nanos::from_millis(5)).await;
        assert_eq!(seen.load(Ordering::Relaxed), before);
        drop(held);
        while seen.load(Ordering::Relaxed) == before {
            yield_now().await;
        }
    });
    assert!(env::block_on(&workers.env, holder).is_some());
    stop.store(true, Ordering::Relaxed);
    assert!(env::block_on(&workers.env, task).is_some());
}

#[test]
fn nobody_moves_while_its_state_is_in_use() {
    let workers = Workers::start(2);
    let residence = Residence::new(A, &workers.handles[0]);
    let cell = HomeCell::new(&residence, 1);
    let (home, to) = (residence.clone(), workers.handles[1].clone());
    let moved = workers.handles[0].spawn(TenantId::SYSTEM, async move {
        let held = home.hold();
        cell.with(|_| held.move_to(&to, Terms::default(), &Arc::new(Pauses::default()), env::now()));
    });
    assert_eq!(env::block_on(&workers.env, moved), None, "it panics");
    assert_eq!(residence.worker().id(), WorkerId(0));
}

#[test]
fn tasks_end_with_the_worker_they_have_moved_to() {
    struct Ended(Arc<AtomicU64>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let ended = Arc::new(AtomicU64::new(0));
    let workers = Workers::start(2);
    let residence = Residence::new(A, &workers.handles[0]);
    for is_polled_there in [false, true] {
        let (ends, begun) = (Ended(ended.clone()), Arc::new(AtomicU64::new(0)));
        let polled = begun.clone();
        residence
            .spawn(async move {
                let _ends = ends;
                loop {
                    polled.fetch_add(1, Ordering::Relaxed);
                    if is_polled_there { yield_now().await } else { std::future::pending::<()>().await }
                }
            })
            .detach();
        while begun.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
    }
    workers.make_home(&residence, 1);
    drop(workers);
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}
