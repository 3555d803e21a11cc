//! What branches replaced leaves memory without a checkpoint.

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
