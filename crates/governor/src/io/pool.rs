//! Places for what waits, in first-in first-out lists that share one pool of them.
//!
//! An idle tenant holds no place. The pool allocates only when more waits than ever before.

/// No place.
const NONE: u32 = u32::MAX;

struct Place<V> {
    value: Option<V>,
    /// Tells a place's present user from earlier ones.
    generation: u32,
    before: u32,
    after: u32,
}

/// A list's two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, last: NONE }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// Where a value is, as long as it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlaceNo {
    index: u32,
    generation: u32,
}

pub(crate) struct Pool<V> {
    places: Vec<Place<V>>,
    /// First of the free places, linked by `after`.
    free: u32,
}

impl<V> Pool<V> {
    pub(crate) fn new() -> Pool<V> {
        Pool { places: Vec::new(), free: NONE }
    }

    pub(crate) fn push(&mut self, list: &mut List, value: V) -> PlaceNo {
        let index = match self.free {
            NONE => {
                let index = u32::try_from(self.places.len()).expect("fewer than 2^32 requests wait");
                self.places.push(Place { value: None, generation: 0, before: NONE, after: NONE });
                index
            }
            index => {
                self.free = self.places[index as usize].after;
                index
            }
        };
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        place.before = list.last;
        place.after = NONE;
        let generation = place.generation;
        match list.last {
            NONE => list.first = index,
            last => self.places[last as usize].after = index,
        }
        list.last = index;
        PlaceNo { index, generation }
    }

    pub(crate) fn first(&self, list: &List) -> Option<&V> {
        self.places.get(list.first as usize)?.value.as_ref()
    }

    pub(crate) fn pop_first(&mut self, list: &mut List) -> Option<V> {
        if list.is_empty() { None } else { Some(self.unlink(list, list.first)) }
    }

    pub(crate) fn pop_last(&mut self, list: &mut List) -> Option<V> {
        if list.is_empty() { None } else { Some(self.unlink(list, list.last)) }
    }

    /// What is at `at`, if it still waits.
    pub(crate) fn get(&self, at: PlaceNo) -> Option<&V> {
        let place = self.places.get(at.index as usize)?;
        if place.generation == at.generation { place.value.as_ref() } else { None }
    }

    /// Takes out what is at `at`, which stands in `list`; `None` if it waits no more.
    pub(crate) fn remove(&mut self, list: &mut List, at: PlaceNo) -> Option<V> {
        self.get(at)?;
        Some(self.unlink(list, at.index))
    }

    /// The values of a list, first to last.
    pub(crate) fn iter_mut(&mut self, list: &List, mut each: impl FnMut(&mut V) -> bool) {
        let mut index = list.first;
        while let Some(place) = self.places.get_mut(index as usize) {
            if !each(place.value.as_mut().expect("a linked place has a value")) {
                return;
            }
            index = place.after;
        }
    }

    fn unlink(&mut self, list: &mut List, index: u32) -> V {
        let place = &mut self.places[index as usize];
        let (before, after) = (place.before, place.after);
        let value = place.value.take().expect("a linked place has a value");
        place.generation = place.generation.wrapping_add(1);
        place.after = self.free;
        self.free = index;
        match before {
            NONE => list.first = after,
            before => self.places[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.places[after as usize].before = before,
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_places_are_used_again() {
        let mut pool = Pool::new();
        let (mut left, mut right) = (List::default(), List::default());
        let a = pool.push(&mut left, 'a');
        let b = pool.push(&mut left, 'b');
        pool.push(&mut right, 'x');
        pool.push(&mut left, 'c');
        assert_eq!(pool.remove(&mut left, b), Some('b'));
        assert_eq!(pool.remove(&mut left, b), None, "it waits no more");
        assert_eq!(pool.first(&left), Some(&'a'));
        assert_eq!(pool.pop_first(&mut left), Some('a'));
        let d = pool.push(&mut right, 'd');
        assert_eq!((pool.get(a), pool.get(b), pool.get(d)), (None, None, Some(&'d')));
        assert_eq!(pool.places.len(), 4, "places are used again");
        assert_eq!(pool.pop_last(&mut right), Some('d'));
        assert_eq!((pool.pop_first(&mut right), pool.pop_first(&mut right)), (Some('x'), None));
        assert_eq!((pool.pop_first(&mut left), pool.pop_first(&mut left)), (Some('c'), None));
        assert!(left.is_empty() && right.is_empty());
    }
}
