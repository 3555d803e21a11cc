//! What is done with the threads of proxies: their priorities, as they are set, and their limits.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base::{ByteCount, Nanos, TenantId, VolumeNo, WorkerId};
use env::{
    Env, IoAccount, IoPermits, JoinHandle, Priority, ShutdownSignal, ThreadControl, ThreadOps, Threads,
};
use governor::{CpuPromise, IoPromise, MilliCores};
use sql::session::QueryControl;

use super::proxy::least_quantum;
use super::*;

const A: TenantId = TenantId(16);
const B: TenantId = TenantId(17);
/// Promised processor time.
const PROMISED: TenantId = TenantId(18);

/// The priority that was set last of each thread, by its name.
type Last = Arc<Mutex<BTreeMap<String, Priority>>>;

/// The machine's threads, of which is noted what priorities they are to have.
struct NotedThreads {
    threads: Arc<dyn Threads>,
    last: Last,
}

struct NotedThread {
    control: ThreadControl,
    name: String,
    last: Last,
}

impl ThreadOps for NotedThread {
    fn set_priority(&self, priority: Priority) -> io::Result<()> {
        self.last.lock().unwrap().insert(self.name.clone(), priority);
        self.control.set_priority(priority)
    }
    fn cpu_time(&self) -> Option<Nanos> {
        self.control.cpu_time()
    }
}

impl Threads for NotedThreads {
    fn spawn(
        &self,
        name: &str,
        core: Option<usize>,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<JoinHandle> {
        self.threads.spawn(name, core, body)
    }
    fn current(&self) -> ThreadControl {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let (control, last) = (self.threads.current(), self.last.clone());
        ThreadControl::new(Arc::new(NotedThread { control, name, last }))
    }
    fn pin_current(&self, core: usize) -> io::Result<()> {
        self.threads.pin_current(core)
    }
    fn cores(&self) -> Vec<usize> {
        self.threads.cores()
    }
    fn raise_file_limit(&self) -> io::Result<u64> {
        self.threads.raise_file_limit()
    }
    fn resident_memory(&self) -> ByteCount {
        self.threads.resident_memory()
    }
    fn shutdown_signal(&self) -> ShutdownSignal {
        self.threads.shutdown_signal()
    }
}

/// A worker, and threads beside it whose priorities are noted.
struct Beside {
    env: Env,
    worker: Worker,
    governing: Governing,
    last: Last,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle>,
}

impl Beside {
    fn new() -> Beside {
        let (mut env, last) = (Env::real(), Last::default());
        env.threads = Arc::new(NotedThreads { threads: env.threads.clone(), last: last.clone() });
        let governing = Governing::new(1, 1, env.now());
        let worker = Worker::new(&env, WorkerId(0), &governing).unwrap();
        Beside { env, worker, governing, last, stop: Arc::default(), threads: Vec::new() }
    }

    /// Starts a thread that stands in the run queue for a tenant while `body` goes on.
    fn start(
        &mut self,
        name: &str,
        tenant: TenantId,
        body: impl FnOnce(&Rc<Proxy>, &AtomicBool) + Send + 'static,
    ) {
        let (env, worker, stop) = (self.env.clone(), self.worker.handle(), self.stop.clone());
        let body = move || {
            let promised = tenant == PROMISED;
            let proxy =
                Proxy::enter(&env, &worker, tenant, promised, &Arc::default(), &Background::default());
            let proxy = Rc::new(proxy);
            let waiting = proxy.clone();
            let around = env::around_waits(Rc::new(move |wait| waiting.blocked(wait)));
            body(&proxy, &stop);
            drop(around);
        };
        self.threads.push(self.env.threads.spawn(name, None, Box::new(body)).unwrap());
    }

    fn spin(&mut self, name: &str, tenant: TenantId) {
        self.start(name, tenant, |_, stop| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    }

    fn last(&self, name: &str) -> Option<Priority> {
        self.last.lock().unwrap().get(name).copied()
    }

    /// Turns until `done`, ten seconds at most.
    fn turn_until(&mut self, mut done: impl FnMut(&Beside) -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !done(self) {
            assert!(Instant::now() < until, "still not done after ten seconds");
            self.worker.turn(Some(Nanos::from_millis(1))).unwrap();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            while !thread.is_finished() {
                let _ = self.worker.turn(Some(Nanos::from_millis(1)));
            }
            let _ = thread.join();
        }
    }
}

#[test]
fn a_proxy_that_waits_is_raised_no_more() {
    let mut beside = Beside::new();
    let (tell, told) = mpsc::channel::<()>();
    let (waits, last) = (Arc::new(AtomicBool::new(false)), beside.last.clone());
    let is_waiting = waits.clone();
    beside.start("waits", A, move |proxy, stop| {
        let is_raised = || last.lock().unwrap().get("waits") == Some(&Priority::ProxyRaised);
        while !is_raised() && !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        proxy.blocked(|| {
            waits.store(true, Ordering::Relaxed);
            told.recv().unwrap();
        });
    });
    // Where there is another one, who is picked is raised.
    beside.spin("spins", B);
    beside.turn_until(|_| is_waiting.load(Ordering::Relaxed));
    for _ in 0..20 {
        beside.worker.turn(Some(Nanos::from_millis(1))).unwrap();
    }
    assert_eq!(beside.last("waits"), Some(Priority::ProxyIdle));
    tell.send(()).unwrap();
    beside.turn_until(|beside| beside.threads[0].is_finished());
    for _ in 0..20 {
        beside.worker.turn(Some(Nanos::from_millis(1))).unwrap();
    }
    assert_eq!(beside.last("waits"), Some(Priority::Normal), "its priority is its own again");
}

#[test]
fn a_thread_whose_end_is_awaited_is_at_the_ordinary_priority_from_then_on() {
    let mut beside = Beside::new();
    let (tell, told) = mpsc::channel();
    beside.start("awaited", A, move |proxy, stop| {
        tell.send(proxy.haste()).unwrap();
        while !stop.load(Ordering::Relaxed) {
            proxy.sharing_locks(|| std::hint::spin_loop());
            sleep(Duration::from_millis(1));
        }
    });
    // Where there is another one, who is picked is raised, and who is not is lowered.
    beside.spin("spins", B);
    beside.turn_until(|beside| beside.last("awaited") == Some(Priority::ProxyRaised));
    let haste = told.recv().unwrap();
    haste.ask();
    for _ in 0..50 {
        assert_eq!(beside.last("awaited"), Some(Priority::Normal));
        beside.worker.turn(Some(Nanos::from_millis(1))).unwrap();
    }
    assert!(haste.is_same(&haste.clone()));
}

#[test]
fn a_thread_that_has_leave_to_read_is_at_the_ordinary_priority_until_it_has_read() {
    let mut beside = Beside::new();
    let (io, handle, last) = (beside.governing.io.clone(), beside.worker.handle(), beside.last.clone());
    io.set_promise(A, &IoPromise { iops: 1000, ..IoPromise::default() }, 0, beside.env.now());
    beside.spin("spins", B);
    let (tell, told) = mpsc::channel();
    beside.start("reads", A, move |proxy, _| {
        let priority = || last.lock().unwrap()["reads"];
        let permits = WorkerPermits::new(handle, io);
        permits.work_for(&QueryControl::default(), proxy, None);
        for _ in 0..3 {
            let permit = permits.wait(&IoAccount::new(A, VolumeNo(0)), ByteCount(8192));
            let at_first = priority();
            // Whoever is picked meanwhile.
            sleep(Duration::from_millis(5));
            let at_last = priority();
            assert!(permit.is_some(), "the volume is governed");
            drop(permit);
            tell.send([at_first, at_last, priority()]).unwrap();
        }
        permits.rest();
    });
    let mut read = Vec::new();
    beside.turn_until(|_| {
        read.extend(told.try_iter());
        read.len() == 3
    });
    for [at_first, at_last, after] in read {
        assert_eq!((at_first, at_last), (Priority::Normal, Priority::Normal));
        assert_ne!(after, Priority::Normal);
    }
}

/// Waits that began, and that ended.
#[derive(Default)]
struct CountedWaits([AtomicU32; 2]);

impl LimitWaits for CountedWaits {
    fn begin(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }
    fn end(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_query_tells_of_its_waits_for_its_tenants_own_limit_and_of_no_others() {
    let mut beside = Beside::new();
    let promises = [
        (A, "limited", IoPromise { iops_max: Some(5), ..IoPromise::default() }),
        (B, "promised", IoPromise { iops: 1000, ..IoPromise::default() }),
    ];
    let (tell, told) = mpsc::channel();
    for (tenant, name, promise) in promises {
        let (io, handle, tell) = (beside.governing.io.clone(), beside.worker.handle(), tell.clone());
        io.set_promise(tenant, &promise, 0, beside.env.now());
        beside.start(name, tenant, move |proxy, _| {
            let (permits, waits) = (WorkerPermits::new(handle, io), Arc::new(CountedWaits::default()));
            permits.work_for(&QueryControl::default(), proxy, Some(waits.clone()));
            for _ in 0..3 {
                drop(permits.wait(&IoAccount::new(tenant, VolumeNo(0)), ByteCount(8192)));
            }
            permits.rest();
            tell.send((name, waits.0.each_ref().map(|count| count.load(Ordering::Relaxed)))).unwrap();
        });
    }
    let mut counted = Vec::new();
    beside.turn_until(|_| {
        counted.extend(told.try_iter());
        counted.len() == 2
    });
    counted.sort_unstable();
    // The first goes at once.
    assert_eq!(counted, [("limited", [2, 2]), ("promised", [0, 0])]);
}

#[test]
fn a_query_tells_of_the_times_for_which_its_tenants_limit_of_processor_time_holds_it() {
    let mut beside = Beside::new();
    let promise = CpuPromise { max: Some(MilliCores(50)), ..CpuPromise::default() };
    beside.worker.handle().set_terms(A, Terms { promise, ..Terms::default() });
    let all = [A, B].map(|tenant| (tenant, Arc::new(CountedWaits::default())));
    for (tenant, waits) in all.clone() {
        let (env, worker, stop) = (beside.env.clone(), beside.worker.handle(), beside.stop.clone());
        let body = move || {
            let held = Arc::new(AtomicBool::new(false));
            let proxy = Proxy::enter(&env, &worker, tenant, false, &held, &Background::default());
            proxy.sharing_locks(|| proxy.tell_of_limit(Some(waits)));
            while !stop.load(Ordering::Relaxed) {
                match held.load(Ordering::Relaxed) {
                    true => std::thread::park_timeout(Duration::from_millis(10)),
                    false => std::hint::spin_loop(),
                }
            }
        };
        beside.threads.push(beside.env.threads.spawn("spins", None, Box::new(body)).unwrap());
    }
    let [limited, other] = all.map(|(_, waits)| waits);
    let counts = |waits: &CountedWaits| waits.0.each_ref().map(|count| count.load(Ordering::Relaxed));
    beside.turn_until(|_| counts(&limited)[0] >= 3);
    drop(beside);
    let [begun, ended] = counts(&limited);
    assert_eq!((begun, counts(&other)), (ended, [0, 0]));
}

#[test]
fn what_the_io_of_a_query_has_the_worker_do_is_no_neighbours() {
    let env = Env::real();
    let governing = Governing::new(2, 1, env.now());
    let worker = Worker::new(&env, WorkerId(0), &governing).unwrap();
    let [a, b, system] = [A, B, TenantId::SYSTEM].map(|tenant| worker.handle().account(tenant));
    let (mut queues, us) = (run_queues::RunQueues::new(&governing.cpu, 0), Nanos::from_micros);
    // Each message woke the worker as each of two polls did: the rest of 70 us is shared by four.
    (0..2).for_each(|_| queues.charge_beside(&a, us(10), env.now()));
    (0..2).for_each(|_| queues.charge_message(&b, us(5), env.now()));
    queues.reconcile(us(70), &system, env.now());
    assert_eq!((a.used(), b.used(), system.used()), (us(40), us(30), Nanos(0)));
    assert_eq!(b.polls(), 0);
    // Once; and without anybody's poll it is not the server's.
    queues.charge_message(&b, us(5), env.now());
    queues.reconcile(us(15), &system, env.now());
    assert_eq!((a.used(), b.used(), system.used()), (us(40), us(45), Nanos(0)));
}

#[test]
fn a_thread_of_a_tenant_that_is_promised_processor_time_waits_at_the_ordinary_priority() {
    let mut beside = Beside::new();
    let last = beside.last.clone();
    beside.spin("spins", B);
    let (tell, told) = mpsc::channel();
    for (name, tenant) in [("promised", PROMISED), ("other", A)] {
        let (tell, last) = (tell.clone(), last.clone());
        beside.start(name, tenant, move |proxy, _| {
            let priority = || last.lock().unwrap()[name];
            for _ in 0..3 {
                let within = proxy.blocked(|| {
                    sleep(Duration::from_millis(5));
                    priority()
                });
                // Until it was picked.
                sleep(Duration::from_millis(5));
                tell.send((name, within, priority())).unwrap();
            }
        });
    }
    let mut waited = Vec::new();
    beside.turn_until(|_| {
        waited.extend(told.try_iter());
        waited.len() == 6
    });
    let of_worker = [Priority::ProxyIdle, Priority::ProxyRaised];
    for (name, within, after) in waited {
        let is_ordinary = within == Priority::Normal;
        assert!(
            is_ordinary == (name == "promised") && of_worker.contains(&after),
            "{name}: {within:?}, {after:?}"
        );
    }
}

#[test]
fn a_thread_takes_locks_that_workers_take_at_the_ordinary_priority() {
    let mut beside = Beside::new();
    let last = beside.last.clone();
    beside.spin("spins", B);
    let (tell, told) = mpsc::channel();
    beside.start("shares", A, move |proxy, _| {
        let priority = || {
            // Whoever is picked meanwhile.
            sleep(Duration::from_millis(5));
            last.lock().unwrap()["shares"]
        };
        for _ in 0..3 {
            let within = [proxy.sharing_locks(priority), proxy.blocked_sharing_locks(priority)];
            tell.send((within, [proxy.blocked(priority), priority()])).unwrap();
        }
    });
    let mut shared = Vec::new();
    beside.turn_until(|_| {
        shared.extend(told.try_iter());
        shared.len() == 3
    });
    let of_worker = [Priority::ProxyIdle, Priority::ProxyRaised];
    for (within, else_where) in shared {
        assert_eq!(within, [Priority::Normal; 2]);
        assert!(else_where.iter().all(|priority| of_worker.contains(priority)), "{else_where:?}");
    }
}

#[test]
fn a_limit_stops_a_query_for_what_it_took_and_no_longer() {
    let mut beside = Beside::new();
    let promise = CpuPromise { max: Some(MilliCores(1000)), ..CpuPromise::default() };
    beside.worker.handle().set_terms(A, Terms { promise, ..Terms::default() });
    let threads = beside.env.threads.clone();
    beside.start("spins", A, move |_, stop| {
        // Whatever else the machine does.
        let _ = threads.current().set_priority(Priority::Normal);
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let account = beside.worker.handle().account(A);
    beside.turn_until(|_| account.used() > Nanos(0));
    // It takes what it wants while the worker does something else, as one that does not stand still does.
    sleep(Duration::from_millis(300));
    let before = account.used();
    beside.turn_until(|_| account.used() > before + Nanos::from_millis(20));
    let (took, since) = (account.used() - before, Instant::now());
    let before = account.used();
    beside.turn_until(|_| account.used() > before + Nanos::from_millis(1));
    let stopped = Nanos(since.elapsed().as_nanos() as u64);
    assert!(stopped.0 < took.0 + took.0 / 2, "stopped for {stopped:?} after {took:?}");
}

/// A worker that never rests, and a query of a tenant over its limit on a core that has nothing else to do.
#[test]
fn a_query_over_its_limit_stands_still_on_a_core_that_is_idle() {
    let env = Env::real();
    let cores = env.threads.cores();
    let (tell, told) = mpsc::channel();
    let on_core = env.clone();
    let body = move || {
        let mut worker = Worker::new(&on_core, WorkerId(0), &Governing::new(1, 1, on_core.now())).unwrap();
        tell.send(worker.handle()).unwrap();
        worker.run().unwrap();
    };
    let worker_thread = env.threads.spawn("worker", Some(cores[0]), Box::new(body)).unwrap();
    let worker = told.recv().unwrap();
    let promise = CpuPromise { max: Some(MilliCores(50)), ..CpuPromise::default() };
    worker.set_terms(A, Terms { promise, ..Terms::default() });
    let stop = Arc::new(AtomicBool::new(false));
    let (never_rests, looks) = (stop.clone(), stop.clone());
    let task = worker.spawn(B, async move {
        while !never_rests.load(Ordering::Relaxed) {
            let until = Instant::now() + Duration::from_micros(50);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            yield_now().await;
        }
    });
    let (to, handle) = (env.clone(), worker.clone());
    let (tell_used, told_used) = mpsc::channel();
    let body = move || {
        let held = Arc::new(AtomicBool::new(false));
        let proxy = Proxy::enter(&to, &handle, A, false, &held, &Background::default());
        let before = to.clock.thread_cpu();
        while !looks.load(Ordering::Relaxed) {
            if held.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(10));
            } else {
                std::hint::spin_loop();
            }
        }
        tell_used.send(to.clock.thread_cpu() - before).unwrap();
        drop(proxy);
    };
    let query = env.threads.spawn("query", cores.last().copied(), Box::new(body)).unwrap();
    sleep(Duration::from_secs(1));
    stop.store(true, Ordering::Relaxed);
    let used = told_used.recv().unwrap();
    query.join().unwrap();
    env::block_on(&env, task);
    worker.stop();
    worker_thread.join().unwrap();
    // 50 ms, and what it takes until it looks.
    assert!(used <= Nanos::from_millis(200), "{used:?} of a second");
}

/// A worker on a core of its own beside a task that never rests, and a query of a tenant that is promised half of the core and waits again and again.
#[test]
fn a_query_that_is_promised_processor_time_reads_on_beside_a_worker_that_never_rests() {
    let env = Env::real();
    let core = env.threads.cores()[0];
    let (tell, told) = mpsc::channel();
    let on_core = env.clone();
    let body = move || {
        let mut worker = Worker::new(&on_core, WorkerId(0), &Governing::new(1, 1, on_core.now())).unwrap();
        let _ = worker.claim_priority();
        tell.send(worker.handle()).unwrap();
        worker.run().unwrap();
    };
    let worker_thread = env.threads.spawn("worker", Some(core), Box::new(body)).unwrap();
    let worker = told.recv().unwrap();
    let spin = |time: Duration| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (never_rests, reads) = (stop.clone(), stop.clone());
    let task = worker.spawn(A, async move {
        while !never_rests.load(Ordering::Relaxed) {
            spin(Duration::from_micros(50));
            yield_now().await;
        }
    });
    let promise = CpuPromise { reserved: MilliCores(500), ..CpuPromise::default() };
    worker.set_terms(PROMISED, Terms { promise, ..Terms::default() });
    let (to, handle) = (env.clone(), worker.clone());
    let body = move || {
        let (held, background) = (Arc::default(), Background::default());
        let proxy = Proxy::enter(&to, &handle, PROMISED, true, &held, &background);
        if to.threads.current().set_priority(Priority::Normal).is_err() {
            return;
        }
        let _ = to.threads.current().set_priority(Priority::ProxyIdle);
        let began = Instant::now();
        let mut rounds = 0;
        while !reads.load(Ordering::Relaxed) {
            spin(Duration::from_micros(200));
            proxy.blocked(|| {
                sleep(Duration::from_micros(50));
                spin(Duration::from_micros(50));
            });
            rounds += 1;
            if began.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
        assert!(rounds > 100, "{rounds} rounds of 250 us in a second");
        eprintln!("{rounds} rounds of 250 us in a second");
    };
    let query = env.threads.spawn("query", Some(core), Box::new(body)).unwrap();
    let outcome = query.join();
    stop.store(true, Ordering::Relaxed);
    env::block_on(&env, task);
    worker.stop();
    worker_thread.join().unwrap();
    outcome.unwrap();
}

#[test]
fn of_a_quantum_in_which_something_came_the_query_pays_all_that_was_around_the_wait() {
    let us = Nanos::from_micros;
    let of_query = |completed, around| worker::Quantum { completed, around: us(around) }.of_query(us(30));
    assert_eq!([of_query(0, 20), of_query(1, 20), of_query(4, 20)], [us(30), us(25), us(22)]);
    assert_eq!(of_query(1, 0), us(15));
    assert_eq!(of_query(1, 500), us(30), "it was preempted by what it had raised");
}

#[test]
fn a_quantum_leaves_who_is_due_soon_the_time_of_a_poll_of_others() {
    let us = Nanos::from_micros;
    let least = [None, Some(400), Some(120), Some(50), Some(0)].map(|due| least_quantum(due.map(us)));
    assert_eq!(least, [us(100), us(100), us(70), us(0), us(0)]);
}
