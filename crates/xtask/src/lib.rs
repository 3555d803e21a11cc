//! Tasks of the house: the tidy check, which holds the source against the rules of `docs/architecture.md`.
//!
//! Not shipped. Reads files, changes none.

pub mod tidy;
