//! Rows that a statement holds in memory at once, and how much that may be.

use std::cell::Cell;

use base::{ByteCount, SqlError, SqlResult, SqlState};

/// The memory of a statement's rows.
#[derive(Debug, Default)]
pub struct RowMemory {
    bytes: Cell<u64>,
    max: Option<ByteCount>,
}

impl RowMemory {
    /// None taken yet; `None` for no limit.
    pub fn new(max: Option<ByteCount>) -> RowMemory {
        RowMemory { bytes: Cell::new(0), max }
    }

    /// Takes so many bytes more.
    ///
    /// # Errors
    /// 53200 over the limit.
    pub fn take(&self, bytes: usize) -> SqlResult<()> {
        let bytes = self.bytes.get() + bytes as u64;
        self.bytes.set(bytes);
        match self.max {
            Some(max) if bytes > max.0 => Err(too_many(ByteCount(bytes), max)),
            _ => Ok(()),
        }
    }

    /// Gives back what was taken: those rows are gone.
    pub fn give_back(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() - bytes as u64);
    }
}

#[cold]
fn too_many(bytes: ByteCount, max: ByteCount) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for the rows of a statement")
        .with_detail(format!("They take {bytes}, of {max} that may be held at once."))
}
