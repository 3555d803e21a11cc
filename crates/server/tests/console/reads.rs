//! What the console tells: every address that is described answers, with what is described.

use std::net::SocketAddr;

use crate::support::browser::Browser;
use crate::support::{TestServer, eventually};
use base::Nanos;
use serde_json::{Value, json};

/// A server with two tenants that were promised more than there is, and worked side by side on its only worker.
fn server() -> TestServer {
    let server = TestServer::with(|config| {
        config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.workers = Some(1);
    });
    let mut admin = server.admin("rowhouse");
    admin.ok("ALTER SERVER SET (metering_interval = '100ms')");
    let tenants = ["acme", "rival"];
    for tenant in tenants {
        server.create_tenant(tenant);
        admin.ok(&format!("ALTER TENANT {tenant} SET (cpu = 4, penalty = 1)"));
    }
    admin.ok("ALTER TENANT acme SET (iops = 10, memory = '8MB', size = small)");
    std::thread::scope(|scope| {
        for tenant in tenants {
            let mut client = server.connect(tenant, tenant, "pw").expect("its owner");
            scope.spawn(move || {
                client.ok("CREATE TABLE t (n int PRIMARY KEY)");
                for _ in 0..10 {
                    client.ok("INSERT INTO t SELECT g FROM generate_series(1, 10000) g; DELETE FROM t");
                }
            });
        }
    });
    server
}

/// Holds a value against a JSON schema, as far as ours go.
fn check(value: &Value, schema: &Value, schemas: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/components/schemas/").expect("ours");
        return check(value, &schemas[name], schemas, at);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(value, part, schemas, at);
    }
    if let Some(any) = schema["enum"].as_array() {
        assert!(any.contains(value), "{at}: {value}");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &&str| match *kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("{at}: {other}"),
    };
    assert!(kinds.is_empty() || kinds.iter().any(is), "{at}: {value} is no {kinds:?}");
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().expect("a name");
            assert!(object.contains_key(name), "{at}: no {name} in {value}");
        }
        for (name, value) in object {
            if let Some(schema) = schema["properties"].get(name) {
                check(value, schema, schemas, &format!("{at}.{name}"));
            }
        }
    }
    for one in value.as_array().into_iter().flatten() {
        check(one, &schema["items"], schemas, &format!("{at}[]"));
    }
}

#[test]
fn every_address_that_is_described_answers_as_it_is() {
    let server = server();
    let browser = Browser::admin(&server);
    let description = browser.json("/api");
    assert_eq!(description["openapi"], "3.1.0");
    let schemas = &description["components"]["schemas"];
    eventually("the ledger has rows", || browser.json("/api/ledger")["total"].as_u64() > Some(0));
    let mut checked = 0;
    for (path, methods) in description["paths"].as_object().expect("paths") {
        let Some(operation) = methods.get("get") else { continue };
        let content = &operation["responses"]["200"]["content"];
        let month = if path.starts_with("/api/reports") { "?month=2026-11" } else { "" };
        let path = path.replace("{name}", "acme") + month;
        if content.get("text/event-stream").is_some() {
            let frame = browser.events(&(path.clone() + "?tenant=acme")).wait_for("frame", |_| true);
            check(&frame, &schemas["Frame"], schemas, &path);
        } else if content.get("text/csv").is_some() {
            assert!(browser.get(&path).text().starts_with("tenant,resource,"));
        } else {
            check(&browser.json(&path), &content["application/json"]["schema"], schemas, &path);
        }
        checked += 1;
    }
    assert!(checked >= 15, "{checked}");
    // What is not there is told as such.
    for path in [
        "/api/nothing",
        "/api/tenants/nobody",
        "/api/tenants/nobody/locks",
        "/api/reports/nobody?month=2026-11",
    ] {
        let missing = browser.get(path);
        assert_eq!(missing.status, 404, "{path}");
        check(&missing.json(), &schemas["Error"], schemas, path);
    }
}

#[test]
fn the_table_has_the_tenants_that_are_asked_for() {
    let server = server();
    let browser = Browser::admin(&server);
    let mut admin = server.admin("rowhouse");
    for n in 0..25 {
        admin.ok(&format!("CREATE TENANT many{n:02} WITH (cpu = 0.0{:02})", n + 1));
    }
    let ask = |query: &str| browser.json(&format!("/api/tenants?{query}"));
    let names = |answer: &Value| -> Vec<String> {
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = ask("");
    assert_eq!((&all["total"], &all["matched"], names(&all).len()), (&json!(28), &json!(28), 28));
    assert_eq!(names(&all)[0], "acme");
    let page = ask("search=MANY&sort=cpu_promised&order=desc&offset=20&limit=3");
    assert_eq!((&page["total"], &page["matched"], &page["offset"]), (&json!(28), &json!(25), &json!(20)));
    assert_eq!(names(&page), ["many04", "many03", "many02"]);
    assert_eq!(names(&ask("search=acme&limit=1")), ["acme"]);
    assert!(names(&ask("offset=1000")).is_empty());
    for bad in ["limit=501", "sort=colour", "order=up", "limit=-1", "offset=x"] {
        assert_eq!(browser.get(&format!("/api/tenants?{bad}")).status, 400, "{bad}");
    }
    let row = &ask("search=acme")["rows"][0];
    assert_eq!(
        (&row["cpu_promised"], &row["size"], &row["open"]),
        (&json!(4.0), &json!("small"), &json!(true))
    );
    // Its size and what it was given by hand, and nothing that nobody said.
    let options = browser.json("/api/tenants/acme")["options"].clone();
    let of = |name: &str| options[name].as_str();
    assert_eq!((of("cpu"), of("work_memory"), of("cpu_max")), (Some("4"), Some("16MiB"), None));
    eventually("what was broken is counted", || {
        ask("search=acme")["rows"][0]["broken_hour"].as_u64() > Some(0)
    });
}

#[test]
fn the_table_follows_who_begins_and_who_stops() {
    let server = TestServer::with(|config| {
        config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.tenant_close_after = Nanos::from_secs(1);
    });
    server.create_tenant("acme");
    server.admin("rowhouse").ok("ALTER TENANT acme SET (cpu = 0.5, iops = 100)");
    let browser = Browser::admin(&server);
    let row = || browser.json("/api/tenants?search=acme")["rows"][0].clone();
    assert_eq!((&row()["sessions"], &row()["statements_per_s"]), (&json!(0), &json!(0.0)));
    let mut client = server.connect("acme", "acme", "pw").expect("its owner");
    eventually("it works", || {
        client.ok("SELECT 1");
        let row = row();
        row["open"] == true && row["sessions"] == 1 && row["statements_per_s"].as_f64() > Some(0.0)
    });
    client.ok("CREATE TABLE t (n int)");
    drop(client);
    // Sooner than all tenants are looked at again.
    eventually("it is left alone", || {
        let row = row();
        let is_nothing = |of: &str| row[of] == 0.0;
        let of = ["statements_per_s", "cpu", "cpu_demanded", "iops", "iops_demanded"];
        row["open"] == false && row["sessions"] == 0 && of.into_iter().all(is_nothing)
    });
    let found = browser.json("/api/tenants/acme");
    for same in ["name", "open", "worker", "cpu_promised", "memory_bytes", "disk_bytes", "p99_ms"] {
        assert_eq!(row()[same], found[same], "{same}");
    }
}

#[test]
fn statements_are_ordered_by_what_they_took() {
    let server = server();
    let browser = Browser::admin(&server);
    let mut client = server.connect("acme", "acme", "pw").expect("its owner");
    for _ in 0..30 {
        client.ok("SELECT 1 + 1");
    }
    let ask = |query: &str| browser.json(&format!("/api/tenants/acme/statements?{query}"));
    for (by, key) in [("cpu", "cpu_seconds"), ("io", "ios"), ("calls", "calls")] {
        let rows = ask(&format!("by={by}"))["rows"].clone();
        let took: Vec<f64> = rows.as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).collect();
        assert!(took.len() > 2 && took.is_sorted_by(|a, b| a >= b), "{by}: {rows}");
    }
    let most = ask("by=calls&limit=1");
    assert_eq!(most["rows"].as_array().unwrap().len(), 1);
    let row = &most["rows"][0];
    assert!(
        row["calls"].as_u64() >= Some(30) && row["query"].as_str().unwrap().starts_with("SELECT"),
        "{row}"
    );
    assert!(row["max_ms"].as_f64() >= row["mean_ms"].as_f64() && most["since_ms"].as_i64() > Some(0));
    assert_eq!(browser.get("/api/tenants/acme/statements?by=luck").status, 400);
}

#[test]
fn the_ledger_is_filtered_paged_and_exported() {
    let server = server();
    let browser = Browser::admin(&server);
    let ask = |query: &str| browser.json(&format!("/api/ledger?{query}"));
    eventually("a promise is broken", || {
        ask("tenant=acme&resource=cpu&broken=true")["total"].as_u64() > Some(2)
    });
    let broken = ask("tenant=acme&resource=cpu&broken=true&limit=2");
    let rows = broken["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["began_ms"].as_i64() >= rows[1]["began_ms"].as_i64(), "newest first");
    for row in rows {
        assert_eq!((&row["tenant"], &row["resource"]), (&json!("acme"), &json!("cpu")));
        assert!(row["cause"].is_string(), "{row}");
        assert!(row["missed"].as_f64() > Some(0.0) && row["owed"].as_f64() > Some(0.0));
    }
    let total = |query: &str| ask(query)["total"].as_u64().unwrap();
    let to = rows[0]["began_ms"].as_i64().unwrap() + 1;
    assert_eq!(total(&format!("tenant=acme&resource=cpu&broken=true&from_ms={to}&to_ms={to}")), 0);
    assert_eq!(total("tenant=nobody"), 0);
    // Each row that is broken has one cause; rows that began before these come no more.
    let before = format!("tenant=acme&resource=cpu&to_ms={to}");
    let causes = ["overbooked", "system", "neighbour", "device"];
    let by_cause: u64 = causes.iter().map(|cause| total(&format!("{before}&cause={cause}"))).sum();
    assert_eq!(by_cause, total(&format!("{before}&broken=true")));
    assert_eq!(total(&before), by_cause + total(&format!("{before}&broken=false")));
    assert_eq!(browser.get("/api/ledger?cause=weather").status, 400);
    assert_eq!(browser.get("/api/ledger?resource=disk").status, 400);
    let query = format!("tenant=acme&resource=cpu&broken=true&to_ms={to}");
    let csv = browser.get(&format!("/api/ledger.csv?{query}"));
    assert!(csv.header("content-disposition").unwrap().contains("ledger.csv"));
    let lines: Vec<&str> = csv.text().lines().collect();
    assert_eq!(lines.len() as u64, 1 + total(&query));
    assert!(lines[1].starts_with("acme,cpu,,"), "{}", lines[1]);
    let seconds = rows[0]["missed"].as_f64().unwrap().to_string();
    assert!(lines[1].contains(&seconds), "{} has no {seconds}", lines[1]);
}

/// The minute under way is written when a server ends.
#[test]
fn a_month_is_reported_from_what_is_on_disk() {
    let server = server();
    let browser = Browser::admin(&server);
    eventually("a promise is broken", || {
        browser.json("/api/ledger?tenant=acme&resource=cpu&broken=true")["total"].as_u64() > Some(2)
    });
    let today = browser.json("/api/server")["now_ms"].as_i64().unwrap() / 86_400_000;
    let server = server.restart();
    let browser = Browser::admin(&server);
    let minutes = browser.json("/api/ledger?granularity=minute&tenant=acme&resource=cpu");
    assert!(minutes["total"].as_u64() >= Some(1), "{minutes}");
    let row = &minutes["rows"][0];
    let ms = row["ended_ms"].as_i64().unwrap() - row["began_ms"].as_i64().unwrap();
    assert_eq!(ms % 60_000, 0);
    let month = month_of(today);
    let report = browser.json(&format!("/api/reports/acme?month={month}"));
    let cpu =
        report["resources"].as_array().unwrap().iter().find(|one| one["resource"] == "cpu").expect("worked");
    assert!(cpu["broken"].as_u64() > Some(2) && cpu["missed"].as_f64() > Some(0.0), "{cpu}");
    let by_cause: u64 =
        cpu["causes"].as_array().unwrap().iter().map(|of| of["broken"].as_u64().unwrap()).sum();
    assert_eq!(Some(by_cause), cpu["broken"].as_u64());
    let worst = cpu["worst"].as_array().unwrap();
    assert!((1..=10).contains(&worst.len()) && worst[0]["missed"].as_f64() > Some(0.0));
    assert!(report["owed"].as_f64() >= cpu["owed"].as_f64());
    let nothing = browser.json("/api/reports/acme?month=1999-01");
    assert_eq!((&nothing["resources"], &nothing["recorded_from_ms"]), (&json!([]), &Value::Null));
    assert_eq!(browser.get("/api/reports/acme?month=January").status, 400);
    let advice = browser.json("/api/tenants/acme/advise?p99_ms=5");
    assert!(advice["rows"].as_array().unwrap().iter().any(|row| row["candidate"] == "present"), "{advice}");
    assert_eq!(browser.get("/api/tenants/acme/advise?p99_ms=-1").status, 400);
}

/// The month of a day since 1970, counted on from the first of all.
fn month_of(today: i64) -> String {
    let (mut year, mut month, mut left) = (1970, 1, today);
    loop {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + i64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if left < days {
            return format!("{year}-{month:02}");
        }
        left -= days;
        (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    }
}
