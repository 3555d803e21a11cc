//! Checks the slots of an image as they come, and can make them another tenant's on the way.
//!
//! Every slot was announced by one before it: what it is, and its checksum. So damage is reported at the slot where it
//! lies, and a slot is believed as soon as it was looked at. Needs memory for a path of the map only.

use std::path::{Path, PathBuf};

use base::limits::PAGE_SIZE;
use base::{ByteCount, PageNo, SlotNo, TenantId};
use env::IoBuf;

use super::{IMAGE_HEAD_LEN, fill_full_set};
use crate::data_file::{Other, Root, Superblocks, check_extent, choose_superblock};
use crate::file_error::FileError;
use crate::file_reader::offset_of;
use crate::node_page::{NodeIdentity, Pointer, decode_node, set_checksum, set_tenant};
use crate::radix::shift_of;
use crate::superblock::{ROOT_PAYLOAD_LEN_MAX, SUPERBLOCKS, Superblock};
use crate::version::Location;
use crate::{Corrupt, PageBytes};

/// An image being read from its beginning to its end.
pub struct ImageReader {
    /// Where the bytes come from, for reports.
    source: PathBuf,
    superblock: Superblock,
    /// Whose the slots are to become.
    adopter: Option<TenantId>,
    /// The next slot to come.
    at: u32,
    /// Nodes whose children are still to come, from the root down.
    path: Vec<Open>,
    root_seen: bool,
    /// Inner nodes with their children's new checksums: known only when the last child was seen.
    rewritten: Vec<(SlotNo, IoBuf)>,
}

struct Open {
    identity: NodeIdentity,
    slot: SlotNo,
    /// Its pointer's index in the node above.
    index: usize,
    pointers: Vec<(usize, Pointer)>,
    next: usize,
    /// An inner node's bytes, to be changed for the adopter.
    page: Option<IoBuf>,
}

impl ImageReader {
    /// Begins with the first [`IMAGE_HEAD_LEN`] bytes. `source` names the image in reports. With an `adopter` the slots
    /// become that tenant's.
    ///
    /// # Errors
    /// The bytes begin no image: too few, damaged, of a newer format, or a data file with free slots.
    pub fn begin(source: &Path, head: &[u8], adopter: Option<TenantId>) -> Result<ImageReader, FileError> {
        if head.len() < IMAGE_HEAD_LEN {
            let what = "the image ends within its superblocks";
            let (found, expected) = (head.len() as u64, IMAGE_HEAD_LEN as u64);
            return Err(Corrupt::at(source, found, what, found, expected).into());
        }
        let Superblocks { newest: superblock, other } =
            choose_superblock(source, &head[..IMAGE_HEAD_LEN], None)?;
        // Nothing is in flight in an image: both superblocks name its one root.
        match other {
            Other::SameRoot => {}
            Other::Damaged(damage) => return Err(damage.into()),
            Other::OlderRoot => {
                let (at, generation) = (offset_of(superblock.slot()), superblock.generation);
                let what = "a data file, for its superblocks name different roots";
                return Err(Corrupt::at(source, at, what, generation, generation - 1).into());
            }
        }
        check_extent(source, &superblock, offset_of(SlotNo(superblock.slot_count)))?;
        let set_first = superblock.slot_count - superblock.free_set.len() as u32;
        let set_is_last = superblock.free_set.iter().zip(set_first..).all(|(l, slot)| l.slot.0 == slot);
        let map_is_first = superblock.map_root.is_none_or(|root| root.slot == SlotNo(SUPERBLOCKS));
        if !set_is_last || !map_is_first {
            let (at, slots) = (offset_of(superblock.slot()), superblock.slot_count.into());
            return Err(Corrupt::at(source, at, "a data file, but not a dense image of one", slots, 0).into());
        }
        let root_seen = superblock.map_root.is_none();
        let (source, path) = (source.to_path_buf(), Vec::new());
        let rewritten = Vec::new();
        Ok(ImageReader { source, superblock, adopter, at: SUPERBLOCKS, path, root_seen, rewritten })
    }

    /// The tenant whose image it is.
    pub fn tenant(&self) -> TenantId {
        self.superblock.tenant
    }

    /// The root as the image has it.
    pub fn root(&self) -> Root {
        Root { commit: self.superblock.commit, payload: self.superblock.payload.clone() }
    }

    /// Bytes of the whole image, as its beginning says.
    #[expect(clippy::len_without_is_empty, reason = "an image is never empty")]
    pub fn len(&self) -> ByteCount {
        ByteCount(offset_of(SlotNo(self.superblock.slot_count)))
    }

    /// Checks the next slot, and changes it for the adopter.
    ///
    /// # Errors
    /// Damaged, or more than the image has; nothing of the image is to be used then.
    pub fn slot(&mut self, page: &mut PageBytes) -> Result<(), FileError> {
        let slot = SlotNo(self.at);
        let set_first = self.superblock.slot_count - self.superblock.free_set.len() as u32;
        if slot.0 >= self.superblock.slot_count {
            return Err(self.damage(slot, 0, "bytes behind the image's end", 1, 0));
        }
        if slot.0 >= set_first {
            self.set_page(slot, slot.0 - set_first, page)?;
        } else {
            self.map_slot(slot, page)?;
        }
        self.at += 1;
        Ok(())
    }

    /// Slots that came before and have other bytes for the adopter, now that what is below them is known.
    pub fn take_rewritten(&mut self) -> Vec<(SlotNo, IoBuf)> {
        std::mem::take(&mut self.rewritten)
    }

    /// Whether every slot has come.
    ///
    /// # Errors
    /// The image ends early: with the place of its end.
    pub fn finish(&self) -> Result<(), FileError> {
        if self.at == self.superblock.slot_count {
            return Ok(());
        }
        let (end, expected) = (offset_of(SlotNo(self.at)), self.len().0);
        Err(Corrupt::at(&self.source, end, "the image ends early", end, expected).into())
    }

    /// The superblocks of the adopter's data file, once every slot has come; it is whole when they are written last.
    ///
    /// # Panics
    /// Before [`ImageReader::finish`] said yes, or if the payload is longer than [`ROOT_PAYLOAD_LEN_MAX`].
    pub fn head(&self, payload: Vec<u8>) -> IoBuf {
        assert!(self.at == self.superblock.slot_count && payload.len() <= ROOT_PAYLOAD_LEN_MAX);
        let tenant = self.adopter.unwrap_or(self.superblock.tenant);
        let mut superblock = Superblock { tenant, payload, ..self.superblock.clone() };
        let mut head = IoBuf::zeroed(IMAGE_HEAD_LEN);
        for (generation, page) in head.chunks_exact_mut(PAGE_SIZE).enumerate() {
            superblock.generation = generation as u64;
            superblock.encode(page.try_into().expect("one page"));
        }
        head
    }

    fn set_page(&mut self, slot: SlotNo, index: u32, page: &PageBytes) -> Result<(), FileError> {
        if !self.path.is_empty() || !self.root_seen {
            return Err(self.damage(slot, 0, "the free set begins before the map ends", 1, 0));
        }
        self.check(slot, self.superblock.free_set[index as usize].checksum, None, page)?;
        let mut full = Box::new([0; PAGE_SIZE]);
        fill_full_set(&mut full, index, self.superblock.slot_count);
        match page.iter().zip(full.iter()).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => {
                let what = "the free set of an image has a free slot";
                Err(self.damage(slot, at, what, page[at].into(), full[at].into()))
            }
        }
    }

    /// A node of the map, or a page: whichever the last node that is not done announces.
    fn map_slot(&mut self, slot: SlotNo, page: &mut PageBytes) -> Result<(), FileError> {
        let (location, index, identity) = match self.path.last() {
            None if self.root_seen => {
                return Err(self.damage(slot, 0, "the map ends before the free set begins", 0, 1));
            }
            None => {
                let (tenant, height) = (self.superblock.tenant, self.superblock.map_height);
                let root = self.superblock.map_root.expect("else it counts as seen");
                (root, 0, Some(NodeIdentity { tenant, height, first_page: PageNo(0) }))
            }
            Some(open) => {
                let (index, pointer) = open.pointers[open.next];
                let NodeIdentity { tenant, height, first_page } = open.identity;
                let first_page = PageNo(first_page.0 + ((index as u32) << shift_of(height)));
                let below = height.checked_sub(1).map(|height| NodeIdentity { tenant, height, first_page });
                (pointer.location, index, below)
            }
        };
        if location.slot != slot {
            let what = "the map names another slot than the next one";
            return Err(self.damage(slot, 0, what, location.slot.0.into(), slot.0.into()));
        }
        if let Some(above) = self.path.last_mut() {
            above.next += 1;
        }
        let Some(identity) = identity else {
            let leaf = self.path.last().expect("a page is below a leaf");
            let no = PageNo(leaf.identity.first_page.0 + index as u32);
            self.check(slot, location.checksum, Some(no), page)?;
            self.leave_done();
            return Ok(());
        };
        self.check(slot, location.checksum, None, page)?;
        let pointers = decode_node(page, identity, self.superblock.slot_count)
            .map_err(|bad| self.damage(slot, bad.at, bad.what, bad.found, bad.expected))?;
        self.root_seen = true;
        let mut kept = None;
        if let Some(tenant) = self.adopter {
            set_tenant(page, tenant);
            if identity.height > 0 {
                kept = Some(IoBuf::copy_of(&page[..]));
            } else {
                self.announce_anew(index, crc32c::crc32c(page));
            }
        }
        self.path.push(Open { identity, slot, index, pointers, next: 0, page: kept });
        self.leave_done();
        Ok(())
    }

    /// Leaves the nodes below which everything was seen.
    fn leave_done(&mut self) {
        while self.path.last().is_some_and(|open| open.next == open.pointers.len()) {
            let done = self.path.pop().expect("looked at just now");
            if let Some(page) = done.page {
                self.announce_anew(done.index, crc32c::crc32c(&page));
                self.rewritten.push((done.slot, page));
            }
        }
    }

    /// Puts the new checksum of a node into the last node of the path, at `index`, or into the root if there is none.
    fn announce_anew(&mut self, index: usize, checksum: u32) {
        match self.path.last_mut() {
            Some(above) => {
                let page = above.page.as_mut().expect("an adopter's inner node is kept");
                set_checksum((&mut page[..]).try_into().expect("one page"), index, checksum);
            }
            None => {
                let slot = SlotNo(SUPERBLOCKS);
                self.superblock.map_root = Some(Location { slot, checksum });
            }
        }
    }

    fn check(
        &self,
        slot: SlotNo,
        expected: u32,
        page: Option<PageNo>,
        bytes: &PageBytes,
    ) -> Result<(), FileError> {
        let found = crc32c::crc32c(bytes);
        if found == expected {
            return Ok(());
        }
        let (at, what) = (offset_of(slot), "checksum mismatch");
        let corrupt = Corrupt::at(&self.source, at, what, found.into(), expected.into());
        Err(Corrupt { page, ..corrupt }.into())
    }

    fn damage(&self, slot: SlotNo, at: usize, what: &'static str, found: u64, expected: u64) -> FileError {
        Corrupt::at(&self.source, offset_of(slot) + at as u64, what, found, expected).into()
    }
}
