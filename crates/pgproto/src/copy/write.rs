//! Writes the rows of a COPY TO STDOUT.

use super::{Header, RowFormat, binary, csv, text};

/// Writes rows into a buffer of the caller's: [`RowWriter::begin`], then for each row its values and
/// [`RowWriter::end_row`], then [`RowWriter::end`].
pub struct RowWriter {
    format: RowFormat,
    columns: usize,
    column: usize,
}

impl RowWriter {
    /// For rows of `columns` values.
    pub fn new(format: RowFormat, columns: usize) -> RowWriter {
        RowWriter { format, columns, column: 0 }
    }

    /// Appends what comes before the first row: the binary signature or the header line of `names`.
    pub fn begin<'a>(&mut self, names: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
        if self.format == RowFormat::Binary {
            out.extend(binary::SIGNATURE);
            out.extend([0; 8]);
        } else if self.format.header() == Header::Line {
            for name in names {
                self.value(Some(name.as_bytes()), out);
            }
            self.end_row(out);
        }
    }

    /// Appends a value; `None` is NULL. Binary values are in their type's binary form.
    pub fn value(&mut self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        let column = self.column;
        self.column += 1;
        assert!(column < self.columns, "a row has as many values as it announced");
        let delimiter = match &self.format {
            RowFormat::Binary => {
                if column == 0 {
                    out.extend(u16::try_from(self.columns).expect("columns fit 16 bits").to_be_bytes());
                }
                let len = value.map_or(-1, |v| i32::try_from(v.len()).expect("a value is below 2 GiB"));
                out.extend(len.to_be_bytes());
                out.extend(value.unwrap_or_default());
                return;
            }
            RowFormat::Text { delimiter, .. } => *delimiter,
            RowFormat::Csv(csv) => csv.delimiter,
        };
        if column > 0 {
            out.push(delimiter);
        }
        match (&self.format, value) {
            (RowFormat::Text { .. }, Some(value)) => text::write_value(value, delimiter, out),
            (RowFormat::Text { null, .. }, None) => out.extend(null.as_bytes()),
            (RowFormat::Csv(csv), Some(value)) => {
                csv::write_value(value, csv, csv.force_quote.has(column), self.columns == 1, out);
            }
            (RowFormat::Csv(csv), None) => out.extend(csv.null.as_bytes()),
            (RowFormat::Binary, _) => unreachable!("returned above"),
        }
    }

    /// Ends the row.
    pub fn end_row(&mut self, out: &mut Vec<u8>) {
        assert_eq!(self.column, self.columns, "a row has as many values as it announced");
        if self.format != RowFormat::Binary {
            out.push(b'\n');
        } else if self.columns == 0 {
            out.extend([0, 0]);
        }
        self.column = 0;
    }

    /// Appends what comes after the last row.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if self.format == RowFormat::Binary {
            out.extend((-1i16).to_be_bytes());
        }
    }
}
