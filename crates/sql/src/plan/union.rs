//! UNION beside the parts of a statement; other queries with set operations are the analytical path's.

use base::{Oid, SqlError, SqlResult, SqlState};
use sqlparser::ast;
use types::{CastContext, PgType, TypeMod};

use super::binder::Binder;
use super::level::{Level, LevelScope, Namespace, RelationColumn, RelationSource};
use super::ordering::check_comparable;
use super::point_plan::DistinctPlan;
use super::select::{BoundQuery, Tail};
use crate::expr::{Aggregates, BoundExpr, Scope, coerce, common_type};

/// Unions within unions, at most.
const DEPTH_MAX: u32 = 50;

impl Binder<'_> {
    pub(super) fn bind_union(
        &self,
        arms: [&ast::SetExpr; 2],
        quantifier: ast::SetQuantifier,
        tail: &Tail<'_>,
        outer: Option<&dyn Scope>,
    ) -> SqlResult<BoundQuery> {
        let distinct = match quantifier {
            ast::SetQuantifier::All => DistinctPlan::No,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => DistinctPlan::All,
            _ => return Err(SqlError::unsupported("BY NAME of a set operation")),
        };
        let around = Level::default();
        let namespace = Namespace::default();
        let scope = LevelScope { level: &around, namespace: &namespace, outer };
        let depth = self.unions.get();
        if depth == DEPTH_MAX {
            return Err(crate::parse::too_deep());
        }
        self.unions.set(depth + 1);
        let bound = self.bind_arms(arms, quantifier, &scope);
        self.unions.set(depth);
        let mut bound = bound?;
        let width = bound[0].columns.len();
        if bound.iter().any(|arm| arm.columns.len() != width) {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let ctx = self.expressions(Aggregates::Forbidden("UNION"));
        let mut columns = Vec::with_capacity(width);
        for i in 0..width {
            let types: Vec<PgType> = bound.iter().map(|arm| arm.columns[i].ty).collect();
            let ty = common_type(&types, "UNION")?;
            let first = &bound[0].columns[i];
            let same =
                bound.iter().all(|arm| arm.columns[i].ty == ty && arm.columns[i].typmod == first.typmod);
            let typmod = if same { first.typmod } else { TypeMod::NONE };
            let name = first.name.clone();
            columns.push(RelationColumn { name, ty, typmod, table_oid: Oid(0), attnum: 0 });
            for arm in bound.iter_mut().filter(|arm| arm.columns[i].ty != ty) {
                let null = BoundExpr::constant(types::Datum::Null, ty);
                let value = std::mem::replace(&mut arm.plan.project[i], null);
                arm.plan.project[i] = coerce(value, ty, TypeMod::NONE, CastContext::Implicit, &ctx)?;
            }
            if matches!(distinct, DistinctPlan::All) {
                check_comparable(ty, "equality")?;
            }
        }
        let source = RelationSource::Derived(bound.into_iter().map(|arm| arm.plan).collect());
        self.bind_over("*SELECT*", columns, source, distinct, tail, outer, around.correlated())
    }

    fn bind_arms(
        &self,
        [mut first, second]: [&ast::SetExpr; 2],
        quantifier: ast::SetQuantifier,
        scope: &LevelScope<'_>,
    ) -> SqlResult<Vec<BoundQuery>> {
        // A chain is one level.
        let mut arms = vec![second];
        while let ast::SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right } =
            first
            && *set_quantifier == quantifier
        {
            arms.push(right);
            first = left;
        }
        arms.push(first);
        let bare = Tail { order_by: None, limit: None, offset: None, locks: &[], is_arm: true };
        arms.into_iter().rev().map(|arm| self.bind_body(arm, &bare, Some(scope))).collect()
    }
}
