//! Scripts whose outcomes PostgreSQL 15 told.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base::SqlError;

use crate::database::{Database, Outcome};

/// A script's statements: each ends with a semicolon at the end of a line.
fn statements(script: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut current = String::new();
    for line in script.lines().filter(|line| !line.starts_with("--") && !line.trim().is_empty()) {
        current.push_str(line);
        current.push('\n');
        if line.ends_with(';') {
            all.push(current.trim_end().trim_end_matches(';').to_owned());
            current.clear();
        }
    }
    assert!(current.is_empty(), "the script's last statement ends");
    all
}

fn write_error(out: &mut String, error: &SqlError) {
    writeln!(out, "ERROR {}: {}", error.state().as_str(), error.message()).unwrap();
    if let Some(detail) = error.detail() {
        writeln!(out, "DETAIL {detail}").unwrap();
    }
}

fn run(script: &str) -> String {
    let mut database = Database::new();
    let mut out = String::new();
    for sql in statements(script) {
        writeln!(out, "{sql};").unwrap();
        match database.execute(&sql) {
            Err(error) => write_error(&mut out, &error),
            Ok(Outcome::Analytic(reason)) => writeln!(out, "ANALYTIC {reason}").unwrap(),
            Ok(Outcome::Done) => writeln!(out, "DONE").unwrap(),
            Ok(Outcome::Rows { columns, rows, tag }) => {
                if !columns.is_empty() {
                    let head: Vec<String> = columns
                        .iter()
                        .map(|c| format!("{}:{}", c.name, types::format_type(c.ty, c.typmod)))
                        .collect();
                    writeln!(out, "{}", head.join("|")).unwrap();
                }
                let mut lines: Vec<String> = database
                    .to_text(&columns, &rows)
                    .into_iter()
                    .map(|row| {
                        row.into_iter()
                            .map(|v| v.unwrap_or_else(|| "NULL".into()))
                            .collect::<Vec<_>>()
                            .join("|")
                    })
                    .collect();
                if !sql.to_lowercase().contains("order by") {
                    lines.sort();
                }
                for line in lines {
                    writeln!(out, "{line}").unwrap();
                }
                writeln!(out, "{tag}").unwrap();
            }
        }
        out.push('\n');
    }
    out
}

fn check(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/point_path/scripts");
    let path: PathBuf = folder.join(format!("{name}.sql"));
    let script = std::fs::read_to_string(&path).expect("the script is there");
    let expected = std::fs::read_to_string(path.with_extension("out")).expect("expect.py was run");
    let found = run(&script);
    if found == expected {
        return;
    }
    let mut report = String::new();
    let (mut ours, mut theirs) = (found.split("\n\n"), expected.split("\n\n"));
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                writeln!(report, "found:\n{}\nexpected:\n{}\n", a.unwrap_or("-"), b.unwrap_or("-")).unwrap();
            }
        }
    }
    panic!("{name}.sql differs from PostgreSQL:\n{report}");
}

#[test]
fn queries_answer_as_postgresql() {
    check("select");
}

#[test]
fn changes_answer_as_postgresql() {
    check("change");
}

#[test]
fn errors_read_as_postgresql() {
    check("errors");
}

#[test]
fn conflicts_are_decided_as_in_postgresql() {
    check("conflict");
}

#[test]
fn references_are_kept_as_in_postgresql() {
    check("reference");
}
