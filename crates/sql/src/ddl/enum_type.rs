//! CREATE TYPE … AS ENUM and ALTER TYPE.

use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{
    AlterType, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, AlterTypeRename,
    AlterTypeRenameValue, Ident, ObjectName, UserDefinedTypeRepresentation,
};
use tenant::catalog::{Catalog, Relation, ViewDefinition};
use tenant::ddl::LabelSide;
use types::{ElementType, PgType};

use super::names::{missing, notice, split};
use super::object;
use crate::expr::fold_ident;
use crate::kept_text;
use crate::parse::{parse_expression, parse_query};
use crate::session::{Home, Pause, Reply, Session};

/// Bytes of a label, as in PostgreSQL.
const LABEL_LEN_MAX: usize = 63;

pub(super) fn create(
    session: &mut Session,
    home: &mut Home<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<(), Pause> {
    let labels = match representation {
        Some(UserDefinedTypeRepresentation::Enum { labels }) => labels,
        Some(UserDefinedTypeRepresentation::Composite { .. }) => {
            return Err(SqlError::unsupported("a composite type").into());
        }
        Some(UserDefinedTypeRepresentation::Range { .. }) => {
            return Err(SqlError::unsupported("a range type").into());
        }
        Some(UserDefinedTypeRepresentation::SqlDefinition { .. }) | None => {
            return Err(SqlError::unsupported("a base type").into());
        }
    };
    let names = session.names(home);
    let (schema, name) = split(name)?;
    let schema = names.creation_schema(session, schema.as_deref())?;
    if PgType::from_name(&name).is_some_and(|ty| ty != PgType::Unknown) {
        // A built-in name would always win where the type is used.
        return Err(SqlError::unsupported(format!("a type named like the built-in type \"{name}\"")).into());
    }
    let labels: Vec<String> = labels.iter().map(label_of).collect::<SqlResult<_>>()?;
    let owner = session.role();
    session.ddl(home, |ddl| Ok(ddl.create_enum(schema, &name, owner, &labels)?))?;
    Ok(())
}

fn label_of(ident: &Ident) -> SqlResult<String> {
    // A label is a string: its letters stay as they are.
    if ident.value.len() > LABEL_LEN_MAX {
        return Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid enum label \"{}\"", ident.value))
            .with_detail("Labels must be 63 bytes or less."));
    }
    Ok(ident.value.clone())
}

pub(super) fn alter(
    session: &mut Session,
    home: &mut Home<'_>,
    alter: &AlterType,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let AlterType { name, operation } = alter;
    let names = session.names(home);
    let (schema, name) = split(name)?;
    let ty = names
        .catalog
        .find_enum(schema.as_deref(), &name, &names.path)
        .cloned()
        .ok_or_else(|| missing("type", &name))?;
    session.check_owner(&names.catalog, ty.owner, "type", &name)?;
    match operation {
        AlterTypeOperation::Rename(AlterTypeRename { new_name }) => {
            object::rename_type(session, home, &names, ty.oid, &fold_ident(new_name))
        }
        AlterTypeOperation::AddValue(AlterTypeAddValue { if_not_exists, value, position }) => {
            let label = label_of(value)?;
            if *if_not_exists && ty.order_of(&label).is_some() {
                let message = format!("enum label \"{label}\" already exists, skipping");
                notice(session, SqlState::DUPLICATE_OBJECT, message, out);
                return Ok(());
            }
            let neighbour = position.as_ref().map(|position| match position {
                AlterTypeAddValuePosition::Before(label) => (label.value.as_str(), LabelSide::Before),
                AlterTypeAddValuePosition::After(label) => (label.value.as_str(), LabelSide::After),
            });
            session.ddl(home, |ddl| Ok(ddl.add_enum_label(ty.oid, &label, neighbour)?))
        }
        AlterTypeOperation::RenameValue(AlterTypeRenameValue { from, to }) => {
            let to = label_of(to)?;
            let defaults = defaults_of_label(&names.catalog, ty.oid, &from.value, &to)?;
            session.ddl(home, |ddl| {
                ddl.rename_enum_label(ty.oid, &from.value, &to)?;
                for (table, position, default) in &defaults {
                    ddl.set_default(*table, *position, Some(default))?;
                }
                Ok(())
            })
        }
    }
}

/// The defaults that are the label, as they are once it has its new name: the table, the column and the text.
///
/// # Errors
/// 0A000 where another text that the catalog keeps may name the label: in it that is a string like any other.
fn defaults_of_label(
    catalog: &Arc<Catalog>,
    ty: Oid,
    label: &str,
    new: &str,
) -> SqlResult<Vec<(Oid, usize, String)>> {
    let is_of = |of: PgType| match of {
        PgType::Enum(oid) | PgType::Array(ElementType::Enum(oid)) => oid == ty,
        _ => false,
    };
    let refused = |what: String| {
        Err(SqlError::unsupported(format!("renaming a label that {what} may name"))
            .with_hint("Drop it first and make it again afterwards."))
    };
    let names_label =
        |text: &str| parse_expression(text).is_ok_and(|expr| kept_text::may_name_label(&expr, label));
    let names_type = |text: &str| kept_text::objects_named(catalog, text).contains(&ty);
    let mut defaults = Vec::new();
    for table in catalog.tables() {
        let has_column = table.live_columns().any(|(_, column)| is_of(column.ty));
        for (position, column) in table.live_columns() {
            let Some(text) = column.default.as_deref().filter(|text| names_label(text)) else { continue };
            if column.is_generated() && (has_column || names_type(text)) {
                let what = format!("the expression of column \"{}\" of \"{}\"", column.name, table.name);
                return refused(what);
            }
            if !is_of(column.ty) && !names_type(text) {
                continue;
            }
            match kept_text::with_label(text, label, new) {
                Some(text) => defaults.push((table.oid, position, text)),
                None => {
                    return refused(format!(
                        "the default of column \"{}\" of \"{}\"",
                        column.name, table.name
                    ));
                }
            }
        }
        let may_name = |text: &str| names_label(text) && (has_column || names_type(text));
        if let Some(check) = table.checks.iter().find(|check| may_name(&check.expression)) {
            return refused(format!("constraint \"{}\" of \"{}\"", check.name, table.name));
        }
    }
    let shows = |object: Oid| match catalog.relation(object) {
        Some(Relation::Table(table)) => table.live_columns().any(|(_, column)| is_of(column.ty)),
        Some(Relation::View(view)) => view.columns.iter().any(|column| is_of(column.ty)),
        _ => object == ty,
    };
    let uses = |view: &&Arc<ViewDefinition>| view.depends_on.iter().any(|used| shows(used.object));
    let names_it = |view: &&Arc<ViewDefinition>| {
        parse_query(&view.sql).is_ok_and(|query| kept_text::may_name_label(&query, label))
    };
    match catalog.views().filter(uses).find(names_it) {
        Some(view) => refused(format!("view \"{}\"", view.name)),
        None => Ok(defaults),
    }
}
