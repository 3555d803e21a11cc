//! Constraints: primary keys, unique, CHECK and foreign keys.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState, TreeId};
use rustc_hash::FxHashSet;
use types::{CatalogNames, TypeMod};

use super::indexes::{Writers, check_key_type};
use super::{Behavior, Ddl, Dropped, MadeUpName, NewIndex};
use crate::catalog::{
    CheckConstraint, Column, Deferral, ForeignKey, Index, IndexColumn, IndexConstraint, MatchType,
    ReferencedBy, ReferentialAction, Table,
};
use crate::interrupt::Step;
use crate::key_types::may_reference;
use crate::locks::{RowLock, TableLock, WaitPolicy};
use crate::txn::Build;

/// A primary key or unique constraint to add.
#[derive(Clone, Debug)]
pub struct NewUnique {
    /// `None` for PostgreSQL's made-up name.
    pub name: Option<String>,
    /// Positions of the columns.
    pub columns: Vec<usize>,
    pub nulls_not_distinct: bool,
}

/// A foreign key to add.
#[derive(Clone, Debug)]
pub struct NewForeignKey {
    /// `None` for PostgreSQL's made-up name.
    pub name: Option<String>,
    pub columns: Vec<usize>,
    pub referenced_table: Oid,
    /// `None` for the referenced table's primary key.
    pub referenced_columns: Option<Vec<usize>>,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
    pub match_type: MatchType,
    pub deferral: Deferral,
    pub rows: RowsNow,
}

/// The rows that are there when a constraint is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowsNow {
    /// They are checked.
    Checked,
    /// There are none.
    Absent,
    /// NOT VALID: they need not satisfy it before it is validated.
    NotValid,
}

impl Ddl<'_> {
    /// Makes the columns the primary key: NOT NULL, unique, and what the table is clustered on from now on. A table with
    /// rows is rewritten.
    ///
    /// Errors: 42P16 where it has one, 23502, 23505, 42P07; 0A000 where the transaction has changed the key before, and rows since.
    pub fn add_primary_key(&mut self, table: Oid, new: NewUnique) -> Step<Oid> {
        let old = Arc::new(self.open_table(table)?);
        if old.primary_key.is_some() {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", old.name),
            )
            .into());
        }
        let name = match new.name {
            Some(name) => given_name(&old, name)?,
            None => {
                let default = MadeUpName { table: &old.name, columns: &[], label: "pkey" };
                self.free_key_name(&old, &default)
            }
        };
        self.require_free_name(old.schema, &name)?;
        let mut table = (*old).clone();
        for column in &new.columns {
            check_key_type(table.columns[*column].ty, true)?;
            table.columns[*column].not_null = true;
        }
        let (oid, constraint) = (self.new_oid(), self.new_oid());
        table.primary_key = Some(table.indexes.len());
        table.indexes.push(Index {
            oid,
            name: name.into(),
            columns: new.columns.iter().map(|c| IndexColumn::ascending(*c)).collect(),
            unique: true,
            nulls_not_distinct: false,
            constraint: Some(IndexConstraint { oid: constraint, primary: true }),
            tree: table.tree,
            predicate: None,
            included: Vec::new(),
        });
        self.recluster(&old, table)?;
        Ok(oid)
    }

    /// Drops the primary key: the table is clustered on row ids again.
    pub(super) fn drop_primary_key(&mut self, oid: Oid) -> Step<()> {
        let old = Arc::new(self.open_table(oid)?);
        let Some(at) = old.primary_key else { return Ok(()) };
        let mut table = (*old).clone();
        let gone = table.indexes.remove(at);
        table.primary_key = None;
        self.edit().remove_comments(gone.oid);
        self.recluster(&old, table)
    }

    /// Gives a table whose key has changed a new tree with the old one's rows, and its indexes new trees that hold the new
    /// keys.
    fn recluster(&mut self, old: &Arc<Table>, mut table: Table) -> Step<()> {
        let origin = self.origin_of(old, &table)?;
        table.refresh_layout();
        table.tree = self.cluster(old, &table, origin)?;
        self.view.txn.dropped_trees.push(old.tree);
        for index in &mut table.indexes {
            if index.is_primary() {
                index.tree = table.tree;
            } else {
                self.view.txn.dropped_trees.push(index.tree);
            }
        }
        // The new tree has to be read through the new definition while the indexes are filled.
        let read = Arc::new(table.clone());
        self.edit().put_table(table.clone());
        for (index, filled) in
            read.indexes.iter().zip(&mut table.indexes).filter(|(index, _)| !index.is_primary())
        {
            filled.tree = self.build_index(&read, index)?;
        }
        self.edit().put_table(table);
        Ok(())
    }

    /// The tree of whose rows a replay makes the table under its new key: its own, unless this transaction has filled that, which is in no record then.
    ///
    /// Errors: 0A000 where it would not come to the same: rows were changed since, or would be numbered in another order.
    fn origin_of(&self, old: &Table, new: &Table) -> SqlResult<TreeId> {
        let txn = &self.view.txn;
        let origin = |build: &Build| match build {
            Build::Cluster { from, tree, .. } if *tree == old.tree => Some(*from),
            _ => None,
        };
        match txn.built.iter().find_map(origin) {
            None => Ok(old.tree),
            Some(origin) if new.primary_key.is_some() && txn.overlay.changes().of(old.tree).is_none() => {
                Ok(origin)
            }
            Some(_) => Err(SqlError::unsupported(
                "changing a table's primary key twice in one transaction, but to another one at once,",
            )),
        }
    }

    /// Errors: 23505, 42P07.
    pub fn add_unique(&mut self, table: Oid, new: NewUnique) -> Step<Oid> {
        let opened = self.open_table(table)?;
        let columns: Vec<&str> = new.columns.iter().map(|c| opened.columns[*c].name.as_str()).collect();
        let default = MadeUpName { table: &opened.name, columns: &columns, label: "key" };
        let name = match new.name {
            Some(name) => given_name(&opened, name)?,
            None => self.free_key_name(&opened, &default),
        };
        let constraint = IndexConstraint { oid: self.new_oid(), primary: false };
        let index = NewIndex {
            name: Some(name),
            columns: new.columns.iter().map(|c| IndexColumn::ascending(*c)).collect(),
            unique: true,
            nulls_not_distinct: new.nulls_not_distinct,
            ..NewIndex::default()
        };
        self.add_index(table, index, Some(constraint), Writers::Wait)
    }

    /// Adds a CHECK whose condition the caller finds true for all rows, unless it is not `validated` yet. `columns` are those it names.
    ///
    /// Errors: 42710 where the table has a constraint of that name.
    pub fn add_check(
        &mut self,
        table: Oid,
        name: Option<String>,
        expression: &str,
        columns: Vec<usize>,
        validated: bool,
    ) -> Step<Oid> {
        let mut table = self.open_table(table)?;
        let named: Vec<&str> = match columns[..] {
            [one] => vec![&table.columns[one].name],
            _ => Vec::new(),
        };
        let default = MadeUpName { table: &table.name, columns: &named, label: "check" };
        let name = match name {
            Some(name) => given_name(&table, name)?,
            None => self.free_constraint_name(&table, &default),
        };
        let oid = self.new_oid();
        table.checks.push(CheckConstraint {
            oid,
            name: name.into(),
            expression: expression.into(),
            columns,
            validated,
        });
        self.edit().put_table(table);
        Ok(oid)
    }

    /// Replaces the text of a CHECK by one that means the same, after a column was renamed.
    pub fn set_check_expression(&mut self, table: Oid, check: Oid, expression: &str) -> Step<()> {
        let mut table = self.open_table(table)?;
        let found = table.checks.iter_mut().find(|c| c.oid == check);
        found.expect("the caller found the constraint").expression = expression.into();
        self.edit().put_table(table);
        Ok(())
    }

    /// Adds a foreign key; writers of both tables wait for it, and readers do not.
    ///
    /// Errors: 42830 where the referenced columns are not unique, 42804 where types do not compare, 23503, 42710; 0A000
    /// for SET DEFAULT.
    pub fn add_foreign_key(&mut self, table: Oid, new: NewForeignKey) -> Step<Oid> {
        let mut referencing = self.open_against_writers(table)?;
        let referenced = if new.referenced_table == table {
            referencing.clone()
        } else {
            self.open_against_writers(new.referenced_table)?
        };
        if [new.on_delete, new.on_update].contains(&ReferentialAction::SetDefault) {
            return Err(SqlError::unsupported("ON DELETE or ON UPDATE SET DEFAULT").into());
        }
        if new.columns.iter().any(|column| referencing.columns[*column].is_generated()) {
            refuse_assigning(&new)?;
        }
        let names: Vec<&str> = new.columns.iter().map(|c| referencing.columns[*c].name.as_str()).collect();
        let default = MadeUpName { table: &referencing.name, columns: &names, label: "fkey" };
        let name = match &new.name {
            Some(name) => given_name(&referencing, name.clone())?,
            None => self.free_constraint_name(&referencing, &default),
        };
        let names = self.view.session.and_then(|session| session.format.names.as_deref());
        let (columns, index) = match_columns(&referencing, &referenced, &new, &name, names)?;
        let oid = self.new_oid();
        referencing.foreign_keys.push(ForeignKey {
            oid,
            name: name.into(),
            columns: columns.iter().map(|(c, _)| *c).collect(),
            referenced_table: new.referenced_table,
            referenced_columns: columns.iter().map(|(_, r)| *r).collect(),
            referenced_index: index,
            on_delete: new.on_delete,
            on_update: new.on_update,
            match_type: new.match_type,
            deferral: new.deferral,
            validated: new.rows != RowsNow::NotValid,
        });
        let by = ReferencedBy { table, constraint: oid };
        if new.referenced_table == table {
            referencing.referenced_by.push(by);
        } else {
            let mut referenced = referenced;
            referenced.referenced_by.push(by);
            self.edit().put_table(referenced);
        }
        self.edit().put_table(referencing);
        if new.rows == RowsNow::Checked {
            self.check_all_references(table, oid)?;
        }
        Ok(oid)
    }

    /// As [`Ddl::open_table`], where the rows stay as they are: whoever reads them may go on.
    fn open_against_writers(&mut self, table: Oid) -> Step<Table> {
        self.view.lock_table(table, TableLock::ShareRowExclusive, WaitPolicy::Wait)?;
        Ok((*self.view.table(table)?).clone())
    }

    /// Checks a foreign key for all rows of its table, now whatever its deferral.
    fn check_all_references(&mut self, table: Oid, constraint: Oid) -> Step<()> {
        let table = self.view.table(table)?;
        let key = table.foreign_key(constraint).expect("the caller has found it");
        self.look_at_each(&table, |ddl, row| {
            if let Some(values) = key.referencing_values(&row) {
                ddl.view.check_standing_reference(&table, key, &values)?;
            }
            ddl.view.finish_statement()
        })
    }

    /// Locks a table one of whose columns gets other values, and the tables that foreign keys of the column tie to it.
    pub fn lock_for_new_values(&mut self, table: Oid, column: usize) -> Step<()> {
        let table = self.open_table(table)?;
        for (referencing, constraint) in self.keys_of_columns(&table, &[column]) {
            if referencing != table.oid {
                self.lock_exclusive(referencing)?;
            } else if let Some(key) = table.foreign_key(constraint) {
                // One lock for all the rows that are referenced.
                self.view.lock_table(key.referenced_table, TableLock::Share, WaitPolicy::Wait)?;
            }
        }
        Ok(())
    }

    /// Checks the foreign keys that columns with new values, perhaps of other types, have a part in.
    ///
    /// Errors: 42804 where types do not compare any more, 23503.
    pub fn recheck_foreign_keys(&mut self, table: Oid, columns: &[usize]) -> Step<()> {
        let table = self.view.table(table)?;
        for (referencing, constraint) in self.keys_of_columns(&table, columns) {
            let referencing = self.view.table(referencing)?;
            let key = referencing.foreign_key(constraint).expect("found right here");
            let referenced = self.view.table(key.referenced_table)?;
            let names = self.view.session.and_then(|session| session.format.names.as_deref());
            for (from, to) in key.columns.iter().zip(&key.referenced_columns) {
                require_comparable(&referencing.columns[*from], &referenced.columns[*to], &key.name, names)?;
            }
            // Of one that is not valid the older rows need not hold.
            if key.validated {
                self.check_all_references(referencing.oid, constraint)?;
            }
        }
        Ok(())
    }

    /// The foreign keys that have one of these columns of a table on either side: each by the referencing table and its oid.
    fn keys_of_columns(&self, table: &Table, columns: &[usize]) -> Vec<(Oid, Oid)> {
        let has_one = |of: &[usize]| of.iter().any(|column| columns.contains(column));
        let own = table.foreign_keys.iter().filter(|key| has_one(&key.columns));
        let mut keys: Vec<(Oid, Oid)> = own.map(|key| (table.oid, key.oid)).collect();
        for by in &table.referenced_by {
            let other = self.catalog().table(by.table);
            let key = other.and_then(|other| other.foreign_key(by.constraint));
            if key.is_some_and(|key| has_one(&key.referenced_columns))
                && !keys.contains(&(by.table, by.constraint))
            {
                keys.push((by.table, by.constraint));
            }
        }
        keys
    }

    /// VALIDATE CONSTRAINT of a foreign key: checks the rows that were there before it. Readers and writers go on: whoever changes what a row references is
    /// checked, and who gives a row another key by which the look would miss it waits.
    ///
    /// Errors: 23503.
    pub fn validate_foreign_key(&mut self, table: Oid, constraint: Oid) -> Step<()> {
        self.view.lock_table(table, TableLock::ShareUpdateExclusive, WaitPolicy::Wait)?;
        let mut opened = (*self.view.table(table)?).clone();
        self.view.hold_places(&opened, RowLock::Update)?;
        let key = opened.foreign_keys.iter_mut().find(|key| key.oid == constraint);
        let key = key.expect("the caller found the constraint");
        key.validated = true;
        let referenced = key.referenced_table;
        self.view.lock_table(referenced, TableLock::RowShare, WaitPolicy::Wait)?;
        self.check_all_references(table, constraint)?;
        self.edit().put_table(opened);
        Ok(())
    }

    /// VALIDATE CONSTRAINT of a CHECK that the caller finds true for all rows. Readers and writers go on: whoever changes a row of a table whose
    /// CHECK is not valid yet checks it, whatever is changed of the row.
    pub fn set_check_validated(&mut self, table: Oid, check: Oid) -> Step<()> {
        self.view.lock_table(table, TableLock::ShareUpdateExclusive, WaitPolicy::Wait)?;
        let mut table = (*self.view.table(table)?).clone();
        let found = table.checks.iter_mut().find(|c| c.oid == check);
        found.expect("the caller found the constraint").validated = true;
        self.edit().put_table(table);
        Ok(())
    }

    /// ALTER CONSTRAINT: when the foreign key is checked from now on.
    pub fn set_deferral(&mut self, table: Oid, constraint: Oid, deferral: Deferral) -> Step<()> {
        let mut table = self.open_table(table)?;
        let key = table.foreign_keys.iter_mut().find(|key| key.oid == constraint);
        key.expect("the caller found the constraint").deferral = deferral;
        self.edit().put_table(table);
        Ok(())
    }

    /// Drops a constraint by name.
    ///
    /// Errors: 42704 where there is none, 2BP01 where a foreign key needs it.
    pub fn drop_constraint(&mut self, table: Oid, name: &str, behavior: Behavior) -> Step<Dropped> {
        let mut opened = self.open_table(table)?;
        if let Some(at) = opened.checks.iter().position(|c| c.name == name) {
            let gone = opened.checks.remove(at);
            self.edit().put_table(opened);
            self.edit().remove_comments(gone.oid);
            return Ok(Dropped::default());
        }
        if let Some(key) = opened.foreign_keys.iter().find(|k| k.name == name) {
            self.remove_foreign_key(table, key.oid)?;
            return Ok(Dropped::default());
        }
        let Some(index) = opened.indexes.iter().find(|i| i.constraint.is_some() && i.name == name) else {
            return Err(undefined_constraint(&opened, name).into());
        };
        let what = format!("constraint {name} on table {}", opened.name);
        let dropped = self.drop_references_to(table, index.oid, behavior, &what)?;
        if index.is_primary() {
            self.drop_primary_key(table)?;
        } else {
            self.remove_index(table, index.oid)?;
        }
        Ok(dropped)
    }

    /// Errors: 42704, 42710, 42P07.
    pub fn rename_constraint(&mut self, table: Oid, name: &str, new: &str) -> Step<()> {
        let mut table = self.open_table(table)?;
        given_name(&table, new.to_owned())?;
        if let Some(check) = table.checks.iter_mut().find(|c| c.name == name) {
            check.name = new.into();
        } else if let Some(key) = table.foreign_keys.iter_mut().find(|k| k.name == name) {
            key.name = new.into();
        } else {
            self.require_free_name(table.schema, new)?;
            let Some(index) = table.indexes.iter_mut().find(|i| i.constraint.is_some() && i.name == name)
            else {
                return Err(undefined_constraint(&table, name).into());
            };
            index.name = new.into();
        }
        self.edit().put_table(table);
        Ok(())
    }

    /// The first form of a made-up name that no constraint of the table's schema has.
    fn free_constraint_name(&self, table: &Table, name: &MadeUpName<'_>) -> String {
        self.free_name_of(table, name, |_| false)
    }

    /// The same for a constraint that is an index too, and so has no relation's name either.
    fn free_key_name(&self, table: &Table, name: &MadeUpName<'_>) -> String {
        self.free_name_of(table, name, |name| self.catalog().relation_in(table.schema, name).is_some())
    }

    /// `table` is as it will be, which the catalog does not know yet.
    fn free_name_of(&self, table: &Table, name: &MadeUpName<'_>, taken: impl Fn(&str) -> bool) -> String {
        let others = || self.catalog().tables().filter(|other| other.schema == table.schema);
        // Most take the first name that comes; who does not may have to try very many.
        let (is_first, known) = (Cell::new(true), OnceCell::new());
        let has_constraint = |name: &str| match is_first.replace(false) {
            true => table.has_constraint(name) || others().any(|other| other.has_constraint(name)),
            false => {
                let names = || -> FxHashSet<&str> {
                    let others = others().flat_map(|other| other.constraint_names());
                    table.constraint_names().chain(others).collect()
                };
                known.get_or_init(names).contains(name)
            }
        };
        name.free(|name| taken(name) || has_constraint(name))
    }
}

/// The given name, if the table has no constraint of it yet.
pub(super) fn given_name(table: &Table, name: String) -> SqlResult<String> {
    if table.has_constraint(&name) {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
        ));
    }
    Ok(name)
}

/// Pairs the columns of a foreign key in the order of the unique index that backs it.
fn match_columns(
    referencing: &Table,
    referenced: &Table,
    new: &NewForeignKey,
    name: &str,
    names: Option<&dyn CatalogNames>,
) -> SqlResult<(Vec<(usize, usize)>, Oid)> {
    let wanted = match &new.referenced_columns {
        Some(columns) => columns.clone(),
        None => match referenced.primary_index() {
            Some(index) => index.column_positions().collect(),
            None => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("there is no primary key for referenced table \"{}\"", referenced.name),
                ));
            }
        },
    };
    if wanted.len() != new.columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    let same = |index: &&Index| {
        index.is_referable()
            && index.columns.len() == wanted.len()
            && index.column_positions().all(|column| wanted.contains(&column))
            && wanted.iter().all(|wanted| index.column_positions().any(|column| column == *wanted))
    };
    let primary = referenced.primary_index().filter(same);
    let Some(index) = primary.or_else(|| referenced.indexes.iter().find(same)) else {
        return Err(SqlError::new(
            SqlState::INVALID_FOREIGN_KEY,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                referenced.name
            ),
        ));
    };
    let mut pairs = Vec::new();
    for column in index.column_positions() {
        let at = wanted.iter().position(|w| *w == column).expect("the index has just these columns");
        require_comparable(&referencing.columns[new.columns[at]], &referenced.columns[column], name, names)?;
        pairs.push((new.columns[at], column));
    }
    Ok((pairs, index.oid))
}

/// Errors: 42804 unless values of the column `from` may reference those of `to`, in the foreign key of that name.
fn require_comparable(
    from: &Column,
    to: &Column,
    name: &str,
    names: Option<&dyn CatalogNames>,
) -> SqlResult<()> {
    if may_reference(from.ty, to.ty) {
        return Ok(());
    }
    let shown = |ty| types::format_type_in(ty, TypeMod::NONE, names);
    let message = format!("foreign key constraint \"{name}\" cannot be implemented");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        from.name,
        to.name,
        shown(from.ty),
        shown(to.ty)
    )))
}

/// Errors: 42601 for a foreign key of a generated column that would assign to it.
fn refuse_assigning(new: &NewForeignKey) -> SqlResult<()> {
    let assigns = |action| !matches!(action, ReferentialAction::NoAction | ReferentialAction::Restrict);
    let clause = if assigns(new.on_update) {
        "ON UPDATE"
    } else if assigns(new.on_delete) && new.on_delete != ReferentialAction::Cascade {
        "ON DELETE"
    } else {
        return Ok(());
    };
    let message = format!("invalid {clause} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

fn undefined_constraint(table: &Table, name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name),
    )
}
