//! Ending transactions: commit in one turn, abort, going back within one.
//!
//! From the first change of a live page on nothing fails: what could (conflicts, deferred checks) is decided before, and
//! the pages were brought in while the statements ran. A page that is missing all the same is read blocking.

use std::sync::Arc;

use base::limits::ROW_LEN_MAX;
use base::{CommitNo, Lsn, SqlError, SqlState, TreeId};
use btree::{Cleared, LeafHeld, Put};
use rustc_hash::FxHashSet;
use storage::PageFault;

use crate::catalog::{PARTS_LEN_MAX, RecordChange, RecordKind, TEXTS_LEN_MAX, encode_record};
use crate::interrupt::Step;
use crate::locks::{Acquired, Scope, WaitPolicy};
use crate::overlay::Change;
use crate::pending::hash_of;
use crate::record_buffer;
use crate::redo_record::RecordWriter;
use crate::redo_sink::RedoSink;
use crate::sequence::SequenceState;
use crate::space::Demand;
use crate::tenant::{OpenError, Tenant};
use crate::trees::{CATALOG_TREE, TreeState};
use crate::txn::{Build, Isolation, Mark, Savepoint, Txn};

/// A transaction that is over. Not durable yet: the reply waits for `wait_for`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The position to which the log must be durable before the reply leaves: that of the transaction's own record, or
    /// of the newest commit it read. `Lsn(0)` for nothing to wait for.
    pub wait_for: Lsn,
    /// The commit's number; `None` if nothing was written.
    pub commit: Option<CommitNo>,
}

/// What the end of a large transaction, or of a part of it, calls now and then, so that others have their turns: tenants other than its own.
pub type GiveWay<'g> = &'g dyn Fn();

/// Changes or locks between two of these calls: some 50 us.
const STEPS_A_TURN: u32 = 128;

/// Bytes of a change that take as long to apply as a short one does: 64 KiB in the time between two calls.
const BYTES_A_STEP: usize = 512;

/// Changes of a commit that are remembered one by one until it is durable; of one that has more, every reply waits for it meanwhile.
const REMEMBERED_MAX: usize = 1 << 16;

/// Counts what the end of a transaction does.
pub(crate) struct Steps<'g> {
    give_way: GiveWay<'g>,
    left: u32,
}

impl<'g> Steps<'g> {
    pub(crate) fn new(give_way: GiveWay<'g>) -> Steps<'g> {
        Steps { give_way, left: STEPS_A_TURN }
    }

    #[inline]
    pub(crate) fn take(&mut self) {
        self.take_many(1);
    }

    /// A change was applied, which is the longer for its value's bytes.
    #[inline]
    pub(crate) fn take_change(&mut self, change: &Change) {
        self.take_bytes(change.len());
    }

    #[inline]
    fn take_bytes(&mut self, len: usize) {
        self.take_many(1 + (len / BYTES_A_STEP) as u32);
    }

    #[inline]
    fn take_many(&mut self, steps: u32) {
        self.left = self.left.saturating_sub(steps);
        if self.left == 0 {
            self.left = STEPS_A_TURN;
            (self.give_way)();
        }
    }
}

/// Pages of a dropped tree released within the commit; the rest goes with [`Tenant::reclaim`].
const DROP_PAGES_AT_COMMIT: usize = 64;

impl Tenant {
    /// Commits: validates, appends one redo record, applies the changes, lets go of the locks. Memory only; the changes
    /// survive power loss when the log is durable through [`Committed::wait_for`].
    ///
    /// Errors: 40001 for SERIALIZABLE, 54000 for a definition that no tree takes and for too long texts of all, 53100 and 58030 when the log takes no more; the transaction is then aborted. Panics if foreign key checks are still due.
    pub fn commit(&mut self, txn: Txn, redo: &mut dyn RedoSink) -> Result<Committed, SqlError> {
        self.commit_giving_way(txn, redo, &|| {})
    }

    /// As [`Tenant::commit`]; calls `give_way` after each few changes and locks. Nobody may look at the tenant then.
    pub fn commit_giving_way(
        &mut self,
        txn: Txn,
        redo: &mut dyn RedoSink,
        give_way: GiveWay<'_>,
    ) -> Result<Committed, SqlError> {
        self.is_ending = true;
        let outcome = self.try_commit(txn, redo, give_way);
        self.is_ending = false;
        outcome
    }

    fn try_commit(
        &mut self,
        mut txn: Txn,
        redo: &mut dyn RedoSink,
        give_way: GiveWay<'_>,
    ) -> Result<Committed, SqlError> {
        assert!(txn.checks.is_empty() && txn.carried.is_empty(), "the last statement was finished");
        assert!(!txn.has_checks_due(), "what was put off was checked");
        if !txn.has_changes() {
            let wait_for = txn.observed;
            self.end(txn, give_way);
            return Ok(Committed { wait_for, commit: None });
        }
        let commit = self.committed.next();
        let (records, lsn) = match self.log_transaction(&mut txn, commit, redo) {
            Ok(logged) => logged,
            Err(error) => {
                self.give_up(txn, give_way);
                return Err(error);
            }
        };
        self.apply_transaction(&mut txn, commit, lsn, &records, give_way);
        self.end(txn, give_way);
        Ok(Committed { wait_for: lsn, commit: Some(commit) })
    }

    /// Decides whether the transaction can commit, and appends its record; what that says of the catalog, and its position.
    fn log_transaction(
        &mut self,
        txn: &mut Txn,
        commit: CommitNo,
        redo: &mut dyn RedoSink,
    ) -> Result<(Vec<RecordChange>, Lsn), SqlError> {
        self.validate(txn)?;
        self.ready_branch(txn)?;
        let records = self.catalog_changes(txn);
        require_short_values(&records)?;
        self.require_small_definitions(txn)?;
        let lsn = self.append_record(txn, commit, &records, redo)?;
        Ok((records, lsn))
    }

    /// Whether a panic came while a transaction ended: its locks, or what it reads, are nobody's to give back.
    pub fn is_cut_short(&self) -> bool {
        self.is_ending
    }

    /// Errors: 54000 where the transaction's definitions take more than those of a database may, and than before.
    pub(crate) fn require_small_definitions(&self, txn: &Txn) -> Result<(), SqlError> {
        let Some(catalog) = &txn.catalog else { return Ok(()) };
        let (message, detail) = if catalog.has_too_many_texts(&self.catalog) {
            let detail = format!(
                "Queries of views, defaults, conditions, comments and labels of enums of a database take at most {TEXTS_LEN_MAX} bytes together."
            );
            ("too long texts in the definitions of the database", detail)
        } else if catalog.has_too_many_parts(&self.catalog) {
            let detail = format!(
                "Columns and what older rows have in them, indexes, constraints, privileges, roles and statistics of a database take at most {PARTS_LEN_MAX} bytes together, by estimate."
            );
            ("too many definitions in the database", detail)
        } else {
            return Ok(());
        };
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_detail(detail))
    }

    fn validate(&self, txn: &Txn) -> Result<(), SqlError> {
        let Some(snapshot) = txn.snapshot_commit().filter(|_| txn.isolation == Isolation::Serializable)
        else {
            return Ok(());
        };
        if txn.reads.iter().any(|(tree, range)| self.history.range_changed_since(*tree, range, snapshot)) {
            return Err(SqlError::new(
                SqlState::SERIALIZATION_FAILURE,
                "could not serialize access due to read/write dependencies among transactions",
            )
            .with_detail("Reason code: Canceled on identification as a pivot, during commit attempt.")
            .with_hint("The transaction might succeed if retried."));
        }
        Ok(())
    }

    fn catalog_changes(&self, txn: &Txn) -> Vec<RecordChange> {
        let mut records = match &txn.catalog {
            Some(catalog) => {
                let mut records = self.catalog.changes_to(catalog);
                records.push((RecordKind::Counters.key(0), Some(encode_record(&self.counters))));
                for sequence in self.catalog.sequences().filter(|s| catalog.sequence(s.oid).is_none()) {
                    records.push((RecordKind::SequenceState.key(sequence.oid.0), None));
                }
                records
            }
            None => Vec::new(),
        };
        let catalog = txn.catalog.as_ref().unwrap_or(&self.catalog);
        records.extend(self.states_of_altered(txn));
        for (oid, state) in txn.sequences.iter().filter(|(oid, _)| catalog.sequence(**oid).is_some()) {
            records.push((RecordKind::SequenceState.key(oid.0), Some(state.record())));
        }
        records
    }

    /// The values of sequences whose definition changes, as they are: what was logged of them ran ahead by the definition as it was, and may be
    /// beyond the new one's bounds.
    fn states_of_altered(&self, txn: &Txn) -> impl Iterator<Item = RecordChange> {
        let altered = txn.catalog.iter().flat_map(|catalog| catalog.sequences()).filter(move |sequence| {
            self.catalog.sequence(sequence.oid).is_some_and(|before| !Arc::ptr_eq(before, sequence))
                && txn.sequences.get(sequence.oid).is_none()
        });
        altered.filter_map(move |sequence| {
            let state = self.sequences.get(&sequence.oid)?;
            Some((RecordKind::SequenceState.key(sequence.oid.0), Some(state.record())))
        })
    }

    /// A small commit of its own, of catalog records only. Returns its position in the log.
    ///
    /// Errors: 53100 and 58030 when the log takes no more.
    pub(crate) fn commit_records(
        &mut self,
        records: Vec<RecordChange>,
        redo: &mut dyn RedoSink,
    ) -> Result<Lsn, SqlError> {
        let commit = self.committed.next();
        let mut record = record_buffer::take();
        write_records(&mut RecordWriter::new(&mut record), &records);
        let lsn = self.log(commit, &record, Demand::Grows, redo);
        record_buffer::keep(record);
        let lsn = lsn?;
        // It is no part of the transaction that a branch belongs to.
        self.at_side(false, |tenant| tenant.apply_records(&records, &mut Steps::new(&|| {})));
        self.committed = commit;
        self.pending.add(lsn, Vec::new(), Vec::new());
        Ok(lsn)
    }

    fn append_record(
        &mut self,
        txn: &mut Txn,
        commit: CommitNo,
        records: &[RecordChange],
        redo: &mut dyn RedoSink,
    ) -> Result<Lsn, SqlError> {
        self.log_rest_ahead(txn, redo)?;
        let mut record = record_buffer::take();
        let (has_poured, is_ahead) = (self.has_poured(txn), txn.ahead.is_some());
        let mut writer = RecordWriter::part(&mut record, !has_poured && !is_ahead);
        write_records(&mut writer, records);
        if !is_ahead {
            for tree in self.trees_before_builds(txn) {
                write_changes(&mut writer, txn, tree);
            }
        }
        for build in builds_to_log(txn, &txn.dropped_trees.iter().copied().collect()) {
            writer.build(build);
            if let Build::Cluster { tree, .. } = build {
                write_changes(&mut writer, txn, *tree);
            }
        }
        txn.dropped_trees.iter().for_each(|tree| writer.drop_tree(*tree));
        let lsn = if has_poured {
            self.log_branch(txn, commit, &record, redo)
        } else if is_ahead {
            self.log_end(txn, commit, &record, redo)
        } else {
            self.log(commit, &record, self.demand_of(txn), redo)
        };
        record_buffer::keep(record);
        lsn
    }

    /// Appends the record of a commit that nothing stands in the way of.
    ///
    /// Errors: 53100 at the tenant's limit or on a full disk, 58030 where nothing can be written any more.
    fn log(
        &mut self,
        commit: CommitNo,
        record: &[u8],
        demand: Demand,
        redo: &mut dyn RedoSink,
    ) -> Result<Lsn, SqlError> {
        self.require_space(record.len(), demand)?;
        redo.admit(record.len(), demand)?;
        self.space.note_logged(record.len());
        Ok(redo.append(self.id, commit, record))
    }

    /// Trees whose changes are in a record before anything is built from them, by id.
    pub(crate) fn trees_before_builds(&self, txn: &Txn) -> Vec<TreeId> {
        self.changed_trees(txn, Stage::BeforeBuilds)
    }

    /// Trees of the overlay whose changes are applied: not those that are gone by the transaction's end, unless a rewrite
    /// read them.
    fn changed_trees(&self, txn: &Txn, stage: Stage) -> Vec<TreeId> {
        // A dump that is loaded in one transaction has some of each for every table.
        let dropped: FxHashSet<TreeId> = txn.dropped_trees.iter().copied().collect();
        let trees = txn.overlay.changes().trees().into_iter().map(|(tree, _)| tree);
        match stage {
            Stage::BeforeBuilds => {
                let built: FxHashSet<TreeId> = txn.built.iter().map(Build::tree).collect();
                let origin = |build: &Build| match build {
                    Build::Cluster { from, .. } => Some(*from),
                    Build::Index { .. } => None,
                };
                let rewritten: FxHashSet<TreeId> = builds_to_log(txn, &dropped).filter_map(origin).collect();
                trees
                    .filter(|tree| {
                        !built.contains(tree) && (rewritten.contains(tree) || !dropped.contains(tree))
                    })
                    .collect()
            }
            Stage::Live => trees.filter(|tree| !dropped.contains(tree)).collect(),
        }
    }

    fn apply_transaction(
        &mut self,
        txn: &mut Txn,
        commit: CommitNo,
        lsn: Lsn,
        records: &[RecordChange],
        give_way: GiveWay<'_>,
    ) {
        let mut steps = Steps::new(give_way);
        let wants_history = self.history.is_wanted();
        if txn.branched {
            let changed = self.adopt_branch(txn);
            self.pending.add_everything(lsn);
            if wants_history {
                changed.into_iter().for_each(|tree| self.history.record_tree(tree, commit));
            }
        }
        let trees = self.changed_trees(txn, Stage::Live);
        let is_remembered = txn.overlay.len() <= REMEMBERED_MAX;
        let mut hashes = Vec::with_capacity(if is_remembered { txn.overlay.len() } else { 0 });
        for tree in &trees {
            let changes = txn.overlay.changes().of(*tree).expect("a changed tree has changes");
            if !self.watches.is_empty() {
                self.note_for_builds(*tree, changes, &mut steps);
            }
            let mut state = self.trees.get(*tree);
            // Of one alone the leaf's bound would be asked for in vain.
            let mut leaf = (changes.len() > 1).then(LeafHeld::default);
            for (key, change) in changes {
                match (&mut leaf, change) {
                    (Some(leaf), Change::Put(value)) => self.put_held(&mut state, leaf, key, value),
                    (Some(leaf), Change::Delete) => {
                        leaf.let_go();
                        self.remove_in(&mut state, key);
                    }
                    (None, change) => self.apply_change(&mut state, key, change),
                }
                self.note_for_branch(*tree, key);
                if is_remembered {
                    hashes.push(hash_of(*tree, key));
                }
                if wants_history {
                    self.history.record(*tree, key, commit);
                }
                steps.take_change(change);
            }
            state.dirty = true;
            self.trees.set(*tree, state);
        }
        self.apply_records(records, &mut steps);
        for (oid, state) in txn.sequences.iter() {
            if txn.catalog.as_ref().unwrap_or(&self.catalog).sequence(*oid).is_some() {
                self.sequences.insert(*oid, SequenceState { logged_ahead: 0, ..*state });
                self.sequence_log.insert(*oid, lsn);
            }
        }
        if let Some(catalog) = txn.catalog.take() {
            let gone = self.catalog.sequences().filter(|s| catalog.sequence(s.oid).is_none());
            for oid in gone.map(|s| s.oid).collect::<Vec<_>>() {
                self.sequences.remove(&oid);
                self.sequence_log.remove(&oid);
            }
            // Values that the log has were counted by the definition as it was.
            for sequence in catalog.sequences() {
                let same = self.catalog.sequence(sequence.oid).is_some_and(|old| Arc::ptr_eq(old, sequence));
                if let Some(state) = self.sequences.get_mut(&sequence.oid).filter(|_| !same) {
                    state.logged_ahead = 0;
                }
            }
            self.catalog = catalog;
            // Whoever reads by it, or a tree that it built, has seen something of this commit.
            self.pending.add_definitions(lsn);
        }
        for tree in std::mem::take(&mut txn.dropped_trees) {
            if wants_history {
                self.history.record_tree(tree, commit);
            }
            self.drop_tree(tree);
            steps.take();
        }
        txn.built.clear();
        self.committed = commit;
        match is_remembered {
            true => self.pending.add(lsn, hashes, trees),
            false => self.pending.add_everything(lsn),
        }
    }

    fn apply_records(&mut self, records: &[RecordChange], steps: &mut Steps<'_>) {
        for (key, value) in records {
            let key = key.to_bytes();
            self.note_for_branch(CATALOG_TREE, &key);
            match value {
                Some(value) => self.put_now(CATALOG_TREE, &key, value),
                None => self.remove_now(CATALOG_TREE, &key),
            }
            steps.take_bytes(value.as_ref().map_or(0, Vec::len));
        }
    }

    #[inline]
    pub(crate) fn apply_change(&mut self, state: &mut TreeState, key: &[u8], change: &Change) {
        match change {
            Change::Put(value) => self.put_in(state, key, value),
            Change::Delete => self.remove_in(state, key),
        }
    }

    /// Puts an entry, or says which page is missing.
    #[inline]
    pub(crate) fn try_put(
        &mut self,
        state: &mut TreeState,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PageFault> {
        let put = btree::put(&mut self.pages, &mut state.root, key, value)?;
        state.entries += u64::from(put == Put::Inserted);
        Ok(())
    }

    /// Removes an entry if it is there, or says which page is missing.
    #[inline]
    pub(crate) fn try_remove(&mut self, state: &mut TreeState, key: &[u8]) -> Result<(), PageFault> {
        state.entries -= u64::from(btree::remove(&mut self.pages, state.root, key)?);
        Ok(())
    }

    fn put_in(&mut self, state: &mut TreeState, key: &[u8], value: &[u8]) {
        if let Err(fault) = self.try_put(state, key, value) {
            self.change_reading(fault, &mut |tenant| tenant.try_put(state, key, value));
        }
    }

    /// As [`Tenant::try_put`] of a key behind those that went to the leaf before.
    #[inline]
    fn try_put_held(
        &mut self,
        state: &mut TreeState,
        leaf: &mut LeafHeld,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PageFault> {
        let put = leaf.put(&mut self.pages, &mut state.root, key, value)?;
        state.entries += u64::from(put == Put::Inserted);
        Ok(())
    }

    fn put_held(&mut self, state: &mut TreeState, leaf: &mut LeafHeld, key: &[u8], value: &[u8]) {
        if let Err(fault) = self.try_put_held(state, leaf, key, value) {
            self.change_reading(fault, &mut |tenant| tenant.try_put_held(state, leaf, key, value));
        }
    }

    fn remove_in(&mut self, state: &mut TreeState, key: &[u8]) {
        if let Err(fault) = self.try_remove(state, key) {
            self.change_reading(fault, &mut |tenant| tenant.try_remove(state, key));
        }
    }

    /// As [`Tenant::apply_change`] for who can stop.
    ///
    /// Errors: XX001 for a damaged page, 58030 for one that cannot be read; what the change was to is of no use then.
    #[inline]
    pub(crate) fn apply_or_fail(
        &mut self,
        state: &mut TreeState,
        key: &[u8],
        change: &Change,
    ) -> Result<(), SqlError> {
        let Err(fault) = self.try_change(state, key, change) else { return Ok(()) };
        let read = self.try_reading(fault, &mut |tenant| tenant.try_change(state, key, change));
        read.map_err(|error| SqlError::new(error.state(), error.to_string()))
    }

    #[inline]
    fn try_change(&mut self, state: &mut TreeState, key: &[u8], change: &Change) -> Result<(), PageFault> {
        match change {
            Change::Put(value) => self.try_put(state, key, value),
            Change::Delete => self.try_remove(state, key),
        }
    }

    /// Makes a change that missed a page while a commit is being applied, which cannot stop, reading all that it misses.
    #[cold]
    fn change_reading(
        &mut self,
        fault: PageFault,
        change: &mut dyn FnMut(&mut Tenant) -> Result<(), PageFault>,
    ) {
        if let Err(error) = self.try_reading(fault, change) {
            panic!("tenant {}: {error}", self.id);
        }
    }

    /// Makes a change that missed a page, reading all that it misses. It makes room for the first page that it misses and not for the others: pages just read
    /// would be the first to go, and the change needs them all.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    #[cold]
    pub(crate) fn try_reading(
        &mut self,
        mut fault: PageFault,
        change: &mut dyn FnMut(&mut Tenant) -> Result<(), PageFault>,
    ) -> Result<(), OpenError> {
        // The pages of a long value are gone through once, and not from the first one again at each of them.
        let reads_itself = !self.in_turn;
        let mut makes_room = true;
        loop {
            self.read_now(fault, std::mem::take(&mut makes_room))?;
            if reads_itself {
                self.set_turn_reads(u32::MAX);
            }
            let outcome = change(self);
            if reads_itself {
                self.set_turn_reads(0);
            }
            match outcome {
                Ok(()) => return Ok(()),
                Err(next) => fault = next,
            }
        }
    }

    /// Puts an entry into a live tree.
    pub(crate) fn put_now(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        let mut state = self.trees.get(tree);
        self.put_in(&mut state, key, value);
        self.trees.set(tree, TreeState { dirty: true, ..state });
    }

    pub(crate) fn remove_now(&mut self, tree: TreeId, key: &[u8]) {
        let mut state = self.trees.get(tree);
        self.remove_in(&mut state, key);
        self.trees.set(tree, TreeState { dirty: true, ..state });
    }

    /// Brings a missing page in within the turn. The caller has no page borrowed.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    #[cold]
    pub(crate) fn read_now(&mut self, fault: PageFault, makes_room: bool) -> Result<(), OpenError> {
        let page = match fault {
            PageFault::Miss(page) => page,
            // Read again, it says why as a failure of the file does.
            PageFault::Unreadable(unreadable) => unreadable.0,
            PageFault::Corrupt(_) => return Err(self.open_error(fault)),
        };
        if makes_room {
            self.shed();
        }
        Ok(self.pages.read_blocking(page)?)
    }

    /// Gives up a tree: its pages are released, now or bit by bit.
    pub(crate) fn drop_tree(&mut self, tree: TreeId) {
        if self.give_up_tree(tree) {
            // What is not in memory is left to a caller that can wait.
            let _ = self.reclaim(DROP_PAGES_AT_COMMIT);
        }
    }

    /// Gives up a tree: its pages are released bit by bit. Whether it had any. Takes no longer for many pages than for few.
    pub(crate) fn give_up_tree(&mut self, tree: TreeId) -> bool {
        self.row_ids.remove(&tree);
        self.gone_trees.push(tree);
        let state = self.trees.remove(tree).filter(|state| state.root.0.is_some());
        self.garbage.extend(state.map(|state| (tree, state)));
        self.give_up_in_branch(tree);
        state.is_some()
    }

    /// What is in the tree `from` is in the tree `to` from now on, which was empty.
    pub(crate) fn rename_tree(&mut self, from: TreeId, to: TreeId) {
        if from == to {
            return;
        }
        let state = self.trees.remove(from).unwrap_or_default();
        assert!(self.trees.root(to).0.is_none(), "the tree is new");
        self.gone_trees.push(from);
        self.trees.set(to, TreeState { dirty: true, ..state });
    }

    /// Releases up to about `pages_max` pages of dropped trees; true if there is more to do. Call it in turns of its own
    /// until it says false. After `Err(Miss)` have the page read ([`Tenant::page_to_reclaim`]) and call again; a tree with a
    /// page that cannot be read is left as it is.
    pub fn reclaim(&mut self, pages_max: usize) -> Step<bool> {
        if self.tend_branch() || self.pages.reclaim_discarded() {
            return Ok(true);
        }
        let Some((tree, mut state)) = self.garbage.pop() else { return Ok(false) };
        match btree::clear(&mut self.pages, &mut state.root, pages_max) {
            Ok(Cleared::All) => {
                self.gone_trees.push(tree);
                Ok(!self.garbage.is_empty())
            }
            Ok(Cleared::Part) => {
                self.garbage.push((tree, state));
                Ok(true)
            }
            Err(fault @ PageFault::Miss(_)) => {
                self.garbage.push((tree, state));
                Err(fault.into())
            }
            Err(fault) => {
                self.spoiled.push((tree, state));
                Err(fault.into())
            }
        }
    }

    /// About how many pages of dropped trees were released since a checkpoint began: the newest root has them still.
    pub fn given_back(&self) -> u64 {
        self.pages.given_back()
    }

    /// The dropped tree whose pages [`Tenant::reclaim`] releases next.
    pub fn next_to_reclaim(&self) -> Option<TreeId> {
        self.garbage.last().map(|(tree, _)| *tree)
    }

    /// A page that this dropped tree needs cannot be read: its pages are kept. Others may have been dropped since it was asked for.
    pub fn reclaim_failed(&mut self, tree: TreeId) {
        if let Some(at) = self.garbage.iter().rposition(|(other, _)| *other == tree) {
            self.spoiled.push(self.garbage.remove(at));
        }
    }

    // ---- going back ----

    /// Takes a statement back that is to be run again after a wait. Locks gained stay, and so does what the next run of it goes on with
    /// ([`crate::kept`], [`crate::session_lock`]).
    pub fn rewind_statement(&mut self, txn: &mut Txn, mark: &Mark) {
        self.rewind_statement_giving_way(txn, mark, &|| {});
    }

    /// As [`Tenant::rewind_statement`]; calls `give_way` as [`Tenant::commit_giving_way`] does.
    pub fn rewind_statement_giving_way(&mut self, txn: &mut Txn, mark: &Mark, give_way: GiveWay<'_>) {
        txn.sequences.rewind(&mark.sequences);
        txn.session_locks.rewind();
        txn.sequence_calls.rewind(mark.sequence_calls);
        self.undo_to(txn, mark, &mut Steps::new(give_way));
        // What it had changed of the catalog it changes anew, if it still may.
        if txn.waiting.is_some() && txn.catalog.is_none() && !txn.branched && !txn.gave_back {
            self.locks.let_give_back(txn.session);
        }
    }

    /// Takes a statement back that failed, so that the transaction can go on without it. Locks gained stay, and what was given out of sequences is not given
    /// out again. Nothing is kept for another run.
    pub fn rollback_statement(&mut self, txn: &mut Txn, mark: &Mark) {
        self.rollback_statement_giving_way(txn, mark, &|| {});
    }

    /// As [`Tenant::rollback_statement`]; calls `give_way` as [`Tenant::commit_giving_way`] does.
    pub fn rollback_statement_giving_way(&mut self, txn: &mut Txn, mark: &Mark, give_way: GiveWay<'_>) {
        txn.sequences.roll_back_to(&mark.sequences);
        self.undo_to(txn, mark, &mut Steps::new(give_way));
        self.give_up_kept(txn);
    }

    fn undo_to(&mut self, txn: &mut Txn, mark: &Mark, steps: &mut Steps<'_>) {
        self.flush_deferred(txn);
        txn.before = None;
        txn.overlay.undo_to(mark.overlay, || steps.take());
        txn.checks.clear();
        txn.cascaded.clear();
        txn.due.truncate(mark.due);
        txn.catalog.clone_from(&mark.catalog);
        txn.wrote_catalog = txn.catalog.is_some();
        // What they filled is kept for the statement's next run.
        txn.built.truncate(mark.built);
        for tree in txn.pieces.keep_from(mark.pieces) {
            self.at_side_of(txn, |tenant| tenant.give_up_tree(tree));
        }
        txn.dropped_trees.truncate(mark.dropped_trees);
        self.recount_changes(txn);
    }

    /// `ROLLBACK TO SAVEPOINT`: takes back everything since, locks included.
    pub fn rollback_to(&mut self, txn: &mut Txn, savepoint: &Savepoint) {
        self.rollback_to_giving_way(txn, savepoint, &|| {});
    }

    /// As [`Tenant::rollback_to`]; calls `give_way` as [`Tenant::commit_giving_way`] does.
    pub fn rollback_to_giving_way(&mut self, txn: &mut Txn, savepoint: &Savepoint, give_way: GiveWay<'_>) {
        self.release_pages(txn);
        self.give_up_wait(txn);
        if txn.branched && !savepoint.behind_branch {
            self.leave_branch(txn, savepoint.mark.built, &mut Steps::new(give_way));
        }
        self.rollback_statement_giving_way(txn, &savepoint.mark, give_way);
        txn.due.make_again();
        txn.due.modes.clone_from(&savepoint.modes);
        txn.tables.clear();
        let mut steps = Steps::new(give_way);
        for (tag, modes) in txn.held.split_off(savepoint.held) {
            self.locks.release(txn.session, &tag, modes);
            steps.take();
        }
        self.recount_changes(txn);
    }

    /// Takes everything back and lets go of the locks.
    pub fn abort(&mut self, txn: Txn) {
        self.abort_giving_way(txn, &|| {});
    }

    /// As [`Tenant::abort`]; calls `give_way` as [`Tenant::commit_giving_way`] does.
    pub fn abort_giving_way(&mut self, txn: Txn, give_way: GiveWay<'_>) {
        self.is_ending = true;
        self.give_up(txn, give_way);
        self.is_ending = false;
    }

    fn give_up(&mut self, mut txn: Txn, give_way: GiveWay<'_>) {
        self.drop_branch(&mut txn);
        for build in std::mem::take(&mut txn.built) {
            self.drop_tree(build.tree());
        }
        self.end(txn, give_way);
    }

    /// The session does not wait for a lock any more: a timeout, a cancel. Call before anything else with the transaction.
    pub fn cancel_wait(&mut self, txn: &mut Txn) {
        self.give_up_wait(txn);
    }

    /// Lets go of the session's own advisory locks; at the session's end.
    pub fn end_session(&mut self, session: base::SessionId) {
        self.locks.release_session(session);
    }

    fn end(&mut self, mut txn: Txn, give_way: GiveWay<'_>) {
        let mut steps = Steps::new(give_way);
        self.give_up_kept(&mut txn);
        self.give_up_ahead(&mut txn);
        self.release_pages(&txn);
        self.give_up_wait(&mut txn);
        for (tag, modes) in txn.held.split_off(0) {
            self.locks.release(txn.session, &tag, modes);
            steps.take();
        }
        if txn.frozen.is_some() {
            let frozen = self.snapshots.remove(&txn.id);
            frozen.into_iter().for_each(|frozen| self.let_go(frozen));
            self.history.end();
        }
        if !self.exported.is_empty() {
            self.end_exports(txn.id);
        }
        self.open_transactions -= 1;
        txn.overlay.free(|| steps.take());
        if let Some(mut before) = txn.before_branch.take() {
            before.free(|| steps.take());
        }
        self.forget_changes(&mut txn);
    }

    /// Others have their turns before `txn` goes on: what it locked is locked for them. To be called in the turn of the
    /// statement, unless that was taken back or the transaction ended.
    pub fn keep_locks(&mut self, txn: &mut Txn) {
        self.flush_deferred(txn);
    }

    /// Puts the locks into the table that a statement took for granted because nothing was locked. It is still the same
    /// turn, so they are free.
    pub(crate) fn flush_deferred(&mut self, txn: &mut Txn) {
        for (tag, mode) in txn.deferred.split_off(0) {
            match self.locks.acquire(txn.session, &tag, mode, Scope::Transaction, WaitPolicy::NoWait) {
                Acquired::Gained => txn.held.push((tag, mode.bit())),
                Acquired::AlreadyHeld => {}
                other => panic!("a lock that was free in this turn is not: {other:?}"),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// In a record: before anything is built from the changes.
    BeforeBuilds,
    /// In the live pages, where what was built is there already.
    Live,
}

/// Builds of trees that are gone by the end need no replay: nothing else is built from them, for what a table is rewritten from is a tree that was there before, or
/// is in the record. Nor could they be replayed, by the definition that is there at the end.
fn builds_to_log<'t>(txn: &'t Txn, dropped: &'t FxHashSet<TreeId>) -> impl Iterator<Item = &'t Build> {
    txn.built.iter().filter(|build| !dropped.contains(&build.tree()))
}

/// Rows were measured as they were written, definitions have grown bit by bit.
fn require_short_values(records: &[RecordChange]) -> Result<(), SqlError> {
    let longest = records.iter().filter_map(|(_, value)| value.as_ref()).map(Vec::len).max();
    match longest.filter(|len| *len as u64 > ROW_LEN_MAX.0) {
        Some(len) => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("definition is too big: size {len}, maximum size {}", ROW_LEN_MAX.0),
        )),
        None => Ok(()),
    }
}

fn write_records(writer: &mut RecordWriter<'_>, records: &[RecordChange]) {
    if !records.is_empty() {
        writer.records(CATALOG_TREE, records);
    }
}

fn write_changes(writer: &mut RecordWriter<'_>, txn: &Txn, tree: TreeId) {
    if let Some(changes) = txn.overlay.changes().of(tree) {
        writer.changes(tree, changes.iter().map(|(key, change)| (&key[..], change)));
    }
}
