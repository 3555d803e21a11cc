//! Minutes of the ledger that are over and not on disk: those of a volume that is full, or fails, are written once it can be. Promises break just
//! then, and are to be on record.

use std::collections::VecDeque;

use governor::{RollUpBlock, WallMinute};

use super::history::HistoryWriter;

/// How long a minute is kept: in the file of its day or of the next one it is found.
const KEPT_MINUTES: u32 = 20 * 60;
/// Rows that are kept at most, some 40 MB: the oldest go first.
const ROWS_MAX: usize = 250_000;

#[derive(Default)]
pub(super) struct Unwritten {
    /// By the minute in which each was to be written, the oldest first.
    blocks: VecDeque<(WallMinute, RollUpBlock)>,
    rows: usize,
}

fn rows_of(block: &RollUpBlock) -> usize {
    block.rows.len() + block.samples.len()
}

impl Unwritten {
    /// Takes what ended by `now`.
    pub(super) fn push(&mut self, ended: RollUpBlock, now: WallMinute) {
        if !ended.is_empty() {
            self.rows += rows_of(&ended);
            self.blocks.push_back((now, ended));
        }
    }

    /// Takes all that another has, which ended later.
    pub(super) fn take_in(&mut self, other: &mut Unwritten) {
        let other = std::mem::take(other);
        self.blocks.extend(other.blocks);
        self.rows += other.rows;
    }

    /// Writes all there is. What cannot be written stays, within its bounds.
    pub(super) fn write(&mut self, history: &mut HistoryWriter, now: WallMinute) {
        let appended = match self.blocks.len() {
            0 => return,
            1 => history.append(&self.blocks[0].1, now),
            _ => {
                let whole = RollUpBlock::merged(self.blocks.iter().map(|(_, block)| block.clone()), 1);
                history.append(&whole, now)
            }
        };
        match appended {
            Ok(()) => *self = Unwritten::default(),
            Err(error) => {
                tracing::warn!(%error, minutes = self.blocks.len(), "minutes of the ledger could not be written yet");
                self.keep_within(now);
            }
        }
    }

    /// Leaves out what is too old or too much, the oldest first.
    pub(super) fn keep_within(&mut self, now: WallMinute) {
        let is_old = |minute: WallMinute| now.0.saturating_sub(minute.0) > KEPT_MINUTES;
        // The newest minute stays, however many rows it has: it was not tried yet.
        let is_much = |blocks: usize, rows: usize| blocks > 1 && rows > ROWS_MAX;
        while is_much(self.blocks.len(), self.rows)
            || self.blocks.front().is_some_and(|(minute, _)| is_old(*minute))
        {
            let Some((_, gone)) = self.blocks.pop_front() else { break };
            self.rows -= rows_of(&gone);
            tracing::error!(
                rows = rows_of(&gone),
                "a minute of the ledger is lost: it could not be written for too long"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use env::sim::{DiskFault, DiskOp, World};
    use governor::Retention;

    use super::super::history::History;
    use super::super::history::tests::{block, rows};
    use super::*;

    const FIRST: u32 = 20_000 * 24 * 60;

    fn written(history: &History) -> Vec<(u32, u64)> {
        rows(history, None).into_iter().map(|(minute, given)| (minute - FIRST, given)).collect()
    }

    #[test]
    fn what_cannot_be_written_is_written_later_and_once() {
        let world = World::new(1);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let mut unwritten = Unwritten::default();
        let mut minute = 0;
        let mut expected = Vec::new();
        let mut end = |unwritten: &mut Unwritten, writer: &mut HistoryWriter| {
            let given = u64::from(minute + 1);
            unwritten.push(block(FIRST + minute, given), WallMinute(FIRST + minute + 1));
            unwritten.write(writer, WallMinute(FIRST + minute + 1));
            expected.push((minute, given));
            minute += 1;
            expected.clone()
        };
        end(&mut unwritten, &mut writer);
        for op in [DiskOp::Write, DiskOp::Sync] {
            let before = written(&history).len();
            for _ in 0..3 {
                world.inject(DiskFault::eio(op, ".rollup"));
                end(&mut unwritten, &mut writer);
            }
            assert!(unwritten.blocks.len() == 3 && world.faults_struck() > 0, "{op:?}");
            assert!(written(&history).len() <= before + 3);
            let expected = end(&mut unwritten, &mut writer);
            assert_eq!(written(&history), expected, "{op:?}");
            assert_eq!((unwritten.blocks.len(), unwritten.rows), (0, 0));
        }
        // The day ends meanwhile, and the server with it.
        world.inject(DiskFault::eio(DiskOp::Sync, ".rollup"));
        let expected = end(&mut unwritten, &mut writer);
        unwritten.write(&mut writer, WallMinute(FIRST + 24 * 60));
        assert_eq!(written(&history), expected);
        let again = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        drop(again);
        assert_eq!(written(&history), expected);
    }

    #[test]
    fn what_cannot_be_written_for_long_goes_the_oldest_first() {
        let world = World::new(2);
        let history = History::new(world.env().disk, Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let mut unwritten = Unwritten::default();
        let minutes = KEPT_MINUTES + 10;
        for minute in 0..minutes {
            world.inject(DiskFault::eio(DiskOp::Write, ".rollup"));
            unwritten.push(block(FIRST + minute, 1), WallMinute(FIRST + minute));
            unwritten.write(&mut writer, WallMinute(FIRST + minute));
        }
        assert_eq!(unwritten.blocks.len() as u32, KEPT_MINUTES + 1);
        unwritten.write(&mut writer, WallMinute(FIRST + minutes));
        assert_eq!(written(&history).first().map(|(minute, _)| *minute), Some(minutes - KEPT_MINUTES - 1));
    }
}
