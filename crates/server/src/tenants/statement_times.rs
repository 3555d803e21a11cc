//! How long a tenant's statements took, gathered until the ledger's thread takes it for the history.
//!
//! A statement's time is what its client waited: from the arrival of its message (with pipelined ones, of the first of them, or the end of the answer before)
//! until its answer may be sent, its commit durable. Several that are answered together count with the same time each. A COPY FROM STDIN, which goes by
//! the client's pace, is left out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Nanos;
use governor::SparseHistogram;

/// Written by the tenant's home worker, some 10 ns a statement and 30 for the clock; taken by the ledger's thread, which holds the lock for an exchange.
#[derive(Default)]
pub(crate) struct StatementTimes(Mutex<(SparseHistogram, Nanos)>);

impl StatementTimes {
    fn lock(&self) -> MutexGuard<'_, (SparseHistogram, Nanos)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts so many statements that took so long.
    pub(crate) fn record(&self, time: Nanos, statements: u32) {
        if statements == 0 {
            return;
        }
        let (times, sum) = &mut *self.lock();
        times.record_many(time.0, u64::from(statements));
        *sum += Nanos(time.0 * u64::from(statements));
    }

    /// What was counted since the call before, and the sum of it.
    pub(crate) fn take(&self) -> (SparseHistogram, Nanos) {
        std::mem::take(&mut *self.lock())
    }
}
