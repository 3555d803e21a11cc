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

/// Sessions insert, move and delete parents and children at random, waiting for each other; whatever commits, every child
/// has its parent.
fn children_keep_their_parents(seed: u64, on_delete: ReferentialAction) {
    let (mut fixture, parent, child) = family(on_delete);
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = move |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let mut sessions: Vec<Option<(Txn, Option<LockWait>)>> = (0..3).map(|_| None).collect();
    for _ in 0..400 {
        let at = below(3) as usize;
        let (mut txn, wait) = match sessions[at].take() {
            Some(session) => session,
            None => (fixture.begin(at as u32 + 1, Isolation::ReadCommitted), None),
        };
        if wait.as_ref().is_some_and(|wait| !wait.is_over()) {
            sessions[at] = Some((txn, wait));
            continue;
        }
        let (p, c, choice) = (below(6) as i32, below(10) as i32, below(8));
        if choice == 0 {
            fixture.commit(txn).unwrap();
            continue;
        }
        let result = fixture.run(&mut txn, |view| {
            let (parents, children) = (view.table(parent)?, view.table(child)?);
            match choice {
                1 => view.insert(&parents, &[int(p)]).map(drop),
                2 => delete(view, parent, &[int(p)]).map(drop),
                3 => update(view, parent, &[int(p)], vec![int(below(6) as i32)]).map(drop),
                4 => update(view, child, &[int(c)], vec![int(c), Datum::Int8(p.into())]).map(drop),
                5 => delete(view, child, &[int(c)]).map(drop),
                _ => view.insert(&children, &[int(c), Datum::Int8(p.into())]).map(drop),
            }
        });
        match result {
            Err(Interrupt::Wait(wait)) => sessions[at] = Some((txn, Some(wait))),
            Err(Interrupt::Error(error)) if error.state().as_str() == "40P01" => fixture.tenant.abort(txn),
            Err(Interrupt::Error(error)) => {
                assert!(["23503", "23505"].contains(&error.state().as_str()), "seed {seed}: {error}");
                sessions[at] = Some((txn, None));
            }
            Err(Interrupt::Miss(_) | Interrupt::Asked) => panic!("in memory, and nobody asks"),
            Ok(()) => sessions[at] = Some((txn, None)),
        }
        let parents = fixture.rows(parent);
        for row in fixture.rows(child) {
            if let Datum::Int8(id) = row[1] {
                assert!(
                    parents.contains(&vec![int(id as i32)]),
                    "seed {seed}: child {row:?} lost its parent"
                );
            }
        }
    }
    sessions.into_iter().flatten().for_each(|(txn, _)| fixture.tenant.abort(txn));
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new(), "seed {seed}");
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn no_interleaving_leaves_a_child_without_its_parent() {
    for seed in 1..60 {
        for action in [ReferentialAction::NoAction, ReferentialAction::Cascade, ReferentialAction::SetNull] {
            children_keep_their_parents(seed, action);
        }
    }
}
