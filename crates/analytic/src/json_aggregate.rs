//! Aggregates that build JSON, and whole rows as JSON, spelled in what the point path's binder knows: `string_agg` over `to_json` of the values, whose state
//! is accounted for and put aside as that of any aggregate.

use std::ops::ControlFlow;

use base::{SqlError, SqlResult, SqlState};
use sql::expr::{Aggregates, bind_expr, fold_ident};
use sqlparser::ast;

use crate::binder::Binder;
use crate::prepare::Place;
use crate::relation::RelColumn;

/// Stand for the arguments in the templates below.
const HOLES: [&str; 2] = ["\u{2}0", "\u{2}1"];

/// What a function is spelled as.
pub(crate) struct Spelled {
    pub(crate) expr: ast::Expr,
    /// The aggregate within, as it is called there, to which OVER, FILTER, DISTINCT and ORDER BY belong.
    aggregate: Option<&'static str>,
}

/// What is made JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Plain,
    Arrays,
    /// Whole rows.
    Rows,
}

/// How `name` of so many arguments is spelled, and the aggregate within.
fn template(
    name: &str,
    args: usize,
    distinct: bool,
    values: Values,
) -> Option<(&'static str, Option<&'static str>)> {
    const JSON: &str =
        "CAST('[' || string_agg(coalesce(CAST(to_json(\"\u{2}0\") AS text), 'null'), ', ') || ']' AS json)";
    // PostgreSQL begins a line for a row or an array that is no NULL and not the first.
    const LINES: &str = "CAST('[' || ltrim(string_agg(coalesce(chr(10) || ' ' || CAST(to_json(\"\u{2}0\") AS text), 'null'), ', '), chr(10) || ' ') || ']' AS json)";
    const JSONB: &str =
        "CAST('[' || string_agg(coalesce(CAST(to_jsonb(\"\u{2}0\") AS text), 'null'), ',') || ']' AS jsonb)";
    const PAIRS: &str = "CAST('{ ' || string_agg(right(left(CAST(json_build_object(\"\u{2}0\", \"\u{2}1\") AS text), -1), -1), ', ') || ' }' AS json)";
    const PAIRS_B: &str = "CAST('{' || string_agg(right(left(CAST(jsonb_build_object(\"\u{2}0\", \"\u{2}1\") AS text), -1), -1), ',') || '}' AS jsonb)";
    let joined = Some("string_agg");
    Some(match (name, args) {
        ("json_agg", 1) if values != Values::Plain => (LINES, joined),
        ("json_agg", 1) => (JSON, joined),
        ("jsonb_agg", 1) if distinct => ("to_jsonb(array_agg(\"\u{2}0\"))", Some("array_agg")),
        ("jsonb_agg", 1) => (JSONB, joined),
        ("json_object_agg", 2) => (PAIRS, joined),
        ("jsonb_object_agg", 2) => (PAIRS_B, joined),
        ("row_to_json" | "to_json" | "to_jsonb", 1) if values == Values::Rows => ("\"\u{2}0\"", None),
        _ => return None,
    })
}

/// Functions that take whole rows.
fn takes_rows(name: &str) -> Option<&'static str> {
    Some(match name {
        "row_to_json" | "to_json" | "json_agg" | "json_build_object" | "json_build_array"
        | "json_object_agg" => "json",
        "to_jsonb" | "jsonb_agg" | "jsonb_build_object" | "jsonb_build_array" | "jsonb_object_agg" => "jsonb",
        _ => return None,
    })
}

impl Binder<'_> {
    /// Spells `function`, whose name is `name`, in what the binder knows; `None` where it knows it as it is. Whole rows among its arguments become JSON.
    pub(crate) fn spell_json(
        &self,
        function: &mut ast::Function,
        name: &str,
        place: &Place<'_>,
    ) -> SqlResult<Option<Spelled>> {
        let ast::FunctionArguments::List(list) = &mut function.args else { return Ok(None) };
        if name == "count" {
            self.count_rows(list, place)?;
            return Ok(None);
        }
        let Some(form) = takes_rows(name) else { return Ok(None) };
        let mut args = Vec::with_capacity(list.args.len());
        let mut values = Values::Plain;
        for arg in &mut list.args {
            let ast::FunctionArg::Unnamed(arg) = arg else { return Ok(None) };
            if let ast::FunctionArgExpr::QualifiedWildcard(ast::ObjectName(parts)) = arg
                && let [ast::ObjectNamePart::Identifier(table)] = &parts[..]
            {
                *arg = ast::FunctionArgExpr::Expr(ast::Expr::Identifier(table.clone()));
            }
            let ast::FunctionArgExpr::Expr(arg) = arg else { return Ok(None) };
            if let Some(row) = self.whole_row(arg, form, place)? {
                *arg = row;
                values = Values::Rows;
            } else if name == "json_agg" || matches!(arg, ast::Expr::Identifier(_)) {
                let bound = bind_expr(arg, &place.scope(), &self.context(Aggregates::Allowed))?;
                if name == "json_agg" && bound.ty.element().is_some() {
                    values = Values::Arrays;
                }
            }
            args.push(arg.clone());
        }
        let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        let Some((text, aggregate)) = template(name, args.len(), distinct, values) else { return Ok(None) };
        if distinct && aggregate == Some("string_agg") {
            return Err(SqlError::unsupported(format!("DISTINCT in {name}")));
        }
        let mut expr = sql::parse::parse_expression(text)?;
        fill(&mut expr, &args);
        Ok(Some(Spelled { expr, aggregate }))
    }

    /// The row of a table in sight as JSON, if `arg` is the table's name and no column's.
    fn whole_row(&self, arg: &ast::Expr, form: &str, place: &Place<'_>) -> SqlResult<Option<ast::Expr>> {
        let ast::Expr::Identifier(ident) = arg else { return Ok(None) };
        let Some(name) = table_in_sight(ident, place) else { return Ok(None) };
        let columns = starred(&name, place);
        let parts = columns.iter().enumerate().map(|(i, column)| {
            let key = serde_json::Value::String(column.name.clone()).to_string();
            let before = if i == 0 { "{" } else { "," };
            let opening = format!("{before}{key}:").replace('\'', "''");
            let column = quoted(&[&name, &column.name]);
            format!("'{opening}' || coalesce(CAST(to_{form}({column}) AS text), 'null') || ")
        });
        let text = match columns[..] {
            [] => format!("CAST('{{}}' AS {form})"),
            _ => format!("CAST({}'}}' AS {form})", parts.collect::<String>()),
        };
        let Some(never_null) = self.never_null(&name, place)? else {
            return sql::parse::parse_expression(&text).map(Some);
        };
        sql::parse::parse_expression(&format!("CASE WHEN {never_null} IS NOT NULL THEN {text} END")).map(Some)
    }

    /// Counts rows of a table in sight: what is NULL of one that an outer join made up.
    fn count_rows(&self, list: &mut ast::FunctionArgumentList, place: &Place<'_>) -> SqlResult<()> {
        use ast::FunctionArgExpr as Arg;
        let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        let [ast::FunctionArg::Unnamed(arg)] = &mut list.args[..] else { return Ok(()) };
        let name = match arg {
            Arg::QualifiedWildcard(ast::ObjectName(parts)) => match &parts[..] {
                [ast::ObjectNamePart::Identifier(table)] => {
                    Some(fold_ident(table)).filter(|name| place.level.has_table(name))
                }
                _ => None,
            },
            Arg::Expr(ast::Expr::Identifier(ident)) => table_in_sight(ident, place),
            _ => None,
        };
        let Some(name) = name.filter(|_| !distinct) else { return Ok(()) };
        *arg = match self.never_null(&name, place)? {
            Some(column) => Arg::Expr(sql::parse::parse_expression(&column)?),
            None => Arg::Wildcard,
        };
        Ok(())
    }

    /// A column that is NULL in no row of a table but those that an outer join made up, if it makes any.
    fn never_null(&self, name: &str, place: &Place<'_>) -> SqlResult<Option<String>> {
        let outer_joined = self.outer_joined.borrow();
        if !starred(name, place).iter().any(|column| outer_joined.contains(&column.column)) {
            return Ok(None);
        }
        // One of a table that has only NULLs is a row all the same.
        // What a subquery hands on may be NULL of its own accord.
        let is_scanned = |column: &&RelColumn| column.column.relation.is_some();
        let mut of_table = place
            .level
            .columns
            .iter()
            .filter(|column| column.table.as_deref() == Some(name))
            .filter(is_scanned);
        let never_null = of_table.find(|column| {
            let table = self.shared.catalog.table(base::Oid(column.origin.0));
            let at = usize::try_from(column.origin.1 - 1).ok();
            table.zip(at).and_then(|(table, at)| table.columns.get(at)).is_some_and(|column| column.not_null)
        });
        let never_null = never_null.ok_or_else(|| {
            let message =
                format!("the row of \"{name}\" behind an outer join, without a column that is NOT NULL");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        })?;
        Ok(Some(quoted(&[name, &never_null.name])))
    }
}

/// The name of a table in sight, if `ident` is that and no column's.
fn table_in_sight(ident: &ast::Ident, place: &Place<'_>) -> Option<String> {
    let (name, level) = (fold_ident(ident), &place.level);
    let is_column = level.columns.iter().any(|column| column.bare && column.name == name);
    (level.has_table(&name) && !is_column).then_some(name)
}

fn starred<'x>(name: &str, place: &'x Place<'_>) -> Vec<&'x RelColumn> {
    let of_table = |column: &&RelColumn| column.starred && column.table.as_deref() == Some(name);
    place.level.columns.iter().filter(of_table).collect()
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    names.join(".")
}

fn fill(expr: &mut ast::Expr, args: &[ast::Expr]) {
    let _ = ast::visit_expressions_mut(expr, |expr| {
        if let ast::Expr::Identifier(ident) = expr
            && let Some(at) = HOLES.iter().position(|hole| *hole == ident.value)
        {
            *expr = ast::Expr::Nested(Box::new(args[at].clone()));
        }
        ControlFlow::<()>::Continue(())
    });
}

impl Spelled {
    /// Lets `change` make something else of the aggregate within, once it has what belongs to the one that was written.
    pub(crate) fn with_aggregate(
        mut self,
        written: &ast::Function,
        mut change: impl FnMut(&mut ast::Function) -> SqlResult<Option<ast::Expr>>,
    ) -> SqlResult<ast::Expr> {
        let Some(aggregate) = self.aggregate else { return Ok(self.expr) };
        let mut done = Ok(());
        let mut found = false;
        let _ = ast::visit_expressions_mut(&mut self.expr, |expr| {
            let ast::Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            if found
                || !matches!(&function.name.0[..], [ast::ObjectNamePart::Identifier(name)] if name.value == aggregate)
            {
                return ControlFlow::Continue(());
            }
            found = true;
            function.filter.clone_from(&written.filter);
            if let (ast::FunctionArguments::List(to), ast::FunctionArguments::List(from)) =
                (&mut function.args, &written.args)
            {
                to.clauses.clone_from(&from.clauses);
                to.duplicate_treatment = from.duplicate_treatment;
            }
            match change(function) {
                Ok(None) => {}
                Ok(Some(new)) => *expr = new,
                Err(error) => done = Err(error),
            }
            ControlFlow::<()>::Continue(())
        });
        done.map(|()| self.expr)
    }
}
