//! Reading and sorting a tenant's records ahead of who applies them, for a thread of its own.

use std::sync::{Arc, Mutex, PoisonError};

use base::{CommitNo, TenantId};
use storage::MemoryBudget;
use storage::redo::{RecordBatch, RedoIndex, TenantRecords};

use super::sorting::{Sorted, Sorter};
use super::{BATCH_LEN_ALONE, batch_len};
use crate::tenant::{OpenError, Tenant};

/// Batches that exist at a time: one is being read, one waits, one is being applied.
const BATCHES: usize = 3;

/// A batch of records that was read and sorted. Dropped, its memory serves for another one.
pub struct SortedBatch {
    pub(super) records: RecordBatch,
    pub(super) sorted: Sorted,
    /// Bytes of it that are new in the log.
    pub(super) len: usize,
    spares: Spares,
}

type Spares = Arc<Mutex<Vec<(RecordBatch, Sorted)>>>;

impl Drop for SortedBatch {
    fn drop(&mut self) {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < BATCHES {
            spares.push((std::mem::take(&mut self.records), std::mem::take(&mut self.sorted)));
        }
    }
}

/// Reads and sorts what follows a tenant's root while the logs are still being read.
pub struct RecordSorter {
    tenant: TenantId,
    records: TenantRecords,
    sorter: Sorter,
    /// The beginning of a change that goes on in the next batch.
    rest: RecordBatch,
    last: CommitNo,
    budget: Option<Arc<MemoryBudget>>,
    spares: Spares,
}

impl RecordSorter {
    /// Of the records that `tenant` has not applied.
    pub fn new(tenant: &Tenant, redo: &RedoIndex) -> RecordSorter {
        RecordSorter {
            tenant: tenant.id(),
            records: redo.records_so_far(tenant.id(), tenant.committed()),
            sorter: Sorter::default(),
            rest: RecordBatch::default(),
            last: tenant.committed(),
            budget: tenant.pages.budget().cloned(),
            spares: Spares::default(),
        }
    }

    /// The next batch, as soon as there is something to be read; `None` when the logs have been read and there is no more. Blocks while it reads.
    ///
    /// # Errors
    /// A log that cannot be read; a record that does not follow.
    pub async fn next(&mut self) -> Result<Option<SortedBatch>, OpenError> {
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (mut records, sorted) = spare.unwrap_or_default();
        records.clear();
        records.begin_with(&mut self.rest);
        let mut batch = SortedBatch { records, sorted, len: 0, spares: Arc::clone(&self.spares) };
        let room = batch_len(self.budget.as_deref(), BATCH_LEN_ALONE * BATCHES) / BATCHES;
        while !self.records.read_into(&mut batch.records, room)? {
            if !self.records.wait_for_more().await {
                return Ok(None);
            }
        }
        self.sorter.sort(self.tenant, self.last, &batch.records, &mut batch.sorted).await?;
        batch.len = self.sorter.pass_on(&mut batch.records, &mut self.rest);
        self.last = batch.sorted.last;
        Ok(Some(batch))
    }
}
