//! Expressions compared with PostgreSQL 15's answers, which `golden/expressions.golden` holds: text, type, or SQLSTATE and
//! message. The expressions are those of `golden/expressions.txt`; the session's zone is UTC.

use sql::MemoryBound;
use sql::expr::{
    Aggregates, BindContext, EmptyScope, EvalCtx, EvalError, NoSession, NoSubqueries, ParamTypes,
    StatementCtx, bind_sql_text, eval, resolve_unknown,
};
use types::{FormatContext, PgType, TypeMod, format_type, to_text};

/// What is known to differ from PostgreSQL, each with the reason; `docs/sql-compat.md` has them too.
const KNOWN: &[(&str, &str)] = &[
    ("'pg_class'::regtype", "tables have no row types here"),
    ("||/ 27.0", "the C library's cube root is one digit off"),
    ("1::money", "there is no type money here"),
    (r#"'{"a": {"b": "y"}}'::json -> 'a'"#, "a part of a json value loses its blanks"),
    (r#"'{"a":  [1,  2]}'::json ->> 'a'"#, "a part of a json value loses its blanks"),
];

enum Outcome {
    Value(PgType, String),
    Error(String, String),
}

fn run(expression: &str) -> Outcome {
    let format = FormatContext::default();
    let params = ParamTypes::none();
    let ctx = BindContext {
        params: &params,
        format: &format,
        subqueries: None,
        aggregates: Aggregates::Forbidden("a test"),
    };
    let bound =
        match bind_sql_text(expression, &EmptyScope, &ctx).and_then(|bound| resolve_unknown(bound, &ctx)) {
            Ok(bound) => bound,
            Err(error) => return Outcome::Error(error.state().to_string(), error.message().to_owned()),
        };
    let stmt = StatementCtx {
        params: &[],
        format: &format,
        statement_start: 0,
        session: &NoSession,
        subqueries: &NoSubqueries,
        values: &MemoryBound::of_values(base::limits::ROW_LEN_MAX),
    };
    match eval(&bound, &EvalCtx::new(&stmt, &[])) {
        Ok(value) if value.is_null() => Outcome::Value(bound.ty, "<NULL>".to_owned()),
        Ok(value) => Outcome::Value(bound.ty, to_text(&value, bound.ty, &format)),
        Err(EvalError::Sql(error)) => Outcome::Error(error.state().to_string(), error.message().to_owned()),
        Err(EvalError::Interrupted) => panic!("{expression} waited"),
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            (c, false) => out.push(c),
        }
    }
    out
}

/// Each of these has its operand in more than one place, at each level.
#[test]
fn operands_that_are_copied_do_not_fill_the_memory() {
    let nested = |open: &str, close: &str| open.repeat(64) + "1 = any(array[1])" + &close.repeat(64);
    for (open, close) in [
        ("(", " between symmetric false and true)"),
        ("(", " between false and true)"),
        ("case ", " when true then false when false then true end"),
        ("((", ", 1) < (true, 1))"),
        ("(", " is distinct from true)"),
        ("(", " in (true, random() < 1, false))"),
    ] {
        if let Outcome::Error(state, message) = run(&nested(open, close)) {
            assert_eq!(state, "54001", "{open}…{close}: {message}");
        }
    }
}

/// With a slice among them PostgreSQL takes all subscripts for slices, each of another dimension.
#[test]
fn subscripts_of_further_dimensions_are_refused() {
    for expression in ["(array[1,2])[1:2][1]", "(array[1,2])[1][1:2]", "array[1,2,3][2:][1:1]"] {
        match run(expression) {
            Outcome::Error(state, _) => assert_eq!(state, "0A000", "{expression}"),
            Outcome::Value(_, text) => panic!("{expression} is {text}"),
        }
    }
    let Outcome::Value(_, text) = run("((array[1,2])[1:2])[2]") else { panic!("an element of a slice") };
    assert_eq!(text, "2");
}

#[test]
fn what_differs_is_on_the_page_of_differences() {
    let page = include_str!("../../../docs/sql-compat.md");
    for (expression, reason) in KNOWN {
        assert!(page.contains(expression), "docs/sql-compat.md does not have {expression}: {reason}");
    }
}

/// Each looks for all parts of one large value in another, and would take hours if one by one.
#[test]
fn large_values_are_searched_in_time_that_grows_with_them() {
    let numbers = "string_to_array(repeat('1,', 300000) || '2', ',')";
    let texts = "string_to_array(repeat('x,', 300000) || 'y', ',')";
    let scales = |first: u8| {
        format!("string_to_array(repeat('{first},1e-16383,', 50000) || '{first}', ',')::numeric[]")
    };
    let jsons = |first: u8| format!("string_to_array(repeat('[{first}];', 50000) || '[0]', ';')::jsonb[]");
    let long = "('[' || repeat('1,', 100000) || '1]')::jsonb";
    for (expression, answer) in [
        (format!("{} @> {}", scales(1), scales(1)), "t"),
        (format!("{} && {}", jsons(1), jsons(2)), "t"),
        (format!("array_position(array_fill('[1, 2]'::jsonb, array[20000]), {long})"), "<NULL>"),
        (format!("{long} = any(array_fill('[1, 2]'::jsonb, array[20000]))"), "f"),
        ("repeat('x', 1000000) like any (array_fill('a'::text, array[20000]))".to_owned(), "f"),
        ("length(translate(repeat('a', 1000000), repeat('b', 1000000), ''))".to_owned(), "1000000"),
        ("length(btrim(repeat('a', 1000000) || 'c', repeat('b', 1000000) || 'a'))".to_owned(), "1"),
        (format!("{numbers} @> {texts}"), "f"),
        (format!("{numbers} && {texts}"), "f"),
        (format!("to_jsonb({numbers}) ?| {texts}"), "f"),
        (format!("jsonb_array_length(to_jsonb({numbers}) - {texts})"), "300001"),
    ] {
        match run(&expression) {
            Outcome::Value(_, text) => assert_eq!(text, answer, "{expression}"),
            Outcome::Error(state, message) => panic!("{expression}: {state} {message}"),
        }
    }
}

/// Each is a short text that would take gigabytes or hours if it were not refused, or looked through.
#[test]
fn short_texts_take_neither_gigabytes_nor_hours() {
    // The server's threads have more stack than those of tests.
    let stack = base::limits::THREAD_STACK_LEN.0 as usize;
    let look = std::thread::Builder::new().stack_size(stack).spawn(look_at_short_texts).expect("a thread");
    look.join().expect("no panic");
}

fn look_at_short_texts() {
    let nothing = "(?:".repeat(20) + &"){255}".repeat(20);
    let nested = "(x".repeat(249) + &"a".repeat(150_000) + &")".repeat(249);
    for (expression, answer) in [
        (format!("'a' ~ '{nothing}'"), "t"),
        (format!("'xa' ~ '{nested}'"), "f"),
        (format!("'a' ~* '{}'", "[!-\u{10fffe}]".repeat(10_000)), "!2201B"),
        ("'a' ~ repeat('b', 5000000)".to_owned(), "!2201B"),
        ("('{' || repeat('a,', 100000) || 'a}')::char(10485760)[]".to_owned(), "!54000"),
        ("string_to_array(repeat('a,', 100000), ',')::char(10485760)[]".to_owned(), "!54000"),
        ("length('a'::bpchar(3000000000))".to_owned(), "!22023"),
        ("('[' || repeat('1e131071,', 20000) || '1]')::jsonb".to_owned(), "!54000"),
        ("to_jsonb(('[' || repeat('1e131071,', 20000) || '1]')::json)".to_owned(), "!54000"),
        ("('[' || repeat('1,', 50000000) || '1]')::jsonb".to_owned(), "!54000"),
        ("repeat('1', 4000000)::numeric".to_owned(), "!22003"),
        ("scale(('0.' || repeat('1', 4000000))::numeric)".to_owned(), "16383"),
        ("split_part(repeat(',', 20000000) || 'x', ',', -1)".to_owned(), "x"),
        ("to_date('2020', repeat('x', 50000000))".to_owned(), "!53200"),
        ("repeat('@', 20000000)::interval".to_owned(), "!22007"),
        ("repeat('1 day ', 5000000)::interval".to_owned(), "!22007"),
        ("('1' || repeat(':', 50000000))::interval".to_owned(), "!22007"),
        ("('P1' || repeat('-', 50000000))::interval".to_owned(), "!22007"),
        ("repeat('1 ', 20000000)::date".to_owned(), "!22007"),
        ("repeat('1 ', 15000000)::int2vector".to_owned(), "!54000"),
        ("repeat('a.', 20000000)::regclass".to_owned(), "!42602"),
        ("array_length(('{' || repeat('1e-131071,', 100000) || '1}')::numeric[], 1)".to_owned(), "100001"),
        ("translate(repeat('a', 100000000), 'a', '\u{1f600}')".to_owned(), "!53200"),
        ("quote_literal(repeat(chr(39), 150000000))".to_owned(), "!53200"),
        ("encode(convert_to(repeat('\u{e9}', 40000000), 'UTF8'), 'escape')".to_owned(), "!53200"),
        ("length(convert_to(repeat('\u{e9}', 70000000), 'UTF8')::text)".to_owned(), "!53200"),
        (r#"length(to_json(array_fill(repeat('"', 1000000), array[140]))::text)"#.to_owned(), "!53200"),
        (format!("jsonb_build_array({})", [r#"repeat('"', 1000000)"#; 90].join(", ")), "!53200"),
    ] {
        match run(&expression) {
            Outcome::Value(_, text) => assert_eq!(text, answer, "{expression:.60}"),
            Outcome::Error(state, message) => {
                assert_eq!(format!("!{state}"), answer, "{expression:.60}: {message}")
            }
        }
    }
    let numbers = |first: u8| format!("('[' || repeat('{first},', 100000) || '{first}]')::jsonb");
    for (outer, inner, answer) in [
        (numbers(1), numbers(1), "t"),
        (numbers(1), numbers(2), "f"),
        (
            "('[' || repeat('{\"a\":1},', 20000) || '1]')::jsonb".to_owned(),
            "('[' || repeat('{\"a\":2},', 20000) || '1]')::jsonb".to_owned(),
            "f",
        ),
    ] {
        let Outcome::Value(_, text) = run(&format!("{outer} @> {inner}")) else { panic!("{outer:.40}") };
        assert_eq!(text, answer, "{outer:.40} @> {inner:.40}");
    }
}

#[test]
fn expressions_answer_as_postgresql_15() {
    // GOLDEN names another file of answers, to look what new expressions give.
    let golden = match std::env::var("GOLDEN") {
        Ok(path) => std::fs::read_to_string(path).expect("the file of GOLDEN"),
        Err(_) => include_str!("golden/expressions.golden").to_owned(),
    };
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<String> = line.split('\t').map(unescape).collect();
        let [expression, ty, text] = &fields[..] else { panic!("three fields: {line}") };
        count += 1;
        let got = match std::panic::catch_unwind(|| run(expression)) {
            Ok(Outcome::Value(ty, text)) => (format_type(ty, TypeMod::NONE), text),
            Ok(Outcome::Error(state, message)) => (format!("!{state}"), message),
            Err(_) => ("a panic".to_owned(), String::new()),
        };
        let same = got == (ty.clone(), text.clone());
        let known = KNOWN.iter().any(|(known, _)| known == expression);
        if same == known {
            let note = if known { " (listed as known, but right)" } else { "" };
            wrong.push(format!("{expression}\n   want {ty} {text}\n   got  {} {}{note}", got.0, got.1));
        }
    }
    assert!(count > 2000, "the golden file is whole");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
