//! Working memory by wire: what does not fit is put aside, and is right; promises of it hold beside neighbours who want it all; past a limit one statement fails.

mod common;

use std::time::{Duration, Instant};

use common::{Server, run};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

/// Some 6 MB of rows; `k` names each of them, in no order.
const ROWS: u64 = 30_000;

async fn rows(client: &Client, sql: &str) -> Vec<SimpleQueryRow> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
    messages.into_iter().filter_map(row).collect()
}

async fn one(client: &Client, sql: &str) -> String {
    rows(client, sql).await[0].get(0).expect("not null").to_owned()
}

/// As [`one`]: three queries of a tenant at a time may find nothing left of what it is assured for the merge of one of them, which fails by itself and can be tried again.
async fn one_when_there_is_memory(client: &Client, sql: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while let Err(error) = client.simple_query(sql).await {
        let is_memory = error.code() == Some(&SqlState::OUT_OF_MEMORY);
        assert!(is_memory && Instant::now() < until, "{sql}: {error:?}");
    }
}

async fn fill(owner: &Client) {
    let tables = format!(
        "CREATE TABLE t (n int PRIMARY KEY, k text, pad text);
         INSERT INTO t SELECT g, md5(g::text), repeat(md5((g * 7)::text), 4) FROM generate_series(1, {ROWS}) g;
         CREATE TABLE u (n int PRIMARY KEY, k text, pad text);
         INSERT INTO u SELECT * FROM t"
    );
    owner.batch_execute(&tables).await.expect("rows");
}

/// Queries that hold many rows at once: sorts, hash tables of groups, joins, DISTINCT, windows.
const LARGE: [&str; 6] = [
    "SELECT md5(string_agg(n::text, ',')) FROM (SELECT n FROM (SELECT n, k, pad FROM t ORDER BY k, pad OFFSET 10) s LIMIT 20000) s",
    "SELECT sum(c) FROM (SELECT pad, k, count(*) AS c FROM t GROUP BY pad, k) s",
    "SELECT count(*) || ' ' || sum(t.n + u.n) FROM t JOIN u ON t.k = u.k AND t.pad = u.pad",
    "SELECT count(*) || ' ' || count(u.n) FROM t LEFT JOIN u ON t.k = u.k AND u.n % 3 = 0 WHERE t.pad > 'a' OR u.pad IS NULL",
    "SELECT count(*) FROM (SELECT DISTINCT k, pad FROM t) s",
    "SELECT sum(r) FROM (SELECT row_number() OVER (ORDER BY pad, k) AS r, pad FROM t) s",
];

#[test]
fn what_does_not_fit_working_memory_is_put_aside_and_is_right() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        fill(&owner).await;
        let mut expected = Vec::new();
        for query in LARGE {
            expected.push(one(&owner, query).await);
        }
        let hashed = rows(&owner, &format!("EXPLAIN {}", LARGE[2])).await;
        assert!(hashed.iter().any(|row| row.get(0).unwrap().contains("HashJoinExec")), "{hashed:?}");
        for max in ["4MB", "3MB"] {
            let limit = format!("ALTER TENANT acme SET (work_memory = '1MB', work_memory_max = '{max}')");
            admin.batch_execute(&limit).await.expect("altered");
            for (query, expected) in LARGE.iter().zip(&expected) {
                assert_eq!(&one(&owner, query).await, expected, "{query} in {max}");
            }
        }
        let merged = rows(&owner, &format!("EXPLAIN ANALYZE {}", LARGE[2])).await;
        assert!(merged.iter().any(|row| row.get(0).unwrap().contains("SortMergeJoin")), "{merged:?}");
        let of_acme = |what: &str| {
            format!("SELECT {what} FROM rowhouse.ledger WHERE tenant = 'acme' AND resource = 'work_memory'")
        };
        let until = Instant::now() + Duration::from_secs(60);
        while one(&admin, &of_acme("count(*)")).await == "0" {
            assert!(Instant::now() < until, "no interval ends");
        }
        // What is put aside with more than was promised is no more than with as much as was promised.
        assert_eq!(one(&admin, &of_acme("sum(given) > 0 AND sum(demanded) > 0")).await, "t");
        let all = rows(&admin, "SHOW TENANTS").await;
        let acme = all.iter().find(|row| row.get("name") == Some("acme")).expect("acme is there");
        assert_eq!(acme.get("work_memory_used"), Some("0"), "nothing is held when no query runs");
    });
}

#[test]
fn a_join_of_floats_has_one_answer_or_none() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        fill(&owner).await;
        let zeros = "CREATE TABLE f (n int PRIMARY KEY, x float8, k text);
             INSERT INTO f SELECT n, CASE WHEN n % 2 = 0 THEN '-0'::float8 WHEN n % 3 = 0 THEN 'NaN' ELSE 0 END, k FROM t";
        owner.batch_execute(zeros).await.expect("rows");
        let query = "SELECT count(*) || ' ' || sum(a.n) FROM f a JOIN f b ON a.x = b.x AND a.k = b.k";
        let expected = one(&owner, query).await;
        admin.batch_execute("ALTER TENANT acme SET (work_memory_max = '3MB')").await.expect("altered");
        match owner.simple_query(query).await {
            Ok(_) => assert_eq!(one(&owner, query).await, expected),
            Err(error) => assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "{error:?}"),
        }
    });
}

#[test]
fn past_the_limit_one_statement_fails_and_nobody_else_notices() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        fill(&owner).await;
        admin.batch_execute("ALTER TENANT acme SET (work_memory_max = '2MB')").await.expect("altered");
        let error = owner.batch_execute("SELECT array_agg(pad) FROM t").await.expect_err("it cannot spill");
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "{error:?}");
        let detail = error.as_db_error().and_then(|error| error.detail()).unwrap_or_default().to_owned();
        assert!(detail.contains("work_memory_max is 2MiB"), "{detail}");
        assert_eq!(one(&owner, "SELECT count(*) FROM t").await, ROWS.to_string());
        admin.batch_execute("ALTER TENANT acme SET (work_memory_max = none)").await.expect("altered");
        owner.batch_execute("SELECT array_agg(pad) FROM t").await.expect("it fits");
    });
}

/// Bytes that a tenant's queries have put aside.
async fn temp_used(admin: &Client, tenant: &str) -> u64 {
    let all = rows(admin, "SHOW TENANTS").await;
    let row = all.iter().find(|row| row.get("name") == Some(tenant)).expect("the tenant is there");
    row.get("temp_used").expect("a number").parse().expect("a number")
}

#[test]
fn past_temp_max_one_tenants_query_fails_and_leaves_no_files() {
    let server = Server::start();
    let sort = LARGE[5];
    run(async {
        let admin = server.admin().await;
        for tenant in ["acme", "other"] {
            server.create_tenant(tenant).await;
            fill(&server.owner(tenant).await).await;
            let limit = format!("ALTER TENANT {tenant} SET (work_memory_max = '3MB')");
            admin.batch_execute(&limit).await.expect("altered");
        }
        admin.batch_execute("ALTER TENANT acme SET (temp_max = '1MB')").await.expect("altered");
        let (acme, other) = (server.owner("acme").await, server.owner("other").await);
        let error = acme.simple_query(sort).await.expect_err("it puts more aside");
        assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
        let message = error.as_db_error().expect("the server's error").message();
        assert!(message.contains("temp_max of 1MiB"), "{message}");
        assert_eq!(one(&acme, "SELECT count(*) FROM t").await, ROWS.to_string(), "the session goes on");

        // The neighbour's same query puts aside what acme's may not.
        let running = tokio::spawn(async move { one(&other, sort).await });
        let mut most = 0;
        while !running.is_finished() {
            most = most.max(temp_used(&admin, "other").await);
        }
        let expected = running.await.expect("a neighbour has no such limit");
        assert!(most > 1 << 20, "the neighbour put {most} bytes aside");

        let until = Instant::now() + Duration::from_secs(10);
        for tenant in ["acme", "other"] {
            while temp_used(&admin, tenant).await > 0 {
                assert!(Instant::now() < until, "{tenant} keeps files of queries that ended");
            }
        }
        let files = std::fs::read_dir(server.data().join("tmp")).expect("the directory of temporary files");
        assert_eq!(files.count(), 0);
        admin.batch_execute("ALTER TENANT acme SET (temp_max = none)").await.expect("altered");
        assert_eq!(one(&acme, sort).await, expected, "without the limit it has the same answer");
    });
}

#[test]
fn promised_working_memory_is_there_beside_neighbours_who_want_it_all() {
    let server = Server::start_with(&["--work-memory", "24MiB"]);
    run(async {
        let admin = server.admin().await;
        for (tenant, promised) in [("acme", "24MiB"), ("other", "1MB")] {
            server.create_tenant(tenant).await;
            let promise = format!("ALTER TENANT {tenant} SET (work_memory = '{promised}')");
            admin.batch_execute(&promise).await.expect("altered");
            fill(&server.owner(tenant).await).await;
        }
        let mut neighbours = Vec::new();
        for _ in 0..3 {
            let neighbour = server.owner("other").await;
            neighbours.push(tokio::spawn(async move {
                for query in LARGE {
                    one_when_there_is_memory(&neighbour, query).await;
                }
            }));
        }
        let acme = server.owner("acme").await;
        for query in LARGE {
            one(&acme, query).await;
        }
        for neighbour in neighbours {
            neighbour.await.expect("a neighbour's queries go on, by spilling");
        }
        let of = |tenant: &str| {
            format!(
                "SELECT coalesce(sum(given), 0)::int8 FROM rowhouse.ledger WHERE resource = 'work_memory' AND tenant = '{tenant}'"
            )
        };
        let until = Instant::now() + Duration::from_secs(60);
        while one(&admin, &of("other")).await == "0" {
            assert!(Instant::now() < until, "the neighbour put nothing aside");
        }
        assert_eq!(one(&admin, &of("acme")).await, "0", "it put nothing aside");
    });
}
