//! In which order tenants move: first into room that is there, so that their leaving makes room for others.

use std::collections::BTreeSet;

use super::pack::Problem;
use super::{Move, MoveReason, Resident, worker_id};

/// The moves from where the residents are to `places`. `packed` is where reservations alone would have them. Where all that is left waits for each other's room, the
/// smallest goes first.
pub(super) fn ordered(
    residents: &[Resident],
    problem: &Problem,
    packed: &[usize],
    places: &[usize],
) -> Vec<Move> {
    // Parts elsewhere have no way to go: they are where they will be.
    let before: Vec<usize> =
        problem.items.iter().zip(places).map(|(item, to)| item.home.unwrap_or(*to)).collect();
    let mut taken = problem.taken(&before);
    let size = |item: usize| u64::from(problem.items[item].size);
    let mut waiting: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); problem.workers];
    for item in (0..residents.len()).filter(|item| before[*item] != places[*item]) {
        waiting[places[item]].insert((size(item), item));
    }
    let mut all: BTreeSet<(u64, usize)> = waiting.iter().flatten().copied().collect();
    let mut to_look_at: Vec<usize> = (0..problem.workers).rev().collect();
    let mut moves = Vec::with_capacity(all.len());
    loop {
        let next = match to_look_at.last() {
            Some(to) => {
                let first = waiting[*to].first().copied();
                let fits =
                    |(size, _): &(u64, usize)| *size == 0 || taken[*to] + size <= u64::from(problem.capacity);
                first.filter(fits)
            }
            None => all.first().copied(),
        };
        let Some((size, item)) = next else {
            // Nothing fits here, or nothing is left at all.
            if to_look_at.pop().is_none() {
                return moves;
            }
            continue;
        };
        let (from, to) = (before[item], places[item]);
        waiting[to].remove(&(size, item));
        all.remove(&(size, item));
        taken[from] -= size;
        taken[to] += size;
        if to_look_at.last() != Some(&from) {
            to_look_at.push(from);
        }
        let reason = if packed[item] != from { MoveReason::Reservation } else { MoveReason::Load };
        let tenant = residents[item].tenant;
        moves.push(Move { tenant, from: worker_id(from), to: worker_id(to), reason });
    }
}
