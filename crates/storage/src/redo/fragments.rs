//! Writing a long record ahead of its commit, part by part, so that it stands in nobody's way.

use base::{CommitNo, Lsn, TenantId};

use super::format::FragmentCommit;
use super::writer::LogWriter;

/// Most bytes of a part: what a group can take beside other tenants' commits.
const PART_LEN: usize = 128 << 10;

/// The parts of a record that is being written, whose commit is not there yet: [`LogWriter::append_parts`] makes it one.
/// Dropped without, it was never committed, and recovery ignores it. Until either, the log keeps the segments with its parts.
pub struct RecordParts {
    log: LogWriter,
    tenant: TenantId,
    fragments: FragmentCommit,
    committed: bool,
}

impl LogWriter {
    /// Begins a record of `tenant`.
    pub fn begin_parts(&self, tenant: TenantId) -> RecordParts {
        let fragments = FragmentCommit { set: self.new_fragment_set(), parts: 0, len: 0 };
        RecordParts { log: self.clone(), tenant, fragments, committed: false }
    }

    /// Commits a record of which all parts are written as `commit`, with a small record. As [`LogWriter::append`] otherwise.
    ///
    /// # Panics
    /// If its parts are in another log.
    pub fn append_parts(&self, mut parts: RecordParts, commit: CommitNo) -> Lsn {
        assert!(self.is_same(&parts.log), "a record is committed in the log its parts are in");
        parts.committed = true;
        self.push_fragment_commit(parts.tenant, commit, parts.fragments)
    }
}

impl RecordParts {
    /// Appends the record's next bytes and returns the position behind them. Memory only, and does not block: wait for the
    /// position ([`LogWriter::wait_durable`]) before much more is appended, so that commits of others pass in between.
    pub fn push(&mut self, bytes: &[u8]) -> Lsn {
        let mut end = Lsn(0);
        for part in bytes.chunks(PART_LEN) {
            end = self.log.push_fragment(self.tenant, self.fragments.set, self.fragments.parts, part);
            self.fragments.parts += 1;
        }
        self.fragments.len += bytes.len() as u64;
        end
    }

    /// Bytes so far.
    #[expect(clippy::len_without_is_empty, reason = "of a record under way")]
    pub fn len(&self) -> u64 {
        self.fragments.len
    }
}

impl Drop for RecordParts {
    fn drop(&mut self) {
        if !self.committed {
            self.log.give_up_set(self.fragments.set);
        }
    }
}
