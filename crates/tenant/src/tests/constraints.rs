//! NOT NULL, uniqueness and foreign keys, with PostgreSQL's words.

use super::*;
use crate::catalog::{Deferral, IndexColumn, MatchType, ReferentialAction};
use crate::ddl::{NewForeignKey, NewIndex, RowsNow};
use crate::locks::{LockTag, RowLock, TableLock, WaitPolicy};
use crate::{Arbiter, Inserted, Savepoint};

/// A foreign key of the second column to a table's primary key.
pub(super) fn reference(table: Oid, on_delete: ReferentialAction) -> NewForeignKey {
    NewForeignKey {
        name: None,
        columns: vec![1],
        referenced_table: table,
        referenced_columns: None,
        on_delete,
        on_update: ReferentialAction::Cascade,
        match_type: MatchType::Simple,
        deferral: Deferral::NotDeferrable,
        rows: RowsNow::Checked,
    }
}

fn family(on_delete: ReferentialAction) -> (Fixture, Oid, Oid) {
    family_of(reference(Oid(0), on_delete))
}

fn family_of(key: NewForeignKey) -> (Fixture, Oid, Oid) {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
    let child = fixture.create("child", &[("id", PgType::Int4), ("parent_id", PgType::Int8)], 1);
    let key = NewForeignKey { referenced_table: parent, ..key };
    fixture.ddl(|ddl| ddl.add_foreign_key(child, key)).unwrap();
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

/// A table with a unique column beside its key, and the row (1, 'a').
fn two_keys() -> (Fixture, Oid, Arbiter) {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("k", PgType::Text)], 1);
    let unique = NewUnique { name: None, columns: vec![1], nulls_not_distinct: false };
    let index = fixture.ddl(|ddl| ddl.add_unique(t, unique)).unwrap();
    fixture.insert(t, vec![int(1), text("a")]).unwrap();
    (fixture, t, Arbiter::Index(index))
}

fn offer(view: &mut View<'_>, t: Oid, row: [Datum; 2], arbiter: Arbiter) -> Result<bool, Interrupt> {
    let table = view.table(t)?;
    Ok(matches!(view.insert_or_conflict(&table, &row, arbiter)?, Inserted::Row(_)))
}

#[test]
fn the_arbiter_decides_before_any_other_key() {
    let (mut fixture, t, by_k) = two_keys();
    let by_id = Arbiter::Index(fixture.table(t).primary_index().unwrap().oid);
    let mut offered = |id, k: &str, arbiter| {
        let outcome = fixture.auto(|view| offer(view, t, [int(id), text(k)], arbiter));
        outcome.map_err(|error| error.message().to_owned())
    };
    let duplicate = |name: &str| Err(format!("duplicate key value violates unique constraint \"{name}\""));
    assert_eq!(offered(1, "a", by_k), Ok(false));
    assert_eq!(offered(2, "a", by_k), Ok(false));
    assert_eq!(offered(1, "b", by_k), duplicate("t_pkey"));
    assert_eq!(offered(1, "b", by_id), Ok(false));
    assert_eq!(offered(2, "a", by_id), duplicate("t_k_key"));
    assert_eq!(offered(1, "b", Arbiter::Any), Ok(false));
    assert_eq!(offered(2, "a", Arbiter::Any), Ok(false));
    assert_eq!(offered(2, "b", by_k), Ok(true));
}

#[test]
fn what_arbitrates_waits_for_who_may_have_the_same_value() {
    let (mut fixture, t, by_k) = two_keys();
    let mut inserting = fixture.begin(1, Isolation::ReadCommitted);
    fixture
        .run(&mut inserting, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(2), text("b")])
        })
        .unwrap();
    let mut offering = fixture.begin(2, Isolation::ReadCommitted);
    // What its own key is does not matter, nor who has that.
    assert!(!fixture.run(&mut offering, |view| offer(view, t, [int(2), text("a")], by_k)).unwrap());
    let wait = wait_of(fixture.run(&mut offering, |view| offer(view, t, [int(3), text("b")], by_k)));
    fixture.commit(inserting).unwrap();
    assert!(wait.is_over());
    assert!(!fixture.run(&mut offering, |view| offer(view, t, [int(3), text("b")], by_k)).unwrap());
    fixture.commit(offering).unwrap();

    let mut older = fixture.begin(3, Isolation::RepeatableRead);
    assert_eq!(fixture.run(&mut older, |view| all_rows(view, t)).unwrap().len(), 2);
    fixture.insert(t, vec![int(4), text("d")]).unwrap();
    let error = error_of(fixture.run(&mut older, |view| offer(view, t, [int(5), text("d")], by_k)));
    assert_eq!(error.state().as_str(), "40001");
    fixture.tenant.abort(older);
}

#[test]
fn who_offers_a_row_that_is_there_keeps_nobody_from_it() {
    let (mut fixture, t, by_k) = two_keys();
    let by_id = Arbiter::Index(fixture.table(t).primary_index().unwrap().oid);
    let mut offering = fixture.begin(1, Isolation::ReadCommitted);
    for arbiter in [by_k, by_id, Arbiter::Any] {
        assert!(!fixture.run(&mut offering, |view| offer(view, t, [int(1), text("a")], arbiter)).unwrap());
    }
    let locks = fixture.tenant.lock_records();
    assert!(locks.iter().all(|lock| !matches!(lock.tag, LockTag::Row(..))), "{locks:?}");
    // Who changes other columns takes neither key away, who deletes the row both.
    let mut changing = fixture.begin(2, Isolation::ReadCommitted);
    let locked = |view: &mut View<'_>| {
        let table = view.table(t)?;
        view.lock_row(&table, &primary_key(&table, &[int(1)]), RowLock::NoKeyUpdate, WaitPolicy::NoWait)
    };
    fixture.run(&mut changing, locked).unwrap();
    for arbiter in [by_k, by_id] {
        assert!(!fixture.run(&mut offering, |view| offer(view, t, [int(1), text("a")], arbiter)).unwrap());
    }
    fixture.run(&mut changing, |view| delete(view, t, &[int(1)])).unwrap();
    let wait = wait_of(fixture.run(&mut offering, |view| offer(view, t, [int(1), text("a")], by_k)));
    fixture.commit(changing).unwrap();
    assert!(wait.is_over());
    assert!(fixture.run(&mut offering, |view| offer(view, t, [int(1), text("a")], by_k)).unwrap());
    fixture.commit(offering).unwrap();
    // One with very many locks has them where nobody looks first.
    let mut long = fixture.begin(3, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut long).unwrap();
    fixture.run(&mut long, |view| delete(view, t, &[int(1)])).unwrap();
    for arbiter in [by_k, by_id] {
        let mut other = fixture.begin(4, Isolation::ReadCommitted);
        drop(wait_of(fixture.run(&mut other, |view| offer(view, t, [int(1), text("a")], arbiter))));
        fixture.tenant.abort(other);
    }
    fixture.tenant.abort(long);
}

#[test]
fn a_row_that_was_in_the_way_was_read() {
    for arbiter_of_key in [true, false] {
        let (mut fixture, t, by_k) = two_keys();
        let by_id = Arbiter::Index(fixture.table(t).primary_index().unwrap().oid);
        let arbiter = if arbiter_of_key { by_id } else { by_k };
        let mut offering = fixture.begin(1, Isolation::Serializable);
        assert!(!fixture.run(&mut offering, |view| offer(view, t, [int(1), text("a")], arbiter)).unwrap());
        fixture.auto(|view| delete(view, t, &[int(1)])).unwrap();
        assert!(fixture.run(&mut offering, |view| offer(view, t, [int(2), text("b")], arbiter)).unwrap());
        assert_eq!(fixture.commit(offering).unwrap_err().state().as_str(), "40001");
    }
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
fn a_reference_that_does_not_fit_its_targets_type_is_to_nothing() {
    let (mut fixture, parent, child) = family(ReferentialAction::Cascade);
    let beyond = (1 << 32) + 1;
    let error = fixture.insert(child, vec![int(11), Datum::Int8(beyond)]).unwrap_err();
    assert_eq!(error.state().as_str(), "23503");
    assert_eq!(error.detail(), Some("Key (parent_id)=(4294967297) is not present in table \"parent\"."));
    let rounded = fixture.create("rounded", &[("id", PgType::Int4), ("parent_id", PgType::Numeric)], 1);
    let key = reference(parent, ReferentialAction::NoAction);
    let error = fixture.ddl(|ddl| ddl.add_foreign_key(rounded, key)).unwrap_err();
    assert_eq!(error.state().as_str(), "42804");
    assert_eq!(error.message(), "foreign key constraint \"rounded_parent_id_fkey\" cannot be implemented");
    assert_eq!(
        error.detail(),
        Some("Key columns \"parent_id\" and \"id\" are of incompatible types: numeric and integer.")
    );
}

#[test]
fn all_that_stand_for_a_float_go_with_it() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Float8)], 1);
    let child = fixture.create("child", &[("id", PgType::Int4), ("parent_id", PgType::Numeric)], 1);
    let index = NewIndex {
        name: None,
        columns: vec![IndexColumn::ascending(1)],
        unique: false,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    fixture.ddl(|ddl| ddl.create_index(child, index)).unwrap();
    fixture.ddl(|ddl| ddl.add_foreign_key(child, reference(parent, ReferentialAction::Cascade))).unwrap();
    let numeric = |text: &str| Datum::Numeric(text.parse().expect("a number"));
    fixture.insert(parent, vec![Datum::Float8(0.1)]).unwrap();
    fixture.insert(parent, vec![Datum::Float8(2.0)]).unwrap();
    for (id, value) in [(1, "0.1"), (2, "0.1000000000000000000001"), (3, "2")] {
        fixture.insert(child, vec![int(id), numeric(value)]).unwrap();
    }
    assert_eq!(fixture.insert(child, vec![int(4), numeric("0.11")]).unwrap_err().state().as_str(), "23503");
    fixture.auto(|view| delete(view, parent, &[Datum::Float8(0.1)])).unwrap();
    assert_eq!(fixture.rows(child), vec![vec![int(3), numeric("2")]]);
}

#[test]
fn a_char_references_another_of_any_length() {
    let mut fixture = Fixture::new();
    let made = |fixture: &mut Fixture, name: &str, columns: Vec<Column>| {
        fixture
            .ddl(|ddl| {
                let name = name.to_owned();
                let table = NewTable { schema: PUBLIC_SCHEMA, name, owner: OWNER_ROLE, columns };
                let oid = ddl.create_table(table)?;
                ddl.add_primary_key(
                    oid,
                    NewUnique { name: None, columns: vec![0], nulls_not_distinct: false },
                )?;
                Ok(oid)
            })
            .unwrap()
    };
    let char_of = |name: &str, n| Column::new(name, PgType::Bpchar, TypeMod::length(n));
    let parent = made(&mut fixture, "parent", vec![char_of("id", 3)]);
    let id = Column::new("id", PgType::Int4, TypeMod::NONE);
    let child = made(&mut fixture, "child", vec![id, char_of("parent_id", 5)]);
    fixture.ddl(|ddl| ddl.add_foreign_key(child, reference(parent, ReferentialAction::SetNull))).unwrap();
    fixture.insert(parent, vec![text("a  ")]).unwrap();
    fixture.insert(child, vec![int(1), text("a    ")]).unwrap();
    assert!(fixture.insert(child, vec![int(2), text("abcd ")]).is_err());
    fixture.auto(|view| update(view, parent, &[text("a  ")], vec![text("b  ")])).unwrap();
    assert_eq!(fixture.rows(child), vec![vec![int(1), text("b    ")]]);
    fixture.auto(|view| delete(view, parent, &[text("b  ")])).unwrap();
    assert_eq!(fixture.rows(child), vec![vec![int(1), Datum::Null]]);
}

#[test]
fn a_new_foreign_key_locks_its_tables_and_no_rows() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
    let child = fixture.create("child", &[("id", PgType::Int4), ("parent_id", PgType::Int4)], 1);
    for id in 0..20 {
        fixture.insert(parent, vec![int(id)]).unwrap();
        fixture.insert(child, vec![int(id), int(id)]).unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let key = reference(parent, ReferentialAction::NoAction);
    fixture.run(&mut txn, |view| view.ddl()?.add_foreign_key(child, key)).unwrap();
    let locks = fixture.tenant.lock_records();
    assert!(!locks.is_empty() && locks.iter().all(|lock| !matches!(lock.tag, LockTag::Row(..))), "{locks:?}");
    fixture.commit(txn).unwrap();
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
fn an_index_on_some_of_the_columns_of_a_foreign_key_finds_its_rows() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("a", PgType::Int4), ("b", PgType::Int4)], 2);
    let child = [("id", PgType::Int4), ("a", PgType::Int4), ("b", PgType::Int4)];
    let child = fixture.create("child", &child, 1);
    fixture
        .ddl(|ddl| {
            let key = reference(parent, ReferentialAction::Cascade);
            ddl.add_foreign_key(child, NewForeignKey { columns: vec![1, 2], ..key })?;
            let columns = vec![IndexColumn::ascending(2), IndexColumn::ascending(0)];
            let new = NewIndex {
                name: None,
                columns,
                unique: false,
                nulls_not_distinct: false,
                ..NewIndex::default()
            };
            ddl.create_index(child, new)
        })
        .unwrap();
    for n in 0..1000 {
        for a in [1, 2] {
            fixture.insert(parent, vec![int(a), int(n)]).unwrap();
            fixture.insert(child, vec![int(a * 1000 + n), int(a), int(n)]).unwrap();
        }
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let (format, looks) = (types::FormatContext::default(), std::cell::Cell::new(0));
    let asked = |_: u32| {
        looks.set(looks.get() + 1);
        false
    };
    {
        let mut view = fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &asked);
        assert!(delete(&mut view, parent, &[int(1), int(7)]).unwrap());
        view.finish_statement().unwrap();
    }
    assert_eq!(looks.get(), 0, "few rows were looked at");
    fixture.commit(txn).unwrap();
    let left = fixture.rows(child);
    assert_eq!(left.len(), 1999);
    assert!(left.contains(&vec![int(2007), int(2), int(7)]));
    assert!(!left.contains(&vec![int(1007), int(1), int(7)]));
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
/// has its parent. Where that is checked at their end, sessions also say when, and go back to a savepoint. Whether a check was put off that
/// failed at the end, and one that passed.
fn children_keep_their_parents(seed: u64, key: NewForeignKey) -> (bool, bool) {
    let deferrable = key.deferral.is_deferrable();
    let (mut fixture, parent, child) = family_of(key);
    let (mut failed, mut passed) = (false, false);
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = move |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let mut sessions: Vec<Option<(Txn, Option<LockWait>)>> = (0..3).map(|_| None).collect();
    let mut savepoints: Vec<Option<Savepoint>> = vec![None; 3];
    for _ in 0..400 {
        let at = below(3) as usize;
        let (mut txn, wait) = match sessions[at].take() {
            Some(session) => session,
            None => {
                savepoints[at] = None;
                (fixture.begin(at as u32 + 1, Isolation::ReadCommitted), None)
            }
        };
        if wait.as_ref().is_some_and(|wait| !wait.is_over()) {
            sessions[at] = Some((txn, wait));
            continue;
        }
        let (p, c, choice) = (below(6) as i32, below(10) as i32, below(if deferrable { 12 } else { 8 }));
        if choice == 0 {
            let due = txn.has_checks_due();
            match fixture.run(&mut txn, |view| view.check_due()) {
                Ok(()) => {
                    passed |= due;
                    fixture.commit(txn).unwrap();
                }
                Err(Interrupt::Wait(wait)) => sessions[at] = Some((txn, Some(wait))),
                Err(Interrupt::Error(error)) => {
                    failed |= error.state().as_str() == "23503";
                    fixture.tenant.abort(txn);
                }
                Err(Interrupt::Miss(_) | Interrupt::Asked) => panic!("in memory, and nobody asks"),
            }
            continue;
        }
        match (choice, &savepoints[at]) {
            (10, None) => savepoints[at] = Some(txn.savepoint()),
            (10, Some(savepoint)) => fixture.tenant.rollback_to(&mut txn, savepoint),
            _ => {}
        }
        let result = fixture.run(&mut txn, |view| {
            let (parents, children) = (view.table(parent)?, view.table(child)?);
            match choice {
                1 => view.insert(&parents, &[int(p)]).map(drop),
                2 => delete(view, parent, &[int(p)]).map(drop),
                3 => update(view, parent, &[int(p)], vec![int(below(6) as i32)]).map(drop),
                4 => update(view, child, &[int(c)], vec![int(c), Datum::Int8(p.into())]).map(drop),
                5 => delete(view, child, &[int(c)]).map(drop),
                8 | 9 => view.set_constraints(None, choice == 9),
                10 => Ok(()),
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
    (failed, passed)
}

#[test]
fn no_interleaving_leaves_a_child_without_its_parent() {
    for seed in 1..60 {
        for action in [ReferentialAction::NoAction, ReferentialAction::Cascade, ReferentialAction::SetNull] {
            children_keep_their_parents(seed, reference(Oid(0), action));
        }
    }
}

#[test]
fn no_interleaving_of_deferred_checks_leaves_a_child_without_its_parent() {
    let mut outcomes = (false, false);
    for seed in 1..60 {
        for action in [ReferentialAction::NoAction, ReferentialAction::Cascade, ReferentialAction::SetNull] {
            for deferral in [Deferral::InitiallyDeferred, Deferral::InitiallyImmediate] {
                let on_update = if seed % 2 == 0 { ReferentialAction::NoAction } else { action };
                let key = NewForeignKey { deferral, on_update, ..reference(Oid(0), action) };
                let (failed, passed) = children_keep_their_parents(seed, key);
                outcomes = (outcomes.0 | failed, outcomes.1 | passed);
            }
        }
    }
    assert_eq!(outcomes, (true, true), "checks are put off, and fail and pass at the end");
}

#[test]
fn what_a_foreign_key_does_waits_for_who_holds_the_other_table() {
    for action in [ReferentialAction::Cascade, ReferentialAction::SetNull, ReferentialAction::NoAction] {
        let (mut fixture, parent, child) = family(action);
        let mut holder = fixture.begin(1, Isolation::ReadCommitted);
        let mode = match action {
            ReferentialAction::NoAction => TableLock::Exclusive,
            // As CREATE INDEX does.
            _ => TableLock::Share,
        };
        fixture.run(&mut holder, |view| view.lock_table(child, mode, WaitPolicy::Wait)).unwrap();
        let mut deleter = fixture.begin(2, Isolation::ReadCommitted);
        let wait = wait_of(fixture.run(&mut deleter, |view| delete(view, parent, &[int(1)])));
        fixture.commit(holder).unwrap();
        assert!(wait.is_over());
        let deleted = fixture.run(&mut deleter, |view| delete(view, parent, &[int(1)]));
        assert_eq!(deleted.is_ok(), action != ReferentialAction::NoAction);
        fixture.tenant.abort(deleter);
    }
}

#[test]
fn what_cascades_to_very_many_rows_comes_to_all_of_them() {
    const ROWS: i32 = 5000;
    for by_index in [false, true] {
        let key = NewForeignKey { columns: vec![0], ..reference(Oid(0), ReferentialAction::Cascade) };
        let mut fixture = Fixture::new();
        let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
        // The reference is a part of the key: its rows move.
        let columns = [("parent_id", PgType::Int4), ("id", PgType::Int4)];
        let child = fixture.create("child", &columns, if by_index { 2 } else { 0 });
        fixture
            .ddl(|ddl| ddl.add_foreign_key(child, NewForeignKey { referenced_table: parent, ..key }))
            .unwrap();
        for id in 1..=2 {
            fixture.insert(parent, vec![int(id)]).unwrap();
            fixture
                .auto(|view| {
                    let table = view.table(child)?;
                    (0..ROWS).try_for_each(|n| view.insert(&table, &[int(id), int(n)]).map(drop))
                })
                .unwrap();
        }
        let of = |fixture: &mut Fixture, id: i32| {
            fixture.rows(child).iter().filter(|row| row[0] == int(id)).count() as i32
        };
        fixture.auto(|view| update(view, parent, &[int(1)], vec![int(3)])).unwrap();
        assert_eq!((of(&mut fixture, 1), of(&mut fixture, 2), of(&mut fixture, 3)), (0, ROWS, ROWS));
        assert!(fixture.auto(|view| delete(view, parent, &[int(3)])).unwrap());
        assert_eq!((of(&mut fixture, 3), fixture.rows(child).len() as i32), (0, ROWS));
        assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    }
}

#[test]
fn a_reference_that_another_one_is_about_to_delete_is_waited_for() {
    let (mut fixture, parent, child) = family(ReferentialAction::NoAction);
    for deletes in [false, true] {
        let mut first = fixture.begin(1, Isolation::ReadCommitted);
        let mut second = fixture.begin(2, Isolation::ReadCommitted);
        fixture.run(&mut first, |view| delete(view, child, &[int(10)])).unwrap();
        let wait = wait_of(fixture.run(&mut second, |view| delete(view, parent, &[int(1)])));
        match deletes {
            true => drop(fixture.commit(first).unwrap()),
            false => fixture.tenant.abort(first),
        }
        assert!(wait.is_over());
        let outcome = fixture.run(&mut second, |view| delete(view, parent, &[int(1)]));
        if deletes {
            assert!(outcome.unwrap());
            fixture.commit(second).unwrap();
        } else {
            assert_eq!(error_of(outcome).state().as_str(), "23503");
            fixture.tenant.abort(second);
        }
    }
    assert_eq!(fixture.rows(parent), [[int(2)]]);
    // One that changes otherwise references it still.
    fixture.insert(child, vec![int(11), Datum::Int8(2)]).unwrap();
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run(&mut first, |view| update(view, child, &[int(11)], vec![int(11), Datum::Null])).unwrap();
    let outcome = fixture.auto(|view| delete(view, parent, &[int(2)]));
    assert_eq!(outcome.unwrap_err().state().as_str(), "23503");
    fixture.tenant.abort(first);
}

#[test]
fn whoever_reads_does_not_wait_for_a_foreign_key_that_is_added_or_validated() {
    let (mut fixture, parent, child) = family(ReferentialAction::NoAction);
    let other = fixture.create("other", &[("id", PgType::Int4), ("parent_id", PgType::Int4)], 1);
    let key = NewForeignKey { rows: RowsNow::NotValid, ..reference(parent, ReferentialAction::NoAction) };
    let not_valid = fixture.ddl(|ddl| ddl.add_foreign_key(child, key)).unwrap();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture
        .run(&mut txn, |view| {
            view.ddl()?.add_foreign_key(other, reference(parent, ReferentialAction::NoAction))?;
            view.ddl()?.validate_foreign_key(child, not_valid)
        })
        .unwrap();
    for (table, is_added) in [(parent, true), (child, false), (other, true)] {
        let mut lock = |mode| fixture.auto(|view| view.lock_table(table, mode, WaitPolicy::NoWait));
        lock(TableLock::AccessShare).unwrap();
        let written = lock(TableLock::RowExclusive).map_err(|error| error.state().as_str().to_owned());
        assert_eq!(written, if is_added { Err("55P03".to_owned()) } else { Ok(()) });
    }
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.insert(other, vec![int(1), int(77)]).unwrap_err().state().as_str(), "23503");
}
