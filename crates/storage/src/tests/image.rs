//! Images: what they hold, whose they can be made, and what is refused.

use std::path::{Path, PathBuf};

use base::limits::PAGE_SIZE;
use base::{ByteCount, CommitNo, SlotNo, TenantId};
use env::sim::{PowerCut, World};
use env::{Env, IoBuf, OpenMode, block_on};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::crash::change_some;
use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::{
    DataFile, FileError, IMAGE_HEAD_LEN, ImageFile, ImageReader, ImageWriter, Snapshot, verify_file,
};

const ADOPTER: TenantId = TenantId(77);
const COPY: &str = "data/77.rowhouse";

fn folder(env: &Env) {
    env.disk.create_dir_all(Path::new(COPY).parent().expect("a directory")).expect("made");
}

/// The whole image of `snapshot` as a file of `tenant`.
pub(super) fn image_of(env: &Env, snapshot: Snapshot, tenant: TenantId, commit: CommitNo) -> Vec<u8> {
    block_on(env, async {
        let mut image = ImageWriter::new(snapshot, tenant, root_of(commit)).await.expect("fits");
        let mut bytes = Vec::new();
        while let Some(piece) = image.next().await.expect("readable") {
            bytes.extend_from_slice(&piece);
        }
        assert_eq!(ByteCount(bytes.len() as u64), image.len());
        bytes
    })
}

/// Reads an image to its end.
pub(super) fn check(bytes: &[u8]) -> Result<ImageReader, FileError> {
    let mut reader = ImageReader::begin(Path::new("image"), bytes, None)?;
    let mut page = Box::new([0; PAGE_SIZE]);
    for slot in bytes[IMAGE_HEAD_LEN..].chunks_exact(PAGE_SIZE) {
        page.copy_from_slice(slot);
        reader.slot(&mut page)?;
        assert!(page[..] == *slot, "nothing is changed without an adopter");
    }
    reader.finish()?;
    Ok(reader)
}

/// Makes a data file of `ADOPTER` of an image, in pieces of so many slots.
async fn restore(env: &Env, bytes: &[u8], slots_a_piece: usize) -> Result<(), FileError> {
    let mut reader = ImageReader::begin(Path::new("image"), bytes, Some(ADOPTER))?;
    let mut file = ImageFile::create(env, Path::new(COPY), ADOPTER, reader.len())?;
    for piece in bytes[IMAGE_HEAD_LEN..].chunks(slots_a_piece * PAGE_SIZE) {
        let mut piece = IoBuf::copy_of(piece);
        for slot in piece.chunks_exact_mut(PAGE_SIZE) {
            reader.slot(slot.try_into().expect("one page"))?;
        }
        file.append(piece).await?;
        for (slot, bytes) in reader.take_rewritten() {
            file.rewrite(slot, bytes).await?;
        }
    }
    reader.finish()?;
    file.finish(env, reader.head(reader.root().payload)).await
}

fn bytes_of(env: &Env, path: &str) -> Vec<u8> {
    let file = env.disk.open(&PathBuf::from(path), OpenMode::Read, false).expect("there");
    let mut bytes = vec![0; file.len().expect("known") as usize];
    file.read_at(&mut bytes, 0).expect("readable");
    bytes
}

/// The copy is a whole data file without a free slot, and holds just `model`.
fn check_copy(env: &Env, model: &Model, commit: CommitNo) {
    let mut found = Model::new();
    let report = verify_file(env, Path::new(COPY), &mut |_, _| {}, &mut |no, bytes| {
        found.insert(no, stamp_of(bytes).expect("a checked page is whole"));
    })
    .expect("can be checked");
    assert!(report.is_clean() && report.spare_superblock.is_none(), "{:#?}", report.defects);
    assert_eq!(found, *model);
    assert_eq!((report.tenant, report.root), (ADOPTER, root_of(commit)));
    assert_eq!(report.slots, report.slots_used, "no slot is free");
}

/// A store in a simulated machine whose map has `height` levels of inner nodes.
fn store_of_height(world: &World, height: u32) -> Store {
    folder(&world.env());
    let mut store = Store::create_in(world.env(), JournalFile::default());
    for value in 0..70 {
        store.allocate(value);
    }
    if height > 0 {
        store.map.skip_to((1 << (8 * height)) - 20);
        for value in 0..60 {
            store.allocate(value + 1000);
        }
    }
    store
}

#[test]
fn an_image_is_the_snapshot_whatever_happens_meanwhile() {
    let mut read = 0;
    for seed in 0..30 {
        let world = World::new(seed);
        folder(&world.env());
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = Store::create_in(world.env(), JournalFile::default());
        for round in 0..4 {
            change_some(&mut store, &mut rng);
            if rng.random() {
                store.checkpoint();
            }
            if rng.random() {
                // Cold: the image has to read what it needs.
                store = store.reopen();
            }
            let (snapshot, model, commit) = (store.map.snapshot(), store.model.clone(), store.commit);
            let resident = store.map.resident_bytes();
            let mut image =
                block_on(&store.env, ImageWriter::new(snapshot, ADOPTER, root_of(commit))).expect("fits");
            let mut bytes = Vec::new();
            while let Some(piece) = block_on(&store.env, image.next()).expect("readable") {
                bytes.extend_from_slice(&piece);
                change_some(&mut store, &mut rng);
                if rng.random() {
                    store.checkpoint();
                }
            }
            drop(image);
            read += u64::from(resident < ByteCount(model.len() as u64 * PAGE_SIZE as u64));
            let reader = check(&bytes).unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            assert_eq!((reader.tenant(), reader.root()), (ADOPTER, root_of(commit)));
            block_on(&store.env, restore(&store.env, &bytes, 1 + seed as usize % 5)).expect("restored");
            check_copy(&store.env, &model, commit);
            store.env.disk.remove(Path::new(COPY)).expect("removed");
            store.check();
        }
        store.checkpoint();
        store.verify();
    }
    assert!(read > 10, "only {read} images had to read pages");
}

#[test]
fn an_adopted_image_is_the_one_its_adopter_would_have_made() {
    for height in 0..=3 {
        let world = World::new(7);
        let env = world.env();
        let mut store = store_of_height(&world, height);
        store.checkpoint();
        let commit = store.commit;
        let snapshot = store.map.snapshot();
        let theirs = image_of(&env, snapshot.clone(), TENANT, commit);
        let ours = image_of(&env, snapshot, ADOPTER, commit);
        assert_eq!(check(&theirs).expect("whole").tenant(), TENANT);
        block_on(&env, restore(&env, &theirs, 3)).expect("restored");
        assert!(bytes_of(&env, COPY) == ours, "height {height}");
        check_copy(&env, &store.model, commit);
        if height < 3 {
            // A database goes on from it.
            let (mut file, mut map, root) =
                block_on(&env, DataFile::open(&env, Path::new(COPY), ADOPTER)).expect("opens");
            assert_eq!(root, root_of(commit));
            for (no, value) in &store.model {
                assert_eq!(fetch(&env, &mut map, &file, *no).expect("readable"), *value);
            }
            let mut checkpoint = crate::Checkpoint::begin(&mut map, &mut file, root).expect("no other");
            block_on(&env, checkpoint.run()).expect("the disk works");
            assert!(checkpoint.finish(&mut map, &mut file));
            check_copy_after_checkpoint(&env, &store.model);
        }
    }
}

fn check_copy_after_checkpoint(env: &Env, model: &Model) {
    let mut found = Model::new();
    let report = verify_file(env, Path::new(COPY), &mut |_, _| {}, &mut |no, bytes| {
        found.insert(no, stamp_of(bytes).expect("whole"));
    })
    .expect("can be checked");
    assert!(report.is_clean() && found == *model, "{:#?}", report.defects);
}

#[test]
fn damage_is_reported_where_it_lies() {
    for height in [0, 2] {
        let world = World::new(3);
        let mut store = store_of_height(&world, height);
        let image = image_of(&world.env(), store.map.snapshot(), TENANT, store.commit);
        check(&image).expect("whole");
        for slot in 0..image.len() / PAGE_SIZE {
            for at in [0, 40, 70, PAGE_SIZE - 1] {
                let mut bytes = image.clone();
                bytes[slot * PAGE_SIZE + at] ^= 0x10;
                let error = check(&bytes).err().expect("damage is found");
                let FileError::Corrupt(corrupt) = &error else { panic!("slot {slot}, byte {at}: {error}") };
                assert_eq!(corrupt.slot(), Some(slot as u64), "byte {at}: {error}");
            }
        }
    }
}

#[test]
fn what_is_cut_off_or_too_long_is_refused() {
    let world = World::new(3);
    let mut store = store_of_height(&world, 1);
    let image = image_of(&world.env(), store.map.snapshot(), TENANT, store.commit);
    for slots in 0..image.len() / PAGE_SIZE {
        let error = check(&image[..slots * PAGE_SIZE]).err().expect("too short");
        let FileError::Corrupt(corrupt) = &error else { panic!("{slots} slots: {error}") };
        assert_eq!(corrupt.slot(), Some(slots as u64), "{error}");
    }
    let long = [&image[..], &[0; PAGE_SIZE]].concat();
    assert!(check(&long).is_err());
    assert!(check(&[7; 5 * PAGE_SIZE]).is_err(), "noise");
    // A data file that lived has free slots, or its map elsewhere.
    store.checkpoint();
    store.checkpoint();
    let lived = bytes_of(&world.env(), PATH);
    let error = check(&lived).err().expect("no image");
    assert!(error.to_string().contains("not a dense image"), "{error}");
}

#[test]
fn a_power_cut_leaves_no_half_made_file_that_opens() {
    let (mut none, mut whole) = (0, 0);
    for operations in 0..40 {
        let world = World::new(operations);
        let mut store = store_of_height(&world, 1);
        let image = image_of(&world.env(), store.map.snapshot(), TENANT, store.commit);
        world.cut_power_after(operations);
        let made = block_on(&world.env(), restore(&world.env(), &image, 8));
        let (model, commit) = (store.model.clone(), store.commit);
        drop(store);
        world.power_cut(PowerCut::Random);
        let env = world.env();
        if !env.disk.exists(Path::new(COPY)) {
            assert!(made.is_err(), "{operations}: a finished file is there");
            none += 1;
            continue;
        }
        match block_on(&env, DataFile::open(&env, Path::new(COPY), ADOPTER)) {
            Ok(_) => {
                check_copy(&env, &model, commit);
                whole += 1;
            }
            Err(FileError::NotADataFile { .. } | FileError::Corrupt(_)) => {
                assert!(made.is_err(), "{operations}: a finished file opens");
                none += 1;
            }
            Err(other) => panic!("{operations}: {other}"),
        }
    }
    assert!(none > 5 && whole > 5, "{none} without, {whole} with a file");
}

#[test]
fn a_damaged_page_ends_the_image() {
    let world = World::new(5);
    let env = world.env();
    let mut store = store_of_height(&world, 0);
    store.checkpoint();
    let mut store = store.reopen();
    let location =
        store.map.locate(*store.model.keys().next().expect("a page")).expect("known").expect("cold");
    let SlotNo(slot) = location.location.slot;
    let file = env.disk.open(Path::new(PATH), OpenMode::ReadWrite, false).expect("there");
    file.write_at(&[1, 2, 3], u64::from(slot) * PAGE_SIZE as u64 + 9).expect("written");
    let snapshot = store.map.snapshot();
    let outcome = block_on(&env, async {
        let mut image = ImageWriter::new(snapshot, TENANT, root_of(store.commit)).await?;
        while image.next().await?.is_some() {}
        Ok::<_, FileError>(())
    });
    let Err(FileError::Corrupt(corrupt)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((corrupt.slot(), corrupt.file.as_deref()), (Some(slot.into()), Some(Path::new(PATH))));
}
