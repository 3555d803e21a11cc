//! A server where there is no io_uring: the same one, with its sockets by epoll and its files by threads, on the same data.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Server, check_output, run, text};

/// As where the kernel, or a container's rules, refuse a ring.
const WITHOUT_RING: &[(&str, &str)] = &[("ROWHOUSE_IO", "epoll")];
/// Rows of about a page that a start adds.
const ROWS: i32 = 200;

fn start(data: &Path, environment: &[(&str, &str)]) -> Server {
    Server::launch_with(data, &["--memory", "8MiB", "--workers", "2"], environment)
        .unwrap_or_else(|output| panic!("the server did not start:\n{output}"))
}

/// Whether the process has a ring open.
fn has_ring(server: &Server) -> bool {
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the process is there");
    open.flatten().any(|fd| {
        std::fs::read_link(fd.path()).is_ok_and(|target| target.to_string_lossy().contains("io_uring"))
    })
}

/// Durable commits one by one, reads of pages that are not in memory, queries on both paths, a long answer that is encrypted: with the rows of so
/// many starts before this one.
fn works(server: &Server, before: i32) {
    let all = (before + 1) * ROWS;
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        let insert = owner.prepare("INSERT INTO t VALUES ($1, $2)").await.expect("prepared");
        let pad = "x".repeat(7_000);
        for id in before * ROWS..all {
            owner.execute(&insert, &[&id, &pad]).await.expect("a row");
        }
        admin.batch_execute("SELECT rowhouse.evict('acme')").await.expect("evicted");
        for id in [0, all / 2, all - 1] {
            assert_eq!(text(&owner, &format!("SELECT length(pad) FROM t WHERE id = {id}")).await, "7000");
        }
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, all.to_string());
        let ranked = "SELECT max(r) FROM (SELECT rank() OVER (ORDER BY id) AS r FROM t) AS ranked";
        assert_eq!(text(&owner, ranked).await, all.to_string());
    });
    let mut psql = server.client_tool("psql", "acme");
    let copied = check_output(psql.env("PGSSLMODE", "require").args(["-XAtc", "COPY t TO STDOUT"]));
    assert_eq!(copied.lines().count(), usize::try_from(all).expect("a number of rows"));
}

#[test]
fn a_server_without_io_uring_serves_and_both_kinds_read_each_others_data() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let mut server = start(&data, WITHOUT_RING);
    assert!(!has_ring(&server));
    run(async {
        server.create_tenant("acme").await;
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE TABLE t (id int PRIMARY KEY, pad text NOT NULL)").await.expect("a table");
    });
    works(&server, 0);
    // What it acknowledged is there for the one that comes after it, with a ring where there is one.
    server.kill();
    server = start(&data, &[]);
    works(&server, 1);
    server.kill();
    server = start(&data, WITHOUT_RING);
    works(&server, 2);
    assert!(server.terminate().success());
    check_output(Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(["verify", "--data"]).arg(&data));
}
