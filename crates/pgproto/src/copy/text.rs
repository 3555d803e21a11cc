//! Text: tab-separated, backslash-escaped.

use base::SqlResult;

use super::read::{Line, Scan};
use super::{RowBuf, bad_format};
use crate::reader::utf8;

/// The first line of `input`: up to `\n` or `\r\n` that no backslash escapes.
pub(super) fn find_line(input: &[u8], scan: &mut Scan) -> Option<Line> {
    let mut at = scan.at;
    while let Some(&byte) = input.get(at) {
        match byte {
            b'\\' => {
                if at + 1 >= input.len() {
                    break;
                }
                at += 2;
            }
            b'\n' => {
                let len = if at > 0 && input[at - 1] == b'\r' { at - 1 } else { at };
                return Some(Line { len, len_with_end: at + 1 });
            }
            _ => at += 1,
        }
    }
    scan.at = at;
    None
}

/// Splits a line at its delimiters and takes the escapes back.
pub(super) fn split(line: &[u8], delimiter: u8, null: &[u8], row: &mut RowBuf) -> SqlResult<()> {
    let mut at = 0;
    loop {
        let start = at;
        let mut high_escape = false;
        while at < line.len() && line[at] != delimiter {
            if line[at] == b'\\' && at + 1 < line.len() {
                at += 1;
                at += unescape(&line[at..], row, &mut high_escape);
            } else {
                row.bytes.push(line[at]);
                at += 1;
            }
        }
        if &line[start..at] == null {
            row.end_null();
        } else {
            if high_escape {
                utf8(&row.bytes[row.start()..])?;
            }
            row.end_value();
        }
        if at == line.len() {
            return Ok(());
        }
        at += 1;
        if row.values.len() > base::limits::TABLE_COLUMNS_MAX {
            return Err(bad_format("extra data after last expected column"));
        }
    }
}

/// Appends what the escape `after` the backslash stands for; tells how many bytes it took.
fn unescape(after: &[u8], row: &mut RowBuf, high_escape: &mut bool) -> usize {
    let (byte, taken) = match after[0] {
        b'b' => (0x08, 1),
        b'f' => (0x0c, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (0x0b, 1),
        b'0'..=b'7' => {
            let digits = after.iter().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
            let value = after[..digits].iter().fold(0u32, |n, b| n * 8 + u32::from(b - b'0'));
            ((value & 0xff) as u8, digits)
        }
        b'x' if after.get(1).is_some_and(u8::is_ascii_hexdigit) => {
            let digits = after[1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            let hex = std::str::from_utf8(&after[1..=digits]).expect("ASCII");
            (u8::from_str_radix(hex, 16).expect("hexadecimal digits"), 1 + digits)
        }
        other => (other, 1),
    };
    // A byte given by number may make, or break, a character; so may a NUL.
    *high_escape |= taken > 1 && !byte.is_ascii() || byte == 0;
    row.bytes.push(byte);
    taken
}

/// Appends `value` with the escapes it needs.
pub(super) fn write_value(value: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for &byte in value {
        let escaped = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            _ if byte == delimiter => delimiter,
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend([b'\\', escaped]);
    }
}
