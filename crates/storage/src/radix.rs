//! The persistent radix tree from page numbers to page versions: 256 ways a level, nodes shared by reference count.
//!
//! A node is changed in place only while no one else holds it, and copied otherwise; so a root that was cloned stays
//! what it was. A leaf entry repeats its version's frame address, which saves a dependent load on every page access of the
//! live map: the version is the truth, the address a speed-up. Only the live map looks at it, and it clears it before it takes
//! a frame from its version; entries that snapshots alone reach may keep stale addresses that nobody reads. A cleared address
//! is also how a sweep marks a page: who uses it sets it anew, and if nobody did until the next visit, nobody used the page.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use base::{Epoch, PageNo};

use crate::PageBytes;
use crate::cold_leaf::{ColdLeaf, is_freezable};
use crate::version::{Location, LocationCell, MapShared, PageVersion};

/// Children of a node, in memory and in the file: 256, but half as many where a page has no room for those.
pub(crate) const FANOUT: usize = if base::limits::PAGE_SIZE < 8192 { 128 } else { 256 };
const FANOUT_BITS: u32 = FANOUT.trailing_zeros();

/// Levels of inner nodes that cover every page number: 256^4 = 2^32 pages.
pub(crate) const INNER_LEVELS_MAX: u32 = u32::BITS.div_ceil(FANOUT_BITS) - 1;

/// A reference to a node, or to none.
#[derive(Clone, Default)]
pub(crate) enum Link {
    #[default]
    Empty,
    Inner(Arc<Inner>),
    Leaf(Arc<Leaf>),
    Cold(Arc<ColdLeaf>),
}

/// What both kinds of node carry: when they were made or last changed, and where they lie in the file if they do.
pub(crate) struct Stamp {
    pub(crate) born: Epoch,
    location: LocationCell,
    shared: Arc<MapShared>,
    bytes: u32,
}

pub(crate) struct Inner {
    pub(crate) stamp: Stamp,
    pub(crate) kids: [Link; FANOUT],
}

pub(crate) struct Leaf {
    pub(crate) stamp: Stamp,
    pub(crate) entries: [Entry; FANOUT],
}

const _: () = assert!(size_of::<Leaf>() <= 6 * 1024 + 64 && size_of::<Inner>() <= 4 * 1024 + 64);

/// One page number's place in a leaf.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) version: Option<Arc<PageVersion>>,
    /// Epoch in which the version was made, or its bytes became the owner's again. Equal to the live map's epoch
    /// exactly if only the live map reaches the version.
    pub(crate) born: Epoch,
    data: AtomicPtr<PageBytes>,
}

impl Stamp {
    pub(crate) fn new(
        born: Epoch,
        location: Option<Location>,
        shared: &Arc<MapShared>,
        bytes: usize,
    ) -> Stamp {
        shared.charge(bytes);
        let location = LocationCell::new(location);
        Stamp { born, location, shared: Arc::clone(shared), bytes: bytes as u32 }
    }

    pub(crate) fn location(&self) -> Option<Location> {
        self.location.get()
    }

    pub(crate) fn set_location(&self, location: Location) {
        self.location.set(location);
    }

    pub(crate) fn take_location(&mut self) -> Option<Location> {
        self.location.take()
    }

    pub(crate) fn shared(&self) -> &Arc<MapShared> {
        &self.shared
    }

    /// The node takes so many bytes from here on.
    pub(crate) fn resize(&mut self, bytes: usize) {
        self.shared.charge(bytes);
        self.shared.refund(self.bytes as usize);
        self.bytes = bytes as u32;
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        self.shared.refund(self.bytes as usize);
        self.shared.release(self.location.get());
    }
}

impl Inner {
    pub(crate) fn new(born: Epoch, location: Option<Location>, shared: &Arc<MapShared>) -> Inner {
        let stamp = Stamp::new(born, location, shared, size_of::<Inner>());
        Inner { stamp, kids: [const { Link::Empty }; FANOUT] }
    }

    pub(crate) fn copy(&self, born: Epoch) -> Inner {
        let stamp = Stamp::new(born, None, &self.stamp.shared, size_of::<Inner>());
        Inner { stamp, kids: std::array::from_fn(|i| self.kids[i].clone()) }
    }
}

impl Leaf {
    pub(crate) fn new(born: Epoch, location: Option<Location>, shared: &Arc<MapShared>) -> Leaf {
        let stamp = Stamp::new(born, location, shared, size_of::<Leaf>());
        Leaf { stamp, entries: std::array::from_fn(|_| Entry::default()) }
    }

    pub(crate) fn copy(&self, born: Epoch) -> Leaf {
        let stamp = Stamp::new(born, None, &self.stamp.shared, size_of::<Leaf>());
        Leaf { stamp, entries: std::array::from_fn(|i| self.entries[i].share()) }
    }

    fn for_each(&self, first: u32, visit: &mut dyn FnMut(PageNo, Option<&Entry>)) {
        for (i, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.version.is_some()) {
            visit(PageNo(first + i as u32), Some(entry));
        }
    }
}

impl Entry {
    pub(crate) fn new(version: PageVersion, born: Epoch) -> Entry {
        let data = version.data().map_or(ptr::null_mut(), NonNull::as_ptr);
        Entry { version: Some(Arc::new(version)), born, data: AtomicPtr::new(data) }
    }

    fn share(&self) -> Entry {
        let data = AtomicPtr::new(self.data.load(Ordering::Acquire));
        Entry { version: self.version.clone(), born: self.born, data }
    }

    /// Where the page's bytes are, if the entry has their address. For the live map: valid while it is borrowed.
    #[inline]
    pub(crate) fn warm_data(&self) -> Option<NonNull<PageBytes>> {
        NonNull::new(self.data.load(Ordering::Acquire))
    }

    /// Sets the address from the version, if the page is in memory; true if it was read ahead and not used before.
    pub(crate) fn warm_up(&self) -> Option<bool> {
        let version = self.version.as_ref()?;
        let data = version.data()?;
        let was_ahead = version.note_first_use();
        self.data.store(data.as_ptr(), Ordering::Release);
        Some(was_ahead)
    }

    /// The page's bytes, if the entry has their address. For the live map only.
    #[inline]
    pub(crate) fn warm_bytes(&self) -> Option<&PageBytes> {
        // SAFETY: the entry holds the version, and the version its frame: only the live map evicts, through `&mut` of
        // itself, so not while this borrow of its entry lives. The bytes are written only by the live map, which needs
        // `&mut` of itself too, in versions no snapshot reaches.
        self.warm_data().map(|data| unsafe { data.as_ref() })
    }

    /// Clears the address; says whether it was set, so that the page was used since it was last cleared. For the live map's
    /// owner, who borrows the map exclusively.
    pub(crate) fn cool(&self) -> bool {
        let used = !self.data.load(Ordering::Relaxed).is_null();
        if used {
            self.data.store(ptr::null_mut(), Ordering::Relaxed);
        }
        used
    }
}

impl Link {
    /// Where the node lies in the file, if it does.
    pub(crate) fn location(&self) -> Option<Location> {
        match self {
            Link::Empty => None,
            Link::Inner(inner) => inner.stamp.location(),
            Link::Leaf(leaf) => leaf.stamp.location(),
            Link::Cold(cold) => cold.stamp.location(),
        }
    }

    /// The leaf of page `no` below this root, which stands above `height` levels of inner nodes; empty, or `None`, where there is none.
    #[inline]
    fn leaf_of(&self, height: u32, no: PageNo) -> Option<&Link> {
        if !covers(height, no) {
            return None;
        }
        let mut shift = height * FANOUT_BITS;
        let mut link = self;
        while let Link::Inner(inner) = link {
            link = &inner.kids[kid_index(no, shift)];
            shift = shift.saturating_sub(FANOUT_BITS);
        }
        Some(link)
    }

    /// The entry of page `no`.
    #[inline]
    pub(crate) fn find(&self, height: u32, no: PageNo) -> Option<&Entry> {
        match self.leaf_of(height, no)? {
            Link::Leaf(leaf) => Some(&leaf.entries[kid_index(no, 0)]),
            Link::Cold(cold) => Some(&cold.leaf().entries[kid_index(no, 0)]),
            Link::Inner(_) | Link::Empty => None,
        }
    }

    /// As [`Link::find`], but `None` for a page of a cold leaf that nobody has looked into: none of those is in memory, and no one has its version.
    pub(crate) fn find_warm(&self, height: u32, no: PageNo) -> Option<&Entry> {
        match self.leaf_of(height, no)? {
            Link::Leaf(leaf) => Some(&leaf.entries[kid_index(no, 0)]),
            Link::Cold(cold) => Some(&cold.warm()?.entries[kid_index(no, 0)]),
            Link::Inner(_) | Link::Empty => None,
        }
    }

    /// Where page `no` lies in the file, without a look into a cold leaf.
    pub(crate) fn place(&self, height: u32, no: PageNo) -> Option<Location> {
        match self.leaf_of(height, no)? {
            Link::Leaf(leaf) => leaf.entries[kid_index(no, 0)].version.as_ref()?.location(),
            Link::Cold(cold) => cold.place(kid_index(no, 0)),
            Link::Inner(_) | Link::Empty => None,
        }
    }

    /// A number that no page has, among those of the leaf that begins with page `first`: the first from `next` of them on, or of all. There is one.
    pub(crate) fn free_number(&self, height: u32, first: PageNo, next: u8) -> PageNo {
        let leaf = self.leaf_of(height, first);
        let is_free = |i: &usize| match leaf {
            None | Some(Link::Empty) => true,
            Some(Link::Leaf(leaf)) => leaf.entries[*i].version.is_none(),
            Some(Link::Cold(cold)) => match cold.warm() {
                Some(leaf) => leaf.entries[*i].version.is_none(),
                None => cold.place(*i).is_none(),
            },
            Some(Link::Inner(_)) => unreachable!("no leaf"),
        };
        let from_next = (0..FANOUT).map(|i| (usize::from(next) + i) % FANOUT);
        let index = from_next.filter(|i| first.0 > 0 || *i > 0).find(is_free).expect("a number is free");
        PageNo(first.0 + index as u32)
    }

    /// The first leaf that covers page `from` or a later one, with the first page number it covers; `first` is the first
    /// that this link covers. `None` for a cold leaf that nobody has looked into.
    pub(crate) fn leaf_from(&self, height: u32, first: u32, from: u32) -> Option<(u32, Option<&Leaf>)> {
        let span = |height: u32| FANOUT.pow(height + 1) as u64;
        match self {
            Link::Empty => None,
            Link::Leaf(leaf) => {
                (u64::from(first) + span(0) > u64::from(from)).then_some((first, Some(&**leaf)))
            }
            Link::Cold(cold) => (u64::from(first) + span(0) > u64::from(from)).then(|| (first, cold.warm())),
            Link::Inner(inner) => {
                let below = span(height - 1);
                let start = (u64::from(from.saturating_sub(first)) / below) as usize;
                inner.kids.iter().enumerate().skip(start).find_map(|(i, kid)| {
                    kid.leaf_from(height - 1, first + ((i as u32) << (height * FANOUT_BITS)), from)
                })
            }
        }
    }

    /// Calls `visit` for each page below, in ascending order; `first` is the first page number this link covers. Without an entry for pages of a
    /// cold leaf that nobody has looked into.
    pub(crate) fn for_each(&self, height: u32, first: u32, visit: &mut dyn FnMut(PageNo, Option<&Entry>)) {
        match self {
            Link::Empty => {}
            Link::Cold(cold) if cold.warm().is_none() => {
                for i in (0..FANOUT).filter(|i| cold.place(*i).is_some()) {
                    visit(PageNo(first + i as u32), None);
                }
            }
            Link::Cold(cold) => cold.leaf().for_each(first, visit),
            Link::Leaf(leaf) => leaf.for_each(first, visit),
            Link::Inner(inner) => {
                for (i, kid) in inner.kids.iter().enumerate() {
                    kid.for_each(height - 1, first + ((i as u32) << (height * FANOUT_BITS)), visit);
                }
            }
        }
    }
}

impl Link {
    /// Where the nodes on the way to page `no` lie in the file, its leaf's last.
    pub(crate) fn locations_to(&self, height: u32, no: PageNo) -> impl Iterator<Item = Option<Location>> {
        let mut next = Some((self, height));
        std::iter::from_fn(move || {
            let (link, height) = next?;
            next = match link {
                Link::Inner(inner) => Some((&inner.kids[kid_index(no, shift_of(height))], height - 1)),
                Link::Leaf(_) | Link::Cold(_) | Link::Empty => None,
            };
            Some(link.location())
        })
    }
}

impl Link {
    /// Takes out the leaf of page `no` if no page is left in it, and the nodes above that have nothing else; true if nothing is
    /// left at all. The nodes on the way are the live map's own, and the file has none of them.
    pub(crate) fn prune(&mut self, height: u32, no: PageNo) -> bool {
        let is_empty = match self {
            Link::Empty => true,
            Link::Leaf(leaf) => leaf.entries.iter().all(|entry| entry.version.is_none()),
            Link::Cold(_) => unreachable!("the live map's own"),
            Link::Inner(inner) => {
                let inner = Arc::get_mut(inner).expect("the live map's own");
                inner.kids[kid_index(no, shift_of(height))].prune(height - 1, no)
                    && inner.kids.iter().all(|kid| matches!(kid, Link::Empty))
            }
        };
        if is_empty {
            *self = Link::Empty;
        }
        is_empty
    }
}

impl Link {
    /// Freezes the leaf of page `no`, if the file has it and nobody else reaches it or a page of it; true if it did.
    pub(crate) fn freeze(&mut self, height: u32, no: PageNo) -> bool {
        match self {
            Link::Empty => false,
            Link::Inner(inner) => Arc::get_mut(inner)
                .is_some_and(|inner| inner.kids[kid_index(no, shift_of(height))].freeze(height - 1, no)),
            Link::Cold(cold) => Arc::get_mut(cold).is_some_and(ColdLeaf::freeze_again),
            Link::Leaf(leaf) => {
                let may = |leaf: &mut Leaf| leaf.stamp.location().is_some() && is_freezable(leaf);
                if !Arc::get_mut(leaf).is_some_and(may) {
                    return false;
                }
                let Link::Leaf(leaf) = std::mem::take(self) else { unreachable!("matched above") };
                let leaf = Arc::into_inner(leaf).expect("nobody else has it");
                *self = Link::Cold(Arc::new(ColdLeaf::of(leaf)));
                true
            }
        }
    }
}

/// Whether page `no` fits a tree with `height` levels of inner nodes.
pub(crate) fn covers(height: u32, no: PageNo) -> bool {
    height >= INNER_LEVELS_MAX || no.0 >> ((height + 1) * FANOUT_BITS) == 0
}

/// Which child leads to page `no` in a node with `shift` bits of page number below its children.
#[inline]
pub(crate) fn kid_index(no: PageNo, shift: u32) -> usize {
    (no.0 >> shift) as usize % FANOUT
}

/// Bits of the page number below the children of an inner node that stands `height` levels above the leaves.
pub(crate) fn shift_of(height: u32) -> u32 {
    height * FANOUT_BITS
}
