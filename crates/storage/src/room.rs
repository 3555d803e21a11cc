//! Room in memory for pages that are about to be read, and the right to hold pages, each asked for in a tenant's name.
//!
//! A load takes room when it is its turn at the device, not before: what waits for a tenant's own limit takes nothing from others. Where there is
//! none it gives its place at the device up and stands in a line ([`governor::RoomLine`] says who is next); evictors serve the line when
//! they have made some. Nobody passes a line that has anybody in it, read-ahead neither.
//!
//! Threads that block may stand still at low priority whatever they have locked, so they leave what they add to the line at a door of their own,
//! which workers only try.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, TryLockError};
use std::task::{Context, Poll};

use base::{ByteCount, Nanos, TenantId};
use env::ThreadWaker;
use futures::task::AtomicWaker;
use governor::{RoomLine, RoomStanding};

use crate::memory_budget::{MemoryBudget, PAGE, lock};
use crate::version::MapShared;

/// How often a blocked thread makes sure that somebody makes room.
const BLOCKED_LOOK: Nanos = Nanos::from_millis(1);
/// Looks after which it takes what room there is by itself: whoever serves the line is late, and is not one that waits for this thread.
const BLOCKED_LOOKS_MAX: u32 = 3;

/// Room for one page that is about to be loaded. The loaded page is charged by itself, so drop this after.
pub struct Room(Arc<MapShared>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.rooms.fetch_sub(1, Ordering::Relaxed);
        self.0.budget().expect("whoever has room has a budget").refund(PAGE);
    }
}

/// A load that waits for room.
pub(crate) struct Waiter {
    of: Arc<MapShared>,
    /// One of the three below.
    state: AtomicU8,
    told: Told,
}

const WAITS: u8 = 0;
const HAS_ROOM: u8 = 1;
/// It waits no more, and was given none.
const GONE: u8 = 2;

enum Told {
    Task(AtomicWaker),
    Thread(ThreadWaker),
}

impl Waiter {
    fn new(of: &Arc<MapShared>, told: Told) -> Arc<Waiter> {
        Arc::new(Waiter { of: of.clone(), state: AtomicU8::new(WAITS), told })
    }

    fn tenant(&self) -> TenantId {
        self.of.tenant()
    }

    fn has_room(&self) -> bool {
        self.state.load(Ordering::SeqCst) == HAS_ROOM
    }

    fn ends_as(&self, state: u8) -> bool {
        self.state.compare_exchange(WAITS, state, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives it room that was reserved; false if it waits no more.
    fn give(&self) -> bool {
        let waits = self.ends_as(HAS_ROOM);
        if waits {
            self.of.rooms.fetch_add(1, Ordering::Relaxed);
            match &self.told {
                Told::Task(waker) => waker.wake(),
                Told::Thread(thread) => thread.unpark(),
            }
        }
        waits
    }
}

/// Asks for a tenant's rooms. Clones ask for the same one's.
#[derive(Clone)]
pub struct RoomAsker(Arc<MapShared>);

impl RoomAsker {
    /// For the pages of a map; `None` if it has no budget.
    pub(crate) fn of(shared: &Arc<MapShared>) -> Option<RoomAsker> {
        shared.budget().map(|_| RoomAsker(shared.clone()))
    }

    fn budget(&self) -> &MemoryBudget {
        self.0.budget().expect("checked when it was made")
    }

    /// Room for one page now, if there is any and no load waits for it.
    pub fn room_now(&self) -> Option<Room> {
        if self.budget().has_line() { None } else { self.room_before_others() }
    }

    fn room_before_others(&self) -> Option<Room> {
        if !self.budget().try_reserve() {
            return None;
        }
        self.0.rooms.fetch_add(1, Ordering::Relaxed);
        Some(Room(self.0.clone()))
    }

    /// Room for up to `pages` pages, as [`RoomAsker::room_now`]: as many as there is.
    pub(crate) fn rooms_now(&self, pages: usize) -> Vec<Room> {
        (0..pages).map_while(|_| self.room_now()).collect()
    }

    /// How many rooms beside one [`RoomAsker::rooms_now`] would find at this moment, up to `pages`. Takes none: so that a read does not pay for pages
    /// that it would have to leave out.
    pub(crate) fn rooms_beside_one(&self, pages: usize) -> usize {
        if self.budget().has_line() { 0 } else { self.budget().pages_left().saturating_sub(1).min(pages) }
    }

    /// Waits in the line until there is room for one page to be loaded, and takes it.
    pub async fn room(&self) -> Room {
        if let Some(room) = self.room_now() {
            return room;
        }
        let mut wait = Wait {
            asker: self,
            waiter: Waiter::new(&self.0, Told::Task(AtomicWaker::new())),
            is_over: false,
        };
        self.budget().enter_line(wait.waiter.clone());
        poll_fn(|cx| wait.poll(cx)).await
    }

    /// As [`RoomAsker::room`] for a thread that may block. Takes no lock that a worker waits for.
    pub fn room_blocking(&self) -> Room {
        if let Some(room) = self.room_now() {
            return room;
        }
        let budget = self.budget();
        let waiter = Waiter::new(&self.0, Told::Thread(env::thread_waker()));
        budget.enter_line_blocking(waiter.clone());
        let mut looks = 0;
        while !waiter.has_room() {
            env::park(Some(BLOCKED_LOOK));
            budget.press();
            looks += 1;
            if looks > BLOCKED_LOOKS_MAX
                && let Some(room) = self.room_before_others()
            {
                if waiter.ends_as(GONE) {
                    budget.leave_line();
                    return room;
                }
                // It was given some at the same moment.
                assert!(waiter.has_room(), "only this thread goes away");
            }
        }
        budget.leave_line();
        Room(self.0.clone())
    }

    /// Whether the tenant's statements may hold one more page.
    fn may_hold(&self) -> bool {
        self.budget().holds().may_hold(&self.0.holds)
    }

    /// Waits until a statement that holds no page may hold its first one. Who holds pages already never waits here, so there
    /// is always somebody who comes to an end.
    pub async fn hold_room(&self) {
        poll_fn(|cx| {
            if self.may_hold() {
                return Poll::Ready(());
            }
            let mut waiting = lock(&self.budget().waiting_to_hold);
            let is_known = |(asker, waker): &(RoomAsker, std::task::Waker)| {
                Arc::ptr_eq(&asker.0, &self.0) && waker.will_wake(cx.waker())
            };
            if !waiting.iter().any(is_known) {
                waiting.push((self.clone(), cx.waker().clone()));
            }
            drop(waiting);
            if self.may_hold() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Has a statement of the tenant hold one more page; false if it may not.
    pub(crate) fn try_hold(&self) -> bool {
        self.budget().holds().try_hold(&self.0.holds)
    }

    /// The map is gone: its tenant is assured of nothing any more.
    pub(crate) fn forget_promise(&self) {
        self.budget().holds().set_promised(&self.0.holds, ByteCount(0));
    }

    pub(crate) fn end_holds(&self, pages: usize) {
        if pages > 0 {
            let budget = self.budget();
            budget.holds().end(&self.0.holds, pages as u64);
            lock(&budget.waiting_to_hold).retain(|(asker, waker)| {
                let may = asker.may_hold();
                if may {
                    waker.wake_by_ref();
                }
                !may
            });
        }
    }
}

/// A task's place in the line, which it leaves when it goes away.
struct Wait<'a> {
    asker: &'a RoomAsker,
    waiter: Arc<Waiter>,
    is_over: bool,
}

impl Wait<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Room> {
        let Told::Task(waker) = &self.waiter.told else { unreachable!("a task's") };
        waker.register(cx.waker());
        if !self.waiter.has_room() {
            return Poll::Pending;
        }
        self.is_over = true;
        self.asker.budget().leave_line();
        Poll::Ready(Room(self.asker.0.clone()))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let budget = self.asker.budget();
        if self.waiter.ends_as(GONE) {
            budget.leave_line_unserved(&self.waiter);
        } else {
            budget.leave_line();
            drop(Room(self.asker.0.clone()));
            budget.wake_waiting();
        }
    }
}

impl MapShared {
    fn standing(&self) -> RoomStanding {
        let promised = self.metered.share().map_or(0, |share| share.promised().0);
        let held = self.holds.held() + self.rooms.load(Ordering::Relaxed);
        RoomStanding { is_below_promise: self.resident_frames().0 < promised, held }
    }
}

/// The loads that wait, of which [`MemoryBudget`] has one line.
#[derive(Default)]
pub(crate) struct Line(RoomLine<Arc<Waiter>>);

impl MemoryBudget {
    fn enter_line(&self, waiter: Arc<Waiter>) {
        self.loads_waiting.fetch_add(1, Ordering::SeqCst);
        let mut line = lock(&self.line);
        line.0.push(waiter.tenant(), waiter);
        self.has_line.store(true, Ordering::SeqCst);
        // Room may have come after the first look.
        self.serve(&mut line);
        drop(line);
        self.press();
    }

    fn enter_line_blocking(&self, waiter: Arc<Waiter>) {
        self.loads_waiting.fetch_add(1, Ordering::SeqCst);
        let mut door = lock(&self.door);
        door.push(waiter);
        // Within the lock: whoever empties the line has seen the door after or before this.
        self.has_line.store(true, Ordering::SeqCst);
        drop(door);
        self.press();
    }

    fn leave_line(&self) {
        self.loads_waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn leave_line_unserved(&self, waiter: &Arc<Waiter>) {
        self.leave_line();
        let mut line = lock(&self.line);
        let _ = line.0.remove(waiter.tenant(), |other| Arc::ptr_eq(other, waiter));
        self.serve(&mut line);
    }

    /// Gives what room there is to the loads that wait; called by evictors after they made some.
    pub fn wake_waiting(&self) {
        if self.has_line() {
            self.serve(&mut lock(&self.line));
        }
    }

    fn serve(&self, line: &mut Line) {
        // Kept: nothing comes in by it until it is known whether the line is empty.
        let mut door = match self.door.try_lock() {
            Ok(door) => Some(door),
            Err(TryLockError::Poisoned(door)) => Some(door.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        for waiter in door.iter_mut().flat_map(|door| door.drain(..)) {
            line.0.push(waiter.tenant(), waiter);
        }
        while !line.0.is_empty() && self.try_reserve() {
            let next = line.0.next(|waiter| waiter.of.standing()).expect("it is not empty");
            if !next.give() {
                self.refund(PAGE);
            }
        }
        self.has_line.store(!line.0.is_empty() || door.is_none(), Ordering::SeqCst);
    }
}
