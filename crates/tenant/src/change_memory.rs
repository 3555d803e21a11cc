//! The memory that open transactions take for changes that are not in pages yet, for their locks, and for what SERIALIZABLE ones have read.
//!
//! What is poured into a branch takes none but for the locks of its rows; changes behind a savepoint that was set while there was one, those of
//! a table rewritten in the same transaction, and of one that reads a snapshot those behind an index that it built, stay in overlays until the commit. They are counted in steps, charged to the budget of all memory beyond
//! what every tenant may have, and limited ([`storage::ChangeCharge`]). A statement over the limit fails, and costs nobody else anything.

use std::sync::{Arc, Weak};

use base::{ByteCount, SqlError, SqlResult, SqlState};
use storage::{ChangeCharge, MemoryBudget};

use crate::catalog::Catalog;
use crate::locks::LockTable;
use crate::overlay::Overlay;
use crate::tenant::Tenant;
use crate::txn::Txn;
use crate::view::View;

/// Bytes of one transaction's changes that are counted at a time.
const STEP: u64 = 64 << 10;

/// Bytes for a lock that a transaction holds: in its list and in the table of locks, with a key of some 20 bytes. A longer key is there twice more.
const LOCK_LEN: u64 = 200;

/// Bytes of the definitions that snapshots of open transactions read and the next change of the catalog leaves to them alone.
const OLD_CATALOGS_LEN_MAX: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// What the open transactions of a tenant hold.
#[derive(Default)]
pub(crate) struct ChangeMemory {
    bytes: u64,
    charge: ChangeCharge,
}

impl ChangeMemory {
    /// Takes `before` out and `after` in, if the budget has room for what that makes. What gets smaller always fits.
    fn replace(&mut self, before: u64, after: u64, budget: Option<&Arc<MemoryBudget>>) -> Result<(), Full> {
        let bytes = self.bytes - before + after;
        if let Some(budget) = budget {
            let bytes = ByteCount(bytes);
            self.charge.set(bytes, budget).map_err(|max| Full { bytes, max })?;
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// The changes of a tenant, or of all, would take more than they may.
struct Full {
    /// The tenant's.
    bytes: ByteCount,
    max: ByteCount,
}

/// Bytes for a foreign key check that is due, with a value or two.
const CHECK_LEN: u64 = 150;

/// The catalogs that a transaction's savepoints go back to. Each that another one followed is in memory as a whole.
#[derive(Default, Debug)]
pub(crate) struct SavedCatalogs {
    /// Those that some savepoint may have still, and their bytes.
    all: Vec<(Weak<Catalog>, u64)>,
    len: u64,
}

impl SavedCatalogs {
    /// A savepoint has this one.
    pub(crate) fn note(&mut self, catalog: &Arc<Catalog>) {
        self.all.retain(|(saved, _)| saved.strong_count() > 0);
        if self.all.last().is_none_or(|(last, _)| last.as_ptr() != Arc::as_ptr(catalog)) {
            self.all.push((Arc::downgrade(catalog), catalog.footprint()));
        }
        self.len = self.all.iter().map(|(_, len)| len).sum();
    }
}

impl Txn {
    /// `table` is the one in which its locks are.
    fn memory_of_changes(&self, table: &LockTable) -> u64 {
        let many = if self.branched { table.len_of_many() } else { 0 };
        let locks = (self.held.len() + self.deferred.len()) as u64;
        let keys = (self.held.keys_len() + self.deferred.keys_len()) as u64;
        let due = (self.checks.len() + self.carried.len() + self.cascaded.len()) as u64;
        let before = self.before.as_ref().map_or(0, |before| before.footprint);
        let locks = LOCK_LEN * locks + 2 * keys;
        let kept = self.before_branch.as_ref().map_or(0, Overlay::footprint);
        let changes = self.overlay.footprint() + kept + before + self.saved.len;
        changes + locks + many + CHECK_LEN * due + self.due.memory() + self.reads.memory()
    }
}

impl View<'_> {
    /// Looks what the transaction's changes take by now; to be called after each.
    ///
    /// Errors: 53200 where that is more than they may.
    #[inline]
    pub(crate) fn count_changes(&mut self) -> SqlResult<()> {
        let bytes = self.txn.memory_of_changes(&self.tenant.locks);
        if bytes < self.txn.counted + STEP { Ok(()) } else { self.tenant.count_changes(self.txn, bytes) }
    }
}

impl Tenant {
    #[cold]
    fn count_changes(&mut self, txn: &mut Txn, mut bytes: u64) -> SqlResult<()> {
        let mut replaced = self.change_memory.replace(txn.counted, bytes, self.pages.budget());
        if replaced.is_err() && txn.reads.widen() {
            bytes = txn.memory_of_changes(&self.locks);
            replaced = self.change_memory.replace(txn.counted, bytes, self.pages.budget());
        }
        replaced.map_err(|full| {
            SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for the changes of open transactions")
                .with_detail(format!(
                    "Those of this database would take {}, of {} that changes may.",
                    full.bytes, full.max
                ))
                .with_hint("Without savepoints, long changes that run in slices take none.")
        })?;
        txn.counted = bytes;
        Ok(())
    }

    /// The transaction has fewer changes than before: they were taken back, or poured.
    pub(crate) fn recount_changes(&mut self, txn: &mut Txn) {
        let bytes = txn.memory_of_changes(&self.locks);
        if bytes < txn.counted {
            let bytes = if bytes < STEP { 0 } else { bytes };
            self.set_smaller(txn, bytes);
        }
    }

    /// The transaction has ended.
    pub(crate) fn forget_changes(&mut self, txn: &mut Txn) {
        if txn.counted > 0 {
            self.set_smaller(txn, 0);
        }
    }

    fn set_smaller(&mut self, txn: &mut Txn, bytes: u64) {
        let replaced = self.change_memory.replace(txn.counted, bytes, self.pages.budget());
        assert!(replaced.is_ok(), "what gets smaller fits");
        txn.counted = bytes;
    }

    /// Whoever reads a snapshot reads the definitions of that time, which are in memory as a whole while it does, in nobody's budget.
    ///
    /// Errors: 53200 where another change of the catalog would leave too many behind.
    pub(crate) fn require_few_old_catalogs(&self) -> SqlResult<()> {
        let read = self.snapshots.values().map(|frozen| &frozen.catalog);
        let mut found: Vec<_> = read.map(|catalog| (Arc::as_ptr(catalog), catalog.footprint())).collect();
        found.sort_unstable();
        found.dedup();
        let len: u64 = found.iter().map(|(_, len)| len).sum();
        if len <= OLD_CATALOGS_LEN_MAX {
            return Ok(());
        }
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for definitions that transactions read")
            .with_detail(format!(
                "They read {} states of the catalog, of {}; {} may be left to them.",
                found.len(),
                ByteCount(len),
                ByteCount(OLD_CATALOGS_LEN_MAX)
            ))
            .with_hint("End transactions under REPEATABLE READ and SERIALIZABLE."))
    }

    /// What its open transactions may hold in changes, and one statement in rows on their way to become some; `None` without a budget.
    pub fn changes_max(&self) -> Option<ByteCount> {
        self.pages.budget().map(|budget| budget.changes_max())
    }

    /// Bytes of memory that the changes of its open transactions take, as counted.
    pub fn change_bytes(&self) -> ByteCount {
        ByteCount(self.change_memory.bytes)
    }
}
