//! Finding circles of waiting sessions, at the moment a wait would close one.
//!
//! Whoever waits in a queue waits for all before it that conflict, so that there are many more edges than sessions. The search goes through
//! the holders and the queue of a lock once for each mode that somebody waits for, not once for each who waits.

use std::collections::VecDeque;

use base::{SessionId, SqlError, SqlState};
use rustc_hash::{FxHashMap, FxHashSet};

use super::table::Entry;
use super::{LockMode, LockTable, LockTag};

/// One edge of a circle.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    session: SessionId,
    mode: LockMode,
    tag: LockTag,
    blocked_by: SessionId,
}

/// Who is sent away from where it waits, rather than have another one fail.
pub(super) struct GivesWay {
    pub(super) session: SessionId,
    /// What it waits for.
    pub(super) tag: LockTag,
    /// It gives back the right to change the catalog, which is what is waited for.
    pub(super) gives_back: bool,
}

/// Of a circle that the first session would close, another one that gives way. `may_give_back`: who has the right to change the catalog and has changed
/// nothing by it yet.
pub(super) fn who_gives_way(circle: &[Waits], may_give_back: Option<SessionId>) -> Option<GivesWay> {
    circle.windows(2).find_map(|pair| {
        let [before, wait] = pair else { unreachable!("two of them") };
        let is_for_catalog = matches!(before.tag, LockTag::Ddl | LockTag::Branch);
        let gives_back = is_for_catalog && may_give_back == Some(wait.session);
        let gives_way = gives_back || wait.tag.gives_way(wait.mode);
        gives_way.then(|| GivesWay { session: wait.session, tag: wait.tag.clone(), gives_back })
    })
}

/// A session that waits, or is about to.
#[derive(Clone, Copy)]
struct Waiting<'t> {
    session: SessionId,
    tag: &'t LockTag,
    mode: LockMode,
    /// How many stand before it in the queue.
    place: usize,
}

/// A lock on the way of the search.
struct Lock<'t> {
    entry: &'t Entry,
    holders: FxHashSet<SessionId>,
    /// Where in the queue each session stands.
    places: FxHashMap<SessionId, usize>,
    /// By mode.
    followed: [Followed; 8],
}

/// Which of those that hold a lock or stand in its queue were followed as being in the way of a mode.
#[derive(Clone, Copy, Default)]
struct Followed {
    holders: bool,
    /// The holder that was left out, for it waited itself.
    but: Option<SessionId>,
    /// So many of the queue.
    ahead: usize,
}

struct Search<'t> {
    table: &'t LockTable,
    origin: Waiting<'t>,
    locks: FxHashMap<&'t LockTag, Lock<'t>>,
    /// Each session that is waited for, by the first found that waits for it.
    found: FxHashMap<SessionId, Waiting<'t>>,
    todo: VecDeque<Waiting<'t>>,
    /// Holders and waiters looked at.
    steps: usize,
}

impl LockTable {
    /// A circle that closes if `session` waits for this lock, beginning with its own edge.
    pub(super) fn cycle_closed_by(
        &self,
        session: SessionId,
        tag: &LockTag,
        mode: LockMode,
    ) -> Option<Vec<Waits>> {
        if self.waits.is_empty() {
            return None;
        }
        Search::of(self, session, tag, mode)?.run()
    }
}

impl<'t> Lock<'t> {
    fn of(entry: &'t Entry) -> Lock<'t> {
        Lock {
            entry,
            holders: entry.holders.iter().map(|holder| holder.session).collect(),
            places: entry.queue.iter().enumerate().map(|(place, waiter)| (waiter.session, place)).collect(),
            followed: [Followed::default(); 8],
        }
    }
}

impl<'t> Search<'t> {
    /// For a session that is to wait at the end of a lock's queue.
    fn of(table: &'t LockTable, session: SessionId, tag: &LockTag, mode: LockMode) -> Option<Search<'t>> {
        let (tag, entry) = table.entries.get_key_value(tag)?;
        let origin = Waiting { session, tag, mode, place: entry.queue.len() };
        Some(Search {
            table,
            origin,
            locks: FxHashMap::default(),
            found: FxHashMap::default(),
            todo: VecDeque::from([origin]),
            steps: 0,
        })
    }

    fn run(&mut self) -> Option<Vec<Waits>> {
        while let Some(waiting) = self.todo.pop_front() {
            for blocked_by in self.in_the_way_of(waiting) {
                if blocked_by == self.origin.session {
                    return Some(self.circle(waiting));
                }
                if self.found.contains_key(&blocked_by) {
                    continue;
                }
                self.found.insert(blocked_by, waiting);
                let next = self.waiting(blocked_by);
                self.todo.extend(next);
            }
        }
        None
    }

    /// Whom a session waits for, but those that were told of another one that waits for the same mode of the lock: as
    /// [`LockTable::blockers`].
    fn in_the_way_of(&mut self, waiting: Waiting<'t>) -> Vec<SessionId> {
        let (session, conflicts) = (waiting.session, waiting.mode.conflicts());
        let lock = lock(&mut self.locks, self.table, waiting.tag, &mut self.steps);
        let followed = &mut lock.followed[waiting.mode.bit().trailing_zeros() as usize];
        let mut blockers = Vec::new();
        if followed.holders {
            blockers.extend(followed.but.take());
        } else {
            followed.holders = true;
            self.steps += lock.entry.holders.len();
            for holder in lock.entry.holders.iter().filter(|h| h.modes() & conflicts != 0) {
                if holder.session == session {
                    followed.but = Some(session);
                } else {
                    blockers.push(holder.session);
                }
            }
        }
        if !lock.holders.contains(&session) && followed.ahead < waiting.place {
            self.steps += waiting.place - followed.ahead;
            let ahead = lock.entry.queue.range(followed.ahead..waiting.place);
            blockers.extend(ahead.filter(|w| w.holds_up(conflicts)).map(|w| w.session));
            followed.ahead = waiting.place;
        }
        blockers
    }

    /// What a session waits for.
    fn waiting(&mut self, session: SessionId) -> Option<Waiting<'t>> {
        let tag = self.table.waits.get(&session)?;
        let lock = lock(&mut self.locks, self.table, tag, &mut self.steps);
        let place = *lock.places.get(&session)?;
        Some(Waiting { session, tag, mode: lock.entry.queue[place].mode, place })
    }

    /// The circle that an edge to the origin closes.
    fn circle(&self, last: Waiting<'t>) -> Vec<Waits> {
        let (mut waiting, mut blocked_by) = (last, self.origin.session);
        let mut circle = Vec::new();
        loop {
            let Waiting { session, tag, mode, .. } = waiting;
            circle.push(Waits { session, mode, tag: tag.clone(), blocked_by });
            if session == self.origin.session {
                break;
            }
            (waiting, blocked_by) = (self.found[&session], session);
        }
        circle.reverse();
        circle
    }
}

/// A lock that somebody waits for.
fn lock<'s, 't>(
    locks: &'s mut FxHashMap<&'t LockTag, Lock<'t>>,
    table: &'t LockTable,
    tag: &'t LockTag,
    steps: &mut usize,
) -> &'s mut Lock<'t> {
    locks.entry(tag).or_insert_with(|| {
        let entry = &table.entries[tag];
        *steps += entry.holders.len() + entry.queue.len();
        Lock::of(entry)
    })
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

#[cfg(test)]
mod tests {
    use base::Oid;

    use super::super::{Acquired, RowLock, Scope, TableLock, WaitPolicy};
    use super::*;

    fn ask(table: &mut LockTable, session: u32, tag: u32, mode: TableLock) -> Acquired {
        let (tag, mode) = (LockTag::Table(Oid(tag)), LockMode::Table(mode));
        table.acquire(SessionId(session), &tag, mode, Scope::Transaction, WaitPolicy::Wait)
    }

    /// Steps of the search for one more session that waits where `count` wait already.
    fn steps_behind(count: u32, wait: impl Fn(&mut LockTable, u32)) -> usize {
        let mut table = LockTable::default();
        (0..count).for_each(|session| wait(&mut table, session));
        let (tag, mode) = (LockTag::Table(Oid(0)), LockMode::Table(TableLock::Exclusive));
        let mut search = Search::of(&table, SessionId(count), &tag, mode).expect("it is locked");
        assert!(search.run().is_none());
        search.steps
    }

    #[test]
    fn a_search_takes_as_many_steps_as_there_are_sessions() {
        const COUNT: u32 = 500;
        // One queue.
        let queue = |table: &mut LockTable, session: u32| drop(ask(table, session, 0, TableLock::Exclusive));
        // Each waits for the one before, which holds another lock.
        let chain = |table: &mut LockTable, session: u32| {
            assert!(matches!(
                ask(table, session, COUNT - session - 1, TableLock::Exclusive),
                Acquired::Gained
            ));
            if session > 0 {
                let queued = ask(table, session, COUNT - session, TableLock::Exclusive);
                assert!(matches!(queued, Acquired::Queued(_)));
            }
        };
        // All hold what is asked for, and wait for another lock.
        let crowd = |table: &mut LockTable, session: u32| {
            drop(ask(table, session, 0, TableLock::RowExclusive));
            drop(ask(table, session, 1, TableLock::Exclusive));
        };
        for steps in [steps_behind(COUNT, queue), steps_behind(COUNT, chain), steps_behind(COUNT, crowd)] {
            assert!(steps <= 5 * COUNT as usize, "{steps}");
        }
    }

    /// The search without its short cuts: whether a session that is waited for is the origin.
    fn closes(table: &LockTable, origin: SessionId, tag: &LockTag, mode: LockMode) -> bool {
        let mut seen = FxHashSet::default();
        let mut todo = table.blockers(origin, tag, mode);
        while let Some(session) = todo.pop() {
            if session == origin {
                return true;
            }
            let Some(tag) = table.waits.get(&session).filter(|_| seen.insert(session)) else { continue };
            let queue = &table.entries[tag].queue;
            let waiter = queue.iter().find(|w| w.session == session).expect("it waits there");
            todo.extend(table.blockers(session, tag, waiter.mode));
        }
        false
    }

    #[test]
    fn circles_are_found_where_there_are_some_and_lead_back() {
        let mut at = 1u64;
        let mut dice = move |sides: u64| {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((at >> 33) % sides) as usize
        };
        const ROWS: [RowLock; RowLock::COUNT] = RowLock::ALL;
        const TABLES: [TableLock; 5] = [
            TableLock::AccessShare,
            TableLock::RowExclusive,
            TableLock::Share,
            TableLock::ShareRowExclusive,
            TableLock::AccessExclusive,
        ];
        let (mut circles, mut waits) = (0, 0);
        for _ in 0..400 {
            let mut table = LockTable::default();
            for _ in 0..60 {
                let session = SessionId(dice(8) as u32);
                if table.waits.contains_key(&session) {
                    continue;
                }
                let (tag, mode) = match dice(5) as u32 {
                    n @ 0..2 => (LockTag::Table(Oid(n)), LockMode::Table(TABLES[dice(5)])),
                    n => {
                        let key = crate::row::keys::Key::from_slice(&[n as u8]);
                        (LockTag::Row(base::TreeId(20), key), LockMode::Row(ROWS[dice(5)]))
                    }
                };
                let expected = closes(&table, session, &tag, mode);
                let found = table.cycle_closed_by(session, &tag, mode);
                assert_eq!(found.is_some(), expected);
                for (at, edge) in found.iter().flatten().enumerate() {
                    let circle = found.as_ref().expect("it has edges");
                    assert!(table.blockers(edge.session, &edge.tag, edge.mode).contains(&edge.blocked_by));
                    assert_eq!(edge.blocked_by, circle[(at + 1) % circle.len()].session);
                }
                if let Some(circle) = &found {
                    assert_eq!(circle[0].session, session);
                }
                circles += usize::from(expected);
                let asked = table.acquire(session, &tag, mode, Scope::Transaction, WaitPolicy::Wait);
                waits += usize::from(matches!(asked, Acquired::Queued(_)));
            }
        }
        assert!(circles > 100 && waits > 1000, "{circles} circles of {waits} waits");
    }
}
