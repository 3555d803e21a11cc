//! DDL through sessions, on a tenant in memory.

mod alter;
mod copies;
mod deferral;
mod dependents;
mod errors;
mod frameworks;
mod generated;
mod objects;
mod partial;
mod renames;
mod scripts;
mod turns;

use crate::session::Session;
use crate::session::testing::Bench;

/// A tenant, a session of its owner, and `sql` run in it.
fn after(sql: &str) -> (Bench, Session) {
    let mut bench = Bench::new();
    let mut session = bench.session();
    if !sql.is_empty() {
        bench.run(&mut session, sql);
    }
    (bench, session)
}

/// SQLSTATE and message of the script's error, after `sql`.
fn failure(sql: &str, failing: &str) -> String {
    let (mut bench, mut session) = after(sql);
    let error = bench.fail(&mut session, failing);
    format!("{} {}", error.state(), error.message())
}

/// Rows of `query` after `sql`.
fn rows(sql: &str, query: &str) -> Vec<String> {
    let (mut bench, mut session) = after(sql);
    bench.run(&mut session, query).lines()
}

/// Messages of the notices of `sql`.
fn notices(before: &str, sql: &str) -> Vec<String> {
    let (mut bench, mut session) = after(before);
    bench.run(&mut session, sql).notices().into_iter().map(str::to_owned).collect()
}

/// The names of a table's constraints, in their order: checks, keys, foreign keys.
fn constraints(bench: &Bench, table: &str) -> Vec<String> {
    let table = bench.catalog().tables().find(|t| t.name == table).expect("the table exists");
    let checks = table.checks.iter().map(|c| c.name.to_string());
    let keys = table.indexes.iter().filter(|i| i.constraint.is_some()).map(|i| i.name.to_string());
    checks.chain(keys).chain(table.foreign_keys.iter().map(|k| k.name.to_string())).collect()
}
