//! The substitution parameters of the queries (clause 2.4): those of the validation run, or drawn for each query.

use rand::rngs::SmallRng;

use super::scale::Scale;
use crate::random::Draw as _;

/// Where parameters come from.
pub(super) struct Parameters {
    pub(super) scale: Scale,
    /// `None` for the validation parameters.
    pub(super) rng: Option<SmallRng>,
}

impl Parameters {
    /// The validation's value, or a drawn one.
    pub(super) fn pick<T>(&mut self, validation: T, draw: impl FnOnce(&mut SmallRng) -> T) -> T {
        match &mut self.rng {
            Some(rng) => draw(rng),
            None => validation,
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(&mut self, validation: u32, least: u32, most: u32) -> u32 {
        self.pick(validation, |rng| rng.uniform(least, most))
    }

    /// One of some words.
    pub(super) fn word(&mut self, validation: &'static str, all: &[&'static str]) -> &'static str {
        self.pick(validation, |rng| rng.one_of(all))
    }

    /// The first day of a year from 1993 to 1997; the validation's is 1994.
    pub(super) fn year(&mut self) -> String {
        format!("{}-01-01", self.number(1994, 1993, 1997))
    }

    /// The first day of a month. Months are counted from January 1993 as 0.
    pub(super) fn month(&mut self, validation: u32, least: u32, most: u32) -> String {
        let month = self.number(validation, least, most);
        format!("{}-{:02}-01", 1993 + month / 12, month % 12 + 1)
    }

    /// A brand: the maker's digit and its own.
    pub(super) fn brand(&mut self, validation: u32) -> String {
        format!("Brand#{}", self.pick(validation, |rng| rng.uniform(1, 5) * 10 + rng.uniform(1, 5)))
    }

    /// Several different values.
    pub(super) fn different<const N: usize>(
        &mut self,
        validation: [u32; N],
        mut draw: impl FnMut(&mut SmallRng) -> u32,
    ) -> [u32; N] {
        self.pick(validation, |rng| {
            let mut drawn = [0; N];
            for at in 0..N {
                drawn[at] = loop {
                    let value = draw(rng);
                    if !drawn[..at].contains(&value) {
                        break value;
                    }
                };
            }
            drawn
        })
    }
}

/// Numbers with commas between them.
pub(super) fn listed(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
