//! Tenants much larger than the memory they share: everything works, slower, and memory stays within its bound.

mod common;

use std::cell::Cell;
use std::time::{Duration, Instant};

use common::{Server, run, text};
use tokio_postgres::{Client, SimpleQueryMessage};

/// What the server is given, in bytes.
const MEMORY: u64 = 8 << 20;
/// What it may take at most: 5 % more, and what one commit of these tests and the pages it copies take.
const MEMORY_BOUND: u64 = MEMORY + MEMORY / 20 + (1 << 20);
/// Rows of a page each: 8 times the memory. `ROWHOUSE_SMALL_MEMORY_ROWS` makes it another number.
const ROWS_DEFAULT: u64 = 8_000;
/// Rows of one statement: 0.8 MB.
const BATCH: u64 = 100;

/// Bytes that all tenants' pages take now, and the sum of a counter.
async fn pages(admin: &Client, counter: &str) -> (u64, u64) {
    let (mut resident, mut counted) = (0, 0);
    for message in admin.simple_query("SHOW TENANTS").await.expect("the tenants") {
        if let SimpleQueryMessage::Row(row) = message {
            let number = |name: &str| row.get(name).and_then(|n| n.parse::<u64>().ok()).expect("a number");
            resident += number("resident_bytes");
            counted += number(counter);
        }
    }
    (resident, counted)
}

fn rows() -> u64 {
    let chosen = std::env::var("ROWHOUSE_SMALL_MEMORY_ROWS").ok();
    chosen.map_or(ROWS_DEFAULT, |rows| rows.parse().expect("a number of rows")).next_multiple_of(BATCH)
}

async fn load(owner: &Client, rows: u64) {
    owner
        .batch_execute(
            "CREATE TABLE batch (i int PRIMARY KEY);
             CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad text NOT NULL);
             CREATE TABLE small (id int PRIMARY KEY, n int NOT NULL)",
        )
        .await
        .expect("tables");
    let numbers = (0..BATCH).map(|i| format!("({i})")).collect::<Vec<_>>().join(", ");
    owner.batch_execute(&format!("INSERT INTO batch VALUES {numbers}")).await.expect("numbers");
    let pad = "x".repeat(7_900);
    for from in (0..rows).step_by(BATCH as usize) {
        let statement = format!(
            "INSERT INTO t SELECT {from} + i, 0, '{pad}' FROM batch; INSERT INTO small SELECT {from} + i, 0 FROM batch"
        );
        owner.batch_execute(&statement).await.expect("rows");
    }
}

/// A row chosen by a step of a sequence without visible order.
fn scattered(step: u64) -> u64 {
    step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
}

#[test]
fn a_tenant_many_times_its_memory_works_within_its_bound() {
    let mut server = Server::start_with(&["--memory", "8MiB", "--workers", "2"]);
    let rows = rows();
    let updates = run(async {
        server.create_tenant("acme").await;
        let admin = server.admin().await;
        let peak = Cell::new(0_u64);
        let watched = |resident: u64| {
            peak.set(peak.get().max(resident));
            assert!(resident <= MEMORY_BOUND, "{resident} bytes of pages, {MEMORY_BOUND} are the bound");
        };
        let owner = server.owner("acme").await;
        {
            let loading = load(&owner, rows);
            tokio::pin!(loading);
            loop {
                tokio::select! {
                    () = &mut loading => break,
                    () = tokio::time::sleep(Duration::from_millis(5)) => watched(pages(&admin, "page_reads").await.0),
                }
            }
        }
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, rows.to_string());

        let old = server.owner("acme").await;
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("it begins");
        assert_eq!(text(&old, "SELECT n FROM t WHERE id = 0").await, "0");
        let (reader, writer, analyst) =
            (server.owner("acme").await, server.owner("acme").await, server.owner("acme").await);
        let updates = Cell::new(0_u64);
        let until = Instant::now() + Duration::from_secs(5);
        let going = || Instant::now() < until;
        let reads = async {
            let statement =
                reader.prepare("SELECT id, length(pad) FROM t WHERE id = $1").await.expect("a plan");
            for step in 0.. {
                let id = (scattered(step) % rows) as i32;
                let row = reader.query_one(&statement, &[&id]).await.expect("a row");
                assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (id, 7_900));
                if !going() {
                    return step;
                }
            }
            unreachable!("the loop ends by time")
        };
        let writes = async {
            let statement = writer.prepare("UPDATE t SET n = n + 1 WHERE id = $1").await.expect("a plan");
            for step in 1_000_000.. {
                let id = (scattered(step) % rows) as i32;
                assert_eq!(writer.execute(&statement, &[&id]).await.expect("updated"), 1);
                updates.set(updates.get() + 1);
                if !going() {
                    return;
                }
            }
        };
        let scans = async {
            let mut scans = 0;
            while going() {
                let found = text(&analyst, "SELECT sum(length(pad)) FROM t").await;
                assert_eq!(found, (rows * 7_900).to_string());
                let range = text(&analyst, "SELECT count(*) FROM t WHERE id BETWEEN 5000 AND 7000").await;
                assert_eq!(range, "2001");
                let changed = analyst.execute("UPDATE small SET n = n + 1 WHERE id % 40 = 3", &[]).await;
                assert_eq!(changed.expect("updated"), rows / 40);
                scans += 1;
            }
            scans
        };
        let held_open = async {
            let mut step = 0;
            while going() {
                let id = scattered(step) % rows;
                let found = text(&old, &format!("SELECT n FROM t WHERE id = {id}")).await;
                assert_eq!(found, "0", "the snapshot is older than all updates");
                step += 1;
            }
        };
        let watching = async {
            while going() {
                watched(pages(&admin, "page_reads").await.0);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let (reads, (), scans, (), ()) = tokio::join!(reads, writes, scans, held_open, watching);
        let (_, used) = pages(&admin, "ahead_used").await;
        assert!(used > 0, "scans read ahead");
        println!("{used} pages read ahead were used");
        println!("{reads} reads, {} updates, {scans} scans, peak {} bytes", updates.get(), peak.get());
        assert_eq!(text(&old, "SELECT sum(n) FROM t").await, "0");
        old.batch_execute("COMMIT").await.expect("nothing was changed in it");
        assert_eq!(text(&owner, "SELECT sum(n) FROM t").await, updates.get().to_string());
        assert!(pages(&admin, "page_evictions").await.1 > rows, "the data do not fit");
        watched(pages(&admin, "page_reads").await.0);
        updates.get()
    });
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(text(&owner, "SELECT sum(n) FROM t").await, updates.to_string(), "what was acknowledged");
        assert!(pages(&server.admin().await, "page_reads").await.0 <= MEMORY_BOUND);
    });
    assert!(server.terminate().success());
    let mut verify = std::process::Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    common::check_output(verify.arg("verify").arg("--data").arg(server.data()));
}

#[test]
fn a_tenant_is_made_cold() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        owner
            .batch_execute("CREATE TABLE t (id int PRIMARY KEY, pad text); INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 1000) g")
            .await
            .expect("rows");
        let (before, _) = pages(&admin, "page_reads").await;
        let evicted: u64 = text(&admin, "SELECT rowhouse.evict('acme')").await.parse().expect("a number");
        assert!(evicted > 100, "{evicted}");
        let (after, reads) = pages(&admin, "page_reads").await;
        assert!(before - after >= evicted * 8192);
        assert_eq!(text(&owner, "SELECT length(pad) FROM t WHERE id = 500").await, "1000");
        assert!(pages(&admin, "page_reads").await.1 > reads, "read again");
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, "1000");
        // Look-ups key by key, of which each misses a page of its own: by a join, by a list, and within an aggregate.
        owner
            .batch_execute("CREATE TABLE wanted (n int PRIMARY KEY, id int); INSERT INTO wanted SELECT g, g * 7 FROM generate_series(1, 140) g")
            .await
            .expect("rows");
        let list = (1..=140).map(|n| (n * 7).to_string()).collect::<Vec<_>>().join(", ");
        for (query, answer, least) in [
            (
                "SELECT count(DISTINCT t.id) FROM wanted w, t WHERE w.n <= 140 AND t.id = w.id".to_owned(),
                "140",
                80,
            ),
            (
                "SELECT sum(length(t.pad) + w.n) FROM wanted w JOIN t ON t.id = w.id WHERE w.n <= 100"
                    .to_owned(),
                "105050",
                80,
            ),
            (format!("SELECT max(id) FROM t WHERE id IN ({list})"), "980", 80),
            (
                "SELECT t.id FROM wanted w JOIN t ON t.id = w.id WHERE w.n <= 140 ORDER BY 1 DESC LIMIT 1"
                    .to_owned(),
                "980",
                1,
            ),
            (
                "SELECT 1 / (count(t.id) - 99) FROM wanted w JOIN t ON t.id = w.id WHERE w.n <= 100"
                    .to_owned(),
                "1",
                80,
            ),
        ] {
            assert_ne!(text(&admin, "SELECT rowhouse.evict('acme')").await, "0");
            let (_, reads) = pages(&admin, "page_reads").await;
            assert_eq!(text(&owner, &query).await, answer, "{query}");
            assert!(pages(&admin, "page_reads").await.1 > reads + least, "{query} misses pages");
        }
        let refused = owner.simple_query("SELECT rowhouse.evict('acme')").await;
        assert_eq!(common::state(refused), tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE);
        let unknown = admin.simple_query("SELECT rowhouse.evict('nobody')").await;
        assert_eq!(common::state(unknown), tokio_postgres::error::SqlState::INVALID_CATALOG_NAME);
    });
}

/// What SHOW TENANTS says of one tenant.
async fn counted(admin: &Client, tenant: &str, counter: &str) -> u64 {
    for message in admin.simple_query("SHOW TENANTS").await.expect("the tenants") {
        if let SimpleQueryMessage::Row(row) = message
            && row.get("name") == Some(tenant)
        {
            return row.get(counter).and_then(|n| n.parse().ok()).expect("a number");
        }
    }
    panic!("{tenant} is there")
}

#[test]
fn a_tenant_at_its_own_limit_evicts_its_own_pages_alone() {
    const ROWS: u64 = 2_000;
    const MAX: u64 = 2 << 20;
    // What one statement holds and a commit takes, and versions and the map, which do not leave.
    const BOUND: u64 = MAX + (2 << 20);
    let server = Server::start_with(&["--memory", "128MiB", "--workers", "2"]);
    run(async {
        let admin = server.admin().await;
        for tenant in ["acme", "other"] {
            server.create_tenant(tenant).await;
        }
        let (acme, other) = (server.owner("acme").await, server.owner("other").await);
        load(&other, 500).await;
        admin.batch_execute("ALTER TENANT acme SET (memory_max = '2MB')").await.expect("altered");
        let peak = Cell::new(0);
        {
            let work = async {
                load(&acme, ROWS).await;
                for step in 0..300 {
                    let id = scattered(step) % ROWS;
                    let sql = format!(
                        "UPDATE t SET n = n + 1 WHERE id = {id}; SELECT n FROM t WHERE id = {}",
                        (id * 7) % ROWS
                    );
                    acme.batch_execute(&sql).await.expect("a row");
                }
            };
            tokio::pin!(work);
            loop {
                tokio::select! {
                    () = &mut work => break,
                    () = tokio::time::sleep(Duration::from_millis(20)) => {
                        peak.set(peak.get().max(counted(&admin, "acme", "resident_bytes").await));
                    }
                }
            }
        }
        assert!(peak.get() > MAX / 2 && peak.get() <= BOUND, "{} bytes of pages", peak.get());
        assert!(counted(&admin, "acme", "page_evictions").await > ROWS / 2);
        assert_eq!(text(&acme, "SELECT count(*) || ' ' || sum(n) FROM t").await, format!("{ROWS} 300"));
        assert_eq!(counted(&admin, "other", "page_evictions").await, 0, "there is room for it");
        // A limit acts at once, in either direction.
        admin.batch_execute("ALTER TENANT acme SET (memory_max = none)").await.expect("altered");
        assert_eq!(text(&acme, "SELECT sum(length(pad)) FROM t").await, (ROWS * 7_900).to_string());
        let grown = counted(&admin, "acme", "resident_bytes").await;
        assert!(grown > ROWS * 8_000, "{grown} bytes of pages");
        // What is promised up to the limit stays, and no more.
        let both = "ALTER TENANT acme SET (memory = '8MB', memory_max = '8MB')";
        admin.batch_execute(both).await.expect("altered");
        let until = Instant::now() + Duration::from_secs(30);
        while counted(&admin, "acme", "resident_bytes").await > (8 << 20) + (2 << 20) {
            assert!(Instant::now() < until, "nothing leaves");
            assert_eq!(text(&acme, "SELECT count(*) FROM small").await, ROWS.to_string());
        }
        assert_eq!(text(&acme, "SELECT sum(length(pad)) FROM t").await, (ROWS * 7_900).to_string());
        // The evictor may be a few turns behind the end of the scan.
        let until = Instant::now() + Duration::from_secs(30);
        while counted(&admin, "acme", "resident_bytes").await > (8 << 20) + (2 << 20) {
            assert!(Instant::now() < until, "nothing leaves");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        admin.batch_execute("ALTER TENANT acme RESET (memory)").await.expect("altered");
        admin.batch_execute("ALTER TENANT acme SET (memory_max = '1MB')").await.expect("altered");
        let until = Instant::now() + Duration::from_secs(30);
        while counted(&admin, "acme", "resident_bytes").await > BOUND {
            assert!(Instant::now() < until, "nothing leaves");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(text(&acme, "SELECT sum(length(pad)) FROM t").await, (ROWS * 7_900).to_string());
        acme.batch_execute("UPDATE t SET n = 0").await.expect("a change of more than may stay");
        assert_eq!(text(&acme, "SELECT count(*) || ' ' || sum(n) FROM t").await, format!("{ROWS} 0"));
        assert_eq!(counted(&admin, "other", "page_evictions").await, 0, "there is room for it");
    });
}

#[test]
fn a_tenant_a_hundred_times_its_memory_works() {
    const MAX: u64 = 1 << 20;
    /// Of a page each.
    const ROWS: u64 = 100 * MAX / 8192;
    // What one statement holds and a commit takes, and the map of so many pages, which do not leave.
    const BOUND: u64 = MAX + (4 << 20);
    let mut server = Server::start_with(&["--memory", "128MiB", "--workers", "2"]);
    run(async {
        let admin = server.admin().await;
        server.create_tenant("acme").await;
        admin.batch_execute("ALTER TENANT acme SET (memory_max = '1MB')").await.expect("altered");
        let (acme, reader) = (server.owner("acme").await, server.owner("acme").await);
        let table = "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad text NOT NULL)";
        acme.batch_execute(table).await.expect("a table");
        let rows =
            format!("INSERT INTO t SELECT g, 0, repeat('x', 7900) FROM generate_series(0, {}) g", ROWS - 1);
        acme.batch_execute(&rows).await.expect("rows");
        let all = format!("{ROWS} 0 {}", ROWS * 7_900);
        let sums = "SELECT count(*) || ' ' || sum(n) || ' ' || sum(length(pad)) FROM t";
        reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begun");
        assert_eq!(text(&reader, sums).await, all);
        for step in 0..200 {
            let id = scattered(step) % ROWS;
            let sql = format!("UPDATE t SET n = 1 WHERE id = {id}");
            acme.batch_execute(&sql).await.expect("a row");
            assert_eq!(text(&acme, &format!("SELECT n FROM t WHERE id = {id}")).await, "1");
        }
        acme.batch_execute("UPDATE t SET n = 1 WHERE id % 4 = 0").await.expect("many times its memory");
        acme.batch_execute("CREATE INDEX t_n ON t (n)").await.expect("an index");
        assert_eq!(text(&reader, sums).await, all, "a snapshot has what there was");
        reader.batch_execute("COMMIT").await.expect("committed");
        assert_eq!(text(&acme, "SELECT count(*) FROM t WHERE id % 4 = 0 AND n = 0").await, "0");
        assert!(counted(&admin, "acme", "page_evictions").await > ROWS, "they do not fit");
        let until = Instant::now() + Duration::from_secs(30);
        while counted(&admin, "acme", "resident_bytes").await > BOUND {
            assert!(Instant::now() < until, "nothing leaves");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(server.terminate().success());
    let mut verify = std::process::Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    common::check_output(verify.arg("verify").arg("--data").arg(server.data()));
}
