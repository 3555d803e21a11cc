//! Room in memory: one evictor a worker, and the waits for it.
//!
//! While the memory budget is under pressure a worker's evictor goes round its open tenants, each for a few steps of a sweep,
//! in turns charged to that tenant. Tenants whose changed pages take a good part of the budget are checkpointed, since those
//! pages cannot leave before they are written; what they write then is charged to them and not held by their limits, since others
//! wait for it. A tenant that has more than its own `memory_max` is visited alone, and loses its
//! oldest pages whatever its neighbours' are. If nothing at all could be evicted, the one with most of them is, and if they
//! cannot be written, loads go over the limit, so that reading goes on. Without pressure an evictor sleeps and owns no timer.

use std::sync::Arc;

use base::{ByteCount, Nanos, SqlError, SqlResult, TenantId};
use futures::future::{Either, select};
use governor::VictimChoice;
use rustc_hash::FxHashMap;
use tenant::{Tenant, WriterWait};

use super::Home;
use crate::executor::{TaskHandle, yield_now};
use crate::shared::Shared;

/// Steps of a sweep, up to 256 pages each, at a visit of one tenant.
const STEPS_A_VISIT: usize = 64;
/// Steps in one turn: some 10 us each.
const STEPS_A_TURN: usize = 4;
/// Rounds over all tenants without one page evicted before changed pages are written or a load goes over the limit: the first
/// may have found every page used since the last look.
const DRY_ROUNDS_MAX: u32 = 3;
/// How long an evictor waits for a visit of one tenant, which has its turns as the tenant has them, before it goes on to others.
const VISIT_WAIT: Nanos = Nanos::from_millis(5);
/// How long an evictor that can do nothing waits for a checkpoint or for statements that hold pages: twice as long each time,
/// up to 64 times that.
const DRY_WAIT: Nanos = Nanos::from_millis(1);
const DRY_DOUBLINGS_MAX: u32 = 6;
/// The part of what is to be evicted that a tenant's changed pages must make for a checkpoint to be worth it.
const WRITE_PART: u64 = 8;

/// What came of a visit of one tenant.
struct Visit {
    choice: VictimChoice,
    evicted: u64,
    /// Changed pages of the tenant.
    dirty: ByteCount,
    /// Bytes of its pages that are still to leave.
    excess: ByteCount,
    /// Whether the hand came to the end of the tenant's pages.
    ended_lap: bool,
    /// Pages in memory that were looked at.
    visited: u64,
    /// Whether its data file takes no checkpoint.
    is_refusing: bool,
    /// Whether others wait for the checkpoint that the visit began or found.
    is_hastened: bool,
}

/// Makes room on worker `index` until the worker stops.
pub(crate) async fn evict(shared: Arc<Shared>, index: usize) {
    let mut evictor = Evictor {
        index,
        choice: shared.victims.clone(),
        next: TenantId(0),
        dirty: FxHashMap::default(),
        late: FxHashMap::default(),
        hastened: Vec::new(),
    };
    let mut dry_rounds = 0;
    loop {
        if !shared.memory.has_waiting() {
            evictor.hastened.drain(..).for_each(|home| home.set_makes_room(false));
        }
        shared.memory.pressure(index).await;
        let round = evictor.round(&shared).await;
        shared.memory.wake_waiting();
        if round.evicted > 0 || !round.is_whole || round.excess == ByteCount(0) {
            dry_rounds = 0;
            shared.memory.note_dry(index, false);
            yield_now().await;
            continue;
        }
        dry_rounds += 1;
        if round.is_short && round.visited > 0 {
            evictor.choice.note_none_taken();
        }
        // A tenant over its own limit has a checkpoint begun by its visit, and nobody waits for it here.
        if !round.is_short || dry_rounds <= DRY_ROUNDS_MAX {
            env::sleep(wait_of(dry_rounds)).await;
            continue;
        }
        let worth = round.excess.0 / WRITE_PART;
        let writes = round.dirtiest.filter(|(dirty, _)| dirty.0 >= worth).map(|(_, home)| home);
        let others_wait = shared.memory.has_waiting();
        if let Some(home) = &writes {
            let at_home = home.clone();
            home.spawn(async move { at_home.start_checkpoint_for_room(others_wait) }).detach();
            if others_wait {
                evictor.note_hastened(home);
            }
        }
        // Pages that are being written leave soon, or do not for longer than loads should wait.
        let waited_long = dry_rounds > DRY_ROUNDS_MAX + DRY_DOUBLINGS_MAX;
        if (writes.is_none() || waited_long) && shared.memory.note_dry(index, true) && others_wait {
            shared.memory.overdraw();
        }
        match writes {
            Some(home) => wait_for_pages(home, dry_rounds).await,
            None => env::sleep(wait_of(dry_rounds)).await,
        }
    }
}

fn wait_of(dry_rounds: u32) -> Nanos {
    Nanos(DRY_WAIT.0 << dry_rounds.saturating_sub(DRY_ROUNDS_MAX).min(DRY_DOUBLINGS_MAX))
}

/// Waits until a tenant's checkpoint has ended. Others may have pages that can leave before that, so not for long.
async fn wait_for_pages(home: Arc<Home>, dry_rounds: u32) {
    let (at_home, wait) = (home.clone(), wait_of(dry_rounds));
    let ended = std::pin::pin!(home.spawn(async move {
        match at_home.is_checkpointing() {
            true => at_home.checkpoint_ended().await,
            false => env::sleep(wait).await,
        }
    }));
    select(ended, std::pin::pin!(env::sleep(wait))).await;
}

struct Evictor {
    index: usize,
    choice: VictimChoice,
    /// Where the next round begins, so that all pages of all tenants are visited equally often.
    next: TenantId,
    /// Changed pages of each tenant that has some, at its last visit.
    dirty: FxHashMap<TenantId, ByteCount>,
    /// Visits that have not had their turns yet: of tenants over their limits of processor time.
    late: FxHashMap<TenantId, TaskHandle<Visit>>,
    /// Those whose checkpoints others wait for.
    hastened: Vec<Arc<Home>>,
}

/// What came of a round over the tenants.
#[derive(Default)]
struct Round {
    evicted: u64,
    visited: u64,
    /// Whether it went over all pages of all tenants.
    is_whole: bool,
    /// Whether it began because the server is short of memory.
    is_short: bool,
    /// What is still to leave: of all tenants together, or of one that has more than its limit.
    excess: ByteCount,
    dirtiest: Option<(ByteCount, Arc<Home>)>,
}

impl Evictor {
    /// Goes over the tenants until there is room; where there is, over those with more than their own limits.
    async fn round(&mut self, shared: &Arc<Shared>) -> Round {
        let mut round = Round::default();
        let mut homes = shared.workers[self.index].open_homes();
        homes.sort_unstable_by_key(|home| home.id());
        let is_open = |tenant: &TenantId| homes.binary_search_by_key(tenant, |home| home.id()).is_ok();
        self.dirty.retain(|tenant, _| is_open(tenant));
        self.late.retain(|tenant, _| is_open(tenant));
        let start = homes.partition_point(|home| home.id() < self.next) % homes.len().max(1);
        homes.rotate_left(start);
        let is_short = shared.memory.is_short();
        round.is_whole = true;
        round.is_short = is_short;
        'homes: for home in &homes {
            if !is_short && !home.is_over_limit() {
                continue;
            }
            self.next = home.id();
            // Those over their own limits are compared with themselves alone.
            let mut own = (!is_short).then(VictimChoice::default);
            loop {
                let choice = own.as_ref().unwrap_or(&self.choice).clone();
                let Some(visit) = self.visit(home, choice, !is_short).await else { break };
                *own.as_mut().unwrap_or(&mut self.choice) = visit.choice;
                round.evicted += visit.evicted;
                round.visited += visit.visited;
                if visit.is_hastened {
                    self.note_hastened(home);
                }
                self.note_dirty(shared, home.id(), visit.dirty);
                if home.is_over_limit() {
                    round.excess = round.excess.max(visit.excess);
                }
                let most = round.dirtiest.as_ref().map_or(ByteCount(0), |(dirty, _)| *dirty);
                if visit.dirty > most && !visit.is_refusing {
                    round.dirtiest = Some((visit.dirty, home.clone()));
                }
                if is_short && shared.memory.excess() == ByteCount(0) {
                    round.is_whole = false;
                    break 'homes;
                }
                if visit.ended_lap || (!is_short && visit.excess == ByteCount(0)) {
                    break;
                }
                // Others wait for room meanwhile.
                if !is_short && shared.memory.is_short() {
                    round.is_whole = false;
                    break 'homes;
                }
            }
        }
        if homes.iter().any(|home| home.is_over_limit()) {
            shared.memory.press_tenants_of(self.index);
        }
        if is_short {
            round.excess = round.excess.max(shared.memory.excess());
        }
        round
    }
}

impl Evictor {
    /// Visits a tenant, in turns of its own. `None` if those do not come soon, and where the visit panicked. A visit that is late goes on by
    /// itself, and what came of it is looked at in a later round; others are not held up by it.
    async fn visit(&mut self, home: &Arc<Home>, choice: VictimChoice, own: bool) -> Option<Visit> {
        let wait = if self.late.contains_key(&home.id()) { Nanos(0) } else { VISIT_WAIT };
        let visit = self.late.remove(&home.id()).unwrap_or_else(|| {
            let visited = home.clone();
            home.spawn(async move { visited.make_room(choice, own).await })
        });
        match select(visit, std::pin::pin!(env::sleep(wait))).await {
            Either::Left((visit, _)) => visit,
            Either::Right((_, late)) => {
                self.late.insert(home.id(), late);
                None
            }
        }
    }

    fn note_hastened(&mut self, home: &Arc<Home>) {
        if !self.hastened.iter().any(|known| known.id() == home.id()) {
            self.hastened.push(home.clone());
        }
    }

    fn note_dirty(&mut self, shared: &Shared, tenant: TenantId, dirty: ByteCount) {
        match dirty {
            ByteCount(0) => self.dirty.remove(&tenant),
            dirty => self.dirty.insert(tenant, dirty),
        };
        let all = ByteCount(self.dirty.values().map(|dirty| dirty.0).sum());
        shared.memory.note_dirty(self.index, all, self.dirty.len());
    }
}

impl Home {
    /// Sweeps over some of the tenant's pages, a few in each turn, until there is room, or it has no more than its `own` limit.
    async fn make_room(self: Arc<Home>, choice: VictimChoice, own: bool) -> Visit {
        let mut visit = Visit {
            choice,
            evicted: 0,
            dirty: ByteCount(0),
            excess: ByteCount(0),
            ended_lap: true,
            visited: 0,
            is_refusing: self.is_refusing(),
            is_hastened: false,
        };
        let Ok(shared) = self.shared() else { return visit };
        let budget = &shared.memory;
        for _ in 0..STEPS_A_VISIT / STEPS_A_TURN {
            let is_open = self.with_tenant(|tenant| {
                let excess = |tenant: &Tenant| if own { tenant.own_excess() } else { tenant.excess() };
                visit.dirty = tenant.dirty_bytes();
                visit.excess = excess(tenant);
                if visit.excess == ByteCount(0) {
                    return;
                }
                visit.ended_lap = (0..STEPS_A_TURN).any(|_| {
                    let swept = tenant.sweep(&mut visit.choice, budget.eviction_time());
                    visit.evicted += u64::from(swept.evicted);
                    visit.visited += u64::from(swept.visited);
                    swept.ends_lap
                });
                visit.excess = excess(tenant);
            });
            budget.wake_waiting();
            if is_open.is_none() || visit.ended_lap || visit.excess == ByteCount(0) {
                break;
            }
            yield_now().await;
        }
        if self.with_tenant(|tenant| tenant.is_dirty()) == Some(true) {
            let is_much = visit.dirty >= budget.dirty_start() || budget.is_too_dirty_together(visit.dirty);
            visit.is_hastened = !own && is_much && budget.has_waiting();
            self.start_checkpoint_for_room(visit.is_hastened);
        }
        visit
    }

    /// Begins a checkpoint that makes room, or has the one that is under way do so. Where `others_wait` for that, its writes go before what
    /// else the tenant has to read and write, and its limits do not hold them.
    fn start_checkpoint_for_room(self: &Arc<Home>, others_wait: bool) {
        self.with_tenant(Tenant::write_for_room);
        self.start_checkpoint();
        if others_wait && self.is_open() {
            self.set_makes_room(true);
        }
    }

    /// A checkpoint that is not the log's but makes room, or the end of the one under way.
    async fn checkpoint_for_room(self: &Arc<Home>) -> SqlResult<()> {
        self.with_tenant(Tenant::write_for_room);
        self.checkpoint_or_wait().await
    }

    /// Waits once for what a writing statement or a commit is told to wait for; it then asks again.
    ///
    /// # Errors
    /// 58030 or 53100: the changed pages cannot be written.
    pub(crate) async fn await_memory(self: &Arc<Home>, wait: WriterWait) -> SqlResult<()> {
        match wait {
            WriterWait::Checkpoint => self.checkpoint_for_room().await?,
            WriterWait::Room => drop(self.shared()?.memory.room().await),
        }
        Ok(())
    }

    /// Drops the tenant's pages from memory, for experiments: changed ones are written first. Returns how many pages went;
    /// `None` if the tenant is not open. From any worker.
    ///
    /// # Errors
    /// 58030 or 53100: the changed pages cannot be written.
    pub(crate) async fn evict_all(self: &Arc<Home>) -> SqlResult<Option<u64>> {
        let home = self.clone();
        let task = self.spawn(async move {
            if !home.is_open() {
                return Ok(None);
            }
            home.checkpoint_or_wait().await?;
            Ok(home.with_tenant(Tenant::evict_all))
        });
        task.await.unwrap_or_else(|| Err(SqlError::internal("evicting a tenant did not finish")))
    }
}
