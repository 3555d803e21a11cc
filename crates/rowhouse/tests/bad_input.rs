//! Input that no honest client sends: each ends in a clear error for the one who sent it, and a bystander notices nothing.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::raw::{RawClient, Said};
use common::{Server, run, state, text};
use pgproto::client;
use tokio_postgres::error::SqlState;

/// A session that keeps querying until it is dropped, and then insists that every query was answered.
struct Bystander {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Bystander {
    /// Begins, and is in the midst of it on return.
    fn of(server: &Server) -> Bystander {
        let (begun, first_turn) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (url, told) = (server.url("acme", "acme"), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            run(async {
                let client = common::connect(&url).await.expect("the bystander connects");
                client
                    .batch_execute("CREATE TABLE beside (id int PRIMARY KEY, n int)")
                    .await
                    .expect("a table");
                client.batch_execute("INSERT INTO beside VALUES (1, 0)").await.expect("a row");
                let mut turns = 0_u64;
                while !told.load(Ordering::Relaxed) {
                    client
                        .execute("UPDATE beside SET n = n + 1 WHERE id = 1", &[])
                        .await
                        .expect("the bystander writes");
                    turns += 1;
                    let n = text(&client, "SELECT n FROM beside WHERE id = 1").await;
                    assert_eq!(n, turns.to_string());
                    let _ = begun.send(());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                turns
            })
        });
        first_turn.recv().expect("the bystander has a first turn");
        Bystander { stop, thread: Some(thread) }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let turns = self.thread.take().expect("it ends once").join().expect("the bystander noticed nothing");
        assert!(turns > 0, "the bystander had its turns");
    }
}

fn error(code: &str) -> Said {
    Said::Error(code.to_owned())
}

#[test]
fn broken_start_up_packets_are_refused() {
    let server = Server::with_acme();
    let bystander = Bystander::of(&server);
    let cases: [(&str, Vec<u8>); 8] = [
        ("2 GB length word", [0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0].to_vec()),
        ("negative length word", [0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0].to_vec()),
        ("length below the header", [0, 0, 0, 4].to_vec()),
        ("protocol of the future", [0, 0, 0, 9, 0, 9, 0, 0, 0].to_vec()),
        ("parameters without an end", [0, 0, 0, 12, 0, 3, 0, 0, b'u', b's', b'e', b'r'].to_vec()),
        ("no user", [0, 0, 0, 9, 0, 3, 0, 0, 0].to_vec()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec()),
        ("invalid UTF-8", [&[0, 0, 0, 17, 0, 3, 0, 0][..], b"user\0\xff\xfe\0\0"].concat()),
    ];
    for (what, bytes) in cases {
        let mut raw = RawClient::connect(&server);
        raw.send(&bytes);
        let said = raw.until_ready();
        assert!(matches!(said[..], [Said::Error(_), Said::Closed]), "{what}: {said:?}");
    }
    // A client that goes away in the middle of it.
    for len in 0..20 {
        let mut start = Vec::new();
        client::startup(&mut start, &[("user", "acme"), ("database", "acme")]);
        RawClient::connect(&server).send(&start[..len]);
    }
    bystander.end();
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
fn broken_messages_end_their_own_session_only() {
    let server = Server::with_acme();
    let bystander = Bystander::of(&server);
    let fatal: [(&str, Vec<u8>); 6] = [
        ("2 GB length word", [b'Q', 0x7f, 0xff, 0xff, 0xff].to_vec()),
        ("negative length word", [b'P', 0xff, 0xff, 0xff, 0xff].to_vec()),
        ("length below the header", [b'Q', 0, 0, 0, 3].to_vec()),
        ("unknown message type", [b'~', 0, 0, 0, 4].to_vec()),
        ("zero bytes", vec![0; 64]),
        ("random bytes", (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect()),
    ];
    for (what, bytes) in fatal {
        let mut raw = RawClient::log_in(&server, "acme", "acme");
        raw.send(&bytes);
        let said = raw.until_ready();
        assert_eq!(said, [error("08P01"), Said::Closed], "{what}");
    }
    // Well-framed but wrong inside: told, and the session goes on after Sync.
    let inside: [(&str, Vec<u8>); 6] = [
        ("query without an end", [b'Q', 0, 0, 0, 6, b'a', b'b'].to_vec()),
        ("parse cut short", [b'P', 0, 0, 0, 6, b's', 0].to_vec()),
        (
            "bind with more values than announced bytes",
            [&[b'B', 0, 0, 0, 12][..], &[0, 0, 0, 0, 0x7f, 0xff, 0, 0]].concat(),
        ),
        (
            "bind to a statement that is not there",
            [&[b'B', 0, 0, 0, 14][..], b"\0no\0", &[0, 0, 0, 0, 0, 0]].concat(),
        ),
        (
            "execute of a portal that is not there",
            [&[b'E', 0, 0, 0, 12][..], b"gon\0", &[0, 0, 0, 0]].concat(),
        ),
        ("describe of nothing", [b'D', 0, 0, 0, 6, b'?', 0].to_vec()),
    ];
    for (what, mut bytes) in inside {
        let mut raw = RawClient::log_in(&server, "acme", "acme");
        client::sync(&mut bytes);
        raw.send(&bytes);
        let said = raw.until_ready();
        assert!(matches!(said[0], Said::Error(_)), "{what}: {said:?}");
        if *said.last().expect("something was said") != Said::Closed {
            assert!(!raw.query("SELECT 1").iter().any(|said| matches!(said, Said::Error(_))), "{what}");
        }
    }
    // A client that goes away in the middle of a message, of a transaction, of a COPY.
    for sql in ["", "BEGIN; DELETE FROM beside", "BEGIN; COPY beside FROM STDIN"] {
        let mut raw = RawClient::log_in(&server, "acme", "acme");
        let mut out = Vec::new();
        client::query(&mut out, sql);
        out.extend([b'Q', 0, 0, 1, 0, b'S']);
        raw.send(&out);
        drop(raw);
    }
    bystander.end();
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
    bystander.end();
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
            "CREATE TABLE u (id int REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)",
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

#[test]
fn five_thousand_connections_are_served_and_one_too_many_is_refused() {
    let limit = std::process::Command::new("sh").args(["-c", "ulimit -n"]).output().expect("sh runs").stdout;
    let limit: usize = String::from_utf8_lossy(&limit).trim().parse().unwrap_or(usize::MAX);
    let count = 5_000.min(limit.saturating_sub(500));
    println!("{count} connections (the limit of descriptors is {limit})");
    let most = (count + 8).to_string();
    let server = Server::start_with(&["--max-connections", &most]);
    run(server.create_tenant("acme"));
    let (one, other) = std::thread::scope(|scope| {
        let half = || (0..count / 2).map(|_| RawClient::log_in(&server, "acme", "acme")).collect::<Vec<_>>();
        let other = scope.spawn(half);
        (half(), other.join().expect("they all connect"))
    });
    let mut all: Vec<RawClient> = one.into_iter().chain(other).collect();
    for client in all.iter_mut().step_by(50) {
        assert_eq!(client.query("SELECT 1").last(), Some(&Said::Message(b'Z')));
    }
    run(async {
        let refused = server.connect_as("acme", "acme").await;
        assert_eq!(state(refused), SqlState::TOO_MANY_CONNECTIONS);
        // The administrator still gets in.
        let admin = server.admin().await;
        assert_eq!(text(&admin, "SELECT 1").await, "1");
        drop(all);
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = server.connect_as("acme", "acme").await {
            assert!(Instant::now() < deadline, "places are not given back: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}
