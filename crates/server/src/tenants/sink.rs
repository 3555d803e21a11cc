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
        // On a full disk, or in a file at its largest size, a tenant may make room for itself.
        let is_full = [SqlState::DISK_FULL, SqlState::PROGRAM_LIMIT_EXCEEDED];
        let stands = |refusal: &&SqlError| !is_full.contains(&refusal.state()) || demand == Demand::Grows;
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use env::sim::World;
    use storage::FileError;
    use storage::redo::{LogDir, LogOptions};

    use super::*;

    #[test]
    fn a_tenant_whose_file_takes_no_more_may_make_room_and_no_other_is_told_that_the_disk_is_full() {
        let env = World::new(1).env();
        let (dir, _) = LogDir::open(&env, Path::new("/log"), LogOptions::default()).unwrap();
        let (writer, _flusher) = dir.writer();
        let log = HomeLog::new(writer);
        let reserve = || SpaceReserve::new(&env.disk, Path::new("/log"), ByteCount(1 << 20));
        let reserves = [reserve(), reserve()];
        let admitted = |refusal: &SqlError| {
            [Demand::Grows, Demand::Shrinks].map(|demand| {
                let sink = CountingSink {
                    tenant: TenantId(16),
                    log_volume: VolumeNo(0),
                    log: &log,
                    refusal: Some(refusal),
                    reserves: &reserves,
                    is_system: false,
                    logged: &mut ByteCount(0),
                    commits: 0,
                };
                sink.admit(100, demand).is_ok()
            })
        };
        let largest = tenant::state_of_file_error(&FileError::Full { file: PathBuf::new() });
        assert_ne!(largest, SqlState::DISK_FULL, "for that others give up what is set aside");
        for state in [largest, SqlState::DISK_FULL] {
            assert_eq!(admitted(&SqlError::new(state, "no more")), [false, true]);
        }
        assert_eq!(admitted(&SqlError::new(SqlState::IO_ERROR, "no more")), [false, false]);
    }
}
