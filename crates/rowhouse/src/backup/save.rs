//! `rowhouse backup`: a tenant's state of one moment into a file, while the tenant goes on working.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use futures::TryStreamExt as _;
use indicatif::ProgressBar;
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::time::Instant;
use workloads::Error;

use super::checked::Checked;
use super::{DASH, block_on, connect, progress_bar, quoted};

/// Options of `rowhouse backup`.
#[derive(Parser)]
#[command(after_help = "\
The backup is of the tenant's state when it begins, durable commits only; the tenant goes on working. It holds tables,
indexes, views, sequences, settings, roles with their passwords (as SCRAM verifiers) and the tenant's promise; not its
volume, its sessions and what it used. The file is checked as it is written and appears under its name when it is whole.")]
pub(crate) struct Args {
    /// The server's administrator, as in postgres://admin:password@127.0.0.1:5433/rowhouse; sslmode and sslrootcert as for psql
    #[arg(long)]
    url: String,
    /// The tenant to back up
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = super::tenant_name)]
    tenant: String,
    /// The file to write, replaced if it is there, or a pipe or device; - for standard output
    #[arg(long, value_name = "FILE")]
    to: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    tenant: String,
    /// `None` for standard output.
    file: Option<String>,
    bytes: u64,
    /// The last commit in the backup.
    commit: u64,
    /// Microseconds since 1970 UTC.
    taken_at_us: i64,
    seconds: f64,
}

/// Runs the command to its end.
///
/// # Errors
/// The server refuses, the file cannot be written, or what came is no whole backup: no file is left then.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let special = Sink::special(&args.to)?;
    let outcome = if special.is_some() || args.to == DASH {
        // Nobody may read, and nothing is to be put away: a signal ends the program as any other.
        block_on(save(args, special))?
    } else {
        let interrupt = env::Env::real().threads.shutdown_signal();
        block_on(async {
            tokio::select! {
                outcome = save(args, special) => outcome,
                () = interrupt.wait() => Err("interrupted; no backup was left".into()),
            }
        })?
    };
    let report = if args.json {
        serde_json::to_string_pretty(&outcome)?
    } else {
        format!(
            "{}: {} bytes, commit {}, {:.1} s",
            outcome.tenant, outcome.bytes, outcome.commit, outcome.seconds
        )
    };
    // Standard output may be the backup's. What cannot be printed does not make it fail: it is there, and whole.
    let _ = match args.to.as_str() {
        DASH => writeln!(io::stderr(), "{report}"),
        _ => writeln!(io::stdout(), "{report}"),
    };
    Ok(())
}

async fn save(args: &Args, special: Option<Sink>) -> Result<Outcome, Error> {
    let began = Instant::now();
    let client = connect(&args.url).await?;
    let statement = format!("BACKUP TENANT {} TO STDOUT", quoted(&args.tenant));
    let mut pieces = std::pin::pin!(client.copy_out(&statement).await?);
    let mut sink = special.map_or_else(|| Sink::create(&args.to), Ok)?;
    let bar = if args.json { ProgressBar::hidden() } else { progress_bar("backing up")? };
    let mut checked = Checked::new(&format!("backup of {}", args.tenant));
    while let Some(piece) = pieces.try_next().await? {
        checked.push(&piece)?;
        sink.write(&piece)?;
        bar.set_length(checked.total().unwrap_or(0));
        bar.set_position(checked.bytes());
    }
    let bytes = checked.bytes();
    let (reader, description) = checked.finish()?;
    sink.finish()?;
    bar.finish_and_clear();
    Ok(Outcome {
        tenant: description.name,
        file: (args.to != DASH).then(|| args.to.clone()),
        bytes,
        commit: reader.root().commit.0,
        taken_at_us: description.taken_at,
        seconds: began.elapsed().as_secs_f64(),
    })
}

enum Sink {
    Stdout,
    File(Partial),
    /// A pipe or a device, by name.
    Special(File, PathBuf),
}

impl Sink {
    /// `None` where there is, or will be, a file.
    fn special(name: &str) -> Result<Option<Sink>, Error> {
        // Nothing takes the place of what is there and is no file: it takes the bytes itself.
        let is_special = |there: std::fs::Metadata| !there.is_file() && !there.is_dir();
        if name == DASH || !std::fs::metadata(name).is_ok_and(is_special) {
            return Ok(None);
        }
        let path = PathBuf::from(name);
        let opened = File::options().write(true).open(&path).map_err(|error| failed(&path, &error))?;
        Ok(Some(Sink::Special(opened, path)))
    }

    fn create(name: &str) -> Result<Sink, Error> {
        if name == DASH { Ok(Sink::Stdout) } else { Ok(Sink::File(Partial::create(name)?)) }
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Error> {
        match self {
            Sink::Stdout => io::stdout().write_all(piece).map_err(Error::from),
            Sink::File(partial) => partial.write(piece),
            Sink::Special(file, path) => file.write_all(piece).map_err(|error| failed(path, &error)),
        }
    }

    fn finish(self) -> Result<(), Error> {
        match self {
            Sink::Stdout => io::stdout().flush().map_err(Error::from),
            Sink::File(partial) => partial.finish(),
            Sink::Special(mut file, path) => file.flush().map_err(|error| failed(&path, &error)),
        }
    }
}

/// A file that has its name only when it is whole; until then `NAME.*.partial` beside it, of this program's alone and removed when it is given up.
struct Partial {
    file: NamedTempFile,
    name: PathBuf,
}

impl Partial {
    fn create(name: &str) -> Result<Partial, Error> {
        let name = place_of(Path::new(name))?;
        let base = name.file_name().ok_or_else(|| format!("{}: no name of a file", name.display()))?;
        let mut prefix = base.to_os_string();
        prefix.push(".");
        let made = tempfile::Builder::new().prefix(&prefix).suffix(".partial").tempfile_in(folder_of(&name));
        let file = made.map_err(|error| format!("{}: {error}", name.display()))?;
        Ok(Partial { file, name })
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.file.write_all(piece).map_err(|error| failed(self.file.path(), &error))
    }

    /// After `Ok` the file survives power loss.
    fn finish(self) -> Result<(), Error> {
        let Partial { file, name } = self;
        file.as_file().sync_all().map_err(|error| failed(file.path(), &error))?;
        file.persist(&name).map_err(|error| failed(&name, &error.error))?;
        File::open(folder_of(&name))
            .and_then(|folder| folder.sync_all())
            .map_err(|error| failed(&name, &error))
    }
}

/// Where a file of this name is, or will be. A link stays: what it leads to is replaced.
fn place_of(name: &Path) -> Result<PathBuf, Error> {
    let place = match name.canonicalize() {
        Ok(place) => place,
        Err(error) if name.is_symlink() => return Err(failed(name, &error)),
        Err(_) => name.to_owned(),
    };
    if place.is_dir() {
        return Err(format!("{}: this is a directory", name.display()).into());
    }
    Ok(place)
}

fn folder_of(name: &Path) -> &Path {
    name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    format!("{}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn nothing_takes_the_place_of_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut reader = std::process::Command::new("cat");
        let mut reader = reader.arg(&pipe).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut sink = Sink::special(pipe.to_str().unwrap()).unwrap().expect("a pipe");
        sink.write(b"a backup").unwrap();
        sink.finish().unwrap();
        let kind = std::fs::metadata(&pipe).unwrap().file_type();
        if kind.is_file() {
            reader.kill().unwrap();
        }
        assert!(kind.is_fifo(), "{kind:?}");
        assert_eq!(reader.wait_with_output().unwrap().stdout, b"a backup");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (place, link) = (folder.path().join("monday.backup"), folder.path().join("latest"));
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert!(Partial::create(link.to_str().unwrap()).is_err(), "it leads nowhere");
        std::fs::write(&place, "of last week").unwrap();
        let mut partial = Partial::create(link.to_str().unwrap()).unwrap();
        partial.write(b"of today").unwrap();
        partial.finish().unwrap();
        assert!(link.is_symlink() && !place.is_symlink());
        assert_eq!(std::fs::read(&link).unwrap(), b"of today");
        assert!(Partial::create(folder.path().to_str().unwrap()).is_err(), "before a backup is made");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn two_backups_to_one_name_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("acme.backup");
        let mut slow = Partial::create(name.to_str().unwrap()).unwrap();
        slow.write(b"of last ").unwrap();
        let mut quick = Partial::create(name.to_str().unwrap()).unwrap();
        quick.write(b"of this night").unwrap();
        slow.write(b"night").unwrap();
        slow.finish().unwrap();
        assert_eq!(std::fs::read(&name).unwrap(), b"of last night");
        quick.finish().unwrap();
        assert_eq!(std::fs::read(&name).unwrap(), b"of this night");
        assert_eq!(std::fs::metadata(&name).unwrap().permissions().mode() & 0o777, 0o600);
        let mut given_up = Partial::create(name.to_str().unwrap()).unwrap();
        given_up.write(b"half").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
