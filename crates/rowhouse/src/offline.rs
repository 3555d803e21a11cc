//! The data directory of a server that is not running, for the tools that open it.

use std::fmt;
use std::path::{Path, PathBuf};

use env::Env;
use server::{DataDir, StartError};

/// Where the files of a server are.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Data directory of a server that is not running
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory of the redo logs [default: DIR/log]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// A further directory with tenants' data files, as given to `serve`; repeatable
    #[arg(long, value_name = "NAME=DIR", value_parser = volume)]
    volume: Vec<(String, PathBuf)>,
}

fn volume(text: &str) -> Result<(String, PathBuf), String> {
    let (name, dir) = text.split_once('=').ok_or("a volume is given as NAME=DIR")?;
    Ok((name.to_owned(), PathBuf::from(dir)))
}

/// Why a directory cannot be opened.
#[derive(Debug)]
pub(crate) enum PlaceError {
    NotADataDirectory(PathBuf),
    /// In use, or not readable.
    Directory(StartError),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::NotADataDirectory(dir) => {
                write!(f, "{} is no data directory: it has no rowhouse.json", dir.display())
            }
            PlaceError::Directory(error) => error.fmt(f),
        }
    }
}

impl Place {
    /// The directory, with its logs inside and no further volumes.
    #[cfg(test)]
    pub(crate) fn of(data: &Path) -> Place {
        Place { data: data.to_owned(), log_dir: None, volume: Vec::new() }
    }

    /// Keeps servers and other tools out until dropped.
    ///
    /// # Errors
    /// Not a data directory, in use, or of a newer version.
    pub(crate) fn lock(&self, env: &Env) -> Result<DataDir, PlaceError> {
        if !env.disk.exists(&self.data.join("rowhouse.json")) {
            return Err(PlaceError::NotADataDirectory(self.data.clone()));
        }
        DataDir::open(env, &self.data).map_err(PlaceError::Directory)
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.log_dir.clone().unwrap_or_else(|| self.data.join("log"))
    }

    /// The directories with tenants' data files.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.data.as_path()).chain(self.volume.iter().map(|(_, dir)| dir.as_path()))
    }

    /// The directories that are calibrated, with the names of their volumes: those with data files, and that of the logs.
    pub(crate) fn calibrated(&self) -> Vec<(&str, PathBuf)> {
        let named = self.volume.iter().map(|(name, dir)| (name.as_str(), dir.clone()));
        let (default, log) =
            ((server::DEFAULT_VOLUME, self.data.clone()), (server::LOG_VOLUME, self.log_dir()));
        std::iter::once(default).chain(named).chain(std::iter::once(log)).collect()
    }

    /// The directory of the volume called `name`, if it was given.
    pub(crate) fn volume(&self, name: &str) -> Option<&Path> {
        if name == server::DEFAULT_VOLUME {
            return Some(&self.data);
        }
        self.volume.iter().find(|(given, _)| given == name).map(|(_, dir)| dir.as_path())
    }
}
