//! What the governor's meter is told of a map, against a meter that is told of everything; and what prices do.

use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, PageNo};
use env::block_on;
use governor::{
    EvictionTime, MemoryMeter, MemoryPrice, MemoryShare, MemoryTally, PageUse, VictimChoice, WriteCause,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::*;
use crate::{PageFault, ReadPages};

struct Metered {
    store: Store,
    share: Arc<MemoryShare>,
    tally: Arc<MemoryTally>,
    /// Told of every use.
    full: MemoryMeter,
}

fn bytes(pages: u64) -> ByteCount {
    ByteCount(pages * PAGE_SIZE as u64)
}

impl Metered {
    fn new(promised: u64) -> Metered {
        let mut store = Store::create();
        let (share, tally): (Arc<MemoryShare>, Arc<MemoryTally>) = Default::default();
        share.set_promised(bytes(promised));
        let before = store.map.resident_bytes();
        store.map.set_memory_terms(&share, &tally);
        let full = MemoryMeter::new(bytes(promised), Arc::default()).expect("enough pages");
        assert_eq!(store.map.resident_bytes(), before + full.memory(), "the meter is charged");
        Metered { store, share, tally, full }
    }

    fn told(&mut self, no: PageNo, how: PageUse) {
        if self.full.sample().has(no) {
            self.full.used(no, how, |_| {});
        }
    }

    fn change(&mut self, no: PageNo, changed_before: u64) {
        if self.store.map.changed_pages() > changed_before && self.full.sample().has(no) {
            self.full.changed(no);
        }
    }

    fn allocate(&mut self, value: u64) -> PageNo {
        let no = self.store.allocate(value);
        self.told(no, PageUse::Made);
        self.change(no, 0);
        no
    }

    fn how(&self, no: PageNo) -> PageUse {
        let is_here = self.store.map.locate(no).expect("a page").is_none();
        if is_here { PageUse::Found } else { PageUse::Read }
    }

    fn read(&mut self, no: PageNo) {
        let how = self.how(no);
        let Store { env, map, file, .. } = &mut self.store;
        fetch(env, map, file, no).expect("readable");
        self.told(no, how);
    }

    fn write(&mut self, no: PageNo, value: u64) {
        let (how, before) = (self.how(no), self.store.map.changed_pages());
        self.store.write(no, value);
        self.told(no, how);
        self.change(no, before);
    }

    fn release(&mut self, no: PageNo) {
        let before = self.store.map.changed_pages();
        self.store.release(no);
        if self.full.sample().has(no) {
            self.full.released(no, self.store.map.changed_pages() < before);
        }
    }

    fn checkpoint(&mut self, for_room: bool) {
        if for_room {
            self.store.map.write_for_room();
        }
        self.store.checkpoint();
        self.full.checkpointed(if for_room { WriteCause::Room } else { WriteCause::Log });
    }

    fn check(&self) {
        let counts = self.tally.read().expect("nobody writes");
        let full = self.full.tally().read().expect("nobody writes");
        assert_eq!((counts.actual, counts.curve), (full.actual, full.curve));
        assert!(counts.told < full.told || full.told < 200, "{} of {}", counts.told, full.told);
    }
}

#[test]
fn the_meter_learns_all_that_it_would_from_every_use() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut metered = Metered::new(rng.random_range(8..200));
        let mut choice = VictimChoice::default();
        (0..300).for_each(|value| {
            metered.allocate(value);
        });
        for step in 0..6000_u64 {
            let low = rng.random_range(1..300);
            let no = metered.store.pick(rng.random_range(0..low)).expect("pages");
            match rng.random_range(0..100) {
                0..70 => metered.read(no),
                70..85 => metered.write(no, step),
                85..90 => drop(metered.store.map.sweep(&mut choice, EvictionTime(step as u32))),
                90..94 => drop(metered.store.map.evict(no)),
                94 => metered.release(no),
                95 => {
                    metered.allocate(step);
                }
                // A snapshot that has the map copy what it changes.
                96 => drop(metered.store.map.snapshot()),
                97 => metered.checkpoint(rng.random_bool(0.5)),
                _ => {}
            }
            if step % 500 == 0 {
                metered.check();
            }
        }
        metered.check();
        metered.store.check();
    }
}

#[test]
fn readers_of_snapshots_are_metered() {
    let mut metered = Metered::new(16);
    let pages: Vec<PageNo> = (0..100).map(|value| metered.allocate(value)).collect();
    metered.checkpoint(false);
    metered.store.map.evict_all();
    metered.full.emptied();
    let snapshot = metered.store.map.snapshot();
    let mut rng = StdRng::seed_from_u64(1);
    let (mut choice, mut reads) = (VictimChoice::default(), 0);
    for step in 0..3000 {
        let no = pages[rng.random_range(0..100) * rng.random_range(0..100) / 100];
        let was_here = metered.how(no) == PageUse::Found;
        if step % 3 == 0 && was_here {
            metered.store.map.frozen(&snapshot).page(no).expect("in memory");
        } else {
            let snapshot = &snapshot;
            std::thread::scope(|scope| {
                scope.spawn(|| snapshot.pinned().read(no).map(stamp_of).expect("readable"));
            });
        }
        reads += u64::from(!was_here && metered.full.sample().has(no));
        metered.told(no, if was_here { PageUse::Found } else { PageUse::ReadOnce });
        metered.store.map.take_posts();
        if step % 7 == 0 {
            metered.store.map.sweep(&mut choice, EvictionTime(step));
        }
    }
    metered.check();
    let actual = metered.tally.read().expect("nobody writes").actual;
    assert!(reads > 100 && actual.reads == reads, "{reads} reads, {actual:?}");
    // What is posted faster than it is taken is lost, and no more than that.
    for _ in 0..20 {
        metered.store.map.evict_all();
        pages.iter().for_each(|no| drop(snapshot.pinned().read(*no).map(stamp_of)));
    }
    metered.store.map.take_posts();
    let lost = metered.tally.read().expect("nobody writes").actual.reads - actual.reads;
    assert_eq!(lost, 1024);
}

#[test]
fn pages_read_ahead_are_read_when_they_are_used() {
    let mut metered = Metered::new(16);
    let pages: Vec<PageNo> = (0..40).map(|value| metered.allocate(value)).collect();
    metered.checkpoint(false);
    metered.store.map.evict_all();
    let before = metered.tally.read().expect("nobody writes").actual.reads;
    let map = &mut metered.store.map;
    assert!(matches!(map.page_of_scan(pages[3], &|n| pages.get(4 + n).copied()), Err(PageFault::Miss(_))));
    let run = map.run_from(map.locate(pages[3]).expect("a page").expect("not in memory"), 5);
    let read = metered.store.file.reader();
    let loaded = block_on(&metered.store.env, read.read_run(run, None)).expect("readable");
    map.load(loaded);
    for (used, so_far) in [(3, 1), (4, 2), (4, 2), (6, 3)] {
        assert!(map.page(pages[used]).is_ok());
        let reads = metered.tally.read().expect("nobody writes").actual.reads;
        assert_eq!(reads - before, so_far, "page {used}");
    }
}

#[test]
fn changed_terms_begin_new_ghosts() {
    let mut metered = Metered::new(16);
    (0..60).for_each(|value| {
        metered.allocate(value);
    });
    metered.checkpoint(false);
    let memory = metered.store.map.resident_bytes();
    for promised in [100, 0, 40] {
        metered.share.set_promised(bytes(promised));
        metered.store.map.set_memory_terms(&metered.share, &metered.tally);
        metered.full = MemoryMeter::new(bytes(40), Arc::default()).expect("enough pages");
        let before = metered.tally.read().expect("nobody writes");
        let all: Vec<PageNo> = metered.store.model.keys().copied().collect();
        all.iter().for_each(|no| assert!(metered.store.map.page(*no).is_ok()));
        let told = metered.tally.read().expect("nobody writes").since(&before);
        assert_eq!(told.told, if promised == 0 { 0 } else { 60 });
        // What was there before is not held against the promised memory; 20 pages are more than it holds.
        assert_eq!(told.baseline().reads, if promised == 40 { 20 } else { 0 });
    }
    assert!(metered.store.map.resident_bytes() > memory);
    let budget = metered.store.memory.clone();
    drop(metered);
    assert_eq!(budget.resident(), ByteCount(0), "the meter is given back");
}

#[test]
fn pages_within_a_promise_stay_while_a_neighbours_leave() {
    let mut reserved = Metered::new(120);
    let mut other = Store::create();
    let pages: Vec<PageNo> = (0..100).map(|value| reserved.allocate(value)).collect();
    (0..100).for_each(|value| {
        other.allocate(value);
    });
    reserved.checkpoint(false);
    other.checkpoint();
    let mut choice = VictimChoice::default();
    let mut clock = 0;
    let mut lap = |store: &mut Store, choice: &mut VictimChoice| {
        loop {
            clock += 1;
            if store.map.sweep(choice, EvictionTime(clock)).ends_lap {
                return;
            }
        }
    };
    for _ in 0..20 {
        lap(&mut reserved.store, &mut choice);
        lap(&mut other, &mut choice);
    }
    assert_eq!((reserved.store.map.tally().evictions, other.map.tally().evictions), (0, 100));
    // The promise is lent once its price says so.
    reserved.share.set_price(MemoryPrice::LEAST);
    for _ in 0..20 {
        lap(&mut reserved.store, &mut choice);
    }
    assert!(reserved.store.map.tally().evictions > 50);
    assert!(pages.iter().any(|no| reserved.store.map.page(*no).is_err()));
}
