//! What an open transaction holds against others, however it came to be open, and what it gives back.

use base::{SqlError, SqlState};
use tenant::locks::LockWait;

use super::testing::Bench;
use super::{Pause, Session};

const FAMILY: &str = "create table p (id int primary key); insert into p values (1);
    create table c (id int primary key, p int constraint c_p references p); create table z (a int)";

fn family() -> (Bench, Session, Session) {
    let mut bench = Bench::new();
    let (mut one, other) = (bench.session(), bench.session());
    bench.run(&mut one, FAMILY);
    (bench, one, other)
}

#[track_caller]
fn waits(bench: &mut Bench, session: &mut Session, sql: &str) -> LockWait {
    match bench.try_run(session, sql) {
        Err(Pause::Lock(wait)) => wait,
        result => panic!("{sql} waits: {result:?}"),
    }
}

#[test]
fn what_a_script_locked_before_its_begin_stays_locked() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "insert into c values (1, 1); begin");
    waits(&mut bench, &mut other, "delete from p where id = 1");
    bench.run(&mut one, "commit");
    assert_eq!(bench.fail(&mut other, "delete from p where id = 1").state(), SqlState::FOREIGN_KEY_VIOLATION);

    bench.run(&mut one, "update c set p = null; begin");
    waits(&mut bench, &mut other, "update c set p = 1");
    bench.run(&mut one, "rollback");
    bench.run(&mut other, "update c set p = null");
}

#[test]
fn a_snapshot_changes_no_rows_by_definitions_that_are_gone() {
    for (level, change) in [
        ("repeatable read", "alter table c drop constraint c_p"),
        ("serializable", "alter table c add check (id > 5) not valid"),
        ("repeatable read", "create index on c (p)"),
        ("repeatable read", "truncate c"),
    ] {
        for sql in ["insert into c values (2, 1)", "update c set p = 1", "select * from c for update"] {
            let (mut bench, mut one, mut other) = family();
            bench.run(&mut one, "insert into c values (1, 1)");
            bench.run(&mut one, &format!("begin isolation level {level}; select a from z"));
            bench.run(&mut other, change);
            let error = bench.fail(&mut one, sql);
            assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{sql} behind {change}: {error:?}");
            bench.run(&mut one, "rollback");
            // Others see what is there.
            bench.run(
                &mut one,
                "begin isolation level repeatable read; select id from c; delete from c; commit",
            );
        }
    }
}

#[test]
fn a_row_that_is_referenced_keeps_its_table_from_being_rewritten() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "begin; insert into c values (1, 1)");
    let rewrite = "alter table p add column r float8 default random()";
    waits(&mut bench, &mut other, rewrite);
    bench.run(&mut one, "commit");
    bench.run(&mut other, rewrite);
    assert_eq!(bench.fail(&mut other, "delete from p where id = 1").state(), SqlState::FOREIGN_KEY_VIOLATION);
}

#[test]
fn a_commit_that_is_given_up_while_it_waits_leaves_no_block() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "alter table c alter constraint c_p deferrable initially deferred");
    bench.run(&mut other, "begin; delete from p where id = 1");
    bench.run(&mut one, "begin; insert into c values (1, 1)");
    waits(&mut bench, &mut one, "commit");
    bench.turn(|home| one.fail(home, &SqlError::new(SqlState::QUERY_CANCELED, "given up")));
    bench.run(&mut other, "rollback");
    assert_eq!(bench.run(&mut one, "rollback").notices(), ["there is no transaction in progress"]);
    assert_eq!(bench.run(&mut one, "select id from c").lines(), [] as [&str; 0]);
    // A statement that is given up leaves the block failed.
    bench.run(&mut other, "begin; delete from p where id = 1");
    bench.run(&mut one, "begin; set constraints all immediate");
    waits(&mut bench, &mut one, "insert into c values (1, 1)");
    bench.turn(|home| one.fail(home, &SqlError::new(SqlState::QUERY_CANCELED, "given up")));
    assert_eq!(bench.fail(&mut one, "select 1").state(), SqlState::IN_FAILED_SQL_TRANSACTION);
}

/// Whoever waits behind one that cannot go on does not wait for that one where it holds a part of the lock.
#[test]
fn who_holds_a_part_of_a_lock_waits_for_holders_alone() {
    let (mut bench, mut one, mut two) = family();
    let mut three = bench.session();
    bench.run(&mut one, "alter table p add column n int default 0");
    bench.run(&mut one, "begin; insert into c values (1, 1)");
    bench.run(&mut two, "begin; insert into c values (2, 1)");
    bench.run(&mut three, "begin; update p set n = n + 1 where id = 1");
    let update = "update p set n = n + 1 where id = 1";
    let of_one = waits(&mut bench, &mut one, update);
    let of_two = waits(&mut bench, &mut two, "delete from p where id = 1");
    bench.run(&mut three, "commit");
    assert!(of_one.is_over() && !of_two.is_over());
    bench.run(&mut one, update);
    bench.run(&mut one, "commit");
    assert!(of_two.is_over());
    assert_eq!(bench.fail(&mut two, "delete from p where id = 1").state(), SqlState::FOREIGN_KEY_VIOLATION);
}

/// A client that is told of a row in an error knows of it as one that is given the row.
#[test]
fn an_error_waits_for_what_it_tells_of() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "insert into c values (1, 1)");
    assert!(one.observed().is_some());
    for sql in ["insert into c values (1, 1)", "delete from p", "select 1 / (id - 1) from c"] {
        other.reset_observed();
        bench.fail(&mut other, sql);
        assert_eq!(other.observed(), one.observed(), "{sql}");
    }
    // What a table's definition tells is of the commit that made it.
    bench.run(&mut one, "truncate c");
    other.reset_observed();
    assert_eq!(bench.run(&mut other, "select count(*) from c where id = 1").lines(), ["0"]);
    assert_eq!(other.observed(), one.observed());
}

#[test]
fn what_is_told_of_definitions_waits_for_them() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "create table made (id int)");
    other.reset_observed();
    bench.run(&mut other, "create table if not exists made (id int)");
    assert_eq!(other.observed(), one.observed());
    bench.run(&mut one, "drop table made");
    other.reset_observed();
    assert_eq!(bench.fail(&mut other, "select id from made").state(), SqlState::UNDEFINED_TABLE);
    assert_eq!(other.observed(), one.observed());
    // What only others' rows were changed by is in nobody's way.
    let defined = other.observed();
    bench.run(&mut one, "insert into z values (1)");
    other.reset_observed();
    bench.run(&mut other, "drop table if exists made");
    assert!(other.observed() == defined && defined < one.observed());
}

#[test]
fn an_error_at_the_end_of_a_transaction_waits_for_what_it_tells_of() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "create table d (p int references p deferrable initially deferred)");
    bench.run(&mut other, "begin; insert into d values (1)");
    bench.run(&mut one, "delete from p where id = 1");
    other.reset_observed();
    assert_eq!(bench.fail(&mut other, "commit").state(), SqlState::FOREIGN_KEY_VIOLATION);
    assert_eq!(other.observed(), one.observed());
}

#[test]
fn a_change_and_what_it_returns_read_what_there_was_before_it() {
    let (mut bench, mut one, _) = family();
    bench.run(&mut one, "create table t (id int primary key, n int)");
    let mut lines = |sql: &str| bench.run(&mut one, sql).lines();
    lines("insert into t values (1, (select count(*) from t)), (2, (select count(*) from t))");
    assert_eq!(lines("select n from t order by id"), ["0", "0"]);
    assert_eq!(lines("update t set n = n + 1 returning (select sum(n) from t)"), ["0", "0"]);
    assert_eq!(lines("delete from t where id = 1 returning (select count(*) from t)"), ["2"]);
    let upsert = "insert into t values (2, 0), (3, 0) on conflict (id) do update set n = (select count(*) from t) returning id, n";
    assert_eq!(lines(upsert), ["2|1", "3|0"]);
}

#[test]
fn lock_table_takes_no_snapshot() {
    let (mut bench, mut one, mut other) = family();
    bench.run(&mut one, "begin; lock table z");
    bench.run(&mut other, "begin isolation level repeatable read; set local work_mem = '5MB'; show work_mem");
    let wait = waits(&mut bench, &mut other, "lock table z");
    bench.run(&mut one, "insert into z values (1); commit");
    assert!(wait.is_over());
    bench.run(&mut other, "lock table z");
    bench.run(&mut one, "insert into c values (1, 1)");
    assert_eq!(bench.run(&mut other, "select id from c").lines(), ["1"]);
    bench.run(&mut one, "insert into c values (2, 1)");
    assert_eq!(bench.run(&mut other, "select id from c").lines(), ["1"]);
    assert_eq!(bench.run(&mut other, "update z set a = 2; select a from z; commit").lines(), ["2"]);
}

#[test]
fn a_session_locks_once_what_a_statement_locks_that_is_run_again() {
    let (mut bench, mut one, mut other) = family();
    let both = "select pg_advisory_lock(1), pg_advisory_lock(2)";
    let unlock = "select pg_advisory_unlock(1), pg_advisory_unlock(2)";
    bench.run(&mut other, "select pg_advisory_lock(2)");
    let wait = waits(&mut bench, &mut one, both);
    bench.run(&mut other, "select pg_advisory_unlock(2)");
    assert!(wait.is_over());
    bench.run(&mut one, both);
    assert_eq!(bench.run(&mut one, unlock).lines(), ["t|t"]);
    assert_eq!(bench.run(&mut one, unlock).lines(), ["f|f"]);
    // What failed has locked all the same, be it before it ran again or when.
    bench.run(&mut other, "select pg_advisory_lock(2)");
    waits(&mut bench, &mut one, both);
    bench.turn(|home| one.fail(home, &SqlError::new(SqlState::QUERY_CANCELED, "given up")));
    bench.run(&mut other, "select pg_advisory_unlock(2)");
    assert_eq!(bench.run(&mut one, unlock).lines(), ["t|f"]);
    bench.fail(&mut one, "select pg_advisory_lock(id), 1 / (id - 1) from p");
    assert_eq!(bench.run(&mut one, unlock).lines(), ["t|f"]);
    assert_eq!(bench.run(&mut one, unlock).lines(), ["f|f"]);
    bench.run(&mut other, both);
}

#[test]
fn a_held_cursor_goes_with_no_transaction_but_its_own() {
    let (mut bench, mut one, _) = family();
    // All at one instant.
    let hold = "declare k cursor with hold for values (1), (2), (3)";
    bench.run(&mut one, &format!("begin; {hold}; commit; begin; rollback"));
    assert_eq!(bench.run(&mut one, "fetch k").lines(), ["1"]);
    bench.fail(&mut one, "begin; select 1 / (id - 1) from p");
    bench.run(&mut one, "rollback");
    assert_eq!(bench.run(&mut one, "fetch k").lines(), ["2"]);
    bench.run(&mut one, "begin; close k; rollback");
    bench.run(&mut one, &format!("begin; {hold}; rollback"));
    assert_eq!(bench.fail(&mut one, "fetch k").state(), SqlState::INVALID_CURSOR_NAME);
}

#[test]
fn values_of_a_sequence_are_given_out_once_however_a_transaction_goes_back() {
    let (mut bench, mut one, _) = family();
    let next = "select nextval('s')";
    bench.run(&mut one, "begin; create sequence s; savepoint a");
    assert_eq!(bench.run(&mut one, next).lines(), ["1"]);
    assert_eq!(bench.run(&mut one, &format!("rollback to a; {next}")).lines(), ["2"]);
    bench.fail(&mut one, "select nextval('s') / (id - 1) from p");
    assert_eq!(bench.run(&mut one, &format!("rollback to a; {next}")).lines(), ["4"]);
    assert_eq!(bench.run(&mut one, &format!("alter sequence s restart 20; {next}")).lines(), ["20"]);
    assert_eq!(bench.run(&mut one, &format!("rollback to a; {next}; commit; {next}")).lines(), ["5", "6"]);
}

const TWO_ROWS: &str = "create table t (id int primary key, a int); insert into t values (1, 1), (2, 1)";
const FAILED: SqlState = SqlState::IN_FAILED_SQL_TRANSACTION;

#[test]
fn a_failed_block_holds_nothing() {
    for (locks, free) in [
        ("update t set a = 2", "update t set a = 3"),
        ("select pg_advisory_xact_lock(7)", "select pg_advisory_xact_lock(7)"),
        ("lock table t", "insert into t values (3, 1)"),
        ("alter table t add b int", "alter table t add c int"),
        ("create table u (id int)", "create table u (id int)"),
        ("declare c cursor for select id from t; fetch c", "drop table t"),
    ] {
        let mut bench = Bench::new();
        let (mut one, mut other) = (bench.session(), bench.session());
        bench.run(&mut one, TWO_ROWS);
        bench.run(&mut one, &format!("begin; {locks}"));
        waits(&mut bench, &mut other, free);
        let error = bench.fail(&mut one, "select 1/0");
        assert_eq!(error.state(), SqlState::DIVISION_BY_ZERO);
        bench.run(&mut other, free);
        assert_eq!(bench.fail(&mut one, "select 1").state(), FAILED, "{locks}");
        let error = bench.fail(&mut one, "rollback to s");
        assert_eq!(error.state(), SqlState::INVALID_SAVEPOINT_SPECIFICATION, "{locks}");
        assert_eq!(bench.run(&mut one, "commit").tags, ["ROLLBACK"], "{locks}");
        assert!(super::testing::locks_of(bench.tenant()).is_empty());
        assert_eq!(bench.tenant().change_bytes(), base::ByteCount(0));
    }
}

#[test]
fn a_failed_block_is_what_it_was_when_it_is_chained() {
    let (mut bench, mut one, _) = family();
    bench.run(&mut one, "begin isolation level serializable read only");
    bench.fail(&mut one, "select 1/0");
    let shown =
        bench.run(&mut one, "rollback and chain; show transaction_isolation; show transaction_read_only");
    assert_eq!(shown.lines(), ["serializable", "on"]);
    assert_eq!(bench.fail(&mut one, "insert into p values (2)").state().as_str(), "25006");
    bench.run(&mut one, "rollback");
}

#[test]
fn a_failed_block_holds_what_it_had_before_its_last_savepoint() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut one, TWO_ROWS);
    bench.run(
        &mut one,
        "begin; update t set a = 2 where id = 1; savepoint s; update t set a = 2 where id = 2",
    );
    waits(&mut bench, &mut other, "update t set a = 3 where id = 2");
    bench.fail(&mut one, "select 1/0");
    bench.run(&mut other, "update t set a = 3 where id = 2");
    waits(&mut bench, &mut other, "update t set a = 3 where id = 1");
    assert_eq!(bench.fail(&mut one, "select 1").state(), FAILED);
    // It goes on from there, and fails again.
    bench.run(&mut one, "rollback to s; insert into t values (3, 2)");
    bench.fail(&mut one, "rollback to r");
    bench.run(&mut one, "rollback to s; insert into t values (4, 2); commit");
    let rows = bench.run(&mut one, "select id, a from t order by id").lines().join(" ");
    assert_eq!(rows, "1|2 2|3 4|2");
}

/// A cursor's query is a statement within the one that declares it.
#[test]
fn a_block_that_a_part_of_a_statement_failed_is_taken_back_once() {
    for (savepoint, left) in [("", "1|1 2|1 9|9"), ("savepoint s;", "1|2 2|2 9|9")] {
        let mut bench = Bench::new();
        let (mut one, mut other) = (bench.session(), bench.session());
        bench.run(&mut one, TWO_ROWS);
        let begin = format!("begin; update t set a = 2; {savepoint} insert into t values (3, 2)");
        bench.run(&mut one, &begin);
        let error = bench.fail(&mut one, "declare c cursor for select 1 / (a - 2) from t");
        assert_eq!(error.state(), SqlState::DIVISION_BY_ZERO);
        bench.run(&mut other, "insert into t values (9, 9)");
        if !savepoint.is_empty() {
            bench.run(&mut one, "rollback to s");
        }
        bench.run(&mut one, "commit");
        let rows = bench.run(&mut one, "select id, a from t order by id").lines().join(" ");
        assert_eq!(rows, left, "{savepoint}");
    }
}
