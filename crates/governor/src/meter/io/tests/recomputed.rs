//! The meter's rows equal what the trace says, whatever the scheduler and the device did.

use std::collections::{BTreeMap, VecDeque};

use base::{Nanos, TenantId};
use proptest::prelude::*;

use crate::fixture::{Arrivals, DevicePlan, Draws, Fault, TICK, TenantPlan, Trace, What, World, tenant_id};
use crate::promise::IoPromise;

const SECONDS: u64 = 5;

#[derive(Clone, PartialEq, Debug, Default)]
struct Expected {
    demanded: u64,
    given: u64,
    missed: u64,
    delay_max: u64,
    /// Nanoseconds with something pending.
    pending: u64,
    seen: bool,
}

/// 64ths of nanoseconds, rounded up, as the promise is to the tenant's disadvantage by less than that.
fn time(parts: u64, iops: u64) -> u128 {
    (u128::from(parts) * 64_000_000_000).div_ceil(u128::from(iops) << 16)
}

/// One tenant's seconds, from its part of the trace alone: a list of deadlines, and nothing clever.
fn recompute(trace: &[Trace], promise: &IoPromise) -> Vec<Expected> {
    let ticks = |at: Nanos| u128::from(at.0) * 64;
    let mut seconds = vec![Expected::default()];
    // When due, of how many parts, when it arrived.
    let mut deadlines: VecDeque<(u128, u64, u128)> = VecDeque::new();
    let (mut next_due, mut next_open) = (0u128, 0u128);
    // The largest request of this second, and of the last one with any.
    let mut reach = [0u128; 2];
    let (mut pending, mut since) = (0u64, 0u64);
    let mut events = trace.iter().filter(|event| event.what != What::Completed).peekable();
    for second in 1..=SECONDS {
        let end = Nanos::from_secs(second);
        let row = seconds.last_mut().expect("there is one");
        row.seen |= !deadlines.is_empty();
        while let Some(event) = events.next_if(|event| event.at < end) {
            let now = ticks(event.at);
            // What was issued before it was due counts in its own second.
            if !row.seen && pending == 0 {
                next_due = next_due.min(now + reach[0].max(reach[1]));
            }
            row.seen = true;
            if pending > 0 {
                row.pending += event.at.0 - since;
            }
            since = event.at.0;
            if event.what == What::Arrived {
                pending += 1;
                let due = if promise.iops == 0 { u128::MAX } else { next_due.max(now) };
                deadlines.push_back((due, event.cost.parts, now));
                if promise.iops > 0 {
                    let takes = time(event.cost.parts, promise.iops);
                    reach[0] = reach[0].max(takes);
                    next_due = due + takes;
                }
                continue;
            }
            pending -= 1;
            // So many I/Os of those that arrived first, be they of one request or of several.
            let (mut left, (due, _, arrived)) = (event.cost.parts, deadlines[0]);
            while left > 0 {
                let front = &mut deadlines[0];
                let met = left.min(front.1);
                left -= met;
                front.1 -= met;
                if front.1 == 0 {
                    deadlines.pop_front();
                } else if promise.iops > 0 {
                    front.0 += time(met, promise.iops);
                }
            }
            row.given += event.cost.parts;
            if due != u128::MAX {
                let due = due.max(next_open);
                row.delay_max = row.delay_max.max((now.saturating_sub(due) / 64) as u64);
            }
            if let Some(max) = promise.iops_max {
                // Time without a request is not made up for.
                let (floor, time) =
                    (arrived.max(now.saturating_sub(640_000_000)), time(event.cost.parts, max));
                let end = (now + 64_000_000_000).max(floor + time);
                next_open = next_open.max((next_open.max(floor) + time).min(end));
            }
        }
        if pending > 0 {
            row.pending += end.0 - since;
        }
        since = end.0;
        // What is due by now, by the promise and by the limit, and still here.
        let (end, mut open) = (ticks(end), next_open);
        let is_late = |due: u128| due != u128::MAX && due + ticks(TICK) < end;
        let first = deadlines.front().map_or(u128::MAX, |(due, ..)| *due);
        for (due, parts, _) in deadlines.iter().take_while(|(due, ..)| is_late(*due)) {
            let due = (*due).max(open);
            if !is_late(due) {
                break;
            }
            row.delay_max = row.delay_max.max(((end - due) / 64) as u64).max(row.delay_max);
            row.missed += parts;
            open = open.max(due) + promise.iops_max.map_or(0, |max| time(*parts, max));
        }
        row.demanded = (row.given + row.missed).min(promise.iops << 16);
        if is_late(first) {
            deadlines.iter_mut().for_each(|(due, ..)| *due += end - first);
            next_due += end - first;
        } else if first != u128::MAX && first > end + reach[0].max(reach[1]) {
            let lead = first - (end + reach[0].max(reach[1]));
            deadlines.iter_mut().for_each(|(due, ..)| *due -= lead);
            next_due -= lead;
        }
        if row.seen {
            reach = [0, reach[0]];
        }
        seconds.push(Expected::default());
    }
    seconds.pop();
    seconds
}

fn check(world: &World) -> Result<(), TestCaseError> {
    for (tenant, plan) in world.plans.iter().enumerate() {
        let id = tenant_id(tenant);
        let own: Vec<Trace> = world.trace.iter().filter(|event| event.tenant == id).copied().collect();
        for (second, expected) in recompute(&own, &plan.promise).into_iter().enumerate() {
            let rows: BTreeMap<TenantId, _> =
                world.rows[second].iter().map(|row| (row.ledger.tenant, row)).collect();
            let Some(row) = rows.get(&id) else {
                prop_assert!(!expected.seen, "second {second}, tenant {tenant}: no row for {expected:?}");
                continue;
            };
            let found = Expected {
                demanded: row.demanded.parts,
                given: row.usage.given.parts,
                missed: row.usage.missed.parts,
                delay_max: row.usage.delays.max().0,
                pending: expected.pending,
                seen: expected.seen,
            };
            prop_assert_eq!(&found, &expected, "second {}, tenant {}", second, tenant);
            let shown = [row.ledger.promised, row.ledger.demanded, row.ledger.given, row.ledger.missed];
            let costs = [plan.promise.iops << 16, expected.demanded, expected.given, expected.missed];
            prop_assert_eq!(shown, costs.map(|parts| (parts + (1 << 15)) >> 16));
            prop_assert_eq!(row.ledger.owed_micros, row.ledger.missed * plan.penalty);
            let allowed = plan.promise.iops_max.unwrap_or(u64::MAX);
            prop_assert_eq!(row.ledger.over, row.ledger.given.saturating_sub(allowed));
            let requests = own.iter().filter(|event| event.what == What::Issued).count() as u64 + 2;
            prop_assert!(
                row.ledger.active.0.abs_diff(expected.pending) <= 512 * requests,
                "{} {}",
                row.ledger.active.0,
                expected.pending
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_equal_a_recomputation_from_the_trace(seed in any::<u64>()) {
        let mut draws = Draws(seed);
        let mut device = DevicePlan::steady(draws.between(1, 8) as u32, draws.between(100, 1500));
        device.jitter_percent = 40;
        match draws.between(0, 3) {
            0 => device.stall = Some((Nanos::from_millis(1200), Nanos::from_millis(3200))),
            1 => device.slower = 3,
            _ => {}
        }
        let capacity = device.iops();
        let plans: Vec<TenantPlan> = (0..draws.between(1, 6))
            .map(|_| {
                let iops = draws.between(0, 2) * draws.between(1, capacity / 2);
                let iops_max = (draws.between(0, 2) == 0).then(|| iops.max(1) + draws.between(0, capacity));
                TenantPlan {
                    promise: IoPromise { iops, iops_max, ..IoPromise::default() },
                    penalty: draws.between(0, 9) * 125_000,
                    arrivals: match draws.between(0, 2) {
                        0 => Arrivals::Closed { clients: draws.between(1, 12) as u32, think: Nanos::from_millis(3) },
                        1 => Arrivals::Open { every: Nanos(draws.between(1_000_000, 50_000_000)) },
                        _ => Arrivals::Burst { count: 50, every: Nanos::from_millis(draws.between(100, 800)) },
                    },
                    active: (Nanos(0), Nanos::from_millis(draws.between(500, 6000))),
                    bytes_max: if draws.between(0, 1) == 0 { 300_000 } else { 8192 },
                    worker: Some(0),
                }
            })
            .collect();
        let mut world = World::new(seed, 1, device, plans);
        world.fault = match draws.between(0, 4) {
            0 => Some((0, Fault::Ignores)),
            1 => Some((0, Fault::Delays(Nanos::from_millis(draws.between(1, 400))))),
            2 => Some((0, Fault::ChargesTwice)),
            _ => None,
        };
        world.run_until(Nanos::from_secs(SECONDS));
        check(&world)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A tenant whose requests come from all workers gets what it was promised of all of them together.
    #[test]
    fn a_tenant_on_several_workers_gets_its_own(seed in any::<u64>(), workers in 2..5usize) {
        let mut draws = Draws(seed);
        let device = DevicePlan::steady(draws.between(1, 8) as u32, draws.between(100, 1500));
        let capacity = device.iops();
        let count = draws.between(2, 5);
        let plans: Vec<TenantPlan> = (0..count)
            .map(|tenant| TenantPlan {
                promise: IoPromise { iops: capacity * 85 / 100 / count * (tenant % 2), ..IoPromise::default() },
                penalty: 0,
                arrivals: Arrivals::Closed { clients: draws.between(1, 30) as u32, think: Nanos::from_millis(1) },
                active: (Nanos::from_millis(draws.between(0, 900)), Nanos::from_secs(100)),
                bytes_max: 8192,
                worker: (draws.between(0, 2) == 0).then(|| draws.between(0, workers as u64 - 1) as usize),
            })
            .collect();
        let mut world = World::new(seed, workers, device.clone(), plans);
        world.run_until(Nanos::from_secs(SECONDS));
        for (tenant, plan) in world.plans.iter().enumerate() {
            let id = tenant_id(tenant);
            let own: Vec<Trace> = world.trace.iter().filter(|event| event.tenant == id).copied().collect();
            for (second, expected) in recompute(&own, &plan.promise).into_iter().enumerate() {
                let missed = expected.missed as f64 / 65536.0;
                let allowed = 1.0 + plan.promise.iops as f64 * (device.service.as_secs_f64() + 0.002 * workers as f64);
                prop_assert!(missed <= allowed, "second {second}, tenant {tenant}: missed {missed}, {allowed} allowed");
            }
        }
    }
}
