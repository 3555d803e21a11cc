//! UPDATE.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::{Privileges, Table};

use super::binder::Binder;
use super::from_clause::{FromTree, table_columns};
use super::level::{Level, LevelScope, Namespace, RelationSource};
use super::parts::Changed;
use super::point_plan::{
    ChangeSource, CheckPlan, ExternalSource, Node, PointStatement, ReturningPlan, TargetColumn, UpdatePlan,
};
use super::refuse::refuse;
use super::target::{add as add_assignment, given, is_untyped, refuse_new_value};
use super::{BoundPlan, Command, OutputColumn, PlanContext, PlanKind};
use crate::expr::{BoundExpr, EmptyScope, fold_ident};

pub(super) fn bind_update(update: &ast::Update, ctx: &PlanContext<'_>) -> SqlResult<BoundPlan> {
    let parts = clauses(update)?;
    let assignments = &update.assignments;
    let binder = Binder::new(*ctx);
    let bound = change(&binder, &parts, assignments).and_then(|Changed { statement, output, cost }| {
        finish(&binder, Command::Update, statement, output, cost)
    });
    let error = match bound {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    let Some(reason) = binder.reason_for(&error) else { return Err(error) };
    if assignments.iter().any(|a| matches!(a.target, ast::AssignmentTarget::Tuple(_))) {
        return Err(error);
    }
    bind_external_update(&parts, assignments, reason, ctx)
}

/// The change itself, its rows found here.
pub(super) fn bind_change(binder: &Binder<'_>, update: &ast::Update) -> SqlResult<Changed> {
    change(binder, &clauses(update)?, &update.assignments)
}

fn change(binder: &Binder<'_>, parts: &External<'_>, assignments: &[ast::Assignment]) -> SqlResult<Changed> {
    let target = ChangedLevel::bind(binder, parts.table, Privileges::UPDATE, "UPDATE of", parts.from)?;
    let set = target.with_scope(|scope| binder.bind_assignments(&target.table, assignments, scope))?;
    let conditions = target.with_scope(|scope| binder.bind_where(parts.selection, scope))?;
    let (returning, output) = target.bind_returning(binder, parts.returning)?;
    target.note_reads(binder, &conditions);
    let generated = target.bind_generated(binder, &set)?;
    let checks = target.bind_checks(binder, &set, &generated)?;
    let (table, width, joined) = (Arc::clone(&target.table), target.level.width, !parts.from.is_empty());
    let (key, slot_names) = (target.key, target.level.slot_names());
    let in_part =
        !joined && checks.is_empty() && generated.is_empty() && concerns_its_row_alone(&table, &set);
    let (from, cost) = match in_part {
        true => target.plan_as_used(binder, conditions)?,
        false => target.plan(binder, conditions)?,
    };
    let id = binder.next_node();
    let source = ChangeSource::Node(from);
    let plan = UpdatePlan {
        id,
        table,
        key,
        width,
        slot_names,
        source,
        assignments: set,
        generated,
        checks,
        joined,
        in_part,
        returning,
    };
    Ok(Changed { statement: PointStatement::Update(Box::new(plan)), output, cost })
}

/// Whether new values in these columns are nothing to any index or foreign key.
fn concerns_its_row_alone(table: &Table, set: &[(usize, BoundExpr)]) -> bool {
    table.foreign_keys.is_empty()
        && table.referenced_by.is_empty()
        // What dropped columns had is to go when their rows change.
        && !table.columns.iter().any(|column| column.dropped)
        && !table.indexes.iter().any(|index| set.iter().any(|(assigned, _)| index.uses(*assigned)))
}

fn clauses(update: &ast::Update) -> SqlResult<External<'_>> {
    let ast::Update {
        update_token: _,
        optimizer_hints: _,
        table,
        assignments: _,
        from,
        selection,
        returning,
        output,
        or,
        order_by,
        limit,
    } = update;
    refuse(output.is_some(), "OUTPUT")?;
    refuse(or.is_some(), "UPDATE OR")?;
    refuse(!order_by.is_empty() || limit.is_some(), "ORDER BY or LIMIT of UPDATE")?;
    let from = match from {
        None => &[][..],
        Some(ast::UpdateTableFromKind::AfterSet(from)) => from,
        Some(ast::UpdateTableFromKind::BeforeSet(_)) => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"FROM\""));
        }
    };
    Ok(External { table, from, selection: selection.as_ref(), returning: returning.as_deref() })
}

/// The clauses of a change, whose rows may be found elsewhere.
pub(super) struct External<'q> {
    pub(super) table: &'q ast::TableWithJoins,
    pub(super) from: &'q [ast::TableWithJoins],
    pub(super) selection: Option<&'q ast::Expr>,
    pub(super) returning: Option<&'q [ast::SelectItem]>,
}

impl External<'_> {
    /// The query that finds the rows: the target's columns, then `values`.
    ///
    /// # Errors
    /// 0A000 for a target without primary key.
    pub(super) fn query(&self, target: &ChangedLevel, values: Vec<ast::Expr>) -> SqlResult<Box<ast::Query>> {
        if target.table.primary_key.is_none() {
            return Err(SqlError::unsupported(format!(
                "a change of table \"{}\", which has no primary key, by a query of the analytical path",
                target.table.name
            )));
        }
        let shown = ast::Ident::with_quote('"', &target.level.relations[0].name);
        let mut projection: Vec<ast::SelectItem> = target
            .table
            .live_columns()
            .map(|(_, column)| {
                let name = ast::Ident::with_quote('"', column.name.as_str());
                ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(vec![shown.clone(), name]))
            })
            .collect();
        projection.extend(values.into_iter().map(ast::SelectItem::UnnamedExpr));
        let mut query = crate::parse::parse_query("SELECT 1")?;
        let ast::SetExpr::Select(select) = &mut *query.body else {
            return Err(SqlError::internal("SELECT 1 is not a SELECT"));
        };
        select.projection = projection;
        select.from = std::iter::once(self.table).chain(self.from).cloned().collect();
        select.selection = self.selection.cloned();
        Ok(Box::new(query))
    }

    /// RETURNING over the target's row alone, all that is known here of a row that was found elsewhere.
    ///
    /// # Errors
    /// 0A000 where it shows other relations' columns.
    pub(super) fn bind_returning(
        &self,
        target: &ChangedLevel,
        binder: &Binder<'_>,
    ) -> SqlResult<(Option<ReturningPlan>, Vec<OutputColumn>)> {
        let bound = target.bind_returning(binder, self.returning);
        if self.from.is_empty() {
            return bound;
        }
        let is_star = |item: &ast::SelectItem| matches!(item, ast::SelectItem::Wildcard(_));
        let is_others = match &bound {
            Ok(_) => self.returning.is_some_and(|items| items.iter().any(is_star)),
            Err(error) => matches!(error.state(), SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN),
        };
        match is_others {
            true => Err(SqlError::unsupported(
                "RETURNING columns of other relations in a change whose rows the analytical path finds",
            )),
            false => bound,
        }
    }

    /// Completes the plan of a change with the query that finds its rows.
    pub(super) fn attach(
        &self,
        mut plan: BoundPlan,
        query: Box<ast::Query>,
        reason: String,
        target: &ChangedLevel,
        assignments: &[ast::Assignment],
        ctx: &PlanContext<'_>,
    ) -> SqlResult<BoundPlan> {
        let source = super::analytic::plan(&query, String::new(), ctx)?;
        if ctx.params.known().contains(&types::PgType::Unknown) {
            self.infer_parameters(target, assignments, ctx);
        }
        super::analytic::merge_accesses(&mut plan.accesses, source.accesses);
        plan.parameters = ctx.params.finish()?;
        if let PlanKind::Point(point) = &mut plan.kind {
            point.external = Some(Box::new(ExternalSource { query, reason }));
        }
        Ok(plan)
    }

    /// Gives parameters the types that the target's columns want of them. What else is to be said of the clauses is said where the query is planned.
    fn infer_parameters(
        &self,
        target: &ChangedLevel,
        assignments: &[ast::Assignment],
        ctx: &PlanContext<'_>,
    ) {
        let mut conditions: Vec<&ast::Expr> = self.selection.into_iter().collect();
        while let Some(condition) = conditions.pop() {
            match condition {
                ast::Expr::Nested(inner) => conditions.push(inner),
                ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
                    conditions.extend([&**right, &**left]);
                }
                one => {
                    let _ = target.with_scope(|scope| Binder::new(*ctx).bind_where(Some(one), scope));
                }
            }
        }
        for one in assignments {
            let one = std::slice::from_ref(one);
            let _ = target.with_scope(|scope| Binder::new(*ctx).bind_assignments(&target.table, one, scope));
        }
    }
}

fn bind_external_update(
    parts: &External<'_>,
    assignments: &[ast::Assignment],
    reason: String,
    ctx: &PlanContext<'_>,
) -> SqlResult<BoundPlan> {
    let binder = Binder::new(*ctx);
    let target = ChangedLevel::bind(&binder, parts.table, Privileges::UPDATE, "UPDATE of", &[])?;
    let mut values = Vec::new();
    let mut assigned = Vec::new();
    let mut set: Vec<(usize, BoundExpr)> = Vec::new();
    for ast::Assignment { target: to, value } in assignments {
        let ast::AssignmentTarget::ColumnName(name) = to else {
            return Err(SqlError::internal("an assignment to several columns is bound here"));
        };
        let (position, column) = binder.target_column(&target.table, name)?;
        let value = given(value);
        refuse_new_value(column, value.is_some())?;
        let bound = match value {
            None => binder.bind_default(column)?,
            // In a query it would be text.
            Some(value) if is_untyped(value) => {
                binder.bind_assigned(Some(value), column, &EmptyScope, "UPDATE")?
            }
            Some(value) => {
                values.push(value.clone());
                let name = column.name.to_string();
                assigned.push(TargetColumn { name, ty: column.ty, typmod: column.typmod });
                BoundExpr::column(assigned.len() - 1, column.ty, column.typmod)
            }
        };
        add_assignment(&mut set, position, bound, column)?;
    }
    let (returning, output) = parts.bind_returning(&target, &binder)?;
    let generated = target.bind_generated(&binder, &set)?;
    let checks = target.bind_checks(&binder, &set, &generated)?;
    let query = parts.query(&target, values)?;
    let plan = UpdatePlan {
        id: binder.next_node(),
        table: Arc::clone(&target.table),
        key: target.key,
        width: target.level.width,
        slot_names: target.level.slot_names(),
        source: ChangeSource::External { assigned },
        assignments: set,
        generated,
        checks,
        joined: false,
        in_part: false,
        returning,
    };
    let plan = finish_external(&binder, Command::Update, PointStatement::Update(Box::new(plan)), output);
    parts.attach(plan, query, reason, &target, assignments, ctx)
}

/// The level of an UPDATE or DELETE: the target, whose columns are slots `0..`, and the relations beside it.
pub(super) struct ChangedLevel {
    pub(super) table: Arc<Table>,
    /// Where the target's key is remembered.
    pub(super) key: usize,
    pub(super) level: Level,
    namespace: Namespace,
    /// What RETURNING's `*` is over: the target first, then the rest.
    trees: Vec<FromTree>,
}

impl ChangedLevel {
    pub(super) fn bind(
        binder: &Binder<'_>,
        target: &ast::TableWithJoins,
        privilege: Privileges,
        verb: &str,
        from: &[ast::TableWithJoins],
    ) -> SqlResult<ChangedLevel> {
        let ast::TableWithJoins { relation, joins } = target;
        refuse(!joins.is_empty(), "a join as the target")?;
        let ast::TableFactor::Table {
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
        } = relation
        else {
            return Err(SqlError::unsupported(format!("{verb} something that is not a table")));
        };
        let extra = args.is_some()
            || !with_hints.is_empty()
            || version.is_some()
            || *with_ordinality
            || !partitions.is_empty()
            || json_path.is_some()
            || sample.is_some()
            || !index_hints.is_empty();
        refuse(extra, "a clause of the target table")?;
        let table = binder.bind_target(name, privilege, verb)?;
        let (shown, schema) = match alias {
            None => {
                let schema = binder.ctx.catalog.schema_name(table.schema).to_owned();
                (table.name.to_string(), Some(schema))
            }
            Some(ast::TableAlias { explicit: _, name, columns, at }) => {
                refuse(!columns.is_empty() || at.is_some(), "column aliases of the target table")?;
                (fold_ident(name), None)
            }
        };
        let mut level = Level::default();
        let source = RelationSource::Table(Arc::clone(&table));
        let index = level.add(shown, schema, table_columns(&table), source);
        let key = binder.next_key();
        level.relations[index].key = Some(key);
        let mut namespace = level.namespace_of(index);
        let mut trees = vec![FromTree::Relation(index)];
        trees.extend(binder.bind_from(&mut level, from, None, &mut namespace)?);
        Ok(ChangedLevel { table, key, level, namespace, trees })
    }

    /// The generated columns that come of what is assigned.
    fn bind_generated(
        &self,
        binder: &Binder<'_>,
        set: &[(usize, BoundExpr)],
    ) -> SqlResult<Vec<(usize, BoundExpr)>> {
        binder.bind_generated(&self.table, &|column| set.iter().any(|(c, _)| *c == column))
    }

    /// The CHECK constraints of columns with new values.
    fn bind_checks(
        &self,
        binder: &Binder<'_>,
        set: &[(usize, BoundExpr)],
        generated: &[(usize, BoundExpr)],
    ) -> SqlResult<Vec<CheckPlan>> {
        binder.bind_checks(&self.table, &|column| set.iter().chain(generated).any(|(c, _)| *c == column))
    }

    pub(super) fn with_scope<T>(&self, f: impl FnOnce(&LevelScope<'_>) -> T) -> T {
        f(&LevelScope { level: &self.level, namespace: &self.namespace, outer: None })
    }

    pub(super) fn bind_returning(
        &self,
        binder: &Binder<'_>,
        items: Option<&[ast::SelectItem]>,
    ) -> SqlResult<(Option<ReturningPlan>, Vec<OutputColumn>)> {
        let Some(items) = items else { return Ok((None, Vec::new())) };
        let (project, output) = self.with_scope(|scope| binder.bind_returning(items, scope))?;
        Ok((Some(ReturningPlan { project }), output))
    }

    /// Notes SELECT on the target if any of its columns is read.
    pub(super) fn note_reads(&self, binder: &Binder<'_>, conditions: &[BoundExpr]) {
        for condition in conditions {
            binder.note_effects(condition);
        }
        if (0..self.table.columns.len()).any(|slot| self.level.is_used(slot)) {
            binder.note_access(self.table.oid, Privileges::SELECT);
        }
    }

    /// The source of the rows to change, every column of the target filled.
    pub(super) fn plan(self, binder: &Binder<'_>, conditions: Vec<BoundExpr>) -> SqlResult<(Node, f64)> {
        for slot in 0..self.table.columns.len() {
            self.level.mark_used(slot);
        }
        self.plan_as_used(binder, conditions)
    }

    /// The source of the rows to change, with those columns of the target that something names.
    fn plan_as_used(mut self, binder: &Binder<'_>, conditions: Vec<BoundExpr>) -> SqlResult<(Node, f64)> {
        let chosen = binder.plan_from(&mut self.level, self.trees, conditions, None)?;
        Ok((chosen.node, chosen.cost))
    }
}

/// Wraps the plan of a change whose rows are found elsewhere: some parameters' types only the query can tell.
pub(super) fn finish_external(
    binder: &Binder<'_>,
    command: Command,
    statement: PointStatement,
    output: Vec<OutputColumn>,
) -> BoundPlan {
    wrap(binder, command, statement, output, 1.0, binder.ctx.params.known())
}

/// Wraps the plan of a change.
pub(super) fn finish(
    binder: &Binder<'_>,
    command: Command,
    statement: PointStatement,
    output: Vec<OutputColumn>,
    cost: f64,
) -> SqlResult<BoundPlan> {
    let parameters = binder.ctx.params.finish()?;
    Ok(wrap(binder, command, statement, output, cost, parameters))
}

fn wrap(
    binder: &Binder<'_>,
    command: Command,
    statement: PointStatement,
    output: Vec<OutputColumn>,
    cost: f64,
    parameters: Vec<types::PgType>,
) -> BoundPlan {
    let plan = binder.point_plan(statement, cost);
    BoundPlan {
        command,
        output,
        parameters,
        accesses: binder.accesses(),
        read_only: false,
        kind: PlanKind::Point(Box::new(plan)),
    }
}

#[cfg(test)]
mod tests {
    use base::SqlState;

    use crate::session::testing::Bench;

    #[test]
    fn what_is_not_assigned_stays_whether_or_not_it_is_asked_for() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        let table = "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text, c numeric, d text NOT NULL)";
        bench.run(&mut session, table);
        let rows = "INSERT INTO t VALUES (1, 10, 'one', 1.50, 'first'), (2, 20, NULL, NULL, 'second')";
        bench.run(&mut session, rows);
        let all = "SELECT id, a, coalesce(b, '-'), coalesce(c, 0), d FROM t ORDER BY id";
        for (sql, lines) in [
            ("UPDATE t SET a = a + 1 WHERE id = 1 RETURNING d, a", &["first|11"][..]),
            (all, &["1|11|one|1.50|first", "2|20|-|0|second"][..]),
            ("UPDATE t SET c = c * 2, b = d WHERE id = 1 RETURNING *", &["1|11|first|3.00|first"][..]),
            ("UPDATE t SET b = 'x', c = 7, a = 0 WHERE b IS NULL RETURNING id", &["2"][..]),
            ("UPDATE t SET b = NULL RETURNING 1", &["1", "1"][..]),
            (all, &["1|11|-|3.00|first", "2|0|-|7|second"][..]),
        ] {
            assert_eq!(bench.run(&mut session, sql).lines(), lines, "{sql}");
        }
        let error = bench.fail(&mut session, "UPDATE t SET d = NULL, a = 5 WHERE id = 2");
        assert_eq!(error.state(), SqlState::NOT_NULL_VIOLATION);
        // Rows from before a column was added, and what an index wants.
        bench.run(&mut session, "ALTER TABLE t ADD COLUMN e int DEFAULT 9");
        bench.run(&mut session, "UPDATE t SET a = 1 WHERE id = 1");
        assert_eq!(bench.run(&mut session, "SELECT e FROM t WHERE a = 1").lines(), ["9"]);
        bench.run(&mut session, "CREATE INDEX ON t (a)");
        bench.run(&mut session, "UPDATE t SET a = 77 WHERE id = 2");
        assert_eq!(bench.run(&mut session, "SELECT d FROM t WHERE a = 77").lines(), ["second"]);
    }
}
