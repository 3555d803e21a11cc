//! Clients at work: threads of the demo's own, each with a share of the clients, and a handle on each client.
//!
//! A client works until its handle is dropped. One that fails tells why, waits, and connects again; it waits longer each time, until it has
//! done something again.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::{Env, JoinHandle};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;
use workloads::load::Live;
use workloads::target::Target;

use crate::load::Load;

/// What a client that failed waits before it connects again: the first time, and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What the clients of a tenant did, and how they are.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) live: Live,
    /// Clients that failed last, and did nothing since.
    failing: AtomicUsize,
    last_error: Mutex<String>,
}

impl Counted {
    pub(crate) fn new() -> Arc<Counted> {
        Arc::new(Counted {
            live: Live::with_coarse_latencies(),
            failing: AtomicUsize::new(0),
            last_error: Mutex::default(),
        })
    }

    /// What a client that fails at the moment fails by; `None` if none does.
    pub(crate) fn error(&self) -> Option<String> {
        if self.failing.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Whether one client fails, as its tenant's counters have it; counted out when it goes.
struct Health {
    counted: Arc<Counted>,
    is_failing: AtomicBool,
}

impl Health {
    fn failed(&self, why: String) {
        *self.counted.last_error.lock().unwrap_or_else(PoisonError::into_inner) = why;
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            self.counted.failing.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn works(&self) {
        if self.is_failing.load(Ordering::Relaxed) && self.is_failing.swap(false, Ordering::Relaxed) {
            self.counted.failing.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.works();
    }
}

/// A client to be.
pub(crate) struct Job {
    pub(crate) load: Load,
    /// Its one database is the tenant's.
    pub(crate) target: Target,
    /// Among the tenant's clients, from 0.
    pub(crate) number: u32,
    pub(crate) seed: u64,
    pub(crate) rate: watch::Receiver<Option<f64>>,
    pub(crate) counted: Arc<Counted>,
}

/// A client that works until this is dropped.
#[derive(Debug)]
pub(crate) struct Working {
    _until_dropped: oneshot::Sender<Infallible>,
}

type Order = (Job, oneshot::Receiver<Infallible>);

/// The threads. Dropped, they end as soon as all their clients were told to.
pub(crate) struct Crew {
    threads: Vec<(mpsc::UnboundedSender<Order>, JoinHandle)>,
}

impl Crew {
    /// Starts so many threads.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(crate) fn start(env: &Env, threads: usize) -> io::Result<Crew> {
        assert!(threads > 0, "somebody has to work");
        let start = |number: usize| {
            // Bounded by the clients that groups may have, all of which it takes at once.
            let (orders, jobs) = mpsc::unbounded_channel();
            let body = move || take_jobs(jobs);
            Ok((orders, env.threads.spawn(&format!("load-{number}"), None, Box::new(body))?))
        };
        Ok(Crew { threads: (0..threads).map(start).collect::<io::Result<_>>()? })
    }

    /// Puts a client to work; a tenant's clients are all on one thread.
    pub(crate) fn engage(&self, tenant: u32, job: Job) -> Working {
        let (until_dropped, stop) = oneshot::channel();
        let (orders, _) = &self.threads[tenant as usize % self.threads.len()];
        // A thread that ended has panicked, which its end tells.
        let _ = orders.send((job, stop));
        Working { _until_dropped: until_dropped }
    }

    /// Waits for the threads' end, when every [`Working`] was dropped.
    pub(crate) fn join(self) {
        let (orders, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        drop(orders);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the scenarios' clients panicked");
            }
        }
    }
}

fn take_jobs(mut jobs: mpsc::UnboundedReceiver<Order>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        while let Some((job, stop)) = jobs.recv().await {
            tokio::task::spawn_local(async move {
                tokio::select! {
                    biased;
                    _ = stop => {}
                    never = work(job) => match never {},
                }
            });
        }
    });
    // What is left of clients hangs up here.
}

async fn work(job: Job) -> Infallible {
    let Job { load, target, number, seed, rate, counted } = job;
    let health = Health { counted, is_failing: AtomicBool::new(false) };
    let mut wait = RETRY_MIN;
    loop {
        let mut has_worked = false;
        let outcome = load
            .work(&target, number, seed, rate.clone(), |latency| {
                health.works();
                health.counted.live.record(latency);
                has_worked = true;
            })
            .await;
        match outcome {
            Err(error) => health.failed(workloads::explain(&error)),
            // Nobody steers it any more: it is about to be dropped.
            Ok(()) => std::future::pending().await,
        }
        wait = if has_worked { RETRY_MIN } else { (wait * 2).min(RETRY_MAX) };
        tokio::time::sleep(wait).await;
    }
}
