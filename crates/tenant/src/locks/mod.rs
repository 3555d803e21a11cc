//! Locks of one tenant: rows in five modes, tables in eight, advisory locks, and the one that serialises DDL.
//!
//! One hash table holds them all; a tenant without locks pays one load. A session is the owner of its locks, be they for
//! its transaction or (advisory ones) for itself, so it never waits for itself. Waiters queue in order and are granted
//! by whoever lets go; a cycle is found when a wait would close it, and the closer fails with 40P01, unless another one of the cycle can give way:
//! by going on without what it waits for, or by giving back the right to change the catalog, by which it has changed nothing yet.

mod deadlock;
mod list;
mod mode;
mod spread_set;
mod spread_table;
mod table;
mod wait;

pub use list::LockRecord;
pub use mode::{LockMode, RowLock, TableLock};
pub(crate) use table::{Acquired, LockTable, Scope, not_available};
pub use wait::LockWait;

use base::{Nanos, Oid, TreeId};

use crate::row::keys::{Key, copied};

/// What a lock is on.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum LockTag {
    Table(Oid),
    /// A key of a tree: a row, or a unique index's key.
    Row(TreeId, Key),
    Advisory(AdvisoryKey),
    /// Changing the catalog; in mode `Share`, that nobody does.
    Ddl,
    /// Having the tenant's branch; in mode `Exclusive`, that nobody has it.
    Branch,
}

impl Clone for LockTag {
    fn clone(&self) -> LockTag {
        match self {
            LockTag::Table(table) => LockTag::Table(*table),
            LockTag::Row(tree, key) => LockTag::Row(*tree, copied(key)),
            LockTag::Advisory(key) => LockTag::Advisory(*key),
            LockTag::Ddl => LockTag::Ddl,
            LockTag::Branch => LockTag::Branch,
        }
    }
}

impl LockTag {
    /// Whether who waits for this lock in this mode is sent away rather than have another one fail whose wait closes a circle: for a branch, since it can go on
    /// without one, and for the end of a branch, since it has less to lose than the transaction that has it.
    fn gives_way(&self, mode: LockMode) -> bool {
        match self {
            LockTag::Branch => true,
            LockTag::Ddl => mode == LockMode::NO_DDL,
            LockTag::Table(_) | LockTag::Row(..) | LockTag::Advisory(_) => false,
        }
    }

    /// As `pg_locks` and wait events name what is locked.
    pub fn kind(&self) -> &'static str {
        match self {
            LockTag::Table(_) => "relation",
            LockTag::Row(..) => "tuple",
            LockTag::Advisory(_) => "advisory",
            LockTag::Ddl | LockTag::Branch => "object",
        }
    }
}

/// The key of an advisory lock; the two forms never meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdvisoryKey {
    Big(i64),
    Pair(i32, i32),
}

/// What to do where a lock is held by another session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitPolicy {
    Wait,
    /// Wait for some milliseconds. The statement that is run again then goes on without the lock or asks for it again.
    Briefly,
    /// Wait for half a second, and hold nobody up who comes later.
    AtLeisure,
    /// Fail with 55P03.
    NoWait,
    /// Leave the row out.
    SkipLocked,
}

/// What others, who come to wait behind it, are held up by a wait that is to be short.
const BRIEFLY: Nanos = Nanos(10_000_000);

/// How long nobody is held up between two of these.
const AT_LEISURE: Nanos = Nanos(500_000_000);

impl WaitPolicy {
    fn waits(self) -> bool {
        matches!(self, WaitPolicy::Wait | WaitPolicy::Briefly | WaitPolicy::AtLeisure)
    }

    /// How long; `None` for as long as it takes.
    fn at_most(self) -> Option<Nanos> {
        match self {
            WaitPolicy::Briefly => Some(BRIEFLY),
            WaitPolicy::AtLeisure => Some(AT_LEISURE),
            WaitPolicy::Wait | WaitPolicy::NoWait | WaitPolicy::SkipLocked => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_names_the_same_lock() {
        let keys = [&b""[..], &[7; 24], &[7; 25], &[7; 300]];
        let rows = keys.map(|key| LockTag::Row(TreeId(3), Key::from_slice(key)));
        let others = [
            LockTag::Table(Oid(5)),
            LockTag::Advisory(AdvisoryKey::Big(-1)),
            LockTag::Advisory(AdvisoryKey::Pair(1, 2)),
            LockTag::Ddl,
            LockTag::Branch,
        ];
        for tag in rows.iter().chain(&others) {
            assert_eq!(tag.clone(), *tag);
        }
    }
}
