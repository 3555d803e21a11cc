//! Whether what a tenant's pages took beyond its promise is more than chance.
//!
//! A baseline is a simulation of some of the pages, so a cache of just the promised size is a little better or worse than its baseline in every interval.
//! An excess counts once it is *found*: it is larger than what two things explain.
//!
//! * *The sample.* A ghost of `k` pages stands for the sampled part of a cache that is not of exactly `k` pages of the sample, but of `k` and half of its square
//!   root more or less: which pages are popular is chance, and does not even out over time. If half the memory costs `h` I/Os more, so much less costs
//!   `h / sqrt(k)`, along a line. Where every page is looked at it costs nothing.
//! * *The count.* The difference of two counts of `a` and `b` things that have nothing to do with each other deviates by `sqrt(a + b)`. Three of these.
//!
//! What is not found is carried on to the next interval, all of it, until it is found or there is nothing left of it. So a small shortfall that stays is found
//! later than a large one, and at its full size; and what a tenant gains in one interval is no payment for what it lacks in a later one.
//!
//! Example: 1,000 uses an interval of pages all of which are looked at, 300 reads by the baseline, 326 in fact. After n intervals the excess is 26 n and
//! `3 * sqrt(626 n)` is chance: it is found at the end of the ninth, as 234 of which 225 may be chance.

#[cfg(test)]
mod tests;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos};

use super::PAGES_MAX;
use super::sample::PageSample;
use super::tally::MemoryCounts;

/// How many deviations of a difference of counts are chance.
const DEVIATIONS: f64 = 3.0;

/// What an excess is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    pub(super) promised: ByteCount,
    pub(super) penalty_micros: u64,
}

/// The excess of the intervals since one of them left nothing over, which is not found yet.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Evidence {
    /// When the first of them began; `None` if there is none.
    since: Option<Nanos>,
    /// I/Os beyond the baseline.
    excess: i64,
    /// What of these the sample explains.
    by_sample: f64,
    /// The square of one deviation of the excess.
    variance: f64,
    /// The price of the excess, each interval's at its own.
    price_micros: i128,
}

/// An excess that chance does not explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// When the first of the intervals began that it is of.
    pub(super) since: Nanos,
    /// I/Os beyond the baseline, above 0.
    pub(super) excess: u64,
    /// The most of them that may be chance all the same.
    pub(super) by_chance: u64,
    pub(super) owed_micros: u64,
}

impl Evidence {
    /// Adds an interval that began at `from`, of so many `counts`. What is found with it is not carried on.
    pub(super) fn add(&mut self, from: Nanos, counts: &MemoryCounts, terms: Terms) -> Option<Found> {
        let pages = (terms.promised.0 / PAGE_SIZE as u64).min(PAGES_MAX);
        let sample = PageSample::for_cache(pages);
        let excess = counts.excess();
        self.since.get_or_insert(from);
        self.excess += excess;
        self.price_micros += i128::from(excess) * i128::from(terms.penalty_micros);
        if sample.unit() > 1 {
            self.by_sample += counts.excess_of_half() as f64 / (sample.part_of(pages) as f64).sqrt();
        }
        // Each thing that was counted stands for so many.
        let counted = counts.actual.total() + counts.baseline().total() + counts.unwritten.unsigned_abs();
        self.variance += counted as f64 * sample.unit() as f64;
        if self.excess as f64 <= self.by_sample {
            *self = Evidence::default();
            return None;
        }
        let by_chance = self.by_sample + DEVIATIONS * self.variance.sqrt();
        if (self.excess as f64) < by_chance {
            return None;
        }
        let of = std::mem::take(self);
        Some(Found {
            since: of.since.unwrap_or(from),
            excess: of.excess.unsigned_abs(),
            by_chance: by_chance as u64,
            owed_micros: u64::try_from(of.price_micros.max(0)).unwrap_or(u64::MAX),
        })
    }
}
