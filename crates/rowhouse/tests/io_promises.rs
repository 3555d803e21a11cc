//! I/O by wire: all of it is charged to somebody, and limits hold.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Server, check_output, run, text};
use tokio_postgres::Client;

/// Rows of about a page each.
async fn load(owner: &Client, rows: u32) {
    owner.batch_execute("CREATE TABLE t (id int PRIMARY KEY, pad text NOT NULL)").await.expect("a table");
    let insert = owner.prepare("INSERT INTO t VALUES ($1, $2)").await.expect("prepared");
    let pad = "x".repeat(7_000);
    for id in 0..rows {
        owner.execute(&insert, &[&(id as i32), &pad]).await.expect("a row");
    }
}

/// Bytes that the process had the kernel read from and write to block devices.
fn process_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("the process is there");
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel counts I/O");
        line.trim().parse::<u64>().expect("a number")
    };
    field("read_bytes:") + field("write_bytes:")
}

/// Bytes charged to all tenants, the server's own work included.
async fn charged_bytes(admin: &Client) -> u64 {
    let sum = "SELECT coalesce(sum(io_bytes), 0)::int8 FROM rowhouse.tenant_usage";
    admin.query_one(sum, &[]).await.expect("a row").get::<_, i64>(0).cast_unsigned()
}

/// What a server has read and written since some moment.
#[derive(Clone, Copy)]
struct Done {
    charged: u64,
    kernel: u64,
}

impl Done {
    /// Since the process began, once it rests.
    async fn so_far(server: &Server, admin: &Client) -> Done {
        // Rows are of whole intervals: what was done before them is on the ledger within two.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        Done { charged: charged_bytes(admin).await, kernel: process_bytes(server.pid()) }
    }

    fn since(self, before: Done) -> Done {
        Done { charged: self.charged - before.charged, kernel: self.kernel - before.kernel }
    }

    /// It is `least` or more, and both say the same to within 1 %.
    fn check(self, least: u64, what: &str) {
        let Done { charged, kernel } = self;
        assert!(kernel > least, "{kernel} bytes: {what}");
        let off = charged.abs_diff(kernel) as f64 / kernel as f64;
        assert!(off <= 0.01, "{charged} bytes charged, {kernel} by the kernel: {what}");
    }
}

/// The kernel counts pages of the binary that are read when their code first runs: in memory they are not read.
fn have_binary_in_memory() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_rowhouse")).expect("the binary can be read");
    assert!(!binary.is_empty());
}

#[test]
fn what_is_charged_is_what_the_kernel_counts() {
    have_binary_in_memory();
    let server = Server::start_with(&["--memory", "8MiB", "--workers", "2"]);
    run(async {
        for name in ["acme", "other"] {
            server.create_tenant(name).await;
        }
        let (acme, other) = (server.owner("acme").await, server.owner("other").await);
        load(&acme, 1).await;
        let admin = server.admin().await;
        let before = Done::so_far(&server, &admin).await;
        load(&other, 3_000).await;
        for id in (0..3_000).step_by(7) {
            other.query(&format!("SELECT pad FROM t WHERE id = {id}"), &[]).await.expect("a row");
        }
        let done = Done::so_far(&server, &admin).await.since(before);
        done.check(40 << 20, "rows, log, and reads of what did not fit");
    });
}

/// Each time it puts some 6 MB aside and reads them back.
const SORT: &str = "SELECT md5(string_agg(n::text, ',')) FROM \
     (SELECT n FROM (SELECT n, k, pad FROM s ORDER BY k, pad OFFSET 10) s LIMIT 20000) s";

#[test]
fn what_is_put_aside_backed_up_and_copied_is_charged_as_the_kernel_counts() {
    have_binary_in_memory();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start_with(&["--memory", "8MiB", "--workers", "2"]);
    let sorted = run(async {
        server.create_tenant("acme").await;
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        let rows = "CREATE TABLE s (n int PRIMARY KEY, k text, pad text);
             INSERT INTO s SELECT g, md5(g::text), repeat(md5((g * 7)::text), 4) FROM generate_series(1, 30000) g";
        owner.batch_execute(rows).await.expect("rows");
        let in_memory = text(&owner, SORT).await;
        let limit = "ALTER TENANT acme SET (work_memory = '1MB', work_memory_max = '3MB')";
        admin.batch_execute(limit).await.expect("altered");
        assert_eq!(text(&owner, SORT).await, in_memory);

        let before = Done::so_far(&server, &admin).await;
        for _ in 0..6 {
            assert_eq!(text(&owner, SORT).await, in_memory);
        }
        let sorts = Done::so_far(&server, &admin).await;
        sorts.since(before).check(30 << 20, "six sorts");

        let sorting = tokio::spawn(async move {
            for _ in 0..6 {
                text(&owner, SORT).await;
            }
        });
        let (url, to) = (server.url("admin", "rowhouse"), folder.path().join("acme.backup"));
        let backup = std::thread::spawn(move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
            check_output(
                command.args(["backup", "--url", &url, "--tenant", "acme", "--json", "--to"]).arg(to),
            )
        });
        admin.batch_execute("CREATE TENANT copied FROM TEMPLATE acme").await.expect("a copy");
        sorting.await.expect("sorts beside a backup and a copy");
        while !backup.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        backup.join().expect("a backup beside sorts");
        let all = Done::so_far(&server, &admin).await;
        all.since(sorts).check(30 << 20, "six sorts, a backup and a copy");
        in_memory
    });
    // What the start itself reads of the log comes from the page cache in part, and is charged whole.
    assert!(server.terminate().success());
    server.restart();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        let before = Done::so_far(&server, &admin).await;
        load(&owner, 3_000).await;
        for _ in 0..2 {
            assert_eq!(text(&owner, SORT).await, sorted);
        }
        Done::so_far(&server, &admin).await.since(before).check(50 << 20, "rows and sorts behind a start");
    });
}

#[test]
fn a_limit_of_reads_holds_and_can_be_lifted() {
    let server = Server::start_with(&["--workers", "1", "--read-ahead", "0"]);
    run(async {
        server.create_tenant("acme").await;
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        load(&owner, 200).await;
        let read_all = async || {
            // What is only in memory is written first.
            admin.batch_execute("SELECT rowhouse.evict('acme')").await.expect("evicted");
            let began = Instant::now();
            for id in 0..200 {
                owner.query(&format!("SELECT pad FROM t WHERE id = {id}"), &[]).await.expect("a row");
            }
            began.elapsed().as_secs_f64()
        };
        let free = read_all().await;
        admin.batch_execute("ALTER TENANT acme SET (iops_max = 100)").await.expect("altered");
        let limited = read_all().await;
        // A row is a leaf and an overflow page of its own, or more; 10 ms of the limit may be made up for.
        assert!(limited >= 1.9, "{limited} s for 200 rows at 100 I/Os a second, {free} s without a limit");
        admin.batch_execute("ALTER TENANT acme SET (iops_max = none)").await.expect("altered");
        // The disk may be busy with something else for a while.
        let mut lifted = f64::INFINITY;
        for _ in 0..20 {
            lifted = lifted.min(read_all().await);
            if lifted < limited / 2.0 {
                return;
            }
        }
        panic!("{lifted} s, {limited} s with the limit");
    });
}

#[test]
fn a_limit_of_log_writes_holds_up_its_own_tenants_commits_alone() {
    let server = Server::start_with(&["--workers", "1"]);
    run(async {
        for name in ["acme", "other"] {
            server.create_tenant(name).await;
        }
        let (admin, acme, other) =
            (server.admin().await, server.owner("acme").await, server.owner("other").await);
        for owner in [&acme, &other] {
            owner.batch_execute("CREATE TABLE n (i int PRIMARY KEY)").await.expect("a table");
        }
        admin.batch_execute("ALTER TENANT acme SET (iops_max = 20)").await.expect("altered");
        let began = Instant::now();
        for i in 0..30 {
            acme.batch_execute(&format!("INSERT INTO n VALUES ({i})")).await.expect("a row");
        }
        let limited = began.elapsed().as_secs_f64();
        assert!(limited >= 1.3, "{limited} s for 30 commits at 20 writes a second");
        let waited = "SELECT seconds FROM rowhouse.tenant_waits WHERE wait = 'own cap'";
        let waited: f64 = acme.query_one(waited, &[]).await.expect("a row").get(0);
        assert!(waited >= 1.0, "{waited} s of {limited} are waits for its own limit");
        // In blocks too, and another tenant of the same log goes on meanwhile.
        let commits = async {
            for i in 0..20 {
                acme.batch_execute(&format!("BEGIN; INSERT INTO n VALUES (1{i:03}); COMMIT"))
                    .await
                    .expect("a row");
            }
        };
        let beside = async {
            for i in 0..20 {
                other.batch_execute(&format!("INSERT INTO n VALUES ({i})")).await.expect("a row");
            }
            Instant::now()
        };
        let (_, beside) = tokio::join!(commits, beside);
        assert!(beside.elapsed() > Duration::from_millis(100), "the other tenant waited for nobody");
        for (owner, rows) in [(&acme, 50), (&other, 20)] {
            let row = owner.query_one("SELECT count(*)::int8 FROM n", &[]).await.expect("a row");
            assert_eq!(row.get::<_, i64>(0), rows, "each once");
        }
    });
}

#[test]
fn a_server_that_ends_waits_for_no_limit() {
    let mut server = Server::start_with(&["--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let owner = server.owner("acme").await;
        load(&owner, 400).await;
        server.admin().await.batch_execute("ALTER TENANT acme SET (iops_max = 1)").await.expect("altered");
    });
    // Its checkpoint is of 2.8 MB or more, some 45 I/Os; the harness waits for 30 s.
    assert!(server.terminate().success());
    server.restart();
    run(async {
        // Reading is not what this is about, and took longer than all else at one I/O a second.
        server.admin().await.batch_execute("ALTER TENANT acme SET (iops_max = none)").await.expect("altered");
        let row =
            server.owner("acme").await.query_one("SELECT count(*)::int8 FROM t", &[]).await.expect("a row");
        assert_eq!(row.get::<_, i64>(0), 400);
    });
}
