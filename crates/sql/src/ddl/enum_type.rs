//! CREATE TYPE … AS ENUM and ALTER TYPE.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{
    AlterType, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, AlterTypeRename,
    AlterTypeRenameValue, Ident, ObjectName, UserDefinedTypeRepresentation,
};
use tenant::ddl::LabelSide;
use types::PgType;

use super::names::{missing, notice, split};
use crate::expr::fold_ident;
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
            let new = fold_ident(new_name);
            session.ddl(home, |ddl| Ok(ddl.rename_enum(ty.oid, &new)?))
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
            session.ddl(home, |ddl| Ok(ddl.rename_enum_label(ty.oid, &from.value, &to)?))
        }
    }
}
