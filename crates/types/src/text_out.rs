//! Output functions.
use crate::{Datum, FormatContext, PgType};
/// PostgreSQL's output function: appends the text of `d`, which is of type `ty` and not NULL (NULL appends nothing).
pub fn write_text(_d: &Datum, _ty: PgType, _ctx: &FormatContext, _out: &mut Vec<u8>) { unimplemented!() }
/// [`write_text`] into a new string.
pub fn to_text(_d: &Datum, _ty: PgType, _ctx: &FormatContext) -> String { unimplemented!() }
