//! Cuts a received byte stream into messages.
//!
//! A message is a tag byte and a big-endian length that counts itself. Nothing is allocated for a length that was
//! only announced: the caller's buffer grows with what arrives, and an absurd length is refused at once.

use base::limits::{MESSAGE_LEN_MAX, STARTUP_MESSAGE_LEN_MAX};
use base::{SqlError, SqlResult, SqlState};

/// One message, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub tag: u8,
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Bytes the message takes in the stream.
    pub fn wire_len(&self) -> usize {
        1 + 4 + self.body.len()
    }
}

/// Longest body of the messages that carry no text or data of unbounded size.
const SMALL_BODY_LEN_MAX: usize = 10_000;

fn fatal(message: String) -> SqlError {
    SqlError::fatal(SqlState::PROTOCOL_VIOLATION, message)
}

fn body_len_max(tag: u8) -> Option<usize> {
    match tag {
        b'Q' | b'P' | b'B' | b'F' | b'd' => Some(MESSAGE_LEN_MAX.0 as usize),
        b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => Some(SMALL_BODY_LEN_MAX),
        _ => None,
    }
}

/// The first whole message of `stream`, or `None` if more bytes are needed.
///
/// # Errors
/// 08P01, fatal: an unknown tag or a length out of range, after which the stream cannot be followed.
pub fn next(stream: &[u8]) -> SqlResult<Option<Frame<'_>>> {
    let Some(&tag) = stream.first() else { return Ok(None) };
    let Some(max) = body_len_max(tag) else {
        return Err(fatal(format!("invalid frontend message type {tag}")));
    };
    let Some(len) = stream.get(1..5) else { return Ok(None) };
    let len = u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
    if len < 4 || len - 4 > max {
        return Err(fatal("invalid message length".into()));
    }
    Ok(stream.get(5..1 + len).map(|body| Frame { tag, body }))
}

/// Bytes the first message of `stream` will take once it is whole, if its header is there; a hint for the buffer.
pub fn announced_len(stream: &[u8]) -> Option<usize> {
    let len = stream.get(1..5)?;
    Some(1 + u32::from_be_bytes(len.try_into().expect("four bytes")) as usize)
}

/// The first message of a connection, which has no tag: its body after the length word, or `None` if more is needed.
///
/// # Errors
/// 08P01, fatal: the length is out of range.
pub fn next_startup(stream: &[u8]) -> SqlResult<Option<&[u8]>> {
    let Some(len) = stream.get(..4) else { return Ok(None) };
    let len = u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
    if len < 8 || len > STARTUP_MESSAGE_LEN_MAX.0 as usize {
        return Err(fatal("invalid length of startup packet".into()));
    }
    Ok(stream.get(4..len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_message_asks_for_more() {
        let whole = b"Q\0\0\0\x0dselect 1\0";
        for n in 0..whole.len() {
            assert_eq!(next(&whole[..n]).unwrap(), None, "{n} bytes");
        }
        let frame = next(whole).unwrap().unwrap();
        assert_eq!(frame, Frame { tag: b'Q', body: b"select 1\0" });
        assert_eq!(frame.wire_len(), whole.len());
    }

    #[test]
    fn a_two_gigabyte_length_word_is_refused_from_its_header_alone() {
        let error = next(b"Q\x7f\xff\xff\xff").unwrap_err();
        assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION);
        assert!(next(b"Q\xff\xff\xff\xff").is_err());
        assert!(next(b"Q\0\0\0\x03").is_err());
        assert!(next(b"S\0\0\xff\xff").is_err());
        assert!(next_startup(b"\x7f\xff\xff\xff").is_err());
        assert!(next_startup(b"\0\0\0\x07").is_err());
    }

    #[test]
    fn an_unknown_tag_ends_the_session() {
        let error = next(b"GET / HTTP/1.1\r\n").unwrap_err();
        assert_eq!(error.severity(), base::Severity::Fatal);
    }
}
