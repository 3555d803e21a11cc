//! How things end: a server told to under load, an analytical query cut short, a panic, a log that cannot be written.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use common::{Server, run, text};
use tokio_postgres::error::SqlState;

/// Hours of work for the analytical path, which gives no row before its end.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) AS a(x), generate_series(1, 1000000) AS b(y) \
                       WHERE x % 7 = y % 11";

const END_MAX: Duration = Duration::from_secs(15);

/// Who sends it has servers in mind that read their configuration anew by it. Ended by it, a service would not be started again by systemd.
#[test]
fn a_hangup_ends_no_server() {
    let server = Server::start();
    let sent = Command::new("kill").args(["-HUP", &server.pid().to_string()]).status();
    assert!(sent.expect("kill can be run").success());
    std::thread::sleep(Duration::from_millis(200));
    run(async { assert_eq!(text(&server.admin().await, "SELECT 1").await, "1") });
}

#[test]
fn a_server_told_to_end_under_load_keeps_what_it_acknowledged() {
    let mut server = Server::with_acme();
    server.expect_warnings();
    run(async {
        let owner = server.owner("acme").await;
        owner
            .batch_execute("CREATE TABLE t (client int, n bigint, PRIMARY KEY (client, n))")
            .await
            .expect("a table");
    });
    let stopped = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|client: i32| {
            let (url, stopped) = (server.url("acme", "acme"), Arc::clone(&stopped));
            let acknowledged = Arc::new(AtomicI64::new(0));
            let told = Arc::clone(&acknowledged);
            let thread = std::thread::spawn(move || {
                run(async {
                    let connection = common::connect(&url).await.expect("a client connects");
                    for n in 1.. {
                        match connection.execute("INSERT INTO t VALUES ($1, $2)", &[&client, &n]).await {
                            Ok(_) => told.store(n, Ordering::Relaxed),
                            Err(error) => {
                                assert!(stopped.load(Ordering::Relaxed), "{error:?}");
                                let code = error.code().cloned();
                                assert!(
                                    code.is_none_or(|code| code == SqlState::ADMIN_SHUTDOWN),
                                    "{error:?}"
                                );
                                return;
                            }
                        }
                    }
                });
            });
            (thread, acknowledged)
        })
        .collect();
    // Beside the load: a transaction left open, and a query that would take hours.
    let idle = std::thread::spawn({
        let url = server.url("acme", "acme");
        move || {
            run(async {
                let client = common::connect(&url).await.expect("it connects");
                client.batch_execute("BEGIN; INSERT INTO t VALUES (99, 1)").await.expect("it begins");
                while !client.is_closed() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
    });
    let endless = std::thread::spawn({
        let url = server.url("acme", "acme");
        move || {
            run(async {
                common::connect(&url).await.expect("it connects").simple_query(ENDLESS).await.map(drop)
            })
        }
    });
    std::thread::sleep(Duration::from_millis(1500));
    stopped.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(begun.elapsed() < END_MAX, "the end took {:?}", begun.elapsed());
    idle.join().expect("the idle session ends");
    let error = endless.join().expect("the query's thread ends").expect_err("the query is cut short");
    assert!(error.code().is_none_or(|code| *code == SqlState::ADMIN_SHUTDOWN), "{error:?}");
    let mut acknowledged = Vec::new();
    for (thread, count) in clients {
        thread.join().expect("a client ends in order");
        acknowledged.push(count.load(Ordering::Relaxed));
    }
    assert!(acknowledged.iter().all(|n| *n > 0), "{acknowledged:?}");
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        for (client, acknowledged) in acknowledged.iter().enumerate() {
            let query =
                format!("SELECT count(*) || ' ' || coalesce(max(n), 0) FROM t WHERE client = {client}");
            let found = text(&owner, &query).await;
            let whole = |n: i64| format!("{n} {n}");
            // The last commit may have become durable with its reply cut off.
            assert!(
                found == whole(*acknowledged) || found == whole(acknowledged + 1),
                "client {client} was told of {acknowledged}, there is {found}"
            );
        }
        assert_eq!(text(&owner, "SELECT count(*) FROM t WHERE client = 99").await, "0");
    });
}

#[test]
fn a_cancelled_analytical_query_gives_its_thread_back() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        // More of them than there are analytical threads.
        for _ in 0..12 {
            client.batch_execute("SET statement_timeout = 300").await.expect("it can be set");
            let begun = Instant::now();
            let error = client.simple_query(ENDLESS).await.expect_err("it takes too long");
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error:?}");
            assert!(begun.elapsed() < END_MAX, "{:?}", begun.elapsed());
        }
        client.batch_execute("SET statement_timeout = '60s'").await.expect("it can be set");
        assert_eq!(text(&client, "SELECT count(*) FROM (SELECT 1 UNION SELECT 2) AS u").await, "2");
    });
}

/// Panics that clients of a debug build may ask for; see `server`.
#[cfg(debug_assertions)]
mod panics {
    use super::*;

    #[test]
    fn a_panic_in_a_statement_ends_its_session_and_transaction_alone() {
        let mut server = Server::with_acme();
        server.expect_warnings();
        run(async {
            let (victim, other) = (server.owner("acme").await, server.owner("acme").await);
            other
                .batch_execute(
                    "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)",
                )
                .await
                .expect("a table");
            other.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").await.expect("a change");
            victim.batch_execute("BEGIN; UPDATE t SET n = 9 WHERE id = 2").await.expect("a change");
            let error = victim.simple_query("SELECT 'panic in this query, in a debug build'").await;
            assert!(error.expect_err("the session ends").is_closed());
            // Its lock is free, its change undone; the other's transaction goes on.
            other
                .batch_execute("SET lock_timeout = '10s'; UPDATE t SET n = n + 1 WHERE id = 2; COMMIT")
                .await
                .expect("no one holds it");
            assert_eq!(text(&other, "SELECT string_agg(n::text, ' ' ORDER BY id) FROM t").await, "1 1");
            assert_eq!(text(&server.owner("acme").await, "SELECT count(*) FROM t").await, "2");
        });
        assert!(server.log().contains("the client asked for a panic"), "{}", server.log());
    }

    #[test]
    fn a_panic_within_a_commit_reopens_its_tenant_and_no_other() {
        let mut server = Server::start_with(&["--workers", "1"]);
        server.expect_warnings();
        run(async {
            for tenant in ["acme", "other"] {
                server.create_tenant(tenant).await;
                let owner = server.owner(tenant).await;
                owner
                    .batch_execute("CREATE TABLE t (v text); INSERT INTO t VALUES ('first')")
                    .await
                    .expect("a table");
            }
            let (victim, sibling) = (server.owner("acme").await, server.owner("acme").await);
            let other = server.owner("other").await;
            other.batch_execute("BEGIN; INSERT INTO t VALUES ('second')").await.expect("a change");
            let commit = "INSERT INTO t VALUES ('<panic in this commit, in a debug build>')";
            assert!(victim.simple_query(commit).await.expect_err("the session ends").is_closed());
            let error = sibling.simple_query("SELECT 1").await.expect_err("its tenant was closed");
            assert!(error.code().is_none_or(|code| *code == SqlState::CRASH_SHUTDOWN), "{error:?}");
            // What was logged is there: the reply alone is missing.
            let owner = server.owner("acme").await;
            assert_eq!(text(&owner, "SELECT count(*) FROM t").await, "2");
            owner.batch_execute("INSERT INTO t VALUES ('third')").await.expect("writing goes on");
            other.batch_execute("COMMIT").await.expect("another tenant noticed nothing");
            assert_eq!(text(&other, "SELECT count(*) FROM t").await, "2");
        });
        assert!(server.terminate().success());
        server.restart();
        run(async { assert_eq!(text(&server.owner("acme").await, "SELECT count(*) FROM t").await, "3") });
    }
}
