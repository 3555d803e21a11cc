//! Requests to the analytical engine, with engines that fail, and that never end.

mod support;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{ByteCount, SqlError, SqlState};
use env::{Env, JoinHandle, ShutdownSignal, ThreadControl, Threads};
use pgproto::client;
use sql::session::{AnalyticEvent, AnalyticRequest, Field, QueryControl};
use support::{Client, TestServer, eventually, tcp};

/// A query that no point plan answers.
const ANALYTIC: &str = "SELECT relname FROM pg_class";

static ASKED: AtomicUsize = AtomicUsize::new(0);

fn fails(_: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    ASKED.fetch_add(1, Ordering::SeqCst);
    say(AnalyticEvent::Done(Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "it has no such function"))));
}

/// Fails with what the applications of all sessions are called.
fn tells_applications(
    request: AnalyticRequest,
    _: &QueryControl,
    say: &mut dyn FnMut(AnalyticEvent) -> bool,
) {
    let names: Vec<_> = request.context.backends.iter().map(|row| row.application_name.clone()).collect();
    say(AnalyticEvent::Done(Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, names.join(",")))));
}

#[test]
fn a_session_is_shown_by_the_name_that_it_begins_with() {
    let server = TestServer::with(|config| config.analytic = Some(tells_applications));
    server.create_tenant("acme");
    let mut owner = server.connect("acme", "acme", "pw").expect("the owner may enter");
    owner.ok("ALTER ROLE acme SET application_name = 'of the role'");
    drop(owner);
    let long = "x".repeat(5000);
    for (settings, shown) in
        [(&[("application_name", &*long)][..], &long[..63]), (&[("DateStyle", "ISO")], "of the role")]
    {
        let entered = Client::with_settings(tcp(server.address()), "acme", "acme", "pw", settings);
        let mut client = entered.expect("the owner may enter");
        let told = client.query("SELECT application_name FROM pg_stat_activity").error.expect("it fails");
        assert!(told.message.split(',').any(|name| name == shown), "{}", told.message);
    }
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

/// Has [`streams`] send without end.
const ENDLESS: &str = "SELECT relname FROM pg_class";
/// Has [`streams`] send one row.
const SHORT: &str = "SELECT typname FROM pg_type";

/// Queries of [`streams`] that have sent all that fits on the way to a client that does not read.
static SENT: AtomicUsize = AtomicUsize::new(0);

/// A message of one row with one column.
fn row(value: &[u8]) -> Vec<u8> {
    let len = |len: usize| i32::try_from(len).unwrap().to_be_bytes();
    [&b"D"[..], &len(4 + 2 + 4 + value.len()), &1_i16.to_be_bytes(), &len(value.len()), value].concat()
}

fn say_columns(say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    let field = Field {
        name: "name".to_owned(),
        table_oid: 0,
        attribute: 0,
        ty: types::PgType::Text,
        modifier: types::TypeMod::NONE,
    };
    say(AnalyticEvent::Columns { parameters: Vec::new(), fields: [field].into() });
}

/// Until nobody wants any more; how many were sent is told.
fn say_rows(sent: &AtomicUsize, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    let bytes = row(&[b'x'; 64 << 10]);
    while say(AnalyticEvent::Encoded { rows: 1, bytes: bytes.clone() }) {
        sent.fetch_add(1, Ordering::SeqCst);
    }
}

fn streams(request: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    say_columns(say);
    if request.query.to_string() == ENDLESS {
        return say_rows(&SENT, say);
    }
    say(AnalyticEvent::Encoded { rows: 1, bytes: row(b"short") });
    say(AnalyticEvent::Done(Ok(())));
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_from_a_thread() {
    let server = TestServer::with(|config| config.analytic = Some(streams));
    server.create_tenant("acme");
    let connect = || server.connect("acme", "acme", "pw").unwrap();
    // More than a tenant has at a time.
    let mut slow: Vec<_> = (0..6).map(|_| connect()).collect();
    slow.iter_mut().for_each(|client| client.start_query(ENDLESS));
    let mut before = 0;
    eventually("the end of what is sent without being read", || {
        std::thread::park_timeout(Duration::from_millis(200));
        let sent = SENT.load(Ordering::SeqCst);
        sent > 6 && std::mem::replace(&mut before, sent) == sent
    });
    let mut other = connect();
    assert_eq!(other.ok(SHORT), [[Some("short".to_owned())]]);
    // One that reads again goes on where it was, beside a new one.
    let sent = SENT.load(Ordering::SeqCst);
    let mut messages = (0..400).map(|_| slow[0].message().expect("it goes on").0);
    assert!(messages.all(|tag| tag == b'T' || tag == b'D'));
    assert!(SENT.load(Ordering::SeqCst) > sent);
    assert_eq!(other.ok(SHORT).len(), 1);
    cancel(&server, &slow[1]);
    drop(slow);
    let mut admin = server.admin("rowhouse");
    eventually("the end of all sessions", || {
        admin.shown("SHOW TENANTS").value("acme", "sessions") == Some("1")
    });
    assert_eq!(other.ok(SHORT).len(), 1);
}

/// Queries of [`computes`] that compute without end.
static COMPUTING: AtomicUsize = AtomicUsize::new(0);

fn computes(request: AnalyticRequest, control: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    say_columns(say);
    if request.query.to_string() == ENDLESS {
        COMPUTING.fetch_add(1, Ordering::SeqCst);
        while !control.is_cancelled() {
            control.wait_while_held();
        }
    } else {
        say(AnalyticEvent::Encoded { rows: 1, bytes: row(b"short") });
    }
    say(AnalyticEvent::Done(Ok(())));
}

#[test]
fn queries_that_their_tenants_limits_of_processor_time_hold_keep_nobody_from_a_thread() {
    let server = TestServer::with(|config| {
        config.analytic = Some(computes);
        config.workers = Some(1);
    });
    let tenants: Vec<_> = (0..16).map(|n| format!("limited{n}")).collect();
    let mut limited = Vec::new();
    for tenant in &tenants {
        server.create_tenant(tenant);
        limited.extend((0..4).map(|_| server.connect(tenant, tenant, "pw").unwrap()));
    }
    server.create_tenant("other");
    let mut other = server.connect("other", "other", "pw").unwrap();
    other.ok("CREATE TABLE t (name text)");
    // As many as there are places.
    limited.iter_mut().for_each(|client| client.start_query(ENDLESS));
    eventually("the beginning of all queries", || COMPUTING.load(Ordering::SeqCst) == limited.len());
    let mut admin = server.admin("rowhouse");
    for tenant in &tenants {
        admin.ok(&format!("ALTER TENANT {tenant} SET (cpu_max = 0.001)"));
    }
    assert_eq!(other.ok("SELECT rank() OVER () FROM t"), [[Some("short".to_owned())]]);
    limited.iter().for_each(|client| cancel(&server, client));
}

/// Rows of [`sends_for_ever`].
static UNREAD: AtomicUsize = AtomicUsize::new(0);

fn sends_for_ever(_: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    say_columns(say);
    say_rows(&UNREAD, say);
}

/// A machine that gives no thread to a query from some point on, and says so only when two have asked.
struct FewThreads {
    threads: Arc<dyn Threads>,
    refuses: AtomicBool,
    asked: AtomicUsize,
}

impl Threads for FewThreads {
    fn spawn(
        &self,
        name: &str,
        core: Option<usize>,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<JoinHandle> {
        if !name.starts_with("analytic") || !self.refuses.load(Ordering::SeqCst) {
            return self.threads.spawn(name, core, body);
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        eventually("another one that asks", || self.asked.load(Ordering::SeqCst) >= 2);
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn current(&self) -> ThreadControl {
        self.threads.current()
    }
    fn pin_current(&self, core: usize) -> io::Result<()> {
        self.threads.pin_current(core)
    }
    fn cores(&self) -> Vec<usize> {
        self.threads.cores()
    }
    fn raise_file_limit(&self) -> io::Result<u64> {
        self.threads.raise_file_limit()
    }
    fn resident_memory(&self) -> ByteCount {
        self.threads.resident_memory()
    }
    fn shutdown_signal(&self) -> ShutdownSignal {
        self.threads.shutdown_signal()
    }
}

#[test]
fn queries_that_get_no_thread_are_told_all_of_them() {
    let mut env = Env::real();
    let threads = Arc::new(FewThreads {
        threads: env.threads.clone(),
        refuses: AtomicBool::new(false),
        asked: AtomicUsize::new(0),
    });
    env.threads = threads.clone();
    let server = TestServer::in_env(&env, |config| config.analytic = Some(sends_for_ever));
    let mut admin = server.admin("rowhouse");
    // One whose queries run at home, on the first worker; one of the second; and one there that may go to the first.
    for (tenant, promise, worker) in [("a", "(cpu = 0.1)", 0), ("b", "(cpu = 0.1)", 1), ("c", "(cpu = 0)", 1)]
    {
        admin.ok(&format!("CREATE TENANT {tenant} WITH {promise} OWNER {tenant} PASSWORD 'pw'"));
        admin.ok(&format!("ALTER TENANT {tenant} SET WORKER {worker}"));
    }
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|tenant| server.connect(tenant, tenant, "pw").unwrap());
    // Nobody reads it: it keeps its thread.
    b.start_query(ANALYTIC);
    eventually("the beginning of a query", || UNREAD.load(Ordering::SeqCst) > 0);
    threads.refuses.store(true, Ordering::SeqCst);
    c.start_query(ANALYTIC);
    eventually("the one that asks first", || threads.asked.load(Ordering::SeqCst) == 1);
    a.start_query(ANALYTIC);
    for client in [&mut a, &mut c] {
        assert_eq!(client.answer().error.expect("there is no thread").state, SqlState::SYSTEM_ERROR);
        assert!(client.is_alive());
    }
    assert_eq!(threads.asked.load(Ordering::SeqCst), 2, "both at the first worker");
}

/// What [`spills`] has written.
static SPILLED: AtomicUsize = AtomicUsize::new(0);
const SPILLS: usize = 90;

/// Writes temporary files of the tenant's, whatever it is told meanwhile.
fn spills(request: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    let temp = request.limits.temp.expect("a tenant has some");
    for _ in 0..SPILLS {
        let file = temp.create().expect("the disk works");
        file.append(&[7; 512]).expect("the disk works");
        file.seal().expect("the disk works");
        SPILLED.fetch_add(1, Ordering::SeqCst);
    }
    say(AnalyticEvent::Done(Ok(())));
}

#[test]
fn the_end_of_a_server_waits_for_nobodys_limit() {
    let server = TestServer::with(|config| config.analytic = Some(spills));
    server.create_tenant("acme");
    server.admin("rowhouse").ok("ALTER TENANT acme SET (iops_max = 1)");
    let mut client = server.connect("acme", "acme", "pw").unwrap();
    client.start_query(ANALYTIC);
    eventually("the engine's beginning", || SPILLED.load(Ordering::SeqCst) > 0);
    let begun = std::time::Instant::now();
    drop(server);
    assert_eq!(SPILLED.load(Ordering::SeqCst), SPILLS, "its threads are waited for");
    // With the limit in force it takes a second for each.
    assert!(begun.elapsed() < Duration::from_secs(SPILLS as u64 / 2), "{:?}", begun.elapsed());
}

/// The threads that [`waits_on_its_thread`] runs on.
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn waits_on_its_thread(
    _: AnalyticRequest,
    control: &QueryControl,
    say: &mut dyn FnMut(AnalyticEvent) -> bool,
) {
    let name = std::thread::current().name().expect("analytic threads have names").to_owned();
    THREADS.lock().unwrap().push(name.clone());
    while !control.is_cancelled() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    THREADS.lock().unwrap().retain(|other| *other != name);
    say(AnalyticEvent::Done(Ok(())));
}

/// Runs a query of the tenant after the other, and returns the threads of both.
fn threads_of_two_queries(server: &TestServer, tenant: &str) -> Vec<String> {
    let mut clients: Vec<_> = (0..2).map(|_| server.admin(tenant)).collect();
    for (before, client) in clients.iter_mut().enumerate() {
        client.start_query(ANALYTIC);
        eventually("the engine's beginning", || THREADS.lock().unwrap().len() == before + 1);
    }
    let mut threads = THREADS.lock().unwrap().clone();
    threads.sort();
    drop(clients);
    eventually("the engines' ends", || THREADS.lock().unwrap().is_empty());
    threads
}

#[test]
fn queries_run_where_cores_are_idle_unless_a_promise_is_kept_at_home() {
    let server = TestServer::with(|config| {
        config.analytic = Some(waits_on_its_thread);
    });
    server.admin("rowhouse").ok("CREATE TENANT anywhere");
    server.admin("rowhouse").ok("CREATE TENANT promised WITH (cpu = 0.5)");
    server.admin("rowhouse").ok("CREATE TENANT wide WITH (cpu = 1.5)");
    assert_eq!(threads_of_two_queries(&server, "anywhere"), ["analytic-0", "analytic-1"]);
    assert_eq!(threads_of_two_queries(&server, "wide"), ["analytic-0", "analytic-1"]);
    let at_home = threads_of_two_queries(&server, "promised");
    assert_eq!(at_home[0], at_home[1]);
    // What it is promised now has it go elsewhere, too.
    server.admin("rowhouse").ok("ALTER TENANT promised SET (cpu = 0)");
    assert_eq!(threads_of_two_queries(&server, "promised"), ["analytic-0", "analytic-1"]);
}
