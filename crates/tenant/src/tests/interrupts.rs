//! Long work within one turn ends soon after its end was asked for, and leaves nothing.

use std::cell::Cell;

use types::FormatContext;

use super::*;
use crate::catalog::{Deferral, IndexColumn, MatchType, ReferentialAction};
use crate::ddl::{NewForeignKey, NewIndex, RowsNow};

const ROWS: i32 = 2000;

/// Runs a statement whose end is asked for at the second look, if its turn is not over before.
fn interrupted<T: std::fmt::Debug>(
    fixture: &mut Fixture,
    statement: impl FnOnce(&mut View<'_>) -> Result<T, Interrupt>,
) {
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let mark = txn.mark();
    let (format, looks) = (FormatContext::default(), Cell::new(0));
    let asked = |_| looks.replace(looks.get() + 1) > 0;
    let outcome = {
        let mut view = fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &asked);
        statement(&mut view).and_then(|value| view.finish_statement().map(|()| value))
    };
    assert!(matches!(outcome, Err(Interrupt::Asked)), "{outcome:?}");
    assert!((1..=2).contains(&looks.get()), "{} looks", looks.get());
    fixture.tenant.rollback_statement(&mut txn, &mark);
    fixture.tenant.abort(txn);
}

#[test]
fn scans_builds_validations_and_cascades_end_when_asked() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
    let child = fixture.create("child", &[("id", PgType::Int4), ("parent_id", PgType::Int4)], 1);
    let row = |id: i32| vec![int(id), int(1)];
    fixture.insert(parent, vec![int(1)]).unwrap();
    for id in 0..ROWS {
        fixture.insert(child, row(id)).unwrap();
    }
    let key = || NewForeignKey {
        name: None,
        columns: vec![1],
        referenced_table: parent,
        referenced_columns: None,
        on_delete: ReferentialAction::Cascade,
        on_update: ReferentialAction::Cascade,
        match_type: MatchType::Simple,
        deferral: Deferral::NotDeferrable,
        rows: RowsNow::Checked,
    };
    let index = || NewIndex {
        name: None,
        columns: vec![IndexColumn::ascending(1)],
        unique: false,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    let pages = fixture.tenant.pages.page_count();
    interrupted(&mut fixture, |view| all_rows(view, child));
    interrupted(&mut fixture, |view| view.ddl()?.create_index(child, index()));
    interrupted(&mut fixture, |view| view.ddl()?.set_not_null(child, 1));
    interrupted(&mut fixture, |view| view.ddl()?.add_foreign_key(child, key()));
    fixture.ddl(|ddl| ddl.add_foreign_key(child, key())).unwrap();
    interrupted(&mut fixture, |view| delete(view, parent, &[int(1)]));
    interrupted(&mut fixture, |view| {
        let table = view.table(child)?;
        (ROWS..2 * ROWS).try_for_each(|id| view.insert(&table, &row(id)).map(drop))
    });
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.tenant.pages.page_count(), pages);
    assert_eq!(fixture.rows(child).len(), ROWS as usize);
}

/// A row of some MiB takes as long as many short ones, and others wait for the next look.
#[test]
fn a_scan_of_long_rows_looks_at_each_whether_it_is_to_end() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 1);
    for id in 0..20 {
        fixture.insert(t, vec![int(id), text(&"x".repeat(300_000))]).unwrap();
    }
    let index = NewIndex {
        name: None,
        columns: vec![IndexColumn::ascending(0)],
        unique: false,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    fixture.ddl(|ddl| ddl.create_index(t, index)).unwrap();
    let index = fixture.table(t).indexes[1].oid;
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    for index in [None, Some(index)] {
        let (format, looks) = (FormatContext::default(), Cell::new(0));
        let asked = |_| {
            looks.set(looks.get() + 1);
            false
        };
        let rows = {
            let mut view = fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &asked);
            scan_rows(&mut view, t, index, KeyRange::all(), Direction::Forward).unwrap()
        };
        assert!(rows.len() == 20 && looks.get() >= 19, "{} looks at {} rows", looks.get(), rows.len());
    }
    fixture.commit(txn).unwrap();
}
