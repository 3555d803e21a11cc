//! A data directory whose own file, log, superblocks or catalogue of tenants is damaged: the server says which file and where
//! in it, serves whom it can and shows no wrong rows. Damaged pages of a tenant are in `damage`.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::damage::{LOG_BLOCK, SLOT, file_with, flip, position, read, refusal, write};
use common::{Server, run, said};
use tokio_postgres::error::SqlState;

fn verify(data: &Path) -> Output {
    let mut verify = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    verify.args(["verify", "--data"]).arg(data).output().expect("the binary can be run")
}

/// The server does not start, `rowhouse verify` finds it too, and both say all of `words`.
#[track_caller]
fn assert_refused(data: &Path, words: &[&str]) {
    let refused = refusal(data);
    assert!(words.iter().all(|word| refused.contains(word)), "{words:?}: {refused}");
    assert!(refused.ends_with("exit status: 1") && !refused.contains("panicked"), "{refused}");
    let verified = verify(data);
    let verdict = said(&verified);
    assert!(words.iter().all(|word| verdict.contains(word)), "{words:?}: {verdict}");
    assert_eq!(verified.status.code(), Some(1), "{verdict}");
}

/// Tenants `acme` and `other` with forty rows each, a commit each.
fn server_with_rows() -> Server {
    let server = Server::start_with(&["--workers", "1"]);
    run(async {
        for tenant in ["acme", "other"] {
            server.create_tenant(tenant).await;
            let client = server.owner(tenant).await;
            client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await.expect("a table");
            for id in 1..=40 {
                let insert = format!("INSERT INTO t VALUES ({id}, '{tenant} needle {id}')");
                client.batch_execute(&insert).await.expect("a row");
            }
        }
    });
    server
}

/// How many of a tenant's rows are as they were written, or the SQLSTATE and words with which it refuses them.
async fn rows(server: &Server, tenant: &str) -> Result<String, (SqlState, String)> {
    let asked = async {
        let client = server.connect_as(tenant, tenant).await?;
        let rows = format!("SELECT count(*) FROM t WHERE v = '{tenant} needle ' || id");
        client.query_one(&rows, &[]).await
    };
    match asked.await {
        Ok(row) => Ok(row.get::<_, i64>(0).to_string()),
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("not the server's: {error}"));
            Err((error.code().clone(), error.message().to_owned()))
        }
    }
}

async fn assert_rows(server: &Server, tenant: &str) {
    assert_eq!(rows(server, tenant).await, Ok("40".to_owned()), "{tenant}");
}

/// The segment in use, and where its groups begin.
fn segment_in_use(data: &Path) -> (PathBuf, Vec<usize>) {
    let folder = std::fs::read_dir(data.join("log")).expect("there is a log");
    let segments = folder.map(|entry| entry.expect("an entry can be read").path());
    let with_groups = segments.map(|path| {
        let groups = read(&path).chunks(LOG_BLOCK).enumerate().fold(Vec::new(), |mut groups, (at, block)| {
            if block.starts_with(b"RHgr") {
                groups.push(at * LOG_BLOCK);
            }
            groups
        });
        (path, groups)
    });
    with_groups.max_by_key(|(_, groups)| groups.len()).expect("a segment")
}

#[test]
fn a_hole_in_the_log_is_named_and_nobody_is_served_before_it_is_mended() {
    let mut server = server_with_rows();
    server.kill();
    let (segment, groups) = segment_in_use(server.data());
    assert!(groups.len() > 40, "each commit was durable before the next: {groups:?}");
    let group = groups[groups.len() / 2];
    let place = [segment.display().to_string(), format!("offset {group}")];
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    let whole = read(&segment);

    // A bit of its records, its head, all of it.
    flip(&segment, &[group + 64]);
    assert_refused(server.data(), &place);
    write(&segment, &whole);
    flip(&segment, &[group]);
    assert_refused(server.data(), &place);
    let mut bytes = whole.clone();
    bytes[group..group + LOG_BLOCK].fill(0);
    write(&segment, &bytes);
    assert_refused(server.data(), &place);
    // Both copies of the segment's head: nobody knows whose it is.
    write(&segment, &whole);
    flip(&segment, &[20, LOG_BLOCK + 20]);
    assert_refused(server.data(), &[place[0], "offset 0", "header"]);

    write(&segment, &whole);
    server.restart();
    run(async {
        assert_rows(&server, "acme").await;
        assert_rows(&server, "other").await;
    });
}

/// A segment has its whole length before it has its name. What is left of one that was cut may look like a log that ends there.
#[test]
fn a_segment_cut_short_is_named_and_nobody_is_served_without_its_end() {
    let mut server = server_with_rows();
    server.kill();
    let (segment, groups) = segment_in_use(server.data());
    let whole = read(&segment);
    for left in [0, 1, LOG_BLOCK, groups[groups.len() - 10], whole.len() - 1] {
        write(&segment, &whole[..left]);
        let (name, offset) = (segment.display().to_string(), format!("offset {left}"));
        assert_refused(server.data(), &[&name, &offset, "shorter"]);
    }
    write(&segment, &whole);
    server.restart();
    run(async {
        assert_rows(&server, "acme").await;
        assert_rows(&server, "other").await;
    });
}

/// A copy of some of a server's directories, or one from which a file was taken.
#[test]
fn a_tenant_whose_data_file_is_not_there_is_told_by_verify() {
    let volume = tempfile::tempdir().expect("a temporary directory");
    let option = format!("fast={}", volume.path().display());
    let mut server = Server::start_with(&["--workers", "1", "--volume", &option]);
    run(async {
        server.create_tenant("acme").await;
        let made = "CREATE TENANT far WITH (volume = fast) OWNER far PASSWORD 'secret'";
        server.admin().await.batch_execute(made).await.expect("a tenant can be made");
    });
    assert!(server.terminate().success());
    let mut whole = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    let whole = whole.args(["verify", "--volume", &option, "--data"]).arg(server.data()).output();
    let whole = whole.expect("the binary can be run");
    assert!(whole.status.success(), "{}", said(&whole));
    let found = verify(server.data());
    let told = said(&found);
    assert_eq!(found.status.code(), Some(1), "{told}");
    assert!(told.contains("tenant \"far\" is on volume \"fast\"") && !told.contains("acme\" is"), "{told}");
    let tenants = server.data().join("tenants");
    let entries = std::fs::read_dir(&tenants).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|file| file.extension().is_some_and(|extension| extension == "rowhouse")).collect();
    files.sort();
    for file in files {
        let aside = server.data().join("aside");
        std::fs::rename(&file, &aside).expect("it can be moved");
        let found = verify(server.data());
        let told = said(&found);
        assert_eq!(found.status.code(), Some(1), "{told}");
        assert!(told.contains(&file.display().to_string()), "{} is not in\n{told}", file.display());
        std::fs::rename(&aside, &file).expect("it can be moved back");
    }
}

#[test]
fn a_damaged_marker_of_the_directory_is_named_and_nothing_is_made_anew() {
    let mut server = server_with_rows();
    assert!(server.terminate().success());
    let marker = server.data().join("rowhouse.json");
    let name = marker.display().to_string();
    let whole = read(&marker);
    for damaged in
        ["", "{", "\0\0\0\0", "{}", r#"{"format_version":"1"}"#, r#"{"format_version":-1}"#, "null"]
    {
        write(&marker, damaged.as_bytes());
        let refused = refusal(server.data());
        assert!(refused.contains(&name) && refused.ends_with("exit status: 1"), "{damaged:?}: {refused}");
    }
    // Without it the directory looks like one in which a first start was cut short, but for what is in it.
    std::fs::remove_file(&marker).expect("a file can be removed");
    let refused = refusal(server.data());
    assert!(refused.contains("rowhouse.json") && refused.ends_with("exit status: 1"), "{refused}");
    write(&marker, &whole);
    server.restart();
    run(async {
        assert_rows(&server, "acme").await;
        assert_rows(&server, "other").await;
    });
}

#[test]
fn a_tenant_without_a_superblock_is_refused_and_the_others_are_served() {
    let mut server = server_with_rows();
    assert!(server.terminate().success());
    server.expect_warnings();
    let file = file_with(server.data(), b"acme needle 7");
    let name = file.display().to_string();
    let whole = flip(&file, &[100, SLOT + 100]);
    let check = |server: &Server, place: &str| {
        run(async {
            assert_rows(server, "other").await;
            for _ in 0..2 {
                let (state, words) = rows(server, "acme").await.expect_err("no rows are shown");
                assert_eq!(state, SqlState::DATA_CORRUPTED, "{words}");
                assert!(words.contains(&name) && words.contains(place), "{words}");
            }
            assert_rows(server, "other").await;
        });
    };
    server.restart();
    check(&server, "offset ");
    assert!(server.terminate().success());
    let verified = verify(server.data());
    assert_eq!(verified.status.code(), Some(1), "{}", said(&verified));
    assert!(said(&verified).contains(&name), "{}", said(&verified));

    // Nothing of them is left.
    let mut bytes = whole.clone();
    bytes[..2 * SLOT].fill(0);
    write(&file, &bytes);
    server.restart();
    check(&server, "");
    assert!(server.terminate().success());

    write(&file, &whole);
    server.restart();
    run(async { assert_rows(&server, "acme").await });
    assert!(server.terminate().success());

    // What cannot be mended can be given up.
    flip(&file, &[100, SLOT + 100]);
    server.restart();
    run(async {
        server.admin().await.batch_execute("DROP TENANT acme").await.expect("it can be dropped");
        assert_rows(&server, "other").await;
    });
}

#[test]
fn a_tenant_with_one_superblock_has_its_rows() {
    let mut server = server_with_rows();
    assert!(server.terminate().success());
    server.expect_warnings();
    let file = file_with(server.data(), b"acme needle 7");
    let whole = read(&file);
    for slot in [0, SLOT] {
        flip(&file, &[slot + 100]);
        server.restart();
        run(async {
            assert_rows(&server, "other").await;
            assert_rows(&server, "acme").await;
        });
        server.kill();
        write(&file, &whole);
    }
}

/// Numbers of the logs that have segments; 0 marks a free one.
fn logs_with_segments(data: &Path) -> BTreeSet<u64> {
    let folder = std::fs::read_dir(data.join("log")).expect("there is a log");
    let segments = folder.map(|entry| read(&entry.expect("an entry can be read").path()));
    let logs = segments
        .filter(|bytes| bytes.starts_with(b"RHREDO\r\n"))
        .map(|bytes| u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")));
    logs.filter(|log| *log != 0).collect()
}

/// Once the log that the newest root covers is free, nothing but the superblocks tells of that root: both name it.
#[test]
fn a_tenant_with_one_superblock_has_its_rows_when_its_log_is_gone() {
    let mut server = server_with_rows();
    server.expect_warnings();
    assert!(server.terminate().success());
    server.restart();
    run(async {
        let change = "UPDATE t SET v = v || ' changed'";
        assert_eq!(server.owner("acme").await.execute(change, &[]).await.expect("rows can be changed"), 40);
    });
    assert!(server.terminate().success());
    let logs = logs_with_segments(server.data());
    // Opened, it is known to need nothing of the logs.
    server.restart();
    run(async { assert_eq!(rows(&server, "acme").await, Ok("0".to_owned()), "all are changed") });
    let deadline = Instant::now() + Duration::from_secs(20);
    while !logs_with_segments(server.data()).is_disjoint(&logs) {
        assert!(Instant::now() < deadline, "the logs are kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.terminate().success());

    let file = file_with(server.data(), b"acme needle 7 changed");
    let whole = read(&file);
    for slot in [0, SLOT] {
        flip(&file, &[slot + 100]);
        let verified = verify(server.data());
        assert!(verified.status.success(), "{}", said(&verified));
        assert!(said(&verified).contains("one of its superblocks is not whole"), "{}", said(&verified));
        write(&file, &whole);
        flip(&file, &[slot + 100]);
        server.restart();
        run(async { assert_eq!(rows(&server, "acme").await, Ok("0".to_owned()), "all are changed") });
        assert!(server.terminate().success());
        let verified = verify(server.data());
        assert!(!said(&verified).contains("not whole"), "opening mends it: {}", said(&verified));
        write(&file, &whole);
    }
}

#[test]
fn a_damaged_catalogue_of_tenants_keeps_the_server_from_starting() {
    let mut server = server_with_rows();
    assert!(server.terminate().success());
    server.expect_warnings();
    let file = server.data().join("tenants/1.rowhouse");
    let name = file.display().to_string();
    let whole = flip(&file, &[100, SLOT + 100]);
    assert_refused(server.data(), &[&name, "offset "]);
    // A page that has the tenants' names.
    write(&file, &whole);
    let (mut names, mut from) = (Vec::new(), 0);
    while let Some(at) = position(&whole[from..], b"acme") {
        names.push(from + at);
        from += at + 1;
    }
    assert!(!names.is_empty(), "the system's tenant knows the others");
    flip(&file, &names);
    assert_refused(server.data(), &[&name, "offset "]);

    write(&file, &whole);
    server.restart();
    run(async { assert_rows(&server, "acme").await });
}

/// Nothing is known of it then, least of all that it is damaged.
#[test]
fn a_tenant_that_is_not_replayed_for_want_of_a_temporary_file_is_not_called_damaged() {
    let mut server = Server::with_acme();
    run(async {
        let made = "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)";
        server.owner("acme").await.batch_execute(made).await.expect("a table");
    });
    server.kill();
    let mut verify = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    let verify = verify.args(["verify", "--data"]).arg(server.data());
    let found = verify.env("TMPDIR", server.data().join("nowhere")).output().expect("the binary can be run");
    let told = said(&found);
    assert_eq!(found.status.code(), Some(1), "{told}");
    assert!(told.contains("NOT CHECKED") && told.contains("TMPDIR"), "{told}");
    assert!(!told.contains("DEFECT") && !told.contains("damaged"), "{told}");
}
