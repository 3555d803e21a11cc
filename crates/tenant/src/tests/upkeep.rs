//! What upkeep reads and writes is told as that, so that it goes first when others wait for it; what statements read is not.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use base::{IoClass, Nanos, VolumeNo};
use env::{GateStep, HeldIo, IoAccount, IoArrival, IoGate, IoTicket, Reactor};

use super::*;

/// Lets everything through, and notes what it is for.
struct Noting(Rc<RefCell<Vec<IoClass>>>);

impl IoGate for Noting {
    fn arrive(&mut self, arrival: IoArrival<'_>, _: HeldIo, _: Nanos) -> Option<IoTicket> {
        self.0.borrow_mut().push(arrival.class);
        Some(IoTicket(0))
    }
    fn completed(&mut self, _: IoTicket, _: Nanos) {}
    fn done(&mut self, _: &IoAccount, _: ByteCount, _: Nanos) {}
    fn step(&mut self, _: Nanos) -> GateStep {
        GateStep::Wait(None)
    }
}

/// Whether what is driven asked to be polled again.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Gated {
    reactor: Reactor,
    noted: Rc<RefCell<Vec<IoClass>>>,
}

impl Gated {
    fn drive<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        self.reactor.enter(|| {
            loop {
                if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                    return output;
                }
                if !woken.0.swap(false, Ordering::Relaxed) {
                    self.reactor.turn(None).expect("the reactor turns");
                }
            }
        })
    }

    /// Whether something arrived since the last look, and all of it was of this class.
    fn were_all(&self, class: IoClass) -> bool {
        let noted = self.noted.take();
        !noted.is_empty() && noted.iter().all(|one| *one == class)
    }
}

#[test]
fn opening_replay_and_checkpoints_are_upkeep_and_statements_are_not() {
    let mut fixture = Fixture::on_disk(72);
    let table = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    let insert = |fixture: &mut Fixture, id| {
        fixture.insert(table, vec![int(id), text(&"v".repeat(5000))]).unwrap();
    };
    (0..20).for_each(|id| insert(&mut fixture, id));
    let env = fixture.world.as_ref().unwrap().env();
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    let root = fixture.tenant.committed();
    insert(&mut fixture, 20);

    let noted = Rc::new(RefCell::new(Vec::new()));
    let gated = Gated { reactor: Reactor::new(&env).unwrap(), noted: noted.clone() };
    gated.reactor.set_gate(Box::new(Noting(noted)));
    let env = env.charging(&IoAccount::new(TENANT, VolumeNo(0)));
    fixture.tenant =
        gated.drive(Tenant::open(&env, Path::new("/tenant"), TENANT)).expect("its root is whole");
    fixture.tenant.charge_to(&MemoryBudget::new(MEMORY_MIN, 8, 1));
    assert!(gated.were_all(IoClass::Upkeep), "opening");

    let mut replay = Replay::default();
    for (commit, record) in fixture.log.records.iter().filter(|(commit, _)| *commit > root) {
        replay.batch.push(*commit, record, true);
    }
    gated.drive(fixture.tenant.replay_batch(&mut replay)).expect("the log is whole");
    assert!(gated.were_all(IoClass::Upkeep), "replay");

    // The catalog's pages, which the checkpoint will change, are gone.
    assert!(fixture.tenant.evict_all() > 0);
    let mut read = 0;
    while let Some(request) = fixture.tenant.checkpoint_request().unwrap() {
        let loaded = gated.drive(request.read()).unwrap();
        fixture.tenant.page_loaded(loaded);
        read += 1;
    }
    assert!(read > 0 && gated.were_all(IoClass::Upkeep), "what a checkpoint reads before it begins");
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    gated.drive(checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    assert!(gated.were_all(IoClass::Upkeep), "a checkpoint");

    assert!(fixture.tenant.evict_all() > 0);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let rows = loop {
        let page = match fixture.run(&mut txn, |view| all_rows(view, table)) {
            Ok(rows) => break rows,
            Err(Interrupt::Miss(page)) => page,
            Err(other) => panic!("{other:?}"),
        };
        for request in fixture.tenant.page_requests(&txn, &[page]).unwrap() {
            let loaded = gated.drive(request.read()).unwrap();
            fixture.tenant.page_loaded(loaded);
        }
    };
    fixture.commit(txn).unwrap();
    assert_eq!(rows.len(), 21);
    assert!(gated.were_all(IoClass::Short), "a statement");
}
