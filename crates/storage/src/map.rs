//! The live map of one tenant's pages: in-place changes, O(1) snapshots, copies of what a snapshot still shares.
//!
//! Belongs to the tenant's home and is changed only in its turns. The radix tree is the truth; which page
//! numbers are free is derived from it. The map also notes which slots of the file its changes left behind, for the next
//! checkpoint to give them up.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Epoch, PageNo, SlotNo};
use governor::PageUse;
use rustc_hash::FxHashMap;

use crate::branch::{Behind, Branch, Discarded, Left, OfBranch, Switch};
use crate::file_error::FileError;
use crate::file_reader::{LoadedPage, PageRun};
use crate::frame::Frame;
use crate::memory_budget::{MemoryBudget, PageTally};
use crate::metering::Metering;
use crate::page_numbers::PageNumbers;
use crate::radix::{Entry, FANOUT, INNER_LEVELS_MAX, Inner, Leaf, Link, covers, kid_index, shift_of};
use crate::side::Side;
use crate::snapshot::{fault_of, unreadable};
use crate::sweep::{Hand, Retired, WeakVersions, resident_pages};
use crate::version::{Location, MapShared, PageVersion};
use crate::{Ahead, Beside, PageBytes, PageFault, ReadPages, RoomAsker, Snapshot, WritePages};

/// Leaves of the map that the beginning of a checkpoint looks at for what is to be moved down the file: 16,384 pages, two
/// milliseconds where each is a cache miss.
const MOVE_LEAVES_MAX: usize = 64;

/// Where a page that is not in memory lies in the data file; what `FileReader::read_page` is asked with. While it lives, what
/// lies there stays.
#[derive(Clone)]
pub struct PageLocation {
    pub(crate) page: PageNo,
    pub(crate) location: Location,
    pub(crate) version: Arc<PageVersion>,
}

impl PageLocation {
    pub(crate) fn of(no: PageNo, entry: Option<&Entry>) -> Result<Option<PageLocation>, PageFault> {
        let Some(version) = entry.and_then(|entry| entry.version.as_ref()) else {
            return Err(fault_of(entry, no));
        };
        if version.is_resident() {
            return Ok(None);
        }
        let location = version.location().expect("a page is in memory or in the file");
        Ok(Some(PageLocation { page: no, location, version: Arc::clone(version) }))
    }

    /// The page's number.
    pub fn page(&self) -> PageNo {
        self.page
    }

    /// Where it lies in the file: equal for requests that are for the same bytes.
    pub fn slot(&self) -> SlotNo {
        self.location.slot
    }
}

/// What a map counts, for other threads.
#[derive(Clone)]
pub struct PageCounters(Arc<MapShared>);

impl PageCounters {
    /// As [`PageMap::tally`].
    pub fn tally(&self) -> PageTally {
        self.0.counts.tally()
    }

    /// As [`PageMap::resident_bytes`].
    pub fn resident_bytes(&self) -> ByteCount {
        ByteCount(self.0.resident_bytes())
    }

    /// As [`PageMap::is_over_limit`].
    pub fn is_over_limit(&self) -> bool {
        self.0.is_over_limit()
    }
}

/// The live pages of one tenant. Belongs to its home thread; may be sent to another.
pub struct PageMap {
    /// What is read, changed and taken snapshots of: the live pages, or the branch while the home turns to it.
    pub(crate) current: Side,
    /// Changed pages that a running checkpoint writes.
    changed_being_written: u64,
    /// Last epoch whose changes a checkpoint has begun to write.
    pub(crate) checkpointed: Epoch,
    pub(crate) left_behind: LeftBehind,
    pub(crate) retired: Retired,
    /// The second state of the pages, where there is one.
    pub(crate) branch: Option<Box<Branch>>,
    /// Branches adopted since the last checkpoint began.
    pub(crate) switches: Vec<Switch>,
    pub(crate) discarded: Discarded,
    pub(crate) hand: Hand,
    /// Leaves, by their first pages, that the sweep found out of memory while somebody reached them: a checkpoint, most of the time.
    to_freeze: BTreeSet<PageNo>,
    /// The page from which [`PageMap::rewrite_from`] looks on.
    move_hand: u32,
    pub(crate) metering: Metering,
    /// The page that a scan missed last, and those it said it would want next.
    ahead: RefCell<(PageNo, Vec<PageNo>)>,
    /// By how many statements pages are held.
    pub(crate) held: FxHashMap<PageNo, u32>,
    pub(crate) shared: Arc<MapShared>,
}

/// What the live tree no longer reaches but the newest durable root may.
#[derive(Default)]
pub(crate) struct LeftBehind {
    pub(crate) slots: Vec<SlotNo>,
    /// Nodes and versions that a running checkpoint may be giving a slot to just now.
    being_written: Vec<BeingWritten>,
    /// Last epoch of the running checkpoint's snapshot.
    checkpoint: Option<Epoch>,
    /// Those of a checkpoint that has ended: whether they have a slot is known. Nodes are before what is below them, so that who lets
    /// go of one after the other frees one at a time.
    was_written: VecDeque<BeingWritten>,
}

/// Leaves that are remembered to be frozen, at most: 2 GB of pages.
const TO_FREEZE_MAX: usize = 1024;

/// Leaves that are frozen in the turn in which a checkpoint begins: some 20 us each.
const FREEZES_AT_ONCE: usize = 16;

/// Of what an ended checkpoint had in its hands, so many are settled in the turn in which it ends.
const WRITTEN_AT_ONCE: usize = 1024;

pub(crate) enum BeingWritten {
    Inner(Arc<Inner>),
    Leaf(Arc<Leaf>),
    Page(Arc<PageVersion>),
}

impl BeingWritten {
    pub(crate) fn location(&self) -> Option<Location> {
        match self {
            BeingWritten::Inner(node) => node.stamp.location(),
            BeingWritten::Leaf(node) => node.stamp.location(),
            BeingWritten::Page(version) => version.location(),
        }
    }
}

impl LeftBehind {
    /// Hands over what was noted so far, because other pages take the live ones' place, of epochs before `epoch`. Some of those
    /// may be in a running checkpoint's hands too.
    pub(crate) fn take_for_switch(&mut self, epoch: Epoch) -> (Vec<SlotNo>, Vec<BeingWritten>) {
        if let Some(last) = &mut self.checkpoint {
            *last = epoch;
        }
        let mut written = std::mem::take(&mut self.being_written);
        written.extend(self.was_written.drain(..));
        (std::mem::take(&mut self.slots), written)
    }

    /// The checkpoint has ended.
    fn end_checkpoint(&mut self) {
        self.checkpoint = None;
        assert!(self.was_written.is_empty(), "a checkpoint takes in what the one before it had");
        self.was_written = std::mem::take(&mut self.being_written).into();
        self.settle_some(WRITTEN_AT_ONCE);
    }

    /// Notes the slots of some of what the last checkpoint had in its hands; false if there was nothing.
    pub(crate) fn settle_some(&mut self, count: usize) -> bool {
        let any = !self.was_written.is_empty();
        let end = self.was_written.len().min(count);
        let locations = self.was_written.drain(..end).filter_map(|written| written.location());
        self.slots.extend(locations.map(|location| location.slot));
        any
    }

    fn note(&mut self, born: Epoch, what: BeingWritten) {
        match what.location() {
            Some(location) => self.slots.push(location.slot),
            // The checkpoint publishes locations only after its root is durable. If it does so right after the
            // look above, its end finds the slot through this entry.
            None if self.checkpoint.is_some_and(|epoch| born <= epoch) => self.being_written.push(what),
            None => {}
        }
    }
}

/// Where what is replaced goes. What the branch replaces the live pages have still, or no root has.
struct Leaving<'a> {
    live: &'a mut LeftBehind,
    /// When the branch was made, if it is what is being changed.
    of_branch: Option<Epoch>,
}

impl Leaving<'_> {
    fn note(&mut self, born: Epoch, what: BeingWritten) {
        if self.of_branch.is_none() {
            self.live.note(born, what);
        }
    }

    /// Notes a page's version that is replaced or given up.
    fn note_page(&mut self, no: PageNo, old: Entry, retired: &mut Retired) {
        let version = old.version.expect("an entry of a page");
        // A version older than the branch is the live pages' to retire.
        if self.of_branch.is_none_or(|forked| old.born > forked) {
            retired.add(no, &version);
        }
        self.note(old.born, BeingWritten::Page(version));
    }

    /// Notes the slot of a node that others have still.
    fn note_stored(&mut self, location: Location) {
        if self.of_branch.is_none() {
            self.live.slots.push(location.slot);
        }
    }

    /// Notes a slot whose node or version goes on in memory with other content.
    fn note_reused(&mut self, location: Option<Location>, shared: &MapShared) {
        if let Some(location) = location {
            if self.of_branch.is_none() {
                self.live.slots.push(location.slot);
            }
            shared.release(Some(location));
        }
    }
}

impl PageMap {
    /// A map without pages that lives in memory only.
    pub fn new_empty() -> PageMap {
        PageMap::of_no_pages(MapShared::new(None))
    }

    /// A map without pages.
    pub(crate) fn of_no_pages(shared: Arc<MapShared>) -> PageMap {
        PageMap::from_parts(Link::Empty, 0, Epoch(0), shared, PageNumbers::default())
    }

    /// The map of the tree under `root`, whose changes are of epoch `epoch` or older, and whose pages have these `numbers`.
    pub(crate) fn from_parts(
        root: Link,
        height: u32,
        epoch: Epoch,
        shared: Arc<MapShared>,
        numbers: PageNumbers,
    ) -> PageMap {
        let left_behind = LeftBehind::default();
        PageMap {
            current: Side { root, height, epoch: epoch.next(), numbers, changed: 0 },
            changed_being_written: 0,
            checkpointed: epoch,
            left_behind,
            retired: Retired::default(),
            branch: None,
            switches: Vec::new(),
            discarded: Discarded::default(),
            hand: Hand::default(),
            to_freeze: BTreeSet::new(),
            move_hand: 0,
            metering: Metering::default(),
            ahead: RefCell::default(),
            held: FxHashMap::default(),
            shared,
        }
    }

    /// Page numbers below `limit` are not given out any more: a high map with few pages.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, limit: u32) {
        self.current.numbers.skip_to(limit);
    }

    /// A clone of the map as it is now, in constant time. Every page changed from here on is copied first, once.
    pub fn snapshot(&mut self) -> Snapshot {
        let epoch = self.current.epoch;
        self.current.epoch = epoch.next();
        Snapshot {
            root: self.current.root.clone(),
            height: self.current.height,
            epoch,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Pages in the map, in memory or not.
    pub fn page_count(&self) -> u64 {
        self.current.numbers.pages()
    }

    /// Versions of pages that only snapshots hold, checkpoints' included.
    pub fn retained_pages(&self) -> u64 {
        self.shared.versions().saturating_sub(self.current.numbers.pages())
    }

    /// Pages that a checkpoint would write if it began now; what tells when one is due. After a checkpoint that was
    /// given up, pages changed on both sides of its start count twice.
    pub fn changed_pages(&self) -> u64 {
        self.current.changed
    }

    /// About how many pages of the file were given up since a checkpoint began, and nothing changed in their stead. Their places are free when the
    /// next one has ended; until then they are a list in memory. For a map that is not in its branch.
    pub fn given_back(&self) -> u64 {
        // A page that is changed leaves its own place behind and those of nodes, most of them shared with others.
        (self.left_behind.slots.len() as u64).saturating_sub(2 * self.current.changed)
    }

    /// Bytes that this map and all its snapshots hold in memory: frames, versions and map nodes.
    pub fn resident_bytes(&self) -> ByteCount {
        ByteCount(self.shared.resident_bytes())
    }

    /// Whether there are more pages in memory than the tenant's own limit.
    pub fn is_over_limit(&self) -> bool {
        self.shared.is_over_limit()
    }

    /// The tenant's own limit; `None` for no limit.
    pub fn own_limit(&self) -> Option<ByteCount> {
        self.shared.metered.share().and_then(|share| share.max())
    }

    /// Bytes of pages that are to leave because of the tenant's own limit.
    pub fn own_excess(&self) -> ByteCount {
        self.shared.own_excess()
    }

    /// Bytes of pages that are to leave: because the server has too many, or the tenant more than its limit.
    pub fn excess(&self) -> ByteCount {
        self.budget().map_or(ByteCount(0), |budget| budget.excess()).max(self.shared.own_excess())
    }

    /// Bytes of unwritten pages at which the tenant is to be checkpointed, and at which its writers wait for that, while [`PageMap::excess`] is not 0: of the
    /// server's limit or its own, whichever is less. `None` without a budget.
    pub fn dirty_marks(&self) -> Option<(ByteCount, ByteCount)> {
        let budget = self.budget()?;
        let max = self.own_limit().map_or(u64::MAX, |max| max.0);
        Some((budget.dirty_start().min(ByteCount(max / 4)), budget.dirty_max().min(ByteCount(max / 8 * 3))))
    }

    /// Charges what the map and its snapshots hold in memory to `budget` from here on.
    ///
    /// # Panics
    /// If it has a budget already.
    pub fn charge_to(&mut self, budget: &Arc<MemoryBudget>) {
        self.shared.charge_to(budget);
    }

    /// What the map's memory is charged to.
    pub fn budget(&self) -> Option<&Arc<MemoryBudget>> {
        self.shared.budget()
    }

    /// Asks for room in memory for its pages; `None` without a budget.
    pub fn room_asker(&self) -> Option<RoomAsker> {
        RoomAsker::of(&self.shared)
    }

    /// What became of its pages so far.
    pub fn tally(&self) -> PageTally {
        self.shared.counts.tally()
    }

    /// [`PageMap::tally`] and [`PageMap::resident_bytes`] for any thread, also after the map is gone.
    pub fn counters(&self) -> PageCounters {
        PageCounters(Arc::clone(&self.shared))
    }

    pub(crate) fn is_origin_of(&self, snapshot: &Snapshot) -> bool {
        Arc::ptr_eq(&self.shared, &snapshot.shared)
    }

    /// Bytes of pages, in the map or in snapshots alone, that no published checkpoint has written: what cannot be evicted
    /// before the next one. May be more than there are by those of snapshots that are gone.
    pub fn dirty_bytes(&self) -> ByteCount {
        let (live, of_branch) = match self.branch.as_deref() {
            None => (self.current.changed, 0),
            Some(branch) => {
                let live = if branch.is_current { branch.other.changed } else { self.current.changed };
                (live, branch.unwritten.len() as u64 + branch.being_written)
            }
        };
        let pages = live + self.changed_being_written + self.retired.unwritten_max() + of_branch;
        ByteCount(pages * PAGE_SIZE as u64)
    }

    /// Where to read page `no` from after a `Miss`; `None` if it is in memory by now.
    pub fn locate(&self, no: PageNo) -> Result<Option<PageLocation>, PageFault> {
        PageLocation::of(no, self.current.entry(no))
    }

    /// As [`PageMap::locate`] for a page of one of this map's snapshots.
    pub fn locate_frozen(&self, snapshot: &Snapshot, no: PageNo) -> Result<Option<PageLocation>, PageFault> {
        assert!(self.is_origin_of(snapshot), "a snapshot is read at its own home");
        PageLocation::of(no, snapshot.root.find(snapshot.height, no))
    }

    /// Counts a statement that was taken back for want of a page.
    pub fn count_miss(&self) {
        self.shared.counts.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes in pages read from the file, unless another reader was first.
    pub fn load(&mut self, loaded: Vec<LoadedPage>) {
        for page in loaded {
            let asked_for = page.asked_for();
            page.take_in();
            if let Some((no, version)) = asked_for {
                self.note_read(no, &version);
            }
        }
    }

    /// Tells that page `no` was read for somebody who will use it.
    fn note_read(&self, no: PageNo, version: &Arc<PageVersion>) {
        // The use that follows is this one.
        if let Some(entry) = self.current.warm_entry(no)
            && entry.version.as_ref().is_some_and(|here| Arc::ptr_eq(here, version))
        {
            entry.warm_up();
        }
        self.note_use(no, PageUse::Read);
    }

    /// What is to be read from the file for `first`: with it, up to `ahead_max` of the pages that the scan which missed it
    /// named, as far as they lie next to it.
    pub fn run_from(&mut self, first: PageLocation, ahead_max: usize) -> PageRun {
        let (of, ahead) = std::mem::take(&mut *self.ahead.borrow_mut());
        if of != first.page {
            return PageRun::new(first);
        }
        let locate = |no| self.locate(no).ok().flatten();
        let place_of = |no| self.current.root.place(self.current.height, no);
        PageRun::with_ahead(first, ahead.into_iter().take(ahead_max), place_of, locate)
    }

    /// Has so many misses of this map and of its [`crate::FrozenPages`] be read at once, blocking the thread, before the next one is told.
    pub fn set_turn_reads(&mut self, pages_max: u32) {
        self.shared.set_turn_reads(pages_max);
    }

    /// Reads page `no` into memory if it is not there, blocking the thread.
    pub fn read_blocking(&self, no: PageNo) -> Result<(), FileError> {
        let version = self.current.entry(no).and_then(|entry| entry.version.as_ref());
        match version {
            Some(version) if !version.is_resident() => version.load_blocking(no, &self.shared),
            _ => Ok(()),
        }
    }

    #[cold]
    fn note_ahead(&self, no: PageNo, ahead: Ahead<'_>) {
        let pages_max = self.shared.budget().map_or(0, |budget| budget.read_ahead());
        *self.ahead.borrow_mut() = (no, (0..pages_max).map_while(ahead).collect());
    }

    /// The bytes of a page whose entry has no address of them.
    #[cold]
    fn cold<'a>(&'a self, entry: Option<&'a Entry>, no: PageNo) -> Result<&'a PageBytes, PageFault> {
        let Some((version, entry)) = entry.and_then(|entry| entry.version.as_ref().zip(Some(entry))) else {
            return Err(fault_of(entry, no));
        };
        match entry.warm_up() {
            Some(was_ahead) => self.note_use(no, if was_ahead { PageUse::Read } else { PageUse::Found }),
            None if self.shared.take_turn_read() => {
                version.load_blocking(no, &self.shared).map_err(|error| unreadable(no, error))?;
                self.note_read(no, version);
            }
            None => return Err(fault_of(Some(entry), no)),
        }
        // Telling a use has the meter forget others, of this page never.
        Ok(entry.warm_bytes().expect("in memory, and only the owner evicts"))
    }

    /// Versions that the live map left behind before anything wrote them, and that snapshots may keep in memory.
    pub(crate) fn take_unwritten_of_snapshots(&mut self) -> WeakVersions {
        self.retired.take_unwritten()
    }

    /// Counts as changed what lies in the file from slot `from` on, so that the next checkpoint writes it elsewhere: map nodes,
    /// and pages that are in memory, about `max` of both. Others stay until they are read and moved, or changed. Looks at some
    /// leaves of the map, and goes on behind them the next time.
    pub(crate) fn rewrite_from(&mut self, from: SlotNo, max: usize) {
        let (mut pages, mut nodes) = (Vec::new(), Vec::new());
        let beyond = |location: Option<Location>| location.is_some_and(|at| at.slot.0 >= from.0);
        let Side { root, height, .. } = &self.current;
        for _ in 0..MOVE_LEAVES_MAX {
            let Some((first, leaf)) = root.leaf_from(*height, 0, self.move_hand) else {
                self.move_hand = 0;
                break;
            };
            if pages.len() + nodes.len() >= max {
                break;
            }
            if root.locations_to(*height, PageNo(first)).any(beyond) {
                nodes.push(PageNo(first));
            }
            for (no, version) in leaf.into_iter().flat_map(|leaf| resident_pages(first, leaf)) {
                if beyond(version.location()) {
                    pages.push(no);
                }
            }
            self.move_hand = first.checked_add(FANOUT as u32).unwrap_or(0);
        }
        for no in pages {
            self.page_mut(no).expect("it is in memory");
        }
        for no in nodes {
            self.entry_mut(no);
        }
    }

    /// Starts noting what a checkpoint may be writing, and hands over the slots left behind since the last one began
    /// and those that memory no longer refers to.
    pub(crate) fn begin_checkpoint(&mut self) -> (Snapshot, OfBranch, Behind) {
        assert!(!self.is_being_checkpointed(), "one checkpoint at a time");
        assert!(!self.is_in_branch(), "a checkpoint is of the live pages");
        self.note_checkpoint();
        // The one before has let go of its snapshot, and this one has none yet.
        self.freeze_some();
        let snapshot = self.snapshot();
        self.left_behind.checkpoint = Some(snapshot.epoch);
        self.checkpointed = snapshot.epoch;
        self.changed_being_written = std::mem::take(&mut self.current.changed);
        let of_branch =
            self.branch.as_mut().map_or_else(OfBranch::default, |branch| branch.begin_checkpoint());
        (snapshot, of_branch, self.take_behind())
    }

    /// Freezes the leaf of page `first`, of which none is in memory, now or when the next checkpoint begins.
    pub(crate) fn freeze(&mut self, first: PageNo) {
        let is_frozen = self.current.root.freeze(self.current.height, first);
        if is_frozen {
            self.to_freeze.remove(&first);
        } else if self.to_freeze.len() < TO_FREEZE_MAX {
            self.to_freeze.insert(first);
        }
    }

    fn freeze_some(&mut self) {
        for _ in 0..FREEZES_AT_ONCE {
            let Some(first) = self.to_freeze.pop_first() else { return };
            // Where it still cannot be, or has pages in memory again, the sweep says so when it comes by the next time.
            self.current.root.freeze(self.current.height, first);
        }
    }

    /// Hands over the slots left behind since the last time, and those that memory no longer refers to.
    pub(crate) fn take_behind(&mut self) -> Behind {
        Behind {
            switches: std::mem::take(&mut self.switches),
            slots: std::mem::take(&mut self.left_behind.slots),
            was_written: std::mem::take(&mut self.left_behind.was_written),
            released: self.shared.take_released(),
        }
    }

    /// Whether what a branch replaced is still kept: [`crate::Settling`] or a checkpoint lets go of it.
    pub fn has_replaced(&self) -> bool {
        !self.switches.is_empty()
    }

    /// `left` is what a switch left to snapshots.
    pub(crate) fn end_settling(&mut self, left: Left) {
        self.retired.take_in(left);
    }

    pub(crate) fn is_being_checkpointed(&self) -> bool {
        self.left_behind.checkpoint.is_some()
    }

    /// The checkpoint has published its locations, or has given up; either way it publishes none from here on. `of_snapshots` and
    /// `of_branch` are pages that only snapshots or a branch have, and that it was to write and did not; `left` is what a switch before it
    /// left to snapshots.
    pub(crate) fn end_checkpoint(
        &mut self,
        published: bool,
        of_snapshots: WeakVersions,
        of_branch: OfBranch,
        left: Left,
    ) {
        self.retired.take_in(left);
        let OfBranch { forked, mut versions } = of_branch;
        if let Some(branch) = &mut self.branch {
            // Those of a branch before this one are the live pages' by now, or nobody's.
            let is_theirs = forked == Some(branch.forked);
            branch.end_checkpoint(if is_theirs { std::mem::take(&mut versions) } else { Vec::new() });
        }
        self.discarded.take_in(versions);
        let begun = std::mem::take(&mut self.changed_being_written);
        if !published {
            self.current.changed += begun;
            self.retired.put_unwritten_back(of_snapshots);
        }
        self.left_behind.end_checkpoint();
    }

    #[cold]
    fn page_mut_slow(&mut self, no: PageNo) -> Result<&mut PageBytes, PageFault> {
        let found = self.current.entry(no);
        if found.and_then(Entry::warm_data).is_none() {
            self.cold(found, no)?;
            if found.is_some_and(|entry| entry.born == self.current.epoch) {
                return self.page_mut(no);
            }
        }
        let (epoch, counted_after, written_after) =
            (self.current.epoch, self.counted_after(), self.written_after());
        let Writing { entry, mut left_behind, retired, shared } = self.entry_mut(no);
        let (is_counted, is_written_anew) = (entry.born > counted_after, entry.born <= written_after);
        let version = entry.version.as_mut().expect("found above");
        match Arc::get_mut(version) {
            // Whoever shared it is gone: the bytes are the owner's alone again, and their place on disk is stale.
            Some(version) => {
                let location = version.take_location();
                entry.born = epoch;
                left_behind.note_reused(location, shared);
            }
            None => {
                let frame = Frame::copy_of(entry.warm_bytes().expect("found above"));
                let new = Entry::new(PageVersion::resident(frame, shared), epoch);
                let old = std::mem::replace(entry, new);
                left_behind.note_page(no, old, retired);
            }
        }
        self.current.changed += u64::from(!is_counted);
        if is_written_anew {
            self.note_change(no);
        }
        self.note_of_branch(no);
        let mut data = self.current.entry(no).and_then(Entry::warm_data).expect("found above");
        // SAFETY: as in `page_mut`; the entry is of the current epoch now.
        Ok(unsafe { data.as_mut() })
    }

    /// What was born later is counted in the current state's `changed`. A branch counts from its beginning, whatever of it checkpoints
    /// write: they write no root that has it.
    fn counted_after(&self) -> Epoch {
        match &self.branch {
            Some(branch) if branch.is_current => branch.forked,
            _ => self.checkpointed,
        }
    }

    /// What was born later is written by the next checkpoint as it is in the current state.
    fn written_after(&self) -> Epoch {
        self.checkpointed.max(self.counted_after())
    }

    /// The entry of page `no` to change: every node on the way is made the live map's own, and unwritten.
    fn entry_mut(&mut self, no: PageNo) -> Writing<'_> {
        let (epoch, shared) = (self.current.epoch, &self.shared);
        while !covers(self.current.height, no) {
            assert!(self.current.height < INNER_LEVELS_MAX);
            let mut top = Inner::new(epoch, None, shared);
            top.kids[0] = std::mem::take(&mut self.current.root);
            self.current.root = Link::Inner(Arc::new(top));
            self.current.height += 1;
        }
        let mut height = self.current.height;
        let mut link = &mut self.current.root;
        let of_branch = self.branch.as_ref().filter(|branch| branch.is_current).map(|branch| branch.forked);
        let mut left_behind = Leaving { live: &mut self.left_behind, of_branch };
        let retired = &mut self.retired;
        loop {
            if let Link::Empty = link {
                *link = match height {
                    0 => Link::Leaf(Arc::new(Leaf::new(epoch, None, shared))),
                    _ => Link::Inner(Arc::new(Inner::new(epoch, None, shared))),
                };
            }
            match link {
                Link::Empty => unreachable!("filled above"),
                Link::Inner(inner) => {
                    if Arc::get_mut(inner).is_none() {
                        let old = std::mem::replace(inner, Arc::new(inner.copy(epoch)));
                        left_behind.note(old.stamp.born, BeingWritten::Inner(old));
                    }
                    let inner = Arc::get_mut(inner).expect("owned alone or copied above");
                    inner.stamp.born = epoch;
                    left_behind.note_reused(inner.stamp.take_location(), shared);
                    link = &mut inner.kids[kid_index(no, shift_of(height))];
                    height -= 1;
                }
                Link::Cold(cold) => {
                    let leaf = match Arc::get_mut(cold) {
                        Some(own) => {
                            left_behind.note_reused(own.stamp.take_location(), shared);
                            own.take_leaf()
                        }
                        None => {
                            left_behind.note_stored(cold.stamp.location().expect("the file has a cold leaf"));
                            Arc::new(cold.leaf().copy(epoch))
                        }
                    };
                    *link = Link::Leaf(leaf);
                }
                Link::Leaf(leaf) => {
                    if Arc::get_mut(leaf).is_none() {
                        let old = std::mem::replace(leaf, Arc::new(leaf.copy(epoch)));
                        left_behind.note(old.stamp.born, BeingWritten::Leaf(old));
                    }
                    let leaf = Arc::get_mut(leaf).expect("owned alone or copied above");
                    leaf.stamp.born = epoch;
                    left_behind.note_reused(leaf.stamp.take_location(), shared);
                    let entry = &mut leaf.entries[kid_index(no, 0)];
                    return Writing { entry, left_behind, retired, shared };
                }
            }
        }
    }
}

struct Writing<'a> {
    entry: &'a mut Entry,
    left_behind: Leaving<'a>,
    retired: &'a mut Retired,
    shared: &'a Arc<MapShared>,
}

impl ReadPages for PageMap {
    #[inline]
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        match self.current.entry(no) {
            Some(entry) if let Some(bytes) = entry.warm_bytes() => Ok(bytes),
            entry => self.cold(entry, no),
        }
    }

    #[inline]
    fn page_of_scan(&self, no: PageNo, ahead: Ahead<'_>) -> Result<&PageBytes, PageFault> {
        let page = self.page(no);
        if let Err(PageFault::Miss(_)) = page {
            self.note_ahead(no, ahead);
        }
        page
    }
}

impl WritePages for PageMap {
    #[inline]
    fn page_mut(&mut self, no: PageNo) -> Result<&mut PageBytes, PageFault> {
        if let Some(entry) = self.current.entry(no)
            && entry.born == self.current.epoch
            && let Some(mut data) = entry.warm_data()
        {
            // SAFETY: an entry of the current epoch holds a version that no snapshot reaches (taking one moves the
            // epoch on), and `&mut self` excludes every other borrow of the live map's pages.
            return Ok(unsafe { data.as_mut() });
        }
        self.page_mut_slow(no)
    }

    fn allocate(&mut self, beside: Option<Beside>) -> PageNo {
        let (first, next) = self.current.numbers.find(beside);
        let no = self.current.root.free_number(self.current.height, first, next);
        self.current.numbers.take(no);
        let epoch = self.current.epoch;
        let version = PageVersion::resident(Frame::zeroed(), &self.shared);
        let entry = self.entry_mut(no).entry;
        assert!(entry.version.is_none(), "{no:?} is in use and was found free");
        *entry = Entry::new(version, epoch);
        self.current.changed += 1;
        self.note_of_branch(no);
        self.note_use(no, PageUse::Made);
        self.note_change(no);
        no
    }

    fn release(&mut self, no: PageNo) {
        let held = self.current.entry(no).is_some_and(|entry| entry.version.is_some());
        assert!(held, "{no:?} is not a page of this map");
        let Writing { entry, mut left_behind, retired, .. } = self.entry_mut(no);
        let old = std::mem::take(entry);
        let born = old.born;
        left_behind.note_page(no, old, retired);
        self.current.root.prune(self.current.height, no);
        self.current.numbers.release(no);
        if born > self.counted_after() {
            self.current.changed = self.current.changed.saturating_sub(1);
        }
        self.note_release(no, born > self.written_after());
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        if let Some(asker) = self.room_asker() {
            asker.end_holds(self.held.values().map(|count| *count as usize).sum());
            asker.forget_promise();
        }
        self.refund_meter();
        self.shared.close();
    }
}

#[cfg(test)]
mod tests;
