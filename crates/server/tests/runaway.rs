//! Statements that run away: rules are kept, and act on what runs, waits, streams or has just ended.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base::SqlState;
use pgproto::client;
use sql::session::{AnalyticEvent, AnalyticRequest, QueryControl};
use support::{Client, TestServer, eventually};

/// A statement of the point path that would hold its worker for hours, in one turn and without memory.
const LONG_TURN: &str = "INSERT INTO t SELECT x FROM generate_series(1, 1000000) AS a(x), \
                         generate_series(1, 1000000) AS b(y) WHERE x = -y";
/// Reads 3,000 rows again and again.
const LONG_READ: &str =
    "INSERT INTO t SELECT a.id FROM t AS a, t AS b, t AS c, t AS d WHERE a.id + b.id + c.id + d.id < 0";
/// A query that no point plan answers.
const ANALYTIC: &str = "SELECT relname FROM pg_class";

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Reads a thousand rows a millisecond, and keeps its processor busy meanwhile.
fn never_ends(_: AnalyticRequest, control: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    RUNNING.fetch_add(1, Ordering::SeqCst);
    while !control.is_cancelled() {
        control.add_rows_read(1000);
        control.add_ios(1);
        let spin = AtomicBool::new(true);
        (0..100_000).for_each(|_| spin.store(false, Ordering::SeqCst));
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    say(AnalyticEvent::Done(Ok(())));
}

/// Has read 5,000 rows before anybody could look.
fn ends_at_once(_: AnalyticRequest, control: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    control.add_rows_read(5000);
    say(AnalyticEvent::Done(Ok(())));
}

fn with_rows(server: &TestServer) -> Client {
    server.create_tenant("acme");
    let mut owner = owner(server);
    owner.ok("CREATE TABLE t (id int, v int DEFAULT 0)");
    owner.ok("INSERT INTO t SELECT x FROM generate_series(1, 3000) AS s(x)");
    owner
}

fn owner(server: &TestServer) -> Client {
    server.connect("acme", "acme", "pw").expect("its owner may enter")
}

#[track_caller]
fn ended(client: &mut Client, rule: &str, took: &str) {
    let error = client.answer().error.expect("it runs away");
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert_eq!(error.message, format!("canceling statement due to runaway rule \"{rule}\""));
    assert!(error.detail.starts_with("It took ") && error.detail.contains(took), "{}", error.detail);
    assert!(client.is_alive());
}

fn acted(admin: &mut Client, rule: &str) -> u64 {
    admin.shown("SHOW RUNAWAY RULES").value(rule, "acted").expect("a count").parse().expect("a number")
}

#[test]
fn rules_are_made_shown_altered_kept_and_dropped() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE RUNAWAY RULE long AS (elapsed = '5s', action = 'cancel')");
    admin.ok("CREATE RUNAWAY RULE \"Big reads\" FOR TENANT acme AS (rows = 1000000, io = 10000, cpu = 2000)");
    let check = |admin: &mut Client| {
        let shown = admin.shown("SHOW RUNAWAY RULES");
        assert_eq!(shown.names(), ["long", "Big reads"], "in the order they were made");
        let of = |rule: &str| {
            ["tenant", "elapsed", "cpu", "rows", "io", "action", "acted"]
                .map(|column| shown.value(rule, column).unwrap_or("-").to_owned())
        };
        assert_eq!(of("long"), ["-", "6s", "-", "-", "-", "log", "0"]);
        assert_eq!(of("Big reads"), ["firm", "-", "2s", "1000000", "-", "deprioritise", "0"]);
    };
    admin.ok("ALTER RUNAWAY RULE long SET (elapsed = '6s')");
    admin.ok("ALTER RUNAWAY RULE long RESET (action)");
    admin.ok("ALTER RUNAWAY RULE \"Big reads\" SET (io = none, action = deprioritise)");
    admin.ok("ALTER TENANT acme RENAME TO firm");
    check(&mut admin);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    check(&mut admin);
    assert_eq!(
        admin.tells("CREATE RUNAWAY RULE IF NOT EXISTS long AS (rows = 1)"),
        ["NOTICE: runaway rule \"long\" already exists, skipping"]
    );
    check(&mut admin);
    // What is about a tenant alone is dropped with it.
    admin.ok("DROP TENANT firm");
    assert_eq!(admin.shown("SHOW RUNAWAY RULES").names(), ["long"]);
    admin.ok("DROP RUNAWAY RULE long");
    assert_eq!(
        admin.tells("DROP RUNAWAY RULE IF EXISTS long"),
        ["NOTICE: runaway rule \"long\" does not exist, skipping"]
    );
    let server = server.restart();
    assert!(server.admin("rowhouse").shown("SHOW RUNAWAY RULES").names().is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE RUNAWAY RULE there AS (rows = 5)");
    let long_name = "x".repeat(64);
    for (statement, state) in [
        ("CREATE RUNAWAY RULE there AS (rows = 6)", SqlState::DUPLICATE_OBJECT),
        ("CREATE RUNAWAY RULE r AS (colour = 'red')", SqlState::UNDEFINED_OBJECT),
        ("CREATE RUNAWAY RULE r AS (action = 'cancel')", SqlState::INVALID_PARAMETER_VALUE),
        ("CREATE RUNAWAY RULE r AS (rows = 0)", SqlState::INVALID_PARAMETER_VALUE),
        ("CREATE RUNAWAY RULE r AS (rows = -1)", SqlState::INVALID_PARAMETER_VALUE),
        ("CREATE RUNAWAY RULE r AS (elapsed = 'soon')", SqlState::INVALID_PARAMETER_VALUE),
        ("CREATE RUNAWAY RULE r AS (elapsed = 0)", SqlState::INVALID_PARAMETER_VALUE),
        ("CREATE RUNAWAY RULE r AS (rows = 1, action = 'kill')", SqlState::INVALID_PARAMETER_VALUE),
        ("CREATE RUNAWAY RULE r FOR TENANT nobody AS (rows = 1)", SqlState::INVALID_CATALOG_NAME),
        ("CREATE RUNAWAY RULE r FOR TENANT system AS (rows = 1)", SqlState::INSUFFICIENT_PRIVILEGE),
        ("CREATE RUNAWAY RULE \"\" AS (rows = 1)", SqlState::INVALID_NAME),
        (&format!("CREATE RUNAWAY RULE \"{long_name}\" AS (rows = 1)"), SqlState::INVALID_NAME),
        ("ALTER RUNAWAY RULE there RESET (rows)", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER RUNAWAY RULE there SET (io = 'many')", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER RUNAWAY RULE there RESET (colour)", SqlState::UNDEFINED_OBJECT),
        ("ALTER RUNAWAY RULE r SET (rows = 1)", SqlState::UNDEFINED_OBJECT),
        ("DROP RUNAWAY RULE r", SqlState::UNDEFINED_OBJECT),
    ] {
        let error = admin.query(statement).error.unwrap_or_else(|| panic!("{statement} went through"));
        assert_eq!(error.state, state, "{statement}: {}", error.message);
    }
    let mut tenant = owner(&server);
    for statement in [
        "CREATE RUNAWAY RULE mine AS (rows = 1)",
        "ALTER RUNAWAY RULE there SET (rows = 100)",
        "DROP RUNAWAY RULE there",
        "SHOW RUNAWAY RULES",
    ] {
        assert_eq!(tenant.fails(statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
    }
    admin.ok("BEGIN");
    assert_eq!(admin.fails("DROP RUNAWAY RULE there"), SqlState::ACTIVE_SQL_TRANSACTION);
    admin.ok("ROLLBACK");
    for n in 1..64 {
        admin.ok(&format!("CREATE RUNAWAY RULE r{n} AS (rows = 1000000)"));
    }
    assert_eq!(admin.fails("CREATE RUNAWAY RULE r64 AS (rows = 1)"), SqlState::PROGRAM_LIMIT_EXCEEDED);
    let shown = admin.shown("SHOW RUNAWAY RULES");
    assert_eq!((shown.names().len(), shown.value("there", "rows")), (64, Some("5")));
}

#[test]
fn a_statement_is_ended_by_what_it_took_where_it_runs_waits_or_streams() {
    let server = TestServer::with(|config| config.analytic = Some(never_ends));
    let mut owner = with_rows(&server);
    let mut holder = server.admin("acme");
    holder.ok("CREATE TABLE locked (id int); GRANT ALL ON locked TO acme");
    holder.ok("BEGIN; LOCK TABLE locked");
    let mut admin = server.admin("rowhouse");
    for (rule, took, statements) in [
        (
            "elapsed = '100ms'",
            "s elapsed, more than 0.100 s",
            &["SELECT pg_sleep(30000)", LONG_TURN, "COPY t FROM STDIN", "LOCK TABLE locked", ANALYTIC][..],
        ),
        ("cpu = '50ms'", "s of processor time, more than 0.050 s", &[LONG_TURN, ANALYTIC]),
        ("rows = 50000", " rows, more than 50000", &[LONG_READ, ANALYTIC]),
        ("io = 20", " I/Os, more than 20", &[ANALYTIC]),
    ] {
        admin.ok(&format!("CREATE RUNAWAY RULE r FOR TENANT acme AS ({rule}, action = 'cancel')"));
        for (n, statement) in statements.iter().enumerate() {
            owner.ok("BEGIN");
            owner.start_query(statement);
            if statement.starts_with("COPY") {
                let mut row = Vec::new();
                client::copy_data(&mut row, b"1\t2\n");
                owner.send(&row);
            }
            let error = owner.answer().error.unwrap_or_else(|| panic!("{rule}: {statement} ended"));
            assert_eq!(error.message, "canceling statement due to runaway rule \"r\"", "{rule}: {statement}");
            assert!(error.detail.contains(took), "{statement}: {}", error.detail);
            owner.ok("ROLLBACK");
            assert_eq!(acted(&mut admin, "r"), n as u64 + 1, "once a statement");
        }
        admin.ok("DROP RUNAWAY RULE r");
    }
    eventually("the engine's end", || RUNNING.load(Ordering::SeqCst) == 0);
    assert_eq!(owner.ok("SELECT count(*) FROM t"), [[Some("3000".to_owned())]]);
}

#[test]
fn a_statement_that_ends_in_one_turn_is_held_to_exactly_its_rows() {
    let server = TestServer::with(|config| config.analytic = Some(ends_at_once));
    let mut owner = with_rows(&server);
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE RUNAWAY RULE r AS (rows = 100, action = 'cancel')");
    owner.ok("SELECT v FROM t LIMIT 100");
    owner.start_query("SELECT v FROM t LIMIT 101");
    ended(&mut owner, "r", "It took 101 rows, more than 100.");
    // What it changed is gone, in a block and outside of one.
    let update = "UPDATE t SET v = 1 WHERE id <= 50";
    owner.start_query(update);
    ended(&mut owner, "r", " rows, more than 100.");
    owner.ok("BEGIN");
    assert_eq!(owner.fails(update), SqlState::QUERY_CANCELED);
    assert_eq!(owner.fails("SELECT 1"), SqlState::IN_FAILED_SQL_TRANSACTION);
    owner.ok("ROLLBACK");
    // A statement has its own rows, whatever went before it in the script or the transaction.
    owner.ok(&"SELECT v FROM t LIMIT 100;".repeat(3));
    assert_eq!(
        owner.fails(&format!("SELECT v FROM t LIMIT 100; {update}; SELECT 1")),
        SqlState::QUERY_CANCELED
    );
    assert_eq!(
        owner.fails(ANALYTIC),
        SqlState::QUERY_CANCELED,
        "an engine that nobody could look at in time"
    );
    // Rows of a COPY are rows it takes in.
    let copy = |owner: &mut Client, rows: usize| {
        owner.start_query("COPY t (id) FROM STDIN");
        let mut data = Vec::new();
        client::copy_data(&mut data, "7\n".repeat(rows).as_bytes());
        client::copy_done(&mut data);
        owner.send(&data);
        owner.answer().error.map(|error| error.state)
    };
    assert_eq!(copy(&mut owner, 100), None);
    assert_eq!(copy(&mut owner, 101), Some(SqlState::QUERY_CANCELED));
    // A portal's rows are its statement's.
    let mut bound = Vec::new();
    client::parse(&mut bound, "", "SELECT v FROM t LIMIT 101", &[]);
    client::bind(&mut bound, "", "", &[], &[], &[]);
    client::execute(&mut bound, "", 10);
    // Not the Sync at once: then no more than those would be looked for.
    client::flush(&mut bound);
    client::sync(&mut bound);
    owner.send(&bound);
    ended(&mut owner, "r", "101 rows");
    // Others: the administrator is judged by no rule, and another tenant not by one about this.
    let count = "SELECT count(*), sum(v) FROM t";
    assert_eq!(server.admin("acme").ok(count), [[Some("3100".to_owned()), Some("0".to_owned())]]);
    admin.ok("CREATE RUNAWAY RULE other AS (rows = 100); DROP RUNAWAY RULE r");
    owner.ok(count);
    assert_eq!(acted(&mut admin, "other"), 1, "it logs, and does no more");
}

#[test]
fn a_rule_set_while_a_statement_runs_acts_on_it() {
    let server = TestServer::with(|config| config.analytic = Some(never_ends));
    let mut owner = with_rows(&server);
    let mut admin = server.admin("rowhouse");
    for (statement, rule) in [
        ("SELECT pg_sleep(30000)", "elapsed = 1"),
        (LONG_TURN, "elapsed = 1"),
        (LONG_READ, "rows = 1"),
        (ANALYTIC, "cpu = 1"),
        (ANALYTIC, "rows = 1"),
    ] {
        owner.start_query(statement);
        std::thread::park_timeout(Duration::from_millis(50));
        admin.ok(&format!("CREATE RUNAWAY RULE late AS ({rule}, action = 'cancel')"));
        let error = owner.answer().error.unwrap_or_else(|| panic!("{statement} ended"));
        assert_eq!(error.message, "canceling statement due to runaway rule \"late\"", "{statement}");
        admin.ok("DROP RUNAWAY RULE late");
    }
    // One that logs may come to cancel, and acts anew.
    admin.ok("CREATE RUNAWAY RULE late AS (elapsed = 1, action = 'log')");
    owner.start_query("SELECT pg_sleep(30000)");
    eventually("the rule acts", || acted(&mut admin, "late") == 1);
    admin.ok("ALTER RUNAWAY RULE late SET (action = 'cancel')");
    ended(&mut owner, "late", "elapsed");
    assert_eq!(acted(&mut admin, "late"), 2);
}

#[test]
fn a_deprioritised_statement_waits_for_its_tenants_others_and_only_that_one() {
    let server = TestServer::with(|config| config.workers = Some(1));
    let mut owner = with_rows(&server);
    let mut admin = server.admin("rowhouse");
    owner.ok("CREATE TABLE big (id int, v int DEFAULT 0)");
    owner.ok("INSERT INTO big SELECT x FROM generate_series(1, 8000) AS s(x)");
    admin.ok("CREATE RUNAWAY RULE r FOR TENANT acme AS (rows = 5000, action = 'deprioritise')");
    // In slices, so that it gives way.
    owner.start_query("UPDATE big SET v = 1");
    eventually("the rule acts", || acted(&mut admin, "r") == 1);
    let mut other = self::owner(&server);
    assert_eq!(other.ok("SELECT count(*) FROM t WHERE v = 0"), [[Some("3000".to_owned())]]);
    assert_eq!(owner.answer().error, None, "it comes to its end");
    assert_eq!(owner.ok("SELECT count(*) FROM t WHERE v = 0"), [[Some("3000".to_owned())]]);
    assert_eq!(acted(&mut admin, "r"), 1, "the next statement is another one");
}
