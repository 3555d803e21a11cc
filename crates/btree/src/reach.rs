//! The pages of a damaged tree, as far as its whole pages lead.

use base::PageNo;
use storage::{PageBytes, PageFault, ReadPages};

use crate::TreeRoot;
use crate::node::Node;
use crate::overflow;
use crate::path;
use crate::value::Value;

/// What can be known of a tree without trusting a damaged page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// Pages of the tree: whole ones, and damaged ones that a whole one points at. Parents before children.
    pub pages: Vec<PageNo>,
    /// The first damage met; what is below a damaged page is not in `pages`.
    pub damage: Option<PageFault>,
}

/// Walks the tree around what is damaged in it, a page at a time ([`ReadPages::with_page`]). A page that is not in memory counts as damaged, so give it pages that are
/// read when asked for.
pub fn reach<P: ReadPages>(pages: &P, root: TreeRoot) -> Reach {
    let mut reach = Reach::default();
    if let Some(tree) = root.0 {
        walk(pages, tree, tree, None, &mut reach);
    }
    reach
}

fn walk<P: ReadPages>(pages: &P, no: PageNo, tree: PageNo, level: Option<u8>, reach: &mut Reach) {
    reach.pages.push(no);
    // A copy: what is below it is looked at meanwhile, and may be all that fits memory.
    let whole = |page: &PageBytes| whole_node(page, no, tree, level).map(|()| Box::new(*page));
    let image = pages.with_page(no, whole).flatten();
    let node = match &image {
        Ok(page) => Node(page),
        Err(fault) => {
            reach.damage.get_or_insert_with(|| fault.clone());
            return;
        }
    };
    if !node.is_leaf() {
        (0..=node.count()).for_each(|index| walk(pages, node.child(index), tree, Some(node.level()), reach));
        return;
    }
    for slot in 0..node.count() {
        if let Value::Chain(chain) = node.value(slot) {
            match overflow::pages_of(pages, chain) {
                Ok(mut chain) => reach.pages.append(&mut chain),
                Err(fault) => drop(reach.damage.get_or_insert(fault)),
            }
        }
    }
}

/// Levels fall by one at each step, so that the walk ends whatever it meets.
fn whole_node(page: &PageBytes, no: PageNo, tree: PageNo, parent: Option<u8>) -> Result<(), PageFault> {
    let node = path::open_page(page, no, tree, parent)?;
    node.validate().map_err(|what| PageFault::corrupt(no, what, 0, 0))
}

#[cfg(test)]
mod tests {
    use storage::{PageMap, WritePages};

    use super::*;

    fn grown() -> (PageMap, TreeRoot) {
        let (mut pages, mut root) = (PageMap::new_empty(), TreeRoot::default());
        for n in 0..3000_u32 {
            let value = vec![7; if n.is_multiple_of(500) { 20_000 } else { 40 }];
            crate::put(&mut pages, &mut root, &n.to_be_bytes(), &value).expect("in memory");
        }
        (pages, root)
    }

    #[test]
    fn a_whole_tree_is_reached_whole() {
        let (pages, root) = grown();
        let reach = reach(&pages, root);
        let mut expected = crate::check(&pages, root).expect("a whole tree").pages;
        let mut found = reach.pages;
        (expected.sort(), found.sort());
        assert_eq!((found, reach.damage), (expected, None));
    }

    #[test]
    fn a_damaged_page_is_reached_and_what_is_below_is_not() {
        let (mut pages, root) = grown();
        let whole = reach(&pages, root).pages;
        for no in &whole {
            let page = pages.page_mut(*no).expect("in memory");
            let before = *page;
            page[0] = 0xee;
            let damaged = reach(&pages, root);
            assert!(damaged.damage.is_some(), "{no:?}");
            assert!(damaged.pages.iter().all(|page| whole.contains(page)));
            if before[0] == crate::node::LEAF {
                assert!(damaged.pages.contains(no), "its parent is whole");
            }
            *pages.page_mut(*no).expect("in memory") = before;
        }
        assert_eq!(reach(&pages, root).pages, whole);
    }
}
