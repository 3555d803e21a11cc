//! Map leaves whose pages are all in the file and none in memory: places alone, an eighth of what the leaf takes.
//!
//! A page that nobody reads costs its tenant memory all the same: an entry of its map leaf and a version, 64 bytes. Of data that are a hundred times as much
//! as the memory that would be most of it. So the sweep *freezes* a leaf once none of its pages is in memory and no one else reaches it or them, and who looks for a page
//! of it *thaws* it again: any thread, once for all who share the leaf, without a lock. Nothing is read for that.

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
        let mut pages = 0;
        for (index, location) in places {
            cells[index] = LocationCell::new(Some(location));
            pages += 1;
        }
        shared.note_versions(pages);
        ColdLeaf { stamp, places: cells, thawed: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A leaf that [`is_freezable`], without its versions.
    pub(crate) fn of(mut leaf: Leaf) -> ColdLeaf {
        let places = leaf.entries.each_mut().map(freeze);
        let Leaf { mut stamp, .. } = leaf;
        stamp.resize(size_of::<ColdLeaf>());
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
        let leaf = ptr::from_ref(self.leaf());
        // SAFETY: it is that of an `Arc` which this holds meanwhile; the count that is added here is the result's.
        unsafe {
            Arc::increment_strong_count(leaf);
            Arc::from_raw(leaf)
        }
    }

    #[cold]
    fn thaw(&self) -> &Leaf {
        let shared = self.stamp.shared();
        let mut leaf = Leaf::new(self.stamp.born, None, shared);
        for (entry, place) in leaf.entries.iter_mut().zip(&self.places) {
            if let Some(location) = place.get() {
                *entry = Entry::new(PageVersion::thawed(location, shared), self.stamp.born);
            }
        }
        let made = Arc::into_raw(Arc::new(leaf)).cast_mut();
        let raced = self.thawed.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        if raced.is_err() {
            // SAFETY: nobody has seen it. What it would release is the other's.
            let mut mine = Arc::into_inner(unsafe { Arc::from_raw(made) }).expect("nobody has seen it");
            mine.entries.iter_mut().for_each(|entry| drop(freeze(entry)));
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

    /// Whether there is a page at an index, without a look at it.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.places[index].get().is_some()
    }
}

impl Drop for ColdLeaf {
    fn drop(&mut self) {
        let thawed = *self.thawed.get_mut();
        if !thawed.is_null() {
            // SAFETY: the `Arc` that this holds.
            drop(unsafe { Arc::from_raw(thawed) });
            return;
        }
        let shared = self.stamp.shared();
        let mut pages = 0;
        for place in &self.places {
            pages += u64::from(place.get().is_some());
            shared.release(place.get());
        }
        shared.forget_versions(pages);
    }
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
