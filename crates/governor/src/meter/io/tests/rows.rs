//! What the ledger shows of a tenant's I/O in one second.

use base::{ByteCount, Nanos};

use super::super::{IoInterval, IoMeter, IoMeterVolume, IoRow};
use crate::fixture::{Arrivals, DevicePlan, TICK, TenantPlan, World, tenant_id};
use crate::io::{AwaitedFor, IoCost, LimitDebt};
use crate::meter::{Cause, Resource};
use crate::promise::{IoPromise, IoPromiseKind};

/// Eighty requests of so many bytes wait from the beginning of the second, so many are issued, one each 10 ms.
fn second(promise: &IoPromise, bytes: ByteCount, issued: u64, changes: impl Fn(&IoMeterVolume)) -> IoRow {
    let volume = IoMeterVolume::new(3, TICK);
    let tenant = tenant_id(0);
    volume.set_promise(tenant, promise, 2_500_000, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    (0..80).for_each(|_| meter.arrived(tenant, IoCost::of(bytes), Nanos(0)));
    (0..issued).for_each(|n| meter.issued(tenant, IoCost::of(bytes), Nanos::from_millis(10 * n)));
    changes(&volume);
    let mut interval = IoInterval::default();
    meter.close(Nanos::from_secs(1), &mut interval);
    interval.judge(&volume, Nanos(0), Nanos::from_secs(1)).remove(0)
}

const PAGE: ByteCount = ByteCount(8192);

#[test]
fn what_of_upkeep_others_waited_for_is_told() {
    let (volume, tenant, cost) = (IoMeterVolume::new(3, TICK), tenant_id(0), IoCost::of(PAGE));
    let limit = IoPromise { iops_max: Some(2), ..IoPromise::default() };
    volume.set_promise(tenant, &limit, 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    let issue = |meter: &mut IoMeter, count: u64, is_upkeep: bool| {
        for _ in 0..count {
            meter.arrived(tenant, cost, Nanos::from_millis(1));
            meter.issued(tenant, cost, Nanos::from_millis(1));
            if is_upkeep {
                meter.was_upkeep(tenant, cost);
            }
        }
    };
    // A routine checkpoint's, then what others wait for, beside reads, and again what they do not.
    issue(&mut meter, 1, true);
    for awaited_for in [AwaitedFor::Log, AwaitedFor::Room] {
        volume.set_awaited(tenant, awaited_for, true);
    }
    issue(&mut meter, 5, true);
    issue(&mut meter, 2, false);
    volume.set_awaited(tenant, AwaitedFor::Log, false);
    issue(&mut meter, 3, true);
    volume.set_awaited(tenant, AwaitedFor::Room, false);
    issue(&mut meter, 1, true);
    let mut interval = IoInterval::default();
    meter.close(Nanos::from_secs(1), &mut interval);
    let row = interval.judge(&volume, Nanos(0), Nanos::from_secs(1)).remove(0).ledger;
    assert_eq!((row.given, row.over, row.own_limit.awaited), (12, 10, 8));
}

#[test]
fn what_was_missed_is_owed_for_by_the_io() {
    let average = IoPromise { iops: 70, kind: IoPromiseKind::Average, ..IoPromise::default() };
    let row = second(&average, PAGE, 50, |_| {}).ledger;
    assert_eq!((row.tenant, row.resource), (tenant_id(0), Resource::Io { volume: 3 }));
    assert_eq!((row.from, row.to), (Nanos(0), Nanos::from_secs(1)));
    assert_eq!([row.promised, row.demanded, row.given, row.missed, row.over], [70, 70, 50, 20, 0]);
    assert_eq!((row.cause, row.is_kept()), (Some(Cause::Neighbour), false));
    assert_eq!(row.owed_micros, 20 * 2_500_000);
    // Those that still wait count for the longest: due at the 50th seventieth of the second.
    let delays = row.delays.expect("it has a reservation");
    assert_eq!((delays.p50, delays.max), (Nanos(0), Nanos(1_000_000_000 - 714_285_715)));
}

#[test]
fn a_late_request_breaks_a_promise_of_each_and_nothing_is_owed() {
    let each = IoPromise { iops: 1000, kind: IoPromiseKind::Each, ..IoPromise::default() };
    let row = second(&each, PAGE, 80, |_| {});
    assert!(row.average_kept && !row.each_kept);
    assert_eq!((row.ledger.missed, row.ledger.is_kept(), row.ledger.owed_micros), (0, false, 0));
    let delays = row.ledger.delays.expect("it has a reservation");
    assert!(delays.mean > Nanos::from_millis(300) && delays.p99 <= delays.max, "{delays:?}");
    assert_eq!(delays.max, Nanos::from_millis(79 * 10 - 79));
}

#[test]
fn without_a_reservation_there_is_no_delay_and_nothing_is_promised() {
    let row = second(&IoPromise::default(), PAGE, 50, |_| {}).ledger;
    assert_eq!([row.promised, row.demanded, row.given, row.missed, row.over], [0, 0, 50, 0, 0]);
    assert_eq!((row.delays, row.cause), (None, None));
}

#[test]
fn bytes_are_shown_as_the_ios_they_took() {
    // A request of 128 KiB is two I/Os; bytes for twenty of them are promised, thirty-two are the most.
    let bytes = ByteCount::from_kib(128);
    let promise = IoPromise {
        bandwidth: ByteCount(20 * bytes.0),
        bandwidth_max: Some(ByteCount(32 * bytes.0)),
        kind: IoPromiseKind::Average,
        ..IoPromise::default()
    };
    let row = second(&promise, bytes, 12, |_| {}).ledger;
    assert_eq!([row.promised, row.demanded, row.given, row.missed, row.over], [40, 40, 24, 16, 0]);
    let row = second(&promise, bytes, 50, |_| {}).ledger;
    assert_eq!([row.promised, row.demanded, row.given, row.missed, row.over], [40, 40, 100, 0, 36]);
}

#[test]
fn over_is_what_went_beyond_the_limit_where_it_is_known() {
    let limited = |iops_max| IoPromise { iops_max: Some(iops_max), ..IoPromise::default() };
    assert_eq!(second(&limited(40), PAGE, 50, |_| {}).ledger.over, 10);
    assert_eq!(second(&limited(60), PAGE, 50, |_| {}).ledger.over, 0);
    let changed = |volume: &IoMeterVolume| {
        volume.set_promise(tenant_id(0), &limited(40), 0, Nanos::from_millis(900));
    };
    assert_eq!(second(&limited(60), PAGE, 50, changed).ledger.over, 0, "most of the time it was 60");
}

#[test]
fn a_reservation_that_changes_counts_for_as_long_as_it_was_in_force() {
    let average = |iops| IoPromise { iops, kind: IoPromiseKind::Average, ..IoPromise::default() };
    let altered = |iops, at| {
        let change = |volume: &IoMeterVolume| volume.set_promise(tenant_id(0), &average(iops), 0, at);
        let row = second(&average(70), PAGE, 50, change).ledger;
        [row.promised, row.demanded, row.given]
    };
    let ms = Nanos::from_millis;
    assert_eq!(altered(10, ms(900)), [64, 64, 50]);
    assert_eq!(altered(0, ms(900)), [63, 63, 50]);
    assert_eq!(altered(10_000, ms(1000)), [70, 70, 50], "that is the next interval's");
}

#[test]
fn a_price_that_changes_counts_for_what_was_reserved_at_it() {
    let average = |iops| IoPromise { iops, kind: IoPromiseKind::Average, ..IoPromise::default() };
    let altered = |price, at| {
        let change = |volume: &IoMeterVolume| volume.set_promise(tenant_id(0), &average(60), price, at);
        let row = second(&average(60), PAGE, 50, change).ledger;
        (row.missed, row.owed_micros)
    };
    let ms = Nanos::from_millis;
    assert_eq!(altered(500_000, ms(750)), (10, 10 * 2_000_000), "three quarters at 2.5, the rest at 0.5");
    assert_eq!(altered(0, ms(1000)), (10, 10 * 2_500_000), "that is the next interval's");
    // A time in which nothing was reserved has no price.
    let volume = IoMeterVolume::new(3, TICK);
    volume.set_promise(tenant_id(0), &average(60), 3, ms(600));
    let reserved = |(from, to): (Nanos, Nanos)| (to - from.max(ms(600))).as_secs_f64();
    assert_eq!(volume.standing(tenant_id(0)).price_over((ms(0), ms(1000)), reserved), 3);
}

#[test]
fn what_its_own_limit_holds_is_no_fault_of_the_servers() {
    // More promised than its limit lets through; twenty at once, ever so often.
    let promise = IoPromise { iops: 400, iops_max: Some(100), ..IoPromise::default() };
    let plan = TenantPlan {
        promise,
        penalty: 0,
        arrivals: Arrivals::Burst { count: 20, every: Nanos::from_millis(450) },
        active: (Nanos(0), Nanos::from_secs(5)),
        bytes_max: PAGE.0,
        worker: Some(0),
    };
    let mut world = World::new(3, 1, DevicePlan::steady(4, 10_000), vec![plan]);
    world.run_until(Nanos::from_secs(4));
    let rows: Vec<_> = world.rows.iter().flatten().collect();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row.average_kept && row.each_kept, "{:?}", row.ledger);
    }
}

/// Three seconds' worth was done without having been asked for: until the limit lets the next request through nothing is missed, and then it is late at
/// once.
#[test]
fn a_limit_that_is_in_debt_breaks_no_promise_where_it_is_held() {
    assert_eq!(missed_in_debt(true), [0.0, 0.0, 0.0, 10.0, 10.0]);
    assert_eq!(missed_in_debt(false), [10.0; 5], "no excuse");
}

fn missed_in_debt(limits_held: bool) -> Vec<f64> {
    let (volume, tenant) = (IoMeterVolume::new(0, TICK), tenant_id(0));
    volume.set_limits_held(limits_held);
    let promise = IoPromise { iops: 10, iops_max: Some(10), ..IoPromise::default() };
    volume.set_promise(tenant, &promise, 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    let cost = IoCost::of(PAGE);
    (0..30).for_each(|_| meter.done(tenant, cost, LimitDebt::OfTurn, IoCost::default(), Nanos(0)));
    // What is altered beside the limit leaves it as it is.
    volume.set_promise(tenant, &IoPromise { bandwidth: ByteCount(1), ..promise }, 0, Nanos(0));
    volume.set_promise(tenant, &promise, 0, Nanos(0));
    (0..30).for_each(|_| meter.arrived(tenant, cost, Nanos(0)));
    let mut missed = Vec::new();
    for second in 0..5 {
        let mut interval = IoInterval::default();
        meter.close(Nanos::from_secs(second + 1), &mut interval);
        let rows = interval.judge(&volume, Nanos::from_secs(second), Nanos::from_secs(second + 1));
        missed.push(rows[0].usage.missed.ios().round());
    }
    missed
}

#[test]
fn the_last_row_of_a_tenant_that_is_forgotten_leaves_nothing_of_it() {
    let (volume, tenant) = (IoMeterVolume::new(0, TICK), tenant_id(0));
    volume.set_promise(tenant, &IoPromise { iops: 10, ..IoPromise::default() }, 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    let cost = IoCost::of(ByteCount(8192));
    meter.arrived(tenant, cost, Nanos(0));
    meter.issued(tenant, cost, Nanos(0));
    let mut interval = IoInterval::default();
    meter.close(Nanos::from_secs(1), &mut interval);
    assert!(meter.forget(tenant));
    volume.remove(tenant);
    let rows = interval.judge(&volume, Nanos(0), Nanos::from_secs(1));
    assert_eq!((rows.len(), rows[0].ledger.given, volume.count()), (1, 1, 0));
}

#[test]
fn what_a_tenants_own_poll_held_up_is_not_late() {
    let ms = Nanos::from_millis;
    // Due at 100 ms and issued at 160, but for what the tenant's own task took meanwhile.
    let row_of = |own_poll: Option<(u64, u64)>| {
        let (volume, tenant) = (IoMeterVolume::new(3, TICK), tenant_id(0));
        volume.set_promise(tenant, &IoPromise { iops: 100, ..IoPromise::default() }, 0, Nanos(0));
        let mut meter = IoMeter::new(&volume);
        meter.arrived(tenant, IoCost::of(PAGE), ms(100));
        if let Some((from, to)) = own_poll {
            meter.held_by_itself(tenant, ms(from), ms(to));
        }
        meter.issued(tenant, IoCost::of(PAGE), ms(160));
        let mut interval = IoInterval::default();
        meter.close(Nanos::from_secs(1), &mut interval);
        let row = interval.judge(&volume, Nanos(0), Nanos::from_secs(1)).remove(0).ledger;
        (row.is_kept(), row.delays.expect("it has a reservation").max)
    };
    assert_eq!(row_of(None), (false, ms(60)));
    assert_eq!(row_of(Some((90, 160))), (true, ms(0)));
    assert_eq!(row_of(Some((120, 160))), (false, ms(20)), "others had the worker before");
    assert_eq!(row_of(Some((120, 150))), (false, ms(30)), "and after");
    assert_eq!(row_of(Some((40, 90))), (false, ms(60)), "it was not due yet");
}

#[test]
fn what_a_tenants_own_poll_keeps_from_it_at_an_intervals_end_is_not_missed() {
    let ms = Nanos::from_millis;
    let missed = |held: bool| {
        let (volume, tenant) = (IoMeterVolume::new(3, TICK), tenant_id(0));
        volume.set_promise(tenant, &IoPromise { iops: 100, ..IoPromise::default() }, 0, Nanos(0));
        let mut meter = IoMeter::new(&volume);
        meter.arrived(tenant, IoCost::of(PAGE), ms(950));
        if held {
            meter.held_by_itself(tenant, ms(940), ms(1010));
        }
        let mut interval = IoInterval::default();
        meter.close(ms(1000), &mut interval);
        meter.issued(tenant, IoCost::of(PAGE), ms(1010));
        interval.judge(&volume, Nanos(0), ms(1000)).remove(0).ledger.missed
    };
    assert_eq!((missed(false), missed(true)), (1, 0));
}
