//! What others change in a table while an index of it is built beside them.
//!
//! The build ([`crate::ddl`]) goes through the table's live rows in the order of their keys, a turn at a time. What is committed ahead of it, it comes to.
//! Of a row behind it that gets another entry by the index's definition the commit notes which one it had and which it has, and the build puts that in
//! later. Of a row that is noted several times the first entry that it had and the last one count. A row that is not noted has
//! the entry that the build found.
//!
//! Commits note in memory, some 200 bytes a row and what long keys take, which are in no budget; each turn of the build moves that to a tree which no catalog
//! names. Beyond [`NOTES_MAX`] or [`NOTES_BYTES_MAX`] nothing is noted any more: the build is *lost*, and is made anew while the table's writers wait.
//!
//! While another transaction has a branch, the build waits, and none of its trees is changed in the live pages. What is poured is noted in the branch's
//! state of that tree, at once, so that it is of the branch's fate. A note there may be of a row that has one in memory, made before or behind it: the
//! numbers of notes tell.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{SqlError, SqlResult, TreeId, TxnId};
use storage::PageFault;

use crate::catalog::{Index, Table};
use crate::commit::Steps;
use crate::overlay::{Change, TreeChanges};
use crate::row::keys::{Key, copied, index_entry_of_bytes};
use crate::tenant::Tenant;
use crate::trees::TreeState;

/// Notes in memory.
const NOTES_MAX: usize = if cfg!(test) { 1 << 11 } else { 1 << 18 };

/// Bytes of them, which are more only where keys are long.
const NOTES_BYTES_MAX: usize = if cfg!(test) { 1 << 19 } else { 1 << 26 };

const _: () =
    assert!(NOTES_MAX * size_of::<(Key, Note)>() <= NOTES_BYTES_MAX, "the most notes of short keys");

/// An index that is built beside its table's writers, as these see it.
pub(crate) struct Watch {
    /// The transaction that builds it.
    owner: TxnId,
    /// With the index.
    table: Arc<Table>,
    index: Index,
    /// Rows that are noted when they change.
    passed: Passed,
    /// By the rows' keys.
    notes: BTreeMap<Key, Note>,
    /// Bytes of them.
    notes_len: usize,
    /// How many were made.
    made: u64,
    /// Where they are moved to.
    tree: TreeId,
    /// Why there can be no such index: a row has no entry, or could not be read.
    failed: Option<SqlError>,
    is_lost: bool,
}

/// Which rows a build has gone through.
#[derive(Debug)]
pub(crate) enum Passed {
    /// Those up to this key; none yet without.
    UpTo(Option<Key>),
    All,
}

/// The entries of a row that was changed behind a build: key and value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    /// What it had, and what the index has of it, unless that has another row's under this key.
    pub(crate) before: Option<(Key, Key)>,
    pub(crate) after: Option<(Key, Key)>,
    /// The number of the change behind which that is so.
    made: u64,
}

impl Watch {
    fn has_passed(&self, key: &Key) -> bool {
        match &self.passed {
            Passed::UpTo(last) => last.as_ref().is_some_and(|last| key <= last),
            Passed::All => true,
        }
    }

    /// The note of the row with this key, which is about to become what `change` says. `None` if its entry stays, whatever is noted of it already, or if
    /// there can be no index.
    fn judge(&mut self, key: &Key, row: SqlResult<Option<Vec<u8>>>, change: &Change) -> Option<Note> {
        let changed = match change {
            Change::Put(row) => Some(&row[..]),
            Change::Delete => None,
        };
        let entries = row.and_then(|row| Ok((self.entry(key, row.as_deref())?, self.entry(key, changed)?)));
        match entries {
            Ok((before, after)) if before == after => None,
            Ok((before, after)) => {
                self.made += 1;
                Some(Note { before, after, made: self.made })
            }
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// Notes in memory.
    fn note(&mut self, key: &Key, note: Note) {
        match self.notes.get_mut(key) {
            Some(earlier) => {
                self.notes_len -= earlier.heap_len();
                note.follow(earlier);
                self.notes_len += earlier.heap_len();
            }
            None => {
                let key = copied(key);
                self.notes_len += note.len_in_memory(&key);
                self.notes.insert(key, note);
            }
        }
        if self.notes.len() > NOTES_MAX || self.notes_len > NOTES_BYTES_MAX {
            self.is_lost = true;
            self.notes = BTreeMap::new();
            self.notes_len = 0;
        }
    }

    fn entry(&self, key: &Key, row: Option<&[u8]>) -> SqlResult<Option<(Key, Key)>> {
        let Some(row) = row else { return Ok(None) };
        let entry = index_entry_of_bytes(&self.table, &self.index, row, key)?;
        Ok(entry.map(|entry| (entry.key, entry.value)))
    }

    /// Whether nothing is noted any more, so that what the build has is of no use.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Errors: 54000 where a row has too long a key for the index, XX001 and 58030 where one that was changed could not be read.
    pub(crate) fn require_whole(&self) -> SqlResult<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

impl Note {
    /// Makes of an earlier note of the row what is true behind this one.
    fn follow(self, earlier: &mut Note) {
        (earlier.after, earlier.made) = (self.after, self.made);
    }

    /// Bytes that it takes among the notes of a build, of the row with this key.
    fn len_in_memory(&self, key: &Key) -> usize {
        size_of::<(Key, Note)>() + heap_len(key) + self.heap_len()
    }

    fn heap_len(&self) -> usize {
        let entries = self.before.iter().chain(&self.after);
        entries.map(|(key, value)| heap_len(key) + heap_len(value)).sum()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.made.to_le_bytes().to_vec();
        for entry in [&self.before, &self.after] {
            out.push(u8::from(entry.is_some()));
            for part in entry.iter().flat_map(|(key, value)| [key, value]) {
                let len = u16::try_from(part.len()).expect("a key is at most 1600 bytes");
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(part);
            }
        }
        out
    }

    /// # Panics
    /// If the bytes are no note's.
    pub(crate) fn decode(mut bytes: &[u8]) -> Note {
        let made = u64::from_le_bytes(take(&mut bytes, 8).try_into().expect("taken at this length"));
        let before = Note::decode_entry(&mut bytes);
        Note { before, after: Note::decode_entry(&mut bytes), made }
    }

    fn decode_entry(bytes: &mut &[u8]) -> Option<(Key, Key)> {
        let is_there = take(bytes, 1) != [0];
        is_there.then(|| (Note::decode_part(bytes), Note::decode_part(bytes)))
    }

    fn decode_part(bytes: &mut &[u8]) -> Key {
        let len = u16::from_le_bytes(take(bytes, 2).try_into().expect("taken at this length"));
        Key::from_slice(take(bytes, usize::from(len)))
    }
}

fn heap_len(key: &Key) -> usize {
    if key.spilled() { key.capacity() } else { 0 }
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> &'b [u8] {
    let (head, rest) = bytes.split_at_checked(len).expect("a note is read as it was written");
    *bytes = rest;
    head
}

impl Tenant {
    /// From now on what others change of the table is noted for `owner`, who has gone through none of its rows.
    pub(crate) fn begin_watch(&mut self, owner: TxnId, table: &Arc<Table>, index: &Index) {
        self.end_watch(owner);
        let tree = self.next_tree();
        self.watches.push(Watch {
            owner,
            table: Arc::clone(table),
            index: index.clone(),
            passed: Passed::UpTo(None),
            notes: BTreeMap::new(),
            notes_len: 0,
            made: 0,
            tree,
            failed: None,
            is_lost: false,
        });
    }

    /// Nothing is noted for `owner` any more, and what was is given up.
    pub(crate) fn end_watch(&mut self, owner: TxnId) {
        if let Some(at) = self.watches.iter().position(|watch| watch.owner == owner) {
            let watch = self.watches.swap_remove(at);
            self.give_up_tree(watch.tree);
        }
    }

    pub(crate) fn watch(&self, owner: TxnId) -> Option<&Watch> {
        self.watches.iter().find(|watch| watch.owner == owner)
    }

    fn watch_mut(&mut self, owner: TxnId) -> Option<&mut Watch> {
        self.watches.iter_mut().find(|watch| watch.owner == owner)
    }

    /// The build of `owner` has gone through these rows.
    pub(crate) fn note_passed(&mut self, owner: TxnId, passed: Passed) {
        if let Some(watch) = self.watch_mut(owner) {
            watch.passed = passed;
        }
    }

    /// Notes what a commit is about to change in a tree of the live pages.
    pub(crate) fn note_for_builds(&mut self, tree: TreeId, changes: &TreeChanges, steps: &mut Steps<'_>) {
        let mut watches = std::mem::take(&mut self.watches);
        for watch in watches.iter_mut().filter(|watch| watch.table.tree == tree) {
            for (key, change) in changes {
                if watch.is_lost || !watch.has_passed(key) {
                    break;
                }
                let row = self.value_now(tree, key);
                if let Some(note) = watch.judge(key, row, change) {
                    watch.note(key, note);
                }
                steps.take_change(change);
            }
        }
        self.watches = watches;
    }

    /// Notes what is about to be poured into a tree of the branch, whose pages are current.
    ///
    /// Errors: XX001, 58030.
    pub(crate) fn note_poured_for_builds(
        &mut self,
        tree: TreeId,
        changes: &TreeChanges,
        steps: &mut Steps<'_>,
    ) -> SqlResult<()> {
        let mut watches = std::mem::take(&mut self.watches);
        let mut outcome = Ok(());
        for watch in watches.iter_mut().filter(|watch| watch.table.tree == tree) {
            for (key, change) in changes {
                if watch.is_lost || !watch.has_passed(key) || outcome.is_err() {
                    break;
                }
                outcome = self.note_change_poured(watch, tree, key, change);
                steps.take_change(change);
            }
        }
        self.watches = watches;
        outcome
    }

    fn note_change_poured(
        &mut self,
        watch: &mut Watch,
        tree: TreeId,
        key: &Key,
        change: &Change,
    ) -> SqlResult<()> {
        let row = self.value_now(tree, key)?;
        let Some(note) = watch.judge(key, Ok(row), change) else { return Ok(()) };
        // What others committed of the row is in the branch by now, and what is in memory stays there, should the branch be given up.
        let stored = self.value_now(watch.tree, key)?.map(|bytes| Note::decode(&bytes));
        let whole = match stored.or_else(|| watch.notes.get(key).cloned()) {
            Some(mut earlier) => {
                note.follow(&mut earlier);
                earlier
            }
            None => note,
        };
        let mut state = self.trees.get(watch.tree);
        self.apply_or_fail(&mut state, key, &Change::Put(whole.encode().into_boxed_slice()))?;
        self.trees.set(watch.tree, TreeState { dirty: true, ..state });
        Ok(())
    }

    /// The value of a key in a tree of the current pages, reading what is missing within the turn.
    ///
    /// Errors: XX001, 58030.
    fn value_now(&mut self, tree: TreeId, key: &[u8]) -> SqlResult<Option<Vec<u8>>> {
        let mut value = None;
        let mut read = |tenant: &mut Tenant| -> Result<(), PageFault> {
            let found = btree::get(&tenant.pages, tenant.trees.root(tree), key)?;
            value = found.map(|value| value.read(&tenant.pages)).transpose()?.map(Cow::into_owned);
            Ok(())
        };
        if let Err(fault) = read(self) {
            let read = self.try_reading(fault, &mut read);
            read.map_err(|error| SqlError::new(error.state(), error.to_string()))?;
        }
        Ok(value)
    }

    /// Moves notes out of memory, as many as are `left` to the turn, and takes them off that number. Whether none is left in memory.
    pub(crate) fn store_notes(&mut self, owner: TxnId, left: &mut u32) -> Result<bool, PageFault> {
        let at = self.watches.iter().position(|watch| watch.owner == owner && !watch.notes.is_empty());
        let Some(at) = at else { return Ok(true) };
        let mut watch = self.watches.swap_remove(at);
        let mut state = self.trees.get(watch.tree);
        let outcome = loop {
            let Some(note) = watch.notes.first_entry() else { break Ok(true) };
            if *left == 0 {
                break Ok(false);
            }
            if let Err(fault) = self.store_note(&mut state, note.key(), note.get()) {
                break Err(fault);
            }
            let (key, note) = note.remove_entry();
            watch.notes_len -= note.len_in_memory(&key);
            *left -= 1;
        };
        self.trees.set(watch.tree, TreeState { dirty: true, ..state });
        self.watches.push(watch);
        outcome
    }

    fn store_note(&mut self, state: &mut TreeState, key: &[u8], note: &Note) -> Result<(), PageFault> {
        let mut whole = note.clone();
        if let Some(stored) = btree::get(&self.pages, state.root, key)? {
            let stored = Note::decode(&stored.read(&self.pages)?);
            if stored.made > note.made {
                // It was poured behind this one, and has it in it.
                return Ok(());
            }
            whole.before = stored.before;
        }
        self.try_put(state, key, &whole.encode())
    }

    /// The tree of the notes that were moved there, for the caller to put in and to give up; `None` if there are none. Further ones go to another tree.
    ///
    /// # Panics
    /// If there are some in memory.
    pub(crate) fn take_stored_notes(&mut self, owner: TxnId) -> Option<TreeId> {
        let watch = self.watch(owner)?;
        assert!(watch.notes.is_empty(), "a part of the notes is of no moment");
        if self.trees.get(watch.tree).entries == 0 {
            return None;
        }
        let next = self.next_tree();
        self.watch_mut(owner).map(|watch| std::mem::replace(&mut watch.tree, next))
    }

    /// Notes that are yet to be moved.
    pub(crate) fn count_in_memory(&self, owner: TxnId) -> usize {
        self.watch(owner).map_or(0, |watch| watch.notes.len())
    }

    /// Notes that are to be put in.
    pub(crate) fn count_notes(&self, owner: TxnId) -> u64 {
        let count = |watch: &Watch| watch.notes.len() as u64 + self.trees.get(watch.tree).entries;
        self.watch(owner).map_or(0, count)
    }

    /// Whether a row was noted that is not yet being put in.
    pub(crate) fn is_noted(&self, owner: TxnId, row: &[u8]) -> Result<bool, PageFault> {
        let Some(watch) = self.watch(owner) else { return Ok(false) };
        Ok(watch.notes.contains_key(row) || btree::contains(&self.pages, self.trees.root(watch.tree), row)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let key = |bytes: &[u8]| Key::from_slice(bytes);
        let entries = [None, Some((key(b""), key(b"v"))), Some((key(&[7; 1600]), key(&[1; 1601])))];
        for before in &entries {
            for after in &entries {
                let note = Note { before: before.clone(), after: after.clone(), made: u64::MAX - 1 };
                assert_eq!(Note::decode(&note.encode()), note);
            }
        }
    }
}
