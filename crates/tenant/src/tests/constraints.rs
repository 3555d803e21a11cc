//! NOT NULL, uniqueness and foreign keys, with PostgreSQL's words.

use super::*;
use crate::catalog::{MatchType, ReferentialAction};
use crate::ddl::NewForeignKey;

fn reference(table: Oid, on_delete: ReferentialAction) -> NewForeignKey {
    NewForeignKey {
        name: None,
        columns: vec![1],
        referenced_table: table,
        referenced_columns: None,
        on_delete,
        on_update: ReferentialAction::Cascade,
        match_type: MatchType::Simple,
        validate: true,
    }
}

fn family(on_delete: ReferentialAction) -> (Fixture, Oid, Oid) {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
    let child = fixture.create("child", &[("id", PgType::Int4), ("parent_id", PgType::Int8)], 1);
    fixture.ddl(|ddl| ddl.add_foreign_key(child, reference(parent, on_delete))).unwrap();
    fixture.insert(parent, vec![int(1)]).unwrap();
    fixture.insert(parent, vec![int(2)]).unwrap();
    fixture.insert(child, vec![int(10), Datum::Int8(1)]).unwrap();
    (fixture, parent, child)
}

#[test]
fn duplicate_keys_are_reported_as_postgresql_does() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("email", PgType::Text)], 1);
    let unique = NewUnique { name: None, columns: vec![1], nulls_not_distinct: false };
    fixture.ddl(|ddl| ddl.add_unique(t, unique)).unwrap();
    fixture.insert(t, vec![int(1), text("a@b")]).unwrap();
    let error = fixture.insert(t, vec![int(1), text("c@d")]).unwrap_err();
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"t_pkey\"");
    assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    let error = fixture.insert(t, vec![int(2), text("a@b")]).unwrap_err();
    assert_eq!(error.message(), "duplicate key value violates unique constraint \"t_email_key\"");
    assert_eq!(error.detail(), Some("Key (email)=(a@b) already exists."));
    fixture.insert(t, vec![int(3), Datum::Null]).unwrap();
    fixture.insert(t, vec![int(4), Datum::Null]).unwrap();
}

#[test]
fn null_in_a_not_null_column_shows_the_failing_row() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    let error = fixture.insert(t, vec![Datum::Null, text("x")]).unwrap_err();
    assert_eq!(error.state().as_str(), "23502");
    assert_eq!(error.message(), "null value in column \"id\" of relation \"t\" violates not-null constraint");
    assert_eq!(error.detail(), Some("Failing row contains (null, x)."));
}

#[test]
fn a_reference_needs_its_target() {
    let (mut fixture, parent, child) = family(ReferentialAction::NoAction);
    let error = fixture.insert(child, vec![int(11), Datum::Int8(9)]).unwrap_err();
    assert_eq!(error.state().as_str(), "23503");
    assert_eq!(
        error.message(),
        "insert or update on table \"child\" violates foreign key constraint \"child_parent_id_fkey\""
    );
    assert_eq!(error.detail(), Some("Key (parent_id)=(9) is not present in table \"parent\"."));
    fixture.insert(child, vec![int(12), Datum::Null]).unwrap();
    let error = fixture.auto(|view| delete(view, parent, &[int(1)])).unwrap_err();
    assert_eq!(
        error.message(),
        "update or delete on table \"parent\" violates foreign key constraint \"child_parent_id_fkey\" on table \"child\""
    );
    assert_eq!(error.detail(), Some("Key (id)=(1) is still referenced from table \"child\"."));
    fixture.auto(|view| delete(view, parent, &[int(2)])).unwrap();
}

#[test]
fn deleting_a_target_cascades_or_sets_null() {
    let (mut fixture, parent, child) = family(ReferentialAction::Cascade);
    fixture.auto(|view| delete(view, parent, &[int(1)])).unwrap();
    assert!(fixture.rows(child).is_empty());

    let (mut fixture, parent, child) = family(ReferentialAction::SetNull);
    fixture.auto(|view| update(view, parent, &[int(1)], vec![int(7)])).unwrap();
    assert_eq!(fixture.rows(child), vec![vec![int(10), Datum::Int8(7)]]);
    fixture.auto(|view| delete(view, parent, &[int(7)])).unwrap();
    assert_eq!(fixture.rows(child), vec![vec![int(10), Datum::Null]]);
}

#[test]
fn references_within_one_statement_are_checked_at_its_end() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("next", PgType::Int4)], 1);
    fixture.ddl(|ddl| ddl.add_foreign_key(t, reference(t, ReferentialAction::NoAction))).unwrap();
    fixture
        .auto(|view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(1), int(2)])?;
            view.insert(&table, &[int(2), int(1)])
        })
        .unwrap();
    assert!(fixture.insert(t, vec![int(3), int(4)]).is_err());
}

#[test]
fn a_new_reference_and_the_deletion_of_its_target_do_not_both_commit() {
    let (mut fixture, parent, child) = family(ReferentialAction::NoAction);
    let mut inserting = fixture.begin(1, Isolation::ReadCommitted);
    fixture
        .run(&mut inserting, |view| {
            let table = view.table(child)?;
            view.insert(&table, &[int(11), Datum::Int8(2)])
        })
        .unwrap();
    let mut deleting = fixture.begin(2, Isolation::ReadCommitted);
    let wait = wait_of(fixture.run(&mut deleting, |view| delete(view, parent, &[int(2)])));
    fixture.commit(inserting).unwrap();
    assert!(wait.is_over());
    let error = error_of(fixture.run(&mut deleting, |view| delete(view, parent, &[int(2)])));
    assert_eq!(error.state().as_str(), "23503");
    fixture.tenant.abort(deleting);
}
