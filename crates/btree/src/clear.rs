//! Giving up a whole tree, a bounded number of pages at a time.

use storage::{PageFault, WritePages};

use crate::TreeRoot;

/// How far a [`clear`] got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleared {
    /// The tree owns no page any more; its root is `TreeRoot(None)`.
    All,
    /// There is more to release: the tree is whole without its last entries, call again.
    Part,
}

pub fn clear<P: WritePages>(
    pages: &mut P,
    root: &mut TreeRoot,
    pages_max: usize,
) -> Result<Cleared, PageFault> {
    let _ = (pages, root, pages_max);
    unimplemented!()
}
