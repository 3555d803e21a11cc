//! `kill -9` under load, while tenants move between workers: what was acknowledged is there after the restart, whole and once; what was not is there whole or
//! not at all. `bench/kill_nine.py` does many rounds of it under TPC-C.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::ledger::{self, CLIENTS};
use common::{Server, run, text};

/// Kills of a run; `ROWHOUSE_KILL_ROUNDS` asks for more.
fn rounds() -> u32 {
    std::env::var("ROWHOUSE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Moves the tenants from worker to worker and back until the server is gone; how often.
async fn move_about(url: String, tenants: [&str; 2]) -> u64 {
    let Ok(connection) = common::connect(&url).await else { return 0 };
    for count in 0.. {
        let (tenant, worker) = (tenants[count as usize % 2], count / 2 % 2);
        if connection.batch_execute(&format!("ALTER TENANT {tenant} SET WORKER {worker}")).await.is_err() {
            return count;
        }
    }
    unreachable!("it goes on until it fails")
}

#[test]
fn acknowledged_commits_survive_a_kill_under_load() {
    let tenants = ["acme", "other"];
    let mut server = Server::start_with(&["--workers", "2"]);
    server.expect_warnings();
    run(async {
        for tenant in tenants {
            server.create_tenant(tenant).await;
            let owner = server.owner(tenant).await;
            ledger::make(&owner, CLIENTS).await;
        }
    });
    let mut moves = 0;
    let mut next = vec![vec![1_i64; CLIENTS as usize]; tenants.len()];
    for round in 0..rounds() {
        let posted = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = tenants
            .iter()
            .zip(&next)
            .flat_map(|(tenant, firsts)| {
                let url = server.url(tenant, tenant);
                firsts.iter().enumerate().map(move |(client, &first)| (url.clone(), client as i32, first))
            })
            .map(|(url, client, first)| {
                let posted = Arc::clone(&posted);
                let told = move |_: i64| {
                    posted.fetch_add(1, Ordering::Relaxed);
                };
                std::thread::spawn(move || run(ledger::post(url, client, first, told)))
            })
            .collect();
        let admin = server.url("admin", "rowhouse");
        let mover = std::thread::spawn(move || run(move_about(admin, tenants)));
        // Well under way, and each round at another moment.
        let begun = Instant::now();
        while posted.load(Ordering::Relaxed) < 200 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(u64::from(round) * 137 % 500));
        server.kill();
        let acknowledged: Vec<i64> =
            threads.into_iter().map(|thread| thread.join().expect("a client ends")).collect();
        moves += mover.join().expect("the administrator ends");
        assert!(
            posted.load(Ordering::Relaxed) > 20,
            "only {} commits in a round",
            posted.load(Ordering::Relaxed)
        );
        server.restart();
        run(async {
            for (at, tenant) in tenants.iter().enumerate() {
                let acknowledged = &acknowledged[at * CLIENTS as usize..][..CLIENTS as usize];
                let audited = ledger::audit(&server, tenant, acknowledged).await;
                next[at] = audited.unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        });
    }
    assert!(moves > 100, "only {moves} moves");
    assert!(server.terminate().success());
    let (ended_well, said) = common::verify(&["--data", &server.data().display().to_string()]);
    assert!(ended_well, "{said}");
}

#[test]
fn logs_that_lie_elsewhere_are_asked_for_after_a_kill() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (data, logs) = (dir.path().join("data"), dir.path().join("logs"));
    let (data_text, logs_text) = (data.display().to_string(), logs.display().to_string());
    let mut server = Server::on(&data, &["--log-dir", &logs_text]);
    server.expect_warnings();
    run(async {
        server.create_tenant("acme").await;
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int)").await.expect("a table");
        owner
            .batch_execute("INSERT INTO t SELECT n, n * n FROM generate_series(1, 100) AS s(n)")
            .await
            .expect("rows");
    });
    server.kill();
    let inside = data.join("log");
    let segments = std::fs::read_dir(&logs).expect("the logs' directory can be read").count();
    assert!(segments > 0 && !inside.exists(), "{segments} segments in {logs_text}");

    // Without them neither a server nor a check goes on, and nothing is made where they might be.
    let missing = format!("the directory of the redo logs, {}, is not there", inside.display());
    let refused = Server::launch(&data, &[]).err().expect("a server without its logs");
    assert!(refused.contains(&missing) && refused.contains("--log-dir"), "{refused}");
    assert!(!inside.exists());
    let (ended_well, said) = common::verify(&["--data", &data_text]);
    assert!(!ended_well && said.contains("give it with --log-dir"), "{said}");

    let (ended_well, said) = common::verify(&["--data", &data_text, "--log-dir", &logs_text]);
    assert!(ended_well, "{said}");

    // A copy of them is not them any more once they were used.
    std::fs::create_dir(&inside).expect("a folder can be made");
    for entry in std::fs::read_dir(&logs).expect("the logs' directory can be read") {
        let entry = entry.expect("an entry can be read");
        std::fs::copy(entry.path(), inside.join(entry.file_name())).expect("a file can be copied");
    }
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        owner.batch_execute("INSERT INTO t VALUES (101, 0)").await.expect("a row");
    });
    server.kill();
    let refused = Server::launch(&data, &[]).err().expect("a server with other logs");
    assert!(refused.contains("was used with last") && refused.contains("--log-dir"), "{refused}");
    let (ended_well, said) = common::verify(&["--data", &data_text]);
    assert!(!ended_well && said.contains("was used with last"), "{said}");

    server.restart();
    run(async {
        let sums = "SELECT count(*) || ' ' || sum(v) FROM t";
        assert_eq!(text(&server.owner("acme").await, sums).await, "101 338350");
    });
    assert!(server.terminate().success());
    let (ended_well, said) = common::verify(&["--data", &data_text, "--log-dir", &logs_text]);
    assert!(ended_well, "{said}");
}
