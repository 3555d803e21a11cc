//! A small budget for the pages of a simulated server: its evictor, the waits for room, and the check that it is kept.
//!
//! The evictor does what `server`'s does, one for all workers. Reads that block, as analytical threads make them, would hold
//! the world's one thread still: what they wait for is made for them around the wait.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos};
use env::AroundWaits;
use governor::VictimChoice;
use storage::{MemoryBudget, THAWED_LEN_MAX};
use tenant::WriterWait;

use crate::{Home, Stop, chores, require};

/// Pages that a scan reads at most along with one it missed.
const READ_AHEAD: usize = 8;
/// Rounds over all pages without one evicted before changed pages are written or a load goes over the limit.
const DRY_ROUNDS_MAX: u32 = 3;
/// How long the evictor waits then.
const DRY_WAIT: Nanos = Nanos::from_micros(200);
/// The part of what is to be evicted that a tenant's changed pages must make for a checkpoint to be worth it.
const WRITE_PART: u64 = 8;
/// The part of the limit that may always be exceeded.
const OVER_PART: u64 = 20;
/// A tenant's branch has map nodes of its own for what it changed, which stay in memory: for pages as few as these, a leaf and
/// the node above it.
const BRANCH_NODES_LEN: u64 = 12 << 10;

/// A server's memory for pages.
pub(crate) struct Memory {
    pub(crate) budget: Arc<MemoryBudget>,
    homes: RefCell<Vec<Weak<Home>>>,
    /// Bytes by which one turn made it more, at most: the largest commit.
    turn_max: Cell<u64>,
    /// The most that was there after a turn, without what went over the limit because nothing made room.
    peak: Cell<u64>,
    /// Pages loaded over the limit, and transactions that went on without room, when there last was room: what they took is gone.
    forgiven: Cell<(u64, u64)>,
    /// What is checked after the start, which reads all there is, does not count.
    is_watched: Cell<bool>,
}

impl Memory {
    pub(crate) fn new(limit: ByteCount) -> Rc<Memory> {
        Rc::new(Memory {
            budget: MemoryBudget::new(limit, READ_AHEAD, 1),
            homes: RefCell::default(),
            turn_max: Cell::default(),
            peak: Cell::default(),
            forgiven: Cell::default(),
            is_watched: Cell::default(),
        })
    }

    pub(crate) fn add(&self, home: &Rc<Home>) {
        self.homes.borrow_mut().push(Rc::downgrade(home));
    }

    /// Looks after each turn from here on.
    pub(crate) fn watch(&self) {
        self.is_watched.set(true);
    }

    fn homes(&self) -> Vec<Rc<Home>> {
        self.homes.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Runs a turn and notes what it does to the memory.
    pub(crate) fn of_turn<R>(&self, turn: impl FnOnce() -> R) -> R {
        let before = self.budget.resident();
        let result = turn();
        let after = self.budget.resident();
        if self.is_watched.get() {
            self.turn_max.set(self.turn_max.get().max(after.0.saturating_sub(before.0)));
            self.peak.set(self.peak.get().max(after.0.saturating_sub(self.unserved())));
            if self.budget.has_room() {
                self.forgiven.set((self.budget.overdrafts(), self.budget.turns_over()));
            }
        }
        result
    }

    /// The most that is there because nothing could leave: pages loaded over the limit, each with the leaf of the map that it may have
    /// thawed, and a turn of each transaction that went on after it had waited in vain.
    fn unserved(&self) -> u64 {
        let (overdrafts, writes) = self.forgiven.get();
        let (overdrafts, writes) = (self.budget.overdrafts() - overdrafts, self.budget.turns_over() - writes);
        overdrafts * (PAGE_SIZE as u64 + THAWED_LEN_MAX.0) + writes * self.turn_max.get()
    }

    /// The bound: the limit and a part of it, and the largest commit, for a commit is not interrupted; what beginning a checkpoint
    /// of each tenant changes, which waits for nothing. What came because nothing could leave is not in the peak.
    ///
    /// # Errors
    /// A violation if there ever was more.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        let limit = self.budget.limit().0;
        let homes = self.homes();
        let of_branches = homes.len() as u64 * BRANCH_NODES_LEN;
        let of_checkpoints: u64 = homes.iter().map(|home| home.begun_max.get()).sum();
        let (peak, turn) = (self.peak.get(), self.turn_max.get());
        let allowed = limit + limit / OVER_PART + turn + of_branches + of_checkpoints;
        require!(
            peak <= allowed,
            "{peak} bytes of pages were in memory, {allowed} may be: {limit} are the limit, {turn} came in one turn, \
             {of_checkpoints} when checkpoints began; what came because nothing could leave is not counted"
        );
        Ok(())
    }

    /// Until it is dropped, blocking reads find room: made as an evictor makes it, at the same instant.
    pub(crate) fn serve_blocked(self: &Rc<Memory>) -> AroundWaits {
        let memory = self.clone();
        env::around_waits(Rc::new(move |wait| {
            // Not by taking room: that would use up what may be overdrawn.
            if !memory.budget.has_room() {
                memory.homes().iter().for_each(|home| home.evict_all_if_idle());
                if !memory.budget.has_room() {
                    memory.budget.overdraw_next();
                }
            }
            wait();
        }))
    }
}

/// Makes room until the power goes.
pub(crate) async fn evict(memory: Rc<Memory>) -> Result<(), Stop> {
    let mut choice = VictimChoice::default();
    let mut dry_rounds = 0;
    loop {
        memory.budget.pressure(0).await;
        let evicted = round(&memory, &mut choice).await;
        memory.budget.wake_waiting();
        if evicted > 0 {
            dry_rounds = 0;
            env::sleep(Nanos(1)).await;
            continue;
        }
        dry_rounds += 1;
        if dry_rounds > DRY_ROUNDS_MAX {
            let dirty = |home: &Rc<Home>| home.turn(|home| home.tenant.dirty_bytes());
            let worth = memory.budget.excess().0 / WRITE_PART;
            let dirtiest = memory.homes().into_iter().max_by_key(dirty);
            let written = match dirtiest.filter(|home| dirty(home).0 >= worth.max(1)) {
                Some(home) => {
                    let done = chores::checkpoint_or_wait(&home).await;
                    let written = done.is_ok();
                    chores::goes_on(done)?;
                    written
                }
                None => false,
            };
            if !written && memory.budget.has_waiting() {
                memory.budget.overdraw();
            }
        }
        env::sleep(DRY_WAIT).await;
    }
}

/// Goes over all pages, until there is room.
async fn round(memory: &Memory, choice: &mut VictimChoice) -> u64 {
    let mut evicted = 0;
    for home in memory.homes() {
        loop {
            let swept = home.turn(|home| home.tenant.sweep(choice, memory.budget.eviction_time()));
            evicted += u64::from(swept.evicted);
            memory.budget.wake_waiting();
            if memory.budget.excess() == ByteCount(0) {
                return evicted;
            }
            if swept.ends_lap {
                break;
            }
            env::sleep(Nanos(1)).await;
        }
    }
    evicted
}

/// Waits once for what a statement or commit is told to wait for.
///
/// # Errors
/// The changed pages cannot be written.
pub(crate) async fn await_memory(home: &Home, wait: WriterWait) -> Result<(), Stop> {
    match wait {
        WriterWait::Checkpoint => chores::checkpoint_or_wait(home).await?,
        WriterWait::Room => {
            let asker = home.turn(|home| home.tenant.room_asker());
            drop(asker.expect("only a tenant with a budget waits for it").room().await);
        }
        WriterWait::Log(position) => home.durable(position).await?,
    }
    Ok(())
}
