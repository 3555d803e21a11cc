//! Requests to the analytical engine, with engines that fail, and that never end.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::{SqlError, SqlState};
use pgproto::client;
use sql::session::{AnalyticEvent, AnalyticRequest, QueryControl};
use support::{TestServer, eventually, tcp};

/// A query that no point plan answers.
const ANALYTIC: &str = "SELECT relname FROM pg_class";

static ASKED: AtomicUsize = AtomicUsize::new(0);

fn fails(_: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    ASKED.fetch_add(1, Ordering::SeqCst);
    say(AnalyticEvent::Done(Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "it has no such function"))));
}

#[test]
fn a_failure_of_the_engine_is_told_and_nothing_is_asked_again() {
    let server = TestServer::with(|config| config.analytic = Some(fails));
    let mut client = server.admin("rowhouse");
    let mut check = |out: &[u8], asked: usize| {
        client.send(out);
        let error = client.answer().error.expect("the engine fails");
        assert_eq!(error.state, SqlState::UNDEFINED_FUNCTION);
        assert_eq!(ASKED.load(Ordering::SeqCst), asked);
    };
    let mut describe_statement = Vec::new();
    client::parse(&mut describe_statement, "", ANALYTIC, &[]);
    client::describe(&mut describe_statement, b'S', "");
    client::sync(&mut describe_statement);
    check(&describe_statement, 1);
    let mut bound = Vec::new();
    client::parse(&mut bound, "", ANALYTIC, &[]);
    client::bind(&mut bound, "", "", &[], &[], &[]);
    let mut describe_portal = bound.clone();
    client::describe(&mut describe_portal, b'P', "");
    client::sync(&mut describe_portal);
    check(&describe_portal, 2);
    for (rows_max, asked) in [(0, 3), (1, 4)] {
        let mut execute = bound.clone();
        client::execute(&mut execute, "", rows_max);
        client::sync(&mut execute);
        check(&execute, asked);
    }
    let statements = [
        format!("PREPARE prepared AS {ANALYTIC}; EXECUTE prepared"),
        ANALYTIC.to_owned(),
        format!("EXPLAIN {ANALYTIC}"),
        format!("CREATE TABLE copied AS {ANALYTIC}"),
        format!("CREATE VIEW viewed AS {ANALYTIC}"),
        format!("BEGIN; DECLARE c CURSOR FOR {ANALYTIC}; COMMIT"),
        format!("ROLLBACK; COPY ({ANALYTIC}) TO STDOUT"),
    ];
    for (statement, asked) in statements.iter().zip(5..) {
        let mut query = Vec::new();
        client::query(&mut query, statement);
        check(&query, asked);
    }
    std::thread::park_timeout(Duration::from_millis(200));
    assert_eq!(ASKED.load(Ordering::SeqCst), 4 + statements.len());
    assert!(client.is_alive());
}

/// Engines of [`never_ends`] that run, by test.
static RUNNING: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

fn never_ends<const TEST: usize>(
    _: AnalyticRequest,
    control: &QueryControl,
    say: &mut dyn FnMut(AnalyticEvent) -> bool,
) {
    RUNNING[TEST].fetch_add(1, Ordering::SeqCst);
    while !control.is_cancelled() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    RUNNING[TEST].fetch_sub(1, Ordering::SeqCst);
    say(AnalyticEvent::Done(Ok(())));
}

fn eventually_running<const TEST: usize>(count: usize) {
    eventually("the engine's beginning or end", || RUNNING[TEST].load(Ordering::SeqCst) == count);
}

fn cancel(server: &TestServer, client: &support::Client) {
    let mut cancel = Vec::new();
    client::cancel_request(&mut cancel, client.key);
    std::io::Write::write_all(&mut tcp(server.address()), &cancel).unwrap();
}

#[test]
fn a_cancelled_query_ends_its_engine_too() {
    let server = TestServer::with(|config| config.analytic = Some(never_ends::<0>));
    let mut client = server.admin("rowhouse");
    client.start_query(ANALYTIC);
    eventually_running::<0>(1);
    cancel(&server, &client);
    assert_eq!(client.answer().error.expect("cancelled").state, SqlState::QUERY_CANCELED);
    eventually_running::<0>(0);
    client.ok("SET statement_timeout = 50");
    assert_eq!(client.fails(ANALYTIC), SqlState::QUERY_CANCELED);
    eventually_running::<0>(0);
    assert!(client.is_alive());
}

#[test]
fn a_client_that_hangs_up_ends_its_query_and_its_session() {
    let server = TestServer::with(|config| config.analytic = Some(never_ends::<1>));
    let mut watcher = server.admin("rowhouse");
    for query in [ANALYTIC, "SELECT pg_sleep(1000)"] {
        let mut client = server.admin("rowhouse");
        let pid = client.key.process_id;
        client.start_query(query);
        if query == ANALYTIC {
            eventually_running::<1>(1);
        }
        drop(client);
        eventually_running::<1>(0);
        let knows = format!("SELECT pg_cancel_backend({pid})");
        eventually("the session's end", || watcher.ok(&knows) == [[Some("f".to_owned())]]);
    }
}

#[test]
fn what_a_client_sends_during_its_query_is_answered_after_it() {
    let server = TestServer::with(|config| config.analytic = Some(never_ends::<2>));
    let mut client = server.admin("rowhouse");
    client.start_query(ANALYTIC);
    eventually_running::<2>(1);
    let mut next = Vec::new();
    client::query(&mut next, "SELECT 1");
    client::query(&mut next, "SELECT 2");
    for piece in next.chunks(5) {
        client.send(piece);
        std::thread::park_timeout(Duration::from_millis(5));
    }
    // More than is taken in early.
    let long = format!("SELECT length('{}')", "x".repeat(200_000));
    client.start_query(&long);
    cancel(&server, &client);
    assert_eq!(client.answer().error.expect("cancelled").state, SqlState::QUERY_CANCELED);
    for expected in ["1", "2", "200000"] {
        assert_eq!(client.answer().rows, [[Some(expected.to_owned())]]);
    }
}
