//! Functions over the catalog: `format_type`, `pg_get_constraintdef` and their like.

use base::{Oid, SqlError, SqlResult, SqlState};
use sql::session::{is_visible, qualified_name};
use sql::system::{self, FoundRelation, SystemFunction, find_relation, system_table_by_oid};
use tenant::catalog::{Relation, Table};
use types::{Datum, ElementType, PgType, TypeMod};

use super::{access, definitions, has_privilege, index_properties};
use crate::shared::Shared;

type Eval = fn(&[Datum], &Shared) -> SqlResult<Datum>;

/// One function: name, fewest arguments, types of all arguments, result, and what it does. All but those marked answer NULL
/// when an argument is NULL.
#[derive(Debug)]
struct Definition {
    name: &'static str,
    least: usize,
    args: &'static [PgType],
    result: PgType,
    strict: bool,
    eval: Eval,
}

/// A function by its definition; equal when it is the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogFunction(&'static Definition);

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &CatalogFunction) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl CatalogFunction {
    /// The function that takes so many arguments.
    pub(crate) fn named(name: &str, args: usize) -> Option<CatalogFunction> {
        let fits = |d: &&Definition| d.name == name && (d.least..=d.args.len()).contains(&args);
        FUNCTIONS.iter().find(fits).map(CatalogFunction)
    }
    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }
    /// What argument `i` is converted to; `None` leaves it as it is.
    pub(crate) fn argument(&self, i: usize) -> Option<PgType> {
        self.0.args.get(i).copied().filter(|ty| *ty != ANY)
    }
    pub(crate) fn result(&self) -> PgType {
        self.0.result
    }
    pub(crate) fn call(&self, args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
        if self.0.strict && args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        (self.0.eval)(args, shared)
    }
}

const OID: PgType = PgType::Oid;
const TEXT: PgType = PgType::Text;
const INT4: PgType = PgType::Int4;
const INT8: PgType = PgType::Int8;
const BOOL: PgType = PgType::Bool;
/// An argument of any type: an oid, or the name of what has one.
const ANY: PgType = PgType::Unknown;

const fn function(
    name: &'static str,
    least: usize,
    args: &'static [PgType],
    result: PgType,
    eval: Eval,
) -> Definition {
    Definition { name, least, args, result, strict: true, eval }
}

static FUNCTIONS: &[Definition] = &[
    Definition {
        name: "format_type",
        least: 2,
        args: &[OID, INT4],
        result: TEXT,
        strict: false,
        eval: format_type,
    },
    function("pg_get_expr", 2, &[TEXT, OID, BOOL], TEXT, |a, s| {
        let pretty = a.get(2).and_then(Datum::as_bool).unwrap_or(false);
        let table = s.catalog.table(oid(&a[1..])).filter(|_| pretty);
        let predicate = table.and_then(|table| {
            definitions::pretty_predicate(&s.catalog, &s.search_path, table, string(&a[0]))
        });
        Ok(predicate.map_or_else(|| a[0].clone(), Datum::text))
    }),
    function("pg_get_constraintdef", 1, &[OID, BOOL], TEXT, |a, s| {
        let pretty = a.get(1).and_then(Datum::as_bool).unwrap_or(false);
        let Some(table) = s.table_of_constraint(oid(a)) else { return Ok(Datum::Null) };
        Ok(optional(definitions::constraint(&s.catalog, &s.search_path, table, oid(a), pretty)))
    }),
    function("pg_get_indexdef", 1, &[OID, INT4, BOOL], TEXT, |a, s| {
        let column = a.get(1).and_then(Datum::as_i64).unwrap_or(0) as i32;
        let pretty = a.get(2).and_then(Datum::as_bool).unwrap_or(false);
        Ok(optional(definitions::index(&s.catalog, &s.search_path, oid(a), column, pretty)))
    }),
    function("pg_index_column_has_property", 3, &[ANY, INT4, TEXT], BOOL, index_properties::of_column),
    function("pg_index_has_property", 2, &[ANY, TEXT], BOOL, index_properties::of_index),
    function("pg_indexam_has_property", 2, &[OID, TEXT], BOOL, index_properties::of_method),
    function("pg_get_viewdef", 1, &[ANY, ANY], TEXT, |a, s| {
        let Some(oid) = relation(&a[0], s)? else { return Ok(Datum::Null) };
        Ok(optional(definitions::view(&s.catalog, &s.search_path, oid)))
    }),
    function("pg_get_ruledef", 1, &[OID, BOOL], TEXT, |a, s| {
        let view = Oid(oid(a).0 & !super::objects::RULE);
        let Some(found) = s.catalog.relation(view) else { return Ok(Datum::Null) };
        let Some(sql) = definitions::view(&s.catalog, &s.search_path, view) else { return Ok(Datum::Null) };
        let name = qualified_name(&s.catalog, found.schema(), found.name());
        Ok(Datum::text(format!("CREATE RULE \"_RETURN\" AS ON SELECT TO {name} DO INSTEAD {sql}")))
    }),
    function("pg_get_triggerdef", 1, &[OID, BOOL], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_get_statisticsobjdef_columns", 1, &[OID], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_get_partkeydef", 1, &[OID], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_get_function_result", 1, &[OID], TEXT, |a, _| {
        Ok(optional(system::function_by_oid(oid(a).0).map(SystemFunction::result_text)))
    }),
    function("pg_get_function_arguments", 1, &[OID], TEXT, function_arguments),
    function("pg_get_function_identity_arguments", 1, &[OID], TEXT, function_arguments),
    function("pg_get_functiondef", 1, &[OID], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_get_function_sqlbody", 1, &[OID], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_get_userbyid", 1, &[OID], PgType::Name, |a, s| {
        let known = s.catalog.role(oid(a)).map(|r| r.name.to_string());
        Ok(Datum::text(known.unwrap_or_else(|| format!("unknown (OID={})", oid(a)))))
    }),
    function("pg_get_serial_sequence", 2, &[TEXT, TEXT], TEXT, |a, s| {
        Ok(optional(serial_sequence(s, string(&a[0]), string(&a[1]))?))
    }),
    function("pg_table_is_visible", 1, &[OID], BOOL, |a, s| {
        if let Some(system) = system_table_by_oid(oid(a).0) {
            return Ok(Datum::Bool(system.schema == "pg_catalog"));
        }
        let found = s.catalog.relation(oid(a));
        Ok(found.map_or(Datum::Null, |r| Datum::Bool(is_visible(&s.catalog, &s.search_path, r))))
    }),
    function("pg_type_is_visible", 1, &[OID], BOOL, |a, s| {
        let found = s.catalog.enum_type(oid(a)).or_else(|| s.catalog.enum_of_array(oid(a)));
        Ok(Datum::Bool(found.is_none_or(|e| {
            s.catalog.find_enum(None, &e.name, &s.search_path).is_some_and(|seen| seen.oid == e.oid)
        })))
    }),
    function("pg_function_is_visible", 1, &[OID], BOOL, yes),
    function("pg_operator_is_visible", 1, &[OID], BOOL, yes),
    function("pg_collation_is_visible", 1, &[OID], BOOL, yes),
    function("pg_opclass_is_visible", 1, &[OID], BOOL, yes),
    function("pg_opfamily_is_visible", 1, &[OID], BOOL, yes),
    function("pg_conversion_is_visible", 1, &[OID], BOOL, yes),
    function("pg_statistics_obj_is_visible", 1, &[OID], BOOL, yes),
    function("pg_ts_config_is_visible", 1, &[OID], BOOL, yes),
    function("pg_ts_dict_is_visible", 1, &[OID], BOOL, yes),
    function("pg_ts_parser_is_visible", 1, &[OID], BOOL, yes),
    function("pg_ts_template_is_visible", 1, &[OID], BOOL, yes),
    function("obj_description", 1, &[OID, TEXT], TEXT, |a, s| {
        Ok(s.catalog.comment(oid(a), None).map_or(Datum::Null, Datum::text))
    }),
    function("shobj_description", 2, &[OID, TEXT], TEXT, |a, s| {
        let is_database = oid(a).0 == super::server::DATABASE;
        let object = if is_database { tenant::catalog::DATABASE } else { oid(a) };
        Ok(s.catalog.comment(object, None).map_or(Datum::Null, Datum::text))
    }),
    function("col_description", 2, &[OID, INT4], TEXT, |a, s| {
        let position = a[1].as_i64().and_then(|n| usize::try_from(n - 1).ok());
        let comment = position.and_then(|p| s.catalog.comment(oid(a), Some(p)));
        Ok(comment.map_or(Datum::Null, Datum::text))
    }),
    function("pg_relation_size", 1, &[ANY, TEXT], INT8, size),
    function("pg_table_size", 1, &[ANY], INT8, size),
    function("pg_total_relation_size", 1, &[ANY], INT8, total_size),
    function("pg_indexes_size", 1, &[ANY], INT8, indexes_size),
    function("pg_database_size", 1, &[ANY], INT8, database_size),
    function("pg_stat_get_numscans", 1, &[OID], INT8, not_counted),
    function("pg_stat_get_tuples_returned", 1, &[OID], INT8, not_counted),
    function("pg_stat_get_tuples_fetched", 1, &[OID], INT8, not_counted),
    function("pg_stat_get_tuples_inserted", 1, &[OID], INT8, not_counted),
    function("pg_stat_get_tuples_updated", 1, &[OID], INT8, not_counted),
    function("pg_stat_get_tuples_deleted", 1, &[OID], INT8, not_counted),
    function("pg_stat_get_live_tuples", 1, &[OID], INT8, |a, s| {
        let found = s.catalog.table(oid(a)).zip(s.view.as_ref());
        Ok(Datum::Int8(found.map_or(0, |(table, view)| view.row_count(table)) as i64))
    }),
    function("pg_stat_get_dead_tuples", 1, &[OID], INT8, |_, _| Ok(Datum::Int8(0))),
    function("acldefault", 2, &[PgType::Char, OID], PgType::Array(ElementType::Text), |a, s| {
        let kind = if let Datum::Char(kind) = a[0] { kind } else { 0 };
        access::default(&s.catalog, kind, Oid(a[1].as_i64().unwrap_or(0) as u32))
    }),
    function("pg_tablespace_location", 1, &[OID], TEXT, |_, _| Ok(Datum::text(""))),
    function("pg_encoding_to_char", 1, &[INT4], PgType::Name, |a, _| {
        Ok(Datum::text(match a[0].as_i64() {
            Some(0) => "SQL_ASCII",
            Some(6) => "UTF8",
            _ => "",
        }))
    }),
    function("getdatabaseencoding", 0, &[], PgType::Name, |_, _| Ok(Datum::text("UTF8"))),
    function("pg_char_to_encoding", 1, &[TEXT], INT4, |a, _| {
        let utf8 = matches!(string(&a[0]).to_ascii_uppercase().as_str(), "UTF8" | "UTF-8" | "UNICODE");
        Ok(Datum::Int4(if utf8 { 6 } else { -1 }))
    }),
    function("pg_relation_is_publishable", 1, &[ANY], BOOL, no),
    function("pg_is_in_recovery", 0, &[], BOOL, no),
    function("pg_is_wal_replay_paused", 0, &[], BOOL, no),
    function("pg_postmaster_start_time", 0, &[], PgType::TimestampTz, server_start),
    // What is configured is read once.
    function("pg_conf_load_time", 0, &[], PgType::TimestampTz, server_start),
    // As on any server that has not been a standby since its start.
    function("pg_last_wal_receive_lsn", 0, &[], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_last_wal_replay_lsn", 0, &[], TEXT, |_, _| Ok(Datum::Null)),
    function("pg_last_xact_replay_timestamp", 0, &[], PgType::TimestampTz, |_, _| Ok(Datum::Null)),
    function("pg_is_other_temp_schema", 1, &[OID], BOOL, no),
    function("pg_my_temp_schema", 0, &[], OID, |_, _| Ok(Datum::Oid(0))),
    function("to_regclass", 1, &[TEXT], PgType::Regclass, |a, s| {
        Ok(named_relation(string(&a[0]), s).map_or(Datum::Null, |o| Datum::Oid(o.0)))
    }),
    function("to_regtype", 1, &[TEXT], PgType::Regtype, |a, s| Ok(found(a, PgType::Regtype, s))),
    function("to_regnamespace", 1, &[TEXT], PgType::Regnamespace, |a, s| {
        Ok(found(a, PgType::Regnamespace, s))
    }),
    function("to_regrole", 1, &[TEXT], PgType::Regrole, |a, s| Ok(found(a, PgType::Regrole, s))),
    function("to_regproc", 1, &[TEXT], PgType::Regproc, |a, s| Ok(found(a, PgType::Regproc, s))),
    function("has_table_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::table),
    function("has_any_column_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::any_column),
    function("has_column_privilege", 3, &[ANY, ANY, ANY, TEXT], BOOL, has_privilege::column),
    function("has_sequence_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::sequence),
    function("has_schema_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::schema),
    function("has_database_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::database),
    function("has_function_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::function),
    function("has_type_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::type_of),
    function("has_language_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::language),
    function("has_tablespace_privilege", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::tablespace),
    function("pg_has_role", 2, &[ANY, ANY, TEXT], BOOL, has_privilege::has_role),
];

fn yes(_: &[Datum], _: &Shared) -> SqlResult<Datum> {
    Ok(Datum::Bool(true))
}
fn no(_: &[Datum], _: &Shared) -> SqlResult<Datum> {
    Ok(Datum::Bool(false))
}
fn server_start(_: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    Ok(Datum::TimestampTz(shared.context.server_start))
}
/// Uses are not counted by table and index, as `pg_stat_all_tables` and `pg_stat_all_indexes` show.
fn not_counted(_: &[Datum], _: &Shared) -> SqlResult<Datum> {
    Ok(Datum::Null)
}
fn function_arguments(args: &[Datum], _: &Shared) -> SqlResult<Datum> {
    Ok(optional(system::function_by_oid(oid(args).0).map(SystemFunction::arguments_text)))
}
fn optional(text: Option<String>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}
fn oid(args: &[Datum]) -> Oid {
    Oid(args[0].as_i64().unwrap_or(0) as u32)
}
fn string(value: &Datum) -> &str {
    value.as_str().unwrap_or_default()
}

/// What has that name; NULL if nothing has it.
fn found(args: &[Datum], ty: PgType, shared: &Shared) -> Datum {
    types::parse_text(string(&args[0]), ty, TypeMod::NONE, &shared.context.format).unwrap_or(Datum::Null)
}

fn format_type(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let number = oid(args);
    let typmod = TypeMod(args[1].as_i64().unwrap_or(-1) as i32);
    if number.0 == 0 {
        return Ok(Datum::text("-"));
    }
    let names = shared.context.format.names.as_deref();
    if let Some(ty) = PgType::from_oid(number.0) {
        // `character` alone is one of a single character.
        let is_any_length = !args[1].is_null() && typmod.is_none();
        match ty {
            PgType::Bpchar if is_any_length => return Ok(Datum::text("bpchar")),
            PgType::Array(ElementType::Bpchar) if is_any_length => return Ok(Datum::text("bpchar[]")),
            _ => {}
        }
        return Ok(Datum::text(types::format_type_in(ty, typmod, names)));
    }
    let name = system::pseudo_type(number.0).map(str::to_owned);
    let name = name.or_else(|| names.and_then(|n| n.type_name(number.0)));
    Ok(Datum::text(name.unwrap_or_else(|| "???".to_owned())))
}

/// A relation by a name as SQL writes it: folded, perhaps qualified and quoted.
fn named_relation(text: &str, shared: &Shared) -> Option<Oid> {
    let parts = split_name(text)?;
    let (schema, name) = match &parts[..] {
        [name] => (None, name),
        [schema, name] => (Some(schema.as_str()), name),
        _ => return None,
    };
    find_relation(&shared.catalog, schema, name, &shared.search_path).map(|found| match found {
        FoundRelation::System(table) => Oid(table.oid),
        FoundRelation::Own(relation) => relation.oid(),
    })
}

fn split_name(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let count = parts.len();
        let part = parts.last_mut().expect("never empty");
        match c {
            // More parts than a name has are none.
            '.' if count > 3 => return None,
            '.' => parts.push(String::new()),
            '"' => loop {
                match chars.next()? {
                    '"' if chars.peek() == Some(&'"') => part.push(chars.next()?),
                    '"' => break,
                    c => part.push(c),
                }
            },
            c => part.push(c.to_ascii_lowercase()),
        }
    }
    Some(parts)
}

/// A relation given by oid or by name.
pub(super) fn relation(value: &Datum, shared: &Shared) -> SqlResult<Option<Oid>> {
    match value {
        Datum::Text(name) => named_relation(name, shared).map(Some).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
        }),
        other => Ok(other.as_i64().map(|n| Oid(n as u32))),
    }
}

/// The bytes of a table, or of an index.
fn size(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let Some(oid) = relation(&args[0], shared)? else { return Ok(Datum::Null) };
    Ok(Datum::Int8(match shared.catalog.relation(oid) {
        Some(Relation::Table(table)) => table_bytes(table, shared),
        Some(Relation::Index(table, at)) => index_bytes(table, *at, shared),
        _ => 0,
    }))
}

fn total_size(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let Some(oid) = relation(&args[0], shared)? else { return Ok(Datum::Null) };
    Ok(Datum::Int8(match shared.catalog.relation(oid) {
        Some(Relation::Table(table)) => table_bytes(table, shared) + all_index_bytes(table, shared),
        Some(Relation::Index(table, at)) => index_bytes(table, *at, shared),
        _ => 0,
    }))
}

fn indexes_size(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let Some(oid) = relation(&args[0], shared)? else { return Ok(Datum::Null) };
    Ok(Datum::Int8(shared.catalog.table(oid).map_or(0, |table| all_index_bytes(table, shared))))
}

/// The bytes of this database's tables and indexes. Those of another, which the administrator alone is told of, are not known here: NULL, so that
/// whoever lists all of them is answered.
///
/// Errors: 3D000 for a name that no database in sight has.
fn database_size(args: &[Datum], shared: &Shared) -> SqlResult<Datum> {
    let context = &shared.context;
    let own = match &args[0] {
        Datum::Text(name) if **name == *context.database => true,
        Datum::Text(name) if context.databases.iter().any(|known| *known == **name) => false,
        Datum::Text(name) => {
            let message = format!("database \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        other => other.as_i64() == Some(i64::from(super::server::DATABASE)),
    };
    if !own {
        return Ok(Datum::Null);
    }
    let tables = shared.catalog.tables();
    Ok(Datum::Int8(tables.map(|t| table_bytes(t, shared) + all_index_bytes(t, shared)).sum()))
}

/// An estimate of a table's bytes from its rows; pages are not counted by table.
fn table_bytes(table: &Table, shared: &Shared) -> i64 {
    estimated_bytes(table, table.live_columns().map(|(_, c)| c.ty), shared)
}

fn index_bytes(table: &Table, at: usize, shared: &Shared) -> i64 {
    estimated_bytes(table, table.indexes[at].column_positions().map(|i| table.columns[i].ty), shared)
}

/// The rows of a primary key are those of its table.
fn all_index_bytes(table: &Table, shared: &Shared) -> i64 {
    (0..table.indexes.len()).map(|at| index_bytes(table, at, shared)).sum()
}

fn estimated_bytes(table: &Table, columns: impl Iterator<Item = PgType>, shared: &Shared) -> i64 {
    /// What a value of no fixed length is taken for, and what a row costs beside its values.
    const TEXT_BYTES: usize = 24;
    const ROW_BYTES: usize = 16;
    let Some(view) = &shared.view else { return 0 };
    let width: usize = columns.map(|ty| usize::try_from(ty.type_len()).unwrap_or(TEXT_BYTES)).sum();
    let page = base::limits::PAGE_SIZE as u64;
    let bytes = view.row_count(table) * (width + ROW_BYTES) as u64;
    bytes.div_ceil(page).saturating_mul(page) as i64
}

/// The sequence owned by a column, quoted and qualified.
pub(crate) fn serial_sequence(shared: &Shared, table: &str, column: &str) -> SqlResult<Option<String>> {
    let missing = || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist"));
    let oid = named_relation(table, shared).ok_or_else(missing)?;
    let Some(found) = shared.catalog.table(oid) else { return Ok(None) };
    let (position, _) = found.column(column).ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", found.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    let sequence = shared.catalog.sequences().find(|s| s.owned_by == Some((oid, position)));
    Ok(sequence.map(|s| qualified_name(&shared.catalog, s.schema, &s.name)))
}
