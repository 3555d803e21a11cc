//! What a session costs its worker, without sockets and without a disk: pgbench's transactions by the extended protocol,
//! as pgbench sends them, on a tenant in memory.
//!
//! `cargo run --release -p sql --example session_cost [ROUNDS [uncounted]]` prints nanoseconds a transaction; under
//! `valgrind --tool=callgrind --toggle-collect='*select_only*'` it tells where the instructions go. `uncounted`: without the statistics of
//! statements.

use std::sync::Arc;

use base::{CommitNo, Lsn, SessionId, SqlError, TenantId};
use sql::session::stand_in::{CountingHost, LoneHost};
use sql::session::{
    Bind, CopyShape, Executed, Field, Formats, Home, Pause, Reply, Session, SessionHost, SessionStart,
};
use tenant::{RedoSink, Tenant};

/// Rows of `pgbench_accounts`; small enough for the processor's caches.
const ACCOUNTS: u32 = 10_000;

/// A log whose records are durable at once.
#[derive(Default)]
struct Log {
    end: u64,
    bytes: usize,
}

impl RedoSink for Log {
    fn append(&mut self, _: TenantId, _: CommitNo, record: &[u8]) -> Lsn {
        self.bytes += record.len();
        self.end += 1;
        Lsn(self.end)
    }
}

/// Keeps the bytes of rows, as a socket's buffer would.
#[derive(Default)]
struct Wire {
    bytes: Vec<u8>,
    rows: u64,
}

impl Reply for Wire {
    fn row_description(&mut self, fields: &[Field], _: &Formats) {
        self.bytes.extend(fields.iter().flat_map(|field| field.ty.oid().to_be_bytes()));
    }
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, _: &[u32]) {}
    fn parse_complete(&mut self) {}
    fn bind_complete(&mut self) {}
    fn close_complete(&mut self) {}
    fn begin_row(&mut self, _: usize) -> &mut Vec<u8> {
        self.rows += 1;
        &mut self.bytes
    }
    fn end_row(&mut self) {}
    fn encoded_rows(&mut self, _: &[u8]) {}
    fn command_complete(&mut self, tag: &str) {
        self.bytes.extend(tag.as_bytes());
    }
    fn empty_query(&mut self) {}
    fn portal_suspended(&mut self) {}
    fn notice(&mut self, _: &SqlError) {}
    fn parameter_status(&mut self, _: &str, _: &str) {}
    fn copy_in(&mut self, _: CopyShape) {}
    fn copy_out(&mut self, _: CopyShape) {}
    fn copy_done(&mut self) {}
    fn mark(&self) -> usize {
        self.bytes.len()
    }
    fn rewind(&mut self, mark: usize) {
        self.bytes.truncate(mark);
    }
    fn buffered(&self) -> usize {
        self.bytes.len()
    }
}

struct Client {
    tenant: Tenant,
    log: Log,
    session: Session,
    wire: Wire,
    random: u64,
    clock: env::Env,
}

fn done<T>(outcome: Result<T, Pause>) -> T {
    match outcome {
        Ok(value) => value,
        Err(Pause::Error(error)) => panic!("{} {}", error.state(), error.message()),
        Err(pause) => panic!("{pause:?}"),
    }
}

impl Client {
    fn new(clock: &env::Env, counted: bool) -> Client {
        let lone = || Arc::new(LoneHost(clock.clone())) as Arc<dyn SessionHost>;
        let host = if counted { Arc::new(CountingHost::new(clock.clone())) } else { lone() };
        let tenant = Tenant::in_memory(TenantId(77), "owner");
        let start = SessionStart {
            id: SessionId(1),
            tenant: TenantId(77),
            database: "app".into(),
            user: "owner".into(),
            administrator: false,
            parameters: vec![("application_name".into(), "pgbench".into())],
            host,
        };
        let session = Session::new(start, &tenant).expect("the role exists");
        Client {
            tenant,
            log: Log::default(),
            session,
            wire: Wire::default(),
            random: 1,
            clock: clock.clone(),
        }
    }

    fn script(&mut self, sql: &str) {
        let mut home = Home { tenant: &mut self.tenant, redo: &mut self.log };
        assert_eq!(done(self.session.query(&mut home, sql, &mut self.wire)), Executed::Complete);
    }

    fn prepare(&mut self, name: &str, sql: &str) {
        let mut home = Home { tenant: &mut self.tenant, redo: &mut self.log };
        done(self.session.parse(&mut home, name, sql, &[], &mut self.wire));
        done(self.session.sync(&mut home, &mut self.wire));
    }

    fn number(&mut self, below: u32) -> u32 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % u64::from(below)) as u32
    }

    /// One message group of libpq's `PQsendQueryPrepared`, and the reply's leaving.
    fn statement(&mut self, name: &str, parameters: &[Option<&[u8]>]) {
        let mut home = Home { tenant: &mut self.tenant, redo: &mut self.log };
        let bind =
            Bind { portal: "", statement: name, parameter_formats: &[], parameters, result_formats: &[0] };
        done(self.session.bind(&mut home, bind, &mut self.wire));
        done(self.session.describe_portal(&mut home, "", &mut self.wire));
        done(self.session.execute(&mut home, "", None, &mut self.wire));
        done(self.session.sync(&mut home, &mut self.wire));
        if let Some(lsn) = self.session.observed() {
            self.tenant.durable(lsn);
            self.session.reset_observed();
        }
        // The server reads the clock here whether statements are counted or not.
        let now = self.clock.now();
        if self.session.has_ended_statement() {
            self.session.count_ended(now);
        }
        std::hint::black_box(self.session.timeouts());
        self.session.received(now);
        self.wire.bytes.clear();
    }
}

#[inline(never)]
fn select_only(client: &mut Client) {
    let aid = client.number(ACCOUNTS).to_string();
    client.statement("P0", &[Some(aid.as_bytes())]);
}

#[inline(never)]
fn tpcb(client: &mut Client) {
    let aid = client.number(ACCOUNTS).to_string();
    let delta = client.number(5000).to_string();
    let (aid, delta) = (Some(aid.as_bytes()), Some(delta.as_bytes()));
    client.statement("begin", &[]);
    client.statement("accounts", &[delta, aid]);
    client.statement("select", &[aid]);
    client.statement("tellers", &[delta, Some(b"7")]);
    client.statement("branches", &[delta, Some(b"1")]);
    client.statement("history", &[Some(b"7"), Some(b"1"), aid, delta]);
    client.statement("end", &[]);
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(200_000);
    let counted = std::env::args().nth(2).is_none();
    let clock = env::Env::real();
    let mut client = Client::new(&clock, counted);
    client.script(&format!(
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
         CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
         CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
         CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
         INSERT INTO pgbench_accounts SELECT g, 1, 0, '' FROM generate_series(0, {ACCOUNTS}) g;
         INSERT INTO pgbench_tellers SELECT g, 1, 0, '' FROM generate_series(1, 10) g;
         INSERT INTO pgbench_branches VALUES (1, 0, '');"
    ));
    for (name, sql) in [
        ("P0", "SELECT abalance FROM pgbench_accounts WHERE aid = $1"),
        ("begin", "BEGIN"),
        ("accounts", "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2"),
        ("select", "SELECT abalance FROM pgbench_accounts WHERE aid = $1"),
        ("tellers", "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2"),
        ("branches", "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2"),
        (
            "history",
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
        ),
        ("end", "END"),
    ] {
        client.prepare(name, sql);
    }
    for (name, run) in [("select only", select_only as fn(&mut Client)), ("tpc-b", tpcb)] {
        for _ in 0..rounds / 10 {
            run(&mut client);
        }
        let start = clock.now();
        for _ in 0..rounds {
            run(&mut client);
        }
        println!("{name}: {} ns a transaction", (clock.now() - start).0 / u64::from(rounds.max(1)));
    }
    println!("{} rows, {} bytes of redo", client.wire.rows, client.log.bytes);
}
