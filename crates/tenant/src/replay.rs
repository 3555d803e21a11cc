//! Applying redo records to the pages of a root, for recovery.
//!
//! Values are absolute, so of all changes of a key in a batch of commits only the last one counts, and the order among keys is
//! free: a batch is sorted by tree and key, and each leaf is found once for all that goes to it. Nobody may read the tenant
//! meanwhile: only between batches are its pages those of one commit. A record longer than a batch, and one that builds a tree, may change more than
//! memory has room for: it is replayed in a branch, beside pages that stay those of the commit before, so that checkpoints can be of these. What stands for a whole tree (a build, a drop) ends the
//! sorting: all before it is applied before it. Reading and sorting ([`sorting`]) need no pages, so that a thread of its own can do both [`ahead`] of who applies.

mod ahead;
mod sorting;

use std::sync::Arc;

use base::{ByteCount, TreeId};
use btree::{Applied, apply_sorted};
use smallvec::SmallVec;
use storage::redo::{RecordBatch, RedoIndex};
use storage::{MemoryBudget, yield_now};

use crate::catalog::{Malformed, RecordKey, RecordKind, decode_record};
use crate::ddl::BuildFailed;
use crate::memory::{RepeatedReads, WriterWait};
use crate::redo_record::ChangeAt;
use crate::sequence::SequenceState;
use crate::tenant::{OpenError, Tenant};
use crate::trees::{CATALOG_TREE, TreeState};

pub use ahead::{RecordSorter, SortedBatch};
use sorting::{Sorted, Sorter, Step};

/// Changes after which others run: some 100 us.
const CHANGES_A_TURN: usize = 256;

/// Bytes of records sorted at a time: more means more changes a leaf, and longer turns for sorting them.
const BATCH_LEN_MAX: usize = 4 << 20;
/// The same for a thread on which nobody waits for a turn.
const BATCH_LEN_ALONE: usize = 16 << 20;
/// The same where memory is short: a batch is applied before a checkpoint can make its pages evictable.
const BATCH_LEN_MIN: usize = 16 << 10;
/// Memory that a byte of redo may make dirty: a change of 100 bytes a page of 8 KiB.
const DIRTIED_BY_A_BYTE: u64 = 80;

/// The part of a tenant's own limit that a batch may make dirty: with what it has to be written at it is less than the limit.
const OWN_PART: u64 = 4;

/// Bytes of changed pages that a tenant which is replayed keeps at most where memory has no room, and at least before it is written: there may be hundreds of
/// such tenants, and a limit of its own that is less would have a root written after each batch.
const UNWRITTEN_MAX: u64 = 4 << 20;
/// The same as a part of all memory for pages.
const UNWRITTEN_PART: u64 = 256;

/// Bytes of records that the memory left for pages allows to replay at once.
fn batch_len(budget: Option<&MemoryBudget>, max: usize) -> usize {
    let Some(budget) = budget else { return max };
    let room = budget.limit().0.saturating_sub(budget.resident().0) / DIRTIED_BY_A_BYTE;
    room.clamp(BATCH_LEN_MIN as u64, max as u64) as usize
}

/// The same of the tenant's own limit, whatever it has in memory: of one that has more than that there never is any room.
fn batch_len_max(own_limit: Option<ByteCount>) -> usize {
    let Some(own_limit) = own_limit else { return BATCH_LEN_MAX };
    let part = own_limit.0 / OWN_PART / DIRTIED_BY_A_BYTE;
    part.clamp(BATCH_LEN_MIN as u64, BATCH_LEN_MAX as u64) as usize
}

/// What was replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    pub commits: u64,
    pub changes: u64,
}

/// A batch being replayed.
#[derive(Default)]
pub(crate) struct Replay {
    pub(crate) batch: RecordBatch,
    sorter: Sorter,
    sorted: Sorted,
    done: Replayed,
}

impl Tenant {
    /// Applies all records of `redo` that follow its root. For recovery: the tenant is owned across waits, and lets others run in between. Reading the
    /// log blocks. Where the memory budget or the tenant's own limit asks for it, what was replayed so far is written as a root: the records must be durable.
    ///
    /// # Errors
    /// A missing commit, at once; a log or page that cannot be read; a record that does not follow. The tenant is of no use then.
    pub async fn replay(&mut self, redo: &RedoIndex) -> Result<Replayed, OpenError> {
        let mut replay = Replay::default();
        let mut records = redo.records_after(self.id, self.committed)?;
        let budget = self.pages.budget().cloned();
        let len_max = batch_len_max(self.pages.own_limit());
        let mut is_whole = true;
        while records.read_into(&mut replay.batch, batch_len(budget.as_deref(), len_max))? {
            self.replay_batch(&mut replay).await?;
            is_whole = replay.sorted.is_whole;
            if !is_whole || self.keeps_replay_branch() {
                self.relieve().await?;
            } else if self.has_to_write() {
                self.write_root().await?;
            }
            self.shed();
            yield_now().await;
        }
        if !is_whole {
            let (tenant, commit) = (self.id, self.committed.next());
            return Err(OpenError::Redo { tenant, commit, what: "redo record ends early" });
        }
        Ok(replay.done)
    }

    /// As [`Tenant::replay`] while the logs are still being read, for a thread of its own: applies what `next` gives, the batches of a
    /// [`RecordSorter`], until there are no more, memory is short, or `goes_on` says no. [`Tenant::replay`] applies the rest. Writes nothing.
    ///
    /// # Errors
    /// As [`Tenant::replay`], but a missing commit is none. Memory is short in the midst of a record: only what is written would make room.
    pub async fn replay_so_far(
        &mut self,
        mut next: impl AsyncFnMut() -> Result<Option<SortedBatch>, OpenError>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Replayed, OpenError> {
        let mut done = Replayed::default();
        let mut is_whole = true;
        while let Some(batch) = next().await? {
            self.apply(batch.records.bytes(), &batch.sorted, &mut done).await?;
            self.space.note_logged(batch.len);
            is_whole = batch.sorted.is_whole;
            if !is_whole {
                self.relieve().await?;
            } else if self.excess().0 > 0 || !goes_on() {
                // Nobody evicts what it has before its home takes it over, and the rest of the start has pages to read.
                break;
            }
            self.shed();
        }
        assert!(is_whole, "records come whole");
        Ok(done)
    }

    /// Applies what is in the batch, but for the beginning of a change that goes on in the next one.
    pub(crate) async fn replay_batch(&mut self, replay: &mut Replay) -> Result<(), OpenError> {
        let Replay { batch, sorter, sorted, done } = replay;
        sorter.sort(self.id, self.committed, batch, sorted).await?;
        let has_bound = self.file.is_some() && self.pages.budget().is_some();
        if has_bound && sorted.is_open_ended() && self.replayed_from().is_none() {
            self.begin_replay_branch();
        }
        self.apply(batch.bytes(), sorted, done).await?;
        self.space.note_logged(sorter.consume(batch));
        if sorted.is_whole && self.replayed_from().is_some() && !self.keeps_replay_branch() {
            self.leave_replay_branch().await;
        }
        Ok(())
    }

    /// Puts what was replayed in a branch in the place of the live pages, and lets go of these.
    pub(crate) async fn leave_replay_branch(&mut self) {
        self.end_replay_branch();
        // Until then each page is copied before it is changed.
        if let Some(mut settling) = self.begin_settling() {
            settling.run().await;
            self.finish_settling(settling);
        }
        // Else what the next records replace would stay, since it keeps what was written to the branch and to no root.
        while self.pages.reclaim_discarded() {
            yield_now().await;
        }
    }

    /// In the midst of a commit, where memory asks for a checkpoint: makes one of the commit before, which the live pages are still of. It writes what the
    /// branch has too, which then can leave memory.
    ///
    /// # Errors
    /// Those of a checkpoint; that there is no branch.
    pub(crate) async fn relieve(&mut self) -> Result<(), OpenError> {
        if !self.has_to_write() {
            return Ok(());
        }
        let Some(live) = self.replayed_from() else {
            let (tenant, commit) = (self.id, self.committed.next());
            return Err(OpenError::Redo { tenant, commit, what: "it changes more than memory has room for" });
        };
        let newest = std::mem::replace(&mut self.committed, live);
        // Else the root would have those of later commits.
        let sequences = self.keeps_replay_branch().then(|| std::mem::take(&mut self.sequences));
        self.turn(false);
        let written = self.write_root().await;
        self.turn(true);
        self.committed = newest;
        if let Some(sequences) = sequences {
            self.sequences = sequences;
        }
        written
    }

    /// Whether what was replayed has to be written, so that it can leave memory. Nobody evicts pages of a tenant that is not open yet, or counts its changed ones: so of several that are
    /// replayed side by side each writes its own where all together leave no room.
    fn has_to_write(&mut self) -> bool {
        if self.memory_wait() == Some(WriterWait::Room) {
            // What the file has goes first.
            self.shed();
        }
        if self.memory_wait().is_none() || self.file.is_none() {
            return false;
        }
        let dirty = self.pages.dirty_bytes().0;
        let max = |limit: u64| (limit / UNWRITTEN_PART).min(UNWRITTEN_MAX);
        self.pages.budget().is_some_and(|budget| dirty >= max(budget.limit().0))
    }

    async fn write_root(&mut self) -> Result<(), OpenError> {
        let mut checkpoint = self.begin_checkpoint()?;
        let outcome = checkpoint.run().await;
        self.finish_checkpoint(checkpoint);
        outcome?;
        Ok(())
    }

    /// Does what a batch says: `records` are its bytes.
    async fn apply(&mut self, records: &[u8], sorted: &Sorted, done: &mut Replayed) -> Result<(), OpenError> {
        assert_eq!(self.committed.0 + sorted.commits, sorted.last.0, "batches follow each other");
        let tenant = self.id;
        for (commit, step) in &sorted.steps {
            let failed = |Malformed(what)| OpenError::Redo { tenant, commit: *commit, what };
            match step {
                Step::Record(change) => {
                    let (key, value) = change.of(records);
                    self.replay_record(key, value).map_err(failed)?;
                    self.replay_changes(CATALOG_TREE, &[(key, value)]).await?;
                    done.changes += 1;
                }
                Step::Changes(tree, _, _) if self.given_up.contains(tree) => {}
                Step::Changes(tree, changes, logged) => {
                    self.replay_tree(*tree, &sorted.changes[changes.clone()], records).await?;
                    done.changes += logged;
                }
                Step::Build(build) => match self.build(build).await {
                    Ok(()) => drop(self.given_up.remove(&build.tree())),
                    Err(BuildFailed::Open(error)) => return Err(error),
                    Err(BuildFailed::Rows) => return Err(failed(Malformed("a tree cannot be built again"))),
                },
                Step::DropTree(tree) => self.drop_tree(*tree),
            }
        }
        self.committed = sorted.last;
        done.commits += sorted.commits;
        Ok(())
    }

    /// Applies changes of a tree, in key order.
    async fn replay_tree(
        &mut self,
        tree: TreeId,
        changes: &[ChangeAt],
        records: &[u8],
    ) -> Result<(), OpenError> {
        for some in changes.chunks(CHANGES_A_TURN) {
            let together: SmallVec<[_; CHANGES_A_TURN]> =
                some.iter().map(|change| change.of(records)).collect();
            self.replay_changes(tree, &together).await?;
            if together.len() == CHANGES_A_TURN {
                yield_now().await;
            }
        }
        Ok(())
    }

    async fn replay_changes(
        &mut self,
        tree: TreeId,
        changes: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), OpenError> {
        let (before, mut applied) = (self.trees.get(tree), Applied::default());
        let mut root = before.root;
        let (mut reads, mut ended) = (RepeatedReads::default(), 0);
        while let Err(fault) = apply_sorted(&mut self.pages, &mut root, changes, &mut applied) {
            if std::mem::replace(&mut ended, applied.changes) < applied.changes {
                reads = RepeatedReads::default();
            }
            self.load_fault(fault, &mut reads).await?;
        }
        let entries = before.entries + applied.inserted - applied.removed;
        self.trees.set(tree, TreeState { root, entries, dirty: true });
        Ok(())
    }

    fn replay_record(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Malformed> {
        let key = RecordKey::from_bytes(key)?;
        match (key.kind, value) {
            (RecordKind::Counters, Some(value)) => self.counters = decode_record(value)?,
            (RecordKind::SequenceState, Some(value)) => {
                self.sequences.insert(base::Oid(key.id), SequenceState::of_record(value)?);
            }
            (RecordKind::SequenceState, None) => {
                self.sequences.remove(&base::Oid(key.id));
            }
            (_, value) => Arc::make_mut(&mut self.catalog).apply_record(key, value)?,
        }
        Ok(())
    }
}
