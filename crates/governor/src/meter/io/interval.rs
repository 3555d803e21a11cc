//! One metering interval of one volume: what its tenants were promised, wanted, got and missed, and why.

use base::{ByteCount, Nanos, TenantId};
use rustc_hash::FxHashMap;

use super::delays::IoDelays;
use super::volume::IoMeterVolume;
use crate::io::IoCost;
use crate::meter::Cause;
use crate::promise::IoPromiseKind;

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
    /// Charged after the fact and not taken from the tenant's promise, because its debt was a second long.
    pub forgiven: IoCost,
    pub delays: IoDelays,
}

/// What a rate a second comes to in some time.
fn of_rate(rate: u64, time: Nanos) -> u128 {
    u128::from(rate) * u128::from(time.0) / u128::from(Nanos::from_secs(1).0)
}

impl IoUsage {
    /// What was given and missed, up to what is reserved in I/Os or bytes, whichever is more.
    fn demanded(&self, iops: u64, bandwidth: ByteCount, length: Nanos) -> IoCost {
        let wanted = self.given + self.missed;
        let part_of = |reserved: u128, wanted: u64| reserved as f64 / wanted.max(1) as f64;
        let by_ios = part_of(of_rate(iops, length) * (1 << 16), wanted.parts);
        let by_bytes = part_of(of_rate(bandwidth.0, length), wanted.bytes);
        let part = by_ios.max(by_bytes).min(1.0);
        let reserved = |wanted: u64| (wanted as f64 * part).round() as u64;
        IoCost { parts: reserved(wanted.parts), bytes: reserved(wanted.bytes) }
    }

    fn merge(&mut self, other: &IoUsage) {
        self.given += other.given;
        self.requests += other.requests;
        self.missed += other.missed;
        self.forgiven += other.forgiven;
        self.delays.merge(&other.delays);
    }
}

/// A row of the ledger.
#[derive(Clone, Debug)]
pub struct IoRow {
    pub tenant: TenantId,
    /// Promised a second; 0: nothing.
    pub iops: u64,
    pub bandwidth: ByteCount,
    /// Which of the two measures decides.
    pub kind: IoPromiseKind,
    /// Of what was reserved for the interval, what was asked for: given or missed.
    pub demanded: IoCost,
    pub usage: IoUsage,
    /// Time with at least one request pending.
    pub pending: Nanos,
    /// Each request was issued within a tick of its deadline.
    pub each_kept: bool,
    /// No deadline of the interval was missed in it.
    pub average_kept: bool,
    /// By the measure that decides; `None`: kept.
    pub broken: Option<Cause>,
}

impl IoRow {
    /// I/Os issued for each second in which something was pending; `None` if nothing was for longer than a microsecond.
    pub fn effective_iops(&self) -> Option<f64> {
        (self.pending >= Nanos::from_micros(1)).then(|| self.usage.given.ios() / self.pending.as_secs_f64())
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

    /// The ledger's rows, by tenant, of the interval from `start` to `end`, once all workers have closed it. Call it for each interval in
    /// turn: it takes the shared times.
    pub fn judge(self, volume: &IoMeterVolume, start: Nanos, end: Nanos) -> Vec<IoRow> {
        let cause = self.cause(volume, end - start, end);
        let mut rows: Vec<IoRow> = Vec::with_capacity(self.usages.len());
        for (tenant, usage) in self.usages {
            let standing = volume.standing(tenant);
            let (iops, bandwidth) = standing.promised();
            let kind = standing.kind();
            let each_kept = usage.delays.max() <= volume.tick();
            let average_kept = usage.missed.parts == 0;
            let kept = if kind == IoPromiseKind::Each { each_kept } else { average_kept };
            let pending = standing.pending.take_time(1, end);
            let broken = (!kept).then_some(cause);
            rows.push(IoRow {
                demanded: usage.demanded(iops, bandwidth, end - start),
                tenant,
                iops,
                bandwidth,
                kind,
                usage,
                pending,
                each_kept,
                average_kept,
                broken,
            });
        }
        rows.sort_by_key(|row| row.tenant);
        rows
    }

    /// Why somebody's promise was broken, if somebody's was.
    fn cause(&self, volume: &IoMeterVolume, length: Nanos, end: Nanos) -> Cause {
        let parts_of = |iops: u64, time: Nanos| of_rate(iops, time) * (1 << 16);
        let demanded_by = |(tenant, usage): (&TenantId, &IoUsage)| {
            let (iops, bandwidth) = volume.standing(*tenant).promised();
            u128::from(usage.demanded(iops, bandwidth, length).parts)
        };
        let demanded: u128 = self.usages.iter().map(demanded_by).sum();
        if volume.capacity().is_some_and(|iops| demanded > parts_of(iops, length)) {
            return Cause::Overbooked;
        }
        let at_depth = volume.in_flight.take_time(volume.depth(), end);
        let expected = parts_of(volume.calibrated_iops(), at_depth) * u128::from(DEVICE_SLOW_PERCENT) / 100;
        if u128::from(self.completed_at_depth) < expected {
            return Cause::Device;
        }
        let system = self.usages.get(&TenantId::SYSTEM).map_or(0, |usage| u128::from(usage.given.parts));
        let system_promised = volume.standing(TenantId::SYSTEM).promised().0;
        if system > parts_of(system_promised, length) {
            return Cause::System;
        }
        Cause::Neighbour
    }
}
