//! A query's place among those that advance, which others have while its client does not read, or its tenant's own limit, of I/O or of processor time, holds
//! it.

use std::sync::{Arc, Mutex};

use base::{Nanos, TenantId};

use super::channel::Channel;
use super::turns::{Parked, Turns};
use super::{Job, Queue, lock};
use crate::executor::LimitWaits;

/// How often a thread that waits for a place looks whether anybody still wants the result.
const LOOK: Nanos = Nanos::from_millis(50);

/// How long a query keeps its place while its client does not read and others want one, where too many have left theirs for that.
const KEPT_MAX: Nanos = Nanos::from_secs(10);

/// Which places it is one of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Of [`super::turns`].
    Turn,
    /// Of [`super::looks`]: it is kept until the query has ended.
    Look,
}

impl Queue {
    /// A place is free, for which one more thread is needed, if it is.
    fn tell_freed(self: &Arc<Queue>, needs_thread: bool) {
        self.freed.notify_all();
        self.changed.notify_one();
        if needs_thread && let Err(error) = self.start_thread() {
            tracing::warn!(%error, "queries wait for another one's thread");
        }
    }
}

/// Leaves the query's place to others while its tenant's own limit holds what it reads or writes, or its thread. After that it goes on at once: the device,
/// or the worker, has its turn for it.
pub(super) struct LimitWait {
    queue: Arc<Queue>,
    /// Locked within the queue's lock.
    stands: Mutex<Stands>,
}

/// Where a query stands with its place.
#[derive(Default)]
struct Stands {
    /// Limits that hold it.
    held_by: u32,
    /// Others have its place for that ([`Turns::hold`]).
    has_left: bool,
    /// It waits for its client, or for a place after that: there is none to leave.
    is_parked: bool,
}

impl LimitWait {
    /// For a query that has such a place.
    pub(super) fn of(queue: &Arc<Queue>, kind: Kind) -> Option<Arc<LimitWait>> {
        match kind {
            Kind::Turn => Some(Arc::new(LimitWait { queue: queue.clone(), stands: Mutex::default() })),
            Kind::Look => None,
        }
    }

    /// The place is the query's, whatever holds it. With the queue's lock.
    fn take_back(&self, jobs: &mut Turns<Job>) {
        if std::mem::take(&mut lock(&self.stands).has_left) {
            jobs.go_on();
        }
    }

    /// With the queue's lock.
    fn set_parked(&self, is_parked: bool) {
        lock(&self.stands).is_parked = is_parked;
    }
}

impl LimitWaits for LimitWait {
    fn begin(&self) {
        let mut waiting = lock(&self.queue.waiting);
        let mut stands = lock(&self.stands);
        stands.held_by += 1;
        if stands.has_left || stands.is_parked || !waiting.jobs.hold() {
            return;
        }
        stands.has_left = true;
        drop(stands);
        // This is so for each I/O, and each quantum: threads that would find nothing to do are let be.
        if waiting.jobs.are_kept_waiting() {
            let needs_thread = waiting.needs_thread();
            drop(waiting);
            self.queue.tell_freed(needs_thread);
        }
    }

    fn end(&self) {
        let mut waiting = lock(&self.queue.waiting);
        let mut stands = lock(&self.stands);
        stands.held_by = stands.held_by.checked_sub(1).expect("one held it");
        let goes_on = stands.held_by == 0;
        drop(stands);
        if goes_on {
            self.take_back(&mut waiting.jobs);
        }
    }
}

/// Of the query that the calling thread runs.
pub(super) struct Place<'a> {
    queue: &'a Arc<Queue>,
    tenant: TenantId,
    kind: Kind,
    limit: Option<Arc<LimitWait>>,
}

impl<'a> Place<'a> {
    pub(super) fn new(
        queue: &'a Arc<Queue>,
        tenant: TenantId,
        kind: Kind,
        limit: Option<Arc<LimitWait>>,
    ) -> Place<'a> {
        Place { queue, tenant, kind, limit }
    }

    /// Waits until the session has taken an event. The place is others' meanwhile, and is waited for after that. False if the query is to end:
    /// more than may have left their places for this, and others wait for one.
    pub(super) fn while_client_reads(&self, events: &Channel) -> bool {
        if self.kind == Kind::Look {
            events.await_room(None);
            return true;
        }
        if !self.leave() {
            return self.keep(events);
        }
        events.await_room(None);
        let began = self.queue.env.now();
        self.come_back(events);
        events.end_wait(self.queue.env.now() - began);
        true
    }

    fn leave(&self) -> bool {
        let mut waiting = lock(&self.queue.waiting);
        self.limit.iter().for_each(|limit| limit.take_back(&mut waiting.jobs));
        if waiting.jobs.park(self.tenant) == Parked::TooMany {
            return false;
        }
        self.limit.iter().for_each(|limit| limit.set_parked(true));
        waiting.tell_wanted(&self.queue.worker, self.tenant);
        let needs_thread = waiting.needs_thread();
        drop(waiting);
        self.queue.tell_freed(needs_thread);
        true
    }

    fn keep(&self, events: &Channel) -> bool {
        let began = self.queue.env.now();
        while !events.await_room(Some(LOOK)) {
            let is_long = self.queue.env.now() - began > KEPT_MAX;
            if is_long && lock(&self.queue.waiting).jobs.are_kept_waiting() {
                return false;
            }
        }
        true
    }

    /// Has the place again, at once if nobody wants the result: then the query ends.
    fn come_back(&self, events: &Channel) {
        let mut waiting = lock(&self.queue.waiting);
        waiting.jobs.ask_back(self.tenant);
        waiting.tell_wanted(&self.queue.worker, self.tenant);
        while !waiting.jobs.come_back(self.tenant, events.is_given_up()) {
            waiting = self.queue.freed.wait(&self.queue.waiting, waiting, Some(LOOK));
        }
        self.limit.iter().for_each(|limit| limit.set_parked(false));
        waiting.tell_wanted(&self.queue.worker, self.tenant);
    }

    /// The query has ended.
    pub(super) fn end(self) {
        let mut waiting = lock(&self.queue.waiting);
        match self.kind {
            Kind::Look => waiting.looks.ended(self.tenant),
            Kind::Turn => waiting.jobs.ended(self.tenant),
        }
        waiting.tell_wanted(&self.queue.worker, self.tenant);
        drop(waiting);
        self.queue.freed.notify_all();
    }
}
