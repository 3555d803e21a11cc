//! Where each commit of each tenant is in the logs of earlier starts.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::task::{Poll, Waker};

use base::{ByteCount, CommitNo, TenantId};
use env::File;
use rustc_hash::FxHashMap;

use super::commits::Commits;
use super::error::RedoError;
use super::format::SegmentId;
use super::records::TenantRecords;
use crate::yield_now::yield_now;

/// A group that the scan found whole.
#[derive(Clone, Copy)]
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
    Parts(Box<Parts>),
    /// Parts of it are in segments that were freed, so a root covers it; the extent is the commit record.
    PartsFreed(Extent),
}
const _: () = assert!(size_of::<Location>() <= 16, "a log has millions of commits");

/// A commit in parts.
pub(super) struct Parts {
    /// In order.
    pub(super) parts: Box<[Extent]>,
    /// The commit record itself, for reports.
    pub(super) record: Extent,
}

impl Location {
    pub(super) fn len(&self) -> u64 {
        match self {
            Location::Whole(extent) => extent.len.into(),
            Location::Parts(of) => of.parts.iter().map(|part| u64::from(part.len)).sum(),
            Location::PartsFreed(_) => 0,
        }
    }

    fn record(&self) -> Extent {
        match self {
            Location::Whole(extent) | Location::PartsFreed(extent) => *extent,
            Location::Parts(of) => of.record,
        }
    }
}

/// A segment that was read.
#[derive(Clone)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// `None` once nobody needs the segment: a file that is open takes its space also when it is removed.
    pub(super) file: Option<File>,
    pub(super) len: u64,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) files: Vec<FoundFile>,
    pub(super) groups: Vec<GroupPlace>,
    pub(super) tenants: FxHashMap<TenantId, TenantFound>,
    /// Of tenants whose roots cover all of theirs, to be freed bit by bit.
    gone: Vec<Commits>,
}

#[derive(Default)]
pub(super) struct TenantFound {
    pub(super) commits: Commits,
    /// Bytes of their records.
    pub(super) len: ByteCount,
}

impl Found {
    pub(super) fn place(&self, extent: Extent) -> (PathBuf, u64) {
        let group = &self.groups[extent.group as usize];
        (self.files[group.file as usize].path.clone(), group.offset + u64::from(extent.at))
    }
}

/// What the logs of earlier starts hold, by tenant. Keeps places, not bytes: records are read when asked for. Cheap to
/// clone. A tenant's records stay readable until they are released in the [`super::LogDir`].
///
/// It grows while [`super::LogDir::open_into`] reads the logs. Until that has ended, damage may yet be found that makes all of
/// it count for nothing.
#[derive(Clone, Default)]
pub struct RedoIndex(Arc<Shared>);

/// Of an index that others keep.
pub(super) struct WeakIndex(Weak<Shared>);

impl WeakIndex {
    pub(super) fn upgrade(&self) -> Option<RedoIndex> {
        self.0.upgrade().map(RedoIndex)
    }
}

#[derive(Default)]
struct Shared {
    found: RwLock<Found>,
    scan: Mutex<Scan>,
}

#[derive(Default)]
struct Scan {
    outcome: Option<ScanOutcome>,
    /// Woken when something was found, and at the end.
    waiters: Vec<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScanOutcome {
    Sound,
    Failed,
}

impl RedoIndex {
    pub(super) fn found(&self) -> RwLockReadGuard<'_, Found> {
        self.0.found.read().expect("no one panics while reading the logs")
    }

    pub(super) fn add(&self) -> RwLockWriteGuard<'_, Found> {
        self.0.found.write().expect("no one panics while reading the logs")
    }

    pub(super) fn downgrade(&self) -> WeakIndex {
        WeakIndex(Arc::downgrade(&self.0))
    }

    fn scan(&self) -> MutexGuard<'_, Scan> {
        self.0.scan.lock().expect("no one panics while waiting for the logs")
    }

    /// Tells those who wait that there is more.
    pub(super) fn note_grown(&self) {
        let waiters = std::mem::take(&mut self.scan().waiters);
        waiters.into_iter().for_each(Waker::wake);
    }

    pub(super) fn end_scan(&self, is_sound: bool) {
        self.scan().outcome = Some(if is_sound { ScanOutcome::Sound } else { ScanOutcome::Failed });
        self.note_grown();
    }

    /// Whether the logs could not be read: what was found counts for nothing.
    pub fn has_failed(&self) -> bool {
        self.scan().outcome == Some(ScanOutcome::Failed)
    }

    /// Ends when `look` finds something, or with `None` when it does not and all logs have been read.
    async fn wait_for<T>(&self, mut look: impl FnMut(&Found) -> Option<T>) -> Option<T> {
        poll_fn(|cx| {
            // The outcome first: what was found before it is there to be looked at.
            let mut scan = self.scan();
            let found = look(&self.found());
            if found.is_some() || scan.outcome.is_some() {
                return Poll::Ready(found);
            }
            scan.waiters.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits for a tenant with `len_min` bytes of records or more that `wanted` takes; `None` when the logs have been read and
    /// there is none.
    pub async fn large_tenant(
        &self,
        len_min: ByteCount,
        mut wanted: impl FnMut(TenantId) -> bool,
    ) -> Option<TenantId> {
        self.wait_for(|found| {
            let large = found.tenants.iter().filter(|(_, of)| of.len >= len_min).map(|(tenant, _)| *tenant);
            large.filter(|tenant| wanted(*tenant)).min()
        })
        .await
    }

    /// Waits for the record of a tenant's commit; false when the logs have been read and it is not there, or when parts of it are not.
    pub(super) async fn wait_for_commit(&self, tenant: TenantId, commit: CommitNo) -> bool {
        let is_whole = |found: &Found| {
            let location = found.tenants.get(&tenant)?.commits.get(commit)?;
            Some(!matches!(location, Location::PartsFreed(_)))
        };
        self.wait_for(is_whole).await.unwrap_or(false)
    }

    /// Forgets the commits of `tenant`, if its root covers all of them; [`RedoIndex::free_forgotten`] frees the memory.
    pub(super) fn release_through(&self, tenant: TenantId, commit: CommitNo) {
        let is_covered = |found: &Found| {
            let last = found.tenants.get(&tenant).and_then(|of| of.commits.last());
            last.is_some_and(|last| last <= commit)
        };
        if !is_covered(&self.found()) {
            return;
        }
        let mut found = self.add();
        let of = found.tenants.remove(&tenant);
        found.gone.extend(of.map(|of| of.commits));
        if found.tenants.is_empty() {
            found.groups = Vec::new();
        }
    }

    /// Frees what was forgotten, some 20 us at a time.
    pub(super) async fn free_forgotten(&self) {
        loop {
            let Some(mut commits) = self.add().gone.pop() else { return };
            while commits.free_some() {
                yield_now().await;
            }
        }
    }

    /// Closes the segments of which `is_needed` says no.
    pub(super) fn close_unless(&self, is_needed: impl Fn(&Path) -> bool) {
        let mut found = self.add();
        let unneeded = found.files.iter_mut().filter(|file| !is_needed(&file.path));
        unneeded.for_each(|file| file.file = None);
    }

    /// Closes the segment at `path`, which nobody needs.
    pub(super) fn close(&self, path: &Path) {
        let is_it = |file: &FoundFile| file.file.is_some() && file.path == path;
        if !self.found().files.iter().any(is_it) {
            return;
        }
        let closed = self.add().files.iter_mut().find(|file| is_it(file)).and_then(|file| file.file.take());
        drop(closed);
    }

    /// Every tenant with a record, and its newest commit in the logs.
    pub fn tenants(&self) -> Vec<(TenantId, CommitNo)> {
        let found = self.found();
        found.tenants.iter().filter_map(|(tenant, of)| Some((*tenant, of.commits.last()?))).collect()
    }

    /// The newest commit of `tenant` in the logs.
    pub fn last_commit(&self, tenant: TenantId) -> Option<CommitNo> {
        self.found().tenants.get(&tenant)?.commits.last()
    }

    /// The commits of `tenant` that follow `after`, in order, for replay on a root that covers `after`. A missing one
    /// is [`RedoError::Gap`], at once. Call it when the logs have been read.
    pub fn records_after(&self, tenant: TenantId, after: CommitNo) -> Result<TenantRecords, RedoError> {
        let mut expected = after.next();
        let found = self.found();
        if let Some(of) = found.tenants.get(&tenant) {
            for (commit, location) in of.commits.since(expected) {
                if commit != expected || matches!(location, Location::PartsFreed(_)) {
                    let (file, offset) = found.place(location.record());
                    return Err(RedoError::Gap { tenant, missing: expected, next: commit, file, offset });
                }
                expected = expected.next();
            }
        }
        Ok(self.records_so_far(tenant, after))
    }

    /// As [`RedoIndex::records_after`] while the logs are being read: as far as one commit follows the other.
    pub fn records_so_far(&self, tenant: TenantId, after: CommitNo) -> TenantRecords {
        TenantRecords::new(self.clone(), tenant, after.next())
    }
}
