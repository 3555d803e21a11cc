//! What of the rolled-up ledger is kept: 62 days, by the minute as far as it fits, then by the hour, then by the day.

use base::ByteCount;

use super::WallMinute;

/// Minutes of one row once they are merged: by the hour first, then by the day.
const COARSER: [u32; 2] = [60, 24 * 60];

/// A piece of what is stored, merged and dropped as a whole: a day's file, for example.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RollUpSegment {
    /// The last minute that it has rows of.
    pub last: WallMinute,
    /// Minutes of a row: 1 as written.
    pub resolution: u32,
    pub bytes: ByteCount,
    /// Rows are still added to it: it is neither merged nor dropped.
    pub is_open: bool,
}

/// What is to be done with one segment, by its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RollUpStep {
    /// Its rows become those of [`super::RollUpBlock::merged`] by so many minutes.
    Merge {
        segment: usize,
        minutes: u32,
    },
    Drop {
        segment: usize,
    },
}

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    pub minutes: u32,
    pub bytes_max: ByteCount,
}

impl Default for Retention {
    /// 62 days, so that the month before the present one is whole, and 1 GiB: at 60 bytes a minute the minutes of 200 series that are never idle. Ten times
    /// as many are kept by the hour.
    fn default() -> Retention {
        Retention { minutes: 62 * 24 * 60, bytes_max: ByteCount(1 << 30) }
    }
}

impl Retention {
    /// The next thing to do, or `None` if all is well. Ask again once it is done. What is too old goes; if the rest has more bytes than it may, the oldest minutes become
    /// hours; when all have, the oldest hours become days; then the oldest go. It ends after three steps a segment at the most: then the bytes fit, or all that is left is open.
    pub fn next_step(&self, segments: &[RollUpSegment], now: WallMinute) -> Option<RollUpStep> {
        let oldest = |with: &dyn Fn(&RollUpSegment) -> bool| {
            let closed = segments.iter().enumerate().filter(|(_, segment)| !segment.is_open && with(segment));
            closed.min_by_key(|(_, segment)| segment.last).map(|(index, _)| index)
        };
        let kept_from = now.0.saturating_sub(self.minutes);
        if let Some(segment) = oldest(&|segment| segment.last.0 < kept_from) {
            return Some(RollUpStep::Drop { segment });
        }
        let bytes = segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.bytes.0));
        if bytes <= self.bytes_max.0 {
            return None;
        }
        for minutes in COARSER {
            if let Some(segment) = oldest(&|segment| segment.resolution < minutes) {
                return Some(RollUpStep::Merge { segment, minutes });
            }
        }
        oldest(&|_| true).map(|segment| RollUpStep::Drop { segment })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(last: u32, resolution: u32, bytes: u64) -> RollUpSegment {
        RollUpSegment { last: WallMinute(last), resolution, bytes: ByteCount(bytes), is_open: false }
    }

    #[test]
    fn what_fits_and_is_young_stays_as_it_is() {
        let retention = Retention { minutes: 100, bytes_max: ByteCount(30) };
        let segments = [segment(900, 1, 10), segment(950, 1, 10), segment(1000, 1, 10)];
        assert_eq!(retention.next_step(&segments, WallMinute(1000)), None);
        assert_eq!(retention.next_step(&segments, WallMinute(1001)), Some(RollUpStep::Drop { segment: 0 }));
    }

    #[test]
    fn minutes_become_hours_before_hours_become_days_and_anything_is_lost() {
        let retention = Retention { minutes: 10_000, bytes_max: ByteCount(1) };
        let mut segments = vec![segment(200, 1, 10), segment(100, 1, 10), segment(300, 1, 10)];
        segments[2].is_open = true;
        let mut steps = Vec::new();
        while let Some(step) = retention.next_step(&segments, WallMinute(300)) {
            steps.push(step);
            match step {
                RollUpStep::Merge { segment, minutes } => segments[segment].resolution = minutes,
                RollUpStep::Drop { segment } => segments[segment].bytes = ByteCount(0),
            }
            if let RollUpStep::Drop { segment } = step {
                segments.remove(segment);
            }
        }
        let merge = |segment, minutes| RollUpStep::Merge { segment, minutes };
        let drop = |segment| RollUpStep::Drop { segment };
        assert_eq!(steps, [merge(1, 60), merge(0, 60), merge(1, 1440), merge(0, 1440), drop(1), drop(0)]);
    }

    proptest! {
        #[test]
        fn bytes_fit_in_the_end(sizes in prop::collection::vec((0..50_000u32, 1..1000u64, 1..=10u64), 1..40), bytes_max in 0..20_000u64) {
            let retention = Retention { minutes: 43_200, bytes_max: ByteCount(bytes_max) };
            let now = WallMinute(50_000);
            let mut segments: Vec<(RollUpSegment, u64)> =
                sizes.iter().map(|(last, bytes, gain)| (segment(*last, 1, *bytes), *gain)).collect();
            segments.last_mut().unwrap().0.is_open = true;
            let count = segments.len();
            let mut steps = 0;
            let only = |segments: &[(RollUpSegment, u64)]| segments.iter().map(|(segment, _)| *segment).collect::<Vec<_>>();
            while let Some(step) = retention.next_step(&only(&segments), now) {
                steps += 1;
                prop_assert!(steps <= 3 * count);
                let bytes: u64 = segments.iter().map(|(segment, _)| segment.bytes.0).sum();
                match step {
                    RollUpStep::Merge { segment, minutes } => {
                        prop_assert!(bytes > bytes_max, "merged although it fits");
                        let (segment, gain) = &mut segments[segment];
                        prop_assert!(!segment.is_open && segment.resolution < minutes);
                        segment.resolution = minutes;
                        segment.bytes.0 /= *gain;
                    }
                    RollUpStep::Drop { segment } => {
                        let (segment, _) = segments.remove(segment);
                        prop_assert!(!segment.is_open);
                        prop_assert!(segment.last.0 < 50_000 - 43_200 || bytes > bytes_max, "dropped without need");
                    }
                }
            }
            let left = only(&segments);
            let bytes: u64 = left.iter().map(|segment| segment.bytes.0).sum();
            prop_assert!(bytes <= bytes_max || left.iter().all(|segment| segment.is_open));
            prop_assert!(left.iter().all(|segment| segment.is_open || segment.last.0 >= 50_000 - 43_200));
        }
    }
}
