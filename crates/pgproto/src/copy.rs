//! The row formats of COPY: text, CSV and binary, read from pieces that may split anywhere and written row by row.
//!
//! Values are bytes here: the text or binary form of a type is its caller's. State: the reader holds the incomplete
//! row and no more; what it refuses is 22P04 or 22021 with PostgreSQL's message.

mod binary;
mod csv;
mod read;
mod text;
mod write;

pub use read::RowReader;
pub use write::RowWriter;

use base::{SqlError, SqlState};

/// The columns an option names.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Columns {
    #[default]
    None,
    All,
    /// By position, counted from 0.
    Some(Vec<usize>),
}

impl Columns {
    /// Is column `i` among them?
    pub fn has(&self, i: usize) -> bool {
        match self {
            Columns::None => false,
            Columns::All => true,
            Columns::Some(list) => list.contains(&i),
        }
    }
}

/// The first line of text and CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Header {
    #[default]
    None,
    /// Written on output, skipped on input; the reader hands it out by [`RowReader::header`].
    Line,
}

/// How the rows are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFormat {
    Text { delimiter: u8, null: String, header: Header },
    Csv(Csv),
    Binary,
}

/// The options of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    pub delimiter: u8,
    pub null: String,
    pub header: Header,
    pub quote: u8,
    pub escape: u8,
    /// Output: quoted even where it need not be.
    pub force_quote: Columns,
    /// Input: an unquoted null string is that text.
    pub force_not_null: Columns,
    /// Input: a quoted null string is NULL.
    pub force_null: Columns,
}

impl RowFormat {
    /// PostgreSQL's defaults of text.
    pub fn text() -> RowFormat {
        RowFormat::Text { delimiter: b'\t', null: "\\N".into(), header: Header::None }
    }
    /// PostgreSQL's defaults of CSV.
    pub fn csv() -> RowFormat {
        RowFormat::Csv(Csv {
            delimiter: b',',
            null: String::new(),
            header: Header::None,
            quote: b'"',
            escape: b'"',
            force_quote: Columns::None,
            force_not_null: Columns::None,
            force_null: Columns::None,
        })
    }
    fn header(&self) -> Header {
        match self {
            RowFormat::Text { header, .. } => *header,
            RowFormat::Csv(csv) => csv.header,
            RowFormat::Binary => Header::None,
        }
    }
}

fn bad_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// The values of one row, unescaped, back to back in one buffer.
#[derive(Default)]
struct RowBuf {
    bytes: Vec<u8>,
    /// End of each value in `bytes`; a NULL has the end of the one before it.
    values: Vec<(usize, bool)>,
}

impl RowBuf {
    fn clear(&mut self) {
        self.bytes.clear();
        self.values.clear();
    }
    fn start(&self) -> usize {
        self.values.last().map_or(0, |v| v.0)
    }
    /// Ends the value whose bytes were appended since the last one.
    fn end_value(&mut self) {
        self.values.push((self.bytes.len(), false));
    }
    fn end_null(&mut self) {
        let start = self.start();
        self.bytes.truncate(start);
        self.values.push((start, true));
    }
}

/// One row of the input.
#[derive(Clone, Copy)]
pub struct CopyRow<'a>(&'a RowBuf);

impl<'a> CopyRow<'a> {
    /// Values in the row; the reader does not know how many the table wants.
    pub fn len(&self) -> usize {
        self.0.values.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.values.is_empty()
    }
    /// The values; `None` is NULL. Those of text and CSV are UTF-8.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let row = self.0;
        let mut start = 0;
        row.values.iter().map(move |&(end, null)| {
            let value = &row.bytes[start..end];
            start = end;
            (!null).then_some(value)
        })
    }
}

#[cfg(test)]
mod tests;
