//! Applying redo records to the pages of a root, for recovery.

use std::sync::Arc;

use base::{CommitNo, TreeId};
use btree::Put;
use smallvec::SmallVec;
use storage::yield_now;

use crate::catalog::{Malformed, RecordKey, RecordKind, decode_record};
use crate::ddl::BuildFailed;
use crate::redo_record::{Part, parts};
use crate::sequence::SequenceState;
use crate::tenant::{OpenError, Tenant};
use crate::trees::{CATALOG_TREE, TreeState};

/// Replayed changes after which whoever replays lets others run: some 200 us.
pub const REPLAYED_A_TURN: usize = 256;

/// Replayed changes whose places are looked for side by side.
const CHANGES_TOGETHER: usize = 16;

impl Tenant {
    /// Applies the record of commit `commit`, which must be the next one. For recovery: the tenant is owned across waits.
    /// Returns how many changes it had; a long record lets others run every [`REPLAYED_A_TURN`] of them.
    pub async fn replay(&mut self, commit: CommitNo, record: &[u8]) -> Result<usize, OpenError> {
        let id = self.id;
        let failed = move |what| OpenError::Redo { tenant: id, commit, what };
        if commit != self.committed.next() {
            return Err(failed("it is not the next one"));
        }
        let (mut count, mut since_yield) = (0, 0);
        for part in parts(record).map_err(|Malformed(what)| failed(what))? {
            match part {
                Part::Changes { tree, .. } if self.given_up.contains(&tree) => {}
                Part::Changes { tree, changes } => {
                    for group in changes.chunks(CHANGES_TOGETHER) {
                        self.bring_near(tree, group);
                        for (key, value) in group {
                            if tree == CATALOG_TREE {
                                self.replay_record(key, *value).map_err(|Malformed(what)| failed(what))?;
                            }
                            self.replay_change(tree, key, *value).await?;
                        }
                        count += group.len();
                        since_yield += group.len();
                        if since_yield >= REPLAYED_A_TURN {
                            since_yield = 0;
                            yield_now().await;
                        }
                    }
                }
                Part::Build(build) => match self.build(&build).await {
                    Ok(()) => drop(self.given_up.remove(&build.tree())),
                    Err(BuildFailed::Open(error)) => return Err(error),
                    Err(BuildFailed::Rows) => return Err(failed("a tree cannot be built again")),
                },
                Part::DropTree(tree) => self.drop_tree(tree),
            }
        }
        self.committed = commit;
        self.space.note_logged(record.len());
        Ok(count)
    }

    /// Has the processor fetch the ways to where these changes go, all at once: replayed changes are as good as random, and
    /// one after the other each would wait for memory several times.
    fn bring_near(&self, tree: TreeId, changes: &[(&[u8], Option<&[u8]>)]) {
        if changes.len() > 1 {
            let keys: SmallVec<[&[u8]; CHANGES_TOGETHER]> = changes.iter().map(|(key, _)| *key).collect();
            // A missing or damaged page is met again by the change itself.
            let _ = btree::get_many(&self.pages, self.trees.get(tree).root, &keys, &mut Vec::new());
        }
    }

    async fn replay_change(
        &mut self,
        tree: TreeId,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), OpenError> {
        let mut state = self.trees.get(tree);
        loop {
            let result = match value {
                Some(value) => {
                    btree::put(&mut self.pages, &mut state.root, key, value).map(|put| match put {
                        Put::Inserted => state.entries += 1,
                        Put::Replaced => {}
                    })
                }
                None => btree::remove(&mut self.pages, state.root, key)
                    .map(|removed| state.entries -= u64::from(removed)),
            };
            match result {
                Ok(()) => break,
                Err(fault) => self.load_fault(fault).await?,
            }
        }
        self.trees.set(tree, TreeState { dirty: true, ..state });
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
