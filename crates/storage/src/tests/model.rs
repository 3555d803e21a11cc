//! Random operations on storage against the model, with checkpoints that overlap changes, evictions, snapshots, failures, reopening
//! and power cuts.

use env::block_on;
use governor::VictimChoice;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::fixture::*;
use super::journal_disk::JournalFile;
use crate::{Settling, Snapshot};

#[derive(Clone, Debug)]
enum Op {
    Allocate(u64),
    Write(usize, u64),
    Release(usize),
    Evict(usize),
    /// So many steps of a sweep.
    Sweep(usize),
    EvictAll,
    Snapshot,
    DropSnapshot(usize),
    Fork,
    /// These changes in the branch.
    InBranch(Vec<Op>),
    Adopt,
    DropBranch,
    ReclaimDiscarded,
    /// With these changes after the pages are written and after the root is flipped.
    Checkpoint(Vec<Op>, Vec<Op>),
    /// Lets go of what branches replaced, with these changes before it looks through the maps and after.
    Settle(Vec<Op>, Vec<Op>),
    /// The disk is full after so many writes.
    FailedCheckpoint(usize),
    Reopen,
    /// The power goes off after this percentage of a checkpoint's writes and syncs, with these changes while it is written;
    /// the number draws what arrived.
    Crash(Vec<Op>, usize, u64),
}

fn small_op() -> BoxedStrategy<Op> {
    let in_branch = prop::collection::vec(page_op(), 1..6);
    prop_oneof![
        8 => page_op(),
        2 => Just(Op::Fork),
        3 => in_branch.prop_map(Op::InBranch),
        1 => Just(Op::Adopt),
        1 => Just(Op::DropBranch),
        1 => Just(Op::ReclaimDiscarded),
    ]
    .boxed()
}

fn page_op() -> BoxedStrategy<Op> {
    prop_oneof![
        4 => any::<u64>().prop_map(Op::Allocate),
        6 => (any::<usize>(), any::<u64>()).prop_map(|(i, v)| Op::Write(i, v)),
        2 => any::<usize>().prop_map(Op::Release),
        2 => any::<usize>().prop_map(Op::Evict),
        2 => (1..8_usize).prop_map(Op::Sweep),
        1 => Just(Op::EvictAll),
        1 => Just(Op::Snapshot),
        1 => any::<usize>().prop_map(Op::DropSnapshot),
    ]
    .boxed()
}

fn op() -> impl Strategy<Value = Op> {
    let some = || prop::collection::vec(small_op(), 0..8);
    prop_oneof![
        20 => small_op(),
        3 => (some(), some()).prop_map(|(a, b)| Op::Checkpoint(a, b)),
        2 => (some(), some()).prop_map(|(a, b)| Op::Settle(a, b)),
        1 => (0..4_usize).prop_map(Op::FailedCheckpoint),
        1 => Just(Op::Reopen),
        1 => (some(), 0..=100_usize, any::<u64>()).prop_map(|(a, at, seed)| Op::Crash(a, at, seed)),
    ]
}

type Snapshots = Vec<(Snapshot, Model)>;

/// Carries out what concerns single pages, in the live state or the branch.
fn apply_to_pages(store: &mut Store, snapshots: &mut Snapshots, op: &Op) {
    match op {
        Op::Allocate(value) => {
            store.allocate(*value);
        }
        Op::Write(i, value) => {
            if let Some(no) = store.pick(*i) {
                store.write(no, *value);
            }
        }
        Op::Release(i) => {
            if let Some(no) = store.pick(*i) {
                store.release(no);
            }
        }
        Op::Evict(i) => {
            if let Some(no) = store.pick(*i) {
                store.map.evict(no);
            }
        }
        Op::Sweep(steps) => {
            let mut choice = VictimChoice::default();
            for _ in 0..*steps {
                store.map.sweep(&mut choice, store.memory.eviction_time());
            }
        }
        Op::EvictAll => {
            store.map.evict_all();
        }
        Op::Snapshot => snapshots.push((store.map.snapshot(), store.model.clone())),
        Op::DropSnapshot(i) => {
            if !snapshots.is_empty() {
                let (snapshot, model) = snapshots.swap_remove(i % snapshots.len());
                check_snapshot(&snapshot, &model);
            }
        }
        _ => unreachable!("an operation on more than pages"),
    }
}

fn apply(store: Store, snapshots: &mut Snapshots, op: &Op) -> Store {
    let mut store = store;
    match op {
        Op::Fork => {
            if store.branch.is_none() {
                store.fork();
            }
        }
        Op::InBranch(ops) => {
            if store.branch.is_some() {
                store.in_branch(|store| ops.iter().for_each(|op| apply_to_pages(store, snapshots, op)));
            }
        }
        Op::Adopt => {
            if store.branch.is_some() {
                store.adopt();
            }
        }
        Op::DropBranch => {
            if store.branch.is_some() {
                store.drop_branch();
            }
        }
        Op::ReclaimDiscarded => {
            store.map.reclaim_discarded();
        }
        Op::Checkpoint(while_writing, while_publishing) => {
            let mut checkpoint = store.begin();
            let (commit, model) = (store.commit, store.model.clone());
            block_on(&store.env, checkpoint.write()).expect("the disk works");
            for op in while_writing {
                store = apply(store, snapshots, op);
            }
            block_on(&store.env, checkpoint.publish()).expect("the disk works");
            store.durable.insert(commit, model);
            for op in while_publishing {
                store = apply(store, snapshots, op);
            }
            assert!(checkpoint.finish(&mut store.map, &mut store.file));
            store.verify();
        }
        Op::Settle(before, after) => {
            let Some(mut settling) = Settling::begin(&mut store.map, &mut store.file) else {
                return store;
            };
            for op in before {
                store = apply(store, snapshots, op);
            }
            block_on(&store.env, settling.run());
            for op in after {
                store = apply(store, snapshots, op);
            }
            settling.finish(&mut store.map, &mut store.file);
        }
        Op::FailedCheckpoint(writes) => {
            let mut checkpoint = store.begin();
            store.disk.fail_after(Some(*writes));
            let written = block_on(&store.env, checkpoint.write());
            store.disk.fail_after(None);
            assert!(
                !checkpoint.finish(&mut store.map, &mut store.file),
                "given up, written or not: {written:?}"
            );
            store.verify();
        }
        Op::Reopen => {
            for (snapshot, model) in snapshots.drain(..) {
                check_snapshot(&snapshot, &model);
            }
            store = store.reopen();
        }
        Op::Crash(while_writing, percent, seed) => {
            store.disk.begin_journal();
            let mut checkpoint = store.begin();
            let (commit, model) = (store.commit, store.model.clone());
            block_on(&store.env, checkpoint.write()).expect("the disk works");
            for op in while_writing {
                store = apply(store, snapshots, op);
            }
            block_on(&store.env, checkpoint.publish()).expect("the disk works");
            store.durable.insert(commit, model);
            let events = store.disk.lock().journal.len();
            let cut = events * percent / 100;
            let image = store.disk.image_after_cut(cut, &mut StdRng::seed_from_u64(*seed));
            for (snapshot, model) in snapshots.drain(..) {
                check_snapshot(&snapshot, &model);
            }
            store = Store::open(JournalFile::with_bytes(image), store.durable).expect("one root is whole");
            assert!(cut < events || store.commit == commit, "the last sync had returned");
            store.verify();
        }
        op => apply_to_pages(&mut store, snapshots, op),
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn storage_agrees_with_the_model(pages in prop_oneof![Just(0_u64), Just(3), Just(600)], ops in prop::collection::vec(op(), 1..120)) {
        let mut store = Store::create();
        for value in 0..pages {
            store.allocate(value);
        }
        let mut snapshots = Snapshots::new();
        for op in &ops {
            store = apply(store, &mut snapshots, op);
        }
        store.check();
        for (snapshot, model) in &snapshots {
            check_snapshot(snapshot, model);
        }
        if store.branch.is_some() {
            store.in_branch(Store::check);
            store.drop_branch();
        }
        while store.map.reclaim_discarded() {}
        store.checkpoint();
        drop(snapshots);
        // Takes in what the one before it freed of an adopted branch's former pages.
        store.checkpoint();
        store.checkpoint();
        store.verify();
        let held = store.file.used().expect("no checkpoint runs").1;
        prop_assert_eq!(held.0, 0, "no snapshot is left to hold a slot");
        prop_assert_eq!(store.memory.resident(), store.map.resident_bytes());
        store.reopen().check();
    }
}
