//! Applying changes in key order: neighbours in the order are mostly neighbours in a leaf, so the way down is taken once
//! a leaf instead of once a key.

use base::PageNo;
use base::limits::INLINE_VALUE_LEN_MAX;
use storage::{PageFault, ReadPages, WritePages};

use crate::edit::{NodeMut, Payload};
use crate::insert::{self, Put, fits, insert_at, put, replace_at};
use crate::node::Node;
use crate::path::{self, Path};
use crate::remove::remove;
use crate::value::Value;
use crate::{TreeRoot, split, value_ahead};

/// What has been done of the changes given to [`apply_sorted`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    /// Changes, from the first on.
    pub changes: usize,
    /// Keys that were not there.
    pub inserted: u64,
    /// Keys that were there and are no more.
    pub removed: u64,
}

/// Gives each key its value, or removes it where there is none. Goes on from `applied`, which it brings forward: after
/// `Err` call it again with the same changes once the page is in memory.
///
/// Panics as [`put`] does, and if the keys do not ascend.
pub fn apply_sorted<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    changes: &[(&[u8], Option<&[u8]>)],
    applied: &mut Applied,
) -> Result<(), PageFault> {
    let mut leaf = LeafHeld::default();
    while let Some((key, value)) = changes.get(applied.changes) {
        let before = applied.changes.checked_sub(1).map(|i| changes[i].0);
        assert!(before.is_none_or(|before| before < *key), "keys ascend");
        match value {
            None => {
                leaf.let_go();
                applied.removed += u64::from(remove(pages, *root, key)?);
            }
            Some(value) => {
                let put = leaf.put(pages, root, key, value)?;
                applied.inserted += u64::from(put == Put::Inserted);
            }
        }
        applied.changes += 1;
    }
    Ok(())
}

/// The leaf that the last of some keys went to that are put in their order.
#[derive(Default)]
pub struct LeafHeld {
    path: Option<Path>,
    /// The first key that belongs to a later leaf, if `is_bounded`.
    bound: Vec<u8>,
    is_bounded: bool,
}

impl LeafHeld {
    /// Forgets the leaf. To be called before a key is removed, which may merge it with another one, and before anybody else changes the tree.
    pub fn let_go(&mut self) {
        self.path = None;
    }

    /// As [`put`], of a key behind those that were put before. `Err` changed nothing: call it again once the page is in memory.
    ///
    /// Panics as [`put`] does.
    #[inline]
    pub fn put<P: WritePages>(
        &mut self,
        pages: &mut P,
        root: &mut TreeRoot,
        key: &[u8],
        value: &[u8],
    ) -> Result<Put, PageFault> {
        let Some(tree) = root.0 else { return put(pages, root, key, value) };
        if !self.holds(key) {
            self.find(pages, tree, key)?;
        }
        self.put_here(pages, tree, key, value)
    }

    /// Whether `key`, which is not below the one that the leaf was found for, belongs to the leaf.
    #[inline]
    fn holds(&self, key: &[u8]) -> bool {
        self.path.is_some() && (!self.is_bounded || key < &self.bound[..])
    }

    fn find<P: ReadPages>(&mut self, pages: &P, tree: PageNo, key: &[u8]) -> Result<(), PageFault> {
        self.path = None;
        let (path, _) = path::descend(pages, tree, |node| node.child_index(key))?;
        self.is_bounded = false;
        for step in path.steps.iter().rev() {
            let node = Node(pages.page(step.no)?);
            if step.child < node.count() {
                node.key_into(step.child, &mut self.bound);
                self.is_bounded = true;
                break;
            }
        }
        self.path = Some(path);
        Ok(())
    }

    #[inline]
    fn put_here<P: WritePages>(
        &mut self,
        pages: &mut P,
        tree: PageNo,
        key: &[u8],
        value: &[u8],
    ) -> Result<Put, PageFault> {
        insert::check_lens(key, value);
        let path = self.path.as_ref().expect("found before");
        let page = pages.page_mut(path.leaf)?;
        let payload = Payload { aux: value.len() as u32, stored: value };
        let is_inline = value.len() <= INLINE_VALUE_LEN_MAX;
        match Node(page).search(key) {
            Err(slot) if is_inline && fits(Node(page), key, value.len()) => {
                let mut leaf = NodeMut(page);
                let prefix_len = leaf.as_node().prefix_len();
                leaf.insert(slot, &key[prefix_len..], payload);
                leaf.note_insert(slot);
                split::tighten_if_due(page);
                Ok(Put::Inserted)
            }
            Err(slot) => {
                let path = path.clone();
                self.let_go();
                insert_at(pages, tree, path, slot, key, value).map(|()| Put::Inserted)
            }
            Ok(slot)
                if is_inline
                    && matches!(value_ahead(Node(page), slot), Value::Inline(_))
                    && NodeMut(page).overwrite_if_not_longer(slot, payload) =>
            {
                Ok(Put::Replaced)
            }
            Ok(slot) => {
                let path = path.clone();
                self.let_go();
                replace_at(pages, tree, path, slot, key, value).map(|()| Put::Replaced)
            }
        }
    }
}
