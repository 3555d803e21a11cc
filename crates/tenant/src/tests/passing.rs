//! Checks of tenants that are larger than what they may keep in memory.

use super::*;

#[test]
fn a_check_keeps_few_of_the_pages_it_looks_at() {
    let mut fixture = Fixture::on_disk(91);
    let table = fixture.create("t", &[("id", PgType::Int4), ("v", PgType::Text)], 1);
    for id in 0..300 {
        let len = if id % 50 == 0 { 100_000 } else { 4000 + id as usize };
        fixture.insert(table, vec![int(id), text(&"v".repeat(len))]).unwrap();
    }
    let env = fixture.world.as_ref().unwrap().env();
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    let all = fixture.tenant.page_tally().write_backs * base::limits::PAGE_SIZE as u64;
    fixture.tenant.evict_all();
    let before = fixture.tenant.memory().pages;
    let report = fixture.tenant.check();
    assert_eq!((report.defects, report.rows), (Vec::new(), 300));
    let kept = fixture.tenant.memory().pages.0 - before.0;
    assert!(all > 2 << 20 && kept <= 1 << 20, "{kept} bytes of {all}");
    assert!(fixture.tenant.page_tally().evictions > 0);
}
