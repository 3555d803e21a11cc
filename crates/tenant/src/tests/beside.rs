//! Indexes that are built beside those who change the rows of their tables.

use std::collections::{BTreeMap, BTreeSet};

use base::SqlState;
use storage::Checkpoint;
use types::FormatContext;

use super::model::{Random, State, as_state, crash, disturb, overlaid};
use super::*;
use crate::catalog::{Blanks, Comparison, IndexColumn, RowTest};
use crate::ddl::NewIndex;
use crate::locks::{TableLock, WaitPolicy};
use crate::watch::Watch;

fn index_on(column: usize, unique: bool) -> NewIndex {
    let columns = vec![IndexColumn::ascending(column)];
    NewIndex { name: None, columns, unique, nulls_not_distinct: false, ..NewIndex::default() }
}

fn row(id: i32, v: i32) -> Row {
    vec![int(id), int(v), text(&"x".repeat(60))]
}

/// A table of so many rows, every third id, each with a value of its own.
fn table_of(fixture: &mut Fixture, rows: i32) -> (Oid, State) {
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4), ("s", PgType::Text)], 1);
    let all: State = (0..rows).map(|n| (3 * n, n * 7919 % 36_007)).collect();
    let all_of: Vec<(i32, i32)> = all.iter().map(|(id, v)| (*id, *v)).collect();
    for part in all_of.chunks(500) {
        let insert = |view: &mut View<'_>| {
            let table = view.table(t)?;
            part.iter().try_for_each(|(id, v)| view.insert(&table, &row(*id, *v)).map(drop))
        };
        fixture.auto(insert).unwrap();
    }
    (t, all)
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Put(i32, i32),
    /// To another id.
    Move(i32, i32),
    Delete(i32),
}

fn make(view: &mut View<'_>, t: Oid, changes: &[Change]) -> Result<(), Interrupt> {
    view.lock_table(t, TableLock::RowExclusive, WaitPolicy::Wait)?;
    let table = view.table(t)?;
    for change in changes {
        let (Change::Put(id, _) | Change::Move(id, _) | Change::Delete(id)) = *change;
        let key = primary_key(&table, &[int(id)]);
        let found = view.get(&table, &key)?.map(|row| row.to_row()).transpose()?;
        match (*change, found) {
            (Change::Put(_, v), None) => drop(view.insert(&table, &row(id, v))?),
            (Change::Put(_, v), Some(_)) => drop(view.update(&table, &key, &row(id, v))?),
            (Change::Move(_, to), Some(mut found)) => {
                found[0] = int(to);
                view.update(&table, &key, &found)?;
            }
            (Change::Delete(_), Some(_)) => assert!(view.delete(&table, &key)?),
            (Change::Move(..) | Change::Delete(_), None) => panic!("{change:?} of no row"),
        }
    }
    Ok(())
}

/// A change of the table that commits by itself; false if somebody is in its way.
fn commit_change(fixture: &mut Fixture, t: Oid, changes: &[Change]) -> bool {
    let mut txn = fixture.begin(2, Isolation::ReadCommitted);
    match fixture.run_reading(&mut txn, |view| make(view, t, changes)) {
        Ok(()) => fixture.commit(txn).map(|_| true).unwrap(),
        Err(Interrupt::Wait(_)) => {
            fixture.tenant.cancel_wait(&mut txn);
            fixture.tenant.abort(txn);
            false
        }
        Err(other) => panic!("{changes:?}: {other:?}"),
    }
}

/// Builds an index as a session does, `between` each two runs of the statement, which ends in the way of nobody; what came of it, and how often it
/// ran.
fn build(
    fixture: &mut Fixture,
    t: Oid,
    new: &NewIndex,
    between: &mut dyn FnMut(&mut Fixture),
) -> (Result<Oid, SqlError>, u32) {
    let format = FormatContext::default();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    for runs in 1.. {
        assert!(runs < 100_000, "it gets nowhere");
        let mark = txn.mark();
        let result = {
            let mut view = fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &|_| false);
            let made = view.ddl().and_then(|mut ddl| ddl.create_index_beside(t, new.clone()));
            made.and_then(|index| view.finish_statement().map(|()| index))
        };
        fixture.end_run(&mut txn, &mark, &result);
        match result {
            Ok(index) => return (fixture.commit(txn).map(|_| index), runs),
            Err(Interrupt::Miss(page)) => fixture.read_page(&txn, page),
            Err(Interrupt::Asked | Interrupt::Wait(_)) => {}
            Err(Interrupt::Error(error)) => {
                fixture.tenant.abort(txn);
                return (Err(error), runs);
            }
        }
        between(fixture);
    }
    unreachable!("it ends or gets nowhere")
}

fn reclaim_all(fixture: &mut Fixture) {
    loop {
        match fixture.tenant.reclaim(64) {
            Ok(true) => {}
            Ok(false) => return,
            Err(Interrupt::Miss(page)) => {
                let request = fixture.tenant.page_to_reclaim(page).unwrap().expect("it is on disk");
                fixture.read(request);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Whether everything agrees with everything, and nothing is left of builds that came to nothing.
fn check(fixture: &mut Fixture, t: Oid, committed: &State, what: &str) {
    assert_eq!(as_state(fixture.rows(t)), *committed, "{what}");
    reclaim_all(fixture);
    let report = fixture.tenant.check();
    assert_eq!((report.defects, report.orphans), (Vec::new(), 0), "{what}");
    assert!(fixture.tenant.watches.is_empty(), "{what}");
}

/// What a transaction has changed: by id, the value that a row has or that it has none any more.
type Own = BTreeMap<i32, Option<i32>>;

/// What others do beside a build: some by themselves, one in a transaction that stays open for some turns, and one on a branch.
struct Others {
    t: Oid,
    random: Random,
    committed: State,
    open: Option<(Txn, Own)>,
    long: Option<(Txn, Own)>,
    /// Changes that were poured.
    poured: u32,
    checkpoint: Option<Checkpoint>,
    /// Whether rows may come to have values that others have.
    makes_duplicates: bool,
    /// Whether they did, at any moment.
    had_duplicates: bool,
    made: u32,
}

impl Others {
    fn take_turn(&mut self, fixture: &mut Fixture) {
        disturb(fixture, &mut self.checkpoint, &mut self.random);
        for _ in 0..self.random.below(5) {
            self.change(fixture);
        }
        self.go_on_with_long(fixture);
        match self.random.below(6) {
            0 => self.end_open(fixture),
            1 if self.open.is_none() => {
                let changes = self.draw(&Own::new());
                let mut txn = fixture.begin(3, Isolation::ReadCommitted);
                match fixture.run_reading(&mut txn, |view| make(view, self.t, &changes)) {
                    Ok(()) => {
                        let mut own = Own::new();
                        note(&mut own, &self.committed, &changes);
                        self.open = Some((txn, own));
                    }
                    Err(Interrupt::Wait(_)) => {
                        fixture.tenant.cancel_wait(&mut txn);
                        fixture.tenant.abort(txn);
                    }
                    Err(other) => panic!("{changes:?}: {other:?}"),
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, fixture: &mut Fixture) {
        let changes = self.draw(&Own::new());
        if commit_change(fixture, self.t, &changes) {
            let mut own = Own::new();
            note(&mut own, &self.committed, &changes);
            self.commit(&own);
        }
    }

    fn commit(&mut self, own: &Own) {
        self.committed = overlaid(&self.committed, own);
        self.made += 1;
        let values: BTreeSet<i32> = self.committed.values().copied().collect();
        self.had_duplicates |= values.len() < self.committed.len();
    }

    /// A step of the transaction that has a branch, or waits for one.
    fn go_on_with_long(&mut self, fixture: &mut Fixture) {
        let Some((mut txn, mut own)) = self.long.take() else {
            if self.random.below(10) == 0 {
                self.begin_long(fixture);
            }
            return;
        };
        if !txn.has_branch() {
            match fixture.tenant.begin_branch(&mut txn) {
                Ok(()) | Err(Interrupt::Wait(_)) => self.long = Some((txn, own)),
                // The build waits for it.
                Err(Interrupt::Error(_)) => fixture.tenant.abort(txn),
                Err(other) => panic!("{other:?}"),
            }
            return;
        }
        if self.random.below(5) == 0 {
            return self.end(fixture, txn, &own);
        }
        let changes = self.draw(&own);
        match fixture.run_reading(&mut txn, |view| make(view, self.t, &changes)) {
            Ok(()) => {
                note(&mut own, &self.committed, &changes);
                fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
                self.poured += 1;
            }
            Err(Interrupt::Wait(_)) => fixture.tenant.cancel_wait(&mut txn),
            Err(other) => panic!("{changes:?}: {other:?}"),
        }
        self.long = Some((txn, own));
    }

    /// Sometimes it has the table locked before it waits for the branch.
    fn begin_long(&mut self, fixture: &mut Fixture) {
        let mut txn = fixture.begin(4, Isolation::ReadCommitted);
        if self.random.below(2) == 0 {
            let lock =
                |view: &mut View<'_>| view.lock_table(self.t, TableLock::RowExclusive, WaitPolicy::Wait);
            if fixture.run(&mut txn, lock).is_err() {
                fixture.tenant.cancel_wait(&mut txn);
            }
        }
        self.long = Some((txn, Own::new()));
    }

    fn end_long(&mut self, fixture: &mut Fixture) {
        if let Some((txn, own)) = self.long.take() {
            self.end(fixture, txn, &own);
        }
    }

    fn end_open(&mut self, fixture: &mut Fixture) {
        if let Some((txn, own)) = self.open.take() {
            self.end(fixture, txn, &own);
        }
    }

    fn end(&mut self, fixture: &mut Fixture, txn: Txn, own: &Own) {
        match self.random.below(3) {
            0 => fixture.tenant.abort(txn),
            _ => {
                fixture.commit(txn).unwrap();
                self.commit(own);
            }
        }
    }

    /// Changes of rows that are changed neither in the transactions under way nor in `more`.
    fn draw(&mut self, more: &Own) -> Vec<Change> {
        let mut own = more.clone();
        let under_way = self.open.iter().chain(&self.long);
        under_way.for_each(|(_, of_one)| own.extend(of_one));
        let all = overlaid(&self.committed, &own);
        let ids: Vec<i32> = self.committed.keys().copied().filter(|id| !own.contains_key(id)).collect();
        let id = ids[self.random.below(ids.len() as u64) as usize];
        let v = self.committed[&id];
        let new_id = loop {
            let id = self.random.below(12_000) as i32 - 2000;
            if !all.contains_key(&id) && !self.committed.contains_key(&id) {
                break id;
            }
        };
        let taken: BTreeSet<i32> = all.values().chain(self.committed.values()).copied().collect();
        let new_v = loop {
            let v = self.random.below(40_000) as i32;
            if self.makes_duplicates || !taken.contains(&v) {
                break v;
            }
        };
        match self.random.below(8) {
            0 | 1 => vec![Change::Put(new_id, new_v)],
            2 | 3 => vec![Change::Put(id, new_v)],
            4 => vec![Change::Put(id, v)],
            5 => vec![Change::Move(id, new_id)],
            6 => vec![Change::Delete(id)],
            // Another row, most often in another part of the table, comes to have its value.
            _ => vec![Change::Put(id, new_v), Change::Put(new_id, v)],
        }
    }
}

fn note(own: &mut Own, committed: &State, changes: &[Change]) {
    for change in changes {
        let (id, becomes) = match *change {
            Change::Put(id, v) => (id, Some(v)),
            Change::Delete(id) => (id, None),
            Change::Move(id, to) => {
                own.insert(to, Some(committed[&id]));
                (id, None)
            }
        };
        own.insert(id, becomes);
    }
}

/// How many changes were poured.
fn live(seed: u64, mut fixture: Fixture) -> u32 {
    let (t, committed) = table_of(&mut fixture, 1500);
    let unique = seed % 2 == 1;
    let mut others = Others {
        t,
        random: Random(seed * 2 + 1),
        committed,
        open: None,
        long: None,
        poured: 0,
        checkpoint: None,
        makes_duplicates: unique && seed % 8 == 7,
        had_duplicates: false,
        made: 0,
    };
    let cuts = if fixture.world.is_some() { seed % 3 } else { 0 };
    for cut in 0..cuts {
        // Nobody knows where the next one would end.
        let turns = 1 + others.random.below(60);
        let format = FormatContext::default();
        let mut txn = fixture.begin(1, Isolation::ReadCommitted);
        for _ in 0..turns {
            let mark = txn.mark();
            let result = {
                let mut view =
                    fixture.tenant.view(&mut txn, &mut fixture.log).in_session(&format, &|_| false);
                view.ddl().and_then(|mut ddl| ddl.create_index_beside(t, index_on(1, false)))
            };
            fixture.end_run(&mut txn, &mark, &result);
            match result {
                Err(Interrupt::Miss(page)) => fixture.read_page(&txn, page),
                Err(Interrupt::Asked | Interrupt::Wait(_)) => {}
                Ok(_) => break,
                Err(Interrupt::Error(error)) => panic!("seed {seed}: {error}"),
            }
            others.take_turn(&mut fixture);
        }
        (others.open, others.long) = (None, None);
        crash(&mut fixture, others.checkpoint.take(), &mut others.random);
        check(&mut fixture, t, &others.committed, &format!("seed {seed}, cut {cut}"));
        assert_eq!(fixture.table(t).indexes.len(), 1, "seed {seed}");
    }
    // Of about half of the rows, which come in and go out.
    let predicate = (seed % 3 == 0).then(|| {
        Arc::new(RowTest::Compare {
            column: 1,
            comparison: Comparison::Less,
            blanks: Blanks::Count,
            constant: int(20_000),
        })
    });
    let between = &mut |fixture: &mut Fixture| others.take_turn(fixture);
    let (made, runs) = build(&mut fixture, t, &NewIndex { predicate, ..index_on(1, unique) }, between);
    others.end_open(&mut fixture);
    others.end_long(&mut fixture);
    if let Some(checkpoint) = others.checkpoint.take() {
        fixture.tenant.finish_checkpoint(checkpoint);
    }
    assert!(runs > 5 && others.made > 5, "seed {seed}: {runs} runs beside {} changes", others.made);
    match made {
        Ok(_) => assert_eq!(fixture.table(t).indexes.len(), 2, "seed {seed}"),
        Err(error) => {
            assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION, "seed {seed}: {error}");
            assert!(others.had_duplicates, "seed {seed}: {error}");
        }
    }
    let what = format!("seed {seed}");
    check(&mut fixture, t, &others.committed, &what);
    if fixture.world.is_some() {
        fixture.reopen();
        check(&mut fixture, t, &others.committed, &what);
    } else {
        let mut copy = fixture.replayed();
        check(&mut copy, t, &others.committed, &what);
    }
    others.poured
}

#[test]
fn an_index_built_beside_writers_agrees_with_its_table() {
    let in_memory: u32 = (0..16).map(|seed| live(seed, Fixture::new())).sum();
    let on_disk: u32 = (16..32).map(|seed| live(seed, Fixture::on_disk(seed))).sum();
    assert!(in_memory > 16 && on_disk > 16, "{in_memory} and {on_disk} changes were poured");
}

#[test]
fn a_key_that_rows_have_in_turn_is_no_duplicate_and_one_that_they_have_at_once_is() {
    for is_at_once in [false, true] {
        let mut fixture = Fixture::new();
        let (t, mut committed) = table_of(&mut fixture, 1500);
        // From a row behind the build to one ahead of it, each two turns.
        let mut turn = 0;
        let (made, _) = build(&mut fixture, t, &index_on(1, true), &mut |fixture| {
            turn += 1;
            let (behind, ahead) = (3 * turn, 3 * (1499 - turn) + 1);
            let v = committed[&behind];
            let new_v = if is_at_once { v } else { 50_000 + turn };
            if commit_change(fixture, t, &[Change::Put(behind, new_v), Change::Put(ahead, v)]) {
                committed.extend([(behind, new_v), (ahead, v)]);
            }
        });
        match made {
            Ok(_) => assert!(!is_at_once),
            Err(error) => {
                assert!(is_at_once, "{error}");
                assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
                assert!(error.to_string().contains("could not create unique index"), "{error}");
            }
        }
        assert!(turn > 4, "{turn} turns");
        check(&mut fixture, t, &committed, &format!("at once: {is_at_once}"));
    }
}

#[test]
fn who_has_changed_the_table_is_waited_for_at_the_end_and_others_go_on() {
    let mut fixture = Fixture::new();
    let (t, mut committed) = table_of(&mut fixture, 1500);
    let mut writes = fixture.begin(3, Isolation::ReadCommitted);
    fixture.run(&mut writes, |view| make(view, t, &[Change::Put(0, -1), Change::Put(1, -2)])).unwrap();
    committed.extend([(0, -1), (1, -2)]);
    let (mut writes, mut turns, mut waited, mut between) = (Some(writes), 0, 0, 0);
    let (made, _) = build(&mut fixture, t, &index_on(1, true), &mut |fixture| {
        turns += 1;
        let id = 3000 + turns;
        if commit_change(fixture, t, &[Change::Put(id, -id)]) {
            committed.insert(id, -id);
            between += i32::from(waited > 0);
            return;
        }
        // Each time the time is up at once. At last it waits as everybody does.
        waited += 1;
        if waited == 10 {
            fixture.commit(writes.take().expect("it has not ended")).unwrap();
        }
    });
    made.unwrap();
    assert!(turns - waited > 8 && waited >= 10 && between >= 4, "{waited} of {turns}, {between} between");
    check(&mut fixture, t, &committed, "");
}

#[test]
fn a_build_that_others_outrun_has_them_wait() {
    let mut fixture = Fixture::new();
    let (t, mut committed) = table_of(&mut fixture, 3000);
    let (mut turns, mut waited) = (0, 0);
    let (made, runs) = build(&mut fixture, t, &index_on(1, false), &mut |fixture| {
        turns += 1;
        if turns % 4 == 0 {
            let changes: Vec<Change> = (0..2900).map(|n| Change::Put(3 * n, turns)).collect();
            match commit_change(fixture, t, &changes) {
                true => committed.extend((0..2900).map(|n| (3 * n, turns))),
                false => waited += 1,
            }
        }
    });
    made.unwrap();
    assert!(waited > 0, "{waited} of {runs}");
    check(&mut fixture, t, &committed, "");
    // All rows deleted meanwhile leave an empty index.
    let (made, _) = build(&mut fixture, t, &index_on(1, false), &mut |fixture| {
        let ids: Vec<i32> = committed.keys().copied().take(700).collect();
        let changes: Vec<Change> = ids.iter().map(|id| Change::Delete(*id)).collect();
        if !ids.is_empty() && commit_change(fixture, t, &changes) {
            committed.retain(|id, _| !ids.contains(id));
        }
    });
    made.unwrap();
    check(&mut fixture, t, &committed, "");
}

#[test]
fn notes_of_long_keys_are_bounded_by_what_they_take() {
    let mut fixture = Fixture::new();
    let (t, mut committed) = table_of(&mut fixture, 1500);
    let (mut turn, mut lost) = (0, false);
    let (made, _) = build(&mut fixture, t, &index_on(2, false), &mut |fixture| {
        turn += 1;
        if turn != 4 {
            return;
        }
        let long = |view: &mut View<'_>| {
            let table = view.table(t)?;
            (0..500).try_for_each(|n| {
                let key = primary_key(&table, &[int(3 * n)]);
                view.update(&table, &key, &[int(3 * n), int(-n), text(&"y".repeat(1500))]).map(drop)
            })
        };
        fixture.auto(long).unwrap();
        committed.extend((0..500).map(|n| (3 * n, -n)));
        lost = fixture.tenant.watches.iter().any(Watch::is_lost);
    });
    made.unwrap();
    assert!(lost, "500 are few, and 750 KB much");
    check(&mut fixture, t, &committed, "");
}

#[test]
fn a_row_that_no_index_takes_ends_the_build() {
    let mut fixture = Fixture::new();
    let (t, committed) = table_of(&mut fixture, 1500);
    let mut turn = 0;
    let (made, _) = build(&mut fixture, t, &index_on(2, false), &mut |fixture| {
        turn += 1;
        if turn == 2 {
            let long = |view: &mut View<'_>| {
                let table = view.table(t)?;
                view.insert(&table, &[int(1), int(-1), text(&"y".repeat(5000))]).map(drop)
            };
            fixture.auto(long).unwrap();
        }
    });
    assert_eq!(made.unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    let mut now = committed;
    now.insert(1, -1);
    check(&mut fixture, t, &now, "");
}

#[test]
fn what_a_branch_pours_beside_a_build_is_in_the_index() {
    let mut fixture = Fixture::new();
    let (t, mut committed) = table_of(&mut fixture, 1500);
    let mut long = fixture.begin(3, Isolation::ReadCommitted);
    let locks = |view: &mut View<'_>| view.lock_table(t, TableLock::RowExclusive, WaitPolicy::Wait);
    fixture.run(&mut long, locks).unwrap();
    let (mut long, mut turns) = (Some(long), 0);
    let (made, _) = build(&mut fixture, t, &index_on(1, true), &mut |fixture| {
        turns += 1;
        // Once the build waits for its table's lock, it gives way.
        let Some(txn) = &mut long else { return };
        match fixture.tenant.begin_branch(txn) {
            Ok(()) => {}
            Err(Interrupt::Wait(_)) => return fixture.tenant.cancel_wait(txn),
            Err(other) => panic!("{other:?}"),
        }
        fixture.run(txn, |view| make(view, t, &[Change::Put(0, -1), Change::Put(1, -2)])).unwrap();
        fixture.tenant.pour(txn, &mut fixture.log).unwrap();
        fixture.catch_up(txn);
        committed.extend([(0, -1), (1, -2)]);
        fixture.commit(long.take().expect("looked at above")).unwrap();
    });
    made.unwrap();
    assert!(long.is_none() && turns > 5);
    check(&mut fixture, t, &committed, "");
}

#[test]
fn a_build_makes_way_for_a_long_change_and_goes_on_behind_it() {
    for is_committed in [true, false] {
        let mut fixture = Fixture::new();
        let (t, mut committed) = table_of(&mut fixture, 1500);
        let (mut long, mut turns, mut begun) = (None, 0, 0);
        let (made, runs) = build(&mut fixture, t, &index_on(1, true), &mut |fixture| {
            turns += 1;
            if turns == 3 {
                long = Some(fixture.begin(3, Isolation::ReadCommitted));
            }
            // A row behind the build, before and amid and after the long change.
            assert!(commit_change(fixture, t, &[Change::Put(turns, -turns)]));
            committed.insert(turns, -turns);
            let Some(txn) = &mut long else { return };
            if !txn.has_branch() {
                match fixture.tenant.begin_branch(txn) {
                    Ok(()) => begun = turns,
                    Err(Interrupt::Wait(_)) => return,
                    Err(other) => panic!("{other:?}"),
                }
            }
            let at = turns - begun;
            let v = -1000 - at;
            // A row that others changed before, one of nobody, and one that it changed before.
            let changes =
                [Change::Put(at + 1, v), Change::Put(300 + 3 * at, v - 1000), Change::Put(1, v - 2000)];
            fixture.run(txn, |view| make(view, t, &changes)).unwrap();
            fixture.tenant.pour(txn, &mut fixture.log).unwrap();
            if is_committed {
                committed.extend([(at + 1, v), (300 + 3 * at, v - 1000), (1, v - 2000)]);
            }
            if at == 3 {
                let txn = long.take().expect("looked at above");
                if is_committed {
                    fixture.commit(txn).unwrap();
                } else {
                    fixture.tenant.abort(txn);
                }
            }
        });
        made.unwrap();
        assert!((4..12).contains(&begun) && long.is_none(), "begun behind turn {begun}");
        assert!(runs > begun as u32 + 8, "{runs} runs");
        check(&mut fixture, t, &committed, &format!("committed: {is_committed}"));
    }
}
