//! A tenant's commits in the logs by number: runs of them that follow each other, so that one takes little more than its place. A log of a
//! gigabyte may have millions, and the memory is nobody's.

use std::collections::BTreeMap;

use base::CommitNo;

use super::index::Location;

/// Commits freed at a time.
const FREED_AT_ONCE: usize = 4096;

/// The commits that were found so far, each with its place.
#[derive(Default)]
pub(super) struct Commits {
    /// By the number of the first one. A tenant that moves has a run a stay.
    runs: BTreeMap<CommitNo, Vec<Location>>,
}

impl Commits {
    /// Adds a commit; false if it is there already.
    pub(super) fn insert(&mut self, commit: CommitNo, location: Location) -> bool {
        if let Some((first, run)) = self.runs.range_mut(..=commit).next_back() {
            let (at, len) = (commit.0 - first.0, run.len() as u64);
            if at <= len {
                let is_next = at == len;
                if is_next {
                    run.push(location);
                }
                return is_next;
            }
        }
        self.runs.insert(commit, vec![location]);
        true
    }

    pub(super) fn get(&self, commit: CommitNo) -> Option<&Location> {
        let (first, run) = self.runs.range(..=commit).next_back()?;
        run.get((commit.0 - first.0) as usize)
    }

    /// The newest one.
    pub(super) fn last(&self) -> Option<CommitNo> {
        let (first, run) = self.runs.last_key_value()?;
        Some(CommitNo(first.0 + run.len() as u64 - 1))
    }

    /// Those from `commit` on, in order.
    pub(super) fn since(&self, commit: CommitNo) -> impl Iterator<Item = (CommitNo, &Location)> {
        let begins = self.runs.range(..=commit).next_back().map_or(commit, |(first, _)| *first);
        self.runs.range(begins..).flat_map(move |(first, run)| {
            let skipped = (commit.0.saturating_sub(first.0) as usize).min(run.len());
            let number = move |at: usize| CommitNo(first.0 + (skipped + at) as u64);
            run[skipped..].iter().enumerate().map(move |(at, location)| (number(at), location))
        })
    }

    /// Frees some of them, 10 us of work; false if there are none.
    pub(super) fn free_some(&mut self) -> bool {
        let Some(mut last) = self.runs.last_entry() else { return false };
        let left = last.get().len().saturating_sub(FREED_AT_ONCE);
        last.get_mut().truncate(left);
        if left == 0 {
            last.remove();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::redo::index::Extent;

    fn place(group: u32) -> Location {
        Location::Whole(Extent { group, at: 64, len: 10 })
    }

    fn group_of(location: &Location) -> u32 {
        match location {
            Location::Whole(extent) => extent.group,
            _ => panic!("all are whole"),
        }
    }

    #[test]
    fn runs_in_any_order_are_what_a_map_of_commits_is() {
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (mut commits, mut model) = (Commits::default(), BTreeMap::new());
            // Stays at one home and then another, some of them gone, found in the order of the logs.
            let mut stays = Vec::new();
            let mut next = rng.random_range(0..5);
            for _ in 0..rng.random_range(0..12) {
                let end = next + rng.random_range(1..40);
                stays.push(next..end);
                next = end + if rng.random() { 0 } else { rng.random_range(0..9) };
            }
            stays.shuffle(&mut rng);
            for (i, stay) in stays.into_iter().enumerate() {
                for no in stay {
                    assert!(commits.insert(CommitNo(no), place(i as u32)));
                    model.insert(CommitNo(no), i as u32);
                }
            }
            for no in (0..next + 3).map(CommitNo) {
                assert_eq!(commits.get(no).map(group_of), model.get(&no).copied(), "{no} of seed {seed}");
                let from: Vec<_> = commits.since(no).map(|(no, at)| (no, group_of(at))).collect();
                assert_eq!(from, model.range(no..).map(|(no, at)| (*no, *at)).collect::<Vec<_>>());
                if model.contains_key(&no) {
                    assert!(!commits.insert(no, place(99)), "{no} is there");
                }
            }
            assert_eq!(commits.last(), model.last_key_value().map(|(no, _)| *no));
        }
    }

    #[test]
    fn many_commits_are_freed_little_by_little() {
        let mut commits = Commits::default();
        (1..=10_000).chain(20_000..20_010).for_each(|no| assert!(commits.insert(CommitNo(no), place(1))));
        assert_eq!(commits.runs.len(), 2);
        let mut steps = 0;
        while commits.free_some() {
            steps += 1;
        }
        assert_eq!((steps, commits.last()), (4, None));
    }
}
