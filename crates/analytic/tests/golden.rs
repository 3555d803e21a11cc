//! Queries whose answers PostgreSQL 15 gave once (`tests/golden/expected.txt`), over the same rows.

mod support;

use support::Sample;

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
