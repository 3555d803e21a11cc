//! Removing entries, merging nodes that have become small, and dropping those that have become empty.
//!
//! Merging is a courtesy: it happens when a neighbour under the same parent is in memory and both fill one page
//! loosely, and is left out otherwise. Dropping an empty node needs no neighbour. The root's page stays, an empty
//! leaf at last.

use base::PageNo;
use base::limits::PAGE_SIZE;
use storage::{PageBytes, PageFault, WritePages};

use crate::TreeRoot;
use crate::edit::{Frame, NodeBuilder, NodeMut, Payload};
use crate::node::{CAPACITY, Node, SLOT_LEN, common_len, rest_len};
use crate::overflow;
use crate::path::{self, Path, Step};
use crate::split::payload_of;
use crate::value::Value;

/// A node with fewer bytes in use looks for a neighbour to merge with.
const USED_MIN: usize = PAGE_SIZE / 4;
/// What two merged nodes may use, so that the next inserts do not split them again.
const MERGED_MAX: usize = CAPACITY * 3 / 4;

/// Removes `key` and its value; says whether it was there. `Err` changed nothing.
pub fn remove<P: WritePages>(pages: &mut P, root: TreeRoot, key: &[u8]) -> Result<bool, PageFault> {
    let Some(tree) = root.0 else { return Ok(false) };
    let (path, leaf) = path::descend(pages, tree, |node| node.child_index(key))?;
    let Ok(slot) = leaf.search(key) else { return Ok(false) };
    let chain = match leaf.value(slot) {
        Value::Inline(_) => Vec::new(),
        Value::Chain(chain) => overflow::pages_of(pages, chain)?,
    };
    let page = pages.page_mut(path.leaf)?;
    let entry = Node(page).slot(slot);
    let used_after =
        CAPACITY - Node(page).free() - SLOT_LEN - rest_len(entry.suffix_len) - entry.stored_len();
    let shrinks = used_after < USED_MIN && !path.steps.is_empty();
    if shrinks {
        path.own(pages)?;
    }
    NodeMut(owned(pages, path.leaf)).remove(slot);
    for no in chain {
        pages.release(no);
    }
    if shrinks {
        shrink(pages, tree, path);
    }
    Ok(true)
}

fn owned<P: WritePages>(pages: &mut P, no: PageNo) -> &mut PageBytes {
    pages.page_mut(no).expect("an owned page stays changeable")
}

/// Merges or drops the node at the end of the owned path if that is due, and so on upwards.
fn shrink<P: WritePages>(pages: &mut P, tree: PageNo, mut path: Path) {
    let leaf = Node(pages.page(path.leaf).expect("owned"));
    if leaf.count() == 0 && !path.steps.is_empty() {
        drop_last_node(pages, tree, &mut path);
    }
    while let Some(Step { no: parent, child }) = path.steps.pop() {
        let node = Node(pages.page(path.leaf).expect("owned"));
        if CAPACITY - node.free() >= USED_MIN || !merge(pages, tree, parent, child) {
            break;
        }
        path.leaf = parent;
    }
    lower_root(pages, tree);
}

/// Releases the node at the end of the owned path, which holds nothing and is not the root, and every node above it that
/// has no other child; a root without children becomes an empty leaf. The path then ends at the lowest node left.
pub(crate) fn drop_last_node<P: WritePages>(pages: &mut P, tree: PageNo, path: &mut Path) {
    while let Some(Step { no: parent, child }) = path.steps.pop() {
        pages.release(path.leaf);
        path.leaf = parent;
        let mut above = NodeMut(owned(pages, parent));
        let count = above.as_node().count();
        if count > 0 {
            if child == 0 {
                let next = above.as_node().child(1);
                above.set_leftmost(next);
            }
            above.remove(child.saturating_sub(1));
            return;
        }
        if parent == tree {
            above.init(Frame { level: 0, tree, leftmost: PageNo(0) }, &[]);
            return;
        }
    }
    unreachable!("the path's last node is not the root");
}

/// Merges child `index` of `parent` with a neighbour, if one is in memory and both together are small enough.
fn merge<P: WritePages>(pages: &mut P, tree: PageNo, parent: PageNo, index: usize) -> bool {
    let count = Node(pages.page(parent).expect("owned")).count();
    let pairs = [index.checked_sub(1), (index < count).then_some(index)];
    pairs.into_iter().flatten().any(|left| merge_pair(pages, tree, parent, left))
}

/// Merges children `left` and `left + 1` of `parent`, if that can be done.
fn merge_pair<P: WritePages>(pages: &mut P, tree: PageNo, parent: PageNo, left: usize) -> bool {
    let above = Node(pages.page(parent).expect("owned"));
    let (left_no, right_no) = (above.child(left), above.child(left + 1));
    let separator = above.key(left);
    let Ok(left_image) = pages.page(left_no).copied() else { return false };
    let Ok(right_image) = pages.page(right_no).copied() else { return false };
    let (Ok(a), Ok(b)) = (Node::open(&left_image, left_no, tree), Node::open(&right_image, right_no, tree))
    else {
        return false;
    };
    let pair = Pair { left: a, right: b, separator: &separator };
    let prefix_len = pair.prefix_len();
    if a.level() != b.level() || pair.len_with(prefix_len) > MERGED_MAX {
        return false;
    }
    // The last step that can fail, and nothing is changed yet.
    let Ok(page) = pages.page_mut(left_no) else { return false };
    pair.build(page, prefix_len);
    pages.release(right_no);
    NodeMut(owned(pages, parent)).remove(left);
    true
}

/// Two neighbours and the key between them.
struct Pair<'a> {
    left: Node<'a>,
    right: Node<'a>,
    separator: &'a [u8],
}

impl Pair<'_> {
    /// What stands between the two nodes' entries: for inner nodes the separator, with the right one's first child.
    fn between(&self) -> Option<(&[u8], Payload<'static>)> {
        (!self.left.is_leaf()).then(|| (self.separator, Payload::child(self.right.leftmost())))
    }

    fn prefix_len(&self) -> usize {
        let first = |node: Node<'_>| (node.count() > 0).then(|| node.key(0));
        let last = |node: Node<'_>| node.count().checked_sub(1).map(|i| node.key(i));
        let between = self.between().map(|(key, _)| key.to_vec());
        let start = first(self.left).or_else(|| between.clone()).or_else(|| first(self.right));
        let end = last(self.right).or(between).or_else(|| last(self.left));
        match (start, end) {
            (Some(start), Some(end)) => common_len(&start, &end),
            _ => 0,
        }
    }

    fn len_with(&self, prefix_len: usize) -> usize {
        let of_node = |node: Node<'_>| {
            (0..node.count())
                .map(|i| SLOT_LEN + rest_len(node.key_len(i) - prefix_len) + payload_of(node, i).stored.len())
                .sum::<usize>()
        };
        let between = self.between().map_or(0, |(key, _)| SLOT_LEN + rest_len(key.len() - prefix_len));
        prefix_len + of_node(self.left) + between + of_node(self.right)
    }

    fn build(&self, page: &mut PageBytes, prefix_len: usize) {
        let left = self.left;
        let frame = Frame { level: left.level(), tree: left.tree(), leftmost: left.leftmost() };
        let mut keys = Vec::new();
        let prefix = if left.count() > 0 {
            left.key(0)
        } else if let Some((key, _)) = self.between() {
            key.to_vec()
        } else if self.right.count() > 0 {
            self.right.key(0)
        } else {
            Vec::new()
        };
        let mut builder = NodeBuilder::new(page, frame, &prefix[..prefix_len]);
        for i in 0..left.count() {
            left.key_into(i, &mut keys);
            builder.push(&keys, payload_of(left, i));
        }
        if let Some((key, payload)) = self.between() {
            builder.push(key, payload);
        }
        for i in 0..self.right.count() {
            self.right.key_into(i, &mut keys);
            builder.push(&keys, payload_of(self.right, i));
        }
        builder.finish();
    }
}

/// While the root has a single child that is in memory, that child's content becomes the root's.
fn lower_root<P: WritePages>(pages: &mut P, tree: PageNo) {
    loop {
        let root = Node(pages.page(tree).expect("owned"));
        if root.is_leaf() || root.count() > 0 {
            return;
        }
        let child = root.leftmost();
        let Ok(image) = pages.page(child).copied() else { return };
        if Node::open(&image, child, tree).is_err() {
            return;
        }
        *owned(pages, tree) = image;
        pages.release(child);
    }
}
