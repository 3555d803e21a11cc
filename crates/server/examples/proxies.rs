//! What analytical threads cost a worker: three proxies spin on its core while a task sleeps and wakes.
//!
//! `cargo run --release -p server --example proxies [seconds]` prints how late the task wakes and what each proxy got.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use base::{Nanos, TenantId, WorkerId};
use env::Env;
use server::executor::{Background, Governing, Proxy, Worker};

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |text| text.parse::<u64>().expect("a number"));
    let env = Env::real();
    let core = env.threads.cores()[0];
    let (to, from) = channel();
    let inner = env.clone();
    let body = move || {
        let mut worker =
            Worker::new(&inner, WorkerId(0), &Governing::new(1, 1, inner.now())).expect("a worker");
        if let Err(error) = worker.claim_priority() {
            println!("no worker priority: {error}");
        }
        to.send(worker.handle()).expect("main waits");
        worker.run().expect("the ring turns");
    };
    env.threads.spawn("worker", Some(core), Box::new(body)).expect("a thread");
    let worker = from.recv().expect("the worker starts");
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|i| {
            let (inner, worker, stop) = (env.clone(), worker.clone(), stop.clone());
            let body = move || {
                let _proxy = Proxy::enter(
                    &inner,
                    &worker,
                    TenantId(20 + i),
                    false,
                    &Arc::default(),
                    &Background::default(),
                );
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            env.threads.spawn("analytic", Some(core), Box::new(body)).expect("a thread")
        })
        .collect();
    let rounds = worker.spawn(TenantId(16), async move {
        let end = env::now() + Nanos::from_secs(seconds);
        let mut late = Vec::new();
        while env::now() < end {
            let due = env::now() + Nanos::from_micros(730);
            env::sleep_until(due).await;
            late.push((env::now() - due).0 / 1000);
        }
        late.sort_unstable();
        late
    });
    let late = env::block_on(&env, rounds).expect("the task ends");
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    env::block_on(&env, env::sleep(Nanos::from_millis(5)));
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize];
    println!(
        "{} wake-ups: late by {} µs at the median, {} at p99, {} at p99.9, {} at most",
        late.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    let mut accounts = worker.accounts();
    accounts.sort_by_key(|account| account.tenant());
    for account in accounts {
        println!("tenant {}: {:.1} ms", account.tenant(), account.used().0 as f64 / 1e6);
    }
}
