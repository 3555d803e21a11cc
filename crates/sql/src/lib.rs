//! SQL for transactions: parse, bind, plan and execute on the *point path*, the session's statements, DDL and COPY.
//!
//! Level 5. What the point path does not take is handed out as an [`session::AnalyticRequest`] for the analytical path; this
//! crate does not know who runs it. Every call is synchronous and runs at the tenant's home worker without another of the tenant in between; what must
//! wait returns a [`session::Pause`], and the caller awaits it and calls again.
//!
//! Folders: `session` (what a connection owns), `ddl`, `expr` (bound expressions), `plan`, `exec`, `system` (names of the
//! system's own tables and functions).

mod copy;
mod ddl;
pub mod exec;
pub mod explain;
pub mod expr;
pub mod kept_text;
mod memory_bound;
mod normal_text;
pub mod parse;
pub mod plan;
pub mod predicate_text;
pub mod session;
pub mod system;

pub use memory_bound::{MemoryBound, require_row_len};
pub use normal_text::{NORMAL_LEN_MAX, normal_text};
