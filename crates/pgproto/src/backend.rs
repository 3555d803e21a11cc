//! What the server says, written into a buffer of the caller's.
//!
//! Every function appends one whole message. Lengths are patched in after the body, so nothing is sized beforehand.

use base::{Severity, SqlError};

use crate::frontend::Format;
use crate::startup::{CancelKey, PROTOCOL_VERSION};

/// A column of a result, as RowDescription tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a str,
    /// 0 if the column is not one of a table.
    pub table_oid: u32,
    /// Number of the column in that table, or 0.
    pub column: i16,
    pub type_oid: u32,
    pub type_len: i16,
    pub type_mod: i32,
    pub format: Format,
}

/// The transaction status in ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

impl TransactionStatus {
    /// The byte in ReadyForQuery.
    pub fn byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// Appends a message whose body `write` appends.
fn message(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = open(out, tag);
    write(out);
    close(out, start);
}

fn open(out: &mut Vec<u8>, tag: u8) -> usize {
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    out.len() - 4
}

/// Appends a message without a body.
fn bare(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

fn close(out: &mut [u8], start: usize) {
    let len = u32::try_from(out.len() - start).expect("a message is below 4 GiB");
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

fn cstr(out: &mut Vec<u8>, text: &str) {
    match text.as_bytes().contains(&0) {
        false => out.extend_from_slice(text.as_bytes()),
        // A NUL inside would end the field early and shift all that follow.
        true => out.extend(text.bytes().filter(|&b| b != 0)),
    }
    out.push(0);
}

fn put_i16(out: &mut Vec<u8>, n: i16) {
    out.extend(n.to_be_bytes());
}

fn put_count(out: &mut Vec<u8>, n: usize) {
    out.extend(u16::try_from(n).expect("counts on the wire are 16 bits").to_be_bytes());
}

fn put_u32(out: &mut Vec<u8>, n: u32) {
    out.extend(n.to_be_bytes());
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, b'R', |out| put_u32(out, 0));
}

/// AuthenticationSASL: the mechanisms offered.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        put_u32(out, 10);
        for name in mechanisms {
            cstr(out, name);
        }
        out.push(0);
    });
}

/// AuthenticationSASLContinue.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'R', |out| {
        put_u32(out, 11);
        out.extend(data);
    });
}

/// AuthenticationSASLFinal.
pub fn authentication_sasl_final(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'R', |out| {
        put_u32(out, 12);
        out.extend(data);
    });
}

/// BackendKeyData.
pub fn backend_key_data(out: &mut Vec<u8>, key: CancelKey) {
    message(out, b'K', |out| {
        put_u32(out, key.process_id);
        put_u32(out, key.secret);
    });
}

/// NegotiateProtocolVersion: we speak 3.0 and know none of `unknown_options`.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, unknown_options: &[&str]) {
    message(out, b'v', |out| {
        // The whole version, as PostgreSQL says it: clients take a minor one alone for a version before 3.0.
        put_u32(out, PROTOCOL_VERSION);
        put_u32(out, u32::try_from(unknown_options.len()).expect("few options"));
        for name in unknown_options {
            cstr(out, name);
        }
    });
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        cstr(out, name);
        cstr(out, value);
    });
}

/// ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status.byte()]);
}

/// ParseComplete.
pub fn parse_complete(out: &mut Vec<u8>) {
    bare(out, b'1');
}

/// BindComplete.
pub fn bind_complete(out: &mut Vec<u8>) {
    bare(out, b'2');
}

/// CloseComplete.
pub fn close_complete(out: &mut Vec<u8>) {
    bare(out, b'3');
}

/// NoData.
pub fn no_data(out: &mut Vec<u8>) {
    bare(out, b'n');
}

/// PortalSuspended: the row limit of an Execute was reached.
pub fn portal_suspended(out: &mut Vec<u8>) {
    bare(out, b's');
}

/// EmptyQueryResponse.
pub fn empty_query_response(out: &mut Vec<u8>) {
    bare(out, b'I');
}

/// CommandComplete with the command's tag, such as `INSERT 0 1`.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| cstr(out, tag));
}

/// ParameterDescription.
pub fn parameter_description(out: &mut Vec<u8>, oids: &[u32]) {
    message(out, b't', |out| {
        put_count(out, oids.len());
        for &oid in oids {
            put_u32(out, oid);
        }
    });
}

/// RowDescription.
pub fn row_description<'a>(out: &mut Vec<u8>, fields: impl ExactSizeIterator<Item = Field<'a>>) {
    message(out, b'T', |out| {
        put_count(out, fields.len());
        for field in fields {
            cstr(out, field.name);
            put_u32(out, field.table_oid);
            put_i16(out, field.column);
            put_u32(out, field.type_oid);
            put_i16(out, field.type_len);
            put_u32(out, field.type_mod.cast_unsigned());
            put_i16(out, field.format.code());
        }
    });
}

/// A DataRow being written. Dropping it unfinished leaves a broken message: call [`RowWriter::finish`] or
/// [`RowWriter::abandon`].
#[must_use]
pub struct RowWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    columns_left: usize,
}

impl<'a> RowWriter<'a> {
    /// Begins a row of `columns` values.
    pub fn begin(out: &'a mut Vec<u8>, columns: usize) -> RowWriter<'a> {
        let start = open(out, b'D');
        put_count(out, columns);
        RowWriter { out, start, columns_left: columns }
    }

    /// Appends NULL.
    pub fn null(&mut self) {
        self.columns_left -= 1;
        put_u32(self.out, u32::MAX);
    }

    /// Appends the value `write` appends to the buffer.
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.columns_left -= 1;
        let at = self.out.len();
        put_u32(self.out, 0);
        write(self.out);
        let len = u32::try_from(self.out.len() - at - 4).expect("a value is below 4 GiB");
        self.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Completes the message.
    pub fn finish(self) {
        assert_eq!(self.columns_left, 0, "a row has as many values as it announced");
        close(self.out, self.start);
    }

    /// Takes the row back out of the buffer.
    pub fn abandon(self) {
        self.out.truncate(self.start - 1);
    }
}

/// A COPY's start, with the format of the whole and of its columns.
fn copy_response(out: &mut Vec<u8>, tag: u8, format: Format, columns: usize) {
    message(out, tag, |out| {
        out.push(u8::from(format == Format::Binary));
        put_count(out, columns);
        for _ in 0..columns {
            put_i16(out, format.code());
        }
    });
}

/// CopyInResponse: the client sends next.
pub fn copy_in_response(out: &mut Vec<u8>, format: Format, columns: usize) {
    copy_response(out, b'G', format, columns);
}

/// CopyOutResponse: the data follows.
pub fn copy_out_response(out: &mut Vec<u8>, format: Format, columns: usize) {
    copy_response(out, b'H', format, columns);
}

/// CopyData with what `write` appends.
pub fn copy_data(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'd', write);
}

/// CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    bare(out, b'c');
}

/// ErrorResponse or, for a warning or notice, NoticeResponse, with all fields that are set.
pub fn report(out: &mut Vec<u8>, error: &SqlError) {
    let tag = match error.severity() {
        Severity::Error | Severity::Fatal => b'E',
        Severity::Warning | Severity::Notice => b'N',
    };
    message(out, tag, |out| {
        let mut field = |code: u8, text: &str| {
            out.push(code);
            cstr(out, text);
        };
        field(b'S', error.severity().as_str());
        field(b'V', error.severity().as_str());
        field(b'C', error.state().as_str());
        field(b'M', error.message());
        let position = error.position().map(|p| p.to_string());
        let optional = [
            (b'D', error.detail()),
            (b'H', error.hint()),
            (b'P', position.as_deref()),
            (b'W', error.context()),
            (b's', error.schema()),
            (b't', error.table()),
            (b'c', error.column()),
            (b'd', error.data_type()),
            (b'n', error.constraint()),
        ];
        for (code, text) in optional {
            if let Some(text) = text {
                field(code, text);
            }
        }
        out.push(0);
    });
}

/// NotificationResponse.
pub fn notification(out: &mut Vec<u8>, process_id: u32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        put_u32(out, process_id);
        cstr(out, channel);
        cstr(out, payload);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SqlState;

    #[test]
    fn a_row_is_framed_with_its_values() {
        let mut out = Vec::new();
        let mut row = RowWriter::begin(&mut out, 2);
        row.value(|out| out.extend(b"ab"));
        row.null();
        row.finish();
        assert_eq!(out, b"D\0\0\0\x10\0\x02\0\0\0\x02ab\xff\xff\xff\xff");
        RowWriter::begin(&mut out, 1).abandon();
        assert_eq!(out.len(), 17);
    }

    #[test]
    fn a_report_carries_its_fields() {
        let mut out = Vec::new();
        let error = SqlError::new(SqlState::UNIQUE_VIOLATION, "dup\0licate").with_table("t").with_position(7);
        report(&mut out, &error);
        assert_eq!(&out[5..], b"SERROR\0VERROR\0C23505\0Mduplicate\0P7\0tt\0\0");
        out.clear();
        report(&mut out, &error.with_severity(Severity::Notice));
        assert_eq!(out[0], b'N');
    }

    #[test]
    fn short_messages_are_whole() {
        let mut out = Vec::new();
        bind_complete(&mut out);
        command_complete(&mut out, "INSERT 0 1");
        ready_for_query(&mut out, TransactionStatus::InTransaction);
        assert_eq!(out, b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05T");
    }

    #[test]
    fn the_version_that_is_spoken_is_told_whole() {
        let mut out = Vec::new();
        negotiate_protocol_version(&mut out, &["_pq_.a"]);
        assert_eq!(out, b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.a\0");
    }
}
