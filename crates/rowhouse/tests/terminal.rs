//! What is shown on a terminal and nowhere else: the demo's table, the progress of what takes long. `script` makes the terminal.

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::bench::run_bench;
use common::postgres::Postgres;
use common::{Server, said, tool};

/// Runs `rowhouse` on a terminal of its own, temporary files in `temp`; what the terminal was sent is the output.
fn on_terminal(args: &[&str], temp: &Path) -> Output {
    on_terminal_of(None, args, temp)
}

/// As [`on_terminal`], of a desktop whose programs are in the folder given, before all others; of none without one.
fn on_terminal_of(desktop: Option<&Path>, args: &[&str], temp: &Path) -> Output {
    // No argument of these tests has blanks or quotes.
    let command = format!("{} {}", env!("CARGO_BIN_EXE_rowhouse"), args.join(" "));
    let mut script = tool("script");
    script.env_remove("WAYLAND_DISPLAY").env_remove("DISPLAY");
    if let Some(programs) = desktop {
        let path = std::env::var("PATH").expect("a path");
        script.env("DISPLAY", ":9").env("PATH", format!("{}:{path}", programs.display()));
    }
    script
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TMPDIR", temp)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .expect("script can be run")
}

/// The number that stands before `after` in `text`.
fn number_before(text: &str, after: &str) -> f64 {
    let (before, _) = text.split_once(after).unwrap_or_else(|| panic!("no {after:?}: {text}"));
    let number = before.rsplit(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    number.parse().unwrap_or_else(|error| panic!("{error} before {after:?}: {text}"))
}

#[test]
fn the_demo_redraws_its_table_and_leaves_nothing() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let output = on_terminal(&["demo", "--seconds", "4"], temp.path());
    let shown = said(&output);
    assert!(output.status.success(), "{shown}");

    // Drawn in place: each time but the first the cursor goes up over all lines of the time before, which are written anew.
    let drawn: Vec<&str> = shown.split("\x1b[J").filter(|part| part.contains("p99 ms")).collect();
    assert!(drawn.len() >= 3, "{} tables: {shown}", drawn.len());
    for (before, table) in drawn.iter().zip(&drawn[1..]) {
        let up = format!("\x1b[{}A", before.matches("\x1b[2K").count());
        assert!(table.starts_with(&up), "{up:?}: {table:?}");
    }
    // A line for each tenant: its throughput, three latencies and processor time, once all of them are at work.
    let tenants = |table: &str| -> Vec<Vec<f64>> {
        let lines = table.split("\x1b[2K").map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines
            .skip_while(|words| words.first() != Some(&"tenant"))
            .skip(1)
            .take_while(|words| words.first() != Some(&"after"))
            .map(|words| words[1..].iter().filter_map(|word| word.parse().ok()).collect())
            .collect()
    };
    let at_work = drawn.iter().map(|table| tenants(table)).find(|tenants| {
        tenants.len() > 1
            && tenants.iter().all(|of| of.len() == 5 && of.iter().all(|number: &f64| *number > 0.0))
    });
    let tenants = at_work.unwrap_or_else(|| panic!("no table of several tenants at work: {shown}")).len();

    // The summary, the check and the end.
    let (_, summary) = shown.rsplit_once("\x1b[J").expect("a table was drawn");
    let transactions = number_before(summary, " transactions in ");
    let rate = number_before(summary, " a second");
    assert!(transactions > 0.0 && rate > 0.0, "{summary}");
    assert!(summary.contains(&format!("of {tenants} tenants")), "{summary}");
    assert!(summary.contains("tenants are consistent"), "{summary}");
    assert!(summary.trim_end().ends_with("the demo ended in order"), "{summary}");
    let left: Vec<_> = std::fs::read_dir(temp.path()).expect("a folder").collect();
    assert!(left.is_empty(), "the demo left {left:?}");
}

#[test]
fn the_demo_opens_its_console_on_a_desktop() {
    let (desktop, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let opened = desktop.path().join("opened");
    let opener = desktop.path().join("xdg-open");
    // Whole at once: it is looked for while it is written.
    let script = format!("#!/bin/sh\necho \"$1\" > {0}.part && mv {0}.part {0}\n", opened.display());
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let demo = ["demo", "--story", "none", "--seconds", "1"];

    let quiet = on_terminal_of(Some(desktop.path()), &[&demo[..], &["--no-browser"]].concat(), temp.path());
    assert!(quiet.status.success(), "{}", said(&quiet));
    let elsewhere = on_terminal(&demo, temp.path());
    assert!(elsewhere.status.success() && !opened.exists(), "{}", said(&elsewhere));

    let output = on_terminal_of(Some(desktop.path()), &demo, temp.path());
    let shown = said(&output);
    assert!(output.status.success(), "{shown}");
    let address =
        shown.split("the console: ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
    let until = Instant::now() + Duration::from_secs(60);
    while !opened.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let opened = std::fs::read_to_string(&opened).expect("something was opened");
    assert_eq!(opened.trim(), format!("{address}#/scenarios"));
}

#[test]
fn a_load_shows_its_progress_on_a_terminal_and_nowhere_else() {
    let server = Server::start();
    let url = server.url("admin", "rowhouse");
    let load = ["tpcc", "--load-only", "--tenants", "2", "--scale", "0.01", "--url", &url];
    let temp = tempfile::tempdir().expect("a temporary directory");
    let output = on_terminal(&[&["bench"], &load[..]].concat(), temp.path());
    let shown = said(&output);
    assert!(output.status.success(), "{shown}");
    for database in ["bench1 (1/2)", "bench2 (2/2)"] {
        // Its frames: `loading NAME [####----] 1,234/5,678 rows, 1s left`.
        let begin = format!("loading {database} [");
        let frames = shown.split(&begin).skip(1);
        let rows: Vec<&str> =
            frames.filter_map(|frame| frame.split_once(" rows, ")?.0.rsplit(' ').next()).collect();
        assert!(rows.iter().any(|rows| !rows.starts_with("0/")), "{database}: {rows:?}: {shown}");
    }
    let output = run_bench(&load);
    assert!(output.status.success() && !said(&output).contains("loading"), "{}", said(&output));
}

#[test]
fn imports_backups_and_restores_show_their_progress_on_a_terminal_and_nowhere_else() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    let rows = "CREATE TABLE many (id int PRIMARY KEY, note text);
                INSERT INTO many SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n";
    postgres.psql(&["-c", rows]);
    let temp = tempfile::tempdir().expect("a temporary directory");
    let file = temp.path().join("acme.backup").display().to_string();
    let pg_dump = tool("pg_dump").get_program().to_string_lossy().into_owned();
    let (source, owner, admin) =
        (postgres.url(), server.url("acme", "acme"), server.url("admin", "rowhouse"));
    let import = ["import", "--from", &source, "--url", &owner, "--pg-dump", &pg_dump];
    let backup = ["backup", "--url", &admin, "--tenant", "acme", "--to", &file];
    let restore = |name| ["restore", "--url", &admin, "--tenant", name, "--from", &file];
    // Frames: the name of the table under way behind a bar, `backing up [####----] 1.20 MiB/2.40 MiB, …`.
    for (args, frame) in
        [(&import[..], "many"), (&backup[..], "backing up ["), (&restore("one")[..], "restoring [")]
    {
        let output = on_terminal(args, temp.path());
        let shown = said(&output);
        assert!(output.status.success() && shown.contains(frame), "{args:?}: {shown}");
    }
    for (args, frame) in [(&backup[..], "backing up ["), (&restore("other")[..], "restoring [")] {
        let output = Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(args).output();
        let output = output.expect("the binary can be run");
        let shown = said(&output);
        assert!(output.status.success() && !shown.contains(frame), "{args:?}: {shown}");
    }
}

#[test]
fn a_calibration_shows_its_progress_on_a_terminal_and_nowhere_else() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let data = temp.path().join("data").display().to_string();
    let calibrate = ["calibrate", "--quick", "--scratch", "16MiB", "--workers", "2", "--data", &data];
    let output = on_terminal(&calibrate, temp.path());
    let shown = said(&output);
    assert!(output.status.success() && shown.contains("writing the scratch file ["), "{shown}");
    // `measuring [####----] 37 %, 3s left`.
    let frames = shown.split("measuring [").skip(1);
    let percents: Vec<u32> =
        frames.filter_map(|frame| frame.split_once(" %, ")?.0.rsplit(' ').next()?.parse().ok()).collect();
    assert!(percents.iter().any(|percent| (1..100).contains(percent)), "{percents:?}: {shown}");
    assert!(percents.is_sorted(), "{percents:?}");

    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(calibrate).output();
    let output = output.expect("the binary can be run");
    let shown = said(&output);
    assert!(output.status.success() && !shown.contains("measuring ["), "{shown}");
    assert!(!shown.contains("writing the scratch file ["), "{shown}");
}
