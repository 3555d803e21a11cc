//! The locks as `pg_locks` shows them.

use base::SessionId;

use super::table::Entry;
use super::{LockMode, LockTable, LockTag, RowLock, TableLock};

/// One row of `pg_locks`.
#[derive(Clone, Debug)]
pub struct LockRecord {
    pub tag: LockTag,
    pub session: SessionId,
    pub mode: LockMode,
    /// False for a session that waits.
    pub granted: bool,
    /// The sessions that one that waits waits for: who holds the lock, or stands before it in the queue. Where very many wait, of most of them only the
    /// first.
    pub blocked_by: Vec<SessionId>,
}

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

/// Of sessions that wait, those that they wait for, of all together, at most but for one each: of 10,000 in one queue there are 50 million.
const BLOCKERS_SHOWN_MAX: usize = 1 << 16;

impl LockTable {
    /// Every lock held or waited for, in no order; of those of rows for which nobody waits only some.
    pub(crate) fn list(&self) -> Vec<LockRecord> {
        let (mut all, mut rows, mut blockers) = (Vec::new(), 0, 0);
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
                let blocked_by = match blockers < BLOCKERS_SHOWN_MAX {
                    true => self.blockers(session, tag, mode),
                    false => entry.first_blocker(session, mode).into_iter().collect(),
                };
                blockers += blocked_by.len();
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

impl Entry {
    /// One of those that a session in the queue waits for.
    fn first_blocker(&self, session: SessionId, mode: LockMode) -> Option<SessionId> {
        let conflicts = mode.conflicts();
        let mut holders = self.holders.iter().filter(|h| h.session != session && h.modes() & conflicts != 0);
        let mut queue = self.queue.iter().take_while(|w| w.session != session);
        let held_by = holders.next().map(|h| h.session);
        held_by.or_else(|| queue.find(|w| w.holds_up(conflicts)).map(|w| w.session))
    }
}

fn modes_of(tag: &LockTag, mask: u8) -> Vec<LockMode> {
    let all: Vec<LockMode> = match tag {
        LockTag::Row(..) => RowLock::ALL.into_iter().map(LockMode::Row).collect(),
        _ => TABLE_MODES.into_iter().map(LockMode::Table).collect(),
    };
    all.into_iter().filter(|mode| mask & mode.bit() != 0).collect()
}

#[cfg(test)]
mod tests {
    use base::Oid;

    use super::super::{Scope, WaitPolicy};
    use super::*;

    #[test]
    fn of_a_long_queue_not_each_is_shown_with_all_before_it() {
        const COUNT: u32 = 1_000;
        let mut table = LockTable::default();
        let (tag, mode) = (LockTag::Table(Oid(7)), LockMode::Table(TableLock::AccessExclusive));
        for session in 0..COUNT {
            drop(table.acquire(SessionId(session), &tag, mode, Scope::Transaction, WaitPolicy::Wait));
        }
        let list = table.list();
        let waiting: Vec<&LockRecord> = list.iter().filter(|record| !record.granted).collect();
        assert_eq!(waiting.len(), COUNT as usize - 1);
        assert!(waiting.iter().all(|record| record.blocked_by.contains(&SessionId(0))));
        assert_eq!(waiting[9].blocked_by.len(), 10);
        let shown: usize = waiting.iter().map(|record| record.blocked_by.len()).sum();
        assert!(shown <= BLOCKERS_SHOWN_MAX + 2 * COUNT as usize, "{shown}");
        assert_eq!(table.blocking(SessionId(COUNT - 1)).len(), COUNT as usize - 1);
    }
}
