//! What a session says to its client, without knowing the wire's framing.
//!
//! The server implements [`Reply`] over its output buffer. Everything written since a mark can be taken back, because a
//! statement that must wait is undone and run again.

use base::{SqlError, SqlResult, SqlState};
use smallvec::SmallVec;
use types::{Datum, FormatContext, PgType, TypeMod};

/// Form of a value on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Text,
    Binary,
}

impl Format {
    /// From the protocol's format code.
    ///
    /// # Errors
    /// 22023 when the code is neither 0 nor 1.
    pub fn from_code(code: i16) -> SqlResult<Format> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unsupported format code: {code}"),
            )),
        }
    }

    /// The protocol's code.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// The forms of a result's columns, as a Bind message gives them: none (all text), one for all, or one each.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Formats(SmallVec<[Format; 8]>);

impl Formats {
    /// The same form for every column.
    pub fn all(format: Format) -> Formats {
        Formats(SmallVec::from_slice(&[format]))
    }

    /// From the protocol's codes.
    ///
    /// # Errors
    /// 22023 for an unknown code.
    pub fn from_codes(codes: &[i16]) -> SqlResult<Formats> {
        codes.iter().map(|code| Format::from_code(*code)).collect::<SqlResult<_>>().map(Formats)
    }

    /// Whether nothing was said, so that all is text.
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// The form of a column.
    #[inline]
    pub fn of(&self, column: usize) -> Format {
        match &self.0[..] {
            [] => Format::Text,
            [one] => *one,
            each => each[column],
        }
    }

    /// # Errors
    /// 08P01 when they are neither none, one, nor one for each of so many columns.
    pub fn require_columns(&self, columns: usize) -> SqlResult<()> {
        let given = self.0.len();
        if given <= 1 || given == columns {
            return Ok(());
        }
        let message = format!("bind message has {given} result formats but query has {columns} columns");
        Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message))
    }
}

/// A column of a result as the client is told about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    /// Oid of the table the column comes from unchanged, else 0.
    pub table_oid: u32,
    /// Number of that table's column, counted from 1, else 0.
    pub attribute: i16,
    pub ty: PgType,
    pub modifier: TypeMod,
}

/// Direction-independent shape of a COPY: overall format and the columns' number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyShape {
    pub format: Format,
    pub columns: u16,
}

impl CopyShape {
    pub(super) fn new(format: Format, columns: usize) -> CopyShape {
        CopyShape { format, columns: u16::try_from(columns).expect("columns fit the protocol") }
    }
}

/// The client's side of a session. Calls append to a buffer and never block.
pub trait Reply {
    fn row_description(&mut self, fields: &[Field], formats: &Formats);
    fn no_data(&mut self);
    fn parameter_description(&mut self, type_oids: &[u32]);
    fn parse_complete(&mut self);
    fn bind_complete(&mut self);
    fn close_complete(&mut self);
    /// Opens a row of `columns` values; write them with [`write_value`], then call [`Reply::end_row`].
    fn begin_row(&mut self, columns: usize) -> &mut Vec<u8>;
    fn end_row(&mut self);
    /// Rows already encoded by [`encode_row`] or a [`super::CopyEncoder`].
    fn encoded_rows(&mut self, rows: &[u8]);
    fn command_complete(&mut self, tag: &str);
    fn empty_query(&mut self);
    fn portal_suspended(&mut self);
    fn notice(&mut self, notice: &SqlError);
    fn parameter_status(&mut self, name: &str, value: &str);
    fn copy_in(&mut self, shape: CopyShape);
    fn copy_out(&mut self, shape: CopyShape);
    fn copy_done(&mut self);
    /// A point to return to with [`Reply::rewind`].
    fn mark(&self) -> usize;
    /// Forgets what was written since `mark`. Panics when that has been sent already.
    fn rewind(&mut self, mark: usize);
    /// Bytes waiting to be sent; lets a long result give way once it is large.
    fn buffered(&self) -> usize;
}

/// Appends one value: its length and its bytes, or -1 for NULL.
pub fn write_value(value: &Datum, ty: PgType, format: Format, context: &FormatContext, out: &mut Vec<u8>) {
    match (value, format) {
        (Datum::Null, _) => out.extend_from_slice(&(-1i32).to_be_bytes()),
        // The most usual ones have a length that is known before.
        (Datum::Text(text), _) => {
            out.extend_from_slice(&value_len(text.len()));
            out.extend_from_slice(text.as_bytes());
        }
        (Datum::Int4(number), Format::Binary) => {
            let word = 4 << 32 | u64::from(number.cast_unsigned());
            out.extend_from_slice(&word.to_be_bytes());
        }
        _ => {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            match format {
                Format::Text => types::write_text(value, ty, context, out),
                Format::Binary => types::write_binary(value, ty, context, out),
            }
            let len = value_len(out.len() - at - 4);
            out[at..at + 4].copy_from_slice(&len);
        }
    }
}

fn value_len(len: usize) -> [u8; 4] {
    i32::try_from(len).expect("a value is shorter than ROW_LEN_MAX").to_be_bytes()
}

/// Appends a whole DataRow message, for results that are encoded away from the session (analytical threads).
pub fn encode_row(
    row: &[Datum],
    fields: &[Field],
    formats: &Formats,
    context: &FormatContext,
    out: &mut Vec<u8>,
) {
    assert_eq!(row.len(), fields.len(), "a row has the columns that were described");
    message(b'D', out, |out| {
        out.extend_from_slice(&u16::try_from(row.len()).expect("columns fit the protocol").to_be_bytes());
        for (i, (value, field)) in row.iter().zip(fields).enumerate() {
            write_value(value, field.ty, formats.of(i), context, out);
        }
    });
}

/// Appends a message of the type `kind` with what `write` appends.
pub(crate) fn message(kind: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    write(out);
    let len = i32::try_from(out.len() - at - 1).expect("a row is shorter than ROW_LEN_MAX");
    out[at + 1..at + 5].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_behind_its_length() {
        let context = FormatContext::default();
        let long = "x".repeat(300);
        for (value, ty) in [
            (Datum::Int4(-7), PgType::Int4),
            (Datum::Int8(7), PgType::Int8),
            (Datum::text(""), PgType::Text),
            (Datum::text(&long), PgType::Varchar),
            (Datum::Bool(true), PgType::Bool),
        ] {
            for format in [Format::Text, Format::Binary] {
                let (mut out, mut bytes) = (Vec::new(), Vec::new());
                write_value(&value, ty, format, &context, &mut out);
                match format {
                    Format::Text => types::write_text(&value, ty, &context, &mut bytes),
                    Format::Binary => types::write_binary(&value, ty, &context, &mut bytes),
                }
                assert_eq!((&out[..4], &out[4..]), (&(bytes.len() as u32).to_be_bytes()[..], &bytes[..]));
            }
        }
        let mut out = Vec::new();
        write_value(&Datum::Null, PgType::Int4, Format::Binary, &context, &mut out);
        assert_eq!(out, [255; 4]);
    }
}
