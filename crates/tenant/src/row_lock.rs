//! A transaction's side of the locks that it holds to its end: rows, tables, advisory locks, and the one for DDL.

use std::sync::Arc;

use base::{Oid, SessionId, SqlError, SqlState, TreeId};

use crate::catalog::Table;
use crate::history::Written;
use crate::interrupt::{Interrupt, Step};
use crate::locks::{
    Acquired, AdvisoryKey, LockMode, LockTag, RowLock, Scope, TableLock, WaitPolicy, not_available,
};
use crate::row::keys::Key;
use crate::session_lock::advisory_mode;
use crate::tenant::Tenant;
use crate::txn::Txn;
use crate::view::{State, View};

/// Locks that a single statement takes for granted: to put them into the table when others are to have their turns takes half a millisecond. One that
/// takes more has those behind them there at once.
const DEFERRED_MAX: usize = 1 << 12;

/// What came of locking a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowLocked {
    Locked,
    /// Another session holds it, and the policy was to leave such rows out.
    Skipped,
    /// There is no such row any more.
    Gone,
}

impl View<'_> {
    /// Locks a row until the transaction's end. The row is as it was read in this turn: nothing comes between.
    ///
    /// Errors: 55P03 under NOWAIT, 40P01, 40001 where a snapshot transaction's row has been changed since, and 53200
    /// ([`crate::change_memory`]).
    pub fn lock_row(
        &mut self,
        table: &Table,
        key: &[u8],
        mode: RowLock,
        policy: WaitPolicy,
    ) -> Step<RowLocked> {
        let tag = LockTag::Row(table.tree, Key::from_slice(key));
        if !self.tenant.lock(self.txn, tag, LockMode::Row(mode), policy)? {
            return match policy {
                WaitPolicy::SkipLocked => Ok(RowLocked::Skipped),
                _ => Err(SqlError::new(
                    SqlState::LOCK_NOT_AVAILABLE,
                    format!("could not obtain lock on row in relation \"{}\"", table.name),
                )
                .into()),
            };
        }
        self.count_changes()?;
        self.require_unchanged(table.tree, key)?;
        match self.read(table.tree, key, State::Newest)? {
            Some(_) => Ok(RowLocked::Locked),
            None => Ok(RowLocked::Gone),
        }
    }

    /// Errors: 40001 where the key was written after the transaction's snapshot.
    pub(crate) fn require_unchanged(&self, tree: TreeId, key: &[u8]) -> Step<()> {
        if self.is_written_since(tree, key)? { Err(serialization_failure().into()) } else { Ok(()) }
    }

    /// Whether another transaction has written the key since this one's snapshot.
    fn is_written_since(&self, tree: TreeId, key: &[u8]) -> Step<bool> {
        let Some(snapshot) = self.txn.snapshot_commit() else { return Ok(false) };
        let written = self.tenant.history.written_since(tree, key, snapshot);
        if written != Written::No
            && let Some(poured) = self.tenant.poured_by_now(self.txn, tree)
            && poured.has(key)?
        {
            // It looked then, and its locks have kept the key from others since.
            return Ok(false);
        }
        match written {
            Written::No => Ok(false),
            Written::Yes => Ok(true),
            Written::Perhaps => {
                let Some(frozen) = self.tenant.snapshot_of(self.txn)? else { return Ok(true) };
                let (then, now) = (self.tenant.pages.frozen(&frozen.pages), &self.tenant.pages);
                let before = btree::get(then, frozen.trees.root(tree), key)?;
                let after = btree::get(now, self.tenant.trees.root(tree), key)?;
                Ok(match (before, after) {
                    (Some(before), Some(after)) => {
                        before.len() != after.len() || before.read(then)? != after.read(now)?
                    }
                    (before, after) => before.is_some() != after.is_some(),
                })
            }
        }
    }

    /// A snapshot transaction cannot have a row of its own under a key that its snapshot still shows with a row deleted since:
    /// the two would be one. Errors: 40001 there.
    pub(crate) fn require_unseen(&self, tree: TreeId, key: &[u8]) -> Step<()> {
        if self.txn.frozen.is_none() {
            return Ok(());
        }
        let Some(frozen) = self.tenant.snapshot_of(self.txn)? else { return Ok(()) };
        if self.is_written_since(tree, key)?
            && btree::contains(self.tenant.pages.frozen(&frozen.pages), frozen.trees.root(tree), key)?
        {
            return Err(serialization_failure().into());
        }
        Ok(())
    }

    /// Locks a table until the transaction's end. Every statement does before it uses one: `AccessShare` to read,
    /// `RowShare` for `FOR UPDATE` and its kin, `RowExclusive` to write.
    ///
    /// Errors: 55P03 under NOWAIT, 40P01.
    pub fn lock_table(&mut self, table: Oid, mode: TableLock, policy: WaitPolicy) -> Step<()> {
        self.tenant.lock_table(self.txn, table, mode, policy)
    }

    /// `pg_advisory_xact_lock` and its kin: until the transaction's end. False if it is held and the policy is not to
    /// wait.
    ///
    /// Errors: 40P01, 53200 ([`crate::change_memory`]).
    pub fn lock_advisory(&mut self, key: AdvisoryKey, shared: bool, policy: WaitPolicy) -> Step<bool> {
        let locked = self.tenant.lock(self.txn, LockTag::Advisory(key), advisory_mode(shared), policy)?;
        self.count_changes()?;
        Ok(locked)
    }

    /// `pg_blocking_pids`: the sessions that `session` waits for, in order.
    pub fn blocking(&self, session: SessionId) -> Vec<SessionId> {
        self.tenant.locks.blocking(session)
    }
}

impl Tenant {
    /// As [`View::lock_table`], by a transaction that may have yet to take the snapshot it will read.
    pub fn lock_table(&mut self, txn: &mut Txn, table: Oid, mode: TableLock, policy: WaitPolicy) -> Step<()> {
        let wanted = LockMode::Table(mode);
        if wanted.is_covered_by(txn.tables.of(table)) {
            return Ok(());
        }
        if self.lock(txn, LockTag::Table(table), wanted, policy)? {
            txn.tables.add(table, wanted.bit());
            return if mode == TableLock::AccessShare {
                Ok(())
            } else {
                self.require_definition_of_snapshot(txn, table)
            };
        }
        let relation = txn.catalog().unwrap_or(&self.catalog).relation(table);
        let name = relation.map_or_else(|| table.to_string(), |r| r.name().to_owned());
        Err(not_available("relation", &name).into())
    }

    /// Whoever reads a snapshot also has the definitions of that time. A row that is changed by an older one misses what was made since: a constraint, an index, or new
    /// trees of the table.
    ///
    /// Errors: 40001.
    pub(crate) fn require_definition_of_snapshot(&self, txn: &Txn, table: Oid) -> Step<()> {
        let (None, Some(frozen)) = (&txn.catalog, &txn.frozen) else { return Ok(()) };
        let (then, now) = (frozen.catalog.table(table), self.catalog.table(table));
        if then.map(Arc::as_ptr) == now.map(Arc::as_ptr) {
            Ok(())
        } else {
            Err(serialization_failure().into())
        }
    }

    /// Gives back the right to change the catalog, by which `txn` has changed nothing that is not taken back in this turn, to somebody who waits for a branch;
    /// false if nobody does.
    pub(crate) fn give_way_to_branch(&mut self, txn: &mut Txn) -> bool {
        if !self.locks.is_awaited_in(&LockTag::Branch, LockMode::FOR_BRANCH) {
            return false;
        }
        let rights = [LockTag::Ddl, LockTag::Branch];
        rights.iter().for_each(|tag| self.locks.release(txn.session, tag, u8::MAX));
        txn.held.forget(&rights);
        true
    }

    /// Whether somebody who waits for a branch has the table locked against this mode.
    pub(crate) fn is_behind_branch(&self, txn: &Txn, table: Oid, mode: TableLock) -> bool {
        self.locks.is_behind_branch(txn.session, &LockTag::Table(table), LockMode::Table(mode))
    }

    /// Asks for a lock until the transaction's end; false if it is held and the policy is not to wait.
    pub(crate) fn lock(
        &mut self,
        txn: &mut Txn,
        tag: LockTag,
        mode: LockMode,
        policy: WaitPolicy,
    ) -> Step<bool> {
        if self.locks.is_empty() && txn.implicit && txn.deferred.len() < DEFERRED_MAX {
            txn.deferred.push((tag, mode));
            return Ok(true);
        }
        if txn.waiting.is_some() {
            self.settle_wait(txn);
        }
        let acquired = match txn.lists_locks {
            true => self.locks.acquire_listed(txn.session, &tag, mode, policy),
            false => self.locks.acquire(txn.session, &tag, mode, Scope::Transaction, policy),
        };
        match acquired {
            Acquired::Gained => txn.held.push((tag, mode.bit())),
            Acquired::AlreadyHeld => {}
            Acquired::Busy => return Ok(false),
            Acquired::Deadlock(error) => return Err(error.into()),
            Acquired::Queued(wait) => {
                txn.waiting = Some((tag, mode, Scope::Transaction));
                return Err(Interrupt::Wait(wait));
            }
        }
        Ok(true)
    }
}

/// What a snapshot transaction gets that comes too late.
pub(crate) fn serialization_failure() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
}
