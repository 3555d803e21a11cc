//! A tenant's data file: making it, opening it at its newest root, and reading pages from it.

use std::path::PathBuf;

use base::{PageNo, TenantId};

use crate::file_error::FileError;
use crate::frame::Frame;
use crate::map::PageLocation;
use crate::version::Location;

/// A page read from the file and checked, on its way into the map.
pub struct LoadedPage {
    pub(crate) from: PageLocation,
    pub(crate) frame: Frame,
}

/// Reads and checks slots; shared by the map, its snapshots and the checkpoint.
pub struct FileReader {
    pub(crate) path: PathBuf,
    pub(crate) tenant: TenantId,
}

impl FileReader {
    pub(crate) fn read_slot_blocking(
        &self,
        _location: Location,
        _page: Option<PageNo>,
        _into: &mut Frame,
    ) -> Result<(), FileError> {
        Err(FileError::Closed { file: self.path.clone() })
    }
}
