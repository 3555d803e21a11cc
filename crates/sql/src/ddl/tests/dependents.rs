//! What depends on what is dropped or altered: refused under RESTRICT, gone with CASCADE. Expectations are PostgreSQL 15's.

use super::{after, failure, notices, rows};

/// The error of a statement that others stand in the way of, and what CASCADE tells of them.
#[track_caller]
fn check(before: &str, drop: &str, error: &str, detail: &str, notice: &str) {
    let (mut bench, mut session) = after(before);
    let refused = bench.fail(&mut session, drop);
    assert_eq!(format!("{} {}", refused.state(), refused.message()), error, "{drop}");
    assert_eq!(refused.detail().unwrap_or_default(), detail, "{drop}");
    let told = bench.run(&mut session, &format!("{drop} cascade"));
    assert_eq!(told.notices(), [notice], "{drop}");
}

#[test]
fn a_default_needs_the_sequence_that_it_names() {
    let before = "create sequence q; create table t (id int default nextval('q'), v text)";
    let error = "2BP01 cannot drop sequence q because other objects depend on it";
    let default = "default value for column id of table t";
    let cascades = format!("drop cascades to {default}");
    check(before, "drop sequence q", error, &format!("{default} depends on sequence q"), &cascades);
    let gone = format!("{before}; drop sequence q cascade; insert into t (v) values ('a')");
    assert_eq!(rows(&gone, "select id, v from t"), ["|a"]);
    // A name that needs quotes, in another schema, within a larger expression.
    let quoted = r#"create schema s; create sequence s."It's"; create table t (id int default 1 + nextval('s."It''s"'))"#;
    let error = "2BP01 cannot drop sequence It's because other objects depend on it";
    check(
        quoted,
        r#"drop sequence s."It's""#,
        error,
        &format!("{default} depends on sequence It's"),
        &cascades,
    );
    // The column's own may go when its default names it no more, and not while another's does.
    let serial = "create table t (id serial, v text)";
    rows(
        &format!("{serial}; alter table t alter id drop default; drop sequence t_id_seq"),
        "select id from t",
    );
    let shared = format!("{serial}; create table u (id int default nextval('t_id_seq'))");
    let default = "default value for column id of table u";
    for (drop, object) in
        [("drop table t", "table t"), ("alter table t drop column id", "column id of table t")]
    {
        check(
            &shared,
            drop,
            &format!("2BP01 cannot drop {object} because other objects depend on it"),
            &format!("{default} depends on sequence t_id_seq"),
            &format!("drop cascades to {default}"),
        );
    }
}

#[test]
fn an_identity_column_keeps_its_sequence() {
    let before = "create table t (id int generated always as identity, v text)";
    for drop in ["drop sequence t_id_seq", "drop sequence t_id_seq cascade"] {
        assert_eq!(
            failure(before, drop),
            "2BP01 cannot drop sequence t_id_seq because column id of table t requires it"
        );
    }
    rows(&format!("{before}; drop table t"), "select 1");
    assert_eq!(
        failure(before, "alter table t alter id type numeric"),
        "22023 identity column type must be smallint, integer, or bigint"
    );
    let wider =
        format!("{before}; alter table t alter id type bigint; select setval('t_id_seq', 5000000000)");
    assert_eq!(rows(&wider, "insert into t (v) values ('a') returning id"), ["5000000001"]);
    assert_eq!(
        failure(&wider, "alter table t alter id type smallint"),
        "22023 RESTART value (5000000000) cannot be greater than MAXVALUE (32767)"
    );
    let serial =
        "create table t (id serial); alter table t alter id type bigint; alter sequence t_id_seq as bigint";
    assert_eq!(
        rows(&format!("{serial}; select setval('t_id_seq', 5000000000)"), "select nextval('t_id_seq')"),
        ["5000000001"]
    );
    assert_eq!(
        failure("create sequence q; select setval('q', 9)", "alter sequence q maxvalue 5"),
        "22023 RESTART value (9) cannot be greater than MAXVALUE (5)"
    );
}

#[test]
fn views_need_the_types_and_sequences_that_they_name() {
    let before =
        "create type mood as enum ('ok'); create view v as select 'ok'::mood as m; create sequence q;
                  create view w as select nextval('q') as n";
    for (drop, object, view) in [("drop type mood", "type mood", "v"), ("drop sequence q", "sequence q", "w")]
    {
        check(
            before,
            drop,
            &format!("2BP01 cannot drop {object} because other objects depend on it"),
            &format!("view {view} depends on {object}"),
            &format!("drop cascades to view {view}"),
        );
    }
}

#[test]
fn a_view_that_groups_by_a_primary_key_needs_it() {
    let tables = "create table t (id int primary key, a int, b text); create table u (id int primary key, t_id int, c int)";
    for query in [
        "select id, a, count(*) from t group by id",
        "select x.id, x.b, sum(u.c) from t x left join u on u.t_id = x.id group by x.id",
        "select id, count(*) from t group by 1 having b = 'x'",
        "select id from t group by id order by upper(b)",
        "select t.* from t group by id",
        "select * from (select id, a from t group by id) q",
    ] {
        check(
            &format!("{tables}; create view v as {query}"),
            "alter table t drop constraint t_pkey",
            "2BP01 cannot drop constraint t_pkey on table t because other objects depend on it",
            "view v depends on constraint t_pkey on table t",
            "drop cascades to view v",
        );
    }
    for query in [
        "select id, count(a), max(b) from t group by id",
        "select id, a from t group by id, a",
        "select a, count(*) from t group by a",
        "select id, a from t",
        "select u.id, u.c, count(t.a) from u join t on t.id = u.id group by u.id, u.c",
    ] {
        let before = format!("{tables}; create view v as {query}; alter table t drop constraint t_pkey");
        rows(&before, "select * from v");
    }
}

#[test]
fn a_type_takes_along_what_names_it() {
    let before = "create type mood as enum ('ok'); create table t (a text default 'ok'::mood::text check (a <> 'ok'::mood::text))";
    let (mut bench, mut session) = after(before);
    let told = bench.run(&mut session, "drop type mood cascade; insert into t values (default), ('ok')");
    assert_eq!(told.notices(), ["drop cascades to 2 other objects"]);
    assert_eq!(bench.run(&mut session, "select a from t").lines(), ["", "ok"]);
    // A column that goes takes along what refers to it from elsewhere.
    let before = "create type mood as enum ('ok'); create table t (m mood primary key); create table u (m mood references t, n int)";
    rows(&format!("{before}; drop type mood cascade; insert into u values (1)"), "select n from u");
}

#[test]
fn several_objects_are_refused_together() {
    let before =
        "create view a as select 1 as x; create view b as select x from a; create view c as select x from b";
    assert_eq!(
        failure(before, "drop view a, b"),
        "2BP01 cannot drop desired object(s) because other objects depend on them"
    );
    rows(&format!("{before}; drop view a, b, c"), "select 1");
}

#[test]
fn no_column_is_called_like_a_system_column() {
    for name in ["xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"] {
        let error = format!("42701 column name \"{name}\" conflicts with a system column name");
        for statement in [
            format!("create table u ({name} int)"),
            format!("create table u as select 1 as {name}"),
            format!("alter table t add column {name} int"),
            format!("alter table t rename column a to {name}"),
        ] {
            assert_eq!(failure("create table t (a int)", &statement), error, "{statement}");
        }
    }
    assert_eq!(
        failure("create table t (a int)", "alter table t drop column ctid"),
        "0A000 cannot drop system column \"ctid\""
    );
    assert_eq!(
        rows("create table t (oid int, xid int); create view v as select 1 as xmin", "select oid from t"),
        [""; 0]
    );
}

#[test]
fn what_a_role_owns_and_was_granted_is_dropped_with_drop_owned() {
    let before = "create role bob; create role ann; grant create on schema public to bob, ann;
                  create table t (a int); grant select on t to bob; grant bob to ann;
                  set role bob; create table u (a int); create sequence q; create type m as enum ('x'); reset role;
                  create view v as select a from u";
    assert!(failure(before, "drop role bob").starts_with("2BP01"));
    let refused = "2BP01 cannot drop desired object(s) because other objects depend on them";
    assert_eq!(failure(before, "drop owned by bob"), refused);
    let (mut bench, mut session) = after(before);
    let told = bench.run(&mut session, "drop owned by bob cascade");
    assert_eq!(told.notices(), ["drop cascades to view v"]);
    bench.run(&mut session, "drop role bob");
    assert!(
        failure(before, "drop owned by owner").starts_with("2BP01 cannot drop objects owned by role owner")
    );
    let other = format!("{before}; set role ann");
    assert_eq!(failure(&other, "drop owned by owner"), "42501 permission denied to drop objects");
}

#[test]
fn a_view_needs_the_columns_that_join_within_parentheses() {
    let before = "create table a (x int, k int); create table b (y int, k int); create table c (z int);
                  create view v as select a.x from c join (a join b using (k)) on true";
    let error = "2BP01 cannot drop column k of table a because other objects depend on it";
    let detail = "view v depends on column k of table a";
    check(before, "alter table a drop column k", error, detail, "drop cascades to view v");
}

#[test]
fn a_view_needs_the_columns_that_its_from_gives_other_names() {
    let tables = "create table t (a int, b int); create table u (c int)";
    for query in [
        "select x from t as s (x)",
        "select * from t s (x, y)",
        "select c from u join t as s (x) on s.x = u.c",
        "select c from u where c in (select x from t as s (x))",
    ] {
        let before = format!("{tables}; create view v as {query}");
        check(
            &before,
            "alter table t drop column a",
            "2BP01 cannot drop column a of table t because other objects depend on it",
            "view v depends on column a of table t",
            "drop cascades to view v",
        );
        assert_eq!(
            failure(&before, "alter table t alter a type text"),
            "0A000 cannot alter type of a column used by a view or rule"
        );
    }
}

#[test]
fn a_foreign_key_of_a_table_to_itself_needs_the_column_that_it_refers_to() {
    let before = "create table t (id int primary key, parent int references t, v text); insert into t values (1, 1, 'a')";
    let error = "2BP01 cannot drop column id of table t because other objects depend on it";
    let detail = "constraint t_parent_fkey on table t depends on column id of table t";
    let cascades = "drop cascades to constraint t_parent_fkey on table t";
    check(before, "alter table t drop column id", error, detail, cascades);
    // With its own column it goes without a word, and so it does with its table.
    assert_eq!(notices(before, "alter table t drop column parent; drop table t"), [""; 0]);
    assert_eq!(
        rows(&format!("{before}; alter table t drop column id cascade"), "select parent, v from t"),
        ["1|a"]
    );
}

#[test]
fn the_systems_schemas_stay_the_tenants_and_keep_their_names() {
    let before = "create role bob; create table t (a int); create schema s";
    for refused in [
        "alter schema pg_catalog rename to old",
        "alter schema information_schema rename to old",
        "alter schema pg_catalog owner to bob",
    ] {
        assert!(failure(before, refused).starts_with("42501 permission denied: schema"), "{refused}");
    }
    let (mut bench, mut session) = after(before);
    bench.run(&mut session, "reassign owned by owner to bob; drop owned by bob cascade");
    let mut left: Vec<&str> = bench.catalog().schemas().map(|schema| schema.name.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["information_schema", "pg_catalog"]);
}
