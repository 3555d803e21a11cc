//! `rowhouse calibrate`: measures the volumes of a server that is not running, and keeps what was found beside them.

mod report;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base::ByteCount;
use env::{Device, Env, ShutdownSignal};
use indicatif::{ProgressBar, ProgressStyle};
use server::calibration::{self, MeasureError, MeasureOptions, Measurement, Plan, Progress};
use server::{DataDir, StartError};

use crate::offline::Place;

/// Options of `rowhouse calibrate`.
#[derive(clap::Args)]
#[command(after_help = "\
Run it once before the first start, or while the server is down, and again when the device changes; `serve` says when it is
missing or stale. The result is the file `calibration` in each volume's directory. Directories on one file system are measured
once. Let nothing else use the device meanwhile: what others do makes it look slower. A device that allows bursts
shows its steady rate only to a measurement that is longer than they are (--seconds).

Needs O_DIRECT, and twice the scratch file as free space. The scratch file has no name while it is used and is gone when
the command ends, however it ends. The exit code is 0 if every volume was measured, else 1.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Seconds of measuring for each volume; preparing the scratch file comes before them
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(30..=3600))]
    seconds: u64,
    /// A look of six seconds at fewer sizes and depths, on a smaller scratch file; kept like a full one
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Bytes the scratch file takes, better more than the device caches [default: 1GiB, 256MiB with --quick]
    #[arg(long, value_name = "SIZE")]
    scratch: Option<ByteCount>,
    /// Threads that put load on, as many as the server will have workers [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Print all that was measured as JSON
    #[arg(long)]
    json: bool,
}

/// Why not every volume is calibrated.
#[derive(Debug)]
pub(crate) enum Failure {
    /// In use, or no data directory.
    Directory(StartError),
    /// A volume's directory cannot be made or looked at.
    Volume(PathBuf, io::Error),
    Interrupted,
    /// So many volumes were not measured; each has been told of.
    Volumes(usize),
    /// Measured, and could not be kept.
    NotKept(PathBuf, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Directory(error) => error.fmt(f),
            Failure::Volume(dir, error) => write!(f, "cannot use {}: {error}", dir.display()),
            Failure::Interrupted => {
                f.write_str("interrupted: what was not finished is not kept, and nothing is left of it")
            }
            Failure::Volumes(1) => f.write_str("one volume is not calibrated"),
            Failure::Volumes(count) => write!(f, "{count} volumes are not calibrated"),
            Failure::NotKept(dir, error) => {
                write!(f, "the calibration cannot be kept in {}: {error}", dir.display())
            }
        }
    }
}

/// Directories on one file system, measured together.
struct Group {
    device: Device,
    /// With the names of their volumes.
    dirs: Vec<(String, PathBuf)>,
}

/// Measures each volume, keeps and prints what was found.
///
/// # Errors
/// See [`Failure`]; what was measured before is kept.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let env = Env::real();
    // From here on Ctrl-C ends the measurement in order.
    let stop = env.threads.shutdown_signal();
    let _held = DataDir::open(&env, args.place.data()).map_err(Failure::Directory)?;
    let cores = env.threads.cores().len();
    let options = MeasureOptions {
        plan: if args.quick { Plan::quick() } else { Plan::full(args.seconds) },
        scratch_len: args.scratch.unwrap_or(ByteCount::from_mib(if args.quick { 256 } else { 1024 })),
        workers: args.workers.map_or(cores, usize::from) as u32,
    };
    let mut found = Vec::new();
    let mut failed = 0;
    for group in groups(&env, &args.place)? {
        if !args.json {
            report::announce(&group, &env, &options);
        }
        match measure(&env, &group, &options, &stop, args.json) {
            Ok(measurement) => {
                for (_, dir) in &group.dirs {
                    let kept = calibration::store(&*env.disk, dir, &measurement.calibration);
                    kept.map_err(|error| Failure::NotKept(dir.clone(), error))?;
                }
                if !args.json {
                    report::print(&measurement);
                }
                found.push(report::of(&group, measurement));
            }
            Err(MeasureError::Interrupted) => return Err(Failure::Interrupted),
            Err(error) => {
                eprintln!("rowhouse: {error}");
                failed += group.dirs.len();
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found).expect("plain data"));
    }
    if failed > 0 { Err(Failure::Volumes(failed)) } else { Ok(()) }
}

/// The directories of the volumes, the logs' among them, by file system.
fn groups(env: &Env, place: &Place) -> Result<Vec<Group>, Failure> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, dir) in place.calibrated() {
        let unusable = |error| Failure::Volume(dir.clone(), error);
        env.disk.create_dir_all(&dir).map_err(unusable)?;
        let device = env.disk.device_of(&dir).map_err(unusable)?;
        let named = (name.to_owned(), dir);
        match groups.iter_mut().find(|group| group.device == device) {
            Some(group) => group.dirs.push(named),
            None => groups.push(Group { device, dirs: vec![named] }),
        }
    }
    Ok(groups)
}

fn measure(
    env: &Env,
    group: &Group,
    options: &MeasureOptions,
    stop: &ShutdownSignal,
    json: bool,
) -> Result<Measurement, MeasureError> {
    let dir: &Path = &group.dirs[0].1;
    let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = |template| ProgressStyle::with_template(template).expect("the template is valid");
    let filling = style("writing the scratch file [{bar:40}] {bytes}/{total_bytes}");
    let measuring = style("measuring [{bar:40}] {percent} %, {eta} left");
    let mut is_measuring = false;
    bar.set_style(filling);
    let outcome = calibration::measure(env, dir, options, stop, &mut |progress| match progress {
        Progress::Filling { done, of } => {
            bar.set_length(of.0);
            bar.set_position(done.0);
        }
        Progress::Measuring { done, of } => {
            if !std::mem::replace(&mut is_measuring, true) {
                bar.set_style(measuring.clone());
                bar.set_length(of.0);
                bar.reset();
            }
            bar.set_position(done.0);
        }
    });
    bar.finish_and_clear();
    outcome
}
