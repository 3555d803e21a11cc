//! Storage in the simulated machine: seeded power cuts and kills, one after the other, on the same file.

use std::path::Path;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, PageNo};
use env::block_on;
use env::sim::{DiskFault, DiskOp, PowerCut, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::crash::change_some;
use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::{FileError, PageMap};

#[test]
fn a_file_survives_power_cut_after_power_cut() {
    // Roots that a cut lost, and roots published before it: both must be met. The cut never tears the superblock
    // here, for a durable write is one operation; `crash.rs` does that.
    let (mut lost, mut published) = (0, 0);
    for seed in 0..40 {
        let world = World::new(seed);
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = Path::new(PATH).parent().expect("a directory");
        world.env().disk.create_dir_all(dir).expect("made");
        let mut store = Store::create_in(world.env(), JournalFile::default());
        for cut in 0..12 {
            change_some(&mut store, &mut rng);
            if rng.random() {
                store.checkpoint();
                change_some(&mut store, &mut rng);
            }
            let durable = store.durable.keys().next_back().copied().expect("the empty root");
            world.cut_power_after(rng.random_range(0..12));
            let mut checkpoint = store.begin();
            let written = block_on(&store.env, checkpoint.run());
            // Even if it failed, for its superblock may have reached the disk.
            store.durable.insert(store.commit, store.model.clone());
            checkpoint.finish(&mut store.map, &mut store.file);
            let newest = store.commit;
            let models = std::mem::take(&mut store.durable);
            drop(store);
            match cut % 3 {
                0 => world.kill(),
                1 => world.power_cut(PowerCut::DropUnsynced),
                _ => world.power_cut(PowerCut::Random),
            }
            store = Store::open_in(world.env(), JournalFile::default(), models).expect("opens after a cut");
            assert!(store.commit >= durable, "seed {seed}, cut {cut}: a durable root was lost");
            assert!(
                written.is_err() || store.commit == newest,
                "seed {seed}, cut {cut}: a published root was lost"
            );
            lost += usize::from(store.commit < newest);
            published += usize::from(written.is_ok());
            store.durable.retain(|commit, _| *commit <= store.commit);
            store.verify();
            store.check();
        }
    }
    assert!(lost > 20 && published > 20, "lost {lost}, published {published}");
}

#[test]
fn a_root_that_is_believed_is_durable_although_an_earlier_sync_failed() {
    let mut in_doubt = 0;
    for seed in 0..400 {
        let world = World::new(seed);
        let dir = Path::new(PATH).parent().expect("a directory");
        world.env().disk.create_dir_all(dir).expect("made");
        let mut store = Store::create_in(world.env(), JournalFile::default());
        store.allocate(seed);
        store.checkpoint();
        store.allocate(seed + 1);
        // At some seeds the superblock's write fails, and all of it arrives.
        let errno = DiskFault::eio(DiskOp::Write, PATH).errno;
        world.inject(DiskFault { op: DiskOp::Write, path_contains: PATH.into(), after: seed % 6, errno });
        let mut checkpoint = store.begin();
        let written = block_on(&store.env, checkpoint.run());
        store.durable.insert(store.commit, store.model.clone());
        checkpoint.finish(&mut store.map, &mut store.file);
        let (newest, models) = (store.commit, std::mem::take(&mut store.durable));
        drop(store);
        world.kill();
        world.mend_disk();
        let open = || Store::open_in(world.env(), JournalFile::default(), models.clone());
        world.inject(DiskFault::eio(DiskOp::Sync, PATH));
        drop(open());
        world.mend_disk();
        let believed = open().expect("the disk works again").commit;
        in_doubt += u32::from(written.is_err() && believed == newest);
        world.power_cut(PowerCut::DropUnsynced);
        assert_eq!(open().expect("opens after a cut").commit, believed, "seed {seed}");
    }
    assert!(in_doubt > 0, "no root was ever in doubt");
}

#[test]
fn a_checkpoint_that_somebody_waits_for_is_not_spread() {
    let took = |hurried: bool| {
        let world = World::new(1);
        world.env().disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
        let mut store = Store::create_in(world.env(), JournalFile::default());
        for value in 0..256 {
            store.allocate(value);
        }
        let mut checkpoint = store.begin();
        // Two MiB of pages.
        checkpoint.spread(ByteCount::from_mib(1));
        if hurried {
            checkpoint.hurry().ask();
        }
        let began = store.env.now();
        block_on(&store.env, checkpoint.run()).expect("written");
        let took = store.env.now() - began;
        checkpoint.finish(&mut store.map, &mut store.file);
        took
    };
    assert!(took(false) >= Nanos::from_secs(2));
    assert!(took(true) < Nanos::from_secs(1));
}

/// The file is to be opened anew, and waits for that.
#[test]
fn a_checkpoint_of_a_map_that_is_gone_is_not_written_to_its_end() {
    let world = World::new(1);
    world.env().disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let mut store = Store::create_in(world.env(), JournalFile::default());
    store.checkpoint();
    for value in 0..256 {
        store.allocate(value);
    }
    let mut checkpoint = store.begin();
    // Two MiB of pages.
    checkpoint.spread(ByteCount::from_mib(1));
    store.map = PageMap::new_empty();
    let began = store.env.now();
    let error = block_on(&store.env, checkpoint.run()).expect_err("nobody wants it");
    assert!(matches!(error, FileError::Gone { .. }), "{error}");
    assert!(store.env.now() - began < Nanos::from_secs(1));
    drop(checkpoint);
    let durable = std::mem::take(&mut store.durable);
    drop(store);
    let mut store = Store::open_in(world.env(), JournalFile::default(), durable).expect("its root stands");
    store.verify();
    store.check();
}

#[test]
fn on_a_full_disk_a_checkpoint_takes_what_it_needs() {
    let world = World::new(1);
    world.env().disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
    let mut store = Store::create_in(world.env(), JournalFile::default());
    let pages: Vec<PageNo> = (0..2000).map(|value| store.allocate(value)).collect();
    store.checkpoint();
    let free_pages = |store: &Store| {
        let (len, (used, _)) = store.file.len().zip(store.file.used()).expect("no checkpoint runs");
        ((len.0 - used.0) / PAGE_SIZE as u64) as usize
    };
    // Less than the file would grow by.
    world.set_disk_capacity(world.disk_used() + ByteCount::from_mib(1));
    let changed = free_pages(&store) + 20;
    pages[..changed].iter().for_each(|no| store.write(*no, 9));
    store.checkpoint();
    store.verify();

    // What did not fit leaves no trace.
    world.set_disk_capacity(world.disk_used());
    let many: Vec<PageNo> = (0..free_pages(&store) + 20).map(|_| store.allocate(10)).collect();
    let mut checkpoint = store.begin();
    let error = block_on(&store.env, checkpoint.run()).expect_err("the disk is full");
    assert!(error.is_full_disk(), "{error}");
    assert!(!checkpoint.finish(&mut store.map, &mut store.file));
    many.into_iter().for_each(|no| store.release(no));
    store.write(pages[0], 11);
    store.checkpoint();
    store.verify();
    store.reopen().check();
}
