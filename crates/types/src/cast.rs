//! Casts.
use base::SqlResult;
use crate::{Datum, FormatContext, PgType, TypeMod};
/// Where a cast is asked for; each also allows what those before it allow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext { Implicit, Assignment, Explicit }
/// Converts `d` from type `from` to `to` with `typmod`; NULL stays NULL.
pub fn cast(_d: Datum, _from: PgType, _to: PgType, _typmod: TypeMod, _how: CastContext, _ctx: &FormatContext) -> SqlResult<Datum> { unimplemented!() }
/// The least context that allows a cast from `from` to `to`; `None` if there is none.
pub fn cast_allowed(_from: PgType, _to: PgType) -> Option<CastContext> { unimplemented!() }
/// Length coercion of a value that already is of type `ty`.
pub fn apply_typmod(_d: Datum, _ty: PgType, _typmod: TypeMod, _how: CastContext) -> SqlResult<Datum> { unimplemented!() }
