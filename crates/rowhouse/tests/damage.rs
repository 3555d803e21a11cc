//! Directories a server must not simply use: in use already, of a newer release, damaged.

mod common;

use std::process::Command;

use common::damage::{LOG_BLOCK, SLOT, files_with, position, refusal};
use common::{Server, run, said, text};
use tokio_postgres::error::SqlState;

/// Where a segment's header has its checksum.
const LOG_HEADER_CRC: usize = 48;

#[test]
fn a_directory_in_use_is_refused() {
    let server = Server::start();
    let text = refusal(server.data());
    assert!(text.contains("is in use by another server"), "{text}");
    assert!(text.contains(&server.data().display().to_string()), "{text}");
    assert!(text.ends_with("exit status: 1"), "{text}");
    run(async { assert_eq!(text_of_admin(&server).await, "1") });
}

/// What lies outside of the data directory is one server's too.
#[test]
fn volumes_and_logs_in_use_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (logs, volume) = (dir.path().join("logs"), format!("fast={}", dir.path().join("fast").display()));
    let log_option = format!("--log-dir={}", logs.display());
    let mut server = Server::on(&dir.path().join("one"), &[&log_option, "--volume", &volume]);
    run(async { server.create_tenant("acme").await });
    for options in [&[log_option.as_str()][..], &["--volume", &volume]] {
        let refused = Server::launch(&dir.path().join("two"), options).err().expect("refused");
        assert!(refused.contains("is in use by another server"), "{refused}");
    }
    assert!(server.terminate().success());
    // Nor are the logs of one data directory for another.
    let refused = Server::launch(&dir.path().join("two"), &[&log_option]).err().expect("refused");
    assert!(refused.contains("the data directory is new"), "{refused}");
    // Nor are its volumes, for whoever has it: tenants have the same ids there.
    let refused = Server::launch(&dir.path().join("two"), &["--volume", &volume]).err().expect("refused");
    assert!(refused.contains("is the volume \"fast\" of another server"), "{refused}");
    let data = dir.path().join("one");
    drop(server);
    let server = Server::on(&data, &[&log_option, "--volume", &volume]);
    run(async { drop(server.owner("acme").await) });
}

async fn text_of_admin(server: &Server) -> String {
    text(&server.admin().await, "SELECT 1").await
}

#[test]
fn a_directory_of_something_else_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("a folder can be made");
    std::fs::write(data.join("thesis.txt"), "all my work").expect("a file can be written");
    let text = refusal(&data);
    assert!(text.contains("is not a usable data directory") && text.contains("thesis.txt"), "{text}");
    assert_eq!(std::fs::read_to_string(data.join("thesis.txt")).expect("it is still there"), "all my work");
}

#[test]
fn newer_formats_are_refused_with_both_versions() {
    let mut server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        client
            .batch_execute("CREATE TABLE t (v text); INSERT INTO t VALUES ('needle of acme')")
            .await
            .expect("a table");
        server.create_tenant("other").await;
    });
    assert!(server.terminate().success());
    server.expect_warnings();

    // A tenant's file from the future: that tenant is refused, the others are served.
    let files = files_with(server.data(), b"needle of acme");
    let [file] = &files[..] else { panic!("one file has the table: {files:?}") };
    let mut bytes = std::fs::read(file).expect("a file can be read");
    let whole = bytes.clone();
    for slot in [0, SLOT] {
        bytes[slot + 8..slot + 12].copy_from_slice(&99_u32.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[slot..slot + SLOT - 4]);
        bytes[slot + SLOT - 4..slot + SLOT].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(file, &bytes).expect("a file can be written");
    server.restart();
    run(async {
        assert_eq!(text(&server.owner("other").await, "SELECT 1").await, "1");
        let refused = server.connect_as("acme", "acme").await;
        let refused = match refused {
            Ok(client) => client.simple_query("SELECT * FROM t").await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = refused.err().expect("the file is of a newer format");
        let message = error.as_db_error().expect("the server's error").to_string();
        assert!(message.contains("99"), "{message}");
    });
    assert!(server.terminate().success());
    std::fs::write(file, &whole).expect("a file can be written");

    // A segment of the redo log.
    let segment = std::fs::read_dir(server.data().join("log"))
        .expect("there is a log")
        .map(|entry| entry.expect("an entry can be read").path())
        .find(|path| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"RHREDO\r\n")))
        .expect("a segment");
    let before = std::fs::read(&segment).expect("a segment can be read");
    let mut bytes = before.clone();
    for block in [0, LOG_BLOCK] {
        bytes[block + 8..block + 12].copy_from_slice(&99_u32.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[block..block + LOG_HEADER_CRC]);
        bytes[block + LOG_HEADER_CRC..block + LOG_HEADER_CRC + 4].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(&segment, &bytes).expect("a segment can be written");
    let text = refusal(server.data());
    assert!(text.contains(&segment.display().to_string()) && text.contains("format 99"), "{text}");
    assert!(text.ends_with("exit status: 1"), "{text}");
    std::fs::write(&segment, before).expect("a segment can be written");

    // The directory's own version.
    let marker = server.data().join("rowhouse.json");
    let before = std::fs::read_to_string(&marker).expect("the marker can be read");
    std::fs::write(&marker, r#"{"format_version":2}"#).expect("the marker can be written");
    let text = refusal(server.data());
    assert!(text.contains("format version 2") && text.contains("up to 1"), "{text}");
    std::fs::write(&marker, before).expect("the marker can be written");
    server.restart();
}

#[test]
fn a_corrupt_page_is_named_and_never_served() {
    let mut server = Server::with_acme();
    run(async {
        server.create_tenant("other").await;
        for tenant in ["acme", "other"] {
            let client = server.owner(tenant).await;
            let table = "CREATE TABLE t (id int PRIMARY KEY, v text)";
            client.batch_execute(table).await.expect("a table can be made");
            let fill = format!(
                "INSERT INTO t SELECT n, '{tenant} needle ' || n FROM generate_series(1, 3000) AS s(n)"
            );
            client.batch_execute(&fill).await.expect("rows can be inserted");
        }
    });
    assert!(server.terminate().success());
    server.expect_warnings();
    let needle = b"acme needle 1500";
    let files = files_with(server.data(), needle);
    let [file] = &files[..] else { panic!("one file has the row: {files:?}") };
    let mut bytes = std::fs::read(file).expect("a file can be read");
    let mut offsets = Vec::new();
    let mut from = 0;
    while let Some(at) = position(&bytes[from..], needle) {
        bytes[from + at] ^= 1;
        offsets.push((from + at) / SLOT * SLOT);
        from += at + 1;
    }
    std::fs::write(file, &bytes).expect("a file can be written");

    server.restart();
    run(async {
        let client = server.owner("acme").await;
        for query in [
            "SELECT v FROM t WHERE id = 1500",
            "SELECT count(v) FROM t",
            "UPDATE t SET v = 'x' WHERE id = 1500",
        ] {
            let error = client
                .simple_query(query)
                .await
                .err()
                .unwrap_or_else(|| panic!("{query} reads a corrupt page"));
            let error = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}"));
            assert_eq!(error.code(), &SqlState::DATA_CORRUPTED, "{query}");
            let words = format!("{} {}", error.message(), error.detail().unwrap_or_default());
            assert!(words.contains(&file.display().to_string()), "{words}");
            assert!(offsets.iter().any(|offset| words.contains(&offset.to_string())), "{words} {offsets:?}");
        }
        // What is not damaged is served, in this tenant and the other.
        assert_eq!(text(&client, "SELECT v FROM t WHERE id = 3").await, "acme needle 3");
        let other = server.owner("other").await;
        assert_eq!(text(&other, "SELECT count(*) FROM t WHERE v LIKE 'other needle %'").await, "3000");
    });
    assert!(server.terminate().success());
    let verify =
        Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(["verify", "--data"]).arg(server.data()).output();
    let verify = verify.expect("the binary can be run");
    let words = said(&verify);
    assert!(!verify.status.success(), "{words}");
    assert!(offsets.iter().any(|offset| words.contains(&offset.to_string())), "{words} {offsets:?}");
}

#[test]
fn a_tenant_with_a_damaged_index_is_repaired_without_it() {
    let mut server = Server::with_acme();
    run(async {
        server.create_tenant("other").await;
        for tenant in ["acme", "other"] {
            let client = server.owner(tenant).await;
            let table = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE INDEX t_v_idx ON t (v DESC)";
            client.batch_execute(table).await.expect("a table can be made");
            let fill = format!(
                "INSERT INTO t SELECT n, '{tenant} needle ' || n FROM generate_series(1, 3000) AS s(n)"
            );
            client.batch_execute(&fill).await.expect("rows can be inserted");
        }
    });
    assert!(server.terminate().success());
    server.expect_warnings();
    // Keys of a descending column are inverted, so these bytes are in the index alone: what its leaves of 1, 10 to 19, 100 to
    // 199 and 1000 to 1999 begin with.
    let needle: Vec<u8> = b"acme needle 1".iter().map(|byte| !byte).collect();
    let files = files_with(server.data(), &needle);
    let [file] = &files[..] else { panic!("one file has the index: {files:?}") };
    let mut bytes = std::fs::read(file).expect("a file can be read");
    let mut offsets = Vec::new();
    let mut from = 0;
    while let Some(at) = position(&bytes[from..], &needle) {
        bytes[from + at] ^= 1;
        offsets.push(((from + at) / SLOT * SLOT).to_string());
        from += at + 1;
    }
    let names_a_place = |words: &str| offsets.iter().any(|offset| words.contains(offset));
    std::fs::write(file, &bytes).expect("a file can be written");

    server.restart();
    run(async {
        let client = server.owner("acme").await;
        for query in
            ["SELECT id FROM t WHERE v = 'acme needle 1500'", "UPDATE t SET v = 'changed' WHERE id = 1500"]
        {
            let error =
                client.simple_query(query).await.err().unwrap_or_else(|| panic!("{query} needs the page"));
            let error = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}"));
            assert_eq!(error.code(), &SqlState::DATA_CORRUPTED, "{query}");
            let words = error.message();
            assert!(words.contains(&file.display().to_string()) && names_a_place(words), "{words}");
        }
        assert_eq!(text(&client, "SELECT v FROM t WHERE id = 1500").await, "acme needle 1500");
        assert_eq!(text(&client, "SELECT count(*) FROM t").await, "3000");
        client.batch_execute("UPDATE t SET v = 'far away' WHERE id = 3").await.expect("another page");
        let other = server.owner("other").await;
        assert_eq!(text(&other, "SELECT id FROM t WHERE v = 'other needle 1500'").await, "1500");
    });
    server.kill();

    let tool = |args: &[&str]| {
        let (command, args) = args.split_first().expect("a command");
        let mut tool = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
        tool.arg(command).arg("--data").arg(server.data()).args(args).output().expect("the binary can be run")
    };
    let verify = tool(&["verify"]);
    let words = said(&verify);
    assert!(!verify.status.success() && words.contains("(acme)"), "{words}");
    assert!(words.contains("index public.t_v_idx of table public.t") && names_a_place(&words), "{words}");
    for (args, complaint) in [
        (["repair", "--tenant", "nobody", "--drop-index", "public.t_v_idx"], "no tenant"),
        (["repair", "--tenant", "acme", "--drop-index", "public.t_pkey"], "primary key"),
        (["repair", "--tenant", "acme", "--drop-index", "public.none"], "no index"),
    ] {
        let refused = tool(&args);
        assert!(!refused.status.success() && said(&refused).contains(complaint), "{}", said(&refused));
    }
    let repair = tool(&["repair", "--tenant", "acme", "--drop-index", "public.t_v_idx"]);
    assert!(repair.status.success(), "{}", said(&repair));
    assert!(said(&repair).contains("dropped index public.t_v_idx of table public.t"), "{}", said(&repair));
    let verify = tool(&["verify"]);
    assert!(verify.status.success(), "{}", said(&verify));

    server.restart();
    run(async {
        let client = server.owner("acme").await;
        assert_eq!(text(&client, "SELECT id FROM t WHERE v = 'acme needle 1500'").await, "1500");
        assert_eq!(text(&client, "SELECT v FROM t WHERE id = 3").await, "far away", "from the redo log");
        client
            .batch_execute("CREATE INDEX t_v_idx ON t (v DESC)")
            .await
            .expect("the index can be made again");
        assert_eq!(text(&client, "SELECT id FROM t WHERE v = 'acme needle 1500'").await, "1500");
    });
}
