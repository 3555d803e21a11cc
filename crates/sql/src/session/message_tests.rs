//! What a transaction of single messages keeps others from while it waits for the next one.

use base::SqlState;

use super::stand_in::Answer;
use super::testing::Bench;
use super::{Bind, Executed, Pause, Session};

const INSERT: &str = "INSERT INTO t VALUES (1, 'other')";

fn table() -> (Bench, Session, Session) {
    let mut bench = Bench::new();
    let (mut one, other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, by_whom text UNIQUE)");
    (bench, one, other)
}

/// The other one waits for a lock, and is refused once the first one has committed.
fn waits_and_is_refused(bench: &mut Bench, mut other: Session, commit: impl FnOnce(&mut Bench)) {
    match bench.try_run(&mut other, INSERT) {
        Err(Pause::Lock(_)) => {}
        result => panic!("the row is locked: {result:?}"),
    }
    commit(bench);
    assert_eq!(bench.fail(&mut other, INSERT).state(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(bench.run(&mut other, "SELECT by_whom FROM t").lines(), ["one"]);
}

#[test]
fn a_row_inserted_before_a_sync_is_locked() {
    let (mut bench, mut one, other) = table();
    let mut out = Answer::default();
    bench.turn(|home| {
        let bind =
            Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        one.parse(home, "", "INSERT INTO t VALUES (1, 'one')", &[], &mut out).unwrap();
        one.bind(home, bind, &mut out).unwrap();
        assert!(!one.is_between_messages());
        one.execute(home, "", None, &mut out).unwrap();
        assert!(one.is_between_messages());
        one.pass_turn(home);
    });
    waits_and_is_refused(&mut bench, other, |bench| {
        bench.turn(|home| one.sync(home, &mut out)).unwrap();
        assert!(!one.is_between_messages());
    });
}

#[test]
fn a_row_of_a_copy_is_locked_while_its_data_comes() {
    let (mut bench, mut one, other) = table();
    let mut out = Answer::default();
    let copy = "COPY t FROM STDIN";
    bench.turn(|home| {
        assert_eq!(one.query(home, copy, &mut out).unwrap(), Executed::CopyIn);
        one.copy_data(home, b"1\tone\n").unwrap();
        one.pass_turn(home);
    });
    waits_and_is_refused(&mut bench, other, |bench| {
        bench.turn(|home| one.copy_done(home, &mut out)).unwrap();
    });
}
