//! A tenant's data file: making it, and opening it at its newest root.
//!
//! The file holds everything up to its root's commit number; what came later is in the redo log. Opening reads the
//! map nodes and the free set; pages are read when they are missed.

use std::path::Path;
use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, CommitNo, Epoch, IoClass, PageNo, SlotNo, TenantId};
use env::{Env, File, IoBuf, OpenMode};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::cold_leaf::ColdLeaf;
use crate::file_error::FileError;
use crate::file_reader::{FileReader, offset_of, page_of, unreadable_slot};
use crate::node_page::{NodeIdentity, Pointer, decode_node};
use crate::page_numbers::PageNumbers;
use crate::radix::{Inner, Link, shift_of};
use crate::slots::{SLOTS_PER_SET_PAGE, SlotSet, Slots};
use crate::superblock::{FORMAT_VERSION, NotASuperblock, SUPERBLOCKS, Superblock};
use crate::version::{Location, MapShared};
use crate::{Corrupt, PageBytes, PageMap, yield_now};

/// Reads in flight while a map is opened.
const OPEN_READS_MAX: usize = 32;

/// Map nodes made between two yields: the versions of 1,024 pages, some 100 us.
const NODES_A_TURN: usize = 4;

/// What a checkpoint makes durable beside the pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// The last commit whose changes are in the pages.
    pub commit: CommitNo,
    /// Opaque to storage, at most [`crate::ROOT_PAYLOAD_LEN_MAX`] bytes.
    pub payload: Vec<u8>,
}

/// An open data file. Belongs to the tenant's home like the map; checkpoints borrow its slots while they run.
pub struct DataFile {
    pub(crate) reader: Arc<FileReader>,
    /// Lent to the running checkpoint; for good if that was dropped or failed at the superblock. None of a file that is only read.
    pub(crate) slots: Option<Slots>,
    /// Generation of the newest durable superblock.
    pub(crate) generation: u64,
    /// What the newest durable root covers.
    pub(crate) root_commit: CommitNo,
    /// What was wrong with its free set when it was opened.
    mended: Option<Corrupt>,
}

impl DataFile {
    /// Makes a data file without pages at `path`, which must not exist, through the calling thread's reactor; making its name and the sync of its directory, by then
    /// without anything left to write, block. After `Ok` the file and its name
    /// survive power loss; after a crash before that, opening it may say [`FileError::NotADataFile`].
    pub async fn create(env: &Env, path: &Path, tenant: TenantId) -> Result<(DataFile, PageMap), FileError> {
        let failed = |doing| move |error| FileError::Io { file: path.to_path_buf(), doing, error };
        let file =
            env.disk.open(path, OpenMode::CreateNew, true).map_err(failed("creating the data file"))?;
        let mut used = SlotSet::default();
        let set_slot = SlotNo(SUPERBLOCKS);
        for slot in 0..=set_slot.0 {
            used.insert(slot);
        }
        // One write of three slots: both superblocks name the same empty root, so neither is ever "not yet there".
        let mut image = IoBuf::zeroed((SUPERBLOCKS as usize + 1) * PAGE_SIZE);
        let (superblocks, set) = image.split_at_mut(SUPERBLOCKS as usize * PAGE_SIZE);
        let set: &mut PageBytes = set.try_into().expect("one page");
        used.encode_page(0, set);
        let free_set = vec![Location { slot: set_slot, checksum: crc32c::crc32c(set) }];
        let mut superblock = Superblock {
            tenant,
            generation: 0,
            epoch: Epoch(0),
            commit: CommitNo(0),
            slot_count: SUPERBLOCKS + 1,
            map_height: 0,
            map_root: None,
            free_set: free_set.clone(),
            payload: Vec::new(),
        };
        for page in superblocks.chunks_exact_mut(PAGE_SIZE) {
            superblock.encode(page.try_into().expect("one page"));
            superblock.generation += 1;
        }
        file.write_all_at(image, 0).await.0.map_err(failed("writing the first root"))?;
        file.sync_data().await.map_err(failed("syncing the first root"))?;
        if let Some(dir) = path.parent() {
            env.disk.sync_dir(dir).map_err(failed("syncing the directory"))?;
        }
        let reader = Arc::new(FileReader { file, path: path.to_path_buf(), tenant });
        let map = PageMap::of_no_pages(MapShared::new(Some(Arc::clone(&reader))));
        let slots = Some(Slots::new(SUPERBLOCKS + 1, used, free_set));
        let (generation, root_commit) = (u64::from(SUPERBLOCKS) - 1, CommitNo(0));
        Ok((DataFile { reader, slots, generation, root_commit, mended: None }, map))
    }

    /// Opens the file at its newest durable root. Reads superblocks, map nodes and free set through the calling
    /// thread's reactor; no page of data is in memory afterwards.
    pub async fn open(
        env: &Env,
        path: &Path,
        tenant: TenantId,
    ) -> Result<(DataFile, PageMap, Root), FileError> {
        DataFile::open_as(env, path, tenant, OpenMode::ReadWrite).await
    }

    /// As [`DataFile::open`] of a file that is only looked at: it need not be writable, stays as it is, and takes no checkpoint. Its
    /// newest root may be one that power loss would take.
    pub async fn open_to_read(
        env: &Env,
        path: &Path,
        tenant: TenantId,
    ) -> Result<(DataFile, PageMap, Root), FileError> {
        DataFile::open_as(env, path, tenant, OpenMode::Read).await
    }

    async fn open_as(
        env: &Env,
        path: &Path,
        tenant: TenantId,
        mode: OpenMode,
    ) -> Result<(DataFile, PageMap, Root), FileError> {
        let failed = |doing| move |error| FileError::Io { file: path.to_path_buf(), doing, error };
        let file = env.disk.open(path, mode, true).map_err(failed("opening the data file"))?;
        let reader = Arc::new(FileReader { file, path: path.to_path_buf(), tenant });
        let len = check_len(&reader.file, path)?;
        let (heads, chosen) = read_superblocks(&reader, Some(tenant)).await?;
        let Superblocks { newest: mut superblock, other } = chosen;
        check_extent(path, &superblock, len)?;
        if mode != OpenMode::Read {
            // A process that was killed may have left a root that is not durable: believed, it would give the slots of the
            // durable one away. Written over itself, it is durable whatever became of earlier writes and syncs: a sync alone
            // succeeds for what an earlier one failed to write. All that it reaches was durable before it was first written.
            let at = offset_of(superblock.slot());
            let mut newest = IoBuf::recycled(PAGE_SIZE);
            newest.copy_from_slice(&heads[at as usize..at as usize + PAGE_SIZE]);
            let written = reader.file.write_all_at_durable(newest, at).of_class(IoClass::Upkeep).await.0;
            written.map_err(failed("making the newest root durable"))?;
        }
        let mut used = SlotSet::default();
        let set_pages: Vec<Result<IoBuf, FileError>> = stream::iter(superblock.free_set.clone())
            .map(|location| reader.read_slot(location, None, IoClass::Upkeep))
            .buffered(OPEN_READS_MAX)
            .collect()
            .await;
        let (mut mended, mut damaged) = (None, Vec::new());
        for (index, page) in set_pages.into_iter().enumerate() {
            match page {
                Ok(page) => used.append_page(page_of(&page)),
                Err(error) => {
                    mended.get_or_insert(damage_of(error)?);
                    damaged.push(index);
                    used.append_page(&[0; PAGE_SIZE]);
                }
            }
        }
        if let Some(slot) = used.shrink_to_highest().filter(|slot| *slot >= superblock.slot_count) {
            let (at, what) = (offset_of(superblock.slot()), "free set uses slots beyond the file");
            return Err(Corrupt::at(path, at, what, slot.into(), superblock.slot_count.into()).into());
        }
        let shared = MapShared::new(Some(Arc::clone(&reader)));
        // What the set would say is what the map reaches, and the set itself.
        let mut reached = (!damaged.is_empty()).then(SlotSet::default);
        let (root, numbers) = read_map(&reader, &superblock, &shared, reached.as_mut()).await?;
        if let Some(mut reached) = reached {
            let of_set = superblock.free_set.iter().map(|location| location.slot.0);
            of_set.chain(0..SUPERBLOCKS).for_each(|slot| _ = reached.insert(slot));
            used = reached;
        }
        if other != Other::SameRoot && mode != OpenMode::Read {
            // The log behind this root may go once its commit is told: then the other superblock must not stand alone.
            superblock.generation += 1;
            write_superblock(&reader, &superblock).await?;
        }
        let map = PageMap::from_parts(root, superblock.map_height, superblock.epoch, shared, numbers);
        let mut slots = Slots::new(superblock.slot_count, used, superblock.free_set);
        // A checkpoint that was given up may have made the file longer, or the end before it was cut.
        slots.note_len(len);
        slots.rewrite_set_pages(damaged);
        let slots = (mode != OpenMode::Read).then_some(slots);
        let root = Root { commit: superblock.commit, payload: superblock.payload };
        let (generation, root_commit) = (superblock.generation, root.commit);
        Ok((DataFile { reader, slots, generation, root_commit, mended }, map, root))
    }

    /// What was wrong with the free set when the file was opened: it was made anew of the map, and the next checkpoint writes it.
    pub fn mended(&self) -> Option<&Corrupt> {
        self.mended.as_ref()
    }

    /// What reads this file's pages after a miss.
    pub fn reader(&self) -> Arc<FileReader> {
        Arc::clone(&self.reader)
    }

    /// The last commit whose changes the newest durable root has.
    pub fn root_commit(&self) -> CommitNo {
        self.root_commit
    }

    /// Whether the file takes no more checkpoints until it is opened anew, because one failed in a sync or was dropped half-way.
    /// Not to be asked while one runs.
    pub fn is_in_doubt(&self) -> bool {
        self.slots.is_none()
    }

    /// Writes the superblock of the newest root that can be read over itself, durably. The superblock's last write may have
    /// failed after it reached a cache, and then reading it says nothing of power loss. Blocks.
    pub fn make_root_durable(&self) -> Result<(), FileError> {
        let mut heads = IoBuf::zeroed(SUPERBLOCKS as usize * PAGE_SIZE);
        let read = self.reader.file.read_at(&mut heads, 0);
        read.map_err(|error| self.reader.io_error_at(0, "reading the superblocks", error))?;
        let chosen = choose_superblock(&self.reader.path, &heads, Some(self.reader.tenant))?;
        let at = offset_of(chosen.newest.slot());
        let page = &heads[at as usize..at as usize + PAGE_SIZE];
        let written =
            self.reader.file.write_at(page, at).and_then(|()| self.reader.file.sync_data_blocking());
        written.map_err(|error| self.reader.io_error_at(at, "writing the superblock again", error))
    }

    /// Bytes of the file, free slots included; `None` while a checkpoint runs.
    pub fn len(&self) -> Option<ByteCount> {
        self.slots.as_ref().map(|slots| ByteCount(offset_of(SlotNo(slots.count()))))
    }

    /// Bytes that the newest durable root uses, and bytes that only snapshots keep; `None` while a checkpoint runs.
    pub fn used(&self) -> Option<(ByteCount, ByteCount)> {
        let bytes = |slots: u64| ByteCount(slots * PAGE_SIZE as u64);
        self.slots.as_ref().map(|s| (bytes(s.used_by_durable_root()), bytes(s.held_by_snapshots() as u64)))
    }
}

/// An error that says that a slot is damaged, or that the disk cannot read it, as damage; others are errors still.
fn damage_of(error: FileError) -> Result<Corrupt, FileError> {
    match error {
        FileError::Corrupt(corrupt) => Ok(corrupt),
        FileError::IoAt { file, offset, error, .. } => Ok(unreadable_slot(&file, offset, &error)),
        error => Err(error),
    }
}

/// The file's length, if it can hold superblocks at all.
pub(crate) fn check_len(file: &File, path: &Path) -> Result<u64, FileError> {
    let len = file.len().map_err(|error| FileError::Io {
        file: path.to_path_buf(),
        doing: "asking for the length",
        error,
    })?;
    if len < offset_of(SlotNo(SUPERBLOCKS)) {
        return Err(FileError::NotADataFile { file: path.to_path_buf() });
    }
    Ok(len)
}

/// What the two superblocks of a file say.
pub(crate) struct Superblocks {
    /// The valid one of the higher generation.
    pub(crate) newest: Superblock,
    pub(crate) other: Other,
}

/// What the superblock says that is not the newest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    SameRoot,
    /// A crash came while a root was flipped.
    OlderRoot,
    /// The same, or rot. Opening the file overwrites it.
    Damaged(Corrupt),
}

/// Writes a superblock to its slot. After `Ok` it survives power loss.
pub(crate) async fn write_superblock(reader: &FileReader, superblock: &Superblock) -> Result<(), FileError> {
    let mut page = IoBuf::recycled(PAGE_SIZE);
    superblock.encode((&mut page[..]).try_into().expect("one page"));
    let at = offset_of(superblock.slot());
    let (result, _) = reader.file.write_all_at_durable(page, at).of_class(IoClass::Upkeep).await;
    result.map_err(|error| reader.io_error_at(at, "writing the superblock", error))
}

/// Reads both superblocks and chooses the newest valid one. One that the disk cannot read is as good as damaged: the other serves.
pub(crate) async fn read_superblocks(
    reader: &FileReader,
    tenant: Option<TenantId>,
) -> Result<(IoBuf, Superblocks), FileError> {
    let len = SUPERBLOCKS as usize * PAGE_SIZE;
    let (read, heads) = reader.file.read_exact_at(IoBuf::recycled(len), 0).of_class(IoClass::Upkeep).await;
    if read.is_ok() {
        let chosen = choose_superblock(&reader.path, &heads, tenant)?;
        return Ok((heads, chosen));
    }
    let (mut heads, mut unreadable) = (IoBuf::zeroed(len), None);
    for slot in 0..SUPERBLOCKS {
        let at = offset_of(SlotNo(slot));
        let read = reader.file.read_exact_at(IoBuf::recycled(PAGE_SIZE), at).of_class(IoClass::Upkeep).await;
        match read {
            (Ok(()), page) => heads[at as usize..at as usize + PAGE_SIZE].copy_from_slice(&page),
            (Err(error), _) if unreadable.is_none() => unreadable = Some((at, error)),
            (Err(error), _) => return Err(reader.io_error_at(at, "reading the superblocks", error)),
        }
    }
    let chosen = choose_superblock(&reader.path, &heads, tenant);
    let Some((at, error)) = unreadable else { return Ok((heads, chosen?)) };
    match chosen {
        Ok(Superblocks { newest, .. }) => {
            let other = Other::Damaged(unreadable_slot(&reader.path, at, &error));
            Ok((heads, Superblocks { newest, other }))
        }
        // The other does not serve.
        Err(FileError::Corrupt(_) | FileError::NotADataFile { .. }) => {
            Err(reader.io_error_at(at, "reading the superblocks", error))
        }
        Err(error) => Err(error),
    }
}

/// The newest valid superblock of the two in `heads`.
pub(crate) fn choose_superblock(
    path: &Path,
    heads: &[u8],
    tenant: Option<TenantId>,
) -> Result<Superblocks, FileError> {
    let file = || path.to_path_buf();
    let mut newest: Option<Superblock> = None;
    let mut same_root = false;
    let mut damage: Option<Corrupt> = None;
    let mut looks_like_ours = false;
    for (i, page) in heads.chunks_exact(PAGE_SIZE).enumerate() {
        let at = (i * PAGE_SIZE) as u64;
        looks_like_ours |= page.starts_with(b"ROWHOUSE");
        let page: &PageBytes = page.try_into().expect("one page");
        match Superblock::decode(page) {
            Ok(superblock) if superblock.slot() != SlotNo(i as u32) => {
                let (found, expected) = (superblock.generation % u64::from(SUPERBLOCKS), i as u64);
                damage = Some(Corrupt::at(path, at, "superblock in the other one's slot", found, expected));
            }
            Ok(superblock) => {
                same_root = newest.as_ref().is_some_and(|n| n.is_same_root(&superblock));
                if newest.as_ref().is_none_or(|n| n.generation < superblock.generation) {
                    newest = Some(superblock);
                }
            }
            Err(NotASuperblock::NewerFormat { found }) => {
                return Err(FileError::NewerFormat { file: file(), found, supported: FORMAT_VERSION });
            }
            Err(NotASuperblock::Checksum { found, expected }) => {
                let what = "superblock checksum mismatch";
                damage = Some(Corrupt::at(path, at, what, found.into(), expected.into()));
            }
            Err(NotASuperblock::Field { at: field, what, found, expected }) => {
                damage = Some(Corrupt::at(path, at + field as u64, what, found, expected));
            }
        }
    }
    match (newest, damage) {
        (Some(newest), damage) => match tenant {
            Some(tenant) if tenant != newest.tenant => {
                Err(FileError::OtherTenant { file: file(), found: newest.tenant, expected: tenant })
            }
            _ => {
                let older = if same_root { Other::SameRoot } else { Other::OlderRoot };
                Ok(Superblocks { newest, other: damage.map_or(older, Other::Damaged) })
            }
        },
        (None, Some(damage)) if looks_like_ours => Err(FileError::Corrupt(damage)),
        (None, _) => Err(FileError::NotADataFile { file: file() }),
    }
}

/// The file must reach to its last slot, and its free set must describe just these slots.
pub(crate) fn check_extent(path: &Path, superblock: &Superblock, len: u64) -> Result<(), FileError> {
    let expected = offset_of(SlotNo(superblock.slot_count));
    if len < expected {
        return Err(Corrupt::at(path, len, "the file is shorter than its root says", len, expected).into());
    }
    let (found, expected) = (superblock.free_set.len(), superblock.slot_count.div_ceil(SLOTS_PER_SET_PAGE));
    if found as u64 != u64::from(expected) {
        let at = offset_of(superblock.slot());
        return Err(Corrupt::at(path, at, "free set of another length", found as u64, expected.into()).into());
    }
    let outside = superblock.free_set.iter().chain(&superblock.map_root);
    if let Some(location) =
        outside.into_iter().find(|l| l.slot.0 < SUPERBLOCKS || l.slot.0 >= superblock.slot_count)
    {
        let (at, slot) = (offset_of(superblock.slot()), location.slot.0.into());
        let what = "superblock points outside the file";
        return Err(Corrupt::at(path, at, what, slot, superblock.slot_count.into()).into());
    }
    Ok(())
}

/// A map node to read: where it lies, and what it has to be.
#[derive(Clone, Copy)]
struct NodeAt {
    pointer: Pointer,
    identity: NodeIdentity,
}

/// A node as read, with the nodes below it still to be made.
struct NodeRead {
    at: NodeAt,
    pointers: Vec<(usize, Pointer)>,
}

impl NodeRead {
    /// The slots of what is below it.
    fn slots(&self) -> impl Iterator<Item = SlotNo> {
        self.pointers.iter().map(|(_, pointer)| pointer.location.slot)
    }
}

async fn read_node(reader: &FileReader, at: NodeAt, slot_count: u32) -> Result<NodeRead, FileError> {
    let buf = reader.read_slot(at.pointer.location, None, IoClass::Upkeep).await?;
    let pointers = decode_node(page_of(&buf), at.identity, slot_count).map_err(|bad| {
        let offset = offset_of(at.pointer.location.slot) + bad.at as u64;
        Corrupt::at(&reader.path, offset, bad.what, bad.found, bad.expected)
    })?;
    Ok(NodeRead { at, pointers })
}

/// Reads all map nodes, a level at a time from the root, then puts them together from the leaves, which are made as they are read: most of
/// the map is in them. Says which pages there are, and adds the slots of all to `reached` if that is asked for.
async fn read_map(
    reader: &FileReader,
    superblock: &Superblock,
    shared: &Arc<MapShared>,
    mut reached: Option<&mut SlotSet>,
) -> Result<(Link, PageNumbers), FileError> {
    let mut numbers = PageNumbers::default();
    let Some(location) = superblock.map_root else { return Ok((Link::Empty, numbers)) };
    let mut note = |slots: &mut dyn Iterator<Item = SlotNo>| {
        if let Some(reached) = reached.as_deref_mut() {
            slots.for_each(|slot| _ = reached.insert(slot.0));
        }
    };
    note(&mut std::iter::once(location.slot));
    let (tenant, height) = (superblock.tenant, superblock.map_height);
    let identity = NodeIdentity { tenant, height, first_page: PageNo(0) };
    let mut wanted = vec![NodeAt { pointer: Pointer { location, born: superblock.epoch }, identity }];
    let slot_count = superblock.slot_count;
    let read = |wanted: Vec<NodeAt>| {
        stream::iter(wanted).map(move |at| read_node(reader, at, slot_count)).buffered(OPEN_READS_MAX)
    };
    let mut levels: Vec<Vec<NodeRead>> = Vec::new();
    for height in (1..=height).rev() {
        let level: Vec<NodeRead> = read(wanted).try_collect().await?;
        level.iter().for_each(|node| note(&mut node.slots()));
        wanted = level.iter().flat_map(|node| children_of(node, tenant, height)).collect();
        levels.push(level);
    }
    let mut below: Vec<Link> = Vec::with_capacity(wanted.len());
    let mut leaves = read(wanted);
    while let Some(node) = leaves.try_next().await? {
        // They come in the order of their pages.
        let first = node.at.identity.first_page.0;
        node.pointers.iter().for_each(|(index, _)| numbers.note(PageNo(first + *index as u32)));
        note(&mut node.slots());
        below.push(assemble(node, &mut std::iter::empty(), shared));
        if below.len() % NODES_A_TURN == 0 {
            yield_now().await;
        }
    }
    drop(leaves);
    for level in levels.into_iter().rev() {
        let mut kids = std::mem::take(&mut below).into_iter();
        for (i, node) in level.into_iter().enumerate() {
            if i % NODES_A_TURN == NODES_A_TURN - 1 {
                yield_now().await;
            }
            below.push(assemble(node, &mut kids, shared));
        }
        assert!(kids.next().is_none(), "every node has one parent");
    }
    Ok((below.pop().expect("one root"), numbers))
}

fn children_of(node: &NodeRead, tenant: TenantId, height: u32) -> impl Iterator<Item = NodeAt> + '_ {
    node.pointers.iter().map(move |(index, pointer)| {
        let first_page = PageNo(node.at.identity.first_page.0 + ((*index as u32) << shift_of(height)));
        NodeAt { pointer: *pointer, identity: NodeIdentity { tenant, height: height - 1, first_page } }
    })
}

fn assemble(node: NodeRead, kids: &mut impl Iterator<Item = Link>, shared: &Arc<MapShared>) -> Link {
    let Pointer { location, born } = node.at.pointer;
    if node.at.identity.height == 0 {
        let places = node.pointers.into_iter().map(|(index, pointer)| (index, pointer.location));
        Link::Cold(Arc::new(ColdLeaf::stored(born, location, shared, places)))
    } else {
        let mut inner = Inner::new(born, Some(location), shared);
        for (index, _) in node.pointers {
            inner.kids[index] = kids.next().expect("read with its level");
        }
        Link::Inner(Arc::new(inner))
    }
}
