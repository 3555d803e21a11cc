//! How large a TPC-H database is.

use std::fmt;

/// The scale factor and what follows from it (clause 4.2.5). The specification has whole sizes only; others are for tests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    factor: f64,
}

impl Scale {
    /// # Errors
    /// When the factor is not from 0.001 to 100,000.
    pub fn new(factor: f64) -> Result<Scale, String> {
        if !(0.001..=100_000.0).contains(&factor) {
            return Err(format!("the scale factor {factor} is not from 0.001 to 100000"));
        }
        Ok(Scale { factor })
    }

    fn times(self, rows: u32) -> u64 {
        (self.factor * f64::from(rows)).round() as u64
    }

    pub fn suppliers(self) -> u64 {
        self.times(10_000)
    }

    pub fn parts(self) -> u64 {
        self.times(200_000)
    }

    pub fn customers(self) -> u64 {
        self.times(150_000)
    }

    pub fn orders(self) -> u64 {
        self.times(1_500_000)
    }

    /// Clerks that orders name.
    pub(super) fn clerks(self) -> u64 {
        self.times(1_000)
    }

    /// The key of an order by its number from 1 on: of 32 keys in a row the first 8 are used.
    pub(super) fn order_key(number: u64) -> u64 {
        let below = number - 1;
        below / 8 * 32 + below % 8 + 1
    }

    /// The supplier of a part by its number from 0 to 3: each part has four different ones. They are a step of a quarter to
    /// less than a third of the suppliers apart; below 240 suppliers the specification's step would pass that and meet
    /// itself, so it is cut there.
    pub(super) fn supplier_of(self, part: u64, number: u64) -> u64 {
        let suppliers = self.suppliers();
        let round = (part - 1) / suppliers % (suppliers / 12).max(1);
        (part + number * (suppliers / 4 + round)) % suppliers + 1
    }

    /// The part of the stock's value above which query 11 reports.
    pub(super) fn fraction(self) -> f64 {
        0.000_1 / self.factor
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scale factor {}", self.factor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cardinalities_are_the_specifications() {
        let one = Scale::new(1.0).expect("in range");
        assert_eq!(
            (one.suppliers(), one.parts(), one.customers(), one.orders()),
            (10_000, 200_000, 150_000, 1_500_000)
        );
        let small = Scale::new(0.01).expect("in range");
        assert_eq!(
            (small.suppliers(), small.parts(), small.customers(), small.orders()),
            (100, 2_000, 1_500, 15_000)
        );
        assert!(Scale::new(0.0).is_err() && Scale::new(f64::NAN).is_err());
    }

    #[test]
    fn a_part_has_four_suppliers() {
        for factor in [0.001, 0.01, 1.0] {
            let scale = Scale::new(factor).expect("in range");
            for part in 1..=scale.parts() {
                let all: BTreeSet<u64> = (0..4).map(|number| scale.supplier_of(part, number)).collect();
                assert_eq!(all.len(), 4, "part {part} at {factor}");
                assert!(all.iter().all(|supplier| (1..=scale.suppliers()).contains(supplier)));
            }
        }
    }

    #[test]
    fn a_quarter_of_the_keys_of_orders_is_used() {
        let keys: Vec<u64> = (1..=17).map(Scale::order_key).collect();
        assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 8, 33, 34, 35, 36, 37, 38, 39, 40, 65]);
    }
}
