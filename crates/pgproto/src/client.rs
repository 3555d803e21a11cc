//! The client's half, for tests and for tools that speak to a server: frontend messages written, backend messages
//! cut and their fields read.

use base::{SqlResult, SqlState};

use crate::frame::Frame;
use crate::reader::{Reader, violation};
use crate::startup::{CancelKey, PROTOCOL_VERSION};

fn message(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend(u32::try_from(body.len() + 4).expect("a message is below 4 GiB").to_be_bytes());
    out.extend(body);
}

fn cstr(out: &mut Vec<u8>, text: &str) {
    out.extend(text.as_bytes());
    out.push(0);
}

/// StartupMessage with `parameters`, `user` among them.
pub fn startup(out: &mut Vec<u8>, parameters: &[(&str, &str)]) {
    let mut body = PROTOCOL_VERSION.to_be_bytes().to_vec();
    for (name, value) in parameters {
        cstr(&mut body, name);
        cstr(&mut body, value);
    }
    body.push(0);
    out.extend(u32::try_from(body.len() + 4).expect("small").to_be_bytes());
    out.extend(body);
}

/// SSLRequest.
pub fn ssl_request(out: &mut Vec<u8>) {
    out.extend([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
}

/// CancelRequest.
pub fn cancel_request(out: &mut Vec<u8>, key: CancelKey) {
    out.extend([0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e]);
    out.extend(key.process_id.to_be_bytes());
    out.extend(key.secret.to_be_bytes());
}

/// Query.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    let mut body = Vec::with_capacity(sql.len() + 1);
    cstr(&mut body, sql);
    message(out, b'Q', &body);
}

/// Parse.
pub fn parse(out: &mut Vec<u8>, statement: &str, sql: &str, oids: &[u32]) {
    let mut body = Vec::new();
    cstr(&mut body, statement);
    cstr(&mut body, sql);
    body.extend(u16::try_from(oids.len()).expect("few").to_be_bytes());
    for oid in oids {
        body.extend(oid.to_be_bytes());
    }
    message(out, b'P', &body);
}

/// Bind.
pub fn bind(
    out: &mut Vec<u8>,
    portal: &str,
    statement: &str,
    formats: &[i16],
    values: &[Option<&[u8]>],
    result_formats: &[i16],
) {
    let mut body = Vec::new();
    let codes = |body: &mut Vec<u8>, codes: &[i16]| {
        body.extend(u16::try_from(codes.len()).expect("few").to_be_bytes());
        for code in codes {
            body.extend(code.to_be_bytes());
        }
    };
    cstr(&mut body, portal);
    cstr(&mut body, statement);
    codes(&mut body, formats);
    body.extend(u16::try_from(values.len()).expect("few").to_be_bytes());
    for value in values {
        match value {
            None => body.extend((-1i32).to_be_bytes()),
            Some(value) => {
                body.extend(u32::try_from(value.len()).expect("below 4 GiB").to_be_bytes());
                body.extend(*value);
            }
        }
    }
    codes(&mut body, result_formats);
    message(out, b'B', &body);
}

/// Describe; `kind` is `S` or `P`.
pub fn describe(out: &mut Vec<u8>, kind: u8, name: &str) {
    let mut body = vec![kind];
    cstr(&mut body, name);
    message(out, b'D', &body);
}

/// Close; `kind` is `S` or `P`.
pub fn close(out: &mut Vec<u8>, kind: u8, name: &str) {
    let mut body = vec![kind];
    cstr(&mut body, name);
    message(out, b'C', &body);
}

/// Execute; 0 rows means all.
pub fn execute(out: &mut Vec<u8>, portal: &str, rows_max: u32) {
    let mut body = Vec::new();
    cstr(&mut body, portal);
    body.extend(rows_max.to_be_bytes());
    message(out, b'E', &body);
}

/// Sync.
pub fn sync(out: &mut Vec<u8>) {
    message(out, b'S', b"");
}

/// Flush.
pub fn flush(out: &mut Vec<u8>) {
    message(out, b'H', b"");
}

/// Terminate.
pub fn terminate(out: &mut Vec<u8>) {
    message(out, b'X', b"");
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'd', data);
}

/// CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    message(out, b'c', b"");
}

/// CopyFail.
pub fn copy_fail(out: &mut Vec<u8>, reason: &str) {
    let mut body = Vec::new();
    cstr(&mut body, reason);
    message(out, b'f', &body);
}

/// SASLInitialResponse.
pub fn sasl_initial_response(out: &mut Vec<u8>, mechanism: &str, response: &[u8]) {
    let mut body = Vec::new();
    cstr(&mut body, mechanism);
    body.extend(u32::try_from(response.len()).expect("small").to_be_bytes());
    body.extend(response);
    message(out, b'p', &body);
}

/// SASLResponse.
pub fn sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    message(out, b'p', response);
}

/// The first whole backend message of `stream`, or `None` if more bytes are needed.
///
/// # Errors
/// 08P01 for a length below its own.
pub fn next(stream: &[u8]) -> SqlResult<Option<Frame<'_>>> {
    let Some(header) = stream.get(..5) else { return Ok(None) };
    let len = u32::from_be_bytes(header[1..5].try_into().expect("four bytes")) as usize;
    if len < 4 {
        return Err(violation("invalid message length"));
    }
    Ok(stream.get(5..1 + len).map(|body| Frame { tag: header[0], body }))
}

/// The values of a DataRow; `None` is NULL.
///
/// # Errors
/// 08P01 when malformed.
pub fn data_row(body: &[u8]) -> SqlResult<Vec<Option<&[u8]>>> {
    let mut reader = Reader::new(body);
    let n = reader.i16()?.cast_unsigned();
    let mut values = Vec::with_capacity(n as usize);
    for _ in 0..n {
        values.push(match reader.i32()? {
            -1 => None,
            len => Some(reader.bytes(usize::try_from(len).map_err(|_| violation("invalid length"))?)?),
        });
    }
    reader.end()?;
    Ok(values)
}

/// The fields of an ErrorResponse or NoticeResponse by code.
///
/// # Errors
/// 08P01 when malformed.
pub fn report_fields(body: &[u8]) -> SqlResult<Vec<(u8, &str)>> {
    let mut reader = Reader::new(body);
    let mut fields = Vec::new();
    loop {
        match reader.u8()? {
            0 => break,
            code => fields.push((code, reader.c_str()?)),
        }
    }
    reader.end()?;
    Ok(fields)
}

/// The SQLSTATE of an ErrorResponse or NoticeResponse.
///
/// # Errors
/// 08P01 when malformed or without one.
pub fn report_state(body: &[u8]) -> SqlResult<SqlState> {
    report_fields(body)?
        .into_iter()
        .find(|(code, _)| *code == b'C')
        .and_then(|(_, text)| text.as_bytes().try_into().ok())
        .map(SqlState)
        .ok_or_else(|| violation("a report without SQLSTATE"))
}

/// The key of a BackendKeyData.
///
/// # Errors
/// 08P01 when malformed.
pub fn backend_key_data(body: &[u8]) -> SqlResult<CancelKey> {
    let mut reader = Reader::new(body);
    let key = CancelKey { process_id: reader.i32()?.cast_unsigned(), secret: reader.i32()?.cast_unsigned() };
    reader.end()?;
    Ok(key)
}
