//! One metering interval of one volume: what its tenants were promised, wanted, got and missed, and why.

use base::{ByteCount, Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::deadline::{Rates, Standing, nanos};
use super::delays::DelayHistogram;
use super::volume::IoMeterVolume;
use crate::io::{IoCost, PARTS};
use crate::meter::{Cause, LedgerRow, OwnLimit};
use crate::promise::IoPromiseKind;
use base::limits::IO_UNIT;

/// Of the calibrated rate, what a device at full depth completes at least: below nine tenths it is the device's fault.
const DEVICE_SLOW_PERCENT: u64 = 90;

/// One tenant's I/O on one volume in one interval, as far as one or several workers saw it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IoUsage {
    /// What was issued, due or not.
    pub given: IoCost,
    /// Requests issued.
    pub requests: u64,
    /// I/Os whose deadline came in the interval and that were not issued in it.
    pub missed: IoCost,
    /// Charged after the fact and not taken from the tenant's promise, because its limit's debt was a minute long.
    pub forgiven: IoCost,
    /// Of `given`, upkeep that others waited for.
    pub awaited: IoCost,
    pub delays: DelayHistogram,
}

/// What a rate a second comes to in some time.
fn of_rate(rate: u64, time: Nanos) -> u128 {
    u128::from(rate) * u128::from(time.0) / u128::from(Nanos::from_secs(1).0)
}

impl Rates {
    /// What the rates come to over some time in parts of I/Os, the larger of the two. So many bytes are as many I/Os as they are of
    /// `mix`; whole units where it has none.
    fn parts_over(self, time: Nanos, mix: IoCost) -> f64 {
        let mix = if mix.bytes == 0 { IoCost::of(IO_UNIT) } else { mix };
        let by_ios = of_rate(self.iops, time) * u128::from(PARTS);
        let by_bytes = of_rate(self.bandwidth.0, time) as f64 / mix.bytes as f64 * mix.parts as f64;
        by_bytes.max(by_ios as f64)
    }
}

/// What was reserved over an interval in parts of I/Os, each rate for as long as it was in force. `mix`: see [`Rates::parts_over`].
fn reserved_parts(standing: &Standing, (from, to): (Nanos, Nanos), mix: IoCost) -> f64 {
    standing.reserved_over(from, to).into_iter().map(|(rates, time)| rates.parts_over(time, mix)).sum()
}

/// In whole I/Os, to the nearest.
fn whole(parts: f64) -> u64 {
    (parts / PARTS as f64).round() as u64
}

impl IoUsage {
    /// What was given and missed, up to so many parts of I/Os, which were promised.
    fn demanded(&self, promised: f64) -> IoCost {
        let wanted = self.given + self.missed;
        let part = promised / wanted.parts.max(1) as f64;
        let of = |wanted: u64| (wanted as f64 * part.min(1.0)).round() as u64;
        IoCost { parts: of(wanted.parts), bytes: of(wanted.bytes) }
    }

    fn merge(&mut self, other: &IoUsage) {
        self.given += other.given;
        self.requests += other.requests;
        self.missed += other.missed;
        self.forgiven += other.forgiven;
        self.awaited += other.awaited;
        self.delays.merge(&other.delays);
    }
}

/// A row of the ledger, and what of it only I/O has. Costs here are exact; on the row they are whole I/Os, to the nearest.
#[derive(Clone, Debug)]
pub struct IoRow {
    pub ledger: LedgerRow,
    /// Which of the two measures decides.
    pub kind: IoPromiseKind,
    /// Of what was reserved for the interval, what was asked for: given or missed.
    pub demanded: IoCost,
    pub usage: IoUsage,
    /// Each request was issued within a tick of its deadline.
    pub each_kept: bool,
    /// No deadline of the interval was missed in it.
    pub average_kept: bool,
}

impl IoRow {
    /// I/Os issued for each second in which something was pending; `None` if nothing was for longer than a microsecond.
    pub fn effective_iops(&self) -> Option<f64> {
        let active = self.ledger.active;
        (active >= Nanos::from_micros(1)).then(|| self.usage.given.ios() / active.as_secs_f64())
    }
}

/// What the meters of one or several workers saw in an interval. Off the run path: it allocates.
#[derive(Clone, Debug, Default)]
pub struct IoInterval {
    usages: FxHashMap<TenantId, IoUsage>,
    completed_at_depth: u64,
}

impl IoInterval {
    pub(super) fn add(&mut self, tenant: TenantId, usage: &IoUsage) {
        self.usages.entry(tenant).or_default().merge(usage);
    }

    pub(super) fn add_completed_at_depth(&mut self, parts: u64) {
        self.completed_at_depth += parts;
    }

    /// Takes in what another worker saw in the same interval.
    pub fn merge(&mut self, other: &IoInterval) {
        for (tenant, usage) in &other.usages {
            self.add(*tenant, usage);
        }
        self.completed_at_depth += other.completed_at_depth;
    }

    /// The ledger's rows, by tenant, of the interval from `from` to `to`, once all workers have closed it. Call it for each interval in
    /// turn: it takes the shared times. A reservation that changed counts for as long as it was in force, and so does a price; the rest of a promise is what it was at the end.
    pub fn judge(self, volume: &IoMeterVolume, from: Nanos, to: Nanos) -> Vec<IoRow> {
        let cause = self.cause(volume, from, to);
        let system_over = self.system_over(volume, to - from);
        let judge = |(tenant, usage)| judge_tenant(volume, tenant, usage, (cause, system_over), (from, to));
        let mut rows: Vec<IoRow> = self.usages.into_iter().map(judge).collect();
        rows.sort_by_key(|row| row.ledger.tenant);
        rows
    }

    /// By how many parts of I/Os the server's own work went beyond its promise.
    fn system_over(&self, volume: &IoMeterVolume, length: Nanos) -> u64 {
        let given = self.usages.get(&TenantId::SYSTEM).map_or(0, |usage| usage.given.parts);
        let reserved = volume.standing_if_known(TenantId::SYSTEM).reserved().iops;
        let promised = of_rate(reserved, length) * u128::from(PARTS);
        given.saturating_sub(u64::try_from(promised).unwrap_or(u64::MAX))
    }

    /// Why somebody's promise was broken, if somebody's was and it was not the server's own work.
    fn cause(&self, volume: &IoMeterVolume, from: Nanos, end: Nanos) -> Cause {
        // In each interval, whatever the cause: the next one's is counted from here.
        let at_depth = volume.in_flight.take_time(volume.depth(), from, end);
        let length = end - from;
        let parts_of = |iops: u64, time: Nanos| of_rate(iops, time) * u128::from(PARTS);
        let demanded_by = |(tenant, usage): (&TenantId, &IoUsage)| {
            let standing = volume.standing_if_known(*tenant);
            let promised = reserved_parts(&standing, (from, end), usage.given + usage.missed);
            u128::from(usage.demanded(promised).parts)
        };
        let demanded: u128 = self.usages.iter().map(demanded_by).sum();
        if volume.capacity().is_some_and(|iops| demanded > parts_of(iops, length)) {
            return Cause::Overbooked;
        }
        let expected = parts_of(volume.calibrated_iops(), at_depth) * u128::from(DEVICE_SLOW_PERCENT) / 100;
        if u128::from(self.completed_at_depth) < expected {
            return Cause::Device;
        }
        Cause::Neighbour
    }
}

/// A tenant's row. `cause`: why its promise was broken, if it was, unless what the server's own work had beyond its promise is all that the tenant missed.
fn judge_tenant(
    volume: &IoMeterVolume,
    tenant: TenantId,
    usage: IoUsage,
    (cause, system_over): (Cause, u64),
    (from, to): (Nanos, Nanos),
) -> IoRow {
    let cause = match cause {
        Cause::Neighbour if system_over >= usage.missed.parts.max(PARTS) => Cause::System,
        cause => cause,
    };
    let standing = volume.standing_if_known(tenant);
    let (kind, reserved) = (standing.kind(), standing.reserved());
    let mix = usage.given + usage.missed;
    let reserved_in = |time| reserved_parts(&standing, time, mix);
    let (promised, price) = (reserved_in((from, to)), standing.price_over((from, to), reserved_in));
    let demanded = usage.demanded(promised);
    let each_kept = usage.delays.max() <= volume.tick();
    let average_kept = usage.missed.parts == 0;
    let is_kept = if kind == IoPromiseKind::Each { each_kept } else { average_kept };
    let (resource, missed) = (volume.resource(), whole(usage.missed.parts as f64));
    let ledger = LedgerRow {
        tenant,
        resource,
        from,
        to,
        promised: whole(promised),
        demanded: whole(demanded.parts as f64),
        given: whole(usage.given.parts as f64),
        missed,
        by_chance: 0,
        over: over(&standing, &usage, from, to),
        own_limit: OwnLimit { awaited: whole(usage.awaited.parts as f64), ..OwnLimit::default() },
        active: standing.pending.take_time(1, from, to),
        cause: (!is_kept).then_some(cause),
        delays: (reserved != Rates::default() || usage.delays.count() > 0).then(|| usage.delays.figures()),
        owed_micros: LedgerRow::price(resource, missed, price),
    };
    IoRow { ledger, kind, demanded, usage, each_kept, average_kept }
}

/// What was given beyond the limits, in whole I/Os; of two limits by the one that was exceeded by more.
fn over(standing: &Standing, usage: &IoUsage, from: Nanos, to: Nanos) -> u64 {
    let limits = standing.limits_in_force();
    let is_known = nanos(standing.changed_at()) <= from;
    let beyond = |limit: Rates| usage.given.parts as f64 - limit.parts_over(to - from, usage.given);
    let by_ios = Some(Rates { bandwidth: ByteCount(0), ..limits }).filter(|limit| limit.iops > 0);
    let by_bytes = Some(Rates { iops: 0, ..limits }).filter(|limit| limit.bandwidth.0 > 0);
    let over = by_ios.into_iter().chain(by_bytes).map(beyond).fold(0.0, f64::max);
    if is_known { whole(over) } else { 0 }
}
