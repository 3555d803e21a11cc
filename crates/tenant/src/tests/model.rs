//! Random transactions of several sessions against a plain model, at each isolation level.
//!
//! The model keeps every committed state as a map. READ COMMITTED statements must see the newest one with their own
//! changes, snapshot transactions the one at their first statement; what a commit leaves must be the newest state with
//! the transaction's changes, and replaying the log must lead to the same. The same with a data file whose pages leave memory
//! between any two steps, and come back when they are missed, and with power cuts.

use std::collections::BTreeMap;

use env::sim::PowerCut;
use governor::{EvictionTime, VictimChoice};
use storage::Checkpoint;

use super::*;
use crate::catalog::IndexColumn;
use crate::ddl::NewIndex;

pub(super) type State = BTreeMap<i32, i32>;

/// A small generator: tests must not depend on the machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

struct Session {
    txn: Txn,
    /// What a snapshot transaction reads, without its own changes.
    snapshot: Option<State>,
    own: BTreeMap<i32, Option<i32>>,
    savepoints: Vec<(crate::Savepoint, BTreeMap<i32, Option<i32>>)>,
    waiting: Option<LockWait>,
}

pub(super) fn overlaid(state: &State, own: &BTreeMap<i32, Option<i32>>) -> State {
    let mut state = state.clone();
    for (key, value) in own {
        match value {
            Some(value) => state.insert(*key, *value),
            None => state.remove(key),
        };
    }
    state
}

pub(super) fn as_state(rows: Vec<Row>) -> State {
    let number = |d: &Datum| if let Datum::Int4(n) = d { *n } else { panic!("an integer") };
    rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
}

#[derive(Clone, Copy, Debug)]
enum Op {
    ReadAll,
    ReadRange(i32, i32),
    Insert(i32, i32),
    Update(i32, i32),
    Move(i32, i32),
    Delete(i32),
}

fn execute(view: &mut View<'_>, t: Oid, op: Op) -> Result<Option<State>, Interrupt> {
    let table = view.table(t)?;
    let by_value = table.indexes[1].oid;
    Ok(match op {
        Op::ReadAll => {
            let by_key = all_rows(view, t)?;
            let mut by_index = scan_rows(view, t, Some(by_value), KeyRange::all(), Direction::Backward)?;
            by_index.sort_by_key(|row| format!("{:?}", row[0]));
            let mut sorted = by_key.clone();
            sorted.sort_by_key(|row| format!("{:?}", row[0]));
            assert_eq!(by_index, sorted);
            Some(as_state(by_key))
        }
        Op::ReadRange(from, to) => {
            use std::ops::Bound::{Excluded, Included};
            let (from, to) = (int(from), int(to));
            let range =
                crate::row::keys::ColumnRange { equal: &[], from: Included(&from), to: Excluded(&to) };
            let range = range.key_range(&table.indexes[0].columns);
            Some(as_state(scan_rows(view, t, None, range, Direction::Backward)?))
        }
        Op::Insert(key, value) => {
            view.insert(&table, &[int(key), int(value)])?;
            None
        }
        Op::Update(key, value) => {
            update(view, t, &[int(key)], vec![int(key), int(value)])?;
            None
        }
        Op::Move(key, to) => {
            let found = {
                let key = primary_key(&table, &[int(key)]);
                view.get(&table, &key)?.map(|row| row.to_row()).transpose()?
            };
            if let Some(mut row) = found {
                row[0] = int(to);
                update(view, t, &[int(key)], row)?;
            }
            None
        }
        Op::Delete(key) => {
            delete(view, t, &[int(key)])?;
            None
        }
    })
}

/// Makes pages leave memory, or evictable, if the tenant has a file.
pub(super) fn disturb(fixture: &mut Fixture, running: &mut Option<Checkpoint>, random: &mut Random) {
    let Some(world) = &fixture.world else { return };
    match (random.below(8), running.take()) {
        (0, None) => *running = Some(fixture.tenant.begin_checkpoint().expect("the disk works")),
        (0, Some(mut checkpoint)) => {
            env::block_on(&world.env(), checkpoint.run()).expect("the disk works");
            assert!(fixture.tenant.finish_checkpoint(checkpoint));
        }
        (1..4, begun) => {
            *running = begun;
            fixture.tenant.evict_all();
        }
        (4, begun) => {
            *running = begun;
            let mut choice = VictimChoice::default();
            for _ in 0..4 {
                fixture.tenant.sweep(&mut choice, EvictionTime(random.below(1000) as u32));
            }
        }
        (5, None) => {
            if let Some(mut settling) = fixture.tenant.begin_settling() {
                env::block_on(&world.env(), settling.run());
                fixture.tenant.finish_settling(settling);
            }
        }
        (_, begun) => *running = begun,
    }
}

/// Cuts the power amid a checkpoint. What is in memory is lost, and comes back from the file's root and the log.
pub(super) fn crash(fixture: &mut Fixture, running: Option<Checkpoint>, random: &mut Random) {
    let world = fixture.world.clone().expect("only a tenant with a file comes back");
    let begun = running.unwrap_or_else(|| fixture.tenant.begin_checkpoint().expect("the disk works"));
    let mut checkpoint = begun;
    world.cut_power_after(1 + random.below(8));
    let _ = env::block_on(&world.env(), checkpoint.run());
    drop(checkpoint);
    world.power_cut(PowerCut::Random);
    fixture.reopen();
}

fn run(seed: u64, isolation: Isolation, mut fixture: Fixture) {
    let mut random = Random(seed * 2 + 1);
    let mut checkpoint = None;
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let columns = vec![IndexColumn::ascending(1)];
    let new =
        NewIndex { name: None, columns, unique: false, nulls_not_distinct: false, ..NewIndex::default() };
    fixture.ddl(|ddl| ddl.create_index(t, new)).unwrap();
    let mut committed = State::new();
    let mut sessions: BTreeMap<u32, Session> = BTreeMap::new();
    for step in 0..600 {
        disturb(&mut fixture, &mut checkpoint, &mut random);
        if fixture.world.is_some() && random.below(60) == 0 {
            sessions.clear();
            crash(&mut fixture, checkpoint.take(), &mut random);
            assert_eq!(as_state(fixture.rows(t)), committed, "seed {seed} step {step}");
            continue;
        }
        let id = random.below(4) as u32 + 1;
        let Some(session) = sessions.get_mut(&id) else {
            let txn = fixture.begin(id, isolation);
            let own = BTreeMap::new();
            sessions.insert(id, Session { txn, snapshot: None, own, savepoints: Vec::new(), waiting: None });
            continue;
        };
        if session.waiting.as_ref().is_some_and(|wait| !wait.is_over()) {
            if random.below(10) == 0 {
                let session = sessions.remove(&id).unwrap();
                fixture.tenant.abort(session.txn);
            }
            continue;
        }
        session.waiting = None;
        let choice = random.below(24);
        if choice >= 20 {
            // What is poured is taken back with all of the branch, to a savepoint from before it.
            if session.savepoints.iter().all(|(savepoint, _)| !savepoint.is_behind_branch()) {
                session.txn.keep_for_savepoints(!session.savepoints.is_empty());
                match fixture.tenant.begin_branch(&mut session.txn) {
                    Ok(()) => drop(fixture.tenant.pour(&mut session.txn, &mut fixture.log).unwrap()),
                    Err(Interrupt::Wait(wait)) => session.waiting = Some(wait),
                    Err(Interrupt::Error(error)) => {
                        assert_eq!(error.state().as_str(), "40P01");
                        let session = sessions.remove(&id).unwrap();
                        fixture.tenant.abort(session.txn);
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            fixture.reclaim();
            continue;
        }
        if choice < 3 {
            let session = sessions.remove(&id).unwrap();
            if choice == 0 {
                fixture.tenant.abort(session.txn);
            } else if fixture.commit(session.txn).is_ok() {
                committed = overlaid(&committed, &session.own);
            } else {
                assert_eq!(isolation, Isolation::Serializable);
            }
            assert_eq!(as_state(fixture.rows(t)), committed, "seed {seed} step {step}");
            continue;
        }
        if choice == 3 {
            session.savepoints.push((session.txn.savepoint(), session.own.clone()));
            continue;
        }
        if choice == 4 && !session.savepoints.is_empty() {
            let at = random.below(session.savepoints.len() as u64) as usize;
            session.savepoints.truncate(at + 1);
            let (savepoint, own) = session.savepoints[at].clone();
            fixture.tenant.rollback_to(&mut session.txn, &savepoint);
            session.own = own;
            continue;
        }
        let key = random.below(12) as i32;
        let op = match choice {
            5..8 => Op::ReadAll,
            8..10 => Op::ReadRange(key - 3, key + 3),
            10..13 => Op::Insert(key, step),
            13..16 => Op::Update(key, step),
            16..18 => Op::Move(key, random.below(12) as i32),
            _ => Op::Delete(key),
        };
        if isolation != Isolation::ReadCommitted && session.snapshot.is_none() {
            session.snapshot = Some(committed.clone());
        }
        let seen = overlaid(session.snapshot.as_ref().unwrap_or(&committed), &session.own);
        let newest = overlaid(&committed, &session.own);
        match fixture.run_reading(&mut session.txn, |view| execute(view, t, op)) {
            Ok(Some(rows)) => match op {
                Op::ReadRange(from, to) => {
                    let expected: State = seen.range(from..to.max(from)).map(|(k, v)| (*k, *v)).collect();
                    assert_eq!(rows, expected, "seed {seed} step {step} {op:?}");
                }
                _ => assert_eq!(rows, seen, "seed {seed} step {step} {op:?}"),
            },
            Ok(None) => match op {
                Op::Insert(key, value) => {
                    assert!(!newest.contains_key(&key), "seed {seed} step {step} {op:?}");
                    session.own.insert(key, Some(value));
                }
                Op::Update(key, value) if seen.contains_key(&key) => {
                    session.own.insert(key, Some(value));
                }
                Op::Move(key, to) if seen.contains_key(&key) => {
                    let value = seen[&key];
                    session.own.insert(key, None);
                    session.own.insert(to, Some(value));
                }
                Op::Delete(key) if seen.contains_key(&key) => {
                    session.own.insert(key, None);
                }
                _ => {}
            },
            Err(Interrupt::Wait(wait)) => session.waiting = Some(wait),
            Err(Interrupt::Miss(page)) => unreachable!("page {page} was read"),
            Err(Interrupt::Asked) => panic!("nobody asks for a statement's end"),
            Err(Interrupt::Error(error)) => {
                match error.state().as_str() {
                    "23505" => continue,
                    "40P01" => {}
                    "40001" => assert_ne!(isolation, Isolation::ReadCommitted, "seed {seed} step {step}"),
                    _ => panic!("seed {seed} step {step} {op:?}: {error}"),
                }
                let session = sessions.remove(&id).unwrap();
                fixture.tenant.abort(session.txn);
            }
        }
    }
    for session in sessions.into_values() {
        fixture.tenant.abort(session.txn);
    }
    if let Some(checkpoint) = checkpoint {
        fixture.tenant.finish_checkpoint(checkpoint);
    }
    assert!(!fixture.tenant.holds_pages(), "seed {seed}");
    assert!(fixture.tenant.lock_records().is_empty(), "seed {seed}");
    assert_eq!(as_state(fixture.rows(t)), committed);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new(), "seed {seed}");
    let mut copy = fixture.replayed();
    assert_eq!(as_state(copy.rows(t)), committed);
    assert_eq!(copy.tenant.check().defects, Vec::<String>::new(), "seed {seed}");
}

fn run_all(isolation: Isolation) {
    (0..60).for_each(|seed| run(seed, isolation, Fixture::new()));
    (60..80).for_each(|seed| run(seed, isolation, Fixture::on_disk(seed)));
}

#[test]
fn read_committed_agrees_with_the_model() {
    run_all(Isolation::ReadCommitted);
}

#[test]
fn repeatable_read_agrees_with_the_model() {
    run_all(Isolation::RepeatableRead);
}

#[test]
fn serializable_agrees_with_the_model() {
    run_all(Isolation::Serializable);
}
