//! A promise's `statement_timeout`: what sessions may set below it, and what runs when it is altered.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::SqlState;
use pgproto::client;
use sql::session::{AnalyticEvent, AnalyticRequest, QueryControl};
use support::{Client, TestServer, eventually};

/// A statement of the point path that would hold its worker for hours, in one turn and without memory.
const LONG_TURN: &str = "INSERT INTO t SELECT x FROM generate_series(1, 1000000) AS a(x), \
                         generate_series(1, 1000000) AS b(y) WHERE x = -y";
/// A query that no point plan answers.
const ANALYTIC: &str = "SELECT relname FROM pg_class";

static RUNNING: AtomicUsize = AtomicUsize::new(0);

fn never_ends(_: AnalyticRequest, control: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    RUNNING.fetch_add(1, Ordering::SeqCst);
    while !control.is_cancelled() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    say(AnalyticEvent::Done(Ok(())));
}

fn server() -> TestServer {
    let server = TestServer::with(|config| config.analytic = Some(never_ends));
    server.create_tenant("acme");
    server.connect("acme", "acme", "pw").expect("its owner").ok("CREATE TABLE t (id int, v int DEFAULT 0)");
    server
}

fn owner(server: &TestServer) -> Client {
    server.connect("acme", "acme", "pw").expect("its owner may enter")
}

#[track_caller]
fn timed_out(client: &mut Client, detail: &str) {
    let error = client.answer().error.expect("its time is up");
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert_eq!(error.message, "canceling statement due to statement timeout");
    assert_eq!(error.detail, detail);
    assert!(client.is_alive());
}

/// Has the client run something that ends by itself after hours at the earliest, if at all.
fn start(client: &mut Client, what: &str) {
    client.start_query(what);
    if what.starts_with("COPY") {
        let mut row = Vec::new();
        client::copy_data(&mut row, b"1\t2\n");
        client.send(&row);
    }
}

const ENDLESS: [&str; 5] =
    ["SELECT pg_sleep(30000)", LONG_TURN, "COPY t FROM STDIN", "LOCK TABLE locked", ANALYTIC];

/// A session that holds the lock one of [`ENDLESS`] waits for.
fn with_lock(server: &TestServer) -> Client {
    let mut holder = server.admin("acme");
    holder.ok("CREATE TABLE locked (id int); GRANT ALL ON locked TO acme");
    holder.ok("BEGIN; LOCK TABLE locked");
    holder
}

/// `LOCK TABLE` wants a block.
fn in_block(what: &str) -> bool {
    what.starts_with("LOCK")
}

#[test]
fn a_promised_limit_is_every_sessions_default_and_bound() {
    let server = server();
    let mut admin = server.admin("rowhouse");
    let mut before = owner(&server);
    admin.ok("ALTER TENANT acme SET (statement_timeout = '300ms')");
    let mut after = owner(&server);
    let shown = |client: &mut Client| client.ok("SHOW statement_timeout")[0][0].clone().expect("a value");
    for client in [&mut before, &mut after] {
        assert_eq!(shown(client), "300ms");
        for beyond in ["0", "'1h'"] {
            client.ok(&format!("SET statement_timeout = {beyond}"));
            assert_eq!(shown(client), "300ms", "it may not be raised or switched off");
            assert_eq!(
                client.ok("SELECT current_setting('statement_timeout')")[0][0].as_deref(),
                Some("300ms")
            );
            client.start_query("SELECT pg_sleep(30)");
            timed_out(client, "The tenant's statement_timeout is 300ms.");
        }
        client.ok("SET statement_timeout = 40");
        assert_eq!(shown(client), "40ms", "it may be lowered");
        client.start_query("SELECT pg_sleep(30)");
        timed_out(client, "The session's statement_timeout is 40ms.");
        client.ok("RESET statement_timeout");
        assert_eq!(shown(client), "300ms");
    }
    // Each statement has its own time, and a session may stand idle.
    before.ok(&"SELECT pg_sleep(0.15);".repeat(4));
    std::thread::park_timeout(Duration::from_millis(400));
    assert!(before.is_alive());
    // The administrator is held to no tenant's limit, nor other tenants to this one's.
    server.admin("acme").ok("SELECT pg_sleep(0.4)");
    server.create_tenant("other");
    server.connect("other", "other", "pw").expect("its owner").ok("SELECT pg_sleep(0.4)");
    let server = server.restart();
    assert_eq!(shown(&mut owner(&server)), "300ms", "it is kept");
    server.admin("rowhouse").ok("ALTER TENANT acme RESET (statement_timeout)");
    assert_eq!(shown(&mut owner(&server)), "0");
}

#[test]
fn a_promised_limit_ends_whatever_takes_too_long() {
    let server = server();
    let _holder = with_lock(&server);
    server.admin("rowhouse").ok("ALTER TENANT acme SET (statement_timeout = 200)");
    let mut client = owner(&server);
    for endless in ENDLESS {
        if in_block(endless) {
            client.ok("BEGIN");
        }
        start(&mut client, endless);
        let error = client.answer().error.unwrap_or_else(|| panic!("{endless} ended"));
        assert_eq!(error.detail, "The tenant's statement_timeout is 200ms.", "{endless}");
        client.ok("ROLLBACK");
    }
    eventually("the engine's end", || RUNNING.load(Ordering::SeqCst) == 0);
    assert_eq!(client.ok("SELECT count(*) FROM t"), [[Some("0".to_owned())]]);
}

#[test]
fn an_altered_limit_is_in_force_for_what_runs() {
    let server = server();
    let _holder = with_lock(&server);
    let mut admin = server.admin("rowhouse");
    for endless in ENDLESS {
        let mut client = owner(&server);
        if in_block(endless) {
            client.ok("BEGIN");
        }
        start(&mut client, endless);
        // It runs or waits by now, or comes to find the limit there.
        std::thread::park_timeout(Duration::from_millis(50));
        admin.ok("ALTER TENANT acme SET (statement_timeout = '1ms')");
        let error = client.answer().error.unwrap_or_else(|| panic!("{endless} ended"));
        assert_eq!(error.detail, "The tenant's statement_timeout is 1ms.", "{endless}");
        admin.ok("ALTER TENANT acme RESET (statement_timeout)");
    }
    // What is lifted does not end what it was for.
    admin.ok("ALTER TENANT acme SET (statement_timeout = '1s')");
    let mut client = owner(&server);
    client.start_query("SELECT pg_sleep(1.5)");
    std::thread::park_timeout(Duration::from_millis(50));
    admin.ok("ALTER TENANT acme RESET (statement_timeout)");
    assert_eq!(client.answer().error, None);
    // A size's too.
    admin.ok("CREATE SIZE brief AS (cpu = 0.1); ALTER TENANT acme SET (size = 'brief')");
    client.start_query("SELECT pg_sleep(30000)");
    std::thread::park_timeout(Duration::from_millis(50));
    admin.ok("ALTER SIZE brief SET (statement_timeout = '1ms')");
    timed_out(&mut client, "The tenant's statement_timeout is 1ms.");
}
