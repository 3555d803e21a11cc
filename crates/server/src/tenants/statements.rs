//! The administrator's statements: on tenants here, on sizes in `size`, on runaway rules in `runaway`, on the server and its volumes in
//! `server`; what they show in `show`.
//!
//! Order against a crash: `making` has it for what makes tenants; DROP marks the catalogue's row, then removes the file. What is
//! altered is remembered first, then put in force.

mod overbooking;
mod placed;
mod runaway;
mod server;
mod show;
mod size;
pub(crate) mod template;

use std::sync::Arc;

use base::limits::IDENTIFIER_LEN_MAX;
use base::{Severity, SqlError, SqlResult, SqlState, TenantId};
use governor::{Promise, PromiseOptions};
use sql::session::{HostOutcome, HostStatement, OptionChange};
use tenant::catalog::check_role_name;
use types::Datum;

use self::overbooking::Grown;
pub(crate) use self::placed::place;
pub(crate) use self::show::fields;
use super::promises::{self, Beginnings};
use super::registry::TenantRow;
use super::{ADMINISTRATOR, Entry, SYSTEM_DATABASE, SYSTEM_TENANT, Subject, catalogue, making};
use crate::administration::Administered;
use crate::data_dir::DEFAULT_VOLUME;
use crate::passwords;
use crate::placement;
use crate::session::Control;
use crate::shared::Shared;

/// # Errors
/// 42501 for others than the administrator or in another database.
pub(crate) fn authorize(control: &Control) -> SqlResult<()> {
    if control.administrator && control.tenant == base::TenantId::SYSTEM {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!(
            "tenants and the server are administered by the administrator in the database \"{SYSTEM_DATABASE}\""
        ),
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
    let changed = changed_by(&statement);
    let outcome = carry_out(shared, statement).await?;
    changed.into_iter().for_each(|what| shared.administered.note(what));
    Ok(outcome)
}

/// As [`run`], for those that take their time too, with nobody who could interrupt them.
///
/// # Errors
/// As [`run`]; 0A000 for those that send or take data.
pub(crate) async fn run_to_end(
    shared: &Arc<Shared>,
    control: &Control,
    statement: HostStatement,
) -> SqlResult<HostOutcome> {
    authorize(control)?;
    match statement {
        HostStatement::MoveTenant { name, worker } => {
            place(shared, &name, worker).await?;
            Ok(HostOutcome::Done { tag: "ALTER TENANT", notices: Vec::new() })
        }
        HostStatement::CreateTenant { template: Some(_), .. } => {
            let copy = template::begin(shared, statement)?;
            let notices = match copy.making {
                Ok(mut making) => {
                    making.outcome().await?;
                    warnings_of_new(shared, &copy.name)
                }
                Err(skipped) => vec![skipped],
            };
            Ok(HostOutcome::Done { tag: "CREATE TENANT", notices })
        }
        HostStatement::BackupTenant { .. } | HostStatement::RestoreTenant { .. } => {
            Err(SqlError::unsupported("BACKUP or RESTORE but over the wire"))
        }
        other => run(shared, control, other).await,
    }
}

/// What a statement changes, once it has succeeded.
fn changed_by(statement: &HostStatement) -> Option<Administered> {
    match statement {
        HostStatement::CreateTenant { .. }
        | HostStatement::AlterTenant { .. }
        | HostStatement::RenameTenant { .. }
        | HostStatement::MoveTenant { .. }
        | HostStatement::RestoreTenant { .. }
        | HostStatement::DropTenant { .. } => Some(Administered::Tenants),
        HostStatement::CreateSize { .. }
        | HostStatement::AlterSize { .. }
        | HostStatement::DropSize { .. } => Some(Administered::Sizes),
        HostStatement::AlterServer { .. } => Some(Administered::Server),
        HostStatement::AlterVolume { .. } => Some(Administered::Volumes),
        HostStatement::CreateRunawayRule { .. }
        | HostStatement::AlterRunawayRule { .. }
        | HostStatement::DropRunawayRule { .. } => Some(Administered::Rules),
        HostStatement::ShowTenants
        | HostStatement::ShowSizes
        | HostStatement::ShowServer
        | HostStatement::ShowVolumes
        | HostStatement::ShowRunawayRules
        | HostStatement::BackupTenant { .. }
        | HostStatement::Evict { .. } => None,
    }
}

async fn carry_out(shared: &Arc<Shared>, statement: HostStatement) -> SqlResult<HostOutcome> {
    let done = |tag, notices| HostOutcome::Done { tag, notices };
    Ok(match statement {
        HostStatement::CreateTenant { template: Some(_), .. }
        | HostStatement::MoveTenant { .. }
        | HostStatement::BackupTenant { .. }
        | HostStatement::RestoreTenant { .. } => {
            return Err(SqlError::internal("a statement that takes its time was to be run in one go"));
        }
        HostStatement::CreateTenant { name, template: None, options, owner, password, if_not_exists } => {
            done("CREATE TENANT", create(shared, name, &options, owner, password, if_not_exists).await?)
        }
        HostStatement::AlterTenant { name, change } => {
            done("ALTER TENANT", alter(shared, &name, &change).await?)
        }
        HostStatement::RenameTenant { name, to } => {
            rename(shared, &name, &to).await?;
            done("ALTER TENANT", Vec::new())
        }
        HostStatement::DropTenant { name, if_exists } => {
            done("DROP TENANT", drop_tenant(shared, &name, if_exists).await?)
        }
        HostStatement::CreateSize { name, options, if_not_exists } => {
            done("CREATE SIZE", size::create(shared, name, options, if_not_exists).await?)
        }
        HostStatement::AlterSize { name, change } => {
            done("ALTER SIZE", size::alter(shared, name, &change).await?)
        }
        HostStatement::DropSize { name, if_exists } => {
            done("DROP SIZE", size::remove(shared, &name, if_exists).await?)
        }
        HostStatement::AlterServer { change } => {
            server::alter(shared, &change).await?;
            done("ALTER SERVER", Vec::new())
        }
        HostStatement::AlterVolume { name, change } => {
            done("ALTER VOLUME", server::alter_volume(shared, &name, &change).await?)
        }
        HostStatement::CreateRunawayRule { name, tenant, options, if_not_exists } => {
            done("CREATE RUNAWAY RULE", runaway::create(shared, &name, tenant, options, if_not_exists).await?)
        }
        HostStatement::AlterRunawayRule { name, change } => {
            runaway::alter(shared, &name, &change).await?;
            done("ALTER RUNAWAY RULE", Vec::new())
        }
        HostStatement::DropRunawayRule { name, if_exists } => {
            done("DROP RUNAWAY RULE", runaway::remove(shared, &name, if_exists).await?)
        }
        HostStatement::ShowRunawayRules => {
            show::rows(&statement, show::runaway_rules(shared), "SHOW RUNAWAY RULES")
        }
        HostStatement::ShowServer => show::rows(&statement, show::server(shared), "SHOW SERVER"),
        HostStatement::ShowVolumes => show::rows(&statement, show::volumes(shared), "SHOW VOLUMES"),
        HostStatement::ShowTenants => show::rows(&statement, show::tenants(shared).await, "SHOW TENANTS"),
        HostStatement::ShowSizes => show::rows(&statement, show::sizes(shared), "SHOW SIZES"),
        HostStatement::Evict { ref name } => {
            let entry = shared.tenants.named(name).ok_or_else(|| missing(name))?;
            let pages = entry.home.evict_all().await?.unwrap_or(0);
            show::rows(&statement, vec![vec![Datum::Int8(pages.cast_signed())]], "SELECT 1")
        }
    })
}

/// What PostgreSQL says where IF EXISTS or IF NOT EXISTS has nothing to do.
pub(crate) fn skipped(error: &SqlError) -> SqlError {
    SqlError::new(error.state(), format!("{}, skipping", error.message())).with_severity(Severity::Notice)
}

/// The warnings about a tenant that was just made.
pub(crate) fn warnings_of_new(shared: &Shared, name: &str) -> Vec<SqlError> {
    let mut grown = Grown::default();
    if let Some(entry) = shared.tenants.named(name) {
        entry.with_row(|row| grown.note(shared, &row.volume, &Promise::default(), &row.promise));
    }
    grown.warnings(shared)
}

pub(crate) fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("tenant \"{name}\" does not exist"))
}

/// The tenant `name`, which is not the server's own.
pub(super) fn existing(shared: &Shared, name: &str) -> SqlResult<Arc<Entry>> {
    let entry = shared.tenants.named(name).ok_or_else(|| missing(name))?;
    if entry.id == TenantId::SYSTEM {
        return Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            format!("\"{name}\" is the server's own and can only be altered, as tenant \"{SYSTEM_TENANT}\""),
        ));
    }
    Ok(entry)
}

pub(crate) fn check_name(shared: &Shared, name: &str) -> SqlResult<()> {
    if name.is_empty() || name.len() > IDENTIFIER_LEN_MAX {
        return Err(SqlError::new(
            SqlState::INVALID_NAME,
            format!("a tenant's name has 1 to {IDENTIFIER_LEN_MAX} bytes"),
        ));
    }
    if name == SYSTEM_TENANT {
        return Err(SqlError::new(
            SqlState::RESERVED_NAME,
            format!("\"{SYSTEM_TENANT}\" is the name of the server's own tenant"),
        ));
    }
    if shared.tenants.find(name).is_some() {
        return Err(SqlError::new(SqlState::DUPLICATE_DATABASE, format!("tenant \"{name}\" already exists")));
    }
    Ok(())
}

/// Errors: 42939 for a name that no role may have, or by which nobody could log in as the owner.
fn check_owner(name: &str) -> SqlResult<()> {
    check_role_name(name)?;
    if name == ADMINISTRATOR {
        let message = format!("role name \"{name}\" is reserved");
        return Err(SqlError::new(SqlState::RESERVED_NAME, message)
            .with_detail("Who logs in by it is the server's administrator, in every database."));
    }
    Ok(())
}

async fn create(
    shared: &Arc<Shared>,
    name: String,
    options: &[(String, String)],
    owner: Option<String>,
    password: Option<String>,
    if_not_exists: bool,
) -> SqlResult<Vec<SqlError>> {
    let is_cleared = password.as_ref().is_some_and(String::is_empty);
    let password = password.filter(|_| !is_cleared);
    let verifier = password.map(|password| passwords::stored(password, &shared.env)).transpose()?;
    let owner = owner.unwrap_or_else(|| name.clone());
    let _claim = shared.claims.change(Subject::Tenant(name.clone()))?;
    match check_name(shared, &name) {
        Err(error) if if_not_exists && error.state() == SqlState::DUPLICATE_DATABASE => {
            return Ok(vec![skipped(&error)]);
        }
        outcome => outcome?,
    }
    check_owner(&owner).map_err(|error| error.with_hint("OWNER says what the tenant's owner is called."))?;
    let begins =
        Beginnings { volume: DEFAULT_VOLUME.to_owned(), size: None, options: PromiseOptions::default() };
    let (row, _size_claims) = promises::new_row(shared, name.clone(), begins, options)?;
    let id = shared.tenants.new_id();
    let home = placement::found(shared, id, &row.volume, &row.promise)?;
    making::make(shared, &home, row, home.create(owner, verifier)).await?;
    let mut told = warnings_of_new(shared, &name);
    told.extend(is_cleared.then(sql::session::password_cleared));
    Ok(told)
}

async fn alter(shared: &Arc<Shared>, name: &str, change: &OptionChange) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(Subject::Tenant(name.to_owned()))?;
    let entry = match shared.tenants.named(name).ok_or_else(|| missing(name))? {
        entry if entry.id == TenantId::SYSTEM && name == SYSTEM_TENANT => entry,
        _ => existing(shared, name)?,
    };
    let before = entry.row();
    let base = promises::base_of(shared, entry.id);
    let (row, _size_claims) = promises::altered(shared, &base, before.clone(), change)?;
    if entry.id == TenantId::SYSTEM {
        promises::check_system(shared, &row)?;
    }
    catalogue::update(shared, entry.id, &row).await?;
    let mut grown = Grown::default();
    grown.note(shared, &row.volume, &before.promise, &row.promise);
    entry.change_row(|there| *there = row);
    Ok(grown.warnings(shared))
}

async fn rename(shared: &Arc<Shared>, name: &str, to: &str) -> SqlResult<()> {
    let _claim = shared.claims.change(Subject::Tenant(name.to_owned()))?;
    let _claim_to = match to == name {
        true => None,
        false => Some(shared.claims.change(Subject::Tenant(to.to_owned()))?),
    };
    let entry = existing(shared, name)?;
    check_name(shared, to)?;
    catalogue::update(shared, entry.id, &TenantRow { name: to.to_owned(), ..entry.row() }).await?;
    shared.tenants.rename(&entry, to);
    Ok(())
}

async fn drop_tenant(shared: &Arc<Shared>, name: &str, if_exists: bool) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(Subject::Tenant(name.to_owned()))?;
    let entry = match existing(shared, name) {
        Err(error) if if_exists && error.state() == SqlState::INVALID_CATALOG_NAME => {
            return Ok(vec![skipped(&error)]);
        }
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
    let rules = runaway::about(shared, entry.id)?;
    catalogue::mark_dropped(shared, entry.id).await?;
    shared.tenants.remove(&entry);
    // Whoever came in between the count and the removal.
    shared.sessions.drop_tenant(entry.id);
    rules.forget().await;
    // A checkpoint or a replay under way has to end first, and is not to wait for limits of who is gone.
    entry.home.set_promise(&Promise::default());
    // It is gone though its file may be there yet, and so is what it was promised.
    let removed = entry.home.remove().await;
    making::forget(shared, entry.id);
    shared.ledger.forget(entry.id);
    removed.map(|()| Vec::new())
}
