//! Commits that wait for room in memory.

use base::ByteCount;

use super::stand_in::Answer;
use super::testing::Bench;
use super::{Bind, Pause, Session};

/// A session that has changed a row of `t`, in a tenant with room, and another session.
fn changed(begin: &str) -> (Bench, Session, Session) {
    let mut bench = Bench::within(ByteCount::from_kib(256));
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut other, "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY, v text)");
    bench.run(&mut one, begin);
    let mut out = Answer::default();
    bench.turn(|home| {
        let bind =
            Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        one.parse(home, "", "INSERT INTO t VALUES (1)", &[], &mut out).unwrap();
        one.bind(home, bind, &mut out).unwrap();
        one.execute(home, "", None, &mut out).unwrap();
        one.pass_turn(home);
    });
    (bench, one, other)
}

/// Fills the memory until a statement waits for room.
fn fill(bench: &mut Bench, other: &mut Session) {
    for id in 0.. {
        match bench.try_run(other, &format!("INSERT INTO u VALUES ({id}, repeat('v', 5000))")) {
            Ok(_) => {}
            Err(Pause::Memory(_)) => break,
            Err(pause) => panic!("{pause:?}"),
        }
    }
    bench.turn(|home| other.end(home));
}

/// `commit` pauses for memory as long as nobody makes room, and goes on at last.
fn waits(
    bench: &mut Bench,
    one: &mut Session,
    mut commit: impl FnMut(&mut Bench, &mut Session) -> Result<(), Pause>,
) {
    let mut waits = 0;
    loop {
        match commit(bench, one) {
            Ok(()) => break,
            Err(Pause::Memory(_)) => waits += 1,
            Err(pause) => panic!("{pause:?}"),
        }
        let mut third = bench.session();
        assert_eq!(
            bench.run(&mut third, "SELECT count(*) FROM t").lines(),
            ["0"],
            "nothing is committed yet"
        );
        bench.turn(|home| third.end(home));
    }
    assert!((1..100).contains(&waits), "{waits} waits");
    let mut third = bench.session();
    assert_eq!(bench.run(&mut third, "SELECT count(*) FROM t").lines(), ["1"]);
}

#[test]
fn a_commit_waits_for_room_and_goes_on_without_it() {
    let (mut bench, mut one, mut other) = changed("BEGIN");
    fill(&mut bench, &mut other);
    waits(&mut bench, &mut one, |bench, one| bench.try_run(one, "COMMIT").map(drop));
}

#[test]
fn statements_on_roles_settings_and_privileges_wait_for_room() {
    let (mut bench, _one, mut other) = changed("BEGIN");
    fill(&mut bench, &mut other);
    for sql in ["CREATE ROLE r", "ALTER ROLE owner SET work_mem = '1MB'", "GRANT SELECT ON t TO public"] {
        // In a block, where no commit waits.
        let mut third = bench.session();
        bench.run(&mut third, "BEGIN");
        assert!(matches!(bench.try_run(&mut third, sql), Err(Pause::Memory(_))), "{sql}");
        bench.turn(|home| third.end(home));
    }
}

#[test]
fn the_commit_of_a_sync_waits_for_room() {
    let (mut bench, mut one, mut other) = changed("SELECT 1");
    fill(&mut bench, &mut other);
    let mut out = Answer::default();
    waits(&mut bench, &mut one, |bench, one| bench.turn(|home| one.sync(home, &mut out)));
}

#[test]
fn a_copy_waits_for_room_and_commits() {
    let (mut bench, mut one, mut other) = changed("SELECT 1");
    let mut out = Answer::default();
    bench.turn(|home| one.sync(home, &mut out)).unwrap();
    bench.run(&mut one, "DELETE FROM t");
    bench.turn(|home| {
        one.query(home, "COPY t FROM STDIN", &mut out).unwrap();
        one.copy_data(home, b"1\n").unwrap();
        one.pass_turn(home);
    });
    fill(&mut bench, &mut other);
    waits(&mut bench, &mut one, |bench, one| bench.turn(|home| one.copy_done(home, &mut out)));
}

#[test]
fn what_the_parts_of_a_with_return_is_within_what_rows_may_take() {
    let mut bench = Bench::within(ByteCount::from_mib(1));
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    let with = |rows: usize| {
        format!(
            "WITH i AS (INSERT INTO t SELECT g FROM generate_series(1, {rows}) g RETURNING repeat('x', 1000) AS x) SELECT count(x) FROM i"
        )
    };
    let refused = bench.fail(&mut session, &with(6000));
    assert_eq!(
        format!("{} {}", refused.state(), refused.message()),
        "53200 out of memory for the rows of a statement"
    );
    assert_eq!(bench.run(&mut session, &with(100)).lines(), ["100"]);
}
