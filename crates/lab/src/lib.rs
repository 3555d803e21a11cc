//! Experiments: servers as child processes on cores of their own, load on other cores, numbers and a page to read.
//!
//! [`sqlvm`] has those of the paper on performance isolation; [`world`] is what experiments are made in (servers, pinning, control
//! groups, what the system counts), [`report`] what comes out of them. `docs/lab.md` has how they are run and what the JSON says.
//!
//! Level 8: knows a server by its wire and its `/metrics` alone. A failure ends the experiment in words for the person who runs it;
//! what was measured until then is on disk already.

pub mod report;
pub mod sqlvm;
pub mod stats;
pub mod world;

pub use workloads::{Error, Result, explain};
