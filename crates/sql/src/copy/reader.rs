//! Reads a COPY's input, which arrives in pieces that may split records anywhere.

use base::limits::ROW_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};
use types::{Datum, FormatContext, Row};

use super::csv::{self, CsvMarks};
use super::lines::{Line, Lines};
use super::{CopyColumn, Record, binary, text};
use crate::parse::{CopyOptions, CopyTextFormat};

/// Capacity of its buffers that one keeps which waits for its client.
const IDLE_CAPACITY_MAX: usize = 64 << 10;

/// Turns the bytes of `COPY … FROM STDIN` into rows of the columns named.
#[derive(Debug)]
pub(crate) struct CopyReader {
    table: String,
    columns: Vec<CopyColumn>,
    options: CopyOptions,
    null: Vec<u8>,
    marks: CsvMarks,
    /// Columns whose unquoted null text is not NULL, and whose quoted one is.
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    pending: Vec<u8>,
    /// How much of `pending` has been read.
    consumed: usize,
    lines: Lines,
    record: Record,
    /// Where in a binary record that has come in part the field behind those in `record` begins.
    field_at: usize,
    line: u64,
    /// Bounds in `pending` of the line that `record` was read from, for the context of errors.
    line_read: Option<(usize, usize)>,
    header_read: bool,
    ended: bool,
    finished: bool,
}

impl CopyReader {
    /// # Errors
    /// 42703 when an option names a column that is not copied.
    pub(crate) fn new(table: &str, columns: Vec<CopyColumn>, options: CopyOptions) -> SqlResult<CopyReader> {
        let flags = |names: &[String]| -> SqlResult<Vec<bool>> {
            for name in names {
                if !columns.iter().any(|column| column.name == *name) {
                    let message = format!("column \"{name}\" not referenced by COPY");
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
            }
            Ok(columns.iter().map(|column| names.contains(&column.name)).collect())
        };
        let (force_not_null, force_null) = (flags(&options.force_not_null)?, flags(&options.force_null)?);
        let csv = options.format == CopyTextFormat::Csv;
        let null = options.null.clone().unwrap_or_else(|| if csv { String::new() } else { "\\N".into() });
        let quote = options.quote.unwrap_or(b'"');
        let marks = CsvMarks {
            delimiter: options.delimiter.unwrap_or(if csv { b',' } else { b'\t' }),
            quote,
            escape: options.escape.unwrap_or(quote),
        };
        Ok(CopyReader {
            table: table.to_owned(),
            columns,
            options,
            null: null.into_bytes(),
            marks,
            force_not_null,
            force_null,
            pending: Vec::new(),
            consumed: 0,
            lines: Lines::new(csv.then_some(marks)),
            record: Record::default(),
            field_at: 0,
            line: 0,
            line_read: None,
            header_read: false,
            ended: false,
            finished: false,
        })
    }

    /// Takes a piece of the input.
    pub(crate) fn push(&mut self, data: &[u8]) {
        if data.is_empty() {
            // Called again: what there is stays where it is.
            return;
        }
        if self.consumed == self.pending.len() {
            self.pending.clear();
        } else {
            self.pending.drain(..self.consumed);
        }
        self.consumed = 0;
        self.line_read = None;
        self.pending.extend_from_slice(data);
    }

    /// Bytes that it keeps of a record that has come in part.
    pub(crate) fn kept(&self) -> usize {
        self.unread() + if self.field_at > 0 { self.record.bytes.len() } else { 0 }
    }

    /// Bytes of input that were not read yet.
    fn unread(&self) -> usize {
        self.pending.len() - self.consumed
    }

    /// More input is waited for: what was taken for long records that are read is given back.
    pub(crate) fn settle(&mut self) {
        if self.pending.capacity() > IDLE_CAPACITY_MAX.max(4 * self.unread()) {
            self.pending.drain(..self.consumed);
            self.pending.shrink_to_fit();
            (self.consumed, self.line_read) = (0, None);
        }
        if self.field_at == 0 && self.record.bytes.capacity() > IDLE_CAPACITY_MAX {
            self.record = Record::default();
        }
    }

    /// Says that no more input comes: a last line without its end is whole.
    ///
    /// # Errors
    /// 22P04 when binary input ends within its header or a record; its trailer may be missing.
    pub(crate) fn finish(&mut self) -> SqlResult<()> {
        self.finished = true;
        if self.options.format == CopyTextFormat::Binary && !self.ended {
            if !self.header_read {
                return Err(self.bad("COPY file signature not recognized"));
            }
            if self.unread() > 0 {
                return Err(self.bad("unexpected EOF in COPY data"));
            }
        }
        Ok(())
    }

    /// The next row that is whole, or `None` until more input comes.
    ///
    /// # Errors
    /// 22P04 for a record of the wrong shape, and what the types' input functions say.
    pub(crate) fn next_row(&mut self, context: &FormatContext) -> SqlResult<Option<Row>> {
        loop {
            if self.ended {
                return self.pass_over_rest().map(|()| None);
            }
            if !self.next_record()? {
                if self.ended {
                    continue;
                }
                return match self.unread() as u64 {
                    len if len > ROW_LEN_MAX.0 => Err(too_long()),
                    _ => Ok(None),
                };
            }
            if self.options.header && !self.header_read {
                self.header_read = true;
                self.check_header()?;
                continue;
            }
            return self.row(context).map(Some);
        }
    }

    /// The data have ended: of text nothing behind them is looked at.
    ///
    /// # Errors
    /// 22P04 for binary data, of which a part would be lost: those of several files, as it may be.
    fn pass_over_rest(&mut self) -> SqlResult<()> {
        if self.options.format == CopyTextFormat::Binary && self.unread() > 0 {
            return Err(self.bad("received copy data after EOF marker"));
        }
        self.consumed = self.pending.len();
        Ok(())
    }

    /// Reads the next record into `self.record`; false when it is not whole yet or the data has ended.
    fn next_record(&mut self) -> SqlResult<bool> {
        match self.options.format {
            CopyTextFormat::Binary => self.next_binary(),
            CopyTextFormat::Text => {
                let Some(line) = self.next_line()? else { return Ok(false) };
                text::split(
                    &self.pending[line.0..line.1],
                    self.marks.delimiter,
                    &self.null,
                    self.columns.len(),
                    &mut self.record,
                );
                Ok(true)
            }
            CopyTextFormat::Csv => {
                let Some(line) = self.next_line()? else { return Ok(false) };
                let rule = |column: usize, field: &[u8], quoted: bool| {
                    let flag = |flags: &[bool]| flags.get(column).copied().unwrap_or(false);
                    field == self.null.as_slice()
                        && if quoted { flag(&self.force_null) } else { !flag(&self.force_not_null) }
                };
                let max = self.columns.len();
                csv::split(&self.pending[line.0..line.1], self.marks, &rule, max, &mut self.record)
                    .map_err(|()| self.bad("unterminated CSV quoted field"))?;
                Ok(true)
            }
        }
    }

    /// Bounds of the next line without its end; `None` when it is not whole yet, or the data have ended. At the end marker they have.
    ///
    /// # Errors
    /// 22P04 for one that ends otherwise than those before it.
    fn next_line(&mut self) -> SqlResult<Option<(usize, usize)>> {
        let start = self.consumed;
        let line = match self.lines.next(&self.pending[start..], self.finished) {
            Ok(Line::Part) => return Ok(None),
            Ok(line) => line,
            Err((message, hint)) => {
                self.line += 1;
                self.line_read = None;
                let error = self.bad(message);
                return Err(match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                });
            }
        };
        let (len, next) = match line {
            Line::Whole { len, next } => (len, next),
            Line::Last { len } => {
                self.ended = true;
                if len == 0 {
                    return Ok(None);
                }
                (len, len)
            }
            Line::Part => unreachable!("handled above"),
        };
        self.consumed = start + next;
        self.line += 1;
        self.line_read = Some((start, start + len));
        Ok(self.line_read)
    }

    fn next_binary(&mut self) -> SqlResult<bool> {
        if !self.header_read {
            match binary::read_header(&self.pending[self.consumed..])? {
                binary::Piece::Header(len) => {
                    self.consumed += len;
                    self.header_read = true;
                }
                _ => return Ok(false),
            }
        }
        match binary::read_record(&self.pending[self.consumed..], &mut self.field_at, &mut self.record)? {
            binary::Piece::Record(len) => {
                self.consumed += len;
                self.line += 1;
                Ok(true)
            }
            binary::Piece::End(len) => {
                self.consumed += len;
                self.ended = true;
                Ok(false)
            }
            binary::Piece::Incomplete | binary::Piece::Header(_) => Ok(false),
        }
    }

    fn check_header(&self) -> SqlResult<()> {
        if !self.options.header_match {
            return Ok(());
        }
        if self.record.len() != self.columns.len() {
            return Err(self.bad("wrong number of fields in header line"));
        }
        for (index, column) in self.columns.iter().enumerate() {
            if self.record.field(index) != Some(column.name.as_bytes()) {
                let message = format!("column name mismatch in header line field {}", index + 1);
                return Err(self.bad(&message).with_detail(format!("expected \"{}\"", column.name)));
            }
        }
        Ok(())
    }

    fn row(&self, context: &FormatContext) -> SqlResult<Row> {
        let (found, wanted) = (self.record.len(), self.columns.len());
        if self.options.format == CopyTextFormat::Binary && found != wanted {
            return Err(self.bad(&format!("row field count is {found}, expected {wanted}")));
        }
        // An empty line is one empty field, and all of a row without columns.
        if wanted == 0 && found == 1 && self.record.field(0) == Some(b"") {
            return Ok(Row::new());
        }
        if found > wanted {
            return Err(self.bad("extra data after last expected column"));
        }
        let mut row = Row::with_capacity(wanted);
        let mut memory = 0;
        for (index, column) in self.columns.iter().enumerate() {
            if index >= found {
                return Err(self.bad(&format!("missing data for column \"{}\"", column.name)));
            }
            let value = match self.record.field(index) {
                None => Datum::Null,
                Some(bytes) => {
                    self.value(bytes, column, context).map_err(|error| self.located(error, column, bytes))?
                }
            };
            // Of type char(n) it may be many times as long as what it was read from.
            memory += value.heap_bytes() as u64;
            if memory > ROW_LEN_MAX.0 {
                return Err(too_long());
            }
            row.push(value);
        }
        Ok(row)
    }

    fn value(&self, bytes: &[u8], column: &CopyColumn, context: &FormatContext) -> SqlResult<Datum> {
        if self.options.format == CopyTextFormat::Binary {
            return types::parse_binary(bytes, column.ty, column.modifier, context);
        }
        types::parse_text(types::check_utf8(bytes)?, column.ty, column.modifier, context)
    }

    /// `error` of a value, with the place it stands at; binary values are not shown.
    fn located(&self, error: SqlError, column: &CopyColumn, bytes: &[u8]) -> SqlError {
        let place = format!("{}, column {}", self.place(), column.name);
        error.with_context(match self.options.format {
            CopyTextFormat::Binary => place,
            _ => format!("{place}: \"{}\"", shown(bytes)),
        })
    }

    /// Where in the input the reader stands, as the context of errors names it.
    pub(crate) fn place(&self) -> String {
        format!("COPY {}, line {}", self.table, self.line)
    }

    fn bad(&self, message: &str) -> SqlError {
        let place = self.place();
        SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message).with_context(match self.line_read {
            Some((start, end)) => format!("{place}: \"{}\"", shown(&self.pending[start..end])),
            None => place,
        })
    }
}

/// 54000.
fn too_long() -> SqlError {
    let message = format!("a row of the COPY data is longer than {ROW_LEN_MAX}");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// The beginning of what the input has, for the context of an error.
fn shown(bytes: &[u8]) -> String {
    /// PostgreSQL's MAX_COPY_DATA_DISPLAY.
    const SHOWN_CHARS_MAX: usize = 100;
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use types::{PgType, TypeMod};

    use super::*;

    #[test]
    fn a_record_that_is_read_takes_no_memory_and_one_that_came_in_part_is_counted() {
        const LEN: usize = 1 << 20;
        let long = "x".repeat(LEN);
        let [whole, part] = [LEN, 2]
            .map(|len| [&u32::try_from(len).unwrap().to_be_bytes()[..], &long.as_bytes()[..len]].concat());
        let header = [&binary::SIGNATURE[..], &[0; 8]].concat();
        let first = [&header[..], &[0, 2], &whole[..], &part].concat();
        let second = [&[0, 2][..], &whole].concat();
        for (format, first, second, end) in [
            (CopyTextFormat::Text, format!("{long}\txx\n").into_bytes(), b"x".repeat(10), &b"\tx\n"[..]),
            (CopyTextFormat::Csv, format!("{long},xx\n").into_bytes(), b"x".repeat(10), &b",x\n"[..]),
            (CopyTextFormat::Binary, first, second, &part[..]),
        ] {
            let column =
                |name: &str| CopyColumn { name: name.into(), ty: PgType::Text, modifier: TypeMod::NONE };
            let options = CopyOptions { format, ..CopyOptions::default() };
            let mut reader = CopyReader::new("t", vec![column("a"), column("b")], options).unwrap();
            let context = FormatContext::default();
            reader.push(&[&first[..], &second].concat());
            assert_eq!(reader.next_row(&context).unwrap().unwrap()[1], Datum::text("xx"));
            assert_eq!(reader.next_row(&context).unwrap(), None);
            reader.settle();
            let capacity = reader.pending.capacity() + reader.record.bytes.capacity();
            let in_part = second.len();
            assert!(capacity <= IDLE_CAPACITY_MAX + 4 * in_part, "{format:?} {capacity}");
            assert!((in_part..3 * in_part).contains(&reader.kept()), "{format:?} {}", reader.kept());
            reader.push(end);
            let row = reader.next_row(&context).unwrap().unwrap();
            let wanted = if format == CopyTextFormat::Binary { long.len() } else { 10 };
            assert_eq!(row[0], Datum::text(&long[..wanted]), "{format:?}");
            reader.settle();
            assert_eq!((reader.kept(), reader.pending.capacity() < 4 * IDLE_CAPACITY_MAX), (0, true));
        }
    }
}
