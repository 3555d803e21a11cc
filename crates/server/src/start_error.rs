//! Why a server did not start, in words for the operator.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a server did not start. The message names the file or address and what to do.
#[derive(Debug)]
pub enum StartError {
    /// Another server uses the directory.
    InUse(PathBuf),
    /// The directory is of a newer release.
    NewerFormat { path: PathBuf, found: u32, supported: u32 },
    /// The directory holds something else, or is damaged.
    NotADataDirectory { path: PathBuf, reason: String },
    /// A file or directory cannot be used.
    Io { what: &'static str, path: PathBuf, error: io::Error },
    /// An address cannot be listened on.
    Listen { address: std::net::SocketAddr, error: io::Error },
    /// Certificate or key are unusable.
    Tls { path: PathBuf, reason: String },
    /// Stored data are damaged or cannot be read; the text names file and offset.
    Data(String),
    /// The system refuses threads or descriptors.
    System { what: &'static str, error: io::Error },
}

impl StartError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StartError + use<> {
        let path = path.to_owned();
        move |error| StartError::Io { what, path, error }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::InUse(path) => {
                write!(f, "the directory {} is in use by another server", path.display())
            }
            StartError::NewerFormat { path, found, supported } => write!(
                f,
                "{} has format version {found}; this release reads up to {supported}: use a newer release",
                path.display()
            ),
            StartError::NotADataDirectory { path, reason } => {
                write!(f, "{} is not a usable data directory: {reason}", path.display())
            }
            StartError::Io { what, path, error } => write!(f, "cannot {what} {}: {error}", path.display()),
            StartError::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            StartError::Tls { path, reason } => write!(f, "cannot use {} for TLS: {reason}", path.display()),
            StartError::Data(reason) => f.write_str(reason),
            StartError::System { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}
impl std::error::Error for StartError {}
