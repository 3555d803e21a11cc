//! The simulated clock, randomness and threads.

use std::io;
use std::sync::Arc;

use base::{ByteCount, Nanos};
use rand::RngCore;

use super::threads::{HARNESS, ThreadNo, current};
use super::{Machine, driver, lock};
use crate::reactor::{Driver, DriverFactory, current_key};
use crate::{
    Clock, Entropy, Env, JoinHandle, Priority, ShutdownSignal, ThreadControl, ThreadOps, Threads, Ticks,
};

pub(super) fn env(machine: &Arc<Machine>) -> Env {
    Env {
        clock: Arc::new(VirtualClock(machine.clone())),
        entropy: Arc::new(SeededEntropy(machine.clone())),
        disk: Arc::new(super::disk::SimDisk(machine.clone())),
        net: Arc::new(super::net::SimNetwork(machine.clone())),
        threads: Arc::new(SimThreads(machine.clone())),
        drivers: Arc::new(SimFactory(machine.clone())),
    }
}

/// 2026-01-01 00:00 UTC, when every world begins.
const UNIX_MICROS_AT_START: i64 = 1_767_225_600_000_000;

struct VirtualClock(Arc<Machine>);

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn unix_micros(&self) -> i64 {
        UNIX_MICROS_AT_START + (self.0.now().0 / 1000) as i64
    }
    fn thread_cpu(&self) -> Nanos {
        lock(&self.0.cpu).get(&current_key()).copied().unwrap_or_default()
    }
    fn ticks(&self) -> Ticks {
        let speeds = *lock(&self.0.speeds);
        let cost = self.0.delay(speeds.tick);
        *lock(&self.0.cpu).entry(current_key()).or_default() += cost;
        self.0.advance_to(self.0.now() + cost);
        Ticks(self.0.now().0)
    }
    fn ticks_between(&self, earlier: Ticks, later: Ticks) -> Nanos {
        Nanos(later.0.saturating_sub(earlier.0))
    }
}

struct SeededEntropy(Arc<Machine>);

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.draw(|random| random.fill_bytes(bytes));
    }
}

struct SimFactory(Arc<Machine>);

impl DriverFactory for SimFactory {
    fn driver(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(driver::SimDriver::new(self.0.clone())))
    }
    fn name(&self) -> &'static str {
        "simulated"
    }
}

struct SimThreads(Arc<Machine>);

struct OnlyThread(Arc<Machine>);

impl ThreadOps for OnlyThread {
    fn set_priority(&self, _priority: Priority) -> io::Result<()> {
        Ok(())
    }
    fn cpu_time(&self) -> Option<Nanos> {
        lock(&self.0.cpu).get(&current_key()).copied()
    }
}

/// A thread that the machine started: what it took by steps.
struct StartedThread(Arc<Machine>, ThreadNo);

impl ThreadOps for StartedThread {
    fn set_priority(&self, _priority: Priority) -> io::Result<()> {
        Ok(())
    }
    fn cpu_time(&self) -> Option<Nanos> {
        Some(lock(&self.0.steps).get(&self.1).copied().unwrap_or_default())
    }
}

impl Threads for SimThreads {
    fn spawn(
        &self,
        name: &str,
        _core: Option<usize>,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<JoinHandle> {
        self.0.start(name, body).map(JoinHandle::new)
    }
    fn current(&self) -> ThreadControl {
        ThreadControl::new(match current() {
            HARNESS => Arc::new(OnlyThread(self.0.clone())),
            started => Arc::new(StartedThread(self.0.clone(), started)),
        })
    }
    fn pin_current(&self, _core: usize) -> io::Result<()> {
        Ok(())
    }
    fn cores(&self) -> Vec<usize> {
        vec![0, 1]
    }
    fn raise_file_limit(&self) -> io::Result<u64> {
        Ok(1 << 20)
    }
    fn resident_memory(&self) -> ByteCount {
        ByteCount(0)
    }
    fn shutdown_signal(&self) -> ShutdownSignal {
        self.0.shutdown.clone()
    }
}
