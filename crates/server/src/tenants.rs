//! The tenants of this server: who they are (`registry`), where they live (`home`), how they are remembered
//! (`catalogue`) and administered (`statements`).
//!
//! Truth is the table `rowhouse.tenants` of the system tenant; the registry is its image in memory.

mod catalogue;
mod checkpoints;
mod home;
mod internal;
mod maintenance;
mod offline;
mod registry;
pub(crate) mod statements;

pub(crate) use catalogue::load as load_catalogue;
pub(crate) use home::Home;
pub(crate) use maintenance::{keep_log, maintain, recover_tails, shut_down};
pub use offline::{KnownTenant, known_tenants};
pub(crate) use registry::{Entry, TenantRow, Tenants};

/// The administrator's database.
pub(crate) const SYSTEM_DATABASE: &str = "rowhouse";
/// The administrator's account.
pub(crate) const ADMINISTRATOR: &str = "admin";
