//! Threads for analytical queries, a few for each worker, in its run queue as proxies.
//!
//! A job waits for its tenant's turn on its worker ([`turns`]); a thread takes it, stands in the run queue for the job's tenant while it
//! computes and leaves it while it waits. What it has to say goes through a bounded channel to the session's task. A job
//! whose session is gone, or cancelled it, is told by a flag, which the engine looks at between batches.

mod turns;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use base::{Nanos, SqlError, SqlResult, SqlState, TenantId};
use env::{Env, JoinHandle, ThreadControl};
use futures::task::AtomicWaker;
use sql::session::{AnalyticEvent, AnalyticRequest, QueryControl, StatementCounts, Taken};

use turns::Turns;

use crate::executor::{Background, IoGoverning, Proxy, WorkerHandle, WorkerPermits};
use crate::work_memory::ServerWorkMemory;

/// Events on their way to a session.
const EVENTS_MAX: usize = 8;

/// The engine of analytical queries: runs one to its end on the calling thread, telling of every event. It stops when
/// told `false`, and soon after it is cancelled, and stands still while it is held.
pub type AnalyticRun = fn(AnalyticRequest, &QueryControl, &mut dyn FnMut(AnalyticEvent) -> bool);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Job {
    request: AnalyticRequest,
    background: Background,
    events: Arc<Channel>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: Turns<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct OfWorker {
    worker: WorkerHandle,
    core: Option<usize>,
    queue: Arc<Queue>,
}

/// All analytical threads of the server.
pub(crate) struct AnalyticPool {
    env: Env,
    io: IoGoverning,
    work_memory: Arc<ServerWorkMemory>,
    run: Option<AnalyticRun>,
    workers: Vec<OfWorker>,
    threads: Mutex<Vec<JoinHandle>>,
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
        let of_worker = |(worker, core)| OfWorker { worker, core, queue: Arc::default() };
        AnalyticPool {
            env: env.clone(),
            io: io.clone(),
            work_memory: work_memory.clone(),
            run,
            workers: workers.into_iter().map(of_worker).collect(),
            threads: Mutex::default(),
        }
    }

    /// Queues a query of `tenant`, whose home is `worker`. It is background work while `background` says so.
    ///
    /// # Errors
    /// 53300-like when too many wait, 58000 when a thread cannot be started.
    pub(crate) fn start(
        &self,
        worker: &WorkerHandle,
        tenant: TenantId,
        request: AnalyticRequest,
        background: Background,
    ) -> SqlResult<Events> {
        let Some(run) = self.run else {
            return Err(SqlError::unsupported(
                "a query of the analytical path, which this server was built without,",
            ));
        };
        let of_worker = &self.workers[worker.id().0 as usize];
        let events = Arc::new(Channel::default());
        let mut waiting = lock(&of_worker.queue.waiting);
        if waiting.closed {
            return Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, "the server is shutting down"));
        }
        let job = Job { request, background, events: events.clone() };
        if waiting.jobs.push(tenant, job).is_err() {
            return Err(SqlError::new(
                SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                "too many analytical queries of this database wait for a thread",
            ));
        }
        // There are as many threads as ever ran at a time.
        let start_thread = waiting.idle < waiting.jobs.startable();
        if start_thread {
            waiting.threads += 1;
        }
        drop(waiting);
        of_worker.queue.changed.notify_one();
        if start_thread {
            self.start_thread(of_worker, run)?;
        }
        Ok(Events(events))
    }

    fn start_thread(&self, of_worker: &OfWorker, run: AnalyticRun) -> SqlResult<()> {
        let (env, work_memory) = (self.env.clone(), self.work_memory.clone());
        let (worker, queue) = (of_worker.worker.clone(), of_worker.queue.clone());
        let permits = WorkerPermits::new(worker.clone(), self.io.clone());
        let body = move || work(&env, run, &worker, &work_memory, permits, &queue);
        let name = format!("analytic-{}", of_worker.worker.id());
        match self.env.threads.spawn(&name, of_worker.core, Box::new(body)) {
            Ok(handle) => {
                lock(&self.threads).push(handle);
                Ok(())
            }
            Err(error) => {
                let mut waiting = lock(&of_worker.queue.waiting);
                waiting.threads -= 1;
                // Others may serve the queue; only without any thread the job would wait for ever.
                if waiting.threads > 0 {
                    return Ok(());
                }
                waiting.jobs.drain();
                Err(SqlError::new(
                    SqlState::SYSTEM_ERROR,
                    format!("cannot start an analytical thread: {error}"),
                ))
            }
        }
    }

    /// Ends all threads once their present job ended; blocks until then.
    pub(crate) fn shut_down(&self) {
        for of_worker in &self.workers {
            let mut waiting = lock(&of_worker.queue.waiting);
            waiting.closed = true;
            for job in waiting.jobs.drain() {
                job.events.close_producer();
            }
            drop(waiting);
            of_worker.queue.changed.notify_all();
        }
        for handle in lock(&self.threads).drain(..) {
            let _ = handle.join();
        }
    }
}

/// Body of an analytical thread.
fn work(
    env: &Env,
    run: AnalyticRun,
    worker: &WorkerHandle,
    work_memory: &ServerWorkMemory,
    permits: WorkerPermits,
    queue: &Queue,
) {
    let permits = Rc::new(permits);
    let _permits = env::ask_permits(permits.clone());
    loop {
        let (tenant, job) = {
            let mut waiting = lock(&queue.waiting);
            loop {
                if let Some(taken) = waiting.jobs.take() {
                    break taken;
                }
                if waiting.closed {
                    waiting.threads -= 1;
                    return;
                }
                waiting.idle += 1;
                waiting = queue.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                waiting.idle -= 1;
            }
        };
        let Job { mut request, background, events } = job;
        let proxy = Rc::new(Proxy::enter(env, worker, tenant, events.control.held(), &background));
        permits.count_for(Some(events.control.clone()));
        lock(&events.thread).begin(env.threads.current());
        let waiting = Rc::clone(&proxy);
        // Reads of pages that are not in memory hold nothing of the worker.
        let around = env::around_waits(Rc::new(move |wait| waiting.blocked(wait)));
        let meter = work_memory.statement(tenant, env.now());
        request.limits.work_meter = Some(meter.clone());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(request, &events.control, &mut |event| events.send(event, &proxy));
        }));
        if outcome.is_err() {
            tracing::error!(tenant = tenant.0, "an analytical query panicked");
        }
        meter.end(env.now());
        permits.count_for(None);
        events.end_thread();
        drop(around);
        drop(proxy);
        lock(&queue.waiting).jobs.ended(tenant);
        events.close_producer();
    }
}

/// A bounded queue of events from one thread to one task.
#[derive(Default)]
struct Channel {
    state: Mutex<ChannelState>,
    room: Condvar,
    waker: AtomicWaker,
    /// Cancelled by the session, when nobody wants the result any more.
    control: QueryControl,
    thread: Mutex<QueryThread>,
}

/// The thread that a query runs on, as far as its processor time goes.
#[derive(Default)]
struct QueryThread {
    /// With its clock when the query began.
    runs: Option<(ThreadControl, Nanos)>,
    /// What an ended query took.
    took: Nanos,
    /// The session has counted so much of what the query takes, and the rest is to be counted here.
    given_up: Option<(QueryTaken, Option<Arc<StatementCounts>>)>,
}

impl QueryThread {
    fn begin(&mut self, thread: ThreadControl) {
        let began = thread.cpu_time().unwrap_or_default();
        self.runs = Some((thread, began));
    }

    fn took(&self) -> Nanos {
        match &self.runs {
            Some((thread, began)) => thread.cpu_time().map_or(self.took, |cpu| cpu - *began),
            None => self.took,
        }
    }

    fn end(&mut self) {
        self.took = self.took();
        self.runs = None;
    }
}

#[derive(Default)]
struct ChannelState {
    events: VecDeque<AnalyticEvent>,
    done: bool,
    producer_gone: bool,
    consumer_gone: bool,
}

impl Channel {
    fn send(&self, event: AnalyticEvent, proxy: &Proxy) -> bool {
        let full = |state: &mut ChannelState| state.events.len() >= EVENTS_MAX && !state.consumer_gone;
        let mut state = lock(&self.state);
        if full(&mut state) {
            drop(state);
            proxy.blocked(|| {
                let state = lock(&self.state);
                drop(self.room.wait_while(state, full).unwrap_or_else(PoisonError::into_inner));
            });
            // One producer: the room that was found stays.
            state = lock(&self.state);
        }
        if state.consumer_gone {
            return false;
        }
        state.done |= matches!(event, AnalyticEvent::Done(_));
        state.events.push_back(event);
        drop(state);
        self.waker.wake();
        true
    }

    fn taken(&self, thread: &QueryThread) -> QueryTaken {
        QueryTaken { cpu: thread.took(), rows: self.control.rows_read(), io: self.control.ios() }
    }

    /// The thread has done all for the query.
    fn end_thread(&self) {
        let mut thread = lock(&self.thread);
        thread.end();
        if let Some((counted, Some(counts))) = thread.given_up.take() {
            let taken = self.taken(&thread);
            let ios = taken.io.saturating_sub(counted.io);
            counts.add_taken(Taken { cpu: taken.cpu - counted.cpu, ios });
        }
    }

    fn close_producer(&self) {
        lock(&self.state).producer_gone = true;
        self.waker.wake();
    }
}

/// What a query has taken so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct QueryTaken {
    pub(crate) cpu: Nanos,
    pub(crate) rows: u64,
    pub(crate) io: u64,
}

/// Tells what a query takes, from any thread.
#[derive(Clone)]
pub(crate) struct QueryMeter(Arc<Channel>);

impl QueryMeter {
    pub(crate) fn taken(&self) -> QueryTaken {
        self.0.taken(&lock(&self.0.thread))
    }
}

/// The listening end of a query. Dropping it tells the query to stop.
pub(crate) struct Events(Arc<Channel>);

impl Events {
    pub(crate) fn meter(&self) -> QueryMeter {
        QueryMeter(self.0.clone())
    }

    /// What the query took so far. What its thread takes after this goes to `counts`: a query may have told its end before its thread has, or
    /// go on for a while after it was cancelled.
    pub(crate) fn give_up(&self, counts: Option<Arc<StatementCounts>>) -> QueryTaken {
        let mut thread = lock(&self.0.thread);
        let taken = self.0.taken(&thread);
        thread.given_up = Some((taken, counts));
        taken
    }

    /// The next event; [`AnalyticEvent::Done`] is the last.
    pub(crate) async fn next(&self) -> AnalyticEvent {
        std::future::poll_fn(|cx| {
            self.0.waker.register(cx.waker());
            let mut state = lock(&self.0.state);
            if let Some(event) = state.events.pop_front() {
                drop(state);
                self.0.room.notify_one();
                return Poll::Ready(event);
            }
            if state.producer_gone {
                assert!(!state.done, "nothing is awaited after the end");
                let error = SqlError::internal("the analytical query ended without a result");
                return Poll::Ready(AnalyticEvent::Done(Err(error)));
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.0.control.cancel();
        let mut state = lock(&self.0.state);
        state.consumer_gone = true;
        state.events.clear();
        drop(state);
        self.0.room.notify_one();
    }
}
