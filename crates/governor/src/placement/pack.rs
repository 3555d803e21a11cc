//! Packing reservations into workers with few moves.

use std::collections::{BTreeMap, BTreeSet};

use super::{Elsewhere, Resident, exact, search, worker_id};
use crate::promise::MilliCores;

/// What a tenant's tasks can use of its home at most.
const CORE: u32 = 1000;

/// Something that takes room on a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// At most a worker's capacity; 0 for a tenant that reserves nothing.
    pub(super) size: u32,
    /// Where it costs nothing; `None`: it costs nothing anywhere.
    pub(super) home: Option<usize>,
    /// The resident, by index, for whose analytical threads it is room.
    pub(super) part_of: Option<usize>,
}

/// What is to be packed. In a solution, `places`, each item has a worker.
pub(super) struct Problem {
    /// First the residents, in their order, then the parts elsewhere.
    pub(super) items: Vec<Item>,
    pub(super) residents: usize,
    pub(super) workers: usize,
    pub(super) capacity: u32,
}

/// What came of it.
pub(super) enum Found {
    Packing(Vec<usize>),
    Impossible,
    Nothing,
}

impl Problem {
    pub(super) fn new(residents: &[Resident], workers: usize, capacity: u32) -> Problem {
        let home_of = |resident: &Resident| {
            let home = resident.home.map(|home| usize::from(home.0));
            assert!(home.is_none_or(|home| home < workers), "{resident:?} on one of {workers} workers");
            home
        };
        let at_home = residents.iter().map(|resident| Item {
            size: resident.reserved.0.min(capacity),
            home: home_of(resident),
            part_of: None,
        });
        let mut items: Vec<Item> = at_home.collect();
        for (index, resident) in residents.iter().enumerate() {
            // Up to a core its home is to keep, as well as it can alone: no other worker can run its tasks.
            let mut left = resident.reserved.0.saturating_sub(items[index].size.max(CORE));
            while left > 0 {
                let size = left.min(capacity);
                left -= size;
                items.push(Item { size, home: None, part_of: Some(index) });
            }
        }
        Problem { items, residents: residents.len(), workers, capacity }
    }

    /// What is taken of each worker.
    pub(super) fn taken(&self, places: &[usize]) -> Vec<u64> {
        let mut taken = vec![0; self.workers];
        self.items.iter().zip(places).for_each(|(item, worker)| taken[*worker] += u64::from(item.size));
        taken
    }

    pub(super) fn fits(&self, places: &[usize]) -> bool {
        self.taken(places).iter().all(|taken| *taken <= u64::from(self.capacity))
    }

    /// How many of the residents move.
    pub(super) fn moves(&self, places: &[usize]) -> usize {
        let moved = |(item, worker): &(&Item, &usize)| item.home.is_some_and(|home| home != **worker);
        self.items.iter().zip(places).filter(moved).count()
    }

    /// Items that take room, from large to small.
    pub(super) fn decreasing(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).filter(|item| self.items[*item].size > 0).collect();
        order.sort_by_key(|item| (std::cmp::Reverse(self.items[*item].size), *item));
        order
    }

    /// Everybody at home, who has none on worker 0: for those that take no room.
    fn at_home(&self) -> Vec<usize> {
        self.items.iter().map(|item| item.home.unwrap_or(0)).collect()
    }

    /// Where there is no packing: everybody stays, the others go to the workers of which least is taken, parts of a tenant to different ones while
    /// there are enough.
    pub(super) fn overbooked(&self) -> Vec<usize> {
        let mut places = self.at_home();
        let mut taken = vec![0u64; self.workers];
        let homed = |item: usize| self.items[item].home.is_some();
        for item in (0..self.items.len()).filter(|item| homed(*item)) {
            taken[places[item]] += u64::from(self.items[item].size);
        }
        let mut by_taken: BTreeSet<(u64, usize)> =
            taken.iter().enumerate().map(|(worker, taken)| (*taken, worker)).collect();
        // Workers that a tenant with parts is on already.
        let mut used: BTreeSet<(usize, usize)> = BTreeSet::new();
        // A home is no smaller than its parts and comes before them, so they can keep away from it.
        for item in self.decreasing() {
            let tenant = self.items[item].part_of.unwrap_or(item);
            if !homed(item) {
                let free = by_taken.iter().find(|(_, worker)| !used.contains(&(tenant, *worker)));
                let (before, worker) = *free.or(by_taken.first()).expect("there are workers");
                by_taken.remove(&(before, worker));
                by_taken.insert((before + u64::from(self.items[item].size), worker));
                places[item] = worker;
            }
            used.insert((tenant, places[item]));
        }
        places
    }

    /// What the plan says of parts.
    pub(super) fn elsewhere(&self, residents: &[Resident], places: &[usize]) -> Vec<Elsewhere> {
        let parts = self.items.iter().zip(places).filter_map(|(item, worker)| {
            let tenant = residents[item.part_of?].tenant;
            Some(Elsewhere { tenant, worker: worker_id(*worker), reserved: MilliCores(item.size) })
        });
        let mut parts: Vec<Elsewhere> = parts.collect();
        parts.sort_by_key(|part| (part.tenant, part.worker));
        parts
    }
}

/// The room that is left of each worker, findable by size.
struct Room {
    by_free: BTreeSet<(u32, usize)>,
    free: Vec<u32>,
}

impl Room {
    fn of(problem: &Problem) -> Room {
        let free = vec![problem.capacity; problem.workers];
        Room { by_free: free.iter().enumerate().map(|(worker, free)| (*free, worker)).collect(), free }
    }

    /// Whether there was room on this worker; then it is taken.
    fn take(&mut self, worker: usize, size: u32) -> bool {
        if self.free[worker] < size {
            return false;
        }
        self.by_free.remove(&(self.free[worker], worker));
        self.free[worker] -= size;
        self.by_free.insert((self.free[worker], worker));
        true
    }

    /// Takes room where the least is left over.
    fn take_tightest(&mut self, size: u32) -> Option<usize> {
        let (_, worker) = *self.by_free.range((size, 0)..).next()?;
        assert!(self.take(worker, size), "it has room");
        Some(worker)
    }
}

/// A packing with few moves, if one is found.
pub(super) fn pack(problem: &Problem) -> Found {
    let needed: u64 = problem.items.iter().map(|item| u64::from(item.size)).sum();
    if needed > u64::from(problem.capacity) * problem.workers as u64 {
        return Found::Impossible;
    }
    let order = problem.decreasing();
    let mut best: Option<(usize, Vec<usize>)> = None;
    let mut note = |places: Option<Vec<usize>>| {
        let Some(places) = places else { return };
        debug_assert!(problem.fits(&places));
        let moves = problem.moves(&places);
        if best.as_ref().is_none_or(|(fewest, _)| moves < *fewest) {
            best = Some((moves, places));
        }
    };
    note(repaired(problem));
    note(decreasing_at_home(problem, &order));
    if best.is_none() {
        match exact::pack(problem, &order) {
            exact::Subsets::Packing(places) => best = Some((problem.moves(&places), places)),
            exact::Subsets::Impossible => return Found::Impossible,
            exact::Subsets::Unknown => {}
        }
    }
    let mut is_complete = false;
    if best.as_ref().is_none_or(|(moves, _)| *moves > 0) {
        (best, is_complete) = search::fewer_moves(problem, &order, best);
    }
    match best {
        Some((_, places)) => Found::Packing(places),
        None if is_complete => Found::Impossible,
        None => Found::Nothing,
    }
}

/// Everybody stays but for those whose leaving makes room: of an overbooked worker the smallest that is enough by itself, or else the largest and so on. They go, from large
/// to small, where the least is left over.
fn repaired(problem: &Problem) -> Option<Vec<usize>> {
    let mut places = problem.at_home();
    let mut by_home: Vec<BTreeSet<(u32, usize)>> = vec![BTreeSet::new(); problem.workers];
    let mut leaving = Vec::new();
    for item in problem.decreasing() {
        match problem.items[item].home {
            Some(home) => drop(by_home[home].insert((problem.items[item].size, item))),
            None => leaving.push(item),
        }
    }
    let mut room = Room::of(problem);
    for (worker, items) in by_home.iter_mut().enumerate() {
        let mut taken: u64 = items.iter().map(|(size, _)| u64::from(*size)).sum();
        while taken > u64::from(problem.capacity) {
            let over = u32::try_from(taken - u64::from(problem.capacity)).unwrap_or(u32::MAX);
            let enough = items.range((over, 0)..).next().or(items.last()).copied();
            let (size, item) = enough.expect("an overbooked worker has somebody");
            items.remove(&(size, item));
            taken -= u64::from(size);
            leaving.push(item);
        }
        assert!(room.take(worker, taken as u32), "not more than the capacity");
    }
    leaving.sort_by_key(|item| (std::cmp::Reverse(problem.items[*item].size), *item));
    for item in leaving {
        places[item] = room.take_tightest(problem.items[item].size)?;
    }
    Some(places)
}

/// From large to small, each at home if there is room, or else where the least is left over.
fn decreasing_at_home(problem: &Problem, order: &[usize]) -> Option<Vec<usize>> {
    let (mut places, mut room) = (problem.at_home(), Room::of(problem));
    for item in order {
        let Item { size, home, .. } = problem.items[*item];
        match home {
            Some(home) if room.take(home, size) => {}
            _ => places[*item] = room.take_tightest(size)?,
        }
    }
    Some(places)
}

/// A packing of all, given bins for some: the rest goes, in this order, where the least is left over. Then bins become workers, so that
/// many find themselves at home. `None` if there is not enough room.
pub(super) fn completed(
    problem: &Problem,
    bins: &BTreeMap<usize, usize>,
    rest: &[usize],
) -> Option<Vec<usize>> {
    let (mut places, mut room) = (problem.at_home(), Room::of(problem));
    for (item, bin) in bins {
        assert!(room.take(*bin, problem.items[*item].size), "bins hold what is in them");
        places[*item] = *bin;
    }
    for item in rest {
        places[*item] = room.take_tightest(problem.items[*item].size)?;
    }
    let mut at_home: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let sized = |item: &usize| problem.items[*item].size > 0;
    for item in (0..places.len()).filter(sized) {
        if let Some(home) = problem.items[item].home {
            *at_home.entry((places[item], home)).or_default() += 1;
        }
    }
    let mut most: Vec<((usize, usize), usize)> = at_home.into_iter().collect();
    most.sort_by_key(|(pair, count)| (std::cmp::Reverse(*count), *pair));
    let mut worker_of: Vec<Option<usize>> = vec![None; problem.workers];
    let mut is_taken = vec![false; problem.workers];
    for ((bin, worker), _) in most {
        if worker_of[bin].is_none() && !is_taken[worker] {
            worker_of[bin] = Some(worker);
            is_taken[worker] = true;
        }
    }
    let mut free = (0..problem.workers).filter(|worker| !is_taken[*worker]);
    for worker in &mut worker_of {
        if worker.is_none() {
            *worker = free.next();
        }
    }
    for item in (0..places.len()).filter(sized) {
        places[item] = worker_of[places[item]].expect("as many workers as bins");
    }
    Some(places)
}
