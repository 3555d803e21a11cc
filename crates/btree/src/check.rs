//! Checking a whole tree: every node against itself, its place and its neighbours.

use base::PageNo;
use storage::{PageFault, ReadPages};

use crate::TreeRoot;
use crate::node::{CAPACITY, Node};
use crate::overflow;
use crate::value::Value;

/// What a sound tree is made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeReport {
    /// Every page the tree owns, overflow pages included, parents before children. That none is there twice, or in
    /// another tree too, is the caller's to see.
    pub pages: Vec<PageNo>,
    pub entries: u64,
    /// Levels from root to leaf; 0 for a tree without pages.
    pub depth: u32,
    pub leaves: u64,
    /// Bytes of prefixes, slots, keys and inline values over all leaves, of [`TreeReport::leaf_bytes_capacity`].
    pub leaf_bytes_used: u64,
}

impl TreeReport {
    /// Bytes that the leaves could hold.
    pub fn leaf_bytes_capacity(&self) -> u64 {
        self.leaves * CAPACITY as u64
    }
}

/// Reads every page of the tree, one at a time ([`ReadPages::with_page`]), and checks that it is one: the layout of each node, levels, order of keys within and
/// across nodes, overflow chains. The first thing wrong is the `Corrupt` returned.
pub fn check<P: ReadPages>(pages: &P, root: TreeRoot) -> Result<TreeReport, PageFault> {
    check_each(pages, root, |_, _| Ok(()))
}

/// As [`check`], and shows every entry in key order to `each`, whose error ends the check.
pub fn check_each<P: ReadPages>(
    pages: &P,
    root: TreeRoot,
    mut each: impl FnMut(&[u8], Value<'_>) -> Result<(), PageFault>,
) -> Result<TreeReport, PageFault> {
    let mut walk = Walk { pages, tree: PageNo(0), report: TreeReport::default(), each: &mut each };
    if let Some(tree) = root.0 {
        walk.tree = tree;
        let level = pages.with_page(tree, |page| Node::open(page, tree, tree).map(Node::level))??;
        walk.report.depth = u32::from(level) + 1;
        walk.node(tree, None, Bounds { low: &[], high: None })?;
    }
    Ok(walk.report)
}

/// Where a node's keys must lie: from `low` on, below `high`.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    low: &'a [u8],
    high: Option<&'a [u8]>,
}

/// Sees an entry; its error ends the check.
type Visit<'a> = dyn FnMut(&[u8], Value<'_>) -> Result<(), PageFault> + 'a;

struct Walk<'a, P> {
    pages: &'a P,
    tree: PageNo,
    report: TreeReport,
    each: &'a mut Visit<'a>,
}

impl<P: ReadPages> Walk<'_, P> {
    fn node(&mut self, no: PageNo, level: Option<u8>, bounds: Bounds<'_>) -> Result<(), PageFault> {
        // A copy: what is below it is looked at meanwhile, and may be all that fits memory.
        let page = self.pages.with_page(no, |page| Box::new(*page))?;
        let node = Node::open(&page, no, self.tree)?;
        node.validate().map_err(|what| PageFault::corrupt(no, what, 0, 0))?;
        if let Some(level) = level.filter(|level| node.level() != *level) {
            return Err(PageFault::corrupt(no, "level of a tree node", node.level().into(), level.into()));
        }
        self.report.pages.push(no);
        let keys: Vec<Vec<u8>> = (0..node.count()).map(|i| node.key(i)).collect();
        let ordered = keys.windows(2).all(|pair| pair[0] < pair[1]);
        let within = keys.first().is_none_or(|first| first.as_slice() >= bounds.low)
            && keys.last().is_none_or(|last| bounds.high.is_none_or(|high| last.as_slice() < high));
        if !ordered || !within {
            let what = if ordered { "keys outside the node's range" } else { "order of keys in the node" };
            return Err(PageFault::corrupt(no, what, 0, 0));
        }
        if node.is_leaf() { self.leaf(node, &keys) } else { self.children(node, &keys, bounds) }
    }

    fn leaf(&mut self, node: Node<'_>, keys: &[Vec<u8>]) -> Result<(), PageFault> {
        self.report.leaves += 1;
        self.report.entries += keys.len() as u64;
        self.report.leaf_bytes_used += (CAPACITY - node.free()) as u64;
        for (i, key) in keys.iter().enumerate() {
            let value = node.value(i);
            if let Value::Chain(chain) = value {
                self.report.pages.append(&mut overflow::pages_of(self.pages, chain)?);
            }
            (self.each)(key, value)?;
        }
        Ok(())
    }

    fn children(&mut self, node: Node<'_>, keys: &[Vec<u8>], bounds: Bounds<'_>) -> Result<(), PageFault> {
        for index in 0..=keys.len() {
            let within = Bounds {
                low: if index == 0 { bounds.low } else { &keys[index - 1] },
                high: keys.get(index).map(Vec::as_slice).or(bounds.high),
            };
            self.node(node.child(index), Some(node.level() - 1), within)?;
        }
        Ok(())
    }
}
