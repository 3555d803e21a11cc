//! System tables about the server: databases, roles, schemas, sessions, locks, settings, the ledger.

use base::Oid;
use sql::session::{QueryContext, setting_facts};
use sql::system::{EXTENSIONS, extension_named};
use types::{Datum, ElementType, Interval, TypeMod};

use super::access::{self, acl};
use super::{Rows, letter, oid, text};

/// The oid that the tenant's own database is shown with. Tools take those below 16,384 for PostgreSQL's own databases, and pgAdmin lists none of them.
pub(super) const DATABASE: u32 = 0x7000_0000;
/// Oid of `pg_database`, as `classoid` of comments.
const PG_DATABASE: u32 = 1262;
/// Oid of `pg_authid`, as `classoid` of comments.
const PG_AUTHID: u32 = 1260;
/// Encoding number of UTF-8.
const UTF8: i32 = 6;

/// Fills the table of that name; false if it is not one of these.
pub(super) fn fill(out: &mut Rows<'_>, table: &str) -> bool {
    match table {
        "pg_namespace" => namespaces(out),
        "pg_database" => databases(out),
        "pg_roles" => roles(out, true),
        "pg_authid" => roles(out, false),
        "pg_user" => users(out),
        "pg_auth_members" => members(out),
        "pg_tablespace" => {
            for (number, name) in [(1663, "pg_default"), (1664, "pg_global")] {
                out.add(vec![
                    ("oid", Datum::Oid(number)),
                    ("spcname", text(name)),
                    ("spcowner", oid(tenant::catalog::OWNER_ROLE)),
                ]);
            }
        }
        "pg_settings" => settings(out),
        "pg_timezone_names" => time_zones(out),
        "pg_db_role_setting" => start_settings(out),
        "pg_default_acl" => access::defaults(out),
        "pg_shdescription" => shared_descriptions(out),
        "pg_extension" => {
            let catalog = out.shared.catalog.clone();
            for extension in catalog.extensions() {
                let version = extension_named(&extension.name).map_or("", |known| known.version);
                out.add(vec![
                    ("oid", oid(extension.oid)),
                    ("extname", text(&extension.name)),
                    ("extowner", oid(tenant::catalog::OWNER_ROLE)),
                    ("extnamespace", oid(extension.schema)),
                    ("extversion", text(version)),
                ]);
            }
        }
        "pg_available_extensions" => {
            let catalog = out.shared.catalog.clone();
            for known in EXTENSIONS {
                let is_made = catalog.extensions().any(|extension| extension.name == known.name);
                out.add(vec![
                    ("name", text(known.name)),
                    ("default_version", text(known.version)),
                    ("installed_version", if is_made { text(known.version) } else { Datum::Null }),
                    ("comment", text(known.comment)),
                ]);
            }
        }
        "pg_init_privs" => access::initial_privileges(out),
        "pg_stat_activity" => activity(out),
        "pg_stat_ssl" => encryption(out),
        "pg_stat_gssapi" => kerberos(out),
        "pg_stat_database" => database_statistics(out),
        "pg_stat_database_conflicts" => conflicts(out),
        // What the server writes by itself is counted by tenant, if at all.
        "pg_stat_bgwriter" | "pg_stat_wal" => out.add(Vec::new()),
        // There is no archive.
        "pg_stat_archiver" => {
            out.add(vec![("archived_count", Datum::Int8(0)), ("failed_count", Datum::Int8(0))]);
        }
        "pg_prepared_statements" => prepared_statements(out),
        "pg_locks" => locks(out),
        "ledger" => ledger(out, false),
        "violations" => ledger(out, true),
        "tenant_usage" => tenant_usage(out),
        "tenant_waits" => tenant_waits(out),
        "ledger_history" => ledger_history(out),
        "statements" => statements(out),
        _ => return false,
    }
    true
}

fn namespaces(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for schema in catalog.schemas() {
        out.add(vec![
            ("oid", oid(schema.oid)),
            ("nspname", text(&schema.name)),
            ("nspowner", oid(schema.owner)),
            ("nspacl", acl(&catalog, schema.acl.as_ref())),
        ]);
    }
}

/// The oid a database is shown with: the session's own, or one for each other name in order.
fn database_oid(out: &Rows<'_>, name: &str) -> u32 {
    let context = &out.shared.context;
    if name == context.database {
        return DATABASE;
    }
    let position = context.databases.iter().position(|d| d == name).unwrap_or(0);
    FIRST_OTHER_DATABASE + position as u32
}

const FIRST_OTHER_DATABASE: u32 = DATABASE + 1;

/// Whether a database is shown with that oid.
pub(super) fn is_database(context: &QueryContext, number: Oid) -> bool {
    let place = number.0.checked_sub(FIRST_OTHER_DATABASE);
    number.0 == DATABASE || place.is_some_and(|place| (place as usize) < context.databases.len())
}

/// The databases that the session is told of.
fn database_names(context: &QueryContext) -> Vec<String> {
    let mut names: Vec<String> = context.databases.clone();
    if !names.contains(&context.database) {
        names.push(context.database.clone());
    }
    names
}

fn databases(out: &mut Rows<'_>) {
    let names = database_names(&out.shared.context);
    let catalog = out.shared.catalog.clone();
    for name in names {
        let number = database_oid(out, &name);
        let own = catalog.database().acl.as_ref().filter(|_| number == DATABASE);
        out.add(vec![
            ("datacl", acl(&catalog, own)),
            ("oid", Datum::Oid(number)),
            ("datname", text(&name)),
            ("datdba", oid(tenant::catalog::OWNER_ROLE)),
            ("encoding", Datum::Int4(UTF8)),
            ("datlocprovider", letter(b'c')),
            ("datallowconn", Datum::Bool(true)),
            ("datconnlimit", Datum::Int4(-1)),
            ("dattablespace", Datum::Oid(1663)),
            ("datcollate", text("C.UTF-8")),
            ("datctype", text("C.UTF-8")),
        ]);
    }
}

/// `name=value` of each setting.
fn assignments(settings: &[(compact_str::CompactString, Box<str>)]) -> Datum {
    Datum::array(ElementType::Text, settings.iter().map(|(k, v)| text(format!("{k}={v}"))).collect())
}

/// Settings that sessions start with, by database and role; 0 for all.
fn start_settings(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    let of_roles = catalog.roles().map(|role| (0, role.oid, &role.settings[..]));
    let database = catalog.database().start_settings.iter();
    let of_database = database.map(|s| (if s.in_database { DATABASE } else { 0 }, s.role, &s.values[..]));
    for (database, role, values) in of_roles.chain(of_database).filter(|(_, _, values)| !values.is_empty()) {
        out.add(vec![
            ("setdatabase", Datum::Oid(database)),
            ("setrole", oid(role)),
            ("setconfig", assignments(values)),
        ]);
    }
}

/// Comments on the database and on roles.
fn shared_descriptions(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    let roles = catalog.roles().map(|role| (role.oid, role.oid.0, PG_AUTHID));
    for (object, shown, class) in roles.chain([(tenant::catalog::DATABASE, DATABASE, PG_DATABASE)]) {
        if let Some(comment) = catalog.comment(object, None) {
            out.add(vec![
                ("objoid", Datum::Oid(shown)),
                ("classoid", Datum::Oid(class)),
                ("description", text(comment)),
            ]);
        }
    }
}

/// `is_view`: `pg_roles`, with what ALTER ROLE set, and stars for every password. `pg_authid` has no passwords: whoever copies roles by it, as `pg_dumpall` does,
/// would give them what is shown.
fn roles(out: &mut Rows<'_>, is_view: bool) {
    let catalog = out.shared.catalog.clone();
    for role in catalog.roles() {
        let mut row = vec![
            ("oid", oid(role.oid)),
            ("rolname", text(&role.name)),
            ("rolsuper", Datum::Bool(role.attributes.superuser)),
            ("rolinherit", Datum::Bool(role.attributes.inherit)),
            ("rolcreaterole", Datum::Bool(role.attributes.create_role)),
            ("rolcreatedb", Datum::Bool(role.attributes.create_db)),
            ("rolcanlogin", Datum::Bool(role.attributes.login)),
            ("rolreplication", Datum::Bool(role.attributes.replication)),
            ("rolconnlimit", Datum::Int4(role.connection_limit.map_or(-1, |n| n as i32))),
            ("rolpassword", if is_view { text("********") } else { Datum::Null }),
            ("rolvaliduntil", role.valid_until.map_or(Datum::Null, Datum::TimestampTz)),
            ("rolbypassrls", Datum::Bool(role.attributes.bypass_rls)),
        ];
        if is_view && !role.settings.is_empty() {
            row.push(("rolconfig", assignments(&role.settings)));
        }
        out.add(row);
    }
}

fn users(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for role in catalog.roles().filter(|r| r.attributes.login) {
        out.add(vec![
            ("usename", text(&role.name)),
            ("usesysid", oid(role.oid)),
            ("usecreatedb", Datum::Bool(role.attributes.create_db)),
            ("usesuper", Datum::Bool(role.attributes.superuser)),
            ("userepl", Datum::Bool(role.attributes.replication)),
            ("usebypassrls", Datum::Bool(role.attributes.bypass_rls)),
            ("passwd", text("********")),
        ]);
    }
}

fn members(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for role in catalog.roles() {
        for membership in &role.member_of {
            out.add(vec![
                ("roleid", oid(membership.role)),
                ("member", oid(role.oid)),
                ("grantor", oid(membership.grantor)),
                ("admin_option", Datum::Bool(membership.admin_option)),
            ]);
        }
    }
}

pub(super) fn settings(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    for (name, shown, description) in &context.settings {
        let facts = setting_facts(name);
        let value = facts.as_ref().map_or_else(|| shown.clone(), |facts| facts.in_unit(shown));
        // What cannot be set nobody has set.
        let is_default =
            facts.as_ref().is_some_and(|facts| facts.context == "internal" || facts.default == value);
        let mut row = vec![
            ("name", text(name)),
            ("setting", text(&value)),
            ("short_desc", text(description)),
            ("context", text(facts.as_ref().map_or("user", |facts| facts.context))),
            ("vartype", text(facts.as_ref().map_or("string", |facts| facts.vartype))),
            ("source", text(if is_default { "default" } else { "session" })),
            ("pending_restart", Datum::Bool(false)),
        ];
        if let Some(facts) = facts {
            row.extend([
                ("unit", facts.unit.map_or(Datum::Null, text)),
                ("min_val", facts.range.as_ref().map_or(Datum::Null, |(least, _)| text(least))),
                ("max_val", facts.range.as_ref().map_or(Datum::Null, |(_, most)| text(most))),
                ("boot_val", text(&facts.default)),
            ]);
            if !facts.words.is_empty() {
                let words = facts.words.iter().map(text).collect();
                row.push(("enumvals", Datum::array(ElementType::Text, words)));
            }
        }
        out.add(row);
    }
}

fn time_zones(out: &mut Rows<'_>) {
    for zone in types::datetime::zone::all_at(out.shared.context.statement_start) {
        let micros = i64::from(zone.offset_seconds) * 1_000_000;
        out.add(vec![
            ("name", text(&zone.name)),
            ("abbrev", text(&zone.abbreviation)),
            ("utc_offset", Datum::Interval(Interval { months: 0, days: 0, micros })),
            ("is_dst", Datum::Bool(zone.is_dst)),
        ]);
    }
}

fn activity(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    let catalog = out.shared.catalog.clone();
    let moment = |at: Option<i64>| at.map_or(Datum::Null, Datum::TimestampTz);
    for backend in &context.backends {
        let number = database_oid(out, &backend.database);
        let user = catalog.role_named(&backend.user).map_or(Datum::Null, |r| oid(r.oid));
        let is_shown = may_see(&catalog, context.role, &backend.user);
        let shown = |value: Datum| if is_shown { value } else { Datum::Null };
        // Idle it waits for its client.
        let waits =
            backend.wait_event.or(backend.state.starts_with("idle").then_some(("Client", "ClientRead")));
        out.add(vec![
            ("datid", Datum::Oid(number)),
            ("datname", text(&backend.database)),
            ("pid", Datum::Int4(backend.pid.0 as i32)),
            ("usesysid", user),
            ("usename", text(&backend.user)),
            ("application_name", text(&backend.application_name)),
            ("client_addr", shown(backend.client_address.as_ref().map_or(Datum::Null, text))),
            ("client_port", shown(backend.client_port.map_or(Datum::Null, |p| Datum::Int4(i32::from(p))))),
            ("backend_start", shown(Datum::TimestampTz(backend.backend_start))),
            ("xact_start", shown(moment(backend.transaction_start))),
            ("query_start", shown(moment(backend.query_start))),
            ("state_change", shown(moment(backend.state_change))),
            ("wait_event_type", shown(waits.map_or(Datum::Null, |(kind, _)| text(kind)))),
            ("wait_event", shown(waits.map_or(Datum::Null, |(_, event)| text(event)))),
            ("state", shown(text(backend.state))),
            ("query", text(if is_shown { &backend.query } else { "<insufficient privilege>" })),
            ("backend_type", shown(text("client backend"))),
        ]);
    }
}

/// Whether a role is told what sessions of another one run: its own, those of roles that it is a member of, a superuser's all. The administrator is no role of
/// the tenant.
fn may_see(catalog: &tenant::catalog::Catalog, role: Option<Oid>, of: &str) -> bool {
    let Some(role) = role else { return true };
    let is_member = |of: &tenant::catalog::Role| catalog.roles_of(role, false).contains(&of.oid);
    let is_superuser = catalog.role(role).is_some_and(|role| role.attributes.superuser);
    is_superuser || catalog.role_named(of).is_some_and(|of| is_member(of))
}

fn encryption(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    let catalog = out.shared.catalog.clone();
    for backend in context.backends.iter().filter(|b| may_see(&catalog, context.role, &b.user)) {
        let tls = backend.tls.as_ref();
        out.add(vec![
            ("pid", Datum::Int4(backend.pid.0 as i32)),
            ("ssl", Datum::Bool(tls.is_some())),
            ("version", tls.map_or(Datum::Null, |t| text(&t.version))),
            ("cipher", tls.map_or(Datum::Null, |t| text(&t.cipher))),
            ("bits", tls.map_or(Datum::Null, |t| Datum::Int4(i32::from(t.bits)))),
        ]);
    }
}

/// There is no login by Kerberos.
fn kerberos(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    let catalog = out.shared.catalog.clone();
    for backend in context.backends.iter().filter(|b| may_see(&catalog, context.role, &b.user)) {
        out.add(vec![
            ("pid", Datum::Int4(backend.pid.0 as i32)),
            ("gss_authenticated", Datum::Bool(false)),
            ("encrypted", Datum::Bool(false)),
        ]);
    }
}

/// Sessions. Transactions, rows and pages are counted by tenant (`rowhouse.tenant_usage`), and not as PostgreSQL does.
fn database_statistics(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    for name in database_names(&context) {
        let number = database_oid(out, &name);
        let sessions = context.backends.iter().filter(|backend| *backend.database == *name).count();
        out.add(vec![
            ("datid", Datum::Oid(number)),
            ("datname", text(&name)),
            ("numbackends", Datum::Int4(i32::try_from(sessions).unwrap_or(i32::MAX))),
        ]);
    }
}

/// Queries are cancelled for what a primary server does on its standby alone.
fn conflicts(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    for name in database_names(&context) {
        let number = database_oid(out, &name);
        out.add(vec![
            ("datid", Datum::Oid(number)),
            ("datname", text(&name)),
            ("confl_tablespace", Datum::Int8(0)),
            ("confl_lock", Datum::Int8(0)),
            ("confl_snapshot", Datum::Int8(0)),
            ("confl_bufferpin", Datum::Int8(0)),
            ("confl_deadlock", Datum::Int8(0)),
        ]);
    }
}

/// The ledger, or of it the broken promises.
fn ledger(out: &mut Rows<'_>, broken_only: bool) {
    let entries = out.shared.context.ledger.ledger();
    for entry in entries.into_iter().filter(|entry| !broken_only || entry.cause.is_some()) {
        out.add(vec![
            ("tenant", text(entry.tenant)),
            ("resource", text(entry.resource)),
            ("volume", entry.volume.map_or(Datum::Null, text)),
            ("began", Datum::TimestampTz(entry.began)),
            ("ended", Datum::TimestampTz(entry.ended)),
            ("active", Datum::Float8(entry.active)),
            ("promised", Datum::Float8(entry.promised)),
            ("demanded", Datum::Float8(entry.demanded)),
            ("given", Datum::Float8(entry.given)),
            ("missed", Datum::Float8(entry.missed)),
            ("by_chance", entry.by_chance.map_or(Datum::Null, Datum::Float8)),
            ("over", Datum::Float8(entry.over)),
            ("held", entry.held.map_or(Datum::Null, Datum::Float8)),
            ("debt", entry.debt.map_or(Datum::Null, Datum::Float8)),
            ("forgiven", entry.forgiven.map_or(Datum::Null, Datum::Float8)),
            ("awaited", entry.awaited.map_or(Datum::Null, Datum::Float8)),
            ("cause", entry.cause.map_or(Datum::Null, text)),
            ("delay_p99", entry.delay_p99.map_or(Datum::Null, Datum::Float8)),
            ("delay_max", entry.delay_max.map_or(Datum::Null, Datum::Float8)),
            ("owed", Datum::Float8(entry.owed)),
            ("broken", Datum::Bool(entry.cause.is_some())),
        ]);
    }
}

fn tenant_usage(out: &mut Rows<'_>) {
    let count = |n: u64| Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX));
    for usage in out.shared.context.ledger.tenant_usage() {
        out.add(vec![
            ("tenant", text(usage.tenant)),
            ("cpu", Datum::Float8(usage.cpu)),
            ("cpu_demanded", Datum::Float8(usage.cpu_demanded)),
            ("cpu_promised", Datum::Float8(usage.cpu_promised)),
            ("cpu_max", usage.cpu_max.map_or(Datum::Null, Datum::Float8)),
            ("cpu_seconds", Datum::Float8(usage.cpu_seconds)),
            ("cpu_demanded_seconds", Datum::Float8(usage.cpu_demanded_seconds)),
            ("cpu_missed_seconds", Datum::Float8(usage.cpu_missed_seconds)),
            ("io", count(usage.io)),
            ("io_demanded", count(usage.io_demanded)),
            ("io_missed", count(usage.io_missed)),
            ("io_bytes", count(usage.io_bytes)),
            ("owed", Datum::Float8(usage.owed)),
            ("resident_bytes", count(usage.resident_bytes)),
            ("page_reads", count(usage.page_reads)),
            ("page_writes", count(usage.page_writes)),
            ("sessions", count(usage.sessions)),
        ]);
    }
}

fn ledger_history(out: &mut Rows<'_>) {
    let ledger = out.shared.context.ledger.clone();
    let count = |n: u64| Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX));
    let read = ledger.history(&mut |entry| {
        out.add(vec![
            ("tenant", text(entry.tenant)),
            ("resource", text(entry.resource)),
            ("volume", entry.volume.map_or(Datum::Null, text)),
            ("began", Datum::TimestampTz(entry.began)),
            ("minutes", Datum::Int4(i32::try_from(entry.minutes).unwrap_or(i32::MAX))),
            ("intervals", count(entry.intervals)),
            ("overbooked", count(entry.overbooked)),
            ("system", count(entry.system)),
            ("neighbour", count(entry.neighbour)),
            ("device", count(entry.device)),
            ("active", Datum::Float8(entry.active)),
            ("promised", Datum::Float8(entry.promised)),
            ("demanded", Datum::Float8(entry.demanded)),
            ("given", Datum::Float8(entry.given)),
            ("missed", Datum::Float8(entry.missed)),
            ("over", Datum::Float8(entry.over)),
            ("held", entry.held.map_or(Datum::Null, Datum::Float8)),
            ("debt", entry.debt.map_or(Datum::Null, Datum::Float8)),
            ("forgiven", entry.forgiven.map_or(Datum::Null, Datum::Float8)),
            ("awaited", entry.awaited.map_or(Datum::Null, Datum::Float8)),
            ("delay_p99", entry.delay_p99.map_or(Datum::Null, Datum::Float8)),
            ("owed", Datum::Float8(entry.owed)),
        ]);
        // Nothing more where there is no memory for it, nor where nobody wants it.
        !out.has_failed() && out.shared.check_cancelled().is_ok()
    });
    if let Err(error) = read.and_then(|()| out.shared.check_cancelled()) {
        out.failed.get_or_insert(error);
    }
}

fn tenant_waits(out: &mut Rows<'_>) {
    for wait in out.shared.context.ledger.tenant_waits() {
        out.add(vec![
            ("tenant", text(wait.tenant)),
            ("wait", text(wait.wait)),
            ("seconds", Datum::Float8(wait.seconds)),
            ("count", Datum::Int8(i64::try_from(wait.count).unwrap_or(i64::MAX))),
        ]);
    }
}

fn statements(out: &mut Rows<'_>) {
    let count = |n: u64| Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX));
    let seconds = |time: base::Nanos| Datum::Float8(time.as_secs_f64());
    for row in out.shared.context.ledger.statements() {
        let figures = &row.figures;
        let any = |value: Datum| if figures.calls > 0 { value } else { Datum::Null };
        out.add(vec![
            ("tenant", text(row.tenant)),
            ("query", row.query.map_or(Datum::Null, text)),
            ("calls", count(figures.calls)),
            ("errors", count(figures.errors)),
            ("cpu_seconds", seconds(figures.taken.cpu)),
            ("ios", count(figures.taken.ios)),
            ("rows", count(figures.rows)),
            ("total_seconds", seconds(figures.time)),
            ("min_seconds", any(seconds(figures.time_min))),
            ("mean_seconds", any(Datum::Float8(figures.time.as_secs_f64() / figures.calls as f64))),
            ("max_seconds", any(seconds(figures.time_max))),
            ("first_seen", any(Datum::TimestampTz(figures.first_seen))),
            ("last_seen", any(Datum::TimestampTz(figures.last_seen))),
            ("dropped", row.dropped.map_or(Datum::Null, count)),
            ("since", row.since.map_or(Datum::Null, Datum::TimestampTz)),
        ]);
    }
}

fn prepared_statements(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    for prepared in &context.prepared {
        let parameters = prepared.parameters.iter().map(|ty| text(types::format_type(*ty, TypeMod::NONE)));
        out.add(vec![
            ("name", text(&prepared.name)),
            ("statement", text(&prepared.statement)),
            ("prepare_time", Datum::TimestampTz(prepared.prepared)),
            ("parameter_types", Datum::array(ElementType::Text, parameters.collect())),
            ("from_sql", Datum::Bool(prepared.from_sql)),
        ]);
    }
}

fn locks(out: &mut Rows<'_>) {
    let context = out.shared.context.clone();
    for lock in &context.locks {
        out.add(vec![
            ("locktype", text(lock.lock_type)),
            ("database", Datum::Oid(DATABASE)),
            ("relation", lock.relation.map_or(Datum::Null, Datum::Oid)),
            ("classid", lock.key.map_or(Datum::Null, |key| Datum::Oid(key.0))),
            ("objid", lock.key.map_or(Datum::Null, |key| Datum::Oid(key.1))),
            ("objsubid", lock.key.map_or(Datum::Null, |key| Datum::Int2(key.2))),
            ("pid", Datum::Int4(lock.pid.0 as i32)),
            ("mode", text(lock.mode)),
            ("granted", Datum::Bool(lock.granted)),
            ("fastpath", Datum::Bool(false)),
        ]);
    }
}
