//! PostgreSQL's errors and notices.

use super::{failure, notices};

const T: &str = "create table t (a int primary key, b text)";

#[track_caller]
fn check(before: &str, sql: &str, expected: &str) {
    assert_eq!(failure(before, sql), expected, "{sql}");
}

#[test]
fn names_that_are_taken_or_missing() {
    check(T, "create table t (x int)", "42P07 relation \"t\" already exists");
    check("", "create table t (a int, a int)", "42701 column \"a\" specified more than once");
    check("", "create table t (a nosuch)", "42704 type \"nosuch\" does not exist");
    check("", "create table nosuch.t (a int)", "3F000 schema \"nosuch\" does not exist");
    check("", "drop table t", "42P01 table \"t\" does not exist");
    check("", "drop view t", "42P01 view \"t\" does not exist");
    check("", "drop index t", "42704 index \"t\" does not exist");
    check("", "drop sequence t", "42P01 sequence \"t\" does not exist");
    check("", "drop type t", "42704 type \"t\" does not exist");
    check("", "drop schema t", "3F000 schema \"t\" does not exist");
    check(T, "drop view t", "42809 \"t\" is not a view");
    check("", "alter table t add column c int", "42P01 relation \"t\" does not exist");
    check(T, "alter table t add column b int", "42701 column \"b\" of relation \"t\" already exists");
    check(T, "alter table t drop column c", "42703 column \"c\" of relation \"t\" does not exist");
    check(
        T,
        "alter table t alter column c drop default",
        "42703 column \"c\" of relation \"t\" does not exist",
    );
    check(T, "alter table t rename column b to a", "42701 column \"a\" of relation \"t\" already exists");
    check(T, "alter table t drop constraint c", "42704 constraint \"c\" of relation \"t\" does not exist");
    check(T, "create index on t (c)", "42703 column \"c\" does not exist");
    check(T, "create index on nosuch (c)", "42P01 relation \"nosuch\" does not exist");
    check("create schema s", "create schema s", "42P06 schema \"s\" already exists");
    check("", "create schema pg_x", "42939 unacceptable schema name \"pg_x\"");
    check("create type e as enum ('a')", "create type e as enum ('b')", "42710 type \"e\" already exists");
    check(
        "create type e as enum ('a')",
        "alter type e add value 'a'",
        "42710 enum label \"a\" already exists",
    );
    check("create sequence s", "create sequence s", "42P07 relation \"s\" already exists");
    check("", "truncate t", "42P01 relation \"t\" does not exist");
    check("", "comment on table t is 'x'", "42P01 relation \"t\" does not exist");
}

#[test]
fn columns_of_a_view_stay_what_they_are() {
    let t = "create table t (a varchar(5), n numeric(9, 2)); create view v as select a, n from t";
    for (query, expected) in [
        (
            "select a::varchar(9), n from t",
            "42P16 cannot change data type of view column \"a\" from character varying(5) to character varying(9)",
        ),
        (
            "select a, n::numeric(9, 3) from t",
            "42P16 cannot change data type of view column \"n\" from numeric(9,2) to numeric(9,3)",
        ),
        (
            "select a, n::numeric from t",
            "42P16 cannot change data type of view column \"n\" from numeric(9,2) to numeric",
        ),
        (
            "select a::varchar, n from t",
            "42P16 cannot change data type of view column \"a\" from character varying(5) to character varying",
        ),
        (
            "select a, 1 as n from t",
            "42P16 cannot change data type of view column \"n\" from numeric(9,2) to integer",
        ),
    ] {
        check(t, &format!("create or replace view v as {query}"), expected);
    }
}

#[test]
fn definitions_that_contradict_themselves() {
    check(
        "",
        "create table t (a int null not null)",
        "42601 conflicting NULL/NOT NULL declarations for column \"a\" of table \"t\"",
    );
    check(
        "",
        "create table t (a int primary key, b int primary key)",
        "42P16 multiple primary keys for table \"t\" are not allowed",
    );
    check("", "create table t (a int, primary key (b))", "42703 column \"b\" named in key does not exist");
    check(
        "",
        "create table t (a int, unique (a, a))",
        "42701 column \"a\" appears twice in unique constraint",
    );
    check("", "create table t (a int default 'x')", "22P02 invalid input syntax for type integer: \"x\"");
    check(
        "",
        "create table t (a int, b int default a)",
        "0A000 cannot use column reference in DEFAULT expression",
    );
    check(
        "",
        "create table t (a int default true)",
        "42804 column \"a\" is of type integer but default expression is of type boolean",
    );
    check(
        "",
        "create table t (a int check (a))",
        "42804 argument of CHECK must be type boolean, not type integer",
    );
    check("", "create table t (a int check (b > 0))", "42703 column \"b\" does not exist");
    check("", "create table t (a int references nosuch)", "42P01 relation \"nosuch\" does not exist");
    check(
        T,
        "create table u (a int references t (b))",
        "42830 there is no unique constraint matching given keys for referenced table \"t\"",
    );
    check(
        T,
        "create table u (a int references t (c))",
        "42703 column \"c\" referenced in foreign key constraint does not exist",
    );
    check(
        "create table p (a int)",
        "create table u (a int references p)",
        "42704 there is no primary key for referenced table \"p\"",
    );
    check(
        T,
        "create table u (a text references t)",
        "42804 foreign key constraint \"u_a_fkey\" cannot be implemented",
    );
    check(
        T,
        "alter table t add primary key (b)",
        "42P16 multiple primary keys for table \"t\" are not allowed",
    );
    check(
        "",
        "create table t (a text generated always as identity)",
        "22023 identity column type must be smallint, integer, or bigint",
    );
    check("", "create sequence s increment by 0", "22023 INCREMENT must not be zero");
    check("", "create sequence s minvalue 5 maxvalue 4", "22023 MINVALUE (5) must be less than MAXVALUE (4)");
    check("", "create sequence s start 0", "22023 START value (0) cannot be less than MINVALUE (1)");
    check("", "create table t (a int) with (nosuch = 1)", "22023 unrecognized parameter \"nosuch\"");
    check(
        "",
        "create table t (a int) with (fillfactor = 5)",
        "22023 value 5 out of bounds for option \"fillfactor\"",
    );
}

#[test]
fn what_is_not_supported_says_so() {
    for sql in [
        "create temp table x (a int)",
        "create unlogged table x (a int)",
        "create table x (a int) partition by range (a)",
        "create table x (a int) inherits (t)",
        "create table x (a int unique deferrable initially deferred)",
        "create table x (a int references t on delete set default)",
        "create index on t ((b || 'x'))",
        "create index on t (b) where a + 1 > 1",
        "create index on t using hash (b)",
        "create materialized view v as select 1",
        "create temp view v as select 1",
        "create type c as (a int)",
        "alter table t enable row level security",
        "alter table t alter a set statistics 100, alter b set not null",
        "alter table t alter a drop identity",
        "alter table t alter a set generated by default",
        "alter table t set unlogged",
        "alter table t inherit u",
        "create table x as select 1 as a with no data",
        "create domain d as int",
        "create function f() returns int language sql as 'select 1'",
        "create trigger x before insert on t for each row execute function f()",
        "create extension hstore",
        "listen x",
        "create table x (a text collate \"de_DE\")",
    ] {
        let error = failure(T, sql);
        assert!(error.starts_with("0A000"), "{sql}: {error}");
    }
}

#[test]
fn rows_that_break_a_new_rule_stop_it() {
    let filled = "create table t (a int, b int); insert into t values (1, 1), (1, null)";
    check(filled, "alter table t add primary key (a)", "23505 could not create unique index \"t_pkey\"");
    check(filled, "alter table t add unique (a)", "23505 could not create unique index \"t_a_key\"");
    check(filled, "create unique index u on t (a)", "23505 could not create unique index \"u\"");
    check(
        filled,
        "alter table t alter column b set not null",
        "23502 column \"b\" of relation \"t\" contains null values",
    );
    check(
        filled,
        "alter table t add check (a > 1)",
        "23514 check constraint \"t_a_check\" of relation \"t\" is violated by some row",
    );
    check(
        filled,
        "alter table t add column c int not null",
        "23502 column \"c\" of relation \"t\" contains null values",
    );
    let two = "create table p (a int primary key); create table c (a int); insert into c values (5)";
    let error = failure(two, "alter table c add foreign key (a) references p");
    assert_eq!(error, "23503 insert or update on table \"c\" violates foreign key constraint \"c_a_fkey\"");
}

#[test]
fn what_others_need_stays_without_cascade() {
    let viewed = "create table t (a int, b int); create view v as select a from t";
    check(viewed, "drop table t", "2BP01 cannot drop table t because other objects depend on it");
    check(
        viewed,
        "alter table t drop column a",
        "2BP01 cannot drop column a of table t because other objects depend on it",
    );
    assert!(notices(viewed, "alter table t drop column b").is_empty());
    assert_eq!(notices(viewed, "drop table t cascade"), ["drop cascades to view v"]);
    assert_eq!(notices(viewed, "alter table t drop column a cascade"), ["drop cascades to view v"]);
    let keyed = "create table p (a int primary key); create table c (a int references p)";
    check(keyed, "drop table p", "2BP01 cannot drop table p because other objects depend on it");
    assert_eq!(notices(keyed, "drop table p cascade"), ["drop cascades to constraint c_a_fkey on table c"]);
    check(keyed, "truncate p", "0A000 cannot truncate a table referenced in a foreign key constraint");
    assert_eq!(notices(keyed, "truncate p cascade"), ["truncate cascades to table \"c\""]);
    assert!(notices(keyed, "truncate p, c").is_empty());
    let typed = "create type e as enum ('x'); create table t (a e)";
    check(typed, "drop type e", "2BP01 cannot drop type e because other objects depend on it");
    check(
        "create schema s; create table s.t (a int)",
        "drop schema s",
        "2BP01 cannot drop schema s because other objects depend on it",
    );
    check(
        "create table t (a serial)",
        "drop sequence t_a_seq",
        "2BP01 cannot drop sequence t_a_seq because other objects depend on it",
    );
    check(
        "create table t (a int primary key)",
        "drop index t_pkey",
        "2BP01 cannot drop index t_pkey because constraint t_pkey on table t requires it",
    );
}

#[test]
fn if_exists_and_if_not_exists_give_notices() {
    assert_eq!(notices("", "drop table if exists t"), ["table \"t\" does not exist, skipping"]);
    assert_eq!(notices("", "drop table if exists s.t"), ["schema \"s\" does not exist, skipping"]);
    assert_eq!(notices("", "drop view if exists v, w").len(), 2);
    assert_eq!(
        notices(T, "create table if not exists t (x int)"),
        ["relation \"t\" already exists, skipping"]
    );
    assert_eq!(
        notices(T, "create index if not exists t_pkey on t (b)"),
        ["relation \"t_pkey\" already exists, skipping"]
    );
    assert_eq!(
        notices(T, "alter table if exists u add column c int"),
        ["relation \"u\" does not exist, skipping"]
    );
    assert_eq!(
        notices(T, "alter table t drop column if exists c"),
        ["column \"c\" of relation \"t\" does not exist, skipping"]
    );
    assert_eq!(
        notices(T, "alter table t add column if not exists b int"),
        ["column \"b\" of relation \"t\" already exists, skipping"]
    );
    assert_eq!(
        notices(T, "alter table t drop constraint if exists c"),
        ["constraint \"c\" of relation \"t\" does not exist, skipping"]
    );
    assert_eq!(
        notices("create schema s", "create schema if not exists s"),
        ["schema \"s\" already exists, skipping"]
    );
    assert_eq!(
        notices("create sequence s", "create sequence if not exists s"),
        ["relation \"s\" already exists, skipping"]
    );
    assert_eq!(
        notices("create type e as enum ('a')", "alter type e add value if not exists 'a'"),
        ["enum label \"a\" already exists, skipping"]
    );
}

#[test]
fn not_null_is_checked_before_check() {
    let table = "create table t (a int not null, b int check (b > 0)); insert into t values (1, 1)";
    let not_null = "23502 null value in column \"a\" of relation \"t\" violates not-null constraint";
    for both in [
        "insert into t values (null, -1)",
        "insert into t select null::int, -1",
        "update t set a = null, b = -1",
    ] {
        check(table, both, not_null);
    }
    check(
        table,
        "insert into t values (1, -1)",
        "23514 new row for relation \"t\" violates check constraint \"t_b_check\"",
    );
}

#[test]
fn details_show_values_as_the_session_does() {
    let table = "create table t (at timestamptz primary key, d date not null, c int check (c > 0));
                 set timezone = 'Asia/Tokyo'; set datestyle = 'German';
                 insert into t values ('2020-01-01 00:00+00', '2020-02-03', 1)";
    for (failing, detail) in [
        (
            "insert into t values ('2020-01-01 00:00+00', '2020-02-03', 1)",
            "Key (at)=(01.01.2020 09:00:00 JST) already exists.",
        ),
        (
            "insert into t values ('2020-01-02 00:00+00', null, 1)",
            "Failing row contains (02.01.2020 09:00:00 JST, null, 1).",
        ),
        ("update t set c = -1", "Failing row contains (01.01.2020 09:00:00 JST, 03.02.2020, -1)."),
    ] {
        let (mut bench, mut session) = super::after(table);
        let error = bench.fail(&mut session, failing);
        assert_eq!(error.detail(), Some(detail), "{failing}");
    }
}
