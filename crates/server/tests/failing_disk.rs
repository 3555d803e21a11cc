//! Disks that fail under a redo log or under a tenant's data file: nothing is acknowledged that is not durable, nobody is left
//! waiting, reading goes on, and so does writing once the disk does, without a restart. The next start has all that was
//! acknowledged.

mod support;

use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{ByteCount, Nanos, SqlState, TenantId};
use env::{Env, File, FileOps};
use support::{ADMIN_PASSWORD, Client, TestServer, eventually};

/// Linux's numbers of the errors.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The errors of reads, of writes and of syncs; 0 for none.
#[derive(Clone, Default)]
struct Faults {
    read: Arc<AtomicI32>,
    write: Arc<AtomicI32>,
    sync: Arc<AtomicI32>,
    /// Writes that succeed before the first that fails.
    writes_left: Arc<AtomicI32>,
    /// How long a write takes besides.
    write_ms: Arc<AtomicU64>,
    /// How long a sync does.
    sync_ms: Arc<AtomicU64>,
    /// Syncs under way.
    syncing: Arc<AtomicU64>,
    /// The most that there were at a time.
    syncing_most: Arc<AtomicU64>,
    /// Whoever makes the file longer panics: a checkpoint does it in its own turn.
    panics: Arc<AtomicBool>,
    /// How many did.
    panicked: Arc<AtomicU64>,
}

impl Faults {
    fn check(of: &AtomicI32) -> io::Result<()> {
        match of.load(Ordering::SeqCst) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn check_write(&self) -> io::Result<()> {
        let one_less = |left: i32| (left > 0).then(|| left - 1);
        match self.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => Ok(()),
            Err(_) => Faults::check(&self.write),
        }
    }
}

/// The machine's disk, but for log segments and one tenant's data file while an error is set.
#[derive(Clone, Default)]
struct FailingDisk {
    log: Faults,
    data: Faults,
    /// Of the other tenants' data files.
    others: Faults,
}

struct FailingFile {
    file: File,
    faults: Faults,
}

/// The first tenant that is made: the one whose data file fails.
fn failing_file() -> String {
    format!("{}.rowhouse", TenantId::FIRST_USER)
}

impl FailingDisk {
    fn env() -> (Env, FailingDisk) {
        let failing = FailingDisk::default();
        let faulty = failing.clone();
        let env = Env::real_on_epoll().opening(move |disk, path, mode, _| {
            let (file, faults) = (disk.open(path, mode, false)?, faulty.faults_of(path));
            Ok(File::new(Arc::new(FailingFile { file, faults })))
        });
        (env, failing)
    }

    fn faults_of(&self, path: &Path) -> Faults {
        match path.extension().and_then(|extension| extension.to_str()) {
            // A segment is opened before it has its name.
            Some("redo" | "new") => self.log.clone(),
            _ if path.ends_with(failing_file()) => self.data.clone(),
            Some("rowhouse") => self.others.clone(),
            _ => Faults::default(),
        }
    }

    fn fail_log(&self, errno: i32) {
        self.log.write.store(errno, Ordering::SeqCst);
    }
}

impl FileOps for FailingFile {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Faults::check(&self.faults.read)?;
        let left = usize::try_from(self.file.len()?.saturating_sub(offset)).map_err(io::Error::other)?;
        let len = left.min(buf.len());
        self.file.read_at(&mut buf[..len], offset)?;
        Ok(len)
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.faults.check_write()?;
        std::thread::sleep(Duration::from_millis(self.faults.write_ms.load(Ordering::SeqCst)));
        self.file.write_at(buf, offset).map(|()| buf.len())
    }
    fn sync_data(&self) -> io::Result<()> {
        let Faults { sync, sync_ms, syncing, syncing_most, .. } = &self.faults;
        Faults::check(sync)?;
        syncing_most.fetch_max(syncing.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(sync_ms.load(Ordering::SeqCst)));
        let synced = self.file.sync_data_blocking();
        syncing.fetch_sub(1, Ordering::SeqCst);
        synced
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let panics = self.faults.panics.load(Ordering::SeqCst);
        self.faults.panicked.fetch_add(u64::from(panics), Ordering::SeqCst);
        assert!(!panics, "the test asked for a panic");
        self.file.allocate(offset, len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn is_direct(&self) -> bool {
        false
    }
}

fn one(value: &str) -> Vec<Vec<Option<String>>> {
    vec![vec![Some(value.to_owned())]]
}

/// A session is told that what it did or read is not durable, and ends.
fn ends_with(client: &mut Client, sql: &str, state: SqlState) {
    let answer = client.query(sql);
    assert_eq!((answer.tags, answer.rows), (Vec::new(), Vec::new()), "{sql} was answered");
    let error = answer.error.unwrap_or_else(|| panic!("{sql} did not fail"));
    assert_eq!((error.state, error.severity.as_str()), (state, "FATAL"), "{sql}: {}", error.message);
    assert_eq!(client.message(), None, "the session ends");
}

fn a_failed_flush_is_never_acknowledged(errno: i32, state: SqlState) {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.workers = Some(1));
    for tenant in ["acme", "other"] {
        server.create_tenant(tenant);
        let mut owner = server.connect(tenant, tenant, "pw").unwrap();
        owner.ok("CREATE TABLE t (id int PRIMARY KEY, v int)");
        owner.ok("CREATE TABLE untouched (v text)");
        owner.ok("INSERT INTO untouched VALUES ('kept')");
    }
    let connect = |tenant: &str| server.connect(tenant, tenant, "pw").unwrap();
    let (mut writer, mut reader, mut other) = (connect("acme"), connect("acme"), connect("other"));
    let (mut late_writer, mut idle) = (connect("acme"), connect("acme"));
    for id in 0..100 {
        writer.ok(&format!("INSERT INTO t VALUES ({id}, 0)"));
    }
    idle.ok("BEGIN");
    idle.ok("UPDATE t SET v = 7 WHERE id = 7");

    disk.fail_log(errno);
    ends_with(&mut writer, "UPDATE t SET v = 1 WHERE id = 1", state);
    // Reading goes on, but for what nobody may know of.
    assert_eq!(reader.ok("SELECT v FROM t WHERE id = 2"), one("0"));
    assert_eq!(reader.ok("SELECT v FROM untouched"), one("kept"));
    assert_eq!(other.ok("SELECT v FROM untouched"), one("kept"));
    assert_eq!(connect("other").ok("SELECT v FROM untouched"), one("kept"));
    ends_with(&mut reader, "SELECT v FROM t WHERE id = 1", state);
    for refused in [&mut late_writer, &mut other] {
        assert_eq!(refused.fails("INSERT INTO t VALUES (1000, 0)"), state);
        assert_eq!(refused.ok("SELECT v FROM untouched"), one("kept"));
    }
    assert_eq!(idle.fails("COMMIT"), state);
    assert_eq!(idle.ok("SELECT v FROM t WHERE id = 7"), one("0"), "it was rolled back");

    // The disk is back: sessions that may have seen what is lost end, and writing goes on.
    disk.fail_log(0);
    until_written(&server, "acme", "INSERT INTO t VALUES (1000, 0)", &[state, SqlState::CRASH_SHUTDOWN]);
    ends_with(&mut idle, "SELECT v FROM untouched", SqlState::CRASH_SHUTDOWN);
    let lost = "SELECT count(*) FROM t WHERE v <> 0";
    assert_eq!(connect("acme").ok(lost), one("0"), "nothing is there that was not acknowledged");
    connect("other").ok("INSERT INTO t VALUES (1000, 0)");
    for id in 1001..1100 {
        connect("acme").ok(&format!("INSERT INTO t VALUES ({id}, 0)"));
    }

    let server = server.restart();
    let mut owner = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(owner.ok("SELECT count(*) FROM t"), one("200"));
    assert_eq!(owner.ok(lost), one("0"));
    owner.ok("INSERT INTO t VALUES (2000, 0)");
    server.connect("other", "other", "pw").unwrap().ok("INSERT INTO t VALUES (2000, 0)");
}

#[test]
fn a_commit_that_becomes_durable_while_the_server_ends_is_told() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |_| {});
    server.create_tenant("acme");
    let mut owner = server.connect("acme", "acme", "pw").unwrap();
    owner.ok("CREATE TABLE t (id int PRIMARY KEY)");
    disk.log.write_ms.store(500, Ordering::SeqCst);
    owner.start_query("INSERT INTO t VALUES (1)");
    std::thread::sleep(Duration::from_millis(100));
    let server = server.restart();
    assert_eq!(owner.answer().tags, ["INSERT 0 1"]);
    assert_eq!(owner.answer().error.expect("told").state, SqlState::ADMIN_SHUTDOWN);
    disk.log.write_ms.store(0, Ordering::SeqCst);
    let mut again = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(again.ok("SELECT count(*) FROM t"), one("1"));
}

/// Thousands of tenants, one after the other, would take longer than a supervisor waits for the end.
#[test]
fn tenants_have_their_last_checkpoints_side_by_side() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.workers = Some(1));
    for tenant in ["a", "b", "c", "d", "e"] {
        server.create_tenant(tenant);
        server.connect(tenant, tenant, "pw").unwrap().ok("CREATE TABLE t (id int PRIMARY KEY)");
    }
    disk.others.sync_ms.store(50, Ordering::SeqCst);
    disk.others.syncing_most.store(0, Ordering::SeqCst);
    drop(server);
    let most = disk.others.syncing_most.load(Ordering::SeqCst);
    assert!(most >= 2, "{most} at a time");
}

#[test]
fn others_have_their_turns_while_a_file_is_made() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.workers = Some(1));
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    let mut admin = server.admin("rowhouse");
    disk.others.sync_ms.store(3000, Ordering::SeqCst);
    admin.start_query("CREATE TENANT other");
    eventually("its file is being made", || disk.others.syncing.load(Ordering::SeqCst) == 1);
    let begun = Instant::now();
    assert!(acme.is_alive());
    assert!(begun.elapsed() < Duration::from_secs(2), "it waited for the sync");
    disk.others.sync_ms.store(0, Ordering::SeqCst);
    assert_eq!(admin.answer().error, None);
}

/// Repeats a statement, in a new session each time, until it succeeds; before that it may fail with `states` only.
fn until_written(server: &TestServer, tenant: &str, sql: &str, states: &[SqlState]) {
    let begun = Instant::now();
    loop {
        let answer = server.connect(tenant, tenant, "pw").unwrap().query(sql);
        let Some(error) = answer.error else { return };
        assert!(states.contains(&error.state), "{sql}: {} {}", error.state, error.message);
        assert!(begun.elapsed() < Duration::from_secs(120), "{sql}: {}", error.message);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_data_file_that_cannot_be_written_stops_its_own_tenants_writes_until_it_can() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| {
        config.workers = Some(1);
        // The disk of one file is full, which no volume is.
        config.space_reserve = ByteCount(0);
        // Checkpoints as often as the server looks.
        config.checkpoint_interval = Nanos(1);
    });
    for tenant in ["acme", "other"] {
        server.create_tenant(tenant);
        server.connect(tenant, tenant, "pw").unwrap().ok("CREATE TABLE t (id int PRIMARY KEY)");
    }
    let connect = |tenant: &str| server.connect(tenant, tenant, "pw").unwrap();
    let mut other = connect("other");
    let mut id = 0;
    for (fault, state) in [
        (&disk.data.write, SqlState::IO_ERROR),
        (&disk.data.sync, SqlState::IO_ERROR),
        (&disk.data.write, SqlState::DISK_FULL),
    ] {
        let errno = if state == SqlState::DISK_FULL { ENOSPC } else { EIO };
        fault.store(errno, Ordering::SeqCst);
        let begun = Instant::now();
        let mut acme = connect("acme");
        // What is acknowledged is in the log; from the failed checkpoint on nothing is taken.
        let refusal = loop {
            let answer = acme.query(&format!("INSERT INTO t VALUES ({id})"));
            match answer.error {
                None => id += 1,
                Some(error) => break error,
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "writes are never refused");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!((refusal.state, refusal.severity.as_str()), (state, "ERROR"), "{}", refusal.message);
        assert!(refusal.message.contains(&failing_file()), "{}", refusal.message);
        assert_eq!(acme.ok("SELECT count(*) FROM t"), one(&id.to_string()), "reading goes on");
        other.ok(&format!("INSERT INTO t VALUES ({id})"));
        if state == SqlState::DISK_FULL {
            acme.ok("DELETE FROM t WHERE id = 0");
            acme.fails("INSERT INTO t VALUES (-1)");
        } else {
            acme.fails("DELETE FROM t WHERE id = 0");
        }
        fault.store(0, Ordering::SeqCst);
        let insert = format!("INSERT INTO t VALUES ({id})");
        until_written(&server, "acme", &insert, &[state, SqlState::CRASH_SHUTDOWN]);
        id += 1;
    }
    let server = server.restart();
    let count = (id - 1).to_string();
    assert_eq!(server.connect("acme", "acme", "pw").unwrap().ok("SELECT count(*) FROM t"), one(&count));
    assert_eq!(server.connect("other", "other", "pw").unwrap().ok("SELECT count(*) FROM t"), one("3"));
}

/// A server of one worker with checkpoints as often as it looks, and a session of its tenant `acme`.
fn with_checkpoints(env: &Env) -> (TestServer, Client) {
    let server = TestServer::in_env(env, |config| {
        config.workers = Some(1);
        config.checkpoint_interval = Nanos(1);
    });
    server.create_tenant("acme");
    let acme = server.connect("acme", "acme", "pw").unwrap();
    (server, acme)
}

/// Its redo would be kept, and the log of all with it.
#[test]
fn a_tenant_whose_catalog_cannot_be_read_for_a_checkpoint_takes_no_writes_until_it_can() {
    let (env, disk) = FailingDisk::env();
    let (server, mut acme) = with_checkpoints(&env);
    acme.ok("CREATE TABLE t (id int PRIMARY KEY)");
    acme.ok("INSERT INTO t VALUES (0)");
    let mut admin = server.admin("rowhouse");
    let mut id = 1;
    let begun = Instant::now();
    let refusal = loop {
        // Of what is read then, the catalog's page is what a checkpoint needs, and an INSERT does not.
        admin.ok("SELECT rowhouse.evict('acme')");
        acme.ok(&format!("INSERT INTO t VALUES ({id})"));
        id += 1;
        disk.data.read.store(EIO, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2500));
        let answer = acme.query(&format!("INSERT INTO t VALUES ({id})"));
        if let Some(error) = answer.error {
            break error;
        }
        id += 1;
        disk.data.read.store(0, Ordering::SeqCst);
        assert!(begun.elapsed() < Duration::from_secs(60), "writes are never refused");
    };
    assert_eq!(
        (refusal.state, refusal.severity.as_str()),
        (SqlState::IO_ERROR, "ERROR"),
        "{}",
        refusal.message
    );
    assert!(refusal.message.contains(&failing_file()), "{}", refusal.message);
    assert_eq!(acme.ok("SELECT count(*) FROM t"), one(&id.to_string()), "reading goes on");
    disk.data.read.store(0, Ordering::SeqCst);
    until_written(&server, "acme", &format!("INSERT INTO t VALUES ({id})"), &[SqlState::IO_ERROR]);
    let server = server.restart();
    let count = (id + 1).to_string();
    assert_eq!(server.connect("acme", "acme", "pw").unwrap().ok("SELECT count(*) FROM t"), one(&count));
}

/// Its pages have left memory since it read them.
#[test]
fn a_long_transaction_whose_changes_need_a_page_that_cannot_be_read_fails_and_its_session_goes_on() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.workers = Some(1));
    server.create_tenant("acme");
    let mut acme = server.connect("acme", "acme", "pw").unwrap();
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    acme.ok("INSERT INTO t SELECT n, 'old' FROM generate_series(1, 2000) AS g(n)");
    acme.ok("BEGIN");
    // More than it keeps in memory: the next statement begins with that.
    acme.ok("UPDATE t SET v = repeat('v', 1000)");
    server.admin("rowhouse").ok("SELECT rowhouse.evict('acme')");
    disk.data.read.store(EIO, Ordering::SeqCst);
    let error = acme.query("SELECT 1").error.expect("what it changed cannot be put in its place");
    assert_eq!((error.state, error.severity.as_str()), (SqlState::IO_ERROR, "ERROR"), "{}", error.message);
    assert!(error.message.contains(&failing_file()), "{}", error.message);
    disk.data.read.store(0, Ordering::SeqCst);
    acme.ok("ROLLBACK");
    assert_eq!(acme.ok("SELECT count(*) FROM t WHERE v = 'old'"), one("2000"));
}

/// Its redo would be kept for ever, and the log of all with it.
#[test]
fn a_tenant_whose_checkpoint_panicked_is_reopened_and_has_checkpoints_again() {
    let (env, disk) = FailingDisk::env();
    let (server, mut acme) = with_checkpoints(&env);
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    let insert = |id: i32| format!("INSERT INTO t VALUES ({id}, '{}')", "v".repeat(5000));
    disk.data.panics.store(true, Ordering::SeqCst);
    let (begun, mut id) = (Instant::now(), 0);
    let refusal = loop {
        match acme.query(&insert(id)).error {
            None => id += 1,
            Some(error) => break error,
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "writes are never refused");
        std::thread::sleep(Duration::from_millis(10));
    };
    let states = [SqlState::INTERNAL_ERROR, SqlState::CRASH_SHUTDOWN];
    assert!(states.contains(&refusal.state), "{}", refusal.message);
    disk.data.panics.store(false, Ordering::SeqCst);
    until_written(&server, "acme", &insert(id), &states);
    let count = one(&(id + 1).to_string());
    assert_eq!(server.connect("acme", "acme", "pw").unwrap().ok("SELECT count(*) FROM t"), count);
    let server = server.restart();
    assert_eq!(server.connect("acme", "acme", "pw").unwrap().ok("SELECT count(*) FROM t"), count);
    let drops = || server.admin("rowhouse").query("DROP TENANT acme").error.is_none();
    support::eventually("the tenant goes", drops);
}

/// Each time its sessions end, and whoever comes next has all replayed that the log has of it.
#[test]
fn a_checkpoint_that_always_panics_has_its_tenant_reopened_less_and_less_often() {
    let (env, disk) = FailingDisk::env();
    let (server, mut acme) = with_checkpoints(&env);
    acme.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    let insert = |id: i32| format!("INSERT INTO t VALUES ({id}, '{}')", "v".repeat(5000));
    let states = [SqlState::INTERNAL_ERROR, SqlState::IO_ERROR, SqlState::CRASH_SHUTDOWN];
    let attempt = |id: i32| match server.connect("acme", "acme", "pw") {
        Ok(mut acme) => acme.query(&insert(id)).error,
        Err(refused) => Some(refused),
    };
    disk.data.panics.store(true, Ordering::SeqCst);
    let (begun, mut id) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(20) {
        match attempt(id) {
            None => id += 1,
            Some(error) => assert!(states.contains(&error.state), "{}", error.message),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Without pauses there is one every other second.
    let panicked = disk.data.panicked.load(Ordering::SeqCst);
    assert!((2..=7).contains(&panicked), "{panicked} checkpoints");
    assert!(id > 0, "one was taken before the first");
    assert!(attempt(id).is_some(), "it fills the log");
    disk.data.panics.store(false, Ordering::SeqCst);
    until_written(&server, "acme", &insert(id), &states);
    let count = one(&(id + 1).to_string());
    assert_eq!(server.connect("acme", "acme", "pw").unwrap().ok("SELECT count(*) FROM t"), count);
}

#[test]
fn after_a_disks_error_nothing_is_acknowledged_and_reading_goes_on() {
    a_failed_flush_is_never_acknowledged(EIO, SqlState::IO_ERROR);
}

#[test]
fn a_volume_that_breaks_its_promise_of_space_is_a_full_disk() {
    a_failed_flush_is_never_acknowledged(ENOSPC, SqlState::DISK_FULL);
}

#[test]
fn a_drop_that_fails_leaves_the_tenants_runaway_rules() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.workers = Some(1));
    server.create_tenant("acme");
    server.admin("rowhouse").ok("CREATE RUNAWAY RULE big FOR TENANT acme AS (rows = 1000000)");
    let as_admin = |sql: &str| {
        let begun = Instant::now();
        loop {
            let answer =
                server.connect("rowhouse", "admin", ADMIN_PASSWORD).map(|mut admin| admin.query(sql));
            match answer {
                Ok(answer) if answer.error.is_none() => return,
                _ => assert!(begun.elapsed() < Duration::from_secs(120), "{sql}: the log does not recover"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for writes in 0.. {
        let mut admin = server.admin("rowhouse");
        disk.log.writes_left.store(writes, Ordering::SeqCst);
        disk.fail_log(EIO);
        let dropped = admin.query("DROP TENANT acme").error.is_none();
        disk.fail_log(0);
        as_admin("ALTER SERVER RESET (policy)");
        let mut admin = server.admin("rowhouse");
        assert_eq!(admin.shown("SHOW TENANTS").names().contains(&"acme"), !dropped);
        let rules: &[&str] = if dropped { &[] } else { &["big"] };
        assert_eq!(admin.shown("SHOW RUNAWAY RULES").names(), rules, "after {writes} writes");
        if dropped {
            assert!(writes > 0);
            break;
        }
    }
    let server = server.restart();
    assert!(server.admin("rowhouse").shown("SHOW RUNAWAY RULES").names().is_empty());
}

/// The log has lost positions, and nobody has appended to it since.
#[test]
fn a_tenant_is_reopened_after_its_log_and_its_file_failed_though_nobody_writes() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| {
        config.workers = Some(1);
        config.checkpoint_interval = Nanos::from_secs(4);
    });
    server.create_tenant("acme");
    let connect = || server.connect("acme", "acme", "pw");
    let mut acme = connect().unwrap();
    acme.ok("CREATE TABLE t (id int PRIMARY KEY)");
    acme.ok("INSERT INTO t VALUES (1)");
    disk.fail_log(EIO);
    ends_with(&mut acme, "INSERT INTO t VALUES (2)", SqlState::IO_ERROR);
    disk.fail_log(0);
    let ids = "SELECT id FROM t";
    let reads_again = || {
        let begun = Instant::now();
        loop {
            let answer = connect().map(|mut acme| (acme.query(ids), acme));
            match answer {
                Ok((answer, acme)) if answer.error.is_none() && answer.rows == one("1") => return acme,
                _ => assert!(begun.elapsed() < Duration::from_secs(60), "it stays closed"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // What it replayed is to be written to its file.
    let mut acme = reads_again();
    disk.data.sync.store(EIO, Ordering::SeqCst);
    std::thread::sleep(Duration::from_secs(8));
    disk.data.sync.store(0, Ordering::SeqCst);
    let begun = Instant::now();
    while acme.query(ids).error.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never reopened from its root");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut acme = reads_again();
    acme.ok("INSERT INTO t VALUES (2)");
}

#[test]
fn who_waits_for_a_tenant_that_is_opened_for_long_is_told_so() {
    let (env, disk) = FailingDisk::env();
    let server = TestServer::in_env(&env, |config| config.authentication_timeout = Nanos::from_secs(3));
    server.create_tenant("acme");
    let server = server.restart();
    disk.data.write_ms.store(5_000, Ordering::SeqCst);
    let refused = server.connect("acme", "acme", "pw").err().expect("it is being opened");
    assert_eq!((refused.state, refused.severity.as_str()), (SqlState::CANNOT_CONNECT_NOW, "FATAL"));
    disk.data.write_ms.store(0, Ordering::SeqCst);
    let begun = Instant::now();
    while server.connect("acme", "acme", "pw").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never opened");
    }
}
