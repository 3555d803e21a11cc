//! The metering interval: altered while tenants work, for every resource, and kept.

mod support;

use std::io::{Read as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::SqlState;
use sql::session::{AnalyticEvent, AnalyticRequest, LedgerEntry, QueryControl};
use support::{Client, TestServer, eventually, tcp};

/// A query that no point plan answers: the engine looks at the ledger.
const ANALYTIC: &str = "SELECT relname FROM pg_class";

static LEDGER: Mutex<Vec<LedgerEntry>> = Mutex::new(Vec::new());

fn looks_at_the_ledger(
    request: AnalyticRequest,
    _: &QueryControl,
    say: &mut dyn FnMut(AnalyticEvent) -> bool,
) {
    *LEDGER.lock().unwrap_or_else(PoisonError::into_inner) = request.context.ledger.ledger();
    say(AnalyticEvent::Done(Ok(())));
}

fn shown(admin: &mut Client) -> String {
    admin.shown("SHOW SERVER").value("reservations", "metering_interval").expect("a value").to_owned()
}

/// Has a tenant work until the ledger has what `found` looks for among its rows that began after the call; then the lengths of all of those, in
/// microseconds, by resource.
fn work_until(owner: &mut Client, what: &str, found: impl Fn(&str, i64) -> bool) -> Vec<(&'static str, i64)> {
    owner.ok(ANALYTIC);
    let newest = |rows: &[LedgerEntry]| rows.iter().map(|row| row.ended).max().unwrap_or(i64::MIN);
    let since = newest(&LEDGER.lock().unwrap_or_else(PoisonError::into_inner));
    let began = Instant::now();
    loop {
        for _ in 0..20 {
            owner.ok("UPDATE t SET v = v + 1 WHERE id <= 50");
        }
        owner.ok(ANALYTIC);
        let rows = LEDGER.lock().unwrap_or_else(PoisonError::into_inner);
        let later = rows.iter().filter(|row| row.began >= since);
        let lengths: Vec<_> = later.map(|row| (row.resource, row.ended - row.began)).collect();
        if ["cpu", "io"]
            .iter()
            .all(|wanted| lengths.iter().any(|(of, length)| of == wanted && found(of, *length)))
        {
            return lengths;
        }
        assert!(began.elapsed().as_secs() < 60, "no interval of {what}: {lengths:?}");
    }
}

#[test]
fn an_altered_interval_is_that_of_every_resource_and_is_kept() {
    let server = TestServer::with(|config| config.analytic = Some(looks_at_the_ledger));
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE TENANT acme WITH (cpu = 0.5, iops = 50) OWNER acme PASSWORD 'pw'");
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0)");
    owner.ok("INSERT INTO t SELECT x FROM generate_series(1, 100) AS s(x)");
    assert_eq!(shown(&mut admin), "1s");
    // Intervals of I/O end at multiples of their length, those of processor time when they are looked at after one, so the next is a little shorter; a first one is half of one at
    // least.
    let second = |of: &str, length: i64| {
        if of == "io" { (length - 1_000_000).abs() <= 1 } else { length >= 500_000 }
    };
    work_until(&mut owner, "a second", second);
    admin.ok("ALTER SERVER SET (metering_interval = '200ms')");
    assert_eq!(shown(&mut admin), "200ms");
    let short = |of: &str, length: i64| {
        if of == "io" { (length - 200_000).abs() <= 1 } else { (100_000..500_000).contains(&length) }
    };
    let lengths = work_until(&mut owner, "a fifth of a second", short);
    assert!(lengths.iter().all(|(of, length)| *of != "cpu" || *length >= 100_000), "{lengths:?}");
    for refused in ["'50ms'", "'61s'", "0", "'often'", "none"] {
        let alter = format!("ALTER SERVER SET (metering_interval = {refused})");
        assert_eq!(admin.fails(&alter), SqlState::INVALID_PARAMETER_VALUE, "{refused}");
    }
    assert_eq!(shown(&mut admin), "200ms", "what is refused changes nothing");
    drop(owner);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    assert_eq!(shown(&mut admin), "200ms", "it is kept");
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    work_until(&mut owner, "a fifth of a second, after a restart", short);
    // A longer one goes on where a shorter one was under way.
    admin.ok("ALTER SERVER SET (metering_interval = '3s')");
    let long = |of: &str, length: i64| {
        if of == "io" { (length - 3_000_000).abs() <= 1 } else { length >= 1_500_000 }
    };
    work_until(&mut owner, "three seconds", long);
    admin.ok("ALTER SERVER RESET (metering_interval)");
    assert_eq!(shown(&mut admin), "1s");
    work_until(&mut owner, "a second again", second);
}

/// What the history that the last query read has of its tenant: seconds of processor time, I/Os.
static TAKEN: Mutex<(f64, f64)> = Mutex::new((0.0, 0.0));

fn sums_the_history(request: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    let mut taken = (0.0, 0.0);
    let read = request.context.ledger.history(&mut |row| {
        match row.resource {
            "cpu" => taken.0 += row.given,
            "io" => taken.1 += row.given,
            _ => {}
        }
        true
    });
    read.expect("the files are read");
    *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    say(AnalyticEvent::Done(Ok(())));
}

#[test]
fn the_intervals_under_way_when_the_server_ends_are_in_the_history() {
    let server = TestServer::with(|config| config.analytic = Some(sums_the_history));
    server.admin("rowhouse").ok("ALTER SERVER SET (metering_interval = '60s')");
    server.create_tenant("acme");
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE TABLE t (id int PRIMARY KEY)");
    for id in 0..20 {
        owner.ok(&format!("INSERT INTO t VALUES ({id})"));
    }
    drop(owner);
    let server = server.restart();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok(ANALYTIC);
    let taken = *TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(taken.0 > 0.0 && taken.1 >= 1.0, "{taken:?}");
}

/// How often a query reads the history.
const READS: usize = 20;

/// Rows of the history that the last query read, and the I/Os of who asked.
static HISTORY: Mutex<(usize, u64)> = Mutex::new((0, 0));

fn reads_the_history(request: AnalyticRequest, _: &QueryControl, say: &mut dyn FnMut(AnalyticEvent) -> bool) {
    let (ledger, mut rows) = (&request.context.ledger, 0);
    for _ in 0..READS {
        let read = ledger.history(&mut |_| {
            rows += 1;
            true
        });
        read.expect("the files are read");
    }
    let io = ledger.tenant_usage().iter().map(|usage| usage.io).sum();
    *HISTORY.lock().unwrap_or_else(PoisonError::into_inner) = (rows, io);
    say(AnalyticEvent::Done(Ok(())));
}

#[test]
fn who_looks_at_the_history_pays_for_its_reading() {
    let server = TestServer::with(|config| config.analytic = Some(reads_the_history));
    server.create_tenant("acme");
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    let began = Instant::now();
    while began.elapsed().as_millis() < 2500 {
        owner.ok("SELECT 1");
    }
    drop(owner);
    // What there is of a minute is written when the server ends.
    let server = server.restart();
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    let mut reads = 0;
    eventually("its reads are on the ledger", || {
        owner.ok(ANALYTIC);
        let (rows, io) = *HISTORY.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(rows >= READS, "it has a row at least");
        reads += READS as u64;
        // Of the calls before the last interval; what else it reads is little.
        io >= 200 && io * 2 >= reads
    });
}

/// Processor time that this process's thread of that name has had, in seconds.
fn thread_seconds(name: &str) -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("this process's threads");
    let of_thread = |folder: std::path::PathBuf| {
        let is_it = std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim() == name);
        is_it.then(|| std::fs::read_to_string(folder.join("schedstat")).expect("what the thread has had"))
    };
    let found = threads.flatten().find_map(|thread| of_thread(thread.path()));
    let found = found.unwrap_or_else(|| panic!("no thread is called {name}"));
    let nanoseconds: f64 = found.split(' ').next().and_then(|first| first.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

#[test]
fn what_the_console_and_the_metrics_take_is_charged_to_the_servers_own_tenant() {
    let server = TestServer::with_console();
    let address = server.running().admin_address().expect("listening");
    let mut admin = server.admin("rowhouse");
    let mut used = || -> f64 {
        let shown = admin.shown("SHOW TENANTS");
        shown.value("system", "cpu_seconds").and_then(|value| value.parse().ok()).expect("a number")
    };
    let (used_before, took_before) = (used(), thread_seconds("admin"));
    for _ in 0..400 {
        let mut stream = tcp(address);
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("is sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
    let took = thread_seconds("admin") - took_before;
    assert!(took > 0.05, "they took {took} s");
    // The thread's time is charged once a second.
    std::thread::park_timeout(Duration::from_millis(1500));
    let charged = used() - used_before;
    assert!(charged >= 0.9 * took, "{charged} s of {took} s are charged");
}
