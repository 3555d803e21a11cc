//! A COPY's output as messages of the protocol.

use base::SqlResult;
use types::{Datum, FormatContext};

use super::{CopyColumn, CopyWriter};
use crate::parse::{CopyOptions, CopyTextFormat};
use crate::session::{Field, message};

/// Encodes rows as the CopyData messages of `COPY … TO STDOUT`, on whatever thread they come up.
#[derive(Debug)]
pub struct CopyEncoder {
    writer: CopyWriter,
    /// What goes out with the next record: a binary header, as PostgreSQL's does; drivers expect a row in each message.
    before: Vec<u8>,
}

impl CopyEncoder {
    /// Appends what stands before the first record to `out`.
    ///
    /// # Errors
    /// 42P10 when an option names a column that is not copied.
    pub fn begin(fields: &[Field], options: &CopyOptions, out: &mut Vec<u8>) -> SqlResult<CopyEncoder> {
        let column_of =
            |field: &Field| CopyColumn { name: field.name.clone(), ty: field.ty, modifier: field.modifier };
        let writer = CopyWriter::new(fields.iter().map(column_of).collect(), options)?;
        let mut before = Vec::new();
        writer.begin(&mut before);
        if options.format != CopyTextFormat::Binary && !before.is_empty() {
            message(b'd', out, |out| out.append(&mut before));
        }
        Ok(CopyEncoder { writer, before })
    }

    /// Appends one record.
    pub fn row(&mut self, row: &[Datum], context: &FormatContext, out: &mut Vec<u8>) {
        message(b'd', out, |out| {
            out.append(&mut self.before);
            self.writer.row(row, context, out);
        });
    }

    /// Appends what stands behind the last record.
    pub fn end(mut self, out: &mut Vec<u8>) {
        self.writer.end(&mut self.before);
        if !self.before.is_empty() {
            message(b'd', out, |out| out.append(&mut self.before));
        }
    }
}
