//! A binary heap of lanes by a key that may change, with the place of each lane known.

/// Position of a lane that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// The lane with the smallest key first; equal keys in no order. Room for a lane is made by [`LaneHeap::know`]; nothing
/// else allocates.
#[derive(Default)]
pub(super) struct LaneHeap {
    entries: Vec<(u64, u32)>,
    positions: Vec<u32>,
    /// Entries that were looked at to find a place for one.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl LaneHeap {
    /// Makes room for lanes `0..lanes`.
    pub(super) fn know(&mut self, lanes: usize) {
        self.positions.resize(lanes.max(self.positions.len()), ABSENT);
        self.entries.reserve(self.positions.len() - self.entries.len());
    }

    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.entries.first().copied()
    }

    /// Puts a lane in, or gives it another key.
    pub(super) fn set(&mut self, lane: u32, key: u64) {
        let position = self.positions[lane as usize];
        if position == ABSENT {
            self.entries.push((key, lane));
            let last = self.entries.len() - 1;
            self.positions[lane as usize] = last as u32;
            self.sift_up(last);
        } else if self.entries[position as usize].0 != key {
            self.entries[position as usize].0 = key;
            let position = self.sift_up(position as usize);
            self.sift_down(position);
        }
    }

    pub(super) fn remove(&mut self, lane: u32) {
        let position = std::mem::replace(&mut self.positions[lane as usize], ABSENT);
        if position == ABSENT {
            return;
        }
        let position = position as usize;
        self.entries.swap_remove(position);
        if let Some((_, moved)) = self.entries.get(position) {
            self.positions[*moved as usize] = position as u32;
            let position = self.sift_up(position);
            self.sift_down(position);
        }
    }

    /// An entry is looked at. For tests, which count that.
    fn look(&mut self) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
    }

    fn swap(&mut self, left: usize, right: usize) {
        self.entries.swap(left, right);
        self.positions[self.entries[left].1 as usize] = left as u32;
        self.positions[self.entries[right].1 as usize] = right as u32;
    }

    fn sift_up(&mut self, mut position: usize) -> usize {
        while position > 0 {
            self.look();
            let parent = (position - 1) / 2;
            if self.entries[parent].0 <= self.entries[position].0 {
                break;
            }
            self.swap(position, parent);
            position = parent;
        }
        position
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            self.look();
            let left = 2 * position + 1;
            if left >= self.entries.len() {
                return;
            }
            let right = left + 1;
            let smaller = |a: usize, b: usize| self.entries[a].0 < self.entries[b].0;
            let child = if right < self.entries.len() && smaller(right, left) { right } else { left };
            if !smaller(child, position) {
                return;
            }
            self.swap(position, child);
            position = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_smallest(changes in prop::collection::vec((0..20u32, prop::option::of(0..50u64)), 1..200)) {
            let mut heap = LaneHeap::default();
            heap.know(20);
            let mut model = BTreeMap::new();
            for (lane, key) in changes {
                match key {
                    Some(key) => {
                        heap.set(lane, key);
                        model.insert(lane, key);
                    }
                    None => {
                        heap.remove(lane);
                        model.remove(&lane);
                    }
                }
                prop_assert_eq!(heap.first().map(|(key, _)| key), model.values().min().copied());
                if let Some((key, lane)) = heap.first() {
                    prop_assert_eq!(model.get(&lane), Some(&key));
                }
            }
        }
    }
}
