//! Which page numbers are free, and who is given which. Those of a large tree's leaves lie together, in blocks of the numbers of one leaf of the map: so a leaf of the map has
//! pages that are used alike, and where nobody reads them it goes cold as a whole ([`crate::cold_leaf`]).
//!
//! Small trees and inner nodes share blocks, for a leaf of the map takes as much memory as a page. Derived from the map: a block knows how many of its numbers are free, the map which. Who has which block is
//! not stored; after an opening a tree goes on in the block of the page beside which it wants one.

use base::PageNo;
use rustc_hash::FxHashMap;

use crate::Beside;
use crate::radix::FANOUT;

/// The numbers of one leaf of the map.
#[derive(Clone, Copy)]
struct Block {
    free: u16,
    /// From which on to look for a free one.
    next: u8,
    /// Whether a tree, or small ones together, is given its numbers.
    is_held: bool,
}

/// Numbers are 0 to 2^32 - 1.
const BLOCKS_MAX: usize = 1 << (u32::BITS - FANOUT.trailing_zeros());

/// In the order of the pages, so that the lowest is taken first.
#[derive(Clone, Default)]
pub(crate) struct PageNumbers {
    blocks: Vec<Block>,
    pages: u64,
    /// Free numbers of blocks that nobody holds.
    loose: u64,
    /// Blocks that nobody holds, and without a page.
    whole: usize,
    /// No block below has a loose number.
    lowest_loose: usize,
    /// No block below is whole.
    lowest_whole: usize,
    of_small: Option<usize>,
    of_trees: FxHashMap<PageNo, usize>,
}

/// How many numbers block `block` has. Page 0 is none.
fn len(block: usize) -> u16 {
    FANOUT as u16 - u16::from(block == 0)
}

fn block_of(no: PageNo) -> usize {
    no.0 as usize / FANOUT
}

impl PageNumbers {
    /// Pages that have one.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Every number in use is below.
    pub(crate) fn limit(&self) -> u32 {
        u32::try_from(self.blocks.len() * FANOUT).unwrap_or(u32::MAX)
    }

    /// Page `no` of a map that is read is in use.
    pub(crate) fn note(&mut self, no: PageNo) {
        while self.blocks.len() <= block_of(no) {
            self.add_block();
        }
        let block = &mut self.blocks[block_of(no)];
        if block.free == len(block_of(no)) {
            self.whole -= 1;
        }
        block.free -= 1;
        block.next = (no.0 as u8).wrapping_add(1);
        self.loose -= 1;
        self.pages += 1;
    }

    /// A block with a free number for a page there, and from which number on the map is to look for it; [`PageNumbers::take`] follows.
    pub(crate) fn find(&mut self, beside: Option<Beside>) -> (PageNo, u8) {
        let held = beside.map_or(self.of_small, |beside| self.of_trees.get(&beside.tree).copied());
        let block = held.filter(|block| self.blocks[*block].free > 0).unwrap_or_else(|| {
            held.into_iter().for_each(|full| self.let_go(full));
            let block = match beside {
                Some(beside) => self.for_tree(beside),
                None => self.any(),
            };
            self.hold(block);
            match beside {
                Some(Beside { tree, .. }) => _ = self.of_trees.insert(tree, block),
                None => self.of_small = Some(block),
            }
            block
        });
        (PageNo((block * FANOUT) as u32), self.blocks[block].next)
    }

    /// Page `no`, of a block that was found, is in use from here on.
    pub(crate) fn take(&mut self, no: PageNo) {
        let block = &mut self.blocks[block_of(no)];
        assert!(block.is_held && block.free > 0, "{no:?} is given out of a block that was found");
        block.free -= 1;
        block.next = (no.0 as u8).wrapping_add(1);
        self.pages += 1;
    }

    /// Page `no` is in use no more.
    pub(crate) fn release(&mut self, no: PageNo) {
        let at = block_of(no);
        let block = &mut self.blocks[at];
        block.free += 1;
        assert!(block.free <= len(at), "{no:?} was in use");
        block.next = no.0 as u8;
        self.pages -= 1;
        if !block.is_held {
            let is_whole = block.free == len(at);
            self.note_loose(at, 1, is_whole);
        }
        if let Some(block) = self.of_trees.remove(&no) {
            self.let_go(block);
        }
    }

    fn for_tree(&mut self, beside: Beside) -> usize {
        let near = block_of(beside.page);
        if self.is_loose(near) {
            near
        } else if self.whole > 0 {
            let is_whole =
                |block: &usize| !self.blocks[*block].is_held && self.blocks[*block].free == len(*block);
            self.lowest_whole = (self.lowest_whole..self.blocks.len()).find(is_whole).expect("there is one");
            self.lowest_whole
        } else if self.loose > self.pages / 2 + FANOUT as u64 {
            // Else blocks of which a tree left little would be many more than there are pages for.
            self.any()
        } else {
            self.add_block()
        }
    }

    /// The lowest that nobody holds.
    fn any(&mut self) -> usize {
        if self.loose == 0 {
            return self.add_block();
        }
        self.lowest_loose = (self.lowest_loose..self.blocks.len())
            .find(|block| self.is_loose(*block))
            .expect("some block has the loose numbers");
        self.lowest_loose
    }

    fn is_loose(&self, block: usize) -> bool {
        !self.blocks[block].is_held && self.blocks[block].free > 0
    }

    fn add_block(&mut self) -> usize {
        let at = self.blocks.len();
        assert!(at < BLOCKS_MAX, "fewer than 2^32 pages");
        let free = len(at);
        self.blocks.push(Block { free, next: (FANOUT as u16 - free) as u8, is_held: false });
        self.note_loose(at, free, true);
        at
    }

    /// So many numbers of the block are loose now which were not.
    fn note_loose(&mut self, at: usize, numbers: u16, is_whole: bool) {
        self.loose += u64::from(numbers);
        self.lowest_loose = self.lowest_loose.min(at);
        if is_whole {
            self.whole += 1;
            self.lowest_whole = self.lowest_whole.min(at);
        }
    }

    fn hold(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        assert!(!block.is_held, "a block has one holder");
        block.is_held = true;
        self.loose -= u64::from(block.free);
        self.whole -= usize::from(block.free == len(at));
    }

    fn let_go(&mut self, at: usize) {
        let block = &mut self.blocks[at];
        block.is_held = false;
        let free = block.free;
        if free > 0 {
            self.note_loose(at, free, free == len(at));
        }
    }

    /// Numbers below `limit` are not given out any more.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, limit: u32) {
        while self.limit() < limit {
            self.add_block();
        }
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let below = (limit as usize).saturating_sub(at * FANOUT).min(FANOUT) as u16;
            block.free = block.free.min(FANOUT as u16 - below);
            block.next = block.next.max(below as u8);
        }
        let free = || self.blocks.iter().enumerate().filter(|(_, block)| !block.is_held);
        self.loose = free().map(|(_, block)| u64::from(block.free)).sum();
        self.whole = free().filter(|(at, block)| block.free == len(*at)).count();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Numbers, and which are in use, as a map knows it.
    #[derive(Clone, Default)]
    struct Model {
        numbers: PageNumbers,
        used: BTreeSet<PageNo>,
    }

    impl Model {
        fn allocate(&mut self, beside: Option<Beside>) -> PageNo {
            let (first, next) = self.numbers.find(beside);
            let all = (0..FANOUT as u32).map(|i| PageNo(first.0 + (u32::from(next) + i) % FANOUT as u32));
            let no = all.filter(|no| no.0 > 0).find(|no| !self.used.contains(no)).expect("one is free");
            self.numbers.take(no);
            self.used.insert(no);
            no
        }

        fn of_tree(&mut self, tree: PageNo, page: PageNo) -> PageNo {
            self.allocate(Some(Beside { tree, page }))
        }

        fn release(&mut self, no: PageNo) {
            assert!(self.used.remove(&no));
            self.numbers.release(no);
        }

        fn reopened(&self) -> Model {
            let mut numbers = PageNumbers::default();
            self.used.iter().for_each(|no| numbers.note(*no));
            Model { numbers, used: self.used.clone() }
        }

        /// What is derived is what a look at everything says.
        fn check(&self) {
            let n = &self.numbers;
            assert_eq!(n.pages, self.used.len() as u64);
            for (at, block) in n.blocks.iter().enumerate() {
                let used = self.used.iter().filter(|no| block_of(**no) == at).count();
                assert_eq!(usize::from(block.free), usize::from(len(at)) - used, "block {at}");
                assert!(!n.is_loose(at) || n.lowest_loose <= at);
            }
            let loose = || n.blocks.iter().enumerate().filter(|(at, _)| n.is_loose(*at));
            assert_eq!(n.loose, loose().map(|(_, block)| u64::from(block.free)).sum::<u64>());
            let whole: Vec<usize> =
                loose().filter(|(at, block)| block.free == len(*at)).map(|(at, _)| at).collect();
            assert_eq!(n.whole, whole.len());
            assert!(whole.first().is_none_or(|first| n.lowest_whole <= *first));
            let held: BTreeSet<usize> = n.of_trees.values().copied().chain(n.of_small).collect();
            assert_eq!(held.len(), n.of_trees.len() + usize::from(n.of_small.is_some()));
            assert!(n.blocks.iter().enumerate().all(|(at, block)| block.is_held == held.contains(&at)));
        }
    }

    #[test]
    fn trees_that_grow_side_by_side_have_blocks_of_their_own() {
        let mut model = Model::default();
        let trees = [0; 3].map(|_| model.allocate(None));
        let mut last = trees;
        let mut blocks = vec![BTreeSet::new(); 3];
        for _ in 0..1000 {
            for (i, tree) in trees.iter().enumerate() {
                last[i] = model.of_tree(*tree, last[i]);
                blocks[i].insert(block_of(last[i]));
            }
        }
        assert!(blocks.iter().all(|of_tree| of_tree.len() == 4), "{blocks:?}");
        assert_eq!(blocks.iter().flatten().collect::<BTreeSet<_>>().len(), 12);
        assert_eq!(block_of(model.allocate(None)), 0, "small trees share the block that they have");
        model.check();

        // After an opening each goes on where it was.
        let mut model = model.reopened();
        for (i, tree) in trees.iter().enumerate() {
            assert_eq!(model.of_tree(*tree, last[i]), PageNo(last[i].0 + 1));
        }
        model.check();
    }

    #[test]
    fn what_a_tree_leaves_is_used_again() {
        let mut model = Model::default();
        for _ in 0..20 {
            let tree = model.allocate(None);
            let pages: Vec<PageNo> = (0..2000).map(|_| model.of_tree(tree, tree)).collect();
            // All but one of each block, the root among them.
            pages.iter().filter(|no| no.0 % 256 != 7).for_each(|no| model.release(*no));
            model.release(tree);
            model.check();
        }
        // Some 2,000 pages are in use at a time.
        let limit = model.numbers.limit();
        assert!(limit < 2 * 2000, "numbers up to {limit}");

        let mut model = model.reopened();
        let left: Vec<PageNo> = model.used.iter().copied().collect();
        left.iter().for_each(|no| model.release(*no));
        let tree = model.allocate(None);
        (0..limit - 400).for_each(|_| _ = model.of_tree(tree, tree));
        assert_eq!(model.numbers.limit(), limit, "whole blocks are taken before new ones are made");
        model.check();
    }

    #[test]
    fn an_old_number_is_not_kept_for_a_tree_that_is_gone() {
        let mut model = Model::default();
        let tree = model.allocate(None);
        let pages: Vec<PageNo> = (0..10).map(|_| model.of_tree(tree, tree)).collect();
        model.release(tree);
        pages.into_iter().for_each(|no| model.release(no));
        model.check();
        assert!(model.numbers.of_trees.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn numbers_agree_with_a_plain_set(ops in prop::collection::vec((0..100_u8, any::<prop::sample::Index>(), 0..4_u32), 1..1500)) {
            let mut model = Model::default();
            let mut branch: Option<Model> = None;
            for (kind, index, tree) in ops {
                let used: Vec<PageNo> = model.used.iter().copied().collect();
                let pick = || (!used.is_empty()).then(|| used[index.index(used.len())]);
                match kind {
                    0..20 => _ = model.allocate(None),
                    20..60 => if let Some(page) = pick() { model.of_tree(PageNo(tree + 1), page); },
                    60..95 => if let Some(page) = pick() { model.release(page); },
                    95..97 => model = model.reopened(),
                    97 => branch = Some(model.clone()),
                    _ => if let Some(branch) = &mut branch { std::mem::swap(branch, &mut model); },
                }
            }
            model.check();
        }
    }
}
