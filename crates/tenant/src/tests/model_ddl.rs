//! Random definitions and rows in one transaction after the other: what a replay makes of the log, and what a reopened file is, is what
//! the tenant was.

use std::collections::BTreeMap;

use env::sim::PowerCut;
use storage::Checkpoint;

use super::*;
use crate::catalog::{
    Blanks, Catalog, Comparison, Deferral, IndexColumn, MatchType, ReferentialAction, Relation, RowTest,
};
use crate::ddl::{Behavior, NewForeignKey, NewIndex, RowsNow};

/// A small generator: tests must not depend on the machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len() as u64) as usize].clone()) }
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Copy, Debug)]
enum Op {
    CreateTable(&'static str, usize),
    CreateView(&'static str),
    CreateSequence(&'static str),
    Rename(u64, &'static str),
    Drop(u64),
    Index(u64, usize, bool),
    DropIndex(u64),
    Unique(u64, usize),
    PrimaryKey(u64),
    DropConstraint(u64),
    AddColumn(u64, i32),
    DropColumn(u64),
    Truncate(u64, bool),
    Widen(u64),
    Reference(u64, u64),
    Insert(u64, i32, i32),
    Update(u64, i32),
    Delete(u64, i32),
    NextVal(u64, u32),
    Restart(u64, i64),
    Bound(u64, i64),
    Comment(u64),
}

fn op(random: &mut Random) -> Op {
    let name = random.one_of(&NAMES).expect("some");
    let (n, m) = (random.below(1000), random.below(1000));
    match random.below(46) {
        0..3 => Op::CreateTable(name, random.below(2) as usize),
        3 => Op::CreateView(name),
        4 => Op::CreateSequence(name),
        5..8 => Op::Rename(n, name),
        8 => Op::Drop(n),
        9 => Op::PrimaryKey(n),
        10 => Op::Reference(n, m),
        11..14 => Op::Index(n, random.below(2) as usize, random.below(3) == 0),
        14 => Op::DropIndex(n),
        15 => Op::Unique(n, random.below(2) as usize),
        16..18 => Op::PrimaryKey(n),
        18..20 => Op::DropConstraint(n),
        20 => Op::AddColumn(n, random.below(100) as i32),
        21 => Op::DropColumn(n),
        22 => Op::Truncate(n, m % 2 == 0),
        23 => Op::Widen(n),
        24 => Op::Reference(n, m),
        25..34 => Op::Insert(n, random.below(40) as i32, 1 + random.below(12) as i32),
        34..37 => Op::Update(n, random.below(40) as i32),
        37..39 => Op::Delete(n, random.below(40) as i32),
        39..42 => Op::NextVal(n, 1 + random.below(5) as u32),
        42 => Op::Restart(n, random.below(50) as i64),
        43 => Op::Bound(n, 60 + random.below(1000) as i64),
        _ => Op::Comment(n),
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all
}

fn tables(catalog: &Catalog) -> Vec<Oid> {
    sorted(catalog.tables().map(|table| table.oid))
}

fn at(all: &[Oid], n: u64) -> Option<Oid> {
    if all.is_empty() { None } else { Some(all[n as usize % all.len()]) }
}

fn value(ty: PgType, n: i32) -> Datum {
    if ty == PgType::Int8 { Datum::Int8(n.into()) } else { int(n) }
}

fn row_of(table: &Table, a: i32, b: i32) -> Row {
    let of = |(i, column): (usize, &Column)| match (i, column.dropped) {
        (_, true) => Datum::Null,
        (0, _) => value(column.ty, a),
        (1, _) => value(column.ty, b),
        (i, _) => value(column.ty, a * 10 + i as i32),
    };
    table.columns.iter().enumerate().map(of).collect()
}

fn execute(view: &mut View<'_>, op: Op) -> Result<(), Interrupt> {
    let catalog = Arc::clone(view.catalog());
    let all = tables(&catalog);
    let relations = sorted(catalog.relations().map(Relation::oid));
    let plain = sorted(catalog.relations().filter(|r| !matches!(r, Relation::Index(..))).map(Relation::oid));
    let sequences = sorted(catalog.sequences().map(|s| s.oid));
    let table_at = |n| at(&all, n);
    match op {
        Op::CreateTable(name, key) => {
            create(&mut view.ddl()?, name, &[("a", PgType::Int4), ("b", PgType::Int4)], key)?;
        }
        Op::CreateView(name) => {
            view.ddl()?.create_view(view_named(name))?;
        }
        Op::CreateSequence(name) => {
            let name = name.into();
            view.ddl()?.create_sequence(Sequence { name, ..sequence_to(5000) })?;
        }
        Op::Rename(n, name) => {
            let Some(oid) = at(&relations, n) else { return Ok(()) };
            view.ddl()?.rename_relation(oid, name)?;
        }
        Op::Drop(n) => {
            let Some(oid) = at(&plain, n) else { return Ok(()) };
            view.ddl()?.drop_relations(&[oid], Behavior::Cascade)?;
        }
        Op::Index(n, column, unique) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = catalog.table(oid).expect("it is there");
            let other = 1 - column;
            if table.columns[column].dropped {
                return Ok(());
            }
            let has_other = !table.columns[other].dropped;
            let compare = |column, comparison, constant| {
                Some(RowTest::Compare { column, comparison, blanks: Blanks::Count, constant })
            };
            // Two thirds are partial, and some include a column.
            let predicate = match n / 7 % 3 {
                1 => compare(column, Comparison::Greater, int(3)),
                2 if has_other => compare(other, Comparison::LessOrEqual, Datum::Int8(3)),
                _ => None,
            };
            let included = if has_other && n % 5 == 0 { vec![other] } else { Vec::new() };
            let columns = vec![IndexColumn::ascending(column)];
            let predicate = predicate.map(Arc::new);
            let new = NewIndex { columns, unique, predicate, included, ..NewIndex::default() };
            view.ddl()?.create_index(oid, new)?;
        }
        Op::DropIndex(n) => {
            let indexes = sorted(
                catalog
                    .tables()
                    .flat_map(|t| t.indexes.iter().filter(|i| i.constraint.is_none()).map(|i| i.oid)),
            );
            let Some(oid) = at(&indexes, n) else { return Ok(()) };
            view.ddl()?.drop_index(oid, Behavior::Cascade)?;
        }
        Op::Unique(n, column) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            if catalog.table(oid).expect("it is there").columns[column].dropped {
                return Ok(());
            }
            let new = NewUnique { name: None, columns: vec![column], nulls_not_distinct: false };
            view.ddl()?.add_unique(oid, new)?;
        }
        Op::PrimaryKey(n) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            if catalog.table(oid).expect("it is there").columns[0].dropped {
                return Ok(());
            }
            let new = NewUnique { name: None, columns: vec![0], nulls_not_distinct: false };
            view.ddl()?.add_primary_key(oid, new)?;
        }
        Op::DropConstraint(n) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = catalog.table(oid).expect("it is there");
            let mut names: Vec<String> =
                table.indexes.iter().filter(|i| i.constraint.is_some()).map(|i| i.name.to_string()).collect();
            names.extend(table.foreign_keys.iter().map(|key| key.name.to_string()));
            if names.is_empty() {
                return Ok(());
            }
            let name = &names[n as usize % names.len()];
            view.ddl()?.drop_constraint(oid, name, Behavior::Cascade)?;
        }
        Op::AddColumn(n, missing) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = catalog.table(oid).expect("it is there");
            if table.columns.len() > 6 {
                return Ok(());
            }
            let mut column = Column::new(format!("x{}", table.columns.len()), PgType::Int4, TypeMod::NONE);
            column.missing = Some(Box::new(int(missing)));
            view.ddl()?.add_column(oid, column)?;
        }
        Op::DropColumn(n) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = catalog.table(oid).expect("it is there");
            let live: Vec<String> = table.live_columns().skip(1).map(|(_, c)| c.name.to_string()).collect();
            if live.is_empty() {
                return Ok(());
            }
            view.ddl()?.drop_column(oid, &live[n as usize % live.len()], Behavior::Cascade)?;
        }
        Op::Truncate(n, restart) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            view.ddl()?.truncate(&[oid], restart)?;
        }
        Op::Widen(n) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = catalog.table(oid).expect("it is there");
            if table.columns[1].dropped || !table.foreign_keys.is_empty() || !table.referenced_by.is_empty() {
                return Ok(());
            }
            let other = if table.columns[1].ty == PgType::Int4 { PgType::Int8 } else { PgType::Int4 };
            let number = |d: &Datum| match d {
                Datum::Int4(n) => *n,
                Datum::Int8(n) => *n as i32,
                _ => -1,
            };
            let change = |table: &mut Table| {
                table.columns[1].ty = other;
                Ok(())
            };
            view.ddl()?.rewrite_table(oid, change, &mut |mut row| {
                if !row[1].is_null() {
                    row[1] = value(other, number(&row[1]));
                }
                Ok(row)
            })?;
        }
        Op::Reference(n, m) => {
            let (Some(child), Some(parent)) = (table_at(n), table_at(m)) else { return Ok(()) };
            let key = NewForeignKey {
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
            if catalog.table(child).expect("it is there").columns[1].dropped {
                return Ok(());
            }
            view.ddl()?.add_foreign_key(child, key)?;
        }
        Op::Insert(n, from, count) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = view.table(oid)?;
            for id in from..from + count {
                view.insert(&table, &row_of(&table, id, id % 7))?;
            }
        }
        Op::Update(n, id) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = view.table(oid)?;
            let mut scan = view.scan(&table, Access::Table, KeyRange::all(), Direction::Forward);
            let mut keys = Vec::new();
            while let Some(row) = view.next(&mut scan)? {
                keys.push((row.key().to_vec(), row.to_row()?));
            }
            for (key, mut row) in keys.into_iter().skip(id as usize % 5).take(3) {
                for (i, column) in table.live_columns().skip(1) {
                    row[i] = value(column.ty, id + i as i32);
                }
                view.update(&table, &key, &row)?;
            }
        }
        Op::Delete(n, id) => {
            let Some(oid) = table_at(n) else { return Ok(()) };
            let table = view.table(oid)?;
            let mut scan = view.scan(&table, Access::Table, KeyRange::all(), Direction::Forward);
            let mut keys = Vec::new();
            while let Some(row) = view.next(&mut scan)? {
                keys.push(row.key().to_vec());
            }
            for key in keys.into_iter().skip(id as usize % 4).take(id as usize % 9) {
                view.delete(&table, &key)?;
            }
        }
        Op::NextVal(n, count) => {
            let Some(oid) = at(&sequences, n) else { return Ok(()) };
            for _ in 0..count {
                view.nextval(oid)?;
            }
        }
        Op::Restart(n, value) => {
            let Some(oid) = at(&sequences, n) else { return Ok(()) };
            view.ddl()?.restart_sequence(oid, value.max(1));
        }
        Op::Bound(n, max) => {
            let Some(oid) = at(&sequences, n) else { return Ok(()) };
            if view.sequence_value(oid)?.last_value > max {
                return Ok(());
            }
            let sequence = (**catalog.sequence(oid).expect("it is there")).clone();
            view.ddl()?.alter_sequence(Sequence { max, ..sequence });
        }
        Op::Comment(n) => {
            let Some(oid) = at(&relations, n) else { return Ok(()) };
            view.ddl()?.set_comment(oid, None, Some("said"));
        }
    }
    Ok(())
}

/// All of a tenant that a replay has to lead to: the catalog's records and each table's rows, by each of its indexes too.
#[derive(PartialEq, Debug)]
struct Whole {
    records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    rows: BTreeMap<Oid, Vec<Row>>,
    /// Sequences: the last value, and whether it was given out.
    sequences: BTreeMap<Oid, (i64, bool)>,
}

fn whole(fixture: &mut Fixture) -> Whole {
    let catalog = Arc::clone(fixture.tenant.catalog());
    let records = Catalog::default().changes_to(&catalog);
    let records = records.into_iter().map(|(key, value)| (key.to_bytes(), value)).collect();
    let rows = tables(&catalog).into_iter().map(|table| (table, fixture.rows(table))).collect();
    let mut sequences = BTreeMap::new();
    let mut txn = fixture.begin(1_000_001, Isolation::ReadCommitted);
    for sequence in catalog.sequences().map(|s| s.oid) {
        let value = fixture.run_reading(&mut txn, |view| view.sequence_value(sequence)).unwrap();
        sequences.insert(sequence, (value.last_value, value.is_called));
    }
    fixture.commit(txn).unwrap();
    Whole { records, rows, sequences }
}

/// A replay goes on at most 32 values behind, and within the bounds.
fn agree(mut found: Whole, expected: &Whole, catalog: &Catalog, seed: u64, step: u64) {
    for (oid, (value, called)) in &mut found.sequences {
        let (last, was_called) = expected.sequences[oid];
        let max = catalog.sequence(*oid).expect("it is there").max;
        let behind = *value - last;
        assert!(
            (0..=33).contains(&behind) && *value <= max.max(last),
            "seed {seed} step {step}: {value} for {last}"
        );
        (*value, *called) = (last, was_called);
    }
    assert_eq!(&found, expected, "seed {seed} step {step}");
}

fn run(seed: u64, mut fixture: Fixture) {
    let mut random = Random(seed * 2 + 1);
    let mut running: Option<Checkpoint> = None;
    for step in 0..120 {
        let on_disk = fixture.world.is_some();
        let isolation =
            if random.below(4) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let mut txn = fixture.begin(1, isolation);
        let mut savepoints = Vec::new();
        for _ in 0..1 + random.below(7) {
            match random.below(12) {
                0 => savepoints.push(txn.savepoint()),
                1 if !savepoints.is_empty() => {
                    let to = random.below(savepoints.len() as u64) as usize;
                    savepoints.truncate(to + 1);
                    fixture.tenant.rollback_to(&mut txn, &savepoints[to]);
                }
                2 => savepoints.clear(),
                3 | 4 if savepoints.is_empty() && txn.can_branch() => {
                    fixture.tenant.begin_branch(&mut txn).unwrap();
                    fixture.catch_up(&mut txn);
                    fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
                }
                5 if on_disk => drop(fixture.tenant.evict_all()),
                6 if on_disk => match running.take() {
                    None => running = Some(fixture.tenant.begin_checkpoint().unwrap()),
                    Some(mut checkpoint) => {
                        let env = fixture.world.as_ref().unwrap().env();
                        env::block_on(&env, checkpoint.run()).unwrap();
                        assert!(fixture.tenant.finish_checkpoint(checkpoint));
                    }
                },
                _ => {
                    let op = op(&mut random);
                    match fixture.run_reading(&mut txn, |view| execute(view, op)) {
                        Ok(()) => {}
                        Err(Interrupt::Error(error)) => {
                            let state = error.state();
                            let ours = matches!(state.as_str(), "XX000" | "XX001" | "XX002");
                            assert!(!ours, "seed {seed} step {step} {op:?}: {error}");
                        }
                        Err(other) => panic!("seed {seed} step {step} {op:?}: {other:?}"),
                    }
                }
            }
        }
        match random.below(5) {
            0 => fixture.tenant.abort(txn),
            _ => drop(fixture.commit(txn).unwrap()),
        }
        for _ in 0..random.below(20) {
            match fixture.tenant.reclaim(16) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Interrupt::Miss(page)) => {
                    let request = fixture.tenant.page_to_reclaim(page).unwrap().expect("it is on disk");
                    let env = fixture.world.as_ref().unwrap().env();
                    let loaded = env::block_on(&env, request.read()).unwrap();
                    fixture.tenant.page_loaded(loaded);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        if step % 6 != 5 {
            continue;
        }
        let expected = whole(&mut fixture);
        let catalog = Arc::clone(fixture.tenant.catalog());
        assert_eq!(fixture.tenant.check().defects, Vec::<String>::new(), "seed {seed} step {step}");
        if on_disk {
            let begun = match running.take() {
                Some(begun) => begun,
                None => fixture.tenant.begin_checkpoint().unwrap(),
            };
            let mut checkpoint = begun;
            let world = fixture.world.clone().unwrap();
            world.cut_power_after(1 + random.below(12));
            let _ = env::block_on(&world.env(), checkpoint.run());
            drop(checkpoint);
            world.power_cut(PowerCut::Random);
            fixture.reopen();
            agree(whole(&mut fixture), &expected, &catalog, seed, step);
            assert_eq!(
                fixture.tenant.check().defects,
                Vec::<String>::new(),
                "seed {seed} step {step} reopened"
            );
        } else {
            let mut copy = fixture.replayed();
            agree(whole(&mut copy), &expected, &catalog, seed, step);
            assert_eq!(copy.tenant.check().defects, Vec::<String>::new(), "seed {seed} step {step} replayed");
        }
    }
    if let Some(checkpoint) = running {
        fixture.tenant.finish_checkpoint(checkpoint);
    }
    assert!(fixture.tenant.lock_records().is_empty(), "seed {seed}");
}

#[test]
fn a_replay_of_random_definitions_leads_to_what_was() {
    (0..40).for_each(|seed| run(seed, Fixture::new()));
}

#[test]
fn a_file_of_random_definitions_is_what_was() {
    (100..130).for_each(|seed| run(seed, Fixture::on_disk(seed)));
}
