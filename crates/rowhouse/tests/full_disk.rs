//! A full disk: whoever writes is told 53100, reading goes on, and once there is space again so does writing, without a restart.
//!
//! Needs a small file system of its own, and so the privilege to mount one; without it the test says so and is passed over.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Server, run, text};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A file system in memory; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn of(size: &str) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(dir)),
            _ => {
                println!("passed over: a file system cannot be mounted here");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all space there is.
    fn fill(&self) {
        let ballast = std::fs::File::create(self.path().join("ballast")).expect("a file can be made");
        let mut left = &ballast;
        let piece = vec![1_u8; 64 << 10];
        while std::io::Write::write_all(&mut left, &piece).is_ok() {}
    }

    /// After [`SmallDisk::fill`], leaves so many bytes.
    fn give_back(&self, len: u64) {
        let ballast = std::fs::File::options().write(true).open(self.path().join("ballast"));
        let ballast = ballast.expect("the file is there");
        let taken = ballast.metadata().expect("it has a length").len();
        ballast.set_len(taken - len).expect("it can be cut");
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("ballast")).expect("the file can be removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

const FILL: &str = "INSERT INTO t (v) SELECT repeat('x', 1000) FROM generate_series(1, 4000)";

/// Writes until the server refuses to; how many rows there are then.
async fn write_until_refused(client: &Client) -> i64 {
    let begun = Instant::now();
    let mut rows = 0;
    loop {
        match client.batch_execute(FILL).await {
            Ok(()) => rows += 4000,
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
                return rows;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the disk does not get full: {rows} rows");
    }
}

#[test]
fn a_full_disk_refuses_writers_and_recovers_by_itself() {
    let Some(disk) = SmallDisk::of("420m") else { return };
    let mut server = Server::on(&disk.path().join("data"), &["--workers", "1"]);
    server.expect_warnings();
    run(async {
        server.create_tenant("acme").await;
        server.create_tenant("other").await;
        server.create_tenant("spare").await;
        let (writer, other) = (server.owner("acme").await, server.owner("other").await);
        for client in [&writer, &other] {
            client
                .batch_execute("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
                .await
                .expect("a table can be made");
        }
        for table in ["emptied", "dropped"] {
            let made =
                format!("CREATE TABLE {table} (id serial PRIMARY KEY); INSERT INTO {table} DEFAULT VALUES");
            writer.batch_execute(&made).await.expect("a table can be made");
        }
        other.batch_execute("INSERT INTO t (v) VALUES ('mine')").await.expect("a row");
        // Segments that are made ahead would hide the end of the disk for long.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        disk.fill();
        let rows = write_until_refused(&writer).await;
        let count = "SELECT count(*) FROM t";

        // Refused and rolled back, in the session that goes on; and so is the other tenant, of the same log.
        assert_eq!(text(&writer, count).await, rows.to_string());
        assert_eq!(text(&other, "SELECT v FROM t").await, "mine");
        let error = writer.batch_execute(FILL).await.expect_err("the disk is still full");
        assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
        writer
            .batch_execute("BEGIN; UPDATE t SET v = 'in doubt' WHERE id = 1; ROLLBACK")
            .await
            .expect("nothing to write");
        let newcomer = server.owner("acme").await;
        assert_eq!(text(&newcomer, count).await, rows.to_string());
        for made in
            ["CREATE TENANT third OWNER third PASSWORD 'x'", "CREATE TENANT third FROM TEMPLATE spare"]
        {
            let error = server.admin().await.batch_execute(made).await;
            assert_eq!(
                error.expect_err("there is no room for it").code(),
                Some(&SqlState::DISK_FULL),
                "{made}"
            );
        }

        // What makes room goes on; room for one is not room for another.
        let smaller = "TRUNCATE emptied RESTART IDENTITY; DROP TABLE dropped";
        for statement in ["DELETE FROM t WHERE id % 2 = 0", smaller] {
            let begun = Instant::now();
            while let Err(error) = writer.batch_execute(statement).await {
                // The log's next segment is made of what was set aside.
                assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
                assert!(begun.elapsed() < Duration::from_secs(60), "{statement} does not go on: {error:?}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        let rows = text(&writer, count).await.parse::<i64>().expect("a number");
        server.admin().await.batch_execute("DROP TENANT spare").await.expect("dropping goes on");
        let error = other.batch_execute("INSERT INTO t (v) VALUES ('no')").await.expect_err("it is full");
        assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");

        disk.free();
        let begun = Instant::now();
        while let Err(error) = writer.batch_execute(FILL).await {
            assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
            assert!(begun.elapsed() < Duration::from_secs(20), "writing does not go on: {error:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(text(&newcomer, count).await, (rows + 4000).to_string());
        other.batch_execute("INSERT INTO t (v) VALUES ('more')").await.expect("writing goes on");
        server.create_tenant("third").await;
        drop((writer, other, newcomer));
        let before = rows + 4000;
        disk.fill();
        // The end of a server with a full disk: in order as far as it can be, and nothing acknowledged is lost.
        assert!(server.terminate().success());
        disk.free();
        server.restart();
        let owner = server.owner("acme").await;
        assert_eq!(text(&owner, count).await, before.to_string());
        assert_eq!(text(&server.owner("other").await, count).await, "2");
    });
    assert!(server.terminate().success());
    let verify =
        Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(["verify", "--data"]).arg(server.data()).output();
    let verify = verify.expect("the binary can be run");
    assert!(verify.status.success(), "{}", common::said(&verify));
}

/// Its file would take all that is left before it is refused, and whoever writes meanwhile would find the volume full.
#[test]
fn a_tenant_that_does_not_fit_is_refused_before_its_file_is_made() {
    let Some(disk) = SmallDisk::of("420m") else { return };
    let mut server = Server::on(&disk.path().join("data"), &["--workers", "1"]);
    server.expect_warnings();
    run(async {
        server.create_tenant("acme").await;
        let writer = server.owner("acme").await;
        let table = "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)";
        writer.batch_execute(table).await.expect("a table can be made");
        for _ in 0..4 {
            writer.batch_execute(FILL).await.expect("there is room");
        }
        tokio::time::sleep(Duration::from_millis(2500)).await;
        disk.fill();
        disk.give_back(8 << 20);
        let copied = server.admin().await.batch_execute("CREATE TENANT copy FROM TEMPLATE acme").await;
        let error = copied.expect_err("there is no room for it");
        let said = error.as_db_error().expect("the server says so");
        assert_eq!(*said.code(), SqlState::DISK_FULL);
        assert!(said.message().contains("the tenant needs"), "{said:?}");
        writer.batch_execute("INSERT INTO t (v) VALUES ('more')").await.expect("others go on");
    });
}

/// What was set aside is given out by then, and the next segment of the log has no room.
#[test]
fn a_server_killed_on_a_full_disk_starts_there_and_room_can_be_made() {
    let Some(disk) = SmallDisk::of("420m") else { return };
    let mut server = Server::on(&disk.path().join("data"), &["--workers", "1"]);
    server.expect_warnings();
    run(async {
        server.create_tenant("acme").await;
        let writer = server.owner("acme").await;
        let table = "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)";
        writer.batch_execute(table).await.expect("a table can be made");
        tokio::time::sleep(Duration::from_millis(2500)).await;
        disk.fill();
        let rows = write_until_refused(&writer).await;
        server.kill();
        server.restart();
        let owner = server.owner("acme").await;
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, rows.to_string());
        let begun = Instant::now();
        while let Err(error) = owner.batch_execute("DELETE FROM t WHERE id % 10 = 0").await {
            assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
            assert!(begun.elapsed() < Duration::from_secs(60), "DELETE does not go on: {error:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(server.terminate().success());
}

/// On a full disk what the server prints may have no room, and that is when the server is needed most.
#[test]
fn a_server_that_cannot_print_serves() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let listening = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listening.local_addr().expect("an address").to_string();
    drop(listening);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it can be opened");
    let mut server = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["serve", "--no-admin", "--workers", "1", "--listen", &address, "--data"])
        .arg(dir.path().join("data"))
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary can be run");
    let begun = Instant::now();
    let mut is_open = false;
    while !is_open
        && begun.elapsed() < Duration::from_secs(120)
        && server.try_wait().expect("a child").is_none()
    {
        std::thread::sleep(Duration::from_millis(50));
        is_open = std::net::TcpStream::connect(&address).is_ok();
    }
    let killed = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    let status = server.wait().expect("the server can be waited for");
    assert!(is_open && killed.is_ok_and(|killed| killed.success()) && status.success(), "{status}");
}
