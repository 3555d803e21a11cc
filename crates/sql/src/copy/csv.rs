//! Comma-separated values: quotes around fields that need them, quotes within doubled or escaped.

use super::Record;

/// The characters in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsvMarks {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) escape: u8,
}

/// Splits a record into fields; `Err` when a quote is left open. `null_rule(column, text, was_quoted)` tells NULL. Behind `max` fields and one no more are
/// looked for.
pub(super) fn split(
    line: &[u8],
    marks: CsvMarks,
    null_rule: &dyn Fn(usize, &[u8], bool) -> bool,
    max: usize,
    record: &mut Record,
) -> Result<(), ()> {
    record.clear();
    let mut at = 0;
    loop {
        record.begin_field();
        let (mut quoted, mut was_quoted) = (false, false);
        while at < line.len() {
            let byte = line[at];
            let next = line.get(at + 1).copied();
            if quoted {
                if byte == marks.escape && (next == Some(marks.quote) || next == Some(marks.escape)) {
                    record.bytes.push(line[at + 1]);
                    at += 2;
                    continue;
                }
                if byte == marks.quote {
                    quoted = false;
                } else {
                    record.bytes.push(byte);
                }
            } else if byte == marks.delimiter {
                break;
            } else if byte == marks.quote {
                (quoted, was_quoted) = (true, true);
            } else {
                record.bytes.push(byte);
            }
            at += 1;
        }
        if quoted {
            return Err(());
        }
        let null = null_rule(record.len(), record.current(), was_quoted);
        record.end_field(null);
        if at >= line.len() || record.len() > max {
            return Ok(());
        }
        at += 1;
    }
}

/// Appends a field, quoted where it must be.
pub(super) fn write(field: &[u8], marks: CsvMarks, null: &[u8], force: bool, only: bool, out: &mut Vec<u8>) {
    let special = |b: &u8| *b == marks.delimiter || *b == marks.quote || *b == b'\n' || *b == b'\r';
    // A lone `\.` would end the data; the null text unquoted would read back as NULL.
    let must = force || field == null || field.iter().any(special) || (only && field == b"\\.");
    if !must {
        out.extend_from_slice(field);
        return;
    }
    out.push(marks.quote);
    for byte in field {
        if *byte == marks.quote || *byte == marks.escape {
            out.push(marks.escape);
        }
        out.push(*byte);
    }
    out.push(marks.quote);
}
