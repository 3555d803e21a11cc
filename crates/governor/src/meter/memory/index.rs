//! Places of pages by page number: an open-addressing table of fixed size.

use base::PageNo;

use super::sample::hash_of;

/// For each page of a table its place there, by linear probing; a removed one is closed up behind.
pub(super) struct Index {
    /// Place + 1, or 0.
    places: Box<[u16]>,
}

impl Index {
    /// An index of up to `capacity` places, half full then.
    pub(super) fn new(capacity: usize) -> Index {
        assert!(capacity < usize::from(u16::MAX), "{capacity} places");
        Index { places: vec![0; (2 * capacity).next_power_of_two()].into_boxed_slice() }
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    fn home_of(&self, no: PageNo) -> usize {
        hash_of(no) as usize & self.mask()
    }

    /// Where `no` is, or the free cell where it would be. `page_at` tells which page a place has.
    fn cell_of(&self, no: PageNo, page_at: impl Fn(usize) -> PageNo) -> usize {
        let mut cell = self.home_of(no);
        while self.places[cell] != 0 && page_at(usize::from(self.places[cell]) - 1) != no {
            cell = (cell + 1) & self.mask();
        }
        cell
    }

    pub(super) fn find(&self, no: PageNo, page_at: impl Fn(usize) -> PageNo) -> Option<usize> {
        usize::from(self.places[self.cell_of(no, page_at)]).checked_sub(1)
    }

    /// Says that `no` is at `place` now, whether it is known or not.
    pub(super) fn set(&mut self, no: PageNo, place: usize, page_at: impl Fn(usize) -> PageNo) {
        let cell = self.cell_of(no, page_at);
        self.places[cell] = u16::try_from(place + 1).expect("checked when made");
    }

    /// Forgets `no`, which is known. `page_at` still knows it.
    pub(super) fn remove(&mut self, no: PageNo, page_at: impl Fn(usize) -> PageNo) {
        let mut hole = self.cell_of(no, &page_at);
        assert!(self.places[hole] != 0, "{no:?} is known");
        let mut next = hole;
        loop {
            next = (next + 1) & self.mask();
            let Some(place) = usize::from(self.places[next]).checked_sub(1) else { break };
            // Who would be found at or before the hole moves into it.
            let home = self.home_of(page_at(place));
            if next.wrapping_sub(home) & self.mask() >= next.wrapping_sub(hole) & self.mask() {
                self.places[hole] = self.places[next];
                hole = next;
            }
        }
        self.places[hole] = 0;
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(0);
    }

    pub(super) fn len_bytes(&self) -> u64 {
        size_of_val(&*self.places) as u64
    }
}
