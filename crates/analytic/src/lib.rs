//! The analytical path: queries answered by DataFusion over a snapshot.
//!
//! The only crate that names DataFusion. A statement's expressions are bound by the point path's binder (`sql::expr`), so both
//! paths share names, types and semantics; what stands around expressions (FROM, grouping, windows, set operations, WITH) is
//! bound here, into DataFusion's logical plan. Expressions become Arrow's where Arrow answers as PostgreSQL does, and row
//! functions over the point path's evaluator otherwise. `pg_catalog` and `information_schema` are tables made in `catalog`.
//!
//! Runs on analytical threads only: [`run`] blocks, on pages and on its listener.

mod aggregate;
mod apply;
mod arithmetic;
mod binder;
mod built_arrays;
mod cancel;
mod catalog;
mod common_table;
mod compare_rows;
mod concat;
mod condition;
mod error;
mod expand;
mod filters_first;
mod first_rows;
mod fixed_filter;
mod float_groups;
mod fresh_rows;
mod from;
mod group;
mod guarded;
mod host_function;
mod in_order;
mod inner_filters;
mod join;
mod json_aggregate;
mod lazily;
mod limit_by;
mod look_back;
mod look_ups;
mod moments;
mod nested_loops;
mod operator;
mod plan_size;
mod prepare;
mod query;
mod recursion;
mod relation;
mod row_function;
mod row_keys;
mod row_orders;
mod run;
mod select;
mod shared;
mod signalling;
mod sliding;
mod spill;
mod spilling;
mod table;
mod translate;
mod unordered_aggregate;
mod value;
mod wide_rows;
mod window;
mod window_rows;
mod with;
mod work_memory;

pub use run::{describe, run, run_controlled};
