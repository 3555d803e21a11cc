//! When the log is told of a fault that lasts: at once, then at growing intervals, and once when it is over.
//!
//! A full volume is met again each second, by whoever tries, and may be full and not full in turn. A line each time would push everything else out of what an
//! operator looks at, and takes space on a disk that may be that very volume.

use base::Nanos;

/// From telling of it to telling of it again: at first, and at most, each twice the one before.
const TOLD_AGAIN: Nanos = Nanos::from_secs(60);
const TOLD_AGAIN_MAX: Nanos = Nanos::from_secs(3_600);
/// It is over once it was not met for so long.
const CALM: Nanos = Nanos::from_secs(60);

/// What was told of one fault.
#[derive(Default, Debug)]
pub(crate) struct Complaint(Option<Standing>);

#[derive(Debug)]
struct Standing {
    /// How often it was met.
    times: u64,
    met_at: Nanos,
    tell_at: Nanos,
    pause: Nanos,
    /// Something was told since it was met last.
    is_told: bool,
}

impl Complaint {
    /// The fault is met at `now`: how often so far, if that is to be told.
    pub(crate) fn met(&mut self, now: Nanos) -> Option<u64> {
        if self.0.as_ref().is_some_and(|standing| now - standing.met_at >= CALM) {
            self.0 = None;
        }
        let begun = Standing { times: 0, met_at: now, tell_at: now, pause: TOLD_AGAIN, is_told: false };
        let standing = self.0.get_or_insert(begun);
        standing.times += 1;
        standing.is_told = false;
        self.lasts(now)
    }

    /// The fault that was met last is still there at `now`: how often it was met so far, if that is to be told.
    pub(crate) fn lasts(&mut self, now: Nanos) -> Option<u64> {
        let standing = self.0.as_mut()?;
        standing.met_at = now;
        if now < standing.tell_at {
            return None;
        }
        standing.is_told = true;
        standing.tell_at = now + standing.pause;
        standing.pause = (standing.pause + standing.pause).min(TOLD_AGAIN_MAX);
        Some(standing.times)
    }

    /// The fault that was met last has ended, though it may come again: whether anything was told of it, so that its end is to be.
    pub(crate) fn has_told(&self) -> bool {
        self.0.as_ref().is_some_and(|standing| standing.is_told)
    }

    /// The fault is not there at `now`. Once it was not for a minute: how often it had been met, which is to be told.
    pub(crate) fn is_over(&mut self, now: Nanos) -> Option<u64> {
        let standing = self.0.take_if(|standing| now - standing.met_at >= CALM)?;
        Some(standing.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_met_each_second_is_told_at_growing_intervals_and_once_when_it_is_over() {
        let mut complaint = Complaint::default();
        let secs = Nanos::from_secs;
        assert_eq!((complaint.is_over(secs(0)), complaint.lasts(secs(0))), (None, None), "it was never met");
        let told: Vec<_> = (10..10_000).filter_map(|at| complaint.met(secs(at))).collect();
        assert_eq!(told, [1, 61, 181, 421, 901, 1_861, 3_781, 7_381]);
        let over: Vec<_> = (10_000..20_000).filter_map(|at| complaint.is_over(secs(at))).collect();
        assert_eq!(over, [9_990], "once");
        assert_eq!(complaint.met(secs(20_000)), Some(1), "it is another one");
    }

    #[test]
    fn what_is_not_told_when_it_is_met_is_told_if_it_lasts() {
        let mut complaint = Complaint::default();
        let secs = Nanos::from_secs;
        assert_eq!((complaint.met(secs(0)), complaint.has_told()), (Some(1), true));
        assert_eq!((complaint.met(secs(5)), complaint.has_told()), (None, false), "it ended soon");
        assert_eq!((complaint.met(secs(10)), complaint.has_told()), (None, false));
        let told: Vec<_> =
            (11..400).filter_map(|at| complaint.lasts(secs(at)).map(|times| (at, times))).collect();
        assert_eq!((told, complaint.has_told()), (vec![(60, 3), (180, 3)], true));
    }

    #[test]
    fn what_comes_and_goes_is_one_fault() {
        let mut complaint = Complaint::default();
        let mut told = Vec::new();
        for at in (0..600).map(Nanos::from_secs) {
            let of = match at.0 / 1_000_000_000 % 3 {
                0 => complaint.met(at),
                1 => complaint.lasts(at),
                _ => complaint.is_over(at),
            };
            told.extend(of);
        }
        assert_eq!(told, [1, 21, 61, 141]);
        // Nobody looked whether it was over.
        assert_eq!(complaint.met(Nanos::from_secs(1_000)), Some(1));
    }
}
