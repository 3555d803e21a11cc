//! Rot in a tenant's file: what it costs while the tenant is in use, and what a repair makes of it.

use std::path::Path;

use base::SqlState;
use base::limits::PAGE_SIZE;
use env::sim::{DiskFault, DiskOp, World};
use env::{Env, OpenMode, block_on};
use storage::redo::recover;

use super::recovery::{DATA, Server, fill, open, put};
use super::*;
use crate::catalog::{Deferral, MatchType, ReferentialAction};
use crate::ddl::{Behavior, NewForeignKey, RowsNow};
use crate::repair::{RepairError, no_limit, repair, repair_file};
use crate::verify::verify;

const INDEX: &str = "public.t_v_idx";
const ROWS: i32 = 600;

/// A tenant with a table and an index of it, `in_log` commits in the redo log alone. Its rows.
fn worn(world: &World, in_log: i32) -> (Oid, Vec<Row>) {
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let t = fill(&mut server).await;
        for id in 0..ROWS {
            put(&mut server, t, id, 1 + u64::from(id.cast_unsigned()) * 5).await;
        }
        assert!(server.checkpoint().await);
        for id in 0..in_log {
            put(&mut server, t, id * 100, 7).await;
        }
        flush(&mut server).await;
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        (t, rows)
    })
}

async fn flush(server: &mut Server) {
    while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
}

fn bytes_of(env: &Env) -> Vec<u8> {
    let file = env.disk.open(Path::new(DATA), OpenMode::Read, false).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn restore(env: &Env, bytes: &[u8]) {
    let file = env.disk.open(Path::new(DATA), OpenMode::ReadWrite, false).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data_blocking().unwrap();
}

fn repaired(env: &Env, index: &str) -> Result<crate::repair::Repaired, RepairError> {
    let redo = recover(env, &["/log".into()]).unwrap();
    repair(env, Path::new(DATA), TENANT, &redo, &[index.to_owned()], Behavior::Restrict)
}

#[test]
fn whichever_slot_rots_a_repair_saves_all_rows_or_says_what_is_lost() {
    let world = World::new(7);
    let (t, rows) = worn(&world, 5);
    let env = world.env();
    let clean = bytes_of(&env);
    let (mut saved, mut named, mut refused, mut free) = (0, 0, 0, 0);
    for slot in 2..clean.len() / PAGE_SIZE {
        world.flip_bit(Path::new(DATA), (slot * PAGE_SIZE + 1234) as u64, 3);
        let offset = (slot * PAGE_SIZE).to_string();
        let (file, trees) = match verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}) {
            Ok(reports) => reports,
            Err(error) => panic!("slot {slot}: {error}"),
        };
        if file.is_clean() {
            free += 1;
            restore(&env, &clean);
            continue;
        }
        let of_index = trees.defects.iter().any(|defect| defect.starts_with("index public.t_v_idx"));
        match repaired(&env, INDEX) {
            Ok(report) if report.defects.is_empty() => {
                // The free set is no tree's, and is made anew.
                let of_set = trees.defects.is_empty() && trees.tables > 0;
                assert!(of_index || of_set, "slot {slot} is named as the index's: {:?}", trees.defects);
                assert_eq!(report.dropped[0].table, "public.t");
                let (file, trees) = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
                assert!(file.is_clean() && trees.defects.is_empty(), "slot {slot}: {file:?} {trees:?}");
                assert_eq!((trees.rows, trees.index_entries, trees.orphans), (rows.len() as u64, 0, 0));
                block_on(&env, async {
                    let mut server = open(&env).await;
                    assert_eq!(server.auto(|view| all_rows(view, t)).await.unwrap(), rows, "slot {slot}");
                    assert!(server.tenant.catalog().table(t).unwrap().secondary_indexes().next().is_none());
                });
                saved += 1;
            }
            Ok(report) => {
                assert!(!of_index);
                assert!(report.defects[0].contains(&offset), "{:?} names {offset}", report.defects);
                named += 1;
            }
            Err(error) => {
                assert!(!of_index, "slot {slot}: {error}");
                assert!(
                    matches!(error, RepairError::Open(_)) && error.to_string().contains(&offset),
                    "{error}"
                );
                refused += 1;
            }
        }
        restore(&env, &clean);
    }
    assert!(saved > 3 && named > 3 && refused > 1 && free > 0, "{saved} {named} {refused} {free}");
}

#[test]
fn damage_of_an_index_fails_only_the_statements_that_need_it() {
    let world = World::new(8);
    let (t, rows) = worn(&world, 0);
    let env = world.env();
    let clean = bytes_of(&env);
    let mut failed_updates = 0;
    for slot in 2..clean.len() / PAGE_SIZE {
        world.flip_bit(Path::new(DATA), (slot * PAGE_SIZE + 99) as u64, 1);
        let reports = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
        if reports.1.defects.iter().any(|defect| defect.starts_with("index public.t_v_idx")) {
            block_on(&env, async {
                let mut server = open(&env).await;
                let index = server.tenant.catalog().table(t).unwrap().indexes[1].oid;
                let by_index = |view: &mut View<'_>| {
                    scan_rows(view, t, Some(index), KeyRange::all(), Direction::Forward)
                };
                let error = server.auto(by_index).await.unwrap_err();
                assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
                let place = format!("{DATA}: offset {}", slot * PAGE_SIZE);
                assert!(error.message().starts_with(&place), "{}", error.message());
                // The rows themselves are there, and so is every change whose index entries are elsewhere.
                assert_eq!(server.auto(|view| all_rows(view, t)).await.unwrap().len(), rows.len());
                for id in (0..ROWS).step_by(40) {
                    let row = vec![int(id), text(&format!("changed {id}"))];
                    match server.auto(|view| update(view, t, &[int(id)], row.clone())).await {
                        Ok(updated) => assert!(updated),
                        Err(error) => {
                            assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
                            failed_updates += 1;
                        }
                    }
                }
                flush(&mut server).await;
            });
            // What was committed since is replayed around the damage, and is there afterwards.
            let report = repaired(&env, INDEX).unwrap();
            assert_eq!(report.defects, Vec::<String>::new());
            let (file, trees) = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
            assert!(file.is_clean() && trees.defects.is_empty(), "{file:?} {trees:?}");
            break;
        }
        restore(&env, &clean);
    }
    assert!(failed_updates > 0, "some updates met the damage");
}

#[test]
fn a_disk_that_cannot_read_is_an_io_error_with_file_and_offset() {
    let world = World::new(9);
    let (t, _) = worn(&world, 0);
    let env = world.env();
    block_on(&env, async {
        let mut server = open(&env).await;
        world.inject(DiskFault::eio(DiskOp::Read, DATA));
        let error = server.auto(|view| all_rows(view, t)).await.unwrap_err();
        assert_eq!(error.state(), SqlState::IO_ERROR, "{error}");
        assert!(error.message().contains(&format!("{DATA}: offset ")), "{error}");
        // The analytical path, which reads blocking.
        let mut txn = server.tenant.begin(SessionId(2), Isolation::ReadCommitted, true, true);
        let view = server.tenant.snapshot_view(&mut txn).unwrap();
        let table = Arc::clone(view.catalog().table(t).unwrap());
        world.inject(DiskFault::eio(DiskOp::Read, DATA));
        let error = view.scan(&table, KeyRange::all()).next_leaf(&mut |_| Ok(())).unwrap_err();
        assert_eq!(error.state(), SqlState::IO_ERROR, "{error}");
        assert!(error.message().contains(&format!("{DATA}: offset ")), "{error}");
        server.tenant.abort(txn);
        // Once the disk reads again, nothing is left of it.
        assert!(!server.auto(|view| all_rows(view, t)).await.unwrap().is_empty());
    });
}

#[test]
fn what_is_no_index_of_its_own_is_not_dropped() {
    let world = World::new(10);
    worn(&world, 5);
    let env = world.env();
    let before = bytes_of(&env);
    for (index, words) in
        [("public.t_pkey", "primary key"), ("t_v_idx", "SCHEMA.INDEX"), ("public.T_V_IDX", "no index")]
    {
        let error = repaired(&env, index).unwrap_err();
        assert!(matches!(error, RepairError::Refused(_)) && error.to_string().contains(words), "{error}");
    }
    assert_eq!(bytes_of(&env), before, "a refused repair changes nothing");
}

/// The check names it as the root does, and the redo log changes it before it is renamed or dropped.
#[test]
fn an_index_that_the_log_renames_or_drops_is_repaired_by_the_name_of_the_root() {
    for is_dropped in [false, true] {
        let world = World::new(14);
        let (t, rows) = worn(&world, 5);
        let env = world.env();
        block_on(&env, async {
            let mut server = open(&env).await;
            let index = server.tenant.catalog().table(t).unwrap().indexes[1].oid;
            let changed = server.auto(|view| {
                let mut ddl = view.ddl()?;
                match is_dropped {
                    true => ddl.drop_index(index, Behavior::Restrict).map(drop),
                    false => ddl.rename_relation(index, "another"),
                }
            });
            changed.await.unwrap();
            flush(&mut server).await;
        });
        let worn_file = bytes_of(&env);
        let mut saved = 0;
        for slot in 2..worn_file.len() / PAGE_SIZE {
            world.flip_bit(Path::new(DATA), (slot * PAGE_SIZE + 1234) as u64, 3);
            let (_, trees) = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
            if trees.defects.iter().any(|defect| defect.starts_with("index public.t_v_idx")) {
                let report = repaired(&env, INDEX).unwrap_or_else(|error| panic!("slot {slot}: {error}"));
                let dropped: Vec<_> = report.dropped.iter().map(|index| index.name.as_str()).collect();
                match is_dropped {
                    true => assert!(dropped.is_empty() && report.gone_since == [INDEX], "{report:?}"),
                    false => assert!(dropped == ["public.another"] && report.gone_since.is_empty()),
                }
                let (file, trees) = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
                assert!(file.is_clean() && trees.defects.is_empty(), "slot {slot}: {file:?} {trees:?}");
                assert_eq!((trees.rows, trees.index_entries, trees.orphans), (rows.len() as u64, 0, 0));
                saved += 1;
            }
            restore(&env, &worn_file);
        }
        assert!(saved > 1, "{saved} slots are the index's");
    }
}

#[test]
fn a_unique_constraint_goes_with_its_index_and_foreign_keys_only_if_told_so() {
    let world = World::new(11);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    let parent = block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let (parent, child) = server
            .auto(|view| {
                let mut ddl = view.ddl()?;
                let parent = create(&mut ddl, "parent", &[("id", PgType::Int4), ("code", PgType::Int4)], 1)?;
                let columns = vec![1];
                ddl.add_unique(parent, NewUnique { name: None, columns, nulls_not_distinct: false })?;
                let child = create(&mut ddl, "child", &[("id", PgType::Int4), ("code", PgType::Int4)], 1)?;
                Ok((parent, child))
            })
            .await
            .unwrap();
        server
            .auto(|view| {
                let new = NewForeignKey {
                    name: None,
                    columns: vec![1],
                    referenced_table: parent,
                    referenced_columns: Some(vec![1]),
                    on_delete: ReferentialAction::NoAction,
                    on_update: ReferentialAction::NoAction,
                    match_type: MatchType::Simple,
                    deferral: Deferral::NotDeferrable,
                    rows: RowsNow::Checked,
                };
                view.ddl()?.add_foreign_key(child, new).map(drop)
            })
            .await
            .unwrap();
        assert!(server.checkpoint().await);
        parent
    });
    let error = repaired(&env, "public.parent_code_key").unwrap_err();
    assert!(error.to_string().contains("child_code_fkey"), "{error}");
    let redo = recover(&env, &["/log".into()]).unwrap();
    let names = ["public.parent_code_key".to_owned()];
    let report = repair(&env, Path::new(DATA), TENANT, &redo, &names, Behavior::Cascade).unwrap();
    assert!(report.dropped[0].constraint);
    assert_eq!(report.dropped[0].also_dropped, ["constraint child_code_fkey on table child"]);
    block_on(&env, async {
        let server = open(&env).await;
        let catalog = server.tenant.catalog();
        let parent = catalog.table(parent).unwrap();
        assert!(parent.indexes.len() == 1 && parent.referenced_by.is_empty());
    });
}

#[test]
fn a_repair_that_fails_says_whether_it_changed_anything() {
    let world = World::new(12);
    worn(&world, 5);
    let env = world.env();
    let before = bytes_of(&env);
    let check = || verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
    let (root, entries) = (check().0.root, check().1.index_entries);
    assert!(entries > 0);
    let (mut unchanged, mut in_doubt) = (0, 0);
    for after in 0.. {
        world.inject(DiskFault { after, ..DiskFault::eio(DiskOp::Write, DATA) });
        let outcome = repaired(&env, INDEX);
        let has_failed = world.faults_struck() > 0;
        world.mend_disk();
        let (file, trees) = check();
        assert!(file.is_clean() && trees.defects.is_empty(), "after {after}: {file:?} {trees:?}");
        match outcome {
            Ok(report) => {
                assert!(!has_failed && trees.index_entries == 0 && file.root.commit == report.commit);
                break;
            }
            Err(RepairError::InDoubt(_)) => in_doubt += 1,
            Err(error) => {
                assert!(has_failed && (file.root, trees.index_entries) == (root.clone(), entries), "{error}");
                unchanged += 1;
            }
        }
        restore(&env, &before);
    }
    assert!(unchanged > 2 && in_doubt == 2, "{unchanged} {in_doubt}: one for each superblock");
}

/// Roots that are written meanwhile are of the tenant as it was, with its index.
#[test]
fn a_repair_replays_more_than_memory_has_room_for_and_may_be_cut_off() {
    let world = World::new(13);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    let row = |id: i32| vec![int(id), text(&format!("{id:06}")), text(&"x".repeat(1000))];
    let before = block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let columns = [("id", PgType::Int4), ("v", PgType::Text), ("w", PgType::Text)];
        let made = server.auto(|view| {
            let mut ddl = view.ddl()?;
            let t = create(&mut ddl, "t", &columns, 1)?;
            let columns = vec![crate::catalog::IndexColumn::ascending(1)];
            let index = crate::ddl::NewIndex {
                name: None,
                columns,
                unique: false,
                nulls_not_distinct: false,
                ..crate::ddl::NewIndex::default()
            };
            ddl.create_index(t, index)?;
            Ok(t)
        });
        let t = made.await.unwrap();
        let mut before = server.tenant.committed();
        for id in (0..24_000).step_by(8) {
            if id == 96 {
                assert!(server.checkpoint().await);
                before = server.tenant.committed();
            }
            let insert = |view: &mut View<'_>| {
                let table = view.table(t)?;
                (id..id + 8).try_for_each(|id| view.insert(&table, &row(id)).map(drop))
            };
            server.auto(insert).await.unwrap();
        }
        flush(&mut server).await;
        before
    });
    let redo = recover(&env, &["/log".into()]).unwrap();
    let names = [INDEX.to_owned()];
    let check = || {
        let (file, trees) = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
        assert!(file.is_clean() && trees.defects.is_empty(), "{file:?} {trees:?}");
        (file, [trees.rows, trees.index_entries])
    };
    let first = check().0.generation;
    let (mut cut_off, mut polls_max) = (0, 16);
    loop {
        let budget = no_limit();
        let repaired = block_on(&env, async {
            let repair =
                repair_file(&env, Path::new(DATA), TENANT, &redo, &names, Behavior::Restrict, &budget);
            let (mut repair, mut polls, mut most) = (Box::pin(repair), 0, ByteCount(0));
            let repaired = std::future::poll_fn(|cx| {
                polls += 1;
                let polled = repair.as_mut().poll(cx).map(|outcome| Some(outcome.unwrap()));
                most = most.max(budget.resident());
                if polled.is_pending() && polls == polls_max { Poll::Ready(None) } else { polled }
            })
            .await;
            // A batch is 4 MiB of records, of 25.
            assert!(most < ByteCount::from_mib(16), "{most} in memory");
            drop(repair);
            // What was being written then is.
            env::sleep(base::Nanos::from_secs(1)).await;
            repaired
        });
        let (file, counts) = check();
        if let Some(report) = repaired {
            assert_eq!((report.defects, counts, file.root.commit), (Vec::new(), [24_000, 0], report.commit));
            break;
        }
        assert_eq!((counts, file.root.commit), ([96, 96], before), "after {polls_max} polls");
        cut_off += u32::from(file.generation > first);
        polls_max *= 2;
    }
    assert!(cut_off > 0, "it ended before it had written a root");
}
