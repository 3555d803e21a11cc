//! What a query answers, in a form in which two servers' answers can be compared.

use std::time::{Duration, Instant};

use rust_decimal::Decimal;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::parameters::Parameters;
use super::queries;
use super::scale::Scale;
use crate::Result;

/// A query's answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// A line each, fields with `|` between them, sorted: queries leave the order of equals open. NULL is `\N`; numbers that
    /// are not whole are rounded to hundredths, to which clause 2.1.3.5 has them compared.
    pub rows: Vec<String>,
    pub elapsed: Duration,
}

impl Answer {
    /// FNV-1a, 64 bits, of the rows with a line's end after each: equal for equal rows.
    pub fn digest(&self) -> u64 {
        let bytes = self.rows.iter().flat_map(|row| row.bytes().chain([b'\n']));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

/// Runs a query, by its number from 1 to 22, with the validation parameters.
///
/// # Errors
/// When the server refuses it.
pub async fn answer(client: &Client, scale: Scale, number: usize) -> Result<Answer> {
    let sql = queries::text(number, &mut Parameters { scale, rng: None });
    let statement = client.prepare(&sql).await?;
    let types: Vec<&Type> = statement.columns().iter().map(tokio_postgres::Column::type_).collect();
    let began = Instant::now();
    let messages = client.simple_query(&sql).await?;
    let elapsed = began.elapsed();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(line(row, &types)),
        _ => None,
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort_unstable();
    Ok(Answer { rows, elapsed })
}

fn line(row: &SimpleQueryRow, types: &[&Type]) -> String {
    let field = |(at, of): (usize, &&Type)| match row.get(at) {
        None => "\\N".to_owned(),
        Some(value) if matches!(**of, Type::NUMERIC | Type::FLOAT4 | Type::FLOAT8) => hundredths(value),
        Some(value) => value.to_owned(),
    };
    types.iter().enumerate().map(field).collect::<Vec<_>>().join("|")
}

/// A number rounded to hundredths; what is no number stays as it is.
fn hundredths(value: &str) -> String {
    let number = value.parse::<Decimal>().or_else(|_| Decimal::from_scientific(value));
    // Digits beyond a decimal's 28 do not matter here.
    match number {
        Ok(number) => number.round_dp(2).normalize().to_string(),
        Err(_) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_to_the_hundredth() {
        for (value, rounded) in [
            ("25.5059034690303218", "25.51"),
            ("1.50", "1.5"),
            ("36901.000000000000000000", "36901"),
            ("1.25e3", "1250"),
            ("-0.001", "0"),
            ("NaN", "NaN"),
        ] {
            assert_eq!(hundredths(value), rounded, "{value}");
        }
    }

    #[test]
    fn a_digest_tells_rows_apart() {
        let digest = |rows: &[&str]| {
            let rows = rows.iter().map(ToString::to_string).collect();
            Answer { rows, elapsed: Duration::ZERO }.digest()
        };
        assert_eq!(digest(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest(&["a"]), digest(&["a"]));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }
}
