//! Time: monotonic, wall-clock, and the processor time of the calling thread.

use base::Nanos;

/// Raw processor counter ticks; meaningful only as a difference on one machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ticks(pub u64);

/// Source of time. Never blocks.
pub trait Clock: Send + Sync {
    /// Monotonic time since the process (or simulated world) started. About 20 ns to read.
    fn now(&self) -> Nanos;

    /// Wall-clock time in microseconds since 1970-01-01 00:00 UTC; may jump.
    fn unix_micros(&self) -> i64;

    /// Processor time the calling thread has used. A system call on the real machine (about 200 ns), so read it each
    /// millisecond, not each poll.
    fn thread_cpu(&self) -> Nanos;

    /// The cheapest counter that advances with time (about 10 ns), for timing polls.
    fn ticks(&self) -> Ticks;

    /// `later - earlier` as time; zero if the counter went backwards between cores.
    fn ticks_between(&self, earlier: Ticks, later: Ticks) -> Nanos;
}
