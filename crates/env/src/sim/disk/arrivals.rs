//! Which of the writes to one file had arrived when the power went off, for `PowerCut::Writes`.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::StdRng;

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
    /// How many of the contents that a sector has had since it was durable, each made by one of these writes in turn, up to the one it is left with.
    pub(super) fn kept(
        &mut self,
        writes: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
        random: &mut StdRng,
    ) -> usize {
        let newest_first = writes.enumerate().rev();
        for (before, write) in newest_first {
            let has_arrived = match self.arrival(write, random) {
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
