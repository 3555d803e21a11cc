//! The server's ledger, read by SQL, and series of it.

use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use crate::Result;

/// Length of a metering interval.
pub const INTERVAL_US: u64 = 1_000_000;

/// A row of `rowhouse.ledger`. Amounts are core-seconds or I/Os, times are microseconds since 1970 and seconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    pub tenant: String,
    pub began_us: u64,
    pub ended_us: u64,
    /// Seconds in which the tenant wanted anything.
    pub active: f64,
    pub promised: f64,
    pub demanded: f64,
    pub given: f64,
    pub missed: f64,
    pub cause: String,
}

/// Rows of intervals that lie within two moments, in their order, of a resource: `cpu`, or `io` of the volume `default`.
///
/// # Errors
/// When the server refuses; 0A000 in a build without the analytical path.
pub async fn rows(
    admin: &Client,
    relation: &str,
    resource: &str,
    from_us: u64,
    to_us: u64,
) -> Result<Vec<Row>> {
    let epoch = |column: &str| format!("(extract(epoch from {column}) * 1000000)::int8");
    let sql = format!(
        "select tenant, {began}, {ended}, active, promised, demanded, given, missed, coalesce(cause, '')
         from rowhouse.{relation}
         where resource = '{resource}' and (resource <> 'io' or volume = 'default')
           and {began} >= {from_us} and {ended} <= {to_us}
         order by began, tenant",
        began = epoch("began"),
        ended = epoch("ended"),
    );
    let found = admin.query(&sql, &[]).await?;
    Ok(found
        .iter()
        .map(|row| Row {
            tenant: row.get(0),
            began_us: row.get::<_, i64>(1).cast_unsigned(),
            ended_us: row.get::<_, i64>(2).cast_unsigned(),
            active: row.get(3),
            promised: row.get(4),
            demanded: row.get(5),
            given: row.get(6),
            missed: row.get(7),
            cause: row.get(8),
        })
        .collect())
}

/// One value for each whole interval from `from_us` on to `to_us`: of a tenant's row, 0 where it has none because it wanted nothing.
pub fn series(rows: &[Row], tenant: &str, from_us: u64, to_us: u64, value: impl Fn(&Row) -> f64) -> Vec<f64> {
    let of_tenant = || rows.iter().filter(|row| row.tenant == tenant);
    // Intervals of a server follow each other; anybody's say where they begin.
    let phase = rows.first().map_or(0, |row| row.began_us % INTERVAL_US);
    let first = (from_us.saturating_sub(phase)).div_ceil(INTERVAL_US) * INTERVAL_US + phase;
    let count = to_us.saturating_sub(first) / INTERVAL_US;
    let mut values = vec![0.0; usize::try_from(count).unwrap_or(0)];
    for row in of_tenant() {
        // The server's clock may be corrected by some microseconds meanwhile.
        let at = (row.began_us + INTERVAL_US / 2).checked_sub(first).map(|after| after / INTERVAL_US);
        if let Some(place) = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| values.get_mut(at)) {
            *place += value(row);
        }
    }
    values
}

/// What a tenant missed, as a part of what it was owed: what it wanted of what was promised. `None` where it was owed nothing.
pub fn missed_part(rows: &[Row], tenant: &str) -> Option<f64> {
    let (missed, owed) = rows
        .iter()
        .filter(|row| row.tenant == tenant)
        .fold((0.0, 0.0), |(missed, owed), row| (missed + row.missed, owed + row.demanded.min(row.promised)));
    (owed > 0.0).then_some(missed / owed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tenant: &str, began_us: u64, given: f64) -> Row {
        Row {
            tenant: tenant.into(),
            began_us,
            ended_us: began_us + INTERVAL_US,
            active: 1.0,
            promised: 80.0,
            demanded: given,
            given,
            missed: 0.0,
            cause: String::new(),
        }
    }

    #[test]
    fn what_is_missed_is_a_part_of_what_is_owed() {
        let short = Row { demanded: 100.0, missed: 40.0, ..row("t1", 0, 40.0) };
        // It wanted 20 of 80.
        let rows = [short, row("t1", INTERVAL_US, 20.0), row("t2", 0, 7.0)];
        assert_eq!(missed_part(&rows, "t1"), Some(0.4));
        assert_eq!((missed_part(&rows, "t2"), missed_part(&rows, "t3")), (Some(0.0), None));
    }

    #[test]
    fn intervals_without_a_row_are_zeros() {
        let second = INTERVAL_US;
        let phase = 250_000;
        let rows = [
            row("t1", 10 * second + phase, 60.0),
            row("t2", 10 * second + phase, 20.0),
            // Some microseconds early, as by a corrected clock.
            row("t1", 12 * second + phase - 7, 61.0),
        ];
        let of = |tenant| series(&rows, tenant, 10 * second, 14 * second, |row| row.given);
        assert_eq!(of("t1"), [60.0, 0.0, 61.0], "whole intervals within four seconds: three");
        assert_eq!(of("t2"), [20.0, 0.0, 0.0]);
        assert_eq!(of("t3"), [0.0; 3]);
        assert!(series(&[], "t1", 0, 0, |row| row.given).is_empty());
        // What lies outside is not counted.
        assert_eq!(series(&rows, "t1", 11 * second, 12 * second + phase, |row| row.given), [0.0]);
    }
}
