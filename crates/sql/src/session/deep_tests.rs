//! Deep and long statements, in process, on a thread with the stack that workers have: what is too deep is 54001, and chains that
//! programs write are no depth.

use base::SqlState;
use base::limits::NESTING_MAX;

use super::testing::Bench;
use super::{Pause, Session};

/// Runs `body` on a thread like a worker's.
fn on_a_workers_stack(body: impl FnOnce(&mut Bench, &mut Session) + Send + 'static) {
    let body = move || {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
        bench.run(&mut session, "INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 100) AS s(n)");
        body(&mut bench, &mut session);
        let answer = bench.run(&mut session, "SELECT v FROM t WHERE id = 7");
        assert_eq!(answer.lines(), ["v7"], "the session goes on");
    };
    env::Env::real().threads.spawn("deep", None, Box::new(body)).expect("a thread").join().expect("no panic");
}

/// The SQLSTATE of a statement, `None` if it succeeded here or is one for the analytical path.
fn state(bench: &mut Bench, session: &mut Session, sql: &str) -> Option<SqlState> {
    match bench.try_run(session, sql) {
        Ok(_) => None,
        Err(Pause::Analytic(_)) => {
            // Nobody here runs it: the session that waits for it is given up.
            *session = bench.session();
            None
        }
        Err(Pause::Error(error)) => Some(error.state()),
        Err(_) => panic!("nothing to wait for: {sql:.40}"),
    }
}

/// Deep enough to leave no stack whatever one level takes.
const FAR_TOO_DEEP: usize = 20_000;

fn around(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
}

#[test]
fn what_nests_too_deeply_is_54001() {
    on_a_workers_stack(|bench, session| {
        for times in [NESTING_MAX, FAR_TOO_DEEP] {
            for (first, link) in [
                ("1", " + 1"),
                ("1", "::int"),
                ("'a'", " || 'b'"),
                ("1", " = 1 IS NULL"),
                ("true", " IS TRUE"),
                ("1", " BETWEEN 0 AND 1"),
                ("true", " IS DISTINCT FROM true"),
                ("now()", " AT TIME ZONE 'UTC'"),
                ("'{1}'::int[]", "[1]"),
                ("1", " UNION ALL SELECT 1"),
            ] {
                let sql = format!("SELECT {first}{}", link.repeat(times));
                let found = state(bench, session, &sql);
                assert_eq!(found, Some(SqlState::STATEMENT_TOO_COMPLEX), "{sql:.60}");
            }
        }
        for times in [NESTING_MAX, FAR_TOO_DEEP] {
            for (open, inner, close) in [
                ("(", "1", ")"),
                ("abs(", "1", ")"),
                ("- ", "1", ""),
                ("NOT ", "true", ""),
                ("(SELECT ", "1", ")"),
                ("ARRAY[", "1", "]"),
                ("CASE WHEN true THEN ", "1", " END"),
                ("CASE WHEN true THEN ", "", ""),
                ("coalesce(1, ", "1", ")"),
                ("EXISTS (SELECT ", "1", ")"),
                ("1 IN (", "1", ")"),
                ("'1'::int + (", "1", ")"),
                ("x.", "x", ""),
                ("INTERVAL ", "'1 day'", ""),
                ("CAST(", "1", " AS int)"),
                ("((SELECT FROM ", "t", "))"),
                ("1 FROM (SELECT ", "1", ") AS x"),
                ("1 FROM ((", "t", "))"),
            ] {
                let found = state(bench, session, &around(open, inner, close, times));
                assert!(found.is_some(), "{open} ×{times} cannot be answered");
            }
        }
        let types = format!("SELECT NULL::int{}", "[]".repeat(FAR_TOO_DEEP));
        assert_eq!(state(bench, session, &types), Some(SqlState::STATEMENT_TOO_COMPLEX));
        let prepares = "PREPARE a AS ".repeat(FAR_TOO_DEEP) + "SELECT 1";
        assert_eq!(state(bench, session, &prepares), Some(SqlState::SYNTAX_ERROR));
        let explains = "EXPLAIN ".repeat(FAR_TOO_DEEP) + "SELECT 1";
        assert!(state(bench, session, &explains).is_some());
        let json = format!("SELECT '{}'::jsonb", "[".repeat(FAR_TOO_DEEP));
        assert_eq!(state(bench, session, &json), Some(SqlState::STATEMENT_TOO_COMPLEX));
    });
}

#[test]
fn what_is_just_not_too_deep_is_answered() {
    on_a_workers_stack(|bench, session| {
        // One level is the literal's.
        let sum = format!("SELECT 1{}", " + 1".repeat(NESTING_MAX - 2));
        assert_eq!(bench.run(session, &sum).lines(), [(NESTING_MAX - 1).to_string()]);
        let text = format!("SELECT length('a'{})", " || 'b'".repeat(NESTING_MAX - 3));
        assert_eq!(bench.run(session, &text).lines(), [(NESTING_MAX - 2).to_string()]);
        assert_eq!(bench.run(session, &around("(", "1", ")", 200)).lines(), ["1"]);
        assert_eq!(bench.run(session, &around("abs(", "-1", ")", 50)).lines(), ["1"]);
        let cases = around("CASE WHEN true THEN ", "1", " END", 100);
        assert_eq!(bench.run(session, &cases).lines(), ["1"]);
        let column = format!("UPDATE t SET id = id{} WHERE id = 1", " + 0".repeat(NESTING_MAX - 2));
        bench.run(session, &column);
        let check = format!("ALTER TABLE t ADD CHECK (id{} > 0)", " + 1".repeat(NESTING_MAX - 4));
        bench.run(session, &check);
        bench.run(session, "INSERT INTO t VALUES (1000, 'checked')");
        bench.run(session, "DELETE FROM t WHERE id = 1000");
        let union = |links: &str, times: usize| {
            let rows = format!("SELECT 1{}", links.repeat(times));
            format!("WITH i AS (INSERT INTO t VALUES (1001)) SELECT count(*) FROM ({rows}) AS u")
        };
        let count = bench.run(session, &union(" UNION ALL SELECT 1", 1000)).lines();
        assert_eq!(count, ["1001"], "one level");
        bench.run(session, "DELETE FROM t WHERE id = 1001");
        let other = " UNION ALL SELECT 1 UNION SELECT 1";
        let refused = bench.fail(session, &union(other, 500));
        assert_eq!(refused.state(), SqlState::STATEMENT_TOO_COMPLEX);
        assert_eq!(bench.run(session, &union(other, 20)).lines(), ["1"]);
        bench.run(session, "DELETE FROM t WHERE id = 1001");
    });
}

#[test]
fn chains_and_lists_of_many_terms_are_answered() {
    on_a_workers_stack(|bench, session| {
        let conjunction = format!("SELECT id FROM t WHERE id = 5{}", " AND v <> 'x'".repeat(10_000));
        assert_eq!(bench.run(session, &conjunction).lines(), ["5"]);
        let disjunction = format!("SELECT count(*) FROM t WHERE id = 5{}", " OR id = 6".repeat(10_000));
        assert!(matches!(state(bench, session, &disjunction), None), "here or on the analytical path");
        let mixed = format!("SELECT true{}", " OR (true) AND NOT false = true".repeat(10_000));
        assert_eq!(bench.run(session, &mixed).lines(), ["t"]);
        let longest = format!("SELECT 1 WHERE true{}", " AND true".repeat(100_000));
        assert_eq!(bench.run(session, &longest).lines(), ["1"]);
        let numbers: Vec<String> = (50..50_050).map(|n| n.to_string()).collect();
        let list = format!("SELECT count(*) FROM t WHERE id IN ({})", numbers.join(", "));
        assert_eq!(bench.run(session, &list).lines(), ["51"]);
        let parameters = format!("SELECT 7 IN ({})", numbers.join(", "));
        assert_eq!(bench.run(session, &parameters).lines(), ["f"]);
        let array = format!("SELECT count(*) FROM t WHERE id = ANY (ARRAY[{}])", numbers.join(","));
        assert!(matches!(state(bench, session, &array), None), "here or on the analytical path");
    });
}

#[test]
fn views_count_with_what_uses_them() {
    on_a_workers_stack(|bench, session| {
        let deep = " + 0".repeat(NESTING_MAX / 2);
        bench.run(session, &format!("CREATE VIEW v1 AS SELECT id{deep} AS id FROM t"));
        assert_eq!(bench.run(session, "SELECT id FROM v1 WHERE id = 3").lines(), ["3"]);
        bench.run(session, &format!("CREATE VIEW v2 AS SELECT id{deep} AS id FROM v1"));
        let found = state(bench, session, "SELECT id FROM v2 WHERE id = 3");
        assert_eq!(found, Some(SqlState::STATEMENT_TOO_COMPLEX));
    });
}

#[test]
fn subqueries_in_copies_of_operands_are_bound_and_looked_through_once() {
    on_a_workers_stack(|bench, session| {
        bench.run(session, "CREATE TABLE e (id int PRIMARY KEY, v int)");
        let (mut listed, mut compared) = ("1".to_owned(), "0".to_owned());
        for level in (1..=40).rev() {
            listed = format!("(SELECT 1 WHERE ({listed}, 1) IN ((1, 1), (2, 2)))");
            let (own, outer) = (format!("e{level}"), format!("e{}", level - 1));
            compared =
                format!("(SELECT 1 FROM e {own} WHERE {own}.id = {outer}.id AND {compared} BETWEEN 0 AND 1)");
        }
        bench.run(session, &format!("PREPARE p AS SELECT {listed}"));
        assert_eq!(state(bench, session, &format!("SELECT {compared} FROM e e0")), None);
        let row = compared.replacen("SELECT 1", "SELECT e1.id, e1.v", 1);
        assert_eq!(state(bench, session, &format!("UPDATE e e0 SET (id, v) = {row}")), None);
        let rows = "SELECT (1, '2') IN (($1, 1), (2, $1)), ($1, $2) IN ((1, 'a'), ('2', 'b'))";
        bench.run(session, &format!("PREPARE q AS {rows}"));
        assert_eq!(bench.run(session, "EXECUTE q(1, 'b')").lines(), ["f|f"]);
        assert_eq!(bench.run(session, "EXECUTE q(2, 'b')").lines(), ["f|t"]);
    });
}

#[test]
fn views_may_use_each_other_in_long_chains() {
    on_a_workers_stack(|bench, session| {
        bench.run(session, "CREATE VIEW v0 AS SELECT id FROM t");
        for i in 1..128 {
            bench.run(session, &format!("CREATE VIEW v{i} AS SELECT id FROM v{}", i - 1));
        }
        assert_eq!(bench.run(session, "SELECT id FROM v127 WHERE id = 3").lines(), ["3"]);
        let found = state(bench, session, "CREATE VIEW v128 AS SELECT id FROM v127; SELECT id FROM v128");
        assert_eq!(found, Some(SqlState::STATEMENT_TOO_COMPLEX));
        bench.run(session, "CREATE OR REPLACE VIEW v0 AS SELECT id FROM v1");
        let found = state(bench, session, "SELECT id FROM v2");
        assert_eq!(found, Some(SqlState::INVALID_OBJECT_DEFINITION));
    });
}

#[test]
fn more_tokens_than_memory_should_hold_are_refused() {
    on_a_workers_stack(|bench, session| {
        let sql = format!("SELECT {}1", "1,".repeat(base::limits::STATEMENT_TOKENS_MAX / 2));
        assert_eq!(state(bench, session, &sql), Some(SqlState::STATEMENT_TOO_COMPLEX));
    });
}
