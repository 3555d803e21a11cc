//! pg_dump 15 and pg_restore: what they write of a tenant makes the same tenant again.

mod common;

use common::{PASSWORD, Server, check_output, clients_folder, run};

/// A server with the shop of `tests/clients/dump` in `acme`, and `twin`, an empty tenant of the same roles.
fn with_shop_and_twin() -> Server {
    let server = Server::with_acme();
    run(async {
        let twin = format!("CREATE TENANT twin OWNER acme PASSWORD '{PASSWORD}'");
        server.admin().await.batch_execute(&twin).await.expect("a tenant can be made");
    });
    check_output(psql(&server, "acme").arg("-f").arg(clients_folder().join("dump/shop.sql")));
    check_output(psql(&server, "twin").args(["-c", "CREATE ROLE clerk LOGIN"]));
    server
}

/// psql as the owner, in one of the two tenants; stops at the first error.
fn psql(server: &Server, database: &str) -> std::process::Command {
    let mut command = server.client_tool("psql", "acme");
    command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]).env("PGDATABASE", database);
    command
}

/// A dump but for the lines that differ from one to the next.
fn dump(server: &Server, database: &str, options: &[&str]) -> String {
    let dump = check_output(server.client_tool("pg_dump", "acme").env("PGDATABASE", database).args(options));
    let constant = |line: &&str| !line.starts_with("\\restrict ") && !line.starts_with("\\unrestrict ");
    dump.lines().filter(constant).collect::<Vec<_>>().join("\n")
}

fn load(server: &Server, database: &str, sql: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, sql).expect("a file can be written");
    check_output(psql(server, database).arg("-f").arg(&file));
}

fn difference<'x>(a: &'x str, b: &'x str) -> Option<(&'x str, &'x str)> {
    let mut lines = a.lines().zip(b.lines());
    let found = lines.find(|(a, b)| a != b);
    found.or((a.lines().count() != b.lines().count()).then_some(("", "one is longer")))
}

/// Constraints that are deferred, and such as do not hold for all rows.
const LATE: &str = "CREATE TABLE late (id int PRIMARY KEY, next int CONSTRAINT next REFERENCES late DEFERRABLE INITIALLY DEFERRED,
         other int CONSTRAINT other REFERENCES late DEFERRABLE, n int);
     INSERT INTO late VALUES (1, 2, NULL, -1), (2, 1, 1, 1);
     SET CONSTRAINTS ALL IMMEDIATE;
     ALTER TABLE late ADD CONSTRAINT positive_n CHECK (n > 0) NOT VALID;
     ALTER TABLE late ADD CONSTRAINT n_of_late FOREIGN KEY (n) REFERENCES late DEFERRABLE INITIALLY DEFERRED NOT VALID;
     COMMENT ON CONSTRAINT positive_n ON late IS 'not of all';
     COMMENT ON CONSTRAINT late_pkey ON late IS 'a key';
     COMMENT ON CONSTRAINT n_of_late ON late IS 'not checked yet';
     COMMENT ON TYPE stock.unit IS 'what is counted'";

/// Indexes of some rows, and of what a function makes of them.
const PARTIAL: &str = "CREATE UNIQUE INDEX paid_once ON orders (customer_id) WHERE state = 'paid';
     CREATE INDEX named ON customer (email) WHERE email IS NOT NULL AND name IN ('Ada', 'Bob');
     CREATE UNIQUE INDEX ON customer (lower(email), upper(name))";

/// An extension, and defaults that call its functions.
const IDENTIFIERS: &str = "CREATE EXTENSION \"uuid-ossp\"; CREATE EXTENSION pgcrypto SCHEMA stock;
     CREATE TABLE identifier (a uuid DEFAULT uuid_generate_v4() PRIMARY KEY, b uuid DEFAULT public.uuid_nil(), c bytea DEFAULT gen_random_bytes(4));
     INSERT INTO identifier DEFAULT VALUES";

/// Columns that are generated from others, behind them and before.
const GENERATED: &str = "CREATE TABLE doubled (twice int GENERATED ALWAYS AS (\"The n\" * 2) STORED, \"The n\" int CHECK (twice < 100),
         shout text GENERATED ALWAYS AS (upper(word) || '!') STORED NOT NULL, word text, UNIQUE (twice));
     INSERT INTO doubled (\"The n\", word) VALUES (1, 'a'), (2, 'b')";

#[test]
fn generated_columns_are_dumped_and_loaded_and_shown() {
    let server = with_shop_and_twin();
    check_output(psql(&server, "acme").args(["-c", GENERATED]));
    for form in [None, Some("--inserts"), Some("--column-inserts")] {
        let options: Vec<&str> = ["-t", "doubled"].into_iter().chain(form).collect();
        let first = dump(&server, "acme", &options);
        assert!(first.contains("GENERATED ALWAYS AS (") && first.contains(") STORED"), "{first}");
        load(&server, "twin", &first);
        let asked = |sql: &str| check_output(psql(&server, "twin").args(["-At", "-c", sql]));
        assert_eq!(asked("SELECT * FROM doubled ORDER BY 1"), "2|1|A!|a\n4|2|B!|b\n");
        assert_eq!(dump(&server, "twin", &options), first);
        assert_eq!(asked("COPY doubled TO STDOUT"), "1\ta\n2\tb\n");
        let attributes = "SELECT attname, attgenerated, atthasdef FROM pg_attribute WHERE attrelid = 'doubled'::regclass AND attnum > 0";
        assert_eq!(
            asked(&format!("{attributes} ORDER BY attnum")),
            "twice|s|t\nThe n||f\nshout|s|t\nword||f\n"
        );
        let columns = "SELECT is_generated, generation_expression IS NOT NULL, column_default FROM information_schema.columns";
        assert_eq!(
            asked(&format!("{columns} WHERE table_name = 'doubled' ORDER BY ordinal_position")),
            "ALWAYS|t|\nNEVER|f|\nALWAYS|t|\nNEVER|f|\n"
        );
        assert!(asked("\\d doubled").contains("generated always as ("), "{}", asked("\\d doubled"));
        asked("DROP TABLE doubled");
    }
}

#[test]
fn a_dump_loads_into_another_tenant_and_is_dumped_alike() {
    let server = with_shop_and_twin();
    check_output(psql(&server, "acme").args(["-c", LATE]));
    check_output(psql(&server, "acme").args(["-c", IDENTIFIERS]));
    check_output(psql(&server, "acme").args(["-c", PARTIAL]));
    let first = dump(&server, "acme", &[]);
    for said in [
        "CREATE TYPE public.order_state AS ENUM",
        "DEFAULT 'open'::public.order_state NOT NULL",
        "DEFAULT 'piece'::stock.unit",
        "CONSTRAINT positive CHECK",
        "JOIN stock.item i USING(code, size)",
        "SEQUENCE NAME public.customer_id_seq",
        "SET DEFAULT nextval('public.orders_id_seq'::regclass)",
        "SELECT pg_catalog.setval('public.ticket', 95, true);",
        "FOREIGN KEY (code, size) REFERENCES stock.item(code, size) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL",
        "USING btree (placed DESC NULLS LAST, customer_id)",
        "CREATE UNIQUE INDEX paid_once ON public.orders USING btree (customer_id) WHERE (state = 'paid'::public.order_state);",
        "CREATE UNIQUE INDEX customer_lower_upper_idx ON public.customer USING btree (lower(email), upper((name)::text));",
        "WHERE ((email IS NOT NULL) AND ((name)::text = ANY ((ARRAY['Ada'::character varying, 'Bob'::character varying])::text[])));",
        "COMMENT ON COLUMN public.customer.name IS 'it''s a name';",
        "ADD CONSTRAINT next FOREIGN KEY (next) REFERENCES public.late(id) DEFERRABLE INITIALLY DEFERRED;",
        "ADD CONSTRAINT other FOREIGN KEY (other) REFERENCES public.late(id) DEFERRABLE;",
        "ADD CONSTRAINT positive_n CHECK ((n > 0)) NOT VALID;",
        "ADD CONSTRAINT n_of_late FOREIGN KEY (n) REFERENCES public.late(id) DEFERRABLE INITIALLY DEFERRED NOT VALID;",
        "COMMENT ON CONSTRAINT positive_n ON public.late IS 'not of all';",
        "COMMENT ON CONSTRAINT late_pkey ON public.late IS 'a key';",
        "COMMENT ON CONSTRAINT n_of_late ON public.late IS 'not checked yet';",
        "COMMENT ON TYPE stock.unit IS 'what is counted';",
        "GRANT SELECT,INSERT ON TABLE public.orders TO clerk;",
        "CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" WITH SCHEMA public;",
        "CREATE EXTENSION IF NOT EXISTS pgcrypto WITH SCHEMA stock;",
        "COMMENT ON EXTENSION pgcrypto IS 'cryptographic functions';",
        "a uuid DEFAULT public.uuid_generate_v4() NOT NULL",
        "b uuid DEFAULT public.uuid_nil()",
        "c bytea DEFAULT stock.gen_random_bytes(4)",
    ] {
        assert!(first.contains(said), "{said}\nis not in\n{first}");
    }
    load(&server, "twin", &first);
    let second = dump(&server, "twin", &[]);
    assert_eq!(difference(&first, &second), None, "{second}");

    let next = "INSERT INTO customer (name) VALUES ('Next') RETURNING id";
    let inserted = check_output(psql(&server, "twin").args(["-At", "-c", next]));
    assert_eq!(inserted.lines().next(), Some("20"), "the identity goes on where it was");
}

#[test]
fn dumps_by_insert_and_archives_load_too() {
    let server = with_shop_and_twin();
    let inserts = dump(&server, "acme", &["--inserts"]);
    assert!(
        inserts.contains("INSERT INTO public.customer OVERRIDING SYSTEM VALUE VALUES (10, "),
        "{inserts}"
    );
    load(&server, "twin", &inserts);
    assert_eq!(difference(&inserts, &dump(&server, "twin", &["--inserts"])), None);

    let dir = tempfile::tempdir().expect("a temporary directory");
    let archive = dir.path().join("shop.dump");
    check_output(server.client_tool("pg_dump", "acme").arg("-Fc").arg("-f").arg(&archive));
    let mut restore = server.client_tool("pg_restore", "acme");
    restore.args(["--clean", "--if-exists", "--exit-on-error", "--dbname", "twin"]).arg(&archive);
    check_output(&mut restore);
    assert_eq!(difference(&inserts, &dump(&server, "twin", &["--inserts"])), None);

    let columns = dump(&server, "acme", &["--column-inserts", "--table", "stock.item", "--data-only"]);
    let row = "INSERT INTO stock.item (code, size, unit, \"Odd Name\", tags) VALUES ('b       ', 2, NULL, NULL, NULL);";
    assert!(columns.contains(row), "{columns}");
}

/// Its workers read the snapshot that the first session exports.
#[test]
fn a_dump_by_several_sessions_loads_too() {
    let server = with_shop_and_twin();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let archive = dir.path().join("shop");
    check_output(server.client_tool("pg_dump", "acme").args(["-Fd", "-j", "2", "-f"]).arg(&archive));
    let mut restore = server.client_tool("pg_restore", "acme");
    restore.args(["-j", "2", "--clean", "--if-exists", "--exit-on-error", "--dbname", "twin"]).arg(&archive);
    check_output(&mut restore);
    let options = ["--inserts"];
    assert_eq!(difference(&dump(&server, "acme", &options), &dump(&server, "twin", &options)), None);
}

/// `postgresql.sql` was written by pg_dump 15.18 of PostgreSQL 15.18 with the same shop.
#[test]
fn a_dump_of_postgresql_loads() {
    let server = with_shop_and_twin();
    let theirs = std::fs::read_to_string(clients_folder().join("dump/postgresql.sql")).expect("a dump");
    load(&server, "twin", &theirs);
    let rows = "SELECT count(*), max(id), (SELECT count(*) FROM open_orders), (SELECT last_value FROM ticket) FROM orders";
    let ours = check_output(psql(&server, "acme").args(["-At", "-c", rows]));
    assert_eq!(check_output(psql(&server, "twin").args(["-At", "-c", rows])), ours);
}
