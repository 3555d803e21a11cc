//! What functions of a query have built and somebody still holds.
//!
//! DataFusion's operators account for the batches they keep, not for those under way, and a function may make each row as long as it likes: 8,192 of
//! them are a batch. So arrays are counted against the query's working memory from when they are built until the last batch with them is dropped. A query
//! that wants more is tried again with batches of fewer rows, as one whose operators do.

use std::sync::{Mutex, PoisonError, Weak};

use base::{ByteCount, SqlError, SqlResult, SqlState};
use datafusion::arrow::array::{Array, ArrayRef};

/// Smaller arrays are not counted: batches have a few hundred columns at most.
const COUNTED_MIN: u64 = 64 << 10;

/// Whatever working memory there is: offsets of Arrow arrays have 31 bits.
const MAX: ByteCount = ByteCount::from_mib(1024);

/// The arrays of one query.
pub(crate) struct BuiltArrays {
    max: ByteCount,
    /// With their bytes; those that nobody holds any more are taken out when the next is built.
    built: Mutex<Vec<(Weak<dyn Array>, u64)>>,
}

impl BuiltArrays {
    /// Of a query with so much working memory; `None` for no limit.
    pub(crate) fn new(work_memory: Option<ByteCount>) -> BuiltArrays {
        BuiltArrays { max: work_memory.map_or(MAX, |max| max.min(MAX)), built: Mutex::default() }
    }

    /// Begins one array more.
    pub(crate) fn begin(&self) -> Building<'_> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.retain(|(array, _)| array.strong_count() > 0);
        let held = built.iter().map(|(_, bytes)| bytes).sum();
        Building { arrays: self, held, bytes: 0 }
    }
}

/// An array that is being built.
pub(crate) struct Building<'a> {
    arrays: &'a BuiltArrays,
    /// Bytes of the others.
    held: u64,
    bytes: u64,
}

impl Building<'_> {
    /// Counts a value's bytes.
    ///
    /// # Errors
    /// 53200 where they are too many.
    pub(crate) fn add(&mut self, bytes: usize) -> SqlResult<()> {
        self.bytes += bytes as u64;
        let (wanted, max) = (ByteCount(self.held + self.bytes), self.arrays.max);
        if wanted > max { Err(too_much(wanted, max)) } else { Ok(()) }
    }

    /// Counts the finished array for as long as it is held.
    pub(crate) fn finish(self, array: &ArrayRef) {
        if self.bytes >= COUNTED_MIN {
            let mut built = self.arrays.built.lock().unwrap_or_else(PoisonError::into_inner);
            built.push((std::sync::Arc::downgrade(array), self.bytes));
        }
    }
}

#[cold]
fn too_much(wanted: ByteCount, max: ByteCount) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for the values that functions give")
        .with_detail(format!("The rows under way would take {wanted}, of {max} of working memory."))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringArray;

    use super::*;

    #[test]
    fn arrays_count_while_somebody_holds_them() {
        let arrays = BuiltArrays::new(Some(ByteCount::from_mib(2)));
        let build = |mib: usize| -> SqlResult<ArrayRef> {
            let mut building = arrays.begin();
            building.add(mib << 20)?;
            let array: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
            building.finish(&array);
            Ok(array)
        };
        let first = build(1).unwrap();
        let second = build(1).unwrap();
        assert_eq!(build(1).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        drop(first);
        let third = build(1).unwrap();
        let copy = Arc::clone(&third);
        drop((second, third));
        assert!(build(2).is_err());
        drop(copy);
        build(2).unwrap();
    }
}
