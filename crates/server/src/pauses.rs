//! How long workers stood still for something, as a histogram that any thread may add to and read.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use crate::admin::{Distribution, Exposition};

/// Upper bounds of the buckets, each twice the one before.
const BOUNDS: [Nanos; 20] = {
    let mut bounds = [Nanos(500); 20];
    let mut i = 1;
    while i < bounds.len() {
        bounds[i] = Nanos(bounds[i - 1].0 * 2);
        i += 1;
    }
    bounds
};
const _: () = assert!(BOUNDS[11].0 == 1_024_000 && BOUNDS[19].0 == 262_144_000);

/// Counts of pauses by length, from 0.5 us to 262 ms in doublings, and longer.
#[derive(Default)]
pub(crate) struct Pauses {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    total: AtomicU64,
}

impl Pauses {
    pub(crate) fn record(&self, pause: Nanos) {
        let bucket = BOUNDS.partition_point(|bound| *bound < pause);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(pause.0, Ordering::Relaxed);
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Tells of them as a histogram.
    pub(crate) fn render(&self, name: &str, help: &str, out: &mut Exposition) {
        let counts: [u64; BOUNDS.len() + 1] =
            std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed));
        let sum = Nanos(self.total.load(Ordering::Relaxed));
        out.histogram(name, help, Distribution { bounds: &BOUNDS, counts: &counts, sum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_in_every_bucket_that_holds_it() {
        let pauses = Pauses::default();
        for ns in [1, 500, 501, 1_024_000, 1_024_001, 10_000_000_000] {
            pauses.record(Nanos(ns));
        }
        let mut out = Exposition::default();
        pauses.render("pause_seconds", "Pauses.", &mut out);
        let text = out.into_text();
        for line in [
            "# TYPE pause_seconds histogram",
            "pause_seconds_bucket{le=\"0.0000005\"} 2",
            "pause_seconds_bucket{le=\"0.000001\"} 3",
            "pause_seconds_bucket{le=\"0.000512\"} 3",
            "pause_seconds_bucket{le=\"0.001024\"} 4",
            "pause_seconds_bucket{le=\"0.002048\"} 5",
            "pause_seconds_bucket{le=\"0.262144\"} 5",
            "pause_seconds_bucket{le=\"+Inf\"} 6",
            "pause_seconds_count 6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
