//! A promise of buffer memory on a running server: metered, kept beside a neighbour that reads more than there is, and changed.

mod support;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base::ByteCount;
use support::{Client, TestServer, tcp};

/// A figure of a tenant in `/metrics`.
fn metric(server: &TestServer, what: &str, tenant: &str) -> f64 {
    metric_of(server, what, tenant, "")
}

/// As [`metric`], with further labels.
fn metric_of(server: &TestServer, what: &str, tenant: &str, labels: &str) -> f64 {
    let mut stream = tcp(server.running().admin_address().expect("listening"));
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let name = format!("rowhouse_tenant_{what}_total{{tenant=\"{tenant}\"{labels}}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().expect("a number")
}

/// A tenant with a table of so many rows of about a page each.
fn tenant_with(server: &TestServer, name: &str, rows: u32) -> Client {
    server.create_tenant(name);
    let mut client = server.connect(name, name, "pw").unwrap();
    client.ok("CREATE TABLE t (id int PRIMARY KEY, pad text NOT NULL)");
    let pad = "x".repeat(6000);
    for id in 0..rows {
        client.ok(&format!("INSERT INTO t VALUES ({id}, '{pad}')"));
    }
    client
}

#[test]
fn a_promise_of_memory_is_metered_and_kept_beside_a_neighbour() {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.memory = ByteCount::from_mib(8);
        config.read_ahead = 0;
        config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let mut acme = tenant_with(&server, "acme", 250);
    let mut other = tenant_with(&server, "other", 2000);
    let mut admin = server.admin("rowhouse");
    // While it is open; enough for all it has.
    admin.ok("ALTER TENANT acme SET (memory = '4MB')");
    let read = |client: &mut Client, id: u32| {
        assert_eq!(client.ok(&format!("SELECT length(pad) FROM t WHERE id = {id}")).len(), 1);
    };
    (0..250).for_each(|id| read(&mut acme, id));
    let before = metric(&server, "page_reads", "acme");
    let begun = Instant::now();
    let mut at = 0;
    while metric(&server, "memory_demanded", "acme") == 0.0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "no row of acme's memory");
        for _ in 0..500 {
            at += 1;
            read(&mut other, at * 7 % 2000);
            if at % 4 == 0 {
                read(&mut acme, at / 4 % 250);
            }
        }
    }
    assert!(metric(&server, "page_evictions", "other") > 1000.0);
    let reads = metric(&server, "page_reads", "acme") - before;
    let (demanded, missed) =
        (metric(&server, "memory_demanded", "acme"), metric(&server, "memory_missed", "acme"));
    assert!(reads < 50.0, "{reads} pages read again of 250 that fit the promise");
    assert!(missed < demanded / 20.0, "{missed} of {demanded}");
    assert_eq!(metric(&server, "memory_demanded", "other"), 0.0, "nothing is promised, nothing is judged");
    // Nothing is promised any more: the neighbour takes what it needs.
    admin.ok("ALTER TENANT acme SET (memory = '0')");
    let before = metric(&server, "page_evictions", "acme");
    // Prices are set anew once a second, however fast the reads are.
    let (begun, mut at) = (Instant::now(), 0);
    while metric(&server, "page_evictions", "acme") - before <= 100.0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "acme keeps its pages without a promise");
        for _ in 0..500 {
            at += 1;
            read(&mut other, at * 7 % 2000);
        }
    }
}

#[test]
fn who_has_more_than_its_limit_and_no_turns_takes_none_of_the_servers() {
    let server = TestServer::with(|config| {
        config.workers = Some(1);
        config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let mut acme = tenant_with(&server, "acme", 400);
    let mut admin = server.admin("rowhouse");
    // The next poll of its tasks is paid for in a second.
    admin.ok("ALTER TENANT acme SET (cpu_max = 0.001)");
    acme.start_query("SELECT count(*) FROM t WHERE pad LIKE '%y%'");
    std::thread::sleep(Duration::from_millis(100));
    let waits = || metric_of(&server, "waits", "system", ",wait=\"runnable\"");
    let before = waits();
    admin.ok("ALTER TENANT acme SET (memory_max = '1MB')");
    std::thread::sleep(Duration::from_millis(600));
    let polls = waits() - before;
    assert!(polls < 2_000.0, "the server's own tasks were polled {polls} times");
}
