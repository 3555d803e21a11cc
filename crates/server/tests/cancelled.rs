//! What is cancelled while its tenant's own limits hold it: it ends at once, and leaves nothing behind that others wait for.

mod support;

use std::time::{Duration, Instant};

use base::{ByteCount, Nanos, SqlState};
use support::{Client, TestServer, eventually};

/// A server with a tenant that has a table.
fn with_tenant(memory: ByteCount) -> (TestServer, Client) {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.memory = memory;
        config.read_ahead = 0;
        // Nothing is due by age.
        config.checkpoint_interval = Nanos::from_secs(100_000);
    });
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL)");
    (server, acme)
}

/// Puts so many rows of about a page each into the table.
fn fill(acme: &mut Client, rows: u32) {
    for from in (0..rows).step_by(100) {
        let row = |id| format!("({id}, '{}')", "x".repeat(6000));
        let rows: Vec<_> = (from..rows.min(from + 100)).map(row).collect();
        acme.ok(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    }
}

#[test]
fn a_writer_that_waited_for_a_checkpoint_does_not_take_it_along() {
    let (server, mut acme) = with_tenant(storage::MEMORY_MIN);
    let mut admin = server.admin("rowhouse");
    admin.ok("ALTER TENANT acme SET (iops_max = 20)");
    acme.ok("SET statement_timeout = '300ms'");
    let much = "INSERT INTO t SELECT id, repeat('x', 6000) FROM generate_series(1, 3000) AS g(id)";
    for _ in 0..10 {
        assert_eq!(acme.fails(much), SqlState::QUERY_CANCELED);
    }
    admin.ok("ALTER TENANT acme RESET (iops_max)");
    acme.ok("SET statement_timeout = '60s'");
    acme.ok("INSERT INTO t VALUES (0, 'x')");
    acme.ok(much);
    admin.ok("SET statement_timeout = '60s'");
    admin.ok("SELECT rowhouse.evict('acme')");
    drop(acme);
    eventually("the tenant goes", || admin.query("DROP TENANT acme").error.is_none());
}

#[test]
fn what_writes_under_a_tenants_limits_is_cancelled_and_is_no_hindrance_to_its_end() {
    let (server, mut acme) = with_tenant(ByteCount::from_mib(64));
    fill(&mut acme, 1000);
    drop(acme);
    let mut admin = server.admin("rowhouse");
    admin.ok("ALTER TENANT acme SET (iops_max = 1)");
    admin.ok("SET statement_timeout = '200ms'");
    let begun = Instant::now();
    assert_eq!(admin.fails("SELECT rowhouse.evict('acme')"), SqlState::QUERY_CANCELED);
    // Its checkpoint goes on, and would for minutes.
    admin.ok("SET statement_timeout = 0");
    eventually("the session has ended", || {
        let dropped = admin.query("DROP TENANT acme").error;
        dropped.is_none_or(|error| error.state != SqlState::OBJECT_IN_USE)
    });
    assert_eq!(admin.fails("DROP TENANT acme"), SqlState::INVALID_CATALOG_NAME);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// A piece of it is read in half a minute.
#[test]
fn a_copy_of_a_tenant_that_its_limits_hold_is_cancelled_at_once() {
    let (server, mut acme) = with_tenant(ByteCount::from_mib(64));
    fill(&mut acme, 200);
    let mut admin = server.admin("rowhouse");
    admin.ok("SELECT rowhouse.evict('acme')");
    admin.ok("ALTER TENANT acme SET (iops_max = 1)");
    admin.ok("SET statement_timeout = '300ms'");
    let begun = Instant::now();
    let copy = "CREATE TENANT copy FROM TEMPLATE acme";
    assert_eq!(admin.fails(copy), SqlState::QUERY_CANCELED);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // Nothing is left of it.
    assert_eq!(admin.fails("DROP TENANT copy"), SqlState::INVALID_CATALOG_NAME);
    admin.ok("SET statement_timeout = 0");
    admin.ok("ALTER TENANT acme RESET (iops_max)");
    admin.ok(copy);
    let mut copy = server.connect("copy", "acme", "pw").unwrap();
    assert_eq!(copy.ok("SELECT count(*) FROM t"), [[Some("200".to_owned())]]);
}

/// What was asked for is read although nobody waits for it any more, and before what is asked for next.
#[test]
fn reads_that_cancelled_statements_leave_are_bounded() {
    let (server, mut acme) = with_tenant(ByteCount::from_mib(64));
    // About sixteen to a page.
    acme.ok("INSERT INTO t SELECT id, repeat('x', 400) FROM generate_series(1, 16000) AS g(id)");
    let mut admin = server.admin("rowhouse");
    admin.ok("SELECT rowhouse.evict('acme')");
    // Brings in what all reads need.
    acme.ok("SELECT length(v) FROM t WHERE id = 1");
    admin.ok("ALTER TENANT acme SET (iops_max = 1)");
    let reads = |admin: &mut Client| -> u64 {
        let shown = admin.shown("SHOW TENANTS");
        shown.value("acme", "page_reads").unwrap().parse().unwrap()
    };
    let before = reads(&mut admin);
    acme.ok("SET statement_timeout = '5ms'");
    for id in (16..16000).step_by(16) {
        acme.query(&format!("SELECT length(v) FROM t WHERE id = {id}"));
    }
    admin.ok("ALTER TENANT acme RESET (iops_max)");
    let mut last = before;
    eventually("what was left is read", || {
        std::thread::park_timeout(Duration::from_millis(200));
        let now = reads(&mut admin);
        std::mem::replace(&mut last, now) == now && now > before + 100
    });
    assert!(last - before < 400, "{}", last - before);
    acme.ok("SET statement_timeout = 0");
    assert_eq!(acme.ok("SELECT length(v) FROM t WHERE id = 15000"), [[Some("400".to_owned())]]);
}
