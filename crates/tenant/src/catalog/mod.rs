//! The catalog of one tenant: what exists, under which name, owned by whom.
//!
//! A [`Catalog`] is a value. Everyone reads it through `Arc<Catalog>`; a transaction with DDL works on its own copy, whose
//! objects are shared with the original until they change, and commit replaces the tenant's. The records of the catalog
//! tree are the truth; names, row layouts and this value are derived from them when the tenant is opened.

mod bootstrap;
mod codec;
mod database;
mod footprint;
mod key_function;
mod lookup;
mod objects;
mod privileges;
mod records;
mod role;
mod row_test;
mod statistics;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Oid;
use compact_str::CompactString;
use rustc_hash::FxHashMap;

pub use bootstrap::{INFORMATION_SCHEMA, OWNER_ROLE, PG_CATALOG, PLPGSQL, PUBLIC_SCHEMA};
pub(crate) use codec::{Decode, Encode, Malformed};
pub use database::{DATABASE, Database, DefaultAcl, Extension, GrantableKind, StartSettings, Unwatched};
pub(crate) use footprint::{PARTS_LEN_MAX, TEXTS_LEN_MAX};
pub use key_function::KeyFunction;
pub use objects::{Dependency, EnumLabel, EnumType, Schema, Sequence, ViewColumn, ViewDefinition};
pub use privileges::{Acl, AclItem, PUBLIC, Privileges};
pub(crate) use records::{RecordChange, RecordKey, RecordKind, decode_record, encode_record};
pub use role::{Membership, Role, RoleAttributes, check_role_name};
pub use row_test::{Blanks, Comparison, ROW_TEST_DEPTH_MAX, RowTest};
pub use statistics::{ColumnStatistics, TableStatistics};
pub use table::{
    CheckConstraint, Column, Deferral, ForeignKey, Identity, Index, IndexColumn, IndexConstraint, MatchType,
    ReferencedBy, ReferentialAction, Table,
};

/// The first oid given to a user's object, as in PostgreSQL.
pub const FIRST_USER_OID: Oid = Oid(16384);

/// Anything that lives in a schema's table of relation names.
#[derive(Clone, Debug)]
pub enum Relation {
    Table(Arc<Table>),
    /// An index: its table, and its position in the table's `indexes`.
    Index(Arc<Table>, usize),
    View(Arc<ViewDefinition>),
    Sequence(Arc<Sequence>),
}

/// Everything that exists in one tenant, as of one moment.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Changes with every change of the catalog; what was planned against another version must be planned again. Of no
    /// two catalogs the same: a transaction's own DDL, rolled back, must not share one with the DDL that is committed next.
    version: u64,
    schemas: BTreeMap<Oid, Arc<Schema>>,
    relations: FxHashMap<Oid, Relation>,
    relation_names: FxHashMap<(Oid, CompactString), Oid>,
    enums: BTreeMap<Oid, Arc<EnumType>>,
    roles: BTreeMap<Oid, Arc<Role>>,
    /// By object, and column position where the comment is on a column.
    comments: BTreeMap<(Oid, Option<usize>), Arc<str>>,
    statistics: FxHashMap<Oid, Arc<TableStatistics>>,
    /// `None` where nothing is said of the database as a whole.
    database: Option<Arc<Database>>,
    /// Bytes of what its definitions have in texts of any length.
    texts_len: usize,
    /// Bytes of all else that they have, about.
    parts_len: usize,
}

impl Catalog {
    /// Bytes that a copy takes, about: what two share until it changes is in neither.
    pub fn footprint(&self) -> u64 {
        let found = self.relations.len() + self.relation_names.len() + self.statistics.len();
        let sorted = self.schemas.len() + self.enums.len() + self.roles.len() + self.comments.len();
        (64 * (found + sorted)) as u64
    }

    /// Gives the catalog a version that none of this process has had; for every change of it.
    fn changed(&mut self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only that no number comes twice matters.
        self.version = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }
}
