//! How long workers stood still for something, as a histogram that any thread may add to and read.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

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

    /// Writes the histogram in Prometheus' text format.
    pub(crate) fn render(&self, name: &str, help: &str, out: &mut String) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut count = 0;
        for (i, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS.get(i).map_or("+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let total = Nanos(self.total.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(out, "{name}_sum {total}\n{name}_count {count}");
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
        let mut text = String::new();
        pauses.render("pause_seconds", "Pauses.", &mut text);
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
