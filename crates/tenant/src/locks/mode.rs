//! Lock modes and PostgreSQL's tables of which conflict.

/// Modes of row locks, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RowLock {
    /// `FOR KEY SHARE`: the key stays; taken on the parent by a foreign key's check.
    KeyShare = 0,
    /// `FOR SHARE`.
    Share = 1,
    /// `FOR NO KEY UPDATE`: an UPDATE that leaves the key columns alone.
    NoKeyUpdate = 2,
    /// `FOR UPDATE`, or an UPDATE of key columns by which the row keeps its place.
    Update = 3,
    /// As `FOR UPDATE` of a row or an index's key that is about to go or to come: by a DELETE, by an UPDATE that moves it, by an INSERT. So whoever offers a row
    /// of that key knows whether to wait for what becomes of it. PostgreSQL has that in the row itself.
    Key = 4,
}

impl RowLock {
    pub(crate) const COUNT: usize = 5;
    pub(crate) const ALL: [RowLock; RowLock::COUNT] =
        [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update, RowLock::Key];
}

/// Modes of table locks, in PostgreSQL's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TableLock {
    AccessShare = 0,
    RowShare = 1,
    RowExclusive = 2,
    ShareUpdateExclusive = 3,
    Share = 4,
    ShareRowExclusive = 5,
    Exclusive = 6,
    AccessExclusive = 7,
}

/// A mode within its family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockMode {
    Row(RowLock),
    /// Also advisory locks (`Share`, `Exclusive`) and the DDL lock (`Exclusive`).
    Table(TableLock),
}

/// By row mode, the modes it conflicts with, a bit each.
const ROW_CONFLICTS: [u8; RowLock::COUNT] = [0b1_1000, 0b1_1100, 0b1_1110, 0b1_1111, 0b1_1111];

/// By table mode, the modes it conflicts with, a bit each.
const TABLE_CONFLICTS: [u8; 8] =
    [0b1000_0000, 0b1100_0000, 0b1111_0000, 0b1111_1000, 0b1110_1100, 0b1111_1100, 0b1111_1110, 0b1111_1111];

const fn is_symmetric(conflicts: &[u8]) -> bool {
    let mut i = 0;
    while i < conflicts.len() {
        let mut j = 0;
        while j < conflicts.len() {
            if (conflicts[i] >> j) & 1 != (conflicts[j] >> i) & 1 {
                return false;
            }
            j += 1;
        }
        i += 1;
    }
    true
}
const _: () = assert!(is_symmetric(&ROW_CONFLICTS) && is_symmetric(&TABLE_CONFLICTS));

impl LockMode {
    /// In which a transaction has the branch.
    pub(crate) const FOR_BRANCH: LockMode = LockMode::Table(TableLock::ShareRowExclusive);
    /// In which one has the right to change the catalog, and to keep others from having a branch.
    pub(crate) const FOR_DDL: LockMode = LockMode::Table(TableLock::Exclusive);
    /// In which it keeps others from changing the catalog.
    pub(crate) const NO_DDL: LockMode = LockMode::Table(TableLock::Share);

    pub(crate) fn bit(self) -> u8 {
        match self {
            LockMode::Row(mode) => 1 << mode as u8,
            LockMode::Table(mode) => 1 << mode as u8,
        }
    }

    /// The modes of the same family that conflict, a bit each.
    pub(crate) fn conflicts(self) -> u8 {
        match self {
            LockMode::Row(mode) => ROW_CONFLICTS[mode as usize],
            LockMode::Table(mode) => TABLE_CONFLICTS[mode as usize],
        }
    }

    /// Whether holding `mask` makes holding this mode too pointless.
    pub(crate) fn is_covered_by(self, mask: u8) -> bool {
        match self {
            LockMode::Row(_) => mask >= self.bit(),
            LockMode::Table(_) => mask & self.bit() != 0,
        }
    }

    /// PostgreSQL's name of the mode in `pg_locks`. Row locks show as what they are in PostgreSQL: one session waiting
    /// for another's transaction.
    pub fn name(self) -> &'static str {
        match self {
            LockMode::Row(RowLock::KeyShare | RowLock::Share) => "ShareLock",
            LockMode::Row(RowLock::NoKeyUpdate | RowLock::Update | RowLock::Key) => "ExclusiveLock",
            LockMode::Table(TableLock::AccessShare) => "AccessShareLock",
            LockMode::Table(TableLock::RowShare) => "RowShareLock",
            LockMode::Table(TableLock::RowExclusive) => "RowExclusiveLock",
            LockMode::Table(TableLock::ShareUpdateExclusive) => "ShareUpdateExclusiveLock",
            LockMode::Table(TableLock::Share) => "ShareLock",
            LockMode::Table(TableLock::ShareRowExclusive) => "ShareRowExclusiveLock",
            LockMode::Table(TableLock::Exclusive) => "ExclusiveLock",
            LockMode::Table(TableLock::AccessExclusive) => "AccessExclusiveLock",
        }
    }
}
