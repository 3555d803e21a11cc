//! The way from a tree's root to a leaf.

use base::{PageNo, prefetch};
use smallvec::SmallVec;
use storage::{PageBytes, PageFault, ReadPages, WritePages};

use crate::node::{HEADER_LEN, Node, PREFETCHED_SLOTS, SLOT_LEN};

/// Bytes that hold the header, a short prefix and the first slots. Asked for all at once, instead of one line after the other as a
/// binary search would come by them.
const PREFETCH_LEN: usize = HEADER_LEN + 8 + PREFETCHED_SLOTS * SLOT_LEN;

/// One inner node passed on the way down, and which of its children was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) no: PageNo,
    pub(crate) child: usize,
}

/// The inner nodes from the root down to a leaf's parent, and the leaf.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) steps: SmallVec<[Step; 6]>,
    pub(crate) leaf: PageNo,
}

#[inline]
fn open<P: ReadPages>(
    pages: &P,
    no: PageNo,
    root: PageNo,
    parent_level: Option<u8>,
) -> Result<Node<'_>, PageFault> {
    // A search of an inner node seldom ends among its first slots, and asks for those that it comes down to.
    let is_inner = parent_level.is_some_and(|parent| parent > 1);
    let page = if is_inner { pages.page(no)? } else { ask(pages, no)? };
    open_page(page, no, root, parent_level)
}

/// The bytes of page `no`, those that a search begins with asked for from memory and none of them read.
#[inline]
pub(crate) fn ask<P: ReadPages>(pages: &P, no: PageNo) -> Result<&PageBytes, PageFault> {
    let page = pages.page(no)?;
    prefetch(&page[..PREFETCH_LEN]);
    Ok(page)
}

/// The node in `page`, which is page `no` and was found from a node of `parent_level`.
#[inline]
pub(crate) fn open_page(
    page: &PageBytes,
    no: PageNo,
    root: PageNo,
    parent_level: Option<u8>,
) -> Result<Node<'_>, PageFault> {
    let node = Node::open(page, no, root)?;
    // Levels fall by one at each step, so that even a damaged tree has no endless path.
    match parent_level {
        Some(parent) if node.level() + 1 != parent => Err(PageFault::corrupt(
            no,
            "level of a tree node",
            u64::from(node.level()),
            u64::from(parent) - 1,
        )),
        _ => Ok(node),
    }
}

/// The leaf that holds `key` if the tree does, and its page.
#[inline]
pub(crate) fn find_leaf<'p, P: ReadPages>(
    pages: &'p P,
    root: PageNo,
    key: &[u8],
) -> Result<(PageNo, Node<'p>), PageFault> {
    let (mut no, mut node) = (root, open(pages, root, root, None)?);
    while !node.is_leaf() {
        no = node.child(node.child_index(key));
        node = open(pages, no, root, Some(node.level()))?;
    }
    Ok((no, node))
}

/// The child at `index` of `parent`, for a scan that goes on with the children beside it in `direction`.
#[inline]
fn open_scanned<'p, P: ReadPages>(
    pages: &'p P,
    parent: Node<'p>,
    index: usize,
    root: PageNo,
    direction: Direction,
) -> Result<Node<'p>, PageFault> {
    let no = parent.child(index);
    let ahead = |i: usize| match direction {
        Direction::Forward => (index + i < parent.count()).then(|| parent.child(index + i + 1)),
        Direction::Backward => (i < index).then(|| parent.child(index - i - 1)),
    };
    let page = if parent.level() == 1 { pages.page_of_scan(no, &ahead)? } else { pages.page(no)? };
    prefetch(&page[..PREFETCH_LEN]);
    open_page(page, no, root, Some(parent.level()))
}

/// As [`descend`] for a scan in `direction`.
#[inline]
pub(crate) fn descend_scan<'p, P: ReadPages>(
    pages: &'p P,
    root: PageNo,
    direction: Direction,
    choose: impl Fn(Node<'p>) -> usize,
) -> Result<(Path, Node<'p>), PageFault> {
    descend_by(pages, root, choose, |node, child| open_scanned(pages, node, child, root, direction))
}

/// As [`find_leaf`], with the way there; `choose` says which child to take.
#[inline]
pub(crate) fn descend<'p, P: ReadPages>(
    pages: &'p P,
    root: PageNo,
    choose: impl Fn(Node<'p>) -> usize,
) -> Result<(Path, Node<'p>), PageFault> {
    descend_by(pages, root, choose, |node, child| open(pages, node.child(child), root, Some(node.level())))
}

#[inline]
fn descend_by<'p, P: ReadPages>(
    pages: &'p P,
    root: PageNo,
    choose: impl Fn(Node<'p>) -> usize,
    open_child: impl Fn(Node<'p>, usize) -> Result<Node<'p>, PageFault>,
) -> Result<(Path, Node<'p>), PageFault> {
    let mut path = Path { steps: SmallVec::new(), leaf: root };
    let mut node = open(pages, root, root, None)?;
    while !node.is_leaf() {
        let child = choose(node);
        path.steps.push(Step { no: path.leaf, child });
        path.leaf = node.child(child);
        node = open_child(node, child)?;
    }
    Ok((path, node))
}

/// Which way along the keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// Moves `path` to the next leaf in `direction`; `None` if it was the last one. On `Err` the path is of no use.
#[inline]
pub(crate) fn step<'p, P: ReadPages>(
    pages: &'p P,
    root: PageNo,
    path: &mut Path,
    direction: Direction,
) -> Result<Option<Node<'p>>, PageFault> {
    while let Some(mut step) = path.steps.pop() {
        let node = Node::open(pages.page(step.no)?, step.no, root)?;
        let sibling = match direction {
            Direction::Forward if step.child < node.count() => step.child + 1,
            Direction::Backward if step.child > 0 => step.child - 1,
            _ => continue,
        };
        step.child = sibling;
        path.steps.push(step);
        path.leaf = node.child(sibling);
        let mut node = open_scanned(pages, node, sibling, root, direction)?;
        while !node.is_leaf() {
            let child = if direction == Direction::Forward { 0 } else { node.count() };
            path.steps.push(Step { no: path.leaf, child });
            path.leaf = node.child(child);
            node = open_scanned(pages, node, child, root, direction)?;
        }
        return Ok(Some(node));
    }
    Ok(None)
}

impl Path {
    /// Makes every page of the path changeable, so that nothing can fail once the first of them is changed.
    #[inline]
    pub(crate) fn own<P: WritePages>(&self, pages: &mut P) -> Result<(), PageFault> {
        for step in &self.steps {
            pages.page_mut(step.no)?;
        }
        pages.page_mut(self.leaf).map(drop)
    }

    /// Whether no child to the right of any taken one exists.
    #[inline]
    pub(crate) fn is_rightmost<P: ReadPages>(&self, pages: &P) -> Result<bool, PageFault> {
        for step in &self.steps {
            if step.child < Node(pages.page(step.no)?).count() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
