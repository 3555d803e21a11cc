//! A memory with tenants. The same world with one tenant and its promise for a limit is the dedicated cache that the promise is
//! about.

use base::limits::PAGE_SIZE;
use base::{ByteCount, Nanos, PageNo, TenantId};
use governor::{
    EvictionTime, MemoryAudit, MemoryMeter, MemoryMeters, MemoryPrice, MemoryPricing, MemoryRow, MemoryTerms,
    Overbooking, OwnAges, PageUse, Policy, UseTimes, VictimChoice, WriteCause,
};

/// A cheap sequence without visible order.
#[derive(Clone)]
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Which pages a tenant uses.
#[derive(Clone, Debug)]
pub(crate) enum Habit {
    /// The i-th page in proportion to 1 / i^skew, but for its place in the file, which is anywhere.
    Skewed { pages: u64, skew: f64 },
    /// One after the other, round and round.
    Scan { pages: u64 },
    /// The same, by readers that leave no second use.
    ScanOnce { pages: u64 },
    /// A scan of `scanned` pages for one use in `every` of the others.
    Mixed { pages: u64, skew: f64, scanned: u64, every: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// 0: nothing is promised.
    pub(crate) promised_pages: u64,
    pub(crate) penalty_micros: u64,
    pub(crate) habit: Habit,
    /// Uses in a tick.
    pub(crate) rate: u64,
    /// Of a hundred uses, those that change the page.
    pub(crate) changes_percent: u64,
    /// Ticks in which it does nothing.
    pub(crate) idle: std::ops::Range<u64>,
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn of(promised_pages: u64, habit: Habit, rate: u64, seed: u64) -> Plan {
        Plan { promised_pages, penalty_micros: 0, habit, rate, changes_percent: 0, idle: 0..0, seed }
    }
}

/// A length of time in which every tenant has its uses.
pub(crate) const TICK: Nanos = Nanos::from_millis(10);
pub(crate) const TICKS_A_SECOND: u64 = 100;
/// Pages looked at in a step of a sweep.
const STEP: usize = 256;
/// Rounds without a victim before changed pages are written.
const DRY_ROUNDS_MAX: u32 = 3;
const LOG_CHECKPOINT_EVERY: u64 = 5 * TICKS_A_SECOND;

#[derive(Clone, Copy, Default)]
struct Page {
    uses: UseTimes,
    is_resident: bool,
    /// Its address is known where it is looked up.
    is_warm: bool,
    is_changed: bool,
}

/// What a broken choice of victims does to the first tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// Its pages have no price.
    NoPrice,
    /// Its pages always leave.
    Always,
}

pub(crate) struct Tenant {
    pub(crate) plan: Plan,
    pub(crate) id: TenantId,
    pages: Vec<Page>,
    pub(crate) resident: u64,
    changed: u64,
    hand: usize,
    price: MemoryPrice,
    own: OwnAges,
    meter: Option<MemoryMeter>,
    draws: Draws,
    scan_at: u64,
    ranks: Vec<f64>,
    /// Reads of pages, all of them, and those by second.
    pub(crate) reads_by_second: Vec<u64>,
    pub(crate) reads: u64,
    pub(crate) write_backs: u64,
}

pub(crate) struct World {
    pub(crate) tenants: Vec<Tenant>,
    limit: u64,
    headroom: u64,
    resident: u64,
    evicted: u32,
    choice: VictimChoice,
    next: usize,
    pub(crate) policy: Policy,
    pub(crate) fault: Fault,
    audit: MemoryAudit,
    pricing: MemoryPricing,
    tick: u64,
    pub(crate) rows: Vec<MemoryRow>,
    /// Pages above the limit that had to be allowed.
    pub(crate) overdrafts: u64,
}

impl World {
    /// A memory of so many pages.
    pub(crate) fn new(limit: u64, plans: &[Plan]) -> World {
        let meters = MemoryMeters::new();
        let headroom = limit / 16;
        let promisable = ByteCount((limit - 2 * headroom) * PAGE_SIZE as u64);
        let tenants = plans.iter().enumerate().map(|(i, plan)| {
            let id = TenantId(TenantId::FIRST_USER.0 + i as u64);
            let promised = ByteCount(plan.promised_pages * PAGE_SIZE as u64);
            let terms = MemoryTerms { promised, penalty_micros: plan.penalty_micros, interval: None };
            let tally = meters.set_terms(id, terms, Nanos(0));
            let (pages, skew) = match plan.habit {
                Habit::Skewed { pages, skew } | Habit::Mixed { pages, skew, .. } => (pages, skew),
                Habit::Scan { pages } | Habit::ScanOnce { pages } => (pages, 0.0),
            };
            let scanned = if let Habit::Mixed { scanned, .. } = plan.habit { scanned } else { 0 };
            let mut sum = 0.0;
            let ranks = (1..=pages).map(|rank| {
                sum += (rank as f64).powf(-skew);
                sum
            });
            Tenant {
                plan: plan.clone(),
                id,
                pages: vec![Page::default(); (pages + scanned) as usize],
                resident: 0,
                changed: 0,
                hand: 0,
                price: if plan.promised_pages > 0 { MemoryPrice::MOST } else { MemoryPrice::LEAST },
                own: OwnAges::default(),
                meter: MemoryMeter::new(promised, tally),
                draws: Draws(plan.seed),
                scan_at: 0,
                ranks: ranks.collect(),
                reads: 0,
                reads_by_second: Vec::new(),
                write_backs: 0,
            }
        });
        World {
            tenants: tenants.collect(),
            limit,
            headroom,
            resident: 0,
            evicted: 0,
            choice: VictimChoice::default(),
            next: 0,
            policy: Policy::Reservations(Overbooking::SPREAD),
            fault: Fault::None,
            audit: MemoryAudit::new(meters.clone(), promisable, Nanos(0)),
            pricing: MemoryPricing::new(meters),
            tick: 0,
            rows: Vec::new(),
            overdrafts: 0,
        }
    }

    /// The tenant alone in a memory that can hold what it is promised.
    pub(crate) fn dedicated(plan: &Plan) -> World {
        // So that evictors, too, leave so many pages.
        let mut world = World::new(plan.promised_pages, std::slice::from_ref(plan));
        world.headroom = 0;
        world
    }

    fn now(&self) -> Nanos {
        Nanos(self.tick * TICK.0)
    }

    pub(crate) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * TICKS_A_SECOND {
            let rate_max = self.tenants.iter().map(|tenant| tenant.plan.rate).max().unwrap_or(0);
            // Uses of all tenants are spread over the tick.
            for step in 0..rate_max {
                for i in 0..self.tenants.len() {
                    let plan = &self.tenants[i].plan;
                    let is_turn = step * plan.rate / rate_max != (step + 1) * plan.rate / rate_max;
                    if is_turn && !plan.idle.contains(&self.tick) {
                        self.one_use(i);
                    }
                }
            }
            self.tick += 1;
            if self.tick.is_multiple_of(LOG_CHECKPOINT_EVERY) {
                (0..self.tenants.len()).for_each(|i| self.tenants[i].checkpoint(WriteCause::Log));
            }
            if self.tick.is_multiple_of(TICKS_A_SECOND) {
                self.end_second();
            }
        }
    }

    fn end_second(&mut self) {
        for tenant in &mut self.tenants {
            tenant.reads_by_second.push(tenant.reads);
        }
        let now = self.now();
        let promisable = ByteCount((self.limit - 2 * self.headroom) * PAGE_SIZE as u64);
        let (tenants, fault) = (&mut self.tenants, self.fault);
        self.pricing.end_epoch(self.policy, promisable, |id, price| {
            let index = (id.0 - TenantId::FIRST_USER.0) as usize;
            let is_faulty = index == 0 && fault == Fault::NoPrice;
            tenants[index].price = if is_faulty { MemoryPrice::LEAST } else { price };
        });
        let rows = &mut self.rows;
        self.audit.collect(now, ByteCount(0), |row| rows.push(row));
    }

    fn one_use(&mut self, i: usize) {
        let tenant = &mut self.tenants[i];
        let (no, is_once) = tenant.draw();
        let page = tenant.pages[no];
        if !page.is_resident {
            tenant.reads += 1;
            self.make_room();
            let now = EvictionTime(self.evicted);
            self.resident += 1;
            let tenant = &mut self.tenants[i];
            tenant.resident += 1;
            let page = &mut tenant.pages[no];
            *page = Page { uses: UseTimes::read_at(now), is_resident: true, ..Page::default() };
            page.is_warm = !is_once;
            tenant.tell(no, if is_once { PageUse::ReadOnce } else { PageUse::Read });
        } else if !page.is_warm {
            tenant.pages[no].is_warm = true;
            tenant.tell(no, PageUse::Found);
        }
        let tenant = &mut self.tenants[i];
        if tenant.draws.between(0, 99) < tenant.plan.changes_percent && !tenant.pages[no].is_changed {
            tenant.pages[no].is_changed = true;
            tenant.changed += 1;
            if let Some(meter) = &mut tenant.meter
                && meter.sample().has(page_no(no))
            {
                meter.changed(page_no(no));
            }
        }
    }

    /// Until there is room for a page: evictors begin at a mark below the limit and end at a second one.
    fn make_room(&mut self) {
        if self.resident + 1 <= self.limit - self.headroom {
            return;
        }
        let mut dry = 0;
        while self.resident + 1 > self.limit - 2 * self.headroom {
            let evicted = self.round();
            if evicted > 0 {
                dry = 0;
                continue;
            }
            dry += 1;
            if dry <= DRY_ROUNDS_MAX {
                continue;
            }
            let dirtiest = self.tenants.iter_mut().max_by_key(|tenant| tenant.changed).expect("a tenant");
            if dirtiest.changed > 0 {
                dirtiest.checkpoint(WriteCause::Room);
            } else if dry > 64 {
                self.overdrafts += 1;
                return;
            }
        }
    }

    fn round(&mut self) -> u32 {
        let before = self.evicted;
        for _ in 0..self.tenants.len() {
            let i = self.next % self.tenants.len();
            loop {
                let ended = self.sweep_step(i);
                if self.resident + 1 <= self.limit - 2 * self.headroom {
                    return self.evicted - before;
                }
                if ended {
                    break;
                }
            }
            self.next = i + 1;
            if self.tenants[i].changed >= self.limit / 4 {
                self.tenants[i].checkpoint(WriteCause::Room);
            }
        }
        self.evicted - before
    }

    /// Looks at the next few pages of a tenant; whether they were its last.
    fn sweep_step(&mut self, i: usize) -> bool {
        let (tenant, choice) = (&mut self.tenants[i], &mut self.choice);
        let end = (tenant.hand + STEP).min(tenant.pages.len());
        for no in tenant.hand..end {
            let price = tenant.price_now();
            let page = &mut tenant.pages[no];
            if !page.is_resident {
                continue;
            }
            let now = EvictionTime(self.evicted);
            if std::mem::take(&mut page.is_warm) || page.uses.is_touched() {
                choice.note_used(price, page.uses, now);
                page.uses = page.uses.used_at(now);
                continue;
            }
            let is_faulty = i == 0 && self.fault == Fault::Always;
            let mut is_victim = || match tenant.plan.promised_pages {
                0 => choice.is_victim(price, page.uses, now),
                _ => choice.is_victim_of(&tenant.own, price, page.uses, now),
            };
            if !page.is_changed && (is_victim() || is_faulty) {
                page.is_resident = false;
                tenant.resident -= 1;
                self.resident -= 1;
                self.evicted = self.evicted.wrapping_add(1);
            }
        }
        tenant.hand = if end == tenant.pages.len() { 0 } else { end };
        tenant.hand == 0
    }
}

fn bytes(pages: u64) -> ByteCount {
    ByteCount(pages * PAGE_SIZE as u64)
}

fn page_no(index: usize) -> PageNo {
    PageNo(index as u32 + 1)
}

impl Tenant {
    fn draw(&mut self) -> (usize, bool) {
        let skewed = |tenant: &mut Tenant| {
            let at = tenant.draws.unit() * tenant.ranks.last().expect("pages");
            let rank = tenant.ranks.partition_point(|sum| *sum <= at).min(tenant.ranks.len() - 1);
            // Neighbours in rank lie anywhere: 7919 is prime, and no factor of the numbers of pages in use here.
            rank * 7919 % tenant.ranks.len()
        };
        let scan = |tenant: &mut Tenant, pages: u64| {
            tenant.scan_at = (tenant.scan_at + 1) % pages;
            tenant.scan_at as usize
        };
        match self.plan.habit {
            Habit::Skewed { .. } => (skewed(self), false),
            Habit::Scan { pages } => (scan(self, pages), false),
            Habit::ScanOnce { pages } => (scan(self, pages), true),
            Habit::Mixed { pages, scanned, every, .. } => {
                if self.draws.between(1, every) == 1 {
                    (pages as usize + scan(self, scanned), true)
                } else {
                    (skewed(self), false)
                }
            }
        }
    }

    /// What the price of its pages is while it has as many as it has.
    fn price_now(&self) -> MemoryPrice {
        self.price.at(bytes(self.resident), bytes(self.plan.promised_pages))
    }

    fn tell(&mut self, no: usize, how: PageUse) {
        let Some(meter) = self.meter.as_mut().filter(|meter| meter.sample().has(page_no(no))) else { return };
        let pages = &mut self.pages;
        meter.used(page_no(no), how, |no| {
            let page = &mut pages[no.0 as usize - 1];
            if std::mem::take(&mut page.is_warm) {
                page.uses = page.uses.touched();
            }
        });
    }

    fn checkpoint(&mut self, cause: WriteCause) {
        self.write_backs += self.changed;
        self.changed = 0;
        self.pages.iter_mut().for_each(|page| page.is_changed = false);
        if let Some(meter) = &mut self.meter {
            meter.checkpointed(cause);
        }
    }

    /// What its meter counted.
    pub(crate) fn counts(&self) -> governor::MemoryCounts {
        self.meter.as_ref().and_then(|meter| meter.tally().read()).expect("it is promised something")
    }
}
