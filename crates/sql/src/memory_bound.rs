//! What a statement holds in memory beyond the pages of its tenant, and how much that may be: its rows, and the values that an expression is worked out
//! from.
//!
//! A query may want far more than it is given: rows to sort or to group, a text made a million times as long (`repeat`, `replace`, `format`) while the
//! call around it holds others. Memory that cannot be had ends the process, with all tenants in it; so it is counted before it is taken, by estimate.

use std::sync::atomic::{AtomicU64, Ordering};

use base::limits::ROW_LEN_MAX;
use base::{ByteCount, SqlError, SqlResult, SqlState};
use types::Datum;

/// Arguments that take less are not counted: the text of the statement bounds how many there are.
const ARGUMENT_COUNTED_MIN: usize = 1024;

/// What a value takes that stands in a list.
pub(crate) fn value_memory(value: &Datum) -> usize {
    size_of::<Datum>() + value.heap_bytes()
}

/// # Errors
/// 54000 for the row of a result that is longer than a table's may be.
#[inline]
pub fn require_row_len(bytes: usize) -> SqlResult<()> {
    if bytes as u64 <= ROW_LEN_MAX.0 { Ok(()) } else { Err(too_long()) }
}

#[cold]
fn too_long() -> SqlError {
    let message = format!("a row of the result is longer than {ROW_LEN_MAX}");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// A bound of memory. One thread at a time takes from it, which may be another one later.
#[derive(Debug)]
pub struct MemoryBound {
    of: &'static str,
    held: AtomicU64,
    /// Bytes of copies of what the row, the statement or the plan holds too: as much as a row at most, by themselves.
    copied: AtomicU64,
    max: Option<ByteCount>,
}

impl MemoryBound {
    /// Of a statement's rows; `None` for no limit.
    pub fn of_rows(max: Option<ByteCount>) -> MemoryBound {
        MemoryBound { of: "the rows of a statement", held: AtomicU64::new(0), copied: AtomicU64::new(0), max }
    }

    /// Of the values that an expression holds while it is evaluated, arguments of calls under way and what they are about to build: as much as a
    /// row at most. What becomes of its value is its owner's to count.
    pub fn of_values(max: ByteCount) -> MemoryBound {
        MemoryBound {
            of: "the values of an expression",
            held: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            max: Some(max.min(ROW_LEN_MAX)),
        }
    }

    /// Looks whether so many bytes more may be taken now.
    ///
    /// # Errors
    /// 53200 if not.
    pub(crate) fn room(&self, bytes: usize) -> SqlResult<()> {
        let wanted = self.held.load(Ordering::Relaxed).saturating_add(bytes as u64);
        match self.max {
            Some(max) if wanted > max.0 => Err(self.too_much(ByteCount(wanted), max)),
            _ => Ok(()),
        }
    }

    /// Takes so many bytes, for as long as the statement lasts.
    ///
    /// # Errors
    /// As [`MemoryBound::room`]; nothing is taken then.
    pub(crate) fn take(&self, bytes: usize) -> SqlResult<()> {
        self.room(bytes)?;
        // There is one writer, so that no sum is lost.
        self.held.store(self.held.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// What somebody takes and gives back: nothing yet.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held { bound: self, bytes: 0, copied: 0 }
    }

    #[cold]
    fn too_much(&self, wanted: ByteCount, max: ByteCount) -> SqlError {
        SqlError::new(SqlState::OUT_OF_MEMORY, format!("out of memory for {}", self.of))
            .with_detail(format!("They would take {wanted}, of {max} that may be held at once."))
    }
}

/// Memory that is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    bound: &'a MemoryBound,
    bytes: u64,
    copied: u64,
}

impl Held<'_> {
    /// Holds so many bytes more.
    ///
    /// # Errors
    /// As [`MemoryBound::take`].
    pub(crate) fn take(&mut self, bytes: usize) -> SqlResult<()> {
        self.bound.take(bytes)?;
        self.bytes += bytes as u64;
        Ok(())
    }

    /// Holds the argument of a call.
    ///
    /// # Errors
    /// As [`MemoryBound::take`].
    #[inline]
    pub(crate) fn argument(&mut self, value: &Datum) -> SqlResult<()> {
        match value.heap_bytes() {
            bytes if bytes < ARGUMENT_COUNTED_MIN => Ok(()),
            bytes => self.take(bytes),
        }
    }

    /// Holds a copy of a value that somebody else holds, too.
    ///
    /// # Errors
    /// 53200 where the copies take more than a row may.
    #[inline]
    pub(crate) fn copy(&mut self, value: &Datum) -> SqlResult<()> {
        match value.heap_bytes() as u64 {
            bytes if bytes < ARGUMENT_COUNTED_MIN as u64 => Ok(()),
            bytes => {
                let wanted = self.bound.copied.load(Ordering::Relaxed) + bytes;
                if wanted > ROW_LEN_MAX.0 {
                    return Err(self.bound.too_much(ByteCount(wanted), ROW_LEN_MAX));
                }
                self.bound.copied.store(wanted, Ordering::Relaxed);
                self.copied += bytes;
                Ok(())
            }
        }
    }

    /// Holds an item of an array that is being built.
    ///
    /// # Errors
    /// As [`MemoryBound::take`].
    pub(crate) fn item(&mut self, value: &Datum) -> SqlResult<()> {
        self.take(value_memory(value))
    }

    /// Keeps what is held for as long as the statement lasts.
    pub(crate) fn keep(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.copied > 0 {
            let copied = self.bound.copied.load(Ordering::Relaxed);
            self.bound.copied.store(copied - self.copied, Ordering::Relaxed);
        }
        if self.bytes > 0 {
            let held = self.bound.held.load(Ordering::Relaxed);
            let left = held.checked_sub(self.bytes).expect("no more is given back than was taken");
            self.bound.held.store(left, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_is_dropped() {
        let bound = MemoryBound::of_values(ROW_LEN_MAX);
        let half = ROW_LEN_MAX.0 as usize / 2;
        let refused =
            |result: SqlResult<()>| assert_eq!(result.unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        let mut held = bound.hold();
        held.argument(&Datum::text("x".repeat(ARGUMENT_COUNTED_MIN / 2))).unwrap();
        assert_eq!(held.bytes, 0, "small ones are not looked at");
        held.take(half).unwrap();
        {
            let mut inner = bound.hold();
            inner.item(&Datum::Null).unwrap();
            assert_eq!(inner.bytes, 24);
            refused(inner.take(half));
            refused(bound.room(half));
            refused(bound.room(usize::MAX));
        }
        bound.take(half).unwrap();
        refused(bound.room(1));
        drop(held);
        bound.room(half).unwrap();
        let long = Datum::text("x".repeat(half));
        let (mut one, mut other) = (bound.hold(), bound.hold());
        one.copy(&long).unwrap();
        other.copy(&long).unwrap();
        refused(one.copy(&long));
        drop(other);
        one.copy(&long).unwrap();
    }

    #[test]
    fn without_a_limit_everything_fits() {
        let bound = MemoryBound::of_rows(None);
        bound.take(1 << 50).unwrap();
        bound.hold().take(1 << 50).unwrap();
    }
}
