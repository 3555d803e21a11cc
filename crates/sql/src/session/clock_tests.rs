//! When a statement begins, and what it says of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base::Nanos;
use env::sim::World;

use super::message_tests::{BIND, bind};
use super::stand_in::{Answer, LoneHost};
use super::testing::{Bench, OwnAnswers};
use super::{Bind, Pause};

/// A server whose clock goes on whenever somebody looks at it.
struct TickingHost {
    lone: LoneHost,
    looks: AtomicI64,
}

impl OwnAnswers for TickingHost {
    fn lone(&self) -> &LoneHost {
        &self.lone
    }
    fn wall_clock(&self) -> i64 {
        self.looks.fetch_add(1, Ordering::Relaxed)
    }
}

#[test]
fn a_statement_begins_once_however_often_it_pauses() {
    let mut bench = Bench::new();
    let host = TickingHost { lone: LoneHost(World::new(7).env()), looks: AtomicI64::new(0) };
    let mut session = bench.session_from(Arc::new(host));
    bench.run(&mut session, "CREATE TABLE u (id int PRIMARY KEY, at timestamptz)");
    bench.run(&mut session, "INSERT INTO u SELECT g FROM generate_series(1, 20000) g");
    let mut out = Answer::default();
    bench.turn(|home| bind(home, &mut session, "UPDATE u SET at = statement_timestamp()", &mut out));
    let mut turns = 1;
    while bench.turn(|home| match session.execute(home, "p", None, &mut out) {
        Ok(_) => false,
        Err(Pause::Yield | Pause::Slice(_)) => true,
        Err(pause) => panic!("{pause:?}"),
    }) {
        turns += 1;
    }
    assert!(turns > 3, "{turns} turns");
    // The next one has a time of its own.
    bench.turn(|home| {
        session.sync(home, &mut out).unwrap();
        bind(home, &mut session, "UPDATE u SET at = statement_timestamp() WHERE id = 7", &mut out);
        session.execute(home, "p", None, &mut out).unwrap();
        session.sync(home, &mut out).unwrap();
    });
    let mut at = |id: u32| bench.run(&mut session, &format!("SELECT at FROM u WHERE id = {id}")).lines();
    let first = at(1);
    assert_eq!((at(20_000), at(9_999)), (first.clone(), first.clone()));
    assert_ne!(at(7), first);
}

#[test]
fn statements_of_messages_that_came_together_take_one_look_at_the_clock() {
    let mut bench = Bench::new();
    let host = Arc::new(TickingHost { lone: LoneHost(World::new(7).env()), looks: AtomicI64::new(0) });
    let mut session = bench.session_from(host.clone());
    host.looks.store(5000, Ordering::Relaxed);
    session.received(OwnAnswers::now(&*host));
    let told = bench.run(&mut session, "SELECT statement_timestamp() = now(); SELECT 2; SELECT 3");
    assert_eq!(told.lines(), ["t", "2", "3"]);
    assert_eq!(host.looks.load(Ordering::Relaxed), 5001);
}

/// A server that is kept from going on for 5 ms wherever it reads the wall clock, just before it does.
struct HeldUpHost {
    lone: LoneHost,
    micros: AtomicI64,
}

impl OwnAnswers for HeldUpHost {
    fn lone(&self) -> &LoneHost {
        &self.lone
    }
    fn wall_clock(&self) -> i64 {
        self.micros.fetch_add(5000, Ordering::Relaxed) + 5000
    }
    fn now(&self) -> Nanos {
        Nanos(self.micros.load(Ordering::Relaxed).cast_unsigned() * 1000)
    }
}

#[test]
fn no_statement_begins_ahead_of_the_wall_clock() {
    let mut bench = Bench::new();
    let host = Arc::new(HeldUpHost { lone: LoneHost(World::new(7).env()), micros: AtomicI64::new(0) });
    let mut session = bench.session_from(host.clone());
    for _ in 0..3 {
        session.received(OwnAnswers::now(&*host));
        let told = bench.run(&mut session, "SELECT statement_timestamp() < clock_timestamp()");
        assert_eq!(told.lines(), ["t"]);
    }
}

#[test]
fn now_and_today_are_those_of_the_transaction_that_a_statement_opens() {
    const DAY: i64 = 86_400_000_000;
    let mut bench = Bench::new();
    let host = Arc::new(TickingHost { lone: LoneHost(World::new(7).env()), looks: AtomicI64::new(0) });
    let mut session = bench.session_from(host.clone());
    bench.run(&mut session, "CREATE TABLE ev (day date)");
    let mut out = Answer::default();
    bench.turn(|home| session.parse(home, "p", "INSERT INTO ev VALUES ($1)", &[], &mut out)).unwrap();
    // Days go by in which the session is idle.
    for day in [2, 4] {
        host.looks.store(day * DAY, Ordering::Relaxed);
        let told = bench.run(&mut session, "SELECT 'now'::timestamptz = now(), 'today'::date = current_date");
        assert_eq!(told.lines(), ["t|t"]);
        host.looks.store((day + 1) * DAY, Ordering::Relaxed);
        let parameters = [Some(&b"today"[..])];
        bench.turn(|home| {
            session.bind(home, Bind { statement: "p", parameters: &parameters, ..BIND }, &mut out).unwrap();
            session.execute(home, "", None, &mut out).unwrap();
            session.sync(home, &mut out).unwrap();
        });
    }
    let days = bench.run(&mut session, "SELECT day FROM ev ORDER BY day").lines();
    assert_eq!(days, ["2000-01-04", "2000-01-06"]);
    // In a block they are the block's.
    bench.run(&mut session, "BEGIN");
    host.looks.store(9 * DAY, Ordering::Relaxed);
    let told = bench.run(&mut session, "SELECT 'now'::timestamptz = now(), 'today'::date");
    assert_eq!(told.lines(), ["t|2000-01-06"]);
    bench.run(&mut session, "ROLLBACK");
}
