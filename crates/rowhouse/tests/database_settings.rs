//! What is said of a tenant's database as a whole: who may enter it, what its sessions start with, what new objects begin with. It
//! outlives a crash.

mod common;

use common::{PASSWORD, Server, connect, run};
use tokio_postgres::Client;

async fn done(client: &Client, script: &str) {
    client.batch_execute(script).await.unwrap_or_else(|error| panic!("{script}: {error:?}"));
}

async fn one(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
}

#[test]
fn settings_grants_and_defaults_of_a_database_outlive_a_crash() {
    let mut server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        for role in ["guest", "stranger"] {
            done(&owner, &format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")).await;
        }
        done(&owner, "ALTER DATABASE acme SET search_path = app, public; CREATE SCHEMA app").await;
        done(&owner, "ALTER ROLE guest IN DATABASE acme SET timezone = 'Asia/Tokyo'").await;
        done(&owner, "REVOKE CONNECT ON DATABASE acme FROM public; GRANT CONNECT ON DATABASE acme TO guest")
            .await;
        done(&owner, "ALTER DEFAULT PRIVILEGES IN SCHEMA app GRANT SELECT ON TABLES TO guest").await;
        done(&owner, "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (p int REFERENCES p)").await;
        done(&owner, "ALTER TABLE c DISABLE TRIGGER ALL; COMMENT ON DATABASE acme IS 'ours'").await;
        done(&owner, "CREATE EXTENSION \"uuid-ossp\" SCHEMA app").await;
    });
    server.kill();
    server.restart();
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(one(&owner, "SHOW search_path").await, "app, public");
        done(&owner, "GRANT USAGE ON SCHEMA app TO guest; CREATE TABLE t AS SELECT 7 AS a").await;
        done(&owner, "INSERT INTO c VALUES (1); ALTER TABLE c ENABLE TRIGGER ALL").await;
        let error = owner.batch_execute("INSERT INTO c VALUES (2)").await.expect_err("it references nothing");
        assert_eq!(error.code().map(|code| code.code()), Some("23503"));

        let guest = server.connect_as("guest", "acme").await.expect("it may enter");
        assert_eq!(one(&guest, "SHOW timezone").await, "Asia/Tokyo");
        assert_eq!(one(&guest, "SELECT a::text FROM app.t").await, "7");
        let refused = connect(&server.url("stranger", "acme")).await.err().expect("it may not enter");
        let refused = refused.as_db_error().expect("the server refuses it");
        assert_eq!(
            (refused.code().code(), refused.message(), refused.detail()),
            (
                "42501",
                "permission denied for database \"acme\"",
                Some("User does not have CONNECT privilege.")
            )
        );
        // The administrator enters as ever, and without the tenant's settings.
        let admin = server.connect_as("admin", "acme").await.expect("the administrator may enter");
        assert_eq!(one(&admin, "SHOW search_path").await, "\"$user\", public");

        for (query, expected) in [
            (
                "SELECT datacl::text FROM pg_database WHERE datname = 'acme'",
                "{=T/acme,acme=CTc/acme,guest=c/acme}",
            ),
            (
                "SELECT string_agg(concat_ws('/', datname, setconfig[1]), ' ' ORDER BY setrole) FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase",
                "acme/search_path=app, public acme/timezone=Asia/Tokyo",
            ),
            (
                "SELECT defaclacl::text FROM pg_default_acl WHERE defaclobjtype = 'r' AND defaclnamespace = 'app'::regnamespace",
                "{guest=r/acme}",
            ),
            ("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'acme'", "ours"),
            (
                "SELECT has_database_privilege('guest', 'acme', 'CONNECT')::text || has_database_privilege('stranger', 'acme', 'CONNECT, CREATE')::text",
                "truefalse",
            ),
            (
                "SELECT string_agg(extname || extversion || extnamespace::regnamespace::text, ' ' ORDER BY extname) FROM pg_extension JOIN pg_available_extensions ON name = extname AND installed_version = extversion",
                "plpgsql1.0pg_catalog uuid-ossp1.1app",
            ),
            (
                "SELECT count(DISTINCT app.uuid_generate_v4())::text || count(DISTINCT gen_random_uuid()) FROM generate_series(1, 1000)",
                "10001000",
            ),
        ] {
            assert_eq!(one(&owner, query).await, expected, "{query}");
        }
    });
}
