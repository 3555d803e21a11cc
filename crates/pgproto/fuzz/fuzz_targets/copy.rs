//! Feeds any bytes, in two pieces, to the readers of COPY's formats.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgproto::copy::{RowFormat, RowReader};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let format = match choice % 3 {
        0 => RowFormat::text(),
        1 => RowFormat::csv(),
        _ => RowFormat::Binary,
    };
    let mut reader = RowReader::new(format);
    let (first, second) = data.split_at(data.len() * usize::from(choice) / 256);
    for piece in [first, second] {
        reader.push(piece);
        loop {
            match reader.next_row() {
                Ok(Some(row)) => assert_eq!(row.iter().count(), row.len()),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    reader.finish();
    while let Ok(Some(_)) = reader.next_row() {}
});
