//! Pages are metered and chosen without allocating.

mod counting;

use std::sync::Arc;

use base::{ByteCount, PageNo};
use governor::{
    EvictionTime, MemoryMeter, MemoryPrice, OwnAges, PageUse, UseTimes, VictimChoice, WriteCause,
};

use counting::allocations;

#[test]
fn nothing_is_allocated_when_pages_are_used_changed_and_chosen() {
    let promised = ByteCount::from_mib(16);
    let mut meter = MemoryMeter::new(promised, Arc::default()).expect("enough is promised");
    let (mut choice, own) = (VictimChoice::default(), OwnAges::default());
    let sampled: Vec<PageNo> = (1..100_000).map(PageNo).filter(|no| meter.sample().has(*no)).collect();
    let before = allocations();
    let mut victims = 0;
    for round in 0..200_000_usize {
        let no = sampled[round.wrapping_mul(2_654_435_761) % sampled.len()];
        let how = [PageUse::Found, PageUse::Read, PageUse::ReadOnce, PageUse::Made][round % 4];
        meter.used(no, how, |_| {});
        if round % 5 == 0 {
            meter.changed(no);
        }
        if round % 1000 == 0 {
            meter.checkpointed(WriteCause::Log);
            meter.released(no, false);
        }
        let now = EvictionTime(round as u32);
        let price = if round % 2 == 0 { MemoryPrice::LEAST } else { MemoryPrice::MOST };
        victims += u32::from(choice.is_victim_of(&own, price, UseTimes::read_at(now), now));
        choice.note_used(price, UseTimes::read_at(now), now);
    }
    assert!(victims > 1000);
    assert_eq!(allocations(), before);
}
