//! The system tables that a query has had made: each once, however often it names them, and counted against its tenant's working memory.
//!
//! They are made while the query is planned, before any of its operators asks for memory. What a query's tables take together up to [`UNCOUNTED_MAX`] is not counted:
//! who looks at a few names is answered also where its tenant's queries hold all that it may have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::SqlResult;
use datafusion::arrow::array::ArrayRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use rustc_hash::FxHashMap;
use sql::system::SystemTable;

use crate::error::Planned;

const UNCOUNTED_MAX: usize = 1 << 20;

/// A table's columns, and how many rows they have.
#[derive(Clone)]
pub(crate) struct MadeTable {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
}

impl MadeTable {
    fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.get_array_memory_size()).sum()
    }
}

/// Those of one query.
#[derive(Default)]
pub(crate) struct MadeTables(Mutex<Made>);

#[derive(Default)]
struct Made {
    pool: Option<Arc<dyn MemoryPool>>,
    /// Of the pool that there was when the first bytes were counted.
    counted: Option<MemoryReservation>,
    /// What all of them take, and rows on their way.
    bytes: usize,
    /// By schema and name.
    tables: FxHashMap<(&'static str, &'static str), MadeTable>,
}

impl MadeTables {
    fn lock(&self) -> MutexGuard<'_, Made> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The query's memory is of this pool.
    pub(crate) fn set_pool(&self, pool: Arc<dyn MemoryPool>) {
        self.lock().pool = Some(pool);
    }

    pub(super) fn find(&self, table: &SystemTable) -> Option<MadeTable> {
        self.lock().tables.get(&(table.schema, table.name)).cloned()
    }

    /// Keeps a table for the rest of the query.
    ///
    /// # Errors
    /// 53200: the tenant may not have the memory.
    pub(super) fn keep(&self, table: &SystemTable, made: MadeTable) -> SqlResult<()> {
        self.count(made.bytes())?;
        self.lock().tables.insert((table.schema, table.name), made);
        Ok(())
    }

    /// Counts bytes, until [`MadeTables::uncount`] or the query's end.
    ///
    /// # Errors
    /// 53200: the tenant may not have them.
    pub(super) fn count(&self, more: usize) -> SqlResult<()> {
        let mut made = self.lock();
        let bytes = made.bytes + more;
        if bytes > UNCOUNTED_MAX
            && let Some(pool) = made.pool.clone()
        {
            let consumer = || MemoryConsumer::new("system tables").register(&pool);
            let counted = made.counted.get_or_insert_with(consumer);
            let wanted = bytes - UNCOUNTED_MAX;
            counted.try_grow(wanted.saturating_sub(counted.size())).planned()?;
        }
        made.bytes = bytes;
        Ok(())
    }

    /// Counts so many bytes less.
    pub(super) fn uncount(&self, less: usize) {
        let mut made = self.lock();
        made.bytes -= less;
        let wanted = made.bytes.saturating_sub(UNCOUNTED_MAX);
        if let Some(counted) = &mut made.counted {
            counted.shrink(counted.size().saturating_sub(wanted));
        }
    }
}

#[cfg(test)]
mod tests {
    use base::SqlState;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_is_beyond_a_mebibyte_is_counted_while_it_is_held() {
        let (pool, made) = (Arc::new(GreedyMemoryPool::new(3 * MIB)), MadeTables::default());
        made.set_pool(pool.clone());
        made.count(MIB).unwrap();
        assert_eq!(pool.reserved(), 0);
        made.count(2 * MIB).unwrap();
        assert_eq!(pool.reserved(), 2 * MIB);
        assert_eq!(made.count(2 * MIB).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        made.uncount(2 * MIB);
        assert_eq!(pool.reserved(), 0);
        made.count(3 * MIB).unwrap();
        made.uncount(MIB / 2);
        assert_eq!(pool.reserved(), 5 * MIB / 2);
        drop(made);
        assert_eq!(pool.reserved(), 0);
    }
}
