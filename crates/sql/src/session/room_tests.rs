//! Commits that wait for room in memory.

use base::ByteCount;
use storage::MemoryBudget;
use tenant::WriterWait;

use super::stand_in::Answer;
use super::testing::Bench;
use super::{Bind, Pause, Session};

/// A session that has changed a row of `t`, in a tenant with room, and another session.
fn changed(begin: &str) -> (Bench, Session, Session) {
    let mut bench = Bench::within(ByteCount::from_kib(256));
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut other, "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY, v text)");
    bench.run(&mut one, begin);
    let mut out = Answer::default();
    bench.turn(|home| {
        let bind =
            Bind { portal: "", statement: "", parameter_formats: &[], parameters: &[], result_formats: &[] };
        one.parse(home, "", "INSERT INTO t VALUES (1)", &[], &mut out).unwrap();
        one.bind(home, bind, &mut out).unwrap();
        one.execute(home, "", None, &mut out).unwrap();
        one.pass_turn(home);
    });
    (bench, one, other)
}

/// Fills the memory until a statement waits for room.
fn fill(bench: &mut Bench, other: &mut Session) {
    for id in 0.. {
        match bench.try_run(other, &format!("INSERT INTO u VALUES ({id}, repeat('v', 5000))")) {
            Ok(_) => {}
            Err(Pause::Memory(_)) => break,
            Err(pause) => panic!("{pause:?}"),
        }
    }
    bench.turn(|home| other.end(home));
}

/// `commit` pauses for memory as long as nobody makes room, and goes on at last.
fn waits(
    bench: &mut Bench,
    one: &mut Session,
    mut commit: impl FnMut(&mut Bench, &mut Session) -> Result<(), Pause>,
) {
    let mut waits = 0;
    loop {
        match commit(bench, one) {
            Ok(()) => break,
            Err(Pause::Memory(_)) => waits += 1,
            Err(pause) => panic!("{pause:?}"),
        }
        let mut third = bench.session();
        assert_eq!(
            bench.run(&mut third, "SELECT count(*) FROM t").lines(),
            ["0"],
            "nothing is committed yet"
        );
        bench.turn(|home| third.end(home));
    }
    assert!((1..100).contains(&waits), "{waits} waits");
    let mut third = bench.session();
    assert_eq!(bench.run(&mut third, "SELECT count(*) FROM t").lines(), ["1"]);
}

#[test]
fn a_commit_waits_once_for_a_log_that_is_far_behind() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY)");
    bench.set_far_behind(true);
    let count = "SELECT count(*) FROM t";
    bench.run(&mut one, "SET synchronous_commit = off");
    let mut before = 0;
    for (statements, last) in
        [("", "INSERT INTO t VALUES (1)"), ("BEGIN; INSERT INTO t VALUES (2)", "COMMIT")]
    {
        bench.run(&mut one, statements);
        let paused = bench.try_run(&mut one, last);
        assert!(matches!(paused, Err(Pause::Memory(WriterWait::Log(_)))), "{paused:?}");
        assert_eq!(
            bench.run(&mut other, count).lines(),
            [before.to_string()],
            "who changes nothing does not wait"
        );
        bench.run(&mut one, last);
        before += 1;
        assert_eq!(bench.run(&mut other, count).lines(), [before.to_string()]);
    }
}

#[test]
fn each_call_of_a_sequence_that_is_logged_waits_for_the_log_once() {
    let mut bench = Bench::new();
    let mut one = bench.session();
    bench.run(&mut one, "CREATE SEQUENCE s");
    // Of the values that nextval gives out 33 are logged at a time.
    let cases = [
        ("SELECT setval('s', g) FROM generate_series(1, 3) g", 3, 3),
        ("SELECT nextval('s') FROM generate_series(1, 66)", 66, 2),
    ];
    for (calls, rows, logged) in cases {
        for is_behind in [false, true] {
            bench.run(&mut one, "ALTER SEQUENCE s RESTART");
            bench.set_far_behind(is_behind);
            bench.set_over_limit(!is_behind);
            let mut waits = 0;
            let answer = loop {
                match bench.try_run(&mut one, calls) {
                    Ok(answer) => break answer.lines(),
                    Err(Pause::OwnCap(_)) if !is_behind => waits += 1,
                    Err(Pause::Memory(WriterWait::Log(_))) if is_behind => waits += 1,
                    Err(pause) => panic!("{pause:?}"),
                }
                assert!(waits <= logged, "{calls}");
            };
            bench.set_far_behind(false);
            bench.set_over_limit(false);
            let given: Vec<_> = (1..=rows).map(|value| value.to_string()).collect();
            assert_eq!((answer, waits), (given, logged), "{calls}");
        }
    }
}

#[test]
fn a_commit_waits_for_room_and_goes_on_without_it() {
    let (mut bench, mut one, mut other) = changed("BEGIN");
    fill(&mut bench, &mut other);
    waits(&mut bench, &mut one, |bench, one| bench.try_run(one, "COMMIT").map(drop));
}

/// What others of the tenant log while it waits for something else is not waited for, too.
#[test]
fn a_commit_that_was_below_its_tenants_limit_does_not_wait_for_that_again() {
    let (mut bench, mut one, mut other) = changed("BEGIN");
    fill(&mut bench, &mut other);
    bench.set_over_limit(true);
    let over = bench.try_run(&mut one, "COMMIT");
    assert!(matches!(over, Err(Pause::OwnCap(_))), "{over:?}");
    bench.set_over_limit(false);
    let short = bench.try_run(&mut one, "COMMIT");
    assert!(matches!(short, Err(Pause::Memory(_))), "{short:?}");
    bench.set_over_limit(true);
    waits(&mut bench, &mut one, |bench, one| bench.try_run(one, "COMMIT").map(drop));
}

/// Runs a change of 6,000 rows to its end where no memory can be had; `beside` runs after each turn of it, and is told how often it has waited.
fn runs_without_room(change: &str, mut beside: impl FnMut(&mut Bench, &mut Session, u32)) {
    let mut bench = Bench::within(ByteCount::from_mib(1));
    let (mut one, mut other, mut third) = (bench.session(), bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id bigint); CREATE SEQUENCE s");
    bench.run(&mut other, "CREATE TABLE u (id int PRIMARY KEY, v text)");
    fill(&mut bench, &mut other);
    let mut waits = 0;
    let answer = loop {
        match bench.try_run(&mut one, change) {
            Ok(answer) => break answer,
            Err(Pause::Memory(_)) => waits += 1,
            Err(Pause::Yield | Pause::Slice(_)) => {}
            Err(pause) => panic!("{pause:?}"),
        }
        assert!(waits < 10_000, "it waits for ever");
        beside(&mut bench, &mut third, waits);
    };
    assert_eq!(answer.tags, ["INSERT 0 6000"]);
}

/// After the slice with the value of the sequence its branch has to catch up with the live pages.
#[test]
fn a_long_change_waits_for_room_and_goes_on_without_it() {
    let value = "CASE WHEN g = 5000 THEN nextval('s') ELSE g END";
    let change = format!("INSERT INTO t SELECT {value} FROM generate_series(1, 6000) g");
    runs_without_room(&change, |_, _, _| {});
}

/// Each time that it has waited for memory, another session has set a sequence meanwhile, so that it has to catch up before it goes on.
#[test]
fn a_long_change_goes_on_without_room_while_others_keep_its_branch_behind() {
    runs_without_room("INSERT INTO t SELECT g FROM generate_series(1, 6000) g", |bench, third, waits| {
        bench.run(third, &format!("SELECT setval('s', {})", waits + 1));
    });
}

#[test]
fn whatever_changes_the_catalog_waits_for_room() {
    let (mut bench, _one, mut other) = changed("BEGIN");
    bench.run(&mut other, "CREATE SEQUENCE q");
    fill(&mut bench, &mut other);
    for sql in [
        "CREATE ROLE r",
        "ALTER ROLE owner SET work_mem = '1MB'",
        "GRANT SELECT ON t TO public",
        "CREATE SEQUENCE p",
        "ALTER SEQUENCE q INCREMENT 2",
        "ALTER TABLE u ALTER id ADD GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE ONLY u ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME public.s START WITH 1)",
        "COMMENT ON TABLE u IS 'rows'",
        "ALTER TABLE u RENAME TO w",
        "ALTER SCHEMA public OWNER TO owner",
        "ANALYZE u",
    ] {
        // In a block, where no commit waits.
        let mut third = bench.session();
        bench.run(&mut third, "BEGIN");
        assert!(matches!(bench.try_run(&mut third, sql), Err(Pause::Memory(_))), "{sql}");
        bench.turn(|home| third.end(home));
    }
}

#[test]
fn the_commit_of_a_sync_waits_for_room() {
    let (mut bench, mut one, mut other) = changed("SELECT 1");
    fill(&mut bench, &mut other);
    let mut out = Answer::default();
    waits(&mut bench, &mut one, |bench, one| bench.turn(|home| one.sync(home, &mut out)));
}

#[test]
fn a_copy_waits_for_room_and_commits() {
    let (mut bench, mut one, mut other) = changed("SELECT 1");
    let mut out = Answer::default();
    bench.turn(|home| one.sync(home, &mut out)).unwrap();
    bench.run(&mut one, "DELETE FROM t");
    bench.turn(|home| {
        one.query(home, "COPY t FROM STDIN", &mut out).unwrap();
        one.copy_data(home, b"1\n").unwrap();
        one.pass_turn(home);
    });
    fill(&mut bench, &mut other);
    waits(&mut bench, &mut one, |bench, one| bench.turn(|home| one.copy_done(home, &mut out)));
}

#[test]
fn what_the_parts_of_a_with_return_is_within_what_rows_may_take() {
    let mut bench = Bench::within(ByteCount::from_mib(1));
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    let with = |rows: usize| {
        format!(
            "WITH i AS (INSERT INTO t SELECT g FROM generate_series(1, {rows}) g RETURNING repeat('x', 1000) AS x) SELECT count(x) FROM i"
        )
    };
    let refused = bench.fail(&mut session, &with(6000));
    assert_eq!(
        format!("{} {}", refused.state(), refused.message()),
        "53200 out of memory for the rows of a statement"
    );
    assert_eq!(bench.run(&mut session, &with(100)).lines(), ["100"]);
}

/// Only the state in which a statement begins needs a copy, and that only where something is read of what it changes.
#[test]
fn a_subquery_that_reads_nothing_of_what_is_changed_needs_no_copy_of_it() {
    let mut bench = Bench::within(ByteCount::from_mib(32));
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE kind (id int PRIMARY KEY); INSERT INTO kind VALUES (7)");
    bench.run(&mut session, "CREATE TABLE item (id int PRIMARY KEY, kind int, v text)");
    // Behind a table that was rewritten nothing is poured.
    bench.run(&mut session, "BEGIN; CREATE TABLE other (id int); INSERT INTO other VALUES (1)");
    bench.run(&mut session, "ALTER TABLE other ADD PRIMARY KEY (id)");
    for i in 0..6 {
        let rows = format!("SELECT g + {i} * 400, 7, repeat('v', 1000) FROM generate_series(1, 400) g");
        bench.run(&mut session, &format!("INSERT INTO item {rows}"));
    }
    bench.run(&mut session, "INSERT INTO item VALUES (-1, (SELECT id FROM kind), '')");
    bench.run(&mut session, "UPDATE item SET kind = (SELECT id + 1 FROM kind) WHERE id = 5");
    assert_eq!(bench.run(&mut session, "SELECT sum(kind) FROM item WHERE id < 7").lines(), ["50"]);
    // All of it twice is more than changes may take.
    let error = bench.fail(&mut session, "INSERT INTO item VALUES (-2, (SELECT max(kind) FROM item), '')");
    assert_eq!(error.state().to_string(), "53200");
}

/// A log keeps all segments from the first part of a record on until its transaction ends.
#[test]
fn a_long_transaction_waits_for_its_tenants_limit_before_it_logs_anything_and_not_after() {
    let mut bench = Bench::new();
    let mut one = bench.session();
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    let (mut out, mut is_first) = (Answer::default(), true);
    let rows: String = (1..=1500).map(|id| format!("{id}\t{}\n", "v".repeat(1000))).collect();
    let copied = waits_for_limit(&mut bench, |bench| {
        bench.turn(|home| {
            if std::mem::take(&mut is_first) {
                one.query(home, "COPY t FROM STDIN", &mut out)?;
                one.copy_data(home, rows.as_bytes())?;
            }
            one.copy_data(home, b"")?;
            one.copy_done(home, &mut out)
        })
    });
    assert_eq!(copied, 1);
    // What follows in the script.
    bench.run(&mut one, "COPY t FROM STDIN");
    // Logged ahead of its commit, and in slices.
    for statement in [
        "UPDATE t SET v = repeat('w', 1000)",
        "INSERT INTO t SELECT g, 'v' FROM generate_series(2001, 12000) g",
    ] {
        let waits = waits_for_limit(&mut bench, |bench| bench.try_run(&mut one, statement).map(drop));
        assert_eq!(waits, 1, "{statement}");
    }
    assert_eq!(bench.run_in_turns(&mut one, "DELETE FROM t").0.tags, ["DELETE 11500"]);
}

/// Makes a call until it ends, its tenant being over its limit of log writes but for the call behind a wait for that; how many such waits there were.
fn waits_for_limit(bench: &mut Bench, mut call: impl FnMut(&mut Bench) -> Result<(), Pause>) -> u32 {
    let (mut waits, mut has_logged) = (0, false);
    bench.set_over_limit(true);
    while let Err(pause) = call(bench) {
        match pause {
            Pause::OwnCap(_) => {
                assert!(!has_logged, "everybody's log is kept meanwhile");
                waits += 1;
                bench.set_over_limit(false);
            }
            Pause::Slice(_) | Pause::Memory(WriterWait::Log(_)) => {
                has_logged = true;
                bench.set_over_limit(true);
            }
            Pause::Yield => {}
            pause => panic!("{pause:?}"),
        }
    }
    bench.set_over_limit(false);
    waits
}

#[test]
fn a_long_change_that_is_done_is_not_begun_again_for_want_of_room() {
    let budget = MemoryBudget::new(ByteCount::from_mib(2), 0, 1);
    let (mut alone, mut bench) = (Bench::new(), Bench::charged_to(&budget));
    let mut neighbour = Bench::charged_to(&budget);
    let mut other = neighbour.session();
    neighbour.run(&mut other, "CREATE TABLE u (id int PRIMARY KEY, v text)");
    let made = "CREATE TABLE t (id bigint); CREATE SEQUENCE s";
    // A value of a sequence goes to the live pages at once, so that the branch is behind them again: here at the end of the last slice.
    let change = "INSERT INTO t SELECT CASE WHEN g = 6000 THEN nextval('s') ELSE g END FROM generate_series(1, 6000) g";
    let (mut first, mut one) = (alone.session(), bench.session());
    alone.run(&mut first, made);
    bench.run(&mut one, made);
    let (_, turns) = alone.run_in_turns(&mut first, change);
    assert!(turns > 10, "{turns} turns");
    for _ in 1..turns {
        let paused = bench.try_run(&mut one, change);
        assert!(matches!(paused, Err(Pause::Yield | Pause::Slice(_))), "{paused:?}");
    }
    fill(&mut neighbour, &mut other);
    let (mut neighbour, mut waits) = (Some(neighbour), 0);
    let answer = loop {
        match bench.try_run(&mut one, change) {
            Ok(answer) => break answer,
            Err(Pause::Memory(_)) => waits += 1,
            Err(Pause::Yield | Pause::Slice(_)) => {}
            Err(pause) => panic!("{pause:?}"),
        }
        // The last slice waits 32 times at most, and runs then.
        if waits == 40 {
            drop(neighbour.take());
        }
    };
    assert_eq!(waits, 40);
    assert_eq!(answer.tags, ["INSERT 0 6000"]);
    assert_eq!(bench.run_in_turns(&mut one, "DELETE FROM t").0.tags, ["DELETE 6000"]);
}

/// All of it is poured: what is left is to copy what others changed meanwhile, which may be much.
#[test]
fn a_transaction_with_a_branch_ends_at_length() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    bench.run(&mut session, "BEGIN; INSERT INTO t VALUES (0)");
    assert!(!session.has_branch() && !session.ends_at_length());
    bench.run(&mut session, "INSERT INTO t SELECT g FROM generate_series(1, 6000) g");
    assert!(session.has_branch() && session.ends_at_length());
    bench.run(&mut session, "COMMIT");
    assert!(!session.ends_at_length());
}

#[test]
fn long_changes_over_a_snapshot_run_in_slices_and_it_reads_what_they_did() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY)");
    bench.run_in_turns(&mut one, "INSERT INTO t SELECT g, 0 FROM generate_series(1, 6000) g");
    for (number, level) in ["REPEATABLE READ", "SERIALIZABLE"].into_iter().enumerate() {
        bench.run(&mut one, &format!("BEGIN ISOLATION LEVEL {level}; SELECT v FROM t WHERE id = 1"));
        bench.run(&mut other, &format!("INSERT INTO u VALUES ({number})"));
        for (change, tag) in [
            ("UPDATE t SET v = v + 1", "UPDATE 6000"),
            ("DELETE FROM t WHERE id % 2 = 0", "DELETE 3000"),
            ("INSERT INTO t SELECT g, 5 FROM generate_series(6001, 11000) g", "INSERT 0 5000"),
        ] {
            let (answer, turns) = bench.run_in_turns(&mut one, change);
            assert_eq!(answer.tags, [tag]);
            assert!(turns > 5 && one.has_branch(), "{change}: {turns} turns");
        }
        let seen = "SELECT count(*) FROM t WHERE id < 1000; SELECT sum(v) FROM t WHERE id < 1000; \
                    SELECT sum(v) FROM t WHERE id > 10500";
        assert_eq!(bench.run(&mut one, seen).lines(), ["500", "500", "2500"], "{level}");
        assert_eq!(bench.run(&mut one, "SELECT count(*) FROM u").lines(), [number.to_string()]);
        assert_eq!(bench.run(&mut other, seen).lines(), ["999", "0", ""], "{level}");
        bench.run(&mut one, "ROLLBACK");
    }
    // A row that somebody changed since is found out when it is come to.
    bench.run(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 1");
    bench.run(&mut other, "UPDATE t SET v = 5 WHERE id = 5500");
    let (refused, _) = bench.fail_beside(&mut one, "UPDATE t SET v = v + 1", |_, _| ());
    assert_eq!(refused.state().to_string(), "40001");
    bench.run(&mut one, "ROLLBACK");
    assert_eq!(bench.run(&mut one, "SELECT sum(v) FROM t WHERE id > 5400").lines(), ["5"]);
}

#[test]
fn long_upserts_run_in_slices_that_change_rows_as_they_are_by_then_and_each_once() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(
        &mut one,
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v int)",
    );
    bench.run(&mut one, "INSERT INTO t SELECT g, 0 FROM generate_series(1, 3000) g");
    let upsert = "INSERT INTO t SELECT g, 1 FROM generate_series(1, 6000) g \
                  ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v";
    let (answer, turns) = bench.run_beside(&mut one, upsert, |bench, turns| {
        if turns == 5 {
            // Of what is made and changed beside it, it has come to nothing yet.
            bench.run(&mut other, "UPDATE t SET v = 100 WHERE id = 2900; INSERT INTO t VALUES (5900, 100)");
        }
    });
    assert_eq!(answer.tags, ["INSERT 0 6000"]);
    assert!(turns > 21, "{turns} turns");
    let some = "SELECT v FROM t WHERE id IN (1, 2900, 3001, 5900) ORDER BY id";
    assert_eq!(bench.run(&mut one, some).lines(), ["1", "101", "1", "101"]);

    // Rows that a slice before has changed, and has made.
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"] {
        for table in ["t", "u"] {
            bench.run(&mut one, &format!("{begin}; SELECT v FROM t WHERE id = 1"));
            let twice = format!(
                "INSERT INTO {table} SELECT g % 5000, 1 FROM generate_series(1, 6000) g \
                 ON CONFLICT (id) DO UPDATE SET v = 7"
            );
            let (refused, _) = bench.fail_beside(&mut one, &twice, |_, _| ());
            assert_eq!(refused.state().to_string(), "21000", "{begin}: {table}");
            bench.run(&mut one, "ROLLBACK");
        }
    }
    assert_eq!(bench.run(&mut one, "SELECT count(*) FROM u").lines(), ["0"]);
    // One that is left as it is may be come to again.
    let left = "INSERT INTO t SELECT g % 5000, 1 FROM generate_series(1, 6000) g \
                ON CONFLICT (id) DO UPDATE SET v = 7 WHERE t.v < 0";
    assert_eq!(bench.run(&mut one, left).tags, ["INSERT 0 1"]);
    assert_eq!(bench.run(&mut one, some).lines(), ["1", "101", "1", "101"]);
}

#[test]
fn rows_of_a_long_change_may_refer_to_others_of_it_whichever_slice_has_them() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(
        &mut session,
        "CREATE TABLE e (id int PRIMARY KEY, boss int REFERENCES e (id)); CREATE INDEX ON e (boss)",
    );
    let refused = |bench: &mut Bench, session: &mut Session, change: &str| {
        bench.fail_beside(session, change, |_, _| ()).0.state().to_string()
    };
    let count = "SELECT count(*) FROM e WHERE id > 5500";
    let lacking =
        "INSERT INTO e SELECT g, CASE WHEN g = 3 THEN 9999 ELSE g END FROM generate_series(1, 6000) g";
    assert_eq!(refused(&mut bench, &mut session, lacking), "23503");
    assert_eq!(bench.run(&mut session, count).lines(), ["0"]);
    for (change, tag) in [
        ("INSERT INTO e SELECT g, g % 6000 + 1 FROM generate_series(1, 6000) g", "INSERT 0 6000"),
        ("UPDATE e SET boss = NULLIF(id - 1, 0)", "UPDATE 6000"),
    ] {
        let (answer, turns) = bench.run_in_turns(&mut session, change);
        assert_eq!(answer.tags, [tag]);
        assert!(turns > 20, "{change}: {turns} turns");
    }
    // Row 5001 refers to one that goes.
    assert_eq!(refused(&mut bench, &mut session, "DELETE FROM e WHERE id <= 5000"), "23503");
    assert_eq!(bench.run(&mut session, count).lines(), ["500"]);
    let (answer, turns) = bench.run_in_turns(&mut session, "DELETE FROM e WHERE id <= 6000");
    assert_eq!(answer.tags, ["DELETE 6000"]);
    assert!(turns > 20, "{turns} turns");
}

/// Deleted at once, with a lock for each, they take more than changes may.
#[test]
fn what_a_delete_asks_of_other_tables_is_done_in_slices_where_it_is_much() {
    let mut bench = Bench::within(ByteCount::from_mib(32));
    let (mut session, mut other) = (bench.session(), bench.session());
    for table in [
        "p (id int PRIMARY KEY)",
        "c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE)",
        "g (id int PRIMARY KEY, c int REFERENCES c ON DELETE SET NULL)",
        "n (id int PRIMARY KEY, c int REFERENCES c)",
    ] {
        bench.run(&mut session, &format!("CREATE TABLE {table}"));
    }
    bench.run(&mut session, "CREATE INDEX ON c (p); CREATE INDEX ON g (c); CREATE INDEX ON n (c)");
    bench.run(&mut session, "INSERT INTO p VALUES (1), (2), (3)");
    for rows in [
        "c SELECT g, CASE WHEN g > 12000 THEN 2 ELSE 1 END FROM generate_series(1, 12010) g",
        "g SELECT g, g * 12 FROM generate_series(1, 1000) g",
        "n VALUES (1, 11000)",
    ] {
        bench.run(&mut session, &format!("INSERT INTO {rows}"));
    }
    let left = "SELECT count(*) FROM c WHERE id < 100; SELECT count(*) FROM c WHERE id > 12000; \
                SELECT count(*) FROM g WHERE c IS NULL; SELECT count(*) FROM p";
    // A row that refers to one of those which are to go, and does not go itself.
    let (refused, _) = bench.fail_beside(&mut session, "DELETE FROM p WHERE id = 1", |_, _| ());
    assert_eq!(refused.state().to_string(), "23503");
    assert_eq!(bench.run(&mut session, left).lines(), ["99", "10", "0", "3"]);
    bench.run(&mut session, "DELETE FROM n");
    let (answer, turns) = bench.run_beside(&mut session, "DELETE FROM p WHERE id <> 2", |bench, _| {
        assert_eq!(bench.run(&mut other, "SELECT count(*) FROM p").lines(), ["3"]);
    });
    assert_eq!(answer.tags, ["DELETE 2"]);
    assert!(turns > 21, "{turns} turns");
    assert_eq!(bench.run(&mut session, left).lines(), ["0", "10", "1000", "1"]);
}

#[test]
fn changes_of_rows_that_a_long_list_names_run_in_slices_each_once() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, k int, v int); CREATE INDEX ON t (k)");
    bench.run(&mut one, "INSERT INTO t SELECT g, g % 8, 0 FROM generate_series(1, 20000) g");
    let ids = (1..=6000).map(|n| (3 * n).to_string()).collect::<Vec<_>>().join(",");
    // Single rows, also such as are not there; ranges of an index; and what others change meanwhile, so that it is named no more or is another one.
    for (change, rows, beside) in [
        (format!("UPDATE t SET v = v + 1 WHERE id = ANY ('{{{ids},30000,-5}}')"), 6000, "SELECT 1"),
        (
            "UPDATE t SET v = v + 1 WHERE k IN (5, 1, 9)".to_owned(),
            4999,
            "UPDATE t SET k = 0 WHERE id = 19997",
        ),
        (format!("UPDATE t SET v = v + 1 WHERE id IN ({ids})"), 6000, "UPDATE t SET v = 10 WHERE id = 18000"),
    ] {
        let before = sum_of_v(&mut bench, &mut one);
        let (answer, turns) = bench.run_beside(&mut one, &change, |bench, turns| {
            if turns == 3 {
                bench.run(&mut other, beside);
            }
        });
        assert_eq!(answer.tags, [format!("UPDATE {rows}")]);
        assert!(turns > 11, "{turns} turns");
        let by_others = if beside.contains("v = 10") { 9 } else { 0 };
        assert_eq!(sum_of_v(&mut bench, &mut one) - before, rows + by_others, "{change:.60}");
    }
    let (answer, turns) = bench.run_in_turns(&mut one, &format!("DELETE FROM t WHERE id IN ({ids})"));
    assert_eq!(answer.tags, ["DELETE 6000"]);
    assert!(turns > 10, "{turns} turns");
}

#[test]
fn a_long_change_behind_a_savepoint_runs_in_slices_and_goes_with_it() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (bench.session(), bench.session());
    bench.run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v int)");
    bench.run(&mut one, "INSERT INTO t SELECT g, 0 FROM generate_series(1, 6000) g");
    let seen = "SELECT count(*) FROM t WHERE id < 1000; SELECT sum(v) FROM t WHERE id < 1000";
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE"] {
        bench.run(&mut one, &format!("{begin}; UPDATE t SET v = 5 WHERE id = 7; SAVEPOINT a"));
        bench.run(&mut one, "DELETE FROM t WHERE id = 8; SAVEPOINT b");
        let (answer, turns) = bench.run_in_turns(&mut one, "UPDATE t SET v = v + 1");
        assert_eq!(answer.tags, ["UPDATE 5999"]);
        assert!(turns > 20 && one.has_branch(), "{turns} turns");
        assert_eq!(bench.run(&mut one, seen).lines(), ["998", "1003"]);
        // Nothing is poured of what comes behind a savepoint that was set behind the branch.
        let behind = "SAVEPOINT c; UPDATE t SET v = 100 WHERE id = 9";
        assert_eq!(bench.run(&mut one, &format!("{behind}; {seen}")).lines(), ["998", "1102"]);
        assert_eq!(bench.run(&mut one, &format!("ROLLBACK TO c; {seen}")).lines(), ["998", "1003"]);
        assert_eq!(bench.run(&mut one, &format!("ROLLBACK TO b; {seen}")).lines(), ["998", "5"]);
        assert!(!one.has_branch());
        // Nobody waits for what was locked behind it.
        assert_eq!(bench.run(&mut other, "UPDATE t SET v = 0 WHERE id = 10").tags, ["UPDATE 1"]);
        // So does one that fails behind its first slices.
        let twice = "INSERT INTO t SELECT 6000 + g % 5000, 1 FROM generate_series(1, 5500) g";
        let (refused, _) = bench.fail_beside(&mut one, twice, |_, _| ());
        assert_eq!(refused.state().to_string(), "23505");
        assert_eq!(bench.run(&mut one, &format!("ROLLBACK TO a; {seen}")).lines(), ["999", "5"]);
        // Again, and this time it stays.
        bench.run(&mut one, "DELETE FROM t WHERE id BETWEEN 1000 AND 5999; RELEASE a; ROLLBACK");
        assert_eq!(bench.run(&mut one, seen).lines(), ["999", "0"], "{begin}");
    }
    bench.run(
        &mut one,
        "BEGIN; UPDATE t SET v = 5 WHERE id = 7; SAVEPOINT a; UPDATE t SET v = v + 1; RELEASE a",
    );
    bench.run(&mut one, "UPDATE t SET v = v + 1; COMMIT");
    assert_eq!(bench.run(&mut other, seen).lines(), ["999", "2003"]);
}

/// As psql has it with ON_ERROR_ROLLBACK.
#[test]
fn many_changes_behind_a_long_one_take_no_more_than_one_with_a_savepoint_before_each() {
    let mut bench = Bench::within(ByteCount::from_mib(32));
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    bench.run(&mut session, "BEGIN; INSERT INTO t SELECT g, '' FROM generate_series(-6000, -1) g");
    assert!(session.has_branch());
    for n in 0..40 {
        bench.run(&mut session, "SAVEPOINT s");
        let rows = format!("SELECT g + {n} * 200, repeat('v', 1000) FROM generate_series(1, 200) g");
        bench.run(&mut session, &format!("INSERT INTO t {rows}"));
        bench.run(&mut session, "RELEASE s");
        let changes = bench.tenant().change_bytes();
        assert!(changes < ByteCount::from_mib(3), "{n}: {changes}");
    }
    bench.run(&mut session, "COMMIT");
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM t WHERE id > 6000").lines(), ["2000"]);
}

/// The sum of `v`, bit by bit: few enough rows for the point path.
fn sum_of_v(bench: &mut Bench, session: &mut Session) -> i64 {
    let part = |from: i32| format!("SELECT sum(v) FROM t WHERE id > {from} AND id <= {}", from + 2500);
    let parts = (0..20_000).step_by(2500).map(part).collect::<Vec<_>>().join("; ");
    bench.run(session, &parts).lines().iter().map(|sum| sum.parse::<i64>().expect("a number")).sum()
}

/// No index finds them: they are gone through by their keys, and a slice goes on behind the last one of the slice before.
#[test]
fn rows_that_a_delete_goes_through_in_slices_are_all_found_where_others_give_them_other_keys() {
    let mut bench = Bench::new();
    let (mut session, mut other) = (bench.session(), bench.session());
    bench.run(
        &mut session,
        "CREATE TABLE p (id int PRIMARY KEY);
         CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE);
         INSERT INTO p VALUES (1), (2), (3);
         INSERT INTO c SELECT g, 1 FROM generate_series(1, 12000) g",
    );
    let (answer, turns) = bench.run_beside(&mut session, "DELETE FROM p WHERE id <> 2", |bench, turns| {
        if turns == 5 {
            let moved = bench.run(&mut other, "UPDATE c SET id = 0 WHERE id = 12000");
            assert_eq!(moved.tags, ["UPDATE 1"]);
        }
    });
    assert_eq!(answer.tags, ["DELETE 2"]);
    assert!(turns > 11, "{turns} turns");
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM c").lines(), ["0"]);
}

#[test]
fn a_row_that_is_found_by_its_key_is_deleted_in_slices_where_very_many_refer_to_it() {
    let mut bench = Bench::within(ByteCount::from_mib(32));
    let mut session = bench.session();
    bench.run(
        &mut session,
        "CREATE TABLE p (id int PRIMARY KEY);
         CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE);
         CREATE INDEX ON c (p);
         INSERT INTO p SELECT g FROM generate_series(1, 1000) g;
         INSERT INTO c SELECT g, CASE WHEN g > 12000 THEN 2 ELSE 1 END FROM generate_series(1, 12010) g",
    );
    let plan = bench.run(&mut session, "EXPLAIN DELETE FROM p WHERE id = 1").lines();
    assert!(plan.iter().any(|line| line.contains("Index Scan")), "{plan:#?}");
    let (answer, turns) = bench.run_in_turns(&mut session, "DELETE FROM p WHERE id = 1");
    assert_eq!(answer.tags, ["DELETE 1"]);
    assert!(turns > 10, "{turns} turns");
    let left = "SELECT count(*) FROM p; SELECT count(*) FROM c";
    assert_eq!(bench.run(&mut session, left).lines(), ["999", "10"]);
    let (answer, turns) = bench.run_in_turns(&mut session, "DELETE FROM p WHERE id = 2");
    assert_eq!(answer.tags, ["DELETE 1"]);
    assert!(turns <= 2, "{turns} turns for ten rows");
}

/// Of very many checks no values are kept: all rows of the table are looked at, from turn to turn by their keys.
#[test]
fn rows_get_no_other_keys_while_all_are_looked_at_for_what_they_refer_to() {
    let mut bench = Bench::new();
    let (mut session, mut other) = (bench.session(), bench.session());
    bench.run(
        &mut session,
        "CREATE TABLE p (id int PRIMARY KEY);
         CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED);
         CREATE INDEX ON c (p);
         INSERT INTO p SELECT g FROM generate_series(1, 17000) g;
         INSERT INTO c SELECT g, CASE g WHEN 5000 THEN 16999 END FROM generate_series(1, 5000) g",
    );
    bench.run(&mut session, "BEGIN; DELETE FROM p");
    let moved = "UPDATE c SET id = 0 WHERE id = 5000";
    let (refused, turns) = bench.fail_beside(&mut session, "COMMIT", |bench, turns| {
        // Behind 64 turns of checks by values, within the first half of the table's rows.
        if turns == 70 {
            assert!(matches!(bench.try_run(&mut other, moved), Err(Pause::Lock(_))), "it waits");
        }
    });
    assert_eq!(refused.state().to_string(), "23503");
    assert!(turns > 76, "{turns} turns");
    assert_eq!(bench.run(&mut other, moved).tags, ["UPDATE 1"]);
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM p WHERE id < 100").lines(), ["99"]);
}

/// Of an index of the first column alone a part goes on behind the last row of the one before, which may have left others in it.
#[test]
fn rows_that_refer_by_two_columns_are_deleted_in_slices_from_an_index_of_one() {
    for (key, index) in [("(a, id)", ""), ("(id)", "CREATE INDEX ON c (a);")] {
        let mut bench = Bench::new();
        let (mut session, mut other) = (bench.session(), bench.session());
        let tables = format!(
            "CREATE TABLE p (a int, b int, PRIMARY KEY (a, b));
             CREATE TABLE c (a int, id int, b int, PRIMARY KEY {key}, FOREIGN KEY (a, b) REFERENCES p ON DELETE CASCADE);
             {index}
             INSERT INTO p VALUES (1, 1), (1, 2), (2, 1);
             INSERT INTO c SELECT 1, g, CASE WHEN g % 4 = 0 THEN 2 ELSE 1 END FROM generate_series(1, 16000) g;
             INSERT INTO c VALUES (2, 20000, 1)"
        );
        bench.run(&mut session, &tables);
        let (answer, turns) =
            bench.run_beside(&mut session, "DELETE FROM p WHERE a + b = 2", |bench, turns| {
                if turns == 4 {
                    let moved = bench.run(&mut other, "UPDATE c SET id = 0 WHERE a = 1 AND id = 15999");
                    assert_eq!(moved.tags, ["UPDATE 1"]);
                }
            });
        assert_eq!(answer.tags, ["DELETE 1"]);
        assert!(turns > 9, "{turns} turns");
        let left = "SELECT count(*) FROM c WHERE b = 1; SELECT count(*) FROM c WHERE b = 2";
        assert_eq!(bench.run(&mut session, left).lines(), ["1", "4000"]);
    }
}

/// A slice would find rows that refer to what it has deleted elsewhere, and that a later one deletes.
#[test]
fn rows_of_two_tables_that_refer_to_each_other_are_deleted_in_one_turn() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    for change in [
        "CREATE TABLE a (id int PRIMARY KEY, b int)",
        "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a ON DELETE CASCADE)",
        "CREATE INDEX ON a (b); CREATE INDEX ON b (a)",
        "ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b",
        "INSERT INTO a SELECT g FROM generate_series(1, 6000) g",
        "INSERT INTO b SELECT g, g FROM generate_series(1, 6000) g",
        "UPDATE a SET b = id % 6000 + 1",
    ] {
        bench.run(&mut session, change);
    }
    assert_eq!(bench.run(&mut session, "DELETE FROM a").tags, ["DELETE 6000"]);
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM b").lines(), ["0"]);
}

#[test]
fn a_long_change_of_what_nobody_can_refer_to_runs_in_slices_in_a_table_that_others_refer_to() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(
        &mut session,
        "CREATE TABLE u (id int PRIMARY KEY, email text, gone bool); CREATE TABLE r (u int REFERENCES u);
         CREATE UNIQUE INDEX ON u (lower(email)); CREATE UNIQUE INDEX ON u (email) WHERE gone;
         INSERT INTO u SELECT g, 'A' || g FROM generate_series(1, 6000) g; INSERT INTO r VALUES (7)",
    );
    for (change, is_long) in
        [("UPDATE u SET email = 'B' || id", true), ("UPDATE u SET id = id + 10000 WHERE id <> 7", false)]
    {
        let (answer, turns) = bench.run_in_turns(&mut session, change);
        assert!(answer.tags[0].starts_with("UPDATE"), "{change}");
        assert_eq!(turns > 10, is_long, "{change}: {turns} turns");
    }
}
