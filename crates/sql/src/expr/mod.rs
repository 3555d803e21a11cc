//! Expressions: binding against a scope, analysis, evaluation a row at a time, aggregates.
//!
//! Holds no state: names come through [`Scope`], types of the catalog through `FormatContext::names`, effects and the session
//! through [`SessionContext`], subqueries through [`SubqueryBinder`] and [`SubqueryEval`]. What is not known here fails with
//! 0A000 or 42883 while binding; the planner may then try the analytical path.

mod aggregate;
mod analysis;
mod bind;
mod bind_context;
mod coerce;
mod eval;
mod eval_context;
mod function;
mod scope;
mod tree;

pub use aggregate::{Accumulator, AggregateCall, AggregateKind, SortKey};
pub use analysis::Volatility;
pub use bind::{
    bind_comparison, bind_condition, bind_expr, bind_sql_text, bind_type, fold_ident, output_name,
};
pub use bind_context::{Aggregates, BindContext, BoundSubquery, ParamTypes, SubqueryBinder};
pub use coerce::{coerce, coerce_assignment, coerce_condition, common_type, resolve_unknown};
pub use eval::{eval, eval_bool, eval_filter, eval_ref};
pub use eval_context::{
    AdvisoryKey, EvalCtx, EvalError, EvalResult, NoSubqueries, SessionContext, StatementCtx, SubqueryEval,
};
pub use function::{ArgType, FunctionDef};
pub use scope::{
    ColumnRef, EmptyScope, Scope, TableScope, ambiguous_column, missing_from_entry, undefined_column,
};
pub use tree::{
    BoundExpr, Collate, CompareOp, ExprKind, FunctionRef, SubqueryColumn, SubqueryExpr, SubqueryId, SubqueryTest,
};
