//! Simulated worlds: the storage of a server under work and power cuts, on one thread, in virtual time, by one seed.
//!
//! A [`World`](env::sim::World) gives disk, clock and chance; everything between it and the sessions is the real thing:
//! log, group commit, checkpoints, recovery, tenants, and in [`tpcc`] and [`histories`] the SQL sessions. A scenario keeps
//! a model of what must be there and of what a client was told, or a history that [`isolation`] judges. In some lives
//! of the server the disk fails, is full or slow; each ends in a power cut at some disk operation, or a kill; the
//! next one recovers, is compared with the model, and goes on from there.
//!
//! What is checked after each life: every data file verifies; each tenant is back at one of its commits, not before the
//! newest that a client was told of, by an acknowledgement or by what a read showed; its rows are those of exactly that commit;
//! trees, indexes and catalog agree. Not shipped.

pub mod campaign;
mod chores;
mod client;
mod dice;
pub mod exchange;
pub mod histories;
pub mod isolation;
mod journal;
mod memory;
pub mod plan;
pub mod progress;
mod rot;
mod server;
mod stop;
pub mod tpcc;
mod weather;
pub mod whole;

pub use campaign::{Campaign, Failure, Scenario, Tally};
pub use dice::Dice;
pub use journal::Journal;
pub use server::{Acknowledge, Home, Server};
pub use stop::Stop;
