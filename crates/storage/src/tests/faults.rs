//! Failures of all kinds, one upon the other: writes, syncs and growth that fail while a checkpoint, what follows its failure and the opening
//! of the file are under way, beside snapshots, branches, power cuts and full disks.

use std::path::Path;

use base::{ByteCount, CommitNo};
use env::block_on;
use env::sim::{DiskFault, DiskOp, PowerCut, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::crash::change_some;
use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::Snapshot;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

type Snapshots = Vec<(Snapshot, Model)>;

fn inject(world: &World, rng: &mut StdRng, ops: &[DiskOp]) {
    for _ in 0..rng.random_range(0..3) {
        let errno = match rng.random_range(0..5) {
            0 => None,
            1 => Some(ENOSPC),
            _ => Some(EIO),
        };
        let op = ops[rng.random_range(0..ops.len())];
        let errno = if matches!(op, DiskOp::Read | DiskOp::Write) { errno } else { errno.or(Some(EIO)) };
        let after = rng.random_range(0..8);
        world.inject(DiskFault { op, path_contains: "16.rowhouse".into(), after, errno });
    }
}

fn change(store: &mut Store, snapshots: &mut Snapshots, rng: &mut StdRng) {
    for _ in 0..rng.random_range(0..4) {
        match rng.random_range(0..12) {
            0..3 => change_some(store, rng),
            3 => snapshots.push((store.map.snapshot(), store.model.clone())),
            4 => {
                if let Some((snapshot, model)) = snapshots.pop() {
                    check_snapshot(&snapshot, &model);
                }
            }
            5 if store.branch.is_none() => store.fork(),
            6 | 7 if store.branch.is_some() => store.in_branch(|store| change_some(store, rng)),
            8 if store.branch.is_some() => store.adopt(),
            9 if store.branch.is_some() => store.drop_branch(),
            10 => drop(store.map.evict_all()),
            11 => {
                // Many pages come or go, so that the file grows much or is cut.
                if store.model.len() > 500 {
                    let gone: Vec<_> = store.model.keys().copied().skip(20).collect();
                    gone.into_iter().for_each(|no| store.release(no));
                } else {
                    (0..600).for_each(|value| _ = store.allocate(value));
                }
            }
            _ => {}
        }
    }
}

struct Run {
    world: World,
    rng: StdRng,
    snapshots: Snapshots,
    /// The newest root that is known to be durable.
    newest: CommitNo,
}

impl Run {
    fn reopen(&mut self, store: Store) -> Store {
        for (snapshot, model) in self.snapshots.drain(..) {
            check_snapshot(&snapshot, &model);
        }
        let models = store.durable.clone();
        drop(store);
        let cut = self.rng.random_range(0..4);
        loop {
            match cut {
                0 => self.world.kill(),
                1 => self.world.power_cut(PowerCut::DropUnsynced),
                2 => self.world.power_cut(PowerCut::Random),
                _ => {}
            }
            inject(&self.world, &mut self.rng, &[DiskOp::Read, DiskOp::Write, DiskOp::Sync]);
            let opened = Store::open_in(self.world.env(), JournalFile::default(), models.clone());
            self.world.mend_disk();
            let Ok(store) = opened else { continue };
            assert!(store.commit >= self.newest, "a durable root is lost");
            self.newest = store.commit;
            return store;
        }
    }

    fn checkpoint(&mut self, mut store: Store) -> Store {
        let rng = &mut self.rng;
        let is_full = rng.random_range(0..6) == 0;
        if is_full {
            let room = ByteCount(rng.random_range(0..100) * 8192);
            self.world.set_disk_capacity(self.world.disk_used() + room);
        } else {
            inject(&self.world, rng, &[DiskOp::Write, DiskOp::Write, DiskOp::Sync, DiskOp::Resize]);
        }
        let mut checkpoint = store.begin();
        let (commit, model) = (store.commit, store.model.clone());
        let written = block_on(&store.env, checkpoint.write());
        if written.is_ok() {
            change(&mut store, &mut self.snapshots, rng);
            if rng.random_range(0..8) > 0 {
                let _ = block_on(&store.env, checkpoint.publish());
            }
            store.durable.insert(commit, model);
        }
        if rng.random() {
            change(&mut store, &mut self.snapshots, rng);
        }
        let published = checkpoint.finish(&mut store.map, &mut store.file);
        self.world.lift_capacity();
        if published {
            self.newest = commit;
        } else if store.file.is_in_doubt() {
            loop {
                inject(&self.world, rng, &[DiskOp::Read, DiskOp::Write, DiskOp::Sync]);
                let made = store.file.make_root_durable();
                self.world.mend_disk();
                if made.is_ok() {
                    break;
                }
            }
            return self.reopen(store);
        }
        self.world.mend_disk();
        store.verify();
        store
    }
}

#[test]
fn failures_upon_failures_lose_no_durable_root() {
    for seed in 0..8 {
        let world = World::new(seed);
        world.env().disk.create_dir_all(Path::new(PATH).parent().expect("a directory")).expect("made");
        let mut store = Store::create_in(world.env(), JournalFile::default());
        let rng = StdRng::seed_from_u64(seed);
        let mut run = Run { world, rng, snapshots: Vec::new(), newest: CommitNo(0) };
        for _ in 0..25 {
            change(&mut store, &mut run.snapshots, &mut run.rng);
            store = match run.rng.random_range(0..8) {
                0 => {
                    store.settle();
                    store
                }
                1 => {
                    store.branch = None;
                    run.reopen(store)
                }
                _ => run.checkpoint(store),
            };
            store.check();
        }
    }
}
