//! ALTER TABLE on tables with rows.

use base::ByteCount;

use super::{after, constraints, failure, rows};
use crate::session::Pause;
use crate::session::testing::Bench;

#[test]
fn an_added_column_shows_its_default_in_old_rows() {
    let sql = "create table t (a int primary key); insert into t values (1); alter table t add column b text default 'x'";
    assert_eq!(rows(sql, "select a, b from t where a = 1"), ["1|x"]);
    let sql = format!("{sql}; alter table t alter column b drop default; insert into t values (2)");
    assert_eq!(rows(&sql, "select a, b from t where a = 2"), ["2|"]);
    assert_eq!(rows(&sql, "select a, b from t where a = 1"), ["1|x"]);
}

/// In the forms in which pg_dump writes it.
#[test]
fn what_tunes_storage_statistics_and_replication_is_taken() {
    let table =
        "create table t (a int primary key, b text); create table u (a int); create index u_a on u (a)";
    let (mut bench, mut session) = after(table);
    for operation in [
        "alter column a set statistics 500",
        "alter b set statistics -1",
        "alter column b set storage external",
        "alter column a set storage plain",
        "alter column b set compression lz4",
        "cluster on t_pkey",
        "set without cluster",
        "replica identity full",
        "replica identity using index t_pkey",
    ] {
        let answer = bench.run(&mut session, &format!("alter table only public.t {operation}"));
        assert_eq!(answer.tags, ["ALTER TABLE"], "{operation}");
    }
    bench.run(&mut session, "alter table if exists nothing replica identity default");
    for (sql, expected) in [
        ("alter table t alter c set statistics 1", "42703 column \"c\" of relation \"t\" does not exist"),
        ("alter table t alter a set statistics -2", "22023 statistics target -2 is too low"),
        (
            "alter table t alter a set storage main",
            "0A000 column data type integer can only have storage PLAIN",
        ),
        ("alter table t alter b set storage far", "22023 invalid storage type \"far\""),
        ("alter table t alter b set compression zip", "22023 invalid compression method \"zip\""),
        ("alter table t cluster on u_a", "42704 index \"u_a\" for table \"t\" does not exist"),
        ("alter table nothing cluster on u_a", "42P01 relation \"nothing\" does not exist"),
    ] {
        assert_eq!(failure(table, sql), expected, "{sql}");
    }
    let roles = format!("{table}; create role clerk login; grant all on t to clerk");
    let (mut bench, _owner) = after(&roles);
    let mut clerk = bench.session_of("clerk");
    let error = bench.fail(&mut clerk, "alter table t replica identity full");
    assert_eq!(error.message(), "must be owner of table t");
}

#[test]
fn a_long_default_of_an_added_column_goes_into_the_rows() {
    let (mut bench, mut session) = after(
        "create table t (a int); insert into t values (1), (2);
         alter table t add b text default repeat('x', 20000), add c text default 'y'; insert into t values (3)",
    );
    let sql = "select a, length(b), c from t order by a";
    assert_eq!(bench.run(&mut session, sql).lines(), ["1|20000|y", "2|20000|y", "3|20000|y"]);
    let catalog = bench.catalog();
    let table = catalog.tables().find(|t| t.name == "t").expect("the table exists");
    let kept: Vec<bool> = table.columns.iter().map(|column| column.missing.is_some()).collect();
    assert_eq!(kept, [false, false, true]);
}

#[test]
fn an_added_serial_numbers_old_rows() {
    let sql = "create table t (a int); insert into t values (10), (20); alter table t add column id serial";
    assert_eq!(rows(sql, "select a, id from t order by id"), ["10|1", "20|2"]);
    let next = format!("{sql}; insert into t (a) values (30)");
    assert_eq!(rows(&next, "select id from t where a = 30"), ["3"]);
}

#[test]
fn a_default_stays_a_value_of_the_type_that_it_was_read_as() {
    let sql = "create type mood as enum ('sad'); create table t (id int, a int default '05', b bool default 'f', c char(3) default 'x',
                   j jsonb default '{\"k\":1}', m mood default 'sad', r float8 default '1.50');
               alter table t alter a type text, alter b type text, alter c type text, alter j type text, alter m type text, alter r type numeric";
    let insert = format!("{sql}; insert into t (id) values (1)");
    assert_eq!(rows(&insert, "select a, b, c, j, m, r from t"), ["5|false|x|{\"k\": 1}|sad|1.5"]);
    let sql = "create table t (a text default '5', b text default 'x')";
    assert_eq!(
        failure(sql, "alter table t alter a type int using a::int"),
        "42804 default for column \"a\" cannot be cast automatically to type integer"
    );
    let sql = format!("{sql}; alter table t alter b type varchar(5); insert into t values (default)");
    assert_eq!(rows(&sql, "select a, b from t"), ["5|x"]);
}

#[test]
fn several_operations_run_in_one_statement() {
    let sql = "create table t (a int, b int); insert into t values (1, 2);
               alter table t add constraint c check (d is null), add column d int, drop column b, add primary key (a)";
    let (mut bench, mut session) = after(sql);
    assert_eq!(constraints(&bench, "t"), ["c", "t_pkey"]);
    assert_eq!(bench.run(&mut session, "select * from t").lines(), ["1|"]);
}

#[test]
fn a_failed_operation_takes_the_whole_statement_back() {
    let (mut bench, mut session) = after("create table t (a int)");
    bench.fail(&mut session, "alter table t add column b int, add column a int");
    assert_eq!(bench.run(&mut session, "select * from t").fields.len(), 1);
}

#[test]
fn ddl_rolls_back_with_its_transaction() {
    let (mut bench, mut session) = after("create table t (a int)");
    bench.run(&mut session, "begin");
    bench.run(&mut session, "alter table t add column b int");
    bench.run(&mut session, "create table u (a int); insert into t values (1, 2)");
    assert_eq!(bench.run(&mut session, "select * from t").lines(), ["1|2"]);
    bench.run(&mut session, "rollback");
    assert_eq!(bench.run(&mut session, "select * from t").fields.len(), 1);
    assert_eq!(bench.fail(&mut session, "select * from u").state().as_str(), "42P01");
}

#[test]
fn types_change_with_their_values() {
    let sql = "create table t (a int primary key, b text, c varchar(5), d int default 7);
               insert into t values (1, '42', 'abc', 5);";
    let changed = format!(
        "{sql} alter table t alter column b type int using b::int, alter c type varchar(50), alter d type bigint"
    );
    assert_eq!(rows(&changed, "select b + 1, c, d from t where a = 1"), ["43|abc|5"]);
    assert_eq!(
        failure(sql, "alter table t alter column b type int"),
        "42804 column \"b\" cannot be cast automatically to type integer"
    );
    assert_eq!(
        failure(sql, "alter table t alter column c type varchar(2)"),
        "22001 value too long for type character varying(2)"
    );
    let inserted = format!("{changed}; insert into t (a) values (2)");
    assert_eq!(rows(&inserted, "select d from t where a = 2"), ["7"]);
}

#[test]
fn renaming_reaches_checks_and_serials() {
    let sql = "create table t (id serial primary key, b int check (t.b > 0));
               alter table t rename column b to c; alter table t rename to u; alter sequence t_id_seq rename to u_id_seq;
               insert into u (c) values (5)";
    assert_eq!(rows(sql, "select id, c from u where id = 1"), ["1|5"]);
    assert_eq!(
        failure(sql, "insert into u (c) values (-1)"),
        "23514 new row for relation \"u\" violates check constraint \"t_b_check\""
    );
}

#[test]
fn renaming_under_a_view_is_refused() {
    let sql = "create table t (a int, b int); create view v as select a from t";
    assert!(failure(sql, "alter table t rename to u").starts_with("0A000"));
    assert!(failure(sql, "alter table t rename column a to c").starts_with("0A000"));
    let (mut bench, mut session) = after(sql);
    bench.run(&mut session, "alter table t rename column b to c");
}

#[test]
fn constraints_come_and_go() {
    let (mut bench, mut session) = after(
        "create table p (a int primary key);
         create table t (a int constraint positive check (a > 0), b int unique, c int references p, check (a < b))",
    );
    assert_eq!(constraints(&bench, "t"), ["positive", "t_check", "t_b_key", "t_c_fkey"]);
    for name in ["positive", "t_check", "t_b_key", "t_c_fkey"] {
        bench.run(&mut session, &format!("alter table t drop constraint {name}"));
    }
    assert!(constraints(&bench, "t").is_empty());
    bench.run(&mut session, "insert into t values (-1, -2, 99)");
    bench.run(
        &mut session,
        "alter table t add constraint k unique (b); alter table t rename constraint k to l",
    );
    assert_eq!(constraints(&bench, "t"), ["l"]);
}

#[test]
fn a_column_becomes_an_identity() {
    let sql = "create table t (a int not null, b text); alter table t alter column a add generated by default as identity;
               insert into t (b) values ('x'), ('y')";
    assert_eq!(rows(sql, "select a, b from t order by a"), ["1|x", "2|y"]);
    let always = "create table t (id bigint generated always as identity primary key, b int)";
    assert_eq!(
        failure(always, "insert into t values (1, 1)"),
        "428C9 cannot insert a non-DEFAULT value into column \"id\""
    );
}

/// A parent with the keys 1 and 2, and a child that references both.
const FAMILY: &str = "create table parent (id int primary key, name varchar(5) unique); insert into parent values (1, 'a'), (2, 'b');
    create table child (id int primary key, p int references parent on update cascade, name varchar(5) references parent (name));
    insert into child values (10, 1, 'a'), (20, 2, 'b'), (30, null, null);";

#[test]
fn columns_of_foreign_keys_take_types_that_compare() {
    for alter in [
        "alter table child alter p type bigint",
        "alter table child alter column p type smallint using (p::smallint)",
        "alter table child alter p drop default, alter p drop not null, alter p type bigint using (p::bigint)",
        "alter table parent alter id type bigint",
        "alter table parent alter id type numeric(20)",
        "alter table child alter p type bigint; alter table parent alter id type bigint",
        "alter table child alter name type varchar(50); alter table parent alter name type text",
    ] {
        let (mut bench, mut session) = after(&format!("{FAMILY} {alter}"));
        for (sql, state) in [
            ("insert into child values (40, 3, null)", "23503"),
            ("insert into child values (40, null, 'c')", "23503"),
            ("delete from parent where id = 1", "23503"),
        ] {
            assert_eq!(bench.fail(&mut session, sql).state().as_str(), state, "{alter}; {sql}");
        }
        bench.run(
            &mut session,
            "insert into child values (40, 2, 'a'); update parent set id = 3 where id = 2",
        );
        let shown = bench.run(&mut session, "select id, p from child order by id").lines();
        assert_eq!(shown, ["10|1", "20|3", "30|", "40|3"], "{alter}");
    }
    let tree = "create table node (id int primary key, up int references node); insert into node values (1, null), (2, 1);
                alter table node alter up type text, alter id type text;";
    assert_eq!(rows(tree, "select id, up from node order by id"), ["1|", "2|1"]);
    assert!(failure(tree, "insert into node values ('3', '4')").starts_with("23503"));
}

#[test]
fn a_type_that_breaks_a_foreign_key_is_refused() {
    let (mut bench, mut session) = after(FAMILY);
    for (alter, error, detail) in [
        (
            "alter table child alter p type text",
            "42804 foreign key constraint \"child_p_fkey\" cannot be implemented",
            "Key columns \"p\" and \"id\" are of incompatible types: text and integer.",
        ),
        (
            "alter table parent alter id type uuid using gen_random_uuid()",
            "42804 foreign key constraint \"child_p_fkey\" cannot be implemented",
            "Key columns \"p\" and \"id\" are of incompatible types: integer and uuid.",
        ),
        (
            "alter table child alter p type int using p + 1",
            "23503 insert or update on table \"child\" violates foreign key constraint \"child_p_fkey\"",
            "Key (p)=(3) is not present in table \"parent\".",
        ),
        (
            "alter table parent alter id type bigint using id - 1",
            "23503 insert or update on table \"child\" violates foreign key constraint \"child_p_fkey\"",
            "Key (p)=(2) is not present in table \"parent\".",
        ),
    ] {
        let refused = bench.fail(&mut session, alter);
        assert_eq!(format!("{} {}", refused.state(), refused.message()), error, "{alter}");
        assert_eq!(refused.detail(), Some(detail), "{alter}");
    }
    // Both sides at once, which keeps what there is.
    bench.run(
        &mut session,
        "insert into parent values (3, 'c'); alter table child alter p type int using p + 1",
    );
    let shown = bench.run(&mut session, "select p from child order by id").lines();
    assert_eq!(shown, ["2", "3", ""]);
    // Of a constraint that is not valid the rows before it are nobody's business.
    bench.run(
        &mut session,
        "alter table child drop constraint child_p_fkey; insert into child values (50, 77, null);
         alter table child add constraint k foreign key (p) references parent not valid;
         alter table child alter p type bigint",
    );
    assert!(bench.fail(&mut session, "alter table child validate constraint k").state().as_str() == "23503");
}

#[test]
fn tables_tied_by_a_foreign_key_are_locked_while_a_column_of_it_changes() {
    let (mut bench, mut session) = after(FAMILY);
    let mut other = bench.session();
    bench.run(&mut session, "begin; alter table parent alter id type bigint");
    assert!(matches!(bench.try_run(&mut other, "select * from child"), Err(Pause::Lock(_))));
    bench.turn(|home| other.end(home));
    bench.run(&mut session, "rollback; begin; alter table child alter p type bigint");
    let mut other = bench.session();
    bench.run(&mut other, "select * from parent");
    assert!(matches!(bench.try_run(&mut other, "delete from parent"), Err(Pause::Lock(_))));
}

#[test]
fn columns_change_their_types_at_once() {
    let sql = "create table t (a int, b text, c varchar(3), primary key (a));
               insert into t values (1, '10', 'x'), (2, '20', 'y')";
    let swapped = format!(
        "{sql}; alter table t alter a type bigint using b::int, alter b type text using a::text, alter c type varchar(5)"
    );
    assert_eq!(rows(&swapped, "select a, b, c from t order by a"), ["10|1|x", "20|2|y"]);
    assert_eq!(
        failure(sql, "alter table t alter a type bigint, alter a type int"),
        "0A000 cannot alter type of column \"a\" twice"
    );
}

#[test]
fn a_type_that_has_all_the_values_rewrites_no_row() {
    let before = "create table t (id int primary key, a varchar(5) default 'x', b text, c numeric(6, 2), d varchar(5) unique);
                  insert into t values (1, 'abc', 'b', 12.34, 'k')";
    let tree =
        |bench: &Bench| bench.catalog().tables().find(|t| t.name == "t").expect("the table exists").tree;
    for (alter, is_kept) in [
        ("alter a type text", true),
        ("alter a type varchar(9) using a::varchar(9)", true),
        ("alter a type text using (cast(\"a\" as text))", true),
        ("alter b type varchar, alter d type text using d", true),
        ("alter c type numeric(8, 2) using c::numeric(8, 2)", true),
        ("alter c type numeric", true),
        ("alter a type varchar(4)", false),
        ("alter b type varchar(5)", false),
        ("alter c type numeric(8, 3)", false),
        ("alter a type varchar(9) using b::varchar(9)", false),
        ("alter a type varchar(9) using a::varchar(2)", false),
        ("alter a type text using upper(a)", false),
        ("alter d type char(9)", false),
    ] {
        let (mut bench, mut session) = after(before);
        let old = tree(&bench);
        bench.run(&mut session, &format!("alter table t {alter}"));
        assert_eq!(tree(&bench) == old, is_kept, "{alter}");
        if is_kept {
            let shown = bench.run(&mut session, "select id, a, b, c, d from t where d = 'k'").lines();
            assert_eq!(shown, ["1|abc|b|12.34|k"], "{alter}");
            let taken = bench.fail(&mut session, "insert into t (id, d) values (2, 'k')");
            assert_eq!(taken.state().as_str(), "23505", "{alter}");
        }
    }
    let longer = format!("{before}; alter table t alter a type varchar(9) using a::varchar(9)");
    assert_eq!(rows(&longer, "insert into t (id, a) values (2, 'abcdefghi') returning a"), ["abcdefghi"]);
    assert_eq!(
        failure(&longer, "insert into t (id, a) values (3, 'abcdefghij')"),
        "22001 value too long for type character varying(9)"
    );
}

#[test]
fn a_new_type_keeps_the_checks() {
    let sql = "create table t (a numeric(4, 2) check (a < 10), b int constraint c check (b > 0)); insert into t values (9.99, 1)";
    let violated =
        |name: &str| format!("23514 check constraint \"{name}\" of relation \"t\" is violated by some row");
    assert_eq!(failure(sql, "alter table t alter a type numeric(4, 0)"), violated("t_a_check"));
    assert_eq!(failure(sql, "alter table t alter b type int using b - 1"), violated("c"));
    assert_eq!(
        failure(sql, "alter table t alter a type int using 5, alter b type int using -b"),
        violated("c")
    );
    let altered = format!("{sql}; alter table t alter a type numeric(4, 1) using 9, alter b type bigint");
    assert_eq!(rows(&altered, "select a, b from t"), ["9.0|1"]);
    // One that is not valid yet is not asked of older rows.
    let lax = "create table t (a int); insert into t values (1); alter table t add constraint c check (a > 5) not valid;
               alter table t alter a type bigint";
    assert_eq!(rows(lax, "select a from t"), ["1"]);
}

#[test]
fn new_values_of_all_rows_are_within_what_changes_may_take() {
    let mut bench = Bench::within(ByteCount::from_mib(32));
    let mut session = bench.session();
    bench.run(
        &mut session,
        "create table t (id int primary key); insert into t select g from generate_series(1, 20000) g",
    );
    for sql in [
        "alter table t alter id type text using repeat(id::text, 200)",
        "alter table t add column x text default repeat('x', (1000 + random())::int)",
    ] {
        let error = bench.fail(&mut session, sql);
        assert_eq!(error.message(), "out of memory for the rows of a statement", "{sql}");
    }
    // One value for all rows is in none of them.
    bench.run(&mut session, "alter table t add column y text default repeat('y', 1000)");
    assert_eq!(bench.run(&mut session, "select length(y) from t where id = 7").lines(), ["1000"]);
}

#[test]
fn a_column_that_is_there_already_is_not_looked_at_any_further() {
    let add = "alter table t add column if not exists a int default 'x' references nothing, add column if not exists b int";
    let (mut bench, mut session) = super::after("create table t (a text)");
    let said = bench.run(&mut session, add);
    assert_eq!(said.notices(), ["column \"a\" of relation \"t\" already exists, skipping"]);
    assert_eq!(bench.run(&mut session, "select a, b from t").lines(), [""; 0]);
    let error = bench.fail(&mut session, "alter table t add column a int");
    assert_eq!(error.state().as_str(), "42701");
}
