//! Work that reads files or looks through much, on a thread of its own.

use std::sync::Arc;

use axum::http::StatusCode;
use base::{SqlResult, SqlState};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Console;
use super::answer::{Answer, Refusal};
use crate::shared::Shared;

/// Threads at a time; more requests wait for one of them.
pub(super) const ASIDE_MAX: usize = 2;

/// Files that are written for browsers at a time, on threads of their own: a browser that takes its time holds up others that want files, and nobody else.
pub(super) const DOWNLOADS_MAX: usize = 2;

/// A place among the threads.
pub(super) type Place = OwnedSemaphorePermit;

impl Console {
    /// Waits for a place among the threads.
    pub(super) async fn place_aside(&self) -> Place {
        self.aside.clone().acquire_owned().await.expect("never closed")
    }

    /// Waits for a place among the threads that write files.
    pub(super) async fn place_for_download(&self) -> Place {
        self.downloads.clone().acquire_owned().await.expect("never closed")
    }

    /// Starts `work` on a thread of its own, for which the server's own tenant is charged, which has the place until it ends, also if nobody waits for it any more.
    ///
    /// # Errors
    /// 503 if the server ends or no thread can be had.
    pub(super) fn start_aside(
        &self,
        place: Place,
        work: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) -> Answer<()> {
        let shared = self.shared()?;
        let env = self.env.clone();
        let threads = env.threads.clone();
        let body = move || {
            let began = env.clock.thread_cpu();
            work(&shared);
            shared.charge_system(env.clock.thread_cpu() - began);
            drop((shared, place));
        };
        threads.spawn("console-read", None, Box::new(body)).map(drop).map_err(|error| {
            let (status, state) = (StatusCode::SERVICE_UNAVAILABLE, SqlState::CANNOT_CONNECT_NOW);
            Refusal::new(status, state, format!("no thread can be had: {error}"))
        })
    }

    /// What `work` gives, done on a thread of its own. What takes long asks from time to time whether anybody waits for it still: a page that asks for
    /// something else by now, or was closed, leaves its place to others.
    ///
    /// # Errors
    /// Those of `work`; 503 if the server ends or no thread can be had.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Shared>, &dyn Fn() -> bool) -> SqlResult<T> + Send + 'static,
    ) -> Answer<T> {
        let (tell, told) = oneshot::channel();
        let place = self.place_aside().await;
        self.start_aside(place, |shared| {
            let done = work(shared, &|| !tell.is_closed());
            // Whoever asked may be gone.
            let _ = tell.send(done);
        })?;
        Ok(told.await.map_err(|_| Refusal::stopping())??)
    }
}
