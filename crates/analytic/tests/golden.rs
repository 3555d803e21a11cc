//! Queries whose answers PostgreSQL 15 gave once (`tests/golden/expected.txt`), over the same rows; and one whose rows are many.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use base::{ByteCount, Nanos, SqlResult, SqlState};
use sql::session::{
    AdviceEntry, AnalyticEvent, Deliver, HistoryEntry, LedgerEntry, LedgerRows, StatementRow, UsageEntry,
    WaitEntry,
};
use support::Sample;
use types::Datum;

#[test]
fn queries_answer_as_postgresql_did() {
    let mut sample = Sample::new();
    let mut failures = Vec::new();
    let mut asked = 0;
    for entry in include_str!("golden/expected.txt").split("## ").skip(1) {
        let (sql, expected) = entry.split_once('\n').expect("a query and its rows");
        asked += 1;
        match sample.text(sql) {
            Ok(got) if got == expected => {}
            Ok(got) => failures.push(format!("{sql}\n  expected:\n{expected}\n  got:\n{got}")),
            Err(error) => failures.push(format!("{sql}\n  {error}")),
        }
    }
    assert!(asked > 50);
    assert!(failures.is_empty(), "{} of {asked} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn many_rows_for_a_session_come_at_once_from_a_temporary_file() {
    const ROWS: i32 = 20_000;
    let mut sample = Sample::new();
    let sql = format!("select g, repeat('x', 100) from generate_series(1, {ROWS}) as g");
    let mut events = sample.request(&sql, Vec::new(), Deliver::Session).expect("an answer");
    let Some(AnalyticEvent::Stored(rows)) = events.pop() else { panic!("not its rows at the end") };
    assert!(matches!(&events[..], [AnalyticEvent::Columns { .. }]), "{events:?}");
    assert_eq!(rows.len(), ROWS as usize);
    assert!(sample.temp.used() > ByteCount::from_mib(1), "{}", sample.temp.used());
    let expected = (1..=ROWS).map(|g| vec![Datum::Int4(g), Datum::text("x".repeat(100))]);
    assert!(rows.into_rows_blocking().expect("the file is read").into_iter().eq(expected));
    assert_eq!(sample.temp.used(), ByteCount(0));
}

#[test]
fn queries_fail_as_postgresql_does() {
    use SqlState as S;
    let over = |frame: &str| format!("select sum(id) over (order by id {frame}) from parent");
    let call = |call: &str| format!("select {call} over (order by id) from parent");
    let series = |bounds: &str| format!("select count(*) from generate_series({bounds}) as g, parent");
    // Each window begins with the one before it.
    let chain = |first: &str| {
        let others: String = (1..=20_000).map(|n| format!(", w{n} as (w{})", n - 1)).collect();
        format!("select sum(id) over w20000 from parent window {first}{others}")
    };
    let step = |term: &str| format!("with recursive r(n) as (select 1 union all {term}) select n from r");
    let cases = [
        (over("rows between unbounded following and current row"), S::WINDOWING_ERROR),
        (over("rows between current row and unbounded preceding"), S::WINDOWING_ERROR),
        (over("rows between current row and 1 preceding"), S::WINDOWING_ERROR),
        (over("rows between 1 following and current row"), S::WINDOWING_ERROR),
        (over("rows between 1 following and 1 preceding"), S::WINDOWING_ERROR),
        (over("rows 1 following"), S::WINDOWING_ERROR),
        (over(", name range 1 preceding"), S::WINDOWING_ERROR),
        (over("rows -1 preceding"), S::INVALID_PRECEDING_OR_FOLLOWING_SIZE),
        (over("rows null preceding"), S::NULL_VALUE_NOT_ALLOWED),
        (over("range -1 preceding"), S::INVALID_PRECEDING_OR_FOLLOWING_SIZE),
        ("select sum(id) over (groups 1 preceding) from parent".to_owned(), S::WINDOWING_ERROR),
        ("select sum(id) over (range 1 preceding) from parent".to_owned(), S::WINDOWING_ERROR),
        (
            "select sum(id) over (order by ts range '-1 day' preceding) from measure".to_owned(),
            S::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
        ),
        (
            "select sum(id) over w from parent window w as (order by id), w as (order by name)".to_owned(),
            S::WINDOWING_ERROR,
        ),
        (
            "select sum(id) over (w order by name) from parent window w as (order by id)".to_owned(),
            S::WINDOWING_ERROR,
        ),
        (
            "select sum(id) over (w partition by name) from parent window w as (order by id)".to_owned(),
            S::WINDOWING_ERROR,
        ),
        (
            "select sum(id) over (w) from parent window w as (order by id rows 1 preceding)".to_owned(),
            S::WINDOWING_ERROR,
        ),
        ("select sum(id) over w from parent window w as (w)".to_owned(), S::UNDEFINED_OBJECT),
        ("select sum(id) over v from parent window v as (w), w as (v)".to_owned(), S::UNDEFINED_OBJECT),
        (
            "select sum(id) over v from parent window v as (w), w as (order by id)".to_owned(),
            S::UNDEFINED_OBJECT,
        ),
        ("select id from parent window w as (v)".to_owned(), S::UNDEFINED_OBJECT),
        (chain("w0 as (order by id rows 1 preceding)"), S::WINDOWING_ERROR),
        (
            "select string_agg(distinct tag, ',' order by id) from child".to_owned(),
            S::INVALID_COLUMN_REFERENCE,
        ),
        (
            "select string_agg(distinct name::text, ',' order by name) from parent".to_owned(),
            S::INVALID_COLUMN_REFERENCE,
        ),
        (
            "select case when id = 1 then unnest(array[1]) end from parent".to_owned(),
            S::FEATURE_NOT_SUPPORTED,
        ),
        ("select coalesce(unnest(array[1]), id) from parent".to_owned(), S::FEATURE_NOT_SUPPORTED),
        ("select jsonb_array_elements('{}'::jsonb)".to_owned(), S::INVALID_PARAMETER_VALUE),
        ("select * from json_each('[1]')".to_owned(), S::INVALID_PARAMETER_VALUE),
        ("select * from jsonb_each(1) as e".to_owned(), S::UNDEFINED_FUNCTION),
        ("select jsonb_each('{}'::jsonb)".to_owned(), S::FEATURE_NOT_SUPPORTED),
        (
            "select * from jsonb_each(jsonb_build_object('a', random()))".to_owned(),
            S::FEATURE_NOT_SUPPORTED,
        ),
        ("select id from parent order by -1".to_owned(), S::INVALID_COLUMN_REFERENCE),
        ("select id from parent order by null".to_owned(), S::SYNTAX_ERROR),
        ("select id from parent group by id, true".to_owned(), S::SYNTAX_ERROR),
        ("select id from parent union select 1 order by -1".to_owned(), S::INVALID_COLUMN_REFERENCE),
        (
            "select id as a, id + 1 as a from parent union select 1, 2 order by a".to_owned(),
            S::AMBIGUOUS_COLUMN,
        ),
        ("select public.p.* from parent p".to_owned(), S::UNDEFINED_TABLE),
        ("select stock.parent.* from parent".to_owned(), S::UNDEFINED_TABLE),
        ("select \"\u{1}x\", row_number() over () from parent".to_owned(), S::UNDEFINED_COLUMN),
        ("select \"\u{1}7\", row_number() over () from parent".to_owned(), S::UNDEFINED_COLUMN),
        ("select grouping(name) from parent group by rollup (id)".to_owned(), S::GROUPING_ERROR),
        ("select grouping(id) from parent".to_owned(), S::GROUPING_ERROR),
        ("select json_object_agg(null, id) from parent".to_owned(), S::INVALID_PARAMETER_VALUE),
        ("select row_to_json(p) from parent p union select '1'".to_owned(), S::UNDEFINED_FUNCTION),
        ("select row_to_json(p) from parent p except all select '1'".to_owned(), S::UNDEFINED_FUNCTION),
        ("select distinct row_to_json(p) from parent p".to_owned(), S::UNDEFINED_FUNCTION),
        ("select distinct on (row_to_json(p)) id from parent p".to_owned(), S::UNDEFINED_FUNCTION),
        ("select count(*) from parent p group by row_to_json(p)".to_owned(), S::UNDEFINED_FUNCTION),
        ("select row_to_json(p) from parent p order by 1".to_owned(), S::UNDEFINED_FUNCTION),
        (
            "with recursive r(j) as (select json '1' union select j from r) select 1 from r".to_owned(),
            S::UNDEFINED_FUNCTION,
        ),
        (
            "select rank() over (partition by row_to_json(p) order by id) from parent p".to_owned(),
            S::UNDEFINED_FUNCTION,
        ),
        (
            "select x % 2, sum(x * 1e307::float8) from generate_series(1, 100) as x group by 1".to_owned(),
            S::NUMERIC_VALUE_OUT_OF_RANGE,
        ),
        (
            "select avg(x * 1e307::float8) from generate_series(1, 100) as x".to_owned(),
            S::NUMERIC_VALUE_OUT_OF_RANGE,
        ),
        (
            "with recursive r(x) as (select price from parent union all select x * 1.05 from r) select x from r"
                .to_owned(),
            S::DATATYPE_MISMATCH,
        ),
        // Known not to be PostgreSQL's, which answers them: better than what the inner query would.
        ("select (select sum(p.id)) from parent p".to_owned(), S::FEATURE_NOT_SUPPORTED),
        ("select json_agg(distinct id) from parent".to_owned(), S::FEATURE_NOT_SUPPORTED),
        (
            "select count(q.*) from parent p left join (select c.* from parent a left join child c on false) q on true"
                .to_owned(),
            S::FEATURE_NOT_SUPPORTED,
        ),
        (
            "select 1 from parent p full join child c on c.id = p.id and p.id in (select 1)".to_owned(),
            S::FEATURE_NOT_SUPPORTED,
        ),
        (
            "select row_to_json(s) from parent p left join (select 1 as id) s using (id)".to_owned(),
            S::FEATURE_NOT_SUPPORTED,
        ),
        (
            "select s.name from (select * from parent) s group by s.id".to_owned(),
            S::GROUPING_ERROR,
        ),
        (
            "select count(*) from parent a, parent b join child c on c.parent_id = a.id".to_owned(),
            S::UNDEFINED_TABLE,
        ),
        (
            "select p.id, (select unnest(array_agg(c.id)) from child c where c.parent_id = p.id) from parent p"
                .to_owned(),
            S::CARDINALITY_VIOLATION,
        ),
        ("select format_type(atttypid, atttypmod) from pg_attribute group by attname".to_owned(), S::GROUPING_ERROR),
        (
            "select (select max(c.id) from child c where c.tag = p.name) from parent p group by p.id % 2".to_owned(),
            S::GROUPING_ERROR,
        ),
        ("with x as (select 1), x as (select 2) select * from x".to_owned(), S::DUPLICATE_ALIAS),
        (
            "with recursive parent as (select id from child), child as (select id from parent) select * from parent"
                .to_owned(),
            S::FEATURE_NOT_SUPPORTED,
        ),
        ("with recursive r(n) as (select n from r union all select 1) select n from r".to_owned(), S::INVALID_RECURSION),
        (step("select p.id from parent p left join r on p.id = r.n + 1"), S::INVALID_RECURSION),
        (step("select p.id from r right join parent p on p.id = r.n + 1"), S::INVALID_RECURSION),
        (step("select p.id from parent p where p.id > (select max(n) from r)"), S::INVALID_RECURSION),
        (step("(select id from parent except select n from r)"), S::INVALID_RECURSION),
        (step("(select n from r intersect all select id from parent)"), S::INVALID_RECURSION),
        (step("select max(n) + 1 from r where n < 3"), S::INVALID_RECURSION),
        (step("select p.id from parent p join r on p.id = r.n group by p.id having count(*) > 5"), S::INVALID_RECURSION),
        (
            "select distinct on (a, b) a, b, c from (values (1, 2, 3)) v(a, b, c) order by a, c, b".to_owned(),
            S::INVALID_COLUMN_REFERENCE,
        ),
        ("select f8 * 1e-300 * 1e-300 from measure".to_owned(), S::NUMERIC_VALUE_OUT_OF_RANGE),
        ("select f8 / 1e300 / 1e300 from measure".to_owned(), S::NUMERIC_VALUE_OUT_OF_RANGE),
        (call("ntile(0)"), S::INVALID_ARGUMENT_FOR_NTILE_FUNCTION),
        (call("ntile(-1)"), S::INVALID_ARGUMENT_FOR_NTILE_FUNCTION),
        (call("nth_value(id, 0)"), S::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION),
        (call("row_number() filter (where true)"), S::FEATURE_NOT_SUPPORTED),
        (series("0::numeric, 'infinity'::numeric"), S::INVALID_PARAMETER_VALUE),
        (series("0::numeric, 'nan'::numeric"), S::INVALID_PARAMETER_VALUE),
        (series("'-infinity'::numeric, 1"), S::INVALID_PARAMETER_VALUE),
        (series("0, 1, 'nan'::numeric"), S::INVALID_PARAMETER_VALUE),
        (series("'infinity'::timestamp, 'infinity', '1 day'"), S::INVALID_PARAMETER_VALUE),
        (series("'-infinity'::timestamptz, 'infinity', '1 day'"), S::INVALID_PARAMETER_VALUE),
    ];
    let mut sample = Sample::new();
    for (sql, state) in cases {
        let answer = sample.text(&sql).map_err(|error| error.state());
        assert_eq!(answer, Err(state), "{sql}");
    }
}

#[test]
fn groups_and_common_tables_that_do_not_fit_are_put_aside() {
    const ROWS: i32 = 60_000;
    let mut sample = Sample::new();
    let all = i64::from(ROWS);
    let of = |aggregate: &str| {
        format!(
            "select count(*), sum(length(s)) from (select g / 2 as k, {aggregate} as s \
             from generate_series(0, {}) as g group by 1) t",
            ROWS - 1
        )
    };
    let queries = [
        (of("string_agg(repeat('x', 50), ',')"), vec![all / 2, all / 2 * 101]),
        (of("string_agg(repeat('x', 50), ',' order by g desc)"), vec![all / 2, all / 2 * 101]),
        (of("string_agg(distinct repeat('x', 50), ',')"), vec![all / 2, all / 2 * 50]),
        (of("repeat('x', 50) || array_to_string(array_agg(g), '')"), Vec::new()),
        (of("repeat('x', 50) || avg(g)::int || stddev(g)::int"), Vec::new()),
        (
            format!(
                "with c as (select g, repeat('x', 200) as s from generate_series(1, {ROWS}) as g) \
                 select (select count(*) from c), sum(g) from c where length(s) = 200"
            ),
            vec![all, all * (all + 1) / 2],
        ),
    ];
    for (sql, expected) in queries {
        sample.work_memory = None;
        let unbounded = sample.text(&sql).expect("it runs where there is room");
        sample.work_memory = Some(ByteCount::from_mib(4));
        let bounded = sample.text(&sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(bounded, unbounded, "{sql}");
        if let [rows, sum] = expected[..] {
            assert_eq!(bounded, format!("{rows}|{sum}\n"), "{sql}");
        }
        assert_eq!(sample.temp.used(), ByteCount(0));
        sample.temp.set_max(Some(ByteCount(0)));
        assert!(sample.text(&sql).is_err(), "it fits as it is: {sql}");
        sample.temp.set_max(None);
    }
}

#[test]
fn window_functions_keep_to_the_working_memory() {
    let mut sample = Sample::new();
    sample.work_memory = Some(ByteCount::from_mib(4));
    let rows = "(select g, repeat('x', 100) || g as s from generate_series(1, 60000) as g) as r";
    let fits = [
        format!("select s, count(*) over (partition by g / 100) as n from {rows}"),
        format!("select s, row_number() over () as n from {rows}"),
        format!("select s, sum(g) over (order by g) as n from {rows}"),
        format!("select g as s, length(string_agg(s, '') over (partition by g / 10)) as n from {rows}"),
        format!("select s, sum(g) over (order by g range 100 preceding) as n from {rows}"),
        format!(
            "select s, sum(g) over (order by g desc range between 100 preceding and 5 following) as n from {rows}"
        ),
        format!(
            "select s, sum(g) over (order by g groups between 100 preceding and 5 following) as n from {rows}"
        ),
        format!(
            "select s, sum(g) over (partition by g / 100 order by g range 1000000 preceding) as n from {rows}"
        ),
        format!("select s, lag(g, 100, 0) over (order by g) as n from {rows}"),
    ];
    for sql in fits {
        let counted = sample.text(&format!("select count(s), count(n) from ({sql}) as t"));
        assert_eq!(counted.as_deref(), Ok("60000|60000\n"), "{sql}");
    }
    let does_not_fit = [
        format!("select s, count(*) over () as n from {rows}"),
        format!("select s, ntile(2) over (partition by g / 50000) as n from {rows}"),
        format!("select s, sum(g) over (order by g rows 1000000 preceding) as n from {rows}"),
        format!("select s, sum(g) over (order by g range 1000000 preceding) as n from {rows}"),
        format!("select s, sum(g) over (order by g desc range 1000000 preceding) as n from {rows}"),
        format!(
            "select s, sum(g) over (order by g groups between 1000000 preceding and current row) as n from {rows}"
        ),
        format!("select s, lag(g, 1000000, 0) over (order by g) as n from {rows}"),
        // All rows are each other's peers.
        format!("select s, sum(g) over (order by g * 0) as n from {rows}"),
        // A value for each row is as long as all of them.
        format!("select g as s, length(string_agg('x', '') over (partition by g / 10000)) as n from {rows}"),
    ];
    for sql in does_not_fit {
        let error = sample.text(&format!("select count(s), count(n) from ({sql}) as t")).expect_err(&sql);
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{sql}: {error}");
    }
}

#[test]
fn a_join_looks_up_what_few_rows_ask_of_a_large_table() {
    let mut sample = Sample::new();
    // Of the 120 rows of `child` seven have 4 in `parent_id`, with which an index begins.
    let one = "(select max(id) as id from parent where id < 5) p";
    let none = "(select max(id) as id from parent where id < 0) p";
    let on = "on c.parent_id = p.id";
    let step = "select c.parent_id, t.n + 1 from child c join t on c.parent_id = t.id where t.n < 3";
    let steps = format!("with recursive t(id, n) as (select 4, 1 union all {step})");
    for (sql, expected, rows_max) in [
        (format!("select count(*), min(c.id), max(c.id) from {one} join child c {on}"), "7|3|111\n", 20),
        (format!("select count(*) from child c join {one} {on} and c.id <> 3"), "6\n", 20),
        (format!("select p.id, count(c.id) from {one} left join child c {on} group by 1"), "4|7\n", 20),
        (format!("select count(*), count(c.id) from {none} left join child c {on}"), "1|0\n", 20),
        (format!("select count(*) from child c where c.parent_id in (select id from {one})"), "7\n", 20),
        (format!("{steps} select count(*) from t"), "57\n", 20),
        // All rows count where there is no partner.
        (format!("select count(*) from child c left join {one} {on}"), "120\n", 200),
        (format!("select count(*) from child c where parent_id not in (select id from {one})"), "113\n", 200),
        // More values are not worth it.
        (format!("select count(*) from parent p join child c {on}"), "120\n", 200),
    ] {
        assert_eq!(sample.text(&sql).as_deref(), Ok(expected), "{sql}");
        let rows = sample.control.rows_read();
        assert!(rows <= rows_max, "{sql}: {rows} rows");
    }
    // Nor is an index by which one value has a third of the rows.
    sample.add_index("child", 6);
    let sql = "select count(*) from (select max(m) as m from child) p join child c on c.m = p.m";
    assert_eq!(sample.text(sql).as_deref(), Ok("40\n"));
    let rows = sample.control.rows_read();
    assert!(rows > 200, "{rows} rows");
}

#[test]
fn types_of_signatures_have_names() {
    let mut sample = Sample::new();
    let sql = "select 'trigger'::regtype, 'pg_catalog.trigger'::pg_catalog.regtype::oid, '\"any\"'::regtype, 2275::regtype, \
               to_regtype('record'), to_regtype('trigger[]'), to_regtype('public.trigger'), format_type(2279, null)";
    assert_eq!(sample.text(sql).as_deref(), Ok("trigger|2279|\"any\"|cstring|record|∅|∅|trigger\n"));
    // As pgcli and psql look for functions.
    let sql = "select proname, prorettype::regtype::text from pg_catalog.pg_proc p where proname = 'array_in' and \
               p.prorettype::regtype != 'trigger'::regtype and p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype";
    assert_eq!(sample.text(sql).as_deref(), Ok("array_in|anyarray\n"));
    let sql = "select oid, proname, prorettype::regtype::text from pg_catalog.pg_proc
               where proname in ('hashtext', 'jsonb_to_recordset') order by 1";
    assert_eq!(sample.text(sql).as_deref(), Ok("400|hashtext|integer\n3491|jsonb_to_recordset|record\n"));
}

#[test]
fn common_tables_may_read_each_other_in_long_chains() {
    let mut sample = Sample::new();
    let chain = |tables: usize, each: &str| {
        let links =
            (1..tables).map(|at| format!(", c{at} as ({})", each.replace("before", &format!("c{}", at - 1))));
        format!(
            "with c0 as (select 1 as x){} select count(*) from c{}",
            links.collect::<String>(),
            tables - 1
        )
    };
    let joined = "select a.x from before a, before b";
    assert_eq!(sample.text(&chain(60, joined)).as_deref(), Ok("1\n"));
    assert_eq!(
        sample.text(&chain(12, "select x from before union all select x from before")).as_deref(),
        Ok("2048\n")
    );
    let error = sample.text(&chain(900, joined)).expect_err("too deep");
    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
}

/// A ledger with a history of so many minutes; how often it was read, and how far.
struct LongHistory {
    minutes: i64,
    reads: AtomicUsize,
    told: AtomicI64,
}

impl LongHistory {
    fn of(minutes: i64) -> Arc<LongHistory> {
        Arc::new(LongHistory { minutes, reads: AtomicUsize::new(0), told: AtomicI64::new(0) })
    }
}

impl LedgerRows for LongHistory {
    fn ledger(&self) -> Vec<LedgerEntry> {
        Vec::new()
    }
    fn tenant_usage(&self) -> Vec<UsageEntry> {
        Vec::new()
    }
    fn history(&self, each: &mut dyn FnMut(HistoryEntry) -> bool) -> SqlResult<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        for minute in 0..self.minutes {
            self.told.store(minute + 1, Ordering::Relaxed);
            let entry = HistoryEntry {
                tenant: "a tenant with a name too long to be kept in place".to_owned(),
                resource: "cpu",
                volume: None,
                began: minute * 60_000_000,
                minutes: 1,
                intervals: 60,
                overbooked: 0,
                system: 0,
                neighbour: 0,
                device: 0,
                active: 1.0,
                promised: 1.0,
                demanded: 1.0,
                given: 1.0,
                missed: 0.0,
                over: 0.0,
                held: None,
                debt: None,
                forgiven: None,
                awaited: None,
                delay_p99: None,
                owed: 0.0,
            };
            if !each(entry) {
                break;
            }
        }
        Ok(())
    }
    fn tenant_waits(&self) -> Vec<WaitEntry> {
        Vec::new()
    }
    fn statements(&self) -> Vec<StatementRow> {
        Vec::new()
    }
    fn advice(&self, _: &str, _: Option<Nanos>) -> SqlResult<Vec<AdviceEntry>> {
        Ok(Vec::new())
    }
}

#[test]
fn a_system_table_is_made_once_for_a_query_and_counts_as_its_memory() {
    let mut sample = Sample::new();
    sample.work_memory = Some(ByteCount::from_mib(16));
    let history = LongHistory::of(2_000);
    sample.ledger = history.clone();
    let sql = "select count(*), sum(a.intervals + b.intervals) from rowhouse.ledger_history a \
               join rowhouse.ledger_history b on a.began = b.began and a.tenant = b.tenant";
    assert_eq!(sample.text(sql).expect("an answer"), "2000|240000\n");
    assert_eq!(history.reads.load(Ordering::Relaxed), 1);
    // More than its tenant may hold: what is read of it is what fits, also where the query is tried again.
    let history = LongHistory::of(1_000_000);
    sample.ledger = history.clone();
    let refused = sample.text("select count(*) from rowhouse.ledger_history").expect_err("too much");
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY, "{refused}");
    assert!(history.told.load(Ordering::Relaxed) < 100_000);
    sample.work_memory = None;
    sample.ledger = LongHistory::of(50_000);
    assert_eq!(sample.text("select count(*) from rowhouse.ledger_history").expect("an answer"), "50000\n");
}

#[test]
fn outer_joins_by_comparing_each_row_with_each_lose_none_where_one_side_does_not_fit() {
    let mut sample = Sample::new();
    let sides = [
        "select g, repeat('x', 4000) || g as s from generate_series(1, {}) as g",
        "select a as g, repeat('x', 4000) || a as s \
         from generate_series(1, {}) as a left join generate_series(1, 10) as b on a = b",
    ];
    for side in sides {
        for rows in (800..1600).step_by(50) {
            let side = side.replace("{}", &rows.to_string());
            let sql = format!(
                "select count(*), count(w.g), sum(w.g), sum(l) from ({side}) as w \
                 right join generate_series(1, 40) as l on w.g > l * 100 and length(w.s) > 0"
            );
            sample.work_memory = None;
            let unbounded = sample.text(&sql).expect("it runs where there is room");
            sample.work_memory = Some(ByteCount::from_mib(4));
            assert_eq!(sample.text(&sql).as_ref(), Ok(&unbounded), "{rows}");
        }
    }
}

#[test]
fn joins_that_do_not_fit_are_sorted_by_all_that_is_asked_for() {
    let mut sample = Sample::new();
    let sql = "select l.k, r.v, length(l.s) > 0 \
               from (select g % 300 as k, repeat('x', 1000) || g as s from generate_series(1, 6000) as g) l \
               join (select g % 300 as k, g * 7919 % 1000 as v from generate_series(1, 1500) as g) r on l.k = r.k \
               order by l.k, r.v";
    let unbounded = sample.text(sql).expect("it runs where there is room");
    assert_eq!(unbounded.lines().count(), 6000 * 5);
    sample.work_memory = Some(ByteCount::from_mib(4));
    let bounded = sample.text(sql).expect("it runs");
    assert!(bounded == unbounded, "another order");
}

#[test]
fn tools_take_the_database_for_one_of_the_users() {
    let mut sample = Sample::new();
    // As pgAdmin lists those that PostgreSQL does not begin with.
    let sql = "select datname, has_database_privilege(oid, 'connect'), pg_database_size(oid) > 0, \
               shobj_description(oid, 'pg_database') from pg_database where oid > 16383::oid";
    assert_eq!(sample.text(sql).as_deref(), Ok("postgres|t|t|∅\n"));
    assert_eq!(sample.text("select has_database_privilege(5, 'connect')").as_deref(), Ok("∅\n"));
}

#[test]
fn grouping_sets_have_postgresqls_limit() {
    let mut sample = Sample::new();
    let keys = |from: usize| (from..from + 12).map(|n| format!("id + {n}")).collect::<Vec<_>>().join(", ");
    let cube = format!("select count(*) from parent group by cube ({}), cube ({})", keys(0), keys(12));
    assert_eq!(sample.text(&cube).expect_err("16 million").state(), SqlState::STATEMENT_TOO_COMPLEX);
    let parts = (0..100).map(|n| format!("id + {n}")).collect::<Vec<_>>().join(", ");
    let rollup = format!("select count(*) from parent group by rollup ({parts})");
    assert_eq!(sample.text(&rollup).expect_err("more than bits").state(), SqlState::FEATURE_NOT_SUPPORTED);
    let sql = "select grouping(id), count(*) from parent where id <= 2 group by rollup (id, id), grouping sets ((), ()) order by 1, 2";
    let twice = |row: &str, times: usize| row.repeat(times);
    assert_eq!(sample.text(sql), Ok(twice("0|1\n", 8) + &twice("1|2\n", 2)));
    // However often a key is written, a set has it once.
    let (long, more) = (vec!["id"; 20_000].join(", "), ", id".repeat(500));
    let sql = format!("select count(*) from parent where id = 1 group by rollup (({long}){more})");
    assert_eq!(sample.text(&sql), Ok(twice("1\n", 502)));
}

#[test]
fn a_constant_that_is_grouped_by_is_null_only_where_it_is_shown_for_that() {
    let mut sample = Sample::new();
    for (sql, expected) in [
        (
            "select 1 as g, count(*) + 1, 1 from parent where id <= 2 group by rollup (1) order by 1",
            "1|3|1\n∅|3|1\n",
        ),
        (
            "select 'all'::text as g, 'all'::text || id, id from parent where id <= 2 group by grouping sets ((1, 3), (3)) order by 3, 1",
            "all|all1|1\n∅|all1|1\nall|all2|2\n∅|all2|2\n",
        ),
        (
            "select 2 as g, count(*) from parent where id <= 2 group by cube (g) having count(*) = 2 order by 1",
            "2|2\n∅|2\n",
        ),
    ] {
        assert_eq!(sample.text(sql).as_deref(), Ok(expected), "{sql}");
    }
}

#[test]
fn records_of_json_are_read_here_too() {
    let mut sample = Sample::new();
    let rows =
        r#"[{"id": 1, "n": 2.5, "t": null}, {"id": 2, "n": null, "d": {"k": [1]}, "t": [3, null, 2]}]"#;
    let sql = format!(
        "select p.id, x.n, x.d, x.t, row_number() over (order by x.id)
         from parent p, jsonb_to_recordset('{rows}') as x (id int, n numeric, d jsonb, t int[]) where p.id = x.id order by 1"
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("1|2.5|∅|∅|1\n2|∅|{\"k\": [1]}|{3,NULL,2}|2\n"));
}

#[test]
fn a_common_table_of_a_change_is_made_once_for_all_rows() {
    let mut sample = Sample::new();
    // As it stands within the expression of a change.
    let common = "(select * from (select random() as r) as \"\u{1}once\") as c";
    let sql = format!("select count(distinct (select c.r from {common} where p.id > 0)) from parent p");
    assert_eq!(sample.text(&sql).as_deref(), Ok("1\n"));
}

#[test]
fn the_server_has_one_version() {
    let mut sample = Sample::new();
    let expected = format!("{}\n", sql::session::version_text());
    assert_eq!(sample.text("select version() from parent where id = 1").as_deref(), Ok(&*expected));
}

#[test]
fn what_is_remembered_of_subqueries_gives_way() {
    let mut sample = Sample::new();
    sample.work_memory = Some(ByteCount::from_mib(2));
    let sql = "select count(*), sum(s) from (select g, (select sum(x) from generate_series(1, 3) as x where x <> g) as s \
               from generate_series(1, 8000) as g) t";
    assert_eq!(sample.text(sql).as_deref(), Ok("8000|47994\n"));
}

#[test]
fn access_lists_are_taken_apart() {
    let mut sample = Sample::new();
    let sql = "select a.* from pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a where c.relname = 'parent'";
    let rights = ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
    let expected: String = rights.map(|right| format!("10|10|{right}|f\n")).concat();
    assert_eq!(sample.text(sql).as_deref(), Ok(&*expected));
    // As pgAdmin asks for a table's.
    let sql = "select coalesce(gt.rolname, 'PUBLIC'), g.rolname, d.is_grantable, d.privilege_type from (select (d).grantee as grantee, \
               (d).grantor as grantor, (d).is_grantable as is_grantable, (d).privilege_type as privilege_type from \
               (select pg_catalog.aclexplode(array['=r*w/postgres', '\"postgres\"=X/10', '\"a=\"\"=\"=r/nobody']) as d from pg_class \
               where relname = 'parent') a) d left join pg_roles g on d.grantor = g.oid left join pg_roles gt on d.grantee = gt.oid \
               order by d.privilege_type";
    let expected = "postgres|postgres|f|EXECUTE\nPUBLIC|postgres|t|SELECT\nPUBLIC|postgres|f|UPDATE\n";
    assert_eq!(sample.text(sql).as_deref(), Ok(expected));
    let none = "select grantee from pg_class c, lateral aclexplode(c.relacl) where relname = 'parent'";
    assert_eq!(sample.text(none).as_deref(), Ok(""));
}

#[test]
fn subqueries_are_looked_up_for_the_rows_that_ask_for_them() {
    let series = |last: i32| format!("from generate_series(0, {last}) as g");
    let cases = [
        // What is divided, and by what.
        (format!("select case when g <> 0 then (select sum(10 / g + 0 * id) from parent where id <= 2) end {} order by g", series(2)), "∅\n20\n10\n"),
        (format!("select case g when 0 then -1 else (select max(id) from parent where id < 10 / g) end {} order by g", series(2)), "-1\n9\n4\n"),
        (format!("select g {} where g = 0 or (select max(10 / g + id) from parent) > 24 order by 1", series(3)), "0\n1\n2\n"),
        (format!("select g {} where g = 0 or exists (select 1 from parent where id = 10 / g and g < 2) order by 1", series(3)), "0\n1\n"),
        (format!("select g <> 0 and 10 / g > (select 3) {} order by g", series(4)), "f\nt\nt\nf\nf\n"),
        (format!("select g <> 0 and 10 / g > (select count(*) from parent where id = g) {} order by g", series(2)), "f\nt\nt\n"),
        (format!("select case when g = 0 then false else 10 / g in (select id from parent where id > 4) end {} order by g", series(3)), "f\nt\nt\nf\n"),
        (format!("select case when g = 0 then false else 10 / g > (select 3) end {} order by g", series(3)), "f\nt\nt\nf\n"),
        // One row too many.
        ("select coalesce(nullif(g, 0), (select id from parent)) from generate_series(1, 2) as g order by g".to_owned(), "1\n2\n"),
        ("select case when g > 5 then (select id from parent) else g end from generate_series(1, 2) as g order by g".to_owned(), "1\n2\n"),
        // One within another, of which one is a condition.
        (
            "select case when g > 0 then case when (select 6 / g) > 1 then (select max(12 / (g - 6) + 0 * id) from parent) end end \
             from generate_series(0, 6, 3) as g order by g"
                .to_owned(),
            "∅\n-4\n∅\n",
        ),
        (
            "select case when (select g > 1) and (select 6 / (g - 1)) > 2 then (select 12 / (g - 1) + min(id) from parent) else 0 end \
             from generate_series(0, 4) as g order by g"
                .to_owned(),
            "0\n0\n13\n7\n0\n",
        ),
        (
            "select count(*) filter (where g = 0 or 10 / g > (select 3)) from generate_series(0, 4) as g".to_owned(),
            "3\n",
        ),
    ];
    let mut sample = Sample::new();
    for (sql, expected) in cases {
        assert_eq!(sample.text(&sql).as_deref(), Ok(expected), "{sql}");
    }
    let asked =
        "select case when g > 1 then (select id from parent) else g end from generate_series(1, 2) as g";
    assert_eq!(sample.text(asked).expect_err("a row asks").state(), SqlState::CARDINALITY_VIOLATION);
}

#[test]
fn dbeaver_reads_the_indexes_of_a_table() {
    let mut sample = Sample::new();
    let sql = "SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,\
               pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,\
               pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,\
               pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans \
               FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid \
               INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid \
               LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid \
               WHERE i.indrelid='child'::regclass ORDER BY tabrelname, c.relname";
    let (_, rows) = sample.query(sql).unwrap();
    assert_eq!(rows.len(), 4);
    let sql = "select pg_stat_get_live_tuples(oid), pg_stat_get_dead_tuples(oid), pg_stat_get_tuples_inserted(oid) \
               from pg_class where relname = 'parent'";
    assert_eq!(sample.text(sql).as_deref(), Ok("20|0|∅\n"));
}

#[test]
fn limits_may_be_found_when_the_query_runs() {
    let cases = [
        (
            "select id from parent order by id limit (select 2) offset (select count(*) from parent where id < 4)",
            "4\n5\n",
        ),
        ("select id from parent where id < 3 order by id desc limit (select null::int)", "2\n1\n"),
        ("select count(*) from (select id from parent limit (select 0)) s", "0\n"),
        (
            "(select id from parent order by id limit (select 1)) union all select 0 order by 1 desc limit (select 2)",
            "1\n0\n",
        ),
        (
            "select p.id, c.x from (values (1), (2)) p(id), lateral (select x from generate_series(1, 5) x order by x desc limit p.id) c \
             order by 1, 2 desc",
            "1|5\n2|5\n2|4\n",
        ),
        (
            "select p.id from (values (1), (2)) p(id) where exists (select 1 from parent where id = p.id offset (select p.id - 1))",
            "1\n",
        ),
        (
            "select array(select id from parent order by id desc limit (select 3)), (select id from parent order by id limit (select 1))",
            "{20,19,18}|1\n",
        ),
    ];
    let mut sample = Sample::new();
    for (sql, expected) in cases {
        assert_eq!(sample.text(sql).as_deref(), Ok(expected), "{sql}");
    }
    let negative = [
        ("limit (select -1)", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
        ("offset (select -1)", SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE),
        ("limit (select id from parent)", SqlState::CARDINALITY_VIOLATION),
    ];
    for (clause, state) in negative {
        let error = sample.text(&format!("select id from parent {clause}")).expect_err(clause);
        assert_eq!(error.state(), state, "{clause}");
    }
}

#[test]
fn what_consoles_ask_of_a_server_is_there() {
    let mut sample = Sample::new();
    // As pgAdmin's dashboard does each second, and its sessions at their start.
    let sql = "SELECT 'tps' AS chart_name, pg_catalog.row_to_json(t) AS chart_data FROM (SELECT \
               (SELECT sum(xact_commit) + sum(xact_rollback) FROM pg_catalog.pg_stat_database WHERE datname = \
               (SELECT datname FROM pg_catalog.pg_database WHERE datname = 'postgres')) AS \"Transactions\", \
               (SELECT sum(numbackends) FROM pg_stat_database) AS \"Sessions\") t";
    assert_eq!(sample.text(sql).as_deref(), Ok("tps|{\"Transactions\":null,\"Sessions\":0}\n"));
    let gone = [
        "SELECT gss_authenticated, encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()",
        "SELECT pid, client_addr, state, sent_lsn, write_lag, sync_state FROM pg_stat_replication",
        "SELECT slot_name, slot_type, database, active, restart_lsn, wal_status FROM pg_replication_slots",
    ];
    for sql in gone {
        assert_eq!(sample.text(sql).as_deref(), Ok(""), "{sql}");
    }
    let sql = "SELECT datname, blks_hit, stats_reset FROM pg_stat_database";
    assert_eq!(sample.text(sql).as_deref(), Ok("postgres|∅|∅\n"));
}

#[test]
fn joins_by_long_keys_have_batches_of_few_rows() {
    let mut sample = Sample::new();
    let rows = |from: i32| {
        format!(
            "(select repeat('x', 100000) || g % 2 as k, repeat('y', 50000) as w from generate_series({from}, 39) as g)"
        )
    };
    let (left, right) = (rows(0), rows(20));
    let joined = format!("{left} a join {right} b on a.k = b.k");
    let sql = format!("select count(*), min(length(a.k)), max(length(b.w)) from {joined} and a.w <= b.w");
    assert_eq!(sample.text(&sql).as_deref(), Ok("400|100001|50000\n"));
    let sql = format!(
        "select count(*) from {left} a where exists (select 1 from {right} b where b.k = a.k and b.w <= a.w)"
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("40\n"));
    let sql = format!("select count(*) from {left} a left join {right} b on a.k < b.k");
    assert_eq!(sample.text(&sql).as_deref(), Ok("220\n"));
}

#[test]
fn rows_of_values_have_columns_of_rows_around_them_however_many_they_are() {
    let mut sample = Sample::new();
    let rows: Vec<String> = (0..100).map(|n| format!("({n}, p.id + {n})")).collect();
    let sql = format!(
        "select count(*), count(x), sum(x - n) from parent p cross join lateral (values {}) v(n, x) where p.id <= 3",
        rows.join(", ")
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("300|300|600\n"));
    let sql = format!(
        "select id, (select max(x) from (values {}) v(n, x)) from parent p where id <= 2 order by id",
        rows.join(", ")
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("1|100\n2|101\n"));
    let sql = "values ((select max(id) from parent)), (3), ((select count(*) from child))";
    assert_eq!(sample.text(sql).as_deref(), Ok("20\n3\n120\n"));
}

#[test]
fn a_key_of_distinct_on_may_be_written_twice() {
    let mut sample = Sample::new();
    let rows = "from (values (1, 2), (1, 1), (2, 3)) v(a, b)";
    let sql = format!("select distinct on (a, a) a, b {rows} order by a, b");
    assert_eq!(sample.text(&sql).as_deref(), Ok("1|1\n2|3\n"));
    let sql = format!("select distinct on (a, b) a, b {rows} order by a, a, b desc");
    assert_eq!(sample.text(&sql).as_deref(), Ok("1|2\n1|1\n2|3\n"));
}

#[test]
fn conditions_without_columns_stay_above_aggregations() {
    let mut sample = Sample::new();
    let counted = "(select count(*) as n from child) q";
    for condition in ["n <> 4 and n <> null", "n not in (4, null)", "not (n = 4 or null::bool)"] {
        let sql = format!("select n from {counted} where {condition}");
        assert_eq!(sample.text(&sql).as_deref(), Ok(""), "{sql}");
    }
    let sql = "select count(*) from parent having count(*) <> 4 and max(id) <> null";
    assert_eq!(sample.text(sql).as_deref(), Ok(""));
    let sql = "select id, count(*) from parent group by rollup (id) having count(*) >= 0 and count(*) > null";
    assert_eq!(sample.text(sql).as_deref(), Ok(""));
    let sql = format!(
        "select p.id, count(*) from parent p, {counted} where n <> 4 and n <> null group by rollup (p.id)"
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("∅|0\n"));
}

#[test]
fn time_zones_have_names() {
    let mut sample = Sample::new();
    // As PostgREST asks for them all.
    let sql = "select name, abbrev, utc_offset, is_dst from pg_timezone_names where name in ('Asia/Tokyo', 'UTC', 'America/New_York') order by name";
    let expected = "America/New_York|EST|-05:00:00|f\nAsia/Tokyo|JST|09:00:00|f\nUTC|UTC|00:00:00|f\n";
    assert_eq!(sample.text(sql).as_deref(), Ok(expected));
    assert_eq!(sample.text("select count(*) > 300 from pg_timezone_names").as_deref(), Ok("t\n"));
}

#[test]
fn json_of_arrays_is_written_in_postgresqls_lines() {
    let mut sample = Sample::new();
    let rows = "(values (1, array['a', ' b']), (2, null), (3, array['c']), (4, null)) v(i, x)";
    let sql = format!("select json_agg(x order by i), json_agg(x order by i desc) from {rows}");
    let expected = "[[\"a\",\" b\"], null, \n [\"c\"], null]|[null, \n [\"c\"], null, \n [\"a\",\" b\"]]\n";
    assert_eq!(sample.text(&sql).as_deref(), Ok(expected));
}

#[test]
fn groups_may_go_by_a_case_that_is_never_null() {
    let mut sample = Sample::new();
    let rows = "from (values (1, 2), (null, null), (3, null), (5, 4)) v(a, c)";
    let sql = format!(
        "select case when c > a then c else 0 end as k, count(*), max(a) {rows} group by k order by k"
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("0|3|5\n2|1|1\n"));
    let sql = format!(
        "select distinct case when c <> case when a <= c then 1 else a end then c else 1 end as k {rows} order by k"
    );
    assert_eq!(sample.text(&sql).as_deref(), Ok("1\n2\n4\n"));
    let sql =
        format!("select case when c > a then c else 0 end, count(*) {rows} group by rollup (1) order by 1");
    assert_eq!(sample.text(&sql).as_deref(), Ok("0|3\n2|1\n∅|4\n"));
}
