//! Privileges on the database, and those that new objects begin with. Expectations are PostgreSQL 15's.

use base::SqlState;
use tenant::catalog::Privileges;

use super::testing::Bench;

/// What everybody's statements come to: `SqlState` of an error, or nothing.
#[track_caller]
fn check(bench: &mut Bench, user: &str, sql: &str, refused: bool) {
    let mut session = bench.session_of(user);
    if refused {
        assert_eq!(bench.fail(&mut session, sql).state(), SqlState::INSUFFICIENT_PRIVILEGE, "{user}: {sql}");
    } else {
        bench.run(&mut session, sql);
    }
}

#[test]
fn schemas_are_made_with_create_on_the_database() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(&mut owner, "create role guest login");
    check(&mut bench, "guest", "create schema mine", true);
    bench.run(&mut owner, "grant create, connect on database app to guest");
    check(&mut bench, "guest", "create schema mine; alter schema mine rename to ours", false);
    bench.run(&mut owner, "revoke create on database app from guest");
    check(&mut bench, "guest", "alter schema ours rename to mine", true);
    bench.run(&mut owner, "create role team; grant team to guest");
    check(&mut bench, "guest", "alter schema ours owner to team", true);
    check(&mut bench, "guest", "alter schema ours owner to guest", false);
    bench.run(&mut owner, "grant create on database app to guest");
    check(&mut bench, "guest", "alter schema ours owner to team", false);
    bench.run(&mut owner, "revoke create on database app from guest");
    check(&mut bench, "guest", "grant temp on database app to guest", true);
    assert_eq!(
        bench.fail(&mut owner, "grant select on database app to guest").message(),
        "invalid privilege type SELECT for database"
    );
    assert_eq!(
        bench.fail(&mut owner, "grant connect on database other to guest").state(),
        SqlState::INVALID_CATALOG_NAME
    );
    // What was granted stands in the way of the role's end.
    let error = bench.fail(&mut owner, "drop schema ours; drop role guest");
    assert_eq!(error.detail(), Some("privileges for the database"));
    bench.run(&mut owner, "drop owned by guest; drop role guest");
}

#[test]
fn the_owner_makes_schemas_unless_that_was_revoked_from_it() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "create role chief superuser login; create role plain noinherit login; grant owner to plain",
    );
    let mut chief = bench.session_of("chief");
    bench.run(&mut chief, "alter role owner nosuperuser");
    check(&mut bench, "owner", "create schema one", false);
    check(&mut bench, "plain", "create schema two", true);
    check(&mut bench, "plain", "set role owner; create schema two", false);
    check(&mut bench, "owner", "revoke create on database app from owner", false);
    check(&mut bench, "owner", "create schema three", true);
    check(&mut bench, "owner", "alter schema one rename to four", true);
    check(&mut bench, "chief", "create schema three", false);
    // Whose database it is may have it back.
    check(&mut bench, "owner", "grant create on database app to owner; create schema five", false);
    bench.run(&mut chief, "revoke all on database app from owner, public");
    let mut administrator = bench.administrator();
    bench.run(&mut administrator, "create schema six");
}

#[test]
fn a_database_is_entered_by_those_who_may_connect() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(&mut owner, "create role guest login");
    let may = |bench: &Bench, user: &str| {
        let catalog = bench.catalog();
        let role = catalog.role_named(user).expect("the role is there").oid;
        catalog.has_database_privileges(role, Privileges::CONNECT)
    };
    assert!(may(&bench, "guest"));
    bench.run(&mut owner, "revoke all on database app from public");
    assert!(!may(&bench, "guest") && may(&bench, "owner"));
    let refused = bench.try_session_of("guest").err().expect("it may not enter");
    assert_eq!(
        (refused.state(), refused.message(), refused.detail()),
        (
            SqlState::INSUFFICIENT_PRIVILEGE,
            "permission denied for database \"app\"",
            Some("User does not have CONNECT privilege.")
        )
    );
    bench.administrator();
    bench.run(&mut owner, "grant connect on database app to guest");
    bench.session_of("guest");
}

#[test]
fn new_objects_begin_with_the_default_privileges_of_who_makes_them() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "create role reader login; create role maker login; create schema s; grant usage on schema s to reader; \
         create table before (a int); \
         alter default privileges in schema public grant select on tables to reader; \
         alter default privileges grant usage, select on sequences to public; \
         alter default privileges grant usage on schemas to reader; \
         alter default privileges in schema public grant execute on functions to reader; \
         create table t (a serial); create table s.t (a int); create view v as select a from t; create sequence q; \
         create table copied as select 1 as a; create schema open; create table open.t (a int)",
    );
    for (sql, refused) in [
        ("select a from before", true),
        ("select a from t", false),
        ("select a from v", false),
        ("select a from copied", false),
        ("insert into t values (1)", true),
        ("select nextval('q')", false),
        ("select nextval('t_a_seq')", false),
        ("select a from s.t", true),
    ] {
        check(&mut bench, "reader", sql, refused);
    }
    // A schema that may be used, with a table that may not.
    let mut reader = bench.session_of("reader");
    assert_eq!(bench.fail(&mut reader, "select a from open.t").message(), "permission denied for table t");

    // Those of another role: only with its rights.
    check(
        &mut bench,
        "reader",
        "alter default privileges for role maker grant select on tables to reader",
        true,
    );
    bench.run(&mut owner, "grant create on schema public to maker");
    bench.run(
        &mut owner,
        "alter default privileges for role maker in schema public, s grant all on tables to reader",
    );
    check(&mut bench, "maker", "create table made (a int)", false);
    check(&mut bench, "reader", "insert into made values (1)", false);
    let error = bench.fail(&mut owner, "drop table made; drop role maker");
    assert!(error.detail().is_some_and(|d| {
        d.contains("owner of default privileges on new relations belonging to role maker in schema s")
    }));

    // Taken back nothing is left of them.
    bench.run(
        &mut owner,
        "alter default privileges in schema public revoke select on tables from reader; \
         alter default privileges revoke all on sequences from public; \
         alter default privileges revoke usage on schemas from reader; \
         alter default privileges for role maker in schema public revoke all on tables from reader; \
         drop schema s cascade",
    );
    assert!(bench.catalog().database().default_acls.is_empty(), "{:?}", bench.catalog().database());
    for (sql, state) in [
        ("alter default privileges in schema nowhere grant select on tables to reader", "3F000"),
        ("alter default privileges in schema public grant usage on schemas to reader", "0LP01"),
        ("alter default privileges grant usage on tables to reader", "0LP01"),
        ("alter default privileges grant select on tables to nobody", "42704"),
        ("alter default privileges grant select on tables to reader with grant option", "0A000"),
        ("alter default privileges grant select on t to reader", "42601"),
    ] {
        assert_eq!(bench.fail(&mut owner, sql).state().to_string(), state, "{sql}");
    }
}

#[test]
fn a_view_is_made_by_who_may_name_what_it_reads_and_read_by_who_owns_it_may() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "create role guest login; grant create on schema public to guest; create table t (a int); create schema s;
         create table s.u (a int); create sequence q; insert into t values (1)",
    );
    check(&mut bench, "guest", "create view v as select a from t", false);
    check(&mut bench, "guest", "create view w as select a from v join t using (a)", false);
    check(&mut bench, "guest", "create view x as select last_value from q", false);
    check(&mut bench, "guest", "create view y as select a from s.u", true);
    check(&mut bench, "guest", "create table z as select a from t", true);
    for sql in ["select a from v", "select a from w", "select * from x"] {
        check(&mut bench, "guest", sql, true);
        assert_eq!(bench.fail(&mut owner, sql).state(), SqlState::INSUFFICIENT_PRIVILEGE, "{sql}");
    }
    bench.run(&mut owner, "grant select on t to guest");
    check(&mut bench, "guest", "select a from v; select a from w", false);
}

#[test]
fn errors_show_no_values_of_rows_that_may_be_changed_and_not_read() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "create role clerk login; create table t (id int primary key, secret text not null check (secret <> ''), n int unique);
         create table u (t_id int references t); insert into t values (1, 'hidden', 7), (2, 'too', 8); insert into u values (1);
         grant insert, update, delete on t to clerk",
    );
    let mut clerk = bench.session_of("clerk");
    let changes = [
        ("update t set secret = null", "23502"),
        ("update t set secret = ''", "23514"),
        ("update t set n = 9", "23505"),
        ("delete from t", "23503"),
    ];
    for (sql, state) in changes {
        let error = bench.fail(&mut clerk, sql);
        assert_eq!((error.state().to_string().as_str(), error.detail()), (state, None), "{sql}");
    }
    // Its own values it knows.
    let error = bench.fail(&mut clerk, "insert into t values (1, 'mine', 9)");
    assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    bench.run(&mut owner, "grant select on t to clerk");
    for (sql, state) in changes {
        let error = bench.fail(&mut clerk, sql);
        assert_eq!((error.state().to_string().as_str(), error.detail().is_some()), (state, true), "{sql}");
    }
}

#[test]
fn a_sequence_among_tables_is_given_what_sequences_have() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(&mut owner, "create role app login; create table t (id int); create sequence q");
    let told = bench.run(&mut owner, "grant select, insert, update, delete on t, q to app");
    let told: Vec<_> = told.notices.iter().map(|notice| (notice.severity(), notice.message())).collect();
    let message = "sequence \"q\" only supports USAGE, SELECT, and UPDATE privileges";
    assert_eq!(told, [(base::Severity::Warning, message)]);
    check(&mut bench, "app", "insert into t values (1); select nextval('q')", false);
    let told = bench.run(&mut owner, "revoke insert, update on table q from app");
    assert_eq!(told.notices.len(), 1);
    check(&mut bench, "app", "select nextval('q')", true);
    check(&mut bench, "app", "select last_value from q", false);
    // ALL is what there is.
    assert!(bench.run(&mut owner, "grant all on t, q to app").notices.is_empty());
    check(&mut bench, "app", "select nextval('q')", false);
    for (sql, message) in [
        ("grant insert on sequence q to app", "invalid privilege type INSERT for sequence"),
        ("grant usage on t to app", "invalid privilege type USAGE for table"),
        ("grant create on q to app", "invalid privilege type CREATE for relation"),
    ] {
        let error = bench.fail(&mut owner, sql);
        assert_eq!((error.state().to_string().as_str(), error.message()), ("0LP01", message), "{sql}");
    }
}

#[test]
fn what_gets_another_name_or_owner_is_as_if_it_were_made_anew() {
    let mut bench = Bench::new();
    let mut owner = bench.session();
    bench.run(
        &mut owner,
        "create role team; create role mate login; grant team to mate; create schema s; grant usage, create on schema s to mate",
    );
    check(
        &mut bench,
        "mate",
        "create table s.t (id serial); create view s.v as select 1 as a; create sequence s.q; create type s.e as enum ('a')",
        false,
    );
    for object in ["table s.t", "view s.v", "sequence s.q", "type s.e"] {
        check(&mut bench, "mate", &format!("alter {object} owner to team"), true);
    }
    bench.run(&mut owner, "revoke create on schema s from mate");
    for renaming in [
        "alter table s.t rename to u",
        "alter view s.v rename to w",
        "alter sequence s.q rename to r",
        "alter index s.x rename to y",
    ] {
        if renaming.contains("index") {
            bench.run(&mut owner, "create index x on s.t (id)");
        }
        check(&mut bench, "mate", renaming, true);
    }
    check(&mut bench, "mate", "alter table s.t rename column id to no; alter table s.t owner to mate", false);
    bench.run(&mut owner, "grant create on schema s to team");
    check(&mut bench, "mate", "alter table s.t rename to u; alter view s.v rename to w", false);
    for object in ["table s.u", "view s.w", "sequence s.q", "type s.e"] {
        check(&mut bench, "mate", &format!("alter {object} owner to team"), false);
    }
    // Whoever may do everything may give it to anybody.
    bench.run(&mut owner, "create role other; alter table s.u owner to other; alter table s.u rename to t");
}
