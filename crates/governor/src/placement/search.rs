//! A bounded search for a packing with fewer moves.
//!
//! Branch and bound, items from large to small, each at home first and then where the least is left over. A branch is cut where it has as many moves as
//! the best so far, counting one for each worker that has not enough room for those who still want to stay; where more room is too small for anything than may be
//! wasted; and where two workers with the same room are nobody's home any more. It stops after [`STEPS_MAX`] steps with the best so far.

use super::pack::Problem;

/// Items at most: beyond that the bound would be spent on the last few.
const ITEMS_MAX: usize = 64;
/// Workers tried, over all branches.
const STEPS_MAX: u32 = 200_000;

struct Search<'a> {
    problem: &'a Problem,
    order: &'a [usize],
    best: Option<Moved>,
    places: Vec<usize>,
    free: Vec<u32>,
    /// What items not placed yet want of their homes.
    wanted: Vec<u64>,
    waste_max: u64,
    steps: u32,
}

/// A packing, after its number of moves.
type Moved = (usize, Vec<usize>);

/// The packing with the fewest moves, as far as the search came, at least as good as `best`; and whether it came to its end, so that there is none better, or none at all.
pub(super) fn fewer_moves(problem: &Problem, order: &[usize], best: Option<Moved>) -> (Option<Moved>, bool) {
    if order.len() > ITEMS_MAX {
        return (best, false);
    }
    let mut wanted = vec![0; problem.workers];
    let mut needed = 0;
    for item in order.iter().map(|item| problem.items[*item]) {
        needed += u64::from(item.size);
        if let Some(home) = item.home {
            wanted[home] += u64::from(item.size);
        }
    }
    let mut search = Search {
        problem,
        order,
        best,
        places: problem.items.iter().map(|item| item.home.unwrap_or(0)).collect(),
        free: vec![problem.capacity; problem.workers],
        wanted,
        waste_max: u64::from(problem.capacity) * problem.workers as u64 - needed,
        steps: 0,
    };
    search.place(0, 0);
    (search.best, search.steps <= STEPS_MAX)
}

impl Search<'_> {
    /// Places the items from `depth` on; `moves` were made.
    fn place(&mut self, depth: usize, moves: usize) {
        if !self.is_worth(depth, moves) {
            return;
        }
        let Some(&item) = self.order.get(depth) else {
            self.best = Some((moves, self.places.clone()));
            return;
        };
        let (size, home) = (self.problem.items[item].size, self.problem.items[item].home);
        if let Some(home) = home {
            self.wanted[home] -= u64::from(size);
        }
        for worker in self.candidates(size, home) {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                break;
            }
            self.free[worker] -= size;
            let before = std::mem::replace(&mut self.places[item], worker);
            self.place(depth + 1, moves + usize::from(home.is_some_and(|home| home != worker)));
            self.places[item] = before;
            self.free[worker] += size;
        }
        if let Some(home) = home {
            self.wanted[home] += u64::from(size);
        }
    }

    /// Whether a better packing may be found from here.
    fn is_worth(&self, depth: usize, moves: usize) -> bool {
        let leaving =
            self.free.iter().zip(&self.wanted).filter(|(free, wanted)| u64::from(**free) < **wanted);
        let moves_min = moves + leaving.count();
        if self.best.as_ref().is_some_and(|(fewest, _)| moves_min >= *fewest) {
            return false;
        }
        let smallest = self.order[depth..].last().map_or(0, |item| self.problem.items[*item].size);
        let wasted = self.free.iter().filter(|free| **free < smallest).map(|free| u64::from(*free));
        wasted.sum::<u64>() <= self.waste_max
    }

    /// Workers with room for an item, in the order they are tried, one of those that are alike.
    fn candidates(&self, size: u32, home: Option<usize>) -> Vec<usize> {
        let has_room = |worker: &usize| self.free[*worker] >= size;
        let mut others: Vec<usize> =
            (0..self.free.len()).filter(|worker| has_room(worker) && Some(*worker) != home).collect();
        others.sort_by_key(|worker| (self.free[*worker], self.wanted[*worker], *worker));
        others
            .dedup_by(|a, b| self.free[*a] == self.free[*b] && (self.wanted[*a], self.wanted[*b]) == (0, 0));
        home.filter(has_room).into_iter().chain(others).collect()
    }
}
