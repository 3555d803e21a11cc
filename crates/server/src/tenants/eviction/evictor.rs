//! Rounds of one worker's evictor over its open tenants, each visited for a few steps of a sweep in turns of its own.
//!
//! A visit that does not get its turns soon goes on by itself, and what came of it is looked at in a later round.

use std::sync::Arc;

use base::{ByteCount, Nanos, TenantId};
use futures::future::{Either, select};
use governor::{AwaitedFor, VictimChoice};
use rustc_hash::FxHashMap;

use crate::executor::TaskHandle;
use crate::shared::Shared;
use crate::tenants::Home;
use crate::tenants::home::Visit;

/// How long an evictor waits for a visit of one tenant, which has its turns as the tenant has them, before it goes on to others.
const VISIT_WAIT: Nanos = Nanos::from_millis(5);

pub(super) struct Evictor {
    index: usize,
    pub(super) choice: VictimChoice,
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
pub(super) struct Round {
    pub(super) evicted: u64,
    pub(super) visited: u64,
    /// Whether it went over all pages of all tenants.
    pub(super) is_whole: bool,
    /// Whether it began because the server is short of memory.
    pub(super) is_short: bool,
    /// What is still to leave: of all tenants together, or of one that has more than its limit.
    pub(super) excess: ByteCount,
    pub(super) dirtiest: Option<(ByteCount, Arc<Home>)>,
    /// Whether a visit did not get its turns: what of its tenant is still to leave is not known.
    pub(super) has_late: bool,
}

impl Evictor {
    pub(super) fn new(index: usize, choice: VictimChoice) -> Evictor {
        Evictor {
            index,
            choice,
            next: TenantId(0),
            dirty: FxHashMap::default(),
            late: FxHashMap::default(),
            hastened: Vec::new(),
        }
    }

    /// Nobody waits for room any more.
    pub(super) fn end_haste(&mut self) {
        self.hastened.drain(..).for_each(|home| home.set_awaited(AwaitedFor::Room, false));
    }

    /// Goes over the tenants until there is room; where there is, over those with more than their own limits.
    pub(super) async fn round(&mut self, shared: &Arc<Shared>) -> Round {
        let mut round = Round::default();
        let seat = &shared.workers[self.index];
        let is_short = shared.memory.is_short();
        // A tenant at its own limit brings a round about with each part of it that it reads: then only who is over its limit is looked at, of however many.
        let mut homes = if is_short { seat.open_homes() } else { seat.homes_over_limits() };
        homes.sort_unstable_by_key(|home| home.id());
        self.dirty.retain(|tenant, _| seat.has_open(*tenant));
        self.late.retain(|tenant, _| seat.has_open(*tenant));
        let start = homes.partition_point(|home| home.id() < self.next) % homes.len().max(1);
        homes.rotate_left(start);
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
                let Some(visit) = self.visit(home, choice, !is_short).await else {
                    round.has_late = true;
                    break;
                };
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

    /// Notes that others wait for a tenant's checkpoint.
    pub(super) fn note_hastened(&mut self, home: &Arc<Home>) {
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
