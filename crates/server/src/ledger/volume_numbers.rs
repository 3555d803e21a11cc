//! What volumes are called in the files of the history.
//!
//! A start numbers its volumes in the order in which it was given them, the logs' last: with one more, or in another order, a number is another volume's. In the files
//! each name has a number of its own for ever: `DIR/ledger/volumes` lists the names in the order of these, as JSON, and grows. Where there is no such file yet, this
//! start's volumes are the first: what was written before was written of them.

use std::io;
use std::path::Path;

use env::Disk;
use governor::{Resource, RollUpBlock};

/// Name of the file in the history's directory.
const FILE: &str = "volumes";

/// Between the volumes' numbers of this start and those in the files; without names they are the same.
#[derive(Default)]
pub(super) struct VolumeNumbers {
    /// In the order of the files.
    in_files: Vec<String>,
    /// In the order of this start, and then those that only the files have.
    names: Vec<String>,
    /// By number of the one the number of the other.
    to_files: Vec<u32>,
    of_files: Vec<u32>,
    /// Whether the file has all of them.
    is_stored: bool,
}

impl VolumeNumbers {
    /// With what the file in `dir` says, for a start with these volumes. Blocks for a small read.
    ///
    /// # Errors
    /// The file is there and cannot be read: which volume a number stands for is not known.
    pub(super) fn load(disk: &dyn Disk, dir: &Path, present: Vec<String>) -> io::Result<VolumeNumbers> {
        let path = dir.join(FILE);
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let in_files = match disk.read_small(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, named(&error)))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io::Error::new(error.kind(), named(&error))),
        };
        Ok(VolumeNumbers::of(in_files, present))
    }

    fn of(mut in_files: Vec<String>, present: Vec<String>) -> VolumeNumbers {
        let stored = in_files.len();
        for name in &present {
            if !in_files.contains(name) {
                in_files.push(name.clone());
            }
        }
        let mut names = present;
        for name in &in_files {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let places = |of: &[String], among: &[String]| {
            let place = |name: &String| among.iter().position(|other| other == name).expect("both have all");
            of.iter().map(|name| u32::try_from(place(name)).expect("fewer than 2^32 volumes")).collect()
        };
        let (to_files, of_files) = (places(&names, &in_files), places(&in_files, &names));
        let is_stored = in_files.len() == stored;
        VolumeNumbers { in_files, names, to_files, of_files, is_stored }
    }

    /// The names by the numbers that [`VolumeNumbers::of_files`] gives.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Has the file have all names, durably: before the first block with their numbers. Blocks where it has not.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn store(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        if self.is_stored || self.in_files.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(&self.in_files).expect("a list of texts");
        disk.write_small_atomic(&dir.join(FILE), text.as_bytes(), 0o600)
    }

    /// With the numbers of the files.
    pub(super) fn to_files(&self, block: RollUpBlock) -> RollUpBlock {
        numbered(block, &self.to_files)
    }

    /// With the numbers of this start.
    pub(super) fn of_files(&self, block: RollUpBlock) -> RollUpBlock {
        numbered(block, &self.of_files)
    }
}

/// With other numbers; a volume that has none keeps its own.
fn numbered(mut block: RollUpBlock, numbers: &[u32]) -> RollUpBlock {
    if (0..).zip(numbers).all(|(number, other)| number == *other) {
        return block;
    }
    for row in &mut block.rows {
        if let Resource::Io { volume } = &mut row.resource
            && let Some(number) = numbers.get(*volume as usize)
        {
            *volume = *number;
        }
    }
    block.rows.sort_by_key(|row| (row.tenant, row.resource, row.from));
    block
}

#[cfg(test)]
mod tests {
    use base::TenantId;

    use super::super::history::tests::{block_of, io_block_of};
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn names_keep_their_numbers_and_new_ones_get_others() {
        let numbers = VolumeNumbers::of(names("default log"), names("default fast log"));
        assert_eq!(
            (&numbers.in_files, &numbers.names),
            (&names("default log fast"), &names("default fast log"))
        );
        assert_eq!((&numbers.to_files, &numbers.of_files), (&vec![0, 2, 1], &vec![0, 2, 1]));
        assert!(!numbers.is_stored);
        let without = VolumeNumbers::of(numbers.in_files, names("default log"));
        assert_eq!(without.names, names("default log fast"), "one that is gone is called as it was");
        assert!(without.is_stored);
    }

    #[test]
    fn a_block_comes_back_as_it_was_and_is_in_order_on_the_way() {
        let numbers = VolumeNumbers::of(names("default log slow fast"), names("default fast slow log"));
        let io = |tenant, volume| io_block_of(TenantId(tenant), volume, 7, 1);
        // The last is of a volume that nobody knows.
        let of_volumes =
            [(16, 1), (16, 2), (16, 3), (17, 0), (17, 3), (17, 9)].map(|(tenant, volume)| io(tenant, volume));
        let block = RollUpBlock::merged(of_volumes.into_iter().chain([block_of(TenantId(17), 7, 1)]), 1);
        assert_eq!(block.rows.len(), 7);
        let written = numbers.to_files(block.clone());
        assert_ne!(written, block);
        let read = RollUpBlock::decode(&written.encode()).expect("in order");
        assert_eq!(numbers.of_files(read), block);
    }
}
