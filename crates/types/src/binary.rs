//! The wire's binary form of values.
use base::SqlResult;
use crate::{Datum, FormatContext, PgType, TypeMod};
/// PostgreSQL's receive function: the value in `bytes` of type `ty`. Errors: 22P03, and those of the value's range.
pub fn parse_binary(_bytes: &[u8], _ty: PgType, _typmod: TypeMod, _ctx: &FormatContext) -> SqlResult<Datum> { unimplemented!() }
/// PostgreSQL's send function: appends the binary form of `d`, which is of type `ty` and not NULL, without a length word.
pub fn write_binary(_d: &Datum, _ty: PgType, _ctx: &FormatContext, _out: &mut Vec<u8>) { unimplemented!() }
