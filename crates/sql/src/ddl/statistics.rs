//! ANALYZE: reads a table once and keeps what planners want to know of its columns.

use std::hash::Hasher;
use std::sync::Arc;

use base::{Oid, SqlError, SqlState};
use rustc_hash::FxHasher;
use tenant::catalog::{ColumnStatistics, Relation, Table, TableStatistics};
use types::{Datum, PgType};

use super::names::split_parts;
use crate::session::{Home, Pause, Reply, Session};

/// Analyzes the named tables, or all that the role owns.
///
/// # Errors
/// 42P01, 42809; a WARNING for a named table of another's.
pub(crate) fn analyze(
    session: &mut Session,
    home: &mut Home<'_>,
    tables: &[Vec<String>],
    command: &str,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let names = session.names(home);
    let mut found: Vec<Arc<Table>> = Vec::new();
    for parts in tables {
        let (schema, name) = split_parts(parts.clone())?;
        match names.relation(schema.as_deref(), &name)? {
            Relation::Table(table) if session.acts_for(&names.catalog, table.owner) => {
                found.push(table.clone())
            }
            Relation::Table(table) => {
                let message =
                    format!("skipping \"{}\" --- only table or database owner can {command} it", table.name);
                warn(&message, out);
            }
            other => {
                let message = format!(
                    "skipping \"{}\" --- cannot {command} non-tables or special system tables",
                    other.name()
                );
                warn(&message, out);
            }
        }
    }
    if tables.is_empty() {
        found.extend(names.catalog.tables().filter(|t| session.acts_for(&names.catalog, t.owner)).cloned());
        found.sort_by_key(|table| table.oid);
    }
    if found.is_empty() || command == "vacuum" {
        return Ok(());
    }
    session.require_writable(home, "ANALYZE")?;
    for table in found {
        let statistics = gather(session, home, &table)?;
        let oid: Oid = table.oid;
        session.ddl(home, |ddl| {
            ddl.set_statistics(oid, statistics);
            Ok(())
        })?;
    }
    Ok(())
}

fn warn(message: &str, out: &mut dyn Reply) {
    let warning = SqlError::new(SqlState::WARNING, message).with_severity(base::Severity::Warning);
    out.notice(&warning);
}

fn gather(session: &mut Session, home: &mut Home<'_>, table: &Table) -> Result<TableStatistics, Pause> {
    let mut columns: Vec<Option<Column>> =
        table.columns.iter().map(|column| (!column.dropped).then(|| Column::new(column.ty))).collect();
    let mut rows = 0;
    session.for_each_row(home, table.oid, &mut |row| {
        rows += 1;
        for (column, value) in columns.iter_mut().zip(row.row) {
            if let Some(column) = column {
                column.add(value);
            }
        }
        Ok(())
    })?;
    let columns = columns.into_iter().map(|column| column.map(|column| column.finish(rows))).collect();
    Ok(TableStatistics { rows, columns })
}

/// Values of one column so far.
struct Column {
    ty: PgType,
    nulls: u64,
    bytes: u64,
    distinct: Distinct,
    bounds: Option<(Datum, Datum)>,
}

impl Column {
    fn new(ty: PgType) -> Column {
        Column { ty, nulls: 0, bytes: 0, distinct: Distinct::default(), bounds: None }
    }

    fn add(&mut self, value: &Datum) {
        if value.is_null() {
            self.nulls += 1;
            return;
        }
        self.bytes += width(value, self.ty);
        let mut hasher = FxHasher::default();
        types::hash(value, &mut hasher);
        self.distinct.add(spread(hasher.finish()));
        // Documents have no order worth keeping.
        if matches!(self.ty, PgType::Json | PgType::Jsonb) {
            return;
        }
        match &mut self.bounds {
            None => self.bounds = Some((value.clone(), value.clone())),
            Some((low, high)) => {
                if types::compare(value, low).is_lt() {
                    *low = value.clone();
                } else if types::compare(value, high).is_gt() {
                    *high = value.clone();
                }
            }
        }
    }

    fn finish(self, rows: u64) -> ColumnStatistics {
        let filled = rows - self.nulls;
        ColumnStatistics {
            null_fraction: if rows == 0 { 0.0 } else { self.nulls as f64 / rows as f64 },
            distinct: self.distinct.estimate().min(filled as f64),
            width: if filled == 0 { 0 } else { u32::try_from(self.bytes / filled).unwrap_or(u32::MAX) },
            bounds: self.bounds.map(Box::new),
        }
    }
}

/// Bytes of a value, about.
fn width(value: &Datum, ty: PgType) -> u64 {
    match (ty.type_len(), value) {
        (fixed, _) if fixed > 0 => fixed.unsigned_abs().into(),
        (_, Datum::Text(text)) => text.len() as u64,
        (_, Datum::Bytea(bytes)) => bytes.len() as u64,
        (_, Datum::Array(array)) => 16 * array.items.len() as u64,
        _ => 16,
    }
}

/// Hashes of neighbouring integers are neighbours: spread them over all bits.
fn spread(hash: u64) -> u64 {
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
}

/// Hashes kept to count distinct values: below this many the count is exact, above it is right within a few in a hundred.
const HASHES_MAX: usize = 4096;

/// The smallest hashes seen: how small the largest of them is tells how many there are in all.
#[derive(Default)]
struct Distinct {
    smallest: std::collections::BTreeSet<u64>,
}

impl Distinct {
    fn add(&mut self, hash: u64) {
        if self.smallest.len() < HASHES_MAX {
            self.smallest.insert(hash);
        } else if self.smallest.last().is_some_and(|last| hash < *last) && self.smallest.insert(hash) {
            self.smallest.pop_last();
        }
    }

    fn estimate(&self) -> f64 {
        match self.smallest.last() {
            Some(last) if self.smallest.len() == HASHES_MAX => {
                (HASHES_MAX - 1) as f64 * (u64::MAX as f64 / *last as f64)
            }
            _ => self.smallest.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distinct_of(values: impl Iterator<Item = i32>) -> f64 {
        let mut column = Column::new(PgType::Int4);
        values.for_each(|value| column.add(&Datum::Int4(value)));
        column.distinct.estimate()
    }

    #[test]
    fn few_distinct_values_are_counted_exactly() {
        assert_eq!(distinct_of((0..10_000).map(|i| i % 37)), 37.0);
    }

    #[test]
    fn many_distinct_values_are_estimated_within_a_tenth() {
        let estimate = distinct_of(0..200_000);
        assert!((180_000.0..220_000.0).contains(&estimate), "{estimate}");
    }

    #[test]
    fn nulls_count_for_the_fraction_alone() {
        let mut column = Column::new(PgType::Text);
        column.add(&Datum::Null);
        column.add(&Datum::Text("abcd".into()));
        let statistics = column.finish(2);
        assert_eq!((statistics.null_fraction, statistics.distinct, statistics.width), (0.5, 1.0, 4));
    }
}
