//! A client's session on its tenant's home worker.
//!
//! One task a session. It owns the client's stream, buffers and the [`sql::session::Session`]; the tenant is borrowed
//! from its home for one turn at a time. A panic ends the session alone: its place and its locks are given back when
//! the task's state is dropped.

mod analytic;
mod connection;
mod control;
mod copying;
mod drive;
mod host;
mod judged;
mod long_input;
mod messages;
mod output;
mod signals;
mod stopwatch;
mod watch;

pub(crate) use connection::serve;
pub(crate) use control::{Control, Sessions};
pub(crate) use host::{Host, POSTGRES_EPOCH_MICROS, from_unix_seconds, wall_clock};
pub(crate) use output::Output;
pub(crate) use watch::Watch;
