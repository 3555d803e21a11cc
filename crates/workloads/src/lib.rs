//! Workloads against any PostgreSQL URL, with their populations, checks and measurements. Each is a [`workload::Workload`];
//! [`run`] loads and runs it. `docs/workloads.md` has their definitions and options.
//!
//! Level 7: knows no server internals; what it measures is a server at the other end of a socket. Rowhouse and PostgreSQL are
//! told apart only where databases are made ([`target::Target::create_databases`]).

pub mod connection;
pub mod copy;
pub mod cpuio;
pub mod dvdstore;
pub mod load;
pub mod pgbench;
mod random;
pub mod report;
pub mod run;
pub mod series;
pub mod steered;
pub mod target;
mod tls;
pub mod tpcc;
pub mod tpch;
pub mod workload;

/// What can go wrong with a workload, told to the person who runs it.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// Result of a workload's step.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, with what the server said of it.
pub fn explain(error: &Error) -> String {
    match error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error) {
        Some(said) => format!("the server says: {} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}
