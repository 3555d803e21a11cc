//! Finding circles of waiting sessions, at the moment a wait would close one.

use base::{SessionId, SqlError, SqlState};
use rustc_hash::FxHashSet;

use super::{LockMode, LockTable, LockTag};

/// One edge of a circle.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    session: SessionId,
    mode: LockMode,
    tag: LockTag,
    blocked_by: SessionId,
}

impl LockTable {
    /// The circle that closes if `session` waits for this lock, beginning with its own edge.
    pub(super) fn cycle_closed_by(
        &self,
        session: SessionId,
        tag: &LockTag,
        mode: LockMode,
    ) -> Option<Vec<Waits>> {
        let mut path = Vec::new();
        let mut seen = FxHashSet::default();
        self.search(session, session, tag, mode, &mut path, &mut seen).then_some(path)
    }

    fn search(
        &self,
        origin: SessionId,
        session: SessionId,
        tag: &LockTag,
        mode: LockMode,
        path: &mut Vec<Waits>,
        seen: &mut FxHashSet<SessionId>,
    ) -> bool {
        for blocked_by in self.blockers(session, tag, mode) {
            path.push(Waits { session, mode, tag: tag.clone(), blocked_by });
            if blocked_by == origin {
                return true;
            }
            if seen.insert(blocked_by)
                && let Some(next) = self.waits.get(&blocked_by)
                && let Some(waiter) = self.entries[next].queue.iter().find(|w| w.session == blocked_by)
                && self.search(origin, blocked_by, next, waiter.mode, path, seen)
            {
                return true;
            }
            path.pop();
        }
        false
    }
}

/// The error of the session whose wait would close the circle.
pub(super) fn error(cycle: &[Waits]) -> SqlError {
    let lines: Vec<String> = cycle
        .iter()
        .map(|w| {
            let what = match &w.tag {
                LockTag::Table(oid) => format!("{} on relation {oid}", w.mode.name()),
                LockTag::Row(..) => format!("ShareLock on transaction {}", w.blocked_by),
                LockTag::Advisory(_) => format!("{} on advisory lock", w.mode.name()),
                LockTag::Ddl => format!("{} on the catalog", w.mode.name()),
                LockTag::Branch => format!("{} on the tenant's branch", w.mode.name()),
            };
            format!("Process {} waits for {what}; blocked by process {}.", w.session, w.blocked_by)
        })
        .collect();
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail(lines.join("\n"))
        .with_hint("See server log for query details.")
}
