//! Input functions.
use base::SqlResult;
use crate::{Datum, FormatContext, PgType, TypeMod};
/// PostgreSQL's input function: the value `text` stands for, fitted to `typmod` as an assignment would.
pub fn parse_text(_text: &str, _ty: PgType, _typmod: TypeMod, _ctx: &FormatContext) -> SqlResult<Datum> { unimplemented!() }
