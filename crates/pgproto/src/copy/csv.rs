//! CSV: quoted where needed, quotes escaped by doubling or by the escape character.

use super::read::{Line, Scan};
use super::{Csv, RowBuf};

/// The first row of `input`: up to `\n` or `\r\n` outside quotes.
pub(super) fn find_line(input: &[u8], csv: &Csv, scan: &mut Scan) -> Option<Line> {
    let mut at = scan.at;
    while let Some(&byte) = input.get(at) {
        // With an escape of its own, an escaped quote does not end the quotes; doubled quotes toggle twice.
        if scan.in_quotes && byte == csv.escape && csv.escape != csv.quote {
            if at + 1 >= input.len() {
                break;
            }
            at += 2;
            continue;
        }
        if byte == csv.quote {
            scan.in_quotes = !scan.in_quotes;
        } else if byte == b'\n' && !scan.in_quotes {
            let len = if at > 0 && input[at - 1] == b'\r' { at - 1 } else { at };
            return Some(Line { len, len_with_end: at + 1 });
        }
        at += 1;
    }
    scan.at = at;
    None
}

/// Splits a row at its delimiters outside quotes.
pub(super) fn split(line: &[u8], csv: &Csv, row: &mut RowBuf) {
    let mut at = 0;
    loop {
        let start = at;
        let (mut quoted, mut in_quotes) = (false, false);
        while let Some(&byte) = line.get(at) {
            if in_quotes {
                let next = line.get(at + 1);
                if byte == csv.escape && next.is_some_and(|&n| n == csv.escape || n == csv.quote) {
                    row.bytes.push(line[at + 1]);
                    at += 2;
                    continue;
                }
                if byte == csv.quote {
                    in_quotes = false;
                } else {
                    row.bytes.push(byte);
                }
            } else if byte == csv.quote {
                in_quotes = true;
                quoted = true;
            } else if byte == csv.delimiter {
                break;
            } else {
                row.bytes.push(byte);
            }
            at += 1;
        }
        let column = row.values.len();
        let null = csv.null.as_bytes();
        let is_null = if quoted {
            csv.force_null.has(column) && &row.bytes[row.start()..] == null
        } else {
            &line[start..at] == null && !csv.force_not_null.has(column)
        };
        if is_null {
            row.end_null();
        } else {
            row.end_value();
        }
        if at >= line.len() {
            return;
        }
        at += 1;
    }
}

/// Appends `value`, in quotes where a reader would need them; `alone` in its row, `\.` does.
pub(super) fn write_value(value: &[u8], csv: &Csv, force: bool, alone: bool, out: &mut Vec<u8>) {
    let special = |&b: &u8| b == csv.delimiter || b == csv.quote || b == b'\n' || b == b'\r';
    let quote =
        force || value == csv.null.as_bytes() || (alone && value == b"\\.") || value.iter().any(special);
    if !quote {
        out.extend(value);
        return;
    }
    out.push(csv.quote);
    for &byte in value {
        if byte == csv.quote || byte == csv.escape {
            out.push(csv.escape);
        }
        out.push(byte);
    }
    out.push(csv.quote);
}
