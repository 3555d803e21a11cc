//! Whether logs are those of a data directory: both have a file with the same number, another one from each start on.
//!
//! Logs that an earlier start left where they were, or a copy of them, would else be taken for the right ones: what only those have would be missing
//! without a word, and the numbers of those commits be given again.

use std::io;
use std::path::Path;

use env::Env;

use crate::StartError;

/// Name of the file. In the data directory it has a line more while a start is between the two.
pub(super) const LOG_ID_FILE: &str = "redo-id";

struct Found {
    /// Those that the logs may have; none before the first start.
    known: Vec<String>,
    /// That of the logs, if there are logs.
    of_logs: Option<String>,
    has_logs: bool,
}

/// Refuses logs that are not those the data directory was used with last, and a directory that never had them: it may be where a device with the logs is
/// to be mounted.
///
/// # Errors
/// They are others, or not there; a directory cannot be read.
pub fn check_logs(env: &Env, data_dir: &Path, logs: &Path) -> Result<(), StartError> {
    look(env, data_dir, logs).map(drop)
}

/// As [`check_logs`], and has the logs be those of this start from now on. A first start that was cut short may have left the data directory alone.
///
/// # Errors
/// As [`check_logs`]; a file of new logs cannot be written.
pub(crate) fn take_logs(
    env: &Env,
    data_dir: &Path,
    logs: &Path,
    is_first_start: bool,
) -> Result<(), StartError> {
    env.disk.create_dir_all(logs).map_err(StartError::io("create", logs))?;
    let mut found = find(env, data_dir, logs)?;
    if is_first_start && !found.has_logs {
        found.known.clear();
    }
    found.require_right(data_dir, logs)?;
    match renew(env, data_dir, logs, &found) {
        // Those of the last start are known as such, whatever was written: a full disk keeps no server from starting.
        Err(error) if found.has_logs => {
            tracing::warn!(%error, "copies of the redo logs will not be told from them");
            Ok(())
        }
        result => result,
    }
}

/// Gives both directories another number. The logs are known at each moment between.
fn renew(env: &Env, data_dir: &Path, logs: &Path, found: &Found) -> Result<(), StartError> {
    let bytes: [u8; 16] = env.entropy.bytes();
    let new = format!("{:032x}", u128::from_be_bytes(bytes));
    if let Some(before) = &found.of_logs
        && !found.known.is_empty()
    {
        write(env, data_dir, &format!("{before}\n{new}\n"))?;
    }
    // Where the data directory knows none, it takes whichever it finds.
    write(env, logs, &format!("{new}\n"))?;
    write(env, data_dir, &format!("{new}\n"))
}

fn look(env: &Env, data_dir: &Path, logs: &Path) -> Result<Found, StartError> {
    let found = find(env, data_dir, logs)?;
    found.require_right(data_dir, logs)?;
    Ok(found)
}

fn find(env: &Env, data_dir: &Path, logs: &Path) -> Result<Found, StartError> {
    let entries = env.disk.list(logs).map_err(StartError::io("list", logs))?;
    let has_logs = entries.iter().any(|entry| entry.name.ends_with(".redo"));
    Ok(Found { known: read(env, data_dir)?, of_logs: read(env, logs)?.pop(), has_logs })
}

impl Found {
    fn require_right(&self, data_dir: &Path, logs: &Path) -> Result<(), StartError> {
        let is_known = |number: &String| self.known.contains(number);
        if self.known.is_empty() || self.of_logs.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        let (number, data_dir, logs) = (data_dir.join(LOG_ID_FILE), data_dir.display(), logs.display());
        let number = number.display();
        Err(StartError::Data(match self.has_logs {
            true => format!(
                "the redo logs in {logs} are not those that {data_dir} was used with last: give those with --log-dir (if these are the right ones all the same, remove {number})"
            ),
            false => format!(
                "{logs} has no redo logs, and {data_dir} was used with some: is a device not mounted there? (if they are lost, remove {number}; what only they had is lost then)"
            ),
        }))
    }
}

fn read(env: &Env, dir: &Path) -> Result<Vec<String>, StartError> {
    let path = dir.join(LOG_ID_FILE);
    match env.disk.read_small(&path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StartError::io("read", &path)(error)),
    }
}

fn write(env: &Env, dir: &Path, text: &str) -> Result<(), StartError> {
    let path = dir.join(LOG_ID_FILE);
    env.disk.write_small_atomic(&path, text.as_bytes(), 0o644).map_err(StartError::io("write", &path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn logs_are_right_or_refused_wherever_a_start_was_cut_short() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let (data, logs) = (dir.path().join("data"), dir.path().join("logs"));
        fs::create_dir(&data).unwrap();
        take_logs(&env, &data, &logs, false).unwrap();
        // Of an earlier release: logs, and nobody has a number.
        fs::write(logs.join("1.redo"), "").unwrap();
        fs::remove_file(logs.join(LOG_ID_FILE)).unwrap();
        assert!(check_logs(&env, &data, &logs).is_err());
        fs::remove_file(data.join(LOG_ID_FILE)).unwrap();
        check_logs(&env, &data, &logs).unwrap();
        take_logs(&env, &data, &logs, false).unwrap();
        let read = |dir: &Path| fs::read_to_string(dir.join(LOG_ID_FILE)).unwrap();
        let first = read(&logs);
        take_logs(&env, &data, &logs, false).unwrap();
        let second = read(&logs);
        assert!(first != second && read(&data) == second);
        for (known, of_logs, is_right) in [
            (format!("{first}{second}"), &first, true),
            (format!("{first}{second}"), &second, true),
            (second.clone(), &first, false),
            (String::new(), &first, true),
        ] {
            fs::write(data.join(LOG_ID_FILE), &known).unwrap();
            fs::write(logs.join(LOG_ID_FILE), of_logs).unwrap();
            assert_eq!(check_logs(&env, &data, &logs).is_ok(), is_right, "{known} {of_logs}");
            assert_eq!(take_logs(&env, &data, &logs, false).is_ok(), is_right, "{known} {of_logs}");
        }
        // The logs may have no segment yet, or none any more.
        fs::remove_file(logs.join("1.redo")).unwrap();
        take_logs(&env, &data, &logs, false).unwrap();
    }

    #[test]
    fn an_empty_directory_is_not_taken_for_the_logs_unless_they_are_said_to_be_lost() {
        let (env, dir) = (Env::real(), tempfile::tempdir().unwrap());
        let (data, logs) = (dir.path().join("data"), dir.path().join("logs"));
        fs::create_dir(&data).unwrap();
        take_logs(&env, &data, &logs, false).unwrap();
        fs::write(logs.join("1.redo"), "").unwrap();
        // The device with the logs is not mounted.
        let mounted = dir.path().join("mounted");
        fs::rename(&logs, &mounted).unwrap();
        fs::create_dir(&logs).unwrap();
        assert!(check_logs(&env, &data, &logs).is_err() && take_logs(&env, &data, &logs, false).is_err());
        // Nothing was changed, so all is there when it is.
        fs::remove_dir(&logs).unwrap();
        fs::rename(&mounted, &logs).unwrap();
        take_logs(&env, &data, &logs, false).unwrap();
        fs::remove_dir_all(&logs).unwrap();
        take_logs(&env, &data, &logs, true).expect("a first start that a power cut took the logs of");
        fs::remove_dir_all(&logs).unwrap();
        fs::remove_file(data.join(LOG_ID_FILE)).unwrap();
        take_logs(&env, &data, &logs, false).unwrap();
    }
}
