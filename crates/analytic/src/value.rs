//! How a PostgreSQL value stands in an Arrow array, and back.
//!
//! Numbers, strings and moments are Arrow's own primitive arrays, with PostgreSQL's epoch, so that comparing and hashing the
//! array is comparing the values. Floating point has one NaN there, as Arrow puts those of the other sign first. What Arrow
//! orders differently (numeric without a declared scale, interval, arrays) is *opaque*: an order-preserving key, then the
//! value in binary form, then the length of that form. Opaque values of different spelling (`1.0`, `1.00`) share a key;
//! [`strip`] leaves the key alone.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanBuilder, Decimal128Builder, Float32Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, StringArray, UInt8Builder, UInt32Builder,
    new_null_array,
};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt32Type,
};
use datafusion::common::ScalarValue;
use tenant::row::{StoredRow, for_each_field, read_numeric, read_value};
use types::{Datum, ElementType, FormatContext, Numeric, PgType, TypeMod};

/// Most digits of a declared numeric that is kept as Arrow's decimal; larger ones are opaque.
const DECIMAL_DIGITS_MAX: u16 = 38;

/// What [`unscaled`] fails with: until rows of it were said a query starts over with its numerics opaque.
pub(crate) const NO_DECIMAL: &str =
    "NaN or an infinity as numeric(p,s) behind the first rows of an analytical query is not supported";

/// The Arrow type of a column or expression of type `ty`, as [`Shared::arrow_type`](crate::shared::Shared::arrow_type) says
/// it of one that may have a modifier.
pub(crate) fn arrow_type(ty: PgType, typmod: TypeMod) -> DataType {
    match ty {
        PgType::Bool => DataType::Boolean,
        PgType::Int2 => DataType::Int16,
        PgType::Int4 | PgType::Date | PgType::Void => DataType::Int32,
        PgType::Int8 | PgType::Time | PgType::Timestamp | PgType::TimestampTz => DataType::Int64,
        PgType::Float4 => DataType::Float32,
        PgType::Float8 => DataType::Float64,
        PgType::Numeric => match typmod.as_numeric() {
            Some((p, s)) if p <= DECIMAL_DIGITS_MAX && s >= 0 && s as u16 <= p => {
                DataType::Decimal128(p as u8, s as i8)
            }
            _ => DataType::Binary,
        },
        PgType::Char => DataType::UInt8,
        PgType::Enum(_) => DataType::UInt32,
        _ if ty.is_oid() => DataType::UInt32,
        PgType::Bytea | PgType::Uuid | PgType::Interval => DataType::Binary,
        _ if ty.element().is_some() => DataType::Binary,
        _ => DataType::Utf8,
    }
}

/// Whether values of `ty` are opaque in an array of `arrow`.
pub(crate) fn is_opaque(ty: PgType, arrow: &DataType) -> bool {
    *arrow == DataType::Binary && is_opaque_type(ty)
}

/// Whether values of `ty` in an array of `arrow` are compared by what [`crate::translate::key_of`] makes of them. A `char(n)` of
/// one width has the same blanks in all values; Arrow has two zeros among floats.
pub(crate) fn needs_key(ty: PgType, typmod: TypeMod, arrow: &DataType) -> bool {
    match ty {
        PgType::Bpchar => typmod.is_none(),
        PgType::Jsonb | PgType::Float4 | PgType::Float8 => true,
        _ => is_opaque(ty, arrow),
    }
}

/// Whether values of `ty` can be opaque: what Arrow has no order or equality for that is PostgreSQL's.
fn is_opaque_type(ty: PgType) -> bool {
    matches!(ty, PgType::Numeric | PgType::Interval) || ty.element().is_some()
}

/// The opaque form of a value.
fn write_opaque(value: &Datum, ty: PgType, out: &mut Vec<u8>) {
    write_key(value, out);
    let at = out.len();
    match (value, ty) {
        (Datum::Array(array), PgType::Array(ElementType::Enum(_))) => {
            // Binary enums are labels, which only a catalog knows.
            let number = |item: &Datum| match item {
                Datum::Enum { order, .. } => Datum::Oid(*order),
                other => other.clone(),
            };
            let numbers = Datum::array(ElementType::Oid, array.items.iter().map(number).collect());
            types::write_binary(&numbers, ENUM_NUMBERS, &FormatContext::default(), out);
        }
        _ => types::write_binary(value, ty, &FormatContext::default(), out),
    }
    let len = (out.len() - at) as u32;
    out.extend_from_slice(&len.to_be_bytes());
}

pub(crate) fn write_key(value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Array(array) => {
            for item in &array.items {
                out.push(1);
                write_key(item, out);
            }
            out.push(0);
        }
        // An index has its text.
        Datum::Jsonb(text) => {
            out.push(0);
            types::json::write_key(text, out);
        }
        _ => types::key::encode(value, false, false, out),
    }
}

fn payload_start(bytes: &[u8]) -> usize {
    let (rest, len) = bytes.split_at(bytes.len() - 4);
    rest.len() - u32::from_be_bytes(len.try_into().expect("four bytes")) as usize
}

/// The key of an opaque value: equal exactly when the values are.
pub(crate) fn strip(bytes: &[u8]) -> &[u8] {
    &bytes[..payload_start(bytes)]
}

fn read_opaque(bytes: &[u8], ty: PgType) -> SqlResult<Datum> {
    let payload = &bytes[payload_start(bytes)..bytes.len() - 4];
    let read = |ty| types::parse_binary(payload, ty, TypeMod::NONE, &FormatContext::default());
    match ty {
        PgType::Array(element @ ElementType::Enum(type_oid)) => {
            let Datum::Array(numbers) = read(ENUM_NUMBERS)? else { return Ok(Datum::Null) };
            let member = |item: Datum| match item {
                Datum::Oid(order) => Datum::Enum { type_oid: type_oid.0, order },
                other => other,
            };
            Ok(Datum::array(element, numbers.items.into_iter().map(member).collect()))
        }
        ty => read(ty),
    }
}

/// How an array of an enum's members is kept.
const ENUM_NUMBERS: PgType = PgType::Array(ElementType::Oid);

enum Builder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt32(UInt32Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder, i8),
    /// The bytes of strings; that they are UTF-8 is looked at once for all of them, at the end.
    Utf8(BinaryBuilder),
    Binary(BinaryBuilder),
}

/// Gathers values of one type into an Arrow array.
pub(crate) struct Column {
    ty: PgType,
    builder: Builder,
    scratch: Vec<u8>,
}

impl Column {
    pub(crate) fn new(ty: PgType, arrow: &DataType, capacity: usize) -> Column {
        let builder = match arrow {
            DataType::Boolean => Builder::Bool(BooleanBuilder::with_capacity(capacity)),
            DataType::Int16 => Builder::Int16(Int16Builder::with_capacity(capacity)),
            DataType::Int32 => Builder::Int32(Int32Builder::with_capacity(capacity)),
            DataType::Int64 => Builder::Int64(Int64Builder::with_capacity(capacity)),
            DataType::UInt8 => Builder::UInt8(UInt8Builder::with_capacity(capacity)),
            DataType::UInt32 => Builder::UInt32(UInt32Builder::with_capacity(capacity)),
            DataType::Float32 => Builder::Float32(Float32Builder::with_capacity(capacity)),
            DataType::Float64 => Builder::Float64(Float64Builder::with_capacity(capacity)),
            DataType::Decimal128(p, s) => {
                let builder = Decimal128Builder::with_capacity(capacity);
                Builder::Decimal(builder.with_data_type(DataType::Decimal128(*p, *s)), *s)
            }
            DataType::Utf8 => Builder::Utf8(BinaryBuilder::with_capacity(capacity, capacity * 16)),
            DataType::Binary => Builder::Binary(BinaryBuilder::with_capacity(capacity, capacity * 16)),
            other => unreachable!("no value is kept as {other}"),
        };
        Column { ty, builder, scratch: Vec::new() }
    }

    /// # Errors
    /// 0A000 for NaN or an infinity in a numeric of declared scale; XX000 for a value of another type.
    pub(crate) fn push(&mut self, value: &Datum) -> SqlResult<()> {
        macro_rules! null_or {
            ($builder:expr, $($pattern:pat => $value:expr),+ $(,)?) => {
                match value {
                    Datum::Null => $builder.append_null(),
                    $($pattern => $builder.append_value($value),)+
                    other => return Err(mismatch(self.ty, other)),
                }
            };
        }
        match &mut self.builder {
            Builder::Bool(b) => null_or!(b, Datum::Bool(v) => *v),
            Builder::Int16(b) => null_or!(b, Datum::Int2(v) => *v),
            Builder::Int32(b) => null_or!(b, Datum::Int4(v) | Datum::Date(v) => *v, Datum::Void => 0),
            Builder::Int64(b) => {
                null_or!(b, Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::TimestampTz(v) => *v);
            }
            Builder::UInt8(b) => null_or!(b, Datum::Char(v) => *v),
            Builder::UInt32(b) => null_or!(b, Datum::Oid(v) => *v, Datum::Enum { order, .. } => *order),
            Builder::Float32(b) => null_or!(b, Datum::Float4(v) => if v.is_nan() { f32::NAN } else { *v }),
            Builder::Float64(b) => null_or!(b, Datum::Float8(v) => if v.is_nan() { f64::NAN } else { *v }),
            Builder::Decimal(b, scale) => match value {
                Datum::Null => b.append_null(),
                Datum::Numeric(n) => b.append_value(unscaled(n, *scale)?),
                other => return Err(mismatch(self.ty, other)),
            },
            Builder::Utf8(b) => match value {
                Datum::Null => b.append_null(),
                Datum::Void => b.append_value([]),
                other => match other.as_str() {
                    Some(s) => b.append_value(s),
                    None => return Err(mismatch(self.ty, other)),
                },
            },
            Builder::Binary(b) => match (value, self.ty) {
                (Datum::Null, _) => b.append_null(),
                (Datum::Bytea(v), PgType::Bytea) => b.append_value(v),
                (Datum::Uuid(v), PgType::Uuid) => b.append_value(v),
                (value, ty) if is_opaque_type(ty) => {
                    self.scratch.clear();
                    write_opaque(value, ty, &mut self.scratch);
                    b.append_value(&self.scratch);
                }
                (other, ty) => return Err(mismatch(ty, other)),
            },
        }
        Ok(())
    }

    /// Appends column `position` of stored rows, without a `Datum` between where the stored bytes say the value alike.
    ///
    /// # Errors
    /// As [`Column::push`]; XX001 for a damaged row.
    pub(crate) fn extend(&mut self, rows: &[StoredRow<'_>], position: usize) -> SqlResult<()> {
        let ty = self.ty;
        /// Fields whose bytes are the value's, little-endian.
        macro_rules! plain {
            ($builder:expr, $native:ty) => {
                plain!($builder, $native, |value| value)
            };
            ($builder:expr, $native:ty, $as_kept:expr) => {
                for_each_field(rows, position, |field| {
                    $builder.append_option(match field {
                        Some(bytes) => Some($as_kept(<$native>::from_le_bytes(bytes.try_into().ok()?))),
                        None => None,
                    });
                    Some(Ok(()))
                })
            };
        }
        match &mut self.builder {
            Builder::Int16(b) => plain!(b, i16),
            Builder::Int32(b) => plain!(b, i32),
            Builder::Int64(b) => plain!(b, i64),
            Builder::UInt8(b) => plain!(b, u8),
            Builder::UInt32(b) => plain!(b, u32),
            Builder::Float32(b) => plain!(b, f32, |v: f32| if v.is_nan() { f32::NAN } else { v }),
            Builder::Float64(b) => plain!(b, f64, |v: f64| if v.is_nan() { f64::NAN } else { v }),
            Builder::Decimal(b, scale) => for_each_field(rows, position, |field| {
                let Some(bytes) = field else {
                    b.append_null();
                    return Some(Ok(()));
                };
                Some(unscaled(&read_numeric(bytes)?, *scale).map(|units| b.append_value(units)))
            }),
            Builder::Utf8(b) => for_each_field(rows, position, |field| {
                b.append_option(field);
                Some(Ok(()))
            }),
            Builder::Bool(_) | Builder::Binary(_) => for_each_field(rows, position, |field| {
                let value = match field {
                    Some(bytes) => read_value(ty, bytes)?,
                    None => Datum::Null,
                };
                Some(self.push(&value))
            }),
        }
    }

    /// Bytes of the strings that were gathered.
    pub(crate) fn gathered(&self) -> usize {
        match &self.builder {
            Builder::Utf8(b) | Builder::Binary(b) => b.values_slice().len(),
            _ => 0,
        }
    }

    /// The array of what was gathered; the column then gathers another one, of about the same size.
    ///
    /// # Errors
    /// XX001 where stored strings are not UTF-8.
    pub(crate) fn finish(&mut self) -> SqlResult<ArrayRef> {
        Ok(match &mut self.builder {
            Builder::Bool(b) => Arc::new(b.finish()),
            Builder::Int16(b) => Arc::new(b.finish()),
            Builder::Int32(b) => Arc::new(b.finish()),
            Builder::Int64(b) => Arc::new(b.finish()),
            Builder::UInt8(b) => Arc::new(b.finish()),
            Builder::UInt32(b) => Arc::new(b.finish()),
            Builder::Float32(b) => Arc::new(b.finish()),
            Builder::Float64(b) => Arc::new(b.finish()),
            Builder::Decimal(b, _) => Arc::new(b.finish()),
            Builder::Utf8(b) => {
                let strings = StringArray::try_from_binary(finish_bytes(b)).map_err(|error| {
                    SqlError::new(SqlState::DATA_CORRUPTED, format!("a stored string is damaged: {error}"))
                })?;
                Arc::new(strings)
            }
            Builder::Binary(b) => Arc::new(finish_bytes(b)),
        })
    }
}

/// The array of what `builder` has, which then has room for as much again: growing would copy it several times.
fn finish_bytes(builder: &mut BinaryBuilder) -> BinaryArray {
    let room = BinaryBuilder::with_capacity(builder.offsets_slice().len() - 1, builder.values_slice().len());
    std::mem::replace(builder, room).finish()
}

fn mismatch(ty: PgType, value: &Datum) -> SqlError {
    SqlError::internal(format!(
        "a value of type {} stands in a column of type {}",
        value.natural_type().name(),
        ty.name()
    ))
}

/// `n` as a whole number of units of `scale`, for Arrow's decimal.
///
/// # Errors
/// 0A000 with [`NO_DECIMAL`].
pub(crate) fn unscaled(n: &Numeric, scale: i8) -> SqlResult<i128> {
    let units = n.to_unscaled(scale as u16);
    units.ok_or_else(|| SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, NO_DECIMAL))
}

/// Precision and scale of Arrow's decimal that holds `n` with its display scale.
pub(crate) fn decimal_shape(n: &Numeric) -> Option<(u8, i8)> {
    let scale = n.scale();
    if scale > DECIMAL_DIGITS_MAX {
        return None;
    }
    let digits = n.to_unscaled(scale)?.unsigned_abs().checked_ilog10().map_or(1, |d| d as u16 + 1);
    let digits = digits.max(scale).max(1);
    (digits <= DECIMAL_DIGITS_MAX).then_some((digits as u8, scale as i8))
}

/// Row `row` of `array` as a value of type `ty`.
///
/// # Errors
/// XX000 if the array is not of the type [`arrow_type`] gives.
pub(crate) fn datum(array: &dyn Array, row: usize, ty: PgType) -> SqlResult<Datum> {
    if array.is_null(row) {
        return Ok(Datum::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Datum::Null,
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int16 => Datum::Int2(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => {
            let v = array.as_primitive::<Int32Type>().value(row);
            match ty {
                PgType::Date => Datum::Date(v),
                PgType::Void => Datum::Void,
                _ => Datum::Int4(v),
            }
        }
        DataType::Int64 => {
            let v = array.as_primitive::<Int64Type>().value(row);
            match ty {
                PgType::Time => Datum::Time(v),
                PgType::Timestamp => Datum::Timestamp(v),
                PgType::TimestampTz => Datum::TimestampTz(v),
                _ => Datum::Int8(v),
            }
        }
        DataType::UInt8 => Datum::Char(array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt32 => {
            let v = array.as_primitive::<UInt32Type>().value(row);
            match ty {
                PgType::Enum(oid) => Datum::Enum { type_oid: oid.0, order: v },
                _ => Datum::Oid(v),
            }
        }
        DataType::Float32 => Datum::Float4(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Datum::Float8(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            let v = array.as_primitive::<Decimal128Type>().value(row);
            Datum::Numeric(Numeric::from_i128(v, *scale as u16))
        }
        DataType::Utf8 => {
            let s = array.as_string::<i32>().value(row);
            match ty {
                PgType::Json => Datum::Json(s.into()),
                PgType::Jsonb => Datum::Jsonb(s.into()),
                _ => Datum::text(s),
            }
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row);
            match ty {
                PgType::Bytea => Datum::Bytea(bytes.into()),
                PgType::Uuid => {
                    Datum::Uuid(bytes.try_into().map_err(|_| SqlError::internal("a uuid has 16 bytes"))?)
                }
                _ => read_opaque(bytes, ty)?,
            }
        }
        other => return Err(SqlError::internal(format!("no value is kept as {other}"))),
    })
}

/// A single value as a scalar of Arrow type `arrow`.
pub(crate) fn scalar(value: &Datum, ty: PgType, arrow: &DataType) -> SqlResult<ScalarValue> {
    let mut column = Column::new(ty, arrow, 1);
    column.push(value)?;
    let array = column.finish()?;
    ScalarValue::try_from_array(&array, 0).map_err(|e| SqlError::internal(e.to_string()))
}

/// Floating point that was computed, with the one NaN that arrays have; anything else as it is.
pub(crate) fn with_one_nan(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => array,
    }
}

/// Bytes that row `row` of `columns` takes, roughly.
pub(crate) fn row_len(columns: &[ArrayRef], row: usize) -> usize {
    let len = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value_length(row) as usize,
        DataType::Binary => column.as_binary::<i32>().value_length(row) as usize,
        _ => 8,
    };
    columns.iter().map(len).sum()
}

/// `rows` NULLs of an Arrow type.
pub(crate) fn nulls(arrow: &DataType, rows: usize) -> ArrayRef {
    new_null_array(arrow, rows)
}
