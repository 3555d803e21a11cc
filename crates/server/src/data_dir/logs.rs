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

/// Refuses logs that are not those the data directory was used with last. Where there are none, none are wrong.
///
/// # Errors
/// They are others; a directory cannot be read.
pub fn check_logs(env: &Env, data_dir: &Path, logs: &Path) -> Result<(), StartError> {
    look(env, data_dir, logs).map(drop)
}

/// As [`check_logs`], and has the logs be those of this start from now on.
///
/// # Errors
/// As [`check_logs`]; a file of new logs cannot be written.
pub(crate) fn take_logs(env: &Env, data_dir: &Path, logs: &Path) -> Result<(), StartError> {
    env.disk.create_dir_all(logs).map_err(StartError::io("create", logs))?;
    let found = look(env, data_dir, logs)?;
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
        && found.has_logs
        && !found.known.is_empty()
    {
        write(env, data_dir, &format!("{before}\n{new}\n"))?;
    }
    // Where the data directory knows none, it takes whichever it finds.
    write(env, logs, &format!("{new}\n"))?;
    write(env, data_dir, &format!("{new}\n"))
}

fn look(env: &Env, data_dir: &Path, logs: &Path) -> Result<Found, StartError> {
    let entries = env.disk.list(logs).map_err(StartError::io("list", logs))?;
    let has_logs = entries.iter().any(|entry| entry.name.ends_with(".redo"));
    let (known, of_logs) = (read(env, data_dir)?, read(env, logs)?.pop());
    let is_right = known.is_empty() || of_logs.as_ref().is_some_and(|number| known.contains(number));
    if has_logs && !is_right {
        return Err(StartError::Data(format!(
            "the redo logs in {} are not those that {} was used with last: give those with --log-dir (if these are the right ones all the same, remove {})",
            logs.display(),
            data_dir.display(),
            data_dir.join(LOG_ID_FILE).display()
        )));
    }
    Ok(Found { known, of_logs, has_logs })
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
        take_logs(&env, &data, &logs).unwrap();
        // Of an earlier release: logs, and nobody has a number.
        fs::write(logs.join("1.redo"), "").unwrap();
        fs::remove_file(logs.join(LOG_ID_FILE)).unwrap();
        assert!(check_logs(&env, &data, &logs).is_err());
        fs::remove_file(data.join(LOG_ID_FILE)).unwrap();
        check_logs(&env, &data, &logs).unwrap();
        take_logs(&env, &data, &logs).unwrap();
        let read = |dir: &Path| fs::read_to_string(dir.join(LOG_ID_FILE)).unwrap();
        let first = read(&logs);
        take_logs(&env, &data, &logs).unwrap();
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
            assert_eq!(take_logs(&env, &data, &logs).is_ok(), is_right, "{known} {of_logs}");
        }
        // In place of logs that are lost.
        fs::remove_file(logs.join("1.redo")).unwrap();
        take_logs(&env, &data, &logs).unwrap();
    }
}
