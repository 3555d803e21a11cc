//! The layout of a data directory, and the lock that keeps a second server out.
//!
//! ```text
//! DIR/rowhouse.json     format version; made last at the first start
//! DIR/lock              held while a server runs
//! DIR/admin-password    generated password of the administrator, mode 0600, made before the administrator is
//! DIR/tls/…             self-signed certificate and key, mode 0600
//! DIR/tenants/ID.rowhouse   data files of the volume `default`
//! DIR/tenants/lock      held too: a server that has DIR for a volume holds it alone
//! DIR/tmp/ID.N           temporary files of analytical queries, removed at start
//! DIR/ledger/…          the ledger by the minute, for 62 days
//! DIR/reserve           space set aside for a full disk
//! DIR/calibration       what the volume was measured to do
//! DIR/volume-id         tells which volumes are its own
//! DIR/login-secret      what unknown users' salts are made of, mode 0600
//! DIR/redo-id           tells which logs are its own
//! DIR/log/…             the workers' logs and their `redo-id`, unless elsewhere
//! ```
//!
//! A volume elsewhere has `tenants/ID.rowhouse`, `tenants/lock` and a `volume-id`; logs elsewhere have `lock` beside them.

mod logs;
mod volumes;

use std::io;
use std::path::{Path, PathBuf};

use base::TenantId;
use env::{DirEntry, DirLock, Disk, Env};
use serde::{Deserialize, Serialize};

use self::logs::LOG_ID_FILE;
pub use self::logs::check_logs;
pub(crate) use self::logs::take_logs;
use self::volumes::VOLUME_ID_FILE;
pub use self::volumes::check_volumes;
pub(crate) use self::volumes::take_volumes;
use crate::StartError;
use crate::calibration::CALIBRATION_FILE;
use crate::config::ServerConfig;
use crate::space_reserve::RESERVE_FILE;

/// Version of the layout above. Data files and logs have versions of their own.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Name of the volume that is the data directory itself.
pub const DEFAULT_VOLUME: &str = "default";

const LOGIN_SECRET_FILE: &str = "login-secret";

/// Name of the directory of temporary files.
pub(crate) const TEMP_DIR: &str = "tmp";

#[derive(Serialize, Deserialize)]
struct Marker {
    format_version: u32,
}

/// An open data directory; the lock is released when it is dropped.
pub struct DataDir {
    env: Env,
    root: PathBuf,
    _lock: DirLock,
    fresh: bool,
}

impl DataDir {
    /// Opens `root`, making it if it is not there or empty.
    ///
    /// # Errors
    /// In use, of a newer format, not ours, or not readable.
    pub fn open(env: &Env, root: &Path) -> Result<DataDir, StartError> {
        let disk = &env.disk;
        let lock = lock(env, root)?;
        let marker = root.join("rowhouse.json");
        let fresh = !disk.exists(&marker);
        if fresh {
            refuse_strangers(env, root)?;
        } else {
            let bytes = disk.read_small(&marker).map_err(StartError::io("read", &marker))?;
            let found: Marker = serde_json::from_slice(&bytes).map_err(|error| {
                StartError::NotADataDirectory { path: marker.clone(), reason: error.to_string() }
            })?;
            if found.format_version > FORMAT_VERSION {
                return Err(StartError::NewerFormat {
                    path: marker,
                    found: found.format_version,
                    supported: FORMAT_VERSION,
                });
            }
        }
        let tenants = root.join("tenants");
        disk.create_dir_all(&tenants).map_err(StartError::io("create", &tenants))?;
        Ok(DataDir { env: env.clone(), root: root.to_owned(), _lock: lock, fresh })
    }

    /// True until [`DataDir::complete_first_start`]: a first start that was cut short begins anew.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Marks the directory as a server's; after `Ok` this survives power loss.
    ///
    /// # Errors
    /// The marker cannot be written.
    pub fn complete_first_start(&self) -> Result<(), StartError> {
        let marker = self.root.join("rowhouse.json");
        let bytes = serde_json::to_vec(&Marker { format_version: FORMAT_VERSION }).expect("plain data");
        self.env.disk.write_small_atomic(&marker, &bytes, 0o600).map_err(StartError::io("write", &marker))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the salts shown for unknown users are made of: kept, so that they are the same after each start, as those of known users are. One that
    /// cannot be kept is this start's alone.
    pub(crate) fn login_secret(&self) -> [u8; 32] {
        let path = self.root.join(LOGIN_SECRET_FILE);
        let kept = self.env.disk.read_small(&path).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        kept.unwrap_or_else(|| {
            let secret: [u8; 32] = self.env.entropy.bytes();
            if let Err(error) = self.env.disk.write_small_atomic(&path, &secret, 0o600) {
                tracing::info!(%error, file = %path.display(), "a restart will show which users there are not");
            }
            secret
        })
    }

    /// Where a generated password of the administrator goes.
    pub fn admin_password_file(&self) -> PathBuf {
        self.root.join("admin-password")
    }
}

/// Keeps other servers out of a directory, which is made if it is not there.
fn lock(env: &Env, dir: &Path) -> Result<DirLock, StartError> {
    env.disk.create_dir_all(dir).map_err(StartError::io("create", dir))?;
    env.disk.lock_exclusive(&dir.join("lock")).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StartError::InUse(dir.to_owned()),
        _ => StartError::io("lock", dir)(error),
    })
}

/// Keeps other servers out of what a server has outside of its data directory, until the locks are dropped: its volumes, of which each has a directory
/// of data files, and the logs. Of its own data files, too, which another one may have been given for a volume. Makes what is not there.
///
/// # Errors
/// In use, not to be made; at a first start, logs that are there: they are another server's, or this one's whose data directory is not the one given.
pub(crate) fn lock_outside(
    env: &Env,
    config: &ServerConfig,
    is_first_start: bool,
) -> Result<Vec<DirLock>, StartError> {
    let mut dirs: Vec<PathBuf> = config.volumes.iter().map(|(_, dir)| dir.join("tenants")).collect();
    dirs.push(config.data_dir.join("tenants"));
    dirs.extend(config.log_dir.clone());
    dirs.sort();
    dirs.dedup();
    let locks = dirs.iter().map(|dir| lock(env, dir)).collect::<Result<Vec<_>, _>>()?;
    if let Some(logs) = &config.log_dir
        && is_first_start
    {
        let found = env.disk.list(logs).map_err(StartError::io("list", logs))?;
        if let Some(log) = found.iter().find(|entry| entry.name.ends_with(".redo")) {
            return Err(StartError::Data(format!(
                "{} has a redo log, {:?}, and the data directory is new: give the data directory that it belongs to, or another --log-dir",
                logs.display(),
                log.name
            )));
        }
    }
    Ok(locks)
}

/// Removes the temporary files that an earlier start left in the data directory `root`. Their directory, made where there is none, stays the one it is: it may be
/// another disk's, mounted there or linked to, with files that are nobody's temporary ones.
///
/// # Errors
/// It cannot be made or read, or a file not removed.
pub(crate) fn empty_temp(env: &Env, root: &Path) -> Result<(), StartError> {
    let (disk, temp) = (&env.disk, root.join(TEMP_DIR));
    disk.create_dir_all(&temp).map_err(StartError::io("create", &temp))?;
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    let is_ours = |name: &str| name.split_once('.').is_some_and(|(id, n)| is_number(id) && is_number(n));
    for entry in disk.list(&temp).map_err(StartError::io("list", &temp))? {
        if !entry.is_dir && is_ours(&entry.name) {
            let path = temp.join(&entry.name);
            disk.remove(&path).map_err(StartError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// The data file of a tenant in a volume's directory.
pub fn tenant_file(volume: &Path, tenant: TenantId) -> PathBuf {
    volume.join("tenants").join(format!("{tenant}.rowhouse"))
}

/// The data files in a volume's directory, by tenant. Blocks.
///
/// # Errors
/// The directory cannot be listed; one that is not there yet has none.
pub(crate) fn tenant_files(disk: &dyn Disk, volume: &Path) -> io::Result<Vec<(TenantId, PathBuf)>> {
    let dir = volume.join("tenants");
    let entries = match disk.list(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let id_of = |name: &str| name.strip_suffix(".rowhouse")?.parse().ok().map(TenantId);
    Ok(entries.iter().filter_map(|entry| Some((id_of(&entry.name)?, dir.join(&entry.name)))).collect())
}

/// A directory without our marker must hold nothing but what a first start makes.
fn refuse_strangers(env: &Env, root: &Path) -> Result<(), StartError> {
    // Those that end in `.new` are of a start that was cut short while it wrote one.
    const OURS: [&str; 12] = [
        "lock",
        "admin-password",
        "admin-password.new",
        "rowhouse.json.new",
        "tls",
        "tenants",
        TEMP_DIR,
        RESERVE_FILE,
        LOG_ID_FILE,
        VOLUME_ID_FILE,
        "log",
        "lost+found",
    ];
    // A volume may be calibrated before its first server starts, and that may have been cut short.
    let is_ours = |name: &str| {
        OURS.contains(&name)
            || name.starts_with('.')
            || name.starts_with(CALIBRATION_FILE)
            || name.strip_suffix(".new").is_some_and(|of| [LOG_ID_FILE, VOLUME_ID_FILE].contains(&of))
    };
    let entries = env.disk.list(root).map_err(StartError::io("list", root))?;
    if let Some(entry) = entries.iter().find(|entry| !is_ours(&entry.name)) {
        return Err(StartError::NotADataDirectory {
            path: root.to_owned(),
            reason: format!("it holds {:?} and no rowhouse.json; give an empty directory", entry.name),
        });
    }
    // A start empties the directory of temporary files, and nothing is put there before the marker is.
    let temp = root.join(TEMP_DIR);
    // A disk of its own may be mounted there.
    let is_own = |entry: &DirEntry| entry.is_dir && entry.name == "lost+found";
    let has_files = |entries: Vec<DirEntry>| !entries.iter().all(is_own);
    if env.disk.exists(&temp) && has_files(env.disk.list(&temp).map_err(StartError::io("list", &temp))?) {
        return Err(StartError::NotADataDirectory {
            path: root.to_owned(),
            reason: format!("it holds files in {TEMP_DIR:?} and no rowhouse.json; give an empty directory"),
        });
    }
    // A first start makes no tenants, and would make the catalogue of those that are there anew.
    let files = tenant_files(env.disk.as_ref(), root).map_err(StartError::io("list", root))?;
    match files.iter().find(|(id, _)| *id != TenantId::SYSTEM) {
        None => Ok(()),
        Some((_, file)) => Err(StartError::NotADataDirectory {
            path: root.to_owned(),
            reason: format!("it holds {} and has lost its rowhouse.json: put that back", file.display()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::real();
        let open = DataDir::open(&env, dir.path()).unwrap();
        assert!(open.is_fresh());
        assert!(matches!(DataDir::open(&env, dir.path()), Err(StartError::InUse(_))));
        open.complete_first_start().unwrap();
        drop(open);
        assert!(!DataDir::open(&env, dir.path()).unwrap().is_fresh());
    }

    #[test]
    fn a_first_start_cut_short_begins_anew() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        for name in ["lock", "admin-password.new", "rowhouse.json.new"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert!(DataDir::open(&env, dir.path()).unwrap().is_fresh());
    }

    #[test]
    fn temporary_files_go_and_their_directory_stays_where_it_is() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        empty_temp(&env, dir.path()).unwrap();
        let temp = dir.path().join(TEMP_DIR);
        assert!(temp.is_dir());
        // On a disk of its own.
        let other = tempfile::tempdir().unwrap();
        std::fs::remove_dir(&temp).unwrap();
        std::os::unix::fs::symlink(other.path(), &temp).unwrap();
        std::fs::create_dir(other.path().join("lost+found")).unwrap();
        assert!(DataDir::open(&env, dir.path()).unwrap().is_fresh());
        for name in ["16.0", "17.12", "16", "16.x", "notes.txt"] {
            std::fs::write(other.path().join(name), "").unwrap();
        }
        empty_temp(&env, dir.path()).unwrap();
        let left: Vec<_> = env.disk.list(other.path()).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left, ["16", "16.x", "lost+found", "notes.txt"]);
        assert!(temp.is_symlink());
    }

    #[test]
    fn a_directory_with_tenants_is_no_new_one() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        DataDir::open(&env, dir.path()).unwrap().complete_first_start().unwrap();
        for id in [TenantId::SYSTEM, TenantId::FIRST_USER] {
            std::fs::write(tenant_file(dir.path(), id), "").unwrap();
        }
        std::fs::remove_file(dir.path().join("rowhouse.json")).unwrap();
        assert!(matches!(DataDir::open(&env, dir.path()), Err(StartError::NotADataDirectory { .. })));
        std::fs::remove_file(tenant_file(dir.path(), TenantId::FIRST_USER)).unwrap();
        assert!(DataDir::open(&env, dir.path()).unwrap().is_fresh());
    }

    #[test]
    fn a_newer_format_and_a_strange_directory_are_refused() {
        let env = Env::real();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rowhouse.json"), r#"{"format_version":2}"#).unwrap();
        assert!(matches!(DataDir::open(&env, dir.path()), Err(StartError::NewerFormat { found: 2, .. })));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("PG_VERSION"), "15").unwrap();
        assert!(matches!(DataDir::open(&env, dir.path()), Err(StartError::NotADataDirectory { .. })));
        // Its own it would empty.
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(TEMP_DIR)).unwrap();
        assert!(DataDir::open(&env, dir.path()).unwrap().is_fresh());
        std::fs::write(dir.path().join(TEMP_DIR).join("thesis.txt"), "all my work").unwrap();
        assert!(matches!(DataDir::open(&env, dir.path()), Err(StartError::NotADataDirectory { .. })));
    }
}
