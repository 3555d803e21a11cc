//! Queries for the analytical path: nothing is planned here, but what they touch is noted for the privilege check.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use base::{Oid, SqlError, SqlResult};
use rustc_hash::FxHashSet;
use sqlparser::ast::{self, Visit, Visitor};
use tenant::catalog::{Privileges, Relation};

use super::binder::{Binder, NamedRelation, object_name};
use super::{BoundPlan, Command, PlanContext, PlanKind, RelationAccess};
use crate::expr::{Aggregates, bind_type, fold_ident};
use crate::parse::not_at_top_level;

/// Hands a query to the analytical path.
///
/// # Errors
/// 42P01 for a relation there is none of; 0A000 for data-modifying statements within it.
pub(super) fn plan(query: &ast::Query, reason: String, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    let system = Cell::new(false);
    walk(query, &binder, &RefCell::default(), &system)?;
    Ok(BoundPlan {
        command: Command::Select,
        output: Vec::new(),
        parameters: ctx.params.known(),
        accesses: binder.accesses(),
        read_only: true,
        kind: PlanKind::Analytic { reason, names_system: system.get() },
    })
}

/// Adds what a statement's query part touches to what the statement touches.
pub(super) fn merge_accesses(into: &mut Vec<RelationAccess>, from: Vec<RelationAccess>) {
    for access in from {
        match into.iter_mut().find(|a| a.relation == access.relation && a.as_role == access.as_role) {
            Some(known) => known.privileges = known.privileges.union(access.privileges),
            None => into.push(access),
        }
    }
}

/// Whether a query names one of these relations or functions. Within views it is not looked for.
pub fn names_any(query: &ast::Query, of: &[&str]) -> bool {
    query.visit(&mut Named(of)).is_break()
}

/// Ends a walk at the first of these names.
struct Named<'a>(&'a [&'a str]);

impl Named<'_> {
    fn look(&self, name: &ast::ObjectName) -> ControlFlow<()> {
        let last = name.0.last().and_then(|part| part.as_ident()).map(fold_ident);
        if last.is_some_and(|last| self.0.contains(&last.as_str())) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
        self.look(name)
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        match factor {
            // `LATERAL f(…)`. Functions in FROM without that word are relations to the parser.
            ast::TableFactor::Function { name, .. } => self.look(name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Function(call) => self.look(&call.name),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether the text of a view may name one of these.
pub fn text_names_any(text: &str, of: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    of.iter().any(|name| text.contains(name))
}

/// Parameters of a statement, at most: what the protocol's count can say.
const PARAMETERS_MAX: usize = 65_535;

/// Notes what a query touches. `views`: those whose queries have been walked. `system`: whether it names one of the server's own tables.
fn walk(
    query: &ast::Query,
    binder: &Binder<'_>,
    views: &RefCell<FxHashSet<Oid>>,
    system: &Cell<bool>,
) -> SqlResult<()> {
    match query.visit(&mut Walk { binder, views, system, common: Vec::new() }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Walk<'a> {
    binder: &'a Binder<'a>,
    views: &'a RefCell<FxHashSet<Oid>>,
    system: &'a Cell<bool>,
    /// The WITH lists around the place of the walk, innermost last.
    common: Vec<CommonTables>,
}

/// A WITH list whose query is being walked.
struct CommonTables {
    names: Vec<String>,
    /// To be told apart by their addresses only.
    queries: Vec<*const ast::Query>,
    /// How many of them can be named here: each by those behind it, all by all if the list is recursive.
    visible: usize,
}

impl Walk<'_> {
    fn is_common(&self, name: &str) -> bool {
        self.common.iter().any(|list| list.names[..list.visible].iter().any(|common| common == name))
    }

    fn relation(&self, name: &ast::ObjectName) -> SqlResult<()> {
        let parts = object_name(name)?;
        if parts.len() == 1 && self.is_common(&parts[0]) {
            return Ok(());
        }
        let NamedRelation::Found(relation) = self.binder.find_relation(name)? else {
            self.system.set(true);
            return Ok(());
        };
        self.binder.note_access(relation.oid(), Privileges::SELECT);
        if let Relation::View(view) = relation
            && self.views.borrow_mut().insert(view.oid)
        {
            let mut query = crate::parse::parse_query(&view.sql)?;
            let nesting = crate::parse::nesting(&mut query);
            self.binder.inside_view(view.oid, view.owner, &view.search_path, nesting, || {
                walk(&query, self.binder, self.views, self.system)
            })?;
        }
        Ok(())
    }
}

impl Visitor for Walk<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<SqlError> {
        if let Some(with) = &query.with {
            let tables = &with.cte_tables;
            self.common.push(CommonTables {
                names: tables.iter().map(|cte| fold_ident(&cte.alias.name)).collect(),
                queries: tables.iter().map(|cte| std::ptr::from_ref(&*cte.query)).collect(),
                visible: if with.recursive { tables.len() } else { 0 },
            });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<SqlError> {
        if query.with.is_some() {
            self.common.pop();
        }
        if let Some(list) = self.common.last_mut()
            && list.queries.get(list.visible) == Some(&std::ptr::from_ref(query))
        {
            list.visible += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<SqlError> {
        match factor {
            ast::TableFactor::Table { name, args: None, .. } => match self.relation(name) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
            _ => ControlFlow::Continue(()),
        }
    }

    /// Every parameter is known when the walk ends, and has the type of a cast around it, if it has none yet.
    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<SqlError> {
        let (number, ty) = match expr {
            ast::Expr::Cast { expr, data_type, .. } => (parameter(expr), Some(data_type)),
            expr => (parameter(expr), None),
        };
        let Some(index) = number else { return ControlFlow::Continue(()) };
        if let Err(error) = self.binder.ctx.params.get(index) {
            return ControlFlow::Break(error);
        }
        if let Some(ty) = ty
            && let Ok((ty, _)) = bind_type(ty, &self.binder.expressions(Aggregates::Forbidden("a cast")))
        {
            self.binder.ctx.params.infer(index, ty);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, _statement: &ast::Statement) -> ControlFlow<SqlError> {
        ControlFlow::Break(not_at_top_level())
    }
}

/// The index of the parameter that an expression is.
fn parameter(expr: &ast::Expr) -> Option<usize> {
    let ast::Expr::Value(value) = expr else { return None };
    let ast::Value::Placeholder(name) = &value.value else { return None };
    let number = name.strip_prefix('$')?.parse::<usize>().ok()?;
    (1..=PARAMETERS_MAX).contains(&number).then(|| number - 1)
}
