//! Which slots of a data file may be written: the free set, and the slots that are unreachable but not yet free.
//!
//! A slot is written only if no durable root, no snapshot in memory and no running checkpoint reaches it. Two events
//! free one that was in use: a durable root that no longer holds it, and the drop of the last reference in memory.
//! Either may come first. The set stored with a root is exactly what that root does not reach, so opening it after a
//! crash leaks nothing.

use base::SlotNo;
use base::limits::PAGE_SIZE;
use rustc_hash::FxHashSet;

use crate::PageBytes;
use crate::superblock::{FREE_SET_PAGES_MAX, SUPERBLOCKS};
use crate::version::Location;
use crate::yield_now::{yield_every, yield_now};

/// Slots that one page of the free set describes.
pub(crate) const SLOTS_PER_SET_PAGE: u32 = PAGE_SIZE as u32 * 8;

/// Slots of the largest file.
pub(crate) const SLOTS_MAX: u32 = SLOTS_PER_SET_PAGE * FREE_SET_PAGES_MAX as u32;

/// A file grows by an eighth, at least 64 KiB (small tenants are many), at most 64 MiB.
const GROWTH_SLOTS_MIN: u32 = 8;
const GROWTH_SLOTS_MAX: u32 = 8192;

/// A file whose end is free is cut, when it is free for a quarter of the file and for more than it would grow by at once.
const TRIM_PART: u32 = 4;

/// A checkpoint writes to runs of so many free slots first, a power of two. Where pages go to any free slot, runs are worn down to less than two,
/// and each page is a write of its own.
const RUN_MIN: u32 = 8;

/// Shorter runs are used where this part of what is used is free, else the file grows: what is kept free so is what lets runs come together again.
const SPARE_PART: u32 = 10;

/// After a root that was given up so many use each free slot before the file grows: what was short then may be there again some minutes later.
const SPARING_ROOTS: u32 = 64;

/// A file of fewer slots is kept short instead.
const RUNS_FROM: u32 = 1024;

const WORDS_PER_SET_PAGE: usize = PAGE_SIZE / 8;

/// One bit a slot, set if the slot is used.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct SlotSet(Vec<u64>);

impl SlotSet {
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// False if the slot was in the set already.
    pub(crate) fn insert(&mut self, slot: u32) -> bool {
        let word = slot as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let new = !self.contains(slot);
        self.0[word] |= 1 << (slot % 64);
        new
    }

    /// False if the slot was not in the set.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        let held = self.contains(slot);
        if held {
            self.0[slot as usize / 64] &= !(1 << (slot % 64));
        }
        held
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The lowest slot from `from` below `end` that is not in the set, nor are the `len - 1` behind it; `len` is a power of two, at most [`RUN_MIN`]. A run of
    /// less than twice that may be passed over where it lies across two words.
    fn first_absent(&self, from: u32, end: u32, len: u32) -> Option<u32> {
        debug_assert!(len.is_power_of_two() && len <= RUN_MIN);
        let mut slot = from;
        while slot < end {
            let in_word = slot % 64;
            // Where a run begins: each round keeps the bits of which twice as many behind them are set, too.
            let mut runs = !self.0.get(slot as usize / 64).copied().unwrap_or(0) >> in_word << in_word;
            let mut reach = 1;
            while reach < len {
                runs &= runs >> reach;
                reach *= 2;
            }
            let at = slot - in_word + runs.trailing_zeros();
            if runs != 0 {
                return (at + len <= end).then_some(at);
            }
            slot = at;
        }
        None
    }

    fn set_page(&self, index: usize) -> impl Iterator<Item = u64> + '_ {
        let from = index * WORDS_PER_SET_PAGE;
        (from..from + WORDS_PER_SET_PAGE).map(|i| self.0.get(i).copied().unwrap_or(0))
    }

    /// Page `index` of the set, as it is stored.
    pub(crate) fn encode_page(&self, index: usize, page: &mut PageBytes) {
        for (bytes, word) in page.chunks_exact_mut(8).zip(self.set_page(index)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    pub(crate) fn append_page(&mut self, page: &PageBytes) {
        assert!(self.0.len().is_multiple_of(WORDS_PER_SET_PAGE));
        self.0.extend(page.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes"))));
    }

    /// The highest slot in the set; gives back the memory above it.
    pub(crate) fn shrink_to_highest(&mut self) -> Option<u32> {
        let words = self.0.iter().rposition(|word| *word != 0).map_or(0, |i| i + 1);
        self.0.truncate(words);
        self.0.shrink_to_fit();
        self.0.last().map(|word| words as u32 * 64 - 1 - word.leading_zeros())
    }

    /// The slots in the set from the highest down.
    fn iter_back(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.0.iter().enumerate().rev().filter(|(_, word)| **word != 0);
        words.flat_map(|(i, &word)| {
            (0..64).rev().filter(move |bit| word >> bit & 1 == 1).map(move |bit| i as u32 * 64 + bit)
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let bits = |(i, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i as u32 * 64 + bit)
        };
        self.0.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(bits)
    }
}

/// Slots by which a file of `count` grows at once.
fn growth_of(count: u32) -> u32 {
    (count / 8).clamp(GROWTH_SLOTS_MIN, GROWTH_SLOTS_MAX)
}

/// The file has no room for another slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileFull;

/// The slots of one data file. Lent to the checkpoint while one runs, because nothing else writes slots.
pub(crate) struct Slots {
    /// Slots of the file, the superblocks among them.
    count: u32,
    /// Slots that the file has room for; may lag behind `count` until the next write, or be ahead of it after a trim.
    pub(crate) extent: u32,
    /// What the newest durable root reaches.
    durable: SlotSet,
    /// What must not be written: `durable`, what snapshots reach, what this checkpoint has written.
    taken: SlotSet,
    /// Where the search for a free slot goes on, so that consecutive pages get consecutive slots: right behind the last that was taken, or at the file's first slot.
    cursor: u32,
    /// The shortest run of free slots that the search begins.
    run_min: u32,
    /// So many roots more use each free slot before the file grows: one was given up, maybe for want of room on the disk.
    sparing: u32,
    /// Left behind by the live map since the newest durable root.
    superseded: Vec<SlotNo>,
    /// No memory refers to them, but the newest durable root still does.
    dropped: FxHashSet<SlotNo>,
    /// No durable root refers to them, but a snapshot still does.
    snapshot_only: FxHashSet<SlotNo>,
    /// Given out since the newest durable root.
    allocated: Vec<SlotNo>,
    /// The same for what the next root does not reach either, but a snapshot does.
    allocated_for_snapshots: Vec<SlotNo>,
    /// Written for snapshots once, and reached by the next root.
    adopted: FxHashSet<SlotNo>,
    free_set: Vec<Location>,
    /// Pages of it that are damaged: the next root has them anew, whether they change or not.
    damaged_set_pages: Vec<usize>,
}

/// The free set of the root being written: what changed of it, and what it will be once the root is durable.
pub(crate) struct NextFreeSet {
    used: SlotSet,
    /// Slots of the file under this root.
    count: u32,
    /// Pages to write: index and slot.
    pub(crate) pages: Vec<(usize, SlotNo)>,
}

impl NextFreeSet {
    /// Pages of the set.
    pub(crate) fn len(&self) -> usize {
        self.count.div_ceil(SLOTS_PER_SET_PAGE) as usize
    }

    pub(crate) fn encode_page(&self, index: usize, page: &mut PageBytes) {
        self.used.encode_page(index, page);
    }
}

impl Slots {
    pub(crate) fn new(count: u32, durable: SlotSet, free_set: Vec<Location>) -> Slots {
        let mut slots = Slots {
            count,
            extent: count,
            taken: durable.clone(),
            durable,
            cursor: SUPERBLOCKS,
            run_min: 1,
            sparing: 0,
            superseded: Vec::new(),
            dropped: FxHashSet::default(),
            snapshot_only: FxHashSet::default(),
            allocated: Vec::new(),
            allocated_for_snapshots: Vec::new(),
            adopted: FxHashSet::default(),
            free_set,
            damaged_set_pages: Vec::new(),
        };
        slots.search_anew();
        slots
    }

    /// The next root writes these pages of the free set.
    pub(crate) fn rewrite_set_pages(&mut self, damaged: Vec<usize>) {
        self.damaged_set_pages = damaged;
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The file has `len` bytes, which reach to the last slot at least: what is beyond is cut off after the next checkpoint.
    pub(crate) fn note_len(&mut self, len: u64) {
        let slots = (len / PAGE_SIZE as u64).min(SLOTS_MAX.into());
        self.extent = (slots as u32).max(self.count);
    }

    pub(crate) fn used_by_durable_root(&self) -> u64 {
        self.durable.len()
    }

    pub(crate) fn free_set_location(&self, index: usize) -> Option<Location> {
        self.free_set.get(index).copied()
    }

    /// Takes in slots that the live map left behind, which the next root will not reach.
    pub(crate) fn supersede(&mut self, slots: Vec<SlotNo>) {
        match self.superseded.is_empty() {
            true => self.superseded = slots,
            false => self.superseded.extend(slots),
        }
    }

    /// What was taken in so, to be told again.
    pub(crate) fn take_superseded(&mut self) -> Vec<SlotNo> {
        std::mem::take(&mut self.superseded)
    }

    /// A slot that only snapshots reached is one of the next root's.
    pub(crate) fn adopt(&mut self, slot: SlotNo) {
        assert!(self.snapshot_only.remove(&slot), "{slot:?} is no slot of a snapshot");
        assert!(self.adopted.insert(slot));
    }

    /// The live map left behind an adopted slot before a root reached it; false if `slot` is not one.
    pub(crate) fn unadopt(&mut self, slot: SlotNo) -> bool {
        let was_adopted = self.adopted.remove(&slot);
        if was_adopted {
            if self.dropped.remove(&slot) {
                assert!(self.taken.remove(slot.0), "{slot:?} was freed twice");
            } else {
                self.snapshot_only.insert(slot);
            }
        }
        was_adopted
    }

    /// Whether slots were adopted that no root reaches yet.
    pub(crate) fn has_adopted(&self) -> bool {
        !self.adopted.is_empty()
    }

    /// Nothing in memory refers to `slot` any more.
    pub(crate) fn release(&mut self, slot: SlotNo) {
        if self.snapshot_only.remove(&slot) {
            assert!(self.taken.remove(slot.0), "{slot:?} was freed twice");
        } else {
            assert!(self.dropped.insert(slot), "{slot:?} was dropped twice");
        }
    }

    /// A slot to write, growing the file's slot count if none is free.
    pub(crate) fn allocate(&mut self) -> Result<SlotNo, FileFull> {
        let slot = self.take()?;
        self.allocated.push(slot);
        Ok(slot)
    }

    /// As [`Slots::allocate`], for a page that only a snapshot in memory reaches: free on disk whatever becomes of the root.
    pub(crate) fn allocate_for_snapshot(&mut self) -> Result<SlotNo, FileFull> {
        let slot = self.take()?;
        self.allocated_for_snapshots.push(slot);
        Ok(slot)
    }

    /// How many slots right behind `slot` may be written too; `max` at most.
    pub(crate) fn free_after(&self, slot: SlotNo, max: u32) -> u32 {
        let end = self.count.min(slot.0.saturating_add(1 + max));
        (slot.0 + 1..end).take_while(|slot| !self.taken.contains(*slot)).count() as u32
    }

    fn take(&mut self) -> Result<SlotNo, FileFull> {
        let slot = match self.next_free() {
            Some(slot) => slot,
            None => {
                let first_new = self.count;
                self.count = self.count.saturating_add(growth_of(self.count)).min(SLOTS_MAX);
                if self.count == first_new {
                    return Err(FileFull);
                }
                first_new
            }
        };
        assert!(self.taken.insert(slot), "slot {slot} was free");
        self.cursor = slot + 1;
        Ok(SlotNo(slot))
    }

    /// The free slot to take next: the one behind the last, or the first of a run that is long enough. None if the file is to grow.
    fn next_free(&mut self) -> Option<u32> {
        let is_behind_last = self.cursor > SUPERBLOCKS;
        if is_behind_last && self.cursor < self.count && !self.taken.contains(self.cursor) {
            return Some(self.cursor);
        }
        loop {
            let found = self.taken.first_absent(self.cursor, self.count, self.run_min);
            if found.is_some() {
                return found;
            }
            if self.run_min == 1 {
                return self.taken.first_absent(SUPERBLOCKS, self.cursor.min(self.count), 1);
            }
            let used = u32::try_from(self.taken.len()).expect("slots are numbered in 32 bits");
            if self.count - used < used / SPARE_PART && self.count < SLOTS_MAX {
                return None;
            }
            self.run_min /= 2;
            self.cursor = SUPERBLOCKS;
        }
    }

    /// Has the next slot be looked for from the file's start on.
    fn search_anew(&mut self) {
        // Where the end is to come free, what lay there goes to the lowest slots.
        let is_short = self.count < RUNS_FROM || self.sparing > 0 || self.move_from().is_some();
        self.run_min = if is_short { 1 } else { RUN_MIN };
        self.cursor = SUPERBLOCKS;
    }

    /// Leaves the free slots at the file's end out of the root being written, if they are many. What is left has room for the
    /// pages of the free set, which move down if they are what keeps the end.
    fn trim(&mut self) {
        let of_set: FxHashSet<u32> = self.free_set.iter().map(|location| location.slot.0).collect();
        let last = self.taken.iter_back().find(|slot| !of_set.contains(slot));
        let end = last.map_or(SUPERBLOCKS, |slot| slot + 1);
        let set_pages = end.div_ceil(SLOTS_PER_SET_PAGE) + 1;
        let needed = end.saturating_add(set_pages.max(GROWTH_SLOTS_MIN));
        let count = needed.max(self.ample()).min(self.count);
        if self.is_worth_cutting_to(count) {
            self.count = count;
            self.search_anew();
        }
    }

    /// As long as a file should be: a checkpoint may write every page beside what it replaces.
    fn ample(&self) -> u32 {
        let used = u32::try_from(self.taken.len()).expect("slots are numbered in 32 bits");
        used.saturating_mul(2).saturating_add(8 * GROWTH_SLOTS_MIN)
    }

    fn is_worth_cutting_to(&self, count: u32) -> bool {
        let cut = self.count.saturating_sub(count);
        cut >= self.count / TRIM_PART && cut > growth_of(count)
    }

    /// Where the part of the file begins that is to be emptied, because it is far longer than what is in it.
    pub(crate) fn move_from(&self) -> Option<SlotNo> {
        let ample = self.ample();
        self.is_worth_cutting_to(ample).then_some(SlotNo(ample))
    }

    /// Slots to which the file may be cut, if it is longer. To be asked while no root is being written and both superblocks name
    /// the newest one.
    pub(crate) fn surplus_from(&self) -> Option<u32> {
        (self.extent > self.count).then_some(self.count)
    }

    /// Works out the free set of the root being written and gives its changed pages slots of their own.
    pub(crate) async fn plan_free_set(&mut self) -> Result<NextFreeSet, FileFull> {
        let mut used = self.durable.clone();
        for (i, slot) in self.superseded.iter().enumerate() {
            yield_every(i).await;
            assert!(used.remove(slot.0), "{slot:?} was left behind twice");
        }
        for (i, slot) in self.allocated.iter().enumerate() {
            yield_every(i).await;
            assert!(used.insert(slot.0), "{slot:?} was written while a durable root held it");
        }
        for (i, slot) in self.adopted.iter().enumerate() {
            yield_every(i).await;
            assert!(used.insert(slot.0), "{slot:?} was adopted although a durable root held it");
        }
        self.trim();
        let kept = self.count.div_ceil(SLOTS_PER_SET_PAGE) as usize;
        for gone in self.free_set.iter().skip(kept) {
            assert!(used.remove(gone.slot.0), "a page of the set is in use");
        }
        // Placing a page of the set changes the set, perhaps in another of its pages; each is placed once at most. So it is gone through again
        // until there is nothing to place.
        let mut pages: Vec<(usize, SlotNo)> = Vec::new();
        let (mut is_placed, mut next) = (Vec::new(), 0);
        loop {
            let len = self.count.div_ceil(SLOTS_PER_SET_PAGE) as usize;
            is_placed.resize(len, false);
            let changed = |i: &usize| match self.free_set.get(*i) {
                None => true,
                Some(old) => {
                    old.slot.0 >= self.count
                        || self.damaged_set_pages.contains(i)
                        || used.set_page(*i).ne(self.durable.set_page(*i))
                }
            };
            let Some(index) = (next..len).find(|i| !is_placed[*i] && changed(i)) else {
                if next == 0 {
                    break;
                }
                next = 0;
                yield_now().await;
                continue;
            };
            let slot = self.allocate()?;
            assert!(used.insert(slot.0));
            if let Some(old) = self.free_set.get(index) {
                assert!(used.remove(old.slot.0));
            }
            pages.push((index, slot));
            (is_placed[index], next) = (true, index + 1);
        }
        assert!(pages.len() <= kept || self.free_set.len() <= kept, "a trim leaves room for the set's pages");
        Ok(NextFreeSet { used, count: self.count, pages })
    }

    /// The root that holds `next` is durable: what only the root before it reached is free.
    pub(crate) async fn publish(&mut self, next: NextFreeSet, free_set: Vec<Location>) {
        for (index, _) in &next.pages {
            if let Some(old) = self.free_set.get(*index) {
                assert!(self.taken.remove(old.slot.0));
            }
        }
        for gone in self.free_set.iter().skip(next.len()) {
            assert!(self.taken.remove(gone.slot.0));
        }
        for (i, slot) in self.superseded.drain(..).enumerate() {
            yield_every(i).await;
            if self.dropped.remove(&slot) {
                assert!(self.taken.remove(slot.0));
            } else {
                self.snapshot_only.insert(slot);
            }
        }
        self.allocated.clear();
        self.adopted.clear();
        self.damaged_set_pages.clear();
        for (i, slot) in self.allocated_for_snapshots.drain(..).enumerate() {
            yield_every(i).await;
            self.snapshot_only.insert(slot);
        }
        assert_eq!(free_set.len(), next.len(), "the set describes just the file's slots");
        self.durable = next.used;
        self.free_set = free_set;
        self.sparing = self.sparing.saturating_sub(1);
        self.search_anew();
    }

    /// The root being written was given up before its superblock was touched: its slots are free again.
    pub(crate) fn abandon(&mut self) {
        for slot in self.allocated.drain(..).chain(self.allocated_for_snapshots.drain(..)) {
            assert!(self.taken.remove(slot.0));
        }
        // Neither grown beyond what the disk had room for, nor cut where the durable root has slots.
        self.count = self.extent;
        self.sparing = SPARING_ROOTS;
        self.search_anew();
    }

    /// Slots that no root needs but a snapshot keeps from being written.
    pub(crate) fn held_by_snapshots(&self) -> usize {
        self.snapshot_only.len()
    }
}

#[cfg(test)]
mod tests {
    use env::Env;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        env::block_on(&Env::real_on_epoll(), future)
    }

    /// Notes what the live map left behind and what memory let go of.
    fn note(slots: &mut Slots, superseded: Vec<SlotNo>, released: Vec<SlotNo>) {
        slots.supersede(superseded);
        released.into_iter().for_each(|slot| slots.release(slot));
    }

    fn fresh(count: u32) -> Slots {
        let mut used = SlotSet::default();
        for slot in 0..3 {
            used.insert(slot);
        }
        Slots::new(count, used, vec![Location { slot: SlotNo(2), checksum: 1 }])
    }

    fn root(slots: &mut Slots) {
        let next = block_on(slots.plan_free_set()).expect("room");
        let mut free_set: Vec<Location> = (0..).map_while(|i| slots.free_set_location(i)).collect();
        free_set.truncate(next.len());
        for (index, slot) in &next.pages {
            free_set.resize(free_set.len().max(index + 1), Location { slot: *slot, checksum: 0 });
            free_set[*index].slot = *slot;
        }
        block_on(slots.publish(next, free_set));
    }

    #[test]
    fn the_first_absent_slot_is_found_across_words() {
        let mut set = SlotSet::default();
        for slot in (0..200).filter(|s| ![5, 64, 130, 199].contains(s)) {
            set.insert(slot);
        }
        assert_eq!(set.first_absent(0, 200, 1), Some(5));
        assert_eq!(set.first_absent(6, 200, 1), Some(64));
        assert_eq!(set.first_absent(65, 200, 1), Some(130));
        assert_eq!(set.first_absent(131, 199, 1), None);
        assert_eq!(set.first_absent(131, 200, 1), Some(199));
        assert_eq!(set.first_absent(200, 1000, 1), Some(200));
        assert_eq!(set.iter().count() as u64, set.len());
    }

    #[test]
    fn the_first_run_that_is_long_enough_is_found() {
        let mut set = SlotSet::default();
        // Free: 10 to 12, 60 to 69, 100 to 107.
        for slot in
            (0..200).filter(|s| !(10..13).contains(s) && !(60..70).contains(s) && !(100..108).contains(s))
        {
            set.insert(slot);
        }
        assert_eq!(set.first_absent(0, 200, 2), Some(10));
        assert_eq!(set.first_absent(11, 200, 2), Some(11));
        assert_eq!(set.first_absent(12, 200, 2), Some(60));
        assert_eq!(set.first_absent(0, 200, 4), Some(60));
        assert_eq!(set.first_absent(61, 200, 4), Some(64), "61 to 64 are of two words");
        assert_eq!(set.first_absent(0, 200, 8), Some(100), "no word has eight of 60 to 69");
        assert_eq!(set.first_absent(0, 107, 8), None);
        assert_eq!(set.first_absent(101, 300, 8), Some(200));
    }

    /// Rewrites the pages that stand for a table which is changed all over, and adds some that are never changed again, as checkpoints under load do: pages by
    /// the write, and the file's length by what is in it, at the end.
    fn wear_down(slots: &mut Slots, rounds: u32) -> (f64, f64) {
        let mut hot: Vec<SlotNo> = (0..4000).map(|_| slots.allocate().expect("room")).collect();
        let mut kept: Vec<SlotNo> = (0..6000).map(|_| slots.allocate().expect("room")).collect();
        root(slots);
        slots.extent = slots.count();
        let mut by_write = 0.0;
        for round in 0..rounds {
            let (mut writes, mut last) = (0, None);
            for (i, page) in hot.iter_mut().enumerate().filter(|(i, _)| (i * 7 + round as usize) % 10 != 0) {
                let slot = slots.allocate().expect("room");
                writes += u32::from(last != Some(slot.0.wrapping_sub(1)));
                last = Some(slot.0);
                let old = std::mem::replace(page, slot);
                note(slots, vec![old], vec![old]);
                if i % 40 == 0 {
                    kept.push(slots.allocate().expect("room"));
                    last = None;
                }
            }
            root(slots);
            slots.extent = slots.count();
            by_write = 3600.0 / f64::from(writes);
        }
        (by_write, f64::from(slots.count()) / (hot.len() + kept.len()) as f64)
    }

    #[test]
    fn runs_of_free_slots_are_not_worn_down() {
        let (by_write, length) = wear_down(&mut fresh(8), 60);
        // This one takes any slot.
        let mut any = Slots { sparing: u32::MAX, ..fresh(8) };
        any.search_anew();
        let (by_write_of_any, length_of_any) = wear_down(&mut any, 60);
        assert!(by_write > 1.5 * by_write_of_any, "{by_write} and {by_write_of_any} pages by the write");
        assert!(length < 1.2 * length_of_any, "{length} and {length_of_any} times what is in it");
    }

    #[test]
    fn what_is_to_leave_the_end_of_a_long_file_goes_to_the_lowest_slots() {
        let mut slots = fresh(8);
        let many: Vec<SlotNo> = (0..20_000).map(|_| slots.allocate().expect("room")).collect();
        root(&mut slots);
        slots.extent = slots.count();
        // Every other one of the first is kept, and one at the end: long runs lie behind where the file is to be cut.
        let is_kept = |i: usize| i == 19_999 || (i < 4000 && i % 2 == 0);
        let gone: Vec<SlotNo> =
            many.iter().enumerate().filter(|(i, _)| !is_kept(*i)).map(|(_, slot)| *slot).collect();
        note(&mut slots, gone.clone(), gone);
        root(&mut slots);
        let cut = slots.move_from().expect("most of the file is free");
        let moved = slots.allocate().expect("room");
        assert!(moved < cut && moved.0 < 4000, "{moved:?}, to be cut from {cut:?}");
    }

    #[test]
    fn each_free_slot_is_used_where_there_was_no_room() {
        let mut slots = fresh(8);
        wear_down(&mut slots, 20);
        let free = slots.count() - slots.taken.len() as u32;
        assert!(free > 1000);
        slots.abandon();
        (0..free).for_each(|_| _ = slots.allocate().expect("room"));
        assert_eq!(slots.count(), slots.extent, "nothing was grown before each was used");
        slots.allocate().expect("room");
        assert!(slots.count() > slots.extent);
    }

    #[test]
    fn a_slot_is_free_only_after_both_the_root_and_the_memory_let_go() {
        for memory_first in [true, false] {
            let mut slots = fresh(16);
            let slot = slots.allocate().expect("room");
            root(&mut slots);
            assert!(slots.durable.contains(slot.0));
            if memory_first {
                note(&mut slots, vec![slot], vec![slot]);
                assert!(slots.taken.contains(slot.0), "the durable root still holds it");
                root(&mut slots);
            } else {
                note(&mut slots, vec![slot], vec![]);
                root(&mut slots);
                assert!(slots.taken.contains(slot.0), "a snapshot still holds it");
                assert!(!slots.durable.contains(slot.0), "the stored set does not leak it");
                assert_eq!(slots.held_by_snapshots(), 1);
                note(&mut slots, vec![], vec![slot]);
            }
            assert!(!slots.taken.contains(slot.0));
        }
    }

    #[test]
    fn an_abandoned_root_gives_its_slots_back() {
        let mut slots = fresh(8);
        let before = slots.taken.clone();
        for _ in 0..40 {
            slots.allocate().expect("room");
        }
        block_on(slots.plan_free_set()).expect("room");
        slots.abandon();
        assert_eq!(slots.taken.iter().collect::<Vec<_>>(), before.iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_free_end_is_cut_off_once_both_roots_are_shorter() {
        let mut slots = fresh(8);
        let many: Vec<SlotNo> =
            (0..2 * SLOTS_PER_SET_PAGE + 99).map(|_| slots.allocate().expect("room")).collect();
        root(&mut slots);
        slots.extent = slots.count();
        let long = slots.count();
        assert_eq!(slots.surplus_from(), None);
        let (kept, gone) = many.split_at(500);
        note(&mut slots, gone.to_vec(), gone.to_vec());
        root(&mut slots);
        root(&mut slots);
        assert!(slots.count() < 1200, "{} slots for {} pages", slots.count(), kept.len());
        assert_eq!(slots.free_set.len(), 1);
        assert_eq!(slots.used_by_durable_root(), 2 + kept.len() as u64 + 1);
        assert_eq!(slots.surplus_from(), Some(slots.count()), "of {long}");
        // What is left is used again, and the file grows as ever.
        (0..2000).for_each(|_| assert!(slots.allocate().is_ok()));
        root(&mut slots);
        assert!(slots.taken.iter().eq(slots.durable.iter()));
    }

    #[test]
    fn a_trim_that_is_given_up_cuts_nothing() {
        let mut slots = fresh(8);
        let many: Vec<SlotNo> = (0..5000).map(|_| slots.allocate().expect("room")).collect();
        root(&mut slots);
        slots.extent = slots.count();
        let long = slots.count();
        note(&mut slots, many.clone(), many);
        root(&mut slots);
        block_on(slots.plan_free_set()).expect("room");
        assert!(slots.count() < long);
        slots.abandon();
        assert_eq!(slots.count(), long, "the durable root reaches as far");
    }

    #[test]
    fn each_page_of_a_large_free_set_is_placed_once() {
        let mut slots = fresh(SLOTS_MAX - 2 * SLOTS_PER_SET_PAGE);
        // One slot in each page of the set, and its neighbour afterwards.
        let place = |slots: &mut Slots, at: u32| {
            let each = (at..slots.count()).step_by(SLOTS_PER_SET_PAGE as usize);
            let taken: Vec<SlotNo> = each
                .map(|slot| {
                    slots.cursor = slot;
                    slots.allocate().expect("room")
                })
                .collect();
            slots.search_anew();
            taken
        };
        let first = place(&mut slots, 1000);
        root(&mut slots);
        place(&mut slots, 1001);
        note(&mut slots, first.clone(), first);
        let next = block_on(slots.plan_free_set()).expect("room");
        assert_eq!(next.pages.len(), FREE_SET_PAGES_MAX - 2, "each has changed");
        slots.abandon();
        root(&mut slots);
        assert_eq!(slots.used_by_durable_root(), FREE_SET_PAGES_MAX as u64, "superblocks and the set itself");
    }

    #[test]
    fn the_free_set_accounts_for_its_own_pages() {
        let mut slots = fresh(8);
        let many: Vec<SlotNo> =
            (0..3 * SLOTS_PER_SET_PAGE).map(|_| slots.allocate().expect("room")).collect();
        root(&mut slots);
        let pages = slots.count().div_ceil(SLOTS_PER_SET_PAGE) as u64;
        assert_eq!(slots.used_by_durable_root(), 2 + many.len() as u64 + pages);
        note(&mut slots, many.clone(), many);
        root(&mut slots);
        assert_eq!(slots.used_by_durable_root(), 2 + pages);
        assert!(slots.taken.iter().eq(slots.durable.iter()));
        let highest = slots.durable.iter().last();
        assert_eq!(slots.durable.shrink_to_highest(), highest);
    }
}
