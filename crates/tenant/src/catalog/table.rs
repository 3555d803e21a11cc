//! Tables: columns, indexes and constraints. A table's record holds all of them, so one catalog record changes when a
//! table does. `referenced_by` repeats the foreign keys of other tables; whoever changes one side changes both.

use std::sync::Arc;

use base::{Oid, TreeId};
use compact_str::CompactString;
use types::{Datum, PgType, TypeMod};

use super::{Acl, KeyFunction, RowTest};
use crate::row::RowLayout;

/// A table of a tenant. Shared as `Arc<Table>` and never changed in place: DDL replaces it.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    pub oid: Oid,
    pub schema: Oid,
    pub name: CompactString,
    pub owner: Oid,
    /// In attribute order; a dropped column keeps its place, so attribute number = position + 1 for ever.
    pub columns: Vec<Column>,
    /// The tree that holds the rows, clustered on the primary key or on a hidden row id.
    pub tree: TreeId,
    /// Position of the primary key in `indexes`; `None` for a table clustered on hidden row ids.
    pub primary_key: Option<usize>,
    /// In order of creation. The primary key's entry stands for the table's own tree and has no tree of its own.
    pub indexes: Vec<Index>,
    pub checks: Vec<CheckConstraint>,
    pub foreign_keys: Vec<ForeignKey>,
    /// Foreign keys of any table, this one included, that reference this table.
    pub referenced_by: Vec<ReferencedBy>,
    /// `None` stands for the owner's default privileges.
    pub acl: Option<Acl>,
    /// Derived from the columns; see [`Table::refresh_layout`].
    pub layout: RowLayout,
}

/// A column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub name: CompactString,
    pub ty: PgType,
    pub typmod: TypeMod,
    pub not_null: bool,
    /// SQL text of the default expression.
    pub default: Option<Box<str>>,
    pub identity: Option<Identity>,
    /// The sequence owned by this column (`serial`, identity), dropped with it.
    pub sequence: Option<Oid>,
    pub dropped: bool,
    /// What rows written before the column was added have in it; `None` stands for NULL.
    pub missing: Option<Box<Datum>>,
}

/// How an identity column treats values given by the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    Always,
    ByDefault,
}

/// An index; the primary key and unique constraints are indexes too.
#[derive(Clone, PartialEq, Debug)]
pub struct Index {
    pub oid: Oid,
    pub name: CompactString,
    pub columns: Vec<IndexColumn>,
    pub unique: bool,
    /// `NULLS NOT DISTINCT`: two NULLs violate uniqueness.
    pub nulls_not_distinct: bool,
    /// The constraint this index enforces, if it was made by one.
    pub constraint: Option<IndexConstraint>,
    /// The tree of the entries; for the primary key the table's own tree.
    pub tree: TreeId,
    /// Of a partial index: the rows of which this is true have an entry, and no others. A constraint's has none.
    pub predicate: Option<Arc<RowTest>>,
    /// Columns named by INCLUDE. They are part of the definition alone: entries lead to their rows, which have them.
    pub included: Vec<usize>,
}

/// A primary key or unique constraint; it has the name of its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexConstraint {
    pub oid: Oid,
    pub primary: bool,
}

/// A key column of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexColumn {
    /// Position in the table's columns.
    pub column: usize,
    /// What the keys are of the column's values; `None` for these themselves. A constraint's have none.
    pub function: Option<KeyFunction>,
    pub descending: bool,
    pub nulls_first: bool,
}

impl IndexColumn {
    /// Ascending, NULLs last: PostgreSQL's default.
    pub const fn ascending(column: usize) -> IndexColumn {
        IndexColumn { column, function: None, descending: false, nulls_first: false }
    }
}

/// A CHECK constraint. The text is evaluated by the layer above; it is kept here to be shown and dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConstraint {
    pub oid: Oid,
    pub name: CompactString,
    /// SQL text of the condition, without the outer parentheses.
    pub expression: Box<str>,
    /// Positions of the columns the condition names.
    pub columns: Vec<usize>,
    /// False where it was added NOT VALID, for rows that come only, and not validated since.
    pub validated: bool,
}

/// A foreign key of the table that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    pub oid: Oid,
    pub name: CompactString,
    /// Positions in the referencing table, in the order of `referenced_columns`.
    pub columns: Vec<usize>,
    pub referenced_table: Oid,
    /// Positions in the referenced table, in the key order of `referenced_index`.
    pub referenced_columns: Vec<usize>,
    /// The primary key or unique index that makes the referenced columns unique.
    pub referenced_index: Oid,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
    pub match_type: MatchType,
    pub deferral: Deferral,
    /// As of a [`CheckConstraint`].
    pub validated: bool,
}

/// When a constraint is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deferral {
    /// At each statement's end, always.
    #[default]
    NotDeferrable,
    /// At each statement's end, unless SET CONSTRAINTS puts it off to the transaction's.
    InitiallyImmediate,
    /// At the transaction's end, unless SET CONSTRAINTS asks for it earlier.
    InitiallyDeferred,
}

/// What happens to referencing rows when the referenced key goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferentialAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Deferral {
    pub fn is_deferrable(self) -> bool {
        self != Deferral::NotDeferrable
    }
    pub fn is_initially_deferred(self) -> bool {
        self == Deferral::InitiallyDeferred
    }
}

/// How NULLs in some of the referencing columns are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchType {
    /// Any NULL satisfies the constraint.
    Simple,
    /// All columns NULL, or none.
    Full,
}

/// The other side of a foreign key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferencedBy {
    pub table: Oid,
    pub constraint: Oid,
}

impl Column {
    /// A nullable column without default.
    pub fn new(name: impl Into<CompactString>, ty: PgType, typmod: TypeMod) -> Column {
        Column {
            name: name.into(),
            ty,
            typmod,
            not_null: false,
            default: None,
            identity: None,
            sequence: None,
            dropped: false,
            missing: None,
        }
    }
}

impl Table {
    /// Position and definition of the column called `name`.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, c)| !c.dropped && c.name == name)
    }

    /// The columns that were not dropped, with their positions.
    pub fn live_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, c)| !c.dropped)
    }

    /// The primary key's index.
    pub fn primary_index(&self) -> Option<&Index> {
        self.primary_key.map(|i| &self.indexes[i])
    }

    /// Whether `index` is the primary key, and so the table's own tree.
    pub fn is_primary(&self, index: &Index) -> bool {
        index.tree == self.tree
    }

    /// The indexes with a tree of their own: all but the primary key.
    pub fn secondary_indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(|i| i.tree != self.tree)
    }

    pub fn index(&self, oid: Oid) -> Option<&Index> {
        self.indexes.iter().find(|i| i.oid == oid)
    }

    pub fn foreign_key(&self, oid: Oid) -> Option<&ForeignKey> {
        self.foreign_keys.iter().find(|k| k.oid == oid)
    }

    /// Whether a constraint of this table is called `name`.
    pub fn has_constraint(&self, name: &str) -> bool {
        self.constraint_names().any(|own| own == name)
    }

    /// The names of its constraints.
    pub(crate) fn constraint_names(&self) -> impl Iterator<Item = &str> {
        let checks = self.checks.iter().map(|check| check.name.as_str());
        let keys = self.foreign_keys.iter().map(|key| key.name.as_str());
        let unique = self.indexes.iter().filter(|index| index.constraint.is_some());
        checks.chain(keys).chain(unique.map(|index| index.name.as_str()))
    }

    /// Its indexes and constraints.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Oid> {
        let indexes =
            self.indexes.iter().flat_map(|index| [Some(index.oid), index.constraint.map(|c| c.oid)]);
        let checks = self.checks.iter().map(|check| check.oid);
        indexes.flatten().chain(checks).chain(self.foreign_keys.iter().map(|key| key.oid))
    }

    /// Brings the derived row layout in line with the columns; call after changing them.
    pub fn refresh_layout(&mut self) {
        self.layout = RowLayout::of(&self.columns);
    }

    /// Names of the given columns, separated by commas, as PostgreSQL's details list them.
    pub fn column_names(&self, columns: impl IntoIterator<Item = usize>) -> String {
        let names: Vec<&str> = columns.into_iter().map(|c| self.columns[c].name.as_str()).collect();
        names.join(", ")
    }
}

impl Index {
    pub fn is_primary(&self) -> bool {
        self.constraint.is_some_and(|c| c.primary)
    }

    /// Whether its keys are the values of columns, and not of functions of them.
    pub fn is_plain(&self) -> bool {
        self.columns.iter().all(|column| column.function.is_none())
    }

    /// Positions of the key columns in the table, those of functions among them.
    pub fn column_positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().map(|c| c.column)
    }

    /// Whether its entries depend on the values of this column.
    pub fn uses(&self, column: usize) -> bool {
        self.column_positions().any(|own| own == column)
            || self.predicate.as_ref().is_some_and(|predicate| predicate.names(column))
    }

    /// Whether its definition names this column, and so goes with it.
    pub fn names(&self, column: usize) -> bool {
        self.uses(column) || self.included.contains(&column)
    }

    /// Whether every row has an entry that has values in all of these columns.
    pub fn has_all_with_values_in(&self, columns: &[usize]) -> bool {
        let says_no_more = |test: &RowTest| match test {
            RowTest::IsNull { column, negated: true } => columns.contains(column),
            _ => false,
        };
        self.predicate.as_ref().is_none_or(|predicate| predicate.conjuncts().iter().all(says_no_more))
    }
}
