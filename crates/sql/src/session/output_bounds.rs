//! How much a query of the point path may answer within its turn, before any of it can be sent.

use base::{ByteCount, SqlResult};

use crate::exec::{ExecLimits, Flow};
use crate::memory_bound::MemoryBound;

/// Bytes of an answer to the client from which a query that may leave the point path does so: analytical threads send as they go. To encode so much
/// takes as long as a query of the point path may, some 5 ms.
pub(super) const SENT_MAX: ByteCount = ByteCount::from_mib(4);

/// The bounds of one answer.
#[derive(Debug)]
pub(super) struct OutputBounds {
    /// What was in the buffer before.
    start: usize,
    may_leave: bool,
    leaves_from: ByteCount,
    max: Option<ByteCount>,
    outgrown: bool,
}

impl OutputBounds {
    /// Of an answer that begins behind `start` bytes of the buffer. One that may leave the point path does so beyond `leaves_from`, one that may not
    /// takes `max` at most if that is more; `None` for no limit.
    pub(super) fn new(
        start: usize,
        limits: &ExecLimits<'_>,
        leaves_from: ByteCount,
        max: Option<ByteCount>,
    ) -> OutputBounds {
        let may_leave = limits.rows_examined_max.is_some();
        OutputBounds { start, may_leave, leaves_from, max, outgrown: false }
    }

    /// To be asked before each row, with what is in the buffer by then: whether to go on.
    ///
    /// # Errors
    /// 53200 where the answer takes more than it may.
    pub(super) fn look(&mut self, buffered: usize) -> SqlResult<Flow> {
        let written = buffered.saturating_sub(self.start);
        if written as u64 <= self.leaves_from.0 {
            return Ok(Flow::More);
        }
        if self.may_leave {
            self.outgrown = true;
            return Ok(Flow::Stop);
        }
        MemoryBound::of_rows(self.max).room(written)?;
        Ok(Flow::More)
    }

    /// Whether the query is to leave the point path; what it answered there is to be taken back.
    pub(super) fn is_outgrown(&self) -> bool {
        self.outgrown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_leaves_or_is_refused_when_it_is_long() {
        let max = Some(ByteCount::from_mib(8));
        let leaves = ExecLimits { rows_examined_max: Some(5), ..ExecLimits::default() };
        let mut bounds = OutputBounds::new(100, &leaves, SENT_MAX, max);
        let most = 100 + SENT_MAX.0 as usize;
        assert_eq!(bounds.look(most).unwrap(), Flow::More);
        assert!(!bounds.is_outgrown());
        assert_eq!(bounds.look(most + 1).unwrap(), Flow::Stop);
        assert!(bounds.is_outgrown());
        let mut bounds = OutputBounds::new(0, &ExecLimits::default(), SENT_MAX, max);
        assert_eq!(bounds.look(8 << 20).unwrap(), Flow::More);
        assert_eq!(bounds.look((8 << 20) + 1).unwrap_err().state().as_str(), "53200");
        assert!(!bounds.is_outgrown());
    }
}
