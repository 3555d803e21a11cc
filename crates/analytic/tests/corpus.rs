//! What psql 15, SQLAlchemy 2, psycopg 3, asyncpg, the JDBC driver and the migration tools of web frameworks ask of the system
//! catalogs: every query must run.

#[allow(dead_code, reason = "what only other tests use")]
mod support;

use support::Sample;

fn run_all(corpus: &str) {
    let mut sample = Sample::new();
    let mut failures = Vec::new();
    let mut asked = 0;
    for entry in corpus.split(";\n\n") {
        let sql: String = entry.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        if sql.trim().is_empty() {
            continue;
        }
        asked += 1;
        if let Err(error) = sample.query(sql.trim()) {
            failures.push(format!("{error}\n{sql}\n"));
        }
    }
    assert!(failures.is_empty(), "{} of {asked} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn psql_describes_databases_and_their_objects() {
    run_all(include_str!("corpus/psql.sql"));
}

#[test]
fn sqlalchemy_reflects_a_schema() {
    run_all(include_str!("corpus/sqlalchemy.sql"));
}

#[test]
fn psycopg_finds_types() {
    run_all(include_str!("corpus/psycopg.sql"));
}

#[test]
fn asyncpg_introspects_types() {
    run_all(include_str!("corpus/asyncpg.sql"));
}

#[test]
fn the_jdbc_driver_reads_metadata() {
    run_all(include_str!("corpus/jdbc.sql"));
}

#[test]
fn frameworks_introspect_a_schema() {
    run_all(include_str!("corpus/frameworks.sql"));
}
