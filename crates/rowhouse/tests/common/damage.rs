//! Files of a data directory, looked into and damaged while no server has it.

use std::path::{Path, PathBuf};

use super::Server;

/// Bytes of a slot of a data file.
pub const SLOT: usize = 8192;
/// Bytes of a block of a log's segment.
pub const LOG_BLOCK: usize = 4096;

/// What `rowhouse serve` says when it does not start, this time.
pub fn refusal(data: &Path) -> String {
    let said_before = std::fs::read_to_string(data.with_extension("log")).unwrap_or_default();
    match Server::launch(data, &[]) {
        Ok(_) => panic!("the server should not have started"),
        Err(output) => output.replacen(&said_before, "", 1),
    }
}

/// The data files that contain `needle`.
pub fn files_with(data: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(data.join("tenants")).expect("there are tenants");
    let files = folder.map(|entry| entry.expect("an entry can be read").path());
    files.filter(|path| position(&read(path), needle).is_some()).collect()
}

/// The one data file that contains `needle`.
pub fn file_with(data: &Path, needle: &[u8]) -> PathBuf {
    let files = files_with(data, needle);
    let [file] = &files[..] else { panic!("one file has it: {files:?}") };
    file.clone()
}

pub fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Flips a bit of each of these bytes; what the file was.
pub fn flip(path: &Path, offsets: &[usize]) -> Vec<u8> {
    let whole = read(path);
    let mut bytes = whole.clone();
    for offset in offsets {
        bytes[*offset] ^= 1;
    }
    write(path, &bytes);
    whole
}
