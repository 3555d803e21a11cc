//! Which worker's core has the most to spare for one more query.
//!
//! A query reads a snapshot, so any core will do, and beside the tasks of a busy worker it would cost these their caches. Only a speed-up: a wrong
//! guess makes a query slower, nothing else.

use std::sync::{Arc, Mutex};

use base::Nanos;

use super::{Queue, lock};

/// How busy workers are is found out no more often.
const SAMPLE_TIME_MIN: Nanos = Nanos::from_millis(20);
/// How much more of a core another worker must have to spare than the home, in thousandths.
const HOME_LEAD: u64 = 250;

/// How busy workers are with what is no query.
#[derive(Default)]
pub(super) struct Loads(Mutex<Sample>);

#[derive(Default)]
struct Sample {
    at: Nanos,
    /// Processor time of each worker's tasks until then.
    used: Vec<Nanos>,
    /// What part of its core that was since the sample before, in thousandths.
    loads: Vec<u64>,
}

impl Loads {
    /// The place of the queue with the most to spare: that of `home`, unless another has clearly more.
    pub(super) fn idlest(&self, queues: &[Arc<Queue>], home: usize, now: Nanos) -> usize {
        let mut sample = lock(&self.0);
        if sample.loads.len() != queues.len() || now - sample.at >= SAMPLE_TIME_MIN {
            sample.take(queues.iter().map(|queue| queue.worker.used_by_tasks()).collect(), now);
        }
        let candidates = sample.loads.iter().zip(queues).map(|(load, queue)| (*load, queue.queries()));
        choose(candidates, home)
    }
}

impl Sample {
    fn take(&mut self, used: Vec<Nanos>, now: Nanos) {
        let time = (now - self.at).0.max(1);
        let before = self.used.iter().copied().chain(std::iter::repeat(Nanos(0)));
        self.loads =
            used.iter().zip(before).map(|(used, before)| (*used - before).0 * 1_000 / time).collect();
        (self.used, self.at) = (used, now);
    }
}

/// Of workers with these loads and numbers of queries, each of which wants a core, the one with the most to spare.
fn choose(candidates: impl Iterator<Item = (u64, usize)>, home: usize) -> usize {
    let wanted = |(at, (load, queries)): (usize, (u64, usize))| {
        let lead = if at == home { 0 } else { HOME_LEAD };
        (load + 1_000 * queries as u64 + lead, at)
    };
    candidates.enumerate().map(wanted).min().map_or(home, |(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(candidates: &[(u64, usize)], home: usize) -> usize {
        choose(candidates.iter().copied(), home)
    }

    #[test]
    fn the_home_is_left_for_clearly_more_alone() {
        assert_eq!(chosen(&[(0, 0), (0, 0)], 1), 1);
        assert_eq!(chosen(&[(100, 0), (300, 0)], 1), 1);
        assert_eq!(chosen(&[(100, 0), (900, 0)], 1), 0);
    }

    #[test]
    fn queries_go_where_fewer_are() {
        assert_eq!(chosen(&[(0, 1), (0, 0), (0, 2)], 0), 1);
        assert_eq!(
            chosen(&[(0, 1), (900, 0), (0, 1)], 0),
            0,
            "a busy worker is no better than one with a query"
        );
        assert_eq!(chosen(&[(0, 2), (900, 0), (0, 2)], 0), 1);
    }

    #[test]
    fn loads_are_those_of_the_time_between_two_samples() {
        let mut sample = Sample::default();
        sample.take(vec![Nanos::from_millis(100), Nanos(0)], Nanos::from_millis(1_000));
        assert_eq!(sample.loads, [100, 0]);
        sample.take(vec![Nanos::from_millis(100), Nanos::from_millis(90)], Nanos::from_millis(1_100));
        assert_eq!(sample.loads, [0, 900]);
    }
}
