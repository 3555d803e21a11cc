//! What experiments are made in: servers as child processes, cores, control groups, and what the system and a server count.
//!
//! Everything that is started here ends with the value that stands for it: processes are told to end and waited for, folders and
//! control groups are removed. Children have a process group of their own, so that Ctrl-C reaches this process alone.

pub mod cgroups;
pub mod clock;
pub mod interrupt;
pub mod ledger;
pub mod machine;
pub mod metrics;
pub mod pinning;
pub mod postgres;
pub mod process;
pub mod rowhouse;
pub mod sampler;

pub use interrupt::Interrupted;
pub use pinning::Cores;
pub use postgres::Postgres;
pub use rowhouse::Rowhouse;
