//! What a tenant gets beside another by its weights and its credit, and its limits of bytes and of sessions, by wire.

mod common;

use std::cell::Cell;
use std::time::{Duration, Instant};

use common::{Server, run, state, text};
use futures::future::join_all;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Sessions of each tenant: while one statement of it runs others wait.
const SESSIONS: usize = 4;

/// Two tenants on one worker, each with its table and its sessions.
struct Pair {
    admin: Client,
    sessions: [Vec<Client>; 2],
    _server: Server,
}

const NAMES: [&str; 2] = ["acme", "other"];

impl Pair {
    async fn start(options: &[&str], table: &str) -> Pair {
        let server = Server::start_with(&[&["--workers", "1"], options].concat());
        let mut sessions = [Vec::new(), Vec::new()];
        for (name, sessions) in NAMES.iter().zip(&mut sessions) {
            server.create_tenant(name).await;
            for _ in 0..SESSIONS {
                sessions.push(server.owner(name).await);
            }
            sessions[0].batch_execute(table).await.expect("rows");
        }
        let admin = server.admin().await;
        Pair { admin, sessions, _server: server }
    }

    async fn alter(&self, tenant: usize, options: &str) {
        let sql = format!("ALTER TENANT {} SET ({options})", NAMES[tenant]);
        self.admin.batch_execute(&sql).await.expect("altered");
    }

    /// Nothing of either is in memory. A checkpoint that is under way leaves what was changed since to another one.
    async fn evict(&self) {
        for name in [NAMES, NAMES].as_flattened() {
            self.admin.batch_execute(&format!("SELECT rowhouse.evict('{name}')")).await.expect("evicted");
        }
    }

    /// Core-seconds of each so far.
    async fn used(&self) -> [f64; 2] {
        let shown = self.admin.simple_query("SHOW TENANTS").await.expect("shown");
        NAMES.map(|name| {
            let mut rows = shown.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            });
            let row = rows.find(|row| row.get("name") == Some(name)).expect("it is there");
            row.get("cpu_seconds").and_then(|value| value.parse().ok()).expect("a number")
        })
    }

    /// Both work as much as they can for a time; core-seconds that each had meanwhile, and for how long that was.
    async fn at_work(&self, time: Duration) -> ([f64; 2], f64) {
        let is_over = Cell::new(false);
        let work = async |session: &Client| {
            while !is_over.get() {
                session.query_one("SELECT sum(n) FROM t", &[]).await.expect("a sum");
            }
        };
        // All of them work before it begins and after it ends.
        let look = async {
            tokio::time::sleep(SETTLING).await;
            let (began, before) = (Instant::now(), self.used().await);
            tokio::time::sleep(time).await;
            let (took, after) = (began.elapsed().as_secs_f64(), self.used().await);
            is_over.set(true);
            ([0, 1].map(|tenant| after[tenant] - before[tenant]), took)
        };
        let (_, had) = tokio::join!(join_all(self.sessions.iter().flatten().map(work)), look);
        had
    }

    /// The first one's part of what both had of the worker.
    async fn part_of_first(&self, time: Duration) -> f64 {
        let ([first, second], _) = self.at_work(time).await;
        first / (first + second)
    }

    /// Core-seconds a second of the first.
    async fn rate_of_first(&self, time: Duration) -> f64 {
        let ([first, _], took) = self.at_work(time).await;
        first / took
    }
}

/// From the beginning of work to what is looked at.
const SETTLING: Duration = Duration::from_millis(200);

const NUMBERS: &str =
    "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT g FROM generate_series(1, 1000) g";

/// Rows of a page each.
fn pages(rows: u32) -> String {
    format!(
        "CREATE TABLE t (id int PRIMARY KEY, pad text NOT NULL); \
         INSERT INTO t SELECT g, repeat('x', 7000) FROM generate_series(0, {rows} - 1) g"
    )
}

#[test]
fn the_worker_is_shared_by_weight() {
    run(async {
        let pair = Pair::start(&[], NUMBERS).await;
        pair.alter(0, "cpu_weight = 300").await;
        let part = pair.part_of_first(Duration::from_secs(2)).await;
        assert!((0.68..0.82).contains(&part), "{part} at 300 to 100");
        // Acts at once on what runs.
        pair.alter(1, "cpu_weight = 900").await;
        let part = pair.part_of_first(Duration::from_secs(2)).await;
        assert!((0.18..0.32).contains(&part), "{part} at 300 to 900");
    });
}

#[test]
fn what_a_tenant_left_of_its_reservation_is_its_credit() {
    run(async {
        let pair = Pair::start(&[], NUMBERS).await;
        // Of what is spare the first one has next to nothing.
        pair.alter(1, "cpu_weight = 10000").await;
        pair.alter(0, "cpu = 0.2").await;
        let rate = pair.rate_of_first(Duration::from_secs(1)).await;
        assert!((0.15..0.3).contains(&rate), "{rate} of 0.2 without credit");
        pair.alter(0, "cpu_burst = '400ms'").await;
        // Three seconds of nothing leave more than that, which half a worker takes in more than a second.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let rate = pair.rate_of_first(Duration::from_millis(300)).await;
        assert!(rate > 0.4, "{rate} with credit");
        pair.at_work(Duration::from_secs(2)).await;
        let rate = pair.rate_of_first(Duration::from_secs(1)).await;
        assert!((0.15..0.3).contains(&rate), "{rate} once it is spent");
    });
}

#[test]
fn a_volume_is_shared_by_weight() {
    const ROWS: u32 = 2_000;
    run(async {
        let pair = Pair::start(&["--memory", "8MiB", "--read-ahead", "0"], &pages(ROWS)).await;
        pair.alter(0, "io_weight = 300").await;
        pair.evict().await;
        pair.admin.batch_execute("ALTER VOLUME \"default\" SET (iops_limit = 200)").await.expect("altered");
        let (began, warm) = (Instant::now(), Duration::from_secs(1));
        let until = began + Duration::from_secs(6);
        let reads = [Cell::new(0u32), Cell::new(0)];
        let work = async |(tenant, number, session): (usize, usize, &Client)| {
            // Each its own part of the table, in an order that comes back to no page while it is in memory.
            let part = ROWS / SESSIONS as u32;
            for step in 0.. {
                let id = number as u32 * part + step * 7 % part;
                session.query_one(&format!("SELECT pad FROM t WHERE id = {id}"), &[]).await.expect("a row");
                match Instant::now() {
                    now if now >= until => break,
                    now if now >= began + warm => reads[tenant].set(reads[tenant].get() + 1),
                    _ => {}
                }
            }
        };
        let all = pair.sessions.iter().enumerate().flat_map(|(tenant, sessions)| {
            sessions.iter().enumerate().map(move |(number, session)| (tenant, number, session))
        });
        join_all(all.map(work)).await;
        let [first, second] = reads.map(|reads| f64::from(reads.get()));
        let ratio = first / second;
        assert!((2.0..4.5).contains(&ratio), "{first} reads and {second} at 300 to 100");
    });
}

#[test]
fn a_limit_of_bytes_holds() {
    run(async {
        let pair = Pair::start(&["--read-ahead", "0"], &pages(100)).await;
        pair.alter(0, "io_bandwidth_max = '256KiB'").await;
        pair.evict().await;
        let read_all = async |session: &Client| {
            let began = Instant::now();
            for id in 0..100 {
                session.query_one(&format!("SELECT pad FROM t WHERE id = {id}"), &[]).await.expect("a row");
            }
            began.elapsed().as_secs_f64()
        };
        let limited = read_all(&pair.sessions[0][0]).await;
        // 100 pages of 8 KiB or more are 0.8 MB or more.
        assert!(limited >= 2.9, "{limited} s");
        let free = read_all(&pair.sessions[1][0]).await;
        assert!(free < limited, "{free} s of the neighbour, which has no limit, {limited} s with it");
    });
}

#[test]
fn a_limit_of_sessions_turns_the_next_one_away_and_acts_at_once() {
    let server = Server::with_acme();
    run(async {
        let (admin, held) = (server.admin().await, server.owner("acme").await);
        admin.batch_execute("ALTER TENANT acme SET (connections_max = 2)").await.expect("altered");
        let second = server.owner("acme").await;
        let third = server.connect_as("acme", "acme").await;
        assert_eq!(state(third), SqlState::TOO_MANY_CONNECTIONS);
        // Who holds a place keeps it, and a place that is given back is another one's.
        admin.batch_execute("ALTER TENANT acme SET (connections_max = 1)").await.expect("altered");
        assert_eq!(text(&second, "SELECT 1").await, "1");
        drop(held);
        assert_eq!(state(server.connect_as("acme", "acme").await), SqlState::TOO_MANY_CONNECTIONS);
        drop(second);
        let until = Instant::now() + Duration::from_secs(20);
        while server.connect_as("acme", "acme").await.is_err() {
            assert!(Instant::now() < until, "its only place stays taken");
        }
        admin.batch_execute("ALTER TENANT acme SET (connections_max = none)").await.expect("altered");
        let many: Vec<Client> = join_all((0..5).map(|_| server.owner("acme"))).await;
        assert_eq!(many.len(), 5);
    });
}
