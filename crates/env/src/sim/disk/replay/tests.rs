//! Recordings of the real machine, and ones made by hand, against the files that they are of.

use std::collections::BTreeSet;

use super::*;
use crate::real::{env_recorded_with, has_ring};
use crate::{Env, IoBuf, OpenMode, block_on};

/// A directory whose changes are recorded.
struct Recorded {
    dir: tempfile::TempDir,
    env: Env,
}

impl Recorded {
    /// `base`: what is there before.
    fn on(backend: &str, base: &[(&str, &[u8])]) -> Recorded {
        let dir = tempfile::tempdir().unwrap();
        for part in ["data", "base"] {
            fs::create_dir(dir.path().join(part)).unwrap();
            base.iter().for_each(|(name, bytes)| fs::write(dir.path().join(part).join(name), bytes).unwrap());
        }
        let env = env_recorded_with(backend, &dir.path().join("recording")).unwrap();
        Recorded { dir, env }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    /// How long the recording is by now.
    fn len(&self) -> u64 {
        fs::metadata(self.dir.path().join("recording")).unwrap().len()
    }

    fn replay(&self) -> Replay {
        let at = |name: &str| self.dir.path().join(name);
        Replay::open(&at("recording"), &at("data"), Some(&at("base"))).unwrap()
    }
}

fn on_both(test: impl Fn(&str)) {
    test("epoll");
    if has_ring() {
        test("uring");
    } else {
        eprintln!("no io_uring here: only epoll is tested");
    }
}

/// The files of a real directory, with the directories below it.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let below = files(&entry.path());
            found.extend(below.into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
            found.insert(name + "/", Vec::new());
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn left(image: &Image) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    image.write_to(&dir.path().join("image")).unwrap();
    files(&dir.path().join("image"))
}

#[test]
fn what_a_flush_covered_is_in_every_image_and_what_came_after_it_in_some() {
    on_both(|backend| {
        let recorded = Recorded::on(backend, &[]);
        let (env, path) = (&recorded.env, recorded.path("f"));
        let file = env.disk.open(&path, OpenMode::CreateNew, false).unwrap();
        env.disk.sync_dir(path.parent().unwrap()).unwrap();
        block_on(env, async {
            file.write_all_at(IoBuf::copy_of(&[1; 4096]), 0).await.0.unwrap();
            file.sync_data().await.unwrap();
        });
        let synced = recorded.len();
        block_on(env, async {
            file.write_all_at_durable(IoBuf::copy_of(&[2; 512]), 8192).await.0.unwrap();
        });
        let durable = recorded.len();
        file.write_at(&[3; 4096], 0).unwrap();
        let written = recorded.len();

        let mut replay = recorded.replay();
        let image = replay.cut(synced, PowerCut::DropUnsynced, 0).unwrap();
        assert_eq!((left(&image)["f"].as_slice(), image.undecided()), (&[1; 4096][..], 0), "{backend}");
        let kept = [vec![1; 4096], vec![0; 4096], vec![2; 512]].concat();
        for at in [durable, written] {
            let image = replay.cut(at, PowerCut::DropUnsynced, 0).unwrap();
            assert!(left(&image)["f"] == kept, "{backend}: more or less than was durable");
        }
        let mut seen = BTreeSet::new();
        for seed in 0..20 {
            let image = replay.cut(written, PowerCut::Random, seed).unwrap();
            assert_eq!(image.undecided(), 8);
            let bytes = left(&image).remove("f").unwrap();
            assert!(bytes[4096..] == kept[4096..], "{backend}, seed {seed}: what was durable has changed");
            for sector in bytes[..4096].chunks(SECTOR) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole");
                seen.insert(sector[0]);
            }
        }
        assert_eq!(seen, BTreeSet::from([1, 3]), "{backend}");
    });
}

#[test]
fn once_all_is_flushed_the_image_is_the_directory() {
    on_both(|backend| {
        let base: &[(&str, &[u8])] = &[("kept", b"as it was"), ("removed", b"x"), ("replaced", b"old")];
        let recorded = Recorded::on(backend, base);
        let disk = &recorded.env.disk;
        let open = |name: &str| disk.open(&recorded.path(name), OpenMode::Create, false).unwrap();
        disk.remove(&recorded.path("removed")).unwrap();
        disk.create_dir_all(&recorded.path("below/it")).unwrap();
        disk.create_dir_all(&recorded.path("gone")).unwrap();
        disk.write_small_atomic(&recorded.path("gone/with it"), b"y", 0o600).unwrap();
        disk.remove_dir_all(&recorded.path("gone")).unwrap();
        disk.write_small_atomic(&recorded.path("small"), b"small", 0o600).unwrap();
        disk.write_small_atomic(&recorded.path("small"), b"smaller", 0o600).unwrap();
        let file = open("below/it/allocated");
        file.allocate(0, 1 << 20).unwrap();
        file.write_at(&[7; 1000], 300_000).unwrap();
        file.set_len(700_000).unwrap();
        let other = open("other");
        other.write_at(b"new", 0).unwrap();
        disk.rename(&recorded.path("other"), &recorded.path("replaced")).unwrap();
        for file in [file, other] {
            block_on(&recorded.env, async { file.sync_data().await.unwrap() });
        }
        for dir in ["", "below", "below/it"] {
            disk.sync_dir(&recorded.path(dir)).unwrap();
        }
        let image = recorded.replay().cut(recorded.len(), PowerCut::DropUnsynced, 0).unwrap();
        assert!(left(&image) == files(&recorded.path("")), "{backend}: {:?}", left(&image).keys());
    });
}

#[test]
fn a_small_file_is_old_or_new_wherever_the_power_fails() {
    let recorded = Recorded::on("epoll", &[("small", b"old")]);
    let since = recorded.len();
    recorded.env.disk.write_small_atomic(&recorded.path("small"), b"newer", 0o600).unwrap();
    let mut replay = recorded.replay();
    let mut seen = BTreeSet::new();
    for at in since..=recorded.len() {
        let image = replay.cut(at, PowerCut::Random, at).unwrap();
        seen.insert(left(&image).remove("small").expect("one or the other"));
    }
    assert_eq!(seen, BTreeSet::from([b"old".to_vec(), b"newer".to_vec()]));
    let last = replay.cut(recorded.len(), PowerCut::DropUnsynced, 0).unwrap();
    assert_eq!(left(&last)["small"], b"newer");
}

/// A recording made by hand, of `/d`, and where each of its events ends.
fn recording_of(events: &[Event<'_>]) -> (tempfile::NamedTempFile, Vec<u64>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for event in events {
        event.append_to(&mut bytes);
        ends.push(bytes.len() as u64);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    (file, ends)
}

#[test]
fn a_sync_covers_what_had_ended_when_it_began_and_counts_when_it_has_ended() {
    let (fd, path) = (3, Path::new("/d/f"));
    let write = |tag: u64, offset: u64, bytes: &'static [u8]| Event::WriteBegun {
        tag,
        fd,
        offset,
        durable: false,
        bytes,
    };
    let (file, ends) = recording_of(&[
        Event::Opened { fd, made: true, path },
        Event::DirSynced { path: Path::new("/d") },
        write(8, 0, &[1; 512]),
        write(16, 512, &[2; 512]),
        Event::Ended { tag: 8, done: Some(512) },
        Event::SyncBegun { tag: 24, fd },
        Event::Ended { tag: 16, done: Some(512) },
        write(32, 1024, &[3; 512]),
        Event::Ended { tag: 32, done: Some(512) },
        Event::Ended { tag: 24, done: Some(0) },
    ]);
    let mut replay = Replay::open(file.path(), Path::new("/d"), None).unwrap();
    let image = replay.cut(ends[3], PowerCut::DropUnsynced, 0).unwrap();
    assert_eq!((left(&image)["f"].len(), image.undecided()), (0, 2), "both are under way");
    let image = replay.cut(ends[8], PowerCut::DropUnsynced, 0).unwrap();
    assert_eq!((left(&image)["f"].len(), image.undecided()), (0, 3), "the sync has not ended");
    let image = replay.cut(ends[9] - 1, PowerCut::DropUnsynced, 0).unwrap();
    assert_eq!(left(&image)["f"].len(), 0, "nor is it told of");
    let image = replay.cut(ends[9], PowerCut::DropUnsynced, 0).unwrap();
    assert_eq!((left(&image)["f"].as_slice(), image.undecided()), (&[1; 512][..], 2));

    let mut lying = Replay::open(file.path(), Path::new("/d"), None).unwrap().ignoring_flushes();
    let image = lying.cut(ends[9], PowerCut::DropUnsynced, 0).unwrap();
    assert_eq!((left(&image)["f"].len(), image.undecided()), (0, 3));
}

#[test]
fn what_failed_may_have_arrived_and_a_failed_sync_saves_nothing() {
    let (fd, path) = (3, Path::new("/d/f"));
    let (file, ends) = recording_of(&[
        Event::Opened { fd, made: true, path },
        Event::DirSynced { path: Path::new("/d") },
        Event::WriteBegun { tag: 8, fd, offset: 0, durable: true, bytes: &[1; 512] },
        Event::Ended { tag: 8, done: None },
        Event::SyncBegun { tag: 16, fd },
        Event::Ended { tag: 16, done: None },
        Event::Closed { fd },
    ]);
    let mut replay = Replay::open(file.path(), Path::new("/d"), None).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        seen.insert(left(&replay.cut(ends[6], PowerCut::Random, seed).unwrap())["f"].clone());
    }
    assert!(seen.contains(&Vec::new()) && seen.contains(&vec![1; 512]), "{seen:?}");
}

#[test]
fn zeros_where_nothing_was_leave_nothing_to_decide() {
    let (fd, path) = (3, Path::new("/d/f"));
    let write =
        |tag: u64, bytes: &'static [u8]| Event::WriteBegun { tag, fd, offset: 0, durable: false, bytes };
    let (file, ends) = recording_of(&[
        Event::Opened { fd, made: true, path },
        Event::DirSynced { path: Path::new("/d") },
        write(8, &[0; 8192]),
        Event::Ended { tag: 8, done: Some(8192) },
        write(8, &[1; 512]),
        Event::Ended { tag: 8, done: Some(512) },
        write(8, &[0; 1024]),
        Event::Ended { tag: 8, done: Some(1024) },
    ]);
    let mut replay = Replay::open(file.path(), Path::new("/d"), None).unwrap();
    assert_eq!(replay.cut(ends[3], PowerCut::Random, 0).unwrap().undecided(), 0);
    assert_eq!(replay.cut(ends[5], PowerCut::Random, 0).unwrap().undecided(), 1);
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let image = replay.cut(ends[7], PowerCut::Random, seed).unwrap();
        assert_eq!(image.undecided(), 1);
        let bytes = left(&image).remove("f").unwrap();
        if !bytes.is_empty() {
            assert!(bytes.len() == 8192 && bytes[1..512].iter().all(|byte| *byte == bytes[0]));
            assert!(bytes[512..].iter().all(|byte| *byte == 0));
            seen.insert(bytes[0]);
        }
    }
    assert_eq!(seen, BTreeSet::from([0, 1]));
}

#[test]
fn what_is_elsewhere_is_left_out_and_may_not_come_in() {
    let (elsewhere, inside) = (Path::new("/tmp/f"), Path::new("/d/f"));
    let (file, ends) = recording_of(&[
        Event::DirsMade { path: Path::new("/tmp") },
        Event::Opened { fd: 3, made: true, path: elsewhere },
        Event::WriteBegun { tag: 8, fd: 3, offset: 0, durable: true, bytes: b"x" },
        Event::Ended { tag: 8, done: Some(1) },
        Event::SyncBegun { tag: 8, fd: 3 },
        Event::Ended { tag: 8, done: Some(0) },
        Event::LenSet { fd: 3, len: 0 },
        Event::Closed { fd: 3 },
        Event::Renamed { from: elsewhere, to: inside },
    ]);
    let mut replay = Replay::open(file.path(), Path::new("/d"), None).unwrap();
    assert!(left(&replay.cut(ends[7], PowerCut::Random, 0).unwrap()).is_empty());
    let refused = replay.cut(ends[8], PowerCut::Random, 0).err().expect("it is not known");
    assert!(refused.to_string().contains("outside"), "{refused}");
}
