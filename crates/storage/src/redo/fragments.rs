//! Writing a long record ahead of its commit, at a pace that leaves room for everyone else.

use base::{CommitNo, Lsn, TenantId};

use super::error::LogFailed;
use super::format::FragmentCommit;
use super::writer::LogWriter;

/// Bytes a long record puts into the log at a time: what a group can take beside other tenants' commits.
const PART_LEN: usize = 128 << 10;

/// A record whose bytes are durable and whose commit is not: [`LogWriter::append_prepared`] makes it one. Dropped
/// without, it was never committed, and recovery ignores it.
pub struct Prepared {
    log: LogWriter,
    tenant: TenantId,
    fragments: FragmentCommit,
    committed: bool,
}

impl LogWriter {
    /// Writes `record` in fragments, each after the one before is durable, so that commits of other tenants pass
    /// between them. After `Ok` the bytes are durable; the commit they belong to is not there yet.
    pub async fn prepare(&self, tenant: TenantId, record: Vec<u8>) -> Result<Prepared, LogFailed> {
        let set = self.new_fragment_set();
        let fragments = FragmentCommit { set, parts: 0, len: record.len() as u64 };
        let mut prepared = Prepared { log: self.clone(), tenant, fragments, committed: false };
        for part in record.chunks(PART_LEN) {
            let end = self.push_fragment(tenant, set, prepared.fragments.parts, part);
            prepared.fragments.parts += 1;
            self.wait_durable(end).await?;
        }
        Ok(prepared)
    }

    /// Commits a prepared record as `commit`, with a small record. As [`LogWriter::append`] otherwise.
    ///
    /// Panics if it was prepared in another log.
    pub fn append_prepared(&self, mut prepared: Prepared, commit: CommitNo) -> Lsn {
        assert!(self.is_same(&prepared.log), "a record is committed in the log it was prepared in");
        prepared.committed = true;
        self.push_fragment_commit(prepared.tenant, commit, prepared.fragments)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.committed {
            self.log.give_up_set(self.fragments.set);
        }
    }
}
