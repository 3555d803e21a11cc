//! The system's clocks, and the processor's counter as the cheap one.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Nanos;

use crate::{Clock, Ticks};

pub(super) struct SystemClock {
    origin: Nanos,
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only the counter needs a rate"))]
    ticks: TickRate,
}

fn read(clock: libc::clockid_t) -> Option<Nanos> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

/// Processor time of a thread of this process; `None` once it ended.
pub(super) fn thread_cpu_of(tid: libc::pid_t) -> Option<Nanos> {
    /// CPUCLOCK_SCHED with CPUCLOCK_PERTHREAD_MASK, as the kernel packs them under the inverted thread id.
    const PER_THREAD_SCHED: libc::clockid_t = 4 | 2;
    read((!tid << 3) | PER_THREAD_SCHED)
}

/// Nanoseconds a tick, as a 32.32 fixed-point number; refined as the observed span grows.
struct TickRate {
    first: (u64, Nanos),
    rate: AtomicU64,
    /// Span of the observation behind `rate`, in ns.
    span: AtomicU64,
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: reading the time-stamp counter has no effect on memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

impl SystemClock {
    pub(super) fn start() -> SystemClock {
        let origin = monotonic();
        #[cfg(target_arch = "x86_64")]
        let ticks = {
            let first = (counter(), monotonic());
            // 200 µs of observation give a rate good to a part in a thousand; `now` refines it.
            let mut last = first;
            while (last.1 - first.1) < Nanos::from_micros(200) {
                last = (counter(), monotonic());
            }
            let span = last.1 - first.1;
            let rate = (u128::from(span.0) << 32) / u128::from((last.0 - first.0).max(1));
            TickRate { first, rate: AtomicU64::new(rate as u64), span: AtomicU64::new(span.0) }
        };
        #[cfg(not(target_arch = "x86_64"))]
        let ticks = TickRate {
            first: (0, origin),
            rate: AtomicU64::new(1 << 32),
            span: AtomicU64::new(u64::MAX / 2),
        };
        SystemClock { origin, ticks }
    }

    /// Re-measures the rate each time the observed span has doubled, so about 30 times in a process's life.
    #[cfg(target_arch = "x86_64")]
    fn refine(&self, now: Nanos) {
        let span = now - self.ticks.first.1;
        if span.0 >= self.ticks.span.load(Ordering::Relaxed) * 2 {
            let ticks = counter().saturating_sub(self.ticks.first.0).max(1);
            self.ticks.span.store(span.0, Ordering::Relaxed);
            self.ticks.rate.store(((u128::from(span.0) << 32) / u128::from(ticks)) as u64, Ordering::Relaxed);
        }
    }
}

fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC exists")
}

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        let now = monotonic();
        #[cfg(target_arch = "x86_64")]
        self.refine(now);
        now - self.origin
    }

    fn unix_micros(&self) -> i64 {
        let now = read(libc::CLOCK_REALTIME).expect("CLOCK_REALTIME exists");
        (now.0 / 1000) as i64
    }

    fn thread_cpu(&self) -> Nanos {
        read(libc::CLOCK_THREAD_CPUTIME_ID).expect("a thread has its clock")
    }

    #[cfg(target_arch = "x86_64")]
    fn ticks(&self) -> Ticks {
        Ticks(counter())
    }

    #[cfg(target_arch = "x86_64")]
    fn ticks_between(&self, earlier: Ticks, later: Ticks) -> Nanos {
        let ticks = later.0.saturating_sub(earlier.0);
        let rate = self.ticks.rate.load(Ordering::Relaxed);
        Nanos(((u128::from(ticks) * u128::from(rate)) >> 32) as u64)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ticks(&self) -> Ticks {
        Ticks(monotonic().0)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ticks_between(&self, earlier: Ticks, later: Ticks) -> Nanos {
        Nanos(later.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod tests {
    use super::*;

    #[test]
    fn counter_agrees_with_the_clock() {
        let clock = SystemClock::start();
        let (from, ticks_from) = (clock.now(), clock.ticks());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (to, ticks_to) = (clock.now(), clock.ticks());
        let by_clock = (to - from).0 as f64;
        let by_ticks = clock.ticks_between(ticks_from, ticks_to).0 as f64;
        assert!((by_clock / by_ticks - 1.0).abs() < 0.02, "{by_clock} {by_ticks}");
    }

    #[test]
    fn sleeping_uses_no_processor_time() {
        let clock = SystemClock::start();
        let before = clock.thread_cpu();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(clock.thread_cpu() - before < Nanos::from_millis(10));
    }
}
