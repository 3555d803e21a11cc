//! A branch: a second state of one tenant's pages that goes on beside the live one, until it takes the live one's place or is
//! given up.
//!
//! Both share what neither has changed, so making a branch costs nothing that grows with the data, and so does adopting it. One
//! of the two is *current*: what a [`PageMap`] reads, changes and takes snapshots of. The home turns to the branch for the part
//! of a turn that works on it, and back.
//!
//! No root of the file reaches what only the branch has. Checkpoints of the live pages write those pages too, to slots that
//! count as free on disk, so that they can leave memory; adopting the branch makes its slots the next root's. Which slots those
//! are, and which the live pages had that the branch has not, is worked out by the checkpoint that follows, from both roots:
//! it takes time, and nobody waits for it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::{Epoch, PageNo, SlotNo};
use rustc_hash::FxHashSet;

use crate::PageMap;
use crate::map::BeingWritten;
use crate::radix::{FANOUT, Leaf, Link, shift_of};
use crate::side::Side;
use crate::slots::Slots;
use crate::snapshot::Snapshot;
use crate::sweep::WeakVersions;
use crate::version::{PageVersion, ReleasedChain};
use crate::yield_now::yield_every;

/// What a map has while there is a branch.
pub(crate) struct Branch {
    /// The state that is not current.
    pub(crate) other: Side,
    /// Whether the branch is the current state.
    pub(crate) is_current: bool,
    /// What was born later is the branch's own, if the branch has it.
    pub(crate) forked: Epoch,
    /// Pages the branch made since the last checkpoint began, in the order in which it made them.
    pub(crate) unwritten: Vec<Arc<PageVersion>>,
    /// How many such pages a running checkpoint writes.
    pub(crate) being_written: u64,
}

/// Pages of a branch that a checkpoint writes along with its own.
#[derive(Default)]
pub(crate) struct OfBranch {
    /// [`Branch::forked`]: no other branch of the map has the same.
    pub(crate) forked: Option<Epoch>,
    pub(crate) versions: Vec<Arc<PageVersion>>,
}

/// The live pages before and after a branch took their place.
pub(crate) struct Switch {
    /// What was left behind since the switch before, or the last checkpoint.
    slots: Vec<SlotNo>,
    /// The same, by a checkpoint that ran then: it has ended when this is looked at.
    being_written: Vec<BeingWritten>,
    old: Snapshot,
    new: Snapshot,
}

impl Switch {
    pub(crate) fn old(&self) -> &Snapshot {
        &self.old
    }
}

/// What a checkpoint takes over from the map: slots that the live pages left behind, with what happened between.
pub(crate) struct Behind {
    pub(crate) switches: Vec<Switch>,
    pub(crate) slots: Vec<SlotNo>,
    /// What the last checkpoint had in its hands when the live pages left it behind.
    pub(crate) was_written: VecDeque<BeingWritten>,
    pub(crate) released: ReleasedChain,
}

/// Versions that a switch left to snapshots alone.
pub(crate) type Left = WeakVersions;

impl PageMap {
    /// Makes a branch of the live pages, in constant time but for four bytes for each 256 pages.
    ///
    /// # Panics
    /// If there is one.
    pub fn fork(&mut self) {
        assert!(self.branch.is_none(), "one branch at a time");
        let forked = self.current.epoch;
        self.current.epoch = forked.next();
        let other = Side {
            root: self.current.root.clone(),
            numbers: self.current.numbers.clone(),
            changed: 0,
            ..self.current
        };
        let branch = Branch { other, is_current: false, forked, unwritten: Vec::new(), being_written: 0 };
        self.branch = Some(Box::new(branch));
    }

    /// Whether there is a branch.
    pub fn has_branch(&self) -> bool {
        self.branch.is_some()
    }

    /// Whether the branch is what is read and changed now.
    pub fn is_in_branch(&self) -> bool {
        self.branch.as_ref().is_some_and(|branch| branch.is_current)
    }

    /// Makes the branch the current state, or the live pages.
    ///
    /// # Panics
    /// If there is no branch, or if that is the current state already.
    pub fn turn(&mut self, to_branch: bool) {
        let mut branch = self.branch.take().expect("there is a branch to turn to or from");
        assert!(branch.is_current != to_branch, "the map is in that state already");
        std::mem::swap(&mut self.current, &mut branch.other);
        branch.is_current = to_branch;
        self.branch = Some(branch);
    }

    /// Puts the branch in the place of the live pages, in constant time.
    ///
    /// # Panics
    /// If there is no branch, or if it is current.
    pub fn adopt_branch(&mut self) {
        let mut branch = self.branch.take().expect("there is a branch to adopt");
        assert!(!branch.is_current, "the map was turned back");
        let old = self.snapshot();
        std::mem::swap(&mut self.current, &mut branch.other);
        // Counts pages that a checkpoint wrote before it was given up twice, and those the branch gave up.
        self.current.changed += branch.other.changed;
        self.current.epoch = Epoch(self.current.epoch.0.max(branch.other.epoch.0)).next();
        self.checkpointed = self.current.epoch;
        let new = self.snapshot();
        if self.shared.reader.is_some() {
            let (slots, being_written) = self.left_behind.take_for_switch(self.current.epoch);
            self.switches.push(Switch { slots, being_written, old, new });
        } else {
            self.discarded.add(old);
        }
        // The live pages have them. A long list of them goes bit by bit.
        if branch.unwritten.len() > VERSIONS_AT_ONCE {
            self.discarded.take_in(branch.unwritten);
        }
    }

    /// Gives the branch up. Its pages go with [`PageMap::reclaim_discarded`].
    ///
    /// # Panics
    /// If there is none, or if it is current.
    pub fn drop_branch(&mut self) {
        let branch = self.branch.take().expect("there is a branch to give up");
        assert!(!branch.is_current, "the map was turned back");
        let Branch { other: Side { root, .. }, unwritten, .. } = *branch;
        self.discarded.links.push(root);
        self.discarded.take_in(unwritten);
    }

    /// Lets go of one of the map's snapshots that nobody else has. What it alone kept goes with [`PageMap::reclaim_discarded`] if snapshots
    /// keep more than a turn may free.
    ///
    /// # Panics
    /// If it is another map's.
    pub fn let_go(&mut self, snapshot: Snapshot) {
        assert!(self.is_origin_of(&snapshot), "a snapshot is given back to its own home");
        if self.retained_pages() > VERSIONS_AT_ONCE as u64 {
            self.discarded.add(snapshot);
        }
    }

    /// Frees some of what states that were given up hold, some 50 us of work; true if there is more.
    pub fn reclaim_discarded(&mut self) -> bool {
        for _ in 0..DISCARDED_A_STEP {
            if !self.discarded.step() && !self.left_behind.settle_some(VERSIONS_A_STEP) {
                return false;
            }
        }
        true
    }

    /// Drops the map; the future drops what was in it, bit by bit, and yields now and then.
    pub fn free(mut self) -> impl Future<Output = ()> + Send + use<> {
        let mut discarded = std::mem::take(&mut self.discarded);
        discarded.links.push(std::mem::take(&mut self.current.root));
        if let Some(mut branch) = self.branch.take() {
            discarded.links.push(std::mem::take(&mut branch.other.root));
            discarded.take_in(std::mem::take(&mut branch.unwritten));
        }
        for switch in std::mem::take(&mut self.switches) {
            discarded.add(switch.old);
            discarded.add(switch.new);
        }
        drop(self);
        discarded.free()
    }

    /// Clears the addresses that entries of page `no` keep of its frame, in both states; true if one of them was set.
    pub(crate) fn cool(&self, no: PageNo) -> bool {
        let cool = |entry: &crate::radix::Entry| entry.cool();
        let here = self.current.warm_entry(no).is_some_and(cool);
        let there = self.branch.as_ref().is_some_and(|branch| branch.other.warm_entry(no).is_some_and(cool));
        here || there
    }

    /// Notes a page that the branch has made, if it is what is being changed.
    pub(crate) fn note_of_branch(&mut self, no: PageNo) {
        if let Some(branch) = self.branch.as_mut().filter(|branch| branch.is_current)
            && let Some(version) = self.current.entry(no).and_then(|entry| entry.version.as_ref())
        {
            branch.unwritten.push(Arc::clone(version));
        }
    }
}

impl Branch {
    /// The versions that a checkpoint writes along with its own. The branch copies them before it changes them again.
    pub(crate) fn begin_checkpoint(&mut self) -> OfBranch {
        assert!(!self.is_current, "a checkpoint begins in the live pages");
        self.other.epoch = self.other.epoch.next();
        let versions = std::mem::take(&mut self.unwritten);
        self.being_written = versions.len() as u64;
        OfBranch { forked: Some(self.forked), versions }
    }

    /// Takes back what a checkpoint has not written.
    pub(crate) fn end_checkpoint(&mut self, unwritten: Vec<Arc<PageVersion>>) {
        self.being_written = 0;
        self.unwritten.extend(unwritten);
    }
}

/// Pages and nodes that are freed bit by bit.
#[derive(Default)]
pub(crate) struct Discarded {
    links: Vec<Link>,
    versions: Vec<Arc<PageVersion>>,
}

/// Nodes and pages freed between two looks at whether to go on: of a node all pages go at once.
const DISCARDED_A_STEP: usize = 4;

/// Pages freed at a time, as many as a leaf has.
const VERSIONS_A_STEP: usize = FANOUT;

/// References to pages that a turn lets go of.
const VERSIONS_AT_ONCE: usize = DISCARDED_A_STEP * VERSIONS_A_STEP;

impl Discarded {
    pub(crate) fn add(&mut self, mut snapshot: Snapshot) {
        self.links.push(std::mem::take(&mut snapshot.root));
    }

    pub(crate) fn take_in(&mut self, versions: Vec<Arc<PageVersion>>) {
        if self.versions.is_empty() {
            self.versions = versions;
        } else {
            self.versions.extend(versions);
        }
    }

    pub(crate) fn take_in_nodes(&mut self, nodes: impl IntoIterator<Item = Link>) {
        self.links.extend(nodes);
    }

    /// Frees a leaf's worth of pages; false if there was nothing.
    pub(crate) fn step(&mut self) -> bool {
        if !self.versions.is_empty() {
            let left = self.versions.len().saturating_sub(VERSIONS_A_STEP);
            self.versions.truncate(left);
            return true;
        }
        match self.links.pop() {
            None => return false,
            Some(Link::Inner(inner)) => {
                if let Some(inner) = Arc::into_inner(inner) {
                    self.links.extend(inner.kids.into_iter().filter(|kid| !matches!(kid, Link::Empty)));
                }
            }
            Some(Link::Leaf(_) | Link::Cold(_) | Link::Empty) => {}
        }
        true
    }

    pub(crate) async fn free(mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            if steps % DISCARDED_A_STEP == 0 {
                crate::yield_now::yield_now().await;
            }
        }
    }
}

/// The slots that the next root does not have and those that it has anew, as they come.
struct Exchanged<'s> {
    slots: &'s mut Slots,
    /// Those it does not have.
    behind: FxHashSet<SlotNo>,
    left: Left,
}

impl Exchanged<'_> {
    fn leave(&mut self, slot: SlotNo) {
        // One that was adopted since the last root goes back to snapshots alone.
        if !self.slots.unadopt(slot) {
            assert!(self.behind.insert(slot), "{slot:?} was left behind twice");
        }
    }

    fn adopt(&mut self, slot: SlotNo) {
        if !self.behind.remove(&slot) {
            self.slots.adopt(slot);
        }
    }
}

impl Behind {
    /// [`Behind::take_in`] without letting others run.
    pub(crate) fn take_in_now(self, slots: &mut Slots) -> Left {
        let mut taken = pin!(self.take_in(slots));
        loop {
            // It waits for nothing but its next turn.
            if let Poll::Ready(left) = taken.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return left;
            }
        }
    }

    /// Tells `slots` all of it; yields now and then. Returns what is left to snapshots alone.
    pub(crate) async fn take_in(self, slots: &mut Slots) -> Left {
        let Behind { switches, slots: mut last, was_written, released } = self;
        let mut discarded = Discarded::default();
        let mut steps = 0;
        let mut tick = || {
            steps += 1;
            yield_every(steps)
        };
        for written in was_written {
            tick().await;
            last.extend(written.location().map(|location| location.slot));
        }
        let left = if switches.is_empty() && !slots.has_adopted() {
            slots.supersede(last);
            Left::new()
        } else {
            let superseded = slots.take_superseded();
            let mut behind = FxHashSet::with_capacity_and_hasher(superseded.len(), Default::default());
            for slot in superseded {
                tick().await;
                behind.insert(slot);
            }
            let mut exchanged = Exchanged { slots, behind, left: Left::new() };
            for mut switch in switches {
                for slot in std::mem::take(&mut switch.slots) {
                    tick().await;
                    exchanged.leave(slot);
                }
                for written in std::mem::take(&mut switch.being_written) {
                    tick().await;
                    written.location().into_iter().for_each(|location| exchanged.leave(location.slot));
                }
                let mut differences = Differences::of(&switch);
                while differences.step(&mut exchanged) {
                    crate::yield_now::yield_now().await;
                }
                discarded.add(switch.old);
                discarded.add(switch.new);
            }
            for slot in last {
                tick().await;
                exchanged.leave(slot);
            }
            let Exchanged { slots, behind, left } = exchanged;
            let mut superseded = Vec::with_capacity(behind.len());
            for slot in behind {
                tick().await;
                superseded.push(slot);
            }
            slots.supersede(superseded);
            left
        };
        for slot in released {
            tick().await;
            slots.release(slot);
        }
        discarded.free().await;
        // Of most nothing is left by now.
        let mut kept = Left::new();
        for (no, version) in left {
            tick().await;
            if version.strong_count() > 0 {
                kept.push((no, version));
            }
        }
        kept
    }
}

/// Two nodes with their heights, in the same place of the old and the new map, or of one of them only.
struct Pair {
    old: (Link, u32),
    new: (Link, u32),
    first: u32,
}

/// Goes through what differs between two roots.
struct Differences(Vec<Pair>);

impl Differences {
    fn of(switch: &Switch) -> Differences {
        let root = |snapshot: &Snapshot| (snapshot.root.clone(), snapshot.height);
        Differences(vec![Pair { old: root(&switch.old), new: root(&switch.new), first: 0 }])
    }

    /// Looks at one pair of nodes, at their pages if they are leaves; false if there is none left.
    fn step(&mut self, exchanged: &mut Exchanged<'_>) -> bool {
        let Some(Pair { old, new, first }) = self.0.pop() else { return false };
        if same_node(&old.0, &new.0) {
            return true;
        }
        let height = old.1.max(new.1);
        // A map that is less high stands where the first child of the higher one does.
        let (old, new) = (At::of(old, height), At::of(new, height));
        if let Some(location) = old.location() {
            exchanged.leave(location);
        }
        if let Some(location) = new.location() {
            exchanged.adopt(location);
        }
        if height == 0 {
            for i in 0..FANOUT {
                let (before, after) = (old.version(i), new.version(i));
                if before.map(Arc::as_ptr) == after.map(Arc::as_ptr) {
                    continue;
                }
                if let Some(version) = before {
                    version.location().into_iter().for_each(|l| exchanged.leave(l.slot));
                    exchanged.left.push((PageNo(first + i as u32), Arc::downgrade(version)));
                }
                if let Some(version) = after {
                    version.location().into_iter().for_each(|l| exchanged.adopt(l.slot));
                }
            }
            return true;
        }
        for i in 0..FANOUT {
            let (before, after) = (old.kid(i, height - 1), new.kid(i, height - 1));
            if !same_node(&before.0, &after.0) {
                let first = first + ((i as u32) << shift_of(height));
                self.0.push(Pair { old: before, new: after, first });
            }
        }
        true
    }
}

/// What a map has at a place.
enum At {
    Node(Link),
    /// Nothing of its own, and this root as the first child.
    Above(Link, u32),
}

impl At {
    fn of((link, height): (Link, u32), place: u32) -> At {
        if height == place { At::Node(link) } else { At::Above(link, height) }
    }

    fn location(&self) -> Option<SlotNo> {
        match self {
            At::Node(link) => link.location().map(|location| location.slot),
            At::Above(..) => None,
        }
    }

    fn leaf(&self) -> Option<&Leaf> {
        match self {
            At::Node(Link::Leaf(leaf)) => Some(leaf),
            At::Node(Link::Cold(cold)) => Some(cold.leaf()),
            _ => None,
        }
    }

    fn version(&self, i: usize) -> Option<&Arc<PageVersion>> {
        self.leaf().and_then(|leaf| leaf.entries[i].version.as_ref())
    }

    /// Child `i` and its height, which is `place` or less.
    fn kid(&self, i: usize, place: u32) -> (Link, u32) {
        match self {
            At::Node(Link::Inner(inner)) => (inner.kids[i].clone(), place),
            At::Above(link, height) if i == 0 => (link.clone(), *height),
            At::Node(_) | At::Above(..) => (Link::Empty, place),
        }
    }
}

fn same_node(a: &Link, b: &Link) -> bool {
    match (a, b) {
        (Link::Empty, Link::Empty) => true,
        (Link::Inner(a), Link::Inner(b)) => Arc::ptr_eq(a, b),
        (Link::Leaf(a), Link::Leaf(b)) => Arc::ptr_eq(a, b),
        (Link::Cold(a), Link::Cold(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}
