//! More promised than there is: who goes short is the operator's choice.

use governor::{Cause, Overbooking, Policy};

use super::world::*;

/// Shares of a worker in per cent after a second's settling.
fn shares(tenants: Vec<Tenant>, dial: u16) -> Vec<u64> {
    let policy = Policy::Reservations(Overbooking::from_permille(dial).unwrap());
    let mut world = World::new(1, tenants, 1).with_policy(policy);
    world.run_until(5 * SECOND);
    let share = |tenant| (world.used_between(tenant, SECOND, 5 * SECOND) + 20 * MS) / (40 * MS);
    (0..world.tenants.len()).map(share).collect()
}

#[test]
fn spread_shares_the_shortfall_in_proportion() {
    let tenants = vec![Tenant::busy(1000), Tenant::busy(500).priced(9), Tenant::busy(500), Tenant::busy(0)];
    assert_eq!(shares(tenants, 0), [50, 25, 25, 0]);
    let many = (0..20).map(|n| Tenant::busy(if n < 10 { 1000 } else { 100 })).collect();
    let shares = shares(many, 0);
    assert!(shares[..10].iter().all(|share| *share == 9), "{shares:?}");
    assert!(shares[10..].iter().all(|share| *share == 1), "{shares:?}");
}

#[test]
fn least_penalty_leaves_the_shortfall_to_the_cheap() {
    let tenants =
        || vec![Tenant::busy(600).priced(10), Tenant::busy(300).priced(1), Tenant::busy(500).priced(5)];
    assert_eq!(shares(tenants(), 1000), [60, 0, 40]);
    // 400 : 200 of what is left.
    let equal_prices =
        vec![Tenant::busy(600).priced(10), Tenant::busy(400).priced(1), Tenant::busy(200).priced(1)];
    let shares = shares(equal_prices, 1000);
    assert!(shares[0] == 60 && shares[1].abs_diff(27) <= 1 && shares[2].abs_diff(13) <= 1, "{shares:?}");
}

#[test]
fn dial_splits_the_shortfall_between_the_two() {
    let tenants = || vec![Tenant::busy(600).priced(1), Tenant::busy(600).priced(10)];
    assert_eq!(shares(tenants(), 0), [50, 50]);
    assert_eq!(shares(tenants(), 500), [45, 55]);
    assert_eq!(shares(tenants(), 1000), [40, 60]);
    assert_eq!(Overbooking::from_permille(1001), None);
}

#[test]
fn dial_changes_nothing_where_reservations_fit() {
    for dial in [0, 300, 1000] {
        let mut tenants: Vec<Tenant> = (1..5).map(|n| Tenant::busy(n * 100).priced(u64::from(n))).collect();
        tenants.push(Tenant::busy(0));
        let policy = Policy::Reservations(Overbooking::from_permille(dial).unwrap());
        let mut world = World::new(1, tenants, 1).with_policy(policy);
        world.run_until(3 * SECOND);
        assert!(world.rows.iter().all(|row| row.missed <= 100 * US), "{:?}", world.rows);
    }
}

/// What was missed in an overload is not made up for at the cost of others after it.
#[test]
fn overload_ends_with_its_cause() {
    for dial in [0, 500, 1000] {
        let tenants = vec![
            Tenant::busy(400).priced(1),
            Tenant::busy(500).priced(3),
            Tenant::new(600, 0, Load::Between { from: 0, to: 5 * SECOND }, (100 * US, 100 * US)).priced(2),
            Tenant::new(100, 0, Load::Between { from: 5 * SECOND, to: 9 * SECOND }, (100 * US, 100 * US)),
        ];
        let policy = Policy::Reservations(Overbooking::from_permille(dial).unwrap());
        let mut world = World::new(1, tenants, 1).with_policy(policy);
        world.run_until(8 * SECOND);
        let during = world.rows.iter().filter(|row| row.to.0 <= 5 * SECOND && row.missed > MS);
        assert!(during.clone().count() >= 5);
        assert!(during.into_iter().all(|row| row.cause == Some(Cause::Overbooked)));
        // The first interval after it may end arrears of 10 ms of time.
        for row in world.rows.iter().filter(|row| row.from.0 >= 5 * SECOND) {
            let allowed = if row.from.0 == 5 * SECOND { 11 * MS } else { 200 * US };
            assert!(row.missed <= allowed, "dial {dial}: {row:?}");
        }
    }
}
