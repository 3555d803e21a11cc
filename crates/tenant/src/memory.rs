//! A tenant's part in the memory that all share: reading what was missed, holding what a statement waits for, evicting, and
//! telling writers to wait.
//!
//! A statement that misses a page is taken back, waits for the page, and runs again. The pages it waited for are *held*: they
//! stay in memory until it is through, so that each run gets further than the one before and two statements cannot evict
//! each other's pages for ever. Who holds as many as one statement may, or finds that its tenant's statements hold as many as
//! they may ([`governor::HoldPool`]), reads what it still misses within its turns, some in each, and waits for one page between two of them, in
//! its turn at the device; so a statement that holds pages never waits for another one that does.

use std::sync::Arc;

use base::{Lsn, PageNo, SqlError, TxnId};
use governor::{EvictionTime, MemoryShare, MemoryTally, VictimChoice};
use rustc_hash::FxHashMap;
use storage::{
    FileError, FileReader, LoadedPage, MemoryBudget, PageFault, PageLocation, PageMap, PageRun, PageTally,
    RoomAsker, Swept,
};

use crate::catalog::RecordKind;
use crate::commit::{GiveWay, Steps};
use crate::interrupt::error_of_fault;
use crate::overlay::Changes;
use crate::tenant::{OpenError, Tenant};
use crate::trees::CATALOG_TREE;
use crate::txn::Txn;

/// Pages one statement holds at most, 4 MiB: it misses so many before it reads the rest in its turn.
const HELD_PAGES_MAX: usize = 512;

/// Times a statement waits for pages, and runs again, before it is known as one that misses much.
const WAITS_MAX: usize = 32;

/// Pages that a statement which may hold no more reads in its first turn after that; twice as many in each further one. So what it reads in one
/// turn is at most half of what it reads so, and it comes to an end whatever is evicted meanwhile.
const TURN_READS_MIN: u32 = 16;

/// Pages that a statement reads in one turn before it is known as one that misses much: a few look-ups more, where little memory is shared by many
/// tenants, are no reason to scan tables elsewhere.
const TURN_READS_MAX: u32 = 4 * TURN_READS_MIN;

/// Times in a row that a transaction waits for memory before it goes on without.
pub(crate) const MEMORY_WAITS_MAX: u32 = 32;

/// The part of what changes may take at which those of one transaction are much, whatever their rows have in bytes: small rows
/// take many times that.
const MANY_CHANGES_PART: u64 = 16;
/// What is not much however little changes may take: what is poured at a time has its price.
const MANY_CHANGES_MIN: u64 = 256 << 10;

/// Steps of the sweep that a turn which reads its own misses makes at a time.
const SHED_STEPS_MAX: usize = 64;

/// Pages read between two sheds by what begins anew after each miss, 128 KiB: more than most changes of a tree need.
const LOADS_A_SHED: u32 = 16;

/// What transactions hold.
#[derive(Default)]
pub(crate) struct Holds(FxHashMap<TxnId, Hold>);

#[derive(Default)]
struct Hold {
    pages: Vec<PageNo>,
    waits: usize,
    /// Pages that it reads within its next turn at most; 0 while it may hold what it waits for.
    turn_reads: u32,
    /// Turns in which it was to read none, since more was in memory than may be.
    put_off: u32,
    /// The present turn is one of them.
    is_put_off: bool,
}

impl Hold {
    fn reads_in_turn(&self) -> bool {
        self.turn_reads > 0
    }
}

/// The reads of one operation that begins anew after each miss. Each time its pages were evicted before it ended, twice as many
/// are read before the next time: so it ends, however many it needs, and memory goes over its limit by these at most.
#[derive(Default)]
pub(crate) struct RepeatedReads {
    sheds: u32,
}

/// A page to read from disk after [`crate::Interrupt::Miss`].
pub struct PageRequest {
    reader: Arc<FileReader>,
    run: PageRun,
    /// Whom to ask for room; `None` for a page that does not wait.
    asker: Option<RoomAsker>,
    /// The tenant's statements hold too many pages for this one to begin: it waits for the end of one instead of reading.
    waits_to_hold: bool,
}

impl PageRequest {
    /// Reads the page, and what a scan will want next as far as there is room, through the calling thread's reactor, and waits for room when
    /// the read has its turn; hand the pages to [`Tenant::page_loaded`]. There may be none: then the statement is just run again.
    pub async fn read(self) -> Result<Vec<LoadedPage>, FileError> {
        if let Some(asker) = self.asker.as_ref().filter(|_| self.waits_to_hold) {
            asker.hold_room().await;
            return Ok(Vec::new());
        }
        self.reader.read_run(self.run, self.asker.as_ref()).await
    }

    /// What it costs, as `iops` counts it: one for each started 64 KiB; nothing if it reads nothing.
    pub fn ios(&self) -> u64 {
        let bytes = (1 + self.run.ahead()) * base::limits::PAGE_SIZE;
        if self.waits_to_hold { 0 } else { (bytes as u64).div_ceil(base::limits::IO_UNIT.0) }
    }

    /// What tells requests for the same bytes of a tenant: several may share one [`PageRequest::read`]. `None` for one that
    /// reads nothing.
    pub fn key(&self) -> Option<base::SlotNo> {
        (!self.waits_to_hold).then(|| self.run.slot())
    }
}

/// Why what is about to change pages, or to gather changes, is to wait before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriterWait {
    /// Until a checkpoint has written the tenant's changed pages.
    Checkpoint,
    /// Until there is room for a page.
    Room,
    /// Until the log is durable through this position: what was appended before is in memory as long.
    Log(Lsn),
}

/// What is done with changes: by a pour it is noted of which keys they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Committed,
    Poured,
}

/// What a commit is to wait for before it begins.
pub enum CommitWait {
    Memory(WriterWait),
    /// Pages that it will change and that left memory since the transaction changed them. At least one.
    Pages(Vec<PageRequest>),
}

impl Tenant {
    /// Charges the tenant's pages to `budget` from here on; call once, before anyone else has the tenant.
    pub fn charge_to(&mut self, budget: &Arc<MemoryBudget>) {
        self.pages.charge_to(budget);
    }

    /// Asks for room in memory for its pages; `None` without a budget.
    pub fn room_asker(&self) -> Option<RoomAsker> {
        self.pages.room_asker()
    }

    /// Keeps to its limit of memory from now on, in a replay too: see [`storage::PageMap::limit_memory`].
    pub fn limit_memory(&mut self, share: &Arc<MemoryShare>) {
        self.pages.limit_memory(share);
    }

    /// Keeps to its terms of memory, and has its pages metered, from now on: see [`storage::PageMap::set_memory_terms`].
    pub fn set_memory_terms(&mut self, share: &Arc<MemoryShare>, tally: &Arc<MemoryTally>) {
        self.pages.set_memory_terms(share, tally);
    }

    /// Says that the next checkpoint is for making room: see [`storage::PageMap::write_for_room`].
    pub fn write_for_room(&mut self) {
        self.pages.write_for_room();
    }

    /// Where to read a page that a statement of `txn` missed; `None` if it has come in meanwhile.
    fn locate_for(&self, txn: &Txn, page: PageNo) -> Result<Option<PageLocation>, SqlError> {
        let located = match (self.pages.locate(page), self.snapshot_of(txn)?) {
            (Ok(Some(location)), _) => Ok(Some(location)),
            // It may be one that the transaction's snapshot alone has.
            (_, Some(frozen)) => self.pages.locate_frozen(&frozen.pages, page),
            (located, None) => located,
        };
        // Or the state in which a statement over a snapshot reads what was poured before it.
        let located = match (located, self.statement_of_branch()) {
            (Ok(None) | Err(_), Some(frozen)) if txn.branched && txn.frozen.is_some() => {
                self.pages.locate_frozen(&frozen.pages, page)
            }
            (located, _) => located,
        };
        located.map_err(|fault| error_of_fault(&fault))
    }

    fn request_for(&mut self, txn: &Txn, page: PageNo, location: PageLocation) -> PageRequest {
        self.pages.count_miss();
        let waits_to_hold = !self.hold(txn.id, page);
        // Nothing ahead at the first miss, then twice as much with each.
        let misses = self.holds.0.get(&txn.id).map_or(0, |hold| hold.waits);
        let ahead_max = self.pages.budget().map_or(0, |budget| budget.read_ahead());
        let run = self.pages.run_from(location, ahead_max.min((1 << misses.clamp(1, 16)) / 2 - 1));
        self.request_of(run, waits_to_hold)
    }

    /// What to read after [`crate::Interrupt::Miss`] or for a statement that missed several pages, all at a time: the first, and of
    /// the others those that it may hold. None if they have all come in meanwhile and the statement can run again. They are held
    /// from now on until the statement's end ([`Tenant::release_pages`]).
    ///
    /// Errors: XX001 for a page that is not there.
    pub fn page_requests(&mut self, txn: &Txn, pages: &[PageNo]) -> Result<Vec<PageRequest>, SqlError> {
        self.at_side_of(txn, |tenant| tenant.live_page_requests(txn, pages))
    }

    /// As [`Tenant::page_requests`] for pages of the current state.
    pub(crate) fn live_page_requests(
        &mut self,
        txn: &Txn,
        pages: &[PageNo],
    ) -> Result<Vec<PageRequest>, SqlError> {
        let mut requests: Vec<PageRequest> = Vec::with_capacity(pages.len());
        for page in pages {
            let request = match self.locate_for(txn, *page)? {
                None => continue,
                Some(location) if requests.is_empty() => self.request_for(txn, *page, location),
                Some(location) if self.hold_too(txn.id, *page) => {
                    self.pages.count_miss();
                    self.request_of(PageRun::new(location), false)
                }
                Some(_) => break,
            };
            requests.push(request);
        }
        Ok(requests)
    }

    /// Has a statement that holds pages hold one more, if it may.
    fn hold_too(&mut self, txn: TxnId, page: PageNo) -> bool {
        let Some(hold) = self.holds.0.get_mut(&txn) else { return false };
        let holds = !hold.reads_in_turn() && hold.pages.len() < HELD_PAGES_MAX && self.pages.hold(page);
        if holds {
            hold.pages.push(page);
        }
        holds
    }

    fn request_of(&self, run: PageRun, waits_to_hold: bool) -> PageRequest {
        let reader = self.file.as_ref().expect("only a tenant with a file misses pages").reader();
        PageRequest { reader, run, asker: self.pages.room_asker(), waits_to_hold }
    }

    /// The request for a page that no statement waits for: of opening, replaying, checkpoints and what was dropped.
    pub(crate) fn request(&self, page: PageNo) -> Result<Option<PageRequest>, PageFault> {
        let located = self.pages.locate(page)?;
        Ok(located.map(|location| self.request_of(PageRun::new(location).for_upkeep(), false)))
    }

    /// What to read after [`Tenant::reclaim`] missed `page`; `None` if it has come in meanwhile.
    ///
    /// Errors: XX001 where the map has no such page.
    pub fn page_to_reclaim(&self, page: PageNo) -> Result<Option<PageRequest>, SqlError> {
        self.request(page).map_err(|fault| error_of_fault(&fault))
    }

    /// Has `txn` hold a page, or read in its turn from now on; false if it holds none and may not begin to.
    fn hold(&mut self, txn: TxnId, page: PageNo) -> bool {
        let hold = self.holds.0.entry(txn).or_default();
        // What it was put off from says nothing of how much it misses.
        let was_put_off = std::mem::take(&mut hold.is_put_off);
        hold.waits += usize::from(!was_put_off);
        if hold.pages.len() < HELD_PAGES_MAX && self.pages.hold(page) {
            hold.pages.push(page);
            return true;
        }
        if hold.pages.is_empty() {
            self.holds.0.remove(&txn);
            return false;
        }
        if was_put_off {
            return true;
        }
        hold.turn_reads = (hold.turn_reads * 2).clamp(TURN_READS_MIN, u32::MAX / 2);
        true
    }

    /// Lets go of the pages that the transaction's statement waited for: it is through, or waits for something else.
    pub fn release_pages(&mut self, txn: &Txn) {
        if !self.holds.0.is_empty()
            && let Some(hold) = self.holds.0.remove(&txn.id)
        {
            self.pages.end_holds(&hold.pages);
            self.set_turn_reads(0);
        }
    }

    /// Whether the transaction's statement missed so many pages that it had better go where waiting stops nobody, if it can.
    pub fn misses_much(&self, txn: &Txn) -> bool {
        let much = |hold: &Hold| hold.turn_reads > TURN_READS_MAX || hold.waits > WAITS_MAX;
        !self.holds.0.is_empty() && self.holds.0.get(&txn.id).is_some_and(much)
    }

    fn turn_reads(&self, txn: &Txn) -> u32 {
        self.holds.0.get(&txn.id).map_or(0, |hold| hold.turn_reads)
    }

    /// Whether any statement holds pages.
    #[cfg(test)]
    pub(crate) fn holds_pages(&self) -> bool {
        !self.holds.0.is_empty()
    }

    /// Prepares the pages for a turn of `txn`.
    #[inline]
    pub(crate) fn begin_turn(&mut self, txn: &Txn) {
        if !self.holds.0.is_empty() || self.in_turn {
            let pages_max = self.reads_of_turn(txn);
            self.set_turn_reads(pages_max);
        }
    }

    /// Pages that `txn` may read in the turn that begins: none while more is in memory than may be, for turns in a row would each add theirs. It
    /// then waits for room for one page, and is put off 32 times at most; after that it reads, which [`MemoryBudget::turns_over`] counts.
    fn reads_of_turn(&mut self, txn: &Txn) -> u32 {
        let budget = self.pages.budget();
        let Some(hold) = self.holds.0.get_mut(&txn.id).filter(|hold| hold.reads_in_turn()) else { return 0 };
        hold.is_put_off = false;
        if let Some(budget) = budget.filter(|budget| budget.resident() > budget.limit()) {
            if hold.put_off < MEMORY_WAITS_MAX {
                hold.put_off += 1;
                hold.is_put_off = true;
                return 0;
            }
            hold.put_off = 0;
            budget.count_turn_over();
        }
        hold.turn_reads
    }

    pub(crate) fn set_turn_reads(&mut self, pages_max: u32) {
        if self.in_turn || pages_max > 0 {
            self.in_turn = pages_max > 0;
            self.pages.set_turn_reads(pages_max);
        }
    }

    /// Takes in the pages that a [`PageRequest`] read.
    pub fn page_loaded(&mut self, loaded: Vec<LoadedPage>) {
        self.pages.load(loaded);
        self.shed_own();
    }

    /// What committing `txn` is to wait for, if anything; have it awaited and ask again until there is nothing, then commit in the
    /// same turn. Room is asked for first, so that commits in a row go over the limit by one of them at most. What the
    /// transaction may hold no pages for is read within the commit.
    ///
    /// Errors: XX001 for a damaged page.
    pub fn commit_wait(&mut self, txn: &mut Txn) -> Result<Option<CommitWait>, SqlError> {
        self.commit_wait_giving_way(txn, &|| {})
    }

    /// As [`Tenant::commit_wait`]; calls `give_way` as [`Tenant::commit_giving_way`] does, which it may be called in one turn with.
    ///
    /// Errors: XX001 for a damaged page.
    pub fn commit_wait_giving_way(
        &mut self,
        txn: &mut Txn,
        give_way: GiveWay<'_>,
    ) -> Result<Option<CommitWait>, SqlError> {
        let memory = if txn.has_changes() { self.writer_wait(txn) } else { None };
        let wait = match memory {
            Some(wait) => Some(CommitWait::Memory(wait)),
            None => Some(self.commit_requests(txn, Applied::Committed, give_way)?)
                .filter(|pages| !pages.is_empty())
                .map(CommitWait::Pages),
        };
        if wait.is_some() {
            self.keep_locks(txn);
        }
        Ok(wait)
    }

    fn commit_requests(
        &mut self,
        txn: &Txn,
        to: Applied,
        give_way: GiveWay<'_>,
    ) -> Result<Vec<PageRequest>, SqlError> {
        if self.pages.tally().evictions == txn.evictions || self.turn_reads(txn) > 0 {
            return Ok(Vec::new());
        }
        let mut steps = Steps::new(give_way);
        let missing = self.at_side_of(txn, |tenant| tenant.missing_of(txn.overlay.changes(), to, &mut steps));
        let missing = missing.map_err(|fault| error_of_fault(&fault))?;
        self.page_requests(txn, &missing)
    }

    /// Pages that [`Tenant::pour`] would miss, for they left memory since `txn` read them. Have them read and ask again until there are none, or the
    /// transaction may hold no more, then pour in the same turn. Calls `give_way` as [`Tenant::commit_giving_way`] does.
    ///
    /// Errors: XX001 for a damaged page.
    pub fn pour_requests(
        &mut self,
        txn: &mut Txn,
        give_way: GiveWay<'_>,
    ) -> Result<Vec<PageRequest>, SqlError> {
        let requests = self.commit_requests(txn, Applied::Poured, give_way)?;
        if !requests.is_empty() {
            self.keep_locks(txn);
        }
        Ok(requests)
    }

    /// The pages that reaching these keys would miss first, as many as one statement may hold.
    fn missing_of(
        &self,
        changes: &Changes,
        to: Applied,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<PageNo>, PageFault> {
        let mut missing = Vec::new();
        for (tree, changes) in changes.trees() {
            let notes = self.trees_of_notes(tree).filter(|_| to == Applied::Poured);
            for root in std::iter::once(tree).chain(notes).map(|tree| self.trees.root(tree)) {
                for key in changes.keys() {
                    steps.take();
                    match btree::contains(&self.pages, root, key) {
                        Ok(_) => {}
                        Err(PageFault::Miss(page)) if missing.last() == Some(&page) => {}
                        Err(PageFault::Miss(page)) => missing.push(page),
                        Err(fault) => return Err(fault),
                    }
                    if missing.len() == HELD_PAGES_MAX {
                        return Ok(missing);
                    }
                }
            }
        }
        Ok(missing)
    }

    /// A page that beginning a checkpoint will change and that is not in memory; `None` if there is none. Ask until it says so,
    /// then begin: what is missing then is read within [`Tenant::begin_checkpoint`]. Reading it waits for no room: evictors
    /// that find changed pages alone wait for this very checkpoint.
    ///
    /// Errors: the catalog's tree is damaged.
    pub fn checkpoint_request(&mut self) -> Result<Option<PageRequest>, OpenError> {
        let root = self.trees.root(CATALOG_TREE);
        let changed = self.trees.iter().filter(|(_, state)| state.dirty).map(|(tree, _)| tree);
        let gone = self.gone_trees.iter().copied().chain(self.garbage.iter().map(|(tree, _)| *tree));
        let trees = changed.chain(gone).map(|tree| RecordKind::Tree.key(tree.0));
        let sequences = self.sequences.iter().filter(|(_, state)| state.logged_ahead > 0);
        let sequences = sequences.map(|(oid, _)| RecordKind::SequenceState.key(oid.0));
        let mut keys = trees.chain(sequences).chain([RecordKind::Counters.key(0)]);
        let touched = keys.try_for_each(|key| btree::contains(&self.pages, root, &key.to_bytes()).map(drop));
        match touched {
            Ok(()) => Ok(None),
            Err(PageFault::Miss(page)) => {
                let request = self.request(page).map_err(|fault| self.open_error(fault))?;
                Ok(request.map(|request| PageRequest { asker: None, ..request }))
            }
            Err(fault) => Err(self.open_error(fault)),
        }
    }

    /// Whether `txn` is to wait before it gathers more changes or commits, and for what: have it awaited once and ask again. Never
    /// asked within a statement. It waits 32 times in a row at most: what takes the room may be what cannot leave memory. Then it goes on
    /// without, which [`MemoryBudget::turns_over`] counts.
    pub fn writer_wait(&mut self, txn: &mut Txn) -> Option<WriterWait> {
        let wait = self.memory_wait();
        if wait.is_none() {
            txn.memory_waits = 0;
            return None;
        }
        if txn.memory_waits == MEMORY_WAITS_MAX {
            txn.memory_waits = 0;
            self.pages.budget().expect("there is one where memory is waited for").count_turn_over();
            return None;
        }
        txn.memory_waits += 1;
        self.keep_locks(txn);
        wait
    }

    /// Whether `txn` has much that it would not have after pouring, of what all changes may take: changes, and the locks of a transaction
    /// that has no branch yet.
    pub fn has_many_changes(&self, txn: &Txn) -> bool {
        let bytes = if txn.branched { txn.overlay.footprint() } else { txn.counted };
        self.changes_max().is_some_and(|max| bytes >= (max.0 / MANY_CHANGES_PART).max(MANY_CHANGES_MIN))
    }

    /// What is to be waited for before more pages are changed.
    pub(crate) fn memory_wait(&self) -> Option<WriterWait> {
        let (budget, own_excess) = (self.pages.budget()?, self.pages.own_excess().0 > 0);
        if budget.excess().0 == 0 && !own_excess {
            return None;
        }
        let dirty_max = if own_excess { self.pages.dirty_marks()?.1 } else { budget.dirty_max() };
        let dirty = self.pages.dirty_bytes();
        if (dirty >= dirty_max || budget.is_too_dirty_together(dirty)) && self.file.is_some() {
            return Some(WriterWait::Checkpoint);
        }
        (budget.resident() >= budget.limit()).then_some(WriterWait::Room)
    }

    /// Whether so many of its pages are changed that a checkpoint should make them evictable, once memory is short.
    pub fn is_dirty(&self) -> bool {
        let dirty = self.pages.dirty_bytes();
        let together = || self.pages.budget().is_some_and(|budget| budget.is_dirty_together(dirty));
        self.pages.dirty_marks().is_some_and(|(start, _)| dirty >= start) || together()
    }

    /// Bytes of changed pages that no checkpoint has written yet.
    pub fn dirty_bytes(&self) -> base::ByteCount {
        self.pages.dirty_bytes()
    }

    /// One step of a sweep that makes room: see [`storage::PageMap::sweep`].
    pub fn sweep(&mut self, choice: &mut VictimChoice, now: EvictionTime) -> Swept {
        self.pages.sweep(choice, now)
    }

    /// Evicts what can be evicted, for experiments; how many pages.
    pub fn evict_all(&mut self) -> u64 {
        self.pages.evict_all()
    }

    /// Bytes of its pages that are to leave: because the server has too many, or it has more than its own limit.
    pub fn excess(&self) -> base::ByteCount {
        self.pages.excess()
    }

    /// Bytes of its pages that are to leave because it has more than its own limit.
    pub fn own_excess(&self) -> base::ByteCount {
        self.pages.own_excess()
    }

    /// Evicts pages of this tenant while the server has more than it should, or it has more than it may; for turns that read what they miss.
    pub fn shed(&mut self) {
        self.shed_while(PageMap::excess);
    }

    /// Evicts pages of this tenant while it has more than its own limit.
    fn shed_own(&mut self) {
        if self.pages.is_over_limit() {
            self.shed_while(PageMap::own_excess);
        }
    }

    fn shed_while(&mut self, excess: fn(&PageMap) -> base::ByteCount) {
        let Some(budget) = self.pages.budget().cloned() else { return };
        let mut choice = VictimChoice::default();
        for _ in 0..SHED_STEPS_MAX {
            if excess(&self.pages).0 == 0 {
                return;
            }
            self.pages.sweep(&mut choice, budget.eviction_time());
        }
    }

    /// [`Tenant::shed`] before a page is read for an operation that begins anew after each miss. It evicts at one read in some only,
    /// so that what the operation has read before is there when it begins anew: pages just read are the first to go.
    pub(crate) fn shed_for_load(&mut self, reads: &mut RepeatedReads) {
        let loads_max = LOADS_A_SHED.checked_shl(reads.sheds).unwrap_or(u32::MAX);
        if self.loads_since_shed >= loads_max {
            self.loads_since_shed = 0;
            reads.sheds += 1;
            self.shed();
        }
        self.loads_since_shed += 1;
    }

    /// The request, which waits for room only if there is some: nobody else can make any of the pages of a tenant that is owned
    /// across waits, so it goes over the limit, by less than is read between two sheds.
    pub(crate) fn unless_full(&self, mut request: PageRequest) -> PageRequest {
        request.asker = request.asker.filter(|_| self.pages.budget().is_some_and(|budget| budget.has_room()));
        request
    }

    /// [`Tenant::shed`] within a turn that reads its own misses.
    #[inline]
    pub(crate) fn shed_in_turn(&mut self) {
        if self.in_turn {
            self.shed();
        }
    }

    /// What became of the tenant's pages so far, readable from any thread.
    pub fn page_counters(&self) -> storage::PageCounters {
        self.pages.counters()
    }

    /// What became of the tenant's pages so far.
    pub fn page_tally(&self) -> PageTally {
        self.pages.tally()
    }
}
