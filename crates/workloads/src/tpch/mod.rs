//! TPC-H: the eight tables (specification 2.18, clauses 1.4 and 4.2), the 22 queries with validation or random parameters
//! (clause 2.4), run as streams. No refresh functions, so no published metric comes out.
//!
//! What is simplified is in `docs/workloads.md`.

mod answers;
mod dates;
mod orders;
mod parameters;
mod parts;
mod queries;
mod rows;
mod scale;
mod schema;
mod selection;
mod stream;
mod text;
mod words;
mod workload;

pub use answers::{Answer, answer};
pub use scale::Scale;
pub use selection::Selection;
pub use stream::Stream;
pub use workload::Tpch;

/// Queries of the benchmark.
pub const QUERIES: usize = 22;
