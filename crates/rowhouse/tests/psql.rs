//! psql 15: its describe commands, `\copy`, `\timing` and `\gdesc`, compared with what it prints against PostgreSQL 15.

mod common;

use common::{Server, check_output, clients_folder, said};

/// psql without its start-up file; stops at the first error.
fn psql(server: &Server) -> std::process::Command {
    let mut command = server.client_tool("psql", "acme");
    command.args(["-X", "-v", "ON_ERROR_STOP=1"]).current_dir(clients_folder().join("psql"));
    command
}

fn with_schema() -> Server {
    let server = Server::with_acme();
    check_output(psql(&server).args(["-q", "-f", "schema.sql"]));
    server
}

/// What psql prints for a command.
fn shows(server: &Server, command: &str) -> String {
    check_output(psql(server).args(["-c", command]))
}

/// The first difference of two texts by lines, in words.
fn difference(expected: &str, found: &str) -> Option<String> {
    let mut lines = expected.lines().zip(found.lines()).enumerate();
    if let Some((at, (expected, found))) = lines.find(|(_, (expected, found))| expected != found) {
        return Some(format!("line {}:\nexpected {expected}\nfound    {found}", at + 1));
    }
    (expected.lines().count() != found.lines().count()).then(|| "one is longer".to_owned())
}

/// `describe.out` was printed by psql 15.18 against PostgreSQL 15.18 with the same schema; only the owner of the schema
/// `public` is another, as each tenant's belongs to the tenant's owner.
#[test]
fn describe_commands_print_what_they_print_against_postgresql() {
    let server = with_schema();
    let output = server
        .client_tool("psql", "acme")
        .args(["-X", "-f", "describe.sql"])
        .current_dir(clients_folder().join("psql"))
        .output()
        .expect("psql can be run");
    let found = said(&output);
    let expected =
        std::fs::read_to_string(clients_folder().join("psql/describe.out")).expect("expected output");
    let difference = difference(&expected, &found);
    assert!(difference.is_none(), "{}\n\nall of it:\n{found}", difference.unwrap_or_default());
}

/// A larger schema (that of the dumps), and every command that describes something.
#[test]
fn every_describe_command_runs() {
    let server = Server::with_acme();
    check_output(psql(&server).args(["-q", "-f"]).arg(clients_folder().join("dump/shop.sql")));
    let said = check_output(psql(&server).args(["-f", "every.sql"]));
    for expected in [
        "\"of_item\" FOREIGN KEY (code, size) REFERENCES stock.item(code, size) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL",
        "TABLE \"orders\" CONSTRAINT \"orders_customer_id_fkey\" FOREIGN KEY (customer_id) REFERENCES customer(id) ON DELETE CASCADE",
        "\"positive\" CHECK (size > 0 AND code <> '')",
        "Sequence for identity column: public.customer.id",
        "Owned by: public.orders.id",
        "'piece'::stock.unit",
        "nextval('orders_id_seq'::regclass)",
        "=U/acme",
        "CREATE OR REPLACE VIEW public.open_orders AS",
    ] {
        assert!(said.contains(expected), "{expected}\nis not in\n{said}");
    }
}

#[test]
fn indexes_are_described_with_their_conditions_functions_and_further_columns() {
    let server = with_schema();
    shows(
        &server,
        "CREATE UNIQUE INDEX one_open ON orders (customer_id) WHERE state = 'open' AND placed IS NULL",
    );
    let described = shows(&server, r"\d orders");
    let expected =
        "\"one_open\" UNIQUE, btree (customer_id) WHERE state = 'open'::order_state AND placed IS NULL";
    assert!(described.contains(expected), "{described}");
    let described = shows(&server, r"\d one_open");
    let expected = "unique, btree, for table \"public.orders\", predicate (state = 'open'::order_state AND placed IS NULL)";
    assert!(described.contains(expected), "{described}");
    shows(&server, "CREATE INDEX by_name ON customer (lower(name), id DESC) INCLUDE (email)");
    let described = shows(&server, r"\d customer");
    let expected = "\"by_name\" btree (lower(name::text), id DESC) INCLUDE (email)";
    assert!(described.contains(expected), "{described}");
    let described = shows(&server, r"\d by_name");
    for (column, is_key, definition) in
        [("lower", "yes", "lower(name::text)"), ("id", "yes", "id"), ("email", "no", "email")]
    {
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let line = described.lines().map(cells).find(|cells| cells[0] == column).expect("it is listed");
        assert_eq!((line[2].as_str(), line[3].as_str()), (is_key, definition), "{described}");
    }
    let listed = shows(&server, "SELECT indexdef FROM pg_indexes WHERE indexname = 'one_open'");
    let expected = "USING btree (customer_id) WHERE ((state = 'open'::order_state) AND (placed IS NULL))";
    assert!(listed.contains(expected), "{listed}");
}

#[test]
fn lists_of_databases_roles_and_functions() {
    let server = with_schema();
    let databases = shows(&server, r"\l");
    assert!(databases.contains("List of databases"), "{databases}");
    let acme = databases.lines().find(|line| line.starts_with(" acme ")).expect("the own database is listed");
    let cells: Vec<&str> = acme.split('|').map(str::trim).collect();
    assert_eq!(cells[..5], ["acme", "acme", "UTF8", "C.UTF-8", "C.UTF-8"], "{databases}");

    let roles = shows(&server, r"\du");
    assert!(roles.contains("List of roles") && roles.contains(" acme "), "{roles}");

    let functions = shows(&server, r"\df");
    assert!(functions.contains("List of functions") && functions.contains("(0 rows)"), "{functions}");
    let one = shows(&server, r"\df pg_catalog.lower");
    assert!(one.contains("lower") && one.contains("text"), "{one}");

    let types = shows(&server, r"\dT");
    assert!(types.contains("order_state"), "{types}");
    let privileges = shows(&server, r"\dp customer");
    assert!(privileges.contains("customer") && privileges.contains("table"), "{privileges}");
}

/// The administrator sees databases whose size is not known where they are listed.
#[test]
fn the_administrator_lists_all_databases_with_their_sizes() {
    let server = Server::with_acme();
    let mut command = psql(&server);
    command.env("PGUSER", "admin").env("PGDATABASE", "rowhouse").args(["-c", r"\l+"]);
    let said = check_output(&mut command);
    assert!(said.lines().any(|line| line.starts_with(" acme ")), "{said}");
}

#[test]
fn copy_both_ways_keeps_every_row() {
    let server = Server::with_acme();
    shows(&server, "CREATE TABLE t (id int PRIMARY KEY, note text, price numeric(8,2), seen timestamp)");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    let rows = "1\tplain\t1.50\t2024-02-29 12:00:00\n2\ttab\\there\\nand line\t\\N\t\\N\n3\t\\N\t-0.01\t1999-12-31 23:59:59.5\n";
    std::fs::write(&from, rows).expect("a file can be written");
    let said = shows(&server, &format!(r"\copy t from '{}'", from.display()));
    assert_eq!(said.trim(), "COPY 3");
    let said = shows(&server, &format!(r"\copy (select * from t order by id) to '{}'", to.display()));
    assert_eq!(said.trim(), "COPY 3");
    assert_eq!(std::fs::read_to_string(&to).expect("a file can be read"), rows);

    let csv = "id,note,price,seen\n1,plain,1.50,2024-02-29 12:00:00\n";
    shows(
        &server,
        &format!(r"\copy (select * from t where id = 1) to '{}' with (format csv, header)", to.display()),
    );
    assert_eq!(std::fs::read_to_string(&to).expect("a file can be read"), csv);
    shows(&server, "DELETE FROM t");
    shows(&server, &format!(r"\copy t from '{}' with (format csv, header true)", to.display()));
    assert_eq!(
        shows(&server, "TABLE t").lines().nth(2).map(str::trim),
        Some("1 | plain |  1.50 | 2024-02-29 12:00:00")
    );

    shows(&server, "CREATE TABLE b (id int PRIMARY KEY, note text, price numeric(8,2), seen timestamp)");
    shows(&server, &format!(r"\copy t to '{}' with (format binary)", to.display()));
    assert_eq!(
        shows(&server, &format!(r"\copy b from '{}' with (format binary)", to.display())).trim(),
        "COPY 1"
    );
    assert_eq!(shows(&server, "SELECT * FROM t"), shows(&server, "SELECT * FROM b"));
}

#[test]
fn a_bad_line_of_copy_is_named_and_nothing_is_kept() {
    let server = Server::with_acme();
    shows(&server, "CREATE TABLE t (id int PRIMARY KEY)");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("in");
    std::fs::write(&file, "1\n2\nthree\n").expect("a file can be written");
    let output = psql(&server)
        .args(["-c", &format!(r"\copy t from '{}'", file.display())])
        .output()
        .expect("psql can be run");
    let said = said(&output);
    assert!(!output.status.success());
    assert!(said.contains("invalid input syntax for type integer: \"three\""), "{said}");
    assert!(said.contains("COPY t, line 3, column id: \"three\""), "{said}");
    assert!(shows(&server, "SELECT count(*) FROM t").contains(" 0\n"));
}

#[test]
fn timing_gdesc_and_gx_work() {
    let server = with_schema();
    let output = check_output(psql(&server).args(["-c", r"\timing on", "-c", "SELECT 1"]));
    assert!(output.contains("Timing is on.") && output.contains("Time: "), "{output}");
    let nothing = shows(&server, "SELECT FROM customer");
    assert!(nothing.contains("(0 rows)"), "rows without columns are rows: {nothing}");

    let script = "SELECT id, name, balance, created, 1 AS one, NULL AS nothing FROM customer \\gdesc\n";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("script");
    std::fs::write(&file, script).expect("a file can be written");
    let output = check_output(psql(&server).args(["-At", "-f"]).arg(&file));
    assert_eq!(
        output,
        "id|bigint\nname|character varying(40)\nbalance|numeric(12,2)\ncreated|timestamp with time zone\n\
         one|integer\nnothing|text\n"
    );
    std::fs::write(&file, "SELECT 7 AS seven \\gx\n").expect("a file can be written");
    let output = check_output(psql(&server).args(["-f"]).arg(&file));
    assert!(output.contains("seven | 7"), "{output}");
}

#[test]
fn errors_show_position_detail_and_hint() {
    let server = with_schema();
    let fails = |query: &str| {
        let output =
            psql(&server).args(["-c", r"\set VERBOSITY verbose", "-c", query]).output().expect("psql runs");
        assert!(!output.status.success(), "{query} should fail");
        said(&output)
    };
    let text = fails("SELECT nothing FROM customer");
    assert!(text.contains("ERROR:  42703: column \"nothing\" does not exist"), "{text}");
    assert!(text.contains("LINE 1: SELECT nothing FROM customer\n               ^"), "{text}");
    let text = fails("INSERT INTO orders (customer_id) VALUES (77)");
    assert!(
        text.contains("ERROR:  23503: insert or update on table \"orders\" violates foreign key constraint"),
        "{text}"
    );
    assert!(text.contains("DETAIL:  Key (customer_id)=(77) is not present in table \"customer\"."), "{text}");
    assert!(text.contains("CONSTRAINT NAME:  orders_customer_id_fkey"), "{text}");
    let text = fails("SELEC 1");
    assert!(text.contains("ERROR:  42601: syntax error at or near \"SELEC\""), "{text}");
}

#[test]
fn a_session_reads_its_script_with_transactions_and_variables() {
    let server = Server::with_acme();
    let script = "CREATE TABLE t (id int PRIMARY KEY);
BEGIN;
INSERT INTO t VALUES (1), (2);
SAVEPOINT s;
INSERT INTO t VALUES (3);
ROLLBACK TO s;
COMMIT;
SELECT count(*) AS n FROM t \\gset
\\echo rows :n
\\if :{?n}
\\echo known
\\endif
\\conninfo
\\encoding
";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("script");
    std::fs::write(&file, script).expect("a file can be written");
    let output = check_output(psql(&server).args(["-q", "-f"]).arg(&file));
    assert!(output.contains("rows 2\nknown\n"), "{output}");
    assert!(output.contains("You are connected to database \"acme\" as user \"acme\""), "{output}");
    assert!(output.ends_with("UTF8\n"), "{output}");
}

#[test]
fn tls_is_offered_and_used() {
    let server = Server::with_acme();
    let output = check_output(psql(&server).args(["-c", r"\conninfo"]).env("PGSSLMODE", "require"));
    assert!(output.contains("SSL connection (protocol: TLSv1.3"), "{output}");
    let output = check_output(psql(&server).args(["-c", r"\conninfo"]).env("PGSSLMODE", "disable"));
    assert!(!output.contains("SSL connection"), "{output}");
    // A large result and a large statement cross the encrypted stream whole.
    let long = "x".repeat(100_000);
    let query = format!("SELECT length('{long}') + sum(n) FROM generate_series(1, 20000) AS s(n)");
    let output = check_output(psql(&server).args(["-At", "-c", &query]).env("PGSSLMODE", "require"));
    assert_eq!(output.trim(), (100_000 + 20_000 * 20_001 / 2).to_string());
    // So does input that comes faster than it is read, many records at a time.
    shows(&server, "CREATE TABLE many (n int, note text)");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("rows");
    let rows: String = (0..50_000).map(|n| format!("{n}\tnote {n}\n")).collect();
    std::fs::write(&file, rows).expect("a file can be written");
    let copy = format!(r"\copy many from '{}'", file.display());
    let output = check_output(psql(&server).args(["-c", &copy]).env("PGSSLMODE", "require"));
    assert_eq!(output.trim(), "COPY 50000");
    // Without a certificate authority to vouch for it, the self-signed certificate is not taken for a proof.
    let output =
        psql(&server).args(["-c", "SELECT 1"]).env("PGSSLMODE", "verify-full").output().expect("psql runs");
    assert!(!output.status.success());
}
