//! Order, equality and hash of values.
use std::cmp::Ordering;
use std::hash::Hasher;
use crate::Datum;
/// PostgreSQL's btree order of two values of one family.
pub fn compare(_a: &Datum, _b: &Datum) -> Ordering { unimplemented!() }
/// Whether `compare` would answer `Equal`, faster.
pub fn equal(_a: &Datum, _b: &Datum) -> bool { unimplemented!() }
/// Feeds `d` to `state` such that equal values hash alike.
pub fn hash<H: Hasher>(_d: &Datum, _state: &mut H) { unimplemented!() }
