//! What an open transaction holds against others, however it came to be open, and what it gives back.

use base::{SqlError, SqlState};

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
fn waits(bench: &mut Bench, session: &mut Session, sql: &str) {
    match bench.try_run(session, sql) {
        Err(Pause::Lock(_)) => {}
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
