//! What the paper says of metering I/O: its running example of 100 I/Os a second, and figures 6 and 7.

use base::{ByteCount, Nanos};

use super::super::{IoInterval, IoMeter, IoMeterVolume, IoRow};
use crate::fixture::{Arrivals, DevicePlan, TICK, TenantPlan, World, tenant_id};
use crate::io::IoCost;
use crate::meter::Cause;
use crate::promise::{IoPromise, IoPromiseKind};

const ONE: IoCost = IoCost::of(ByteCount(8192));

fn promise(iops: u64) -> IoPromise {
    IoPromise { iops, ..IoPromise::default() }
}

/// A second in which the requests of a tenant promised 100 arrive and are issued at these instants, in milliseconds.
fn second_of_100(kind: IoPromiseKind, arrivals: &[u64], issues: &[u64]) -> IoRow {
    let volume = IoMeterVolume::new(0, TICK);
    let tenant = tenant_id(0);
    volume.set_promise(tenant, &IoPromise { kind, ..promise(100) }, 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    let mut issues = issues.iter().peekable();
    let mut events: Vec<(u64, bool)> = arrivals.iter().map(|at| (*at, false)).collect();
    events.extend(issues.by_ref().map(|at| (*at, true)));
    events.sort_unstable();
    for (ms, is_issue) in events {
        let now = Nanos::from_millis(ms);
        if is_issue { meter.issued(tenant, ONE, now) } else { meter.arrived(tenant, ONE, now) }
    }
    let mut interval = IoInterval::default();
    meter.close(Nanos::from_secs(1), &mut interval);
    interval.judge(&volume, Nanos(0), Nanos::from_secs(1)).remove(0)
}

#[test]
fn one_every_ten_milliseconds_keeps_a_promise_of_100() {
    let issues: Vec<u64> = (0..100).map(|n| n * 10).collect();
    let row = second_of_100(IoPromiseKind::Each, &[0; 150], &issues);
    assert!(row.each_kept && row.average_kept && row.ledger.cause.is_none(), "{row:?}");
    assert_eq!((row.demanded.ios(), row.usage.given.ios()), (100.0, 100.0));
    assert_eq!(row.effective_iops().map(f64::round), Some(100.0));
}

#[test]
fn a_late_request_breaks_the_strong_promise_and_not_the_weak_one() {
    // The third is due at 20 ms and issued at 27.
    let mut issues: Vec<u64> = (0..100).map(|n| n * 10).collect();
    issues[2] = 27;
    for kind in [IoPromiseKind::Each, IoPromiseKind::Average] {
        let row = second_of_100(kind, &[0; 100], &issues);
        assert_eq!(row.usage.delays.max(), Nanos::from_millis(7));
        assert_eq!(row.usage.delays.mean(), Nanos::from_micros(70));
        assert!(row.usage.delays.percentile(0.98) <= Nanos(1024));
        assert!(row.usage.delays.percentile(1.0) >= Nanos::from_millis(7));
        assert!(!row.each_kept && row.average_kept);
        assert_eq!(row.ledger.cause.is_some(), kind == IoPromiseKind::Each);
    }
}

#[test]
fn eighty_of_a_hundred_is_broken_only_if_a_hundred_were_asked_for() {
    // (a) Not enough was asked for: 80, each issued as it comes.
    let eighty: Vec<u64> = (0..80).map(|n| n * 12).collect();
    let row = second_of_100(IoPromiseKind::Average, &eighty, &eighty);
    assert_eq!((row.demanded.ios(), row.usage.missed.ios()), (80.0, 0.0));
    assert!(row.ledger.cause.is_none());
    // (b) Enough was asked for, and 80 were issued: 20 I/Os a second are broken.
    let row = second_of_100(IoPromiseKind::Average, &[0; 100], &eighty);
    assert_eq!((row.demanded.ios(), row.usage.missed.ios()), (100.0, 20.0));
    assert_eq!(row.ledger.cause, Some(Cause::Neighbour));
}

#[test]
fn what_was_given_before_it_was_due_counts_in_its_own_interval() {
    let volume = IoMeterVolume::new(0, TICK);
    let tenant = tenant_id(0);
    volume.set_promise(tenant, &promise(80), 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    // Fifty clients with a request each. Ten seconds of 400 I/Os, then 40, then none waits, and 40 again.
    (0..50).for_each(|_| meter.arrived(tenant, ONE, Nanos(0)));
    let mut missed = Vec::new();
    for second in 0..16_u64 {
        let rate = if second < 10 { 400 } else { 40 };
        if second == 14 {
            (0..50).for_each(|_| meter.arrived(tenant, ONE, Nanos::from_secs(second)));
        }
        for n in 1..=rate {
            let now = Nanos(second * 1_000_000_000 + n * 1_000_000_000 / (rate + 1));
            let comes_to_rest = matches!(second, 12 | 13);
            if !comes_to_rest || n <= 25 {
                meter.issued(tenant, ONE, now);
            }
            if !comes_to_rest {
                meter.arrived(tenant, ONE, now);
            }
        }
        let (from, to) = (Nanos::from_secs(second), Nanos::from_secs(second + 1));
        let mut interval = IoInterval::default();
        meter.close(to, &mut interval);
        missed.extend(interval.judge(&volume, from, to).iter().map(|row| row.ledger.missed));
    }
    assert_eq!(missed[..10], [0; 10]);
    assert!(missed[10..12].iter().all(|missed| (38..=40).contains(missed)), "{missed:?}");
    assert_eq!(missed[13], 0, "nothing waits at its end");
    assert!(missed[14..].iter().all(|missed| (38..=40).contains(missed)), "{missed:?}");
}

#[test]
fn idle_time_is_not_owed() {
    // Half a second of nothing, then a burst of 60: 50 of it are due by the end.
    let issues: Vec<u64> = (0..50).map(|n| 500 + n * 10).collect();
    let row = second_of_100(IoPromiseKind::Each, &[500; 60], &issues);
    assert_eq!((row.demanded.ios(), row.usage.missed.ios()), (50.0, 0.0));
    assert!(row.ledger.cause.is_none(), "{row:?}");
    assert!(row.ledger.active.0.abs_diff(500_000_000) < 1000);
}

/// Figures 6 and 7: eight tenants promised 80 each on a volume of 300. The first has much demand, the second little.
#[test]
fn little_demand_shows_little_violation_though_it_got_less() {
    let plan = |clients, think_ms| TenantPlan {
        promise: IoPromise { kind: IoPromiseKind::Average, ..promise(80) },
        penalty: 0,
        arrivals: Arrivals::Closed { clients, think: Nanos::from_millis(think_ms) },
        active: (Nanos(0), Nanos::from_secs(100)),
        bytes_max: 8192,
        worker: Some(0),
    };
    let mut plans: Vec<TenantPlan> = (0..8).map(|_| plan(100, 1)).collect();
    plans[1] = plan(1, 30);
    let mut world = World::new(7, 1, DevicePlan::steady(4, 300), plans);
    world.run_until(Nanos::from_secs(20));
    assert_eq!(world.wrong, Vec::<String>::new());
    for rows in &world.rows[2..] {
        let (much, little) = (&rows[0], &rows[1]);
        assert!(little.usage.given.ios() < much.usage.given.ios());
        assert!(little.usage.missed.ios() * 5.0 < much.usage.missed.ios(), "{little:?}");
        // 300 shared by seven with demand: each misses about half of what it was promised, and the sum is what is not there.
        assert!((30.0..45.0).contains(&much.usage.missed.ios()), "{}", much.usage.missed.ios());
        assert_eq!(much.ledger.cause, Some(Cause::Overbooked));
        let sums = rows.iter().fold((0.0, 0.0), |(demanded, missed), row| {
            (demanded + row.demanded.ios(), missed + row.usage.missed.ios())
        });
        assert!((sums.0 - sums.1 - 300.0).abs() < 10.0, "{sums:?}");
    }
}
