//! What an operator would have spilled with its tenant's `work_memory` to itself.

use base::ByteCount;

/// An operator that gets the same data as the real one, holds it in memory of its own, and spills all it holds with the next piece when that finds no room. One that spilled anything spills
/// the rest too, at its end, and merges: so do sorts and aggregates. So what it spills is everything or nothing, and a real one that always had as much memory never
/// spills more.
#[derive(Debug)]
pub(super) struct Ghost {
    memory: u64,
    held: u64,
    spilled: u64,
    /// The real one was refused, and has got nothing since.
    is_refused: bool,
    /// What the real one would hold by now, had it not spilled; and the most of it.
    wanted: u64,
    wanted_max: u64,
}

impl Ghost {
    pub(super) fn new(memory: ByteCount) -> Ghost {
        Ghost { memory: memory.0, held: 0, spilled: 0, is_refused: false, wanted: 0, wanted_max: 0 }
    }

    pub(super) fn grew(&mut self, bytes: u64) {
        self.is_refused = false;
        self.wanted += bytes;
        self.wanted_max = self.wanted_max.max(self.wanted);
        self.held += bytes;
        if self.held > self.memory {
            self.spilled += std::mem::take(&mut self.held);
        }
    }

    pub(super) fn refused(&mut self) {
        self.is_refused = true;
    }

    /// What the real one gave back without being refused before was done with, not spilled.
    pub(super) fn shrank(&mut self, bytes: u64) {
        if !self.is_refused {
            self.held = self.held.saturating_sub(bytes);
            self.wanted = self.wanted.saturating_sub(bytes);
        }
    }

    pub(super) fn spilled_in_all(&self) -> u64 {
        if self.spilled > 0 { self.spilled + self.held } else { 0 }
    }

    /// The bytes that it would have held to spill nothing.
    pub(super) fn need(&self) -> u64 {
        self.wanted_max
    }
}
