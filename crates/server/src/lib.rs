//! The server: reception, workers, sessions, tenants' homes, administration and configuration.
//!
//! Level 6. A client is received and authenticated off the workers (`reception`), then its session runs as a task on
//! the home worker of its tenant (`session`, `tenants`). Truth is in the tenants' data files and the workers' logs;
//! what is here can be rebuilt from them. Nothing here knows SQL beyond the statements the administrator's database
//! hands out.
//!
//! [`Server::start`] brings all of it up, [`Server::wait`] ends it when the process is told to.

mod admin;
mod administration;
mod analytic_pool;
pub mod calibration;
mod complaint;
mod config;
mod console;
mod data_dir;
pub mod executor;
mod gate;
mod io_accounts;
mod ledger;
mod overseer;
mod passwords;
mod pauses;
mod placement;
mod policy;
mod reception;
mod server;
mod session;
mod shared;
mod space_reserve;
mod start_error;
mod stream;
mod tenants;
mod tls;
mod volumes;
mod work_memory;

pub use analytic_pool::AnalyticRun;
pub use config::{LOG_VOLUME, ServerConfig, Tls, TlsFiles};
pub use console::{
    ConsoleAnswered, ConsoleEndpoint, ConsoleEvents, ConsoleExtension, ConsoleRefusal, ConsoleSent, IpNetwork,
};
pub use data_dir::{DEFAULT_VOLUME, DataDir, check_logs, check_volumes, tenant_file};
pub use server::Server;
pub use start_error::StartError;
pub use tenants::{KnownTenant, known_tenants};
