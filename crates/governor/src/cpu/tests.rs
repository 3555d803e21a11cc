//! Spare time by weight, and what a scheduler must do whatever happens. Promises are tested in `tests/cpu`.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::promise::MilliCores;

fn weighing(weight: u32) -> CpuPromise {
    CpuPromise { weight: NonZeroU32::new(weight).unwrap(), ..CpuPromise::default() }
}

/// Runs the picked tenant for `poll_of(tenant)` until `end`; all given tenants always have a task.
fn run_busy(scheduler: &mut CpuScheduler, tenants: u64, end: Nanos, poll_of: impl Fn(TenantId) -> Nanos) {
    let mut now = Nanos(0);
    (0..tenants).for_each(|id| scheduler.runnable(TenantId(id), now));
    while now < end {
        let tenant = scheduler.pick(now).tenant().expect("a runnable tenant is always found");
        let used = poll_of(tenant);
        now += used;
        scheduler.charge(tenant, used, now);
    }
}

/// What ten thousand decisions cost, tenants placed and entries looked at for that, where so many tenants are known, of which these are runnable.
fn looks_of(known: u64, runnable: u64) -> u64 {
    let mut scheduler = CpuScheduler::new();
    let apart = known / runnable;
    for id in 0..known {
        let reserved = if id / apart % 2 == 0 { MilliCores((1200 / runnable) as u32) } else { MilliCores(0) };
        let max = (id / apart % 5 == 0).then_some(MilliCores(100));
        scheduler.set_promise(TenantId(id), &CpuPromise { reserved, max, ..weighing(100) }, Nanos(0));
    }
    let (mut now, poll) = (Nanos(0), Nanos::from_micros(50));
    (0..runnable).for_each(|n| scheduler.runnable(TenantId(n * apart), now));
    let looks = |scheduler: &CpuScheduler| {
        let heaps = [&scheduler.due, &scheduler.later, &scheduler.spare, &scheduler.limited];
        scheduler.turns + heaps.iter().map(|heap| heap.looks).sum::<u64>()
    };
    let before = looks(&scheduler);
    for _ in 0..10_000 {
        match scheduler.pick(now) {
            Pick::Run(tenant) => {
                now += poll;
                scheduler.charge(tenant, poll, now);
                // Some have one statement after the other.
                if tenant.0 / apart % 3 == 0 {
                    scheduler.blocked(tenant, now);
                    scheduler.runnable(tenant, now);
                }
            }
            Pick::NotBefore(until) => now = until,
            Pick::Nobody => panic!("all those are runnable"),
        }
    }
    looks(&scheduler) - before
}

/// In entries looked at, not in time: that is what other work on the machine does not change.
#[test]
fn a_decision_costs_by_the_tenants_that_are_runnable_and_not_by_those_that_are_known() {
    let few = looks_of(20, 20);
    let of_many = looks_of(10_000, 20);
    assert!(of_many.abs_diff(few) * 10 <= few, "{of_many} against {few}");
    // The depth of each of four heaps, twice, and not a look at each tenant.
    let (all, depth) = (looks_of(640, 640), u64::from(640u64.ilog2()) + 1);
    assert!(few >= 10_000 && all > few && all < 10_000 * 4 * 2 * depth, "{all} against {few}");
}

#[test]
fn nobody_runnable_picks_nobody() {
    let mut scheduler = CpuScheduler::new();
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Nobody);
    scheduler.runnable(TenantId(1), Nanos(0));
    scheduler.blocked(TenantId(1), Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Nobody);
    scheduler.runnable(TenantId(1), Nanos(0));
    scheduler.remove(TenantId(1));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Nobody);
}

#[test]
fn whose_next_task_would_be_due_is_known_while_it_sleeps() {
    let mut scheduler = CpuScheduler::new();
    let (reserved, other) = (TenantId(16), TenantId(17));
    let promise = CpuPromise { reserved: MilliCores(200), ..CpuPromise::default() };
    scheduler.set_promise(reserved, &promise, Nanos(0));
    let micros = Nanos::from_micros;
    for (tenant, from, to) in [(other, 0, 10), (reserved, 10, 20)] {
        scheduler.runnable(tenant, micros(from));
        assert_eq!(scheduler.until_sleeper_is_due(micros(from)), None, "nobody with a reservation sleeps");
        scheduler.charge(tenant, micros(10), micros(to));
        scheduler.blocked(tenant, micros(to));
    }
    // 10 us at a fifth of a core are what is due of 50.
    assert_eq!(scheduler.until_sleeper_is_due(micros(30)), Some(micros(30)));
    assert_eq!(scheduler.until_sleeper_is_due(micros(80)), Some(micros(0)));
    scheduler.runnable(reserved, micros(90));
    assert_eq!(scheduler.until_sleeper_is_due(micros(90)), None);
    scheduler.blocked(reserved, micros(100));
    assert_eq!(scheduler.until_sleeper_is_due(micros(1099)), Some(micros(0)));
    assert_eq!(scheduler.until_sleeper_is_due(micros(1100)), None, "it is not expected back");
    scheduler.runnable(reserved, micros(2000));
    scheduler.blocked(reserved, micros(2010));
    scheduler.remove(reserved);
    assert_eq!(scheduler.until_sleeper_is_due(micros(2010)), None);
    // The server has a reservation too, and tasks that come and go whoever asks.
    scheduler.set_promise(TenantId::SYSTEM, &promise, micros(2010));
    scheduler.runnable(TenantId::SYSTEM, micros(2010));
    scheduler.blocked(TenantId::SYSTEM, micros(2020));
    assert_eq!(scheduler.until_sleeper_is_due(micros(2020)), None);
}

#[test]
fn who_slept_for_long_is_not_expected_back_at_once() {
    let mut scheduler = CpuScheduler::new();
    let (reserved, micros) = (TenantId(16), Nanos::from_micros);
    let promise = CpuPromise { reserved: MilliCores(200), ..CpuPromise::default() };
    scheduler.set_promise(reserved, &promise, Nanos(0));
    for (from, to, is_expected) in [(10, 20, true), (5_000, 5_010, false), (5_100, 5_110, true)] {
        scheduler.runnable(reserved, micros(from));
        scheduler.blocked(reserved, micros(to));
        assert_eq!(scheduler.until_sleeper_is_due(micros(to)).is_some(), is_expected, "at {to} us");
    }
}

#[test]
fn a_limit_holds_no_work_that_others_wait_for_and_has_it_paid_for_afterwards() {
    let mut scheduler = CpuScheduler::new();
    let (limited, millis) = (TenantId(16), Nanos::from_millis);
    let promise = CpuPromise { max: Some(MilliCores(10)), ..CpuPromise::default() };
    scheduler.set_promise(limited, &promise, Nanos(0));
    scheduler.runnable(limited, Nanos(0));
    let mut now = millis(1);
    scheduler.charge(limited, millis(1), now);
    assert!(matches!(scheduler.pick(now), Pick::NotBefore(_)), "its limit holds what nobody waits for");
    // A hundred milliseconds of work, for which it would have ten seconds.
    scheduler.set_awaited(limited, true, now);
    for _ in 0..1000 {
        assert_eq!(scheduler.pick(now), Pick::Run(limited));
        now += Nanos::from_micros(100);
        scheduler.charge(limited, Nanos::from_micros(100), now);
    }
    assert_eq!(scheduler.used(limited), millis(101), "all of it is charged");
    assert!(scheduler.exceeds_limit(limited, now), "others of its tasks are held");
    scheduler.set_awaited(limited, false, now);
    let Pick::NotBefore(until) = scheduler.pick(now) else { panic!("its limit holds again") };
    assert!(until > now + millis(990) && until <= now + millis(1010), "{until:?} after {now:?}");
    assert_eq!(scheduler.pick(until), Pick::Run(limited));
    // And while it is awaited again, before it has anything to run.
    scheduler.charge(limited, millis(1), until + millis(1));
    scheduler.blocked(limited, until + millis(1));
    scheduler.set_awaited(limited, true, until + millis(1));
    scheduler.runnable(limited, until + millis(1));
    assert_eq!(scheduler.pick(until + millis(1)), Pick::Run(limited));
}

#[test]
fn nobody_makes_up_for_what_a_limit_kept_from_a_tenant() {
    let mut scheduler = CpuScheduler::new();
    let (limited, other, step) = (TenantId(0), TenantId(1), Nanos::from_micros(100));
    let limit = |max| CpuPromise { max, ..weighing(100) };
    scheduler.set_promise(limited, &limit(Some(MilliCores(10))), Nanos(0));
    scheduler.set_promise(other, &limit(None), Nanos(0));
    let mut now = Nanos(0);
    for tenant in [limited, other] {
        scheduler.runnable(tenant, now);
    }
    let mut run = |scheduler: &mut CpuScheduler, time: Nanos| {
        let (end, before) = (now + time, scheduler.used(limited));
        while now < end {
            let tenant = scheduler.pick(now).tenant().expect("somebody is below its limit");
            now += step;
            scheduler.charge(tenant, step, now);
        }
        (scheduler.used(limited) - before, now)
    };
    let (held, at) = run(&mut scheduler, Nanos::from_secs(20));
    assert!(held <= Nanos::from_millis(201), "{held:?} of 20 s");
    // A limit that is higher than its half: what it is behind is made up for by a tenth of a second at most.
    scheduler.set_promise(limited, &limit(Some(MilliCores(900))), at);
    let (got, at) = run(&mut scheduler, Nanos::from_secs(2));
    assert!(got >= Nanos::from_millis(990) && got <= Nanos::from_millis(1110), "{got:?} of 2 s");
    // Nor is there anything to be made up for where there is none any more.
    scheduler.set_promise(limited, &limit(Some(MilliCores(10))), at);
    let (_, at) = run(&mut scheduler, Nanos::from_secs(20));
    scheduler.set_promise(limited, &limit(None), at);
    let (got, _) = run(&mut scheduler, Nanos::from_secs(2));
    assert!(got >= Nanos::from_millis(990) && got <= Nanos::from_millis(1010), "{got:?} of 2 s");
}

#[test]
fn awaited_work_over_its_limit_has_no_more_than_its_tenants_weight() {
    let mut scheduler = CpuScheduler::new();
    let promise = CpuPromise { max: Some(MilliCores(10)), ..weighing(100) };
    scheduler.set_promise(TenantId(0), &promise, Nanos(0));
    scheduler.set_promise(TenantId(1), &weighing(300), Nanos(0));
    scheduler.set_awaited(TenantId(0), true, Nanos(0));
    run_busy(&mut scheduler, 2, Nanos::from_secs(1), |_| Nanos::from_micros(100));
    let got = scheduler.used(TenantId(0));
    assert!(got.0.abs_diff(250_000_000) <= 1_000_000, "{got:?}");
}

#[test]
fn long_polls_get_no_more_than_short_ones() {
    let mut scheduler = CpuScheduler::new();
    run_busy(&mut scheduler, 2, Nanos::from_secs(1), |tenant| {
        if tenant.0 == 0 { Nanos::from_micros(500) } else { Nanos::from_micros(5) }
    });
    let (long, short) = (scheduler.used(TenantId(0)), scheduler.used(TenantId(1)));
    assert!(long.0.abs_diff(short.0) <= 500_000, "{long:?} {short:?}");
}

#[test]
fn sleeper_does_not_catch_up_on_time_it_was_idle() {
    let mut scheduler = CpuScheduler::new();
    let (busy, sleeper) = (TenantId(0), TenantId(1));
    scheduler.runnable(sleeper, Nanos(0));
    scheduler.charge(sleeper, Nanos(1000), Nanos(0));
    scheduler.blocked(sleeper, Nanos(0));
    run_busy(&mut scheduler, 1, Nanos::from_secs(10), |_| Nanos::from_micros(100));
    let before = scheduler.used(busy);
    scheduler.runnable(sleeper, Nanos::from_secs(10));
    for _ in 0..1000 {
        let tenant = scheduler.pick(Nanos(0)).tenant().unwrap();
        scheduler.charge(tenant, Nanos::from_micros(100), Nanos(0));
    }
    let busy_got = scheduler.used(busy) - before;
    assert!(busy_got >= Nanos::from_micros(499 * 100), "{busy_got:?}");
}

#[test]
fn waker_is_served_before_a_tenant_that_kept_running() {
    let mut scheduler = CpuScheduler::new();
    run_busy(&mut scheduler, 3, Nanos::from_millis(50), |_| Nanos::from_micros(70));
    scheduler.runnable(TenantId(9), Nanos(0));
    let mut others = 0;
    while scheduler.pick(Nanos(0)) != Pick::Run(TenantId(9)) {
        let tenant = scheduler.pick(Nanos(0)).tenant().unwrap();
        scheduler.charge(tenant, Nanos::from_micros(70), Nanos(0));
        others += 1;
    }
    assert!(others <= 3, "each of the others may go once at most, {others} went");
}

#[test]
fn run_path_allocates_nothing() {
    let mut scheduler = CpuScheduler::new();
    for id in 0..10_000 {
        let reserved = crate::promise::MilliCores((id % 3) as u32 * 20);
        let max = (id % 5 == 0).then_some(crate::promise::MilliCores(50));
        scheduler.set_promise(TenantId(id), &CpuPromise { reserved, max, ..CpuPromise::default() }, Nanos(0));
    }
    let rooms = |scheduler: &CpuScheduler| {
        let heaps = [&scheduler.due, &scheduler.later, &scheduler.spare, &scheduler.limited];
        (heaps.map(Heap::capacity), scheduler.standings.capacity(), scheduler.by_tenant.capacity())
    };
    let before = rooms(&scheduler);
    run_busy(&mut scheduler, 20, Nanos::from_millis(20), |_| Nanos::from_micros(10));
    run_busy(&mut scheduler, 10_000, Nanos::from_millis(20), |_| Nanos::from_micros(10));
    assert_eq!(rooms(&scheduler), before);
}

#[test]
fn refund_gives_the_turn_back() {
    let mut scheduler = CpuScheduler::new();
    scheduler.runnable(TenantId(1), Nanos(0));
    scheduler.runnable(TenantId(2), Nanos(0));
    scheduler.charge(TenantId(1), Nanos::from_millis(10), Nanos(0));
    scheduler.charge(TenantId(2), Nanos::from_millis(5), Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(TenantId(2)));
    scheduler.refund(TenantId(1), Nanos::from_millis(9), Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(TenantId(1)));
    assert_eq!(scheduler.used(TenantId(1)), Nanos::from_millis(1));
}

#[derive(Clone, Debug)]
enum Event {
    Runnable(u64),
    Blocked(u64),
    Poll(u64),
    Weight(u64, u32),
    Remove(u64),
    Refund(u64, u64),
    Background(u64, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..12u64).prop_map(Event::Runnable),
        2 => (0..12u64).prop_map(Event::Blocked),
        8 => (1..2_000_000u64).prop_map(Event::Poll),
        1 => (0..12u64, 1..1000u32).prop_map(|(tenant, weight)| Event::Weight(tenant, weight)),
        1 => (0..12u64).prop_map(Event::Remove),
        1 => (0..12u64, 0..100_000u64).prop_map(|(tenant, ns)| Event::Refund(tenant, ns)),
        1 => (0..12u64, any::<bool>()).prop_map(|(tenant, background)| Event::Background(tenant, background)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Work conserving, and the heap is a heap, whatever happens in whatever order.
    #[test]
    fn pick_finds_the_least_served_runnable_tenant(events in prop::collection::vec(event(), 1..300)) {
        let mut scheduler = CpuScheduler::new();
        let mut runnable = std::collections::BTreeSet::new();
        for event in events {
            let now = Nanos(0);
            match event {
                Event::Runnable(id) => { scheduler.runnable(TenantId(id), now); runnable.insert(id); }
                Event::Blocked(id) => { scheduler.blocked(TenantId(id), now); runnable.remove(&id); }
                Event::Weight(id, weight) => scheduler.set_promise(TenantId(id), &weighing(weight), Nanos(0)),
                Event::Remove(id) => { scheduler.remove(TenantId(id)); runnable.remove(&id); }
                Event::Refund(id, ns) => scheduler.refund(TenantId(id), Nanos(ns), now),
                Event::Background(id, background) => scheduler.set_background(TenantId(id), background, now),
                Event::Poll(ns) => if let Some(tenant) = scheduler.pick(now).tenant() {
                    scheduler.charge(tenant, Nanos(ns), now);
                },
            }
            let picked = scheduler.pick(now).tenant();
            prop_assert_eq!(picked.is_some(), !runnable.is_empty());
            prop_assert_eq!(scheduler.runnable_count(), runnable.len());
            if let Some(picked) = picked {
                prop_assert!(runnable.contains(&picked.0));
                let spare = |id: u64| {
                    let account = scheduler.by_tenant[&TenantId(id)];
                    scheduler.standings[account as usize].as_ref().unwrap().spare_taken()
                };
                prop_assert!(runnable.iter().all(|id| spare(picked.0) <= spare(*id)));
            }
        }
    }

    /// Always-runnable tenants share by weight to within one poll each; nobody starves.
    #[test]
    fn shares_follow_weights(weights in prop::collection::vec(1..50u32, 2..10), polls in prop::collection::vec(1..500u64, 10)) {
        let mut scheduler = CpuScheduler::new();
        for (id, weight) in weights.iter().enumerate() {
            scheduler.set_promise(TenantId(id as u64), &weighing(*weight), Nanos(0));
        }
        let end = Nanos::from_secs(2);
        run_busy(&mut scheduler, weights.len() as u64, end, |tenant| Nanos::from_micros(polls[tenant.0 as usize]));
        let total: u32 = weights.iter().sum();
        // Virtual times of busy tenants differ by at most the longest poll at the smallest weight.
        let poll_max = *polls.iter().max().unwrap() as f64 * 1000.0;
        let weight_min = f64::from(*weights.iter().min().unwrap());
        for (id, weight) in weights.iter().enumerate() {
            let due = end.0 as f64 * f64::from(*weight) / f64::from(total);
            let got = scheduler.used(TenantId(id as u64)).0 as f64;
            let slack = 2.0 * poll_max * (f64::from(*weight) / weight_min).max(1.0) + poll_max;
            prop_assert!((got - due).abs() <= slack, "tenant {id}: {got} of {due}, slack {slack}");
        }
    }
}

/// Runs the picked tenant for 100 us at a time from `now` on; what each of two tenants got of the next second, in milliseconds.
fn second_of_two(scheduler: &mut CpuScheduler, now: &mut Nanos) -> [u64; 2] {
    let mut got = [0; 2];
    let end = *now + Nanos::from_secs(1);
    while *now < end {
        let tenant = scheduler.pick(*now).tenant().expect("a runnable tenant is always found");
        *now += Nanos::from_micros(100);
        scheduler.charge(tenant, Nanos::from_micros(100), *now);
        got[tenant.0 as usize] += 100;
    }
    got.map(|micros| micros / 1000)
}

#[test]
fn background_work_gets_spare_time_as_the_lowest_weight_does_and_costs_the_rest_nothing() {
    let (mut scheduler, mut now) = (CpuScheduler::new(), Nanos(0));
    for id in 0..2 {
        scheduler.set_promise(TenantId(id), &weighing(100), now);
        scheduler.runnable(TenantId(id), now);
    }
    scheduler.set_background(TenantId(0), true, now);
    let [background, other] = second_of_two(&mut scheduler, &mut now);
    assert!((9..=11).contains(&background) && background + other >= 999, "{background} ms");
    // Its tenant's other work has waited for nothing, and is held to nothing of it.
    scheduler.set_background(TenantId(0), false, now);
    let [first, second] = second_of_two(&mut scheduler, &mut now);
    assert!(first.abs_diff(second) <= 2, "{first} {second}");
    // Alone it gets everything.
    scheduler.set_background(TenantId(0), true, now);
    scheduler.blocked(TenantId(1), now);
    assert_eq!(second_of_two(&mut scheduler, &mut now), [1000, 0]);
    // And who comes then waits for none of what it took alone, nor it for long.
    scheduler.runnable(TenantId(1), now);
    let [background, _] = second_of_two(&mut scheduler, &mut now);
    assert!((8..=12).contains(&background), "{background} ms");
}

#[test]
fn background_work_has_its_tenants_reservation() {
    let (mut scheduler, mut now) = (CpuScheduler::new(), Nanos(0));
    let reserved = CpuPromise { reserved: crate::promise::MilliCores(300), ..weighing(100) };
    scheduler.set_promise(TenantId(0), &reserved, now);
    scheduler.set_promise(TenantId(1), &weighing(100), now);
    (0..2).for_each(|id| scheduler.runnable(TenantId(id), now));
    scheduler.set_background(TenantId(0), true, now);
    let [background, other] = second_of_two(&mut scheduler, &mut now);
    // 300 ms, and one in a hundred and one of the rest.
    assert!((300..=312).contains(&background) && background + other >= 999, "{background} ms");
}

#[test]
fn time_of_background_work_is_given_back_to_its_own_account() {
    let mut scheduler = CpuScheduler::new();
    (1..=2).for_each(|id| scheduler.runnable(TenantId(id), Nanos(0)));
    scheduler.set_background(TenantId(1), true, Nanos(0));
    scheduler.charge(TenantId(1), Nanos::from_millis(10), Nanos(0));
    scheduler.charge(TenantId(2), Nanos::from_millis(500), Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(TenantId(2)));
    scheduler.refund(TenantId(1), Nanos::from_millis(9), Nanos(0));
    assert_eq!(scheduler.pick(Nanos(0)), Pick::Run(TenantId(1)), "1 ms at weight 1 is 100 ms at weight 100");
}
