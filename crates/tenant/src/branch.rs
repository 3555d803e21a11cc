//! Transactions too big for memory: their changes go to a branch of the tenant's pages instead of an overlay.
//!
//! The branch is a second state of the pages that shares what neither side changed. A transaction that has one *pours* its
//! overlay into it from time to time, and the redo record of what it poured goes to the log part by part, so neither memory nor
//! a turn has to hold all of it. What others commit meanwhile is copied into the branch key by key ([`Tenant::catch_up`]); locks
//! keep the two from touching one key. So whenever the transaction gets a turn, the branch is the live state with its own
//! changes; its views work on the branch as on live pages. Its commit record makes the parts a commit, and the branch takes the
//! live pages' place, both in one turn whose length does not depend on how much was changed.
//!
//! Who has the branch holds two locks: one against a second branch, and one against others' changes of the catalog, whose new trees
//! nothing would copy. Its own changes of the catalog come with the end of its record, and so do the indexes it built, which a
//! replay builds again from the rows: what is poured into their trees is in no part. A table that it rewrote under other keys is rewritten by a replay
//! at that end too, so nothing is poured behind that. A transaction that reads a snapshot checks constraints on its branch, and reads its own changes there
//! ([`crate::poured`]).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use base::{CommitNo, Lsn, SqlError, SqlResult, TreeId, TxnId};
use rustc_hash::{FxHashMap, FxHashSet};
use storage::PageFault;

use crate::catalog::{Index, Table};
use crate::commit::{GiveWay, Steps};
use crate::interrupt::{Step, error_of_fault};
use crate::locks::{LockMode, LockTag, WaitPolicy};
use crate::memory::{MEMORY_WAITS_MAX, PageRequest, WriterWait};
use crate::overlay::Overlay;
use crate::record_buffer;
use crate::redo_record::RecordWriter;
use crate::redo_sink::{RedoSet, RedoSink};
use crate::row::keys::{Key, KeyRange, index_entry_of_bytes};
use crate::snapshot_view::Frozen;
use crate::space::Demand;
use crate::tenant::Tenant;
use crate::trees::{TreeState, Trees};
use crate::txn::{Build, Isolation, Txn};
use crate::view::{State, View};

/// Bytes of changes from which a transaction is better off with a branch: what one turn can commit without being felt.
pub const BRANCH_BYTES_MIN: usize = 1 << 20;

/// Keys of others copied between two exchanges of the sides.
const KEYS_TOGETHER: usize = 64;

/// Bytes of their values, and one value.
const BYTES_TOGETHER: usize = 256 << 10;

/// Keys of others copied in one turn: some 200 us. Where others change more between two turns, it is twice as many as these, up to the second number: some 50 ms, of
/// which others had more before.
const CAUGHT_UP_A_TURN: usize = 256;
const CAUGHT_UP_A_TURN_MAX: usize = 1 << 16;

/// Keys of others, some 50 bytes each, that wait for the next turn of a transaction; more are copied while it is idle.
const BEHIND_MAX: usize = 1 << 14;

/// Of so many that wait then, one copy more is made in each turn.
const BEHIND_A_COPY: usize = 1 << 11;

/// The branch, and what else belongs to one state of the pages or the other.
pub(crate) struct Branch {
    /// [`NOBODY`] of a replay.
    owner: TxnId,
    /// Of a replay: the last commit that the live pages have.
    replayed_from: Option<CommitNo>,
    /// The replay stays in it from record to record, to its end.
    is_kept: bool,
    /// Of the state that is not current.
    other: Side,
    /// What others changed since and the branch does not have yet.
    behind: VecDeque<(TreeId, Key)>,
    /// The record of what was poured.
    redo: Option<RedoSet>,
    /// Bytes of that, while it has no end.
    parts_len: u64,
    /// Trees it was poured into.
    changed: FxHashSet<TreeId>,
    /// By each of them the tree of the keys, where the transaction reads a snapshot ([`crate::poured`]).
    pub(crate) poured: FxHashMap<TreeId, TreeId>,
    /// The tree of which the statement under way remembers what it has put, and that of the keys ([`crate::put_keys`]).
    pub(crate) put: Option<(TreeId, TreeId)>,
    /// What the statement under way reads.
    statement: Option<Arc<Frozen>>,
    /// The statement reads the newest state for a moment.
    reads_newest: bool,
    /// Trees that others changed since the statement began.
    overtaken: FxHashSet<TreeId>,
    /// How many keys were left when the transaction last caught up with some of what others changed, and not with all.
    left: Option<usize>,
    /// Why it cannot have what others changed, found while its transaction was idle: that fails by it.
    failed: Option<SqlError>,
}

/// No transaction has this number.
const NOBODY: TxnId = TxnId(0);

/// What belongs to one state of the pages.
#[derive(Default)]
struct Side {
    trees: Trees,
    garbage: Vec<(TreeId, TreeState)>,
    spoiled: Vec<(TreeId, TreeState)>,
    gone_trees: Vec<TreeId>,
}

/// Has the tenant at its branch, or at the live pages, until it is dropped, also by a panic: others may have a turn before the transaction that panicked is
/// ended, and what they commit is to be in the live pages.
struct AtSide<'t> {
    tenant: &'t mut Tenant,
    of_branch: bool,
}

impl Drop for AtSide<'_> {
    fn drop(&mut self) {
        let pages = &self.tenant.pages;
        if pages.has_branch() && pages.is_in_branch() == self.of_branch {
            self.tenant.turn(!self.of_branch);
        }
    }
}

/// How far a branch has come.
pub enum CaughtUp {
    /// It has all that others committed.
    All,
    /// There is more to copy, in another turn.
    Part,
    /// A page has to be read first.
    Miss(PageRequest),
    /// There is more to copy, and no memory for it.
    Memory(WriterWait),
}

impl Branch {
    /// Keys that wait to be copied.
    #[cfg(test)]
    pub(crate) fn behind(&self) -> usize {
        self.behind.len()
    }
}

impl std::fmt::Debug for Branch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Branch").field("owner", &self.owner).field("behind", &self.behind.len()).finish()
    }
}

impl Txn {
    /// Whether its changes go to a branch.
    pub fn has_branch(&self) -> bool {
        self.branched
    }

    /// Whether its changes could go to a branch: not those of a transaction that has rewritten a table under other keys, nor, where it reads a snapshot,
    /// of one that has filled any tree, which it reads as it is by now. One with savepoints from behind its branch had better not, for what is poured since stays.
    pub fn can_branch(&self) -> bool {
        let stands_in_the_way = |build: &Build| match build {
            Build::Cluster { .. } => true,
            Build::Index { .. } => self.isolation != Isolation::ReadCommitted,
        };
        !self.built.iter().any(stands_in_the_way)
    }
}

impl Tenant {
    /// Whether a transaction under way has part of its record in the log already: its commit must go to the same one.
    pub fn has_begun_a_record(&self) -> bool {
        self.ahead > 0 || self.branch.as_ref().is_some_and(|branch| branch.redo.is_some())
    }

    /// Gives `txn` a branch, in constant time. Waits while another transaction has one or changes the catalog.
    ///
    /// Errors: 40P01 where that one waits for this one; nobody else fails for that, so the change is to go on without a branch. Panics if the transaction cannot have one.
    pub fn begin_branch(&mut self, txn: &mut Txn) -> Step<()> {
        assert!(txn.can_branch(), "a branch for a transaction that cannot have one");
        // No savepoint from behind it is left: what is poured is not taken back but with the branch, and then all locks are that it took.
        txn.lists_locks = false;
        if txn.branched {
            return Ok(());
        }
        // From here on others run between its turns.
        self.flush_deferred(txn);
        txn.implicit = false;
        self.lock(txn, LockTag::Branch, LockMode::FOR_BRANCH, WaitPolicy::Wait)?;
        self.lock(txn, LockTag::Ddl, LockMode::NO_DDL, WaitPolicy::Wait)?;
        self.fork(txn.id, None);
        // As much is left to what is not poured.
        let locks_max = self.changes_max().map_or(u64::MAX, |max| max.0 / 2);
        self.locks.keep_many(txn.session, locks_max);
        txn.branched = true;
        Ok(())
    }

    fn fork(&mut self, owner: TxnId, replayed_from: Option<CommitNo>) {
        self.pages.fork();
        self.branch = Some(Box::new(Branch {
            owner,
            replayed_from,
            is_kept: false,
            other: Side {
                trees: self.trees.clone(),
                garbage: self.garbage.clone(),
                spoiled: self.spoiled.clone(),
                gone_trees: self.gone_trees.clone(),
            },
            behind: VecDeque::new(),
            redo: None,
            parts_len: 0,
            changed: FxHashSet::default(),
            poured: FxHashMap::default(),
            put: None,
            statement: None,
            reads_newest: false,
            overtaken: FxHashSet::default(),
            left: None,
            failed: None,
        }));
    }

    /// Has a replay go on in a branch: the live pages stay those of the last commit, so that a root of them can be written before the next
    /// one is whole, and what was replayed can leave memory with that.
    pub(crate) fn begin_replay_branch(&mut self) {
        self.fork(NOBODY, Some(self.committed));
        self.turn(true);
    }

    /// As [`Tenant::begin_replay_branch`] for all of a replay, until [`Tenant::leave_replay_branch`]: each root that is written meanwhile is of the tenant as it is now.
    pub(crate) fn keep_replay_branch(&mut self) {
        self.begin_replay_branch();
        self.branch.as_mut().expect("it was begun").is_kept = true;
    }

    /// Whether all of a replay goes on in a branch.
    pub(crate) fn keeps_replay_branch(&self) -> bool {
        self.branch.as_ref().is_some_and(|branch| branch.is_kept)
    }

    /// The last commit that the live pages have, while a replay goes on in a branch.
    pub(crate) fn replayed_from(&self) -> Option<CommitNo> {
        self.branch.as_ref().and_then(|branch| branch.replayed_from)
    }

    /// Puts what was replayed in a branch in the place of the live pages: it is that of one commit again.
    pub(crate) fn end_replay_branch(&mut self) {
        self.turn(false);
        drop(self.put_in_place());
    }

    /// Turns to the branch, or back.
    pub(crate) fn turn(&mut self, to_branch: bool) {
        self.pages.turn(to_branch);
        let branch = self.branch.as_mut().expect("the pages have one");
        std::mem::swap(&mut self.trees, &mut branch.other.trees);
        std::mem::swap(&mut self.garbage, &mut branch.other.garbage);
        std::mem::swap(&mut self.spoiled, &mut branch.other.spoiled);
        std::mem::swap(&mut self.gone_trees, &mut branch.other.gone_trees);
    }

    /// Has `act` work on the branch, or on the live pages, whichever of them is current.
    pub(crate) fn at_side<T>(&mut self, of_branch: bool, act: impl FnOnce(&mut Tenant) -> T) -> T {
        if self.pages.is_in_branch() == of_branch {
            return act(self);
        }
        self.turn(of_branch);
        let side = AtSide { tenant: self, of_branch };
        act(&mut *side.tenant)
    }

    /// Has `act` work on the state that `txn` changes.
    pub(crate) fn at_side_of<T>(&mut self, txn: &Txn, act: impl FnOnce(&mut Tenant) -> T) -> T {
        if txn.branched { self.at_side(true, act) } else { act(self) }
    }

    /// Notes what a commit in the live pages changed, for the branch to copy.
    #[inline]
    pub(crate) fn note_for_branch(&mut self, tree: TreeId, key: &[u8]) {
        if let Some(branch) = &mut self.branch
            && !self.pages.is_in_branch()
            && branch.failed.is_none()
        {
            branch.behind.push_back((tree, Key::from_slice(key)));
        }
    }

    /// Copies into the branch of `txn` what others have committed, as much as a turn may take. To be called until it says
    /// [`CaughtUp::All`] in the turn in which the transaction goes on; at once so for one that has no branch.
    ///
    /// Errors: XX001, 58030.
    pub fn catch_up(&mut self, txn: &mut Txn) -> SqlResult<CaughtUp> {
        self.catch_up_giving_way(txn, &|| {})
    }

    /// As [`Tenant::catch_up`]; calls `give_way` as [`Tenant::commit_giving_way`] does.
    ///
    /// Errors: as [`Tenant::catch_up`].
    pub fn catch_up_giving_way(&mut self, txn: &mut Txn, give_way: GiveWay<'_>) -> SqlResult<CaughtUp> {
        if !txn.branched {
            return Ok(CaughtUp::All);
        }
        let branch = self.branch.as_ref().expect("the transaction has a branch");
        assert_eq!(branch.owner, txn.id, "the branch is another transaction's");
        if let Some(error) = &branch.failed {
            return Err(error.clone());
        }
        if branch.behind.is_empty() {
            return Ok(CaughtUp::All);
        }
        // A value may have more pages than memory can keep for the transaction.
        self.begin_turn(txn);
        let has_waited = txn.memory_waits == MEMORY_WAITS_MAX;
        if let Some(wait) = self.writer_wait(txn) {
            return Ok(CaughtUp::Memory(wait));
        }
        // Who copied less in a turn than others change between two would never have it all.
        let left = self.branch.as_ref().and_then(|branch| branch.left);
        let added = left.map_or(0, |left| self.keys_behind().saturating_sub(left));
        let caught_up = self.catch_up_some(txn, (2 * added).min(CAUGHT_UP_A_TURN_MAX), give_way);
        let left = Some(self.keys_behind()).filter(|left| *left > 0);
        self.branch.as_mut().expect("as above").left = left;
        if has_waited && matches!(caught_up, Ok(CaughtUp::All)) {
            // For this turn, too: waited for anew, the branch might be behind again each time.
            txn.memory_waits = MEMORY_WAITS_MAX;
        }
        caught_up
    }

    /// Copies as many keys as a turn may, and so many at least if there are, and memory for them.
    fn catch_up_some(&mut self, txn: &Txn, keys_min: usize, give_way: GiveWay<'_>) -> SqlResult<CaughtUp> {
        let before = self.keys_behind();
        for copies in 0.. {
            if copies >= CAUGHT_UP_A_TURN / KEYS_TOGETHER {
                if before - self.keys_behind() >= keys_min || self.memory_wait().is_some() {
                    break;
                }
                give_way();
            }
            match self.copy_some(KEYS_TOGETHER) {
                Ok(true) => {}
                Ok(false) => return Ok(CaughtUp::All),
                Err((in_branch, PageFault::Miss(page))) => {
                    let mut requests = match in_branch {
                        true => self.page_requests(txn, &[page])?,
                        false => self.live_page_requests(txn, &[page])?,
                    };
                    return Ok(requests.pop().map_or(CaughtUp::Part, CaughtUp::Miss));
                }
                Err((_, fault)) => return Err(error_of_fault(&fault)),
            }
        }
        Ok(if self.keys_behind() > 0 { CaughtUp::Part } else { CaughtUp::All })
    }

    /// Keys that others changed and the branch does not have yet.
    fn keys_behind(&self) -> usize {
        self.branch.as_ref().map_or(0, |branch| branch.behind.len())
    }

    /// Copies all that is left, reading what is missing within the turn.
    fn catch_up_now(&mut self) -> SqlResult<()> {
        if let Some(error) = self.branch.as_ref().and_then(|branch| branch.failed.clone()) {
            return Err(error);
        }
        while self.copy_some_now()? {}
        Ok(())
    }

    /// Copies a few keys, reading what is missing within the turn; whether there is more to do. As a commit, it makes room for the
    /// first page that a key misses. A long value is read through, and not from its start again at each of its pages.
    fn copy_some_now(&mut self) -> SqlResult<bool> {
        self.shed();
        self.set_turn_reads(u32::MAX);
        let copied = self.copy_some_reading();
        self.set_turn_reads(0);
        copied
    }

    fn copy_some_reading(&mut self) -> SqlResult<bool> {
        let mut left = usize::MAX;
        loop {
            let (in_branch, page) = match self.copy_some(KEYS_TOGETHER) {
                Ok(more) => return Ok(more),
                Err((in_branch, PageFault::Miss(page))) => (in_branch, page),
                Err((_, fault)) => return Err(error_of_fault(&fault)),
            };
            let behind = self.branch.as_ref().map_or(0, |branch| branch.behind.len());
            if behind < left {
                left = behind;
                self.shed();
            }
            let read = self.at_side(in_branch, |tenant| tenant.pages.read_blocking(page));
            read.map_err(|error| {
                SqlError::new(crate::tenant::state_of_file_error(&error), error.to_string())
            })?;
        }
    }

    /// Copies some of what others committed while the transaction that has the branch is idle; whether there is more. Where something cannot be
    /// read, the transaction fails when it goes on, and no more is kept for it.
    pub(crate) fn tend_branch(&mut self) -> bool {
        if self.keys_behind() <= BEHIND_MAX {
            return false;
        }
        match self.copy_some_now() {
            Ok(more) => {
                // Others may change very much between two of these turns: the more waits, the more is copied. No further page is read for that.
                for _ in 0..self.keys_behind() / BEHIND_A_COPY {
                    if self.memory_wait().is_some() || !matches!(self.copy_some(KEYS_TOGETHER), Ok(true)) {
                        break;
                    }
                }
                more
            }
            Err(error) => {
                let branch = self.branch.as_mut().expect("it is far behind");
                branch.behind = VecDeque::new();
                branch.failed = Some(error);
                false
            }
        }
    }

    /// Copies the next few keys; whether there were any. Errors: the side whose page is missing (the branch's: true), and the
    /// fault.
    fn copy_some(&mut self, keys_max: usize) -> Result<bool, (bool, PageFault)> {
        let branch = self.branch.as_mut().expect("there is a branch");
        let count = branch.behind.len().min(keys_max);
        if count == 0 {
            return Ok(false);
        }
        let keys: Vec<(TreeId, Key)> = branch.behind.drain(..count).collect();
        let mut values = Vec::with_capacity(count);
        let (mut fault, mut bytes) = (None, 0);
        for (tree, key) in &keys {
            if bytes >= BYTES_TOGETHER {
                break;
            }
            let found = btree::get(&self.pages, self.trees.root(*tree), key)
                .and_then(|value| value.map(|value| value.read(&self.pages)).transpose());
            match found {
                Ok(value) => {
                    bytes += value.as_ref().map_or(0, |value| value.len());
                    values.push(value.map(Cow::into_owned));
                }
                Err(missing) => {
                    fault = Some((false, missing));
                    break;
                }
            }
        }
        let mut copied = 0;
        self.at_side(true, |tenant| {
            for ((tree, key), value) in keys.iter().zip(&values) {
                match tenant.copy_one(*tree, key, value.as_deref()) {
                    Ok(()) => copied += 1,
                    Err(missing) => {
                        fault = Some((true, missing));
                        break;
                    }
                }
            }
        });
        let branch = self.branch.as_mut().expect("as above");
        if branch.statement.is_some() {
            branch.overtaken.extend(keys.iter().take(copied).map(|(tree, _)| *tree));
        }
        keys.into_iter().skip(copied).rev().for_each(|key| branch.behind.push_front(key));
        fault.map_or(Ok(true), Err)
    }

    fn copy_one(&mut self, tree: TreeId, key: &[u8], value: Option<&[u8]>) -> Result<(), PageFault> {
        let mut state = self.trees.get(tree);
        match value {
            Some(value) => self.try_put(&mut state, key, value)?,
            None => self.try_remove(&mut state, key)?,
        }
        self.trees.set(tree, TreeState { dirty: true, ..state });
        Ok(())
    }

    /// Moves what `txn` has changed so far into its branch, and the record of it into the log. Returns the position to which
    /// the log should be durable before much more is changed: nothing else keeps its memory small. What is poured can be taken
    /// back with the whole transaction only. To be called in the turn of the changes.
    ///
    /// Errors: 53100 and 58030 when the log takes no more, XX001 and 58030 for a page that left memory since it was read and cannot be read again; the
    /// transaction has then to be aborted.
    pub fn pour(&mut self, txn: &mut Txn, redo: &mut dyn RedoSink) -> SqlResult<Lsn> {
        self.pour_giving_way(txn, redo, &|| {})
    }

    /// As [`Tenant::pour`]; calls `give_way` as [`Tenant::commit_giving_way`] does. What is much is to be logged before ([`Tenant::log_ahead`]).
    ///
    /// Errors: as [`Tenant::pour`].
    pub fn pour_giving_way(
        &mut self,
        txn: &mut Txn,
        redo: &mut dyn RedoSink,
        give_way: GiveWay<'_>,
    ) -> SqlResult<Lsn> {
        assert!(txn.branched && txn.can_branch(), "poured without a branch, or behind a table's rewriting");
        assert!(txn.checks.is_empty(), "the statement's rows were checked");
        if txn.overlay.is_empty() {
            return Ok(Lsn(0));
        }
        let is_ahead = txn.ahead.is_some();
        let end = if is_ahead { self.log_rest_ahead(txn, redo)? } else { self.log_poured(txn, redo)? };
        txn.ahead = None;
        let mut steps = Steps::new(give_way);
        self.at_side(true, |tenant| {
            for (tree, changes) in txn.overlay.changes().trees() {
                if !tenant.watches.is_empty() {
                    tenant.note_poured_for_builds(tree, changes, &mut steps)?;
                }
                let mut state = tenant.trees.get(tree);
                for (key, change) in changes {
                    tenant.apply_or_fail(&mut state, key, change)?;
                    steps.take_change(change);
                }
                tenant.trees.set(tree, TreeState { dirty: true, ..state });
                if txn.frozen.is_some() {
                    tenant.note_poured(tree, changes, &mut steps)?;
                }
                tenant.note_put(tree, changes, &mut steps)?;
            }
            Ok::<_, SqlError>(())
        })?;
        let branch = self.branch.as_mut().expect("the transaction has a branch");
        branch.changed.extend(txn.overlay.changes().trees().into_iter().map(|(tree, _)| tree));
        match txn.has_savepoints && txn.before_branch.is_none() {
            true => txn.before_branch = Some(std::mem::take(&mut txn.overlay)),
            false => txn.overlay.free(|| steps.take()),
        }
        if !txn.has_savepoints {
            // Those that come are from behind the branch.
            txn.before_branch = Some(Overlay::default());
        }
        self.recount_changes(txn);
        Ok(end)
    }

    /// Logs what is about to be poured, all at once.
    fn log_poured(&mut self, txn: &Txn, redo: &mut dyn RedoSink) -> SqlResult<Lsn> {
        let branch = self.branch.as_mut().expect("the transaction has a branch");
        let mut record = record_buffer::take();
        let mut writer = RecordWriter::part(&mut record, branch.redo.is_none());
        for (tree, changes) in txn.overlay.changes().trees() {
            if !txn.is_built(tree) {
                writer.changes(tree, changes.iter().map(|(key, change)| (&key[..], change)));
            }
        }
        let logged = self.log_part(&record, self.demand_of(txn), redo);
        record_buffer::keep(record);
        logged
    }

    fn log_part(&mut self, record: &[u8], demand: Demand, redo: &mut dyn RedoSink) -> SqlResult<Lsn> {
        self.require_space(record.len(), demand)?;
        redo.admit(record.len(), demand)?;
        Ok(self.append_to_branch(record, redo))
    }

    /// Appends a part of the branch's record that nothing stands in the way of.
    pub(crate) fn append_to_branch(&mut self, record: &[u8], redo: &mut dyn RedoSink) -> Lsn {
        self.space.note_part(record.len());
        let id = self.id;
        let branch = self.branch.as_mut().expect("the transaction has a branch");
        branch.parts_len += record.len() as u64;
        let set = branch.redo.get_or_insert_with(|| redo.begin_set(id));
        redo.append_to_set(set, record)
    }

    /// Whether something was poured, so that the commit's record is the end of one.
    pub(crate) fn has_poured(&self, txn: &Txn) -> bool {
        txn.branched && self.branch.as_ref().is_some_and(|branch| branch.redo.is_some())
    }

    /// Appends the end of the record, and the commit.
    pub(crate) fn log_branch(
        &mut self,
        txn: &Txn,
        commit: CommitNo,
        record: &[u8],
        redo: &mut dyn RedoSink,
    ) -> SqlResult<Lsn> {
        self.log_part(record, self.demand_of(txn), redo)?;
        let branch = self.branch.as_mut().expect("the transaction has a branch");
        self.space.end_parts(std::mem::take(&mut branch.parts_len));
        Ok(redo.commit_set(branch.redo.take().expect("it has parts"), commit))
    }

    /// Brings the branch up to date for the last time, before the commit is logged.
    ///
    /// Errors: XX001, 58030.
    pub(crate) fn ready_branch(&mut self, txn: &Txn) -> SqlResult<()> {
        if txn.branched { self.catch_up_now() } else { Ok(()) }
    }

    /// Puts the branch in the place of the live pages; the trees it changed.
    pub(crate) fn adopt_branch(&mut self, txn: &mut Txn) -> FxHashSet<TreeId> {
        let branch = self.put_in_place();
        for keys in branch.poured.values().chain(branch.put.iter().map(|(_, keys)| keys)) {
            self.give_up_tree(*keys);
        }
        self.locks.release_many(txn.session);
        txn.branched = false;
        branch.changed
    }

    fn put_in_place(&mut self) -> Box<Branch> {
        let mut branch = self.branch.take().expect("there is a branch");
        assert!(branch.behind.is_empty(), "the branch has what others committed");
        self.pages.adopt_branch();
        let Side { trees, garbage, spoiled, gone_trees } = std::mem::take(&mut branch.other);
        (self.trees, self.garbage, self.spoiled, self.gone_trees) = (trees, garbage, spoiled, gone_trees);
        self.forget_frozen();
        branch
    }

    /// Gives the branch up; its pages go with [`Tenant::reclaim`]. What was built before it was begun is in the live pages too.
    pub(crate) fn drop_branch(&mut self, txn: &mut Txn) {
        if txn.branched {
            self.let_branch_go(txn);
            txn.pieces.clear();
        }
    }

    /// Gives the branch up with all that was poured: the transaction goes back to before it, where it had filled so many trees, and has its changes in memory as
    /// they were when it first poured.
    pub(crate) fn leave_branch(&mut self, txn: &mut Txn, built: usize, steps: &mut Steps<'_>) {
        self.let_branch_go(txn);
        Tenant::give_up_ahead_in_branch(txn);
        if let Some(before) = txn.before_branch.take() {
            txn.overlay.free(|| steps.take());
            txn.overlay = before;
        }
        for build in txn.built.split_off(built) {
            self.give_up_tree(build.tree());
        }
        txn.carried.clear();
        txn.lists_locks = true;
    }

    fn let_branch_go(&mut self, txn: &mut Txn) {
        if self.pages.is_in_branch() {
            // A panic came while the sides were exchanged.
            self.turn(false);
        }
        if let Some(branch) = self.branch.take() {
            self.space.end_parts(branch.parts_len);
        }
        self.pages.drop_branch();
        self.locks.release_many(txn.session);
        txn.branched = false;
    }

    /// A tree of the live pages was given up while another transaction has the branch, which has the tree as it was when the branch began: what a statement
    /// keeps for its next run ([`crate::kept`]) outlives the right to change the catalog. In the place of the live pages it would be nobody's.
    pub(crate) fn give_up_in_branch(&mut self, tree: TreeId) {
        if self.pages.is_in_branch() {
            return;
        }
        if let Some(branch) = &mut self.branch
            && let Some(state) = branch.other.trees.remove(tree)
        {
            branch.other.gone_trees.push(tree);
            if state.root.0.is_some() {
                branch.other.garbage.push((tree, state));
            }
        }
    }

    /// The statement that begins now reads the branch as it is now, until [`Tenant::end_statement`]. Pour and catch up before, in
    /// the same turn.
    pub fn begin_statement(&mut self, txn: &Txn) {
        let frozen = self.at_side_of(txn, |tenant| tenant.freeze());
        let branch = self.branch.as_mut().expect("the transaction has a branch");
        branch.statement = Some(frozen);
        branch.overtaken.clear();
    }

    /// Statements of the branch read its newest state again.
    pub fn end_statement(&mut self, txn: &Txn) {
        if txn.branched
            && let Some(branch) = &mut self.branch
        {
            branch.statement = None;
            self.forget_put();
        }
    }

    /// What the statement under way of a transaction with a branch reads.
    pub(crate) fn statement_of_branch(&self) -> Option<&Arc<Frozen>> {
        self.branch
            .as_ref()
            .filter(|branch| !branch.reads_newest)
            .and_then(|branch| branch.statement.as_ref())
    }
}

impl View<'_> {
    /// Whether a row that the statement found is still as it found it. One that reads a snapshot fails when it changes one that is not.
    pub fn is_as_found(&mut self, table: &Table, key: &[u8]) -> Step<bool> {
        if self.txn.frozen.is_some() {
            return Ok(true);
        }
        match &self.tenant.branch {
            Some(branch) if branch.overtaken.contains(&table.tree) => {}
            _ => return Ok(true),
        }
        let found = self.read(table.tree, key, State::Statement)?.map(Cow::into_owned);
        let now = self.read(table.tree, key, State::Newest)?;
        Ok(found.as_deref() == now.as_deref())
    }

    /// Whether there is a row with this key of the table's tree whose entry in `index` (or whose own key) is within `range`.
    pub fn is_within(
        &mut self,
        table: &Table,
        index: Option<&Index>,
        key: &[u8],
        range: &KeyRange,
    ) -> Step<bool> {
        let Some(row) = self.read(table.tree, key, State::Statement)? else { return Ok(false) };
        Ok(match index {
            Some(index) => {
                index_entry_of_bytes(table, index, &row, key)?.is_some_and(|entry| range.contains(&entry.key))
            }
            None => range.contains(key),
        })
    }

    /// Has the statement read the newest state instead of its own, or ends that.
    pub fn read_newest(&mut self, on: bool) {
        if let Some(branch) = &mut self.tenant.branch {
            branch.reads_newest = on;
        }
    }
}
