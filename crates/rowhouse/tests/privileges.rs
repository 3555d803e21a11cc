//! What roles may do to each other, and what needs a privilege: sequences, schemas, membership.

mod common;

use common::{Server, connect, run, state, text};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// SQLSTATE and message of a statement that must fail.
async fn refused(client: &Client, statement: &str) -> String {
    match client.simple_query(statement).await {
        Ok(_) => panic!("{statement} should have been refused"),
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
            format!("{} {}", error.code().code(), error.message())
        }
    }
}

async fn done(client: &Client, script: &str) {
    client.batch_execute(script).await.unwrap_or_else(|error| panic!("{script}: {error:?}"));
}

#[test]
fn who_makes_roles_cannot_become_a_superuser() {
    let server = Server::with_acme();
    run(async {
        // The owner of a tenant, and the server's administrator.
        for (superuser, database) in [("acme", "acme"), ("admin", "rowhouse")] {
            let above = server.connect_as(superuser, database).await.expect("a superuser may enter");
            done(&above, "CREATE ROLE clerk LOGIN CREATEROLE PASSWORD 'secret'; CREATE ROLE chief SUPERUSER")
                .await;
            done(&above, "CREATE ROLE staff; CREATE ROLE copier REPLICATION").await;
            let clerk = server.connect_as("clerk", database).await.expect("a role may enter");
            let alter = "must be superuser to alter superuser roles or change superuser attribute";
            let others = "must be superuser to alter superusers";
            let replication = "must be superuser to alter replication roles or change replication attribute";
            for (statement, message) in [
                ("ALTER ROLE $ PASSWORD 'mine'", alter),
                ("ALTER ROLE $ NOLOGIN", alter),
                ("ALTER ROLE $ NOSUPERUSER", alter),
                ("ALTER ROLE chief LOGIN PASSWORD 'mine'", alter),
                ("ALTER ROLE clerk SUPERUSER", alter),
                ("ALTER ROLE clerk REPLICATION", replication),
                ("ALTER ROLE copier PASSWORD 'mine'", replication),
                ("ALTER ROLE clerk BYPASSRLS", "must be superuser to change bypassrls attribute"),
                ("ALTER ROLE $ SET search_path = 'mine'", others),
                ("ALTER ROLE $ RESET search_path", others),
                ("ALTER ROLE $ RESET ALL", others),
                ("ALTER ROLE $ RENAME TO gone", "must be superuser to rename superusers"),
                ("ALTER ROLE chief RENAME TO gone", "must be superuser to rename superusers"),
                ("DROP ROLE $", "must be superuser to drop superusers"),
                ("DROP ROLE chief", "must be superuser to drop superusers"),
                ("GRANT $ TO clerk", others),
                ("GRANT staff, $ TO clerk", others),
                ("REVOKE $ FROM clerk", others),
                ("ALTER GROUP $ ADD USER clerk", others),
                ("CREATE ROLE more IN ROLE chief", others),
                ("CREATE ROLE more SUPERUSER", "must be superuser to create superusers"),
                ("CREATE ROLE more REPLICATION", "must be superuser to create replication users"),
                ("CREATE ROLE more BYPASSRLS", "must be superuser to create bypassrls users"),
                ("GRANT staff TO clerk GRANTED BY $", "must be superuser to set grantor"),
                ("SET ROLE $", "permission denied to set role \"$\""),
            ] {
                let (statement, message) =
                    (statement.replace('$', superuser), message.replace('$', superuser));
                assert_eq!(refused(&clerk, &statement).await, format!("42501 {message}"), "{statement}");
            }
            // Membership goes by GRANT.
            assert!(
                refused(&clerk, &format!("ALTER ROLE clerk IN ROLE {superuser}")).await.starts_with("42601")
            );
            // Its own work it can do.
            done(
                &clerk,
                "CREATE ROLE teller LOGIN PASSWORD 'secret' IN ROLE staff; ALTER ROLE teller CREATEDB NOLOGIN;
                 ALTER ROLE teller RENAME TO cashier; REVOKE staff FROM cashier; GRANT staff TO clerk;
                 DROP ROLE cashier",
            )
            .await;
            assert_eq!(text(&above, "SELECT count(*) FROM pg_roles WHERE rolsuper").await, "2");
            let still = server.connect_as(superuser, database).await;
            assert!(still.is_ok(), "its password is what it was");
            done(&above, "DROP ROLE chief; DROP ROLE copier").await;
        }
    });
}

#[test]
fn a_role_changes_its_own_password_and_settings_and_no_more() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(&owner, "CREATE ROLE clerk LOGIN PASSWORD 'secret'; CREATE ROLE other").await;
        let clerk = server.connect_as("clerk", "acme").await.expect("a role may enter");
        done(&clerk, "ALTER ROLE clerk PASSWORD 'new'; ALTER ROLE clerk SET application_name = 'till'").await;
        assert_eq!(state(server.connect_as("clerk", "acme").await), SqlState::INVALID_PASSWORD);
        let url = server.url("clerk", "acme").replace(":secret@", ":new@");
        let again = connect(&url).await.expect("the new password is in force");
        assert_eq!(text(&again, "SHOW application_name").await, "till");
        for (statement, message) in [
            ("ALTER ROLE clerk CREATEROLE", "permission denied"),
            ("ALTER ROLE clerk PASSWORD 'x' VALID UNTIL 'infinity'", "permission denied"),
            ("ALTER ROLE other PASSWORD 'x'", "permission denied"),
            ("ALTER ROLE other SET application_name = 'x'", "permission denied"),
            ("ALTER ROLE other RESET ALL", "permission denied"),
            ("ALTER ROLE other RENAME TO x", "permission denied to rename role"),
            ("CREATE ROLE x", "permission denied to create role"),
            ("DROP ROLE other", "permission denied to drop role"),
            ("GRANT other TO clerk", "must have admin option on role \"other\""),
        ] {
            assert_eq!(refused(&clerk, statement).await, format!("42501 {message}"), "{statement}");
        }
        // The second of two settings goes too.
        done(&clerk, "ALTER ROLE clerk SET DateStyle = 'German'; ALTER ROLE clerk RESET ALL").await;
        let again = connect(&url).await.expect("the new password is in force");
        assert_eq!(text(&again, "SHOW application_name").await, "");
        assert_eq!(text(&again, "SHOW DateStyle").await, "ISO, MDY");
        assert_eq!(
            refused(&owner, "ALTER ROLE acme RENAME TO x").await,
            "0A000 session user cannot be renamed"
        );
        done(&owner, "ALTER ROLE acme PASSWORD 'secret'").await;

        // PostgreSQL's other kind of digest tells nothing that a login here could be held against.
        let digest = "PASSWORD 'md5827ccb0eea8a706c4c34a16891f84e7b'";
        let said = "0A000 a password that is an MD5 digest is not supported";
        assert_eq!(refused(&owner, &format!("CREATE ROLE old LOGIN {digest}")).await, said);
        let admin = server.admin().await;
        assert_eq!(refused(&admin, &format!("CREATE TENANT old {digest}")).await, said);
    });
}

#[test]
fn sequences_ask_for_privileges() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE TABLE s (id serial PRIMARY KEY, n int); CREATE SEQUENCE q; CREATE ROLE clerk LOGIN PASSWORD 'secret';
             CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int); GRANT INSERT ON s, i TO clerk",
        )
        .await;
        let clerk = server.connect_as("clerk", "acme").await.expect("a role may enter");
        let denied = "42501 permission denied for sequence q";

        // A serial column's default is evaluated for whoever inserts, an identity is its table's.
        assert_eq!(
            refused(&clerk, "INSERT INTO s (n) VALUES (1)").await,
            "42501 permission denied for sequence s_id_seq"
        );
        done(&clerk, "INSERT INTO s (id, n) VALUES (77, 1); INSERT INTO i (n) VALUES (1), (2)").await;
        done(&owner, "GRANT USAGE ON SEQUENCE s_id_seq TO clerk").await;
        done(&clerk, "INSERT INTO s (n) VALUES (1), (2)").await;
        assert_eq!(text(&owner, "SELECT string_agg(id::text, ',' ORDER BY id) FROM s").await, "1,2,77");
        assert_eq!(text(&owner, "SELECT string_agg(id::text, ',' ORDER BY id) FROM i").await, "1,2");
        assert_eq!(
            refused(&clerk, "SELECT nextval('i_id_seq')").await,
            "42501 permission denied for sequence i_id_seq"
        );

        let (next, current, last, set) =
            ("SELECT nextval('q')", "SELECT currval('q')", "SELECT lastval()", "SELECT setval('q', 10)");
        for statement in [next, current, set, "SELECT setval('q', 10, false)"] {
            assert_eq!(refused(&clerk, statement).await, denied, "{statement}");
        }
        done(&owner, "GRANT USAGE ON SEQUENCE q TO clerk").await;
        for statement in [next, current, last] {
            assert_eq!(text(&clerk, statement).await, "1", "{statement}");
        }
        assert_eq!(refused(&clerk, set).await, denied);
        done(&owner, "REVOKE ALL ON SEQUENCE q FROM clerk").await;
        for statement in [next, current, last, set] {
            assert_eq!(refused(&clerk, statement).await, denied, "{statement}");
        }
        done(&owner, "GRANT SELECT ON SEQUENCE q TO clerk").await;
        for statement in [current, last] {
            assert_eq!(text(&clerk, statement).await, "1", "{statement}");
        }
        for statement in [next, set] {
            assert_eq!(refused(&clerk, statement).await, denied, "{statement}");
        }
        done(&owner, "GRANT UPDATE ON SEQUENCE q TO PUBLIC").await;
        assert_eq!(text(&clerk, set).await, "10");
        assert_eq!(text(&clerk, next).await, "11");
        assert_eq!(text(&owner, next).await, "12");
        let admin = server.connect_as("admin", "acme").await.expect("the administrator enters");
        assert_eq!(text(&admin, next).await, "13");
    });
}

#[test]
fn what_is_in_a_schema_is_named_with_usage_only() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE SCHEMA hidden; CREATE TABLE hidden.t (v text); INSERT INTO hidden.t VALUES ('hidden');
             CREATE TABLE t (v text); INSERT INTO t VALUES ('public'); CREATE VIEW shown AS SELECT v FROM hidden.t;
             CREATE ROLE reader LOGIN PASSWORD 'secret'; GRANT SELECT ON shown TO reader;
             GRANT SELECT, INSERT, TRUNCATE ON hidden.t, t TO reader",
        )
        .await;
        let reader = server.connect_as("reader", "acme").await.expect("a role may enter");
        let denied = "42501 permission denied for schema hidden";
        // The second of two like these runs on the analytical path.
        let (named, named_there) = ("SELECT v FROM hidden.t", "SELECT v, row_number() OVER () FROM hidden.t");
        let (bare, bare_there) = ("SELECT v FROM t", "SELECT v, row_number() OVER () FROM t");
        let (view, view_there) = ("SELECT v FROM shown", "SELECT v, row_number() OVER () FROM shown");
        for statement in [
            named,
            named_there,
            "EXPLAIN SELECT v FROM hidden.t",
            "INSERT INTO hidden.t VALUES ('x')",
            "INSERT INTO t SELECT v FROM hidden.t",
            "COPY hidden.t FROM STDIN",
            "COPY hidden.t TO STDOUT",
            "TRUNCATE hidden.t",
            "CREATE TABLE hidden.u (a int)",
        ] {
            assert_eq!(refused(&reader, statement).await, denied, "{statement}");
        }
        // A view stands for its owner.
        for statement in [view, view_there] {
            assert_eq!(text(&reader, statement).await, "hidden", "{statement}");
        }

        // A schema of the search path that cannot be used is passed over.
        done(&reader, "SET search_path = hidden, public").await;
        let prepared = reader.prepare(bare).await.expect("it can be prepared");
        let first = async || reader.query_one(&prepared, &[]).await.expect("a row").get::<_, String>(0);
        for statement in [bare, bare_there, "SELECT current_schema()"] {
            assert_eq!(text(&reader, statement).await, "public", "{statement}");
        }
        assert_eq!(first().await, "public");
        done(&owner, "GRANT USAGE ON SCHEMA hidden TO reader").await;
        for statement in [bare, bare_there, named, named_there, view, view_there, "SELECT current_schema()"] {
            assert_eq!(text(&reader, statement).await, "hidden", "{statement}");
        }
        assert_eq!(first().await, "hidden");
        done(&reader, "INSERT INTO hidden.t VALUES ('x')").await;
        done(&reader, "TRUNCATE hidden.t").await;
        assert_eq!(refused(&reader, "CREATE TABLE hidden.u (a int)").await, denied);
        done(&owner, "REVOKE USAGE ON SCHEMA hidden FROM reader").await;
        assert_eq!(first().await, "public");
        assert_eq!(refused(&reader, named).await, denied);

        // `public` is everybody's until that is taken back; a schema's owner needs no grant.
        done(
            &owner,
            "CREATE ROLE keeper LOGIN PASSWORD 'secret'; CREATE SCHEMA kept AUTHORIZATION keeper;
             GRANT USAGE ON SCHEMA kept TO reader; REVOKE USAGE ON SCHEMA public FROM PUBLIC",
        )
        .await;
        assert_eq!(refused(&reader, bare).await, "42P01 relation \"t\" does not exist");
        assert_eq!(
            refused(&reader, "SELECT v FROM public.t").await,
            "42501 permission denied for schema public"
        );
        let keeper = server.connect_as("keeper", "acme").await.expect("a role may enter");
        done(&keeper, "CREATE TABLE kept.t (v text); INSERT INTO kept.t VALUES ('kept')").await;
        assert_eq!(text(&keeper, "SELECT v FROM kept.t").await, "kept");
        done(&keeper, "GRANT SELECT ON kept.t TO reader").await;
        assert_eq!(text(&reader, "SELECT v FROM kept.t").await, "kept");
    });
}

#[test]
fn membership_is_passed_on_with_the_admin_option_only() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE ROLE team; CREATE ROLE mate; CREATE ROLE head LOGIN PASSWORD 'secret';
             CREATE ROLE club ADMIN head; GRANT team TO head WITH ADMIN OPTION; GRANT team TO head",
        )
        .await;
        let head = server.connect_as("head", "acme").await.expect("a role may enter");
        done(&head, "GRANT team, club TO mate; REVOKE team FROM mate").await;
        for (role, members) in [("club", "1"), ("team", "0")] {
            let of_mate = format!(
                "SELECT count(*) FROM information_schema.applicable_roles
                 WHERE grantee = 'mate' AND role_name = '{role}'"
            );
            assert_eq!(text(&owner, &of_mate).await, members, "{role}");
        }
        done(&owner, "REVOKE ADMIN OPTION FOR team FROM head").await;
        for statement in ["GRANT team TO mate", "REVOKE team FROM head"] {
            assert_eq!(
                refused(&head, statement).await,
                "42501 must have admin option on role \"team\"",
                "{statement}"
            );
        }
        done(&owner, "GRANT team TO mate GRANTED BY head").await;
        assert_eq!(
            refused(&owner, "GRANT team TO mate GRANTED BY nobody").await,
            "42704 role \"nobody\" does not exist"
        );
    });
}

#[test]
fn clauses_without_a_meaning_here_are_refused() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE ROLE clerk; CREATE TABLE t (v text); GRANT SELECT ON t TO clerk GRANTED BY CURRENT_USER",
        )
        .await;
        done(&owner, "REVOKE SELECT ON t FROM clerk CASCADE; ALTER ROLE clerk CONNECTION LIMIT -1").await;
        for (statement, expected) in [
            ("GRANT SELECT ON t TO clerk WITH GRANT OPTION", "0A000 WITH GRANT OPTION is not supported"),
            ("GRANT SELECT ON t TO clerk GRANTED BY clerk", "0A000 grantor must be current user"),
            ("ALTER ROLE clerk CONNECTION LIMIT 3", "0A000 CONNECTION LIMIT of a role is not supported"),
            ("CREATE ROLE more CONNECTION LIMIT -2", "22023 invalid connection limit: -2"),
            (
                "COPY t FROM STDIN (FORMAT csv, FORCE_NOT_NULL *)",
                "22023 argument to option \"force_not_null\" must be a list of column names",
            ),
        ] {
            assert_eq!(refused(&owner, statement).await, expected, "{statement}");
        }
    });
}

#[test]
fn an_administrator_that_acts_as_a_role_is_shown_and_may_what_that_one_is() {
    let server = Server::with_acme();
    run(async {
        let _elsewhere = server.admin().await;
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE TABLE t (v text); INSERT INTO t VALUES ('seen'); CREATE ROLE clerk; CREATE ROLE guest",
        )
        .await;
        let admin = server.connect_as("admin", "acme").await.expect("the administrator enters");
        // On the point path, and on the analytical one.
        let (here, there) = ("SELECT v FROM t", "SELECT v, row_number() OVER () FROM t");
        let databases = "SELECT count(DISTINCT datname)::text FROM pg_stat_activity";
        let has = "SELECT has_table_privilege('t', 'SELECT')::text || has_table_privilege('guest', 't', 'SELECT')::text";
        let ledger = "SELECT count(*)::text FROM rowhouse.tenant_usage WHERE tenant <> 'acme'";
        // The usage of others is there when the first interval has been metered.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while text(&admin, ledger).await == "0" {
            assert!(std::time::Instant::now() < deadline, "nothing was metered");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        for _ in 0..2 {
            for statement in [here, there] {
                assert_eq!(text(&admin, statement).await, "seen");
            }
            assert_eq!(text(&admin, has).await, "truefalse");
            assert_eq!(text(&admin, databases).await, "2");
            assert_ne!(text(&admin, ledger).await, "0");
            done(&admin, "SET ROLE clerk").await;
            for statement in [here, there] {
                assert_eq!(refused(&admin, statement).await, "42501 permission denied for table t");
            }
            assert_eq!(text(&admin, has).await, "falsefalse");
            assert_eq!(text(&admin, databases).await, "1");
            assert_eq!(text(&admin, ledger).await, "0");
            done(&admin, "RESET ROLE").await;
        }
        // Who acts as a role that is gone has its privileges no more, and nobody else's.
        done(&admin, "SET ROLE clerk").await;
        done(&owner, "DROP ROLE clerk").await;
        for statement in [here, there] {
            assert_eq!(refused(&admin, statement).await, "42501 permission denied for table t");
        }
        // In its own database neither.
        let admin = server.admin().await;
        done(&admin, "CREATE ROLE guest; SET ROLE guest").await;
        let refusal = refused(&admin, "SHOW TENANTS").await;
        assert!(refusal.starts_with("42501 tenants and the server are administered"), "{refusal}");
        done(&admin, "SET SESSION AUTHORIZATION guest; SET SESSION AUTHORIZATION admin; SHOW TENANTS").await;
    });
}

/// Expectations are PostgreSQL 15's.
#[test]
fn what_a_role_may_do_is_told_of_everybody_too_and_unknown_names_are_errors() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE ROLE guest LOGIN PASSWORD 'secret'; CREATE ROLE chief; CREATE ROLE staff; GRANT staff TO guest WITH ADMIN OPTION;
             ALTER ROLE acme NOSUPERUSER; CREATE SCHEMA s; CREATE TABLE t (a int, b text); CREATE SEQUENCE q;
             GRANT SELECT ON t TO PUBLIC; GRANT INSERT ON t TO staff; GRANT USAGE ON SCHEMA s TO PUBLIC; GRANT CREATE ON DATABASE acme TO staff",
        )
        .await;
        for (call, expected) in [
            ("database_privilege('public', 'acme', 'connect')", "true"),
            ("database_privilege('public', 'acme', 'CREATE')", "false"),
            ("database_privilege('guest', 'acme', 'CREATE')", "true"),
            ("database_privilege('chief', 'acme', 'CREATE')", "false"),
            ("database_privilege('chief', 'acme', ' create , Temp')", "true"),
            ("database_privilege('guest', 'acme', 'CREATE WITH GRANT OPTION')", "false"),
            ("database_privilege('acme', 'acme', 'CREATE WITH GRANT OPTION')", "true"),
            ("database_privilege('acme', 'TEMPORARY WITH GRANT OPTION')", "true"),
            ("database_privilege('guest'::name, 1879048192::oid, 'CREATE')", "true"),
            (
                "database_privilege((SELECT oid FROM pg_roles WHERE rolname = 'guest'), 'acme', 'CREATE')",
                "true",
            ),
            ("database_privilege(1879048192::oid, 'CONNECT')", "true"),
            ("database_privilege(77777::oid, 'CONNECT')", "NULL"),
            ("database_privilege('guest', NULL, 'CONNECT')", "NULL"),
            ("table_privilege('public', 't', 'SELECT')", "true"),
            ("table_privilege('public', 't', 'INSERT')", "false"),
            ("table_privilege('guest', 'public.t', 'insert')", "true"),
            ("table_privilege('guest', 't', 'RULE')", "false"),
            ("table_privilege('guest', 't', 'INSERT WITH GRANT OPTION')", "false"),
            ("table_privilege('t', 'UPDATE WITH GRANT OPTION')", "true"),
            ("table_privilege('guest', 't'::regclass, 'UPDATE, DELETE, INSERT')", "true"),
            ("table_privilege(77777::oid, 'SELECT')", "NULL"),
            ("any_column_privilege('public', 't', 'SELECT')", "true"),
            ("column_privilege('public', 't', 'b', 'SELECT')", "true"),
            ("column_privilege('guest', 't', 2::smallint, 'UPDATE')", "false"),
            ("column_privilege('guest', 't', 9::smallint, 'UPDATE')", "NULL"),
            ("sequence_privilege('public', 'q', 'USAGE')", "false"),
            ("sequence_privilege('q', 'USAGE WITH GRANT OPTION')", "true"),
            ("schema_privilege('public', 's', 'USAGE')", "true"),
            ("schema_privilege('guest', 's', 'CREATE')", "false"),
            ("schema_privilege('s', 'CREATE, USAGE WITH GRANT OPTION')", "true"),
            ("schema_privilege(77777::oid, 'USAGE')", "NULL"),
            ("function_privilege('public', 'lower(text)', 'EXECUTE')", "true"),
            ("function_privilege('guest', 'lower(text)', 'EXECUTE WITH GRANT OPTION')", "false"),
            ("type_privilege('public', 'integer', 'USAGE')", "true"),
            ("language_privilege('guest', 'sql', 'USAGE')", "true"),
            ("language_privilege('guest', 'internal', 'USAGE')", "true"),
            ("tablespace_privilege('guest', 'pg_default', 'CREATE')", "false"),
        ] {
            let query = format!("SELECT coalesce(has_{call}::text, 'NULL')");
            assert_eq!(text(&owner, &query).await, expected, "{call}");
        }
        for (call, expected) in [
            ("('guest', 'staff', 'MEMBER')", "true"),
            ("('guest', 'staff', 'USAGE WITH ADMIN OPTION')", "true"),
            ("('chief', 'staff', 'USAGE, MEMBER')", "false"),
            ("('acme', 'MEMBER')", "true"),
        ] {
            assert_eq!(text(&owner, &format!("SELECT pg_has_role{call}::text")).await, expected, "{call}");
        }
        for (call, error) in [
            ("has_database_privilege('nobody', 'acme', 'CONNECT')", "42704 role \"nobody\" does not exist"),
            ("has_database_privilege('elsewhere', 'CONNECT')", "3D000 database \"elsewhere\" does not exist"),
            ("has_database_privilege('acme', 'SELECT')", "22023 unrecognized privilege type: \"SELECT\""),
            ("has_database_privilege('acme', 'connect, any')", "22023 unrecognized privilege type: \"any\""),
            ("has_database_privilege(77777::oid, 'any')", "22023 unrecognized privilege type: \"any\""),
            ("has_table_privilege('nobody', 't', 'SELECT')", "42704 role \"nobody\" does not exist"),
            ("has_table_privilege('u', 'SELECT')", "42P01 relation \"u\" does not exist"),
            ("has_table_privilege('t', 'USAGE')", "22023 unrecognized privilege type: \"USAGE\""),
            ("has_any_column_privilege('t', 'DELETE')", "22023 unrecognized privilege type: \"DELETE\""),
            (
                "has_column_privilege('t', 'c', 'SELECT')",
                "42703 column \"c\" of relation \"t\" does not exist",
            ),
            ("has_sequence_privilege('t', 'USAGE')", "42809 \"t\" is not a sequence"),
            ("has_schema_privilege('nowhere', 'USAGE')", "3F000 schema \"nowhere\" does not exist"),
            ("has_schema_privilege('s', 'SELECT')", "22023 unrecognized privilege type: \"SELECT\""),
            ("has_type_privilege('nothing', 'USAGE')", "42704 type \"nothing\" does not exist"),
            ("has_language_privilege('cobol', 'USAGE')", "42704 language \"cobol\" does not exist"),
            ("has_tablespace_privilege('fast', 'CREATE')", "42704 tablespace \"fast\" does not exist"),
            ("pg_has_role('public', 'staff', 'MEMBER')", "42704 role \"public\" does not exist"),
            ("pg_has_role('staff', 'SELECT')", "22023 unrecognized privilege type: \"SELECT\""),
        ] {
            assert_eq!(refused(&owner, &format!("SELECT {call}")).await, error, "{call}");
        }
        // The administrator may do everything that there is.
        let admin = server.connect_as("admin", "acme").await.expect("the administrator enters");
        assert_eq!(
            text(&admin, "SELECT has_database_privilege('acme', 'CREATE WITH GRANT OPTION')::text").await,
            "true"
        );
        assert!(refused(&admin, "SELECT has_table_privilege('u', 'SELECT')").await.starts_with("42P01"));
    });
}

#[test]
fn the_information_schema_shows_what_a_role_may_use() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE ROLE clerk LOGIN PASSWORD 'secret'; CREATE SCHEMA hidden; CREATE TABLE hidden.t (a int); CREATE SEQUENCE q; CREATE SEQUENCE r;
             CREATE TABLE secret (word text PRIMARY KEY CHECK (word <> 'open'));
             CREATE TABLE t (id int PRIMARY KEY CHECK (id > 0), word text REFERENCES secret);
             CREATE VIEW v AS SELECT word FROM secret; CREATE VIEW w AS SELECT id FROM t;
             GRANT SELECT ON t, v TO clerk; GRANT USAGE ON SEQUENCE q TO clerk",
        )
        .await;
        let clerk = server.connect_as("clerk", "acme").await.expect("a role may enter");
        let shown = |view: &str, what: &str, of: &str| {
            format!(
                "SELECT coalesce(string_agg(DISTINCT {what}, ' ' ORDER BY {what}), '') FROM information_schema.{view}
                 WHERE {of} NOT IN ('pg_catalog', 'information_schema', 'rowhouse')"
            )
        };
        for (view, what, of, to_clerk, to_owner) in [
            ("schemata", "schema_name", "schema_name", "public", "hidden public"),
            ("tables", "table_name", "table_schema", "t v", "secret t v w"),
            (
                "columns",
                "table_name || '.' || column_name",
                "table_schema",
                "t.id t.word v.word",
                "secret.word t.a t.id t.word v.word w.id",
            ),
            (
                "views",
                "table_name || ':' || (view_definition IS NULL)::text",
                "table_schema",
                "v:true",
                "v:false w:false",
            ),
            ("sequences", "sequence_name", "sequence_schema", "q", "q r"),
            ("table_constraints", "table_name", "table_schema", "", "secret t"),
            ("key_column_usage", "table_name", "table_schema", "t", "secret t"),
            ("constraint_column_usage", "table_name", "table_schema", "", "secret t"),
            ("constraint_table_usage", "table_name", "table_schema", "", "secret t"),
            ("view_table_usage", "view_name", "view_schema", "", "v w"),
            ("referential_constraints", "constraint_name", "constraint_schema", "", "t_word_fkey"),
            (
                "check_constraints",
                "check_clause",
                "constraint_schema",
                "",
                "((id > 0)) ((word <> 'open')) id IS NOT NULL word IS NOT NULL",
            ),
        ] {
            let query = shown(view, what, of);
            assert_eq!(text(&clerk, &query).await, to_clerk, "{query}");
            assert_eq!(text(&owner, &query).await, to_owner, "{query}");
        }
        done(&owner, "GRANT INSERT ON t TO clerk").await;
        for (view, what, of) in [
            ("table_constraints", "constraint_type", "table_schema"),
            ("referential_constraints", "constraint_name", "constraint_schema"),
        ] {
            let expected =
                if view.starts_with('t') { "CHECK FOREIGN KEY PRIMARY KEY" } else { "t_word_fkey" };
            assert_eq!(text(&clerk, &shown(view, what, of)).await, expected, "{view}");
        }
    });
}

#[test]
fn the_last_values_of_sequences_are_shown_to_who_may_read_them() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        done(
            &owner,
            "CREATE ROLE clerk LOGIN PASSWORD 'secret'; CREATE SEQUENCE fresh; CREATE SEQUENCE used; CREATE SEQUENCE back INCREMENT -1;
             SELECT nextval('used'), nextval('used'), nextval('back'); GRANT USAGE ON SEQUENCE back TO clerk;
             CREATE VIEW positions AS SELECT sequencename, last_value FROM pg_sequences",
        )
        .await;
        let clerk = server.connect_as("clerk", "acme").await.expect("a role may enter");
        for from in ["pg_sequences", "positions"] {
            let query = format!(
                "SELECT string_agg(sequencename || '=' || coalesce(last_value::text, ''), ' ' ORDER BY sequencename) FROM {from}"
            );
            assert_eq!(text(&owner, &query).await, "back=-1 fresh= used=2", "{from}");
            if from == "pg_sequences" {
                assert_eq!(text(&clerk, &query).await, "back=-1 fresh= used=", "{from}");
            }
        }
        // Also within the transaction that moves them on.
        done(&owner, "BEGIN; SELECT setval('fresh', 7), setval('used', 9, false); CREATE SEQUENCE own; SELECT nextval('own')").await;
        let query = "SELECT string_agg(sequencename || '=' || coalesce(last_value::text, ''), ' ' ORDER BY sequencename) FROM pg_sequences";
        assert_eq!(text(&owner, query).await, "back=-1 fresh=7 own=1 used=");
        done(&owner, "ROLLBACK").await;
    });
}
