//! The memory that open transactions take for changes.

use base::ByteCount;

use super::*;

const MEMORY: ByteCount = ByteCount::from_mib(64);

fn fill(fixture: &mut Fixture, txn: &mut Txn, t: Oid, ids: std::ops::Range<i32>) -> Result<(), Interrupt> {
    let filler = "x".repeat(1000);
    fixture.run_reading(txn, |view| {
        let table = view.table(t)?;
        ids.clone().try_for_each(|id| view.insert(&table, &[int(id), text(&filler)]).map(drop))
    })
}

#[test]
fn changes_that_cannot_be_poured_are_counted_charged_and_limited() {
    let mut fixture = Fixture::on_disk_within(3, MEMORY);
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 1);
    let budget = Arc::clone(fixture.tenant.pages.budget().unwrap());
    let max = fixture.tenant.changes_max().unwrap();
    assert_eq!(max, ByteCount::from_mib(8));
    let before = budget.resident();

    let mut first = fixture.begin(1, Isolation::RepeatableRead);
    let mut second = fixture.begin(2, Isolation::RepeatableRead);
    fill(&mut fixture, &mut first, t, 0..4000).unwrap();
    let counted = fixture.tenant.change_bytes();
    assert!(counted > ByteCount(4000 * 1000) && counted < max, "{counted}");
    let charged = ByteCount(budget.resident().0 - before.0);
    assert_eq!(charged, counted - ByteCount::from_mib(4), "4 MiB are free");

    // Another transaction of the tenant has what is left.
    let error = error_of(fill(&mut fixture, &mut second, t, 10_000..14_000));
    assert_eq!(error.state().as_str(), "53200");
    assert!(error.hint().is_some_and(|hint| hint.contains("savepoints")));
    assert!(fixture.tenant.change_bytes() < counted + ByteCount::from_mib(1), "its locks alone are left");
    fill(&mut fixture, &mut second, t, 10_000..11_000).unwrap();
    fixture.tenant.abort(second);
    // The one that was there first does not notice.
    fill(&mut fixture, &mut first, t, 4000..4010).unwrap();
    fixture.commit(first).unwrap();
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
    assert_eq!(fixture.rows(t).len(), 4010);

    // A savepoint that was gone back to takes nothing any more.
    let mut third = fixture.begin(3, Isolation::ReadCommitted);
    fill(&mut fixture, &mut third, t, 20_000..20_010).unwrap();
    let savepoint = third.savepoint();
    fill(&mut fixture, &mut third, t, 30_000..32_000).unwrap();
    assert!(fixture.tenant.change_bytes() > ByteCount(2000 * 1000));
    fixture.tenant.rollback_to(&mut third, &savepoint);
    assert!(fixture.tenant.change_bytes() < ByteCount(128 << 10));
    // What is poured takes none.
    fixture.tenant.begin_branch(&mut third).unwrap();
    for from in (40_000..60_000).step_by(500) {
        fill(&mut fixture, &mut third, t, from..from + 500).unwrap();
        fixture.tenant.pour(&mut third, &mut fixture.log).unwrap();
        assert!(fixture.tenant.change_bytes() < ByteCount::from_mib(2));
    }
    fixture.tenant.abort(third);
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
}

#[test]
fn rows_locked_and_not_changed_are_counted_too() {
    let mut fixture = Fixture::on_disk_within(4, ByteCount::from_mib(16));
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 1);
    for from in (0..40_000).step_by(1000) {
        fixture
            .auto(|view| {
                let table = view.table(t)?;
                (from..from + 1000).try_for_each(|id| view.insert(&table, &[int(id), text("x")]).map(drop))
            })
            .unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let locked = fixture.run_reading(&mut txn, |view| {
        let table = view.table(t)?;
        for id in 0..40_000 {
            let key = primary_key(&table, &[int(id)]);
            view.lock_row(&table, &key, crate::locks::RowLock::Update, crate::locks::WaitPolicy::Wait)?;
        }
        Ok(())
    });
    assert_eq!(error_of(locked).state().as_str(), "53200", "4 MiB are for some 20,000 locks");
    fixture.tenant.abort(txn);
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn locks_of_long_keys_are_counted_with_their_keys() {
    let mut fixture = Fixture::on_disk_within(5, ByteCount::from_mib(16));
    let t = fixture.create("t", &[("id", PgType::Text)], 1);
    let id = |n: i32| text(&format!("{n:01500}"));
    for from in (0..2000).step_by(100) {
        fixture
            .auto(|view| {
                let table = view.table(t)?;
                (from..from + 100).try_for_each(|n| view.insert(&table, &[id(n)]).map(drop))
            })
            .unwrap();
    }
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let savepoint = txn.savepoint();
    let mut locks = 0;
    let locked = fixture.run_reading(&mut txn, |view| {
        let table = view.table(t)?;
        for n in 0..2000 {
            let key = primary_key(&table, &[id(n)]);
            view.lock_row(&table, &key, crate::locks::RowLock::Update, crate::locks::WaitPolicy::Wait)?;
            locks = n;
        }
        Ok(())
    });
    assert_eq!(error_of(locked).state().as_str(), "53200");
    assert!((1200..1400).contains(&locks), "4 MiB are for some 1,300 locks of 3 KB, not {locks}");
    fixture.tenant.rollback_to(&mut txn, &savepoint);
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
    fixture.tenant.abort(txn);
}

#[test]
fn locks_of_a_branch_are_counted_and_take_so_much_at_most() {
    let mut fixture = Fixture::on_disk_within(6, MEMORY);
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.tenant.begin_branch(&mut txn).unwrap();
    let mut counted = Vec::new();
    for from in (0..300_000).step_by(100_000) {
        fixture
            .run_reading(&mut txn, |view| {
                let table = view.table(t)?;
                (from..from + 100_000).try_for_each(|id| {
                    let key = primary_key(&table, &[int(id)]);
                    view.lock_row(&table, &key, crate::locks::RowLock::Update, crate::locks::WaitPolicy::Wait)
                        .map(drop)
                })
            })
            .unwrap();
        counted.push(fixture.tenant.change_bytes());
    }
    // A half of 8 MiB for all four modes.
    let (some, most) = (ByteCount::from_kib(900), ByteCount::from_kib(1200));
    assert!(counted.iter().all(|bytes| (some..most).contains(bytes)), "{counted:?}");
    let mut other = fixture.begin(2, Isolation::ReadCommitted);
    let waits = |view: &mut View<'_>, id| {
        let table = view.table(t)?;
        let key = primary_key(&table, &[int(id)]);
        view.lock_row(&table, &key, crate::locks::RowLock::Update, crate::locks::WaitPolicy::SkipLocked)
    };
    for id in [0, 99_999, 299_999] {
        let locked = fixture.run_reading(&mut other, |view| waits(view, id)).unwrap();
        assert_eq!(locked, crate::RowLocked::Skipped);
    }
    fixture.tenant.abort(txn);
    fixture.tenant.abort(other);
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
    assert!(fixture.tenant.lock_records().is_empty());
}

#[test]
fn definitions_that_savepoints_go_back_to_are_counted() {
    let mut fixture = Fixture::on_disk_within(7, ByteCount::from_mib(16));
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let mut savepoints = Vec::new();
    let make = |fixture: &mut Fixture, txn: &mut Txn, n: usize| {
        let name = format!("t{n}");
        fixture.run_reading(txn, |view| create(&mut view.ddl()?, &name, &[("id", PgType::Int4)], 0))
    };
    let refused = (0..2000).find_map(|n| {
        let outcome = make(&mut fixture, &mut txn, n);
        savepoints.push(txn.savepoint());
        outcome.err()
    });
    assert_eq!(
        refused.and_then(Interrupt::into_error).map(|e| e.state().as_str().to_owned()).as_deref(),
        Some("53200")
    );
    // One that is released takes none.
    savepoints.truncate(1);
    drop(txn.savepoint());
    for n in 0..300 {
        make(&mut fixture, &mut txn, 3000 + n).unwrap();
        drop(txn.savepoint());
    }
    fixture.tenant.abort(txn);
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
}

#[test]
fn what_a_serializable_transaction_has_read_is_counted_and_becomes_little_where_there_is_no_memory() {
    let mut fixture = Fixture::on_disk_within(8, ByteCount::from_mib(16));
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 1);
    fixture.insert(t, vec![int(1), text("x")]).unwrap();
    let read = |fixture: &mut Fixture, txn: &mut Txn, ids: std::ops::Range<i32>| {
        fixture.run_reading(txn, |view| {
            let table = view.table(t)?;
            ids.clone().try_for_each(|id| view.get(&table, &primary_key(&table, &[int(id)])).map(drop))
        })
    };
    let mut reader = fixture.begin(1, Isolation::Serializable);
    read(&mut fixture, &mut reader, 0..10_000).unwrap();
    let counted = fixture.tenant.change_bytes();
    assert!(counted > ByteCount(10_000 * 64), "{counted}");

    let mut writer = fixture.begin(2, Isolation::RepeatableRead);
    while fixture.tenant.change_bytes() < ByteCount(15 << 18) {
        let from = writer.changed_bytes() as i32;
        fill(&mut fixture, &mut writer, t, from + 100..from + 110).unwrap();
    }
    // There is no room for what more it reads.
    read(&mut fixture, &mut reader, 10_000..16_000).unwrap();
    assert!(reader.reads.memory() < 600 << 10, "{}", reader.reads.memory());
    fill(&mut fixture, &mut reader, t, 2..3).unwrap();
    fixture.tenant.abort(writer);
    // And still nothing that it read is missed.
    fixture.insert(t, vec![int(5), text("y")]).unwrap();
    assert_eq!(fixture.commit(reader).unwrap_err().state().as_str(), "40001");
    assert_eq!(fixture.tenant.change_bytes(), ByteCount(0));
}

#[test]
fn definitions_that_snapshots_read_take_so_much_and_no_more() {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4)], 1);
    let (mut readers, mut n) = (Vec::new(), 0);
    let error = loop {
        let mut reader = fixture.begin(2 + n, Isolation::RepeatableRead);
        fixture.run(&mut reader, |view| all_rows(view, t)).unwrap();
        readers.push(reader);
        // One that reads the same as another takes nothing.
        let mut same = fixture.begin(10_000 + n, Isolation::RepeatableRead);
        fixture.run(&mut same, |view| all_rows(view, t)).unwrap();
        readers.push(same);
        n += 1;
        match fixture.ddl(|ddl| ddl.rename_relation(t, &format!("t{n}"))) {
            Ok(()) => assert!(n < 1000, "there is an end to it"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.state().as_str(), "53200");
    let len = fixture.tenant.catalog().footprint() * u64::from(n);
    assert!((64 << 10..80 << 10).contains(&len), "{len} bytes in {n} states");
    let kept = readers.split_off(2 * (readers.len() / 4));
    readers.into_iter().for_each(|reader| fixture.tenant.abort(reader));
    fixture.ddl(|ddl| ddl.rename_relation(t, "other")).unwrap();
    kept.into_iter().for_each(|reader| fixture.tenant.abort(reader));
}
