//! PostgreSQL's text form: a line a record, a delimiter between fields, backslash escapes.

use super::Record;

/// Splits a line into unescaped fields. Behind `max` of them and one no more are looked for.
pub(super) fn split(line: &[u8], delimiter: u8, null: &[u8], max: usize, record: &mut Record) {
    record.clear();
    let mut at = 0;
    loop {
        let start = at;
        record.begin_field();
        while at < line.len() && line[at] != delimiter {
            if line[at] == b'\\' {
                // One that the input ends with stands before nothing.
                at = if at + 1 < line.len() { unescape(line, at + 1, &mut record.bytes) } else { at + 1 };
            } else {
                record.bytes.push(line[at]);
                at += 1;
            }
        }
        // NULL is told by the raw text, so that an escaped `\\N` stays a string.
        record.end_field(&line[start..at] == null);
        if at >= line.len() || record.len() > max {
            return;
        }
        at += 1;
    }
}

/// Resolves the escape whose backslash stands before `at`; gives where to go on.
fn unescape(line: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    match line[at] {
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'x' => {
            let digits = line[at + 1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            if digits == 0 {
                out.push(b'x');
                return at + 1;
            }
            out.push(number(&line[at + 1..at + 1 + digits], 16));
            return at + 1 + digits;
        }
        b'0'..=b'7' => {
            let digits = line[at..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(*b)).count();
            out.push(number(&line[at..at + digits], 8));
            return at + digits;
        }
        other => out.push(other),
    }
    at + 1
}

/// The low byte of an octal or hexadecimal number, as PostgreSQL takes it.
fn number(digits: &[u8], radix: u32) -> u8 {
    let value = digits.iter().fold(0, |n, b| n * radix + char::from(*b).to_digit(radix).unwrap_or(0));
    (value & 0xff) as u8
}

/// Appends a field with what needs it escaped.
pub(super) fn escape(field: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for byte in field {
        let escape = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            b if *b == delimiter => *b,
            b => {
                out.push(*b);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
}
