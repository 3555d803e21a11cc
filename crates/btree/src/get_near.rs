//! Finding an entry again, or the one behind it, without going down the tree.

use base::PageNo;
use storage::{PageFault, ReadPages};

use crate::node::Node;
use crate::value::Value;
use crate::{TreeRoot, path, value_ahead};

/// Where an entry was found. Only a speed-up: whatever became of the tree, it is the key there that tells whether the entry is the wanted one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    leaf: PageNo,
    slot: usize,
}

impl Found {
    /// The wanted entry if it is there, or the next one behind.
    #[inline]
    fn entry<'p, P: ReadPages>(self, pages: &'p P, root: PageNo, key: &[u8]) -> Option<(Node<'p>, usize)> {
        let node = Node::open(pages.page(self.leaf).ok()?, self.leaf, root).ok()?;
        let leaf = Some(node).filter(|node| node.is_leaf())?;
        let is_it = |slot: &usize| *slot < leaf.count() && leaf.key_is(*slot, key);
        let slot = [self.slot, self.slot + 1].into_iter().find(is_it)?;
        Some((leaf, slot))
    }
}

/// As [`crate::get`]. Looks first where the entry `near` was found, and notes there where this one is.
///
/// Panics if the key is longer than [`base::limits::KEY_LEN_MAX`].
#[inline]
pub fn get_near<'p, P: ReadPages>(
    pages: &'p P,
    root: TreeRoot,
    key: &[u8],
    near: &mut Option<Found>,
) -> Result<Option<Value<'p>>, PageFault> {
    let Some(root) = root.0 else { return Ok(None) };
    if let Some(found) = near
        && let Some((leaf, slot)) = found.entry(pages, root, key)
    {
        found.slot = slot;
        return Ok(Some(leaf.value(slot)));
    }
    let (no, leaf) = path::find_leaf(pages, root, key)?;
    let Ok(slot) = leaf.search(key) else { return Ok(None) };
    *near = Some(Found { leaf: no, slot });
    Ok(Some(value_ahead(leaf, slot)))
}
