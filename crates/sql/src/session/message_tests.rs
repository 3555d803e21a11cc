//! Single messages: what their transaction keeps others from while it waits for the next one, and portals that have run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{SessionId, SqlError, SqlState};
use env::sim::World;

use super::prepared::PortalRows;
use super::stand_in::{Answer, LoneHost};
use super::testing::{Bench, OwnAnswers};
use super::{BackendSignals, Bind, Executed, Home, Pause, Session, Underway};

pub(super) const BIND: Bind<'static> =
    Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
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
fn a_portal_that_fails_behind_its_sleep_spares_nobody_elses() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (0, 'zero')");
    let mut out = Answer::default();
    bench.turn(|home| {
        one.parse(home, "", "SELECT pg_sleep(5), 1 / id FROM t", &[], &mut out).unwrap();
        one.bind(home, BIND, &mut out).unwrap();
        assert!(matches!(one.execute(home, "", Some(1), &mut out), Err(Pause::Sleep(_))));
        // As if it had slept.
        one.sleeps.until = Some(base::Nanos(0));
        let Err(Pause::Error(error)) = one.execute(home, "", Some(1), &mut out) else { panic!("1 / 0") };
        assert_eq!(error.state(), SqlState::DIVISION_BY_ZERO);
        one.sync(home, &mut out).unwrap();
    });
    assert!(matches!(bench.try_run(&mut one, "SELECT pg_sleep(5)"), Err(Pause::Sleep(_))));
}

/// Another session, which answers the first signal alone; how many it was sent.
#[derive(Default)]
struct Signalled(AtomicUsize);

impl BackendSignals for Signalled {
    fn user(&self, _: SessionId) -> Option<String> {
        Some("owner".to_owned())
    }
    fn cancel(&self, _: SessionId) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }
    fn terminate(&self, pid: SessionId) -> bool {
        self.cancel(pid)
    }
}

struct SignalHost {
    lone: LoneHost,
    other: Arc<Signalled>,
}

impl OwnAnswers for SignalHost {
    fn lone(&self) -> &LoneHost {
        &self.lone
    }
    fn signals(&self) -> Arc<dyn BackendSignals> {
        self.other.clone()
    }
}

#[test]
fn a_statement_that_is_run_again_signals_nobody_again() {
    let (mut bench, _, _) = table();
    for call in ["pg_cancel_backend(7)", "pg_terminate_backend(7)"] {
        let other = Arc::new(Signalled::default());
        let host = SignalHost { lone: LoneHost(World::new(7).env()), other: other.clone() };
        let mut one = bench.session_from(Arc::new(host));
        let sql = format!("SELECT {call}, pg_sleep(5)");
        assert!(matches!(bench.try_run(&mut one, &sql), Err(Pause::Sleep(_))));
        // As if it had slept.
        one.sleeps.until = Some(base::Nanos(0));
        let lines = bench.run(&mut one, &sql).lines();
        assert!(lines.len() == 1 && lines[0].starts_with('t'), "{lines:?}");
        assert_eq!(other.0.load(Ordering::Relaxed), 1, "{call}");
        assert_eq!(bench.run(&mut one, &format!("SELECT {call}")).lines(), ["f"], "another statement's");
    }
}

#[test]
fn each_call_of_pg_sleep_sleeps() {
    let (mut bench, mut one, _) = table();
    for (sql, sleeps, seconds) in [
        ("SELECT pg_sleep(5), pg_sleep(0), pg_sleep(7)", 2, 12),
        ("SELECT pg_sleep(id) FROM (VALUES (1), (2), (3)) v (id)", 3, 6),
        ("SELECT pg_sleep(1) FROM generate_series(1, 100)", 65, 100),
        ("SELECT pg_sleep(0)", 0, 0),
    ] {
        let (mut met, mut slept) = (0, base::Nanos(0));
        while let Err(pause) = bench.try_run(&mut one, sql) {
            let Pause::Sleep(time) = pause else { panic!("{sql}: {pause:?}") };
            (met, slept) = (met + 1, slept + time);
            // As if it had slept.
            one.sleeps.until = Some(base::Nanos(0));
        }
        assert_eq!((met, slept), (sleeps, base::Nanos::from_secs(seconds)), "{sql}");
    }
}

#[test]
fn a_portal_that_has_run_yields_no_more_rows_and_runs_no_more() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    bench.run(&mut one, "PREPARE q AS SELECT id FROM t");
    bench.run(&mut one, "PREPARE r AS DELETE FROM t WHERE id = 5 RETURNING id");
    bench.run(&mut one, "PREPARE i AS INSERT INTO t VALUES (4, 'four')");
    for (sql, tags) in [
        ("SELECT id FROM t ORDER BY id", ["SELECT 2", "SELECT 0"]),
        ("INSERT INTO t VALUES (3, 'three') RETURNING id", ["INSERT 0 1", "INSERT 0 0"]),
        ("DELETE FROM t WHERE id = 3 RETURNING id", ["DELETE 1", "DELETE 0"]),
        ("EXECUTE q", ["SELECT 2", "SELECT 0"]),
        ("EXECUTE r", ["DELETE 0", "DELETE 0"]),
        ("SHOW search_path", ["SHOW", "SHOW"]),
        ("EXPLAIN SELECT 1", ["EXPLAIN", "EXPLAIN"]),
    ] {
        let (told, error) = executed_twice(&mut bench, &mut one, sql, None);
        assert_eq!((told, error), (tags.map(str::to_owned).to_vec(), None), "{sql}");
    }
    let insert = "INSERT INTO t VALUES (4, 'four')";
    for (sql, rows_max) in [(insert, None), (insert, Some(1)), ("EXECUTE i", None)] {
        let (told, error) = executed_twice(&mut bench, &mut one, sql, rows_max);
        assert_eq!(told, ["INSERT 0 1"], "a limit of rows is of those that a statement yields");
        let error = error.expect("it cannot be run again");
        assert_eq!(error.state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        assert_eq!(error.message(), "portal \"p\" cannot be run");
        assert_eq!(bench.run(&mut one, "SELECT id FROM t ORDER BY id").lines(), ["1", "2"], "and is undone");
    }
    bench.run(&mut one, "BEGIN; DECLARE c CURSOR FOR SELECT id FROM t");
    let (told, error) = executed_twice(&mut bench, &mut one, "FETCH 1 FROM c", None);
    assert_eq!((told, error), (vec!["FETCH 1".to_owned(), "FETCH 0".to_owned()], None));
    assert_eq!(bench.run(&mut one, "FETCH 1 FROM c").lines(), ["2"], "it has gone no further");
    bench.run(&mut one, "ROLLBACK");
}

/// Binds a statement to the portal `p`.
pub(super) fn bind(home: &mut Home<'_>, session: &mut Session, sql: &str, out: &mut Answer) {
    let bind =
        Bind { portal: "p", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
    session.parse(home, "", sql, &[], out).unwrap();
    session.bind(home, bind, out).unwrap();
}

/// The state of an Execute that fails.
fn refused(executed: Result<Executed, Pause>) -> SqlState {
    match executed {
        Err(Pause::Error(error)) => error.state(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_portal_that_was_bound_and_not_run_goes_with_the_next_sync() {
    let (mut bench, mut one, _) = table();
    let mut out = Answer::default();
    bench.turn(|home| {
        // Its name is free again each time.
        for _ in 0..2 {
            bind(home, &mut one, "SELECT 1", &mut out);
            one.sync(home, &mut out).unwrap();
        }
        assert_eq!(refused(one.execute(home, "p", None, &mut out)), SqlState::INVALID_CURSOR_NAME);
        one.sync(home, &mut out).unwrap();
    });
    bench.run(&mut one, "DECLARE h CURSOR WITH HOLD FOR SELECT 1");
    bench.run(&mut one, "BEGIN");
    bench.turn(|home| {
        bind(home, &mut one, "SELECT 1", &mut out);
        one.sync(home, &mut out).unwrap();
        one.execute(home, "p", None, &mut out).unwrap();
    });
    bench.run(&mut one, "ROLLBACK");
    bench.turn(|home| one.sync(home, &mut out)).unwrap();
    assert_eq!(bench.run(&mut one, "FETCH h").lines(), ["1"]);
}

#[test]
fn a_portal_that_waited_for_a_lock_gives_the_columns_that_were_told_or_none() {
    let change = "ALTER TABLE t ADD COLUMN more int";
    for (rows_max, change, is_refused) in [
        (None, change, true),
        (Some(5), change, true),
        (None, "ALTER TABLE t ADD CHECK (id > 0)", false),
        (Some(5), "ALTER TABLE t ADD CHECK (id > 0)", false),
    ] {
        let (mut bench, mut one, mut other) = table();
        bench.run(&mut one, "INSERT INTO t VALUES (1, 'one')");
        bench.run(&mut one, "BEGIN");
        bench.run(&mut one, change);
        let mut out = Answer::default();
        bench.turn(|home| {
            bind(home, &mut other, "SELECT * FROM t", &mut out);
            other.describe_portal(home, "p", &mut out).unwrap();
            assert_eq!(out.fields.len(), 2);
            assert!(matches!(other.execute(home, "p", rows_max, &mut out), Err(Pause::Lock(_))));
        });
        bench.run(&mut one, "COMMIT");
        let executed = bench.turn(|home| other.execute(home, "p", rows_max, &mut out));
        if is_refused {
            assert_eq!(refused(executed), SqlState::FEATURE_NOT_SUPPORTED);
            assert!(out.rows.is_empty());
        } else {
            executed.unwrap();
            assert_eq!(out.lines(), ["1|one"]);
        }
    }
}

#[test]
fn a_suspended_portal_gives_no_rows_in_a_failed_block_and_goes_on_once_that_is_mended() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two'); BEGIN");
    let mut out = Answer::default();
    let execute = |bench: &mut Bench, one: &mut Session, out: &mut Answer| {
        bench.turn(|home| one.execute(home, "p", Some(1), out))
    };
    bench.turn(|home| bind(home, &mut one, "SELECT id FROM t ORDER BY id", &mut out));
    execute(&mut bench, &mut one, &mut out).unwrap();
    bench.run(&mut one, "SAVEPOINT a");
    bench.fail(&mut one, "SELECT nothing");
    assert_eq!(refused(execute(&mut bench, &mut one, &mut out)), SqlState::IN_FAILED_SQL_TRANSACTION);
    assert_eq!(out.lines(), ["1"]);
    bench.run(&mut one, "ROLLBACK TO a");
    execute(&mut bench, &mut one, &mut out).unwrap();
    assert_eq!(out.lines(), ["1", "2"]);
}

#[test]
fn parameters_keep_the_types_that_a_client_was_told() {
    // Of timestamps, with zone or without.
    let noon = ((8766 * 24 + 12) * 3_600_000_000_i64).to_be_bytes();
    let (texts, binary) = ([&b"2024-01-01 12:00"[..], b"7"].map(Some), [&noon[..], &[0, 0, 0, 7]].map(Some));
    // Its plan is made anew, after it was let go of, or with its text read again.
    for let_go in ["", "DISCARD PLANS", "shed"] {
        let (mut bench, mut one, _) = table();
        bench.run(&mut one, "CREATE TABLE ev (at timestamp, n int); SET TimeZone = 'Europe/Berlin'");
        let mut out = Answer::default();
        let insert = "INSERT INTO ev VALUES ($1, $2)";
        bench.turn(|home| one.parse(home, "p", insert, &[], &mut out)).unwrap();
        bench.run(&mut one, &format!("PREPARE q AS {insert}"));
        match let_go {
            "shed" => assert!(one.statements.shed_named()),
            let_go => drop(bench.run(&mut one, let_go)),
        }
        bench.run(&mut one, "ALTER TABLE ev ALTER at TYPE timestamptz, ALTER n TYPE bigint");
        for (parameters, parameter_formats) in [(&texts, &[][..]), (&binary, &[1])] {
            bench.turn(|home| {
                let bind =
                    Bind { portal: "", statement: "p", parameter_formats, parameters, result_formats: &[] };
                one.bind(home, bind, &mut out).unwrap();
                one.execute(home, "", None, &mut out).unwrap();
                one.sync(home, &mut out).unwrap();
            });
        }
        bench.run(&mut one, "EXECUTE q('2024-01-01 12:00', '7')");
        let stored = "2024-01-01 12:00:00+01|7";
        assert_eq!(bench.run(&mut one, "SELECT * FROM ev").lines(), [stored; 3], "{let_go}");
    }
}

#[test]
fn a_suspended_portal_gives_the_rows_that_it_began_with_whatever_its_names_mean_by_now() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "CREATE SCHEMA s; CREATE TABLE s.t (other int)");
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three'); BEGIN");
    let mut out = Answer::default();
    bench.turn(|home| bind(home, &mut one, "SELECT * FROM t ORDER BY id", &mut out));
    for change in ["SET search_path = s", "SET search_path = nowhere", "DROP TABLE s.t"] {
        bench.turn(|home| one.execute(home, "p", Some(1), &mut out)).unwrap();
        bench.run(&mut one, change);
    }
    bench.turn(|home| one.execute(home, "p", Some(1), &mut out)).unwrap();
    assert_eq!(out.lines(), ["1|one", "2|two", "3|three"]);
    bench.run(&mut one, "ROLLBACK");
}

#[test]
fn an_execute_gives_as_many_rows_as_are_wanted_at_a_time() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')");
    bench.run(&mut one, "PREPARE q (int) AS SELECT id FROM t WHERE id > $1 ORDER BY id");
    bench.run(&mut one, "PREPARE d AS DELETE FROM t WHERE id = 3");
    let mut out = Answer::default();
    bench.turn(|home| {
        bind(home, &mut one, "EXECUTE q (0)", &mut out);
        one.execute(home, "p", Some(2), &mut out).unwrap();
    });
    assert_eq!((out.lines(), out.tags.len()), (vec!["1".to_owned(), "2".to_owned()], 0));
    bench.turn(|home| {
        one.execute(home, "p", None, &mut out).unwrap();
        one.sync(home, &mut out).unwrap();
        // What yields no rows runs to its end, whatever the limit.
        bind(home, &mut one, "EXECUTE d", &mut out);
        one.execute(home, "p", Some(1), &mut out).unwrap();
        one.sync(home, &mut out).unwrap();
    });
    assert_eq!(out.lines(), ["1", "2", "3"]);
    assert_eq!(out.tags, ["SELECT 1", "DELETE 1"]);
}

#[test]
fn a_begin_that_fails_behind_other_statements_begins_nothing() {
    let (mut bench, mut one, _) = table();
    for modes in ["ISOLATION LEVEL SERIALIZABLE", "DEFERRABLE"] {
        let error = bench.fail(&mut one, &format!("INSERT INTO t VALUES (1, 'one'); BEGIN {modes}"));
        assert_eq!(error.state(), SqlState::ACTIVE_SQL_TRANSACTION);
        assert_eq!(one.transaction_status(), b'I', "{modes}");
        assert_eq!(bench.run(&mut one, "SELECT count(*) FROM t").lines(), ["0"]);
    }
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'); BEGIN READ ONLY");
    assert_eq!(one.transaction_status(), b'T');
    bench.run(&mut one, "ROLLBACK");
    // It goes on with the transaction that there is, whose isolation was chosen.
    for (before, level) in [
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "serializable"),
        ("SET default_transaction_isolation = serializable", "read committed"),
    ] {
        bench.run(&mut one, &format!("{before}; BEGIN"));
        assert_eq!(bench.run(&mut one, "SHOW transaction_isolation").lines(), [level], "{before}");
        bench.run(&mut one, "ROLLBACK");
    }
}

#[test]
fn a_begin_within_a_block_says_what_the_block_is() {
    let (mut bench, mut one, _) = table();
    let told = bench.run(&mut one, "BEGIN; BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY");
    assert_eq!(told.notices(), ["there is already a transaction in progress"]);
    assert_eq!(bench.run(&mut one, "SHOW transaction_isolation").lines(), ["serializable"]);
    assert_eq!(bench.fail(&mut one, INSERT).state(), SqlState::READ_ONLY_SQL_TRANSACTION);
    bench.run(&mut one, "ROLLBACK; BEGIN; SELECT 1; BEGIN");
    let error = bench.fail(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(error.state(), SqlState::ACTIVE_SQL_TRANSACTION);
    assert_eq!(one.transaction_status(), b'E');
    bench.run(&mut one, "ROLLBACK");
}

#[test]
fn a_table_is_locked_for_the_rest_of_its_query() {
    let (mut bench, mut one, mut other) = table();
    bench.run(&mut one, "LOCK TABLE t; INSERT INTO t VALUES (1, 'one')");
    assert_eq!(bench.fail(&mut one, "LOCK TABLE t").state(), SqlState::NO_ACTIVE_SQL_TRANSACTION);
    bench.run(&mut other, "BEGIN; LOCK TABLE t");
    let waits = bench.try_run(&mut one, "SELECT 1; LOCK TABLE t; INSERT INTO t VALUES (2, 'two')");
    assert!(matches!(waits, Err(Pause::Lock(_))));
}

#[test]
fn rows_of_a_binary_cursor_have_the_form_that_a_bind_wants() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "BEGIN; DECLARE c BINARY CURSOR FOR SELECT * FROM (VALUES (7), (8), (9)) v");
    let mut out = Answer::default();
    for formats in [&[][..], &[1]] {
        let bind = Bind {
            portal: "",
            statement: "",
            parameter_formats: &[],
            parameters: &[],
            result_formats: formats,
        };
        bench.turn(|home| {
            one.parse(home, "", "FETCH c", &[], &mut out).unwrap();
            one.bind(home, bind, &mut out).unwrap();
            one.execute(home, "", None, &mut out).unwrap();
        });
    }
    assert_eq!(out.lines(), ["7", "\0\0\0\u{8}"]);
    assert_eq!(bench.run(&mut one, "FETCH c").lines(), ["\0\0\0\u{9}"]);
}

#[test]
fn a_cursor_may_have_the_name_of_the_portal_that_declares_it() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "BEGIN");
    let (tags, error) =
        executed_twice(&mut bench, &mut one, "DECLARE p CURSOR FOR SELECT * FROM (VALUES (7)) v", None);
    assert_eq!((tags, error), (vec!["DECLARE CURSOR".to_owned(), "SELECT 1".to_owned()], None));
    bench.run(&mut one, "ROLLBACK");
}

#[test]
fn no_more_rows_are_found_than_a_portal_can_give_before_its_transaction_ends() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')");
    let (select, update) = ("SELECT id FROM t ORDER BY id", "UPDATE t SET id = id RETURNING id");
    for (begin, sync_follows, sql, expected) in [
        ("SELECT 1", true, select, 2),
        ("SELECT 1", false, select, 3),
        ("BEGIN", true, select, 3),
        ("SELECT 1", true, update, 3),
    ] {
        bench.run(&mut one, begin);
        let mut out = Answer::default();
        bench.turn(|home| {
            bind(home, &mut one, sql, &mut out);
            one.note_sync_follows(sync_follows);
            one.execute(home, "p", Some(2), &mut out).unwrap();
        });
        let found = match one.portals.get("p").map(|portal| &portal.rows) {
            Some(PortalRows::Kept(kept)) => kept.rows.len(),
            rows => panic!("{rows:?}"),
        };
        assert_eq!((out.lines().len(), found), (2, expected), "{begin} {sync_follows} {sql}");
        assert!(out.tags.is_empty(), "it is suspended");
        bench.turn(|home| one.sync(home, &mut out)).unwrap();
        bench.run(&mut one, "ROLLBACK");
    }
    // A cursor has all.
    let mut out = Answer::default();
    bench.turn(|home| {
        bind(home, &mut one, "DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t", &mut out);
        one.note_sync_follows(true);
        one.execute(home, "p", Some(1), &mut out).unwrap();
        one.sync(home, &mut out).unwrap();
    });
    assert_eq!(bench.run(&mut one, "FETCH ALL h").lines().len(), 3);
}

/// A server that counts how often it is asked whether a statement is to end, and says once that it is.
struct AskedHost {
    lone: LoneHost,
    asked: AtomicUsize,
    yes_at: usize,
}

impl OwnAnswers for AskedHost {
    fn lone(&self) -> &LoneHost {
        &self.lone
    }
    fn is_to_end(&self, _: &Underway) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.yes_at
    }
}

#[test]
fn a_script_of_many_short_statements_is_looked_at_between_them() {
    let update = "UPDATE t SET by_whom = 'script' WHERE id = 1;";
    for is_cancelled in [false, true] {
        let (mut bench, mut one, mut other) = table();
        bench.run(&mut one, "INSERT INTO t VALUES (1, 'one')");
        let host = AskedHost { lone: LoneHost(World::new(7).env()), asked: AtomicUsize::new(0), yes_at: 50 };
        let host = Arc::new(host);
        let mut session = bench.session_from(host.clone());
        let script = update.repeat(100);
        assert!(matches!(bench.try_run(&mut session, &script), Err(Pause::Yield)));
        assert!(matches!(bench.try_run(&mut other, update), Err(Pause::Lock(_))), "others find its locks");
        let expected = if is_cancelled {
            let error = SqlError::new(SqlState::QUERY_CANCELED, "by the test");
            bench.turn(|home| session.fail(home, &error));
            "one"
        } else {
            assert_eq!(bench.run(&mut session, &script).tags.len(), 50);
            assert!(host.asked.load(Ordering::Relaxed) >= 99);
            "script"
        };
        assert_eq!(bench.run(&mut one, "SELECT by_whom FROM t").lines(), [expected]);
    }
}

#[test]
fn rows_made_by_the_session_itself_are_looked_at_while_they_are_sent() {
    let (mut bench, _, _) = table();
    let host = AskedHost { lone: LoneHost(World::new(7).env()), asked: AtomicUsize::new(0), yes_at: 0 };
    let host = Arc::new(host);
    let mut session = bench.session_from(host.clone());
    let mut asked_by = |statement: &str| {
        let before = host.asked.load(Ordering::Relaxed);
        let rows = bench.run(&mut session, statement).lines().len();
        (rows, host.asked.load(Ordering::Relaxed) - before)
    };
    let (_, by_one) = asked_by("SHOW work_mem");
    let (rows, by_all) = asked_by("SHOW ALL");
    assert!(rows >= 32 && by_all >= by_one + rows / 16, "{rows} rows, {by_all} looks, {by_one} for one");
}

#[test]
fn what_is_kept_by_names_is_bounded_and_fits_again_once_it_is_gone() {
    let (mut bench, mut one, _) = table();
    let mut out = Answer::default();
    let value = "x".repeat(1 << 20);
    let mut bind = |bench: &mut Bench, session: &mut Session, portal: &str| {
        let parameters = [Some(value.as_bytes())];
        let (portal, statement) = (portal, "s");
        let bind =
            Bind { portal, statement, parameter_formats: &[], parameters: &parameters, result_formats: &[] };
        bench.turn(|home| session.bind(home, bind, &mut out))
    };
    let is_full = |bound: Result<(), Pause>| match bound {
        Ok(()) => false,
        Err(Pause::Error(error)) => {
            assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED, "{error:?}");
            true
        }
        Err(pause) => panic!("{pause:?}"),
    };
    bench.run(&mut one, "PREPARE s AS SELECT id FROM t WHERE by_whom <> $1");
    for _ in 0..2 {
        bench.run(&mut one, "BEGIN");
        let count = (0..100).take_while(|i| !is_full(bind(&mut bench, &mut one, &format!("p{i}")))).count();
        assert_eq!(count, 63);
        bench.run(&mut one, "ROLLBACK");
    }
    // Taken out for its run and put back, or closed, it counts once, or no more.
    bench.run(&mut one, "BEGIN");
    for _ in 0..100 {
        let mut out = Answer::default();
        assert!(!is_full(bind(&mut bench, &mut one, "p")));
        bench.turn(|home| one.execute(home, "p", Some(1), &mut out)).unwrap();
        one.close_portal("p", &mut out);
        assert!(!is_full(bind(&mut bench, &mut one, "")));
    }
    bench.run(&mut one, "ROLLBACK");
    // Statements count by their texts.
    let long = format!("PREPARE l AS SELECT '{}'", "x".repeat(12 << 20));
    for _ in 0..3 {
        bench.run(&mut one, &long);
        assert!(is_full(match bench.try_run(&mut one, &long.replace("PREPARE l", "PREPARE m")) {
            Ok(_) => Ok(()),
            Err(pause) => Err(pause),
        }));
        bench.run(&mut one, "DEALLOCATE l");
    }
}

#[test]
fn a_copy_of_much_at_once_is_looked_at_while_its_rows_are_stored() {
    // Nothing of so few rows is poured, nor is there anything to pour of rows that are not taken.
    for copy in ["COPY t FROM STDIN", "COPY t FROM STDIN WHERE id < 0"] {
        let (mut bench, mut one, _) = table();
        let host = AskedHost { lone: LoneHost(World::new(7).env()), asked: AtomicUsize::new(0), yes_at: 2 };
        let mut session = bench.session_from(Arc::new(host));
        bench.run(&mut session, "BEGIN; SAVEPOINT s");
        let data: String = (1..=1000).map(|id| format!("{id}\tby {id}\n")).collect();
        let mut out = Answer::default();
        bench.turn(|home| {
            assert_eq!(session.query(home, copy, &mut out).unwrap(), Executed::CopyIn);
            assert!(matches!(session.copy_data(home, data.as_bytes()), Err(Pause::Yield)), "{copy}");
            session.copy_data(home, b"").unwrap();
            session.copy_done(home, &mut out).unwrap();
            session.query(home, copy, &mut out).unwrap();
        });
        bench.run(&mut session, "COMMIT");
        let taken = if copy.contains("WHERE") { "0" } else { "1000" };
        assert_eq!(out.tags, [format!("COPY {taken}")]);
        assert_eq!(bench.run(&mut one, "SELECT count(*) FROM t").lines(), [taken]);
    }
}

#[test]
fn a_cursor_gives_its_rows_to_an_execute_too() {
    let (mut bench, mut one, _) = table();
    bench.run(&mut one, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')");
    bench.run(&mut one, "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY id");
    assert_eq!(bench.run(&mut one, "FETCH 1 FROM c").lines(), ["1"]);
    let mut out = Answer::default();
    bench.turn(|home| {
        one.describe_portal(home, "c", &mut out).unwrap();
        for rows_max in [Some(1), None, None] {
            one.execute(home, "c", rows_max, &mut out).unwrap();
        }
    });
    assert_eq!((out.lines(), out.fields.len()), (vec!["2".to_owned(), "3".to_owned()], 1));
    assert_eq!(out.tags, ["SELECT 1", "SELECT 0"]);
    assert_eq!(bench.run(&mut one, "FETCH PRIOR FROM c").lines(), ["3"]);
    bench.run(&mut one, "COMMIT");
}

#[test]
fn many_constants_and_many_long_calls_in_a_row_are_looked_at_between_them() {
    let (mut bench, _, _) = table();
    let host = |yes_at| AskedHost { lone: LoneHost(World::new(7).env()), asked: AtomicUsize::new(0), yes_at };
    for (from, one) in [
        ("", "factorial(100)"),
        ("", "1e5000"),
        ("", "'1e5000'"),
        ("", "length(substring('aab' from '(a)'))"),
        (" FROM (VALUES (10, 'aab', '1e5000')) v (n, s, t)", "factorial(n)"),
        (" FROM (VALUES (10, 'aab', '1e5000')) v (n, s, t)", "t::numeric"),
        (" FROM (VALUES (10, 'aab', '1e5000')) v (n, s, t)", "length(substring(s from '(a)\\1'))"),
        (" FROM (VALUES (10, 'aab', '1e5000')) v (n, s, t)", "length(upper(repeat(s, 100000)))"),
        (" FROM (VALUES (10, 'aab', '1e5000')) v (n, s, t)", "n + length(current_schema()::text)"),
    ] {
        let sql = format!("SELECT 1{from} WHERE 5.5 IN ({})", vec![one; 100].join(", "));
        let counting = Arc::new(host(usize::MAX));
        let mut session = bench.session_from(counting.clone());
        assert!(bench.run(&mut session, &sql).lines().is_empty());
        assert!(counting.asked.load(Ordering::Relaxed) >= 25, "{one}: {:?}", counting.asked);
        if !from.is_empty() {
            let mut session = bench.session_from(Arc::new(host(20)));
            assert!(matches!(bench.try_run(&mut session, &sql), Err(Pause::Yield)), "{one}");
        }
    }
}

#[test]
fn parameters_that_are_many_or_long_are_looked_at_between_them() {
    let host = |yes_at| AskedHost { lone: LoneHost(World::new(7).env()), asked: AtomicUsize::new(0), yes_at };
    let long = "7".repeat(1 << 10);
    for (count, value) in [(30_000, "7"), (200, &*long)] {
        let (mut bench, _, _) = table();
        for yes_at in [usize::MAX, 5] {
            let host = Arc::new(host(yes_at));
            let mut session = bench.session_from(host.clone());
            let mut out = Answer::default();
            let oids = vec![1700; count];
            bench.turn(|home| session.parse(home, "", "SELECT 1", &oids, &mut out)).unwrap();
            host.asked.store(0, Ordering::Relaxed);
            let parameters = vec![Some(value.as_bytes()); count];
            let bind = Bind { parameters: &parameters, ..BIND };
            let bound = bench.turn(|home| session.bind(home, bind, &mut out));
            let asked = host.asked.load(Ordering::Relaxed);
            if yes_at == 5 {
                assert!(matches!(bound, Err(Pause::Yield)) && asked == 5, "{asked}");
                bench.turn(|home| session.bind(home, bind, &mut out)).unwrap();
            } else {
                bound.unwrap();
                assert!((12..500).contains(&asked), "{asked}");
            }
        }
    }
}

#[test]
fn a_statement_is_known_to_be_planned_until_the_catalog_changes() {
    let (mut bench, mut one, _) = table();
    let mut out = Answer::default();
    let is_planned =
        |bench: &mut Bench, one: &Session, name: &str| bench.turn(|home| one.is_planned(home, name));
    for (name, sql) in [("", "BEGIN"), ("p", "SELECT id FROM t WHERE id = $1"), ("empty", "")] {
        bench.turn(|home| one.parse(home, name, sql, &[], &mut out)).unwrap();
        assert!(is_planned(&mut bench, &one, name), "{sql}");
    }
    assert!(is_planned(&mut bench, &one, "nothing has this name"));
    bench.run(&mut one, "CREATE TABLE other (id int)");
    assert!(!is_planned(&mut bench, &one, "p"));
    let parameters = [Some(&b"7"[..])];
    let bind = Bind { portal: "c", statement: "p", parameters: &parameters, ..BIND };
    bench.turn(|home| one.bind(home, bind, &mut out)).unwrap();
    assert!(is_planned(&mut bench, &one, "p") && one.is_described("c"));
    bench.turn(|home| one.bind(home, Bind { statement: "empty", ..BIND }, &mut out)).unwrap();
    assert!(one.statements.shed_named());
    assert!(!is_planned(&mut bench, &one, "p") && is_planned(&mut bench, &one, "empty"));
}

#[test]
fn a_bind_of_what_is_planned_says_what_any_bind_does() {
    let (mut bench, mut one, _) = table();
    let mut out = Answer::default();
    let sql = "SELECT id, by_whom FROM t WHERE id = $1";
    bench.turn(|home| one.parse(home, "p", sql, &[], &mut out)).unwrap();
    let parameters = [Some(&b"7"[..])];
    let bind = Bind { statement: "p", parameters: &parameters, result_formats: &[0, 1], ..BIND };
    let mut soon = |bench: &mut Bench, one: &mut Session, bind: Bind<'_>| {
        bench.turn(|home| one.bind_soon(home, bind, &mut out)).map_err(|pause| match pause {
            Pause::Error(error) => error.state(),
            pause => panic!("{pause:?}"),
        })
    };
    assert_eq!(soon(&mut bench, &mut one, bind), Ok(true));
    let nothing = Bind { statement: "nothing has this name", ..bind };
    assert_eq!(soon(&mut bench, &mut one, nothing), Err(SqlState::INVALID_SQL_STATEMENT_NAME));
    let too_many = Bind { result_formats: &[0; 3], ..bind };
    assert_eq!(soon(&mut bench, &mut one, too_many), Err(SqlState::PROTOCOL_VIOLATION));
    bench.run(&mut one, "BEGIN");
    bench.fail(&mut one, "SELECT 1 / 0");
    assert_eq!(soon(&mut bench, &mut one, bind), Err(SqlState::IN_FAILED_SQL_TRANSACTION));
    bench.run(&mut one, "ROLLBACK");
    bench.run(&mut one, "CREATE TABLE other (id int)");
    assert_eq!(soon(&mut bench, &mut one, bind), Ok(false));
}

#[test]
fn parameters_that_grow_are_refused() {
    let (mut bench, mut one, _) = table();
    bench.run(
        &mut one,
        &format!(
            "PREPARE s AS SELECT 1 WHERE 5.5 IN ({})",
            (1..=1000).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
        ),
    );
    for (value, is_refused) in [(&b"1e20000"[..], false), (b"1e60000", true)] {
        let parameters = vec![Some(value); 1000];
        let bind = Bind {
            portal: "",
            statement: "s",
            parameter_formats: &[],
            parameters: &parameters,
            result_formats: &[],
        };
        let bound = bench.turn(|home| one.bind(home, bind, &mut Answer::default()));
        match bound {
            Ok(()) => assert!(!is_refused),
            Err(Pause::Error(error)) => {
                assert!(is_refused && error.state() == SqlState::PROGRAM_LIMIT_EXCEEDED, "{error:?}");
            }
            Err(pause) => panic!("{pause:?}"),
        }
    }
}

#[test]
fn a_statement_that_is_bound_again_runs_with_its_new_values_and_one_of_its_name_by_itself() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE k (id int PRIMARY KEY, n int)");
    bench.run(&mut session, "INSERT INTO k SELECT g, 2 * g FROM generate_series(1, 20) g");
    bench.run(&mut session, "BEGIN");
    let mut out = Answer::default();
    for (sql, value) in [
        (Some("SELECT id, n FROM k WHERE id = $1"), "7"),
        (None, "8"),
        (None, "9"),
        (Some("SELECT -id FROM k WHERE id = $1"), "10"),
        (None, "11"),
    ] {
        let parameters = [Some(value.as_bytes())];
        let bind = Bind { statement: "s", parameters: &parameters, ..BIND };
        bench.turn(|home| {
            if let Some(sql) = sql {
                session.close_statement("s", &mut out);
                session.parse(home, "s", sql, &[], &mut out).unwrap();
            }
            session.bind(home, bind, &mut out).unwrap();
            session.execute(home, "", None, &mut out).unwrap();
        });
    }
    assert_eq!(out.lines(), ["7|14", "8|16", "9|18", "-10", "-11"]);
    assert_eq!(bench.run(&mut session, "COMMIT").tags, ["COMMIT"]);
}
