//! Which rows share a value of the second index: rows far from each other, equally many a value.

/// The rows of a table, taken in steps of nearly the golden section of their number: a step that never comes near a row
/// that was taken shortly before, and that comes to every row once, as it has no divisor in common with the number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    rows: u64,
    step_inverse: u64,
}

impl Spread {
    /// # Panics
    /// When there are no rows.
    pub(super) fn new(rows: u64) -> Spread {
        assert!(rows > 0, "a table has rows");
        let golden = ((rows as f64) * 0.618_033_988_749_895) as u64;
        let step = (golden.max(1)..).find(|step| divisor(*step, rows) == 1).expect("rows + 1 is such a step");
        Spread { rows, step_inverse: inverse(step % rows.max(2), rows) }
    }

    /// The place of a row, from 1 on, in the order of the steps, from 0 on.
    pub(super) fn place(&self, row: u64) -> u64 {
        debug_assert!((1..=self.rows).contains(&row));
        let place = u128::from(row - 1) * u128::from(self.step_inverse) % u128::from(self.rows);
        u64::try_from(place).expect("less than the rows")
    }
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The number that times `step` leaves 1 of `rows`, by Euclid's extended algorithm.
fn inverse(step: u64, rows: u64) -> u64 {
    let (mut remainders, mut factors) = ((i128::from(rows), i128::from(step)), (0i128, 1i128));
    while remainders.1 > 1 {
        let times = remainders.0 / remainders.1;
        remainders = (remainders.1, remainders.0 - times * remainders.1);
        factors = (factors.1, factors.0 - times * factors.1);
    }
    u64::try_from(factors.1.rem_euclid(i128::from(rows))).expect("less than the rows")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_place_is_some_rows(rows in 1u64..3000) {
            let spread = Spread::new(rows);
            let mut places: Vec<u64> = (1..=rows).map(|row| spread.place(row)).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..rows).collect::<Vec<_>>());
        }

        #[test]
        fn neighbours_in_place_are_far_from_each_other(rows in 2_000u64..20_000) {
            let spread = Spread::new(rows);
            let mut row_of = vec![0u64; usize::try_from(rows).expect("few")];
            (1..=rows).for_each(|row| row_of[usize::try_from(spread.place(row)).expect("few")] = row);
            // Ten rows of one value: none within a fiftieth of the table of another one.
            for group in row_of.chunks(10) {
                let mut group = group.to_vec();
                group.sort_unstable();
                for pair in group.windows(2) {
                    prop_assert!(pair[1] - pair[0] > rows / 50, "{:?} of {}", group, rows);
                }
            }
        }
    }
}
