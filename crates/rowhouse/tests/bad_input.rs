//! Input that no honest client sends: each ends in a clear error for the one who sent it, and a bystander notices nothing.
//! What is wrong with single messages is in `malformed`.

mod common;

use std::io::Write as _;
use std::time::{Duration, Instant};

use common::bystander::Bystander;
use common::raw::{RawClient, Said};
use common::{Server, run, state, text};
use pgproto::client;
use tokio_postgres::error::SqlState;

fn error(code: &str) -> Said {
    Said::Error(code.to_owned())
}

#[test]
fn a_client_that_never_sends_its_start_up_packet_is_cut_off() {
    let server = Server::start_with(&["--authentication-timeout", "3"]);
    let mut silent = RawClient::connect(&server);
    let mut slow = RawClient::connect(&server);
    slow.send(&[0, 0, 0]);
    // One that stops in the middle of authentication.
    let mut half = RawClient::connect(&server);
    let mut start = Vec::new();
    client::startup(&mut start, &[("user", "admin"), ("database", "rowhouse")]);
    half.send(&start);
    assert_eq!(half.message().expect("it is asked for a password").0, b'R');
    let begun = Instant::now();
    for client in [&mut silent, &mut slow, &mut half] {
        assert_eq!(client.until_ready().last(), Some(&Said::Closed));
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    run(async { assert_eq!(text(&server.admin().await, "SELECT 1").await, "1") });
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let server = Server::with_acme();
    let mut raw = RawClient::log_in(&server, "acme", "acme");
    raw.send(&[&[b'Q', 0, 0, 0, 17][..], b"SELECT '\xff\xfe'\0\0"].concat());
    assert_eq!(raw.until_ready()[0], error("22021"));
    // As a parameter, in text and binary form.
    for format in [0, 1] {
        let mut out = Vec::new();
        client::parse(&mut out, "", "SELECT $1::text", &[25]);
        client::bind(&mut out, "", "", &[format], &[Some(b"ok\xc3")], &[]);
        client::execute(&mut out, "", 0);
        client::sync(&mut out);
        raw.send(&out);
        let said = raw.until_ready();
        assert!(said.contains(&error("22021")), "{said:?}");
    }
    // A NUL cannot be stored in text either.
    let mut out = Vec::new();
    client::parse(&mut out, "", "SELECT $1::text", &[25]);
    client::bind(&mut out, "", "", &[1], &[Some(b"a\0b")], &[]);
    client::sync(&mut out);
    raw.send(&out);
    assert!(raw.until_ready().contains(&error("22021")));
    assert_eq!(raw.query("CREATE TABLE t (v text); COPY t FROM STDIN")[1], Said::Message(b'G'));
    let mut out = Vec::new();
    client::copy_data(&mut out, b"fine\n\xff\xff\n");
    client::copy_done(&mut out);
    raw.send(&out);
    assert!(raw.until_ready().contains(&error("22021")));
    run(async {
        assert_eq!(
            text(&server.owner("acme").await, "SELECT count(*) FROM pg_class WHERE relname = 't'").await,
            "0"
        )
    });
}

#[test]
fn statements_of_ten_megabytes_and_absurd_depth_are_answered() {
    let server = Server::with_acme();
    let bystander = Bystander::of(&server);
    run(async {
        let client = server.owner("acme").await;
        let long = "x".repeat(10 << 20);
        assert_eq!(text(&client, &format!("SELECT length('{long}')")).await, (10 << 20).to_string());
        client
            .batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            .await
            .expect("a table can be made");
        client.execute("INSERT INTO t VALUES (1, $1)", &[&long]).await.expect("a long value can be stored");
        assert_eq!(text(&client, "SELECT length(v) FROM t WHERE id = 1").await, (10 << 20).to_string());
        let rows: Vec<String> = (10..60_000).map(|n| format!("({n}, 'value {n}')")).collect();
        client
            .batch_execute(&format!("INSERT INTO t VALUES {}", rows.join(",")))
            .await
            .expect("many rows at once");
        assert_eq!(text(&client, "SELECT count(*) FROM t").await, "59991");

        let answered = |query: String| {
            let server = &server;
            async move {
                let begun = Instant::now();
                let client = server.owner("acme").await;
                client.batch_execute("SET statement_timeout = '20s'").await.expect("it can be set");
                if let Err(error) = client.simple_query(&query).await {
                    let start: String = query.chars().take(40).collect();
                    let error = error.as_db_error().unwrap_or_else(|| panic!("{start}…: {error:?}"));
                    println!(
                        "{start}…: {} {} after {:?}",
                        error.code().code(),
                        error.message(),
                        begun.elapsed()
                    );
                }
            }
        };
        let deep = 100_000;
        answered(format!("SELECT {}1{}", "(".repeat(deep), ")".repeat(deep))).await;
        answered(format!("SELECT 1{}", "+1".repeat(deep))).await;
        answered(format!("SELECT {}1", "- ".repeat(deep))).await;
        answered(format!("SELECT {}true", "NOT ".repeat(deep))).await;
        answered(format!("SELECT 1 WHERE true{}", " AND true".repeat(deep))).await;
        answered(format!("SELECT * FROM t WHERE {}", "id = 1 OR ".repeat(deep) + "false")).await;
        answered(format!("SELECT {}", vec!["1"; 20_000].join(","))).await;
        answered(format!("SELECT * FROM t WHERE id IN ({})", vec!["1"; deep].join(","))).await;
        answered(format!("SELECT 'a'{}", " || 'b'".repeat(deep))).await;
        answered(format!("SELECT 1{}", "::int".repeat(deep))).await;
        answered(format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(2_000))).await;
        answered(format!("SELECT {}1{}", "(SELECT ".repeat(1_000), ")".repeat(1_000))).await;
        answered(format!("SELECT * FROM {}t{}", "(SELECT * FROM ".repeat(500), ") AS x".repeat(500))).await;
        answered(format!("SELECT {}1{}", "abs(".repeat(5_000), ")".repeat(5_000))).await;
        answered(format!("SELECT '{}'::jsonb", "[".repeat(deep))).await;
        answered(format!("SELECT '{}'::int[]", "{".repeat(deep))).await;
        answered(";".repeat(1 << 20)).await;
        answered(format!("SELECT {}", "case when true then ".repeat(5_000))).await;
        answered("SELECT 1;".repeat(5_000)).await;
        answered(format!("SELECT 1 AS {}", "n".repeat(1 << 20))).await;
        answered(format!("/*{}*/ SELECT 1", "/*".repeat(deep))).await;
    });
    // It is of the same tenant, and whose home's worker reads and plans such a statement waits for that.
    bystander.end_within(Duration::from_secs(60));
}

#[test]
fn values_out_of_range_have_their_sqlstate() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        client
            .batch_execute(
                "CREATE TABLE t (s smallint, i int, b bigint, n numeric(5,2), c char(2), d date, r real)",
            )
            .await
            .expect("a table can be made");
        for (query, code) in [
            ("INSERT INTO t (s) VALUES (32768)", "22003"),
            ("INSERT INTO t (i) VALUES (2147483648)", "22003"),
            ("INSERT INTO t (b) VALUES (9223372036854775808)", "22003"),
            ("INSERT INTO t (n) VALUES (1000)", "22003"),
            ("INSERT INTO t (n) VALUES (999.995)", "22003"),
            ("INSERT INTO t (c) VALUES ('abc')", "22001"),
            ("INSERT INTO t (d) VALUES ('2023-02-29')", "22008"),
            ("INSERT INTO t (d) VALUES ('5874898-01-01')", "22008"),
            ("INSERT INTO t (r) VALUES (1e39)", "22003"),
            ("INSERT INTO t (i) VALUES ('12x')", "22P02"),
            ("SELECT 9223372036854775807 + 1", "22003"),
            ("SELECT -(-2147483648)::int", "22003"),
            ("SELECT 1e308::float8 * 10", "22003"),
            ("SELECT sqrt(-1)", "2201F"),
            ("SELECT ln(0)", "2201E"),
            ("SELECT i / 0 FROM generate_series(1, 3) AS s(i)", "22012"),
            ("SELECT '1 year'::interval * 1e300", "22008"),
            ("SELECT timestamp '294276-12-31' + interval '10 years'", "22008"),
            ("SELECT repeat('x', 2000000000)", "54000"),
            ("SELECT 1 LIMIT -1", "2201W"),
            ("SELECT chr(0)", "54000"),
            ("SELECT '\\xzz'::bytea", "22023"),
            ("SELECT 'not a uuid'::uuid", "22P02"),
            ("SELECT '{1,2'::int[]", "22P02"),
            ("SELECT '{bad json'::jsonb", "22P02"),
        ] {
            let result = client.simple_query(query).await;
            assert!(result.is_err(), "{query} should fail with {code}");
            assert_eq!(state(result).code(), code, "{query}");
        }
        assert_eq!(text(&client, "SELECT count(*) FROM t").await, "0");
    });
}

#[test]
fn what_is_not_supported_is_refused_and_not_ignored() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        client
            .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
            .await
            .expect("a table can be made");
        for query in [
            "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
            "CREATE TABLE u (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
            "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'begin return 1; end'",
            "CREATE PROCEDURE p() LANGUAGE plpgsql AS 'begin end'",
            "DO 'begin end'",
            "CREATE TABLE p (id int) PARTITION BY RANGE (id)",
            "CREATE TABLE c () INHERITS (t)",
            "CREATE UNLOGGED TABLE u (id int)",
            "CREATE EXTENSION hstore",
            "CREATE INDEX ON t USING gin (n)",
            "CREATE TABLE x (id int, EXCLUDE (id WITH =))",
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "LISTEN channel",
        ] {
            let result = client.simple_query(query).await;
            assert!(result.is_err(), "{query} should be refused");
            let error = result.err().expect("just checked");
            assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED), "{query}: {error:?}");
        }
    });
}

/// Sockets beside those of the connections: of the test itself, of the harness, of a server's own files.
const DESCRIPTORS_BESIDE: u64 = 500;

#[test]
fn five_thousand_connections_are_served_and_one_too_many_is_refused() {
    // Here and in the server, which raises its own.
    let limit = env::Env::real().threads.raise_file_limit().expect("the limit can be raised to the hard one");
    let count = 5_000.min(limit.saturating_sub(DESCRIPTORS_BESIDE)) as usize;
    if count < 5_000 {
        // Past the harness, which keeps what passing tests print to itself.
        let too_few =
            format!("only {count} connections instead of 5,000: the hard limit of descriptors is {limit}");
        writeln!(std::io::stderr(), "\nTHE TEST SHOWS LESS: {too_few}").expect("it can be said");
    }
    // The bystander's, an eighth of all that is for tenants with few, and eight that only the administrator gets.
    let most = ((count + 1) * 8 / 7 + 8).to_string();
    let server = Server::start_with(&["--max-connections", &most]);
    run(server.create_tenant("acme"));
    let bystander = Bystander::of(&server);
    let (one, other) = std::thread::scope(|scope| {
        let connect =
            |count: usize| (0..count).map(|_| RawClient::log_in(&server, "acme", "acme")).collect::<Vec<_>>();
        let other = scope.spawn(move || connect(count / 2));
        (connect(count - count / 2), other.join().expect("they all connect"))
    });
    let mut all: Vec<RawClient> = one.into_iter().chain(other).collect();
    assert_eq!(all.len(), count);
    for client in all.iter_mut().step_by(50) {
        assert_eq!(client.query("SELECT 1").last(), Some(&Said::Message(b'Z')));
    }
    run(async {
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'acme'";
        let admin = server.connect_as("admin", "acme").await.expect("the administrator still gets in");
        // The bystander's is one more.
        assert_eq!(text(&admin, sessions).await, (count + 1).to_string());
        let refused = server.connect_as("acme", "acme").await;
        assert_eq!(state(refused), SqlState::TOO_MANY_CONNECTIONS);
        drop(all);
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = server.connect_as("acme", "acme").await {
            assert!(Instant::now() < deadline, "places are not given back: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    bystander.end();
}

#[test]
fn who_may_not_enter_and_who_says_nothing_disturb_nobody() {
    let server = Server::with_acme();
    let bystander = Bystander::of(&server);
    // Some say nothing at all, some stop within a packet, some when they are asked for a password. All of them stay.
    let mut silent: Vec<RawClient> = (0..400).map(|_| RawClient::connect(&server)).collect();
    let mut start = Vec::new();
    client::startup(&mut start, &[("user", "acme"), ("database", "acme")]);
    for client in &mut silent[100..200] {
        client.send(&start[..7]);
    }
    for client in &mut silent[200..300] {
        client.send(&start);
    }
    let refused = |user: &str, password: &str, database: &str, expected: SqlState| {
        let url = format!("postgres://{user}:{password}@127.0.0.1:{}/{database}", server.port());
        for _ in 0..50 {
            assert_eq!(state(run(common::connect(&url))), expected, "{user}:{password} to {database}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| refused("acme", "wrong", "acme", SqlState::INVALID_PASSWORD));
        scope.spawn(|| refused("admin", "wrong", "rowhouse", SqlState::INVALID_PASSWORD));
        scope.spawn(|| refused("nobody", common::PASSWORD, "acme", SqlState::INVALID_PASSWORD));
        scope.spawn(|| refused("acme", common::PASSWORD, "nowhere", SqlState::INVALID_CATALOG_NAME));
    });
    run(async { assert_eq!(text(&server.owner("acme").await, "SELECT 1").await, "1") });
    // Those were there all the while.
    for client in &mut silent[200..300] {
        assert_eq!(client.message().expect("it is asked for a password").0, b'R');
    }
    bystander.end();
}
