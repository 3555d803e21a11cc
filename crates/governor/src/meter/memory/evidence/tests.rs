//! Caches of the promised size and smaller ones, in virtual time, by many ways of using pages: what of theirs is found.

use std::sync::Arc;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, PageNo, TenantId};

use super::super::cache::GhostCache;
use super::super::tally::{CURVE_LEN, EVIDENCE_MIN};
use super::super::{MemoryAudit, MemoryMeter, MemoryMeters, MemoryTally, MemoryTerms, PageIo, PageUse};
use super::*;
use crate::fixture::Draws;
use crate::meter::LedgerRow;

const TENANT: TenantId = TenantId(16);
const PENALTY_MICROS: u64 = 2_000_000;

/// Which pages are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Habit {
    Random,
    /// Nine of ten from the first fifth.
    Skewed,
    /// Each less than the one before; which they are is chance.
    Popular,
    Round,
    /// Three go round, each at its own pace. What a cache keeps of that depends on what it kept in the round before: two of a size, or of one size and
    /// another choice, may differ by a third for ten intervals.
    Rounds,
}

const HABITS: [Habit; 5] = [Habit::Random, Habit::Skewed, Habit::Popular, Habit::Round, Habit::Rounds];

/// A tenant's pages in a cache of some size, metered against the promised one.
struct World {
    draws: Draws,
    habit: Habit,
    /// Of the tenant.
    pages: u64,
    places: [u64; 3],
    cache: GhostCache,
    /// Of just the promised size, with all pages: what the ghost stands for.
    own: GhostCache,
    /// Reads of the one beyond those of the other.
    excess: i64,
    meter: MemoryMeter,
    meters: Arc<MemoryMeters>,
    audit: MemoryAudit,
    now: Nanos,
}

fn terms(promised: u64) -> MemoryTerms {
    let promised = ByteCount(promised * PAGE_SIZE as u64);
    MemoryTerms { promised, penalty_micros: PENALTY_MICROS, interval: None }
}

fn cache(pages: u64) -> GhostCache {
    GhostCache::new(usize::try_from(pages).expect("a few thousand"))
}

impl World {
    /// A tenant that is promised so many pages and has so many of the memory, where both are full.
    fn new(promised: u64, has: u64, pages: u64, habit: Habit, seed: u64) -> World {
        let meters = MemoryMeters::new();
        let tally = meters.set_terms(TENANT, terms(0), Nanos(0));
        let meter = MemoryMeter::new(terms(promised).promised, tally).expect("eight pages at least");
        let audit = MemoryAudit::new(meters.clone(), terms(promised).promised, Nanos(0));
        let mut world = World {
            draws: Draws(seed),
            habit,
            pages,
            places: [0, pages / 3, 2 * pages / 3],
            cache: cache(has),
            own: cache(promised),
            excess: 0,
            meter,
            meters,
            audit,
            now: Nanos(0),
        };
        for _ in 0..6 * pages {
            world.one_use();
        }
        // What was counted until now is nobody's promise.
        assert_eq!(world.end_second(), []);
        world.excess = 0;
        world.meters.set_terms(TENANT, terms(promised), world.now);
        world
    }

    fn next_page(&mut self) -> PageNo {
        let (draws, last) = (&mut self.draws, self.pages - 1);
        let at = match self.habit {
            Habit::Random => draws.between(0, last),
            Habit::Skewed if draws.between(0, 9) > 0 => draws.between(0, last / 5),
            Habit::Skewed => draws.between(0, last),
            Habit::Popular => {
                let below = draws.between(0, last);
                // 7919 is prime and no factor of the numbers of pages in use here.
                draws.between(0, below) * 7919 % self.pages
            }
            Habit::Round | Habit::Rounds => {
                let which = if self.habit == Habit::Round { 0 } else { draws.between(0, 2) as usize };
                self.places[which] = (self.places[which] + 1) % self.pages;
                self.places[which]
            }
        };
        PageNo(u32::try_from(at).expect("a few thousand"))
    }

    /// Uses a page; whether the meter is told.
    fn one_use(&mut self) -> bool {
        let no = self.next_page();
        let is_spared = self.cache.reference(no, true, &mut |_: PageNo| {}).had;
        let would_be = self.own.reference(no, true, &mut |_: PageNo| {}).had;
        self.excess += i64::from(would_be) - i64::from(is_spared);
        let is_told = self.meter.sample().has(no);
        if is_told {
            self.meter.used(no, if is_spared { PageUse::Found } else { PageUse::Read }, |_: PageNo| {});
        }
        is_told
    }

    fn end_second(&mut self) -> Vec<LedgerRow> {
        self.now += Nanos::from_secs(1);
        let mut rows = Vec::new();
        self.audit.collect(self.now, ByteCount(0), |row| rows.push(row.ledger));
        rows
    }

    /// The row of an interval of as many uses as are evidence.
    fn interval(&mut self) -> LedgerRow {
        let mut told = 0;
        while told < EVIDENCE_MIN {
            told += u64::from(self.one_use());
        }
        let rows = self.end_second();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0]
    }
}

#[test]
fn of_a_cache_of_the_promised_size_nothing_is_found() {
    let (mut with_excess, mut intervals) = (0, 0);
    for seed in 0..4 {
        for habit in HABITS {
            for promised in [100, 256] {
                // Not within chance of a sample: see there.
                if habit == Habit::Rounds && promised > 127 {
                    continue;
                }
                let pages = promised * Draws(seed * 8 + promised).between(120, 250) / 100;
                let mut world = World::new(promised, promised, pages, habit, seed);
                for _ in 0..15 {
                    let row = world.interval();
                    assert!(
                        row.is_kept() && row.missed == 0 && row.owed_micros == 0,
                        "{habit:?}, {pages} pages, {promised} promised, seed {seed}: {row:?}"
                    );
                    with_excess += u32::from(row.given < row.demanded);
                    intervals += 1;
                }
            }
        }
    }
    // Without what is carried a tenant would be owed for each of them.
    assert!(with_excess * 20 > intervals, "{with_excess} of {intervals}");
}

#[test]
fn a_cache_that_is_short_by_a_tenth_is_found_with_all_it_reads_more() {
    for seed in 0..2 {
        for (habit, pages) in [(Habit::Random, 6145), (Habit::Popular, 6145)] {
            let mut world = World::new(4096, 4096 * 9 / 10, pages, habit, seed);
            let (mut first, mut missed, mut of_all) = (None, 0, 0);
            for n in 1..=14 {
                let row = world.interval();
                missed += row.missed;
                if !row.is_kept() {
                    first.get_or_insert(n);
                    of_all = world.excess;
                    assert!(row.by_chance <= row.missed, "{row:?}");
                    assert_eq!(row.owed_micros, row.missed * PENALTY_MICROS);
                }
            }
            assert!(first.is_some_and(|n| n <= 10), "{habit:?}, seed {seed}: {first:?}");
            let (missed, of_all) = (missed as f64, of_all as f64);
            assert!(
                missed > of_all * 0.7 && missed < of_all * 1.3,
                "{habit:?}, seed {seed}: {missed} of {of_all}"
            );
        }
    }
}

/// Intervals of 1,000 uses, all of them told, of which `baseline` would have been read, and so many were.
fn found_of(baseline: u64, reads: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let terms = Terms { promised: terms(100).promised, penalty_micros: 1 };
    let mut evidence = Evidence::default();
    let of = |reads| PageIo { reads, write_backs: 0 };
    let mut add = |reads| {
        let counts = MemoryCounts {
            references: 1000,
            told: 1000,
            actual: of(reads),
            curve: [of(baseline); CURVE_LEN],
            ..MemoryCounts::default()
        };
        let found = evidence.add(Nanos(0), &counts, terms);
        found.map_or((0, 0), |found| (found.excess, found.by_chance))
    };
    reads.into_iter().map(&mut add).collect()
}

#[test]
fn a_small_shortfall_that_stays_is_found_at_its_full_size() {
    let found = found_of(300, [326; 18]);
    let once: Vec<(u64, u64)> = [[(0, 0); 8].as_slice(), &[(234, 225)]].concat();
    assert_eq!(found, [once.clone(), once].concat());
    assert_eq!(found_of(300, [400]), [(100, 79)], "a large one at once");
}

#[test]
fn what_was_gained_before_pays_for_nothing() {
    assert_eq!(found_of(300, [0, 0, 400]), [(0, 0), (0, 0), (100, 79)]);
    // To and fro is chance, however long it lasts.
    assert!(found_of(300, [340, 260].repeat(500)).iter().all(|found| found.0 == 0));
}

#[test]
fn an_excess_is_owed_at_the_prices_of_its_intervals() {
    let promised = terms(100).promised;
    let mut evidence = Evidence::default();
    let of = |reads| MemoryCounts {
        references: 1000,
        told: 1000,
        actual: PageIo { reads, write_backs: 0 },
        ..MemoryCounts::default()
    };
    assert_eq!(evidence.add(Nanos(5), &of(8), Terms { promised, penalty_micros: 10 }), None);
    let found = evidence.add(Nanos(6), &of(92), Terms { promised, penalty_micros: 1 });
    assert_eq!(found, Some(Found { since: Nanos(5), excess: 100, by_chance: 30, owed_micros: 172 }));
    assert_eq!(evidence, Evidence::default());
}

#[test]
fn it_does_not_matter_when_a_checkpoint_writes_what_was_changed() {
    let tally: Arc<MemoryTally> = Arc::default();
    let mut meter = MemoryMeter::new(terms(100).promised, tally.clone()).expect("eight pages at least");
    (0..90).for_each(|no| meter.used(PageNo(no), PageUse::Read, |_: PageNo| {}));
    let before = tally.read().expect("nobody writes");
    for no in 0..20 {
        meter.changed(PageNo(no));
    }
    meter.used(PageNo(0), PageUse::Found, |_: PageNo| {});
    let changed = tally.read().expect("nobody writes").since(&before);
    assert_eq!((changed.actual.write_backs, changed.excess()), (0, 0));
    meter.checkpointed(super::super::WriteCause::Room);
    let written = tally.read().expect("nobody writes").since(&before);
    assert_eq!((written.actual.write_backs, written.excess()), (20, 0), "they are due in the ghost too");
    (0..20).for_each(|no| meter.changed(PageNo(no)));
    meter.used(PageNo(0), PageUse::Found, |_: PageNo| {});
    assert_eq!(
        tally.read().expect("nobody writes").since(&before).excess(),
        20,
        "which had not written them"
    );
}
