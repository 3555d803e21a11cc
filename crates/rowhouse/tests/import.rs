//! `rowhouse import` from a real PostgreSQL 15.

mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::postgres::Postgres;
use common::{Server, check_output, clients_folder, run, said, text, tool};

fn import(postgres: &Postgres, server: &Server, more: &[&str]) -> Output {
    import_from(&postgres.url(), server, tool("pg_dump").get_program().as_ref(), more)
}

/// With a `pg_dump` of the caller's. An import that does not end is ended.
fn import_from(url: &str, server: &Server, pg_dump: &Path, more: &[&str]) -> Output {
    Command::new("timeout")
        .arg("120")
        .arg(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["import", "--from", url, "--url", &server.url("acme", "acme"), "--pg-dump"])
        .arg(pg_dump)
        .args(more)
        .output()
        .expect("the binary can be run")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// What psql says to a query in the tenant.
fn ours(server: &Server, sql: &str) -> String {
    check_output(server.client_tool("psql", "acme").args([
        "-X",
        "-q",
        "-At",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        sql,
    ]))
}

const FURTHER: &str = r#"
    CREATE SCHEMA "Odd Schema";
    CREATE TYPE "Odd Schema".colour AS ENUM ('red', 'Blue; green');
    CREATE TABLE "Odd Schema"."T ""1""" (
        id bigint GENERATED ALWAYS AS IDENTITY (START 5 INCREMENT 5) PRIMARY KEY,
        c "Odd Schema".colour DEFAULT 'red', tags text[], numbers int[], at timestamptz, amount numeric(20, 4),
        j jsonb, u uuid, b bytea, d date, f float8, flag boolean, "Größe" char(5), UNIQUE (c, d),
        CHECK (amount > 0));
    INSERT INTO "Odd Schema"."T ""1""" (c, tags, numbers, at, amount, j, u, b, d, f, flag, "Größe")
        SELECT CASE n % 2 WHEN 0 THEN 'red' ELSE 'Blue; green' END::"Odd Schema".colour,
               ARRAY['a,b', NULL, E'tab\t"quote" \\ ', 'ü'], ARRAY[n, -n], timestamptz '2020-02-29 12:00+00' + n * interval '1 hour',
               n + 0.1234, jsonb_build_object('n', n), ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid,
               decode('00ff5c', 'hex'), date '2020-01-01' + n, n / 7.0, n % 3 = 0, 'x'
        FROM generate_series(1, 300) n;
    CREATE TABLE "Odd Schema".bare ();
    INSERT INTO "Odd Schema".bare SELECT FROM generate_series(1, 7);
    CREATE TABLE nulls (a int, t text); INSERT INTO nulls VALUES (NULL, E'\\N'), (1, ''), (2, E'line\nbreak\r\\.');
    CREATE SEQUENCE counter INCREMENT 3; SELECT nextval('counter'), nextval('counter');
    CREATE SEQUENCE unused START 9;
    CREATE TABLE late (id int PRIMARY KEY, next int REFERENCES late DEFERRABLE INITIALLY DEFERRED, n int);
    INSERT INTO late VALUES (1, 2, -1), (2, 1, 1);
    SET CONSTRAINTS ALL IMMEDIATE;
    ALTER TABLE late ADD CONSTRAINT positive_n CHECK (n > 0) NOT VALID, ADD FOREIGN KEY (n) REFERENCES late DEFERRABLE NOT VALID;
    CREATE VIEW reds AS SELECT id, tags FROM "Odd Schema"."T ""1""" WHERE c = 'red';
    CREATE TABLE lines (id int PRIMARY KEY, t text DEFAULT E'a\r\nb');
    COMMENT ON TABLE lines IS E'two\r\n\\restrict lines';
    CREATE TABLE part (id int PRIMARY KEY, a int, n numeric, s varchar(9), t text, b boolean, c char(2), gone timestamp);
    INSERT INTO part SELECT g, g % 7, g, 's' || g % 3, 't', g % 2 = 0, 'c', CASE WHEN g % 5 > 0 THEN timestamp '2020-01-01' END
        FROM generate_series(1, 70) g;
    CREATE UNIQUE INDEX part_1 ON part (id) INCLUDE (s, "a") NULLS NOT DISTINCT WHERE gone IS NULL;
    CREATE INDEX ON part (b) INCLUDE (n);
    CREATE UNIQUE INDEX ON part (lower(s), upper(t) DESC, id) WHERE b;
    CREATE INDEX part_2 ON part (a) WHERE s IN ('s1', 's2') AND n > 0 AND NOT b;
    CREATE INDEX part_3 ON part (a DESC) WHERE c = 'c' OR t <> 'x' OR gone > '2020-01-01 12:00' OR a BETWEEN -1 AND 5;
"#;

#[test]
fn a_database_of_postgresql_is_imported_whole() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&["-f", path(&clients_folder().join("dump/shop.sql"))]);
    postgres.psql(&["-c", FURTHER]);
    postgres.psql(&["-c", "SELECT lo_from_bytea(0, 'large')"]);
    let output = import(&postgres, &server, &["--jobs", "3", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("large objects: 1"), "{}", said(&output));
    let tables = postgres.psql(&[
        "-c",
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
         WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
    ]);
    assert!(tables.lines().count() >= 6, "{tables}");
    for table in tables.lines() {
        let rows = format!("COPY {table} TO STDOUT");
        // A table has no order of its own.
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(ours(&server, &count), postgres.psql(&["-c", &count]), "{table}");
        assert_eq!(sorted(ours(&server, &rows)), sorted(postgres.psql(&["-c", &rows])), "{table}");
    }
    for query in [
        "SELECT nextval('counter'), nextval('unused')",
        "INSERT INTO \"Odd Schema\".\"T \"\"1\"\"\" (amount) VALUES (1) RETURNING id, c",
        "INSERT INTO customer (name) VALUES ('Next') RETURNING id",
        "INSERT INTO lines (id) VALUES (1) RETURNING octet_length(t)",
        "SELECT octet_length(obj_description('lines'::regclass, 'pg_class'))",
        "SELECT count(*), max(id) FROM reds",
        "SELECT count(*) FROM open_orders",
        "SELECT conname FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND conname !~ '^pg_' ORDER BY 1",
        "SELECT pg_get_constraintdef(oid), condeferrable, condeferred, convalidated FROM pg_constraint
         WHERE conrelid = 'late'::regclass ORDER BY 1",
        "SELECT indexname FROM pg_indexes WHERE schemaname IN ('public', 'stock', 'Odd Schema') ORDER BY 1",
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'part' ORDER BY indexname",
        "SELECT indexrelid::regclass::text, indnatts, indnkeyatts, indkey, relnatts, pg_get_indexdef(indexrelid, 2, false)
         FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = 'part'::regclass ORDER BY 1",
        "SELECT pg_get_expr(indexprs, indrelid), attname, format_type(atttypid, atttypmod) FROM pg_index JOIN pg_attribute ON attrelid = indexrelid
         WHERE indrelid = 'part'::regclass AND indexprs IS NOT NULL ORDER BY attnum",
        "SELECT pg_get_expr(indpred, indrelid), pg_get_expr(indpred, indrelid, true) FROM pg_index
         WHERE indrelid = 'part'::regclass AND indpred IS NOT NULL ORDER BY 1",
    ] {
        assert_eq!(ours(&server, query), postgres.psql(&["-c", query]), "{query}");
    }
    let refused = server
        .client_tool("psql", "acme")
        .args(["-X", "-c", "INSERT INTO \"Odd Schema\".\"T \"\"1\"\"\" (amount) VALUES (-1)"])
        .output();
    assert!(said(&refused.expect("psql runs")).contains("violates check constraint"));
}

#[test]
fn an_import_is_of_one_moment_of_its_source() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&[
        "-c",
        "CREATE TABLE a (n bigint PRIMARY KEY, filler text); CREATE TABLE b (n bigint PRIMARY KEY);
         CREATE TABLE c (n bigint PRIMARY KEY REFERENCES a);
         INSERT INTO a SELECT n, repeat('x', 300) FROM generate_series(1, 3000) n;
         INSERT INTO b SELECT n FROM a; INSERT INTO c SELECT n FROM a",
    ]);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (url, stop) = (postgres.url(), stop.clone());
        std::thread::spawn(move || {
            run(async {
                let client = common::connect(&url).await.expect("connects");
                let mut n = 3000;
                while !stop.load(Ordering::Acquire) {
                    n += 1;
                    let rows = format!(
                        "BEGIN; INSERT INTO a VALUES ({n}, 'y'); INSERT INTO b VALUES ({n}); INSERT INTO c VALUES ({n}); COMMIT"
                    );
                    client.batch_execute(&rows).await.expect("commits");
                }
            });
        })
    };
    let output = import(&postgres, &server, &["--jobs", "2"]);
    stop.store(true, Ordering::Release);
    writer.join().expect("the writer ends well");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("both sides count the same rows"), "{}", said(&output));
    let counts = ["a", "b", "c"].map(|table| ours(&server, &format!("SELECT count(*), max(n) FROM {table}")));
    assert!(counts[0] == counts[1] && counts[1] == counts[2], "{counts:?}");
}

#[test]
fn what_cannot_be_imported_is_told_before_anything_is_loaded() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&[
        "-c",
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT n, n FROM generate_series(1, 10) n;
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END; $$;
         CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
         CREATE INDEX few ON t (b) WHERE b % 3 = 0; CREATE SCHEMA other; CREATE TABLE other.u (x text)",
    ]);
    let empty = || {
        ours(
            &server,
            "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
        )
    };
    let output = import(&postgres, &server, &[]);
    let told = said(&output);
    assert!(!output.status.success(), "{told}");
    for refused in
        ["nothing was loaded", "0A000", "CREATE FUNCTION public.f()", "CREATE TRIGGER tr", "CREATE INDEX few"]
    {
        assert!(told.contains(refused), "{refused} is not in\n{told}");
    }
    assert_eq!(empty().trim(), "0");

    let output = import(&postgres, &server, &["--skip-unsupported", "--schema", "public", "--json"]);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("\"rows\": 10") && told.contains("CREATE TRIGGER tr"), "{told}");
    run(async {
        let owner = server.owner("acme").await;
        assert_eq!(text(&owner, "SELECT sum(b) FROM t").await, "55");
        assert_eq!(text(&owner, "SELECT count(*) FROM pg_namespace WHERE nspname = 'other'").await, "0");
    });
    let output = import(&postgres, &server, &[]);
    assert!(said(&output).contains("the tenant is not empty"), "{}", said(&output));
}

#[test]
fn what_needs_what_is_left_out_is_left_out_too() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&[
        "-c",
        "CREATE EXTENSION pg_trgm; CREATE TABLE kept (a int PRIMARY KEY); INSERT INTO kept VALUES (1), (2);
         CREATE UNLOGGED TABLE bare (a int); INSERT INTO bare VALUES (1);
         CREATE UNLOGGED TABLE keyed (a serial PRIMARY KEY); INSERT INTO keyed DEFAULT VALUES;
         CREATE TABLE computed (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO computed VALUES (1);
         CREATE TABLE child (c int) INHERITS (kept); INSERT INTO child VALUES (3, 4)",
    ]);
    let output = import(&postgres, &server, &[]);
    assert!(!output.status.success() && said(&output).contains("nothing was loaded"), "{}", said(&output));
    let output = import(&postgres, &server, &["--skip-unsupported"]);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    for table in ["bare", "keyed", "child"] {
        let rows = format!("left out: the rows of \"public\".\"{table}\"");
        assert!(told.contains(&rows), "{rows} is not in\n{told}");
    }
    assert_eq!(ours(&server, "SELECT count(*), max(a) FROM kept").trim(), "2|2");
    assert_eq!(ours(&server, "SELECT a, b FROM computed").trim(), "1|2");
}

#[test]
fn values_come_as_they_are_whatever_the_source_is_set_to() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&[
        "-c",
        "CREATE TABLE t (i interval, f float8, d date); INSERT INTO t VALUES ('-1 day -02:03:04', 0.1 + 0.2::float8, '2024-02-01');
         ALTER ROLE CURRENT_USER SET intervalstyle = sql_standard; ALTER ROLE CURRENT_USER SET extra_float_digits = 0;
         ALTER ROLE CURRENT_USER SET datestyle = 'SQL, DMY'",
    ]);
    let output = import(&postgres, &server, &[]);
    assert!(output.status.success(), "{}", said(&output));
    let values = ours(&server, "SELECT extract(epoch FROM i), f, d FROM t");
    assert_eq!(values.trim(), "-93784.000000|0.30000000000000004|2024-02-01");
}

#[test]
fn timeouts_of_the_owners_sessions_end_no_import() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    let table =
        "CREATE TABLE t AS SELECT n AS id, repeat('x', 100) AS v FROM generate_series(1, 400000) AS n";
    postgres.psql(&["-c", table]);
    // The one that the other setting itself could come under is the last.
    for timeout in ["idle_session_timeout", "statement_timeout"] {
        ours(&server, &format!("ALTER ROLE acme SET {timeout} = '200ms'"));
    }
    let output = import(&postgres, &server, &[]);
    assert!(output.status.success() && said(&output).contains("400000 rows"), "{}", said(&output));
}

#[test]
fn a_table_truncated_as_the_import_begins_is_told() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&["-c", "CREATE TABLE t (a int); INSERT INTO t VALUES (1)"]);
    let output = std::thread::scope(|scope| {
        let (locked, is_locked) = std::sync::mpsc::channel();
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let postgres = &postgres;
        scope.spawn(move || {
            run(async {
                let other = common::connect(&postgres.url()).await.expect("connects");
                other.batch_execute("BEGIN; LOCK TABLE t").await.expect("it can be locked");
                locked.send(()).expect("the test goes on");
                is_waiting.recv().expect("the import waits");
                other.batch_execute("TRUNCATE t; COMMIT").await.expect("it can be truncated");
            });
        });
        is_locked.recv().expect("it is locked");
        let import = scope.spawn(|| import(postgres, &server, &[]));
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass";
        while !import.is_finished() && postgres.psql(&["-c", waiting]).trim() == "0" {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        waits.send(()).expect("the other session is there");
        import.join().expect("the import ends")
    });
    let told = said(&output);
    assert!(!output.status.success() && told.contains("public.t was truncated or rewritten"), "{told}");
}

/// The import has a lock of the table, the change waits for it, and who at the source asks for the lock anew waits for the change.
#[test]
fn a_change_that_waits_for_the_import_ends_it() {
    let (pg_dump, psql) = (tool("pg_dump"), tool("psql"));
    let (pg_dump, psql) = (pg_dump.get_program().display(), psql.get_program().display());
    for (dump, told_of) in [
        (
            "case \"$*\" in *pre-data*) change;; esac; pg_dump \"$@\"",
            "LOCK TABLE public.t IN ACCESS SHARE MODE",
        ),
        ("pg_dump \"$@\"; case \"$*\" in *post-data*) change;; esac", "waits to change or truncate it"),
    ] {
        let (postgres, server) = (Postgres::start(), Server::with_acme());
        postgres.psql(&["-c", "CREATE TABLE t (a int); INSERT INTO t VALUES (1)"]);
        let (url, program) = (postgres.url(), postgres.file("pg_dump"));
        let waiting = "SELECT 'waits' FROM pg_locks WHERE NOT granted AND relation = 't'::regclass";
        let script = format!(
            "#!/bin/sh
             pg_dump() {{ {pg_dump} \"$@\"; }}
             change() {{
                 {psql} -X -d {url} -c 'ALTER TABLE t ADD COLUMN b int' >/dev/null 2>&1 &
                 until {psql} -X -At -d {url} -c \"{waiting}\" | grep -q waits; do sleep 0.05; done
             }}
             {dump}"
        );
        std::fs::write(&program, script).expect("written");
        check_output(Command::new("chmod").arg("+x").arg(&program));
        let output = import_from(&url, &server, &program, &[]);
        let told = said(&output);
        assert!(!output.status.success() && told.contains(told_of), "{told}");
    }
}

/// Semicolons are inside of what is left out.
#[test]
fn nothing_of_a_rule_or_a_function_that_is_left_out_runs() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&[
        "-c",
        "CREATE TABLE t (a int); CREATE TABLE counter (n int); INSERT INTO counter VALUES (7);
         CREATE RULE counted AS ON INSERT TO t DO ALSO (UPDATE counter SET n = n + 1; DELETE FROM counter WHERE n > 100);
         CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT n FROM counter; END",
    ]);
    let output = import(&postgres, &server, &["--skip-unsupported"]);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("CREATE RULE counted") && told.contains("CREATE FUNCTION public.f()"), "{told}");
    assert_eq!(ours(&server, "SELECT n FROM counter").trim(), "7");
}

#[test]
fn a_database_in_another_encoding_is_imported() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&["-c", "CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0"]);
    let url = postgres.url().replace("/postgres", "/old");
    let table = "CREATE TABLE \"Maße\" (\"Größe\" text DEFAULT 'groß'); INSERT INTO \"Maße\" DEFAULT VALUES";
    check_output(tool("psql").env("PGCLIENTENCODING", "UTF8").args(["-X", "-q", "-d", &url, "-c", table]));
    let output = import_from(&url, &server, tool("pg_dump").get_program().as_ref(), &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(ours(&server, "INSERT INTO \"Maße\" DEFAULT VALUES; TABLE \"Maße\"").trim(), "groß\ngroß");
}

#[test]
fn partitions_and_what_has_types_that_are_not_here_are_left_out() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&[
        "-c",
        "CREATE TABLE budget (m money); INSERT INTO budget VALUES (1);
         CREATE TABLE sales (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);
         CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10);
         CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM (10) TO (20);
         INSERT INTO sales SELECT g, 'x' FROM generate_series(0, 19) g;
         CREATE TABLE kept (a int PRIMARY KEY, b int); CREATE UNIQUE INDEX covering ON kept (b) INCLUDE (a);
         CREATE TABLE child (b int REFERENCES kept (b)); INSERT INTO kept VALUES (1, 2); INSERT INTO child VALUES (2)",
    ]);
    let output = import(&postgres, &server, &[]);
    assert!(!output.status.success() && said(&output).contains("nothing was loaded"), "{}", said(&output));
    let output = import(&postgres, &server, &["--skip-unsupported"]);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    for left_out in
        ["CREATE TABLE public.sales (", "ATTACH PARTITION public.sales_1", "CREATE TABLE public.budget"]
    {
        assert!(told.contains(left_out), "{left_out} is not in\n{told}");
    }
    for (query, expected) in [
        ("SELECT count(*), max(a) FROM sales_1", "10|9"),
        ("SELECT count(*), max(a) FROM sales_2", "10|19"),
        ("SELECT b FROM child", "2"),
    ] {
        assert_eq!(ours(&server, query).trim(), expected);
    }
}

/// PostgreSQL 17's begins with the first of these settings.
#[test]
fn a_newer_pg_dump_may_set_what_a_tenant_does_not_know() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&["-c", "CREATE TABLE t (a int); INSERT INTO t VALUES (1)"]);
    let (pg_dump, program) = (tool("pg_dump"), postgres.file("pg_dump"));
    let script = format!(
        "#!/bin/sh\necho 'SET transaction_timeout = 0; SET setting_of_tomorrow = on;'\nexec {} \"$@\"",
        pg_dump.get_program().display()
    );
    std::fs::write(&program, script).expect("written");
    check_output(Command::new("chmod").arg("+x").arg(&program));
    let output = import_from(&postgres.url(), &server, &program, &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(ours(&server, "SET transaction_timeout = 0; TABLE t").trim(), "1");
}

#[test]
fn without_pg_dump_the_user_is_told_what_to_install() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["import", "--from", &postgres.url(), "--url", &server.url("acme", "acme")])
        .args(["--pg-dump", "/nowhere/pg_dump"])
        .output()
        .expect("the binary can be run");
    let told = said(&output);
    assert!(!output.status.success() && told.contains("install PostgreSQL's client programs"), "{told}");
}

#[test]
fn a_plain_dump_loads_with_psql() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    postgres.psql(&["-f", path(&clients_folder().join("dump/shop.sql"))]);
    postgres.psql(&["-c", FURTHER]);
    let dump = check_output(tool("pg_dump").args(["--no-owner", "--no-privileges", "-d", &postgres.url()]));
    let file = postgres.file("dump.sql");
    std::fs::write(&file, dump).expect("written");
    let mut psql = server.client_tool("psql", "acme");
    check_output(psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", path(&file)]));
    for query in [
        "SELECT count(*), sum(amount), max(at) FROM \"Odd Schema\".\"T \"\"1\"\"\"",
        "SELECT nextval('counter'), nextval('unused'), nextval('ticket')",
        "INSERT INTO \"Odd Schema\".\"T \"\"1\"\"\" (amount) VALUES (1) RETURNING id, c",
        "SELECT count(*) FROM reds",
    ] {
        assert_eq!(ours(&server, query), postgres.psql(&["-c", query]), "{query}");
    }
}

/// In the forms in which pg_dump writes them: refused as not supported, not as misspelt.
#[test]
fn what_a_dump_may_hold_and_is_refused_is_told_as_such() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE TABLE public.t (a integer, b text)").await.expect("a table can be made");
        let mut wrong = Vec::new();
        for statement in [
            "CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public",
            "CREATE DOMAIN public.d AS integer CONSTRAINT d_check CHECK ((VALUE > 0))",
            "CREATE TYPE public.c AS (x integer, y text)",
            "CREATE TYPE public.r AS RANGE (subtype = integer, multirange_type_name = public.mr)",
            "CREATE FUNCTION public.f(a integer) RETURNS integer LANGUAGE sql AS $_$ SELECT $1; $_$",
            "CREATE PROCEDURE public.p() LANGUAGE sql AS $$ SELECT 1; $$",
            "CREATE AGGREGATE public.total(integer) (SFUNC = int4pl, STYPE = integer)",
            "CREATE OPERATOR public.+++ (FUNCTION = int4pl, LEFTARG = integer, RIGHTARG = integer)",
            "CREATE CAST (text AS integer) WITH INOUT",
            "CREATE COLLATION public.de (provider = icu, locale = 'de')",
            "CREATE TEXT SEARCH CONFIGURATION public.c (PARSER = pg_catalog.\"default\")",
            "CREATE FOREIGN DATA WRAPPER w",
            "CREATE SERVER s FOREIGN DATA WRAPPER w",
            "CREATE FOREIGN TABLE public.ft (a integer) SERVER s",
            "CREATE MATERIALIZED VIEW public.m AS SELECT t.a FROM public.t WITH NO DATA",
            "CREATE TABLE public.parted (a integer) PARTITION BY RANGE (a)",
            "CREATE TABLE public.child (c integer) INHERITS (public.t)",
            "CREATE UNLOGGED TABLE public.un (a integer)",
            "CREATE STATISTICS public.st ON a, b FROM public.t",
            "CREATE INDEX i ON public.t USING btree (((b || 'x'::text)))",
            "CREATE INDEX i ON public.t USING btree (a) WHERE ((a % 2) = 0)",
            "CREATE INDEX i ON public.t USING gin (b)",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT e EXCLUDE USING gist (a WITH =)",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT u UNIQUE (a) DEFERRABLE INITIALLY DEFERRED",
            "CREATE TRIGGER tr BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.f()",
            "CREATE EVENT TRIGGER et ON ddl_command_end EXECUTE FUNCTION public.f()",
            "CREATE RULE r AS ON INSERT TO public.t DO INSTEAD NOTHING",
            "CREATE POLICY p ON public.t USING ((a > 0))",
            "ALTER TABLE public.t ENABLE ROW LEVEL SECURITY",
            "CREATE PUBLICATION p FOR ALL TABLES",
            "CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p",
            "REFRESH MATERIALIZED VIEW public.m",
            "COMMENT ON FUNCTION public.f(a integer) IS 'adds'",
            "SELECT pg_catalog.lo_create('16385')",
        ] {
            let refused = owner.batch_execute(statement).await.err();
            let code = refused.as_ref().and_then(|error| error.code()).map_or("taken", |code| code.code());
            // A function that is not there is 42883.
            let expected = if statement.starts_with("SELECT") { "42883" } else { "0A000" };
            if code != expected {
                wrong.push(format!("{code} {statement}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
