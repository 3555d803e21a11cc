//! Queries whose answers PostgreSQL 15 gave once (`tests/golden/expected.txt`), over the same rows; and one whose rows are many.

mod support;

use base::ByteCount;
use sql::session::{AnalyticEvent, Deliver};
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
