//! Random values as the specifications of workloads ask for them.

use rand::Rng as _;
use rand::distr::uniform::SampleUniform;
use rand::rngs::SmallRng;

const ALPHANUMERIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Draws values from a generator.
pub(crate) trait Draw {
    fn rng(&mut self) -> &mut SmallRng;

    /// Uniform over `[least, most]`.
    fn uniform<T: SampleUniform + PartialOrd>(&mut self, least: T, most: T) -> T {
        self.rng().random_range(least..=most)
    }

    /// True `percent` times in a hundred.
    fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// One of several, each as likely as the others.
    ///
    /// # Panics
    /// When there is none.
    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.uniform(0, all.len() - 1)]
    }

    /// Letters and digits, from `least` to `most` of them.
    fn text(&mut self, least: u32, most: u32) -> String {
        let length = self.uniform(least, most);
        (0..length).map(|_| char::from(ALPHANUMERIC[self.uniform(0, ALPHANUMERIC.len() - 1)])).collect()
    }

    /// Capital letters, exactly `length` of them.
    fn capitals(&mut self, length: u32) -> String {
        (0..length).map(|_| char::from(self.uniform(b'A', b'Z'))).collect()
    }

    /// Digits, exactly `length` of them.
    fn digits(&mut self, length: u32) -> String {
        (0..length).map(|_| char::from(self.uniform(b'0', b'9'))).collect()
    }

    /// The numbers from 1 to `count` in random order.
    fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=count).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.uniform(0, at));
        }
        numbers
    }
}

impl Draw for SmallRng {
    fn rng(&mut self) -> &mut SmallRng {
        self
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut permutation = SmallRng::seed_from_u64(1).permutation(3000);
        assert_ne!(permutation, (1..=3000).collect::<Vec<_>>());
        permutation.sort_unstable();
        assert_eq!(permutation, (1..=3000).collect::<Vec<_>>());
    }

    #[test]
    fn both_ends_of_a_range_are_drawn() {
        let mut rng = SmallRng::seed_from_u64(1);
        let drawn: std::collections::BTreeSet<i32> = (0..1000).map(|_| rng.uniform(-3, 3)).collect();
        assert_eq!(drawn, (-3..=3).collect());
        assert!((0..1000).all(|_| (2..=4).contains(&rng.text(2, 4).len())));
    }
}
