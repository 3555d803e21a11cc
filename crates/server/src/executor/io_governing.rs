//! What the governor keeps of the volumes' I/O across workers: a schedule and a meter for each volume, and how workers hand over what
//! their meters saw.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::{Nanos, TenantId, VolumeNo};
use env::RemoteWaker;
use governor::{CpuTerms, IoInterval, IoMeterVolume, IoPromise, IoVolume};

use super::io_intervals::IoIntervals;

/// Delays that count as none: a worker looks at its queues between polls, and a poll of the point path takes some 100 µs.
const TICK: Nanos = Nanos::from_millis(1);

/// One for all workers of a server. Clones are of the same one.
#[derive(Clone)]
pub struct IoGoverning(Arc<Inner>);

struct Inner {
    volumes: Vec<GovernedVolume>,
    seats: Vec<MeterSeat>,
    intervals: Mutex<IoIntervals>,
    /// Counts changes of `intervals`.
    intervals_version: AtomicU64,
}

/// One volume, as the workers share it.
pub(crate) struct GovernedVolume {
    pub(crate) schedule: Arc<IoVolume>,
    /// Shares nothing with the schedule.
    pub(crate) meter: Arc<IoMeterVolume>,
}

/// Where one worker's meters are heard.
struct MeterSeat {
    waker: OnceLock<RemoteWaker>,
    /// Whether its meters have something to tell that they have not handed over.
    is_open: AtomicBool,
    /// Through when it has handed over what it saw.
    closed_through: AtomicU64,
    handed_over: Mutex<Vec<HandedOver>>,
}

/// What a worker's meter of one volume saw in the interval that ended then.
struct HandedOver {
    volume: VolumeNo,
    end: Nanos,
    seen: IoInterval,
}

impl IoGoverning {
    /// For so many volumes and workers, without promises, limits or bounds.
    pub fn new(volumes: usize, workers: usize) -> IoGoverning {
        let volume = |number| GovernedVolume {
            schedule: IoVolume::new(workers),
            meter: IoMeterVolume::new(number, TICK),
        };
        let seat = |_| MeterSeat {
            waker: OnceLock::new(),
            is_open: AtomicBool::new(false),
            closed_through: AtomicU64::new(0),
            handed_over: Mutex::default(),
        };
        let count = u32::try_from(volumes).expect("fewer than 2^32 volumes");
        let (volumes, seats) = ((0..count).map(volume).collect(), (0..workers).map(seat).collect());
        let intervals = Mutex::new(IoIntervals::new(CpuTerms::INTERVAL_DEFAULT));
        IoGoverning(Arc::new(Inner { volumes, seats, intervals, intervals_version: AtomicU64::new(0) }))
    }

    /// When metering intervals end.
    pub(crate) fn intervals(&self) -> IoIntervals {
        *self.lock_intervals()
    }

    fn lock_intervals(&self) -> MutexGuard<'_, IoIntervals> {
        self.0.intervals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another number after each [`IoGoverning::set_interval`].
    pub(super) fn intervals_version(&self) -> u64 {
        self.0.intervals_version.load(Ordering::Acquire)
    }

    /// Has metering intervals be that long; the one under way ends a moment after `now`. Does nothing if they are.
    pub(crate) fn set_interval(&self, interval: Nanos, now: Nanos) {
        let mut intervals = self.lock_intervals();
        if intervals.interval() != interval {
            intervals.change(interval, now);
            // Release: who sees the number finds the intervals.
            self.0.intervals_version.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn volumes(&self) -> &[GovernedVolume] {
        &self.0.volumes
    }

    /// Puts a tenant's promise in force on each volume, for what is queued too, and tells the meters.
    pub(super) fn set_promise(&self, tenant: TenantId, promise: &IoPromise, penalty_micros: u64, now: Nanos) {
        for volume in self.volumes() {
            volume.schedule.set_promise(tenant, promise, penalty_micros, now);
            volume.meter.set_promise(tenant, promise, penalty_micros, now);
        }
        self.wake_all();
    }

    /// Forgets a tenant that does nothing any more.
    pub(super) fn remove(&self, tenant: TenantId) {
        for volume in self.volumes() {
            volume.schedule.remove(tenant);
            volume.meter.remove(tenant);
        }
    }

    /// Has every worker look at its queues anew, as it must after a change of promises, limits or depth.
    pub(crate) fn wake_all(&self) {
        (0..self.0.seats.len()).for_each(|worker| self.wake(worker));
    }

    pub(super) fn wake(&self, worker: usize) {
        if let Some(waker) = self.0.seats[worker].waker.get() {
            waker.wake();
        }
    }

    pub(super) fn take_seat(&self, worker: usize, waker: RemoteWaker) {
        let taken = self.0.seats[worker].waker.set(waker);
        assert!(taken.is_ok(), "one worker a seat");
    }

    /// A worker's meters have something to tell again, of the interval that began at `since`: nothing of those before.
    pub(super) fn note_open(&self, worker: usize, since: Nanos) {
        self.note_closed(worker, since, true);
    }

    /// A worker hands over what a meter saw in the interval that ended at `end`.
    pub(super) fn hand_over(&self, worker: usize, volume: VolumeNo, end: Nanos, seen: IoInterval) {
        let mut handed = self.0.seats[worker].handed_over.lock().unwrap_or_else(PoisonError::into_inner);
        handed.push(HandedOver { volume, end, seen });
    }

    /// After the last [`IoGoverning::hand_over`] for `end`. `is_open`: something goes on.
    pub(super) fn note_closed(&self, worker: usize, end: Nanos, is_open: bool) {
        let seat = &self.0.seats[worker];
        seat.is_open.store(is_open, Ordering::Release);
        seat.closed_through.store(end.0, Ordering::Release);
    }

    /// What all workers saw by volume until `end`, which has passed; `None`, and who is late is woken, while one of them has yet to hand it
    /// over. What comes later still belongs to a later interval.
    pub(crate) fn take_through(&self, end: Nanos) -> Option<Vec<IoInterval>> {
        let mut is_whole = true;
        for (worker, seat) in self.0.seats.iter().enumerate() {
            let is_closed = seat.closed_through.load(Ordering::Acquire) >= end.0;
            if !is_closed && seat.is_open.load(Ordering::Acquire) {
                self.wake(worker);
                is_whole = false;
            }
        }
        if !is_whole {
            return None;
        }
        let mut seen = vec![IoInterval::default(); self.0.volumes.len()];
        for seat in &self.0.seats {
            let mut handed = seat.handed_over.lock().unwrap_or_else(PoisonError::into_inner);
            for one in handed.extract_if(.., |one| one.end <= end) {
                seen[one.volume.0 as usize].merge(&one.seen);
            }
        }
        Some(seen)
    }
}
