//! VALUES as a query.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use types::{CastContext, PgType, TypeMod};

use super::OutputColumn;
use super::binder::Binder;
use super::from_clause::FromTree;
use super::level::{Level, LevelScope, Namespace, RelationColumn, RelationSource};
use super::point_plan::DistinctPlan;
use super::select::{BoundQuery, Parts, Tail, require_few_columns, star_item};
use crate::expr::{Aggregates, BoundExpr, Scope, bind_expr, coerce, common_type};

impl Binder<'_> {
    pub(super) fn bind_values(
        &self,
        values: &ast::Values,
        tail: &Tail<'_>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<BoundQuery> {
        let ast::Values { explicit_row: _, value_keyword: _, rows } = values;
        let nothing = Level::default();
        let namespace = Namespace::default();
        let before = LevelScope { level: &nothing, namespace: &namespace, outer };
        let ctx = self.expressions(Aggregates::Forbidden("VALUES"));
        let mut bound: Vec<Vec<BoundExpr>> = Vec::with_capacity(rows.len());
        for row in rows {
            let row: Vec<BoundExpr> =
                row.content.iter().map(|expr| bind_expr(expr, &before, &ctx)).collect::<SqlResult<_>>()?;
            if bound.first().is_some_and(|first| first.len() != row.len()) {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            bound.push(row);
        }
        let width = bound.first().map_or(0, Vec::len);
        require_few_columns(width)?;
        let mut columns = Vec::with_capacity(width);
        for i in 0..width {
            let types: Vec<PgType> =
                bound.iter().map(|row| row[i].ty).filter(|ty| *ty != PgType::Unknown).collect();
            let ty = if types.is_empty() { PgType::Text } else { common_type(&types, "VALUES")? };
            let first = bound[0][i].typmod;
            let typmod = if bound.iter().all(|row| row[i].ty == ty && row[i].typmod == first) {
                first
            } else {
                TypeMod::NONE
            };
            for row in &mut bound {
                let expr = std::mem::replace(&mut row[i], BoundExpr::constant(types::Datum::Null, ty));
                row[i] = coerce(expr, ty, typmod, CastContext::Implicit, &ctx)?;
                self.note_effects(&row[i]);
            }
            let name = format!("column{}", i + 1);
            columns.push(RelationColumn { name, ty, typmod, table_oid: Oid(0), attnum: 0 });
        }
        let source = RelationSource::Values(bound);
        self.bind_over("*VALUES*", columns, source, DistinctPlan::No, tail, outer, nothing.correlated())
    }

    /// A level over one relation whose columns it shows. `correlated`: what the relation is made of names rows further out.
    #[expect(clippy::too_many_arguments, reason = "the parts of a level")]
    pub(super) fn bind_over(
        &self,
        name: &str,
        columns: Vec<RelationColumn>,
        source: RelationSource,
        distinct: DistinctPlan,
        tail: &Tail<'_>,
        outer: Option<&dyn Scope>,
        correlated: bool,
    ) -> SqlResult<BoundQuery> {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut level = Level::default();
        let index = level.add(name.into(), None, columns, source);
        let namespace = level.namespace_of(index);
        let scope = LevelScope { level: &level, namespace: &namespace, outer };
        let outputs: Vec<OutputColumn> =
            names.into_iter().enumerate().map(|(slot, name)| star_item(&level, slot, name).column).collect();
        let mut project: Vec<BoundExpr> =
            outputs.iter().enumerate().map(|(i, c)| BoundExpr::column(i, c.ty, c.typmod)).collect();
        let visible = project.len();
        let sort = self.bind_order_by(tail.order_by, &mut project, &outputs, &scope)?;
        if matches!(distinct, DistinctPlan::All) && project.len() > visible {
            return Err(SqlError::unsupported("ORDER BY of an expression behind UNION"));
        }
        let parts = Parts { conditions: Vec::new(), aggregate: None, project, visible, distinct, sort };
        let mut plan = self.finish_level(level, vec![FromTree::Relation(index)], parts, tail)?;
        plan.correlated |= correlated;
        Ok(BoundQuery { plan, columns: outputs })
    }
}
