//! What a transaction that reads a snapshot has poured into its branch, as it reads it.
//!
//! The branch has these changes among all that others have committed since the snapshot. So for each tree that such a transaction pours into, the branch has
//! another one, of the keys that it changed and nothing else. A key that is there is read from the branch, where the transaction's locks keep others from it;
//! any other key is read from the snapshot. Those trees are in no record of the log: they go with the branch, or once it has the live pages' place.

use std::borrow::Cow;
use std::sync::Arc;

use base::{SqlResult, TreeId};
use btree::{Cursor, Seek, TreeRoot};
use rustc_hash::FxHashMap;
use storage::{PageFault, ReadPages};

use crate::commit::Steps;
use crate::cursor::Direction;
use crate::interrupt::error_of_fault;
use crate::overlay::{Change, TreeChanges};
use crate::row::keys::{Key, KeyRange};
use crate::snapshot_view::Frozen;
use crate::tenant::Tenant;
use crate::trees::{Pages, TreeState, Trees};
use crate::txn::Txn;
use crate::view::View;

/// Keys that a query on another thread takes together, and bytes of their values from which it takes no more.
const KEYS_TOGETHER: usize = 256;
const BYTES_TOGETHER: usize = 1 << 20;

/// What was poured into one tree, in some state of the branch.
#[derive(Clone, Copy)]
pub(crate) struct Poured<'v> {
    pages: Pages<'v>,
    /// The tree of the keys.
    keys: TreeRoot,
    /// The tree that they are of.
    tree: TreeRoot,
}

impl<'v> Poured<'v> {
    fn of(pages: Pages<'v>, trees: &Trees, keys: TreeId, tree: TreeId) -> Option<Poured<'v>> {
        let (keys, tree) = (trees.root(keys), trees.root(tree));
        keys.0.is_some().then_some(Poured { pages, keys, tree })
    }

    pub(crate) fn has(&self, key: &[u8]) -> Result<bool, PageFault> {
        btree::contains(&self.pages, self.keys, key)
    }

    /// The value under a key that it has; `None` if that was deleted.
    pub(crate) fn value(&self, key: &[u8]) -> Result<Option<Cow<'v, [u8]>>, PageFault> {
        // Each arm reads its own pages, so that values are borrowed from them.
        match self.pages {
            Pages::Live(pages) => value_in(pages, self.tree, key),
            Pages::Frozen(pages) => value_in(pages, self.tree, key),
        }
    }

    /// A cursor over its keys.
    pub(crate) fn cursor(&self, at: Seek<'_>) -> Cursor {
        Cursor::new(self.keys, at)
    }

    /// The next key of such a cursor.
    pub(crate) fn step(&self, cursor: &mut Cursor, direction: Direction) -> Result<Option<Key>, PageFault> {
        let entry = match direction {
            Direction::Forward => cursor.next(&self.pages)?,
            Direction::Backward => cursor.prev(&self.pages)?,
        };
        Ok(entry.map(|entry| Key::from_slice(entry.key)))
    }
}

fn value_in<'p, P: ReadPages>(
    pages: &'p P,
    root: TreeRoot,
    key: &[u8],
) -> Result<Option<Cow<'p, [u8]>>, PageFault> {
    btree::get(pages, root, key)?.map(|value| value.read(pages)).transpose()
}

impl Tenant {
    /// What `txn` has poured into a tree, as the statement under way reads it; `None` where it reads no snapshot.
    #[inline]
    pub(crate) fn poured_of(&self, txn: &Txn, tree: TreeId) -> Option<Poured<'_>> {
        if txn.branched && txn.frozen.is_some() {
            self.find_poured(self.statement_of_branch(), tree)
        } else {
            None
        }
    }

    /// As [`Tenant::poured_of`], with what the statement under way has poured itself.
    pub(crate) fn poured_by_now(&self, txn: &Txn, tree: TreeId) -> Option<Poured<'_>> {
        if txn.branched && txn.frozen.is_some() { self.find_poured(None, tree) } else { None }
    }

    fn find_poured<'v>(&'v self, state: Option<&'v Arc<Frozen>>, tree: TreeId) -> Option<Poured<'v>> {
        let keys = *self.branch.as_ref()?.poured.get(&tree)?;
        match state {
            Some(frozen) => {
                Poured::of(Pages::Frozen(self.pages.frozen(&frozen.pages)), &frozen.trees, keys, tree)
            }
            None => Poured::of(Pages::Live(&self.pages), &self.trees, keys, tree),
        }
    }

    /// Notes that a transaction which reads a snapshot pours these changes of a tree. The branch is current.
    ///
    /// Errors: as [`Tenant::pour`].
    pub(crate) fn note_poured(
        &mut self,
        tree: TreeId,
        changes: &TreeChanges,
        steps: &mut Steps<'_>,
    ) -> SqlResult<()> {
        let keys = self.tree_of_poured(tree);
        self.note_keys(keys, changes.keys(), steps)
    }

    /// Puts keys into a tree that has nothing else. The branch is current.
    ///
    /// Errors: as [`Tenant::pour`].
    pub(crate) fn note_keys<'k>(
        &mut self,
        tree: TreeId,
        keys: impl Iterator<Item = &'k Key>,
        steps: &mut Steps<'_>,
    ) -> SqlResult<()> {
        let mut state = self.trees.get(tree);
        let nothing = Change::Put(Box::default());
        for key in keys {
            self.apply_or_fail(&mut state, key, &nothing)?;
            steps.take();
        }
        self.trees.set(tree, TreeState { dirty: true, ..state });
        Ok(())
    }

    fn tree_of_poured(&mut self, tree: TreeId) -> TreeId {
        let branch = self.branch.as_ref().expect("the transaction has a branch");
        if let Some(keys) = branch.poured.get(&tree) {
            return *keys;
        }
        let keys = self.next_tree();
        self.branch.as_mut().expect("as above").poured.insert(tree, keys);
        keys
    }

    /// The trees in which a pour of the transaction that has the branch notes keys of this one ([`Tenant::note_poured`], [`Tenant::note_put`]).
    pub(crate) fn trees_of_notes(&self, tree: TreeId) -> impl Iterator<Item = TreeId> + use<> {
        let branch = self.branch.as_ref();
        let poured = branch.and_then(|branch| branch.poured.get(&tree).copied());
        let put = branch.and_then(|branch| branch.put).filter(|(of, _)| *of == tree);
        poured.into_iter().chain(put.map(|(_, keys)| keys))
    }

    /// What `txn` has poured, for a query on another thread; `None` where it reads no snapshot, or has poured nothing.
    pub(crate) fn poured_view(&mut self, txn: &Txn) -> Option<Arc<PouredView>> {
        if !txn.branched || txn.frozen.is_none() {
            return None;
        }
        let keys =
            self.branch.as_ref().map(|branch| branch.poured.clone()).filter(|keys| !keys.is_empty())?;
        let of_statement = self.statement_of_branch().cloned();
        let frozen = of_statement.unwrap_or_else(|| self.at_side(true, Tenant::freeze));
        self.lend(&frozen);
        Some(Arc::new(PouredView { frozen, keys }))
    }
}

impl View<'_> {
    /// Brings in the pages in which a pour notes that a key was changed, so that it finds them there.
    #[inline]
    pub(crate) fn touch_notes(&self, tree: TreeId, key: &[u8]) -> Result<(), PageFault> {
        if !self.txn.branched {
            return Ok(());
        }
        let (pages, trees) = (&self.tenant.pages, &self.tenant.trees);
        let mut notes = self.tenant.trees_of_notes(tree);
        notes.try_for_each(|keys| btree::contains(pages, trees.root(keys), key).map(drop))
    }
}

/// What a transaction has poured, as of a moment.
#[derive(Debug)]
pub(crate) struct PouredView {
    frozen: Arc<Frozen>,
    /// By tree, the one of the keys.
    keys: FxHashMap<TreeId, TreeId>,
}

impl PouredView {
    /// Errors: 72000 if its pages are wanted back.
    pub(crate) fn require_kept(&self) -> SqlResult<()> {
        self.frozen.require_kept()
    }

    /// What became of a key; `None` if that was not poured.
    pub(crate) fn get(&self, tree: TreeId, key: &[u8]) -> SqlResult<Option<Change>> {
        let Some(keys) = self.keys_of(tree) else { return Ok(None) };
        let pages = self.frozen.pages.pinned();
        match btree::contains(&pages, keys, key).map_err(|fault| error_of_fault(&fault))? {
            true => self.change_of(tree, key).map(Some),
            false => Ok(None),
        }
    }

    /// The first changes within `range`, and the key of the next one if there are more.
    pub(crate) fn first_within(
        &self,
        tree: TreeId,
        range: &KeyRange,
    ) -> SqlResult<(TreeChanges, Option<Key>)> {
        let (mut changes, mut bytes) = (TreeChanges::new(), 0);
        let Some(keys) = self.keys_of(tree) else { return Ok((changes, None)) };
        let pages = self.frozen.pages.pinned();
        let mut cursor = Cursor::new(keys, Seek::Before(&range.from));
        while let Some(entry) = cursor.next(&pages).map_err(|fault| error_of_fault(&fault))? {
            let key = Key::from_slice(entry.key);
            if range.to.as_ref().is_some_and(|to| key >= *to) {
                break;
            }
            if changes.len() == KEYS_TOGETHER || bytes >= BYTES_TOGETHER {
                return Ok((changes, Some(key)));
            }
            let change = self.change_of(tree, &key)?;
            bytes += change.len();
            changes.insert(key, change);
        }
        Ok((changes, None))
    }

    fn keys_of(&self, tree: TreeId) -> Option<TreeRoot> {
        let root = self.frozen.trees.root(*self.keys.get(&tree)?);
        root.0.is_some().then_some(root)
    }

    fn change_of(&self, tree: TreeId, key: &[u8]) -> SqlResult<Change> {
        let pages = self.frozen.pages.pinned();
        let value = value_in(&pages, self.frozen.trees.root(tree), key);
        let value = value.map_err(|fault| error_of_fault(&fault))?;
        Ok(value.map_or(Change::Delete, |value| Change::Put(value.into_owned().into_boxed_slice())))
    }
}
