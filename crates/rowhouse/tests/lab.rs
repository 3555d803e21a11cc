//! `rowhouse lab` from its command line to its files, in seconds: what it starts, what it writes, what it leaves.

mod common;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::said;
use serde_json::Value;

/// A run with as little of everything as there may be, its data and its report below `folder`.
fn lab(folder: &Path, args: &[&str]) -> Command {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    command.args(["lab", "sqlvm"]).args(args);
    if !args.contains(&"--duration") {
        command.args(["--duration", "0.001"]);
    }
    command.args(["--quick", "--population", "0.001", "--out"]).arg(folder.join("out"));
    command.arg("--data-dir").arg(&data);
    command
}

fn has_two_cores() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
    if !enough {
        eprintln!("passed over: server and load need a core each");
    }
    enough
}

fn report(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("out/report.json")).expect("the report is written");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Processes that have the folder in their command line.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(&folder)).collect()
}

fn check_nothing_is_left(folder: &Path) {
    assert_eq!(processes_of(folder), Vec::<String>::new());
    let left: Vec<_> = std::fs::read_dir(folder.join("data")).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn reservations_are_measured_and_reported() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["reservations", "--part", "figure-4"];
    let output = lab(folder.path(), &args).output().expect("the binary can be run");
    assert!(output.status.success(), "{}", said(&output));
    let report = report(folder.path());
    assert_eq!(report["schema"], "rowhouse-lab/1");
    assert_eq!(report["status"]["state"], "complete");
    assert_eq!(report["quick"], true);
    let sections = report["sections"].as_array().expect("sections");
    let ids: Vec<_> = sections.iter().map(|section| section["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["figure-4", "figure-4-no-maximum"]);
    for section in sections {
        assert!(!section["verdicts"].as_array().expect("verdicts").is_empty(), "{section:#}");
        for verdict in section["verdicts"].as_array().expect("verdicts") {
            assert!(["met", "missed", "void"].contains(&verdict["outcome"].as_str().expect("an outcome")));
        }
        let plot = &section["plots"][0];
        assert!(!plot["promised"].as_array().expect("levels").is_empty(), "{plot:#}");
        // What is told is what was counted. On a machine that stood still meanwhile nothing was, and then nothing is claimed.
        for (tenant, series) in plot["series"].as_array().expect("series").iter().enumerate() {
            let values = series["values"].as_array().expect("values").iter();
            let given: f64 = values.map(|value| value.as_f64().expect("a number")).sum();
            let outcome = |half: usize| section["verdicts"][2 * half + tenant]["outcome"].as_str();
            let claims = (0..2).any(|half| outcome(half) != Some("void"));
            assert!(given > 0.0 || !claims, "{section:#}");
        }
    }
    let page = std::fs::read_to_string(folder.path().join("out/report.html")).expect("the page is written");
    assert!(page.contains("not a measurement") && page.contains("<polyline"));
    check_nothing_is_left(folder.path());
}

/// Waits until the run has something in its folder of data, which is when its server is starting.
fn wait_for_data(child: &mut Child, folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while std::fs::read_dir(folder.join("data")).expect("the folder").next().is_none() {
        assert!(child.try_wait().expect("it can be waited for").is_none(), "it ended by itself");
        assert!(Instant::now() < deadline, "no server was started");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_run_leaves_its_report_and_nothing_else() {
    if !has_two_cores() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = lab(folder.path(), &["reservations"]);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary can be run");
    wait_for_data(&mut child, folder.path());
    let told =
        Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill can be run");
    assert!(told.success());
    let output: Output = child.wait_with_output().expect("it can be waited for");
    assert!(!output.status.success() && said(&output).contains("interrupted"), "{}", said(&output));
    let report = report(folder.path());
    assert_eq!(report["status"]["state"], "partial", "{report:#}");
    assert_eq!(report["status"]["why"], "interrupted");
    check_nothing_is_left(folder.path());
}

#[test]
fn what_cannot_be_is_said_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, word) in [
        (&["reservations", "--part", "figure-7"][..], "figure-4, tenants, cpu"),
        (&["reservations", "--server-cores", "0", "--load-cores", "0"], "have to be different"),
        (&["reservations", "--server-cores", "zero"], "0-2,5"),
        (&["metering", "--server-binary", "/no/such/binary"], "/no/such/binary cannot be run"),
        (&["reservations", "--duration", "0"], "0.001 to 10"),
        (&["memory", "--part", "crowd"], "buffer, working, lent"),
        (&["cost", "--part", "buffer"], "crowd, hostile, governor"),
    ] {
        let output = lab(folder.path(), args).output().expect("the binary can be run");
        assert!(!output.status.success() && said(&output).contains(word), "{args:?}: {}", said(&output));
    }
    check_nothing_is_left(folder.path());
}

#[cfg(not(feature = "analytic"))]
#[test]
fn an_experiment_that_needs_the_analytical_path_says_so() {
    if !has_two_cores() {
        return;
    }
    for experiment in ["isolation", "metering", "memory", "cost"] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = lab(folder.path(), &[experiment]).output().expect("the binary can be run");
        assert!(!output.status.success() && said(&output).contains("0A000"), "{}", said(&output));
        let report = report(folder.path());
        assert_eq!(report["status"]["state"], "partial", "{report:#}");
        check_nothing_is_left(folder.path());
    }
}
