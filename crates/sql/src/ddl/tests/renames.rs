//! What the catalog keeps as text, once something that it names has another name. Expectations are PostgreSQL 15's, but for refusals.

use super::{after, failure, rows};

const MOOD: &str = "create schema s; create type s.mood as enum ('sad', 'ok'); set search_path = s, public;
    create table t (id int, m mood default 'ok', n text default 'sad'::mood, check (m <> 'sad'::mood or id > 0))";

#[test]
fn a_view_reads_what_it_was_made_of() {
    let sql =
        "create schema a; create table t (v text); insert into t values ('own'); create type k as enum ('x');
               set search_path = a, public; create view v as select t.v, 'x'::k as k from t;
               create table t (v text); insert into a.t values ('other'); create type k as enum ('y')";
    assert_eq!(rows(sql, "select v, k from v"), ["own|x"]);
}
