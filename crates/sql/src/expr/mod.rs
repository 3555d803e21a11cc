//! Expressions: binding against a scope, analysis, evaluation a row at a time, aggregates.
//!
//! Holds no state: names come through [`Scope`], types of the catalog through `FormatContext::names`, effects and the session
//! through [`SessionContext`], subqueries through [`SubqueryBinder`] and [`SubqueryEval`]. What is not known here fails with
//! 0A000 or 42883 while binding; the planner may then try the analytical path.

mod aggregate;
mod analysis;
mod bind;
mod bind_call;
mod bind_context;
mod bind_operator;
mod bind_row;
mod bind_type;
mod coerce;
mod eval;
mod eval_context;
mod fold;
mod function;
mod functions;
mod output_name;
mod regex;
mod resolve;
mod row_test;
mod scope;
mod series;
mod set_function;
mod tree;

pub use aggregate::{Accumulator, AggregateCall, AggregateKind, Regression, SortKey};
pub use analysis::Volatility;
pub use bind::{bind_comparison, bind_condition, bind_expr, bind_sql_text, fold_ident};
pub use bind_call::is_aggregate;
pub use bind_context::{Aggregates, BindContext, BoundSubquery, ParamTypes, SubqueryBinder};
pub(crate) use bind_row::row_of;
pub use bind_type::bind_type;
pub use coerce::{coerce, coerce_assignment, coerce_condition, common_type, resolve_unknown};
pub use eval::{eval, eval_bool, eval_filter, eval_ref};
pub use eval_context::{
    AdvisoryKey, Among, EvalCtx, EvalError, EvalResult, NoSubqueries, SessionContext, StatementCtx,
    SubqueryEval,
};
pub use fold::{FOLDING_BYTES_MAX, NoSession, eval_constant_expr};
pub use function::{ArgType, FunctionDef, Implementation};
pub(crate) use functions::{IS_CALLED, LAST_VALUE, extension_of, identity_value};
pub use output_name::output_name;
pub(crate) use row_test::{bare_column, follows, is_plain_text, key_function, row_test};
pub use scope::{
    ColumnRef, EmptyScope, Scope, TableScope, ambiguous_column, at_ident, at_name, missing_from_entry,
    undefined_column,
};
pub use series::series_counts_down;
pub use set_function::{SetFunction, set_function};
pub use tree::{
    BoundExpr, Collate, CompareOp, ExprKind, FunctionRef, SubqueryColumn, SubqueryExpr, SubqueryId,
    SubqueryTest,
};
