//! Backups, what is made of them, and copies of tenants, from outside: commands and statements against real servers.

mod common;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{PASSWORD, Server, check_output, ledger, run, said, state, text};
use futures::{SinkExt as _, TryStreamExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

const PAGE: usize = 8192;

fn rowhouse(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(args).output().expect("the binary can be run")
}

fn ends_well(args: &[&str]) -> String {
    let output = rowhouse(args);
    assert!(output.status.success(), "{args:?}:\n{}", said(&output));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn fails(args: &[&str]) -> String {
    let output = rowhouse(args);
    assert!(!output.status.success(), "{args:?}:\n{}", said(&output));
    String::from_utf8(output.stderr).expect("output is UTF-8")
}

fn value(json: &str, key: &str) -> String {
    let (_, rest) = json.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"));
    rest[..rest.find([',', '\n']).expect("a value ends")].trim_matches('"').to_owned()
}

/// A folder for backups, and the path of one.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("acme.backup");
    (dir, file)
}

fn backup(server: &Server, tenant: &str, to: &Path) -> String {
    let url = server.url("admin", "rowhouse");
    ends_well(&["backup", "--url", &url, "--tenant", tenant, "--to", path(to), "--json"])
}

fn restore(server: &Server, from: &Path, more: &[&str]) -> String {
    let url = server.url("admin", "rowhouse");
    ends_well(&[&["restore", "--url", &url, "--from", path(from), "--json"], more].concat())
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Names of the tenants, the administrator's left out.
async fn tenants(server: &Server) -> Vec<String> {
    let rows = server.admin().await.simple_query("SHOW TENANTS").await.expect("tenants can be shown");
    let name = |message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get("name").map(str::to_owned),
        _ => None,
    };
    rows.into_iter().filter_map(name).filter(|name| name != "system").collect()
}

/// The data files in the server's directory.
fn data_files(server: &Server) -> usize {
    let entries = std::fs::read_dir(server.data().join("tenants")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".rowhouse")).count()
}

fn verify(server: &Server) {
    ends_well(&["verify", "--data", path(server.data())]);
}

/// Waits for something that a task of the server does by itself.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Adds numbered entries and moves each number between two accounts, in one transaction each, until told to stop.
fn post_until(
    server: &Server,
    client: i32,
    posted: &Arc<AtomicI64>,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (url, posted, stop) = (server.url("acme", "acme"), posted.clone(), stop.clone());
    std::thread::spawn(move || {
        run(async {
            let mut connection = common::connect(&url).await.expect("a client can connect");
            let mut number = 0_i64;
            while !stop.load(Ordering::Acquire) {
                number += 1;
                let transaction = connection.transaction().await.expect("begins");
                let entry = "INSERT INTO entry VALUES ($1, $2, repeat('x', 200))";
                transaction.execute(entry, &[&client, &number]).await.expect("an entry is made");
                for (id, amount) in [(client, number), (client + 100, -number)] {
                    let post = "UPDATE account SET balance = balance + $1 WHERE id = $2";
                    transaction.execute(post, &[&amount, &id]).await.expect("an account is changed");
                }
                transaction.commit().await.expect("commits");
                posted.store(number, Ordering::Release);
            }
        });
    })
}

/// The ledger is of one moment, at which `least` to `most` of each client's entries were there.
async fn check_ledger(client: &Client, least: &[i64], most: &[i64]) {
    for (at, (least, most)) in least.iter().zip(most).enumerate() {
        let row = client
            .query_one(
                "SELECT count(*), coalesce(max(number), 0), coalesce(sum(number), 0)::bigint FROM entry WHERE client = $1",
                &[&(at as i32)],
            )
            .await
            .expect("the ledger can be read");
        let (count, last, sum) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2));
        assert_eq!(count, last, "no entry is missing or double");
        // A commit may be in the copy before its client was told.
        assert!((*least..=most + 1).contains(&last), "{last} entries, {least} before and {most} after");
        for (id, sign) in [(at as i32, 1), (at as i32 + 100, -1)] {
            let row = client
                .query_one("SELECT balance FROM account WHERE id = $1", &[&id])
                .await
                .expect("an account");
            assert_eq!(row.get::<_, i64>(0), sign * sum, "entries and accounts move together");
        }
    }
}

/// Runs `copy` a few times beside writers of `acme`; each time `copied` names a tenant that must be `acme` of one moment.
fn copied_under_load(server: &Server, rounds: usize, mut copy: impl FnMut(usize) -> String) {
    const CLIENTS: i32 = 3;
    run(async { ledger::make(&server.owner("acme").await, CLIENTS).await });
    let stop = Arc::new(AtomicBool::new(false));
    let posted: Vec<Arc<AtomicI64>> = (0..CLIENTS).map(|_| Arc::default()).collect();
    let writers: Vec<_> =
        posted.iter().zip(0..).map(|(posted, client)| post_until(server, client, posted, &stop)).collect();
    let now = || posted.iter().map(|posted| posted.load(Ordering::Acquire)).collect::<Vec<_>>();
    for round in 0..rounds {
        let before = now();
        eventually("the writers go on", || {
            now().iter().zip(&before).all(|(now, before)| now > &(before + 20))
        });
        let least = now();
        let name = copy(round);
        let most = now();
        run(async {
            let copy = server.connect_as("acme", &name).await.expect("the owner connects with his password");
            check_ledger(&copy, &least, &most).await;
        });
    }
    stop.store(true, Ordering::Release);
    writers.into_iter().for_each(|writer| writer.join().expect("a writer ends well"));
}

#[test]
fn a_backup_into_a_pipe_leaves_the_pipe() {
    let server = Server::with_acme();
    let (dir, file) = folder();
    let (pipe, url) = (dir.path().join("pipe"), server.url("admin", "rowhouse"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo can be run").success());
    let copy = std::fs::File::create(&file).expect("a file can be made");
    let mut cat = Command::new("cat").arg(&pipe).stdout(copy).spawn().expect("cat can be run");
    backup(&server, "acme", &pipe);
    assert!(cat.wait().expect("it ends").success());
    let kind = std::fs::symlink_metadata(&pipe).expect("it is there").file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    ends_well(&["verify-backup", path(&file)]);
    assert!(
        fails(&["backup", "--url", &url, "--tenant", "acme", "--to", path(dir.path())]).contains("directory")
    );
}

/// A server whose tenant has so many rows of a kilobyte.
fn with_kilobytes(rows: u32) -> Server {
    let server = Server::with_acme();
    run(async {
        let rows = format!(
            "CREATE TABLE t (id int PRIMARY KEY, v text);
             INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, {rows}) g"
        );
        server.owner("acme").await.batch_execute(&rows).await.expect("rows can be made");
    });
    server
}

#[test]
fn a_backup_that_is_told_to_end_leaves_nothing() {
    let server = with_kilobytes(30_000);
    let url = server.url("admin", "rowhouse");
    for signal in ["-INT", "-TERM"] {
        let (dir, file) = folder();
        let there = || std::fs::read_dir(dir.path()).expect("a folder").count();
        let mut backup = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
            .args(["backup", "--url", &url, "--tenant", "acme", "--json", "--to", path(&file)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary can be run");
        eventually("a backup begins", || there() > 0);
        let told = Command::new("kill").args([signal, &backup.id().to_string()]).status();
        assert!(told.expect("kill can be run").success());
        assert!(!backup.wait().expect("it ends").success(), "{signal}");
        assert_eq!(there(), 0, "{signal}");
    }
}

/// By SIGTERM: a program that was started with SIGINT ignored, as what a script begins in the background, is to go on ignoring it.
#[test]
fn a_backup_that_nobody_reads_ends_when_it_is_told_to() {
    let server = with_kilobytes(3_000);
    let mut backup = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["backup", "--url", &server.url("admin", "rowhouse"), "--tenant", "acme", "--to", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary can be run");
    let unread = backup.stdout.as_mut().expect("it is a pipe");
    unread.read_exact(&mut [0; 1]).expect("a backup begins");
    std::thread::sleep(Duration::from_millis(300));
    let told = Command::new("kill").args(["-TERM", &backup.id().to_string()]).status();
    assert!(told.expect("kill can be run").success());
    eventually("it ends", || backup.try_wait().expect("it is a child").is_some());
}

#[test]
fn a_tenant_whose_name_looks_like_an_option_is_backed_up() {
    let server = Server::start();
    let (_dir, file) = folder();
    run(async {
        server.admin().await.batch_execute("CREATE TENANT \"--json\"").await.expect("a tenant can be made")
    });
    backup(&server, "--json", &file);
    restore(&server, &file, &["--tenant", "-"]);
    let mut names = run(tenants(&server));
    names.sort();
    assert_eq!(names, ["-", "--json"]);
}

#[test]
fn a_backup_under_load_is_of_one_moment() {
    let mut server = Server::with_acme();
    let (_dir, file) = folder();
    copied_under_load(&server, 3, |round| {
        let made = backup(&server, "acme", &file);
        assert_eq!(value(&made, "bytes"), std::fs::metadata(&file).expect("there").len().to_string());
        let checked = ends_well(&["verify-backup", path(&file), "--json"]);
        assert_eq!((value(&checked, "clean"), value(&checked, "backup_of")), ("true".into(), "acme".into()));
        let name = format!("copy{round}");
        restore(&server, &file, &["--tenant", &name]);
        name
    });
    assert_eq!(std::fs::read_dir(file.parent().expect("a folder")).expect("a folder").count(), 1);
    assert!(server.terminate().success());
    verify(&server);
}

#[test]
fn a_copy_of_a_template_under_load_is_of_one_moment() {
    let mut server = Server::with_acme();
    copied_under_load(&server, 3, |round| {
        let name = format!("copy{round}");
        run(async {
            let statement = format!("CREATE TENANT {name} FROM TEMPLATE acme");
            server.admin().await.batch_execute(&statement).await.expect("a tenant can be copied");
        });
        name
    });
    // What is copied is worked with, and lives through a crash.
    run(async {
        let copy = server.connect_as("acme", "copy1").await.expect("connects");
        copy.batch_execute("DELETE FROM entry; UPDATE account SET balance = 7")
            .await
            .expect("can be changed");
    });
    server.kill();
    server.restart();
    run(async {
        let copy = server.connect_as("acme", "copy1").await.expect("connects");
        assert_eq!(text(&copy, "SELECT min(balance) + max(balance) FROM account").await, "14");
        let template = server.owner("acme").await;
        assert_ne!(text(&template, "SELECT count(*) FROM entry").await, "0");
    });
    assert!(server.terminate().success());
    verify(&server);
}

#[test]
fn tpcc_is_consistent_in_a_backup_taken_while_it_runs() {
    let server = Server::start();
    let url = server.url("admin", "rowhouse");
    let tpcc = ["bench", "tpcc", "--url", &url, "--tenants", "1", "--scale", "0.01"];
    ends_well(&[&tpcc[..], &["--load-only"]].concat());
    let load = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(tpcc)
        .args(["--no-load", "--clients", "3", "--seconds", "8", "--warm-up", "0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    std::thread::sleep(Duration::from_secs(3));
    let (_dir, file) = folder();
    backup(&server, "bench1", &file);
    let load = load.wait_with_output().expect("the load ends");
    assert!(load.status.success(), "{}", said(&load));
    restore(&server, &file, &["--tenant", "then"]);
    let url = server.url("admin", "then");
    let report = ends_well(&[
        "bench",
        "tpcc",
        "--url",
        &url,
        "--scale",
        "0.01",
        "--no-load",
        "--seconds",
        "0.2",
        "--warm-up",
        "0",
        "--json",
    ]);
    assert!(report.contains("\"violations\": []"), "{report}");
}

#[test]
fn a_tenant_comes_back_as_it_was() {
    let server = Server::with_acme();
    run(async {
        server
            .admin()
            .await
            .batch_execute("ALTER TENANT acme SET (cpu = 0.25, memory = '64MB')")
            .await
            .expect("alters");
        let owner = server.owner("acme").await;
        owner
            .batch_execute(
                "CREATE ROLE clerk LOGIN PASSWORD 'quill'; CREATE SEQUENCE ticket START 41;
                 CREATE TYPE mood AS ENUM ('glad', 'sad');
                 CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, m mood, long text);
                 CREATE INDEX ON t (m); CREATE VIEW glad AS SELECT * FROM t WHERE m = 'glad'; GRANT SELECT ON glad TO clerk;
                 CREATE UNIQUE INDEX late ON t (id, m) WHERE m = 'sad' OR id > 25;
                 INSERT INTO t (m, long) SELECT 'glad', repeat('x', 20000) FROM generate_series(1, 50);
                 SELECT nextval('ticket'); DROP TABLE IF EXISTS gone; CREATE TABLE gone (a int); INSERT INTO gone VALUES (1);
                 DROP TABLE gone",
            )
            .await
            .expect("a database can be made");
    });
    let (dir, file) = folder();
    let made = backup(&server, "acme", &file);
    run(async { server.admin().await.batch_execute("DROP TENANT acme").await.expect("drops") });
    let restored = restore(&server, &file, &[]);
    assert_eq!(
        (value(&restored, "tenant"), value(&restored, "commit")),
        ("acme".into(), value(&made, "commit"))
    );
    run(async {
        let clerk = common::connect(&server.url("clerk", "acme").replace(PASSWORD, "quill")).await;
        let clerk = clerk.expect("a role connects with its old password");
        assert_eq!(text(&clerk, "SELECT count(*) FROM glad").await, "50");
        assert_eq!(state(clerk.simple_query("SELECT * FROM t").await), SqlState::INSUFFICIENT_PRIVILEGE);
        let owner = server.owner("acme").await;
        assert_eq!(text(&owner, "SELECT sum(length(long)) FROM t").await, "1000000");
        assert_eq!(text(&owner, "SELECT nextval('ticket')").await, "42");
        assert_eq!(text(&owner, "INSERT INTO t (m) VALUES ('sad') RETURNING id").await, "51");
    });
    // Through pipes, under another name, with another promise.
    let piped = ends_well_with_input(
        &[
            "restore",
            "--url",
            &server.url("admin", "rowhouse"),
            "--from",
            "-",
            "--tenant",
            "B b",
            "--with",
            "cpu=0.5",
        ],
        &std::fs::read(&file).expect("a backup"),
    );
    assert!(piped.contains("B b"), "{piped}");
    run(async {
        let rows = server.admin().await.simple_query("SHOW TENANTS").await.expect("shows");
        let promise = |name: &str| {
            rows.iter().find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) if row.get("name") == Some(name) => {
                    Some((row.get("cpu")?.to_owned(), row.get("memory")?.to_owned()))
                }
                _ => None,
            })
        };
        assert_eq!(promise("acme"), Some(("0.25".into(), "64MiB".into())));
        assert_eq!(promise("B b"), Some(("0.5".into(), "64MiB".into())));
    });
    let out =
        rowhouse(&["backup", "--url", &server.url("admin", "rowhouse"), "--tenant", "B b", "--to", "-"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let second = dir.path().join("second");
    std::fs::write(&second, out.stdout).expect("written");
    ends_well(&["verify-backup", path(&second)]);
}

/// It is in the first bytes of a backup, which may have hundreds of gigabytes.
#[test]
fn a_name_that_is_taken_is_told_before_the_backup_is_sent() {
    use std::io::Write as _;
    let server = Server::with_acme();
    let (_dir, file) = folder();
    backup(&server, "acme", &file);
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["restore", "--url", &server.url("admin", "rowhouse"), "--from", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    let mut input = child.stdin.take().expect("piped");
    let whole = std::fs::read(&file).expect("a backup");
    input.write_all(&whole[..3 * PAGE]).expect("input is read");
    eventually("it ends before its input", || child.try_wait().expect("a child").is_some());
    drop(input);
    let output = child.wait_with_output().expect("it has ended");
    assert!(!output.status.success() && said(&output).contains("(42P04)"), "{}", said(&output));
}

#[test]
fn timeouts_of_the_administrators_sessions_end_no_backup_and_no_restore() {
    use std::io::Write as _;
    let server = with_much();
    let timeout = "ALTER ROLE admin SET statement_timeout = '200ms'";
    run(async { server.admin().await.batch_execute(timeout).await.expect("a setting") });
    let (_dir, file) = folder();
    backup(&server, "acme", &file);
    let whole = std::fs::read(&file).expect("a backup");
    let (first, rest) = whole.split_at(whole.len() / 2);
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["restore", "--url", &server.url("admin", "rowhouse"), "--from", "-", "--tenant", "b"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(first).expect("input is read");
    std::thread::sleep(Duration::from_millis(500));
    input.write_all(rest).expect("input is read");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
}

fn ends_well_with_input(args: &[&str], input: &[u8]) -> String {
    use std::io::Write as _;
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    child.stdin.take().expect("piped").write_all(input).expect("input is read");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{args:?}:\n{}", said(&output));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

#[test]
fn psql_backs_up_and_restores_by_statement() {
    let server = Server::with_acme();
    run(async {
        server.owner("acme").await.batch_execute("CREATE TABLE t AS SELECT 7 AS a").await.expect("makes")
    });
    let (_dir, file) = folder();
    let psql = |sql: &str| {
        let mut psql = server.client_tool("psql", "admin");
        psql.env("PGDATABASE", "rowhouse").args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        psql
    };
    let out = psql("BACKUP TENANT acme TO STDOUT").output().expect("psql runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::write(&file, out.stdout).expect("written");
    ends_well(&["verify-backup", path(&file)]);
    let input = std::fs::File::open(&file).expect("a backup");
    check_output(psql("RESTORE TENANT twin FROM STDIN").stdin(input));
    run(async {
        let twin = server.connect_as("acme", "twin").await.expect("connects");
        assert_eq!(text(&twin, "SELECT a FROM t").await, "7");
    });
}

/// Rows of 100 kB.
const MUCH: usize = 400;

/// A server whose `acme` has 40 megabytes, more than the buffers of a connection hold.
fn with_much() -> Server {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE TABLE much (id int PRIMARY KEY, filler text)").await.expect("is made");
        let sink = owner.copy_in::<_, Bytes>("COPY much FROM STDIN").await.expect("begins");
        let mut sink = std::pin::pin!(sink);
        for id in 0..MUCH {
            sink.send(Bytes::from(format!("{id}\t{}\n", "x".repeat(100_000)))).await.expect("is taken");
        }
        sink.finish().await.expect("rows are stored");
    });
    server
}

#[test]
fn a_damaged_or_cut_backup_is_refused_and_leaves_nothing() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        ledger::make(&owner, 1).await;
        let entry = "INSERT INTO entry VALUES (0, $1, repeat('x', 5000))";
        for number in 0..40_i64 {
            owner.execute(entry, &[&number]).await.expect("an entry is made");
        }
    });
    let (dir, file) = folder();
    backup(&server, "acme", &file);
    let whole = std::fs::read(&file).expect("a backup");
    let files = data_files(&server);
    let bad = dir.path().join("bad");
    let url = server.url("admin", "rowhouse");
    let flip = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let slots = whole.len() / PAGE;
    let last = slots - 1;
    let cases: Vec<(&str, Vec<u8>, usize)> = vec![
        ("superblock", flip(100), 0),
        ("spare superblock", flip(PAGE + 100), 1),
        ("map", flip(2 * PAGE + 70), 2),
        ("page", flip(3 * PAGE + 5000), 3),
        ("last page", flip((last - 1) * PAGE + 3000), last - 1),
        ("free set", flip(last * PAGE), last),
        ("nothing", Vec::new(), 0),
        ("cut in a superblock", whole[..PAGE + 5].to_vec(), 1),
        ("cut between slots", whole[..5 * PAGE].to_vec(), 5),
        ("cut in a slot", whole[..6 * PAGE + 77].to_vec(), 6),
        ("one slot too few", whole[..last * PAGE].to_vec(), last),
        ("one slot too many", [&whole[..], &[0; PAGE]].concat(), slots),
        ("a byte too many", [&whole[..], &[0]].concat(), slots),
        ("noise", vec![7; 4 * PAGE], 0),
    ];
    for (what, bytes, slot) in cases {
        std::fs::write(&bad, &bytes).expect("written");
        // By the command, which finds it before the server does.
        let told = fails(&["restore", "--url", &url, "--from", path(&bad), "--tenant", "bad"]);
        assert!(told.contains(path(&bad)), "{what}: {told}");
        let offset = |told: &str| {
            let (_, rest) = told.split_once("offset ")?;
            rest[..rest.find(':')?].parse::<usize>().ok()
        };
        if what != "noise" && what != "nothing" {
            assert_eq!(offset(&told).map(|at| at / PAGE), Some(slot), "{what}: {told}");
        }
        assert!(!rowhouse(&["verify-backup", path(&bad)]).status.success(), "{what}");
        // By the statement, which must find it by itself.
        let refused = run(async {
            let admin = server.admin().await;
            let sink = admin.copy_in::<_, Bytes>("RESTORE TENANT bad FROM STDIN").await.expect("begins");
            let mut sink = std::pin::pin!(sink);
            if let Err(error) = sink.send(Bytes::from(bytes)).await {
                return error;
            }
            sink.finish().await.expect_err(what)
        });
        let error = refused.as_db_error().unwrap_or_else(|| panic!("{what}: {refused}"));
        assert_eq!(*error.code(), SqlState::DATA_CORRUPTED, "{what}: {error}");
        if what != "noise" && what != "nothing" && what != "a byte too many" {
            assert_eq!(offset(error.message()).map(|at| at / PAGE), Some(slot), "{what}: {error}");
        }
        assert_eq!(run(tenants(&server)), ["acme"], "{what}");
        assert_eq!(data_files(&server), files, "{what}: its file is removed");
    }
    restore(&server, &file, &["--tenant", "good"]);
}

#[test]
fn who_hangs_up_or_gives_up_leaves_nothing() {
    let server = with_much();
    let (_dir, file) = folder();
    backup(&server, "acme", &file);
    let whole = Bytes::from(std::fs::read(&file).expect("a backup"));
    let files = data_files(&server);
    let half = whole.slice(..whole.len() / 2);
    for way in ["hang up", "fail", "cancel", "terminate"] {
        run(async {
            let (admin, connection) =
                tokio_postgres::connect(&server.url("admin", "rowhouse"), NoTls).await.expect("connects");
            let connection = tokio::spawn(connection);
            let sink = admin.copy_in::<_, Bytes>("RESTORE TENANT b FROM STDIN").await.expect("begins");
            let mut sink = Box::pin(sink);
            for piece in half.chunks(100_000) {
                sink.send(half.slice_ref(piece)).await.expect("is taken");
            }
            match way {
                "hang up" => {
                    connection.abort();
                    let _ = connection.await;
                }
                "fail" => {
                    drop(sink);
                    assert_eq!(text(&admin, "SELECT 1").await, "1", "the session goes on");
                }
                "cancel" => {
                    admin.cancel_token().cancel_query(NoTls).await.expect("is sent");
                    // Without a further word from the client.
                    while data_files(&server) > files {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    let error = sink.as_mut().finish().await.expect_err("cancelled");
                    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error}");
                }
                _ => {
                    let other = server.admin().await;
                    let pid =
                        text(&other, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'RESTORE%'").await;
                    assert_eq!(text(&other, &format!("SELECT pg_terminate_backend({pid})")).await, "t");
                }
            }
        });
        eventually(&format!("{way}: the half-made file is removed"), || data_files(&server) == files);
        assert_eq!(run(tenants(&server)), ["acme"], "{way}");
        // The name is free again.
        eventually(&format!("{way}: the name is free"), || {
            let url = server.url("admin", "rowhouse");
            rowhouse(&["restore", "--url", &url, "--from", path(&file), "--tenant", "b"]).status.success()
        });
        run(async { server.admin().await.batch_execute("DROP TENANT b").await.expect("drops") });
    }
}

#[test]
fn a_tenant_is_neither_dropped_nor_closed_while_it_is_copied() {
    let server = with_much();
    run(async {
        let admin = server.admin().await;
        let stream = admin.copy_out("BACKUP TENANT acme TO STDOUT").await.expect("begins");
        let mut stream = Box::pin(stream);
        let first = stream.try_next().await.expect("readable").expect("a piece");
        let other = server.admin().await;
        assert_eq!(state(other.batch_execute("DROP TENANT acme").await), SqlState::OBJECT_IN_USE);
        let owner = server.owner("acme").await;
        owner.batch_execute("UPDATE much SET filler = 'y' WHERE id % 10 = 0").await.expect("works meanwhile");
        admin.cancel_token().cancel_query(NoTls).await.expect("is sent");
        let mut bytes = first.len();
        let error = loop {
            match stream.try_next().await {
                Ok(Some(piece)) => bytes += piece.len(),
                Ok(None) => panic!("the backup ended after {bytes} bytes and was not cancelled"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error}");
        assert_eq!(text(&admin, "SELECT 1").await, "1", "the session goes on");
        drop(owner);
    });
    // The image's making ends with its listener.
    eventually("the tenant can be dropped", || {
        run(async { server.admin().await.batch_execute("DROP TENANT acme").await.is_ok() })
    });
    assert_eq!(data_files(&server), 1, "the administrator's alone");
}

#[test]
fn a_kill_amid_a_restore_leaves_a_server_that_starts_clean() {
    let mut server = with_much();
    server.expect_warnings();
    let (_dir, file) = folder();
    backup(&server, "acme", &file);
    let whole = Bytes::from(std::fs::read(&file).expect("a backup"));
    let files = data_files(&server);
    let mut ids = Vec::new();
    for part in [1, 3, 4] {
        run(async {
            let admin = server.admin().await;
            let sink = admin.copy_in::<_, Bytes>("RESTORE TENANT b FROM STDIN").await.expect("begins");
            let mut sink = Box::pin(sink);
            let sent = whole.slice(..whole.len() * part / 4);
            for piece in sent.chunks(100_000) {
                sink.send(sent.slice_ref(piece)).await.expect("is taken");
            }
            eventually("a file was begun", || data_files(&server) > files);
            server.kill();
        });
        verify(&server);
        server.restart();
        assert_eq!(data_files(&server), files, "what was begun is removed");
        assert_eq!(run(tenants(&server)), ["acme"]);
        let restored = restore(&server, &file, &["--tenant", "b"]);
        ids.push(value(&restored, "id"));
        run(async {
            let b = server.connect_as("acme", "b").await.expect("connects");
            assert_eq!(text(&b, "SELECT count(*) FROM much").await, MUCH.to_string());
        });
        // The session above ends by itself.
        eventually("the tenant can be dropped", || {
            run(async { server.admin().await.batch_execute("DROP TENANT b").await.is_ok() })
        });
    }
    let mut given: Vec<u64> = ids.iter().map(|id| id.parse().expect("a number")).collect();
    given.dedup();
    assert_eq!(given.len(), 3, "no id is given twice: {ids:?}");
    assert!(server.terminate().success());
    verify(&server);
}

#[test]
fn a_cancelled_copy_leaves_nothing() {
    let server = with_much();
    let files = data_files(&server);
    // A copy may be made before its cancellation comes: then it is there, and the next one is tried.
    let cancelled = (0..20).any(|_| {
        run(async {
            let admin = server.admin().await;
            let token = admin.cancel_token();
            let cancel = async {
                while data_files(&server) == files {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                token.cancel_query(NoTls).await.expect("is sent");
            };
            let (made, ()) = tokio::join!(admin.batch_execute("CREATE TENANT b FROM TEMPLATE acme"), cancel);
            match made {
                Ok(()) => {
                    admin.batch_execute("DROP TENANT b").await.expect("drops");
                    false
                }
                Err(error) => {
                    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error}");
                    assert_eq!(data_files(&server), files, "nothing is left when the client is told");
                    true
                }
            }
        })
    });
    assert!(cancelled, "no copy was cancelled");
    run(async {
        let admin = server.admin().await;
        admin.batch_execute("CREATE TENANT b FROM TEMPLATE acme").await.expect("the name is free");
    });
}

#[test]
fn what_a_cut_drop_left_is_removed_at_the_start() {
    let mut server = Server::with_acme();
    assert!(server.terminate().success());
    let file = server.data().join("tenants/16.rowhouse");
    let kept = std::fs::read(&file).expect("the file of the first tenant");
    server.restart();
    run(async { server.admin().await.batch_execute("DROP TENANT acme").await.expect("drops") });
    assert!(!file.exists());
    server.kill();
    // As if the power had gone before the file was removed.
    std::fs::write(&file, kept).expect("written");
    server.restart();
    assert!(!file.exists());
    run(async { server.create_tenant("acme").await });
    assert!(server.data().join("tenants/17.rowhouse").exists(), "the id is not given out again");
}

#[test]
fn who_may_not_is_told() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        let admin = server.admin().await;
        for statement in [
            "BACKUP TENANT acme TO STDOUT",
            "RESTORE TENANT b FROM STDIN",
            "CREATE TENANT b FROM TEMPLATE acme",
        ] {
            assert_eq!(
                state(owner.batch_execute(statement).await),
                SqlState::INSUFFICIENT_PRIVILEGE,
                "{statement}"
            );
            let block = format!("BEGIN; {statement}");
            assert_eq!(
                state(admin.batch_execute(&block).await),
                SqlState::ACTIVE_SQL_TRANSACTION,
                "{statement}"
            );
            admin.batch_execute("ROLLBACK").await.expect("rolls back");
        }
        for (statement, expected) in [
            ("BACKUP TENANT nobody TO STDOUT", SqlState::INVALID_CATALOG_NAME),
            ("BACKUP TENANT rowhouse TO STDOUT", SqlState::INSUFFICIENT_PRIVILEGE),
            ("RESTORE TENANT acme FROM STDIN", SqlState::DUPLICATE_DATABASE),
            ("RESTORE TENANT b FROM STDIN WITH (volume = nowhere)", SqlState::UNDEFINED_OBJECT),
            ("CREATE TENANT b FROM TEMPLATE nobody", SqlState::INVALID_CATALOG_NAME),
            ("CREATE TENANT acme FROM TEMPLATE acme", SqlState::DUPLICATE_DATABASE),
            ("CREATE TENANT b FROM TEMPLATE acme WITH (colour = red)", SqlState::UNDEFINED_OBJECT),
            ("CREATE TENANT b FROM TEMPLATE acme OWNER other", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            assert_eq!(state(admin.batch_execute(statement).await), expected, "{statement}");
        }
        admin.batch_execute("CREATE TENANT IF NOT EXISTS acme FROM TEMPLATE acme").await.expect("is there");
        assert_eq!(tenants(&server).await, ["acme"]);
    });
    let (_dir, file) = folder();
    let url = server.url("admin", "rowhouse");
    let told = fails(&["backup", "--url", &url, "--tenant", "nobody", "--to", path(&file)]);
    assert!(told.contains("tenant \"nobody\" does not exist (3D000)"), "{told}");
    assert!(std::fs::read_dir(file.parent().expect("a folder")).expect("a folder").next().is_none());
}

/// On a full disk, say: whoever runs them at night goes by the exit status.
#[test]
fn what_cannot_be_printed_fails_neither_a_backup_nor_a_restore() {
    let server = Server::with_acme();
    let (_dir, file) = folder();
    let url = server.url("admin", "rowhouse");
    for args in [
        &["backup", "--url", &url, "--tenant", "acme", "--to", path(&file)][..],
        &["restore", "--url", &url, "--from", path(&file), "--tenant", "b"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it can be opened");
        let output = Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(args).stdout(full).output();
        let output = output.expect("the binary can be run");
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(run(tenants(&server)), ["acme", "b"]);
}
