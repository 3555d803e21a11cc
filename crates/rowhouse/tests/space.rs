//! What a tenant's files may take: past its limits that tenant alone is refused, and gets out of it by itself.

mod common;

use std::pin::pin;
use std::time::{Duration, Instant};

use common::{Server, run, state, text};
use futures::TryStreamExt as _;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

async fn filled(server: &Server, tenant: &str) -> Client {
    let client = server.owner(tenant).await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await.expect("a table can be made");
    client.batch_execute(&rows(1, 1000)).await.expect("rows can be inserted");
    client
}

fn rows(from: i32, to: i32) -> String {
    format!("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series({from}, {to}) AS s(n)")
}

async fn set(server: &Server, option: &str) {
    let statement = format!("ALTER TENANT acme SET ({option})");
    server.admin().await.batch_execute(&statement).await.expect("the limit can be set");
}

async fn shown(server: &Server, column: &str) -> String {
    let admin = server.admin().await;
    for message in admin.simple_query("SHOW TENANTS").await.expect("tenants can be shown") {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message
            && row.get("name") == Some("acme")
        {
            return row.get(column).unwrap_or("NULL").to_owned();
        }
    }
    panic!("acme is not shown")
}

#[test]
fn a_tenant_at_its_storage_max_is_refused_alone_and_deletes_its_way_out() {
    let server = Server::with_acme();
    run(async {
        server.create_tenant("other").await;
        let (acme, other) = (filled(&server, "acme").await, filled(&server, "other").await);
        set(&server, "storage_max = '3MB'").await;
        assert_eq!(shown(&server, "storage_max").await, "3MiB");
        assert_eq!(state(acme.batch_execute(&rows(2000, 5000)).await), SqlState::DISK_FULL);
        let mut next = 2000;
        while acme.batch_execute(&rows(next, next + 99)).await.is_ok() {
            next += 100;
        }
        assert!(next < 5000, "the limit holds");
        // Below what the rows alone take, so that no checkpoint makes room.
        set(&server, "storage_max = '1MB'").await;
        assert_eq!(state(acme.batch_execute("UPDATE t SET v = 'y' WHERE id = 1").await), SqlState::DISK_FULL);
        let count = (1000 + next - 2000).to_string();
        assert_eq!(text(&acme, "SELECT count(*) FROM t").await, count, "reading goes on");
        other.batch_execute(&rows(2000, 5000)).await.expect("another tenant has no such limit");
        acme.batch_execute("DELETE FROM t WHERE id > 100").await.expect("deleting makes room");
        // Redo of the deleted rows counts until the next checkpoint, a second from now at most.
        let begun = Instant::now();
        while let Err(error) = acme.batch_execute(&rows(2000, 2100)).await {
            assert_eq!(error.code(), Some(&SqlState::DISK_FULL));
            assert!(begun.elapsed() < Duration::from_secs(60), "{error:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        set(&server, "storage_max = 'none'").await;
        acme.batch_execute(&rows(6000, 9000)).await.expect("no limit any more");
    });
}

#[test]
fn a_tenant_at_its_storage_max_truncates_and_drops() {
    let server = Server::with_acme();
    run(async {
        let acme = server.owner("acme").await;
        for table in ["a", "b", "c"] {
            let made = format!(
                "CREATE TABLE {table} (id serial PRIMARY KEY, v text);
                 INSERT INTO {table} (v) SELECT repeat('x', 1000) FROM generate_series(1, 2000)"
            );
            acme.batch_execute(&made).await.expect("there is no limit yet");
        }
        set(&server, "storage_max = '1MB'").await;
        assert_eq!(state(acme.batch_execute("UPDATE c SET v = 'y' WHERE id = 1").await), SqlState::DISK_FULL);
        for statement in ["TRUNCATE a", "TRUNCATE b RESTART IDENTITY", "DROP TABLE c"] {
            acme.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
        assert_eq!(text(&acme, "SELECT last_value FROM a_id_seq").await, "2000");
        assert_eq!(text(&acme, "SELECT last_value FROM b_id_seq").await, "1");
        assert_eq!(text(&acme, "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)").await, "0");
    });
}

/// A round of a neighbour, nothing of which may fail: a change of all rows, and reads of them as they are and as its own
/// open snapshot has them.
async fn work(neighbour: &Client, snapshot: &Client, letter: char) {
    let change = format!("UPDATE t SET v = repeat('{letter}', 1000)");
    neighbour.batch_execute(&change).await.expect("a neighbour is not refused");
    for (client, letter) in [(neighbour, letter), (snapshot, 'x')] {
        let rows = format!("SELECT count(*) FROM t WHERE v = repeat('{letter}', 1000)");
        assert_eq!(text(client, &rows).await, "1000");
    }
}

#[test]
fn a_forgotten_snapshot_costs_its_own_tenant_and_fails_first() {
    let mut server = Server::with_acme();
    server.expect_warnings();
    run(async {
        server.create_tenant("other").await;
        let (acme, other) = (filled(&server, "acme").await, filled(&server, "other").await);
        let snapshot = server.owner("other").await;
        snapshot
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
            .await
            .expect("a snapshot");
        let forgotten = server.owner("acme").await;
        forgotten
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
            .await
            .expect("a snapshot");
        set(&server, "storage_max = '6MB'").await;
        for letter in 'a'..='l' {
            let change = format!("UPDATE t SET v = repeat('{letter}', 1000)");
            let begun = Instant::now();
            // Its redo counts until it is checkpointed, which may be while the next change waits.
            while let Err(error) = acme.batch_execute(&change).await {
                assert_eq!(error.code(), Some(&SqlState::DISK_FULL));
                assert!(begun.elapsed() < Duration::from_secs(60), "{error:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                work(&other, &snapshot, letter).await;
            }
            work(&other, &snapshot, letter).await;
        }
        let error = forgotten.batch_execute("SELECT count(*) FROM t").await.expect_err("it was revoked");
        assert_eq!(error.code().map(SqlState::code), Some("72000"), "{error:?}");
        forgotten.batch_execute("ROLLBACK").await.expect("the session goes on");
        assert_eq!(text(&forgotten, "SELECT count(*) FROM t").await, "1000");
        // Below what its rows take: refused whatever a checkpoint frees.
        set(&server, "storage_max = '1MB'").await;
        assert_eq!(state(acme.batch_execute("UPDATE t SET v = 'y'").await), SqlState::DISK_FULL);
        work(&other, &snapshot, 'm').await;
        snapshot.batch_execute("COMMIT").await.expect("it was never revoked");
    });
}

#[test]
fn a_backup_that_nobody_reads_ends_where_its_versions_take_the_tenant_over_its_limit() {
    let mut server = Server::with_acme();
    server.expect_warnings();
    run(async {
        let (acme, admin) = (filled(&server, "acme").await, server.admin().await);
        // More than lies between the server and a client that does not read.
        acme.batch_execute(&rows(1001, 30_000)).await.expect("there is no limit yet");
        let mut backup = pin!(admin.copy_out("BACKUP TENANT acme TO STDOUT").await.expect("begins"));
        backup.try_next().await.expect("readable").expect("a piece");
        set(&server, "storage_max = '48MB'").await;
        let begun = Instant::now();
        for from in (1..30_000).step_by(500) {
            let change =
                format!("UPDATE t SET v = repeat('y', 1000) WHERE id BETWEEN {from} AND {}", from + 499);
            // The log counts until the next checkpoint.
            while let Err(error) = acme.batch_execute(&change).await {
                assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
                assert!(begun.elapsed() < Duration::from_secs(120), "the backup keeps its versions");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let ended = loop {
            match backup.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the backup is whole, though it was not read"),
                Err(error) => break error,
            }
        };
        assert_eq!(ended.code().map(SqlState::code), Some("72000"), "{ended:?}");
        assert_eq!(text(&acme, "SELECT count(*) FROM t WHERE v = repeat('y', 1000)").await, "30000");
        assert_eq!(text(&admin, "SELECT 1").await, "1", "the session goes on");
    });
}
