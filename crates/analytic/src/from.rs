//! FROM: tables, views, subqueries, functions.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sql::expr::{Aggregates, BoundExpr, Scope, SetFunction, bind_expr, fold_ident, set_function};
use sql::parse::is_made_once;
use sql::system::{FoundRelation, find_relation};
use sqlparser::ast;
use tenant::catalog::{Privileges, Relation as CatalogRelation, Table, ViewDefinition};
use types::PgType;

use crate::apply::{ApplyKind, Asked};
use crate::binder::Binder;
use crate::error::Planned;
use crate::expand::{Expand, RightPart, Series, SeriesCall};
use crate::prepare::{Place, elements_of, system_name};
use crate::relation::{Level, LevelScope, RelColumn, Relation};
use crate::table::TableScan;
use crate::translate::{Translator, bare, field};
use crate::value;
use crate::with::rename;

/// Bytes that the texts of a query's views may have together, each as often as it is used: views that use others twice stand for very many.
const VIEWS_LEN_MAX: usize = 4 << 20;

impl Binder<'_> {
    /// The rows of a FROM clause; one row without columns if there is none.
    pub(crate) fn from_clause(
        &self,
        from: &[ast::TableWithJoins],
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let mut all: Option<Relation> = None;
        for item in from {
            all = Some(self.joined(all, item, outer)?);
        }
        match all {
            Some(relation) => Ok(relation),
            None => Ok(Relation {
                plan: LogicalPlanBuilder::empty(true).build().planned()?,
                columns: Vec::new(),
                star: Vec::new(),
            }),
        }
    }

    /// `before, item`. The joins of an item are its own: what stands before it is beside all of them, also where an outer join has rows without a partner.
    fn joined(
        &self,
        before: Option<Relation>,
        item: &ast::TableWithJoins,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let mut factors = std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation));
        let stands_alone = !item.joins.is_empty() && !factors.any(may_look_left);
        match before {
            Some(before) if stands_alone => beside_each_other(before, self.joined(None, item, outer)?),
            before => {
                let own = before.as_ref().map_or(0, |before| before.columns.len());
                let mut relation = self.beside(before, &item.relation, outer)?;
                for join in &item.joins {
                    relation = self.join(relation, own, join, outer)?;
                }
                Ok(relation)
            }
        }
    }

    /// `left, factor`: a cross join, lateral where the factor may look to its left.
    pub(crate) fn beside(
        &self,
        left: Option<Relation>,
        factor: &ast::TableFactor,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let Some(left) = left else { return self.factor(factor, outer) };
        if may_look_left(factor) {
            return self.lateral(left, factor, outer, false, None);
        }
        // What is lateral within parentheses looks at what stands before them, too.
        if let ast::TableFactor::NestedJoin { table_with_joins, alias: None } = factor
            && !table_with_joins.joins.iter().any(keeps_its_right_side)
        {
            return self.joined(Some(left), table_with_joins, outer);
        }
        beside_each_other(left, self.factor(factor, outer)?)
    }

    pub(crate) fn factor(&self, factor: &ast::TableFactor, outer: Option<&dyn Scope>) -> SqlResult<Relation> {
        if let Some(relation) = self.host_function(factor)? {
            return Ok(relation);
        }
        match factor {
            ast::TableFactor::Table {
                name, alias, args: None, with_ordinality: false, sample: None, ..
            } => {
                let mut relation = self.named(name)?;
                if let Some(alias) = alias {
                    apply_alias(&mut relation, alias)?;
                }
                Ok(relation)
            }
            ast::TableFactor::Table { sample: Some(_), .. } => Err(SqlError::unsupported("TABLESAMPLE")),
            ast::TableFactor::Derived { subquery, alias, sample: None, .. } => {
                let ((mut relation, _), uses) = self.noting_uses(|| self.query(subquery, outer))?;
                // A common table of a change, which stands here in its place. It looks at no row around it.
                let is_once = alias.as_ref().is_some_and(|alias| is_made_once(&alias.name.value));
                if is_once && uses.is_empty() && self.recursive_terms.get() == 0 {
                    relation.plan = self.made_once("once", relation.plan, &uses)?;
                }
                let mut relation = self.rename_columns(relation)?;
                match alias {
                    Some(alias) => apply_alias(&mut relation, alias)?,
                    None => rename(&mut relation, "unnamed_subquery", &[])?,
                }
                Ok(relation)
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                let mut relation = self.joined(None, table_with_joins, outer)?;
                if let Some(alias) = alias {
                    // The tables within are out of sight, and with them the sides of a merged column.
                    relation = self.visible(relation)?;
                    apply_alias(&mut relation, alias)?;
                }
                Ok(relation)
            }
            factor if function_of(factor).is_some() => {
                let none = Relation {
                    plan: LogicalPlanBuilder::empty(true).build().planned()?,
                    columns: Vec::new(),
                    star: Vec::new(),
                };
                self.function_table(none, factor, outer)
            }
            other => Err(SqlError::unsupported(format!("{other} in FROM"))),
        }
    }

    /// `factor` evaluated for each row of `left`, of its rows those for which `condition` is true. With `keep` a row of `left` without any has one of NULLs.
    pub(crate) fn lateral(
        &self,
        left: Relation,
        factor: &ast::TableFactor,
        outer: Option<&dyn Scope>,
        keep: bool,
        condition: Option<&ast::Expr>,
    ) -> SqlResult<Relation> {
        if function_of(factor).is_some() && !keep {
            return self.function_table(left, factor, outer);
        }
        let level = Level::of(&left);
        let scope = LevelScope { level: &level, outer };
        let (right, plan) = self.within(&level, || {
            let (right, uses) = self.noting_uses(|| {
                let (right, _) = match factor {
                    ast::TableFactor::Derived { subquery, .. } => self.query(subquery, Some(&scope))?,
                    // A function: as a query of its own, so that it may look out.
                    _ => self.query(&function_query(factor)?, Some(&scope))?,
                };
                let mut right = self.rename_columns(right)?;
                match alias_of(factor) {
                    Some(alias) => apply_alias(&mut right, alias)?,
                    None => rename(&mut right, "unnamed_subquery", &[])?,
                }
                if gives_values(factor) {
                    right = self.with_row(right, 0)?;
                }
                match condition {
                    Some(condition) => self.filter(right, condition, Some(&scope), "JOIN/ON"),
                    None => Ok(right),
                }
            })?;
            let kind = ApplyKind::Lateral { left: keep };
            if uses.is_empty() && !keep {
                let plan = LogicalPlanBuilder::from(left.plan.clone())
                    .cross_join(right.plan.clone())
                    .and_then(LogicalPlanBuilder::build)
                    .planned()?;
                return Ok((right, plan));
            }
            let plan =
                self.apply_node(left.plan.clone(), right.plan.clone(), kind, &uses, Asked::default(), None)?;
            Ok((right, plan))
        })?;
        check_alias(&left, &right)?;
        if keep {
            self.note_outer_joined(&right);
        }
        let both = concat(plan, left, right);
        if let Some(condition) = condition {
            // A name that both sides have is refused.
            let place = Place::new(Level::of(&both), outer);
            self.condition(condition, &place, Aggregates::Forbidden("JOIN conditions"), "JOIN/ON")?;
        }
        Ok(both)
    }

    /// A table, view, common table or system table by name.
    fn named(&self, name: &ast::ObjectName) -> SqlResult<Relation> {
        let parts: Vec<String> = name
            .0
            .iter()
            .map(|part| {
                part.as_ident()
                    .map(fold_ident)
                    .ok_or_else(|| SqlError::unsupported(format!("the table name {name}")))
            })
            .collect::<SqlResult<_>>()?;
        let (schema, table) = match &parts[..] {
            [table] => (None, table.as_str()),
            [schema, table] => (Some(schema.as_str()), table.as_str()),
            [database, schema, table] if *database == self.shared.context.database => {
                (Some(schema.as_str()), table.as_str())
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("cross-database references are not implemented: \"{name}\""),
                ));
            }
        };
        if schema.is_none()
            && let Some(relation) = self.common_table(table)
        {
            let mut relation = relation?;
            rename(&mut relation, table, &[])?;
            return Ok(relation);
        }
        let catalog = Arc::clone(&self.shared.catalog);
        let path = self.path.borrow().clone();
        let found = match find_relation(&catalog, schema, table, &path) {
            Some(FoundRelation::System(system)) => return self.system_table(system),
            Some(FoundRelation::Own(found)) => found,
            None => catalog
                .resolve_relation(schema, table, &path)
                .map_err(|error| sql::expr::at_name(error, name))?,
        };
        let mut relation = match found {
            CatalogRelation::Table(found) => {
                self.check_select(found.owner, found.acl.as_ref(), "table", &found.name)?;
                self.table(found)?
            }
            CatalogRelation::View(view) => {
                self.check_select(view.owner, view.acl.as_ref(), "view", &view.name)?;
                self.view(view)?
            }
            CatalogRelation::Sequence(_) => {
                return Err(SqlError::unsupported("reading a sequence as a table in an analytical query"));
            }
            CatalogRelation::Index(..) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot open relation \"{table}\""),
                )
                .with_detail("This operation is not supported for indexes."));
            }
        };
        rename(&mut relation, table, &[])?;
        let schema = catalog.schema_name(found.schema()).to_owned();
        for column in &mut relation.columns {
            column.schema = Some(schema.clone());
        }
        Ok(relation)
    }

    fn check_select(
        &self,
        owner: base::Oid,
        acl: Option<&tenant::catalog::Acl>,
        kind: &str,
        name: &str,
    ) -> SqlResult<()> {
        match self.role.get() {
            Some(role) if !self.shared.catalog.has_privileges(role, owner, acl, Privileges::SELECT) => {
                Err(SqlError::new(
                    SqlState::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied for {kind} {name}"),
                ))
            }
            _ => Ok(()),
        }
    }

    fn table(&self, table: &Arc<Table>) -> SqlResult<Relation> {
        let mut names = Vec::new();
        let mut columns = Vec::new();
        let reference = TableReference::bare(format!("t{}", self.number()));
        for (position, column) in table.live_columns() {
            let name = self.fresh();
            self.shared.note_column(&name, column.ty, column.typmod);
            let arrow = self.shared.arrow_type(column.ty, column.typmod);
            columns.push(RelColumn {
                column: Column::new(Some(reference.clone()), name.clone()),
                arrow,
                ty: column.ty,
                typmod: column.typmod,
                name: column.name.to_string(),
                table: Some(table.name.to_string()),
                schema: None,
                bare: true,
                starred: true,
                origin: (table.oid.0, position as i16 + 1),
            });
            names.push((name, position));
        }
        let provider = TableScan::new(Arc::clone(table), names, Arc::clone(&self.shared));
        let plan = LogicalPlanBuilder::scan(reference, provider_as_source(Arc::new(provider)), None)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let star = (0..columns.len()).collect();
        Ok(Relation { plan, columns, star })
    }

    fn system_table(&self, system: &'static sql::system::SystemTable) -> SqlResult<Relation> {
        let reference = TableReference::bare(format!("t{}", self.number()));
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for (position, (name, ty)) in system.columns.iter().enumerate() {
            let arrow = value::arrow_type(*ty, types::TypeMod::NONE);
            let fresh = self.fresh();
            fields.push(field(&fresh, &arrow));
            columns.push(RelColumn {
                column: Column::new(Some(reference.clone()), fresh),
                arrow,
                ty: *ty,
                typmod: types::TypeMod::NONE,
                name: (*name).to_owned(),
                table: Some(system.name.to_owned()),
                schema: Some(system.schema.to_owned()),
                bare: true,
                starred: !system.is_hidden(name),
                origin: (system.oid, position as i16 + 1),
            });
        }
        let provider = crate::catalog::provider(system, fields, Arc::clone(&self.shared))?;
        let plan = LogicalPlanBuilder::scan(reference, provider_as_source(provider), None)
            .and_then(LogicalPlanBuilder::build)
            .planned()?;
        let star = (0..columns.len()).filter(|i| columns[*i].starred).collect();
        Ok(Relation { plan, columns, star })
    }

    fn view(&self, view: &Arc<ViewDefinition>) -> SqlResult<Relation> {
        if crate::signalling::names_one(&view.sql) {
            return Err(crate::signalling::elsewhere());
        }
        let len = self.views_len.get() + view.sql.len();
        if len > VIEWS_LEN_MAX {
            let message =
                format!("the texts of the query's views have more than {VIEWS_LEN_MAX} bytes together");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
                .with_hint("Each use of a view is planned for itself."));
        }
        self.views_len.set(len);
        let mut query = sql::parse::parse_query(&view.sql)?;
        let around = self.view_nesting.get();
        // One more than the query's own, so that views without end end.
        let nesting = around + 1 + sql::parse::nesting(&mut query);
        if nesting > base::limits::NESTING_MAX {
            return Err(sql::parse::too_deep());
        }
        let path = self.path.replace(view.search_path.clone());
        let ctes = self.ctes.take();
        let role = self.role.replace(self.shared.catalog.role(view.owner).map(|role| role.oid));
        self.view_nesting.set(nesting);
        let result = self.query(&query, None).map_err(SqlError::without_location);
        self.view_nesting.set(around);
        self.role.set(role);
        self.ctes.replace(ctes);
        self.path.replace(path);
        let mut relation = self.rename_columns(result?.0)?;
        for (position, (at, shown)) in relation.star.clone().into_iter().zip(&view.columns).enumerate() {
            let column = &mut relation.columns[at];
            column.name = shown.name.to_string();
            column.origin = (view.oid.0, position as i16 + 1);
        }
        Ok(relation)
    }

    /// A set-returning or plain function beside `left`.
    fn function_table(
        &self,
        left: Relation,
        factor: &ast::TableFactor,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<Relation> {
        let (mut name, args, ordinality, alias) = function_of(factor).expect("the caller asked");
        let called = system_name(&mut name)
            .ok_or_else(|| SqlError::unsupported(format!("the function {name} in FROM")))?;
        let place = Place::new(Level::of(&left), outer);
        let ctx = Aggregates::Forbidden("functions in FROM");
        let bind = |expr: &ast::Expr| self.expr(expr, &place, ctx);
        let (calls, bound) = match self.series_calls(&called, &args, &bind)? {
            Some(found) => found,
            None => {
                // A function of one value is a table of one row.
                let expr = function_expr(&name, &args);
                let bound = self.expr(&expr, &place, ctx)?;
                return self.scalar_table(left, &place, bound, &called, ordinality, alias);
            }
        };
        let set = set_function(&called);
        let mut columns = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            let element = call.series.element();
            let arrow = value::arrow_type(element, types::TypeMod::NONE);
            let name = match call.series {
                Series::OptionNames => "option_name",
                Series::OptionValues => "option_value",
                Series::Rights(part) => part.name(),
                _ => set.and_then(|set| set.columns.get(at).copied()).unwrap_or(called.as_str()),
            };
            columns.push(self.function_column(name, element, arrow));
        }
        if ordinality {
            columns.push(self.function_column("ordinality", PgType::Int8, DataType::Int64));
        }
        let (input, exprs) = self.within(&place.level, || {
            let mut translator = Translator::new(self, left.plan.clone(), Arc::clone(&place.level));
            let mut exprs = Vec::new();
            for arg in &bound {
                exprs.push(translator.translate(arg)?.expr);
            }
            Ok((translator.plan, exprs))
        })?;
        let mut fields: Vec<_> =
            input.schema().iter().map(|(table, f)| (table.cloned(), Arc::clone(f))).collect();
        fields.extend(columns.iter().map(|c| (None, Arc::new(field(&c.column.name, &c.arrow)))));
        let schema = DFSchema::new_with_metadata(fields, Default::default()).planned()?;
        let single = calls.len() == 1 && set.is_none_or(|set| set.columns.is_empty());
        let node = Expand {
            input,
            calls,
            exprs,
            ordinality,
            schema: Arc::new(schema),
            number: self.number(),
            shared: Arc::clone(&self.shared),
        };
        let star = (0..columns.len()).collect();
        let mut right = Relation { plan: crate::binder::empty(), columns, star };
        alias_function(&mut right, &called, alias, single)?;
        check_alias(&left, &right)?;
        let own = left.columns.len();
        let both = concat(node.into(), left, right);
        if gives_values(factor) { self.with_row(both, own) } else { Ok(both) }
    }

    /// The column `at` by the name of its table, too: a row of one value is the value.
    fn with_row(&self, relation: Relation, at: usize) -> SqlResult<Relation> {
        let Relation { plan, mut columns, star } = relation;
        let (value, name) = (columns[at].clone(), self.fresh());
        let mut exprs: Vec<Expr> = columns.iter().map(RelColumn::expr).collect();
        exprs.push(value.expr().alias(&name));
        let plan =
            LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).planned()?;
        let table = value.table.clone().unwrap_or_default();
        columns.push(RelColumn { column: bare(name), name: table, starred: false, ..value });
        Ok(Relation { plan, columns, star })
    }

    /// The set-returning functions of one call in FROM, side by side: one for each array of `unnest`, or of those that a function is the elements
    /// of, two for `pg_options_to_table`, four for `aclexplode`, itself for any other.
    fn series_calls(
        &self,
        called: &str,
        args: &[ast::Expr],
        bind: &dyn Fn(&ast::Expr) -> SqlResult<BoundExpr>,
    ) -> SqlResult<Option<(Vec<SeriesCall>, Vec<BoundExpr>)>> {
        if called == "unnest" && args.len() > 1 {
            let (mut calls, mut all) = (Vec::new(), Vec::new());
            for arg in args {
                let Some((call, bound)) = self.series_call(called, std::slice::from_ref(arg), bind)? else {
                    return Ok(None);
                };
                calls.push(call);
                all.extend(bound);
            }
            return Ok(Some((calls, all)));
        }
        if let Some(set) = set_function(called) {
            let (mut calls, mut all) = (Vec::new(), Vec::new());
            for array in set.arrays(args) {
                let (call, bound) = elements_of(bind(&array)?);
                calls.push(call);
                all.extend(bound);
            }
            set.require_one_value(&all)?;
            return Ok(Some((calls, all)));
        }
        let Some((call, mut bound)) = self.series_call(called, args, bind)? else { return Ok(None) };
        let mut calls = vec![call];
        if calls[0].series == Series::OptionNames {
            bound.extend_from_within(..);
            calls.push(SeriesCall { series: Series::OptionValues, args: calls[0].args.clone() });
        }
        if matches!(calls[0].series, Series::Rights(_)) {
            let of = |part| SeriesCall { series: Series::Rights(part), args: calls[0].args.clone() };
            calls = RightPart::COLUMNS.map(of).into();
            bound = vec![bound[0].clone(); calls.len()];
        }
        Ok(Some((calls, bound)))
    }

    fn scalar_table(
        &self,
        left: Relation,
        place: &Place<'_>,
        bound: BoundExpr,
        called: &str,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> SqlResult<Relation> {
        let (plan, typed) = self.within(&place.level, || {
            let mut translator = Translator::new(self, left.plan.clone(), Arc::clone(&place.level));
            let typed = translator.translate(&bound)?;
            Ok((translator.plan, typed))
        })?;
        let mut columns = vec![self.function_column(called, typed.ty, typed.arrow.clone())];
        let mut exprs: Vec<Expr> = left.columns.iter().map(RelColumn::expr).collect();
        exprs.push(typed.expr.alias(&columns[0].column.name));
        if ordinality {
            columns.push(self.function_column("ordinality", PgType::Int8, DataType::Int64));
            exprs.push(datafusion::logical_expr::lit(1i64).alias(&columns[1].column.name));
        }
        let plan =
            LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).planned()?;
        let star = (0..columns.len()).collect();
        let mut right = Relation { plan: crate::binder::empty(), columns, star };
        alias_function(&mut right, called, alias, true)?;
        Ok(concat(plan, left, right))
    }

    pub(crate) fn function_column(&self, name: &str, ty: PgType, arrow: DataType) -> RelColumn {
        RelColumn {
            column: bare(self.fresh()),
            arrow,
            ty,
            typmod: types::TypeMod::NONE,
            name: name.to_owned(),
            table: Some(name.to_owned()),
            schema: None,
            bare: true,
            starred: true,
            origin: (0, 0),
        }
    }
}

/// Each row of `left` with each of `right`.
fn beside_each_other(left: Relation, right: Relation) -> SqlResult<Relation> {
    check_alias(&left, &right)?;
    let plan = LogicalPlanBuilder::from(left.plan.clone())
        .cross_join(right.plan.clone())
        .and_then(LogicalPlanBuilder::build)
        .planned()?;
    Ok(concat(plan, left, right))
}

/// The columns of two relations side by side, which `plan` yields.
pub(crate) fn concat(plan: LogicalPlan, left: Relation, right: Relation) -> Relation {
    let offset = left.columns.len();
    let mut columns = left.columns;
    columns.extend(right.columns);
    let mut star = left.star;
    star.extend(right.star.into_iter().map(|i| i + offset));
    Relation { plan, columns, star }
}

/// 42712 where two tables of a FROM have one name.
pub(crate) fn check_alias(left: &Relation, right: &Relation) -> SqlResult<()> {
    for column in &right.columns {
        let same = |c: &RelColumn| c.table.is_some() && c.table == column.table && c.schema == column.schema;
        if left.columns.iter().any(same) {
            let table = column.table.as_deref().unwrap_or_default();
            return Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{table}\" specified more than once"),
            ));
        }
    }
    Ok(())
}

fn apply_alias(relation: &mut Relation, alias: &ast::TableAlias) -> SqlResult<()> {
    let columns: Vec<String> = alias.columns.iter().map(|c| fold_ident(&c.name)).collect();
    rename(relation, &fold_ident(&alias.name), &columns)
}

/// A function's alias names its column too, if it is the only one, unless columns are named.
fn alias_function(
    relation: &mut Relation,
    called: &str,
    alias: Option<&ast::TableAlias>,
    single: bool,
) -> SqlResult<()> {
    match alias {
        None => rename(relation, called, &[]),
        Some(alias) => {
            if alias.columns.is_empty() && single {
                relation.columns[0].name = fold_ident(&alias.name);
            }
            apply_alias(relation, alias)
        }
    }
}

/// Whether `factor` is a function of which a row is one value with a name of its own.
fn gives_values(factor: &ast::TableFactor) -> bool {
    function_of(factor).is_some_and(|(mut name, _, ordinality, _)| {
        let set = system_name(&mut name).and_then(|name| set_function(&name));
        !ordinality && set.is_some_and(SetFunction::gives_values)
    })
}

/// Whether the join has rows of what stands on its right that have no partner.
fn keeps_its_right_side(join: &ast::Join) -> bool {
    use ast::JoinOperator as J;
    matches!(join.join_operator, J::Right(_) | J::RightOuter(_) | J::FullOuter(_))
}

pub(crate) fn may_look_left(factor: &ast::TableFactor) -> bool {
    match function_of(factor) {
        // A function of constants is a relation of its own, which the planner may join in any order.
        Some((_, args, ..)) => args.iter().any(names_something),
        None => matches!(factor, ast::TableFactor::Derived { lateral: true, .. }),
    }
}

/// Whether a column or a query stands in the expression.
pub(crate) fn names_something(expr: &ast::Expr) -> bool {
    let found = ast::visit_expressions(expr, |inner| match inner {
        ast::Expr::Identifier(_)
        | ast::Expr::CompoundIdentifier(_)
        | ast::Expr::CompoundFieldAccess { .. }
        | ast::Expr::Subquery(_)
        | ast::Expr::InSubquery { .. }
        | ast::Expr::Exists { .. } => ControlFlow::Break(()),
        ast::Expr::Function(function) if matches!(function.args, ast::FunctionArguments::Subquery(_)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn alias_of(factor: &ast::TableFactor) -> Option<&ast::TableAlias> {
    match factor {
        ast::TableFactor::Derived { alias, .. }
        | ast::TableFactor::Table { alias, .. }
        | ast::TableFactor::Function { alias, .. }
        | ast::TableFactor::UNNEST { alias, .. }
        | ast::TableFactor::TableFunction { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

type FunctionCall<'x> = (ast::ObjectName, Vec<ast::Expr>, bool, Option<&'x ast::TableAlias>);

fn function_of(factor: &ast::TableFactor) -> Option<FunctionCall<'_>> {
    let plain = |args: &[ast::FunctionArg]| -> Option<Vec<ast::Expr>> {
        args.iter()
            .map(|arg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect()
    };
    match factor {
        ast::TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
            Some((name.clone(), plain(&args.args)?, *with_ordinality, alias.as_ref()))
        }
        ast::TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            Some((name.clone(), plain(args)?, *with_ordinality, alias.as_ref()))
        }
        ast::TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
            let name = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new("unnest"))]);
            Some((name, array_exprs.clone(), *with_ordinality, alias.as_ref()))
        }
        _ => None,
    }
}

pub(crate) fn function_expr(name: &ast::ObjectName, args: &[ast::Expr]) -> ast::Expr {
    let args =
        args.iter().map(|e| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e.clone()))).collect();
    ast::Expr::Function(ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn function_query(factor: &ast::TableFactor) -> SqlResult<ast::Query> {
    let mut query = sql::parse::parse_query("SELECT * FROM t")?;
    if let ast::SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
    {
        from.relation = factor.clone();
    }
    Ok(query)
}

/// Binds a constant of a clause that takes no columns.
pub(crate) fn bind_constant(
    binder: &Binder<'_>,
    expr: &ast::Expr,
    place: &'static str,
) -> SqlResult<BoundExpr> {
    bind_expr(expr, &sql::expr::EmptyScope, &binder.context(Aggregates::Forbidden(place)))
}
