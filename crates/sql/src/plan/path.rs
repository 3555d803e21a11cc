//! Access paths: which index finds the rows of one table, given conditions and the slots already filled.

use std::sync::Arc;

use tenant::catalog::{Index, IndexColumn, KeyFunction, RowTest, Table};
use types::{PgType, TypeMod};

use super::binder::Binder;
use super::cost::{ARRAY_ITEMS, selectivity};
use super::join_order::OrderWish;
use super::point_plan::{AccessPath, Alternative, KeyPart, ProbeFit, RangeBound};
use crate::expr::{
    BoundExpr, CompareOp, ExprKind, SubqueryColumn, SubqueryId, SubqueryTest, Volatility, bare_column,
    follows, is_plain_text, key_function, row_test,
};

/// A path for one table.
pub(super) struct Choice {
    pub(super) path: AccessPath,
    /// The conjuncts it satisfies by itself.
    pub(super) consumed: Vec<usize>,
    /// Rows it yields before the filter.
    pub(super) examined: f64,
    /// Rows after the filter.
    pub(super) rows: f64,
    pub(super) cost: f64,
    /// It yields the rows in the wished order.
    pub(super) ordered: bool,
    /// As [`super::point_plan::ScanNode::in_slices`].
    pub(super) in_slices: Option<AccessPath>,
}

/// What a conjunct says about one column, or what a function makes of it.
struct Probe<'e> {
    conjunct: usize,
    column: usize,
    function: Option<KeyFunction>,
    fit: ProbeFit,
    kind: ProbeKind<'e>,
    /// Nothing of the conjunct is left to ask of the rows that are found by it.
    is_whole: bool,
}

enum ProbeKind<'e> {
    Equal(&'e BoundExpr),
    Is(bool),
    Null,
    OneOf(Vec<&'e BoundExpr>),
    AnyOf(&'e BoundExpr),
    InRows(SubqueryId, f64),
    Lower(&'e BoundExpr, bool),
    Upper(&'e BoundExpr, bool),
}

impl Probe<'_> {
    /// Whether it is about the keys of this column of an index.
    fn is_of(&self, key: &IndexColumn) -> bool {
        (self.column, self.function) == (key.column, key.function)
    }
}

impl ProbeKind<'_> {
    fn is_exact(&self) -> bool {
        !matches!(self, ProbeKind::Lower(..) | ProbeKind::Upper(..))
    }
}

/// What conditions say of each row by itself, as far as partial indexes have to know it: nothing where a table has none.
#[derive(Default)]
struct Told {
    /// Each by its condition's number.
    tests: Vec<(usize, RowTest)>,
    /// Columns that have values in all rows that are looked for.
    with_values: Vec<usize>,
}

impl Told {
    /// By the conditions of which `counts` is true.
    fn by(
        table: &Table,
        first: usize,
        conjuncts: &[&BoundExpr],
        probes: &[Probe<'_>],
        counts: impl Fn(usize) -> bool,
    ) -> Told {
        if table.indexes.iter().all(|index| index.predicate.is_none()) {
            return Told::default();
        }
        let columns = first..first + table.columns.len();
        let column = |slot: usize| columns.contains(&slot).then(|| slot - first);
        let numbered = conjuncts.iter().enumerate().filter(|(at, _)| counts(*at));
        let tests = numbered.filter_map(|(at, condition)| Some((at, row_test(condition, &column)?)));
        let has_value = |probe: &&Probe<'_>| counts(probe.conjunct) && !matches!(probe.kind, ProbeKind::Null);
        let not_null = table.columns.iter().enumerate().filter(|(_, column)| column.not_null);
        let with_values = probes.iter().filter(has_value).map(|probe| probe.column);
        Told {
            tests: tests.collect(),
            with_values: with_values.chain(not_null.map(|(position, _)| position)).collect(),
        }
    }

    /// The conditions that are true of each row of an index, by their numbers; `None` where it may lack rows that are looked for.
    fn by_index(&self, index: &Index) -> Option<Vec<usize>> {
        let Some(predicate) = &index.predicate else { return Some(Vec::new()) };
        let known: Vec<&RowTest> = self.tests.iter().map(|(_, test)| test).collect();
        if !follows(predicate, &known, &|column| self.with_values.contains(&column)) {
            return None;
        }
        let own: Vec<&RowTest> = predicate.conjuncts().iter().collect();
        let of_all = self.tests.iter().filter(|(_, test)| follows(test, &own, &|_| false));
        Some(of_all.map(|(at, _)| *at).collect())
    }
}

impl Binder<'_> {
    /// The cheapest path to the rows of `table`, whose column 0 is slot `first`. `bound` says which slots are filled when
    /// it runs.
    pub(super) fn choose_path(
        &self,
        table: &Arc<Table>,
        first: usize,
        conjuncts: &[&BoundExpr],
        bound: &dyn Fn(usize) -> bool,
        wish: Option<&OrderWish>,
    ) -> Choice {
        let probes = self.probes(table, first, conjuncts, bound);
        let said = Told::by(table, first, conjuncts, &probes, |_| true);
        let mut best = self.full_scan(table, conjuncts);
        if wish.is_some() {
            best.cost += best.rows * SORT_COST;
        }
        let known: Vec<&Probe<'_>> = probes.iter().collect();
        let ways = |wish: Option<&OrderWish>, rows_max: f64| -> Vec<Choice> {
            let way = |(position, index)| {
                self.index_path(table, first, position, index, conjuncts, &known, &said, (wish, rows_max))
            };
            table.indexes.iter().enumerate().filter_map(way).collect()
        };
        let unordered = self.alternatives(table, first, conjuncts, &probes, bound);
        // Who reads in the order of one index until there are enough has to read the more the fewer rows there are, and that may be another's to tell.
        let rows_max = match wish {
            Some(OrderWish { rows: Some(_), .. }) => {
                let told = ways(None, f64::INFINITY);
                told.iter().chain(&unordered).map(|way| way.rows).fold(f64::INFINITY, f64::min)
            }
            _ => f64::INFINITY,
        };
        let unordered = unordered.into_iter().map(|mut choice| {
            if wish.is_some() {
                choice.cost += choice.rows * SORT_COST;
            }
            choice
        });
        for choice in ways(wish, rows_max) {
            if choice.cost < best.cost {
                best = choice;
            }
        }
        let cheapest = unordered.min_by(|a, b| a.cost.total_cmp(&b.cost));
        if let Some(choice) = cheapest.filter(|choice| choice.cost < best.cost) {
            best = Choice { in_slices: self.changes_rows().then_some(best.path), ..choice };
        }
        // Compared as if the table were not tiny; told as it is.
        let now = self.table_rows_now(table);
        best.examined = best.examined.min(now);
        best.rows = best.rows.min(now);
        best.cost = best.cost.min(now * 2.0 + 0.5);
        best
    }

    /// For each condition of several parts, an index for each part: `a = 1 OR b = 2`. The condition is still to be asked of the rows, behind those
    /// that stand before it.
    fn alternatives(
        &self,
        table: &Arc<Table>,
        first: usize,
        conjuncts: &[&BoundExpr],
        probes: &[Probe<'_>],
        bound: &dyn Fn(usize) -> bool,
    ) -> Vec<Choice> {
        let column = |expr: &BoundExpr| indexable_column(expr, first, table.columns.len());
        let of_condition = |(at, condition): (usize, &&BoundExpr)| {
            let ExprKind::Or(parts) = &condition.kind else { return None };
            // A query has them in one list.
            let is_list =
                || !self.changes_rows() && one_column(condition, &column, &mut Vec::new()).is_some();
            let looked_for = self.looked_for.get() + parts.len();
            if parts.len() > ALTERNATIVES_MAX || looked_for > LOOKED_FOR_MAX || is_list() {
                return None;
            }
            self.looked_for.set(looked_for);
            let mut sum = Choice {
                path: AccessPath::Full { backward: false },
                consumed: Vec::new(),
                examined: 0.0,
                rows: 0.0,
                cost: 0.0,
                ordered: false,
                in_slices: None,
            };
            let mut ways = Vec::with_capacity(parts.len());
            for part in parts {
                let (way, condition) =
                    self.index_for_part(table, first, (at, part), conjuncts, probes, bound)?;
                sum.examined += way.examined;
                sum.rows += way.rows;
                sum.cost += way.cost;
                ways.push(Alternative { condition, path: way.path });
            }
            Some(Choice { path: AccessPath::Alternatives(ways), ..sum })
        };
        if conjuncts.len() > ALTERNATIVES_MAX {
            return Vec::new();
        }
        conjuncts.iter().enumerate().filter_map(of_condition).collect()
    }

    /// The cheapest index for the rows of which a part of condition number `at` is true, beside the other conditions, and what of the part the index
    /// tells; `None` if it tells nothing of it. `probes` are those of all conditions.
    fn index_for_part(
        &self,
        table: &Arc<Table>,
        first: usize,
        (at, part): (usize, &BoundExpr),
        conjuncts: &[&BoundExpr],
        probes: &[Probe<'_>],
        bound: &dyn Fn(usize) -> bool,
    ) -> Option<(Choice, BoundExpr)> {
        let own: Vec<&BoundExpr> = match &part.kind {
            ExprKind::And(parts) => parts.iter().collect(),
            _ => vec![part],
        };
        let (head, tail) = own.split_first()?;
        // The part stands in the place of its condition, and what more it has behind all of them.
        let mut all: Vec<&BoundExpr> = conjuncts.to_vec();
        all[at] = head;
        all.extend(tail);
        let mut of_part = self.probes(table, first, &own, bound);
        // Whether another part has found a row is told by what that asks of it.
        of_part.retain(|probe| probe.is_whole);
        for probe in &mut of_part {
            probe.conjunct = if probe.conjunct == 0 { at } else { conjuncts.len() + probe.conjunct - 1 };
        }
        // A long list is not written down for each part.
        let of_others = probes.iter().filter(|probe| !matches!(probe.kind, ProbeKind::OneOf(_)));
        let both: Vec<&Probe<'_>> = of_part.iter().chain(of_others).collect();
        // Whether another part has found a row is told by its conditions alone: so its index has to have all rows of these.
        let said = Told::by(table, first, conjuncts, probes, |other| other != at);
        let ways = table.indexes.iter().enumerate().filter_map(|(position, index)| {
            self.index_path(table, first, position, index, &all, &both, &said, (None, f64::INFINITY))
        });
        let best = ways.min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        let is_own = |place: &&usize| **place == at || **place >= conjuncts.len();
        let told: Vec<BoundExpr> =
            best.consumed.iter().filter(is_own).map(|place| all[*place].clone()).collect();
        Some((best, BoundExpr::conjunction(told)?))
    }

    fn full_scan(&self, table: &Table, conjuncts: &[&BoundExpr]) -> Choice {
        let now = self.table_rows_now(table);
        let rows = thinned(now, conjuncts.iter().copied());
        Choice {
            path: AccessPath::Full { backward: false },
            consumed: Vec::new(),
            examined: now,
            rows,
            cost: self.table_rows(table),
            ordered: false,
            in_slices: None,
        }
    }

    /// `rows_max`: how many rows there are at most, as far as other indexes tell. `None` for a partial index that may lack rows that are looked for.
    #[expect(clippy::too_many_arguments, reason = "one candidate of a choice")]
    fn index_path(
        &self,
        table: &Arc<Table>,
        first: usize,
        position: usize,
        index: &Index,
        conjuncts: &[&BoundExpr],
        probes: &[&Probe<'_>],
        said: &Told,
        (wish, rows_max): (Option<&OrderWish>, f64),
    ) -> Option<Choice> {
        let of_index = said.by_index(index)?;
        let mut parts = Vec::new();
        let mut consumed = Vec::new();
        let mut times = 1.0;
        let mut single = true;
        for key in &index.columns {
            // Equality first: it keeps the order and is a single probe.
            let exact = probes
                .iter()
                .filter(|p| p.is_of(key) && p.kind.is_exact())
                // A key has no NULL, whatever its column's definition says.
                .filter(|p| !matches!(p.kind, ProbeKind::Null) || !table.is_primary(index))
                .min_by_key(|p| match p.kind {
                    ProbeKind::Equal(_) | ProbeKind::Is(_) => 0,
                    ProbeKind::Null => 1,
                    _ => 2,
                });
            let Some(probe) = exact else { break };
            parts.push(match &probe.kind {
                ProbeKind::Equal(expr) => KeyPart::Equal((*expr).clone(), probe.fit),
                ProbeKind::Is(value) => {
                    KeyPart::Equal(BoundExpr::constant(types::Datum::Bool(*value), PgType::Bool), probe.fit)
                }
                ProbeKind::Null => KeyPart::Null,
                ProbeKind::OneOf(items) => {
                    times *= items.len() as f64;
                    single = false;
                    KeyPart::OneOf(items.iter().map(|item| (*item).clone()).collect(), probe.fit)
                }
                ProbeKind::AnyOf(array) => {
                    times *= ARRAY_ITEMS;
                    single = false;
                    KeyPart::AnyOf((*array).clone(), probe.fit)
                }
                ProbeKind::InRows(id, rows) => {
                    times *= *rows;
                    single = false;
                    KeyPart::InRows(*id, probe.fit)
                }
                ProbeKind::Lower(..) | ProbeKind::Upper(..) => unreachable!("only exact probes are taken"),
            });
            consumed.push(probe.conjunct);
        }
        let (mut lower, mut upper) = (None, None);
        if let Some(key) = index.columns.get(parts.len()) {
            for probe in probes.iter().filter(|p| p.is_of(key)) {
                match probe.kind {
                    ProbeKind::Lower(value, inclusive) if lower.is_none() => {
                        lower = Some(RangeBound { value: value.clone(), inclusive, fit: probe.fit });
                        consumed.extend(probe.is_whole.then_some(probe.conjunct));
                    }
                    ProbeKind::Upper(value, inclusive) if upper.is_none() => {
                        upper = Some(RangeBound { value: value.clone(), inclusive, fit: probe.fit });
                        consumed.extend(probe.is_whole.then_some(probe.conjunct));
                    }
                    _ => {}
                }
            }
        }
        let ends = usize::from(lower.is_some()) + usize::from(upper.is_some());
        let order = wish.filter(|_| single).and_then(|wish| order_of(table, first, index, &parts, wish));
        let is_whole = parts.is_empty() && ends == 0;
        // How many rows a partial index has is told by itself, before any of them is looked at.
        let partial = index.predicate.as_ref().map(|_| self.ctx.rows.entries(table.oid, index.oid));
        let entries = partial.flatten().map(|entries| entries as f64);
        if is_whole && order.is_none() && entries.is_none() {
            return None;
        }
        let share = match entries {
            Some(entries) => (entries / self.table_rows(table)).min(1.0),
            None => of_index.iter().map(|at| share_of(conjuncts[*at])).product(),
        };
        let examined = if is_whole {
            (self.table_rows(table) * share).max(1.0)
        } else {
            (self.index_rows(table, index, &parts, ends) * times * share).max(1.0)
        };
        let is_told = |i: &usize| consumed.contains(i) || of_index.contains(i);
        let rest = conjuncts.iter().enumerate().filter(|(i, _)| !is_told(i)).map(|(_, c)| *c);
        let rows = thinned(examined, rest);
        // An index entry leads to its row by one more descent.
        let each = if table.is_primary(index) { 1.0 } else { 2.0 };
        let mut read = examined;
        let mut cost = 0.5;
        match (wish, order) {
            (Some(OrderWish { rows: Some(limit), .. }), Some(_)) => {
                read = (limit * examined / rows.min(rows_max).max(1e-6)).min(examined);
            }
            (Some(_), None) => cost += rows * SORT_COST,
            _ => {}
        }
        cost += read * each;
        let path =
            AccessPath::Index { index: position, parts, lower, upper, backward: order.unwrap_or(false) };
        Some(Choice { path, consumed, examined, rows, cost, ordered: order.is_some(), in_slices: None })
    }

    fn probes<'e>(
        &self,
        table: &Table,
        first: usize,
        conjuncts: &[&'e BoundExpr],
        bound: &dyn Fn(usize) -> bool,
    ) -> Vec<Probe<'e>> {
        let mut probes = Vec::new();
        let column = |expr: &BoundExpr| indexable_column(expr, first, table.columns.len());
        let function = |expr: &BoundExpr| {
            let (slot, function) = key_function(expr)?;
            (first..first + table.columns.len()).contains(&slot).then(|| (slot - first, function))
        };
        let ready = |expr: &BoundExpr| {
            let mut slots = Vec::new();
            self.slots_used(expr, 0, &mut slots);
            slots.into_iter().all(bound) && expr.volatility() != Volatility::Volatile
        };
        // `at > now()` of a timestamp without time zone: where a range begins or ends is known but for the hours around a change of the zone's offset.
        let near = |conjunct: usize, op: CompareOp, left: &BoundExpr, right: &'e BoundExpr| {
            let ExprKind::Cast { expr, .. } = &left.kind else { return None };
            let are_moments = match expr.ty {
                PgType::Timestamp => left.ty == PgType::TimestampTz,
                PgType::Date => matches!(left.ty, PgType::Timestamp | PgType::TimestampTz),
                _ => false,
            };
            let is_near = are_moments && left.typmod.is_none() && left.ty == right.ty;
            let column = column(expr).filter(|_| is_near && ready(right))?;
            let (fit, kind) = match op {
                CompareOp::Gt | CompareOp::Ge => (ProbeFit::Earliest(expr.ty), ProbeKind::Lower(right, true)),
                CompareOp::Lt | CompareOp::Le => (ProbeFit::Latest(expr.ty), ProbeKind::Upper(right, true)),
                CompareOp::Eq | CompareOp::Ne => return None,
            };
            Some(Probe { conjunct, column, function: None, fit, kind, is_whole: false })
        };
        for (conjunct, condition) in conjuncts.iter().enumerate() {
            match &condition.kind {
                ExprKind::Compare { op, left, right, .. } => {
                    for (op, left, right) in [(*op, left, right), (op.commuted(), right, left)] {
                        let (column, function, fit) = match (column(left), function(left)) {
                            (Some(column), _) => {
                                let target = &table.columns[column];
                                let Some(fit) = fit(target.ty, target.typmod, right.ty) else { continue };
                                (column, None, fit)
                            }
                            (None, Some((column, function))) if is_plain_text(right.ty) => {
                                (column, Some(function), ProbeFit::Same)
                            }
                            (None, _) => {
                                if let Some(probe) = near(conjunct, op, left, right) {
                                    probes.push(probe);
                                    break;
                                }
                                continue;
                            }
                        };
                        if !ready(right) {
                            continue;
                        }
                        let kind = match op {
                            CompareOp::Eq => ProbeKind::Equal(right),
                            CompareOp::Gt => ProbeKind::Lower(right, false),
                            CompareOp::Ge => ProbeKind::Lower(right, true),
                            CompareOp::Lt => ProbeKind::Upper(right, false),
                            CompareOp::Le => ProbeKind::Upper(right, true),
                            CompareOp::Ne => continue,
                        };
                        if !kind.is_exact() && matches!(fit, ProbeFit::Blanks(_)) {
                            continue;
                        }
                        probes.push(Probe { conjunct, column, function, fit, kind, is_whole: true });
                        break;
                    }
                }
                // A change that finds its rows by a list does not run in slices: who wrote none gets an index for each part.
                ExprKind::Or(_) if self.changes_rows() => {}
                ExprKind::InList { .. } | ExprKind::Or(_) => {
                    let mut items = Vec::new();
                    let Some(column) = one_column(condition, &column, &mut items) else { continue };
                    let target = &table.columns[column];
                    let fits: Option<Vec<ProbeFit>> =
                        items.iter().map(|item| fit(target.ty, target.typmod, item.ty)).collect();
                    let Some(fits) = fits else { continue };
                    if !items.iter().all(|item| ready(item)) {
                        continue;
                    }
                    // One fit for all: the laxer of the two kinds integers have.
                    let fit = fits.iter().copied().find(|f| *f != ProbeFit::Same).unwrap_or(ProbeFit::Same);
                    // A list of one is that one: all that is found has one value, and stands in the order of what is behind it.
                    let kind = match items.as_slice() {
                        [one] => ProbeKind::Equal(one),
                        _ => ProbeKind::OneOf(items),
                    };
                    probes.push(Probe { conjunct, column, function: None, fit, kind, is_whole: true });
                }
                ExprKind::IsNull { expr, negated: false } => {
                    let nullable = column(expr).filter(|column| !table.columns[*column].not_null);
                    if let Some(column) = nullable {
                        let (fit, kind) = (ProbeFit::Same, ProbeKind::Null);
                        probes.push(Probe { conjunct, column, function: None, fit, kind, is_whole: true });
                    }
                }
                ExprKind::CompareArray { op: CompareOp::Eq, all: false, left, array, .. } => {
                    let Some(column) = column(left) else { continue };
                    let target = &table.columns[column];
                    let Some(element) = array.ty.element() else { continue };
                    let Some(fit) = fit(target.ty, target.typmod, element) else { continue };
                    if ready(array) {
                        let kind = ProbeKind::AnyOf(array);
                        probes.push(Probe { conjunct, column, function: None, fit, kind, is_whole: true });
                    }
                }
                ExprKind::Subquery(subquery) if !subquery.correlated => {
                    let SubqueryTest::Compare { all: false, columns } = &subquery.test else { continue };
                    let [SubqueryColumn { op: CompareOp::Eq, left, cast, .. }] = columns.as_slice() else {
                        continue;
                    };
                    let (Some(column), None) = (column(left), cast) else { continue };
                    let target = &table.columns[column];
                    let (ty, rows) = self.with_subquery(subquery.id, |plan| (plan.project[0].ty, plan.rows));
                    if let Some(fit) = fit(target.ty, target.typmod, ty) {
                        let kind = ProbeKind::InRows(subquery.id, rows.max(1.0));
                        probes.push(Probe { conjunct, column, function: None, fit, kind, is_whole: true });
                    }
                }
                _ => {
                    let Some((of, value)) = boolean_asked(condition) else { continue };
                    let is_boolean = |column: &usize| table.columns[*column].ty == PgType::Bool;
                    if let Some(column) = column(of).filter(is_boolean) {
                        let (fit, kind) = (ProbeFit::Same, ProbeKind::Is(value));
                        probes.push(Probe { conjunct, column, function: None, fit, kind, is_whole: true });
                    }
                }
            }
        }
        probes
    }
}

/// Parts of a condition that are looked for each by an index, at most, and conditions beside it: each row that is found is held against the parts before
/// the one that found it.
const ALTERNATIVES_MAX: usize = 64;

/// Parts that an index is looked for in a whole statement, each as often as that is done: it takes some microseconds each, and nobody else's task runs
/// while a statement is bound.
pub(super) const LOOKED_FOR_MAX: usize = 4096;

/// Cost of sorting one row, in rows read.
const SORT_COST: f64 = 0.3;

/// The share of a table's rows that a partial index has by a condition. Most rows may be those without a value: what is marked as deleted is a few.
fn share_of(condition: &BoundExpr) -> f64 {
    if matches!(condition.kind, ExprKind::IsNull { .. }) { 1.0 } else { selectivity(condition) }
}

fn thinned<'e>(rows: f64, rest: impl Iterator<Item = &'e BoundExpr>) -> f64 {
    rest.fold(rows, |rows, condition| rows * selectivity(condition)).max(rows.min(1.0))
}

/// The column that a condition wants to have one of the values that are added to `items`: `a IN (1, 2)`, `a = 1 OR a = 2`.
fn one_column<'e>(
    condition: &'e BoundExpr,
    column: &dyn Fn(&BoundExpr) -> Option<usize>,
    items: &mut Vec<&'e BoundExpr>,
) -> Option<usize> {
    match &condition.kind {
        ExprKind::InList { expr, items: list, negated: false, .. } => {
            items.extend(list);
            column(expr)
        }
        ExprKind::Compare { op: CompareOp::Eq, left, right, .. } => {
            let sides = [(left, right), (right, left)];
            let (found, item) = sides.into_iter().find_map(|(side, item)| Some((column(side)?, &**item)))?;
            items.push(item);
            Some(found)
        }
        ExprKind::Or(parts) => {
            let mut found = None;
            for part in parts {
                let of_part = one_column(part, column, items)?;
                if *found.get_or_insert(of_part) != of_part {
                    return None;
                }
            }
            found
        }
        _ => None,
    }
}

/// What has this value wherever a condition is true: `a`, `NOT a`, `a IS FALSE`.
fn boolean_asked(condition: &BoundExpr) -> Option<(&BoundExpr, bool)> {
    match &condition.kind {
        ExprKind::Column(_) => Some((condition, true)),
        ExprKind::Not(inner) => Some((&**inner, false)),
        ExprKind::IsBool { expr, value, negated: false } => Some((&**expr, *value)),
        _ => None,
    }
}

/// The table's column that `expr` is, seen through conversions that keep order and equality.
fn indexable_column(expr: &BoundExpr, first: usize, columns: usize) -> Option<usize> {
    let slot = bare_column(expr)?;
    (first..first + columns).contains(&slot).then(|| slot - first)
}

/// Whether keys of an index stand in the order of the values, and are equal for equal ones. Those of json are its text.
fn in_key_order(ty: PgType) -> bool {
    !matches!(ty.element().unwrap_or(ty), PgType::Json | PgType::Jsonb)
}

/// How a value of type `value` is brought to the keys of a column; `None` if it cannot be looked up.
fn fit(column: PgType, typmod: TypeMod, value: PgType) -> Option<ProbeFit> {
    if column == PgType::Bpchar && value == PgType::Bpchar {
        return typmod.as_length().map(|_| ProbeFit::Blanks(typmod));
    }
    if !in_key_order(column) {
        return None;
    }
    if column == value || (is_plain_text(column) && is_plain_text(value)) {
        return Some(ProbeFit::Same);
    }
    let integer = |ty| matches!(ty, PgType::Int2 | PgType::Int4 | PgType::Int8);
    (integer(column) && integer(value)).then_some(ProbeFit::Integer(column))
}

/// Whether an index whose first columns have one value each yields the wished order, and if so whether backwards.
fn order_of(table: &Table, first: usize, index: &Index, parts: &[KeyPart], wish: &OrderWish) -> Option<bool> {
    let fixed = parts.len();
    let is = |column: &IndexColumn, slot: usize| column.plain().is_some_and(|column| first + column == slot);
    let is_fixed = |slot: usize| index.columns[..fixed].iter().any(|column| is(column, slot));
    let mut wanted = wish.keys.iter().filter(|key| !is_fixed(key.slot));
    let mut backward = None;
    // Of rows with a NULL there may be many in a unique index.
    let mut unique = index.unique && !parts.iter().any(|part| matches!(part, KeyPart::Null));
    let own = &index.columns[fixed..];
    // An entry of another index than the primary key ends with the key of its row.
    let primary = table.primary_index().filter(|_| !table.is_primary(index));
    let is_in_index =
        |column: &IndexColumn| index.columns.iter().any(|indexed| indexed.plain() == Some(column.column));
    let of_row =
        primary.into_iter().flat_map(|primary| &primary.columns).filter(|column| !is_in_index(*column));
    for (place, column) in own.iter().chain(of_row).enumerate() {
        if place >= own.len() && unique {
            break;
        }
        let not_null = table.columns[column.column].not_null || table.is_primary(index);
        let Some(key) = wanted.next() else { return Some(backward.unwrap_or(false)) };
        if !is(column, key.slot) || !in_key_order(table.columns[column.column].ty) {
            return None;
        }
        let turned = key.descending != column.descending;
        if *backward.get_or_insert(turned) != turned {
            return None;
        }
        let nulls_matter = !not_null && !wish.nulls_excluded;
        if nulls_matter && key.nulls_first != (column.nulls_first != turned) {
            return None;
        }
        unique &= not_null;
    }
    // Behind a whole unique key nothing of the table is left to order; what other relations have beside its row is.
    let is_whole = unique || primary.is_some();
    let is_own = |slot: usize| (first..first + table.columns.len()).contains(&slot);
    wanted.all(|key| is_whole && is_own(key.slot)).then(|| backward.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use crate::session::testing::Bench;

    #[test]
    fn a_change_finds_alternatives_by_their_indexes_and_runs_in_slices_where_they_are_many() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE m (id int PRIMARY KEY, a int, b int, n int); CREATE INDEX ON m (a); CREATE INDEX ON m (b); CREATE TABLE l (id int);
             INSERT INTO m SELECT g, g % 4, g % 7000, 0 FROM generate_series(1, 20000) g",
        );
        for (change, tag, is_long) in [
            ("UPDATE m SET n = n + 1 WHERE b = 3 OR b = 5", "UPDATE 6", false),
            ("UPDATE m SET n = n + 1 WHERE id = 7 OR b = 9", "UPDATE 4", false),
            ("UPDATE m SET n = n + 1 WHERE a = 3 OR b = 5", "UPDATE 5003", true),
            ("INSERT INTO l SELECT id FROM m WHERE b = 3 OR id = 9", "INSERT 0 4", false),
            ("DELETE FROM m WHERE a = 2 OR b = 6", "DELETE 5000", true),
        ] {
            let plan = bench.run(&mut session, &format!("EXPLAIN {change}")).lines();
            assert!(plan.iter().any(|line| line.contains("Index Or Scan on m")), "{change}: {plan:#?}");
            let (answer, turns) = bench.run_in_turns(&mut session, change);
            assert_eq!(answer.tags, [tag], "{change}");
            assert_eq!(turns > 2, is_long, "{change}: {turns}");
        }
        assert_eq!(bench.run(&mut session, "SELECT sum(n) FROM m WHERE a = 3").lines(), ["5004"]);
    }
}
