//! What statements of one text took together.
//!
//! Added to from wherever statements of the tenant end, read from any thread: each figure is right, and those of a row may be a statement apart.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use base::Nanos;

/// What one run of a statement took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatementTook {
    pub taken: Taken,
    /// Rows told or changed, as its command tag says.
    pub rows: u64,
    pub time: Nanos,
    pub failed: bool,
    /// When it began, in microseconds since 2000-01-01 UTC.
    pub at: i64,
}

/// Processor time and I/Os.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    pub cpu: Nanos,
    pub ios: u64,
}

impl std::ops::Sub for Taken {
    type Output = Taken;

    fn sub(self, before: Taken) -> Taken {
        Taken { cpu: self.cpu - before.cpu, ios: self.ios.saturating_sub(before.ios) }
    }
}

/// What was counted, at one instant. [`StatementFigures::default`] is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatementFigures {
    /// Statements that ended, the failed ones among them.
    pub calls: u64,
    pub errors: u64,
    pub taken: Taken,
    pub rows: u64,
    pub time: Nanos,
    /// The shortest and the longest; [`Nanos`] of `u64::MAX` and 0 while there was none.
    pub time_min: Nanos,
    pub time_max: Nanos,
    /// Microseconds since 2000-01-01 UTC; `i64::MAX` and `i64::MIN` while there was none.
    pub first_seen: i64,
    pub last_seen: i64,
}

impl Default for StatementFigures {
    fn default() -> StatementFigures {
        StatementFigures {
            calls: 0,
            errors: 0,
            taken: Taken::default(),
            rows: 0,
            time: Nanos(0),
            time_min: Nanos(u64::MAX),
            time_max: Nanos(0),
            first_seen: i64::MAX,
            last_seen: i64::MIN,
        }
    }
}

/// Counts of statements that have one normal text ([`crate::normal_text`]).
#[derive(Debug)]
pub struct StatementCounts {
    text: Box<str>,
    /// Not in its tenant's table any more: who counts something asks for the text's counts again.
    dropped: AtomicBool,
    calls: AtomicU64,
    errors: AtomicU64,
    cpu: AtomicU64,
    ios: AtomicU64,
    rows: AtomicU64,
    time: AtomicU64,
    time_min: AtomicU64,
    time_max: AtomicU64,
    first_seen: AtomicI64,
    last_seen: AtomicI64,
}

impl StatementCounts {
    pub fn new(text: &str) -> StatementCounts {
        let nothing = StatementFigures::default();
        StatementCounts {
            text: text.into(),
            dropped: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            ios: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            time: AtomicU64::new(0),
            time_min: AtomicU64::new(nothing.time_min.0),
            time_max: AtomicU64::new(nothing.time_max.0),
            first_seen: AtomicI64::new(nothing.first_seen),
            last_seen: AtomicI64::new(nothing.last_seen),
        }
    }

    /// The normal text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it was taken out of its table.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Notes that it was put into its table, or taken out. Under the table's lock.
    pub fn set_dropped(&self, dropped: bool) {
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// Counts a statement that ended.
    pub fn add(&self, took: &StatementTook) {
        // Most of what may be is not: an addition of nothing would cost as much as any.
        let add = |to: &AtomicU64, amount: u64| {
            if amount > 0 {
                to.fetch_add(amount, Ordering::Relaxed);
            }
        };
        add(&self.calls, 1);
        add(&self.errors, u64::from(took.failed));
        add(&self.rows, took.rows);
        add(&self.time, took.time.0);
        self.add_taken(took.taken);
        if took.time.0 < self.time_min.load(Ordering::Relaxed) {
            self.time_min.fetch_min(took.time.0, Ordering::Relaxed);
        }
        if took.time.0 > self.time_max.load(Ordering::Relaxed) {
            self.time_max.fetch_max(took.time.0, Ordering::Relaxed);
        }
        if took.at < self.first_seen.load(Ordering::Relaxed) {
            self.first_seen.fetch_min(took.at, Ordering::Relaxed);
        }
        if took.at > self.last_seen.load(Ordering::Relaxed) {
            self.last_seen.fetch_max(took.at, Ordering::Relaxed);
        }
    }

    /// Counts what a statement took besides, after its end.
    pub fn add_taken(&self, taken: Taken) {
        if taken.cpu.0 > 0 {
            self.cpu.fetch_add(taken.cpu.0, Ordering::Relaxed);
        }
        if taken.ios > 0 {
            self.ios.fetch_add(taken.ios, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub fn figures(&self) -> StatementFigures {
        StatementFigures {
            calls: self.calls.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            taken: Taken {
                cpu: Nanos(self.cpu.load(Ordering::Relaxed)),
                ios: self.ios.load(Ordering::Relaxed),
            },
            rows: self.rows.load(Ordering::Relaxed),
            time: self.time(),
            time_min: Nanos(self.time_min.load(Ordering::Relaxed)),
            time_max: Nanos(self.time_max.load(Ordering::Relaxed)),
            first_seen: self.first_seen.load(Ordering::Relaxed),
            last_seen: self.last_seen.load(Ordering::Relaxed),
        }
    }

    /// How long all of them took.
    pub fn time(&self) -> Nanos {
        Nanos(self.time.load(Ordering::Relaxed))
    }

    /// What was counted so far, to be counted from nothing again. What is added meanwhile is in one or the other.
    pub fn take(&self) -> StatementFigures {
        let nothing = StatementFigures::default();
        StatementFigures {
            calls: self.calls.swap(0, Ordering::Relaxed),
            errors: self.errors.swap(0, Ordering::Relaxed),
            taken: Taken {
                cpu: Nanos(self.cpu.swap(0, Ordering::Relaxed)),
                ios: self.ios.swap(0, Ordering::Relaxed),
            },
            rows: self.rows.swap(0, Ordering::Relaxed),
            time: Nanos(self.time.swap(0, Ordering::Relaxed)),
            time_min: Nanos(self.time_min.swap(nothing.time_min.0, Ordering::Relaxed)),
            time_max: Nanos(self.time_max.swap(nothing.time_max.0, Ordering::Relaxed)),
            first_seen: self.first_seen.swap(nothing.first_seen, Ordering::Relaxed),
            last_seen: self.last_seen.swap(nothing.last_seen, Ordering::Relaxed),
        }
    }
}

impl std::ops::AddAssign for StatementFigures {
    fn add_assign(&mut self, other: StatementFigures) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.taken.cpu += other.taken.cpu;
        self.taken.ios += other.taken.ios;
        self.rows += other.rows;
        self.time += other.time;
        self.time_min = self.time_min.min(other.time_min);
        self.time_max = self.time_max.max(other.time_max);
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
    }
}
