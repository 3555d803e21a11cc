//! The file a calibration is kept in: one line with what it takes to believe the rest, then JSON that people can read too.
//!
//! ```text
//! rowhouse calibration 1 8d3c2b1a
//! { "depth": 32, … }
//! ```
//!
//! The number is the format's version, then comes the CRC-32C of all bytes after the line, in hexadecimal. It is replaced as a
//! whole or not at all.

use std::fmt;
use std::io;
use std::path::Path;

use env::{Disk, OpenMode};

use super::Calibration;

/// Name of the file in a volume's directory.
pub const CALIBRATION_FILE: &str = "calibration";

/// Version of the format; the only one there is.
const FORMAT_VERSION: u32 = 1;
const MAGIC: &str = "rowhouse calibration ";
/// A longer file is none of ours, and is not read.
const FILE_LEN_MAX: u64 = 64 << 10;

/// Why there is no calibration to go by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotCalibrated {
    /// It was never made.
    Missing,
    /// It was made by another release, in a form that this one does not know.
    OtherVersion { found: u32 },
    /// The file is not as it was written.
    Damaged(&'static str),
    /// The file cannot be read.
    Unreadable(String),
}

impl fmt::Display for NotCalibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCalibrated::Missing => f.write_str("it was never calibrated"),
            NotCalibrated::OtherVersion { found } => write!(
                f,
                "its calibration has format version {found}, and this release knows {FORMAT_VERSION} only"
            ),
            NotCalibrated::Damaged(how) => write!(f, "the file of its calibration is damaged: {how}"),
            NotCalibrated::Unreadable(error) => write!(f, "its calibration cannot be read: {error}"),
        }
    }
}
impl std::error::Error for NotCalibrated {}

/// Keeps `calibration` in `dir`, in place of an earlier one. After `Ok` it survives power loss; after an error the earlier one
/// does. Blocks.
///
/// # Errors
/// The disk refuses.
pub fn store(disk: &dyn Disk, dir: &Path, calibration: &Calibration) -> io::Result<()> {
    assert_eq!(calibration.absurdity(), None, "only what was measured is kept");
    let mut body = serde_json::to_string_pretty(calibration).expect("plain data");
    body.push('\n');
    let checksum = crc32c::crc32c(body.as_bytes());
    let text = format!("{MAGIC}{FORMAT_VERSION} {checksum:08x}\n{body}");
    assert!(text.len() as u64 <= FILE_LEN_MAX);
    disk.write_small_atomic(&dir.join(CALIBRATION_FILE), text.as_bytes(), 0o600)
}

/// The calibration kept in `dir`. Blocks for one small read.
///
/// # Errors
/// There is none that can be believed. Nothing is changed.
pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Calibration, NotCalibrated> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => NotCalibrated::Missing,
        _ => NotCalibrated::Unreadable(error.to_string()),
    };
    let file = disk.open(&dir.join(CALIBRATION_FILE), OpenMode::Read, false).map_err(unreadable)?;
    let len = file.len().map_err(unreadable)?;
    if len > FILE_LEN_MAX {
        return Err(NotCalibrated::Damaged("it is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0).map_err(unreadable)?;
    decode(&bytes)
}

fn decode(bytes: &[u8]) -> Result<Calibration, NotCalibrated> {
    use NotCalibrated::Damaged;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(Damaged("it has no first line"))?;
    let (line, body) = (&bytes[..end], &bytes[end + 1..]);
    let line = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix(MAGIC));
    let (version, checksum) =
        line.and_then(|line| line.split_once(' ')).ok_or(Damaged("its first line is none of ours"))?;
    let version: u32 = version.parse().map_err(|_| Damaged("its version is no number"))?;
    if version != FORMAT_VERSION {
        return Err(NotCalibrated::OtherVersion { found: version });
    }
    let checksum =
        u32::from_str_radix(checksum, 16).map_err(|_| Damaged("its checksum is no number in hexadecimal"))?;
    if checksum != crc32c::crc32c(body) {
        return Err(Damaged("its checksum does not fit"));
    }
    let calibration: Calibration =
        serde_json::from_slice(body).map_err(|_| Damaged("it lacks what a calibration has"))?;
    calibration.absurdity().map_or(Ok(calibration), |absurd| Err(Damaged(absurd)))
}
