//! A statement is judged without allocating, until a rule acts on it.

mod counting;

use base::{Nanos, TenantId};
use governor::{Runaway, RunawayRules, RunawayScope, RunawayTerms, StatementUsage};

use counting::allocations;

#[test]
fn a_statement_is_judged_without_allocating() {
    let (rules, tenant) = (RunawayRules::default(), TenantId(20));
    for n in 0..RunawayRules::RULES_MAX as u64 {
        let terms = RunawayTerms {
            elapsed: Some(Nanos(1_000_000 + n)),
            rows: Some(1_000_000 - n),
            ..RunawayTerms::default()
        };
        rules.set(&n.to_string(), RunawayScope::All, terms).expect("as many as there can be");
    }
    let of_tenant = rules.of_tenant(tenant);
    let before = allocations();
    for _ in 0..100 {
        let mut runaway = Runaway::new(of_tenant.clone());
        for step in 0..1000 {
            let used = Nanos(step * 1000);
            let usage = StatementUsage { elapsed: used, cpu: used, rows: step * 900, io: step };
            assert!(runaway.judge(&usage).is_none() && runaway.nearest().is_some());
        }
        runaway.renew(of_tenant.clone());
        assert!(Runaway::new(None).nearest().is_none());
    }
    assert_eq!(allocations(), before);
    let usage = StatementUsage { rows: 1_000_000, ..StatementUsage::default() };
    assert!(Runaway::new(of_tenant).judge(&usage).is_some(), "the last rule acts");
}
