//! One promise of the scheduler a test.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use base::{ByteCount, Nanos, TenantId};

use crate::fixture::{Arrivals, DevicePlan, TenantPlan, World, issued, tenant_id};
use crate::io::post::Urgency;
use crate::io::tag::Stamp;
use crate::io::volume::Pass;
use crate::io::{AwaitedFor, IoCost, IoPlace, IoQueue, IoVolume, LimitDebt, Next, Submitted};
use crate::policy::{Overbooking, Policy};
use crate::promise::IoPromise;
use base::IoClass;

pub(super) const ONE: IoCost = IoCost::of(ByteCount(8192));
const FOUR: IoCost = IoCost::of(ByteCount::from_kib(256));

pub(super) fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

pub(super) fn promise(iops: u64) -> IoPromise {
    IoPromise { iops, ..IoPromise::default() }
}

pub(super) fn limit(iops_max: u64) -> IoPromise {
    IoPromise { iops_max: Some(iops_max), ..IoPromise::default() }
}

pub(super) fn volume(depth: u32) -> (Arc<IoVolume>, IoQueue<u32>) {
    let volume = IoVolume::new(2);
    volume.set_depth(NonZeroU32::new(depth));
    let queue = IoQueue::new(&volume, 0);
    (volume, queue)
}

pub(super) fn submit(
    queue: &mut IoQueue<u32>,
    tenant: TenantId,
    payload: u32,
    now: Nanos,
) -> Option<IoPlace> {
    match queue.submit(tenant, IoClass::Short, ONE, payload, now) {
        Submitted::Issue(_, place) => Some(place),
        Submitted::Queued(_) => None,
    }
}

pub(super) fn queue_up(
    queue: &mut IoQueue<u32>,
    tenant: TenantId,
    payloads: std::ops::Range<u32>,
    now: Nanos,
) {
    for payload in payloads {
        assert!(submit(queue, tenant, payload, now).is_none(), "it is queued");
    }
}

/// What is issued at `now`, each completed at once.
pub(super) fn issue_all(queue: &mut IoQueue<u32>, now: Nanos) -> Vec<u32> {
    let mut all = Vec::new();
    while let Next::Issue(payload, place) = queue.next(now) {
        all.push(payload);
        queue.completed(place);
    }
    all
}

#[test]
fn where_nothing_is_promised_a_request_goes_at_once() {
    let (volume, mut queue) = volume(2);
    let places: Vec<_> = (0..3).map(|n| submit(&mut queue, tenant_id(0), n, ms(1))).collect();
    assert!(places[0].is_some() && places[1].is_some() && places[2].is_none(), "two places");
    assert_eq!((volume.in_flight(), queue.next(ms(1))), (2, Next::Idle));
    queue.completed(places[0].unwrap());
    assert!(matches!(queue.next(ms(2)), Next::Issue(2, _)));
}

#[test]
fn a_volume_is_open_again_when_the_last_promise_on_it_is_gone() {
    let volume = IoVolume::new(1);
    let is_open = |then: &dyn Fn(&IoVolume)| {
        then(&volume);
        volume.is_open()
    };
    assert!(is_open(&|_| ()));
    assert!(!is_open(&|volume| volume.set_promise(tenant_id(0), &promise(10), 0, ms(0))));
    assert!(!is_open(&|volume| volume.set_promise(tenant_id(1), &limit(10), 0, ms(0))));
    // Altered, not added.
    assert!(!is_open(&|volume| volume.set_promise(tenant_id(1), &limit(20), 0, ms(0))));
    assert!(!is_open(&|volume| volume.remove(tenant_id(0))));
    assert!(is_open(&|volume| volume.set_promise(tenant_id(1), &promise(0), 0, ms(0))));
    assert!(is_open(&|volume| volume.remove(tenant_id(1))));
    // What of a promise is in force, the policy says.
    assert!(!is_open(&|volume| volume.set_promise(tenant_id(0), &promise(10), 0, ms(0))));
    assert!(is_open(&|volume| volume.set_policy(Policy::BestEffort, ms(0))));
    assert!(is_open(&|volume| volume.set_promise(tenant_id(1), &promise(10), 0, ms(0))));
    assert!(!is_open(&|volume| volume.set_policy(Policy::default(), ms(0))));
    volume.remove(tenant_id(0));
    assert!(is_open(&|volume| volume.remove(tenant_id(1))));
}

#[test]
fn a_limit_spaces_requests_and_a_large_one_counts_as_several() {
    let (volume, mut queue) = volume(8);
    volume.set_promise(tenant_id(0), &limit(100), 0, ms(0));
    queue.submit(tenant_id(0), IoClass::Short, FOUR, 1, ms(5));
    submit(&mut queue, tenant_id(0), 2, ms(5));
    assert_eq!(issue_all(&mut queue, ms(5)), [1]);
    assert_eq!(queue.next(ms(6)), Next::WaitUntil(ms(45)));
    assert_eq!(issue_all(&mut queue, ms(45)), [2]);
}

#[test]
fn a_limit_of_bytes_holds_beside_one_of_ios() {
    let (volume, mut queue) = volume(8);
    let both = IoPromise { bandwidth_max: Some(ByteCount(819_200)), ..limit(1000) };
    volume.set_promise(tenant_id(0), &both, 0, ms(0));
    queue_up(&mut queue, tenant_id(0), 0..2, ms(0));
    assert_eq!(issue_all(&mut queue, ms(0)), [0]);
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(ms(10)), "8 KiB at 100 times that a second");
}

#[test]
fn a_changed_limit_acts_on_what_is_queued() {
    let (volume, mut queue) = volume(8);
    volume.set_promise(tenant_id(0), &limit(1), 0, ms(0));
    queue_up(&mut queue, tenant_id(0), 0..3, ms(0));
    assert_eq!(issue_all(&mut queue, ms(0)), [0]);
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(Nanos::from_secs(1)));
    // 0.9 I/Os ahead stay 0.9 I/Os ahead: 9 ms.
    volume.set_promise(tenant_id(0), &limit(100), 0, ms(100));
    assert_eq!(queue.next(ms(100)), Next::WaitUntil(ms(109)));
    assert_eq!(issue_all(&mut queue, ms(109)), [1]);
    volume.set_promise(tenant_id(0), &promise(0), 0, ms(110));
    assert_eq!(issue_all(&mut queue, ms(110)), [2]);
}

#[test]
fn short_statements_go_before_scans_and_scans_go_on() {
    let (volume, mut queue) = volume(1);
    let place = submit(&mut queue, tenant_id(1), 999, ms(0)).unwrap();
    for n in 0..20 {
        queue.submit(tenant_id(0), IoClass::Bulk, ONE, 100 + n, ms(0));
    }
    for n in 0..20 {
        queue.submit(tenant_id(0), IoClass::Short, ONE, n, ms(1));
    }
    assert_eq!(volume.in_flight(), 1);
    queue.completed(place);
    let order = issue_all(&mut queue, ms(2));
    assert_eq!(order[..9], [0, 1, 2, 3, 4, 5, 6, 100, 7], "one of eight is of the bulk");
    assert_eq!(order.len(), 40);
}

#[test]
fn upkeep_is_one_of_the_others_unless_somebody_waits_for_it() {
    let (volume, mut queue) = volume(1);
    let place = submit(&mut queue, tenant_id(1), 999, ms(0)).unwrap();
    for n in 0..10 {
        queue.submit(tenant_id(0), IoClass::Upkeep, ONE, 200 + n, ms(0));
        queue.submit(tenant_id(0), IoClass::Bulk, ONE, 100 + n, ms(1));
    }
    for n in 0..40 {
        queue.submit(tenant_id(0), IoClass::Short, ONE, n, ms(1));
    }
    assert_eq!(volume.in_flight(), 1);
    queue.completed(place);
    let mut order = Vec::new();
    for _ in 0..16 {
        let Next::Issue(request, place) = queue.next(ms(2)) else { panic!("something is queued") };
        order.push(request);
        queue.completed(place);
    }
    assert_eq!((order[7], order[15]), (200, 201), "those that came first");
    volume.set_awaited(tenant_id(0), AwaitedFor::Room, true);
    assert_eq!(issue_all(&mut queue, ms(3))[..8], [202, 203, 204, 205, 206, 207, 208, 209]);
}

#[test]
fn no_limit_of_its_own_holds_upkeep_that_others_wait_for() {
    let (volume, mut queue) = volume(8);
    volume.set_promise(tenant_id(0), &limit(10), 0, ms(0));
    for n in 0..30 {
        queue.submit(tenant_id(0), IoClass::Upkeep, ONE, n, ms(0));
    }
    queue_up(&mut queue, tenant_id(0), 100..102, ms(0));
    assert_eq!(issue_all(&mut queue, ms(0)), [100], "the limit holds");
    volume.set_awaited(tenant_id(0), AwaitedFor::Room, true);
    assert_eq!(issue_all(&mut queue, ms(1)), (0..30).collect::<Vec<_>>());
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(ms(1001)), "what it took is paid for, a second at most");
    // What comes while it lasts goes at once, and is not held once it has ended.
    queue.submit(tenant_id(0), IoClass::Upkeep, ONE, 30, ms(2));
    assert_eq!(issue_all(&mut queue, ms(2)), [30]);
    volume.set_awaited(tenant_id(0), AwaitedFor::Room, false);
    queue.submit(tenant_id(0), IoClass::Upkeep, ONE, 31, ms(3));
    assert_eq!(issue_all(&mut queue, ms(900)), []);
    assert_eq!(issue_all(&mut queue, ms(1002)), [101]);
    assert_eq!(issue_all(&mut queue, ms(2000)), [31]);
    // The volume's own limit is everybody's.
    volume.set_iops_limit(NonZeroU64::new(10), ms(2000));
    volume.set_awaited(tenant_id(0), AwaitedFor::Room, true);
    for n in 0..5 {
        queue.submit(tenant_id(0), IoClass::Upkeep, ONE, 40 + n, ms(3000));
    }
    assert_eq!(issue_all(&mut queue, ms(3000)), [40]);
    assert_eq!(issue_all(&mut queue, ms(3100)), [41]);
}

#[test]
fn upkeep_that_a_limit_holds_goes_when_others_begin_to_wait_and_as_long_as_anybody_does() {
    let (volume, mut queue) = volume(8);
    let mut elsewhere = IoQueue::new(&volume, 1);
    volume.set_promise(tenant_id(0), &limit(10), 0, ms(0));
    for n in 0..15 {
        queue.submit(tenant_id(0), IoClass::Upkeep, ONE, n, ms(0));
        elsewhere.submit(tenant_id(0), IoClass::Upkeep, ONE, 100 + n, ms(0));
    }
    assert_eq!(issue_all(&mut queue, ms(0)), [0]);
    assert_eq!(issue_all(&mut elsewhere, ms(0)), [], "one limit for both");
    assert_eq!(queue.next(ms(50)), Next::WaitUntil(ms(100)));
    assert!(volume.set_awaited(tenant_id(0), AwaitedFor::Log, true), "the workers are to be woken");
    assert!(!volume.set_awaited(tenant_id(0), AwaitedFor::Room, true));
    assert!(!volume.set_awaited(tenant_id(1), AwaitedFor::Room, false), "nobody waited");
    assert_eq!(issue_all(&mut queue, ms(51)), (1..15).collect::<Vec<_>>());
    assert_eq!(issue_all(&mut elsewhere, ms(51)), (100..115).collect::<Vec<_>>());
    assert!(!volume.set_awaited(tenant_id(0), AwaitedFor::Log, false), "others still wait for room");
    queue.submit(tenant_id(0), IoClass::Upkeep, ONE, 50, ms(52));
    assert_eq!(issue_all(&mut queue, ms(52)), [50]);
    assert!(volume.set_awaited(tenant_id(0), AwaitedFor::Room, false));
    queue.submit(tenant_id(0), IoClass::Upkeep, ONE, 51, ms(53));
    assert_eq!(issue_all(&mut queue, ms(53)), []);
    assert_eq!(queue.next(ms(54)), Next::WaitUntil(ms(1052)), "a second of its future is taken");
}

#[test]
fn a_request_that_nobody_waits_for_is_taken_back() {
    let (volume, mut queue) = volume(8);
    volume.set_promise(tenant_id(0), &limit(1), 0, ms(0));
    let tokens: Vec<_> = (0..3)
        .map(|n| match queue.submit(tenant_id(0), IoClass::Short, ONE, n, ms(0)) {
            Submitted::Queued(token) => token,
            Submitted::Issue(..) => panic!("a limit is in force"),
        })
        .collect();
    assert_eq!(issue_all(&mut queue, ms(0)), [0]);
    assert_eq!(queue.cancel(tokens[0], ms(1)), None, "issued already");
    assert_eq!(queue.cancel(tokens[1], ms(1)), Some(1));
    assert_eq!(queue.cancel(tokens[2], ms(1)), Some(2));
    assert_eq!((queue.len(), queue.next(ms(1))), (0, Next::Idle));
    queue_up(&mut queue, tenant_id(1), 10..30, ms(2));
    assert_eq!(issue_all(&mut queue, Nanos::from_secs(5)).len(), 20, "nothing of it is left");
    assert!(queue.forget(tenant_id(0)));
}

#[test]
fn work_done_already_is_paid_for_later_under_a_limit_a_minute_at_most() {
    let (volume, mut queue) = volume(8);
    volume.set_promise(tenant_id(0), &limit(100), 0, ms(0));
    let of_turn = LimitDebt::OfTurn;
    assert_eq!(queue.charge_done(tenant_id(0), FOUR, of_turn, ms(0)), IoCost::default());
    assert_eq!(queue.opens_at(tenant_id(0), ms(0)), Some(ms(40)));
    let forgiven = queue.charge_done(tenant_id(0), IoCost::of(ByteCount::from_mib(512)), of_turn, ms(0));
    assert_eq!(forgiven.ios().round(), 4.0 + 8192.0 - 6000.0);
    assert_eq!(queue.opens_at(tenant_id(0), ms(0)), Some(Nanos::from_secs(60)));
    assert_eq!(volume.charge_done(tenant_id(0), ONE, of_turn, ms(0)).ios(), 1.0);
    assert_eq!(queue.opens_at(tenant_id(0), Nanos::from_secs(60)), None);
    // Of what came after no request that waited a second is remembered, and a longer debt stays.
    let (later, other) = (Nanos::from_secs(61), LimitDebt::OfOther);
    let forgiven = queue.charge_done(tenant_id(0), IoCost::of(ByteCount::from_mib(64)), other, later);
    assert_eq!(forgiven.ios().round(), 1024.0 - 100.0);
    assert_eq!(queue.opens_at(tenant_id(0), later), Some(Nanos::from_secs(62)));
    assert_eq!(queue.charge_done(tenant_id(0), FOUR, of_turn, later), IoCost::default());
    assert_eq!(queue.opens_at(tenant_id(0), later), Some(later + ms(1040)));
    assert_eq!(queue.charge_done(tenant_id(0), FOUR, other, later).ios(), 4.0);
    assert_eq!(queue.opens_at(tenant_id(0), later), Some(later + ms(1040)));
}

#[test]
fn a_lower_limit_makes_no_debt_longer_than_a_minute() {
    let (volume, mut queue) = volume(8);
    volume.set_promise(tenant_id(0), &limit(1000), 0, ms(0));
    let fifty = IoCost::of(ByteCount::from_kib(64 * 50_000));
    assert_eq!(queue.charge_done(tenant_id(0), fifty, LimitDebt::OfTurn, ms(0)), IoCost::default());
    assert_eq!(queue.opens_at(tenant_id(0), ms(0)), Some(Nanos::from_secs(50)));
    volume.set_promise(tenant_id(0), &limit(10), 0, ms(0));
    assert_eq!(queue.opens_at(tenant_id(0), ms(0)), Some(Nanos::from_secs(60)), "not 5,000 s");
    volume.set_promise(tenant_id(0), &limit(600), 0, ms(0));
    assert_eq!(queue.opens_at(tenant_id(0), ms(0)), Some(Nanos::from_secs(1)), "the same I/Os");
}

#[test]
fn a_log_group_goes_with_its_members_earliest_due_time_and_no_limit_holds_it() {
    let (volume, mut queue) = volume(1);
    let [neighbour, reserved, limited] = [0, 1, 2].map(tenant_id);
    let place = submit(&mut queue, neighbour, 999, ms(0)).unwrap();
    volume.set_promise(reserved, &promise(100), 0, ms(0));
    volume.set_promise(limited, &limit(1), 0, ms(0));
    queue_up(&mut queue, neighbour, 0..50, ms(1));
    let block = IoCost::of(ByteCount(4096));
    let share = |from, to| block.share(ByteCount(from), ByteCount(to), ByteCount(400));
    let members = [(neighbour, share(0, 100)), (limited, share(100, 200)), (reserved, share(200, 400))];
    assert_eq!(queue.submit_group(members, 777, ms(2)), None);
    queue.completed(place);
    let Next::Issue(777, place) = queue.next(ms(3)) else { panic!("one of its members is due") };
    queue.completed(place);
    // Each paid its share: a quarter of an I/O at 1 a second, half of one at 100 a second.
    assert_eq!(queue.opens_at(limited, ms(3)), Some(ms(252)));
    submit(&mut queue, reserved, 1000, ms(3));
    submit(&mut queue, reserved, 1001, ms(3));
    assert!(matches!(queue.next(ms(3)), Next::Issue(0..50, place) if { queue.completed(place); true }));
    assert_eq!(issue_all(&mut queue, ms(7))[0], 1000);
}

#[test]
fn a_tenant_that_wakes_does_not_catch_up_on_spare_service() {
    let (volume, mut queue) = volume(1);
    let place = submit(&mut queue, tenant_id(0), 0, ms(0)).unwrap();
    queue_up(&mut queue, tenant_id(0), 0..1100, ms(0));
    queue.completed(place);
    for _ in 0..1000 {
        let Next::Issue(_, place) = queue.next(ms(1)) else { panic!("it has more") };
        queue.completed(place);
    }
    let Next::Issue(_, place) = queue.next(ms(1)) else { panic!("it has more") };
    queue_up(&mut queue, tenant_id(1), 5000..5100, ms(1));
    queue.completed(place);
    let first: Vec<u32> = issue_all(&mut queue, ms(2)).into_iter().take(40).collect();
    let late = first.iter().filter(|payload| **payload >= 5000).count();
    assert!((18..=22).contains(&late), "{late}");
    assert_eq!(volume.in_flight(), 0);
}

#[test]
fn the_volumes_own_limit_holds_over_all_tenants() {
    let plan = |clients| TenantPlan {
        promise: IoPromise::default(),
        penalty: 0,
        arrivals: Arrivals::Closed { clients, think: Nanos(0) },
        active: (ms(0), ms(100_000)),
        bytes_max: 8192,
        worker: None,
    };
    let mut world = World::new(1, 3, DevicePlan::steady(8, 5000), vec![plan(20), plan(20)]);
    world.volume.set_iops_limit(NonZeroU64::new(300), ms(0));
    world.wake_all();
    world.run_until(Nanos::from_secs(5));
    let total: f64 = (0..2).map(|tenant| issued(&world.trace, tenant, ms(1000), ms(5000))).sum();
    assert!((1190.0..=1210.0).contains(&total), "{total}");
}

#[test]
fn the_volumes_limit_remembers_a_second_of_what_could_not_be_delayed() {
    let (volume, mut queue) = volume(8);
    volume.set_iops_limit(NonZeroU64::new(10), ms(0));
    let many = IoCost::of_many(10_000, ByteCount::from_mib(80));
    volume.charge_done(TenantId::SYSTEM, many, LimitDebt::OfOther, ms(0));
    queue.charge_done(tenant_id(1), many, LimitDebt::OfTurn, ms(0));
    queue_up(&mut queue, tenant_id(0), 0..1, ms(0));
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(ms(1000)));
    assert_eq!(issue_all(&mut queue, ms(1001)), [0]);
}

#[test]
fn a_changed_limit_of_the_volume_acts_on_what_was_issued() {
    let (volume, mut queue) = volume(8);
    volume.set_iops_limit(NonZeroU64::new(10), ms(0));
    let large = IoCost::of_many(100, ByteCount::from_mib(6));
    queue.submit(tenant_id(0), IoClass::Short, large, 0, ms(0));
    queue_up(&mut queue, tenant_id(1), 1..2, ms(0));
    assert_eq!(issue_all(&mut queue, ms(0)), [0]);
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(ms(10_000)));
    volume.set_iops_limit(NonZeroU64::new(10_000), ms(0));
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(ms(10)), "100 I/Os ahead still");
    // A second's debt stays a second's, in whatever I/Os.
    volume.charge_done(TenantId::SYSTEM, IoCost::of_many(20_000, ByteCount(0)), LimitDebt::OfOther, ms(0));
    volume.set_iops_limit(NonZeroU64::new(10), ms(0));
    assert_eq!(queue.next(ms(1)), Next::WaitUntil(ms(1000)));
    volume.set_iops_limit(None, ms(2));
    assert_eq!(issue_all(&mut queue, ms(2)), [1]);
}

/// What each of some tenants gets in a second of a device of 300, by promise and penalty; all have demand enough.
fn shares(policy: Policy, tenants: &[(u64, u64)]) -> Vec<f64> {
    let plans = tenants.iter().map(|(iops, penalty)| TenantPlan {
        promise: IoPromise { iops_max: Some(iops.max(&1) * 10), ..promise(*iops) },
        penalty: *penalty,
        arrivals: Arrivals::Closed { clients: 50, think: Nanos(0) },
        active: (ms(0), ms(1_000_000)),
        bytes_max: 8192,
        worker: Some(0),
    });
    let mut world = World::new(5, 1, DevicePlan::steady(4, 300), plans.collect());
    world.volume.set_policy(policy, world.now);
    world.wake_all();
    world.run_until(Nanos::from_secs(12));
    assert_eq!(world.wrong, Vec::<String>::new());
    (0..tenants.len()).map(|tenant| issued(&world.trace, tenant, ms(2000), ms(12_000)) / 10.0).collect()
}

fn dialled(permille: u16) -> Policy {
    Policy::Reservations(Overbooking::from_permille(permille).unwrap())
}

fn assert_near(found: &[f64], wanted: &[f64]) {
    let near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() <= 6.0);
    assert!(near, "{found:?} instead of {wanted:?}");
}

#[test]
fn policies_say_who_misses_what() {
    let overbooked = [(100, 1_000_000), (200, 1_000_000), (300, 8_000_000)];
    // By weight; of the limits the smallest is 1,000.
    assert_near(&shares(Policy::BestEffort, &overbooked), &[100.0, 100.0, 100.0]);
    assert_near(&shares(Policy::MaxOnly, &overbooked), &[100.0, 100.0, 100.0]);
    // The same part of each promise.
    assert_near(&shares(dialled(0), &overbooked), &[50.0, 100.0, 150.0]);
    // The dear one first.
    assert_near(&shares(dialled(1000), &overbooked), &[0.0, 0.0, 300.0]);
    // A tenth of the way.
    assert_near(&shares(dialled(100), &overbooked), &[45.0, 90.0, 165.0]);
    // What fits is kept; the third is at its limit of 10, and the second has what is left.
    assert_near(&shares(Policy::default(), &[(200, 0), (40, 0), (0, 0)]), &[200.0, 90.0, 10.0]);
}

/// As for processor time: `tests/cpu/overbooked.rs`.
#[test]
fn dial_splits_the_shortfall_between_the_two() {
    // Penalties of 8 and 1: 240 of 300 promised to each, 120 missed by one, or 90 by each.
    let prices = |first, second| [(240, first), (240, second)];
    for (dial, wanted) in
        [(0, [150.0, 150.0]), (250, [172.5, 127.5]), (500, [195.0, 105.0]), (1000, [240.0, 60.0])]
    {
        assert_near(&shares(dialled(dial), &prices(8_000_000, 1_000_000)), &wanted);
        // It is the order of prices that counts, not how far they are apart.
        assert_near(&shares(dialled(dial), &prices(1_010_000, 1_000_000)), &wanted);
        assert_near(&shares(dialled(dial), &prices(1_000_000, 1_000_000)), &[150.0, 150.0]);
    }
}

/// The same where the two are on different workers.
#[test]
fn dial_splits_the_shortfall_between_workers() {
    for (dial, wanted) in [(0, [150.0, 150.0]), (500, [195.0, 105.0]), (1000, [240.0, 60.0])] {
        let mut plans = vec![busy(240, 50, 0, ms(100_000)), busy(240, 50, 1, ms(100_000))];
        (plans[0].penalty, plans[1].penalty) = (8_000_000, 1_000_000);
        let mut world = World::new(5, 2, DevicePlan::steady(4, 300), plans);
        world.volume.set_policy(dialled(dial), world.now);
        world.wake_all();
        world.run_until(ms(12_000));
        let got: Vec<f64> =
            (0..2).map(|tenant| issued(&world.trace, tenant, ms(2000), ms(12_000)) / 10.0).collect();
        assert_near(&got, &wanted);
    }
}

#[test]
fn dial_changes_nothing_where_reservations_fit() {
    for dial in [0, 300, 1000] {
        let mut plans: Vec<TenantPlan> = (1..5).map(|n| busy(n * 25, 50, 0, ms(100_000))).collect();
        plans.push(busy(0, 50, 0, ms(100_000)));
        plans.iter_mut().enumerate().for_each(|(n, plan)| plan.penalty = n as u64 * 1_000_000);
        let mut world = World::new(5, 1, DevicePlan::steady(4, 300), plans);
        world.volume.set_policy(dialled(dial), world.now);
        world.wake_all();
        world.run_until(ms(6000));
        assert!(world.rows.iter().flatten().all(|row| row.usage.missed.ios() <= 3.0), "{:?}", world.rows);
    }
}

#[test]
fn a_policy_is_switched_while_requests_wait() {
    let plan = |iops| TenantPlan {
        promise: promise(iops),
        penalty: 0,
        arrivals: Arrivals::Closed { clients: 50, think: Nanos(0) },
        active: (ms(0), ms(1_000_000)),
        bytes_max: 8192,
        worker: Some(0),
    };
    let mut world = World::new(5, 1, DevicePlan::steady(4, 300), vec![plan(250), plan(0)]);
    for (second, policy, wanted) in
        [(9, Policy::default(), 250.0), (10, Policy::BestEffort, 150.0), (11, dialled(0), 250.0)]
    {
        world.volume.set_policy(policy, world.now);
        world.wake_all();
        world.run_until(Nanos::from_secs(second));
        let got = issued(&world.trace, 0, Nanos::from_secs(second - 1), Nanos::from_secs(second));
        assert!((got - wanted).abs() <= 6.0, "{policy:?}: {got}");
    }
}

#[test]
fn a_clock_that_jumps_ahead_leaves_no_burst_behind() {
    let (volume, mut queue) = volume(1000);
    volume.set_promise(tenant_id(0), &IoPromise { iops_max: Some(100), ..promise(100) }, 0, ms(0));
    queue_up(&mut queue, tenant_id(0), 0..500, ms(0));
    assert_eq!(issue_all(&mut queue, ms(0)).len(), 1);
    let hour = Nanos::from_secs(3600);
    assert_eq!(issue_all(&mut queue, hour).len(), 2, "10 ms are made up for");
    assert_eq!(issue_all(&mut queue, hour + Nanos::from_secs(1)).len(), 2);
    assert_eq!(issue_all(&mut queue, hour + Nanos::from_secs(1)).len(), 0);
}

#[test]
fn idle_tenants_are_not_looked_at() {
    let (volume, mut queue) = volume(1);
    for tenant in 0..1000 {
        volume.set_promise(tenant_id(tenant), &limit(1000), 0, ms(0));
        submit(&mut queue, tenant_id(tenant), tenant as u32, ms(0));
    }
    assert_eq!(issue_all(&mut queue, ms(0)).len(), 1000);
    submit(&mut queue, tenant_id(7), 1, ms(50));
    assert_eq!(issue_all(&mut queue, ms(50)), [1]);
    assert!((0..1000).all(|tenant| queue.forget(tenant_id(tenant))));
}

/// What a thousand decisions cost where so many tenants are known, of which these have requests.
fn looks_of(known: usize, waiting: usize) -> u64 {
    let (volume, mut queue) = volume(1);
    let apart = known / waiting;
    for n in 0..known {
        let promised = [promise(5), limit(50), IoPromise::default()][n / apart % 3];
        volume.set_promise(tenant_id(n), &promised, 0, ms(0));
        submit(&mut queue, tenant_id(n), n as u32, ms(0));
    }
    assert_eq!(issue_all(&mut queue, ms(0)).len(), known);
    let mut now = ms(1000);
    (0..waiting).for_each(|n| queue_up(&mut queue, tenant_id(n * apart), n as u32..n as u32 + 1, now));
    let before = queue.looks();
    for _ in 0..1000 {
        match queue.next(now) {
            Next::Issue(n, place) => {
                queue.completed(place);
                now += ms(1);
                queue_up(&mut queue, tenant_id(n as usize * apart), n..n + 1, now);
            }
            Next::WaitUntil(at) => now = at,
            next => panic!("all those have requests: {next:?}"),
        }
    }
    queue.looks() - before
}

/// In entries looked at, not in time: that is what other work on the machine does not change.
#[test]
fn a_decision_costs_by_the_tenants_that_wait_and_not_by_those_that_are_known() {
    let few = looks_of(20, 20);
    let of_many = looks_of(10_000, 20);
    assert!(of_many.abs_diff(few) * 10 <= few, "{of_many} against {few}");
    // The depth of each of six heaps, twice, and not a look at each tenant.
    let (all, depth) = (looks_of(640, 640), u64::from(640u64.ilog2()) + 1);
    assert!(few >= 1000 && all > few && all < 1000 * 6 * 2 * depth, "{all} against {few}");
}

fn busy(iops: u64, clients: u32, worker: usize, until: Nanos) -> TenantPlan {
    TenantPlan {
        promise: promise(iops),
        penalty: 0,
        arrivals: Arrivals::Closed { clients, think: Nanos(0) },
        active: (ms(0), until),
        bytes_max: 8192,
        worker: Some(worker),
    }
}

/// Two reserve 200 each of 300 for ten seconds; then the second leaves, and there is a third of the device to spare again.
#[test]
fn a_shortage_is_not_repaid_out_of_others_spare_service_for_long() {
    let plans =
        vec![busy(200, 50, 0, ms(100_000)), busy(200, 50, 0, ms(10_000)), busy(0, 50, 0, ms(100_000))];
    for dial in [0, 500, 1000] {
        let mut world = World::new(5, 1, DevicePlan::steady(4, 300), plans.clone());
        world.volume.set_policy(dialled(dial), world.now);
        world.run_until(ms(13_000));
        let spare = issued(&world.trace, 2, ms(11_000), ms(13_000)) / 2.0;
        assert!((90.0..=110.0).contains(&spare), "dial {dial}: {spare}");
    }
}

/// One client, one request at a time, where 700 are promised of 300: it gets its part of what it was promised, be the others on its
/// worker or on another.
#[test]
fn a_client_with_one_request_at_a_time_has_its_part_of_a_shortage() {
    for (worker, dial) in [(0, 0), (1, 0), (0, 500), (1, 500), (0, 1000), (1, 1000)] {
        let plans = vec![
            busy(300, 50, 0, ms(100_000)),
            busy(300, 50, 0, ms(100_000)),
            busy(100, 1, worker, ms(100_000)),
        ];
        let mut world = World::new(5, 2, DevicePlan::steady(4, 300), plans);
        world.volume.set_policy(dialled(dial), world.now);
        world.run_until(ms(6000));
        let got = issued(&world.trace, 2, ms(2000), ms(6000)) / 4.0;
        assert!((34.0..=50.0).contains(&got), "worker {worker}, dial {dial}: {got}");
    }
}

/// Tenants of equal weight on two workers, many on one and one on the other: by tenants, not by workers.
#[test]
fn workers_share_a_volume_by_their_tenants() {
    let plans = vec![
        busy(0, 20, 0, ms(100_000)),
        busy(0, 20, 0, ms(100_000)),
        busy(0, 20, 0, ms(100_000)),
        busy(0, 20, 1, ms(100_000)),
        busy(100, 20, 1, ms(100_000)),
    ];
    for depth in [1, 4] {
        let mut world = World::new(5, 2, DevicePlan::steady(depth, 300), plans.clone());
        world.run_until(ms(6000));
        let got: Vec<f64> =
            (0..5).map(|tenant| issued(&world.trace, tenant, ms(1000), ms(6000)) / 5.0).collect();
        assert_near(&got, &[50.0, 50.0, 50.0, 50.0, 100.0]);
    }
}

/// Two of equal weight on a device of 300, one with 200 of it reserved. When a device of 900 takes its place, both get half of that at once:
/// what was due to the one is not held against it.
#[test]
fn reserved_service_is_not_held_against_a_tenant_when_there_is_more() {
    let plans = vec![busy(200, 50, 0, ms(100_000)), busy(0, 50, 0, ms(100_000))];
    let mut world = World::new(5, 1, DevicePlan::steady(4, 300), plans);
    world.run_until(ms(20_000));
    let got = issued(&world.trace, 0, ms(1000), ms(20_000)) / 19.0;
    assert!((195.0..=210.0).contains(&got), "{got}");
    world.device.service = Nanos(world.device.service.0 / 3);
    world.run_until(ms(21_500));
    let got = issued(&world.trace, 0, ms(20_500), ms(21_500));
    assert!((430.0..=470.0).contains(&got), "{got}");
}

/// 60 I/Os and bytes for 100 of them reserved beside five of equal weight: what is more of the two, not their sum, and by the meter kept.
#[test]
fn of_two_reservations_the_larger_counts() {
    let mut plans: Vec<TenantPlan> = (0..6).map(|_| busy(0, 50, 0, ms(100_000))).collect();
    plans[0].promise = IoPromise { bandwidth: ByteCount(819_200), ..promise(60) };
    let mut world = World::new(5, 1, DevicePlan::steady(1, 300), plans);
    world.run_until(ms(6000));
    let got = issued(&world.trace, 0, ms(1000), ms(6000)) / 5.0;
    assert!((99.0..=104.0).contains(&got), "{got}");
    for rows in &world.rows {
        assert!(rows[0].average_kept && rows[0].demanded.ios() >= 80.0, "{:?}", rows[0].usage);
    }
}

#[test]
fn a_place_that_comes_free_while_a_worker_posts_is_seen() {
    let (volume, mut queue) = volume(1);
    let place = submit(&mut queue, tenant_id(0), 0, ms(0)).unwrap();
    let urgency = Urgency { due: [Stamp::NEVER; 2], spare: Stamp(0) };
    let mut is_posted = false;
    assert_eq!(volume.pass(1, urgency, ms(0)), Pass::Full);
    assert!(!volume.put_post(1, &mut is_posted, urgency), "it is taken still");
    volume.clear_post(1, &mut is_posted);
    assert_eq!(volume.pass(1, urgency, ms(0)), Pass::Full);
    // Between the look and the post; whoever gave it back saw no post, and wakes nobody.
    queue.completed(place);
    assert_eq!(queue.next(ms(0)), Next::Idle);
    assert!(volume.put_post(1, &mut is_posted, urgency), "look again");
}

#[test]
fn what_a_tenant_got_on_another_worker_counts_here() {
    let (volume, mut here) = volume(1);
    let mut there: IoQueue<u32> = IoQueue::new(&volume, 1);
    let place = submit(&mut here, tenant_id(9), 0, ms(0)).unwrap();
    // The second tenant is ahead by one, so the first has the smaller key here.
    queue_up(&mut here, tenant_id(1), 100..102, ms(0));
    here.completed(place);
    let Next::Issue(100, place) = here.next(ms(0)) else { panic!("it waits alone") };
    queue_up(&mut here, tenant_id(0), 0..1, ms(0));
    queue_up(&mut there, tenant_id(0), 10..13, ms(0));
    here.completed(place);
    assert_eq!(issue_all(&mut there, ms(0)), [10, 11, 12]);
    assert_eq!(issue_all(&mut here, ms(0)), [101, 0]);
}

#[test]
fn a_worker_that_does_not_come_holds_a_place_for_a_millisecond() {
    let (volume, mut here) = volume(1);
    let mut there: IoQueue<u32> = IoQueue::new(&volume, 1);
    let place = submit(&mut here, tenant_id(0), 0, ms(0)).unwrap();
    volume.set_promise(tenant_id(1), &promise(100), 0, ms(0));
    queue_up(&mut there, tenant_id(1), 10..11, ms(0));
    queue_up(&mut here, tenant_id(0), 1..2, ms(0));
    assert_eq!(there.next(ms(1)), Next::Idle, "it posts what is due");
    here.completed(place);
    assert_eq!(here.next(ms(2)), Next::Wake(1));
    assert_eq!(here.next(ms(2)), Next::WaitUntil(ms(3)), "the place is left to it");
    let Next::Issue(1, place) = here.next(ms(3)) else { panic!("it had its time") };
    assert_eq!(there.next(ms(4)), Next::Idle);
    here.completed(place);
    assert_eq!(here.next(ms(5)), Next::Wake(1), "told anew, since it came and posted anew");
    assert!(matches!(there.next(ms(5)), Next::Issue(10, _)));
}

/// The example at the head of the module.
#[test]
fn all_service_counts_by_weight_and_reservations_hold() {
    for (weights, wanted) in [((100, 100), [500.0, 500.0]), ((800, 200), [700.0, 300.0])] {
        let mut plans = vec![busy(100, 50, 0, ms(100_000)), busy(300, 50, 0, ms(100_000))];
        plans[0].promise.weight = weights.0.try_into().unwrap();
        plans[1].promise.weight = weights.1.try_into().unwrap();
        let mut world = World::new(5, 1, DevicePlan::steady(4, 1000), plans);
        world.run_until(ms(4000));
        let got: Vec<f64> =
            (0..2).map(|tenant| issued(&world.trace, tenant, ms(1000), ms(4000)) / 3.0).collect();
        assert_near(&got, &wanted);
    }
}
