//! The select list of a view as it is kept: every column by the name that the view gives it, and `*` as the columns that it stands for,
//! so that the text alone makes the same view again.

use base::{SqlError, SqlResult};
use sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, TableFactor};
use tenant::catalog::{Relation, ViewColumn};
use types::quote_ident;

use super::names::Names;
use crate::expr::{fold_ident, output_name};
use crate::parse::parse_query;
use crate::session::Field;
use crate::system::{FoundRelation, find_relation};

/// The view's query with the names of its columns; `fields`: what the query calls them; `are_given`: by a list in CREATE VIEW.
///
/// # Errors
/// 0A000 for a `*` whose columns have no names that are told apart.
pub(super) fn named(
    query: &ast::Query,
    names: &Names,
    view: &str,
    columns: &[ViewColumn],
    fields: &[Field],
    are_given: bool,
) -> SqlResult<ast::Query> {
    let mut kept = query.clone();
    let is_told = without_stars(&mut kept, names, &mut Vec::new());
    let has_order = kept.order_by.is_some();
    let Some(select) = first_select(&mut kept.body) else {
        return Ok(if are_given { renamed(&kept, view, columns) } else { kept });
    };
    if !is_told
        && let [SelectItem::Wildcard(_)] = select.projection.as_slice()
        && (1..fields.len()).all(|i| fields[..i].iter().all(|field| field.name != fields[i].name))
    {
        let item = |field: &Field| SelectItem::UnnamedExpr(Expr::Identifier(ident(&field.name)));
        select.projection = fields.iter().map(item).collect();
    } else if !is_told && select.projection.iter().any(is_star) {
        return Err(SqlError::unsupported("a view of * over a join, a subquery or a function"));
    }
    let shown: Vec<String> = select.projection.iter().filter_map(shown_name).collect();
    if shown.len() != select.projection.len() || shown.len() != columns.len() {
        return Ok(if are_given { renamed(&kept, view, columns) } else { kept });
    }
    let is_same = shown.iter().zip(columns).all(|(shown, column)| *shown == column.name);
    // Behind other names of the select list, ORDER BY and GROUP BY would find others.
    let grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !is_same && (has_order || grouped || matches!(select.distinct, Some(ast::Distinct::On(_)))) {
        return Ok(renamed(&kept, view, columns));
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
    Ok(kept)
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

fn is_star(item: &SelectItem) -> bool {
    shown_name(item).is_none()
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

/// A common table in sight, and its columns if they can be told.
type Common = (String, Option<Vec<String>>);

/// A column that `*` stands for, and the relation that it is of; `None` for one that a join puts together.
type Starred = (Option<String>, String);

/// A relation in FROM.
struct Source {
    name: String,
    /// `None` where they cannot be told.
    columns: Option<Vec<String>>,
    /// A function or one of the server's own: its columns stay what they are.
    is_fixed: bool,
}

/// What stands in FROM.
struct From {
    sources: Vec<Source>,
    starred: Option<Vec<Starred>>,
    /// Some join puts columns together.
    merges: bool,
}

impl From {
    fn of(source: Source) -> From {
        let starred = source.columns.as_ref().map(|columns| {
            columns.iter().map(|column| (Some(source.name.clone()), column.clone())).collect()
        });
        From { sources: vec![source], starred, merges: false }
    }

    /// Both side by side.
    fn and(mut self, other: From) -> From {
        self.sources.extend(other.sources);
        self.merges |= other.merges;
        self.starred = self.starred.zip(other.starred).map(|(mut all, more)| {
            all.extend(more);
            all
        });
        self
    }
}

/// Puts columns in the place of each `*` of a query, and of those in its common tables and in FROM; false where the columns that it shows may
/// become others.
fn without_stars(query: &mut ast::Query, names: &Names, commons: &mut Vec<Common>) -> bool {
    let outer = commons.len();
    for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        without_stars(&mut cte.query, names, commons);
        let columns = called(shown_columns(&cte.query), &cte.alias.columns);
        commons.push((fold_ident(&cte.alias.name), columns));
    }
    let is_told = body_without_stars(&mut query.body, names, commons);
    commons.truncate(outer);
    is_told
}

fn body_without_stars(body: &mut SetExpr, names: &Names, commons: &mut Vec<Common>) -> bool {
    match body {
        SetExpr::Query(query) => without_stars(query, names, commons),
        SetExpr::SetOperation { left, right, .. } => {
            let is_told = body_without_stars(left, names, commons);
            body_without_stars(right, names, commons);
            is_told
        }
        SetExpr::Select(select) => {
            let mut from = From { sources: Vec::new(), starred: Some(Vec::new()), merges: false };
            for item in &mut select.from {
                from = from.and(joined(item, names, commons));
            }
            let Some(projection) = expanded(&select.projection, &from) else { return false };
            select.projection = projection;
            true
        }
        _ => true,
    }
}

/// The names of a query's columns, if all are told and told apart.
fn shown_columns(query: &ast::Query) -> Option<Vec<String>> {
    let mut body = &*query.body;
    let select = loop {
        match body {
            SetExpr::Select(select) => break select,
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(query) => body = &query.body,
            _ => return None,
        }
    };
    select.projection.iter().map(shown_name).collect()
}

/// The columns under the names that an alias gives them, if they are told apart.
fn called(columns: Option<Vec<String>>, given: &[ast::TableAliasColumnDef]) -> Option<Vec<String>> {
    let mut columns = columns?;
    for (column, new) in columns.iter_mut().zip(given) {
        *column = fold_ident(&new.name);
    }
    let is_one = |i: usize| !columns[..i].contains(&columns[i]);
    (0..columns.len()).all(is_one).then_some(columns)
}

/// One item of FROM. NATURAL becomes USING, so that it goes on joining by the same.
fn joined(item: &mut ast::TableWithJoins, names: &Names, commons: &mut Vec<Common>) -> From {
    use ast::JoinConstraint as C;
    use ast::JoinOperator as J;
    let mut from = relation(&mut item.relation, names, commons);
    for join in &mut item.joins {
        let right = relation(&mut join.relation, names, commons);
        let (J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)
        | J::CrossJoin(constraint)) = &mut join.join_operator
        else {
            from = from.and(right);
            (from.starred, from.merges) = (None, true);
            continue;
        };
        if matches!(constraint, C::Natural)
            && let (Some(left), Some(right)) = (&from.starred, &right.starred)
        {
            let is_common = |(_, name): &&Starred| right.iter().any(|(_, other)| other == name);
            let using = |(_, name): &Starred| ast::ObjectName::from(vec![ident(name)]);
            let common: Vec<ast::ObjectName> = left.iter().filter(is_common).map(using).collect();
            *constraint = match common.is_empty() {
                true => C::On(Expr::value(ast::Value::Boolean(true))),
                false => C::Using(common),
            };
        }
        let merged: Option<Vec<String>> = match constraint {
            C::On(_) | C::None => Some(Vec::new()),
            C::Using(names) => names.iter().map(|name| name.0.last()?.as_ident().map(fold_ident)).collect(),
            C::Natural => None,
        };
        from = from.and(right);
        from.merges |= merged.as_ref().is_none_or(|merged| !merged.is_empty());
        from.starred = from.starred.zip(merged).map(|(columns, merged)| {
            let together = merged.iter().map(|name| (None, name.clone()));
            together.chain(columns.into_iter().filter(|(_, name)| !merged.contains(name))).collect()
        });
    }
    from
}

/// The select list with columns in the place of each `*`, but of those whose columns stay what they are.
fn expanded(projection: &[SelectItem], from: &From) -> Option<Vec<SelectItem>> {
    let of = |relation: &str, column: &String| {
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![ident(relation), ident(column)]))
    };
    let mut items = Vec::with_capacity(projection.len());
    for item in projection {
        match item {
            SelectItem::Wildcard(_) if from.sources.iter().all(|source| source.is_fixed) => {
                items.push(item.clone())
            }
            SelectItem::Wildcard(options) if from.starred.is_none() && !from.merges => {
                for (at, source) in from.sources.iter().enumerate() {
                    let is_named = |other: &Source| other.name == source.name;
                    if source.name.is_empty() || from.sources[..at].iter().any(is_named) {
                        return None;
                    }
                    match &source.columns {
                        Some(columns) => items.extend(columns.iter().map(|column| of(&source.name, column))),
                        None if source.is_fixed => {
                            let name = ast::ObjectName::from(vec![ident(&source.name)]);
                            let kind = ast::SelectItemQualifiedWildcardKind::ObjectName(name);
                            items.push(SelectItem::QualifiedWildcard(kind, options.clone()));
                        }
                        None => return None,
                    }
                }
            }
            SelectItem::Wildcard(_) => {
                let starred = from.starred.as_ref()?;
                for (at, (relation, name)) in starred.iter().enumerate() {
                    let hides = |(other, column): &Starred| {
                        column == name && (relation.is_none() || other.is_none() || other == relation)
                    };
                    if starred[..at].iter().any(hides) {
                        return None;
                    }
                    items.push(match relation {
                        Some(relation) => of(relation, name),
                        None => SelectItem::UnnamedExpr(Expr::Identifier(ident(name))),
                    });
                }
            }
            SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
                let name = fold_ident(name);
                let mut named = from.sources.iter().filter(|source| source.name == name);
                let (Some(source), None) = (named.next(), named.next()) else { return None };
                match &source.columns {
                    Some(columns) => items.extend(columns.iter().map(|column| of(&name, column))),
                    None if source.is_fixed => items.push(item.clone()),
                    None => return None,
                }
            }
            item if is_star(item) => return None,
            item => items.push(item.clone()),
        }
    }
    Some(items)
}

/// What one of the relations in FROM is called, and its columns.
fn relation(factor: &mut TableFactor, names: &Names, commons: &mut Vec<Common>) -> From {
    let (name, columns, is_fixed, alias) = match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return joined(table_with_joins, names, commons);
        }
        TableFactor::Derived { subquery, alias, .. } => {
            without_stars(subquery, names, commons);
            (String::new(), shown_columns(subquery), false, alias.as_ref())
        }
        TableFactor::Table { name, alias, args: None, .. } => {
            let parts: Vec<String> =
                name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect();
            let schema = parts.len().checked_sub(2).map(|at| parts[at].as_str());
            let own = parts.last().cloned().unwrap_or_default();
            let common = commons.iter().rev().find(|(name, _)| schema.is_none() && *name == own);
            let found = find_relation(&names.catalog, schema, &own, &names.path);
            let (columns, is_fixed) = match (common, found) {
                (Some((_, columns)), _) => (columns.clone(), false),
                (None, Some(FoundRelation::Own(Relation::Table(table)))) => {
                    let columns = table.live_columns().map(|(_, column)| column.name.to_string()).collect();
                    (Some(columns), false)
                }
                (None, Some(FoundRelation::Own(Relation::View(view)))) => {
                    (Some(view.columns.iter().map(|column| column.name.to_string()).collect()), false)
                }
                (None, _) => (None, true),
            };
            (own, columns, is_fixed, alias.as_ref())
        }
        TableFactor::Table { name, alias, args: Some(_), .. } => {
            let own = name.0.last().and_then(|part| part.as_ident()).map(fold_ident);
            (own.unwrap_or_default(), None, true, alias.as_ref())
        }
        TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::TableFunction { alias, .. } => (String::new(), None, true, alias.as_ref()),
        _ => (String::new(), None, false, None),
    };
    let given = alias.map_or(&[][..], |alias| &alias.columns);
    let name = alias.map_or(name, |alias| fold_ident(&alias.name));
    From::of(Source { name, columns: called(columns, given), is_fixed })
}

/// A name, quoted where it has to be.
fn ident(name: &str) -> Ident {
    match quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}
