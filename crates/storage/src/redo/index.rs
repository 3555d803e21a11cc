//! Where each commit of each tenant is in the logs of earlier starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{CommitNo, TenantId};
use env::File;
use rustc_hash::FxHashMap;

use super::error::RedoError;
use super::format::SegmentId;
use super::records::TenantRecords;

/// A group that the scan found whole.
pub(super) struct GroupPlace {
    /// Index into the scan's files.
    pub(super) file: u32,
    pub(super) len: u32,
    pub(super) offset: u64,
    pub(super) id: SegmentId,
}

/// Bytes within a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) group: u32,
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Where the bytes of a commit are.
pub(super) enum Location {
    Whole(Extent),
    /// In parts, in order; the last extent is the commit record itself, for reports.
    Parts(Box<[Extent]>, Extent),
    /// Parts of it are in segments that were freed, so a root covers it; the extent is the commit record.
    PartsFreed(Extent),
}

impl Location {
    fn record(&self) -> Extent {
        match self {
            Location::Whole(extent) | Location::Parts(_, extent) | Location::PartsFreed(extent) => *extent,
        }
    }
}

/// A segment that was read.
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) len: u64,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) files: Vec<FoundFile>,
    pub(super) groups: Vec<GroupPlace>,
    pub(super) tenants: FxHashMap<TenantId, BTreeMap<CommitNo, Location>>,
}

impl Found {
    pub(super) fn place(&self, extent: Extent) -> (PathBuf, u64) {
        let group = &self.groups[extent.group as usize];
        (self.files[group.file as usize].path.clone(), group.offset + u64::from(extent.at))
    }
}

/// What the logs of earlier starts hold, by tenant. Keeps places, not bytes: records are read when asked for. Cheap to
/// clone. A tenant's records stay readable until they are released in the [`super::LogDir`].
#[derive(Clone)]
pub struct RedoIndex(pub(super) Arc<Found>);

impl RedoIndex {
    /// Every tenant with a record, and its newest commit in the logs.
    pub fn tenants(&self) -> impl Iterator<Item = (TenantId, CommitNo)> + '_ {
        self.0.tenants.iter().filter_map(|(tenant, commits)| Some((*tenant, *commits.last_key_value()?.0)))
    }

    /// The newest commit of `tenant` in the logs.
    pub fn last_commit(&self, tenant: TenantId) -> Option<CommitNo> {
        Some(*self.0.tenants.get(&tenant)?.last_key_value()?.0)
    }

    /// The commits of `tenant` that follow `after`, in order, for replay on a root that covers `after`. A missing one
    /// is [`RedoError::Gap`], at once.
    pub fn records_after(&self, tenant: TenantId, after: CommitNo) -> Result<TenantRecords, RedoError> {
        let mut expected = after.next();
        if let Some(commits) = self.0.tenants.get(&tenant) {
            for (commit, location) in commits.range(expected..) {
                if *commit != expected || matches!(location, Location::PartsFreed(_)) {
                    let (file, offset) = self.0.place(location.record());
                    return Err(RedoError::Gap { tenant, missing: expected, next: *commit, file, offset });
                }
                expected = expected.next();
            }
        }
        Ok(TenantRecords::new(self.clone(), tenant, after.next()))
    }
}
