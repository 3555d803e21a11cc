//! Subqueries within expressions.
//!
//! A correlated one is run for each row around it, unless its rows have keys (`keyed`). The rows of one that depends on no row around it are kept once they were gone through to the end. Where values are looked for in many of them
//! (`IN`, `NOT IN`, `= ANY`, `<> ALL`), they are put into a table: to compare each with each would be the product of both numbers.

use std::ops::ControlFlow;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use types::{CastContext, Datum, PgType, Row, TypeMod, row_memory};

use super::row_key::push_key_of;
use super::select::SEEN_LEN;
use super::{Cx, ExecError, Flow, Run};
use crate::expr::{Among, EvalCtx, EvalError, EvalResult, SubqueryColumn, SubqueryEval, SubqueryId};
use crate::plan::SelectPlan;

/// Rows that may be passed by runs that break off early, before all are gone through to be kept.
const PASSED_MAX: usize = 4096;

/// Fewer rows are compared one by one.
const TABLED_MIN: usize = 16;

/// What is known of an uncorrelated subquery in whose rows values are looked for.
pub(super) enum Sought {
    /// So many rows were passed by runs that broke off.
    Passed(usize),
    /// They are few, or there is no memory for a table of them.
    OneByOne,
    Table(Rc<Values>),
}

/// The values of a subquery's only column, brought to one form.
pub(super) struct Values {
    keys: FxHashSet<Box<[u8]>>,
    has_null: bool,
    is_empty: bool,
}

impl SubqueryEval for Run<'_, '_> {
    fn run(
        &self,
        id: SubqueryId,
        outer: &EvalCtx<'_>,
        sink: &mut dyn FnMut(&[Datum]) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        let plan = &self.plan.subqueries[id.0 as usize];
        let keep = !plan.correlated;
        if keep {
            let kept = self.kept.borrow().get(&plan.id).map(Rc::clone);
            if let Some(rows) = kept {
                for row in rows.iter() {
                    self.step().map_err(|why| self.raise(why))?;
                    if sink(row)?.is_break() {
                        break;
                    }
                }
                return Ok(());
            }
        }
        let cx = Cx { stmt: outer.stmt, outer: Some(outer) };
        if let Some(keyed) = &plan.keyed
            && let Some(table) = self.keyed_table(plan, outer).map_err(|why| self.raise(why))?
        {
            let mut key = Vec::new();
            let has_key = self.join_key(&keyed.outer, &cx, &[], &mut key).map_err(|why| self.raise(why))?;
            for row in table.get(key.as_slice()).filter(|_| has_key).into_iter().flatten() {
                self.step().map_err(|why| self.raise(why))?;
                if sink(row)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let examined = self.examined.get();
        let (mut rows, mut held): (Vec<Row>, _) = (Vec::new(), self.memory.hold());
        let mut broken = false;
        let mut raised: Option<EvalError> = None;
        let result = self.select(plan, &cx, &mut |row| {
            if keep {
                self.hold(&mut held, row_memory(row))?;
                rows.push(row.to_vec());
            }
            match sink(row) {
                Ok(ControlFlow::Continue(())) => Ok(Flow::More),
                Ok(ControlFlow::Break(())) => {
                    broken = true;
                    Ok(Flow::Stop)
                }
                Err(error) => {
                    raised = Some(error);
                    Ok(Flow::Stop)
                }
            }
        });
        self.note_passed(plan, self.examined.get() - examined);
        if let Some(error) = raised {
            return Err(error);
        }
        result.map_err(|why| self.raise(why))?;
        if keep && !broken {
            held.keep();
            self.kept.borrow_mut().insert(plan.id, Rc::new(rows));
        } else if keep {
            let mut sought = self.sought.borrow_mut();
            if let Sought::Passed(passed) = sought.entry(plan.id).or_insert(Sought::Passed(0)) {
                *passed += rows.len();
            }
        }
        Ok(())
    }

    fn find(
        &self,
        id: SubqueryId,
        column: &SubqueryColumn,
        value: &Datum,
        outer: &EvalCtx<'_>,
    ) -> EvalResult<Option<Among>> {
        let plan = &self.plan.subqueries[id.0 as usize];
        if plan.is_volatile && !plan.correlated && !self.kept.borrow().contains_key(&plan.id) {
            // All values are looked for in the rows of one run.
            self.run(id, outer, &mut |_| Ok(ControlFlow::Continue(())))?;
        }
        let Some(values) = self.values(plan, id, column, outer)? else { return Ok(None) };
        let is_unknown = if value.is_null() { !values.is_empty } else { values.has_null };
        let is_found = !value.is_null() && values.keys.contains(&key_of(column.left.ty, value));
        Ok(Some(match (is_found, is_unknown) {
            (true, _) => Among::Found,
            (false, true) => Among::Unknown,
            (false, false) => Among::Missing,
        }))
    }
}

impl Run<'_, '_> {
    /// The table of a subquery's values; `None` where its rows are to be compared one by one.
    fn values(
        &self,
        plan: &SelectPlan,
        id: SubqueryId,
        column: &SubqueryColumn,
        outer: &EvalCtx<'_>,
    ) -> EvalResult<Option<Rc<Values>>> {
        let given = plan.project[0].ty;
        let ty = column.cast.map_or(given, |(_, to)| to);
        if plan.correlated || self.missed.any() || !have_one_form(column.left.ty, ty) {
            return Ok(None);
        }
        let is_kept = self.kept.borrow().contains_key(&plan.id);
        match self.sought.borrow().get(&plan.id) {
            Some(Sought::Table(values)) => return Ok(Some(Rc::clone(values))),
            Some(Sought::OneByOne) => return Ok(None),
            Some(Sought::Passed(passed)) if *passed > PASSED_MAX => {}
            Some(Sought::Passed(_)) | None if is_kept => {}
            Some(Sought::Passed(_)) | None => return Ok(None),
        }
        if !is_kept {
            self.run(id, outer, &mut |_| Ok(ControlFlow::Continue(())))?;
        }
        let rows = self.kept.borrow().get(&plan.id).map(Rc::clone);
        let Some(rows) = rows.filter(|_| !self.missed.any()) else { return Ok(None) };
        let values = match rows.len() {
            0..TABLED_MIN => None,
            _ => self.tabled(&rows, ty, column, outer)?,
        };
        let known = values.as_ref().map_or(Sought::OneByOne, |values| Sought::Table(Rc::clone(values)));
        self.sought.borrow_mut().insert(plan.id, known);
        Ok(values)
    }

    /// The values of these rows, which are of type `ty` where they are compared; `None` where there is no memory for them.
    fn tabled(
        &self,
        rows: &[Row],
        ty: PgType,
        column: &SubqueryColumn,
        outer: &EvalCtx<'_>,
    ) -> EvalResult<Option<Rc<Values>>> {
        let mut values = Values { keys: FxHashSet::default(), has_null: false, is_empty: rows.is_empty() };
        let mut held = self.memory.hold();
        for row in rows {
            self.step().map_err(|why| self.raise(why))?;
            let value = row[0].clone();
            let value = match column.cast {
                Some((from, to)) => {
                    types::cast(value, from, to, TypeMod::NONE, CastContext::Implicit, outer.stmt.format)?
                }
                None => value,
            };
            if value.is_null() {
                values.has_null = true;
                continue;
            }
            let key = key_of(ty, &value);
            if held.take(key.len() + SEEN_LEN).is_err() {
                return Ok(None);
            }
            values.keys.insert(key);
        }
        held.keep();
        Ok(Some(Rc::new(values)))
    }
}

/// Whether values of both types are equal exactly if their keys are.
fn have_one_form(left: PgType, right: PgType) -> bool {
    let is_text = |ty| matches!(ty, PgType::Text | PgType::Varchar | PgType::Name);
    let is_plain = |ty: PgType| ty.element().is_none() && !matches!(ty, PgType::Json | PgType::Jsonb);
    (left == right && is_plain(left))
        || (left.is_integer() && right.is_integer())
        || (is_text(left) && is_text(right))
}

/// A key of a value: integers of all widths have the same.
fn key_of(ty: PgType, value: &Datum) -> Box<[u8]> {
    let mut key = Vec::new();
    match value.as_i64().filter(|_| ty.is_integer()) {
        Some(number) => push_key_of(PgType::Int8, &Datum::Int8(number), &mut key),
        None => push_key_of(ty, value, &mut key),
    }
    key.into_boxed_slice()
}

impl Run<'_, '_> {
    /// What an expression is told of why its subquery stopped; [`Run::halt`] is the way back.
    #[cold]
    pub(super) fn raise(&self, why: ExecError) -> EvalError {
        match why {
            ExecError::Interrupt(tenant::Interrupt::Error(error)) => EvalError::Sql(error),
            ExecError::Session => EvalError::Interrupted,
            other => {
                *self.interrupt.borrow_mut() = Some(other);
                EvalError::Interrupted
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use env::sim::World;

    use crate::session::stand_in::LoneHost;
    use crate::session::testing::{Bench, OwnAnswers};
    use crate::session::{Session, Underway};

    /// Counts how often statements ask whether they are to end, which they do every 256 steps.
    struct Counting {
        lone: LoneHost,
        asked: AtomicU64,
    }

    impl OwnAnswers for Counting {
        fn lone(&self) -> &LoneHost {
            &self.lone
        }
        fn is_to_end(&self, _: &Underway) -> bool {
            self.asked.fetch_add(1, Ordering::Relaxed);
            false
        }
    }

    fn sample() -> (Bench, Session, Arc<Counting>) {
        let mut bench = Bench::new();
        let host = Arc::new(Counting { lone: LoneHost(World::new(7).env()), asked: AtomicU64::new(0) });
        let mut session = bench.session_from(host.clone());
        bench.run(
            &mut session,
            "CREATE TABLE t (id int PRIMARY KEY, v int, w text); CREATE TABLE u (v bigint, w varchar(20), c char(9));
             INSERT INTO t SELECT g, g % 500, 'w' || g % 500 FROM generate_series(1, 1000) g;
             INSERT INTO u SELECT g, 'w' || g, 'w' || g FROM generate_series(1, 499, 2) g",
        );
        (bench, session, host)
    }

    #[test]
    fn values_are_looked_up_among_many() {
        let (mut bench, mut session, _) = sample();
        let count = |bench: &mut Bench, session: &mut Session, condition: &str| {
            bench.run(session, &format!("UPDATE t SET v = v WHERE {condition}")).tags.concat()
        };
        for (condition, rows) in [
            ("v IN (SELECT v FROM u)", 500),
            ("v NOT IN (SELECT v FROM u)", 500),
            ("v <> ALL (SELECT v FROM u)", 500),
            ("w IN (SELECT w FROM u)", 500),
            ("w::char(12) IN (SELECT c FROM u)", 500),
            ("w NOT IN (SELECT c FROM u)", 500),
            ("v::numeric IN (SELECT v FROM u)", 500),
            ("v + 0.0 IN (SELECT v::numeric(9, 2) FROM u)", 500),
            ("(v, w) IN (SELECT v, w FROM u)", 500),
            ("v > ANY (SELECT v FROM u)", 996),
        ] {
            assert_eq!(count(&mut bench, &mut session, condition), format!("UPDATE {rows}"), "{condition}");
        }
        // What none of them is equal to is not known to be none of them where one is NULL.
        bench.run(&mut session, "INSERT INTO u VALUES (NULL, NULL, NULL)");
        for (condition, rows) in [
            ("v IN (SELECT v FROM u)", 500),
            ("v NOT IN (SELECT v FROM u)", 0),
            ("(v IN (SELECT v FROM u)) IS NULL", 500),
            ("(NULLIF(v, 1) IN (SELECT v FROM u WHERE v IS NOT NULL)) IS NULL", 2),
            ("NULLIF(v, v) NOT IN (SELECT v FROM u WHERE v < 0)", 1000),
        ] {
            assert_eq!(count(&mut bench, &mut session, condition), format!("UPDATE {rows}"), "{condition}");
        }
    }

    #[test]
    fn rows_that_go_with_others_by_a_key_are_found_by_it() {
        let (mut bench, mut session, host) = sample();
        bench.run(
            &mut session,
            "INSERT INTO u VALUES (NULL, 'w1', NULL), (1, NULL, 'w2'), (4001, 'x', 'x');
             ALTER TABLE t ADD COLUMN n numeric; UPDATE t SET n = v; ALTER TABLE t ADD COLUMN c char(12); UPDATE t SET c = w;
             CREATE VIEW uv AS SELECT v AS k, w FROM u WHERE w IS NOT NULL",
        );
        for (condition, rows) in [
            ("EXISTS (SELECT FROM u WHERE u.v = t.v)", 500),
            ("NOT EXISTS (SELECT 1 FROM u WHERE t.v = u.v)", 500),
            ("EXISTS (SELECT 1 FROM u WHERE u.v = t.n)", 500),
            ("EXISTS (SELECT 1 FROM u WHERE u.v = t.n + 0.5)", 0),
            ("EXISTS (SELECT 1 FROM u WHERE u.w = t.w AND u.v > 250)", 250),
            ("EXISTS (SELECT 1 FROM u WHERE u.w = t.w AND u.v IS NULL)", 2),
            ("EXISTS (SELECT 1 FROM u WHERE u.w = t.w AND u.v = t.v)", 500),
            ("EXISTS (SELECT 1 FROM u WHERE u.c = t.c)", 502),
            ("EXISTS (SELECT 1 FROM u WHERE u.v = NULLIF(t.v, 1))", 498),
            ("(SELECT w FROM u WHERE u.v = t.v AND u.w IS NOT NULL) = t.w", 500),
            ("(SELECT u.w FROM u WHERE u.v = t.v AND u.w IS NOT NULL) IS NULL", 500),
            ("t.w IN (SELECT u.w FROM u WHERE u.v = t.v)", 500),
            ("t.w NOT IN (SELECT u.w FROM u WHERE u.v = t.v)", 500),
            ("cardinality(ARRAY(SELECT u.v FROM u WHERE u.v = t.v)) = 2", 2),
            (
                "EXISTS (SELECT 1 FROM u WHERE u.v = t.v AND EXISTS (SELECT 1 FROM u x WHERE x.w = t.w AND x.v = u.v))",
                500,
            ),
            // A query of FROM is a table of its own.
            ("EXISTS (SELECT 1 FROM uv WHERE uv.k = t.v)", 500),
            (
                "NOT EXISTS (SELECT 1 FROM (SELECT v, count(*) AS n FROM u GROUP BY v) s WHERE s.v = t.v AND s.n = 1)",
                502,
            ),
            ("(SELECT uv.w FROM uv WHERE uv.k = t.v) = t.w", 500),
            // What may fail for other rows is not worked out for them.
            ("EXISTS (SELECT 1 FROM u WHERE u.v = t.v AND 1000000 / (u.v - 4001) < 0)", 500),
        ] {
            let before = host.asked.load(Ordering::Relaxed);
            let sql = format!("UPDATE t SET v = v WHERE {condition}");
            assert_eq!(bench.run(&mut session, &sql).tags.concat(), format!("UPDATE {rows}"), "{condition}");
            let asked = host.asked.load(Ordering::Relaxed) - before;
            assert!(
                asked < 300 || condition.contains('/') || condition.contains("u x"),
                "{condition}: {asked} times 256 steps"
            );
        }
        let refused = bench.fail(&mut session, "UPDATE t SET w = (SELECT u.w FROM u WHERE u.v = t.v)");
        assert_eq!(refused.state().to_string(), "21000");
        let set = "UPDATE t SET w = (SELECT c FROM u WHERE u.v = t.v AND u.w IS NOT NULL) WHERE id <= 1000";
        bench.run(&mut session, set);
        let counts = "SELECT count(w), count(*) FROM t WHERE id <= 1000";
        assert_eq!(bench.run(&mut session, counts).lines(), ["500|1000"]);
    }

    #[test]
    fn what_is_different_each_time_is_run_once() {
        let (mut bench, mut session, _) = sample();
        bench.run(
            &mut session,
            "CREATE SEQUENCE q; UPDATE t SET v = 1 WHERE id % 2 = 1; UPDATE t SET v = 3 WHERE id % 2 = 0",
        );
        for _ in 0..8 {
            let picked = "SELECT v FROM u WHERE v IN (1, 3) ORDER BY random() LIMIT 1";
            let changed = bench.run(&mut session, &format!("UPDATE t SET w = '' WHERE v IN ({picked})"));
            assert_eq!(changed.tags, ["UPDATE 500"], "rows of one value alone");
            let changed = bench.run(&mut session, &format!("UPDATE t SET w = '' WHERE v <> ALL ({picked})"));
            assert_eq!(changed.tags, ["UPDATE 500"]);
        }
        let counted =
            "UPDATE t SET w = '' WHERE v IN (SELECT nextval('q') - 1 + u.v - u.v FROM u WHERE v <= 5)";
        assert_eq!(bench.run(&mut session, counted).tags, ["UPDATE 500"]);
        assert_eq!(bench.run(&mut session, "SELECT last_value FROM q").lines(), ["3"]);
    }

    #[test]
    fn what_is_volatile_is_made_for_each_row_and_a_common_table_once() {
        let (mut bench, mut session, _) = sample();
        bench.run(&mut session, "CREATE SEQUENCE q");
        let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
        let next = "SELECT n FROM (SELECT nextval('q') AS n) s WHERE t.id > 0";
        assert_eq!(lines(&format!("SELECT ({next}) FROM t WHERE id <= 3")), ["1", "2", "3"]);
        let update = format!("UPDATE t SET v = ({next}) WHERE id <= 3 RETURNING v");
        assert_eq!(lines(&update), ["4", "5", "6"]);
        let common = "WITH c AS (SELECT id, nextval('q') AS n FROM t WHERE id <= 3 ORDER BY id)
            UPDATE t SET v = (SELECT c.n FROM c WHERE c.id = t.id) WHERE id <= 3 RETURNING v";
        assert_eq!(lines(common), ["7", "8", "9"]);
        assert_eq!(lines("SELECT last_value FROM q"), ["9"]);
    }

    #[test]
    fn a_list_of_values_is_not_gone_through_for_each_row() {
        let (mut bench, mut session, host) = sample();
        for condition in ["v IN", "v NOT IN", "v <> ALL", "w = ANY"] {
            let column = if condition.starts_with('w') { "w" } else { "v" };
            let before = host.asked.load(Ordering::Relaxed);
            bench.run(
                &mut session,
                &format!("BEGIN; DELETE FROM t WHERE {condition} (SELECT {column} FROM u); ROLLBACK"),
            );
            let asked = host.asked.load(Ordering::Relaxed) - before;
            assert!(asked < 200, "{condition}: {asked} times 256 steps for 1,250 rows");
        }
    }
}
