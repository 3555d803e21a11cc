//! About how many entries a range of keys has, told by the ways down to its two ends: what is called an index dive elsewhere. It costs two look-ups,
//! however many entries there are.

use base::PageNo;
use smallvec::SmallVec;
use storage::{PageFault, ReadPages};

use crate::TreeRoot;
use crate::path;

/// A node on the way to an end of the range.
#[derive(Clone, Copy)]
struct Place {
    no: PageNo,
    /// The child that was taken; in a leaf, how many entries lie before the end.
    at: usize,
    /// Children or entries of the node.
    of: usize,
}

type Way = SmallVec<[Place; 6]>;

/// About how many entries have keys from `from` on and below `to`, which is the tree's end if `None`. Within one leaf they are counted; the nodes between
/// the two ends are taken to have as much below them as those on the ways have.
///
/// Panics if a key is longer than [`base::limits::KEY_LEN_MAX`].
pub fn estimate<P: ReadPages>(
    pages: &P,
    root: TreeRoot,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<f64, PageFault> {
    let Some(root) = root.0 else { return Ok(0.0) };
    let (low, high) = (way(pages, root, Some(from))?, way(pages, root, to)?);
    assert_eq!(low.len(), high.len(), "all leaves of a tree are on one level");
    // Entries below one child of the level.
    let mut each = 1.0;
    let mut sum = 0.0;
    let mut taken = 0;
    for (low, high) in low.iter().zip(&high).rev() {
        let (before, upto) = (low.at + taken, high.at);
        if low.no == high.no {
            return Ok(sum + each * upto.saturating_sub(before) as f64);
        }
        sum += each * ((low.of - before) + upto) as f64;
        each *= (low.of + high.of) as f64 / 2.0;
        // Above the leaves the child on the way itself was looked into.
        taken = 1;
    }
    unreachable!("both ways begin at the root")
}

/// The way to the first entry not before `key`; behind the last one if `None`.
fn way<P: ReadPages>(pages: &P, root: PageNo, key: Option<&[u8]>) -> Result<Way, PageFault> {
    let (path, leaf) =
        path::descend(pages, root, |node| key.map_or(node.count(), |key| node.child_index(key)))?;
    let mut way = Way::new();
    for step in &path.steps {
        let of = path::open_page(path::ask(pages, step.no)?, step.no, root, None)?.count() + 1;
        way.push(Place { no: step.no, at: step.child, of });
    }
    let at = key.map_or(leaf.count(), |key| leaf.search(key).unwrap_or_else(|at| at));
    way.push(Place { no: path.leaf, at, of: leaf.count() });
    Ok(way)
}

#[cfg(test)]
mod tests {
    use storage::PageMap;

    use super::*;

    /// A tree of the numbers up to `count`, put in an order that `turn` gives.
    fn tree(count: u32, turn: impl Fn(u32) -> u32) -> (PageMap, TreeRoot) {
        let (mut pages, mut root) = (PageMap::new_empty(), TreeRoot::default());
        for n in 0..count {
            crate::put(&mut pages, &mut root, &turn(n).to_be_bytes(), &[7; 40]).expect("in memory");
        }
        (pages, root)
    }

    #[test]
    fn a_range_is_estimated_by_what_lies_between_its_ends() {
        const COUNT: u32 = 60_000;
        let appended = tree(COUNT, |n| n);
        let scattered = tree(COUNT, |n| (u64::from(n) * 40_507 % u64::from(COUNT)) as u32);
        for (pages, root) in [&appended, &scattered] {
            let between = |from: u32, to: u32| {
                let to = (to < COUNT).then(|| to.to_be_bytes());
                estimate(pages, *root, &from.to_be_bytes(), to.as_ref().map(|to| &to[..])).expect("in memory")
            };
            for len in [0, 1, 10, 100, 1_000, 10_000, COUNT] {
                for from in (0..=COUNT - len).step_by(1_777).chain([COUNT - len]) {
                    let found = between(from, from + len);
                    let (least, most) = (f64::from(len) / 2.0 - 60.0, f64::from(len) * 2.0 + 60.0);
                    assert!((least..=most).contains(&found), "{len} from {from}: {found}");
                }
            }
            // Within one leaf it is no estimate.
            assert_eq!((between(5, 5), between(5, 8), between(9, 5)), (0.0, 3.0, 0.0));
            assert_eq!(between(COUNT - 1, COUNT), 1.0);
            assert_eq!(between(COUNT, COUNT), 0.0);
        }
        assert_eq!(estimate(&appended.0, TreeRoot::default(), &[], None).expect("no page"), 0.0);
    }

    #[test]
    fn only_the_ways_to_both_ends_are_read() {
        let (mut pages, root) = tree(60_000, |n| n);
        let ends = (1_000_u32.to_be_bytes(), 50_000_u32.to_be_bytes());
        let of = |pages: &PageMap| estimate(pages, root, &ends.0, Some(&ends.1));
        let whole = of(&pages).expect("in memory");
        let needed: Vec<PageNo> = [&ends.0, &ends.1]
            .into_iter()
            .flat_map(|key| way(&pages, root.0.expect("it has one"), Some(key)).expect("in memory"))
            .map(|place| place.no)
            .collect();
        let all = crate::check(&pages, root).expect("a whole tree").pages;
        for no in all.iter().filter(|no| !needed.contains(no)) {
            storage::WritePages::page_mut(&mut pages, *no).expect("in memory")[0] = 0xee;
        }
        assert_eq!(of(&pages).expect("what it needs is whole"), whole);
    }
}
