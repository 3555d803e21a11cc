//! Charged operations pass the gate of their reactor, and are counted where there is none.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::{ByteCount, IoClass, Nanos, TenantId, VolumeNo};
use env::sim::World;
use env::{
    Env, File, GateStep, HeldIo, IoAccount, IoArrival, IoBuf, IoGate, IoTicket, OpenMode, Reactor, block_on,
};

const TENANT: TenantId = TenantId(16);
const VOLUME: VolumeNo = VolumeNo(3);
/// Between two operations that the gate lets through.
const PACE: Nanos = Nanos::from_millis(10);

#[derive(Default)]
struct Told {
    arrived: Vec<(TenantId, VolumeNo, IoClass, ByteCount, usize)>,
    held: VecDeque<HeldIo>,
    opens: Nanos,
    in_flight: Vec<IoTicket>,
    completed: usize,
    done: Vec<ByteCount>,
}

/// One operation for each [`PACE`].
struct Turnstile(Rc<RefCell<Told>>);

impl Told {
    fn pass(&mut self, now: Nanos) -> Option<IoTicket> {
        if now < self.opens {
            return None;
        }
        self.opens = now + PACE;
        let ticket = IoTicket(self.in_flight.len() as u32);
        self.in_flight.push(ticket);
        Some(ticket)
    }
}

impl IoGate for Turnstile {
    fn arrive(&mut self, arrival: IoArrival<'_>, op: HeldIo, now: Nanos) -> Option<IoTicket> {
        let told = &mut *self.0.borrow_mut();
        let account = arrival.account;
        let members = arrival.members.map_or(0, <[_]>::len);
        told.arrived.push((account.tenant(), account.volume(), arrival.class, arrival.len, members));
        let ticket = if told.held.is_empty() { told.pass(now) } else { None };
        if ticket.is_none() {
            told.held.push_back(op);
        }
        ticket
    }
    fn completed(&mut self, ticket: IoTicket, _: Nanos) {
        let told = &mut *self.0.borrow_mut();
        assert!(told.in_flight.contains(&ticket));
        told.completed += 1;
    }
    fn done(&mut self, _: &IoAccount, len: ByteCount, _: Nanos) {
        self.0.borrow_mut().done.push(len);
    }
    fn step(&mut self, now: Nanos) -> GateStep {
        let told = &mut *self.0.borrow_mut();
        if told.held.is_empty() {
            return GateStep::Wait(None);
        }
        match told.pass(now) {
            Some(ticket) => GateStep::Start(told.held.pop_front().expect("checked above"), ticket),
            None => GateStep::Wait(Some(told.opens)),
        }
    }
}

fn open(env: &Env, account: &Arc<IoAccount>) -> File {
    env.disk.create_dir_all(Path::new("/d")).unwrap();
    env.charging(account).disk.open(Path::new("/d/f"), OpenMode::Create, false).unwrap()
}

fn drive<T>(reactor: &Reactor, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    reactor.enter(|| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            reactor.turn(None).expect("the reactor turns");
        }
    })
}

/// A reactor behind a [`Turnstile`].
fn gated(env: &Env) -> (Reactor, Rc<RefCell<Told>>) {
    let told = Rc::new(RefCell::new(Told::default()));
    let reactor = Reactor::new(env).unwrap();
    reactor.set_gate(Box::new(Turnstile(told.clone())));
    (reactor, told)
}

#[test]
fn operations_wait_for_their_turn_and_their_end_is_told() {
    let world = World::new(1);
    let env = world.env();
    let account = IoAccount::new(TENANT, VOLUME);
    let file = open(&env, &account);
    let (reactor, told) = gated(&env);
    let began = world.now();
    drive(&reactor, async {
        let write = |i: u8| {
            file.write_all_at(IoBuf::copy_of(&[i + 1; 512]), 512 * u64::from(i)).of_class(IoClass::Bulk)
        };
        let mut writes = [0, 1, 2, 3, 4].map(write);
        for write in &mut writes {
            assert!(poll_once(write).await.is_none());
        }
        for write in writes {
            write.await.0.unwrap();
        }
    });
    assert!(world.now() - began >= Nanos(4 * PACE.0), "the fifth waits for four");
    assert_eq!(told.borrow().completed, 5);
    assert_eq!(told.borrow().arrived[0], (TENANT, VOLUME, IoClass::Bulk, ByteCount(512), 0));
    assert_eq!(env.disk.read_small(Path::new("/d/f")).unwrap()[2048..], [5; 512]);
    drive(&reactor, async {
        let members: Box<[_]> = [(TENANT, ByteCount(100)), (TenantId(17), ByteCount(28))].into();
        let shared = file.write_all_at_durable(IoBuf::copy_of(&[9; 512]), 0).shared_by(|| members);
        shared.await.0.unwrap();
        file.sync_data().await.unwrap();
    });
    assert_eq!(told.borrow().arrived[5].4, 2, "two share it");
    assert_eq!(told.borrow().arrived[6].3, ByteCount(0), "a sync has no bytes");
    // What blocks cannot be held up, and is told.
    reactor.enter(|| file.read_at(&mut [0; 1000], 0)).unwrap();
    assert_eq!(told.borrow().done, [ByteCount(1000)]);
    assert_eq!(account.take_done(), (0, ByteCount(0)), "the gate was told");
}

/// Polls once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[test]
fn an_operation_nobody_waits_for_still_happens() {
    let world = World::new(2);
    let env = world.env();
    let file = open(&env, &IoAccount::new(TENANT, VOLUME));
    let (reactor, told) = gated(&env);
    drive(&reactor, async {
        file.write_all_at(IoBuf::copy_of(&[1; 512]), 0).await.0.unwrap();
        let mut second = file.write_all_at(IoBuf::copy_of(&[2; 512]), 512);
        assert!(poll_once(&mut second).await.is_none());
        assert_eq!(told.borrow().held.len(), 1, "it is held");
    });
    drive(&reactor, async { file.write_all_at(IoBuf::copy_of(&[3; 512]), 1024).await.0.unwrap() });
    assert_eq!(told.borrow().completed, 3);
    let bytes = env.disk.read_small(Path::new("/d/f")).unwrap();
    assert_eq!((bytes[512], bytes[1024]), (2, 3));
}

#[test]
fn a_condition_is_asked_when_an_operation_has_its_turn() {
    let world = World::new(4);
    let env = world.env();
    let file = open(&env, &IoAccount::new(TENANT, VOLUME));
    let (reactor, told) = gated(&env);
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let read = |holds: bool| {
        let (asked, clock) = (asked.clone(), env.clock.clone());
        let condition = move || {
            asked.lock().unwrap().push(clock.now());
            holds
        };
        file.read_exact_at(IoBuf::zeroed(512), 0).starting_if(condition)
    };
    let began = drive(&reactor, async {
        file.write_all_at(IoBuf::copy_of(&[1; 512]), 0).await.0.unwrap();
        let began = env.clock.now();
        let mut reads = [true, false, true].map(read);
        for read in &mut reads {
            assert!(poll_once(read).await.is_none());
        }
        let outcomes = futures::future::join_all(reads).await;
        let kinds = outcomes.into_iter().map(|(result, _)| result.map_err(|error| error.kind()));
        let busy = Err(std::io::ErrorKind::ResourceBusy);
        assert_eq!(kinds.collect::<Vec<_>>(), [Ok(()), busy, Ok(())]);
        began
    });
    let asked = asked.lock().unwrap().clone();
    assert!(
        asked.is_sorted() && asked[0] > began && asked[2] - asked[0] >= Nanos(2 * PACE.0),
        "each in its turn"
    );
    assert_eq!(told.borrow().completed, 4, "the place of the one that did not start is free");
    // At once where nobody pays.
    let unpaid = file.uncharged().read_exact_at(IoBuf::zeroed(512), 0).starting_if(|| false);
    assert_eq!(drive(&reactor, unpaid).0.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    assert_eq!(told.borrow().arrived.len(), 4);
}

#[test]
fn without_a_gate_the_account_counts() {
    let world = World::new(3);
    let env = world.env();
    let account = IoAccount::new(TENANT, VOLUME);
    let file = open(&env, &account);
    file.write_at(&[1; 100], 0).unwrap();
    file.sync_data_blocking().unwrap();
    assert_eq!(account.take_done(), (2, ByteCount(100)));
    block_on(&env, async {
        file.write_all_at(IoBuf::zeroed(64 << 10), 0).await.0.unwrap();
        file.write_all_at(IoBuf::zeroed((64 << 10) + 512), 0).await.0.unwrap();
    });
    assert_eq!(account.take_done(), (3, ByteCount((128 << 10) + 512)));
}
