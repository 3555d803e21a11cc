//! What statements take, counted by their texts: over the wire, as an analytical thread is shown it.

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use base::SqlState;
use pgproto::client;
use sql::session::{
    AnalyticEvent, AnalyticRequest, QueryControl, StatementFigures, StatementRow, UsageEntry,
};
use support::{Client, TestServer, eventually};

/// A query that no point plan answers: the engine looks at what is counted.
const LOOK: &str = "SELECT relname FROM pg_class";

type Seen = (Vec<StatementRow>, Vec<UsageEntry>);

static SEEN: Mutex<Seen> = Mutex::new((Vec::new(), Vec::new()));
/// Steps that a query goes on for after it was cancelled; each takes a nanosecond at least.
const UNHEARD: u64 = 50_000_000;
/// One test at a time looks.
static TURN: Mutex<()> = Mutex::new(());

fn looks(request: AnalyticRequest, control: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    if request.query.to_string().contains("pg_index") {
        // Computes until it is told to stop, and does not hear that at once.
        let mut left = UNHEARD;
        while left > 0 {
            left -= u64::from(control.is_cancelled());
        }
        say(AnalyticEvent::Done(Ok(())));
        return;
    }
    let ledger = &request.context.ledger;
    *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = (ledger.statements(), ledger.tenant_usage());
    say(AnalyticEvent::Done(Ok(())));
}

fn server() -> (TestServer, MutexGuard<'static, ()>) {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::with(|config| config.analytic = Some(looks));
    server.create_tenant("acme");
    (server, turn)
}

fn seen(client: &mut Client) -> Seen {
    client.ok(LOOK);
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn of(client: &mut Client, query: &str) -> StatementFigures {
    let (rows, _) = seen(client);
    let found = rows.iter().find(|row| row.query.as_deref() == Some(query));
    let texts: Vec<_> = rows.iter().map(|row| &row.query).collect();
    found.unwrap_or_else(|| panic!("{query} is not among {texts:?}")).figures
}

/// Parse, then so many times Bind, Execute and Sync.
fn run_prepared(owner: &mut Client, sql: &str, times: u64) {
    let mut out = Vec::new();
    client::parse(&mut out, "s", sql, &[]);
    client::sync(&mut out);
    owner.send(&out);
    assert_eq!(owner.answer().error, None);
    for n in 0..times {
        execute_prepared(owner, n.to_string().as_bytes());
    }
}

fn execute_prepared(owner: &mut Client, parameter: &[u8]) {
    let mut out = Vec::new();
    client::bind(&mut out, "", "s", &[], &[Some(parameter)], &[]);
    client::execute(&mut out, "", 0);
    client::sync(&mut out);
    owner.send(&out);
    assert_eq!(owner.answer().error, None);
}

#[test]
fn each_statement_counts_once_however_it_comes() {
    let (server, _turn) = server();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    // A simple Query of several, whose values differ.
    for n in 0..30 {
        owner.ok(&format!(
            "INSERT INTO t VALUES ({n}, 'one'), ({}, 'two'); SELECT v FROM t  WHERE id = {n}",
            n + 100
        ));
    }
    let insert = of(&mut owner, "INSERT INTO t VALUES ($1, $2), ($3, $4)");
    assert_eq!((insert.calls, insert.errors, insert.rows), (30, 0, 60));
    let select = of(&mut owner, "SELECT v FROM t WHERE id = $1");
    assert_eq!((select.calls, select.rows), (30, 30));
    assert!(select.time_min <= select.time_max && select.time >= select.time_max, "{select:?}");
    assert!(select.taken.cpu.0 > 0 && select.first_seen <= select.last_seen);
    // A prepared statement.
    run_prepared(&mut owner, "SELECT v FROM t WHERE id = $1 AND v <> 'x'", 50);
    let prepared = of(&mut owner, "SELECT v FROM t WHERE id = $1 AND v <> $2");
    assert_eq!((prepared.calls, prepared.rows), (50, 30));
    // SQL's own, which is counted as what was prepared.
    owner.ok("PREPARE p AS SELECT count(*) FROM t WHERE id < $1");
    for n in 0..7 {
        owner.ok(&format!("EXECUTE p({n})"));
    }
    assert_eq!(of(&mut owner, "SELECT count(*) FROM t WHERE id < $1").calls, 7);
    assert_eq!(of(&mut owner, "PREPARE p AS SELECT count(*) FROM t WHERE id < $1").calls, 1);
    // A failing one, and one that cannot be bound.
    assert_eq!(
        owner.fails("INSERT INTO t VALUES (1, 'again'), (2, 'and again')"),
        SqlState::UNIQUE_VIOLATION
    );
    assert_eq!(owner.fails("SELECT nothing FROM t WHERE id = 5"), SqlState::UNDEFINED_COLUMN);
    let insert = of(&mut owner, "INSERT INTO t VALUES ($1, $2), ($3, $4)");
    assert_eq!((insert.calls, insert.errors, insert.rows), (31, 1, 60));
    let unbound = of(&mut owner, "SELECT nothing FROM t WHERE id = $1");
    assert_eq!((unbound.calls, unbound.errors), (1, 1));
    // What cannot be read is none.
    assert_eq!(owner.fails("SELEC 'secret'"), SqlState::SYNTAX_ERROR);
    // COPY, in and out.
    owner.start_query("COPY t FROM STDIN");
    let mut out = Vec::new();
    client::copy_data(&mut out, b"500\tfive\n501\tsecret\n");
    client::copy_done(&mut out);
    owner.send(&out);
    assert_eq!(owner.answer().error, None);
    owner.ok("COPY (SELECT * FROM t WHERE id >= 500) TO STDOUT");
    let (copied_in, copied_out) = (
        of(&mut owner, "COPY t FROM STDIN"),
        of(&mut owner, "COPY (SELECT * FROM t WHERE id >= $1) TO STDOUT"),
    );
    assert_eq!((copied_in.calls, copied_in.rows, copied_out.calls, copied_out.rows), (1, 2, 1, 2));
    let all = seen(&mut owner).0;
    assert!(all.iter().all(|row| row.tenant == "acme"), "a tenant sees its own");
    let leaked = |row: &&StatementRow| row.query.as_ref().is_some_and(|query| query.contains("secret"));
    assert_eq!(all.iter().find(leaked).map(|row| &row.query), None);
}

#[test]
fn an_execute_in_parts_counts_once() {
    let (server, _turn) = server();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE TABLE t (id int PRIMARY KEY)");
    owner.ok("INSERT INTO t SELECT x FROM generate_series(1, 10) AS s(x)");
    let mut out = Vec::new();
    client::parse(&mut out, "", "SELECT id FROM t ORDER BY id", &[]);
    client::bind(&mut out, "", "", &[], &[], &[]);
    for _ in 0..4 {
        client::execute(&mut out, "", 3);
    }
    client::sync(&mut out);
    owner.send(&out);
    assert_eq!(owner.answer().rows.len(), 10);
    let figures = of(&mut owner, "SELECT id FROM t ORDER BY id");
    assert_eq!((figures.calls, figures.rows), (1, 10));
}

#[test]
fn a_cancelled_query_counts_with_all_that_its_thread_took() {
    let (server, _turn) = server();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("SET statement_timeout = '300ms'");
    assert_eq!(
        owner.fails("SELECT indexrelid FROM pg_index WHERE indexrelid > 42"),
        SqlState::QUERY_CANCELED
    );
    owner.ok("RESET statement_timeout");
    let text = "SELECT indexrelid FROM pg_index WHERE indexrelid > $1";
    let figures = of(&mut owner, text);
    assert_eq!((figures.calls, figures.errors), (1, 1));
    assert!(figures.time.as_secs_f64() >= 0.3, "{figures:?}");
    // What the home did for it is far less.
    eventually("the count of what the thread took since", || of(&mut owner, text).taken.cpu.0 > UNHEARD);
    assert_eq!(of(&mut owner, text).calls, 1);
}

#[test]
fn the_administrator_sees_all_and_a_drop_takes_them_away() {
    let (server, _turn) = server();
    server.create_tenant("other");
    let mut admin = server.admin("rowhouse");
    for name in ["acme", "other"] {
        server.connect(name, name, "pw").expect("its owner may enter").ok("SELECT 'mine'");
    }
    let tenants = |admin: &mut Client| {
        let rows = seen(admin).0;
        let own = rows.iter().filter(|row| row.query.as_deref() == Some("SELECT $1"));
        let mut names: Vec<_> = own.map(|row| row.tenant.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(tenants(&mut admin), ["acme", "other"]);
    let shown = seen(&mut admin).0;
    assert!(shown.iter().any(|row| row.tenant == "system"), "the administrator's own");
    admin.ok("DROP TENANT other");
    assert_eq!(tenants(&mut admin), ["acme"]);
}

#[test]
fn a_tenant_that_moves_goes_on_counting() {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::with(|config| {
        config.analytic = Some(looks);
        config.workers = Some(2);
    });
    server.create_tenant("acme");
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    let mut admin = server.admin("rowhouse");
    run_prepared(&mut owner, "SELECT $1 * 3", 1);
    for n in 0..10 {
        admin.ok(&format!("ALTER TENANT acme SET WORKER {}", n % 2));
        execute_prepared(&mut owner, b"7");
        owner.ok("SELECT 'simple'");
    }
    assert_eq!(of(&mut owner, "SELECT $1 * $2").calls, 11);
    let simple = of(&mut owner, "SELECT $1");
    assert_eq!((simple.calls, simple.errors), (10, 0));
    // Totals of a task go on, whichever worker polls it: none of them took long.
    assert!(simple.taken.cpu.as_secs_f64() < 1.0, "{simple:?}");
    drop(turn);
}

#[test]
fn a_reset_begins_anew_and_is_the_owners() {
    let (server, _turn) = server();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE ROLE clerk LOGIN PASSWORD 'pw'");
    run_prepared(&mut owner, "SELECT $1 + 1", 5);
    assert_eq!(of(&mut owner, "SELECT $1 + $2").calls, 5);
    let mut clerk = server.connect("acme", "clerk", "pw").expect("a role may enter");
    assert_eq!(clerk.fails("SELECT rowhouse.reset_statements()"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(of(&mut owner, "SELECT $1 + $2").calls, 5);
    owner.ok("SELECT rowhouse.reset_statements()");
    let (rows, _) = seen(&mut owner);
    let texts: Vec<_> = rows.iter().filter_map(|row| row.query.as_deref()).collect();
    assert_eq!(texts, ["SELECT rowhouse.reset_statements()"], "it ended after that");
    // A statement that was prepared before goes on.
    execute_prepared(&mut owner, b"7");
    assert_eq!(of(&mut owner, "SELECT $1 + $2").calls, 1);
}

#[test]
fn many_texts_are_few_rows_and_all_calls() {
    const TEXTS: u64 = 2_000;
    let (server, _turn) = server();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    for n in 0..TEXTS / 10 {
        let script: Vec<String> = (0..10).map(|k| format!("SELECT 1 AS c{}", n * 10 + k)).collect();
        owner.ok(&script.join(";"));
    }
    let (rows, _) = seen(&mut owner);
    assert!(rows.len() <= 501, "{}", rows.len());
    let calls: u64 = rows.iter().map(|row| row.figures.calls).sum();
    let others = rows.iter().find(|row| row.query.is_none()).expect("many were dropped");
    assert_eq!((calls, others.figures.calls), (TEXTS, others.dropped.expect("how many")));
}

#[test]
fn processor_time_is_what_the_tenant_was_charged() {
    let (server, _turn) = server();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0)");
    owner.ok("INSERT INTO t SELECT x FROM generate_series(1, 2000) AS s(x)");
    let counted =
        |rows: &[StatementRow]| rows.iter().map(|row| row.figures.taken.cpu.as_secs_f64()).sum::<f64>();
    let charged = |usage: &[UsageEntry]| usage.iter().map(|usage| usage.cpu_seconds).sum::<f64>();
    for _ in 0..40 {
        owner.ok("SELECT sum(v * id) FROM t WHERE v < 5");
        owner.ok("UPDATE t SET v = v + 1 WHERE id <= 400");
    }
    // What is charged is on the ledger once its interval has ended.
    let mut last = (0.0, 0.0);
    eventually("the charge of what was counted", || {
        let (rows, usage) = seen(&mut owner);
        last = (counted(&rows), charged(&usage));
        last.0 > 0.1 && (0.75..1.25).contains(&(last.0 / last.1))
    });
}
