//! PostgreSQL's binary form: a signature, then records of length-prefixed values in their binary send form.

use base::{SqlError, SqlState};

use super::Record;

pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Bytes of signature, flags and the header extension's length.
const HEADER_LEN: usize = SIGNATURE.len() + 8;

/// What the bytes at hand begin with.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// More bytes are needed to tell.
    Incomplete,
    /// This many bytes make the header.
    Header(usize),
    /// This many bytes make a record, whose fields are in the record.
    Record(usize),
    /// The trailer of this many bytes.
    End(usize),
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn read_i16(data: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}
fn read_i32(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the header.
pub(super) fn read_header(data: &[u8]) -> Result<Piece, SqlError> {
    let known = data.len().min(SIGNATURE.len());
    if data[..known] != SIGNATURE[..known] {
        return Err(bad("COPY file signature not recognized"));
    }
    let (Some(flags), Some(extension)) =
        (read_i32(data, SIGNATURE.len()), read_i32(data, SIGNATURE.len() + 4))
    else {
        return Ok(Piece::Incomplete);
    };
    // The upper half of the flags are critical: an unknown one must stop the reader.
    if flags & !0xffff != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let extension = usize::try_from(extension).map_err(|_| bad("invalid COPY file header (wrong length)"))?;
    if data.len() < HEADER_LEN + extension {
        return Ok(Piece::Incomplete);
    }
    Ok(Piece::Header(HEADER_LEN + extension))
}

/// Reads a record or the trailer. A record of which more is needed is gone on with from where it was: behind the fields that `record` has, at `at`,
/// which is 0 before its first.
pub(super) fn read_record(data: &[u8], at: &mut usize, record: &mut Record) -> Result<Piece, SqlError> {
    let Some(count) = read_i16(data, 0) else { return Ok(Piece::Incomplete) };
    if count == -1 {
        return Ok(Piece::End(2));
    }
    if *at == 0 {
        record.clear();
        *at = 2;
    }
    for _ in record.len()..usize::try_from(count).unwrap_or(0) {
        let Some(len) = read_i32(data, *at) else { return Ok(Piece::Incomplete) };
        let begin = *at + 4;
        if len == -1 {
            record.begin_field();
            record.end_field(true);
            *at = begin;
            continue;
        }
        let len = usize::try_from(len).map_err(|_| bad("invalid field size"))?;
        let Some(value) = data.get(begin..begin + len) else { return Ok(Piece::Incomplete) };
        record.begin_field();
        record.bytes.extend_from_slice(value);
        record.end_field(false);
        *at = begin + len;
    }
    Ok(Piece::Record(std::mem::take(at)))
}

/// Appends the header.
pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

/// Appends the trailer.
pub(super) fn write_trailer(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i16).to_be_bytes());
}
