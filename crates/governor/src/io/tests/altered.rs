//! Who goes first where a limit held somebody, lateness has ended, or a promise was altered.

use std::num::NonZeroU32;

use base::ByteCount;

use super::facts::{ONE, issue_all, ms, promise, queue_up, submit, volume};
use crate::fixture::tenant_id;
use crate::io::{IoCost, LimitDebt, Next};
use crate::promise::IoPromise;

/// A promise that is put in force again and again, as it is or with other figures, gains its tenant nothing.
#[test]
fn a_promise_that_is_altered_again_and_again_gains_nothing() {
    let heavier = IoPromise { weight: NonZeroU32::new(200).expect("not zero"), ..promise(10) };
    for (altered, most) in [(promise(10), 152), (promise(20), 152), (heavier, 202)] {
        let (volume, mut queue) = volume(1);
        let place = submit(&mut queue, tenant_id(2), 9999, ms(0)).expect("a place is free");
        for tenant in 0..2 {
            volume.set_promise(tenant_id(tenant), &promise(10), 0, ms(0));
            let first = 1000 * tenant as u32;
            queue_up(&mut queue, tenant_id(tenant), first..first + 400, ms(0));
        }
        queue.completed(place);
        let mut issued = [0, 0];
        for n in 0..300 {
            let Next::Issue(request, place) = queue.next(ms(1)) else { panic!("there is more") };
            queue.completed(place);
            issued[request as usize / 1000] += 1;
            let now_in_force = if n % 2 == 0 { altered } else { promise(10) };
            volume.set_promise(tenant_id(0), &now_in_force, 0, ms(1));
        }
        // Half; of twice the weight half of the time, three fifths, or twice as much while it is in force.
        assert!((148..=most).contains(&issued[0]), "{issued:?} with {altered:?}");
    }
}

/// What was done for a tenant takes a second of its reservation at most, also of one that becomes a thousandth meanwhile.
#[test]
fn a_lower_reservation_makes_no_debt_longer() {
    let (volume, mut queue) = volume(1);
    let [reserved, spare] = [0, 1].map(tenant_id);
    volume.set_promise(reserved, &promise(10_000), 0, ms(0));
    let done = IoCost::of_many(10_000, ByteCount::from_mib(80));
    queue.charge_done(reserved, done, LimitDebt::OfTurn, ms(0));
    volume.set_promise(reserved, &promise(10), 0, ms(0));
    queue_up(&mut queue, spare, 90..92, ms(1010));
    queue_up(&mut queue, reserved, 0..2, ms(1010));
    assert_eq!(issue_all(&mut queue, ms(1010)), [0, 90, 91, 1]);
}

/// A reservation above the limit gathers no lateness while the limit holds: others that are due have not to wait behind it.
#[test]
fn what_a_limit_held_was_not_late() {
    let (volume, mut queue) = volume(1);
    let [held, other, spare] = [0, 1, 2].map(tenant_id);
    volume.set_promise(held, &IoPromise { iops_max: Some(10), ..promise(100) }, 0, ms(0));
    volume.set_promise(other, &promise(100), 0, ms(0));
    queue_up(&mut queue, held, 0..3, ms(0));
    assert_eq!(issue_all(&mut queue, ms(0)), [0]);
    assert!(submit(&mut queue, spare, 99, ms(90)).is_none());
    let Next::Issue(99, place) = queue.next(ms(90)) else { panic!("the place is free") };
    queue_up(&mut queue, other, 10..11, ms(95));
    queue.completed(place);
    assert_eq!(issue_all(&mut queue, ms(101)), [10, 1], "due from 95 ms on, and from 100");
    // Lifted, it holds no more.
    volume.set_promise(held, &promise(100), 0, ms(102));
    assert_eq!(issue_all(&mut queue, ms(112)), [2]);
}

/// Who comes claims its turn from as long ago as others are late just then, and not from the lateness of a shortage that has ended.
#[test]
fn lateness_is_over_once_a_request_goes_that_is_not_due() {
    let (volume, mut queue) = volume(1);
    let [late, paced, fresh, spare] = [0, 1, 2, 3].map(tenant_id);
    [late, paced, fresh].iter().for_each(|tenant| volume.set_promise(*tenant, &promise(100), 0, ms(0)));
    queue_up(&mut queue, spare, 90..91, ms(0));
    let Next::Issue(90, place) = queue.next(ms(0)) else { panic!("the place is free") };
    queue_up(&mut queue, late, 0..1, ms(0));
    // It has had one, so its next is due at 54 ms.
    queue.charge_done(paced, ONE, LimitDebt::OfTurn, ms(44));
    queue.completed(place);
    assert_eq!(issue_all(&mut queue, ms(50)), [0], "50 ms late");
    queue_up(&mut queue, spare, 91..92, ms(51));
    let Next::Issue(91, place) = queue.next(ms(51)) else { panic!("nothing is due") };
    queue_up(&mut queue, paced, 1..2, ms(52));
    queue_up(&mut queue, fresh, 2..3, ms(56));
    queue.completed(place);
    assert_eq!(issue_all(&mut queue, ms(60)), [1, 2]);
}
