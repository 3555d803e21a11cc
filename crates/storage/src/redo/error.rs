//! What can go wrong with a log, by who acts.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{CommitNo, TenantId};

use crate::Corrupt;
use crate::file_error::is_full_disk;

/// The log took a write or sync error and is closed: what was not durable then never will be. The server reopens the
/// tenants of this log from their roots and what is durable. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogFailed(Arc<Failure>);

#[derive(Debug)]
struct Failure {
    file: PathBuf,
    doing: &'static str,
    error: io::Error,
}

impl LogFailed {
    pub(super) fn new(file: &Path, doing: &'static str, error: io::Error) -> LogFailed {
        LogFailed(Arc::new(Failure { file: file.to_owned(), doing, error }))
    }

    /// Whether the error was that no space is left.
    pub fn is_full_disk(&self) -> bool {
        is_full_disk(&self.0.error)
    }
}

impl fmt::Display for LogFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redo log {}: {} failed: {}", self.0.file.display(), self.0.doing, self.0.error)
    }
}
impl std::error::Error for LogFailed {}

/// What another segment is missing. It passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    Space,
    /// Of the process or of the system.
    Descriptors,
}

/// Why a log takes no more commits for now.
#[derive(Clone, Debug)]
pub enum Refused {
    /// There is no room for another segment: try again once something was freed.
    Full { dir: PathBuf, want: Want },
    /// The log is closed until the server is started again.
    Failed(LogFailed),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full { dir, want } => {
                let what = match want {
                    Want::Space => "space",
                    Want::Descriptors => "file descriptor",
                };
                write!(f, "no {what} is left for the redo log in {}", dir.display())
            }
            Refused::Failed(failed) => failed.fmt(f),
        }
    }
}
impl std::error::Error for Refused {}

/// Why logs could not be opened or read.
#[derive(Debug)]
pub enum RedoError {
    /// The machine failed; nothing is known to be damaged.
    Io { file: PathBuf, doing: &'static str, error: io::Error },
    /// Bytes are not what was written. The operator restores them from elsewhere.
    Corrupt(Corrupt),
    /// A newer program wrote this log; use that one.
    NewerFormat { file: PathBuf, found: u32, supported: u32 },
    /// A tenant's commit is in no log although a later one is.
    Gap { tenant: TenantId, missing: CommitNo, next: CommitNo, file: PathBuf, offset: u64 },
}

impl RedoError {
    pub(super) fn io(file: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> RedoError {
        move |error| RedoError::Io { file: file.to_owned(), doing, error }
    }
}

impl RedoError {
    /// Whether it is for want of space, which the operator can free.
    pub fn is_full_disk(&self) -> bool {
        self.want() == Some(Want::Space)
    }

    /// What it is for want of, if that passes.
    pub(super) fn want(&self) -> Option<Want> {
        match self {
            RedoError::Io { error, .. } if is_full_disk(error) => Some(Want::Space),
            RedoError::Io { error, .. } if env::is_short_of_descriptors(error) => Some(Want::Descriptors),
            _ => None,
        }
    }
}

impl From<Corrupt> for RedoError {
    fn from(corrupt: Corrupt) -> RedoError {
        RedoError::Corrupt(corrupt)
    }
}

impl fmt::Display for RedoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedoError::Io { file, doing, error } => write!(f, "{}: {doing} failed: {error}", file.display()),
            RedoError::Corrupt(corrupt) => corrupt.fmt(f),
            RedoError::NewerFormat { file, found, supported } => write!(
                f,
                "{}: redo log format {found} is newer than this program's {supported}",
                file.display()
            ),
            RedoError::Gap { tenant, missing, next, file, offset } => write!(
                f,
                "{}: offset {offset}: commit {next} of tenant {tenant} is here, but its commit {missing} is in no log",
                file.display()
            ),
        }
    }
}
impl std::error::Error for RedoError {}
