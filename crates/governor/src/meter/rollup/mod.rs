//! The ledger by the minute: what is left of its rows after an hour, kept for 62 days.
//!
//! [`RollUp`] takes in each row as it is made and gives out a [`RollUpBlock`] of what ended: a [`RollUpRow`] for each tenant, resource and
//! minute, whose sums are those of the ledger's rows to the last unit, with the distribution of the rates. Rows merge exactly, in any order: of
//! one minute from two blocks (a clock that was set back, a restart), and of minutes into hours. The truth is on disk, in blocks that [`RollUpBlock::encode`] makes;
//! [`Retention`] says what of it is merged and what is dropped so that it stays within its bytes. Beside the ledger there are samples ([`SampleRow`]):
//! what the advisor wants to know and no promise is about.
//!
//! Not on the run path: one task rolls up, once a metering interval.

mod encoding;
mod histogram;
mod retention;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use base::TenantId;

pub use encoding::RollUpError;
pub use histogram::SparseHistogram;
pub use retention::{Retention, RollUpSegment, RollUpStep};
pub use row::{RollUpRow, SampleRow, Sampled, WallMinute};

use crate::meter::{LedgerRow, Resource};

/// Rows of some minutes, in order; what is written at once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RollUpBlock {
    /// By tenant, resource and first minute.
    pub rows: Vec<RollUpRow>,
    /// By tenant, kind and first minute.
    pub samples: Vec<SampleRow>,
}

impl RollUpBlock {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.samples.is_empty()
    }

    fn is_ordered(&self) -> bool {
        self.rows.is_sorted_by_key(|row| (row.tenant, row.resource, row.from))
            && self.samples.is_sorted_by_key(|row| (row.tenant, row.sampled, row.from))
    }

    /// All rows of several blocks, those of the same `minutes` of the wall's clock merged into one; a stretch begins at a multiple of it. With 1:
    /// what several blocks say of a minute, together. With 60: by the hour. A row that is longer already stays whole.
    ///
    /// # Panics
    ///
    /// If `minutes` is 0.
    pub fn merged(blocks: impl IntoIterator<Item = RollUpBlock>, minutes: u32) -> RollUpBlock {
        assert!(minutes > 0, "a stretch has minutes");
        let stretch_of = |from: WallMinute| from.0 / minutes;
        let (mut rows, mut samples) = (BTreeMap::new(), BTreeMap::new());
        for block in blocks {
            for row in block.rows {
                let key = (row.tenant, row.resource, stretch_of(row.from));
                match rows.entry(key) {
                    Entry::Vacant(place) => drop(place.insert(row)),
                    Entry::Occupied(mut place) => place.get_mut().merge(&row),
                }
            }
            for row in block.samples {
                let key = (row.tenant, row.sampled, stretch_of(row.from));
                match samples.entry(key) {
                    Entry::Vacant(place) => drop(place.insert(row)),
                    Entry::Occupied(mut place) => place.get_mut().merge(&row),
                }
            }
        }
        let mut block =
            RollUpBlock { rows: rows.into_values().collect(), samples: samples.into_values().collect() };
        for row in &mut block.rows {
            (row.from, row.minutes) = aligned(row.from, row.minutes, minutes);
        }
        for row in &mut block.samples {
            (row.from, row.minutes) = aligned(row.from, row.minutes, minutes);
        }
        block
    }

    /// Leaves out what is of other tenants.
    pub fn keep_only(&mut self, tenant: TenantId) {
        self.rows.retain(|row| row.tenant == tenant);
        self.samples.retain(|row| row.tenant == tenant);
    }

    /// Leaves out what is of this tenant: it was dropped.
    pub fn forget(&mut self, tenant: TenantId) {
        self.rows.retain(|row| row.tenant != tenant);
        self.samples.retain(|row| row.tenant != tenant);
    }
}

/// The whole stretches of `by` minutes that a stretch touches.
fn aligned(from: WallMinute, minutes: u32, by: u32) -> (WallMinute, u32) {
    let start = from.0 - from.0 % by;
    let end = (u64::from(from.0) + u64::from(minutes)).next_multiple_of(u64::from(by));
    (WallMinute(start), u32::try_from(end - u64::from(start)).unwrap_or(u32::MAX))
}

/// The minutes that are not over. One a server, used by the task that collects the ledger's rows.
#[derive(Default, Debug)]
pub struct RollUp {
    rows: BTreeMap<(WallMinute, TenantId, Resource), RollUpRow>,
    samples: BTreeMap<(WallMinute, TenantId, Sampled), SparseHistogram>,
}

/// Whether all there is is of one minute. Keys go by minute.
fn is_of<K: Ord, V>(rows: &BTreeMap<(WallMinute, TenantId, K), V>, now: WallMinute) -> bool {
    let ends = [rows.first_key_value(), rows.last_key_value()];
    ends.into_iter().flatten().all(|((minute, ..), _)| *minute == now)
}

impl RollUp {
    /// Takes in a row whose interval ended in this minute; all of it counts there, whenever it began.
    pub fn add(&mut self, row: &LedgerRow, ended: WallMinute) {
        let fresh = || RollUpRow::empty(row.tenant, row.resource, ended);
        self.rows.entry((ended, row.tenant, row.resource)).or_insert_with(fresh).add(row);
    }

    /// Takes in samples of a tenant that were gathered up to this minute.
    pub fn add_samples(
        &mut self,
        tenant: TenantId,
        sampled: Sampled,
        amounts: &SparseHistogram,
        ended: WallMinute,
    ) {
        if amounts.count() > 0 {
            self.samples.entry((ended, tenant, sampled)).or_default().merge(amounts);
        }
    }

    /// Takes out all minutes but the present one, later ones too: the clock was set back since. Should a minute go on that was taken out,
    /// a later block has the rest of it.
    pub fn take_ended(&mut self, now: WallMinute) -> RollUpBlock {
        // Asked many times a minute.
        if is_of(&self.rows, now) && is_of(&self.samples, now) {
            return RollUpBlock::default();
        }
        let block = self.take_unless(|minute| minute == now);
        debug_assert!(self.rows.keys().all(|(minute, ..)| *minute == now));
        block
    }

    /// Takes out everything, the present minute as far as it is: the server ends.
    pub fn take_all(&mut self) -> RollUpBlock {
        self.take_unless(|_| false)
    }

    fn take_unless(&mut self, stays: impl Fn(WallMinute) -> bool) -> RollUpBlock {
        let rows = self.rows.extract_if(.., |(minute, ..), _| !stays(*minute)).map(|(_, row)| row).collect();
        let samples = self.samples.extract_if(.., |(minute, ..), _| !stays(*minute));
        let to_row =
            |((from, tenant, sampled), amounts)| SampleRow { tenant, sampled, from, minutes: 1, amounts };
        let mut block = RollUpBlock { rows, samples: samples.map(to_row).collect() };
        block.rows.sort_by_key(|row| (row.tenant, row.resource, row.from));
        block.samples.sort_by_key(|row| (row.tenant, row.sampled, row.from));
        block
    }

    /// Drops what there is of a tenant that was dropped.
    pub fn forget(&mut self, tenant: TenantId) {
        self.rows.retain(|(_, of, _), _| *of != tenant);
        self.samples.retain(|(_, of, _), _| *of != tenant);
    }
}
