//! What is shared while one statement is bound: its subqueries, its accesses, and why it may have to go elsewhere.

use std::cell::{Cell, RefCell};

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Privileges, Relation};

use super::level::RelationColumn;
use super::point_plan::{CascadePlan, NodeId, Part, PointPlan, PointStatement, SelectPlan, TableUse};
use super::{PlanContext, RelationAccess};
use crate::expr::{
    Aggregates, BindContext, BoundExpr, BoundSubquery, Scope, SubqueryBinder, SubqueryId, Volatility,
    at_name, fold_ident,
};
use crate::system::{FoundRelation, find_relation};

/// Views within views, at most.
const VIEW_DEPTH_MAX: usize = 128;

/// Views around a query whose common tables are put where they are named, at most.
const VIEWS_INLINED_MAX: usize = 8;

/// Binds one statement.
pub(super) struct Binder<'a> {
    pub(super) ctx: PlanContext<'a>,
    /// Paths through an index are taken to yield fewer rows than is likely.
    pub(super) hopeful: bool,
    /// The rows of `pg_settings` are made here.
    pub(super) has_settings: bool,
    subqueries: RefCell<Vec<Option<SelectPlan>>>,
    accesses: RefCell<Vec<RelationAccess>>,
    tables: RefCell<Vec<(Oid, TableUse)>>,
    reads_what_it_changes: Cell<bool>,
    cascades: RefCell<Vec<CascadePlan>>,
    comes_back: Cell<bool>,
    nodes: Cell<u32>,
    keys: Cell<usize>,
    /// Why the point path cannot take the statement, once something said so.
    elsewhere: RefCell<Option<String>>,
    /// A function with effects or a row lock was met.
    effects: Cell<bool>,
    /// The views being expanded, innermost last.
    views: RefCell<Vec<ViewFrame>>,
    /// Bytes of the texts of the views that were expanded.
    pub(super) views_len: Cell<usize>,
    /// Parts of conditions that an index was looked for.
    pub(super) looked_for: Cell<usize>,
    /// The parts of the statement that can be named so far; `None` where it has none.
    common: RefCell<Option<Vec<CommonTable>>>,
    parts: RefCell<Vec<Part>>,
    /// How many unions are around the place.
    pub(super) unions: Cell<u32>,
}

/// A part of the statement as FROM shows it.
#[derive(Clone)]
pub(super) struct CommonTable {
    pub(super) name: String,
    pub(super) part: usize,
    /// Estimated.
    pub(super) rows: f64,
    pub(super) columns: Vec<RelationColumn>,
    /// It is a change that returns nothing.
    pub(super) is_mute: bool,
}

struct ViewFrame {
    view: Oid,
    owner: Oid,
    search_path: Vec<Oid>,
    /// Levels that this view's query and those around it nest.
    nesting: usize,
}

/// What a name in FROM or of a DML target stands for.
pub(super) enum NamedRelation<'a> {
    Found(&'a Relation),
    /// One of PostgreSQL's own, which only the analytical path has.
    System,
}

impl<'a> Binder<'a> {
    pub(super) fn new(ctx: PlanContext<'a>) -> Binder<'a> {
        Binder {
            ctx,
            hopeful: false,
            has_settings: false,
            subqueries: RefCell::default(),
            accesses: RefCell::default(),
            tables: RefCell::default(),
            reads_what_it_changes: Cell::new(false),
            cascades: RefCell::default(),
            comes_back: Cell::new(false),
            nodes: Cell::new(0),
            keys: Cell::new(0),
            elsewhere: RefCell::default(),
            effects: Cell::new(false),
            views: RefCell::default(),
            views_len: Cell::new(0),
            looked_for: Cell::new(0),
            common: RefCell::default(),
            parts: RefCell::default(),
            unions: Cell::new(0),
        }
    }

    /// One that prefers paths through an index, for a plan of which it is decided later whether they yield as few rows.
    pub(super) fn hopeful(ctx: PlanContext<'a>) -> Binder<'a> {
        Binder { hopeful: true, ..Binder::new(ctx) }
    }

    /// One that has the rows of `pg_settings`, for a statement that changes settings beside them.
    pub(super) fn with_settings(ctx: PlanContext<'a>) -> Binder<'a> {
        Binder { has_settings: true, ..Binder::new(ctx) }
    }

    /// The context for expressions where aggregates are as said and subqueries are welcome.
    pub(super) fn expressions(&self, aggregates: Aggregates) -> BindContext<'_> {
        BindContext { params: self.ctx.params, format: self.ctx.format, subqueries: Some(self), aggregates }
    }

    /// An error that says the analytical path must take this, with the reason.
    pub(super) fn not_here(&self, reason: impl Into<String>) -> SqlError {
        let reason = reason.into();
        let error = SqlError::unsupported(&reason);
        self.elsewhere.borrow_mut().get_or_insert(reason);
        error
    }

    /// Why the analytical path must take the statement that failed with `error`; `None` if the error is the client's.
    pub(super) fn reason_for(&self, error: &SqlError) -> Option<String> {
        if let Some(reason) = self.elsewhere.borrow().as_ref() {
            return Some(reason.clone());
        }
        // Functions may be known there that are not known here; operators are the same.
        let state = error.state();
        let unknown = state == SqlState::UNDEFINED_FUNCTION && error.message().starts_with("function");
        (state == SqlState::FEATURE_NOT_SUPPORTED || unknown).then(|| error.message().to_owned())
    }

    /// What only the analytical path has of the statement, as far as it was met.
    pub(super) fn reason_elsewhere(&self) -> Option<String> {
        self.elsewhere.borrow().clone()
    }

    pub(super) fn next_node(&self) -> NodeId {
        let id = self.nodes.get();
        self.nodes.set(id + 1);
        NodeId(id)
    }

    pub(super) fn nodes(&self) -> u32 {
        self.nodes.get()
    }

    /// A place to remember keys at.
    pub(super) fn next_key(&self) -> usize {
        let key = self.keys.get();
        self.keys.set(key + 1);
        key
    }

    pub(super) fn note_effects(&self, expr: &BoundExpr) {
        if expr.volatility() == Volatility::Volatile {
            self.effects.set(true);
        }
    }

    pub(super) fn set_effects(&self) {
        self.effects.set(true);
    }

    pub(super) fn has_effects(&self) -> bool {
        self.effects.get()
    }

    /// Whether rows are changed by what is bound so far. A change's target is bound before all else.
    pub(super) fn changes_rows(&self) -> bool {
        self.tables.borrow().iter().any(|(_, what)| *what == TableUse::Write)
    }

    pub(super) fn has_subqueries(&self) -> bool {
        !self.subqueries.borrow().is_empty()
    }

    /// The finished subqueries, by their ids.
    pub(super) fn take_subqueries(&self) -> Vec<SelectPlan> {
        self.subqueries
            .take()
            .into_iter()
            .map(|plan| plan.expect("a subquery's binding ends before its statement's"))
            .collect()
    }

    /// Looks at a bound subquery.
    pub(super) fn with_subquery<T>(&self, id: SubqueryId, f: impl FnOnce(&SelectPlan) -> T) -> T {
        f(self.subqueries.borrow()[id.0 as usize].as_ref().expect("the subquery is bound"))
    }

    pub(super) fn accesses(&self) -> Vec<RelationAccess> {
        self.accesses.borrow().clone()
    }

    pub(super) fn tables(&self) -> Vec<(Oid, TableUse)> {
        self.tables.borrow().clone()
    }

    /// The plan of a statement of which all is bound.
    pub(super) fn point_plan(&self, statement: PointStatement, cost: f64) -> PointPlan {
        let mut plan = PointPlan {
            parts: self.take_parts(),
            statement,
            subqueries: self.take_subqueries(),
            tables: self.tables(),
            reads_what_it_changes: self.reads_what_it_changes.get(),
            nodes: self.nodes(),
            cost,
            cost_of_leading_row: None,
            external: None,
            cascades: self.cascades.take(),
            comes_back: self.comes_back.get(),
            runs_in_slices: false,
            gives_slots: false,
        };
        plan.runs_in_slices = plan.can_run_in_slices();
        plan.gives_slots = plan.can_give_slots();
        plan
    }

    pub(super) fn note_cascades(&self, cascades: Vec<CascadePlan>, comes_back: bool) {
        let mut known = self.cascades.borrow_mut();
        for cascade in cascades {
            if known.iter().all(|known| known.table.oid != cascade.table.oid) {
                known.push(cascade);
            }
        }
        self.comes_back.set(self.comes_back.get() || comes_back);
    }

    /// Begins a statement of several parts.
    pub(super) fn begin_parts(&self) {
        self.common.replace(Some(Vec::new()));
    }

    pub(super) fn has_parts(&self) -> bool {
        self.common.borrow().is_some()
    }

    /// Whether the tables of a WITH here become parts of the statement.
    pub(super) fn takes_with(&self) -> bool {
        self.has_parts() && self.views.borrow().is_empty()
    }

    /// Whether so many views are around the place that nothing may be put within each other that stands side by side in one: it would nest deeper than was
    /// looked at.
    pub(super) fn is_deep_in_views(&self) -> bool {
        self.views.borrow().len() > VIEWS_INLINED_MAX
    }

    /// Adds a part; answers its number.
    pub(super) fn add_part(&self, part: Part) -> usize {
        let mut parts = self.parts.borrow_mut();
        parts.push(part);
        parts.len() - 1
    }

    pub(super) fn take_parts(&self) -> Vec<Part> {
        self.parts.take()
    }

    /// How many parts can be named, for [`Binder::forget_common`].
    pub(super) fn commons(&self) -> usize {
        self.common.borrow().as_ref().map_or(0, Vec::len)
    }

    /// From now on only the first so many parts can be named.
    pub(super) fn forget_common(&self, from: usize) {
        self.common.borrow_mut().iter_mut().for_each(|common| common.truncate(from));
    }

    /// A part that those behind it may name from now on.
    pub(super) fn add_common(&self, table: CommonTable) {
        self.common.borrow_mut().get_or_insert_default().push(table);
    }

    /// The part that a name in FROM stands for.
    ///
    /// # Errors
    /// 0A000 for one that returns nothing.
    pub(super) fn common_table(&self, name: &ast::ObjectName) -> SqlResult<Option<CommonTable>> {
        let common = self.common.borrow();
        let ([ast::ObjectNamePart::Identifier(name)], Some(common), true) =
            (name.0.as_slice(), &*common, self.views.borrow().is_empty())
        else {
            return Ok(None);
        };
        let name = fold_ident(name);
        match common.iter().rev().find(|table| table.name == name) {
            Some(table) if table.is_mute => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("WITH query \"{name}\" does not have a RETURNING clause"),
            )),
            found => Ok(found.cloned()),
        }
    }

    /// Notes what the statement does with a table; the most counts.
    pub(super) fn note_table(&self, table: Oid, what: TableUse) {
        let mut tables = self.tables.borrow_mut();
        match tables.iter_mut().find(|(oid, _)| *oid == table) {
            Some((_, known)) => {
                if (*known == TableUse::Write) != (what == TableUse::Write) {
                    self.reads_what_it_changes.set(true);
                }
                *known = what.max(*known);
            }
            None => tables.push((table, what)),
        }
    }

    /// Notes that the statement needs `privileges` on `relation`.
    pub(super) fn note_access(&self, relation: Oid, privileges: Privileges) {
        let as_role = self.views.borrow().last().map(|view| view.owner);
        let mut accesses = self.accesses.borrow_mut();
        match accesses.iter_mut().find(|a| a.relation == relation && a.as_role == as_role) {
            Some(access) => access.privileges = access.privileges.union(privileges),
            None => accesses.push(RelationAccess { relation, privileges, as_role }),
        }
    }

    /// The relation a name stands for.
    ///
    /// # Errors
    /// 42P01, 0A000 for a name of three parts.
    pub(super) fn find_relation(&self, name: &ast::ObjectName) -> SqlResult<NamedRelation<'a>> {
        let parts = object_name(name)?;
        let (schema, table) = match parts.as_slice() {
            [table] => (None, table.as_str()),
            [schema, table] => (Some(schema.as_str()), table.as_str()),
            _ => return Err(SqlError::unsupported(format!("cross-database reference \"{name}\""))),
        };
        let catalog = self.ctx.catalog;
        let views = self.views.borrow();
        let path = views.last().map_or(self.ctx.search_path, |view| &view.search_path);
        match find_relation(catalog, schema, table, path) {
            Some(FoundRelation::Own(relation)) => return Ok(NamedRelation::Found(relation)),
            Some(FoundRelation::System(_)) => return Ok(NamedRelation::System),
            None => {}
        }
        if let Some(schema) = schema
            && catalog.schema_named(schema).is_none()
        {
            return Err(undefined_relation(&format!("{schema}.{table}"), name));
        }
        Err(undefined_relation(&parts.join("."), name))
    }

    /// Runs `f` as inside the view: its search path, its owner's privileges.
    ///
    /// # Errors
    /// 42P17 for views that contain themselves; 54001 for views whose queries together nest too deeply.
    pub(super) fn inside_view<T>(
        &self,
        view: Oid,
        owner: Oid,
        search_path: &[Oid],
        nesting: usize,
        f: impl FnOnce() -> SqlResult<T>,
    ) -> SqlResult<T> {
        {
            let mut views = self.views.borrow_mut();
            let nesting = nesting + views.last().map_or(0, |around| around.nesting);
            let is_again = views.iter().any(|frame| frame.view == view);
            if !is_again && (views.len() >= VIEW_DEPTH_MAX || nesting > base::limits::NESTING_MAX) {
                return Err(crate::parse::too_deep());
            }
            if is_again {
                return Err(SqlError::new(
                    SqlState::INVALID_OBJECT_DEFINITION,
                    "infinite recursion detected in rules for relation",
                ));
            }
            views.push(ViewFrame { view, owner, search_path: search_path.to_vec(), nesting });
        }
        let result = f().map_err(SqlError::without_location);
        self.views.borrow_mut().pop();
        result
    }
}

/// The parts of a name, folded.
pub(super) fn object_name(name: &ast::ObjectName) -> SqlResult<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ast::ObjectNamePart::Identifier(ident) => Ok(fold_ident(ident)),
            ast::ObjectNamePart::Function(_) => Err(SqlError::unsupported(format!("the name {name}"))),
        })
        .collect()
}

fn undefined_relation(full: &str, name: &ast::ObjectName) -> SqlError {
    let message = format!("relation \"{full}\" does not exist");
    at_name(SqlError::new(SqlState::UNDEFINED_TABLE, message), name)
}

impl SubqueryBinder for Binder<'_> {
    fn bind_subquery(
        &self,
        query: &ast::Query,
        outer: &dyn Scope,
        _ctx: &BindContext<'_>,
    ) -> SqlResult<BoundSubquery> {
        let at = {
            let mut subqueries = self.subqueries.borrow_mut();
            subqueries.push(None);
            subqueries.len() - 1
        };
        let mut bound = self.bind_query(query, Some(outer))?;
        bound.plan.keyed = bound.plan.keyed_rows().map(Box::new);
        bound.plan.is_volatile = self.is_changeable(&bound.plan);
        let columns = bound.columns.into_iter().map(|c| (c.ty, c.typmod, c.name)).collect();
        let correlated = bound.plan.correlated;
        self.subqueries.borrow_mut()[at] = Some(bound.plan);
        Ok(BoundSubquery { id: SubqueryId(u32::try_from(at).expect("few subqueries")), columns, correlated })
    }
}
