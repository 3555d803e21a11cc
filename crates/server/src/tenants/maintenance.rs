//! What each worker does for its tenants by itself: checkpoints when enough was logged or time passed, letting go of what long
//! transactions replaced, giving back the space of what was dropped, closing what is unused, and at the end a checkpoint of everything.
//!
//! One task a worker looks at its open tenants once a second, so closed ones cost nothing. What takes more than a look is a task of the tenant,
//! and those go on side by side: what a tenant may read, write and compute a second holds up its own.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ByteCount, Nanos, TenantId, WorkerId};
use env::Env;
use futures::FutureExt;
use futures::channel::oneshot;
use rustc_hash::FxHashMap;
use storage::redo::{LogDir, RedoError, RedoIndex};

use super::Home;
use super::checkpoints::Pace;
use super::side_by_side::SideBySide;
use crate::executor::{self, WorkerHandle};
use crate::shared::Shared;

const TICK: Nanos = Nanos::from_secs(1);
/// The part of the log's limit that one tenant may have logged since its last checkpoint.
const TENANT_LOG_PART: u64 = 4;

/// The part of a tenant's `storage_max` that it may have logged since its last checkpoint: its log counts towards that.
const TENANT_SPACE_PART: u64 = 16;

/// For how long a tenant gives back pages of what was dropped before it is looked whether a checkpoint is due: of a large table that takes hours.
const RECLAIM_TIME: Nanos = Nanos::from_secs(5);

/// Pages given back at which a checkpoint is due, 2 GiB: they can be used again, and are a list of some 36 bytes each that is nobody's.
const GIVEN_BACK_MAX: u64 = 1 << 18;

/// For how long what a tenant dropped is not given back after a look at it has panicked: that closes the tenant, and may be so each time.
const PANICKED_PAUSE: Nanos = Nanos::from_secs(60);

/// Readings of logs that are being written before what looks like damage is taken for it.
const READS_OF_LOGS: usize = 5;

/// Looks after the tenants of worker `index` until the worker stops.
pub(crate) async fn maintain(shared: Arc<Shared>, index: usize) {
    let mut tended = SideBySide::default();
    let given_up = GivenUp::default();
    loop {
        env::sleep(TICK).await;
        for home in shared.workers[index].open_homes() {
            // A look takes a microsecond or two, and there may be thousands.
            if executor::poll_elapsed() >= executor::TURN_MAX {
                executor::yield_now().await;
            }
            // Who has just moved is looked after where it is now.
            if !home.is_here() {
                continue;
            }
            // A long call is not run to its end for this: a task of the tenant's own looks when it has ended.
            let is_later = home.is_in_a_call();
            let (is_tended, now) = (tended.has(home.id()), env::now());
            let gives_back = !given_up.has(home.id(), now);
            let look = || {
                if !is_later {
                    home.look_at_space();
                }
                !is_tended && (is_later || needs_tending(&shared, &home, gives_back, now))
            };
            match alone(home.id(), look) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    given_up.note(home.id(), now);
                    continue;
                }
            }
            let begin = || {
                let (tended, shared, given_up) = (home.clone(), shared.clone(), given_up.clone());
                // Upkeep: a checkpoint that others wait for waits for what is let go of here.
                home.residence().spawn_upkeep(async move {
                    let look = async {
                        if is_later {
                            tended.look_at_space();
                            if !needs_tending(&shared, &tended, gives_back, env::now()) {
                                return;
                            }
                        }
                        tend(&shared, &tended, gives_back).await;
                    };
                    given_up.noting(tended.id(), now, look).await;
                })
            };
            tended.begin(home.id(), begin).await;
        }
    }
}

/// Tenants of which a look has panicked, in its turn or in a task of theirs, and until when they are given nothing back.
#[derive(Clone, Default)]
struct GivenUp(Arc<Mutex<FxHashMap<TenantId, Nanos>>>);

impl GivenUp {
    fn has(&self, tenant: TenantId, now: Nanos) -> bool {
        self.lock().get(&tenant).is_some_and(|until| now < *until)
    }

    fn note(&self, tenant: TenantId, now: Nanos) {
        self.lock().insert(tenant, now + PANICKED_PAUSE);
    }

    /// Goes through with a tenant's task that began at `now`, and notes it if that panics, as it does then.
    async fn noting(&self, tenant: TenantId, now: Nanos, task: impl Future<Output = ()>) {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            self.note(tenant, now);
            resume_unwind(panic)
        }
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `look` says of a tenant; `None` if it panics, which is that tenant's alone: it would end the looks at all others of the worker.
fn alone<T>(tenant: TenantId, look: impl FnOnce() -> T) -> Option<T> {
    let looked = catch_unwind(AssertUnwindSafe(look)).inspect_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        tracing::error!(tenant = tenant.0, panic = text.unwrap_or("?"), "looking after a tenant panicked");
    });
    looked.ok()
}

/// Looks at a tenant in this turn of its home; true if something takes more than that.
fn needs_tending(shared: &Shared, home: &Arc<Home>, gives_back: bool, now: Nanos) -> bool {
    gives_back && home.reclaim_some()
        || home.has_to_settle()
        || needs_checkpoint(shared, home, now)
        || may_be_closed(shared, home, now)
}

fn needs_checkpoint(shared: &Shared, home: &Arc<Home>, now: Nanos) -> bool {
    let config = &shared.config;
    let Some((logged, checkpointed_at)) = home.since_checkpoint() else { return false };
    let given_back = home.given_back();
    let old =
        (logged > ByteCount(0) || given_back > 0) && now - checkpointed_at >= config.checkpoint_interval;
    let of_space = home.storage_max().is_some_and(|max| logged.0 >= max.0 / TENANT_SPACE_PART);
    let much = logged.0 >= config.log_limit.0 / TENANT_LOG_PART || given_back >= GIVEN_BACK_MAX;
    much || of_space || old || home.is_refusing()
}

fn may_be_closed(shared: &Shared, home: &Arc<Home>, now: Nanos) -> bool {
    home.id() != TenantId::SYSTEM && home.is_unused(shared, now - shared.config.tenant_close_after)
}

/// As a task of the tenant.
async fn tend(shared: &Shared, home: &Arc<Home>, gives_back: bool) {
    home.settle().await;
    let all_given_back = !gives_back || home.reclaim(env::now() + RECLAIM_TIME).await;
    let now = env::now();
    if needs_checkpoint(shared, home, now) {
        // A failure is logged where it happens; the next tick tries again.
        let _ = home.checkpoint(Pace::Spread).await;
    }
    if all_given_back && may_be_closed(shared, home, now) {
        home.close_if_unused(now - shared.config.tenant_close_after).await;
    }
}

/// Has every open tenant of a worker whose log failed and is sealed forget what is in memory, which may be more than is
/// durable. Reads all logs first; after that no turn passes to others until it returns. At home only.
pub(crate) async fn forget_lost(shared: &Arc<Shared>, worker: WorkerId) -> Result<(), RedoError> {
    let redo = read_aside(shared, LogDir::read_again).await?;
    for home in shared.workers[usize::from(worker.0)].open_homes() {
        // One that is just coming here has nothing in this log.
        if home.is_here() {
            home.forget_lost(redo.clone());
        }
    }
    Ok(())
}

/// What the logs hold now. A log that is being written while it is read may seem to have a hole, so damage counts when it is
/// found again.
fn read_logs(read: impl Fn() -> Result<RedoIndex, RedoError>) -> Result<RedoIndex, RedoError> {
    for _ in 1..READS_OF_LOGS {
        match read() {
            Err(RedoError::Corrupt(_)) => {}
            other => return other,
        }
    }
    read()
}

/// What the logs hold of a tenant that is not open, and maybe of others. They are read for one tenant at a time: that may serve the next one.
pub(super) async fn read_logs_for(shared: &Shared, tenant: TenantId) -> Result<RedoIndex, RedoError> {
    if let Some(known) = shared.log_dir.known_of(tenant) {
        return Ok(known);
    }
    let reading = shared.log_reading.clone();
    let read = move |logs: &LogDir| {
        let _alone = reading.lock().unwrap_or_else(PoisonError::into_inner);
        logs.read_again_for(tenant)
    };
    read_aside(shared, read).await
}

/// Reads the logs on a thread of its own: a gigabyte takes a second.
async fn read_aside(
    shared: &Shared,
    read: impl Fn(&LogDir) -> Result<RedoIndex, RedoError> + Send + 'static,
) -> Result<RedoIndex, RedoError> {
    let logs = shared.log_dir.clone();
    let reading = move || read_logs(|| read(&logs));
    let done = aside(&shared.env, &shared.workers[0].handle, "read-logs", reading).await;
    done.unwrap_or_else(|error| {
        Err(RedoError::Io { file: shared.config.log_dir(), doing: "reading the logs", error })
    })
}

/// What `work` gives, done on a thread of its own, which the server's own tenant is charged for through `charged`. It goes on to its end, whoever still waits for it.
///
/// # Errors
/// No thread can be had, or it has ended by a panic.
pub(super) async fn aside<T: Send + 'static>(
    env: &Env,
    charged: &WorkerHandle,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = oneshot::channel();
    let (clock, charged) = (env.clock.clone(), charged.clone());
    let body = move || {
        let began = clock.thread_cpu();
        let outcome = work();
        charged.charge(TenantId::SYSTEM, clock.thread_cpu() - began);
        // Whoever asked may be gone.
        drop(tell.send(outcome));
    };
    env.threads.spawn(name, None, Box::new(body))?;
    told.await.map_err(|_| io::Error::other("its thread has ended"))
}

/// Checkpoints every open tenant of worker `index`, some at a time: most of what each takes is waiting for its own file.
pub(crate) async fn shut_down(shared: Arc<Shared>, index: usize) {
    let mut ending = SideBySide::default();
    for home in shared.workers[index].open_homes() {
        let begin = || {
            let last = home.clone();
            home.spawn(async move {
                last.hurry_checkpoint();
                last.checkpoint_ended().await;
                // A failure is logged where it happens.
                let _ = last.checkpoint(Pace::Now).await;
            })
        };
        ending.begin(home.id(), begin).await;
    }
    ending.all_ended().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Governing, Worker};

    #[test]
    fn a_look_that_panics_is_its_tenants_alone() {
        let looks: Vec<Option<u64>> = (16..19)
            .map(|id| {
                alone(TenantId(id), || if id == 17 { panic!("the test asked for a panic") } else { id })
            })
            .collect();
        assert_eq!(looks, [Some(16), None, Some(18)]);
    }

    #[test]
    fn what_panics_in_a_task_of_its_tenants_is_left_alone_for_a_while_too() {
        let (given_up, [id, other]) = (GivenUp::default(), [16, 17].map(TenantId));
        let now = Nanos::from_secs(7);
        given_up.noting(other, now, async {}).now_or_never().expect("it waits for nothing");
        let panics = async { assert!(given_up.has(id, now), "the test asked for a panic") };
        let ended = AssertUnwindSafe(given_up.noting(id, now, panics)).catch_unwind().now_or_never();
        assert!(ended.is_some_and(|ended| ended.is_err()));
        assert!(given_up.has(id, now + Nanos::from_secs(59)) && !given_up.has(other, now));
        assert!(!given_up.has(id, now + PANICKED_PAUSE));
    }

    #[test]
    fn what_is_done_aside_is_the_servers_own() {
        let (env, took) = (Env::real(), Nanos::from_millis(20));
        let mut worker = Worker::new(&env, WorkerId(0), &Governing::new(1, 1, env.now())).unwrap();
        let clock = env.clock.clone();
        let work = move || {
            let began = clock.thread_cpu();
            while clock.thread_cpu() - began < took {}
            7
        };
        let handle = worker.handle();
        assert_eq!(env::block_on(&env, aside(&env, &handle, "aside", work)).unwrap(), 7);
        worker.turn(Some(Nanos(0))).unwrap();
        assert!(handle.account(TenantId::SYSTEM).used() >= took);
    }
}
