//! The server: workers and their executor, listeners, sessions, the administrator's interface.

pub mod executor;
