//! Foreign key checks that wait for the transaction's end, or for SET CONSTRAINTS … IMMEDIATE.
//!
//! A check is kept as the values it is about, once however many rows had them. Whether any row has them still is found out in the
//! newest state when the check is made, so nothing is taken out of the list when a row changes again. Where there are very many of a constraint, all
//! rows of its table are looked at instead.
//!
//! A check that has passed stays true to the transaction's end: it locks what it found, and whoever could make it false has to wait
//! for that lock. A referencing row's check locks the referenced row FOR KEY SHARE (one of all rows locks the referenced table against changes instead, where
//! nobody else changes it);
//! who deleted a referenced row has it locked already, and so nobody's check finds it meanwhile. Only ROLLBACK TO lets go of such locks,
//! and has all checks be made again.

use std::hash::BuildHasher;
use std::sync::Arc;

use base::{Oid, SqlError, SqlResult, SqlState};
use rustc_hash::{FxBuildHasher, FxHashMap};
use types::Datum;

use crate::catalog::{Decode, Encode, ForeignKey, Table};
use crate::cursor::Direction;
use crate::foreign_key::Pairs;
use crate::interrupt::Step;
use crate::kept::TURN_STEPS;
use crate::locks::{LockMode, LockTag, RowLock, TableLock, WaitPolicy};
use crate::row::keys::{Key, KeyRange};
use crate::view::{Access, State, View};

/// Checks by their values; beyond them, all rows of a table are one check. Some 200 bytes each.
const CHECKS_MAX: usize = 1 << 14;

/// Bytes for a check beside its values: in the list and where it is found.
const CHECK_LEN: u64 = 150;

/// Which rows of a foreign key were changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Side {
    /// Rows that reference: the values are theirs.
    Referencing,
    /// Rows that are referenced, and gone or others now: the values were theirs.
    Referenced,
}

/// A check that is due.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct DueCheck {
    /// The table whose rows reference.
    table: Oid,
    constraint: Oid,
    /// The table whose rows were changed: that one or the referenced one.
    changed: Oid,
    side: Side,
    /// Encoded; `None` for those of all rows.
    values: Option<Box<[u8]>>,
}

/// How far a check is.
#[derive(Debug)]
enum Made {
    No,
    /// All rows up to this key have passed.
    UpTo(Key),
    Yes,
}

/// What SET CONSTRAINTS has said in the transaction.
#[derive(Clone, Default, Debug)]
pub(crate) struct Modes {
    /// Of all: whether they are put off.
    all: Option<bool>,
    /// Of single ones, since then.
    single: FxHashMap<Oid, bool>,
}

/// The checks of a transaction that wait, in the order in which they became due.
#[derive(Default, Debug)]
pub(crate) struct Due {
    checks: Vec<(DueCheck, Made)>,
    /// Places in `checks` by hash: only a speed-up, for what is not found is added again.
    places: FxHashMap<u64, usize>,
    /// No check before this one is to be made.
    first: usize,
    values_len: u64,
    pub(crate) modes: Option<Arc<Modes>>,
}

impl Due {
    pub(crate) fn len(&self) -> usize {
        self.checks.len()
    }

    /// Bytes that the list takes.
    pub(crate) fn memory(&self) -> u64 {
        CHECK_LEN * self.checks.len() as u64 + self.values_len
    }

    /// Whether none waits.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.checks[self.first..].iter().all(|(_, made)| matches!(made, Made::Yes))
    }

    /// Whether a check of this constraint is to be put off now.
    pub(crate) fn puts_off(&self, key: &ForeignKey) -> bool {
        let said = self.modes.as_ref().and_then(|modes| modes.single.get(&key.oid).copied().or(modes.all));
        key.deferral.is_deferrable() && said.unwrap_or(key.deferral.is_initially_deferred())
    }

    fn add(&mut self, check: DueCheck) {
        let hash = FxBuildHasher.hash_one(&check);
        if let Some(place) = self.places.get(&hash).copied()
            && self.checks[place].0 == check
        {
            self.checks[place].1 = Made::No;
            self.first = self.first.min(place);
            return;
        }
        self.places.insert(hash, self.checks.len());
        self.values_len += check.values.as_ref().map_or(0, |values| values.len() as u64);
        self.checks.push((check, Made::No));
    }

    /// Forgets those that were added since there were `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        for (place, (check, _)) in self.checks.drain(len.min(self.checks.len())..).enumerate() {
            self.values_len -= check.values.as_ref().map_or(0, |values| values.len() as u64);
            let hash = FxBuildHasher.hash_one(&check);
            if self.places.get(&hash) == Some(&(len + place)) {
                self.places.remove(&hash);
            }
        }
        self.checks.shrink_to(2 * self.checks.len());
        self.places.shrink_to(2 * self.places.len());
        self.first = self.first.min(self.checks.len());
    }

    /// Has all that are left be made again: the state in which they passed, and the locks that kept it, are gone.
    pub(crate) fn make_again(&mut self) {
        self.checks.iter_mut().for_each(|(_, made)| *made = Made::No);
        self.first = 0;
    }

    fn note_made(&mut self, place: usize) {
        self.checks[place].1 = Made::Yes;
        while matches!(self.checks.get(self.first), Some((_, Made::Yes))) {
            self.first += 1;
        }
    }
}

impl crate::txn::Txn {
    /// Whether checks wait for its end, which has to call [`View::check_due`] first.
    pub fn has_checks_due(&self) -> bool {
        !self.due.is_done()
    }
}

impl View<'_> {
    /// Puts a check off. `changed` is the table on the side of `values`.
    pub(crate) fn put_off(
        &mut self,
        table: Oid,
        key: &ForeignKey,
        changed: Oid,
        side: Side,
        values: &[Datum],
    ) {
        let (constraint, due) = (key.oid, &mut self.txn.due);
        // Rows from before the constraint need not satisfy it where it is not valid yet.
        let values = (due.len() < CHECKS_MAX || !key.validated).then(|| {
            let mut bytes = Vec::new();
            values.encode(&mut bytes);
            bytes.into_boxed_slice()
        });
        due.add(DueCheck { table, constraint, changed, side, values });
    }

    /// Makes the checks that wait, in as many turns as that takes: call it again after each interrupt. Nothing is changed. To be called
    /// before a transaction with [`crate::Txn::has_checks_due`] is committed, in the same turn.
    ///
    /// Errors: 23503, 40P01; 53200 for the locks.
    pub fn check_due(&mut self) -> Step<()> {
        self.make_checks(|_, _| true)
    }

    /// `SET CONSTRAINTS`: whether these constraints (`None` for all that can be) are put off from now on. What waits of those that are
    /// not any more is checked now.
    ///
    /// Errors: as [`View::check_due`].
    pub fn set_constraints(&mut self, constraints: Option<&[Oid]>, deferred: bool) -> Step<()> {
        let modes = Arc::make_mut(self.txn.due.modes.get_or_insert_default());
        match constraints {
            None => *modes = Modes { all: Some(deferred), single: FxHashMap::default() },
            Some(constraints) => modes.single.extend(constraints.iter().map(|oid| (*oid, deferred))),
        }
        if deferred { Ok(()) } else { self.make_checks(|due, key| !due.puts_off(key)) }
    }

    /// Makes those that wait though their foreign keys are not to be put off: [`crate::Txn::look_later`] left them. As [`View::check_due`].
    pub fn check_own(&mut self) -> Step<()> {
        self.make_checks(|due, key| !due.puts_off(key))
    }

    /// Errors: 55006 where checks of the table's own changed rows wait.
    pub fn require_none_due(&self, table: &Table, command: &str) -> SqlResult<()> {
        let waits =
            |(check, made): &(DueCheck, Made)| check.changed == table.oid && !matches!(made, Made::Yes);
        if self.txn.due.checks.iter().any(waits) {
            let message =
                format!("cannot {command} \"{}\" because it has pending trigger events", table.name);
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        Ok(())
    }

    fn make_checks(&mut self, wanted: impl Fn(&Due, &ForeignKey) -> bool) -> Step<()> {
        let mut left = TURN_STEPS;
        for place in self.txn.due.first..self.txn.due.len() {
            if matches!(self.txn.due.checks[place].1, Made::Yes) {
                continue;
            }
            self.step()?;
            let check = self.txn.due.checks[place].0.clone();
            // With its table or by itself, the constraint may have been dropped since.
            let table = self.catalog().table(check.table).cloned();
            if let Some(table) = table
                && let Some(key) = table.foreign_key(check.constraint)
            {
                if !wanted(&self.txn.due, key) {
                    continue;
                }
                if left == 0 && self.session.is_some() {
                    return Err(self.end_turn());
                }
                left = left.saturating_sub(1);
                match &check.values {
                    Some(bytes) => self.check_due_values(&table, key, check.side, bytes)?,
                    None => self.check_due_rows(place, &table, key, check.side)?,
                }
                self.count_changes()?;
            }
            self.txn.due.note_made(place);
            self.tenant.release_pages(self.txn);
        }
        Ok(())
    }

    fn check_due_values(
        &mut self,
        table: &Arc<Table>,
        key: &ForeignKey,
        side: Side,
        bytes: &[u8],
    ) -> Step<()> {
        let values = Vec::<Datum>::decode(&mut &*bytes)
            .map_err(|malformed| SqlError::internal(format!("a check that is due: {}", malformed.0)))?;
        let referenced = self.table(key.referenced_table)?;
        match side {
            Side::Referencing => {
                if !self.lock_referenced(table, &referenced, key, &values)?
                    && self.has_row_with(table, &key.columns, &values)?
                {
                    return Err(self.not_referenced(table, &referenced, key, &values).into());
                }
                Ok(())
            }
            Side::Referenced => self.require_unreferenced(&referenced, table, key, &values),
        }
    }

    /// Looks at all rows of the referencing table.
    fn check_due_rows(&mut self, place: usize, table: &Arc<Table>, key: &ForeignKey, side: Side) -> Step<()> {
        let referenced = self.table(key.referenced_table)?;
        // One lock for all of its rows, if it is to be had: two that filled both tables would wait for each other.
        let share = LockMode::Table(TableLock::Share);
        if !share.is_covered_by(self.txn.tables.of(referenced.oid))
            && self.tenant.lock(self.txn, LockTag::Table(referenced.oid), share, WaitPolicy::NoWait)?
        {
            self.txn.tables.add(referenced.oid, share.bit());
        }
        // Another key, which somebody else gives a row, would have it among those that were looked at; nothing is asked of its foreign keys for that.
        if side == Side::Referenced {
            self.hold_places(table, RowLock::Update)?;
        }
        let after = match &self.txn.due.checks[place].1 {
            Made::UpTo(after) => Some(after.clone()),
            Made::No | Made::Yes => None,
        };
        let range = KeyRange::behind(after.as_ref());
        let mut scan = self.scan_state(table, Access::Table, range, Direction::Forward, State::Newest);
        let mut left = TURN_STEPS;
        while let Some(row) = self.next(&mut scan)? {
            let (at, row) = (Key::from_slice(row.key()), row.to_row()?);
            if let Some(values) = key.referencing_values(&row)
                && !self.lock_referenced(table, &referenced, key, &values)?
            {
                return Err(match side {
                    Side::Referencing => self.not_referenced(table, &referenced, key, &values),
                    Side::Referenced => {
                        let format = self.session.map(|session| session.format);
                        let pairs = Pairs { key, referencing: table, referenced: &referenced, format };
                        let old = pairs.referenced_values(&values).unwrap_or(values);
                        self.still_referenced(&referenced, table, key, &old)
                    }
                }
                .into());
            }
            self.txn.due.checks[place].1 = Made::UpTo(at);
            left -= 1;
            if left == 0 {
                self.count_changes()?;
                if self.session.is_some() {
                    self.tenant.release_pages(self.txn);
                    return Err(self.end_turn());
                }
                left = TURN_STEPS;
            }
        }
        Ok(())
    }
}
