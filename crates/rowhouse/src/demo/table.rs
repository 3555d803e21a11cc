//! The demo's live table: throughput, latency and CPU of each tenant over the last second.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use workloads::load::Live;
use workloads::report::{Latencies, LatencySummary};

/// A tenant's counters at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    transactions: u64,
    latencies: Latencies,
    cpu_seconds: Option<f64>,
}

impl Row {
    pub(super) fn read(live: &Live, cpu_seconds: Option<f64>) -> Row {
        let latencies = live.take_latencies();
        Row {
            transactions: live.transactions.load(std::sync::atomic::Ordering::Relaxed),
            latencies,
            cpu_seconds,
        }
    }
}

/// Redrawn in place on a terminal; one line a second elsewhere.
pub(super) struct Table {
    names: Vec<String>,
    before: Vec<Row>,
    now: Vec<Row>,
    drawn_lines: usize,
    in_place: bool,
    seconds: u64,
}

impl Table {
    pub(super) fn new(names: &[String]) -> Table {
        Table {
            names: names.to_vec(),
            before: vec![Row::default(); names.len()],
            now: vec![Row::default(); names.len()],
            drawn_lines: 0,
            in_place: std::io::stdout().is_terminal(),
            seconds: 0,
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Takes the counters of another second.
    pub(super) fn update(&mut self, rows: Vec<Row>) {
        self.before = std::mem::replace(&mut self.now, rows);
        self.seconds += 1;
    }

    /// Draws what changed in the last second.
    pub(super) fn draw(&mut self) {
        let mut text = String::new();
        if self.in_place {
            if self.drawn_lines > 0 {
                let _ = write!(text, "\x1b[{}A", self.drawn_lines);
            }
            let _ = writeln!(
                text,
                "\x1b[2K{:<12} {:>10} {:>9} {:>9} {:>9} {:>8}",
                "tenant", "tx/s", "p50 ms", "p95 ms", "p99 ms", "CPU %"
            );
            for index in 0..self.names.len() {
                let _ = writeln!(text, "\x1b[2K{}", self.line(index));
            }
            let _ = writeln!(text, "\x1b[2K{:<12} {:>10}   after {} s", "sum", self.sum(), self.seconds);
            self.drawn_lines = self.names.len() + 2;
        } else {
            let _ = writeln!(text, "{:>5} s {:>10} tx/s", self.seconds, self.sum());
        }
        let mut out = std::io::stdout().lock();
        // A closed terminal ends the demo elsewhere.
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    fn line(&self, index: usize) -> String {
        let (before, now) = (&self.before[index], &self.now[index]);
        let LatencySummary { p50_ms, p95_ms, p99_ms, .. } = now.latencies.summary();
        let cpu = match (before.cpu_seconds, now.cpu_seconds) {
            (Some(a), Some(b)) => format!("{:>7.1}", (b - a) * 100.0),
            _ => "-".into(),
        };
        let count = now.transactions - before.transactions;
        format!("{:<12} {count:>10} {p50_ms:>9.2} {p95_ms:>9.2} {p99_ms:>9.2} {cpu:>8}", self.names[index])
    }

    fn sum(&self) -> u64 {
        self.now.iter().zip(&self.before).map(|(now, before)| now.transactions - before.transactions).sum()
    }

    /// What was done in all, for an end by Ctrl-C.
    pub(super) fn summary(&self) -> String {
        let total: u64 = self.now.iter().map(|row| row.transactions).sum();
        let mean = total as f64 / self.seconds.max(1) as f64;
        format!(
            "{total} transactions in {} s, {mean:.0} a second over {} tenants",
            self.seconds,
            self.names.len()
        )
    }
}
