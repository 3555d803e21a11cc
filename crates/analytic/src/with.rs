//! WITH: common tables, recursive ones among them.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Volatility};
use rustc_hash::FxHashMap;
use sql::expr::{Scope, fold_ident};
use sql::plan::check_comparable;
use sqlparser::ast::{self, Visit};
use types::{PgType, TypeMod, format_type};

use crate::apply::ReadCell;
use crate::binder::Binder;
use crate::error::Planned;
use crate::fresh_rows::Fresh;
use crate::recursion::check_terms;
use crate::relation::{RelColumn, Relation};
use crate::translate::{Typed, bare, field};

/// A name that WITH gives to a query.
#[derive(Clone, Debug)]
pub(crate) struct CommonTable {
    name: String,
    relation: Relation,
}

impl Binder<'_> {
    /// Puts the tables of the WITH of `query` in sight; answers how many, for [`Binder::forget_ctes`].
    pub(crate) fn bind_with(
        &self,
        query: &ast::Query,
        with: &ast::With,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<usize> {
        let names: Vec<String> = with.cte_tables.iter().map(|cte| fold_ident(&cte.alias.name)).collect();
        if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            let message = format!("WITH query name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        let mut all_mentions: FxHashMap<String, usize> = FxHashMap::default();
        for_each_mention(query, &mut |name| *all_mentions.entry(name).or_default() += 1);
        for cte in in_order(with)? {
            let name = fold_ident(&cte.alias.name);
            let aliases: Vec<String> = cte.alias.columns.iter().map(|c| fold_ident(&c.name)).collect();
            let own_mentions = mentions(&*cte.query, &name);
            let recursive = with.recursive && own_mentions > 0;
            let (mut relation, uses) = self.noting_uses(|| {
                if recursive {
                    self.recursive(&name, &cte.query, &aliases, outer)
                } else {
                    Ok(self.query(&cte.query, outer)?.0)
                }
            })?;
            let reads = all_mentions.get(&name).map_or(0, |all| all - own_mentions);
            let once = match &cte.materialized {
                Some(ast::CteAsMaterialized::Materialized) => true,
                Some(ast::CteAsMaterialized::NotMaterialized) if !recursive => false,
                _ => reads > 1,
            };
            // PostgreSQL makes these once whatever is asked for.
            let once = once || reads > 0 && calls_volatile(&relation.plan);
            if once && self.recursive_terms.get() == 0 {
                relation.plan = self.made_once(&name, relation.plan, &uses)?;
            }
            rename(&mut relation, &name, &aliases)?;
            self.ctes.borrow_mut().push(CommonTable { name, relation });
        }
        Ok(with.cte_tables.len())
    }

    pub(crate) fn forget_ctes(&self, count: usize) {
        let mut ctes = self.ctes.borrow_mut();
        let keep = ctes.len() - count;
        ctes.truncate(keep);
    }

    /// A use of the common table of that name, under fresh column names.
    pub(crate) fn common_table(&self, name: &str) -> Option<SqlResult<Relation>> {
        let relation = self.ctes.borrow().iter().rev().find(|c| c.name == name)?.relation.clone();
        Some(self.rename_columns(relation))
    }

    /// The same rows under column names used nowhere else.
    pub(crate) fn rename_columns(&self, relation: Relation) -> SqlResult<Relation> {
        let mut columns = relation.columns;
        let mut exprs = Vec::with_capacity(columns.len());
        for column in &mut columns {
            let name = self.fresh();
            exprs.push(column.expr().alias(&name));
            self.shared.note_column(&name, column.ty, column.typmod);
            column.column = bare(name);
        }
        if exprs.is_empty() {
            return Ok(Relation { columns, ..relation });
        }
        let plan = LogicalPlanBuilder::from(relation.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(Relation { plan, columns, star: relation.star })
    }

    fn recursive(
        &self,
        name: &str,
        query: &ast::Query,
        aliases: &[String],
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let ast::SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right } =
            &*query.body
        else {
            return Err(SqlError::new(
                SqlState::INVALID_RECURSION,
                format!(
                    "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
                ),
            ));
        };
        if query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
            return Err(SqlError::unsupported("ORDER BY, LIMIT or FETCH in a recursive query"));
        }
        check_terms(name, left, right)?;
        let ctes = match &query.with {
            Some(with) => self.bind_with(query, with, outer)?,
            None => 0,
        };
        let distinct = !matches!(set_quantifier, ast::SetQuantifier::All);
        let base = self.finish_unknown(self.set_expr(left, outer)?.0)?;
        let base = self.rename_columns(base)?;
        // What the first rows are kept in may not hold those of later steps; only a declared scale is all steps'.
        let forms: Vec<_> = base.columns.iter().map(|c| self.shared.arrow_type(c.ty, c.typmod)).collect();
        let base = self.reshape(base, &forms)?;
        let work = self.work_table(name, &base, aliases)?;
        self.ctes.borrow_mut().push(CommonTable { name: name.to_owned(), relation: work.0 });
        self.recursive_terms.set(self.recursive_terms.get() + 1);
        let step = self.set_expr(right, outer);
        self.recursive_terms.set(self.recursive_terms.get() - 1);
        self.forget_ctes(1 + ctes);
        let mut step = self.conform(step?.0, &base, name)?;
        if distinct {
            base.columns.iter().try_for_each(|column| check_comparable(column.ty, "equality"))?;
        }
        let is_spelled = distinct && base.columns.iter().any(RelColumn::needs_key);
        // A query within another one's term may be a part of two plans, which run beside each other.
        let goes_by_keys = is_spelled && self.recursive_terms.get() == 0;
        let mut first = base.plan;
        if goes_by_keys {
            let runs = Arc::default();
            let keys = |columns: &[RelColumn]| columns.iter().map(RelColumn::key).collect();
            first = Fresh::plan(first, keys(&base.columns), &runs, true);
            step.plan = Fresh::plan(step.plan, keys(&step.columns), &runs, false);
        }
        let plan = LogicalPlanBuilder::from(first)
            .to_recursive_query(work.1, step.plan, distinct && !goes_by_keys)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let relation = Relation { plan, columns: base.columns, star: base.star };
        if is_spelled && !goes_by_keys {
            return self.distinct_rows(relation);
        }
        Ok(relation)
    }

    /// The rows of the previous step, as the recursive term sees them.
    fn work_table(&self, name: &str, base: &Relation, aliases: &[String]) -> SqlResult<(Relation, String)> {
        let fields: Vec<_> = base.columns.iter().map(|c| field(&c.column.name, &c.arrow)).collect();
        let table = format!("{name} {}", self.number());
        let provider = Arc::new(CteWorkTable::new(&table, Arc::new(Schema::new(fields))));
        let reference = datafusion::common::TableReference::bare(table.clone());
        let plan = LogicalPlanBuilder::scan(reference.clone(), provider_as_source(provider), None)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let columns = base
            .columns
            .iter()
            .map(|c| RelColumn {
                column: datafusion::common::Column::new(Some(reference.clone()), c.column.name.clone()),
                origin: (0, 0),
                ..c.clone()
            })
            .collect();
        let mut relation = Relation { plan, columns, star: base.star.clone() };
        rename(&mut relation, name, aliases)?;
        Ok((relation, table))
    }

    /// The recursive term with its columns in the forms of the non-recursive one.
    fn conform(&self, step: Relation, base: &Relation, name: &str) -> SqlResult<Relation> {
        if step.columns.len() != base.columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "each UNION query must have the same number of columns",
            ));
        }
        for (i, (s, b)) in step.columns.iter().zip(&base.columns).enumerate() {
            let is_unknown = s.ty == PgType::Unknown;
            let has_form = matches!(s.ty, PgType::Numeric | PgType::Bpchar);
            let differs = s.ty != b.ty && !is_unknown || has_form && s.typmod != b.typmod;
            if differs {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                        i + 1,
                        format_type(b.ty, b.typmod),
                        format_type(s.ty, if s.ty == b.ty { TypeMod::NONE } else { s.typmod })
                    ),
                )
                .with_hint("Cast the output of the non-recursive term to the correct type."));
            }
        }
        let targets: Vec<_> = base.columns.iter().map(|c| c.ty).collect();
        let mut step = self.cast_columns(step, &targets)?;
        let translator =
            crate::translate::Translator::new(self, step.plan.clone(), crate::relation::Level::of(&step));
        let mut exprs = Vec::new();
        for (s, b) in step.columns.iter_mut().zip(&base.columns) {
            let typed = Typed { expr: s.expr(), ty: s.ty, arrow: s.arrow.clone() };
            let expr: Expr = translator.convert(typed, &b.arrow)?.expr;
            exprs.push(expr.alias(&b.column.name));
            s.column = bare(b.column.name.clone());
            s.arrow = b.arrow.clone();
        }
        step.plan = LogicalPlanBuilder::from(step.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        Ok(step)
    }
}

/// Gives a relation its alias, and as many columns as there are aliases new names.
pub(crate) fn rename(relation: &mut Relation, table: &str, columns: &[String]) -> SqlResult<()> {
    if columns.len() > relation.star.len() {
        return Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!(
                "table \"{table}\" has {} columns available but {} columns specified",
                relation.star.len(),
                columns.len()
            ),
        ));
    }
    for column in &mut relation.columns {
        column.table = Some(table.to_owned());
        column.schema = None;
    }
    for (at, name) in relation.star.iter().zip(columns) {
        relation.columns[*at].name.clone_from(name);
    }
    Ok(())
}

/// The tables of a WITH, those that others read before these: where it is RECURSIVE each may read any, in whatever order they are written.
///
/// # Errors
/// 0A000 for some that read each other.
fn in_order(with: &ast::With) -> SqlResult<Vec<&ast::Cte>> {
    let all: Vec<&ast::Cte> = with.cte_tables.iter().collect();
    if !with.recursive {
        return Ok(all);
    }
    let places: FxHashMap<String, usize> =
        all.iter().enumerate().map(|(at, cte)| (fold_ident(&cte.alias.name), at)).collect();
    let read_by = |at: usize| {
        let mut read: Vec<usize> = Vec::new();
        for_each_mention(&*all[at].query, &mut |name| read.extend(places.get(&name)));
        read
    };
    let mut order = Vec::with_capacity(all.len());
    let mut seen = vec![false; all.len()];
    for first in 0..all.len() {
        // With what each still has to be looked at for; one that is met again is on its way, or done.
        let mut waiting = Vec::new();
        if !std::mem::replace(&mut seen[first], true) {
            waiting.push((first, read_by(first)));
        }
        while let Some((at, read)) = waiting.last_mut() {
            let (at, next) = (*at, read.pop());
            match next {
                Some(other) if !std::mem::replace(&mut seen[other], true) => {
                    waiting.push((other, read_by(other)));
                }
                Some(other) if other != at && is_read_through(&all, &waiting, other) => {
                    let message = "mutual recursion between WITH items is not implemented";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                Some(_) => {}
                None => {
                    order.push(all[at]);
                    waiting.pop();
                }
            }
        }
    }
    Ok(order)
}

/// Whether those that are on their way from the table `first` on read each other, the last one `first`: not where a WITH within one of them has what it reads.
fn is_read_through(all: &[&ast::Cte], waiting: &[(usize, Vec<usize>)], first: usize) -> bool {
    let Some(start) = waiting.iter().position(|(at, _)| *at == first) else { return false };
    let circle: Vec<usize> = waiting[start..].iter().map(|(at, _)| *at).collect();
    let read = circle.iter().skip(1).chain([&first]);
    circle.iter().zip(read).all(|(by, read)| !has_own(&all[*by].query, &fold_ident(&all[*read].alias.name)))
}

/// Whether a WITH in `query` has a table of that name.
fn has_own(query: &ast::Query, name: &str) -> bool {
    query.visit(&mut OwnTable { name }).is_break()
}

/// Ends at a WITH that has a table of that name.
struct OwnTable<'n> {
    name: &'n str,
}

impl ast::Visitor for OwnTable<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
        match tables.any(|cte| fold_ident(&cte.alias.name) == self.name) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// How often a relation of that name is read in `tree`.
pub(crate) fn mentions(tree: &impl ast::Visit, name: &str) -> usize {
    let mut found = 0;
    for_each_mention(tree, &mut |mentioned| found += usize::from(mentioned == name));
    found
}

/// Says the name of each relation that is read in `tree` and may be a common table's.
fn for_each_mention(tree: &impl ast::Visit, say: &mut dyn FnMut(String)) {
    let _ = ast::visit_relations(tree, |relation| {
        if let [ast::ObjectNamePart::Identifier(ident)] = &relation.0[..] {
            say(fold_ident(ident));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Whether reading the plan twice may answer differently. What reads an outer column does so for each of its values only.
pub(crate) fn calls_volatile(plan: &LogicalPlan) -> bool {
    let volatile = |expr: &Expr| {
        let Expr::ScalarFunction(call) = expr else { return false };
        let inner: &dyn std::any::Any = call.func.inner().as_ref();
        call.func.signature().volatility == Volatility::Volatile && !inner.is::<ReadCell>()
    };
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        found |= node.expressions().iter().any(|expr| expr.exists(|e| Ok(volatile(e))).unwrap_or(true));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || walked.is_err()
}
