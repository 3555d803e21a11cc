//! Makes the slots of an image, in order, from a snapshot that stays as it is while the live map goes on.
//!
//! A first walk gives every node and page its slot and works out the checksums, from the last node up to the root: what
//! is on disk has one already, the rest is in memory. A second walk makes the bytes. Pages that are not in memory are
//! read past the map, so that an image pushes nobody's pages out.

use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, IoClass, PageNo, SlotNo, TenantId};
use env::IoBuf;
use futures::stream::{self, StreamExt, TryStreamExt};
use rustc_hash::FxHashMap;

use super::{extent_of, fill_full_set};
use crate::cold_leaf::Glance;
use crate::data_file::Root;
use crate::file_error::FileError;
use crate::file_reader::offset_of;
use crate::node_page::{NodeIdentity, encode_inner, encode_leaf};
use crate::radix::{FANOUT, Inner, Leaf, Link, shift_of};
use crate::slots::SLOTS_MAX;
use crate::superblock::{ROOT_PAYLOAD_LEN_MAX, SUPERBLOCKS, Superblock};
use crate::version::{Location, PageVersion};
use crate::yield_now::yield_now;
use crate::{PageBytes, Snapshot};

/// Slots of a piece: 256 KiB, and as many reads in flight at most.
const PIECE_SLOTS: usize = 32;

/// A snapshot on its way into an image.
pub struct ImageWriter {
    snapshot: Snapshot,
    tenant: TenantId,
    root: Root,
    /// Where each node of the map goes, by its height and the lowest page number below it.
    nodes: FxHashMap<(u32, u32), Location>,
    free_set: Vec<Location>,
    slot_count: u32,
    pages: u64,
    /// The next slot to be made.
    at: u32,
    walk: Walk,
    /// The leaf whose pages are being made, and the index of the next one.
    leaf: Option<(Glance, u32, usize)>,
}

/// What a slot is made of.
enum Filled {
    Whole,
    /// Its bytes are on disk only.
    Miss(PageNo, Location),
}

impl ImageWriter {
    /// Lays out the image of `snapshot` as a data file of `tenant` with this root. Yields after each leaf of the map;
    /// reads nothing from disk.
    ///
    /// # Errors
    /// [`FileError::Full`] if the snapshot has more pages than a data file can.
    ///
    /// # Panics
    /// If the payload is longer than [`ROOT_PAYLOAD_LEN_MAX`].
    pub async fn new(snapshot: Snapshot, tenant: TenantId, root: Root) -> Result<ImageWriter, FileError> {
        assert!(root.payload.len() <= ROOT_PAYLOAD_LEN_MAX, "payload of {} bytes", root.payload.len());
        let walk = Walk::new(&snapshot);
        let mut image = ImageWriter {
            walk: Walk::new(&snapshot),
            snapshot,
            tenant,
            root,
            nodes: FxHashMap::default(),
            free_set: Vec::new(),
            slot_count: SUPERBLOCKS,
            pages: 0,
            at: 0,
            leaf: None,
        };
        image.place(walk).await?;
        Ok(image)
    }

    /// Bytes of the whole image.
    #[expect(clippy::len_without_is_empty, reason = "an image is never empty")]
    pub fn len(&self) -> ByteCount {
        ByteCount(offset_of(SlotNo(self.slot_count)))
    }

    /// Pages in the image, beside what holds them together.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The next piece: at most 256 KiB, whole slots; `None` after the last one.
    ///
    /// # Errors
    /// A page cannot be read, or is damaged; the image cannot be had.
    pub async fn next(&mut self) -> Result<Option<IoBuf>, FileError> {
        let slots = ((self.slot_count - self.at) as usize).min(PIECE_SLOTS);
        if slots == 0 {
            return Ok(None);
        }
        let mut piece = IoBuf::recycled(slots * PAGE_SIZE);
        let mut misses = Vec::new();
        for (i, page) in piece.chunks_exact_mut(PAGE_SIZE).enumerate() {
            let page: &mut PageBytes = page.try_into().expect("one page");
            if let Filled::Miss(no, from) = self.fill(page) {
                misses.push((i, no, from));
            }
            self.at += 1;
        }
        if misses.is_empty() {
            return Ok(Some(piece));
        }
        let reader = self.snapshot.shared.reader.clone().expect("a page is in memory or in the file");
        let mut reads = stream::iter(misses)
            .map(|(i, no, from)| {
                let reader = &reader;
                async move { Ok::<_, FileError>((i, reader.read_slot(from, Some(no), IoClass::Bulk).await?)) }
            })
            .buffer_unordered(PIECE_SLOTS);
        while let Some((i, bytes)) = reads.try_next().await? {
            piece[i * PAGE_SIZE..][..PAGE_SIZE].copy_from_slice(&bytes);
        }
        drop(reads);
        Ok(Some(piece))
    }

    /// Gives every node and page its slot.
    async fn place(&mut self, mut walk: Walk) -> Result<(), FileError> {
        let file = self.snapshot.shared.reader.as_ref().map(|r| r.path.clone()).unwrap_or_default();
        let full = || FileError::Full { file: file.clone() };
        let mut page = Box::new([0; PAGE_SIZE]);
        let mut next = u64::from(SUPERBLOCKS);
        // Slots of the inner nodes that are entered and not done.
        let mut entered: Vec<SlotNo> = Vec::new();
        while let Some(step) = walk.next() {
            let slot = |next: u64| {
                u32::try_from(next).ok().filter(|next| *next < SLOTS_MAX).map(SlotNo).ok_or_else(full)
            };
            let (height, first, slot) = match step {
                Step::Inner { .. } => {
                    entered.push(slot(next)?);
                    next += 1;
                    continue;
                }
                Step::Leaf { leaf, first } => {
                    let (slot, before) = (slot(next)?, self.pages);
                    self.encode_leaf(&mut page, &leaf, first, slot);
                    self.pages += leaf.entries.iter().filter(|entry| entry.version.is_some()).count() as u64;
                    next += 1 + self.pages - before;
                    (0, first, slot)
                }
                Step::InnerDone { inner, height, first } => {
                    self.encode_inner(&mut page, &inner, height, first);
                    (height, first, entered.pop().expect("entered before it is done"))
                }
            };
            self.nodes.insert((height, first), Location { slot, checksum: crc32c::crc32c(&page[..]) });
            yield_now().await;
        }
        let (slots, set_pages) = extent_of(next - u64::from(SUPERBLOCKS));
        self.slot_count = u32::try_from(slots).ok().filter(|slots| *slots <= SLOTS_MAX).ok_or_else(full)?;
        for index in 0..set_pages as u32 {
            fill_full_set(&mut page, index, self.slot_count);
            let slot = SlotNo(next as u32 + index);
            self.free_set.push(Location { slot, checksum: crc32c::crc32c(&page[..]) });
        }
        Ok(())
    }

    /// Makes the next slot.
    fn fill(&mut self, page: &mut PageBytes) -> Filled {
        if self.at < SUPERBLOCKS {
            self.superblock().encode(page);
            return Filled::Whole;
        }
        if let Some((leaf, first, index)) = &mut self.leaf {
            let entry = leaf.entries[*index..].iter().enumerate().find(|(_, e)| e.version.is_some());
            if let Some((skipped, entry)) = entry {
                let no = PageNo(*first + (*index + skipped) as u32);
                *index += skipped + 1;
                return fill_page(page, no, entry.version.as_deref().expect("just found"));
            }
            self.leaf = None;
        }
        loop {
            let slot = SlotNo(self.at);
            let (height, first) = match self.walk.next() {
                Some(Step::InnerDone { .. }) => continue,
                Some(Step::Inner { inner, height, first }) => {
                    self.encode_inner(page, &inner, height, first);
                    (height, first)
                }
                Some(Step::Leaf { leaf, first }) => {
                    self.encode_leaf(page, &leaf, first, slot);
                    self.leaf = Some((leaf, first, 0));
                    (0, first)
                }
                None => {
                    let index = self.free_set.iter().position(|l| l.slot == slot).expect("a slot of the set");
                    fill_full_set(page, index as u32, self.slot_count);
                    return Filled::Whole;
                }
            };
            // The snapshot has not moved since its slots were given out.
            let placed = Location { slot, checksum: crc32c::crc32c(page) };
            assert_eq!(Some(&placed), self.nodes.get(&(height, first)), "the image is as it was laid out");
            return Filled::Whole;
        }
    }

    fn superblock(&self) -> Superblock {
        Superblock {
            tenant: self.tenant,
            generation: self.at.into(),
            epoch: self.snapshot.epoch,
            commit: self.root.commit,
            slot_count: self.slot_count,
            map_height: self.snapshot.height,
            map_root: self.nodes.get(&(self.snapshot.height, 0)).copied(),
            free_set: self.free_set.clone(),
            payload: self.root.payload.clone(),
        }
    }

    /// The leaf's page, its pages being in the slots behind `slot`.
    fn encode_leaf(&self, page: &mut PageBytes, leaf: &Leaf, first: u32, slot: SlotNo) {
        let mut slot = slot.0;
        encode_leaf(page, self.identity(0, first), leaf, |_, version| {
            slot += 1;
            Location { slot: SlotNo(slot), checksum: checksum_of(version) }
        });
    }

    fn encode_inner(&self, page: &mut PageBytes, inner: &Inner, height: u32, first: u32) {
        encode_inner(page, self.identity(height, first), inner, |first, _| self.nodes[&(height - 1, first)]);
    }

    fn identity(&self, height: u32, first: u32) -> NodeIdentity {
        NodeIdentity { tenant: self.tenant, height, first_page: PageNo(first) }
    }
}

/// What is on disk has its checksum in its location; what is not is in memory.
fn checksum_of(version: &PageVersion) -> u32 {
    loop {
        if let Some(location) = version.location() {
            return location.checksum;
        }
        // Without a location the page is in memory; should it have got one just now and left, that is found above.
        if let Some(page) = version.pin() {
            return crc32c::crc32c(&page[..]);
        }
    }
}

fn fill_page(page: &mut PageBytes, no: PageNo, version: &PageVersion) -> Filled {
    match version.pin() {
        Some(bytes) => {
            page.copy_from_slice(&bytes[..]);
            Filled::Whole
        }
        None => Filled::Miss(no, version.location().expect("a page is in memory or in the file")),
    }
}

/// The nodes of a snapshot in pre-order.
struct Walk {
    root: Option<(Link, u32)>,
    /// The inner nodes above, and the index of the next child.
    path: Vec<Visit>,
}

struct Visit {
    inner: Arc<Inner>,
    height: u32,
    first: u32,
    next: usize,
}

enum Step {
    Inner {
        inner: Arc<Inner>,
        height: u32,
        first: u32,
    },
    Leaf {
        leaf: Glance,
        first: u32,
    },
    /// All below an inner node has been seen.
    InnerDone {
        inner: Arc<Inner>,
        height: u32,
        first: u32,
    },
}

impl Walk {
    fn new(snapshot: &Snapshot) -> Walk {
        Walk { root: Some((snapshot.root.clone(), snapshot.height)), path: Vec::new() }
    }

    fn next(&mut self) -> Option<Step> {
        if let Some((root, height)) = self.root.take() {
            return self.enter(root, height, 0);
        }
        let visit = self.path.last_mut()?;
        let occupied = |kid: &Link| !matches!(kid, Link::Empty);
        let kid = (visit.next..FANOUT).find(|i| occupied(&visit.inner.kids[*i]));
        match kid {
            Some(index) => {
                visit.next = index + 1;
                let (link, height) = (visit.inner.kids[index].clone(), visit.height);
                let first = visit.first + ((index as u32) << shift_of(height));
                self.enter(link, height - 1, first)
            }
            None => {
                let Visit { inner, height, first, .. } = self.path.pop()?;
                Some(Step::InnerDone { inner, height, first })
            }
        }
    }

    fn enter(&mut self, link: Link, height: u32, first: u32) -> Option<Step> {
        match link {
            Link::Empty => None,
            Link::Leaf(leaf) => Some(Step::Leaf { leaf: Glance::Kept(leaf), first }),
            Link::Cold(cold) => Some(Step::Leaf { leaf: Glance::at(cold), first }),
            Link::Inner(inner) => {
                self.path.push(Visit { inner: Arc::clone(&inner), height, first, next: 0 });
                Some(Step::Inner { inner, height, first })
            }
        }
    }
}
