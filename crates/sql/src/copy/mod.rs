//! COPY's data: records to values and back, in PostgreSQL's text, CSV and binary forms. Knows nothing of tables: the statement
//! gives the columns' names and types.

mod binary;
mod csv;
mod encoder;
mod lines;
mod reader;
mod text;
mod writer;

pub use encoder::CopyEncoder;
pub(crate) use reader::CopyReader;
use writer::CopyWriter;

use types::{PgType, TypeMod};

/// A column that takes part in a COPY.
#[derive(Clone, Debug)]
pub(crate) struct CopyColumn {
    pub(crate) name: String,
    pub(crate) ty: PgType,
    pub(crate) modifier: TypeMod,
}

/// The fields of one record, unescaped, in one buffer that is used again for the next record.
#[derive(Default, Debug)]
struct Record {
    bytes: Vec<u8>,
    /// End of each field in `bytes`; `None` marks NULL (its end is its start).
    fields: Vec<Option<usize>>,
    starts: Vec<usize>,
}

impl Record {
    fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.starts.clear();
    }

    fn begin_field(&mut self) {
        self.starts.push(self.bytes.len());
    }

    fn end_field(&mut self, null: bool) {
        self.fields.push((!null).then_some(self.bytes.len()));
    }

    fn current(&self) -> &[u8] {
        &self.bytes[*self.starts.last().expect("a field has begun")..]
    }

    fn len(&self) -> usize {
        self.fields.len()
    }

    fn field(&self, index: usize) -> Option<&[u8]> {
        self.fields[index].map(|end| &self.bytes[self.starts[index]..end])
    }
}

#[cfg(test)]
mod tests;
