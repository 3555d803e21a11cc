//! Making a tenant, so that a crash at any moment leaves a whole tenant or none.
//!
//! Order: the catalogue's row says that the tenant is being made, the data file is made, the row says that the tenant
//! lives; each step durable before the next. Before the last one nobody was told of the tenant. What is cut short is
//! undone at once, or from the next start on by whoever reads the catalogue: the row says that the tenant is gone, then the
//! file is removed. So a file without a row is never there, and no id is given out twice.

use std::future::Future;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState, TenantId};

use super::registry::TenantRow;
use super::{Entry, Home, catalogue};
use crate::administration::Administered;
use crate::shared::Shared;
use crate::volumes::Volume;

/// Makes the tenant at `home`, whose data file `file` makes. The caller holds the name. After `Ok` the tenant survives
/// power loss, and clients may connect to it.
///
/// # Errors
/// Those of `file`, and of the catalogue's log. Nothing is left then, unless the log failed: then the next start finds out.
pub(super) async fn make(
    shared: &Arc<Shared>,
    home: &Arc<Home>,
    row: TenantRow,
    file: impl Future<Output = SqlResult<()>>,
) -> SqlResult<()> {
    let id = home.id();
    if shared.env.disk.exists(home.path()) {
        // Ids of files found at the start are not given: somebody put it there since. Undone, it would be gone.
        let path = home.path().display();
        return Err(SqlError::new(
            SqlState::IO_ERROR,
            format!("{path} is there already and is no tenant's: move it away"),
        ));
    }
    if shared.volumes.find(&row.volume).is_some_and(Volume::is_missing) {
        let message = format!(
            "volume \"{}\" has the file of none of its tenants: a device may not be mounted there",
            row.volume
        );
        return Err(SqlError::new(SqlState::IO_ERROR, message)
            .with_hint("Mount it, or drop its tenants where they are lost, and start the server anew."));
    }
    catalogue::begin(shared, id, &row).await?;
    let made = match file.await {
        Ok(()) => catalogue::mark_live(shared, id).await,
        Err(error) => Err(error),
    };
    if let Err(error) = made {
        if let Err(second) = undo(shared, home).await {
            tracing::error!(tenant = id.0, error = %second, "a tenant's making could not be undone; the next start does it");
        }
        return Err(error);
    }
    shared.tenants.insert(Entry::new(id, home.clone(), row));
    shared.administered.note(Administered::Tenants);
    Ok(())
}

/// Removes what there is of a tenant that nobody was told of.
///
/// # Errors
/// The catalogue cannot be changed, or the file not removed.
pub(super) async fn undo(shared: &Arc<Shared>, home: &Arc<Home>) -> SqlResult<()> {
    // In this order: a row that lives must have its file.
    catalogue::mark_dropped(shared, home.id()).await?;
    let removed = home.remove().await;
    forget(shared, home.id());
    removed
}

/// Lets go of what is kept of a tenant that is gone, or was never there: what it was promised, and what it used.
pub(super) fn forget(shared: &Shared, id: TenantId) {
    shared.log_dir.forget(id);
    // It may have been at home on any of them.
    shared.workers.iter().for_each(|seat| seat.handle.forget(id));
    shared.memory_meters.forget(id);
    shared.work_memory.forget(id);
    shared.io_accounts.forget(id);
}
