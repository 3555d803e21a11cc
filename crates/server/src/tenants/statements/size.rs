//! CREATE, ALTER and DROP SIZE.
//!
//! A size's row is the truth: what its tenants are promised follows from it, in memory at once and after a crash.

use std::sync::Arc;

use base::limits::IDENTIFIER_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use governor::{Promise, PromiseOptions};
use sql::session::OptionChange;

use super::super::catalogue::{self, Named};
use super::super::promises::{self, NO_SIZE, checked, no_such_size, refused, with_size};
use super::super::{Entry, Subject};
use super::overbooking::Grown;
use super::server::apply;
use super::skipped;
use crate::executor::yield_now;
use crate::shared::Shared;

/// Tenants that are named when a size cannot be dropped.
const NAMED_MAX: usize = 100;
/// Tenants whose promise is changed in one turn.
const CHANGED_AT_ONCE: usize = 256;

/// The tenants that have this size, by name.
pub(super) fn tenants_of(shared: &Shared, size: &str) -> Vec<(String, Arc<Entry>)> {
    let has_it = |entry: &Entry| entry.with_row(|row| row.size.as_deref() == Some(size));
    let mut tenants = shared.tenants.list();
    tenants.retain(|(_, entry)| has_it(entry));
    tenants
}

fn claim(name: &str) -> Subject {
    Subject::Size(name.to_owned())
}

pub(super) async fn create(
    shared: &Arc<Shared>,
    name: String,
    options: Vec<(String, String)>,
    if_not_exists: bool,
) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(claim(&name))?;
    if name.is_empty() || name.len() > IDENTIFIER_LEN_MAX {
        let message = format!("a size's name has 1 to {IDENTIFIER_LEN_MAX} bytes");
        return Err(SqlError::new(SqlState::INVALID_NAME, message));
    }
    if name == NO_SIZE {
        let message = format!("\"{NO_SIZE}\" is what a tenant without a size has");
        return Err(SqlError::new(SqlState::RESERVED_NAME, message));
    }
    if shared.sizes.get(&name).is_some() {
        let exists = SqlError::new(SqlState::DUPLICATE_OBJECT, format!("size \"{name}\" already exists"));
        return if if_not_exists { Ok(vec![skipped(&exists)]) } else { Err(exists) };
    }
    let mut size = PromiseOptions::default();
    change_options(&mut size, &OptionChange::Set(options))?;
    catalogue::set_named(shared, Named::Sizes, &name, &size).await?;
    shared.sizes.set(name, size);
    Ok(Vec::new())
}

/// Changes a size's options, which have to make sense by themselves.
fn change_options(size: &mut PromiseOptions, change: &OptionChange) -> SqlResult<()> {
    apply(size, change, PromiseOptions::set, PromiseOptions::reset).map_err(|error| refused(&error))?;
    checked(size.over(&Promise::default())).map(drop)
}

/// Changes a size for all its tenants, or for none: what one of them was given by hand may contradict it.
pub(super) async fn alter(
    shared: &Arc<Shared>,
    name: String,
    change: &OptionChange,
) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(claim(&name))?;
    let mut size = shared.sizes.get(&name).ok_or_else(|| no_such_size(&name))?;
    change_options(&mut size, change)?;
    // While the size is claimed no other tenant comes to have it, and the options of those that do stay as they are.
    let tenants = tenants_of(shared, &name);
    let mut grown = Grown::default();
    for (tenant, entry) in &tenants {
        let row = entry.row();
        let promise = with_size(&row, &size)
            .map_err(|error| error.with_detail(format!("Tenant \"{tenant}\" has this size.")))?;
        grown.note(shared, &row.volume, &row.promise, &promise);
    }
    catalogue::set_named(shared, Named::Sizes, &name, &size).await?;
    shared.sizes.set(name, size.clone());
    for some in tenants.chunks(CHANGED_AT_ONCE) {
        for (_, entry) in some {
            entry.change_row(|row| row.promise = promises::with_size(row, &size).expect("checked above"));
        }
        yield_now().await;
    }
    Ok(grown.warnings(shared))
}

pub(super) async fn remove(shared: &Arc<Shared>, name: &str, if_exists: bool) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(claim(name))?;
    if shared.sizes.get(name).is_none() {
        let missing = no_such_size(name);
        return if if_exists { Ok(vec![skipped(&missing)]) } else { Err(missing) };
    }
    let tenants = tenants_of(shared, name);
    if !tenants.is_empty() {
        let mut named: Vec<String> = tenants
            .iter()
            .take(NAMED_MAX)
            .map(|(tenant, _)| format!("tenant {tenant} has size {name}"))
            .collect();
        if tenants.len() > NAMED_MAX {
            named.push(format!("and {} other tenants", tenants.len() - NAMED_MAX));
        }
        let message = format!("cannot drop size {name} because tenants have it");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(named.join("\n"))
            .with_hint("Give them another one, or none, with ALTER TENANT … SET (size = …)."));
    }
    catalogue::drop_named(shared, Named::Sizes, name).await?;
    shared.sizes.remove(name);
    Ok(Vec::new())
}
