//! `rowhouse calibrate` as it is typed, on the disk of the machine, and what `serve` makes of its result.

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{Server, said};

fn calibrate(data: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    command.args(["calibrate", "--data"]).arg(data).args(more).output().expect("the binary can be run")
}

/// Small and short: that it ends well is held here, that it is right by the simulated disk.
const SHORT: [&str; 5] = ["--quick", "--scratch", "16MiB", "--workers", "2"];

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the directory is there");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

fn warnings(server: &Server) -> Vec<String> {
    server.log().lines().filter(|line| line.contains(" WARN")).map(str::to_owned).collect()
}

#[test]
fn a_volume_is_calibrated_before_its_first_start_and_the_server_says_what_it_finds() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (data, logs, fast) = (dir.path().join("data"), dir.path().join("logs"), dir.path().join("fast"));
    let log_dir = logs.display().to_string();
    let volume = format!("fast={}", fast.display());
    let place = ["--log-dir", &log_dir, "--volume", &volume];
    {
        let server = Server::on(&data, &place);
        let warned = warnings(&server);
        assert_eq!(warned.len(), 3, "each volume is missed: {warned:?}");
        assert!(warned.iter().all(|line| line.contains("never calibrated")), "{warned:?}");
        let in_use = calibrate(&data, &SHORT);
        assert!(!in_use.status.success() && said(&in_use).contains("in use"), "{}", said(&in_use));
    }
    for dir in [&data, &logs, &fast] {
        std::fs::remove_dir_all(dir).expect("a directory can be removed");
    }
    std::fs::remove_file(data.with_extension("log")).expect("the log can be removed");

    let output = calibrate(&data, &[&SHORT[..], &place[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    let volumes: Vec<_> =
        found[0]["volumes"].as_array().expect("volumes").iter().map(|v| &v["volume"]).collect();
    assert_eq!(volumes, ["default", "fast", "log"], "one file system is measured once: {found}");
    let calibration = &found[0]["calibration"];
    let number = |key: &str| calibration[key].as_u64().unwrap_or_else(|| panic!("no {key} in {calibration}"));
    assert!((1..=256).contains(&number("depth")));
    for rate in ["iops_read", "iops_write", "bytes_per_second_read", "durable_writes_per_second"] {
        assert!(number(rate) > 0, "{calibration}");
    }
    assert_eq!(names(&fast), ["calibration"]);
    assert_eq!(names(&logs), ["calibration"]);
    assert_eq!(names(&data), ["calibration", "lock", "tenants"]);

    let place: Vec<&str> = place.to_vec();
    let mut server = Server::on(&data, &place);
    assert_eq!(warnings(&server), Vec::<String>::new(), "all is well");
    assert!(server.terminate().success());
    drop(server);
    let kept = std::fs::read_to_string(fast.join("calibration")).expect("text");
    std::fs::write(fast.join("calibration"), kept.replace("depth", "deqth")).expect("a file can be written");
    let mut server = Server::on(&data, &place);
    server.expect_warnings();
    let warned = warnings(&server);
    assert!(warned.len() == 1 && warned[0].contains("fast") && warned[0].contains("damaged"), "{warned:?}");
    // Served all the same.
    assert!(server.terminate().success());
}

#[test]
fn people_are_told_in_words_and_tables() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = calibrate(&dir.path().join("data"), &SHORT);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    for word in
        ["volume default", "depth", "random reads", "sequential write", "256 KiB", "write and sync", "p99"]
    {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[test]
fn ctrl_c_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let mut running = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["calibrate", "--scratch", "16MiB", "--seconds", "3600", "--data"])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    let mut words = BufReader::new(running.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("scratch file") {
        line.clear();
        assert!(words.read_line(&mut line).expect("output is UTF-8") > 0, "it says what it measures");
    }
    let interrupt = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(interrupt.expect("kill can be run").success());
    let mut rest = String::new();
    words.read_to_string(&mut rest).expect("output is UTF-8");
    let output = running.wait_with_output().expect("it can be waited for");
    assert_eq!(output.status.code(), Some(1), "{}{rest}", said(&output));
    assert!(said(&output).contains("interrupted"), "{}", said(&output));
    assert_eq!(names(&data), ["lock", "log", "tenants"]);
    assert!(names(&data.join("log")).is_empty());
}

#[test]
fn what_cannot_be_measured_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let output = calibrate(&data, &["--quick", "--scratch", "1024TiB"]);
    let words = said(&output);
    assert!(
        !output.status.success() && words.contains("are needed") && words.contains("not calibrated"),
        "{words}"
    );
    assert_eq!(names(&data), ["lock", "log", "tenants"]);
    assert!(names(&data.join("log")).is_empty());
    for (args, word) in [
        (&["--seconds", "1"][..], "30"),
        (&["--seconds", "60", "--quick"], "quick"),
        (&["--volume", "fast"], "NAME=DIR"),
        (&["--volume", "fast=/proc/nowhere"], "/proc/nowhere"),
    ] {
        let output = calibrate(&data, args);
        assert!(!output.status.success() && said(&output).contains(word), "{args:?}: {}", said(&output));
    }
    std::fs::write(data.join("PG_VERSION"), "15").expect("a file can be written");
    let output = calibrate(&data, &SHORT);
    assert!(!output.status.success() && said(&output).contains("PG_VERSION"), "{}", said(&output));
}
