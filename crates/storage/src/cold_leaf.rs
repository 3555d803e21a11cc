//! Map leaves whose pages are all in the file and none in memory: places alone, an eighth of what the leaf takes.
//!
//! A page that nobody reads costs its tenant memory all the same: an entry of its map leaf and a version, 64 bytes. Of data that are a hundred times as much
//! as the memory that would be most of it. So the sweep *freezes* a leaf once none of its pages is in memory and no one else reaches it or them, and who looks for a page
//! of it *thaws* it again: any thread, once for all who share the leaf, without a lock. Nothing is read for that.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use base::{ByteCount, Epoch};

use crate::radix::{Entry, FANOUT, Leaf, Stamp};
use crate::version::{Location, LocationCell, MapShared, PageVersion, VERSION_LEN};

/// A leaf that the file has, and all its pages. What has it holds its node's slot and its pages' slots, as a leaf and its versions would.
pub(crate) struct ColdLeaf {
    pub(crate) stamp: Stamp,
    /// Where the pages lie, for as long as `thawed` is null.
    places: [LocationCell; FANOUT],
    /// The leaf, of an `Arc`, once somebody has looked into it. It stays until the leaf is frozen again, becomes the live map's own, or is dropped.
    thawed: AtomicPtr<Leaf>,
}

const _: () = assert!(size_of::<ColdLeaf>() <= 2 * 1024 + 64);

/// What a look into a cold leaf adds to the memory at most, without asking for room: 16 KiB and some bytes.
pub const THAWED_LEN_MAX: ByteCount = ByteCount((size_of::<Leaf>() + FANOUT * VERSION_LEN) as u64);

impl ColdLeaf {
    /// A leaf as the file has it: at `location`, last changed in epoch `born`.
    pub(crate) fn stored(
        born: Epoch,
        location: Location,
        shared: &Arc<MapShared>,
        places: impl Iterator<Item = (usize, Location)>,
    ) -> ColdLeaf {
        let stamp = Stamp::new(born, Some(location), shared, size_of::<ColdLeaf>());
        let mut cells = std::array::from_fn(|_| LocationCell::default());
        for (index, location) in places {
            cells[index] = LocationCell::new(Some(location));
        }
        let pages = count(&cells);
        shared.note_versions(pages);
        shared.note_cold(pages);
        shared.note_cold_leaf();
        ColdLeaf { stamp, places: cells, thawed: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A leaf that [`is_freezable`], without its versions.
    pub(crate) fn of(mut leaf: Leaf) -> ColdLeaf {
        let places = leaf.entries.each_mut().map(freeze);
        let Leaf { mut stamp, .. } = leaf;
        stamp.resize(size_of::<ColdLeaf>());
        stamp.shared().note_cold(count(&places));
        stamp.shared().note_cold_leaf();
        ColdLeaf { stamp, places, thawed: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The leaf, if somebody has looked into it.
    #[inline]
    pub(crate) fn warm(&self) -> Option<&Leaf> {
        let leaf = self.thawed.load(Ordering::Acquire);
        // SAFETY: the pointer is that of an `Arc` that this holds until it is taken out through `&mut self`.
        (!leaf.is_null()).then(|| unsafe { &*leaf })
    }

    /// The leaf.
    #[inline]
    pub(crate) fn leaf(&self) -> &Leaf {
        self.warm().unwrap_or_else(|| self.thaw())
    }

    /// The leaf, to be kept.
    pub(crate) fn share(&self) -> Arc<Leaf> {
        self.leaf();
        // Not from the reference: only the pointer that the `Arc` was made into reaches its counts.
        let leaf = self.thawed.load(Ordering::Acquire).cast_const();
        // SAFETY: it is that of an `Arc` which this holds meanwhile; the count that is added here is the result's.
        unsafe {
            Arc::increment_strong_count(leaf);
            Arc::from_raw(leaf)
        }
    }

    /// A leaf of these pages. Their versions hold no slots: whoever drops them while this has the places takes the locations out first.
    fn make(&self) -> Leaf {
        let shared = self.stamp.shared();
        shared.charge(count(&self.places) as usize * VERSION_LEN);
        let mut leaf = Leaf::new(self.stamp.born, None, shared);
        for (entry, place) in leaf.entries.iter_mut().zip(&self.places) {
            if let Some(location) = place.get() {
                *entry = Entry::new(PageVersion::thawed(location, shared), self.stamp.born);
            }
        }
        leaf
    }

    #[cold]
    fn thaw(&self) -> &Leaf {
        let made = Arc::into_raw(Arc::new(self.make())).cast_mut();
        let raced = self.thawed.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        match raced {
            Ok(_) => self.stamp.shared().forget_cold(count(&self.places)),
            Err(_) => {
                // SAFETY: nobody has seen it. What it would release is the other's.
                let mut mine = Arc::into_inner(unsafe { Arc::from_raw(made) }).expect("nobody has seen it");
                mine.entries.iter_mut().for_each(|entry| drop(freeze(entry)));
            }
        }
        self.warm().expect("thawed just now")
    }

    /// Lets go of the leaf again, if nobody else reaches it or its pages, and none is in memory; false if that is not so.
    pub(crate) fn freeze_again(&mut self) -> bool {
        let thawed = *self.thawed.get_mut();
        if thawed.is_null() {
            return false;
        }
        // SAFETY: the `Arc` that this holds; it is put back below unless it is unpacked.
        let mut leaf = unsafe { Arc::from_raw(thawed) };
        if !Arc::get_mut(&mut leaf).is_some_and(is_freezable) {
            let _ = Arc::into_raw(leaf);
            return false;
        }
        *self.thawed.get_mut() = ptr::null_mut();
        let mut leaf = Arc::into_inner(leaf).expect("nobody else has it");
        self.places = leaf.entries.each_mut().map(freeze);
        self.stamp.shared().note_cold(count(&self.places));
        true
    }

    /// Takes the leaf out, with the pages' slots; the node's slot stays.
    pub(crate) fn take_leaf(&mut self) -> Arc<Leaf> {
        self.leaf();
        let leaf = std::mem::replace(self.thawed.get_mut(), ptr::null_mut());
        self.places = std::array::from_fn(|_| LocationCell::default());
        // SAFETY: the `Arc` that this held, which is the result's from here on.
        unsafe { Arc::from_raw(leaf) }
    }

    /// Where the page at an index lies, if there is one.
    pub(crate) fn place(&self, index: usize) -> Option<Location> {
        match self.warm() {
            Some(leaf) => leaf.entries[index].version.as_ref()?.location(),
            None => self.places[index].get(),
        }
    }
}

impl Drop for ColdLeaf {
    fn drop(&mut self) {
        self.stamp.shared().forget_cold_leaf();
        let thawed = *self.thawed.get_mut();
        if !thawed.is_null() {
            // SAFETY: the `Arc` that this holds.
            drop(unsafe { Arc::from_raw(thawed) });
            return;
        }
        let shared = self.stamp.shared();
        let pages = count(&self.places);
        self.places.iter().for_each(|place| shared.release(place.get()));
        shared.forget_versions(pages);
        shared.forget_cold(pages);
    }
}

/// A leaf for one who loads none of its pages: of a cold leaf it is made anew and goes with this, so that a walk over a whole map leaves it as small as it was.
pub(crate) enum Glance {
    Kept(Arc<Leaf>),
    Passing {
        made: Box<Leaf>,
        #[expect(dead_code, reason = "it has the slots of what was made")]
        of: Arc<ColdLeaf>,
    },
}

impl Glance {
    pub(crate) fn at(cold: Arc<ColdLeaf>) -> Glance {
        match cold.warm() {
            Some(_) => Glance::Kept(cold.share()),
            None => Glance::Passing { made: Box::new(cold.make()), of: cold },
        }
    }
}

impl Deref for Glance {
    type Target = Leaf;

    fn deref(&self) -> &Leaf {
        match self {
            Glance::Kept(leaf) => leaf,
            Glance::Passing { made, .. } => made,
        }
    }
}

impl Drop for Glance {
    fn drop(&mut self) {
        if let Glance::Passing { made, .. } = self {
            made.entries.iter_mut().for_each(|entry| drop(freeze(entry)));
        }
    }
}

fn count(places: &[LocationCell]) -> u64 {
    places.iter().filter(|place| place.get().is_some()).count() as u64
}

/// Whether a leaf can be frozen: the file has all of it, memory has no page of it, and nobody else reaches a page.
pub(crate) fn is_freezable(leaf: &mut Leaf) -> bool {
    leaf.entries.iter_mut().filter_map(|entry| entry.version.as_mut()).all(|version| {
        Arc::get_mut(version).is_some_and(|version| !version.is_resident() && version.location().is_some())
    })
}

/// What is left of an entry whose version nobody else has.
fn freeze(entry: &mut Entry) -> LocationCell {
    let version =
        std::mem::take(entry).version.map(|version| Arc::into_inner(version).expect("nobody else has it"));
    LocationCell::new(version.and_then(PageVersion::freeze))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use base::SlotNo;

    use super::*;

    const PAGES: usize = FANOUT.div_ceil(3);

    fn location(slot: usize) -> Location {
        Location { slot: SlotNo(slot as u32), checksum: 0 }
    }

    /// A third of the pages of a leaf, in the slots from 100 on; the node in slot 7.
    fn cold(shared: &Arc<MapShared>) -> ColdLeaf {
        let places = (0..FANOUT).step_by(3).enumerate().map(|(i, index)| (index, location(100 + i)));
        ColdLeaf::stored(Epoch(1), location(7), shared, places)
    }

    /// Bytes, pages, and of these cold ones.
    fn counts(shared: &MapShared) -> [u64; 3] {
        [shared.resident_bytes(), shared.versions(), shared.cold().0]
    }

    /// All slots, each released once.
    fn check_released(shared: &MapShared) {
        let mut slots: Vec<u32> = shared.take_released().map(|slot| slot.0).collect();
        slots.sort_unstable();
        let all: Vec<u32> = std::iter::once(7).chain(100..100 + PAGES as u32).collect();
        assert_eq!(slots, all);
        assert_eq!(counts(shared), [0; 3]);
        assert_eq!(shared.cold(), (0, 0));
    }

    #[test]
    fn all_who_look_have_one_leaf_and_it_is_cold_again_when_they_are_gone() {
        let shared = MapShared::new(None);
        let cold = cold(&shared);
        let before = counts(&shared);
        assert_eq!(before[1..], [PAGES as u64; 2]);
        let kept: Vec<_> = thread::scope(|scope| {
            let looks: Vec<_> = (0..3).map(|_| scope.spawn(|| cold.share())).collect();
            looks.into_iter().map(|look| look.join().expect("no panic")).collect()
        });
        assert!(kept.iter().all(|leaf| ptr::eq(&**leaf, cold.leaf())));
        assert_eq!(counts(&shared)[1..], [PAGES as u64, 0]);
        let mut cold = cold;
        assert!(!cold.freeze_again(), "they have it still");
        drop(kept);
        assert!(cold.freeze_again() && !cold.freeze_again());
        assert_eq!(counts(&shared), before);
        assert_eq!(cold.place(3), Some(location(101)));
        assert_eq!(shared.take_released().count(), 0);
        drop(cold);
        check_released(&shared);
    }

    #[test]
    fn slots_are_released_once_however_a_leaf_goes() {
        let shared = MapShared::new(None);
        let mut of_map = cold(&shared);
        let leaf = of_map.take_leaf();
        drop(of_map);
        assert_eq!(
            shared.take_released().map(|slot| slot.0).collect::<Vec<_>>(),
            [7],
            "its pages are the leaf's"
        );
        let leaf = Arc::into_inner(leaf).expect("nobody else has it");
        let again = ColdLeaf::of(leaf);
        assert_eq!(counts(&shared)[1..], [PAGES as u64; 2]);
        drop(again);
        assert_eq!(shared.take_released().count(), PAGES);

        let thawed = cold(&shared);
        thawed.leaf();
        drop(thawed);
        check_released(&shared);

        let passed = Arc::new(cold(&shared));
        let before = counts(&shared);
        let glance = Glance::at(Arc::clone(&passed));
        assert_eq!(
            glance.entries[3].version.as_ref().and_then(|version| version.location()),
            Some(location(101))
        );
        drop(glance);
        assert!(passed.warm().is_none());
        assert_eq!((counts(&shared), shared.take_released().count()), (before, 0));
        let kept = {
            passed.leaf();
            Glance::at(Arc::clone(&passed))
        };
        assert!(ptr::eq(&*kept, passed.leaf()));
        drop((kept, passed));
        check_released(&shared);
    }
}
