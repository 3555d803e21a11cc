//! The file that is measured on.
//!
//! It has no name while it is used: its space is free again when the process ends, however it ends.

use std::path::Path;

use base::ByteCount;
use env::{Env, File, IoBuf, OpenMode, ShutdownSignal};
use futures::future::join_all;

use super::measure::{MeasureError, Progress};
use super::noise::Noise;

/// Name of the file in the volume's directory between its making and the loss of its name.
pub(super) const SCRATCH_FILE: &str = "calibration.scratch";
/// Bytes of one write while it is filled, and how many of them are in flight.
const PIECE: usize = 256 << 10;
const PIECES_IN_FLIGHT: usize = 16;

/// A file of a known length, every byte of it written.
pub(super) struct Scratch {
    pub(super) file: File,
    pub(super) len: ByteCount,
}

impl Scratch {
    /// Makes a file of `len` bytes, a whole number of [`PIECE`]s, in `dir` and fills it with bytes that cannot be compressed: what
    /// was never written is read without asking the device. Blocks.
    pub(super) fn create(
        env: &Env,
        dir: &Path,
        len: ByteCount,
        stop: &ShutdownSignal,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Scratch, MeasureError> {
        let failed = |what| move |error| MeasureError::Io { what, dir: dir.to_owned(), error };
        // As much is left to others as is taken.
        let wanted = ByteCount(len.0.saturating_mul(2));
        let available = env.disk.free_space(dir).map_err(failed("asking for free space"))?;
        if available < wanted {
            return Err(MeasureError::NoSpace { dir: dir.to_owned(), wanted, available });
        }
        let path = dir.join(SCRATCH_FILE);
        let file = env.disk.open(&path, OpenMode::Create, true).map_err(failed("making the scratch file"))?;
        let unnamed = env.disk.remove(&path).and_then(|()| env.disk.sync_dir(dir));
        unnamed.map_err(failed("taking the scratch file's name"))?;
        if !file.is_direct() {
            let file_system =
                env.disk.device_of(dir).map_err(failed("asking for the file system"))?.file_system;
            return Err(MeasureError::NotDirect { dir: dir.to_owned(), file_system });
        }
        file.allocate(0, len.0).map_err(failed("taking space for the scratch file"))?;
        let scratch = Scratch { file, len };
        scratch.fill(env, stop, progress, failed("filling the scratch file"))?;
        Ok(scratch)
    }

    fn fill(
        &self,
        env: &Env,
        stop: &ShutdownSignal,
        progress: &mut dyn FnMut(Progress),
        failed: impl Fn(std::io::Error) -> MeasureError,
    ) -> Result<(), MeasureError> {
        let noise = Noise::new(env);
        let mut offset = 0;
        while offset < self.len.0 {
            if stop.is_requested() {
                return Err(MeasureError::Interrupted);
            }
            let ends = (1..=PIECES_IN_FLIGHT as u64).map(|n| offset + n * PIECE as u64);
            let writes = ends.take_while(|end| *end <= self.len.0).map(|end| {
                let mut buf = IoBuf::recycled(PIECE);
                noise.fill(&mut buf);
                self.file.write_all_at(buf, end - PIECE as u64)
            });
            let written = env::block_on(env, join_all(writes));
            offset += (written.len() * PIECE) as u64;
            written.into_iter().try_for_each(|(result, _)| result).map_err(&failed)?;
            progress(Progress::Filling { done: ByteCount(offset), of: self.len });
        }
        self.file.sync_data_blocking().map_err(failed)
    }
}

/// Rounds up to what a scratch file can have.
pub(super) fn whole_pieces(len: ByteCount) -> ByteCount {
    ByteCount(len.0.max(1).next_multiple_of(PIECE as u64))
}
