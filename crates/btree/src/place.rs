//! Where the numbers of a tree's new pages are to lie.

use base::PageNo;
use storage::{Beside, WritePages};

use crate::node::Node;
use crate::overflow::PAYLOAD_LEN;

/// Children of a root from which on a tree is large, and pages of a value: 256 KiB, beside which a leaf of the map is small.
const LARGE: usize = 16;

/// For a leaf split off from `page`, or a value that is kept there. The tree's root is in memory.
fn beside<P: WritePages>(
    pages: &P,
    tree: PageNo,
    page: PageNo,
    is_large: impl FnOnce(Node<'_>) -> bool,
) -> Option<Beside> {
    let root = Node(pages.page(tree).expect("the way to the page is owned"));
    is_large(root).then_some(Beside { tree, page })
}

/// For a leaf that is split off from leaf `page`.
pub(crate) fn of_leaf<P: WritePages>(pages: &P, tree: PageNo, page: PageNo) -> Option<Beside> {
    beside(pages, tree, page, |root| root.level() > 1 || root.level() == 1 && root.count() >= LARGE - 1)
}

/// For the pages of a value of `len` bytes, which leaf `page` names. A tree of several leaves that has such values has many pages.
pub(crate) fn of_value<P: WritePages>(pages: &P, tree: PageNo, page: PageNo, len: usize) -> Option<Beside> {
    beside(pages, tree, page, |root| root.level() > 0 || len > LARGE * PAYLOAD_LEN)
}
