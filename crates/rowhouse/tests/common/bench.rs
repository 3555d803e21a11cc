//! `rowhouse bench` as it is typed, and its report.

use std::process::{Command, Output};

use serde_json::Value;

use super::said;

/// Runs `rowhouse bench` with the options; what came of it.
pub fn run_bench(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    command.arg("bench").args(options).output().expect("the binary can be run")
}

/// Runs `rowhouse bench` with the options and `--json`; its report.
pub fn bench(options: &[&str]) -> Value {
    let output = run_bench(&[options, &["--json"]].concat());
    assert!(output.status.success(), "{options:?}:\n{}", said(&output));
    if output.stdout.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

/// The counts of a report's kinds by name.
pub fn counts(report: &Value) -> Vec<(String, u64)> {
    let kinds = report["kinds"].as_array().expect("a report has kinds");
    kinds
        .iter()
        .map(|kind| {
            let name = kind["name"].as_str().expect("a kind has a name");
            (name.to_owned(), kind["count"].as_u64().expect("a kind has a count"))
        })
        .collect()
}
