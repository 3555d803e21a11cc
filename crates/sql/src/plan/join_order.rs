//! Join order and method: nested loops with lookups where an index helps, hash joins otherwise.
//!
//! Relations joined by INNER JOIN, commas or CROSS JOIN form a group whose order is chosen greedily, cheapest next; a LEFT
//! JOIN is one unit of its group. Conditions are checked at the first place where all they name is filled.

use std::ops::Range;

use base::{SqlError, SqlResult};
use types::{CastContext, PgType, TypeMod};

use super::binder::Binder;
use super::cost::selectivity;
use super::from_clause::FromTree;
use super::level::{Level, RelationSource};
use super::ordering::SortItem;
use super::outer_joins;
use super::path::Choice;
use super::point_plan::{Node, NodeKind, ScanNode, SelectPlan};
use crate::expr::{BoundExpr, CompareOp, ExprKind, Volatility};
use crate::parse::is_made_once;

/// An order that would save a sort.
pub(super) struct OrderWish {
    pub(super) keys: Vec<SortItem>,
    /// Rows that will be read, if it is known to be few.
    pub(super) rows: Option<f64>,
    /// NULLs are passed over, so it does not matter where they stand.
    pub(super) nulls_excluded: bool,
}

/// The source of a level's rows.
pub(super) struct Chosen {
    pub(super) node: Node,
    /// Rows looked at.
    pub(super) cost: f64,
    /// In the wished order.
    pub(super) ordered: bool,
    /// Rows of it that are looked at: all, or as many as a LIMIT wants of what comes in its order.
    wanted: f64,
}

impl Chosen {
    /// How many are looked at of so many rows that its rows are joined to.
    fn wanted_of(&self, rows: f64) -> f64 {
        if self.wanted < self.node.rows { self.wanted.min(rows) } else { rows }
    }
}

struct Group {
    units: Vec<Unit>,
    conditions: Vec<BoundExpr>,
}

enum Unit {
    Relation(usize),
    Left(Group, Group),
}

impl Unit {
    /// The side of a LEFT JOIN all of whose rows are kept.
    fn preserved(&self) -> Option<&Group> {
        match self {
            Unit::Relation(_) => None,
            Unit::Left(left, _) => Some(left),
        }
    }
}

impl Binder<'_> {
    /// Chooses how the rows of a level's FROM that satisfy `conditions` are found.
    pub(super) fn plan_from(
        &self,
        level: &mut Level,
        mut trees: Vec<FromTree>,
        conditions: Vec<BoundExpr>,
        wish: Option<&OrderWish>,
    ) -> SqlResult<Chosen> {
        outer_joins::reduce(&mut trees, level, &conditions);
        self.settle(level, &trees, &conditions, wish)?;
        let mut group = Group { units: Vec::new(), conditions };
        for tree in trees {
            flatten(tree, &mut group);
        }
        let mut bound = vec![false; level.width];
        self.plan_group(level, group, &mut bound, wish)
    }

    fn plan_group(
        &self,
        level: &mut Level,
        group: Group,
        bound: &mut Vec<bool>,
        wish: Option<&OrderWish>,
    ) -> SqlResult<Chosen> {
        let Group { mut units, conditions } = group;
        if units.len() * units.len() * conditions.len() > LOOKS_MAX {
            return Err(self.not_here("so many conditions on a FROM of so many relations"));
        }
        let mut pending: Vec<Pending> = conditions
            .into_iter()
            .map(|expr| {
                let mut slots = Vec::new();
                self.slots_used(&expr, 0, &mut slots);
                Pending { expr, slots }
            })
            .collect();
        let mut current: Option<Chosen> = None;
        if units.is_empty() {
            let node = Node { id: self.next_node(), kind: NodeKind::OneRow, filter: None, rows: 1.0 };
            current = Some(Chosen { node, cost: 1.0, ordered: true, wanted: 1.0 });
        }
        while !units.is_empty() {
            let wish = wish.filter(|_| current.is_none());
            let next = self.cheapest(level, &units, &pending, bound, wish);
            let Some(next) = next else {
                return Err(SqlError::internal("FROM items wait for each other"));
            };
            let unit = units.remove(next);
            current = Some(self.add_unit(level, current, unit, &mut pending, bound, wish)?);
        }
        let mut chosen = current.expect("a group has a node");
        // What is left names nothing of this group (constants over no relation).
        let rest: Vec<BoundExpr> = pending.into_iter().map(|p| p.expr).collect();
        self.add_filter(&mut chosen, rest);
        Ok(chosen)
    }

    /// The unit that costs least next, of those whose needs are filled.
    fn cheapest(
        &self,
        level: &Level,
        units: &[Unit],
        pending: &[Pending],
        bound: &[bool],
        wish: Option<&OrderWish>,
    ) -> Option<usize> {
        // LEFT JOINs behind what comes first are run for each row of it.
        let behind: Vec<&Group> = match bound.contains(&true) {
            true => Vec::new(),
            false => units.iter().filter_map(Unit::preserved).collect(),
        };
        let mut best: Option<(f64, usize)> = None;
        for (i, unit) in units.iter().enumerate() {
            if !self.unit_is_ready(level, unit, bound) {
                continue;
            }
            let cost = match unit {
                _ if units.len() == 1 => 0.0,
                Unit::Relation(index) => {
                    let (mut cost, rows) = self.access_cost(level, *index, pending, &[], bound, wish);
                    if !behind.is_empty() {
                        let mut filled = bound.to_vec();
                        fill(level, *index, &mut filled);
                        let each =
                            behind.iter().map(|left| self.lead_cost(level, left, pending, &filled, None));
                        cost += rows * each.sum::<f64>();
                    }
                    cost
                }
                Unit::Left(left, _) => self.lead_cost(level, left, pending, bound, wish),
            };
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, i));
            }
        }
        best.map(|(_, i)| i)
    }

    /// Cost and rows of reading a relation by the conditions of its group, and others, of which all is filled then.
    fn access_cost(
        &self,
        level: &Level,
        index: usize,
        pending: &[Pending],
        others: &[&BoundExpr],
        bound: &[bool],
        wish: Option<&OrderWish>,
    ) -> (f64, f64) {
        let relation = &level.relations[index];
        if !matches!(relation.source, Some(RelationSource::Table(_) | RelationSource::Open(_))) {
            let cost = relation_cost(level, index);
            return (cost, cost);
        }
        let slots = relation.first..relation.first + relation.columns.len();
        let here = conditions_for(pending, &slots, bound);
        let mut exprs: Vec<&BoundExpr> = here.iter().map(|i| &pending[*i].expr).collect();
        exprs.extend(others.iter().filter(|expr| {
            let mut used = Vec::new();
            self.slots_used(expr, 0, &mut used);
            used.iter().all(|slot| slots.contains(slot) || bound[*slot])
        }));
        self.estimate(level, index, &exprs, bound, wish)
    }

    /// What a LEFT JOIN costs by the relation that it begins with, the cheapest of those that it preserves: to read it, and a look-up for each row.
    fn lead_cost(
        &self,
        level: &Level,
        left: &Group,
        pending: &[Pending],
        bound: &[bool],
        wish: Option<&OrderWish>,
    ) -> f64 {
        let (mut relations, mut conditions, mut groups) = (Vec::new(), Vec::new(), vec![left]);
        while let Some(group) = groups.pop() {
            conditions.extend(&group.conditions);
            for unit in &group.units {
                match unit {
                    Unit::Relation(index) => relations.push(*index),
                    // Of very many within each other the outermost decide.
                    Unit::Left(left, _) if relations.len() < LEADS_MAX => groups.push(left),
                    Unit::Left(..) => {}
                }
            }
        }
        let is_ready = |index: &usize| self.relation_uses(level, *index).into_iter().all(|slot| bound[slot]);
        let costs = relations.into_iter().filter(is_ready).take(LEADS_MAX).map(|index| {
            let (cost, rows) = self.access_cost(level, index, pending, &conditions, bound, wish);
            cost + rows
        });
        costs.min_by(f64::total_cmp).unwrap_or(LEAD_UNKNOWN)
    }

    fn unit_is_ready(&self, level: &Level, unit: &Unit, bound: &[bool]) -> bool {
        match unit {
            Unit::Relation(index) => self.relation_uses(level, *index).into_iter().all(|slot| bound[slot]),
            Unit::Left(left, right) => {
                let mut own = Vec::new();
                for group in [left, right] {
                    group_relations(group, &mut own);
                }
                own.iter().all(|index| {
                    self.relation_uses(level, *index)
                        .into_iter()
                        .all(|slot| bound[slot] || own.contains(&level.column_of(slot).0))
                })
            }
        }
    }

    /// Slots of the level that a lateral relation needs.
    pub(super) fn relation_uses(&self, level: &Level, index: usize) -> Vec<usize> {
        match &level.relations[index].source {
            Some(RelationSource::Function { uses, .. }) => uses.clone(),
            Some(RelationSource::Derived(plans)) => {
                let mut slots = Vec::new();
                for plan in plans.iter().filter(|plan| plan.correlated) {
                    plan.for_each_expr(1, &mut |expr, depth| self.slots_used(expr, depth, &mut slots));
                }
                slots
            }
            _ => Vec::new(),
        }
    }

    fn add_unit(
        &self,
        level: &mut Level,
        current: Option<Chosen>,
        unit: Unit,
        pending: &mut Vec<Pending>,
        bound: &mut Vec<bool>,
        wish: Option<&OrderWish>,
    ) -> SqlResult<Chosen> {
        match unit {
            Unit::Relation(index) => {
                let relation = &level.relations[index];
                let slots = relation.first..relation.first + relation.columns.len();
                let here = take_conditions(pending, &slots, bound);
                self.join_relation(level, current, index, here, false, bound, wish)
            }
            Unit::Left(left, right) => {
                let first = current.is_none();
                let mut inner = left;
                let mut own = Vec::new();
                group_relations(&inner, &mut own);
                // Conditions over the preserved side alone may be checked there.
                let mut visible = bound.clone();
                for index in &own {
                    fill(level, *index, &mut visible);
                }
                let here = take_filled(pending, &visible);
                inner.conditions.extend(here);
                let chosen_left = self.plan_group(level, inner, bound, wish.filter(|_| first))?;
                let mut joined = self.join_left(level, chosen_left, right, bound)?;
                let above = take_filled(pending, bound);
                if let Some(current) = current {
                    let slots = 0..0;
                    joined = self.nested(current, joined, false, slots);
                }
                self.add_filter(&mut joined, above);
                Ok(joined)
            }
        }
    }

    fn join_left(
        &self,
        level: &mut Level,
        left: Chosen,
        right: Group,
        bound: &mut Vec<bool>,
    ) -> SqlResult<Chosen> {
        let Group { mut units, conditions } = right;
        let mut own = Vec::new();
        for unit in &units {
            unit_relations(unit, &mut own);
        }
        let start = own.iter().map(|i| level.relations[*i].first).min().unwrap_or(0);
        let end = own
            .iter()
            .map(|i| level.relations[*i].first + level.relations[*i].columns.len())
            .max()
            .unwrap_or(0);
        if let [Unit::Relation(index)] = units.as_slice() {
            let index = *index;
            units.clear();
            return self.join_relation(level, Some(left), index, conditions, true, bound, None);
        }
        let inner = self.plan_group(level, Group { units, conditions }, bound, None)?;
        Ok(self.nested(left, inner, true, start..end))
    }

    /// Joins one relation to what there is, checking `conditions` on the pairs.
    #[expect(clippy::too_many_arguments, reason = "one step of the order")]
    fn join_relation(
        &self,
        level: &mut Level,
        current: Option<Chosen>,
        index: usize,
        conditions: Vec<BoundExpr>,
        left_outer: bool,
        bound: &mut [bool],
        wish: Option<&OrderWish>,
    ) -> SqlResult<Chosen> {
        let relation = &level.relations[index];
        let slots = relation.first..relation.first + relation.columns.len();
        let Some(left) = current else {
            let is_first = !bound.contains(&true);
            let node = self.relation_node(level, index, conditions, bound, wish, is_first)?;
            fill(level, index, bound);
            return Ok(node);
        };
        let free = vec![false; bound.len()];
        let lateral = !self.relation_uses(level, index).is_empty();
        let (keys, rest) = self.hash_keys(conditions, &slots, bound);
        let alone: Vec<&BoundExpr> = rest.iter().filter(|e| self.names_only(e, &slots)).collect();
        let once = self.estimate(level, index, &alone, &free, None);
        let each = {
            let all: Vec<&BoundExpr> = keys.iter().map(|k| &k.condition).chain(&rest).collect();
            self.estimate(level, index, &all, bound, None)
        };
        // Where few of the left rows are looked at, a table of all that they could meet is not worth it.
        let wanted = left.wanted.min(left.node.rows);
        let pays = once.0 + once.1 + wanted < wanted * each.0;
        if keys.is_empty() || lateral || !pays {
            let mut all = rest;
            all.extend(keys.into_iter().map(|k| k.condition));
            let right = self.relation_node(level, index, all, bound, None, false)?;
            fill(level, index, bound);
            return Ok(self.nested(left, right, left_outer, slots));
        }
        let (own, on): (Vec<BoundExpr>, Vec<BoundExpr>) =
            rest.into_iter().partition(|e| self.names_only(e, &slots));
        let right = self.relation_node(level, index, own, &free, None, false)?;
        fill(level, index, bound);
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = keys.into_iter().map(|k| (k.left, k.right)).unzip();
        let mut rows = left.node.rows.max(right.node.rows);
        for condition in &on {
            rows *= selectivity(condition);
        }
        let rows = rows.max(1.0);
        let cost = left.cost + right.cost + left.node.rows;
        let (ordered, wanted) = (left.ordered, left.wanted_of(rows));
        let kind = NodeKind::HashJoin {
            left: Box::new(left.node),
            right: Box::new(right.node),
            left_keys,
            right_keys,
            on: BoundExpr::conjunction(on),
            left_outer,
            right_slots: slots,
        };
        let node = Node { id: self.next_node(), kind, filter: None, rows };
        Ok(Chosen { node, cost, ordered, wanted })
    }

    fn nested(&self, left: Chosen, right: Chosen, left_outer: bool, right_slots: Range<usize>) -> Chosen {
        let rows = (left.node.rows * right.node.rows).max(if left_outer { left.node.rows } else { 0.0 });
        let cost = left.cost + left.node.rows * right.cost;
        let (ordered, wanted) = (left.ordered, left.wanted_of(rows));
        let kind = NodeKind::NestedLoop {
            left: Box::new(left.node),
            right: Box::new(right.node),
            left_outer,
            right_slots,
        };
        Chosen { node: Node { id: self.next_node(), kind, filter: None, rows }, cost, ordered, wanted }
    }

    /// Cost and rows of reading a relation once.
    fn estimate(
        &self,
        level: &Level,
        index: usize,
        conditions: &[&BoundExpr],
        bound: &[bool],
        wish: Option<&OrderWish>,
    ) -> (f64, f64) {
        let relation = &level.relations[index];
        match &relation.source {
            Some(RelationSource::Table(table)) => {
                let choice = self.choose_path(table, relation.first, conditions, &|slot| bound[slot], wish);
                (choice.cost, choice.rows)
            }
            Some(RelationSource::Open(open)) => {
                let slots = relation.first..relation.first + relation.columns.len();
                self.open_cost(open, &slots, conditions)
            }
            _ => {
                let cost = relation_cost(level, index);
                (cost, cost)
            }
        }
    }

    /// `is_first`: all others are found for its rows, so that it is gone through once.
    fn relation_node(
        &self,
        level: &mut Level,
        index: usize,
        mut conditions: Vec<BoundExpr>,
        bound: &[bool],
        wish: Option<&OrderWish>,
        is_first: bool,
    ) -> SqlResult<Chosen> {
        let wanted = level.used_columns(index);
        let is_correlated = level.correlated();
        // Of a query that is run for each row around it what is volatile is made for each run.
        let is_fresh = |plan: &SelectPlan| self.is_changeable(plan) && !is_kept(plan);
        let is_once = |plans: &[SelectPlan]| is_first && (!is_correlated || plans.iter().any(is_fresh));
        let relation = &mut level.relations[index];
        let first = relation.first;
        let slots = first..first + relation.columns.len();
        let name = relation.name.clone();
        let key = relation.key;
        let source = relation.source.take().expect("a relation is planned once");
        let id = self.next_node();
        let (kind, rows, cost, ordered) = match source {
            RelationSource::Table(table) => {
                let exprs: Vec<&BoundExpr> = conditions.iter().collect();
                let Choice { path, consumed, examined, rows, cost, ordered, in_slices } =
                    self.choose_path(&table, first, &exprs, &|slot| bound[slot], wish);
                let mut at = 0;
                conditions.retain(|_| {
                    at += 1;
                    !consumed.contains(&(at - 1))
                });
                let scan = ScanNode { table, name, first, wanted, path, in_slices, key, examined };
                (NodeKind::Scan(Box::new(scan)), rows, cost.min(examined * 2.0 + 0.5), ordered)
            }
            RelationSource::Derived(plans) => {
                let ((rows, cost), is_once) = (rows_and_cost(&plans), is_once(&plans));
                (NodeKind::Derived { name, first, plans, is_once }, rows, cost.max(rows), false)
            }
            RelationSource::Open(open) => {
                let (plan, ordered) = self.plan_asked(*open, &slots, &mut conditions, wish)?;
                let (rows, cost) = (plan.rows, plan.cost.max(plan.rows));
                let plans = vec![plan];
                let is_once = is_once(&plans);
                (NodeKind::Derived { name, first, plans, is_once }, rows, cost, ordered)
            }
            RelationSource::Common { part, rows } => {
                (NodeKind::Common { name, first, part }, rows, rows, false)
            }
            RelationSource::Function { function, ordinality, uses: _ } => (
                NodeKind::Function { name, first, function, ordinality },
                FUNCTION_ROWS,
                FUNCTION_ROWS,
                false,
            ),
            RelationSource::Values(rows) => {
                let count = rows.len() as f64;
                (NodeKind::Values { first, rows }, count, count, false)
            }
        };
        let node = Node { id, kind, filter: None, rows };
        let mut chosen = Chosen { node, cost, ordered, wanted: rows };
        let thin = !matches!(chosen.node.kind, NodeKind::Scan(_));
        self.set_filter(&mut chosen, conditions, thin);
        let limit = wish.and_then(|wish| wish.rows).filter(|_| ordered);
        chosen.wanted = chosen.node.rows.min(limit.unwrap_or(f64::INFINITY));
        Ok(chosen)
    }

    fn add_filter(&self, chosen: &mut Chosen, conditions: Vec<BoundExpr>) {
        if !conditions.is_empty() {
            self.set_filter(chosen, conditions, true);
        }
    }

    fn set_filter(&self, chosen: &mut Chosen, mut conditions: Vec<BoundExpr>, thin: bool) {
        let before = chosen.node.rows;
        for condition in &conditions {
            let (once, each) = self.subquery_costs(condition);
            chosen.cost += once + each * before.max(1.0);
            if thin {
                chosen.node.rows *= selectivity(condition);
            }
        }
        // Subqueries last: a cheap condition may spare them.
        conditions.sort_by_key(BoundExpr::contains_subquery);
        let mut all: Vec<BoundExpr> =
            chosen.node.filter.take().map_or_else(Vec::new, BoundExpr::into_conjuncts);
        all.extend(conditions);
        chosen.node.filter = BoundExpr::conjunction(all);
    }

    /// Takes the equalities between what is filled and the relation's slots out of `conditions`.
    fn hash_keys(
        &self,
        conditions: Vec<BoundExpr>,
        slots: &Range<usize>,
        bound: &[bool],
    ) -> (Vec<HashKey>, Vec<BoundExpr>) {
        let mut keys = Vec::new();
        let mut rest = Vec::new();
        for condition in conditions {
            let key = match &condition.kind {
                ExprKind::Compare { op: CompareOp::Eq, left, right, .. } => {
                    [(left, right), (right, left)].into_iter().find_map(|(l, r)| {
                        let (l, r) = (&**l, &**r);
                        let sides = self.names_filled(l, bound) && self.names_only(r, slots);
                        let hashable = l.volatility() != Volatility::Volatile
                            && r.volatility() != Volatility::Volatile
                            && !r.columns_used().is_empty()
                            && !l.columns_used().is_empty();
                        if sides && hashable { hash_pair(l, r) } else { None }
                    })
                }
                _ => None,
            };
            match key {
                Some((left, right)) => keys.push(HashKey { condition, left, right }),
                None => rest.push(condition),
            }
        }
        (keys, rest)
    }

    pub(super) fn names_only(&self, expr: &BoundExpr, slots: &Range<usize>) -> bool {
        let mut used = Vec::new();
        self.slots_used(expr, 0, &mut used);
        used.iter().all(|slot| slots.contains(slot))
    }

    fn names_filled(&self, expr: &BoundExpr, bound: &[bool]) -> bool {
        let mut used = Vec::new();
        self.slots_used(expr, 0, &mut used);
        used.iter().all(|slot| bound[*slot])
    }
}

/// Relations of a LEFT JOIN that are looked at to find out which it begins with.
const LEADS_MAX: usize = 8;

/// What a LEFT JOIN is taken to cost of which nothing can be read yet.
const LEAD_UNKNOWN: f64 = 1e6;

/// Looks at conditions while an order is found: whichever relation comes next, each condition is looked at for each that is left, at some 2 ns.
const LOOKS_MAX: usize = 1 << 25;

/// Rows assumed of a function in FROM.
const FUNCTION_ROWS: f64 = 100.0;

/// A condition of the group and the slots it names.
struct Pending {
    expr: BoundExpr,
    slots: Vec<usize>,
}

struct HashKey {
    condition: BoundExpr,
    left: BoundExpr,
    right: BoundExpr,
}

fn flatten(tree: FromTree, group: &mut Group) {
    match tree {
        FromTree::Relation(index) => group.units.push(Unit::Relation(index)),
        FromTree::Join { left, right, left_outer: false, on } => {
            flatten(*left, group);
            flatten(*right, group);
            group.conditions.extend(on);
        }
        FromTree::Join { left, right, left_outer: true, on } => {
            let mut preserved = Group { units: Vec::new(), conditions: Vec::new() };
            flatten(*left, &mut preserved);
            let mut optional = Group { units: Vec::new(), conditions: on };
            flatten(*right, &mut optional);
            group.units.push(Unit::Left(preserved, optional));
        }
    }
}

fn group_relations(group: &Group, into: &mut Vec<usize>) {
    group.units.iter().for_each(|unit| unit_relations(unit, into));
}

fn unit_relations(unit: &Unit, into: &mut Vec<usize>) {
    match unit {
        Unit::Relation(index) => into.push(*index),
        Unit::Left(left, right) => {
            group_relations(left, into);
            group_relations(right, into);
        }
    }
}

fn fill(level: &Level, index: usize, bound: &mut [bool]) {
    let relation = &level.relations[index];
    bound[relation.first..relation.first + relation.columns.len()].fill(true);
}

fn relation_cost(level: &Level, index: usize) -> f64 {
    match &level.relations[index].source {
        Some(RelationSource::Derived(plans)) => {
            let (rows, cost) = rows_and_cost(plans);
            cost.max(rows)
        }
        Some(RelationSource::Common { rows, .. }) => *rows,
        Some(RelationSource::Values(rows)) => rows.len() as f64,
        _ => FUNCTION_ROWS,
    }
}

/// Whether the rows are a common table's, which are made once for the statement.
fn is_kept(plan: &SelectPlan) -> bool {
    matches!(&plan.from.kind, NodeKind::Derived { name, .. } if is_made_once(name))
}

fn rows_and_cost(plans: &[SelectPlan]) -> (f64, f64) {
    plans.iter().fold((0.0, 0.0), |(rows, cost), plan| (rows + plan.rows, cost + plan.cost))
}

/// Conditions that can be checked once `slots` are filled too.
fn conditions_for(pending: &[Pending], slots: &Range<usize>, bound: &[bool]) -> Vec<usize> {
    (0..pending.len())
        .filter(|i| pending[*i].slots.iter().all(|slot| slots.contains(slot) || bound[*slot]))
        .collect()
}

fn take_conditions(pending: &mut Vec<Pending>, slots: &Range<usize>, bound: &[bool]) -> Vec<BoundExpr> {
    let ready = |p: &mut Pending| p.slots.iter().all(|slot| slots.contains(slot) || bound[*slot]);
    pending.extract_if(.., ready).map(|p| p.expr).collect()
}

fn take_filled(pending: &mut Vec<Pending>, bound: &[bool]) -> Vec<BoundExpr> {
    pending.extract_if(.., |p| p.slots.iter().all(|slot| bound[*slot])).map(|p| p.expr).collect()
}

/// Both sides in one form, so that equal values have equal keys; `None` if there is none.
pub(super) fn hash_pair(left: &BoundExpr, right: &BoundExpr) -> Option<(BoundExpr, BoundExpr)> {
    let text = |ty| matches!(ty, PgType::Text | PgType::Varchar | PgType::Name);
    if matches!(left.ty, PgType::Json | PgType::Jsonb) {
        return None;
    }
    if left.ty == right.ty || (text(left.ty) && text(right.ty)) {
        return Some((left.clone(), right.clone()));
    }
    let is_float = |ty| matches!(ty, PgType::Float4 | PgType::Float8);
    let widest = match () {
        () if left.ty.is_integer() && right.ty.is_integer() => PgType::Int8,
        () if is_float(left.ty) && is_float(right.ty) => PgType::Float8,
        () => return None,
    };
    let wide = |expr: &BoundExpr| {
        if expr.ty == widest {
            return expr.clone();
        }
        let cast = ExprKind::Cast { expr: Box::new(expr.clone()), how: CastContext::Implicit };
        BoundExpr::new(widest, TypeMod::NONE, cast)
    };
    Some((wide(left), wide(right)))
}
