//! A tenant's data file as it comes and goes.
//!
//! What waits for the file system there is done by threads of its own, while the worker has its tenants' turns: making a file waits for syncs of it and
//! of its directory, and some file systems take a second to remove a large one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Nanos, SqlError, SqlResult, SqlState};
use tenant::Tenant;

use super::{DROPPED, Home, OPENING};
use crate::tenants::maintenance::aside;

impl Home {
    /// Makes the tenant's data file; the tenant stays closed. Callable from any thread; after `Ok` it survives power
    /// loss.
    ///
    /// # Errors
    /// 53100, 58030 and the like: no file is left.
    pub(crate) async fn create(self: &Arc<Home>, owner: String, verifier: Option<String>) -> SqlResult<()> {
        self.check_space()?;
        let home = self.clone();
        let task = self.spawn(async move {
            let shared = home.shared()?;
            let (env, path, id) = (home.env.clone(), home.path.clone(), home.id);
            let make = move || {
                let made = Tenant::create(&env, &path, id, &owner, verifier.as_deref());
                env::block_on(&env, made).map(drop).map_err(|error| {
                    let _ = env.disk.remove(&path);
                    let state = if error.is_full_disk() { SqlState::DISK_FULL } else { SqlState::IO_ERROR };
                    SqlError::new(state, format!("cannot create the tenant: {error}"))
                })
            };
            aside(&shared.env, &shared.workers[0].handle, "make-file", make).await.unwrap_or_else(|error| {
                Err(SqlError::new(SqlState::IO_ERROR, format!("cannot create the tenant: {error}")))
            })
        });
        task.await.unwrap_or_else(|| Err(SqlError::internal("creating the tenant did not finish")))
    }

    /// Drops the tenant's memory and its file. Callable from any thread.
    ///
    /// # Errors
    /// 58030 if the file cannot be removed; the tenant is gone all the same.
    pub(crate) async fn remove(self: &Arc<Home>) -> SqlResult<()> {
        let home = self.clone();
        let task = self.spawn(async move {
            home.hurry_checkpoint();
            while home.cell.with(|state| state.checkpointing) || home.phase.load(Ordering::Relaxed) == OPENING
            {
                env::sleep(Nanos::from_millis(1)).await;
            }
            let tenant = home.cell.with(|state| {
                home.set_phase(state, DROPPED);
                state.tenant.take()
            });
            if let Some(tenant) = tenant {
                tenant.free().await;
            }
            let shared = home.shared()?;
            let (disk, path) = (shared.env.disk.clone(), home.path.clone());
            // Giving back the blocks of a large file takes the kernel a while, and the worker has others to serve.
            let remove = move || match disk.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir)),
            };
            let removed = aside(&shared.env, &shared.workers[0].handle, "remove-file", remove).await;
            // No await follows, which would have the tenant known again.
            home.residence.vacate();
            removed.and_then(|removed| removed).map_err(|error| {
                let what = format!("cannot remove {}: {error}", home.path.display());
                SqlError::new(SqlState::IO_ERROR, what)
            })
        });
        task.await.unwrap_or_else(|| Err(SqlError::internal("dropping the tenant did not finish")))
    }
}
