//! Packing the largest exactly: the fewest workers for every subset of them.
//!
//! For each set of items the fewest bins, and then the least that the last of them holds, over all orders of filling one bin after the other;
//! 2^n · n steps (Held and Karp's dynamic programme, for bin packing). Whole workers need no thought: each takes one. What is smaller than the 16
//! largest goes where the least is left over; if that finds no room although the sum fits, nothing is known.

use std::collections::BTreeMap;

use super::pack::{Problem, completed};

/// Items looked at exactly: a million steps.
pub(super) const SUBSET_ITEMS_MAX: usize = 16;

pub(super) enum Subsets {
    Packing(Vec<usize>),
    Impossible,
    Unknown,
}

/// Packs all items, `order` from large to small.
pub(super) fn pack(problem: &Problem, order: &[usize]) -> Subsets {
    let whole = order.partition_point(|item| problem.items[*item].size == problem.capacity);
    let (whole, parts) = order.split_at(whole);
    let (large, small) = parts.split_at(parts.len().min(SUBSET_ITEMS_MAX));
    if whole.len() > problem.workers {
        return Subsets::Impossible;
    }
    let sizes: Vec<u32> = large.iter().map(|item| problem.items[*item].size).collect();
    let large_bins = fewest_bins(&sizes, problem.capacity);
    let bins_needed = large_bins.iter().max().map_or(0, |last| last + 1);
    if whole.len() + bins_needed > problem.workers {
        return Subsets::Impossible;
    }
    let bins: BTreeMap<usize, usize> = whole
        .iter()
        .copied()
        .zip(0..)
        .chain(large.iter().zip(large_bins).map(|(item, bin)| (*item, whole.len() + bin)))
        .collect();
    completed(problem, &bins, small).map_or(Subsets::Unknown, Subsets::Packing)
}

/// The bin of each item, in the fewest bins there are. Each size is at most the capacity.
fn fewest_bins(sizes: &[u32], capacity: u32) -> Vec<usize> {
    assert!(sizes.len() <= SUBSET_ITEMS_MAX && sizes.iter().all(|size| *size <= capacity));
    // (bins that are full or left behind, what the present one holds) and the item that came last.
    let mut states: Vec<(u32, u32, u8)> = vec![(u32::MAX, 0, 0); 1 << sizes.len()];
    states[0] = (0, 0, 0);
    for set in 0..states.len() {
        let (bins, filled, _) = states[set];
        for (item, size) in sizes.iter().enumerate().filter(|(item, _)| set & (1 << item) == 0) {
            let next = match filled + size {
                filled if filled <= capacity => (bins, filled),
                _ => (bins + 1, *size),
            };
            let state = &mut states[set | 1 << item];
            if next < (state.0, state.1) {
                *state = (next.0, next.1, item as u8);
            }
        }
    }
    let (mut set, mut bin_of) = (states.len() - 1, vec![0; sizes.len()]);
    while set > 0 {
        let (bins, _, item) = states[set];
        bin_of[usize::from(item)] = bins as usize;
        set &= !(1 << item);
    }
    bin_of
}
