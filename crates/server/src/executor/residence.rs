//! Which worker is a tenant's home at the moment, and how its tasks come to another one.
//!
//! A task of a tenant is scheduled where its home is when it is woken, so it may be polled here before an await and there after it. What it waits for
//! stays where it began: an operation in flight ends on the reactor that started it and wakes the task at its home, as a timer does. So tasks move at any
//! await, and sockets with them.
//!
//! A move is made by the home's own thread, in one turn, after the tenant's tasks were held ([`Residence::hold`]): what the thread wrote to the tenant's
//! [`super::HomeCell`]s before is seen by the thread that next finds itself at home.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use base::{Nanos, TenantId};
use governor::AwaitedFor;

use super::account::{TenantAccount, Wait};
use super::background::Background;
use super::governing::Terms;
use super::handle::{Account, Arrival, Message, Rank, TaskHandle, Work, WorkerHandle};
use super::worker::{current_serial, finish_suspended, schedule_at_home, with_queues};
use crate::pauses::Pauses;

/// Where one tenant is at home. Shared by its tasks, its state and whoever looks for it.
pub struct Residence {
    tenant: TenantId,
    /// Serial number of the home worker. Written by the thread that is at home, when it gives the tenant away.
    home: AtomicU64,
    /// Uses of the tenant's cells on the stack of the home's thread, which alone reads and writes it.
    uses: AtomicU32,
    /// A call that uses them is suspended. As `uses`.
    has_suspended: AtomicBool,
    /// Whether others wait for the tenant's upkeep, for each [`AwaitedFor`]. Nothing else is read by it.
    awaited_for: [AtomicBool; 2],
    seat: RwLock<Seat>,
}

/// A use of a tenant's state at home: it cannot move while this lives.
pub(super) struct InUse<'a>(&'a Residence);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let uses = self.0.uses.load(Ordering::Relaxed);
        self.0.uses.store(uses - 1, Ordering::Relaxed);
    }
}

struct Seat {
    worker: WorkerHandle,
    /// Made with the first task, so that a tenant without tasks costs its worker nothing.
    account: Option<Account>,
}

impl Residence {
    /// Of a tenant at home on `worker`. Callable on any thread.
    pub fn new(tenant: TenantId, worker: &WorkerHandle) -> Arc<Residence> {
        let seat = Seat { worker: worker.clone(), account: None };
        Arc::new(Residence {
            tenant,
            home: AtomicU64::new(worker.0.serial),
            uses: AtomicU32::new(0),
            has_suspended: AtomicBool::new(false),
            awaited_for: Default::default(),
            seat: RwLock::new(seat),
        })
    }

    fn seat(&self) -> RwLockReadGuard<'_, Seat> {
        self.seat.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The home of the moment. Off the home's own thread it may be another one by the time it is looked at.
    pub fn worker(&self) -> WorkerHandle {
        self.seat().worker.clone()
    }

    /// Whether the caller runs on the home worker.
    pub fn is_here(&self) -> bool {
        // Acquire pairs with the store in `Held::move_to`: who finds itself at home sees what the home before wrote.
        current_serial() == Some(self.home.load(Ordering::Acquire))
    }

    /// Keeps the tenant here while its state is used.
    ///
    /// # Panics
    /// On another thread than the home worker's.
    pub(super) fn enter(&self) -> InUse<'_> {
        assert!(self.is_here(), "a worker's state was used away from it");
        if self.has_suspended() {
            self.finish_suspended();
        }
        // One thread at a time writes it, so a plain load and store.
        self.uses.store(self.uses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        InUse(self)
    }

    /// Whose home it is.
    pub(super) fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Whether a call that uses the tenant's state is suspended: then it is in its middle, and looking at it ends the call first. On the home's thread.
    pub(crate) fn has_suspended(&self) -> bool {
        self.has_suspended.load(Ordering::Relaxed)
    }

    /// Notes whether a call that uses the tenant's state is suspended. On the home's thread.
    pub(super) fn set_suspended(&self, is_suspended: bool) {
        self.has_suspended.store(is_suspended, Ordering::Relaxed);
    }

    /// Runs a suspended call to its end, charged to the tenant.
    #[cold]
    fn finish_suspended(&self) {
        self.set_suspended(false);
        finish_suspended(self.tenant, &self.account());
    }

    /// The tenant's account at home.
    pub fn account(&self) -> Arc<TenantAccount> {
        if let Some(account) = &self.seat().account {
            return account.clone();
        }
        let mut seat = self.seat.write().unwrap_or_else(PoisonError::into_inner);
        let Seat { worker, account } = &mut *seat;
        account.get_or_insert_with(|| worker.0.account(self.tenant)).clone()
    }

    /// Counts a wait of one of the tenant's tasks that has ended. On the home's thread.
    pub(crate) fn add_wait(&self, wait: Wait, time: Nanos) {
        debug_assert!(self.is_here(), "an account is written by its worker");
        self.account().add_wait(wait, time);
    }

    /// Starts a task of the tenant, as [`WorkerHandle::spawn`] does, that is polled wherever its home is.
    pub fn spawn<F>(self: &Arc<Residence>, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_with(Background::default(), future)
    }

    /// As [`Residence::spawn`] for a task that is background work while `background` says so.
    pub fn spawn_with<F>(self: &Arc<Residence>, background: Background, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let residence = self.clone();
        let schedule = move |runnable| {
            schedule_at_home(&residence.account(), Work::Resident(runnable, Rank::of(&background)));
        };
        self.worker().spawn_scheduled(self.tenant, future, schedule)
    }

    /// As [`Residence::spawn`] for a task of the tenant's upkeep. While others wait for that it goes before the tenant's other tasks, and no limit of
    /// processor time holds it; it is charged as ever. A call that is suspended goes before it, since it is in the middle of the tenant's state, and for
    /// a second in each minute without the limit.
    pub(crate) fn spawn_upkeep<F>(self: &Arc<Residence>, future: F) -> TaskHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let residence = self.clone();
        let schedule = move |runnable| {
            let rank = if residence.is_awaited() { Rank::Awaited } else { Rank::Ordinary };
            schedule_at_home(&residence.account(), Work::Resident(runnable, rank));
        };
        self.worker().spawn_scheduled(self.tenant, future, schedule)
    }

    /// Says whether others wait for the tenant's upkeep, for one thing. In force for each of its tasks when it is queued the next time: one that stands in a
    /// queue is polled once as it stands there. From any thread.
    pub(crate) fn set_awaited(&self, awaited_for: AwaitedFor, is_awaited: bool) {
        self.awaited_for[awaited_for as usize].store(is_awaited, Ordering::Relaxed);
    }

    fn is_awaited(&self) -> bool {
        self.awaited_for.iter().any(|is_awaited| is_awaited.load(Ordering::Relaxed))
    }

    /// Lets go of the account, so that the worker can forget a tenant that is gone.
    pub(crate) fn vacate(&self) {
        self.seat.write().unwrap_or_else(PoisonError::into_inner).account = None;
    }

    /// Has none of the tenant's tasks polled until what is returned is dropped. At home only, and not by one of those tasks. One at a time.
    pub(crate) fn hold(self: &Arc<Residence>) -> Held {
        assert!(self.is_here(), "a tenant's tasks were held away from its home");
        if self.has_suspended() {
            self.finish_suspended();
        }
        let (account, now) = (self.account(), env::now());
        with_queues(|queues| queues.hold(&account, now));
        Held { residence: self.clone(), since: now, is_ended: false }
    }
}

/// The tasks of a tenant stand still while this lives.
#[must_use = "the tasks go on when it is dropped"]
pub(crate) struct Held {
    residence: Arc<Residence>,
    since: Nanos,
    is_ended: bool,
}

impl Held {
    /// Makes `to` the tenant's home, where its tasks go on under `terms`; the time for which they stood still is counted there. In the turn
    /// of the home's thread that has just seen to it that nothing of the tenant's state is in use.
    pub(crate) fn move_to(mut self, to: &WorkerHandle, terms: Terms, pauses: &Arc<Pauses>, now: Nanos) {
        let residence = &self.residence;
        assert!(residence.is_here(), "a tenant is given away by its home");
        assert_eq!(residence.uses.load(Ordering::Relaxed), 0, "a tenant moves while its state is used");
        self.is_ended = true;
        let (before, account) = (residence.account(), to.0.account(residence.tenant));
        let on_its_way = with_queues(|queues| queues.has_held(&before)).then_some(now);
        let (held_since, pauses) = (self.since, pauses.clone());
        let arrival = Arrival { account: account.clone(), terms, held_since, on_its_way, pauses };
        // Before anybody can schedule a task there.
        to.0.send(Message::Arrive(Box::new(arrival)));
        residence.home.store(to.0.serial, Ordering::Release);
        *residence.seat.write().unwrap_or_else(PoisonError::into_inner) =
            Seat { worker: to.clone(), account: Some(account) };
        // From here on it is at home there: this thread only passes on what it finds.
        let tasks = with_queues(|queues| queues.depart(&before, self.since, now));
        for task in tasks {
            task.reschedule();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Dropped elsewhere, the worker has ended and its tasks with it.
        if !self.is_ended && self.residence.is_here() {
            let account = self.residence.account();
            with_queues(|queues| queues.release(&account, self.since, env::now()));
        }
    }
}
