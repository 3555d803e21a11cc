//! CPUIO's three queries over one connection.

use rand::rngs::SmallRng;

use super::mix::KINDS;
use super::table::Cpuio;
use crate::Result;
use crate::connection::{Connection, Prepared};
use crate::load::{Outcome, Transactor};
use crate::random::Draw as _;

/// Reads no table: all it takes is CPU.
pub const CPU: &str = "select sum(sqrt(i::float8) * ln(i::float8) + exp(1.0 / i::float8)) from generate_series(1, $1::int) as i";
/// Reads rows of neighbouring keys, pages that lie side by side.
pub const SCAN: &str = "select count(*), sum(amount) from cpuio where id between $1 and $2";
/// Reads rows by the second index, each on a page of its own.
pub const LOOKUP: &str = "select count(*), sum(amount) from cpuio where spread = $1";

/// A client that draws its queries by the mix.
pub struct Querier {
    connection: Connection,
    statements: [Prepared; KINDS.len()],
    cpuio: Cpuio,
    rng: SmallRng,
}

impl Querier {
    pub(super) async fn new(mut connection: Connection, cpuio: Cpuio, rng: SmallRng) -> Result<Querier> {
        let statements = [
            connection.prepare(CPU).await?,
            connection.prepare(SCAN).await?,
            connection.prepare(LOOKUP).await?,
        ];
        Ok(Querier { connection, statements, cpuio, rng })
    }
}

impl Transactor for Querier {
    fn choose(&mut self) -> usize {
        self.cpuio.mix.draw(&mut self.rng)
    }

    async fn run(&mut self, kind: usize) -> Result<Outcome> {
        let Querier { connection, statements, cpuio, rng } = self;
        let statement = &statements[kind];
        let expected = match KINDS[kind] {
            "cpu" => {
                connection.add(statement, &[&i32::try_from(cpuio.cpu_rounds)?])?;
                None
            }
            "scan" => {
                let first = rng.uniform(1, cpuio.rows - cpuio.scan_rows + 1);
                let last = first + cpuio.scan_rows - 1;
                connection.add(statement, &[&i64::try_from(first)?, &i64::try_from(last)?])?;
                Some(cpuio.scan_rows)
            }
            "lookup" => {
                let value = rng.uniform(0, cpuio.values() - 1);
                connection.add(statement, &[&i64::try_from(value)?])?;
                Some(cpuio.lookup_rows.min(cpuio.rows - value * cpuio.lookup_rows))
            }
            other => unreachable!("there is no kind {other}"),
        };
        let replies = connection.exchange().await?;
        let row = replies[0].row()?;
        if let Some(expected) = expected {
            let rows: i64 = row.get(0)?;
            // A query that reads less than it should would be measured as a fast one.
            if u64::try_from(rows) != Ok(expected) {
                return Err(
                    format!("a {} found {rows} rows where {expected} were loaded", KINDS[kind]).into()
                );
            }
        }
        Ok(Outcome::Committed)
    }
}
