//! What a seed stands for: its scenario and its campaign.

use base::ByteCount;

use crate::exchange::Exchange;
use crate::histories::{Histories, Lists, Registers};
use crate::isolation::Level;
use crate::tpcc::Tpcc;
use crate::{Acknowledge, Campaign, Failure, Tally};

/// Lives of a seed unless said otherwise: short campaigns reach more than few long ones, since damage is checked for
/// after each life.
pub const LIVES: u64 = 3;

/// What the sessions of a seed do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Exchange,
    Tpcc,
    Lists(Level),
    Registers(Level),
}

/// A seed's work: two in eight the exchange, two TPC-C, four histories of either kind at each level in turn.
pub fn work(seed: u64) -> Work {
    let level = [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable][(seed / 8 % 3) as usize];
    match seed % 8 {
        0 | 4 => Work::Exchange,
        1 | 5 => Work::Tpcc,
        2 | 6 => Work::Lists(level),
        _ => Work::Registers(level),
    }
}

/// The campaign of a seed.
pub fn campaign(seed: u64) -> Campaign {
    let tenants = 1 + seed / 2 % 3;
    Campaign {
        seed,
        lives: LIVES,
        tenants,
        acknowledge: Acknowledge::WhenDurable,
        memory: MEMORY[(seed / 3 % MEMORY.len() as u64) as usize],
        chilled: seed / 5 % 3 == 0,
        drops_unwritten: false,
        traced: false,
    }
}

/// Budgets for pages, in turn.
const MEMORY: [Option<ByteCount>; 4] =
    [None, Some(ByteCount::from_kib(256)), Some(ByteCount::from_kib(512)), Some(ByteCount::from_mib(1))];

/// Runs a campaign with its seed's work.
///
/// # Errors
/// The first violation.
pub fn run(campaign: Campaign) -> Result<Tally, Failure> {
    match work(campaign.seed) {
        Work::Exchange => campaign.run(Exchange::default()),
        Work::Tpcc => campaign.run(Tpcc::default()),
        Work::Lists(level) => campaign.run(Histories::<Lists>::at(level)),
        Work::Registers(level) => campaign.run(Histories::<Registers>::at(level)),
    }
}
