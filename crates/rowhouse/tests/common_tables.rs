//! WITH before INSERT, UPDATE and DELETE, and with them in it: rows, counts and errors are those of PostgreSQL 15, which is told the same statements.

mod common;

use common::postgres::Postgres;
use common::{Server, connect, run};
use futures::TryStreamExt as _;
use tokio_postgres::{Client, SimpleQueryMessage};

const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'd'); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30);
    CREATE TABLE u (id int PRIMARY KEY, t_id int, b int); INSERT INTO u VALUES (1, 1, 5), (2, 1, 6), (3, 2, 7);
    CREATE TABLE jobs (id int PRIMARY KEY, state text); INSERT INTO jobs VALUES (1, 'ready'), (2, 'ready'), (3, 'done');
    CREATE TABLE x (id int, a int); INSERT INTO x VALUES (900, 1)";

/// Each in turn, on the tables as those before left them.
const STATEMENTS: &[&str] = &[
    "UPDATE t SET (a, b) = (SELECT DISTINCT c, d FROM (VALUES (1, 'p'), (1, 'q'), (2, 'r')) q (c, d) ORDER BY c, d OFFSET 1 LIMIT 1) WHERE id = 3 RETURNING *",
    "UPDATE t SET (a, b) = (SELECT DISTINCT ON (d) c, d FROM (VALUES (2, 'p'), (1, 'p'), (5, 'q')) q (c, d) ORDER BY d, c LIMIT 1) WHERE id = 3 RETURNING *",
    "UPDATE t SET (a, b) = (SELECT DISTINCT ON (c) c, d FROM (VALUES (1, 'p'), (1, 'q'), (2, 'q')) q (c, d) ORDER BY c DESC, d OFFSET 1) WHERE id = 3 RETURNING *",
    "UPDATE t SET (a, b) = (30, 'd') WHERE id = 3",
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

const CHANGED: &str = "
    CREATE TABLE a (id int PRIMARY KEY, v int, w text DEFAULT 'new', CHECK (v < 1000));
    INSERT INTO a SELECT i, i * 10, 'w' || i FROM generate_series(1, 9) i;
    CREATE TABLE b (id int, v int, w text); INSERT INTO b VALUES (1, 1, 'one'), (4, 4, 'four');
    CREATE TABLE c (id int PRIMARY KEY REFERENCES a ON DELETE CASCADE, n bigint); INSERT INTO c VALUES (7, 70), (8, 80);
    CREATE TABLE s (k serial PRIMARY KEY, name text UNIQUE);
    CREATE VIEW va AS SELECT id, v FROM a";

/// The same for a WITH that changes rows.
const CHANGING: &[&str] = &[
    "WITH moved AS (DELETE FROM a WHERE id = 1 RETURNING *) INSERT INTO b SELECT * FROM moved",
    "WITH moved AS (DELETE FROM a WHERE id = 2 RETURNING *) INSERT INTO b SELECT * FROM moved RETURNING *",
    // All parts see the state before, and only what is returned of the others.
    "WITH d AS (DELETE FROM a WHERE id = 3 RETURNING id) SELECT count(*), (SELECT count(*) FROM d), (SELECT count(*) FROM b) FROM a",
    "WITH i AS (INSERT INTO a VALUES (3, 33) RETURNING id, w) SELECT i.id, i.w, a.v FROM i LEFT JOIN a ON a.id = i.id",
    "WITH u AS (UPDATE a SET v = v + 1 RETURNING *) SELECT a.id, a.v, u.v FROM a JOIN u USING (id) WHERE id < 6",
    "WITH u AS (UPDATE a SET v = v + 1 WHERE id = 4 RETURNING v) SELECT u.v, va.v FROM u, va WHERE va.id = 4",
    // Each runs to its end, whoever reads it.
    "WITH i AS (INSERT INTO b SELECT id, v FROM a WHERE id > 5 RETURNING id) SELECT 1",
    "WITH i AS (INSERT INTO b VALUES (50, 1), (51, 2), (52, 3) RETURNING id) SELECT id FROM i ORDER BY id LIMIT 1",
    "WITH i AS (INSERT INTO b VALUES (60, 1)), d AS (DELETE FROM b WHERE id = 50) UPDATE b SET v = 0 WHERE id = 51",
    "SELECT * FROM b",
    // Names and their columns.
    "WITH i (x, y) AS (INSERT INTO b VALUES (61, 2, 'z') RETURNING id, v, w) SELECT x, y, w FROM i AS j",
    "WITH i (x, y, z) AS (INSERT INTO b VALUES (61, 2, 'z') RETURNING id, v) SELECT * FROM i",
    "WITH i AS (INSERT INTO b VALUES (61, 2, 'z')) SELECT * FROM i",
    "WITH i AS (INSERT INTO b VALUES (61) RETURNING id), i AS (SELECT 1) SELECT 1",
    "WITH a AS (INSERT INTO a VALUES (62, 1) RETURNING id) SELECT * FROM a",
    "WITH a AS (DELETE FROM a WHERE id = 62 RETURNING id, v) INSERT INTO a SELECT id + 1, v FROM a RETURNING *",
    "WITH q AS (SELECT id FROM a WHERE id < 6), d AS (DELETE FROM b USING q WHERE b.id = q.id RETURNING b.id)
     SELECT id FROM q WHERE id NOT IN (SELECT id FROM d)",
    "WITH q AS (SELECT id FROM a WHERE id = 5), u AS (UPDATE a SET v = 7 FROM q WHERE a.id = q.id RETURNING a.*),
     i AS (INSERT INTO b SELECT id, v, 'u' FROM u RETURNING *), n AS (SELECT count(*) AS n FROM i)
     SELECT u.id, u.v, i.w, n.n FROM u, i, n",
    "WITH q AS (WITH p AS (SELECT 4 AS id) SELECT id FROM a), d AS (WITH p AS (SELECT 4 AS id) DELETE FROM a USING p WHERE a.id = p.id RETURNING a.id)
     SELECT * FROM d",
    // What is there already, or else is made.
    "WITH i AS (INSERT INTO s (name) VALUES ('x') ON CONFLICT (name) DO NOTHING RETURNING k, name)
     SELECT k, name FROM i UNION ALL SELECT k, name FROM s WHERE name = 'x'",
    "WITH i AS (INSERT INTO s (name) VALUES ('x') ON CONFLICT (name) DO NOTHING RETURNING k, name)
     SELECT k, name FROM i UNION ALL SELECT k, name FROM s WHERE name = 'x' LIMIT 1",
    "WITH i AS (INSERT INTO s (k, name) VALUES (90, 'y'), (91, 'z') RETURNING k)
     SELECT k FROM i UNION SELECT 90::bigint UNION SELECT id FROM b WHERE id < 3 ORDER BY 1 DESC",
    "WITH i AS (INSERT INTO s (k, name) VALUES (92, 'u') RETURNING k) SELECT k FROM i UNION ALL SELECT 1, 2",
    "WITH u AS (UPDATE a SET v = 5 WHERE id = 77 RETURNING *) INSERT INTO a SELECT 77, 5 WHERE NOT EXISTS (SELECT 1 FROM u)",
    "WITH u AS (UPDATE a SET v = 6 WHERE id = 77 RETURNING *) INSERT INTO a SELECT 77, 5 WHERE NOT EXISTS (SELECT 1 FROM u)",
    "WITH i AS (INSERT INTO s (k, name) VALUES (1, 'x') ON CONFLICT (k) DO UPDATE SET name = excluded.name || '!' RETURNING *) SELECT * FROM i",
    // Constraints look at all of it, and at its end.
    "WITH i AS (INSERT INTO a VALUES (99, 1) RETURNING id) INSERT INTO a SELECT id FROM i",
    "WITH i AS (INSERT INTO a VALUES (100, 1) RETURNING id) INSERT INTO c SELECT id, 1 FROM i RETURNING *",
    "WITH i AS (INSERT INTO c VALUES (101, 1) RETURNING id) INSERT INTO a SELECT id, 1 FROM i RETURNING *",
    "WITH i AS (INSERT INTO c VALUES (102, 1) RETURNING id) SELECT id FROM i",
    "WITH d AS (DELETE FROM a WHERE id = 7 RETURNING id) SELECT d.id, c.n FROM d JOIN c USING (id)",
    "WITH d AS (DELETE FROM c WHERE id = 8 RETURNING id) DELETE FROM a USING d WHERE a.id = d.id RETURNING a.id",
    "WITH u AS (UPDATE a SET v = 2000 WHERE id = 9 RETURNING id) SELECT 1",
    "WITH i AS (INSERT INTO s (k, name) VALUES (200, 'q') RETURNING k) INSERT INTO s (k, name) VALUES (201, 'q')",
    "WITH i AS (INSERT INTO s (k, name) VALUES (200, 'q') RETURNING k)
     INSERT INTO s (k, name) VALUES (200, 'r') ON CONFLICT (k) DO UPDATE SET name = 'rr'",
    "WITH i AS (INSERT INTO s (k, name) VALUES (200, 'q') RETURNING k)
     INSERT INTO s (k, name) VALUES (200, 'r'), (202, 't') ON CONFLICT DO NOTHING RETURNING *",
    // Where it may stand.
    "SELECT * FROM (WITH i AS (INSERT INTO b VALUES (1) RETURNING id) SELECT * FROM i) q",
    "INSERT INTO b WITH i AS (DELETE FROM a RETURNING *) SELECT * FROM i",
    "WITH q AS (WITH i AS (DELETE FROM a RETURNING *) SELECT * FROM i) SELECT * FROM q",
    "WITH q AS (WITH i AS (DELETE FROM a RETURNING *) DELETE FROM b RETURNING *) SELECT * FROM q",
    "WITH RECURSIVE t AS (INSERT INTO b SELECT id FROM t RETURNING id) SELECT * FROM t",
    "WITH RECURSIVE t AS (INSERT INTO b VALUES (300) RETURNING id) SELECT * FROM t",
    "CREATE VIEW vv AS WITH i AS (INSERT INTO b VALUES (1) RETURNING id) SELECT * FROM i",
    "BEGIN", "DECLARE cc CURSOR FOR WITH i AS (INSERT INTO b VALUES (1) RETURNING id) SELECT * FROM i", "ROLLBACK",
    "BEGIN READ ONLY", "WITH i AS (INSERT INTO b VALUES (1) RETURNING id) SELECT * FROM i", "ROLLBACK",
    "PREPARE p (int, text) AS WITH i AS (INSERT INTO b VALUES ($1, 1, $2) RETURNING *), d AS (DELETE FROM b WHERE id = $3 RETURNING id)
     SELECT i.id, i.w, d.id, $4 FROM i LEFT JOIN d ON true",
    "EXECUTE p (400, 'four hundred', 51, 'x')",
    "EXECUTE p (401, 'again', 400, 'y')",
    // What its transaction did before is seen, and a failure takes back all of it.
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "INSERT INTO b VALUES (500, 5, 'five')",
    "WITH d AS (DELETE FROM b WHERE id = 500 RETURNING *), i AS (INSERT INTO b SELECT id + 1, v, w FROM d RETURNING id)
     SELECT b.id, i.id FROM b, i WHERE b.id BETWEEN 500 AND 501",
    "SELECT id FROM b WHERE id BETWEEN 500 AND 501",
    "SAVEPOINT x",
    "WITH d AS (DELETE FROM b RETURNING *) INSERT INTO a SELECT 5, 5000 FROM d",
    "ROLLBACK TO x",
    "SELECT count(*) FROM b",
    "COMMIT",
        // Who changes a row that several would PostgreSQL does not say, but so it is.
    "WITH d AS (DELETE FROM s WHERE k = 1) INSERT INTO s VALUES (1, 'one')",
    "WITH d AS (DELETE FROM s WHERE k = 1 RETURNING k) INSERT INTO s SELECT k, 'one' FROM d RETURNING *",
    "TRUNCATE a, c",
    "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    "WITH u AS (UPDATE a SET v = 11 WHERE id = 1 RETURNING v) UPDATE a SET v = 12 WHERE id < 4 RETURNING id, v",
    "WITH u AS (UPDATE a SET v = 21 WHERE id = 1 RETURNING id, v) UPDATE a SET v = 22 FROM u WHERE a.id <> 4 RETURNING a.id, a.v",
    "WITH d AS (DELETE FROM a WHERE id = 1 RETURNING id), u AS (UPDATE a SET v = 5 RETURNING id, v) SELECT * FROM u",
    "WITH u AS (UPDATE a SET id = 5 WHERE id = 2), e AS (UPDATE a SET v = 6 WHERE id = 2) DELETE FROM a WHERE id = 3 RETURNING id",
    "WITH u AS (UPDATE a SET v = 14 RETURNING id) INSERT INTO a SELECT 3, 1 FROM u LIMIT 1 ON CONFLICT (id) DO UPDATE SET v = 15",
    "WITH u AS (UPDATE a SET v = 14 RETURNING id) INSERT INTO a SELECT 4, 1 FROM u LIMIT 1 ON CONFLICT (id) DO UPDATE SET v = 15",
    "SELECT id, v FROM a",
    "DELETE FROM a",
    "INSERT INTO a VALUES (1, 1), (4, 4)",
    // What each part needs is asked of who runs it.
    "CREATE ROLE reader",
    "GRANT SELECT ON a, b TO reader",
    "GRANT INSERT ON b TO reader",
    "SET ROLE reader",
    "WITH d AS (DELETE FROM a WHERE false RETURNING *) INSERT INTO b SELECT * FROM d",
    "WITH q AS (SELECT id FROM c) INSERT INTO b SELECT id FROM a WHERE false",
    "WITH q AS (SELECT id FROM c), i AS (INSERT INTO b SELECT id FROM a WHERE false) SELECT id FROM q",
    "WITH i AS (INSERT INTO b SELECT id FROM a WHERE id = 3 RETURNING id) SELECT * FROM i",
    "RESET ROLE",
// Rows that another part changed are not given out for an update.
"INSERT INTO a VALUES (901, 5), (902, 5), (903, 6)",
"WITH d AS (DELETE FROM a WHERE id = 901 RETURNING id) SELECT a.id, q.n FROM a, (SELECT count(*) AS n FROM d) q WHERE a.id > 900 FOR UPDATE OF a",
"WITH u AS (UPDATE a SET v = v + 1 WHERE id = 902 RETURNING id) SELECT id FROM a WHERE id > 900 AND (SELECT count(*) FROM u) = 1 ORDER BY id DESC FOR SHARE",
"WITH u AS (UPDATE a SET v = v + 1 WHERE id = 903 RETURNING id) SELECT id FROM a WHERE id > 900 AND (SELECT count(*) FROM u) = 1 ORDER BY id DESC",
// What has no type has that of the other arm.
"WITH d AS (DELETE FROM a WHERE id = 902 RETURNING id, w) SELECT id, w FROM d UNION ALL SELECT NULL, NULL UNION ALL SELECT '7', 'seven'",
"WITH d AS (DELETE FROM a WHERE id = 903 RETURNING id) SELECT NULL AS x UNION SELECT id FROM d",
"WITH d AS (DELETE FROM a WHERE id = 903 RETURNING id) SELECT id FROM d UNION ALL SELECT 'x'",
"WITH d AS (DELETE FROM a WHERE id = 903 RETURNING id) SELECT NULL UNION ALL SELECT 'x' UNION ALL SELECT DISTINCT 'y'",
"WITH d AS (DELETE FROM a WHERE id = 903 RETURNING id) SELECT count(*), '2020-01-01' FROM d UNION ALL SELECT 1, DATE '2020-01-02'",
"SELECT * FROM a", "SELECT * FROM b", "SELECT * FROM c", "SELECT * FROM s",
];

/// Rows in some order and how many they are, or the SQLSTATE.
/// Each in turn, on two rows of each table.
const COPIED: &[&str] = &[
    "COPY (WITH d AS (WITH b AS (SELECT 1 AS id) DELETE FROM a USING b WHERE a.id = b.id RETURNING a.id) SELECT * FROM d) TO STDOUT",
    "COPY (DELETE FROM b WHERE id = 1 RETURNING id, 'x') TO STDOUT",
    "COPY (WITH c AS (SELECT 2 AS id) UPDATE a SET v = 'new' FROM c WHERE a.id = c.id RETURNING a.*) TO STDOUT",
    "COPY (INSERT INTO b (id) VALUES (7), (8) RETURNING id) TO STDOUT WITH (FORMAT csv)",
    "COPY (INSERT INTO b (id) VALUES (9)) TO STDOUT",
    "COPY (WITH d AS (DELETE FROM a RETURNING id) INSERT INTO b (id) SELECT id FROM d) TO STDOUT",
    "COPY (UPDATE a SET v = 'no') TO STDOUT",
    "COPY (DELETE FROM a) TO STDOUT",
    "COPY (WITH d AS (DELETE FROM a WHERE id = 2 RETURNING id) INSERT INTO b (id) SELECT id + 10 FROM d RETURNING id) TO STDOUT",
    "COPY (TABLE b) TO STDOUT",
];

#[test]
fn a_copy_changes_what_its_query_says() {
    let (ours, theirs) = (Server::with_acme(), Postgres::start());
    run(async {
        let ours = ours.owner("acme").await;
        let theirs = connect(&theirs.url()).await.expect("PostgreSQL lets one in");
        let mut found = Vec::new();
        for client in [&ours, &theirs] {
            let tables =
                "CREATE TABLE a (id int, v text); INSERT INTO a VALUES (1, 'one'), (2, 'two'), (3, 'three');
                          CREATE TABLE b (id int, v text); INSERT INTO b VALUES (1, 'un'), (2, 'deux')";
            client.batch_execute(tables).await.expect("tables can be made");
            let mut all = Vec::new();
            for statement in COPIED {
                let copied = match client.copy_out(*statement).await {
                    Err(error) => Err(error),
                    Ok(rows) => rows.try_collect::<Vec<_>>().await,
                };
                let copied = match copied {
                    Ok(rows) => String::from_utf8(rows.concat()).expect("UTF-8"),
                    Err(error) => error.as_db_error().expect("the server's").message().to_owned(),
                };
                all.push(vec![(*statement).to_owned(), copied]);
                for table in ["a", "b"] {
                    all.push(said(client, &format!("SELECT * FROM {table}")).await);
                }
            }
            found.push(all);
        }
        assert_eq!(found[0], found[1]);
    });
}

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
fn a_with_changes_rows_as_postgresql_does_it() {
    let (ours, theirs) = (Server::with_acme(), Postgres::start());
    run(async {
        let ours = ours.owner("acme").await;
        let theirs = connect(&theirs.url()).await.expect("PostgreSQL lets one in");
        for client in [&ours, &theirs] {
            client.batch_execute(CHANGED).await.expect("tables can be made");
        }
        for statement in CHANGING {
            assert_eq!(said(&ours, statement).await, said(&theirs, statement).await, "{statement}");
        }
        for statement in [
            "WITH d AS (DELETE FROM a RETURNING id), w AS (SELECT rank() OVER () FROM d) SELECT * FROM w",
            "CREATE TABLE made AS WITH d AS (DELETE FROM a RETURNING id) SELECT * FROM d",
        ] {
            assert_eq!(said(&ours, statement).await, ["0A000"], "{statement}");
        }
        let plan = said(
            &ours,
            "EXPLAIN (COSTS off) WITH d AS (DELETE FROM a RETURNING *) INSERT INTO b SELECT id FROM d",
        )
        .await;
        for line in ["Insert on b", "CTE d", "  ->  Delete on a"] {
            assert!(plan.iter().any(|said| said == line), "{line}: {plan:?}");
        }
        assert_eq!(said(&ours, "SELECT id FROM a").await, ["(2)", "1", "4"], "EXPLAIN changes nothing");
    });
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
