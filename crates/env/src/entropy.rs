//! Randomness: the kernel's on the real machine, seeded in a simulation.

/// Source of random bytes, fit for keys and salts on the real machine.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`. Never blocks after early boot.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Entropy {
    /// A uniformly random word.
    pub fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}
