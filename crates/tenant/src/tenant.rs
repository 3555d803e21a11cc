//! A tenant as its home holds it: live pages, catalog, locks, and what is committed but not yet durable.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use base::{ByteCount, CommitNo, Lsn, Oid, PageNo, SessionId, SqlError, SqlState, TenantId, TreeId, TxnId};
use btree::{Cursor, Seek, TreeRoot};
use env::Env;
use rustc_hash::{FxHashMap, FxHashSet};
use storage::redo::RedoError;
use storage::{Checkpoint, Corrupt, DataFile, FileError, PageFault, PageMap, Root, Settling};

use crate::branch::Branch;
use crate::catalog::{
    Catalog, Decode, Encode, FIRST_USER_OID, Malformed, RecordKey, RecordKind, Relation, decode_record,
    encode_record,
};
use crate::change_memory::ChangeMemory;
use crate::due::Due;
use crate::exported::Exported;
use crate::history::History;
use crate::interrupt::Step;
use crate::kept::Pieces;
use crate::locks::{LockRecord, LockTable};
use crate::memory::{Holds, RepeatedReads};
use crate::overlay::OverlayMark;
use crate::pending::Pending;
use crate::redo_sink::RedoSink;
use crate::sequence::SequenceState;
use crate::snapshot_view::{Frozen, SnapshotView};
use crate::space::{Space, revoked};
use crate::trees::{CATALOG_TREE, FIRST_USER_TREE, TreeState, Trees};
use crate::txn::{Isolation, SnapshotOf, Txn};
use crate::view::{STEPS_UNASKED, Seat, View};
use crate::watch::Watch;

/// One tenant's database, open. Belongs to one thread at a time and may be sent to another between turns.
pub struct Tenant {
    pub(crate) id: TenantId,
    pub(crate) pages: PageMap,
    pub(crate) file: Option<DataFile>,
    pub(crate) trees: Trees,
    /// The second state of pages and trees, where a transaction has one.
    pub(crate) branch: Option<Box<Branch>>,
    /// Indexes that are built beside writers of their tables.
    pub(crate) watches: Vec<Watch>,
    pub(crate) catalog: Arc<Catalog>,
    /// The last commit applied.
    pub(crate) committed: CommitNo,
    pub(crate) locks: LockTable,
    pub(crate) history: History,
    pub(crate) holds: Holds,
    /// What the present turn misses it reads at once.
    pub(crate) in_turn: bool,
    /// Counts the reads of [`Tenant::shed_for_load`].
    pub(crate) loads_since_shed: u32,
    pub(crate) pending: Pending,
    /// The log is durable through here.
    pub(crate) durable: Lsn,
    pub(crate) sequences: FxHashMap<Oid, SequenceState>,
    /// By sequence, the log position of what was last logged of it.
    pub(crate) sequence_log: FxHashMap<Oid, Lsn>,
    /// By tree, the next hidden row id.
    pub(crate) row_ids: FxHashMap<TreeId, u64>,
    pub(crate) counters: Counters,
    /// Trees that nothing refers to, with pages still to release.
    pub(crate) garbage: Vec<(TreeId, TreeState)>,
    /// Those of them that have a page which cannot be read; they keep what they have until [`crate::repair`].
    pub(crate) spoiled: Vec<(TreeId, TreeState)>,
    /// Trees whose records the next checkpoint removes.
    pub(crate) gone_trees: Vec<TreeId>,
    /// Trees whose pages cannot be read: a replay leaves their changes out. Of use to [`crate::repair`] alone.
    pub(crate) given_up: FxHashSet<TreeId>,
    pub(crate) next_txn: u64,
    /// What transactions read that read a snapshot, by transaction. Without its entry, a transaction's was revoked.
    pub(crate) snapshots: BTreeMap<TxnId, Arc<Frozen>>,
    /// Those of them that others may import, whose numbers are no transaction's.
    pub(crate) exported: BTreeMap<TxnId, Exported>,
    /// What analytical queries and copies read.
    pub(crate) lent: Vec<Weak<Frozen>>,
    pub(crate) space: Space,
    /// The newest snapshot, while someone holds it and nothing was committed since.
    newest_frozen: Weak<Frozen>,
    /// Transactions begun and not ended.
    pub(crate) open_transactions: usize,
    /// One of them ends in this turn, or a panic came while one did.
    pub(crate) is_ending: bool,
    /// Transactions that have part of their records in the log ahead of their commits.
    pub(crate) ahead: usize,
    /// What they hold in memory.
    pub(crate) change_memory: ChangeMemory,
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Tenant>();
    is_send::<Txn>();
};

/// The next identifiers to give out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counters {
    pub(crate) oid: Oid,
    pub(crate) tree: TreeId,
}

impl Counters {
    /// What one transaction may need of them, by far.
    const LEFT_MIN: u32 = 1 << 24;

    /// Whether there may be too few left for another change of the catalog: none is given out twice.
    pub(crate) fn are_used_up(&self) -> bool {
        self.oid.0.max(self.tree.0) > u32::MAX - Counters::LEFT_MIN
    }
}

impl Encode for Counters {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.oid, self.tree).encode(out);
    }
}
impl Decode for Counters {
    fn decode(input: &mut &[u8]) -> Result<Counters, Malformed> {
        let (oid, tree) = Decode::decode(input)?;
        Ok(Counters { oid, tree })
    }
}

impl Encode for TreeState {
    fn encode(&self, out: &mut Vec<u8>) {
        self.root.0.map_or(0, |page| page.0).encode(out);
        self.entries.encode(out);
    }
}
impl Decode for TreeState {
    fn decode(input: &mut &[u8]) -> Result<TreeState, Malformed> {
        let page = u32::decode(input)?;
        let root = TreeRoot((page != 0).then_some(PageNo(page)));
        Ok(TreeState { root, entries: u64::decode(input)?, dirty: false })
    }
}

/// Why a tenant could not be created, opened or replayed.
#[derive(Debug)]
pub enum OpenError {
    File(FileError),
    /// The pages are whole, but what they say is not a database of this version.
    Catalog {
        tenant: TenantId,
        what: &'static str,
    },
    /// A redo record does not follow the state it is applied to.
    Redo {
        tenant: TenantId,
        commit: CommitNo,
        what: &'static str,
    },
    /// The redo log cannot be read, or lacks a commit.
    Log(RedoError),
}

impl OpenError {
    /// Whether it is for want of space, which the operator can free.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, OpenError::File(error) if error.is_full_disk())
    }

    /// What whoever wanted it open is told: as [`state_of_file_error`] of a disk that has no space or fails, else XX001.
    pub fn state(&self) -> SqlState {
        match self {
            OpenError::File(
                error @ (FileError::Io { .. } | FileError::IoAt { .. } | FileError::Full { .. }),
            ) => state_of_file_error(error),
            OpenError::Log(RedoError::Io { .. }) => SqlState::IO_ERROR,
            _ => SqlState::DATA_CORRUPTED,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::File(error) => error.fmt(f),
            OpenError::Catalog { tenant, what } => write!(f, "tenant {tenant}: catalog: {what}"),
            OpenError::Redo { tenant, commit, what } => {
                write!(f, "tenant {tenant}: redo record of commit {commit}: {what}")
            }
            OpenError::Log(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for OpenError {}
impl From<FileError> for OpenError {
    fn from(error: FileError) -> OpenError {
        OpenError::File(error)
    }
}
impl From<RedoError> for OpenError {
    fn from(error: RedoError) -> OpenError {
        OpenError::Log(error)
    }
}
impl From<Corrupt> for OpenError {
    fn from(corrupt: Corrupt) -> OpenError {
        OpenError::File(FileError::Corrupt(corrupt))
    }
}

/// Where an open tenant's memory goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TenantMemory {
    /// Frames, versions and map nodes, those only snapshots hold included.
    pub pages: ByteCount,
}

/// Version of [`Root::payload`]'s form: this byte, the catalog tree's root page (4), its entries (8).
const PAYLOAD_VERSION: u8 = 1;
/// Bytes of that; what follows is a backup's description (`copy.rs`).
pub(crate) const PAYLOAD_LEN: usize = 1 + 4 + 8;

impl Tenant {
    /// A tenant without a data file, for tests and for what need not outlive the process.
    pub fn in_memory(id: TenantId, owner: &str) -> Tenant {
        let mut tenant = Tenant::with_pages(id, PageMap::new_empty(), None);
        tenant.bootstrap(owner, None);
        tenant
    }

    /// Makes a tenant in a new data file at `path`, with its owner role and the built-in schemas. After `Ok` it survives
    /// power loss.
    pub async fn create(
        env: &Env,
        path: &Path,
        id: TenantId,
        owner: &str,
        scram_verifier: Option<&str>,
    ) -> Result<Tenant, OpenError> {
        let (file, pages) = DataFile::create(env, path, id).await?;
        let mut tenant = Tenant::with_pages(id, pages, Some(file));
        tenant.bootstrap(owner, scram_verifier);
        let mut checkpoint = tenant.begin_checkpoint()?;
        let result = checkpoint.run().await;
        tenant.finish_checkpoint(checkpoint);
        result?;
        Ok(tenant)
    }

    /// Opens the tenant at its newest root. Redo records after [`Tenant::committed`] are to be replayed before use.
    pub async fn open(env: &Env, path: &Path, id: TenantId) -> Result<Tenant, OpenError> {
        let mut tenant = Tenant::open_root(env, path, id).await?;
        tenant.collect_orphans();
        Ok(tenant)
    }

    /// As [`Tenant::open`] of a file that is only looked at: it stays as it is, and the tenant cannot be checkpointed.
    pub async fn open_to_read(env: &Env, path: &Path, id: TenantId) -> Result<Tenant, OpenError> {
        let mut tenant = Tenant::read_root(env, path, id).await?;
        tenant.collect_orphans();
        Ok(tenant)
    }

    /// The tenant as its newest root has it, with the trees that nothing refers to.
    pub(crate) async fn open_root(env: &Env, path: &Path, id: TenantId) -> Result<Tenant, OpenError> {
        Tenant::of_root(id, DataFile::open(env, path, id).await?).await
    }

    /// As [`Tenant::open_root`] of a file that is only looked at.
    pub(crate) async fn read_root(env: &Env, path: &Path, id: TenantId) -> Result<Tenant, OpenError> {
        Tenant::of_root(id, DataFile::open_to_read(env, path, id).await?).await
    }

    async fn of_root(
        id: TenantId,
        (file, pages, root): (DataFile, PageMap, Root),
    ) -> Result<Tenant, OpenError> {
        let mut tenant = Tenant::with_pages(id, pages, Some(file));
        tenant.committed = root.commit;
        tenant.trees.set(CATALOG_TREE, decode_payload(id, &root.payload)?);
        tenant.load_catalog().await?;
        Ok(tenant)
    }

    fn with_pages(id: TenantId, pages: PageMap, file: Option<DataFile>) -> Tenant {
        Tenant {
            id,
            pages,
            file,
            trees: Trees::default(),
            branch: None,
            watches: Vec::new(),
            catalog: Arc::default(),
            committed: CommitNo(0),
            locks: LockTable::default(),
            history: History::default(),
            holds: Holds::default(),
            in_turn: false,
            loads_since_shed: 0,
            pending: Pending::default(),
            durable: Lsn(0),
            sequences: FxHashMap::default(),
            sequence_log: FxHashMap::default(),
            row_ids: FxHashMap::default(),
            counters: Counters { oid: FIRST_USER_OID, tree: FIRST_USER_TREE },
            garbage: Vec::new(),
            spoiled: Vec::new(),
            gone_trees: Vec::new(),
            given_up: FxHashSet::default(),
            next_txn: 1,
            snapshots: BTreeMap::new(),
            exported: BTreeMap::new(),
            lent: Vec::new(),
            space: Space::default(),
            newest_frozen: Weak::new(),
            open_transactions: 0,
            is_ending: false,
            ahead: 0,
            change_memory: ChangeMemory::default(),
        }
    }

    fn bootstrap(&mut self, owner: &str, scram_verifier: Option<&str>) {
        let catalog = Catalog::bootstrap(owner, scram_verifier.map(Into::into));
        for (key, value) in Catalog::default().changes_to(&catalog) {
            self.put_now(
                CATALOG_TREE,
                &key.to_bytes(),
                &value.expect("nothing is removed from an empty catalog"),
            );
        }
        self.catalog = Arc::new(catalog);
    }

    async fn load_catalog(&mut self) -> Result<(), OpenError> {
        let id = self.id;
        let malformed = move |Malformed(what)| OpenError::Catalog { tenant: id, what };
        let mut catalog = Catalog::default();
        let mut cursor = Cursor::new(self.trees.root(CATALOG_TREE), Seek::Start);
        let mut reads = RepeatedReads::default();
        loop {
            let step = cursor.next(&self.pages).and_then(|entry| {
                entry
                    .map(|entry| Ok((entry.key.to_vec(), entry.value.read(&self.pages)?.into_owned())))
                    .transpose()
            });
            let (key, value) = match step {
                Ok(None) => break,
                Ok(Some(entry)) => entry,
                Err(fault) => {
                    // The cursor may have moved past an entry whose overflow pages were missing.
                    let at = match cursor.position() {
                        Seek::After(key) => key.to_vec(),
                        _ => Vec::new(),
                    };
                    cursor.seek(Seek::Before(&at));
                    self.load_fault(fault, &mut reads).await?;
                    continue;
                }
            };
            reads = RepeatedReads::default();
            let key = RecordKey::from_bytes(&key).map_err(malformed)?;
            match key.kind {
                RecordKind::Counters => self.counters = decode_record(&value).map_err(malformed)?,
                RecordKind::SequenceState => {
                    let state = SequenceState::of_record(&value).map_err(malformed)?;
                    self.sequences.insert(Oid(key.id), state);
                }
                RecordKind::Tree => self.trees.set(TreeId(key.id), decode_record(&value).map_err(malformed)?),
                _ => catalog.apply_record(key, Some(&value)).map_err(malformed)?,
            }
        }
        self.catalog = Arc::new(catalog);
        Ok(())
    }

    /// Finds the trees that no object refers to: dropped ones not yet cleared, and those of DDL that never committed. Their
    /// pages go with [`Tenant::reclaim`].
    pub(crate) fn collect_orphans(&mut self) {
        let owned = owned_trees(&self.catalog);
        let orphans: Vec<_> = self.trees.iter().filter(|(tree, _)| !owned.contains(tree)).collect();
        for (tree, state) in orphans {
            self.trees.remove(tree);
            self.garbage.push((tree, state));
        }
    }

    /// Has the page of a miss read, for those that own the tenant across a wait: opening and replaying. `reads` are those since the
    /// caller last got anywhere.
    pub(crate) async fn load_fault(
        &mut self,
        fault: PageFault,
        reads: &mut RepeatedReads,
    ) -> Result<(), OpenError> {
        match fault {
            PageFault::Corrupt(_) | PageFault::Unreadable(..) => Err(self.open_error(fault)),
            PageFault::Miss(page) => {
                let Some(request) = self.request(page).map_err(|fault| self.open_error(fault))? else {
                    return Ok(());
                };
                self.shed_for_load(reads);
                let loaded = self.unless_full(request).read().await?;
                self.pages.load(loaded);
                Ok(())
            }
        }
    }

    pub(crate) fn open_error(&self, fault: PageFault) -> OpenError {
        match fault {
            PageFault::Corrupt(corrupt) => (*corrupt).into(),
            PageFault::Miss(_) | PageFault::Unreadable(..) => {
                OpenError::Catalog { tenant: self.id, what: "a page is missing without a file" }
            }
        }
    }

    pub fn id(&self) -> TenantId {
        self.id
    }

    /// Asks for what a statement comes by of the tenant, before it looks for rows, from memory at once.
    pub fn prefetch(&self) {
        base::prefetch_value(self);
    }

    /// The last commit applied.
    pub fn committed(&self) -> CommitNo {
        self.committed
    }

    /// The committed catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The next oid and a tree id, for DDL. Never given out again, whether the transaction commits or not.
    pub(crate) fn next_oid(&mut self) -> Oid {
        let oid = self.counters.oid;
        self.counters.oid = Oid(oid.0 + 1);
        oid
    }
    pub(crate) fn next_tree(&mut self) -> TreeId {
        let tree = self.counters.tree;
        self.counters.tree = TreeId(tree.0 + 1);
        tree
    }

    /// Begins a transaction. `implicit` says that it is a single statement which commits by itself. A session has at most
    /// one at a time: its locks are the session's.
    pub fn begin(
        &mut self,
        session: SessionId,
        isolation: Isolation,
        read_only: bool,
        implicit: bool,
    ) -> Txn {
        let id = TxnId(self.next_txn);
        self.next_txn += 1;
        self.open_transactions += 1;
        Txn {
            id,
            session,
            isolation,
            read_only,
            implicit,
            overlay: Default::default(),
            ahead: None,
            before_branch: None,
            has_savepoints: false,
            before: None,
            catalog: None,
            frozen: None,
            saved: Default::default(),
            reads: Default::default(),
            built: Vec::new(),
            pieces: Pieces::default(),
            begun_at: OverlayMark::default(),
            dropped_trees: Vec::new(),
            sequences: Default::default(),
            checks: Vec::new(),
            carried: Vec::new(),
            own_later: None,
            due: Due::default(),
            cascaded: Vec::new(),
            held: Default::default(),
            tables: Default::default(),
            waiting: None,
            session_locks: Default::default(),
            sequence_calls: Default::default(),
            deferred: Default::default(),
            observed: Lsn(0),
            evictions: self.pages.tally().evictions,
            memory_waits: 0,
            wrote_catalog: false,
            gave_back: false,
            branched: false,
            lists_locks: false,
            counted: 0,
        }
    }

    /// What the next statement of `txn` executes against, within this turn. The first one of a transaction that reads a
    /// snapshot takes it.
    pub fn view<'a>(&'a mut self, txn: &'a mut Txn, redo: &'a mut dyn RedoSink) -> View<'a> {
        self.begin_turn(txn);
        if txn.awaits_snapshot() {
            self.take_snapshot(txn);
            txn.observe(self.pending.newest());
        }
        View {
            tenant: Seat::of(self, txn),
            txn,
            redo,
            session: None,
            unasked: STEPS_UNASKED,
            unasked_of: STEPS_UNASKED,
            near: None,
        }
    }

    /// What an analytic statement of `txn` reads on another thread. The reply must wait for [`Txn::observed`].
    ///
    /// Errors: 0A000 in a REPEATABLE READ transaction that built an index or rewrote a table, whose snapshot lacks it.
    pub fn snapshot_view(&mut self, txn: &mut Txn) -> Result<SnapshotView, SqlError> {
        let frozen = match (self.snapshot_of(txn)?, txn.isolation) {
            (Some(frozen), _) => Arc::clone(frozen),
            (None, Isolation::ReadCommitted) => self.at_side_of(txn, Tenant::freeze),
            (None, _) => self.take_snapshot(txn),
        };
        if txn.isolation != Isolation::ReadCommitted && !txn.built.is_empty() {
            return Err(SqlError::unsupported(
                "an analytical query after index builds in a snapshot transaction",
            ));
        }
        txn.observe(self.pending.newest());
        let catalog = txn.catalog.clone().unwrap_or_else(|| Arc::clone(&frozen.catalog));
        self.lend(&frozen);
        let poured = self.poured_view(txn);
        Ok(SnapshotView::new(frozen, catalog, poured, txn.overlay.changes().clone()))
    }

    /// Notes what is read elsewhere from now on.
    pub(crate) fn lend(&mut self, frozen: &Arc<Frozen>) {
        self.lent.retain(|lent| lent.strong_count() > 0);
        self.lent.push(Arc::downgrade(frozen));
    }

    /// The snapshot that `txn` reads from now on.
    fn take_snapshot(&mut self, txn: &mut Txn) -> Arc<Frozen> {
        self.history.begin(self.committed);
        let frozen = self.freeze();
        txn.frozen = Some(SnapshotOf { commit: frozen.commit, catalog: Arc::clone(&frozen.catalog) });
        self.snapshots.insert(txn.id, Arc::clone(&frozen));
        frozen
    }

    /// What `txn` reads, where that is a snapshot.
    ///
    /// Errors: 72000 if it was revoked.
    #[inline]
    pub(crate) fn snapshot_of(&self, txn: &Txn) -> Result<Option<&Arc<Frozen>>, SqlError> {
        match txn.frozen {
            None if txn.branched => Ok(self.statement_of_branch()),
            None => Ok(None),
            Some(_) => self.snapshots.get(&txn.id).map(Some).ok_or_else(revoked),
        }
    }

    /// SERIALIZABLE: what an analytic query read, to be told before the transaction goes on; all rows of these tables.
    pub fn note_tables_read(&mut self, txn: &mut Txn, trees: impl IntoIterator<Item = Oid>) {
        let catalog = Arc::clone(txn.catalog().unwrap_or(&self.catalog));
        for table in trees.into_iter().filter_map(|oid| catalog.table(oid)) {
            txn.note_read(table.tree, crate::row::keys::KeyRange::all);
        }
    }

    pub(crate) fn freeze(&mut self) -> Arc<Frozen> {
        if self.pages.is_in_branch() {
            return Arc::new(self.frozen_now());
        }
        if let Some(frozen) = self.newest_frozen.upgrade()
            && frozen.commit == self.committed
        {
            return frozen;
        }
        let frozen = Arc::new(self.frozen_now());
        self.newest_frozen = Arc::downgrade(&frozen);
        frozen
    }

    pub(crate) fn frozen_now(&mut self) -> Frozen {
        Frozen {
            commit: self.committed,
            pages: self.pages.snapshot(),
            trees: self.trees.clone(),
            catalog: Arc::clone(&self.catalog),
            revoked: AtomicBool::new(false),
        }
    }

    /// Somebody at home reads it no more.
    pub(crate) fn let_go(&mut self, frozen: Arc<Frozen>) {
        if let Some(frozen) = Arc::into_inner(frozen) {
            self.pages.let_go(frozen.pages);
        }
    }

    /// Snapshots taken from here on are new ones: pages changed without a commit.
    pub(crate) fn forget_frozen(&mut self) {
        self.newest_frozen = Weak::new();
    }

    /// The log is durable through `lsn`: replies that read up to there need not wait any more.
    pub fn durable(&mut self, lsn: Lsn) {
        self.durable = lsn;
        if !self.pending.is_empty() {
            self.pending.durable(lsn);
        }
    }

    /// The newest commit that is not durable yet; `Lsn(0)` for none.
    pub fn newest_pending(&self) -> Lsn {
        self.pending.newest()
    }

    /// The newest commit of definitions that is not durable yet; `Lsn(0)` for none. Whoever tells of the catalog tells of that, also where no row is
    /// read.
    #[inline]
    pub fn definitions_pending(&self) -> Lsn {
        self.pending.of_definitions()
    }

    /// Rows of a table, committed ones.
    pub fn row_count(&self, table: &crate::catalog::Table) -> u64 {
        self.trees.get(table.tree).entries
    }

    /// Entries of an index, likewise.
    pub fn entry_count(&self, index: &crate::catalog::Index) -> u64 {
        self.trees.get(index.tree).entries
    }

    /// Every lock held or waited for.
    pub fn lock_records(&self) -> Vec<LockRecord> {
        self.locks.list()
    }

    /// Transactions begun and not yet ended.
    pub fn open_transactions(&self) -> usize {
        self.open_transactions
    }

    pub fn memory(&self) -> TenantMemory {
        TenantMemory { pages: self.pages.resident_bytes() }
    }

    /// Bytes of the data file and of what is in use in it; `None` while a checkpoint runs or without a file.
    pub fn file_used(&self) -> Option<(ByteCount, ByteCount)> {
        self.file.as_ref().and_then(DataFile::used)
    }

    /// Whether the data file takes no more checkpoints until it is opened anew: a sync failed, so that it is not known what
    /// of it is durable. Not while a checkpoint runs.
    pub fn is_file_in_doubt(&self) -> bool {
        self.file.as_ref().is_some_and(DataFile::is_in_doubt)
    }

    /// What was wrong with the data file when it was opened, and is not any more once there is a checkpoint.
    pub fn mended(&self) -> Option<&Corrupt> {
        self.file.as_ref().and_then(DataFile::mended)
    }

    /// Writes the newest root's superblock again and syncs it. After `Ok` that root survives power loss, and opening the file
    /// finds it. Blocks.
    pub fn make_root_durable(&self) -> Result<(), FileError> {
        self.file.as_ref().map_or(Ok(()), DataFile::make_root_durable)
    }

    /// Drops the tenant; the future drops its pages, 0.1 us each, letting others run.
    pub fn free(mut self) -> impl Future<Output = ()> + Send + use<> {
        std::mem::replace(&mut self.pages, PageMap::new_empty()).free()
    }

    // ---- checkpoints ----

    /// Whether the newest durable root has all commits.
    pub fn is_root_newest(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.root_commit() == self.committed)
    }

    /// Begins a checkpoint of the state as it is now: constant time but for the trees that changed since the last one. Run
    /// it as a task, then [`Tenant::finish_checkpoint`]. When no transaction is open, sequences are written as they are,
    /// so that closing a tenant leaves no gap in them.
    ///
    /// Before its root is published the log must be durable through [`Tenant::newest_pending`] as it is now.
    ///
    /// # Errors
    /// A page of the catalog's tree cannot be read, or the file takes no checkpoint; a later one may begin.
    pub fn begin_checkpoint(&mut self) -> Result<Checkpoint, OpenError> {
        let root = self.write_records()?;
        let file = self.file.as_mut().expect("a tenant with a file is checkpointed");
        let checkpoint = Checkpoint::begin(&mut self.pages, file, root)?;
        self.space.checkpoint_began();
        Ok(checkpoint)
    }

    /// Brings what only memory knows into the catalog's tree, so that a snapshot taken now is a whole tenant; its root.
    ///
    /// # Errors
    /// A page of that tree cannot be read. All that was to be brought there is again the next time.
    pub(crate) fn write_records(&mut self) -> Result<Root, OpenError> {
        if self.open_transactions == 0 {
            self.settle_sequences()?;
        }
        // A replay may have made a tree anew under the number of one it dropped.
        let is_gone = |tree: &TreeId| self.trees.get(*tree) == TreeState::default();
        let gone: Vec<_> = self.gone_trees.iter().copied().filter(is_gone).collect();
        for tree in gone {
            self.remove_record(&RecordKind::Tree.key(tree.0).to_bytes())?;
        }
        self.renumber_garbage();
        let garbage = self.garbage.iter().chain(&self.spoiled).copied();
        let dirty: Vec<_> = self.trees.dirty().into_iter().chain(garbage).collect();
        for (tree, state) in dirty {
            if tree != CATALOG_TREE {
                self.put_record(&RecordKind::Tree.key(tree.0).to_bytes(), &encode_record(&state))?;
            }
        }
        self.put_record(&RecordKind::Counters.key(0).to_bytes(), &encode_record(&self.counters))?;
        // Not before the last record is there: a root without one of them would lose what the tree has.
        self.gone_trees.clear();
        self.trees.set_clean();
        self.forget_frozen();
        Ok(Root { commit: self.committed, payload: self.payload() })
    }

    fn put_record(&mut self, key: &[u8], value: &[u8]) -> Result<(), OpenError> {
        let (mut state, mut makes_room) = (self.trees.get(CATALOG_TREE), true);
        while let Err(fault) = self.try_put(&mut state, key, value) {
            self.read_now(fault, std::mem::take(&mut makes_room))?;
        }
        self.trees.set(CATALOG_TREE, TreeState { dirty: true, ..state });
        Ok(())
    }

    fn remove_record(&mut self, key: &[u8]) -> Result<(), OpenError> {
        let (mut state, mut makes_room) = (self.trees.get(CATALOG_TREE), true);
        while let Err(fault) = self.try_remove(&mut state, key) {
            self.read_now(fault, std::mem::take(&mut makes_room))?;
        }
        self.trees.set(CATALOG_TREE, TreeState { dirty: true, ..state });
        Ok(())
    }

    /// A replay may have made a tree anew under the number of one that was begun before, also of one given up: each has a record of its own.
    fn renumber_garbage(&mut self) {
        if self.garbage.is_empty() && self.spoiled.is_empty() {
            return;
        }
        let (garbage, spoiled) = (std::mem::take(&mut self.garbage), std::mem::take(&mut self.spoiled));
        let mut taken = FxHashSet::default();
        let mut anew = |(tree, state)| match self.trees.contains(tree) || !taken.insert(tree) {
            true => (self.next_tree(), state),
            false => (tree, state),
        };
        let garbage = garbage.into_iter().map(&mut anew).collect();
        let spoiled = spoiled.into_iter().map(&mut anew).collect();
        (self.garbage, self.spoiled) = (garbage, spoiled);
    }

    /// Ends a checkpoint, whatever its outcome; true if its root was published. Then redo through the commit at which it
    /// began is not needed any more.
    pub fn finish_checkpoint(&mut self, checkpoint: Checkpoint) -> bool {
        let file = self.file.as_mut().expect("a tenant with a file is checkpointed");
        let published = checkpoint.finish(&mut self.pages, file);
        if published {
            self.space.checkpoint_published();
        } else {
            // The records written for it are in the pages, but their trees count as changed until a root has them.
            let all: Vec<_> = self.trees.iter().collect();
            all.into_iter()
                .for_each(|(tree, state)| self.trees.set(tree, TreeState { dirty: true, ..state }));
        }
        published
    }

    /// Whether what long transactions replaced is still in memory, so that pages are copied before they are changed.
    pub fn has_replaced(&self) -> bool {
        self.pages.has_replaced()
    }

    /// Begins to let go of that: constant time. Run it as a task, then [`Tenant::finish_settling`]; no checkpoint begins
    /// meanwhile. `None` if there is nothing to do or a checkpoint runs.
    pub fn begin_settling(&mut self) -> Option<Settling> {
        Settling::begin(&mut self.pages, self.file.as_mut()?)
    }

    /// Ends it.
    pub fn finish_settling(&mut self, settling: Settling) {
        let file = self.file.as_mut().expect("a tenant with a file has begun it");
        settling.finish(&mut self.pages, file);
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = vec![PAYLOAD_VERSION];
        self.trees.get(CATALOG_TREE).encode(&mut payload);
        debug_assert_eq!(payload.len(), PAYLOAD_LEN);
        payload
    }

    fn settle_sequences(&mut self) -> Result<(), OpenError> {
        let ahead: Vec<_> =
            self.sequences.iter().filter(|(_, s)| s.logged_ahead > 0).map(|(o, s)| (*o, *s)).collect();
        for (oid, state) in ahead {
            self.put_record(&RecordKind::SequenceState.key(oid.0).to_bytes(), &state.record())?;
            self.sequences.insert(oid, SequenceState { logged_ahead: 0, ..state });
        }
        Ok(())
    }
}

pub(crate) fn decode_payload(tenant: TenantId, payload: &[u8]) -> Result<TreeState, OpenError> {
    let malformed = |what| OpenError::Catalog { tenant, what };
    match payload.split_first() {
        Some((&PAYLOAD_VERSION, mut rest)) => {
            TreeState::decode(&mut rest).map_err(|Malformed(what)| malformed(what))
        }
        Some(_) => Err(malformed("the root was written by a newer version")),
        None => Err(malformed("the file has no root: its creation was cut short")),
    }
}

/// The trees that objects of the catalog refer to, and the catalog's own.
pub(crate) fn owned_trees(catalog: &Catalog) -> FxHashSet<TreeId> {
    let tables = catalog.relations().filter_map(|r| if let Relation::Table(t) = r { Some(t) } else { None });
    let mut trees: FxHashSet<TreeId> = [CATALOG_TREE].into_iter().collect();
    for table in tables {
        trees.insert(table.tree);
        trees.extend(table.indexes.iter().map(|index| index.tree));
    }
    trees
}

/// The SQLSTATE of a data file that cannot be used: XX001 for damage, 53100 for want of space, 54000 of one at its largest size, else 58030.
pub fn state_of_file_error(error: &FileError) -> SqlState {
    match error {
        FileError::Corrupt(_) => SqlState::DATA_CORRUPTED,
        // Others have space: nothing that is set aside for a full disk would help.
        FileError::Full { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
        error if error.is_full_disk() => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    }
}

impl Tenant {
    /// The position of a sequence whose catalog entry exists.
    pub(crate) fn sequence_state(&self, sequence: &crate::catalog::Sequence) -> SequenceState {
        self.sequences.get(&sequence.oid).copied().unwrap_or_else(|| SequenceState::at_start(sequence))
    }

    /// Makes sure that the page a catalog record is on is in memory.
    pub(crate) fn touch_catalog(&self, key: &[u8]) -> Step<()> {
        btree::contains(&self.pages, self.trees.root(CATALOG_TREE), key)?;
        Ok(())
    }

    /// The next hidden row id of a tree. May miss a page the first time.
    pub(crate) fn next_row_id(&mut self, tree: TreeId) -> Step<u64> {
        if let Some(next) = self.row_ids.get_mut(&tree) {
            *next += 1;
            return Ok(*next - 1);
        }
        let mut cursor = Cursor::new(self.trees.root(tree), Seek::End);
        let last = cursor.prev(&self.pages)?.and_then(|entry| crate::row::keys::row_id_of(entry.key));
        let id = last.unwrap_or(0) + 1;
        self.row_ids.insert(tree, id + 1);
        Ok(id)
    }
}
