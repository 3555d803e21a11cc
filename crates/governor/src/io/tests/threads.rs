//! Several threads at once on one volume: no place too many, none lost, and nobody sleeps while there is one for him.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use base::{ByteCount, Nanos};

use crate::fixture::{Draws, tenant_id};
use crate::io::{IoCost, IoQueue, IoVolume, Next, Submitted};
use crate::promise::IoPromise;
use base::IoClass;

const WORKERS: usize = 3;
const DEPTH: u32 = 2;
const REQUESTS: u64 = 20_000;

/// A worker's bell: rung by others, waited for by it.
#[derive(Default)]
struct Bell(Mutex<bool>, Condvar);

impl Bell {
    fn ring(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    /// False if nobody rang for far longer than anything takes.
    fn wait(&self, at_most: Duration) -> bool {
        let guard = self.0.lock().unwrap();
        let (mut rung, timeout) = self.1.wait_timeout_while(guard, at_most, |rung| !*rung).unwrap();
        *rung = false;
        !timeout.timed_out()
    }
}

#[test]
fn threads_share_the_places() {
    let volume = IoVolume::new(WORKERS);
    volume.set_depth(NonZeroU32::new(DEPTH));
    for tenant in 0..4 {
        let promise = IoPromise { iops: 1000 * tenant, ..IoPromise::default() };
        volume.set_promise(tenant_id(tenant as usize), &promise, 0, Nanos(0));
    }
    let bells: [Bell; WORKERS] = Default::default();
    // A clock that each look at it moves on; the workers' looks are in its order.
    let clock = AtomicU64::new(1);
    let in_flight = AtomicU64::new(0);
    let stuck = AtomicBool::new(false);
    let work = &|worker: usize| {
        let mut queue = IoQueue::new(&volume, worker);
        let mut draws = Draws(worker as u64);
        let (mut submitted, mut issued) = (0, 0);
        let mut places = Vec::new();
        while issued < REQUESTS {
            let now = Nanos(clock.fetch_add(100, Ordering::SeqCst));
            if submitted < REQUESTS && queue.len() < 8 {
                submitted += 1;
                let tenant = tenant_id(draws.between(0, 3) as usize);
                if let Submitted::Issue(..) =
                    queue.submit(tenant, IoClass::Short, IoCost::of(ByteCount(1)), submitted, now)
                {
                    panic!("promises are in force");
                }
            }
            // Completes what it issued some looks ago.
            if !places.is_empty() && draws.between(0, 2) == 0 {
                in_flight.fetch_sub(1, Ordering::SeqCst);
                queue.completed(places.remove(0));
            }
            match queue.next(now) {
                Next::Issue(_, place) => {
                    assert!(
                        in_flight.fetch_add(1, Ordering::SeqCst) < u64::from(DEPTH),
                        "too many in flight"
                    );
                    issued += 1;
                    places.push(place);
                }
                Next::Wake(other) => bells[other].ring(),
                Next::WaitUntil(at) => {
                    clock.fetch_max(at.0, Ordering::SeqCst);
                }
                Next::Idle if queue.is_empty() || !places.is_empty() => {}
                // Nothing of its own in flight: somebody must wake it.
                Next::Idle => {
                    if !bells[worker].wait(Duration::from_secs(20)) {
                        stuck.store(true, Ordering::SeqCst);
                        return;
                    }
                }
            }
        }
        for place in places {
            in_flight.fetch_sub(1, Ordering::SeqCst);
            queue.completed(place);
        }
        while let Next::Wake(other) = queue.next(Nanos(clock.load(Ordering::SeqCst))) {
            bells[other].ring();
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || work(worker));
        }
    });
    assert!(!stuck.load(Ordering::SeqCst), "a worker waited for a place that was free");
    assert_eq!(volume.in_flight(), 0);
}
