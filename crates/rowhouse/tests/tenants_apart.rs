//! What a tenant's role cannot do to another tenant, to the server and to its machine: each attempt has its own SQLSTATE, so that
//! none passes for refused because it is no SQL at all. Connecting elsewhere is in `sessions`.

mod common;

use std::time::{Duration, Instant};

use common::{PASSWORD, Server, run, text};
use tokio_postgres::Client;

/// The SQLSTATE and message of a statement that is refused.
async fn refusal(client: &Client, query: &str) -> (String, String) {
    let Err(error) = client.simple_query(query).await else { panic!("{query} was not refused") };
    let error = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

/// What the owner of `acme` tries, and why it does not succeed. `rival` has a table `secret` and a role `spy`.
const ATTEMPTS: [(&str, &str); 35] = [
    // Another tenant's tables: none of that name here, and no other database within reach.
    ("SELECT * FROM secret", "42P01"),
    ("SELECT * FROM rival.secret", "42P01"),
    ("SELECT * FROM rival.public.secret", "0A000"),
    ("SELECT s.v FROM t, rival.public.secret AS s", "0A000"),
    ("INSERT INTO rival.public.secret VALUES ('x')", "0A000"),
    ("UPDATE rival.public.secret SET v = 'x'", "0A000"),
    ("DELETE FROM rival.public.secret", "0A000"),
    ("COPY rival.public.secret TO STDOUT", "0A000"),
    ("COPY rival.public.secret FROM STDIN", "0A000"),
    ("DROP TABLE rival.public.secret", "0A000"),
    ("TRUNCATE rival.public.secret", "0A000"),
    ("CREATE TABLE rival.public.mine (id int)", "0A000"),
    ("DROP TABLE secret", "42P01"),
    // Roles of others.
    ("SET ROLE spy", "22023"),
    ("SET ROLE rival", "22023"),
    ("SET ROLE admin", "22023"),
    ("SET SESSION AUTHORIZATION rival", "22023"),
    ("SET SESSION AUTHORIZATION admin", "22023"),
    ("GRANT spy TO acme", "42704"),
    ("ALTER ROLE rival PASSWORD 'mine'", "42704"),
    ("GRANT SELECT ON t TO spy", "42704"),
    // Tenants and the server are the administrator's.
    ("CREATE TENANT mine", "42501"),
    ("CREATE TENANT mine FROM TEMPLATE rival", "42501"),
    ("DROP TENANT rival", "42501"),
    ("ALTER TENANT acme SET (cpu = 2)", "42501"),
    ("BACKUP TENANT rival TO STDOUT", "42501"),
    ("SHOW TENANTS", "42501"),
    ("ALTER SERVER SET (policy = 'best_effort')", "42501"),
    ("DROP DATABASE rival", "0A000"),
    // The machine is nobody's.
    ("COPY t TO '/tmp/rowhouse-test-must-not-exist'", "42501"),
    ("COPY t FROM '/etc/passwd'", "42501"),
    ("COPY t TO PROGRAM 'true'", "42501"),
    ("SELECT pg_read_file('/etc/passwd')", "42883"),
    ("SELECT lo_import('/etc/passwd')", "42883"),
    ("LOAD 'anything'", "0A000"),
];

/// Such statements, as those say them who may. A name with its database is refused in one's own, too.
const ALLOWED: [(&str, &[&str]); 2] = [
    (
        "rival",
        &[
            "SELECT * FROM secret",
            "SELECT * FROM public.secret",
            "INSERT INTO public.secret VALUES ('x')",
            "UPDATE public.secret SET v = 'plans'",
            "DELETE FROM public.secret",
            "COPY public.secret TO STDOUT",
            "TRUNCATE public.secret",
            "CREATE TABLE public.mine (id int)",
            "DROP TABLE public.mine",
            "SET ROLE rival",
            "SET SESSION AUTHORIZATION rival",
            "GRANT spy TO rival",
            "ALTER ROLE rival PASSWORD 'secret'",
            "GRANT SELECT ON secret TO spy",
        ],
    ),
    (
        "admin",
        &[
            "CREATE TENANT mine",
            "DROP TENANT mine",
            "CREATE TENANT mine FROM TEMPLATE rival",
            "ALTER TENANT acme SET (cpu = 0.1)",
            "BACKUP TENANT rival TO STDOUT",
            "SHOW TENANTS",
            "ALTER SERVER SET (policy = 'best_effort')",
        ],
    ),
];

#[test]
fn each_attempt_at_what_is_not_ones_own_has_its_sqlstate() {
    let server = Server::with_acme();
    run(async {
        server.create_tenant("rival").await;
        let (acme, rival) = (server.owner("acme").await, server.owner("rival").await);
        acme.batch_execute("CREATE TABLE t (id int)").await.expect("a table");
        rival.batch_execute("CREATE TABLE secret (v text)").await.expect("a table");
        rival.batch_execute("INSERT INTO secret VALUES ('plans')").await.expect("a row");
        let spy = format!("CREATE ROLE spy LOGIN PASSWORD '{PASSWORD}'");
        rival.batch_execute(&spy).await.expect("a role can be made");

        let mut wrong = Vec::new();
        for (query, expected) in ATTEMPTS {
            let (state, message) = refusal(&acme, query).await;
            if state != expected {
                wrong.push(format!("{query}: {state} {message}, not {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        // Nothing came of it.
        assert!(!std::path::Path::new("/tmp/rowhouse-test-must-not-exist").exists());
        assert_eq!(text(&rival, "SELECT string_agg(v, ',') FROM secret").await, "plans");
        assert_eq!(text(&acme, "SELECT count(*) FROM t").await, "0");

        let admin = server.admin().await;
        for (who, queries) in ALLOWED {
            let client = if who == "admin" { &admin } else { &rival };
            for query in queries {
                let refused = if query.ends_with(" TO STDOUT") {
                    client.copy_out(*query).await.err()
                } else {
                    client.simple_query(query).await.err()
                };
                assert!(refused.is_none(), "{who}: {query}: {refused:?}");
            }
        }
    });
}

/// Waits until the view has rows of the tenant.
async fn eventually_told(client: &Client, view: &str, tenant: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let rows = format!("SELECT count(*) FROM rowhouse.{view} WHERE tenant = '{tenant}'");
    while text(client, &rows).await == "0" {
        assert!(Instant::now() < deadline, "{view} tells nothing of {tenant}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn what_is_told_of_the_server_is_told_of_ones_own_tenant_only() {
    let server = Server::with_acme();
    run(async {
        server.create_tenant("rival").await;
        let (acme, rival) = (server.owner("acme").await, server.owner("rival").await);
        for client in [&acme, &rival] {
            client.batch_execute("CREATE TABLE t (id int); INSERT INTO t VALUES (1)").await.expect("a table");
        }
        let admin = server.admin().await;
        for view in ["statements", "tenant_usage", "tenant_waits"] {
            // What is metered is told when a metering interval has ended.
            for tenant in ["acme", "rival"] {
                eventually_told(&admin, view, tenant).await;
            }
            eventually_told(&acme, view, "acme").await;
            let others = format!("SELECT count(*) FROM rowhouse.{view} WHERE tenant <> 'acme'");
            assert_eq!(text(&acme, &others).await, "0", "{view}");
        }
        let (state, message) = refusal(&acme, "SELECT rowhouse.evict('rival')").await;
        assert_eq!(state, "42501", "{message}");
        let (state, message) = refusal(&acme, "SELECT * FROM rowhouse.advise('rival')").await;
        assert_eq!(state, "42501", "{message}");
    });
}
