//! Changing rows: the table's entry, its index entries, the locks that go with them, and the checks that are due at the
//! statement's end. All of it goes into the transaction's overlay.

use base::{SqlError, TreeId};
use smallvec::SmallVec;
use types::Datum;

use crate::catalog::{Index, Table};
use crate::interrupt::{Interrupt, Step};
use crate::locks::{LockMode, LockTag, RowLock, WaitPolicy};
use crate::row::keys::{Entry, Key, index_entry, index_entry_of_bytes, row_id_key, table_key};
use crate::row::{decode_row, encode_in_part, encode_row};
use crate::view::{State, View};

/// Which conflicts of an insert are told instead of failing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arbiter {
    /// Any unique index or the primary key.
    Any,
    /// The unique index or primary key with this oid.
    Index(base::Oid),
}

/// What came of an insert that may conflict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The new row's key.
    Row(Key),
    /// The key of a row that has the same unique value. It is not locked.
    Conflict(Key),
}

/// What came of changing a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Updated {
    /// The row's key, which is another one if key columns changed.
    Row(Key),
    /// There is no such row any more.
    Gone,
}

impl View<'_> {
    /// Inserts a row: one value for each column in attribute order, cast to the column's type, dropped columns NULL.
    /// Defaults and CHECK are the caller's; foreign keys are checked by [`View::finish_statement`].
    ///
    /// Errors: 23502, 23505, 54000, 53200 ([`crate::change_memory`]); waits where another transaction holds one of the keys.
    pub fn insert(&mut self, table: &Table, row: &[Datum]) -> Step<Key> {
        match self.insert_with(table, row, None)? {
            Inserted::Row(key) => Ok(key),
            Inserted::Conflict(_) => unreachable!("without an arbiter a conflict is an error"),
        }
    }

    /// As [`View::insert`], but a row that conflicts on `arbiter` is told, and nothing changed, before any other constraint but
    /// NOT NULL is looked at. For ON CONFLICT.
    ///
    /// Errors also: 40001 where the conflicting row is newer than the transaction's snapshot.
    pub fn insert_or_conflict(&mut self, table: &Table, row: &[Datum], arbiter: Arbiter) -> Step<Inserted> {
        self.insert_with(table, row, Some(arbiter))
    }

    fn insert_with(&mut self, table: &Table, row: &[Datum], arbiter: Option<Arbiter>) -> Step<Inserted> {
        self.require_not_null(table, row)?;
        if let Some(Arbiter::Index(arbiter)) = arbiter
            && let Some(owner) = self.conflict_in(table, arbiter, row)?
        {
            return Ok(Inserted::Conflict(owner));
        }
        let key = match table_key(table, row)? {
            Some(key) => {
                let index = table.primary_index().expect("the key is the primary key's");
                let arbitrates = arbiter.is_some_and(|a| a == Arbiter::Any || a == Arbiter::Index(index.oid));
                if arbitrates && self.stays(table.tree, &key)? {
                    self.require_unchanged(table.tree, &key)?;
                    return Ok(Inserted::Conflict(key));
                }
                self.take_key(table, index, &key, row)?;
                key
            }
            None => {
                let key = row_id_key(self.tenant.next_row_id(table.tree)?);
                self.touch(table.tree, &key)?;
                key
            }
        };
        let mut entries: SmallVec<[Option<Entry>; 4]> = SmallVec::new();
        for index in table.secondary_indexes() {
            let Some(entry) = index_entry(index, row, &key)? else {
                entries.push(None);
                continue;
            };
            if entry.exclusive {
                if arbiter == Some(Arbiter::Any)
                    && let Some(owner) = self.owner_that_stays(table, index, &entry.key)?
                {
                    return Ok(Inserted::Conflict(owner));
                }
                self.take_key(table, index, &entry.key, row)?;
            } else {
                self.touch(index.tree, &entry.key)?;
            }
            entries.push(Some(entry));
        }
        let mut bytes = Vec::with_capacity(128);
        encode_row(table, row, &mut bytes)?;
        self.txn.overlay.put(table.tree, Key::from_slice(&key), bytes.into_boxed_slice());
        for (index, entry) in table.secondary_indexes().zip(entries) {
            let Some(entry) = entry else { continue };
            self.txn.overlay.put(index.tree, entry.key, Box::from(&entry.value[..]));
        }
        self.count_changes()?;
        self.check_references_later(table, row, None);
        Ok(Inserted::Row(key))
    }

    /// The row that has the same value in the secondary index that arbitrates; the primary key is looked at first anyway. What
    /// else the new row conflicts with does not matter if there is one.
    fn conflict_in(&mut self, table: &Table, arbiter: base::Oid, row: &[Datum]) -> Step<Option<Key>> {
        let Some(index) = table.secondary_indexes().find(|index| index.oid == arbiter) else {
            return Ok(None);
        };
        // A key that ends with the row's own is nobody else's, nor is one that the index does not have.
        let Some(entry) = index_entry(index, row, &[])?.filter(|entry| entry.exclusive) else {
            return Ok(None);
        };
        let owner = self.owner_that_stays(table, index, &entry.key)?;
        if owner.is_none() {
            self.lock_key(index.tree, &entry.key)?;
        }
        Ok(owner)
    }

    /// The key of the row that has this key in a unique index, if nobody is about to take it away.
    fn owner_that_stays(&mut self, table: &Table, index: &Index, key: &Key) -> Step<Option<Key>> {
        if !self.stays(index.tree, key)? {
            return Ok(None);
        }
        let owner = self.unique_owner(index, key, State::Newest)?;
        if let Some(owner) = &owner {
            self.require_unchanged(table.tree, owner)?;
        }
        Ok(owner)
    }

    /// Whether a unique tree has this key, and nobody else is about to take it away: whoever offers a row of that key needs no lock of it to know that there
    /// is one. Waits for who may be about to, and then has it locked.
    fn stays(&mut self, tree: TreeId, key: &Key) -> Step<bool> {
        if self.read(tree, key, State::Newest)?.is_none() {
            // It may be another one's that has not committed: whoever goes on to take it waits for that.
            return Ok(false);
        }
        let tag = LockTag::Row(tree, Key::from_slice(key));
        if self.tenant.locks.is_held_in(self.txn.session, &tag, RowLock::Key) {
            self.lock_key(tree, key)?;
        }
        self.note_point_read(tree, key);
        Ok(true)
    }

    /// Locks a key of a unique index, or the primary key, that `row` is to have. Who has a row of that key locked and leaves the key alone is not waited for: the
    /// violation is one whatever becomes of that.
    ///
    /// Errors: 23505, and those of [`View::require_unseen`].
    fn take_key(&mut self, table: &Table, index: &Index, key: &Key, row: &[Datum]) -> Step<()> {
        if self.stays(index.tree, key)? {
            return Err(self.unique_violation(table, index, row).into());
        }
        self.lock_key(index.tree, key)?;
        self.require_unseen(index.tree, key)
    }

    /// Replaces the row with this key by `row`, complete as for [`View::insert`].
    ///
    /// Errors as of `insert`, and 40001 where a snapshot transaction's row has been changed since.
    pub fn update(&mut self, table: &Table, key: &[u8], row: &[Datum]) -> Step<Updated> {
        let Some(old) = self.read(table.tree, key, State::Newest)? else {
            self.require_unchanged(table.tree, key)?;
            return Ok(Updated::Gone);
        };
        let old_len = old.len();
        // What indexes and foreign keys have of it.
        let is_wanted = table.secondary_indexes().next().is_some()
            || !table.foreign_keys.is_empty()
            || !table.referenced_by.is_empty();
        let old = match is_wanted {
            true => old.into_owned(),
            false => {
                drop(old);
                Vec::new()
            }
        };
        self.require_not_null(table, row)?;
        let new_key = table_key(table, row)?.unwrap_or_else(|| Key::from_slice(key));
        let moved = new_key[..] != *key;
        let mut changes: SmallVec<[(usize, Option<Entry>, Option<Entry>); 4]> = SmallVec::new();
        let mut key_changed = moved;
        for (i, index) in table.indexes.iter().enumerate().filter(|(_, index)| !table.is_primary(index)) {
            let before = index_entry_of_bytes(table, index, &old, key)?;
            let after = index_entry(index, row, &new_key)?;
            if before != after {
                key_changed |= index.is_referable() && !is_same_key(&before, &after);
                changes.push((i, before, after));
            }
        }
        let mode = match (moved, key_changed) {
            (true, _) => RowLock::Key,
            (false, true) => RowLock::Update,
            (false, false) => RowLock::NoKeyUpdate,
        };
        self.lock_written(table, key, mode)?;
        if moved {
            if !table.foreign_keys.is_empty() {
                self.hold_places(table, RowLock::KeyShare)?;
            }
            let index = table.primary_index().expect("only a primary key moves");
            self.take_key(table, index, &new_key, row)?;
        }
        for (i, before, after) in &changes {
            let index = &table.indexes[*i];
            let is_same_key = is_same_key(before, after);
            if let Some(before) = before {
                if before.exclusive && !is_same_key {
                    self.lock_key(index.tree, &before.key)?;
                }
                // The commit takes the old entry out, and must not find then that its page cannot be read.
                self.touch(index.tree, &before.key)?;
            }
            if let Some(after) = after {
                if after.exclusive && !is_same_key {
                    self.take_key(table, index, &after.key, row)?;
                } else {
                    self.touch(index.tree, &after.key)?;
                }
            }
        }
        let mut bytes = Vec::with_capacity(old_len + 16);
        encode_row(table, row, &mut bytes)?;
        if moved {
            self.txn.overlay.delete(table.tree, Key::from_slice(key));
        }
        self.txn.overlay.put(table.tree, Key::from_slice(&new_key), bytes.into_boxed_slice());
        for (i, before, after) in changes {
            let tree = table.indexes[i].tree;
            let is_same_key = is_same_key(&before, &after);
            if let Some(before) = before.filter(|_| !is_same_key) {
                self.txn.overlay.delete(tree, before.key);
            }
            if let Some(after) = after {
                self.txn.overlay.put(tree, after.key, Box::from(&after.value[..]));
            }
        }
        self.count_changes()?;
        if !table.foreign_keys.is_empty() || !table.referenced_by.is_empty() {
            let old = decode_row(table, &old)?;
            self.check_references_later(table, row, Some(&old));
            self.check_referencing_later(table, &old, Some(row));
        }
        Ok(Updated::Row(new_key))
    }

    /// As [`View::update`] with new values for some columns alone, in none of which an index or a foreign key of the table has an interest.
    ///
    /// Errors as of `update`.
    pub fn update_in_part(
        &mut self,
        table: &Table,
        key: &[u8],
        changed: &[(usize, &Datum)],
    ) -> Step<Updated> {
        if changed.iter().any(|(column, value)| value.is_null() && table.columns[*column].not_null) {
            // The error shows the whole row.
            let old = self.read(table.tree, key, State::Newest)?;
            let old = old.map(|old| decode_row(table, &old)).transpose()?;
            if let Some(mut row) = old {
                changed.iter().for_each(|(column, value)| row[*column] = (*value).clone());
                return self.update(table, key, &row);
            }
        }
        let old = self.read(table.tree, key, State::Newest)?;
        let Some(bytes) = old.map(|old| encode_in_part(table, &old, changed)) else {
            self.require_unchanged(table.tree, key)?;
            return Ok(Updated::Gone);
        };
        self.lock_written(table, key, RowLock::NoKeyUpdate)?;
        self.txn.overlay.put(table.tree, Key::from_slice(key), bytes?.into_boxed_slice());
        self.count_changes()?;
        Ok(Updated::Row(Key::from_slice(key)))
    }

    /// Deletes the row with this key; false if there is none any more. Foreign keys are checked by
    /// [`View::finish_statement`].
    ///
    /// Errors: 40001 where a snapshot transaction's row has been changed since.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Step<bool> {
        let Some(old) = self.read(table.tree, key, State::Newest)? else {
            self.require_unchanged(table.tree, key)?;
            return Ok(false);
        };
        let old = old.into_owned();
        self.lock_written(table, key, RowLock::Key)?;
        for index in table.secondary_indexes() {
            let Some(entry) = index_entry_of_bytes(table, index, &old, key)? else { continue };
            if entry.exclusive {
                self.lock_key(index.tree, &entry.key)?;
            }
            self.touch(index.tree, &entry.key)?;
            self.txn.overlay.delete(index.tree, entry.key);
        }
        self.txn.overlay.delete(table.tree, Key::from_slice(key));
        self.count_changes()?;
        if !table.referenced_by.is_empty() {
            let old = decode_row(table, &old)?;
            self.check_referencing_later(table, &old, None);
        }
        Ok(true)
    }

    /// Locks a row that is about to be changed, and makes sure a snapshot transaction does not change what it never saw.
    fn lock_written(&mut self, table: &Table, key: &[u8], mode: RowLock) -> Step<()> {
        let tag = LockTag::Row(table.tree, Key::from_slice(key));
        self.tenant.lock(self.txn, tag, LockMode::Row(mode), WaitPolicy::Wait)?;
        self.touch_notes(table.tree, key)?;
        self.require_unchanged(table.tree, key)
    }

    /// Keeps rows of a table from getting other keys, in mode `Update`; who gives one another key holds it in mode `KeyShare`, where somebody may go through
    /// them by their keys meanwhile. It is the lock of a row that there is none of.
    pub(crate) fn hold_places(&mut self, table: &Table, mode: RowLock) -> Step<()> {
        let tag = LockTag::Row(table.tree, Key::new());
        self.tenant.lock(self.txn, tag, LockMode::Row(mode), WaitPolicy::Wait)?;
        Ok(())
    }

    /// Locks a key of a unique tree against anyone else who would insert or delete it.
    fn lock_key(&mut self, tree: TreeId, key: &Key) -> Step<()> {
        let tag = LockTag::Row(tree, Key::from_slice(key));
        self.tenant.lock(self.txn, tag, LockMode::Row(RowLock::Key), WaitPolicy::Wait)?;
        self.touch_notes(tree, key)?;
        Ok(())
    }
}

/// Whether a row had an entry in an index and has one, under one key.
fn is_same_key(before: &Option<Entry>, after: &Option<Entry>) -> bool {
    matches!((before, after), (Some(before), Some(after)) if before.key == after.key)
}

impl Interrupt {
    /// The error, if it is one.
    pub fn into_error(self) -> Option<SqlError> {
        match self {
            Interrupt::Error(error) => Some(error),
            Interrupt::Wait(_) | Interrupt::Miss(_) | Interrupt::Asked => None,
        }
    }
}
