//! Giving up a whole tree, a bounded number of pages at a time.

use base::PageNo;
use storage::{PageFault, WritePages};

use crate::TreeRoot;
use crate::overflow;
use crate::path;
use crate::remove::drop_last_node;
use crate::value::Value;

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
/// tree is whole without it, and the call can be repeated.
pub fn clear<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    pages_max: usize,
) -> Result<Cleared, PageFault> {
    let Some(tree) = root.0 else { return Ok(Cleared::All) };
    let mut released = 0;
    while released < pages_max.max(1) {
        let (mut path, leaf) = path::descend(pages, tree, |node| node.count())?;
        let mut chains: Vec<PageNo> = Vec::new();
        for slot in 0..leaf.count() {
            if let Value::Chain(chain) = leaf.value(slot) {
                chains.append(&mut overflow::pages_of(pages, chain)?);
            }
        }
        path.own(pages)?;
        released += chains.len() + 1;
        for no in chains {
            pages.release(no);
        }
        if path.steps.is_empty() {
            pages.release(tree);
            root.0 = None;
            return Ok(Cleared::All);
        }
        drop_last_node(pages, tree, &mut path);
    }
    Ok(Cleared::Part)
}
