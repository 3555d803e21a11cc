//! What frameworks and dumps send beside their tables: extensions, triggers off and on, indexes built concurrently. Expectations are
//! PostgreSQL 15's.

use base::SqlState;

use super::{after, failure};
use crate::session::testing::Bench;

#[test]
fn plpgsql_is_there_and_other_extensions_are_not() {
    let mut bench = Bench::new();
    let mut session = bench.session();
    let told = bench
        .run(&mut session, "create extension if not exists \"plpgsql\" with schema pg_catalog version '1.0'");
    assert_eq!(
        (told.tags[0].as_str(), told.notices()),
        ("CREATE EXTENSION", vec!["extension \"plpgsql\" already exists, skipping"])
    );
    bench.run(&mut session, "comment on extension plpgsql is 'a language'");
    let told = bench.run(&mut session, "drop extension if exists hstore, citext cascade");
    assert_eq!(
        told.notices(),
        ["extension \"hstore\" does not exist, skipping", "extension \"citext\" does not exist, skipping"]
    );
    for (sql, error) in [
        ("create extension plpgsql", "42710 extension \"plpgsql\" already exists"),
        ("create extension if not exists hstore", "0A000 extension \"hstore\" is not available"),
        ("drop extension hstore", "42704 extension \"hstore\" does not exist"),
        ("comment on extension hstore is 'x'", "42704 extension \"hstore\" does not exist"),
    ] {
        let found = bench.fail(&mut session, sql);
        assert_eq!(format!("{} {}", found.state(), found.message()), error, "{sql}");
    }
}

#[test]
fn extensions_whose_functions_are_built_in_are_made_and_dropped() {
    let (mut bench, mut session) = after("create schema s; create role guest login");
    bench.run(
        &mut session,
        "create extension if not exists \"uuid-ossp\" with schema public; create extension pgcrypto schema s version '1.3' cascade;
         comment on extension \"uuid-ossp\" is 'identifiers';
         create table t (id uuid primary key default public.uuid_generate_v4(), other uuid default uuid_generate_v4(), token bytea default gen_random_bytes(8));
         insert into t default values; insert into t default values",
    );
    assert_eq!(bench.run(&mut session, "select count(distinct token), count(other) from t").lines(), ["2|2"]);
    let made = |bench: &Bench| {
        let names = bench.catalog().extensions().map(|extension| extension.name.to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(made(&bench), "plpgsql uuid-ossp pgcrypto");
    let told = bench.run(&mut session, "create extension if not exists pgcrypto");
    assert_eq!(told.notices(), ["extension \"pgcrypto\" already exists, skipping"]);
    for (sql, error) in [
        ("create extension pgcrypto", "42710 extension \"pgcrypto\" already exists"),
        ("drop schema s", "2BP01 cannot drop schema s because other objects depend on it"),
        ("drop extension plpgsql", "0A000 DROP EXTENSION plpgsql is not supported"),
    ] {
        let found = bench.fail(&mut session, sql);
        assert_eq!(format!("{} {}", found.state(), found.message()), error, "{sql}");
    }
    let mut guest = bench.session_of("guest");
    assert_eq!(bench.fail(&mut guest, "drop extension pgcrypto").state(), SqlState::INSUFFICIENT_PRIVILEGE);
    let told = bench.run(&mut session, "drop schema s cascade");
    assert_eq!(told.notices(), ["drop cascades to extension pgcrypto"]);
    let refused = bench.fail(&mut guest, "create extension pgcrypto schema public");
    assert_eq!(refused.message(), "permission denied to create extension \"pgcrypto\"");
    for (sql, error) in [
        ("create extension pgcrypto schema nowhere", "3F000 schema \"nowhere\" does not exist"),
        (
            "create extension pgcrypto version '9'",
            "22023 extension \"pgcrypto\" has no installation script nor update path for version \"9\"",
        ),
    ] {
        let found = bench.fail(&mut session, sql);
        assert_eq!(format!("{} {}", found.state(), found.message()), error, "{sql}");
    }
    bench.run(&mut session, "grant create on database app to guest");
    bench.run(&mut guest, "create extension pgcrypto schema public");
    // The schema that an extension is in may be called otherwise, or the extension go: its functions stay.
    bench.run(&mut session, "alter schema public rename to old; insert into old.t default values");
    bench.run(
        &mut session,
        "drop extension \"uuid-ossp\", pgcrypto restrict; insert into old.t default values",
    );
    assert_eq!(made(&bench), "plpgsql");
    assert_eq!(bench.run(&mut session, "select count(distinct id) from old.t").lines(), ["4"]);
}

#[test]
fn a_dump_gives_its_schema_an_owner_and_blocks_of_code_are_refused() {
    let (mut bench, mut session) = after("create role other");
    for owner in ["owner", "other", "current_user"] {
        let told = bench.run(&mut session, &format!("ALTER SCHEMA public OWNER TO {owner};"));
        assert_eq!(told.tags, ["ALTER SCHEMA"]);
    }
    for block in [
        "DO $$ BEGIN CREATE TYPE mood AS ENUM ('a'); EXCEPTION WHEN duplicate_object THEN null; END $$;",
        "DO LANGUAGE plpgsql $body$ BEGIN PERFORM 1; END; $body$",
        "DO 'begin end'",
    ] {
        let refused = bench.fail(&mut session, block);
        assert_eq!(
            (refused.state(), refused.message()),
            (SqlState::FEATURE_NOT_SUPPORTED, "DO, an anonymous block of code, is not supported")
        );
    }
}

#[test]
fn an_index_is_built_and_dropped_concurrently_in_no_block() {
    let (mut bench, mut session) =
        after("create table t (a int, b int); create index one on t (a); create index two on t (b)");
    bench.run(&mut session, "create index concurrently three on t (a, b)");
    bench.run(&mut session, "drop index concurrently if exists three");
    for what in ["create index concurrently four on t (a)", "drop index concurrently one"] {
        let words = what.split(' ').take(3).collect::<Vec<_>>().join(" ").to_uppercase();
        for script in [format!("begin; {what}"), format!("select 1; {what}"), format!("{what}; select 1")] {
            let error = bench.fail(&mut session, &script);
            assert_eq!(
                (error.state(), error.message()),
                (
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    format!("{words} cannot run inside a transaction block").as_str()
                ),
                "{script}"
            );
            bench.run(&mut session, "rollback");
        }
    }
    for (sql, message) in [
        (
            "drop index concurrently one, two",
            "DROP INDEX CONCURRENTLY does not support dropping multiple objects",
        ),
        ("drop index concurrently one cascade", "DROP INDEX CONCURRENTLY does not support CASCADE"),
    ] {
        assert_eq!(bench.fail(&mut session, sql).message(), message);
    }
    bench.run(&mut session, "drop index concurrently one");
    // MySQL's clause stays refused.
    assert_eq!(bench.fail(&mut session, "drop index two on t").state(), SqlState::FEATURE_NOT_SUPPORTED);
}

#[test]
fn tables_whose_triggers_are_off_do_not_watch_foreign_keys() {
    let (mut bench, mut session) = after(
        "create table p (id int primary key); create table c (id int primary key, p int references p on delete cascade); \
         insert into p values (1); insert into c values (1, 1)",
    );
    assert_eq!(
        bench.fail(&mut session, "insert into c values (2, 9)").state(),
        SqlState::FOREIGN_KEY_VIOLATION
    );
    bench.run(&mut session, "begin; alter table c disable trigger all; insert into c values (2, 9)");
    // The other side still does.
    bench.run(&mut session, "delete from p where id = 1");
    assert_eq!(bench.run(&mut session, "select id from c order by id").lines(), ["2"]);
    bench.run(&mut session, "insert into p values (1); insert into c values (1, 1)");
    bench.run(&mut session, "alter table p disable trigger all; delete from p; commit");
    assert_eq!(bench.run(&mut session, "select id from c order by id").lines(), ["1", "2"]);
    // What is made later is watched.
    bench.run(&mut session, "create table q (id int primary key); alter table c add q int references q");
    assert_eq!(bench.fail(&mut session, "update c set q = 7").state(), SqlState::FOREIGN_KEY_VIOLATION);

    bench.run(&mut session, "alter table c enable trigger all");
    assert_eq!(
        bench.fail(&mut session, "insert into c values (3, 9)").state(),
        SqlState::FOREIGN_KEY_VIOLATION
    );
    bench.run(&mut session, "alter table p enable trigger all; delete from c; insert into p values (1); insert into c values (1, 1)");
    bench.run(&mut session, "delete from p");
    assert!(bench.run(&mut session, "select id from c").lines().is_empty());
    assert!(bench.catalog().database().unwatched.is_empty());
}

#[test]
fn triggers_are_switched_off_by_superusers_and_rolled_back_with_their_transaction() {
    let (mut bench, mut session) = after(
        "create table p (id int primary key); create table c (p int references p); create role guest; \
         grant all on all tables in schema public to guest; alter table c owner to guest",
    );
    bench.run(&mut session, "begin; alter table c disable trigger all; rollback");
    assert_eq!(bench.fail(&mut session, "insert into c values (9)").state(), SqlState::FOREIGN_KEY_VIOLATION);
    bench.run(&mut session, "alter table c disable trigger user; alter table c enable trigger user");
    assert_eq!(bench.fail(&mut session, "insert into c values (9)").state(), SqlState::FOREIGN_KEY_VIOLATION);
    let mut guest = bench.session_of("guest");
    assert_eq!(
        bench.fail(&mut guest, "alter table c disable trigger all").state(),
        SqlState::INSUFFICIENT_PRIVILEGE
    );
    bench.run(&mut guest, "alter table c disable trigger user");
    assert_eq!(
        failure("create table t (a int)", "alter table t disable trigger mine"),
        "42704 trigger \"mine\" for table \"t\" does not exist"
    );
}

#[test]
fn array_behind_a_type_makes_an_array_of_it() {
    let (mut bench, mut session) =
        after("create table t (a text array not null default '{}', b varchar(3) array, c int)");
    bench.run(
        &mut session,
        "alter table t alter c type int array using array[c]; insert into t values ('{x}', '{y}', '{1,2}')",
    );
    let query = "select a, b, c, cast('{3}' as int array), '{z}'::text array, array[c[1]], 7 as array from t";
    assert_eq!(bench.run(&mut session, query).lines(), ["{x}|{y}|{1,2}|{3}|{z}|{1}|7"]);
}
