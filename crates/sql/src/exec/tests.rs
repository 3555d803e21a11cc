//! Statements through sessions, on a tenant in memory. Expectations are PostgreSQL 15's.

use base::SqlState;

use crate::session::testing::Bench;
use crate::session::{Pause, Session};

fn after(sql: &str) -> (Bench, Session) {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, sql);
    (bench, session)
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
