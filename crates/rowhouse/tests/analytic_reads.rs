//! Queries of the analytical path within what surrounds them: transactions, privileges, long chains.

mod common;

use std::time::{Duration, Instant};

use common::{Server, run, state, text};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Sums a table on the analytical path.
const SUM: &str = "SELECT sum(n) FROM (SELECT n, row_number() OVER (ORDER BY n) FROM t) AS numbered";
const SUM_OF_VIEW: &str = "SELECT sum(n) FROM (SELECT n, row_number() OVER (ORDER BY n) FROM v) AS numbered";

#[test]
fn write_skew_through_an_analytical_query_is_found() {
    let server = Server::with_acme();
    run(async {
        let (one, two) = (server.owner("acme").await, server.owner("acme").await);
        one.batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE other (id int PRIMARY KEY);
             CREATE VIEW v AS SELECT n FROM t",
        )
        .await
        .expect("tables");
        let plan = one.simple_query(&format!("EXPLAIN {SUM}")).await.expect("a plan");
        let said = |line: &SimpleQueryMessage| match line {
            SimpleQueryMessage::Row(row) => row.get(0).is_some_and(|text| text.contains("Analytical path: ")),
            _ => false,
        };
        assert_eq!(plan.into_iter().filter(said).count(), 1, "the path and why, once");
        for (round, query) in [SUM, SUM_OF_VIEW, "INSERT INTO other SELECT coalesce(max(n), 0) + 100 FROM (SELECT n, row_number() OVER (ORDER BY n) FROM t) AS numbered RETURNING id"]
            .into_iter()
            .enumerate()
        {
            for client in [&one, &two] {
                client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.expect("it begins");
            }
            // Each reads all rows and adds one that the other has not seen.
            one.simple_query(query).await.expect("a sum");
            two.simple_query(SUM).await.expect("a sum");
            one.batch_execute(&format!("INSERT INTO t VALUES ({round}, 1)")).await.expect("a row");
            two.batch_execute(&format!("INSERT INTO t VALUES (1{round}, 1)")).await.expect("a row");
            two.batch_execute("COMMIT").await.expect("the first one");
            assert_eq!(state(one.batch_execute("COMMIT").await), SqlState::T_R_SERIALIZATION_FAILURE, "{query}");
        }
        // What nobody read is in nobody's way.
        for client in [&one, &two] {
            client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.expect("it begins");
        }
        one.simple_query(SUM).await.expect("a sum");
        two.batch_execute("INSERT INTO other VALUES (1); COMMIT").await.expect("another table");
        one.batch_execute("INSERT INTO t VALUES (50, 1); COMMIT").await.expect("nothing it read has changed");
    });
}

#[test]
fn who_reads_a_table_and_who_takes_it_away_wait_for_each_other() {
    let server = Server::with_acme();
    run(async {
        let (one, other) = (server.owner("acme").await, server.owner("acme").await);
        one.batch_execute(
            "CREATE TABLE t (n int); CREATE VIEW v AS SELECT n FROM t; INSERT INTO t VALUES (1), (2)",
        )
        .await
        .expect("tables");
        for client in [&one, &other] {
            client.batch_execute("SET lock_timeout = '200ms'").await.expect("set");
        }
        let changes = ["TRUNCATE t", "ALTER TABLE t ADD COLUMN x int", "DROP TABLE t CASCADE"];
        for query in [SUM, SUM_OF_VIEW] {
            one.batch_execute("BEGIN").await.expect("it begins");
            assert_eq!(text(&one, query).await, "3", "{query}");
            for change in changes {
                let refused = other.batch_execute(change).await;
                assert_eq!(state(refused), SqlState::LOCK_NOT_AVAILABLE, "{change} behind {query}");
            }
            other.batch_execute("BEGIN; INSERT INTO t VALUES (3); ROLLBACK").await.expect("rows may come");
            one.batch_execute("COMMIT").await.expect("it ends");
        }
        for change in changes {
            other.batch_execute(&format!("BEGIN; {change}")).await.expect("changed");
            assert_eq!(state(one.simple_query(SUM).await), SqlState::LOCK_NOT_AVAILABLE, "{change}");
            other.batch_execute("ROLLBACK").await.expect("it was not");
        }
        // A circle is seen at once.
        one.batch_execute("CREATE TABLE u (n int)").await.expect("a table");
        one.batch_execute("BEGIN; LOCK TABLE u").await.expect("locked");
        other.batch_execute("SET lock_timeout = 0; BEGIN").await.expect("it begins");
        assert_eq!(text(&other, SUM).await, "3");
        let drop = one.batch_execute("SET lock_timeout = 0; TRUNCATE t; COMMIT");
        let circle = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let query = "SELECT max(n) FROM (SELECT n, row_number() OVER (ORDER BY n) FROM u) AS numbered";
            let refused = other.simple_query(query).await;
            other.batch_execute("ROLLBACK").await.expect("it ends");
            refused
        };
        let (dropped, refused) = tokio::join!(drop, circle);
        assert_eq!(state(refused), SqlState::T_R_DEADLOCK_DETECTED);
        dropped.expect("nobody reads it any more");
    });
}

#[test]
fn a_common_table_hides_no_table_from_the_check_of_privileges() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        owner
            .batch_execute(
                "CREATE TABLE secret (v text); INSERT INTO secret VALUES ('plans');
                 CREATE VIEW shown AS SELECT count(*) AS n FROM (SELECT v, row_number() OVER () FROM secret) AS s;
                 CREATE ROLE reader LOGIN PASSWORD 'secret'; GRANT SELECT ON shown TO reader",
            )
            .await
            .expect("tables and a role");
        let reader = server.connect_as("reader", "acme").await.expect("it may log in");
        let numbered = "row_number() OVER ()";
        for query in [
            format!("SELECT v, {numbered} FROM secret"),
            format!("WITH secret AS (SELECT * FROM secret) SELECT v, {numbered} FROM secret"),
            format!("WITH a AS (SELECT * FROM secret), secret AS (SELECT 1) SELECT v, {numbered} FROM a"),
            format!(
                "SELECT (WITH secret AS (SELECT 1 AS x) SELECT x FROM secret), v, {numbered} FROM secret"
            ),
            format!(
                "SELECT v, {numbered} FROM (WITH secret AS (SELECT 1) SELECT 1 FROM secret) AS s, secret"
            ),
            format!(
                "WITH RECURSIVE r AS (SELECT v FROM secret UNION ALL SELECT v FROM r WHERE false) SELECT v, {numbered} FROM r"
            ),
        ] {
            let refused = reader.simple_query(&query).await;
            assert_eq!(state(refused), SqlState::INSUFFICIENT_PRIVILEGE, "{query}");
        }
        for (query, answer) in [
            // A view's owner answers for what stands in it.
            (format!("SELECT n, {numbered} FROM shown"), "1"),
            (format!("WITH secret AS (SELECT 'mine' AS v) SELECT v, {numbered} FROM secret"), "mine"),
            (
                format!(
                    "WITH secret AS (SELECT 'mine' AS v), b AS (SELECT v FROM secret) SELECT v, {numbered} FROM b"
                ),
                "mine",
            ),
            (
                format!("WITH secret AS (SELECT 'mine' AS v) SELECT (SELECT v FROM secret), {numbered}"),
                "mine",
            ),
        ] {
            assert_eq!(text(&reader, &query).await, answer, "{query}");
        }
    });
}

#[test]
fn a_long_chain_of_unions_is_answered() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        for link in [" UNION ALL ", " UNION "] {
            let terms: Vec<String> = (0..1500).map(|n| format!("SELECT {}", n % 1000)).collect();
            let query = format!("SELECT count(*) FROM ({}) AS chain", terms.join(link));
            let rows = if link == " UNION " { "1000" } else { "1500" };
            assert_eq!(text(&client, &query).await, rows, "{link}");
        }
        // NULLs and mixed types, somewhere in a chain; and chains that are not of one kind.
        for (query, rows) in [
            ("SELECT 1 UNION ALL SELECT NULL UNION ALL SELECT 2", "3"),
            ("SELECT 1 UNION SELECT NULL UNION SELECT NULL", "2"),
            ("SELECT 1 UNION ALL SELECT 2.5 UNION ALL SELECT 1", "3"),
            ("SELECT 1 UNION ALL SELECT 1 UNION SELECT 1", "1"),
            ("SELECT 1 UNION SELECT 1 UNION ALL SELECT 1", "2"),
            ("SELECT 1 UNION (SELECT 1 UNION ALL SELECT 1)", "1"),
            ("SELECT 1 UNION ALL SELECT 1 EXCEPT SELECT 2", "1"),
            ("SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT 2", "2"),
        ] {
            let found = text(&client, &format!("SELECT count(*) FROM ({query}) AS chain")).await;
            assert_eq!(found, rows, "{query}");
        }
    });
}

/// The lines of an EXPLAIN, and the milliseconds that its client waited for them.
async fn explained(client: &Client, explain: &str) -> (Vec<String>, f64) {
    let begun = Instant::now();
    let messages = client.simple_query(explain).await.unwrap_or_else(|error| panic!("{explain}: {error:?}"));
    let waited = begun.elapsed().as_secs_f64() * 1e3;
    let line = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    (messages.into_iter().filter_map(line).collect(), waited)
}

/// What stands behind `label` in these lines up to one of `ends`, once for each time that it is there.
fn behind<'a>(lines: &'a [String], label: &str, ends: &[char]) -> Vec<&'a str> {
    let pieces = lines.iter().flat_map(|line| line.split(label).skip(1));
    pieces.map(|rest| rest.split(ends).next().unwrap_or(rest)).collect()
}

/// Milliseconds of a duration as DataFusion writes it: `1.50ms`, `12.30µs`, `900ns`.
fn milliseconds(duration: &str) -> f64 {
    let unit = duration.find(|c: char| c != '.' && !c.is_ascii_digit()).expect("a unit");
    let number: f64 = duration[..unit].parse().expect("a number");
    number
        * match &duration[unit..] {
            "s" => 1e3,
            "ms" => 1.0,
            "ns" => 1e-6,
            _ => 1e-3,
        }
}

#[test]
fn an_analyzed_plan_tells_how_long_it_really_took_on_both_paths() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        client
            .batch_execute(
                "CREATE TABLE t (id int PRIMARY KEY, n int);
                 INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 900) AS s(g)",
            )
            .await
            .expect("rows");
        let update = "UPDATE t SET n = n + 1 WHERE id > 0";
        let (lines, waited) = explained(&client, &format!("EXPLAIN ANALYZE {update}")).await;
        assert!(lines[0].starts_with("Point path"), "{lines:#?}");
        let number = |text: &&str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text} in {lines:#?}"));
        let [planning, execution] = ["Planning Time: ", "Execution Time: "].map(|label| {
            let found = behind(&lines, label, &[' ']);
            assert_eq!(found.len(), 1, "{lines:#?}");
            number(&found[0])
        });
        assert!(planning > 0.0 && execution > 0.0, "{lines:#?}");
        assert!(planning + execution <= waited, "{waited} ms: {lines:#?}");
        let nodes: Vec<f64> = behind(&lines, "(actual time=", &[' ']).iter().map(number).collect();
        // Each is rounded to a microsecond.
        assert!(nodes.iter().all(|time| *time > 0.0 && *time <= execution + 0.001), "{lines:#?}");
        assert!(!nodes.is_empty() && behind(&lines, " rows=", &[' ']).contains(&"900"), "{lines:#?}");
        let (lines, _) = explained(&client, &format!("EXPLAIN (ANALYZE, TIMING OFF) {update}")).await;
        assert!(lines.iter().any(|line| line.contains("(actual rows=900")), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("ime")), "{lines:#?}");
        assert_eq!(text(&client, "SELECT sum(n) - sum(id % 7) FROM t").await, "1800", "both were run");

        let (lines, waited) = explained(&client, &format!("EXPLAIN ANALYZE {SUM}")).await;
        assert!(lines[0].starts_with("Analytical path: "), "{lines:#?}");
        let nodes: Vec<f64> =
            behind(&lines, "elapsed_compute=", &[',', ']']).into_iter().map(milliseconds).collect();
        assert!(nodes.iter().any(|time| *time > 0.0), "{lines:#?}");
        assert!(nodes.iter().all(|time| *time <= waited), "{waited} ms: {lines:#?}");
        assert_eq!(lines.last().map(String::as_str), Some("Rows: 1"));
    });
}
