//! A home's part in making room in memory: its pages swept, the checkpoints that make changed ones evictable, and what its writers wait for.

use std::sync::Arc;

use base::{ByteCount, SqlError, SqlResult};
use governor::{AwaitedFor, VictimChoice};
use tenant::{Tenant, WriterWait};

use super::Home;
use crate::executor::yield_now;

/// Steps of a sweep, up to 256 pages each, at a visit of one tenant.
const STEPS_A_VISIT: usize = 64;
/// Steps in one turn: some 10 us each.
const STEPS_A_TURN: usize = 4;

/// What came of a visit of one tenant.
pub(in crate::tenants) struct Visit {
    pub(in crate::tenants) choice: VictimChoice,
    pub(in crate::tenants) evicted: u64,
    /// Changed pages of the tenant.
    pub(in crate::tenants) dirty: ByteCount,
    /// Bytes of its pages that are still to leave.
    pub(in crate::tenants) excess: ByteCount,
    /// Whether the hand came to the end of the tenant's pages.
    pub(in crate::tenants) ended_lap: bool,
    /// Pages in memory that were looked at.
    pub(in crate::tenants) visited: u64,
    /// Whether its data file takes no checkpoint.
    pub(in crate::tenants) is_refusing: bool,
    /// Whether others wait for the checkpoint that the visit began or found.
    pub(in crate::tenants) is_hastened: bool,
}

impl Home {
    /// Sweeps over some of the tenant's pages, a few in each turn, until there is room, or it has no more than its `own` limit.
    pub(in crate::tenants) async fn make_room(self: Arc<Home>, choice: VictimChoice, own: bool) -> Visit {
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
    pub(in crate::tenants) fn start_checkpoint_for_room(self: &Arc<Home>, others_wait: bool) {
        self.with_tenant(Tenant::write_for_room);
        self.start_checkpoint();
        if others_wait && self.is_open() {
            self.set_awaited(AwaitedFor::Room, true);
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
    /// 58030 or 53100: the changed pages cannot be written, or the log.
    pub(crate) async fn await_memory(self: &Arc<Home>, wait: WriterWait) -> SqlResult<()> {
        match wait {
            WriterWait::Checkpoint => self.checkpoint_for_room().await?,
            WriterWait::Room => {
                if let Some(asker) = self.with_tenant(|tenant| tenant.room_asker()).flatten() {
                    drop(asker.room().await);
                }
            }
            WriterWait::Log(position) => self.wait_durable(position).await?,
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
