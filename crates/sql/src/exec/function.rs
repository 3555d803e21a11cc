//! Functions in FROM.

use base::SqlError;
use types::{Datum, PgType, TypeMod};

use super::node::Emit;
use super::{Cx, Flow, Halt, Position, Run, Slice};
use crate::expr::{BoundExpr, eval, series_counts_down};
use crate::plan::TableFunction;

impl Run<'_, '_> {
    pub(super) fn function(
        &self,
        function: &TableFunction,
        first: usize,
        ordinality: bool,
        cx: &Cx<'_>,
        row: &mut Vec<Datum>,
        emit: Emit<'_>,
    ) -> Halt<Flow> {
        let value =
            |expr: &BoundExpr, row: &[Datum]| eval(expr, &cx.row(row)).map_err(|error| self.halt(error));
        let mut number = 0;
        let mut give = |row: &mut Vec<Datum>, width: usize| {
            number += 1;
            if ordinality {
                row[first + width] = Datum::Int8(number);
            }
            emit(row)
        };
        match function {
            TableFunction::Scalar(expr) => {
                row[first] = value(expr, row)?;
                self.note_filled(row[first].heap_bytes(), cx, row)?;
                give(row, 1)
            }
            TableFunction::Unnest(arrays) => {
                let mut columns = Vec::with_capacity(arrays.len());
                let mut bytes = 0;
                for array in arrays {
                    columns.push(match self.part(array, &cx.row(row), &mut bytes)? {
                        Datum::Array(array) => array.items,
                        _ => Vec::new(),
                    });
                }
                let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
                for i in 0..rows {
                    for (j, column) in columns.iter().enumerate() {
                        row[first + j] = column.get(i).cloned().unwrap_or(Datum::Null);
                    }
                    self.examine()?;
                    self.step()?;
                    if give(row, columns.len())? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                Ok(Flow::More)
            }
            TableFunction::Series { ty, start, stop, step } => {
                let slice = self.limits.slice;
                let (start, stop, step) = match slice.and_then(Slice::from) {
                    Some(Position::Series { next, stop, step }) => {
                        (next.clone(), stop.clone(), Some(step.clone()))
                    }
                    _ => {
                        let (start, stop) = (value(start, row)?, value(stop, row)?);
                        (start, stop, step.as_ref().map(|step| value(step, row)).transpose()?)
                    }
                };
                let Some(mut series) = Series::new(*ty, start, stop, step, cx)? else {
                    return Ok(Flow::More);
                };
                while let Some(next) = series.next()? {
                    row[first] = next;
                    self.examine()?;
                    self.step()?;
                    if give(row, 1)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                    if let Some(slice) = slice
                        && slice.is_full()
                        && let Some(next) = series.next.take()
                    {
                        let (stop, step) = (series.stop.clone(), series.step.clone());
                        slice.end_at(Position::Series { next, stop, step });
                        return Ok(Flow::Stop);
                    }
                }
                Ok(Flow::More)
            }
        }
    }
}

/// `generate_series` under way.
struct Series<'a> {
    next: Option<Datum>,
    stop: Datum,
    step: Datum,
    down: bool,
    format: &'a types::FormatContext,
}

impl<'a> Series<'a> {
    fn new(
        ty: PgType,
        start: Datum,
        stop: Datum,
        step: Option<Datum>,
        cx: &Cx<'a>,
    ) -> Result<Option<Series<'a>>, SqlError> {
        let format = cx.stmt.format;
        let step = match step {
            Some(step) => step,
            None => {
                let how = types::CastContext::Implicit;
                types::cast(Datum::Int4(1), PgType::Int4, ty, TypeMod::NONE, how, format)?
            }
        };
        if start.is_null() || stop.is_null() || step.is_null() {
            return Ok(None);
        }
        let down = series_counts_down(&start, &stop, &step)?;
        Ok(Some(Series { next: Some(start), stop, step, down, format }))
    }

    fn next(&mut self) -> Result<Option<Datum>, SqlError> {
        let Some(value) = self.next.take() else { return Ok(None) };
        let order = types::compare(&value, &self.stop);
        if if self.down { order.is_lt() } else { order.is_gt() } {
            return Ok(None);
        }
        // Beyond the type's range there is nothing more.
        self.next = match (&value, &self.step) {
            (Datum::Int4(a), Datum::Int4(b)) => a.checked_add(*b).map(Datum::Int4),
            (Datum::Int8(a), Datum::Int8(b)) => a.checked_add(*b).map(Datum::Int8),
            _ => Some(advance(&value, &self.step, self.format)?),
        };
        Ok(Some(value))
    }
}

fn advance(value: &Datum, step: &Datum, format: &types::FormatContext) -> Result<Datum, SqlError> {
    match (value, step) {
        (Datum::Timestamp(at), Datum::Interval(step)) => {
            Ok(Datum::Timestamp(types::datetime::arith::timestamp_add(*at, step)?))
        }
        (Datum::TimestampTz(at), Datum::Interval(step)) => {
            Ok(Datum::TimestampTz(types::datetime::arith::timestamptz_add(*at, step, &format.time_zone)?))
        }
        _ => types::arith::add(value, step),
    }
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn a_series_that_is_gone_through_in_slices_has_the_end_that_it_had_in_the_first() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id bigint); CREATE SEQUENCE ends START 8000");
        let insert = "INSERT INTO t SELECT g FROM generate_series(1, nextval('ends')) g";
        let (_, turns) = bench.run_in_turns(&mut session, insert);
        assert!(turns > 10, "{turns} turns");
        // What was too long for one turn may have been given another end.
        let (deleted, _) = bench.run_in_turns(&mut session, "DELETE FROM t");
        assert!(["DELETE 8000", "DELETE 8001"].contains(&&*deleted.tags[0]), "{:?}", deleted.tags);
        assert_eq!(bench.run(&mut session, "SELECT nextval('ends') <= 8002").lines(), ["t"]);
    }
}
