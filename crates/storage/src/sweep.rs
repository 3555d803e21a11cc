//! Making room: a hand that goes over a map's pages, a map leaf at a time, finds out which were used since its last visit, and
//! evicts those that the governor's choice names of the others.
//!
//! The hand clears the address that an entry keeps of its page's frame. The next access finds the frame through the version
//! and sets the address anew, which is all the trace that a use leaves: the fast path of an access stores nothing. Pages whose
//! only copy is in memory stay until a checkpoint has written them; pages that a statement holds until it is through stay too.
//! Versions that snapshots alone still hold are swept after the last leaf, and before them those that an adopted branch replaced
//! and that no checkpoint has looked at yet.

use std::sync::{Arc, Weak};

use base::PageNo;
use governor::{EvictionTime, VictimChoice};

use crate::PageMap;
use crate::branch::{Left, Switch};
use crate::radix::{Entry, FANOUT, Leaf};
use crate::version::PageVersion;

/// Retired versions swept at a time.
const RETIRED_A_STEP: usize = 256;

/// What a step of a sweep did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Pages in memory that were looked at.
    pub visited: u32,
    pub evicted: u32,
    /// Whether the step ended a lap over all pages.
    pub ends_lap: bool,
}

/// What a sweep looks at next: the pages of the current state from a number on (`None` behind the last), those that only the
/// other state has where there is a branch, and the retired versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hand {
    Current(Option<u32>),
    Other(Option<u32>),
    /// Of the live pages that an adopted branch replaced, in one switch after the other, until a checkpoint has looked at them.
    Replaced(usize, Option<u32>),
    Retired,
}

impl Default for Hand {
    fn default() -> Hand {
        Hand::Current(Some(0))
    }
}

/// Versions that others may hold, by page.
pub(crate) type WeakVersions = Vec<(PageNo, Weak<PageVersion>)>;

/// Versions that the live map left behind while a snapshot held them.
#[derive(Default)]
pub(crate) struct Retired {
    versions: Thinned,
    hand: usize,
    /// Of those left behind since the last checkpoint began, the ones that only memory had then: some may have been written by a
    /// checkpoint that was under way.
    unwritten: Thinned,
}

/// Versions that leave the list one after the other once they are gone, so that it has few more than there are.
#[derive(Default)]
struct Thinned {
    list: WeakVersions,
    /// The one that is looked at next.
    look_at: usize,
}

/// Versions looked at for each that is added: a lap ends before the list has half as many more.
const LOOKS_A_PUSH: usize = 2;

impl Thinned {
    fn push(&mut self, no: PageNo, version: Weak<PageVersion>) {
        for _ in 0..LOOKS_A_PUSH {
            match self.list.get(self.look_at) {
                None => self.look_at = 0,
                Some((_, version)) if version.strong_count() == 0 => {
                    drop(self.list.swap_remove(self.look_at))
                }
                Some(_) => self.look_at += 1,
            }
        }
        self.list.push((no, version));
    }
}

impl Retired {
    pub(crate) fn add(&mut self, no: PageNo, version: &Arc<PageVersion>) {
        if Arc::strong_count(version) > 1 {
            if version.location().is_none() {
                self.unwritten.push(no, Arc::downgrade(version));
            }
            self.versions.push(no, Arc::downgrade(version));
        }
    }

    /// Takes in what a branch in the live pages' place left to snapshots.
    pub(crate) fn take_in(&mut self, left: Left) {
        for (no, version) in left {
            if let Some(version) = version.upgrade() {
                self.add(no, &version);
            }
        }
    }

    /// At most so many are in memory only.
    pub(crate) fn unwritten_max(&self) -> u64 {
        self.unwritten.list.len() as u64
    }

    /// Those that only memory had, to be written by a checkpoint that begins, if there are any left by then.
    pub(crate) fn take_unwritten(&mut self) -> WeakVersions {
        self.unwritten.look_at = 0;
        std::mem::take(&mut self.unwritten.list)
    }

    /// The checkpoint that took them was given up.
    pub(crate) fn put_unwritten_back(&mut self, mut taken: WeakVersions) {
        taken.append(&mut self.unwritten.list);
        self.unwritten.list = taken;
    }

    /// The next few versions that are still there, and whether they are the last.
    fn step(&mut self) -> (Vec<(PageNo, Arc<PageVersion>)>, bool) {
        let (mut found, versions) = (Vec::new(), &mut self.versions.list);
        while found.len() < RETIRED_A_STEP && self.hand < versions.len() {
            match versions[self.hand].1.upgrade() {
                Some(version) => {
                    found.push((versions[self.hand].0, version));
                    self.hand += 1;
                }
                None => {
                    versions.swap_remove(self.hand);
                }
            }
        }
        let ended = self.hand >= versions.len();
        if ended {
            self.hand = 0;
        }
        (found, ended)
    }
}

pub(crate) fn resident_pages(first: u32, leaf: &Leaf) -> impl Iterator<Item = (PageNo, &PageVersion)> {
    leaf.entries.iter().enumerate().filter_map(move |(i, entry)| {
        let version = entry.version.as_deref().filter(|version| version.is_resident())?;
        Some((PageNo(first + i as u32), version))
    })
}

impl PageMap {
    /// Sweeps over the next few pages, at most 256: one step, a few microseconds. `now` is the server's eviction clock.
    pub fn sweep(&mut self, choice: &mut VictimChoice, now: EvictionTime) -> Swept {
        self.take_posts();
        let mut swept = Swept::default();
        loop {
            match self.hand {
                Hand::Current(from) => {
                    if let Some((first, leaf)) =
                        from.and_then(|from| self.current.root.leaf_from(self.current.height, 0, from))
                    {
                        let pages = || leaf.into_iter().flat_map(|leaf| resident_pages(first, leaf));
                        for (no, version) in pages() {
                            let used = self.cool(no);
                            self.consider(no, version, used, choice, now, &mut swept);
                        }
                        let is_out_of_memory = leaf.is_some() && pages().next().is_none();
                        if is_out_of_memory {
                            self.freeze(PageNo(first));
                        }
                        self.hand = Hand::Current(first.checked_add(FANOUT as u32));
                        return swept;
                    }
                    self.hand = Hand::Other(Some(0));
                }
                Hand::Other(from) => {
                    let other = self.branch.as_ref().map(|branch| &branch.other);
                    let leaf = other.zip(from).and_then(|(o, from)| o.root.leaf_from(o.height, 0, from));
                    if let Some((first, leaf)) = leaf {
                        for (no, version) in leaf.into_iter().flat_map(|leaf| resident_pages(first, leaf)) {
                            if !self.has_version(no, version) {
                                let used = self.cool(no);
                                self.consider(no, version, used, choice, now, &mut swept);
                            }
                        }
                        self.hand = Hand::Other(first.checked_add(FANOUT as u32));
                        return swept;
                    }
                    self.hand = Hand::Replaced(0, Some(0));
                }
                Hand::Replaced(i, from) => {
                    let Some(old) = self.switches.get(i).map(Switch::old) else {
                        self.hand = Hand::Retired;
                        continue;
                    };
                    let leaf = from.and_then(|from| old.root.leaf_from(old.height, 0, from));
                    let Some((first, leaf)) = leaf else {
                        self.hand = Hand::Replaced(i + 1, Some(0));
                        continue;
                    };
                    for (no, version) in leaf.into_iter().flat_map(|leaf| resident_pages(first, leaf)) {
                        if !self.has_version(no, version) {
                            // The other state may have it.
                            let used = self.branch.is_some() && self.cool(no);
                            self.consider(no, version, used, choice, now, &mut swept);
                        }
                    }
                    self.hand = Hand::Replaced(i, first.checked_add(FANOUT as u32));
                    return swept;
                }
                Hand::Retired => {
                    let (versions, ended) = self.retired.step();
                    for (no, version) in versions.iter().filter(|(_, version)| version.is_resident()) {
                        // The branch may have it still, or the live pages again since they were a branch.
                        let is_reached = self.branch.is_some() || self.has_version(*no, version);
                        let used = is_reached && self.cool(*no);
                        self.consider(*no, version, used, choice, now, &mut swept);
                    }
                    if ended {
                        self.hand = Hand::default();
                        swept.ends_lap = true;
                    }
                    return swept;
                }
            }
        }
    }

    /// Whether the current state has this version of page `no`.
    pub(crate) fn has_version(&self, no: PageNo, version: &PageVersion) -> bool {
        let here = self.current.warm_entry(no).and_then(|entry| entry.version.as_deref());
        here.is_some_and(|here| std::ptr::eq(here, version))
    }

    fn consider(
        &self,
        no: PageNo,
        version: &PageVersion,
        used: bool,
        choice: &mut VictimChoice,
        now: EvictionTime,
        swept: &mut Swept,
    ) {
        swept.visited += 1;
        let uses = version.uses();
        if used || uses.is_touched() {
            self.note_used(choice, uses, now);
            version.set_uses(uses.used_at(now));
        } else if version.is_evictable()
            && !self.is_held(no)
            && self.is_victim(choice, uses, now)
            && version.evict()
        {
            swept.evicted += 1;
        }
    }

    /// Drops page `no` from memory if the file has it and nobody holds or pins it; true if it did.
    pub fn evict(&mut self, no: PageNo) -> bool {
        self.cool(no);
        let Some(entry) = self.current.warm_entry(no) else { return false };
        !self.is_held(no) && entry.version.as_ref().is_some_and(|version| version.evict())
    }

    /// Drops all pages from memory that can be: those that the file has and that nobody holds or pins. Returns how many. Takes
    /// some 10 ns a page of the map.
    pub fn evict_all(&mut self) -> u64 {
        let mut evicted = 0;
        let mut evict = |no: PageNo, entry: Option<&Entry>| {
            let Some(entry) = entry else { return };
            self.cool(no);
            let version = entry.version.as_ref().expect("only pages are visited");
            evicted += u64::from(!self.is_held(no) && version.evict());
        };
        self.current.root.for_each(self.current.height, 0, &mut evict);
        if let Some(branch) = &self.branch {
            branch.other.root.for_each(branch.other.height, 0, &mut evict);
        }
        for old in self.switches.iter().map(Switch::old) {
            old.root.for_each(old.height, 0, &mut evict);
        }
        loop {
            let (versions, ended) = self.retired.step();
            let held = |no: &PageNo| self.held.contains_key(no);
            evicted += versions.iter().filter(|(no, version)| !held(no) && version.evict()).count() as u64;
            if ended {
                self.note_emptied();
                return evicted;
            }
        }
    }

    /// Keeps page `no` in memory from when it is loaded until `end_holds`, for a statement that waits for it; false if
    /// the tenant's statements hold too many pages already.
    pub fn hold(&mut self, no: PageNo) -> bool {
        if self.room_asker().is_some_and(|asker| !asker.try_hold()) {
            return false;
        }
        *self.held.entry(no).or_insert(0) += 1;
        true
    }

    /// Ends a `hold` of each of these pages.
    pub fn end_holds(&mut self, pages: &[PageNo]) {
        for no in pages {
            let count = self.held.get_mut(no).expect("a page that is let go was held");
            *count -= 1;
            if *count == 0 {
                self.held.remove(no);
            }
        }
        if let Some(asker) = self.room_asker() {
            asker.end_holds(pages.len());
        }
    }

    fn is_held(&self, no: PageNo) -> bool {
        !self.held.is_empty() && self.held.contains_key(&no)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::version::MapShared;

    #[test]
    fn a_list_has_few_versions_that_are_gone() {
        let shared = MapShared::new(None);
        let made = (0..100).map(|_| Arc::new(PageVersion::resident(Frame::zeroed(), &shared)));
        let kept: Vec<_> = made.collect();
        let mut thinned = Thinned::default();
        for no in 0..10_000_u32 {
            let version = if no < 100 { Arc::downgrade(&kept[no as usize]) } else { Weak::new() };
            thinned.push(PageNo(no), version);
        }
        let there = thinned.list.iter().filter(|(_, version)| version.strong_count() > 0).count();
        assert!(there == 100 && thinned.list.len() < 220, "{there} of {}", thinned.list.len());
    }
}
