//! Rows are read back as written, whatever columns were added or dropped since.

use base::{Oid, TreeId};
use types::{ElementType, PgType, TypeMod};

use super::*;
use crate::catalog::{Column, OWNER_ROLE, PUBLIC_SCHEMA};

fn table(types: &[PgType]) -> Table {
    let mut table = Table::new(Oid(20000), PUBLIC_SCHEMA, "t", OWNER_ROLE, TreeId(9));
    for (i, ty) in types.iter().enumerate() {
        table.columns.push(Column::new(format!("c{i}"), *ty, TypeMod::NONE));
    }
    table.refresh_layout();
    table
}

fn encoded(table: &Table, row: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_row(table, row, &mut out).unwrap();
    out
}

#[test]
fn each_column_is_read_back_alone() {
    let table = table(&[PgType::Int4, PgType::Text, PgType::Int8, PgType::Varchar, PgType::Bool]);
    let row = vec![
        Datum::Int4(-7),
        Datum::Text("hello".into()),
        Datum::Null,
        Datum::Text("".into()),
        Datum::Bool(true),
    ];
    let bytes = encoded(&table, &row);
    for (i, datum) in row.iter().enumerate() {
        assert_eq!(read_column(&table, &bytes, i).unwrap(), *datum);
    }
    // 2 for the count, 1 for NULL bits, 13 fixed, 4 of ends, 5 of text.
    assert_eq!(bytes.len(), 2 + 1 + 13 + 4 + 5);
}

#[test]
fn a_row_with_a_long_value_uses_wide_ends() {
    let table = table(&[PgType::Text, PgType::Int2, PgType::Text]);
    let long = "x".repeat(70_000);
    let row = vec![Datum::Text(long.as_str().into()), Datum::Int2(3), Datum::Text("end".into())];
    let bytes = encoded(&table, &row);
    assert_eq!(decode_row(&table, &bytes).unwrap(), row);
}

#[test]
fn a_row_is_refused_for_its_whole_length() {
    let table = table(&[PgType::Text]);
    // 2 for the count, 1 for NULL bits, 4 for the end of the text.
    let longest = ROW_LEN_MAX.0 as usize - 7;
    for (len, fits) in [(longest, true), (longest + 1, false), (longest + 4, false)] {
        let row = [Datum::Text("x".repeat(len).into())];
        let outcome = encode_row(&table, &row, &mut Vec::new());
        assert_eq!(
            outcome.map_err(|error| error.state()),
            if fits { Ok(()) } else { Err(SqlState::PROGRAM_LIMIT_EXCEEDED) }
        );
    }
}

#[test]
fn columns_added_later_have_their_missing_value_and_dropped_ones_are_null() {
    let mut table = table(&[PgType::Int4, PgType::Text]);
    let bytes = encoded(&table, &[Datum::Int4(1), Datum::Text("a".into())]);
    let mut added = Column::new("c2", PgType::Int4, TypeMod::NONE);
    added.missing = Some(Box::new(Datum::Int4(42)));
    table.columns.push(added);
    table.columns[0].dropped = true;
    table.refresh_layout();
    assert_eq!(
        decode_row(&table, &bytes).unwrap(),
        vec![Datum::Null, Datum::Text("a".into()), Datum::Int4(42)]
    );
}

#[test]
fn the_catalogs_vectors_are_read_back() {
    let of_vectors = PgType::Array(ElementType::Int2Vector);
    let table = table(&[PgType::Int2Vector, PgType::OidVector, of_vectors]);
    let numbers = Datum::array(ElementType::Int2, vec![Datum::Int2(1), Datum::Int2(-2)]);
    let oids = Datum::array(ElementType::Oid, vec![Datum::Oid(20)]);
    let vectors = Datum::array(ElementType::Int2Vector, vec![numbers.clone(), Datum::Null]);
    let row = [numbers, oids, vectors];
    assert_eq!(decode_row(&table, &encoded(&table, &row)).unwrap()[..], row);
}

#[test]
fn damaged_rows_are_errors() {
    let table = table(&[PgType::Text, PgType::Bool, PgType::Text]);
    let bytes = encoded(&table, &[Datum::Text("abc".into()), Datum::Bool(true), Datum::Text("def".into())]);
    for len in 0..bytes.len() - 3 {
        assert!(decode_row(&table, &bytes[..len]).is_err(), "cut at {len}");
    }
    let mut broken = bytes.clone();
    broken[3] = 7;
    assert!(decode_row(&table, &broken).is_err());
}

#[test]
fn numerics_take_few_bytes_and_keep_their_scale() {
    let table = table(&[PgType::Numeric]);
    for (text, len) in [
        ("0.00", 1),
        ("-0.01", 2),
        ("1.27", 2),
        ("1.28", 3),
        ("-1.28", 2),
        ("300000.00", 5),
        ("9223372036854775807", 9),
        ("-9223372036854775808", 9),
    ] {
        let numeric = types::Numeric::parse(text).unwrap();
        let bytes = encoded(&table, &[Datum::Numeric(numeric.clone())]);
        assert_eq!(bytes.len(), 2 + 1 + 2 + len, "{text}");
        assert_eq!(read_column(&table, &bytes, 0).unwrap(), Datum::Numeric(numeric));
    }
    for text in ["NaN", "Infinity", "123456789012345678901234567890.5"] {
        let numeric = types::Numeric::parse(text).unwrap();
        let bytes = encoded(&table, &[Datum::Numeric(numeric.clone())]);
        assert_eq!(read_column(&table, &bytes, 0).unwrap(), Datum::Numeric(numeric));
    }
}

#[test]
fn a_column_of_many_rows_is_what_each_row_says_of_it() {
    let mut table = table(&[PgType::Int8, PgType::Text, PgType::Numeric]);
    let short =
        encoded(&table, &[Datum::Int8(-5), Datum::Null, "12.50".parse().map(Datum::Numeric).unwrap()]);
    for (name, ty, missing) in [
        ("c3", PgType::Int4, Some(Datum::Int4(42))),
        ("c4", PgType::Text, Some(Datum::Text("new".into()))),
        ("c5", PgType::Bool, None),
    ] {
        let mut added = Column::new(name, ty, TypeMod::NONE);
        added.missing = missing.map(Box::new);
        table.columns.push(added);
    }
    table.refresh_layout();
    let wide = "w".repeat(70_000);
    let rows = [
        short,
        encoded(
            &table,
            &[
                Datum::Null,
                Datum::Text(wide.as_str().into()),
                "-9223372036854775808".parse().map(Datum::Numeric).unwrap(),
                Datum::Int4(7),
                Datum::Null,
                Datum::Bool(true),
            ],
        ),
    ];
    let opened: Vec<StoredRow<'_>> = rows.iter().map(|row| StoredRow::open(&table, row).unwrap()).collect();
    for (i, column) in table.columns.iter().enumerate() {
        let mut read = Vec::new();
        for_each_field(&opened, i, |field| {
            read.push(match field {
                Some(bytes) => read_value(column.ty, bytes)?,
                None => Datum::Null,
            });
            Some(Ok(()))
        })
        .unwrap();
        let each: Vec<Datum> = rows.iter().map(|row| read_column(&table, row, i).unwrap()).collect();
        assert_eq!(read, each, "column {i}");
    }
    let error = for_each_field(&opened, 0, |_| None).unwrap_err();
    assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
}

#[test]
fn a_row_changed_in_part_is_as_one_put_together_anew() {
    let types = [PgType::Int4, PgType::Text, PgType::Bool, PgType::Numeric, PgType::Int8, PgType::Varchar];
    let table = table(&types);
    let text = |len: usize| Datum::Text("x".repeat(len).into());
    let numeric = |n: i64| Datum::Numeric(n.into());
    let rows = [
        vec![Datum::Int4(1), text(3), Datum::Bool(true), numeric(7), Datum::Int8(-1), text(0)],
        vec![Datum::Null, Datum::Null, Datum::Null, Datum::Null, Datum::Null, Datum::Null],
        vec![Datum::Int4(2), text(70_000), Datum::Null, numeric(-123_456), Datum::Int8(9), text(40)],
        vec![Datum::Null, text(60_000), Datum::Bool(false), Datum::Null, Datum::Null, text(30_000)],
    ];
    for (old, new) in rows.iter().flat_map(|old| rows.iter().map(move |new| (old, new))) {
        for mask in 1..1u32 << types.len() {
            let is_changed = |(column, _): &(usize, &Datum)| mask & (1 << column) != 0;
            let changed: Vec<(usize, &Datum)> = new.iter().enumerate().filter(is_changed).rev().collect();
            let mut whole = old.clone();
            changed.iter().for_each(|(column, datum)| whole[*column] = (*datum).clone());
            let in_part = encode_in_part(&table, &encoded(&table, old), &changed).unwrap();
            assert!(in_part == encoded(&table, &whole), "{mask:b}");
        }
    }
}

#[test]
fn a_row_from_before_a_column_was_added_is_changed_in_part() {
    let mut table = table(&[PgType::Int4, PgType::Text]);
    let old = encoded(&table, &[Datum::Int4(1), Datum::Text("a".into())]);
    table.columns.push(Column::new("added", PgType::Int2, TypeMod::NONE));
    table.refresh_layout();
    let in_part = encode_in_part(&table, &old, &[(0, &Datum::Int4(5))]).unwrap();
    let whole = [Datum::Int4(5), Datum::Text("a".into()), Datum::Null];
    assert_eq!(in_part, encoded(&table, &whole));
    assert!(encode_in_part(&table, &old[..3], &[(0, &Datum::Int4(5))]).is_err());
}
