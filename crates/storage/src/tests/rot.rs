//! Flipped bits anywhere in the file: found by the check and by readers, never served as data.

use std::path::Path;

use env::block_on;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::{Checkpoint, DataFile, FileError};

fn worn_store() -> Store {
    let mut rng = StdRng::seed_from_u64(3);
    let mut store = Store::create();
    for _ in 0..4 {
        for _ in 0..25 {
            store.allocate(rng.random());
        }
        for i in 0..10 {
            let no = store.pick(i * 7).expect("pages");
            store.write(no, rng.random());
        }
        store.release(store.pick(11).expect("pages"));
        store.checkpoint();
    }
    store
}

/// Opens the file and reads every page of the root it opens at: each is right or refused.
fn read_all(store: &Store, bytes: Vec<u8>) -> usize {
    let env = JournalFile::with_bytes(bytes).env();
    let (_file, mut map, root) = match block_on(&env, DataFile::open(&env, Path::new(PATH), TENANT)) {
        Ok(opened) => opened,
        Err(FileError::Corrupt(_)) => return 1,
        Err(error) => panic!("damage was not called damage: {error}"),
    };
    assert_eq!(root.commit, store.commit, "an older root was opened");
    let mut refused = 0;
    let snapshot = map.snapshot();
    for (no, value) in &store.durable[&root.commit] {
        match snapshot.pinned().read(*no) {
            Ok(bytes) => assert_eq!(stamp_of(bytes), Some(*value), "wrong data was served"),
            Err(FileError::Corrupt(corrupt)) => {
                assert_eq!(corrupt.page, Some(*no));
                refused += 1;
            }
            Err(error) => panic!("damage was not called damage: {error}"),
        }
    }
    refused
}

#[test]
fn a_flipped_bit_in_any_slot_is_found_and_never_served() {
    let store = worn_store();
    let clean = store.disk.lock().bytes.clone();
    let used = store.verify().slots_used;
    let mut rng = StdRng::seed_from_u64(4);
    let mut found = 0;
    for slot in 0..clean.len() / 8192 {
        let mut slot_found = 0;
        for _ in 0..3 {
            let mut bytes = clean.clone();
            let at = slot * 8192 + rng.random_range(0..8192);
            bytes[at] ^= 1 << rng.random_range(0..8);
            let (report, _) =
                verify(&JournalFile::with_bytes(bytes.clone()).env()).expect("one superblock is valid");
            let places = report.defects.iter().chain(&report.spare_superblock);
            let here = places.filter(|corrupt| corrupt.slot() == Some(slot as u64)).count();
            assert!(here <= 1 && (here == 1 || report.is_clean()), "slot {slot}: {report:#?}");
            let refused = read_all(&store, bytes);
            assert!(refused == 0 || here == 1, "readers met what the check had not");
            assert!(refused == 0 || slot >= 2, "both superblocks name the root");
            slot_found += here;
        }
        assert!(slot_found == 0 || slot_found == 3, "slot {slot} is in use or is not");
        found += u64::from(slot_found > 0);
    }
    assert_eq!(found, used, "every slot in use is covered");
}

#[test]
fn a_lost_and_a_misdirected_write_are_found() {
    let store = worn_store();
    let clean = store.disk.lock().bytes.clone();
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..200 {
        let (from, to) = (rng.random_range(2..clean.len() / 8192), rng.random_range(2..clean.len() / 8192));
        let mut bytes = clean.clone();
        bytes.copy_within(from * 8192..(from + 1) * 8192, to * 8192);
        let changed = bytes != clean;
        let (report, _) =
            verify(&JournalFile::with_bytes(bytes.clone()).env()).expect("superblocks are valid");
        let refused = read_all(&store, bytes);
        assert!(refused == 0 || !report.is_clean());
        assert!(report.is_clean() || (changed && report.defects[0].slot() == Some(to as u64)));
    }
}

#[test]
fn a_damaged_free_set_is_made_anew_of_the_map_and_written_with_the_next_root() {
    let store = worn_store();
    let clean = store.disk.lock().bytes.clone();
    let used = store.verify().slots_used;
    let mut mended = 0;
    for slot in 2..clean.len() / 8192 {
        let mut bytes = clean.clone();
        bytes[slot * 8192 + 17] ^= 4;
        let env = JournalFile::with_bytes(bytes).env();
        let opened = block_on(&env, DataFile::open(&env, Path::new(PATH), TENANT));
        let Ok((mut file, mut map, root)) = opened else { continue };
        let Some(damage) = file.mended() else { continue };
        assert_eq!(damage.slot(), Some(slot as u64));
        mended += 1;
        let mut checkpoint = Checkpoint::begin(&mut map, &mut file, root).unwrap();
        block_on(&env, checkpoint.run()).unwrap();
        assert!(checkpoint.finish(&mut map, &mut file));
        let (report, pages) = verify(&env).unwrap();
        assert!(report.is_clean() && report.slots_used == used, "{report:#?}");
        assert_eq!(pages, store.durable[&report.root.commit]);
    }
    assert_eq!(mended, 1, "the set has one page");
}
