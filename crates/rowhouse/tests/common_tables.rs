//! WITH before INSERT, UPDATE and DELETE: rows, counts and errors are those of PostgreSQL 15, which is told the same statements.

mod common;

use common::postgres::Postgres;
use common::{Server, connect, run};
use tokio_postgres::{Client, SimpleQueryMessage};

const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'd'); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30);
    CREATE TABLE u (id int PRIMARY KEY, t_id int, b int); INSERT INTO u VALUES (1, 1, 5), (2, 1, 6), (3, 2, 7);
    CREATE TABLE jobs (id int PRIMARY KEY, state text); INSERT INTO jobs VALUES (1, 'ready'), (2, 'ready'), (3, 'done');
    CREATE TABLE x (id int, a int); INSERT INTO x VALUES (900, 1)";

/// Each in turn, on the tables as those before left them.
const STATEMENTS: &[&str] = &[
    "WITH s AS (SELECT 1) INSERT INTO t VALUES (4, 1) RETURNING *",
    "WITH s AS (SELECT id + 10 AS id, b FROM u) INSERT INTO t (id, a) SELECT id, b FROM s WHERE b > 5 RETURNING *",
    "WITH s AS (SELECT max(id) AS m FROM t) INSERT INTO t VALUES ((SELECT m + 1 FROM s), DEFAULT, 'v') RETURNING *",
    "WITH s (i, j) AS (SELECT id + 20, b FROM u), r AS (SELECT i, j * 2 AS k FROM s)
     INSERT INTO t SELECT i, k FROM r ORDER BY 1 LIMIT 2 RETURNING *",
    "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 103)
     INSERT INTO t (id) SELECT i FROM n RETURNING id",
    "WITH o AS (SELECT 300 AS id) INSERT INTO t (id) WITH i AS (SELECT id + 1 AS id FROM o) SELECT id FROM i RETURNING id",
    "WITH o AS (SELECT 1 AS id, 'c' AS b) INSERT INTO t (id, b) SELECT id, b FROM o
     ON CONFLICT (id) DO UPDATE SET b = excluded.b || (SELECT b FROM o) RETURNING id, b, (SELECT count(*) FROM o)",
    "WITH s AS (SELECT t_id AS id, sum(b) AS s FROM u GROUP BY t_id) UPDATE t SET a = s.s FROM s WHERE s.id = t.id RETURNING t.id, t.a",
    "WITH s AS (SELECT t_id AS id, b FROM u) UPDATE t SET a = (SELECT max(b) FROM s WHERE s.id = t.id)
     WHERE id IN (SELECT id FROM s) RETURNING id, a",
    "WITH s AS (SELECT t_id AS id, b FROM u), y AS (SELECT id, count(*) AS n FROM s GROUP BY id)
     UPDATE t AS z SET a = y.n FROM y WHERE y.id = z.id RETURNING z.id, z.a",
    "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 103)
     UPDATE t SET a = 7 FROM n WHERE n.i = t.id RETURNING id",
    "WITH p AS (SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
     UPDATE jobs SET state = 'run' FROM p WHERE p.id = jobs.id RETURNING jobs.*",
    "WITH p AS (SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
     UPDATE jobs SET state = 'run' WHERE id IN (SELECT id FROM p) RETURNING *",
    "WITH p AS (SELECT id FROM jobs WHERE state = 'run' ORDER BY id LIMIT 1 FOR UPDATE)
     DELETE FROM jobs j WHERE j.id = (SELECT p.id FROM p) RETURNING *",
    "WITH old AS MATERIALIZED (SELECT id FROM t WHERE id >= 100) DELETE FROM t USING old WHERE t.id = old.id RETURNING t.id",
    "WITH old AS (SELECT id FROM t WHERE id > 10), keep AS (SELECT max(id) AS id FROM old)
     DELETE FROM t WHERE id IN (SELECT id FROM old) AND id NOT IN (SELECT id FROM keep) RETURNING id",
    "WITH d(k) AS (VALUES (1), (2)) DELETE FROM t USING d WHERE t.id = d.k RETURNING id",
    "WITH d(k, l) AS (VALUES (3, 'three')) UPDATE t SET b = q.l FROM d AS q (kk) WHERE t.id = q.kk RETURNING id, t.b",
    // A table that is called like a common one is what is changed.
    "WITH x AS (SELECT 1 AS id) UPDATE x SET a = 2 RETURNING *",
    "WITH x AS (SELECT 901 AS id, 2 AS a) INSERT INTO x SELECT * FROM x RETURNING *",
    "WITH x AS (SELECT 1 AS id) UPDATE public.x SET a = 5 WHERE EXISTS (SELECT FROM x WHERE id = 1) RETURNING *",
    "WITH x AS (SELECT 1), x AS (SELECT 2) DELETE FROM t",
    "WITH x AS (SELECT nosuch FROM t) DELETE FROM t WHERE id IN (SELECT 1 FROM x)",
    "WITH x AS (SELECT 5 AS i) DELETE FROM t WHERE id = (WITH y AS (SELECT i FROM x) SELECT i FROM y)",
    "PREPARE q (int) AS WITH x AS (SELECT $1 AS id) UPDATE t SET a = x.id FROM x WHERE t.id = 3 RETURNING t.a",
    "EXECUTE q (77)",
    "PREPARE r AS WITH x AS (SELECT $1::int AS id) INSERT INTO t (id) SELECT id FROM x RETURNING id",
    "EXECUTE r (555)",
    "PREPARE s (int) AS WITH a AS (SELECT id FROM u WHERE id = $1), b AS (SELECT id + $2::int AS id FROM a)
     INSERT INTO t (id) SELECT id FROM b RETURNING id",
    "EXECUTE s (1, 600)",
    "PREPARE v AS WITH a AS (SELECT id FROM u WHERE id = $1), b AS (SELECT id + 700 AS id FROM a) INSERT INTO t SELECT id FROM b RETURNING *",
    "EXECUTE v (1)",
    // What its transaction has changed before is seen.
    "BEGIN",
    "INSERT INTO u VALUES (50, 50, 50)",
    "WITH s AS (SELECT t_id, max(b) b FROM u GROUP BY 1) INSERT INTO t (id, a) SELECT t_id, b FROM s WHERE t_id = 50 RETURNING *",
    "WITH s AS (SELECT id, a + 1 AS n FROM t WHERE id = 50) UPDATE t SET a = s.n FROM s WHERE s.id = t.id RETURNING t.*",
    "ROLLBACK",
    "SELECT id, a, b FROM t",
    "SELECT id, a FROM x",
    "SELECT id, state FROM jobs",
];

/// Rows in some order and how many they are, or the SQLSTATE.
async fn said(client: &Client, statement: &str) -> Vec<String> {
    match client.simple_query(statement).await {
        Err(error) => vec![error.code().expect("an error of the server's").code().to_owned()],
        Ok(messages) => {
            let mut lines: Vec<String> = messages
                .iter()
                .filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => {
                        let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                        Some(values.collect::<Vec<_>>().join("|"))
                    }
                    SimpleQueryMessage::CommandComplete(count) => Some(format!("({count})")),
                    _ => None,
                })
                .collect();
            lines.sort();
            lines
        }
    }
}

#[test]
fn changes_take_common_tables_as_postgresql_has_them() {
    let (ours, theirs) = (Server::with_acme(), Postgres::start());
    run(async {
        let ours = ours.owner("acme").await;
        let theirs = connect(&theirs.url()).await.expect("PostgreSQL lets one in");
        for client in [&ours, &theirs] {
            client.batch_execute(TABLES).await.expect("tables can be made");
        }
        for statement in STATEMENTS {
            assert_eq!(said(&ours, statement).await, said(&theirs, statement).await, "{statement}");
        }
        // Rows that PostgreSQL would compute once.
        for statement in [
            "WITH s AS (SELECT random() AS r) UPDATE t SET a = 1 WHERE (SELECT r FROM s) = (SELECT r FROM s)",
            "WITH s AS (SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED), r AS (SELECT id FROM s)
             DELETE FROM jobs WHERE id IN (SELECT id FROM r) OR id IN (SELECT id FROM r)",
            "WITH moved AS (DELETE FROM t RETURNING *) INSERT INTO x SELECT id, a FROM moved",
        ] {
            assert_eq!(said(&ours, statement).await, ["0A000"], "{statement}");
        }
        // Copies have an end.
        let lists = (1..200).map(|n| format!(", c{n} AS (SELECT a.i FROM c{0} a, c{0} b)", n - 1));
        let uses = "OR id IN (SELECT i FROM c199)".repeat(200);
        let many = format!(
            "WITH c0 AS (SELECT 1 AS i){} DELETE FROM t WHERE false {uses}",
            lists.collect::<String>()
        );
        assert_eq!(said(&ours, &many).await, ["54001"]);
    });
}
