//! Finding a relation by name among the tenant's own and the system's.

use base::Oid;
use tenant::catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG, Relation};

use super::{SystemTable, system_table};

/// What a relation's name stands for.
#[derive(Clone, Copy, Debug)]
pub enum FoundRelation<'c> {
    /// One of the system's own.
    System(&'static SystemTable),
    Own(&'c Relation),
}

/// What the name stands for in that schema, or in the first of the path that has it. The system's schemas have their places in the path like any other.
pub fn find_relation<'c>(
    catalog: &'c Catalog,
    schema: Option<&str>,
    name: &str,
    path: &[Oid],
) -> Option<FoundRelation<'c>> {
    let system = |schema: &str| system_table(Some(schema), name).map(FoundRelation::System);
    let own = |schema| catalog.relation_in(schema, name).map(FoundRelation::Own);
    if let Some(schema) = schema {
        return system(schema).or_else(|| own(catalog.schema_named(schema)?.oid));
    }
    path.iter().find_map(|schema| match *schema {
        PG_CATALOG => system("pg_catalog"),
        INFORMATION_SCHEMA => system("information_schema"),
        schema => own(schema),
    })
}
