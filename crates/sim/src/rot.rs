//! A bit of the disk that flips.

use std::path::{Path, PathBuf};

use base::TenantId;
use env::sim::World;

use crate::Dice;
use crate::server::{LOG_DIR, data_file};

/// Where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rot {
    pub(crate) file: PathBuf,
    /// Whose data file it is; `None` for the log.
    pub(crate) tenant: Option<TenantId>,
    pub(crate) offset: u64,
    pub(crate) bit: u8,
}

impl Rot {
    /// Some bit of some file, of data more often than of the log.
    pub(crate) fn draw(world: &World, dice: &Dice, tenants: &[TenantId]) -> Rot {
        let disk = world.env().disk;
        let segments = disk.list(Path::new(LOG_DIR)).expect("there is a log");
        let tenant = tenants[dice.below(tenants.len() as u64) as usize];
        let (file, tenant, len) = if dice.percent(70) {
            let file = data_file(tenant);
            let dir = disk.list(file.parent().expect("it has a name")).expect("there are tenants");
            let name = file.file_name().expect("it has a name").to_string_lossy();
            let len = dir.iter().find(|entry| entry.name == name).expect("the tenant has a file").len;
            (file, Some(tenant), len)
        } else {
            let segment = &segments[dice.below(segments.len() as u64) as usize];
            (Path::new(LOG_DIR).join(&segment.name), None, segment.len)
        };
        Rot { file, tenant, offset: dice.below(len.0), bit: dice.below(8) as u8 }
    }
}
