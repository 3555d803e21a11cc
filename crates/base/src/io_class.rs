//! What reads and writes are for.

/// What a read or write is for, as far as its own tenant's order goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoClass {
    /// A short statement waits for it.
    #[default]
    Short,
    /// A scan, spill, backup: one of many.
    Bulk,
    /// One of many, too, unless room in memory waits for it.
    Checkpoint,
}
