//! Reads the fields of one message body; every read is checked against what is left.

use std::ffi::CStr;

use base::{SqlError, SqlResult, SqlState};

/// The unread rest of a message body.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

pub(crate) fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body }
    }

    pub(crate) fn bytes(&mut self, n: usize) -> SqlResult<&'a [u8]> {
        let (head, rest) =
            self.rest.split_at_checked(n).ok_or_else(|| violation("insufficient data left in message"))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> SqlResult<u8> {
        match self.bytes(1) {
            Ok(byte) => Ok(byte[0]),
            Err(_) => Err(violation("no data left in message")),
        }
    }

    pub(crate) fn i16(&mut self) -> SqlResult<i16> {
        Ok(i16::from_be_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }

    pub(crate) fn i32(&mut self) -> SqlResult<i32> {
        Ok(i32::from_be_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    /// The bytes up to the next NUL, which is consumed too.
    pub(crate) fn c_bytes(&mut self) -> SqlResult<&'a [u8]> {
        // Looks at many bytes at a time: a Query may be long.
        let text =
            CStr::from_bytes_until_nul(self.rest).map_err(|_| violation("invalid string in message"))?;
        let text = text.to_bytes();
        self.rest = &self.rest[text.len() + 1..];
        Ok(text)
    }

    pub(crate) fn c_str(&mut self) -> SqlResult<&'a str> {
        utf8(self.c_bytes()?)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Fails if anything is left.
    pub(crate) fn end(self) -> SqlResult<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

/// `bytes` as text, or PostgreSQL's error for an invalid byte sequence (22021).
pub(crate) fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        let len = e.error_len().unwrap_or(bytes.len() - at).clamp(1, 4);
        let shown: Vec<String> = bytes[at..].iter().take(len).map(|b| format!("0x{b:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    })
}
