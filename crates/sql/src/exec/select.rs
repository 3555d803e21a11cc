//! One level of SELECT: projection, sort, DISTINCT, locks, OFFSET and LIMIT.

use std::borrow::Cow;
use std::cmp::Ordering;

use base::{SqlError, SqlState};
use rustc_hash::FxHashSet;
use tenant::RowLocked;
use tenant::locks::{RowLock, WaitPolicy};
use types::{Datum, Row, row_memory};

use super::row_key::{push_key_of, row_key};
use super::{Cx, Flow, Halt, Key, Run};
use crate::expr::{BoundExpr, EvalCtx, Volatility, eval, eval_ref};
use crate::memory_bound::{Held, require_row_len};
use crate::plan::{DistinctPlan, LockPlan, LockStrength, LockWaitPolicy, SelectPlan, SortColumn};

/// Memory of a row that DISTINCT remembers beside its bytes.
pub(super) const SEEN_LEN: usize = 32;

/// Takes the rows of a finished level.
pub(super) type Take<'e> = &'e mut dyn FnMut(&[Datum]) -> Halt<Flow>;

/// A projected row waiting to be sorted, with the keys of the rows it came from.
struct Sorted {
    row: Row,
    keys: Vec<Key>,
    /// The row that it is projected from, where something of it is still to be evaluated.
    source: Row,
}

/// The end of a level: which projected rows go out.
struct Tail<'m> {
    offset: u64,
    limit: Option<u64>,
    given: u64,
    seen: Option<FxHashSet<Box<[u8]>>>,
    held: Held<'m>,
}

impl Run<'_, '_> {
    /// Gives the rows of a level to `take` until it wants no more.
    pub(super) fn select(&self, plan: &SelectPlan, cx: &Cx<'_>, take: Take<'_>) -> Halt<()> {
        let limit = self.count(plan.limit.as_ref(), cx, "LIMIT")?;
        let offset = self.count(plan.offset.as_ref(), cx, "OFFSET")?.unwrap_or(0);
        if limit == Some(0) {
            return Ok(());
        }
        let distinct = !matches!(plan.distinct, DistinctPlan::No);
        let seen = distinct.then(FxHashSet::default);
        let mut tail = Tail { offset, limit, given: 0, seen, held: self.memory.hold() };
        let mut out = Row::with_capacity(plan.project.len());
        if plan.sort.is_empty() {
            self.source(plan, cx, &mut |row| {
                if self.missed.any() {
                    return Ok(Flow::More);
                }
                if self.plan.gives_slots {
                    take_slots(&plan.project, row, &mut out);
                } else {
                    self.project(&plan.project, cx, row, &mut out)?;
                }
                self.give(plan, &mut tail, &out, None, take)
            })?;
            return Ok(());
        }
        // What is volatile is evaluated in the order of the sort, for the rows that go out: PostgreSQL's `nextval` counts those.
        let sorts_by = |column| plan.sort.iter().any(|sort| sort.column == column);
        let is_late = |(column, expr): &(usize, &BoundExpr)| {
            !distinct && !sorts_by(*column) && expr.volatility() == Volatility::Volatile
        };
        let late: Vec<(usize, &BoundExpr)> = plan.project.iter().enumerate().filter(is_late).collect();
        let (mut rows, mut held): (Vec<Sorted>, _) = (Vec::new(), self.memory.hold());
        self.source(plan, cx, &mut |row| {
            if self.missed.any() {
                return Ok(Flow::More);
            }
            let mut source = Row::new();
            if late.is_empty() {
                self.project(&plan.project, cx, row, &mut out)?;
            } else {
                out.clear();
                let (ctx, mut bytes) = (cx.row(row), 0);
                for (column, expr) in plan.project.iter().enumerate() {
                    let is_late = late.iter().any(|(late, _)| *late == column);
                    out.push(if is_late { Datum::Null } else { self.part(expr, &ctx, &mut bytes)? });
                }
                source.clone_from(row);
            }
            let keys: Vec<Key> = plan.locks.iter().map(|lock| self.remembered_key(lock.key)).collect();
            let keys_len: usize = keys.iter().map(|key| size_of::<Key>() + key.len()).sum();
            self.hold(&mut held, row_memory(&out) + row_memory(&source) + keys_len)?;
            rows.push(Sorted {
                row: std::mem::replace(&mut out, Row::with_capacity(plan.project.len())),
                keys,
                source,
            });
            Ok(Flow::More)
        })?;
        if !late.is_empty() && self.missed.any() {
            return Ok(());
        }
        rows.sort_by(|a, b| compare_rows(&a.row, &b.row, &plan.sort));
        for mut sorted in rows {
            self.step()?;
            if !late.is_empty() {
                let ctx = cx.row(&sorted.source);
                let mut bytes = sorted.row.iter().map(Datum::heap_bytes).sum();
                for (column, expr) in &late {
                    sorted.row[*column] = self.part(expr, &ctx, &mut bytes)?;
                }
            }
            if self.give(plan, &mut tail, &sorted.row, Some(&sorted.keys), take)? == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    /// The rows that are projected: those of FROM, or of its groups.
    fn source(
        &self,
        plan: &SelectPlan,
        cx: &Cx<'_>,
        emit: &mut dyn FnMut(&mut Vec<Datum>) -> Halt<Flow>,
    ) -> Halt<Flow> {
        let mut row = vec![Datum::Null; plan.width];
        match &plan.aggregate {
            None => self.node(&plan.from, cx, &mut row, emit),
            Some(aggregate) => self.aggregate(aggregate, &plan.from, cx, &mut row, emit),
        }
    }

    #[inline]
    pub(super) fn project(&self, exprs: &[BoundExpr], cx: &Cx<'_>, row: &[Datum], out: &mut Row) -> Halt<()> {
        out.clear();
        let ctx = cx.row(row);
        let mut bytes = 0;
        for expr in exprs {
            out.push(Datum::Null);
            let slot = out.last_mut().expect("it was just pushed");
            self.part_into(expr, &ctx, &mut bytes, slot)?;
        }
        Ok(())
    }

    /// One value of a row that takes so many bytes before it: each may be a copy of the same long one.
    ///
    /// # Errors
    /// 54000 where the row becomes longer than one may be.
    #[inline]
    pub(super) fn part(&self, expr: &BoundExpr, ctx: &EvalCtx<'_>, bytes: &mut usize) -> Halt<Datum> {
        let value = eval(expr, ctx).map_err(|error| self.halt(error))?;
        *bytes += value.heap_bytes();
        require_row_len(*bytes)?;
        Ok(value)
    }

    /// [`Run::part`] in the place of what is in `out`. What is a column, a parameter or a constant is copied straight to there, not by way of results: a
    /// value that was just written in parts is waited for by who moves it.
    #[inline]
    pub(super) fn part_into(
        &self,
        expr: &BoundExpr,
        ctx: &EvalCtx<'_>,
        bytes: &mut usize,
        out: &mut Datum,
    ) -> Halt<()> {
        match eval_ref(expr, ctx).map_err(|error| self.halt(error))? {
            Cow::Borrowed(value) => out.clone_from(value),
            Cow::Owned(value) => *out = value,
        }
        *bytes += out.heap_bytes();
        require_row_len(*bytes)?;
        Ok(())
    }

    fn give(
        &self,
        plan: &SelectPlan,
        tail: &mut Tail<'_>,
        row: &[Datum],
        keys: Option<&[Key]>,
        take: Take<'_>,
    ) -> Halt<Flow> {
        if let Some(seen) = &mut tail.seen {
            let key = match &plan.distinct {
                DistinctPlan::On(columns) => {
                    let mut key = Vec::new();
                    columns
                        .iter()
                        .for_each(|column| push_key_of(plan.project[*column].ty, &row[*column], &mut key));
                    key.into_boxed_slice()
                }
                _ => row_key(&row[..plan.visible], &plan.project),
            };
            let bytes = key.len() + SEEN_LEN;
            if !seen.insert(key) {
                return Ok(Flow::More);
            }
            self.hold(&mut tail.held, bytes)?;
        }
        for (i, lock) in plan.locks.iter().enumerate() {
            let key = keys.map_or_else(|| self.remembered_key(lock.key), |keys| keys[i].clone());
            // What another part of the statement changed is passed over.
            if !key.is_empty() && (self.is_changed(&lock.table, &key) || !self.lock(lock, &key)?) {
                return Ok(Flow::More);
            }
        }
        if tail.offset > 0 {
            tail.offset -= 1;
            return Ok(Flow::More);
        }
        tail.given += 1;
        let flow = take(&row[..plan.visible])?;
        if tail.limit.is_some_and(|limit| tail.given >= limit) {
            return Ok(Flow::Stop);
        }
        Ok(flow)
    }

    /// Locks a row; false if it is to be left out.
    fn lock(&self, lock: &LockPlan, key: &[u8]) -> Halt<bool> {
        let mode = match lock.strength {
            LockStrength::KeyShare => RowLock::KeyShare,
            LockStrength::Share => RowLock::Share,
            LockStrength::NoKeyUpdate => RowLock::NoKeyUpdate,
            LockStrength::Update => RowLock::Update,
        };
        let policy = match lock.wait {
            LockWaitPolicy::Wait => WaitPolicy::Wait,
            LockWaitPolicy::NoWait => WaitPolicy::NoWait,
            LockWaitPolicy::SkipLocked => WaitPolicy::SkipLocked,
        };
        let locked = self.view.borrow_mut().lock_row(&lock.table, key, mode, policy)?;
        Ok(matches!(locked, RowLocked::Locked))
    }

    /// The value of LIMIT or OFFSET; `None` for no limit.
    fn count(&self, expr: Option<&BoundExpr>, cx: &Cx<'_>, place: &str) -> Halt<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        let value = eval(expr, &cx.row(&[])).map_err(|error| self.halt(error))?;
        let Some(value) = value.as_i64() else { return Ok(None) };
        match u64::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => {
                let state = match place {
                    "LIMIT" => SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
                    _ => SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
                };
                Err(SqlError::new(state, format!("{place} must not be negative")).into())
            }
        }
    }
}

/// The values of columns that are shown once, out of the row: of a plan that [gives its slots](crate::plan::PointPlan::gives_slots).
fn take_slots(project: &[BoundExpr], row: &mut [Datum], out: &mut Row) {
    out.clear();
    for expr in project {
        let slot = expr.as_column().expect("the plan shows columns alone");
        out.push(std::mem::take(&mut row[slot]));
    }
}

/// Order of two rows by these columns.
pub(super) fn compare_rows(a: &[Datum], b: &[Datum], sort: &[SortColumn]) -> Ordering {
    sort.iter()
        .map(|s| compare_nullable(&a[s.column], &b[s.column], s.descending, s.nulls_first))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Order of two values, either of which may be NULL.
pub(super) fn compare_nullable(a: &Datum, b: &Datum, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => {
            if nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (false, true) => {
            if nulls_first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (false, false) => {
            let order = types::compare(a, b);
            if descending { order.reverse() } else { order }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::ByteCount;

    use crate::session::testing::Bench;

    #[test]
    fn columns_are_shown_once_or_twice_and_beside_what_is_made_of_them() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a text, b text)");
        bench.run(&mut session, "CREATE INDEX ON t (a); CREATE INDEX ON t (b)");
        let rows = "SELECT g, repeat('a', 30 + g), nullif(repeat('b', g), 'bb') FROM generate_series(1, 4) g";
        bench.run(&mut session, &format!("INSERT INTO t {rows}"));
        for (query, lines) in [
            ("SELECT b, id FROM t WHERE length(a) > 31", &["|2", "bbb|3", "bbbb|4"][..]),
            ("SELECT b, id, b FROM t WHERE id >= 3", &["bbb|3|bbb", "bbbb|4|bbbb"][..]),
            ("SELECT b, length(b), id FROM t WHERE id IN (1, 4)", &["b|1|1", "bbbb|4|4"][..]),
            ("SELECT id, b FROM t WHERE b = 'b' OR id = 1 OR id = 3", &["1|b", "3|bbb"][..]),
            ("SELECT DISTINCT b FROM t WHERE id = 2", &[""][..]),
            ("SELECT b, id FROM t WHERE id = 3 FOR UPDATE", &["bbb|3"][..]),
            ("SELECT (SELECT u.b FROM t u WHERE u.id = t.id) FROM t WHERE id > 2", &["bbb", "bbbb"][..]),
        ] {
            assert_eq!(bench.run(&mut session, query).lines(), lines, "{query}");
        }
    }

    #[test]
    fn the_keys_of_rows_that_wait_to_be_locked_take_memory() {
        let mut bench = Bench::within(ByteCount::from_mib(32));
        let mut session = bench.session();
        bench.run(&mut session, "CREATE TABLE t (id text PRIMARY KEY)");
        for i in 0..12 {
            let rows = format!("SELECT repeat('k', 1000) || (g + {i} * 400) FROM generate_series(1, 400) g");
            bench.run(&mut session, &format!("INSERT INTO t {rows}"));
        }
        let sorted = "SELECT 1 FROM t ORDER BY 1 LIMIT 1";
        assert_eq!(bench.run(&mut session, sorted).lines(), ["1"]);
        let error = bench.fail(&mut session, &format!("{sorted} FOR UPDATE"));
        assert_eq!(error.state().to_string(), "53200");
    }
}
