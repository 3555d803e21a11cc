//! What a session may do and what ends it: authentication, tenants apart, cancel, timeouts, deadlocks, termination.

mod common;

use std::time::{Duration, Instant};

use common::{PASSWORD, Server, connect, run, state, text};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

async fn table_of_two(client: &Client) {
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)")
        .await
        .expect("a table can be made");
}

#[test]
fn who_may_not_enter_is_told_why() {
    let server = Server::with_acme();
    run(async {
        let wrong = format!("postgres://acme:wrong@127.0.0.1:{}/acme", server.port());
        assert_eq!(state(connect(&wrong).await), SqlState::INVALID_PASSWORD);
        let unknown_user = server.connect_as("nobody", "acme").await;
        assert_eq!(state(unknown_user), SqlState::INVALID_PASSWORD);
        let unknown = server.connect_as("acme", "nowhere").await;
        let error = unknown.err().expect("there is no such database");
        assert_eq!(error.code(), Some(&SqlState::INVALID_CATALOG_NAME));
        assert_eq!(
            error.as_db_error().expect("the server's error").message(),
            "database \"nowhere\" does not exist"
        );
    });
}

#[test]
fn a_role_of_one_tenant_cannot_reach_another() {
    let server = Server::with_acme();
    run(async {
        server.create_tenant("rival").await;
        let rival = server.owner("rival").await;
        rival
            .batch_execute("CREATE TABLE secret (v text); INSERT INTO secret VALUES ('plans')")
            .await
            .expect("a table");
        rival.batch_execute("CREATE ROLE spy LOGIN PASSWORD 'secret'").await.expect("a role can be made");

        // By connecting elsewhere with what it knows.
        for (user, database) in
            [("acme", "rival"), ("acme", "rowhouse"), ("spy", "acme"), ("spy", "rowhouse")]
        {
            let refused = state(server.connect_as(user, database).await);
            assert!(
                [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
                    .contains(&refused),
                "{user} to {database}: {refused:?}"
            );
        }
        assert!(server.connect_as("spy", "rival").await.is_ok());

        // By naming what is not its own.
        let acme = server.owner("acme").await;
        for query in [
            "SELECT * FROM secret",
            "SELECT * FROM rival.public.secret",
            "SELECT * FROM rival.secret",
            "INSERT INTO rival.public.secret VALUES ('x')",
            "COPY rival.public.secret TO STDOUT",
            "DROP TABLE rival.public.secret",
            "SET ROLE spy",
            "SET ROLE rival",
            "SET SESSION AUTHORIZATION rival",
            "SET SESSION AUTHORIZATION admin",
            "SET ROLE admin",
            "CREATE TENANT mine",
            "DROP TENANT rival",
            "ALTER TENANT acme SET (cpu = 2)",
            "SHOW TENANTS",
            "DROP DATABASE rival",
            "GRANT spy TO acme",
            "COPY (SELECT 1) TO '/tmp/rowhouse-test-must-not-exist'",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT lo_import('/etc/passwd')",
            "LOAD 'anything'",
        ] {
            assert!(acme.simple_query(query).await.is_err(), "{query} should have been refused");
        }

        // By looking at or touching its sessions.
        let pid: i32 = rival.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
        let seen =
            text(&acme, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'rival' AND query <> ''")
                .await;
        assert_eq!(seen, "0", "another tenant's statements are not shown");
        for function in ["pg_cancel_backend", "pg_terminate_backend"] {
            let touched = acme.simple_query(&format!("SELECT {function}({pid})")).await;
            if touched.is_ok() {
                assert_eq!(text(&acme, &format!("SELECT {function}({pid})")).await, "f", "{function}");
            }
        }
        acme.simple_query("SELECT pg_advisory_lock(1)").await.expect("a lock");
        assert_eq!(
            text(&rival, "SELECT pg_try_advisory_lock(1)").await,
            "t",
            "advisory locks are each tenant's own"
        );
        assert_eq!(text(&rival, "SELECT v FROM secret").await, "plans");
        assert_eq!(text(&acme, "SELECT count(*) FROM pg_class WHERE relname = 'secret'").await, "0");
        assert_eq!(text(&acme, "SELECT count(*) FROM pg_roles WHERE rolname IN ('spy', 'rival')").await, "0");
    });
}

#[test]
fn a_role_without_privileges_is_refused_within_its_tenant() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        table_of_two(&owner).await;
        owner.batch_execute("CREATE ROLE reader LOGIN PASSWORD 'secret'").await.expect("a role can be made");
        let reader = server.connect_as("reader", "acme").await.expect("a role can log in");
        assert_eq!(state(reader.simple_query("SELECT * FROM t").await), SqlState::INSUFFICIENT_PRIVILEGE);
        assert_eq!(
            state(reader.simple_query("SELECT sum(n) FROM t").await),
            SqlState::INSUFFICIENT_PRIVILEGE
        );
        owner.batch_execute("GRANT SELECT ON t TO reader").await.expect("a privilege can be granted");
        assert_eq!(text(&reader, "SELECT count(*) FROM t").await, "2");
        for query in [
            "UPDATE t SET n = 1",
            "DELETE FROM t",
            "INSERT INTO t VALUES (3, 3)",
            "TRUNCATE t",
            "DROP TABLE t",
        ] {
            assert_eq!(state(reader.simple_query(query).await), SqlState::INSUFFICIENT_PRIVILEGE, "{query}");
        }
        owner.batch_execute("REVOKE SELECT ON t FROM reader").await.expect("a privilege can be revoked");
        assert_eq!(state(reader.simple_query("SELECT * FROM t").await), SqlState::INSUFFICIENT_PRIVILEGE);
        assert_eq!(
            state(reader.simple_query("SELECT id, sum(n) FROM t GROUP BY id").await),
            SqlState::INSUFFICIENT_PRIVILEGE
        );
    });
}

#[test]
fn a_cancel_request_ends_the_statement_and_not_the_session() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        table_of_two(&client).await;
        let holder = server.owner("acme").await;
        holder.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").await.expect("a row can be locked");
        for statement in [
            "SELECT pg_sleep(60)",
            "UPDATE t SET n = 2 WHERE id = 1",
            "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
        ] {
            let token = client.cancel_token();
            let begun = Instant::now();
            let (result, ()) = tokio::join!(client.simple_query(statement), async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                token.cancel_query(NoTls).await.expect("a cancel request can be sent");
            });
            let error = result.err().unwrap_or_else(|| panic!("{statement} should have been cancelled"));
            let error = error.as_db_error().expect("the server's error");
            assert_eq!(error.code(), &SqlState::QUERY_CANCELED, "{statement}");
            assert_eq!(error.message(), "canceling statement due to user request");
            assert!(begun.elapsed() < Duration::from_secs(10), "{statement} took {:?}", begun.elapsed());
            assert_eq!(text(&client, "SELECT 1").await, "1");
        }
        // One that comes when nothing runs does nothing.
        client.cancel_token().cancel_query(NoTls).await.expect("a cancel request can be sent");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(text(&client, "SELECT 2").await, "2");
    });
}

#[test]
fn pg_cancel_backend_and_pg_terminate_backend_reach_their_session() {
    let server = Server::with_acme();
    run(async {
        let (one, two) = (server.owner("acme").await, server.owner("acme").await);
        let pid = text(&one, "SELECT pg_backend_pid()").await;
        let (slept, told) = tokio::join!(one.simple_query("SELECT pg_sleep(60)"), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let active = format!("SELECT state || ':' || query FROM pg_stat_activity WHERE pid = {pid}");
            assert_eq!(text(&two, &active).await, "active:SELECT pg_sleep(60)");
            text(&two, &format!("SELECT pg_cancel_backend({pid})")).await
        });
        assert_eq!(told, "t");
        assert_eq!(state(slept), SqlState::QUERY_CANCELED);

        one.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(5)").await.expect("a lock is free");
        assert_eq!(text(&two, &format!("SELECT pg_terminate_backend({pid})")).await, "t");
        let gone = one.simple_query("SELECT 1").await.err().expect("the session has ended");
        assert!(gone.is_closed() || gone.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{gone:?}");
        // What it held is free again.
        two.simple_query("SET statement_timeout = '10s'").await.expect("it can be set");
        two.simple_query("SELECT pg_advisory_lock(5)").await.expect("the lock is free again");
        assert_eq!(text(&two, "SELECT pg_terminate_backend(999999)").await, "f");

        // All that a table shows, as those do who want to be alone: on an analytical thread.
        let three = server.owner("acme").await;
        let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let (slept, told) = tokio::join!(three.simple_query("SELECT pg_sleep(60)"), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            text(&two, &format!("SELECT pg_cancel_backend(pid) {others}")).await
        });
        assert_eq!(told, "t");
        assert_eq!(state(slept), SqlState::QUERY_CANCELED);
        // An engine of arrays would end more than are asked for.
        for chosen in ["ORDER BY pid LIMIT 1", "AND pg_terminate_backend(pid)"] {
            let refused =
                two.simple_query(&format!("SELECT pg_terminate_backend(pid) {others} {chosen}")).await;
            assert_eq!(state(refused), SqlState::FEATURE_NOT_SUPPORTED, "{chosen}");
        }
        let four = server.owner("acme").await;
        let newest = format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid {others} ORDER BY pid DESC LIMIT 1) s"
        );
        assert_eq!(text(&two, &newest).await, "t");
        assert!(four.simple_query("SELECT 1").await.is_err(), "the newest session has ended");
        assert_eq!(text(&three, "SELECT 1").await, "1");
        assert_eq!(text(&two, &format!("SELECT pg_terminate_backend(pid) {others}")).await, "t");
        assert!(three.simple_query("SELECT 1").await.is_err(), "the session has ended");

        // Not those of a role that one is no member of.
        two.batch_execute("CREATE ROLE clerk LOGIN PASSWORD 'x'; SET ROLE clerk").await.expect("a role");
        let _owner = server.owner("acme").await;
        let refused = two.simple_query(&format!("SELECT pg_terminate_backend(pid) {others}")).await;
        assert_eq!(state(refused), SqlState::INSUFFICIENT_PRIVILEGE);
    });
}

#[test]
fn who_looks_what_keeps_a_database_busy_is_answered_while_all_its_threads_are() {
    let server = Server::start_with(&["--workers", "1"]);
    run(async {
        server.create_tenant("acme").await;
        let looks = server.owner("acme").await;
        let mut busy = Vec::new();
        // One more than may run side by side.
        for _ in 0..5 {
            let client = server.owner("acme").await;
            busy.push(tokio::spawn(async move {
                client.simple_query("SELECT count(*) FROM generate_series(1, 100000000000)").await
            }));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let long = "FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()";
        looks.batch_execute("SET statement_timeout = '20s'").await.expect("set");
        assert_eq!(text(&looks, &format!("SELECT count(*) {long}")).await, "5");
        // As psql's \d asks.
        let listed = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'";
        assert_eq!(text(&looks, listed).await, "0");
        assert_eq!(
            looks.simple_query(&format!("SELECT pg_cancel_backend(pid) {long}")).await.map(drop).ok(),
            Some(())
        );
        for query in busy {
            assert_eq!(state(query.await.expect("no panic")), SqlState::QUERY_CANCELED);
        }
    });
}

#[test]
fn timeouts_end_what_they_name() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        table_of_two(&client).await;
        client.batch_execute("SET statement_timeout = 200").await.expect("it can be set");
        let error = client.simple_query("SELECT pg_sleep(60)").await.err().expect("it times out");
        let error = error.as_db_error().expect("the server's error");
        assert_eq!(
            (error.code(), error.message()),
            (&SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
        );
        let heavy = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b";
        assert_eq!(state(client.simple_query(heavy).await), SqlState::QUERY_CANCELED);
        client
            .batch_execute("SET statement_timeout = 0; SET lock_timeout = '150ms'")
            .await
            .expect("it can be set");

        let holder = server.owner("acme").await;
        holder.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").await.expect("a row can be locked");
        assert_eq!(
            state(client.simple_query("UPDATE t SET n = 2 WHERE id = 1").await),
            SqlState::LOCK_NOT_AVAILABLE
        );
        assert_eq!(
            state(client.simple_query("SELECT 1 FROM t WHERE id = 1 FOR UPDATE NOWAIT").await),
            SqlState::LOCK_NOT_AVAILABLE
        );
        let skipped =
            client.query("SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED", &[]).await.expect("it skips");
        assert_eq!(skipped.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [2]);
        assert_eq!(
            state(client.simple_query("ALTER TABLE t ADD COLUMN x int").await),
            SqlState::LOCK_NOT_AVAILABLE
        );
        // Readers wait for nobody.
        assert_eq!(text(&client, "SELECT n FROM t WHERE id = 1").await, "0");
        holder.batch_execute("ROLLBACK").await.expect("it can be rolled back");

        let idle = server.owner("acme").await;
        idle.batch_execute(
            "SET idle_in_transaction_session_timeout = 150; BEGIN; UPDATE t SET n = 9 WHERE id = 1",
        )
        .await
        .expect("a row can be locked");
        tokio::time::sleep(Duration::from_millis(600)).await;
        let gone = idle.simple_query("SELECT 1").await.err().expect("the session has ended");
        assert!(
            gone.is_closed() || gone.code() == Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT),
            "{gone:?}"
        );
        client.simple_query("UPDATE t SET n = 2 WHERE id = 1").await.expect("the lock is free again");
        assert_eq!(text(&client, "SELECT n FROM t WHERE id = 1").await, "2");
    });
}

#[test]
fn a_deadlock_ends_one_of_the_two() {
    let server = Server::with_acme();
    run(async {
        let (one, two) = (server.owner("acme").await, server.owner("acme").await);
        table_of_two(&one).await;
        one.batch_execute("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await.expect("a row can be locked");
        two.batch_execute("BEGIN; UPDATE t SET n = n + 1 WHERE id = 2").await.expect("a row can be locked");
        let (first, second) = tokio::join!(
            async {
                let result = one.batch_execute("UPDATE t SET n = n + 1 WHERE id = 2").await;
                one.batch_execute("COMMIT").await.expect("a transaction can be ended");
                result
            },
            async {
                let result = two.batch_execute("UPDATE t SET n = n + 1 WHERE id = 1").await;
                two.batch_execute("COMMIT").await.expect("a transaction can be ended");
                result
            }
        );
        let failed = [first, second].into_iter().filter_map(Result::err).collect::<Vec<_>>();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].code(), Some(&SqlState::T_R_DEADLOCK_DETECTED));
        assert_eq!(text(&one, "SELECT sum(n) FROM t").await, "2");
    });
}

#[test]
fn a_session_that_vanishes_leaves_no_lock() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        table_of_two(&client).await;
        let url = server.url("acme", "acme");
        let (lost, connection) = tokio_postgres::connect(&url, NoTls).await.expect("it connects");
        let task = tokio::spawn(connection);
        lost.batch_execute("BEGIN; DELETE FROM t").await.expect("rows can be locked");
        task.abort();
        drop(lost);
        client.batch_execute("SET lock_timeout = '10s'").await.expect("it can be set");
        client.batch_execute("UPDATE t SET n = 5").await.expect("the locks are free again");
        assert_eq!(text(&client, "SELECT sum(n) FROM t").await, "10");
    });
}

#[test]
fn an_ordered_end_tells_sessions_and_keeps_their_commits() {
    let mut server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        table_of_two(&client).await;
        client.batch_execute("BEGIN; UPDATE t SET n = 77").await.expect("a transaction is open");
        assert!(server.terminate().success());
        let told = client.simple_query("SELECT 1").await.err().expect("the session has ended");
        assert!(told.is_closed() || told.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{told:?}");
        server.restart();
        let client = server.owner("acme").await;
        assert_eq!(text(&client, "SELECT sum(n) FROM t").await, "0");
    });
}

#[test]
fn passwords_change_and_roles_are_dropped() {
    let server = Server::with_acme();
    run(async {
        let admin = server.admin().await;
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE ROLE app LOGIN PASSWORD 'old'").await.expect("a role can be made");
        let url = |password: &str| format!("postgres://app:{password}@127.0.0.1:{}/acme", server.port());
        assert!(connect(&url("old")).await.is_ok());
        owner.batch_execute("ALTER ROLE app PASSWORD 'new'").await.expect("a password can be changed");
        assert_eq!(state(connect(&url("old")).await), SqlState::INVALID_PASSWORD);
        assert!(connect(&url("new")).await.is_ok());
        owner.batch_execute("ALTER ROLE app NOLOGIN").await.expect("a role can be changed");
        assert!(connect(&url("new")).await.is_err());
        owner.batch_execute("DROP ROLE app").await.expect("a role can be dropped");
        assert_eq!(state(connect(&url("new")).await), SqlState::INVALID_PASSWORD);
        assert_eq!(PASSWORD, "secret");
        // The administrator enters every tenant.
        let inside = server.connect_as("admin", "acme").await.expect("the administrator enters");
        assert_eq!(text(&inside, "SELECT current_database()").await, "acme");
        drop((owner, inside));
        // The sessions that were given up take a moment to end.
        let begun = Instant::now();
        while let Err(error) = admin.batch_execute("DROP TENANT acme").await {
            assert_eq!(error.code(), Some(&SqlState::OBJECT_IN_USE), "{error:?}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{error:?}");
        }
        assert_eq!(state(server.connect_as("acme", "acme").await), SqlState::INVALID_CATALOG_NAME);
    });
}

#[test]
fn a_session_that_a_pool_gives_on_knows_nothing_of_who_had_it() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        table_of_two(&owner).await;
        owner.batch_execute("CREATE ROLE app; CREATE ROLE other").await.expect("roles can be made");
        let who = "SELECT current_user || ' ' || session_user || ' ' || current_setting('is_superuser')";
        // The same on an analytical thread.
        let who_there = format!("{who} FROM generate_series(1, 3) g GROUP BY 1");
        let prepared = owner.prepare("SELECT n FROM t WHERE id = $1").await.expect("it can be prepared");
        assert!(owner.query_one(&prepared, &[&1]).await.is_ok());

        owner.batch_execute("BEGIN; SET LOCAL ROLE app").await.expect("a role can be chosen");
        for asked in [who, &who_there] {
            assert_eq!(text(&owner, asked).await, "app acme off");
        }
        assert_eq!(state(owner.query_one(&prepared, &[&1]).await), SqlState::INSUFFICIENT_PRIVILEGE);
        owner.batch_execute("ROLLBACK").await.expect("it can be rolled back");
        assert!(owner.query_one(&prepared, &[&1]).await.is_ok());

        let left = "SET SESSION AUTHORIZATION app; SET app.user_id = '7'; SET search_path = elsewhere";
        owner.batch_execute(left).await.expect("settings can be set");
        assert_eq!(text(&owner, who).await, "app app off");
        owner.batch_execute("DISCARD ALL").await.expect("all can be discarded");
        for asked in [who, &who_there] {
            assert_eq!(text(&owner, asked).await, "acme acme on");
        }
        assert_eq!(state(owner.simple_query("SHOW app.user_id").await), SqlState::UNDEFINED_OBJECT);
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, "2");
    });
}
