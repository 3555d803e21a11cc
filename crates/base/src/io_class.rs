//! What reads and writes are for.

/// What a read or write is for, as far as its own tenant's order goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoClass {
    /// A short statement waits for it.
    #[default]
    Short,
    /// A scan, spill, backup: one of many.
    Bulk,
    /// What a server does for a tenant by itself: its checkpoint, the replay of its redo, giving back what was dropped. One of many, too, unless
    /// others wait for it.
    Upkeep,
}
