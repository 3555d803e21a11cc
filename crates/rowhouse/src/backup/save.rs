//! `rowhouse backup`: a tenant's state of one moment into a file, while the tenant goes on working.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use futures::TryStreamExt as _;
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::time::Instant;
use workloads::Error;
use workloads::target::Target;

use super::checked::Checked;
use super::{DASH, block_on, progress_bar, quoted};

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
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// The file to write, replaced if it is there; - for standard output
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
    let outcome = block_on(async {
        tokio::select! {
            outcome = save(args) => outcome,
            _ = tokio::signal::ctrl_c() => Err("interrupted; no backup was left".into()),
        }
    })?;
    let report = if args.json {
        serde_json::to_string_pretty(&outcome)?
    } else {
        format!(
            "{}: {} bytes, commit {}, {:.1} s",
            outcome.tenant, outcome.bytes, outcome.commit, outcome.seconds
        )
    };
    // Standard output may be the backup's.
    if args.to == DASH {
        eprintln!("{report}")
    } else {
        println!("{report}")
    }
    Ok(())
}

async fn save(args: &Args) -> Result<Outcome, Error> {
    let began = Instant::now();
    let client = Target::new(&args.url, None)?.connect_admin().await?;
    let statement = format!("BACKUP TENANT {} TO STDOUT", quoted(&args.tenant));
    let mut pieces = std::pin::pin!(client.copy_out(&statement).await?);
    let mut sink = if args.to == DASH { Sink::Stdout } else { Sink::File(Partial::create(&args.to)?) };
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
}

impl Sink {
    fn write(&mut self, piece: &[u8]) -> Result<(), Error> {
        match self {
            Sink::Stdout => io::stdout().write_all(piece).map_err(Error::from),
            Sink::File(partial) => partial.write(piece),
        }
    }

    fn finish(self) -> Result<(), Error> {
        match self {
            Sink::Stdout => io::stdout().flush().map_err(Error::from),
            Sink::File(partial) => partial.finish(),
        }
    }
}

/// A file that has its name only when it is whole; until then `NAME.partial`, removed when it is given up.
struct Partial {
    file: File,
    path: PathBuf,
    name: PathBuf,
    finished: bool,
}

impl Partial {
    fn create(name: &str) -> Result<Partial, Error> {
        let path = PathBuf::from(format!("{name}.partial"));
        let failed = |error| format!("{}: {error}", path.display());
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).map_err(failed)?;
        Ok(Partial { file, name: PathBuf::from(name), path, finished: false })
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.file.write_all(piece).map_err(|error| self.failed(&error))
    }

    /// After `Ok` the file survives power loss.
    fn finish(mut self) -> Result<(), Error> {
        let folder = match self.name.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let placed = self
            .file
            .sync_all()
            .and_then(|()| std::fs::rename(&self.path, &self.name))
            .and_then(|()| File::open(folder)?.sync_all());
        placed.map_err(|error| self.failed(&error))?;
        self.finished = true;
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> Error {
        format!("{}: {error}", self.path.display()).into()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing is lost with it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
