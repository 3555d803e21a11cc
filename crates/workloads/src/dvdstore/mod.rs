//! Dell DVD Store 2 (release 2.1): an online shop. A customer logs in or is new, looks for titles by category, actor or title,
//! and buys some of them; such a visit is an order.
//!
//! Written from the suite's published schema, procedures and driver. What deviates from them is in `docs/workloads.md`: a
//! server needs neither stored procedures nor triggers nor full-text indexes, the visitor's client does their part.

mod check;
mod names;
mod population;
mod purchase;
mod schema;
mod shopper;
mod size;
mod statements;
mod workload;

pub use shopper::Shopper;
pub use size::{Size, Standard};
pub use workload::DvdStore;
