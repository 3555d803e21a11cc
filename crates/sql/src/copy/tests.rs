//! What is copied out comes back the same, whatever the pieces it arrives in.

use proptest::prelude::*;
use types::{Datum, FormatContext, PgType, TypeMod};

use super::*;
use crate::parse::{CopyOptions, CopyTextFormat};

fn columns() -> Vec<CopyColumn> {
    [("id", PgType::Int4), ("note", PgType::Text)]
        .map(|(name, ty)| CopyColumn { name: name.into(), ty, modifier: TypeMod::NONE })
        .to_vec()
}

fn options(format: CopyTextFormat) -> CopyOptions {
    CopyOptions { format, ..CopyOptions::default() }
}

fn read(options: CopyOptions, pieces: &[&[u8]]) -> base::SqlResult<Vec<Vec<Datum>>> {
    let context = FormatContext::default();
    let mut reader = CopyReader::new("t", columns(), options)?;
    let mut rows = Vec::new();
    for piece in pieces {
        reader.push(piece);
        while let Some(row) = reader.next_row(&context)? {
            rows.push(row);
        }
    }
    reader.finish()?;
    while let Some(row) = reader.next_row(&context)? {
        rows.push(row);
    }
    Ok(rows)
}

fn row(id: i32, note: Option<&str>) -> Vec<Datum> {
    vec![Datum::Int4(id), note.map_or(Datum::Null, Datum::text)]
}

#[test]
fn text_knows_null_escapes_and_the_end_marker() {
    let rows =
        read(options(CopyTextFormat::Text), &[b"1\ta\\tb\n2\t\\N\n3\t\\\\N\n4\t\\x41\\102\n\\.\n5\tx\n"])
            .unwrap();
    assert_eq!(rows, [row(1, Some("a\tb")), row(2, None), row(3, Some("\\N")), row(4, Some("AB"))]);
}

#[test]
fn csv_tells_an_empty_string_from_null_by_its_quotes() {
    let rows = read(options(CopyTextFormat::Csv), &[b"1,\"a\n,\"\"b\"\r\n2,\r\n3,\"\"\r\n4,last"]).unwrap();
    assert_eq!(rows, [row(1, Some("a\n,\"b")), row(2, None), row(3, Some("")), row(4, Some("last"))]);
}

#[test]
fn records_of_the_wrong_shape_are_refused_with_their_line() {
    let error = read(options(CopyTextFormat::Text), &[b"1\ta\n2\n"]).unwrap_err();
    assert_eq!(error.message(), "missing data for column \"note\"");
    assert_eq!(error.context(), Some("COPY t, line 2: \"2\""));
    let error = read(options(CopyTextFormat::Text), &[b"1\ta\tb\n"]).unwrap_err();
    assert_eq!(error.message(), "extra data after last expected column");
    let error = read(options(CopyTextFormat::Text), &[b"1\ta\nthree\tb\n"]).unwrap_err();
    assert_eq!(error.context(), Some("COPY t, line 2, column id: \"three\""));
    assert!(read(options(CopyTextFormat::Csv), &[b"1,\"open\n"]).is_err());
    assert!(read(options(CopyTextFormat::Binary), &[b"PGDUMP"]).is_err());
}

#[test]
fn what_cannot_be_text_is_refused() {
    for (format, input) in [
        (CopyTextFormat::Text, &b"1\ta\0b\n"[..]),
        (CopyTextFormat::Text, b"1\ta\\0b\n"),
        (CopyTextFormat::Text, b"1\ta\\x00\n"),
        (CopyTextFormat::Csv, b"1,a\0b\n"),
    ] {
        let error = read(options(format), &[input]).unwrap_err();
        assert_eq!(error.message(), "invalid byte sequence for encoding \"UTF8\": 0x00");
    }
    let rows = read(options(CopyTextFormat::Text), &[b"1\ta\n2\tb\\"]).unwrap();
    assert_eq!(rows, [row(1, Some("a")), row(2, Some("b"))], "a backslash before nothing");
}

#[test]
fn nothing_is_lost_behind_the_end_of_binary_data() {
    let context = FormatContext::default();
    let written = |notes: &[&str], ends: bool| {
        let mut writer = CopyWriter::new(columns(), &options(CopyTextFormat::Binary)).unwrap();
        let mut bytes = Vec::new();
        writer.begin(&mut bytes);
        (1..).zip(notes).for_each(|(id, note)| writer.row(&row(id, Some(note)), &context, &mut bytes));
        if ends {
            writer.end(&mut bytes);
        }
        bytes
    };
    let (one, two) = (written(&["a"], true), written(&["b", "c"], false));
    for pieces in [&[&*one, &two][..], &[&[&*one, &two].concat()]] {
        let error = read(options(CopyTextFormat::Binary), pieces).unwrap_err();
        assert_eq!(error.message(), "received copy data after EOF marker");
    }
    // As PostgreSQL takes it.
    let rows = read(options(CopyTextFormat::Binary), &[&two]).unwrap();
    assert_eq!(rows, [row(1, Some("b")), row(2, Some("c"))]);
    let error = read(options(CopyTextFormat::Binary), &[&two[..two.len() - 1]]).unwrap_err();
    assert_eq!(error.message(), "unexpected EOF in COPY data");
    let error = read(options(CopyTextFormat::Binary), &[]).unwrap_err();
    assert_eq!(error.message(), "COPY file signature not recognized");
}

/// Each of its values is read from one character.
#[test]
fn a_row_takes_no_more_memory_than_it_may() {
    let padded = CopyColumn { name: "c".into(), ty: PgType::Bpchar, modifier: TypeMod(10_485_760 + 4) };
    for (count, fits) in [(20, true), (30, false)] {
        let columns = vec![padded.clone(); count];
        let mut reader = CopyReader::new("t", columns, options(CopyTextFormat::Text)).unwrap();
        reader.push(format!("{}x\n", "x\t".repeat(count - 1)).as_bytes());
        let read = reader.next_row(&FormatContext::default());
        assert_eq!(
            read.map(|row| row.is_some()).map_err(|e| e.state().as_str().to_owned()),
            if fits { Ok(true) } else { Err("54000".to_owned()) }
        );
    }
}

#[test]
fn a_line_is_cut_into_few_more_fields_than_there_are_columns() {
    let mut record = Record::default();
    let many = vec![b','; 1 << 20];
    text::split(&many, b',', b"", 2, &mut record);
    assert_eq!(record.len(), 3);
    let marks = csv::CsvMarks { delimiter: b',', quote: b'"', escape: b'"' };
    csv::split(&many, marks, &|_, _, _| false, 2, &mut record).unwrap();
    assert_eq!(record.len(), 3);
    for (format, line) in [(CopyTextFormat::Text, "1\ta\tb\tc\n"), (CopyTextFormat::Csv, "1,a,b,c\n")] {
        let error = read(options(format), &[line.as_bytes()]).unwrap_err();
        assert_eq!(error.message(), "extra data after last expected column");
    }
}

#[test]
fn a_header_is_passed_over_or_checked() {
    let mut csv = options(CopyTextFormat::Csv);
    (csv.header, csv.header_match) = (true, true);
    assert_eq!(read(csv.clone(), &[b"id,note\n1,a\n"]).unwrap(), [row(1, Some("a"))]);
    assert!(read(csv, &[b"id,remark\n1,a\n"]).is_err());
}

proptest! {
    #[test]
    fn every_form_reads_what_it_wrote(
        notes in proptest::collection::vec(proptest::option::of("[\\PC\t\n\r\\\\\",]{0,12}"), 0..20),
        piece_len in 1usize..40,
        form in 0usize..3,
    ) {
        let format = [CopyTextFormat::Text, CopyTextFormat::Csv, CopyTextFormat::Binary][form];
        let rows: Vec<_> = (0i32..).zip(&notes).map(|(id, note)| row(id, note.as_deref())).collect();
        let context = FormatContext::default();
        let mut writer = CopyWriter::new(columns(), &options(format)).unwrap();
        let mut bytes = Vec::new();
        writer.begin(&mut bytes);
        for row in &rows {
            writer.row(row, &context, &mut bytes);
        }
        writer.end(&mut bytes);
        let pieces: Vec<_> = bytes.chunks(piece_len).collect();
        prop_assert_eq!(read(options(format), &pieces).unwrap(), rows);
    }
}

/// To look through it from its beginning with each piece would take half an hour.
#[test]
fn a_long_row_in_many_pieces_is_looked_through_once() {
    let long = "x".repeat(1 << 10);
    for (format, open, close) in
        [(CopyTextFormat::Text, "1\t\\\n", "\n"), (CopyTextFormat::Csv, "1,\"\n", "\"\n")]
    {
        let mut pieces = vec![open.as_bytes()];
        pieces.extend(std::iter::repeat_n(long.as_bytes(), 16 << 10));
        pieces.push(close.as_bytes());
        let rows = read(options(format), &pieces).unwrap();
        assert_eq!(rows, [row(1, Some(&format!("\n{}", "x".repeat(16 << 20))))]);
    }
}

#[test]
fn a_long_binary_row_in_many_pieces_is_read_once() {
    let long = "x".repeat(16 << 20);
    let context = FormatContext::default();
    let mut writer = CopyWriter::new(columns(), &options(CopyTextFormat::Binary)).unwrap();
    let mut bytes = Vec::new();
    writer.begin(&mut bytes);
    writer.row(&row(1, Some(&long)), &context, &mut bytes);
    let pieces: Vec<_> = bytes.chunks(1 << 10).collect();
    assert_eq!(read(options(CopyTextFormat::Binary), &pieces).unwrap(), [row(1, Some(&long))]);
}
