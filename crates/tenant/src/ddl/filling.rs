//! Filling a tree with entries that come in no order: a merge sort in the tenant's own pages.
//!
//! What is gathered in memory is kept in order. Whenever that is [`GATHERED_MAX`], it becomes a *run*, a tree that is only appended to;
//! at the end the runs are merged into the tree that was to be filled, which is only appended to as well. So a tree far larger than
//! memory is written twice and read once, front to back, where inserting in the order of arrival would read a page for each entry.
//! What fits into memory at once needs no run. Of each run the next entry is in memory while they are merged, but for a long value: runs of long
//! rows have few, and the next ones of all would be much of the table.
//!
//! All of it goes in steps of as many entries as the caller wants, stops at any page that is not in memory, and goes on from there.
//! Between steps the trees stand among the tenant's, where a checkpoint finds them, and no catalog names them: after a crash they are
//! orphans and their pages go.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};

use base::TreeId;
use btree::{Cursor, Seek, TreeRoot, Value};
use storage::{PageFault, PageMap};

use crate::row::keys::Key;
use crate::tenant::Tenant;
use crate::trees::TreeState;

/// Bytes of entries in memory at most, and one entry.
const GATHERED_MAX: usize = if cfg!(test) { 16 << 10 } else { 4 << 20 };

/// Bytes that an entry takes in memory beside its key and value.
const ENTRY_COST: usize = 96;

/// Bytes of a value that count as an entry more of those that a step moves.
const STEP_BYTES: usize = 1 << 10;

/// A tree that is being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    tree: TreeId,
    gathered: BTreeMap<Key, Vec<u8>>,
    gathered_bytes: usize,
    /// The run that what was gathered is being moved to.
    pouring: Option<TreeId>,
    runs: Vec<Run>,
    /// The next entry of each run, the smallest key first.
    heads: BinaryHeap<Head>,
    /// Runs whose next entry is yet to be fetched.
    headless: Vec<usize>,
    /// All entries have come.
    is_whole: bool,
}

#[derive(Debug)]
struct Run {
    tree: TreeId,
    root: TreeRoot,
    cursor: Cursor,
}

#[derive(PartialEq, Eq, Debug)]
struct Head {
    key: Key,
    run: usize,
    /// `None` for a long one, which is read when it goes on.
    value: Option<Vec<u8>>,
}

/// The one with the smallest key is the greatest, as a heap has it; of equal keys that of the earlier run.
impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        (&other.key, other.run).cmp(&(&self.key, self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Why a step did not end well. The same step can be done again.
#[derive(Debug)]
pub(crate) enum Stuck {
    Fault(PageFault),
    /// Two entries have this key; the value is one's.
    Duplicate(Key, Vec<u8>),
}

impl From<PageFault> for Stuck {
    fn from(fault: PageFault) -> Stuck {
        Stuck::Fault(fault)
    }
}

impl Filling {
    /// Of a tree that is empty and in no catalog.
    pub(crate) fn new(tree: TreeId) -> Filling {
        Filling {
            tree,
            gathered: BTreeMap::new(),
            gathered_bytes: 0,
            pouring: None,
            runs: Vec::new(),
            heads: BinaryHeap::new(),
            headless: Vec::new(),
            is_whole: false,
        }
    }

    /// The trees it has: one that is given up is given up with all of them.
    pub(crate) fn trees(&self) -> impl Iterator<Item = TreeId> {
        let runs = self.runs.iter().map(|run| run.tree);
        [self.tree].into_iter().chain(self.pouring).chain(runs)
    }

    /// Whether no more can be added before [`Filling::settle`] has moved what was gathered.
    pub(crate) fn is_full(&self) -> bool {
        self.pouring.is_some() || self.gathered_bytes >= GATHERED_MAX
    }

    /// Takes in an entry.
    ///
    /// # Errors
    /// The entry, if another one of those gathered has its key.
    pub(crate) fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), (Key, Vec<u8>)> {
        debug_assert!(!self.is_full() && !self.is_whole, "entries are added where there is room");
        let bytes = ENTRY_COST + key.len() + value.len();
        match self.gathered.entry(key) {
            Entry::Occupied(other) => Err((other.key().clone(), value)),
            Entry::Vacant(place) => {
                self.gathered_bytes += bytes;
                place.insert(value);
                Ok(())
            }
        }
    }

    /// Takes in an entry instead of the one that [`Filling::add`] found to have its key.
    pub(crate) fn replace(&mut self, key: Key, value: Vec<u8>) {
        self.gathered_bytes += value.len();
        let replaced = self.gathered.insert(key, value).expect("it has the key");
        self.gathered_bytes -= replaced.len();
    }

    /// The value of the entry that another one with its key came across, be it where entries are added or where they are moved to the tree.
    pub(crate) fn value_of(&self, tenant: &Tenant, key: &[u8]) -> Result<Option<Vec<u8>>, PageFault> {
        if let Some(value) = self.gathered.get(key) {
            return Ok(Some(value.clone()));
        }
        let found = btree::get(&tenant.pages, tenant.trees.root(self.tree), key)?;
        Ok(found.map(|value| value.read(&tenant.pages)).transpose()?.map(Cow::into_owned))
    }

    /// Moves the entry for which [`Filling::settle`] stopped to the place of the one that has its key.
    ///
    /// # Errors
    /// A page that is not in memory or cannot be read; nothing has changed then.
    pub(crate) fn put_over(&mut self, tenant: &mut Tenant) -> Result<(), PageFault> {
        let head = self.heads.peek().expect("it stopped for it");
        let value = match &head.value {
            Some(value) => Cow::Borrowed(&value[..]),
            None => Cow::Owned(self.runs[head.run].long_value(&tenant.pages, &head.key)?),
        };
        let mut state = tenant.trees.get(self.tree);
        tenant.try_put(&mut state, &head.key, &value)?;
        tenant.trees.set(self.tree, TreeState { dirty: true, ..state });
        self.leave_out();
        Ok(())
    }

    /// Leaves out the entry for which [`Filling::settle`] stopped.
    pub(crate) fn leave_out(&mut self) {
        let head = self.heads.pop().expect("it stopped for it");
        self.headless.push(head.run);
    }

    /// All entries have come: now [`Filling::settle`] fills the tree.
    pub(crate) fn end(&mut self) {
        self.is_whole = true;
    }

    /// Whether all entries have come.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Moves up to `entries_max` entries on to where they are to go next, fewer where their values are long, and takes them off that number. True if nothing
    /// is left to move: there is room for more entries or, once all have come, the tree is filled.
    ///
    /// # Errors
    /// A page that is not in memory or cannot be read, or two entries with the same key. Again, from where it stopped, with the next call.
    pub(crate) fn settle(&mut self, tenant: &mut Tenant, entries_max: &mut u32) -> Result<bool, Stuck> {
        let is_last_run = self.is_whole && !self.runs.is_empty() && !self.gathered.is_empty();
        if self.pouring.is_none() && (self.is_full() || is_last_run) {
            self.pouring = Some(tenant.next_tree());
        }
        if let Some(run) = self.pouring {
            if !self.pour(tenant, run, entries_max)? {
                return Ok(false);
            }
            self.pouring = None;
            self.headless.push(self.runs.len());
            let root = tenant.trees.root(run);
            self.runs.push(Run { tree: run, root, cursor: Cursor::new(root, Seek::Start) });
        }
        if !self.is_whole {
            return Ok(true);
        }
        if self.runs.is_empty() {
            return self.pour(tenant, self.tree, entries_max);
        }
        let mut state = tenant.trees.get(self.tree);
        let outcome = self.merge(&mut tenant.pages, &mut state, entries_max);
        tenant.trees.set(self.tree, TreeState { dirty: true, ..state });
        outcome
    }

    /// Gives up the runs once the tree is filled, and says which tree that is.
    pub(crate) fn finish(self, tenant: &mut Tenant) -> TreeId {
        assert!(self.gathered.is_empty() && self.heads.is_empty(), "every entry is in the tree");
        for run in self.runs {
            tenant.give_up_tree(run.tree);
        }
        self.tree
    }

    /// Moves what was gathered behind all that is in the tree `to`.
    fn pour(&mut self, tenant: &mut Tenant, to: TreeId, entries_max: &mut u32) -> Result<bool, Stuck> {
        let mut state = tenant.trees.get(to);
        let outcome = loop {
            if *entries_max == 0 {
                break Ok(false);
            }
            let Some(entry) = self.gathered.first_entry() else {
                self.gathered_bytes = 0;
                break Ok(true);
            };
            match btree::insert_new(&mut tenant.pages, &mut state.root, entry.key(), entry.get()) {
                Ok(is_new) => assert!(is_new, "gathered keys differ"),
                Err(fault) => break Err(fault.into()),
            }
            state.entries += 1;
            take(entries_max, entry.get());
            entry.remove();
        };
        tenant.trees.set(to, TreeState { dirty: true, ..state });
        outcome
    }

    fn merge(
        &mut self,
        pages: &mut PageMap,
        state: &mut TreeState,
        entries_max: &mut u32,
    ) -> Result<bool, Stuck> {
        loop {
            while let Some(run) = self.headless.last().copied() {
                if let Some((key, value)) = self.runs[run].next(pages)? {
                    self.heads.push(Head { key, run, value });
                }
                self.headless.pop();
            }
            if *entries_max == 0 {
                return Ok(false);
            }
            let Some(head) = self.heads.peek() else { return Ok(true) };
            let value = match &head.value {
                Some(value) => Cow::Borrowed(&value[..]),
                None => Cow::Owned(self.runs[head.run].long_value(pages, &head.key)?),
            };
            if !btree::insert_new(pages, &mut state.root, &head.key, &value)? {
                return Err(Stuck::Duplicate(head.key.clone(), value.into_owned()));
            }
            state.entries += 1;
            take(entries_max, &value);
            let head = self.heads.pop().expect("looked at above");
            self.headless.push(head.run);
        }
    }
}

/// Takes an entry with this value off those that a step moves.
fn take(entries_max: &mut u32, value: &[u8]) {
    *entries_max = entries_max.saturating_sub(1 + (value.len() / STEP_BYTES) as u32);
}

/// The key of an entry, and its value if that is not a long one.
type Next = (Key, Option<Vec<u8>>);

impl Run {
    /// Its next entry, without a long value; after an error the same again.
    fn next(&mut self, pages: &PageMap) -> Result<Option<Next>, PageFault> {
        let Some(entry) = self.cursor.next(pages)? else { return Ok(None) };
        let value = match entry.value {
            Value::Inline(bytes) => Some(bytes.to_vec()),
            Value::Chain(_) => None,
        };
        Ok(Some((Key::from_slice(entry.key), value)))
    }

    fn long_value(&self, pages: &PageMap, key: &[u8]) -> Result<Vec<u8>, PageFault> {
        let value = btree::get(pages, self.root, key)?.expect("a run keeps what it has until it is given up");
        Ok(value.read(pages)?.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use base::TenantId;

    use super::*;

    #[test]
    fn long_values_are_merged_one_at_a_time() {
        let mut tenant = Tenant::in_memory(TenantId(16), "owner");
        let mut filling = Filling::new(tenant.next_tree());
        const COUNT: u32 = 40;
        let value = |n: u32| vec![n as u8; if n.is_multiple_of(8) { 100 } else { GATHERED_MAX }];
        let mut merged = 0;
        for n in 0..=COUNT {
            if n == COUNT {
                filling.end();
            } else {
                // In no order, and many of them a run.
                let n = n * 7 % COUNT;
                filling.add(Key::from_slice(&n.to_be_bytes()), value(n)).expect("keys differ");
            }
            while (filling.is_full() || filling.is_whole())
                && !filling.settle(&mut tenant, &mut 1).expect("nothing is missing")
            {
                let heads: usize =
                    filling.heads.iter().filter_map(|head| Some(head.value.as_ref()?.len())).sum();
                assert!(heads < GATHERED_MAX, "{heads} bytes of next entries");
                merged += usize::from(filling.heads.len() > 20);
            }
        }
        assert!(filling.runs.len() > 20 && merged > 0, "{} runs", filling.runs.len());
        let tree = filling.finish(&mut tenant);
        let mut cursor = Cursor::new(tenant.trees.root(tree), Seek::Start);
        for n in 0..COUNT {
            let entry = cursor.next(&tenant.pages).expect("in memory").expect("each is there");
            assert_eq!(entry.key, n.to_be_bytes());
            assert!(entry.value.read(&tenant.pages).expect("in memory")[..] == value(n)[..]);
        }
        assert_eq!(tenant.trees.get(tree).entries, u64::from(COUNT));
    }

    #[test]
    fn a_step_moves_the_fewer_entries_the_longer_they_are() {
        let mut tenant = Tenant::in_memory(TenantId(16), "owner");
        let mut filling = Filling::new(tenant.next_tree());
        for n in 0..40_u32 {
            // Each is a run.
            let key = Key::from_slice(&(n * 7 % 40).to_be_bytes());
            filling.add(key, vec![7; GATHERED_MAX]).expect("keys differ");
            while filling.is_full() && !filling.settle(&mut tenant, &mut 256).expect("nothing is missing") {}
        }
        filling.end();
        let mut steps = 1;
        while !filling.settle(&mut tenant, &mut 256).expect("nothing is missing") {
            steps += 1;
        }
        assert!(steps >= 3, "{steps} steps for 640 KiB");
        let tree = filling.finish(&mut tenant);
        assert_eq!(tenant.trees.get(tree).entries, 40);
    }
}
