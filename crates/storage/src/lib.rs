//! Pages of one tenant: the live page map, its snapshots, the data file they are checkpointed to, and its checks.
//!
//! Level 2. Knows pages, slots and roots; knows nothing of rows, trees or SQL. What is on disk is described in
//! `docs/data-file.md`. Damaged bytes are reported as [`Corrupt`] and never panic; a broken invariant of ours
//! (a slot handed out twice, say) stops the process.

mod corrupt;
mod map;
mod pages;

pub use corrupt::Corrupt;
pub use map::PageMap;
pub use pages::{PageBytes, PageFault, ReadPages, WritePages};
