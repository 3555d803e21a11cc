//! Making room: rebuilding a node, splitting it, and growing the tree at its root.
//!
//! Everything here works on pages their caller has made its own, so nothing can fail half-way.
//!
//! A node that keys have lately filled in ascending order is split where the next key goes, so that the run goes on to
//! fill the left node; at the right end of the tree that makes every leaf of a growing table a full one. Others are
//! split in the middle of their bytes.

use std::ops::Range;

use base::PageNo;
use storage::{PageBytes, WritePages};

use crate::edit::{Frame, NodeBuilder, NodeMut, Payload};
use crate::insert::fits;
use crate::node::{CAPACITY, Node, SLOT_LEN, common_len, rest_len};
use crate::path::{Path, Step};
use crate::place;

/// Ascending inserts in a row after which more are expected.
const ASCENDING_RUN_MIN: u8 = 3;

/// Inserts an entry at `slot` of the leaf at the end of `path`, of which every page is owned. Makes room as needed.
pub(crate) fn insert<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    mut path: Path,
    slot: usize,
    key: &[u8],
    payload: Payload<'_>,
) {
    if insert_if_fits(owned(pages, path.leaf), slot, key, payload) {
        return;
    }
    let at_right_end = path.is_rightmost(pages).expect("the path is owned");
    if path.steps.is_empty() {
        push_root_down(pages, tree, &mut path);
    }
    let (separator, right) = split_leaf(pages, tree, path.leaf, at_right_end, slot, key, payload);
    insert_child(pages, tree, path, separator, right, at_right_end);
}

/// The bytes of a page that was owned before the first change.
fn owned<P: WritePages>(pages: &mut P, no: PageNo) -> &mut PageBytes {
    pages.page_mut(no).expect("an owned page stays changeable")
}

/// Inserts a separator and the child right of it into the last inner node of the path, and so on upwards.
fn insert_child<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    mut path: Path,
    mut separator: Vec<u8>,
    mut right: PageNo,
    at_right_end: bool,
) {
    loop {
        let Step { no, child } = path.steps.pop().expect("a split node has a parent");
        if insert_if_fits(owned(pages, no), child, &separator, Payload::child(right)) {
            return;
        }
        let mut above = Path { steps: path.steps, leaf: no };
        if above.steps.is_empty() {
            push_root_down(pages, tree, &mut above);
        }
        (separator, right) = split_inner(pages, tree, above.leaf, at_right_end, child, &separator, right);
        path = above;
    }
}

/// Inserts into a node that has room, rebuilding it if the room is scattered or the key does not share its prefix.
fn insert_if_fits(page: &mut PageBytes, slot: usize, key: &[u8], payload: Payload<'_>) -> bool {
    if !fits(Node(page), key, payload.stored.len()) {
        let image = *page;
        let entries = Entries { node: Node(&image), slot, key, payload };
        let plan = entries.plan(0..entries.len());
        if plan.len > CAPACITY {
            return false;
        }
        entries.build(page, 0..entries.len(), plan, entries.frame());
        note(page, &image, slot);
        return true;
    }
    let mut node = NodeMut(page);
    let prefix_len = node.as_node().prefix_len();
    node.insert(slot, &key[prefix_len..], payload);
    node.note_insert(slot);
    tighten_if_due(page);
    true
}

/// Rebuilds a node that has just grown to one of a few sizes with the longest prefix its keys share, if it then fits the page: keys
/// of which heads hold all are no shorter for it. A node begins with the prefix of its first keys or none; without this its
/// heads would all be alike until it first fills.
#[inline]
pub(crate) fn tighten_if_due(page: &mut PageBytes) {
    if matches!(Node(page).count(), 4 | 16 | 64) {
        tighten(page);
    }
}

#[cold]
fn tighten(page: &mut PageBytes) {
    let node = Node(page);
    let first = node.key(0);
    let prefix_len = common_len(&first, &node.key(node.count() - 1));
    if prefix_len <= node.prefix_len() {
        return;
    }
    let entries = (0..node.count())
        .map(|i| SLOT_LEN + rest_len(node.key_len(i) - prefix_len) + payload_of(node, i).stored.len());
    if prefix_len + entries.sum::<usize>() > CAPACITY {
        return;
    }
    let image = *page;
    let node = Node(&image);
    let frame = Frame { level: node.level(), tree: node.tree(), leftmost: node.leftmost() };
    let mut builder = NodeBuilder::new(page, frame, &first[..prefix_len]);
    let mut key = first;
    for i in 0..node.count() {
        node.key_into(i, &mut key);
        builder.push(&key, payload_of(node, i));
    }
    builder.finish().set_insert_pattern(node.last_insert(), node.ascending_run());
}

/// Carries the insert pattern of `before` over to a node rebuilt from it with a new entry at `slot`.
fn note(page: &mut PageBytes, before: &PageBytes, slot: usize) {
    let before = Node(before);
    let mut node = NodeMut(page);
    node.set_insert_pattern(before.last_insert(), before.ascending_run());
    node.note_insert(slot);
}

/// Moves the root's content to a new page, the root's only child, so that the root's page number stays. The path is
/// that of the root alone and then leads to the child.
fn push_root_down<P: WritePages>(pages: &mut P, tree: PageNo, path: &mut Path) {
    debug_assert!(path.steps.is_empty() && path.leaf == tree);
    let child = pages.allocate(None);
    let image = *owned(pages, tree);
    *owned(pages, child) = image;
    let level = Node(&image).level().checked_add(1).expect("a tree of 2^32 pages is not that high");
    NodeMut(owned(pages, tree)).init(Frame { level, tree, leftmost: child }, &[]);
    path.steps.push(Step { no: tree, child: 0 });
    path.leaf = child;
}

/// Splits a leaf with the new entry into itself and a new right neighbour; returns what the parent needs to know.
fn split_leaf<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    no: PageNo,
    at_right_end: bool,
    slot: usize,
    key: &[u8],
    payload: Payload<'_>,
) -> (Vec<u8>, PageNo) {
    let right_no = pages.allocate(place::of_leaf(pages, tree, no));
    let image = *owned(pages, no);
    let entries = Entries { node: Node(&image), slot, key, payload };
    let at = entries.split_point(at_right_end, |at| (0..at, at..entries.len()));
    let (last, first) = (entries.key(at - 1), entries.key(at));
    let separator = first[..common_len(&last, &first) + 1].to_vec();

    let left_plan = entries.plan(0..at);
    entries.build(owned(pages, no), 0..at, left_plan, entries.frame());
    let right_plan = entries.plan(at..entries.len());
    let right = owned(pages, right_no);
    entries.build(right, at..entries.len(), right_plan, Frame { tree, ..entries.frame() });
    if slot >= at {
        note_split(right, &image, slot, at);
    } else {
        note(owned(pages, no), &image, slot);
    }
    (separator, right_no)
}

/// Carries the insert pattern over to the right node of a split, whose slots begin at `at` of the old one.
fn note_split(right: &mut PageBytes, before: &PageBytes, slot: usize, at: usize) {
    let before = Node(before);
    let run = if slot == before.last_insert() + 1 { before.ascending_run().saturating_add(1) } else { 0 };
    NodeMut(right).set_insert_pattern(slot - at, run);
}

/// As [`split_leaf`] for an inner node: the middle key moves up instead of being copied.
fn split_inner<P: WritePages>(
    pages: &mut P,
    tree: PageNo,
    no: PageNo,
    at_right_end: bool,
    slot: usize,
    key: &[u8],
    child: PageNo,
) -> (Vec<u8>, PageNo) {
    let right_no = pages.allocate(None);
    let image = *owned(pages, no);
    let entries = Entries { node: Node(&image), slot, key, payload: Payload::child(child) };
    let at = entries.split_point(at_right_end, |at| (0..at, at + 1..entries.len()));
    let separator = entries.key(at);
    let leftmost = PageNo(entries.payload(at).aux);

    let left_plan = entries.plan(0..at);
    entries.build(owned(pages, no), 0..at, left_plan, entries.frame());
    let right_plan = entries.plan(at + 1..entries.len());
    let right = owned(pages, right_no);
    entries.build(right, at + 1..entries.len(), right_plan, Frame { tree, leftmost, ..entries.frame() });
    if slot > at {
        note_split(right, &image, slot, at + 1);
    } else if slot < at {
        note(owned(pages, no), &image, slot);
    }
    (separator, right_no)
}

/// How a range of entries is laid out in a page of its own.
#[derive(Clone, Copy, Debug)]
struct Plan {
    prefix_len: usize,
    /// Bytes of slots, heap and prefix.
    len: usize,
}

/// A node's entries with one more among them.
struct Entries<'a> {
    node: Node<'a>,
    /// Where the new entry stands.
    slot: usize,
    key: &'a [u8],
    payload: Payload<'a>,
}

impl<'a> Entries<'a> {
    fn len(&self) -> usize {
        self.node.count() + 1
    }

    fn frame(&self) -> Frame {
        Frame { level: self.node.level(), tree: self.node.tree(), leftmost: self.node.leftmost() }
    }

    /// The slot of the node that entry `i` is; `None` for the new one.
    fn old(&self, i: usize) -> Option<usize> {
        match i.cmp(&self.slot) {
            std::cmp::Ordering::Less => Some(i),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(i - 1),
        }
    }

    fn key(&self, i: usize) -> Vec<u8> {
        self.old(i).map_or_else(|| self.key.to_vec(), |slot| self.node.key(slot))
    }

    fn payload(&self, i: usize) -> Payload<'a> {
        let Some(slot) = self.old(i) else { return self.payload };
        payload_of(self.node, slot)
    }

    /// Length of key `i` and of what is stored behind it.
    fn lens(&self, i: usize) -> (usize, usize) {
        match self.old(i) {
            None => (self.key.len(), self.payload.stored.len()),
            Some(slot) => {
                let s = self.node.slot(slot);
                let stored = if self.node.is_leaf() { s.stored_len() } else { 0 };
                (self.node.prefix_len() + s.suffix_len, stored)
            }
        }
    }

    /// Bytes of the entries in `range` behind a prefix of `prefix_len`.
    fn len_with(&self, range: Range<usize>, prefix_len: usize) -> usize {
        let entries = range.map(|i| {
            let (key, stored) = self.lens(i);
            SLOT_LEN + rest_len(key - prefix_len) + stored
        });
        prefix_len + entries.sum::<usize>()
    }

    /// The better of the longest common prefix and, where the range shares it, the node's present one: with keys of
    /// which heads hold all, a longer prefix saves nothing.
    fn plan(&self, range: Range<usize>) -> Plan {
        if range.is_empty() {
            return Plan { prefix_len: 0, len: 0 };
        }
        let first = self.key(range.start);
        let last = self.key(range.end - 1);
        let mut longest = common_len(&first, &last);
        if range.len() == 1 {
            // A lone key says little of those to come; its neighbour says more.
            let neighbour = if range.start > 0 { range.start - 1 } else { range.end };
            longest = if neighbour < self.len() { common_len(&first, &self.key(neighbour)) } else { 0 };
        }
        let candidates = [longest, longest.min(self.node.prefix_len())];
        let plans =
            candidates.map(|prefix_len| Plan { prefix_len, len: self.len_with(range.clone(), prefix_len) });
        if plans[1].len < plans[0].len { plans[1] } else { plans[0] }
    }

    /// Where to split so that both parts, which `parts` names for a split point, fit a page each.
    fn split_point(
        &self,
        at_right_end: bool,
        parts: impl Fn(usize) -> (Range<usize>, Range<usize>),
    ) -> usize {
        let (low, high) = (1, parts_end(self.len(), &parts));
        let possible = |at: usize| {
            (low..=high).contains(&at) && {
                let (left, right) = parts(at);
                self.plan(left).len <= CAPACITY && self.plan(right).len <= CAPACITY
            }
        };
        let last = self.len() - 1;
        let ascending = self.slot == self.node.last_insert() + 1
            && self.node.ascending_run() >= ASCENDING_RUN_MIN
            || (self.slot == last && at_right_end);
        // What stands behind the run goes to the right, so that the run fills its own node to the end.
        let behind_run = if self.slot == last { last } else { self.slot + 1 }.min(high);
        if ascending && possible(behind_run) {
            return behind_run;
        }
        let middle = self.middle();
        // Outwards from the middle. A key that does not share the node's prefix stands at an end and fits alone; for
        // others two halves of the present page fit with the present prefix: so there is always a place.
        (0..=self.len())
            .flat_map(|distance| [middle.checked_sub(distance), middle.checked_add(distance)])
            .flatten()
            .find(|at| possible(*at))
            .expect("limits on keys and values leave a place to split at")
    }

    /// The entry at which half of the bytes are passed.
    fn middle(&self) -> usize {
        let total = self.len_with(0..self.len(), 0);
        let mut sum = 0;
        (0..self.len())
            .find(|i| {
                let (key, stored) = self.lens(*i);
                sum += SLOT_LEN + rest_len(key) + stored;
                2 * sum >= total
            })
            .unwrap_or(self.len() / 2)
            .max(1)
    }

    fn build(&self, page: &mut PageBytes, range: Range<usize>, plan: Plan, frame: Frame) {
        if range.is_empty() {
            NodeMut(page).init(frame, &[]);
            return;
        }
        let mut key = self.key(range.start);
        let mut builder = NodeBuilder::new(page, frame, &key[..plan.prefix_len]);
        for i in range {
            match self.old(i) {
                Some(slot) => {
                    self.node.key_into(slot, &mut key);
                    builder.push(&key, payload_of(self.node, slot));
                }
                None => builder.push(self.key, self.payload),
            }
        }
        builder.finish();
    }
}

/// The highest split point at which the right part is not empty.
fn parts_end(len: usize, parts: &impl Fn(usize) -> (Range<usize>, Range<usize>)) -> usize {
    let right_start = |at| parts(at).1.start;
    if right_start(len - 1) < len { len - 1 } else { len - 2 }
}

/// What the node keeps behind key `slot`.
pub(crate) fn payload_of(node: Node<'_>, slot: usize) -> Payload<'_> {
    let s = node.slot(slot);
    Payload { aux: s.aux, stored: if node.is_leaf() { node.stored(s) } else { &[] } }
}
