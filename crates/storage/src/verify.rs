//! The offline check of a data file: every checksum, every slot accounted for exactly once.

use std::path::Path;

use base::limits::PAGE_SIZE;
use base::{PageNo, SlotNo, TenantId};
use env::{Env, OpenMode};

use crate::data_file::{Other, Root, Superblocks, check_extent, check_len, read_superblocks};
use crate::file_error::FileError;
use crate::file_reader::{FileReader, offset_of, unreadable_slot};
use crate::node_page::{NodeIdentity, decode_node};
use crate::radix::shift_of;
use crate::slots::SlotSet;
use crate::superblock::{SUPERBLOCKS, Superblock};
use crate::version::Location;
use crate::{Corrupt, PageBytes};

/// Defects listed one by one; the rest are only counted.
const DEFECTS_LISTED_MAX: usize = 1000;

/// What a check of a data file found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    pub tenant: TenantId,
    pub root: Root,
    pub generation: u64,
    /// Pages whose bytes are what their pointer says.
    pub pages: u64,
    pub map_nodes: u64,
    pub slots: u64,
    pub slots_used: u64,
    /// The first thousand defects, in the order found.
    pub defects: Vec<Corrupt>,
    pub defect_count: u64,
    /// One of the superblocks is damaged. A power cut while a root is flipped leaves this legally; without one it is rot. The
    /// other serves, and opening the file writes it anew.
    pub spare_superblock: Option<Corrupt>,
}

impl VerifyReport {
    /// No defect; the spare superblock does not count.
    pub fn is_clean(&self) -> bool {
        self.defect_count == 0
    }
}

/// Slots looked at so far, and slots the root uses.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64);
/// Each intact page of the newest root.
pub type OnPage<'a> = &'a mut dyn FnMut(PageNo, &PageBytes);

/// Checks the data file at `path`, which no server may have open. Blocks, and reads all of it that is in use.
///
/// Damage is in the report, and so is what the disk cannot read; `Err` means that the file could not be checked at all: its superblocks
/// cannot be read, neither of them is valid, or a newer build wrote it.
pub fn verify_file(
    env: &Env,
    path: &Path,
    on_progress: OnProgress<'_>,
    on_page: OnPage<'_>,
) -> Result<VerifyReport, FileError> {
    let failed = |doing| move |error| FileError::Io { file: path.to_path_buf(), doing, error };
    let file = env.disk.open(path, OpenMode::Read, false).map_err(failed("opening the data file"))?;
    let len = check_len(&file, path)?;
    let mut reader = FileReader { file, path: path.to_path_buf(), tenant: TenantId::SYSTEM };
    let (_, chosen) = env::block_on(env, read_superblocks(&reader, None))?;
    let Superblocks { newest: superblock, other } = chosen;
    check_extent(path, &superblock, len)?;
    reader.tenant = superblock.tenant;
    let report = VerifyReport {
        tenant: superblock.tenant,
        root: Root { commit: superblock.commit, payload: superblock.payload.clone() },
        generation: superblock.generation,
        slots: superblock.slot_count.into(),
        spare_superblock: match other {
            Other::Damaged(damage) => Some(damage),
            Other::SameRoot | Other::OlderRoot => None,
        },
        ..VerifyReport::default()
    };
    let mut walk = Walk {
        reader: &reader,
        superblock: &superblock,
        report,
        reached: SlotSet::default(),
        stored: SlotSet::default(),
        whole: true,
        on_progress,
        on_page,
        page: Box::new([0; PAGE_SIZE]),
    };
    walk.run()?;
    Ok(walk.report)
}

struct Walk<'a> {
    reader: &'a FileReader,
    superblock: &'a Superblock,
    report: VerifyReport,
    /// Slots that the root reaches.
    reached: SlotSet,
    /// Slots that the stored free set calls used.
    stored: SlotSet,
    /// No node and no page of the free set is damaged, so what was not reached is not reachable.
    whole: bool,
    on_progress: OnProgress<'a>,
    on_page: OnPage<'a>,
    page: Box<PageBytes>,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), FileError> {
        for slot in 0..SUPERBLOCKS {
            self.reached.insert(slot);
        }
        let superblock = self.superblock;
        for location in &superblock.free_set {
            self.reach(location.slot);
            if self.read(*location, None)? {
                self.stored.append_page(&self.page);
            } else {
                self.whole = false;
                self.stored.append_page(&[0; PAGE_SIZE]);
            }
        }
        self.report.slots_used = self.stored.len();
        if let Some(location) = superblock.map_root {
            let identity = NodeIdentity {
                tenant: superblock.tenant,
                height: superblock.map_height,
                first_page: PageNo(0),
            };
            self.node(location, identity)?;
        }
        if self.whole {
            self.compare_free_set();
        }
        Ok(())
    }

    fn node(&mut self, location: Location, identity: NodeIdentity) -> Result<(), FileError> {
        self.reach(location.slot);
        if !self.read(location, None)? {
            self.whole = false;
            return Ok(());
        }
        let pointers = match decode_node(&self.page, identity, self.superblock.slot_count) {
            Ok(pointers) => pointers,
            Err(bad) => {
                self.whole = false;
                self.defect(offset_of(location.slot) + bad.at as u64, bad.what, bad.found, bad.expected);
                return Ok(());
            }
        };
        self.report.map_nodes += 1;
        for (index, pointer) in pointers {
            let first = PageNo(identity.first_page.0 + ((index as u32) << shift_of(identity.height)));
            if identity.height > 0 {
                let below = NodeIdentity { height: identity.height - 1, first_page: first, ..identity };
                self.node(pointer.location, below)?;
                continue;
            }
            self.reach(pointer.location.slot);
            if self.read(pointer.location, Some(first))? {
                self.report.pages += 1;
                (self.on_page)(first, &self.page);
            }
        }
        Ok(())
    }

    /// Reads a slot into `self.page`; false if it is damaged or cannot be read, which is then in the report.
    fn read(&mut self, location: Location, page: Option<PageNo>) -> Result<bool, FileError> {
        match self.reader.read_slot_blocking(location, page, &mut self.page) {
            Ok(()) => Ok(true),
            Err(FileError::Corrupt(corrupt)) => {
                self.push(corrupt);
                Ok(false)
            }
            // The rest of the file may be read all the same.
            Err(FileError::IoAt { file, offset, error, .. }) => {
                self.push(Corrupt { page, ..unreadable_slot(&file, offset, &error) });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn reach(&mut self, slot: SlotNo) {
        if !self.reached.insert(slot.0) {
            self.defect(offset_of(slot), "slot used twice", 2, 1);
        }
        let done = self.report.map_nodes + self.report.pages;
        (self.on_progress)(done, self.report.slots_used.max(done));
    }

    fn compare_free_set(&mut self) {
        let leaked: Vec<u32> = self.stored.iter().filter(|slot| !self.reached.contains(*slot)).collect();
        for slot in leaked {
            let inside = slot < self.superblock.slot_count;
            let what = if inside {
                "slot leaked: used in the free set, unreachable"
            } else {
                "free set beyond the file"
            };
            self.defect(offset_of(SlotNo(slot)), what, 1, 0);
        }
        let unprotected: Vec<u32> = self.reached.iter().filter(|slot| !self.stored.contains(*slot)).collect();
        for slot in unprotected {
            self.defect(offset_of(SlotNo(slot)), "slot in use is in the free set", 0, 1);
        }
    }

    fn defect(&mut self, offset: u64, what: &'static str, found: u64, expected: u64) {
        self.push(Corrupt::at(&self.reader.path, offset, what, found, expected));
    }

    fn push(&mut self, corrupt: Corrupt) {
        self.report.defect_count += 1;
        if self.report.defects.len() < DEFECTS_LISTED_MAX {
            self.report.defects.push(corrupt);
        }
    }
}
