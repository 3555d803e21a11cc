//! One simulated cache: page numbers, the hand that goes over them, and LRU-2 by what it sees.
//!
//! As the real one does, it learns at a visit of the hand whether a page was used since the visit before, keeps the times
//! of the last two such visits, counted in its own evictions, and evicts none that was used. Its choice is its own: the page
//! whose last use but one is the longest ago of the next few unused ones. Changed pages stay until they are written, all at a time, once they
//! are a quarter of a full cache, as the server writes those of a tenant.

use base::PageNo;

use super::index::Index;

/// Fewest pages of a cache.
pub(super) const CAPACITY_MIN: usize = 8;
/// Unused pages compared for one eviction.
const COMPARED: usize = 8;
/// The part of a full cache that may be changed pages.
const CHANGED_PART: u32 = 4;

#[derive(Clone, Copy)]
struct Held {
    no: PageNo,
    /// Evictions of the cache at the last use that a visit saw, and at the one before. The clock wraps around; ages are
    /// differences.
    last: u32,
    before: Option<u32>,
    is_used: bool,
    is_changed: bool,
}

/// What a cache knew of a page that was referenced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Before {
    pub(super) had: bool,
    /// Changed pages that were written to make room.
    pub(super) written: u32,
}

pub(super) struct GhostCache {
    capacity: usize,
    held: Vec<Held>,
    index: Index,
    hand: usize,
    evictions: u32,
    has_evicted: bool,
    changed: u32,
}

impl GhostCache {
    /// A cache of so many pages, eight at least.
    pub(super) fn new(capacity: usize) -> GhostCache {
        let capacity = capacity.max(CAPACITY_MIN);
        GhostCache {
            capacity,
            held: Vec::with_capacity(capacity),
            index: Index::new(capacity),
            hand: 0,
            evictions: 0,
            has_evicted: false,
            changed: 0,
        }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        (self.capacity * size_of::<Held>()) as u64 + self.index.len_bytes()
    }

    /// How many of its pages are changed.
    pub(super) fn changed(&self) -> u32 {
        self.changed
    }

    /// Whether it ever had to choose.
    pub(super) fn has_evicted(&self) -> bool {
        self.has_evicted
    }

    fn find(&self, no: PageNo) -> Option<usize> {
        self.index.find(no, |place| self.held[place].no)
    }

    /// A use of page `no`, which it has from then on; `is_again` if it is one more than its being read. Names to `forget` the
    /// pages that the hand passed: their next use is one since then.
    pub(super) fn reference(
        &mut self,
        no: PageNo,
        is_again: bool,
        forget: &mut impl FnMut(PageNo),
    ) -> Before {
        if let Some(place) = self.find(no) {
            self.held[place].is_used = true;
            return Before { had: true, written: 0 };
        }
        let new = Held { no, last: self.evictions, before: None, is_used: is_again, is_changed: false };
        let mut written = 0;
        let place = if self.held.len() < self.capacity {
            self.held.push(new);
            self.held.len() - 1
        } else {
            if self.has_many_changed() {
                written = self.write_all();
            }
            let place = self.choose(forget);
            self.index.remove(self.held[place].no, |place| self.held[place].no);
            self.held[place] = new;
            self.evictions = self.evictions.wrapping_add(1);
            self.has_evicted = true;
            place
        };
        self.index.set(no, place, |place| self.held[place].no);
        Before { had: false, written }
    }

    fn has_many_changed(&self) -> bool {
        self.changed >= (self.capacity as u32).div_ceil(CHANGED_PART)
    }

    /// The place of the oldest of the next unused pages.
    fn choose(&mut self, forget: &mut impl FnMut(PageNo)) -> usize {
        let mut oldest: Option<((bool, u32, u32), usize)> = None;
        let mut compared = 0;
        // After a lap every page counts as unused, and three quarters are not changed.
        for _ in 0..2 * self.capacity {
            let place = self.hand;
            self.hand = (place + 1) % self.capacity;
            let held = &mut self.held[place];
            if held.is_used {
                held.is_used = false;
                (held.before, held.last) = (Some(held.last), self.evictions);
                forget(held.no);
            } else if !held.is_changed {
                let age = |at: u32| self.evictions.wrapping_sub(at);
                // One without a use before the last is older than all.
                let age = (held.before.is_none(), held.before.map_or(0, age), age(held.last));
                if oldest.is_none_or(|(other, _)| age > other) {
                    oldest = Some((age, place));
                }
                compared += 1;
                if compared == COMPARED {
                    break;
                }
            }
        }
        oldest.expect("a page that is neither used nor changed").1
    }

    /// Page `no` is changed, if it has it.
    pub(super) fn change(&mut self, no: PageNo) {
        if let Some(place) = self.find(no) {
            self.changed += u32::from(!std::mem::replace(&mut self.held[place].is_changed, true));
        }
    }

    /// Writes the changed pages; how many.
    pub(super) fn write_all(&mut self) -> u32 {
        self.held.iter_mut().for_each(|held| held.is_changed = false);
        std::mem::take(&mut self.changed)
    }

    /// Drops page `no`, if it has it.
    pub(super) fn remove(&mut self, no: PageNo) {
        let Some(place) = self.find(no) else { return };
        self.index.remove(no, |place| self.held[place].no);
        self.changed -= u32::from(self.held[place].is_changed);
        let last = self.held.len() - 1;
        if place < last {
            let moved = self.held[last];
            self.index.set(moved.no, place, |place| self.held[place].no);
        }
        self.held.swap_remove(place);
        self.hand = if self.hand > last { 0 } else { self.hand };
    }

    /// Drops all pages.
    pub(super) fn empty(&mut self) {
        self.held.clear();
        self.index.clear();
        (self.hand, self.changed, self.has_evicted) = (0, 0, false);
    }
}
