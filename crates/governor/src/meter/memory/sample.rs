//! Which pages are looked at.

use base::PageNo;

/// Sampled pages that a ghost of the promised size holds at most.
const HELD_MAX: u64 = 512;
/// Of small caches one page in so many is looked at, as long as so many are held.
const SHIFT_SMALL: u32 = 3;
const HELD_SMALL: u64 = 64;

/// One page number of each 2^s in a row, whose hash says which: exactly its part of any stretch of them, so that the
/// error of a sample's size, a few percent with hashes alone, is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSample {
    shift: u32,
}

/// The finalizer of MurmurHash3 (Appleby): every bit of the number moves every bit of the result.
pub(super) fn hash_of(no: PageNo) -> u32 {
    let mut hash = no.0;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

impl PageSample {
    /// For a cache of so many pages, 2^32 at most: 64 to 512 of them are of the sample, all if they are fewer.
    pub(super) fn for_cache(pages: u64) -> PageSample {
        let needed = pages.div_ceil(HELD_MAX).next_power_of_two().ilog2();
        let small = (pages / HELD_SMALL).max(1).ilog2().min(SHIFT_SMALL);
        let shift = needed.max(small);
        assert!(shift < u32::BITS, "{pages} pages");
        PageSample { shift }
    }

    /// Whether page `no` is one of them.
    #[inline]
    pub fn has(self, no: PageNo) -> bool {
        let mask = (1 << self.shift) - 1;
        no.0 & mask == hash_of(PageNo(no.0 >> self.shift)) & mask
    }

    /// Those below `limit`, in ascending order.
    pub fn pages_below(self, limit: u32) -> impl Iterator<Item = PageNo> {
        let page = move |group: u32| {
            let at = hash_of(PageNo(group)) & ((1 << self.shift) - 1);
            PageNo(group << self.shift | at)
        };
        (0..limit.div_ceil(1 << self.shift)).map(page).filter(move |no| no.0 < limit)
    }

    /// As one byte, never 0.
    pub fn to_bits(self) -> u8 {
        self.shift as u8 + 1
    }

    /// Of what [`PageSample::to_bits`] gave; `None` for 0.
    pub fn from_bits(bits: u8) -> Option<PageSample> {
        Some(PageSample { shift: u32::from(bits.checked_sub(1)?) })
    }

    /// Pages for which each stands.
    pub(super) fn unit(self) -> u64 {
        1 << self.shift
    }

    /// Of so many pages, how many are in the sample, on average.
    pub(super) fn part_of(self, pages: u64) -> usize {
        usize::try_from(pages >> self.shift).expect("a few thousand")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_of_their_size() {
        for (pages, held) in
            [(8, 8), (64, 64), (128, 64), (600, 75), (4096, 512), (131_072, 512), (1 << 30, 512)]
        {
            assert_eq!(PageSample::for_cache(pages).part_of(pages), held, "{pages}");
        }
        for pages in (8..100_000).step_by(37) {
            let sample = PageSample::for_cache(pages);
            let held = sample.part_of(pages);
            assert!(held <= 512 && (held >= 64 || held as u64 == pages), "{pages}: {held}");
        }
        let sample = PageSample::for_cache(1 << 16);
        let found: Vec<u32> = (0..1 << 16).filter(|no| sample.has(PageNo(*no))).collect();
        assert_eq!(found.len(), 512);
        let below = sample.pages_below(1 << 16).map(|no| no.0);
        assert!(below.eq(found.iter().copied()));
        assert!(found.iter().zip(0..).all(|(no, group)| no / 128 == group));
        let odd = found.iter().filter(|no| *no % 2 == 1).count();
        assert!((200..312).contains(&odd), "{odd}");
        assert_eq!(PageSample::from_bits(sample.to_bits()), Some(sample));
        assert_eq!(PageSample::from_bits(0), None);
    }
}
