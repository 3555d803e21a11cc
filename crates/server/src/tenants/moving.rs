//! Moving a tenant from its home to another worker while it works: decision 17 has the protocol and its crash cases.
//!
//! Its tasks are held; when the log of the home is durable through the tenant's last commit, its state, its tasks and its place among the open tenants
//! go over in one turn of the home's thread. No statement is undone and no session is told anything: a task goes on at its next await. What cannot be done in
//! [`HELD_MAX`] is given up and tried again a little later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{Nanos, TenantId, WorkerId};

use super::Home;
use crate::shared::Shared;

/// How long an attempt waits for the log before it holds the tenant's tasks.
const LOG_WAIT_MAX: Nanos = Nanos::from_secs(1);

/// How long a tenant's tasks are held at most for the log of its home: of the 10 ms that a move may take, those left are for the turns of the two
/// workers, in which others are polled.
const HELD_MAX: Nanos = Nanos::from_millis(6);
/// Between two attempts; twice as long each time, up to the second.
const RETRY_MIN: Nanos = Nanos::from_millis(2);
const RETRY_MAX: Nanos = Nanos::from_millis(100);

/// What is known of a tenant's moves.
#[derive(Default)]
pub(crate) struct MoveState {
    /// An attempt is under way.
    is_under_way: AtomicBool,
    /// When it last moved, if it did.
    moved_at: AtomicU64,
    /// It was moved by hand, and is not to leave for load's sake.
    is_kept: AtomicBool,
}

/// An attempt, while it lasts.
struct UnderWay<'a>(&'a MoveState);

/// A tenant on its way to where it is to be kept, and kept meanwhile. Dropped before [`Keeping::arrived`], it is kept if it was before.
pub(crate) struct Keeping<'a> {
    moving: &'a MoveState,
    before: bool,
}

impl Keeping<'_> {
    /// It is where it is to be kept.
    pub(crate) fn arrived(mut self) {
        self.before = true;
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        // Also where a pass moved it since, and gave it free.
        self.moving.is_kept.store(self.before, Ordering::Relaxed);
    }
}

impl MoveState {
    fn keep(&self) -> Keeping<'_> {
        Keeping { moving: self, before: self.is_kept.swap(true, Ordering::Relaxed) }
    }

    fn begin(&self) -> Option<UnderWay<'_>> {
        (!self.is_under_way.swap(true, Ordering::AcqRel)).then(|| UnderWay(self))
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.is_under_way.store(false, Ordering::Release);
    }
}

impl Home {
    /// When the tenant last moved in this start of the server.
    pub(crate) fn moved_at(&self) -> Option<Nanos> {
        Some(self.moving.moved_at.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Nanos)
    }

    /// Whether it stays where it is whatever the load.
    pub(crate) fn is_kept(&self) -> bool {
        self.moving.is_kept.load(Ordering::Relaxed)
    }

    pub(crate) fn set_kept(&self, is_kept: bool) {
        self.moving.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Keeps it from being moved for load, while what is returned lives and, once that has arrived, from then on.
    pub(crate) fn keep(&self) -> Keeping<'_> {
        self.moving.keep()
    }

    /// Makes worker `to` the tenant's home, if it is not. Tries until it succeeds, or until the first attempt that ends after `give_up_at`; true if it is the
    /// home then. Waits for the end of a long change of the tenant, which may take as long as that does. From any thread; may be dropped.
    pub(crate) async fn move_to(
        self: &Arc<Home>,
        shared: &Arc<Shared>,
        to: WorkerId,
        give_up_at: Option<Nanos>,
    ) -> bool {
        assert_ne!(self.id(), TenantId::SYSTEM, "the server's own tenant has tasks on all workers");
        let mut pause = RETRY_MIN;
        loop {
            let from = self.worker();
            if from.id() == to {
                return true;
            }
            let attempt = self.clone().try_move(shared.clone(), to);
            // The server's own work, on the thread that can give the tenant away.
            if from.spawn(TenantId::SYSTEM, attempt).await == Some(true) {
                tracing::debug!(tenant = self.id().0, from = from.id().0, to = to.0, "a tenant has moved");
                return true;
            }
            if give_up_at.is_some_and(|at| env::now() >= at) {
                return false;
            }
            env::sleep(pause).await;
            pause = Nanos(pause.0 * 2).min(RETRY_MAX);
        }
    }

    /// Waits until no call of the tenant is suspended; false where they last too long, or the tenant has left. Who looks at its state before the next await
    /// finds none half-way. On the thread that was the tenant's home a moment ago.
    async fn has_no_call(&self) -> bool {
        let deadline = Some(env::now() + LOG_WAIT_MAX);
        // Of several sessions the next call may have begun by then.
        while self.is_here() && self.is_in_a_call() {
            if env::timeout_at(deadline, self.calls_end()).await.is_err() {
                return false;
            }
        }
        self.is_here()
    }

    /// One attempt, on the thread that was the tenant's home a moment ago. Dropped, it was none.
    async fn try_move(self: Arc<Home>, shared: Arc<Shared>, to: WorkerId) -> bool {
        let Some(_under_way) = self.moving.begin() else { return false };
        let target = shared.seat(to);
        // A log that fails takes no commits, and a tenant must not be refused because it moved.
        if !self.is_here() || target.log.failure().is_some() {
            return false;
        }
        // A long call is not run to its end for an attempt.
        if !self.has_no_call().await {
            return false;
        }
        // What there is already, while the tenant goes on: little is left to wait for then.
        let Some((log, through)) = self.may_leave() else { return false };
        // A log that finds no room may be late for as long as its disk is full.
        let deadline = Some(env::now() + LOG_WAIT_MAX);
        let is_durable = matches!(env::timeout_at(deadline, log.wait_durable(through)).await, Ok(Ok(())));
        // The next long call may have begun meanwhile, and the one behind that: a tenant that is never without one is to move, too.
        if !is_durable || !self.has_no_call().await || self.may_leave().is_none() {
            return false;
        }
        let held = self.residence().hold();
        let Some((log, through)) = self.may_leave() else { return false };
        let deadline = Some(env::now() + HELD_MAX);
        if !matches!(env::timeout_at(deadline, log.wait_durable(through)).await, Ok(Ok(()))) {
            return false;
        }
        // The log may have failed meanwhile, here or there.
        let is_durable = self.may_leave().is_some_and(|(log, through)| through <= log.durable());
        if !is_durable || target.log.failure().is_some() {
            return false;
        }
        self.leave(&shared, held, usize::from(to.0));
        self.moving.moved_at.store(env::now().0.max(1), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_does_not_arrive_is_kept_only_if_it_was_before() {
        let moving = MoveState::default();
        let is_kept = || moving.is_kept.load(Ordering::Relaxed);
        let keeping = moving.keep();
        assert!(is_kept(), "on its way");
        drop(keeping);
        assert!(!is_kept());
        moving.keep().arrived();
        assert!(is_kept());
        drop(moving.keep());
        assert!(is_kept(), "as before");
    }
}
