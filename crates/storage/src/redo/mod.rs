//! The workers' redo logs: one sequential log a worker, shared by all tenants whose home it is.
//!
//! A [`LogDir`] is a directory of segment files, shared by the logs of all workers. Each start of the server gives each
//! worker a new log ([`LogWriter`] to append, [`LogFlusher`] to make durable); logs of earlier starts are only read,
//! by way of the [`RedoIndex`], and their segments become free as their tenants' roots move past them. So the number
//! of workers may change between starts, and nothing is ever appended behind a torn tail.
//!
//! A record is opaque bytes with a tenant and the tenant's dense commit number. Replay takes a tenant's records in
//! that order over all logs found; a missing one refuses. The bytes on disk are described in `docs/redo-log.md`.
//!
//! Level 2; knows no rows. Damage is [`RedoError::Corrupt`], never a panic. A failed write latches the log closed: from
//! then on nothing becomes durable in it, every waiter is told, and commits are refused before they change anything. A full
//! disk is no such failure: see [`LogDir`].

mod commits;
mod durable;
mod error;
mod flusher;
mod format;
mod fragments;
mod index;
mod log_dir;
mod records;
mod scan;
mod segment;
mod writer;

#[cfg(test)]
mod tests;

pub use durable::WaitDurable;
pub use error::{LogFailed, RedoError, Refused, Want};
pub use flusher::{Flushed, LogFlusher};
pub use format::FORMAT_VERSION;
pub use fragments::RecordParts;
pub use index::RedoIndex;
pub use log_dir::{LogDir, LogKeepers, LogOptions, LogUsage};
pub use records::{RecordBatch, TenantRecords};
pub use scan::recover;
pub use writer::LogWriter;
