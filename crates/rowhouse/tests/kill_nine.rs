//! `kill -9` under load, while tenants move between workers: what was acknowledged is there after the restart, whole and once; what was not is there whole or
//! not at all. `bench/kill_nine.py` does many rounds of it under TPC-C.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Server, run, text};

const CLIENTS: i32 = 4;

/// Kills of a run; `ROWHOUSE_KILL_ROUNDS` asks for more.
fn rounds() -> u32 {
    std::env::var("ROWHOUSE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// One client of one tenant: each of its transactions adds a numbered entry and moves that number onto two accounts. Gives
/// the number of the last one acknowledged, and stops at the first error.
async fn post(url: String, client: i32, first: i64, posted: Arc<AtomicU64>) -> i64 {
    let mut acknowledged = first - 1;
    let Ok(mut connection) = common::connect(&url).await else { return acknowledged };
    loop {
        let number = acknowledged + 1;
        let outcome = async {
            let transaction = connection.transaction().await?;
            transaction
                .execute("INSERT INTO entry VALUES ($1, $2, $3)", &[&client, &number, &"x".repeat(100)])
                .await?;
            transaction
                .execute("UPDATE account SET balance = balance + $1 WHERE id = $2", &[&number, &client])
                .await?;
            transaction
                .execute(
                    "UPDATE account SET balance = balance - $1 WHERE id = $2",
                    &[&number, &(client + 100)],
                )
                .await?;
            transaction.commit().await
        };
        if outcome.await.is_err() {
            return acknowledged;
        }
        acknowledged = number;
        posted.fetch_add(1, Ordering::Relaxed);
    }
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

/// Checks one tenant's ledger against what its clients were told; gives the next number of each client.
async fn audit(server: &Server, tenant: &str, acknowledged: &[i64]) -> Vec<i64> {
    let connection = server.owner(tenant).await;
    let mut next = Vec::new();
    for (client, &acknowledged) in acknowledged.iter().enumerate() {
        let row = connection
            .query_one("SELECT count(*), coalesce(max(number), 0), coalesce(sum(number), 0)::bigint FROM entry WHERE client = $1", &[&(client as i32)])
            .await
            .expect("the ledger can be read");
        let (count, last, sum) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2));
        // The commit under way at the kill may be there too, though nobody was told.
        assert!(
            last == acknowledged || last == acknowledged + 1,
            "{tenant}/{client}: {acknowledged} was acknowledged, {last} is there"
        );
        assert_eq!(count, last, "{tenant}/{client}: no entry is missing or double");
        assert_eq!(sum, last * (last + 1) / 2);
        for (id, sign) in [(client as i32, 1), (client as i32 + 100, -1)] {
            let row = connection
                .query_one("SELECT balance FROM account WHERE id = $1", &[&id])
                .await
                .expect("an account");
            assert_eq!(
                row.get::<_, i64>(0),
                sign * sum,
                "{tenant}/{client}: entries and accounts move together"
            );
        }
        next.push(last + 1);
    }
    // The index agrees with the table.
    let by_index = text(&connection, "SELECT count(*) FROM entry WHERE number >= 0").await;
    assert_eq!(by_index, text(&connection, "SELECT count(*) FROM entry").await);
    next
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
            owner
                .batch_execute(
                    "CREATE TABLE entry (client int, number bigint, note text, PRIMARY KEY (client, number));
                     CREATE INDEX entry_number ON entry (number);
                     CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)",
                )
                .await
                .expect("tables can be made");
            for client in 0..CLIENTS {
                let accounts = format!("INSERT INTO account VALUES ({client}, 0), ({}, 0)", client + 100);
                owner.batch_execute(&accounts).await.expect("accounts can be made");
            }
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
                std::thread::spawn(move || run(post(url, client, first, posted)))
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
                next[at] = audit(&server, tenant, acknowledged).await;
            }
        });
    }
    assert!(moves > 100, "only {moves} moves");
    assert!(server.terminate().success());
    let (ended_well, said) = verify(&["--data", &server.data().display().to_string()]);
    assert!(ended_well, "{said}");
}

/// Runs `rowhouse verify` with these options and gives whether it ended well and all it said.
fn verify(options: &[&str]) -> (bool, String) {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_rowhouse")).arg("verify").args(options).output();
    let output = output.expect("the binary can be run");
    (output.status.success(), common::said(&output))
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
    let (ended_well, said) = verify(&["--data", &data_text]);
    assert!(!ended_well && said.contains("give it with --log-dir"), "{said}");

    let (ended_well, said) = verify(&["--data", &data_text, "--log-dir", &logs_text]);
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
    let (ended_well, said) = verify(&["--data", &data_text]);
    assert!(!ended_well && said.contains("was used with last"), "{said}");

    server.restart();
    run(async {
        let sums = "SELECT count(*) || ' ' || sum(v) FROM t";
        assert_eq!(text(&server.owner("acme").await, sums).await, "101 338350");
    });
    assert!(server.terminate().success());
    let (ended_well, said) = verify(&["--data", &data_text, "--log-dir", &logs_text]);
    assert!(ended_well, "{said}");
}
