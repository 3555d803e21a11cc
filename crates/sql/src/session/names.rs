//! The catalog's names as a session's search path finds them, for input and output functions (`regclass`, enums).

use std::sync::Arc;

use base::Oid;
use tenant::catalog::{Catalog, Relation};
use types::{CatalogNames, PgType, quote_ident};

use crate::system::{
    FoundRelation, find_relation, function_by_oid, only_function_named, pseudo_type, pseudo_type_named,
    system_table_by_oid,
};

/// What the catalog of an idle session may take: it keeps the one of its last statement.
pub(super) const IDLE_NAMES_MAX: u64 = 64 << 10;

/// One version of a catalog, seen through one search path; the system's own tables included.
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

    /// What it keeps in memory for as long as the catalog is not that of others, by estimate.
    pub(super) fn kept(&self) -> u64 {
        self.catalog.footprint()
    }

    /// As [`PathNames::shows`], for a borrowed catalog.
    pub(super) fn is_of(&self, catalog: &Catalog) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.catalog), catalog)
    }

    /// The schemas searched, in order.
    pub(super) fn search_path(&self) -> &[Oid] {
        &self.search_path
    }
}

impl PathNames {
    /// The name of a function of an extension, with the extension's schema where the search path does not have that.
    pub(crate) fn function_of_extension(&self, extension: &str, name: &str) -> String {
        let made = self.catalog.extensions().find(|made| made.name == extension);
        match made.filter(|made| !self.search_path.contains(&made.schema)) {
            Some(made) => qualified_name(&self.catalog, made.schema, name),
            None => quote_ident(name),
        }
    }
}

/// Whether the search path finds this relation under its bare name.
pub fn is_visible(catalog: &Catalog, path: &[Oid], relation: &Relation) -> bool {
    match find_relation(catalog, None, relation.name(), path) {
        Some(FoundRelation::Own(found)) => found.oid() == relation.oid(),
        _ => false,
    }
}

/// The relation's name, qualified where the path does not find it.
pub fn relation_name(catalog: &Catalog, path: &[Oid], relation: &Relation) -> String {
    if is_visible(catalog, path, relation) {
        return quote_ident(relation.name());
    }
    qualified_name(catalog, relation.schema(), relation.name())
}

/// An object's name with its schema.
pub fn qualified_name(catalog: &Catalog, schema: Oid, name: &str) -> String {
    format!("{}.{}", quote_ident(catalog.schema_name(schema)), quote_ident(name))
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
        let (found, suffix) = match self.catalog.enum_type(Oid(type_oid)) {
            Some(found) => (found, ""),
            None => (self.catalog.enum_of_array(Oid(type_oid))?, "[]"),
        };
        let seen = self.catalog.find_enum(None, &found.name, &self.search_path);
        Some(if seen.is_some_and(|seen| seen.oid == found.oid) {
            format!("{}{suffix}", quote_ident(&found.name))
        } else {
            format!("{}{suffix}", qualified_name(&self.catalog, found.schema, &found.name))
        })
    }

    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Option<PgType> {
        if let Some(found) = self.catalog.find_enum(schema, name, &self.search_path) {
            return Some(PgType::Enum(found.oid));
        }
        let element = name.strip_prefix('_')?;
        let found = self.catalog.find_enum(schema, element, &self.search_path)?;
        PgType::Enum(found.oid).array_of()
    }

    fn pseudo_type_oid(&self, name: &str) -> Option<u32> {
        pseudo_type_named(name)
    }

    fn pseudo_type_name(&self, oid: u32) -> Option<String> {
        pseudo_type(oid).map(str::to_owned)
    }

    fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        find_relation(&self.catalog, schema, name, &self.search_path).map(|found| match found {
            FoundRelation::System(table) => table.oid,
            FoundRelation::Own(relation) => relation.oid().0,
        })
    }

    fn relation_name(&self, oid: u32) -> Option<String> {
        if let Some(system) = system_table_by_oid(oid) {
            return Some(match system.schema {
                "pg_catalog" => system.name.to_owned(),
                schema => format!("{schema}.{}", system.name),
            });
        }
        let relation = self.catalog.relation(Oid(oid))?;
        Some(relation_name(&self.catalog, &self.search_path, relation))
    }

    fn namespace_oid(&self, name: &str) -> Option<u32> {
        self.catalog.schema_named(name).map(|schema| schema.oid.0)
    }

    fn namespace_name(&self, oid: u32) -> Option<String> {
        self.catalog.schema(Oid(oid)).map(|schema| quote_ident(&schema.name))
    }

    fn function_oid(&self, name: &str) -> Option<u32> {
        only_function_named(name).map(|function| function.oid)
    }

    fn function_name(&self, oid: u32) -> Option<String> {
        function_by_oid(oid).map(|function| function.name.to_owned())
    }

    fn role_oid(&self, name: &str) -> Option<u32> {
        self.catalog.role_named(name).map(|role| role.oid.0)
    }

    fn role_name(&self, oid: u32) -> Option<String> {
        self.catalog.role(Oid(oid)).map(|role| quote_ident(&role.name))
    }
}
