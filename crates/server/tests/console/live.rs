//! The live stream: what every tenant does, second by second, and what administrators change.

use std::time::{Duration, Instant};

use crate::support::browser::Browser;
use crate::support::{self, Client, TestServer};
use axum::http::Method;
use serde_json::{Value, json};
use server::{ConsoleAnswered, ConsoleEndpoint, ConsoleEvents, ConsoleExtension};

/// Takes a tenth of a second of processor time or more.
const WORK: &str = "INSERT INTO t SELECT g FROM generate_series(1, 10000) g; DELETE FROM t";

fn busy(server: &TestServer, tenant: &str) -> Client {
    server.create_tenant(tenant);
    let mut client = server.connect(tenant, tenant, "pw").expect("its owner");
    client.ok("CREATE TABLE t (n int PRIMARY KEY)");
    client
}

fn names(frame: &Value) -> Vec<&str> {
    let tenants = frame["tenants"].as_array().expect("tenants");
    tenants.iter().map(|of| of[1].as_str().expect("a name")).collect()
}

/// A tenant's part of a band.
fn value(frame: &Value, band: &str, tenant: &str) -> f64 {
    let at = names(frame)
        .iter()
        .position(|name| *name == tenant)
        .unwrap_or_else(|| panic!("no {tenant}: {frame}"));
    frame[band]["values"][at].as_f64().expect("a number")
}

#[test]
fn each_second_tells_who_uses_what() {
    let server = TestServer::with_console();
    let mut acme = busy(&server, "acme");
    busy(&server, "other");
    server.admin("rowhouse").ok("ALTER TENANT acme SET (cpu = 0.5, cpu_max = 1.5)");
    let browser = Browser::admin(&server);
    let mut events = browser.events("/api/live?tenant=acme&watch=acme,other,gone&history=60&top=3");
    let (first, history) = events.next().expect("an event");
    assert_eq!(first, "history");
    assert!(history["frames"].is_array());
    // For longer than a second: what a tenant used is told from the second frame on that knows of it.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2_500) {
        acme.ok(WORK);
    }
    let frame = events.wait_for("frame", |frame| {
        value(frame, "cpu", "acme") > 0.0 && value(frame, "throughput", "acme") > 0.0
    });
    let bands = ["cpu", "memory", "throughput"].map(|band| &frame[band]).into_iter();
    for band in bands.chain(frame["volumes"].as_array().expect("volumes")) {
        let values = band["values"].as_array().expect("values");
        assert_eq!(values.len(), names(&frame).len(), "aligned with the tenants");
        let sum: f64 = values.iter().map(|value| value.as_f64().unwrap()).sum();
        let whole = sum + band["others"].as_f64().unwrap();
        let total = band["total"].as_f64().unwrap();
        assert!((whole - total).abs() <= 1e-3 * total.max(1.0), "{band}");
    }
    assert_eq!(frame["cpu"]["capacity"], json!(2.0));
    assert!(names(&frame).contains(&"other"), "watched, whatever it does");
    assert_eq!(value(&frame, "cpu", "other"), 0.0);
    let tenant = &frame["tenant"];
    assert_eq!(
        (&tenant["name"], &tenant["cpu"]["promised"], &tenant["cpu"]["max"]),
        (&json!("acme"), &json!(0.5), &json!(1.5))
    );
    assert!(tenant["p99_ms"].as_f64().expect("statements ran") >= tenant["p50_ms"].as_f64().unwrap());
    assert!(tenant["memory"]["resident_bytes"].as_u64().unwrap() > 0);
    let log = tenant["io"].as_array().unwrap().iter().find(|of| of["volume"] == "log").expect("the log");
    assert!(log["promised"].is_number() && log["given"].is_number() && log["cause"].is_null(), "{log}");
    assert!(tenant["waits"]["page read"].is_number());
    // The frames of the past are those that were sent.
    let t_ms = frame["t_ms"].as_i64().unwrap();
    let (_, history) = browser.events("/api/live?watch=acme&history=600").next().expect("an event");
    let past =
        history["frames"].as_array().unwrap().iter().find(|past| past["t_ms"] == t_ms).expect("the same");
    assert_eq!(value(past, "cpu", "acme"), value(&frame, "cpu", "acme"));
}

#[test]
fn a_tenant_with_a_comma_in_its_name_is_watched() {
    let server = TestServer::with_console();
    server.admin("rowhouse").ok("CREATE TENANT \"a,b\"");
    let browser = Browser::admin(&server);
    let mut events = browser.events("/api/live?watch=gone,a%2Cb&top=0");
    events.wait_for("frame", |frame| names(frame).contains(&"a,b"));
}

#[test]
fn the_throughput_of_every_tenant_is_told_and_whose_it_is() {
    let server = TestServer::with_console();
    let mut clients = ["acme", "bolt", "cork"].map(|tenant| busy(&server, tenant));
    let browser = Browser::admin(&server);
    let mut events = browser.events("/api/live?top=0&lines=256");
    let mut names = Vec::new();
    let lines = loop {
        for client in &mut clients {
            client.ok("SELECT count(*) FROM t");
        }
        match events.next().expect("an event") {
            (name, data) if name == "names" => {
                names.extend(data["tenants"].as_array().expect("tenants").clone());
            }
            (name, frame) if name == "frame" => {
                assert_eq!(frame["tenants"], json!([]));
                let lines = frame["lines"].as_array().expect("lines").clone();
                if lines.len() >= 3 {
                    break lines;
                }
            }
            _ => {}
        }
    };
    for tenant in ["acme", "bolt", "cork"] {
        let id = &names.iter().find(|of| of[1] == tenant).expect("its name was told before")[0];
        let line = lines.iter().find(|line| line[0] == *id).expect("it ran statements");
        assert!(line[1].as_f64().expect("a number") > 0.0);
    }
    let rates: Vec<f64> = lines.iter().map(|line| line[1].as_f64().unwrap()).collect();
    assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
    // What a stream begins with has names too, and no more lines than were asked for.
    let mut again = browser.events("/api/live?lines=2&history=600");
    assert_eq!(again.next().expect("an event").0, "names");
    let history = again.wait_for("history", |_| true);
    let lines = |frame: &Value| frame["lines"].as_array().expect("lines").len();
    assert_eq!(history["frames"].as_array().unwrap().iter().map(lines).max(), Some(2));
}

#[test]
fn what_administrators_change_is_told_within_seconds() {
    let server = TestServer::with_console();
    let browser = Browser::admin(&server);
    let mut events = browser.events("/api/live");
    events.wait_for("frame", |_| true);
    let mut admin = server.admin("rowhouse");
    let changes = [
        ("CREATE TENANT acme", "tenants"),
        ("ALTER TENANT acme SET WORKER 1", "tenants"),
        ("CREATE SIZE odd AS (cpu = 0.1)", "sizes"),
        ("ALTER SERVER SET (policy = max_only)", "server"),
        ("ALTER VOLUME log SET (iops_limit = 1000)", "volumes"),
        ("CREATE RUNAWAY RULE r AS (rows = 1000000)", "rules"),
        ("DROP TENANT acme", "tenants"),
    ];
    for (sql, what) in changes {
        admin.ok(sql);
        events.wait_for("changed", |data| data["what"] == what);
    }
}

#[test]
fn an_embedder_adds_routes_and_events_behind_the_same_login() {
    let events = ConsoleEvents::default();
    let show = axum::routing::get(|| async { axum::Json(json!({ "stories": [] })) });
    let start = axum::routing::post(|| async { "started" });
    let schemas = json!({ "Demo": { "type": "object" }, "Start": { "type": "object" } });
    let extension = ConsoleExtension {
        endpoints: vec![
            ConsoleEndpoint::new(Method::GET, "/api/demo", show)
                .is("What there is")
                .answers(ConsoleAnswered::Json("Demo")),
            ConsoleEndpoint::new(Method::POST, "/api/demo/start", start).is("Start").body("Start"),
        ],
        schemas: serde_json::from_value(schemas).expect("an object"),
        events: events.clone(),
    };
    let server = TestServer::with(|config| {
        config.admin_listen = Some(([127, 0, 0, 1], 0).into());
        config.console = extension;
    });
    let stranger = Browser::new(&server);
    assert_eq!(stranger.get("/api/demo").status, 401);
    let browser = Browser::admin(&server);
    let paths = browser.json("/api")["paths"].clone();
    assert_eq!(paths["/api/demo"]["get"]["summary"], "What there is");
    let sent = &paths["/api/demo/start"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(sent, &json!({ "$ref": "#/components/schemas/Start" }));
    assert_eq!(browser.json("/api/demo"), json!({ "stories": [] }));
    assert_eq!(browser.json("/api/server")["demo"], true);
    assert_eq!(browser.send("POST", "/api/demo/start", &[], b"").status, 403, "no token");
    assert_eq!(browser.change("POST", "/api/demo/start", &json!({})).text(), "started");
    events.publish("demo", &json!({ "n": 0 }));
    let mut stream = browser.events("/api/live");
    // The stream listens once it has been answered.
    events.publish("demo", &json!({ "n": 1 }));
    assert_eq!(stream.wait_for("demo", |_| true), json!({ "n": 1 }));
}

#[test]
fn streams_make_way_for_others_when_they_end() {
    let server = TestServer::with_console();
    let browser = Browser::admin(&server);
    let open: Vec<_> = (0..64).map(|_| browser.events("/api/live")).collect();
    assert_eq!(browser.get("/api/live").status, 503);
    drop(open);
    server.admin("rowhouse").ok("CREATE ROLE guest LOGIN PASSWORD 'seen'");
    let mut guest = Browser::new(&server);
    assert_eq!(guest.login("guest", "seen").status, 200);
    let mut of_guest = Vec::new();
    support::eventually("the places of viewers are taken", || match guest.try_events("/api/live") {
        Ok(stream) => {
            of_guest.push(stream);
            of_guest.len() == 48
        }
        Err(_) => false,
    });
    assert_eq!(guest.get("/api/live").status, 503);
    assert!(browser.try_events("/api/live").is_ok(), "viewers leave some to the administrator");
    drop(of_guest);
    support::eventually("a place is free again", || browser.try_events("/api/live").is_ok());
    for bad in ["top=65", "top=-1", "lines=257", "history=601", "top=x"] {
        assert_eq!(browser.get(&format!("/api/live?{bad}")).status, 400, "{bad}");
    }
    assert!(
        browser.try_events("/api/live?tenant=nobody").is_ok(),
        "the page of one that was dropped goes on"
    );
}

#[test]
fn a_stream_ends_with_its_session() {
    let server = TestServer::with_console();
    let mut root = server.admin("rowhouse");
    root.ok("CREATE ROLE guest LOGIN PASSWORD 'seen'");
    let mut guest = Browser::new(&server);
    assert_eq!(guest.login("guest", "seen").status, 200);
    let mut of_guest = guest.events("/api/live");
    root.ok("ALTER ROLE guest PASSWORD 'another'");
    let admin = Browser::admin(&server);
    let mut of_admin = admin.events("/api/live");
    assert_eq!(admin.change("POST", "/api/logout", &json!({})).status, 204);
    // Accounts are looked at every half a minute.
    for stream in [&mut of_admin, &mut of_guest] {
        stream.wait_for("expired", |_| true);
        assert!(stream.next().is_none(), "nothing more is told");
    }
    for browser in [&admin, &guest] {
        assert_eq!(browser.get("/api/live").status, 401);
    }
}
