//! The primary keys that a view's GROUP BY needs: those that let it show other columns of their tables.
//!
//! Told by names, as a view's other dependencies are: a name that only looks like a column's may bind a view to a key that it could
//! do without, never the other way round.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::Oid;
use rustc_hash::{FxHashMap, FxHashSet};
use sqlparser::ast::{self, Expr, Visit, Visitor};
use tenant::catalog::{Relation, Table};

use super::names::Names;
use crate::expr::{fold_ident, is_aggregate};
use crate::system::{FoundRelation, find_relation};

/// The indexes of those primary keys.
pub(super) fn grouped_keys(query: &ast::Query, names: &Names) -> Vec<Oid> {
    let mut found = Found { names, keys: Vec::new() };
    let _ = query.visit(&mut found);
    found.keys
}

struct Found<'n> {
    names: &'n Names,
    keys: Vec<Oid>,
}

impl Visitor for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.body(&query.body, query.order_by.as_ref());
        ControlFlow::Continue(())
    }
}

impl Found<'_> {
    fn body(&mut self, body: &ast::SetExpr, order_by: Option<&ast::OrderBy>) {
        match body {
            ast::SetExpr::Select(select) => self.select(select, order_by),
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.body(left, None);
                self.body(right, None);
            }
            _ => {}
        }
    }

    fn select(&mut self, select: &ast::Select, order_by: Option<&ast::OrderBy>) {
        let ast::GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
        let mut grouped = Columns::default();
        for key in keys {
            grouped.note(item_of(select, key).unwrap_or(key));
        }
        if grouped.names.is_empty() {
            return;
        }
        let mut shown = Columns::default();
        let _ = select.projection.visit(&mut shown);
        let _ = select.having.visit(&mut shown);
        if let Some(order_by) = order_by {
            let _ = order_by.visit(&mut shown);
        }
        let wildcard = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        let all = select.projection.iter().any(wildcard);
        for item in &select.from {
            self.factor(&item.relation, &grouped, &shown, all);
            item.joins.iter().for_each(|join| self.factor(&join.relation, &grouped, &shown, all));
        }
    }

    fn factor(&mut self, factor: &ast::TableFactor, grouped: &Columns, shown: &Columns, all: bool) {
        match factor {
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let parts: Vec<String> = name.0.iter().filter_map(|p| p.as_ident()).map(fold_ident).collect();
                let (schema, own) = match parts.as_slice() {
                    [own] => (None, own),
                    [schema, own] => (Some(schema.as_str()), own),
                    _ => return,
                };
                let called = alias.as_ref().map_or_else(|| own.clone(), |alias| fold_ident(&alias.name));
                let found = find_relation(&self.names.catalog, schema, own, &self.names.path);
                if let Some(FoundRelation::Own(Relation::Table(table))) = found {
                    self.table(table, &called, grouped, shown, all);
                }
            }
            ast::TableFactor::NestedJoin { table_with_joins, .. } => {
                self.factor(&table_with_joins.relation, grouped, shown, all);
                for join in &table_with_joins.joins {
                    self.factor(&join.relation, grouped, shown, all);
                }
            }
            _ => {}
        }
    }

    fn table(&mut self, table: &Arc<Table>, called: &str, grouped: &Columns, shown: &Columns, all: bool) {
        let Some(key) = table.primary_index() else { return };
        let is_grouped = |column: &str| grouped.has(called, column);
        let has_key = key.column_positions().all(|at| is_grouped(&table.columns[at].name));
        let shows_other = table
            .live_columns()
            .any(|(_, column)| !is_grouped(&column.name) && (all || shown.has(called, &column.name)));
        if has_key && shows_other && !self.keys.contains(&key.oid) {
            self.keys.push(key.oid);
        }
    }
}

/// The select list's item that `GROUP BY 1` stands for.
fn item_of<'s>(select: &'s ast::Select, key: &Expr) -> Option<&'s Expr> {
    let Expr::Value(value) = key else { return None };
    let ast::Value::Number(number, _) = &value.value else { return None };
    match select.projection.get(number.parse::<usize>().ok()?.checked_sub(1)?)? {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Columns that are named outside of aggregates, each with the relation's name if that is given.
#[derive(Default)]
struct Columns {
    names: FxHashMap<String, FxHashSet<Option<String>>>,
    /// Aggregates around the place of the walk.
    aggregates: usize,
}

impl Columns {
    /// A column that is a key by itself.
    fn note(&mut self, expr: &Expr) {
        match expr {
            Expr::Identifier(ident) => self.add(None, fold_ident(ident)),
            Expr::CompoundIdentifier(parts) => {
                let mut parts = parts.iter().rev().map(fold_ident);
                if let Some(column) = parts.next() {
                    self.add(parts.next(), column);
                }
            }
            Expr::Nested(inner) => self.note(inner),
            _ => {}
        }
    }

    fn add(&mut self, qualifier: Option<String>, column: String) {
        self.names.entry(column).or_default().insert(qualifier);
    }

    fn has(&self, relation: &str, column: &str) -> bool {
        self.names.get(column).is_some_and(|qualifiers| {
            qualifiers.contains(&None) || qualifiers.contains(&Some(relation.to_owned()))
        })
    }
}

impl Visitor for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates += usize::from(aggregates(expr));
        if self.aggregates == 0 && !matches!(expr, Expr::Nested(_)) {
            self.note(expr);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates -= usize::from(aggregates(expr));
        ControlFlow::Continue(())
    }
}

fn aggregates(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(|part| part.as_ident());
    function.over.is_none() && name.is_some_and(|name| is_aggregate(&fold_ident(name)))
}
