//! A tenant at the limit of its space, and snapshots that pay for it.

use base::{ByteCount, SqlState};

use super::*;

/// A table with some megabyte of rows.
fn filled() -> (Fixture, Oid) {
    let mut fixture = Fixture::new();
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    fixture.auto(|view| rows_into(view, t, 0..200)).unwrap();
    (fixture, t)
}

fn rows_into(view: &mut View<'_>, t: Oid, ids: std::ops::Range<i32>) -> Result<(), Interrupt> {
    let table = view.table(t)?;
    ids.into_iter().try_for_each(|id| view.insert(&table, &[int(id), text(&"x".repeat(3000))]).map(drop))
}

fn limit(fixture: &mut Fixture, beyond: i64) {
    let used = fixture.tenant.space_used().total().0.cast_signed();
    fixture.tenant.set_storage_max(Some(ByteCount((used + beyond).cast_unsigned())));
}

#[test]
fn a_tenant_at_its_limit_reads_and_deletes_its_way_out() {
    let (mut fixture, t) = filled();
    limit(&mut fixture, -1);
    let error = fixture.auto(|view| rows_into(view, t, 1000..1001)).unwrap_err();
    assert_eq!(error.state(), SqlState::DISK_FULL);
    assert!(error.message().contains("storage_max"), "{error}");
    let error =
        fixture.auto(|view| update(view, t, &[int(1)], vec![int(1), text("y")]).map(drop)).unwrap_err();
    assert_eq!(error.state(), SqlState::DISK_FULL);
    assert_eq!(
        fixture.ddl(|ddl| create(ddl, "u", &[("id", PgType::Int4)], 1)).unwrap_err().state(),
        SqlState::DISK_FULL
    );
    assert_eq!(fixture.rows(t).len(), 200, "reading goes on, and nothing was changed");
    for id in 0..150 {
        assert!(fixture.auto(|view| delete(view, t, &[int(id)])).unwrap());
    }
    fixture.auto(|view| rows_into(view, t, 1000..1001)).expect("there is room again");
    limit(&mut fixture, -1);
    fixture.auto(|view| view.ddl()?.drop_relations(&[t], crate::ddl::Behavior::Restrict).map(drop)).unwrap();
    while fixture.tenant.reclaim(100).unwrap() {}
    fixture.create("u", &[("id", PgType::Int4)], 1);
    assert!(fixture.replayed().tenant.catalog().table(t).is_none());
}

#[test]
fn a_tenant_at_its_limit_truncates_with_its_sequences_started_anew() {
    let (mut fixture, t) = filled();
    let s = fixture.sequence(1000);
    fixture
        .ddl(|ddl| {
            let mut sequence = (**ddl.catalog().sequence(s).expect("it was just made")).clone();
            sequence.owned_by = Some((t, 0));
            ddl.alter_sequence(sequence);
            Ok(())
        })
        .unwrap();
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 1);
    limit(&mut fixture, -1);
    let mut refused = |ddl: &mut dyn FnMut(&mut Ddl<'_>) -> Result<(), Interrupt>| {
        fixture.ddl(ddl).is_err_and(|error| error.state() == SqlState::DISK_FULL)
    };
    assert!(
        refused(&mut |ddl| {
            ddl.restart_sequence(s, 1);
            Ok(())
        }),
        "a restart alone makes no room"
    );
    assert!(refused(&mut |ddl| {
        ddl.truncate(&[t], false)?;
        let mut other = (**ddl.catalog().sequence(s).expect("it is there")).clone();
        other.name = "other".into();
        Ok(ddl.create_sequence(other).map(drop)?)
    }));
    fixture.ddl(|ddl| ddl.truncate(&[t], true)).unwrap();
    while fixture.tenant.reclaim(100).unwrap() {}
    fixture.tenant.set_storage_max(None);
    assert!(fixture.rows(t).is_empty());
    assert_eq!(fixture.auto(|view| view.nextval(s)).unwrap(), 1);
    assert_eq!(fixture.replayed().auto(|view| view.sequence_value(s)).unwrap().last_value, 33);
}

#[test]
fn a_limit_changes_live_and_none_is_none() {
    let (mut fixture, t) = filled();
    limit(&mut fixture, -1);
    assert!(fixture.auto(|view| rows_into(view, t, 1000..1001)).is_err());
    limit(&mut fixture, 1 << 20);
    fixture.auto(|view| rows_into(view, t, 1000..1001)).unwrap();
    fixture.tenant.set_storage_max(None);
    fixture.auto(|view| rows_into(view, t, 2000..3000)).unwrap();
}

fn change_all(fixture: &mut Fixture, t: Oid, n: i32) {
    for id in 0..200 {
        let row = vec![int(id), text(&format!("{n:02}{}", "z".repeat(2998)))];
        let changed = fixture.auto(|view| update(view, t, &[int(id)], row.clone()));
        assert!(changed.expect("a writer does not pay for forgotten snapshots"));
    }
}

#[test]
fn the_oldest_snapshot_pays_and_the_writer_goes_on() {
    let (mut fixture, t) = filled();
    let read = |fixture: &mut Fixture, txn: &mut Txn| fixture.run(txn, |view| all_rows(view, t));
    let too_old = |result| assert_eq!(error_of::<Vec<Row>>(result).state(), SqlState::SNAPSHOT_TOO_OLD);
    let mut forgotten = fixture.begin(1, Isolation::RepeatableRead);
    let before = read(&mut fixture, &mut forgotten).unwrap();
    let log_before = fixture.tenant.space_used().log;
    change_all(&mut fixture, t, 1);
    let used = fixture.tenant.space_used();
    assert!(used.retained.0 * 2 > used.data.0, "every leaf is kept: {used:?}");
    assert_eq!(read(&mut fixture, &mut forgotten).unwrap(), before);
    // Room for the redo of one more change, and for half of the versions that it leaves to another snapshot.
    let room = i64::try_from(used.log.0 - log_before.0 + used.data.0 / 2).unwrap();

    let mut younger = fixture.begin(2, Isolation::RepeatableRead);
    let seen = read(&mut fixture, &mut younger).unwrap();
    limit(&mut fixture, room);
    change_all(&mut fixture, t, 2);
    assert_eq!(fixture.tenant.snapshots_revoked(), 1);
    too_old(read(&mut fixture, &mut forgotten));
    assert_eq!(read(&mut fixture, &mut younger).unwrap(), seen, "the younger one is kept");

    // Queries on other threads are told, and let go at their next leaf.
    let mut lend = || {
        let mut reader = fixture.begin(3, Isolation::ReadCommitted);
        let view = fixture.tenant.snapshot_view(&mut reader).unwrap();
        fixture.tenant.abort(reader);
        limit(&mut fixture, room);
        change_all(&mut fixture, t, 3);
        view
    };
    let (older, newer) = (lend(), lend());
    let table = Arc::clone(older.catalog().table(t).unwrap());
    assert_eq!(fixture.tenant.snapshots_revoked(), 3);
    too_old(read(&mut fixture, &mut younger));
    let scan = |view: &crate::SnapshotView| view.scan(&table, KeyRange::all()).next_leaf(&mut |_| Ok(()));
    assert_eq!(scan(&older).unwrap_err().state(), SqlState::SNAPSHOT_TOO_OLD);
    assert!(scan(&newer).unwrap());
    drop((older, newer));

    fixture.tenant.abort(forgotten);
    fixture.tenant.abort(younger);
    assert_eq!(fixture.tenant.space_used().retained, ByteCount(0));
    let mut fresh = fixture.begin(4, Isolation::RepeatableRead);
    assert_eq!(read(&mut fixture, &mut fresh).unwrap().len(), 200);
    fixture.tenant.abort(fresh);
}

#[test]
fn a_copy_that_nobody_takes_is_counted_and_pays_as_a_snapshot_does() {
    let (mut fixture, t) = filled();
    let copy = fixture.tenant.begin_copy().unwrap();
    let log_before = fixture.tenant.space_used().log;
    change_all(&mut fixture, t, 1);
    let used = fixture.tenant.space_used();
    assert!(used.retained.0 * 2 > used.data.0, "every leaf is kept: {used:?}");
    copy.require_kept().unwrap();
    let room = i64::try_from(used.log.0 - log_before.0).unwrap();
    limit(&mut fixture, room / 2);
    change_all(&mut fixture, t, 2);
    assert_eq!(fixture.tenant.snapshots_revoked(), 1);
    assert_eq!(copy.require_kept().unwrap_err().state(), SqlState::SNAPSHOT_TOO_OLD);
    drop(copy);
    assert_eq!(fixture.tenant.space_used().retained, ByteCount(0));
}

#[test]
fn parts_of_an_open_record_are_counted_whatever_checkpoints_there_are() {
    let mut fixture = Fixture::on_disk(9);
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    let checkpoint = |fixture: &mut Fixture| {
        let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
        env::block_on(&fixture.world.as_ref().unwrap().env(), checkpoint.run()).unwrap();
        assert!(fixture.tenant.finish_checkpoint(checkpoint));
        fixture.tenant.space_used().log.0
    };
    // Poured, and logged ahead of the commit.
    let ways = [(Isolation::ReadCommitted, true), (Isolation::RepeatableRead, false)];
    for ((isolation, pours), ends) in ways.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let mut txn = fixture.begin(1, isolation);
        let from = i32::from(!pours) * 1000 + i32::from(!ends) * 200;
        if pours {
            fixture.tenant.begin_branch(&mut txn).unwrap();
        }
        fixture.run_reading(&mut txn, |view| rows_into(view, t, from..from + 200)).unwrap();
        if pours {
            fixture.tenant.pour(&mut txn, &mut fixture.log).unwrap();
        }
        while fixture.tenant.log_ahead(&mut txn, &mut fixture.log).unwrap().is_some() {}
        assert!(checkpoint(&mut fixture) > 200 * 2000, "the log has to keep them");
        match ends {
            true => drop(fixture.commit(txn).unwrap()),
            false => fixture.tenant.abort(txn),
        }
        assert!(fixture.tenant.space_used().log.0 > 200 * 2000);
        assert_eq!(checkpoint(&mut fixture), 0, "a root covers them");
    }
    assert_eq!(fixture.rows(t).len(), 400);
}

#[test]
fn a_query_that_does_not_let_go_of_its_snapshot_lifts_no_limit() {
    let mut fixture = Fixture::on_disk(10);
    let t = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    fixture.auto(|view| rows_into(view, t, 0..200)).unwrap();
    let change = |fixture: &mut Fixture, n: i32| -> Result<(), SqlError> {
        let row = |id| vec![int(id), text(&format!("{n:02}{}", "z".repeat(2998)))];
        let mut txn = fixture.begin(1_000_000, Isolation::ReadCommitted);
        fixture
            .run_reading(&mut txn, |view| {
                (0..200).try_for_each(|id| update(view, t, &[int(id)], row(id)).map(drop))
            })
            .unwrap();
        fixture.commit(txn).map(drop)
    };
    let checkpoint = |fixture: &mut Fixture| {
        let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
        env::block_on(&fixture.world.as_ref().unwrap().env(), checkpoint.run()).unwrap();
        assert!(fixture.tenant.finish_checkpoint(checkpoint));
    };
    let mut reader = fixture.begin(1, Isolation::ReadCommitted);
    let held = fixture.tenant.snapshot_view(&mut reader).unwrap();
    fixture.tenant.abort(reader);
    checkpoint(&mut fixture);
    limit(&mut fixture, 1 << 20);
    let max = fixture.tenant.space_used().total().0 + (1 << 20);
    let mut forgotten = Vec::new();
    for n in 1..30_i32 {
        let mut txn = fixture.begin(1 + n.cast_unsigned(), Isolation::RepeatableRead);
        fixture.run_reading(&mut txn, |view| all_rows(view, t)).unwrap();
        forgotten.push(txn);
        change(&mut fixture, n).expect("the snapshots make room");
        checkpoint(&mut fixture);
        let used = fixture.tenant.space_used();
        assert!(used.total().0 < max + (12 << 20), "{used:?} of {max}");
    }
    assert!(fixture.tenant.snapshots_revoked() > 5);
    drop(held);
    forgotten.into_iter().for_each(|txn| fixture.tenant.abort(txn));
    assert_eq!(fixture.tenant.space_used().retained, ByteCount(0));
}
