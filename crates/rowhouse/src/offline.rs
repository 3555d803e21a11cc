//! The data directory of a server that is not running, for the tools that open it.

use std::fmt;
use std::path::{Path, PathBuf};

use env::Env;
use server::{DEFAULT_VOLUME, DataDir, LOG_VOLUME, StartError};

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

/// Reads NAME=DIR.
pub(crate) fn volume(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name @ (DEFAULT_VOLUME | LOG_VOLUME), _)) => {
            Err(format!("\"{name}\" is the name of a volume that every server has"))
        }
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() => Ok((name.to_owned(), PathBuf::from(dir))),
        _ => Err("write NAME=DIR, for example fast=/mnt/nvme".to_owned()),
    }
}

/// # Errors
/// A volume is given twice: which of its directories was meant nobody can know.
pub(crate) fn check_volumes(volumes: &[(String, PathBuf)]) -> Result<(), String> {
    let is_twice = |at: usize| volumes[..at].iter().any(|(name, _)| *name == volumes[at].0);
    match (0..volumes.len()).find(|at| is_twice(*at)) {
        Some(at) => Err(format!("the volume \"{}\" is given twice", volumes[at].0)),
        None => Ok(()),
    }
}

/// Why a directory cannot be opened.
#[derive(Debug)]
pub(crate) enum PlaceError {
    NotADataDirectory(PathBuf),
    /// What was given contradicts itself.
    Volumes(String),
    /// In use, or not readable.
    Directory(StartError),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::NotADataDirectory(dir) => {
                write!(f, "{} is no data directory: it has no rowhouse.json", dir.display())
            }
            PlaceError::Volumes(why) => f.write_str(why),
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
    /// Not a data directory, in use, or of a newer version; with a volume that is another one.
    pub(crate) fn lock(&self, env: &Env) -> Result<DataDir, PlaceError> {
        check_volumes(&self.volume).map_err(PlaceError::Volumes)?;
        if !env.disk.exists(&self.data.join("rowhouse.json")) {
            return Err(PlaceError::NotADataDirectory(self.data.clone()));
        }
        let held = DataDir::open(env, &self.data).map_err(PlaceError::Directory)?;
        server::check_volumes(env, &self.data, &self.volume).map_err(PlaceError::Directory)?;
        Ok(held)
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
        let (default, log) = ((DEFAULT_VOLUME, self.data.clone()), (LOG_VOLUME, self.log_dir()));
        std::iter::once(default).chain(named).chain(std::iter::once(log)).collect()
    }

    /// The directory of the volume called `name`, if it was given.
    pub(crate) fn volume(&self, name: &str) -> Option<&Path> {
        if name == DEFAULT_VOLUME {
            return Some(&self.data);
        }
        self.volume.iter().find(|(given, _)| given == name).map(|(_, dir)| dir.as_path())
    }
}
