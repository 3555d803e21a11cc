//! Transactions whose changes go to a branch: what they and others see, what is left of them, what they cost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::limits::PAGE_SIZE;

use super::*;
use crate::CaughtUp;

fn many(fixture: &mut Fixture, rows: i32) -> Oid {
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Int4), ("s", PgType::Text)], 1);
    let filler = "x".repeat(300);
    for from in (0..rows).step_by(500) {
        fixture
            .auto(|view| {
                let table = view.table(t)?;
                for id in from..(from + 500).min(rows) {
                    view.insert(&table, &[int(id), int(0), text(&filler)])?;
                }
                Ok(())
            })
            .unwrap();
    }
    t
}

fn values(rows: &[Row]) -> Vec<i32> {
    rows.iter().map(|row| if let Datum::Int4(n) = row[1] { n } else { panic!("an integer") }).collect()
}

/// Sets `v` of every row of the statement's snapshot, some at a time; `between` runs between two parts.
fn update_all(
    fixture: &mut Fixture,
    txn: &mut Txn,
    t: Oid,
    value: i32,
    between: &mut dyn FnMut(&mut Fixture),
) {
    fixture.tenant.begin_branch(txn).unwrap();
    fixture.catch_up(txn);
    fixture.tenant.pour(txn, &mut fixture.log).unwrap();
    fixture.tenant.begin_statement(txn);
    let mut range = KeyRange::all();
    loop {
        let next = fixture
            .run_reading(txn, |view| {
                let table = view.table(t)?;
                let mut scan = view.scan(&table, Access::Table, range.clone(), Direction::Forward);
                let mut found = Vec::new();
                while found.len() < 200 {
                    let Some(row) = view.next(&mut scan)? else { break };
                    found.push((row.key().to_vec(), row.to_row()?));
                }
                for (key, row) in &found {
                    let mut row = row.clone();
                    row[1] = int(value);
                    view.update(&table, key, &row)?;
                }
                Ok(found.last().map(|(key, _)| key.clone()))
            })
            .unwrap();
        fixture.tenant.pour(txn, &mut fixture.log).unwrap();
        let Some(last) = next else { break };
        range.from = last.into();
        range.from.push(0);
        between(fixture);
    }
    fixture.tenant.end_statement(txn);
}

#[test]
fn others_read_and_write_while_a_branch_is_filled_and_it_has_their_changes() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 3000);
    let other = fixture.create("other", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let mut passes = 0;
    update_all(&mut fixture, &mut txn, t, 7, &mut |fixture| {
        passes += 1;
        assert!(values(&fixture.rows(t)[..3000]).iter().all(|v| *v == 0), "nobody sees a part of it");
        fixture.insert(other, vec![int(passes), int(passes)]).unwrap();
        fixture.insert(t, vec![int(10_000 + passes), int(1), text("new")]).unwrap();
    });
    assert_eq!(passes, 15);
    let locked = fixture.auto(|view| {
        let table = view.table(t)?;
        let key = primary_key(&table, &[int(5)]);
        view.lock_row(&table, &key, crate::locks::RowLock::Update, crate::locks::WaitPolicy::NoWait)
    });
    assert_eq!(locked.unwrap_err().state().as_str(), "55P03", "its rows are locked");
    let free = fixture.auto(|view| {
        let table = view.table(t)?;
        let key = primary_key(&table, &[int(10_001)]);
        view.lock_row(&table, &key, crate::locks::RowLock::Update, crate::locks::WaitPolicy::NoWait)
    });
    free.unwrap();
    fixture.commit(txn).unwrap();
    let rows = values(&fixture.rows(t));
    assert_eq!(rows.len(), 3015);
    assert!(rows[..3000].iter().all(|v| *v == 7) && rows[3000..].iter().all(|v| *v == 1));
    assert_eq!(fixture.rows(other).len(), 15);
    while fixture.tenant.reclaim(64).unwrap() {}
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    assert!(fixture.tenant.lock_records().is_empty());
    let mut copy = fixture.replayed();
    assert_eq!(values(&copy.rows(t)), rows);
    assert_eq!(copy.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn what_others_change_beside_an_idle_branch_does_not_pile_up() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 10);
    let other = fixture.create("other", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for round in 0..5 {
        fixture
            .auto(|view| {
                let table = view.table(other)?;
                (0..10_000)
                    .try_for_each(|id| view.insert(&table, &[int(10_000 * round + id), int(0)]).map(drop))
            })
            .unwrap();
        while fixture.tenant.reclaim(64).unwrap() {}
        assert!(fixture.tenant.branch.as_ref().unwrap().behind() < 20_000);
    }
    fixture.run(&mut txn, |view| update(view, t, &[int(1)], vec![int(1), int(5), text("a")])).unwrap();
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.rows(other).len(), 50_000);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

/// Others insert so many rows, in one commit.
fn insert_beside(fixture: &mut Fixture, table: Oid, mut ids: std::ops::Range<i32>) {
    fixture
        .auto(|view| {
            let table = view.table(table)?;
            ids.try_for_each(|id| view.insert(&table, &[int(id), int(0)]).map(drop))
        })
        .unwrap();
}

#[test]
fn a_branch_catches_up_with_others_that_change_more_than_it_copies_in_a_turn() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 10);
    let other = fixture.create("other", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for from in [0, 10_000, 20_000] {
        let has_all = (0..10).any(|round| {
            insert_beside(&mut fixture, other, from + 1000 * round..from + 1000 * (round + 1));
            matches!(fixture.tenant.catch_up(&mut txn), Ok(CaughtUp::All))
        });
        assert!(has_all, "{} keys are left", fixture.tenant.branch.as_ref().unwrap().behind());
    }
    // What has piled up and grows no more is copied bit by bit.
    insert_beside(&mut fixture, other, 30_000..32_000);
    let turns = (1..).find(|_| matches!(fixture.tenant.catch_up(&mut txn), Ok(CaughtUp::All)));
    assert!(turns.is_some_and(|turns| turns > 5), "{turns:?} turns");
    fixture.run(&mut txn, |view| update(view, t, &[int(1)], vec![int(1), int(5), text("a")])).unwrap();
    fixture.commit(txn).unwrap();
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn what_others_change_beside_an_idle_branch_is_bounded_however_much_it_is() {
    let mut fixture = Fixture::new();
    let other = fixture.create("other", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for round in 0..60 {
        insert_beside(&mut fixture, other, 1000 * round..1000 * (round + 1));
        fixture.tenant.reclaim(64).unwrap();
    }
    let behind = fixture.tenant.branch.as_ref().unwrap().behind();
    assert!(behind < 40_000, "{behind} keys");
    fixture.tenant.abort(txn);
}

#[test]
fn a_branch_counts_towards_storage_max() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 3000);
    let used = fixture.tenant.space_used();
    fixture.tenant.set_storage_max(Some(base::ByteCount(used.total().0 + (256 << 10))));
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    let mut poured = Ok(Lsn(0));
    for id in 0..3000 {
        fixture.run(&mut txn, |view| update(view, t, &[int(id)], vec![int(id), int(1), text("b")])).unwrap();
        poured = fixture.tenant.pour(&mut txn, &mut fixture.log);
        if poured.is_err() {
            break;
        }
    }
    assert_eq!(poured.unwrap_err().state().as_str(), "53100");
    fixture.tenant.abort(txn);
    while fixture.tenant.reclaim(64).unwrap() {}
    assert_eq!(fixture.tenant.space_used().data, used.data);
    fixture.insert(t, vec![int(5000), int(1), text("c")]).unwrap();
}

#[test]
fn an_aborted_branch_leaves_nothing() {
    let mut fixture = Fixture::on_disk(1);
    let t = many(&mut fixture, 2000);
    let before = fixture.tenant.memory().pages;
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    update_all(&mut fixture, &mut txn, t, 7, &mut |_| {});
    assert!(fixture.tenant.memory().pages > before);
    fixture.tenant.abort(txn);
    while fixture.tenant.reclaim(64).unwrap() {}
    assert!(values(&fixture.rows(t)).iter().all(|v| *v == 0));
    assert_eq!(fixture.tenant.memory().pages, before);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    assert_eq!(values(&fixture.replayed().rows(t)).len(), 2000);
}

/// A table of 1,000 rows on disk, and a transaction with a branch that has changed the first 200 of them and is to pour them: no page is in memory.
fn before_a_pour(seed: u64, note: &str) -> (Fixture, Oid, Txn) {
    let mut fixture = Fixture::on_disk(seed);
    let env = fixture.world.as_ref().expect("on disk").env();
    let t = many(&mut fixture, 1000);
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    let update_some = |view: &mut View<'_>| {
        let mut ids = 0..200;
        ids.try_for_each(|id| update(view, t, &[int(id)], vec![int(id), int(7), text(note)]).map(drop))
    };
    fixture.run_reading(&mut txn, update_some).unwrap();
    fixture.tenant.evict_all();
    (fixture, t, txn)
}

#[test]
fn what_a_pour_would_miss_is_asked_for_before_it() {
    let (mut fixture, t, mut txn) = before_a_pour(3, &"y".repeat(300));
    let mut asked = 0;
    loop {
        let requests = fixture.tenant.pour_requests(&mut txn, &|| {}).unwrap();
        if requests.is_empty() {
            break;
        }
        asked += requests.len();
        requests.into_iter().for_each(|request| fixture.read(request));
    }
    assert!(asked > 5, "{asked} pages");
    let reads = fixture.tenant.page_tally().reads;
    fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
    assert_eq!(fixture.tenant.page_tally().reads, reads, "nothing is read within it");
    fixture.commit(txn).unwrap();
    assert_eq!(values(&fixture.rows(t)).iter().filter(|v| **v == 7).count(), 200);
}

/// It did not ask for it before, as for what is beyond the pages that it may hold.
#[test]
fn a_pour_that_meets_a_page_that_cannot_be_read_fails_and_leaves_the_live_pages() {
    let (mut fixture, t, mut txn) = before_a_pour(4, "y");
    let env = fixture.world.as_ref().expect("on disk").env();
    let path = Path::new("/tenant");
    let len = env.disk.open(path, env::OpenMode::Read, false).unwrap().len().unwrap();
    let flip_all = |fixture: &Fixture| {
        // Behind the superblocks.
        for slot in 2..len / PAGE_SIZE as u64 {
            fixture.world.as_ref().expect("on disk").flip_bit(path, slot * PAGE_SIZE as u64 + 1234, 3);
        }
    };
    flip_all(&fixture);
    let poured = fixture.tenant.pour(&mut txn, &mut fixture.log);
    assert_eq!(poured.unwrap_err().state().as_str(), "XX001");
    flip_all(&fixture);
    fixture.tenant.abort(txn);
    let rows = values(&fixture.rows(t));
    assert!(rows.len() == 1000 && rows.iter().all(|v| *v == 0), "{} rows", rows.len());
}

/// Its call was suspended, and ended by somebody else's.
#[test]
fn who_has_a_turn_after_a_panic_in_a_pour_finds_the_live_pages_and_leaves_its_commit_there() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 1000);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    let update_all = |view: &mut View<'_>| {
        let mut ids = 0..1000;
        ids.try_for_each(|id| update(view, t, &[int(id)], vec![int(id), int(7), text("a")]).map(drop))
    };
    fixture.run(&mut txn, update_all).unwrap();
    let poured = catch_unwind(AssertUnwindSafe(|| {
        fixture.tenant.pour_giving_way(&mut txn, &mut fixture.log, &|| panic!("the test asked for a panic"))
    }));
    assert!(poured.is_err());
    assert!(values(&fixture.rows(t)).iter().all(|v| *v == 0), "nobody sees what was poured");
    fixture.insert(t, vec![int(5000), int(1), text("b")]).unwrap();
    fixture.tenant.abort(txn);
    let rows = values(&fixture.rows(t));
    assert_eq!((rows.len(), rows.iter().sum::<i32>()), (1001, 1));
    while fixture.tenant.reclaim(64).unwrap() {}
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn a_branch_several_times_the_budget_stays_within_it() {
    [Isolation::ReadCommitted, Isolation::RepeatableRead].into_iter().for_each(fill_beyond_the_budget);
}

fn fill_beyond_the_budget(isolation: Isolation) {
    let mut fixture = Fixture::on_disk(2);
    let env = fixture.world.as_ref().expect("on disk").env();
    let checkpoint = |fixture: &mut Fixture| {
        let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
        env::block_on(&env, checkpoint.run()).unwrap();
        assert!(fixture.tenant.finish_checkpoint(checkpoint));
        fixture.tenant.evict_all();
    };
    let t = many(&mut fixture, 5000);
    checkpoint(&mut fixture);
    let cold = fixture.tenant.memory().pages;
    let mut txn = fixture.begin(1, isolation);
    let mut most = cold;
    update_all(&mut fixture, &mut txn, t, 9, &mut |fixture| {
        most = most.max(fixture.tenant.memory().pages);
        checkpoint(fixture);
    });
    assert!(most.0 < cold.0 + (1 << 20), "{most} from {cold}, for 2 MiB of changed pages");
    fixture.commit(txn).unwrap();
    checkpoint(&mut fixture);
    checkpoint(&mut fixture);
    fixture.reclaim();
    assert!(values(&fixture.rows(t)).iter().all(|v| *v == 9));
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}

#[test]
fn one_transaction_has_the_branch_and_the_catalog_stands_still() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 10);
    let mut first = fixture.begin(1, Isolation::ReadCommitted);
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    let mut third = fixture.begin(3, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut first).unwrap();
    let wait = wait_of(fixture.tenant.begin_branch(&mut second));
    let ddl = wait_of(fixture.run(&mut third, |view| view.ddl().map(drop)));
    fixture.run(&mut first, |view| update(view, t, &[int(1)], vec![int(1), int(5), text("a")])).unwrap();
    fixture.commit(first).unwrap();
    // In one line, so that they never wait in a circle, whatever each wants next.
    assert!(wait.is_over() && !ddl.is_over());
    fixture.tenant.begin_branch(&mut second).unwrap();
    assert!(matches!(fixture.tenant.catch_up(&mut second), Ok(CaughtUp::All)));
    fixture.run(&mut second, |view| view.ddl().map(drop)).unwrap();
    fixture.tenant.abort(second);
    assert!(ddl.is_over());
    fixture.run(&mut third, |view| view.ddl().map(drop)).unwrap();
    let mut fourth = fixture.begin(4, Isolation::ReadCommitted);
    let wait = wait_of(fixture.tenant.begin_branch(&mut fourth));
    fixture.tenant.begin_branch(&mut third).unwrap();
    fixture.tenant.abort(third);
    assert!(wait.is_over());
    fixture.tenant.begin_branch(&mut fourth).unwrap();
    fixture.tenant.abort(fourth);
    assert_eq!(values(&fixture.rows(t))[1], 5);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn sequences_move_on_in_the_live_pages_while_a_branch_is_there() {
    let mut fixture = Fixture::on_disk(3);
    let t = many(&mut fixture, 10);
    let s = fixture.sequence(1000);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for expected in 1..=100 {
        let next = fixture.run_reading(&mut txn, |view| view.nextval(s)).unwrap();
        assert_eq!(next, expected);
    }
    fixture
        .run_reading(&mut txn, |view| update(view, t, &[int(1)], vec![int(1), int(5), text("a")]))
        .unwrap();
    fixture.tenant.abort(txn);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
    let next = fixture.replayed().auto(|view| view.nextval(s)).unwrap();
    assert!(next > 100, "{next} was given out before");
}

#[test]
fn a_branch_that_cannot_have_what_others_changed_fails_by_that_when_it_goes_on() {
    let mut fixture = Fixture::on_disk(4);
    let t = many(&mut fixture, 10);
    let other = fixture.create("other", &[("id", PgType::Int4), ("v", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    for from in (0..20_000).step_by(2000) {
        fixture
            .auto(|view| {
                let table = view.table(other)?;
                (from..from + 2000).try_for_each(|id| view.insert(&table, &[int(id), int(0)]).map(drop))
            })
            .unwrap();
    }
    let world = fixture.world.as_ref().expect("on disk");
    let env = world.env();
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    fixture.tenant.evict_all();
    world.inject(env::sim::DiskFault::eio(env::sim::DiskOp::Read, "tenant"));
    let behind = |fixture: &Fixture| fixture.tenant.branch.as_ref().unwrap().behind();
    assert_eq!(behind(&fixture), 20_000);
    while fixture.tenant.reclaim(64).is_ok_and(|more| more) {}
    assert_eq!(behind(&fixture), 0, "nothing is kept for it any more");
    fixture.world.as_ref().expect("on disk").mend_disk();
    let mut second = fixture.begin(2, Isolation::ReadCommitted);
    let insert = |view: &mut View<'_>| {
        let table = view.table(t)?;
        view.insert(&table, &[int(20_000), int(0), text("new")])
    };
    fixture.run_reading(&mut second, insert).unwrap();
    fixture.commit(second).unwrap();
    assert_eq!(behind(&fixture), 0);
    let failed = fixture.tenant.catch_up(&mut txn).map(drop);
    assert_eq!(failed.unwrap_err().state().as_str(), "58030");
    fixture.tenant.abort(txn);
    assert_eq!(fixture.rows(other).len(), 20_000);
    assert_eq!(fixture.rows(t).len(), 11);
}

#[test]
fn rows_locked_behind_a_savepoint_are_free_once_it_is_gone_back_to() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 10);
    let set = |id: i32, v: i32| {
        move |view: &mut View<'_>| update(view, t, &[int(id)], vec![int(id), int(v), text("a")])
    };
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    fixture.run(&mut txn, set(1, 5)).unwrap();
    let savepoint = txn.savepoint();
    fixture.run(&mut txn, set(1, 6)).unwrap();
    fixture.run(&mut txn, set(2, 6)).unwrap();
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    let wait = wait_of(fixture.run(&mut other, set(2, 7)));
    assert!(!wait.is_over());
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    assert!(wait.is_over(), "nobody has the row");
    fixture.run(&mut other, set(2, 7)).unwrap();
    fixture.commit(other).unwrap();
    let mut third = fixture.begin(3, Isolation::ReadCommitted);
    let wait = wait_of(fixture.run(&mut third, set(1, 8)));
    assert!(!wait.is_over(), "it was locked before the savepoint");
    fixture.commit(txn).unwrap();
    assert!(wait.is_over());
    fixture.tenant.abort(third);
    assert_eq!(values(&fixture.rows(t))[1..3], [5, 7]);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn what_was_locked_before_a_savepoint_stays_so_when_a_stronger_lock_is_given_back() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 10);
    let lock = |mode: crate::locks::RowLock| {
        move |view: &mut View<'_>| {
            let table = view.table(t)?;
            let key = primary_key(&table, &[int(3)]);
            view.lock_row(&table, &key, mode, crate::locks::WaitPolicy::Wait)
        }
    };
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    fixture.run(&mut txn, lock(crate::locks::RowLock::KeyShare)).unwrap();
    let savepoint = txn.savepoint();
    fixture.run(&mut txn, lock(crate::locks::RowLock::Update)).unwrap();
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    let wait = wait_of(fixture.run(&mut other, lock(crate::locks::RowLock::Update)));
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    assert!(!wait.is_over(), "what it refers to stays");
    fixture.commit(txn).unwrap();
    assert!(wait.is_over());
    fixture.tenant.abort(other);
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn what_a_statement_has_put_is_known_to_its_later_slices_and_no_longer() {
    let mut fixture = Fixture::new();
    let t = many(&mut fixture, 10);
    let table = fixture.table(t);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    let known = |fixture: &mut Fixture, txn: &mut Txn| -> Vec<i32> {
        let has_put = |view: &View<'_>, id: i32| view.has_put(&table, &primary_key(&table, &[int(id)]));
        let ids = fixture.run(txn, |view| {
            (0..12).map(|id| has_put(view, id).map(|put| (id, put))).collect::<Result<Vec<_>, _>>()
        });
        ids.unwrap().into_iter().filter_map(|(id, put)| put.then_some(id)).collect()
    };
    for id in [1, 5] {
        fixture.tenant.begin_statement(&txn);
        fixture.tenant.remember_put(&txn, &table);
        let slice = |view: &mut View<'_>| {
            update(view, t, &[int(id)], vec![int(id), int(1), text("a")])?;
            view.insert(&table, &[int(id + 10), int(1), text("b")])?;
            delete(view, t, &[int(id + 1)])
        };
        fixture.run(&mut txn, slice).unwrap();
        assert_eq!(known(&mut fixture, &mut txn), Vec::<i32>::new(), "it is not poured yet");
        fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
        assert_eq!(known(&mut fixture, &mut txn), if id == 1 { vec![1, 11] } else { vec![5] });
        fixture.tenant.end_statement(&txn);
        assert_eq!(known(&mut fixture, &mut txn), Vec::<i32>::new());
    }
    fixture.commit(txn).unwrap();
    fixture.reclaim();
    let report = fixture.tenant.check();
    assert_eq!((report.defects, report.orphans), (Vec::new(), 0));
    assert_eq!(fixture.rows(t).len(), 10);
    assert_eq!(fixture.replayed().rows(t).len(), 10);
}
