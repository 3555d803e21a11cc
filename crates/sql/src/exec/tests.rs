//! Statements through sessions, on a tenant in memory. Expectations are PostgreSQL 15's.

use base::{ByteCount, SqlError, SqlState};

use crate::session::testing::Bench;
use crate::session::{Pause, Session};

fn after(sql: &str) -> (Bench, Session) {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, sql);
    (bench, session)
}

/// The error of a statement in as many turns as it takes.
fn refusal(bench: &mut Bench, session: &mut Session, sql: &str) -> SqlError {
    loop {
        match bench.try_run(session, sql) {
            Err(Pause::Yield) => {}
            Err(Pause::Error(error)) => return error,
            other => panic!("{sql:.60}: {other:?}"),
        }
    }
}

#[test]
fn a_key_orders_the_rows_of_its_table_alone() {
    let (mut bench, mut session) = after(
        "CREATE TABLE a (id int PRIMARY KEY, v int); INSERT INTO a VALUES (1, 0), (2, 0);
         CREATE TABLE b (id int PRIMARY KEY, a int, x int); CREATE INDEX ON b (a);
         INSERT INTO b VALUES (1, 1, 3), (2, 1, 1), (3, 1, 2), (4, 2, 5), (5, 2, 9)",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    let join = "SELECT a.id, b.x FROM a JOIN b ON b.a = a.id";
    assert_eq!(lines(&format!("{join} ORDER BY a.id, b.x")), ["1|1", "1|2", "1|3", "2|5", "2|9"]);
    assert_eq!(lines(&format!("{join} ORDER BY a.id, b.x DESC LIMIT 1")), ["1|3"]);
    assert_eq!(lines(&format!("{join} WHERE a.id = 1 ORDER BY b.x")), ["1|1", "1|2", "1|3"]);
    assert_eq!(lines(&format!("{join} ORDER BY a.id DESC, a.v, b.x LIMIT 2")), ["2|5", "2|9"]);
    let left = "SELECT a.id, b.x FROM a LEFT JOIN b ON b.a = a.id";
    assert_eq!(lines(&format!("{left} ORDER BY a.id, b.x LIMIT 2")), ["1|1", "1|2"]);
    // What is of the table itself needs no sort behind its key.
    let plan = lines("EXPLAIN SELECT id, v FROM a ORDER BY id, v");
    assert!(!plan.iter().any(|line| line.contains("Sort")), "{plan:?}");
}

#[test]
fn ranges_of_moments_of_another_kind_are_found_by_an_index() {
    let (mut bench, mut session) = after(
        "SET TIME ZONE 'Europe/Berlin'; CREATE TABLE e (id int PRIMARY KEY, seen timestamp, born date);
         INSERT INTO e SELECT g, timestamp '2024-03-30 12:00' + g * interval '5 minutes', date '2024-01-01' + g FROM generate_series(1, 700) g;
         INSERT INTO e SELECT g, timestamp '2024-10-26 12:00' + g * interval '3 minutes', date '2022-01-01' + g FROM generate_series(701, 1400) g;
         INSERT INTO e VALUES (0, '-infinity', '-infinity'), (2000, 'infinity', 'infinity'), (2001, NULL, NULL);
         CREATE INDEX ON e (seen); CREATE INDEX ON e (born)",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    let mut ends = vec!["'infinity'::timestamptz".to_owned(), "'-infinity'::timestamptz".to_owned()];
    // Around a change of the clocks, an hour of local times is left out in March, and there is one twice in October.
    for time in ["00:15", "00:59:59", "01:00", "01:15", "01:30", "01:59", "02:00", "02:30"] {
        ends.push(format!("timestamptz '2024-03-31 {time}Z'"));
        ends.push(format!("timestamptz '2024-10-27 {time}Z'"));
    }
    for end in &ends {
        for operator in ["<", "<=", ">", ">="] {
            let condition = format!("seen {operator} {end}");
            let sql = format!("SELECT count(*), sum(id) FROM e WHERE {condition}");
            let plan = lines(&format!("EXPLAIN {sql}"));
            assert!(plan.iter().any(|line| line.contains("using e_seen_idx")), "{condition}: {plan:#?}");
            let all = format!("SELECT count(*), sum(id) FROM e WHERE ({condition}) IS TRUE");
            assert_eq!(lines(&sql), lines(&all), "{condition}");
        }
    }
    for condition in [
        "born > timestamp '2024-05-05 12:00'",
        "born >= timestamptz '2024-05-05 00:00+02'",
        "timestamptz '2024-05-05 00:00+03' > born",
        "born < timestamptz '2024-03-31 00:30Z'",
        "born <= timestamp 'infinity'",
    ] {
        let sql = format!("SELECT count(*), sum(id) FROM e WHERE {condition}");
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert!(plan.iter().any(|line| line.contains("using e_born_idx")), "{condition}: {plan:#?}");
        let all = format!("SELECT count(*), sum(id) FROM e WHERE ({condition}) IS TRUE");
        assert_eq!(lines(&sql), lines(&all), "{condition}");
    }
    let old = "DELETE FROM e WHERE seen < now() - interval '30 days'";
    let plan = lines(&format!("EXPLAIN {old}"));
    assert!(plan.iter().any(|line| line.contains("using e_seen_idx")), "{plan:#?}");
    // Rows that another part has found are told by what it asks of them, and this is less than all.
    let either = "(seen > timestamptz '2024-10-28 00:00Z' AND id > 690) OR id = 1400";
    assert_eq!(
        lines(&format!("SELECT count(*), sum(id) FROM e WHERE {either}")),
        lines(&format!("SELECT count(*), sum(id) FROM e WHERE ({either}) IS TRUE"))
    );
}

#[test]
fn columns_are_assigned_from_one_row() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int); INSERT INTO t VALUES (1, 0, 0), (2, 0, 0);
         CREATE TABLE p (x int, y int); INSERT INTO p SELECT g, -g FROM generate_series(1, 100) g; CREATE SEQUENCE q",
    );
    bench.run(&mut session, "UPDATE t SET (a, b) = (SELECT x, y FROM p ORDER BY random() LIMIT 1)");
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM t WHERE a = -b AND a > 0").lines(), ["2"]);
    bench.run(&mut session, "UPDATE t SET (a, b) = (SELECT v, v FROM (SELECT nextval('q') AS v) s)");
    assert_eq!(bench.run(&mut session, "SELECT a, b FROM t ORDER BY id").lines(), ["1|1", "1|1"]);
    bench.run(&mut session, "UPDATE t SET (b, a) = (SELECT x, y FROM p WHERE x = t.id)");
    assert_eq!(bench.run(&mut session, "SELECT a, b FROM t ORDER BY id").lines(), ["-1|1", "-2|2"]);
    bench.run(&mut session, "UPDATE t SET (a, b) = (SELECT x, y FROM p WHERE x < 0)");
    assert_eq!(
        bench.run(&mut session, "SELECT count(*) FROM t WHERE a IS NULL AND b IS NULL").lines(),
        ["2"]
    );
    bench.run(&mut session, "UPDATE t SET (a, b) = ROW(b - 1, DEFAULT), (id) = ROW(id + 10) WHERE id = 1");
    bench.run(
        &mut session,
        "INSERT INTO t VALUES (2) ON CONFLICT (id) DO UPDATE SET (a, b) = ROW(excluded.id, 7)",
    );
    assert_eq!(bench.run(&mut session, "SELECT * FROM t ORDER BY id").lines(), ["2|2|7", "11||"]);
    for (sql, state) in [
        ("UPDATE t SET (a, b) = ROW(1)", "42601"),
        ("UPDATE t SET (a, b) = 1", "0A000"),
        ("UPDATE t SET (a, b) = (SELECT x, y FROM p)", "21000"),
        ("UPDATE t SET (a, b) = (SELECT x FROM p LIMIT 1)", "42601"),
        ("UPDATE t SET (a, b) = (SELECT x, y FROM p WHERE x >= t.id ORDER BY random() LIMIT 1)", "0A000"),
    ] {
        assert_eq!(bench.fail(&mut session, sql).state().to_string(), state, "{sql}");
    }
}

#[test]
fn a_comparison_of_rows_begins_an_index_where_its_first_column_is() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b)); INSERT INTO t SELECT g / 10, g % 10, 0 FROM generate_series(0, 1999) g;
         CREATE SEQUENCE q",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (condition, end, rows) in [
        ("(a, b) > (150, 7) ORDER BY a, b LIMIT 3", "a >= 150", ["150|8", "150|9", "151|0"].as_slice()),
        ("(a, b) >= (150, 9) ORDER BY a, b LIMIT 2", "a >= 150", &["150|9", "151|0"]),
        ("(a, b) < (3, 1) ORDER BY a DESC, b DESC LIMIT 2", "a <= 3", &["3|0", "2|9"]),
        ("ROW(a, b, v) <= ROW(0, 1, 0)", "a <= 0", &["0|0", "0|1"]),
        ("(198, 8, 0) < (a, b, v) AND a < 199", "a >= 198", &["198|9"]),
    ] {
        let sql = format!("SELECT a, b FROM t WHERE {condition}");
        let plan = lines(&format!("EXPLAIN {sql}"));
        let is_ended = |line: &String| line.contains("Index Cond") && line.contains(end);
        assert!(plan.iter().any(is_ended), "{sql}: {plan:#?}");
        assert_eq!(lines(&sql), rows, "{sql}");
    }
    let unknown = "SELECT (NULL, 1) < (1, 2), (1, NULL) < (1, 2), (0, NULL) < (1, 2), (2, NULL) < (1, 2), (1, 1) < (NULL, 2), NOT (2, NULL) < (1, 2)";
    assert_eq!(lines(unknown), ["||t|f||t"]);
    assert_eq!(lines("SELECT (nextval('q'), 1) < (9, 1)"), ["t"]);
    assert_eq!(lines("SELECT last_value FROM q"), ["1"]);
    // A list of one row is found by its key, also by what changes it.
    let one = "UPDATE t SET v = 1 WHERE (a, b) IN ((5, 5))";
    let plan = lines(&format!("EXPLAIN {one}"));
    assert!(plan.iter().any(|line| line.contains("Index Scan")), "{plan:#?}");
    lines(one);
    assert_eq!(lines("SELECT a, b FROM t WHERE v = 1"), ["5|5"]);
    assert_eq!(lines("SELECT count(*) FROM t WHERE (a, b) NOT IN ((5, 5))"), ["1999"]);
}

#[test]
fn a_check_that_looks_at_more_than_its_row_is_made_whatever_is_changed() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, v int, w int CHECK (current_setting('app.closed', true) IS NULL OR w > 5));
         INSERT INTO t VALUES (1, 0, 0); UPDATE t SET v = 1; SET app.closed = 'yes'",
    );
    let refused = bench.fail(&mut session, "UPDATE t SET v = 2");
    assert_eq!(refused.state(), SqlState::CHECK_VIOLATION);
}

#[test]
fn what_arbitrates_a_conflict_is_read() {
    let (mut bench, mut owner) = after(
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE ROLE writer LOGIN; GRANT INSERT ON t TO writer",
    );
    let mut writer = bench.session_of("writer");
    bench.run(&mut writer, "INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING");
    // So is what RETURNING shows.
    bench.run(&mut writer, "INSERT INTO t VALUES (2, 2) RETURNING 1");
    let error = bench.fail(&mut writer, "INSERT INTO t VALUES (3, 3) RETURNING *");
    assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
    for target in ["(id)", "ON CONSTRAINT t_pkey"] {
        let sql = format!("INSERT INTO t VALUES (1, 1) ON CONFLICT {target} DO NOTHING");
        assert_eq!(bench.fail(&mut writer, &sql).state(), SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
        bench.run(&mut owner, &sql);
    }
}

#[test]
fn views_that_stand_for_very_many_are_not_expanded_here() {
    let (mut bench, mut session) = after("CREATE VIEW v0 AS SELECT 1 AS a");
    let view = |i: i32| {
        let below = format!("(SELECT a FROM v{})", i - 1);
        format!("CREATE VIEW v{i} AS SELECT {below} + {below} AS a")
    };
    (1..=11).for_each(|i| drop(bench.run(&mut session, &view(i))));
    assert_eq!(bench.run(&mut session, "SELECT a FROM v11").lines(), ["2048"]);
    let Err(Pause::Analytic(request)) = bench.try_run(&mut session, &view(12)) else {
        panic!("the analytical path tells the view's columns")
    };
    assert_eq!(request.reason, "views of so much text");
}

#[test]
fn a_name_is_not_looked_up_by_what_it_is_cut_off_from() {
    let long = "x".repeat(70);
    let (mut bench, mut session) =
        after(&format!("CREATE TABLE t (a text PRIMARY KEY); INSERT INTO t VALUES ('{long}')"));
    let name = "x".repeat(63);
    let sql = format!("SELECT count(*) FROM t WHERE a::name = '{name}'");
    assert_eq!(bench.run(&mut session, &sql).lines(), ["1"]);
}

#[test]
fn a_long_change_of_referenced_keys_is_checked_at_its_end() {
    let (mut bench, mut session) = after(
        "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (p int REFERENCES p);
         INSERT INTO p SELECT g FROM generate_series(1, 10000) g; INSERT INTO c SELECT g FROM generate_series(1, 9999) g",
    );
    bench.run(&mut session, "UPDATE p SET id = id - 1");
    assert_eq!(bench.run(&mut session, "SELECT min(id) FROM p").lines(), ["0"]);
    let error = bench.fail(&mut session, "UPDATE p SET id = id - 1");
    assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION);
}

#[test]
fn very_many_relations_are_not_joined_here() {
    let (mut bench, mut session) = after("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let items =
        |many: usize| (0..many).map(|i| format!("(SELECT {i}) AS a{i}")).collect::<Vec<_>>().join(", ");
    let join =
        |many: usize| -> String { (0..many).map(|i| format!(" JOIN (SELECT 1) AS x{i} ON true")).collect() };
    bench.run(&mut session, &format!("UPDATE t SET a = 2 FROM {}", items(200)));
    for sql in [
        format!("UPDATE t SET a = 3 FROM {}", items(20_000)),
        format!("SELECT a FROM t{} FOR UPDATE OF t", join(20_000)),
    ] {
        let error = bench.fail(&mut session, &sql);
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{sql:.60}");
    }
}

#[test]
fn very_many_conditions_on_many_relations_are_not_for_a_turn() {
    let (mut bench, mut session) = after("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    let query = |relations: usize, conditions: usize| {
        let from: Vec<String> = (0..relations).map(|i| format!("t t{i}")).collect();
        let on: Vec<String> = (0..conditions).map(|i| format!("t{}.a = 1", i % relations)).collect();
        format!("SELECT count(*) FROM {} WHERE {}", from.join(", "), on.join(" AND "))
    };
    assert_eq!(bench.run(&mut session, &query(30, 3_000)).lines(), ["1"]);
    let Err(Pause::Analytic(request)) = bench.try_run(&mut session, &query(200, 2_000)) else {
        panic!("80 million looks")
    };
    assert_eq!(request.reason, "so many conditions on a FROM of so many relations");
}

#[test]
fn a_row_of_a_result_has_bounds() {
    let (mut bench, mut session) = after("CREATE TABLE t (id int PRIMARY KEY, v text)");
    let items = |item: &str, many: usize| vec![item; many].join(", ");
    assert_eq!(bench.run(&mut session, &format!("SELECT {}", items("1", 1664))).fields.len(), 1664);
    bench.run(
        &mut session,
        &format!(
            "CREATE VIEW w AS SELECT {}",
            (0..1664).map(|i| format!("{i} AS c{i}")).collect::<Vec<_>>().join(", ")
        ),
    );
    let values = items("1", 1665);
    for sql in [
        format!("SELECT {values}"),
        format!("SELECT {} FROM w", items("w.*", 50)),
        format!("INSERT INTO t VALUES (1, '') RETURNING {values}"),
        format!("VALUES ({values})"),
        format!("COPY (SELECT {values}) TO STDOUT"),
    ] {
        let error = bench.fail(&mut session, &sql);
        assert_eq!(error.state().to_string(), "54011", "{sql:.60}");
        assert_eq!(error.message(), "target lists can have at most 1664 entries");
    }
    let long = "INSERT INTO t VALUES (1, repeat('x', 60000000))";
    let returning = format!("{long} RETURNING {}", items("v", 5));
    let error = refusal(&mut bench, &mut session, &returning);
    assert_eq!(error.state().to_string(), "54000");
    bench.run(&mut session, long);
    for sql in [
        format!("SELECT {} FROM t FOR UPDATE", items("v", 5)),
        format!(
            "SELECT length(a.v), length(b.v), length(c.v), length(d.v), length(e.v) FROM {}",
            ["t a", "t b", "t c", "t d", "t e"].join(", ")
        ),
    ] {
        let error = bench.fail(&mut session, &sql);
        assert_eq!(error.state().to_string(), "54000", "{sql:.60}");
    }
    let made = "repeat('x', 100000000)";
    for condition in [
        format!("num_nulls({}) > 0", items("v", 5)),
        format!("({}) IN (SELECT v, v, v, v, v FROM t)", items("v", 5)),
        format!("({}) IN (SELECT v, v, v FROM t)", items(made, 3)),
        format!("{made} < CASE WHEN {made} < CASE WHEN {made} < v THEN '' END THEN '' END"),
    ] {
        let error = refusal(&mut bench, &mut session, &format!("DELETE FROM t WHERE {condition}"));
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{condition:.60}");
    }
    assert_eq!(bench.run(&mut session, "DELETE FROM t WHERE num_nulls(v, v, v, v) > 0").tags, ["DELETE 0"]);
}

#[test]
fn a_row_is_bounded_before_it_is_whole() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text, c text); INSERT INTO t VALUES (1, 'x');
         CREATE TABLE u (id int, a text UNIQUE); INSERT INTO u VALUES (1, 'x')",
    );
    let long = "repeat('x', 100000000)";
    let late = "repeat('x', 100000000 + (random() * 0)::int)";
    for sql in [
        format!("UPDATE t SET a = {long}, b = {long}, c = {long}"),
        format!("INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = {long}, b = {long}, c = {long}"),
        format!("INSERT INTO t SELECT 2, length(x || y) FROM (VALUES ({long}, {long}, {long})) v (x, y, z)"),
        format!("INSERT INTO t SELECT 2, {late}, {late}, {late} FROM t ORDER BY id"),
    ] {
        let error = refusal(&mut bench, &mut session, &sql);
        assert_eq!(error.state().to_string(), "54000", "{sql}");
        assert_eq!(error.message(), "a row of the result is longer than 256MiB", "{sql}");
    }
    // No key is so long, but there is an order of them.
    let mut count = |condition: &str| {
        let sql = format!("SELECT count(*) FROM u WHERE {condition}");
        bench.run(&mut session, &sql).lines().join("")
    };
    assert_eq!(count("a = repeat('x', 5000)"), "0");
    assert_eq!(count("a IN (repeat('x', 5000), repeat('x', length(a)), 'x')"), "1");
    assert_eq!(count("a < repeat('x', 5000)"), "1");
}

#[test]
fn what_aggregates_keep_is_within_what_rows_may_take() {
    let mut bench = Bench::within(ByteCount::from_mib(1));
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (n int)");
    let maxima = |groups: usize| {
        format!(
            "INSERT INTO t SELECT length(max(repeat('x', 10000 + g))) FROM generate_series(1, {groups}) g GROUP BY g"
        )
    };
    bench.run(&mut session, &maxima(10));
    let refused = bench.fail(&mut session, &maxima(1000));
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
}

#[test]
fn a_row_that_refers_to_itself_by_nan_is_changed_once() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int, f float8 UNIQUE REFERENCES t (f) ON UPDATE CASCADE ON DELETE CASCADE);
         INSERT INTO t VALUES (1, 'NaN'), (2, 1); UPDATE t SET id = id + 10; UPDATE t SET f = f + 1",
    );
    assert_eq!(bench.run(&mut session, "SELECT id, f FROM t ORDER BY id").lines(), ["11|NaN", "12|2"]);
    bench.run(&mut session, "DELETE FROM t");
}

#[test]
fn blanks_behind_a_char_do_not_tell_rows_apart() {
    let (mut bench, mut session) =
        after("CREATE TABLE t (a char(2), b char(3), n int); INSERT INTO t VALUES ('x', 'x', 1)");
    let values = "(VALUES ('a'::char(2), 1), ('a'::char(3), 2), ('b'::char(2), 3)) v (c, n)";
    for (sql, expected) in [
        (format!("SELECT count(DISTINCT c) FROM {values}"), vec!["2"]),
        (format!("SELECT count(*) FROM (SELECT DISTINCT c FROM {values}) s"), vec!["2"]),
        (format!("SELECT sum(n) FROM {values} GROUP BY c"), vec!["3", "3"]),
        (format!("SELECT DISTINCT ON (c) n FROM {values} ORDER BY c, n"), vec!["1", "3"]),
        ("SELECT count(*) FROM t JOIN t u ON t.a = u.b".to_owned(), vec!["1"]),
    ] {
        assert_eq!(bench.run(&mut session, &sql).lines(), expected, "{sql}");
    }
}

#[test]
fn the_systems_tables_are_found_before_those_of_the_same_name() {
    let (mut bench, mut session) =
        after("CREATE TABLE pg_class (a int); INSERT INTO public.pg_class VALUES (1)");
    let mut is_elsewhere = |sql: &str| match bench.try_run(&mut session, sql) {
        Err(Pause::Analytic(_)) => true,
        Ok(_) => false,
        Err(pause) => panic!("{sql}: {pause:?}"),
    };
    assert!(!is_elsewhere("SELECT a FROM public.pg_class"));
    assert!(!is_elsewhere("SET search_path = public, pg_catalog; SELECT a FROM pg_class"));
    assert!(!is_elsewhere("SELECT 'pg_class'::regclass::oid = 'public.pg_class'::regclass::oid"));
    assert!(!is_elsewhere("SET search_path = public"));
    assert!(is_elsewhere("SELECT relname FROM pg_class"));
    let (mut bench, mut session) = after("CREATE TABLE pg_class (a int); CREATE TABLE tables (a int)");
    let insert = "INSERT INTO pg_class VALUES (1)";
    assert_eq!(bench.fail(&mut session, insert).state(), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(bench.fail(&mut session, "SELECT a FROM pg_nothing").state(), SqlState::UNDEFINED_TABLE);
    bench.run(&mut session, "INSERT INTO tables VALUES (1); SET search_path = information_schema, public");
    let Err(Pause::Analytic(_)) = bench.try_run(&mut session, "SELECT table_name FROM tables") else {
        panic!("the tables of the standard are the system's")
    };
}

#[test]
fn very_many_columns_are_not_joined_here() {
    let columns: Vec<String> = (0..1600).map(|i| format!("c{i} int")).collect();
    let (mut bench, mut session) = after(&format!("CREATE TABLE w ({})", columns.join(", ")));
    let join = |many: usize| {
        let joins: String = (1..many).map(|i| format!(" JOIN w w{i} ON true")).collect();
        format!("SELECT 1 FROM w w0{joins}")
    };
    assert_eq!(bench.run(&mut session, &join(20)).lines(), [""; 0]);
    let Err(Pause::Analytic(request)) = bench.try_run(&mut session, &join(200)) else {
        panic!("the names of so many columns are not for a turn")
    };
    assert_eq!(request.reason, "FROM with so many columns");
}

#[test]
fn what_a_pattern_says_of_the_beginning_is_found_by_an_index() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, name varchar(20)); CREATE INDEX by_name ON t (name text_pattern_ops);
         INSERT INTO t SELECT g, 'n' || g FROM generate_series(1, 2000) g;
         INSERT INTO t VALUES (3001, 'n%1'), (3002, '\u{d7ff}a'), (3003, '\u{10ffff}a'), (3004, '\u{10ffff}'), (3005, NULL), (3006, ''), (3007, 'n')",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (condition, has_ends, count) in [
        ("name LIKE 'n19%'", true, "111"),
        ("name LIKE 'n19__'", true, "100"),
        ("name ~~ 'n19'", true, "1"),
        ("name LIKE 'n\\%%'", true, "1"),
        ("name LIKE 'n%1'", true, "201"),
        ("name LIKE '\u{d7ff}%'", true, "1"),
        ("name LIKE '\u{10ffff}%'", true, "2"),
        ("name LIKE '%19'", false, "20"),
        ("name LIKE ''", false, "1"),
        ("name NOT LIKE 'n19%'", false, "1895"),
        ("NOT name LIKE 'n19%'", false, "1895"),
        ("(name LIKE 'n19%') IS NULL", false, "1"),
        ("name ILIKE 'N19%'", false, "111"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert_eq!(
            plan.iter().any(|line| line.contains("using by_name")),
            has_ends,
            "{condition}: {plan:#?}"
        );
        assert_eq!(lines(&sql), [count], "{condition}");
    }
    let first = "SELECT name FROM t WHERE name LIKE 'n19%' ORDER BY name DESC LIMIT 2";
    assert_eq!(lines(first), ["n1999", "n1998"]);
    assert_eq!(lines("DELETE FROM t WHERE name LIKE 'n199%' RETURNING id").len(), 11);
}

#[test]
fn groups_and_orders_have_as_many_columns_as_a_row_may_have() {
    let (mut bench, mut session) = after("CREATE TABLE t (a int)");
    let terms: Vec<String> = (0..50_000).map(|i| format!("a + {i}")).collect();
    for (clause, terms) in [("GROUP BY", &terms), ("ORDER BY", &terms)] {
        let sql = format!("SELECT 1 FROM t {clause} {}", terms.join(", "));
        assert_eq!(bench.fail(&mut session, &sql).state(), SqlState::TOO_MANY_COLUMNS, "{clause}");
    }
    let sql = format!("SELECT DISTINCT ON ({}) 1 FROM t", terms.join(", "));
    assert_eq!(bench.fail(&mut session, &sql).state(), SqlState::TOO_MANY_COLUMNS);
}

#[test]
fn what_has_effects_anywhere_in_a_query_stays_where_they_are() {
    let (mut bench, mut session) = after("CREATE TABLE a (v int); CREATE SEQUENCE s");
    for sql in [
        "SELECT count(*) FROM a HAVING nextval('s') > 0",
        "SELECT count(*) FROM a GROUP BY nextval('s')",
        "SELECT 1 FROM a x JOIN a y ON nextval('s') > x.v",
        "SELECT g FROM generate_series(1, nextval('s')) AS g",
        "SELECT u FROM unnest(ARRAY[nextval('s')]) AS u",
        "SELECT v FROM a LIMIT nextval('s')",
    ] {
        let plan = bench.run(&mut session, &format!("EXPLAIN {sql}")).lines();
        assert!(plan[0].contains("calls functions with effects"), "{sql}: {plan:?}");
    }
}

#[test]
fn a_left_join_begins_with_the_row_that_is_asked_for() {
    let (mut bench, mut session) = after(
        "CREATE TABLE u (id int PRIMARY KEY, name text); INSERT INTO u SELECT g, 'u' || g FROM generate_series(1, 100) g;
         CREATE TABLE o (id int PRIMARY KEY, u int); CREATE INDEX ON o (u); INSERT INTO o SELECT g, g FROM generate_series(1, 300) g;
         CREATE TABLE i (o int, n int, PRIMARY KEY (o, n)); INSERT INTO i SELECT g % 300 + 1, g FROM generate_series(1, 2000) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    let from = "FROM o LEFT JOIN u ON u.id = o.u JOIN i ON i.o = o.id";
    let sql = format!("SELECT u.name, count(*), min(n) {from}");
    for condition in ["o.id = 7", "i.o = 7", "u.name = 'u7'", "o.u = 7"] {
        assert_eq!(lines(&format!("{sql} WHERE {condition} GROUP BY 1")), ["u7|7|6"], "{condition}");
    }
    assert_eq!(lines(&format!("SELECT count(*), count(u.id) {from}")), ["2000|699"]);
    // Each by its key, none of them whole.
    for condition in ["o.id = 7", "i.o = 7"] {
        let plan = lines(&format!("EXPLAIN SELECT u.name, n {from} WHERE {condition}"));
        assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{condition}: {plan:#?}");
    }
    let three = "FROM o LEFT JOIN u ON u.id = o.u LEFT JOIN u AS b ON b.id = o.u + 1 JOIN i ON i.o = o.id JOIN o AS p ON p.id = i.n";
    let plan = lines(&format!("EXPLAIN SELECT b.name, n, p.u {three} WHERE o.id = 7"));
    assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{plan:#?}");
    assert_eq!(lines(&format!("SELECT b.name, n, p.u {three} WHERE o.id = 7")), ["u8|6|6"]);
}

#[test]
fn the_first_few_rows_of_a_join_are_looked_up_one_by_one() {
    let (mut bench, mut session) = after(
        "CREATE TABLE u (id int PRIMARY KEY, name text); INSERT INTO u SELECT g, 'u' || g FROM generate_series(1, 100) g;
         CREATE TABLE o (id int PRIMARY KEY, u int); CREATE INDEX ON o (u, id DESC);
         INSERT INTO o SELECT g, g % 100 + 1 FROM generate_series(1, 1500) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (from, condition, limit, rows) in [
        ("JOIN u", "true", "3", ["1500|u1", "1499|u100", "1498|u99"].as_slice()),
        ("LEFT JOIN u", "true", "2", &["1500|u1", "1499|u100"]),
        ("JOIN u", "u.name <> 'u1'", "1 OFFSET 1", &["1498|u99"]),
        ("JOIN u AS v ON v.id = o.u JOIN u", "true", "1", &["1500|u1"]),
    ] {
        let of_all = format!("SELECT o.id, u.name FROM o {from} ON u.id = o.u WHERE {condition}");
        let sql = format!("{of_all} ORDER BY o.id DESC LIMIT {limit}");
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert!(!plan.iter().any(|line| line.contains("Hash")), "{sql}: {plan:#?}");
        assert_eq!(lines(&sql), rows, "{sql}");
    }
    // For all of them a table is worth it.
    let plan = lines("EXPLAIN SELECT o.id, u.name FROM o JOIN u ON u.id = o.u ORDER BY o.id DESC");
    assert!(plan.iter().any(|line| line.contains("Hash Join")), "{plan:#?}");
    // The first row of each, in the order of an index: it ends where there are enough.
    let newest = "SELECT DISTINCT ON (u) u, id FROM o ORDER BY u, id DESC LIMIT 2";
    let plan = lines(&format!("EXPLAIN {newest}"));
    assert!(!plan.iter().any(|line| line.contains("Sort")), "{plan:#?}");
    assert_eq!(lines(newest), ["1|1500", "2|1401"]);
    assert_eq!(
        lines("SELECT DISTINCT ON (u) u, id FROM o WHERE u < 4 ORDER BY u DESC, id"),
        ["3|2", "2|1", "1|100"]
    );
}

#[test]
fn the_target_of_an_insert_may_be_called_by_its_schema() {
    let (mut bench, mut session) =
        after("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)");
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    let insert = "INSERT INTO public.t VALUES (1, 5), (2, 6)";
    assert_eq!(
        lines(&format!(
            "{insert} ON CONFLICT (id) DO UPDATE SET n = public.t.n + excluded.n WHERE public.t.n > 0 RETURNING public.t.*, t.id"
        )),
        ["1|6|1", "2|6|2"]
    );
    assert_eq!(lines("INSERT INTO t VALUES (3, 7) RETURNING public.t.n"), ["7"]);
    let called = bench.fail(&mut session, "INSERT INTO t AS x VALUES (4, 7) RETURNING public.t.n");
    assert_eq!(called.state(), SqlState::UNDEFINED_TABLE);
}

#[test]
fn a_boolean_and_a_list_of_one_are_equal_to_one_value() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, whose int, done bool, made int); CREATE INDEX by_done ON t (whose, done, made);
         INSERT INTO t SELECT g, g % 3, CASE WHEN g % 7 > 0 THEN g % 2 = 0 END, g FROM generate_series(1, 600) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for condition in [
        "whose = 1 AND done",
        "whose = 1 AND NOT done",
        "whose IN (1) AND done IS FALSE",
        "whose IN (1) AND done IN (true)",
        "done IS TRUE AND 1 = whose",
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY made DESC LIMIT 2");
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert!(plan.iter().any(|line| line.contains("Backward using by_done")), "{condition}: {plan:#?}");
        assert!(!plan.iter().any(|line| line.contains("Sort")), "{condition}: {plan:#?}");
        let hidden = format!("CASE WHEN {condition} THEN 1 END = 1");
        let all = format!("SELECT id FROM t WHERE {hidden} ORDER BY made DESC LIMIT 2");
        assert_eq!(lines(&sql), lines(&all), "{condition}");
    }
    // What is not true may be unknown.
    for (condition, count) in [("IS NOT TRUE", "114"), ("IS NOT FALSE", "115"), ("IS UNKNOWN", "29")] {
        let sql = format!("SELECT count(*) FROM t WHERE whose = 1 AND done {condition}");
        assert_eq!(lines(&sql), [count], "{condition}");
    }
    lines("UPDATE t SET made = -1 WHERE whose IN (2) AND NOT done");
    assert_eq!(lines("SELECT count(*) FROM t WHERE made = -1"), ["86"]);
}

#[test]
fn the_row_of_a_cursor_is_not_what_is_changed() {
    let (mut bench, mut session) = after("CREATE TABLE t (id int PRIMARY KEY, n int)");
    for sql in ["UPDATE t SET n = 1 WHERE CURRENT OF c", "DELETE FROM t WHERE CURRENT OF c RETURNING id"] {
        let refused = bench.fail(&mut session, sql);
        assert_eq!(
            (refused.state().to_string().as_str(), refused.message().contains("CURRENT OF")),
            ("0A000", true)
        );
    }
}

#[test]
fn alternatives_of_one_column_are_looked_up_in_an_index() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (a int, b text, n int, PRIMARY KEY (a, b)); CREATE INDEX ON t (n);
         INSERT INTO t SELECT g % 50, 'b' || g, CASE WHEN g % 3 > 0 THEN g END FROM generate_series(1, 500) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (condition, is_looked_up, rows) in [
        ("n = 4 OR n = 5", true, "2"),
        ("n = 4 OR 4 = n OR n IN (5, 7, NULL) OR n = 8::bigint", true, "4"),
        ("(n = 4 OR n = 5) AND (a = 4 OR a = 5) AND (b = 'b4' OR b = 'b6')", true, "1"),
        ("n = 4 OR n = a + 1", false, "1"),
        ("n = 4 OR a = 5", false, "11"),
        ("n = 4 OR n > 490", false, "8"),
        ("n = 4 OR n IS NULL", false, "167"),
        ("NOT (n = 4 OR n = 5)", false, "332"),
        ("n = 4 OR n NOT IN (4, 5)", false, "333"),
        ("n = NULL OR n = 5", true, "1"),
        ("n = 4.0 OR n = 5", false, "2"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(lines(&sql), [rows], "{condition}");
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert_eq!(
            plan.iter().any(|line| line.contains("Index Scan")),
            is_looked_up,
            "{condition}: {plan:#?}"
        );
    }
}

#[test]
fn rows_with_a_null_are_found_by_an_index() {
    let (mut bench, mut session) = after(
        "CREATE TABLE jobs (id int PRIMARY KEY, whose int, done int, tag text UNIQUE);
         CREATE INDEX by_done ON jobs (done); CREATE INDEX by_whose ON jobs (whose, done DESC NULLS LAST);
         INSERT INTO jobs SELECT g, g % 10, CASE WHEN g % 500 > 0 THEN g END, CASE WHEN g % 1000 > 0 THEN 't' || g END FROM generate_series(1, 4000) g;
         ANALYZE jobs",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (sql, index, rows) in [
        ("SELECT id FROM jobs WHERE done IS NULL ORDER BY id LIMIT 2", "by_done", ["500", "1000"].as_slice()),
        ("SELECT count(*) FROM jobs WHERE done IS NULL", "by_done", &["8"]),
        (
            "SELECT id FROM jobs WHERE tag IS NULL ORDER BY id",
            "jobs_tag_key",
            &["1000", "2000", "3000", "4000"],
        ),
        ("SELECT count(*) FROM jobs WHERE whose = 0 AND done IS NULL AND id > 600", "by_", &["7"]),
        (
            "SELECT id FROM jobs WHERE (done = 7 OR done IS NULL) AND id < 900 ORDER BY id",
            "by_done",
            &["7", "500"],
        ),
        ("SELECT id FROM jobs WHERE done IS NULL AND tag IS NULL AND done = 7", "by_", &[]),
    ] {
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert!(plan.iter().any(|line| line.contains(&format!("using {index}"))), "{sql}: {plan:#?}");
        assert_eq!(lines(sql), rows, "{sql}");
    }
    // There are several of them in a unique index, and it has them in no order but that of their keys.
    assert_eq!(
        lines("SELECT id FROM jobs WHERE tag IS NULL ORDER BY id DESC"),
        ["4000", "3000", "2000", "1000"]
    );
    assert_eq!(
        lines("SELECT id FROM jobs WHERE tag IS NULL ORDER BY id % 3000, id DESC LIMIT 3"),
        ["3000", "4000", "1000"]
    );
    assert_eq!(lines("SELECT id FROM jobs WHERE tag IS NULL ORDER BY whose, id DESC LIMIT 1"), ["4000"]);
    assert_eq!(lines("SELECT max(id) FROM jobs WHERE tag IS NULL"), ["4000"]);
    assert_eq!(lines("SELECT count(*) FROM jobs WHERE id IS NULL"), ["0"]);
    assert_eq!(lines("SELECT count(*) FROM jobs WHERE done IS NOT NULL"), ["3992"]);
    // Of a range of an index, in slices, and changed while it is read.
    let taken = "UPDATE jobs SET done = -id WHERE done IS NULL RETURNING id";
    assert_eq!(lines(taken).len(), 8);
    assert_eq!(lines("SELECT count(*) FROM jobs WHERE done IS NULL"), ["0"]);
    assert_eq!(lines("UPDATE jobs SET done = NULL WHERE done < 0 RETURNING id").len(), 8);
    assert_eq!(lines("DELETE FROM jobs WHERE done IS NULL AND tag IS NULL RETURNING id").len(), 4);
    assert_eq!(
        lines(
            "SELECT j.id FROM (VALUES (1), (2)) v (x) JOIN jobs j ON j.whose = v.x - 1 AND j.done IS NULL ORDER BY 1"
        ),
        ["500", "1500", "2500", "3500"]
    );
}

#[test]
fn a_left_join_of_which_only_matches_are_wanted_begins_with_either_side() {
    let (mut bench, mut session) = after(
        "CREATE TABLE a (id int PRIMARY KEY, b int, t text); CREATE TABLE b (id int PRIMARY KEY, c int, n int); CREATE TABLE c (id int PRIMARY KEY, n int);
         CREATE INDEX ON a (b); CREATE INDEX ON b (n);
         INSERT INTO a SELECT g, CASE WHEN g % 4 > 0 THEN g END, 'x' FROM generate_series(1, 400) g;
         INSERT INTO b SELECT g, CASE WHEN g % 3 > 0 THEN g END, CASE WHEN g % 5 > 0 THEN g END FROM generate_series(1, 300) g;
         INSERT INTO c SELECT g, g FROM generate_series(1, 200) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    let from = "a LEFT JOIN b ON b.id = a.b LEFT JOIN c ON c.id = b.c";
    let nested = "a LEFT JOIN (b LEFT JOIN c ON c.id = b.c) ON b.id = a.b AND c.n > 5";
    // A condition, joins that are left as they are, and rows.
    for (from, condition, left_joins, rows) in [
        (from, "b.n = 7", 1, 1),
        (from, "7 = abs(b.n) AND a.t = 'x'", 1, 1),
        (from, "c.n = 7", 0, 1),
        (from, "b.n IS NOT NULL", 1, 180),
        (from, "b.n IN (7, 8)", 1, 1),
        (from, "b.n NOT IN (7, 8)", 1, 179),
        (from, "NOT b.n = 7", 1, 179),
        (from, "(b.n = 7) IS TRUE", 1, 1),
        (from, "(b.n = 7) IS NOT TRUE", 2, 399),
        (from, "b.n IS NULL", 2, 220),
        (from, "b.n = 7 OR a.id = 1", 2, 2),
        (from, "b.n = 7 OR b.c = 7", 1, 1),
        (from, "NOT (b.n = 7 OR b.c = 7)", 1, 119),
        (from, "b.n IN (SELECT 7)", 1, 1),
        (from, "coalesce(b.n, 7) = 7", 2, 221),
        (from, "b.n = ANY (ARRAY[7, 8])", 1, 1),
        (from, "b.n <> ALL (ARRAY[]::int[])", 2, 400),
        (from, "b.n IS NOT DISTINCT FROM NULL", 2, 220),
        (nested, "true", 1, 400),
        (nested, "b.n = 7", 0, 1),
        ("c RIGHT JOIN b ON c.id = b.c", "c.n < 3", 0, 2),
    ] {
        let plan = lines(&format!("EXPLAIN SELECT * FROM {from} WHERE {condition}"));
        let left = plan.iter().filter(|line| line.contains("Left Join")).count();
        assert_eq!(left, left_joins, "{from} WHERE {condition}: {plan:#?}");
        let found = lines(&format!("SELECT * FROM {from} WHERE {condition} ORDER BY 1, 2"));
        assert_eq!(found.len(), rows, "{from} WHERE {condition}");
        // What hides in a CASE says nothing of its columns.
        let hidden = format!(
            "SELECT * FROM {from} WHERE CASE WHEN {condition} THEN true ELSE false END ORDER BY 1, 2"
        );
        assert_eq!(found, lines(&hidden), "{from} WHERE {condition}");
    }
}

#[test]
fn alternatives_of_several_columns_have_an_index_each_and_give_each_row_once() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (a int, b text, n int, PRIMARY KEY (a, b)); CREATE INDEX ON t (n); CREATE TABLE u (k int PRIMARY KEY, v int);
         INSERT INTO t SELECT g % 50, 'b' || g, CASE WHEN g % 3 > 0 THEN g END FROM generate_series(1, 500) g;
         INSERT INTO u VALUES (3, 4), (4, 5), (5, NULL)",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (condition, has_indexes, count) in [
        ("n = 4 OR a = 5", true, 11),
        ("n = 5 OR a = 5", true, 10),
        ("a = 5 OR n = 5 OR (a = 7 AND b = 'b57') OR n = 55", true, 11),
        ("(n = 5 OR a = 5) AND b = 'b5'", true, 1),
        ("n IN (4, 5) OR a IN (4, 5)", true, 20),
        ("(a = 5 AND b = 'b55') OR (a = 6 AND n = 56)", true, 2),
        ("n = 4 OR b = 'b4'", false, 1),
        ("n = 4 OR a = n", false, 33),
        ("b <> 'b5' AND (n = 5 OR (a = 5 AND 1000 / (n - 5) <> 0) OR a = 6)", true, 16),
    ] {
        let plan = lines(&format!("EXPLAIN SELECT a, b FROM t WHERE {condition}"));
        let found = plan.iter().any(|line| line.contains("Index Or Scan"));
        assert_eq!(found, has_indexes, "{condition}: {plan:#?}");
        let rows = lines(&format!("SELECT a, b FROM t WHERE {condition} ORDER BY a, b"));
        assert_eq!(
            rows,
            lines(&format!("SELECT a, b FROM t WHERE ({condition}) IS TRUE ORDER BY a, b")),
            "{condition}"
        );
        assert_eq!(rows.len(), count, "{condition}");
    }
    let joined = "SELECT k, b FROM u JOIN t ON t.n = u.v OR t.a = u.k ORDER BY 1, 2";
    let plan = lines(&format!("EXPLAIN {joined}"));
    assert!(plan.iter().any(|line| line.contains("Index Or Scan on t")), "{plan:#?}");
    let all = "SELECT k, b FROM u CROSS JOIN t WHERE (t.n = u.v OR t.a = u.k) IS TRUE ORDER BY 1, 2";
    assert_eq!(lines(joined), lines(all));
    assert_eq!(
        lines("SELECT b FROM t WHERE n = 4 OR a = 5 ORDER BY n NULLS FIRST, b LIMIT 2"),
        ["b105", "b255"]
    );
    assert_eq!(lines("SELECT count(*) FROM (SELECT 1 FROM t WHERE n = 4 OR a = 5 LIMIT 3) s"), ["3"]);
    // What may fail is asked behind what stands before it, and only where the rest of its part is true.
    lines("INSERT INTO t VALUES (5, 'none', NULL)");
    let guarded = "SELECT b FROM t WHERE b LIKE 'b_' AND (n = 1 OR (a = 5 AND substr(b, 2)::int < 9))";
    let plan = lines(&format!("EXPLAIN {guarded}"));
    assert!(plan.iter().any(|line| line.contains("Index Or Scan")), "{plan:#?}");
    assert_eq!(lines(guarded), ["b1", "b5"]);
    assert_eq!(lines("DELETE FROM t WHERE b = 'none' RETURNING b"), ["none"]);
    // One that a subquery has the rows of.
    let of_some = "SELECT count(*) FROM t WHERE n = 4 OR a IN (SELECT k FROM u WHERE v > 4)";
    assert_eq!(lines(of_some), ["10"]);
    assert!(lines(&format!("EXPLAIN {of_some}")).iter().any(|line| line.contains("Index Or Scan")));
    // What locks rows, or calls a function that is different each time, is in one piece.
    for (sql, path) in [
        ("SELECT b FROM t WHERE n = 4 OR a = 5 FOR UPDATE", "Index Or Scan on t"),
        (
            "SELECT b FROM t WHERE n = 4 OR n = 5 OR n = 7 ORDER BY b LIMIT 2 FOR UPDATE SKIP LOCKED",
            "Index Scan",
        ),
        ("SELECT b, random() < 2 FROM t WHERE n = 4 OR (a = 5 AND random() < 2)", "Index Or Scan on t"),
    ] {
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert!(plan.iter().any(|line| line.contains(path)), "{sql}: {plan:#?}");
    }
    assert_eq!(lines("SELECT b FROM t WHERE n = 4 OR a = 5 FOR UPDATE").len(), 11);
    assert_eq!(lines("SELECT b, random() < 2 FROM t WHERE n = 4 OR (a = 5 AND random() < 2)").len(), 11);
    // So are the rows of a change.
    let plan = lines("EXPLAIN UPDATE t SET n = n + 1000 WHERE n = 4 OR a = 5");
    assert!(plan.iter().any(|line| line.contains("Index Or Scan on t")), "{plan:#?}");
    assert_eq!(lines("UPDATE t SET n = n + 1000 WHERE n = 4 OR a = 5 RETURNING b").len(), 11);
}

#[test]
fn how_many_rows_several_indexes_have_is_asked_of_each() {
    let (mut bench, mut session) = after(
        "CREATE TABLE m (id int PRIMARY KEY, by_whom int, to_whom int); CREATE INDEX ON m (by_whom); CREATE INDEX ON m (to_whom)",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    lines("INSERT INTO m SELECT g, g % 700, g % 900 FROM generate_series(1, 1000) g");
    // The last few of one's rows are found by whose they are, as behind a single condition.
    let last = "SELECT id FROM m WHERE by_whom = 3 OR to_whom = 3 ORDER BY id DESC LIMIT 20";
    let plan = lines(&format!("EXPLAIN {last}"));
    assert!(plan.iter().any(|line| line.contains("Index Or Scan on m")), "{plan:#?}");
    assert_eq!(lines(last), ["903", "703", "3"]);
    // Few values make much of each by estimate; those that are asked for are few.
    lines("UPDATE m SET by_whom = id % 4, to_whom = id % 4");
    lines("INSERT INTO m SELECT g, g % 4, g % 4 FROM generate_series(1001, 24000) g");
    lines("UPDATE m SET by_whom = 77 WHERE id = 9; UPDATE m SET to_whom = 77 WHERE id IN (9, 10); ANALYZE m");
    let few = "SELECT id FROM m WHERE by_whom = 77 OR to_whom = 77";
    let plan = lines(&format!("EXPLAIN {few}"));
    assert!(plan.iter().any(|line| line.contains("Index Or Scan on m")), "{plan:#?}");
    assert_eq!(lines(few), ["9", "10"]);
}

#[test]
fn the_last_few_rows_of_one_are_found_by_whose_they_are() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, whose int, made int); CREATE INDEX by_whose ON t (whose); CREATE INDEX by_made ON t (made);
         INSERT INTO t SELECT g, g % 200, g * 7 % 2000 FROM generate_series(1, 2000) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (sql, index, rows) in [
        (
            "SELECT id FROM t WHERE whose = 5 ORDER BY made DESC LIMIT 3",
            "by_whose",
            ["1405", "805", "205"].as_slice(),
        ),
        (
            "SELECT id FROM t WHERE whose = 5 ORDER BY made DESC",
            "by_whose",
            &["1405", "805", "205", "1605", "1005", "405", "1805", "1205", "605", "5"],
        ),
        ("SELECT id FROM t ORDER BY made LIMIT 3", "by_made", &["2000", "1143", "286"]),
        ("SELECT id FROM t WHERE id % 7 = 0 ORDER BY made LIMIT 2", "by_made", &["1715", "287"]),
        ("SELECT min(made) FROM t WHERE whose = 5", "by_", &["35"]),
    ] {
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert!(plan.iter().any(|line| line.contains(&format!("using {index}"))), "{sql}: {plan:#?}");
        assert_eq!(lines(sql), rows, "{sql}");
    }
}

#[test]
fn an_index_has_the_rows_of_one_value_in_the_order_of_their_keys() {
    let (mut bench, mut session) = after(
        "CREATE TABLE t (id int PRIMARY KEY, whose int, made int, tag text UNIQUE); CREATE INDEX by_whose ON t (whose); CREATE INDEX by_made ON t (made);
         INSERT INTO t SELECT g, g % 200, g % 50, CASE WHEN g % 3 > 0 THEN 'x' || g END FROM generate_series(1, 2000) g;
         CREATE TABLE p (a int, b int, n int, PRIMARY KEY (a, b)); CREATE INDEX by_b ON p (b); CREATE INDEX by_n ON p (n DESC);
         INSERT INTO p SELECT g % 40, g / 40, g % 7 FROM generate_series(0, 1199) g",
    );
    let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
    for (sql, is_sorted, rows) in [
        ("SELECT id FROM t WHERE whose = 5 ORDER BY id DESC LIMIT 2", false, ["1805", "1605"].as_slice()),
        ("SELECT id FROM t WHERE whose = 5 ORDER BY id LIMIT 2", false, &["5", "205"]),
        ("SELECT id FROM t WHERE whose = 5 ORDER BY made, id DESC LIMIT 2", true, &["1805", "1605"]),
        ("SELECT id FROM t ORDER BY made DESC, id DESC LIMIT 3", false, &["1999", "1949", "1899"]),
        ("SELECT id FROM t ORDER BY made, id DESC LIMIT 2", true, &["2000", "1950"]),
        ("SELECT id FROM t ORDER BY made, id, whose LIMIT 2", false, &["50", "100"]),
        ("SELECT id FROM t ORDER BY tag DESC, id DESC LIMIT 2", false, &["1998", "1995"]),
        ("SELECT id FROM t ORDER BY tag DESC, id LIMIT 2", true, &["3", "6"]),
        ("SELECT id FROM t WHERE tag IS NULL ORDER BY id DESC LIMIT 1", false, &["1998"]),
        ("SELECT a FROM p WHERE b = 3 ORDER BY a DESC LIMIT 2", false, &["39", "38"]),
        ("SELECT a, b FROM p ORDER BY b DESC, a DESC LIMIT 2", false, &["39|29", "38|29"]),
        ("SELECT a, b FROM p ORDER BY n DESC, a, b LIMIT 2", false, &["0|4", "0|11"]),
        ("SELECT a, b FROM p ORDER BY n DESC, b, a LIMIT 2", true, &["6|0", "13|0"]),
        (
            "SELECT t.id, p.b FROM t JOIN p ON p.a = 0 AND p.b < 2 WHERE t.made = 7 ORDER BY t.made, t.id, p.b DESC LIMIT 2",
            true,
            &["7|1", "7|0"],
        ),
    ] {
        let plan = lines(&format!("EXPLAIN {sql}"));
        assert_eq!(plan.iter().any(|line| line.contains("Sort")), is_sorted, "{sql}: {plan:#?}");
        assert_eq!(lines(sql), rows, "{sql}");
    }
    // With what the transaction has changed.
    lines("BEGIN; UPDATE t SET whose = 5 WHERE id IN (7, 1999); DELETE FROM t WHERE id = 1805");
    assert_eq!(lines("SELECT id FROM t WHERE whose = 5 ORDER BY id DESC LIMIT 2"), ["1999", "1605"]);
    assert_eq!(lines("SELECT id FROM t WHERE whose = 5 ORDER BY id LIMIT 3"), ["5", "7", "205"]);
    lines("ROLLBACK");
}
