//! How much a query of the point path may answer within its turn, before any of it can be sent.

use base::{ByteCount, SqlResult};

use crate::exec::{ExecLimits, Flow, RowMemory};

/// Bytes of an answer from which a query that may leave the point path does so: analytical threads send as they go. To encode so much takes as long
/// as a query of the point path may, some 5 ms.
const LEAVES_FROM: usize = 4 << 20;

/// The bounds of one answer.
#[derive(Debug)]
pub(super) struct OutputBounds {
    /// What was in the buffer before.
    start: usize,
    may_leave: bool,
    max: Option<ByteCount>,
    outgrown: bool,
}

impl OutputBounds {
    /// Of an answer that begins behind `start` bytes of the buffer. One that may not leave takes `max` at most; `None` for no limit.
    pub(super) fn new(start: usize, limits: &ExecLimits<'_>, max: Option<ByteCount>) -> OutputBounds {
        OutputBounds { start, may_leave: limits.rows_examined_max.is_some(), max, outgrown: false }
    }

    /// To be asked before each row, with what is in the buffer: whether to go on.
    ///
    /// # Errors
    /// 53200 where the answer takes more than it may.
    pub(super) fn look(&mut self, buffered: usize) -> SqlResult<Flow> {
        let written = buffered.saturating_sub(self.start);
        if written <= LEAVES_FROM {
            return Ok(Flow::More);
        }
        if self.may_leave {
            self.outgrown = true;
            return Ok(Flow::Stop);
        }
        RowMemory::new(self.max).take(written)?;
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
        let mut bounds = OutputBounds::new(100, &leaves, max);
        assert_eq!(bounds.look(100 + LEAVES_FROM).unwrap(), Flow::More);
        assert!(!bounds.is_outgrown());
        assert_eq!(bounds.look(101 + LEAVES_FROM).unwrap(), Flow::Stop);
        assert!(bounds.is_outgrown());
        let mut bounds = OutputBounds::new(0, &ExecLimits::default(), max);
        assert_eq!(bounds.look(8 << 20).unwrap(), Flow::More);
        assert_eq!(bounds.look((8 << 20) + 1).unwrap_err().state().as_str(), "53200");
        assert!(!bounds.is_outgrown());
    }
}
