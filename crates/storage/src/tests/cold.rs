//! Map leaves that are known by the places of their pages alone, and who looks into them.

use std::sync::Barrier;

use base::PageNo;
use env::block_on;
use governor::VictimChoice;

use super::eviction::{lap, store_of};
use super::fixture::*;
use super::image::{check, image_of};
use crate::ReadPages;
use crate::radix::FANOUT;

/// Few enough for all pages to fit the least memory.
const LEAVES: u64 = 3;

/// A store whose pages are all in the file and none in memory.
fn frozen() -> (Store, Vec<PageNo>) {
    let (mut store, pages) = store_of(LEAVES * FANOUT as u64);
    store.checkpoint();
    store.map.evict_all();
    lap(&mut store, &mut VictimChoice::default());
    (store, pages)
}

/// Bytes in memory by page. Of these few leaves, 5 are the inner node's.
fn by_page(store: &Store) -> u64 {
    store.map.resident_bytes().0 / store.map.page_count()
}

#[test]
fn pages_of_which_none_is_in_memory_take_little_of_it() {
    let (mut store, pages) = store_of(LEAVES * FANOUT as u64);
    store.checkpoint();
    store.map.evict_all();
    assert!(by_page(&store) >= 64, "{}", by_page(&store));
    lap(&mut store, &mut VictimChoice::default());
    assert!(by_page(&store) <= 17, "{}", by_page(&store));
    assert_eq!((store.map.retained_pages(), store.map.page_count()), (0, pages.len() as u64));
    let before = store.map.resident_bytes();
    assert_eq!(fetch(&store.env, &mut store.map, &store.file, pages[700]).expect("readable"), 700);
    let leaf = store.map.resident_bytes().0 - before.0;
    assert!(leaf < 8192 + 64 * FANOUT as u64 + 1024, "{leaf} bytes for a page and its leaf");
    assert_eq!(store.map.retained_pages(), 0);
    store.map.evict_all();
    lap(&mut store, &mut VictimChoice::default());
    assert_eq!(store.map.resident_bytes(), before, "and cold again");
    store.check();
    let mut store = store.reopen();
    assert!(by_page(&store) <= 17, "a map that is opened: {}", by_page(&store));
    store.check();
}

#[test]
fn what_somebody_else_reaches_stays_as_it_is() {
    let (mut store, pages) = store_of(LEAVES * FANOUT as u64);
    store.checkpoint();
    let snapshot = store.map.snapshot();
    let model = store.model.clone();
    store.map.evict_all();
    let before = store.map.resident_bytes();
    lap(&mut store, &mut VictimChoice::default());
    assert_eq!(store.map.resident_bytes(), before, "a snapshot reaches all");
    store.write(pages[0], 1_000_000);
    store.checkpoint();
    store.map.evict_all();
    lap(&mut store, &mut VictimChoice::default());
    check_snapshot(&snapshot, &model);
    drop(snapshot);
    store.map.evict_all();
    lap(&mut store, &mut VictimChoice::default());
    assert!(by_page(&store) <= 17, "{}", by_page(&store));
    store.check();
}

#[test]
fn leaves_go_cold_although_a_checkpoint_is_under_way_whenever_the_evictors_come_by() {
    let (mut store, pages) = store_of(LEAVES * FANOUT as u64);
    store.checkpoint();
    store.map.evict_all();
    for value in 0..3 {
        store.write(pages[0], 1_000_000 + value);
        let mut checkpoint = store.begin();
        store.durable.insert(store.commit, store.model.clone());
        store.write(pages[1], 2_000_000 + value);
        block_on(&store.env, checkpoint.run()).expect("the disk works");
        lap(&mut store, &mut VictimChoice::default());
        assert!(checkpoint.finish(&mut store.map, &mut store.file));
    }
    store.checkpoint();
    let leaf_of = |no: &PageNo| no.0 / FANOUT as u32;
    let others = pages.iter().filter(|no| leaf_of(no) != leaf_of(&pages[0])).count() as u64;
    assert_eq!(store.map.shared.cold().0, others, "all but those of the leaf that is written to");
    store.check();
    store.reopen().check();
}

#[test]
fn cold_pages_change_beside_snapshots_that_have_them_cold() {
    for looks in [false, true] {
        let (mut store, pages) = frozen();
        let snapshot = store.map.snapshot();
        let model = store.model.clone();
        if looks {
            assert_eq!(stamp_of(&snapshot.pinned().page(pages[300]).expect("readable")), Some(300));
        }
        store.release(pages[301]);
        store.write(pages[302], 7);
        store.write(pages[600], 8);
        store.checkpoint();
        store.write(pages[600], 9);
        store.allocate(10);
        store.map.evict_all();
        lap(&mut store, &mut VictimChoice::default());
        store.checkpoint();
        check_snapshot(&snapshot, &model);
        drop(snapshot);
        store.checkpoint();
        store.map.evict_all();
        lap(&mut store, &mut VictimChoice::default());
        store.check();
        // What the snapshot alone had is free: the file need not grow for as many pages again.
        let slots = store.verify().slots;
        for no in &pages[512..540] {
            store.write(*no, 11);
        }
        store.checkpoint();
        store.checkpoint();
        assert!(store.verify().slots <= slots + 64, "{} of {slots}", store.verify().slots);
        store.check();
        store.reopen().check();
    }
}

#[test]
fn threads_that_look_into_a_cold_leaf_at_once_share_it() {
    for _ in 0..40 {
        let (mut store, pages) = frozen();
        let snapshots: Vec<_> = (0..3).map(|_| store.map.snapshot()).collect();
        let begin = Barrier::new(snapshots.len());
        std::thread::scope(|scope| {
            for snapshot in &snapshots {
                scope.spawn(|| {
                    begin.wait();
                    for (i, no) in pages.iter().enumerate().step_by(100) {
                        let pinned = snapshot.pinned();
                        assert_eq!(stamp_of(pinned.page(*no).expect("readable")), Some(i as u64));
                    }
                });
            }
        });
        assert_eq!(store.map.retained_pages(), 0);
        for no in pages.iter().step_by(90) {
            store.write(*no, 5);
        }
        drop(snapshots);
        store.checkpoint();
        store.check();
        store.reopen().check();
    }
}

#[test]
fn what_is_known_of_cold_pages_is_not_taken_from_what_others_take() {
    let (mut store, pages) = frozen();
    let nodes = store.map.shared.resident_frames().0;
    assert!(nodes < 8192, "{nodes}");
    for (frames, no) in [pages[700], pages[701], pages[10]].into_iter().enumerate() {
        let before = store.map.shared.resident_frames().0;
        fetch(&store.env, &mut store.map, &store.file, no).expect("readable");
        let more = store.map.shared.resident_frames().0 - before;
        assert!((8192..8192 + 512).contains(&more), "page {frames}: {more}");
    }
    store.map.evict_all();
    lap(&mut store, &mut VictimChoice::default());
    assert_eq!(store.map.shared.resident_frames().0, nodes);
}

#[test]
fn an_image_leaves_cold_leaves_cold() {
    let (mut store, _) = frozen();
    let before = store.map.resident_bytes();
    let snapshot = store.map.snapshot();
    let image = image_of(&store.env, snapshot, TENANT, store.commit);
    check(&image).expect("a sound image");
    assert_eq!(store.map.resident_bytes(), before);
    store.check();
    store.reopen().check();
}
