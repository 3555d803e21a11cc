//! What an authenticated client says. Decoding borrows from the receive buffer and copies nothing.

use base::{SqlResult, SqlState};

use crate::frame::{self, Frame};
use crate::reader::{Reader, utf8, violation};

/// A decoded message of the client.
#[derive(Debug, PartialEq)]
pub enum Frontend<'a> {
    Query(&'a str),
    Parse(Parse<'a>),
    Bind(Bind<'a>),
    Describe(Target<'a>),
    Execute(Execute<'a>),
    Close(Target<'a>),
    Sync,
    Flush,
    CopyData(&'a [u8]),
    CopyDone,
    /// With the client's reason.
    CopyFail(&'a str),
    Terminate,
    /// The long obsolete call of a function by its oid; always refused.
    FunctionCall,
    /// A password or a SASL message: meaningful only while authenticating.
    Authentication(&'a [u8]),
}

/// Prepares a statement.
#[derive(Debug, PartialEq)]
pub struct Parse<'a> {
    /// Empty for the unnamed statement.
    pub statement: &'a str,
    pub query: &'a str,
    /// Types the client decided on; 0 leaves one open.
    pub parameter_oids: Oids<'a>,
}

/// Gives a prepared statement its parameters.
#[derive(Debug, PartialEq)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub parameter_formats: Formats<'a>,
    pub parameters: Parameters<'a>,
    pub result_formats: Formats<'a>,
}

/// Runs a portal.
#[derive(Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    pub portal: &'a str,
    /// `None` for all rows.
    pub rows_max: Option<u32>,
}

/// What a Describe or Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// How a value is written on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Text,
    Binary,
}

impl Format {
    /// # Errors
    /// 22023 for anything but 0 and 1.
    pub fn from_code(code: i16) -> SqlResult<Format> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(base::SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unsupported format code: {code}"),
            )),
        }
    }
    /// The code in messages.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// Type oids, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oids<'a>(&'a [u8]);

impl<'a> Oids<'a> {
    pub fn len(&self) -> usize {
        self.0.len() / 4
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.0.chunks_exact(4).map(|b| u32::from_be_bytes(b.try_into().expect("four bytes")))
    }
}

/// Format codes, still encoded, each known to be 0 or 1: none (all text), one (for all) or one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats<'a>(&'a [u8]);

impl<'a> Formats<'a> {
    /// All text.
    pub const NONE: Formats<'static> = Formats(&[]);

    fn read(reader: &mut Reader<'a>) -> SqlResult<Formats<'a>> {
        let n = count(reader.i16()?)?;
        let bytes = reader.bytes(2 * n)?;
        for code in bytes.chunks_exact(2) {
            Format::from_code(i16::from_be_bytes([code[0], code[1]]))?;
        }
        Ok(Formats(bytes))
    }
    /// Codes given; 0 and 1 stand for any number of values.
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Format> + use<'a> {
        self.0.chunks_exact(2).map(|code| if code == [0, 1] { Format::Binary } else { Format::Text })
    }
    /// The format of value `i`.
    pub fn of(&self, i: usize) -> Format {
        match self.len() {
            0 => Format::Text,
            1 => self.iter().next().expect("one code"),
            _ => self.iter().nth(i).unwrap_or_default(),
        }
    }
}

/// Parameter values, still encoded, their lengths checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a> {
    count: usize,
    encoded: &'a [u8],
}

impl<'a> Parameters<'a> {
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// Bytes of all of them and of their lengths.
    pub fn encoded_len(&self) -> usize {
        self.encoded.len()
    }
    /// The values in order; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut reader = Reader::new(self.encoded);
        (0..self.count).map(move |_| value(&mut reader).expect("checked when decoded"))
    }
}

fn count(n: i16) -> SqlResult<usize> {
    // Counts are unsigned in practice: clients send up to 65,535 parameters.
    Ok(n.cast_unsigned() as usize)
}

fn value<'a>(reader: &mut Reader<'a>) -> SqlResult<Option<&'a [u8]>> {
    match reader.i32()? {
        -1 => Ok(None),
        len => match usize::try_from(len) {
            Ok(len) => reader.bytes(len).map(Some),
            Err(_) => Err(violation("invalid length of a parameter value in bind message")),
        },
    }
}

/// The meaning of a message.
///
/// # Errors
/// 08P01 for a malformed body, 22021 for text that is not UTF-8, 22023 for an unknown format code. The stream can
/// still be followed: the message fails as a statement would.
pub fn decode<'a>(frame: Frame<'a>) -> SqlResult<Frontend<'a>> {
    let mut reader = Reader::new(frame.body);
    let message = match frame.tag {
        b'Q' => Frontend::Query(reader.c_str()?),
        b'P' => {
            let statement = reader.c_str()?;
            let query = reader.c_str()?;
            let n = count(reader.i16()?)?;
            Frontend::Parse(Parse { statement, query, parameter_oids: Oids(reader.bytes(4 * n)?) })
        }
        b'B' => Frontend::Bind(bind(&mut reader)?),
        b'D' => Frontend::Describe(target(&mut reader, "DESCRIBE")?),
        b'C' => Frontend::Close(target(&mut reader, "CLOSE")?),
        b'E' => {
            let portal = reader.c_str()?;
            let rows_max = u32::try_from(reader.i32()?).ok().filter(|&n| n != 0);
            Frontend::Execute(Execute { portal, rows_max })
        }
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'd' => Frontend::CopyData(reader.rest()),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(reader.c_str()?),
        b'X' => Frontend::Terminate,
        b'F' => {
            reader.rest();
            Frontend::FunctionCall
        }
        b'p' => Frontend::Authentication(reader.rest()),
        tag => return Err(violation(format!("invalid frontend message type {tag}"))),
    };
    reader.end()?;
    Ok(message)
}

fn bind<'a>(reader: &mut Reader<'a>) -> SqlResult<Bind<'a>> {
    let portal = reader.c_str()?;
    let statement = reader.c_str()?;
    let parameter_formats = Formats::read(reader)?;
    let count = count(reader.i16()?)?;
    if parameter_formats.len() > 1 && parameter_formats.len() != count {
        return Err(violation(format!(
            "bind message has {} parameter formats but {count} parameters",
            parameter_formats.len()
        )));
    }
    let from = *reader;
    let mut len = 0;
    for _ in 0..count {
        len += 4 + value(reader)?.map_or(0, <[u8]>::len);
    }
    let encoded = { from }.bytes(len)?;
    let result_formats = Formats::read(reader)?;
    Ok(Bind {
        portal,
        statement,
        parameter_formats,
        parameters: Parameters { count, encoded },
        result_formats,
    })
}

fn target<'a>(reader: &mut Reader<'a>, message: &str) -> SqlResult<Target<'a>> {
    match reader.u8()? {
        b'S' => reader.c_str().map(Target::Statement),
        b'P' => reader.c_str().map(Target::Portal),
        kind => Err(violation(format!("invalid {message} message subtype {kind}"))),
    }
}

/// The prepared statements that the Binds at the beginning of `stream` name, for who wants to know them ahead of the messages: without regard to what else is
/// in these, up to the first message that is not whole or cannot be followed.
pub fn statements_bound(stream: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = stream;
    let frames = std::iter::from_fn(move || {
        let frame = frame::next(rest).ok()??;
        rest = &rest[frame.wire_len()..];
        Some(frame)
    });
    frames.filter(|frame| frame.tag == b'B').filter_map(|frame| {
        let mut reader = Reader::new(frame.body);
        reader.c_bytes().and_then(|_portal| reader.c_str()).ok()
    })
}

/// The first SASL message of the client: the mechanism's name and its initial response.
///
/// # Errors
/// 08P01 when malformed.
pub fn sasl_initial_response(body: &[u8]) -> SqlResult<(&str, Option<&[u8]>)> {
    let mut reader = Reader::new(body);
    let mechanism = utf8(reader.c_bytes()?)?;
    let response = value(&mut reader)?;
    reader.end()?;
    Ok((mechanism, response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client;

    fn one(bytes: &[u8]) -> Frame<'_> {
        let frame = crate::frame::next(bytes).unwrap().expect("whole");
        assert_eq!(frame.wire_len(), bytes.len());
        frame
    }

    #[test]
    fn a_bind_gives_back_formats_and_values() {
        let mut out = Vec::new();
        client::bind(&mut out, "p", "s", &[1], &[Some(b"abc"), None, Some(b"")], &[0, 1]);
        let Ok(Frontend::Bind(bind)) = decode(one(&out)) else { panic!("a bind") };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.parameters.iter().collect::<Vec<_>>(), [Some(&b"abc"[..]), None, Some(b"")]);
        assert_eq!(bind.parameter_formats.of(2), Format::Binary);
        assert_eq!(bind.result_formats.iter().collect::<Vec<_>>(), [Format::Text, Format::Binary]);
    }

    #[test]
    fn invalid_text_is_22021_and_not_fatal() {
        let error = decode(Frame { tag: b'Q', body: b"select '\xff'\0" }).unwrap_err();
        assert_eq!(error.state(), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(error.severity(), base::Severity::Error);
        assert_eq!(error.message(), "invalid byte sequence for encoding \"UTF8\": 0xff");
    }

    #[test]
    fn a_value_longer_than_its_message_is_refused() {
        let body = b"\0\0\0\0\0\x01\x7f\xff\xff\xffx\0\0";
        assert_eq!(decode(Frame { tag: b'B', body }).unwrap_err().state(), SqlState::PROTOCOL_VIOLATION);
        let body = b"\0\0\0\0\0\x01\xff\xff\xff\xfex\0\0";
        assert_eq!(decode(Frame { tag: b'B', body }).unwrap_err().state(), SqlState::PROTOCOL_VIOLATION);
    }

    #[test]
    fn bytes_after_the_last_field_are_refused() {
        assert!(decode(Frame { tag: b'S', body: b"x" }).is_err());
        assert!(decode(Frame { tag: b'Q', body: b"a\0b\0" }).is_err());
        assert!(decode(Frame { tag: b'Q', body: b"no end" }).is_err());
    }

    #[test]
    fn the_statements_of_a_batch_are_known_ahead() {
        let mut out = Vec::new();
        for statement in ["one", "", "two"] {
            client::bind(&mut out, "p", statement, &[], &[Some(b"abc")], &[]);
            client::sync(&mut out);
        }
        assert_eq!(statements_bound(&out).collect::<Vec<_>>(), ["one", "", "two"]);
        let cut = out.len() - 10;
        assert_eq!(statements_bound(&out[..cut]).collect::<Vec<_>>(), ["one", ""]);
        out[0] = b'?';
        assert_eq!(statements_bound(&out).count(), 0);
    }
}
