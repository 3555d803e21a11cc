//! The texts that a catalog keeps: views, defaults, checks. Here their names are written anew, so that another search path
//! finds the same objects by them.
//!
//! They are kept with every name qualified, but for functions of extensions, which need no schema. A view has its search path beside it: the names of
//! one that was made by an earlier version are searched there.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::Oid;
use sqlparser::ast::{self, Expr, Ident, ObjectName, ObjectNamePart, Visit, VisitMut, VisitorMut};
use tenant::catalog::{Catalog, PG_CATALOG, ViewDefinition};
use types::{CatalogNames, ElementType, FormatContext, PgType};

use crate::expr::{BindContext, ParamTypes, bind_type, extension_of, fold_ident};
use crate::parse::{parse_expression, parse_query, spell_out, spell_out_value, text_of};
use crate::session::PathNames;

/// The path that finds nothing of the user's, so that names are written with their schemas.
const NOTHING: &[Oid] = &[PG_CATALOG];

/// An expression as the catalog keeps it, without parentheses around it; `path` is what its names are searched in now.
pub(crate) fn kept(catalog: &Arc<Catalog>, path: &[Oid], mut expr: &Expr) -> String {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    reworded(expr.clone(), catalog, path, catalog, For::Catalog)
}

/// A view's query as the catalog keeps it, likewise.
pub(crate) fn kept_query(catalog: &Arc<Catalog>, path: &[Oid], query: &ast::Query) -> String {
    reworded(query.clone(), catalog, path, catalog, For::Catalog)
}

/// A kept expression with the names that what it names has now; `None` where these are what they were `before`.
pub(crate) fn renamed(before: &Arc<Catalog>, now: &Arc<Catalog>, kept: &str) -> Option<String> {
    // What is the tenant's own is named with its schema.
    let expr = kept.contains('.').then(|| parse_expression(kept).ok()).flatten()?;
    let old = reworded(expr.clone(), before, NOTHING, before, For::Catalog);
    let new = reworded(expr, before, NOTHING, now, For::Catalog);
    (new != old).then_some(new)
}

/// A kept expression as a session with this search path may write it.
pub fn shown(catalog: &Arc<Catalog>, path: &[Oid], kept: &str) -> String {
    match parse_expression(kept) {
        Ok(expr) => reworded(expr, catalog, NOTHING, catalog, For::Reader(path)),
        Err(_) => kept.to_owned(),
    }
}

/// The sequences and other relations that a kept expression names in strings, as `nextval('s'::regclass)` does.
pub fn relations_named(catalog: &Catalog, kept: &str) -> Vec<Oid> {
    let mut found = Vec::new();
    let Ok(expr) = parse_expression(kept) else { return found };
    let _ = ast::visit_expressions(&expr, |expr| {
        if let Expr::Cast { expr, data_type: ast::DataType::Regclass, .. } = expr
            && let Expr::Value(value) = &**expr
            && let ast::Value::SingleQuotedString(text) = &value.value
            && let Some([schema, name]) = types::split_qualified_name(text).as_deref()
            && let Some(relation) = catalog.find_relation(Some(schema), name, NOTHING)
        {
            found.push(relation.oid());
        }
        ControlFlow::<()>::Continue(())
    });
    found
}

/// What a kept expression cannot be without: the relations that it names in strings, and the types of the tenant's own.
pub fn objects_named(catalog: &Arc<Catalog>, kept: &str) -> Vec<Oid> {
    match parse_expression(kept) {
        Ok(expr) => named_in(&expr, catalog, NOTHING),
        Err(_) => Vec::new(),
    }
}

/// The same of a query whose names are searched in `path`; the relations that it reads are not among them.
pub(crate) fn named_in(node: &impl Visit, catalog: &Arc<Catalog>, path: &[Oid]) -> Vec<Oid> {
    let names: Arc<dyn CatalogNames> = Arc::new(PathNames::new(Arc::clone(catalog), path.to_vec()));
    let format = FormatContext { names: Some(names), ..FormatContext::default() };
    let params = ParamTypes::none();
    let context = BindContext::simple(&params, &format, "a type");
    let mut found = Vec::new();
    let mut relation = |expr: &Expr| {
        if let Expr::Value(value) = expr
            && let ast::Value::SingleQuotedString(text) = &value.value
            && let Some([parts @ .., name]) = types::split_qualified_name(text).as_deref()
            && let ([] | [_], schema) = (parts, parts.first())
            && let Some(relation) = catalog.find_relation(schema.map(String::as_str), name, path)
        {
            found.push(relation.oid());
        }
    };
    let mut used = Vec::new();
    let mut ty = |data_type: &ast::DataType| match bind_type(data_type, &context) {
        Ok((PgType::Enum(oid) | PgType::Array(ElementType::Enum(oid)), _)) => used.push(oid),
        _ => {}
    };
    let _ = ast::visit_expressions(node, |expr| {
        match expr {
            Expr::Cast { expr, data_type, .. } => {
                if matches!(data_type, ast::DataType::Regclass) {
                    relation(expr);
                }
                ty(data_type);
            }
            Expr::TypedString(ast::TypedString { data_type, .. }) => ty(data_type),
            Expr::Function(function) => {
                if let Some(first) = sequence_argument(function) {
                    relation(first);
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    found.extend(used);
    found
}

/// Whether a string in it may stand for an enum's label, or for an array with it.
pub(crate) fn may_name_label(node: &impl Visit, label: &str) -> bool {
    struct Strings<'l>(&'l str);
    impl ast::Visitor for Strings<'_> {
        type Break = ();

        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
            match &value.value {
                ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text)
                    if text == self.0 || text.starts_with('{') && text.contains(self.0) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    node.visit(&mut Strings(label)).is_break()
}

/// The text of a kept expression that is an enum's label, cast or not, with another label in its place; `None` for any other.
pub(crate) fn with_label(kept: &str, label: &str, new: &str) -> Option<String> {
    let mut expr = parse_expression(kept).ok()?;
    let value = match &mut expr {
        Expr::Cast { expr, .. } => &mut **expr,
        other => other,
    };
    let Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) = value else {
        return None;
    };
    if text != label {
        return None;
    }
    *text = new.to_owned();
    Some(printed(expr))
}

/// The first argument of a function that takes a sequence's name.
fn sequence_argument(function: &ast::Function) -> Option<&Expr> {
    match &function.args {
        ast::FunctionArguments::List(list) if takes_sequence(function) => match list.args.first()? {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first)) => Some(first),
            _ => None,
        },
        _ => None,
    }
}

/// A view's query as a session with this search path may write it.
pub fn shown_view(catalog: &Arc<Catalog>, path: &[Oid], view: &ViewDefinition) -> String {
    match parse_query(&view.sql) {
        Ok(query) => reworded(query, catalog, &view.search_path, catalog, For::Reader(path)),
        Err(_) => view.sql.to_string(),
    }
}

/// The text of what was read, such that it is read again, here and by PostgreSQL.
pub(crate) fn printed<T: VisitMut + Display>(mut node: T) -> String {
    struct Spelling;
    impl VisitorMut for Spelling {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            spell_out(expr);
            ControlFlow::Continue(())
        }

        fn post_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<()> {
            spell_out_value(value);
            ControlFlow::Continue(())
        }
    }
    let _ = node.visit(&mut Spelling);
    text_of(&node)
}

/// Whom a text is for.
#[derive(Clone, Copy)]
enum For<'a> {
    Catalog,
    /// One with this search path.
    Reader(&'a [Oid]),
}

/// The names in `node` stand for what they do in `catalog` with the path `from`, and become those of the same in the catalog `now`.
fn reworded<T: VisitMut + Display>(
    mut node: T,
    catalog: &Arc<Catalog>,
    from: &[Oid],
    now: &Arc<Catalog>,
    reader: For<'_>,
) -> String {
    let names =
        |catalog: &Arc<Catalog>, path: &[Oid]| Arc::new(PathNames::new(Arc::clone(catalog), path.to_vec()));
    let from = FormatContext { names: Some(names(catalog, from)), ..FormatContext::default() };
    let (to, is_kept) = match reader {
        For::Catalog => (NOTHING, true),
        For::Reader(path) => (path, false),
    };
    let mut rewording =
        Rewording { from, to: names(now, to), is_kept, common: Vec::new(), withs: Vec::new() };
    let _ = node.visit(&mut rewording);
    text_of(&node)
}

struct Rewording {
    from: FormatContext,
    to: Arc<PathNames>,
    /// The text is the catalog's.
    is_kept: bool,
    /// Names of the common table expressions in sight, by the queries around.
    common: Vec<Vec<String>>,
    /// The WITH clauses of the queries around: each is visited before its query, which it is not part of meanwhile.
    withs: Vec<Option<ast::With>>,
}

impl VisitorMut for Rewording {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let mut with = query.with.take();
        self.common.push(Vec::new());
        if let Some(with) = &mut with {
            self.with(with);
        }
        self.withs.push(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        query.with = self.withs.pop().expect("put there before the query was visited");
        self.common.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table { name, args: None, .. } = factor
            && let Some(new) = self.relation(&folded(name))
        {
            *name = verbatim(new);
        }
        ControlFlow::Continue(())
    }

    /// Before what is within: the names in literals are read first.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr, data_type, .. } => {
                if matches!(data_type, ast::DataType::Regclass) {
                    self.relation_literal(expr);
                }
                self.type_name(data_type);
            }
            Expr::TypedString(ast::TypedString { data_type, .. }) => self.type_name(data_type),
            Expr::Function(function) => {
                self.sequence_argument(function);
                self.extension_function(&mut function.name);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        spell_out(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<()> {
        spell_out_value(value);
        ControlFlow::Continue(())
    }
}

impl Rewording {
    /// A common table expression sees those before it, or all where they may be recursive.
    fn with(&mut self, with: &mut ast::With) {
        let name = |cte: &ast::Cte| fold_ident(&cte.alias.name);
        if with.recursive {
            let all: Vec<String> = with.cte_tables.iter().map(name).collect();
            self.common.last_mut().expect("pushed by the caller").extend(all);
        }
        for cte in &mut with.cte_tables {
            let _ = VisitMut::visit(&mut cte.query, self);
            self.common.last_mut().expect("pushed by the caller").push(name(cte));
        }
    }

    /// The new name of a table or view; `None` for what stays as it is.
    fn relation(&self, parts: &[String]) -> Option<String> {
        let (schema, name) = match parts {
            [name] if self.common.iter().flatten().any(|common| common == name) => return None,
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            _ => return None,
        };
        self.to.relation_name(self.from.names.as_ref()?.relation_oid(schema, name)?)
    }

    /// Here a function of an extension is found without a schema, whatever that comes to be called; readers are told the extension's.
    fn extension_function(&self, name: &mut ObjectName) {
        let parts = folded(name);
        if let [.., own] = parts.as_slice()
            && parts.len() <= 2
            && let Some(extension) = extension_of(own)
        {
            let new = if self.is_kept { own.clone() } else { self.to.function_of_extension(extension, own) };
            *name = verbatim(new);
        }
    }

    fn type_name(&self, ty: &mut ast::DataType) {
        let params = ParamTypes::none();
        if let Ok((found, typmod)) = bind_type(ty, &BindContext::simple(&params, &self.from, "a type")) {
            let text = types::format_type_in(found, typmod, Some(&*self.to));
            *ty = ast::DataType::Custom(verbatim(text), Vec::new());
        }
    }

    /// The name in a string that stands for a relation.
    fn relation_literal(&self, expr: &mut Expr) -> bool {
        let Expr::Value(value) = expr else { return false };
        let ast::Value::SingleQuotedString(text) = &mut value.value else { return false };
        if let Some(new) = types::split_qualified_name(text).and_then(|parts| self.relation(&parts)) {
            *text = new;
        }
        true
    }

    /// `nextval('s')` is `nextval('s'::regclass)`.
    fn sequence_argument(&self, function: &mut ast::Function) {
        if takes_sequence(function)
            && let ast::FunctionArguments::List(list) = &mut function.args
            && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first))) = list.args.first_mut()
            && self.relation_literal(first)
        {
            *first = Expr::Cast {
                kind: ast::CastKind::DoubleColon,
                expr: Box::new(first.clone()),
                data_type: ast::DataType::Custom(verbatim("regclass".to_owned()), Vec::new()),
                array: false,
                format: None,
            };
        }
    }
}

fn takes_sequence(function: &ast::Function) -> bool {
    let name = folded(&function.name);
    matches!(name.last().map(String::as_str), Some("nextval" | "currval" | "setval"))
}

fn folded(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident()).map(fold_ident).collect()
}

/// A name that is printed as it stands: the text is made to be printed alone.
fn verbatim(text: String) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(Ident::new(text))])
}

#[cfg(test)]
mod tests;
