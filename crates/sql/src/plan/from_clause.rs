//! FROM: tables, views, subqueries, functions and the joins between them.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};
use tenant::catalog::{Privileges, Relation as CatalogRelation, Table, ViewDefinition};
use types::{CastContext, PgType, TypeMod};

use super::binder::{Binder, NamedRelation, object_name};
use super::level::{Level, LevelScope, Namespace, RelationColumn, RelationSource, VisibleColumn};
use super::point_plan::{SelectPlan, TableFunction, TableUse};
use super::refuse::refuse;
use super::settings_rows::settings_query;
use super::visit::outer_columns;
use crate::expr::{
    Aggregates, BoundExpr, CompareOp, IS_CALLED, LAST_VALUE, Scope, bind_comparison, bind_condition,
    bind_expr, coerce, common_type, fold_ident, resolve_unknown, set_function,
};

/// The joins of FROM as written, RIGHT turned into LEFT.
pub(super) enum FromTree {
    Relation(usize),
    Join { left: Box<FromTree>, right: Box<FromTree>, left_outer: bool, on: Vec<BoundExpr> },
}

/// Relations that a FROM may have here. To find an order for them takes the cube of their number in the worst case, and each is a level of the run's
/// recursion.
const RELATIONS_MAX: usize = 256;

/// Relations that a FROM may have here times their columns: each join writes down the names of all columns before it, at some 100 ns each.
const NAMES_MAX: usize = 1 << 20;

/// Bytes that the texts of a statement's views have together, each as often as it is used: views that use others twice stand for very many, and
/// nobody else's task runs while a statement is bound.
const VIEWS_LEN_MAX: usize = 256 << 10;

/// The columns of a table as a relation shows them.
pub(super) fn table_columns(table: &Table) -> Vec<RelationColumn> {
    table
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| RelationColumn {
            name: if column.dropped { String::new() } else { column.name.to_string() },
            ty: column.ty,
            typmod: column.typmod,
            table_oid: table.oid,
            attnum: i16::try_from(i + 1).expect("a table has few columns"),
        })
        .collect()
}

impl Binder<'_> {
    /// Adds the relations of a FROM list to the level.
    pub(super) fn bind_from(
        &self,
        level: &mut Level,
        from: &[ast::TableWithJoins],
        outer: Option<&dyn Scope>,
        namespace: &mut Namespace,
    ) -> SqlResult<Vec<FromTree>> {
        let mut trees = Vec::new();
        for item in from {
            self.require_few(level)?;
            let (tree, names) = self.bind_joined(level, item, outer, namespace)?;
            check_aliases(level, namespace, &names)?;
            namespace.relations.extend(names.relations);
            namespace.columns.extend(names.columns);
            trees.push(tree);
        }
        Ok(trees)
    }

    fn bind_joined(
        &self,
        level: &mut Level,
        item: &ast::TableWithJoins,
        outer: Option<&dyn Scope>,
        before: &Namespace,
    ) -> SqlResult<(FromTree, Namespace)> {
        let ast::TableWithJoins { relation, joins } = item;
        let (mut tree, mut names) = self.bind_factor(level, relation, outer, before)?;
        for join in joins {
            let ast::Join { relation, global, join_operator } = join;
            refuse(*global, "GLOBAL JOIN")?;
            self.require_few(level)?;
            let mut visible = before.clone();
            visible.relations.extend(&names.relations);
            visible.columns.extend(names.columns.iter().cloned());
            let (right, right_names) = self.bind_factor(level, relation, outer, &visible)?;
            check_aliases(level, &names, &right_names)?;
            let (constraint, side) = self.join_kind(join_operator)?;
            if side == Side::Right {
                self.refuse_lateral(level, &names, &right_names)?;
            }
            let (on, merged) = self.bind_constraint(level, constraint, &names, &right_names, outer, side)?;
            names = merged;
            tree = match side {
                Side::Inner => join_tree(tree, right, false, on),
                Side::Left => join_tree(tree, right, true, on),
                Side::Right => join_tree(right, tree, true, on),
            };
        }
        Ok((tree, names))
    }

    /// Errors: 0A000, for the analytical path, where FROM has too many relations, or these too many columns.
    fn require_few(&self, level: &Level) -> SqlResult<()> {
        if level.relations.len() >= RELATIONS_MAX {
            return Err(self.not_here(format!("FROM with more than {RELATIONS_MAX} relations")));
        }
        if level.relations.len() * level.width > NAMES_MAX {
            return Err(self.not_here("FROM with so many columns"));
        }
        Ok(())
    }

    /// # Errors
    /// 42P10 where the right side of a RIGHT JOIN names columns of its left side, which each of its rows is to have or not.
    fn refuse_lateral(&self, level: &Level, left: &Namespace, right: &Namespace) -> SqlResult<()> {
        for index in &right.relations {
            for slot in self.relation_uses(level, *index) {
                let (named, _) = level.column_of(slot);
                if left.relations.contains(&named) {
                    let name = &level.relations[named].name;
                    return Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        format!("invalid reference to FROM-clause entry for table \"{name}\""),
                    )
                    .with_detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."));
                }
            }
        }
        Ok(())
    }

    fn join_kind<'j>(&self, operator: &'j JoinOperator) -> SqlResult<(Option<&'j JoinConstraint>, Side)> {
        Ok(match operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) => (Some(c), Side::Inner),
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (Some(c), Side::Left),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (Some(c), Side::Right),
            JoinOperator::CrossJoin(JoinConstraint::None) => (None, Side::Inner),
            JoinOperator::FullOuter(_) => return Err(self.not_here("FULL JOIN")),
            JoinOperator::CrossJoin(_)
            | JoinOperator::Semi(_)
            | JoinOperator::LeftSemi(_)
            | JoinOperator::RightSemi(_)
            | JoinOperator::Anti(_)
            | JoinOperator::LeftAnti(_)
            | JoinOperator::RightAnti(_)
            | JoinOperator::CrossApply
            | JoinOperator::OuterApply
            | JoinOperator::AsOf { .. }
            | JoinOperator::StraightJoin(_)
            | JoinOperator::ArrayJoin
            | JoinOperator::LeftArrayJoin
            | JoinOperator::InnerArrayJoin => return Err(SqlError::unsupported("this kind of JOIN")),
        })
    }

    fn bind_constraint(
        &self,
        level: &Level,
        constraint: Option<&JoinConstraint>,
        left: &Namespace,
        right: &Namespace,
        outer: Option<&dyn Scope>,
        side: Side,
    ) -> SqlResult<(Vec<BoundExpr>, Namespace)> {
        let mut all = left.clone();
        all.relations.extend(&right.relations);
        let names: Vec<String> = match constraint {
            None => Vec::new(),
            Some(JoinConstraint::None) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a JOIN needs ON, USING or NATURAL"));
            }
            Some(JoinConstraint::On(condition)) => {
                all.columns.extend(right.columns.iter().cloned());
                let scope = LevelScope { level, namespace: &all, outer };
                let ctx = self.expressions(Aggregates::Forbidden("JOIN conditions"));
                let on = bind_condition(condition, &scope, &ctx, "JOIN/ON")?;
                self.note_effects(&on);
                return Ok((on.into_conjuncts(), all));
            }
            Some(JoinConstraint::Using(columns)) => columns
                .iter()
                .map(|name| {
                    let mut parts = object_name(name)?;
                    match parts.len() {
                        1 => Ok(parts.remove(0)),
                        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "USING takes bare column names")),
                    }
                })
                .collect::<SqlResult<_>>()?,
            Some(JoinConstraint::Natural) => {
                let common = |c: &&VisibleColumn| right.columns.iter().any(|r| r.name == c.name);
                left.columns.iter().filter(common).map(|c| c.name.clone()).collect()
            }
        };
        let mut on = Vec::new();
        let mut merged = Vec::new();
        for name in &names {
            let l = using_column(left, name, "left")?;
            let r = using_column(right, name, "right")?;
            level.mark_used(l.slot);
            level.mark_used(r.slot);
            if l.ty != r.ty {
                return Err(self.not_here("USING over columns of different types"));
            }
            let ctx = self.expressions(Aggregates::Forbidden("JOIN conditions"));
            let column = |c: &VisibleColumn| BoundExpr::column(c.slot, c.ty, c.typmod);
            on.push(bind_comparison(CompareOp::Eq, column(l), column(r), &ctx)?);
            merged.push(if side == Side::Right { r.clone() } else { l.clone() });
        }
        let rest = |from: &Namespace| {
            from.columns.iter().filter(|c| !names.contains(&c.name)).cloned().collect::<Vec<_>>()
        };
        merged.extend(rest(left));
        merged.extend(rest(right));
        all.columns = merged;
        Ok((on, all))
    }

    fn bind_factor(
        &self,
        level: &mut Level,
        factor: &TableFactor,
        outer: Option<&dyn Scope>,
        before: &Namespace,
    ) -> SqlResult<(FromTree, Namespace)> {
        let index = match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                refuse(!with_hints.is_empty() || !index_hints.is_empty(), "a table hint")?;
                refuse(version.is_some(), "a table version")?;
                refuse(!partitions.is_empty(), "PARTITION")?;
                refuse(json_path.is_some(), "a path within a table")?;
                refuse(sample.is_some(), "TABLESAMPLE")?;
                match args {
                    Some(ast::TableFunctionArgs { args, settings }) => {
                        refuse(settings.is_some(), "SETTINGS")?;
                        self.bind_function(
                            level,
                            name,
                            args,
                            *with_ordinality,
                            alias.as_ref(),
                            outer,
                            before,
                        )?
                    }
                    None => {
                        refuse(*with_ordinality, "WITH ORDINALITY on a table")?;
                        self.bind_named(level, name, alias.as_ref())?
                    }
                }
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                refuse(sample.is_some(), "TABLESAMPLE")?;
                self.bind_derived(level, *lateral, subquery, alias.as_ref(), outer, before)?
            }
            TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                self.bind_function(level, name, args, *with_ordinality, alias.as_ref(), outer, before)?
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality } => {
                refuse(*with_offset || with_offset_alias.is_some(), "WITH OFFSET")?;
                self.bind_unnest(level, array_exprs, *with_ordinality, alias.as_ref(), outer, before)?
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                if alias.is_some() {
                    return Err(self.not_here("an alias of a join"));
                }
                return self.bind_joined(level, table_with_joins, outer, before);
            }
            TableFactor::TableFunction { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => {
                return Err(SqlError::unsupported("this kind of FROM item"));
            }
        };
        Ok((FromTree::Relation(index), level.namespace_of(index)))
    }

    fn bind_named(
        &self,
        level: &mut Level,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
    ) -> SqlResult<usize> {
        if let Some(common) = self.common_table(name)? {
            let mut columns = common.columns;
            let shown = apply_alias(alias, &common.name, &mut columns)?;
            let source = RelationSource::Common { part: common.part, rows: common.rows };
            return Ok(level.add(shown, None, columns, source));
        }
        let relation = match self.find_relation(name)? {
            NamedRelation::Found(relation) => relation,
            NamedRelation::System if self.has_settings && is_named(name, "pg_settings") => {
                return self.bind_settings(level, "pg_settings", alias);
            }
            NamedRelation::System => return Err(self.not_here(format!("{name} is a system catalog"))),
        };
        let own = relation.name().to_owned();
        let schema = alias.is_none().then(|| self.ctx.catalog.schema_name(relation.schema()).to_owned());
        self.note_access(relation.oid(), Privileges::SELECT);
        let (mut columns, source) = match relation {
            CatalogRelation::Table(table) => {
                self.note_table(table.oid, TableUse::Read);
                (table_columns(table), RelationSource::Table(table.clone()))
            }
            CatalogRelation::View(view) => {
                let source = self.bind_view(view)?;
                (view_columns(view), source)
            }
            CatalogRelation::Sequence(sequence) => {
                let (columns, plan) = self.bind_sequence(sequence.oid)?;
                (columns, RelationSource::Derived(vec![plan]))
            }
            CatalogRelation::Index(..) => {
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{own}\" is an index")));
            }
        };
        let shown = apply_alias(alias, &own, &mut columns)?;
        Ok(level.add(shown, schema, columns, source))
    }

    /// A sequence is a relation of one row.
    fn bind_sequence(&self, oid: Oid) -> SqlResult<(Vec<RelationColumn>, SelectPlan)> {
        let query = crate::parse::parse_query(&format!(
            "select {LAST_VALUE}('{oid}') as last_value, 0::bigint as log_cnt, {IS_CALLED}('{oid}') as is_called"
        ))?;
        let bound = self.bind_query(&query, None)?;
        let columns = bound.columns.iter().zip(1..).map(|(column, attnum)| RelationColumn {
            name: column.name.clone(),
            ty: column.ty,
            typmod: column.typmod,
            table_oid: oid,
            attnum,
        });
        Ok((columns.collect(), bound.plan))
    }

    /// The session's settings, each row with the value at the moment.
    fn bind_settings(
        &self,
        level: &mut Level,
        name: &str,
        alias: Option<&ast::TableAlias>,
    ) -> SqlResult<usize> {
        let query = crate::parse::parse_query(&settings_query())?;
        let bound = self.bind_query(&query, None)?;
        let mut columns: Vec<RelationColumn> = bound.columns.into_iter().map(RelationColumn::from).collect();
        let shown = apply_alias(alias, name, &mut columns)?;
        Ok(level.add(shown, None, columns, RelationSource::Derived(vec![bound.plan])))
    }

    fn bind_view(&self, view: &ViewDefinition) -> SqlResult<RelationSource> {
        let len = self.views_len.get() + view.sql.len();
        if len > VIEWS_LEN_MAX {
            return Err(self.not_here("views of so much text"));
        }
        self.views_len.set(len);
        let mut query = crate::parse::parse_query(&view.sql)?;
        let nesting = crate::parse::nesting(&mut query);
        let (source, columns) = self.inside_view(view.oid, view.owner, &view.search_path, nesting, || {
            self.bind_in_from(&query, None)
        })?;
        let same = columns.len() >= view.columns.len()
            && view.columns.iter().zip(&columns).all(|(v, b)| v.ty == b.ty);
        if !same {
            return Err(SqlError::internal(format!("view \"{}\" no longer has its columns", view.name)));
        }
        Ok(source)
    }

    fn bind_derived(
        &self,
        level: &mut Level,
        lateral: bool,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        outer: Option<&dyn Scope>,
        before: &Namespace,
    ) -> SqlResult<usize> {
        let Some(alias) = alias else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                .with_hint("For example, FROM (SELECT ...) [AS] foo."));
        };
        let nothing = Namespace::default();
        let namespace = if lateral { before } else { &nothing };
        let (source, columns) = self.bind_in_from(subquery, Some(&LevelScope { level, namespace, outer }))?;
        let mut columns: Vec<RelationColumn> = columns.into_iter().map(RelationColumn::from).collect();
        let name = apply_alias(Some(alias), "", &mut columns)?;
        Ok(level.add(name, None, columns, source))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one FROM item")]
    fn bind_function(
        &self,
        level: &mut Level,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        outer: Option<&dyn Scope>,
        before: &Namespace,
    ) -> SqlResult<usize> {
        let parts = object_name(name)?;
        let function = match parts.as_slice() {
            [function] => function.as_str(),
            [schema, function] if schema == "pg_catalog" => function.as_str(),
            _ => return Err(self.not_here(format!("the function {name} in FROM"))),
        };
        if function == "pg_show_all_settings" && self.has_settings && args.is_empty() && !ordinality {
            return self.bind_settings(level, function, alias);
        }
        let mut exprs = Vec::new();
        for arg in args {
            match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => exprs.push(expr.clone()),
                _ => return Err(SqlError::unsupported("a named argument in FROM")),
            }
        }
        if let Some(set) = set_function(function) {
            if set.gives_values() && alias.is_some_and(|alias| alias.columns.is_empty()) {
                return Err(self.not_here(format!("the values of {function} by an alias")));
            }
            let arrays = self.function_args(level, &set.arrays(&exprs), outer, before)?;
            set.require_one_value(&arrays)?;
            let column = |(at, array): (usize, &BoundExpr)| {
                let name = set.columns.get(at).copied().unwrap_or(function);
                (name.to_owned(), array.ty.element().unwrap_or(PgType::Text))
            };
            let columns = arrays.iter().enumerate().map(column).collect();
            let index =
                self.add_function(level, TableFunction::Unnest(arrays), columns, ordinality, alias)?;
            if alias.is_none() {
                level.relations[index].name = function.to_owned();
            }
            return Ok(index);
        }
        match function {
            "unnest" => self.bind_unnest(level, &exprs, ordinality, alias, outer, before),
            "generate_series" => {
                let bound = self.function_args(level, &exprs, outer, before)?;
                let function = self.series(bound)?;
                let ty = match &function {
                    TableFunction::Series { ty, .. } => *ty,
                    _ => PgType::Unknown,
                };
                self.add_function(level, function, vec![("generate_series".into(), ty)], ordinality, alias)
            }
            _ => {
                let scope = LevelScope { level, namespace: before, outer };
                let ctx = self.expressions(Aggregates::Forbidden("functions in FROM"));
                let list = ast::FunctionArguments::List(ast::FunctionArgumentList {
                    duplicate_treatment: None,
                    args: args.to_vec(),
                    clauses: Vec::new(),
                });
                let call = ast::Expr::Function(ast::Function {
                    name: name.clone(),
                    uses_odbc_syntax: false,
                    parameters: ast::FunctionArguments::None,
                    args: list,
                    filter: None,
                    null_treatment: None,
                    over: None,
                    within_group: Vec::new(),
                });
                let bound = resolve_unknown(bind_expr(&call, &scope, &ctx)?, &ctx)?;
                self.note_effects(&bound);
                let ty = bound.ty;
                let column = vec![(function.to_owned(), ty)];
                self.add_function(level, TableFunction::Scalar(bound), column, ordinality, alias)
            }
        }
    }

    fn function_args(
        &self,
        level: &Level,
        args: &[ast::Expr],
        outer: Option<&dyn Scope>,
        before: &Namespace,
    ) -> SqlResult<Vec<BoundExpr>> {
        let scope = LevelScope { level, namespace: before, outer };
        let ctx = self.expressions(Aggregates::Forbidden("functions in FROM"));
        let bound: Vec<BoundExpr> =
            args.iter().map(|arg| bind_expr(arg, &scope, &ctx)).collect::<SqlResult<_>>()?;
        bound.iter().for_each(|arg| self.note_effects(arg));
        Ok(bound)
    }

    fn series(&self, mut args: Vec<BoundExpr>) -> SqlResult<TableFunction> {
        let ctx = self.expressions(Aggregates::Forbidden("functions in FROM"));
        if !(2..=3).contains(&args.len()) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                "function generate_series does not exist",
            ));
        }
        let step = if args.len() == 3 { args.pop() } else { None };
        let over_time = |ty: PgType| matches!(ty, PgType::Timestamp | PgType::TimestampTz | PgType::Date);
        let (ty, step_ty) = if args.iter().any(|a| over_time(a.ty)) {
            let of = |ty| args.iter().any(|a| a.ty == ty);
            let plain = of(PgType::Timestamp) && !of(PgType::TimestampTz);
            (if plain { PgType::Timestamp } else { PgType::TimestampTz }, PgType::Interval)
        } else {
            let types: Vec<PgType> =
                args.iter().chain(&step).map(|a| a.ty).filter(|ty| *ty != PgType::Unknown).collect();
            let ty = if types.is_empty() { PgType::Int4 } else { common_type(&types, "generate_series")? };
            let ty = if ty == PgType::Int2 { PgType::Int4 } else { ty };
            (ty, ty)
        };
        if !matches!(
            ty,
            PgType::Int4 | PgType::Int8 | PgType::Numeric | PgType::Timestamp | PgType::TimestampTz
        ) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                "function generate_series does not exist",
            ));
        }
        let to = |e: BoundExpr, ty| coerce(e, ty, TypeMod::NONE, CastContext::Implicit, &ctx);
        let stop = to(args.pop().expect("two arguments"), ty)?;
        let start = to(args.pop().expect("two arguments"), ty)?;
        let step = step.map(|e| to(e, step_ty)).transpose()?;
        if step.is_none() && step_ty == PgType::Interval {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                "function generate_series does not exist",
            ));
        }
        Ok(TableFunction::Series { ty, start, stop, step })
    }

    fn bind_unnest(
        &self,
        level: &mut Level,
        args: &[ast::Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        outer: Option<&dyn Scope>,
        before: &Namespace,
    ) -> SqlResult<usize> {
        let arrays = self.function_args(level, args, outer, before)?;
        let mut columns = Vec::new();
        for array in &arrays {
            let Some(element) = array.ty.element() else {
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "function unnest does not exist").with_hint(
                    "No function matches the given name and argument types. You might need to add explicit type casts.",
                ));
            };
            columns.push(("unnest".to_owned(), element));
        }
        self.add_function(level, TableFunction::Unnest(arrays), columns, ordinality, alias)
    }

    fn add_function(
        &self,
        level: &mut Level,
        function: TableFunction,
        columns: Vec<(String, PgType)>,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> SqlResult<usize> {
        let own = columns.first().map_or("unnest".to_owned(), |c| c.0.clone());
        let single = columns.len() == 1;
        let mut columns: Vec<RelationColumn> = columns
            .into_iter()
            .map(|(name, ty)| RelationColumn {
                name,
                ty,
                typmod: TypeMod::NONE,
                table_oid: Oid(0),
                attnum: 0,
            })
            .collect();
        if let (Some(alias), true) = (alias, single) {
            columns[0].name = fold_ident(&alias.name);
        }
        if ordinality {
            columns.push(RelationColumn {
                name: "ordinality".into(),
                ty: PgType::Int8,
                typmod: TypeMod::NONE,
                table_oid: Oid(0),
                attnum: 0,
            });
        }
        let name = apply_alias(alias, &own, &mut columns)?;
        let mut uses = Vec::new();
        let mut exprs: Vec<&BoundExpr> = Vec::new();
        match &function {
            TableFunction::Series { start, stop, step, .. } => {
                exprs.extend([Some(start), Some(stop), step.as_ref()].into_iter().flatten())
            }
            TableFunction::Unnest(arrays) => exprs.extend(arrays),
            TableFunction::Scalar(expr) => exprs.push(expr),
        }
        for expr in exprs {
            self.slots_used(expr, 0, &mut uses);
        }
        Ok(level.add(name, None, columns, RelationSource::Function { function, ordinality, uses }))
    }

    /// Adds the slots of the row `depth` levels out that `expr` or a subquery in it names.
    pub(super) fn slots_used(&self, expr: &BoundExpr, depth: usize, into: &mut Vec<usize>) {
        outer_columns(expr, depth, &|id, f| self.with_subquery(id, |plan| f(plan)), &mut |slot| {
            if !into.contains(&slot) {
                into.push(slot);
            }
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Inner,
    Left,
    Right,
}

fn join_tree(left: FromTree, right: FromTree, left_outer: bool, on: Vec<BoundExpr>) -> FromTree {
    FromTree::Join { left: Box::new(left), right: Box::new(right), left_outer, on }
}

fn view_columns(view: &ViewDefinition) -> Vec<RelationColumn> {
    view.columns
        .iter()
        .enumerate()
        .map(|(i, column)| RelationColumn {
            name: column.name.to_string(),
            ty: column.ty,
            typmod: column.typmod,
            table_oid: view.oid,
            attnum: i16::try_from(i + 1).expect("a view has few columns"),
        })
        .collect()
}

/// Whether that is the name's last part.
fn is_named(name: &ast::ObjectName, last: &str) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| fold_ident(ident) == last)
}

/// Renames columns as the alias says; answers the relation's name.
fn apply_alias(
    alias: Option<&ast::TableAlias>,
    own: &str,
    columns: &mut [RelationColumn],
) -> SqlResult<String> {
    let Some(ast::TableAlias { explicit: _, name, columns: names, at }) = alias else {
        return Ok(own.to_owned());
    };
    refuse(at.is_some(), "AT in an alias")?;
    let name = fold_ident(name);
    let live = columns.iter().filter(|c| !c.name.is_empty()).count();
    if names.len() > live {
        return Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("table \"{name}\" has {live} columns available but {} columns specified", names.len()),
        ));
    }
    for (column, new) in columns.iter_mut().filter(|c| !c.name.is_empty()).zip(names) {
        let ast::TableAliasColumnDef { name, data_type } = new;
        refuse(data_type.is_some(), "a column definition list")?;
        column.name = fold_ident(name);
    }
    Ok(name)
}

fn check_aliases(level: &Level, left: &Namespace, right: &Namespace) -> SqlResult<()> {
    for &new in &right.relations {
        let new = &level.relations[new];
        let clash = left.relations.iter().map(|&old| &level.relations[old]).find(|old| {
            old.name == new.name && (old.schema.is_none() || new.schema.is_none() || old.schema == new.schema)
        });
        if clash.is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{}\" specified more than once", new.name),
            ));
        }
    }
    Ok(())
}

fn using_column<'n>(names: &'n Namespace, name: &str, side: &str) -> SqlResult<&'n VisibleColumn> {
    let mut matching = names.columns.iter().filter(|column| column.name == name);
    let column = matching.next().ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )
    })?;
    if matching.next().is_some() {
        return Err(SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("common column name \"{name}\" appears more than once in {side} table"),
        ));
    }
    Ok(column)
}
