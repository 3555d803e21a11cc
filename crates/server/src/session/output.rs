//! What a session said and was not sent yet: PostgreSQL messages in one buffer.

use base::SqlError;
use pgproto::backend;
use pgproto::frontend::Format as WireFormat;
use sql::session::{CopyShape, Field, Format, Formats, Reply};

/// A session's output buffer. Positions count all bytes since the session began, so that a mark stays valid, or is
/// known to be gone, when part of the output has been sent.
#[derive(Default)]
pub(crate) struct Output {
    buf: Vec<u8>,
    /// Position of the buffer's first byte.
    sent: usize,
    /// Start of the length word of the row being written.
    row: Option<usize>,
}

/// Capacity an idle session's buffer keeps.
const IDLE_CAPACITY_MAX: usize = 1 << 10;
/// Capacity that a sent buffer keeps for what the session says next: twice what is sent at a time, but for long rows and the batches of wide ones that come from analytical threads.
const REUSED_CAPACITY_MAX: usize = 512 << 10;

impl Output {
    /// Continues what was said before the session began.
    pub(crate) fn new(buf: Vec<u8>) -> Output {
        Output { buf, sent: 0, row: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.buf.len()
    }

    /// The buffer, for messages [`Reply`] does not have.
    pub(crate) fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Takes everything to be sent.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        debug_assert!(self.row.is_none(), "a row is being written");
        self.sent += self.buf.len();
        std::mem::take(&mut self.buf)
    }

    /// Gives the sent buffer back for use. What a long row took is not kept for it: nobody counts that once it is sent, and what follows may run for long, or
    /// wait for a client that does not read.
    pub(crate) fn reuse(&mut self, mut buf: Vec<u8>) {
        if buf.capacity() <= REUSED_CAPACITY_MAX {
            buf.clear();
            self.buf = buf;
        }
    }

    /// Gives memory back before a wait of unknown length.
    pub(crate) fn shrink(&mut self) {
        if self.buf.is_empty() && self.buf.capacity() > IDLE_CAPACITY_MAX {
            self.buf = Vec::new();
        }
    }

    pub(crate) fn report(&mut self, error: &SqlError) {
        backend::report(&mut self.buf, error);
    }
}

fn wire(format: Format) -> WireFormat {
    match format {
        Format::Text => WireFormat::Text,
        Format::Binary => WireFormat::Binary,
    }
}

impl Reply for Output {
    fn row_description(&mut self, fields: &[Field], formats: &Formats) {
        let fields = fields.iter().enumerate().map(|(i, field)| backend::Field {
            name: &field.name,
            table_oid: field.table_oid,
            column: field.attribute,
            type_oid: field.ty.oid(),
            type_len: field.ty.type_len(),
            type_mod: field.modifier.0,
            format: wire(formats.of(i)),
        });
        backend::row_description(&mut self.buf, fields);
    }
    fn no_data(&mut self) {
        backend::no_data(&mut self.buf);
    }
    fn parameter_description(&mut self, type_oids: &[u32]) {
        backend::parameter_description(&mut self.buf, type_oids);
    }
    fn parse_complete(&mut self) {
        backend::parse_complete(&mut self.buf);
    }
    fn bind_complete(&mut self) {
        backend::bind_complete(&mut self.buf);
    }
    fn close_complete(&mut self) {
        backend::close_complete(&mut self.buf);
    }
    fn begin_row(&mut self, columns: usize) -> &mut Vec<u8> {
        debug_assert!(self.row.is_none(), "a row is being written");
        self.buf.extend(b"D\0\0\0\0");
        self.row = Some(self.buf.len() - 4);
        let columns = u16::try_from(columns).expect("columns fit the protocol");
        self.buf.extend(columns.to_be_bytes());
        &mut self.buf
    }
    fn end_row(&mut self) {
        let start = self.row.take().expect("a row was begun");
        let len = u32::try_from(self.buf.len() - start).expect("a row is shorter than ROW_LEN_MAX");
        self.buf[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }
    fn encoded_rows(&mut self, rows: &[u8]) {
        self.buf.extend_from_slice(rows);
    }
    fn command_complete(&mut self, tag: &str) {
        backend::command_complete(&mut self.buf, tag);
    }
    fn empty_query(&mut self) {
        backend::empty_query_response(&mut self.buf);
    }
    fn portal_suspended(&mut self) {
        backend::portal_suspended(&mut self.buf);
    }
    fn notice(&mut self, notice: &SqlError) {
        backend::report(&mut self.buf, notice);
    }
    fn parameter_status(&mut self, name: &str, value: &str) {
        backend::parameter_status(&mut self.buf, name, value);
    }
    fn copy_in(&mut self, shape: CopyShape) {
        backend::copy_in_response(&mut self.buf, wire(shape.format), shape.columns as usize);
    }
    fn copy_out(&mut self, shape: CopyShape) {
        backend::copy_out_response(&mut self.buf, wire(shape.format), shape.columns as usize);
    }
    fn copy_done(&mut self) {
        backend::copy_done(&mut self.buf);
    }
    fn mark(&self) -> usize {
        self.sent + self.buf.len()
    }
    fn rewind(&mut self, mark: usize) {
        assert!(mark >= self.sent, "what was sent cannot be taken back");
        self.buf.truncate(mark - self.sent);
        self.row = None;
    }
    fn buffered(&self) -> usize {
        self.buf.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_outlives_what_was_sent_before_it() {
        let mut output = Output::default();
        output.command_complete("A");
        let sent = output.take();
        output.reuse(sent);
        let mark = output.mark();
        output.begin_row(1).extend(b"\0\0\0\x01x");
        output.rewind(mark);
        output.empty_query();
        assert_eq!(output.take(), b"I\0\0\0\x04");
    }

    #[test]
    fn what_a_long_row_took_is_not_kept_behind_it() {
        let mut output = Output::default();
        for (len, is_kept) in [(64 << 10, true), (2 << 20, false)] {
            output.encoded_rows(&vec![7; len]);
            let sent = output.take();
            output.reuse(sent);
            assert!(output.is_empty());
            assert_eq!(output.buf.capacity() >= len, is_kept, "{len}");
        }
        assert_eq!(output.buf.capacity(), 0);
    }

    #[test]
    #[should_panic(expected = "cannot be taken back")]
    fn what_was_sent_cannot_be_taken_back() {
        let mut output = Output::default();
        let mark = output.mark();
        output.command_complete("A");
        output.take();
        output.rewind(mark);
    }
}
