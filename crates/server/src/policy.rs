//! What of the promises the server keeps: one decision for all workers and volumes.
//!
//! Truth is the table `rowhouse.server`. The meters are not told: what was promised stays promised, and what a policy does not keep is
//! on the ledger.

use std::sync::{Mutex, PoisonError};

use governor::{Policy, ServerOptions};

use crate::shared::Shared;

/// The policy in force.
#[derive(Default)]
pub(crate) struct ServerPolicy(Mutex<ServerOptions>);

impl ServerPolicy {
    pub(crate) fn get(&self) -> ServerOptions {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps no more promises, and forgets nothing: the server ends, and its last checkpoints are not to wait for anybody's limit.
    pub(crate) fn lift(shared: &Shared) {
        put_in_force(shared, Policy::BestEffort);
    }

    /// Puts another one in force: on each worker from its next turn on, on each volume for what is queued too.
    pub(crate) fn set(&self, shared: &Shared, options: ServerOptions) {
        // Told under the lock: of two changes the later one arrives last.
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *there = options;
        put_in_force(shared, options.policy());
    }
}

fn put_in_force(shared: &Shared, policy: Policy) {
    shared.workers.iter().for_each(|seat| seat.handle.set_policy(policy));
    shared.volumes.set_policy(policy, shared.env.now());
}
