//! What branches replaced leaves memory without a checkpoint.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use env::block_on;

use super::fixture::*;

#[test]
fn what_a_branch_replaced_goes_and_shared_pages_are_changed_in_place() {
    for written in [false, true] {
        let mut store = Store::create();
        let pages: Vec<_> = (0..600).map(|value| store.allocate(value)).collect();
        if written {
            store.checkpoint();
        }
        assert!(!store.settle(), "nothing was replaced");
        store.fork();
        store.in_branch(|store| {
            pages[..10].iter().for_each(|no| store.write(*no, 1_000));
            store.release(pages[20]);
            store.allocate(2_000);
        });
        store.adopt();
        store.write(pages[300], 3_000);
        assert_eq!(store.map.retained_pages(), 12, "ten, the released one, and one that both states had");
        assert!(store.settle());
        assert_eq!(store.map.retained_pages(), 0);
        let before = store.map.resident_bytes();
        pages[300..].iter().for_each(|no| store.write(*no, 4_000));
        assert_eq!((store.map.retained_pages(), store.map.resident_bytes()), (0, before), "in place");
        assert!(!store.settle());
        store.check();
        store.checkpoint();
        store.verify();
        store.reopen().check();
    }
}

#[test]
fn a_snapshot_keeps_what_it_shows_when_a_branch_is_settled() {
    let mut store = Store::create();
    let pages: Vec<_> = (0..40).map(|value| store.allocate(value)).collect();
    store.checkpoint();
    let snapshot = store.map.snapshot();
    store.fork();
    store.in_branch(|store| pages.iter().for_each(|no| store.write(*no, 1_000)));
    store.adopt();
    assert!(store.settle());
    for (value, no) in pages.iter().enumerate() {
        let page = snapshot.pinned();
        assert_eq!(stamp_of(page.read(*no).expect("in memory")), Some(value as u64));
    }
    assert_eq!(store.map.retained_pages(), 40);
    drop(snapshot);
    assert_eq!(store.map.retained_pages(), 0);
    store.check();
    store.checkpoint();
    store.checkpoint();
    store.verify();
    store.reopen().check();
}

#[test]
fn pages_of_a_branch_are_written_once_whatever_becomes_of_it_while_a_checkpoint_fails() {
    for adopted in [false, true] {
        let mut store = Store::create();
        let pages: Vec<_> = (0..40).map(|value| store.allocate(value)).collect();
        store.checkpoint();
        store.fork();
        store.in_branch(|store| pages.iter().for_each(|no| store.write(*no, 1_000)));
        let mut checkpoint = store.begin();
        block_on(&store.env, checkpoint.write()).expect("the disk works");
        if adopted {
            store.adopt()
        } else {
            store.drop_branch()
        }
        store.fork();
        assert!(!checkpoint.finish(&mut store.map, &mut store.file), "it is given up");
        let mut checkpoint = store.begin();
        let counts = block_on(&store.env, checkpoint.run()).expect("the disk works");
        store.durable.insert(store.commit, store.model.clone());
        assert!(checkpoint.finish(&mut store.map, &mut store.file));
        assert_eq!(counts.pages, if adopted { 40 } else { 0 });
        store.drop_branch();
        while store.map.reclaim_discarded() {}
        store.checkpoint();
        assert_eq!(store.file.used().expect("no checkpoint runs").1.0, 0, "no slot is kept for nobody");
        store.verify();
        store.reopen().check();
    }
}

#[test]
fn a_snapshot_that_kept_much_goes_little_by_little() {
    for (count, at_once) in [(500, true), (5000, false)] {
        let mut store = Store::create();
        let pages: Vec<_> = (0..count).map(|value| store.allocate(value)).collect();
        let snapshot = store.map.snapshot();
        pages.iter().for_each(|no| store.write(*no, 1_000));
        assert_eq!(store.map.retained_pages(), count);
        store.map.let_go(snapshot);
        assert_eq!(store.map.retained_pages(), if at_once { 0 } else { count });
        loop {
            let before = store.map.retained_pages();
            let has_more = store.map.reclaim_discarded();
            assert!(before - store.map.retained_pages() <= 1024);
            if !has_more {
                break;
            }
        }
        assert_eq!(store.map.retained_pages(), 0);
        store.check();
    }
}

#[test]
fn what_was_changed_during_a_checkpoint_goes_little_by_little() {
    const PAGES: u64 = 5000;
    let mut store = Store::create();
    let pages: Vec<_> = (0..PAGES).map(|value| store.allocate(value)).collect();
    store.checkpoint();
    let shared = Arc::clone(&store.map.shared);
    pages.iter().for_each(|no| store.write(*no, 1_000));
    let mut checkpoint = store.begin();
    let model = store.model.clone();
    block_on(&store.env, checkpoint.write()).expect("the disk works");
    pages.iter().for_each(|no| store.write(*no, 2_000));
    assert!(shared.versions() >= 2 * PAGES);
    let mut most = 0;
    {
        let mut publish = pin!(checkpoint.publish());
        let published = poll_fn(|cx| {
            let before = shared.versions();
            let polled = publish.as_mut().poll(cx);
            most = most.max(before - shared.versions());
            polled
        });
        block_on(&store.env, published).expect("the disk works");
    }
    store.durable.insert(store.commit, model);
    let mut before = shared.versions();
    assert!(checkpoint.finish(&mut store.map, &mut store.file));
    loop {
        most = most.max(before - shared.versions());
        before = shared.versions();
        let has_more = store.map.reclaim_discarded();
        if !has_more && before == shared.versions() {
            break;
        }
    }
    assert_eq!(shared.versions(), PAGES);
    assert!(most <= 1024, "{most} pages in a turn");
    store.verify();
    store.checkpoint();
    store.checkpoint();
    assert_eq!(store.file.used().expect("no checkpoint runs").1.0, 0);
    store.verify();
    store.reopen().check();
}
