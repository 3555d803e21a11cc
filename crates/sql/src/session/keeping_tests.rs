//! What a session keeps of its client's messages, as its server is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{Nanos, SqlError, SqlResult, SqlState};
use env::sim::World;

use super::stand_in::{Answer, LoneHost};
use super::testing::{Bench, OwnAnswers};
use super::{Bind, Executed, Pause, Session};

const MIB: u64 = 1 << 20;

/// A server that has so much room, and notes what is kept.
struct RoomHost {
    lone: LoneHost,
    room: AtomicU64,
    kept: AtomicU64,
    is_much: AtomicBool,
    now: AtomicU64,
}

impl OwnAnswers for RoomHost {
    fn lone(&self) -> &LoneHost {
        &self.lone
    }
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::Relaxed))
    }
    fn keep(&self, bytes: u64) -> SqlResult<()> {
        if bytes > self.room.load(Ordering::Relaxed) {
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "no room"));
        }
        self.kept.store(bytes, Ordering::Relaxed);
        Ok(())
    }
    fn keeps_much(&self) -> bool {
        self.is_much.load(Ordering::Relaxed)
    }
}

fn table() -> (Bench, Session, Arc<RoomHost>) {
    let mut bench = Bench::new();
    let host = Arc::new(RoomHost {
        lone: LoneHost(World::new(7).env()),
        room: AtomicU64::new(u64::MAX),
        kept: AtomicU64::new(0),
        is_much: AtomicBool::new(false),
        now: AtomicU64::new(0),
    });
    let mut session = bench.session_from(host.clone());
    bench.run(&mut session, "CREATE TABLE t (id int, v text)");
    (bench, session, host)
}

/// What is left of it when the client is waited for.
fn left(session: &mut Session, host: &RoomHost) -> u64 {
    session.settle(true);
    host.kept.load(Ordering::Relaxed)
}

fn bound<'a>(portal: &'a str, parameters: &'a [Option<&'a [u8]>]) -> Bind<'a> {
    Bind { portal, statement: "", parameter_formats: &[], parameters, result_formats: &[] }
}

#[test]
fn what_is_kept_is_told_and_given_back() {
    let (mut bench, mut session, host) = table();
    let nothing = left(&mut session, &host);
    assert!(nothing < 1000, "{nothing}");
    let long = "x".repeat(MIB as usize);
    let half = &long[..1 << 19];
    for (keeps, lets_go, least) in [
        (format!("PREPARE p AS SELECT '{long}'"), "DEALLOCATE p", 4 * MIB),
        ("PREPARE p AS SELECT 1".to_owned(), "DEALLOCATE ALL", 2000),
        (format!("BEGIN; DECLARE c CURSOR FOR SELECT '{half}'"), "ROLLBACK", 2 * MIB),
        (format!("SET a.b = '{long}'"), "RESET a.b", MIB),
        (format!("SET application_name = '{long}'"), "RESET application_name", MIB),
        (format!("BEGIN; {}", "SAVEPOINT s;".repeat(1000)), "ROLLBACK TO s; COMMIT", 50_000),
        (format!("BEGIN; {}", "SAVEPOINT s;".repeat(1000)), "RELEASE s; ROLLBACK", 50_000),
    ] {
        bench.run(&mut session, &keeps);
        let kept = left(&mut session, &host);
        assert!(kept >= least && kept < 6 * MIB, "{keeps:.40} {kept}");
        bench.run(&mut session, lets_go);
        assert_eq!(left(&mut session, &host), nothing, "{lets_go}");
    }
    let mut out = Answer::default();
    bench.turn(|home| {
        assert_eq!(session.query(home, "COPY t FROM STDIN", &mut out).unwrap(), Executed::CopyIn);
        session.copy_data(home, format!("1\t{half}").as_bytes()).unwrap();
        assert!(left(&mut session, &host) > MIB / 2);
        session.copy_data(home, b"\n2\ttwo").unwrap();
        assert!(left(&mut session, &host) < nothing + 100);
        session.copy_done(home, &mut out).unwrap();
        session.query(home, "COPY t FROM STDIN", &mut out).unwrap();
    });
    assert_eq!(left(&mut session, &host), nothing);
    bench.run(&mut session, "BEGIN");
    bench.turn(|home| {
        session.parse(home, "", "INSERT INTO t VALUES (1, $1)", &[], &mut out).unwrap();
        let before = left(&mut session, &host);
        session.bind(home, bound("", &[Some(long.as_bytes())]), &mut out).unwrap();
        assert!(left(&mut session, &host) > MIB);
        session.execute(home, "", None, &mut out).unwrap();
        assert_eq!(left(&mut session, &host), before, "it has run");
        let Err(Pause::Error(error)) = session.execute(home, "", None, &mut out) else { panic!("once") };
        assert_eq!(error.message(), "portal \"\" cannot be run");
    });
    bench.run(&mut session, "ROLLBACK");
    assert_eq!(left(&mut session, &host), nothing);
    // Rows of a change are had nowhere else.
    let changed = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) g RETURNING v";
    bench.turn(|home| {
        session.parse(home, "", changed, &[], &mut out).unwrap();
        session.bind(home, bound("", &[]), &mut out).unwrap();
        session.execute(home, "", Some(1), &mut out).unwrap();
        assert!(left(&mut session, &host) > 2 * MIB);
        while let Err(pause) = session.sync(home, &mut out) {
            assert!(matches!(pause, Pause::Memory(_)), "its record goes to the log first: {pause:?}");
        }
    });
    bench.run(&mut session, "SELECT 1");
    assert_eq!(left(&mut session, &host), nothing);
}

#[test]
fn a_long_change_without_a_name_is_kept_as_text_and_read_again() {
    let (mut bench, mut session, host) = table();
    let insert = format!("INSERT INTO t VALUES {}($1, 'last')", "($1, 'v'), ".repeat(3000));
    let mut out = Answer::default();
    bench.turn(|home| {
        session.parse(home, "", &insert, &[], &mut out).unwrap();
        for _ in 0..2 {
            session.bind(home, bound("", &[Some(b"7")]), &mut out).unwrap();
            session.execute(home, "", None, &mut out).unwrap();
            session.sync(home, &mut out).unwrap();
            assert!(host.kept.load(Ordering::Relaxed) > 3 * MIB);
            let text = left(&mut session, &host);
            assert!((30_000..50_000).contains(&text), "{text}");
            session.describe_statement(home, "", &mut out).unwrap();
        }
    });
    assert_eq!(out.tags, ["INSERT 0 3001", "INSERT 0 3001"]);
    // A simple query lets go of it.
    bench.run(&mut session, "SELECT 1");
    assert!(left(&mut session, &host) < 1000);
    // The columns that a client was told are a query's for good.
    let query = format!("SELECT id FROM t WHERE id IN ({}0)", "1, ".repeat(5000));
    bench.turn(|home| session.parse(home, "", &query, &[], &mut out)).unwrap();
    assert!(left(&mut session, &host) > MIB);
}

#[test]
fn a_long_text_waits_for_room_and_not_for_ever() {
    let (mut bench, mut session, host) = table();
    let nothing = left(&mut session, &host);
    let long = format!("SELECT id FROM t WHERE id IN ({}0)", "1, ".repeat(5000));
    let mut out = Answer::default();
    host.room.store(MIB, Ordering::Relaxed);
    for seconds in [0, 4] {
        host.now.store(seconds * 1_000_000_000, Ordering::Relaxed);
        assert!(matches!(bench.try_run(&mut session, &long), Err(Pause::OwnCap(_))));
        assert_eq!(host.kept.load(Ordering::Relaxed), nothing, "nothing of it is kept");
    }
    host.room.store(u64::MAX, Ordering::Relaxed);
    bench.run(&mut session, &long);
    assert_eq!(left(&mut session, &host), nothing);
    host.room.store(MIB, Ordering::Relaxed);
    let parse = |bench: &mut Bench, session: &mut Session, out: &mut Answer| {
        bench.turn(|home| session.parse(home, "p", &long, &[], out))
    };
    assert!(matches!(parse(&mut bench, &mut session, &mut out), Err(Pause::OwnCap(_))));
    host.now.fetch_add(5_000_000_000, Ordering::Relaxed);
    let Err(Pause::Error(error)) = parse(&mut bench, &mut session, &mut out) else { panic!("no room") };
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    // A short one needs none.
    host.room.store(0, Ordering::Relaxed);
    assert_eq!(bench.run(&mut session, "SELECT 1").lines(), ["1"]);
    let copied = bench.turn(|home| {
        session.query(home, "COPY t FROM STDIN", &mut out)?;
        session.copy_data(home, b"1\tone")
    });
    assert!(matches!(copied, Err(Pause::Error(error)) if error.state() == SqlState::OUT_OF_MEMORY));
    assert_eq!(session.transaction_status(), b'I');
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM t").lines(), ["0"]);
}

#[test]
fn savepoints_count_with_what_has_a_name() {
    let (mut bench, mut session, _) = table();
    let long = "x".repeat(15 << 20);
    bench.run(&mut session, &format!("PREPARE p AS SELECT '{long}'"));
    bench.run(&mut session, "BEGIN");
    let many = "SAVEPOINT s;".repeat(80_000);
    assert_eq!(bench.fail(&mut session, &many).state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    bench.run(&mut session, "ROLLBACK; DEALLOCATE p; BEGIN");
    bench.run(&mut session, &many);
    bench.run(&mut session, "COMMIT");
}

#[test]
fn a_plan_counts_that_is_much_more_than_its_text() {
    let (mut bench, mut session, host) = table();
    let nothing = left(&mut session, &host);
    let columns: Vec<String> = (0..1600).map(|i| format!("c{i} int")).collect();
    bench.run(&mut session, &format!("CREATE TABLE w ({})", columns.join(", ")));
    bench.run(&mut session, "PREPARE p AS SELECT * FROM w");
    let kept = left(&mut session, &host) - nothing;
    assert!((200 << 10..1 << 20).contains(&kept), "{kept}");
    // Of a view, which may come to be another one.
    bench.run(&mut session, "DEALLOCATE p; CREATE VIEW v AS SELECT 1 AS a; PREPARE p AS SELECT * FROM v");
    assert!(left(&mut session, &host) - nothing < 20_000);
    let sum = |i: usize| format!(", c1{} AS a{i}", " + c2".repeat(50));
    let sums: String = (0..200).map(sum).collect();
    bench.run(&mut session, &format!("CREATE OR REPLACE VIEW v AS SELECT 1 AS a{sums} FROM w"));
    // Its columns are what they were.
    bench.fail(&mut session, "EXECUTE p");
    bench.run(&mut session, "DEALLOCATE p; PREPARE p AS SELECT a1 FROM v; PREPARE q AS SELECT 1");
    assert!(left(&mut session, &host) - nothing > MIB);
    let long = "x".repeat(14 << 20);
    bench.run(&mut session, &format!("PREPARE long AS SELECT '{long}'"));
    let plans: String = (0..8).map(|i| format!("PREPARE r{i} AS SELECT a FROM v;")).collect();
    assert_eq!(bench.fail(&mut session, &plans).state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    bench.run(&mut session, "DEALLOCATE ALL");
    assert_eq!(left(&mut session, &host), nothing);
    // A table's checks are in the plans of what changes it.
    bench.run(&mut session, "PREPARE p AS INSERT INTO t VALUES (1)");
    let before = left(&mut session, &host);
    let terms = " AND id + 1 > id".repeat(1500);
    bench.run(&mut session, &format!("ALTER TABLE t ADD CHECK (id > 0{terms})"));
    bench.run(&mut session, "EXECUTE p");
    assert!(left(&mut session, &host) > before + 100_000);
}

#[test]
fn statements_give_up_their_plans_before_another_one_is_refused() {
    const COUNT: usize = 300;
    let (mut bench, mut session, host) = table();
    bench.run(&mut session, "INSERT INTO t VALUES (7, 'seven')");
    host.room.store(MIB, Ordering::Relaxed);
    let mut out = Answer::default();
    let name = |n: usize| format!("s{n}");
    for n in 0..COUNT {
        let query = format!("SELECT id, v FROM t WHERE id = $1 AND v <> '{n}'");
        bench.turn(|home| session.parse(home, &name(n), &query, &[], &mut out)).unwrap();
    }
    assert!(left(&mut session, &host) > MIB / 8);
    let mut run = |bench: &mut Bench, session: &mut Session, statement: &str| {
        let parameters = [Some(&b"7"[..])];
        let bind = Bind { statement, ..bound("", &parameters) };
        bench.turn(|home| {
            session.bind(home, bind, &mut out)?;
            session.execute(home, "", None, &mut out)?;
            session.sync(home, &mut out)
        })
    };
    for n in (0..COUNT).chain((0..COUNT).rev()) {
        run(&mut bench, &mut session, &name(n)).unwrap();
    }
    assert_eq!(out.lines(), ["7|seven"; 2 * COUNT]);
    // What a client was told is not let go of.
    bench.run(&mut session, "ALTER TABLE t ALTER v TYPE varchar(9)");
    for n in [0, COUNT / 2, COUNT - 1] {
        let mut told = Answer::default();
        let again = bench.turn(|home| session.describe_statement(home, &name(n), &mut told));
        let Err(Pause::Error(error)) = again else { panic!("{n}: it has other columns") };
        assert_eq!(error.message(), "cached plan must not change result type");
    }
    bench.run(&mut session, "ALTER TABLE t ALTER v TYPE text");
    assert_eq!(bench.run(&mut session, "EXECUTE s5(7)").lines(), ["7|seven"]);
}

#[test]
fn an_idle_session_gives_up_plans_that_it_seldom_uses_where_much_is_kept() {
    let (mut bench, mut session, host) = table();
    bench.run(&mut session, "INSERT INTO t VALUES (7, 'seven')");
    let mut out = Answer::default();
    let name = |n: usize| format!("s{n}");
    for n in 0..300 {
        let query = format!("SELECT id, v FROM t WHERE id = 7 AND v <> '{n}'");
        bench.turn(|home| session.parse(home, &name(n), &query, &[], &mut out)).unwrap();
    }
    let whole = left(&mut session, &host);
    host.is_much.store(true, Ordering::Relaxed);
    let shed = left(&mut session, &host);
    assert!(shed < whole / 2, "{shed} of {whole}");
    let is_shed = |session: &Session, n: usize| session.statements[&*name(n)].is_shed;
    assert!(is_shed(&session, 235) && !is_shed(&session, 237));
    // What is used comes back, and stays while others are used little.
    for round in 0..2 {
        for n in (0..60).chain([100 + round]) {
            bench.turn(|home| {
                let statement = &*name(n);
                session.bind(home, Bind { statement, ..bound("", &[]) }, &mut out).unwrap();
                session.execute(home, "", None, &mut out).unwrap();
                session.sync(home, &mut out).unwrap();
            });
            left(&mut session, &host);
        }
        assert!((0..60).all(|n| !is_shed(&session, n)), "{round}");
        assert!(is_shed(&session, 299) || round == 0);
    }
    assert_eq!(out.lines(), ["7|seven"; 122]);
}

#[test]
fn what_is_kept_behind_a_long_text_is_asked_for_as_well() {
    let (mut bench, mut session, host) = table();
    host.room.store(200 << 10, Ordering::Relaxed);
    let (text, value) = (format!("SELECT '{}' || $1", "x".repeat(9000)), "x".repeat(150 << 10));
    let mut out = Answer::default();
    for _ in 0..2 {
        bench.turn(|home| session.parse(home, "", &text, &[], &mut out)).unwrap();
        let bound = bench.turn(|home| session.bind(home, bound("p", &[Some(value.as_bytes())]), &mut out));
        assert!(matches!(bound, Err(Pause::Error(error)) if error.state() == SqlState::OUT_OF_MEMORY));
        left(&mut session, &host);
    }
}

#[test]
fn what_was_much_leaves_no_room_behind() {
    let (mut bench, mut session, host) = table();
    let mut out = Answer::default();
    let name = |n: usize| format!("s{n}");
    for n in 0..5000 {
        bench.turn(|home| session.parse(home, &name(n), "", &[], &mut out)).unwrap();
    }
    left(&mut session, &host);
    (1..5000).for_each(|n| session.close_statement(&name(n), &mut out));
    assert!(session.statements.capacity() > 1000);
    left(&mut session, &host);
    assert!(session.statements.capacity() < 200 && session.statements.contains_key("s0"));
}

#[test]
fn declared_parameters_are_counted() {
    let (mut bench, mut session, host) = table();
    let oids = vec![23; 65_535];
    let mut out = Answer::default();
    for (name, least) in [("", 0), ("a", MIB), ("b", 2 * MIB)] {
        bench.turn(|home| session.parse(home, name, "SELECT 1", &oids, &mut out)).unwrap();
        assert!(host.kept.load(Ordering::Relaxed) > MIB + least, "{name}");
    }
    host.room.store(left(&mut session, &host), Ordering::Relaxed);
    let refused = bench.turn(|home| session.parse(home, "c", "SELECT 1", &oids, &mut out));
    assert!(matches!(refused, Err(Pause::Error(error)) if error.state() == SqlState::OUT_OF_MEMORY));
    bench.run(&mut session, "DEALLOCATE ALL");
    assert!(left(&mut session, &host) < MIB);
    host.room.store(MIB, Ordering::Relaxed);
    // Short, and of many parts.
    let many = format!("SELECT 1 WHERE 1 IN ({}1)", "1,".repeat(4000));
    for name in ["", "d"] {
        let refused = bench.turn(|home| session.parse(home, name, &many, &[], &mut out));
        assert!(matches!(refused, Err(Pause::Error(error)) if error.state() == SqlState::OUT_OF_MEMORY));
    }
}

#[test]
fn a_statement_has_no_more_parameters_than_can_be_told() {
    let (mut bench, mut session, _) = table();
    let types = vec!["int"; 65_536].join(", ");
    let error = bench.fail(&mut session, &format!("PREPARE p ({types}) AS SELECT 1"));
    assert_eq!(error.state(), SqlState::TOO_MANY_ARGUMENTS);
    assert!(!session.statements.contains_key("p"));
}

#[test]
fn an_idle_session_keeps_no_large_catalog() {
    let (mut bench, mut session, host) = table();
    bench.run(&mut session, "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE m (id int, now mood)");
    bench.run(&mut session, "INSERT INTO m VALUES (1, 'glad')");
    let mut out = Answer::default();
    let mut run = |bench: &mut Bench, session: &mut Session| {
        out = Answer::default();
        bench.turn(|home| {
            session.bind(home, Bind { statement: "p", ..bound("", &[]) }, &mut out).unwrap();
            session.execute(home, "", None, &mut out).unwrap();
            session.sync(home, &mut out).unwrap();
        });
        out.lines()
    };
    bench.turn(|home| session.parse(home, "p", "SELECT now FROM m", &[], &mut Answer::default())).unwrap();
    assert_eq!(run(&mut bench, &mut session), ["glad"]);
    let count = |session: &Session| session.names.as_ref().map(|names| names.kept());
    left(&mut session, &host);
    assert!(count(&session).is_some(), "a small one");
    for n in 0..600 {
        bench.run(&mut session, &format!("CREATE TABLE t{n} (id int)"));
    }
    bench.run(&mut session, "BEGIN; DECLARE c CURSOR FOR SELECT now FROM m");
    for _ in 0..2 {
        assert_eq!(run(&mut bench, &mut session), ["glad"]);
        left(&mut session, &host);
        assert_eq!(count(&session), None);
    }
    let mut told = Answer::default();
    bench.turn(|home| session.execute(home, "c", None, &mut told)).unwrap();
    assert_eq!(told.lines(), ["glad"]);
}
