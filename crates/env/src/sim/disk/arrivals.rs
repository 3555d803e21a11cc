//! Which of the writes to one file had arrived when the power went off, for `PowerCut::Writes`.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::StdRng;

use super::Sector;

/// What a sector held, and the number of the write that replaced it.
#[derive(Clone)]
pub(super) struct Replaced {
    pub(super) content: Option<Box<Sector>>,
    pub(super) by: u64,
}

/// Of so many writes one is torn.
const TORN_ONE_IN: u32 = 6;

#[derive(Clone, Copy)]
enum Arrival {
    Whole,
    /// Each of its sectors for itself.
    Torn,
    Lost,
}

/// Decided write by write, as they are asked for, with a chance that is the file's: nearly all have arrived, or hardly any.
#[derive(Default)]
pub(super) struct Arrivals {
    /// Of a write, not to be lost; drawn with the first.
    chance: Option<f64>,
    of: BTreeMap<u64, Arrival>,
}

impl Arrivals {
    /// Which of the contents that a sector has had since it was durable it is left with, by its place among them; the present one comes after all that were
    /// replaced.
    pub(super) fn kept(&mut self, replaced: &[Replaced], random: &mut StdRng) -> usize {
        for (before, Replaced { by, .. }) in replaced.iter().enumerate().rev() {
            let has_arrived = match self.arrival(*by, random) {
                Arrival::Whole => true,
                Arrival::Torn => random.random(),
                Arrival::Lost => false,
            };
            if has_arrived {
                return before + 1;
            }
        }
        0
    }

    fn arrival(&mut self, write: u64, random: &mut StdRng) -> Arrival {
        let chance = *self.chance.get_or_insert_with(|| random.random());
        *self.of.entry(write).or_insert_with(|| {
            if random.random_ratio(1, TORN_ONE_IN) {
                Arrival::Torn
            } else if random.random_bool(chance) {
                Arrival::Whole
            } else {
                Arrival::Lost
            }
        })
    }
}
