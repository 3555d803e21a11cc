//! Room in memory: one evictor a worker. What a home does for it, and what waits for room there, is in `home::room`.
//!
//! While the memory budget is under pressure a worker's evictor goes round its open tenants, each for a few steps of a sweep,
//! in turns charged to that tenant. Tenants whose changed pages take a good part of the budget are checkpointed, since those
//! pages cannot leave before they are written; what they write then is charged to them and not held by their limits, since others
//! wait for it. A tenant that has more than its own `memory_max` is visited alone, and loses its
//! oldest pages whatever its neighbours' are. If nothing at all could be evicted, the one with most of them is, and if they
//! cannot be written, loads go over the limit, so that reading goes on. Without pressure an evictor sleeps and owns no timer.

mod evictor;

use std::sync::Arc;

use base::{ByteCount, Nanos};
use futures::future::select;

use super::Home;
use crate::executor::yield_now;
use crate::shared::Shared;
use evictor::Evictor;

/// Rounds over all tenants without one page evicted before changed pages are written or a load goes over the limit: the first
/// may have found every page used since the last look.
const DRY_ROUNDS_MAX: u32 = 3;
/// How long an evictor that can do nothing waits for a checkpoint or for statements that hold pages: twice as long each time,
/// up to 64 times that.
const DRY_WAIT: Nanos = Nanos::from_millis(1);
const DRY_DOUBLINGS_MAX: u32 = 6;
/// The part of what is to be evicted that a tenant's changed pages must make for a checkpoint to be worth it.
const WRITE_PART: u64 = 8;

/// Makes room on worker `index` until the worker stops.
pub(crate) async fn evict(shared: Arc<Shared>, index: usize) {
    let mut evictor = Evictor::new(index, shared.victims.clone());
    let mut dry_rounds = 0;
    loop {
        if !shared.memory.has_waiting() {
            evictor.end_haste();
        }
        shared.memory.pressure(index).await;
        let round = evictor.round(&shared).await;
        shared.memory.wake_waiting();
        // A tenant over its own limit whose turns do not come is looked at again and again, and not at once.
        let is_done = round.excess == ByteCount(0) && (round.is_short || !round.has_late);
        if round.evicted > 0 || !round.is_whole || is_done {
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
