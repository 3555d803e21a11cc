//! Promises of processor time by wire: limits hold, and the ledger says what was promised, wanted and given.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Server, run, state};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

async fn rows(client: &Client, sql: &str) -> Vec<SimpleQueryRow> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
    messages.into_iter().filter_map(row).collect()
}

fn number(row: &SimpleQueryRow, column: &str) -> f64 {
    row.get(column).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{column} is a number"))
}

/// The processor time that a tenant has used, in seconds.
async fn cpu_seconds(admin: &Client, tenant: &str) -> f64 {
    let all = rows(admin, "SHOW TENANTS").await;
    let shown = all.iter().find(|row| row.get("name") == Some(tenant));
    number(shown.unwrap_or_else(|| panic!("{tenant} is shown")), "cpu_seconds")
}

/// Waits until a tenant has used so many seconds more of processor time: for ten at most.
async fn uses(admin: &Client, tenant: &str, seconds: f64) {
    let (before, until) = (cpu_seconds(admin, tenant).await, Instant::now() + Duration::from_secs(10));
    while cpu_seconds(admin, tenant).await - before < seconds {
        assert!(Instant::now() < until, "{tenant} does not get {seconds} s of processor time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Has a tenant work for as long, on the point path.
async fn work(owner: &Client, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        rows(owner, "SELECT sum(n) FROM t").await;
    }
}

const TABLE: &str =
    "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT g FROM generate_series(1, 5000) g";

#[test]
fn a_limit_of_processor_time_holds_and_can_be_lifted() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        owner.batch_execute(TABLE).await.expect("rows");
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = 0.05)").await.expect("altered");
        let used = async || cpu_seconds(&admin, "acme").await;
        let (before, began) = (used().await, Instant::now());
        work(&owner, Duration::from_millis(2500)).await;
        let (took, given) = (began.elapsed().as_secs_f64(), used().await - before);
        // The bucket lets 20 ms of the limit through at once, and a statement under way ends.
        assert!(given <= 0.05 * (took + 0.02) + 0.1, "{given} s of {took} s");
        // Analytical threads stand still too, between two batches.
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = 0.2)").await.expect("altered");
        let (before, began) = (used().await, Instant::now());
        while used().await - before < 1.0 {
            rows(&owner, "SELECT count(*) FROM t a, t b WHERE (a.n * b.n) % 7 = 1 AND a.n <= 100").await;
        }
        let (took, given) = (began.elapsed().as_secs_f64(), used().await - before);
        assert!(given <= 0.2 * (took + 0.02) + 0.4, "{given} s of {took} s");
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = none)").await.expect("altered");
        let before = used().await;
        work(&owner, Duration::from_millis(500)).await;
        assert!(used().await > before, "it works on");
    });
}

#[test]
fn an_altered_limit_holds_what_runs_within_a_tenth_of_a_second() {
    /// A statement that does not come to its end, at its tenant's home.
    const ENDLESS: &str = "INSERT INTO sink SELECT g FROM generate_series(1, 1000000000) g";
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        owner.batch_execute("CREATE TABLE sink (n int PRIMARY KEY)").await.expect("a table");
        let cancel = owner.cancel_token();
        let running = tokio::spawn(async move { owner.batch_execute(ENDLESS).await });
        uses(&admin, "acme", 0.3).await;
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = 0.02)").await.expect("altered");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (before, began) = (cpu_seconds(&admin, "acme").await, Instant::now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let given = cpu_seconds(&admin, "acme").await - before;
        let took = began.elapsed().as_secs_f64();
        // What the bucket lets through at once, and a turn under way that ends; without the limit it would have been most of that second.
        assert!(given <= 0.02 * (took + 0.02) + 0.1, "{given} s of {took} s");
        // At the limit this would take 25 s.
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = none)").await.expect("altered");
        uses(&admin, "acme", 0.5).await;
        cancel.cancel_query(NoTls).await.expect("is sent");
        assert_eq!(state(running.await.expect("the client does not panic")), SqlState::QUERY_CANCELED);
    });
}

#[test]
fn an_altered_limit_holds_a_query_that_runs() {
    /// A join whose condition no pair of rows fulfils, on an analytical thread: it yields no batch.
    const LONG: &str = "SELECT count(*) FROM t a, t b WHERE (a.n * b.n) % 7 = 8";
    async fn again_and_again(owner: Client) -> Result<(), tokio_postgres::Error> {
        loop {
            owner.batch_execute(LONG).await?;
        }
    }
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        owner.batch_execute(TABLE).await.expect("rows");
        let cancel = owner.cancel_token();
        let running = tokio::spawn(again_and_again(owner));
        uses(&admin, "acme", 0.3).await;
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = 0.02)").await.expect("altered");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (before, began) = (cpu_seconds(&admin, "acme").await, Instant::now());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let given = cpu_seconds(&admin, "acme").await - before;
        let took = began.elapsed().as_secs_f64();
        // Its thread stands still where it looks next; without the limit it would have been most of those two seconds.
        assert!(given <= 0.02 * (took + 0.02) + 0.2, "{given} s of {took} s");
        admin.batch_execute("ALTER TENANT acme SET (cpu_max = none)").await.expect("altered");
        while !running.is_finished() {
            // One that comes between two of them cancels nothing.
            cancel.cancel_query(NoTls).await.expect("is sent");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(state(running.await.expect("the client does not panic")), SqlState::QUERY_CANCELED);
    });
}

#[test]
fn the_ledger_says_what_was_promised_and_each_tenant_sees_its_own() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        admin.batch_execute("ALTER TENANT acme SET (cpu = 0.25, penalty = 2)").await.expect("altered");
        server.create_tenant("other").await;
        admin.batch_execute("ALTER TENANT other SET (cpu = 0.1, cpu_max = 0.5)").await.expect("altered");
        owner.batch_execute(TABLE).await.expect("rows");
        let of_acme = "SELECT tenant, resource, extract(epoch FROM ended - began) AS time, active, promised, demanded, given, missed, by_chance, over, held, debt, forgiven, awaited, cause, owed, broken FROM rowhouse.ledger WHERE tenant = 'acme' ORDER BY began";
        let until = Instant::now() + Duration::from_secs(60);
        let found = loop {
            work(&owner, Duration::from_millis(300)).await;
            let found = rows(&admin, of_acme).await;
            if found.len() >= 3 {
                break found;
            }
            assert!(Instant::now() < until, "no interval ends");
        };
        // The promise was altered within the first.
        for row in &found[1..] {
            let (time, demanded, given) =
                (number(row, "time"), number(row, "demanded"), number(row, "given"));
            assert_eq!(row.get("resource"), Some("cpu"));
            assert!((number(row, "promised") - 0.25 * time).abs() < 1e-5, "{row:?}");
            assert!(demanded > 0.0 && demanded <= 0.25 * number(row, "active") + 1e-6, "{row:?}");
            assert!(number(row, "active") <= time + 1e-6, "{row:?}");
            let missed = number(row, "missed");
            assert!((missed - (demanded - given).max(0.0)).abs() < 1e-6, "{row:?}");
            assert_eq!(row.get("by_chance"), None, "processor time is counted: {row:?}");
            assert_eq!(row.get("cause").is_some(), missed > 0.0, "{row:?}");
            assert_eq!(row.get("broken"), Some(if missed > 0.0 { "t" } else { "f" }), "{row:?}");
            assert!((number(row, "owed") - 2.0 * missed).abs() < 1e-5, "{row:?}");
            for of_limit in ["over", "held", "debt", "forgiven", "awaited"] {
                assert_eq!(number(row, of_limit), 0.0, "{of_limit}: there is no limit");
            }
        }
        for row in rows(&admin, "SELECT missed FROM rowhouse.violations WHERE resource = 'cpu'").await {
            assert!(number(&row, "missed") > 0.0);
        }
        let usage = rows(&owner, "SELECT * FROM rowhouse.tenant_usage").await;
        assert_eq!(usage.len(), 1, "its own");
        assert_eq!(usage[0].get("tenant"), Some("acme"));
        assert_eq!(number(&usage[0], "cpu_promised"), 0.25);
        assert_eq!(usage[0].get("cpu_max"), None);
        assert!(number(&usage[0], "cpu_seconds") > 0.0);
        assert_eq!(number(&usage[0], "sessions"), 1.0);
        let waits = rows(&owner, "SELECT * FROM rowhouse.tenant_waits").await;
        assert!(waits.iter().all(|row| row.get("tenant") == Some("acme")), "its own");
        let waited = |what: &str| {
            let row = waits.iter().find(|row| row.get("wait") == Some(what));
            number(row.unwrap_or_else(|| panic!("{what} is there")), "seconds")
        };
        for what in ["running", "runnable", "client", "log flush"] {
            assert!(waited(what) > 0.0, "{what}");
        }
        assert_eq!(waited("own cap"), 0.0, "there is no limit");
        let other = server.owner("other").await;
        assert!(rows(&other, "SELECT * FROM rowhouse.ledger WHERE tenant <> 'other'").await.is_empty());
        let all = rows(&admin, "SELECT DISTINCT tenant FROM rowhouse.tenant_usage ORDER BY 1").await;
        assert!(all.iter().any(|row| row.get("tenant") == Some("acme")), "the administrator sees all");
        drop((owner, other));
        while admin.batch_execute("DROP TENANT acme").await.is_err() {
            // Its session is just ending.
            assert!(Instant::now() < until, "acme cannot be dropped");
        }
        assert!(rows(&admin, of_acme).await.is_empty(), "with the tenant its rows go");
    });
}

#[test]
fn the_ledger_by_the_minute_outlives_the_server() {
    let mut server = Server::with_acme();
    let history = "SELECT sum(intervals)::int8 AS intervals, sum(given) AS given, min(minutes) AS minutes FROM rowhouse.ledger_history WHERE tenant = 'acme' AND resource = 'cpu'";
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        admin.batch_execute("ALTER TENANT acme SET (cpu = 0.25)").await.expect("altered");
        owner.batch_execute(TABLE).await.expect("rows");
        work(&owner, Duration::from_millis(2500)).await;
    });
    server.terminate();
    server.restart();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        let row = &rows(&admin, history).await[0];
        assert!(number(row, "intervals") >= 2.0 && number(row, "given") > 0.1, "{row:?}");
        assert_eq!(number(row, "minutes"), 1.0);
        let others = "SELECT tenant FROM rowhouse.ledger_history WHERE tenant <> 'acme'";
        assert!(rows(&owner, others).await.is_empty(), "its own only");
    });
}

/// Seconds of the processor that the server's thread called `name` has had.
fn thread_seconds(server: &Server, name: &str) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server's threads");
    let of_thread = |folder: std::path::PathBuf| {
        let is_it = std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim() == name);
        is_it.then(|| std::fs::read_to_string(folder.join("schedstat")).expect("what the thread has had"))
    };
    let found = tasks.flatten().find_map(|task| of_thread(task.path()));
    let found = found.unwrap_or_else(|| panic!("no thread is called {name}"));
    let nanoseconds: f64 = found.split(' ').next().and_then(|first| first.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

/// Begins a session of a database that is not there, and is refused.
fn knock(port: u16) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let words = b"\0\x03\0\0user\0nobody\0database\0nowhere\0\0";
    let mut message = (words.len() as u32 + 4).to_be_bytes().to_vec();
    message.extend_from_slice(words);
    socket.write_all(&message).expect("the server reads");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("the server answers");
    assert_eq!(answer.first(), Some(&b'E'));
}

#[test]
fn logins_are_charged_to_the_servers_own_tenant() {
    let server = Server::with_acme();
    run(async {
        let admin = server.admin().await;
        let used = async || cpu_seconds(&admin, "system").await;
        let (used_before, took_before) = (used().await, thread_seconds(&server, "reception"));
        (0..3000).for_each(|_| knock(server.port()));
        let took = thread_seconds(&server, "reception") - took_before;
        assert!(took > 0.1, "they took {took} s");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let charged = used().await - used_before;
        assert!(charged >= 0.9 * took, "{charged} s of {took} s are charged");
    });
}
