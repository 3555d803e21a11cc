//! What is wrong with the scheduler shows in the ledger.

use governor::{Cause, LedgerRow};

use super::world::*;

fn missed_with(fault: Option<Fault>) -> u64 {
    let mut tenants = vec![
        Tenant::new(
            300,
            0,
            Load::Bursts { work: (2 * MS, 5 * MS), sleep: (MS, 2 * MS) },
            (50 * US, 100 * US),
        )
        .priced(2_000_000),
    ];
    tenants.push(Tenant::busy(500));
    tenants.extend((0..3).map(|_| Tenant::busy(0)));
    let mut world = World::new(1, tenants, 1);
    if let Some(fault) = fault {
        world = world.with_fault(fault);
    }
    world.run_until(3 * SECOND);
    let rows: Vec<&LedgerRow> = world.rows.iter().filter(|row| row.tenant == id(0)).collect();
    assert_eq!(rows.len(), 3, "a tenant that wants something has its rows");
    for row in &rows {
        assert_eq!(row.cause.is_some(), row.missed > 0);
        assert!(row.missed < MS || row.cause == Some(Cause::Neighbour));
        assert_eq!(row.owed_micros, row.missed * 2_000_000 / SECOND);
    }
    rows.iter().map(|row| row.missed).sum()
}

#[test]
fn faults_of_the_scheduler_are_in_the_ledger() {
    let sound = missed_with(None);
    assert!(sound <= MS, "{sound}");
    let ignored = missed_with(Some(Fault::Ignored(0)));
    assert_eq!(ignored, 900 * MS, "three seconds at 0.3, and nothing given");
    let delayed = missed_with(Some(Fault::Delayed(0, 20 * MS)));
    assert!(delayed > 100 * MS, "{delayed}");
    let charged_twice = missed_with(Some(Fault::ChargedTwice(0)));
    assert!(charged_twice > 100 * MS, "{charged_twice}");
}

#[test]
fn fault_in_favour_of_a_tenant_shows_with_its_victims() {
    let tenants = vec![Tenant::busy(500), Tenant::busy(500)];
    let mut world = World::new(1, tenants, 1).with_fault(Fault::ChargedTwice(0));
    world.run_until(2 * SECOND);
    let missed =
        |tenant| world.rows.iter().filter(|row| row.tenant == id(tenant)).map(|row| row.missed).sum::<u64>();
    assert!(missed(0) > 200 * MS && missed(1) <= MS, "{} {}", missed(0), missed(1));
}
