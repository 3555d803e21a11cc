//! A checkpoint on another thread while the owner changes, copies and takes back pages.

use env::block_on;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::*;

#[test]
fn a_checkpoint_on_another_thread_writes_its_moment() {
    let mut rng = StdRng::seed_from_u64(6);
    let mut store = Store::create();
    for value in 0..700 {
        store.allocate(value);
    }
    for round in 0..25_u64 {
        let mut checkpoint = store.begin();
        let (commit, model) = (store.commit, store.model.clone());
        let env = store.env.clone();
        let checkpoint = std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                block_on(&env, checkpoint.run()).expect("the disk works");
                checkpoint
            });
            while !writing.is_finished() {
                let no = store.pick(rng.random_range(0..700)).expect("pages");
                store.write(no, round << 32 | rng.random_range(0..1000));
                if rng.random_ratio(1, 50) {
                    store.release(no);
                    store.allocate(round);
                    drop(store.map.snapshot());
                }
            }
            writing.join().expect("no panic")
        });
        store.durable.insert(commit, model);
        assert!(checkpoint.finish(&mut store.map, &mut store.file));
        store.verify();
        store.check();
    }
    store.checkpoint();
    store.verify();
    assert_eq!(store.file.used().expect("no checkpoint runs").1.0, 0);
    store.reopen().check();
}
