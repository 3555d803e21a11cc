//! Statements over more rows than fit memory: others go on beside them, and they happen whole or not at all.

mod common;

use std::cell::Cell;
use std::pin::pin;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Server, run, said, state, text};
use futures::{SinkExt, TryStreamExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

/// What the server is given, in bytes; the table is more than twice that.
const MEMORY: u64 = 8 << 20;
/// 5 % more than that, and what a slice and the pages it copies take.
const MEMORY_BOUND: u64 = MEMORY + MEMORY / 20 + (1 << 20);
const ROWS: i64 = 30_000;

async fn number(client: &Client, sql: &str) -> i64 {
    text(client, sql).await.parse().expect("a number")
}

async fn resident(admin: &Client) -> u64 {
    let messages = admin.simple_query("SHOW TENANTS").await.expect("the tenants");
    let of = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get("resident_bytes").and_then(|n| n.parse::<u64>().ok()),
        _ => None,
    };
    messages.iter().filter_map(of).sum()
}

/// Runs `statement` to its end, and `beside` again and again meanwhile; how often.
async fn with_others<T>(statement: impl Future<Output = T>, mut beside: impl AsyncFnMut(u32)) -> (T, u32) {
    let done = Cell::new(false);
    let statement = async {
        let result = statement.await;
        done.set(true);
        result
    };
    let others = async {
        let mut rounds = 0;
        while !done.get() {
            rounds += 1;
            beside(rounds).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        rounds
    };
    tokio::join!(statement, others)
}

#[test]
fn a_statement_larger_than_memory_is_atomic_and_others_go_on() {
    let mut server = Server::start_with(&["--memory", "8MiB", "--workers", "1"]);
    let (sum, rest) = run(async {
        server.create_tenant("acme").await;
        let admin = server.admin().await;
        let (owner, other, reader) =
            (server.owner("acme").await, server.owner("acme").await, server.owner("acme").await);
        owner
            .batch_execute(
                "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad text NOT NULL);
                 CREATE INDEX t_n ON t (n, id);
                 CREATE TABLE small (id int PRIMARY KEY, n int NOT NULL);
                 INSERT INTO small VALUES (1, 0)",
            )
            .await
            .expect("tables");
        let peak = Cell::new(0);
        let watch = async || {
            let now = resident(&admin).await;
            peak.set(peak.get().max(now));
            assert!(now <= MEMORY_BOUND, "{now} bytes of pages, {MEMORY_BOUND} are the bound");
        };
        let pad = "x".repeat(500);
        let insert = format!("INSERT INTO t SELECT g, 0, '{pad}' FROM generate_series(1, {ROWS}) g");
        let (inserted, rounds) = with_others(owner.execute(&insert, &[]), async |round| {
            other.execute("UPDATE small SET n = n + 1", &[]).await.expect("another table");
            watch().await;
            if round % 8 == 0 {
                assert_eq!(number(&reader, "SELECT count(*) FROM t").await % ROWS, 0, "all rows or none");
            }
        })
        .await;
        assert_eq!(inserted.expect("inserted") as i64, ROWS);
        assert!(rounds > 3, "others had {rounds} rounds");
        assert_eq!(number(&reader, "SELECT count(*) FROM t").await, ROWS);

        // Rows that others change meanwhile are changed as they are by then.
        let added = Cell::new(0);
        let update = owner.execute("UPDATE t SET n = n + 10 WHERE n >= 0", &[]);
        let (updated, rounds) = with_others(update, async |round| {
            watch().await;
            let id = i64::from(round) * 7_919 % ROWS + 1;
            other.batch_execute("SET lock_timeout = '20ms'").await.expect("set");
            match other.execute(&format!("UPDATE t SET n = n + 1 WHERE id = {id}"), &[]).await {
                Ok(count) => added.set(added.get() + count as i64),
                Err(error) => assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE)),
            }
            if round % 8 == 0 {
                let seen = number(&reader, "SELECT sum(n) FROM t").await;
                assert!(seen < i64::from(round) + 1 || seen >= 10 * ROWS, "{seen}: a part of the update");
            }
        })
        .await;
        assert_eq!(updated.expect("updated") as i64, ROWS);
        assert!(rounds > 3, "others had {rounds} rounds");
        let sum = number(&reader, "SELECT sum(n) FROM t").await;
        assert!(added.get() > 0 && sum == 10 * ROWS + added.get(), "{sum}, {} by others", added.get());
        assert_eq!(number(&reader, "SELECT count(*) FROM t WHERE n >= 10").await, ROWS);

        // A failure at the end leaves nothing.
        let clash = format!("INSERT INTO t SELECT g, 0, '{pad}' FROM generate_series({}, 1, -1) g", 2 * ROWS);
        assert_eq!(state(owner.execute(&clash, &[]).await), SqlState::UNIQUE_VIOLATION);
        assert_eq!(number(&reader, "SELECT count(*) FROM t").await, ROWS);

        // A block sees what it did, and takes it back.
        owner.batch_execute("BEGIN; DELETE FROM t WHERE id > 5").await.expect("deleted");
        assert_eq!(number(&owner, "SELECT count(*) FROM t").await, 5);
        assert_eq!(number(&reader, "SELECT count(*) FROM t").await, ROWS);
        owner.batch_execute("INSERT INTO t VALUES (100, 1, 'a'); ROLLBACK").await.expect("rolled back");
        assert_eq!(number(&reader, "SELECT sum(n) FROM t").await, sum);

        // A client that goes away takes its statement with it.
        let cancel = owner.cancel_token();
        let (deleted, _) = with_others(owner.execute("DELETE FROM t", &[]), async |round| {
            if round == 5 {
                cancel.cancel_query(tokio_postgres::NoTls).await.expect("asked");
            }
        })
        .await;
        assert_eq!(state(deleted), SqlState::QUERY_CANCELED);
        assert_eq!(number(&reader, "SELECT sum(n) FROM t").await, sum);

        let deleted = owner.execute("DELETE FROM t WHERE id % 2 = 0", &[]).await;
        assert_eq!(deleted.expect("deleted") as i64, ROWS / 2);
        let rest = number(&reader, "SELECT sum(n) FROM t").await;
        watch().await;
        println!("at most {} bytes of pages for {MEMORY}", peak.get());
        (sum, rest)
    });
    assert!(rest < sum);
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(number(&owner, "SELECT sum(n) FROM t").await, rest);
        assert_eq!(number(&owner, "SELECT count(*) FROM t WHERE n >= 10").await, ROWS / 2);
    });
    assert!(server.terminate().success());
}

/// What it changed it reads over its snapshot, in pages that leave memory as others do.
#[test]
fn a_change_over_a_snapshot_larger_than_memory_is_atomic_and_others_go_on() {
    let mut server = Server::start_with(&["--memory", "8MiB", "--workers", "1"]);
    let (rest, kept) = (ROWS / 10 * 9, "SELECT count(*) FROM t WHERE n > 0");
    run(async {
        server.create_tenant("acme").await;
        let (admin, owner, other) =
            (server.admin().await, server.owner("acme").await, server.owner("acme").await);
        let tables = format!(
            "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad text NOT NULL);
             CREATE INDEX t_n ON t (n, id);
             CREATE TABLE small (id int PRIMARY KEY, n int NOT NULL);
             INSERT INTO small VALUES (1, 0);
             INSERT INTO t SELECT g, 0, repeat('x', 500) FROM generate_series(1, {ROWS}) g"
        );
        owner.batch_execute(&tables).await.expect("tables");
        let beside = async |round: u32| {
            let now = resident(&admin).await;
            assert!(now <= MEMORY_BOUND, "{round}: {now} bytes of pages, {MEMORY_BOUND} are the bound");
            other.execute("UPDATE small SET n = n + 1", &[]).await.expect("another table");
        };
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM t WHERE id = 1";
        owner.batch_execute(begin).await.expect("begun");
        other.execute("INSERT INTO t VALUES (1000000, 0, '')", &[]).await.expect("inserted");
        let (updated, rounds) = with_others(owner.execute("UPDATE t SET n = n + 1", &[]), &beside).await;
        assert_eq!(updated.expect("updated") as i64, ROWS);
        assert!(rounds > 3, "others had {rounds} rounds");
        let delete = owner.execute("DELETE FROM t WHERE id % 10 = 0", &[]);
        let (deleted, _) = with_others(delete, &beside).await;
        assert_eq!(deleted.expect("deleted") as i64, ROWS / 10);
        let (seen, _) = with_others(number(&owner, "SELECT count(*) FROM t"), &beside).await;
        assert_eq!((seen, number(&owner, kept).await), (rest, rest));
        assert_eq!(number(&owner, "SELECT count(*) FROM small WHERE n = 0").await, 1);
        assert_eq!(number(&other, kept).await, 0, "nobody else sees a part of it");
        owner.batch_execute("COMMIT").await.expect("nobody changed the same rows");
        assert_eq!(number(&other, kept).await, rest);
        assert_eq!(number(&other, "SELECT count(*) FROM t").await, rest + 1);

        // One that is refused at its end leaves nothing.
        let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT n FROM t WHERE id = 1";
        owner.batch_execute(begin).await.expect("begun");
        let (updated, _) = with_others(owner.execute("UPDATE t SET n = -1", &[]), &beside).await;
        assert_eq!(updated.expect("updated") as i64, rest + 1);
        other.execute("INSERT INTO t VALUES (1000001, 0, '')", &[]).await.expect("inserted");
        assert_eq!(state(owner.batch_execute("COMMIT").await), SqlState::T_R_SERIALIZATION_FAILURE);
        assert_eq!(number(&other, kept).await, rest);
    });
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(number(&owner, kept).await, rest);
        assert_eq!(number(&owner, "SELECT count(*) FROM t").await, rest + 2);
    });
    assert!(server.terminate().success());
}

#[test]
fn a_copy_larger_than_memory_is_atomic_and_others_go_on() {
    let mut server = Server::start_with(&["--memory", "8MiB", "--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let admin = server.admin().await;
        let (owner, reader) = (server.owner("acme").await, server.owner("acme").await);
        owner
            .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad text NOT NULL)")
            .await
            .expect("a table");
        let load = async |from: i64, to: i64| {
            let mut sink = pin!(owner.copy_in::<_, Bytes>("COPY t FROM STDIN").await?);
            let pad = "y".repeat(500);
            for first in (from..to).step_by(200) {
                let rows: String =
                    (first..(first + 200).min(to)).map(|id| format!("{id}\t1\t{pad}\n")).collect();
                sink.send(Bytes::from(rows)).await?;
            }
            sink.as_mut().finish().await
        };
        let (copied, rounds) = with_others(load(0, ROWS), async |round| {
            let now = resident(&admin).await;
            assert!(now <= MEMORY_BOUND, "{now} bytes of pages, {MEMORY_BOUND} are the bound");
            if round % 8 == 0 {
                assert_eq!(number(&reader, "SELECT count(*) FROM t").await % ROWS, 0, "all rows or none");
            }
        })
        .await;
        assert_eq!(copied.expect("copied") as i64, ROWS);
        assert!(rounds > 3, "others had {rounds} rounds");
        assert_eq!(
            state(load(2 * ROWS, 3 * ROWS + 1).await.and(load(ROWS - 1, ROWS).await)),
            SqlState::UNIQUE_VIOLATION
        );
        assert_eq!(number(&reader, "SELECT sum(n) FROM t").await, 2 * ROWS + 1);
    });
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(number(&owner, "SELECT sum(n) FROM t").await, 2 * ROWS + 1);
    });
    assert!(server.terminate().success());
}

/// Rows of a few bytes, which take many times that until they are poured.
#[test]
fn a_copy_of_small_rows_needs_no_more_memory_than_one_of_large_ones() {
    let mut server = Server::start_with(&["--memory", "16MiB", "--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let owner = server.owner("acme").await;
        owner
            .batch_execute("CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a, b, c))")
            .await
            .expect("a table");
        let mut sink = pin!(owner.copy_in::<_, Bytes>("COPY t FROM STDIN").await.expect("a copy"));
        for first in (0..ROWS).step_by(1000) {
            let rows: String = (first..first + 1000).map(|id| format!("1\t{}\t{id}\n", id % 10)).collect();
            sink.send(Bytes::from(rows)).await.expect("taken");
        }
        assert_eq!(sink.as_mut().finish().await.expect("copied") as i64, ROWS);
        assert_eq!(number(&owner, "SELECT count(*) FROM t WHERE a = 1").await, ROWS);
    });
    assert!(server.terminate().success());
}

/// The most memory that the process has had since this was called last, or now if it is more.
fn peak(server: &Server) -> u64 {
    let peak = server.memory_peak();
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").expect("the peak can be set back");
    peak
}

/// Gives `f` the data of a COPY as they come.
async fn copied_out(client: &Client, statement: &str, mut f: impl FnMut(&[u8])) {
    let mut data =
        pin!(client.copy_out(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}")));
    while let Some(piece) = data.try_next().await.expect("it goes on") {
        f(&piece);
    }
}

#[test]
fn a_copy_to_the_client_holds_a_few_rows_in_memory_and_others_go_on() {
    const LEN: u64 = 1000;
    let rows = 2 * ROWS as u64;
    let mut server = Server::start_with(&["--memory", "8MiB", "--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let (owner, other) = (server.owner("acme").await, server.owner("acme").await);
        owner
            .batch_execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, pad text NOT NULL);
                 INSERT INTO t SELECT g, repeat('y', {LEN}) FROM generate_series(1, {rows}) g"
            ))
            .await
            .expect("rows");
        // What threads and buffers take once.
        copied_out(&owner, &format!("COPY (SELECT * FROM t WHERE id <= {ROWS}) TO STDOUT"), |_| ()).await;
        peak(&server);
        let before = peak(&server);
        let (mut lines, mut sum) = (0, 0);
        let copy = copied_out(&owner, "COPY t TO STDOUT", |piece| {
            let line = std::str::from_utf8(piece).expect("text");
            let (id, pad) = line.trim_end().split_once('\t').expect("two columns");
            assert_eq!(pad.len() as u64, LEN);
            (lines, sum) = (lines + 1, sum + id.parse::<u64>().expect("a number"));
        });
        let beside =
            async |round| assert_eq!(number(&other, "SELECT id FROM t WHERE id = 7").await, 7, "{round}");
        let (_, rounds) = with_others(copy, beside).await;
        assert_eq!((lines, sum), (rows, rows * (rows + 1) / 2), "each once");
        assert!(rounds > 3, "others had {rounds} rounds");
        let grown = peak(&server).saturating_sub(before);
        // What the allocator had given back before counts too.
        assert!(grown < rows * LEN / 2, "{grown} bytes more for {} of rows", rows * LEN);
        // In its other forms, whose first and last bytes are not rows'.
        let mut csv = Vec::new();
        copied_out(&owner, "COPY t TO STDOUT (FORMAT csv, HEADER)", |piece| csv.extend_from_slice(piece))
            .await;
        assert!(csv.starts_with(b"id,pad\n1,y"));
        assert_eq!(csv.iter().filter(|byte| **byte == b'\n').count() as u64, rows + 1);
        let mut binary = Vec::new();
        let statement = "COPY t TO STDOUT (FORMAT binary)";
        copied_out(&owner, statement, |piece| binary.extend_from_slice(piece)).await;
        assert!(binary.starts_with(b"PGCOPY\n\xff\r\n\0") && binary.ends_with(b"\xff\xff"));
        // Two columns, an integer and a text, with their lengths; a header and a trailer.
        assert_eq!(binary.len() as u64, 19 + rows * (2 + 4 + 4 + 4 + LEN) + 2);
        let mut nothing = Vec::new();
        let statement = "COPY (SELECT * FROM t WHERE pad = 'n') TO STDOUT (FORMAT binary)";
        copied_out(&owner, statement, |piece| nothing.extend_from_slice(piece)).await;
        assert_eq!(nothing.len(), 19 + 2);
        let refused = owner.copy_out("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (other))").await;
        assert_eq!(state(refused.map(|_| ())), SqlState::INVALID_COLUMN_REFERENCE);
    });
    assert!(server.terminate().success());
}

/// Bytes in temporary files of tenants.
async fn put_aside(admin: &Client) -> u64 {
    let messages = admin.simple_query("SHOW TENANTS").await.expect("the tenants");
    let of = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get("temp_used").and_then(|n| n.parse::<u64>().ok()),
        _ => None,
    };
    messages.iter().filter_map(of).sum()
}

/// Rows of [`filled`], and the length of each: 60 MB.
const MANY: i64 = 60_000;
const PAD_LEN: usize = 1000;

/// What the process may take more for what goes through all of these rows: two thirds of them. 5 to 30 MB are batches, and what the allocator had given
/// back before, which is more where others keep the machine busy.
const GROWTH_MAX: u64 = MANY as u64 * PAD_LEN as u64 * 2 / 3;

/// With so much working memory a batch has 1,024 rows.
const SMALL: [&str; 6] = ["--memory", "8MiB", "--work-memory", "8MiB", "--workers", "1"];

/// A server with 8 MiB and a table `t` of [`MANY`] rows, its owner and the administrator, warmed up.
async fn filled(server: &Server) -> (Client, Client) {
    server.create_tenant("acme").await;
    let (owner, admin) = (server.owner("acme").await, server.admin().await);
    owner
        .batch_execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, pad text NOT NULL);
             INSERT INTO t SELECT g, repeat('y', {PAD_LEN}) FROM generate_series(1, {MANY}) g"
        ))
        .await
        .expect("rows");
    // What threads and buffers take once.
    copied_out(&owner, "COPY t TO STDOUT", |_| ()).await;
    peak(server);
    (owner, admin)
}

fn ids(rows: &[SimpleQueryMessage]) -> Vec<i64> {
    let id = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get("id").map(|id| id.parse().expect("a number")),
        _ => None,
    };
    rows.iter().filter_map(id).collect()
}

#[test]
fn a_cursor_over_more_rows_than_memory_puts_them_aside() {
    let mut server = Server::start_with(&SMALL);
    run(async {
        let (mut owner, admin) = filled(&server).await;
        let before = peak(&server);
        owner.batch_execute("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM t").await.expect("declared");
        assert!(put_aside(&admin).await > MANY as u64 * PAD_LEN as u64);
        let fetch = async |what: &str| {
            let rows = owner.simple_query(&format!("FETCH {what} FROM c")).await;
            ids(&rows.unwrap_or_else(|error| panic!("FETCH {what}: {error}")))
        };
        let mut next = 1;
        while next < MANY / 2 {
            assert_eq!(fetch("700").await, (next..next + 700).collect::<Vec<_>>());
            next += 700;
        }
        assert_eq!(fetch("BACKWARD 1500").await, (next - 1501..next - 1).rev().collect::<Vec<_>>());
        assert_eq!(fetch("ABSOLUTE 59999").await, [59_999]);
        assert_eq!(fetch("RELATIVE -30000").await, [29_999]);
        assert_eq!(fetch("LAST").await, [MANY]);
        assert_eq!(fetch("ABSOLUTE 58000").await, [58_000]);
        // More than one turn's output.
        assert_eq!(fetch("ALL").await, (58_001..=MANY).collect::<Vec<_>>());
        owner.batch_execute("MOVE ABSOLUTE 3 IN c").await.expect("moved");
        assert_eq!(fetch("NEXT").await, [4]);
        owner.batch_execute("CLOSE c; COMMIT").await.expect("closed");
        assert_eq!(put_aside(&admin).await, 0, "its file is gone");

        let grown = peak(&server).saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes more");

        // One that outlives its transaction, and the table.
        owner
            .batch_execute("CREATE TABLE u AS SELECT * FROM t; DECLARE h CURSOR WITH HOLD FOR SELECT * FROM u; DROP TABLE u")
            .await
            .expect("held");
        let rows = owner.simple_query("FETCH 5000 FROM h").await.expect("fetched");
        assert_eq!(ids(&rows), (1..=5000).collect::<Vec<_>>());
        owner.batch_execute("CLOSE ALL").await.expect("closed");

        // A driver that reads in parts.
        peak(&server);
        let before = peak(&server);
        let transaction = owner.transaction().await.expect("begun");
        let portal = transaction.bind("SELECT id, pad FROM t", &[]).await.expect("bound");
        let mut read = 0;
        loop {
            let rows = transaction.query_portal(&portal, 2500).await.expect("a part");
            for row in &rows {
                read += 1;
                assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1).len()), (read, PAD_LEN));
            }
            if rows.is_empty() {
                break;
            }
        }
        assert_eq!(i64::from(read), MANY);
        transaction.rollback().await.expect("ended");
        assert_eq!(put_aside(&admin).await, 0, "its file is gone");
        let grown = peak(&server).saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes more");

        // A client that goes away, and one that is cancelled on the way.
        let gone = server.owner("acme").await;
        gone.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 10 FROM c")
            .await
            .expect("rows");
        drop(gone);
        owner.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t").await.expect("declared");
        let cancel = owner.cancel_token();
        let (fetched, _) = with_others(owner.simple_query("FETCH ALL FROM c"), async |round| {
            if round == 1 {
                cancel.cancel_query(tokio_postgres::NoTls).await.expect("asked");
            }
        })
        .await;
        if let Err(error) = fetched {
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        }
        owner.batch_execute("ROLLBACK").await.expect("ended");
        for _ in 0..200 {
            if put_aside(&admin).await == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(put_aside(&admin).await, 0, "their files are gone");

        admin.batch_execute("ALTER TENANT acme SET (temp_max = '4MB')").await.expect("altered");
        let refused = owner.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t").await;
        assert_eq!(state(refused), SqlState::DISK_FULL);
        owner.batch_execute("ROLLBACK").await.expect("ended");
        assert_eq!(number(&owner, "SELECT count(*) FROM t").await, MANY);
    });
    assert!(server.terminate().success());
}

#[test]
fn what_follows_ddl_in_a_transaction_and_what_queries_give_takes_no_memory() {
    let mut server = Server::start_with(&SMALL);
    run(async {
        let (owner, admin) = filled(&server).await;
        let other = server.owner("acme").await;
        let before = peak(&server);
        let beside = async |round| {
            let now = resident(&admin).await;
            assert!(now <= MEMORY_BOUND, "{now} bytes of pages, {MEMORY_BOUND} are the bound");
            assert_eq!(number(&other, "SELECT id FROM t WHERE id = 7").await, 7, "{round}");
        };
        let pad = "z".repeat(PAD_LEN);

        // As `psql -1` and `pg_restore -1` load.
        let load = async {
            owner
                .batch_execute(
                    "BEGIN; CREATE TABLE a (id int PRIMARY KEY, n int, pad text); CREATE TABLE b (id int, pad text)",
                )
                .await?;
            for table in ["a (id, pad)", "b"] {
                let mut sink = pin!(owner.copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN")).await?);
                for first in (0..MANY).step_by(200) {
                    let rows: String = (first..first + 200).map(|id| format!("{id}\t{pad}\n")).collect();
                    sink.send(Bytes::from(rows)).await?;
                }
                sink.as_mut().finish().await?;
            }
            owner
                .batch_execute(
                    "CREATE INDEX ON a (n, id); UPDATE a SET n = id % 10; CREATE UNIQUE INDEX ON b (id)",
                )
                .await?;
            owner
                .batch_execute("TRUNCATE b; INSERT INTO b SELECT g, 'b' FROM generate_series(1, 20000) g")
                .await?;
            owner.batch_execute("COMMIT").await
        };
        let (loaded, rounds) = with_others(load, &beside).await;
        loaded.expect("loaded");
        let grown = peak(&server).saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes more");
        assert!(rounds > 3, "others had {rounds} rounds");
        assert_eq!(
            number(&owner, &format!("SELECT count(*) FROM a WHERE n = id % 10 AND length(pad) = {PAD_LEN}"))
                .await,
            MANY
        );
        assert_eq!(number(&owner, "SELECT count(*) FROM b").await, 20_000);

        // Of queries that need no memory of their own, but for the batches that were taken now.
        peak(&server);
        let before = peak(&server);
        let halves = format!(
            "FROM t WHERE id <= {0} UNION ALL SELECT id + 100000, pad FROM t WHERE id > {0}",
            MANY / 2
        );
        let statement = format!("CREATE TABLE made AS SELECT id + 100000 AS id, pad {halves}");
        let (made, _) = with_others(owner.batch_execute(&statement), &beside).await;
        made.expect("made");
        assert_eq!(
            number(&owner, &format!("SELECT count(*) FROM made WHERE length(pad) = {PAD_LEN}")).await,
            MANY
        );

        let statement = format!("INSERT INTO made SELECT id + 200000, pad {halves}");
        let (inserted, _) = with_others(owner.execute(&statement, &[]), &beside).await;
        assert_eq!(inserted.expect("inserted") as i64, MANY);
        let grown = peak(&server).saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes more");

        assert_eq!(number(&owner, "SELECT count(DISTINCT id) FROM made").await, MANY + MANY / 2);

        // One that is cancelled leaves no table.
        let cancel = owner.cancel_token();
        let statement = owner.batch_execute("CREATE TABLE never AS SELECT * FROM t");
        let (cancelled, _) = with_others(statement, async |round| {
            if round == 20 {
                cancel.cancel_query(tokio_postgres::NoTls).await.expect("asked");
            }
        })
        .await;
        if let Err(error) = cancelled {
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
            owner.batch_execute("CREATE TABLE never (id int)").await.expect("there is none");
        }

        // What cannot be poured is refused before it takes the memory of others, and leaves nothing.
        for begin in ["BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN"] {
            let behind_another = format!("{begin}; UPDATE t SET pad = pad || 'y'; SAVEPOINT s");
            owner.batch_execute(&behind_another).await.expect("that is poured");
            let refused = owner.batch_execute("UPDATE t SET pad = pad || 'x'").await;
            assert_eq!(state(refused), SqlState::OUT_OF_MEMORY, "{begin}");
            owner.batch_execute("ROLLBACK").await.expect("ended");
        }
        assert_eq!(
            number(&owner, &format!("SELECT count(*) FROM t WHERE length(pad) = {PAD_LEN}")).await,
            MANY
        );
        owner
            .batch_execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE t SET pad = 'short' WHERE id <= 2000; COMMIT",
            )
            .await
            .expect("a few are no case");
        // What was poured behind a savepoint goes with it.
        owner.batch_execute("BEGIN; SAVEPOINT s; UPDATE t SET pad = pad || 'x'").await.expect("poured");
        owner.batch_execute("ROLLBACK TO s; COMMIT").await.expect("taken back");
        let lengths = format!("SELECT count(*) FROM t WHERE length(pad) = {PAD_LEN}");
        assert_eq!(number(&owner, &lengths).await, MANY - 2000);
    });
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(number(&owner, "SELECT count(*) FROM a WHERE n = id % 10").await, MANY);
        assert_eq!(number(&owner, "SELECT count(*) FROM b").await, 20_000);
        assert_eq!(number(&owner, "SELECT count(*) FROM made").await, 2 * MANY);
        assert_eq!(number(&owner, "SELECT count(*) FROM t WHERE pad = 'short'").await, 2000);
    });
    assert!(server.terminate().success());
}

#[test]
fn an_answer_is_sent_as_it_comes_or_refused_before_it_takes_all_memory() {
    let mut server = Server::start_with(&SMALL);
    run(async {
        server.create_tenant("acme").await;
        let client = server.owner("acme").await;
        let lengths = |rows: Vec<SimpleQueryMessage>| {
            let length = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::len),
                _ => None,
            };
            rows.iter().filter_map(length).collect::<Vec<_>>()
        };
        let long = "SELECT repeat('x', 100000) FROM generate_series(1, 300)";
        let rows = client.simple_query(long).await.expect("a query that can leaves the point path");
        assert_eq!(lengths(rows), [100_000; 300]);
        let statement = client.prepare(long).await.expect("prepared");
        let rows = client.query(&statement, &[]).await.expect("likewise");
        assert!(rows.len() == 300 && rows.iter().all(|row| row.get::<_, &str>(0).len() == 100_000));
        let mut copied = 0;
        copied_out(&client, &format!("COPY ({long}) TO STDOUT"), |piece| copied += piece.len()).await;
        assert_eq!(copied, 300 * 100_001);

        // What has effects or gives other values each time stays.
        for volatile in [
            "SELECT gen_random_uuid() FROM generate_series(1, 1000000000)",
            "SELECT random() FROM generate_series(1, 1000000000) ORDER BY 1",
            "SELECT DISTINCT random() FROM generate_series(1, 1000000000)",
            "COPY (SELECT gen_random_uuid() FROM generate_series(1, 1000000000)) TO STDOUT",
        ] {
            let outcome = client.simple_query(volatile).await.map(|_| ());
            assert_eq!(state(outcome), SqlState::OUT_OF_MEMORY, "{volatile}");
        }
        // The sums of an answer are given back, however often it is made.
        let often = "SELECT (SELECT n + g FROM generate_series(1, 50) n ORDER BY 1 LIMIT 1), random() \
                     FROM generate_series(1, 20000) g";
        assert_eq!(lengths(client.simple_query(often).await.expect("small ones")).len(), 20_000);

        // All statements of a script are answered, and before the last one has run.
        let script = "SELECT repeat('y', 50000);".repeat(100) + "SELECT 'end'";
        let rows = client.simple_query(&script).await.expect("a script");
        let found = lengths(rows);
        assert_eq!((found.len(), found[..100].iter().all(|len| *len == 50_000)), (101, true));
        let script = "CREATE TABLE s (id int); INSERT INTO s VALUES (1);".to_owned()
            + &"SELECT repeat('y', 50000);".repeat(10)
            + "SELECT 1 / 0";
        assert_eq!(state(client.simple_query(&script).await), SqlState::DIVISION_BY_ZERO);
        assert_eq!(
            state(client.simple_query("SELECT * FROM s").await),
            SqlState::UNDEFINED_TABLE,
            "all of it"
        );
    });
    assert!(server.terminate().success());
}

#[test]
fn writers_of_a_table_go_on_while_an_index_of_it_is_built() {
    let mut server = Server::start_with(&SMALL);
    run(async {
        server.create_tenant("acme").await;
        let (owner, other) = (server.owner("acme").await, server.owner("acme").await);
        owner
            .batch_execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad text NOT NULL);
                 INSERT INTO t SELECT g, g, repeat('y', 100) FROM generate_series(1, {MANY}) g"
            ))
            .await
            .expect("rows");
        let made = Cell::new(0);
        let change = async |_| {
            let n = made.get() + 1;
            let id = n * 7_919 % MANY + 1;
            let statement = match n % 3 {
                0 => format!("DELETE FROM t WHERE id = {id}; INSERT INTO t VALUES ({id}, -{n}, 'new')"),
                1 => format!("UPDATE t SET n = -{n} WHERE id = {id}"),
                _ => format!(
                    "UPDATE t SET id = -id, n = -{n} WHERE id = {id}; INSERT INTO t VALUES ({id}, {MANY} + {n}, '')"
                ),
            };
            other.batch_execute(&statement).await.expect("changed");
            made.set(n);
        };
        for create in ["CREATE UNIQUE INDEX t_n ON t (n)", "CREATE INDEX CONCURRENTLY t_pad ON t (pad, n)"] {
            let (created, rounds) = with_others(owner.batch_execute(create), &change).await;
            created.expect(create);
            assert!(rounds > 10, "{create}: others had {rounds} rounds");
        }
        assert_eq!(number(&owner, "SELECT count(*) FROM t WHERE n < 0").await, made.get());

        // One that fails, or is cancelled, leaves nothing, and who drops the table comes behind it.
        let (refused, _) = with_others(owner.batch_execute("CREATE UNIQUE INDEX ON t (pad)"), &change).await;
        assert_eq!(state(refused), SqlState::UNIQUE_VIOLATION);
        let cancel = owner.cancel_token();
        let (cancelled, _) =
            with_others(owner.batch_execute("CREATE INDEX never ON t (n, id)"), async |round| {
                if round == 5 {
                    cancel.cancel_query(tokio_postgres::NoTls).await.expect("asked");
                }
                change(round).await;
            })
            .await;
        assert_eq!(state(cancelled), SqlState::QUERY_CANCELED);
        owner.batch_execute("CREATE TABLE never (id int PRIMARY KEY)").await.expect("there is none");
        owner.batch_execute("CREATE TABLE u AS SELECT * FROM t").await.expect("a copy");
        let (created, dropped) = tokio::join!(owner.batch_execute("CREATE INDEX ON u (n)"), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            other.batch_execute("DROP TABLE u").await
        });
        created.expect("created");
        dropped.expect("dropped");
        let block = owner.batch_execute("BEGIN; CREATE INDEX CONCURRENTLY ON t (n, id)").await;
        assert_eq!(state(block), SqlState::ACTIVE_SQL_TRANSACTION);
        owner.batch_execute("ROLLBACK").await.expect("ended");
    });
    assert!(server.terminate().success());
    let mut verify = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    let verified = verify.args(["verify", "--data"]).arg(server.data()).output().expect("it runs");
    assert!(verified.status.success(), "{}", said(&verified));
}

#[test]
fn a_transaction_that_wrote_and_goes_on_holds_up_an_index_and_no_other_writer() {
    let mut server = Server::start_with(&SMALL);
    run(async {
        server.create_tenant("acme").await;
        let (owner, other, idle) =
            (server.owner("acme").await, server.owner("acme").await, server.owner("acme").await);
        owner
            .batch_execute(
                "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
                 INSERT INTO t SELECT g, g FROM generate_series(1, 10000) g",
            )
            .await
            .expect("rows");
        idle.batch_execute("BEGIN; UPDATE t SET n = 0 WHERE id = 1").await.expect("changed");
        let longest = Cell::new(Duration::ZERO);
        let change = async |round: u32| {
            let began = Instant::now();
            let update = format!("UPDATE t SET n = -{round} WHERE id = {}", 2 + round % 9000);
            other.execute(&update, &[]).await.expect("changed");
            longest.set(longest.get().max(began.elapsed()));
        };
        // All of its waits together.
        owner.batch_execute("SET lock_timeout = '700ms'").await.expect("set");
        let (refused, rounds) = with_others(owner.batch_execute("CREATE INDEX ON t (n)"), &change).await;
        assert_eq!(state(refused), SqlState::LOCK_NOT_AVAILABLE);
        assert!(rounds > 10, "others had {rounds} rounds");
        owner.batch_execute("SET lock_timeout = 0").await.expect("set");
        let create = async {
            let commit = async {
                tokio::time::sleep(Duration::from_millis(2500)).await;
                idle.batch_execute("COMMIT").await
            };
            tokio::join!(owner.batch_execute("CREATE INDEX ON t (n)"), commit)
        };
        let ((created, committed), rounds) = with_others(create, &change).await;
        created.expect("created");
        committed.expect("committed");
        assert!(rounds > 20, "others had {rounds} rounds");
        assert!(longest.get() < Duration::from_millis(1500), "{:?}", longest.get());
    });
    assert!(server.terminate().success());
}
