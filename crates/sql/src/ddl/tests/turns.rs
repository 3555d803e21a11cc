//! DDL on tables of more rows than a turn looks at: what runs in turns, what does not, and that both come out right.

use super::after;
use crate::session::testing::Bench;
use crate::session::{Pause, Session};

const ROWS: i32 = 1000;

/// A table `t` of `ROWS` rows.
fn large() -> (Bench, Session) {
    let (mut bench, mut session) = after(
        "create table t (id int primary key, v int not null, w int); create table p (v int primary key)",
    );
    for from in (0..ROWS).step_by(250) {
        let ids = from..from + 250;
        let rows: Vec<String> = ids.clone().map(|id| format!("({id}, {}, {id})", id * 7 % ROWS)).collect();
        let keys: Vec<String> = ids.map(|id| format!("({id})")).collect();
        bench.run(&mut session, &format!("insert into t values {}", rows.join(", ")));
        bench.run(&mut session, &format!("insert into p values {}", keys.join(", ")));
    }
    (bench, session)
}

/// One value of a query.
fn value(bench: &mut Bench, session: &mut Session, query: &str) -> String {
    bench.run(session, query).lines().join(",")
}

#[test]
fn indexes_keys_and_checks_take_turns() {
    let (mut bench, mut session) = large();
    for sql in [
        "create unique index by_v on t (v)",
        "alter table t add check (v >= 0)",
        "alter table t alter column w set not null",
        "alter table t add foreign key (v) references p",
        "alter table t add check (w < 100000), add unique (w), add foreign key (w) references p (v)",
        "alter table t drop constraint t_pkey",
        "alter table t add primary key (v)",
    ] {
        let (_, turns) = bench.run_in_turns(&mut session, sql);
        assert!(turns > 3, "{sql}: {turns} turns");
    }
    assert_eq!(value(&mut bench, &mut session, "select id from t where v = 7"), "1");
    assert_eq!(value(&mut bench, &mut session, "select id from t where w = 500"), "500");
    assert_eq!(bench.run(&mut session, "select v from t").lines().len(), ROWS as usize);
    let error = loop {
        match bench.try_run(&mut session, "alter table t add check (id <> 900)") {
            Err(crate::session::Pause::Yield) => {}
            Err(crate::session::Pause::Error(error)) => break error,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    assert_eq!(error.state().as_str(), "23514");
}

#[test]
fn writers_go_on_while_an_index_of_a_large_table_is_built() {
    let (mut bench, mut session) = large();
    bench.run(&mut session, "insert into t select g, g, g from generate_series(1000, 9999) g");
    let mut other = bench.session();
    for (at, create) in
        ["create unique index by_w on t (w, id)", "create index concurrently by_v on t (v, w)"]
            .iter()
            .enumerate()
    {
        let (mut turns, mut made, mut waits) = (0, Vec::new(), None);
        loop {
            match bench.try_run(&mut session, create) {
                Ok(_) => break,
                Err(Pause::Yield) => turns += 1,
                Err(pause) => panic!("{create}: {pause:?}"),
            }
            // Who waits for the end is woken by it.
            if waits.is_some() {
                continue;
            }
            let (id, w) = (5000 * at + 40 * turns, 100_000 * (at + 1) + turns);
            let change = match turns % 3 {
                0 => format!("delete from t where id = {id}; insert into t values ({id}, {w}, {w})"),
                1 => format!(
                    "update t set id = -{w}, v = {w}, w = {w} where id = {id}; insert into t values ({id}, 4, 4)"
                ),
                _ => format!("update t set v = {w}, w = {w} where id = {id}"),
            };
            match bench.try_run(&mut other, &change) {
                Ok(_) => made.push(w),
                Err(Pause::Lock(_)) => waits = Some(change),
                Err(pause) => panic!("{change}: {pause:?}"),
            }
        }
        if let Some(change) = waits {
            bench.run(&mut other, &change);
        }
        assert!(turns > 20 && made.len() + 8 > turns, "{create}: {} of {turns}", made.len());
        let column = if at == 0 { "w" } else { "v" };
        for w in made {
            let found = bench.run(&mut session, &format!("select id from t where {column} = {w}")).lines();
            assert_eq!(found.len(), 1, "{create}: {w}");
        }
    }
    // In a block, and behind what its transaction changed, they wait.
    bench.run(&mut session, "begin");
    assert!(matches!(bench.try_run(&mut session, "create index on t (v, id)"), Err(Pause::Yield)));
    let update = "update t set v = 5 where id = 1";
    assert!(matches!(bench.try_run(&mut other, update), Err(Pause::Lock(_))));
    bench.run(&mut session, "create index on t (v, id)");
    bench.run(&mut session, "rollback");
    bench.run(&mut other, update);
}

#[test]
fn nobody_waits_for_a_check_to_be_validated() {
    let (mut bench, mut session) = large();
    bench.run(
        &mut session,
        "alter table t add constraint c check (w >= 0) not valid; alter table t add constraint d check (w <> 900) not valid",
    );
    let validate = "alter table t validate constraint c";
    assert!(matches!(bench.try_run(&mut session, validate), Err(crate::session::Pause::Yield)));
    let mut other = bench.session();
    bench.run(&mut other, "select w from t where id = 999; update t set id = -1 where id = 999");
    bench.run(&mut other, "insert into t values (-2, 0, 0); update t set v = 0 where id = 1");
    // Neither where the look has been nor where it comes to does a row break it.
    for broken in ["update t set w = -1 where id = 1", "update t set id = -3, w = -1 where id = 998"] {
        assert_eq!(bench.fail(&mut other, broken).state().as_str(), "23514", "{broken}");
    }
    bench.run(&mut session, validate);
    let table = bench.catalog().tables().find(|table| table.name == "t").expect("made");
    let valid: Vec<&str> = table.checks.iter().filter(|c| c.validated).map(|c| c.name.as_str()).collect();
    assert_eq!(valid, ["c"]);
    let error = loop {
        match bench.try_run(&mut session, "alter table t validate constraint d") {
            Err(crate::session::Pause::Yield) => {}
            Err(crate::session::Pause::Error(error)) => break error,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    assert_eq!(error.message(), "check constraint \"d\" of relation \"t\" is violated by some row");
}

#[test]
fn writers_go_on_while_a_foreign_key_is_validated_and_it_misses_no_row() {
    let (mut bench, mut session) = large();
    bench.run(&mut session, "insert into t values (5000, 0, -5)");
    bench.run(
        &mut session,
        "alter table t add constraint f foreign key (v) references p not valid; alter table t add constraint g foreign key (w) references p not valid",
    );
    let mut other = bench.session();
    // To where the look begins, by somebody who may commit behind that: it waits for the end.
    bench.run(&mut other, "begin; update t set id = -1 where id = 5000");
    let validate = "alter table t validate constraint g";
    assert!(matches!(bench.try_run(&mut session, validate), Err(crate::session::Pause::Lock(_))));
    bench.run(&mut other, "rollback");
    assert!(matches!(bench.try_run(&mut session, validate), Err(crate::session::Pause::Yield)));
    // What stays where it is changes, and so does what is referenced.
    bench.run(
        &mut other,
        "update t set v = 1 where id = 5000; insert into t values (-2, 0, 0); delete from t where id = -2",
    );
    bench.run(&mut other, "insert into p values (5000); delete from p where v = 5000");
    for broken in ["update t set v = -1 where id = 1", "delete from p where v = 7"] {
        assert_eq!(bench.fail(&mut other, broken).state().as_str(), "23503", "{broken}");
    }
    let moves = "update t set id = -1 where id = 5000";
    assert!(matches!(bench.try_run(&mut other, moves), Err(crate::session::Pause::Lock(_))));
    let error = loop {
        match bench.try_run(&mut session, validate) {
            Err(crate::session::Pause::Yield) => {}
            Err(crate::session::Pause::Error(error)) => break error,
            outcome => panic!("{:?}", outcome.map(|_| ())),
        }
    };
    assert_eq!(error.state().as_str(), "23503");
    bench.run(&mut other, moves);
    bench.run(&mut session, "alter table t validate constraint f");
    let table = bench.catalog().tables().find(|table| table.name == "t").expect("made");
    let valid: Vec<&str> =
        table.foreign_keys.iter().filter(|key| key.validated).map(|key| key.name.as_str()).collect();
    assert_eq!(valid, ["f"]);
}

#[test]
fn what_is_gathered_of_all_rows_is_gathered_of_all() {
    let (mut bench, mut session) = large();
    bench.run(&mut session, "alter table t add column r double precision default random()");
    assert_eq!(value(&mut bench, &mut session, "select id from t where r is null"), "");
    bench.run(&mut session, "alter table t add column s serial");
    assert_eq!(
        bench.run(&mut session, "select s from t where s between 1 and 1000").lines().len(),
        ROWS as usize
    );
    bench.run(&mut session, "alter table t alter column w type text");
    assert_eq!(value(&mut bench, &mut session, "select id from t where w = '999'"), "999");
    let (_, turns) = bench.run_in_turns(&mut session, "analyze t, p");
    assert!(turns > 6, "{turns} turns");
    let p = bench.catalog().tables().find(|table| table.name == "p").expect("made").oid;
    assert_eq!(bench.catalog().statistics(p).expect("analyzed").rows, ROWS as u64);
    let t = bench.catalog().tables().find(|table| table.name == "t").expect("made").oid;
    assert_eq!(bench.catalog().statistics(t).expect("analyzed").rows, ROWS as u64);
}

#[test]
fn a_check_that_no_value_is_null_spares_the_look_for_one() {
    let (mut bench, mut session) = large();
    let set = "alter table t alter w set not null";
    for (check, is_spared) in [
        ("check (w is not null)", true),
        ("check (w > -1 and (w < 9999 and w is not null))", true),
        ("check (w is not null) not valid", false),
        ("check (w is not null or w > 0)", false),
        ("check (id is not null and w > -1)", false),
    ] {
        bench.run(&mut session, &format!("alter table t add constraint c {check}"));
        let (_, turns) = bench.run_in_turns(&mut session, set);
        assert_eq!(turns == 1, is_spared, "{check}: {turns} turns");
        let error = bench.fail(&mut session, "update t set w = null where id = 7");
        assert_eq!(error.state().as_str(), "23502", "{check}");
        bench.run(&mut session, "alter table t alter w drop not null, drop constraint c");
    }
    bench.run(&mut session, "update t set w = null where id = 7");
    let error = loop {
        match bench.try_run(&mut session, set) {
            Err(crate::session::Pause::Yield) => {}
            Err(crate::session::Pause::Error(error)) => break error,
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    assert_eq!(error.state().as_str(), "23502");
}

#[test]
fn an_index_on_values_of_its_own_statement_has_those_that_stay() {
    let (mut bench, mut session) = large();
    bench.run(&mut session, "alter table t add column u uuid default gen_random_uuid() unique");
    let rows = bench.run(&mut session, "select id, u from t where id % 100 = 0 order by id").lines();
    assert_eq!(rows.len(), 10);
    for row in rows {
        let (id, u) = row.split_once('|').expect("two columns");
        assert_eq!(value(&mut bench, &mut session, &format!("select id from t where u = '{u}'")), id);
    }
    bench.run(&mut session, "create table q as select id, v from t");
    bench.run(&mut session, "alter table q add column n bigserial primary key");
    assert_eq!(
        bench.run(&mut session, "select n from q where n between 1 and 1000").lines().len(),
        ROWS as usize
    );
    assert_eq!(bench.run(&mut session, "select id from q where n = 1").lines().len(), 1);
}
