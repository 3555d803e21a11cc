//! Literals and names keep what they mean in DEFAULT, CHECK and views, and in the texts that are shown of these.

use std::sync::Arc;

use super::shown_view;
use crate::session::testing::Bench;

const LITERALS: &[&str] = &[
    "''",
    "''''",
    "'a''b'",
    "'a''''b'",
    "''''''''",
    r"'\'''",
    r"'\'",
    r"'\\''''\'",
    r"'\'' || (SELECT 1)::text --'",
    r"'\''; DROP TABLE t; --'",
    "'-- /* $1 $$ */'",
    "'FOR UPDATE OF \"\u{1}share\".t'",
    "N'it''s'",
    r"N'\''''; --'",
    r"E'it\'s''\\\''",
    r"E'a\nb'",
    "$$it's ''$$",
    r"$q$\' $$ --$q$",
    r"U&'it''s \0041'",
];

#[test]
fn a_literal_means_the_same_as_a_default_in_a_check_and_in_a_view() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(&mut session, "CREATE TABLE t (id int)");
    for (i, literal) in LITERALS.iter().enumerate() {
        let meant = bench.run(&mut session, &format!("SELECT {literal}")).lines();
        let within =
            format!("SELECT CASE WHEN 1 BETWEEN SYMMETRIC 2 AND length({literal}) * 0 THEN {literal} END");
        for script in [
            format!(
                "CREATE TABLE d{i} (id int, s text DEFAULT {literal} CHECK (s = {literal}));
                 INSERT INTO d{i} VALUES (1); SELECT s FROM d{i}"
            ),
            format!("CREATE VIEW v{i} AS SELECT {literal}::text AS s; SELECT s FROM v{i}"),
            format!("CREATE VIEW w{i} AS SELECT s FROM ({within}) AS q (s); SELECT s FROM w{i}"),
        ] {
            assert_eq!(bench.run(&mut session, &script).lines(), meant, "{script}");
        }
        for view in ["v", "w"] {
            let text = shown(&bench, &format!("{view}{i}"));
            assert_eq!(bench.run(&mut session, &text).lines(), meant, "{text}");
        }
        let error = bench.fail(&mut session, &format!("INSERT INTO d{i} VALUES (2, 'another')"));
        assert_eq!(error.state().to_string(), "23514", "{literal}");
    }
    bench.run(&mut session, "SELECT id FROM t");
}

#[test]
fn a_name_means_the_same_in_a_check_and_in_a_view() {
    for name in [
        r#""a""b""#,
        r#""a""""b""#,
        r#""x\""#,
        r#""x\""; DROP TABLE t; --""#,
        r#""\""""\""""#,
        r#""it's """" it""#,
    ] {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            &format!(
                "CREATE TABLE {name} ({name} int CHECK ({name} < 5), z int); INSERT INTO {name} VALUES (1, 2);
                 CREATE VIEW v AS SELECT * FROM {name};
                 CREATE VIEW w ({name}) AS SELECT {name}.z FROM {name} JOIN {name} AS q USING ({name}) ORDER BY 1;
                 CREATE VIEW u AS SELECT {name}.{name} FROM (SELECT 7 AS {name}) AS {name};"
            ),
        );
        for (view, row) in [("v", "1|2"), ("w", "2"), ("u", "7")] {
            let rows = bench.run(&mut session, &format!("SELECT * FROM {view}")).lines();
            assert_eq!(rows, [row], "{view} {name}");
            let text = shown(&bench, view);
            assert_eq!(bench.run(&mut session, &text).lines(), [row], "{text}");
        }
        let error = bench.fail(&mut session, &format!("INSERT INTO {name} VALUES (6, 2)"));
        assert_eq!(error.state().to_string(), "23514", "{name}");
    }
}

#[test]
fn what_only_looks_like_the_end_of_a_literal_is_part_of_it() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    bench.run(
        &mut session,
        r"CREATE TABLE e (s text CHECK (s !~ '[\'']')); INSERT INTO e VALUES ('a'), (NULL)",
    );
    let error = bench.fail(&mut session, "INSERT INTO e VALUES ('it''s')");
    assert_eq!(error.state().to_string(), "23514");
}

/// A view's text as `pg_get_viewdef` has it.
fn shown(bench: &Bench, view: &str) -> String {
    let catalog = Arc::new(bench.catalog().clone());
    let view = Arc::clone(catalog.views().find(|found| found.name == view).expect(view));
    shown_view(&catalog, &view.search_path, &view)
}
