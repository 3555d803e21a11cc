//! Checkpoints: a new root of the data file made from a snapshot while the live map goes on changing.
//!
//! Order is everything here. Pages go to free slots first, then the nodes above them, then the free set, then a sync,
//! then the superblock in the older one's place, then a sync. Until the last of these the old root is untouched, so a
//! crash anywhere leaves the old root or the new one. Only after it are locations published to the versions in memory
//! and old slots given up, so a failure before has nothing to take back.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{ByteCount, Epoch, PageNo, SlotNo};
use futures::FutureExt;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::branch::{Behind, Discarded, Left, OfBranch};
use crate::data_file::{Root, write_superblock};
use crate::file_error::FileError;
use crate::file_reader::{FileReader, offset_of};
use crate::node_page::{NodeIdentity, encode_inner, encode_leaf};
use crate::radix::{FANOUT, Leaf, Link, shift_of};
use crate::slot_writer::SlotWriter;
use crate::slots::{FileFull, NextFreeSet, Slots};
use crate::superblock::{ROOT_PAYLOAD_LEN_MAX, Superblock};
use crate::sweep::WeakVersions;
use crate::version::{Location, PageVersion};
use crate::yield_now::{yield_every, yield_now};
use crate::{DataFile, PageMap, Snapshot};

/// Pages that a checkpoint moves down a file that is far longer than what is in it: copied in the turn in which it begins, so
/// a millisecond's worth.
const MOVED_MAX: usize = 1024;

/// What a checkpoint wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckpointCounts {
    pub pages: u64,
    pub map_nodes: u64,
    pub free_set_pages: u64,
}

/// A checkpoint under way: `begin` in a turn of the home, `write` and `publish` (or both as `run`) as a task, `finish`
/// in a turn of the home, whatever the outcome.
pub struct Checkpoint {
    reader: Arc<FileReader>,
    slots: Slots,
    root: Root,
    generation: u64,
    epoch: Epoch,
    map_height: u32,
    /// Held until the locations are published: it keeps every version they go to.
    snapshot: Option<Snapshot>,
    /// Versions that snapshots alone hold, if any do, and nothing has written: written too, so that they can leave memory.
    of_snapshots: WeakVersions,
    /// Slots the live map left behind and slots memory let go of, until `slots` has taken them in.
    left_behind: Option<Behind>,
    /// For the live map's sweep.
    left: Left,
    /// The same of a branch, which has them written again if this comes to nothing.
    of_branch: OfBranch,
    stage: Stage,
    counts: CheckpointCounts,
    /// Bytes a second at most; `None` for as fast as the disk.
    rate: Option<ByteCount>,
    hurry: Hurry,
}

/// Ends the spreading of a checkpoint that is under way. Clones are of the same checkpoint; from any thread.
#[derive(Clone, Default)]
pub struct Hurry(Arc<AtomicBool>);

impl Hurry {
    /// Has the writes that are left follow each other, as if [`Checkpoint::spread`] had never been called: somebody waits
    /// for the end. A pause that has begun is finished.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

enum Stage {
    /// Nothing written, or all of it given up: the slots may go back.
    Idle,
    /// Everything but the superblock is durable.
    Written(Box<Written>),
    /// Under the root, which is durable.
    Published,
    /// Writes may still be in flight, or the superblock's state is unknown.
    Unknown,
}

/// What a written but unpublished root consists of.
struct Written {
    map_root: Option<Location>,
    pages: Vec<(Arc<PageVersion>, Location)>,
    nodes: Vec<(Link, Location)>,
    next_free_set: NextFreeSet,
    free_set: Vec<Location>,
}

impl Checkpoint {
    /// Takes a snapshot of `map` to write as `root`, in constant time; of a file that is mostly free also looks through the map. `Err(Closed)` if another one runs, or an earlier one failed for good.
    ///
    /// # Panics
    /// If the payload is longer than [`ROOT_PAYLOAD_LEN_MAX`].
    pub fn begin(map: &mut PageMap, file: &mut DataFile, root: Root) -> Result<Checkpoint, FileError> {
        assert!(root.payload.len() <= ROOT_PAYLOAD_LEN_MAX, "payload of {} bytes", root.payload.len());
        let Some(slots) = file.slots.take() else {
            return Err(FileError::Closed { file: file.reader.path.clone() });
        };
        if let Some(from) = slots.move_from() {
            map.rewrite_from(from, MOVED_MAX);
        }
        let of_snapshots = map.take_unwritten_of_snapshots();
        let (snapshot, of_branch, behind) = map.begin_checkpoint();
        Ok(Checkpoint {
            reader: Arc::clone(&file.reader),
            slots,
            root,
            generation: file.generation + 1,
            epoch: snapshot.epoch,
            map_height: snapshot.height,
            snapshot: Some(snapshot),
            of_snapshots,
            left_behind: Some(behind),
            left: Left::new(),
            of_branch,
            stage: Stage::Idle,
            counts: CheckpointCounts::default(),
            rate: None,
            hurry: Hurry::default(),
        })
    }

    /// For whoever comes to wait for the end of this checkpoint.
    pub fn hurry(&self) -> Hurry {
        self.hurry.clone()
    }

    /// Spreads the writes: at most `rate` bytes a second, a pause after each 256 KiB, so that other writes of the volume find
    /// it free. Told before [`Checkpoint::write`]; without it the writes follow each other, up to 2 MiB in flight.
    pub fn spread(&mut self, rate: ByteCount) {
        self.rate = Some(rate);
    }

    /// The pages being written, for whoever wants to read them meanwhile.
    pub fn snapshot(&self) -> &Snapshot {
        self.snapshot.as_ref().expect("the snapshot is held until the checkpoint is published")
    }

    /// [`Checkpoint::write`] and [`Checkpoint::publish`]. The log must be durable through the root's commit.
    pub async fn run(&mut self) -> Result<CheckpointCounts, FileError> {
        self.write().await?;
        self.publish().await
    }

    /// Writes changed pages, changed map nodes and the free set, and syncs them. Yields after every 256 KiB. After
    /// `Err` the old root stands; a full disk may be tried again with a new checkpoint, after a failed sync the
    /// file takes no more checkpoints until it is reopened, as after a panic, behind which nothing is in flight.
    /// With [`FileError::Gone`] it ends where it is once the map is gone, for its root would not be published.
    ///
    /// Dropping this future half-way closes the file for checkpoints, because its writes go on.
    pub async fn write(&mut self) -> Result<(), FileError> {
        assert!(matches!(self.stage, Stage::Idle), "a checkpoint is written once");
        self.stage = Stage::Unknown;
        let snapshot = self.snapshot.clone().expect("held since `begin`");
        let behind = self.left_behind.take().expect("written once");
        self.left = behind.take_in(&mut self.slots).await;
        let mut writer =
            SlotWriter::new(&self.reader, &mut self.slots, &snapshot.shared, self.rate, self.hurry.clone());
        let tenant = self.reader.tenant;
        let others = unwritten_of_others(&snapshot, &self.of_snapshots, &self.of_branch.versions).await;
        let written = write_root(&mut writer, &snapshot, others, tenant, &mut self.counts);
        let outcome = AssertUnwindSafe(written).catch_unwind().await;
        let written = match outcome {
            Ok(Ok(written)) => written,
            Err(panic) => {
                // The file may be opened anew at once, and its slots given to others.
                writer.quiesce().await;
                resume_unwind(panic)
            }
            Ok(Err(error)) => {
                writer.quiesce().await;
                self.give_up();
                return Err(error);
            }
        };
        if writer.pages_written > 0 {
            let synced = self.reader.file.sync_data().await;
            synced.map_err(|error| self.reader.io_error("syncing pages", error))?;
        }
        self.stage = Stage::Written(Box::new(written));
        Ok(())
    }

    /// Flips the superblocks to the written root, one after the other. After `Ok` the root survives power loss; after `Err` either root may,
    /// and the file takes no more checkpoints until it is reopened. The caller has made the log durable through the
    /// root's commit.
    pub async fn publish(&mut self) -> Result<CheckpointCounts, FileError> {
        let Stage::Written(written) = std::mem::replace(&mut self.stage, Stage::Unknown) else {
            panic!("a checkpoint is published once, after it is written");
        };
        let mut superblock = Superblock {
            tenant: self.reader.tenant,
            generation: self.generation,
            epoch: self.epoch,
            commit: self.root.commit,
            slot_count: self.slots.count(),
            map_height: self.map_height,
            map_root: written.map_root,
            free_set: written.free_set.clone(),
            payload: self.root.payload.clone(),
        };
        write_superblock(&self.reader, &superblock).await?;
        for (i, (version, location)) in written.pages.iter().enumerate() {
            yield_every(i).await;
            version.set_location(*location);
        }
        let snapshot = self.snapshot.as_ref().expect("held since `begin`");
        snapshot.shared.counts.write_backs.fetch_add(written.pages.len() as u64, Ordering::Relaxed);
        for (node, location) in &written.nodes {
            match node {
                Link::Inner(inner) => inner.stamp.set_location(*location),
                Link::Leaf(leaf) => leaf.stamp.set_location(*location),
                Link::Cold(_) | Link::Empty => unreachable!("only nodes that the file has not are written"),
            }
        }
        let Written { next_free_set, free_set, pages, nodes, .. } = *written;
        self.slots.publish(next_free_set, free_set).await;
        // Nobody lets go of the log before both name this root: with one of them damaged nothing is lost.
        superblock.generation += 1;
        write_superblock(&self.reader, &superblock).await?;
        self.generation = superblock.generation;
        if let Some(end) = self.slots.surplus_from() {
            // Of no consequence if it fails: a file may be longer than its root says.
            if self.reader.file.set_len(offset_of(SlotNo(end))).is_ok() {
                self.slots.extent = end;
            }
        }
        self.stage = Stage::Published;
        self.let_go(pages, nodes).await;
        Ok(self.counts)
    }

    /// Lets go of what was written, bit by bit: what was changed since the beginning nobody else has.
    async fn let_go(&mut self, pages: Vec<(Arc<PageVersion>, Location)>, nodes: Vec<(Link, Location)>) {
        let mut discarded = Discarded::default();
        discarded.add(self.snapshot.take().expect("held since `begin`"));
        discarded.take_in_nodes(nodes.into_iter().map(|(node, _)| node));
        discarded.take_in(std::mem::take(&mut self.of_branch.versions));
        discarded.take_in(pages.into_iter().map(|(version, _)| version).collect());
        discarded.free().await;
        for (i, version) in std::mem::take(&mut self.of_snapshots).into_iter().enumerate() {
            yield_every(i).await;
            drop(version);
        }
    }

    /// Ends the checkpoint in a turn of the home. Returns whether the root was published; if not, the next checkpoint
    /// writes all of it again.
    pub fn finish(mut self, map: &mut PageMap, file: &mut DataFile) -> bool {
        assert!(file.slots.is_none() && Arc::ptr_eq(&file.reader, &self.reader), "begun with another file");
        let published = matches!(self.stage, Stage::Published);
        if let Some(behind) = self.left_behind.take() {
            self.left = behind.take_in_now(&mut self.slots);
        }
        let of_branch = if published { OfBranch::default() } else { std::mem::take(&mut self.of_branch) };
        let of_snapshots = std::mem::take(&mut self.of_snapshots);
        map.end_checkpoint(published, of_snapshots, of_branch, std::mem::take(&mut self.left));
        match self.stage {
            Stage::Published => (file.generation, file.root_commit) = (self.generation, self.root.commit),
            Stage::Idle | Stage::Written(_) => self.give_up(),
            Stage::Unknown => return false,
        }
        file.slots = Some(self.slots);
        published
    }

    fn give_up(&mut self) {
        self.slots.abandon();
        self.stage = Stage::Idle;
    }
}

/// Each version once that snapshots or the branch alone hold and nothing has written. Yields now and then.
async fn unwritten_of_others(
    root: &Snapshot,
    of_snapshots: &WeakVersions,
    of_branch: &[Arc<PageVersion>],
) -> Vec<Arc<PageVersion>> {
    let mut found = Vec::new();
    // Snapshots may hold pages of the branch too.
    let mut known: FxHashSet<usize> = FxHashSet::default();
    for (i, (no, version)) in of_snapshots.iter().enumerate() {
        yield_every(i).await;
        // It may be gone, written by the checkpoint before, or of the root again since a branch brought it back.
        let Some(version) = version.upgrade() else { continue };
        if version.location().is_none()
            && !root.has_version(*no, &version)
            && known.insert(address_of(&version))
        {
            found.push(version);
        }
    }
    for (i, version) in of_branch.iter().enumerate() {
        yield_every(i).await;
        if known.insert(address_of(version)) {
            found.push(Arc::clone(version));
        }
    }
    found
}

fn address_of(version: &Arc<PageVersion>) -> usize {
    Arc::as_ptr(version).addr()
}

/// The nodes of one level that the file does not have yet, with the lowest page number below each.
type Level = Vec<(u32, Link)>;

/// Writes everything of `snapshot` that the file does not have, bottom up.
async fn write_root(
    writer: &mut SlotWriter<'_>,
    snapshot: &Snapshot,
    of_snapshots: Vec<Arc<PageVersion>>,
    tenant: base::TenantId,
    counts: &mut CheckpointCounts,
) -> Result<Written, FileError> {
    let mut pages: Vec<(Arc<PageVersion>, Location)> = Vec::new();
    for version in of_snapshots {
        let bytes = version.unwritten_bytes().expect("a page the file does not have is in memory");
        let location = writer.write_for_snapshot(|page| page.copy_from_slice(bytes)).await?;
        pages.push((version, location));
    }
    let levels = changed_levels(snapshot).await;
    let mut nodes: Vec<(Link, Location)> = Vec::new();
    // By lowest page number: where the changed nodes of the level below were written.
    let mut below: FxHashMap<u32, Location> = FxHashMap::default();
    for (height, level) in levels.into_iter().enumerate() {
        let mut written: FxHashMap<u32, Location> = FxHashMap::default();
        for (first, link) in level {
            let identity = NodeIdentity { tenant, height: height as u32, first_page: PageNo(first) };
            let location = match &link {
                Link::Leaf(leaf) => {
                    let locations = write_pages(writer, leaf, &mut pages).await?;
                    let place = |i: usize, version: &PageVersion| {
                        locations[i].or_else(|| version.location()).expect("written now or before")
                    };
                    writer.write(|page| encode_leaf(page, identity, leaf, place)).await?
                }
                Link::Inner(inner) => {
                    let place = |first: u32, kid: &Link| {
                        below.get(&first).copied().or_else(|| kid.location()).expect("written now or before")
                    };
                    writer.write(|page| encode_inner(page, identity, inner, place)).await?
                }
                Link::Cold(_) | Link::Empty => unreachable!("only nodes that the file has not are listed"),
            };
            written.insert(first, location);
            nodes.push((link, location));
        }
        below = written;
    }
    let map_root = below.get(&0).copied().or_else(|| snapshot.root.location());
    assert!(map_root.is_some() || matches!(snapshot.root, Link::Empty), "a root is written or was before");
    (counts.pages, counts.map_nodes) = (pages.len() as u64, nodes.len() as u64);

    let full = |FileFull| FileError::Full { file: snapshot_file(snapshot) };
    let next_free_set = writer.slots.plan_free_set().await.map_err(full)?;
    let mut free_set: Vec<Location> = (0..).map_while(|i| writer.slots.free_set_location(i)).collect();
    free_set.truncate(next_free_set.len());
    // Ascending, so that new pages extend the list without a gap.
    let mut changed = next_free_set.pages.clone();
    changed.sort_unstable_by_key(|(index, _)| *index);
    for (index, slot) in changed {
        let location = writer.write_to(slot, |page| next_free_set.encode_page(index, page)).await?;
        match free_set.get_mut(index) {
            Some(old) => *old = location,
            None => free_set.push(location),
        }
        counts.free_set_pages += 1;
    }
    writer.finish().await?;
    Ok(Written { map_root, pages, nodes, next_free_set, free_set })
}

fn snapshot_file(snapshot: &Snapshot) -> std::path::PathBuf {
    snapshot.shared.reader.as_ref().map(|reader| reader.path.clone()).unwrap_or_default()
}

/// The changed nodes of each level, leaves first. A node that the file has is changed nowhere below, because every
/// change goes through the path from the root.
async fn changed_levels(snapshot: &Snapshot) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let is_new = |link: &Link| !matches!(link, Link::Empty) && link.location().is_none();
    let mut level: Level = Vec::new();
    if is_new(&snapshot.root) {
        level.push((0, snapshot.root.clone()));
    }
    for height in (1..=snapshot.height).rev() {
        let mut next: Level = Vec::new();
        for (first, link) in &level {
            let Link::Inner(inner) = link else { unreachable!("leaves are at height 0") };
            for (i, kid) in inner.kids.iter().enumerate().filter(|(_, kid)| is_new(kid)) {
                next.push((first + ((i as u32) << shift_of(height)), kid.clone()));
            }
            yield_now().await;
        }
        levels.push(std::mem::replace(&mut level, next));
    }
    levels.push(level);
    levels.reverse();
    levels
}

/// Writes the pages of `leaf` that the file does not have; their locations by index.
async fn write_pages(
    writer: &mut SlotWriter<'_>,
    leaf: &Leaf,
    pages: &mut Vec<(Arc<PageVersion>, Location)>,
) -> Result<Vec<Option<Location>>, FileError> {
    let mut locations = vec![None; FANOUT];
    for (i, entry) in leaf.entries.iter().enumerate() {
        let Some(version) = &entry.version else { continue };
        if version.location().is_some() {
            continue;
        }
        let bytes = version.unwritten_bytes().expect("a page the file does not have is in memory");
        let location = writer.write(|page| page.copy_from_slice(bytes)).await?;
        locations[i] = Some(location);
        pages.push((Arc::clone(version), location));
    }
    Ok(locations)
}
