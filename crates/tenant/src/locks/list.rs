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

impl LockTable {
    /// Every lock held or waited for, in no order.
    pub(crate) fn list(&self) -> Vec<LockRecord> {
        let mut all = Vec::new();
        for (tag, entry) in &self.entries {
            for holder in &entry.holders {
                for mode in modes_of(tag, holder.transaction | holder.own) {
                    all.push(LockRecord { tag: tag.clone(), session: holder.session, mode, granted: true });
                }
            }
            for waiter in &entry.queue {
                let (session, mode) = (waiter.session, waiter.mode);
                all.push(LockRecord { tag: tag.clone(), session, mode, granted: false });
            }
        }
        all
    }
}

fn modes_of(tag: &LockTag, mask: u8) -> Vec<LockMode> {
    let all: Vec<LockMode> = match tag {
        LockTag::Row(..) => ROW_MODES.into_iter().map(LockMode::Row).collect(),
        _ => TABLE_MODES.into_iter().map(LockMode::Table).collect(),
    };
    all.into_iter().filter(|mode| mask & mode.bit() != 0).collect()
}
