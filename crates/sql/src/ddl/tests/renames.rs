//! What the catalog keeps as text, once something that it names has another name. Expectations are PostgreSQL 15's, but for refusals.

use super::{after, failure, rows};

const MOOD: &str = "create schema s; create type s.mood as enum ('sad', 'ok'); set search_path = s, public;
    create table t (id int, m mood default 'ok', n text default 'sad'::mood, check (m <> 'sad'::mood or id > 0))";

#[test]
fn defaults_and_checks_follow_a_type_that_is_renamed() {
    for rename in
        ["alter type mood rename to temper", "alter schema s rename to r; set search_path = r, public"]
    {
        let sql = format!("{MOOD}; {rename}; insert into t (id) values (1)");
        assert_eq!(rows(&sql, "select m, n from t"), ["ok|sad"], "{rename}");
        let broken = format!("{MOOD}; {rename}");
        assert!(failure(&broken, "insert into t values (0, 'sad')").starts_with("23514"), "{rename}");
    }
    // A view cannot follow.
    let view = format!("{MOOD}; create view v as select 'ok'::mood as m");
    for rename in ["alter type mood rename to temper", "alter schema s rename to r"] {
        assert!(failure(&view, rename).starts_with("0A000"), "{rename}");
    }
}

#[test]
fn a_check_that_names_its_table_follows_it() {
    let sql = "create schema s;
               create table s.t (a int, b int[], check (s.t.a > 0), check (t.b[1] > 0), check (s.t.b[2] + t.b[1] < 9));
               alter table s.t rename to u; alter schema s rename to r; alter table r.u rename column b to c;
               insert into r.u values (1, '{1, 2}')";
    assert_eq!(rows(sql, "select a, c from r.u"), ["1|{1,2}"]);
    for (change, name) in [
        ("insert into r.u values (0, '{1}')", "t_a_check"),
        ("insert into r.u values (1, '{0}')", "t_b_check"),
        ("update r.u set c = '{4, 5}'", "t_b_check1"),
    ] {
        let error = format!("23514 new row for relation \"u\" violates check constraint \"{name}\"");
        assert_eq!(failure(sql, change), error, "{change}");
    }
}

#[test]
fn defaults_follow_a_sequence_within_an_expression() {
    let sql = "create schema s; create sequence s.q; create table t (id text default 'a' || nextval('s.q'));
               alter sequence s.q rename to r; alter schema s rename to z; alter sequence z.r set schema public; insert into t default values";
    assert_eq!(rows(sql, "select id from t"), ["a1"]);
}

#[test]
fn an_index_of_a_constraint_takes_no_name_that_another_constraint_has() {
    let sql = "create table t (a int primary key, b int unique, constraint c check (a > 0), constraint f foreign key (b) references t);
               create index i on t (b)";
    for rename in ["alter index t_pkey rename to c", "alter index t_b_key rename to f"] {
        let name = &rename[rename.len() - 1..];
        assert_eq!(
            failure(sql, rename),
            format!("42710 constraint \"{name}\" for relation \"t\" already exists")
        );
    }
    let (mut bench, mut session) = after(sql);
    bench.run(
        &mut session,
        "alter index i rename to c; alter index t_pkey rename to k; alter table t drop constraint k cascade",
    );
}

#[test]
fn a_default_follows_its_label() {
    let sql = "create type mood as enum ('sad', 'ok'); create table t (id int, m mood default 'ok', n text default 'ok')";
    let renamed = format!(
        "{sql}; alter type mood rename value 'ok' to 'it''s'; alter type mood rename value 'sad' to 'ok'; insert into t values (1)"
    );
    assert_eq!(rows(&renamed, "select m, n from t"), ["it's|ok"]);
    for (kept, what) in [
        ("alter table t add constraint c check (m <> 'ok')", "constraint \"c\" of \"t\""),
        ("create view v as select id from t where m = 'ok'", "view \"v\""),
        (
            "alter table t alter m set default case when true then 'ok' end::mood",
            "the default of column \"m\" of \"t\"",
        ),
    ] {
        let before = format!("{sql}; {kept}");
        assert_eq!(
            failure(&before, "alter type mood rename value 'ok' to 'fine'"),
            format!("0A000 renaming a label that {what} may name is not supported")
        );
        // Of the other label they say nothing.
        let (mut bench, mut session) = after(&before);
        bench.run(&mut session, "alter type mood rename value 'sad' to 'blue'");
    }
}

#[test]
fn a_view_reads_what_it_was_made_of() {
    let sql =
        "create schema a; create table t (v text); insert into t values ('own'); create type k as enum ('x');
               set search_path = a, public; create view v as select t.v, 'x'::k as k from t;
               create table t (v text); insert into a.t values ('other'); create type k as enum ('y')";
    assert_eq!(rows(sql, "select v, k from v"), ["own|x"]);
}

#[test]
fn a_restart_of_sequences_is_their_owners() {
    let (mut bench, mut owner) = after(
        "create table t (id serial); create role guest login; grant truncate, insert, select on t to guest; grant usage on t_id_seq to guest",
    );
    let mut guest = bench.session_of("guest");
    bench.run(&mut guest, "insert into t default values; truncate t; truncate t continue identity");
    let error = bench.fail(&mut guest, "truncate t restart identity");
    assert_eq!(format!("{} {}", error.state(), error.message()), "42501 must be owner of sequence t_id_seq");
    bench.run(&mut owner, "truncate t restart identity; insert into t default values");
    assert_eq!(bench.run(&mut owner, "select id from t").lines(), ["1"]);
}

#[test]
fn a_literal_of_a_span_means_what_it_meant_where_it_was_written() {
    for style in ["sql_standard", "postgres"] {
        let sql = format!(
            "set intervalstyle = '{style}'; create table t (id int, i interval default '-1 2:00', check (i <> '-1 3:00'));
             set intervalstyle = sql_standard; insert into t values (1); set intervalstyle = postgres; insert into t values (1)"
        );
        let one = if style == "postgres" { "-1 days +02:00:00" } else { "-1 days -02:00:00" };
        assert_eq!(rows(&sql, "select i from t"), [one, one], "{style}");
    }
}

#[test]
fn a_literal_of_a_time_means_what_it_meant_where_it_was_written() {
    let sql = "set time zone 'UTC'; set datestyle = 'ISO, DMY';
               create table t (id int, at timestamptz default '2024-02-01 12:00', day date default '02/01/2024', n text default '02/01/2024',
                               made timestamp default 'now', check (at >= '2024-02-01 12:00' and (id > '0' or day < date '03/01/2024')));
               set time zone 'Asia/Tokyo'; set datestyle = 'ISO, MDY'; insert into t values (1); set time zone 'UTC'";
    assert_eq!(rows(sql, "select at, day, n from t"), ["2024-02-01 12:00:00+00|2024-01-02|02/01/2024"]);
    let (mut bench, mut session) = after(sql);
    assert_eq!(bench.run(&mut session, "select count(*) from t where made is not null").lines(), ["1"]);
    let table = bench.catalog().tables().next().expect("the table is there").clone();
    assert_eq!(table.columns[1].default.as_deref(), Some("'2024-02-01 12:00:00+00'"));
    assert_eq!(table.columns[2].default.as_deref(), Some("'2024-01-02'"));
    assert_eq!(table.columns[3].default.as_deref(), Some("'02/01/2024'"));
    assert!(table.columns[4].default.as_deref().is_some_and(|text| !text.contains("now")));
    let check = &table.checks[0].expression;
    assert!(
        check.contains("'2024-02-01 12:00:00+00'") && check.contains("2024-01-03") && check.contains("'0'"),
        "{check}"
    );
}

#[test]
fn a_literal_of_a_date_means_what_it_meant_whatever_comes_first_in_dates() {
    // Neither is a date where the month comes first.
    let two = "set datestyle = 'ISO, DMY'; create table t (day date check (day between '13/01/2020' and '31/12/2020'));
               set datestyle = 'ISO, MDY'; insert into t values ('2020-06-01')";
    assert_eq!(rows(two, "select day from t"), ["2020-06-01"]);
    // It is the same one where the day does, but not where the year does.
    let one = "set datestyle = 'ISO, MDY'; create table t (id int, day date default '05/05/06');
               set datestyle = 'ISO, YMD'; insert into t values (1)";
    assert_eq!(rows(one, "select day from t"), ["2006-05-05"]);
}
