//! What a tenant took on all workers: the one account behind its promise.
//!
//! Shared by the workers' schedulers and read by anybody. All of it is counters that only add up, so the workers need no
//! order among themselves and no lock: what must be exact is the sum. A scheduler learns of what others took when it next
//! looks at the tenant. A tenant that runs on one worker, as most do, keeps its cache line there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::bucket::{CreditBucket, LimitBucket};
use super::rate::Rate;
use crate::promise::MilliCores;

/// One tenant's processor time on all workers. On a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
pub struct CpuAccount {
    pub(super) used: AtomicU64,
    /// The part of `used` that was the tenant's due: taken while it had a deficit.
    pub(super) due_taken: AtomicU64,
    pub(super) limit: LimitBucket,
    /// The limit that `limit` is scaled by, in thousandths of a core; 0: none.
    limit_max: AtomicU32,
    /// Workers on which the tenant is runnable.
    pub(super) workers: AtomicU32,
    pub(super) credit: CreditBucket,
    /// How much credit is kept, in nanoseconds of processor time; 0: none.
    credit_max: AtomicU64,
    /// Time over the limit that will not be paid for.
    pub(super) forgiven: AtomicU64,
}

impl CpuAccount {
    /// Processor time charged so far, on all workers.
    pub fn used(&self) -> Nanos {
        Nanos(self.used.load(Relaxed))
    }

    /// The part of it that counted as the tenant's due; the rest was spare.
    pub fn due_taken(&self) -> Nanos {
        Nanos(self.due_taken.load(Relaxed))
    }

    /// Processor time taken beyond the limit and not paid for yet. At most a second of the limit's rate, and at most a
    /// poll a worker. Zero without a limit.
    pub fn debt(&self, now: Nanos) -> Nanos {
        let rate = Rate::new(MilliCores(self.limit_max.load(Relaxed)));
        Nanos(rate.map_or(0, |rate| rate.work_in(self.limit.debt(now.0))))
    }

    /// Processor time taken beyond the limit that will never be paid for, because paying would stop the tenant for longer
    /// than a second: the rest of single polls that ran for very long.
    pub fn forgiven(&self) -> Nanos {
        Nanos(self.forgiven.load(Relaxed))
    }

    /// Tells the account its limit. Each worker calls it; the first one that brings news rescales what is owed.
    pub(super) fn set_limit(&self, max: Option<MilliCores>, now: u64) {
        let max = max.map_or(0, |max| max.0);
        let before = self.limit_max.swap(max, Relaxed);
        if before == max {
            return;
        }
        let rates = (Rate::new(MilliCores(before)), Rate::new(MilliCores(max)));
        match rates {
            (Some(before), Some(rate)) => {
                let forgiven = self.limit.rescale(now, |time| rate.time_for(before.work_in(time)));
                self.forgiven.fetch_add(rate.work_in(forgiven), Relaxed);
            }
            (None, Some(_)) => self.limit.restart(),
            (_, None) => {}
        }
    }

    /// Tells the account how much credit it may gather. It has none when it begins to.
    pub(super) fn set_burst(&self, burst: Nanos, now: u64) {
        if self.credit_max.swap(burst.0, Relaxed) == 0 {
            self.credit.restart(now);
        }
    }
}

/// All tenants' accounts. One a server, shared by the schedulers of its workers.
#[derive(Default)]
pub struct CpuAccounts {
    by_tenant: Mutex<FxHashMap<TenantId, Arc<CpuAccount>>>,
}

impl CpuAccounts {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, Arc<CpuAccount>>> {
        self.by_tenant.lock().expect("no panic under the accounts' lock")
    }

    /// The tenant's account, made if there is none. Takes a lock: not for the run path.
    pub fn account(&self, tenant: TenantId) -> Arc<CpuAccount> {
        self.lock().entry(tenant).or_default().clone()
    }

    /// Forgets the account unless somebody still holds it.
    pub(super) fn release(&self, tenant: TenantId, account: Arc<CpuAccount>) {
        let mut accounts = self.lock();
        drop(account);
        // New holders come from this map alone, which is locked.
        if accounts.get(&tenant).is_some_and(|account| Arc::strong_count(account) == 1) {
            accounts.remove(&tenant);
        }
    }
}
