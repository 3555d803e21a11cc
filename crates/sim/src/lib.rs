//! Simulated worlds: the storage of a server under work and power cuts, on one thread, in virtual time, by one seed.
//!
//! A [`World`](env::sim::World) gives disk, clock and chance; everything between it and the sessions is the real thing:
//! log, group commit, checkpoints, recovery, tenants, and in [`tpcc`] the SQL sessions. A scenario keeps a model
//! of what must be there and of what a client was told. Each life of the server ends in a power cut at some disk
//! operation; the next one recovers, is compared with the model, and goes on from there.
//!
//! What is checked after each cut: every data file verifies; each tenant is back at one of its commits, not before the
//! newest that a client was told of, by an acknowledgement or by what a read showed; its rows are those of exactly that commit;
//! trees, indexes and catalog agree. Not shipped.

pub mod campaign;
mod chores;
mod dice;
pub mod exchange;
mod journal;
mod server;
mod stop;
pub mod tpcc;

pub use campaign::{Campaign, Failure, Scenario, Tally};
pub use dice::Dice;
pub use journal::Journal;
pub use server::{Acknowledge, Home, Server};
pub use stop::Stop;
