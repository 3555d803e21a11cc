//! Schemas, views, sequences and enum types.

use base::Oid;
use compact_str::CompactString;
use types::PgType;

use super::Acl;

/// A namespace.
#[derive(Clone, Debug)]
pub struct Schema {
    pub oid: Oid,
    pub name: CompactString,
    pub owner: Oid,
    pub acl: Option<Acl>,
}

impl Schema {
    /// Whether it is one of those that every tenant has for the system's own tables.
    pub fn is_system(&self) -> bool {
        matches!(self.oid, super::PG_CATALOG | super::INFORMATION_SCHEMA)
    }
}

/// A view: its query's text and the columns it shows.
#[derive(Clone, Debug)]
pub struct ViewDefinition {
    pub oid: Oid,
    pub schema: Oid,
    pub name: CompactString,
    pub owner: Oid,
    /// SQL text of the query.
    pub sql: Box<str>,
    pub columns: Vec<ViewColumn>,
    /// The relations and columns the query names; dropping one of them needs CASCADE.
    pub depends_on: Vec<Dependency>,
    /// The search path the query's names were resolved with.
    pub search_path: Vec<Oid>,
    pub acl: Option<Acl>,
}

/// A column a view shows.
#[derive(Clone, Debug)]
pub struct ViewColumn {
    pub name: CompactString,
    pub ty: PgType,
    pub typmod: types::TypeMod,
}

/// What an object needs to exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// A relation, a type, or the index of a constraint.
    pub object: Oid,
    /// Position of a column of the object; `None` for the whole.
    pub column: Option<usize>,
}

/// A sequence's definition. Its current value is not here: it changes outside transactions.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub oid: Oid,
    pub schema: Oid,
    pub name: CompactString,
    pub owner: Oid,
    /// smallint, integer or bigint.
    pub ty: PgType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    /// Values a session may take at a time; stored and shown, one is taken at a time.
    pub cache: i64,
    pub cycle: bool,
    /// The table and column position it is dropped with.
    pub owned_by: Option<(Oid, usize)>,
    pub acl: Option<Acl>,
}

/// A user's enum type.
#[derive(Clone, Debug)]
pub struct EnumType {
    pub oid: Oid,
    pub array_oid: Oid,
    pub schema: Oid,
    pub name: CompactString,
    pub owner: Oid,
    /// Sorted by `order`.
    pub labels: Vec<EnumLabel>,
    pub acl: Option<Acl>,
}

/// A label of an enum. Values are stored as `order`; gaps between neighbours leave room for labels added between them.
#[derive(Clone, Debug)]
pub struct EnumLabel {
    pub oid: Oid,
    pub order: u32,
    pub label: CompactString,
}

impl EnumType {
    /// Distance of neighbouring labels at creation; less where they are more than 32,767.
    pub const ORDER_STEP: u32 = 1 << 16;

    /// Bytes of its labels, and of what goes with each.
    pub(crate) fn labels_len(&self) -> usize {
        self.labels.iter().map(|label| size_of::<EnumLabel>() + label.label.len()).sum()
    }

    pub fn order_of(&self, label: &str) -> Option<u32> {
        self.labels.iter().find(|l| l.label == label).map(|l| l.order)
    }

    pub fn label_of(&self, order: u32) -> Option<&str> {
        self.labels.binary_search_by_key(&order, |l| l.order).ok().map(|i| self.labels[i].label.as_str())
    }
}
