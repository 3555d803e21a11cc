//! Tenants go from one worker to another while they work, and nobody notices.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{Nanos, SqlState};
use support::{Client, TestServer, eventually};

fn worker_of(admin: &mut Client, tenant: &str) -> i64 {
    let shown = admin.shown("SHOW TENANTS");
    shown.value(tenant, "worker").expect("a tenant has a home").parse().expect("a number")
}

fn move_to(admin: &mut Client, tenant: &str, worker: i64) {
    admin.ok(&format!("ALTER TENANT {tenant} SET WORKER {worker}"));
    assert_eq!(worker_of(admin, tenant), worker);
}

#[test]
fn an_idle_tenant_and_its_sessions_move() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    user.ok("CREATE TABLE t (id int PRIMARY KEY, v int)");
    user.ok("PREPARE one AS SELECT v FROM t WHERE id = $1");
    let mut admin = server.admin("rowhouse");
    for round in 0..6 {
        let from = worker_of(&mut admin, "acme");
        user.ok(&format!("INSERT INTO t VALUES ({round}, {round})"));
        move_to(&mut admin, "acme", 1 - from);
        assert_eq!(user.ok(&format!("EXECUTE one({round})")), [[Some(round.to_string())]]);
    }
    assert!(server.connect("acme", "acme", "pw").unwrap().is_alive());
}

#[test]
fn an_open_transaction_moves_with_its_locks_and_rolls_back() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut admin = server.admin("rowhouse");
    let (mut one, mut two) =
        (server.connect("acme", "acme", "pw").unwrap(), server.connect("acme", "acme", "pw").unwrap());
    one.ok("CREATE TABLE t (id int PRIMARY KEY, v int)");
    one.ok("INSERT INTO t VALUES (1, 0), (2, 0)");
    one.ok("BEGIN ISOLATION LEVEL REPEATABLE READ");
    one.ok("UPDATE t SET v = 1 WHERE id = 1");
    two.ok("BEGIN");
    // Waits for the row, across the moves.
    two.start_query("UPDATE t SET v = v + 10 WHERE id = 1");
    let from = worker_of(&mut admin, "acme");
    move_to(&mut admin, "acme", 1 - from);
    one.ok("UPDATE t SET v = 2 WHERE id = 2");
    move_to(&mut admin, "acme", from);
    one.ok("ROLLBACK");
    assert_eq!(two.answer().tags, ["UPDATE 1"]);
    move_to(&mut admin, "acme", 1 - from);
    two.ok("COMMIT");
    let rows = one.ok("SELECT v FROM t ORDER BY id");
    assert_eq!(rows, [[Some("10".to_owned())], [Some("0".to_owned())]]);
}

#[test]
fn what_makes_no_sense_moves_nobody() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut admin = server.admin("rowhouse");
    let before = worker_of(&mut admin, "acme");
    for wrong in ["2", "-1", "70000"] {
        let sql = format!("ALTER TENANT acme SET WORKER {wrong}");
        assert_eq!(admin.fails(&sql), SqlState::INVALID_PARAMETER_VALUE);
    }
    assert_eq!(admin.fails("ALTER TENANT nobody SET WORKER 1"), SqlState::INVALID_CATALOG_NAME);
    assert_eq!(admin.fails("ALTER TENANT system SET WORKER 1"), SqlState::INSUFFICIENT_PRIVILEGE);
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(user.fails("ALTER TENANT acme SET WORKER 1"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(worker_of(&mut admin, "acme"), before);
    admin.ok("ALTER TENANT acme SET WORKER DEFAULT");
}

/// Increments of counters that one client owns, each acknowledged.
fn count_until(server: &TestServer, client: u64, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            match count % 3 {
                0 => drop(user.ok(&format!("UPDATE t SET v = v + 1 WHERE id = {client}"))),
                1 => {
                    user.ok("BEGIN");
                    user.ok(&format!("UPDATE t SET v = v + 1 WHERE id = {client}"));
                    user.ok("UPDATE t SET v = v + 1 WHERE id = 0");
                    user.ok("COMMIT");
                }
                _ => {
                    user.ok(&format!("UPDATE t SET v = v + 1 WHERE id = {client}"));
                    let rows = user.ok(&format!("SELECT v FROM t WHERE id = {client}"));
                    assert_eq!(rows, [[Some((count + 1).to_string())]], "its own commits");
                }
            }
            count += 1;
        }
        count
    })
}

#[test]
fn every_commit_is_there_after_a_hundred_moves_under_load_and_a_restart() {
    const CLIENTS: u64 = 4;
    let server = TestServer::with(|config| config.checkpoint_interval = Nanos::from_millis(200));
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    user.ok("CREATE TABLE t (id int PRIMARY KEY, v int)");
    for id in 0..=CLIENTS {
        user.ok(&format!("INSERT INTO t VALUES ({id}, 0)"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (1..=CLIENTS).map(|client| count_until(&server, client, &stop)).collect();
    let mut admin = server.admin("rowhouse");
    let first = worker_of(&mut admin, "acme");
    for round in 1..=100 {
        move_to(&mut admin, "acme", (first + round) % 2);
    }
    stop.store(true, Ordering::Relaxed);
    let counts: Vec<u64> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let check = |server: &TestServer| {
        let mut user = server.connect("acme", "acme", "pw").unwrap();
        let rows = user.ok("SELECT v FROM t ORDER BY id");
        let found: Vec<u64> = rows.iter().map(|row| row[0].as_ref().unwrap().parse().unwrap()).collect();
        assert_eq!(found[1..], counts[..]);
        let shared: u64 = counts.iter().map(|count| (count + 1) / 3).sum();
        assert_eq!(found[0], shared);
    };
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    check(&server);
    let server = server.restart();
    check(&server);
}

/// Of a tenant that goes from one long call to the next an attempt finds one half-way whenever it has waited for the log.
#[test]
fn a_tenant_whose_sessions_are_always_in_long_calls_moves() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    user.ok("CREATE TABLE t (id int PRIMARY KEY, s text, v int)");
    user.ok("INSERT INTO t SELECT g, 'x', 0 FROM generate_series(1, 1000) g");
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (1..=3)
        .map(|client| {
            let (mut user, stop) = (server.connect("acme", "acme", "pw").unwrap(), stop.clone());
            // Each looks at all rows, some tens of microseconds a row, and changes its own.
            let row = format!("octet_length(repeat(s, 300000)) + id = {}", 300_000 + client);
            let long = format!("UPDATE t SET v = v + 1 WHERE {row}");
            std::thread::spawn(move || {
                user.ok(&long);
                while !stop.load(Ordering::Relaxed) {
                    user.ok(&long);
                }
            })
        })
        .collect();
    let mut admin = server.admin("rowhouse");
    let first = worker_of(&mut admin, "acme");
    move_to(&mut admin, "acme", 1 - first);
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let moved = user.ok("SELECT count(*) FROM t WHERE v > 0");
    assert_eq!(moved, [[Some("3".to_owned())]]);
}

#[test]
fn reservations_that_do_not_fit_one_worker_are_spread_when_promises_change() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    for tenant in ["a", "b"] {
        admin.ok(&format!("CREATE TENANT {tenant} WITH (cpu = 0.3) OWNER {tenant} PASSWORD 'pw'"));
    }
    move_to(&mut admin, "b", 0);
    move_to(&mut admin, "a", 0);
    admin.ok("ALTER TENANT a SET (cpu = 0.8)");
    eventually("one of them leaves", || worker_of(&mut admin, "a") != worker_of(&mut admin, "b"));
    // A new one finds the room that is left.
    let roomy = worker_of(&mut admin, "b");
    admin.ok("CREATE TENANT c WITH (cpu = 0.6)");
    assert_eq!(worker_of(&mut admin, "c"), roomy);
}

#[test]
fn homes_leave_the_servers_own_work_what_it_has_reserved() {
    let server = TestServer::start();
    let tenants = [("a", 6), ("b", 4), ("c", 4), ("d", 2)];
    for (tenant, tenths) in tenants {
        server.admin("rowhouse").ok(&format!("CREATE TENANT {tenant} WITH (cpu = 0.{tenths})"));
    }
    let reserved = |server: &TestServer| {
        let (mut admin, mut on) = (server.admin("rowhouse"), [0, 0]);
        for (tenant, tenths) in tenants {
            on[worker_of(&mut admin, tenant) as usize] += tenths;
        }
        on
    };
    assert_eq!(reserved(&server), [8, 8]);
    let server = server.restart();
    assert_eq!(reserved(&server), [8, 8], "a fifth of each worker is the server's own");
}

#[test]
fn new_tenants_are_spread_over_the_workers() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    let mut on = [0, 0];
    for tenant in 0..6 {
        admin.ok(&format!("CREATE TENANT t{tenant}"));
        on[worker_of(&mut admin, &format!("t{tenant}")) as usize] += 1;
    }
    assert_eq!(on, [3, 3]);
}

#[test]
fn what_a_tenant_used_and_waited_is_counted_over_its_moves() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    user.ok("CREATE TABLE t (id int PRIMARY KEY)");
    let mut admin = server.admin("rowhouse");
    let used = |admin: &mut Client| {
        admin.shown("SHOW TENANTS").value("acme", "cpu_seconds").unwrap().parse::<f64>().unwrap()
    };
    let total = AtomicU64::new(0);
    for round in 0..20 {
        user.ok(&format!("INSERT INTO t VALUES ({round})"));
        let now = used(&mut admin);
        // Time may be taken back within a millisecond.
        assert!(now + 2e-3 >= f64::from_bits(total.swap(now.to_bits(), Ordering::Relaxed)), "round {round}");
        let from = worker_of(&mut admin, "acme");
        move_to(&mut admin, "acme", 1 - from);
    }
    assert!(used(&mut admin) > 0.0);
}
