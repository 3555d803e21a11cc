//! The report of damaged data: where it is, what was read and what should have been there.

use std::fmt;
use std::path::PathBuf;

use base::PageNo;
use base::limits::PAGE_SIZE;

/// Bytes that are not what their checksum, their format or the structure above them says.
///
/// The reader did not use them; the caller tells the operator and fails what depended on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// The file, where the finder knew it.
    pub file: Option<PathBuf>,
    /// Bytes from the start of `file`.
    pub offset: Option<u64>,
    /// The logical page, where the damage is inside one.
    pub page: Option<PageNo>,
    /// What is wrong, as the end of a sentence that begins with the place.
    pub what: &'static str,
    pub found: u64,
    pub expected: u64,
}

impl Corrupt {
    /// Damage inside the page `page`, found by whoever interprets its bytes.
    pub fn in_page(page: PageNo, what: &'static str, found: u64, expected: u64) -> Corrupt {
        Corrupt { file: None, offset: None, page: Some(page), what, found, expected }
    }

    /// Damage at byte `offset` of `file`.
    pub fn at(
        file: impl Into<PathBuf>,
        offset: u64,
        what: &'static str,
        found: u64,
        expected: u64,
    ) -> Corrupt {
        Corrupt { file: Some(file.into()), offset: Some(offset), page: None, what, found, expected }
    }

    /// The slot that holds `offset`, counted from the start of the file.
    pub fn slot(&self) -> Option<u64> {
        self.offset.map(|offset| offset / PAGE_SIZE as u64)
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}: ")?;
        }
        if let Some(page) = self.page {
            write!(f, "page {page}: ")?;
        }
        write!(f, "{} (found {:#x}, expected {:#x})", self.what, self.found, self.expected)
    }
}
impl std::error::Error for Corrupt {}
