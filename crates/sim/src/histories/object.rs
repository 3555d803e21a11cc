//! The objects that transactions work on: a row each, in SQL and as the checks know them.

use crate::client::Values;
use crate::isolation::lists::{self, Operation as OfList};
use crate::isolation::registers::{self, Operation as OfRegister};
use crate::isolation::{Finding, Key, Level, Transaction, Value};

/// A kind of object.
pub trait Object: 'static {
    /// What a transaction does to one.
    type Operation: Clone + std::fmt::Debug + 'static;

    /// Makes the table: columns `id`, `other` (the same number under a unique index of its own) and `v`.
    const TABLE: &'static str;
    /// Writes value $2, of a text type, to the row with id $1, or makes it.
    const WRITE: &'static str;
    /// Writes value $2 to the row with other $1, if there is one, and returns its id.
    const WRITE_BY_INDEX: &'static str;

    fn written(key: Key, value: Value) -> Self::Operation;
    /// A read that found the text `v`, or no row.
    fn found(key: Key, v: Option<&str>) -> Self::Operation;
    /// See [`lists::check`] and [`registers::check`].
    fn check(history: &[Transaction<Self::Operation>], level: Level) -> Vec<Finding>;
}

/// Reads by each access path; $1 is the key.
pub(crate) const READ: [&str; 2] =
    ["select id, v from object where id = $1", "select id, v from object where other = $1"];
/// Reads keys $1 to $2.
pub(crate) const READ_RANGE: [&str; 2] = [
    "select id, v from object where id >= $1 and id <= $2 order by id",
    "select id, v from object where other >= $1 and other <= $2 order by other",
];

/// Lists of numbers, written as text with commas.
pub struct Lists;

impl Object for Lists {
    type Operation = OfList;

    const TABLE: &'static str = "create table object (id bigint primary key, other bigint unique, v text)";
    const WRITE: &'static str = "insert into object (id, other, v) values ($1, $1, $2)
        on conflict (id) do update set v = object.v || ',' || excluded.v";
    const WRITE_BY_INDEX: &'static str =
        "update object set v = v || ',' || $2::text where other = $1 returning id";

    fn written(key: Key, value: Value) -> OfList {
        OfList::Append(key, value)
    }

    fn found(key: Key, v: Option<&str>) -> OfList {
        let numbers = v.into_iter().flat_map(|text| text.split(','));
        OfList::Read(key, numbers.map(|number| number.parse().expect("a list of numbers")).collect())
    }

    fn check(history: &[Transaction<OfList>], level: Level) -> Vec<Finding> {
        lists::check(history, level)
    }
}

/// Registers of one number.
pub struct Registers;

impl Object for Registers {
    type Operation = OfRegister;

    const TABLE: &'static str = "create table object (id bigint primary key, other bigint unique, v text)";
    const WRITE: &'static str = "insert into object (id, other, v) values ($1, $1, $2)
        on conflict (id) do update set v = excluded.v";
    const WRITE_BY_INDEX: &'static str = "update object set v = $2 where other = $1 returning id";

    fn written(key: Key, value: Value) -> OfRegister {
        OfRegister::Write(key, value)
    }

    fn found(key: Key, v: Option<&str>) -> OfRegister {
        OfRegister::Read(key, v.map(|number| number.parse().expect("a number")))
    }

    fn check(history: &[Transaction<OfRegister>], level: Level) -> Vec<Finding> {
        registers::check(history, level)
    }
}

/// What reads of `keys` found, given all rows that came, with columns `id` and `v`.
pub(crate) fn found_in<O: Object>(
    keys: impl Iterator<Item = Key>,
    rows: &[Values],
) -> Result<Vec<O::Operation>, String> {
    let mut by_key = std::collections::BTreeMap::new();
    for row in rows {
        let id: Key = row[0].as_deref().and_then(|id| id.parse().ok()).ok_or("a row without an id")?;
        if by_key.insert(id, row[1].as_deref().ok_or("an object without a value")?).is_some() {
            return Err(format!("object {id} came twice"));
        }
    }
    let operations = keys.map(|key| O::found(key, by_key.remove(&key))).collect();
    match by_key.first_key_value() {
        Some((id, _)) => Err(format!("object {id} was not asked for")),
        None => Ok(operations),
    }
}
