//! Memory that holds changes instead of pages, in the same budget: while transactions hold more of it, fewer pages stay.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::ByteCount;

use crate::memory_budget::MemoryBudget;

/// What each tenant's changes may take whatever the limit is and whatever others have; it is not charged. A transaction of 1 MiB of rows, which
/// may stay in memory, takes up to three times that with its locks.
const FREE: u64 = 4 << 20;

/// The part of the limit that one tenant's changes may take.
const OF_TENANT_PART: u64 = 8;

/// The part that all tenants' may take together, beyond what each has free.
const OF_ALL_PART: u64 = 4;

impl MemoryBudget {
    /// What one tenant's open transactions may hold in changes: an eighth of the limit, 4 MiB at least.
    pub fn changes_max(&self) -> ByteCount {
        ByteCount((self.limit().0 / OF_TENANT_PART).max(FREE))
    }

    fn all_changes_max(&self) -> u64 {
        self.limit().0 / OF_ALL_PART
    }
}

/// What one tenant's changes take of a budget beyond what is free; refunded when dropped.
#[derive(Default)]
pub struct ChangeCharge {
    bytes: u64,
    budget: Option<Arc<MemoryBudget>>,
}

impl ChangeCharge {
    /// The tenant's changes take `bytes` from now on. Does not wait for room: evictors make it.
    ///
    /// # Errors
    /// What may be, where this is more than the tenant's may take, or would be more than all tenants' may together; nothing is changed then. What
    /// is less than before always fits, and so does what is free.
    pub fn set(&mut self, bytes: ByteCount, budget: &Arc<MemoryBudget>) -> Result<(), ByteCount> {
        let held = &budget.changes;
        let charged = bytes.0.saturating_sub(FREE);
        if charged > self.bytes && bytes > budget.changes_max() {
            return Err(budget.changes_max());
        }
        match charged.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => {
                let max = budget.all_changes_max();
                let within = |held: u64| held.checked_add(more).filter(|held| *held <= max);
                let grown = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
                grown.map_err(|_| ByteCount(max))?;
                budget.charge(more);
            }
            None => {
                let less = self.bytes - charged;
                held.fetch_sub(less, Ordering::Relaxed);
                budget.refund(less);
            }
        }
        self.bytes = charged;
        if self.budget.is_none() {
            self.budget = Some(budget.clone());
        }
        Ok(())
    }
}

impl Drop for ChangeCharge {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.take() {
            let refunded = self.set(ByteCount(0), &budget);
            assert!(refunded.is_ok(), "what gets less fits");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_take_room_from_pages_and_give_it_back() {
        let budget = MemoryBudget::new(ByteCount::from_mib(64), 0, 1);
        let mib = ByteCount::from_mib;
        let mut one = ChangeCharge::default();
        one.set(mib(4), &budget).unwrap();
        assert_eq!(budget.resident(), mib(0), "so much is free");
        assert_eq!(one.set(mib(9), &budget), Err(mib(8)), "an eighth is for one");
        one.set(mib(8), &budget).unwrap();
        one.set(mib(7), &budget).unwrap();
        assert_eq!(budget.resident(), mib(3));
        let mut others: Vec<ChangeCharge> = (0..4).map(|_| ChangeCharge::default()).collect();
        others[..3].iter_mut().for_each(|other| other.set(mib(8), &budget).unwrap());
        assert_eq!(others[3].set(mib(6), &budget), Err(mib(16)), "a quarter is for all");
        others[3].set(mib(4), &budget).expect("it is free, whatever others have");
        drop(one);
        others[3].set(mib(8), &budget).unwrap();
        assert_eq!(budget.resident(), mib(16));
        drop(others);
        assert_eq!(budget.resident(), mib(0));
    }
}
