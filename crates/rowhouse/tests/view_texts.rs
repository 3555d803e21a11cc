//! The texts of views: what `pg_get_viewdef` prints makes the same view again, here and in PostgreSQL 15.

mod common;

use common::postgres::Postgres;
use common::{Server, connect, run};
use tokio_postgres::Client;

const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, a int, b text, n numeric(10, 2), d date, ts timestamp, tz timestamptz, f float8, ok bool,
                    tags text[], j jsonb, iv interval, ch char(3));
    CREATE TABLE u (id int PRIMARY KEY, t_id int, b text, \"Odd Name\" int, \"order\" int);
    CREATE SEQUENCE sq;
    CREATE TYPE mood AS ENUM ('sad', 'it''s ok');
    CREATE SCHEMA other; CREATE TABLE other.w (id int, t_id int);
    INSERT INTO t VALUES (1, 10, 'it''s', 1.5, '2020-02-03', '2020-02-03 04:05:06', '2020-02-03 04:05:06+00', 2.5, true, '{x,y}', '{\"k\": [1, 2]}', '1 day 2 hours', 'abc'),
                         (2, 20, E'back\\slash', 2.5, NULL, NULL, NULL, NULL, false, '{}', NULL, NULL, NULL);
    INSERT INTO u VALUES (1, 1, 'one', 5, 6), (2, 1, 'two', 7, 8)";

/// The queries, each of a view.
const QUERIES: &[&str] = &[
    "SELECT * FROM t",
    "SELECT t.*, u.b AS ub FROM t JOIN u ON u.t_id = t.id",
    "SELECT u.*, x.* FROM u, other.w AS x (i, k)",
    "SELECT * FROM u AS v (one, two)",
    "SELECT \"Odd Name\", \"order\" FROM u ORDER BY \"order\" DESC NULLS LAST, 1 ASC NULLS FIRST",
    "SELECT t.id, u.b FROM t LEFT JOIN u ON t.id = u.t_id AND u.id > 1 WHERE t.a IS NOT NULL",
    "SELECT t.id, u.id AS uid FROM t RIGHT OUTER JOIN u ON (t.id = u.t_id)",
    "SELECT t.id, u.id AS uid FROM t FULL JOIN u ON t.id = u.t_id",
    "SELECT id, t.a FROM t JOIN u USING (id)",
    "SELECT a FROM t NATURAL JOIN (SELECT id FROM u) q",
    "SELECT t.id FROM t CROSS JOIN u",
    "SELECT t.id, w.id AS wid FROM (t JOIN u ON t.id = u.t_id) JOIN other.w ON w.t_id = t.id",
    "SELECT count(*), count(DISTINCT a), sum(n) FILTER (WHERE a > 1), avg(f), max(d), string_agg(b, ', ' ORDER BY b DESC), array_agg(a) FROM t",
    "SELECT a, count(*) AS c FROM t GROUP BY a HAVING count(*) > 0 ORDER BY 2 DESC, a LIMIT 10 OFFSET 0",
    "SELECT a, b, count(*) FROM t GROUP BY GROUPING SETS ((a), (b), ())",
    "SELECT a, b, sum(n) FROM t GROUP BY ROLLUP (a, b)",
    "SELECT a, b, sum(n) FROM t GROUP BY CUBE (a, b)",
    "SELECT id, rank() OVER (ORDER BY a DESC), sum(n) OVER (PARTITION BY ok ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t",
    "SELECT id, lag(a, 1, 0) OVER w, first_value(a) OVER (w ROWS 2 PRECEDING) FROM t WINDOW w AS (ORDER BY id)",
    "SELECT a::text, CAST(a AS bigint), n::int, b::varchar(3), d::timestamp, 'x'::text, '{1,2}'::int[], ch::text, f::real FROM t",
    "SELECT a + 1, a - 2, a * 3, a / 4, a % 5, a ^ 2, -a, +a, - -a, |/ f, @ a, a & 1, a | 2, a # 3, ~ a, a << 1, a >> 1, @ -a, ~ -a, - @ a, - - - a, 1 - -a, -1, - (-1) FROM t",
    "SELECT (a + 1) * 2, a + 1 * 2, -(a + 1), NOT (ok OR a = 1) AND ok, (a = 1) = ok FROM t",
    "SELECT b || '-' || b, b ~ '^a', b ~* 'A', b !~ 'x', b !~* 'y', b LIKE 'a\\_%' ESCAPE '!', b NOT LIKE '%x', b ILIKE '%S', b NOT ILIKE 'q', b SIMILAR TO '(a|b)%', b NOT SIMILAR TO 'z' FROM t",
    "SELECT a IN (1, 2), a NOT IN (3), a BETWEEN 1 AND 2, a NOT BETWEEN 3 AND 4, a BETWEEN SYMMETRIC 4 AND 3, a NOT BETWEEN SYMMETRIC 9 AND 5 FROM t",
    "SELECT a IS NULL, a IS NOT NULL, a ISNULL, a NOTNULL, ok IS TRUE, ok IS NOT FALSE, ok IS UNKNOWN, a IS DISTINCT FROM 3, a IS NOT DISTINCT FROM NULL FROM t",
    "SELECT CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END, CASE WHEN a > 1 THEN 1 END, COALESCE(a, 0), NULLIF(a, 1), GREATEST(a, 3), LEAST(a, 4) FROM t",
    "SELECT ARRAY[1, 2, a], ARRAY[]::int[], tags[1], tags[1:2], tags || 'z'::text, a = ANY (ARRAY[1, 2]), a <> ALL ('{3,4}'::int[]), 'x' = ANY (tags) FROM t",
    "SELECT ARRAY(SELECT id FROM u ORDER BY id), (SELECT max(id) FROM u), EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id), id IN (SELECT t_id FROM u), (id, a) IN (SELECT id, t_id FROM u), a > ALL (SELECT id FROM u) FROM t",
    "SELECT INTERVAL '1 day', INTERVAL '1-2' YEAR TO MONTH, INTERVAL '3' DAY, '2 hours'::interval, INTERVAL(3) '1.23456 s', iv * 2 FROM t",
    "SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 10:00', TIMESTAMP WITH TIME ZONE '2020-01-01 10:00+02', TIME '10:00', d + 1, ts - INTERVAL '1 day', tz AT TIME ZONE 'UTC' FROM t",
    "SELECT EXTRACT(YEAR FROM d), EXTRACT(epoch FROM ts), date_trunc('month', ts), date_part('day', d), to_char(n, '999.99'), age(ts) IS NULL FROM t",
    "SELECT 'it''s', E'a\\nb\\\\c\\'d', $$dollar's$$, $q$x$q$, 'back\\slash', '', U&'\\0041b', 'é' FROM t",
    "SELECT SUBSTRING(b FROM 1 FOR 2), SUBSTRING(b FROM 2), SUBSTRING(b FOR 1), SUBSTRING(b FROM 'a.'), SUBSTRING(b SIMILAR 'a' ESCAPE '#'), POSITION('a' IN b), OVERLAY(b PLACING 'zz' FROM 1 FOR 1), substr(b, 1, 2) FROM t",
    "SELECT TRIM(b), TRIM(BOTH 'x' FROM b), TRIM(LEADING FROM b), TRIM(TRAILING 'y' FROM b), TRIM(LEADING b, 'q'), upper(b), length(b), left(b, 1), right(b, 1), replace(b, 'a', 'b'), char_length(b), CEIL(f), FLOOR(f), round(n, 1) FROM t",
    "SELECT 't'::regclass, 'public.t'::regclass::text, nextval('sq') AS nv, 'sad'::mood, 'it''s ok'::public.mood::text",
    "SELECT CURRENT_DATE IS NOT NULL, CURRENT_TIMESTAMP IS NULL, now() IS NULL, LOCALTIMESTAMP IS NULL, CURRENT_USER IS NULL, SESSION_USER IS NULL, current_schema IS NULL, current_role IS NULL",
    "SELECT j -> 'k', j ->> 'k', j #> '{k,0}', j #>> '{k,0}', j @> '{}', j ? 'k', j ?| ARRAY['k'], j ?& ARRAY['k'], '{\"a\":1}'::json ->> 'a', jsonb_build_object('x', a) FROM t",
    "SELECT concat(VARIADIC ARRAY['a', b]), format('%s %s', VARIADIC tags), make_interval(days => 3), make_interval(hours := a) FROM t",
    "SELECT ROW(1, 'x') = ROW(a, b), (a, b) = (1, 'x'), (a, b) < (2, 'y') FROM t",
    "SELECT b COLLATE \"C\", b < 'x' COLLATE \"C\" FROM t ORDER BY b COLLATE \"C\"",
    "SELECT DISTINCT a, b FROM t",
    "SELECT DISTINCT ON (a) a, b, id FROM t ORDER BY a, id DESC",
    "SELECT id FROM t UNION SELECT id FROM u UNION ALL SELECT 3 ORDER BY 1",
    "SELECT id FROM t INTERSECT (SELECT id FROM u EXCEPT SELECT 9) LIMIT 5",
    "(SELECT id FROM t ORDER BY id LIMIT 1) UNION ALL (SELECT id FROM u ORDER BY id DESC LIMIT 1)",
    "SELECT id FROM t ORDER BY id FETCH FIRST 3 ROWS ONLY",
    "SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY",
    "VALUES (1, 'x'), (2, NULL)",
    r#"SELECT 'a''''b' AS "x\", '\'' || (SELECT 1)::text --' AS "y""""""z", E'\'''; DROP TABLE t; --' AS z"#,
    "TABLE u",
    "WITH q AS (SELECT id, a FROM t), r (x) AS MATERIALIZED (SELECT id FROM q) SELECT q.id, r.x FROM q JOIN r ON r.x = q.id",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n",
    "SELECT q.id, q.m FROM (SELECT id, max(a) OVER () AS m FROM t) AS q WHERE q.m > 1",
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.id AS x FROM u WHERE u.t_id = t.id) AS l",
    "SELECT t.id, l.x FROM t LEFT JOIN LATERAL (SELECT max(u.id) FROM u WHERE u.t_id = t.id) AS l (x) ON true",
    "SELECT g, h.i, h.n FROM generate_series(1, 3) AS g, unnest(ARRAY['a', 'b']) WITH ORDINALITY AS h (i, n)",
    "SELECT s FROM generate_series('2020-01-01'::timestamp, '2020-01-02', '6 hours') s",
    "SELECT v.x FROM (VALUES (1), (2)) AS v (x)",
    "SELECT t.id, t.a, t.b, sum(u.id) AS s FROM t LEFT JOIN u ON u.t_id = t.id GROUP BY t.id",
    "SELECT \"x y\".id AS \"Id\", \"x y\".a AS \"a\"\"b\" FROM t \"x y\"",
    "SELECT 1 AS \"select\", 2 AS value, 3 AS \"Upper\", 4 AS type, NULL AS nothing, NULL::int, TRUE, FALSE, 1.50, 1e3, 0.1, 12345678901, 123456789012345678901234567890",
    "SELECT id FROM t WHERE a = 1 AND (b = 'x' OR b = 'y') AND NOT ok OR d < '2020-01-01'",
    "SELECT id, md5(b), coalesce(b, 'none') || '!' AS c, (SELECT count(*) FROM u WHERE u.t_id = t.id) AS n FROM t FOR UPDATE",
    "SELECT t.id FROM t, u FOR NO KEY UPDATE OF t, u SKIP LOCKED",
    "SELECT id FROM t FOR SHARE OF t NOWAIT",
    "SELECT bool_and(ok), every(ok), bit_or(a), var_pop(a), json_agg(a), jsonb_object_agg(id, b) FROM t",
    "SELECT generate_series(1, 2), unnest(tags) FROM t",
    "SELECT id FROM ONLY t WHERE a OPERATOR(pg_catalog.=) ANY (ARRAY[1])",
];

/// Those with names of their own, and what they are called.
const NAMED: &[&str] = &[
    "(x, y) AS SELECT id, a FROM t",
    "(x, y) AS SELECT id, a FROM t ORDER BY a",
    "(a, id) AS SELECT id, a FROM t ORDER BY id",
    "(k, n) AS SELECT a, count(*) FROM t GROUP BY a",
    "(k) AS SELECT id, a, b FROM t",
    "(k) AS VALUES (1, 2)",
    "(k) AS TABLE u",
    "(k) AS TABLE other.w",
    "AS WITH q AS (SELECT id FROM t WHERE - - id BETWEEN SYMMETRIC 9 AND 1) SELECT * FROM q",
    "(b) AS WITH q AS (SELECT id FROM t) SELECT * FROM q",
    "(one, two, three) AS SELECT * FROM t NATURAL JOIN (SELECT id FROM u) q",
    "(p) AS SELECT id FROM t UNION SELECT id FROM u",
    "(\"P q\", \"order\") AS SELECT id + 1, b || 'x' FROM t",
];

async fn text_of(client: &Client, view: &str) -> String {
    let row = client.query_one(&format!("SELECT pg_get_viewdef('{view}'::regclass)"), &[]).await;
    row.map_or_else(|error| said(&error), |row| row.get(0))
}

/// Names and types of a view's columns.
async fn columns(client: &Client, view: &str) -> Vec<(String, String)> {
    let rows = client
        .query(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
             WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum",
            &[&view],
        )
        .await
        .expect("columns");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn a_views_text_makes_the_view_again_here_and_in_postgresql() {
    let (ours, theirs) = (Server::with_acme(), Postgres::start());
    run(async {
        let ours = ours.owner("acme").await;
        let theirs = connect(&theirs.url()).await.expect("PostgreSQL lets one in");
        for client in [&ours, &theirs] {
            client.batch_execute(TABLES).await.expect("tables can be made");
        }
        let mut failed = Vec::new();
        let mut whole = Vec::new();
        for query in QUERIES {
            let described = theirs.prepare(query).await.expect(query);
            let mut names: Vec<&str> = described.columns().iter().map(|column| column.name()).collect();
            names.sort_unstable();
            let are_one_each = names.windows(2).all(|pair| pair[0] != pair[1]);
            let numbered: Vec<String> = (1..=names.len()).map(|n| format!("c{n}")).collect();
            let list = if are_one_each { String::new() } else { format!(" ({})", numbered.join(", ")) };
            whole.push(format!("{list} AS {query}"));
        }
        whole.extend(NAMED.iter().map(|named| format!(" {named}")));
        for (i, definition) in whole.iter().enumerate() {
            let name = format!("v{i}");
            if let Err(error) = theirs.batch_execute(&format!("CREATE VIEW p{i}{definition}")).await {
                failed.push(format!("{definition}\n  is not PostgreSQL's: {}", said(&error)));
                continue;
            }
            if let Err(error) = ours.batch_execute(&format!("CREATE VIEW {name}{definition}")).await {
                failed.push(format!("{definition}\n  is not ours: {}", said(&error)));
                continue;
            }
            let text = text_of(&ours, &name).await;
            for (client, place) in [(&ours, "here"), (&theirs, "in PostgreSQL")] {
                if let Err(error) = client.batch_execute(&format!("CREATE VIEW r{i} AS {text}")).await {
                    failed.push(format!("{definition}\n  {text}\n  does not load {place}: {}", said(&error)));
                    continue;
                }
                let (wanted, made) = (columns(&ours, &name).await, columns(client, &format!("r{i}")).await);
                let made_of =
                    |columns: &[(String, String)]| columns.iter().map(|c| c.0.clone()).collect::<Vec<_>>();
                if made_of(&wanted) != made_of(&made) {
                    failed.push(format!("{definition}\n  {text}\n  has other columns {place}: {made:?}"));
                }
                if made_of(&wanted) != made_of(&columns(&theirs, &format!("p{i}")).await) {
                    failed.push(format!("{definition}\n  has other columns than PostgreSQL's: {wanted:?}"));
                }
            }
            let again = text_of(&ours, &format!("r{i}")).await;
            if again != text {
                failed.push(format!("{definition}\n  {text}\n  {again}\n  is another text"));
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}

/// Tables with two rows each, and views of all their columns.
const STARS: &str = "
    CREATE TABLE a (id int, x int); CREATE TABLE b (id int, y int); CREATE TABLE c (id int, y int, v int);
    INSERT INTO a VALUES (1, 10), (2, 20); INSERT INTO b VALUES (1, 100), (3, 300); INSERT INTO c VALUES (1, 100, 7), (1, 5, 8);
    CREATE VIEW v1 AS SELECT * FROM a JOIN b USING (id);
    CREATE VIEW v2 AS SELECT * FROM a NATURAL JOIN b;
    CREATE VIEW v3 AS SELECT * FROM (SELECT * FROM a) s;
    CREATE VIEW v4 (p, q, r) AS SELECT * FROM a LEFT JOIN b USING (id) ORDER BY 2;
    CREATE VIEW v5 AS SELECT * FROM a UNION ALL SELECT * FROM b;
    CREATE VIEW v6 AS WITH q AS (SELECT * FROM a) SELECT * FROM q;
    CREATE VIEW v7 AS SELECT * FROM (SELECT * FROM a) s JOIN (SELECT * FROM b) t USING (id);
    CREATE VIEW v8 AS SELECT a.*, y FROM a JOIN b USING (id);
    CREATE VIEW v9 AS SELECT * FROM (a JOIN b USING (id)) JOIN (SELECT v FROM c) d ON d.v > id;
    CREATE VIEW v10 AS SELECT * FROM b NATURAL JOIN c;
    CREATE VIEW v11 AS SELECT * FROM a FULL JOIN b USING (id);
    CREATE VIEW v12 AS TABLE a;
    CREATE VIEW v13 AS SELECT * FROM a, generate_series(1, 2) g;
    CREATE VIEW v14 AS SELECT *, g AS again FROM generate_series(1, 2) g;
    CREATE VIEW v15 AS SELECT a.*, g FROM a, generate_series(1, 2) g;
    CREATE VIEW v16 (k, l) AS SELECT * FROM a GROUP BY id, x;
    CREATE VIEW v17 (k, l) AS SELECT * FROM (SELECT * FROM a) s ORDER BY x;
    CREATE VIEW v18 AS SELECT * FROM a CROSS JOIN (VALUES (1)) w (n);
    CREATE VIEW v20 AS SELECT *, g + 1 AS more FROM a, generate_series(1, 2) g;
    CREATE VIEW v21 (k, l, m, n) AS SELECT *, 5 FROM a CROSS JOIN generate_series(1, 2) AS \"G h\" (i);
    CREATE VIEW v22 AS SELECT *, 'x\\''; --' AS n FROM a, unnest(ARRAY['p\\''''', 'q']) AS h;
    CREATE VIEW v23 AS SELECT *, 1 AS one FROM a JOIN b USING (id);
    CREATE VIEW v19 AS SELECT * FROM a NATURAL JOIN (SELECT v FROM c) d;
";

#[test]
fn a_star_stands_for_the_columns_that_there_were() {
    let (ours, theirs) = (Server::with_acme(), Postgres::start());
    run(async {
        let ours = ours.owner("acme").await;
        let theirs = connect(&theirs.url()).await.expect("PostgreSQL lets one in");
        for client in [&ours, &theirs] {
            client.batch_execute(STARS).await.expect("views can be made");
            let more = "ALTER TABLE a ADD COLUMN z int DEFAULT 99; ALTER TABLE b ADD COLUMN w int DEFAULT 98;
                        ALTER TABLE c ADD COLUMN x int DEFAULT 1; ALTER TABLE a ADD COLUMN v int DEFAULT 3; ALTER TABLE b ADD COLUMN v int DEFAULT 9";
            client.batch_execute(more).await.expect("columns can be added");
        }
        for i in 1..=STARS.matches("CREATE VIEW").count() {
            let query = format!("SELECT row_to_json(v{i})::text FROM v{i} ORDER BY 1");
            let rows =
                |rows: Vec<tokio_postgres::Row>| rows.iter().map(|row| row.get(0)).collect::<Vec<String>>();
            let wanted = rows(theirs.query(&query, &[]).await.expect(&query));
            let text = text_of(&ours, &format!("v{i}")).await;
            match ours.query(&query, &[]).await {
                Ok(found) => assert_eq!(rows(found), wanted, "{text}"),
                Err(error) => panic!("{text}: {}", said(&error)),
            }
        }
        let moving =
            "CREATE VIEW refused AS SELECT *, 1 AS k FROM a JOIN generate_series(1, 2) AS g (id) USING (id)";
        let error = ours.batch_execute(moving).await.expect_err("its columns may become others");
        assert!(said(&error).starts_with("0A000"), "{}", said(&error));
        // What a view reads as `TABLE name` it needs.
        for client in [&ours, &theirs] {
            let needed = "CREATE TABLE \"Odd Name\" (o int); CREATE TABLE odd (n int); INSERT INTO \"Odd Name\" VALUES (5);
                          CREATE VIEW t1 AS TABLE \"Odd Name\"; CREATE VIEW t2 AS SELECT 1 AS o UNION ALL TABLE \"Odd Name\" ";
            client.batch_execute(needed).await.expect("views can be made");
            let error = client.batch_execute("DROP TABLE \"Odd Name\"").await.expect_err("views need it");
            assert!(said(&error).starts_with("2BP01"), "{}", said(&error));
            client.batch_execute("DROP VIEW t1").await.expect("it can be dropped");
            let error = client.batch_execute("DROP TABLE \"Odd Name\"").await.expect_err("a view needs it");
            assert!(said(&error).starts_with("2BP01"), "{}", said(&error));
            let query = "(TABLE \"Odd Name\") UNION ALL (SELECT rank() OVER () FROM \"Odd Name\") ORDER BY 1";
            let rows = client.simple_query(query).await.expect(query);
            assert_eq!(rows.len(), 4, "two rows, what they are, and how many");
        }
    });
}

fn said(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| format!("{} {}", error.code().code(), error.message()))
}
