//! Making, opening and refusing data files.

use std::path::Path;

use base::{CommitNo, TenantId};
use env::block_on;
use env::sim::{DiskFault, DiskOp, World};

use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::{Checkpoint, DataFile, FileError, ReadPages, Root, WritePages};

#[test]
fn a_new_file_is_three_slots_and_opens_empty() {
    let store = Store::create();
    assert_eq!(store.disk.lock().bytes.len(), 3 * 8192);
    store.verify();
    let mut store = store.reopen();
    assert_eq!(store.commit, CommitNo(0));
    store.check();
}

#[test]
fn a_file_is_not_made_over_another() {
    let store = Store::create();
    let again = block_on(&store.env, DataFile::create(&store.env, Path::new(PATH), TENANT));
    assert!(matches!(again, Err(FileError::Io { .. })));
}

#[test]
fn pages_of_many_levels_come_back() {
    let mut store = Store::create();
    for value in 0..70_000_u64 {
        if value.is_multiple_of(37) {
            store.allocate(value);
        } else {
            store.map.allocate(None);
        }
    }
    let empty: Vec<_> = (1..=70_000).map(base::PageNo).filter(|no| !store.model.contains_key(no)).collect();
    for no in empty {
        store.map.release(no);
    }
    store.checkpoint();
    assert!(store.verify().map_nodes > 256);
    let mut store = store.reopen();
    store.check();
    assert_ne!(store.map.page(base::PageNo(5)).err(), None);
}

#[test]
fn a_checkpoint_writes_only_what_changed() {
    let mut store = Store::create();
    let pages: Vec<_> = (0..1000).map(|i| store.allocate(i)).collect();
    store.checkpoint();
    assert_eq!(store.map.changed_pages(), 0);
    store.write(pages[7], 1);
    store.write(pages[8], 2);
    drop(store.map.snapshot());
    store.write(pages[8], 3);
    let made = store.allocate(4);
    store.release(made);
    assert_eq!(store.map.changed_pages(), 2);
    let mut checkpoint = store.begin();
    let counts = block_on(&store.env, checkpoint.run()).expect("the disk works");
    checkpoint.finish(&mut store.map, &mut store.file);
    let expected = (2, 3, 1);
    assert_eq!((counts.pages, counts.map_nodes, counts.free_set_pages), expected, "two leaves and the root");
    let mut checkpoint = store.begin();
    let counts = block_on(&store.env, checkpoint.run()).expect("the disk works");
    checkpoint.finish(&mut store.map, &mut store.file);
    assert_eq!((counts.pages, counts.map_nodes, counts.free_set_pages), (0, 0, 0), "only the superblock");
}

#[test]
fn a_file_stops_growing_when_the_same_pages_change() {
    let mut store = Store::create();
    let pages: Vec<_> = (0..300).map(|i| store.allocate(i)).collect();
    let mut lens = Vec::new();
    for round in 0..12 {
        for no in &pages {
            store.write(*no, round);
        }
        store.checkpoint();
        lens.push(store.disk.lock().bytes.len());
    }
    assert_eq!(lens[2], lens[11], "two copies of each page are enough: {lens:?}");
    store.verify();
}

#[test]
fn a_file_is_cut_when_most_of_it_is_free_wherever_the_rest_lies() {
    for keep in [0, 1500, 2980] {
        let env = env::sim::World::new(1).env();
        env.disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
        let len = || env.disk.open(Path::new(PATH), env::OpenMode::Read, false)?.len();
        let mut store = Store::create_in(env.clone(), JournalFile::default());
        let pages: Vec<_> = (0..3000).map(|i| store.allocate(i)).collect();
        store.checkpoint();
        let long = len().expect("a file");
        let kept = keep..keep + 20;
        pages.iter().enumerate().filter(|(i, _)| !kept.contains(i)).for_each(|(_, no)| store.release(*no));
        for _ in 0..5 {
            store.checkpoint();
            store.verify();
        }
        let short = len().expect("a file");
        assert!(short * 10 < long, "{short} of {long} bytes for 20 pages from {keep} on");
        // It is whole for the next start, and grows as before.
        let mut store = store.reopen();
        store.check();
        (0..500).for_each(|i| assert!(store.allocate(i).0 > 0));
        store.checkpoint();
        store.verify();
        store.reopen().check();
    }
}

#[test]
fn what_a_checkpoint_that_failed_made_of_the_file_is_cut_off_by_the_next_start() {
    let world = World::new(1);
    let env = world.env();
    env.disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let len = || env.disk.open(Path::new(PATH), env::OpenMode::Read, false).and_then(|file| file.len());
    let mut store = Store::create_in(env.clone(), JournalFile::default());
    (0..10).for_each(|value| _ = store.allocate(value));
    store.checkpoint();
    let short = len().expect("a file");
    let many: Vec<_> = (0..2000).map(|value| store.allocate(value)).collect();
    world.inject(DiskFault { after: 60, ..DiskFault::eio(DiskOp::Write, PATH) });
    let mut checkpoint = store.begin();
    assert!(block_on(&store.env, checkpoint.run()).is_err());
    assert!(!checkpoint.finish(&mut store.map, &mut store.file));
    many.iter().for_each(|no| store.release(*no));
    assert!(len().expect("a file") > 4 * short, "it has grown");
    let mut store = store.reopen();
    store.checkpoint();
    assert!(len().expect("a file") <= 2 * short);
    store.verify();
    store.reopen().check();
}

#[test]
fn a_snapshot_keeps_its_slots_from_being_written() {
    let mut store = Store::create();
    let pages: Vec<_> = (0..50).map(|i| store.allocate(i)).collect();
    store.checkpoint();
    assert!(pages.iter().all(|no| store.map.evict(*no)));
    // The live map gives the pages up unread, so the snapshot has nothing but their slots.
    let snapshot = store.map.snapshot();
    for no in &pages {
        store.release(*no);
    }
    for round in 0..5 {
        for i in 0..50 {
            store.allocate(1000 * round + i);
        }
        store.checkpoint();
        store.verify();
    }
    let (_, held) = store.file.used().expect("no checkpoint runs");
    assert_eq!(held.0, 51 * 8192, "fifty pages and a map node");
    for (i, no) in pages.iter().enumerate() {
        assert_eq!(stamp_of(snapshot.pinned().read(*no).expect("readable")), Some(i as u64));
    }
    drop(snapshot);
    store.checkpoint();
    assert_eq!(store.file.used().expect("no checkpoint runs").1.0, 0);
    store.verify();
}

#[test]
fn evicted_pages_are_read_again_by_map_and_snapshot() {
    let mut store = Store::create();
    let pages: Vec<_> = (0..50).map(|i| store.allocate(i)).collect();
    assert!(!store.map.evict(pages[0]), "nothing else holds it");
    store.checkpoint();
    let before = store.map.resident_bytes();
    assert!(pages.iter().all(|no| store.map.evict(*no)));
    assert_eq!(store.map.resident_bytes().0, before.0 - 50 * 8192);
    let snapshot = store.map.snapshot();
    assert_eq!(stamp_of(snapshot.pinned().read(pages[3]).expect("readable")), Some(3));
    assert!(store.map.page(pages[3]).is_ok(), "loaded for all roots that share it");
    store.check();
}

#[test]
fn the_wrong_tenant_and_no_data_file_are_refused() {
    let store = Store::create();
    let other = block_on(&store.env, DataFile::open(&store.env, Path::new(PATH), TenantId(17)));
    assert!(matches!(other, Err(FileError::OtherTenant { found: TENANT, expected: TenantId(17), .. })));
    for bytes in [vec![], vec![0; 100], vec![0; 3 * 8192], b"<html>".repeat(10_000)] {
        let env = JournalFile::with_bytes(bytes).env();
        let opened = block_on(&env, DataFile::open(&env, Path::new(PATH), TENANT));
        assert!(matches!(opened, Err(FileError::NotADataFile { .. })));
    }
}

#[test]
fn a_newer_format_is_refused() {
    let store = Store::create();
    let mut bytes = store.disk.lock().bytes.clone();
    bytes[8192 + 8] = 2;
    let checksum = crc32c::crc32c(&bytes[8192..2 * 8192 - 4]).to_le_bytes();
    bytes[2 * 8192 - 4..2 * 8192].copy_from_slice(&checksum);
    let env = JournalFile::with_bytes(bytes).env();
    let opened = block_on(&env, DataFile::open(&env, Path::new(PATH), TENANT));
    let Err(error) = opened else { panic!("opened a newer format") };
    assert_eq!(
        error.to_string(),
        format!("{PATH}: written by a newer version (format 2; this build reads up to 1)")
    );
    assert!(matches!(verify(&env), Err(FileError::NewerFormat { .. })));
}

#[test]
fn a_shortened_file_is_refused_with_its_place() {
    let mut store = Store::create();
    store.allocate(1);
    store.checkpoint();
    let mut bytes = store.disk.lock().bytes.clone();
    bytes.truncate(4 * 8192);
    let env = JournalFile::with_bytes(bytes).env();
    let opened = block_on(&env, DataFile::open(&env, Path::new(PATH), TENANT));
    assert!(matches!(opened, Err(FileError::Corrupt(corrupt)) if corrupt.offset == Some(4 * 8192)));
}

#[test]
fn a_full_disk_leaves_the_old_root_and_a_later_checkpoint_succeeds() {
    let mut store = Store::create();
    let pages: Vec<_> = (0..200).map(|i| store.allocate(i)).collect();
    store.checkpoint();
    for no in &pages {
        store.write(*no, 9);
    }
    for (writes, no) in pages.iter().enumerate().take(3) {
        store.disk.fail_after(Some(writes));
        let mut checkpoint = store.begin();
        assert!(matches!(block_on(&store.env, checkpoint.run()), Err(FileError::Io { .. })));
        assert!(!checkpoint.finish(&mut store.map, &mut store.file));
        store.disk.fail_after(None);
        store.write(*no, 10);
        store.verify();
    }
    store.checkpoint();
    store.verify();
    store.reopen().check();
}

#[test]
fn a_checkpoint_dropped_half_way_closes_the_file() {
    let mut store = Store::create();
    store.allocate(1);
    let checkpoint = store.begin();
    drop(checkpoint);
    let again = Checkpoint::begin(&mut store.map, &mut store.file, Root::default());
    assert!(matches!(again, Err(FileError::Closed { .. })));
}

#[test]
fn a_failed_sync_closes_the_file_and_reopening_finds_one_of_the_roots() {
    for syncs in 0..2 {
        let mut store = Store::create();
        let no = store.allocate(1);
        store.checkpoint();
        store.write(no, 2);
        let mut checkpoint = store.begin();
        store.durable.insert(store.commit, store.model.clone());
        store.disk.fail_sync_after(Some(syncs));
        let outcome = block_on(&store.env, checkpoint.run());
        assert!(matches!(outcome, Err(FileError::Io { .. } | FileError::IoAt { .. })), "{outcome:?}");
        assert!(!checkpoint.finish(&mut store.map, &mut store.file));
        store.disk.fail_sync_after(None);
        let again = Checkpoint::begin(&mut store.map, &mut store.file, Root::default());
        assert!(matches!(again, Err(FileError::Closed { .. })));
        store.check();
        let mut store = store.reopen();
        store.check();
        store.checkpoint();
        store.verify();
    }
}

#[test]
fn a_map_has_no_nodes_of_pages_that_are_gone() {
    let mut store = Store::create();
    // A page in each leaf, below several inner nodes.
    let fanout = crate::radix::FANOUT as u32;
    for leaf in (0..70_000).step_by(1000) {
        store.map.skip_to(leaf * fanout + 1);
        store.allocate(u64::from(leaf));
    }
    let pages: Vec<_> = store.model.keys().copied().collect();
    store.checkpoint();
    let snapshot = store.map.snapshot();
    store.fork();
    store.in_branch(|store| pages[3..].iter().for_each(|no| store.release(*no)));
    pages[1..].iter().for_each(|no| store.release(*no));
    store.checkpoint();
    assert_eq!(store.verify().map_nodes, 1 + u64::from(crate::radix::INNER_LEVELS_MAX));
    store.check();
    store.adopt();
    store.checkpoint();
    store.verify();
    store.check();
    pages[..3].iter().for_each(|no| store.release(*no));
    store.checkpoint();
    assert_eq!((store.verify().map_nodes, store.verify().pages), (0, 0));
    drop(snapshot);
    store.allocate(7);
    store.checkpoint();
    store.checkpoint();
    store.verify();
    let mut store = store.reopen();
    store.check();
    assert_eq!(store.map.page_count(), 1);
}

#[test]
fn what_the_disk_cannot_read_hides_nothing_else() {
    let world = World::new(1);
    world.env().disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let mut store = Store::create_in(world.env(), JournalFile::default());
    (0..30).for_each(|value| _ = store.allocate(value));
    store.checkpoint();
    let whole = store.verify();
    // The superblocks are read together; each other slot by itself.
    for slot in 0..whole.slots_used - 2 {
        let fault = DiskFault { after: 1 + slot, ..DiskFault::eio(DiskOp::Read, PATH) };
        world.inject(fault);
        let (report, _) = verify(&store.env).expect("can be checked");
        assert!(world.faults_struck() == 1 && report.defect_count == 1, "{report:#?}");
        assert!(report.defects[0].offset.expect("a place") >= 2 * 8192);
        assert!(report.pages >= 29 || report.map_nodes == 0, "{report:#?}");
        world.mend_disk();
    }
    store.verify();
}

#[test]
fn a_superblock_that_the_disk_cannot_read_gives_way_to_the_other() {
    let world = World::new(1);
    world.env().disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let mut store = Store::create_in(world.env(), JournalFile::default());
    (0..30).for_each(|value| _ = store.allocate(value));
    store.checkpoint();
    let unreadable = |slot| {
        // The first read is of both.
        world.mend_disk();
        world.inject(DiskFault::eio(DiskOp::Read, PATH));
        world.inject(DiskFault { after: slot, ..DiskFault::eio(DiskOp::Read, PATH) });
    };
    for slot in 0..2 {
        unreadable(slot);
        let spare = store.verify().spare_superblock.expect("it is told of");
        assert_eq!((world.faults_struck(), spare.offset), (2, Some(slot * 8192)));
        unreadable(slot);
        store = store.reopen();
        assert_eq!(world.faults_struck(), 2);
        store.check();
        assert_eq!(store.verify().spare_superblock, None);
    }
    (0..3).for_each(|_| world.inject(DiskFault::eio(DiskOp::Read, PATH)));
    let opened = block_on(&store.env, DataFile::open(&store.env, Path::new(PATH), TENANT));
    assert!(matches!(opened.err(), Some(FileError::IoAt { offset: 8192, .. })), "neither can be read");
}

#[test]
fn a_limit_of_a_files_size_ends_no_process() {
    const WITHIN: &str = "ROWHOUSE_TEST_WITHIN_FILE_LIMIT";
    if std::env::var_os(WITHIN).is_none() {
        // Limits are a process's: in one of its own, of whose files none is longer than a mebibyte.
        let name = "tests::files::a_limit_of_a_files_size_ends_no_process";
        let ended = std::process::Command::new("sh")
            .args(["-c", "ulimit -f 2048 && exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().expect("a program"))
            .arg(name)
            .env(WITHIN, "1")
            .output()
            .expect("a shell");
        assert!(ended.status.success(), "{ended:?}");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let env = env::Env::real();
    let path = dir.path().join("16.rowhouse");
    let (mut file, mut map) = block_on(&env, DataFile::create(&env, &path, TENANT)).expect("made");
    (0..400).for_each(|_| _ = map.allocate(None));
    let mut checkpoint = Checkpoint::begin(&mut map, &mut file, Root::default()).expect("no other runs");
    let error = block_on(&env, checkpoint.run()).expect_err("it is not to have room for all");
    assert!(matches!(error, FileError::Io { .. }) && !error.is_full_disk(), "others have space: {error}");
    assert!(!checkpoint.finish(&mut map, &mut file) && !file.is_in_doubt());
}
