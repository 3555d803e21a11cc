//! Threads that block, or compute for long, beside others: how they stand still and are told to go on.
//!
//! On a thread of a simulated machine each wait lets the machine's others have their turns, and virtual time pass; a lock that is held over one would hold
//! the whole world, were it wanted by another of them. Elsewhere these are the standard library's.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use base::Nanos;

use crate::sim;

/// Ends a thread's [`park`], from any thread.
#[derive(Clone)]
pub struct ThreadWaker(Whose);

#[derive(Clone)]
enum Whose {
    Process(Thread),
    Simulated(sim::ParkedThread),
}

/// By which others wake the calling thread.
pub fn thread_waker() -> ThreadWaker {
    ThreadWaker(match sim::ParkedThread::current() {
        Some(thread) => Whose::Simulated(thread),
        None => Whose::Process(std::thread::current()),
    })
}

impl ThreadWaker {
    /// Ends the thread's [`park`], if it is in one. What it waits for is to be so before.
    pub fn unpark(&self) {
        match &self.0 {
            Whose::Process(thread) => thread.unpark(),
            Whose::Simulated(thread) => thread.wake(),
        }
    }
}

/// Blocks the calling thread until it is woken, so long at most. It may also go on for no reason: look again at what is waited for, and that right
/// before, too.
pub fn park(at_most: Option<Nanos>) {
    if sim::park_current(at_most) {
        return;
    }
    match at_most {
        None => std::thread::park(),
        Some(at_most) => std::thread::park_timeout(Duration::from_nanos(at_most.0)),
    }
}

/// To be called by code that computes for long, wherever it holds no lock that other threads take. In a simulation some time passes, which is the
/// thread's, and others have their turns; elsewhere it does nothing.
pub fn take_step() {
    sim::take_step();
}

/// Runs `body` and gives back its panic, if it had one. A simulated thread that ends with its machine unwinds on.
pub fn caught<R>(body: impl FnOnce() -> R) -> std::thread::Result<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| match sim::is_end(&*panic) {
        true => resume_unwind(panic),
        false => panic,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where threads that block wait for what others do under a lock.
#[derive(Default)]
pub struct Condition {
    of_process: Condvar,
    /// Those of simulated machines, in the order in which they came.
    simulated: Mutex<Vec<sim::ParkedThread>>,
}

impl Condition {
    /// Lets go of the lock that `guard` is of, waits until notified, so long at most, and takes it again. It may also return for no reason.
    pub fn wait<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
        at_most: Option<Nanos>,
    ) -> MutexGuard<'m, T> {
        let Some(thread) = sim::ParkedThread::current() else {
            return self.wait_in_process(guard, at_most);
        };
        // Nobody else runs before the thread stands still.
        lock(&self.simulated).push(thread.clone());
        drop(guard);
        sim::park_current(at_most);
        lock(&self.simulated).retain(|other| !other.is_same(&thread));
        lock(mutex)
    }

    fn wait_in_process<'m, T>(&self, guard: MutexGuard<'m, T>, at_most: Option<Nanos>) -> MutexGuard<'m, T> {
        match at_most {
            None => self.of_process.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let waited = self.of_process.wait_timeout(guard, Duration::from_nanos(at_most.0));
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Has one that waits go on.
    pub fn notify_one(&self) {
        self.of_process.notify_one();
        let mut simulated = lock(&self.simulated);
        if !simulated.is_empty() {
            simulated.remove(0).wake();
        }
    }

    /// Has all that wait go on.
    pub fn notify_all(&self) {
        self.of_process.notify_all();
        lock(&self.simulated).drain(..).for_each(|thread| thread.wake());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Env;
    use crate::sim::World;

    /// A thread counts to three as it is told to, another one tells it; what the first one found at each look.
    fn counted(env: &Env) -> Vec<u32> {
        let told = Arc::new((Mutex::new(0), Condition::default()));
        let (seen, of_thread) = (Arc::new(Mutex::new(Vec::new())), told.clone());
        let noted = seen.clone();
        let count = move || {
            let (number, changed) = &*of_thread;
            let (mut before, mut now) = (0, lock(number));
            while before < 3 {
                if *now > before {
                    before = *now;
                    lock(&noted).push(before);
                    continue;
                }
                now = changed.wait(number, now, Some(Nanos::from_secs(3600)));
            }
        };
        let counts = env.threads.spawn("counts", None, Box::new(count)).unwrap();
        let tell = move || {
            for number in 1..=3 {
                *lock(&told.0) = number;
                told.1.notify_one();
                park(Some(Nanos::from_millis(20)));
            }
        };
        let tells = env.threads.spawn("tells", None, Box::new(tell)).unwrap();
        counts.join().unwrap();
        tells.join().unwrap();
        let seen = lock(&seen).clone();
        seen
    }

    #[test]
    fn a_condition_is_waited_for_in_a_world_and_outside() {
        let world = World::new(1);
        assert_eq!(counted(&world.env()), [1, 2, 3]);
        assert!(world.now() >= Nanos::from_millis(20) && world.now() < Nanos::from_secs(3600));
        assert_eq!(counted(&Env::real()).last(), Some(&3));
    }

    #[test]
    fn steps_take_time_of_their_thread_in_a_world() {
        let world = World::new(1);
        let env = world.env();
        let (to, from) = std::sync::mpsc::channel();
        let of_thread = env.clone();
        let computes = move || {
            let control = of_thread.threads.current();
            (0..100).for_each(|_| take_step());
            to.send(control.cpu_time().unwrap()).unwrap();
        };
        env.threads.spawn("computes", None, Box::new(computes)).unwrap().join().unwrap();
        let took = from.recv().unwrap();
        assert!(took > Nanos(0) && took <= world.now(), "{took:?} of {:?}", world.now());
        let now = world.now();
        take_step();
        assert_eq!(world.now(), now, "a harness takes no time");
    }

    #[test]
    fn who_catches_panics_ends_with_its_machine() {
        fn catches() {
            assert!(caught::<()>(|| panic!("as the test wants it")).is_err());
            loop {
                let _ = caught(|| park(None));
            }
        }
        let world = World::new(1);
        let env = world.env();
        let thread = env.threads.spawn("catches", None, Box::new(catches)).unwrap();
        assert!(!thread.is_finished());
        assert_eq!(world.take_panics().len(), 1);
        world.kill();
        assert!(thread.is_finished());
    }
}
