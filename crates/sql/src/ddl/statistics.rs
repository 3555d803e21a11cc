//! ANALYZE: reads a table once and keeps what planners want to know of its columns.
//!
//! It locks nothing and takes as many turns as it needs: what was gathered by the end of one stays with the session ([`Analysis`]).

use std::hash::Hasher;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use rustc_hash::FxHasher;
use tenant::catalog::{ColumnStatistics, Relation, Table, TableStatistics};
use tenant::row::keys::{Key, KeyRange};
use tenant::{Access, Direction};
use types::{Datum, PgType};

use super::names::{column_of, split_parts};
use crate::parse::TableColumns;
use crate::session::{Home, Pause, Reply, Session};

/// Analyzes the named tables, all of their columns, or all tables that the role owns.
///
/// # Errors
/// 42P01, 42703, 42701; a WARNING for a named table of another's, and for what is no table.
pub(crate) fn analyze(
    session: &mut Session,
    home: &mut Home<'_>,
    tables: &[TableColumns],
    command: &str,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let names = session.names(home);
    let mut found: Vec<Arc<Table>> = Vec::new();
    for TableColumns { table, columns } in tables {
        let (schema, name) = split_parts(table.clone())?;
        match names.relation(schema.as_deref(), &name)? {
            Relation::Table(table) if session.acts_for(&names.catalog, table.owner) => {
                check_columns(table, columns)?;
                found.push(table.clone());
            }
            Relation::Table(table) => {
                let message =
                    format!("skipping \"{}\" --- only table or database owner can {command} it", table.name);
                warn(session, &message, out);
            }
            other => {
                let message = format!(
                    "skipping \"{}\" --- cannot {command} non-tables or special system tables",
                    other.name()
                );
                warn(session, &message, out);
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
    let mut analysis = session.take_analysis();
    // The catalog is others' to change while rows are read.
    let outcome = found.iter().try_for_each(|table| analysis.gather(session, home, table)).and_then(|()| {
        session.with_view(home, |view| {
            let mut ddl = view.ddl_for_statistics()?;
            for table in &found {
                let statistics = analysis.of(table).expect("gathered just now");
                ddl.set_statistics(table.oid, statistics.clone());
            }
            Ok(())
        })
    });
    if !matches!(outcome, Ok(()) | Err(Pause::Error(_))) {
        session.keep_analysis(analysis);
    }
    outcome
}

/// Errors: 42703 for a column that is not there, 42701 for one that is named twice.
fn check_columns(table: &Table, columns: &[String]) -> SqlResult<()> {
    for (index, name) in columns.iter().enumerate() {
        column_of(table, name)?;
        if columns[..index].contains(name) {
            let message = format!("column \"{name}\" of relation \"{}\" appears more than once", table.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn warn(session: &Session, message: &str, out: &mut dyn Reply) {
    let warning = SqlError::new(SqlState::WARNING, message).with_severity(base::Severity::Warning);
    session.notice(&warning, out);
}

/// What an ANALYZE that is run again goes on with.
#[derive(Default)]
pub(crate) struct Analysis {
    /// By table as it was defined then.
    done: Vec<(Arc<Table>, TableStatistics)>,
    gathering: Option<Gathering>,
}

impl Analysis {
    fn of(&self, table: &Arc<Table>) -> Option<&TableStatistics> {
        self.done.iter().find(|(done, _)| Arc::ptr_eq(done, table)).map(|(_, statistics)| statistics)
    }

    /// Gathers the statistics of a table, if that is not done.
    ///
    /// # Errors
    /// A pause where it takes further turns.
    fn gather(
        &mut self,
        session: &mut Session,
        home: &mut Home<'_>,
        table: &Arc<Table>,
    ) -> Result<(), Pause> {
        if self.of(table).is_some() {
            return Ok(());
        }
        let begun = self.gathering.take().filter(|gathering| Arc::ptr_eq(&gathering.table, table));
        let mut gathering = begun.unwrap_or_else(|| Gathering::new(table));
        let outcome = gathering.take_turn(session, home);
        if let Ok(true) = outcome {
            self.done.push((Arc::clone(table), gathering.finish()));
            return Ok(());
        }
        self.gathering = Some(gathering);
        outcome.and(Err(Pause::Yield))
    }
}

/// Rows read in a turn: some 250 us.
const TURN_ROWS: u64 = 256;

/// The rows of a table that were read so far.
struct Gathering {
    table: Arc<Table>,
    after: Option<Key>,
    rows: u64,
    /// By position; `None` where one was dropped.
    columns: Vec<Option<Column>>,
}

impl Gathering {
    fn new(table: &Arc<Table>) -> Gathering {
        let column = |column: &tenant::catalog::Column| (!column.dropped).then(|| Column::new(column.ty));
        Gathering {
            table: Arc::clone(table),
            after: None,
            rows: 0,
            columns: table.columns.iter().map(column).collect(),
        }
    }

    /// Reads some rows; whether those were the last ones.
    fn take_turn(&mut self, session: &mut Session, home: &mut Home<'_>) -> Result<bool, Pause> {
        let before = self.rows;
        let outcome = session.with_view(home, |view| {
            let range = KeyRange::behind(self.after.as_ref());
            let mut scan = view.scan_newest(&self.table, Access::Table, range, Direction::Forward)?;
            let positions: Vec<usize> = (0..self.table.columns.len()).collect();
            let mut row = Vec::new();
            while self.rows - before < TURN_ROWS {
                row.clear();
                let Some(key) = view.next_columns(&mut scan, &positions, &mut row)? else { return Ok(true) };
                for (column, value) in self.columns.iter_mut().zip(&row) {
                    if let Some(column) = column {
                        column.add(value);
                    }
                }
                self.after = Some(key);
                self.rows += 1;
            }
            Ok(false)
        });
        session.end_part(home, self.rows - before, outcome.is_ok());
        outcome
    }

    fn finish(self) -> TableStatistics {
        let rows = self.rows;
        let columns = self.columns.into_iter().map(|column| column.map(|column| column.finish(rows)));
        TableStatistics { rows, columns: columns.collect() }
    }
}

/// Bytes of the longest value that is kept for a bound: the catalog keeps none that is longer.
const BOUND_LEN_MAX: usize = 1 << 10;

/// Values of one column so far.
struct Column {
    ty: PgType,
    nulls: u64,
    bytes: u64,
    distinct: Distinct,
    /// The smallest and the largest; `Some(None)` once one of them was long.
    bounds: Option<Option<(Datum, Datum)>>,
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
        let short = || (value.heap_bytes() <= BOUND_LEN_MAX).then(|| value.clone());
        match &mut self.bounds {
            None => self.bounds = Some(short().zip(short())),
            Some(None) => {}
            Some(Some((low, high))) => {
                let (bound, is_beyond) = if types::compare(value, low).is_lt() {
                    (low, true)
                } else {
                    let is_beyond = types::compare(value, high).is_gt();
                    (high, is_beyond)
                };
                if is_beyond {
                    match short() {
                        Some(value) => *bound = value,
                        None => self.bounds = Some(None),
                    }
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
            bounds: self.bounds.flatten().map(Box::new),
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
    fn long_values_are_no_bounds() {
        let mut column = Column::new(PgType::Text);
        for text in ["b".repeat(10), "c".repeat(5000), "a".repeat(10)] {
            column.add(&Datum::text(text));
        }
        assert_eq!(column.bounds, Some(None));
        assert!(column.finish(3).bounds.is_none());
        let mut column = Column::new(PgType::Text);
        for text in ["b".repeat(10), "c".repeat(10), "bb".repeat(5000), "a".repeat(20)] {
            column.add(&Datum::text(text));
        }
        let bounds = column.finish(4).bounds.expect("the extremes are short");
        assert_eq!(*bounds, (Datum::text("a".repeat(20)), Datum::text("c".repeat(10))));
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
