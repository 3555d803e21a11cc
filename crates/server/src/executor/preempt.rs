//! Takes the worker away from a call in the middle of a poll, so that a long statement has others wait for a quarter of a millisecond and not for
//! all of its length.
//!
//! A call that may be long runs on a stack of its own ([`Preemptible`]). Where it looks whether it is to end it also asks whether its turn is over,
//! and is suspended if so: the poll ends, others have their turns, and the next poll goes on where it was, before any other task of its tenant. What
//! it has borrowed stays borrowed. So whoever else of the thread uses the tenant's state meanwhile first runs the call to its end
//! (`Residence::enter`): within the tenant it is as if the call had never been suspended.
//!
//! State: the worker's suspended calls and the stacks it keeps for the next. A suspended call never leaves its thread.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread;

use base::TenantId;
use base::limits::THREAD_STACK_LEN;
use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult};
use env::StackMemory;

use super::residence::Residence;
use super::run_queues::Place;
use super::task_use::TaskUse;
use super::worker::{try_with_preemption, with_preemption};

/// Calls that are suspended on a worker at most: further ones keep their turns. A tenant has one at a time, and one that is over its limit of processor time
/// has it for as long as the limit says: so these are tenants of which each is in the midst of a long statement. Each holds a stack, of which what was
/// touched takes memory.
pub(super) const SUSPENDED_MAX: usize = 1_024;
/// Of 128 TiB of address space, for as many workers as a machine may have.
const _: () = assert!(SUSPENDED_MAX as u64 * THREAD_STACK_LEN.0 <= 256 << 30);
/// Stacks without a call that a worker keeps.
const SPARE_STACKS_MAX: usize = 8;
/// What a stack without a call keeps of the memory it has touched, from time to time: few statements nest deeply.
const STACK_KEPT_LEN: usize = 256 << 10;
/// Calls that end in their turn until the stack of one is trimmed. Those of calls that were suspended always are.
const CALLS_UNTRIMMED: u32 = 1024;

/// Told to a call that goes on: whether it may be suspended again.
type MaySuspend = bool;
type Yielder = corosensei::Yielder<MaySuspend, ()>;

/// As long as a thread's, since what runs on it may nest as deeply.
struct CallStack(StackMemory);

// SAFETY: base and limit are those of one mapping, which lives as long as the value, are multiples of 16, and there is a guard below the limit.
unsafe impl Stack for CallStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.0.range().end).expect("no mapping ends at 0")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.0.range().start).expect("no mapping begins at 0")
    }
}

/// What of preemption a worker keeps.
pub(super) struct Preemption {
    stacks: RefCell<Vec<CallStack>>,
    untrimmed: Cell<u32>,
    suspended: RefCell<Vec<Entry>>,
    /// Of the call that runs, if it may be suspended.
    running: Cell<Option<NonNull<Yielder>>>,
    /// How often a call was suspended so far.
    suspensions: Cell<u64>,
    /// Of the task that is woken next: first if its call was just suspended.
    place: Cell<Place>,
}

struct Entry {
    ticket: u64,
    tenant: TenantId,
    call: Box<dyn Suspended>,
}

/// A call in the middle.
trait Suspended {
    /// Lets it go on; true if it has ended, its outcome then told to its task.
    fn go_on(&mut self, preemption: &Preemption, may_suspend: MaySuspend) -> bool;

    /// What its task takes.
    fn used(&self) -> &TaskUse;
}

impl Preemption {
    pub(super) fn new() -> Preemption {
        Preemption {
            stacks: RefCell::default(),
            untrimmed: Cell::new(0),
            suspended: RefCell::default(),
            running: Cell::new(None),
            suspensions: Cell::new(0),
            place: Cell::new(Place::Last),
        }
    }

    /// `None` where the system has no more, or too many calls are suspended.
    fn take_stack(&self) -> Option<CallStack> {
        if self.suspended.borrow().len() >= SUSPENDED_MAX {
            return None;
        }
        if let Some(stack) = self.stacks.borrow_mut().pop() {
            return Some(stack);
        }
        let len = usize::try_from(THREAD_STACK_LEN.0).expect("an address space holds a stack");
        StackMemory::new(len).map(CallStack)
    }

    fn give_back(&self, mut stack: CallStack, was_suspended: bool) {
        if was_suspended || self.untrimmed.replace(self.untrimmed.get() + 1) >= CALLS_UNTRIMMED {
            self.untrimmed.set(0);
            stack.0.trim(STACK_KEPT_LEN);
        }
        let mut stacks = self.stacks.borrow_mut();
        if stacks.len() < SPARE_STACKS_MAX {
            stacks.push(stack);
        }
    }

    /// Whether what runs can be suspended.
    pub(super) fn can_suspend(&self) -> bool {
        self.running.get().is_some()
    }

    /// Where the task that is woken now stands among those of its tenant.
    pub(super) fn take_place(&self) -> Place {
        self.place.take()
    }

    fn enter(&self, tenant: TenantId, call: Box<dyn Suspended>) -> u64 {
        static TICKETS: AtomicU64 = AtomicU64::new(0);
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        self.suspended.borrow_mut().push(Entry { ticket, tenant, call });
        ticket
    }

    fn leave(&self, is_it: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut suspended = self.suspended.borrow_mut();
        let at = suspended.iter().position(is_it)?;
        Some(suspended.swap_remove(at))
    }

    /// Runs the suspended call of `tenant` to its end.
    ///
    /// # Panics
    /// If none is suspended here.
    pub(super) fn finish(&self, tenant: TenantId) {
        let entry = self.leave(|entry| entry.tenant == tenant).expect("a suspended call is where it began");
        self.run_to_end(entry);
    }

    /// Not in a poll of the call's own task.
    fn run_to_end(&self, mut entry: Entry) {
        let outer = self.running.take();
        entry.call.used().poll_begins();
        let has_ended = entry.call.go_on(self, false);
        entry.call.used().poll_ends();
        assert!(has_ended, "a call that may not be suspended runs to its end");
        self.running.set(outer);
    }

    /// Differs between two points of a call if it was suspended between them.
    pub(super) fn suspensions(&self) -> u64 {
        self.suspensions.get()
    }
}

/// Suspends the call that runs, if it can be. Whatever it has locked stays so: nothing that tasks of other tenants may want, then.
pub(super) fn suspend() {
    let yielder = with_preemption(|preemption| {
        preemption.suspensions.set(preemption.suspensions.get() + 1);
        preemption.running.take()
    });
    if let Some(yielder) = yielder {
        // SAFETY: it is that of the coroutine on whose stack this runs: the coroutine set it when it began or went on, and it is taken out wherever the
        // coroutine is left or another one begins.
        let may_suspend = unsafe { yielder.as_ref() }.suspend(());
        with_preemption(|preemption| preemption.running.set(may_suspend.then_some(yielder)));
    }
}

/// Where a suspended call leaves its outcome.
struct Outcome<R>(Mutex<Option<thread::Result<R>>>);

impl<R> Outcome<R> {
    fn take(&self) -> Option<thread::Result<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, result: thread::Result<R>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

struct Call<R> {
    /// `None` after its end.
    coroutine: Option<Coroutine<MaySuspend, (), R, CallStack>>,
    outcome: Arc<Outcome<R>>,
    used: Arc<TaskUse>,
}

impl<R> Suspended for Call<R> {
    fn go_on(&mut self, preemption: &Preemption, may_suspend: MaySuspend) -> bool {
        let coroutine = self.coroutine.as_mut().expect("a suspended call has not ended");
        // A panic of the call is its task's, not that of who finishes it.
        let resumed = catch_unwind(AssertUnwindSafe(|| coroutine.resume(may_suspend)));
        let result = match resumed {
            Ok(CoroutineResult::Yield(())) => return false,
            Ok(CoroutineResult::Return(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        // What called `suspend` last left this set.
        preemption.running.set(None);
        preemption.give_back(self.coroutine.take().expect("it was resumed").into_stack(), true);
        self.outcome.put(result);
        true
    }

    fn used(&self) -> &TaskUse {
        &self.used
    }
}

/// Runs a call with the state of one tenant, on its home's thread. A future whose polls may end with the call half-way.
///
/// What `body` borrows is used until the call has ended. So dropping it runs a suspended call to its end.
#[must_use = "runs when awaited"]
pub(crate) struct Preemptible<'a, F, R> {
    residence: &'a Residence,
    used: &'a Arc<TaskUse>,
    body: Option<F>,
    /// Of a call that was suspended.
    suspended: Option<(u64, Arc<Outcome<R>>)>,
    /// It is on the thread's list of suspended calls, by what it borrows.
    _pinned: PhantomData<std::marker::PhantomPinned>,
}

/// See [`Preemptible`]. `used` is what the task takes that polls it.
///
/// # Safety
/// A future that has been polled must not be leaked while what `body` borrows ends: dropping it is what ends the call.
pub(crate) unsafe fn preemptible<'a, F, R>(
    residence: &'a Residence,
    used: &'a Arc<TaskUse>,
    body: F,
) -> Preemptible<'a, F, R>
where
    F: FnOnce() -> R,
{
    Preemptible { residence, used, body: Some(body), suspended: None, _pinned: PhantomData }
}

impl<F, R> Preemptible<'_, F, R>
where
    F: FnOnce() -> R,
    R: Send + 'static,
{
    fn begin(&mut self, preemption: &Preemption) -> Poll<R> {
        let body = self.body.take().expect("not polled after its end");
        let Some(stack) = preemption.take_stack() else { return Poll::Ready(body()) };
        let entry = |yielder: &Yielder, _| {
            with_preemption(|preemption| preemption.running.set(Some(NonNull::from(yielder))));
            body()
        };
        // SAFETY: what `body` borrows lives as long as this future, which is not leaked, as who made it has promised; and dropped it runs the call to
        // its end. When this function unwinds the coroutine has ended.
        let mut coroutine = unsafe { Coroutine::with_stack_unchecked(stack, entry) };
        let resumed = catch_unwind(AssertUnwindSafe(|| coroutine.resume(true)));
        match resumed {
            Ok(CoroutineResult::Return(output)) => {
                preemption.running.set(None);
                preemption.give_back(coroutine.into_stack(), false);
                Poll::Ready(output)
            }
            Ok(CoroutineResult::Yield(())) => {
                let outcome = Arc::new(Outcome(Mutex::new(None)));
                let call =
                    Call { coroutine: Some(coroutine), outcome: outcome.clone(), used: self.used.clone() };
                let ticket = preemption.enter(self.residence.tenant(), Box::new(call));
                self.suspended = Some((ticket, outcome));
                Poll::Pending
            }
            Err(panic) => {
                preemption.running.set(None);
                resume_unwind(panic)
            }
        }
    }

    fn go_on(&mut self, preemption: &Preemption) -> Poll<R> {
        let (ticket, outcome) = self.suspended.as_ref().expect("it was suspended");
        if let Some(result) = outcome.take() {
            self.suspended = None;
            return Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        let mut entry =
            preemption.leave(|entry| entry.ticket == *ticket).expect("a suspended call is where it began");
        self.residence.set_suspended(false);
        if entry.call.go_on(preemption, true) {
            let result = outcome.take().expect("it has just ended");
            self.suspended = None;
            return Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        preemption.suspended.borrow_mut().push(entry);
        Poll::Pending
    }
}

impl<F, R> Future for Preemptible<'_, F, R>
where
    F: FnOnce() -> R,
    R: Send + 'static,
{
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        // SAFETY: nothing in it is pinned structurally.
        let this = unsafe { self.get_unchecked_mut() };
        let polled = with_preemption(|preemption| match this.suspended {
            None => this.begin(preemption),
            Some(_) => this.go_on(preemption),
        });
        if polled.is_pending() {
            debug_assert!(!this.residence.has_suspended(), "one call at a time uses a tenant's state");
            this.residence.set_suspended(true);
            with_preemption(|preemption| preemption.place.set(Place::First));
            cx.waker().wake_by_ref();
        }
        polled
    }
}

impl<F, R> Drop for Preemptible<'_, F, R> {
    fn drop(&mut self) {
        let Some((ticket, outcome)) = self.suspended.take() else { return };
        if outcome.take().is_some() {
            return;
        }
        let entry = try_with_preemption(|preemption| preemption.leave(|entry| entry.ticket == ticket));
        if let Some(entry) = entry.flatten() {
            self.residence.set_suspended(false);
            with_preemption(|preemption| preemption.run_to_end(entry));
        } else {
            // What it borrows is about to go, and its stack still refers to it.
            std::process::abort();
        }
    }
}
