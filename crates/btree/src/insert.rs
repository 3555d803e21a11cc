//! Inserting and replacing entries.

use base::PageNo;
use base::limits::{INLINE_VALUE_LEN_MAX, KEY_LEN_MAX, ROW_LEN_MAX};
use storage::{PageFault, WritePages};

use crate::edit::{Frame, NodeMut, Payload};
use crate::node::{CHAIN_BIT, Node, SLOT_LEN, rest_of, starts_with};
use crate::overflow;
use crate::path::{self, Path};
use crate::split;
use crate::value::Value;
use crate::{TreeRoot, value_ahead};

/// What a [`put`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The key was not there.
    Inserted,
    /// The key had another value, which is gone.
    Replaced,
}

/// Gives `key` the value `value`, whether it had one or not. A value as long as the old one is overwritten where it
/// is. `Err` changed nothing.
///
/// Panics if the key is longer than [`KEY_LEN_MAX`] or the value longer than [`ROW_LEN_MAX`].
#[inline]
pub fn put<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    key: &[u8],
    value: &[u8],
) -> Result<Put, PageFault> {
    let Some(tree) = root_for_insert(pages, root, key, value) else { return Ok(Put::Inserted) };
    let (path, leaf) = path::descend(pages, tree, |node| node.child_index(key))?;
    match leaf.search(key) {
        Err(slot) => insert_at(pages, tree, path, slot, key, value).map(|()| Put::Inserted),
        Ok(slot) => {
            // Written to one after the other, its lines would come so, too.
            value_ahead(leaf, slot);
            replace_at(pages, tree, path, slot, key, value).map(|()| Put::Replaced)
        }
    }
}

/// Inserts `key` with `value` unless the key is there; says whether it did. `Err` changed nothing.
///
/// Panics as [`put`] does.
#[inline]
pub fn insert_new<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    key: &[u8],
    value: &[u8],
) -> Result<bool, PageFault> {
    let Some(tree) = root_for_insert(pages, root, key, value) else { return Ok(true) };
    let (path, leaf) = path::descend(pages, tree, |node| node.child_index(key))?;
    match leaf.search(key) {
        Ok(_) => Ok(false),
        Err(slot) => insert_at(pages, tree, path, slot, key, value).map(|()| true),
    }
}

#[inline]
pub(crate) fn check_lens(key: &[u8], value: &[u8]) {
    assert!(key.len() <= KEY_LEN_MAX, "key of {} bytes", key.len());
    assert!(value.len() as u64 <= ROW_LEN_MAX.0, "value of {} bytes", value.len());
}

/// The tree's root page; or makes the tree with this one entry and says `None`.
fn root_for_insert<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    key: &[u8],
    value: &[u8],
) -> Option<PageNo> {
    check_lens(key, value);
    if root.0.is_some() {
        return root.0;
    }
    let tree = pages.allocate(None);
    with_payload(pages, tree, tree, value, |pages, payload| {
        let mut node = NodeMut(pages.page_mut(tree).expect("a new page is in memory"));
        node.init(Frame { level: 0, tree, leftmost: PageNo(0) }, &[]);
        node.insert(0, key, payload);
    });
    root.0 = Some(tree);
    None
}

/// Calls `then` with what a leaf keeps of `value`; a long value is written to its chain first.
fn with_payload<P: WritePages, R>(
    pages: &mut P,
    tree: PageNo,
    leaf: PageNo,
    value: &[u8],
    then: impl FnOnce(&mut P, Payload<'_>) -> R,
) -> R {
    if value.len() <= INLINE_VALUE_LEN_MAX {
        return then(pages, Payload { aux: value.len() as u32, stored: value });
    }
    let descriptor = overflow::write(pages, tree, leaf, value).descriptor();
    then(pages, Payload { aux: descriptor.len() as u32 | CHAIN_BIT, stored: &descriptor })
}

/// Bytes a leaf keeps of a value of `len`.
#[inline]
fn stored_len(len: usize) -> usize {
    if len <= INLINE_VALUE_LEN_MAX { len } else { crate::value::DESCRIPTOR_LEN }
}

/// Whether an entry fits the gap of a node as it is.
#[inline]
pub(crate) fn fits(node: Node<'_>, key: &[u8], stored_len: usize) -> bool {
    let prefix = node.prefix();
    starts_with(key, prefix) && SLOT_LEN + rest_of(&key[prefix.len()..]).len() + stored_len <= node.gap()
}

pub(crate) fn insert_at<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    path: Path,
    slot: usize,
    key: &[u8],
    value: &[u8],
) -> Result<(), PageFault> {
    let page = pages.page_mut(path.leaf)?;
    if value.len() <= INLINE_VALUE_LEN_MAX && fits(Node(page), key, value.len()) {
        let mut leaf = NodeMut(page);
        let prefix_len = leaf.as_node().prefix_len();
        leaf.insert(slot, &key[prefix_len..], Payload { aux: value.len() as u32, stored: value });
        leaf.note_insert(slot);
        split::tighten_if_due(page);
        return Ok(());
    }
    path.own(pages)?;
    with_payload(pages, tree, path.leaf, value, |pages, payload| {
        split::insert(pages, tree, path, slot, key, payload)
    });
    Ok(())
}

pub(crate) fn replace_at<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    path: Path,
    slot: usize,
    key: &[u8],
    value: &[u8],
) -> Result<(), PageFault> {
    let old = Node(pages.page(path.leaf)?).value(slot);
    let old_stored = stored_len(old.len());
    let old_chain = match old {
        Value::Inline(_) => Vec::new(),
        Value::Chain(chain) => overflow::pages_of(pages, chain)?,
    };
    let leaf = pages.page_mut(path.leaf)?;
    if value.len() <= INLINE_VALUE_LEN_MAX && value.len() <= old_stored {
        let kept =
            NodeMut(leaf).overwrite_if_not_longer(slot, Payload { aux: value.len() as u32, stored: value });
        assert!(kept, "a value that is not longer has room where the old one was");
    } else {
        path.own(pages)?;
        with_payload(pages, tree, path.leaf, value, |pages, payload| {
            let mut leaf = NodeMut(pages.page_mut(path.leaf).expect("owned above"));
            if !leaf.overwrite_if_not_longer(slot, payload) {
                leaf.remove(slot);
                split::insert(pages, tree, path, slot, key, payload);
            }
        });
    }
    for no in old_chain {
        pages.release(no);
    }
    Ok(())
}
