//! What comes of a tenant's size and of the options it was given by hand.

use base::{SqlError, SqlResult, SqlState, TenantId};
use governor::{OptionError, Promise, PromiseKey, PromiseOptions};
use sql::session::OptionChange;

use super::SYSTEM_TENANT;
use super::claims::{Claim, Subject};
use super::registry::TenantRow;
use crate::executor;
use crate::shared::Shared;

/// The options that are none of a promise.
const VOLUME: &str = "volume";
const SIZE: &str = "size";
/// What takes a tenant's size away; no size has this name.
pub(super) const NO_SIZE: &str = "none";

/// Of the server's own tenant at least, in thousandths of each worker: with less, those who flush logs might never run.
const SYSTEM_CPU_MIN: u32 = 10;

/// What a tenant is promised before it is given anything.
pub(super) fn base_of(shared: &Shared, tenant: TenantId) -> Promise {
    match tenant {
        TenantId::SYSTEM => system_default(shared.workers.len()),
        _ => Promise::default(),
    }
}

/// What the server's own tenant is promised unless it is altered.
pub(crate) fn system_default(workers: usize) -> Promise {
    let workers = u32::try_from(workers).expect("fewer than 2^32 workers");
    Promise { cpu: executor::system_cpu(workers), ..Promise::default() }
}

/// A client's error for an option that was refused: 42704 for an unknown one, else 22023.
pub(super) fn refused(error: &OptionError) -> SqlError {
    let state = match error {
        OptionError::UnknownKey { .. } => SqlState::UNDEFINED_OBJECT,
        _ => SqlState::INVALID_PARAMETER_VALUE,
    };
    SqlError::new(state, error.to_string())
}

pub(super) fn no_such_size(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("size \"{name}\" does not exist"))
}

/// A row with options as `change` has them and what comes of that over `base`, and claims on both sizes, the one before and the one after: while
/// they live, neither is altered or dropped. The caller has claimed the tenant.
///
/// # Errors
/// 42704 for unknown options and sizes, 22023 for bad values and contradictions, 0A000 for the volume, 55006 while the size is
/// being changed.
pub(super) fn altered<'a>(
    shared: &'a Shared,
    base: &Promise,
    mut row: TenantRow,
    change: &OptionChange,
) -> SqlResult<(TenantRow, Vec<Claim<'a>>)> {
    let before = row.size.clone();
    apply(&mut row, change)?;
    let mut claims = Vec::new();
    for size in before.iter().chain(row.size.iter().filter(|size| Some(*size) != before.as_ref())) {
        claims.push(shared.claims.keep(Subject::Size(size.clone()))?);
    }
    resolve(shared, base, &mut row)?;
    Ok((row, claims))
}

fn apply(row: &mut TenantRow, change: &OptionChange) -> SqlResult<()> {
    let is = |key: &str, name: &str| key.eq_ignore_ascii_case(name);
    let elsewhere = || SqlError::unsupported("moving a tenant to another volume");
    match change {
        OptionChange::Set(options) => {
            for (key, value) in options {
                if is(key, SIZE) {
                    row.size = (value != NO_SIZE).then(|| value.clone());
                } else if is(key, VOLUME) {
                    return Err(elsewhere());
                } else {
                    row.options.set(key, value).map_err(|error| refused(&error))?;
                }
            }
        }
        OptionChange::Reset(keys) => {
            for key in keys {
                if is(key, SIZE) {
                    row.size = None;
                } else if is(key, VOLUME) {
                    return Err(elsewhere());
                } else {
                    row.options.reset(key).map_err(|error| refused(&error))?;
                }
            }
        }
    }
    Ok(())
}

/// Works out what is in force.
fn resolve(shared: &Shared, base: &Promise, row: &mut TenantRow) -> SqlResult<()> {
    row.promise = match &row.size {
        Some(size) => with_size(row, &shared.sizes.get(size).ok_or_else(|| no_such_size(size))?)?,
        None => checked(row.options.over(base))?,
    };
    Ok(())
}

/// What a tenant would be promised if its size said this.
pub(super) fn with_size(row: &TenantRow, size: &PromiseOptions) -> SqlResult<Promise> {
    checked(row.options.over(&size.over(&Promise::default())))
}

pub(super) fn checked(promise: Promise) -> SqlResult<Promise> {
    promise.validate().map_err(|error| refused(&error))?;
    Ok(promise)
}

/// The server's own work may be given more or less of what there is, and cannot be stopped: every tenant waits for it.
pub(super) fn check_system(shared: &Shared, row: &TenantRow) -> SqlResult<()> {
    let promise = &row.promise;
    let refused = |message: String| {
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_detail("Every tenant waits for the server's own work."))
    };
    if row.size.is_some() {
        return refused(format!("tenant \"{SYSTEM_TENANT}\" has no size"));
    }
    use PromiseKey as Key;
    let limits = [
        Key::CpuMax,
        Key::IopsMax,
        Key::IoBandwidthMax,
        Key::MemoryMax,
        Key::ConnectionsMax,
        Key::StorageMax,
        Key::StatementTimeout,
    ];
    let default = Promise::default();
    if let Some(limit) = limits.into_iter().find(|key| promise.get(*key) != default.get(*key)) {
        return refused(format!("tenant \"{SYSTEM_TENANT}\" cannot have a limit: \"{}\"", limit.as_str()));
    }
    let least = governor::MilliCores(SYSTEM_CPU_MIN * shared.workers.len() as u32);
    if promise.cpu.reserved < least {
        return refused(format!("\"cpu\" of tenant \"{SYSTEM_TENANT}\" may not be below {least}"));
    }
    Ok(())
}

/// A row as it was read from the catalogue, with what is in force.
pub(super) fn of_loaded(shared: &Shared, tenant: TenantId, mut row: TenantRow) -> TenantRow {
    if let Err(error) = resolve(shared, &base_of(shared, tenant), &mut row) {
        // Somebody has written to the tables themselves: the tenant goes on with what it was given by hand.
        tracing::error!(tenant = tenant.0, name = row.name, %error, "a tenant's promise is not whole");
    }
    row
}

/// What a tenant to be made begins with.
#[derive(Clone)]
pub(super) struct Beginnings {
    pub(super) volume: String,
    pub(super) size: Option<String>,
    pub(super) options: PromiseOptions,
}

/// The row of a tenant to be made, as `beginnings` unless WITH says otherwise, and claims on its size. The volume is not looked up.
///
/// # Errors
/// Those of [`altered`] but for the volume's.
pub(super) fn new_row<'a>(
    shared: &'a Shared,
    name: String,
    beginnings: Beginnings,
    with: &[(String, String)],
) -> SqlResult<(TenantRow, Vec<Claim<'a>>)> {
    let is_volume = |key: &str| key.eq_ignore_ascii_case(VOLUME);
    let (volumes, options): (Vec<_>, Vec<_>) = with.iter().cloned().partition(|(key, _)| is_volume(key));
    let volume = volumes.into_iter().next().map_or(beginnings.volume, |(_, volume)| volume);
    let row = TenantRow {
        name,
        volume,
        size: beginnings.size,
        options: beginnings.options,
        promise: Promise::default(),
    };
    altered(shared, &Promise::default(), row, &OptionChange::Set(options))
}
