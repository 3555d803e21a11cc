//! One look at the server each second: from counters that only grow to what each tenant did in that second.
//!
//! Looked at are the tenants that are open, and those that the meters told of: idle tenants that are closed cost nothing, however many there
//! are. Processor time, memory and waits are of the second; demand, I/O and statements are of the metering intervals that ended in it, and
//! are held until the next ones do.

use std::sync::Arc;

use base::{Nanos, TenantId};
use governor::{Promise, SparseHistogram};
use rustc_hash::{FxHashMap, FxHashSet};

use super::frames::{
    Bounds, Frame, KEPT_MAX, LINES_MAX, Rates, Sums, TenantSample, keep_most, most_first, weight,
};
use crate::executor::Wait;
use crate::ledger::{Judged, Recent, RecentResource};
use crate::shared::Shared;
use crate::tenants::{Entry, Home};

/// What is held of a tenant's resource is over after so many metering intervals in which the meters told nothing new of it, of anybody: their thread is late.
const INTERVALS_HELD: u64 = 2;
/// And not before this.
const HELD_MIN: Nanos = Nanos::from_secs(3);

/// What a tenant did in its last metering intervals.
#[derive(Clone, Default)]
pub(super) struct Metered {
    pub(super) cpu: Rates,
    pub(super) io: Box<[Rates]>,
    pub(super) memory: Rates,
    pub(super) work_memory: Rates,
    pub(super) statements_per_s: f32,
    pub(super) p50_ms: Option<f32>,
    pub(super) p99_ms: Option<f32>,
    heard: Heard,
}

/// When the meters told of each resource last.
#[derive(Clone, Default)]
struct Heard {
    cpu: Nanos,
    io: Box<[Nanos]>,
    memory: Nanos,
    work_memory: Nanos,
}

impl Heard {
    fn last(&self) -> Nanos {
        let io = self.io.iter().copied().max().unwrap_or_default();
        self.cpu.max(self.memory).max(self.work_memory).max(io)
    }
}

/// What was told before is not held any more.
struct HeldSince {
    cpu: Nanos,
    io: Nanos,
    /// Of pages and of statements.
    memory: Nanos,
}

/// What a tenant used in the last second.
#[derive(Clone, Copy, Default)]
struct Used {
    cpu: f32,
    resident: u64,
}

/// Counters of a tenant as they were at the last look.
#[derive(Clone, Copy, Default)]
struct Before {
    cpu: Nanos,
    waits: [Nanos; 1 + Wait::ALL.len()],
    /// When the waits were looked at, which is done for tenants of a frame alone; 0 for never.
    waits_at: Nanos,
}

impl Before {
    /// What a tenant's tasks waited for since they were last looked at, in seconds of each second.
    fn waits_since(&mut self, waits: [Nanos; 1 + Wait::ALL.len()], now: Nanos) -> [f32; 1 + Wait::ALL.len()] {
        let (since, at) =
            (std::mem::replace(&mut self.waits, waits), std::mem::replace(&mut self.waits_at, now));
        if at == Nanos(0) || now <= at {
            return [0.0; 1 + Wait::ALL.len()];
        }
        let seconds = (now - at).as_secs_f64();
        let of = |wait: usize| Nanos(waits[wait].0.saturating_sub(since[wait].0)).as_secs_f64() / seconds;
        std::array::from_fn(|wait| of(wait) as f32)
    }
}

/// The state between two looks.
pub(super) struct Sampler {
    last: Nanos,
    judged: Judged,
    volumes: usize,
    metered: FxHashMap<TenantId, Metered>,
    before: FxHashMap<TenantId, Before>,
    used: FxHashMap<TenantId, Used>,
}

fn ms(nanos: u64) -> f32 {
    (nanos as f64 / 1e6) as f32
}

/// Amounts of a resource over a time, as rates; `unit`: how much of it is one.
fn rates(of: &RecentResource, unit: f64) -> Rates {
    let rate = |amount: u64| (amount as f64 / unit / of.time.as_secs_f64()) as f32;
    Rates {
        promised: rate(of.promised),
        demanded: rate(of.demanded),
        given: rate(of.given),
        missed: rate(of.missed),
        cause: of.cause,
    }
}

impl Metered {
    /// Takes in what came since the last look; what did not come is as it was.
    fn take_in(&mut self, recent: &Recent, volumes: usize, now: Nanos) {
        if self.io.is_empty() {
            self.io = vec![Rates::default(); volumes].into();
            self.heard.io = vec![Nanos(0); volumes].into();
        }
        if recent.cpu.time > Nanos(0) {
            self.cpu = rates(&recent.cpu, 1e9);
            self.take_statements(&recent.statements, recent.cpu.time);
            self.heard.cpu = now;
        }
        for (volume, of) in &recent.io {
            if let Some(io) = self.io.get_mut(*volume as usize) {
                *io = rates(of, 1.0);
                self.heard.io[*volume as usize] = now;
            }
        }
        let heard = &mut self.heard;
        for (of, to, heard) in [
            (&recent.memory, &mut self.memory, &mut heard.memory),
            (&recent.work_memory, &mut self.work_memory, &mut heard.work_memory),
        ] {
            if of.time > Nanos(0) {
                *to = rates(of, 1.0);
                *heard = now;
            }
        }
    }

    /// Lets go of what was told before these instants: nothing has been used of it since then.
    fn let_go(&mut self, since: &HeldSince) {
        if self.heard.cpu < since.cpu {
            self.cpu = Rates::default();
            (self.statements_per_s, self.p50_ms, self.p99_ms) = (0.0, None, None);
        }
        let of_io = self.io.iter_mut().zip(&self.heard.io).map(|of| (of, since.io));
        let of_memory =
            [(&mut self.memory, &self.heard.memory), (&mut self.work_memory, &self.heard.work_memory)];
        for ((rates, heard), since) in of_io.chain(of_memory.map(|of| (of, since.memory))) {
            if *heard < since {
                *rates = Rates::default();
            }
        }
    }

    fn take_statements(&mut self, times: &SparseHistogram, over: Nanos) {
        let count = times.count();
        self.statements_per_s = (count as f64 / over.as_secs_f64()) as f32;
        let at = |part: f64| (count > 0).then(|| ms(times.percentile(part)));
        (self.p50_ms, self.p99_ms) = (at(0.5), at(0.99));
    }
}

/// What a tenant did last, for the table of tenants.
#[derive(Default)]
pub(super) struct Lately {
    pub(super) cpu: f32,
    pub(super) metered: Metered,
}

impl Sampler {
    pub(super) fn new(shared: &Shared) -> Sampler {
        Sampler {
            last: shared.env.now(),
            judged: Judged::default(),
            volumes: shared.volumes.list().len(),
            metered: FxHashMap::default(),
            before: FxHashMap::default(),
            used: FxHashMap::default(),
        }
    }

    /// What a tenant did last; `None` if nothing.
    pub(super) fn lately(&self, tenant: TenantId) -> Option<Lately> {
        let (used, metered) = (self.used.get(&tenant), self.metered.get(&tenant));
        if used.is_none() && metered.is_none() {
            return None;
        }
        Some(Lately { cpu: used.map_or(0.0, |used| used.cpu), metered: metered.cloned().unwrap_or_default() })
    }

    /// The tenants that are open now, and those of which [`Sampler::lately`] has something.
    pub(super) fn active(&self, shared: &Shared) -> FxHashSet<TenantId> {
        let known = self.used.keys().chain(self.metered.keys()).copied();
        open_homes(shared).into_keys().chain(known).collect()
    }

    /// Looks. `watched` are in the frame whatever they do.
    pub(super) fn look(&mut self, shared: &Shared, watched: &FxHashSet<TenantId>) -> Frame {
        let now = shared.env.now();
        let seconds = (now - self.last).as_secs_f64().max(1e-3) as f32;
        self.last = now;
        self.hear(shared, now);
        let homes = open_homes(shared);
        self.used = homes.iter().map(|(id, home)| (*id, self.look_at(shared, *id, home, seconds))).collect();
        let sums = self.sums();
        let chosen = self.choose(&sums, watched);
        let tenants: Box<[TenantSample]> = chosen
            .into_iter()
            .filter_map(|id| shared.tenants.get(id))
            .map(|entry| self.sample(shared, &entry))
            .collect();
        self.before.retain(|id, _| self.used.contains_key(id));
        let io_capacity =
            shared.volumes.list().iter().map(|volume| volume.capacity().map(|iops| iops as f64));
        Frame {
            at: now,
            tenants,
            lines: lines(&self.metered),
            sums,
            cpu_capacity: shared.workers.len() as f64,
            memory_capacity: shared.memory.limit().0 as f64,
            io_capacity: io_capacity.collect(),
            sessions: shared.sessions.count(),
            broken: self.broken(),
        }
    }

    fn hear(&mut self, shared: &Shared, now: Nanos) {
        let heard = shared.ledger.recent().take();
        for (tenant, recent) in heard.tenants {
            self.metered.entry(tenant).or_default().take_in(&recent, self.volumes, now);
        }
        let before = std::mem::replace(&mut self.judged, heard.judged);
        let interval = shared.policy.get().metering_interval();
        let held = Nanos(INTERVALS_HELD * interval.0).max(HELD_MIN);
        let since = Nanos(now.0.saturating_sub(held.0));
        // Who has no row of an interval that was judged since the last look did nothing in it.
        let held_since = |before: Nanos, judged: Nanos| if judged > before { now } else { since };
        let held = HeldSince {
            cpu: held_since(before.cpu, heard.judged.cpu),
            io: held_since(before.io, heard.judged.io),
            memory: since,
        };
        self.metered.retain(|_, metered| {
            metered.let_go(&held);
            metered.heard.last() >= since
        });
    }

    fn look_at(&mut self, shared: &Shared, id: TenantId, home: &Home, seconds: f32) -> Used {
        let cpu = shared.used_by(id);
        let before = self.before.entry(id).or_insert_with(|| Before { cpu, ..Before::default() });
        let used = cpu.0.saturating_sub(before.cpu.0);
        before.cpu = cpu;
        Used { cpu: (used as f64 / 1e9) as f32 / seconds, resident: home.page_figures().0.0 }
    }

    fn sums(&self) -> Sums {
        let mut io = vec![0.0; self.volumes];
        let mut statements_per_s = 0.0;
        for metered in self.metered.values() {
            statements_per_s += f64::from(metered.statements_per_s);
            io.iter_mut().zip(&metered.io).for_each(|(sum, of)| *sum += f64::from(of.given));
        }
        Sums {
            cpu: self.used.values().map(|used| f64::from(used.cpu)).sum(),
            io: io.into(),
            resident: self.used.values().map(|used| used.resident as f64).sum(),
            statements_per_s,
        }
    }

    /// The tenants that use the most, and those watched.
    fn choose(&self, sums: &Sums, watched: &FxHashSet<TenantId>) -> Vec<TenantId> {
        let nothing = Metered::default();
        let mut ranked: Vec<(f64, TenantId)> = self
            .used
            .iter()
            .filter(|(id, _)| !watched.contains(id))
            .map(|(id, used)| {
                let metered = self.metered.get(id).unwrap_or(&nothing);
                let io: Vec<f32> = metered.io.iter().map(|of| of.given).collect();
                (weight(used.cpu, &io, used.resident, metered.statements_per_s, sums), *id)
            })
            .collect();
        keep_most(&mut ranked, KEPT_MAX);
        ranked.into_iter().map(|(_, id)| id).chain(watched.iter().copied()).collect()
    }

    fn sample(&mut self, shared: &Shared, entry: &Entry) -> TenantSample {
        let id = entry.id;
        let used = self.used.get(&id).copied().unwrap_or_default();
        let metered = self.metered.get(&id).cloned().unwrap_or_default();
        let (name, promise) = entry.with_row(|row| (Arc::from(row.name.as_str()), row.promise.clone()));
        let before = self.before.entry(id).or_default();
        let waits = before.waits_since(shared.spent_by(id).named().map(|(_, (time, _))| time), self.last);
        let io = (0..self.volumes).map(|volume| metered.io.get(volume).map_or(0.0, |of| of.given));
        TenantSample {
            id,
            name,
            cpu: used.cpu,
            io: io.collect(),
            resident: used.resident,
            statements_per_s: metered.statements_per_s,
            p50_ms: metered.p50_ms,
            p99_ms: metered.p99_ms,
            sessions: u32::try_from(shared.sessions.count_of(id)).unwrap_or(u32::MAX),
            waits,
            metered_cpu: metered.cpu,
            metered_io: metered.io,
            metered_memory: metered.memory,
            metered_work_memory: metered.work_memory,
            bounds_cpu: cpu_bounds(&promise),
            bounds_io: io_bounds(&promise),
            bounds_memory: memory_bounds(&promise),
            work_memory_promised: promise.memory.work_memory.0,
            work_memory_used: entry.home.work_memory_used().0,
        }
    }

    fn broken(&self) -> [u32; 4] {
        let mut broken = [0; 4];
        for of in self.metered.values() {
            let causes =
                [of.cpu.cause, of.io.iter().find_map(|io| io.cause), of.memory.cause, of.work_memory.cause];
            broken.iter_mut().zip(causes).for_each(|(count, cause)| *count += u32::from(cause.is_some()));
        }
        broken
    }
}

/// Statements a second of those that ran the most, most first.
fn lines(metered: &FxHashMap<TenantId, Metered>) -> Box<[(TenantId, f32)]> {
    let mut ranked: Vec<(f64, TenantId)> = metered
        .iter()
        .filter(|(id, of)| of.statements_per_s > 0.0 && **id != TenantId::SYSTEM)
        .map(|(id, of)| (f64::from(of.statements_per_s), *id))
        .collect();
    keep_most(&mut ranked, LINES_MAX);
    ranked.sort_unstable_by(most_first);
    ranked.into_iter().map(|(rate, id)| (id, rate as f32)).collect()
}

pub(super) fn cpu_bounds(promise: &Promise) -> Bounds {
    let cores = |cpu: governor::MilliCores| f64::from(cpu.0) / 1000.0;
    Bounds { promised: cores(promise.cpu.reserved), max: promise.cpu.max.map(cores) }
}

pub(super) fn io_bounds(promise: &Promise) -> Bounds {
    Bounds { promised: promise.io.iops as f64, max: promise.io.iops_max.map(|max| max as f64) }
}

pub(super) fn memory_bounds(promise: &Promise) -> Bounds {
    let memory = &promise.memory;
    Bounds { promised: memory.memory.0 as f64, max: memory.memory_max.map(|max| max.0 as f64) }
}

/// The tenants that are open, the server's own among them, each once.
fn open_homes(shared: &Shared) -> FxHashMap<TenantId, Arc<Home>> {
    let mut homes: FxHashMap<TenantId, Arc<Home>> = FxHashMap::default();
    for seat in &shared.workers {
        homes.extend(seat.open_homes().into_iter().map(|home| (home.id(), home)));
    }
    if let Some(system) = shared.tenants.get(TenantId::SYSTEM) {
        homes.insert(TenantId::SYSTEM, system.home.clone());
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_of_the_time_since_the_last_look() {
        let mut before = Before::default();
        let waits = |lock: u64| std::array::from_fn(|at| Nanos::from_millis(if at == 5 { lock } else { 0 }));
        assert_eq!(
            before.waits_since(waits(700), Nanos::from_secs(9)),
            [0.0; 1 + Wait::ALL.len()],
            "nothing to hold it against"
        );
        let since = before.waits_since(waits(1700), Nanos::from_secs(13));
        assert_eq!(since, [0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn lines_are_of_those_that_run_the_most() {
        let of = |statements_per_s| Metered { statements_per_s, ..Metered::default() };
        let many = (1..=LINES_MAX as u64 + 9).map(|id| (TenantId(id), of(id as f32)));
        let mut metered: FxHashMap<TenantId, Metered> = many.collect();
        metered.insert(TenantId(1000), of(0.0));
        metered.insert(TenantId::SYSTEM, of(1e6));
        let most: Vec<(TenantId, f32)> =
            (10..=LINES_MAX as u64 + 9).rev().map(|id| (TenantId(id), id as f32)).collect();
        assert_eq!(lines(&metered).into_vec(), most);
    }

    #[test]
    fn what_the_meters_tell_is_held_until_they_tell_more() {
        let of = |time, given| RecentResource {
            time: Nanos::from_millis(time),
            given,
            ..RecentResource::default()
        };
        let mut metered = Metered::default();
        let mut recent =
            Recent { cpu: of(500, 250_000_000), io: vec![(1, of(2000, 50))], ..Recent::default() };
        for ms in [1, 2, 300] {
            recent.statements.record(Nanos::from_millis(ms).0);
        }
        metered.take_in(&recent, 2, Nanos(5));
        assert_eq!((metered.cpu.given, metered.io[0].given, metered.io[1].given), (0.5, 0.0, 25.0));
        assert_eq!((metered.statements_per_s, metered.heard.last()), (6.0, Nanos(5)));
        assert!(
            (2.0..2.2).contains(&metered.p50_ms.unwrap()) && metered.p99_ms == Some(300.0),
            "{:?}",
            metered.p50_ms
        );
        // An interval of I/O alone leaves the rest as it was; one of processor time without statements has none.
        metered.take_in(&Recent { io: vec![(0, of(1000, 7))], ..Recent::default() }, 2, Nanos(6));
        assert_eq!((metered.cpu.given, metered.io[0].given, metered.io[1].given), (0.5, 7.0, 25.0));
        metered.take_in(&Recent { cpu: of(1000, 0), ..Recent::default() }, 2, Nanos(7));
        assert_eq!((metered.cpu.given, metered.statements_per_s, metered.p99_ms), (0.0, 0.0, None));
        // What nothing more is told of is over, whatever is told of the rest.
        metered.take_in(&Recent { memory: of(1000, 3), cpu: of(1000, 1), ..Recent::default() }, 2, Nanos(8));
        let held = |cpu, io, memory| HeldSince { cpu: Nanos(cpu), io: Nanos(io), memory: Nanos(memory) };
        metered.let_go(&held(8, 6, 6));
        let given = |metered: &Metered| (metered.io[0].given, metered.io[1].given, metered.memory.given);
        assert_eq!((given(&metered), metered.heard.last()), ((7.0, 0.0, 3.0), Nanos(8)));
        metered.let_go(&held(8, 8, 6));
        assert_eq!((given(&metered), metered.cpu.given), ((0.0, 0.0, 3.0), 1e-9));
        metered.let_go(&held(9, 8, 9));
        assert_eq!((given(&metered), metered.cpu), ((0.0, 0.0, 0.0), Rates::default()));
    }
}
