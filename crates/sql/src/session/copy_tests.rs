//! COPY through sessions: what its condition and its marks may be, and when its rows are checked. Expectations are PostgreSQL 15's.

use base::SqlState;

use super::stand_in::Answer;
use super::testing::Bench;
use super::{Executed, Pause, Session};

/// Copies `data`; the tag, or the error.
fn copy(bench: &mut Bench, session: &mut Session, sql: &str, data: &[u8]) -> Result<String, String> {
    let mut out = Answer::default();
    let copied = bench.turn(|home| {
        assert_eq!(session.query(home, sql, &mut out)?, Executed::CopyIn);
        for piece in data.chunks(7) {
            session.copy_data(home, piece)?;
        }
        session.copy_done(home, &mut out)?;
        // What follows in the script.
        session.query(home, sql, &mut out)
    });
    match copied {
        Ok(_) => Ok(out.tags.pop().expect("a tag")),
        Err(Pause::Error(error)) => Err(format!("{} {}", error.state(), error.message())),
        Err(pause) => panic!("{pause:?}"),
    }
}

#[test]
fn the_condition_of_a_copy_reads_nothing_else() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "CREATE TABLE secret (word text); INSERT INTO secret VALUES ('sesame');
         CREATE TABLE box (a int); CREATE ROLE guest LOGIN; GRANT INSERT ON box TO guest",
    );
    let mut guest = bench.session_of("guest");
    for filter in [
        "EXISTS (SELECT FROM secret WHERE word LIKE 's%')",
        "a > (SELECT 0)",
        "a IN (SELECT length(word) FROM secret)",
        "a = ANY (ARRAY(SELECT 1))",
    ] {
        let sql = format!("COPY box FROM STDIN WHERE {filter}");
        let error = bench.fail(&mut guest, &sql);
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{filter}");
        assert_eq!(error.message(), "cannot use subquery in COPY FROM WHERE condition");
    }
    let copied = copy(&mut bench, &mut guest, "COPY box FROM STDIN WHERE a > 1", b"1\n2\n3\n");
    assert_eq!(copied.as_deref(), Ok("COPY 2"));
}

#[test]
fn a_copy_brings_no_values_of_generated_columns() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "CREATE TABLE t (id int, g int GENERATED ALWAYS AS (id * 2) STORED CHECK (g < 9), v text)",
    );
    assert_eq!(copy(&mut bench, &mut owner, "COPY t FROM STDIN", b"1\ta\n2\tb\n").as_deref(), Ok("COPY 2"));
    assert_eq!(copy(&mut bench, &mut owner, "COPY t (id) FROM STDIN", b"3\n").as_deref(), Ok("COPY 1"));
    assert_eq!(bench.run(&mut owner, "SELECT g FROM t ORDER BY id").lines(), ["2", "4", "6"]);
    let broken = copy(&mut bench, &mut owner, "COPY t (id) FROM STDIN", b"5\n");
    assert!(broken.is_err_and(|error| error.starts_with("23514")));
}

#[test]
fn the_condition_of_a_copy_is_what_was_read() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "CREATE TABLE secret (word text); INSERT INTO secret VALUES ('sesame');
         CREATE TABLE box (v text); CREATE ROLE guest LOGIN; GRANT INSERT, SELECT ON box TO guest",
    );
    let mut guest = bench.session_of("guest");
    // One literal, of which a part is a query once it is printed as it stands.
    let sql = r"COPY box FROM STDIN WHERE v = '\'' or exists (select from secret where length(word) = 6) --'";
    assert_eq!(copy(&mut bench, &mut guest, sql, b"a\n").as_deref(), Ok("COPY 0"));
    let sql = "COPY box FROM STDIN WHERE v <> '''''' AND v NOT BETWEEN SYMMETRIC 'c' AND 'b'";
    assert_eq!(copy(&mut bench, &mut guest, sql, b"''\n'\nbb\nd\n").as_deref(), Ok("COPY 2"));
    assert_eq!(bench.run(&mut guest, "SELECT v FROM box ORDER BY v").lines(), ["'", "d"]);
}

/// A statement that is refused; `error`: its SQLSTATE and message.
#[track_caller]
fn check_refused(bench: &mut Bench, session: &mut Session, sql: &str, error: &str) {
    let refused = bench.fail(session, sql);
    assert_eq!(format!("{} {}", refused.state(), refused.message()), error, "{sql}");
}

#[test]
fn options_that_say_nothing_here_are_refused() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (a text, b text)");
    for (sql, error) in [
        ("FROM STDIN (FORMAT csv, FORCE_QUOTE *)", "0A000 COPY force quote only available using COPY TO"),
        ("TO STDOUT (FORMAT csv, FORCE_NULL (a))", "0A000 COPY force null only available using COPY FROM"),
        ("TO STDOUT CSV FORCE NOT NULL a", "0A000 COPY force not null only available using COPY FROM"),
        ("TO STDOUT (HEADER match)", "0A000 cannot use \"match\" with HEADER in COPY TO"),
        ("TO STDOUT (FORMAT csv, FORMAT text)", "42601 conflicting or redundant options"),
        ("TO STDOUT BINARY CSV", "42601 conflicting or redundant options"),
        ("TO STDOUT CSV FORCE QUOTE a FORCE QUOTE b", "42601 conflicting or redundant options"),
        ("FROM STDIN (NULL 'a', null 'b')", "42601 conflicting or redundant options"),
    ] {
        check_refused(&mut bench, &mut session, &format!("COPY t {sql}"), error);
    }
    bench.run(&mut session, "COPY t TO STDOUT WITH CSV HEADER FORCE QUOTE a, b NULL 'x'");
}

#[test]
fn what_has_no_parameters_names_none() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (a int)");
    for (sql, number) in [
        ("CREATE TABLE n AS SELECT $1::int", 1),
        ("CREATE VIEW n AS SELECT $1::int", 1),
        ("COPY (SELECT $1::int) TO STDOUT", 1),
        ("COPY t FROM STDIN WHERE a > $1", 1),
        ("COPY t FROM STDIN WHERE a > $5::int", 5),
    ] {
        let error = bench.fail(&mut session, sql);
        assert_eq!(error.state(), SqlState::UNDEFINED_PARAMETER, "{sql}");
        assert_eq!(error.message(), format!("there is no parameter ${number}"), "{sql}");
    }
}

#[test]
fn marks_that_would_be_taken_for_data_are_refused() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (a text, b text)");
    for (options, error) in [
        ("DELIMITER 'n'", "22023 COPY delimiter cannot be \"n\""),
        ("DELIMITER '\\'", "22023 COPY delimiter cannot be \"\\\""),
        ("DELIMITER E'\\n'", "22023 COPY delimiter cannot be newline or carriage return"),
        ("NULL E'a\\r'", "22023 COPY null representation cannot use newline or carriage return"),
        ("NULL 'a|', DELIMITER '|'", "0A000 COPY delimiter must not appear in the NULL specification"),
        ("FORMAT csv, DELIMITER '\"'", "22023 COPY delimiter and quote must be different"),
        ("FORMAT csv, NULL 'x\"'", "0A000 CSV quote character must not appear in the NULL specification"),
    ] {
        check_refused(&mut bench, &mut session, &format!("COPY t TO STDOUT ({options})"), error);
    }
    for options in ["FORMAT csv, DELIMITER 'n'", "DELIMITER 'X'", "DELIMITER '|', NULL ''"] {
        bench.run(&mut session, &format!("COPY t TO STDOUT ({options})"));
    }
}

#[test]
fn rows_of_a_copy_may_refer_to_those_behind_them() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(
        &mut session,
        "CREATE TABLE t (id int PRIMARY KEY, boss int REFERENCES t, peer int REFERENCES t)",
    );
    let sql = "COPY t FROM STDIN";
    let copied = copy(&mut bench, &mut session, sql, b"1\t2\t1\n2\t\\N\t3\n3\t1\t3\n");
    assert_eq!(copied.as_deref(), Ok("COPY 3"));
    let refused = copy(&mut bench, &mut session, sql, b"4\t5\t1\n5\t6\t1\n");
    assert_eq!(
        refused.unwrap_err(),
        "23503 insert or update on table \"t\" violates foreign key constraint \"t_boss_fkey\""
    );
    // A statement of its own is not put off, not even in the same transaction.
    bench.run(&mut session, "BEGIN");
    assert_eq!(copy(&mut bench, &mut session, sql, b"4\t5\t1\n5\t1\t1\n").as_deref(), Ok("COPY 2"));
    let error = bench.fail(&mut session, "INSERT INTO t VALUES (6, 7, 1)");
    assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION);
    bench.run(&mut session, "ROLLBACK");
    assert_eq!(bench.run(&mut session, "SELECT count(*) FROM t").lines(), ["3"]);
}
