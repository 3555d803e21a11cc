//! Faults put into the choice of victims are on the ledger.

use crate::world::{Fault, Habit, Plan, World};

fn missed(fault: Fault) -> (u64, u64) {
    let plans = [
        Plan::of(1024, Habit::Skewed { pages: 1000, skew: 0.5 }, 20, 1),
        Plan::of(0, Habit::Scan { pages: 1900 }, 40, 2),
    ];
    let mut world = World::new(2560, &plans);
    world.fault = fault;
    world.run(30);
    let missed = world.rows.iter().map(|row| row.ledger.missed).sum();
    (missed, world.tenants[0].reads)
}

#[test]
fn a_choice_that_ignores_or_wrongs_a_tenant_is_found_out() {
    let (kept, few) = missed(Fault::None);
    assert_eq!(kept, 0);
    for fault in [Fault::NoPrice, Fault::Always] {
        let (missed, reads) = missed(fault);
        let excess = reads - few;
        assert!(excess > 2000, "{fault:?} costs {excess} reads");
        // The sample's word, and what the last row has not seen yet.
        assert!(missed * 10 > excess * 7 && missed * 10 < excess * 12, "{fault:?}: {missed} of {excess}");
    }
}
