//! What the console changes, which is SQL of the administrator and nothing else; and who may not.

use crate::support::browser::Browser;
use crate::support::{Client, TestServer, eventually};
use serde_json::{Value, json};

/// Every request that changes something, with the SQL it is, in an order in which each succeeds.
fn changes() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let option = |name: &str, value: Value| json!({ "options": { name: value } });
    vec![
        (
            "POST",
            "/api/tenants",
            json!({ "name": "Acme & Co", "password": "s3cret's", "options": { "cpu": 0.25, "memory": "64MB" } }),
            "CREATE TENANT \"Acme & Co\" WITH (cpu = 0.25, memory = '64MB') PASSWORD '…'",
        ),
        (
            "POST",
            "/api/tenants",
            json!({ "name": "copy", "template": "Acme & Co" }),
            "CREATE TENANT \"copy\" FROM TEMPLATE \"Acme & Co\"",
        ),
        (
            "PATCH",
            "/api/tenants/copy",
            option("cpu_max", json!("0.5")),
            "ALTER TENANT \"copy\" SET (cpu_max = 0.5)",
        ),
        (
            "PATCH",
            "/api/tenants/copy",
            option("cpu_max", Value::Null),
            "ALTER TENANT \"copy\" RESET (cpu_max)",
        ),
        ("PATCH", "/api/tenants/copy", json!({ "worker": 1 }), "ALTER TENANT \"copy\" SET WORKER 1"),
        (
            "PATCH",
            "/api/tenants/copy",
            json!({ "worker": "default" }),
            "ALTER TENANT \"copy\" SET WORKER DEFAULT",
        ),
        (
            "PATCH",
            "/api/tenants/copy",
            json!({ "name": "other" }),
            "ALTER TENANT \"copy\" RENAME TO \"other\"",
        ),
        (
            "POST",
            "/api/sizes",
            json!({ "name": "odd", "options": { "iops": 7 } }),
            "CREATE SIZE \"odd\" AS (iops = 7)",
        ),
        ("PATCH", "/api/sizes/odd", option("iops", json!(8)), "ALTER SIZE \"odd\" SET (iops = 8)"),
        (
            "PATCH",
            "/api/server",
            option("policy", json!("max_only")),
            "ALTER SERVER SET (policy = 'max_only')",
        ),
        ("PATCH", "/api/server", option("policy", Value::Null), "ALTER SERVER RESET (policy)"),
        (
            "PATCH",
            "/api/volumes/log",
            option("iops_limit", json!(5000)),
            "ALTER VOLUME \"log\" SET (iops_limit = 5000)",
        ),
        (
            "POST",
            "/api/runaway-rules",
            json!({ "name": "long", "tenant": "other", "options": { "elapsed": "30s" } }),
            "CREATE RUNAWAY RULE \"long\" FOR TENANT \"other\" AS (elapsed = '30s')",
        ),
        ("DELETE", "/api/runaway-rules/long", json!({}), "DROP RUNAWAY RULE \"long\""),
        ("DELETE", "/api/sizes/odd", json!({}), "DROP SIZE \"odd\""),
        ("DELETE", "/api/tenants/other", json!({}), "DROP TENANT \"other\""),
        ("DELETE", "/api/tenants/Acme%20%26%20Co", json!({}), "DROP TENANT \"Acme & Co\""),
    ]
}

/// All that an administrator can see of what could be changed.
fn everything(admin: &mut Client) -> Vec<Vec<Option<String>>> {
    let mut all = Vec::new();
    for sql in ["SHOW SIZES", "SHOW SERVER", "SHOW VOLUMES", "SHOW RUNAWAY RULES"] {
        all.extend(admin.ok(sql));
    }
    let tenants = admin.shown("SHOW TENANTS");
    for name in tenants.names() {
        let columns = ["id", "cpu", "cpu_max", "memory", "size"];
        all.push(columns.iter().map(|column| tenants.value(name, column).map(str::to_owned)).collect());
    }
    all
}

#[test]
fn each_change_is_the_statement_that_it_shows() {
    let server = TestServer::with_console();
    let (browser, mut admin) = (Browser::admin(&server), server.admin("rowhouse"));
    let before = everything(&mut admin);
    for (method, path, body, sql) in changes() {
        let now = everything(&mut admin);
        let dry = browser.change(method, &format!("{path}?dry_run=true"), &body);
        assert_eq!((dry.status, &dry.json()["sql"]), (200, &json!(sql)), "{}", dry.text());
        assert_eq!(everything(&mut admin), now, "{sql}: a dry run changes nothing");
        let done = browser.change(method, path, &body);
        assert_eq!((done.status, &done.json()["sql"]), (200, &json!(sql)), "{}", done.text());
        assert_ne!(
            !path.contains("copy") && everything(&mut admin) == now,
            true,
            "{sql}: it is in force at once"
        );
        assert!(!done.text().contains("s3cret"), "{}", done.text());
        if sql.starts_with("CREATE TENANT \"Acme") {
            assert!(
                server.connect("Acme & Co", "Acme & Co", "s3cret's").is_ok(),
                "the password is the one sent"
            );
        }
    }
    browser.change("PATCH", "/api/volumes/log", &json!({ "options": { "iops_limit": null } }));
    assert_eq!(everything(&mut admin), before);
}

/// A browser takes `.` and `..` in a path for a way elsewhere, however they are encoded.
#[test]
fn tenants_called_by_dots_alone_are_reached_with_two_dots_more() {
    let server = TestServer::with_console();
    let (browser, mut admin) = (Browser::admin(&server), server.admin("rowhouse"));
    for name in [".", "..", "..."] {
        admin.ok(&format!("CREATE TENANT \"{name}\""));
    }
    for name in [".", "..", "..."] {
        let path = format!("/api/tenants/{name}..");
        assert_eq!(browser.json(&path)["name"], name);
        assert!(browser.json(&format!("{path}/sessions"))["rows"].is_array(), "{name}");
        let dropped = browser.change("DELETE", &path, &json!({}));
        assert_eq!(dropped.json()["sql"], format!("DROP TENANT \"{name}\""), "{}", dropped.text());
    }
}

#[test]
fn a_viewer_sees_and_changes_nothing() {
    let server = TestServer::with_console();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE ROLE guest LOGIN PASSWORD 'seen'");
    admin.ok("CREATE TENANT copy");
    let mut guest = Browser::new(&server);
    assert_eq!(guest.login("guest", "seen").status, 200);
    let before = everything(&mut admin);
    for (method, path, body, sql) in changes() {
        for path in [path.to_owned(), format!("{path}?dry_run=true")] {
            let refused = guest.change(method, &path, &body);
            assert_eq!((refused.status, refused.code().as_str()), (403, "42501"), "{sql}");
        }
    }
    assert_eq!(guest.change("POST", "/api/tenants/copy/sessions/1/cancel", &json!({})).status, 403);
    assert_eq!(everything(&mut admin), before);
    assert_eq!(guest.json("/api/tenants")["total"], 2, "with the server's own");
    // A session that rests is shown with its last statement, but not with a password.
    admin.ok("ALTER ROLE guest PASSWORD 'seen'");
    let shown = guest.json("/api/tenants/system/sessions").to_string();
    assert!(shown.contains("ALTER ROLE guest PASSWORD $1") && !shown.contains("'seen'"), "{shown}");
    // An account that is gone has no session for long: the next look ends it.
    assert_eq!(guest.change("POST", "/api/logout", &json!({})).status, 204);
}

#[test]
fn what_sql_refuses_is_told_as_sql_tells_it() {
    let server = TestServer::with_console();
    let browser = Browser::admin(&server);
    server.create_tenant("acme");
    let held = server.connect("acme", "acme", "pw").expect("its owner");
    let check = |method: &str, path: &str, body: Value, status: u16, code: &str| {
        let refused = browser.change(method, path, &body);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{method} {path}: {}",
            refused.text()
        );
    };
    check("POST", "/api/tenants", json!({ "name": "acme" }), 409, "42P04");
    check("POST", "/api/tenants", json!({ "name": "" }), 400, "42602");
    check("POST", "/api/tenants", json!({ "name": "x".repeat(64) }), 400, "42602");
    check("POST", "/api/tenants", json!({ "name": "a", "template": "nobody" }), 404, "3D000");
    check("POST", "/api/tenants", json!({ "name": "a", "options": { "colour": 1 } }), 400, "42704");
    check("POST", "/api/tenants", json!({ "name": "a", "options": { "cpu": -1 } }), 400, "22023");
    check("POST", "/api/tenants", json!({ "name": "a", "options": { "cpu": [1] } }), 400, "22023");
    check("POST", "/api/tenants", json!({ "name": "a", "typo": 1 }), 400, "22023");
    check("PATCH", "/api/tenants/nobody", json!({ "options": { "cpu": 1 } }), 404, "3D000");
    check("PATCH", "/api/tenants/acme", json!({ "options": {} }), 400, "22023");
    check("PATCH", "/api/tenants/acme", json!({ "options": { "cpu": 1, "iops": null } }), 400, "22023");
    check("PATCH", "/api/tenants/acme", json!({ "worker": 9 }), 400, "22023");
    check("PATCH", "/api/tenants/acme", json!({}), 400, "22023");
    check("DELETE", "/api/tenants/acme", json!({}), 409, "55006");
    check("DELETE", "/api/sizes/nothing", json!({}), 404, "42704");
    check("DELETE", "/api/tenants/rowhouse", json!({}), 403, "42501");
    drop(held);
    // What is overbooked is told beside the result.
    let told = browser.change("PATCH", "/api/tenants/acme", &json!({ "options": { "cpu": 1000 } })).json();
    assert_eq!(told["notices"][0]["severity"], "WARNING");
    let message = told["notices"][0]["message"].as_str().expect("a message");
    assert!(message.contains("processor time is overbooked"), "{message}");
}

#[test]
fn names_and_values_say_nothing_but_themselves() {
    let server = TestServer::with_console();
    let browser = Browser::admin(&server);
    let names = [
        "a\"; DROP TENANT victim; --",
        "a' OR '1'='1",
        "a\\",
        "'; SELECT 1; '",
        "WITH",
        "naïve ☃",
        "a/**/b",
        "../etc",
        "$$x$$",
    ];
    browser.change("POST", "/api/tenants", &json!({ "name": "victim" }));
    for name in names {
        let made =
            browser.change("POST", "/api/tenants", &json!({ "name": name, "password": name, "owner": "o" }));
        assert_eq!(made.status, 200, "{name}: {}", made.text());
        let injected = json!({ "options": { "cpu": format!("0.1); DROP TENANT victim; --{name}") } });
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(browser.change("PATCH", &format!("/api/tenants/{path}"), &injected).code(), "22023");
        let key = json!({ "options": { format!("cpu = 1) {name}"): 1 } });
        assert_eq!(browser.change("PATCH", &format!("/api/tenants/{path}"), &key).code(), "42704");
        assert_eq!(browser.json(&format!("/api/tenants/{path}"))["name"], name);
        assert!(server.connect(name, "o", name).is_ok(), "the password is what was sent: {name}");
    }
    assert_eq!(browser.json("/api/tenants")["total"], names.len() + 2);
}

#[test]
fn sessions_are_cancelled_and_ended_and_locks_are_told() {
    let server = TestServer::with_console();
    let browser = Browser::admin(&server);
    server.create_tenant("acme");
    let mut holder = server.connect("acme", "acme", "pw").expect("its owner");
    holder.ok("CREATE TABLE t (n int PRIMARY KEY)");
    holder.ok("INSERT INTO t VALUES (1)");
    holder.ok("BEGIN");
    holder.ok("UPDATE t SET n = 2 WHERE n = 1");
    let mut waiter = server.connect("acme", "acme", "pw").expect("its owner");
    waiter.start_query("UPDATE t SET n = 3 WHERE n = 1");
    let waiting =
        |locks: &Value| locks["rows"].as_array().unwrap().iter().find(|row| row["granted"] == false).cloned();
    eventually("the waiter waits", || waiting(&browser.json("/api/tenants/acme/locks")).is_some());
    let lock = waiting(&browser.json("/api/tenants/acme/locks")).expect("it waits");
    assert_eq!(
        (&lock["pid"], &lock["blocked_by"]),
        (&json!(waiter.key.process_id), &json!([holder.key.process_id]))
    );
    assert_eq!(lock["relation"], "row of public.t");
    let sessions = browser.json("/api/tenants/acme/sessions");
    let of = |pid: u32| {
        sessions["rows"].as_array().unwrap().iter().find(|row| row["pid"] == pid).cloned().expect("there")
    };
    let active = of(waiter.key.process_id);
    assert_eq!(
        (&active["state"], &active["query"]),
        (&json!("active"), &json!("UPDATE t SET n = 3 WHERE n = 1"))
    );
    assert!(active["query_start_ms"].as_i64().unwrap() > 1_600_000_000_000);
    assert_eq!(of(holder.key.process_id)["state"], "idle in transaction");
    let signal = |tenant: &str, pid: u32, what: &str| {
        browser.change("POST", &format!("/api/tenants/{tenant}/sessions/{pid}/{what}"), &json!({}))
    };
    let pid = waiter.key.process_id;
    assert_eq!(signal("system", pid, "cancel").status, 404, "it is another's");
    let answer = signal("acme", pid, "cancel").json();
    assert_eq!(answer, json!({ "sql": format!("SELECT pg_cancel_backend({pid})"), "done": true }));
    assert_eq!(waiter.answer().error.expect("cancelled").state.as_str(), "57014");
    assert!(waiter.is_alive());
    assert_eq!(signal("acme", pid, "terminate").json()["done"], true);
    eventually("it ends", || browser.json("/api/tenants/acme")["sessions"] == 1);
    assert_eq!(signal("acme", pid, "terminate").status, 404);
}
