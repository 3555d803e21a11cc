//! Executes that come by no place where they could be suspended, and are told to.

use base::SqlState;

use super::stand_in::Answer;
use super::testing::Bench;
use super::{Bind, Executed, Pause, Session};

/// A session, on a table `k` and on `o`, which another one refers to.
fn tables() -> (Bench, Session) {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(
        &mut session,
        "CREATE TABLE k (id int PRIMARY KEY, n numeric(12,2), body text, at timestamp);
         CREATE TABLE o (id int PRIMARY KEY); CREATE TABLE r (id int PRIMARY KEY, o int REFERENCES o);
         INSERT INTO k SELECT g, g, 'b', now() FROM generate_series(1, 1000) g;
         INSERT INTO o SELECT g FROM generate_series(1, 1000) g",
    );
    (bench, session)
}

/// Binds a statement to the portal without a name, with 7 for its parameter.
fn bind(bench: &mut Bench, session: &mut Session, sql: &str) {
    let mut out = Answer::default();
    let seven = [Some(&b"7"[..])];
    let parameters = if sql.contains("$1") { &seven[..] } else { &[] };
    let bind = Bind { portal: "", statement: "", parameter_formats: &[], parameters, result_formats: &[] };
    bench.turn(|home| {
        session.parse(home, "", sql, &[], &mut out).unwrap();
        session.bind(home, bind, &mut out).unwrap();
    });
}

#[test]
fn what_finds_rows_by_whole_keys_runs_soon_and_what_may_last_does_not() {
    let (mut bench, mut session) = tables();
    for (sql, tag) in [
        ("SELECT n, body FROM k WHERE id = $1", Some("SELECT 1")),
        ("SELECT n FROM k WHERE id = $1 FOR UPDATE", Some("SELECT 1")),
        ("INSERT INTO k VALUES ($1 + 2000, 1.5, 'b', current_timestamp)", Some("INSERT 0 1")),
        ("UPDATE k SET n = n + 1 WHERE id = $1 RETURNING body", Some("UPDATE 1")),
        ("DELETE FROM k WHERE id = $1", Some("DELETE 1")),
        ("SELECT n FROM k WHERE id > $1", None),
        ("SELECT count(*) FROM k WHERE id = $1", None),
        ("SELECT repeat(body, 9) FROM k WHERE id = $1", None),
        ("SELECT body::numeric FROM k WHERE id = $1", None),
        ("INSERT INTO k SELECT id + 5000 FROM k WHERE id = $1", None),
        ("UPDATE k SET n = $1", None),
        ("DELETE FROM o WHERE id = $1", None),
        ("BEGIN", Some("BEGIN")),
        ("COMMIT", Some("COMMIT")),
    ] {
        bind(&mut bench, &mut session, sql);
        assert_eq!(session.runs_soon(""), tag.is_some(), "{sql}");
        let mut out = Answer::default();
        bench.turn(|home| {
            if tag.is_some() {
                let executed = session.execute_soon(home, "", &mut out).unwrap();
                assert_eq!(executed, Some(Executed::Complete), "{sql}");
                assert!(!session.runs_soon(""), "{sql} has run");
            }
            session.sync(home, &mut out).unwrap();
        });
        assert!(out.tags.iter().eq(tag.iter()), "{sql}: {:?}", out.tags);
    }
}

#[test]
fn what_is_to_be_planned_anew_does_not_run_soon() {
    let (mut bench, mut session) = tables();
    bind(&mut bench, &mut session, "SELECT n FROM k WHERE id = $1");
    let mut other = bench.session();
    bench.run(&mut other, "ALTER TABLE k ADD COLUMN more int");
    let mut out = Answer::default();
    assert_eq!(bench.turn(|home| session.execute_soon(home, "", &mut out)).unwrap(), None);
    bench.turn(|home| session.execute(home, "", None, &mut out)).unwrap();
    assert_eq!(out.lines(), ["7.00"]);
}

#[test]
fn the_end_of_many_changes_does_not_run_soon() {
    let (mut bench, mut session) = tables();
    bench.run(&mut session, "BEGIN; UPDATE k SET body = repeat('x', 200)");
    bind(&mut bench, &mut session, "COMMIT");
    assert!(!session.runs_soon(""));
    bench.run(&mut session, "ROLLBACK");
}

#[test]
fn who_may_no_longer_read_a_table_does_not_though_its_statement_runs_soon() {
    let (mut bench, mut owner) = tables();
    bench.run(&mut owner, "CREATE ROLE guest LOGIN; GRANT SELECT ON k TO guest");
    let mut guest = bench.session_of("guest");
    let seven = [Some(&b"7"[..])];
    let of_seven =
        Bind { portal: "", statement: "s", parameter_formats: &[], parameters: &seven, result_formats: &[] };
    let mut out = Answer::default();
    bench.turn(|home| {
        guest.parse(home, "s", "SELECT n FROM k WHERE id = $1", &[], &mut out).unwrap();
        for _ in 0..3 {
            guest.bind(home, of_seven, &mut out).unwrap();
            assert_eq!(guest.execute_soon(home, "", &mut out).unwrap(), Some(Executed::Complete));
        }
        guest.sync(home, &mut out).unwrap();
        guest.bind(home, of_seven, &mut out).unwrap();
    });
    assert_eq!(out.lines(), ["7.00"; 3]);
    bench.run(&mut owner, "REVOKE SELECT ON k FROM guest");
    assert_eq!(bench.turn(|home| guest.execute_soon(home, "", &mut out)).unwrap(), None);
    let Err(Pause::Error(error)) = bench.turn(|home| guest.execute(home, "", None, &mut out)) else {
        panic!("it may not read it any more")
    };
    assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn a_bind_that_is_made_at_once_gives_what_any_bind_does() {
    let (mut bench, mut session) = tables();
    let mut out = Answer::default();
    bench.turn(|home| {
        for (name, sql) in [
            ("row", "SELECT n, body FROM k WHERE id = $1"),
            ("other", "SELECT body FROM k WHERE id = $1"),
            ("begin", "BEGIN"),
            ("shown", "EXPLAIN SELECT n, body FROM k WHERE id = $1"),
            ("nothing", ""),
        ] {
            session.parse(home, name, sql, &[], &mut out).unwrap();
        }
        session.sync(home, &mut out).unwrap();
        let seven = [Some(&b"7"[..])];
        for (statement, result_formats) in [
            ("begin", &[][..]),
            ("row", &[][..]),
            ("row", &[0, 0][..]),
            ("other", &[0][..]),
            ("nothing", &[][..]),
            ("row", &[0][..]),
        ] {
            let has_parameter = matches!(statement, "row" | "other");
            let parameters = if has_parameter { &seven[..] } else { &[] };
            let bind = Bind { portal: "", statement, parameter_formats: &[], parameters, result_formats };
            assert!(session.bind_at_once(home, &bind).unwrap(), "{statement}");
            session.execute(home, "", None, &mut out).unwrap();
        }
        let several = Bind {
            portal: "",
            statement: "shown",
            parameter_formats: &[],
            parameters: &seven,
            result_formats: &[0, 0],
        };
        assert!(!session.bind_at_once(home, &several).unwrap(), "what it shows is not known by its plan");
        let named = Bind { portal: "p", ..several };
        assert!(!session.bind_at_once(home, &named).unwrap());
    });
    assert_eq!(out.lines(), ["7.00|b", "7.00|b", "b", "7.00|b"]);
}

#[test]
fn a_change_that_runs_soon_checks_its_foreign_keys_at_its_end() {
    let (mut bench, mut session) = tables();
    for (sql, is_refused) in [
        ("INSERT INTO r VALUES ($1, $1 + 5000)", true),
        ("INSERT INTO r VALUES ($1, $1 + 1)", false),
        ("UPDATE r SET o = o + 5000 WHERE id = $1", true),
        ("UPDATE r SET o = o + 1 WHERE id = $1", false),
        ("DELETE FROM o WHERE id = $1 + 2", true),
        ("DELETE FROM r WHERE id = $1", false),
        ("DELETE FROM o WHERE id = $1 + 2", false),
    ] {
        bind(&mut bench, &mut session, sql);
        let mut out = Answer::default();
        let executed = bench.turn(|home| session.execute(home, "", None, &mut out));
        match executed {
            Err(Pause::Error(error)) => {
                assert!(is_refused, "{sql}: {}", error.message());
                assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION, "{sql}");
            }
            executed => assert!(!is_refused && executed.is_ok(), "{sql}"),
        }
        bench.turn(|home| session.sync(home, &mut out)).unwrap();
    }
}
