//! Applying redo records to the pages of a root, for recovery.
//!
//! Values are absolute, so of all changes of a key in a batch of commits only the last one counts, and the order among keys is
//! free: a batch is sorted by tree and key, and each leaf is found once for all that goes to it. Nobody may read the tenant
//! meanwhile: only between batches are its pages those of one commit. What stands for a whole tree (a build, a drop) ends the
//! sorting: all before it is applied before it.

use std::sync::Arc;

use base::{CommitNo, TreeId};
use btree::{Applied, apply_sorted};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::redo::{RecordBatch, RedoIndex};
use storage::yield_now;

use crate::catalog::{Malformed, RecordKey, RecordKind, decode_record};
use crate::ddl::BuildFailed;
use crate::memory::WriterWait;
use crate::redo_record::{ChangeAt, Item, RecordReader};
use crate::sequence::SequenceState;
use crate::tenant::{OpenError, Tenant};
use crate::trees::{CATALOG_TREE, TreeState};

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
    reader: RecordReader,
    /// Changes to be applied, by tree. Trees keep their room for the next batch.
    changes: FxHashMap<TreeId, Vec<ChangeAt>>,
    done: Replayed,
}

impl Tenant {
    /// Applies all records of `redo` that follow its root. For recovery: the tenant is owned across waits, and lets others run in between. Reading the
    /// log blocks. Where the memory budget asks for it, what was replayed so far is written as a root: the records must be durable.
    ///
    /// # Errors
    /// A missing commit, at once; a log or page that cannot be read; a record that does not follow. The tenant is of no use then.
    pub async fn replay(&mut self, redo: &RedoIndex) -> Result<Replayed, OpenError> {
        let mut replay = Replay::default();
        let mut records = redo.records_after(self.id, self.committed)?;
        while records.read_into(&mut replay.batch, self.batch_len(BATCH_LEN_MAX))? {
            self.replay_batch(&mut replay).await?;
            if replay.reader.is_between_records() && self.memory_wait() == Some(WriterWait::Checkpoint) {
                let mut checkpoint = self.begin_checkpoint()?;
                let outcome = checkpoint.run().await;
                self.finish_checkpoint(checkpoint);
                outcome?;
            }
            self.shed();
            yield_now().await;
        }
        if !replay.reader.is_between_records() {
            let (tenant, commit) = (self.id, self.committed.next());
            return Err(OpenError::Redo { tenant, commit, what: "redo record ends early" });
        }
        Ok(replay.done)
    }

    /// As [`Tenant::replay`] while the logs are still being read, for a thread of its own: applies commits as they are found, until
    /// there are no more, memory is short, or `goes_on` says no. [`Tenant::replay`] applies the rest. Writes nothing.
    ///
    /// # Errors
    /// As [`Tenant::replay`], but a missing commit is none.
    pub async fn replay_so_far(
        &mut self,
        redo: &RedoIndex,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Replayed, OpenError> {
        let mut replay = Replay::default();
        let mut records = redo.records_so_far(self.id, self.committed);
        loop {
            if !records.read_into(&mut replay.batch, self.batch_len(BATCH_LEN_ALONE))? {
                if goes_on() && records.wait_for_more().await {
                    continue;
                }
                break;
            }
            self.replay_batch(&mut replay).await?;
            let stops = self.memory_wait().is_some() || !goes_on();
            if stops && replay.reader.is_between_records() {
                break;
            }
            self.shed();
        }
        assert!(replay.reader.is_between_records(), "records come whole");
        Ok(replay.done)
    }

    /// Bytes of records that the memory left for pages allows to replay at once.
    fn batch_len(&self, max: usize) -> usize {
        let Some(budget) = self.pages.budget() else { return max };
        let room = budget.limit().0.saturating_sub(budget.resident().0) / DIRTIED_BY_A_BYTE;
        room.clamp(BATCH_LEN_MIN as u64, max as u64) as usize
    }

    /// Applies what is in the batch, but for the beginning of a change that goes on in the next one.
    pub(crate) async fn replay_batch(&mut self, replay: &mut Replay) -> Result<(), OpenError> {
        let Replay { batch, reader, changes, done } = replay;
        let (id, mut last) = (self.id, self.committed);
        let failed = |last: CommitNo, Malformed(what): Malformed| OpenError::Redo {
            tenant: id,
            commit: last.next(),
            what,
        };
        loop {
            let item = reader.next(batch).map_err(|malformed| failed(last, malformed))?;
            match item {
                None => break,
                Some(Item::Change(tree, _)) if self.given_up.contains(&tree) => {}
                Some(Item::Change(CATALOG_TREE, change)) => {
                    let (key, value) = change.of(batch.bytes());
                    self.replay_record(key, value).map_err(|malformed| failed(last, malformed))?;
                    self.replay_changes(CATALOG_TREE, &[(key, value)]).await?;
                    done.changes += 1;
                }
                Some(Item::Change(tree, change)) => changes.entry(tree).or_default().push(change),
                Some(Item::Build(build)) => {
                    done.changes += self.replay_sorted(batch.bytes(), changes).await?;
                    match self.build(&build).await {
                        Ok(()) => drop(self.given_up.remove(&build.tree())),
                        Err(BuildFailed::Open(error)) => return Err(error),
                        Err(BuildFailed::Rows) => {
                            return Err(failed(last, Malformed("a tree cannot be built again")));
                        }
                    }
                }
                Some(Item::DropTree(tree)) => {
                    done.changes += self.replay_sorted(batch.bytes(), changes).await?;
                    self.drop_tree(tree);
                }
                Some(Item::End(commit)) => {
                    if commit != last.next() {
                        return Err(failed(last, Malformed("it is not the next one")));
                    }
                    last = commit;
                    done.commits += 1;
                }
            }
        }
        done.changes += self.replay_sorted(batch.bytes(), changes).await?;
        self.committed = last;
        self.space.note_logged(reader.consume(batch));
        Ok(())
    }

    /// Applies the last change of each key, in key order, and forgets them; how many they were.
    async fn replay_sorted(
        &mut self,
        batch: &[u8],
        changes: &mut FxHashMap<TreeId, Vec<ChangeAt>>,
    ) -> Result<u64, OpenError> {
        let mut trees: Vec<TreeId> =
            changes.iter().filter(|(_, changes)| !changes.is_empty()).map(|(tree, _)| *tree).collect();
        trees.sort_unstable();
        let mut count = 0;
        for tree in trees {
            let of_tree = changes.get_mut(&tree).expect("found above");
            count += of_tree.len() as u64;
            of_tree.sort_unstable_by(|a, b| a.order(b, batch));
            let mut together = SmallVec::<[_; CHANGES_A_TURN]>::new();
            for (i, change) in of_tree.iter().enumerate() {
                if of_tree.get(i + 1).is_some_and(|next| next.is_of_key(change, batch)) {
                    continue;
                }
                together.push(change.of(batch));
                if together.len() == CHANGES_A_TURN {
                    self.replay_changes(tree, &together).await?;
                    together.clear();
                    yield_now().await;
                }
            }
            self.replay_changes(tree, &together).await?;
            of_tree.clear();
        }
        Ok(count)
    }

    async fn replay_changes(
        &mut self,
        tree: TreeId,
        changes: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), OpenError> {
        let (before, mut applied) = (self.trees.get(tree), Applied::default());
        let mut root = before.root;
        while let Err(fault) = apply_sorted(&mut self.pages, &mut root, changes, &mut applied) {
            self.load_fault(fault).await?;
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
