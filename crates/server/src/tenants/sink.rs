//! What stands between a tenant's commits and its worker's log: who may write at the moment, and how much was written.

use std::sync::Arc;

use base::{ByteCount, CommitNo, Lsn, Nanos, SqlError, SqlResult, SqlState, TenantId, VolumeNo};
use tenant::{Demand, RedoSet, RedoSink};

use crate::executor;
use crate::space_reserve::SpaceReserve;
use crate::tenants::home_log::HomeLog;

/// The worker's log, counting what goes into it.
pub(super) struct CountingSink<'a> {
    pub(super) tenant: TenantId,
    /// The volume that the log is on.
    pub(super) log_volume: VolumeNo,
    pub(super) log: &'a HomeLog,
    /// Why the tenant's data file takes no checkpoint, if it does not.
    pub(super) refusal: Option<&'a SqlError>,
    /// Of the volumes of the tenant's data file and of its log.
    pub(super) reserves: &'a [Arc<SpaceReserve>; 2],
    /// The server's own writes are what dropping a tenant takes.
    pub(super) is_system: bool,
    pub(super) logged: &'a mut ByteCount,
    pub(super) commits: u64,
}

/// Within the record of a commit, makes a debug build panic when the commit was logged and is not applied yet.
const PANIC_IN_COMMIT: &[u8] = b"<panic in this commit, in a debug build>";

impl RedoSink for CountingSink<'_> {
    fn admit(&self, len: usize, demand: Demand) -> SqlResult<()> {
        // On a full disk a tenant may make room for itself.
        let stands = |refusal: &&SqlError| refusal.state() != SqlState::DISK_FULL || demand == Demand::Grows;
        if let Some(refusal) = self.refusal.filter(stands) {
            return Err(refusal.clone());
        }
        if demand == Demand::Grows
            && !self.is_system
            && let Some(spent) = self.reserves.iter().find(|reserve| reserve.is_spent())
        {
            return Err(spent.refusal());
        }
        RedoSink::admit(self.log.writer(), len, demand)
    }

    fn opens_at(&self) -> Option<Nanos> {
        executor::io_opens_at(self.tenant, self.log_volume)
    }

    fn far_behind(&self) -> Option<Lsn> {
        self.log.writer().far_behind().map(|end| self.log.position(end))
    }

    fn begin_set(&mut self, tenant: TenantId) -> RedoSet {
        RedoSet::Logged(self.log.writer().begin_parts(tenant))
    }

    fn append_to_set(&mut self, set: &mut RedoSet, bytes: &[u8]) -> Lsn {
        *self.logged += ByteCount(bytes.len() as u64);
        self.log.position(RedoSink::append_to_set(&mut self.log.writer().clone(), set, bytes))
    }

    fn commit_set(&mut self, set: RedoSet, commit: CommitNo) -> Lsn {
        // The commit itself: a checkpoint may have begun since its parts were logged.
        *self.logged += ByteCount(1);
        self.commits += 1;
        self.log.position(RedoSink::commit_set(&mut self.log.writer().clone(), set, commit))
    }

    fn append(&mut self, tenant: TenantId, commit: CommitNo, record: &[u8]) -> Lsn {
        *self.logged += ByteCount(record.len() as u64);
        self.commits += 1;
        let lsn = self.log.position(self.log.writer().append(tenant, commit, record));
        let panics = cfg!(debug_assertions)
            && record.windows(PANIC_IN_COMMIT.len()).any(|part| part == PANIC_IN_COMMIT);
        assert!(!panics, "the client asked for a panic");
        lsn
    }
}
