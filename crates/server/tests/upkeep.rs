//! What the server does for its tenants by itself: letting log segments go, giving back the space of what was dropped,
//! cutting files whose end is free.

mod support;

use std::io::Read;
use std::time::{Duration, Instant};

use base::{ByteCount, Nanos, SqlState, TenantId};
use support::TestServer;

/// Bytes of the log's segments that something is kept in, or written to.
fn live_log(server: &TestServer) -> u64 {
    server.metrics()["rowhouse_log_live_bytes"].value(&[]).expect("it is told") as u64
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server of one log of 4 MiB, with tenants that have a table each.
fn with_short_log(tenants: [&str; 2]) -> TestServer {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.log_limit = ByteCount::from_mib(4);
        config.admin_listen = Some(([127, 0, 0, 1], 0).into());
        // Nothing is due by age.
        config.checkpoint_interval = Nanos::from_secs(100_000);
    });
    for tenant in tenants {
        server.create_tenant(tenant);
        let table = "CREATE TABLE t (id int PRIMARY KEY, v text)";
        server.connect(tenant, tenant, "pw").unwrap().ok(table);
    }
    server
}

/// Has a tenant commit several times what the log may keep, and waits until it keeps no more.
fn the_log_stays_short_beside(server: &TestServer, busy: &str) {
    let mut client = server.connect(busy, busy, "pw").unwrap();
    for id in 0..300 {
        client.ok(&format!("INSERT INTO t VALUES ({id}, '{}')", "x".repeat(100_000)));
    }
    until("the log keeps what nobody needs", || live_log(server) <= 4 << 20);
}

#[test]
fn a_quiet_tenants_few_old_bytes_do_not_keep_the_log() {
    let server = with_short_log(["quiet", "busy"]);
    server.connect("quiet", "quiet", "pw").unwrap().ok("INSERT INTO t VALUES (1, 'few bytes')");
    the_log_stays_short_beside(&server, "busy");
    let server = server.restart();
    assert_eq!(server.connect("quiet", "quiet", "pw").unwrap().ok("SELECT count(*) FROM t").len(), 1);
}

/// A transaction that has parts of a long statement in the log.
fn change_much(client: &mut support::Client) {
    for thousand in 0..6 {
        let row = |n| format!("({}, '{}')", 1000 * thousand + n, "x".repeat(200));
        client.ok(&format!("INSERT INTO t VALUES {}", (0..1000).map(row).collect::<Vec<_>>().join(", ")));
    }
    client.ok("BEGIN");
    client.ok("UPDATE t SET v = v || 'y'");
}

/// A transaction keeps the log by what a long statement of it has put there; others commit on, and its client is gone for lunch.
#[test]
fn an_idle_transaction_with_large_changes_does_not_keep_the_log() {
    let server = with_short_log(["idle", "busy"]);
    let mut idle = server.connect("idle", "idle", "pw").unwrap();
    change_much(&mut idle);
    the_log_stays_short_beside(&server, "busy");
    assert_eq!(idle.answer().error.expect("told").state, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT);
    let mut again = server.connect("idle", "idle", "pw").unwrap();
    assert_eq!(again.ok("SELECT length(v) FROM t WHERE id = 7"), [[Some("200".to_owned())]], "taken back");
}

/// The same where it waits for its client to read, for a time, for a lock of another session.
#[test]
fn a_transaction_with_large_changes_that_waits_does_not_keep_the_log() {
    for wait in ["SELECT v FROM t;", "SELECT pg_sleep(100000)", "SELECT pg_advisory_lock(7)"] {
        let server = with_short_log(["waiter", "busy"]);
        let mut holder = server.connect("waiter", "waiter", "pw").unwrap();
        holder.ok("SELECT pg_advisory_lock(7)");
        let mut waiter = server.connect("waiter", "waiter", "pw").unwrap();
        change_much(&mut waiter);
        // More than a socket takes of what is not read.
        waiter.start_query(&wait.repeat(if wait.ends_with(';') { 40 } else { 1 }));
        the_log_stays_short_beside(&server, "busy");
        let mut again = server.connect("waiter", "waiter", "pw").unwrap();
        let left = again.ok("SELECT length(v) FROM t WHERE id = 7");
        assert_eq!(left, [[Some("200".to_owned())]], "{wait}: taken back");
    }
}

#[test]
fn records_that_roots_cover_keep_no_log_of_an_earlier_start() {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        // Nothing is due before the end.
        config.log_limit = ByteCount::from_mib(64);
        config.admin_listen = Some(([127, 0, 0, 1], 0).into());
        config.checkpoint_interval = Nanos::from_secs(100_000);
    });
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    for id in 0..80 {
        acme.ok(&format!("INSERT INTO t VALUES ({id}, '{}')", "x".repeat(100_000)));
    }
    assert!(live_log(&server) >= 7 << 20);
    // Its end checkpoints everybody.
    let server = server.restart();
    until("the log keeps what roots cover", || live_log(&server) <= 1 << 20);
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(acme.ok("SELECT count(*) FROM t"), vec![vec![Some("80".to_owned())]]);
}

#[test]
fn the_space_of_a_dropped_table_is_given_back_and_the_file_is_cut() {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.checkpoint_interval = Nanos(1);
    });
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE kept (id int PRIMARY KEY)");
    acme.ok("CREATE TABLE big (id int PRIMARY KEY, v text)");
    for id in 0..200 {
        acme.ok(&format!("INSERT INTO big VALUES ({id}, '{}')", "x".repeat(100_000)));
    }
    let file = server::tenant_file(&server.config.data_dir, TenantId::FIRST_USER);
    let len = || std::fs::metadata(&file).unwrap().len();
    until("the table is never written", || len() > 20 << 20);
    acme.ok("DROP TABLE big");
    let mut id = 0;
    until("the file is never cut", || {
        // A checkpoint is due only where something changed.
        id += 1;
        acme.ok(&format!("INSERT INTO kept VALUES ({id})"));
        len() < 2 << 20
    });
    let server = server.restart();
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(acme.ok("SELECT max(id) FROM kept"), vec![vec![Some(id.to_string())]]);
}

#[test]
fn a_commit_larger_than_the_memory_for_pages_is_written_and_the_tenant_goes_on() {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.memory = storage::MEMORY_MIN;
        // Nothing is due by age or by the log.
        config.checkpoint_interval = Nanos::from_secs(100_000);
    });
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    let rows = 2 * storage::MEMORY_MIN.0 / 100_000;
    for round in 0..3 {
        // Changed pages alone fill the memory; the catalog's, which a checkpoint needs, were evicted before.
        let values: Vec<String> =
            (0..rows).map(|id| format!("({}, '{}')", round * rows + id, "x".repeat(100_000))).collect();
        acme.ok(&format!("INSERT INTO t VALUES {}", values.join(", ")));
        server.admin("rowhouse").ok("SELECT rowhouse.evict('acme')");
    }
    assert_eq!(acme.ok("SELECT count(*) FROM t"), vec![vec![Some((3 * rows).to_string())]]);
}

#[test]
fn a_long_change_is_kept_though_a_checkpoint_wrote_its_pages_before_it_committed() {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.tenant_close_after = Nanos::from_secs(1);
        config.checkpoint_interval = Nanos::from_secs(4);
    });
    server.create_tenant("acme");
    let file = server::tenant_file(&server.config.data_dir, TenantId::FIRST_USER);
    let roots = || {
        let mut roots = vec![0; 2 * base::limits::PAGE_SIZE];
        std::fs::File::open(&file).unwrap().read_exact(&mut roots).unwrap();
        roots
    };
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v int)");
    for from in (0..5000).step_by(1000) {
        acme.ok(&format!("INSERT INTO t SELECT g, 0 FROM generate_series({from}, {}) g", from + 999));
    }
    // Of pages that changed since the last checkpoint; more rows than a turn may look at.
    acme.ok("BEGIN");
    acme.ok("UPDATE t SET v = v + 1");
    let before = roots();
    until("the tenant is never checkpointed", || roots() != before);
    // It writes its root twice.
    std::thread::sleep(Duration::from_millis(300));
    acme.ok("COMMIT");
    drop(acme);
    let mut admin = server.admin("rowhouse");
    until("the tenant is never closed", || {
        let shown = admin.ok("SHOW TENANTS");
        shown.iter().any(|row| row[0].as_deref() == Some("acme") && row[2].as_deref() == Some("closed"))
    });
    drop(admin);
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    let last = |acme: &mut support::Client, v: &str| {
        assert_eq!(acme.ok("SELECT v FROM t WHERE id = 4999"), vec![vec![Some(v.to_owned())]]);
    };
    last(&mut acme, "1");
    acme.ok("UPDATE t SET v = v + 1 WHERE id = 4999");
    drop(acme);
    let server = server.restart();
    last(&mut server.connect("acme", "acme", "pw").unwrap(), "2");
}

/// A start finds a tree that nobody refers to, and gives its pages back. Nothing is logged for that, and no page is changed at its end.
#[test]
fn what_is_left_of_a_dropped_table_is_given_back_though_nothing_is_written() {
    let mut server = TestServer::with(|config| {
        config.workers = Some(1);
        config.checkpoint_interval = Nanos(1);
    });
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE big (id int PRIMARY KEY, v text)");
    for id in 0..200 {
        acme.ok(&format!("INSERT INTO big VALUES ({id}, '{}')", "x".repeat(100_000)));
    }
    // Most of its pages are still to be given back when the server ends.
    acme.ok("DROP TABLE big");
    drop(acme);
    server = server.restart();
    let (mut orphans, mut starts) = (1, 0);
    while orphans > 0 {
        starts += 1;
        assert!(starts < 20, "each opening gives the same pages back, and no root is without them");
        server.connect("acme", "acme", "pw").unwrap().ok("SELECT 1");
        std::thread::sleep(Duration::from_secs(2));
        server = server.restart_after(|env, config| {
            let id = TenantId::FIRST_USER;
            let file = server::tenant_file(&config.data_dir, id);
            let (_, found) = tenant::verify::verify(env, &file, id, &mut |_, _| {}).unwrap();
            orphans = found.orphans;
        });
    }
}
