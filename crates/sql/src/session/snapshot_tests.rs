//! `pg_export_snapshot` and `SET TRANSACTION SNAPSHOT`. Errors are PostgreSQL 15's.

use super::Session;
use super::testing::Bench;

fn two_rows() -> (Bench, Session, Session) {
    let mut bench = Bench::new();
    let (mut one, other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)");
    (bench, one, other)
}

/// What a session exports, in a block that this begins.
fn export(bench: &mut Bench, session: &mut Session, begin: &str) -> String {
    bench.run(session, begin);
    bench.run(session, "SELECT pg_catalog.pg_export_snapshot()").lines().concat()
}

#[track_caller]
fn fails(bench: &mut Bench, session: &mut Session, sql: &str, expected: &str) {
    let error = bench.fail(session, sql);
    assert_eq!(format!("{} {}", error.state(), error.message()), expected, "{sql}");
    bench.run(session, "ROLLBACK");
}

#[test]
fn who_imports_a_snapshot_reads_what_its_exporter_reads() {
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE"] {
        let (mut bench, mut one, mut other) = two_rows();
        let id = export(&mut bench, &mut one, begin);
        bench.run(&mut one, "INSERT INTO t VALUES (3)");
        bench.run(&mut other, "INSERT INTO t VALUES (4)");
        bench.run(&mut other, "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY");
        bench.run(&mut other, &format!("SET TRANSACTION SNAPSHOT '{id}'"));
        assert_eq!(bench.run(&mut other, "SELECT a FROM t").lines(), ["1", "2"], "{begin}");
        // It reads on when the exporter has ended, and nobody else can import it.
        bench.run(&mut one, "COMMIT");
        assert_eq!(bench.run(&mut other, "SELECT a FROM t").lines(), ["1", "2"], "{begin}");
        bench.run(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        let gone = format!("22023 invalid snapshot identifier: \"{id}\"");
        fails(&mut bench, &mut one, &format!("SET TRANSACTION SNAPSHOT '{id}'"), &gone);
        bench.run(&mut other, "COMMIT");
        assert_eq!(bench.run(&mut other, "SELECT count(*) FROM t").lines(), ["4"], "{begin}");
    }
}

#[test]
fn a_change_since_an_imported_snapshot_is_a_conflict_though_its_exporter_is_gone() {
    let (mut bench, mut one, mut other) = two_rows();
    let id = export(&mut bench, &mut one, "BEGIN");
    bench.run(&mut other, "UPDATE t SET a = 5 WHERE a = 1");
    bench.run(&mut other, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    bench.run(&mut other, &format!("SET TRANSACTION SNAPSHOT '{id}'"));
    bench.run(&mut one, "ROLLBACK");
    let error = bench.fail(&mut other, "UPDATE t SET a = 6 WHERE a = 1");
    assert_eq!(error.state(), base::SqlState::SERIALIZATION_FAILURE);
}

#[test]
fn a_snapshot_is_imported_first_and_at_a_level_that_keeps_one() {
    let (mut bench, mut one, mut other) = two_rows();
    let id = export(&mut bench, &mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let import = format!("SET TRANSACTION SNAPSHOT '{id}'");
    let late = "25001 SET TRANSACTION SNAPSHOT must be called before any query";
    for before in ["SELECT a FROM t", "SAVEPOINT s", import.as_str()] {
        bench.run(&mut other, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        bench.run(&mut other, before);
        fails(&mut bench, &mut other, &import, late);
    }
    bench.run(&mut other, "BEGIN");
    let level =
        "0A000 a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
    fails(&mut bench, &mut other, &import, level);
    bench.run(&mut other, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    let source =
        "0A000 a serializable transaction cannot import a snapshot from a non-serializable transaction";
    fails(&mut bench, &mut other, &import, source);
    bench.run(&mut other, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let invalid = "22023 invalid snapshot identifier: \"../x\"";
    fails(&mut bench, &mut other, "SET TRANSACTION SNAPSHOT '../x'", invalid);

    bench.run(&mut one, "COMMIT");
    let id = export(&mut bench, &mut one, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY");
    let import = format!("SET TRANSACTION SNAPSHOT '{id}'");
    bench.run(&mut other, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    let writes = "0A000 a non-read-only serializable transaction cannot import a snapshot from a read-only transaction";
    fails(&mut bench, &mut other, &import, writes);
    bench.run(&mut other, "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY");
    bench.run(&mut other, &import);
    bench.run(&mut other, "COMMIT");
}
