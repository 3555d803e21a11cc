//! Ordered key-value trees over pages: B+-trees with truncated prefixes and key heads, and their cursors.
//!
//! Level 3. A tree is a [`TreeRoot`] and the pages it reaches; keys order as bytes. Nothing here holds state or waits:
//! every operation works on pages given to it, live ones or a snapshot's. An operation that needs a page which is not
//! in memory returns [`PageFault::Miss`] and has then changed nothing; the caller has the page read and tries again.
//! A page that is not the node it should be is `PageFault::Corrupt`, never a panic; a node that contradicts itself
//! under a right checksum is our own defect and panics.
//!
//! Nodes have no links to their neighbours, so that a change touches only the path to it: copying a leaf for a
//! snapshot never drags its neighbours along. The page of a tree's root never changes once the tree has one, so what
//! refers to a tree need not follow its growth. A node's layout is at the head of `node.rs`.

mod apply_sorted;
mod check;
mod clear;
mod cursor;
mod edit;
mod estimate;
mod get_many;
mod get_near;
mod insert;
mod leaf_run;
mod node;
mod overflow;
mod path;
mod place;
mod reach;
mod remove;
mod split;
mod value;

use base::{PageNo, prefetch};
use storage::{PageFault, ReadPages};

use node::Node;

pub use apply_sorted::{Applied, LeafHeld, apply_sorted};
pub use check::{TreeReport, check, check_each};
pub use clear::{Cleared, clear};
pub use cursor::{Cursor, Entry, Seek};
pub use estimate::estimate;
pub use get_many::get_many;
pub use get_near::{Found, get_near};
pub use insert::{Put, insert_new, put};
pub use leaf_run::LeafRun;
pub use reach::{Reach, reach};
pub use remove::remove;
pub use value::{Chain, ReadSoFar, Value};

/// Where a tree begins. The empty tree of `TreeRoot::default()` owns no page; its first [`put`] gives it one, which
/// stays its root until [`clear`] takes the last page away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeRoot(pub Option<PageNo>);

/// Bytes of a value asked for ahead of its reader.
const VALUE_PREFETCH_MAX: usize = 512;

/// The value of `key`, or `None`. A long value is only named: [`Value::read`] gets its bytes.
///
/// Panics if the key is longer than [`base::limits::KEY_LEN_MAX`].
#[inline]
pub fn get<'p, P: ReadPages>(
    pages: &'p P,
    root: TreeRoot,
    key: &[u8],
) -> Result<Option<Value<'p>>, PageFault> {
    let Some(root) = root.0 else { return Ok(None) };
    let (_, leaf) = path::find_leaf(pages, root, key)?;
    let Ok(slot) = leaf.search(key) else { return Ok(None) };
    Ok(Some(value_ahead(leaf, slot)))
}

/// The value of a leaf's slot, asked for from memory: the caller is about to decode it, or to write over it, line after line.
#[inline]
fn value_ahead(leaf: Node<'_>, slot: usize) -> Value<'_> {
    let value = leaf.value(slot);
    if let Value::Inline(bytes) = value {
        prefetch(&bytes[..bytes.len().min(VALUE_PREFETCH_MAX)]);
    }
    value
}

/// Whether the tree has an entry for `key`.
#[inline]
pub fn contains<P: ReadPages>(pages: &P, root: TreeRoot, key: &[u8]) -> Result<bool, PageFault> {
    get(pages, root, key).map(|found| found.is_some())
}

#[cfg(test)]
mod model_tests;
