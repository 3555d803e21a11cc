//! What a batch of records says, in the order in which it is applied. Needs the records alone, no pages.

use std::ops::Range;

use base::{CommitNo, TenantId, TreeId};
use rustc_hash::FxHashMap;
use storage::redo::RecordBatch;
use storage::yield_now;

use super::CHANGES_A_TURN;
use crate::catalog::Malformed;
use crate::redo_record::{ChangeAt, Item, RecordReader};
use crate::tenant::OpenError;
use crate::trees::CATALOG_TREE;
use crate::txn::Build;

/// What is to be done next.
pub(super) enum Step {
    /// A record of the catalog changes.
    Record(ChangeAt),
    /// The last change of each key of a tree, in key order: these of [`Sorted::changes`]; and how many the records had.
    Changes(TreeId, Range<usize>, u64),
    Build(Build),
    DropTree(TreeId),
}

/// What a batch says. Its memory serves for the next one.
#[derive(Default)]
pub(crate) struct Sorted {
    /// Each with the commit that says so.
    pub(super) steps: Vec<(CommitNo, Step)>,
    pub(super) changes: Vec<ChangeAt>,
    pub(super) commits: u64,
    /// The newest commit that ends in it, or ended before.
    pub(super) last: CommitNo,
    /// No record goes on in the next batch.
    pub(super) is_whole: bool,
}

impl Sorted {
    /// Whether more may be changed by it, or by what follows, than memory has room for before the pages are those of one commit again.
    pub(super) fn is_open_ended(&self) -> bool {
        !self.is_whole || self.steps.iter().any(|(_, step)| matches!(step, Step::Build(_)))
    }

    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.changes.clear();
        self.commits = 0;
    }
}

/// Reads batches of records that follow each other.
#[derive(Default)]
pub(crate) struct Sorter {
    reader: RecordReader,
    /// Changes that are not settled yet, by tree. Trees keep their room for the next batch.
    changes: FxHashMap<TreeId, Vec<ChangeAt>>,
}

impl Sorter {
    /// Sorts what is in the batch, but for the beginning of a change that goes on in the next one: the caller takes that over. `after` is the last
    /// commit before it. Lets others run after each tree with many changes.
    ///
    /// # Errors
    /// A record that cannot be read, or of another commit than the next.
    pub(super) async fn sort(
        &mut self,
        tenant: TenantId,
        after: CommitNo,
        batch: &RecordBatch,
        into: &mut Sorted,
    ) -> Result<(), OpenError> {
        into.clear();
        let mut last = after;
        let failed = |last: CommitNo, Malformed(what): Malformed| OpenError::Redo {
            tenant,
            commit: last.next(),
            what,
        };
        loop {
            let item = self.reader.next(batch).map_err(|malformed| failed(last, malformed))?;
            let Some(item) = item else { break };
            match item {
                Item::Change(CATALOG_TREE, change) => into.steps.push((last.next(), Step::Record(change))),
                Item::Change(tree, change) => self.changes.entry(tree).or_default().push(change),
                Item::Build(build) => {
                    self.settle(last, batch, into).await;
                    into.steps.push((last.next(), Step::Build(build)));
                }
                Item::DropTree(tree) => {
                    self.settle(last, batch, into).await;
                    into.steps.push((last.next(), Step::DropTree(tree)));
                }
                Item::End(commit) => {
                    if commit != last.next() {
                        return Err(failed(last, Malformed("it is not the next one")));
                    }
                    last = commit;
                    into.commits += 1;
                }
            }
        }
        self.settle(last, batch, into).await;
        into.last = last;
        into.is_whole = self.reader.is_between_records();
        Ok(())
    }

    /// Sorts the changes so far, as steps that come before all others.
    async fn settle(&mut self, last: CommitNo, batch: &RecordBatch, into: &mut Sorted) {
        let batch = batch.bytes();
        let mut trees: Vec<TreeId> =
            self.changes.iter().filter(|(_, changes)| !changes.is_empty()).map(|(tree, _)| *tree).collect();
        trees.sort_unstable();
        for tree in trees {
            let of_tree = self.changes.get_mut(&tree).expect("found above");
            of_tree.sort_unstable_by(|a, b| a.order(b, batch));
            let from = into.changes.len();
            for (i, change) in of_tree.iter().enumerate() {
                if !of_tree.get(i + 1).is_some_and(|next| next.is_of_key(change, batch)) {
                    into.changes.push(*change);
                }
            }
            let logged = of_tree.len();
            into.steps.push((last.next(), Step::Changes(tree, from..into.changes.len(), logged as u64)));
            of_tree.clear();
            if logged >= CHANGES_A_TURN {
                yield_now().await;
            }
        }
    }

    /// Takes what was read out of the batch; how many bytes.
    pub(super) fn consume(&mut self, batch: &mut RecordBatch) -> usize {
        self.reader.consume(batch)
    }

    /// Moves what was not read into `next`, an empty batch; how many bytes were.
    pub(super) fn pass_on(&mut self, batch: &mut RecordBatch, next: &mut RecordBatch) -> usize {
        self.reader.pass_on(batch, next)
    }
}
