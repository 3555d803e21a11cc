//! Changing the catalog: the primitives that DDL statements are made of.
//!
//! A transaction with DDL holds the tenant-wide DDL lock to its end and works on its own copy of the catalog, which commit
//! makes the tenant's. Names, privileges and defaults are the caller's to judge; what depends on what is judged here.

mod beside;
mod build;
mod columns;
mod constraints;
mod database;
mod drop;
mod filling;
mod indexes;
mod made_up_name;
mod schemas;
mod sequences;
mod tables;
mod types_and_views;
mod users;

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState, TreeId};
use types::Row;

use crate::catalog::{Catalog, Table};
use crate::interrupt::Step;
use crate::locks::{LockMode, LockTag, TableLock, WaitPolicy};
use crate::view::View;

pub(crate) use beside::Beside;
pub(crate) use build::BuildFailed;
pub use constraints::{NewForeignKey, NewUnique, RowsNow};
pub use drop::Dropped;
pub(crate) use filling::Filling;
pub use indexes::NewIndex;
pub use made_up_name::MadeUpName;
pub use tables::NewTable;
pub use types_and_views::LabelSide;

/// Constraints of a table that is changed without asking its session whether that is still wanted: copying them and looking at their names takes
/// some 50 us.
const CONSTRAINTS_UNASKED: usize = 256;

/// What happens to objects that depend on what is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Behavior {
    /// They stop it: 2BP01.
    #[default]
    Restrict,
    Cascade,
}

impl View<'_> {
    /// The right to change the catalog, held to the transaction's end. Waits while another transaction has it.
    ///
    /// Errors: 25006 in a read-only transaction, 40001 in a snapshot transaction whose catalog is not the newest, 54000 where it has made too many
    /// definitions or identifiers are used up, and 53200 where snapshots read too many others ([`crate::change_memory`]).
    pub fn ddl(&mut self) -> Step<Ddl<'_>> {
        if self.txn.read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot change the catalog in a read-only transaction",
            )
            .into());
        }
        self.ddl_for_statistics()
    }

    /// As [`View::ddl`], for what reads the same before and after it: also in a read-only transaction.
    pub fn ddl_for_statistics(&mut self) -> Step<Ddl<'_>> {
        // Who has a branch has both, so nothing is lost by waiting for that first; in one order nobody waits in a circle.
        for tag in [LockTag::Branch, LockTag::Ddl] {
            self.tenant.lock(self.txn, tag, LockMode::FOR_DDL, WaitPolicy::Wait)?;
        }
        self.count_changes()?;
        if self.tenant.counters.are_used_up() {
            let message = "the identifiers of the database's objects are used up";
            let hint = "TRUNCATE takes new ones, too. Copy the data into a new database.";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint(hint).into());
        }
        if self.txn.catalog.is_none() {
            if self.txn.frozen.as_ref().is_some_and(|f| !Arc::ptr_eq(&f.catalog, &self.tenant.catalog)) {
                return Err(crate::row_lock::serialization_failure().into());
            }
            self.tenant.require_few_old_catalogs()?;
            self.txn.catalog = Some(Arc::new((*self.tenant.catalog).clone()));
        }
        self.tenant.require_small_definitions(self.txn)?;
        self.txn.wrote_catalog = true;
        Ok(Ddl { view: self.reborrow(), named: |_, _| Vec::new() })
    }
}

/// The objects that the text of a default or a check names, which it cannot be without.
pub type ObjectsNamed = fn(&Arc<Catalog>, &str) -> Vec<Oid>;

/// The right to change the catalog.
pub struct Ddl<'a> {
    pub(crate) view: View<'a>,
    pub(crate) named: ObjectsNamed,
}

impl<'a> Ddl<'a> {
    /// Has the texts that the catalog keeps read by `named`. Without, a text depends on nothing.
    pub fn reading(self, named: ObjectsNamed) -> Ddl<'a> {
        Ddl { named, ..self }
    }

    /// The view it was got from, to read rows and lock tables.
    pub fn view(&mut self) -> View<'_> {
        self.view.reborrow()
    }

    /// The catalog as changed so far.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.view.catalog()
    }

    /// The transaction's own copy, to change.
    pub(crate) fn edit(&mut self) -> &mut Catalog {
        Arc::make_mut(self.view.txn.catalog.as_mut().expect("made by `View::ddl`"))
    }

    /// Calls `each` for every row of a table that is locked against changes, in as many turns as that takes.
    pub(crate) fn look_at_each(
        &mut self,
        table: &Arc<Table>,
        mut each: impl FnMut(&mut Ddl<'_>, Row) -> Step<()>,
    ) -> Step<()> {
        let mut look = self.view.look_through(table);
        let outcome = loop {
            let next = look.next_row(&mut self.view);
            match next.and_then(|row| row.map(|row| each(self, row)).transpose()) {
                Ok(Some(())) => {}
                Ok(None) => break Ok(()),
                Err(interrupt) => break Err(interrupt),
            }
        };
        look.stop(&mut self.view);
        outcome
    }

    pub(crate) fn new_oid(&mut self) -> Oid {
        self.view.tenant.next_oid()
    }

    pub(crate) fn new_tree(&mut self) -> TreeId {
        self.view.tenant.next_tree()
    }

    /// Locks a table against everyone; what most forms of ALTER and DROP need.
    pub(crate) fn lock_exclusive(&mut self, table: Oid) -> Step<()> {
        self.view.lock_table(table, TableLock::AccessExclusive, WaitPolicy::Wait)
    }

    /// A table to change: locked, and cloned from the catalog. Put it back with [`Catalog::put_table`].
    pub(crate) fn open_table(&mut self, oid: Oid) -> Step<Table> {
        self.lock_exclusive(oid)?;
        let table = self.view.table(oid)?;
        if table.constraint_names().nth(CONSTRAINTS_UNASKED).is_some() {
            self.view.look()?;
        }
        Ok((*table).clone())
    }

    /// Errors: 42P07 where a relation of the schema has the name.
    pub(crate) fn require_free_name(&self, schema: Oid, name: &str) -> SqlResult<()> {
        if self.catalog().relation_in(schema, name).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        Ok(())
    }

    /// The first of a made-up name's forms that no relation of the schema has.
    pub fn free_relation_name(&self, schema: Oid, name: &MadeUpName<'_>) -> String {
        name.free(|name| self.catalog().relation_in(schema, name).is_some())
    }
}
