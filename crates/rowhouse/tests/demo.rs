//! `rowhouse demo` as its page uses it: over HTTP, from the login to the end of a story, and its own end.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::run;
use serde_json::{Value, json};

/// How long anything may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(600);

/// A demo, and a browser that is logged in.
struct Demo {
    process: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
    url: String,
    cookie: String,
    csrf: String,
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Demo {
    fn start(options: &[&str]) -> Demo {
        let mut process = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
            .arg("demo")
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary can be run");
        let mut stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = || {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("the demo says where it is");
            line
        };
        let (console, clients) = (line(), line());
        let between = |text: &str, before: &str, after: char| {
            let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
            rest.split(after).next().expect("an end").to_owned()
        };
        let address = between(&console, "http://", '/');
        let password = between(&console, "password ", ')');
        let url = between(&clients, "clients: ", ' ');
        let mut demo = Demo { process, stdout, address, url, cookie: String::new(), csrf: String::new() };
        let (status, headers, session) =
            demo.send("POST", "/api/login", &json!({ "user": "admin", "password": password }));
        assert_eq!(status, 200, "{session}");
        let cookie = headers.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        demo.cookie = cookie.split(';').next().expect("a pair").to_owned();
        demo.csrf = session["csrf"].as_str().expect("a token").to_owned();
        demo
    }

    fn open(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the console listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: {}\r\nX-CSRF-Token: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.cookie,
            self.csrf,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("the request");
        stream
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, String, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answer = String::new();
        self.open(method, path, &body).read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        let json =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{method} {path}: {error}: {answer}"));
        (status, head.to_owned(), json)
    }

    /// An answer that must be one.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, _, answer) = self.send(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// Waits until the demo is as wanted.
    fn wait(&self, what: &str, mut is_wanted: impl FnMut(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let demo = self.get("/api/demo");
            if is_wanted(&demo) {
                return demo;
            }
            assert!(Instant::now() < until, "{what}: {demo}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses Ctrl-C and reads the rest.
    fn interrupt(mut self) -> (ExitStatus, String) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill can be run").success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("output is UTF-8");
        (self.process.wait().expect("the demo can be waited for"), rest)
    }
}

fn group<'d>(demo: &'d Value, name: &str) -> &'d Value {
    let groups = demo["groups"].as_array().expect("groups");
    groups.iter().find(|group| group["name"] == name).unwrap_or(&Value::Null)
}

fn is_at_work(demo: &Value, name: &str) -> bool {
    let group = group(demo, name);
    group["state"] == "running" && group["throughput"].as_f64().is_some_and(|of| of > 0.0)
}

#[test]
fn a_story_runs_is_changed_and_leaves_nothing() {
    let demo = Demo::start(&["--story", "none"]);
    assert_eq!(demo.get("/api/server")["demo"], true);
    let idle = demo.get("/api/demo");
    assert!(idle["running"].is_null() && idle["groups"] == json!([]), "{idle}");
    let titles = idle["stories"].as_array().expect("stories");
    assert!(titles.iter().all(|story| story["minutes"].as_u64().expect("minutes") >= 1));
    let (status, _, refused) = demo.send("POST", "/api/demo/start", &json!({ "story": "none" }));
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("42704")));

    demo.ask("POST", "/api/demo/start", &json!({ "story": "noisy" }));
    let told = demo.wait("quiet tenants at work", |demo| is_at_work(demo, "the quiet ones"));
    assert_eq!((&told["running"]["story"], &told["running"]["step"]), (&json!("noisy"), &json!(0)));
    assert!(group(&told, "the quiet ones")["p99_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{told}");
    assert_eq!(
        demo.get("/api/tenants/quiet1")["cpu_promised"].as_f64(),
        group(&told, "the quiet ones")["promises"]["cpu"].as_f64()
    );

    // Faster, the noise begins and the policy changes.
    demo.ask("PATCH", "/api/demo", &json!({ "speed": 10 }));
    demo.wait("the noise", |demo| is_at_work(demo, "the noisy ones"));
    let until = Instant::now() + PATIENCE;
    while demo.get("/api/server")["policy"] != "best_effort" {
        assert!(Instant::now() < until, "the policy is never best effort");
        std::thread::sleep(Duration::from_millis(50));
    }
    demo.ask("PATCH", "/api/demo", &json!({ "paused": true }));

    // A group is changed while it works, and one's own is added.
    let id = group(&demo.get("/api/demo"), "the quiet ones")["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/demo/groups/{id}");
    demo.ask("PATCH", &path, &json!({ "clients": 2, "tenants": 3, "promises": { "cpu": 0.011 } }));
    demo.wait("three tenants", |_| {
        demo.get("/api/tenants?search=quiet")["matched"] == 3
            && demo.get("/api/tenants/quiet1")["cpu_promised"].as_f64() == Some(0.011)
    });
    let (status, _, refused) = demo.send("PATCH", &path, &json!({ "clients": 0 }));
    assert_eq!(status, 400, "{refused}");
    let mine = json!({ "name": "mine", "tenant_prefix": "mine", "workload": "cpuio", "options": { "rows": "500" }, "rate": 20 });
    demo.ask("POST", "/api/demo/groups", &mine);
    let (status, _, refused) = demo.send("POST", "/api/demo/groups", &mine);
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("55006")), "{refused}");
    demo.wait("the group of one's own", |demo| is_at_work(demo, "mine"));

    // What is wrong with one is told with it, and right again when it is.
    let other =
        json!({ "name": "taken", "tenant_prefix": "taken", "workload": "cpuio", "options": { "rows": 500 } });
    let sql = |text: &'static str| {
        let url = demo.url.clone();
        run(async {
            common::connect(&url).await.expect("the administrator").batch_execute(text).await.expect("SQL")
        });
    };
    sql("CREATE TENANT taken1");
    demo.ask("POST", "/api/demo/groups", &other);
    let failed = demo.wait("a failure", |demo| group(demo, "taken")["state"] == "failed");
    assert!(group(&failed, "taken")["error"].as_str().expect("words").contains("42P04"), "{failed}");
    sql("DROP TENANT taken1");
    demo.wait("another try", |demo| is_at_work(demo, "taken"));

    // The page is told by the live stream, too.
    let mut live = BufReader::new(demo.open("GET", "/api/live", ""));
    let mut line = String::new();
    while line.trim() != "event: demo" {
        line.clear();
        assert!(live.read_line(&mut line).expect("a line") > 0, "the stream goes on");
    }
    drop(live);

    // A file takes the place of all.
    let file = demo.get("/api/demo/file");
    assert_eq!(file["groups"].as_array().expect("groups").len(), 4);
    demo.ask("POST", "/api/demo/stop", &Value::Null);
    let stopped = demo.wait("an end", |demo| demo["running"].is_null());
    let left: Vec<_> = stopped["groups"].as_array().expect("groups").iter().map(|of| &of["name"]).collect();
    assert_eq!(left, ["mine", "taken"]);
    demo.wait("its tenants gone, its policy taken back", |_| {
        ["quiet", "noisy"].iter().all(|of| demo.get(&format!("/api/tenants?search={of}"))["matched"] == 0)
            && demo.get("/api/server")["policy"] == "reservations"
    });
    let loaded = demo.ask("PUT", "/api/demo/file", &file);
    assert_eq!(loaded["groups"].as_array().expect("groups").len(), 4);
    demo.wait("the file's groups at work", |demo| {
        is_at_work(demo, "the quiet ones") && is_at_work(demo, "mine")
    });
    let (status, _, refused) = demo.send("PUT", "/api/demo/file", &json!({ "rowhouse_scenario": 9 }));
    assert!(status == 400 && refused["error"]["message"].as_str().expect("words").contains("version 9"));

    let (status, rest) = demo.interrupt();
    assert!(status.success() && rest.contains("ended in order"), "{status}: {rest}");
}

#[test]
fn the_api_describes_what_the_demo_adds_to_it_and_nothing_else() {
    let demo = Demo::start(&["--story", "none"]);
    let paths = demo.get("/api")["paths"].clone();
    let of_demo = paths.as_object().expect("paths").iter().filter(|(path, _)| path.starts_with("/api/demo"));
    let mut described = Vec::new();
    for (path, methods) in of_demo {
        for method in methods.as_object().expect("methods").keys().map(|method| method.to_uppercase()) {
            let (_, _, answer) = demo.send(&method, &path.replace("{id}", "0"), &Value::Null);
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(!said.contains("no such address"), "{method} {path}: {answer}");
            described.push(format!("{method} {path}"));
        }
    }
    described.sort();
    let mounted = [
        "DELETE /api/demo/groups/{id}",
        "GET /api/demo",
        "GET /api/demo/file",
        "PATCH /api/demo",
        "PATCH /api/demo/groups/{id}",
        "POST /api/demo/groups",
        "POST /api/demo/start",
        "POST /api/demo/stop",
        "PUT /api/demo/file",
    ];
    assert_eq!(described, mounted);
    let (status, _, answer) = demo.send("GET", "/api/demo/nothing", &Value::Null);
    assert!(status == 404 && answer["error"]["message"].as_str().expect("words").contains("no such address"));
    let (status, rest) = demo.interrupt();
    assert!(status.success(), "{status}: {rest}");
}

#[test]
fn it_ends_in_order_whatever_it_is_doing() {
    for moment_ms in [0, 1_500] {
        let demo = Demo::start(&["--story", "growing"]);
        std::thread::sleep(Duration::from_millis(moment_ms));
        let (status, rest) = demo.interrupt();
        assert!(
            status.success() && rest.contains("ended in order"),
            "after {moment_ms} ms: {status}: {rest}"
        );
    }
}

#[test]
fn it_ends_by_itself_when_told_to() {
    // Long enough for clients of a debug build to sign in beside other tests, on a machine that others slow.
    let mut demo = Demo::start(&["--seconds", "20"]);
    let mut rest = String::new();
    demo.stdout.read_to_string(&mut rest).expect("output is UTF-8");
    assert!(demo.process.wait().expect("the demo can be waited for").success(), "{rest}");
    for word in ["the shops: ", "transactions in ", "tenants are consistent", "ended in order"] {
        assert!(rest.contains(word), "no {word} in {rest}");
    }
    assert!(!rest.contains(" 0 tenants"), "{rest}");
}
