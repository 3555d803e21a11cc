//! A broken scheduler, a failing device, a flooding server: the meter says so, and whose fault it is.

use base::{ByteCount, Nanos, TenantId};

use super::super::{IoCapacity, IoInterval, IoMeter, IoMeterVolume, IoRow};
use crate::fixture::{Arrivals, DevicePlan, Fault, TICK, TenantPlan, World, tenant_id};
use crate::io::IoCost;
use crate::meter::Cause;
use crate::promise::{IoPromise, IoPromiseKind};

fn plan(iops: u64, clients: u32) -> TenantPlan {
    TenantPlan {
        promise: IoPromise { iops, kind: IoPromiseKind::Average, ..IoPromise::default() },
        penalty: 0,
        arrivals: Arrivals::Closed { clients, think: Nanos::from_micros(100) },
        active: (Nanos(0), Nanos::from_secs(100)),
        bytes_max: 8192,
        worker: Some(0),
    }
}

/// No more can be missed in a second than there are clients to wait.
const MANY: u32 = 200;

/// Two tenants promised 200 and 100 of 400, and eight without a promise; the first is done wrong.
fn rows_with(fault: Option<Fault>, clients: u32) -> Vec<Vec<IoRow>> {
    let mut plans = vec![plan(200, clients), plan(100, clients)];
    plans.extend((0..8).map(|_| plan(0, 16)));
    let mut world = World::new(3, 1, DevicePlan::steady(4, 400), plans);
    world.fault = fault.map(|fault| (0, fault));
    world.run_until(Nanos::from_secs(6));
    world.rows
}

#[test]
fn a_sound_scheduler_breaks_nothing() {
    for row in rows_with(None, MANY).iter().flatten() {
        assert!(row.average_kept, "{row:?}");
        // A due request waits for a place, a quarter of the 10 ms one takes, and for those due before it.
        assert!(row.usage.delays.max() <= Nanos::from_millis(25), "{row:?}");
    }
}

#[test]
fn a_scheduler_that_ignores_a_tenant_is_found_out() {
    for rows in &rows_with(Some(Fault::Ignores), MANY) {
        let row = &rows[0];
        assert_eq!((row.ledger.tenant, row.usage.given.ios()), (tenant_id(0), 0.0));
        // All it asked for: its clients wait for ever.
        assert!(row.usage.missed.ios() >= 199.0, "{row:?}");
        assert_eq!(row.ledger.cause, Some(Cause::Neighbour));
        assert!(rows[1..].iter().all(|row| row.average_kept));
    }
}

#[test]
fn a_scheduler_that_delays_a_tenant_is_found_out() {
    // Sixteen clients ask for 80 ms of its promise at a time, so 150 ms are 70 too many.
    for rows in &rows_with(Some(Fault::Delays(Nanos::from_millis(150))), 16)[1..] {
        let row = &rows[0];
        assert!(!row.each_kept && row.usage.delays.percentile(0.5) > Nanos::from_millis(50), "{row:?}");
        assert!(row.usage.given.ios() < 130.0);
        assert!(rows[1..].iter().all(|row| row.average_kept));
    }
}

#[test]
fn a_scheduler_that_charges_a_tenant_twice_is_found_out() {
    for rows in &rows_with(Some(Fault::ChargesTwice), MANY)[1..] {
        let row = &rows[0];
        // Half of what it was promised.
        assert!((90.0..115.0).contains(&row.usage.given.ios()), "{}", row.usage.given.ios());
        assert!((80.0..115.0).contains(&row.usage.missed.ios()), "{}", row.usage.missed.ios());
        assert_eq!(row.ledger.cause, Some(Cause::Neighbour));
        assert!(rows[1..].iter().all(|row| row.average_kept));
    }
}

#[test]
fn a_stalled_device_is_the_devices_fault_and_over_when_it_is_over() {
    let mut device = DevicePlan::steady(4, 400);
    device.stall = Some((Nanos::from_millis(2200), Nanos::from_millis(4200)));
    let mut world = World::new(3, 1, device, vec![plan(200, 64), plan(100, 64), plan(0, 64)]);
    world.run_until(Nanos::from_secs(9));
    for (second, rows) in world.rows.iter().enumerate() {
        let broken: Vec<_> = rows.iter().filter_map(|row| row.ledger.cause).collect();
        match second {
            2 | 3 => assert_eq!(broken, [Cause::Device; 2], "{second}"),
            // In the fifth second only a part is missing; by the end of it the rate is made up for.
            4 => assert!(broken.iter().all(|cause| *cause == Cause::Device), "{second}"),
            _ => assert_eq!(broken, [], "{second}"),
        }
    }
}

#[test]
fn a_device_slower_than_calibrated_is_the_devices_fault() {
    let mut device = DevicePlan::steady(4, 400);
    device.slower = 2;
    let mut world = World::new(3, 1, device, vec![plan(200, 16), plan(150, 16)]);
    world.run_until(Nanos::from_secs(4));
    for row in world.rows[1..].iter().flatten() {
        assert_eq!(row.ledger.cause, Some(Cause::Device), "{row:?}");
    }
}

#[test]
fn a_promise_changes_from_one_instant_to_the_next() {
    let limited = |iops| IoPromise { iops, iops_max: Some(iops), ..IoPromise::default() };
    let mut first = plan(0, 16);
    first.promise = limited(20);
    let mut world = World::new(3, 1, DevicePlan::steady(4, 400), vec![first]);
    for (second, iops) in [(2, 200), (4, 50)] {
        world.run_until(Nanos::from_secs(second));
        world.set_promise(0, limited(iops));
    }
    world.run_until(Nanos::from_secs(6));
    for (rows, iops) in world.rows.iter().zip([20.0, 20.0, 200.0, 200.0, 50.0, 50.0f64]) {
        assert!((rows[0].usage.given.ios() - iops).abs() <= 3.0, "{} of {iops}", rows[0].usage.given.ios());
        assert!(rows[0].usage.missed.ios() <= 1.0, "{rows:?}");
    }
}

/// One tenant promised 100 misses half of it while others are served.
fn cause_beside(others: &[(TenantId, u64)], capacity: u64) -> Option<Cause> {
    const ONE: IoCost = IoCost::of(ByteCount(8192));
    let volume = IoMeterVolume::new(0, TICK);
    volume.set_capacity(IoCapacity { iops: capacity, depth: 4, iops_limit: None });
    volume.set_promise(tenant_id(0), &plan(100, 1).promise, 0, Nanos(0));
    volume.set_promise(TenantId::SYSTEM, &plan(50, 1).promise, 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    (0..100).for_each(|_| meter.arrived(tenant_id(0), ONE, Nanos(0)));
    for ms in 0..50 {
        meter.issued(tenant_id(0), ONE, Nanos::from_millis(ms));
    }
    for (tenant, count) in others {
        for _ in 0..*count {
            meter.arrived(*tenant, ONE, Nanos::from_millis(60));
            meter.issued(*tenant, ONE, Nanos::from_millis(60));
        }
    }
    let mut interval = IoInterval::default();
    meter.close(Nanos::from_secs(1), &mut interval);
    let rows = interval.judge(&volume, Nanos(0), Nanos::from_secs(1));
    rows.iter().find(|row| row.ledger.tenant == tenant_id(0)).expect("it was active").ledger.cause
}

#[test]
fn causes_are_told_apart() {
    assert_eq!(cause_beside(&[(TenantId::SYSTEM, 40), (tenant_id(1), 500)], 1000), Some(Cause::Neighbour));
    // Ten beyond its promise are not the fifty that were missed.
    assert_eq!(cause_beside(&[(TenantId::SYSTEM, 60), (tenant_id(1), 500)], 1000), Some(Cause::Neighbour));
    assert_eq!(cause_beside(&[(TenantId::SYSTEM, 100), (tenant_id(1), 500)], 1000), Some(Cause::System));
    assert_eq!(cause_beside(&[(TenantId::SYSTEM, 60)], 90), Some(Cause::Overbooked));
}

#[test]
fn a_device_that_was_busy_while_overbooked_is_not_blamed_for_it_later() {
    const ONE: IoCost = IoCost::of(ByteCount(8192));
    let volume = IoMeterVolume::new(0, TICK);
    volume.set_capacity(IoCapacity { iops: 90, depth: 1, iops_limit: None });
    volume.set_promise(tenant_id(0), &plan(100, 1).promise, 0, Nanos(0));
    let mut meter = IoMeter::new(&volume);
    (0..100).for_each(|_| meter.arrived(tenant_id(0), ONE, Nanos(0)));
    for ms in 0..50 {
        meter.issued(tenant_id(0), ONE, Nanos::from_millis(ms));
    }
    // At its depth for all of the first second, and for none of the next.
    meter.started(Nanos(0));
    meter.completed(ONE, Nanos::from_secs(1));
    let causes = [0, 1].map(|second| {
        let (from, to) = (Nanos::from_secs(second), Nanos::from_secs(second + 1));
        let mut interval = IoInterval::default();
        meter.close(to, &mut interval);
        interval.judge(&volume, from, to)[0].ledger.cause
    });
    assert_eq!(causes, [Some(Cause::Overbooked), Some(Cause::Neighbour)]);
}

/// A tenant's requests come from two workers in turn, each is issued when it is due: the deadlines are one sequence, and the
/// time with something pending is counted once.
#[test]
fn workers_meters_add_up() {
    const ONE: IoCost = IoCost::of(ByteCount(8192));
    let volume = IoMeterVolume::new(0, TICK);
    volume.set_promise(tenant_id(0), &plan(100, 1).promise, 0, Nanos(0));
    let mut meters = [IoMeter::new(&volume), IoMeter::new(&volume)];
    (0..100).for_each(|n| meters[n % 2].arrived(tenant_id(0), ONE, Nanos(0)));
    for n in 0..90 {
        meters[n % 2].issued(tenant_id(0), ONE, Nanos::from_millis(10 * n as u64));
    }
    let mut sum = IoInterval::default();
    for meter in &mut meters {
        let mut own = IoInterval::default();
        meter.close(Nanos::from_secs(1), &mut own);
        sum.merge(&own);
    }
    let rows = sum.judge(&volume, Nanos(0), Nanos::from_secs(1));
    let row = &rows[0];
    assert_eq!((row.usage.given.ios(), row.usage.missed.ios(), row.usage.requests), (90.0, 10.0, 90));
    assert_eq!((row.usage.delays.count(), row.usage.delays.mean()), (90, Nanos(0)));
    assert!(row.ledger.active.0.abs_diff(1_000_000_000) < 1000, "{:?}", row.ledger.active);
    // The ten begin anew in the next second.
    for n in 0..10 {
        meters[n % 2].issued(tenant_id(0), ONE, Nanos::from_millis(1000 + 10 * n as u64));
    }
    let mut next = IoInterval::default();
    meters.iter_mut().for_each(|meter| meter.close(Nanos::from_secs(2), &mut next));
    let rows = next.judge(&volume, Nanos::from_secs(1), Nanos::from_secs(2));
    assert!(rows[0].average_kept && rows[0].usage.delays.max() <= Nanos::from_millis(10), "{rows:?}");
}

#[test]
fn what_waits_is_due_by_the_new_promise() {
    const ONE: IoCost = IoCost::of(ByteCount(8192));
    // Promised 10, twenty wait: due at 0, 100, 200 ms and so on. At 450 ms the first five are late; of the others one is due each
    // 10 ms from then on, or each second.
    for (iops, missed) in [(100, 20.0), (1, 6.0)] {
        let volume = IoMeterVolume::new(0, TICK);
        volume.set_promise(tenant_id(0), &plan(10, 1).promise, 0, Nanos(0));
        let mut meter = IoMeter::new(&volume);
        (0..20).for_each(|_| meter.arrived(tenant_id(0), ONE, Nanos(0)));
        volume.set_promise(tenant_id(0), &plan(iops, 1).promise, 0, Nanos::from_millis(450));
        let mut interval = IoInterval::default();
        meter.close(Nanos::from_secs(1), &mut interval);
        let rows = interval.judge(&volume, Nanos(0), Nanos::from_secs(1));
        assert_eq!(rows[0].usage.missed.ios(), missed);
    }
}
