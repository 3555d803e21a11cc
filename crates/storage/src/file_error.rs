//! Why a data file could not be made, opened, read or written, by who has to act.

use std::fmt;
use std::io;
use std::path::PathBuf;

use base::TenantId;

use crate::Corrupt;

/// A failed operation on a data file.
#[derive(Debug)]
pub enum FileError {
    /// The environment refused. Space and permissions are the operator's; after a failed sync the file must be reopened.
    Io { file: PathBuf, doing: &'static str, error: io::Error },
    /// The disk refused to read or write these bytes of the file: the operator's to look after.
    IoAt { file: PathBuf, offset: u64, doing: &'static str, error: io::Error },
    /// The bytes are damaged: restore the file or drop the tenant.
    Corrupt(Corrupt),
    /// A newer build wrote the file: start that build instead.
    NewerFormat { file: PathBuf, found: u32, supported: u32 },
    /// No data file at all, or one whose creation was cut short: neither superblock was ever whole.
    NotADataFile { file: PathBuf },
    /// The file belongs to another tenant than its name says.
    OtherTenant { file: PathBuf, found: TenantId, expected: TenantId },
    /// The file has reached the largest size the format allows.
    Full { file: PathBuf },
    /// An earlier checkpoint was dropped half-way or failed while it changed the root: reopen the file.
    Closed { file: PathBuf },
    /// A snapshot's map is gone, and what it would read may be written over: nothing is damaged, read it from a new snapshot. Of a
    /// checkpoint: nobody wants it any more.
    Gone { file: PathBuf },
}

impl FileError {
    /// Whether it is for want of space, which the operator can free.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, FileError::Io { error, .. } | FileError::IoAt { error, .. } if is_full_disk(error))
    }
}

pub(crate) fn is_full_disk(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io { file, doing, error } => write!(f, "{}: {doing}: {error}", file.display()),
            FileError::IoAt { file, offset, doing, error } => {
                write!(f, "{}: offset {offset}: {doing}: {error}", file.display())
            }
            FileError::Corrupt(corrupt) => corrupt.fmt(f),
            FileError::NewerFormat { file, found, supported } => write!(
                f,
                "{}: written by a newer version (format {found}; this build reads up to {supported})",
                file.display()
            ),
            FileError::NotADataFile { file } => {
                write!(f, "{}: not a data file: neither superblock is valid", file.display())
            }
            FileError::OtherTenant { file, found, expected } => {
                write!(f, "{}: belongs to tenant {found}, not to tenant {expected}", file.display())
            }
            FileError::Full { file } => {
                write!(f, "{}: the data file has reached its largest size", file.display())
            }
            FileError::Closed { file } => {
                write!(f, "{}: an earlier checkpoint failed; the file must be reopened", file.display())
            }
            FileError::Gone { file } => {
                write!(f, "{}: the file was closed while an older state of it was in use", file.display())
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FileError::Io { error, .. } | FileError::IoAt { error, .. } => Some(error),
            FileError::Corrupt(corrupt) => Some(corrupt),
            _ => None,
        }
    }
}

impl From<Corrupt> for FileError {
    fn from(corrupt: Corrupt) -> FileError {
        FileError::Corrupt(corrupt)
    }
}
