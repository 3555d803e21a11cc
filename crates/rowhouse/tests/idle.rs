//! A server that is asked nothing does nothing, whatever it was asked before.

mod common;

use std::time::{Duration, Instant};

use common::raw::RawClient;
use common::{Server, run, state};
use pgproto::client;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// Processor time of the server's threads so far, in hundredths of a second.
fn cpu_ticks(server: &Server) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("the server runs");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in parentheses");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields[11..=12].iter().map(|field| field.parse::<u64>().expect("a number of ticks")).sum()
}

/// Fails unless the server, some of whose work may still be ending, uses under 5 % of a core for two seconds.
fn assert_idle(server: &Server, after: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let before = cpu_ticks(server);
        std::thread::sleep(Duration::from_secs(2));
        let used = cpu_ticks(server) - before;
        if used < 10 {
            return;
        }
        assert!(Instant::now() < deadline, "{used} ticks in 2 s of idleness after {after}");
    }
}

const FAILING: [&str; 3] = [
    "SELECT count(*) FROM numbers GROUP BY no_such_function(n)",
    "SELECT n, row_number() OVER (ORDER BY no_such_function(n)) FROM numbers",
    "SELECT sum(n) / 0 FROM numbers GROUP BY n % 3",
];
/// Takes hours, and says nothing on the way.
const ENDLESS: &str = "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e
                       WHERE a.n + b.n + c.n + d.n + e.n = 7";

#[test]
fn nothing_runs_on_after_analytical_requests_of_every_kind() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        let fill = "CREATE TABLE numbers (n int PRIMARY KEY);
                    INSERT INTO numbers SELECT * FROM generate_series(1, 300)";
        owner.batch_execute(fill).await.expect("the table is filled");
    });
    assert_idle(&server, "the start");

    for sql in FAILING {
        // Prepared by a driver, which describes; then as messages that end in the middle, the socket closed behind them.
        run(async {
            let owner = server.owner("acme").await;
            let prepared = tokio::time::timeout(Duration::from_secs(20), owner.query(sql, &[])).await;
            prepared.expect("it is answered").expect_err("it fails");
        });
        for describe in [b'S', b'P'] {
            let mut client = RawClient::log_in(&server, "acme", "acme");
            let mut out = Vec::new();
            client::parse(&mut out, "", sql, &[]);
            client::bind(&mut out, "", "", &[], &[], &[]);
            client::describe(&mut out, describe, "");
            client::execute(&mut out, "", 5);
            client.send(&out);
        }
    }
    assert_idle(&server, "failed descriptions");

    run(async {
        let mut owner = server.owner("acme").await;
        for sql in
            ["SELECT n, sum(n) OVER (ORDER BY n) FROM numbers", "SELECT count(*) FROM numbers GROUP BY n % 7"]
        {
            let transaction = owner.transaction().await.expect("a transaction begins");
            let portal = transaction.bind(sql, &[]).await.expect("it is bound");
            assert_eq!(transaction.query_portal(&portal, 3).await.expect("rows").len(), 3);
            transaction.rollback().await.expect("rolled back");
        }
    });
    assert_idle(&server, "portals read in part");

    run(async {
        let owner = server.owner("acme").await;
        let cancel = owner.cancel_token();
        let mut query = std::pin::pin!(owner.query(ENDLESS, &[]));
        let outcome = loop {
            // One that comes before the query cancels nothing.
            match tokio::time::timeout(Duration::from_millis(500), query.as_mut()).await {
                Ok(outcome) => break outcome,
                Err(_) => cancel.cancel_query(NoTls).await.expect("a cancellation can be sent"),
            }
        };
        assert_eq!(state(outcome), SqlState::QUERY_CANCELED);
        owner.batch_execute("SET statement_timeout = 300").await.expect("a setting");
        assert_eq!(state(owner.query(ENDLESS, &[]).await), SqlState::QUERY_CANCELED);
    });
    assert_idle(&server, "cancelled queries");
}

#[test]
fn idle_tenants_cost_nothing_however_many() {
    let server = Server::start();
    run(async {
        let admin = server.admin().await;
        for n in 0..150 {
            let name = format!("idle{n}");
            server.create_tenant(&name).await;
            // Opened, used, and left alone: open tenants without a session.
            let owner = server.owner(&name).await;
            owner.batch_execute("CREATE TABLE t (id int); INSERT INTO t VALUES (1)").await.expect("a table");
        }
        drop(admin);
    });
    assert_idle(&server, "150 tenants were used");
}
