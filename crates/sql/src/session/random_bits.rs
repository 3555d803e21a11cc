//! Random bits for a query that runs away from the server's source of them: `random()`, `gen_random_uuid()` and their kin on an analytical thread.

use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest::{Context, SHA256};

/// The SHA-256 of a key and a count: as hard to foretell as the key, whatever was seen of them.
#[derive(Debug)]
pub struct RandomBits {
    key: [u8; 32],
    drawn: AtomicU64,
}

impl RandomBits {
    /// `key`: from the server's source of random bits.
    pub fn new(key: [u8; 32]) -> RandomBits {
        RandomBits { key, drawn: AtomicU64::new(0) }
    }

    /// 64 bits, others each time. From any thread.
    pub fn draw(&self) -> u64 {
        // Relaxed: only that no number comes twice matters.
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut of = Context::new(&SHA256);
        of.update(&self.key);
        of.update(&number.to_le_bytes());
        let digest = of.finish();
        u64::from_le_bytes(digest.as_ref()[..8].try_into().expect("SHA-256 has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_key_has_bits_of_its_own_and_none_twice() {
        let drawn = |key: u8| -> Vec<u64> {
            let bits = RandomBits::new([key; 32]);
            (0..1000).map(|_| bits.draw()).collect()
        };
        let all: BTreeSet<u64> = (0..4).flat_map(drawn).collect();
        assert_eq!(all.len(), 4000);
        assert_eq!(drawn(0), drawn(0));
        let ones: u32 = all.iter().map(|bits| bits.count_ones()).sum();
        assert!((126_000..130_000).contains(&ones), "{ones} of 256,000 bits");
    }
}
