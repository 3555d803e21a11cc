//! The thread of what is settled for all tenants together, every second or two: whose home is where, and what memory costs whom.
//!
//! Its own, since with thousands of tenants that takes milliseconds, and a plan of homes a tenth of a second, which no worker has.

use std::pin::pin;
use std::sync::Arc;

use env::{JoinHandle, ShutdownSignal};
use futures::future::{join, select};

use crate::shared::{Shared, charged};
use crate::{StartError, placement, tenants};

/// Ends the thread when dropped.
pub(crate) struct Overseer {
    stop: ShutdownSignal,
    thread: Option<JoinHandle>,
}

impl Overseer {
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Overseer, StartError> {
        let stop = ShutdownSignal::default();
        let (env, stopped, of) = (shared.env.clone(), stop.clone(), Arc::downgrade(shared));
        let body = move || {
            let settled = join(placement::pass_on(of.clone()), tenants::set_memory_prices(of.clone()));
            let settled = charged(of, env.clone(), settled);
            env::block_on(&env, async move {
                select(pin!(stopped.wait()), pin!(settled)).await;
            });
        };
        let thread = shared.env.threads.spawn("overseer", None, Box::new(body));
        let thread = thread.map_err(|error| StartError::System { what: "start a thread", error })?;
        Ok(Overseer { stop, thread: Some(thread) })
    }
}

impl Drop for Overseer {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
