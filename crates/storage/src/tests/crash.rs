//! Power cuts at every event of a checkpoint: the file opens at the old root or the new one, whole, and goes on.

use base::CommitNo;
use base::limits::PAGE_SIZE;
use env::block_on;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::*;
use super::journal_disk::{Event, JournalFile};
use crate::{DataFile, FileError};

/// Images tried for each place of the cut.
const IMAGES: usize = 3;

pub(super) fn change_some(store: &mut Store, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..80) {
        match (rng.random_range(0..10), store.pick(rng.random_range(0..10_000))) {
            (0..4, _) | (_, None) => {
                store.allocate(rng.random());
            }
            (4..9, Some(no)) => store.write(no, rng.random()),
            (_, Some(no)) => store.release(no),
        }
    }
}

#[test]
fn a_power_cut_at_every_write_leaves_the_old_root_or_the_new_one() {
    for seed in 0..16 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = Store::create();
        for _ in 0..seed % 4 {
            change_some(&mut store, &mut rng);
            store.checkpoint();
        }
        change_some(&mut store, &mut rng);
        let old = store.commit;
        store.disk.begin_journal();
        let snapshot = rng.random::<bool>().then(|| store.map.snapshot());
        if rng.random() {
            // One that the full disk stops half-way has written to free slots only.
            store.disk.fail_after(Some(rng.random_range(0..4)));
            let mut checkpoint = store.begin();
            let _ = block_on(&store.env, checkpoint.write());
            assert!(!checkpoint.finish(&mut store.map, &mut store.file));
            store.disk.fail_after(None);
            change_some(&mut store, &mut rng);
        }
        store.checkpoint();
        drop(snapshot);
        let new = store.commit;
        let events = store.disk.lock().journal.len();
        let writes_of_superblocks: Vec<usize> = {
            let content = store.disk.lock();
            let of_superblock =
                |event: &Event| matches!(event, Event::Write { offset, .. } if *offset < 2 * PAGE_SIZE);
            content.journal.iter().enumerate().filter(|(_, e)| of_superblock(e)).map(|(i, _)| i).collect()
        };
        let [first, second] = writes_of_superblocks[..] else { panic!("{writes_of_superblocks:?}") };
        for cut in 0..=events {
            for _ in 0..IMAGES {
                let image = store.disk.image_after_cut(cut, &mut rng);
                let opened = Store::open(JournalFile::with_bytes(image), store.durable.clone());
                let mut opened = opened.unwrap_or_else(|e| panic!("seed {seed}, cut {cut} of {events}: {e}"));
                assert!(opened.commit == old || cut > first, "no superblock was even written");
                assert!(opened.commit == new || cut <= second, "the first of them was durable");
                opened.verify();
                opened.check();
                // Opened it has the root twice.
                let bytes = opened.disk.lock().bytes.clone();
                for superblock in 0..2 {
                    let mut rotten = bytes.clone();
                    rotten[superblock * PAGE_SIZE + rng.random_range(0..PAGE_SIZE)] ^= 4;
                    let mut mended = Store::open(JournalFile::with_bytes(rotten), opened.durable.clone())
                        .expect("the other superblock is whole");
                    assert_eq!(mended.commit, opened.commit);
                    mended.check();
                    assert_eq!(mended.verify().spare_superblock, None, "opening writes it anew");
                }
                change_some(&mut opened, &mut rng);
                opened.checkpoint();
                assert_eq!(opened.verify().spare_superblock, None, "a torn superblock is overwritten");
                opened.reopen().check();
            }
        }
    }
}

#[test]
fn a_power_cut_while_a_file_is_made_leaves_none_or_an_empty_one() {
    let mut rng = StdRng::seed_from_u64(1);
    let store = Store::create();
    let events = store.disk.lock().journal.len();
    for cut in 0..=events {
        for _ in 0..50 {
            let image = store.disk.image_after_cut(cut, &mut rng);
            let env = JournalFile::with_bytes(image).env();
            match block_on(&env, DataFile::open(&env, std::path::Path::new(PATH), TENANT)) {
                Ok((_, map, root)) => assert_eq!((map.page_count(), root.commit), (0, CommitNo(0))),
                Err(FileError::NotADataFile { .. } | FileError::Corrupt(_)) if cut < events => {}
                Err(error) => panic!("cut {cut} of {events}: {error}"),
            }
        }
    }
}
