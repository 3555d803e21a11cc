//! Where a tenant's redo records go.

use base::{CommitNo, Lsn, Nanos, SqlError, SqlState, TenantId};

use crate::space::Demand;

/// Where redo records go: the worker's log. `append` keeps the record in memory and returns the position to wait for; it
/// never blocks and never fails.
pub trait RedoSink {
    /// Whether a record of `len` bytes can become durable soon; asked before a commit changes anything.
    ///
    /// Errors: 53100 on a full disk, 58030 where nothing can be written any more.
    fn admit(&self, _len: usize, _demand: Demand) -> Result<(), SqlError> {
        Ok(())
    }

    /// When, by the server's clock, the tenant may append again; `None`: now. A transaction that changes something waits until then before it appends, so that
    /// nobody else's waits with it in the log; not between the parts of one record, for which all others would wait. Asked before [`RedoSink::admit`].
    fn opens_at(&self) -> Option<Nanos> {
        None
    }

    /// Where the log is to be durable first, if it is so far behind that what waits to be written has to be bounded. A commit that
    /// changes something waits for that, once. Asked before [`RedoSink::admit`].
    fn far_behind(&self) -> Option<Lsn> {
        None
    }

    fn append(&mut self, tenant: TenantId, commit: CommitNo, record: &[u8]) -> Lsn;

    /// Begins a record that is appended part by part. One that is dropped before [`RedoSink::commit_set`] was never there.
    fn begin_set(&mut self, tenant: TenantId) -> RedoSet {
        RedoSet::Gathered(tenant, Vec::new())
    }

    /// Appends the record's next bytes and returns the position behind them.
    fn append_to_set(&mut self, set: &mut RedoSet, bytes: &[u8]) -> Lsn {
        match set {
            RedoSet::Gathered(_, record) => record.extend_from_slice(bytes),
            RedoSet::Logged(_) => unreachable!("a log has its own way"),
        }
        Lsn(0)
    }

    /// Makes the record commit `commit`.
    fn commit_set(&mut self, set: RedoSet, commit: CommitNo) -> Lsn {
        match set {
            RedoSet::Gathered(tenant, record) => self.append(tenant, commit, &record),
            RedoSet::Logged(_) => unreachable!("a log has its own way"),
        }
    }
}

/// A record that is appended part by part.
pub enum RedoSet {
    /// In memory, for sinks that are no logs.
    Gathered(TenantId, Vec<u8>),
    /// In a log.
    Logged(storage::redo::RecordParts),
}

/// The SQLSTATE of a log that failed: 53100 for want of space, else 58030.
pub fn state_of_log_failure(failed: &storage::redo::LogFailed) -> SqlState {
    if failed.is_full_disk() { SqlState::DISK_FULL } else { SqlState::IO_ERROR }
}

impl RedoSink for storage::redo::LogWriter {
    fn admit(&self, len: usize, _: Demand) -> Result<(), SqlError> {
        use storage::redo::{Refused, Want};
        storage::redo::LogWriter::admit(self, len).map_err(|refused| match &refused {
            Refused::Full { want: Want::Space, .. } => {
                SqlError::new(SqlState::DISK_FULL, refused.to_string())
                    .with_hint("Free space there: writing goes on by itself.")
            }
            Refused::Full { want: Want::Descriptors, .. } => {
                SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, refused.to_string())
                    .with_hint("Raise the limit of open files; writing goes on by itself once there are some.")
            }
            Refused::Failed(failed) => SqlError::new(state_of_log_failure(failed), refused.to_string()).with_hint(
                "What is read may be read on; once the log can be written again, sessions end and writing goes on.",
            ),
        })
    }

    fn far_behind(&self) -> Option<Lsn> {
        storage::redo::LogWriter::far_behind(self)
    }

    fn append(&mut self, tenant: TenantId, commit: CommitNo, record: &[u8]) -> Lsn {
        storage::redo::LogWriter::append(self, tenant, commit, record)
    }

    fn begin_set(&mut self, tenant: TenantId) -> RedoSet {
        RedoSet::Logged(self.begin_parts(tenant))
    }

    fn append_to_set(&mut self, set: &mut RedoSet, bytes: &[u8]) -> Lsn {
        match set {
            RedoSet::Logged(parts) => parts.push(bytes),
            RedoSet::Gathered(..) => unreachable!("begun by a log"),
        }
    }

    fn commit_set(&mut self, set: RedoSet, commit: CommitNo) -> Lsn {
        match set {
            RedoSet::Logged(parts) => self.append_parts(parts, commit),
            RedoSet::Gathered(..) => unreachable!("begun by a log"),
        }
    }
}
