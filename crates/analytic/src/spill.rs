//! DataFusion's spill files as the tenant's temporary files.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use base::ByteCount;
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

/// Bytes read at once.
const READ_LEN: u64 = 256 << 10;

/// What a query may use: the tenant's working memory, and where that refuses its temporary files, if an operator can spill.
pub(crate) fn runtime_env(limits: &QueryLimits) -> Result<Arc<RuntimeEnv>> {
    let mode = match &limits.temp {
        Some(temp) => DiskManagerMode::Custom(Arc::new(Files {
            space: Arc::clone(temp),
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
    meter: Option<Arc<StatementWorkMeter>>,
}

impl TempFileFactory for Files {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = Arc::new(self.space.create().map_err(external)?);
        Ok(Arc::new(Spilled { file, meter: self.meter.clone() }))
    }
}

struct Spilled {
    file: Arc<TempFile>,
    meter: Option<Arc<StatementWorkMeter>>,
}

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        Some(self.file.len())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        // Analytical threads may block.
        let pieces = stream::iter((0..self.file.len()).step_by(READ_LEN as usize));
        let file = Arc::clone(&self.file);
        let read = move |offset: u64| {
            let piece = file.read(offset, READ_LEN.min(file.len() - offset) as usize).map_err(external)?;
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
