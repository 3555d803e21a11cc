//! What functions of a query have built and somebody still holds.
//!
//! DataFusion's operators account for the batches they keep, not for those under way, and a function may make each row as long as it likes: 8,192 of
//! them are a batch. So arrays are counted from when they are built until the last batch with them is dropped. Those that operators keep are in the
//! operators' accounts too, so that much is allowed beside what may be under way. A query that wants more is tried again with batches of fewer rows, as
//! one whose operators do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base::limits::ROW_LEN_MAX;
use base::{ByteCount, SqlError, SqlResult, SqlState};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::execution::memory_pool::MemoryPool;

/// Smaller arrays are not counted: batches have a few hundred columns at most.
const COUNTED_MIN: u64 = 64 << 10;

/// Of what is under way: as much as the longest row.
const UNDER_WAY_MAX: ByteCount = ROW_LEN_MAX;

/// The arrays of one query.
#[derive(Default)]
pub(crate) struct BuiltArrays(Mutex<Built>);

#[derive(Default)]
struct Built {
    /// Of the operators that may keep some.
    operators: Option<Arc<dyn MemoryPool>>,
    /// With their bytes; those that nobody holds any more are taken out when the next is built.
    arrays: Vec<(Weak<dyn Array>, u64)>,
}

impl BuiltArrays {
    fn lock(&self) -> MutexGuard<'_, Built> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The query's operators have their memory from this pool.
    pub(crate) fn set_operators(&self, operators: Arc<dyn MemoryPool>) {
        self.lock().operators = Some(operators);
    }

    /// Begins one array more.
    pub(crate) fn begin(&self) -> Building<'_> {
        let mut built = self.lock();
        built.arrays.retain(|(array, _)| array.strong_count() > 0);
        let held = built.arrays.iter().map(|(_, bytes)| bytes).sum();
        let kept = built.operators.as_ref().map_or(0, |operators| operators.reserved());
        Building { arrays: self, held, max: UNDER_WAY_MAX + ByteCount(kept as u64), bytes: 0 }
    }
}

/// An array that is being built.
pub(crate) struct Building<'a> {
    arrays: &'a BuiltArrays,
    /// Bytes of the others.
    held: u64,
    max: ByteCount,
    bytes: u64,
}

impl Building<'_> {
    /// Counts a value's bytes.
    ///
    /// # Errors
    /// 53200 where they are too many.
    pub(crate) fn add(&mut self, bytes: usize) -> SqlResult<()> {
        self.bytes += bytes as u64;
        let wanted = ByteCount(self.held + self.bytes);
        // One array is bounded whatever operators keep: its offsets have 31 bits.
        if wanted > self.max || self.bytes > UNDER_WAY_MAX.0 {
            Err(too_much(wanted, self.max))
        } else {
            Ok(())
        }
    }

    /// Counts the finished array for as long as it is held.
    pub(crate) fn finish(self, array: &ArrayRef) {
        if self.bytes >= COUNTED_MIN {
            self.arrays.lock().arrays.push((Arc::downgrade(array), self.bytes));
        }
    }
}

#[cold]
fn too_much(wanted: ByteCount, max: ByteCount) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for the values that functions give")
        .with_detail(format!("The rows under way would take {wanted}, of {max} that may be held at once."))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringArray;
    use datafusion::execution::memory_pool::{MemoryConsumer, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn arrays_count_while_somebody_holds_them() {
        let arrays = BuiltArrays::default();
        let half = UNDER_WAY_MAX.0 as usize / 2;
        let build = |bytes: usize| -> SqlResult<ArrayRef> {
            let mut building = arrays.begin();
            building.add(bytes)?;
            let array: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
            building.finish(&array);
            Ok(array)
        };
        let first = build(half).unwrap();
        let second = build(half).unwrap();
        assert_eq!(build(1).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        drop(first);
        let third = build(half).unwrap();
        let copy = Arc::clone(&third);
        drop((second, third));
        assert!(build(2 * half).is_err());
        // An operator keeps it.
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        arrays.set_operators(Arc::clone(&pool));
        let sort = MemoryConsumer::new("sort").register(&pool);
        sort.grow(half);
        drop(build(2 * half).unwrap());
        drop((copy, sort));
        build(2 * half).unwrap();
    }
}
