//! ALTER SERVER and ALTER VOLUME.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use governor::{ServerOptions, VolumeOptions};
use sql::session::OptionChange;

use super::super::catalogue::{self, Named};
use super::super::promises::refused;
use super::super::{SERVER, Subject};
use super::overbooking::Grown;
use crate::shared::Shared;

/// Makes a change option by option.
pub(super) fn apply<T, E>(
    options: &mut T,
    change: &OptionChange,
    set: fn(&mut T, &str, &str) -> Result<(), E>,
    reset: fn(&mut T, &str) -> Result<(), E>,
) -> Result<(), E> {
    match change {
        OptionChange::Set(all) => all.iter().try_for_each(|(key, value)| set(options, key, value)),
        OptionChange::Reset(keys) => keys.iter().try_for_each(|key| reset(options, key)),
    }
}

/// Changes what is kept of the promises, on every worker and volume.
pub(super) async fn alter(shared: &Arc<Shared>, change: &OptionChange) -> SqlResult<()> {
    let _claim = shared.claims.change(Subject::Server)?;
    let mut options = shared.policy.get();
    apply(&mut options, change, ServerOptions::set, ServerOptions::reset).map_err(|error| refused(&error))?;
    catalogue::set_named(shared, Named::Server, SERVER, &options).await?;
    shared.policy.set(shared, options);
    Ok(())
}

pub(super) async fn alter_volume(
    shared: &Arc<Shared>,
    name: &str,
    change: &OptionChange,
) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(Subject::Volume(name.to_owned()))?;
    let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("volume \"{name}\" does not exist"));
    let volume = shared.volumes.find(name).ok_or_else(missing)?;
    let (before, mut options) = (volume.capacity(), volume.options());
    apply(&mut options, change, VolumeOptions::set, VolumeOptions::reset).map_err(|error| refused(&error))?;
    catalogue::set_named(shared, Named::Volumes, name, &options).await?;
    shared.volumes.set_options(volume, options);
    let mut grown = Grown::default();
    if volume.capacity().unwrap_or(u64::MAX) < before.unwrap_or(u64::MAX) {
        grown.note_volume(volume.number);
    }
    Ok(grown.warnings(shared))
}
