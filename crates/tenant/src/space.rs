//! What a tenant's data take on disk, how much they may, and which snapshots pay when they may not take more.
//!
//! Counted are the pages of its trees, the versions of pages that only snapshots or a branch need, and the redo records that no
//! root covers yet. A transaction that could add to them is refused at its commit with 53100 when they are over the limit;
//! one that only deletes, drops or truncates is not, so that a tenant can make room for itself. Before a writer is refused, the
//! oldest snapshots are revoked: whoever reads one fails with 72000. Queries on other threads let go of theirs at their next leaf, and until then the
//! tenant may take a little more ([`grace`]); where they do not, all others are revoked, and then writers refused. All of it concerns this tenant alone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use base::limits::PAGE_SIZE;
use base::{ByteCount, SqlError, SqlState};

use crate::overlay::Change;
use crate::snapshot_view::Frozen;
use crate::tenant::{Tenant, owned_trees};
use crate::txn::Txn;

/// What a transaction does to the space its tenant needs, once it is committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// It may need more.
    Grows,
    /// It deletes, drops or truncates, and nothing else: refused only when nothing can be written at all.
    Shrinks,
}

/// Where a tenant's space goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpaceUsed {
    /// Pages of its trees, in the file or not yet.
    pub data: ByteCount,
    /// Versions of pages that only snapshots or a branch need.
    pub retained: ByteCount,
    /// Redo records since the last checkpoint, and the parts of an open transaction's.
    pub log: ByteCount,
}

impl SpaceUsed {
    pub fn total(self) -> ByteCount {
        ByteCount(self.data.0 + self.retained.0 + self.log.0)
    }
}

/// What may be taken beyond the limit while snapshots that were revoked are held still: a query whose client does not read holds its one for as long
/// as that lasts.
fn grace(max: ByteCount) -> u64 {
    (max.0 / 16).max(GRACE_MIN.0)
}

/// What others write while a query comes to its next leaf.
const GRACE_MIN: ByteCount = ByteCount::from_mib(8);

/// The limit, and what counts towards it beside pages.
#[derive(Default)]
pub(crate) struct Space {
    pub(crate) max: Option<ByteCount>,
    /// Redo since the last checkpoint began, and before that since the one before: all of it until that is published.
    logged: ByteCount,
    logged_before: ByteCount,
    /// Parts of the records of transactions under way, which no checkpoint makes superfluous.
    open_parts: ByteCount,
    revoked: u64,
}

impl Space {
    pub(crate) fn note_logged(&mut self, len: usize) {
        self.logged += ByteCount(len as u64);
    }

    /// A part of a record that has no end yet.
    pub(crate) fn note_part(&mut self, len: usize) {
        self.open_parts += ByteCount(len as u64);
    }

    /// The record that so many bytes are parts of has its end, or was given up: the next checkpoint makes them superfluous.
    pub(crate) fn end_parts(&mut self, len: u64) {
        self.open_parts = ByteCount(self.open_parts.0 - len);
        self.logged += ByteCount(len);
    }

    pub(crate) fn checkpoint_began(&mut self) {
        self.logged_before += std::mem::take(&mut self.logged);
    }

    pub(crate) fn checkpoint_published(&mut self) {
        self.logged_before = ByteCount(0);
    }
}

/// 72000: the transaction's snapshot was revoked.
#[cold]
pub(crate) fn revoked() -> SqlError {
    SqlError::new(SqlState::SNAPSHOT_TOO_OLD, "snapshot too old")
        .with_detail("The row versions it kept took the tenant over its storage_max, and it was the oldest.")
        .with_hint("Repeat the transaction; keep transactions that read a snapshot short.")
}

impl Tenant {
    /// Sets what its data may take on disk; `None` for no limit. Holds from the next commit on.
    pub fn set_storage_max(&mut self, max: Option<ByteCount>) {
        self.space.max = max;
    }

    /// What its data take now.
    pub fn space_used(&self) -> SpaceUsed {
        let pages = |count: u64| ByteCount(count * PAGE_SIZE as u64);
        // A checkpoint keeps versions too, but for a moment and for nobody.
        let snapshots = !self.snapshots.is_empty()
            || self.pages.has_branch()
            || self.lent.iter().any(|lent| lent.strong_count() > 0);
        let retained = if snapshots { self.pages.retained_pages() } else { 0 };
        SpaceUsed {
            data: pages(self.pages.page_count()),
            retained: pages(retained),
            log: self.space.logged + self.space.logged_before + self.space.open_parts,
        }
    }

    /// Revokes the oldest snapshots while the tenant is over its limit and it helps; true if it is over it still. For
    /// times at which nobody commits.
    pub fn enforce_storage_max(&mut self) -> bool {
        self.make_room(0).is_some()
    }

    /// Snapshots revoked since the tenant was opened.
    pub fn snapshots_revoked(&self) -> u64 {
        self.space.revoked
    }

    /// Refuses a commit whose record has `len` bytes if there is no space for it.
    ///
    /// Errors: 53100.
    pub(crate) fn require_space(&mut self, len: usize, demand: Demand) -> Result<(), SqlError> {
        match self.make_room(len as u64) {
            Some((used, max)) if demand == Demand::Grows => Err(over(used, max)),
            _ => Ok(()),
        }
    }

    /// What is used, of what may be, if there is no room for `len` bytes more.
    fn make_room(&mut self, len: u64) -> Option<(SpaceUsed, ByteCount)> {
        let max = self.space.max?;
        loop {
            let used = self.space_used();
            if used.total().0 + len <= max.0 {
                return None;
            }
            // Snapshots that cost nothing stay, and so does everybody's when the data alone are too much.
            if used.retained == ByteCount(0) || used.data.0 + used.log.0 + len > max.0 {
                return Some((used, max));
            }
            let lent = self.lent.iter().filter_map(Weak::upgrade);
            let all = self.snapshots.values().cloned().chain(lent);
            let (told, kept): (Vec<Arc<Frozen>>, Vec<Arc<Frozen>>) =
                all.partition(|frozen| frozen.revoked.load(Ordering::Relaxed));
            if !told.is_empty() && used.total().0 + len <= max.0 + grace(max) {
                return None;
            }
            // A branch alone keeps them otherwise, or who was told to let go and does not: the writer is the one to fail.
            let Some(oldest) = kept.into_iter().min_by_key(|frozen| frozen.commit) else {
                return Some((used, max));
            };
            self.revoke(&oldest);
        }
    }

    fn revoke(&mut self, snapshot: &Arc<Frozen>) {
        self.space.revoked += 1;
        snapshot.revoked.store(true, Ordering::Relaxed);
        self.snapshots.retain(|_, held| !Arc::ptr_eq(held, snapshot));
        self.forget_frozen();
    }

    /// Whether committing `txn` can only make the tenant smaller.
    pub(crate) fn demand_of(&self, txn: &Txn) -> Demand {
        let changes = txn.overlay.changes();
        let puts = changes.trees().into_iter().any(|(tree, _)| {
            !txn.dropped_trees.contains(&tree)
                && changes
                    .of(tree)
                    .is_some_and(|of| of.values().any(|change| matches!(change, Change::Put(_))))
        });
        let builds = txn.built.iter().any(|build| !txn.dropped_trees.contains(&build.tree()));
        // A tree that the transaction itself made and gave up is nobody's.
        let drops = !txn.dropped_trees.is_empty() && {
            let owned = owned_trees(&self.catalog);
            txn.dropped_trees.iter().any(|tree| owned.contains(tree))
        };
        let defines = txn.wrote_catalog && !drops;
        // Those that TRUNCATE starts anew have their records already.
        let is_new = |sequence| self.catalog.sequence(sequence).is_none();
        let counts = txn.sequences.iter().any(|(sequence, _)| !drops || is_new(*sequence));
        if puts || builds || defines || counts { Demand::Grows } else { Demand::Shrinks }
    }
}

#[cold]
fn over(used: SpaceUsed, max: ByteCount) -> SqlError {
    SqlError::new(SqlState::DISK_FULL, format!("the tenant has reached its storage_max of {max}"))
        .with_detail(format!(
            "Its data take {}, versions kept for snapshots {}, redo not yet checkpointed {}.",
            used.data, used.retained, used.log
        ))
        .with_hint("DELETE, TRUNCATE and DROP go on; so does writing when there is room again.")
}
