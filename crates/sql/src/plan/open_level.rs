//! Views and subqueries of FROM that are planned once it is known what is asked of their rows: a condition on their columns finds the rows of the tables
//! within by an index.
//!
//! Only conditions on columns that are shown as they are go in, and not before others that may keep them from failing.

use std::ops::Range;

use base::SqlResult;
use sqlparser::ast;

use super::OutputColumn;
use super::binder::Binder;
use super::from_clause::FromTree;
use super::join_order::OrderWish;
use super::keyed::cannot_fail;
use super::level::{Level, RelationSource};
use super::ordering::SortItem;
use super::path::LOOKED_FOR_MAX;
use super::point_plan::{AccessPath, DistinctPlan, SelectPlan};
use super::select::{Parts, Tail};
use crate::expr::{BoundExpr, ExprKind, Scope, Volatility};

/// A level that is bound, and not planned yet.
pub(super) struct OpenLevel {
    pub(super) level: Level,
    pub(super) trees: Vec<FromTree>,
    pub(super) parts: Parts,
}

/// Looks at whether a condition is one on a query of FROM, in all of a level, at some 10 ns each.
const LOOKS_MAX: usize = 1 << 22;

/// Relations of a query that are looked at to find out which it begins with.
const LEADS_MAX: usize = 8;

impl OpenLevel {
    /// Whether conditions on its rows may be asked of what they are made of: none is picked by others, and nothing happens as they are made.
    fn takes_conditions(&self) -> bool {
        let Parts { conditions, aggregate, project, distinct, .. } = &self.parts;
        let mut all: Vec<&BoundExpr> = conditions.iter().chain(project).collect();
        conditions_of(&self.trees, &mut all);
        if let Some(aggregate) = aggregate {
            all.extend(aggregate.keys.iter().chain(&aggregate.having));
            all.extend(aggregate.calls.iter().flat_map(|call| call.args.iter().chain(&call.filter)));
        }
        !self.level.correlated()
            && !self.level.relations.is_empty()
            && !matches!(distinct, DistinctPlan::On(_))
            && aggregate.as_ref().is_none_or(|aggregate| aggregate.grouped)
            && all.iter().all(|expr| expr.volatility() != Volatility::Volatile)
    }

    /// The slot that a column shows as it is, and that has one value in all rows that one row is made of.
    fn slot_of(&self, column: usize) -> Option<usize> {
        let slot = self.parts.project.get(column)?.as_column()?;
        match &self.parts.aggregate {
            None => Some(slot),
            Some(aggregate) => aggregate.keys.iter().any(|key| key.as_column() == Some(slot)).then_some(slot),
        }
    }

    /// Whether a condition is one on its rows that can be asked within. They fill the slots `own`.
    fn can_ask(&self, condition: &BoundExpr, own: &Range<usize>) -> bool {
        let (mut is_on_it, mut is_whole) = (false, condition.volatility() != Volatility::Volatile);
        condition.walk(&mut |node| {
            match node.kind {
                ExprKind::Column(slot) if own.contains(&slot) => match self.slot_of(slot - own.start) {
                    Some(_) => is_on_it = true,
                    None => is_whole = false,
                },
                ExprKind::Subquery(_) | ExprKind::Aggregate(_) => is_whole = false,
                _ => {}
            }
            is_whole
        });
        is_on_it && is_whole
    }

    /// The order that is wished of its rows, over its own level; `None` if it has one itself, or shows something else.
    fn order_within(&self, wish: &OrderWish, own: &Range<usize>) -> Option<OrderWish> {
        let Parts { aggregate, distinct, sort, .. } = &self.parts;
        if aggregate.is_some() || !sort.is_empty() || !matches!(distinct, DistinctPlan::No) {
            return None;
        }
        let key_within = |key: &SortItem| {
            let column = own.contains(&key.slot).then(|| key.slot - own.start)?;
            Some(SortItem { slot: self.slot_of(column)?, ..*key })
        };
        let keys = wish.keys.iter().map(key_within).collect::<Option<Vec<_>>>()?;
        Some(OrderWish { keys, rows: wish.rows, nulls_excluded: wish.nulls_excluded })
    }

    /// The same condition over its own level. Other columns are of a row around it there.
    fn within(&self, condition: &BoundExpr, own: &Range<usize>) -> BoundExpr {
        let mut within = condition.clone();
        within.rewrite(&mut |node| {
            let kind = match node.kind {
                ExprKind::Column(slot) if own.contains(&slot) => {
                    ExprKind::Column(self.slot_of(slot - own.start).expect("looked at before"))
                }
                ExprKind::Column(index) => ExprKind::Outer { depth: 1, index },
                ExprKind::Outer { depth, index } => ExprKind::Outer { depth: depth + 1, index },
                _ => return None,
            };
            Some(BoundExpr::new(node.ty, node.typmod, kind))
        });
        within
    }
}

fn tail(order_by: Option<&ast::OrderBy>) -> Tail<'_> {
    Tail { order_by, limit: None, offset: None, locks: &[], is_arm: false }
}

/// The SELECT that a query is with no more than an ORDER BY behind it.
fn plain_select(query: &ast::Query) -> Option<(&ast::Select, Option<&ast::OrderBy>)> {
    let ast::Query {
        with: None,
        body,
        order_by,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    let ast::SetExpr::Select(select) = &**body else { return None };
    (locks.is_empty() && pipe_operators.is_empty()).then_some((select, order_by.as_ref()))
}

fn slots_of(level: &Level, index: usize) -> Range<usize> {
    let relation = &level.relations[index];
    relation.first..relation.first + relation.columns.len()
}

fn conditions_of<'t>(trees: &'t [FromTree], into: &mut Vec<&'t BoundExpr>) {
    let mut rest: Vec<&FromTree> = trees.iter().collect();
    while let Some(tree) = rest.pop() {
        if let FromTree::Join { left, right, on, .. } = tree {
            into.extend(on);
            rest.extend([&**left, &**right]);
        }
    }
}

impl Binder<'_> {
    /// Binds a query of FROM, and plans it if conditions cannot be asked within.
    pub(super) fn bind_in_from(
        &self,
        query: &ast::Query,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<(RelationSource, Vec<OutputColumn>)> {
        if let Some(inlined) = self.inlined(query) {
            let elsewhere = |_| self.not_here("a common table expression");
            return self.bind_in_from(&inlined, outer).map_err(elsewhere);
        }
        let Some((select, order_by)) = plain_select(query) else {
            let bound = self.bind_query(query, outer)?;
            return Ok((RelationSource::Derived(vec![bound.plan]), bound.columns));
        };
        let (open, columns) = self.bind_level(select, &tail(order_by), outer)?;
        let source = match open.takes_conditions() {
            true => RelationSource::Open(Box::new(open)),
            false => RelationSource::Derived(vec![self.plan_open(open)?]),
        };
        Ok((source, columns))
    }

    fn plan_open(&self, open: OpenLevel) -> SqlResult<SelectPlan> {
        let OpenLevel { level, trees, parts } = open;
        self.finish_level(level, trees, parts, &tail(None))
    }

    /// Plans those queries of FROM on whose rows there is no condition that could be asked within, and no order is wished of them.
    pub(super) fn settle(
        &self,
        level: &mut Level,
        trees: &[FromTree],
        conditions: &[BoundExpr],
        wish: Option<&OrderWish>,
    ) -> SqlResult<()> {
        let mut all: Vec<&BoundExpr> = conditions.iter().collect();
        conditions_of(trees, &mut all);
        let is_few = level.relations.len() * all.len() <= LOOKS_MAX;
        for index in 0..level.relations.len() {
            let own = slots_of(level, index);
            match level.relations[index].source.take() {
                Some(RelationSource::Open(open)) => {
                    let is_ordered = wish.is_some_and(|wish| open.order_within(wish, &own).is_some());
                    let is_asked = is_few && all.iter().any(|condition| open.can_ask(condition, &own));
                    level.relations[index].source = Some(match is_ordered || is_asked {
                        true => RelationSource::Open(open),
                        false => RelationSource::Derived(vec![self.plan_open(*open)?]),
                    });
                }
                source => level.relations[index].source = source,
            }
        }
        Ok(())
    }

    /// Plans a query of FROM whose rows fill the slots `own`, and takes those conditions that are asked within. Answers also whether the rows are in the
    /// order that is wished for.
    pub(super) fn plan_asked(
        &self,
        mut open: OpenLevel,
        own: &Range<usize>,
        conditions: &mut Vec<BoundExpr>,
        wish: Option<&OrderWish>,
    ) -> SqlResult<(SelectPlan, bool)> {
        // Who depends on a row around it is made anew for each, which pays only where an index tells which rows those are.
        let is_other = |slot: usize| !own.contains(&slot);
        let is_alone = |condition: &BoundExpr| {
            !condition.uses_outer() && !condition.columns_used().into_iter().any(is_other)
        };
        let all: Vec<&BoundExpr> = conditions.iter().collect();
        let alone: Vec<&BoundExpr> = all.iter().copied().filter(|condition| is_alone(condition)).collect();
        let pays = alone.len() < all.len() && {
            let cost = |asked: &[&BoundExpr]| {
                self.lead_within(&open, own, asked).map_or(f64::INFINITY, |lead| lead.0)
            };
            cost(&all) < cost(&alone) / 2.0
        };
        let mut is_first = true;
        conditions.retain(|condition| {
            let is_asked = open.can_ask(condition, own)
                && (is_first || cannot_fail(condition))
                && (pays || is_alone(condition));
            if is_asked {
                let within = open.within(condition, own);
                if within.uses_outer() {
                    open.level.set_correlated();
                }
                open.parts.conditions.push(within);
            }
            is_first &= is_asked;
            !is_asked
        });
        let wish = wish.and_then(|wish| open.order_within(wish, own));
        let OpenLevel { level, trees, parts } = open;
        self.finish_in_order(level, trees, parts, &tail(None), wish.as_ref())
    }

    /// What it costs to make the rows of a query of FROM on which there are these conditions, and how many they are, by estimate.
    pub(super) fn open_cost(
        &self,
        open: &OpenLevel,
        own: &Range<usize>,
        conditions: &[&BoundExpr],
    ) -> (f64, f64) {
        if let Some(lead) = self.lead_within(open, own, conditions) {
            return lead;
        }
        let (mut cost, mut rows) = (1.0, 1.0);
        for relation in open.level.relations.iter().take(LEADS_MAX) {
            let of_relation: f64 = match &relation.source {
                Some(RelationSource::Table(table)) => self.table_rows_now(table),
                Some(RelationSource::Derived(plans)) => plans.iter().map(|plan| plan.cost).sum(),
                _ => super::cost::POINT_ROWS_MAX,
            };
            cost += of_relation;
            rows = f64::max(rows, of_relation);
        }
        (cost, rows)
    }

    /// The same, by the relation within that an index finds best, and a look-up in each other one for each row of it; `None` if there is none.
    fn lead_within(
        &self,
        open: &OpenLevel,
        own: &Range<usize>,
        conditions: &[&BoundExpr],
    ) -> Option<(f64, f64)> {
        let asked: Vec<BoundExpr> = conditions
            .iter()
            .filter(|condition| open.can_ask(condition, own))
            .map(|condition| open.within(condition, own))
            .collect();
        let all: Vec<&BoundExpr> = open.parts.conditions.iter().chain(&asked).collect();
        let level = &open.level;
        let mut best: Option<(f64, f64)> = None;
        for index in 0..level.relations.len().min(LEADS_MAX) {
            if self.looked_for.get() >= LOOKED_FOR_MAX {
                break;
            }
            self.looked_for.set(self.looked_for.get() + 1);
            let slots = slots_of(level, index);
            let here: Vec<&BoundExpr> =
                all.iter().copied().filter(|condition| self.names_only(condition, &slots)).collect();
            let found = match &level.relations[index].source {
                Some(RelationSource::Table(table)) => {
                    let choice = self.choose_path(table, slots.start, &here, &|_| false, None);
                    let is_found = !matches!(choice.path, AccessPath::Full { .. });
                    is_found.then_some((choice.cost, choice.rows))
                }
                Some(RelationSource::Open(inner)) => self.lead_within(inner, &slots, &here),
                _ => None,
            };
            if let Some(found) = found.filter(|found| best.is_none_or(|best| found.0 < best.0)) {
                best = Some(found);
            }
        }
        let (cost, rows) = best?;
        let others = level.relations.len().saturating_sub(1) as f64;
        let groups = if open.parts.aggregate.is_some() { (rows / 4.0).max(1.0) } else { rows };
        Some((cost + rows * others * 2.0, groups))
    }
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn what_is_asked_of_views_and_subqueries_is_asked_of_their_tables() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE o (id int PRIMARY KEY, u int, n int, t text); CREATE INDEX ON o (u); CREATE TABLE p (id int PRIMARY KEY, name text);
             INSERT INTO o SELECT g, g % 100, CASE WHEN g % 3 > 0 THEN g END, 'x' || g FROM generate_series(1, 2000) g;
             INSERT INTO p SELECT g, 'p' || g FROM generate_series(0, 120) g;
             CREATE VIEW v AS SELECT id, n + 1 AS m, u AS whose, t FROM o WHERE t <> 'x100';
             CREATE VIEW w AS SELECT v.id AS of_v, v.whose, p.name, p.id AS p FROM v LEFT JOIN p ON p.id = v.whose + 30 ORDER BY p.name;
             CREATE VIEW g AS SELECT u, count(*) AS c, max(n) AS n FROM o GROUP BY u HAVING count(*) > 1;
             CREATE VIEW d AS SELECT DISTINCT u, n > 3 AS b FROM o",
        );
        let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
        // A query, whether an index finds its rows of o, and how many there are.
        for (from, condition, is_found, count) in [
            ("v", "id = 5", true, 1),
            ("v", "id = 100", true, 0),
            ("v", "whose = 5 AND m > 1000", true, 6),
            ("v", "whose = 5 OR id IN (6, 7)", true, 22),
            ("v", "id BETWEEN 10 AND 15 AND t LIKE 'x%'", true, 6),
            ("v", "m = 6", false, 1),
            ("v", "m IS NULL AND whose = 3", true, 7),
            ("w", "of_v = 5", true, 1),
            ("w", "whose = 95 AND name IS NULL", true, 20),
            ("w", "p = 35", false, 20),
            ("g", "u = 5", true, 1),
            ("g", "u = 5 AND n > 5", true, 1),
            ("g", "c = 20 AND u < 3", true, 3),
            ("d", "u = 5", true, 2),
            ("(SELECT DISTINCT ON (u) u, id FROM o ORDER BY u, id) s", "id = 105", false, 0),
            ("(SELECT id, u FROM o ORDER BY t DESC LIMIT 50) s", "u = 5", false, 0),
            ("(SELECT count(*) AS c, 1 AS u FROM o) s", "u = 2", false, 0),
            ("(SELECT id, random() AS r FROM o) s", "id = 5", false, 1),
            ("(SELECT id FROM o WHERE random() < 2) s", "id = 5", false, 1),
            ("p JOIN v ON v.whose = p.id", "p.id = 7", true, 20),
            ("p LEFT JOIN v ON v.whose = p.id AND v.id > 1900", "p.id IN (7, 110)", true, 2),
            ("p LEFT JOIN g ON g.u = p.id", "p.id = 110", true, 1),
        ] {
            let query = format!("SELECT * FROM {from} WHERE {condition}");
            let plan = lines(&format!("EXPLAIN {query}"));
            let reads_all = plan.iter().any(|line| line.contains("Seq Scan on o"));
            assert_eq!(!reads_all, is_found, "{query}: {plan:#?}");
            assert_eq!(lines(&query).len(), count, "{query}");
            let hidden =
                format!("SELECT * FROM {from} WHERE CASE WHEN ({condition}) AND random() < 2 THEN true END");
            assert_eq!(lines(&hidden).len(), count, "{hidden}");
        }
        // Rows of a view come in the order of an index, and as many are made as are wanted.
        for (query, path, examined, rows) in [
            (
                "SELECT id FROM v ORDER BY id DESC LIMIT 3",
                "Index Scan Backward using o_pkey",
                3,
                &["2000", "1999", "1998"][..],
            ),
            (
                "SELECT id, m FROM v WHERE whose = 7 ORDER BY id LIMIT 2",
                "using o_u_idx",
                2,
                &["7|8", "107|108"][..],
            ),
            ("SELECT max(id) FROM v", "Index Scan Backward using o_pkey", 1, &["2000"][..]),
            ("SELECT t FROM v LIMIT 2", "Seq Scan on o", 2, &["x1", "x2"][..]),
            ("SELECT t FROM (SELECT t FROM v OFFSET 1) s LIMIT 1", "Seq Scan on o", 2, &["x2"][..]),
        ] {
            let plan = lines(&format!("EXPLAIN (ANALYZE, TIMING off) {query}"));
            assert!(plan.iter().any(|line| line.contains(path)), "{query}: {plan:#?}");
            let counted = format!("Rows Examined: {examined}");
            assert!(plan.iter().any(|line| line.contains(&counted)), "{query}: {plan:#?}");
            assert_eq!(lines(query), rows, "{query}");
        }
        // What stands before a condition keeps it from failing.
        lines("INSERT INTO o VALUES (0, 1, 1, 'none')");
        let guarded = "SELECT id FROM (SELECT id, u, trim(t) AS x, t FROM o) s WHERE x <> 'none' AND u = 1 AND substr(t, 2)::int = 101";
        assert_eq!(lines(guarded), ["101"]);
        assert!(!lines(&format!("EXPLAIN {guarded}")).iter().any(|line| line.contains("Seq Scan")));
        let changed =
            lines("UPDATE p SET name = v.t FROM v WHERE v.whose = p.id AND v.id = 205 RETURNING p.id, name");
        assert_eq!(changed, ["5|x205"]);
    }

    #[test]
    fn common_tables_that_are_named_once_are_subqueries() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE o (id int PRIMARY KEY, u int); CREATE INDEX ON o (u); CREATE TABLE b (x int); INSERT INTO b VALUES (1), (2);
             INSERT INTO o SELECT g, g % 100 FROM generate_series(1, 2000) g;
             CREATE VIEW v AS WITH q AS (SELECT id, u FROM o) SELECT u, id FROM q",
        );
        let mut lines = |sql: &str| bench.run(&mut session, sql).lines();
        for (query, rows) in [
            ("WITH q AS (SELECT id, u FROM o) SELECT id FROM q WHERE id = 5", &["5"][..]),
            (
                "WITH q (k, w) AS (SELECT id, u FROM o), r AS (SELECT k FROM q WHERE w = 5) SELECT k FROM r WHERE k < 200",
                &["5", "105"][..],
            ),
            ("WITH q (n) AS (VALUES (7), (8)) SELECT o.id FROM q z JOIN o ON o.id = z.n", &["7", "8"][..]),
            ("SELECT (WITH q AS (SELECT max(id) AS m FROM o WHERE u = 3) SELECT m FROM q)", &["1903"][..]),
            ("SELECT id FROM v WHERE u = 5 AND id > 1900", &["1905"][..]),
            // In `a` stands the table `b`.
            ("WITH a AS (SELECT x FROM b), b AS (SELECT 9 AS y) SELECT x, y FROM a, b", &["1|9", "2|9"][..]),
            ("WITH b AS (SELECT x + 1 AS x FROM b) SELECT x FROM b", &["2", "3"][..]),
        ] {
            let plan = lines(&format!("EXPLAIN {query}"));
            assert!(!plan.iter().any(|line| line.contains("Seq Scan on o")), "{query}: {plan:#?}");
            assert_eq!(lines(query), rows, "{query}");
        }
    }
}
