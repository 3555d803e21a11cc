//! Which paths are chosen.

use sql::exec::ExternalRows;
use types::{Datum, PgType};

use crate::database::{Database, Outcome};

fn bank() -> Database {
    let mut database = Database::new();
    for sql in [
        "CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
        "CREATE TABLE lines (w int, d int, o int, n int, item int, amount numeric(6,2), PRIMARY KEY (w, d, o, n))",
        "CREATE INDEX lines_item ON lines (item)",
        "INSERT INTO accounts SELECT g, 1, g * 10, 'x' FROM generate_series(1, 500) g",
        "INSERT INTO lines SELECT 1, g % 10, g / 10, g % 5, g % 50, 1.5 FROM generate_series(1, 500) g",
    ] {
        database.execute(sql).expect(sql);
    }
    database
}

#[track_caller]
fn check(sql: &str, expected: &[&str]) {
    let database = bank();
    let lines = database.explain(sql);
    assert_eq!(lines[1..].iter().map(|line| line.trim()).collect::<Vec<_>>(), expected, "{sql}");
}

#[test]
fn a_primary_key_is_one_lookup() {
    check(
        "SELECT abalance FROM accounts WHERE aid = 7",
        &["Index Scan using accounts_pkey on accounts", "Index Cond: (aid = 7)"],
    );
}

#[test]
fn a_prefix_and_a_range_bound_a_scan() {
    check(
        "SELECT item FROM lines WHERE w = 1 AND d = 2 AND o < 20 AND o >= 10",
        &[
            "Index Scan using lines_pkey on lines",
            "Index Cond: ((w = 1) AND (d = 2) AND (o >= 10) AND (o < 20))",
        ],
    );
}

#[test]
fn an_order_by_the_key_needs_no_sort() {
    check(
        "SELECT o FROM lines WHERE w = 1 AND d = 2 ORDER BY o DESC, n DESC LIMIT 1",
        &["Limit", "->  Index Scan Backward using lines_pkey on lines", "Index Cond: ((w = 1) AND (d = 2))"],
    );
}

#[test]
fn the_least_key_is_the_first_row() {
    check(
        "SELECT min(o) FROM lines WHERE w = 1 AND d = 2",
        &[
            "Aggregate",
            "Reads: the first row only",
            "->  Index Scan using lines_pkey on lines",
            "Index Cond: ((w = 1) AND (d = 2))",
        ],
    );
}

#[test]
fn a_join_looks_the_inner_side_up() {
    check(
        "SELECT a.abalance FROM lines l JOIN accounts a ON a.aid = l.item WHERE l.w = 1 AND l.d = 1 AND l.o = 3",
        &[
            "Nested Loop",
            "->  Index Scan using lines_pkey on lines l",
            "Index Cond: ((w = 1) AND (d = 1) AND (o = 3))",
            "->  Index Scan using accounts_pkey on accounts a",
            "Index Cond: (aid = l.item)",
        ],
    );
}

#[test]
fn an_in_list_is_several_lookups() {
    check(
        "SELECT abalance FROM accounts WHERE aid IN (3, 1, 2)",
        &["Index Scan using accounts_pkey on accounts", "Index Cond: (aid IN (3, 1, 2))"],
    );
}

#[test]
fn an_uncorrelated_in_looks_its_rows_up() {
    check(
        "SELECT abalance FROM accounts WHERE aid IN (SELECT item FROM lines WHERE w = 1 AND d = 1 AND o = 2)",
        &[
            "Index Scan using accounts_pkey on accounts",
            "Index Cond: (aid = ANY (SubPlan 1))",
            "InitPlan 1",
            "->  Index Scan using lines_pkey on lines",
            "Index Cond: ((w = 1) AND (d = 1) AND (o = 2))",
        ],
    );
}

/// What the analytical path would answer to the query part of a change.
fn computed(database: &mut Database, sql: &str) -> (Vec<PgType>, Vec<types::Row>) {
    match database.execute(sql).expect(sql) {
        Outcome::Rows { columns, rows, .. } => (columns.iter().map(|c| c.ty).collect(), rows),
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_change_takes_its_rows_from_the_analytical_path() {
    let mut database = bank();
    let sql = "UPDATE accounts SET bid = abalance + 1.6, filler = 'new' WHERE aid IN (SELECT 3 UNION SELECT 4) \
               RETURNING aid, bid";
    let plan = database.bind(sql, &[]).unwrap();
    let source = plan.external_source().expect("UNION is not of the point path");
    assert_eq!(source.reason, "UNION");
    // A text that is given for a column is read as one of its type before, and not asked for.
    let (types, rows) =
        computed(&mut database, "SELECT accounts.*, abalance + 1.6 FROM accounts WHERE aid IN (3, 4)");
    let external = ExternalRows { types: &types, rows: &rows, total: rows.len() };
    let (returned, done) = database.run_with(&plan, &[], Some(external)).unwrap();
    assert_eq!(done.rows, 2);
    assert_eq!(returned, [[Datum::Int4(3), Datum::Int4(32)], [Datum::Int4(4), Datum::Int4(42)]]);
    let stale = database.run_with(&plan, &[], Some(external)).unwrap_err();
    assert_eq!(stale.state().as_str(), "40001", "the rows have changed since they were found");

    let plan = database.bind("DELETE FROM accounts WHERE aid IN (SELECT 3 UNION SELECT 4)", &[]).unwrap();
    let (types, rows) = computed(&mut database, "SELECT * FROM accounts WHERE aid IN (3, 4)");
    let external = ExternalRows { types: &types, rows: &rows, total: rows.len() };
    assert_eq!(database.run_with(&plan, &[], Some(external)).unwrap().1.rows, 2);

    let plan = database.bind("INSERT INTO accounts (aid, bid) SELECT 3, 1.5 UNION SELECT 4, 2", &[]).unwrap();
    assert!(plan.external_source().is_some());
    let (types, rows) = computed(&mut database, "SELECT 3, 1.5");
    let external = ExternalRows { types: &types, rows: &rows, total: rows.len() };
    assert_eq!(database.run_with(&plan, &[], Some(external)).unwrap().1.rows, 1);
    let (_, rows) = computed(&mut database, "SELECT bid FROM accounts WHERE aid = 3");
    assert_eq!(rows, [[Datum::Int4(2)]]);
}

#[test]
fn explain_analyze_counts_rows_and_loops() {
    let mut database = bank();
    let sql = "SELECT count(*) FROM lines l JOIN accounts a ON a.aid = l.item \
               WHERE l.w = 1 AND l.d = 1 AND a.abalance > 100";
    let lines = database.explain_analyze(sql);
    let lines: Vec<&str> = lines[1..].iter().map(|line| line.trim()).collect();
    assert_eq!(
        lines,
        [
            "Aggregate",
            "->  Nested Loop (actual rows=40 loops=1)",
            "->  Index Scan using lines_pkey on lines l (actual rows=50 loops=1)",
            "Index Cond: ((w = 1) AND (d = 1))",
            "->  Index Scan using accounts_pkey on accounts a (actual rows=0 loops=50)",
            "Index Cond: (aid = l.item)",
            "Filter: (a.abalance > 100)",
            "Rows Removed by Filter: 10",
            "Rows Examined: 101",
        ]
    );
}

#[test]
fn what_is_not_of_the_point_path_says_why() {
    let mut database = bank();
    for (sql, reason) in [
        ("WITH x AS (SELECT 1) SELECT * FROM x, x y", "a common table expression"),
        ("WITH x AS MATERIALIZED (SELECT 1) SELECT * FROM x", "a common table expression"),
        ("SELECT 1 UNION SELECT 2", "UNION"),
    ] {
        match database.execute(sql) {
            Ok(Outcome::Analytic(found)) => assert_eq!(found, reason),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn a_plan_runs_again_with_other_parameters() {
    let mut database = bank();
    let plan = database.bind("SELECT abalance FROM accounts WHERE aid = $1", &[]).unwrap();
    assert_eq!(plan.parameters, [PgType::Int4]);
    for aid in [1, 250, 500] {
        let (rows, done) = database.run_plan(&plan, &[Datum::Int4(aid)]).unwrap();
        assert_eq!(rows, [[Datum::Int4(aid * 10)]]);
        assert_eq!(done.examined, 1);
    }
    let (rows, _) = database.run_plan(&plan, &[Datum::Null]).unwrap();
    assert!(rows.is_empty());
}
