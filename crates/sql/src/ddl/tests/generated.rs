//! Generated columns. Expectations are PostgreSQL 15's, but for what is refused with 0A000.

use super::{after, failure, rows};

const T: &str = "create table t (id int primary key, a int, g int generated always as (a * 2) stored,
        b text default 'x', h text generated always as (upper(b)) stored not null)";

#[test]
fn values_are_worked_out_whenever_those_that_they_come_of_change() {
    let (mut bench, mut session) = after(T);
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (sql, expected) in [
        ("insert into t (id, a) values (1, 10) returning g, h", "20|X"),
        ("insert into t values (2, 5, default, 'y', default) returning *", "2|5|10|y|Y"),
        ("insert into t select 3, 7 returning g", "14"),
        ("insert into t (id) values (4) returning g, h", "|X"),
        ("update t set a = a + 1 where id = 1 returning g, h", "22|X"),
        ("update t set g = default, b = 'z' where id = 2 returning g, h", "10|Z"),
        ("update t set b = 'w' where id = 3 returning g, h", "14|W"),
        ("update t set a = u.a from t u where t.id = 3 and u.id = 1 returning t.g", "22"),
        ("update t set (a, b) = (8, 'v') where id = 4 returning g, h", "16|V"),
        (
            "insert into t values (1, 100) on conflict (id) do update set a = excluded.a + excluded.g returning a, g",
            "300|600",
        ),
        ("with changed as (update t set a = 0 where id = 3 returning g) select g from changed", "0"),
        ("select id from t where g > 15 order by g", "4 1"),
    ] {
        assert_eq!(lines(sql).join(" "), expected, "{sql}");
    }
    bench.run(&mut session, "create unique index on t (g)");
    assert_eq!(bench.run(&mut session, "update t set a = 1 where g = 600 returning id").lines(), ["1"]);
    assert_eq!(bench.run(&mut session, "select id from t where g = 2").lines(), ["1"]);
    let error = bench.fail(&mut session, "update t set a = 1 where id = 2");
    assert_eq!(error.state().to_string(), "23505");
    let error = bench.fail(&mut session, "update t set b = null where id = 2");
    assert_eq!(error.state().to_string(), "23502");
}

#[test]
fn nobody_gives_a_generated_column_a_value() {
    let inserted = "428C9 cannot insert a non-DEFAULT value into column \"g\"";
    let updated = "428C9 column \"g\" can only be updated to DEFAULT";
    for (sql, expected) in [
        ("insert into t (id, g) values (1, 1)", inserted),
        ("insert into t values (1, 1, 2)", inserted),
        ("insert into t (id, g) overriding system value values (1, 1)", inserted),
        ("insert into t (id, g) overriding user value values (1, 1)", inserted),
        ("insert into t select 1, 2, 3", inserted),
        ("update t set g = 1", updated),
        ("update t set (a, g) = (1, 2)", updated),
        ("update t set (a, g) = (select 1, 2)", updated),
        ("insert into t values (1, 1) on conflict (id) do update set g = 5", updated),
        ("copy t (id, g) from stdin", "42P10 column \"g\" is a generated column"),
        ("copy t (id, g) to stdout", "42P10 column \"g\" is a generated column"),
    ] {
        assert_eq!(failure(T, sql), expected, "{sql}");
    }
}

#[test]
fn what_a_column_may_be_generated_from() {
    let of_generated = "42P17 cannot use generated column";
    let mutable = "42P17 generation expression is not immutable";
    for (columns, expected) in [
        ("a int, b int generated always as (c) stored, c int generated always as (1) stored", of_generated),
        ("a int, b int generated always as (b + 1) stored", of_generated),
        ("a float8, b float8 generated always as (a * random()) stored", mutable),
        ("a timestamptz, b text generated always as (a::text) stored", mutable),
        ("a int, b int generated always as (d) stored", "42703 column \"d\" does not exist"),
        ("a int, b int generated always as ((select 1)) stored", "0A000 cannot use subquery"),
        ("a int, b int generated always as (max(a)) stored", "42803"),
        (
            "a int, b int generated always as (true) stored",
            "42804 column \"b\" is of type integer but default",
        ),
        ("a int, b int default 1 generated always as (a) stored", "42601 both default and generation"),
        ("a int, b int generated always as (a) stored default 1", "42601 both default and generation"),
        ("a int, b serial generated always as (a) stored", "42601 both default and generation"),
        (
            "a int, b int generated always as identity generated always as (a) stored",
            "42601 both identity and generation",
        ),
        (
            "a int, b int generated always as (a) stored generated always as (1) stored",
            "42601 multiple generation clauses",
        ),
        ("a int, b int generated always as (a)", "42601"),
    ] {
        let error = failure("", &format!("create table x ({columns})"));
        assert!(error.starts_with(expected), "{columns}: {error}");
    }
}

#[test]
fn what_is_altered_of_a_generated_column_and_of_what_it_comes_of() {
    let of_default = "42601 column \"g\" of relation \"t\" is a generated column";
    for (sql, expected) in [
        ("alter table t alter g set default 1", of_default),
        ("alter table t alter g drop default", of_default),
        ("alter table t alter g type bigint", "0A000"),
        (
            "alter table t alter a type bigint",
            "42601 cannot alter type of a column used by a generated column",
        ),
        (
            "alter table t drop column a",
            "2BP01 cannot drop column a of table t because other objects depend on it",
        ),
        (
            "create table u (g int generated always as (1) stored references t on update cascade)",
            "42601 invalid ON UPDATE action for foreign key constraint containing generated column",
        ),
        (
            "create table u (g int generated always as (1) stored references t on delete set null)",
            "42601 invalid ON DELETE action for foreign key constraint containing generated column",
        ),
    ] {
        let error = failure(T, sql);
        assert!(error.starts_with(expected), "{sql}: {error}");
    }
    let row = format!("{T}; insert into t values (1, 4)");
    let plain = format!(
        "{row}; alter table t alter column g drop expression; insert into t values (2, 5, 6); update t set a = 1"
    );
    assert_eq!(rows(&plain, "select a, g, h from t order by id"), ["1|8|X", "1|6|X"]);
    let of_none = "55000 column \"a\" of relation \"t\" is not a stored generated column";
    assert_eq!(failure(T, "alter table t alter a drop expression"), of_none);
    assert_eq!(
        rows(&format!("{row}; alter table t alter a drop expression if exists"), "select g from t"),
        ["8"]
    );
    assert_eq!(rows(&format!("{row}; alter table t drop column a cascade"), "select * from t"), ["1|x|X"]);
    assert_eq!(rows(&format!("{row}; alter table t drop column g"), "select * from t"), ["1|4|x|X"]);
    let renamed = format!(
        "{row}; alter table t rename column a to \"A b\"; alter table t rename to s; insert into s values (2, 5)"
    );
    assert_eq!(rows(&renamed, "select g from s order by id"), ["8", "10"]);
    let enums = "create type mood as enum ('sad', 'ok'); create table m (v mood, is_ok bool generated always as (v = 'ok') stored)";
    assert!(failure(enums, "alter type mood rename value 'ok' to 'fine'").starts_with("0A000"));
    let dropped =
        format!("{enums}; drop type mood cascade; alter table m add n int; insert into m values (1)");
    assert_eq!(rows(&dropped, "select * from m"), ["1"]);
}

#[test]
fn a_generated_column_is_added_to_rows_that_are_there() {
    let two = "create table t (a int); insert into t values (1), (2)";
    let added =
        format!("{two}; alter table t add column g int generated always as (t.a * 10) stored not null");
    assert_eq!(
        rows(&format!("{added}; insert into t values (3)"), "select * from t order by a"),
        ["1|10", "2|20", "3|30"]
    );
    let beside = format!(
        "{two}; alter table t add column c int default 3, add column d int generated always as (c + a) stored unique"
    );
    assert_eq!(rows(&beside, "select d from t order by a"), ["4", "5"]);
    let null = "alter table t add h int generated always as (nullif(a, 1)) stored not null";
    assert!(failure(two, null).starts_with("23502"));
}

#[test]
fn like_copies_what_columns_are_generated_from_where_that_is_included() {
    let plain = format!("{T}; create table u (like t); insert into u values (1, 2, 3, null, 'h')");
    assert_eq!(rows(&plain, "select g, h from u"), ["3|h"]);
    for included in ["including generated", "including all"] {
        let of = format!(
            "{T}; create table u (n int default 0, like t {included}); insert into u (id, a, b) values (1, 4, 'q')"
        );
        assert_eq!(rows(&of, "select g, h from u"), ["8|Q"], "{included}");
    }
    let defaults = format!("{T}; create table u (like t including defaults)");
    assert_eq!(
        rows(&format!("{defaults}; insert into u values (1, 2, 3, 'b', 'c')"), "select g, h from u"),
        ["3|c"]
    );
}

const FAMILY: &str = "create table p (id int primary key);
    create table c (id int primary key, parent int references p on update cascade on delete set null,
        g int generated always as (coalesce(parent, -1) * 10) stored unique check (g <> 130));
    create table d (x int references c (g) on update cascade, y int generated always as (x + 1) stored)";

#[test]
fn what_foreign_keys_change_is_worked_out_too() {
    let filled =
        format!("{FAMILY}; insert into p values (1); insert into c values (5, 1); insert into d values (10)");
    let shown = "select parent, g, x, y from c, d";
    let updated = format!("{filled}; update p set id = 2");
    assert_eq!(rows(&updated, shown), ["2|20|20|21"]);
    assert_eq!(rows(&updated, "select id from c where g = 20"), ["5"]);
    let deleted = format!("{filled}; delete from p");
    assert_eq!(rows(&deleted, "select g, y from c, d where parent is null"), ["-10|-9"]);
    assert!(failure(&filled, "update p set id = 13").starts_with("23514"));
}

#[test]
fn long_changes_work_them_out_as_well() {
    let (mut bench, mut session) = after(
        "create table t (id int primary key, a int, g int generated always as (a * 2) stored);
         create table p (id int primary key);
         create table c (id int primary key, parent int references p on delete set null, g int generated always as (coalesce(parent, -1)) stored);
         create index on c (parent)",
    );
    let filled =
        bench.run_in_turns(&mut session, "insert into t select n, n from generate_series(1, 5000) n");
    assert_eq!(filled.0.tags, ["INSERT 0 5000"]);
    let (answer, turns) = bench.run_in_turns(&mut session, "update t set a = a + 1");
    assert!(answer.tags == ["UPDATE 5000"] && turns > 1, "{turns} turns");
    let right = "select count(*), count(*) filter (where g = a * 2 and a = id + 1) from t";
    assert_eq!(bench.run(&mut session, right).lines(), ["5000|5000"]);
    bench.run_in_turns(&mut session, "insert into p select n from generate_series(1, 5000) n");
    bench.run_in_turns(&mut session, "insert into c select n, n from generate_series(1, 5000) n");
    let turns = bench.run_in_turns(&mut session, "delete from c").1;
    assert!(turns > 1, "{turns} turns");
    bench.run_in_turns(&mut session, "insert into c select n, n from generate_series(1, 5000) n");
    bench.run_in_turns(&mut session, "delete from p");
    let gone = "select count(*) from c where parent is null and g = -1";
    assert_eq!(bench.run(&mut session, gone).lines(), ["5000"]);
}
