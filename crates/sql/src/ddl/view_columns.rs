//! The select list of a view as it is kept: every column by the name that the view gives it, and `*` as the columns that it stands for,
//! so that the text alone makes the same view again.

use sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, TableFactor};
use tenant::catalog::{Relation, ViewColumn};
use types::quote_ident;

use super::names::Names;
use crate::expr::{fold_ident, output_name};
use crate::parse::parse_query;

/// The view's query with the names of its columns; `are_given`: by a list in CREATE VIEW. A `*` over what has no columns in the catalog
/// stays.
pub(super) fn named(
    query: &ast::Query,
    names: &Names,
    view: &str,
    columns: &[ViewColumn],
    are_given: bool,
) -> ast::Query {
    let mut kept = query.clone();
    read_table(&mut kept);
    let query = &kept.clone();
    let has_order = kept.order_by.is_some();
    let commons: Vec<String> =
        kept.with.iter().flat_map(|with| &with.cte_tables).map(|cte| fold_ident(&cte.alias.name)).collect();
    let Some(select) = first_select(&mut kept.body) else {
        return if are_given { renamed(query, view, columns) } else { kept };
    };
    if let Some(projection) = without_stars(select, names, &commons)
        && projection.len() == columns.len()
    {
        select.projection = projection;
    }
    let shown: Vec<String> = select.projection.iter().filter_map(shown_name).collect();
    if shown.len() != select.projection.len() || shown.len() != columns.len() {
        return if are_given { renamed(query, view, columns) } else { query.clone() };
    }
    let is_same = shown.iter().zip(columns).all(|(shown, column)| *shown == column.name);
    // Behind other names of the select list, ORDER BY and GROUP BY would find others.
    let grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !is_same && (has_order || grouped || matches!(select.distinct, Some(ast::Distinct::On(_)))) {
        return renamed(query, view, columns);
    }
    for (item, column) in select.projection.iter_mut().zip(columns) {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if is_column && output_name(expr) == column.name {
            *item = SelectItem::UnnamedExpr(expr.clone());
        } else {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: ident(&column.name) };
        }
    }
    kept
}

/// `TABLE t` as the SELECT that it is short for.
fn read_table(query: &mut ast::Query) {
    let SetExpr::Table(table) = &*query.body else { return };
    let parts = table.schema_name.iter().chain(&table.table_name);
    let name = parts.map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
    if let Ok(mut select) = parse_query("SELECT * FROM t")
        && let SetExpr::Select(body) = &mut *select.body
        && let Some(TableFactor::Table { name: read, .. }) =
            body.from.first_mut().map(|from| &mut from.relation)
    {
        *read = ast::ObjectName::from(name);
        query.body = select.body;
    }
}

/// The SELECT that names the columns.
fn first_select(body: &mut SetExpr) -> Option<&mut ast::Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn shown_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::QualifiedWildcard(..)) => None,
        SelectItem::UnnamedExpr(expr) => Some(output_name(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold_ident(alias)),
        _ => None,
    }
}

/// The query within one that names its columns.
fn renamed(query: &ast::Query, view: &str, columns: &[ViewColumn]) -> ast::Query {
    let Ok(mut around) = parse_query("SELECT 1 FROM (SELECT 1) AS v") else { return query.clone() };
    let SetExpr::Select(select) = &mut *around.body else { return query.clone() };
    let of_view = |column: &ViewColumn| Expr::CompoundIdentifier(vec![ident(view), ident(&column.name)]);
    select.projection = columns.iter().map(|column| SelectItem::UnnamedExpr(of_view(column))).collect();
    for from in &mut select.from {
        if let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut from.relation {
            **subquery = query.clone();
            alias.name = ident(view);
            let column = |column: &ViewColumn| ast::TableAliasColumnDef::from_name(column.name.as_str());
            alias.columns = columns.iter().map(column).collect();
            for (def, column) in alias.columns.iter_mut().zip(columns) {
                def.name = ident(&column.name);
            }
        }
    }
    around
}

/// The select list with columns in the place of each `*`; `None` where they cannot be told from the catalog alone.
fn without_stars(select: &ast::Select, names: &Names, commons: &[String]) -> Option<Vec<SelectItem>> {
    let is_star = |item: &SelectItem| shown_name(item).is_none();
    if !select.projection.iter().any(is_star) {
        return None;
    }
    let mut relations: Vec<(String, Vec<String>)> = Vec::new();
    for from in &select.from {
        relations.push(columns_of(&from.relation, names, commons)?);
        for join in &from.joins {
            use ast::JoinOperator as J;
            // USING and NATURAL put columns together.
            let (J::Join(constraint)
            | J::Inner(constraint)
            | J::Left(constraint)
            | J::LeftOuter(constraint)
            | J::Right(constraint)
            | J::RightOuter(constraint)
            | J::FullOuter(constraint)
            | J::CrossJoin(constraint)) = &join.join_operator
            else {
                return None;
            };
            if !matches!(constraint, ast::JoinConstraint::On(_) | ast::JoinConstraint::None) {
                return None;
            }
            relations.push(columns_of(&join.relation, names, commons)?);
        }
    }
    let repeats = |i: usize| relations[..i].iter().any(|(name, _)| *name == relations[i].0);
    if (0..relations.len()).any(repeats) {
        return None;
    }
    let all = |wanted: Option<&str>| {
        let fits = |name: &str| wanted.is_none_or(|wanted| wanted == name);
        let of = |(name, columns): &(String, Vec<String>)| -> Vec<SelectItem> {
            let parts = |column: &String| vec![ident(name), ident(column)];
            columns.iter().map(|c| SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts(c)))).collect()
        };
        relations.iter().filter(|(name, _)| fits(name)).flat_map(of).collect::<Vec<_>>()
    };
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) => items.extend(all(None)),
            SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
                items.extend(all(Some(&fold_ident(name))));
            }
            item if is_star(item) => return None,
            item => items.push(item.clone()),
        }
    }
    Some(items)
}

/// What a table or view in FROM is called, and its columns.
fn columns_of(factor: &TableFactor, names: &Names, commons: &[String]) -> Option<(String, Vec<String>)> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
    let (schema, own) = match parts.as_slice() {
        [own] if commons.contains(own) => return None,
        [own] => (None, own),
        [schema, own] => (Some(schema.as_str()), own),
        _ => return None,
    };
    let mut columns: Vec<String> = match names.catalog.find_relation(schema, own, &names.path)? {
        Relation::Table(table) => table.live_columns().map(|(_, column)| column.name.to_string()).collect(),
        Relation::View(view) => view.columns.iter().map(|column| column.name.to_string()).collect(),
        _ => return None,
    };
    let Some(alias) = alias else { return Some((own.clone(), columns)) };
    for (column, new) in columns.iter_mut().zip(&alias.columns) {
        *column = fold_ident(&new.name);
    }
    Some((fold_ident(&alias.name), columns))
}

/// A name, quoted where it has to be.
fn ident(name: &str) -> Ident {
    match quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}
