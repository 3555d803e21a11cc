//! Every tenant's account on every volume that it has files on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{TenantId, VolumeNo};
use env::IoAccount;
use rustc_hash::FxHashMap;

type Accounts = FxHashMap<(TenantId, VolumeNo), Arc<IoAccount>>;

/// One for each server; clones are of the same one. Asked when files are opened, not when they are used.
#[derive(Clone, Default)]
pub(crate) struct IoAccounts(Arc<Mutex<Accounts>>);

impl IoAccounts {
    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of a tenant on a volume.
    pub(crate) fn of(&self, tenant: TenantId, volume: VolumeNo) -> Arc<IoAccount> {
        self.lock().entry((tenant, volume)).or_insert_with(|| IoAccount::new(tenant, volume)).clone()
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<Arc<IoAccount>> {
        self.lock().values().cloned().collect()
    }

    /// Forgets a dropped tenant.
    pub(crate) fn forget(&self, tenant: TenantId) {
        self.lock().retain(|(of, _), _| *of != tenant);
    }
}
