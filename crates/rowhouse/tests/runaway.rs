//! Runaway rules and a promise's `statement_timeout` by wire, over a crash, and what the operator reads of them.

mod common;

use std::time::{Duration, Instant};

use common::{Server, run, text};
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};

const TABLE: &str = "CREATE TABLE t (n int PRIMARY KEY, s text); INSERT INTO t SELECT g, 'x' FROM generate_series(1, 20000) g";

/// The server's error for a statement.
async fn refused(client: &Client, sql: &str) -> DbError {
    let error = client.batch_execute(sql).await.expect_err(sql);
    error.as_db_error().unwrap_or_else(|| panic!("not the server's error: {error}")).clone()
}

#[test]
fn a_rule_is_kept_over_a_crash_and_tells_the_operator_what_it_did() {
    let mut server = Server::with_acme();
    server.expect_warnings();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        owner.batch_execute(TABLE).await.expect("rows");
        admin
            .batch_execute("CREATE RUNAWAY RULE \"big reads\" FOR TENANT acme AS (rows = 10000)")
            .await
            .expect("made");
    });
    server.kill();
    server.restart();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        // Its literals fill what is shown of it, and more.
        let long = format!("UPDATE t SET s = '{}' WHERE s = 'x'", "y".repeat(500));
        owner.batch_execute(&long).await.expect("it is logged, and goes on");
        assert_eq!(text(&admin, "SHOW RUNAWAY RULES").await, "big reads");
        let until = Instant::now() + Duration::from_secs(20);
        let line = loop {
            let log = server.log();
            if let Some(line) = log.lines().find(|line| line.contains("a statement ran away")) {
                break line.to_owned();
            }
            assert!(Instant::now() < until, "nothing is logged:\n{log}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        for part in
            ["WARN", "acme", "big reads", "action=\"log\"", " rows, more than 10000", "UPDATE t SET s = 'yyy"]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains(&"y".repeat(200)), "{line}");
        admin
            .batch_execute("ALTER RUNAWAY RULE \"big reads\" SET (rows = 19999, action = 'cancel')")
            .await
            .expect("altered");
        let error = refused(&owner, "UPDATE t SET s = 'z'").await;
        assert_eq!(error.code(), &SqlState::QUERY_CANCELED);
        assert_eq!(error.message(), "canceling statement due to runaway rule \"big reads\"");
        assert!(error.detail().is_some_and(|detail| detail.contains("more than 19999")), "{error:?}");
        assert_eq!(text(&owner, "SELECT count(*) FROM t WHERE n < 100 AND s = 'z'").await, "0");
        admin.batch_execute("DROP RUNAWAY RULE \"big reads\"").await.expect("dropped");
        owner.batch_execute("UPDATE t SET s = 'z'").await.expect("nobody minds");
    });
}

#[test]
fn a_promised_statement_timeout_binds_sessions_over_a_crash() {
    let mut server = Server::with_acme();
    run(async {
        let admin = server.admin().await;
        admin.batch_execute("ALTER TENANT acme SET (statement_timeout = '250ms')").await.expect("altered");
    });
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        owner.batch_execute("SET statement_timeout = 0").await.expect("drivers and dumps say so");
        assert_eq!(text(&owner, "SHOW statement_timeout").await, "250ms");
        let error = refused(&owner, "SELECT pg_sleep(60)").await;
        assert_eq!(error.code(), &SqlState::QUERY_CANCELED);
        assert_eq!(error.message(), "canceling statement due to statement timeout");
        assert_eq!(error.detail(), Some("The tenant's statement_timeout is 250ms."));
    });
}

#[test]
fn a_query_of_the_analytical_path_is_held_to_what_it_reads() {
    let mut server = Server::with_acme();
    server.expect_warnings();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        owner.batch_execute(TABLE).await.expect("rows");
        let rule = "CREATE RUNAWAY RULE much FOR TENANT acme AS (rows = 39999, action = 'cancel')";
        admin.batch_execute(rule).await.expect("made");
        let query = "SELECT count(*) FROM (SELECT n FROM t UNION SELECT n FROM t) AS u";
        let error = refused(&owner, query).await;
        assert_eq!(error.code(), &SqlState::QUERY_CANCELED, "{error:?}");
        assert_eq!(error.detail(), Some("It took 40000 rows, more than 39999."));
        admin.batch_execute("ALTER RUNAWAY RULE much SET (rows = 40000)").await.expect("altered");
        assert_eq!(text(&owner, query).await, "20000");
    });
}
