//! The tenants of this server: who they are (`registry`), where they live (`home`), how they are remembered
//! (`catalogue`), made (`making`, `restoring`), copied (`copying`) and administered (`statements`).
//!
//! Truth are the tables of the schema `rowhouse` of the system tenant; the registry and the sizes are their image in memory.

mod administering;
mod catalogue;
mod checkpoints;
mod claims;
pub(crate) mod copying;
mod eviction;
mod head_start;
mod home;
mod home_log;
mod internal;
mod log_upkeep;
mod maintenance;
mod making;
mod memory_promise;
mod moving;
mod offline;
mod promises;
mod registry;
mod reserved;
pub(crate) mod restoring;
mod runaway;
mod side_by_side;
mod sink;
mod sizes;
mod statement_limits;
mod statement_table;
mod statement_times;
pub(crate) mod statements;

use base::{SqlError, SqlState};

pub(crate) use administering::administer;
pub(crate) use catalogue::load as load_catalogue;
pub(crate) use claims::{Claims, Subject};
pub(crate) use eviction::evict;
pub(crate) use head_start::{HeadStartRun, HeadStartThread, HeadStarts};
pub(crate) use home::Home;
pub(crate) use internal::{Notice, literal};
pub(crate) use log_upkeep::{keep_log, recover_tails};
pub(crate) use maintenance::{forget_lost, maintain, shut_down};
pub(crate) use memory_promise::set_memory_prices;
pub use offline::{KnownTenant, known_tenants};
pub(crate) use promises::system_default;
pub(crate) use registry::{Entry, Names, TenantRow, Tenants};
pub(crate) use runaway::{RuleFigures, Runaways};
pub(crate) use sizes::Sizes;
pub(crate) use statement_limits::StatementLimits;
pub(crate) use statement_table::{StatementRoom, StatementTable};

/// The administrator's database.
pub(crate) const SYSTEM_DATABASE: &str = "rowhouse";
/// The tenant that the server's own work is charged to, whose database is [`SYSTEM_DATABASE`].
pub(crate) const SYSTEM_TENANT: &str = "system";
/// The name of the one row of `rowhouse.server`.
const SERVER: &str = "server";
/// The administrator's account.
pub(crate) const ADMINISTRATOR: &str = "admin";

/// What a failed operation on a data file means to whoever asked for it.
fn file_failed(doing: &str, error: &storage::FileError) -> SqlError {
    let state = match error {
        storage::FileError::Corrupt(_) | storage::FileError::NotADataFile { .. } => SqlState::DATA_CORRUPTED,
        storage::FileError::NewerFormat { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        error if error.is_full_disk() => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(state, format!("{doing}: {error}"))
}
