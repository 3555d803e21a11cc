//! Replays what a server recorded of its writes up to power cuts, for `bench/power_cut.py`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use env::sim::{PowerCut, Replay};

/// Writes what power cuts leave of the files of a recorded server.
///
/// Reads a line for each cut, in the order of the recording: how long it was by then, what arrives of what was not flushed (`writes`, `sectors` or
/// `nothing`), a seed, and a directory to be made. Answers with the number of sectors that were not flushed.
#[derive(Parser)]
struct Args {
    /// What `rowhouse serve --record-io` wrote
    #[arg(long)]
    recording: PathBuf,
    /// The directory that it was about
    #[arg(long)]
    root: PathBuf,
    /// What that held when the recording began [default: nothing]
    #[arg(long)]
    base: Option<PathBuf>,
    /// A disk that lies: no flush makes anything durable
    #[arg(long)]
    ignore_flushes: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("power_cut: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let replay = Replay::open(&args.recording, &args.root, args.base.as_deref())?;
    let mut replay = if args.ignore_flushes { replay.ignoring_flushes() } else { replay };
    for line in std::io::stdin().lines() {
        let line = line?;
        let Some((at, policy, seed, to)) = read(&line) else {
            return Err(format!("{line:?} is no LENGTH POLICY SEED DIRECTORY").into());
        };
        let image = replay.cut(at, policy, seed)?;
        image.write_to(to)?;
        writeln!(std::io::stdout(), "{}", image.undecided())?;
    }
    Ok(())
}

fn read(line: &str) -> Option<(u64, PowerCut, u64, &Path)> {
    let mut words = line.splitn(4, ' ');
    let at = words.next()?.parse().ok()?;
    let policy = match words.next()? {
        "writes" => PowerCut::Writes,
        "sectors" => PowerCut::Random,
        "nothing" => PowerCut::DropUnsynced,
        _ => return None,
    };
    let seed = words.next()?.parse().ok()?;
    Some((at, policy, seed, Path::new(words.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_read_with_spaces_in_its_directory() {
        let read_well = read("12 writes 3 /tmp/a place");
        assert_eq!(read_well, Some((12, PowerCut::Writes, 3, Path::new("/tmp/a place"))));
        for wrong in ["", "12 writes 3", "12 all 3 /tmp", "x writes 3 /tmp"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
