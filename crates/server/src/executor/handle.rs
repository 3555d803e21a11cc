//! The part of a worker other threads reach: its inbox, its tenants' accounts, its stop flag.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use async_task::{FallibleTask, Runnable};
use base::{Nanos, TenantId, WorkerId};
use env::IoTicket;
use env::RemoteWaker;
use governor::Policy;
use rustc_hash::FxHashMap;

use super::account::TenantAccount;
use super::background::Background;
use super::governing::Terms;
use super::io_permits::IoAsked;
use super::proxy::ProxyState;
use super::worker::{current_serial, current_worker, schedule_at_home};
use crate::pauses::Pauses;

pub(super) type Account = Arc<TenantAccount>;

/// Where a task stands among its tenant's other work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    /// Upkeep that others wait for: before all else, and no limit of processor time holds it.
    Awaited,
    Ordinary,
    /// Behind all else.
    Background,
}

impl Rank {
    pub(super) fn of(background: &Background) -> Rank {
        if background.is_set() { Rank::Background } else { Rank::Ordinary }
    }
}

/// What stands in a run queue.
pub(super) enum Work {
    /// A task of this worker.
    Task(Runnable, Rank),
    /// A task of a tenant, which goes where the tenant's home is.
    Resident(Runnable, Rank),
    Proxy(Arc<ProxyState>),
}

impl Work {
    pub(super) fn is_proxy(&self) -> bool {
        matches!(self, Work::Proxy(_))
    }

    pub(super) fn rank(&self) -> Rank {
        match self {
            Work::Task(_, rank) | Work::Resident(_, rank) => *rank,
            Work::Proxy(proxy) => Rank::of(&proxy.background),
        }
    }

    pub(super) fn is_background(&self) -> bool {
        self.rank() == Rank::Background
    }

    /// Sends a task to the queue that it now belongs to.
    pub(super) fn reschedule(self) {
        match self {
            Work::Task(task, _) | Work::Resident(task, _) => task.schedule(),
            Work::Proxy(_) => unreachable!("a proxy belongs to one worker"),
        }
    }
}

/// A tenant whose home the worker becomes.
pub(super) struct Arrival {
    pub(super) account: Account,
    pub(super) terms: Terms,
    /// Since when its tasks stand still.
    pub(super) held_since: Nanos,
    /// Since when they are on their way, if there are any.
    pub(super) on_its_way: Option<Nanos>,
    pub(super) pauses: Arc<Pauses>,
}

pub(super) enum Message {
    Ready(Account, Work),
    SetTerms(TenantId, Terms),
    /// The terms of a tenant that is at home elsewhere and may have analytical threads here.
    SetTermsOfGuest(TenantId, Terms),
    Arrive(Box<Arrival>),
    SetPolicy(Policy),
    Forget(TenantId),
    /// Processor time that a thread which stands in no queue took for a tenant.
    Charge(TenantId, Nanos),
    /// Processor time that was taken for a tenant before anybody could be charged.
    MeterPast(TenantId, Nanos),
    /// What an analytical thread that leaves took since it was last charged.
    ChargeProxy(Account, Nanos),
    /// So many more analytical threads would work for the tenant, if others had not theirs.
    ThreadsWanted(Account, u32),
    /// An analytical thread waits for leave to read or write.
    AskIo(IoAsked),
    /// What had leave has ended, and whose query it was of.
    IoEnded(IoTicket, Option<Account>),
}

#[derive(Default)]
struct Inbox {
    messages: Vec<Message>,
    closed: bool,
}

pub(super) struct Shared {
    pub(super) id: WorkerId,
    /// Unique among all workers this process ever had.
    pub(super) serial: u64,
    pub(super) waker: RemoteWaker,
    inbox: Mutex<Inbox>,
    /// Whether the inbox may hold something; spares the worker a lock each turn.
    has_mail: AtomicBool,
    stop: AtomicBool,
    /// Processor time charged to all tenants so far, in nanoseconds. Written by the worker's thread alone; what is taken back stays counted.
    charged: AtomicU64,
    /// The part of it that analytical threads took. Written by the worker's thread alone.
    charged_to_proxies: AtomicU64,
    accounts: Mutex<Accounts>,
    /// Wakers of all unfinished tasks, by which a worker that ends cancels them.
    unfinished: Mutex<Unfinished>,
}

#[derive(Default)]
struct Accounts {
    by_tenant: FxHashMap<TenantId, Account>,
    /// Numbers of queues that were given out, and those of tenants that are gone.
    queues: usize,
    free: Vec<usize>,
}

impl Accounts {
    fn queue(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.queues += 1;
            self.queues - 1
        })
    }
}

#[derive(Default)]
struct Unfinished {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under a worker's locks")
}

impl Shared {
    pub(super) fn new(id: WorkerId, waker: RemoteWaker) -> Shared {
        static WORKERS: AtomicU64 = AtomicU64::new(0);
        Shared {
            id,
            serial: WORKERS.fetch_add(1, Ordering::Relaxed),
            waker,
            inbox: Mutex::default(),
            has_mail: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            charged: AtomicU64::new(0),
            charged_to_proxies: AtomicU64::new(0),
            accounts: Mutex::default(),
            unfinished: Mutex::default(),
        }
    }

    /// Counts processor time charged to a tenant. On the worker's thread.
    pub(super) fn count_charged(&self, used: Nanos) {
        self.charged.store(self.charged.load(Ordering::Relaxed) + used.0, Ordering::Relaxed);
    }

    /// Counts what of it was an analytical thread's. On the worker's thread.
    pub(super) fn count_charged_to_proxy(&self, used: Nanos) {
        let before = self.charged_to_proxies.load(Ordering::Relaxed);
        self.charged_to_proxies.store(before + used.0, Ordering::Relaxed);
    }

    pub(super) fn charged(&self) -> Nanos {
        Nanos(self.charged.load(Ordering::Relaxed))
    }

    /// Leaves a message from any thread. After the worker's end it is dropped.
    pub(super) fn send(&self, message: Message) {
        {
            let mut inbox = lock(&self.inbox);
            if !inbox.closed {
                inbox.messages.push(message);
                self.has_mail.store(true, Ordering::Release);
            } else {
                // Dropping a message may run a task's destructor, so not under the lock.
                drop(inbox);
                drop(message);
                return;
            }
        }
        self.waker.wake();
    }

    /// Moves all messages to `to`, whose capacity the inbox takes over in exchange.
    pub(super) fn receive(&self, to: &mut Vec<Message>) {
        debug_assert!(to.is_empty());
        if self.has_mail.load(Ordering::Acquire) {
            let mut inbox = lock(&self.inbox);
            self.has_mail.store(false, Ordering::Relaxed);
            std::mem::swap(&mut inbox.messages, to);
        }
    }

    pub(super) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Refuses further messages and gives back what was left.
    pub(super) fn close(&self) -> Vec<Message> {
        // Accounts refer to their worker: here the circle is cut.
        let accounts = std::mem::take(&mut lock(&self.accounts).by_tenant);
        drop(accounts);
        let mut inbox = lock(&self.inbox);
        inbox.closed = true;
        std::mem::take(&mut inbox.messages)
    }

    /// Wakes every unfinished task so that it comes to a queue, where the ending worker drops it.
    pub(super) fn wake_unfinished(&self) {
        let wakers: Vec<Waker> = lock(&self.unfinished).wakers.iter().flatten().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A place among the unfinished, for a waker to be put there.
    fn place_of_unfinished(&self) -> usize {
        let mut unfinished = lock(&self.unfinished);
        unfinished.free.pop().unwrap_or_else(|| {
            unfinished.wakers.push(None);
            unfinished.wakers.len() - 1
        })
    }

    /// Takes a tenant's account out if only this table and the worker's queue hold it, where it `has_queue`: else who is about to stand in one may. On the worker's thread, which forgets
    /// the queue before it does anything else: its number goes to another tenant.
    pub(super) fn retire(&self, tenant: TenantId, has_queue: bool) -> bool {
        let mut accounts = lock(&self.accounts);
        // New holders come from this table alone, which is locked.
        let known = 1 + usize::from(has_queue);
        let unused =
            accounts.by_tenant.get(&tenant).is_some_and(|account| Arc::strong_count(account) <= known);
        if unused && let Some(account) = accounts.by_tenant.remove(&tenant) {
            accounts.free.push(account.queue);
        }
        unused
    }

    pub(super) fn account(self: &Arc<Self>, tenant: TenantId) -> Account {
        let mut accounts = lock(&self.accounts);
        if let Some(account) = accounts.by_tenant.get(&tenant) {
            return account.clone();
        }
        let account = Arc::new(TenantAccount::new(tenant, self.clone(), accounts.queue()));
        accounts.by_tenant.insert(tenant, account.clone());
        account
    }
}

/// A worker as seen from anywhere. Cheap to clone.
#[derive(Clone)]
pub struct WorkerHandle(pub(super) Arc<Shared>);

impl WorkerHandle {
    pub fn id(&self) -> WorkerId {
        self.0.id
    }

    /// Starts a task of `tenant` on this worker, from any thread. Dropping the returned handle cancels the task;
    /// [`TaskHandle::detach`] lets it run on. If the worker has ended the task is dropped unpolled.
    pub fn spawn<F>(&self, tenant: TenantId, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(tenant, Background::default(), future)
    }

    /// As [`WorkerHandle::spawn`] for a task that is background work while `background` says so.
    pub fn spawn_with<F>(&self, tenant: TenantId, background: Background, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let account = self.0.account(tenant);
        self.spawn_scheduled(tenant, future, move |runnable| {
            schedule_at_home(&account, Work::Task(runnable, Rank::of(&background)));
        })
    }

    /// As [`WorkerHandle::spawn`], the task's places in the queues found by `schedule`.
    pub(super) fn spawn_scheduled<F>(
        &self,
        tenant: TenantId,
        future: F,
        schedule: impl Fn(Runnable) + Send + Sync + 'static,
    ) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let registration = Registration { worker: self.0.clone(), place: self.0.place_of_unfinished() };
        let place = registration.place;
        let supervised = Supervised { future, tenant, registration };
        let (runnable, task) = async_task::spawn(supervised, schedule);
        lock(&self.0.unfinished).wakers[place] = Some(runnable.waker());
        runnable.schedule();
        TaskHandle(Some(task.fallible()))
    }

    /// Puts a promise in force for a tenant whose home this worker is, or, told to every worker, for the server's own: its scheduler keeps it from the next pick on, for tasks that
    /// are queued too, and the meter holds it against that.
    pub fn set_terms(&self, tenant: TenantId, terms: Terms) {
        self.0.send(Message::SetTerms(tenant, terms));
    }

    /// As [`WorkerHandle::set_terms`] for a tenant that is at home elsewhere: what it still has here, analytical threads, is scheduled by
    /// them.
    pub(crate) fn set_terms_of_guest(&self, tenant: TenantId, terms: Terms) {
        self.0.send(Message::SetTermsOfGuest(tenant, terms));
    }

    /// Changes what of the promises this worker keeps, from its next pick on. The meters are not told: they hold it against what was
    /// promised.
    pub fn set_policy(&self, policy: Policy) {
        self.0.send(Message::SetPolicy(policy));
    }

    /// Says for how many more analytical threads a tenant has work that wait for others' to end: the meter counts them as runnable.
    pub(crate) fn set_threads_wanted(&self, tenant: TenantId, threads: u32) {
        self.0.send(Message::ThreadsWanted(self.0.account(tenant), threads));
    }

    /// Forgets a dropped tenant, once its tasks and queries' threads have ended.
    pub fn forget(&self, tenant: TenantId) {
        self.0.send(Message::Forget(tenant));
    }

    /// Charges a tenant for processor time that a thread took for it which stands in none of this worker's queues.
    pub(crate) fn charge(&self, tenant: TenantId, used: Nanos) {
        self.0.send(Message::Charge(tenant, used));
    }

    /// Has the ledger count processor time that was taken for a tenant before its home was there. Nothing of it is held against what the tenant has to
    /// do now: it is past, and would seem to be of the present.
    pub(crate) fn meter_past(&self, tenant: TenantId, used: Nanos) {
        self.0.send(Message::MeterPast(tenant, used));
    }

    /// Processor time charged so far to all tenants together, what was taken back later included. O(1), from any thread.
    pub fn charged(&self) -> Nanos {
        self.0.charged()
    }

    /// The tenant's account on this worker, made if needed: what it used, readable at any time.
    pub fn account(&self, tenant: TenantId) -> Arc<TenantAccount> {
        self.0.account(tenant)
    }

    /// Processor time of all tasks so far, analytical threads not counted. About: what was charged too much and taken back stays in it.
    pub(crate) fn used_by_tasks(&self) -> Nanos {
        let of_proxies = self.0.charged_to_proxies.load(Ordering::Relaxed);
        Nanos(self.0.charged().0.saturating_sub(of_proxies))
    }

    /// As [`WorkerHandle::account`] if the tenant had anything to do on this worker.
    pub fn account_if_known(&self, tenant: TenantId) -> Option<Arc<TenantAccount>> {
        lock(&self.0.accounts).by_tenant.get(&tenant).cloned()
    }

    /// Every account of this worker.
    pub fn accounts(&self) -> Vec<Arc<TenantAccount>> {
        lock(&self.0.accounts).by_tenant.values().cloned().collect()
    }

    /// Asks the worker's `run` to return after its current turn. Tasks not finished by then are dropped with the worker.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        self.0.waker.wake();
    }

    /// Ends the worker's present or next wait.
    pub fn wake(&self) {
        self.0.waker.wake();
    }
}

/// Frees a task's place among the unfinished when its future is dropped.
struct Registration {
    worker: Arc<Shared>,
    place: usize,
}

impl Registration {
    /// Takes a place with the worker that polls the task, so that the worker's end is the task's.
    fn follow(&mut self, waker: &Waker) {
        if current_serial() == Some(self.worker.serial) {
            return;
        }
        let Some(WorkerHandle(worker)) = current_worker() else { return };
        let place = worker.place_of_unfinished();
        lock(&worker.unfinished).wakers[place] = Some(waker.clone());
        *self = Registration { worker, place };
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut unfinished = lock(&self.worker.unfinished);
        let waker = unfinished.wakers[self.place].take();
        unfinished.free.push(self.place);
        // The waker may be the task's last reference.
        drop(unfinished);
        drop(waker);
    }
}

/// A task's future; a panic in it ends the task as `None` and is logged.
struct Supervised<F> {
    future: F,
    tenant: TenantId,
    registration: Registration,
}

impl<F: Future> Future for Supervised<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let tenant = self.tenant;
        // SAFETY: structural pinning of `future` alone: it is never moved out, and `Supervised` has neither `Drop` nor `Unpin`
        // of its own. The registration is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        this.registration.follow(cx.waker());
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        supervise(tenant, || future.poll(cx))
    }
}

/// Polls; a panic ends what is polled as `None` and is logged.
pub(super) fn supervise<T>(tenant: TenantId, poll: impl FnOnce() -> Poll<T>) -> Poll<Option<T>> {
    match std::panic::catch_unwind(AssertUnwindSafe(poll)) {
        Ok(poll) => poll.map(Some),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            tracing::error!(tenant = tenant.0, panic = text.as_deref().unwrap_or("?"), "a task panicked");
            Poll::Ready(None)
        }
    }
}

/// A started task. Awaiting it gives its output, or `None` if it panicked or its worker ended. Dropping it cancels the
/// task at its next scheduling.
#[must_use = "dropping a task's handle cancels the task"]
pub struct TaskHandle<T>(Option<FallibleTask<Option<T>>>);

impl<T> TaskHandle<T> {
    /// Lets the task run on by itself.
    pub fn detach(mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(FallibleTask::is_finished)
    }

    /// Cancels the task and waits until its future is dropped; its output if it had ended before.
    pub async fn cancel(mut self) -> Option<T> {
        match self.0.take() {
            Some(task) => task.cancel().await.flatten(),
            None => None,
        }
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.0.as_mut().expect("a detached task has no handle");
        Pin::new(task).poll(cx).map(Option::flatten)
    }
}
