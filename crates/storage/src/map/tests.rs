//! The map against a plain map of page contents, with snapshots that must stay what they were.

use std::collections::BTreeMap;

use base::limits::PAGE_SIZE;
use proptest::prelude::*;

use super::*;
use crate::radix::FANOUT;

/// A page's content, told by one number: enough to recognise any mix-up.
fn stamp(bytes: &mut PageBytes, value: u64) {
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8184..].copy_from_slice(&(!value).to_le_bytes());
}

fn stamp_of(bytes: &PageBytes) -> u64 {
    let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let check = u64::from_le_bytes(bytes[8184..].try_into().expect("eight bytes"));
    assert!(value == 0 && check == 0 || check == !value, "half of one page, half of another");
    value
}

fn read(pages: &impl ReadPages, no: PageNo) -> u64 {
    stamp_of(pages.page(no).expect("a page of the map"))
}

fn write(map: &mut PageMap, no: PageNo, value: u64) {
    stamp(map.page_mut(no).expect("a page of the map"), value);
}

#[test]
fn a_page_is_zero_when_allocated_and_never_numbered_zero() {
    let mut map = PageMap::new_empty();
    let no = map.allocate(None);
    assert_eq!(no, PageNo(1));
    assert!(*map.page(no).expect("just allocated") == [0; PAGE_SIZE]);
    write(&mut map, no, 7);
    map.release(no);
    assert!(matches!(map.page(no), Err(PageFault::Corrupt(_))));
    let again = map.allocate(None);
    assert_eq!((again, read(&map, again)), (no, 0));
}

#[test]
fn an_unknown_page_is_corruption_not_a_panic() {
    let mut map = PageMap::new_empty();
    for no in [0, 1, 255, 256, 1 << 16, 1 << 24, u32::MAX] {
        assert!(matches!(map.page(PageNo(no)), Err(PageFault::Corrupt(_))));
        assert!(matches!(map.page_mut(PageNo(no)), Err(PageFault::Corrupt(_))));
    }
}

#[test]
#[cfg_attr(miri, ignore = "a thousand pages take it a quarter of an hour; the others do the same to fewer")]
fn a_snapshot_keeps_the_pages_of_its_moment() {
    let mut map = PageMap::new_empty();
    let pages: Vec<PageNo> = (0..3 * FANOUT).map(|_| map.allocate(None)).collect();
    for no in &pages {
        write(&mut map, *no, 1);
    }
    let before = map.snapshot();
    for no in &pages[..FANOUT] {
        write(&mut map, *no, 2);
    }
    map.release(pages[FANOUT]);
    let after = map.snapshot();
    write(&mut map, pages[0], 3);
    assert!(pages.iter().all(|no| read(&before.pinned(), *no) == 1));
    assert_eq!(
        (read(&after.pinned(), pages[0]), read(&after.pinned(), pages[600]), read(&map, pages[0])),
        (2, 1, 3)
    );
    assert!(after.pinned().page(pages[FANOUT]).is_err());
    let mut seen = 0;
    before.for_each_page(|_| seen += 1);
    assert_eq!(seen, pages.len());
}

#[test]
fn a_page_is_copied_only_while_a_snapshot_shares_it() {
    let mut map = PageMap::new_empty();
    let no = map.allocate(None);
    write(&mut map, no, 1);
    let address = |map: &PageMap| map.page(no).expect("resident").as_ptr();
    let first = address(&map);
    drop(map.snapshot());
    write(&mut map, no, 2);
    assert_eq!(address(&map), first, "the snapshot was gone, the bytes were the owner's again");
    let snapshot = map.snapshot();
    write(&mut map, no, 3);
    assert_ne!(address(&map), first);
    assert_eq!(read(&snapshot.pinned(), no), 2);
}

#[test]
fn memory_is_counted_and_given_back() {
    let mut map = PageMap::new_empty();
    let count = if cfg!(miri) { 20 } else { 1000 };
    let pages: Vec<PageNo> = (0..count).map(|_| map.allocate(None)).collect();
    let alone = map.resident_bytes();
    let snapshot = map.snapshot();
    for no in &pages {
        write(&mut map, *no, 1);
    }
    assert!(map.resident_bytes().0 >= alone.0 + count * 8192, "both contents are held");
    drop(snapshot);
    assert_eq!(map.resident_bytes(), alone);
    let keeper = map.snapshot();
    drop(map);
    assert_eq!(keeper.shared.resident_bytes(), alone.0);
}

#[test]
fn an_empty_map_costs_next_to_nothing() {
    let mut map = PageMap::new_empty();
    assert_eq!(map.resident_bytes().0, 0);
    map.allocate(None);
    assert!(map.resident_bytes().0 - 8192 < 7 * 1024, "{}", map.resident_bytes());
}

#[test]
fn snapshots_are_read_on_other_threads_while_the_owner_writes() {
    let mut map = PageMap::new_empty();
    let (count, rounds) = if cfg!(miri) { (20, 4) } else { (600, 40) };
    let pages: Vec<PageNo> = (0..count).map(|_| map.allocate(None)).collect();
    std::thread::scope(|scope| {
        for round in 1..=rounds {
            for no in &pages {
                write(&mut map, *no, round);
            }
            let snapshot = map.snapshot();
            let pages = &pages;
            scope.spawn(move || assert!(pages.iter().all(|no| read(&snapshot.pinned(), *no) == round)));
        }
    });
    for no in &pages {
        write(&mut map, *no, 99);
    }
    assert!(
        map.resident_bytes().0 < count * 8192 + 65536,
        "no old content is left: {}",
        map.resident_bytes()
    );
}

#[derive(Clone, Debug)]
enum Op {
    Allocate,
    Write(usize, u64),
    Release(usize),
    Snapshot,
    DropSnapshot(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => Just(Op::Allocate),
        8 => (any::<usize>(), 1..u64::MAX).prop_map(|(i, v)| Op::Write(i, v)),
        2 => any::<usize>().prop_map(Op::Release),
        1 => Just(Op::Snapshot),
        1 => any::<usize>().prop_map(Op::DropSnapshot),
    ];
    prop::collection::vec(op, 1..if cfg!(miri) { 40 } else { 400 })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_map_and_its_snapshots_agree_with_plain_maps(ops in ops(), start in prop_oneof![Just(0_u32), Just(250), Just(70_000)]) {
        let mut map = PageMap::new_empty();
        map.skip_to(start);
        let mut model: BTreeMap<PageNo, u64> = BTreeMap::new();
        let mut snapshots: Vec<(Snapshot, BTreeMap<PageNo, u64>)> = Vec::new();
        let pick = |model: &BTreeMap<PageNo, u64>, i: usize| model.keys().nth(i % model.len().max(1)).copied();
        for op in ops {
            match op {
                Op::Allocate => prop_assert!(model.insert(map.allocate(None), 0).is_none()),
                Op::Write(i, value) => if let Some(no) = pick(&model, i) {
                    write(&mut map, no, value);
                    model.insert(no, value);
                }
                Op::Release(i) => if let Some(no) = pick(&model, i) {
                    map.release(no);
                    model.remove(&no);
                }
                Op::Snapshot => snapshots.push((map.snapshot(), model.clone())),
                Op::DropSnapshot(i) => if !snapshots.is_empty() {
                    snapshots.swap_remove(i % snapshots.len());
                }
            }
        }
        snapshots.push((map.snapshot(), model));
        for (snapshot, model) in &snapshots {
            let mut pages = Vec::new();
            snapshot.for_each_page(|no| pages.push((no, read(&snapshot.pinned(), no))));
            prop_assert_eq!(pages, model.iter().map(|(no, v)| (*no, *v)).collect::<Vec<_>>());
        }
    }
}

/// Run with `cargo test --release -p storage -- --ignored --nocapture cost_of`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "a measurement of the real machine")]
fn cost_of_page_lookups_and_copies() {
    for count in [200_usize, 2_000, 60_000, 100_000] {
        let mut map = PageMap::new_empty();
        let mut pages: Vec<PageNo> = (0..count).map(|_| map.allocate(None)).collect();
        for i in 0..count {
            pages.swap(i, (i * 7919 + 13) % count);
        }
        let timed = |what: &str, ops: usize, run: &mut dyn FnMut()| {
            let start = std::time::Instant::now();
            run();
            println!("{count} pages: {what}: {:.1} ns", start.elapsed().as_nanos() as f64 / ops as f64);
        };
        let ops = 4_000_000_usize;
        let mut sum = 0_usize;
        timed("page(), address only, independent", ops, &mut || {
            for i in 0..ops {
                sum = sum.wrapping_add(map.page(pages[i % count]).expect("resident").as_ptr() as usize);
            }
        });
        let mut at = 0_usize;
        timed("page(), each address deciding the next", ops, &mut || {
            for _ in 0..ops {
                let address = map.page(pages[at]).expect("resident").as_ptr() as usize;
                at = (at + 1 + (address & 1)) % count;
            }
        });
        timed("page_mut(), current epoch", ops, &mut || {
            for i in 0..ops {
                map.page_mut(pages[i % count]).expect("resident")[0] = 1;
            }
        });
        let mut keep = None;
        timed("snapshot()", 1, &mut || keep = Some(map.snapshot()));
        for round in ["fresh frames", "used frames"] {
            timed(&format!("page_mut(), copying for a snapshot to {round}"), count, &mut || {
                for no in &pages {
                    map.page_mut(*no).expect("resident")[0] = 2;
                }
            });
            timed("dropping that snapshot, a page", count, &mut || drop(keep.take()));
            keep = Some(map.snapshot());
        }
        drop(keep);
        drop(map.snapshot());
        timed("page_mut(), taking back after a snapshot", count, &mut || {
            for no in &pages {
                map.page_mut(*no).expect("resident")[0] = 3;
            }
        });
        timed("a snapshot, one change, its drop", 2000, &mut || {
            for i in 0..2000 {
                let snapshot = map.snapshot();
                map.page_mut(pages[i * 31 % count]).expect("resident")[0] = 4;
                drop(snapshot);
            }
        });
        assert!(sum != 1);
    }
}
