//! Which worker is whose home: reservations packed so that those of a worker fit its core, whenever that is possible.
//!
//! A tenant's short statements run on its home, one core of it at the most, so a home whose tenants reserve more than it has breaks promises even where other
//! workers idle (`isolation.md`, "Cores"). [`PlacementPlan::new`] is told what each tenant reserves, what load it was lately and where it lives, and says who moves
//! where, in order:
//!
//! 1. *Reservations.* If they fit where they are, nobody moves for them. Else a packing with few moves is looked for: by repair, by decreasing size, by
//!    looking at all subsets of the 16 largest ([`exact`]), and by a bounded search for fewer moves ([`search`]). Example: workers of one core, tenants of 0.6 and 0.5 on the first,
//!    0.4 on the second: the 0.5 moves. A packing is found whenever one exists if at most 16 tenants, rests of larger ones included, reserve less than a core and more than nothing, and with more of them, if each of the others reserves at most what would
//!    be left over divided by the workers; beyond that nearly always, and [`Packing::NotFound`] is said, not [`Packing::Impossible`], where none was found and not all could be tried.
//! 2. *Overbooked.* Where there is no packing, tenants move as long as that makes the worse of two workers better by [`PlacementPolicy::gain_min`].
//! 3. *Load.* A worker that is hot gives tenants to cooler ones by the same rule, if that overbooks nobody. A tenant rests between two such moves.
//!
//! It does not oscillate. Reservations move nobody once they fit. By the other rule the larger of two workers' levels falls by `gain_min` with each move, so to
//! move a tenant back the levels have to change by twice that meanwhile; loads that only vary by less settle.
//!
//! A tenant that reserves more than a worker has for tenants takes a whole one as its home; up to a core that is all. What is left of its reservation can serve its analytical threads only, so it is room on other workers,
//! [`PlacementPlan::elsewhere`]: parts of a whole worker and a rest. They move without a pause, so they cost nothing.
//!
//! Pure, and not for the run path: it allocates in proportion to tenants and workers. Its work is bounded: O(n log n) in the tenants, a million steps for the
//! subsets, and 200,000 for the search, each of which may look at all workers.

mod exact;
mod level;
mod order;
mod pack;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use base::{Nanos, TenantId, WorkerId};

use crate::promise::MilliCores;
use level::Leveling;
use pack::{Found, Problem};

/// A tenant and where it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    pub tenant: TenantId,
    pub reserved: MilliCores,
    /// Processor time that it took on its home lately, as the caller smooths it.
    pub load: MilliCores,
    /// `None`: it is new, or its home is no more.
    pub home: Option<WorkerId>,
    /// When it last moved; `None`: not in living memory.
    pub moved_at: Option<Nanos>,
}

/// When a move is worth its pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementPolicy {
    /// What of a worker tenants may reserve. Default 1 core; less, where the server's own tasks reserve the rest.
    pub capacity: MilliCores,
    /// A worker with less load than this gives nobody away. Default 0.8 cores.
    pub hot: MilliCores,
    /// By how much the worse of two workers has to become better. Default 0.1 cores.
    pub gain_min: MilliCores,
    /// Between two moves of a tenant for load. Default 60 s.
    pub rest: Nanos,
    /// Moves for load or because of overbooking in one plan. Default 16.
    pub moves_max: u32,
}

impl Default for PlacementPolicy {
    fn default() -> PlacementPolicy {
        PlacementPolicy {
            capacity: MilliCores(1000),
            hot: MilliCores(800),
            gain_min: MilliCores(100),
            rest: Nanos::from_secs(60),
            moves_max: 16,
        }
    }
}

/// Whether the reservations fit their workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// They do, once the plan is carried out.
    Fits,
    /// They cannot, whoever lives where.
    Impossible,
    /// No way was found within the bounds of the search; there may be one.
    NotFound,
}

/// Why a tenant moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveReason {
    /// So that reservations fit, or exceed their workers by less.
    Reservation,
    /// So that a hot worker has less to do.
    Load,
}

/// A tenant's home changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    pub tenant: TenantId,
    pub from: WorkerId,
    pub to: WorkerId,
    pub reason: MoveReason,
}

/// Room for the analytical threads of a tenant that reserves more than one worker has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    pub tenant: TenantId,
    pub worker: WorkerId,
    pub reserved: MilliCores,
}

/// What is on a worker already, in thousandths of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    pub reserved: u64,
    pub load: u64,
    pub tenants: usize,
}

/// Who lives where, and how to get there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacementPlan {
    /// By resident, in the order they were given: the home once all moves are done.
    pub homes: Vec<WorkerId>,
    /// One after the other, each tenant once. Where it is possible no worker is overbooked in between by one that was not before.
    pub moves: Vec<Move>,
    /// By tenant; of one tenant on different workers, none on its home, while there are enough workers.
    pub elsewhere: Vec<Elsewhere>,
    pub packing: Packing,
}

impl PlacementPlan {
    /// A plan for so many workers. The same residents give the same plan.
    ///
    /// # Panics
    ///
    /// If there are no workers, more than 65,536, a policy without capacity or gain, or a resident whose home is not one of the workers.
    pub fn new(
        residents: &[Resident],
        workers: usize,
        policy: &PlacementPolicy,
        now: Nanos,
    ) -> PlacementPlan {
        assert!((1..=1 << 16).contains(&workers), "{workers} workers");
        assert!(policy.capacity.0 > 0 && policy.gain_min.0 > 0, "{policy:?}");
        let problem = Problem::new(residents, workers, policy.capacity.0);
        let found = pack::pack(&problem);
        let (mut places, packing) = match found {
            Found::Packing(places) => (places, Packing::Fits),
            Found::Impossible => (problem.overbooked(), Packing::Impossible),
            Found::Nothing => (problem.overbooked(), Packing::NotFound),
        };
        if packing != Packing::Fits {
            relieve_overbooked(&problem, &mut places, policy);
        }
        let packed: Vec<usize> = places[..residents.len()].to_vec();
        house_unreserved(residents, &problem, &mut places);
        relieve_hot(residents, &problem, &mut places, policy, now);
        let plan = PlacementPlan {
            homes: places[..residents.len()].iter().map(|worker| worker_id(*worker)).collect(),
            moves: order::ordered(residents, &problem, &packed, &places),
            elsewhere: problem.elsewhere(residents, &places),
            packing,
        };
        plan.check(residents, &problem, &places);
        plan
    }

    /// The home of one tenant more, while nobody moves: of the workers on which its reservation fits, the one with the least load, then with the fewest
    /// tenants; where it fits on none, the one that it overbooks least. A [`PlacementPlan`] with it among the residents may find it a better one.
    ///
    /// # Panics
    ///
    /// If there are no workers.
    pub fn home_for(reserved: MilliCores, workers: &[Occupancy], policy: &PlacementPolicy) -> WorkerId {
        let part = u64::from(reserved.0.min(policy.capacity.0));
        let rank = |(_, there): &(usize, &Occupancy)| {
            let over = (there.reserved + part).saturating_sub(u64::from(policy.capacity.0));
            (over, there.load, there.reserved, there.tenants)
        };
        let (best, _) = workers.iter().enumerate().min_by_key(rank).expect("a server has workers");
        worker_id(best)
    }

    /// What holds of every plan.
    fn check(&self, residents: &[Resident], problem: &Problem, places: &[usize]) {
        let moved = residents
            .iter()
            .zip(&self.homes)
            .filter(|(resident, home)| resident.home.is_some_and(|before| before != **home));
        assert_eq!(moved.count(), self.moves.len(), "each tenant moves at most once, and to its home");
        if self.packing == Packing::Fits {
            assert!(problem.fits(places), "a packing fits");
        }
    }
}

fn worker_id(worker: usize) -> WorkerId {
    WorkerId(u16::try_from(worker).expect("at most 65,536 workers"))
}

/// Makes overbooked workers less so.
fn relieve_overbooked(problem: &Problem, places: &mut [usize], policy: &PlacementPolicy) {
    let amounts: Vec<u64> = problem.items.iter().map(|item| u64::from(item.size)).collect();
    // Parts elsewhere stay where they were put, and their homes go to none of their workers.
    let parts = problem.items.iter().zip(&*places).skip(problem.residents);
    let apart: BTreeSet<(usize, usize)> =
        parts.filter_map(|(item, worker)| Some((item.part_of?, *worker))).collect();
    let leveling = Leveling {
        amounts: &amounts,
        movable: (0..places.len()).map(|item| item < problem.residents && amounts[item] > 0).collect(),
        above: u64::from(problem.capacity),
        gain_min: u64::from(policy.gain_min.0),
        moves_max: policy.moves_max,
    };
    let mut levels = problem.taken(places);
    leveling.run(places, &mut levels, &mut (), |(), item, to| !apart.contains(&(item, to)), |(), _, _, _| {});
}

/// Finds homes for new tenants that reserve nothing, each where the load is least.
fn house_unreserved(residents: &[Resident], problem: &Problem, places: &mut [usize]) {
    let mut level = vec![0u64; problem.workers];
    let is_new = |resident: &Resident| resident.home.is_none() && resident.reserved.0 == 0;
    for (resident, place) in residents.iter().zip(&*places).filter(|(resident, _)| !is_new(resident)) {
        level[*place] += u64::from(resident.load.0);
    }
    let by_load = level.into_iter().enumerate().map(|(worker, load)| (load, 0u32, worker));
    let mut coolest: BTreeSet<(u64, u32, usize)> = by_load.collect();
    for (resident, place) in residents.iter().zip(places).filter(|(resident, _)| is_new(resident)) {
        let (load, newcomers, worker) = coolest.pop_first().expect("there are workers");
        *place = worker;
        coolest.insert((load + u64::from(resident.load.0), newcomers + 1, worker));
    }
}

/// Takes load off hot workers without overbooking others.
fn relieve_hot(
    residents: &[Resident],
    problem: &Problem,
    places: &mut [usize],
    policy: &PlacementPolicy,
    now: Nanos,
) {
    let loads: Vec<u64> = residents.iter().map(|resident| u64::from(resident.load.0)).collect();
    let has_rested = |resident: &Resident| {
        resident.moved_at.is_none_or(|moved| now - moved >= policy.rest) && resident.load.0 > 0
    };
    let leveling = Leveling {
        amounts: &loads,
        movable: residents.iter().map(has_rested).collect(),
        above: u64::from(policy.hot.0),
        gain_min: u64::from(policy.gain_min.0),
        moves_max: policy.moves_max,
    };
    let mut reserved = problem.taken(places);
    let homes = &mut places[..residents.len()];
    let mut levels = vec![0; problem.workers];
    homes.iter().zip(&loads).for_each(|(worker, load)| levels[*worker] += load);
    let (capacity, size) = (u64::from(problem.capacity), |item: usize| u64::from(problem.items[item].size));
    leveling.run(
        homes,
        &mut levels,
        &mut reserved,
        |reserved, item, to| size(item) == 0 || reserved[to] + size(item) <= capacity,
        |reserved, item, from, to| {
            reserved[from] -= size(item);
            reserved[to] += size(item);
        },
    );
}
