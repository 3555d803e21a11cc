//! One operator's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::ByteCount;

use super::{TenantWorkMemory, UNIT, WorkMemoryRefusal};

/// A sort, hash or overlay that holds memory. What it holds is given back when it is dropped. Its methods can be called by several threads at once, never
/// block, and allocate nothing.
pub struct WorkOperator {
    pool: Arc<TenantWorkMemory>,
    can_spill: bool,
    /// It is among those for which the tenant's promise is claimed.
    claims: bool,
    held: AtomicU64,
}

impl WorkOperator {
    pub(super) fn new(pool: Arc<TenantWorkMemory>, can_spill: bool, claims: bool) -> WorkOperator {
        WorkOperator { pool, can_spill, claims, held: AtomicU64::new(0) }
    }

    /// Bytes it holds.
    pub fn held(&self) -> ByteCount {
        ByteCount(self.held.load(Relaxed))
    }

    /// Asks for more bytes. Refused: it holds what it held; it spills and asks again, or its statement fails (53200).
    pub fn try_grow(&self, more: ByteCount) -> Result<(), WorkMemoryRefusal> {
        self.grow_by(more, |units, own| self.pool.try_take(units, own, self.can_spill))
    }

    /// Takes more bytes, which it holds already, whatever the limits.
    pub fn grow(&self, more: ByteCount) {
        let taken = self.grow_by(more, |units, _| {
            self.pool.take(units);
            Ok(())
        });
        taken.expect("it is not asked");
    }

    /// The pool's units are taken before the bytes are held, and given back after they are not, so the pool never knows of less than there is.
    fn grow_by(
        &self,
        more: ByteCount,
        take: impl Fn(u64, u64) -> Result<(), WorkMemoryRefusal>,
    ) -> Result<(), WorkMemoryRefusal> {
        let mut held = self.held.load(Relaxed);
        loop {
            let after = held.saturating_add(more.0);
            let (own, units) = (held.div_ceil(UNIT), after.div_ceil(UNIT) - held.div_ceil(UNIT));
            if units > 0 {
                take(units, own)?;
                self.note_unspillable(units, 0);
            }
            match self.held.compare_exchange_weak(held, after, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(found) => {
                    self.give_back(units);
                    held = found;
                }
            }
        }
    }

    /// Gives bytes back.
    ///
    /// # Panics
    ///
    /// If it does not hold as many.
    pub fn shrink(&self, less: ByteCount) {
        let after = |held: u64| held.checked_sub(less.0);
        let held = self.held.fetch_update(Relaxed, Relaxed, after);
        let held = held.unwrap_or_else(|held| panic!("{held} bytes held, {less} given back"));
        self.give_back(held.div_ceil(UNIT) - (held - less.0).div_ceil(UNIT));
    }

    fn give_back(&self, units: u64) {
        if units > 0 {
            self.note_unspillable(0, units);
            self.pool.give_back(units);
        }
    }

    fn note_unspillable(&self, more: u64, less: u64) {
        if !self.can_spill {
            self.pool.unspillable.fetch_add(more, Relaxed);
            self.pool.unspillable.fetch_sub(less, Relaxed);
        }
    }
}

impl Drop for WorkOperator {
    fn drop(&mut self) {
        self.shrink(self.held());
        self.pool.operator_ended(self.can_spill, self.claims);
    }
}
