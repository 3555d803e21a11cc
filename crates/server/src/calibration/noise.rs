//! Numbers without a pattern: for offsets, and for bytes that no device can compress or find to be the same as others.

use std::cell::Cell;

use env::Env;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), begun at a place that [`env::Entropy`] gives.
pub(super) struct Noise(Cell<u64>);

impl Noise {
    pub(super) fn new(env: &Env) -> Noise {
        Noise(Cell::new(env.entropy.u64()))
    }

    pub(super) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the excess of small ones is below 2^-40 for what fits a disk.
    pub(super) fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(super) fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}
