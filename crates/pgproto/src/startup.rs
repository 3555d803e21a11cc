//! The messages before a session has begun: start-up, encryption requests, cancellation.

use base::{SqlError, SqlResult, SqlState};

use crate::reader::{Reader, utf8, violation};

/// The only protocol version served: 3.0.
pub const PROTOCOL_VERSION: u32 = 3 << 16;
/// Major 1234: not versions but requests.
const REQUEST_MAJOR: u32 = 1234;
const CANCEL: u32 = REQUEST_MAJOR << 16 | 5678;
const SSL: u32 = REQUEST_MAJOR << 16 | 5679;
const GSSENC: u32 = REQUEST_MAJOR << 16 | 5680;

/// What a connection opens with.
#[derive(Debug, PartialEq, Eq)]
pub enum Opening<'a> {
    /// Answer with `S` and do a TLS handshake, or with `N`.
    SslRequest,
    /// Answer with `N`: never offered.
    GssEncRequest,
    /// Close without an answer, having cancelled what the key names.
    Cancel(CancelKey),
    Startup(Startup<'a>),
}

/// Names a session and proves the right to cancel what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancelKey {
    pub process_id: u32,
    pub secret: u32,
}

/// The start-up message's parameters.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Startup<'a> {
    pub user: &'a str,
    /// The user's name unless given.
    pub database: &'a str,
    /// The requested minor version, if above ours.
    pub minor_version: Option<u16>,
    /// `_pq_.` options, none of which we know; told to the client by NegotiateProtocolVersion.
    pub unknown_options: Vec<&'a str>,
    /// `options`: the command-line switches `-c name=value` and `--name=value`.
    pub options: &'a str,
    pub replication: &'a str,
    /// All others, which are settings of the session, in order.
    pub settings: Vec<(&'a str, &'a str)>,
}

/// Decodes the body of [`crate::frame::next_startup`].
///
/// # Errors
/// Fatal: 08P01 for a malformed packet, 0A000 for a protocol version we do not speak, 28000 without a user name.
pub fn decode(body: &[u8]) -> SqlResult<Opening<'_>> {
    decode_inner(body).map_err(|e| e.with_severity(base::Severity::Fatal))
}

fn decode_inner(body: &[u8]) -> SqlResult<Opening<'_>> {
    let mut reader = Reader::new(body);
    let code = reader.i32()?.cast_unsigned();
    match code {
        SSL => return reader.end().map(|()| Opening::SslRequest),
        GSSENC => return reader.end().map(|()| Opening::GssEncRequest),
        CANCEL => {
            let key = CancelKey {
                process_id: reader.i32()?.cast_unsigned(),
                secret: reader.i32()?.cast_unsigned(),
            };
            return reader.end().map(|()| Opening::Cancel(key));
        }
        _ => {}
    }
    let (major, minor) = (code >> 16, (code & 0xffff) as u16);
    if major != 3 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"),
        ));
    }
    let mut startup = Startup { minor_version: (minor > 0).then_some(minor), ..Startup::default() };
    let misplaced_end = |_| violation("invalid startup packet layout: expected terminator as last byte");
    loop {
        let name = utf8(reader.c_bytes().map_err(misplaced_end)?)?;
        if name.is_empty() {
            break;
        }
        let value = utf8(reader.c_bytes().map_err(misplaced_end)?)?;
        match name {
            "user" => startup.user = value,
            "database" => startup.database = value,
            "options" => startup.options = value,
            "replication" => startup.replication = value,
            _ if name.starts_with("_pq_.") => startup.unknown_options.push(name),
            _ => startup.settings.push((name, value)),
        }
    }
    reader.end().map_err(misplaced_end)?;
    if startup.user.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    if startup.database.is_empty() {
        startup.database = startup.user;
    }
    Ok(Opening::Startup(startup))
}

/// The settings of a start-up message's `options`: `-c name=value`, `-cname=value` and `--name=value`, split at white
/// space that no backslash escapes; `-` in a `--name` reads as `_`.
///
/// # Errors
/// 42601 for any other switch.
pub fn split_options(options: &str) -> SqlResult<Vec<(String, String)>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        if c.is_ascii_whitespace() {
            words.extend(word.take());
        } else {
            let c = if c == '\\' { chars.next().unwrap_or('\\') } else { c };
            word.get_or_insert_default().push(c);
        }
    }
    words.extend(word);
    let bad = |word: &str| {
        SqlError::fatal(
            SqlState::SYNTAX_ERROR,
            format!("invalid command-line argument for server process: {word}"),
        )
    };
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (assignment, long) = if word == "-c" {
            (words.next().ok_or_else(|| bad(&word))?, false)
        } else if let Some(rest) = word.strip_prefix("--") {
            (rest.to_owned(), true)
        } else if let Some(rest) = word.strip_prefix("-c") {
            (rest.to_owned(), false)
        } else {
            return Err(bad(&word));
        };
        let (name, value) = assignment.split_once('=').ok_or_else(|| bad(&assignment))?;
        let name = if long { name.replace('-', "_") } else { name.to_owned() };
        settings.push((name, value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_defaults_to_the_user() {
        let Opening::Startup(startup) =
            decode(b"\0\x03\0\0user\0ann\0application_name\0psql\0\0").expect("well-formed")
        else {
            panic!("a start-up message")
        };
        assert_eq!((startup.user, startup.database), ("ann", "ann"));
        assert_eq!(startup.settings, [("application_name", "psql")]);
    }

    #[test]
    fn requests_are_told_from_versions() {
        assert_eq!(decode(&SSL.to_be_bytes()), Ok(Opening::SslRequest));
        assert_eq!(decode(&GSSENC.to_be_bytes()), Ok(Opening::GssEncRequest));
        let mut cancel = CANCEL.to_be_bytes().to_vec();
        cancel.extend([0, 0, 0, 7, 0, 0, 0, 9]);
        assert_eq!(decode(&cancel), Ok(Opening::Cancel(CancelKey { process_id: 7, secret: 9 })));
        assert_eq!(decode(b"\0\x02\0\0\0").unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(
            decode(b"\0\x03\0\0\0").unwrap_err().state(),
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        );
    }

    #[test]
    fn parameters_end_where_the_packet_does() {
        for cut in [
            &b""[..],
            b"user",
            b"user\0ann",
            b"user\0ann\0",
            b"user\0ann\0database\0",
            b"user\0ann\0\0x",
            b"user\0ann\0\0\0",
        ] {
            let error = decode(&[b"\0\x03\0\0", cut].concat()).unwrap_err();
            assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION, "{cut:?}");
            assert_eq!(error.message(), "invalid startup packet layout: expected terminator as last byte");
            assert_eq!(error.severity(), base::Severity::Fatal);
        }
        let error = decode(b"\0\x03\0\0user\0\xff\0\0").unwrap_err();
        assert_eq!(error.state(), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    }

    #[test]
    fn options_are_split_as_a_command_line() {
        let split = split_options(r"-c a=1 --search-path=x\ y  -cb=2").unwrap();
        let expected = [("a", "1"), ("search_path", "x y"), ("b", "2")];
        assert!(split.iter().map(|(n, v)| (n.as_str(), v.as_str())).eq(expected));
        assert!(split_options("-x").is_err());
        assert!(split_options("-c").is_err());
    }
}
