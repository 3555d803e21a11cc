//! CREATE, ALTER, DROP TENANT and SHOW TENANTS.
//!
//! Order against a crash: `making` has it for what makes tenants; DROP marks the catalogue's row, then removes the file.

use std::sync::Arc;

use base::limits::IDENTIFIER_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use governor::{Promise, PromiseError, PromiseKey};
use pgproto::scram::Verifier;
use sql::session::{Field, HostOutcome, HostStatement};
use types::{Datum, PgType, Row, TypeMod};

use super::registry::TenantRow;
use super::{Entry, Home, SYSTEM_DATABASE, catalogue, making};
use crate::data_dir::DEFAULT_VOLUME;
use crate::session::Control;
use crate::shared::Shared;

/// The option that is no promise.
const VOLUME: &str = "volume";

/// # Errors
/// 42501 for others than the administrator or in another database.
pub(crate) fn authorize(control: &Control) -> SqlResult<()> {
    if control.administrator && control.tenant == base::TenantId::SYSTEM {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!("tenants are administered by the administrator in the database \"{SYSTEM_DATABASE}\""),
    ))
}

/// Carries out a statement of the administrator that takes no time worth interrupting.
///
/// # Errors
/// 42501 for others than the administrator or in another database; 42P04, 3D000, 22023 and the like as PostgreSQL's
/// statements on databases give.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    control: &Control,
    statement: HostStatement,
) -> SqlResult<HostOutcome> {
    authorize(control)?;
    match statement {
        HostStatement::CreateTenant { template: Some(_), .. }
        | HostStatement::BackupTenant { .. }
        | HostStatement::RestoreTenant { .. } => {
            Err(SqlError::internal("a statement that streams was to be run in one go"))
        }
        HostStatement::CreateTenant { name, template: None, options, owner, password, if_not_exists } => {
            create(shared, name, &options, owner, password, if_not_exists).await?;
            Ok(HostOutcome::Done("CREATE TENANT"))
        }
        HostStatement::AlterTenant { name, options } => {
            alter(shared, &name, &options).await?;
            Ok(HostOutcome::Done("ALTER TENANT"))
        }
        HostStatement::RenameTenant { name, to } => {
            rename(shared, &name, &to).await?;
            Ok(HostOutcome::Done("ALTER TENANT"))
        }
        HostStatement::DropTenant { name, if_exists } => {
            drop_tenant(shared, &name, if_exists).await?;
            Ok(HostOutcome::Done("DROP TENANT"))
        }
        HostStatement::ShowTenants => Ok(show(shared)),
        HostStatement::Evict { ref name } => {
            let entry = shared.tenants.find(name).ok_or_else(|| missing(name))?;
            let pages = entry.home.evict_all().await?.unwrap_or(0);
            let rows = vec![vec![Datum::Int8(pages.cast_signed())]];
            Ok(HostOutcome::Rows { fields: fields(&statement), rows, tag: "SELECT 1" })
        }
    }
}

fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("tenant \"{name}\" does not exist"))
}

pub(super) fn existing(shared: &Shared, name: &str) -> SqlResult<Arc<Entry>> {
    let entry = shared.tenants.find(name).ok_or_else(|| missing(name))?;
    if entry.id == base::TenantId::SYSTEM {
        return Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("\"{SYSTEM_DATABASE}\" is the administrator's database and cannot be changed"),
        ));
    }
    Ok(entry)
}

pub(super) fn check_name(shared: &Shared, name: &str) -> SqlResult<()> {
    if name.is_empty() || name.len() > IDENTIFIER_LEN_MAX {
        return Err(SqlError::new(
            SqlState::INVALID_NAME,
            format!("a tenant's name has 1 to {IDENTIFIER_LEN_MAX} bytes"),
        ));
    }
    if shared.tenants.find(name).is_some() {
        return Err(SqlError::new(SqlState::DUPLICATE_DATABASE, format!("tenant \"{name}\" already exists")));
    }
    Ok(())
}

fn refused(error: &PromiseError) -> SqlError {
    let state = match error {
        PromiseError::UnknownKey { .. } => SqlState::UNDEFINED_OBJECT,
        _ => SqlState::INVALID_PARAMETER_VALUE,
    };
    SqlError::new(state, error.to_string())
}

fn set_all<'a>(promise: &mut Promise, options: impl Iterator<Item = &'a (String, String)>) -> SqlResult<()> {
    for (key, value) in options {
        promise.set(key, value).map_err(|error| refused(&error))?;
    }
    promise.validate().map_err(|error| refused(&error))
}

async fn create(
    shared: &Arc<Shared>,
    name: String,
    options: &[(String, String)],
    owner: Option<String>,
    password: Option<String>,
    if_not_exists: bool,
) -> SqlResult<()> {
    let _reserved = shared.tenants.reserve(&name)?;
    match check_name(shared, &name) {
        Err(error) if if_not_exists && error.state() == SqlState::DUPLICATE_DATABASE => return Ok(()),
        outcome => outcome?,
    }
    let row = new_row(name.clone(), DEFAULT_VOLUME, Promise::default(), options)?;
    let id = shared.tenants.new_id();
    let home = Home::of(shared, id, &row.volume)?;
    let owner = owner.unwrap_or(name);
    let verifier = password.map(|password| {
        if password.parse::<Verifier>().is_ok() {
            password
        } else {
            Verifier::of_password(&password, shared.env.entropy.bytes()).to_string()
        }
    });
    making::make(shared, &home, row, home.create(owner, verifier)).await
}

/// The row of a tenant to be made: on `volume` and with `promise` unless the options say otherwise.
pub(super) fn new_row(
    name: String,
    volume: &str,
    mut promise: Promise,
    options: &[(String, String)],
) -> SqlResult<TenantRow> {
    let is_volume = |key: &str| key.eq_ignore_ascii_case(VOLUME);
    let volume = options.iter().rfind(|(key, _)| is_volume(key)).map_or(volume, |(_, value)| value);
    set_all(&mut promise, options.iter().filter(|(key, _)| !is_volume(key)))?;
    Ok(TenantRow { name, volume: volume.to_owned(), promise })
}

async fn alter(shared: &Arc<Shared>, name: &str, options: &[(String, String)]) -> SqlResult<()> {
    let _reserved = shared.tenants.reserve(name)?;
    let entry = existing(shared, name)?;
    if options.iter().any(|(key, _)| key.eq_ignore_ascii_case(VOLUME)) {
        return Err(SqlError::unsupported("moving a tenant to another volume"));
    }
    let mut row = entry.row();
    set_all(&mut row.promise, options.iter())?;
    catalogue::update(shared, entry.id, &row).await?;
    entry.set_row(row);
    Ok(())
}

async fn rename(shared: &Arc<Shared>, name: &str, to: &str) -> SqlResult<()> {
    let _reserved = shared.tenants.reserve(name)?;
    let _reserved_to = shared.tenants.reserve(to)?;
    let entry = existing(shared, name)?;
    check_name(shared, to)?;
    catalogue::update(shared, entry.id, &TenantRow { name: to.to_owned(), ..entry.row() }).await?;
    shared.tenants.rename(&entry, to);
    Ok(())
}

async fn drop_tenant(shared: &Arc<Shared>, name: &str, if_exists: bool) -> SqlResult<()> {
    let _reserved = shared.tenants.reserve(name)?;
    let entry = match existing(shared, name) {
        Err(error) if if_exists && error.state() == SqlState::INVALID_CATALOG_NAME => return Ok(()),
        other => other?,
    };
    let sessions = shared.sessions.count_of(entry.id);
    if sessions > 0 {
        return Err(SqlError::new(
            SqlState::OBJECT_IN_USE,
            format!("tenant \"{name}\" is being accessed by other users"),
        )
        .with_detail(format!("There are {sessions} other sessions using the tenant.")));
    }
    if entry.home.is_being_copied() {
        return Err(SqlError::new(
            SqlState::OBJECT_IN_USE,
            format!("tenant \"{name}\" is being backed up or copied"),
        )
        .with_hint("Wait for its end, or end it with pg_cancel_backend."));
    }
    catalogue::mark_dropped(shared, entry.id).await?;
    shared.tenants.remove(&entry);
    // Whoever came in between the count and the removal.
    shared.sessions.drop_tenant(entry.id);
    entry.home.remove().await?;
    shared.log_dir.forget(entry.id);
    entry.home.worker().forget(entry.id);
    shared.ledger.forget(entry.id);
    shared.io_accounts.forget(entry.id);
    Ok(())
}

/// The columns of a statement's answer; empty for one without rows.
pub(crate) fn fields(statement: &HostStatement) -> Vec<Field> {
    match statement {
        HostStatement::ShowTenants => {}
        HostStatement::Evict { .. } => return vec![field("evict", PgType::Int8)],
        _ => return Vec::new(),
    }
    let text = |name: &str| field(name, PgType::Text);
    let mut fields = vec![text("name"), field("id", PgType::Int8), text("state"), text("volume")];
    fields.push(field("worker", PgType::Int4));
    fields.push(field("sessions", PgType::Int8));
    fields.push(field("cpu_seconds", PgType::Float8));
    fields.extend(PromiseKey::ALL.iter().map(|key| text(key.as_str())));
    fields.push(field("storage_used", PgType::Int8));
    fields.push(field("temp_used", PgType::Int8));
    let counted = [
        "resident_bytes",
        "page_misses",
        "page_reads",
        "page_evictions",
        "page_writes",
        "ahead_asked",
        "ahead_used",
        "ahead_wasted",
    ];
    fields.extend(counted.map(|name| field(name, PgType::Int8)));
    fields
}

fn show(shared: &Shared) -> HostOutcome {
    let fields = fields(&HostStatement::ShowTenants);
    let mut rows = Vec::new();
    for (name, entry) in shared.tenants.list() {
        let row = entry.row();
        let used = entry.home.worker().account(entry.id).used();
        let (resident, pages) = entry.home.page_figures();
        let mut values: Row = vec![
            Datum::Text(name.into()),
            Datum::Int8(entry.id.0.cast_signed()),
            Datum::Text(entry.home.phase_name().into()),
            Datum::Text(row.volume.into()),
            Datum::Int4(i32::from(entry.home.worker().id().0)),
            Datum::Int8(shared.sessions.count_of(entry.id) as i64),
            Datum::Float8(used.as_secs_f64()),
        ];
        values.extend(PromiseKey::ALL.iter().map(|&key| Datum::Text(row.promise.get(key).into())));
        let storage_used = entry.home.storage_used();
        values.push(storage_used.map_or(Datum::Null, |used| Datum::Int8(used.0.cast_signed())));
        values.push(Datum::Int8(entry.home.temp_used().0.cast_signed()));
        let counted = [
            resident.0,
            pages.misses,
            pages.reads,
            pages.evictions,
            pages.write_backs,
            pages.ahead_asked,
            pages.ahead_used,
            pages.ahead_wasted,
        ];
        values.extend(counted.map(|count| Datum::Int8(count.cast_signed())));
        rows.push(values);
    }
    HostOutcome::Rows { fields, rows, tag: "SHOW TENANTS" }
}

fn field(name: &str, ty: PgType) -> Field {
    Field { name: name.to_owned(), table_oid: 0, attribute: 0, ty, modifier: TypeMod::NONE }
}
