//! Giving up a whole tree, a bounded number of pages at a time.

use base::PageNo;
use storage::{PageFault, WritePages};

use crate::TreeRoot;
use crate::edit::{NodeMut, Payload};
use crate::node::{CHAIN_BIT, Node};
use crate::overflow;
use crate::path;
use crate::remove::drop_last_node;
use crate::value::{Chain, Value};

/// How far a [`clear`] got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleared {
    /// The tree owns no page any more; its root is `TreeRoot(None)`.
    All,
    /// There is more to release: the tree is whole without its last entries, call again.
    Part,
}

/// Releases the tree's pages from its right end, about `pages_max` of them: for DROP and TRUNCATE, which put an empty
/// tree in its place first and call this until it says [`Cleared::All`]. `Err` keeps what was released before; the
/// tree is whole without it, and the call can be repeated. Needs the way to the last leaf in memory and one page of a long value.
pub fn clear<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    pages_max: usize,
) -> Result<Cleared, PageFault> {
    let Some(tree) = root.0 else { return Ok(Cleared::All) };
    let (mut released, pages_max) = (0, pages_max.max(1));
    while released < pages_max {
        let (mut path, leaf) = path::descend(pages, tree, |node| node.count())?;
        if let Some((slot, chain)) = last_chain(leaf) {
            released += shorten(pages, path.leaf, slot, chain, pages_max - released)?;
            continue;
        }
        path.own(pages)?;
        released += 1;
        if path.steps.is_empty() {
            pages.release(tree);
            root.0 = None;
            return Ok(Cleared::All);
        }
        drop_last_node(pages, tree, &mut path);
    }
    Ok(Cleared::Part)
}

/// The last value of a leaf that has overflow pages.
fn last_chain(leaf: Node<'_>) -> Option<(usize, Chain)> {
    (0..leaf.count()).rev().find_map(|slot| match leaf.value(slot) {
        Value::Chain(chain) if chain.len > 0 => Some((slot, chain)),
        _ => None,
    })
}

/// Releases up to `pages_max` pages of a value, from its front, and says how many. After each the leaf has what is left, so that a
/// value of any length needs one of its pages at a time.
fn shorten<P: WritePages>(
    pages: &mut P,
    leaf: PageNo,
    slot: usize,
    mut chain: Chain,
    pages_max: usize,
) -> Result<usize, PageFault> {
    let mut released = 0;
    while released < pages_max && chain.len > 0 {
        let behind = overflow::behind_first(pages, chain)?;
        let descriptor = behind.descriptor();
        let payload = match behind.len {
            0 => Payload { aux: 0, stored: &[] },
            _ => Payload { aux: descriptor.len() as u32 | CHAIN_BIT, stored: &descriptor },
        };
        let kept = NodeMut(pages.page_mut(leaf)?).overwrite_if_not_longer(slot, payload);
        assert!(kept, "a descriptor has room where one was");
        pages.release(chain.first);
        (chain, released) = (behind, released + 1);
    }
    Ok(released)
}
