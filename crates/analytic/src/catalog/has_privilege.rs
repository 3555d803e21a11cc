//! `has_table_privilege` and its kin: whether a role may do something to an object.
//!
//! Each takes `([role,] object, privileges)`. A role is given by name or oid, `public` for everybody, and is the current one if none is given; an
//! object by name or oid; of a list of privileges any is enough. A name that nothing has is an error, for an oid that nothing has the
//! answer is NULL. `WITH GRANT OPTION` has who owns the object and superusers: nobody else passes a privilege on.

use base::{Oid, SqlError, SqlResult, SqlState};
use sql::system::{self, system_table_by_oid};
use tenant::catalog::{Acl, OWNER_ROLE, PUBLIC, Privileges, Relation};
use types::{Datum, PgType, TypeMod};

use super::functions::relation;
use super::server::is_database;
use crate::shared::Shared;

/// An object that privileges are about.
struct Object<'a> {
    owner: Oid,
    acl: Option<&'a Acl>,
    /// Its owner may do everything to it, whatever its list says.
    is_its_owners: bool,
}

/// One of the privileges that a call names, perhaps with the right to pass it on.
type Wanted<'n> = (&'n str, bool);

fn string(value: &Datum) -> &str {
    value.as_str().unwrap_or_default()
}

fn oid(value: &Datum) -> Option<Oid> {
    value.as_i64().map(|n| Oid(n as u32))
}

/// The role that is asked about; `None` for the administrator, who may do everything and is in no tenant's catalog.
fn role(value: &Datum, shared: &Shared) -> SqlResult<Option<Oid>> {
    match value.as_str() {
        Some(name) if *name == *shared.context.user => Ok(shared.context.role),
        Some(name) => shared.catalog.resolve_role(name).map(|role| Some(role.oid)),
        None => Ok(oid(value)),
    }
}

/// The role, the object and the privileges that are asked about.
fn split<'x>(args: &'x [Datum], shared: &Shared) -> SqlResult<(Option<Oid>, &'x Datum, &'x str)> {
    match args {
        [object, words] => Ok((shared.context.role, object, string(words))),
        [who, object, words] if who.as_str() == Some("public") => Ok((Some(PUBLIC), object, string(words))),
        [who, object, words] => Ok((role(who, shared)?, object, string(words))),
        _ => Err(SqlError::internal("a privilege function takes two or three arguments")),
    }
}

/// The privileges of a list, each one of `known`.
///
/// # Errors
/// 22023.
fn wanted<'n>(words: &str, known: &[&'n str], options: &[&str]) -> SqlResult<Vec<Wanted<'n>>> {
    let one = |word: &str| {
        let word = word.trim_ascii();
        let upper = word.to_ascii_uppercase();
        let plain = options.iter().find_map(|option| upper.strip_suffix(*option));
        let name = known.iter().find(|name| **name == plain.unwrap_or(&upper));
        name.map(|name| (*name, plain.is_some())).ok_or_else(|| {
            let message = format!("unrecognized privilege type: \"{word}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    };
    let mut wanted = Vec::new();
    for word in words.split(',') {
        let one = one(word)?;
        // There are few, however long the list is.
        if !wanted.contains(&one) {
            wanted.push(one);
        }
    }
    Ok(wanted)
}

const GRANT_OPTION: &[&str] = &[" WITH GRANT OPTION"];

fn is_superuser(role: Oid, shared: &Shared) -> bool {
    shared.catalog.role(role).is_some_and(|role| role.attributes.superuser)
}

/// Whether the role, or everybody, has one of the privileges on the object.
fn has_one(role: Option<Oid>, object: &Object<'_>, wanted: &[Wanted<'_>], shared: &Shared) -> Datum {
    let Some(role) = role else { return Datum::Bool(true) };
    let catalog = &shared.catalog;
    let owns = || is_superuser(role, shared) || catalog.roles_of(role, true).contains(&object.owner);
    let has = |(name, with_option): &Wanted<'_>| {
        let name = if *name == "TEMP" { "TEMPORARY" } else { *name };
        // RULE is known and nobody has it.
        let Some((one, ..)) = Privileges::NAMED.iter().find(|(.., word)| *word == name) else { return false };
        if *with_option || object.is_its_owners && owns() {
            return owns();
        }
        catalog.has_privileges(role, object.owner, object.acl, *one)
    };
    Datum::Bool(wanted.iter().any(has))
}

/// Of what everybody has `free` of, and superusers everything.
fn of_system(role: Option<Oid>, free: &str, wanted: &[Wanted<'_>], shared: &Shared) -> Datum {
    let Some(role) = role else { return Datum::Bool(true) };
    let is_free = |(name, with_option): &Wanted<'_>| *name == free && !with_option;
    Datum::Bool(is_superuser(role, shared) || wanted.iter().any(is_free))
}

fn of_relation(
    role: Option<Oid>,
    object: Option<Oid>,
    wanted: &[Wanted<'_>],
    shared: &Shared,
) -> SqlResult<Datum> {
    let Some(oid) = object else { return Ok(Datum::Null) };
    if system_table_by_oid(oid.0).is_some() {
        // Nobody writes there.
        return Ok(Datum::Bool(role.is_none() || wanted.contains(&("SELECT", false))));
    }
    let Some(found) = shared.catalog.relation(oid) else { return Ok(Datum::Null) };
    let acl = match found {
        Relation::Table(t) | Relation::Index(t, _) => t.acl.as_ref(),
        Relation::View(v) => v.acl.as_ref(),
        Relation::Sequence(s) => s.acl.as_ref(),
    };
    let is_its_owners = matches!(found, Relation::Sequence(_));
    Ok(has_one(role, &Object { owner: found.owner(), acl, is_its_owners }, wanted, shared))
}

pub(super) fn table(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    const KNOWN: &[&str] =
        &["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "RULE"];
    let (role, object, words) = split(args, shared)?;
    let object = relation(object, shared)?;
    of_relation(role, object, &wanted(words, KNOWN, GRANT_OPTION)?, shared)
}

const OF_COLUMNS: &[&str] = &["SELECT", "INSERT", "UPDATE", "REFERENCES"];

/// There are no privileges on single columns: what a role has on a table it has on each.
pub(super) fn any_column(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let object = relation(object, shared)?;
    of_relation(role, object, &wanted(words, OF_COLUMNS, GRANT_OPTION)?, shared)
}

pub(super) fn column(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let at = args.len() - 2;
    let column = &args[at];
    let of_table: Vec<Datum> = args[..at].iter().chain(&args[at + 1..]).cloned().collect();
    let (_, object, words) = split(&of_table, shared)?;
    let has_column = has_column(object, column, shared)?;
    wanted(words, OF_COLUMNS, GRANT_OPTION)?;
    if has_column { any_column(&of_table, shared) } else { Ok(Datum::Null) }
}

/// Whether a relation has a column, given by name or number; true also for what is not the tenant's own.
///
/// # Errors
/// 42703 for a name that no column has.
fn has_column(of: &Datum, column: &Datum, shared: &Shared) -> SqlResult<bool> {
    let Some(found) = relation(of, shared)?.and_then(|oid| shared.catalog.relation(oid)) else {
        return Ok(true);
    };
    let columns: Vec<&str> = match found {
        Relation::Table(t) => t.columns.iter().map(|c| if c.dropped { "" } else { &c.name }).collect(),
        Relation::View(v) => v.columns.iter().map(|c| c.name.as_str()).collect(),
        Relation::Index(..) | Relation::Sequence(_) => return Ok(true),
    };
    match column.as_str() {
        Some(name) if columns.contains(&name) => Ok(true),
        Some(name) => {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", found.name());
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
        None => {
            let at = column.as_i64().and_then(|n| usize::try_from(n - 1).ok());
            Ok(at.and_then(|at| columns.get(at)).is_some_and(|name| !name.is_empty()))
        }
    }
}

pub(super) fn sequence(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let object = relation(object, shared)?;
    let wanted = wanted(words, &["USAGE", "SELECT", "UPDATE"], GRANT_OPTION)?;
    let found = object.and_then(|oid| shared.catalog.relation(oid));
    if let Some(other) = found.filter(|found| !matches!(found, Relation::Sequence(_))) {
        let message = format!("\"{}\" is not a sequence", other.name());
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    of_relation(role, object, &wanted, shared)
}

pub(super) fn schema(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let found = match object.as_str() {
        Some(name) => Some(shared.catalog.schema_named(name).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
        })?),
        None => oid(object).and_then(|oid| shared.catalog.schema(oid)),
    };
    let wanted = wanted(words, &["CREATE", "USAGE"], GRANT_OPTION)?;
    let Some(schema) = found else { return Ok(Datum::Null) };
    let object = Object { owner: schema.owner, acl: schema.acl.as_ref(), is_its_owners: true };
    Ok(has_one(role, &object, &wanted, shared))
}

/// A role belongs to one database, which its access list is about; the administrator enters all.
pub(super) fn database(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let context = &shared.context;
    if let Some(name) = object.as_str()
        && *name != *context.database
        && !context.databases.iter().any(|known| *known == *name)
    {
        let message = format!("database \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
    }
    let wanted = wanted(words, &["CREATE", "TEMPORARY", "TEMP", "CONNECT"], GRANT_OPTION)?;
    let is_own = match object.as_str() {
        Some(name) => *name == *context.database,
        None if oid(object).is_none_or(|oid| !is_database(context, oid)) => return Ok(Datum::Null),
        None => oid(object) == Some(Oid(super::server::DATABASE)),
    };
    if !is_own {
        return Ok(Datum::Bool(role.is_none()));
    }
    let initial = Acl::of_database();
    let acl = Some(shared.catalog.database().acl.as_ref().unwrap_or(&initial));
    let object = Object { owner: OWNER_ROLE, acl, is_its_owners: false };
    Ok(has_one(role, &object, &wanted, shared))
}

/// Everybody may call what there is.
pub(super) fn function(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let exists = match object.as_str() {
        Some(text) => {
            let name = text.split('(').next().unwrap_or_default().trim_ascii().to_lowercase();
            let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
            if !system::functions().iter().any(|function| function.name == name) {
                let message = format!("function \"{text}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
            }
            true
        }
        None => oid(object).is_some_and(|oid| system::function_by_oid(oid.0).is_some()),
    };
    let wanted = wanted(words, &["EXECUTE"], GRANT_OPTION)?;
    Ok(if exists { of_system(role, "EXECUTE", &wanted, shared) } else { Datum::Null })
}

/// Everybody may use any type.
pub(super) fn type_of(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let format = &shared.context.format;
    let found = match object.as_str() {
        Some(text) => oid(&types::parse_text(text, PgType::Regtype, TypeMod::NONE, format)?),
        None => oid(object),
    };
    let wanted = wanted(words, &["USAGE"], GRANT_OPTION)?;
    let is_type = |oid: Oid| {
        let own = || format.names.as_deref().and_then(|names| names.type_name(oid.0));
        PgType::from_oid(oid.0).is_some() || system::pseudo_type(oid.0).is_some() || own().is_some()
    };
    let exists = found.is_some_and(is_type);
    Ok(if exists { of_system(role, "USAGE", &wanted, shared) } else { Datum::Null })
}

pub(super) fn language(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    /// PostgreSQL's languages, with their oids where those are fixed. Everybody has USAGE of them, whoever may make functions in them.
    const LANGUAGES: &[(&str, Option<Oid>)] =
        &[("internal", Some(Oid(12))), ("c", Some(Oid(13))), ("sql", Some(Oid(14))), ("plpgsql", None)];
    let (role, object, words) = split(args, shared)?;
    let named = |name: &str| LANGUAGES.iter().find(|(known, _)| *known == name);
    let found = match object.as_str() {
        Some(name) => Some(named(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("language \"{name}\" does not exist"))
        })?),
        None => LANGUAGES.iter().find(|(_, number)| number.is_some() && *number == oid(object)),
    };
    let wanted = wanted(words, &["USAGE"], GRANT_OPTION)?;
    Ok(if found.is_some() { of_system(role, "USAGE", &wanted, shared) } else { Datum::Null })
}

/// The tablespaces are the system's.
pub(super) fn tablespace(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (role, object, words) = split(args, shared)?;
    let exists = match object.as_str() {
        Some("pg_default" | "pg_global") => true,
        Some(name) => {
            let message = format!("tablespace \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        None => matches!(oid(object), Some(Oid(1663 | 1664))),
    };
    let wanted = wanted(words, &["CREATE"], GRANT_OPTION)?;
    Ok(if exists { of_system(role, "", &wanted, shared) } else { Datum::Null })
}

/// `pg_has_role`: whether a role is a member of another (MEMBER), has its privileges (USAGE), or may make others members of it.
pub(super) fn has_role(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let (who, of, words) = match args {
        [of, words] => (shared.context.role, of, string(words)),
        [who, of, words] => (role(who, shared)?, of, string(words)),
        _ => return Err(SqlError::internal("pg_has_role takes two or three arguments")),
    };
    let of = role(of, shared)?;
    let wanted = wanted(words, &["USAGE", "MEMBER"], &[" WITH GRANT OPTION", " WITH ADMIN OPTION"])?;
    let (Some(who), Some(of)) = (who, of) else { return Ok(Datum::Bool(who.is_none())) };
    let catalog = &shared.catalog;
    let administers = || {
        let is_session = catalog.role_named(&shared.context.session_user).is_some_and(|role| role.oid == of);
        who == of && is_session
            || catalog.roles_of(who, false).iter().any(|own| {
                let member_of = catalog.role(*own).map_or(&[][..], |own| &own.member_of);
                member_of.iter().any(|membership| membership.role == of && membership.admin_option)
            })
    };
    let has = |(name, with_option): &Wanted<'_>| match (*name, with_option) {
        (_, true) => administers(),
        (name, false) => catalog.roles_of(who, name == "USAGE").contains(&of),
    };
    Ok(Datum::Bool(is_superuser(who, shared) || wanted.iter().any(has)))
}
