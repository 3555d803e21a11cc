//! What a savepoint takes back of the session: settings, what the transaction is, cursors; and the end of a transaction that was to be prepared. As
//! PostgreSQL 15 has it.

use super::testing::Bench;

/// Each query or statement in turn; its rows, or its error.
#[track_caller]
fn check(steps: &[(&str, &str)]) {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (a int)");
    for (script, expected) in steps {
        let said = match bench.try_run(&mut session, script) {
            Ok(answer) => answer.lines().join(" "),
            Err(super::Pause::Error(error)) => format!("{} {}", error.state(), error.message()),
            Err(pause) => panic!("{script}: {pause:?}"),
        };
        assert_eq!(said, *expected, "{script}");
    }
}

#[test]
fn read_only_ends_with_the_savepoint_it_was_said_behind() {
    check(&[
        ("BEGIN; SAVEPOINT s; SET TRANSACTION READ ONLY; SHOW transaction_read_only", "on"),
        ("ROLLBACK TO s; SHOW transaction_read_only", "off"),
        ("INSERT INTO t VALUES (1); SELECT a FROM t", "1"),
        ("SAVEPOINT u; SET TRANSACTION READ ONLY; RELEASE u; SHOW transaction_read_only", "off"),
        ("INSERT INTO t VALUES (2); COMMIT; SELECT a FROM t", "1 2"),
        // Before the savepoint it stays.
        ("BEGIN; SET TRANSACTION READ ONLY; SAVEPOINT s; ROLLBACK TO s; SHOW transaction_read_only", "on"),
        ("INSERT INTO t VALUES (3)", "25006 cannot execute INSERT in a read-only transaction"),
        ("ROLLBACK TO s; SHOW transaction_read_only; ROLLBACK", "on"),
    ]);
}

#[test]
fn behind_a_savepoint_a_transaction_becomes_nothing_freer() {
    let isolation = "25001 SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction";
    let writes = "25001 cannot set transaction read-write mode inside a read-only transaction";
    check(&[
        ("BEGIN; SAVEPOINT s; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", isolation),
        ("ROLLBACK; BEGIN READ ONLY; SAVEPOINT s; SET TRANSACTION READ WRITE", writes),
        ("ROLLBACK; BEGIN READ ONLY; SAVEPOINT s; RELEASE s; SET TRANSACTION READ WRITE; COMMIT", ""),
        (
            "BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SAVEPOINT s; ROLLBACK TO s; SHOW transaction_isolation; ROLLBACK",
            "serializable",
        ),
    ]);
}

#[test]
fn settings_and_cursors_go_with_the_savepoint_they_were_made_behind() {
    check(&[
        ("BEGIN; SAVEPOINT s; SET work_mem = '6MB'; SET LOCAL statement_timeout = '7s'", ""),
        ("ROLLBACK TO s; SHOW work_mem", "4MB"),
        ("SHOW statement_timeout", "0"),
        ("DECLARE c CURSOR FOR SELECT 1; ROLLBACK TO s; FETCH c", "34000 cursor \"c\" does not exist"),
        (
            "ROLLBACK TO s; DECLARE c CURSOR WITH HOLD FOR SELECT 1; ROLLBACK TO s; DECLARE c CURSOR FOR SELECT 2",
            "",
        ),
        ("RELEASE s; SAVEPOINT u; ROLLBACK TO u; FETCH c", "2"),
        ("COMMIT", ""),
        // One that was released belongs to the savepoint around it.
        ("BEGIN; SAVEPOINT s; SAVEPOINT u; DECLARE c CURSOR FOR SELECT 1; RELEASE u; ROLLBACK TO s", ""),
        ("FETCH c", "34000 cursor \"c\" does not exist"),
        // What was fetched stays fetched, what was closed closed.
        ("ROLLBACK; BEGIN; DECLARE c CURSOR FOR VALUES (1), (2), (3); SAVEPOINT s; FETCH c", "1"),
        ("ROLLBACK TO s; FETCH c", "2"),
        ("CLOSE c; ROLLBACK TO s; FETCH c", "34000 cursor \"c\" does not exist"),
    ]);
}

#[test]
fn what_a_transaction_is_can_be_said_within_a_query_and_by_its_settings() {
    check(&[
        ("SET TRANSACTION READ ONLY; SHOW transaction_read_only", "on"),
        ("SHOW transaction_read_only", "off"),
        (
            "SET TRANSACTION READ ONLY; INSERT INTO t VALUES (1)",
            "25006 cannot execute INSERT in a read-only transaction",
        ),
        ("BEGIN; SET transaction_isolation = 'serializable'; SHOW transaction_isolation", "serializable"),
        ("SET LOCAL transaction_read_only = on; SHOW transaction_read_only", "on"),
        (
            "SET transaction_read_only = perhaps",
            "22023 parameter \"transaction_read_only\" requires a Boolean value",
        ),
        (
            "ROLLBACK; BEGIN; SELECT 1; SET transaction_isolation = 'serializable'",
            "25001 SET TRANSACTION ISOLATION LEVEL must be called before any query",
        ),
        ("ROLLBACK", ""),
    ]);
    let mut bench = Bench::new();
    let mut session = bench.session();
    let warning = "SET TRANSACTION can only be used in transaction blocks";
    assert_eq!(bench.run(&mut session, "SET TRANSACTION READ ONLY").notices(), [warning]);
    assert!(bench.run(&mut session, "SELECT 1; SET TRANSACTION READ ONLY").notices().is_empty());
}

#[test]
fn vacuum_stands_alone_in_its_query() {
    let refused = "25001 VACUUM cannot run inside a transaction block";
    check(&[("SELECT 1; VACUUM", refused), ("VACUUM; SELECT 1", refused), ("VACUUM t", "")]);
}

#[test]
fn a_transaction_that_was_to_be_prepared_is_rolled_back() {
    let disabled = "55000 prepared transactions are disabled";
    check(&[
        ("BEGIN; INSERT INTO t VALUES (1)", ""),
        ("PREPARE TRANSACTION 'x'", disabled),
        // No block is left.
        ("INSERT INTO t VALUES (2); SELECT a FROM t", "2"),
        ("BEGIN; SELECT 1 / 0", "22012 division by zero"),
        ("PREPARE TRANSACTION 'x'", ""),
        ("PREPARE TRANSACTION 'x'; SELECT a FROM t", "2"),
        ("COMMIT PREPARED 'x'", "42704 prepared transaction with identifier \"x\" does not exist"),
        ("ROLLBACK PREPARED 'y'", "42704 prepared transaction with identifier \"y\" does not exist"),
        ("BEGIN; COMMIT PREPARED 'x'", "25001 COMMIT PREPARED cannot run inside a transaction block"),
        ("ROLLBACK", ""),
        ("PREPARE TRANSACTION x", "42601 syntax error at or near \"x\""),
        ("PREPARE transactions AS SELECT 7; EXECUTE transactions", "7"),
    ]);
}
