//! Keys of tables and indexes, and the key ranges that conditions on their columns select.
//!
//! | tree | key | value |
//! | --- | --- | --- |
//! | table with primary key | its columns | row |
//! | table without | hidden row id, 8 bytes big-endian | row |
//! | unique index, no column NULL | index columns | 1, table key |
//! | other index entries | index columns, table key | 0, where the table key starts (2 bytes) |
//!
//! A partial index has entries of the rows alone of which its predicate is true. Where a key has a function of a column, "index columns" are its values.
//!
//! Every column's key ends itself, so all keys that begin with the same column values stand between that prefix and its
//! successor.

use std::borrow::Cow;
use std::ops::Bound;

use base::limits::KEY_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use smallvec::SmallVec;
use types::{Datum, key};

use super::read_column;
use crate::catalog::{Index, IndexColumn, Table};

/// Bytes of a key; the usual ones stand in place.
pub type Key = SmallVec<[u8; 24]>;

/// A copy of a key, its bytes at once: a clone goes through them one by one.
#[inline]
pub fn copied(key: &Key) -> Key {
    Key::from_slice(key)
}

/// Bytes that a key has elsewhere, being long.
#[inline]
pub(crate) fn heap_len(key: &Key) -> usize {
    if key.spilled() { key.len() } else { 0 }
}

/// A half-open range of keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyRange {
    /// The first key that belongs to the range.
    pub from: Key,
    /// The first key beyond it; `None` for no end.
    pub to: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// The keys behind this one; every key for none.
    pub fn behind(key: Option<&Key>) -> KeyRange {
        let mut range = KeyRange::all();
        if let Some(key) = key {
            range.from.clone_from(key);
            range.from.push(0);
        }
        range
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange { from: Key::from_slice(prefix), to: successor(prefix) }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.from[..] && self.to.as_ref().is_none_or(|to| key < &to[..])
    }

    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

/// A condition on the columns of an index or primary key: equality on the first ones, then a range on the next.
/// The values must be of the columns' types.
#[derive(Clone, Debug)]
pub struct ColumnRange<'a> {
    /// Values of the first columns; NULL selects the NULLs.
    pub equal: &'a [Datum],
    /// Bounds of the next column in its own order (not the index's); both unbounded for no condition on it.
    pub from: Bound<&'a Datum>,
    pub to: Bound<&'a Datum>,
}

impl<'a> ColumnRange<'a> {
    /// Equality on the first columns only.
    pub fn equal(values: &'a [Datum]) -> ColumnRange<'a> {
        ColumnRange { equal: values, from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// The keys this condition selects in a tree with these key columns. A range bounded on either side holds no
    /// NULLs.
    ///
    /// Panics if the condition names more columns than the key has.
    pub fn key_range(&self, columns: &[IndexColumn]) -> KeyRange {
        let mut prefix = Key::new();
        encode_columns(&columns[..self.equal.len()], self.equal.iter(), &mut prefix);
        if matches!((self.from, self.to), (Bound::Unbounded, Bound::Unbounded)) {
            return KeyRange::prefix(&prefix);
        }
        let column = columns[self.equal.len()];
        let (low, high) = if column.descending { (self.to, self.from) } else { (self.from, self.to) };
        let with = |datum: &Datum| {
            let mut key = prefix.clone();
            encode_columns(&[column], [datum].into_iter(), &mut key);
            key
        };
        let from = match low {
            Bound::Included(v) => with(v),
            Bound::Excluded(v) => successor(&with(v)).expect("a column's key is not all ones"),
            Bound::Unbounded if column.nulls_first => {
                successor(&with(&Datum::Null)).expect("a column's key is not all ones")
            }
            Bound::Unbounded => prefix.clone(),
        };
        let to = match high {
            Bound::Included(v) => successor(&with(v)),
            Bound::Excluded(v) => Some(with(v)),
            Bound::Unbounded if column.nulls_first => successor(&prefix),
            Bound::Unbounded => Some(with(&Datum::Null)),
        };
        KeyRange { from, to }
    }
}

/// The smallest key greater than every key that begins with `prefix`; `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Key> {
    let len = prefix.iter().rposition(|b| *b != u8::MAX)? + 1;
    let mut key = Key::from_slice(&prefix[..len]);
    key[len - 1] += 1;
    Some(key)
}

fn encode_columns<'d>(columns: &[IndexColumn], values: impl Iterator<Item = &'d Datum>, out: &mut Key) {
    let mut buffer = Vec::new();
    for (column, datum) in columns.iter().zip(values) {
        // Most columns of keys are numbers, which need no memory but the key's.
        if let Some((bytes, len)) = key::of_word(datum, column.descending) {
            out.extend_from_slice(&bytes[..len]);
            continue;
        }
        buffer.clear();
        buffer.reserve(32);
        key::encode(datum, column.descending, column.nulls_first, &mut buffer);
        out.extend_from_slice(&buffer);
    }
}

/// The key of the row with these values of the primary key's columns.
///
/// Panics if the table has no primary key or the number of values differs.
pub fn primary_key(table: &Table, values: &[Datum]) -> Key {
    let index = table.primary_index().expect("the table has a primary key");
    assert_eq!(values.len(), index.columns.len(), "one value for each column of the key");
    let mut out = Key::new();
    encode_columns(&index.columns, values.iter(), &mut out);
    out
}

/// The key of `row` by its primary key; `None` for a table clustered on row ids. Errors: 54000 where it is too long.
pub(crate) fn table_key(table: &Table, row: &[Datum]) -> SqlResult<Option<Key>> {
    let Some(index) = table.primary_index() else { return Ok(None) };
    let mut out = Key::new();
    encode_columns(&index.columns, index.column_positions().map(|c| &row[c]), &mut out);
    check_len(index, &out)?;
    Ok(Some(out))
}

/// The key of the hidden row id.
pub(crate) fn row_id_key(id: u64) -> Key {
    Key::from_slice(&id.to_be_bytes())
}

/// The row id a key stands for; `None` if it is no row id.
pub(crate) fn row_id_of(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// An index entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Key,
    /// Whether another entry with the same key would violate uniqueness.
    pub(crate) exclusive: bool,
}

const SUFFIX: u8 = 0;
const BESIDE: u8 = 1;

/// The entry of a row in a secondary index; `None` where a partial one has none of it. Errors: 54000 where its key is too long.
pub(crate) fn index_entry(index: &Index, row: &[Datum], table_key: &[u8]) -> SqlResult<Option<Entry>> {
    if let Some(predicate) = &index.predicate
        && predicate.holds(&mut |column| Ok(row[column].clone()))? != Some(true)
    {
        return Ok(None);
    }
    let mut key = Key::new();
    if index.is_plain() {
        encode_columns(&index.columns, index.column_positions().map(|c| &row[c]), &mut key);
    } else {
        let keys: SmallVec<[Cow<'_, Datum>; 4]> =
            index.columns.iter().map(|c| c.key(&row[c.column])).collect();
        encode_columns(&index.columns, keys.iter().map(|key| &**key), &mut key);
    }
    finish_entry(index, key, index.column_positions().any(|c| row[c].is_null()), table_key).map(Some)
}

/// As [`index_entry`] for an encoded row.
pub(crate) fn index_entry_of_bytes(
    table: &Table,
    index: &Index,
    row: &[u8],
    table_key: &[u8],
) -> SqlResult<Option<Entry>> {
    if let Some(predicate) = &index.predicate
        && predicate.holds(&mut |column| read_column(table, row, column))? != Some(true)
    {
        return Ok(None);
    }
    let mut values: SmallVec<[Datum; 4]> = SmallVec::new();
    for column in &index.columns {
        let value = read_column(table, row, column.column)?;
        values.push(if column.function.is_some() { column.key(&value).into_owned() } else { value });
    }
    let mut key = Key::new();
    encode_columns(&index.columns, values.iter(), &mut key);
    finish_entry(index, key, values.iter().any(Datum::is_null), table_key).map(Some)
}

fn finish_entry(index: &Index, mut key: Key, has_null: bool, table_key: &[u8]) -> SqlResult<Entry> {
    let exclusive = index.unique && (!has_null || index.nulls_not_distinct);
    let mut value = Key::new();
    if exclusive {
        value.push(BESIDE);
        value.extend_from_slice(table_key);
    } else {
        let at = u16::try_from(key.len()).map_err(|_| too_long(index, key.len()))?;
        value.push(SUFFIX);
        value.extend_from_slice(&at.to_le_bytes());
        key.extend_from_slice(table_key);
    }
    check_len(index, &key)?;
    Ok(Entry { key, value, exclusive })
}

/// The key of the row an index entry stands for; `None` where the entry is malformed.
pub(crate) fn table_key_of_entry<'a>(key: &'a [u8], value: &'a [u8]) -> Option<&'a [u8]> {
    match value.split_first()? {
        (&BESIDE, table_key) => Some(table_key),
        (&SUFFIX, at) => key.get(usize::from(u16::from_le_bytes(at.try_into().ok()?))..),
        _ => None,
    }
}

fn check_len(index: &Index, key: &[u8]) -> SqlResult<()> {
    if key.len() > KEY_LEN_MAX { Err(too_long(index, key.len())) } else { Ok(()) }
}

#[cold]
fn too_long(index: &Index, len: usize) -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("index row size {len} exceeds maximum {KEY_LEN_MAX} for index \"{}\"", index.name),
    )
    .with_hint("Values larger than 1/3 of a buffer page cannot be indexed.")
}
