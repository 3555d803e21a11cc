//! The commands beside `serve`, as they are typed.

mod common;

use std::process::{Command, Output};

use common::{PASSWORD, Server, run, said};

fn rowhouse(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(args).output().expect("the binary can be run")
}

fn ends_well(args: &[&str]) -> String {
    let output = rowhouse(args);
    assert!(output.status.success(), "{args:?}:\n{}", said(&output));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn number(json: &str, key: &str) -> f64 {
    let (_, rest) = json.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"));
    let end = rest.find([',', '\n', '}']).expect("a value ends");
    rest[..end].trim().parse().unwrap_or_else(|_| panic!("{key} is no number in {json}"))
}

#[test]
fn bench_loads_runs_and_checks_each_workload() {
    let mut server = Server::start();
    let url = format!("postgres://admin:{PASSWORD}@127.0.0.1:{}/rowhouse", server.port());
    let common = ["--url", &url, "--tenants", "2", "--seconds", "2", "--warm-up", "0.5", "--json"];
    let bench =
        |workload: &str, more: &[&str]| ends_well(&[&["bench", workload], &common[..], more].concat());
    let tpcc = bench("tpcc", &["--scale", "0.01"]);
    assert!(number(&tpcc, "tpmc") > 0.0 && number(&tpcc, "tenants") == 2.0, "{tpcc}");
    assert!(
        tpcc.contains("\"violations\": []"),
        "the consistency conditions are checked after each run: {tpcc}"
    );
    let again = bench("tpcc", &["--scale", "0.01", "--no-load", "--rate", "20"]);
    assert!(again.contains("open loop"), "{again}");
    let thinking = bench("tpcc", &["--scale", "0.01", "--no-load", "--think", "10"]);
    assert!(thinking.contains("\"violations\": []"), "{thinking}");
    let store = bench("dvdstore", &["--scale", "0.1", "--clients", "3", "--prefix", "store"]);
    assert!(number(&store, "opm") > 0.0 && store.contains("\"violations\": []"), "{store}");
    let tpcb = bench("pgbench", &["--prefix", "tpcb"]);
    assert!(number(&tpcb, "transactions_per_second") > 0.0, "{tpcb}");
    let select = bench("pgbench-select", &["--prefix", "tpcb", "--no-load"]);
    assert!(number(&select, "transactions_per_second") > 0.0, "{select}");
    assert!(server.terminate().success());
    let data = server.data().display().to_string();
    let report = ends_well(&["verify", "--json", "--data", &data]);
    assert!(report.trim_start().starts_with('{'), "{report}");
}

#[test]
fn what_cannot_be_done_is_told_with_an_exit_code() {
    for (args, word) in [
        (&["verify", "--data", "/nonexistent/rowhouse"][..], "/nonexistent/rowhouse"),
        (&["bench", "tpcc", "--url", "postgres://admin:x@127.0.0.1:1/rowhouse"], "refused"),
        (&["serve", "--data", "/proc/rowhouse", "--listen", "127.0.0.1:0"], "/proc/rowhouse"),
        (&["serve", "--data", "x", "--memory", "much"], "memory"),
        (&["serve", "--data", "x", "--volume", "log=/tmp"], "every server has"),
        (&["serve"], "--data"),
        (&["demo", "--story", "nothing"], "there is no story"),
        (&["sleep"], "sleep"),
    ] {
        let output = rowhouse(args);
        let said = said(&output);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{args:?}: {said}");
    }
    let server = Server::start();
    let wrong = format!("postgres://admin:wrong@127.0.0.1:{}/rowhouse", server.port());
    let output = rowhouse(&["bench", "tpcc", "--url", &wrong]);
    assert!(!output.status.success() && said(&output).contains("password"), "{}", said(&output));
    let in_use = rowhouse(&["verify", "--data", &server.data().display().to_string()]);
    assert!(!in_use.status.success() && said(&in_use).contains("use"), "{}", said(&in_use));
    run(async { server.admin().await.batch_execute("SELECT 1").await.expect("it noticed nothing") });
}
