//! Pages of one tenant: the live page map, its snapshots, the data file they are checkpointed to, and its checks.
//!
//! Level 2. Knows pages, slots and roots; knows nothing of rows, trees or SQL. What is on disk is described in
//! `docs/data-file.md`. Damaged bytes are reported as [`Corrupt`] and never panic; a broken invariant of ours
//! (a slot handed out twice, say) stops the process.

mod branch;
mod bytes;
mod change_charge;
mod checkpoint;
mod cold_leaf;
mod corrupt;
mod data_file;
mod file_error;
mod file_reader;
mod frame;
mod frame_stock;
mod image;
mod map;
mod memory_budget;
mod metering;
mod node_page;
mod page_numbers;
mod pages;
mod radix;
pub mod redo;
mod room;
mod settling;
mod side;
mod slot_writer;
mod slots;
mod snapshot;
mod superblock;
mod sweep;
mod verify;
mod version;
mod yield_now;

pub use change_charge::ChangeCharge;
pub use checkpoint::{Checkpoint, CheckpointCounts, Hurry};
pub use cold_leaf::THAWED_LEN_MAX;
pub use corrupt::Corrupt;
pub use data_file::{DataFile, Root};
pub use file_error::FileError;
pub use file_reader::{FileReader, LoadedPage, PageRun};
pub use frame::frame_memory;
pub use frame_stock::keep_frames_in_stock;
pub use image::{IMAGE_HEAD_LEN, ImageFile, ImageReader, ImageWriter};
pub use map::{PageCounters, PageLocation, PageMap};
pub use memory_budget::{MEMORY_MAX, MEMORY_MIN, MemoryBudget, PageTally, READ_AHEAD_MAX};
pub use pages::{Ahead, Beside, PageBytes, PageFault, ReadPages, WritePages};
pub use room::{Room, RoomAsker};
pub use settling::Settling;
pub use snapshot::{FrozenPages, PinnedPages, ReadAheadWindow, Snapshot};
pub use superblock::{FORMAT_VERSION, ROOT_PAYLOAD_LEN_MAX};
pub use sweep::Swept;
pub use verify::{OnPage, OnProgress, VerifyReport, verify_file};
pub use yield_now::yield_now;

#[cfg(test)]
mod tests;
