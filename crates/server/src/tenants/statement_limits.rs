//! What a tenant's statements are held to, as its sessions look at it while they run.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

const NONE: u64 = u64::MAX;

/// One for each tenant. Read at any time, also in the middle of a statement: what is changed is in force for it at its next look.
pub(crate) struct StatementLimits {
    /// In nanoseconds, or [`NONE`].
    time_max: AtomicU64,
}

impl Default for StatementLimits {
    fn default() -> StatementLimits {
        StatementLimits { time_max: AtomicU64::new(NONE) }
    }
}

impl StatementLimits {
    /// How long a statement may run; `None` for no limit.
    #[inline]
    pub(crate) fn time_max(&self) -> Option<Nanos> {
        // Relaxed: nothing else is read by it.
        let time = self.time_max.load(Ordering::Relaxed);
        (time != NONE).then_some(Nanos(time))
    }

    /// Sets how long a statement may run; whether it was something else before. Then sessions that wait are to look again.
    pub(crate) fn set_time_max(&self, time: Option<Nanos>) -> bool {
        let time = time.map_or(NONE, |time| time.0);
        self.time_max.swap(time, Ordering::Relaxed) != time
    }
}
