//! DDL is transactional, builds what it says, and replays to the same.

use super::*;
use crate::catalog::{
    ColumnStatistics, Deferral, IndexColumn, MatchType, ReferentialAction, TableStatistics,
};
use crate::ddl::{Behavior, LabelSide, NewForeignKey, NewIndex, RowsNow};

fn check_replay(fixture: &mut Fixture, tables: &[Oid]) {
    let mut copy = fixture.replayed();
    for table in tables {
        assert_eq!(copy.rows(*table), fixture.rows(*table));
        for index in &fixture.table(*table).indexes {
            let all = |view: &mut View<'_>| {
                scan_rows(view, *table, Some(index.oid), KeyRange::all(), Direction::Forward)
            };
            assert_eq!(copy.auto(all).unwrap(), fixture.auto(all).unwrap(), "index {}", index.name);
        }
    }
}

#[test]
fn ddl_is_seen_by_others_only_after_commit() {
    let mut fixture = Fixture::new();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let t = fixture.run(&mut txn, |view| create(&mut view.ddl()?, "t", &[("id", PgType::Int4)], 1)).unwrap();
    fixture
        .run(&mut txn, |view| {
            let table = view.table(t)?;
            view.insert(&table, &[int(1)])
        })
        .unwrap();
    assert!(fixture.tenant.catalog().table(t).is_none());
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    let wait = wait_of(fixture.run(&mut other, |view| view.ddl().map(drop)));
    fixture.commit(txn).unwrap();
    assert!(wait.is_over());
    fixture.tenant.abort(other);
    assert_eq!(fixture.rows(t).len(), 1);
    check_replay(&mut fixture, &[t]);
}

#[test]
fn an_aborted_build_gives_its_pages_back() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0..2000 {
        fixture.insert(t, vec![int(id), text(&format!("value {id}"))]).unwrap();
    }
    let pages = fixture.tenant.pages.page_count();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let index = |unique| NewIndex {
        name: None,
        columns: vec![IndexColumn::ascending(1)],
        unique,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    fixture.run(&mut txn, |view| view.ddl()?.create_index(t, index(true))).unwrap();
    assert!(fixture.tenant.pages.page_count() > pages);
    fixture.tenant.abort(txn);
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.tenant.pages.page_count(), pages);
    fixture.ddl(|ddl| ddl.create_index(t, index(false))).unwrap();
    check_replay(&mut fixture, &[t]);
}

#[test]
fn a_primary_key_added_afterwards_clusters_the_table_and_its_indexes() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 0);
    for id in [5, 3, 9, 1] {
        fixture.insert(t, vec![int(id), int(-id)]).unwrap();
    }
    let index = NewIndex {
        name: Some("by_v".to_owned()),
        columns: vec![IndexColumn::ascending(1)],
        unique: false,
        nulls_not_distinct: false,
        ..NewIndex::default()
    };
    fixture.ddl(|ddl| ddl.create_index(t, index)).unwrap();
    let key = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
    fixture
        .ddl(|ddl| {
            let table = ddl.view().table(t)?;
            ddl.view().insert(&table, &[int(4), int(-4)])?;
            ddl.add_primary_key(t, key.clone())?;
            let table = ddl.view().table(t)?;
            ddl.view().insert(&table, &[int(2), int(-2)]).map(drop)
        })
        .unwrap();
    let ids: Vec<Datum> = fixture.rows(t).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 9].map(int));
    assert_eq!(fixture.insert(t, vec![int(9), int(0)]).unwrap_err().state().as_str(), "23505");
    check_replay(&mut fixture, &[t]);
    fixture.ddl(|ddl| ddl.drop_constraint(t, "t_pkey", Behavior::Restrict)).unwrap();
    fixture.insert(t, vec![int(9), int(0)]).unwrap();
    check_replay(&mut fixture, &[t]);
    let error = fixture.ddl(|ddl| ddl.add_primary_key(t, key.clone())).unwrap_err();
    assert_eq!(error.message(), "could not create unique index \"t_pkey\"");
    assert_eq!(error.detail(), Some("Key (id)=(9) is duplicated."));
}

#[test]
fn a_table_may_be_dropped_or_rewritten_behind_a_new_key_in_one_transaction() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 0);
    fixture.insert(t, vec![int(1)]).unwrap();
    let key = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
    fixture
        .ddl(|ddl| {
            ddl.add_primary_key(t, key)?;
            let table = ddl.view().table(t)?;
            ddl.view().insert(&table, &[int(2)])?;
            ddl.drop_relations(&[t], Behavior::Restrict).map(drop)
        })
        .unwrap();
    assert!(fixture.replayed().tenant.catalog().table(t).is_none());

    let u = fixture.create("u", &[("a", PgType::Int4), ("b", PgType::Int4)], 1);
    fixture.insert(u, vec![int(1), int(-1)]).unwrap();
    fixture
        .ddl(|ddl| {
            ddl.drop_constraint(u, "u_pkey", Behavior::Restrict)?;
            let widen = |table: &mut Table| {
                table.columns[1].ty = PgType::Int8;
                Ok(())
            };
            ddl.rewrite_table(u, widen, &mut |row| Ok(vec![row[0].clone(), Datum::Int8(-1)]))
        })
        .unwrap();
    assert_eq!(fixture.rows(u), [[int(1), Datum::Int8(-1)]]);
    check_replay(&mut fixture, &[u]);
}

#[test]
fn a_record_may_have_a_rewriting_whose_tree_its_commit_gave_up() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 0);
    fixture.insert(t, vec![int(1)]).unwrap();
    let from = fixture.table(t).tree;
    fixture.ddl(|ddl| ddl.drop_relations(&[t], Behavior::Restrict).map(drop)).unwrap();
    let (_, record) = fixture.log.records.last_mut().unwrap();
    let mut clusters = Vec::new();
    let tree = base::TreeId(from.0 + 1);
    crate::redo_record::RecordWriter::part(&mut clusters, false).build(&crate::txn::Build::Cluster {
        table: t,
        from,
        tree,
    });
    record.extend_from_slice(&clusters);
    crate::redo_record::RecordWriter::part(&mut clusters, false).drop_tree(tree);
    record.extend_from_slice(&clusters);
    assert!(fixture.replayed().tenant.catalog().table(t).is_none());
}

#[test]
fn a_name_that_another_has_at_the_commits_end_is_found_after_a_replay() {
    let mut fixture = Fixture::new();
    let (a, b) =
        (fixture.create("a", &[("id", PgType::Int4)], 1), fixture.create("b", &[("id", PgType::Int4)], 1));
    let v = fixture.ddl(|ddl| Ok(ddl.create_view(view_named("v"))?)).unwrap();
    let oid_of = |fixture: &Fixture, name: &str| {
        fixture.tenant.catalog().relation_in(PUBLIC_SCHEMA, name).map(|relation| relation.oid())
    };
    let found = |fixture: &mut Fixture, expected: &[(&str, Option<Oid>)]| {
        let mut copy = fixture.replayed();
        for (name, oid) in expected {
            assert_eq!((oid_of(fixture, name), oid_of(&copy, name)), (*oid, *oid), "{name}");
        }
        for each in [fixture, &mut copy] {
            assert_eq!(each.tenant.check().defects, Vec::<String>::new());
        }
    };
    // Two tables change their names, and the indexes of their keys.
    fixture
        .ddl(|ddl| {
            let keys = [a, b].map(|oid| ddl.catalog().table(oid).expect("it is there").indexes[0].oid);
            for (oid, name) in
                [(a, "c"), (b, "a"), (a, "b"), (keys[0], "c"), (keys[1], "a_pkey"), (keys[0], "b_pkey")]
            {
                ddl.rename_relation(oid, name)?;
            }
            Ok(())
        })
        .unwrap();
    found(&mut fixture, &[("a", Some(b)), ("b", Some(a)), ("c", None)]);
    // A table takes the name of a younger one that goes, and one is made in the place of a view.
    let made = fixture
        .ddl(|ddl| {
            ddl.drop_relations(&[b, v], Behavior::Restrict)?;
            ddl.rename_relation(a, "a")?;
            create(ddl, "v", &[("id", PgType::Int4)], 1)
        })
        .unwrap();
    found(&mut fixture, &[("a", Some(a)), ("b", None), ("v", Some(made))]);
}

#[test]
fn a_foreign_key_goes_with_the_column_of_any_unique_index_that_it_needs() {
    let mut fixture = Fixture::new();
    let p = fixture.create("p", &[("id", PgType::Int4), ("k", PgType::Int4)], 1);
    let c = fixture.create("c", &[("id", PgType::Int4), ("k", PgType::Int4)], 1);
    let columns = vec![IndexColumn::ascending(1)];
    let unique =
        NewIndex { name: None, columns, unique: true, nulls_not_distinct: false, ..NewIndex::default() };
    fixture.ddl(|ddl| ddl.create_index(p, unique)).unwrap();
    let key = NewForeignKey {
        name: None,
        columns: vec![1],
        referenced_table: p,
        referenced_columns: Some(vec![1]),
        on_delete: ReferentialAction::NoAction,
        on_update: ReferentialAction::NoAction,
        match_type: MatchType::Simple,
        deferral: Deferral::NotDeferrable,
        rows: RowsNow::Checked,
    };
    fixture.ddl(|ddl| ddl.add_foreign_key(c, key)).unwrap();
    let error = fixture.ddl(|ddl| ddl.drop_column(p, "k", Behavior::Restrict)).unwrap_err();
    assert_eq!(error.state().as_str(), "2BP01");
    assert_eq!(error.detail(), Some("constraint c_k_fkey on table c depends on column k of table p"));
    let dropped = fixture.ddl(|ddl| ddl.drop_column(p, "k", Behavior::Cascade)).unwrap();
    assert_eq!(dropped.cascaded, ["constraint c_k_fkey on table c"]);
    fixture.insert(c, vec![int(1), int(7)]).unwrap();
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn a_column_takes_along_the_sequences_that_it_owns_and_no_others() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("a", PgType::Int4), ("b", PgType::Int4)], 1);
    let made = |ddl: &mut Ddl<'_>, name: &str, position: usize, owned_by| {
        let name = name.into();
        let sequence = ddl.create_sequence(Sequence { name, owned_by, ..sequence_to(100) })?;
        ddl.set_column_sequence(t, position, Some(sequence))?;
        Ok(sequence)
    };
    // As after OWNED BY NONE.
    let free = fixture.ddl(|ddl| made(ddl, "free", 1, None)).unwrap();
    let owned = fixture.ddl(|ddl| made(ddl, "owned", 2, Some((t, 2)))).unwrap();
    fixture.auto(|view| view.nextval(free)).unwrap();
    for column in ["a", "b"] {
        fixture.ddl(|ddl| ddl.drop_column(t, column, Behavior::Restrict)).unwrap();
    }
    assert!(fixture.tenant.catalog().sequence(owned).is_none());
    assert_eq!(fixture.auto(|view| view.nextval(free)).unwrap(), 2);
}

#[test]
fn many_labels_are_added_at_one_place_of_an_enum() {
    let mut fixture = Fixture::new();
    let both = ["first".to_owned(), "last".to_owned()];
    // Beside one of the two, or each beside the one before it.
    for (n, (neighbour, side, is_chain)) in [
        ("last", LabelSide::Before, false),
        ("first", LabelSide::After, false),
        ("first", LabelSide::After, true),
        ("last", LabelSide::Before, true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("e{n}");
        let oid = fixture.ddl(|ddl| Ok(ddl.create_enum(PUBLIC_SCHEMA, &name, OWNER_ROLE, &both)?)).unwrap();
        let (mut beside, mut added) = (neighbour.to_owned(), Vec::new());
        for n in 0..60 {
            let label = n.to_string();
            fixture.ddl(|ddl| Ok(ddl.add_enum_label(oid, &label, Some((beside.as_str(), side)))?)).unwrap();
            if is_chain {
                beside.clone_from(&label);
            }
            added.push(label);
        }
        if (side == LabelSide::Before) == is_chain {
            added.reverse();
        }
        let ty = Arc::clone(fixture.tenant.catalog().enum_type(oid).expect("it was just made"));
        assert!(ty.labels.is_sorted_by(|a, b| a.order < b.order), "{name}");
        let labels: Vec<&str> = ty.labels.iter().map(|label| label.label.as_str()).collect();
        let expected: Vec<&str> =
            std::iter::once("first").chain(added.iter().map(String::as_str)).chain(["last"]).collect();
        assert_eq!(labels, expected, "{name}");
    }
}

#[test]
fn labels_of_an_enum_keep_their_order_however_many_they_are() {
    let mut fixture = Fixture::new();
    let labels: Vec<String> = (0..70_000).map(|n| format!("label {n}")).collect();
    let oid = fixture.ddl(|ddl| Ok(ddl.create_enum(PUBLIC_SCHEMA, "e", OWNER_ROLE, &labels)?)).unwrap();
    fixture.ddl(|ddl| Ok(ddl.add_enum_label(oid, "last", None)?)).unwrap();
    let ty = Arc::clone(fixture.tenant.catalog().enum_type(oid).expect("it was just made"));
    assert!(ty.labels.is_sorted_by(|a, b| a.order < b.order));
    for n in [0, 1, 65_535, 65_536, 69_999] {
        let label = format!("label {n}");
        assert_eq!(ty.order_of(&label).and_then(|order| ty.label_of(order)), Some(&label[..]));
    }
}

#[test]
fn bounds_of_a_column_are_kept_if_they_are_short() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    let column = |low: Datum, high: Datum| {
        let bounds = Some(Box::new((low, high)));
        Some(ColumnStatistics { null_fraction: 0.0, distinct: 2.0, width: 4, bounds })
    };
    let columns = vec![column(int(1), int(2)), column(text("a"), text(&"b".repeat(1 << 20)))];
    let statistics = TableStatistics { rows: 2, columns };
    fixture.ddl(|ddl| Ok(ddl.set_statistics(t, statistics))).unwrap();
    let kept = fixture.tenant.catalog().statistics(t).expect("they were just set");
    let kept: Vec<bool> = kept.columns.iter().flatten().map(|column| column.bounds.is_some()).collect();
    assert_eq!(kept, [true, false]);
}

#[test]
fn no_column_is_of_a_type_that_has_no_values() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    let made = fixture.ddl(|ddl| create(ddl, "u", &[("a", PgType::Void)], 0).map(drop)).unwrap_err();
    let column = Column::new("a", PgType::Void, TypeMod::NONE);
    let added = fixture.ddl(|ddl| ddl.add_column(t, column).map(drop)).unwrap_err();
    for error in [made, added] {
        assert_eq!(error.state().as_str(), "42P16");
        assert_eq!(error.message(), "column \"a\" has pseudo-type void");
    }
}

#[test]
fn columns_come_and_go_without_touching_rows() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("gone", PgType::Text)], 1);
    fixture.insert(t, vec![int(1), text("x")]).unwrap();
    let mut added = Column::new("added", PgType::Int4, TypeMod::NONE);
    added.not_null = true;
    added.missing = Some(Box::new(int(7)));
    let records = fixture.log.records.len();
    fixture.ddl(|ddl| ddl.add_column(t, added)).unwrap();
    fixture.ddl(|ddl| ddl.drop_column(t, "gone", Behavior::Restrict)).unwrap();
    assert_eq!(fixture.log.records.len(), records + 2);
    assert_eq!(fixture.rows(t), vec![vec![int(1), Datum::Null, int(7)]]);
    fixture.insert(t, vec![int(2), Datum::Null, int(8)]).unwrap();
    check_replay(&mut fixture, &[t]);
}

#[test]
fn a_definition_longer_than_a_value_may_be_is_refused_before_it_is_logged() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    let long = "x".repeat(base::limits::ROW_LEN_MAX.0 as usize);
    let records = fixture.log.records.len();
    let error = fixture.ddl(|ddl| ddl.set_default(t, 0, Some(&long))).unwrap_err();
    assert_eq!(error.state().as_str(), "54000");
    assert_eq!(fixture.log.records.len(), records);
    fixture.insert(t, vec![int(1)]).unwrap();
    check_replay(&mut fixture, &[t]);
}

#[test]
fn truncate_and_drop_take_effect_at_commit_and_release_their_pages() {
    let mut fixture = Fixture::new();
    let empty = fixture.tenant.pages.page_count();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0..500 {
        fixture.insert(t, vec![int(id), text(&"x".repeat(100))]).unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run(&mut txn, |view| view.ddl()?.truncate(&[t], false)).unwrap();
    assert!(fixture.run(&mut txn, |view| all_rows(view, t)).unwrap().is_empty());
    fixture.tenant.abort(txn);
    assert_eq!(fixture.rows(t).len(), 500);
    fixture.ddl(|ddl| ddl.truncate(&[t], false)).unwrap();
    assert!(fixture.rows(t).is_empty());
    fixture.insert(t, vec![int(1), text("y")]).unwrap();
    check_replay(&mut fixture, &[t]);
    fixture.ddl(|ddl| ddl.drop_relations(&[t], Behavior::Restrict)).unwrap();
    while fixture.tenant.reclaim(1000).unwrap() {}
    assert_eq!(fixture.tenant.pages.page_count(), empty);
    assert!(fixture.replayed().tenant.catalog().table(t).is_none());
}

#[test]
fn what_others_need_is_dropped_only_with_cascade() {
    let mut fixture = Fixture::new();
    let parent = fixture.create("parent", &[("id", PgType::Int4)], 1);
    let child = fixture.create("child", &[("id", PgType::Int4), ("p", PgType::Int4)], 1);
    let key = crate::ddl::NewForeignKey {
        name: None,
        columns: vec![1],
        referenced_table: parent,
        referenced_columns: None,
        on_delete: crate::catalog::ReferentialAction::NoAction,
        on_update: crate::catalog::ReferentialAction::NoAction,
        match_type: crate::catalog::MatchType::Simple,
        deferral: Default::default(),
        rows: crate::ddl::RowsNow::Checked,
    };
    fixture.ddl(|ddl| ddl.add_foreign_key(child, key)).unwrap();
    let error = fixture.ddl(|ddl| ddl.drop_relations(&[parent], Behavior::Restrict)).unwrap_err();
    assert_eq!(error.message(), "cannot drop table parent because other objects depend on it");
    assert_eq!(error.detail(), Some("constraint child_p_fkey on table child depends on table parent"));
    let dropped = fixture.ddl(|ddl| ddl.drop_relations(&[parent], Behavior::Cascade)).unwrap();
    assert_eq!(dropped.cascaded, ["constraint child_p_fkey on table child"]);
    fixture.insert(child, vec![int(1), int(99)]).unwrap();
}

#[test]
fn whoever_names_the_next_of_very_many_constraints_asks_whether_that_is_still_wanted() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    const COUNT: usize = 300;
    fixture
        .ddl(|ddl| (0..COUNT).try_for_each(|_| ddl.add_check(t, None, "true", Vec::new(), true).map(drop)))
        .unwrap();
    let table = fixture.table(t);
    for (n, check) in table.checks.iter().enumerate() {
        let number = if n == 0 { String::new() } else { n.to_string() };
        assert_eq!(check.name, format!("t_check{number}"));
    }
    let format = types::FormatContext::default();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let mark = txn.mark();
    let one_more = {
        let mut view = fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &|_| true);
        view.ddl().unwrap().add_check(t, None, "true", Vec::new(), true)
    };
    assert!(matches!(one_more, Err(Interrupt::Asked)), "{one_more:?}");
    fixture.tenant.rewind_statement(&mut txn, &mark);
    let dropped = {
        let mut view = fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &|_| true);
        view.ddl().unwrap().drop_relations(&[t], Behavior::Restrict)
    };
    assert!(matches!(dropped, Err(Interrupt::Asked)), "{dropped:?}");
    fixture.tenant.abort(txn);
}

#[test]
fn a_long_value_of_a_new_column_is_in_its_rows_and_not_in_the_definition() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    for id in 0..5 {
        fixture.insert(t, vec![int(id), int(7)]).unwrap();
    }
    let long = text(&"x".repeat(100_000));
    for (name, value, is_kept) in [("short", text("abc"), true), ("long", long.clone(), false)] {
        let mut column = Column::new(name, PgType::Text, TypeMod::NONE);
        column.not_null = true;
        column.missing = Some(Box::new(value));
        let position = fixture.ddl(|ddl| ddl.add_column(t, column)).unwrap();
        let table = fixture.table(t);
        assert_eq!(table.columns[position].name, name);
        assert_eq!(table.columns[position].missing.is_some(), is_kept);
    }
    let row = |id| vec![int(id), int(7), text("abc"), long.clone()];
    assert_eq!(fixture.rows(t), (0..5).map(row).collect::<Vec<_>>());
    check_replay(&mut fixture, &[t]);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn the_texts_of_definitions_have_a_limit_together() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let long = "x".repeat(30 << 20);
    let refused = |result: Result<(), SqlError>| assert_eq!(result.unwrap_err().state().as_str(), "54000");
    let comment = |fixture: &mut Fixture, column, text: Option<&str>| {
        fixture.ddl(|ddl| {
            ddl.set_comment(t, column, text);
            Ok(())
        })
    };
    comment(&mut fixture, None, Some(&long)).unwrap();
    comment(&mut fixture, Some(0), Some(&long)).unwrap();
    refused(comment(&mut fixture, Some(1), Some(&long)));
    refused(fixture.ddl(|ddl| ddl.set_default(t, 1, Some(&long))));
    refused(fixture.ddl(|ddl| ddl.add_check(t, None, &long, vec![1], true).map(drop)));
    refused(fixture.ddl(|ddl| {
        Ok(ddl.create_view(ViewDefinition { sql: long[..].into(), ..view_named("w") }).map(drop)?)
    }));
    let labels: Vec<String> = (0..60_000).map(|n| format!("{n:060}")).collect();
    refused(fixture.ddl(|ddl| Ok(ddl.create_enum(PUBLIC_SCHEMA, "e", OWNER_ROLE, &labels).map(drop)?)));
    assert_eq!(fixture.tenant.catalog().comment(t, Some(1)), None);
    // As often as one likes in place of another one.
    for _ in 0..3 {
        comment(&mut fixture, None, Some(&long)).unwrap();
    }
    // Nor within one transaction.
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let say = |view: &mut View<'_>| {
        view.ddl()?.set_comment(t, Some(1), Some(&long));
        Ok(())
    };
    fixture.run(&mut txn, say).unwrap();
    assert_eq!(error_of(fixture.run(&mut txn, say)).state().as_str(), "54000");
    fixture.tenant.abort(txn);
    comment(&mut fixture, Some(0), None).unwrap();
    fixture.ddl(|ddl| ddl.set_default(t, 1, Some(&long))).unwrap();
    fixture.ddl(|ddl| ddl.drop_relations(&[t], Behavior::Restrict).map(drop)).unwrap();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let twice = "x".repeat(60 << 20);
    fixture.ddl(|ddl| ddl.set_default(t, 1, Some(&twice))).unwrap();
    assert_eq!(fixture.replayed().table(t).columns[1].default.as_deref(), Some(&twice[..]));
}

#[test]
fn what_definitions_have_beside_texts_has_a_limit_too() {
    let mut fixture = Fixture::new();
    let long = |len: usize| Datum::text("x".repeat(len));
    let wide = |ddl: &mut Ddl<'_>, n: usize| -> Result<Oid, Interrupt> {
        let column = |i: usize| Column {
            missing: Some(Box::new(long(15_000))),
            ..Column::new(format!("c{i}"), PgType::Text, TypeMod::NONE)
        };
        let columns = (0..100).map(column).collect();
        let new = NewTable { schema: PUBLIC_SCHEMA, name: format!("t{n}"), owner: OWNER_ROLE, columns };
        Ok(ddl.create_table(new)?)
    };
    // 1.5 MB each, of 8 MiB.
    let made: Vec<Oid> = (0..5).map(|n| fixture.ddl(|ddl| wide(ddl, n)).unwrap()).collect();
    let refused = |result: Result<(), SqlError>| {
        let error = result.unwrap_err();
        assert_eq!(
            (error.state().as_str(), error.message()),
            ("54000", "too many definitions in the database")
        );
    };
    refused(fixture.ddl(|ddl| wide(ddl, 5).map(drop)));
    let analysed = |ddl: &mut Ddl<'_>| {
        let bounds = Some(Box::new((long(400), long(400))));
        let column = ColumnStatistics { null_fraction: 0.0, distinct: 1.0, width: 1, bounds };
        ddl.set_statistics(made[0], TableStatistics { rows: 1, columns: vec![Some(column); 1600] });
        Ok(())
    };
    refused(fixture.ddl(analysed));
    fixture.ddl(|ddl| ddl.drop_relations(&made[4..], Behavior::Restrict).map(drop)).unwrap();
    fixture.ddl(analysed).unwrap();
    refused(fixture.ddl(|ddl| wide(ddl, 5).map(drop)));
    // What is changed and does not grow goes through, after a restart too.
    let mut replayed = fixture.replayed();
    replayed.ddl(|ddl| ddl.rename_column(made[0], "c0", "c")).unwrap();
    refused(replayed.ddl(|ddl| wide(ddl, 5).map(drop)));
    replayed.ddl(|ddl| ddl.drop_relations(&made[..1], Behavior::Restrict).map(drop)).unwrap();
    replayed.ddl(|ddl| wide(ddl, 5).map(drop)).unwrap();
}

#[test]
fn identifiers_do_not_begin_anew() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    fixture.insert(t, vec![int(1)]).unwrap();
    fixture.tenant.counters.tree.0 = u32::MAX - 10;
    for _ in 0..20 {
        let error = fixture.ddl(|ddl| ddl.truncate(&[t], false)).unwrap_err();
        assert_eq!(error.state().as_str(), "54000");
    }
    assert_eq!(fixture.rows(t), [[int(1)]]);
}

#[test]
fn a_primary_key_is_replaced_in_one_transaction() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("a", PgType::Int4), ("b", PgType::Int4), ("c", PgType::Int4)], 1);
    let columns = vec![IndexColumn::ascending(2)];
    let index =
        NewIndex { name: None, columns, unique: false, nulls_not_distinct: false, ..NewIndex::default() };
    fixture.ddl(|ddl| ddl.create_index(t, index)).unwrap();
    for a in 0..10 {
        fixture.insert(t, vec![int(a), int(20 - a), int(a % 3)]).unwrap();
    }
    let key = |column| NewUnique { name: None, columns: vec![column], nulls_not_distinct: false };
    let replace = |view: &mut View<'_>, column: usize| {
        let name = view.table(t)?.primary_index().expect("it has one").name.to_string();
        let mut ddl = view.ddl()?;
        ddl.drop_constraint(t, &name, Behavior::Restrict)?;
        ddl.add_primary_key(t, key(column)).map(drop)
    };
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    // What changes before is in what is rewritten, and what changes behind comes behind it.
    fixture.run(&mut txn, |view| update(view, t, &[int(3)], vec![int(3), int(99), int(3)])).unwrap();
    fixture.run(&mut txn, |view| delete(view, t, &[int(4)])).unwrap();
    fixture.run(&mut txn, |view| replace(view, 1)).unwrap();
    fixture.run(&mut txn, |view| update(view, t, &[int(20)], vec![int(0), int(20), int(8)])).unwrap();
    let changed = error_of(fixture.run(&mut txn, |view| replace(view, 0)));
    assert_eq!(changed.state().as_str(), "0A000", "{}", changed.message());
    let insert = |view: &mut View<'_>| {
        let table = view.table(t)?;
        view.insert(&table, &[int(50), int(1), int(1)])
    };
    fixture.run(&mut txn, insert).unwrap();
    fixture.commit(txn).unwrap();
    let of_b: Vec<Datum> = fixture.rows(t).into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(of_b, [1, 11, 12, 13, 14, 15, 18, 19, 20, 99].map(int));
    fixture.insert(t, vec![int(60), int(2), int(2)]).unwrap();
    check_replay(&mut fixture, &[t]);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());

    let mut given_up = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run(&mut given_up, |view| replace(view, 0)).unwrap();
    fixture.tenant.abort(given_up);
    while fixture.tenant.reclaim(100).unwrap() {}
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn of_dropped_trees_the_one_that_cannot_be_read_is_given_up() {
    let mut fixture = Fixture::on_disk(93);
    let tables = ["a", "b"].map(|name| {
        let table = fixture.create(name, &[("id", PgType::Int4), ("v", PgType::Text)], 1);
        for id in 0..20 {
            fixture.insert(table, vec![int(id), text(&"v".repeat(1000))]).unwrap();
        }
        table
    });
    let trees = tables.map(|table| fixture.table(table).tree);
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&fixture.world.as_ref().unwrap().env(), checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    fixture.tenant.evict_all();
    let drop_table = |fixture: &mut Fixture, table: Oid| {
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        let dropped = fixture
            .run_reading(&mut txn, |view| view.ddl()?.drop_relations(&[table], Behavior::Restrict).map(drop));
        dropped.unwrap();
        fixture.commit(txn).unwrap();
    };
    drop_table(&mut fixture, tables[0]);
    assert!(matches!(fixture.tenant.reclaim(1000), Err(Interrupt::Miss(_))));
    let asked = fixture.tenant.next_to_reclaim().expect("its pages are on disk");
    // Another one is dropped while the page is read, which fails.
    drop_table(&mut fixture, tables[1]);
    fixture.tenant.reclaim_failed(asked);
    let kept: Vec<base::TreeId> = fixture.tenant.spoiled.iter().map(|(tree, _)| *tree).collect();
    assert_eq!((kept, fixture.tenant.next_to_reclaim()), (vec![trees[0]], Some(trees[1])));
}
