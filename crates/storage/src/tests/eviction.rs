//! Pages that leave memory and come back: which ones, whatever holds them, and while others read them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use base::{PageNo, SlotNo};
use env::block_on;
use governor::{EvictionTime, VictimChoice};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::*;
use crate::radix::FANOUT;
use crate::{FileError, PageFault, ReadAheadWindow, ReadPages, Swept};

/// Sweeps over all pages once.
pub(super) fn lap(store: &mut Store, choice: &mut VictimChoice) -> u32 {
    let mut evicted = 0;
    loop {
        let now = store.memory.eviction_time();
        let Swept { evicted: more, ends_lap, .. } = store.map.sweep(choice, now);
        evicted += more;
        if ends_lap {
            return evicted;
        }
    }
}

pub(super) fn store_of(pages: u64) -> (Store, Vec<PageNo>) {
    let mut store = Store::create();
    let pages = (0..pages).map(|value| store.allocate(value)).collect();
    (store, pages)
}

#[test]
fn pages_used_between_two_laps_stay_and_others_leave() {
    let (mut store, pages) = store_of(600);
    let mut choice = VictimChoice::default();
    assert_eq!(lap(&mut store, &mut choice) + lap(&mut store, &mut choice), 0, "the file has none of them");
    store.checkpoint();
    for no in &pages {
        store.map.page(*no).expect("in memory");
    }
    assert_eq!(lap(&mut store, &mut choice), 0, "all were used");
    let (hot, cold) = pages.split_at(50);
    for _ in 0..10 {
        assert!(hot.iter().all(|no| store.map.page(*no).is_ok()), "a page in use stays");
        lap(&mut store, &mut choice);
    }
    assert!(cold.iter().all(|no| matches!(store.map.page(*no), Err(PageFault::Miss(_)))));
    assert_eq!(store.map.tally().evictions, 550);
    store.check();
}

#[test]
fn changed_and_held_pages_stay() {
    let (mut store, pages) = store_of(20);
    store.checkpoint();
    store.write(pages[0], 7);
    assert!(store.map.hold(pages[1]) && store.map.hold(pages[1]));
    assert_eq!(store.map.evict_all(), 18);
    store.map.end_holds(&[pages[1]]);
    assert!(!store.map.evict(pages[1]), "another statement holds it");
    store.map.end_holds(&[pages[1]]);
    assert!(store.map.evict(pages[1]));
    assert!(store.map.page(pages[0]).is_ok());
    store.checkpoint();
    assert_eq!(store.map.evict_all(), 1);
    store.check();
}

/// To check and to copy it is the thread's own work, for which it stands in its worker's queue.
#[test]
fn what_a_snapshot_reads_is_taken_in_when_its_wait_is_over() {
    let (mut store, pages) = store_of(20);
    store.checkpoint();
    let snapshot = store.map.snapshot();
    assert_eq!(store.map.evict_all(), 20);
    let before = store.map.resident_bytes();
    let (counters, in_wait) = (store.map.counters(), Rc::new(Cell::new(None)));
    let noted = in_wait.clone();
    let around = env::around_waits(Rc::new(move |wait| {
        wait();
        noted.set(Some(counters.resident_bytes()));
    }));
    assert_eq!(stamp_of(snapshot.pinned().read(pages[3]).expect("readable")), Some(3));
    drop(around);
    assert_eq!(in_wait.get(), Some(before));
    assert!(store.map.resident_bytes() > before);
}

#[test]
fn pages_that_a_snapshot_shares_or_alone_holds_leave_too() {
    let (mut store, pages) = store_of(300);
    store.checkpoint();
    let (snapshot, model) = (store.map.snapshot(), store.model.clone());
    let empty = store.map.resident_bytes().0 - 300 * 8192;
    pages[..100].iter().for_each(|no| store.write(*no, 1000));
    store.checkpoint();
    let mut choice = VictimChoice::default();
    while lap(&mut store, &mut choice) > 0 || store.map.tally().evictions < 400 {}
    assert_eq!(
        store.map.tally().evictions,
        400,
        "200 shared, 100 of the snapshot alone, 100 of the map alone"
    );
    let left = store.map.resident_bytes().0 - empty;
    assert!(left < 100 * 64 + 2 * 8192, "versions and copied nodes are left: {left} bytes");
    for (no, value) in &model {
        assert_eq!(stamp_of(snapshot.pinned().read(*no).expect("readable")), Some(*value));
        assert_eq!(stamp_of(store.map.frozen(&snapshot).page(*no).expect("just read")), Some(*value));
    }
    store.check();
}

#[test]
fn pages_that_only_snapshots_had_are_written_and_leave() {
    let (mut store, pages) = store_of(100);
    let mut snapshots = Vec::new();
    for round in 1..6 {
        snapshots.push((store.map.snapshot(), store.model.clone()));
        // Changed again before any checkpoint wrote them: only the snapshot has what was there.
        pages.iter().for_each(|no| store.write(*no, 1000 * round));
    }
    assert_eq!(store.map.evict_all(), 0);
    assert_eq!(store.map.dirty_bytes().0, 600 * 8192);
    store.checkpoint();
    assert_eq!(store.map.dirty_bytes().0, 0);
    let (_, held) = store.file.used().expect("no checkpoint runs");
    assert_eq!(held.0, 500 * 8192, "of no root, and not to be written over");
    assert_eq!(store.map.evict_all(), 600);
    for round in 0..3 {
        store.write(pages[0], round);
        store.checkpoint();
        store.verify();
    }
    for (snapshot, model) in snapshots.drain(..) {
        for (no, value) in &model {
            assert_eq!(stamp_of(snapshot.pinned().read(*no).expect("readable")), Some(*value));
        }
    }
    store.checkpoint();
    assert_eq!(store.file.used().expect("no checkpoint runs").1.0, 0);
    store.verify();
    store.reopen().check();
}

#[test]
fn an_adopted_branch_counts_as_unwritten_whatever_checkpoints_wrote_of_it() {
    let (mut store, pages) = store_of(10);
    store.checkpoint();
    pages.iter().for_each(|no| store.write(*no, 100));
    store.fork();
    store.in_branch(|store| {
        pages[..8].iter().for_each(|no| store.write(*no, 200));
        // One that the branch does not count, and one that it does.
        store.release(pages[9]);
        store.release(pages[7]);
    });
    store.checkpoint();
    store.in_branch(|store| store.write(pages[0], 300));
    store.adopt();
    assert_eq!(store.map.changed_pages(), 7, "each page of the branch once");
    assert!(store.map.dirty_bytes().0 > 0, "no root has any of it");
    store.checkpoint();
    assert_eq!(store.map.dirty_bytes().0, 0);
    store.reopen().check();
}

#[test]
fn scans_read_ahead_what_lies_next_to_each_other() {
    let (mut store, pages) = store_of(64);
    store.checkpoint();
    let snapshot = store.map.snapshot();
    store.map.evict_all();
    let before = store.map.tally();
    let window = ReadAheadWindow::default();
    for (i, no) in pages[..40].iter().enumerate() {
        let reader = snapshot.pinned_for_scan(&window);
        let ahead = |n: usize| pages.get(i + 1 + n).copied();
        assert_eq!(reader.page_of_scan(*no, &ahead).map(stamp_of), Ok(Some(i as u64)));
    }
    let tally = store.map.tally();
    // Misses at 0, 1, 3, 7, 15, 24 and 33.
    assert_eq!(tally.ahead_used, 40 - 7);
    assert_eq!(tally.ahead_asked, 1 + 3 + 7 + 8 + 8 + 8);
    assert_eq!(tally.reads - before.reads, 7 + tally.ahead_asked);
    store.map.evict_all();
    assert_eq!(store.map.tally().ahead_wasted, tally.ahead_asked - tally.ahead_used);

    // At home the scan names what it would want, and the request takes it along.
    assert!(matches!(
        store.map.page_of_scan(pages[10], &|n| pages.get(11 + n).copied()),
        Err(PageFault::Miss(_))
    ));
    let first = store.map.locate(pages[10]).expect("a page").expect("not in memory");
    let run = store.map.run_from(first, 3);
    assert_eq!(run.ahead(), 3);
    let loaded = block_on(&store.env, store.file.reader().read_run(run, None)).expect("readable");
    store.map.load(loaded);
    assert!(pages[10..14].iter().all(|no| store.map.page(*no).is_ok()));
    assert!(store.map.page(pages[14]).is_err());
    store.check();
}

#[test]
fn pages_that_a_snapshot_reads_at_home_count_as_used() {
    let (mut store, pages) = store_of(100);
    store.checkpoint();
    let snapshot = store.map.snapshot();
    let mut choice = VictimChoice::default();
    for _ in 0..5 {
        assert!(pages[..10].iter().all(|no| store.map.frozen(&snapshot).page(*no).is_ok()));
        lap(&mut store, &mut choice);
    }
    assert_eq!(store.map.tally().evictions, 90);
}

#[test]
fn misses_are_read_at_once_where_that_is_asked_for() {
    let (mut store, pages) = store_of(10);
    store.checkpoint();
    let snapshot = store.map.snapshot();
    store.map.evict_all();
    assert!(matches!(store.map.page(pages[3]), Err(PageFault::Miss(_))));
    store.map.set_turn_reads(2);
    assert_eq!(store.map.page(pages[3]).map(stamp_of), Ok(Some(3)));
    assert_eq!(store.map.frozen(&snapshot).page(pages[4]).map(stamp_of), Ok(Some(4)));
    assert!(matches!(store.map.page(pages[5]), Err(PageFault::Miss(_))), "as many as that");
    store.map.set_turn_reads(7);
    store.map.set_turn_reads(0);
    assert!(matches!(store.map.page(pages[6]), Err(PageFault::Miss(_))));
    assert_eq!(store.map.tally().reads, 2);
}

#[test]
fn a_snapshot_of_an_opening_that_is_gone_says_so_where_its_pages_were_written_over() {
    let (mut store, pages) = store_of(100);
    store.checkpoint();
    let snapshot = store.map.snapshot();
    store.map.evict_all();
    pages.iter().for_each(|no| store.write(*no, 1000));
    store.checkpoint();
    store.map.evict_all();
    assert_eq!(stamp_of(snapshot.pinned().read(pages[0]).expect("readable")), Some(0));
    let mut store = store.reopen();
    pages.iter().for_each(|no| store.write(*no, 2000));
    store.checkpoint();
    let mut gone = 0;
    for (value, no) in (0..).zip(&pages) {
        match snapshot.pinned().read(*no) {
            Ok(bytes) => assert_eq!(stamp_of(bytes), Some(value)),
            Err(FileError::Gone { .. }) => gone += 1,
            Err(error) => panic!("nothing is damaged: {error}"),
        }
    }
    assert!(gone > 50, "{gone} pages were written over");
}

#[test]
fn a_read_that_was_under_way_when_its_opening_ended_says_so() {
    let (mut store, pages) = store_of(100);
    store.checkpoint();
    store.map.evict_all();
    let reader = store.file.reader();
    let mut runs = Vec::new();
    for no in &pages {
        let location = store.map.locate(*no).expect("a page").expect("not in memory");
        runs.push(store.map.run_from(location, 0));
    }
    let mut store = store.reopen();
    for value in [1000, 2000] {
        pages.iter().for_each(|no| store.write(*no, value));
        store.checkpoint();
    }
    let mut gone = 0;
    for run in runs {
        match block_on(&store.env, reader.read_run(run, None)) {
            Ok(_) => {}
            Err(FileError::Gone { .. }) => gone += 1,
            Err(error) => panic!("nothing is damaged: {error}"),
        }
    }
    assert!(gone > 50, "{gone} pages were written over");
}

#[test]
fn snapshots_are_read_on_other_threads_while_their_pages_come_and_go() {
    let (mut store, pages) = store_of(300);
    store.checkpoint();
    let mut rng = StdRng::seed_from_u64(8);
    for round in 0..12_u64 {
        let (snapshot, model) = (store.map.snapshot(), store.model.clone());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|seed| {
                    let (snapshot, model, pages, done) = (snapshot.clone(), &model, &pages, &done);
                    scope.spawn(move || {
                        let mut rng = StdRng::seed_from_u64(seed);
                        while !done.load(Ordering::Relaxed) {
                            let reader = snapshot.pinned();
                            for _ in 0..3 {
                                let no = pages[rng.random_range(0..pages.len())];
                                let bytes = reader.read(no).expect("readable");
                                std::thread::yield_now();
                                assert_eq!(stamp_of(bytes), Some(model[&no]), "{no:?}");
                            }
                        }
                    })
                })
                .collect();
            let mut choice = VictimChoice::default();
            for step in 0..400 {
                let no = pages[rng.random_range(0..pages.len())];
                match step % 4 {
                    0 => store.write(no, round << 32 | step),
                    1 => drop(store.map.sweep(&mut choice, EvictionTime(step as u32))),
                    2 => drop(store.map.evict(no)),
                    _ => drop(fetch(&store.env, &mut store.map, &store.file, no).expect("readable")),
                }
                if step % 150 == 149 {
                    store.map.evict_all();
                    store.checkpoint();
                }
            }
            done.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
        });
        store.check();
    }
    drop(store.map.snapshot());
    store.checkpoint();
    store.verify();
    assert_eq!(store.memory.resident(), store.map.resident_bytes());
}

#[test]
fn a_map_is_freed_bit_by_bit() {
    let (mut store, pages) = store_of(4000);
    store.fork();
    store.in_branch(|store| pages.iter().step_by(3).for_each(|no| store.write(*no, 7)));
    store.adopt();
    store.fork();
    store.in_branch(|store| store.write(pages[1], 8));
    let Store { map, memory, .. } = store;
    let mut most = 0;
    let mut freed = std::pin::pin!(map.free());
    let mut turns = 0;
    loop {
        let before = memory.resident().0;
        let poll = freed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        most = most.max(before - memory.resident().0);
        turns += 1;
        if poll.is_ready() {
            break;
        }
    }
    assert_eq!(memory.resident().0, 0);
    assert!(turns > 6 && most < 12 << 20, "{turns} turns, of {most} bytes at most");
}

#[test]
fn the_beginning_of_a_checkpoint_looks_at_some_leaves_for_what_is_to_be_moved() {
    let mut store = Store::create();
    // A page in each leaf.
    for leaf in 0..150 {
        store.map.skip_to(leaf * FANOUT as u32 + 1);
        store.allocate(u64::from(leaf));
    }
    store.checkpoint();
    let mut moved = |max| {
        store.map.rewrite_from(SlotNo(0), max);
        store.map.changed_pages()
    };
    // Of each leaf the page and the leaf itself.
    assert_eq!((moved(10), moved(10)), (5, 10));
    assert_eq!((moved(1000), moved(1000), moved(1000)), (74, 138, 150));
    assert_eq!(moved(1000), 150, "no page is moved twice");
    store.checkpoint();
    store.verify();
    store.check();
}
