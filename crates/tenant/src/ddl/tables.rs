//! Tables as a whole: making, truncating and rewriting them.

use std::sync::Arc;

use base::limits::TABLE_COLUMNS_MAX;
use base::{Oid, SqlError, SqlResult, SqlState};

use super::Ddl;
use super::indexes::check_key_type;
use crate::catalog::{Column, GrantableKind, Table};
use crate::cursor::Direction;
use crate::interrupt::Step;
use crate::row::keys::KeyRange;
use crate::sequence::SequenceState;
use crate::view::{Access, State};

/// A table to make. Constraints and indexes are added to it afterwards.
#[derive(Clone, Debug)]
pub struct NewTable {
    pub schema: Oid,
    pub name: String,
    pub owner: Oid,
    pub columns: Vec<Column>,
}

impl Ddl<'_> {
    /// Makes a table, clustered on row ids until it gets a primary key.
    ///
    /// Errors: 42P07 where the name is taken, 42701 for two columns of one name, 42P16 for one without a type, 54011 for too many.
    pub fn create_table(&mut self, new: NewTable) -> SqlResult<Oid> {
        self.require_free_name(new.schema, &new.name)?;
        if new.columns.len() > TABLE_COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("tables can have at most {TABLE_COLUMNS_MAX} columns"),
            ));
        }
        for (i, column) in new.columns.iter().enumerate() {
            super::columns::refuse_system_name(&column.name)?;
            super::columns::refuse_pseudo_type(column)?;
            if new.columns[..i].iter().any(|other| other.name == column.name) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", column.name),
                ));
            }
        }
        let (oid, tree) = (self.new_oid(), self.new_tree());
        let mut table = Table::new(oid, new.schema, new.name.as_str(), new.owner, tree);
        table.columns = new.columns;
        table.acl = self.catalog().initial_acl(new.owner, Some(new.schema), GrantableKind::Table);
        self.edit().put_table(table);
        Ok(oid)
    }

    /// Empties tables by giving them new trees; the old ones go at commit. Locks them against everyone.
    ///
    /// Errors: 0A000 where a table that is not among them references one of them; the caller adds those for CASCADE.
    pub fn truncate(&mut self, tables: &[Oid], restart_identity: bool) -> Step<()> {
        for oid in tables {
            let table = self.view.table(*oid)?;
            if let Some(by) = table.referenced_by.iter().find(|by| !tables.contains(&by.table)) {
                let other = self.view.table(by.table)?;
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot truncate a table referenced in a foreign key constraint",
                )
                .with_detail(format!("Table \"{}\" references \"{}\".", other.name, table.name))
                .with_hint(format!(
                    "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                    other.name
                ))
                .into());
            }
        }
        for oid in tables {
            let mut table = self.open_table(*oid)?;
            self.view.require_none_due(&table, "TRUNCATE")?;
            self.give_new_trees(&mut table);
            self.edit().put_table(table);
            if restart_identity {
                let owned = self.catalog().sequences().filter(|s| s.owned_by.is_some_and(|(t, _)| t == *oid));
                for sequence in owned.cloned().collect::<Vec<_>>() {
                    self.view.txn.sequences.begin(sequence.oid, SequenceState::at_start(&sequence));
                }
            }
        }
        Ok(())
    }

    /// New, empty trees for a table and its indexes.
    fn give_new_trees(&mut self, table: &mut Table) {
        let old = table.tree;
        table.tree = self.new_tree();
        self.view.txn.dropped_trees.push(old);
        for index in &mut table.indexes {
            if index.tree == old {
                index.tree = table.tree;
            } else {
                self.view.txn.dropped_trees.push(index.tree);
                index.tree = self.view.tenant.next_tree();
            }
        }
    }

    /// Rewrites every row of a table into new trees under a new definition (`ALTER COLUMN TYPE`). `change` alters the
    /// definition; `convert` makes a new row of each old one. Constraints are checked as for inserts, but for foreign keys: where their
    /// columns get new values, [`Ddl::recheck_foreign_keys`] does.
    pub fn rewrite_table(
        &mut self,
        oid: Oid,
        change: impl FnOnce(&mut Table) -> SqlResult<()>,
        convert: &mut dyn FnMut(types::Row) -> SqlResult<types::Row>,
    ) -> Step<()> {
        let old = Arc::new(self.open_table(oid)?);
        let mut table = (*old).clone();
        change(&mut table)?;
        for index in &table.indexes {
            for at in index.column_positions() {
                let ty = table.columns[at].ty;
                if old.columns.get(at).is_none_or(|column| column.ty != ty) {
                    check_key_type(ty, index.unique)?;
                }
            }
        }
        for column in &mut table.columns {
            column.missing = None;
        }
        self.give_new_trees(&mut table);
        self.edit().put_table(table);
        let table = self.view.table(oid)?;
        let mut scan =
            self.view.scan_state(&old, Access::Table, KeyRange::all(), Direction::Forward, State::Newest);
        loop {
            let row = match self.view.next(&mut scan)? {
                Some(row) => row.to_row()?,
                None => break,
            };
            let row = convert(row)?;
            self.view.insert(&table, &row)?;
        }
        // References do not change with the form of the rows.
        self.view.txn.checks.clear();
        Ok(())
    }
}
