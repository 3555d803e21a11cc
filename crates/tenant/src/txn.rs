//! One transaction: its isolation, its changes nobody else sees, what it locked and what it read.

use std::sync::Arc;

use base::{CommitNo, Lsn, Oid, SessionId, SqlError, SqlState, TreeId, TxnId};

use crate::catalog::Catalog;
use crate::change_memory::SavedCatalogs;
use crate::due::{Due, Modes};
use crate::foreign_key::PendingCheck;
use crate::kept::Pieces;
use crate::lock_list::{LockList, TableModes};
use crate::locks::{LockMode, LockTag, Scope};
use crate::log_ahead::Ahead;
use crate::overlay::{Changes, Overlay, OverlayMark};
use crate::reads::Reads;
use crate::row::keys::{Key, KeyRange};
use crate::sequence::{LogWait, OwnSequences, SequenceCalls, SequencesMark};
use crate::session_lock::SessionLocks;
use crate::view::State;

/// PostgreSQL's isolation levels; READ UNCOMMITTED is READ COMMITTED.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Each statement reads what was committed when it (last) began.
    #[default]
    ReadCommitted,
    /// All statements read one snapshot; changing a row changed since is 40001.
    RepeatableRead,
    /// As REPEATABLE READ, and committing is 40001 if what was read was changed since.
    Serializable,
}

/// A transaction under way. End it with [`crate::Tenant::commit`] or [`crate::Tenant::abort`]; dropping it leaves its locks.
#[derive(Debug)]
pub struct Txn {
    pub(crate) id: TxnId,
    pub(crate) session: SessionId,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    /// One statement that commits by itself: locks need to be in the table only once it has waited.
    pub(crate) implicit: bool,
    pub(crate) overlay: Overlay,
    /// What of its record is in the log ahead of its commit.
    pub(crate) ahead: Option<Ahead>,
    /// Its changes when some of them were first poured into its branch, for its savepoints from before that; without any, nothing. `None` before.
    pub(crate) before_branch: Option<Overlay>,
    /// It has savepoints, by the word of the layer above.
    pub(crate) has_savepoints: bool,
    /// Its changes before those that the statement under way does not read; see [`crate::View::leave_out_changes`].
    pub(crate) before: Option<Before>,
    /// The catalog with the transaction's own DDL.
    pub(crate) catalog: Option<Arc<Catalog>>,
    /// What REPEATABLE READ and SERIALIZABLE read.
    pub(crate) frozen: Option<SnapshotOf>,
    /// What its savepoints keep of that.
    pub(crate) saved: SavedCatalogs,
    /// What SERIALIZABLE has read.
    pub(crate) reads: Reads,
    /// Trees filled by this transaction's DDL, in order; nobody else knows them yet.
    pub(crate) built: Vec<Build>,
    /// What its statements did with whole tables, and what one that is to be run again goes on with.
    pub(crate) pieces: Pieces,
    /// Its changes when the statement under way began.
    pub(crate) begun_at: OverlayMark,
    /// Trees that its DDL gave up, to be released at commit.
    pub(crate) dropped_trees: Vec<TreeId>,
    /// Sequences it made or restarted: their state until commit.
    pub(crate) sequences: OwnSequences,
    /// Foreign key checks due at the statement's end.
    pub(crate) checks: Vec<PendingCheck>,
    /// Those that a part of the statement has left to the next one, the next ones first.
    pub(crate) carried: Vec<PendingCheck>,
    /// Checks due at the transaction's end.
    pub(crate) due: Due,
    /// The table whose rows may refer to rows of it that come behind them, or go before them ([`Txn::look_later`]).
    pub(crate) own_later: Option<Oid>,
    /// Rows that the statement's foreign keys changed, of tables with CHECK constraints: the table and the row's key.
    pub(crate) cascaded: Vec<(Oid, Key)>,
    /// Locks it has in the table of locks, with a bit for each mode.
    pub(crate) held: LockList<u8>,
    /// Modes it holds on tables: what `held` says too.
    pub(crate) tables: TableModes,
    /// The lock it queued for and has not yet looked after.
    pub(crate) waiting: Option<(LockTag, LockMode, Scope)>,
    pub(crate) session_locks: SessionLocks,
    pub(crate) sequence_calls: SequenceCalls,
    /// Locks known to be free when they were wanted, not yet in the table.
    pub(crate) deferred: LockList<LockMode>,
    /// The newest commit it may have read that was not durable.
    pub(crate) observed: Lsn,
    /// The tenant's evictions when it began: as long as there were no more, what it touched is in memory.
    pub(crate) evictions: u64,
    /// Times in a row that it was told to wait for memory.
    pub(crate) memory_waits: u32,
    pub(crate) wrote_catalog: bool,
    /// It was made to give back the right to do so: not again, or two could do that by turns for ever.
    pub(crate) gave_back: bool,
    /// Its changes go to the tenant's branch.
    pub(crate) branched: bool,
    /// There is a savepoint, or was one: row locks that it takes from now on may have to be given back before its end.
    pub(crate) lists_locks: bool,
    /// Bytes of its changes that its tenant knows of.
    pub(crate) counted: u64,
}

/// What a statement reads of its transaction's own changes, where that is not all of them.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) changes: Changes,
    /// Bytes that they take if all of them are changed again.
    pub(crate) footprint: u64,
}

/// The snapshot that a transaction reads; its pages are the tenant's to keep ([`crate::Tenant::enforce_storage_max`]).
#[derive(Debug)]
pub(crate) struct SnapshotOf {
    pub(crate) commit: CommitNo,
    pub(crate) catalog: Arc<Catalog>,
}

/// A tree filled outside the overlay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Build {
    /// An index's entries from its table's rows.
    Index { table: Oid, index: Oid, tree: TreeId },
    /// A table's rows from its former tree, under new keys.
    Cluster { table: Oid, from: TreeId, tree: TreeId },
}

impl Build {
    pub(crate) fn tree(&self) -> TreeId {
        match self {
            Build::Index { tree, .. } | Build::Cluster { tree, .. } => *tree,
        }
    }
}

/// A place in a transaction to go back to: a statement's start.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) overlay: OverlayMark,
    pub(crate) catalog: Option<Arc<Catalog>>,
    pub(crate) built: usize,
    pub(crate) pieces: usize,
    pub(crate) dropped_trees: usize,
    pub(crate) sequences: SequencesMark,
    pub(crate) sequence_calls: usize,
    /// How many checks were due at the transaction's end.
    pub(crate) due: usize,
}

/// A SAVEPOINT: going back to it also lets go of the locks taken since.
#[derive(Clone, Debug)]
pub struct Savepoint {
    pub(crate) mark: Mark,
    pub(crate) held: usize,
    /// What SET CONSTRAINTS had said.
    pub(crate) modes: Option<Arc<Modes>>,
    /// It was set while the transaction had a branch.
    pub(crate) behind_branch: bool,
}

impl Savepoint {
    /// Whether it was set while the transaction had a branch. What is poured from then on cannot be taken back to it: that is whole, or the branch is.
    pub fn is_behind_branch(&self) -> bool {
        self.behind_branch
    }
}

impl Txn {
    pub fn id(&self) -> TxnId {
        self.id
    }
    pub fn session(&self) -> SessionId {
        self.session
    }
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// `SET TRANSACTION READ ONLY` and back; the layer above knows when that is allowed.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// `SET TRANSACTION ISOLATION LEVEL`. Errors: 25001 once a snapshot was taken or something was changed.
    pub fn set_isolation(&mut self, isolation: Isolation) -> Result<(), SqlError> {
        if isolation != self.isolation && (self.frozen.is_some() || self.has_changes()) {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION ISOLATION LEVEL must be called before any query",
            ));
        }
        self.isolation = isolation;
        Ok(())
    }

    /// The catalog the transaction sees where that is not the newest: with its own DDL, or its snapshot's.
    pub fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog.as_ref().or(self.frozen.as_ref().map(|frozen| &frozen.catalog))
    }

    /// From now on the transaction outlives its statement: a statement turned out to be BEGIN's first. What it locked is kept before
    /// ([`crate::Tenant::keep_locks`]).
    pub fn make_explicit(&mut self) {
        assert!(self.deferred.is_empty(), "locks that nobody sees would not outlive the turn");
        self.implicit = false;
    }

    /// Whether committing would change anything.
    pub fn has_changes(&self) -> bool {
        !self.overlay.is_empty() || self.wrote_catalog || !self.sequences.is_empty() || self.branched
    }

    /// Whether it reads a snapshot that it has yet to take: none of its statements has read anything.
    pub fn awaits_snapshot(&self) -> bool {
        self.isolation != Isolation::ReadCommitted && self.frozen.is_none()
    }

    /// Whether checks of the statement under way wait for its end ([`crate::View::finish_statement`]).
    pub fn owes_checks(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Leaves to the next part of the statement what [`crate::View::finish_part`] has left of this one, which is not taken back any more.
    pub fn carry_checks(&mut self) {
        self.carried = std::mem::take(&mut self.checks);
    }

    /// Whether a part of the statement has left something to the next one.
    pub fn carries_checks(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Whether it changed the catalog.
    pub fn has_ddl(&self) -> bool {
        self.wrote_catalog
    }

    /// Whether it has locked anything until its end.
    pub fn has_locks(&self) -> bool {
        !self.held.is_empty() || !self.deferred.is_empty()
    }

    /// Bytes of keys and values changed so far.
    pub fn changed_bytes(&self) -> usize {
        self.overlay.bytes()
    }

    /// From now on rows of this table that refer to others of it that are not there are not refused before [`crate::View::check_own`]: what they
    /// refer to may be part of the same statement. Nor are those that are gone while others of it refer to them, for these may be about to go too, where the foreign key has
    /// NO ACTION. `None` for no table.
    pub fn look_later(&mut self, table: Option<Oid>) {
        self.own_later = table;
    }

    /// The newest commit that the transaction may have read and that was not durable then: a reply that shows anything it
    /// read leaves when the log is durable through here. `Lsn(0)` for nothing to wait for.
    pub fn observed(&self) -> Lsn {
        self.observed
    }

    /// Where the statement that begins now can be taken back to with [`crate::Tenant::rewind_statement`] and
    /// [`crate::Tenant::rollback_statement`].
    pub fn mark(&mut self) -> Mark {
        self.begun_at = self.overlay.mark();
        Mark {
            overlay: self.begun_at,
            catalog: self.catalog.clone(),
            built: self.built.len(),
            pieces: self.pieces.done(),
            dropped_trees: self.dropped_trees.len(),
            sequences: self.sequences.mark(),
            sequence_calls: self.sequence_calls.mark(),
            due: self.due.len(),
        }
    }

    /// A savepoint here; it stays valid until the transaction goes back to an earlier one.
    pub fn savepoint(&mut self) -> Savepoint {
        if let Some(catalog) = &self.catalog {
            self.saved.note(catalog);
        }
        let mut mark = self.mark();
        // Which values were given out stays so.
        mark.sequences.forget_values();
        self.lists_locks = true;
        Savepoint { mark, held: self.held.len(), modes: self.due.modes.clone(), behind_branch: self.branched }
    }

    /// Whether it has savepoints when it pours the next time: then going back to one from before its branch gives that up.
    pub fn keep_for_savepoints(&mut self, has_savepoints: bool) {
        self.has_savepoints = has_savepoints;
    }

    /// Whether it has filled the tree of an index or of a table in its own way, from rows that were there.
    pub fn has_filled_trees(&self) -> bool {
        !self.built.is_empty()
    }

    /// What the statement that was stopped with [`crate::Interrupt::Asked`] is to wait for before it is run again, if it was stopped for that. Once.
    pub fn take_log_wait(&mut self) -> Option<LogWait> {
        self.sequence_calls.take_wait()
    }

    /// Its own changes in the state that is read.
    #[inline]
    pub(crate) fn changes(&self, state: State) -> &Changes {
        match &self.before {
            Some(before) if state == State::Statement => &before.changes,
            _ => self.overlay.changes(),
        }
    }

    /// The commit whose state it reads, where it reads a snapshot.
    pub(crate) fn snapshot_commit(&self) -> Option<CommitNo> {
        self.frozen.as_ref().map(|frozen| frozen.commit)
    }

    pub(crate) fn observe(&mut self, lsn: Lsn) {
        self.observed = self.observed.max(lsn);
    }

    /// SERIALIZABLE remembers what it read.
    pub(crate) fn note_read(&mut self, tree: TreeId, range: impl FnOnce() -> KeyRange) {
        if self.isolation == Isolation::Serializable {
            self.reads.note(tree, range());
        }
    }
}
