//! TPC-C's random values (specification 5.11, clauses 2.1.6 and 4.3.2).

use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use crate::random::Draw;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The run-time constants of NURand (clause 2.1.6.1); the load's constant for C_LAST differs from the run's as demanded.
#[derive(Clone, Copy, Debug)]
pub(super) struct NuRand {
    c_last: u32,
    c_id: u32,
    ol_i_id: u32,
}

impl NuRand {
    /// The constants with which the population is loaded.
    pub(super) const LOAD: NuRand = NuRand { c_last: 157, c_id: 259, ol_i_id: 7911 };
    /// The constants of a run: |157 - 223| = 66 lies within 65..=119 and is neither 96 nor 112.
    pub(super) const RUN: NuRand = NuRand { c_last: 223, c_id: 259, ol_i_id: 7911 };
}

/// A source of TPC-C's random values.
#[derive(Clone, Debug)]
pub(super) struct TpccRandom {
    rng: SmallRng,
    constants: NuRand,
}

impl TpccRandom {
    pub(super) fn new(seed: u64, constants: NuRand) -> TpccRandom {
        TpccRandom { rng: SmallRng::seed_from_u64(seed), constants }
    }

    fn nurand(&mut self, a: u32, c: u32, least: u32, most: u32) -> u32 {
        let mixed = self.uniform(0, a) | self.uniform(least, most);
        ((mixed + c) % (most - least + 1)) + least
    }

    /// A customer number (NURand(1023)).
    pub(super) fn customer_id(&mut self, customers: u32) -> u32 {
        self.nurand(1023, self.constants.c_id, 1, customers)
    }

    /// An item number (NURand(8191)).
    pub(super) fn item_id(&mut self, items: u32) -> u32 {
        self.nurand(8191, self.constants.ol_i_id, 1, items)
    }

    /// A customer's last name as a transaction picks it (NURand(255)). Fewer than 1,000 customers have only the first names.
    pub(super) fn last_name(&mut self, customers: u32) -> String {
        let names = customers.min(1000);
        let number = self.nurand(255, self.constants.c_last, 0, 999) % names;
        last_name_of(number)
    }

    /// A ZIP code: four random digits and 11111 (clause 4.3.2.7).
    pub(super) fn zip(&mut self) -> String {
        format!("{}11111", self.digits(4))
    }

    /// Data of an item or stock: a tenth of them contain ORIGINAL (clause 4.3.3.1).
    pub(super) fn data(&mut self) -> String {
        let mut data = self.text(26, 50);
        if self.percent(10) {
            let at = self.uniform(0, u32::try_from(data.len()).expect("at most 50") - 8) as usize;
            data.replace_range(at..at + 8, "ORIGINAL");
        }
        data
    }
}

impl Draw for TpccRandom {
    fn rng(&mut self) -> &mut SmallRng {
        &mut self.rng
    }
}

/// The last name of a number from 0 to 999 (clause 4.3.2.3).
pub(super) fn last_name_of(number: u32) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_follow_the_specification() {
        assert_eq!(last_name_of(371), "PRICALLYOUGHT");
        assert_eq!(last_name_of(40), "BARPRESBAR");
    }

    #[test]
    fn the_runs_constant_keeps_its_distance_from_the_loads() {
        let distance = NuRand::RUN.c_last.abs_diff(NuRand::LOAD.c_last);
        assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
    }

    #[test]
    fn values_stay_within_their_ranges() {
        let mut random = TpccRandom::new(1, NuRand::RUN);
        for _ in 0..10_000 {
            assert!((1..=3000).contains(&random.customer_id(3000)));
            assert!((1..=100_000).contains(&random.item_id(100_000)));
            assert!((1..=30).contains(&random.customer_id(30)));
        }
    }
}
