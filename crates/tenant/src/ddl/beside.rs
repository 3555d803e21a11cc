//! Building an index while others change rows of its table.
//!
//! The rows are gone through and sorted as those of a table that is locked; what is changed behind that is noted by whoever commits it ([`crate::watch`]).
//! When the tree is filled the notes are put in, in rounds: all that were made until one moment, and meanwhile others are made. Once there are
//! few of them the table is locked against its writers, and the last ones are put in. There are [`ROUNDS_MAX`] at most: a build that others outrun
//! ends by having them wait.
//!
//! Its trees are changed by none but the build, with the right to change the catalog, which keeps others from having a branch. Every [`TURNS_MIN`] turns
//! it lets somebody who waits for one go before it, and waits for the end of that.
//!
//! In a unique index two rows may come to have one key in turn, and the build finds both, at two different times. If the one that it found first
//! is noted by then, the other one has its place, and so it is among notes that are put in. Else both are rows of one commit: a duplicate.

use std::borrow::Cow;
use std::sync::Arc;

use base::{Oid, SqlResult, TreeId};
use btree::{Cursor, Seek};

use super::build::{Failure, Filler};
use super::indexes::Writers;
use super::{Ddl, NewIndex};
use crate::catalog::{Index, Table};
use crate::interrupt::Step;
use crate::kept::{Piece, TURN_STEPS, Work};
use crate::locks::{LockMode, LockTag, TableLock, WaitPolicy};
use crate::row::keys::{Key, copied, index_entry_of_bytes, table_key_of_entry};
use crate::trees::TreeState;
use crate::txn::{Build, Isolation};
use crate::view::{View, disagreement};
use crate::watch::Note;

/// Rows of a table beside whose writers its indexes are built: to go through fewer takes some milliseconds.
const ROWS_MIN: u64 = if cfg!(test) { 1 << 9 } else { 1 << 12 };

/// Notes that the writers wait for: some 2 ms.
const NOTES_FEW: u64 = if cfg!(test) { 1 << 3 } else { 1 << 9 };

/// Rounds without the lock, and long changes of the table that go before it.
const ROUNDS_MAX: u32 = 16;

/// Waits for the table after which a build waits for it as everybody does: half a minute of them.
const ASKED_MAX: u32 = if cfg!(test) { 8 } else { 128 };

/// Turns after which a build makes way for a long change: some 100 ms.
const TURNS_MIN: u32 = if cfg!(test) { 1 << 2 } else { 1 << 8 };

/// How far a build is.
#[derive(Debug)]
pub(crate) struct Beside {
    stage: Stage,
    /// Rounds that are over.
    rounds: u32,
    /// The table was asked for against its writers.
    locks: bool,
    /// How often it was waited for.
    asked: u32,
    /// Turns since a long change went before it.
    turns: u32,
    /// Long changes that it would have waited for with the lock, and went before it.
    made_way: u32,
}

#[derive(Debug)]
enum Stage {
    Filling(Filler),
    /// The tree is filled, but for what is noted.
    Filled(TreeId),
    /// The notes of this tree are put in.
    PuttingIn {
        tree: TreeId,
        notes: TreeId,
        pass: Pass,
        after: Option<Key>,
    },
}

/// What becomes of each note. What rows had is taken out before any has something new, for that may have been another one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    TakeOut,
    PutIn,
}

impl Beside {
    /// The trees it has, beside that of further notes.
    pub(crate) fn trees(&self) -> Vec<TreeId> {
        match &self.stage {
            Stage::Filling(filler) => filler.trees().collect(),
            Stage::Filled(tree) => vec![*tree],
            Stage::PuttingIn { tree, notes, .. } => vec![*tree, *notes],
        }
    }
}

impl Ddl<'_> {
    /// As [`Ddl::create_index`], but where the table is large others change its rows meanwhile, and wait for the last of what they changed only. For a
    /// statement that begins its transaction.
    ///
    /// Errors: as of `create_index`.
    pub fn create_index_beside(&mut self, table: Oid, new: NewIndex) -> Step<Oid> {
        if !self.can_build_beside(table)? {
            return self.create_index(table, new);
        }
        self.view.lock_table(table, TableLock::ShareUpdateExclusive, WaitPolicy::Wait)?;
        self.add_index(table, new, None, Writers::GoOn)
    }

    fn can_build_beside(&self, table: Oid) -> SqlResult<bool> {
        let View { tenant, txn, session, .. } = &self.view;
        if let Some(watch) = tenant.watch(txn.id) {
            return Ok(!watch.is_lost());
        }
        // Its own changes are noted by nobody.
        let can = session.is_some()
            && txn.isolation == Isolation::ReadCommitted
            && txn.overlay.is_empty()
            && txn.built.is_empty()
            && !txn.branched;
        let table = self.view.table(table)?;
        Ok(can && self.view.row_count(&table) >= ROWS_MIN)
    }

    /// As [`Ddl::build_index`], of a table that is locked against other definitions only, until it says which tree it filled.
    pub(super) fn build_index_beside(&mut self, table: &Arc<Table>, index: &Index) -> Step<TreeId> {
        let piece = Piece::index(table.oid, index);
        let view = &mut self.view;
        let owner = view.txn.id;
        let tree = match view.resume(&piece) {
            Some(Work::Filled(tree)) => tree,
            work => {
                let mut build = match work {
                    Some(Work::Beside(build)) => build,
                    _ => {
                        let filler = Filler::begin_beside(view, table)?;
                        view.tenant.begin_watch(owner, table, index);
                        Box::new(Beside {
                            stage: Stage::Filling(filler),
                            rounds: 0,
                            locks: false,
                            asked: 0,
                            turns: 0,
                            made_way: 0,
                        })
                    }
                };
                match build.go_on(view, table, index) {
                    Ok(tree) => tree,
                    Err(failure) => {
                        build.turns += 1;
                        // Not while others wait for the table.
                        let may_make_way = build.turns >= TURNS_MIN && !build.locks;
                        if may_make_way && view.tenant.give_way_to_branch(view.txn) {
                            build.turns = 0;
                        }
                        view.keep(piece, Work::Beside(build));
                        return Err(self.interrupt_of(failure, table, index));
                    }
                }
            }
        };
        view.tenant.end_watch(owner);
        let build = |tree| Build::Index { table: table.oid, index: index.oid, tree };
        Ok(view.finish_build(tree, build, piece))
    }
}

impl Beside {
    /// Goes on until the tree has the entries of all rows and the table is locked, or the turn is over, or something stands in the way.
    fn go_on(&mut self, view: &mut View<'_>, table: &Arc<Table>, index: &Index) -> Result<TreeId, Failure> {
        let owner = view.txn.id;
        if let Some(watch) = view.tenant.watch(owner) {
            watch.require_whole()?;
        }
        let mut left = TURN_STEPS;
        loop {
            match &mut self.stage {
                Stage::Filling(filler) => {
                    // Who moved fewer in a turn than others make between two would never have moved them all.
                    let mut moved = TURN_STEPS.max((view.tenant.count_in_memory(owner) / 4) as u32);
                    view.tenant.store_notes(owner, &mut moved)?;
                    let outcome = filler.take_turn(view, table, |_, row| {
                        let entry = index_entry_of_bytes(table, index, row.bytes(), row.key())?;
                        Ok(entry.map(|entry| (entry.key, entry.value.to_vec())))
                    });
                    view.tenant.note_passed(owner, filler.passed());
                    outcome?;
                    self.stage = Stage::Filled(filler.finish(view));
                }
                Stage::Filled(tree) => {
                    let tree = *tree;
                    if self.rounds >= ROUNDS_MAX || view.tenant.count_notes(owner) <= NOTES_FEW {
                        self.lock_out_writers(view, table.oid)?;
                    }
                    if !view.tenant.store_notes(owner, &mut left)? {
                        return Err(Failure::Step(view.end_turn()));
                    }
                    let Some(notes) = view.tenant.take_stored_notes(owner) else {
                        assert!(self.locks, "none are few");
                        return Ok(tree);
                    };
                    self.stage = Stage::PuttingIn { tree, notes, pass: Pass::TakeOut, after: None };
                }
                Stage::PuttingIn { tree, notes, pass, after } => {
                    let (tree, notes) = (*tree, *notes);
                    if !put_in(view, table, index, (tree, notes), pass, after, &mut left)? {
                        return Err(Failure::Step(view.end_turn()));
                    }
                    view.tenant.give_up_tree(notes);
                    self.rounds += 1;
                    self.stage = Stage::Filled(tree);
                }
            }
        }
    }

    /// Locks the table against its writers. Who comes to write waits behind that, so it is asked for briefly, and then for longer in a way that has nobody
    /// wait: where somebody has changed the table who does not end, others go on.
    fn lock_out_writers(&mut self, view: &mut View<'_>, table: Oid) -> Result<(), Failure> {
        self.locks = true;
        let (tag, mode) = (LockTag::Table(table), LockMode::Table(TableLock::Share));
        if view.tenant.lock(view.txn, tag, mode, WaitPolicy::NoWait)? {
            return Ok(());
        }
        // A long change that has the table locked would be sent away from where it waits, and be made without slices.
        let holds_up = self.asked > 0 || view.tenant.is_behind_branch(view.txn, table, TableLock::Share);
        if holds_up && self.made_way < ROUNDS_MAX && view.tenant.give_way_to_branch(view.txn) {
            self.made_way += 1;
            return Err(Failure::Step(view.end_turn()));
        }
        let policy = match self.asked {
            ASKED_MAX.. => WaitPolicy::Wait,
            asked if asked.is_multiple_of(2) => WaitPolicy::Briefly,
            _ => WaitPolicy::AtLeisure,
        };
        self.asked = self.asked.saturating_add(1);
        view.lock_table(table, TableLock::Share, policy)?;
        Ok(())
    }
}

/// Puts notes into the index's tree, as many as are `left` to the turn; whether that was all. `trees`: the index's, and the notes'.
fn put_in(
    view: &mut View<'_>,
    table: &Table,
    index: &Index,
    (tree, notes): (TreeId, TreeId),
    pass: &mut Pass,
    after: &mut Option<Key>,
    left: &mut u32,
) -> Result<bool, Failure> {
    let root = view.tenant.trees.root(notes);
    let mut cursor = Cursor::new(root, after.as_ref().map_or(Seek::Start, |key| Seek::After(key)));
    loop {
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        let entry = match cursor.next(&view.tenant.pages)? {
            Some(entry) => {
                let note = Note::decode(&entry.value.read(&view.tenant.pages)?);
                Some((Key::from_slice(entry.key), note))
            }
            None => None,
        };
        match (entry, *pass) {
            (Some((key, note)), Pass::TakeOut) => {
                if let Some((had, value)) = note.before {
                    take_out(view, tree, &had, &value)?;
                }
                *after = Some(key);
            }
            (Some((key, note)), Pass::PutIn) => {
                if let Some((has, value)) = note.after {
                    put_one(view, table, index, tree, &key, (&has, &value))?;
                }
                *after = Some(key);
            }
            (None, Pass::TakeOut) => {
                (*pass, *after) = (Pass::PutIn, None);
                cursor.seek(Seek::Start);
            }
            (None, Pass::PutIn) => return Ok(true),
        }
    }
}

/// Takes an entry out, unless another row's is there instead.
fn take_out(view: &mut View<'_>, tree: TreeId, key: &[u8], value: &[u8]) -> Result<(), Failure> {
    if value_of(view, tree, key)?.as_deref() != Some(value) {
        return Ok(());
    }
    let mut state = view.tenant.trees.get(tree);
    view.tenant.try_remove(&mut state, key)?;
    view.tenant.trees.set(tree, TreeState { dirty: true, ..state });
    Ok(())
}

/// Puts in the entry of the row with the key `row`.
fn put_one(
    view: &mut View<'_>,
    table: &Table,
    index: &Index,
    tree: TreeId,
    row: &[u8],
    (key, value): (&Key, &Key),
) -> Result<(), Failure> {
    if let Some(other) = value_of(view, tree, key)?
        && other[..] != value[..]
    {
        let Some(other_row) = table_key_of_entry(key, &other) else {
            return Err(Failure::Step(disagreement(table, index).into()));
        };
        let owner = view.txn.id;
        // Of two rows that had the key in turn one is noted, and its own note has it right.
        if !view.tenant.is_noted(owner, other_row)? {
            return match view.tenant.is_noted(owner, row)? {
                true => Ok(()),
                false => Err(Failure::Duplicate(copied(key), value.to_vec())),
            };
        }
    }
    let mut state = view.tenant.trees.get(tree);
    view.tenant.try_put(&mut state, key, value)?;
    view.tenant.trees.set(tree, TreeState { dirty: true, ..state });
    Ok(())
}

fn value_of(view: &View<'_>, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let found = btree::get(&view.tenant.pages, view.tenant.trees.root(tree), key)?;
    Ok(found.map(|value| value.read(&view.tenant.pages)).transpose()?.map(Cow::into_owned))
}
