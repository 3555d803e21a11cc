//! `rowhouse bench` with each workload, here and on PostgreSQL. What needs no conditions checked by analytical queries runs
//! in builds without them, too.

mod common;

use std::process::Command;

use common::postgres::Postgres;
use common::{Server, connect, run, said, text};
use serde_json::Value;
use workloads::cpuio;

/// Runs `rowhouse bench` with the options and `--json`; its report.
fn bench(options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .arg("bench")
        .args(options)
        .arg("--json")
        .output()
        .expect("the binary can be run");
    assert!(output.status.success(), "{options:?}:\n{}", said(&output));
    if output.stdout.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

/// The counts of a report's kinds by name.
fn counts(report: &Value) -> Vec<(String, u64)> {
    let kinds = report["kinds"].as_array().expect("a report has kinds");
    kinds
        .iter()
        .map(|kind| {
            let name = kind["name"].as_str().expect("a kind has a name");
            (name.to_owned(), kind["count"].as_u64().expect("a kind has a count"))
        })
        .collect()
}

/// The series has an interval for each `second` of the run, and adds up to the report's counts.
fn check_series(report: &Value, tenants: usize, intervals: usize) {
    let series = report["series"]["counts"].as_array().expect("the series was asked for");
    assert_eq!(series.len(), tenants);
    for (at, (name, count)) in counts(report).iter().enumerate() {
        let of_kind = |tenant: &Value| -> Vec<u64> {
            let intervals = tenant[at].as_array().expect("each kind has intervals");
            intervals.iter().map(|count| count.as_u64().expect("a count")).collect()
        };
        let all: Vec<Vec<u64>> = series.iter().map(of_kind).collect();
        assert!(all.iter().all(|of_tenant| of_tenant.len() == intervals), "{name}: {all:?}");
        assert_eq!(all.iter().flatten().sum::<u64>(), *count, "{name}: {all:?}");
    }
}

const CPUIO: [&str; 9] =
    ["cpuio", "--rows", "20000", "--row-bytes", "120", "--scan-rows", "500", "--cpu-rounds", "100"];

const DVDSTORE: [&str; 5] = ["dvdstore", "--scale", "0.1", "--clients", "4"];

#[test]
fn cpuio_runs_each_query_on_the_point_path() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    let options = ["--url", &url, "--clients", "3", "--warm-up", "0", "--seconds", "2", "--series", "0.5"];
    let report = bench(&[&CPUIO[..], &options].concat());
    assert!(counts(&report).iter().all(|(_, count)| *count > 0), "{report:#}");
    check_series(&report, 1, 4);
    run(async {
        let client = server.owner("acme").await;
        for (sql, values) in [(cpuio::CPU, "1000"), (cpuio::SCAN, "1, 1000"), (cpuio::LOOKUP, "7")] {
            client.batch_execute(&format!("PREPARE q AS {sql}")).await.expect("it can be prepared");
            let plan = text(&client, &format!("EXPLAIN EXECUTE q({values})")).await;
            assert!(plan.contains("Point path"), "{sql}: {plan}");
            client.batch_execute("DEALLOCATE q").await.expect("it was prepared");
        }
        let spread = "SELECT count(*), count(DISTINCT spread), max(spread) FROM cpuio WHERE id <= 1000";
        assert_ne!(text(&client, spread).await, "0");
    });
    // A kind without a weight does not run; the table is used as it is; a client ends after its transactions.
    let more = ["--url", &url, "--no-load", "--warm-up", "0", "--mix", "lookup=1", "--transactions", "25"];
    let report = bench(&[&CPUIO[..], &more].concat());
    assert_eq!(counts(&report), [("cpu".into(), 0), ("scan".into(), 0), ("lookup".into(), 25)]);
    assert!(report["seconds"].as_f64().expect("seconds") < 30.0, "the transactions end the run: {report:#}");
}

#[test]
fn cpuio_finds_out_that_another_table_was_loaded() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    bench(&[&CPUIO[..], &["--url", &url, "--load-only"]].concat());
    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["bench", "cpuio", "--rows", "20000", "--lookup-rows", "11", "--mix", "lookup=1"])
        .args(["--url", &url, "--no-load", "--warm-up", "0", "--seconds", "5"])
        .output()
        .expect("the binary can be run");
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("a lookup found 10 rows where 11"), "{}", said(&output));
}

#[test]
fn the_dvd_store_runs_every_step_of_a_visit() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    let options = ["--url", &url, "--warm-up", "0", "--seconds", "3", "--no-check", "--series", "1"];
    let report = bench(&[&DVDSTORE[..], &options].concat());
    check_series(&report, 1, 3);
    let counts = counts(&report);
    assert!(counts.iter().all(|(_, count)| *count > 0), "{report:#}");
    let orders = counts.last().expect("purchases are the last kind").1;
    assert!((report["opm"].as_f64().expect("a rate") - orders as f64 * 20.0).abs() < 1.0, "{report:#}");
}

#[test]
fn workloads_run_on_postgresql_too() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let common = ["--url", &url, "--tenants", "2", "--warm-up", "0.2", "--seconds", "2", "--series", "1"];
    for workload in [&["tpcc", "--scale", "0.01"][..], &["pgbench"], &DVDSTORE, &CPUIO] {
        let report = bench(&[workload, &common].concat());
        assert!(report["transactions"].as_u64() > Some(0), "{report:#}");
        assert_eq!(report["violations"], Value::Array(Vec::new()), "{report:#}");
        check_series(&report, 2, 2);
    }
    run(async {
        // Every value of the second index has its ten rows, on pages far from each other.
        let client = connect(&url.replace("/postgres", "/bench1")).await.expect("the database is there");
        let wrong =
            "SELECT count(*) FROM (SELECT spread FROM cpuio GROUP BY spread HAVING count(*) <> 10) AS x";
        assert_eq!(text(&client, wrong).await, "0");
        let pages = "SELECT count(*) FROM (SELECT spread FROM cpuio GROUP BY spread
                     HAVING count(DISTINCT (ctid::text::point)[0]) <> 10) AS x";
        assert_eq!(text(&client, pages).await, "0", "two rows of one value are on one page");
    });
}
