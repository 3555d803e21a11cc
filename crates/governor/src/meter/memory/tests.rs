//! The meter against a recomputation that sees every use of every page, and its bounds.

use std::collections::BTreeSet;

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, PageNo, TenantId};

use super::tally::CURVE_LEN;
use super::*;
use crate::fixture::Draws;
use crate::meter::Cause;

const TENANT: TenantId = TenantId(16);

fn pages(count: u64) -> ByteCount {
    ByteCount(count * PAGE_SIZE as u64)
}

fn meter(promised: u64) -> MemoryMeter {
    MemoryMeter::new(pages(promised), Arc::default()).expect("enough is promised")
}

/// A cache that is searched from end to end, and told of every use.
struct Plain {
    capacity: usize,
    held: Vec<PlainPage>,
    hand: usize,
    evictions: u64,
    io: PageIo,
}

struct PlainPage {
    no: PageNo,
    times: Vec<u64>,
    used: bool,
    changed: bool,
}

impl Plain {
    fn use_page(&mut self, no: PageNo, how: PageUse) {
        if let Some(page) = self.held.iter_mut().find(|page| page.no == no) {
            page.used = true;
            return;
        }
        let is_read = matches!(how, PageUse::Read | PageUse::ReadOnce);
        let new =
            PlainPage { no, times: vec![self.evictions], used: how != PageUse::ReadOnce, changed: false };
        if self.held.len() < self.capacity {
            self.held.push(new);
            self.io.reads += u64::from(is_read || (self.evictions > 0 && how == PageUse::Found));
            return;
        }
        let changed = self.held.iter().filter(|page| page.changed).count();
        if 4 * changed >= self.capacity {
            self.write_all();
        }
        let mut met = Vec::new();
        for _ in 0..2 * self.capacity {
            let page = &mut self.held[self.hand];
            if page.used {
                page.used = false;
                page.times.push(self.evictions);
            } else if !page.changed {
                met.push(self.hand);
            }
            self.hand = (self.hand + 1) % self.capacity;
            if met.len() == 8 {
                break;
            }
        }
        let before_last = |place: &usize| {
            let times = &self.held[*place].times;
            (times.iter().nth_back(1).copied().map_or(-1, |time| time as i64), times.last().copied())
        };
        let victim = met.into_iter().min_by_key(before_last).expect("a victim");
        self.held[victim] = new;
        self.evictions += 1;
        self.io.reads += u64::from(how != PageUse::Made);
    }

    fn write_all(&mut self) {
        for page in &mut self.held {
            self.io.write_backs += u64::from(std::mem::take(&mut page.changed));
        }
    }
}

/// One of its owner's pages.
#[derive(Clone, Copy, Default)]
struct Owned {
    is_resident: bool,
    /// Its uses are not noticed until somebody forgets them.
    is_warm: bool,
    is_changed: bool,
}

struct Owner {
    meter: MemoryMeter,
    plain: [Plain; CURVE_LEN],
    owned: Vec<Owned>,
    actual: PageIo,
    told: u64,
}

impl Owner {
    fn new(promised: u64, pages: usize) -> Owner {
        let meter = meter(promised);
        let plain = CURVE.map(|quarters| {
            let capacity = meter.sample().part_of(promised * quarters / 4).max(8);
            Plain { capacity, held: Vec::new(), hand: 0, evictions: 0, io: PageIo::default() }
        });
        let owned = vec![Owned::default(); pages];
        Owner { meter, plain, owned, actual: PageIo::default(), told: 0 }
    }

    fn use_page(&mut self, at: usize, is_once: bool) {
        let no = PageNo(at as u32);
        let page = self.owned[at];
        let how = match (page.is_resident, is_once) {
            (true, _) => PageUse::Found,
            (false, true) => PageUse::ReadOnce,
            (false, false) => PageUse::Read,
        };
        self.owned[at] = Owned { is_resident: true, is_warm: page.is_resident || !is_once, ..page };
        if !self.meter.sample().has(no) {
            return;
        }
        self.plain.iter_mut().for_each(|plain| plain.use_page(no, how));
        self.actual.reads += u64::from(how != PageUse::Found);
        if !page.is_warm {
            self.told += 1;
            let owned = &mut self.owned;
            self.meter.used(no, how, |no| owned[no.0 as usize].is_warm = false);
        }
    }

    fn change(&mut self, at: usize) {
        let no = PageNo(at as u32);
        let is_first = !std::mem::replace(&mut self.owned[at].is_changed, true);
        if is_first && self.meter.sample().has(no) {
            for plain in &mut self.plain {
                plain.held.iter_mut().filter(|page| page.no == no).for_each(|page| page.changed = true);
            }
            self.meter.changed(no);
        }
    }

    fn checkpoint(&mut self, cause: WriteCause) {
        for (i, page) in self.owned.iter_mut().enumerate() {
            let is_counted =
                std::mem::take(&mut page.is_changed) && self.meter.sample().has(PageNo(i as u32));
            self.actual.write_backs += u64::from(is_counted);
        }
        if cause == WriteCause::Log {
            self.plain.iter_mut().for_each(Plain::write_all);
        }
        self.meter.checkpointed(cause);
    }

    fn release(&mut self, at: usize) {
        let no = PageNo(at as u32);
        let page = std::mem::take(&mut self.owned[at]);
        if page.is_resident && self.meter.sample().has(no) {
            for plain in &mut self.plain {
                let Some(place) = plain.held.iter().position(|page| page.no == no) else { continue };
                let last = plain.held.len() - 1;
                plain.held.swap_remove(place);
                plain.hand = if plain.hand > last { 0 } else { plain.hand };
            }
            self.meter.released(no, page.is_changed);
        }
    }

    fn check(&self) {
        let counts = self.meter.tally().read().expect("nobody writes");
        let unit = self.meter.sample().unit();
        let scaled = |io: PageIo| PageIo { reads: io.reads * unit, write_backs: io.write_backs * unit };
        assert_eq!(counts.actual, scaled(self.actual));
        assert_eq!((counts.told, counts.references), (self.told, self.told * unit));
        for (found, plain) in counts.curve.iter().zip(&self.plain) {
            assert_eq!(*found, scaled(plain.io), "of {} pages", plain.capacity);
        }
    }
}

#[test]
fn the_first_uses_tell_all_that_every_use_would() {
    for seed in 0..12 {
        let mut draws = Draws(seed);
        let promised = draws.between(8, 600);
        let count = draws.between(promised / 3 + 20, promised * 5) as usize;
        let mut owner = Owner::new(promised, count);
        let (mut rows, mut audit) = (0, Rows::new(promised, owner.meter.tally().clone()));
        for step in 0..25_000_u64 {
            let at = draws.between(0, count as u64 - 1);
            // Low numbers are used more.
            let at = (draws.between(0, at) % count as u64) as usize;
            match draws.between(0, 199) {
                0..150 => owner.use_page(at, false),
                150..170 => owner.use_page((step % count as u64) as usize, true),
                170..185 if owner.owned[at].is_resident => {
                    owner.use_page(at, false);
                    owner.change(at);
                }
                // The real sweep forgets uses too, and evicts.
                185..196 => owner.owned[at].is_warm = false,
                196 => owner.owned[at].is_resident &= owner.owned[at].is_warm || owner.owned[at].is_changed,
                197 if draws.between(0, 9) == 0 => owner.checkpoint(WriteCause::Log),
                198 if draws.between(0, 9) == 0 => owner.checkpoint(WriteCause::Room),
                199 => owner.release(at),
                _ => {}
            }
            if step % 1000 == 999 {
                owner.check();
                rows += audit.collect();
            }
        }
        assert!(rows >= 1, "a row of {} uses told, seed {seed}", owner.told);
    }
}

/// The audit of one tenant, held against the counts.
struct Rows {
    audit: MemoryAudit,
    tally: Arc<MemoryTally>,
    judged: MemoryCounts,
    /// Excess, what the sample explains, and the square of a deviation, of intervals that left it open.
    open: (i64, f64, f64),
    held: u64,
    unit: u64,
    from: Nanos,
    now: Nanos,
}

impl Rows {
    /// The counts of `from` go to the tally that the audit reads.
    fn new(promised: u64, from: Arc<MemoryTally>) -> Rows {
        let meters = MemoryMeters::new();
        let terms =
            MemoryTerms { promised: pages(promised), penalty_micros: 3_000_000, ..MemoryTerms::default() };
        meters.set_tally(TENANT, terms, from.clone());
        let audit = MemoryAudit::new(meters, pages(promised), Nanos(0));
        let sample = meter(promised).sample();
        Rows {
            audit,
            tally: from,
            judged: MemoryCounts::default(),
            open: (0, 0.0, 0.0),
            held: promised / sample.unit(),
            unit: sample.unit(),
            from: Nanos(0),
            now: Nanos(0),
        }
    }

    fn collect(&mut self) -> usize {
        self.now += Nanos::from_millis(600);
        let mut rows = Vec::new();
        self.audit.collect(self.now, ByteCount(0), |row| rows.push(row));
        let counts = self.tally.read().expect("nobody writes");
        let (io, base) = (counts.actual, counts.curve[2]);
        let missed = |counts: &MemoryCounts| {
            let (io, base) = (counts.actual, counts.curve[2]);
            (io.reads + io.write_backs) as i64 - (base.reads + base.write_backs) as i64
        };
        // At a whole second, the first that leaves it half of one.
        let end = Nanos::from_secs((self.from + Nanos::from_millis(500)).0.div_ceil(1_000_000_000));
        if counts.told - self.judged.told < 1000 || self.now < end {
            assert_eq!(rows, []);
            return 0;
        }
        let [MemoryRow { ledger: row, counts: of_row }] = rows[..] else { panic!("{rows:?}") };
        let excess = missed(&counts) - missed(&self.judged);
        assert_eq!(row.demanded as i64 - row.given as i64, excess);
        let found = self.found(excess, &counts);
        assert_eq!(row.missed, found);
        assert!(row.by_chance <= row.missed, "{row:?}");
        assert_eq!(row.cause, (found > 0).then_some(Cause::Neighbour));
        assert_eq!(row.owed_micros, row.missed * 3_000_000);
        assert_eq!((row.from, row.to), (self.from, self.now));
        assert_eq!(of_row.actual.reads, io.reads - self.judged.actual.reads);
        assert_eq!(of_row.baseline().write_backs, base.write_backs - self.judged.curve[2].write_backs);
        (self.judged, self.from) = (counts, self.now);
        1
    }

    /// What is found at the end of an interval with this excess, by `counts`.
    fn found(&mut self, excess: i64, counts: &MemoryCounts) -> u64 {
        let io = |of: PageIo, before: PageIo| (of.total() - before.total()) as f64;
        let [actual, half, whole] = [
            io(counts.actual, self.judged.actual),
            io(counts.curve[1], self.judged.curve[1]),
            io(counts.curve[2], self.judged.curve[2]),
        ];
        let open = &mut self.open;
        let unwritten = counts.unwritten - self.judged.unwritten;
        open.0 += excess + unwritten;
        if self.unit > 1 {
            open.1 += (half - whole).max(0.0) / (self.held as f64).sqrt();
        }
        open.2 += (actual + whole + unwritten.unsigned_abs() as f64) * self.unit as f64;
        let (all, by_sample, square) = *open;
        let is_found = all as f64 >= by_sample + 3.0 * square.sqrt();
        if all as f64 <= by_sample {
            self.open = (0, 0.0, 0.0);
            return 0;
        }
        if is_found {
            self.open = (0, 0.0, 0.0);
        }
        if is_found { all.unsigned_abs() } else { 0 }
    }
}

#[test]
fn a_curve_is_of_what_came_since_its_promise_was_made() {
    let meters = MemoryMeters::new();
    let terms = |promised: u64| MemoryTerms { promised: pages(promised), ..MemoryTerms::default() };
    let tally = meters.set_terms(TENANT, terms(16), Nanos(0));
    // Round and round more pages than sixteen, as many as twice that hold.
    let go_round = |meter: &mut MemoryMeter, uses: u32| {
        for step in 0..uses {
            let no = PageNo(1 + step % 24);
            if meter.sample().has(no) {
                meter.used(no, PageUse::Found, |_| {});
            }
        }
    };
    let mut meter = MemoryMeter::new(pages(16), tally.clone()).expect("eight pages at least");
    go_round(&mut meter, 999);
    assert_eq!(meters.curve(TENANT), [], "too little is no evidence");
    assert_eq!(meters.references_of_curve(TENANT), None);
    go_round(&mut meter, 1);
    let curve = meters.curve(TENANT);
    let sizes: Vec<ByteCount> = curve.iter().map(|(size, _)| *size).collect();
    assert_eq!(sizes, [4, 8, 16, 32, 64].map(pages));
    let of_it = tally.read().expect("nobody writes").curve;
    assert_eq!(curve.iter().map(|(_, io)| *io).collect::<Vec<_>>(), of_it);
    assert!(of_it[2].reads > 0 && of_it[3].reads == 0, "{of_it:?}");
    // The same promise again changes nothing; another begins anew, with what is counted from there on.
    meters.set_terms(TENANT, terms(16), Nanos(1));
    assert_eq!(meters.curve(TENANT), curve);
    let references = meters.references_of_curve(TENANT).expect("there is a curve");
    assert!(curve.iter().all(|(_, io)| io.reads <= references), "{references}: {curve:?}");
    meters.set_terms(TENANT, terms(32), Nanos(2));
    assert_eq!(meters.curve(TENANT), []);
    let mut meter = MemoryMeter::new(pages(32), tally.clone()).expect("eight pages at least");
    go_round(&mut meter, 1000);
    let curve = meters.curve(TENANT);
    assert_eq!(curve[1].0, pages(16));
    let of_both = tally.read().expect("nobody writes").curve[1];
    assert_eq!(curve[1].1.reads, of_both.reads - of_it[1].reads);
    assert!(curve[1].1.reads > 0 && of_it[1].reads > 0);
    assert_eq!(curve[2].1, PageIo::default(), "all 24 fit into 32");
    meters.set_terms(TENANT, terms(0), Nanos(3));
    assert_eq!(meters.curve(TENANT), [], "nothing is promised");
    assert_eq!(meters.curve(base::TenantId(99)), []);
}

#[test]
fn a_promise_of_any_size_is_metered_in_96_kib() {
    assert!(MemoryMeter::new(pages(7), Arc::default()).is_none());
    // The last is all that can be promised, more pages than a tenant can have.
    for promised in [8, 100, 5000, 1 << 20, 1 << 27, 1 << 32, 1 << 41, 1 << 47] {
        let meter = meter(promised);
        assert!(meter.memory().0 <= 96 << 10, "{promised} pages: {:?}", meter.memory());
    }
}

#[test]
fn counts_go_on_when_a_tenant_is_opened_again_and_ghosts_begin_anew() {
    let tally: Arc<MemoryTally> = Arc::default();
    let of = |tally: &Arc<MemoryTally>| MemoryMeter::new(pages(8), tally.clone()).expect("eight pages");
    let mut first = of(&tally);
    (1..=8).for_each(|no| first.used(PageNo(no), PageUse::Read, |_| {}));
    let mut second = of(&tally);
    // What is in memory already is not held against the baseline of a ghost that has not been full yet.
    (1..=8).for_each(|no| second.used(PageNo(no), PageUse::Found, |_| {}));
    let counts = tally.read().expect("nobody writes");
    assert_eq!((counts.actual.reads, counts.baseline().reads, counts.told), (8, 8, 16));
    second.used(PageNo(9), PageUse::Found, |_| {});
    second.emptied();
    second.used(PageNo(9), PageUse::Read, |_| {});
    let counts = tally.read().expect("nobody writes");
    assert_eq!((counts.actual.reads, counts.baseline().reads), (9, 10));
}

#[test]
fn pages_named_to_forget_are_those_whose_use_was_known() {
    let mut meter = meter(8);
    let mut warm = BTreeSet::new();
    let mut forgotten = 0;
    for round in 0..2000_u32 {
        let no = PageNo(1 + round.wrapping_mul(2_654_435_761) % 23);
        if warm.insert(no) {
            meter.used(no, PageUse::Found, |no| forgotten += u32::from(warm.remove(&no)));
        }
    }
    assert!(forgotten > 500, "{forgotten}");
}

#[test]
fn promises_whose_sum_passes_64_bits_are_overbooked() {
    let meters = MemoryMeters::new();
    let terms = MemoryTerms { promised: ByteCount(1 << 60), ..MemoryTerms::default() };
    let tallies = (0..16).map(|n| meters.set_terms(TenantId(TENANT.0 + n), terms, Nanos(0)));
    let actual = PageIo { reads: 1 << 32, write_backs: 0 };
    let used = MemoryCounts { references: 1 << 33, told: 1 << 33, actual, ..MemoryCounts::default() };
    tallies.for_each(|tally| tally.publish(&used));
    let mut audit = MemoryAudit::new(meters, pages(100), Nanos(0));
    let mut causes = Vec::new();
    audit.collect(Nanos::from_secs(1), ByteCount(0), |row| causes.push(row.ledger.cause));
    assert_eq!(causes, [Some(Cause::Overbooked); 16]);
}

#[test]
fn memory_that_was_overbooked_in_any_part_of_an_interval_is_the_cause() {
    let (meters, other) = (MemoryMeters::new(), TenantId(17));
    let terms = MemoryTerms { promised: pages(80), ..MemoryTerms::default() };
    let [tally, of_other] = [TENANT, other].map(|tenant| meters.set_terms(tenant, terms, Nanos(0)));
    let mut audit = MemoryAudit::new(meters, pages(100), Nanos(0));
    let used = |told, reads| MemoryCounts {
        references: told,
        told,
        actual: PageIo { reads, write_backs: 0 },
        ..MemoryCounts::default()
    };
    let mut collect = |second| {
        let mut causes = Vec::new();
        audit.collect(Nanos::from_secs(second), ByteCount(0), |row| causes.push(row.ledger.cause));
        causes
    };
    // Both use their memory; of neither there is evidence enough.
    tally.publish(&used(600, 9));
    of_other.publish(&used(10, 0));
    assert_eq!(collect(1), []);
    tally.publish(&used(1200, 18));
    assert_eq!(collect(2), [Some(Cause::Overbooked)]);
    tally.publish(&used(2400, 30));
    assert_eq!(collect(3), [Some(Cause::Neighbour)]);
}

/// Tells of so many uses of pages, all of them in the sample, and reads.
fn count_reads(tally: &MemoryTally, told: u64, reads: u64) {
    let actual = PageIo { reads, write_backs: 0 };
    tally.publish(&MemoryCounts { references: told, told, actual, ..MemoryCounts::default() });
}

/// The rows that are ready at `at`: what was missed, and what is owed for it.
fn missed_and_owed(audit: &mut MemoryAudit, at: Nanos) -> Vec<(u64, u64)> {
    let mut rows = Vec::new();
    audit.collect(at, ByteCount(0), |row| rows.push((row.ledger.missed, row.ledger.owed_micros)));
    rows
}

#[test]
fn a_promise_that_is_taken_back_is_held_against_what_was_counted_until_then() {
    let (meters, ms) = (MemoryMeters::new(), Nanos::from_millis);
    let (none, terms) = (MemoryTerms::default(), |penalty_micros| MemoryTerms {
        promised: pages(80),
        penalty_micros,
        ..MemoryTerms::default()
    });
    let tally = meters.set_terms(TENANT, terms(3_000_000), ms(0));
    let mut audit = MemoryAudit::new(meters.clone(), pages(100), ms(0));
    let count = |told, reads| count_reads(&tally, told, reads);
    let mut collect = |at| missed_and_owed(&mut audit, ms(at));
    count(10, 0);
    assert_eq!(collect(100), []);
    count(1200, 18);
    meters.set_terms(TENANT, none, ms(700));
    assert_eq!(collect(800), [(18, 54_000_000)]);
    count(5000, 90);
    assert_eq!(collect(1900), [], "nothing was promised");
    // With too little of a promise there is no evidence.
    meters.set_terms(TENANT, terms(0), ms(1900));
    assert_eq!(collect(2000), []);
    count(5600, 99);
    meters.set_terms(TENANT, none, ms(2700));
    assert_eq!(collect(2800), []);
}

#[test]
fn what_was_counted_at_another_price_is_priced_by_that() {
    let (meters, ms) = (MemoryMeters::new(), Nanos::from_millis);
    let terms = |penalty_micros| MemoryTerms {
        promised: pages(80),
        penalty_micros,
        interval: Some(Nanos::from_secs(60)),
    };
    let tally = meters.set_terms(TENANT, terms(3_000_000), ms(0));
    let mut audit = MemoryAudit::new(meters.clone(), pages(100), ms(0));
    let count = |told, reads| count_reads(&tally, told, reads);
    let mut collect = |at| missed_and_owed(&mut audit, ms(at));
    count(10, 0);
    assert_eq!(collect(1000), []);
    count(1200, 18);
    assert_eq!(collect(2000), []);
    meters.set_terms(TENANT, terms(0), ms(2900));
    assert_eq!(collect(3000), [(18, 54_000_000)], "in the middle of its interval");
    count(2500, 30);
    assert_eq!(collect(59_000), []);
    assert_eq!(collect(60_000), [(12, 0)]);
    // What is no evidence goes on, at the new price.
    count(2600, 31);
    meters.set_terms(TENANT, terms(1_000_000), ms(60_500));
    assert_eq!(collect(61_000), []);
    count(3700, 51);
    assert_eq!(collect(120_000), [(21, 21_000_000)]);
}
