//! The catalog's names as a session's search path finds them, for input and output functions (`regclass`, enums).

use std::sync::Arc;

use base::Oid;
use tenant::catalog::{Catalog, Relation};
use types::{CatalogNames, PgType};

use super::setting_statement::quote_if_needed;

/// One version of a catalog, seen through one search path.
#[derive(Debug)]
pub struct PathNames {
    catalog: Arc<Catalog>,
    search_path: Vec<Oid>,
}

impl PathNames {
    /// The names of `catalog` with these schemas searched in order.
    pub fn new(catalog: Arc<Catalog>, search_path: Vec<Oid>) -> PathNames {
        PathNames { catalog, search_path }
    }

    /// Whether it shows this version of the catalog.
    pub(super) fn shows(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    /// As [`PathNames::shows`], for a borrowed catalog.
    pub(super) fn is_of(&self, catalog: &Catalog) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.catalog), catalog)
    }

    /// The schemas searched, in order.
    pub(super) fn search_path(&self) -> &[Oid] {
        &self.search_path
    }

    fn qualified(&self, schema: Oid, name: &str, in_path: bool) -> String {
        let name = quote_if_needed(name);
        if in_path { name } else { format!("{}.{name}", quote_if_needed(self.catalog.schema_name(schema))) }
    }
}

impl CatalogNames for PathNames {
    fn enum_label(&self, type_oid: u32, order: u32) -> Option<&str> {
        self.catalog.enum_type(Oid(type_oid))?.label_of(order)
    }

    fn enum_order(&self, type_oid: u32, label: &str) -> Option<u32> {
        self.catalog.enum_type(Oid(type_oid))?.order_of(label)
    }

    fn enum_labels(&self, type_oid: u32) -> Vec<(u32, String)> {
        let labels = self.catalog.enum_type(Oid(type_oid)).map(|ty| ty.labels.as_slice()).unwrap_or_default();
        labels.iter().map(|label| (label.order, label.label.to_string())).collect()
    }

    fn type_name(&self, type_oid: u32) -> Option<String> {
        let ty = self.catalog.enum_type(Oid(type_oid))?;
        let found = self.catalog.find_enum(None, &ty.name, &self.search_path);
        Some(self.qualified(ty.schema, &ty.name, found.is_some_and(|found| found.oid == ty.oid)))
    }

    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Option<PgType> {
        self.catalog.find_enum(schema, name, &self.search_path).map(|ty| PgType::Enum(ty.oid))
    }

    fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        self.catalog.find_relation(schema, name, &self.search_path).map(|relation| relation.oid().0)
    }

    fn relation_name(&self, oid: u32) -> Option<String> {
        let relation = self.catalog.relation(Oid(oid))?;
        let found = self.catalog.find_relation(None, relation.name(), &self.search_path).map(Relation::oid);
        Some(self.qualified(relation.schema(), relation.name(), found == Some(relation.oid())))
    }

    fn namespace_oid(&self, name: &str) -> Option<u32> {
        self.catalog.schema_named(name).map(|schema| schema.oid.0)
    }

    fn namespace_name(&self, oid: u32) -> Option<String> {
        self.catalog.schema(Oid(oid)).map(|schema| schema.name.to_string())
    }

    fn role_oid(&self, name: &str) -> Option<u32> {
        self.catalog.role_named(name).map(|role| role.oid.0)
    }

    fn role_name(&self, oid: u32) -> Option<String> {
        self.catalog.role(Oid(oid)).map(|role| role.name.to_string())
    }
}
