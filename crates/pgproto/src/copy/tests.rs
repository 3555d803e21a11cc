use proptest::prelude::*;

use super::*;

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn read(format: RowFormat, pieces: &[&[u8]]) -> base::SqlResult<Rows> {
    let mut reader = RowReader::new(format);
    let mut rows = Vec::new();
    let mut drain = |reader: &mut RowReader| -> base::SqlResult<()> {
        while let Some(row) = reader.next_row()? {
            rows.push(row.iter().map(|v| v.map(<[u8]>::to_vec)).collect());
        }
        Ok(())
    };
    for piece in pieces {
        reader.push(piece);
        drain(&mut reader)?;
    }
    reader.finish();
    drain(&mut reader)?;
    Ok(rows)
}

fn texts(rows: Rows) -> Vec<Vec<Option<String>>> {
    let text = |v: Option<Vec<u8>>| v.map(|v| String::from_utf8(v).unwrap());
    rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

fn s(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn text_takes_escapes_nulls_and_the_end_marker() {
    let rows = read(RowFormat::text(), &[b"a\\tb\t\\N\t\\101\\x42\r\nx\\\ny\t\t\n\\.\nignored"]).unwrap();
    assert_eq!(texts(rows), [vec![s("a\tb"), None, s("AB")], vec![s("x\ny"), s(""), s("")]]);
}

#[test]
fn an_escaped_null_string_is_text() {
    assert_eq!(texts(read(RowFormat::text(), &[b"\\\\N\n"]).unwrap()), [vec![s("\\N")]]);
}

#[test]
fn csv_takes_quotes_newlines_and_nulls() {
    let rows = read(RowFormat::csv(), &[b"1,\"a \"\"b\"\"\n", b"c\",,\"\"\r\n2,x\"y\"z,,"]).unwrap();
    assert_eq!(texts(rows), [vec![s("1"), s("a \"b\"\nc"), None, s("")], vec![s("2"), s("xyz"), None, None]]);
}

#[test]
fn csv_forces_null_and_not_null_by_column() {
    let RowFormat::Csv(mut csv) = RowFormat::csv() else { unreachable!() };
    csv.force_not_null = Columns::Some(vec![0]);
    csv.force_null = Columns::Some(vec![1]);
    csv.header = Header::Line;
    let mut reader = RowReader::new(RowFormat::Csv(csv));
    reader.push(b"h,i\n,\"\"\n");
    let row: Vec<_> = reader.next_row().unwrap().unwrap().iter().collect();
    assert_eq!(row, [Some(&b""[..]), None]);
    assert_eq!(reader.header().unwrap(), [s("h"), s("i")]);
    assert_eq!(reader.line(), 2);
}

#[test]
fn broken_input_is_22p04_or_22021() {
    let state = |format, input: &[u8]| read(format, &[input]).unwrap_err().state();
    assert_eq!(state(RowFormat::csv(), b"\"open\n"), SqlState::BAD_COPY_FILE_FORMAT);
    assert_eq!(state(RowFormat::Binary, b"PGCOPX"), SqlState::BAD_COPY_FILE_FORMAT);
    assert_eq!(state(RowFormat::text(), b"\xff\n"), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    assert_eq!(state(RowFormat::text(), b"\\xff\n"), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    let mut binary = binary::SIGNATURE.to_vec();
    binary.extend([0; 8]);
    binary.extend([0, 1, 0, 0, 0, 9, b'x']);
    assert_eq!(state(RowFormat::Binary, &binary), SqlState::BAD_COPY_FILE_FORMAT);
}

fn formats() -> impl Strategy<Value = RowFormat> {
    let RowFormat::Csv(mut escaped) = RowFormat::csv() else { unreachable!() };
    escaped.escape = b'\\';
    escaped.null = "NULL".into();
    prop::sample::select(vec![
        RowFormat::text(),
        RowFormat::csv(),
        RowFormat::Csv(escaped),
        RowFormat::Binary,
    ])
}

proptest! {
    #[test]
    fn rows_survive_any_format_and_any_split(
        format in formats(),
        columns in 1usize..4,
        cells in prop::collection::vec(prop::option::of("[a-c\t\n\r\\\\\",.NUL\u{e9}\\x00-\\x02]{0,6}"), 0..24),
        cut in 1usize..9,
    ) {
        let cells: Vec<Option<Vec<u8>>> =
            cells.into_iter().map(|c| c.map(|c| c.replace('\0', "").into_bytes())).collect();
        let rows: Rows = cells.chunks_exact(columns).map(<[_]>::to_vec).collect();
        let mut writer = RowWriter::new(format.clone(), columns);
        let mut out = Vec::new();
        writer.begin(std::iter::empty(), &mut out);
        for row in &rows {
            for value in row {
                writer.value(value.as_deref(), &mut out);
            }
            writer.end_row(&mut out);
        }
        writer.end(&mut out);
        let pieces: Vec<&[u8]> = out.chunks(cut).collect();
        prop_assert_eq!(read(format, &pieces).unwrap(), rows);
    }

    #[test]
    fn any_bytes_are_read_without_panic(format in formats(), input: Vec<u8>, cut in 1usize..9) {
        let pieces: Vec<&[u8]> = input.chunks(cut).collect();
        let _ = read(format, &pieces);
    }
}
