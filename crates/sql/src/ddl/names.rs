//! What the names in a DDL statement stand for.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, Ident, ObjectName};
use tenant::catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG, Relation, Table};
use types::{FormatContext, PgType, TypeMod};

use crate::expr::{BindContext, ParamTypes, bind_type, fold_ident};
use crate::parse::AlteredTable;
use crate::session::{Home, Pause, Reply, Session, qualified_name};

/// The catalog as the transaction sees it now, the search path, and the session's forms of values. Taken anew after each
/// change of the catalog.
pub(crate) struct Names {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) path: Vec<Oid>,
    pub(crate) format: std::sync::Arc<FormatContext>,
}

/// Parts of a name, folded.
///
/// # Errors
/// 0A000 for a name made by a function call.
pub(super) fn parts(name: &ObjectName) -> SqlResult<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part.as_ident() {
            Some(ident) => Ok(fold_ident(ident)),
            None => Err(SqlError::unsupported(format!("the name {name}"))),
        })
        .collect()
}

/// A name's optional schema and own part.
///
/// # Errors
/// 0A000 for a name of more parts.
pub(super) fn split(name: &ObjectName) -> SqlResult<(Option<String>, String)> {
    split_parts(parts(name)?)
}

pub(super) fn split_parts(mut parts: Vec<String>) -> SqlResult<(Option<String>, String)> {
    let full = parts.join(".");
    let (own, schema) = (parts.pop(), parts.pop());
    match own {
        Some(own) if parts.is_empty() => Ok((schema, own)),
        _ => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cross-database references are not implemented: \"{full}\""),
        )),
    }
}

/// Names folded.
pub(super) fn fold_all(idents: &[Ident]) -> Vec<String> {
    idents.iter().map(fold_ident).collect()
}

/// 42P01, 42704 or 3F000 for a kind of object that is not there, as PostgreSQL's DROP and ALTER say it.
pub(super) fn missing(kind: &str, name: &str) -> SqlError {
    let state = match kind {
        "table" | "view" | "sequence" | "relation" => SqlState::UNDEFINED_TABLE,
        "schema" => SqlState::INVALID_SCHEMA_NAME,
        _ => SqlState::UNDEFINED_OBJECT,
    };
    SqlError::new(state, format!("{kind} \"{name}\" does not exist"))
}

/// Tells that IF EXISTS had nothing to do.
pub(super) fn skip_missing(session: &Session, kind: &str, name: &str, out: &mut dyn Reply) {
    let message = format!("{kind} \"{name}\" does not exist, skipping");
    notice(session, SqlState::SUCCESSFUL_COMPLETION, message, out);
}

/// The tag of ALTER TABLE.
pub(super) const ALTER_TABLE: &str = "ALTER TABLE";

/// The table of an ALTER TABLE that does one thing, of the role that says so; `None` where IF EXISTS has told that it is not there.
///
/// # Errors
/// 25006, 42P01, 42809, 3F000, 42501.
pub(super) fn altered_table(
    session: &mut Session,
    home: &mut Home<'_>,
    altered: &AlteredTable,
    out: &mut dyn Reply,
) -> Result<Option<(Names, Arc<Table>)>, Pause> {
    session.require_writable(home, ALTER_TABLE)?;
    let names = session.names(home);
    let (schema, name) = split_parts(altered.name.clone())?;
    if altered.if_exists && names.catalog.find_relation(schema.as_deref(), &name, &names.path).is_none() {
        skip_missing(session, "relation", &name, out);
        return Ok(None);
    }
    names.require_schema(schema.as_deref())?;
    let table = names.catalog.resolve_table(schema.as_deref(), &name, &names.path)?.clone();
    session.check_owner(&names.catalog, table.owner, "table", &table.name)?;
    Ok(Some((names, table)))
}

/// Sends a NOTICE.
pub(super) fn notice(session: &Session, state: SqlState, message: String, out: &mut dyn Reply) {
    session.notice(&SqlError::new(state, message).with_severity(base::Severity::Notice), out);
}

impl Names {
    /// The relation of that name.
    ///
    /// # Errors
    /// 42P01.
    pub(super) fn relation(&self, schema: Option<&str>, name: &str) -> SqlResult<&Relation> {
        self.require_schema(schema)?;
        self.catalog.resolve_relation(schema, name, &self.path)
    }

    /// The table of that name.
    ///
    /// # Errors
    /// 42P01; 42809 for another kind of relation.
    pub(super) fn table(&self, name: &ObjectName) -> SqlResult<Arc<Table>> {
        let (schema, name) = split(name)?;
        self.refuse_system(schema.as_deref(), &name)?;
        self.catalog.resolve_table(schema.as_deref(), &name, &self.path).cloned()
    }

    /// Errors: 42501 for a name that only a system catalog can have.
    fn refuse_system(&self, schema: Option<&str>, name: &str) -> SqlResult<()> {
        if matches!(schema, Some("pg_catalog" | "information_schema"))
            || (schema.is_none()
                && name.starts_with("pg_")
                && self.catalog.find_relation(None, name, &self.path).is_none())
        {
            let message = format!("permission denied: \"{name}\" is a system catalog");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(())
    }

    /// Errors: 3F000 for a schema that is named and not there.
    pub(super) fn require_schema(&self, schema: Option<&str>) -> SqlResult<()> {
        match schema {
            Some(schema) if self.catalog.schema_named(schema).is_none() => Err(missing("schema", schema)),
            _ => Ok(()),
        }
    }

    /// The schema in which an object is made, which the role may do.
    ///
    /// # Errors
    /// 3F000 where there is none; 42501.
    pub(super) fn creation_schema(&self, session: &Session, schema: Option<&str>) -> SqlResult<Oid> {
        let oid = self.catalog.creation_schema(schema, &self.path)?;
        if oid == PG_CATALOG || oid == INFORMATION_SCHEMA {
            let name = self.catalog.schema_name(oid);
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create in schema \"{name}\""),
            )
            .with_detail("System catalog modifications are currently disallowed."));
        }
        session.check_create_in(&self.catalog, oid)?;
        Ok(oid)
    }

    /// The type a type name stands for.
    ///
    /// # Errors
    /// 42704, 22023, 0A000.
    pub(super) fn type_of(&self, ty: &ast::DataType) -> SqlResult<(PgType, TypeMod)> {
        let params = ParamTypes::none();
        bind_type(ty, &BindContext::simple(&params, &self.format, "a type"))
    }

    /// `schema.name`, quoted where SQL needs it.
    pub(super) fn qualified(&self, schema: Oid, name: &str) -> String {
        qualified_name(&self.catalog, schema, name)
    }
}

/// The table's column of that name.
///
/// # Errors
/// 42703.
pub(super) fn column_of(table: &Table, name: &str) -> SqlResult<usize> {
    table.column(name).map(|(position, _)| position).ok_or_else(|| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}
