//! Foreign keys that are checked at the transaction's end, and constraints that are not valid yet. The texts are PostgreSQL 15's.

use super::after;
use crate::session::testing::Bench;
use crate::session::{Pause, Session};

/// A parent with the rows 1 and 2, a child whose key is deferred, and one whose key can be.
const FAMILY: &str = "create table p (id int primary key); insert into p values (1), (2);
    create table c (id int primary key, p int constraint c_p references p deferrable initially deferred);
    create table d (id int primary key, p int constraint d_p references p deferrable)";

const NO_PARENT: &str = "23503 insert or update on table \"c\" violates foreign key constraint \"c_p\" \
    / Key (p)=(9) is not present in table \"p\".";
const STILL_THERE: &str = "23503 update or delete on table \"p\" violates foreign key constraint \"c_p\" on table \"c\" \
    / Key (id)=(1) is still referenced from table \"c\".";

/// SQLSTATE, message and detail of a script's error.
fn failure(bench: &mut Bench, session: &mut Session, sql: &str) -> String {
    let error = loop {
        match bench.try_run(session, sql) {
            Err(Pause::Error(error)) => break error,
            Err(Pause::Yield) => {}
            other => panic!("{sql}: {:?}", other.map(|answer| answer.tags)),
        }
    };
    let detail = error.detail().map(|detail| format!(" / {detail}")).unwrap_or_default();
    format!("{} {}{detail}", error.state(), error.message())
}

fn lines(bench: &mut Bench, session: &mut Session, query: &str) -> Vec<String> {
    bench.run(session, query).lines()
}

#[test]
fn a_deferred_key_is_checked_when_its_transaction_ends() {
    let (mut bench, mut session) = after(FAMILY);
    bench.run(&mut session, "begin; insert into c values (1, 9); insert into p values (9); commit");
    bench.run(&mut session, "begin; delete from p where id = 9; delete from c; commit");
    bench.run(&mut session, "begin; insert into c values (1, 9); update c set p = 2; commit");
    bench.run(&mut session, "begin; insert into c values (2, 9); delete from c where id = 2; commit");
    bench.run(&mut session, "begin; delete from p where id = 2; insert into p values (2); commit");
    // What goes by one Query ends with it.
    bench.run(&mut session, "insert into c values (3, 9); insert into p values (9)");
    assert_eq!(lines(&mut bench, &mut session, "select id, p from c order by id"), ["1|2", "3|9"]);

    let (mut bench, mut session) = after(FAMILY);
    bench.run(&mut session, "begin; insert into c values (1, 9)");
    assert_eq!(failure(&mut bench, &mut session, "commit"), NO_PARENT);
    // The block is over, and what it did is gone.
    assert_eq!(bench.run(&mut session, "rollback").notices(), ["there is no transaction in progress"]);
    assert_eq!(lines(&mut bench, &mut session, "select * from c"), [] as [&str; 0]);
    assert_eq!(failure(&mut bench, &mut session, "insert into c values (1, 9)"), NO_PARENT);
    assert_eq!(failure(&mut bench, &mut session, "insert into c values (1, 9); select 1"), NO_PARENT);
    bench.run(&mut session, "insert into c values (1, 1)");
    for change in ["delete from p where id = 1", "update p set id = 3 where id = 1"] {
        bench.run(&mut session, &format!("begin; {change}"));
        assert_eq!(failure(&mut bench, &mut session, "commit and chain"), STILL_THERE, "{change}");
        assert_eq!(failure(&mut bench, &mut session, change), STILL_THERE, "{change}");
    }
    assert_eq!(lines(&mut bench, &mut session, "select id from p order by id"), ["1", "2"]);
}

#[test]
fn set_constraints_says_when_and_checks_what_waits() {
    let (mut bench, mut session) = after(FAMILY);
    bench.run(&mut session, "begin; insert into c values (1, 9)");
    assert_eq!(failure(&mut bench, &mut session, "set constraints c_p immediate"), NO_PARENT);
    assert_eq!(
        failure(&mut bench, &mut session, "select 1"),
        "25P02 current transaction is aborted, commands ignored until end of transaction block"
    );
    bench.run(&mut session, "rollback; begin; insert into c values (1, 9); set constraints d_p immediate");
    bench.run(&mut session, "insert into p values (9); set constraints all immediate");
    assert_eq!(failure(&mut bench, &mut session, "insert into c values (2, 8)"), NO_PARENT.replace('9', "8"));
    bench.run(&mut session, "rollback; begin; set constraints d_p deferred; insert into d values (1, 9)");
    assert_eq!(
        failure(&mut bench, &mut session, "commit"),
        NO_PARENT.replace("\"c\"", "\"d\"").replace("c_p", "d_p")
    );
    // Of the transaction alone; and one that was named goes before ALL, unless ALL came later.
    for (before, waits) in [
        ("", false),
        ("set constraints all deferred", true),
        ("set constraints all deferred; set constraints public.d_p immediate", false),
        ("set constraints d_p immediate; set constraints all deferred", true),
        ("set constraints d_p deferred; set constraints all immediate", false),
    ] {
        bench.run(&mut session, &format!("begin; {before}"));
        let outcome = bench.try_run(&mut session, "insert into d values (1, 9)");
        assert_eq!(outcome.is_ok(), waits, "{before}");
        bench.run(&mut session, "rollback");
    }
    // What passed is looked at again where it could be wrong by now.
    bench.run(&mut session, "begin; insert into p values (9); insert into c values (1, 9)");
    bench.run(
        &mut session,
        "set constraints all immediate; set constraints all deferred; delete from p where id = 9",
    );
    assert!(failure(&mut bench, &mut session, "commit").starts_with("23503"));
    bench.run(&mut session, "begin; set constraints all deferred");
    bench.run(
        &mut session,
        "insert into d values (1, 9); update d set p = 1; set constraints all immediate; commit",
    );
    assert_eq!(lines(&mut bench, &mut session, "select p from d"), ["1"]);
}

#[test]
fn savepoints_take_back_what_waits_and_what_was_said() {
    let (mut bench, mut session) = after(FAMILY);
    bench.run(&mut session, "begin; savepoint s; insert into c values (1, 9); rollback to s; commit");
    bench.run(&mut session, "begin; savepoint s; insert into c values (1, 9); release s");
    assert_eq!(failure(&mut bench, &mut session, "commit"), NO_PARENT);
    // A check that passed with what was taken back is made again.
    bench.run(&mut session, "begin; insert into c values (1, 9); savepoint s; insert into p values (9)");
    bench.run(&mut session, "set constraints all immediate; rollback to s");
    assert_eq!(failure(&mut bench, &mut session, "commit"), NO_PARENT);
    bench.run(&mut session, "begin; savepoint s; set constraints c_p immediate; rollback to s");
    bench.run(&mut session, "insert into c values (1, 9); insert into p values (9); commit");
    bench.run(&mut session, "begin; savepoint s");
    assert!(failure(&mut bench, &mut session, "insert into d values (1, 7)").starts_with("23503"));
    bench.run(&mut session, "rollback to s; insert into c values (2, 1); commit");
    assert_eq!(lines(&mut bench, &mut session, "select p from c order by p"), ["1", "9"]);
}

#[test]
fn actions_and_restrict_wait_for_nothing() {
    let (mut bench, mut session) = after(
        "create table p (id int primary key); insert into p values (1), (2), (3), (4);
         create table gone (p int references p on delete cascade on update cascade deferrable initially deferred);
         create table nulled (p int references p on delete set null deferrable initially deferred);
         create table held (p int references p on delete restrict deferrable initially deferred);
         insert into gone values (1), (4); insert into nulled values (2); insert into held values (3)",
    );
    bench.run(
        &mut session,
        "begin; delete from p where id = 1; delete from p where id = 2; update p set id = 5 where id = 4",
    );
    assert_eq!(lines(&mut bench, &mut session, "select p from gone"), ["5"]);
    assert_eq!(lines(&mut bench, &mut session, "select p is null from nulled"), ["t"]);
    assert_eq!(
        failure(&mut bench, &mut session, "delete from p where id = 3"),
        "23503 update or delete on table \"p\" violates foreign key constraint \"held_p_fkey\" on table \"held\" \
         / Key (id)=(3) is still referenced from table \"held\"."
    );
}

#[test]
fn two_that_defer_do_not_both_commit_a_violation() {
    let (mut bench, mut one) = after(FAMILY);
    let mut two = bench.session();
    // The parent goes while the child waits for its check.
    bench.run(&mut one, "begin; insert into c values (1, 1)");
    bench.run(&mut two, "delete from p where id = 1");
    assert!(failure(&mut bench, &mut one, "commit").starts_with("23503 insert or update on table \"c\""));
    // The parent is about to go: who commits the child waits for that.
    for (end, commits) in [("commit", false), ("rollback", true)] {
        bench.run(&mut one, "begin; insert into c values (2, 2)");
        bench.run(&mut two, "begin; delete from p where id = 2");
        let waiting = bench.try_run(&mut one, "commit");
        assert!(matches!(waiting, Err(Pause::Lock(_))), "{end}: {:?}", waiting.map(|_| ()));
        if commits {
            bench.run(&mut two, end);
            bench.run(&mut one, "commit");
            // Its check let nobody take the parent, and now its row does not.
            assert!(failure(&mut bench, &mut two, "delete from p where id = 2").starts_with("23503"));
        } else {
            bench.run(&mut two, end);
            assert!(failure(&mut bench, &mut one, "commit").starts_with("23503"));
            bench.run(&mut one, "insert into p values (2)");
        }
    }
    // A check that has passed holds: SET CONSTRAINTS locks the parent to the end.
    bench.run(&mut one, "begin; insert into p values (5); commit");
    bench.run(&mut one, "begin; insert into c values (5, 5); set constraints all immediate");
    let waiting = bench.try_run(&mut two, "delete from p where id = 5");
    assert!(matches!(waiting, Err(Pause::Lock(_))));
    bench.run(&mut one, "commit");
    assert!(failure(&mut bench, &mut two, "delete from p where id = 5").starts_with("23503"));
}

#[test]
fn very_many_checks_become_one_of_the_whole_table() {
    let (mut bench, mut session) = after(FAMILY);
    let mut other = bench.session();
    let fill = "insert into c select g, g from generate_series(100, 20099) g";
    bench.run(&mut session, "begin");
    bench.run(&mut session, fill);
    assert!(
        failure(&mut bench, &mut session, "commit").ends_with("Key (p)=(100) is not present in table \"p\".")
    );
    bench.run(&mut session, "begin");
    bench.run(&mut session, fill);
    bench.run(&mut session, "insert into p select g from generate_series(100, 20098) g");
    // The last one is among those that were not kept one by one.
    let error = failure(&mut bench, &mut session, "commit");
    assert!(error.ends_with("Key (p)=(20099) is not present in table \"p\"."), "{error}");
    bench.run(&mut session, "begin");
    bench.run(&mut session, fill);
    bench.run(&mut session, "insert into p select g from generate_series(100, 20099) g");
    let (_, turns) = bench.run_in_turns(&mut session, "set constraints all immediate");
    assert!(turns > 100, "{turns}");
    // Nobody changes the parents before it ends.
    let waiting = bench.try_run(&mut other, "delete from p where id = 1");
    assert!(matches!(waiting, Err(Pause::Lock(_))));
    bench.run(&mut session, "commit");
    bench.run(&mut other, "delete from p where id = 1");
    bench.run(&mut session, "begin; delete from p where id > 99");
    let error = failure(&mut bench, &mut session, "commit");
    assert!(
        error.contains("update or delete on table \"p\"") && error.contains("still referenced"),
        "{error}"
    );
}

#[test]
fn null_in_one_column_of_a_full_key_waits_too() {
    let (mut bench, mut session) = after(
        "create table p (a int, b int, primary key (a, b));
         create table c (a int, b int, foreign key (a, b) references p match full deferrable initially deferred)",
    );
    bench.run(&mut session, "begin; insert into c values (1, null); update c set a = null; commit");
    bench.run(&mut session, "begin; insert into c values (1, null)");
    assert_eq!(
        failure(&mut bench, &mut session, "commit"),
        "23503 insert or update on table \"c\" violates foreign key constraint \"c_a_b_fkey\" \
         / MATCH FULL does not allow mixing of null and nonnull key values."
    );
}

#[test]
fn tables_with_checks_that_wait_are_not_altered() {
    let (mut bench, mut session) = after(FAMILY);
    for (statement, error) in [
        ("alter table c add x int", "cannot ALTER TABLE \"c\" because it has pending trigger events"),
        (
            "alter table c alter constraint c_p",
            "cannot ALTER TABLE \"c\" because it has pending trigger events",
        ),
        ("drop table c", "cannot DROP TABLE \"c\" because it has pending trigger events"),
        ("truncate c", "cannot TRUNCATE \"c\" because it has pending trigger events"),
    ] {
        bench.run(&mut session, "begin; insert into c values (1, 9)");
        assert_eq!(failure(&mut bench, &mut session, statement), format!("55006 {error}"));
        bench.run(&mut session, "rollback");
    }
    // Not those of others, nor where nothing waits any more.
    bench.run(&mut session, "begin; insert into c values (1, 1); alter table p add x int; commit");
    bench.run(
        &mut session,
        "begin; insert into c values (2, 1); set constraints all immediate; alter table c add x int; commit",
    );
    // With its constraint gone a check is too.
    bench.run(&mut session, "begin; insert into c values (3, 9); drop table p cascade; commit");
}

#[test]
fn deferral_is_declared_and_altered_as_in_postgresql() {
    let (mut bench, mut session) = after(FAMILY);
    for (sql, error) in [
        (
            "create table x (p int references p not deferrable initially deferred)",
            "42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ),
        ("create table x (p int unique deferrable)", "0A000 a deferrable unique constraint is not supported"),
        (
            "alter table c alter constraint nothing deferrable",
            "42704 constraint \"nothing\" of relation \"c\" does not exist",
        ),
        (
            "alter table c alter constraint c_pkey deferrable",
            "42809 constraint \"c_pkey\" of relation \"c\" is not a foreign key constraint",
        ),
        (
            "alter table c alter constraint c_p not deferrable initially deferred",
            "42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ),
        (
            "alter table c alter constraint c_p deferrable not deferrable",
            "42601 conflicting constraint properties",
        ),
    ] {
        let found = failure(&mut bench, &mut session, sql);
        assert_eq!(found.split(" / ").next(), Some(error), "{sql}");
    }
    bench.run(&mut session, "alter table if exists nothing alter constraint x deferrable");
    for (attributes, waits) in [
        ("", false),
        ("initially deferred", true),
        ("deferrable initially immediate", false),
        ("deferrable initially deferred", true),
        ("not deferrable", false),
    ] {
        bench.run(&mut session, &format!("alter table only c alter constraint c_p {attributes}"));
        bench.run(&mut session, "begin");
        let outcome = bench.try_run(&mut session, "insert into c values (1, 9)");
        assert_eq!(outcome.is_ok(), waits, "{attributes}");
        bench.run(&mut session, "rollback");
    }
    // Rows that are there are checked when the key is added, deferred or not.
    bench.run(&mut session, "create table x (p int); insert into x values (9)");
    assert!(
        failure(
            &mut bench,
            &mut session,
            "alter table x add foreign key (p) references p deferrable initially deferred"
        )
        .starts_with("23503")
    );
    bench.run(
        &mut session,
        "delete from x; alter table x add foreign key (p) references p initially deferred",
    );
    bench.run(&mut session, "begin; insert into x values (9); delete from x; commit");
}

#[test]
fn constraints_that_are_not_valid_hold_for_new_rows_until_they_are_validated() {
    let (mut bench, mut session) = after(
        "create table p (id int primary key); insert into p values (1);
         create table c (p int, n int unique); insert into c values (9, -1);
         alter table c add constraint f foreign key (p) references p not valid, add constraint k check (n > 0) not valid",
    );
    bench.run(&mut session, "insert into c values (1, 1)");
    assert!(failure(&mut bench, &mut session, "insert into c values (8, 2)").starts_with("23503"));
    assert!(failure(&mut bench, &mut session, "insert into c values (1, -2)").starts_with("23514"));
    // A change of such a row makes a new one, which is checked, too.
    assert!(failure(&mut bench, &mut session, "update c set p = 1 where n = -1").starts_with("23514"));
    assert_eq!(
        failure(&mut bench, &mut session, "alter table c validate constraint f"),
        "23503 insert or update on table \"c\" violates foreign key constraint \"f\" / Key (p)=(9) is not present in table \"p\"."
    );
    assert_eq!(
        failure(&mut bench, &mut session, "alter table c validate constraint k"),
        "23514 check constraint \"k\" of relation \"c\" is violated by some row"
    );
    let valid = |bench: &Bench| {
        let table = bench.catalog().tables().find(|t| t.name == "c").expect("the table exists");
        (table.foreign_keys[0].validated, table.checks[0].validated)
    };
    assert_eq!(valid(&bench), (false, false));
    bench.run(&mut session, "update c set p = 1, n = 5 where n = -1");
    bench.run(&mut session, "alter table c validate constraint f, validate constraint k");
    assert_eq!(valid(&bench), (true, true));
    bench.run(&mut session, "alter table c validate constraint f");
    for (sql, error) in [
        ("alter table c validate constraint x", "42704 constraint \"x\" of relation \"c\" does not exist"),
        (
            "alter table c validate constraint c_n_key",
            "42809 constraint \"c_n_key\" of relation \"c\" is not a foreign key or check constraint",
        ),
        (
            "alter table c add primary key (n) not valid",
            "0A000 PRIMARY KEY constraints cannot be marked NOT VALID",
        ),
        ("alter table c add unique (p) not valid", "0A000 UNIQUE constraints cannot be marked NOT VALID"),
    ] {
        assert_eq!(failure(&mut bench, &mut session, sql), error, "{sql}");
    }
}
