//! Single messages: what their transaction keeps others from while it waits for the next one, and portals that have run.

use base::{SqlError, SqlState};

use super::stand_in::Answer;
use super::testing::Bench;
use super::{Bind, Executed, Pause, Session};

const INSERT: &str = "INSERT INTO t VALUES (1, 'other')";

fn table() -> (Bench, Session, Session) {
    let mut bench = Bench::new();
    let (mut one, other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, by_whom text UNIQUE)");
    (bench, one, other)
}

/// The other one waits for a lock, and is refused once the first one has committed.
fn waits_and_is_refused(bench: &mut Bench, mut other: Session, commit: impl FnOnce(&mut Bench)) {
    match bench.try_run(&mut other, INSERT) {
        Err(Pause::Lock(_)) => {}
        result => panic!("the row is locked: {result:?}"),
    }
    commit(bench);
    assert_eq!(bench.fail(&mut other, INSERT).state(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(bench.run(&mut other, "SELECT by_whom FROM t").lines(), ["one"]);
}

#[test]
fn a_row_inserted_before_a_sync_is_locked() {
    let (mut bench, mut one, other) = table();
    let mut out = Answer::default();
    bench.turn(|home| {
        let bind =
            Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        one.parse(home, "", "INSERT INTO t VALUES (1, 'one')", &[], &mut out).unwrap();
        one.bind(home, bind, &mut out).unwrap();
        assert!(!one.is_between_messages());
        one.execute(home, "", None, &mut out).unwrap();
        assert!(one.is_between_messages());
        one.pass_turn(home);
    });
    waits_and_is_refused(&mut bench, other, |bench| {
        bench.turn(|home| one.sync(home, &mut out)).unwrap();
        assert!(!one.is_between_messages());
    });
}

#[test]
fn a_row_of_a_copy_is_locked_while_its_data_comes() {
    let (mut bench, mut one, other) = table();
    let mut out = Answer::default();
    let copy = "COPY t FROM STDIN";
    bench.turn(|home| {
        assert_eq!(one.query(home, copy, &mut out).unwrap(), Executed::CopyIn);
        one.copy_data(home, b"1\tone\n").unwrap();
        one.pass_turn(home);
    });
    waits_and_is_refused(&mut bench, other, |bench| {
        bench.turn(|home| one.copy_done(home, &mut out)).unwrap();
    });
}

#[test]
fn a_copy_that_fails_at_its_commit_leaves_nothing_of_its_script() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "CREATE TABLE c (t int REFERENCES t DEFERRABLE INITIALLY DEFERRED)");
    let mut out = Answer::default();
    bench.turn(|home| {
        assert_eq!(one.query(home, "COPY c FROM STDIN", &mut out).unwrap(), Executed::CopyIn);
        one.copy_data(home, b"9\n").unwrap();
        let Err(Pause::Error(error)) = one.copy_done(home, &mut out) else { panic!("nothing is referenced") };
        assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION);
    });
    let (tags, error) =
        executed_twice(&mut bench, &mut one, "INSERT INTO t VALUES (1, 'one') RETURNING id", None);
    assert_eq!((tags.len(), error), (2, None));
    assert_eq!(bench.run(&mut one, "SELECT id FROM t").lines(), ["1"]);
}

/// The tags of a portal's run and of a second Execute of it, and the error of that.
fn executed_twice(
    bench: &mut Bench,
    session: &mut Session,
    sql: &str,
    rows_max: Option<u32>,
) -> (Vec<String>, Option<SqlError>) {
    let mut out = Answer::default();
    let again = bench.turn(|home| {
        let bind =
            Bind { portal: "p", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        session.parse(home, "", sql, &[], &mut out).unwrap();
        session.bind(home, bind, &mut out).unwrap();
        session.execute(home, "p", rows_max, &mut out).unwrap();
        let again = session.execute(home, "p", None, &mut out);
        session.sync(home, &mut out).unwrap();
        again
    });
    match again {
        Ok(_) => (out.tags, None),
        Err(Pause::Error(error)) => (out.tags, Some(error)),
        Err(pause) => panic!("{pause:?}"),
    }
}

#[test]
fn a_portal_that_has_run_yields_no_more_rows_and_runs_no_more() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    for (sql, tags) in [
        ("SELECT id FROM t ORDER BY id", ["SELECT 2", "SELECT 0"]),
        ("INSERT INTO t VALUES (3, 'three') RETURNING id", ["INSERT 0 1", "INSERT 0 0"]),
        ("DELETE FROM t WHERE id = 3 RETURNING id", ["DELETE 1", "DELETE 0"]),
    ] {
        let (told, error) = executed_twice(&mut bench, &mut one, sql, None);
        assert_eq!((told, error), (tags.map(str::to_owned).to_vec(), None), "{sql}");
    }
    for rows_max in [None, Some(1)] {
        let sql = "INSERT INTO t VALUES (4, 'four')";
        let (told, error) = executed_twice(&mut bench, &mut one, sql, rows_max);
        assert_eq!(told, ["INSERT 0 1"], "a limit of rows is of those that a statement yields");
        let error = error.expect("it cannot be run again");
        assert_eq!(error.state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        assert_eq!(error.message(), "portal \"p\" cannot be run");
        assert_eq!(bench.run(&mut one, "SELECT id FROM t ORDER BY id").lines(), ["1", "2"], "and is undone");
    }
}
