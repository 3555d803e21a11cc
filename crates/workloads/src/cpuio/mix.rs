//! How often each kind of query runs.

use std::fmt;
use std::str::FromStr;

use rand::rngs::SmallRng;

use crate::random::Draw as _;

/// Names of the kinds, as `--mix` and reports have them.
pub(super) const KINDS: [&str; 3] = ["cpu", "scan", "lookup"];

/// A weight for each kind; one that is 0 never runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    weights: [u32; 3],
}

impl Default for Mix {
    /// All as often.
    fn default() -> Mix {
        Mix { weights: [1; 3] }
    }
}

impl Mix {
    /// A kind, drawn by weight.
    pub(super) fn draw(&self, rng: &mut SmallRng) -> usize {
        let mut left = rng.uniform(1, self.weights.iter().sum());
        self.weights
            .iter()
            .position(|weight| {
                let is_it = left <= *weight;
                left = left.saturating_sub(*weight);
                is_it
            })
            .expect("what was drawn is at most the sum of the weights")
    }
}

impl FromStr for Mix {
    type Err = String;

    /// `cpu=1,scan=2,lookup=7`: whole weights up to 1,000,000; a kind that is not named has none, and one has to have one.
    fn from_str(text: &str) -> Result<Mix, String> {
        let mut weights = [None; 3];
        for part in text.split(',') {
            let (name, weight) =
                part.split_once('=').ok_or_else(|| format!("\"{part}\" is no KIND=WEIGHT"))?;
            let kind = KINDS.iter().position(|kind| *kind == name.trim());
            let kind =
                kind.ok_or_else(|| format!("there is no kind \"{name}\"; there are cpu, scan and lookup"))?;
            let weight = weight.trim().parse().ok().filter(|weight| *weight <= 1_000_000);
            let weight: u32 = weight.ok_or("a weight is a whole number from 0 to 1000000")?;
            if weights[kind].replace(weight).is_some() {
                return Err(format!("\"{name}\" is there twice"));
            }
        }
        let weights = weights.map(Option::unwrap_or_default);
        if weights == [0; 3] { Err("no kind has a weight".into()) } else { Ok(Mix { weights }) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cpu, scan, lookup] = self.weights;
        write!(f, "cpu={cpu},scan={scan},lookup={lookup}")
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_mix_is_read_as_it_is_printed() {
        let mix: Mix = "scan=2, lookup=7".parse().expect("a mix");
        assert_eq!(mix.to_string(), "cpu=0,scan=2,lookup=7");
        assert_eq!(mix.to_string().parse(), Ok(mix));
        for wrong in ["", "cpu", "cpu=x", "cpu=-1", "cpu=1,cpu=1", "disk=1", "cpu=0,scan=0", "cpu=1000001"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_drawn_by_their_weights() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mix: Mix = "cpu=1,lookup=3".parse().expect("a mix");
        let mut drawn = [0u32; 3];
        (0..40_000).for_each(|_| drawn[mix.draw(&mut rng)] += 1);
        assert_eq!(drawn[1], 0, "a kind without weight never runs");
        assert!((9_500..10_500).contains(&drawn[0]), "{drawn:?}");
    }
}
