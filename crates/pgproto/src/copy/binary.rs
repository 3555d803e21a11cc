//! Binary: a signature, then rows as counts, lengths and bytes.

use base::SqlResult;

use super::{RowBuf, bad_format};

/// What a binary COPY starts with.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Bytes the signature, flags and header extension take, or `None` if more are needed.
pub(super) fn signature(input: &[u8]) -> SqlResult<Option<usize>> {
    let known = input.len().min(SIGNATURE.len());
    if input[..known] != SIGNATURE[..known] {
        return Err(bad_format("COPY file signature not recognized"));
    }
    let Some(rest) = input.get(11..19) else { return Ok(None) };
    let flags = u32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
    if flags & (1 << 16) != 0 {
        return Err(bad_format("invalid COPY file header (WITH OIDS)"));
    }
    if flags >> 17 != 0 {
        return Err(bad_format("unrecognized critical flags in COPY file header"));
    }
    let extension = i32::from_be_bytes(rest[4..].try_into().expect("four bytes"));
    let extension =
        usize::try_from(extension).map_err(|_| bad_format("invalid COPY file header (missing length)"))?;
    Ok((input.len() >= 19 + extension).then_some(19 + extension))
}

pub(super) enum Found {
    /// Of this many bytes.
    Row(usize),
    End,
    Incomplete,
}

/// The row at the head of `input`, its values appended to `row`.
pub(super) fn row(input: &[u8], row: &mut RowBuf) -> SqlResult<Found> {
    let Some(count) = input.get(..2) else { return Ok(Found::Incomplete) };
    let count = i16::from_be_bytes([count[0], count[1]]);
    if count == -1 {
        return Ok(Found::End);
    }
    if count < 0 {
        return Err(bad_format(format!("row field count is {count}")));
    }
    let mut at = 2;
    for _ in 0..count {
        let Some(len) = input.get(at..at + 4) else { return Ok(Found::Incomplete) };
        let len = i32::from_be_bytes(len.try_into().expect("four bytes"));
        at += 4;
        if len == -1 {
            row.end_null();
            continue;
        }
        let len = usize::try_from(len).map_err(|_| bad_format("invalid field size"))?;
        let Some(value) = input.get(at..at + len) else { return Ok(Found::Incomplete) };
        row.bytes.extend(value);
        row.end_value();
        at += len;
    }
    Ok(Found::Row(at))
}
