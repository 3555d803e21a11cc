//! The table against a model, and its bounds.

use std::collections::BTreeMap;

use base::Nanos;
use proptest::prelude::*;
use sql::session::{StatementTook, Taken};

use super::*;

fn took(time: u64) -> StatementTook {
    StatementTook {
        taken: Taken { cpu: Nanos(time / 2), ios: 1 },
        rows: 2,
        time: Nanos(time),
        failed: false,
        at: 7,
    }
}

/// As a session does that runs a statement.
fn run(table: &Arc<StatementTable>, text: &str, time: u64) {
    add(table, &table.counts(text), time);
}

fn add(table: &Arc<StatementTable>, counts: &Arc<StatementCounts>, time: u64) -> Arc<StatementCounts> {
    let counts = if counts.is_dropped() { table.counts_again(counts) } else { counts.clone() };
    counts.add(&took(time));
    counts
}

fn sum(shown: &StatementsShown) -> StatementFigures {
    let mut sum = shown.others;
    shown.texts.iter().for_each(|shown| sum += shown.figures);
    sum
}

#[test]
fn of_a_hundred_thousand_texts_few_are_kept_and_all_are_counted() {
    let room = Arc::new(StatementRoom::default());
    let table = StatementTable::new(&room);
    run(&table, "the nightly report", Nanos::from_secs(60).0);
    for n in 0..100_000_u64 {
        run(&table, &format!("SELECT c{n} FROM t"), 50_000);
        if n % 10 == 0 {
            run(&table, "SELECT often", 50_000);
        }
        assert!(table.len.load(Ordering::Relaxed) <= TENANT_MAX);
    }
    let shown = table.show();
    assert!(shown.texts.len() <= TENANT_MAX && shown.texts.len() > TENANT_MAX / 2);
    assert_eq!(sum(&shown).calls, 110_001);
    assert_eq!(shown.dropped, 100_002 - shown.texts.len() as u64, "each was dropped once at most");
    let of =
        |text: &str| shown.texts.iter().find(|shown| shown.text() == text).map(|shown| shown.figures.calls);
    assert_eq!(of("SELECT often"), Some(10_000), "what is used all the time stays");
    assert_eq!(room.taken.load(Ordering::Relaxed), shown.texts.len());
    drop(table);
    assert_eq!(room.taken.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_heavy_and_seldom_stays_for_thousands_of_light_ones() {
    let table = StatementTable::new(&Arc::default());
    run(&table, "heavy", Nanos::from_secs(10).0);
    for n in 0..5_000 {
        run(&table, &format!("SELECT c{n}"), 50_000);
    }
    assert!(table.show().texts.iter().any(|shown| shown.text() == "heavy"));
}

#[test]
fn the_largest_makes_room_where_the_servers_is_taken() {
    let room = Arc::new(StatementRoom::new(100, 80));
    let tables: Vec<_> = (0..3).map(|_| StatementTable::new(&room)).collect();
    let len = |at: usize| tables[at].show().texts.len();
    for n in 0..70 {
        run(&tables[0], &format!("SELECT {n}"), 1000 + n);
    }
    for n in 0..30 {
        run(&tables[1], &format!("SELECT {n}"), 1);
    }
    assert_eq!((len(0), len(1)), (70, 30));
    run(&tables[2], "SELECT", 1);
    assert_eq!((len(0), len(1), len(2)), (70 - 18, 30, 1), "a quarter of the largest");
    let shown = tables[0].show();
    assert!(shown.texts.iter().all(|shown| shown.figures.time.0 >= 1018), "those that were used least");
    assert_eq!((shown.dropped, sum(&shown).calls), (18, 70));
}

#[test]
fn one_look_at_the_tables_of_many_tenants_makes_room_for_many_texts() {
    let room = Arc::new(StatementRoom::new(5_120, 80));
    let tables: Vec<_> = (0..1_024).map(|_| StatementTable::new(&room)).collect();
    for table in &tables {
        (0..5).for_each(|n| run(table, &format!("SELECT {n}"), 1 + n));
    }
    let taken = || room.taken.load(Ordering::Relaxed);
    assert_eq!(taken(), 5_120);
    run(&tables[0], "SELECT", 1);
    assert_eq!(taken(), 5_120 - 20 + 1, "a 256th, and the text that wanted room");
    let shown = tables.iter().map(|table| table.show());
    let kept: Vec<(usize, u64)> = shown.map(|shown| (shown.texts.len(), sum(&shown).calls)).collect();
    assert!(kept.iter().all(|(texts, calls)| *texts >= 3 && *calls >= 5), "a quarter of nobody's goes twice");
}

#[test]
fn a_reset_begins_anew_and_prepared_statements_go_on() {
    let table = StatementTable::new(&Arc::default());
    let prepared = table.counts("SELECT $1");
    add(&table, &prepared, 10);
    table.reset(99);
    assert_eq!((sum(&table.show()).calls, table.show().since), (0, Some(99)));
    let again = add(&table, &prepared, 20);
    assert!(Arc::ptr_eq(&again, &prepared), "without another allocation");
    let shown = table.show();
    assert_eq!((shown.texts.len(), sum(&shown).calls, sum(&shown).time), (1, 1, Nanos(20)));
}

#[test]
fn a_tenant_without_statements_has_nothing() {
    let room = Arc::new(StatementRoom::default());
    let table = StatementTable::new(&room);
    assert!(table.lock().is_none() && lock(&room.tables).is_empty());
    assert_eq!(table.show().texts.len(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    /// Of a table, a text: a simple Query.
    Run(usize, u8, u64),
    /// Of a table, a session's prepared statement.
    Prepared(usize, usize, u64),
    Prepare(usize, u8),
    Reset(usize),
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_usize, 0..24_u8, 1..1_000_000_u64).prop_map(|(t, text, time)| Step::Run(t, text, time)),
        6 => (0..2_usize, 0..6_usize, 1..1_000_000_u64).prop_map(|(t, at, time)| Step::Prepared(t, at, time)),
        3 => (0..2_usize, 0..24_u8).prop_map(|(t, text)| Step::Prepare(t, text)),
        1 => (0..2_usize).prop_map(Step::Reset),
        1 => (0..2_usize).prop_map(Step::Read),
    ]
}

proptest! {
    #[test]
    fn sums_are_what_ran_whatever_is_dropped(steps in prop::collection::vec(step(), 0..300)) {
        let room = Arc::new(StatementRoom::new(14, 10));
        let tables: Vec<_> = (0..2).map(|_| StatementTable::new(&room)).collect();
        let mut prepared: [Vec<Arc<StatementCounts>>; 2] = Default::default();
        // By table: calls and time of each text since its reset.
        let mut model: [BTreeMap<String, (u64, u64)>; 2] = Default::default();
        // Kept by a reader for a while.
        let mut read = None;
        for step in steps {
            let mut ran = |table: usize, text: &str, time: u64| {
                let (calls, sum) = model[table].entry(text.to_owned()).or_default();
                (*calls, *sum) = (*calls + 1, *sum + time);
            };
            match step {
                Step::Run(at, text, time) => {
                    run(&tables[at], &text.to_string(), time);
                    ran(at, &text.to_string(), time);
                }
                Step::Prepare(at, text) => {
                    prepared[at].insert(0, tables[at].counts(&text.to_string()));
                    prepared[at].truncate(6);
                }
                Step::Prepared(at, which, time) => {
                    if let Some(counts) = prepared[at].get(which).cloned() {
                        add(&tables[at], &counts, time);
                        ran(at, counts.text(), time);
                    }
                }
                Step::Reset(at) => {
                    tables[at].reset(1);
                    model[at].clear();
                }
                Step::Read(at) => read = Some(tables[at].show()),
            }
            let mut in_all = 0;
            for (table, model) in tables.iter().zip(&model) {
                let shown = table.show();
                let (calls, time) = model.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                let figures = sum(&shown);
                prop_assert_eq!((figures.calls, figures.time), (calls, Nanos(time)));
                prop_assert_eq!((figures.rows, figures.taken.ios), (2 * calls, calls));
                for one in &shown.texts {
                    let (calls, time) = model[one.text()];
                    prop_assert!(one.figures.calls <= calls && one.figures.time.0 <= time);
                    if shown.dropped == 0 {
                        prop_assert_eq!((one.figures.calls, one.figures.time.0), (calls, time));
                    }
                }
                let len = table.len.load(Ordering::Relaxed);
                prop_assert!(len <= 10 && shown.texts.len() <= len);
                in_all += len;
            }
            prop_assert!(in_all <= 14);
            prop_assert_eq!(room.taken.load(Ordering::Relaxed), in_all);
        }
        drop(read);
    }
}
