//! Foreign keys: collected while a statement changes rows, checked and carried out at its end. Of those that are deferred the checks are left
//! to [`crate::due`]; what ON DELETE and ON UPDATE ask for is done in any case.
//!
//! A referencing row locks the row it references FOR KEY SHARE, so a reference and the deletion of its target never both
//! commit. Checks read the newest state whatever the transaction's snapshot; those of PostgreSQL that look for a referenced row read the snapshot.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use types::{CastContext, Datum, FormatContext};

use crate::catalog::{Column, Encode, ForeignKey, Index, MatchType, ReferentialAction, Table};
use crate::cursor::{Direction, Scan};
use crate::due::Side;
use crate::interrupt::Step;
use crate::key_types::{is_one_to_one, referenced_value, referencing_value};
use crate::locks::{LockMode, LockTag, RowLock, TableLock, WaitPolicy};
use crate::row::keys::{ColumnRange, Key, KeyRange, index_entry_of_bytes};
use crate::view::{Access, State, View};
use crate::write::Updated;

/// A check that is due at the statement's end.
#[derive(Clone, Debug)]
pub(crate) enum PendingCheck {
    /// A row of `table` now has these values in the columns of one of its foreign keys.
    Reference { table: Oid, constraint: Oid, values: Vec<Datum> },
    /// The row of `table` that had `old` in the referenced columns is gone, or has `new` there.
    Referenced {
        table: Oid,
        referencing: Oid,
        constraint: Oid,
        old: Vec<Datum>,
        new: Option<Vec<Datum>>,
        /// What is to be done to rows that reference it was done to those up to this key, of the tree that is gone through for them.
        after: Option<Key>,
    },
}

/// Rows of a referencing table whose keys are gathered before they are changed.
const ROWS_TOGETHER: usize = 1024;

/// The same in a part of a statement.
const ROWS_OF_PART: usize = 64;

/// Bytes of changes that count as one more, for who bounds their number.
const BYTES_OF_CHANGE: usize = 256;

/// Checks that wait for the actions before them in a part of a statement. Those beyond are made at once, or wait with those that are due at the transaction's
/// end, of which there is a bound.
const CHECKS_CARRIED_MAX: usize = 1 << 10;

/// The rows of a table that reference certain values, as they are found.
struct Referencing {
    scan: Scan<'static>,
    /// The values that they have; `None` where several stand for those that are referenced.
    values: Option<Vec<Datum>>,
}

/// Whether nobody else changes a table of which these modes are held, so that its rows need no locks.
fn is_alone(modes: u8) -> bool {
    modes & LockMode::Table(TableLock::RowExclusive).conflicts() != 0
}

impl ForeignKey {
    /// The values by which a row references another one, or breaks MATCH FULL; `None` where it does neither.
    pub(crate) fn referencing_values(&self, row: &[Datum]) -> Option<Vec<Datum>> {
        let values: Vec<Datum> = self.columns.iter().map(|c| row[*c].clone()).collect();
        let nulls = values.iter().filter(|v| v.is_null()).count();
        let references = nulls == 0 || (nulls < values.len() && self.match_type == MatchType::Full);
        references.then_some(values)
    }
}

impl View<'_> {
    /// Remembers to check the foreign keys of a new or changed row.
    pub(crate) fn check_references_later(&mut self, table: &Table, row: &[Datum], old: Option<&[Datum]>) {
        for key in &table.foreign_keys {
            if old.is_some_and(|old| key.columns.iter().all(|c| old[*c] == row[*c])) {
                continue;
            }
            let Some(values) = key.referencing_values(row) else { continue };
            if !self.catalog().watches(table.oid, key.oid) {
                continue;
            }
            self.txn.checks.push(PendingCheck::Reference { table: table.oid, constraint: key.oid, values });
        }
    }

    /// Remembers to look for rows that reference a row that is gone or has a new key.
    pub(crate) fn check_referencing_later(&mut self, table: &Table, old: &[Datum], new: Option<&[Datum]>) {
        for by in &table.referenced_by {
            let catalog = Arc::clone(self.catalog());
            let Some(key) = catalog.table(by.table).and_then(|t| t.foreign_key(by.constraint)) else {
                continue;
            };
            let of = |row: &[Datum]| -> Vec<Datum> {
                key.referenced_columns.iter().map(|c| row[*c].clone()).collect()
            };
            let (old, new) = (of(old), new.map(of));
            if new.as_ref().is_some_and(|new| are_same(&old, new))
                || old.iter().any(Datum::is_null)
                || !catalog.watches(table.oid, by.constraint)
            {
                continue;
            }
            let (referencing, constraint) = (by.table, by.constraint);
            self.txn.checks.push(PendingCheck::Referenced {
                table: table.oid,
                referencing,
                constraint,
                old,
                new,
                after: None,
            });
        }
    }

    /// Ends a statement that changed rows: carries out what its foreign keys ask for. Call after the last change. What is deferred waits for
    /// [`View::check_due`].
    ///
    /// Errors: 23503, and those of the changes that cascade.
    pub fn finish_statement(&mut self) -> Step<()> {
        while !self.txn.checks.is_empty() {
            for check in std::mem::take(&mut self.txn.checks) {
                self.step()?;
                self.finish_check(check)?;
            }
        }
        self.count_changes()?;
        self.tenant.release_pages(self.txn);
        Ok(())
    }

    /// As [`View::finish_statement`] of a part of a statement, with what the part before has left. Once there are so many changes more, or some bytes of them for each,
    /// what is left is for the next part ([`Txn::carry_checks`]), or for another way ([`Txn::owes_checks`]).
    pub fn finish_part(&mut self, changes_max: usize) -> Step<()> {
        let mut acts = !self.txn.carried.is_empty();
        for check in &self.txn.checks {
            acts |= self.is_action(check)?;
        }
        if !acts {
            return self.finish_statement();
        }
        let before = (self.txn.overlay.len(), self.txn.overlay.bytes());
        let (mut actions, mut others) = (Vec::new(), Vec::new());
        let mut new = self.txn.carried.clone();
        new.append(&mut self.txn.checks);
        loop {
            // What follows from an action is done before the others of its kind, so that few wait.
            let first = actions.len();
            for check in new {
                match self.is_action(&check)? {
                    true => actions.push(check),
                    false => others.push(check),
                }
            }
            actions[first..].reverse();
            let more = self.txn.overlay.len().saturating_sub(before.0);
            let bytes = self.txn.overlay.bytes().saturating_sub(before.1);
            if more >= changes_max || bytes >= changes_max * BYTES_OF_CHANGE {
                break;
            }
            let Some(action) = actions.pop() else { break };
            self.step()?;
            actions.extend(self.act_in_part(action)?);
            new = std::mem::take(&mut self.txn.checks);
        }
        let carried = if actions.is_empty() { 0 } else { CHECKS_CARRIED_MAX.min(others.len()) };
        for check in others.split_off(carried) {
            self.step()?;
            match actions.is_empty() {
                true => self.finish_check(check)?,
                false => self.finish_check_early(check)?,
            }
        }
        assert!(self.txn.checks.is_empty(), "checks alone change nothing");
        self.txn.checks.extend(actions.into_iter().rev().chain(others));
        self.count_changes()?;
        self.tenant.release_pages(self.txn);
        Ok(())
    }

    /// Whether something is to be done for it, and not only looked for.
    fn is_action(&self, check: &PendingCheck) -> SqlResult<bool> {
        let PendingCheck::Referenced { referencing, constraint, new, .. } = check else { return Ok(false) };
        let referencing = self.table(*referencing)?;
        let Some(key) = referencing.foreign_key(*constraint) else { return Ok(false) };
        let action = if new.is_some() { key.on_update } else { key.on_delete };
        Ok(!matches!(action, ReferentialAction::NoAction | ReferentialAction::Restrict))
    }

    fn finish_check(&mut self, check: PendingCheck) -> Step<()> {
        match check {
            PendingCheck::Reference { table, constraint, values } => {
                let of = self.table(table)?;
                let Some(key) = of.foreign_key(constraint) else { return Ok(()) };
                let is_own = self.txn.own_later == Some(table) && key.referenced_table == table;
                if self.txn.due.puts_off(key) || is_own && !self.lock_referenced(&of, &of, key, &values)? {
                    self.put_off(table, key, table, Side::Referencing, &values);
                } else if !is_own {
                    self.check_reference(&of, key, &values)?;
                }
                Ok(())
            }
            PendingCheck::Referenced { table, referencing, constraint, old, new, after: _ } => {
                self.act_on_references(table, referencing, constraint, &old, new.as_deref())
            }
        }
    }

    /// A check before all is done that may make it true: where that matters it waits for the transaction's end.
    fn finish_check_early(&mut self, check: PendingCheck) -> Step<()> {
        if let PendingCheck::Referenced { table, referencing, constraint, old, new, .. } = &check {
            let of = self.table(*referencing)?;
            let Some(key) = of.foreign_key(*constraint) else { return Ok(()) };
            let action = if new.is_some() { key.on_update } else { key.on_delete };
            if action == ReferentialAction::NoAction {
                self.put_off(of.oid, key, *table, Side::Referenced, old);
                return Ok(());
            }
        }
        self.finish_check(check)
    }

    /// Has a few of the rows that reference what is gone do as their foreign key says; what is left to do, if there may be more.
    fn act_in_part(&mut self, action: PendingCheck) -> Step<Option<PendingCheck>> {
        let PendingCheck::Referenced { table, referencing, constraint, old, new, after } = action else {
            unreachable!("nothing is to be done for a row that references one");
        };
        let (of, by) = (self.table(table)?, self.table(referencing)?);
        let Some(key) = by.foreign_key(constraint) else { return Ok(None) };
        let action = if new.is_some() { key.on_update } else { key.on_delete };
        // As PostgreSQL's queries for it do: nobody builds an index of the rows meanwhile.
        self.lock_table(by.oid, TableLock::RowExclusive, WaitPolicy::Wait)?;
        let format = self.session.map(|session| session.format);
        let pairs = Pairs { key, referencing: &by, referenced: &of, format };
        let Some(mut rows) = self.referencing_rows(&by, &pairs, &old, after.as_ref()) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        while found.len() < ROWS_OF_PART
            && let Some(row) = self.next_referencing(&mut rows, &pairs, &old)?
        {
            found.push(row);
        }
        let is_through = found.len() < ROWS_OF_PART;
        let last = match found.last().filter(|_| !is_through) {
            Some(row) => self.key_scanned(&rows.scan, row)?,
            None => None,
        };
        for row in &found {
            self.change_referencing(action, &pairs, row, new.as_deref())?;
        }
        if is_through && after.is_none() {
            return Ok(None);
        }
        // Between two parts others may have given a row a key before those that were gone through: it is there once all is gone through from the first key on.
        Ok(Some(PendingCheck::Referenced { table, referencing, constraint, old, new, after: last }))
    }

    /// The key, in the tree that is scanned, of the row with this key; `None` if it is not there.
    fn key_scanned(&mut self, scan: &Scan<'_>, row: &Key) -> Step<Option<Key>> {
        let (table, Some(index)) = (scan.table(), scan.index()) else { return Ok(Some(row.clone())) };
        let Some(bytes) = self.read(table.tree, row, State::Newest)? else { return Ok(None) };
        Ok(index_entry_of_bytes(table, index, &bytes, row)?.map(|entry| entry.key))
    }

    /// Errors: 23503.
    pub(crate) fn check_reference(&mut self, table: &Table, key: &ForeignKey, values: &[Datum]) -> Step<()> {
        let referenced = self.table(key.referenced_table)?;
        match self.lock_referenced(table, &referenced, key, values)? {
            true => Ok(()),
            false => Err(self.not_referenced(table, &referenced, key, values).into()),
        }
    }

    /// As [`View::check_reference`] of a row that is there already: whoever deletes what it references finds it,
    /// so nothing is locked.
    ///
    /// Errors: 23503.
    pub(crate) fn check_standing_reference(
        &mut self,
        table: &Table,
        key: &ForeignKey,
        values: &[Datum],
    ) -> Step<()> {
        let referenced = self.table(key.referenced_table)?;
        match self.row_referenced(table, &referenced, key, values)? {
            Some(_) => Ok(()),
            None => Err(self.not_referenced(table, &referenced, key, values).into()),
        }
    }

    /// Locks the row that these values of a referencing row reference, so that it stays; false if there is none.
    pub(crate) fn lock_referenced(
        &mut self,
        table: &Table,
        referenced: &Table,
        key: &ForeignKey,
        values: &[Datum],
    ) -> Step<bool> {
        let Some(found) = self.row_referenced(table, referenced, key, values)? else { return Ok(false) };
        if is_alone(self.txn.tables.of(referenced.oid)) {
            return Ok(true);
        }
        let tag = LockTag::Row(referenced.tree, found);
        self.tenant.lock(self.txn, tag, LockMode::Row(RowLock::KeyShare), WaitPolicy::Wait)?;
        Ok(true)
    }

    /// The key of the row that these values of a referencing row reference, of a table that stays what it is.
    fn row_referenced(
        &mut self,
        table: &Table,
        referenced: &Table,
        key: &ForeignKey,
        values: &[Datum],
    ) -> Step<Option<Key>> {
        if values.iter().any(Datum::is_null) {
            return Ok(None);
        }
        let format = self.session.map(|session| session.format);
        let pairs = Pairs { key, referencing: table, referenced, format };
        let Some(wanted) = pairs.referenced_values(values) else { return Ok(None) };
        // Keeps its rows where they are: a rewrite gives the table another tree, whose rows are locked by other names.
        let read_only = LockMode::Table(TableLock::AccessShare).bit();
        if self.txn.tables.of(referenced.oid) & !read_only == 0 {
            self.lock_table(referenced.oid, TableLock::RowShare, WaitPolicy::Wait)?;
        }
        self.find_referenced(referenced, key, &wanted)
    }

    /// 23503 for a row whose values reference none.
    pub(crate) fn not_referenced(
        &self,
        table: &Table,
        referenced: &Table,
        key: &ForeignKey,
        values: &[Datum],
    ) -> SqlError {
        if values.iter().any(Datum::is_null) {
            return mixed_nulls(table, key);
        }
        let error = SqlError::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                table.name, key.name
            ),
        )
        .with_detail(format!(
            "Key {} is not present in table \"{}\".",
            self.show_key(table, &key.columns, values),
            referenced.name
        ));
        self.located(error, table, key)
    }

    /// The key of the referenced row, if it is there.
    fn find_referenced(
        &mut self,
        referenced: &Table,
        key: &ForeignKey,
        values: &[Datum],
    ) -> Step<Option<Key>> {
        let index = referenced.index(key.referenced_index).ok_or_else(|| {
            SqlError::internal(format!("foreign key \"{}\" references an index that is gone", key.name))
        })?;
        let index_key = ColumnRange::equal(values).key_range(&index.columns).from;
        if referenced.is_primary(index) {
            let found = self.read(referenced.tree, &index_key, State::Newest)?.is_some();
            return Ok(found.then_some(index_key));
        }
        self.unique_owner(index, &index_key, State::Newest)
    }

    fn act_on_references(
        &mut self,
        table: Oid,
        referencing: Oid,
        constraint: Oid,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> Step<()> {
        let (table, referencing) = (self.table(table)?, self.table(referencing)?);
        let Some(key) = referencing.foreign_key(constraint) else { return Ok(()) };
        let action = if new.is_some() { key.on_update } else { key.on_delete };
        let is_own = self.txn.own_later == Some(table.oid) && referencing.oid == table.oid;
        match action {
            ReferentialAction::NoAction if is_own || self.txn.due.puts_off(key) => {
                self.put_off(referencing.oid, key, table.oid, Side::Referenced, old);
                return Ok(());
            }
            ReferentialAction::NoAction => {
                return self.require_unreferenced(&table, &referencing, key, old);
            }
            ReferentialAction::Restrict => return self.require_no_rows(&table, &referencing, key, old),
            ReferentialAction::Cascade | ReferentialAction::SetNull | ReferentialAction::SetDefault => {}
        }
        // As PostgreSQL's queries for it do: nobody builds an index of the rows meanwhile.
        self.lock_table(referencing.oid, TableLock::RowExclusive, WaitPolicy::Wait)?;
        let format = self.session.map(|session| session.format);
        let pairs = Pairs { key, referencing: &referencing, referenced: &table, format };
        let Some(mut rows) = self.referencing_rows(&referencing, &pairs, old, None) else { return Ok(()) };
        // What is changed does not reference the old values any more, so that the search may go on behind it.
        let mut found = Vec::new();
        loop {
            found.clear();
            while found.len() < ROWS_TOGETHER
                && let Some(row) = self.next_referencing(&mut rows, &pairs, old)?
            {
                found.push(row);
            }
            if found.is_empty() {
                return Ok(());
            }
            for row in &found {
                self.change_referencing(action, &pairs, row, new)?;
            }
        }
    }

    /// Has a row that references what is gone, or has the values `new` now, do as its foreign key says.
    fn change_referencing(
        &mut self,
        action: ReferentialAction,
        pairs: &Pairs<'_>,
        row: &[u8],
        new: Option<&[Datum]>,
    ) -> Step<()> {
        let (table, columns) = (pairs.referencing, &pairs.key.columns);
        match (action, new) {
            (ReferentialAction::NoAction | ReferentialAction::Restrict, _) => {
                unreachable!("these change nothing")
            }
            (ReferentialAction::Cascade, None) => self.delete(table, row).map(drop),
            (ReferentialAction::Cascade, Some(new)) => {
                let new = pairs.assigned(new)?;
                self.set_columns(table, row, columns, &new)
            }
            (ReferentialAction::SetNull, _) => {
                let nulls = vec![Datum::Null; columns.len()];
                self.set_columns(table, row, columns, &nulls)
            }
            (ReferentialAction::SetDefault, _) => {
                Err(SqlError::unsupported("ON DELETE or ON UPDATE SET DEFAULT").into())
            }
        }
    }

    /// Errors: 23503 where rows reference values that no row of `table` has any more.
    pub(crate) fn require_unreferenced(
        &mut self,
        table: &Table,
        referencing: &Arc<Table>,
        key: &ForeignKey,
        old: &[Datum],
    ) -> Step<()> {
        match self.find_referenced(table, key, old)? {
            Some(_) => Ok(()),
            None => self.require_no_rows(table, referencing, key, old),
        }
    }

    /// Waits for who may be about to delete the rows that reference these values.
    ///
    /// Errors: 23503 where there are any.
    fn require_no_rows(
        &mut self,
        table: &Table,
        referencing: &Arc<Table>,
        key: &ForeignKey,
        old: &[Datum],
    ) -> Step<()> {
        self.lock_table(referencing.oid, TableLock::RowShare, WaitPolicy::Wait)?;
        let format = self.session.map(|session| session.format);
        let pairs = Pairs { key, referencing, referenced: table, format };
        let Some(mut rows) = self.referencing_rows(referencing, &pairs, old, None) else { return Ok(()) };
        let key_share = LockMode::Row(RowLock::KeyShare);
        let mut in_doubt = None;
        while let Some(row) = self.next_referencing(&mut rows, &pairs, old)? {
            let tag = LockTag::Row(referencing.tree, row);
            if !self.tenant.locks.is_held_against(self.txn.session, &tag, key_share) {
                return Err(self.still_referenced(table, referencing, key, old).into());
            }
            in_doubt.get_or_insert(tag);
        }
        let Some(tag) = in_doubt else { return Ok(()) };
        self.tenant.lock(self.txn, tag, key_share, WaitPolicy::Wait)?;
        Err(self.still_referenced(table, referencing, key, old).into())
    }

    /// Whether a row of the table has these values, NULLs included.
    pub(crate) fn has_row_with(
        &mut self,
        table: &Arc<Table>,
        columns: &[usize],
        values: &[Datum],
    ) -> Step<bool> {
        let (access, range) = access_to(table, columns, values);
        let mut scan = self.scan_state(table, access, range, Direction::Forward, State::Newest);
        while let Some(row) = self.next(&mut scan)? {
            let mut equal = true;
            for (column, value) in columns.iter().zip(values) {
                let own = row.column(*column)?;
                equal &= match own.is_null() || value.is_null() {
                    true => own.is_null() && value.is_null(),
                    false => types::equal(&own, value),
                };
            }
            if equal {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The rows that reference these values, for [`View::next_referencing`]; `None` where none can. Those behind the key `after` of the tree that is gone through.
    fn referencing_rows(
        &mut self,
        referencing: &Arc<Table>,
        pairs: &Pairs<'_>,
        referenced: &[Datum],
        after: Option<&Key>,
    ) -> Option<Referencing> {
        let values = match pairs.are_one_to_one() {
            true => Some(pairs.referencing_values(referenced)?),
            false => None,
        };
        let (access, range) = match &values {
            Some(values) => access_to(referencing, &pairs.key.columns, values),
            None => (Access::Table, KeyRange::all()),
        };
        let range = match after {
            Some(_) => KeyRange { from: KeyRange::behind(after).from, to: range.to },
            None => range,
        };
        let scan = self.scan_state(referencing, access, range, Direction::Forward, State::Newest);
        Some(Referencing { scan, values })
    }

    /// The key of the next of these rows.
    fn next_referencing(
        &mut self,
        rows: &mut Referencing,
        pairs: &Pairs<'_>,
        referenced: &[Datum],
    ) -> Step<Option<Key>> {
        let Referencing { scan, values } = rows;
        while let Some(row) = self.next(scan)? {
            let mut equal = true;
            for (at, column) in pairs.key.columns.iter().enumerate() {
                let own = row.column(*column)?;
                equal &= !own.is_null()
                    && match values {
                        Some(values) => types::equal(&own, &values[at]),
                        None => pairs.references(at, &own, &referenced[at]),
                    };
            }
            if equal {
                return Ok(Some(Key::from_slice(row.key())));
            }
        }
        Ok(None)
    }

    fn set_columns(&mut self, table: &Table, key: &[u8], columns: &[usize], values: &[Datum]) -> Step<()> {
        let Some(bytes) = self.read(table.tree, key, State::Newest)? else { return Ok(()) };
        let mut row = crate::row::decode_row(table, &bytes)?;
        for (column, value) in columns.iter().zip(values) {
            row[*column] = value.clone();
        }
        let updated = self.update(table, key, &row)?;
        let is_wanted = !table.checks.is_empty() || table.generated_columns().next().is_some();
        if let Updated::Row(key) = updated
            && is_wanted
        {
            self.txn.cascaded.push((table.oid, key));
        }
        Ok(())
    }

    /// The rows of tables with CHECK constraints or generated columns that [`View::finish_statement`] has changed, each by its table and key; they are to be
    /// checked, and those columns worked out, by who knows the expressions.
    pub fn take_cascaded(&mut self) -> Vec<(Oid, Key)> {
        std::mem::take(&mut self.txn.cascaded)
    }

    /// 23503 for values that a row still references.
    pub(crate) fn still_referenced(
        &self,
        table: &Table,
        referencing: &Table,
        key: &ForeignKey,
        old: &[Datum],
    ) -> SqlError {
        let error = SqlError::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                table.name, key.name, referencing.name
            ),
        )
        .with_detail(format!(
            "Key {} is still referenced from table \"{}\".",
            self.show_key(table, &key.referenced_columns, old),
            referencing.name
        ));
        self.located(error, referencing, key)
    }

    fn located(&self, error: SqlError, table: &Table, key: &ForeignKey) -> SqlError {
        error
            .with_schema(self.catalog().schema_name(table.schema))
            .with_table(table.name.as_str())
            .with_constraint(key.name.as_str())
    }
}

/// The index of whose first columns the most are among these, in any order; and for each of those the position among them. It has all rows that have
/// values in these columns.
fn index_of<'t>(table: &'t Table, columns: &[usize]) -> Option<(&'t Index, Vec<usize>)> {
    let place = |column: usize| columns.iter().position(|own| *own == column);
    let ways = table.indexes.iter().filter(|index| index.has_all_with_values_in(columns)).map(|index| {
        let keys = index.columns.iter().map_while(|key| place(key.plain()?));
        let order: Vec<usize> = keys.take(columns.len()).collect();
        (index, order)
    });
    // Of several the first one.
    ways.rev().max_by_key(|(_, order)| order.len()).filter(|(_, order)| !order.is_empty())
}

/// Where to look for the rows that have these values: others may be there, too.
fn access_to<'t>(table: &'t Table, columns: &[usize], values: &[Datum]) -> (Access<'t>, KeyRange) {
    match index_of(table, columns).filter(|_| !values.iter().any(Datum::is_null)) {
        Some((index, order)) => {
            let ordered: Vec<Datum> = order.iter().map(|i| values[*i].clone()).collect();
            (Access::Index(index), ColumnRange::equal(&ordered).key_range(&index.columns))
        }
        None => (Access::Table, KeyRange::all()),
    }
}

/// The columns of a foreign key side by side with those that they reference.
pub(crate) struct Pairs<'a> {
    pub(crate) key: &'a ForeignKey,
    pub(crate) referencing: &'a Table,
    pub(crate) referenced: &'a Table,
    pub(crate) format: Option<&'a FormatContext>,
}

impl<'a> Pairs<'a> {
    /// Each referencing column and the one it references.
    fn columns(&self) -> impl Iterator<Item = (&'a Column, &'a Column)> {
        let (referencing, referenced) = (self.referencing, self.referenced);
        let positions = self.key.columns.iter().zip(&self.key.referenced_columns);
        positions.map(move |(own, other)| (&referencing.columns[*own], &referenced.columns[*other]))
    }

    /// Whether at most one referencing row's values stand for those of a referenced row.
    fn are_one_to_one(&self) -> bool {
        self.columns().all(|(own, other)| is_one_to_one(own.ty, other.ty))
    }

    /// What a referencing row's values stand for; `None` where no row can have that.
    pub(crate) fn referenced_values(&self, values: &[Datum]) -> Option<Vec<Datum>> {
        let pairs = values.iter().zip(self.columns());
        pairs.map(|(value, (own, other))| referenced_value(value, own, other, self.format)).collect()
    }

    /// Whether a value of the referencing column at this place stands for that of the referenced one.
    fn references(&self, at: usize, value: &Datum, referenced: &Datum) -> bool {
        let (own, other) = self.columns().nth(at).expect("the key has the column");
        referenced_value(value, own, other, self.format).is_some_and(|found| types::equal(&found, referenced))
    }

    /// Which values stand for those of a referenced row; `None` where none can.
    fn referencing_values(&self, values: &[Datum]) -> Option<Vec<Datum>> {
        let pairs = values.iter().zip(self.columns());
        pairs.map(|(value, (own, other))| referencing_value(value, own, other, self.format)).collect()
    }

    /// A referenced row's new values as ON UPDATE CASCADE assigns them, which may round. Errors: those of the casts.
    fn assigned(&self, values: &[Datum]) -> SqlResult<Vec<Datum>> {
        let default = FormatContext::default();
        let format = self.format.unwrap_or(&default);
        let assign = |(value, (own, other)): (&Datum, (&Column, &Column))| {
            types::cast(value.clone(), other.ty, own.ty, own.typmod, CastContext::Assignment, format)
        };
        values.iter().zip(self.columns()).map(assign).collect()
    }
}

/// Whether values are the same as they are stored. NaN is then: a row that refers to itself would be given it again and again.
fn are_same(old: &[Datum], new: &[Datum]) -> bool {
    let stored = |values: &[Datum]| {
        let mut bytes = Vec::new();
        values.encode(&mut bytes);
        bytes
    };
    old == new || stored(old) == stored(new)
}

fn mixed_nulls(table: &Table, key: &ForeignKey) -> SqlError {
    SqlError::new(
        SqlState::FOREIGN_KEY_VIOLATION,
        format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.name, key.name
        ),
    )
    .with_detail("MATCH FULL does not allow mixing of null and nonnull key values.")
    .with_table(table.name.as_str())
    .with_constraint(key.name.as_str())
}
