//! Writes a COPY's output, a record at a time.

use base::{SqlError, SqlResult, SqlState};
use types::{Datum, FormatContext};

use super::csv::{self, CsvMarks};
use super::{CopyColumn, binary, text};
use crate::parse::{CopyOptions, CopyTextFormat};

/// Turns rows into the bytes of `COPY … TO STDOUT`.
#[derive(Debug)]
pub(crate) struct CopyWriter {
    columns: Vec<CopyColumn>,
    format: CopyTextFormat,
    header: bool,
    null: Vec<u8>,
    marks: CsvMarks,
    force_quote: Vec<bool>,
    /// A value's text before it is escaped; kept for its capacity.
    scratch: Vec<u8>,
}

impl CopyWriter {
    /// # Errors
    /// 42P10 when FORCE_QUOTE names a column that is not copied.
    pub(crate) fn new(columns: Vec<CopyColumn>, options: &CopyOptions) -> SqlResult<CopyWriter> {
        let csv = options.format == CopyTextFormat::Csv;
        let force_quote = match &options.force_quote {
            None => vec![false; columns.len()],
            Some(names) => {
                if let Some(name) = names.iter().find(|name| !columns.iter().any(|c| c.name == **name)) {
                    let message = format!("FORCE_QUOTE column \"{name}\" not referenced by COPY");
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                columns.iter().map(|column| names.is_empty() || names.contains(&column.name)).collect()
            }
        };
        let quote = options.quote.unwrap_or(b'"');
        Ok(CopyWriter {
            columns,
            format: options.format,
            header: options.header,
            null: options
                .null
                .clone()
                .unwrap_or_else(|| if csv { String::new() } else { "\\N".into() })
                .into_bytes(),
            marks: CsvMarks {
                delimiter: options.delimiter.unwrap_or(if csv { b',' } else { b'\t' }),
                quote,
                escape: options.escape.unwrap_or(quote),
            },
            force_quote,
            scratch: Vec::new(),
        })
    }

    /// What stands before the first record.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        if self.format == CopyTextFormat::Binary {
            binary::write_header(out);
        } else if self.header {
            for (index, column) in self.columns.iter().enumerate() {
                if index > 0 {
                    out.push(self.marks.delimiter);
                }
                match self.format {
                    CopyTextFormat::Csv => {
                        csv::write(column.name.as_bytes(), self.marks, &self.null, false, false, out)
                    }
                    _ => text::escape(column.name.as_bytes(), self.marks.delimiter, out),
                }
            }
            out.push(b'\n');
        }
    }

    /// Appends one record.
    pub(crate) fn row(&mut self, row: &[Datum], context: &FormatContext, out: &mut Vec<u8>) {
        assert_eq!(row.len(), self.columns.len(), "a record has the columns that were described");
        if self.format == CopyTextFormat::Binary {
            let count = i16::try_from(row.len()).expect("columns fit the format");
            out.extend_from_slice(&count.to_be_bytes());
            for (value, column) in row.iter().zip(&self.columns) {
                crate::session::write_value(value, column.ty, crate::session::Format::Binary, context, out);
            }
            return;
        }
        for (index, (value, column)) in row.iter().zip(&self.columns).enumerate() {
            if index > 0 {
                out.push(self.marks.delimiter);
            }
            if value.is_null() {
                out.extend_from_slice(&self.null);
                continue;
            }
            self.scratch.clear();
            types::write_text(value, column.ty, context, &mut self.scratch);
            if self.format == CopyTextFormat::Csv {
                let only = self.columns.len() == 1;
                csv::write(&self.scratch, self.marks, &self.null, self.force_quote[index], only, out);
            } else {
                text::escape(&self.scratch, self.marks.delimiter, out);
            }
        }
        out.push(b'\n');
    }

    /// What stands behind the last record.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        if self.format == CopyTextFormat::Binary {
            binary::write_trailer(out);
        }
    }
}
