//! What of the promises the server keeps, and how often it meters them: one decision for all workers and volumes.
//!
//! Truth is the table `rowhouse.server`. The meters are told of their interval, and of the policy only whether limits are held: what was promised stays promised, and what a
//! policy does not keep is on the ledger.

use std::sync::{Mutex, MutexGuard, PoisonError};

use governor::{Policy, ServerOptions};

use crate::shared::Shared;

/// The policy and the metering interval in force.
#[derive(Default)]
pub(crate) struct ServerPolicy(Mutex<InForce>);

#[derive(Default)]
struct InForce {
    options: ServerOptions,
    /// No promise is kept any more, whatever the options say.
    is_lifted: bool,
}

impl ServerPolicy {
    pub(crate) fn get(&self) -> ServerOptions {
        self.lock().options
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps no more promises from now on, and forgets nothing: the server ends, and what is under way and its last checkpoints are not to wait for
    /// anybody's limit.
    pub(crate) fn lift(&self, shared: &Shared) {
        let mut there = self.lock();
        there.is_lifted = true;
        put_in_force(shared, Policy::BestEffort);
    }

    /// Puts other options in force: a policy on each worker from its next turn on, on each volume for what is queued too; a metering interval in all
    /// meters, for what is under way too.
    pub(crate) fn set(&self, shared: &Shared, options: ServerOptions) {
        // Told under the lock: of two changes the later one arrives last.
        let mut there = self.lock();
        there.options = options;
        if !there.is_lifted {
            put_in_force(shared, options.policy());
        }
        let interval = options.metering_interval();
        shared.cpu_meters.set_interval(interval);
        shared.memory_meters.set_interval(interval);
        shared.volumes.set_metering_interval(interval, shared.env.now());
    }
}

fn put_in_force(shared: &Shared, policy: Policy) {
    shared.workers.iter().for_each(|seat| seat.handle.set_policy(policy));
    shared.cpu_meters.set_limits_held(policy.limits());
    shared.volumes.set_policy(policy, shared.env.now());
}
