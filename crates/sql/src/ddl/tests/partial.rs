//! Partial indexes, such as include columns, and such as have functions of columns. Expectations are PostgreSQL 15's, but for what is refused.

use tenant::catalog::PUBLIC_SCHEMA;

use super::{after, failure, rows};
use crate::predicate_text;
use crate::session::testing::Bench;

/// The predicates of a table's indexes, as they are kept and as they are shown to readers.
fn predicates(bench: &Bench, table: &str) -> Vec<(String, String)> {
    let catalog = bench.tenant().catalog();
    let table = catalog.tables().find(|t| t.name == table).expect("the table exists");
    let predicates = table.indexes.iter().filter_map(|index| index.predicate.as_deref());
    let shown =
        |predicate, pretty| predicate_text::shown(catalog, &[PUBLIC_SCHEMA], table, predicate, pretty);
    predicates.map(|predicate| (shown(predicate, false), shown(predicate, true))).collect()
}

const USERS: &str = "create table users (id int primary key, email text, gone timestamp);
    create unique index live on users (email) where gone is null;
    insert into users values (1, 'a', null), (2, 'a', '2020-01-01'), (3, 'a', '2020-01-02')";

#[test]
fn values_are_unique_among_the_rows_of_the_predicate() {
    let taken = "23505 duplicate key value violates unique constraint \"live\"";
    for change in [
        "insert into users values (4, 'a')",
        "update users set gone = null where id = 2",
        "update users set email = 'a', gone = null where id = 3",
        "insert into users values (1, 'x') on conflict (id) do update set id = 9, email = 'a'; insert into users values (1, 'a')",
    ] {
        assert_eq!(failure(USERS, change), taken, "{change}");
    }
    let sql = format!(
        "{USERS}; update users set gone = '2020-02-02' where id = 1; update users set gone = null where id = 2;
         insert into users values (5, 'a', null), (6, 'a', '2020-03-03'), (7, 'b', null) on conflict do nothing"
    );
    assert_eq!(rows(&sql, "select id from users where gone is null order by id"), ["2", "7"]);
    // No index is inferred that does not have all rows.
    assert_eq!(
        failure(USERS, "insert into users values (4, 'a') on conflict (email) do nothing"),
        "42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification"
    );
    assert_eq!(
        failure(
            "create table t (a int, b bool); insert into t values (1, true), (1, false), (1, true)",
            "create unique index u on t (a) where b"
        ),
        "23505 could not create unique index \"u\""
    );
}

#[test]
fn a_target_of_on_conflict_infers_an_index_whose_predicate_its_condition_tells() {
    let count = "select id, email, gone is null from users order by id";
    for (insert, expected) in [
        ("insert into users values (4, 'a') on conflict (email) where gone is null do nothing", ["1|a|t", "2|a|f", "3|a|f"]),
        (
            "insert into users as u values (4, 'a') on conflict (email) where (gone is null) do update set id = excluded.id where u.id < 3",
            ["2|a|f", "3|a|f", "4|a|t"],
        ),
        (
            "insert into users values (4, 'a') on conflict (email) where gone is null and id > 0 do update set (id, email) = (5, 'z')",
            ["2|a|f", "3|a|f", "5|z|t"],
        ),
        // One of all rows needs no condition, and may have one.
        ("insert into users values (1, 'b') on conflict (id) where email = 'a' do update set email = 'c'", ["1|c|t", "2|a|f", "3|a|f"]),
        (
            "with w as (insert into users values (4, 'a') on conflict (email) where gone is null do update set email = 'y' where true returning id)
             select id from w where id > 0",
            ["1|y|t", "2|a|f", "3|a|f"],
        ),
    ] {
        assert_eq!(rows(&format!("{USERS}; {insert}"), count), expected, "{insert}");
    }
    // What it tells is asked of the new row as well: one that the index does not have conflicts with nothing.
    let gone =
        "insert into users values (4, 'a', '2020-05-05') on conflict (email) where gone is null do nothing";
    assert_eq!(rows(&format!("{USERS}; {gone}"), count).len(), 4);
    let none = "42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification";
    for condition in ["gone is not null", "id > 0", "gone is null or id > 0"] {
        let insert =
            format!("insert into users values (4, 'a') on conflict (email) where {condition} do nothing");
        assert_eq!(failure(USERS, &insert), none, "{condition}");
    }
    let wrong =
        "insert into users values (4, 'a') on conflict (email) where excluded.gone is null do nothing";
    assert!(failure(USERS, wrong).starts_with("42P01"));
}

#[test]
fn an_index_is_used_where_the_conditions_tell_its_predicate() {
    let (mut bench, mut session) = after(
        "create table job (id int primary key, state text not null, at int, owner int, urgent bool);
         create index open_jobs on job (at) where state in ('queued', 'running');
         create index owned on job (owner) where owner is not null;
         create index urgent_jobs on job (at, id) where urgent;
         insert into job select g, case when g % 50 = 0 then 'queued' else 'done' end, g % 100,
             case when g % 3 = 0 then g end, g % 10 = 0 from generate_series(1, 1000) g;
         create table twin as select * from job;
         prepare of_state as select id from job where state = $1 and at = 50",
    );
    for (conditions, used) in [
        ("state = 'queued' and at = 50", Some("open_jobs")),
        ("state in ('running', 'queued') and at > 40 and at < 60", Some("open_jobs")),
        ("state = 'done' and at = 50", None),
        ("at = 50", None),
        ("owner = 9", Some("owned")),
        ("owner in (9, 10, 12)", Some("owned")),
        ("owner is null and id < 20", None),
        ("urgent and at = 50", Some("urgent_jobs")),
        ("urgent is true and at = 50 and id > 500", Some("urgent_jobs")),
        ("not urgent and at = 50", None),
        ("(at = 50 or at = 70 and id > 5) and urgent", Some("urgent_jobs")),
        // What the second part finds is not to be taken for found by the first.
        ("at = 50 and urgent or at = 50 and id = 7", None),
    ] {
        let query = format!("select id, at from job where {conditions}");
        let plan = bench.run(&mut session, &format!("explain {query}")).lines().join("\n");
        let found = ["open_jobs", "owned", "urgent_jobs"].into_iter().find(|index| plan.contains(index));
        assert_eq!(found, used, "{conditions}: {plan}");
        let order = " order by id";
        let answer = bench.run(&mut session, &format!("{query}{order}")).lines();
        let expected = query.replace("from job", "from twin") + order;
        assert_eq!(answer, bench.run(&mut session, &expected).lines(), "{conditions}");
    }
    // By its entries alone, where these are few.
    bench.run(&mut session, "create index almost_all on job (owner) where state <> 'lost'");
    for (query, used, count) in [
        ("select id from job where state in ('queued', 'running')", Some("open_jobs"), 20),
        ("select id from job where urgent", Some("urgent_jobs"), 100),
        ("select id from job where state <> 'lost'", None, 1000),
        ("select id from job where state <> 'lost' and owner = 9", Some("owned"), 1),
    ] {
        let plan = bench.run(&mut session, &format!("explain {query}")).lines().join("\n");
        let names = ["open_jobs", "owned", "urgent_jobs", "almost_all"];
        assert_eq!(names.into_iter().find(|index| plan.contains(index)), used, "{query}: {plan}");
        assert_eq!(bench.run(&mut session, query).lines().len(), count, "{query}");
    }
    let first = "select id from job where urgent order by at desc, id desc limit 2";
    assert!(bench.run(&mut session, &format!("explain {first}")).lines().join("\n").contains("urgent_jobs"));
    assert_eq!(bench.run(&mut session, first).lines(), ["990", "890"]);
    for (state, count) in [("done", 0), ("queued", 10)] {
        let answer = bench.run(&mut session, &format!("execute of_state('{state}')")).lines();
        assert_eq!(answer.len(), count, "{state}: of a value that comes later nothing is known");
    }
    let changed = bench.run(&mut session, "update job set urgent = false where urgent and at = 50; update job set at = 1 where state = 'queued' and at = 50");
    assert_eq!(changed.tags, ["UPDATE 10", "UPDATE 10"]);
    assert_eq!(bench.run(&mut session, "select count(*) from job where urgent and at >= 0").lines(), ["90"]);
}

#[test]
fn predicates_are_shown_as_postgresql_shows_them_and_read_again() {
    let (mut bench, mut session) = after(
        "create type mood as enum ('sad', 'ok');
         create table t (a int, n numeric(10, 2), s varchar(10), c char(3), t text, b bool, f float8, d date, at timestamp, m mood,
                         big bigint, \"Odd\" int)",
    );
    let cases = [
        ("t is null", "(t IS NULL)", "t IS NULL"),
        ("\"Odd\" is not null", "(\"Odd\" IS NOT NULL)", "\"Odd\" IS NOT NULL"),
        ("b", "b", "b"),
        ("not b", "(NOT b)", "NOT b"),
        ("b is not true", "(b IS NOT TRUE)", "b IS NOT TRUE"),
        ("b = true", "(b = true)", "b = true"),
        ("s = 'x'", "((s)::text = 'x'::text)", "s::text = 'x'::text"),
        (
            "s in ('x', 'it''s')",
            "((s)::text = ANY ((ARRAY['x'::character varying, 'it''s'::character varying])::text[]))",
            "s::text = ANY (ARRAY['x'::character varying, 'it''s'::character varying]::text[])",
        ),
        (
            "t not in ('x', 'y')",
            "(t <> ALL (ARRAY['x'::text, 'y'::text]))",
            "t <> ALL (ARRAY['x'::text, 'y'::text])",
        ),
        ("c = 'a'", "(c = 'a'::bpchar)", "c = 'a'::bpchar"),
        ("a > 0", "(a > 0)", "a > 0"),
        ("a <> -1", "(a <> '-1'::integer)", "a <> '-1'::integer"),
        ("n > 0", "(n > (0)::numeric)", "n > 0::numeric"),
        ("n >= 0.5", "(n >= 0.5)", "n >= 0.5"),
        ("f < 1.5", "(f < (1.5)::double precision)", "f < 1.5::double precision"),
        ("d >= '2020-01-01'", "(d >= '2020-01-01'::date)", "d >= '2020-01-01'::date"),
        (
            "at > '2020-01-01 12:00'",
            "(at > '2020-01-01 12:00:00'::timestamp without time zone)",
            "at > '2020-01-01 12:00:00'::timestamp without time zone",
        ),
        ("m = 'sad'", "(m = 'sad'::mood)", "m = 'sad'::mood"),
        (
            "m in ('sad', 'ok')",
            "(m = ANY (ARRAY['sad'::mood, 'ok'::mood]))",
            "m = ANY (ARRAY['sad'::mood, 'ok'::mood])",
        ),
        ("big = 5000000000", "(big = '5000000000'::bigint)", "big = '5000000000'::bigint"),
        (
            "big in (1, 2)",
            "(big = ANY (ARRAY[(1)::bigint, (2)::bigint]))",
            "big = ANY (ARRAY[1::bigint, 2::bigint])",
        ),
        ("a between 1 and 5", "((a >= 1) AND (a <= 5))", "a >= 1 AND a <= 5"),
        (
            "a > 0 and (t is null or not b)",
            "((a > 0) AND ((t IS NULL) OR (NOT b)))",
            "a > 0 AND (t IS NULL OR NOT b)",
        ),
        ("not (b and a > 0)", "(NOT (b AND (a > 0)))", "NOT (b AND a > 0)"),
    ];
    for (written, ..) in cases {
        bench.run(&mut session, &format!("create index on t (a) where {written}"));
    }
    let shown = predicates(&bench, "t");
    for ((written, kept, pretty), (own, own_pretty)) in cases.iter().zip(&shown) {
        assert_eq!((own.as_str(), own_pretty.as_str()), (*kept, *pretty), "{written}");
    }
    assert_eq!(shown.len(), cases.len());
    for (kept, pretty) in shown.clone() {
        bench.run(
            &mut session,
            &format!("create index on t (a) where {kept}; create index on t (a) where {pretty}"),
        );
    }
    let again = predicates(&bench, "t").split_off(cases.len());
    for (pair, first) in again.chunks(2).zip(&shown) {
        assert!(pair.iter().all(|read| read == first), "{first:?} was read as {pair:?}");
    }
}

#[test]
fn predicates_follow_what_they_name() {
    let sql = "create type mood as enum ('sad', 'ok');
        create table t (a int, s varchar(10), m mood, n int);
        create index on t (n) where a > 0; create index on t (n) where s = 'x' and n > 1; create index on t (n) where m = 'sad';
        insert into t select g, 'x', 'sad', g from generate_series(-3, 3) g";
    let kept = |change: &str| {
        let (mut bench, mut session) = after(sql);
        bench.run(&mut session, change);
        let shown: Vec<String> = predicates(&bench, "t").into_iter().map(|(kept, _)| kept).collect();
        (shown, bench.run(&mut session, "select count(*) from t where n between 1 and 2").lines())
    };
    let two = || vec!["2".to_owned()];
    let (a, s, m) = ("(a > 0)", "(((s)::text = 'x'::text) AND (n > 1))", "(m = 'sad'::mood)");
    let list = |shown: [&str; 3]| shown.map(str::to_owned).to_vec();
    let renamed = "alter table t rename column a to \"A b\"; alter type mood rename value 'sad' to 'blue'; alter type mood rename to temper";
    assert_eq!(kept(renamed), (list(["(\"A b\" > 0)", s, "(m = 'blue'::temper)"]), two()));
    assert_eq!(kept("alter table t alter a type bigint"), (list([a, s, m]), two()));
    assert_eq!(kept("alter table t alter a type numeric"), (list(["(a > (0)::numeric)", s, m]), two()));
    let texts = "(((s)::text = 'x'::text) AND (n > 1))".replace("(s)::text", "s");
    assert_eq!(kept("alter table t alter s type text"), (list([a, &texts, m]), two()));
    assert_eq!(kept("alter table t drop column s"), (vec![a.to_owned(), m.to_owned()], two()));
    assert_eq!(kept("drop type mood cascade"), (vec![a.to_owned(), s.to_owned()], two()));
    assert_eq!(
        kept(
            "create table u (z int, like t including indexes); drop table t; alter table u rename to t; insert into t values (1, 1, 'x', 'ok', 1), (1, 1, 'x', 'ok', 2)"
        ),
        (list([a, s, m]), two())
    );
    assert!(
        failure(sql, "alter table t alter a type text")
            .starts_with("42883 operator does not exist: text > integer")
    );
}

#[test]
fn an_index_may_have_lower_and_upper_of_a_column() {
    let (mut bench, mut session) = after(
        "create table users (id int primary key, email varchar(40) not null, n int, nick text);
         insert into users select g, case when g % 2 = 0 then 'User' else 'uSER' end || g || '@x', g % 10, null from generate_series(1, 500) g;
         create unique index on users (lower(email) varchar_pattern_ops); create index by_n on users (n, (upper(nick)) desc) where nick is not null;
         update users set nick = 'Nick' || id where id < 200",
    );
    for insert in
        ["insert into users values (501, 'USER7@X', 1)", "update users set email = 'user7@x' where id = 8"]
    {
        let error = bench.fail(&mut session, insert);
        assert_eq!(error.message(), "duplicate key value violates unique constraint \"users_lower_idx\"");
        assert_eq!(error.detail(), Some("Key (lower((email)::text))=(user7@x) already exists."));
    }
    assert_eq!(bench.run(&mut session, "update users set email = 'USER8@x' where id = 8").tags, ["UPDATE 1"]);
    for (conditions, used, found) in [
        ("lower(email) = 'user8@x'", Some("users_lower_idx"), &["8"][..]),
        ("lower(email) = lower('uSeR9@x') and n = 9", Some("users_lower_idx"), &["9"][..]),
        ("'user17@y' > lower(email) and lower(email) >= 'user17@x'", Some("users_lower_idx"), &["17"][..]),
        ("n = 3 and upper(nick) = 'NICK13'", Some("by_n"), &["13"][..]),
        ("n = 3 and upper(nick) > 'NICK9'", Some("by_n"), &["93"][..]),
        ("email = 'USER8@x'", None, &["8"][..]),
        ("upper(email) = 'USER8@X'", None, &["8"][..]),
        // For its condition alone: it has fewer rows than the table.
        ("lower(nick) = 'nick13'", Some("by_n"), &["13"][..]),
        ("lower(email) = email and id < 3", None, &[][..]),
    ] {
        let query = format!("select id from users where {conditions}");
        let plan = bench.run(&mut session, &format!("explain {query}")).lines().join("\n");
        let index = ["users_lower_idx", "by_n"].into_iter().find(|index| plan.contains(index));
        assert_eq!(index, used, "{conditions}: {plan}");
        assert_eq!(bench.run(&mut session, &query).lines(), found, "{conditions}");
    }
    let explained =
        bench.run(&mut session, "explain select 1 from users where lower(email) = 'a'").lines().join("\n");
    assert!(explained.contains("Index Cond: (lower(email::text) = "), "{explained}");
    let ordered = "select id from users where n = 3 and nick is not null order by upper(nick) desc limit 2";
    assert_eq!(bench.run(&mut session, ordered).lines(), ["93", "83"]);
    assert_eq!(
        bench.run(&mut session, "select id from users where n = 3 order by n, nick limit 1").lines(),
        ["103"]
    );
    // It is no key of the column's own.
    let conflict =
        bench.fail(&mut session, "insert into users values (1, 'a') on conflict (email) do nothing");
    assert_eq!(conflict.state().as_str(), "42P10");
    for (target, expected) in [
        ("(lower(email)) do update set n = users.n + 10 where users.n = 7", "INSERT 0 1"),
        ("((lower((email)::text))) do update set n = 7 where users.n = 17", "INSERT 0 1"),
        ("(lower(email::text)) where n > 0 do nothing", "INSERT 0 0"),
        ("do nothing", "INSERT 0 0"),
    ] {
        let insert = format!("insert into users values (501, 'USER7@X', 1) on conflict {target}");
        assert_eq!(bench.run(&mut session, &insert).tags, [expected], "{target}");
    }
    assert_eq!(bench.run(&mut session, "select n, email from users where id = 7").lines(), ["7|uSER7@x"]);
    for (target, state) in [
        ("upper(email)", "42P10"),
        ("lower(email), id", "42P10"),
        ("lower(mail)", "42703"),
        ("md5(email)", "42P10"),
    ] {
        let insert = format!("insert into users values (501, 'x', 1) on conflict ({target}) do nothing");
        assert_eq!(bench.fail(&mut session, &insert).state().as_str(), state, "{target}");
    }
    let retyped = bench.fail(&mut session, "alter table users alter nick type int using 1");
    assert_eq!(retyped.state().as_str(), "0A000");
    bench
        .run(&mut session, "alter table users alter email type text; alter table users rename email to mail");
    assert_eq!(bench.run(&mut session, "select id from users where lower(mail) = 'user8@x'").lines(), ["8"]);
    let sql = "create table t (a int, b text, c char(3))";
    for (key, state) in [
        ("lower(a)", "42883"),
        ("lower(c)", "0A000"),
        ("(b || b)", "0A000"),
        ("lower(d)", "42703"),
        ("(now())", "42P17"),
    ] {
        let error = failure(sql, &format!("create index on t ({key})"));
        assert!(error.starts_with(state), "{key}: {error}");
    }
}

#[test]
fn an_index_includes_columns_beside_its_key() {
    let sql =
        "create table t (a int, b text, c int); create unique index on t (a) include (b, c) where c > 0;
               insert into t values (1, 'x', 1), (1, 'y', 0)";
    let taken = "23505 duplicate key value violates unique constraint \"t_a_b_c_idx\"";
    assert_eq!(failure(sql, "insert into t values (1, 'z', 2)"), taken);
    assert_eq!(failure(sql, "create index on t (a) include (d)"), "42703 column \"d\" does not exist");
    let after_change = |change: &str| {
        let (mut bench, mut session) = after(sql);
        bench.run(&mut session, change);
        let table = bench.catalog().tables().find(|t| t.name == "t").expect("the table exists");
        table.indexes.iter().map(|index| (index.name.to_string(), index.included.clone())).collect::<Vec<_>>()
    };
    assert_eq!(after_change("update t set b = 'w'"), [("t_a_b_c_idx".to_owned(), vec![1, 2])]);
    let copied = "create table u (z int, like t including indexes); drop table t; alter table u rename to t";
    assert_eq!(after_change(copied), [("u_a_b_c_idx".to_owned(), vec![2, 3])]);
    assert_eq!(after_change("alter table t drop column b"), []);
}

#[test]
fn conditions_of_other_kinds_are_refused() {
    let sql = "create table t (a int, b int, s text, at timestamptz)";
    for (predicate, state) in [
        ("a", "42804"),
        ("c > 0", "42703"),
        ("count(*) > 0", "42803"),
        ("at > now()", "42P17"),
        ("a > b", "0A000"),
        ("a + 1 > 0", "0A000"),
        ("lower(s) = 'x'", "0A000"),
        ("s like 'x%'", "0A000"),
    ] {
        let error = failure(sql, &format!("create index on t (a) where {predicate}"));
        assert!(error.starts_with(state), "{predicate}: {error}");
    }
    let list = |last: i32| (1..=last).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let create = |last: i32| format!("create index on t (b) where a in ({})", list(last));
    assert!(failure(sql, &create(257)).starts_with("0A000"));
    // A longer list of a query tells nothing of it, and finds what it finds.
    let filled = format!("{sql}; {}; insert into t values (256, 1), (257, 1), (1, 2)", create(256));
    for (last, found) in [(1, 0), (256, 1), (257, 2), (5000, 2)] {
        let query = format!("select a from t where b = 1 and a in ({})", list(last));
        assert_eq!(rows(&filled, &query).len(), found, "{last}");
    }
}

#[test]
fn who_refers_to_a_row_does_not_wait_where_only_what_a_function_makes_of_a_column_changes() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(
        &mut one,
        "create table u (id int primary key, email text); create unique index on u (lower(email));
         create table c (u int references u); insert into u values (1, 'a')",
    );
    bench.run(&mut one, "begin; update u set email = 'b' where id = 1");
    assert_eq!(bench.run(&mut other, "insert into c values (1)").tags, ["INSERT 0 1"]);
    bench.run(&mut one, "commit");
}
