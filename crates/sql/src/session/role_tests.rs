//! Who a session is, over transactions and savepoints, and whose privileges count then.

use base::SqlState;

use super::Session;
use super::testing::Bench;

/// Roles `a` and `b`, `chief` who is a superuser, and a table of the owner's.
fn roles() -> (Bench, Session) {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(
        &mut session,
        "CREATE ROLE a; CREATE ROLE b; CREATE ROLE chief SUPERUSER; CREATE TABLE t (v int); INSERT INTO t VALUES (7)",
    );
    (bench, session)
}

/// The role that counts, the session's own, the setting `role`, and whether it is a superuser.
fn who(bench: &mut Bench, session: &mut Session) -> String {
    let asked = "SELECT current_user, session_user, current_setting('role'), current_setting('is_superuser')";
    bench.run(session, asked).lines().concat()
}

const OWNER: &str = "owner|owner|none|on";

/// Each script in turn, and who the session is after it: as PostgreSQL 15 has it.
#[track_caller]
fn check(scripts: &[(&str, &str)]) {
    let (mut bench, mut session) = roles();
    for (script, expected) in scripts {
        bench.run(&mut session, script);
        assert_eq!(who(&mut bench, &mut session), *expected, "after {script}");
    }
}

#[test]
fn a_role_is_chosen_until_its_transaction_is_rolled_back() {
    check(&[
        ("BEGIN; SET ROLE a", "a|owner|a|off"),
        ("ROLLBACK", OWNER),
        ("BEGIN; SET ROLE a; COMMIT", "a|owner|a|off"),
        ("BEGIN; RESET ROLE", OWNER),
        ("ROLLBACK", "a|owner|a|off"),
        ("BEGIN; SET ROLE NONE; SET ROLE 'b'", "b|owner|b|off"),
        ("ROLLBACK", "a|owner|a|off"),
        ("SET ROLE none", OWNER),
        ("SET ROLE a; RESET ROLE", OWNER),
    ]);
}

#[test]
fn no_role_has_a_reserved_name_made_or_renamed() {
    let (mut bench, mut session) = roles();
    for name in [
        "\"public\"",
        "\"none\"",
        "pg_x",
        "current_user",
        "\"current_user\"",
        "\"current_role\"",
        "\"session_user\"",
    ] {
        for sql in [format!("CREATE ROLE {name}"), format!("ALTER ROLE a RENAME TO {name}")] {
            assert_eq!(bench.fail(&mut session, &sql).state(), SqlState::RESERVED_NAME, "{sql}");
        }
    }
    assert_eq!(bench.fail(&mut session, "ALTER ROLE a RENAME TO b").state(), SqlState::DUPLICATE_OBJECT);
    bench.run(&mut session, "ALTER ROLE a RENAME TO c; ALTER ROLE c LOGIN");
    assert_eq!(
        bench.fail(&mut session, "CREATE ROLE current_user").message(),
        "CURRENT_USER cannot be used as a role name here"
    );
}

#[test]
fn a_statement_on_roles_names_those_that_the_session_is() {
    let (mut bench, mut session) = roles();
    bench.run(
        &mut session,
        "SET ROLE chief; ALTER ROLE CURRENT_USER LOGIN; GRANT a TO current_role, SESSION_USER",
    );
    let member_of =
        |bench: &Bench, name: &str| bench.catalog().role_named(name).expect("it is there").member_of.len();
    assert_eq!((member_of(&bench, "chief"), member_of(&bench, "owner")), (1, 1));
    assert!(bench.catalog().role_named("chief").expect("it is there").attributes.login);
    bench.run(&mut session, "REVOKE a FROM current_user");
    assert_eq!((member_of(&bench, "chief"), member_of(&bench, "owner")), (0, 1));
}

#[test]
fn a_role_goes_back_with_a_savepoint() {
    check(&[
        ("BEGIN; SET ROLE a; SAVEPOINT s; SET ROLE b", "b|owner|b|off"),
        ("ROLLBACK TO s", "a|owner|a|off"),
        ("RESET ROLE", OWNER),
        ("ROLLBACK TO s", "a|owner|a|off"),
        ("SAVEPOINT u; SET LOCAL ROLE b; RELEASE u", "b|owner|b|off"),
        ("COMMIT", "a|owner|a|off"),
    ]);
}

#[test]
fn a_local_role_ends_with_its_transaction() {
    check(&[
        ("BEGIN; SET LOCAL ROLE a", "a|owner|a|off"),
        ("COMMIT", OWNER),
        ("SET ROLE b", "b|owner|b|off"),
        ("BEGIN; SET LOCAL ROLE NONE", OWNER),
        ("ROLLBACK", "b|owner|b|off"),
        ("BEGIN; SET LOCAL ROLE a; SET LOCAL ROLE NONE; COMMIT", "b|owner|b|off"),
        // What stands before BEGIN in its Query is of the transaction, too.
        ("SET ROLE a; BEGIN; ROLLBACK", "b|owner|b|off"),
        ("BEGIN; SET LOCAL ROLE a; SET ROLE chief; COMMIT", "chief|owner|chief|on"),
    ]);
    let (mut bench, mut session) = roles();
    assert_eq!(
        bench.run(&mut session, "SET LOCAL ROLE a").notices(),
        ["SET LOCAL can only be used in transaction blocks"]
    );
    assert_eq!(who(&mut bench, &mut session), OWNER);
    let script = "SET LOCAL ROLE a; SELECT current_user";
    let answer = bench.run(&mut session, script);
    assert_eq!((answer.lines(), answer.notices()), (vec!["a".to_owned()], vec![]));
    assert_eq!(who(&mut bench, &mut session), OWNER);
}

#[test]
fn the_sessions_own_role_goes_the_same_way_and_takes_the_chosen_one_along() {
    check(&[
        ("SET SESSION AUTHORIZATION chief; SET ROLE a", "a|chief|a|off"),
        ("BEGIN; SET LOCAL SESSION AUTHORIZATION b", "b|b|none|off"),
        ("COMMIT", "a|chief|a|off"),
        ("BEGIN; SET SESSION AUTHORIZATION b; SAVEPOINT s; SET SESSION AUTHORIZATION DEFAULT", OWNER),
        ("ROLLBACK TO s", "b|b|none|off"),
        ("ROLLBACK", "a|chief|a|off"),
        ("RESET SESSION AUTHORIZATION", OWNER),
    ]);
}

#[test]
fn the_settings_of_that_name_are_the_same() {
    check(&[
        ("SET role = a", "a|owner|a|off"),
        ("SET role TO DEFAULT", OWNER),
        ("BEGIN; SELECT set_config('role', 'a', true)", "a|owner|a|off"),
        ("COMMIT", OWNER),
        ("SELECT set_config('role', 'b', false)", "b|owner|b|off"),
        ("RESET ALL", "b|owner|b|off"),
        ("SELECT set_config('role', 'none', false)", OWNER),
        ("SELECT set_config('session_authorization', 'b', false)", "b|b|none|off"),
        ("SET session_authorization TO DEFAULT", OWNER),
    ]);
    let (mut bench, mut session) = roles();
    let at_once = "SELECT set_config('role', 'a', false), current_user";
    assert_eq!(bench.run(&mut session, at_once).lines(), ["a|a"]);
    assert_eq!(bench.run(&mut session, "SHOW role").lines(), ["a"]);
    bench.fail(&mut session, "SELECT set_config('role', 'b', false), 1 / (count(*) - 1) FROM t");
    assert_eq!(bench.run(&mut session, "SHOW role").lines(), ["a"]);
}

#[test]
fn who_may_become_whom() {
    let (mut bench, mut session) = roles();
    bench.run(&mut session, "CREATE ROLE clerk LOGIN; GRANT a TO clerk");
    let mut clerk = bench.session_of("clerk");
    for (statement, error) in [
        ("SET ROLE b", "42501 permission denied to set role \"b\""),
        ("SELECT set_config('role', 'b', false)", "42501 permission denied to set role \"b\""),
        ("SET ROLE nobody", "22023 role \"nobody\" does not exist"),
        ("SET ROLE DEFAULT", "42601 syntax error at or near \"DEFAULT\""),
        ("SET ROLE a, b", "42601 syntax error at or near \",\""),
        ("SET SESSION AUTHORIZATION a", "42501 permission denied to set session authorization \"a\""),
        ("SET SESSION AUTHORIZATION none", "22023 role \"none\" does not exist"),
        (
            "ALTER ROLE clerk SET role = a",
            "0A000 a session that starts with its own \"role\" is not supported",
        ),
        ("ALTER ROLE clerk SET is_superuser = on", "55P02 parameter \"is_superuser\" cannot be changed"),
    ] {
        let refused = bench.fail(&mut clerk, statement);
        assert_eq!(format!("{} {}", refused.state(), refused.message()), error, "{statement}");
    }
    bench.run(&mut clerk, "SET ROLE a; SET SESSION AUTHORIZATION clerk");
    assert_eq!(who(&mut bench, &mut clerk), "clerk|clerk|none|off");
    // Of a session that became another, that one's memberships count.
    bench.run(&mut session, "SET SESSION AUTHORIZATION clerk; SET ROLE a");
    assert_eq!(bench.fail(&mut session, "SET ROLE b").state(), SqlState::INSUFFICIENT_PRIVILEGE);
    bench.run(&mut session, "SET SESSION AUTHORIZATION b");
    assert_eq!(who(&mut bench, &mut session), "b|b|none|off");
}

#[test]
fn privileges_are_those_of_the_role_that_counts_now() {
    let (mut bench, mut session) = roles();
    bench.run(&mut session, "PREPARE q AS SELECT v FROM t; EXECUTE q");
    bench.run(&mut session, "BEGIN; SAVEPOINT s; SET ROLE a; SAVEPOINT u");
    for query in ["SELECT v FROM t", "EXECUTE q"] {
        assert_eq!(bench.fail(&mut session, query).message(), "permission denied for table t");
        bench.run(&mut session, "ROLLBACK TO u");
    }
    for back in ["ROLLBACK TO s", "SET LOCAL ROLE a; COMMIT"] {
        bench.run(&mut session, back);
        for query in ["SELECT v FROM t", "EXECUTE q"] {
            assert_eq!(bench.run(&mut session, query).lines(), ["7"], "{query} after {back}");
        }
    }
}

#[test]
fn the_administrator_has_the_privileges_of_the_role_it_acts_as_alone() {
    let (mut bench, mut owner) = roles();
    bench.run(
        &mut owner,
        "CREATE SEQUENCE q; CREATE SCHEMA s; CREATE TABLE s.t (v int); GRANT SELECT ON s.t TO a; PREPARE p AS SELECT v FROM t",
    );
    let mut admin = bench.administrator();
    bench.run(&mut admin, "PREPARE p AS SELECT v FROM t; EXECUTE p");
    for chosen in ["SET ROLE a", "SET SESSION AUTHORIZATION a", "SET SESSION AUTHORIZATION chief; SET ROLE a"]
    {
        bench.run(&mut admin, chosen);
        for (statement, error) in [
            ("SELECT v FROM t", "permission denied for table t"),
            ("EXECUTE p", "permission denied for table t"),
            ("INSERT INTO t VALUES (1)", "permission denied for table t"),
            ("TRUNCATE t", "permission denied for table t"),
            ("DROP TABLE t", "must be owner of table t"),
            ("GRANT SELECT ON t TO a", "must be owner of table t"),
            ("SELECT v FROM s.t", "permission denied for schema s"),
            ("CREATE TABLE s.u ()", "permission denied for schema s"),
            ("CREATE SCHEMA u", "permission denied for database app"),
            ("SELECT nextval('q')", "permission denied for sequence q"),
            ("CREATE ROLE c", "permission denied to create role"),
            ("CREATE ROLE c SUPERUSER", "must be superuser to create superusers"),
            (
                "ALTER ROLE a SUPERUSER",
                "must be superuser to alter superuser roles or change superuser attribute",
            ),
            ("DROP ROLE b", "permission denied to drop role"),
            ("GRANT owner TO a", "must be superuser to alter superusers"),
            ("CHECKPOINT", "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT"),
            (
                "SHOW TENANTS",
                "tenants and the server are administered by the administrator in the database \"rowhouse\"",
            ),
        ] {
            let refused = bench.fail(&mut admin, statement);
            assert_eq!(refused.message(), error, "{statement} after {chosen}");
            assert_eq!(refused.state(), SqlState::INSUFFICIENT_PRIVILEGE);
        }
        bench.run(&mut admin, "RESET ROLE; RESET SESSION AUTHORIZATION");
        for statement in
            ["EXECUTE p", "SELECT v FROM s.t", "SELECT nextval('q')", "CREATE ROLE c SUPERUSER; DROP ROLE c"]
        {
            bench.run(&mut admin, statement);
        }
    }
    // Whom it may become, the role decides that it became for good.
    bench.run(&mut admin, "SET SESSION AUTHORIZATION a");
    assert_eq!(bench.fail(&mut admin, "SET ROLE b").message(), "permission denied to set role \"b\"");
    bench.run(&mut admin, "SET SESSION AUTHORIZATION b; SET ROLE b; RESET SESSION AUTHORIZATION; SET ROLE b");
    assert_eq!(who(&mut bench, &mut admin), "b|admin|b|off");
    bench.run(&mut admin, "SET ROLE none");
    assert_eq!(who(&mut bench, &mut admin), "admin|admin|none|on");
    // Nor does it leave to the owner what only it may.
    bench.run(
        &mut owner,
        "ALTER ROLE chief NOSUPERUSER; CREATE TABLE of_a (v int); ALTER TABLE of_a OWNER TO a",
    );
    bench.run(
        &mut admin,
        "ALTER ROLE owner NOSUPERUSER; PREPARE r AS SELECT v FROM of_a; EXECUTE r; SET ROLE owner",
    );
    assert_eq!(bench.fail(&mut admin, "EXECUTE r").message(), "permission denied for table of_a");
}

#[test]
fn a_role_that_is_gone_comes_back_without_rights() {
    let (mut bench, mut session) = roles();
    let mut other = bench.session();
    bench.run(&mut session, "SET ROLE a");
    bench.run(&mut session, "BEGIN; SET ROLE b");
    bench.run(&mut other, "DROP ROLE a; CREATE ROLE a SUPERUSER");
    bench.run(&mut session, "ROLLBACK");
    assert_eq!(bench.fail(&mut session, "SELECT v FROM t").state(), SqlState::INSUFFICIENT_PRIVILEGE);
    bench.run(&mut session, "SET ROLE a");
    assert_eq!(bench.run(&mut session, "SELECT v FROM t").lines(), ["7"]);
}

#[test]
fn discard_all_leaves_nothing_of_who_used_the_session_before() {
    let (mut bench, mut session) = roles();
    bench.run(
        &mut session,
        "SET SESSION AUTHORIZATION b; SET app.user_id = '7'; SET search_path = x; PREPARE q AS SELECT 1",
    );
    bench.run(&mut session, "DISCARD ALL");
    assert_eq!(who(&mut bench, &mut session), OWNER);
    for gone in ["SHOW app.user_id", "EXECUTE q"] {
        bench.fail(&mut session, gone);
    }
    assert_eq!(bench.run(&mut session, "SHOW search_path").lines(), ["\"$user\", public"]);
    bench.run(&mut session, "SET ROLE a");
    // What is discarded shall not come back with a rollback.
    for within in ["BEGIN; DISCARD ALL", "DISCARD ALL; SELECT 1"] {
        assert_eq!(bench.fail(&mut session, within).state(), SqlState::ACTIVE_SQL_TRANSACTION, "{within}");
        bench.run(&mut session, "ROLLBACK");
    }
    bench.run(&mut session, "DISCARD ALL");
    assert_eq!(who(&mut bench, &mut session), OWNER);
}

/// Each pair by itself would take minutes.
#[test]
fn who_is_named_again_and_again_is_granted_once() {
    let (mut bench, mut session) = roles();
    let (a, b) = (vec!["a"; 10_000].join(", "), vec!["b"; 10_000].join(", "));
    bench.run(&mut session, &format!("GRANT {a} TO {b}"));
    bench.run(&mut session, "SET ROLE b; SET ROLE a; RESET ROLE");
    assert_eq!(bench.catalog().role_named("b").expect("it is there").member_of.len(), 1);
    bench.run(&mut session, &format!("REVOKE {a} FROM {b}"));
    assert!(bench.catalog().role_named("b").expect("it is there").member_of.is_empty());
    bench.run(&mut session, &format!("GRANT SELECT ON {} TO {b}", vec!["t"; 10_000].join(", ")));
    bench.run(&mut session, "SET ROLE b");
    assert_eq!(bench.run(&mut session, "SELECT v FROM t").lines(), ["7"]);
}

#[test]
fn who_inherits_nothing_owns_nothing_before_it_is_the_owner() {
    let (mut bench, mut session) = roles();
    bench.run(&mut session, "CREATE ROLE c NOINHERIT; GRANT a TO b, c; ALTER TABLE t OWNER TO a; GRANT CREATE ON SCHEMA public TO a");
    for sql in [
        "DROP TABLE t",
        "GRANT SELECT ON t TO c",
        "ALTER TABLE t ADD COLUMN w int",
        "DROP OWNED BY a",
        "CREATE TABLE u (v int)",
    ] {
        bench.run(&mut session, "SET ROLE c");
        assert_eq!(bench.fail(&mut session, sql).state(), SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
        bench.run(&mut session, &format!("SET ROLE b; BEGIN; {sql}; ROLLBACK; RESET ROLE; SET ROLE c; BEGIN; SET ROLE a; {sql}; ROLLBACK; RESET ROLE"));
    }
    // To give away what is its own a role need only be a member.
    bench.run(&mut session, "GRANT CREATE ON SCHEMA public TO c; SET ROLE c; CREATE TABLE own (v int); ALTER TABLE own OWNER TO a");
}

#[test]
fn a_role_that_is_made_twice_a_member_is_one_once() {
    let (mut bench, mut session) = roles();
    bench.run(&mut session, "CREATE ROLE c IN ROLE a, a, b; REVOKE a FROM c");
    let member_of = &bench.catalog().role_named("c").expect("just made").member_of;
    assert_eq!(member_of.len(), 1, "{member_of:?}");
}

#[test]
fn who_owns_a_schema_drops_what_others_made_in_it() {
    let (mut bench, mut session) = roles();
    bench.run(
        &mut session,
        "CREATE SCHEMA s AUTHORIZATION a; GRANT USAGE, CREATE ON SCHEMA s TO b; SET ROLE b; CREATE TABLE s.t (v int); CREATE INDEX i ON s.t (v);
         CREATE VIEW s.v AS SELECT 1 AS x; CREATE SEQUENCE s.q; CREATE TYPE s.e AS ENUM ('x'); RESET ROLE;
         CREATE ROLE c; GRANT USAGE ON SCHEMA s TO c",
    );
    let dropped = ["INDEX s.i", "VIEW s.v", "TABLE s.t", "SEQUENCE s.q", "TYPE s.e"];
    let refused = |bench: &mut Bench, session: &mut Session, role: &str, sql: &str| {
        bench.run(session, &format!("SET ROLE {role}"));
        let error = bench.fail(session, sql);
        assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE, "{role}: {sql}");
    };
    for object in dropped {
        refused(&mut bench, &mut session, "c", &format!("DROP {object}"));
    }
    // To look into it, or to change it, takes more.
    refused(&mut bench, &mut session, "a", "SELECT v FROM s.t");
    refused(&mut bench, &mut session, "a", "ALTER TABLE s.t ADD COLUMN w int");
    for object in dropped {
        bench.run(&mut session, &format!("DROP {object}"));
    }
}

#[test]
fn roles_are_commented_on_by_who_may_alter_them() {
    let (mut bench, mut session) = roles();
    let refused = |bench: &mut Bench, session: &mut Session, by: &str, on: &str| {
        let set = format!("SET SESSION AUTHORIZATION owner; SET ROLE {by}");
        bench.run(session, &set);
        let outcome = bench.try_run(session, &format!("COMMENT ON ROLE {on} IS 'x'"));
        bench.run(session, "RESET ROLE");
        outcome.is_err()
    };
    bench.run(&mut session, "ALTER ROLE a CREATEROLE");
    assert!(!refused(&mut bench, &mut session, "a", "b"));
    assert!(refused(&mut bench, &mut session, "a", "chief"));
    assert!(refused(&mut bench, &mut session, "b", "b"));
    assert!(refused(&mut bench, &mut session, "b", "owner"));
    assert!(!refused(&mut bench, &mut session, "chief", "owner"));
}

#[test]
fn a_role_that_is_not_there_is_told_where_that_is_no_error() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    let told = bench.run(&mut session, "CREATE ROLE a; DROP ROLE IF EXISTS b, a, c").notices;
    let told: Vec<&str> = told.iter().map(|notice| notice.message()).collect();
    assert_eq!(told, ["role \"b\" does not exist, skipping", "role \"c\" does not exist, skipping"]);
    assert_eq!(bench.fail(&mut session, "DROP ROLE a").state().to_string(), "42704");
}
