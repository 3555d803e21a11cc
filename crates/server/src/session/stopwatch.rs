//! How long a client waits for the answers to its statements.

use base::Nanos;

/// Of one session. What its times mean: `tenants::statement_times`.
#[derive(Default)]
pub(super) struct Stopwatch {
    /// When the oldest message that is not answered came, or was turned to.
    began: Nanos,
    /// Statements that run or have run, unanswered.
    executed: u32,
    /// Statements whose answer is complete and not sent.
    ended: u32,
}

impl Stopwatch {
    /// Messages came.
    pub(super) fn received(&mut self, now: Nanos) {
        if self.executed == 0 && self.ended == 0 {
            self.began = now;
        }
    }

    /// A message executes a statement; `first`: it was not called before.
    #[inline]
    pub(super) fn executes(&mut self, first: bool) {
        self.executed += u32::from(first);
    }

    /// The answer to all that was executed is complete.
    #[inline]
    pub(super) fn ended(&mut self) {
        self.ended += std::mem::take(&mut self.executed);
    }

    /// What runs goes by the client's pace from here on.
    pub(super) fn forget(&mut self) {
        self.executed = 0;
    }

    /// Whether an answer is complete and not sent.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended > 0
    }

    /// Answers may be sent: how long their statements took, and how many they are. `None` if none is complete.
    #[inline]
    pub(super) fn answered(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        if self.ended == 0 {
            return None;
        }
        let time = now - std::mem::replace(&mut self.began, now);
        Some((time, std::mem::take(&mut self.ended)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stopwatch: &mut Stopwatch, now: u64) -> Option<(u64, u32)> {
        stopwatch.answered(Nanos(now)).map(|(time, statements)| (time.0, statements))
    }

    #[test]
    fn a_statement_takes_from_its_message_to_its_answer() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.received(Nanos(100));
        stopwatch.executes(true);
        assert_eq!(at(&mut stopwatch, 120), None, "part of its rows is sent");
        // It paused, and is called again.
        stopwatch.executes(false);
        stopwatch.ended();
        assert_eq!(at(&mut stopwatch, 150), Some((50, 1)));
        assert_eq!(at(&mut stopwatch, 160), None);
        stopwatch.received(Nanos(1000));
        stopwatch.ended();
        assert_eq!(at(&mut stopwatch, 1010), None, "a Sync alone executes nothing");
    }

    #[test]
    fn what_is_pipelined_is_timed_from_the_answer_before() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.received(Nanos(100));
        stopwatch.executes(true);
        stopwatch.executes(true);
        stopwatch.ended();
        stopwatch.executes(true);
        assert_eq!(at(&mut stopwatch, 130), Some((30, 2)), "two are answered together, the third runs");
        stopwatch.received(Nanos(140));
        stopwatch.ended();
        assert_eq!(at(&mut stopwatch, 150), Some((20, 1)));
    }

    #[test]
    fn a_copy_from_the_client_is_left_out() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.received(Nanos(100));
        stopwatch.executes(true);
        stopwatch.forget();
        stopwatch.ended();
        assert_eq!(at(&mut stopwatch, 130), None);
    }
}
