//! DROP.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{ObjectName, ObjectType, Statement};
use tenant::catalog::Relation;
use tenant::ddl::{Behavior, Dropped};

use super::names::{Names, missing, skip_missing, split};
use crate::parse::is_concurrent;
use crate::session::{Home, Pause, Reply, Session};

/// The command tag.
///
/// # Errors
/// 0A000 for kinds of objects there are none of.
pub(super) fn tag(kind: &ObjectType) -> SqlResult<&'static str> {
    Ok(match kind {
        ObjectType::Table => "DROP TABLE",
        ObjectType::View => "DROP VIEW",
        ObjectType::Index => "DROP INDEX",
        ObjectType::Sequence => "DROP SEQUENCE",
        ObjectType::Schema => "DROP SCHEMA",
        ObjectType::Type => "DROP TYPE",
        other => return Err(SqlError::unsupported(format!("DROP {other}"))),
    })
}

pub(super) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    statement: &Statement,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let Statement::Drop { object_type, if_exists, names, cascade, restrict, purge, temporary, table } =
        statement
    else {
        return Err(SqlError::internal("not a DROP").into());
    };
    let concurrently = table.as_ref().is_some_and(is_concurrent);
    if *purge || *temporary || table.is_some() && !concurrently {
        return Err(SqlError::unsupported("this clause of DROP").into());
    }
    if concurrently && (names.len() > 1 || *cascade) {
        let what = if *cascade { "CASCADE" } else { "dropping multiple objects" };
        let message = format!("DROP INDEX CONCURRENTLY does not support {what}");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
    }
    if *cascade && *restrict {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"RESTRICT\"").into());
    }
    let behavior = if *cascade { Behavior::Cascade } else { Behavior::Restrict };
    let dropped = match object_type {
        ObjectType::Schema => drop_schemas(session, home, names, *if_exists, behavior, out)?,
        ObjectType::Type => drop_types(session, home, names, *if_exists, behavior, out)?,
        kind => drop_relations(session, home, kind, names, *if_exists, behavior, out)?,
    };
    tell_cascade(session, &dropped, out);
    Ok(())
}

/// `DROP OWNED BY`.
///
/// # Errors
/// 42501 for a role that the session cannot act for.
pub(crate) fn run_owned(
    session: &mut Session,
    home: &mut Home<'_>,
    roles: &[String],
    cascade: bool,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "DROP OWNED";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    let mut oids = Vec::with_capacity(roles.len());
    for role in roles {
        let oid = session.named_role(&names.catalog, role)?;
        if !session.acts_for(&names.catalog, oid) {
            let message = "permission denied to drop objects";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
        }
        oids.push(oid);
    }
    let behavior = if cascade { Behavior::Cascade } else { Behavior::Restrict };
    let dropped = session.ddl(home, |ddl| ddl.drop_owned(&oids, behavior))?;
    tell_cascade(session, &dropped, out);
    Ok(TAG.into())
}

/// NOTICE of what went along.
pub(super) fn tell_cascade(session: &Session, dropped: &Dropped, out: &mut dyn Reply) {
    let notice = match dropped.cascaded.as_slice() {
        [] => return,
        [one] => SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {one}")),
        many => {
            let lines: Vec<String> = many.iter().map(|name| format!("drop cascades to {name}")).collect();
            let message = format!("drop cascades to {} other objects", many.len());
            SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).with_detail(lines.join("\n"))
        }
    };
    session.notice(&notice.with_severity(base::Severity::Notice), out);
}

fn drop_relations(
    session: &mut Session,
    home: &mut Home<'_>,
    kind: &ObjectType,
    objects: &[ObjectName],
    if_exists: bool,
    behavior: Behavior,
    out: &mut dyn Reply,
) -> Result<Dropped, Pause> {
    let kind = match kind {
        ObjectType::Table => "table",
        ObjectType::View => "view",
        ObjectType::Index => "index",
        _ => "sequence",
    };
    let names = session.names(home);
    let mut doomed: Vec<Oid> = Vec::new();
    for object in objects {
        let (schema, name) = split(object)?;
        if let Err(error) = names.require_schema(schema.as_deref()) {
            if if_exists {
                skip_missing(session, "schema", schema.as_deref().unwrap_or_default(), out);
                continue;
            }
            return Err(error.into());
        }
        let Some(relation) = names.catalog.find_relation(schema.as_deref(), &name, &names.path) else {
            if if_exists {
                skip_missing(session, kind, &name, out);
                continue;
            }
            return Err(missing(kind, &name).into());
        };
        if relation.kind() != kind {
            return Err(wrong_kind(relation, kind).into());
        }
        check_may_drop(session, &names, relation.schema(), relation.owner(), kind, &name)?;
        if !doomed.contains(&relation.oid()) {
            doomed.push(relation.oid());
        }
    }
    if doomed.is_empty() {
        return Ok(Dropped::default());
    }
    session.ddl(home, |ddl| {
        if kind != "index" {
            return ddl.drop_relations(&doomed, behavior);
        }
        let mut dropped = Dropped::default();
        for index in doomed {
            dropped.cascaded.extend(ddl.drop_index(index, behavior)?.cascaded);
        }
        Ok(dropped)
    })
}

/// 42501 unless the role owns the object, or the schema that it is in.
fn check_may_drop(
    session: &Session,
    names: &Names,
    schema: Oid,
    owner: Oid,
    kind: &str,
    name: &str,
) -> SqlResult<()> {
    let schema = names.catalog.schema(schema);
    if schema.is_some_and(|schema| session.acts_for(&names.catalog, schema.owner)) {
        return Ok(());
    }
    session.check_owner(&names.catalog, owner, kind, name)
}

/// 42809 for DROP of the wrong kind.
fn wrong_kind(relation: &Relation, wanted: &str) -> SqlError {
    let article = if wanted == "index" { "an" } else { "a" };
    let (kind, name) = (relation.kind(), relation.name());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {article} {wanted}")).with_hint(
        format!(
            "Use DROP {} to remove {} {kind}.",
            kind.to_uppercase(),
            if kind == "index" { "an" } else { "a" }
        ),
    )
}

fn drop_schemas(
    session: &mut Session,
    home: &mut Home<'_>,
    objects: &[ObjectName],
    if_exists: bool,
    behavior: Behavior,
    out: &mut dyn Reply,
) -> Result<Dropped, Pause> {
    let mut dropped = Dropped::default();
    for object in objects {
        let names = session.names(home);
        let (None, name) = split(object)? else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "improper schema name").into());
        };
        let Some(schema) = names.catalog.schema_named(&name) else {
            if if_exists {
                skip_missing(session, "schema", &name, out);
                continue;
            }
            return Err(missing("schema", &name).into());
        };
        if matches!(name.as_str(), "pg_catalog" | "information_schema") {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop schema {name} because it is required by the database system"),
            )
            .into());
        }
        session.check_owner(&names.catalog, schema.owner, "schema", &name)?;
        let oid = schema.oid;
        dropped.cascaded.extend(session.ddl(home, |ddl| ddl.drop_schema(oid, behavior))?.cascaded);
    }
    Ok(dropped)
}

fn drop_types(
    session: &mut Session,
    home: &mut Home<'_>,
    objects: &[ObjectName],
    if_exists: bool,
    behavior: Behavior,
    out: &mut dyn Reply,
) -> Result<Dropped, Pause> {
    let mut dropped = Dropped::default();
    for object in objects {
        let names = session.names(home);
        let (schema, name) = split(object)?;
        let Some(ty) = names.catalog.find_enum(schema.as_deref(), &name, &names.path) else {
            if if_exists {
                skip_missing(session, "type", &name, out);
                continue;
            }
            return Err(missing("type", &name).into());
        };
        check_may_drop(session, &names, ty.schema, ty.owner, "type", &name)?;
        let oid = ty.oid;
        dropped.cascaded.extend(session.ddl(home, |ddl| ddl.drop_enum(oid, behavior))?.cascaded);
    }
    Ok(dropped)
}
