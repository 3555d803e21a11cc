//! Byte strings whose order is that of the values.
use base::SqlResult;
use crate::{Datum, PgType};
/// Appends the key of `d`: self-delimiting, ordered as [`crate::compare`] (reversed if `desc`), NULL where told.
pub fn encode(_d: &Datum, _desc: bool, _nulls_first: bool, _out: &mut Vec<u8>) { unimplemented!() }
/// Takes one value of type `ty` off the front of `bytes`; the options must be those of `encode`.
pub fn decode(_ty: PgType, _desc: bool, _nulls_first: bool, _bytes: &mut &[u8]) -> SqlResult<Datum> { unimplemented!() }
