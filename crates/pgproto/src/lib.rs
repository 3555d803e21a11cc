//! The PostgreSQL wire protocol (version 3) as pure functions and state machines over bytes.
//!
//! Level 1: no sockets, no clock, no SQL engine. Whoever owns the socket appends what it received to a buffer, asks
//! [`frame`] for the next message, [`frontend`] for its meaning and [`conversation`] whether it is to be handled at
//! all; replies are written by [`backend`] into a buffer of the caller's. Nothing here blocks, and no input makes it
//! panic: malformed bytes are a [`base::SqlError`] with PostgreSQL's SQLSTATE, fatal where the stream can no longer
//! be followed. The session whose bytes they were ends alone.

pub mod backend;
pub mod client;
pub mod conversation;
pub mod frame;
pub mod frontend;
mod reader;
pub mod scram;
pub mod startup;
