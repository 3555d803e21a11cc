//! Views, sequences, types, schemas, owners, locks, comments.

use super::{after, failure, rows};
use crate::session::Pause;

#[test]
fn a_view_shows_its_columns_under_its_own_names() {
    let sql = "create table t (a int primary key, b text); insert into t values (1, 'x');
               create view v (number, letter) as select a, b from t";
    assert_eq!(rows(sql, "select letter from v where number = 1"), ["x"]);
    let (mut bench, mut session) = after(sql);
    bench.run(&mut session, "create or replace view v (number, letter, twice) as select a, b, a * 2 from t");
    assert_eq!(bench.run(&mut session, "select twice from v").lines(), ["2"]);
    let error = bench.fail(&mut session, "create or replace view v as select a from t");
    assert_eq!(error.state().as_str(), "42P16");
}

#[test]
fn comments_go_with_what_they_are_on() {
    let before = "create schema s; create table s.p (id int primary key);
        create table s.t (a int constraint k primary key, b int constraint u unique,
            c int constraint c check (c > 0), d int constraint f references s.p);
        create index i on s.t (c); comment on schema s is 'x';
        comment on constraint k on s.t is 'x'; comment on constraint u on s.t is 'x'; comment on index s.k is 'x';
        comment on constraint c on s.t is 'x'; comment on constraint f on s.t is 'x'; comment on index s.u is 'x';
        comment on index s.i is 'x'";
    for drop in [
        "drop schema s cascade",
        "comment on schema s is null; drop table s.t",
        "comment on schema s is null; drop table s.p cascade; alter table s.t drop column a, drop column b, drop column c",
        "comment on schema s is null; drop index s.i;
         alter table s.t drop constraint k, drop constraint u, drop constraint c, drop constraint f",
    ] {
        let (mut bench, mut session) = after(before);
        let catalog = bench.catalog();
        let table = catalog.tables().find(|table| table.name == "t").expect("the table exists");
        let indexes = table.indexes.iter().map(|index| index.oid);
        let keys = table.indexes.iter().filter_map(|index| index.constraint).map(|key| key.oid);
        let checks = table.checks.iter().map(|check| check.oid);
        let foreign = table.foreign_keys.iter().map(|key| key.oid);
        let all: Vec<base::Oid> =
            indexes.chain(keys).chain(checks).chain(foreign).chain([table.schema]).collect();
        assert!(all.iter().all(|object| catalog.comment(*object, None).is_some()));
        bench.run(&mut session, drop);
        let left = all.iter().filter(|object| bench.catalog().comment(**object, None).is_some());
        assert_eq!(left.count(), 0, "{drop}");
    }
}

#[test]
fn sequences_keep_their_options() {
    let sql =
        "create sequence s as smallint start with 10 increment by -2 minvalue 6 maxvalue 10 cycle cache 5";
    let (mut bench, mut session) = after(sql);
    let mut next = || bench.run(&mut session, "select nextval('s')").lines().concat();
    assert_eq!([next(), next(), next(), next()], ["10", "8", "6", "10"]);
    bench.run(&mut session, "alter sequence s restart with 8");
    assert_eq!(bench.run(&mut session, "select nextval('s')").lines(), ["8"]);
    let error = bench.fail(&mut session, "alter sequence s maxvalue 40000");
    assert_eq!(error.message(), "MAXVALUE (40000) is out of range for sequence data type smallint");
}

#[test]
fn truncate_restarts_identities_when_asked() {
    let sql = "create table t (id serial, a int); insert into t (a) values (1), (2)";
    let kept = format!("{sql}; truncate t; insert into t (a) values (3)");
    assert_eq!(rows(&kept, "select id, a from t"), ["3|3"]);
    let restarted = format!("{sql}; truncate t restart identity; insert into t (a) values (3)");
    assert_eq!(rows(&restarted, "select id, a from t"), ["1|3"]);
}

#[test]
fn enums_grow_and_sort_by_position() {
    let sql = "create type mood as enum ('sad', 'happy'); alter type mood add value 'ok' before 'happy';
               alter type mood rename value 'sad' to 'low';
               create table t (m mood); insert into t values ('happy'), ('low'), ('ok')";
    assert_eq!(rows(sql, "select m from t order by m"), ["low", "ok", "happy"]);
    assert_eq!(
        failure(sql, "insert into t values ('sad')"),
        "22P02 invalid input value for enum mood: \"sad\""
    );
}

#[test]
fn a_table_is_made_from_a_query() {
    let sql = "create table t (a int, b text); insert into t values (1, 'x'), (2, 'y')";
    let (mut bench, mut session) = after(sql);
    let made = bench.run(&mut session, "create table u as select a as n, b as s from t");
    assert_eq!(made.tags, ["SELECT 2"]);
    assert_eq!(bench.run(&mut session, "select n, s from u order by n").lines(), ["1|x", "2|y"]);
}

#[test]
fn only_the_owner_changes_a_table() {
    let (mut bench, mut owner) = after("create role bob login; create table t (a int primary key)");
    let mut bob = bench.session_of("bob");
    let mut denied = |sql: &str| {
        let error = bench.fail(&mut bob, sql);
        format!("{} {}", error.state(), error.message())
    };
    assert_eq!(denied("drop table t"), "42501 must be owner of table t");
    assert_eq!(denied("alter table t add column b int"), "42501 must be owner of table t");
    assert_eq!(denied("create index on t (a)"), "42501 must be owner of table t");
    assert_eq!(denied("truncate t"), "42501 permission denied for table t");
    assert_eq!(denied("create table u (a int)"), "42501 permission denied for schema public");
    assert_eq!(
        denied("create table pg_catalog.u (a int)"),
        "42501 permission denied to create in schema \"pg_catalog\""
    );
    assert_eq!(denied("create schema s"), "42501 permission denied for database app");
    assert_eq!(denied("comment on table t is 'mine'"), "42501 must be owner of table t");
    assert_eq!(denied("lock table t"), "25P01 LOCK TABLE can only be used in transaction blocks");
    bench.run(&mut owner, "grant create on schema public to bob");
    assert_eq!(
        bench.fail(&mut bob, "create table u (a int references t)").message(),
        "permission denied for table t"
    );
    bench.run(&mut owner, "alter table t owner to bob");
    bench.run(&mut bob, "alter table t add column b int; truncate t");
    bench.run(&mut owner, "reassign owned by bob to owner");
    assert_eq!(bench.fail(&mut bob, "drop table t").message(), "must be owner of table t");
}

#[test]
fn objects_move_between_schemas() {
    let sql = "create schema s; create table t (id serial primary key, a int);
               alter table t set schema s; insert into s.t (a) values (5)";
    assert_eq!(rows(sql, "select id, a from s.t where id = 1"), ["1|5"]);
    let renamed = format!("{sql}; alter schema s rename to r; insert into r.t (a) values (6)");
    assert_eq!(rows(&renamed, "select id, a from r.t where id = 2"), ["2|6"]);
    assert!(failure(sql, "select 1 from t").starts_with("42P01"));
}

#[test]
fn lock_table_waits_or_fails_at_once() {
    let (mut bench, mut one) = after("create table t (a int)");
    let mut other = bench.session();
    bench.run(&mut one, "begin; lock table t in share mode");
    bench.run(&mut other, "begin; lock table t in share mode nowait");
    let error = bench.fail(&mut other, "lock table t in exclusive mode nowait");
    assert_eq!(
        format!("{} {}", error.state(), error.message()),
        "55P03 could not obtain lock on relation \"t\""
    );
    bench.run(&mut other, "rollback; begin");
    let waiting = bench.try_run(&mut other, "lock table t");
    assert!(matches!(waiting, Err(Pause::Lock(_))), "{waiting:?}");
    assert_eq!(
        crate::session::testing::locks_of(bench.tenant()),
        ["ShareLock granted", "AccessExclusiveLock waiting"]
    );
    bench.run(&mut one, "commit");
    bench.run(&mut other, "lock table t");
}

#[test]
fn ddl_of_two_sessions_takes_turns() {
    let (mut bench, mut one) = after("");
    let mut other = bench.session();
    bench.run(&mut one, "begin; create table t (a int)");
    let waiting = bench.try_run(&mut other, "create table t (a int)");
    assert!(matches!(waiting, Err(Pause::Lock(_))), "{waiting:?}");
    bench.run(&mut one, "commit");
    let error = bench.fail(&mut other, "create table t (a int)");
    assert_eq!(error.state().as_str(), "42P07");
}

#[test]
fn read_only_transactions_change_nothing() {
    let (mut bench, mut session) = after("create table t (a int); begin read only");
    let error = bench.fail(&mut session, "alter table t add column b int");
    assert_eq!(
        format!("{} {}", error.state(), error.message()),
        "25006 cannot execute ALTER TABLE in a read-only transaction"
    );
    bench.run(&mut session, "rollback");
    bench.run(&mut session, "create table t (a int); create sequence s");
    bench.run(&mut session, "begin read only; select * from t");
    for (statement, refused) in [
        ("select nextval('s')", "nextval()"),
        ("select setval('s', 7)", "setval()"),
        ("select * from t for update", "SELECT FOR UPDATE"),
        ("select * from t for no key update", "SELECT FOR NO KEY UPDATE"),
        ("select * from t where a = 1 for share", "SELECT FOR SHARE"),
        ("select * from t for key share", "SELECT FOR KEY SHARE"),
        ("explain analyze select * from t for update", "SELECT FOR UPDATE"),
        ("copy t from stdin", "COPY FROM"),
        ("grant select on t to public", "GRANT"),
        ("revoke select on t from public", "REVOKE"),
        ("create role r", "CREATE ROLE"),
        ("alter role owner set work_mem = '1MB'", "ALTER ROLE"),
        ("drop role if exists r", "DROP ROLE"),
    ] {
        let error = bench.fail(&mut session, statement);
        assert_eq!(
            format!("{} {}", error.state(), error.message()),
            format!("25006 cannot execute {refused} in a read-only transaction"),
            "{statement}"
        );
        bench.run(&mut session, "rollback; begin read only");
    }
    bench.run(&mut session, "explain select * from t for update");
}

#[test]
fn statistics_are_no_change_of_a_read_only_transaction() {
    for sql in ["analyze t", "begin read only; analyze; commit", "vacuum analyze t"] {
        let (mut bench, mut session) =
            after("create table t (a int); set default_transaction_read_only = on");
        bench.run(&mut session, sql);
        let table = bench.catalog().tables().next().expect("it is there").oid;
        assert!(bench.catalog().statistics(table).is_some(), "{sql}");
    }
}

#[test]
fn statements_on_tenants_are_the_administrators() {
    assert!(failure("", "create tenant x").starts_with("42501"));
    assert!(failure("", "show tenants").starts_with("42501"));
}

#[test]
fn vacuum_stands_alone() {
    let sql = "create table t (a int); begin";
    assert_eq!(failure(sql, "vacuum t"), "25001 VACUUM cannot run inside a transaction block");
    let (mut bench, mut session) = after("create table t (a int); insert into t values (1), (2), (null)");
    assert_eq!(bench.run(&mut session, "vacuum t").tags, ["VACUUM"]);
    assert_eq!(bench.run(&mut session, "analyze").tags, ["ANALYZE"]);
    let table = bench.catalog().tables().next().expect("one table").oid;
    let statistics = bench.catalog().statistics(table).expect("analyzed");
    let column = statistics.columns[0].as_ref().expect("a column");
    assert_eq!((statistics.rows, column.distinct), (3, 2.0));
}

#[test]
fn options_of_vacuum_and_analyze_are_those_of_postgresql() {
    let sql = "create table t (a int, b int)";
    let (mut bench, mut session) = after(sql);
    for taken in [
        "vacuum (full, freeze true, verbose off, analyze 1, skip_locked on, truncate false) t",
        "vacuum (index_cleanup auto, process_toast, disable_page_skipping off, parallel 4)",
        "vacuum (index_cleanup off, analyse) t (a), t (b)",
        "vacuum full freeze verbose analyze t (a)",
        "vacuum (full, full off, parallel 1)",
        "analyze (verbose off, skip_locked) t (b, a)",
        "analyse verbose",
    ] {
        let tag = if taken.starts_with('v') { "VACUUM" } else { "ANALYZE" };
        assert_eq!(bench.run(&mut session, taken).tags, [tag], "{taken}");
    }
    for (refused, error) in [
        ("vacuum (nonsense)", "42601 unrecognized VACUUM option \"nonsense\""),
        ("vacuum (nonsense off)", "42601 unrecognized VACUUM option \"nonsense\""),
        ("vacuum (\"Full\")", "42601 unrecognized VACUUM option \"Full\""),
        ("analyze (nonsense)", "42601 unrecognized ANALYZE option \"nonsense\""),
        ("analyze (full)", "42601 unrecognized ANALYZE option \"full\""),
        ("analyze (analyze)", "42601 unrecognized ANALYZE option \"analyze\""),
        ("vacuum (full yes)", "42601 full requires a Boolean value"),
        ("vacuum (full 2)", "42601 full requires a Boolean value"),
        ("vacuum (index_cleanup maybe)", "42601 index_cleanup requires a Boolean value"),
        ("analyze (verbose t)", "42601 verbose requires a Boolean value"),
        ("vacuum (parallel)", "42601 parallel option requires a value between 0 and 1024"),
        ("vacuum (parallel 1025)", "42601 parallel workers for vacuum must be between 0 and 1024"),
        ("vacuum (parallel -1)", "42601 parallel workers for vacuum must be between 0 and 1024"),
        ("vacuum (parallel x)", "42601 parallel requires an integer value"),
        ("vacuum (parallel 2, full)", "0A000 VACUUM FULL cannot be performed in parallel"),
        (
            "vacuum (full, disable_page_skipping)",
            "0A000 VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL",
        ),
        ("vacuum (full, process_toast off)", "0A000 PROCESS_TOAST required with VACUUM FULL"),
        ("vacuum ()", "42601 syntax error at or near \")\""),
        ("vacuum (full,)", "42601 syntax error at or near \")\""),
        ("vacuum t,", "42601 syntax error at end of input"),
        ("analyze t t", "42601 syntax error at or near \"t\""),
        ("analyze t ()", "42601 syntax error at or near \")\""),
        ("vacuum t (a)", "0A000 ANALYZE option must be specified when a column list is provided"),
        ("analyze t (no_such_column)", "42703 column \"no_such_column\" of relation \"t\" does not exist"),
        ("vacuum analyze t (nosuch)", "42703 column \"nosuch\" of relation \"t\" does not exist"),
        ("analyze t (a, a)", "42701 column \"a\" of relation \"t\" appears more than once"),
    ] {
        assert_eq!(failure(sql, refused), error, "{refused}");
    }
}

#[test]
fn what_frameworks_write_around_indexes_locks_and_grants_is_taken() {
    let sql = r#"create table t (a int, b text, c varchar(9), d char(3)); insert into t values (1, 'x', 'y', 'z'), (2, 'x', 'y', 'z');
               create index i on t (b text_pattern_ops, c varchar_pattern_ops desc, d bpchar_pattern_ops, a int4_ops);
               create index k on t (b pg_catalog.text_ops); drop index k;
               create index l on t (c collate "C" varchar_pattern_ops desc, b collate pg_catalog."default"); drop index l;
               create table u (a text collate "C.utf8", b varchar(3)[] collate "C");
               grant execute on all functions in schema public to public"#;
    assert_eq!(
        failure(sql, "create index on t (a text_pattern_ops)"),
        "42804 operator class \"text_pattern_ops\" does not accept data type integer"
    );
    for refused in [r#"create index on t (a collate "C")"#, r#"create table v (a int collate "C")"#] {
        let error = "42804 collations are not supported by type integer";
        assert_eq!(failure(sql, refused), error, "{refused}");
    }
    assert_eq!(
        failure(sql, r#"create index on t (b collate "de_DE")"#),
        "0A000 the collation \"de_DE\" is not supported"
    );
    assert_eq!(
        failure(sql, "grant execute on all routines in schema nosuch to public"),
        "3F000 schema \"nosuch\" does not exist"
    );
    for (query, expected) in [
        ("select a from t order by a for update limit 1", "1"),
        ("select a from t order by a for update skip locked limit 1 offset 1", "2"),
        ("select a from t order by a for no key update nowait fetch first 1 row only", "1"),
        ("select a from t where a = (select a from t order by a for share limit 1)", "1"),
        ("select a from t order by a offset 1 for update", "2"),
    ] {
        assert_eq!(rows(sql, query), [expected], "{query}");
    }
    assert!(failure(sql, "select a from t for update limit").starts_with("42601"));
}

#[test]
fn an_index_on_jsonb_has_not_the_order_of_its_values() {
    let sql = "create table t (id int primary key, j jsonb, a jsonb[]);
               insert into t select g, ('{\"n\": ' || g || '}')::jsonb, array[('{\"n\": ' || g || '.0}')::jsonb]
               from generate_series(1, 2000) g";
    let (mut bench, mut session) = after(sql);
    let queries = [
        ("select id from t order by j limit 5", vec!["1", "2", "3", "4", "5"]),
        ("select id from t order by j desc limit 2", vec!["2000", "1999"]),
        ("select id from t where j = '{\"n\": 17.0}'", vec!["17"]),
        ("select id from t where a = array['{\"n\": 17}'::jsonb]", vec!["17"]),
    ];
    for indexes in ["", "create index on t (j); create index on t (a)"] {
        bench.run(&mut session, indexes);
        for (query, expected) in &queries {
            assert_eq!(bench.run(&mut session, query).lines(), *expected, "{query}; {indexes}");
        }
    }
    for refused in [
        "create unique index on t (id, j)",
        "alter table t add unique (j)",
        "create table u (j jsonb[] primary key)",
        "create table u (j text unique); alter table u alter j type jsonb using j::jsonb",
    ] {
        assert_eq!(
            failure(sql, refused),
            "0A000 a unique index or primary key on jsonb is not supported",
            "{refused}"
        );
    }
    let no_order = "42704 data type json has no default operator class for access method \"btree\"";
    for refused in ["create table u (j json unique)", "create table u (j json); create index on u (j)"] {
        assert_eq!(failure(sql, refused), no_order, "{refused}");
    }
}

#[test]
fn many_times_in_a_check_mean_the_same_everywhere() {
    let hours: Vec<String> = (0..2_000)
        .map(|i| format!("'{}-01-{:02} {:02}:00'", 1900 + i / 600, i / 24 % 25 + 1, i % 24))
        .collect();
    let (mut bench, mut session) =
        after("SET timezone = 'Asia/Tokyo'; CREATE TABLE t (at timestamptz, kind text)");
    let either: Vec<String> =
        hours.iter().map(|hour| format!("kind = '1950-01-01' AND at = {hour}")).collect();
    let error = bench.fail(&mut session, &format!("ALTER TABLE t ADD CHECK ({})", either.join(" OR ")));
    assert_eq!(error.state().to_string(), "0A000", "texts and times by turns");
    let kinds = "kind IS NULL OR kind IN ('now', '1950-01-01', 'x')";
    bench.run(&mut session, &format!("ALTER TABLE t ADD CHECK (({kinds}) AND at IN ({}))", hours.join(", ")));
    bench.run(&mut session, "SET timezone = 'UTC'; INSERT INTO t VALUES ('1900-01-01 15:00+00')");
    let error = bench.fail(&mut session, "INSERT INTO t VALUES ('1900-01-01 15:30+00')");
    assert_eq!(error.state().to_string(), "23514");
}
