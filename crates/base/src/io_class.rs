//! What reads and writes are for.

/// What a read or write is for, as far as its own tenant's order goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoClass {
    /// A short statement waits for it.
    #[default]
    Short,
    /// A scan, spill, checkpoint, backup: one of many.
    Bulk,
}
