//! Settings by SQL: how long they last, what may be said of a transaction and of constraints.

use super::Session;
use super::testing::Bench;

fn shown(bench: &mut Bench, session: &mut Session, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| bench.run(session, &format!("SHOW {name}")).lines().concat()).collect()
}

/// SQLSTATE and message.
fn refused(bench: &mut Bench, session: &mut Session, script: &str) -> String {
    let error = bench.fail(session, script);
    format!("{} {}", error.state(), error.message())
}

#[test]
fn custom_settings_go_with_reset_all() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "SET app.user_id = '7'; SET work_mem = '1GB'");
    assert_eq!(shown(&mut bench, &mut session, &["app.user_id", "work_mem"]), ["7", "1GB"]);
    bench.run(&mut session, "RESET ALL");
    assert_eq!(shown(&mut bench, &mut session, &["work_mem"]), ["4MB"]);
    let unknown = "42704 unrecognized configuration parameter \"app.user_id\"";
    assert_eq!(refused(&mut bench, &mut session, "SHOW app.user_id"), unknown);
    assert_eq!(bench.run(&mut session, "SELECT current_setting('app.user_id', true)").lines(), [""]);
    // Within a transaction it is a change like others.
    bench.run(&mut session, "SET app.user_id = '8'");
    bench.run(&mut session, "BEGIN; RESET ALL; ROLLBACK");
    assert_eq!(shown(&mut bench, &mut session, &["app.user_id"]), ["8"]);
    bench.run(&mut session, "BEGIN; SET LOCAL app.user_id = '9'; RESET ALL; COMMIT");
    assert_eq!(refused(&mut bench, &mut session, "SHOW app.user_id"), unknown);
}

#[test]
fn dumps_of_old_servers_say_that_rows_have_no_numbers() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "SET default_with_oids = false; SET default_with_oids TO off");
    assert_eq!(shown(&mut bench, &mut session, &["default_with_oids"]), ["off"]);
    let refusal = "22023 invalid value for parameter \"default_with_oids\": \"true\"";
    assert_eq!(refused(&mut bench, &mut session, "SET default_with_oids = true"), refusal);
}

#[test]
fn whose_changes_are_replicated_says_nothing_and_may_be_everybodys() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    let name = "session_replication_role";
    assert_eq!(shown(&mut bench, &mut session, &[name]), ["origin"]);
    bench.run(&mut session, "SET session_replication_role = 'LOCAL'");
    assert_eq!(shown(&mut bench, &mut session, &[name]), ["local"]);
    bench.run(&mut session, "SET session_replication_role TO DEFAULT; SET session_replication_role = origin");
    for (script, error) in [
        (
            "SET session_replication_role = replica",
            "0A000 session_replication_role = replica is not supported",
        ),
        (
            "SET session_replication_role = 'no'",
            "22023 invalid value for parameter \"session_replication_role\": \"no\"",
        ),
    ] {
        assert_eq!(refused(&mut bench, &mut session, script), error);
    }
}

#[test]
fn a_custom_setting_of_the_role_is_what_a_reset_goes_back_to() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "ALTER ROLE owner SET app.region = 'north'");
    let mut session = bench.session();
    bench.run(&mut session, "BEGIN; ROLLBACK");
    assert_eq!(shown(&mut bench, &mut session, &["app.region"]), ["north"]);
    for reset in ["RESET app.region", "RESET ALL", "DISCARD ALL", "SET app.region TO DEFAULT"] {
        bench.run(&mut session, "SET App.Region = 'south'");
        assert_eq!(shown(&mut bench, &mut session, &["app.region"]), ["south"]);
        bench.run(&mut session, reset);
        assert_eq!(shown(&mut bench, &mut session, &["app.region"]), ["north"], "{reset}");
    }
}

#[test]
fn a_local_setting_outside_of_a_block_is_warned_of() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    let warning = "SET LOCAL can only be used in transaction blocks";
    for (script, notices) in [
        ("SET LOCAL work_mem = '1GB'", vec![warning]),
        ("SET LOCAL work_mem = '1GB'; SHOW work_mem", vec![]),
        ("BEGIN; SET LOCAL work_mem = '1GB'; COMMIT", vec![]),
        ("SET work_mem TO DEFAULT", vec![]),
    ] {
        assert_eq!(bench.run(&mut session, script).notices(), notices, "{script}");
        assert_eq!(shown(&mut bench, &mut session, &["work_mem"]), ["4MB"], "{script}");
    }
}

#[test]
fn a_cursor_may_be_declared_among_others_of_its_query() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    let script = "DECLARE c CURSOR FOR SELECT 5; FETCH c";
    assert_eq!(bench.run(&mut session, script).lines(), ["5"]);
    assert_eq!(
        refused(&mut bench, &mut session, "DECLARE c CURSOR FOR SELECT 5"),
        "25P01 DECLARE CURSOR can only be used in transaction blocks"
    );
}

const DEFERRABLE: [&str; 2] = ["transaction_deferrable", "default_transaction_deferrable"];

#[test]
fn deferrable_is_shown_of_the_transaction_that_it_was_said_of() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    for (script, expected) in [
        ("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE", ["on", "off"]),
        ("COMMIT AND CHAIN", ["on", "off"]),
        ("COMMIT", ["off", "off"]),
        ("BEGIN; SET TRANSACTION DEFERRABLE", ["on", "off"]),
        ("ROLLBACK; SET SESSION CHARACTERISTICS AS TRANSACTION DEFERRABLE", ["on", "on"]),
        ("START TRANSACTION NOT DEFERRABLE", ["off", "on"]),
        (
            "ROLLBACK; BEGIN; SHOW role; SET search_path = public; SET TRANSACTION NOT DEFERRABLE",
            ["off", "on"],
        ),
        ("ROLLBACK; BEGIN", ["on", "on"]),
        ("ROLLBACK; RESET ALL", ["off", "off"]),
    ] {
        bench.run(&mut session, script);
        assert_eq!(shown(&mut bench, &mut session, &DEFERRABLE), expected, "{script}");
    }
    for (script, error) in [
        (
            "BEGIN; SELECT 1; SET TRANSACTION DEFERRABLE",
            "25001 SET TRANSACTION [NOT] DEFERRABLE must be called before any query",
        ),
        (
            "BEGIN; SAVEPOINT s; SET TRANSACTION NOT DEFERRABLE",
            "25001 SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction",
        ),
        (
            "SELECT set_config('transaction_deferrable', 'on', false)",
            "0A000 use SET TRANSACTION to change \"transaction_deferrable\"",
        ),
        ("SET TRANSACTION", "42601 syntax error at end of input"),
        ("BEGIN READ ONLY,", "42601 syntax error at end of input"),
    ] {
        assert_eq!(refused(&mut bench, &mut session, script), error, "{script}");
        bench.run(&mut session, "ROLLBACK");
    }
}

#[test]
fn the_sessions_transaction_modes_are_settings_like_others() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    let names = ["default_transaction_read_only", "default_transaction_isolation"];
    let set = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE";
    bench.run(&mut session, &format!("BEGIN; {set}; ROLLBACK"));
    assert_eq!(shown(&mut bench, &mut session, &names), ["off", "read committed"]);
    bench.run(&mut session, set);
    bench.run(&mut session, "BEGIN; ROLLBACK");
    assert_eq!(shown(&mut bench, &mut session, &names), ["on", "serializable"]);
}

#[test]
fn what_stands_before_a_last_set_transaction_is_committed() {
    let mut bench = Bench::new();
    let (mut session, mut other) = (bench.session(), bench.session());
    bench.run(&mut session, "CREATE TABLE t (v int)");
    bench.run(&mut session, "INSERT INTO t VALUES (1); SET TRANSACTION READ WRITE");
    assert_eq!(bench.run(&mut other, "SELECT v FROM t").lines(), ["1"]);
}

#[test]
fn constraints_are_looked_up_and_none_is_deferred() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b int CONSTRAINT positive CHECK (b > 0))");
    bench.run(
        &mut session,
        "CREATE TABLE u (a int CONSTRAINT of_t REFERENCES t, c int UNIQUE); CREATE SCHEMA s",
    );
    for statement in [
        "SET CONSTRAINTS ALL DEFERRED",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "SET CONSTRAINTS of_t, public.t_pkey, positive, u_c_key IMMEDIATE",
    ] {
        let answer = bench.run(&mut session, &format!("BEGIN; {statement}; COMMIT"));
        assert_eq!((&*answer.tags[1], answer.notices()), ("SET CONSTRAINTS", vec![]), "{statement}");
    }
    assert_eq!(
        bench.run(&mut session, "SET CONSTRAINTS ALL DEFERRED").notices(),
        ["SET CONSTRAINTS can only be used in transaction blocks"]
    );
    for (names, error) in [
        ("of_t DEFERRED", "42809 constraint \"of_t\" is not deferrable"),
        ("positive DEFERRED", "42809 constraint \"positive\" is not deferrable"),
        ("nothing DEFERRED", "42704 constraint \"nothing\" does not exist"),
        ("of_t, nothing IMMEDIATE", "42704 constraint \"nothing\" does not exist"),
        ("s.of_t IMMEDIATE", "42704 constraint \"of_t\" does not exist"),
        ("nowhere.of_t IMMEDIATE", "3F000 schema \"nowhere\" does not exist"),
        ("nonsense", "42601 syntax error at end of input"),
        ("ALL", "42601 syntax error at end of input"),
        ("ALL, of_t IMMEDIATE", "42601 syntax error at or near \",\""),
        ("ALL IMMEDIATE DEFERRED", "42601 syntax error at or near \"DEFERRED\""),
    ] {
        assert_eq!(refused(&mut bench, &mut session, &format!("SET CONSTRAINTS {names}")), error, "{names}");
    }
    for scope in ["LOCAL", "SESSION"] {
        let statement = format!("SET {scope} CONSTRAINTS ALL IMMEDIATE");
        assert!(refused(&mut bench, &mut session, &statement).starts_with("42601"), "{scope}");
    }
}

#[test]
fn a_setting_of_null_is_reset() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "SET work_mem = '9MB'; SET app.x = 'a'");
    assert_eq!(bench.run(&mut session, "SELECT set_config('work_mem', NULL, false)").lines(), ["4MB"]);
    assert_eq!(bench.run(&mut session, "SELECT set_config('app.x', NULL, false)").lines(), [""]);
    assert_eq!(bench.run(&mut session, "SELECT current_setting('app.x', true)").lines(), [""]);
}

#[test]
fn forms_of_set_that_are_not_name_and_value() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    for (script, name, value) in [
        ("SET TIME ZONE '+02:00'", "timezone", "+02:00"),
        ("SET TIME ZONE -7", "timezone", "<-07>+07"),
        ("SET TIME ZONE 5.5", "timezone", "<+05:30>-05:30"),
        ("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "timezone", "<-08>+08"),
        ("SET timezone TO INTERVAL '3' HOUR", "timezone", "<+03>-03"),
        ("SET TIME ZONE 'europe/berlin'", "timezone", "Europe/Berlin"),
        ("SET TIME ZONE LOCAL", "timezone", "Etc/UTC"),
        ("SELECT set_config('TimeZone', 'UTC+3', false)", "timezone", "UTC+3"),
        ("RESET TIME ZONE", "timezone", "Etc/UTC"),
        ("SET SCHEMA 'x y'", "search_path", "\"x y\""),
        ("SET XML OPTION DOCUMENT", "xmloption", "document"),
        ("SET statement_timeout = '1.5s'", "statement_timeout", "1500ms"),
        ("SET statement_timeout = '0.5 min'", "statement_timeout", "30s"),
    ] {
        bench.run(&mut session, script);
        assert_eq!(shown(&mut bench, &mut session, &[name]), [value], "{script}");
    }
    for bad in
        ["SET TIME ZONE 'nowhere'", "SET TIME ZONE INTERVAL '1 month'", "SET statement_timeout = '1.5.5s'"]
    {
        assert_eq!(bench.fail(&mut session, bad).state().as_str(), "22023", "{bad}");
    }
    bench.run(&mut session, "RESET search_path");
    let bare = "SELECT current_role, current_schema, CURRENT_SCHEMA || 's'";
    assert_eq!(bench.run(&mut session, bare).lines(), ["owner|public|publics"]);
}

#[test]
fn what_a_failed_block_had_set_is_gone_at_once() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "SET application_name = 'before'");
    for (block, left) in [
        ("BEGIN; SET application_name = 'within'", "before"),
        ("BEGIN; SET LOCAL application_name = 'within'", "before"),
        ("BEGIN; SET application_name = 'one'; SAVEPOINT a; SET application_name = 'two'", "one"),
    ] {
        bench.run(&mut session, block);
        bench.fail(&mut session, "SELECT nothing");
        assert_eq!(
            (session.transaction_status(), session.application_name()),
            (b'E', left.into()),
            "{block}"
        );
        bench.run(&mut session, "ROLLBACK");
        assert_eq!(session.application_name(), "before");
    }
    bench.run(&mut session, "BEGIN; SAVEPOINT a; SET application_name = 'within'");
    bench.fail(&mut session, "SELECT nothing");
    bench.run(&mut session, "ROLLBACK TO a; SET application_name = 'after'; COMMIT");
    assert_eq!(session.application_name(), "after");
}

#[test]
fn a_commit_is_waited_for_as_its_transaction_says() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (id int)");
    for (of_session, within, waits) in [
        ("on", "SELECT 1", true),
        ("on", "SET LOCAL synchronous_commit = off", false),
        ("on", "SET synchronous_commit = off", false),
        ("off", "SELECT 1", false),
        ("off", "SET LOCAL synchronous_commit = on", true),
        (
            "off",
            "SET LOCAL synchronous_commit = on; SAVEPOINT a; SET synchronous_commit = off; ROLLBACK TO a",
            true,
        ),
    ] {
        bench.run(&mut session, &format!("SET synchronous_commit = {of_session}"));
        bench.run(&mut session, &format!("BEGIN; {within}; INSERT INTO t VALUES (1)"));
        let before = session.observed();
        bench.run(&mut session, "COMMIT");
        assert_eq!(session.observed() > before, waits, "{of_session}: {within}");
    }
}

#[test]
fn settings_are_set_for_rows_of_pg_settings() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    // As pgAdmin begins a session.
    for (from, value) in [
        ("pg_show_all_settings()", "escape"),
        ("pg_settings", "hex"),
        ("pg_catalog.pg_settings AS s", "escape"),
        ("pg_catalog.pg_show_all_settings() s", "hex"),
    ] {
        let sql = format!(
            "SET DateStyle=ISO; SELECT set_config('bytea_output', '{value}', false) FROM {from} WHERE name = 'bytea_output'; \
             SET client_encoding='utf-8'"
        );
        assert_eq!(bench.run(&mut session, &sql).lines(), [value], "{sql}");
        assert_eq!(shown(&mut bench, &mut session, &["bytea_output"]), [value]);
    }
    // As pg_dump does, of a setting that is not there.
    let unknown = "SELECT set_config(name, 'view', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'";
    assert!(bench.run(&mut session, unknown).lines().is_empty());
    let own = "SELECT set_config(s.name, upper(s.setting), false) FROM pg_settings s WHERE s.name IN ('work_mem', 'application_name') \
               ORDER BY s.name DESC";
    bench.run(&mut session, "SET application_name = 'a'");
    assert_eq!(bench.run(&mut session, own).lines(), ["4MB", "A"]);
}
