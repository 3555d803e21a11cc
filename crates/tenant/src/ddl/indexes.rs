//! Indexes.

use std::sync::Arc;

use base::limits::INDEX_COLUMNS_MAX;
use base::{Oid, SqlError, SqlResult, SqlState, TreeId};
use types::PgType;

use super::drop::still_needed;
use super::{Behavior, Ddl, Dropped, MadeUpName};
use crate::catalog::{Index, IndexColumn, IndexConstraint, Relation, RowTest};
use crate::interrupt::Step;
use crate::locks::{TableLock, WaitPolicy};

/// Whether an index may have a column of that type.
///
/// Errors: 42704 for json, which has no order; 0A000 for jsonb in a unique one, as values that are equal but for the scale of a
/// number have keys of their own.
pub(super) fn check_key_type(ty: PgType, unique: bool) -> SqlResult<()> {
    match ty.element().unwrap_or(ty) {
        PgType::Json => {
            let message =
                format!("data type {} has no default operator class for access method \"btree\"", ty.name());
            let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).with_hint(hint))
        }
        PgType::Jsonb if unique => Err(SqlError::unsupported("a unique index or primary key on jsonb")),
        _ => Ok(()),
    }
}

/// An index to make.
#[derive(Clone, Debug, Default)]
pub struct NewIndex {
    /// `None` for PostgreSQL's made-up name.
    pub name: Option<String>,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    pub nulls_not_distinct: bool,
    /// Of the rows alone of which this is true.
    pub predicate: Option<Arc<RowTest>>,
    /// Columns that INCLUDE names.
    pub included: Vec<usize>,
}

/// What becomes of those who change rows of a table while an index of it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writers {
    Wait,
    GoOn,
}

impl Ddl<'_> {
    /// Makes an index and fills it from the table's rows; writers wait meanwhile.
    ///
    /// Errors: 42P07 where the name is taken, 23505 where rows are not unique, 54011 for too many columns, 42704 and 0A000 for
    /// columns of types that it cannot have.
    pub fn create_index(&mut self, table: Oid, new: NewIndex) -> Step<Oid> {
        self.view.lock_table(table, TableLock::Share, WaitPolicy::Wait)?;
        self.add_index(table, new, None, Writers::Wait)
    }

    pub(super) fn add_index(
        &mut self,
        oid: Oid,
        new: NewIndex,
        constraint: Option<IndexConstraint>,
        writers: Writers,
    ) -> Step<Oid> {
        assert!(constraint.is_none() || new.predicate.is_none(), "a constraint is of all rows");
        let mut table = (*self.view.table(oid)?).clone();
        if new.columns.len() + new.included.len() > INDEX_COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
            )
            .into());
        }
        for column in &new.columns {
            let ty = table.columns[column.column].ty;
            assert!(
                column.function.is_none_or(|function| function.takes(ty)),
                "the caller knows its columns"
            );
            check_key_type(ty, new.unique)?;
        }
        let name = match new.name {
            Some(name) => {
                self.require_free_name(table.schema, &name)?;
                name
            }
            None => {
                let name = |position: usize| table.columns[position].name.as_str();
                let key =
                    |key: &IndexColumn| key.function.map_or(name(key.column), |function| function.name());
                let keys = new.columns.iter().map(key);
                let columns: Vec<&str> =
                    keys.chain(new.included.iter().map(|column| name(*column))).collect();
                let label = if constraint.is_some() { "key" } else { "idx" };
                let default = MadeUpName { table: &table.name, columns: &columns, label };
                self.free_relation_name(table.schema, &default)
            }
        };
        let index = Index {
            oid: self.new_oid(),
            name: name.into(),
            columns: new.columns,
            unique: new.unique,
            nulls_not_distinct: new.nulls_not_distinct,
            constraint,
            // Which one, its build says.
            tree: TreeId(0),
            predicate: new.predicate,
            included: new.included,
        };
        table.indexes.push(index.clone());
        table.refresh_layout();
        let shared = Arc::new(table);
        let tree = match writers {
            Writers::Wait => self.build_index(&shared, &index)?,
            Writers::GoOn => self.build_index_beside(&shared, &index)?,
        };
        let mut table = Arc::unwrap_or_clone(shared);
        table.indexes.last_mut().expect("just added").tree = tree;
        self.edit().put_table(table);
        Ok(index.oid)
    }

    /// Drops an index that no constraint made.
    ///
    /// Errors: 2BP01 for a constraint's index, or one that a foreign key needs.
    pub fn drop_index(&mut self, oid: Oid, behavior: Behavior) -> Step<Dropped> {
        let Some(Relation::Index(table, at)) = self.catalog().relation(oid).cloned() else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("index with OID {oid} does not exist"),
            )
            .into());
        };
        let index = table.indexes[at].clone();
        if index.constraint.is_some() {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop index {} because constraint {} on table {} requires it",
                    index.name, index.name, table.name
                ),
            )
            .with_hint(format!("You can drop constraint {} on table {} instead.", index.name, table.name))
            .into());
        }
        let dropped = self.drop_references_to(table.oid, oid, behavior, &format!("index {}", index.name))?;
        self.remove_index(table.oid, oid)?;
        Ok(dropped)
    }

    /// Drops the foreign keys that need an index, and the views. Errors: 2BP01 under RESTRICT.
    pub(super) fn drop_references_to(
        &mut self,
        table: Oid,
        index: Oid,
        behavior: Behavior,
        what: &str,
    ) -> Step<Dropped> {
        let mut dropped = Dropped::default();
        let mut keys = Vec::new();
        for by in &self.view.table(table)?.referenced_by {
            let other = self.view.table(by.table)?;
            if let Some(key) = other.foreign_key(by.constraint)
                && key.referenced_index == index
            {
                keys.push((by.table, by.constraint));
                dropped.cascaded.push(format!("constraint {} on table {}", key.name, other.name));
            }
        }
        let views: Vec<Oid> = self
            .catalog()
            .views()
            .filter(|view| view.depends_on.iter().any(|used| used.object == index))
            .map(|view| view.oid)
            .collect();
        let named = views.iter().filter_map(|view| self.catalog().view(*view));
        dropped.cascaded.extend(named.map(|view| format!("view {}", view.name)));
        if behavior == Behavior::Restrict && !dropped.cascaded.is_empty() {
            let lines: Vec<String> =
                dropped.cascaded.iter().map(|n| format!("{n} depends on {what}")).collect();
            return Err(still_needed(what, &lines).into());
        }
        for (table, constraint) in keys {
            self.remove_foreign_key(table, constraint)?;
        }
        if !views.is_empty() {
            dropped.cascaded.extend(self.drop_relations(&views, behavior)?.cascaded);
        }
        Ok(dropped)
    }

    /// Takes a secondary index out of its table.
    pub(super) fn remove_index(&mut self, table: Oid, index: Oid) -> Step<()> {
        let mut table = self.open_table(table)?;
        let at = table.indexes.iter().position(|i| i.oid == index).expect("found by the caller");
        let gone = table.indexes.remove(at);
        assert_ne!(gone.tree, table.tree, "the primary key is not dropped as an index");
        table.primary_key = table.indexes.iter().position(Index::is_primary);
        self.view.txn.dropped_trees.push(gone.tree);
        self.edit().put_table(table);
        self.edit().remove_comments(index);
        Ok(())
    }
}
