//! How far a long campaign has come, kept in a file so that the next run goes on from there.

use std::fmt;
use std::io;
use std::path::Path;

use env::Disk;

use crate::{Failure, Tally};

/// Seeds 1 to `seeds` are done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    pub seeds: u64,
    pub tally: Tally,
    pub failures: Vec<Failure>,
}

const HEADER: &str = "sim progress 1";

impl Progress {
    /// Runs the next seed and takes in what came of it. `twice`: again, to the same end.
    pub fn run(&mut self, seed: u64, twice: bool, again: impl Fn() -> Result<Tally, Failure>) {
        let outcome = again().and_then(|tally| match twice {
            true if again() != Ok(tally) => {
                let what = "a second run came to another end".to_owned();
                Err(Failure { seed, life: tally.lives, what })
            }
            _ => Ok(tally),
        });
        match outcome {
            Ok(tally) => self.tally.add(&tally),
            Err(failure) => self.failures.push(failure),
        }
        self.seeds = seed;
    }

    /// What a file says; nothing done if there is none.
    ///
    /// # Errors
    /// Of the file system, and `InvalidData` if it is another kind of file.
    pub fn read(disk: &dyn Disk, file: &Path) -> io::Result<Progress> {
        match disk.read_small(file) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).ok();
                text.and_then(|text| Progress::parse(&text)).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Progress::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// Of the file system; the old file stands.
    pub fn write(&self, disk: &dyn Disk, file: &Path) -> io::Result<()> {
        disk.write_small_atomic(file, self.text().as_bytes(), 0o644)
    }

    fn text(&self) -> String {
        let counts: Vec<String> = self.tally.counts().iter().map(ToString::to_string).collect();
        let mut text = format!("{HEADER}\n{}\n{}\n", self.seeds, counts.join(" "));
        for failure in &self.failures {
            text += &format!("{} {} {}\n", failure.seed, failure.life, failure.what.replace('\n', " "));
        }
        text
    }

    fn parse(text: &str) -> Option<Progress> {
        let mut lines = text.lines();
        lines.next().filter(|line| *line == HEADER)?;
        let seeds = lines.next()?.parse().ok()?;
        let counts: Option<Vec<u64>> = lines.next()?.split(' ').map(|count| count.parse().ok()).collect();
        let failure = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (seed, life) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Failure { seed, life, what: words.next()?.to_owned() })
        };
        let failures = lines.map(failure).collect::<Option<Vec<Failure>>>()?;
        Some(Progress { seeds, tally: Tally::of_counts(counts?.try_into().ok()?), failures })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds: {}", self.seeds, self.tally)?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "FAILED {failure}"))?;
        write!(f, "{} failure(s)", self.failures.len())
    }
}

#[cfg(test)]
mod tests {
    use env::sim::World;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut progress = Progress { seeds: 7, ..Progress::default() };
        progress.tally.acknowledged = 99;
        progress.failures.push(Failure { seed: 3, life: 1, what: "something is wrong".into() });
        let disk = World::new(1).env().disk;
        let file = Path::new("/progress");
        assert_eq!(Progress::read(&*disk, file).unwrap(), Progress::default());
        progress.write(&*disk, file).unwrap();
        assert_eq!(Progress::read(&*disk, file).unwrap(), progress);
        disk.write_small_atomic(file, b"another kind of file", 0o644).unwrap();
        assert_eq!(Progress::read(&*disk, file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
