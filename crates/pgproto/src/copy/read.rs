//! Finds rows in a stream of pieces and hands their values out.

use base::SqlResult;

use super::{CopyRow, Header, RowBuf, RowFormat, bad_format, binary, csv, text};
use crate::reader::utf8;

/// Reads the rows of a COPY FROM STDIN: [`RowReader::push`] pieces, take rows until there is none, at the end
/// [`RowReader::finish`] and take the last.
pub struct RowReader {
    format: RowFormat,
    input: Vec<u8>,
    /// Bytes of `input` already handed out.
    used: usize,
    /// Bytes of the row at `used` already looked through for its end, and the scan's state there.
    scan: Scan,
    row: RowBuf,
    header: Option<Vec<Option<String>>>,
    header_pending: bool,
    /// Rows of text or CSV, or tuples, handed out so far.
    line: u64,
    /// No more input follows.
    finished: bool,
    /// The end marker was read; what follows is ignored.
    ended: bool,
    signature_read: bool,
}

/// A search for the end of a row that can go on when more input came.
#[derive(Clone, Copy, Default)]
pub(super) struct Scan {
    pub(super) at: usize,
    pub(super) in_quotes: bool,
}

/// A row found in text or CSV: its bytes without the line end, and those with it.
pub(super) struct Line {
    pub(super) len: usize,
    pub(super) len_with_end: usize,
}

impl RowReader {
    pub fn new(format: RowFormat) -> RowReader {
        RowReader {
            header_pending: format.header() == Header::Line,
            format,
            input: Vec::new(),
            used: 0,
            scan: Scan::default(),
            row: RowBuf::default(),
            header: None,
            line: 0,
            finished: false,
            ended: false,
            signature_read: false,
        }
    }

    /// Adds input.
    pub fn push(&mut self, data: &[u8]) {
        if self.ended {
            return;
        }
        if self.used > 0 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        self.input.extend_from_slice(data);
    }

    /// The input ends here: a last row without line end counts.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Line (row, in binary) of the last row handed out, counted from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The values of the header line, once it was read.
    pub fn header(&self) -> Option<&[Option<String>]> {
        self.header.as_deref()
    }

    /// The next row, or `None`: push more, or after [`RowReader::finish`] the end.
    ///
    /// # Errors
    /// 22P04 for what is not of the format, 22021 for text that is not UTF-8.
    pub fn next_row(&mut self) -> SqlResult<Option<CopyRow<'_>>> {
        let found = loop {
            if self.ended {
                break false;
            }
            let found = match self.format {
                RowFormat::Binary => self.binary_row()?,
                _ => self.line_row()?,
            };
            if found && self.header_pending {
                self.header_pending = false;
                let text = |v: Option<&[u8]>| v.map(|v| String::from_utf8_lossy(v).into_owned());
                self.header = Some(CopyRow(&self.row).iter().map(text).collect());
                continue;
            }
            break found;
        };
        Ok(found.then_some(CopyRow(&self.row)))
    }

    fn line_row(&mut self) -> SqlResult<bool> {
        let input = &self.input[self.used..];
        let found = match &self.format {
            RowFormat::Csv(csv) => csv::find_line(input, csv, &mut self.scan),
            _ => text::find_line(input, &mut self.scan),
        };
        let line = match found {
            Some(line) => line,
            None if self.finished && !input.is_empty() => {
                // A carriage return at the very end may have been the start of a longer line end.
                let len = input.strip_suffix(b"\r").unwrap_or(input).len();
                Line { len, len_with_end: input.len() }
            }
            None => return Ok(false),
        };
        self.line += 1;
        let unterminated_quote =
            found_none_in_quotes(&self.scan, line.len_with_end, input.len(), self.finished);
        let bytes = &input[..line.len];
        if bytes == b"\\." && !self.scan.in_quotes {
            self.ended = true;
            self.input = Vec::new();
            self.used = 0;
            return Ok(false);
        }
        if unterminated_quote {
            return Err(bad_format("unterminated CSV quoted field"));
        }
        utf8(bytes)?;
        self.row.clear();
        match &self.format {
            RowFormat::Csv(csv) => csv::split(bytes, csv, &mut self.row),
            RowFormat::Text { delimiter, null, .. } => {
                text::split(bytes, *delimiter, null.as_bytes(), &mut self.row)?;
            }
            RowFormat::Binary => unreachable!("binary rows have no lines"),
        }
        self.used += line.len_with_end;
        self.scan = Scan::default();
        Ok(true)
    }

    fn binary_row(&mut self) -> SqlResult<bool> {
        if !self.signature_read {
            match binary::signature(&self.input[self.used..])? {
                Some(len) => {
                    self.used += len;
                    self.signature_read = true;
                }
                None if self.finished => return Err(bad_format("COPY file signature not recognized")),
                None => return Ok(false),
            }
        }
        self.row.clear();
        match binary::row(&self.input[self.used..], &mut self.row)? {
            binary::Found::Row(len) => {
                self.used += len;
                self.line += 1;
                Ok(true)
            }
            binary::Found::End => {
                self.ended = true;
                Ok(false)
            }
            binary::Found::Incomplete if self.finished => {
                if self.input.len() == self.used {
                    self.ended = true;
                    return Ok(false);
                }
                Err(bad_format("unexpected EOF in COPY data"))
            }
            binary::Found::Incomplete => Ok(false),
        }
    }
}

/// Did the input end inside a quoted field?
fn found_none_in_quotes(scan: &Scan, len_with_end: usize, input_len: usize, finished: bool) -> bool {
    finished && len_with_end == input_len && scan.in_quotes
}
