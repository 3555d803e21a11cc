//! Where each commit of each tenant is in the logs of earlier starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{CommitNo, TenantId};
use env::File;
use rustc_hash::FxHashMap;

use super::error::RedoError;
use super::format::{SegmentId, read_group};
use crate::Corrupt;

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

#[derive(Default)]
pub(super) struct Found {
    pub(super) files: Vec<(PathBuf, File)>,
    pub(super) groups: Vec<GroupPlace>,
    pub(super) tenants: FxHashMap<TenantId, BTreeMap<CommitNo, Location>>,
}

impl Found {
    pub(super) fn place(&self, extent: Extent) -> (PathBuf, u64) {
        let group = &self.groups[extent.group as usize];
        (self.files[group.file as usize].0.clone(), group.offset + u64::from(extent.at))
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
    /// is [`RedoError::Gap`], at once. Reading blocks.
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
        Ok(TenantRecords { index: self.clone(), tenant, next: after.next(), group: None })
    }
}

/// A tenant's records in commit order.
pub struct TenantRecords {
    index: RedoIndex,
    tenant: TenantId,
    next: CommitNo,
    /// The group read last: neighbours are often in it.
    group: Option<(u32, Vec<u8>)>,
}

impl TenantRecords {
    fn read(&mut self, extent: Extent, out: &mut Vec<u8>) -> Result<(), RedoError> {
        if self.group.as_ref().is_none_or(|(group, _)| *group != extent.group) {
            let place = &self.index.0.groups[extent.group as usize];
            let (path, file) = &self.index.0.files[place.file as usize];
            let mut bytes = vec![0; place.len as usize];
            file.read_at(&mut bytes, place.offset).map_err(RedoError::io(path, "reading a group"))?;
            if read_group(&bytes, place.id).is_none() {
                // It was whole when the directory was opened.
                return Err(
                    Corrupt::at(path, place.offset, "group changed since it was scanned", 0, 1).into()
                );
            }
            self.group = Some((extent.group, bytes));
        }
        let (_, bytes) = self.group.as_ref().expect("read above");
        out.extend_from_slice(&bytes[extent.at as usize..(extent.at + extent.len) as usize]);
        Ok(())
    }

    fn read_commit(&mut self, commit: CommitNo) -> Result<Option<Vec<u8>>, RedoError> {
        let index = self.index.clone();
        let Some(location) = index.0.tenants.get(&self.tenant).and_then(|commits| commits.get(&commit))
        else {
            return Ok(None);
        };
        let mut record = Vec::new();
        match location {
            Location::Whole(extent) => self.read(*extent, &mut record)?,
            Location::Parts(parts, _) => {
                // Hundreds of megabytes, perhaps: growing would touch twice as much fresh memory, and copy all of it.
                record.reserve_exact(parts.iter().map(|part| part.len as usize).sum());
                for part in parts {
                    self.read(*part, &mut record)?;
                }
            }
            Location::PartsFreed(_) => unreachable!("records_after refuses it"),
        }
        Ok(Some(record))
    }
}

impl Iterator for TenantRecords {
    type Item = Result<(CommitNo, Vec<u8>), RedoError>;

    fn next(&mut self) -> Option<Self::Item> {
        let commit = self.next;
        let item = self.read_commit(commit).transpose()?;
        self.next = commit.next();
        Some(item.map(|record| (commit, record)))
    }
}
