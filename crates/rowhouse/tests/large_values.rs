//! Expressions that ask for far more memory than they were given, and queries whose functions make every row long: refused, and nobody else notices.

mod common;

use std::time::Duration;

use common::{Server, run, state, text};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// What the process may take at most: the 256 MiB that are counted, with room to grow and the copies of a result, and what the rest needs.
const PROCESS_MAX: u64 = 3 << 29;

/// Each asks for 1 GB at least, most for far more.
const BOMBS: [&str; 17] = [
    "SELECT length(repeat('x', 1000000000))",
    "SELECT length(lpad('x', 268000000, 'é'))",
    "SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000)))",
    "SELECT cardinality(string_to_array(repeat(',', 100000000), ','))",
    "SELECT cardinality(string_to_array(repeat('x', 100000000), NULL))",
    "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000), 'g'))",
    "SELECT length(regexp_replace(repeat('a', 1000000), '(a+)', repeat('\\1', 1000)))",
    "SELECT length(format(repeat('%1$s', 1000), repeat('x', 1000000)))",
    "SELECT length(format('%200000000s%200000000s', 'a', 'b'))",
    "SELECT length(concat_ws(repeat('x', 100000000), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))",
    "SELECT length(array_to_string(string_to_array(repeat(',', 1000000), ','), repeat('x', 1000)))",
    "SELECT cardinality(array_replace(string_to_array(repeat(',', 1000000), ','), '', repeat('x', 1000)))",
    "SELECT cardinality(ARRAY[repeat('x', 100000000), repeat('y', 100000000), repeat('z', 100000000)])",
    "SELECT cardinality(ARRAY(SELECT repeat('x', 1000000) || g FROM generate_series(1, 100) g))",
    "SELECT cardinality(('{' || repeat('1,', 50000000) || '1}')::int[])",
    // Each call's own argument is small; those around it hold theirs.
    "SELECT length(repeat('a', 90000000) || length(repeat('b', 90000000) || length(repeat('c', 90000000))))",
    "SELECT length(concat(repeat('a', 100000000), repeat('b', 100000000), repeat('c', 100000000)))",
];

/// Of pieces that take some bytes each, and are found one by one: as long as all others together.
const BOMB_OF_PIECES: &str = "SELECT cardinality(regexp_split_to_array(repeat(',', 20000000), ','))";

/// Makes a tenant; its owner, who was refused each of these.
async fn refusing(server: &Server, bombs: &[&str]) -> Client {
    server.create_tenant("acme").await;
    let client = server.owner("acme").await;
    client.batch_execute("CREATE TABLE numbers (n int)").await.expect("a table");
    for bomb in bombs {
        let refused = client.simple_query(bomb).await;
        assert_eq!(state(refused), SqlState::OUT_OF_MEMORY, "{bomb}");
        // Queries leave the point path for it, and changes cannot.
        let change = format!("INSERT INTO numbers VALUES (({bomb}))");
        assert_eq!(state(client.simple_query(&change).await), SqlState::OUT_OF_MEMORY, "{change}");
    }
    assert!(server.memory_peak() < PROCESS_MAX, "{} bytes", server.memory_peak());
    client
}

#[test]
fn a_text_of_too_many_pieces_is_refused_before_it_takes_all_memory() {
    let mut server = Server::start_with(&["--memory", "64MiB", "--work-memory", "64MiB", "--workers", "1"]);
    run(async {
        let client = refusing(&server, &[BOMB_OF_PIECES]).await;
        assert_eq!(text(&client, "SELECT count(*) FROM numbers").await, "0");
    });
    assert!(server.terminate().success());
}

#[test]
fn an_expression_that_asks_for_too_much_is_refused_before_it_takes_all_memory() {
    let mut server = Server::start_with(&["--memory", "64MiB", "--work-memory", "64MiB", "--workers", "1"]);
    run(async {
        let client = refusing(&server, &BOMBS).await;
        // What is large and fits is answered, however it is repeated.
        let repeated = "SELECT sum(length(s) + g) FROM (SELECT repeat('x', 200000) AS s, g FROM generate_series(1, 3000) g) q WHERE length(s) > g";
        assert_eq!(text(&client, repeated).await, "604501500");
        let literal = format!(
            "SELECT sum(length(s) + g) FROM (SELECT '{}' AS s, g FROM generate_series(1, 3000) g) q WHERE s || g > 'x'",
            "x".repeat(200_000)
        );
        assert_eq!(text(&client, &literal).await, "604501500");
        let values = "SELECT max(length(s)), count(row_number) FROM (SELECT s, row_number() OVER () FROM (VALUES (repeat('x', 5000000)), ('y')) v(s)) q";
        assert_eq!(text(&client, values).await, "5000000");
        // Few rows, and large ones, on 64 MiB.
        client.batch_execute("CREATE TABLE kept (id int PRIMARY KEY, s text)").await.expect("a table");
        let rows: Vec<String> = (0..12).map(|id| format!("({id}, repeat('x', 1000000))")).collect();
        client.batch_execute(&format!("INSERT INTO kept VALUES {}", rows.join(", "))).await.expect("slices");
        let joined = "SELECT sum(length(k.s)) FROM kept k JOIN numbers n ON n.n = k.id WHERE k.id = 1";
        client.batch_execute("INSERT INTO numbers VALUES (1)").await.expect("a row");
        assert_eq!(text(&client, joined).await, "1000000");
        let analyzed = "EXPLAIN ANALYZE SELECT id, string_agg(s, s) FROM kept GROUP BY id";
        client.simple_query(analyzed).await.expect("as the query itself");
        // Answers of subqueries for each row.
        let scalar = "SELECT sum((SELECT length(k.s) FROM kept k WHERE k.id = g % 20)) FROM generate_series(1, 2000) g";
        assert_eq!(text(&client, scalar).await, "1200000000");
        assert_eq!(text(&client, "SELECT length(repeat('x', 100000000))").await, "100000000");
        let sum = "SELECT sum(length(repeat('x', 10000000) || g)) FROM generate_series(1, 9) g";
        assert_eq!(text(&client, sum).await, "90000009");
        let replaced =
            r"SELECT regexp_replace('abcab', 'a(b)', '[\1\&\\\q]', 'g'), format('%5s|%-4s|%%', 'a', 'b')";
        let row = client.query_one(replaced, &[]).await.expect("short ones");
        assert_eq!((row.get(0), row.get(1)), (r"[bab\\q]c[bab\\q]", "    a|b   |%"));
    });
    assert!(server.terminate().success());
}

#[test]
fn rows_that_functions_make_long_are_gone_through_a_few_at_a_time() {
    let mut server = Server::start_with(&["--memory", "64MiB", "--work-memory", "64MiB", "--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let (client, other) = (server.owner("acme").await, server.owner("acme").await);
        other
            .batch_execute("CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)")
            .await
            .expect("a table");
        // 3 GB, of which a batch of 8,192 rows would have all.
        let long = "SELECT sum(length(s)) FROM (SELECT repeat('x', 100000) || g AS s FROM generate_series(1, 30000) g) q \
                    WHERE s LIKE 'x%'";
        let asked = async {
            let mut rounds = 0;
            loop {
                other.batch_execute("UPDATE t SET n = n + 0").await.expect("others go on");
                tokio::time::sleep(Duration::from_millis(5)).await;
                rounds += 1;
                if rounds > 20 {
                    break;
                }
            }
        };
        let (sum, ()) = tokio::join!(text(&client, long), asked);
        assert_eq!(sum, "3000138894");
        // A row of which a few take more than there is.
        let wide = "SELECT count(*) FROM (SELECT repeat('x', 10000000) || g AS s FROM generate_series(1, 30000) g) q \
                    WHERE s LIKE 'x%'";
        assert_eq!(state(client.simple_query(wide).await), SqlState::OUT_OF_MEMORY);
        // What aggregates gather on the point path and elsewhere.
        for gathers in [
            "SELECT length(string_agg(repeat('x', 100000) || random(), '')) FROM generate_series(1, 20000)",
            "SELECT cardinality(array_agg(repeat('x', 100000) || g)) FROM generate_series(1, 20000) g",
            "SELECT count(*) FROM (SELECT repeat('x', 100000) || random() FROM generate_series(1, 20000) GROUP BY 1) q",
        ] {
            assert_eq!(state(client.simple_query(gathers).await), SqlState::OUT_OF_MEMORY, "{gathers}");
        }
        assert!(server.memory_peak() < PROCESS_MAX, "{} bytes", server.memory_peak());
    });
    assert!(server.terminate().success());
}

/// 200 rows of 200 kB, of which each query below makes 4 GB.
#[test]
fn large_values_are_repeated_a_few_at_a_time() {
    const LEN: usize = 200_000;
    let mut server = Server::start_with(&["--memory", "64MiB", "--work-memory", "128MiB", "--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let client = server.owner("acme").await;
        client
            .batch_execute(
                "CREATE TABLE wide (id int PRIMARY KEY, k int, s text, a text[]); CREATE TABLE many (k int, n int)",
            )
            .await
            .expect("tables");
        for id in 0..200 {
            let row = format!("({id}, {}, repeat('x', {LEN}), '{{a,b}}')", id % 4);
            client.batch_execute(&format!("INSERT INTO wide VALUES {row}")).await.expect("a row");
        }
        let many = "INSERT INTO many SELECT g % 4, g FROM generate_series(1, 400) g";
        client.batch_execute(many).await.expect("rows");
        for repeated in [
            "SELECT count(s) FROM (SELECT s, generate_series(1, 100) FROM wide) q",
            "SELECT count(w.s) FROM wide w, generate_series(1, 100) g",
            "SELECT count(w.s) FROM wide w, generate_series(1, w.id * 0 + 100) g",
            "SELECT count(s) FROM (SELECT w.s, unnest(a || a) FROM wide w, generate_series(1, 25) g) q",
            "SELECT count(w.s) FROM wide w JOIN many m ON m.k = w.k",
            "SELECT count(w.s) FROM wide w LEFT JOIN many m ON m.k > 2 AND w.id >= m.n * 0",
            "SELECT count(w.s) FROM wide w, LATERAL (SELECT n FROM many m WHERE m.k = w.id % 4) q",
            "SELECT count(w.s) FROM wide w LEFT JOIN LATERAL (SELECT n + w.id FROM many m WHERE m.k = w.k) q ON true",
        ] {
            assert_eq!(text(&client, repeated).await, "20000", "{repeated}");
            let peak = server.memory_peak();
            assert!(peak < PROCESS_MAX, "{peak} bytes: {repeated}");
        }
        let sent = client.query_raw("SELECT s FROM wide w, generate_series(1, 10) g", &[] as &[&str]);
        let mut sent = std::pin::pin!(sent.await.expect("rows"));
        let mut rows = 0;
        while let Some(row) = futures::TryStreamExt::try_next(&mut sent).await.expect("a row") {
            rows += row.get::<_, &str>(0).len() / LEN;
        }
        assert_eq!(rows, 2000);
        assert!(server.memory_peak() < PROCESS_MAX, "{} bytes", server.memory_peak());
    });
    assert!(server.terminate().success());
}
