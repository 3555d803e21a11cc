//! The life of tenants: made, changed, idle, dropped.

mod support;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use base::{Nanos, SqlState, TenantId};
use support::exposition::parse;
use support::{TestServer, eventually, tcp};

fn column(rows: &[Vec<Option<String>>], name: &str, at: usize) -> Option<String> {
    rows.iter().find(|row| row[0].as_deref() == Some(name)).and_then(|row| row[at].clone())
}

#[test]
fn a_tenant_is_made_shown_changed_renamed_and_dropped() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE TENANT acme WITH (cpu = 0.5, memory = '1GB') OWNER boss PASSWORD 'pw'");
    assert_eq!(admin.fails("CREATE TENANT acme"), SqlState::DUPLICATE_DATABASE);
    assert_eq!(admin.fails("CREATE TENANT b WITH (colour = red)"), SqlState::UNDEFINED_OBJECT);
    assert_eq!(admin.fails("CREATE TENANT b WITH (cpu = 2, cpu_max = 1)"), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(admin.fails("CREATE TENANT b WITH (volume = 'moon')"), SqlState::UNDEFINED_OBJECT);
    admin.ok("ALTER TENANT acme SET (cpu = 0.75)");
    let shown = admin.ok("SHOW TENANTS");
    assert_eq!(column(&shown, "acme", 7).as_deref(), Some("0.75"), "{shown:?}");
    assert_eq!(admin.fails("ALTER TENANT acme RENAME TO acme"), SqlState::DUPLICATE_DATABASE);
    admin.ok("ALTER TENANT acme RENAME TO umbrella");
    assert!(server.connect("umbrella", "boss", "pw").expect("renamed").is_alive());
    assert_eq!(
        server.connect("acme", "boss", "pw").err().expect("gone").state,
        SqlState::INVALID_CATALOG_NAME
    );
    eventually("the session's place is free", || admin.query("DROP TENANT umbrella").error.is_none());
    assert_eq!(admin.fails("DROP TENANT umbrella"), SqlState::INVALID_CATALOG_NAME);
    admin.ok("DROP TENANT IF EXISTS umbrella");
    assert_eq!(admin.fails("DROP TENANT rowhouse"), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// On a full disk, for one.
#[test]
fn a_server_starts_where_what_was_cut_short_cannot_be_undone_and_undoes_it_later() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut admin = server.admin("rowhouse");
    admin.ok("INSERT INTO rowhouse.tenants (id, name, volume, promise, state) VALUES (4000, 'half', 'default', '', 'making')");
    admin.ok("ALTER TABLE rowhouse.tenants ADD CONSTRAINT c CHECK (state <> 'dropped') NOT VALID");
    drop(admin);
    let server = server.restart();
    assert!(server.connect("acme", "acme", "pw").expect("the server is there").is_alive());
    let mut admin = server.admin("rowhouse");
    let state = "SELECT state FROM rowhouse.tenants WHERE id = 4000";
    assert_eq!(admin.ok(state), [[Some("making".to_owned())]]);
    admin.ok("CREATE TENANT half");
    admin.ok("ALTER TABLE rowhouse.tenants DROP CONSTRAINT c");
    eventually("it is undone", || admin.ok(state) == [[Some("dropped".to_owned())]]);
    let shown = admin.ok("SHOW TENANTS");
    assert!(column(&shown, "half", 0).is_some(), "{shown:?}");
}

#[test]
fn a_tenant_in_use_is_not_dropped() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(server.admin("rowhouse").fails("DROP TENANT acme"), SqlState::OBJECT_IN_USE);
    assert!(user.is_alive());
}

#[test]
fn an_unused_tenant_closes_and_reopens_with_its_rows() {
    let server = TestServer::with(|config| config.tenant_close_after = Nanos::from_millis(1));
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    user.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    user.ok("INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    drop(user);
    let mut admin = server.admin("rowhouse");
    eventually("the tenant closes", || {
        column(&admin.ok("SHOW TENANTS"), "acme", 2).as_deref() == Some("closed")
    });
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(user.ok("SELECT v FROM t WHERE id = 2"), [[Some("two".to_owned())]]);
}

#[test]
fn who_does_not_log_in_keeps_no_tenant_open() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    let mut is_closed = || column(&admin.ok("SHOW TENANTS"), "acme", 2).as_deref() == Some("closed");
    assert!(is_closed());
    let refused = server.connect("acme", "acme", "a guess").err().expect("a wrong password");
    assert_eq!(refused.state, SqlState::INVALID_PASSWORD);
    eventually("the tenant closes", &mut is_closed);
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert!(!is_closed(), "a session is there");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(user.is_alive());
}

#[test]
fn dropped_tenants_are_forgotten_and_their_ids_are_not_given_again() {
    let mut server = TestServer::start();
    let dropped = |server: &TestServer| {
        let rows = server
            .admin("rowhouse")
            .ok("SELECT id FROM rowhouse.tenants WHERE state = 'dropped' ORDER BY id");
        rows.into_iter()
            .map(|row| row[0].as_ref().expect("an id").parse().expect("a number"))
            .collect::<Vec<u64>>()
    };
    let first = TenantId::FIRST_USER.0;
    for name in ["a", "b", "stays", "c"] {
        server.create_tenant(name);
    }
    for name in ["a", "b", "c"] {
        server.admin("rowhouse").ok(&format!("DROP TENANT {name}"));
    }
    assert_eq!(dropped(&server), [first, first + 1, first + 3]);
    server = server.restart();
    eventually("all but the last are forgotten", || dropped(&server) == [first + 3]);
    server = server.restart();
    server.create_tenant("d");
    let shown = server.admin("rowhouse").shown("SHOW TENANTS");
    assert_eq!(shown.value("d", "id"), Some((first + 4).to_string().as_str()));
    server = server.restart();
    eventually("it is the last no more", || dropped(&server).is_empty());
    assert!(server.connect("stays", "stays", "pw").expect("its owner").is_alive());
}

/// Of a catalogue that was lost with its log, or is an older one.
#[test]
fn a_data_file_that_nobody_knows_is_let_be() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let tenants = server.config.data_dir.join("tenants");
    let ids = || -> BTreeSet<u64> {
        let names = std::fs::read_dir(&tenants).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.to_str()?.strip_suffix(".rowhouse")?.parse().ok()).collect()
    };
    let next = ids().last().unwrap() + 1;
    let unknown = tenants.join(format!("{next}.rowhouse"));
    std::fs::write(&unknown, "rows of somebody").unwrap();
    // Put there while the server runs: refused. There at a start: its id is not given again.
    assert_eq!(server.admin("rowhouse").fails("CREATE TENANT beta"), SqlState::IO_ERROR);
    let server = server.restart();
    server.create_tenant("beta");
    assert!(server.connect("beta", "beta", "pw").unwrap().is_alive());
    assert_eq!(std::fs::read_to_string(&unknown).unwrap(), "rows of somebody");
}

#[test]
fn a_tenants_file_is_on_its_volume() {
    let volume = tempfile::tempdir().unwrap();
    let dir = volume.path().to_owned();
    let server = TestServer::with(|config| config.volumes.push(("fast".to_owned(), dir)));
    server.admin("rowhouse").ok("CREATE TENANT acme WITH (volume = fast) OWNER acme PASSWORD 'pw'");
    let names =
        std::fs::read_dir(volume.path().join("tenants")).unwrap().map(|entry| entry.unwrap().file_name());
    let files = names.filter(|name| name.to_str().unwrap().ends_with(".rowhouse"));
    assert_eq!(files.count(), 1);
    let server = server.restart();
    assert!(server.connect("acme", "acme", "pw").unwrap().is_alive());
}

/// What is made in a mount point is hidden when the device is there again.
#[test]
fn nobody_is_made_on_a_volume_that_is_not_mounted() {
    let mounts = tempfile::tempdir().unwrap();
    let (fast, device) = (mounts.path().join("fast"), mounts.path().join("device"));
    let dir = fast.clone();
    let server = TestServer::with(|config| config.volumes.push(("fast".to_owned(), dir)));
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE TENANT acme WITH (volume = fast) OWNER acme PASSWORD 'pw'");
    drop(admin);
    let server = server.restart_after(|_, _| std::fs::rename(&fast, &device).unwrap());
    let mut admin = server.admin("rowhouse");
    assert_eq!(admin.fails("CREATE TENANT beta WITH (volume = fast)"), SqlState::IO_ERROR);
    admin.ok("CREATE TENANT beta OWNER beta PASSWORD 'pw'");
    assert_eq!(admin.fails("CREATE TENANT copy FROM TEMPLATE beta WITH (volume = fast)"), SqlState::IO_ERROR);
    drop(admin);
    let server = server.restart_after(|_, _| {
        std::fs::remove_dir_all(&fast).unwrap();
        std::fs::rename(&device, &fast).unwrap();
    });
    assert!(server.connect("acme", "acme", "pw").unwrap().is_alive());
    server.admin("rowhouse").ok("CREATE TENANT copy FROM TEMPLATE beta WITH (volume = fast)");
}

/// Ids begin at the same number with every server.
#[test]
fn a_volume_that_was_another_servers_keeps_its_files() {
    let volume = tempfile::tempdir().unwrap();
    let theirs = volume.path().join(format!("tenants/{}.rowhouse", TenantId::FIRST_USER));
    std::fs::create_dir(volume.path().join("tenants")).unwrap();
    std::fs::write(&theirs, "rows of somebody").unwrap();
    let mut server = TestServer::start();
    server.create_tenant("acme");
    server.admin("rowhouse").ok("DROP TENANT acme");
    server.config.volumes.push(("old".to_owned(), volume.path().to_owned()));
    let server = server.restart();
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "rows of somebody");
    assert!(!server.config.data_dir.join(format!("tenants/{}.rowhouse", TenantId::FIRST_USER)).exists());
}

#[test]
fn a_start_without_a_volume_says_who_is_on_it() {
    let volume = tempfile::tempdir().unwrap();
    let dir = volume.path().to_owned();
    let server = TestServer::with(|config| config.volumes.push(("fast".to_owned(), dir)));
    server.admin("rowhouse").ok("CREATE TENANT acme WITH (volume = fast)");
    let server = server.restart_after(|env, config| {
        let config = server::ServerConfig { volumes: Vec::new(), ..config.clone() };
        let refused = server::Server::start(env, config).err().expect("refused").to_string();
        assert!(refused.contains("\"acme\"") && refused.contains("--volume fast=DIR"), "{refused}");
    });
    assert!(server.admin("rowhouse").is_alive());
}

#[test]
fn rows_committed_before_a_kill_are_there_after_it() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut user = server.connect("acme", "acme", "pw").unwrap();
    user.ok("CREATE TABLE t (id int PRIMARY KEY)");
    for id in 0..20 {
        user.ok(&format!("INSERT INTO t VALUES ({id})"));
    }
    // A copy of the files as they are now is what a power cut would leave.
    let copy = tempfile::tempdir().unwrap();
    copy_dir(&server.config.data_dir, copy.path());
    let config = server::ServerConfig { data_dir: copy.path().to_owned(), ..server.config.clone() };
    let recovered = server::Server::start(&env::Env::real(), config).expect("recovers");
    let mut user = support::Client::connect(recovered.address(), "acme", "acme", "pw").unwrap();
    assert_eq!(user.ok("SELECT count(*) FROM t"), [[Some("20".to_owned())]]);
    drop(user);
    recovered.stop();
}

fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What the text format has to escape.
const ODD_NAME: &str = "o\\dd \"name\", {}=";

#[test]
fn health_and_metrics_are_served() {
    let server = TestServer::with(|config| {
        config.admin_listen = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    server.create_tenant("acme");
    let quoted = ODD_NAME.replace('"', "\"\"");
    server.admin("rowhouse").ok(&format!("CREATE TENANT \"{quoted}\""));
    let get = |path: &str| {
        let mut stream = tcp(server.running().admin_address().expect("listening"));
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE RUNAWAY RULE \"a \"\"rule\"\"\" AS (rows = 1, action = cancel)");
    let mut owner = server.connect("acme", "acme", "pw").expect("its owner may enter");
    owner.ok("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2)");
    assert_eq!(owner.fails("SELECT * FROM t"), base::SqlState::QUERY_CANCELED);
    let scrape = || {
        let answer = get("/metrics");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
        parse(text)
    };
    let families = scrape();
    let acted =
        families["rowhouse_runaway_rule_acted_total"].value(&[("rule", "a \"rule\""), ("action", "cancel")]);
    assert_eq!(acted, Some(1.0));
    let acme = [("tenant", "acme")];
    assert!(families["rowhouse_tenant_cpu_seconds_total"].value(&acme).is_some_and(|used| used > 0.0));
    // A label has few values, and a tenant's name is one whatever it is.
    let tenants = BTreeSet::from(["acme", ODD_NAME, "system"]);
    for (name, family) in &families {
        let labels: BTreeSet<&String> = family.series.keys().flat_map(|(_, labels)| labels.keys()).collect();
        for label in labels {
            let values = family.values_of(label);
            match label.as_str() {
                "tenant" => assert!(values.is_subset(&tenants), "{name}: {values:?}"),
                "worker" | "outcome" | "wait" | "resource" | "cause" | "le" | "rule" | "action" => {
                    assert!(values.len() <= 32, "{name}: {values:?}");
                }
                other => panic!("{name} has a label {other}"),
            }
        }
    }
    assert!(families["rowhouse_tenant_sessions"].value(&[("tenant", ODD_NAME)]).is_some());
    // What a statement took, waited for and was promised is there once its interval is over.
    admin.ok("ALTER TENANT acme SET (cpu = 0.25)");
    let mut client = server.connect("acme", "acme", "pw").unwrap();
    let begun = Instant::now();
    let families = loop {
        client.ok("SELECT 1");
        let families = scrape();
        if families["rowhouse_tenant_cpu_promised_seconds_total"].value(&acme) > Some(0.0) {
            break families;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "no interval ends");
    };
    let times = &families["rowhouse_tenant_statement_seconds"];
    let of_acme = |what: &str| {
        let found = times.series.iter().find(|((name, labels), _)| {
            name.ends_with(what) && labels.len() == 1 && labels["tenant"] == "acme"
        });
        *found.expect(what).1
    };
    assert!(of_acme("_count") >= 1.0 && of_acme("_sum") > 0.0);
    let waited = |wait| families["rowhouse_tenant_waits_total"].value(&[("tenant", "acme"), ("wait", wait)]);
    assert!(waited("client") > Some(0.0) && waited("lock") == Some(0.0));
    let series_of_acme = families.values().flat_map(|family| family.series.keys());
    let series_of_acme =
        series_of_acme.filter(|(_, labels)| labels.get("tenant").is_some_and(|name| name == "acme"));
    assert!(series_of_acme.count() <= 73 - 16, "without violations of four resources by four causes");
    assert_eq!(families["rowhouse_tenant_memory_promised_bytes"].value(&acme), Some(0.0));
}
