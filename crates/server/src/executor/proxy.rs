//! Analytical threads in the run queues.
//!
//! A proxy's thread runs under `SCHED_IDLE`, so it gets nothing while its worker has work. When the governor picks its
//! tenant, the worker waits on its own ring for a quantum; completions cut that short, and the worker preempts the thread
//! at once. Where several proxies want to run, the picked one is raised to `SCHED_OTHER` at nice 19, or they would share
//! its quantum, and the worker itself to nice -20. A raised proxy is lowered when another one is picked or the worker goes
//! to wait for anything else; until then its little remaining share costs less than two system calls each turn. It is
//! charged by its thread's clock.
//!
//! A thread that waits is in no queue, so nobody picks it for the little that it does around its wait. At `SCHED_IDLE` that would take until its core has nothing else to do, a second and
//! more beside a worker that always has, and what the thread holds others would wait for as long. So it runs at the ordinary priority while it has leave to read or write, that is a place at the
//! device; and if its tenant is promised processor time, whenever it waits. So it does, too, for as long as it takes locks that workers take ([`ProxyState::sharing_locks`]): preempted in the midst
//! of one it would stop a worker for as long.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, TenantId};
use env::{Env, Priority, ThreadControl, ThreadWaker};

use super::background::Background;
use super::handle::{Account, Message, Work, WorkerHandle};
use super::io_permits::LimitWaits;

/// Longest time a worker waits for one proxy before it picks again.
pub const PROXY_QUANTUM: Nanos = Nanos::from_micros(500);
/// What completions leave a proxy of its quantum: the time they gather in, so that a worker beside a query neither wakes for
/// each message alone nor finds its caches emptied each time (decision 6). It is also what a message may wait longer for.
const PROXY_QUANTUM_MIN: Nanos = Nanos::from_micros(100);
/// Who was just answered is let in so long before it would be due again: then it stands behind a poll or two of others, and what it waits there is made up for by nothing.
const LET_IN_BEFORE: Nanos = Nanos::from_micros(50);

/// What completions leave of a quantum. `until_due`: how long until a tenant that was just answered would be due again, if one was.
pub(super) fn least_quantum(until_due: Option<Nanos>) -> Nanos {
    until_due.map_or(PROXY_QUANTUM_MIN, |due| (due - LET_IN_BEFORE).min(PROXY_QUANTUM_MIN))
}

pub(super) struct ProxyState {
    pub(super) account: Account,
    pub(super) control: ThreadControl,
    /// The thread wants to run. Written by the thread.
    wants: AtomicBool,
    /// It stands in a queue (or the inbox), or is being run. Set by whoever puts it there, cleared by the worker.
    queued: AtomicBool,
    /// The thread's clock when it was last charged; never, once the place has ended: what the thread does then is not for this tenant.
    charged_until: AtomicU64,
    /// What the thread stands still for, where it can. Written by the worker.
    held: Arc<AtomicBool>,
    pub(super) background: Background,
    thread: ThreadWaker,
    /// Its tenant is promised processor time.
    is_promised: bool,
    /// The worker wants the thread raised. Written by the worker.
    is_raised: AtomicBool,
    /// What the thread does that decides its priority. Locked by the thread for as long as it takes to change the two together, and by the worker where it has not to wait for that.
    doing: Mutex<Doing>,
    /// Locked by the thread in [`ProxyState::sharing_locks`] and at its end alone.
    at_limit: Mutex<AtLimit>,
}

/// Who is told for how long the tenant's limit of processor time holds the thread.
#[derive(Default)]
struct AtLimit {
    waits: Option<Arc<dyn LimitWaits>>,
    /// It was told that it does.
    is_told: bool,
}

/// What a thread's priority comes from.
struct Doing {
    waits: bool,
    /// It takes locks that workers take.
    shares_locks: bool,
    /// It has leave to read or write.
    has_leave: bool,
    /// Its place has ended.
    has_ended: bool,
    /// Somebody waits for that.
    is_hastened: bool,
    /// What it is at.
    is_at: Priority,
}

impl ProxyState {
    pub(super) fn wants_to_run(&self) -> bool {
        self.wants.load(Ordering::SeqCst)
    }

    /// Has the thread raised, or as low as can be, for as long as it is in no case at the ordinary priority. By the worker.
    ///
    /// # Errors
    /// The privilege is missing.
    pub(super) fn set_raised(&self, is_raised: bool) -> io::Result<()> {
        self.is_raised.store(is_raised, Ordering::SeqCst);
        // A thread that holds the lock now looks again once it has let go of it.
        fence(Ordering::SeqCst);
        let Ok(mut doing) = self.doing.try_lock() else { return Ok(()) };
        self.apply(&mut doing, is_raised)
    }

    fn apply(&self, doing: &mut Doing, is_raised: bool) -> io::Result<()> {
        let is_ordinary = doing.has_ended
            || doing.is_hastened
            || doing.has_leave
            || doing.shares_locks
            || (doing.waits && self.is_promised);
        let wanted = match is_raised {
            _ if is_ordinary => Priority::Normal,
            true => Priority::ProxyRaised,
            false => Priority::ProxyIdle,
        };
        if doing.is_at != wanted {
            self.control.set_priority(wanted)?;
            doing.is_at = wanted;
        }
        Ok(())
    }

    /// Needs a privilege where the system is strict; there the thread stays as low as it is.
    fn change(&self, change: impl FnOnce(&mut Doing)) {
        let mut doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut doing);
        loop {
            let is_raised = self.is_raised.load(Ordering::SeqCst);
            let _ = self.apply(&mut doing, is_raised);
            drop(doing);
            fence(Ordering::SeqCst);
            if self.is_raised.load(Ordering::SeqCst) == is_raised {
                return;
            }
            // The worker found it locked.
            doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs `body`, which takes locks that workers take and holds them for a moment, at the ordinary priority. By the thread; not within another one.
    pub(super) fn sharing_locks<R>(&self, body: impl FnOnce() -> R) -> R {
        self.change(|doing| doing.shares_locks = true);
        let result = body();
        self.change(|doing| doing.shares_locks = false);
        result
    }

    /// The thread is about to be given leave to read or write. By the worker, while the thread waits for that and changes nothing.
    pub(super) fn begin_io(&self) {
        self.change(|doing| doing.has_leave = true);
    }

    /// The thread has read or written. By the thread.
    pub(super) fn end_io(&self) {
        self.change(|doing| doing.has_leave = false);
    }

    /// Has the thread stand still, where it can, until [`ProxyState::release`]: another one has its turn, and at `SCHED_IDLE` it would take a part of that.
    pub(super) fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// As [`ProxyState::hold`], of a tenant that is over its limit: it would take what nobody else wants. Who is to be told is told, also of a thread that
    /// does not come to where it can stand still, as beside a worker that always has work.
    pub(super) fn hold_at_limit(&self) {
        self.hold();
        let mut at_limit = self.at_limit();
        if !at_limit.is_told
            && let Some(waits) = at_limit.waits.clone()
        {
            waits.begin();
            at_limit.is_told = true;
        }
    }

    /// Lets the thread go on at once: the worker is about to give it a quantum.
    pub(super) fn release(&self) {
        let mut at_limit = self.at_limit();
        if std::mem::take(&mut at_limit.is_told) {
            at_limit.waits.iter().for_each(|waits| waits.end());
        }
        drop(at_limit);
        if self.held.swap(false, Ordering::Relaxed) {
            self.thread.unpark();
        }
    }

    fn at_limit(&self) -> MutexGuard<'_, AtLimit> {
        self.at_limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody is told of limits from now on. By the thread, at its end.
    fn end_limits(&self) {
        let AtLimit { waits, is_told } = std::mem::take(&mut *self.at_limit());
        if is_told {
            waits.iter().for_each(|waits| waits.end());
        }
    }

    /// Called by the worker when the proxy does not want to run: takes it out of the queues. True if it has come to want
    /// to run meanwhile and is to be kept after all.
    pub(super) fn leave_queue(&self) -> bool {
        self.queued.store(false, Ordering::SeqCst);
        // The thread sets `wants` before it looks at `queued`, the worker clears `queued` before it looks at `wants`: so
        // at least one of them sees the other, and the swap lets exactly one act on it.
        self.wants_to_run() && !self.queued.swap(true, Ordering::SeqCst)
    }

    /// Time of the thread's clock not yet charged.
    pub(super) fn take_uncharged(&self) -> Nanos {
        let Some(cpu) = self.control.cpu_time() else { return Nanos(0) };
        Nanos(cpu.0.saturating_sub(self.charged_until.fetch_max(cpu.0, Ordering::Relaxed)))
    }

    /// As [`ProxyState::take_uncharged`], for the last time: of two that take at once each moment goes to one.
    fn take_rest(&self) -> Nanos {
        let Some(cpu) = self.control.cpu_time() else { return Nanos(0) };
        Nanos(cpu.0.saturating_sub(self.charged_until.swap(u64::MAX, Ordering::Relaxed)))
    }
}

/// The calling thread's place in a worker's run queue. Made and used on the thread it stands for; dropping it ends the
/// place and restores the thread's priority.
pub struct Proxy {
    state: Arc<ProxyState>,
}

impl Proxy {
    /// Puts the calling thread into `worker`'s run queue for `tenant`, under `SCHED_IDLE`, wanting to run. Pin the
    /// thread to the worker's core. The thread looks at `held` where it can stand still, and does while it is set; what it does is background
    /// work while `background` says so. `is_promised`: the tenant is promised processor time.
    pub fn enter(
        env: &Env,
        worker: &WorkerHandle,
        tenant: TenantId,
        is_promised: bool,
        held: &Arc<AtomicBool>,
        background: &Background,
    ) -> Proxy {
        let control = env.threads.current();
        let charged_until = control.cpu_time().unwrap_or_default().0;
        let state = ProxyState {
            account: worker.0.account(tenant),
            control,
            wants: AtomicBool::new(true),
            queued: AtomicBool::new(true),
            charged_until: AtomicU64::new(charged_until),
            held: held.clone(),
            background: background.clone(),
            thread: env::thread_waker(),
            is_promised,
            is_raised: AtomicBool::new(false),
            doing: Mutex::new(Doing {
                waits: false,
                shares_locks: true,
                has_leave: false,
                has_ended: false,
                is_hastened: false,
                is_at: Priority::Normal,
            }),
            at_limit: Mutex::default(),
        };
        let proxy = Proxy { state: Arc::new(state) };
        proxy.send();
        // Lowering oneself is always allowed; should it fail the thread merely competes at its present priority.
        proxy.state.change(|doing| doing.shares_locks = false);
        proxy
    }

    pub(super) fn state(&self) -> &Arc<ProxyState> {
        &self.state
    }

    /// By which its end can be hastened.
    pub(crate) fn haste(&self) -> Haste {
        Haste(self.state.clone())
    }

    /// Has `waits` told, until the place ends, of the times for which the tenant's limit of processor time holds the thread. In [`Proxy::sharing_locks`].
    pub(crate) fn tell_of_limit(&self, waits: Option<Arc<dyn LimitWaits>>) {
        self.state.at_limit().waits = waits;
    }

    /// Runs `wait`, which blocks the thread, with the proxy out of the run queue.
    pub fn blocked<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.out_of_queue(false, wait)
    }

    /// As [`Proxy::blocked`] for a wait that takes locks which workers take.
    pub(crate) fn blocked_sharing_locks<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.out_of_queue(true, wait)
    }

    /// Runs `body`, which takes locks that workers take and holds them for a moment. Not within a wait that does so.
    pub(crate) fn sharing_locks<R>(&self, body: impl FnOnce() -> R) -> R {
        self.state.sharing_locks(body)
    }

    fn out_of_queue<R>(&self, shares_locks: bool, wait: impl FnOnce() -> R) -> R {
        // Before the worker is woken, which goes before it from then on.
        self.state.change(|doing| (doing.waits, doing.shares_locks) = (true, shares_locks));
        self.state.wants.store(false, Ordering::SeqCst);
        // The worker may be waiting for this very quantum: it need not wait it out.
        self.state.account.worker.waker.wake();
        let result = wait();
        self.state.wants.store(true, Ordering::SeqCst);
        if !self.state.queued.swap(true, Ordering::SeqCst) {
            self.state.change(|doing| doing.shares_locks = true);
            self.send();
        }
        // Once it is where it is picked.
        self.state.change(|doing| (doing.waits, doing.shares_locks) = (false, false));
        result
    }

    fn send(&self) {
        let account = self.state.account.clone();
        let worker = account.worker.clone();
        worker.send(Message::Ready(account, Work::Proxy(self.state.clone())));
    }
}

/// Has a proxy's thread go on at the ordinary priority: for who waits for its end, whatever else the machine does.
#[derive(Clone)]
pub(crate) struct Haste(Arc<ProxyState>);

impl Haste {
    /// From any thread, which must not hold a lock that the proxy's takes in [`Proxy::sharing_locks`].
    pub(crate) fn ask(&self) {
        self.0.release();
        self.0.change(|doing| doing.is_hastened = true);
    }

    /// Whether both are of one proxy.
    pub(crate) fn is_same(&self, other: &Haste) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.wants.store(false, Ordering::SeqCst);
        // One that is reused stays as it is until it enters again. First, since the worker takes the locks of what follows.
        self.state.change(|doing| doing.has_ended = true);
        self.state.end_limits();
        self.state.release();
        // What the thread used since it was last picked is not picked again. The message wakes the worker, which may be waiting for this quantum.
        let account = self.state.account.clone();
        let worker = account.worker.clone();
        worker.send(Message::ChargeProxy(account, self.state.take_rest()));
    }
}
