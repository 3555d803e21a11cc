//! The locks as `pg_locks` shows them.

use base::SessionId;

use super::{LockMode, LockTable, LockTag, RowLock, TableLock};

/// One row of `pg_locks`.
#[derive(Clone, Debug)]
pub struct LockRecord {
    pub tag: LockTag,
    pub session: SessionId,
    pub mode: LockMode,
    /// False for a session that waits.
    pub granted: bool,
    /// The sessions that one that waits waits for: who holds the lock, or stands before it in the queue.
    pub blocked_by: Vec<SessionId>,
}

const ROW_MODES: [RowLock; 4] = [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update];
const TABLE_MODES: [TableLock; 8] = [
    TableLock::AccessShare,
    TableLock::RowShare,
    TableLock::RowExclusive,
    TableLock::ShareUpdateExclusive,
    TableLock::Share,
    TableLock::ShareRowExclusive,
    TableLock::Exclusive,
    TableLock::AccessExclusive,
];

/// Row locks that are shown though nobody waits for them: more are of no use to anybody who looks, and there may be millions.
const ROWS_SHOWN_MAX: usize = 1 << 14;

impl LockTable {
    /// Every lock held or waited for, in no order; of those of rows for which nobody waits only some.
    pub(crate) fn list(&self) -> Vec<LockRecord> {
        let (mut all, mut rows) = (Vec::new(), 0);
        for (tag, entry) in self.entries.iter() {
            if matches!(tag, LockTag::Row(..)) && entry.queue.is_empty() {
                rows += 1;
                if rows > ROWS_SHOWN_MAX {
                    continue;
                }
            }
            for holder in &entry.holders {
                for mode in modes_of(tag, holder.transaction | holder.own) {
                    let session = holder.session;
                    all.push(LockRecord {
                        tag: tag.clone(),
                        session,
                        mode,
                        granted: true,
                        blocked_by: Vec::new(),
                    });
                }
            }
            for waiter in &entry.queue {
                let (session, mode) = (waiter.session, waiter.mode);
                let blocked_by = self.blockers(session, tag, mode);
                all.push(LockRecord { tag: tag.clone(), session, mode, granted: false, blocked_by });
            }
        }
        all
    }

    /// The sessions that `session` waits for, in order; none if it does not wait for a lock.
    pub(crate) fn blocking(&self, session: SessionId) -> Vec<SessionId> {
        let Some(tag) = self.waits.get(&session) else { return Vec::new() };
        let waiter =
            self.entries.get(tag).and_then(|entry| entry.queue.iter().find(|w| w.session == session));
        let mut blocking = waiter.map_or_else(Vec::new, |waiter| self.blockers(session, tag, waiter.mode));
        blocking.sort_unstable();
        blocking.dedup();
        blocking
    }
}

fn modes_of(tag: &LockTag, mask: u8) -> Vec<LockMode> {
    let all: Vec<LockMode> = match tag {
        LockTag::Row(..) => ROW_MODES.into_iter().map(LockMode::Row).collect(),
        _ => TABLE_MODES.into_iter().map(LockMode::Table).collect(),
    };
    all.into_iter().filter(|mode| mask & mode.bit() != 0).collect()
}
