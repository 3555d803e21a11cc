//! Room for pages that are read: who gets it next, when it is taken, and what statements of one tenant may hold beside another's.

use std::cell::RefCell;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use base::{ByteCount, Nanos, TenantId, VolumeNo};
use env::sim::World;
use env::{GateStep, HeldIo, IoAccount, IoArrival, IoGate, IoTicket, Reactor};
use governor::{MemoryMeters, MemoryShare, MemoryTerms};

use super::fixture::{PATH, Store};
use super::journal_disk::JournalFile;
use crate::{DataFile, FileError, LoadedPage, MemoryBudget, PageMap, PageRun, Room, RoomAsker};

const PAGE: u64 = base::limits::PAGE_SIZE as u64;

/// Maps of some tenants on one budget.
struct Tenants {
    budget: Arc<MemoryBudget>,
    maps: Vec<PageMap>,
}

impl Tenants {
    fn new(memory: ByteCount, count: u64) -> Tenants {
        let env = World::new(1).env();
        env.disk.create_dir_all(Path::new("/data")).expect("made");
        let budget = MemoryBudget::new(memory, 0, 1);
        let map = |n: u64| {
            let path = format!("/data/tenant-{n}");
            let made = DataFile::create(&env, Path::new(&path), TenantId(16 + n));
            let (_, mut map) = env::block_on(&env, made).expect("created");
            map.charge_to(&budget);
            map
        };
        let maps = (0..count).map(map).collect();
        Tenants { budget, maps }
    }

    fn promise(&mut self, tenant: usize, promised: ByteCount) {
        let share = Arc::new(MemoryShare::default());
        share.set_promised(promised);
        let (meters, id) = (MemoryMeters::new(), TenantId(16 + tenant as u64));
        meters.set_terms(id, MemoryTerms { promised, ..MemoryTerms::default() }, Nanos(0));
        self.maps[tenant].set_memory_terms(&share, &meters.tally(id));
    }

    fn asker(&self, tenant: usize) -> RoomAsker {
        self.maps[tenant].room_asker().expect("it has a budget")
    }

    /// Takes all that is free but for so many bytes.
    fn fill(&self, left: u64) {
        self.budget.charge(self.budget.limit().0 - self.budget.resident().0 - left);
    }
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_load_waits_at_the_limit_and_rooms_are_given_back() {
    let tenants = Tenants::new(ByteCount::from_mib(8), 1);
    let (budget, asker) = (&tenants.budget, tenants.asker(0));
    tenants.fill(PAGE);
    let room = asker.room_now().expect("for one page");
    assert!(asker.room_now().is_none());
    {
        let mut load = pin!(asker.room());
        assert!(poll(load.as_mut()).is_none() && budget.has_waiting());
        budget.wake_waiting();
        assert!(poll(load.as_mut()).is_none() && budget.has_waiting(), "there is no room yet");
        assert!(poll(pin!(budget.pressure(0))).is_some());
        drop(room);
        assert!(asker.room_now().is_none(), "nobody passes the line");
        budget.wake_waiting();
        assert!(poll(load.as_mut()).is_some() && !budget.has_waiting());
    }
    let room = asker.room_now().expect("for one page");
    {
        let mut load = pin!(asker.room());
        assert!(poll(load.as_mut()).is_none() && budget.has_waiting());
        drop(room);
        budget.wake_waiting();
        // Served, and gone before it knows.
    }
    assert!(!budget.has_waiting(), "it went away");
    let room = asker.room_now().expect("what it was given is free again");
    assert!(asker.room_now().is_none());
    budget.overdraw();
    assert!(asker.room_now().is_some() && asker.room_now().is_none(), "one page over the limit");
    assert_eq!(budget.overdrafts(), 1);
    drop(room);
}

#[test]
fn room_goes_to_who_lacks_its_promise_then_to_who_has_taken_least() {
    let mut tenants = Tenants::new(ByteCount::from_mib(8), 3);
    let [greedy, modest, promised] = [0, 1, 2].map(|n| tenants.asker(n));
    let taken: Vec<Room> = (0..20).map(|_| greedy.room_now().expect("there is room")).collect();
    tenants.promise(2, ByteCount::from_mib(1));
    tenants.fill(0);
    let (budget, line) = (&tenants.budget, [&greedy, &greedy, &modest, &promised, &modest]);
    let mut loads: Vec<_> = line.into_iter().map(|asker| Box::pin(asker.room())).collect();
    assert!(loads.iter_mut().all(|load| poll(load.as_mut()).is_none()));
    let mut served = Vec::new();
    for n in 1..=5 {
        budget.refund(PAGE);
        budget.wake_waiting();
        for (at, load) in loads.iter_mut().enumerate() {
            if !served.iter().any(|(known, _)| *known == at)
                && let Some(room) = poll(load.as_mut())
            {
                served.push((at, room));
            }
        }
        assert_eq!(served.len(), n, "a room for each page");
    }
    let order: Vec<usize> = served.iter().map(|(at, _)| *at).collect();
    assert_eq!(order, [3, 2, 4, 0, 1]);
    drop((served, taken, loads));
}

#[test]
fn a_thread_that_waits_stands_in_the_same_line() {
    let tenants = Tenants::new(ByteCount::from_mib(8), 2);
    let (budget, task, thread) = (&tenants.budget, tenants.asker(0), tenants.asker(1));
    tenants.fill(0);
    let mut loads = [(); 2].map(|()| Box::pin(task.room()));
    assert!(loads.iter_mut().all(|load| poll(load.as_mut()).is_none()));
    std::thread::scope(|scope| {
        let (took, has) = std::sync::mpsc::channel();
        let (_over, until_over) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let _room = thread.room_blocking();
            took.send(()).expect("somebody listens");
            // It may have looked by itself before it was woken: what it has stays taken until all was looked at.
            let _ = until_over.recv();
        });
        while budget.door_len() == 0 {
            std::thread::yield_now();
        }
        budget.refund(2 * PAGE);
        // Two rooms for three: the first task, then the thread, whose tenant has taken none.
        budget.wake_waiting();
        has.recv().expect("the thread has room");
        assert!(poll(loads[0].as_mut()).is_some() && poll(loads[1].as_mut()).is_none());
    });
    // What the thread had and what the task had is free, and there is one that waits.
    budget.wake_waiting();
    assert!(poll(loads[1].as_mut()).is_some() && !budget.has_waiting());
}

#[test]
fn what_one_tenant_holds_is_not_in_the_way_of_another() {
    let mut tenants = Tenants::new(ByteCount::from_mib(8), 3);
    tenants.promise(2, ByteCount::from_mib(2));
    let [greedy, other, promised] = [0, 1, 2].map(|n| tenants.asker(n));
    let hold_all = |asker: &RoomAsker| (0..1_000).take_while(|_| asker.try_hold()).count();
    let held = hold_all(&greedy);
    assert!((128..=171).contains(&held), "{held} of the quarter, 256 pages");
    assert!(poll(pin!(greedy.hold_room())).is_none());
    assert!(poll(pin!(other.hold_room())).is_some() && other.try_hold());
    assert!(hold_all(&promised) >= 54, "two of the seven MiB that can be promised, of 192 pages");
    let mut waits = pin!(greedy.hold_room());
    assert!(poll(waits.as_mut()).is_none());
    greedy.end_holds(held);
    assert!(poll(waits.as_mut()).is_some());
    other.end_holds(1);
}

/// Keeps all that comes until it is opened.
#[derive(Clone, Default)]
struct Shut(Rc<RefCell<ShutState>>);

#[derive(Default)]
struct ShutState {
    is_open: bool,
    held: Vec<HeldIo>,
    completed: usize,
}

impl IoGate for Shut {
    fn arrive(&mut self, _: IoArrival<'_>, op: HeldIo, _: Nanos) -> Option<IoTicket> {
        self.0.borrow_mut().held.push(op);
        None
    }
    fn completed(&mut self, _: IoTicket, _: Nanos) {
        self.0.borrow_mut().completed += 1;
    }
    fn done(&mut self, _: &IoAccount, _: ByteCount, _: Nanos) {}
    fn step(&mut self, _: Nanos) -> GateStep {
        let state = &mut *self.0.borrow_mut();
        match state.held.pop() {
            Some(op) if state.is_open => GateStep::Start(op, IoTicket(0)),
            Some(op) => {
                state.held.push(op);
                GateStep::Wait(None)
            }
            None => GateStep::Wait(None),
        }
    }
}

/// Polls each, and takes what those that have ended read.
fn collect<F>(reads: &mut Vec<std::pin::Pin<Box<F>>>, loaded: &mut Vec<Vec<LoadedPage>>)
where
    F: Future<Output = Result<Vec<LoadedPage>, FileError>>,
{
    reads.retain_mut(|read| match poll(read.as_mut()) {
        Some(outcome) => {
            loaded.push(outcome.expect("readable"));
            false
        }
        None => true,
    });
}

#[test]
fn a_read_takes_room_when_it_has_its_turn() {
    let world = World::new(1);
    let env = world.env().charging(&IoAccount::new(TenantId(16), VolumeNo(0)));
    env.disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let mut store = Store::create_in(env.clone(), JournalFile::default());
    let pages: Vec<_> = (0..3).map(|value| store.allocate(value)).collect();
    store.checkpoint();
    assert_eq!(store.map.evict_all(), 3);
    let (asker, gate) = (store.map.room_asker().expect("it has a budget"), Shut::default());
    let reactor = Reactor::new(&env).expect("made");
    reactor.set_gate(Box::new(gate.clone()));
    let _entered = reactor.entered();
    let resident = || store.memory.resident();
    let before = resident();
    let reads = pages.iter().map(|no| {
        let from = store.map.locate(*no).expect("a known page").expect("not in memory");
        let (reader, asker) = (store.file.reader(), asker.clone());
        Box::pin(async move { reader.read_run(PageRun::new(from), Some(&asker)).await })
    });
    let mut reads: Vec<_> = reads.collect();
    assert!(reads.iter_mut().all(|read| poll(read.as_mut()).is_none()));
    assert_eq!(
        (resident(), gate.0.borrow().held.len()),
        (before, 3),
        "what waits for its turn takes nothing"
    );
    // All but one have their turns when there is no room.
    let full = store.memory.limit().0 - resident().0 - PAGE;
    store.memory.charge(full);
    gate.0.borrow_mut().is_open = true;
    reactor.turn(Some(Nanos(0))).expect("turns");
    reactor.turn(None).expect("turns");
    let mut loaded = Vec::new();
    collect(&mut reads, &mut loaded);
    assert_eq!((loaded.len(), reads.len()), (1, 2), "room for one");
    assert_eq!(gate.0.borrow().completed, 3, "those that wait for room have no place at the device");
    store.memory.refund(full);
    store.memory.wake_waiting();
    while !reads.is_empty() {
        collect(&mut reads, &mut loaded);
        if !reads.is_empty() {
            reactor.turn(None).expect("turns");
        }
    }
    assert!(gate.0.borrow().held.is_empty(), "paid for already");
    loaded.into_iter().for_each(|pages| store.map.load(pages));
    assert_eq!(resident().0, before.0 + 3 * PAGE);
}

#[test]
fn a_read_pays_for_no_more_pages_than_there_is_room_for() {
    let account = IoAccount::new(TenantId(16), VolumeNo(0));
    let env = World::new(2).env().charging(&account);
    env.disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let mut store = Store::create_in(env, JournalFile::default());
    let pages: Vec<_> = (0..9).map(|value| store.allocate(value)).collect();
    store.checkpoint();
    assert_eq!(store.map.evict_all(), 9);
    let asker = store.map.room_asker().expect("it has a budget");
    store.memory.charge(store.memory.limit().0 - store.memory.resident().0 - 3 * PAGE);
    let run = || {
        let at = |no| store.map.locate(no).expect("a known page");
        let first = at(pages[0]).expect("not in memory");
        let place_of = |no| at(no).map(|at| at.location);
        let run = PageRun::with_ahead(first, pages[1..].iter().copied(), place_of, at);
        assert_eq!(run.ahead(), 8);
        account.take_done();
        run
    };
    let blocking = store.file.reader().read_run_blocking(run(), Some(&asker)).expect("readable");
    assert_eq!((blocking.len(), account.take_done().1), (3, ByteCount(3 * PAGE)));
    drop(blocking);
    let reader = store.file.reader();
    let read = reader.read_run(run(), Some(&asker));
    let by_reactor = env::block_on(&store.env, read).expect("readable");
    assert_eq!((by_reactor.len(), account.take_done().1), (3, ByteCount(3 * PAGE)));
}
