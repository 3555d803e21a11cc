//! What a query on the analytical path locks, and which plan it keeps. The path is played by the test.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use env::sim::World;
use types::{Datum, PgType, TypeMod};

use super::stand_in::{Answer, LoneHost};
use super::testing::{Bench, OwnAnswers, locks_of};
use super::{AnalyticEvent, BackendRow, Bind, Executed, Field, Pause, RowStore, Session};

const RANKED: &str = "select rank() over (order by a) from t";

fn tables() -> (Bench, Session, Session) {
    let mut bench = Bench::new();
    let (mut one, other) = (bench.session(), bench.session());
    bench.run(&mut one, "create table t (a int); create table u (a int); create view v as select a from t");
    (bench, one, other)
}

#[track_caller]
fn is_sent_out<T: std::fmt::Debug>(outcome: Result<T, Pause>) {
    assert!(matches!(outcome, Err(Pause::Analytic(_))), "{outcome:?}");
}

#[track_caller]
fn waits(bench: &mut Bench, session: &mut Session, sql: &str) -> tenant::locks::LockWait {
    match bench.try_run(session, sql) {
        Err(Pause::Lock(wait)) => wait,
        outcome => panic!("{sql} waits: {outcome:?}"),
    }
}

/// The query that was sent out has given so many rows.
fn ends(session: &mut Session, rows: u64) {
    let encoded = AnalyticEvent::Encoded { rows, bytes: Vec::new() };
    tell(session, [columns("rank", PgType::Int8), encoded, AnalyticEvent::Done(Ok(()))]);
}

fn tell<const N: usize>(session: &mut Session, events: [AnalyticEvent; N]) {
    let mut out = Answer::default();
    events.into_iter().for_each(|event| session.analytic_event(event, &mut out));
}

fn columns(name: &str, ty: PgType) -> AnalyticEvent {
    let field = Field { name: name.into(), table_oid: 0, attribute: 0, ty, modifier: TypeMod::NONE };
    AnalyticEvent::Columns { parameters: Vec::new(), fields: [field].into() }
}

#[test]
fn what_an_update_assigns_without_a_type_has_its_columns_though_the_rows_are_found_elsewhere() {
    let (mut bench, mut one, _) = tables();
    let rows =
        "create table k (id int primary key, n int, d date, s text); insert into k values (1, 5, null, 'a')";
    bench.run(&mut one, rows);
    let update = "update k set n = null, d = ('2024-02-29'), s = s || '!'
        where id in (select id from (select id, rank() over (order by n) from k) x) returning d";
    is_sent_out(bench.try_run(&mut one, update));
    // The table's columns, and what the query works out.
    let types = [PgType::Int4, PgType::Int4, PgType::Date, PgType::Text, PgType::Text];
    let field = |ty| Field { name: "x".into(), table_oid: 0, attribute: 0, ty, modifier: TypeMod::NONE };
    let columns = AnalyticEvent::Columns { parameters: Vec::new(), fields: types.map(field).into() };
    let found = vec![Datum::Int4(1), Datum::Int4(5), Datum::Null, Datum::text("a"), Datum::text("a!")];
    let rows = AnalyticEvent::Stored(RowStore::of_rows(vec![found]));
    tell(&mut one, [columns, rows, AnalyticEvent::Done(Ok(()))]);
    assert_eq!(bench.run(&mut one, update).lines(), ["2024-02-29"]);
    assert_eq!(bench.run(&mut one, "select n is null, d, s from k").lines(), ["t|2024-02-29|a!"]);
}

#[test]
fn a_table_that_was_read_stays_as_it_is_to_the_transactions_end() {
    for begin in ["begin", "begin isolation level repeatable read"] {
        for change in ["drop table t cascade", "truncate t", "alter table t add column b int"] {
            let (mut bench, mut one, mut other) = tables();
            bench.run(&mut one, begin);
            is_sent_out(bench.try_run(&mut one, RANKED));
            let wait = waits(&mut bench, &mut other, change);
            ends(&mut one, 2);
            assert_eq!(bench.run(&mut one, RANKED).tags, ["SELECT 2"]);
            assert!(!wait.is_over(), "{change}");
            bench.run(&mut one, "commit");
            assert!(wait.is_over(), "{change}");
            bench.run(&mut other, change);
        }
    }
}

#[test]
fn a_query_by_itself_locks_what_it_reads_until_it_has_ended() {
    let (mut bench, mut one, mut other) = tables();
    is_sent_out(bench.try_run(&mut one, "select rank() over (order by t.a) from v as t, u"));
    assert_eq!(locks_of(bench.tenant()), ["AccessShareLock granted", "AccessShareLock granted"]);
    bench.run(&mut other, "insert into t values (1); create index on t (a)");
    let wait = waits(&mut bench, &mut other, "drop table u");
    ends(&mut one, 0);
    bench.run(&mut one, "select rank() over (order by t.a) from v as t, u");
    assert!(wait.is_over());
    bench.run(&mut other, "drop table u");
    assert!(locks_of(bench.tenant()).is_empty());
}

#[test]
fn a_query_waits_for_who_changes_what_it_reads() {
    let (mut bench, mut one, mut other) = tables();
    bench.run(&mut other, "drop view v");
    bench.run(&mut other, "begin; alter table t rename to x; alter table u rename to t");
    let wait = waits(&mut bench, &mut one, RANKED);
    bench.run(&mut other, "commit");
    assert!(wait.is_over());
    is_sent_out(bench.try_run(&mut one, RANKED));
    ends(&mut one, 0);
    assert_eq!(bench.run(&mut one, RANKED).tags, ["SELECT 0"]);
    // A circle is found here as elsewhere.
    bench.run(&mut one, "begin; lock table x");
    bench.run(&mut other, "begin");
    is_sent_out(bench.try_run(&mut other, RANKED));
    ends(&mut other, 0);
    bench.run(&mut other, RANKED);
    let _wait = waits(&mut bench, &mut one, "drop table t");
    let error = bench.fail(&mut other, "select rank() over (order by a) from x");
    assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED);
}

/// DDL has the branch while it waits for a table. Who holds that table has no use for waiting for the branch.
#[test]
fn a_long_change_does_not_wait_for_ddl_that_waits_for_what_it_reads() {
    let (mut bench, mut one, mut other) = tables();
    let insert = "insert into u select rank() over (order by a) from t";
    is_sent_out(bench.try_run(&mut one, insert));
    let wait = waits(&mut bench, &mut other, "truncate t");
    let rows = AnalyticEvent::Stored(RowStore::of_rows((1..=5000).map(|n| vec![Datum::Int8(n)]).collect()));
    tell(&mut one, [columns("rank", PgType::Int8), rows, AnalyticEvent::Done(Ok(()))]);
    assert_eq!(bench.run(&mut one, insert).tags, ["INSERT 0 5000"]);
    assert!(wait.is_over());
    bench.run(&mut other, "truncate t");
    bench.run(&mut one, "begin; select a from t");
    let wait = waits(&mut bench, &mut other, "drop table t cascade");
    assert_eq!(bench.run(&mut one, "update u set a = a + 1").tags, ["UPDATE 5000"]);
    bench.run(&mut one, "commit");
    assert!(wait.is_over());
}

#[test]
fn rows_that_are_on_their_way_arrive_whatever_becomes_of_their_view() {
    let query = "select rank() over (order by a) from v";
    let changes = "drop view v; create view w as select 1";
    for (sql, tag) in [(query.to_owned(), "SELECT 3"), (format!("copy ({query}) to stdout"), "COPY 3")] {
        let (mut bench, mut one, mut other) = tables();
        is_sent_out(bench.try_run(&mut one, &sql));
        bench.run(&mut other, changes);
        ends(&mut one, 3);
        assert_eq!(bench.run(&mut one, &sql).tags, [tag]);
    }
    let (mut bench, mut one, mut other) = tables();
    let mut out = Answer::default();
    bench.turn(|home| {
        let bind =
            Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        one.parse(home, "", query, &[], &mut out).unwrap();
        one.bind(home, bind, &mut out).unwrap();
        is_sent_out(one.execute(home, "", None, &mut out));
    });
    bench.run(&mut other, changes);
    ends(&mut one, 3);
    bench.turn(|home| {
        assert_eq!(one.execute(home, "", None, &mut out).unwrap(), Executed::Complete);
        one.sync(home, &mut out).unwrap();
    });
    assert_eq!(out.tags, ["SELECT 3"]);
}

/// A tenant may have a million of them: copying them takes the worker's time.
#[test]
fn locks_go_with_a_query_that_looks_at_them() {
    let (mut bench, mut one, mut other) = tables();
    for view in ["create view l as select mode from pg_locks", "create view m as select * from l"] {
        is_sent_out(bench.try_run(&mut one, view));
        tell(&mut one, [columns("mode", PgType::Text), AnalyticEvent::Done(Ok(()))]);
        bench.run(&mut one, view);
    }
    bench.run(&mut one, "insert into u values (1)");
    bench.run(&mut other, "begin; update u set a = 2; lock table u");
    for (sql, expected) in [
        (RANKED, 0),
        ("select relname from pg_class", 0),
        ("select mode from pg_locks", 3),
        ("select rank() over (order by a), (select count(*) from \"pg_catalog\".Pg_Locks) from t", 3),
        ("select count(*) from m", 3),
        ("select pid from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0", 3),
        ("select * from pg_stat_activity, pg_blocking_pids(7)", 3),
    ] {
        let mut session = bench.session();
        match bench.try_run(&mut session, sql) {
            Err(Pause::Analytic(request)) => {
                let found = request.context.locks.iter().filter(|lock| lock.pid == other.start().id);
                assert_eq!(found.count(), expected, "{sql}");
            }
            outcome => panic!("{sql}: {outcome:?}"),
        }
    }
}

#[test]
fn settings_go_with_a_query_that_looks_at_them() {
    let (mut bench, mut one, _) = tables();
    let view = "create view s as select setting from pg_settings";
    is_sent_out(bench.try_run(&mut one, view));
    tell(&mut one, [columns("setting", PgType::Text), AnalyticEvent::Done(Ok(()))]);
    bench.run(&mut one, view);
    for (sql, is_shown) in [
        (RANKED, false),
        ("select relname from pg_class", false),
        ("select name from pg_settings", true),
        ("select count(*) from s", true),
        ("select rank() over (order by a), Current_Setting('a.b') from t", true),
        ("select rank() over (order by a), version() from t", true),
        ("select rank() over (order by a) from t, lateral current_setting('a.b') s", true),
    ] {
        let mut session = bench.session();
        bench.run(&mut session, "set a.b = 'own'");
        match bench.try_run(&mut session, sql) {
            Err(Pause::Analytic(request)) => {
                let is_found = request.context.settings.iter().any(|(_, value, _)| value == "own");
                assert_eq!(is_found, is_shown, "{sql}");
            }
            outcome => panic!("{sql}: {outcome:?}"),
        }
    }
}

/// How many rows a range has decides, not how many are expected of one. `r` has 120,000 rows, nearly all of one value of `g`; `d` names 2,000 of them.
#[test]
fn a_range_of_few_rows_is_read_here_however_large_its_table() {
    let (mut bench, mut one, _) = tables();
    for sql in [
        "create table r (id int primary key, g int, v int); create table d (id int primary key, n int)",
        "insert into r select n, case when n % 4000 = 1 then n else 7 end, n from generate_series(1, 120000) n",
        "insert into d select n, n from generate_series(1, 120000, 60) n; create index on r (g)",
        "analyze r; analyze d; prepare p as select * from r where id > $1",
    ] {
        bench.run(&mut one, sql);
    }
    for (sql, rows) in [
        ("select * from r where id > 119990", 10),
        ("select * from r where g in (4001, 8001, 8002)", 2),
        ("select * from r where g = 4001", 1),
        ("select r.v, d.n from r join d on d.id = r.id where r.id > 119700", 5),
        ("select r.v, d.n from r left join d on d.id = r.v where r.g between 3000 and 20001 order by 1", 5),
        ("select count(*) from r, d where d.id = r.v and r.id > 119000", 1),
        ("select * from r where id > 500000", 0),
        ("select * from r where id > null", 0),
        ("execute p (119900)", 100),
    ] {
        assert_eq!(bench.run(&mut one, sql).rows.len(), rows, "{sql}");
    }
    for sql in [
        "select * from r where id > 110000",
        "select * from r where g in (7, 9)",
        "select r.v, d.n from r join d on d.id = r.v where r.g = 7",
        "select * from r where v = 9",
        "execute p (110000)",
    ] {
        is_sent_out(bench.try_run(&mut one, sql));
        ends(&mut one, 2);
        assert_eq!(bench.run(&mut one, sql).tags, ["SELECT 2"], "{sql}");
    }
    // What is not there is looked for all the same.
    let absent: Vec<String> = (200_000..206_000).map(|id| id.to_string()).collect();
    let (few, many) = (absent[..4_900].join(", "), absent.join(", "));
    assert_eq!(bench.run(&mut one, &format!("select * from r where id in ({few})")).rows.len(), 0);
    let sql = format!("select * from r where id in ({many})");
    is_sent_out(bench.try_run(&mut one, &sql));
    ends(&mut one, 2);
    assert_eq!(bench.run(&mut one, &sql).tags, ["SELECT 2"]);
    let explained = bench.run(&mut one, "explain select * from r where id > 119990").rows;
    let first = explained[0][0].clone().expect("a line");
    assert!(first.contains("has at most 4969 rows, else analytical path: about 6"), "{first}");
}

#[test]
fn a_query_is_sent_out_for_as_many_rows_as_its_portal_can_give() {
    let signals = "select pg_cancel_backend(pid) from pg_stat_activity";
    for (sql, follows, is_limited) in [(RANKED, true, true), (RANKED, false, false), (signals, true, false)] {
        let (mut bench, mut one, _) = tables();
        let bind =
            Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        let mut out = Answer::default();
        let executed = bench.turn(|home| {
            one.parse(home, "", sql, &[], &mut out).unwrap();
            one.bind(home, bind, &mut out).unwrap();
            one.note_sync_follows(follows);
            one.execute(home, "", Some(5), &mut out)
        });
        let Err(Pause::Analytic(request)) = executed else { panic!("{sql} is sent out") };
        assert_eq!(request.query.to_string().ends_with("LIMIT 5"), is_limited, "{sql}");
    }
}

#[test]
fn a_source_of_fewer_columns_leaves_the_others_to_their_defaults() {
    let (mut bench, mut one, _) = tables();
    bench.run(&mut one, "create table d (a bigint, b int default 7, c serial)");
    let insert = "insert into d select * from (select rank() over (order by a) from t) s";
    is_sent_out(bench.try_run(&mut one, insert));
    let rows = AnalyticEvent::Stored(RowStore::of_rows(vec![vec![Datum::Int8(1)], vec![Datum::Int8(2)]]));
    tell(&mut one, [columns("rank", PgType::Int8), rows, AnalyticEvent::Done(Ok(()))]);
    assert_eq!(bench.run(&mut one, insert).tags, ["INSERT 0 2"]);
    assert_eq!(bench.run(&mut one, "select a, b, c from d order by a").lines(), ["1|7|1", "2|7|2"]);
    // Of columns that are named each wants a value.
    let named = insert.replace("into d", "into d (a, b)");
    is_sent_out(bench.try_run(&mut one, &named));
    let rows = AnalyticEvent::Stored(RowStore::of_rows(vec![vec![Datum::Int8(1)]]));
    tell(&mut one, [columns("rank", PgType::Int8), rows, AnalyticEvent::Done(Ok(()))]);
    assert_eq!(bench.fail(&mut one, &named).state(), SqlState::SYNTAX_ERROR);
}

#[test]
fn a_change_whose_rows_are_found_elsewhere_shows_no_other_tables_columns() {
    let (mut bench, mut one, _) = tables();
    bench.run(&mut one, "create table k (id int primary key, v bigint)");
    let ranked = "(select a, rank() over (order by a) r from t) s";
    for change in [
        format!("update k set v = s.r from {ranked} where id = s.a"),
        format!("delete from k using {ranked} where id = s.a"),
    ] {
        for (shown, is_refused) in [("*", true), ("s.r", true), ("r", true), ("id, v", false), ("k.*", false)]
        {
            let sql = format!("{change} returning {shown}");
            match bench.try_run(&mut one, &sql) {
                Err(Pause::Error(error)) => {
                    assert!(is_refused, "{sql}: {error}");
                    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
                }
                outcome => {
                    assert!(!is_refused, "{sql}");
                    is_sent_out(outcome);
                    one = bench.session();
                }
            }
        }
    }
}

#[test]
fn parameters_of_a_change_whose_rows_are_found_elsewhere_are_of_its_columns_types() {
    let (mut bench, mut one, _) = tables();
    bench.run(&mut one, "create table k (id int primary key, v bigint, n text)");
    let ranked = "(select a, rank() over (order by a) r from t) s";
    for (change, types) in [
        (format!("update k set v = $1 from {ranked} where id = s.a"), vec![PgType::Int8]),
        (
            format!("update k set v = v + $1, n = $2 from {ranked} where id = s.a and (v > $3 and s.r < 3)"),
            vec![PgType::Int8, PgType::Text, PgType::Int8],
        ),
        // What a cast says comes first.
        (format!("update k set v = $1 from {ranked} where id = s.a and s.r > $1::int"), vec![PgType::Int4]),
        (format!("delete from k using {ranked} where id = s.a and v = $1"), vec![PgType::Int8]),
    ] {
        let mut out = Answer::default();
        bench.turn(|home| one.parse(home, "", &change, &[], &mut out)).unwrap();
        assert_eq!(one.statements[""].parameters(), types, "{change}");
    }
    // The type of the other query's column is not known here.
    let mut out = Answer::default();
    let sql = format!("delete from k using {ranked} where id = s.a and s.r = $1");
    match bench.turn(|home| one.parse(home, "", &sql, &[], &mut out)) {
        Err(Pause::Error(error)) => assert_eq!(error.state(), SqlState::INDETERMINATE_DATATYPE),
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn the_columns_of_an_execute_are_told_before_it_has_ever_run() {
    for of_portal in [false, true] {
        let (mut bench, mut one, _) = tables();
        bench.run(&mut one, &format!("prepare p as {RANKED}"));
        let mut out = Answer::default();
        let bind =
            Bind { portal: "", statement: "e", parameter_formats: &[], parameters: &[], result_formats: &[] };
        bench.turn(|home| {
            one.parse(home, "e", "execute p", &[], &mut out).unwrap();
            one.bind(home, bind, &mut out).unwrap();
        });
        let describe = |bench: &mut Bench, one: &mut Session| {
            let mut out = Answer::default();
            let described = bench.turn(|home| {
                if of_portal {
                    one.describe_portal(home, "", &mut out)
                } else {
                    one.describe_statement(home, "e", &mut out)
                }
            });
            described.map(|()| out.fields.len())
        };
        is_sent_out(describe(&mut bench, &mut one));
        tell(&mut one, [columns("rank", PgType::Int8), AnalyticEvent::Done(Ok(()))]);
        assert_eq!(describe(&mut bench, &mut one).unwrap(), 1, "{of_portal}");
    }
}

#[test]
fn a_description_of_what_was_altered_meanwhile_is_asked_for_again() {
    let (mut bench, mut one, mut other) = tables();
    let mut out = Answer::default();
    let ranked = "select *, rank() over (order by a) from t";
    bench.turn(|home| one.parse(home, "p", ranked, &[], &mut out)).unwrap();
    let describe = |bench: &mut Bench, one: &mut Session| {
        let mut out = Answer::default();
        bench.turn(|home| one.describe_statement(home, "p", &mut out)).map(|()| out.fields.len())
    };
    is_sent_out(describe(&mut bench, &mut one));
    bench.run(&mut other, "alter table t add column b int");
    let done = AnalyticEvent::Done(Ok(()));
    tell(&mut one, [columns("a", PgType::Int4), done]);
    is_sent_out(describe(&mut bench, &mut one));
    tell(&mut one, [columns("a", PgType::Int4), AnalyticEvent::Done(Ok(()))]);
    assert_eq!(describe(&mut bench, &mut one).unwrap(), 1);
}

/// A server with a session.
struct OneBackend(LoneHost);

impl OwnAnswers for OneBackend {
    fn lone(&self) -> &LoneHost {
        &self.0
    }
    fn backends(&self) -> Vec<BackendRow> {
        vec![BackendRow::default()]
    }
}

/// A server with a thousand of them, and with room for so much.
struct ManyBackends {
    lone: LoneHost,
    room: u64,
}

impl OwnAnswers for ManyBackends {
    fn lone(&self) -> &LoneHost {
        &self.lone
    }
    fn backends(&self) -> Vec<BackendRow> {
        vec![BackendRow { query: "q".repeat(1024), ..BackendRow::default() }; 1000]
    }
    fn keep(&self, bytes: u64) -> SqlResult<()> {
        let refused = || SqlError::new(SqlState::OUT_OF_MEMORY, "by the test");
        if bytes > self.room { Err(refused()) } else { Ok(()) }
    }
}

#[test]
fn the_sessions_that_a_query_shows_count_with_what_its_session_keeps() {
    for (room, is_refused) in [(1 << 20, true), (2 << 20, false)] {
        let mut bench = Bench::new();
        let host = ManyBackends { lone: LoneHost(World::new(7).env()), room };
        let mut session = bench.session_from(Arc::new(host));
        match bench.try_run(&mut session, "select pid from pg_stat_activity") {
            Err(Pause::Analytic(_)) => assert!(!is_refused),
            Err(Pause::Error(error)) => assert!(is_refused && error.state() == SqlState::OUT_OF_MEMORY),
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// They are many where sessions are, and each of these may have a query that waits for its place.
#[test]
fn sessions_and_prepared_statements_go_with_a_query_that_looks_at_them() {
    let (mut bench, mut one, _) = tables();
    for view in ["create view l as select pid from PG_Stat_Activity", "create view m as select * from l"] {
        is_sent_out(bench.try_run(&mut one, view));
        tell(&mut one, [columns("pid", PgType::Int4), AnalyticEvent::Done(Ok(()))]);
        bench.run(&mut one, view);
    }
    for (sql, backends, prepared) in [
        (RANKED, 0, 0),
        ("select relname from pg_class", 0, 0),
        ("select pid from pg_stat_activity", 1, 0),
        ("select s.ssl from pg_catalog.\"pg_stat_ssl\" as s, pg_prepared_statements", 1, 1),
        ("select sum(numbackends) from pg_stat_database", 1, 0),
        ("select rank() over (order by a), exists (select from pg_prepared_statements) from t", 0, 1),
        ("select count(*) from m", 1, 0),
    ] {
        let mut session = bench.session_from(Arc::new(OneBackend(LoneHost(World::new(7).env()))));
        bench.run(&mut session, "prepare p as select 1");
        match bench.try_run(&mut session, sql) {
            Err(Pause::Analytic(request)) => {
                let found = (request.context.backends.len(), request.context.prepared.len());
                assert_eq!(found, (backends, prepared), "{sql}");
            }
            outcome => panic!("{sql}: {outcome:?}"),
        }
    }
}
