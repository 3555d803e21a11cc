//! Rows of which a few take much memory: whoever goes through them has a few at a time.

use super::*;
use crate::SnapshotView;
use crate::catalog::IndexColumn;
use crate::ddl::NewIndex;
use crate::row::StoredRow;

const ROWS: i32 = 30;

/// Every third one is short.
fn text_of(id: i32) -> Datum {
    text(&"x".repeat(if id % 3 == 0 { 10 } else { 300_000 }))
}

fn row_of(id: i32) -> Row {
    vec![int(id), int(ROWS - id), text_of(id)]
}

fn filled(fixture: &mut Fixture) -> Oid {
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4), ("s", PgType::Text)], 1);
    for id in 0..ROWS {
        fixture.insert(t, row_of(id)).unwrap();
    }
    t
}

/// The numbers of the rows that a scan shows at a time, and how many bytes their texts have.
fn parts(view: &SnapshotView, table: &Arc<Table>, by_index: bool) -> Vec<(Vec<i32>, usize)> {
    let scan = || match by_index {
        true => view.index_scan(table, table.index(table.indexes[1].oid).unwrap(), KeyRange::all()),
        false => view.scan(table, KeyRange::all()),
    };
    let (mut parts, mut stored) = (Vec::new(), scan());
    let mut each = |rows: &[StoredRow<'_>]| {
        let mut part = (Vec::new(), 0);
        for row in rows {
            let (Datum::Int4(id), Datum::Text(text)) = (row.column(0)?, row.column(2)?) else {
                panic!("a number and a text")
            };
            part.0.push(id);
            part.1 += text.len();
        }
        parts.push(part);
        Ok(())
    };
    while stored.next_leaf_stored(&mut each).unwrap() {}
    let ids: Vec<i32> = parts.iter().flat_map(|(ids, _)| ids).copied().collect();

    let (mut keyed, mut found) = (scan(), Vec::new());
    let mut each = |row: &crate::row::RowRef<'_>| {
        found.push(row.column(0)?);
        Ok(())
    };
    while keyed.next_leaf(&mut each).unwrap() {}
    assert_eq!(found, ids.iter().map(|id| int(*id)).collect::<Vec<_>>());
    let (mut counting, mut count) = (scan(), 0);
    while let Some(len) = counting.next_leaf_len().unwrap() {
        count += len;
    }
    assert_eq!(count, ids.len());
    parts
}

#[test]
fn a_query_reads_some_of_a_leafs_long_rows_at_a_time() {
    let mut fixture = Fixture::new();
    let t = filled(&mut fixture);
    let index = NewIndex {
        name: None,
        columns: vec![IndexColumn::ascending(1)],
        unique: false,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    fixture.ddl(|ddl| ddl.create_index(t, index)).unwrap();
    let table = fixture.table(t);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    for own_changes in [false, true] {
        let mut expected: Vec<i32> = (0..ROWS).collect();
        if own_changes {
            fixture
                .run(&mut txn, |view| {
                    delete(view, t, &[int(7)])?;
                    let table = view.table(t)?;
                    view.insert(&table, &row_of(-1))?;
                    view.insert(&table, &row_of(ROWS))
                })
                .unwrap();
            expected = (-1..=ROWS).filter(|id| *id != 7).collect();
        }
        let view = fixture.tenant.snapshot_view(&mut txn).unwrap();
        for by_index in [false, true] {
            let parts = parts(&view, &table, by_index);
            let ids: Vec<i32> = parts.iter().flat_map(|(ids, _)| ids).copied().collect();
            // The index is in the other order.
            let in_order: Vec<i32> = if by_index { ids.into_iter().rev().collect() } else { ids };
            assert_eq!(in_order, expected);
            let most = parts.iter().map(|(_, len)| *len).max().unwrap();
            assert!((600_000..1_800_000).contains(&most), "{most} bytes at a time, {own_changes} {by_index}");
        }
    }
    fixture.tenant.abort(txn);
}

#[test]
fn a_branch_takes_over_some_long_rows_of_others_at_a_time() {
    let mut fixture = Fixture::new();
    let t = filled(&mut fixture);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for id in ROWS..3 * ROWS {
        fixture.insert(t, row_of(id)).unwrap();
    }
    let mut turns = 0;
    loop {
        turns += 1;
        let before = fixture.tenant.branch.as_ref().unwrap().behind();
        let caught_up = fixture.tenant.catch_up(&mut txn).unwrap();
        let copied = before - fixture.tenant.branch.as_ref().unwrap().behind();
        assert!(copied <= 12, "{copied} rows in a turn");
        if matches!(caught_up, CaughtUp::All) {
            break;
        }
    }
    assert!(turns > 5);
    let rows = fixture.run(&mut txn, |view| all_rows(view, t)).unwrap();
    assert_eq!(rows, (0..3 * ROWS).map(row_of).collect::<Vec<_>>());
    fixture.commit(txn).unwrap();
}
