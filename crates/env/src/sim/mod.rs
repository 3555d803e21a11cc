//! A simulated machine: virtual time, seeded randomness, a disk that loses what was not synced, an in-memory network.
//!
//! Deterministic, one thread at a time ([`threads`]): the same seed and the same calls give the same run, which
//! [`World::fingerprint`] checks. Time moves only when a reactor waits ([`crate::block_on`], [`crate::Reactor::turn`]),
//! when the harness says so ([`World::advance_to_next_event`]), by [`Speeds::tick`] at each reading of the
//! processor's counter, so that code which polls without end sees time pass, and while a thread takes steps ([`crate::take_step`]) or blocks.
//!
//! What can go wrong is listed at the head of [`disk`] and [`net`].

mod disk;
mod driver;
mod machine;
mod net;
mod threads;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{ByteCount, Nanos};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

pub use disk::{DiskFault, DiskOp, Image, PowerCut, Replay};
pub(crate) use threads::{ParkedThread, is_end, park_current, take_step, take_time_of_wait};

use crate::{Env, ShutdownSignal};

/// Shortest and longest time something takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    pub min: Nanos,
    pub max: Nanos,
}

/// How slow the machine is. The default is a fast SSD and a local network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speeds {
    pub read: Latency,
    pub write: Latency,
    pub sync: Latency,
    pub network: Latency,
    /// Asynchronous operations on files that the disk works on at a time; further ones wait their turn, first come, first
    /// served. `None`: all of them, however many there are.
    pub disk_parallel: Option<NonZeroUsize>,
    /// From one reading of the processor's counter to the next, in virtual and in processor time. All that code costs in a world, so a poll takes as long as this and
    /// what it reads in between.
    pub tick: Latency,
}

impl Default for Speeds {
    fn default() -> Speeds {
        let between = |min, max| Latency { min: Nanos::from_micros(min), max: Nanos::from_micros(max) };
        Speeds {
            read: between(60, 200),
            write: between(15, 60),
            sync: between(80, 900),
            network: between(10, 80),
            disk_parallel: None,
            tick: Latency { min: Nanos(500), max: Nanos(500) },
        }
    }
}

/// The simulated machine; see the module's description. Clones share it.
#[derive(Clone)]
pub struct World(Arc<Machine>);

/// What the parts of a world share. One thread at a time uses it; the locks are there because an [`Env`] is `Sync`.
struct Machine {
    now: AtomicU64,
    /// Nothing happens after it.
    time_limit: AtomicU64,
    random: Mutex<StdRng>,
    speeds: Mutex<Speeds>,
    /// Until when each of the [`Speeds::disk_parallel`] is at work.
    disk_busy: Mutex<Vec<Nanos>>,
    disk: Mutex<disk::DiskState>,
    net: Mutex<net::NetState>,
    /// The next instant at which something happens in each driver, by the driver's number.
    deadlines: Mutex<BTreeMap<u64, Nanos>>,
    drivers_made: AtomicU64,
    /// Processor time by reactor.
    cpu: Mutex<BTreeMap<usize, Nanos>>,
    /// Processor time that threads took by steps ([`crate::take_step`]).
    steps: Mutex<BTreeMap<threads::ThreadNo, Nanos>>,
    fingerprint: AtomicU64,
    baton: threads::Baton,
    shutdown: ShutdownSignal,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that failed under the lock is reported by its own panic; its `Drop`s may still come here.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Machine {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::Relaxed))
    }

    fn advance_to(&self, instant: Nanos) {
        self.now.fetch_max(instant.0, Ordering::Relaxed);
    }

    fn draw<R>(&self, draw: impl FnOnce(&mut StdRng) -> R) -> R {
        draw(&mut lock(&self.random))
    }

    fn delay(&self, latency: Latency) -> Nanos {
        if latency.min >= latency.max {
            return latency.min;
        }
        Nanos(self.draw(|random| random.random_range(latency.min.0..=latency.max.0)))
    }

    /// When an operation on a file that takes `delay` and comes now is complete.
    fn file_done(&self, delay: Nanos, parallel: Option<NonZeroUsize>) -> Nanos {
        let Some(parallel) = parallel else { return self.now() + delay };
        let mut busy = lock(&self.disk_busy);
        busy.resize(parallel.get(), Nanos(0));
        let first_free = busy.iter_mut().min().expect("one at least");
        *first_free = self.now().max(*first_free) + delay;
        *first_free
    }

    /// Mixes what happened into the fingerprint.
    fn note(&self, what: u64, amount: u64) {
        let mut mixed = self.fingerprint.load(Ordering::Relaxed);
        for word in [what, amount, self.now().0] {
            mixed = (mixed.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        self.fingerprint.store(mixed, Ordering::Relaxed);
    }

    /// Mixes bytes that were sent into the fingerprint.
    fn note_sent(&self, bytes: &[u8]) {
        let mut hash = bytes.len() as u64;
        for piece in bytes.chunks(8) {
            let mut word = [0_u8; 8];
            word[..piece.len()].copy_from_slice(piece);
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        self.note(6, hash);
    }

    /// The first instant after now at which a driver, a timer or the network has something to do.
    fn next_event(&self) -> Option<Nanos> {
        let now = self.now();
        let of_drivers = lock(&self.deadlines).values().copied().filter(|due| *due > now).min();
        let of_network = lock(&self.net).next_delivery(now);
        let limit = self.time_limit.load(Ordering::Relaxed);
        of_drivers.into_iter().chain(of_network).min().filter(|next| next.0 <= limit)
    }
}

impl World {
    /// A machine with an empty disk. `seed` decides every draw.
    pub fn new(seed: u64) -> World {
        World(Arc::new(Machine {
            now: AtomicU64::new(0),
            time_limit: AtomicU64::new(u64::MAX),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            speeds: Mutex::default(),
            disk_busy: Mutex::default(),
            disk: Mutex::default(),
            net: Mutex::default(),
            deadlines: Mutex::default(),
            drivers_made: AtomicU64::new(1),
            cpu: Mutex::default(),
            steps: Mutex::default(),
            fingerprint: AtomicU64::new(seed),
            baton: threads::Baton::default(),
            shutdown: ShutdownSignal::default(),
        }))
    }

    /// The machine as an environment.
    pub fn env(&self) -> Env {
        machine::env(&self.0)
    }

    /// Virtual time since the world began.
    pub fn now(&self) -> Nanos {
        self.0.now()
    }

    /// A number that two runs share only if the same happened at the same instants, and the same bytes were sent on the network.
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint.load(Ordering::Relaxed)
    }

    /// A random word of the world's sequence, for the harness's own choices.
    pub fn random(&self) -> u64 {
        self.0.draw(|random| random.next_u64())
    }

    /// Lets time pass.
    pub fn advance(&self, duration: Nanos) {
        self.0.advance_to(self.now() + duration);
    }

    /// Nothing happens after `instant`: who still waits then, or only waits again and again, finds the simulation stuck.
    pub fn set_time_limit(&self, instant: Nanos) {
        self.0.time_limit.store(instant.0, Ordering::Relaxed);
    }

    /// Moves time to the next completion, timer or delivery of any reactor, for a harness that turns several reactors
    /// without waiting. False if nothing is ever going to happen.
    pub fn advance_to_next_event(&self) -> bool {
        let next = self.0.next_event();
        next.into_iter().for_each(|instant| self.0.advance_to(instant));
        next.is_some()
    }

    /// How slow the machine is.
    pub fn speeds(&self) -> Speeds {
        *lock(&self.0.speeds)
    }

    /// Changes how slow the machine is.
    pub fn set_speeds(&self, speeds: Speeds) {
        *lock(&self.0.speeds) = speeds;
    }

    /// Cuts the power and turns it on again at once: the disk keeps what `policy` says, every open file fails from now
    /// on with EIO, locks are released, and every connection and listener is gone. Drop the reactors of the time before.
    ///
    /// Threads that were started on the machine unwind from where they wait.
    pub fn power_cut(&self, policy: PowerCut) {
        self.0.end_threads();
        self.0.note(1, 0);
        let mut disk = lock(&self.0.disk);
        let mut random = lock(&self.0.random);
        disk.power_cut(policy, &mut random);
        drop((disk, random));
        lock(&self.0.net).reset();
    }

    /// Kills the server and starts nothing: every open file fails from now on with EIO, locks are released, every connection
    /// and listener is gone. The disk keeps all that was written, synced or not; a later power cut may still lose the
    /// latter. Drop the reactors of the time before. Threads that were started on the machine unwind from where they wait.
    pub fn kill(&self) {
        self.0.end_threads();
        self.0.note(5, 0);
        lock(&self.0.disk).kill();
        lock(&self.0.net).reset();
    }

    /// Panics on the machine's threads since the last call, with their places; those without power are left out.
    pub fn take_panics(&self) -> Vec<String> {
        self.0.baton.take_panics()
    }

    /// Another machine whose disk holds what this one's holds now, all of it durable. `seed` decides its draws.
    pub fn with_copied_disk(&self, seed: u64) -> World {
        let copy = World::new(seed);
        *lock(&copy.0.disk) = lock(&self.0.disk).copy();
        copy
    }

    /// Turns the power off at the `operations`-th changing disk operation from now: it and all after it fail with EIO
    /// until [`World::power_cut`] decides what is left, of that operation too if it was a write, and turns the power on.
    pub fn cut_power_after(&self, operations: u64) {
        lock(&self.0.disk).cut_after = Some(operations);
    }

    /// Whether [`World::cut_power_after`] has struck.
    pub fn is_powered_off(&self) -> bool {
        lock(&self.0.disk).powered_off
    }

    /// Changing disk operations so far: writes, syncs, and changes of names.
    pub fn disk_changes(&self) -> u64 {
        lock(&self.0.disk).changes
    }

    /// A number that two disks share only if they hold the same files with the same bytes.
    pub fn disk_hash(&self) -> u64 {
        lock(&self.0.disk).hash()
    }

    /// Prints every write and sync to the standard error from now on, with its time and result.
    pub fn trace_disk(&self) {
        lock(&self.0.disk).traced = true;
    }

    /// A disk that lies, for a canary: durable writes and syncs of files whose path contains `text` succeed and make
    /// nothing durable.
    pub fn lie_about(&self, text: &str) {
        lock(&self.0.disk).lies_about = Some(text.to_owned());
    }

    /// Files are opened without direct I/O from now on, as on a file system that knows none.
    pub fn refuse_direct(&self) {
        lock(&self.0.disk).refuses_direct = true;
    }

    /// Makes one operation fail; see [`DiskFault`].
    pub fn inject(&self, fault: DiskFault) {
        lock(&self.0.disk).faults.push(fault);
    }

    /// Faults that struck since [`World::mend_disk`]: injected errors, operations that found no room, flipped bits. Short transfers do not count.
    pub fn faults_struck(&self) -> u64 {
        lock(&self.0.disk).struck
    }

    /// Takes back what was injected and did not strike yet, and the limit of the disk's size; no fault has struck then.
    pub fn mend_disk(&self) {
        let mut disk = lock(&self.0.disk);
        disk.faults.clear();
        (disk.capacity, disk.was_limited) = (disk::UNLIMITED, false);
        disk.struck = 0;
    }

    /// Gives the disk all the room again that [`World::set_disk_capacity`] took.
    pub fn lift_capacity(&self) {
        lock(&self.0.disk).capacity = disk::UNLIMITED;
    }

    /// Space that files take.
    pub fn disk_used(&self) -> ByteCount {
        ByteCount(lock(&self.0.disk).used())
    }

    /// Limits the disk's size; writes and allocations beyond fail with ENOSPC.
    pub fn set_disk_capacity(&self, capacity: ByteCount) {
        let mut disk = lock(&self.0.disk);
        (disk.capacity, disk.was_limited) = (capacity.0, true);
    }

    /// Whether the disk's size was limited since [`World::mend_disk`]: who asks how much there is may have been told of little, and no operation has failed.
    pub fn was_limited(&self) -> bool {
        lock(&self.0.disk).was_limited
    }

    /// Flips one bit of a stored file, durably: rot.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) {
        lock(&self.0.disk).flip_bit(path, offset, bit);
    }

    /// Breaks every connection: both ends see a reset.
    pub fn disconnect_all(&self) {
        self.0.note(2, 0);
        lock(&self.0.net).disconnect_all();
    }

    /// Asks the server to end, as SIGTERM would.
    pub fn request_shutdown(&self) {
        self.0.shutdown.request();
    }
}

#[cfg(test)]
mod tests;
