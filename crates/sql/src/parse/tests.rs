//! Facts about reading statements.

use super::*;

fn one(sql: &str) -> ParsedStatement {
    parse_one(sql).expect(sql).expect("a statement").statement
}

fn error(sql: &str) -> SqlError {
    parse_script(sql).expect_err(sql)
}

#[test]
fn a_script_is_split_at_semicolons_outside_of_strings() {
    let script = parse_script("select ';' ; ; -- a comment; here\n select 2;").unwrap();
    let texts: Vec<_> = script.iter().map(|s| s.sql.as_str()).collect();
    assert_eq!(texts, ["select ';'", "select 2"]);
}

#[test]
fn a_rule_of_several_actions_and_a_routines_body_are_one_statement() {
    let whole = [
        "CREATE RULE r AS ON INSERT TO t DO ALSO (INSERT INTO log VALUES (new.a); UPDATE n SET n = (n + 1);)",
        "create or replace rule r as on delete to t do (select 1; select 2)",
        "CREATE FUNCTION public.begin(begin int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END",
        "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC DELETE FROM t; END",
    ];
    let script = parse_script(&(whole.join(";\n") + "; BEGIN; SELECT 1; END")).unwrap();
    let texts: Vec<_> = script.iter().map(|s| s.sql.as_str()).collect();
    assert_eq!(texts, [&whole[..], &["BEGIN", "SELECT 1", "END"]].concat());
    for statement in &script[..whole.len()] {
        assert!(
            matches!(statement.statement, ParsedStatement::Utility(Utility::Refused(_))),
            "{}",
            statement.sql
        );
    }
    assert_eq!(error("SELECT (1; SELECT 2").state(), SqlState::SYNTAX_ERROR);
}

#[test]
fn a_check_of_what_goes_through_a_view_is_refused() {
    for option in ["WITH CHECK OPTION", "with local check option", "WITH CASCADED CHECK OPTION"] {
        let refused = error(&format!("CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a > 0 {option}"));
        assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED, "{option}");
    }
    assert_eq!(error("CREATE VIEW v AS SELECT a FROM t WITH CHECK").state(), SqlState::SYNTAX_ERROR);
}

#[test]
fn a_script_of_many_statements_is_cut_in_one_pass() {
    let script = "select 'ä\n', 1;".repeat(20_000);
    let parsed = parse_script(&script).unwrap();
    assert_eq!(parsed.len(), 20_000);
    assert!(parsed.iter().all(|statement| statement.sql == "select 'ä\n', 1"));
    assert_eq!(error(&"select 1;".repeat(100_001)).state(), SqlState::STATEMENT_TOO_COMPLEX);
}

#[test]
fn a_syntax_error_names_the_token_and_where_it_stands() {
    let error = error("select (1 from t");
    assert_eq!(error.state(), SqlState::SYNTAX_ERROR);
    assert!(error.message().starts_with("syntax error at or near \""), "{error}");
    assert!(error.position().is_some());
    let error = parse_script("begin; selec 1").expect_err("nonsense");
    assert_eq!(error.message(), "syntax error at or near \"selec\"");
    assert_eq!(error.position(), Some(8));
}

#[test]
fn two_statements_cannot_be_prepared_at_once() {
    assert_eq!(parse_one("select 1; select 2").unwrap_err().state(), SqlState::SYNTAX_ERROR);
    assert!(parse_one(" ; -- nothing").unwrap().is_none());
}

#[test]
fn transaction_statements_are_read_with_their_modes() {
    let ParsedStatement::Transaction(TransactionStatement::Begin { modes, start: true }) =
        one("START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    else {
        panic!("not a BEGIN");
    };
    assert_eq!(modes.isolation, Some(IsolationLevel::RepeatableRead));
    assert_eq!(modes.read_only, Some(true));
    for (sql, chain) in [("COMMIT", false), ("end work and chain", true), ("commit and no chain", false)] {
        assert!(matches!(
            one(sql),
            ParsedStatement::Transaction(TransactionStatement::Commit { chain: c }) if c == chain
        ));
    }
    assert!(matches!(
        one("rollback to a"),
        ParsedStatement::Transaction(TransactionStatement::RollbackTo(_))
    ));
    assert!(matches!(
        one("commit prepared 'x'"),
        ParsedStatement::Transaction(TransactionStatement::FinishPrepared { commit: true, id }) if id == "x"
    ));
}

#[test]
fn settings_take_lists_and_words() {
    let ParsedStatement::Setting(SettingStatement::Set { name, value, local }) =
        one("set local search_path to a, \"B\", 'c'")
    else {
        panic!("not a SET");
    };
    assert_eq!((name.as_str(), local), ("search_path", true));
    assert_eq!(value, SettingValue::Values(vec!["a".into(), "B".into(), "c".into()]));
    assert!(matches!(one("show transaction isolation level"),
        ParsedStatement::Setting(SettingStatement::Show(Some(n))) if n == "transaction_isolation"));
}

#[test]
fn tenants_are_created_with_options_owner_and_password() {
    let ParsedStatement::Host(HostStatement::CreateTenant { name, options, owner, password, .. }) =
        one("CREATE TENANT acme WITH (cpu = 0.5, iops = 200, memory = '2GB') OWNER acme PASSWORD 'x'")
    else {
        panic!("not a tenant");
    };
    assert_eq!(name, "acme");
    assert_eq!(options[0], ("cpu".into(), "0.5".into()));
    assert_eq!(options[2], ("memory".into(), "2GB".into()));
    assert_eq!((owner.as_deref(), password.as_deref()), (Some("acme"), Some("x")));
    assert!(matches!(one("show tenants"), ParsedStatement::Host(HostStatement::ShowTenants)));
    let evict = one("select rowhouse.evict('acme')");
    assert!(matches!(evict, ParsedStatement::Host(HostStatement::Evict { name }) if name == "acme"));
}

fn host(sql: &str) -> HostStatement {
    match one(sql) {
        ParsedStatement::Host(statement) => statement,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn sizes_are_made_altered_and_dropped() {
    let options = vec![("cpu".to_owned(), "0.5".to_owned()), ("memory".to_owned(), "2GB".to_owned())];
    assert_eq!(
        host("CREATE SIZE IF NOT EXISTS Gold AS (CPU = 0.5, memory = '2GB')"),
        HostStatement::CreateSize { name: "gold".into(), options: options.clone(), if_not_exists: true }
    );
    let change = OptionChange::Set(options);
    assert_eq!(
        host("ALTER SIZE \"Gold\" SET (cpu = 0.5, memory = '2GB')"),
        HostStatement::AlterSize { name: "Gold".into(), change }
    );
    let change = OptionChange::Reset(vec!["cpu".into(), "size".into()]);
    assert_eq!(
        host("alter tenant acme reset (cpu, size)"),
        HostStatement::AlterTenant { name: "acme".into(), change }
    );
    let dropped = HostStatement::DropSize { name: "gold".into(), if_exists: true };
    assert_eq!(host("drop size if exists gold"), dropped);
    assert_eq!(host("show sizes"), HostStatement::ShowSizes);
    let moved = |worker| HostStatement::MoveTenant { name: "acme".into(), worker };
    assert_eq!(host("ALTER TENANT acme SET WORKER 1"), moved(Some(1)));
    assert_eq!(host("alter tenant acme set worker -1"), moved(Some(-1)));
    assert_eq!(host("alter tenant acme set worker default"), moved(None));
    assert_eq!(host("show server"), HostStatement::ShowServer);
    assert_eq!(host("show volumes"), HostStatement::ShowVolumes);
    let change = OptionChange::Set(vec![("policy".into(), "max_only".into())]);
    assert_eq!(host("ALTER SERVER SET (policy = 'max_only')"), HostStatement::AlterServer { change });
    let change = OptionChange::Reset(vec!["iops_limit".into()]);
    let altered = HostStatement::AlterVolume { name: "default".into(), change };
    assert_eq!(host("alter volume default reset (iops_limit)"), altered);
    let options = vec![("elapsed".to_owned(), "5s".to_owned()), ("action".to_owned(), "cancel".to_owned())];
    let rule = |tenant: Option<&str>, if_not_exists| HostStatement::CreateRunawayRule {
        name: "long".into(),
        tenant: tenant.map(str::to_owned),
        options: options.clone(),
        if_not_exists,
    };
    let created = "(elapsed = '5s', action = cancel)";
    assert_eq!(host(&format!("CREATE RUNAWAY RULE long AS {created}")), rule(None, false));
    let of_acme = format!("create runaway rule if not exists long for tenant acme as {created}");
    assert_eq!(host(&of_acme), rule(Some("acme"), true));
    let change = OptionChange::Set(options.clone());
    let altered = HostStatement::AlterRunawayRule { name: "long".into(), change };
    assert_eq!(host(&format!("ALTER RUNAWAY RULE long SET {created}")), altered);
    let dropped = HostStatement::DropRunawayRule { name: "Long".into(), if_exists: true };
    assert_eq!(host("DROP RUNAWAY RULE IF EXISTS \"Long\""), dropped);
    assert_eq!(host("show runaway rules"), HostStatement::ShowRunawayRules);
    assert_eq!(error("ALTER SYSTEM SET work_mem = 1").state(), base::SqlState::FEATURE_NOT_SUPPORTED);
}

#[test]
fn options_that_make_no_sense_are_syntax_errors() {
    let minuses = format!("ALTER TENANT a SET (cpu = {}1)", "- ".repeat(20_000));
    for wrong in [
        "CREATE SIZE gold",
        "CREATE SIZE gold AS ()",
        "CREATE SIZE gold AS (cpu)",
        "CREATE SIZE gold AS (cpu =)",
        "CREATE SIZE gold AS (cpu = 1, CPU = 2)",
        "CREATE SIZE gold AS (cpu = 1",
        "CREATE SIZE gold AS (cpu = 1) WITH (iops = 1)",
        "CREATE SIZE gold AS (cpu = - half)",
        "ALTER SIZE gold SET cpu = 1",
        "ALTER TENANT acme SET WORKER",
        "ALTER TENANT acme SET WORKER one",
        "ALTER TENANT acme SET WORKER 1, 2",
        "ALTER SIZE gold RESET (cpu, cpu)",
        "ALTER SIZE gold RESET (cpu = 1)",
        "DROP SIZE",
        "ALTER SERVER SET policy = max_only",
        "ALTER SERVER SET (policy = max_only, Policy = reservations)",
        "ALTER VOLUME SET (iops_limit = 1)",
        "SHOW SIZES gold",
        "CREATE RUNAWAY RULE long",
        "CREATE RUNAWAY RULE long AS ()",
        "CREATE RUNAWAY RULE long FOR acme AS (rows = 1)",
        "CREATE RUNAWAY RULE long FOR TENANT AS (rows = 1)",
        "CREATE RUNAWAY RULE long AS (rows = 1, ROWS = 2)",
        "ALTER RUNAWAY RULE long FOR TENANT acme SET (rows = 1)",
        "ALTER RUNAWAY long SET (rows = 1)",
        "DROP RUNAWAY RULE",
        "SHOW RUNAWAY RULES long",
        &minuses,
    ] {
        let error = parse_script(wrong).expect_err(wrong);
        assert_eq!(error.state(), base::SqlState::SYNTAX_ERROR, "{wrong}");
    }
}

#[test]
fn tenants_are_copied_backed_up_and_restored() {
    let HostStatement::CreateTenant { name, template, options, .. } =
        host("CREATE TENANT b FROM TEMPLATE a WITH (cpu = 2)")
    else {
        panic!("not a tenant");
    };
    assert_eq!((name.as_str(), template.as_deref(), options.len()), ("b", Some("a"), 1));
    assert_eq!(host("backup tenant \"A b\" to stdout"), HostStatement::BackupTenant { name: "A b".into() });
    assert_eq!(
        host("RESTORE TENANT b FROM STDIN WITH (volume = fast)"),
        HostStatement::RestoreTenant {
            name: Some("b".into()),
            options: vec![("volume".into(), "fast".into())]
        }
    );
    assert_eq!(
        host("RESTORE TENANT FROM STDIN"),
        HostStatement::RestoreTenant { name: None, options: Vec::new() }
    );
    for wrong in
        ["BACKUP TENANT a", "BACKUP TENANT a TO '/tmp/file'", "RESTORE TENANT b FROM STDIN x", "RESTORE b"]
    {
        assert!(parse_script(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn copy_is_read_in_both_forms() {
    let ParsedStatement::Copy(copy) = one("copy pgbench_accounts from stdin with (freeze on)") else {
        panic!("not a COPY");
    };
    assert_eq!(copy.direction, CopyDirection::FromClient);
    let ParsedStatement::Copy(copy) = one("COPY (select 1, ')') TO STDOUT WITH CSV HEADER DELIMITER ';'")
    else {
        panic!("not a COPY");
    };
    assert_eq!((copy.options.format, copy.options.header), (CopyTextFormat::Csv, true));
    assert_eq!(copy.options.delimiter, Some(b';'));
    assert!(matches!(&copy.source, CopySource::Query { sql, .. } if sql == "select 1, ')'"));
    assert_eq!(error("copy t from '/etc/passwd'").state(), SqlState::INSUFFICIENT_PRIVILEGE);
    let all = error("copy t from stdin (format csv, force_null *)");
    assert_eq!(all.message(), "argument to option \"force_null\" must be a list of column names");
    for (option, message) in [
        ("freeze 'junk'", "freeze requires a Boolean value"),
        ("header 2", "header requires a Boolean value or \"match\""),
    ] {
        let refused = error(&format!("copy t from stdin (format csv, {option})"));
        assert_eq!((refused.state(), refused.message()), (SqlState::SYNTAX_ERROR, message));
    }
}

#[test]
fn a_database_is_made_and_dropped_as_a_tenant() {
    for statement in ["create database shop", "drop database if exists shop"] {
        let refused = error(statement);
        assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED, "{statement}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("CREATE TENANT and DROP TENANT")));
    }
}

#[test]
fn cursors_and_fetches_are_read() {
    assert!(matches!(
        one("declare c scroll cursor with hold for select 1"),
        ParsedStatement::Cursor(CursorStatement::Declare { hold: true, scroll: Some(true), .. })
    ));
    for (sql, expected) in [
        ("fetch c", FetchDirection::Forward(Some(1))),
        ("fetch 10 from c", FetchDirection::Forward(Some(10))),
        ("fetch forward all in c", FetchDirection::Forward(None)),
        ("move absolute -2 c", FetchDirection::Absolute(-2)),
    ] {
        assert!(matches!(one(sql),
            ParsedStatement::Cursor(CursorStatement::Fetch { direction, .. }) if direction == expected));
    }
}

#[test]
fn privileges_and_memberships_are_told_apart() {
    assert!(matches!(
        one("grant select, insert on table t, s.u to a, public with grant option"),
        ParsedStatement::Grant(GrantStatement::Privileges { grant: true, grant_option: true, .. })
    ));
    assert!(matches!(
        one("revoke r from m"),
        ParsedStatement::Grant(GrantStatement::Membership(RoleStatement::RevokeMembership { .. }))
    ));
    assert!(matches!(
        one("grant r to m with admin option granted by g"),
        ParsedStatement::Grant(GrantStatement::Membership(RoleStatement::GrantMembership {
            admin_option: true,
            granted_by: Some(_),
            ..
        }))
    ));
}

#[test]
fn a_role_is_made_with_members_and_altered_without() {
    let ParsedStatement::Role(RoleStatement::Create { options, .. }) =
        one("create role r in role a role b, c admin d")
    else {
        panic!("not a CREATE ROLE");
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [
        RoleOption::InRole(names(&["a"])),
        RoleOption::Members(names(&["b", "c"])),
        RoleOption::Admins(names(&["d"])),
    ];
    assert_eq!(options, expected);
    for option in ["in role a", "role a", "user a", "admin a", "sysid 1"] {
        assert_eq!(error(&format!("alter role r {option}")).state(), SqlState::SYNTAX_ERROR, "{option}");
    }
    for twice in ["login nologin", "password 'a' password null", "connection limit -1 connection limit -1"] {
        for statement in ["create role r", "alter role r"] {
            let refused = error(&format!("{statement} {twice}"));
            assert_eq!(refused.message(), "conflicting or redundant options", "{statement} {twice}");
        }
    }
    one("create user u nologin");
    for (mixed, near) in
        [("revoke admin option for select on t from r", "on"), ("revoke grant option for a from r", "from")]
    {
        assert_eq!(error(mixed).message(), format!("syntax error at or near \"{near}\""), "{mixed}");
    }
    assert!(matches!(
        one("alter role r reset all"),
        ParsedStatement::StartSetting(StartSetting { of: SessionsOf::Role(name), change: SettingChange::ResetAll })
            if name == "r"
    ));
    assert!(matches!(
        one("alter role r reset \"all\""),
        ParsedStatement::StartSetting(StartSetting { change: SettingChange::Reset(_), .. })
    ));
}

#[test]
fn renames_of_objects_are_ours_and_of_columns_are_not() {
    assert!(matches!(one("alter table a.b rename to c"), ParsedStatement::Utility(Utility::Rename { .. })));
    assert!(matches!(one("alter table a rename column b to c"), ParsedStatement::Ast(_)));
    assert!(matches!(one("alter sequence s owner to x"), ParsedStatement::Utility(Utility::SetOwner { .. })));
    assert!(matches!(one("alter sequence s restart with 7"), ParsedStatement::AlterSequence(_)));
}

#[test]
fn a_prepared_statement_keeps_its_own_text() {
    let ParsedStatement::Prepare { name, types, sql, .. } =
        one("prepare p (int, text) as select * from t where a = $1")
    else {
        panic!("not a PREPARE");
    };
    assert_eq!((name.as_str(), types.len()), ("p", 2));
    assert_eq!(sql, "select * from t where a = $1");
}

#[test]
fn comments_name_columns_and_constraints() {
    assert!(matches!(one("comment on column s.t.c is 'x'"),
        ParsedStatement::Utility(Utility::Comment { kind: ObjectKind::Column, name, .. }) if name.len() == 3));
    assert!(matches!(
        one("comment on table t is null"),
        ParsedStatement::Utility(Utility::Comment { text: None, .. })
    ));
}

#[test]
fn table_is_a_query_and_a_clause_is_no_table() {
    assert!(parse_query("TABLE t").is_ok());
    let error = parse_script("SELECT FROM WHERE").unwrap_err();
    assert_eq!(error.message(), "syntax error at or near \"WHERE\"");
    assert_eq!(error.position(), Some(13));
    assert!(parse_script("SELECT a FROM \"where\" WHERE true").is_ok());
}

#[test]
fn a_query_in_parentheses_is_no_list_of_options() {
    let explained = |sql: &str| match one(sql) {
        ParsedStatement::Ast(statement) => match *statement {
            ast::Statement::Explain { statement, .. } => statement.to_string(),
            other => panic!("{other}"),
        },
        _ => panic!("{sql}"),
    };
    for query in ["(SELECT 1)", "((SELECT 1))", "(VALUES (1))", "(SELECT 1) UNION ALL (SELECT 2)"] {
        assert_eq!(explained(&format!("EXPLAIN {query}")), query);
        assert_eq!(explained(&format!("EXPLAIN (VERBOSE, COSTS off) {query}")), query);
    }
    assert_eq!(explained("explain (with a as (select 1) table a)"), "(WITH a AS (SELECT 1) SELECT * FROM a)");
}

#[test]
fn literals_go_on_behind_the_end_of_a_line() {
    let shown = |sql: &str| parse_expression(sql).map(|parsed| parsed.to_string());
    for (sql, joined) in
        [("'a'\n'b'", "'ab'"), ("'a' -- c\n  'b'\n\n'c'", "'abc'"), ("E'a\\n'\n'b'", "E'a\\nb'")]
    {
        assert_eq!(shown(sql).unwrap(), joined, "{sql}");
    }
    for (sql, state) in [
        ("'a' 'b'", SqlState::SYNTAX_ERROR),
        ("'a' /* \n */ 'b'", SqlState::SYNTAX_ERROR),
        ("E'a'\n'\\n'", SqlState::FEATURE_NOT_SUPPORTED),
        ("U&'d!0061t' UESCAPE '!'", SqlState::FEATURE_NOT_SUPPORTED),
    ] {
        assert_eq!(shown(sql).unwrap_err().state(), state, "{sql}");
    }
}

#[test]
fn a_sign_binds_closer_than_a_power() {
    let shown = |sql: &str| parse_expression(sql).unwrap().to_string();
    assert_eq!(shown("-(-2 ^ 2)"), "-(-2 ^ 2)");
    let parsed = parse_expression("-a ^ 2").unwrap();
    let ast::Expr::BinaryOp { left, op: ast::BinaryOperator::PGExp, .. } = parsed else {
        panic!("a power of -a");
    };
    assert_eq!(left.to_string(), "-a");
}

#[test]
fn an_operator_ends_before_a_sign_and_before_a_comment() {
    let shown = |sql: &str| parse_expression(sql).unwrap().to_string();
    for (sql, read) in [
        ("a>-1", "a > -1"),
        ("a<>-1 and a>=+2", "a <> -1 AND a >= +2"),
        ("a->-1->>-b", "a -> -1 ->> -b"),
        ("a>--nothing\n1", "a > 1"),
        ("a<=/* nothing */1", "a <= 1"),
        ("a #- b", "a #- b"),
    ] {
        assert_eq!(shown(sql), read);
    }
}

#[test]
fn operators_bind_as_postgresqls() {
    let outermost = |sql: &str| match parse_expression(sql).unwrap() {
        ast::Expr::BinaryOp { op, .. } => op.to_string(),
        ast::Expr::UnaryOp { op, .. } => op.to_string(),
        other => panic!("{other}"),
    };
    for (sql, op) in [
        ("@ a + b", "@"),
        ("~ a * b", "~"),
        ("|/ a ^ b", "|/"),
        ("@ a = b", "="),
        ("@ a || b", "||"),
        ("- a ^ b", "^"),
        ("a ^ - b ^ c", "^"),
        ("a = b ~ c", "="),
        ("a ~ b = c", "="),
        ("a ~ b || c", "||"),
        ("a !~~* b || c", "||"),
        ("not a ~ b", "NOT"),
    ] {
        assert_eq!(outermost(sql), op, "{sql}");
    }
    let ast::Expr::BinaryOp { left, .. } = parse_expression("a ^ - b ^ c").unwrap() else {
        panic!("a power");
    };
    assert_eq!(left.to_string(), "a ^ -b");
}

#[test]
fn a_name_is_cut_as_other_statements_cut_it() {
    let long = "n".repeat(70);
    let ParsedStatement::Prepare { name, .. } = one(&format!("prepare {long} as select 1")) else {
        panic!("not a PREPARE");
    };
    assert_eq!(name, long[..63]);
    for sql in ["savepoint", "release", "rollback to"] {
        let ParsedStatement::Transaction(
            TransactionStatement::Savepoint(name)
            | TransactionStatement::Release(name)
            | TransactionStatement::RollbackTo(name),
        ) = one(&format!("{sql} \"{}\"", "ä".repeat(40)))
        else {
            panic!("{sql}");
        };
        assert_eq!(name, "ä".repeat(31));
    }
}

#[test]
fn an_error_within_a_prepare_is_told_where_it_stands_in_the_script() {
    let error = error("select 1; prepare p as selec 2");
    assert_eq!(error.message(), "syntax error at or near \"selec\"");
    assert_eq!(error.position(), Some(24));
}

#[test]
fn a_value_has_one_sign() {
    let values = |sql: &str| match one(sql) {
        ParsedStatement::Setting(SettingStatement::Set { value: SettingValue::Values(values), .. }) => values,
        other => panic!("{other:?}"),
    };
    assert_eq!(values("set extra_float_digits = -1"), ["-1"]);
    for signs in [2, 100_000] {
        let sql = format!("set extra_float_digits = {}1", "- ".repeat(signs));
        assert_eq!(error(&sql).state(), SqlState::SYNTAX_ERROR);
    }
}

/// Each would take minutes and more if what it repeats were looked at again for each of them.
#[test]
fn what_is_repeated_is_looked_at_once() {
    let types = vec!["int"; 50_000].join(", ");
    assert!(matches!(one(&format!("prepare p ({types}) as select 1")), ParsedStatement::Prepare { .. }));
    let cursors = parse_script(&"declare c cursor for select 1;".repeat(50_000)).unwrap();
    assert!(cursors.iter().all(|cursor| matches!(
        &cursor.statement,
        ParsedStatement::Cursor(CursorStatement::Declare { sql, .. }) if sql == "select 1"
    )));
    let identities = "AS IDENTITY (],".repeat(80_000);
    let names = "a.".repeat(60_000);
    let parentheses = "(),".repeat(100_000);
    for sql in [identities, format!("CREATE TABLE {names}a {parentheses}")] {
        assert_eq!(error(&sql).state(), SqlState::SYNTAX_ERROR, "{sql:.30}");
    }
}

/// Asks for an end, or has no room, after so many questions; counts what is held.
struct Asked {
    looks: std::cell::Cell<usize>,
    end_at: usize,
    held_max: std::cell::Cell<usize>,
    room: usize,
}

impl Reading for Asked {
    fn is_to_end(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() == self.end_at
    }

    fn hold(&self, bytes: usize) -> SqlResult<()> {
        self.held_max.set(self.held_max.get().max(bytes));
        if bytes <= self.room { Ok(()) } else { Err(SqlError::new(SqlState::OUT_OF_MEMORY, "no room")) }
    }
}

#[test]
fn a_long_text_is_read_as_long_as_others_will_have_it() {
    let asked = |end_at, room| {
        Rc::new(Asked { looks: Default::default(), end_at, held_max: Default::default(), room })
    };
    let values = "(1, 'a', -2.5), ".repeat(20_000);
    let sql = format!("insert into t values {values} (1); select 1");
    let tokens = 20_000 * 12;
    let willing = asked(usize::MAX, usize::MAX);
    let read = parse_script_at_length(&sql, willing.clone()).unwrap();
    assert_eq!(read.len(), 2);
    // The tokenizer, what is checked of the tokens, the parser.
    assert!(willing.looks.get() > 5 * tokens / 256, "{}", willing.looks.get());
    assert!(willing.held_max.get() > tokens * 2 * 112, "{}", willing.held_max.get());
    assert!(read[0].size > 100 * 20_000 && (8_000..12_000).contains(&read[1].size));
    for end_at in [1, willing.looks.get() / 2, willing.looks.get()] {
        let reading = asked(end_at, usize::MAX);
        assert!(matches!(parse_one_at_length(&sql, reading.clone()), Err(Unread::ToEnd)), "{end_at}");
        assert_eq!(reading.looks.get(), end_at);
    }
    for room in [0, tokens * 112, willing.held_max.get() - 1] {
        let read = parse_script_at_length(&sql, asked(usize::MAX, room));
        assert!(matches!(read, Err(Unread::NoRoom(error)) if error.message() == "no room"), "{room}");
    }
    assert!(matches!(parse_one_at_length(&sql, willing), Err(Unread::Refused(_))), "two statements");
}

#[test]
fn tokens_are_counted_before_they_are_kept() {
    let reading = Rc::new(Asked {
        looks: Default::default(),
        end_at: 0,
        held_max: Default::default(),
        room: usize::MAX,
    });
    let read = parse_script_at_length(&" ".repeat(4 * STATEMENT_TOKENS_MAX), reading.clone());
    assert!(matches!(read, Err(Unread::Refused(error)) if error.state() == SqlState::STATEMENT_TOO_COMPLEX));
    assert!(reading.held_max.get() <= STATEMENT_TOKENS_MAX * 112);
}
