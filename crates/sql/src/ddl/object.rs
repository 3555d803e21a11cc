//! What goes for every kind of object: renaming, moving to another schema, owners, comments.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::Step;
use tenant::catalog::{Catalog, DATABASE, EnumType, OWNER_ROLE, Relation, Schema, Table};
use tenant::ddl::Ddl;
use types::quote_ident;

use super::extension;
use super::names::{Names, missing, skip_missing, split_parts};
use crate::expr::fold_ident;
use crate::kept_text;
use crate::parse::{ObjectKind, parse_expression};
use crate::session::{Home, Pause, Reply, Session};

/// An object named in a statement.
enum Named {
    Relation(Relation),
    Type(std::sync::Arc<EnumType>),
    Schema(std::sync::Arc<Schema>),
}

impl Named {
    fn oid(&self) -> Oid {
        match self {
            Named::Relation(relation) => relation.oid(),
            Named::Type(ty) => ty.oid,
            Named::Schema(schema) => schema.oid,
        }
    }

    fn owner(&self) -> Oid {
        match self {
            Named::Relation(relation) => relation.owner(),
            Named::Type(ty) => ty.owner,
            Named::Schema(schema) => schema.owner,
        }
    }

    /// Where it is; `None` for a schema.
    fn schema(&self) -> Option<Oid> {
        match self {
            Named::Relation(relation) => Some(relation.schema()),
            Named::Type(ty) => Some(ty.schema),
            Named::Schema(_) => None,
        }
    }

    fn name(&self) -> &str {
        match self {
            Named::Relation(relation) => relation.name(),
            Named::Type(ty) => &ty.name,
            Named::Schema(schema) => &schema.name,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Named::Relation(relation) => relation.kind(),
            Named::Type(_) => "type",
            Named::Schema(_) => "schema",
        }
    }
}

/// PostgreSQL's word for a kind.
fn word(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::Index => "index",
        ObjectKind::View => "view",
        ObjectKind::Sequence => "sequence",
        ObjectKind::Type => "type",
        ObjectKind::Schema => "schema",
        ObjectKind::Column => "column",
        ObjectKind::Constraint => "constraint",
        ObjectKind::Database => "database",
        ObjectKind::Role => "role",
        ObjectKind::Extension => "extension",
    }
}

/// Finds an object; `None`, with a notice, where IF EXISTS has nothing to do.
///
/// # Errors
/// 42P01, 42704, 3F000 where it is missing; 42809 for another kind; 0A000 for databases and the like.
fn find(
    session: &Session,
    names: &Names,
    kind: ObjectKind,
    parts: &[String],
    if_exists: bool,
    out: &mut dyn Reply,
) -> SqlResult<Option<Named>> {
    let (schema, name) = split_parts(parts.to_vec())?;
    let found = match kind {
        ObjectKind::Schema => names.catalog.schema_named(&name).cloned().map(Named::Schema),
        ObjectKind::Type => {
            names.catalog.find_enum(schema.as_deref(), &name, &names.path).cloned().map(Named::Type)
        }
        ObjectKind::Table | ObjectKind::Index | ObjectKind::View | ObjectKind::Sequence => {
            if !if_exists {
                names.require_schema(schema.as_deref())?;
            }
            names.catalog.find_relation(schema.as_deref(), &name, &names.path).cloned().map(Named::Relation)
        }
        ObjectKind::Column
        | ObjectKind::Constraint
        | ObjectKind::Database
        | ObjectKind::Role
        | ObjectKind::Extension => {
            return Err(SqlError::unsupported(format!("this statement on a {}", word(kind))));
        }
    };
    let Some(found) = found else {
        let kind = match kind {
            ObjectKind::Schema | ObjectKind::Type => word(kind),
            _ => "relation",
        };
        let full = schema.map_or(name.clone(), |schema| format!("{schema}.{name}"));
        if if_exists {
            skip_missing(session, kind, &name, out);
            return Ok(None);
        }
        return Err(missing(kind, &full));
    };
    // ALTER TABLE may name any relation; the others only their own kind.
    if kind != ObjectKind::Table && found.kind() != word(kind) {
        let article = if kind == ObjectKind::Index { "an" } else { "a" };
        let message = format!("\"{name}\" is not {article} {}", word(kind));
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    Ok(Some(found))
}

fn alter_tag(kind: ObjectKind) -> String {
    format!("ALTER {}", word(kind).to_uppercase())
}

/// `ALTER … RENAME TO`.
pub(crate) fn rename(
    session: &mut Session,
    home: &mut Home<'_>,
    kind: ObjectKind,
    parts: &[String],
    to: &str,
    if_exists: bool,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let tag = alter_tag(kind);
    session.require_writable(home, &tag)?;
    let names = session.names(home);
    let Some(found) = find(session, &names, kind, parts, if_exists, out)? else { return Ok(tag) };
    session.check_owner(&names.catalog, found.owner(), found.kind(), found.name())?;
    match found {
        Named::Relation(relation) => {
            session.check_create_in(&names.catalog, relation.schema())?;
            rename_relation(session, home, &names, relation.oid(), to)?;
        }
        Named::Type(ty) => rename_type(session, home, &names, ty.oid, to)?,
        Named::Schema(schema) => {
            session.check_create_schema(&names.catalog)?;
            require_users_own(&schema)?;
            refuse_views(&names, |catalog, object| {
                catalog.relation(object).is_some_and(|r| r.schema() == schema.oid)
                    || catalog.enum_type(object).is_some_and(|ty| ty.schema == schema.oid)
            })?;
            session.ddl(home, |ddl| Ok(ddl.rename_schema(schema.oid, to)?))?;
            rename_in_texts(session, home, &names)?;
        }
    }
    Ok(tag)
}

/// Renames a table, index, view or sequence, and what refers to it by name.
pub(super) fn rename_relation(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    oid: Oid,
    to: &str,
) -> Result<(), Pause> {
    rename_named(session, home, names, oid, |ddl| ddl.rename_relation(oid, to))
}

/// Renames an enum type, and what refers to it by name.
pub(super) fn rename_type(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    oid: Oid,
    to: &str,
) -> Result<(), Pause> {
    rename_named(session, home, names, oid, |ddl| Ok(ddl.rename_enum(oid, to)?))
}

fn rename_named(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    oid: Oid,
    rename: impl FnOnce(&mut Ddl<'_>) -> Step<()>,
) -> Result<(), Pause> {
    refuse_views(names, |_, object| object == oid)?;
    session.ddl(home, rename)?;
    rename_in_texts(session, home, names)
}

/// Views are kept as text and would not find what was renamed.
fn refuse_views(names: &Names, renamed: impl Fn(&Catalog, Oid) -> bool) -> SqlResult<()> {
    let uses = |view: &tenant::catalog::ViewDefinition| {
        view.depends_on.iter().any(|d| renamed(&names.catalog, d.object))
    };
    let mut views: Vec<&str> =
        names.catalog.views().filter(|view| uses(view)).map(|view| view.name.as_str()).collect();
    views.sort_unstable();
    match views.first() {
        None => Ok(()),
        Some(view) => Err(SqlError::unsupported(format!("renaming what view \"{view}\" names"))
            .with_hint("Drop the view first and make it again afterwards.")),
    }
}

/// Defaults and checks name sequences, types and their schemas: after such were renamed or moved they have the new names.
fn rename_in_texts(session: &mut Session, home: &mut Home<'_>, before: &Names) -> Result<(), Pause> {
    let now = session.names(home).catalog;
    let renamed = |text: &str| kept_text::renamed(&before.catalog, &now, text);
    let (mut defaults, mut checks) = (Vec::new(), Vec::new());
    for table in now.tables() {
        for (position, column) in table.live_columns() {
            let text = column.default.as_deref().and_then(renamed);
            defaults.extend(text.map(|text| (table.oid, position, text)));
        }
        for check in &table.checks {
            checks.extend(renamed(&check.expression).map(|text| (table.oid, check.oid, text)));
        }
    }
    if defaults.is_empty() && checks.is_empty() {
        return Ok(());
    }
    session.ddl(home, |ddl| {
        for (table, position, text) in &defaults {
            ddl.set_default(*table, *position, Some(text))?;
        }
        for (table, check, text) in &checks {
            ddl.set_check_expression(*table, *check, text)?;
        }
        Ok(())
    })
}

/// Renames a column, in what the table's columns are generated from and in its CHECK constraints too.
pub(super) fn rename_column(
    session: &mut Session,
    home: &mut Home<'_>,
    names: &Names,
    table: &Table,
    old: &str,
    new: &str,
) -> Result<(), Pause> {
    if let Some((position, _)) = table.column(old) {
        let uses = |d: &tenant::catalog::Dependency| d.object == table.oid && d.column == Some(position);
        let mut views: Vec<&str> = names
            .catalog
            .views()
            .filter(|v| v.depends_on.iter().any(uses))
            .map(|v| v.name.as_str())
            .collect();
        views.sort_unstable();
        if let Some(view) = views.first() {
            return Err(SqlError::unsupported(format!("renaming a column that view \"{view}\" names"))
                .with_hint("Drop the view first and make it again afterwards.")
                .into());
        }
    }
    let mut checks = Vec::new();
    for check in &table.checks {
        let mut expr = parse_expression(&check.expression)?;
        if rename_in(&mut expr, old, new) {
            checks.push((check.oid, kept_text::printed(expr)));
        }
    }
    let mut generated = Vec::new();
    for (position, column) in table.generated_columns() {
        let Some(text) = column.default.as_deref() else { continue };
        let mut expr = parse_expression(text)?;
        if rename_in(&mut expr, old, new) {
            generated.push((position, kept_text::printed(expr)));
        }
    }
    session.ddl(home, |ddl| {
        ddl.rename_column(table.oid, old, new)?;
        for (position, text) in &generated {
            ddl.set_default(table.oid, *position, Some(text))?;
        }
        for (check, text) in &checks {
            ddl.set_check_expression(table.oid, *check, text)?;
        }
        Ok(())
    })
}

fn rename_in(expr: &mut ast::Expr, old: &str, new: &str) -> bool {
    let mut found = false;
    let _ = ast::visit_expressions_mut(expr, |expr| {
        let ident = match expr {
            ast::Expr::Identifier(ident) => Some(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(ident) = ident
            && fold_ident(ident) == old
        {
            *ident = match quote_ident(new) {
                plain if plain == new => ast::Ident::new(plain),
                _ => ast::Ident::with_quote('"', new),
            };
            found = true;
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    found
}

/// `ALTER … SET SCHEMA`.
pub(crate) fn set_schema(
    session: &mut Session,
    home: &mut Home<'_>,
    kind: ObjectKind,
    parts: &[String],
    schema: &str,
    if_exists: bool,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let tag = alter_tag(kind);
    session.require_writable(home, &tag)?;
    let names = session.names(home);
    let Some(found) = find(session, &names, kind, parts, if_exists, out)? else { return Ok(tag) };
    session.check_owner(&names.catalog, found.owner(), found.kind(), found.name())?;
    let target = names.creation_schema(session, Some(schema))?;
    match found {
        Named::Relation(Relation::Sequence(sequence)) if sequence.owned_by.is_some() => {
            let message = "cannot move an owned sequence into another schema";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        Named::Relation(relation) => {
            let oid = relation.oid();
            refuse_views(&names, |_, object| object == oid)?;
            session.ddl(home, |ddl| ddl.set_relation_schema(oid, target))?;
            rename_in_texts(session, home, &names)?;
        }
        Named::Type(_) => return Err(SqlError::unsupported("ALTER TYPE … SET SCHEMA").into()),
        Named::Schema(_) => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"SET\"").into());
        }
    }
    Ok(tag)
}

/// Errors: 42501 for one of the system's schemas, which are found by their names, and whose owner is the tenant's.
fn require_users_own(schema: &Schema) -> SqlResult<()> {
    if !schema.is_system() {
        return Ok(());
    }
    let message = format!("permission denied: schema \"{}\" is the system's", schema.name);
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
}

/// `ALTER … OWNER TO`.
pub(crate) fn set_owner(
    session: &mut Session,
    home: &mut Home<'_>,
    kind: ObjectKind,
    parts: &[String],
    owner: &str,
    if_exists: bool,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    let tag = alter_tag(kind);
    session.require_writable(home, &tag)?;
    let names = session.names(home);
    let Some(found) = find(session, &names, kind, parts, if_exists, out)? else { return Ok(tag) };
    session.check_owner(&names.catalog, found.owner(), found.kind(), found.name())?;
    let owner = session.role_to_own(&names.catalog, owner)?;
    if let Named::Schema(schema) = &found
        && schema.owner != owner
    {
        session.check_create_schema(&names.catalog)?;
        require_users_own(schema)?;
    }
    if let Named::Relation(Relation::Sequence(sequence)) = &found
        && let Some(table) = sequence.owned_by.and_then(|(table, _)| names.catalog.table(table))
        && table.owner != owner
    {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cannot change owner of sequence \"{}\"", sequence.name),
        )
        .with_detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name))
        .into());
    }
    if found.owner() != owner
        && let Some(schema) = found.schema()
    {
        session.check_takes_over(&names.catalog, schema, owner)?;
    }
    let oid = found.oid();
    session.ddl(home, |ddl| Ok(ddl.set_owner(oid, owner)?))?;
    Ok(tag)
}

/// `REASSIGN OWNED BY`. The system's schemas stay with the tenant's owner.
pub(crate) fn reassign_owned(
    session: &mut Session,
    home: &mut Home<'_>,
    from: &[String],
    to: &str,
) -> Result<String, Pause> {
    const TAG: &str = "REASSIGN OWNED";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    let to = session.role_to_own(&names.catalog, to)?;
    let from =
        from.iter().map(|role| session.role_to_own(&names.catalog, role)).collect::<SqlResult<Vec<Oid>>>()?;
    let catalog = &names.catalog;
    let relations = catalog
        .relations()
        .filter(|r| !matches!(r, Relation::Index(..)) && from.contains(&r.owner()))
        .map(Relation::oid);
    let types = catalog.enums().filter(|e| from.contains(&e.owner)).map(|e| e.oid);
    let schemas = catalog.schemas().filter(|s| from.contains(&s.owner) && !s.is_system()).map(|s| s.oid);
    let owned: Vec<Oid> = relations.chain(types).chain(schemas).collect();
    session.ddl(home, |ddl| {
        for object in &owned {
            ddl.set_owner(*object, to)?;
        }
        Ok(())
    })?;
    Ok(TAG.into())
}

/// COMMENT ON.
pub(crate) fn comment(
    session: &mut Session,
    home: &mut Home<'_>,
    kind: ObjectKind,
    parts: &[String],
    text: Option<&str>,
    out: &mut dyn Reply,
) -> Result<String, Pause> {
    const TAG: &str = "COMMENT";
    session.require_writable(home, TAG)?;
    let names = session.names(home);
    // An empty comment is none.
    let text = text.filter(|text| !text.is_empty());
    let (object, column) = match kind {
        ObjectKind::Column => {
            let (relation, column) = part_of(session, &names, parts)?;
            let position = match relation {
                Relation::Table(table) => super::names::column_of(table, &column)?,
                Relation::View(view) => {
                    view.columns.iter().position(|c| c.name == column.as_str()).ok_or_else(|| {
                        let message =
                            format!("column \"{column}\" of relation \"{}\" does not exist", view.name);
                        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                    })?
                }
                other => {
                    let message = format!("cannot set comment on relation \"{}\"", other.name());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
                }
            };
            (relation.oid(), Some(position))
        }
        ObjectKind::Constraint => {
            let (relation, name) = part_of(session, &names, parts)?;
            let found = match relation {
                Relation::Table(table) => constraint_oid(table, &name),
                _ => None,
            };
            let object = found.ok_or_else(|| {
                let message =
                    format!("constraint \"{name}\" for table \"{}\" does not exist", relation.name());
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?;
            (object, None)
        }
        ObjectKind::Role => {
            let name = parts.last().map_or("", String::as_str);
            let role = names.catalog.resolve_role(name)?;
            session.check_comment_on(&names.catalog, role)?;
            (role.oid, None)
        }
        ObjectKind::Database => {
            let name = parts.last().map_or("", String::as_str);
            session.require_own_database(name)?;
            session.check_owner(&names.catalog, OWNER_ROLE, "database", name)?;
            (DATABASE, None)
        }
        ObjectKind::Extension => {
            let name = parts.last().map_or("", String::as_str);
            let found = extension::find(&names.catalog, name).ok_or_else(|| missing("extension", name))?;
            extension::check_owner(session, &names.catalog, name)?;
            (found.oid, None)
        }
        kind => {
            let found = find(session, &names, kind, parts, false, out)?.expect("missing objects are errors");
            if kind == ObjectKind::Table && found.kind() != "table" {
                let message = format!("\"{}\" is not a table", found.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
            }
            session.check_owner(&names.catalog, found.owner(), found.kind(), found.name())?;
            (found.oid(), None)
        }
    };
    session.ddl(home, |ddl| {
        ddl.set_comment(object, column, text);
        Ok(())
    })?;
    Ok(TAG.into())
}

/// `[schema.]relation.part`: the relation, which the role must own, and the part's name.
fn part_of<'n>(session: &Session, names: &'n Names, parts: &[String]) -> SqlResult<(&'n Relation, String)> {
    let Some((part, relation)) = parts.split_last().filter(|(_, relation)| !relation.is_empty()) else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
    };
    let (schema, name) = split_parts(relation.to_vec())?;
    let relation = names.relation(schema.as_deref(), &name)?;
    session.check_owner(&names.catalog, relation.owner(), relation.kind(), relation.name())?;
    Ok((relation, part.clone()))
}

fn constraint_oid(table: &Table, name: &str) -> Option<Oid> {
    let check = table.checks.iter().find(|c| c.name == name).map(|c| c.oid);
    let foreign = || table.foreign_keys.iter().find(|k| k.name == name).map(|k| k.oid);
    let unique = || table.indexes.iter().find(|i| i.name == name).and_then(|i| i.constraint).map(|c| c.oid);
    check.or_else(foreign).or_else(unique)
}
