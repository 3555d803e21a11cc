//! Whether a volume is this server's, and the one that it is given as: its directory has a file with the number that the data directory has, and the volume's name.
//!
//! Tenants' ids begin at the same number with every server. On another one's volume a tenant would be opened in the file of whoever has its id there, and its redo
//! replayed into that; on another one of its own it would not be found, and new ones would go where nobody looks for them.

use std::io;
use std::path::{Path, PathBuf};

use env::Env;

use super::DEFAULT_VOLUME;
use crate::{ServerConfig, StartError};

/// Name of the file.
pub(super) const VOLUME_ID_FILE: &str = "volume-id";

/// What the file says.
struct VolumeId {
    /// The same in the data directory and in all volumes of it.
    server: String,
    volume: String,
}

/// Refuses volumes that are another server's, and those that are given by each other's names. One without a file is anybody's.
///
/// # Errors
/// A volume is not the one that it is given as; a file cannot be read.
pub fn check_volumes(env: &Env, data_dir: &Path, volumes: &[(String, PathBuf)]) -> Result<(), StartError> {
    look(env, data_dir, volumes).map(drop)
}

/// As [`check_volumes`], and has the volumes be this server's from now on.
///
/// # Errors
/// As [`check_volumes`].
pub(crate) fn take_volumes(env: &Env, config: &ServerConfig) -> Result<(), StartError> {
    let known = look(env, &config.data_dir, &config.volumes)?;
    let server = known.unwrap_or_else(|| {
        let bytes: [u8; 16] = env.entropy.bytes();
        format!("{:032x}", u128::from_be_bytes(bytes))
    });
    // The data directory first: a volume is never of a server that does not know its own number.
    for (volume, dir) in given(&config.data_dir, &config.volumes) {
        if read(env, dir)?.is_some() {
            continue;
        }
        let (path, text) = (dir.join(VOLUME_ID_FILE), format!("{server}\n{volume}\n"));
        if let Err(error) = env.disk.write_small_atomic(&path, text.as_bytes(), 0o644) {
            // A full disk keeps no server from starting; the next start tries again.
            tracing::warn!(%error, "other servers will not know that a volume is this one's");
            return Ok(());
        }
    }
    Ok(())
}

/// The volumes with data files, the data directory first.
fn given<'a>(
    data_dir: &'a Path,
    volumes: &'a [(String, PathBuf)],
) -> impl Iterator<Item = (&'a str, &'a Path)> {
    let named = volumes.iter().map(|(volume, dir)| (volume.as_str(), dir.as_path()));
    std::iter::once((DEFAULT_VOLUME, data_dir)).chain(named)
}

/// The server's number, if it has one.
fn look(env: &Env, data_dir: &Path, volumes: &[(String, PathBuf)]) -> Result<Option<String>, StartError> {
    let own = read(env, data_dir)?.map(|id| id.server);
    for (_, dir) in given(data_dir, volumes) {
        let Some(found) = read(env, dir)? else { continue };
        let is_own = own.as_ref() == Some(&found.server);
        // One directory may be given by several names.
        let is_meant = given(data_dir, volumes).any(|one| one == (found.volume.as_str(), dir));
        if !is_own || !is_meant {
            let (path, whose) = (dir.join(VOLUME_ID_FILE), if is_own { "this" } else { "another" });
            return Err(StartError::Data(format!(
                "{} is the volume \"{}\" of {whose} server, and is not given as that (if it is the right one all the same, remove {})",
                dir.display(),
                found.volume,
                path.display()
            )));
        }
    }
    Ok(own)
}

fn read(env: &Env, dir: &Path) -> Result<Option<VolumeId>, StartError> {
    let path = dir.join(VOLUME_ID_FILE);
    let bytes = match env.disk.read_small(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(StartError::io("read", &path))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let (server, volume) = text.trim_end().split_once('\n').unwrap_or((text.trim_end(), ""));
    Ok(Some(VolumeId { server: server.to_owned(), volume: volume.to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_volume_is_one_servers_and_goes_by_one_name() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let place = |name: &str| dir.path().join(name);
        for name in ["one", "two", "a", "b"] {
            fs::create_dir(place(name)).unwrap();
        }
        let take = |data: &str, volumes: &[(&str, &str)]| {
            let volumes = volumes.iter().map(|(name, dir)| ((*name).to_owned(), place(dir))).collect();
            let config = ServerConfig { volumes, ..ServerConfig::new(place(data)) };
            let checked = check_volumes(&env, &config.data_dir, &config.volumes).is_ok();
            let taken = take_volumes(&env, &config).is_ok();
            assert_eq!(checked, taken, "{data} {:?}", config.volumes);
            taken
        };
        assert!(take("one", &[("fast", "a"), ("slow", "b")]));
        assert!(take("one", &[("slow", "b"), ("fast", "a")]) && take("one", &[]));
        assert!(!take("one", &[("fast", "b"), ("slow", "a")]), "they were exchanged");
        assert!(!take("two", &[("fast", "a")]) && !take("two", &[("x", "one")]), "the other server's");
        assert!(take("two", &[]) && !take("two", &[("fast", "a")]));
        assert!(!take("a", &[]), "a volume is no data directory");
        // A directory by two names.
        assert!(take("one", &[("fast", "a"), ("slow", "b"), ("slower", "b"), ("here", "one")]));
        // Lost and made anew, or known to be right.
        fs::remove_file(place("a").join(VOLUME_ID_FILE)).unwrap();
        assert!(take("two", &[("fast", "a")]) && !take("one", &[("fast", "a")]));
    }
}
