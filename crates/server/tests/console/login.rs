//! Who may enter the console, and from where.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::browser::{Browser, Response};
use crate::support::{self, ADMIN_PASSWORD, TestServer, trusting};
use serde_json::json;

const JSON: (&str, &str) = ("content-type", "application/json");

/// A server with the viewer `guest` beside the administrator.
fn server() -> TestServer {
    let server = TestServer::with_console();
    server.admin("rowhouse").ok("CREATE ROLE guest LOGIN PASSWORD 'seen'");
    server
}

#[test]
fn the_accounts_are_those_of_the_administrators_database() {
    let server = server();
    server.create_tenant("acme");
    let mut browser = Browser::new(&server);
    let answer = browser.login("admin", ADMIN_PASSWORD);
    assert_eq!((answer.status, answer.json()["role"].as_str()), (200, Some("administrator")));
    let cookie = answer.header("set-cookie").expect("a cookie");
    // Browsers send a cookie to all ports of a machine.
    let port = server.running().admin_address().expect("the server serves HTTP").port();
    for part in [format!("rowhouse_session_{port}=").as_str(), "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "it would not come back over HTTP");
    let (session, first) = (browser.json("/api/session"), answer.json());
    for same in ["user", "role", "csrf"] {
        assert_eq!(session[same], first[same]);
    }
    assert!(session["expires_ms"].as_i64() >= first["expires_ms"].as_i64(), "it was used");
    let mut guest = Browser::new(&server);
    assert_eq!(guest.login("guest", "seen").json()["role"], "viewer");
    // A tenant's role is nobody here, a role without LOGIN neither.
    let mut nobody = Browser::new(&server);
    server.admin("rowhouse").ok("CREATE ROLE group_of_many NOLOGIN PASSWORD 'pw'");
    for (user, password) in [("acme", "pw"), ("group_of_many", "pw"), ("admin", "wrong"), ("", "")] {
        let refused = nobody.login(user, password);
        assert_eq!((refused.status, refused.code().as_str()), (401, "28P01"), "{user}");
        // Whoever logged in from here before goes on.
        assert_eq!(browser.login("admin", ADMIN_PASSWORD).status, 200);
    }
}

#[test]
fn a_role_that_may_not_connect_does_not_enter() {
    let server = server();
    let mut guest = Browser::new(&server);
    let mut admin = server.admin("rowhouse");
    admin.ok("REVOKE CONNECT ON DATABASE rowhouse FROM PUBLIC");
    let refused = guest.login("guest", "seen");
    assert_eq!((refused.status, refused.code().as_str()), (401, "28P01"));
    assert_eq!(Browser::new(&server).login("admin", ADMIN_PASSWORD).status, 200);
    admin.ok("GRANT CONNECT ON DATABASE rowhouse TO guest");
    assert_eq!(guest.login("guest", "seen").json()["role"], "viewer");
}

/// A role chooses the verifier of its own password.
#[test]
fn a_verifier_of_very_many_iterations_lets_nobody_in_and_holds_nobody_up() {
    let server = server();
    let key = "A".repeat(43) + "=";
    let verifier = format!("SCRAM-SHA-256$60000000:c2FsdHNhbHRzYWx0c2FsdA==${key}:{key}");
    let mut guest = server.connect("rowhouse", "guest", "seen").expect("a role");
    guest.ok(&format!("ALTER ROLE guest PASSWORD '{verifier}'"));
    let began = Instant::now();
    let refused = Browser::new(&server).login("guest", "seen");
    assert_eq!((refused.status, refused.code().as_str()), (401, "28P01"));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn nothing_is_told_without_a_session() {
    let server = server();
    let browser = Browser::new(&server);
    let description = browser.json("/api");
    let mut asked = 0;
    for (path, methods) in description["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let path = path.replace("{name}", "acme").replace("{pid}", "1");
            if matches!((method.as_str(), path.as_str()), ("get", "/api") | ("post", "/api/login")) {
                continue;
            }
            let answer = browser.send(&method.to_uppercase(), &path, &[JSON], b"{}");
            assert_eq!((answer.status, answer.code().as_str()), (401, "28000"), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked >= 6, "{asked}");
    let mut stranger = Browser::new(&server);
    let port = server.running().admin_address().expect("the server serves HTTP").port();
    stranger.cookie = Some(format!("rowhouse_session_{port}={}", "A".repeat(43)));
    assert_eq!(stranger.get("/api/server").status, 401);
    assert_eq!(stranger.get("/api/nothing").status, 401, "not even what there is");
    assert_eq!(browser.get("/healthz").status, 200);
    assert_eq!(browser.get("/metrics").status, 200);
}

#[test]
fn who_guesses_is_held_off() {
    let server = server();
    let mut browser = Browser::new(&server);
    let answers: Vec<u16> = (0..8).map(|_| browser.login("admin", "wrong").status).collect();
    assert_eq!(answers[..5], [401; 5]);
    assert_eq!(answers[5..], [429; 3]);
    let refused = browser.login("admin", ADMIN_PASSWORD);
    assert_eq!((refused.status, refused.code().as_str()), (429, "53400"), "the right one, too");
    let wait: u64 = refused.header("retry-after").expect("when to come back").parse().expect("seconds");
    assert!((1..=10).contains(&wait), "{wait}");
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let server = server();
    let browser = Browser::admin(&server);
    let csrf = browser.csrf.clone().expect("logged in");
    let token = ("x-csrf-token", csrf.as_str());
    let logout = |headers: &[(&str, &str)]| browser.send("POST", "/api/logout", headers, b"");
    assert_eq!(logout(&[]).status, 403, "no token");
    assert_eq!(logout(&[("x-csrf-token", "AAAA")]).status, 403, "a wrong one");
    let mut others = Browser::admin(&server);
    assert_eq!(logout(&[("x-csrf-token", &others.csrf.take().unwrap())]).status, 403, "another session's");
    assert_eq!(logout(&[token, ("sec-fetch-site", "cross-site")]).status, 403);
    assert_eq!(logout(&[token, ("sec-fetch-site", "same-site")]).status, 403);
    assert_eq!(logout(&[token, ("origin", "https://evil.example")]).status, 403);
    assert_eq!(logout(&[token, ("origin", "null")]).status, 403);
    // Nobody is logged in by another site either, and no form can be one of ours.
    let body = json!({ "user": "admin", "password": ADMIN_PASSWORD }).to_string();
    let login =
        |headers: &[(&str, &str)]| browser.send("POST", "/api/login", headers, body.as_bytes()).status;
    assert_eq!(login(&[JSON, ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(login(&[("content-type", "text/plain")]), 415);
    assert_eq!(login(&[JSON]), 200);
    assert_eq!(browser.get("/api/session").status, 200, "still logged in");
    assert_eq!(logout(&[token, ("sec-fetch-site", "same-origin")]).status, 204);
    assert_eq!(browser.get("/api/session").status, 401);
}

#[test]
fn a_name_that_was_made_to_lead_here_is_refused() {
    let server = server();
    let browser = Browser::admin(&server);
    for path in ["/", "/api", "/api/server"] {
        let answer = browser.send("GET", path, &[("host", "evil.example:8433")], b"");
        assert_eq!(answer.status, 421, "{path}");
    }
    let port = server.running().admin_address().unwrap().port();
    for host in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(browser.send("GET", "/api/server", &[("host", &host)], b"").status, 200, "{host}");
    }
}

#[test]
fn every_answer_forbids_what_a_page_could_be_made_to_do() {
    let server = server();
    let browser = Browser::new(&server);
    for path in ["/", "/api", "/api/server", "/nothing.js"] {
        let answer = browser.get(path);
        let policy = answer.header("content-security-policy").expect("a policy");
        for part in ["default-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert!(answer.header("access-control-allow-origin").is_none(), "{path}");
    }
    assert_eq!(browser.get("/api/server").header("cache-control"), Some("no-store"));
    let page = browser.get("/");
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let etag = page.header("etag").expect("a tag").to_owned();
    let again = browser.send("GET", "/", &[("if-none-match", &etag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[test]
fn what_is_sent_is_bounded() {
    let server = server();
    let browser = Browser::new(&server);
    let body = format!("{{\"user\": \"{}\"}}", "x".repeat(100 << 10));
    assert_eq!(browser.send("POST", "/api/login", &[JSON], body.as_bytes()).status, 413);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.login("admin", &"x".repeat(2000)).status, 400);
    assert_eq!(browser.login("admin", ADMIN_PASSWORD).status, 200);
    assert_eq!(browser.send("POST", "/api/login", &[JSON], b"{").status, 400);
}

#[test]
fn whatever_is_refused_is_told_in_one_form() {
    let server = server();
    let admin = Browser::admin(&server);
    let asked = [
        ("GET", "/api/", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/tenants/%ff", 400),
        ("POST", "/api/tenants/acme/sessions/first/cancel", 400),
        ("PUT", "/api/server", 405),
    ];
    for (method, path, status) in asked {
        let answer = admin.change(method, path, &json!({}));
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
        assert_eq!(answer.code().len(), 5, "{path}");
    }
    assert_eq!(admin.change("PUT", "/api/server", &json!({})).header("allow"), Some("GET,HEAD,PATCH"));
}

/// Byte after byte comes, and never a whole body.
#[test]
fn a_body_that_does_not_come_to_an_end_is_not_waited_for() {
    let server = TestServer::with_console();
    let mut slow = support::tcp(server.running().admin_address().expect("the server serves HTTP"));
    let head = "POST /api/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let begun = Instant::now();
    let mut answer = [0; 12];
    while slow.read_exact(&mut answer).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is waited for");
        slow.write_all(b" ").expect("nobody hung up before an answer");
    }
    assert_eq!(std::str::from_utf8(&answer), Ok("HTTP/1.1 408"));
}

#[test]
fn the_console_speaks_the_servers_tls() {
    let server = server();
    let mut browser = Browser::new(&server);
    browser.tls = Some(trusting::config(&server.config.data_dir));
    let answer = browser.login("admin", ADMIN_PASSWORD);
    assert_eq!(answer.status, 200);
    assert!(answer.header("set-cookie").expect("a cookie").contains("; Secure"));
    assert_eq!(browser.json("/api/server")["workers"], 2);
    assert_eq!(browser.get("/metrics").status, 200);
}

#[test]
fn a_proxy_that_was_named_speaks_for_its_clients() {
    let login = |browser: &Browser, password: &str, headers: &[(&str, &str)]| {
        let body = json!({ "user": "admin", "password": password }).to_string();
        let headers: Vec<_> = [JSON].iter().chain(headers).copied().collect();
        browser.send("POST", "/api/login", &headers, body.as_bytes())
    };
    let is_secure = |answer: &Response| answer.header("set-cookie").expect("a cookie").contains("; Secure");
    let (first, second) = (("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2"));
    let https = ("x-forwarded-proto", "https");
    let server = TestServer::with(|config| {
        config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.admin_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    });
    let browser = Browser::new(&server);
    let tries = |headers: &[(&str, &str)]| -> Vec<u16> {
        (0..6).map(|_| login(&browser, "wrong", headers).status).collect()
    };
    assert_eq!(tries(&[first, https]), [401, 401, 401, 401, 401, 429], "each client by itself");
    assert_eq!(tries(&[second, https]), [401, 401, 401, 401, 401, 429]);
    let forged = ("x-forwarded-for", "203.0.113.1, 192.0.2.2");
    assert_eq!(
        login(&browser, "wrong", &[forged, https]).status,
        429,
        "what a client writes itself is passed by"
    );
    assert!(is_secure(&login(&browser, ADMIN_PASSWORD, &[("x-forwarded-for", "192.0.2.3"), https])));
    // The client's way to the proxy counts as a way to this server would.
    for clear in [&[first, ("x-forwarded-proto", "http")][..], &[first]] {
        assert_eq!(login(&browser, ADMIN_PASSWORD, clear).status, 426);
    }
    assert!(!is_secure(&login(&browser, ADMIN_PASSWORD, &[])), "the proxy's machine itself");
}

#[test]
fn without_a_proxy_named_nobody_speaks_for_others() {
    let server = server();
    let browser = Browser::new(&server);
    let body = json!({ "user": "admin", "password": "wrong" }).to_string();
    let answers: Vec<u16> = (0..7)
        .map(|client| {
            let forwarded = format!("192.0.2.{client}");
            let headers = [JSON, ("x-forwarded-for", &*forwarded), ("x-forwarded-proto", "http")];
            browser.send("POST", "/api/login", &headers, body.as_bytes()).status
        })
        .collect();
    assert_eq!(answers, [401, 401, 401, 401, 401, 429, 429]);
    let https = [JSON, ("x-forwarded-proto", "https")];
    let server = TestServer::with_console();
    let body = json!({ "user": "admin", "password": ADMIN_PASSWORD }).to_string();
    let answer = Browser::new(&server).send("POST", "/api/login", &https, body.as_bytes());
    assert!(!answer.header("set-cookie").expect("a cookie").contains("; Secure"));
}
