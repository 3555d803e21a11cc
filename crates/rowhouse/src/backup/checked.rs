//! An image as it goes by, each slot checked.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base::limits::PAGE_SIZE;
use storage::{IMAGE_HEAD_LEN, ImageReader};
use tenant::Description;
use workloads::Error;

/// Bytes read from a file at once.
pub(super) const PIECE_LEN: usize = 256 << 10;

/// Checks the bytes of a backup in the order they come, in pieces of any length.
pub(crate) struct Checked {
    source: String,
    reader: Option<(ImageReader, Description)>,
    /// What makes no whole slot yet.
    rest: Vec<u8>,
    bytes: u64,
}

impl Checked {
    /// Of a backup called `source` in reports.
    pub(super) fn new(source: &str) -> Checked {
        Checked { source: source.to_owned(), reader: None, rest: Vec::new(), bytes: 0 }
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    /// They are damaged, or begin no backup; with the place.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len() as u64;
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        if self.reader.is_none() {
            if self.rest.len() < IMAGE_HEAD_LEN {
                return Ok(());
            }
            self.begin()?;
            at = IMAGE_HEAD_LEN;
        }
        let (reader, _) = self.reader.as_mut().expect("begun above");
        let mut page = Box::new([0; PAGE_SIZE]);
        let mut slots = self.rest[at..].chunks_exact(PAGE_SIZE);
        for slot in &mut slots {
            page.copy_from_slice(slot);
            reader.slot(&mut page)?;
        }
        let left = slots.remainder().len();
        self.rest.drain(..self.rest.len() - left);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Error> {
        let reader = ImageReader::begin(Path::new(&self.source), &self.rest, None)?;
        let (description, _) = Description::of_root(reader.tenant(), &reader.root())
            .map_err(|error| format!("{}: {error}", self.source))?;
        self.reader = Some((reader, description));
        Ok(())
    }

    /// Bytes of the whole backup, once its beginning has come.
    pub(super) fn total(&self) -> Option<u64> {
        self.reader.as_ref().map(|(reader, _)| reader.len().0)
    }

    /// What the backup says of itself, once its beginning has come.
    pub(super) fn description(&self) -> Option<&Description> {
        self.reader.as_ref().map(|(_, description)| description)
    }

    /// Bytes that have come.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The backup has come to its end: what it says of itself.
    ///
    /// # Errors
    /// It is cut off, or too long.
    pub(super) fn finish(mut self) -> Result<(ImageReader, Description), Error> {
        if self.reader.is_none() {
            // Says that it is too short.
            self.begin()?;
        }
        let (reader, description) = self.reader.take().expect("begun above");
        reader.finish()?;
        if !self.rest.is_empty() {
            return Err(
                format!("{}: offset {}: bytes behind the image's end", self.source, reader.len().0).into()
            );
        }
        Ok((reader, description))
    }
}

/// Checks a backup in a file from its beginning to its end; `on_progress` is told bytes so far and in all.
///
/// # Errors
/// The file cannot be read, or is no whole backup; with file and offset.
pub(crate) fn check_file(
    path: &Path,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<(ImageReader, Description), Error> {
    let name = path.display().to_string();
    let mut file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
    let mut checked = Checked::new(&name);
    let mut piece = vec![0; PIECE_LEN];
    loop {
        let n = file.read(&mut piece).map_err(|error| format!("{name}: {error}"))?;
        if n == 0 {
            return checked.finish();
        }
        checked.push(&piece[..n])?;
        on_progress(checked.bytes(), checked.total().unwrap_or(0));
    }
}
