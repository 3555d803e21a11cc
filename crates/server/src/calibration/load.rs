//! One load on one file for a short while: so many requests in flight, each followed by the next, over the completion rings of
//! as many threads as a server has workers.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{ByteCount, Nanos};
use env::{Env, File, IO_ALIGN, IoBuf, Priority};
use futures::stream::{FuturesUnordered, TryStreamExt as _};
use governor::DelayHistogram;

use super::noise::Noise;
use super::plan::{Access, Operation};

/// What is put on a file.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) file: File,
    pub(super) len: ByteCount,
    pub(super) access: Access,
    pub(super) operation: Operation,
    pub(super) block: ByteCount,
    /// Requests in flight, over all threads.
    pub(super) depth: u32,
    pub(super) length: Nanos,
    /// Where sequential requests go on; shared by all that follow each other on the file.
    pub(super) cursor: Arc<AtomicU64>,
}

/// What came of it.
pub(super) struct Outcome {
    /// Requests completed a second.
    pub(super) per_second: f64,
    pub(super) latency: DelayHistogram,
}

/// What came of it on one ring.
struct Tally {
    /// Completions that count.
    requests: u64,
    latency: DelayHistogram,
    begin: Nanos,
    /// The last completion before those that count, and the last one of them. Between the two lie exactly those that count, however
    /// few fit into a stretch.
    mark: Nanos,
    last: Nanos,
}

/// The part of a stretch in which completions count.
#[derive(Clone, Copy)]
struct Window {
    from: Nanos,
    /// No request begins then or later.
    until: Nanos,
}

impl Tally {
    fn new(begin: Nanos) -> Tally {
        Tally { requests: 0, latency: DelayHistogram::default(), begin, mark: begin, last: begin }
    }

    /// The last requests have the device more and more to themselves, so they do not count; where none was complete before, the
    /// device is so slow that they are all there is.
    fn note(&mut self, begin: Nanos, end: Nanos, window: Window) {
        if end < window.from {
            self.mark = end;
        } else if end < window.until || self.requests == 0 {
            self.requests += 1;
            self.last = end;
            self.latency.record(end - begin);
        }
    }

    /// A device that was silent to the end of the stretch, for longer than requests take, had stalled: then that time counts too,
    /// or the few requests before it would make it look faster than any other.
    fn per_second(&self, window: Window) -> f64 {
        let stalled = (window.until - self.last).0 > 2 * self.latency.mean().0;
        let end = if stalled { window.until } else { self.last };
        self.requests as f64 / (end - self.mark).as_secs_f64().max(1e-9)
    }
}

impl Load {
    /// Puts the load on the file through rings of `workers` threads at most. Blocks for its length and until the last request
    /// is complete.
    ///
    /// # Errors
    /// The first request that failed.
    pub(super) fn run(&self, env: &Env, workers: u32) -> io::Result<Outcome> {
        let threads = workers.clamp(1, self.depth);
        let begin = env.now();
        // The first tenth is for the device to get going.
        let window = Window { from: begin + Nanos(self.length.0 / 10), until: begin + self.length };
        let tallies = self.on_threads(env, threads, window)?;
        let mut latency = DelayHistogram::default();
        tallies.iter().for_each(|tally| latency.merge(&tally.latency));
        let mut per_second: f64 = tallies.iter().map(|tally| tally.per_second(window)).sum();
        if self.operation == Operation::Write {
            // What is only written is not done: the sync takes its part of the time.
            let first = tallies.iter().map(|tally| tally.begin).min().unwrap_or(begin);
            let written = env.now();
            self.file.sync_data_blocking()?;
            let part = (written - first).as_secs_f64() / (env.now() - first).as_secs_f64();
            per_second *= part.clamp(0.0, 1.0);
        }
        Ok(Outcome { per_second, latency })
    }

    fn on_threads(&self, env: &Env, threads: u32, window: Window) -> io::Result<Vec<Tally>> {
        let tallies = Arc::new(Mutex::new(Vec::new()));
        let cores = env.threads.cores();
        let mut started = Vec::new();
        for thread in 0..threads {
            let in_flight = self.depth / threads + u32::from(thread < self.depth % threads);
            let (load, env_of_thread, told) = (self.clone(), env.clone(), tallies.clone());
            let body = Box::new(move || {
                // As the server's workers do; who may not is measured as they would run.
                let _ = env_of_thread.threads.current().set_priority(Priority::Worker);
                let tally = load.on_one_ring(&env_of_thread, in_flight, window);
                told.lock().unwrap_or_else(PoisonError::into_inner).push(tally);
            });
            // As the workers are, too.
            let core = cores.get(thread as usize).copied().filter(|_| threads as usize <= cores.len());
            started.push(env.threads.spawn("calibrate", core, body));
        }
        // All have ended before any error is told: nobody uses the file any more.
        let ended: Vec<_> = started.into_iter().map(|thread| thread.map(env::JoinHandle::join)).collect();
        for thread in ended {
            thread?.map_err(|_| io::Error::other("a thread that put load on the volume panicked"))?;
        }
        let tallies = std::mem::take(&mut *tallies.lock().unwrap_or_else(PoisonError::into_inner));
        tallies.into_iter().collect()
    }

    fn on_one_ring(&self, env: &Env, in_flight: u32, window: Window) -> io::Result<Tally> {
        let noise = Noise::new(env);
        let tally = RefCell::new(Tally::new(env.now()));
        env::block_on(env, async {
            let lanes: FuturesUnordered<_> =
                (0..in_flight).map(|_| self.lane(&noise, &tally, window)).collect();
            lanes.try_collect::<()>().await
        })?;
        Ok(tally.into_inner())
    }

    /// One request after the other until the window closes.
    async fn lane(&self, noise: &Noise, tally: &RefCell<Tally>, window: Window) -> io::Result<()> {
        let mut buf = IoBuf::zeroed(self.block.0 as usize);
        noise.fill(&mut buf);
        loop {
            let begin = env::now();
            if begin >= window.until {
                return Ok(());
            }
            if self.operation != Operation::Read {
                // No two blocks that are written are the same.
                buf.chunks_mut(IO_ALIGN).for_each(|block| noise.fill(&mut block[..8]));
            }
            let (result, back) = self.request(buf, self.next_offset(noise)).await;
            result?;
            buf = back;
            tally.borrow_mut().note(begin, env::now(), window);
        }
    }

    fn next_offset(&self, noise: &Noise) -> u64 {
        let blocks = self.len.0 / self.block.0;
        let block = match self.access {
            Access::Random => noise.below(blocks),
            Access::Sequential => self.cursor.fetch_add(1, Ordering::Relaxed) % blocks,
        };
        block * self.block.0
    }

    async fn request(&self, buf: IoBuf, offset: u64) -> (io::Result<()>, IoBuf) {
        match self.operation {
            Operation::Read => self.file.read_exact_at(buf, offset).await,
            Operation::Write => self.file.write_all_at(buf, offset).await,
            Operation::DurableWrite => self.file.write_all_at_durable(buf, offset).await,
            Operation::WriteAndSync => {
                let (written, buf) = self.file.write_all_at(buf, offset).await;
                match written {
                    Ok(()) => (self.file.sync_data().await, buf),
                    failed => (failed, buf),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from: Nanos::from_millis(10), until: Nanos::from_millis(100) };

    /// Requests a second on a ring whose requests of 1 ms each were complete at these instants.
    fn per_second(completed_ms: impl IntoIterator<Item = u64>) -> f64 {
        let mut tally = Tally::new(Nanos(0));
        for end in completed_ms {
            tally.note(Nanos::from_millis(end - 1), Nanos::from_millis(end), WINDOW);
        }
        tally.per_second(WINDOW)
    }

    #[test]
    fn a_rate_does_not_depend_on_where_the_window_cuts() {
        assert_eq!(per_second(1..=110).round(), 1_000.0);
        assert_eq!(per_second((1..=110).step_by(7)).round(), (1_000.0_f64 / 7.0).round());
        assert_eq!(per_second([250]).round(), 4.0, "so slow that only the last one is there");
        assert_eq!(per_second([]), 0.0);
    }

    #[test]
    fn a_stall_at_the_end_counts() {
        // 30 at once and then nothing, until the device is back.
        let stalled = per_second([9].into_iter().chain([10; 30]).chain([900; 8]));
        assert_eq!(stalled.round(), (30.0_f64 / 0.091).round());
    }
}
