//! The paper's figure 4 in virtual time: two closed-loop tenants with 60 and 20 I/Os a second reserved, swapped half-way.

use base::Nanos;

use crate::fixture::{Arrivals, DevicePlan, TenantPlan, World, issued};
use crate::promise::IoPromise;

fn exactly(iops: u64) -> IoPromise {
    IoPromise { iops, iops_max: Some(iops), ..IoPromise::default() }
}

fn plan(promise: IoPromise) -> TenantPlan {
    TenantPlan {
        promise,
        penalty: 0,
        arrivals: Arrivals::Closed { clients: 4, think: Nanos::from_micros(200) },
        active: (Nanos(0), Nanos::from_secs(1000)),
        bytes_max: 8192,
        worker: Some(0),
    }
}

/// Mean and standard deviation of the I/Os of each second from `from` to `to`.
fn mean_and_deviation(world: &World, tenant: usize, from: u64, to: u64) -> (f64, f64) {
    let seconds: Vec<f64> = (from..to)
        .map(|s| issued(&world.trace, tenant, Nanos::from_secs(s), Nanos::from_secs(s + 1)))
        .collect();
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let variance = seconds.iter().map(|ios| (ios - mean).powi(2)).sum::<f64>() / seconds.len() as f64;
    (mean, variance.sqrt())
}

fn run(first: IoPromise, second: IoPromise, half: u64) -> World {
    let mut device = DevicePlan::steady(4, 300);
    device.jitter_percent = 50;
    let mut world = World::new(4, 1, device, vec![plan(first), plan(second)]);
    world.run_until(Nanos::from_secs(half));
    world.set_promise(0, second);
    world.set_promise(1, first);
    world.run_until(Nanos::from_secs(2 * half));
    assert_eq!(world.wrong, Vec::<String>::new());
    world
}

#[test]
fn reservations_with_equal_limits_are_what_each_tenant_gets() {
    let world = run(exactly(60), exactly(20), 300);
    for (tenant, from, to, promised) in
        [(0, 1, 300, 60.0), (0, 301, 600, 20.0), (1, 1, 300, 20.0), (1, 301, 600, 60.0)]
    {
        let (mean, deviation) = mean_and_deviation(&world, tenant, from, to);
        println!("tenant {tenant}, {from} s to {to} s: {mean:.2} ± {deviation:.2} of {promised}");
        assert!((mean - promised).abs() <= 0.03 * promised, "{mean}");
        // The paper has 63 ± 6.9 and 20 ± 3.8.
        assert!(deviation <= 1.0, "{deviation}");
    }
    for (second, rows) in world.rows.iter().enumerate().filter(|(second, _)| *second != 300) {
        assert!(rows.iter().all(|row| row.average_kept), "{second}: {rows:?}");
    }
}

#[test]
fn without_limits_each_gets_what_it_was_promised_or_more() {
    let without = |iops| IoPromise { iops, ..IoPromise::default() };
    let world = run(without(60), without(20), 40);
    for (tenant, from, to, promised) in
        [(0, 0, 40, 60.0), (0, 41, 80, 20.0), (1, 0, 40, 20.0), (1, 41, 80, 60.0)]
    {
        let (mean, deviation) = mean_and_deviation(&world, tenant, from, to);
        println!("tenant {tenant}, {from} s to {to} s: {mean:.2} ± {deviation:.2}, {promised} promised");
        assert!(mean >= promised, "{mean}");
    }
    let total = issued(&world.trace, 0, Nanos(0), Nanos::from_secs(80))
        + issued(&world.trace, 1, Nanos(0), Nanos::from_secs(80));
    assert!(total >= 80.0 * 300.0, "the device was never idle: {total}");
}
