//! A tenant's promise of buffer memory: from the statement that makes it to its pages, and the prices that keep it.

use std::sync::{Arc, Weak};

use base::Nanos;
use governor::{MemoryPricing, MemoryTerms, Promise};
use tenant::Tenant;

use super::Home;
use crate::shared::Shared;

/// Prices are set anew so often.
const EPOCH: Nanos = Nanos::from_secs(1);

impl Home {
    /// Takes over what is promised of buffer memory. A tenant that is open keeps to it from its next turn on.
    pub(super) fn set_memory_promise(self: &Arc<Home>, promise: &Promise) {
        let Ok(shared) = self.shared() else { return };
        let (promised, penalty_micros) = (promise.memory.memory, promise.penalty_micros);
        let terms = MemoryTerms { promised, penalty_micros, ..MemoryTerms::default() };
        shared.memory_meters.set_terms(self.id(), terms, shared.env.now());
        self.memory_share().set_max(promise.memory.memory_max);
        shared.memory.press_tenants();
        if self.memory_share().set_promised(promised) {
            // One that is being opened finds it then: turns of its home are one after the other.
            let home = self.clone();
            let keep = async move {
                home.with_tenant(|tenant| home.keep_memory_promise(tenant));
            };
            self.spawn(keep).detach();
        }
    }

    /// Has the open tenant's pages metered, and evicted by the promise in force.
    pub(super) fn keep_memory_promise(&self, tenant: &mut Tenant) {
        if let Ok(shared) = self.shared() {
            tenant.set_memory_terms(self.memory_share(), &shared.memory_meters.tally(self.id()));
        }
    }
}

/// Sets the prices of promised memory until the server is gone.
pub(crate) async fn set_memory_prices(shared: Weak<Shared>) {
    let Some(meters) = shared.upgrade().map(|shared| shared.memory_meters.clone()) else { return };
    let mut pricing = MemoryPricing::new(meters);
    loop {
        env::sleep(EPOCH).await;
        let Some(shared) = shared.upgrade() else { return };
        pricing.end_epoch(shared.policy.get().policy(), shared.memory.promisable(), |tenant, price| {
            if let Some(entry) = shared.tenants.get(tenant) {
                entry.home.memory_share().set_price(price);
            }
        });
    }
}
