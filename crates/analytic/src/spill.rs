//! DataFusion's spill files as the tenant's temporary files.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use base::ByteCount;
use base::limits::IO_UNIT;
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use governor::StatementWorkMeter;
use sql::session::{QueryLimits, TempFile, TempSpace};

use crate::error::external;
use crate::work_memory::QueryMemory;

/// Files that are merged at once: more would take what other operators of the tenant are assured.
const MERGED_AT_ONCE: usize = 16;

/// Bytes read at once: one I/O at least, and no more than four.
const READ_LEN_MIN: u64 = IO_UNIT.0;
const READ_LEN_MAX: u64 = 4 * IO_UNIT.0;

/// Bytes to read at once where there is so much working memory: what a merge reads, of all its files together, is a quarter of it at most, or
/// 1 MiB. Nobody counts it.
fn read_len(memory: ByteCount) -> u64 {
    let most = memory.0 / (4 * MERGED_AT_ONCE as u64);
    (most / READ_LEN_MIN * READ_LEN_MIN).clamp(READ_LEN_MIN, READ_LEN_MAX)
}

/// What a query may use: the tenant's working memory, and where that refuses its temporary files, if an operator can spill.
pub(crate) fn runtime_env(limits: &QueryLimits) -> Result<Arc<RuntimeEnv>> {
    let mode = match &limits.temp {
        Some(temp) => DiskManagerMode::Custom(Arc::new(Files {
            space: Arc::clone(temp),
            read_len: limits.work_memory.as_ref().map_or(READ_LEN_MAX, |memory| read_len(memory.max())),
            meter: limits.work_meter.clone(),
        })),
        None => DiskManagerMode::Disabled,
    };
    // The tenant's limit is the only one.
    let disk = DiskManagerBuilder::default()
        .with_mode(mode)
        .with_max_temp_directory_size(u64::MAX)
        .with_max_spill_merge_fan_in(MERGED_AT_ONCE);
    let mut builder = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
    if let Some(memory) = &limits.work_memory {
        builder =
            builder.with_memory_pool(Arc::new(QueryMemory::new(memory.clone(), limits.work_meter.clone())));
    }
    builder.build_arc()
}

struct Files {
    space: Arc<TempSpace>,
    read_len: u64,
    meter: Option<Arc<StatementWorkMeter>>,
}

impl TempFileFactory for Files {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = Arc::new(self.space.create().map_err(external)?);
        Ok(Arc::new(Spilled { file, read_len: self.read_len, meter: self.meter.clone() }))
    }
}

struct Spilled {
    file: Arc<TempFile>,
    read_len: u64,
    meter: Option<Arc<StatementWorkMeter>>,
}

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        Some(self.file.len())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        // Analytical threads may block.
        let (file, read_len) = (Arc::clone(&self.file), self.read_len);
        let pieces = stream::iter((0..file.len()).step_by(read_len as usize));
        let read = move |offset: u64| {
            let piece = file.read(offset, read_len.min(file.len() - offset) as usize).map_err(external)?;
            Ok::<Bytes, DataFusionError>(Bytes::from_owner(piece))
        };
        Ok(Box::pin(futures::StreamExt::map(pieces, read)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer { file: Arc::clone(&self.file), meter: self.meter.clone() }))
    }
}

struct Writer {
    file: Arc<TempFile>,
    meter: Option<Arc<StatementWorkMeter>>,
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes).map_err(io::Error::other)?;
        if let Some(meter) = &self.meter {
            meter.spilled(ByteCount(bytes.len() as u64));
        }
        Ok(bytes.len())
    }

    /// Nobody reads a file that is not finished: what would, hands batches from one thread of a query to another, and a query has one.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        self.file.seal().map_err(external)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_reads_a_quarter_of_its_memory_or_a_mebibyte() {
        for (memory, expected) in [(0, 64), (3, 64), (7, 64), (8, 128), (13, 192), (16, 256), (1 << 20, 256)]
        {
            let read = read_len(ByteCount::from_mib(memory));
            assert_eq!(read, expected << 10, "{memory} MiB");
            assert!(MERGED_AT_ONCE as u64 * read <= (memory << 18).max(1 << 20));
        }
        assert_eq!(read_len(ByteCount(u64::MAX)), READ_LEN_MAX);
    }
}
