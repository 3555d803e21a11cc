//! Ctrl-C and SIGTERM: an experiment ends where it is, and what it started ends with it.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::{Error, Result};

/// The experiment was told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Runs `work` to its end, or until SIGINT or SIGTERM comes: then it is dropped where it stands, with all that it holds.
///
/// # Errors
/// Those of `work`; [`Interrupted`].
pub async fn until_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Interrupted.into()),
        _ = terminate.recv() => Err(Interrupted.into()),
    }
}

/// Whether that is what ended an experiment.
pub fn is_interruption(error: &Error) -> bool {
    error.is::<Interrupted>()
}
