//! DataFusion's spill files as the tenant's temporary files.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use sql::session::{QueryLimits, TempFile, TempSpace};

use crate::error::external;

/// Bytes read at once.
const READ_LEN: u64 = 256 << 10;

/// What a query may use: memory up to the tenant's limit, beyond that its temporary files, where an operator can spill.
pub(crate) fn runtime_env(limits: &QueryLimits) -> Result<Arc<RuntimeEnv>> {
    let mode = match &limits.temp {
        Some(temp) => DiskManagerMode::Custom(Arc::new(Files(Arc::clone(temp)))),
        None => DiskManagerMode::Disabled,
    };
    // The tenant's limit is the only one.
    let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(u64::MAX);
    let mut builder = RuntimeEnvBuilder::new().with_disk_manager_builder(disk);
    if let Some(max) = limits.work_memory_max {
        let max = usize::try_from(max.0).unwrap_or(usize::MAX);
        builder = builder.with_memory_pool(Arc::new(FairSpillPool::new(max)));
    }
    builder.build_arc()
}

struct Files(Arc<TempSpace>);

impl TempFileFactory for Files {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(Spilled(Arc::new(self.0.create().map_err(external)?))))
    }
}

struct Spilled(Arc<TempFile>);

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        Some(self.0.len())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        // Analytical threads may block.
        let pieces = stream::iter((0..self.0.len()).step_by(READ_LEN as usize));
        let file = Arc::clone(&self.0);
        let read = move |offset: u64| {
            let mut piece = vec![0; READ_LEN.min(file.len() - offset) as usize];
            file.read(&mut piece, offset).map_err(external)?;
            Ok::<Bytes, DataFusionError>(piece.into())
        };
        Ok(Box::pin(futures::StreamExt::map(pieces, read)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

struct Writer(Arc<TempFile>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
