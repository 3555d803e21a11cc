//! Threads for analytical queries, a few for each worker, in its run queue as proxies.
//!
//! A job waits for its tenant's turn on its worker ([`turns`], [`looks`]); a thread takes it, stands in the run queue for the job's tenant while it
//! computes and leaves it while it waits. What it has to say goes through a bounded [`channel`] to the session's task; while the client does
//! not read, the thread stands still and others have its place ([`place`]). A job whose session is gone, or cancelled it, is told by a flag,
//! which the engine looks at between batches.

mod channel;
mod idlest;
mod looks;
mod place;
mod turns;

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, SqlError, SqlResult, SqlState, TenantId};
use env::{Condition, Env, JoinHandle};
use sql::session::{AnalyticEvent, AnalyticRequest, QueryControl};

use channel::Channel;
pub(crate) use channel::{Events, QueryMeter};
use idlest::Loads;
use looks::Looks;
use place::{Kind, LimitWait, Place};
use turns::Turns;

use crate::executor::{Background, Haste, IoGoverning, LimitWaits, Proxy, WorkerHandle, WorkerPermits};
use crate::work_memory::ServerWorkMemory;

/// The engine of analytical queries: runs one to its end on the calling thread, telling of every event. It stops when
/// told `false`, and soon after it is cancelled, and stands still while it is held.
pub type AnalyticRun = fn(AnalyticRequest, &QueryControl, &mut dyn FnMut(AnalyticEvent) -> bool);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Job {
    request: AnalyticRequest,
    /// Its tenant is promised processor time.
    is_promised: bool,
    background: Background,
    events: Arc<Channel>,
    /// Since when it waits for a thread.
    since: Nanos,
}

/// The queries and threads of one worker.
struct Queue {
    env: Env,
    io: IoGoverning,
    work_memory: Arc<ServerWorkMemory>,
    run: AnalyticRun,
    worker: WorkerHandle,
    core: Option<usize>,
    waiting: Mutex<Waiting>,
    changed: Condition,
    /// A place is free that a query may want back.
    freed: Condition,
    threads: Mutex<Vec<JoinHandle>>,
}

#[derive(Default)]
struct Waiting {
    jobs: Turns<Job>,
    looks: Looks<Job>,
    threads: usize,
    idle: usize,
    /// Of the queries that run.
    running: Vec<Haste>,
    closed: bool,
}

impl Waiting {
    /// Tells the worker for how many threads more the tenant has work, where that is another number than before: it is runnable as long as
    /// others have them. Under the lock, so that of two numbers the later one arrives last.
    fn tell_wanted(&mut self, worker: &WorkerHandle, tenant: TenantId) {
        if let Some(wanted) = self.jobs.changed_wish(tenant) {
            worker.set_threads_wanted(tenant, wanted);
        }
    }

    /// Takes all queries out that wait.
    fn drain(&mut self) -> impl Iterator<Item = Job> + use<> {
        self.jobs.drain().into_iter().chain(self.looks.drain())
    }

    /// Whether one more thread is needed, which is counted then: there are as many as ever had a query at a time.
    fn needs_thread(&mut self) -> bool {
        let needs = !self.closed && self.idle < self.jobs.startable() + self.looks.startable();
        self.threads += usize::from(needs);
        needs
    }
}

/// All analytical threads of the server.
pub(crate) struct AnalyticPool {
    /// By worker; none without an engine.
    queues: Vec<Arc<Queue>>,
    loads: Loads,
}

impl AnalyticPool {
    /// A pool without threads yet; they start with the first queries.
    pub(crate) fn new(
        env: &Env,
        io: &IoGoverning,
        work_memory: &Arc<ServerWorkMemory>,
        workers: Vec<(WorkerHandle, Option<usize>)>,
        run: Option<AnalyticRun>,
    ) -> AnalyticPool {
        let queue = |(worker, core), run| Queue {
            env: env.clone(),
            io: io.clone(),
            work_memory: work_memory.clone(),
            run,
            worker,
            core,
            waiting: Mutex::default(),
            changed: Condition::default(),
            freed: Condition::default(),
            threads: Mutex::default(),
        };
        let queues = run.map(|run| workers.into_iter().map(|of| Arc::new(queue(of, run))).collect());
        AnalyticPool { queues: queues.unwrap_or_default(), loads: Loads::default() }
    }

    /// The worker on whose core a query of a tenant of `home` disturbs the least, if it may run anywhere.
    pub(crate) fn idlest(&self, home: &WorkerHandle) -> WorkerHandle {
        let Some(queue) = self.queues.first().filter(|_| self.queues.len() > 1) else { return home.clone() };
        let at = self.loads.idlest(&self.queues, usize::from(home.id().0), queue.env.now());
        self.queues[at].worker.clone()
    }

    /// Queues a query of `tenant` at `worker`. It is background work while `background` says so; `is_promised` says whether the tenant
    /// has a promise of processor time.
    ///
    /// # Errors
    /// 53300-like when too many wait, 58000 when a thread cannot be started.
    pub(crate) fn start(
        &self,
        worker: &WorkerHandle,
        tenant: TenantId,
        is_promised: bool,
        request: AnalyticRequest,
        background: Background,
    ) -> SqlResult<Events> {
        let Some(queue) = self.queues.get(usize::from(worker.id().0)) else {
            return Err(SqlError::unsupported(
                "a query of the analytical path, which this server was built without,",
            ));
        };
        let events = Arc::new(Channel::default());
        let mut waiting = lock(&queue.waiting);
        if waiting.closed {
            return Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, "the server is shutting down"));
        }
        let since = queue.env.now();
        events.begin_wait(since);
        let looks = request.reads_system_only && !waiting.jobs.has_place_for_one(tenant, is_promised);
        let job = Job { request, is_promised, background, events: events.clone(), since };
        let pushed = match looks {
            true => waiting.looks.push(tenant, job),
            false => waiting.jobs.push(tenant, is_promised, job),
        };
        if pushed.is_err() {
            return Err(SqlError::new(
                SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                "too many analytical queries of this database wait for a thread",
            ));
        }
        let needs_thread = waiting.needs_thread();
        waiting.tell_wanted(worker, tenant);
        drop(waiting);
        queue.changed.notify_one();
        if needs_thread {
            queue.start_thread()?;
        }
        Ok(Events(events))
    }

    /// A tenant is promised processor time from now on, or not any more: a query of it that waits for a place may have one of its own now.
    pub(crate) fn set_promised(&self, tenant: TenantId, is_promised: bool) {
        for queue in &self.queues {
            let mut waiting = lock(&queue.waiting);
            if !waiting.jobs.set_promised(tenant, is_promised) {
                continue;
            }
            let needs_thread = waiting.needs_thread();
            waiting.tell_wanted(&queue.worker, tenant);
            drop(waiting);
            queue.changed.notify_one();
            // One that has begun may want its place back.
            queue.freed.notify_all();
            if needs_thread && let Err(error) = queue.start_thread() {
                tracing::warn!(%error, "a query waits for another one's thread");
            }
        }
    }

    /// Ends all threads once their present job ended; blocks until then. Nobody wants the results any more: what they do to their next look is done at the
    /// ordinary priority, since at theirs other processes on their cores would have it take any length of time.
    pub(crate) fn shut_down(&self) {
        for queue in &self.queues {
            let mut waiting = lock(&queue.waiting);
            waiting.closed = true;
            for job in waiting.drain() {
                job.events.close_producer();
            }
            let running = waiting.running.clone();
            drop(waiting);
            running.iter().for_each(Haste::ask);
            queue.changed.notify_all();
        }
        for queue in &self.queues {
            // None starts any more.
            let threads = std::mem::take(&mut *lock(&queue.threads));
            for handle in threads {
                let _ = handle.join();
            }
        }
    }
}

impl Queue {
    /// Queries that run or wait for a thread.
    fn queries(&self) -> usize {
        let waiting = lock(&self.waiting);
        waiting.threads - waiting.idle + waiting.jobs.startable() + waiting.looks.startable()
    }

    /// Notes that the query of a proxy runs; true if its end is awaited already.
    fn note_running(&self, haste: &Haste) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.running.push(haste.clone());
        waiting.closed
    }

    /// Starts a thread that was counted.
    fn start_thread(self: &Arc<Queue>) -> SqlResult<()> {
        let queue = self.clone();
        let permits = WorkerPermits::new(queue.worker.clone(), queue.io.clone());
        let name = format!("analytic-{}", queue.worker.id());
        let body = move || work(&queue, permits);
        match self.env.threads.spawn(&name, self.core, Box::new(body)) {
            Ok(handle) => {
                lock(&self.threads).push(handle);
                Ok(())
            }
            Err(error) => {
                let mut waiting = lock(&self.waiting);
                waiting.threads -= 1;
                // Others may serve the queue; only without any thread the job would wait for ever.
                if waiting.threads > 0 {
                    return Ok(());
                }
                let refused = SqlError::new(
                    SqlState::SYSTEM_ERROR,
                    format!("cannot start an analytical thread: {error}"),
                );
                // Those too whose sessions counted on this thread, as theirs could not be had.
                for job in waiting.drain() {
                    job.events.refuse(refused.clone());
                }
                Err(refused)
            }
        }
    }
}

/// Body of an analytical thread.
fn work(queue: &Arc<Queue>, permits: WorkerPermits) {
    let Queue { env, run, work_memory, .. } = &**queue;
    let permits = Rc::new(permits);
    let _permits = env::ask_permits(permits.clone());
    loop {
        let (tenant, job, kind) = {
            let mut waiting = lock(&queue.waiting);
            loop {
                if let Some((tenant, job)) = waiting.looks.take() {
                    break (tenant, job, Kind::Look);
                }
                if let Some((tenant, mut job)) = waiting.jobs.take() {
                    // It may have been promised some since the query came.
                    job.is_promised = waiting.jobs.is_promised(tenant);
                    waiting.tell_wanted(&queue.worker, tenant);
                    break (tenant, job, Kind::Turn);
                }
                if waiting.closed {
                    waiting.threads -= 1;
                    return;
                }
                waiting.idle += 1;
                waiting = queue.changed.wait(&queue.waiting, waiting, None);
                waiting.idle -= 1;
            }
        };
        let Job { mut request, is_promised, background, events, since } = job;
        events.end_wait(env.now() - since);
        // All threads of the server take its lock: here and at the end, where this one is at the ordinary priority and nobody waits for it.
        let meter = work_memory.statement(tenant, env.now());
        // The session's worker looks at what the thread takes, under a lock.
        events.begin_thread(env.threads.current());
        let held = events.control.held();
        let proxy = Rc::new(Proxy::enter(env, &queue.worker, tenant, is_promised, held, &background));
        let haste = proxy.haste();
        let limit = LimitWait::of(queue, kind);
        let waits = limit.clone().map(|limit| limit as Arc<dyn LimitWaits>);
        let is_closing = proxy.sharing_locks(|| {
            proxy.tell_of_limit(waits.clone());
            queue.note_running(&haste)
        });
        if is_closing {
            haste.ask();
        }
        permits.work_for(&events.control, &proxy, waits);
        let place = Place::new(queue, tenant, kind, limit);
        let waiting = Rc::clone(&proxy);
        // Reads of pages that are not in memory hold nothing of the worker.
        let around = env::around_waits(Rc::new(move |wait| waiting.blocked(wait)));
        request.limits.work_meter = Some(meter.clone());
        let outcome = env::caught(|| {
            run(request, &events.control, &mut |event| events.send(event, &proxy, &place));
        });
        if outcome.is_err() {
            tracing::error!(tenant = tenant.0, "an analytical query panicked");
        }
        permits.rest();
        drop(around);
        // A thread stays when its query ends: what it read with and put rows aside with would stay with each of them.
        env::IoBuf::free_spares();
        drop(proxy);
        lock(&queue.waiting).running.retain(|running| !running.is_same(&haste));
        events.end_thread();
        meter.end(env.now());
        place.end();
        events.close_producer();
    }
}
