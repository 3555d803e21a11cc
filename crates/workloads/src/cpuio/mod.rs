//! CPUIO, the synthetic workload of the paper on performance isolation (SQLVM, section 6.1): one table with a clustered index
//! on its primary key and a second index, and three kinds of queries: a CPU-intensive computation, a scan of a range of
//! primary keys, and a lookup by the second index whose rows lie on pages far from each other.
//!
//! The paper gives neither sizes nor statements; they are options and choices here. `docs/workloads.md` has them, and which
//! path of Rowhouse each statement takes.

mod client;
mod mix;
mod spread;
mod table;

pub use client::{CPU, LOOKUP, Querier, SCAN};
pub use mix::Mix;
pub use table::{Cpuio, ROW_BYTES_MAX, ROW_BYTES_MIN};
