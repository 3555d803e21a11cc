//! The table of locks: who holds what, who waits for what, and handing over.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use base::{SessionId, SqlError, SqlState};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;

use super::spread_set::SpreadSet;
use super::spread_table::SpreadTable;
use super::wait::{LockWait, WaitEnd};
use super::{LockMode, LockTag, RowLock, WaitPolicy};

/// Holders that are gone through for each session that waits.
const FEW: usize = 8;

/// How long a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    Transaction,
    /// Advisory locks only; counted, and released one by one or at the session's end.
    Session,
}

/// What came of asking for a lock.
#[derive(Debug)]
pub(crate) enum Acquired {
    /// The session did not hold it in this mode and scope before.
    Gained,
    AlreadyHeld,
    /// Queued; resolves when granted.
    Queued(LockWait),
    /// Held by another session, and the policy was not to wait.
    Busy,
    /// Waiting would close a circle.
    Deadlock(SqlError),
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) session: SessionId,
    /// Modes held until the transaction's end, a bit each.
    pub(super) transaction: u8,
    /// Modes held by the session itself, a bit each.
    pub(super) own: u8,
}

impl Holder {
    pub(super) fn modes(&self) -> u8 {
        self.transaction | self.own
    }

    fn add(&mut self, mode: LockMode, scope: Scope) {
        match scope {
            Scope::Transaction => self.transaction |= mode.bit(),
            Scope::Session => self.own |= mode.bit(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) session: SessionId,
    pub(super) mode: LockMode,
    pub(super) scope: Scope,
    /// Who comes later waits behind it.
    pub(super) is_heeded: bool,
    end: WaitEnd,
}

impl Waiter {
    /// Whether a later one waits for it that asks for a mode with these conflicts.
    pub(super) fn holds_up(&self, conflicts: u8) -> bool {
        self.is_heeded && self.mode.bit() & conflicts != 0
    }
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) holders: SmallVec<[Holder; 1]>,
    pub(super) queue: VecDeque<Waiter>,
}

/// The row locks of a session that has very many: 9 to 18 bytes each, by a hash of the lock's name, as long as that is within what they may take.
/// Two names with one hash are one lock: then someone may wait who need not.
/// Those taken behind a savepoint are in the table ([`LockTable::acquire_listed`]), from where they can be given back.
#[derive(Debug)]
struct Many {
    session: SessionId,
    /// By row mode.
    hashes: [SpreadSet; RowLock::COUNT],
    /// Locks that others have too, or wait for, or that it has in further modes behind a savepoint: they are in the table as long as that is so, and those that others
    /// only waited for to the end.
    shown: FxHashSet<LockTag>,
}

pub(super) fn hash_of(tag: &LockTag) -> u64 {
    let mut hasher = FxHasher::default();
    tag.hash(&mut hasher);
    hasher.finish()
}

impl Many {
    fn modes(&self, hash: u64) -> u8 {
        let held = RowLock::ALL.iter().filter(|mode| self.hashes[**mode as usize].contains(hash));
        held.fold(0, |modes, mode| modes | LockMode::Row(*mode).bit())
    }

    /// What the table has of a lock in these modes, from where it is let go of at the end.
    fn show(&mut self, tag: &LockTag, modes: u8) -> Entry {
        let mut entry = Entry::default();
        for mode in RowLock::ALL.map(LockMode::Row).iter().filter(|mode| modes & mode.bit() != 0) {
            entry.hold(self.session, *mode, Scope::Transaction);
        }
        self.shown.insert(tag.clone());
        entry
    }
}

/// All locks of a tenant. A session has at most one transaction and waits for at most one lock.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    pub(super) entries: SpreadTable,
    /// What each waiting session waits for.
    pub(super) waits: FxHashMap<SessionId, LockTag>,
    /// How often a session took each advisory lock for itself.
    session_counts: FxHashMap<(SessionId, LockTag, u8), u32>,
    many: Option<Box<Many>>,
    /// Sessions that were sent away from where they waited ([`LockTag::gives_way`]).
    sent_away: FxHashSet<SessionId>,
    /// Those of them that have not got any more the right to change the catalog.
    gave_back: FxHashSet<SessionId>,
    /// The one that waits with that right, has changed nothing by it yet, and would begin its statement anew.
    may_give_back: Option<SessionId>,
}

impl LockTable {
    /// Whether nothing is locked; one load.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.many.is_none()
    }

    /// From now on the row locks of `session` are kept in little room, of about `len_max` bytes at most, until [`LockTable::release_many`].
    ///
    /// # Panics
    /// If another session's are.
    pub(crate) fn keep_many(&mut self, session: SessionId, len_max: u64) {
        assert!(self.many.is_none(), "one session with very many locks at a time");
        // Locks of very many rows are of few modes.
        let of_mode = usize::try_from(len_max).unwrap_or(usize::MAX) / 4;
        let hashes = std::array::from_fn(|_| SpreadSet::within(of_mode));
        self.many = Some(Box::new(Many { session, hashes, shown: FxHashSet::default() }));
    }

    /// Bytes that the locks of the session with very many take.
    pub(crate) fn len_of_many(&self) -> u64 {
        self.many.as_ref().map_or(0, |many| many.hashes.iter().map(|hashes| hashes.len() as u64).sum())
    }

    /// Lets go of the locks that `session` took since [`LockTable::keep_many`].
    pub(crate) fn release_many(&mut self, session: SessionId) {
        let Some(many) = self.many.take_if(|many| many.session == session) else { return };
        for tag in many.shown {
            self.release(session, &tag, u8::MAX);
        }
    }

    /// A row lock of the session with many, or one that it may have; `None` if it is to be had from the table.
    fn acquire_of_many(
        &mut self,
        session: SessionId,
        tag: &LockTag,
        mode: LockMode,
        policy: WaitPolicy,
    ) -> Option<Acquired> {
        let (Some(many), LockTag::Row(..), LockMode::Row(row_mode)) = (&mut self.many, tag, mode) else {
            return None;
        };
        // What is in the table says itself who holds it: the session with many looks there before it takes a lock.
        if self.entries.contains_key(tag) {
            return None;
        }
        let hash = hash_of(tag);
        if many.session == session {
            many.hashes[row_mode as usize].insert(hash);
            return Some(Acquired::AlreadyHeld);
        }
        let modes = many.modes(hash);
        if modes & mode.conflicts() != 0 && !policy.waits() {
            // Who leaves such rows out may come across all of them.
            return Some(Acquired::Busy);
        }
        if modes != 0 {
            self.entries.insert(tag.clone(), many.show(tag, modes));
        }
        None
    }

    /// Asks for a lock. A session that waits already must be settled before it may wait again.
    pub(crate) fn acquire(
        &mut self,
        session: SessionId,
        tag: &LockTag,
        mode: LockMode,
        scope: Scope,
        policy: WaitPolicy,
    ) -> Acquired {
        if self.many.is_some()
            && let Some(acquired) = self.acquire_of_many(session, tag, mode, policy)
        {
            return acquired;
        }
        let first = || {
            let mut entry = Entry::default();
            entry.hold_first(session, mode, scope);
            entry
        };
        let Some(entry) = self.entries.get_or_insert(tag, first) else {
            self.count(session, tag, mode, scope);
            return Acquired::Gained;
        };
        let mine = entry.holders.iter().find(|h| h.session == session);
        let held = mine.map_or(0, |h| if scope == Scope::Transaction { h.transaction } else { h.own });
        if mode.is_covered_by(held) {
            self.count(session, tag, mode, scope);
            return Acquired::AlreadyHeld;
        }
        // Who holds a part already goes ahead of the queue: waiting behind someone who waits for it would deadlock. So does who shares a row, as in
        // PostgreSQL: a foreign key's check waits for no DELETE that waits itself, perhaps for whom it would deadlock with.
        let heeds_queue = mine.is_none() && !matches!(tag, LockTag::Row(..));
        let conflict = entry.conflicts_with_holders(session, mode)
            || (heeds_queue && entry.queue.iter().any(|w| w.holds_up(mode.conflicts())));
        if !conflict {
            entry.hold(session, mode, scope);
            self.count(session, tag, mode, scope);
            return Acquired::Gained;
        }
        if !policy.waits() {
            return Acquired::Busy;
        }
        if let Some(cycle) = self.cycle_closed_by(session, tag, mode) {
            let Some(other) = super::deadlock::who_gives_way(&cycle, self.may_give_back) else {
                return Acquired::Deadlock(super::deadlock::error(&cycle));
            };
            self.send_away(other.session, &other.tag);
            if other.gives_back {
                self.gave_back.insert(other.session);
                for tag in [LockTag::Ddl, LockTag::Branch] {
                    self.release(other.session, &tag, u8::MAX);
                }
            }
            return self.acquire(session, tag, mode, scope, policy);
        }
        assert!(!self.waits.contains_key(&session), "a session waits for one lock at a time");
        let (wait, end) = LockWait::new(tag.kind(), policy.at_most());
        let is_heeded = policy != WaitPolicy::AtLeisure;
        let entry = self.entries.get_mut(tag).expect("found above");
        entry.queue.push_back(Waiter { session, mode, scope, is_heeded, end });
        self.waits.insert(session, tag.clone());
        Acquired::Queued(wait)
    }

    /// As [`LockTable::acquire`] for a transaction, of a lock that may be given back before its end: the session with very many has it in the table, but for
    /// one that it has already.
    pub(crate) fn acquire_listed(
        &mut self,
        session: SessionId,
        tag: &LockTag,
        mode: LockMode,
        policy: WaitPolicy,
    ) -> Acquired {
        let Some(mut many) = self.many.take_if(|many| many.session == session) else {
            return self.acquire(session, tag, mode, Scope::Transaction, policy);
        };
        let is_known = !matches!(tag, LockTag::Row(..)) || self.entries.contains_key(tag);
        let modes = if is_known { 0 } else { many.modes(hash_of(tag)) };
        let acquired = if modes != 0 && mode.is_covered_by(modes) {
            Acquired::AlreadyHeld
        } else {
            if modes != 0 {
                // They stay when this one is given back.
                self.entries.insert(tag.clone(), many.show(tag, modes));
            }
            self.acquire(session, tag, mode, Scope::Transaction, policy)
        };
        self.many = Some(many);
        acquired
    }

    /// Whether another session holds a lock in a mode that conflicts with this one.
    pub(crate) fn is_held_against(&self, session: SessionId, tag: &LockTag, mode: LockMode) -> bool {
        if let Some(entry) = self.entries.get(tag) {
            return entry.conflicts_with_holders(session, mode);
        }
        let of_many = self.many.as_ref().filter(|many| many.session != session);
        of_many.is_some_and(|many| many.modes(hash_of(tag)) & mode.conflicts() != 0)
    }

    /// Whether another session holds a row lock in this very mode.
    pub(crate) fn is_held_in(&self, session: SessionId, tag: &LockTag, mode: RowLock) -> bool {
        let bit = LockMode::Row(mode).bit();
        if let Some(entry) = self.entries.get(tag) {
            return entry.holders.iter().any(|holder| holder.session != session && holder.modes() & bit != 0);
        }
        let of_many = self.many.as_ref().filter(|many| many.session != session);
        of_many.is_some_and(|many| many.modes(hash_of(tag)) & bit != 0)
    }

    /// Ends the wait of another session, which is not granted what it waited for.
    fn send_away(&mut self, session: SessionId, tag: &LockTag) {
        self.waits.remove(&session);
        self.may_give_back.take_if(|waiting| *waiting == session);
        let queue = &mut self.entries.get_mut(tag).expect("a queue with a waiter exists").queue;
        let place = queue.iter().position(|waiter| waiter.session == session).expect("it waits there");
        let waiter = queue.remove(place).expect("found right here");
        self.sent_away.insert(session);
        waiter.end.end();
        self.hand_over(tag);
    }

    /// While `session` waits for what it has queued for in this turn, it may be made to give back the right to change the catalog, if it has that.
    pub(crate) fn let_give_back(&mut self, session: SessionId) {
        let has_it = |entry: &Entry| {
            let mut own = entry.holders.iter().filter(|holder| holder.session == session);
            own.any(|holder| holder.modes() & LockMode::FOR_DDL.bit() != 0)
        };
        if self.entries.get(&LockTag::Ddl).is_some_and(has_it) {
            self.may_give_back = Some(session);
        }
    }

    /// Whether a session that was sent away had to give back the right to change the catalog. Says so once.
    pub(crate) fn gave_back(&mut self, session: SessionId) -> bool {
        !self.gave_back.is_empty() && self.gave_back.remove(&session)
    }

    /// Whether somebody waits for a lock in this mode.
    pub(crate) fn is_awaited_in(&self, tag: &LockTag, mode: LockMode) -> bool {
        self.entries.get(tag).is_some_and(|entry| entry.queue.iter().any(|waiter| waiter.mode == mode))
    }

    /// Whether who would have to be waited for, for this lock, waits for a branch.
    pub(crate) fn is_behind_branch(&self, session: SessionId, tag: &LockTag, mode: LockMode) -> bool {
        let blockers = self.blockers(session, tag, mode);
        blockers.iter().any(|blocker| self.waits.get(blocker) == Some(&LockTag::Branch))
    }

    /// Ends a session's wait: true if the lock was granted meanwhile, else the session leaves the queue.
    pub(crate) fn settle(&mut self, session: SessionId, tag: &LockTag) -> bool {
        self.may_give_back.take_if(|waiting| *waiting == session);
        if !self.sent_away.is_empty() && self.sent_away.remove(&session) {
            return false;
        }
        if self.waits.remove(&session).is_none() {
            return true;
        }
        let entry = self.entries.get_mut(tag).expect("a queue with a waiter exists");
        entry.queue.retain(|w| w.session != session);
        self.hand_over(tag);
        false
    }

    /// Lets go of modes held until the transaction's end.
    pub(crate) fn release(&mut self, session: SessionId, tag: &LockTag, modes: u8) {
        let mut is_awaited = false;
        let is_over = self.entries.remove_if(tag, |entry| {
            if let Some(holder) = entry.holders.iter_mut().find(|h| h.session == session) {
                holder.transaction &= !modes;
            }
            entry.holders.retain(|h| h.modes() != 0);
            is_awaited = !entry.queue.is_empty();
            entry.holders.is_empty() && !is_awaited
        });
        if is_over != Some(false) {
            return;
        }
        if is_awaited {
            self.hand_over(tag);
        } else if self.many.is_some() {
            self.hide(tag);
        }
    }

    /// Takes a lock out of the table that nobody has any more but the session with very many, which has it by its hash: else there would be one for each row that
    /// others came to share with it.
    fn hide(&mut self, tag: &LockTag) {
        let Some(many) = &mut self.many else { return };
        let Some([only]) = self.entries.get(tag).map(|entry| &entry.holders[..]) else { return };
        let is_shown = only.session == many.session && many.shown.contains(tag);
        if is_shown && only.modes() & !many.modes(hash_of(tag)) == 0 {
            many.shown.remove(tag);
            self.entries.remove(tag);
        }
    }

    /// Lets go of one taking of a session's own advisory lock; false if it did not hold it.
    pub(crate) fn release_own(&mut self, session: SessionId, tag: &LockTag, mode: LockMode) -> bool {
        let key = (session, tag.clone(), mode.bit());
        let Some(count) = self.session_counts.get_mut(&key) else { return false };
        *count -= 1;
        if *count == 0 {
            self.session_counts.remove(&key);
            self.drop_own(session, tag, mode.bit());
        }
        true
    }

    /// Whether there are so many of sessions' own advisory locks, and this would be another one.
    pub(crate) fn has_own_to(&self, max: usize, session: SessionId, tag: &LockTag, mode: LockMode) -> bool {
        self.session_counts.len() >= max
            && !self.session_counts.contains_key(&(session, tag.clone(), mode.bit()))
    }

    /// Lets go of all of a session's own advisory locks.
    pub(crate) fn release_session(&mut self, session: SessionId) {
        let mine: Vec<_> = self.session_counts.keys().filter(|(s, ..)| *s == session).cloned().collect();
        for key in mine {
            self.session_counts.remove(&key);
            self.drop_own(session, &key.1, key.2);
        }
    }

    fn drop_own(&mut self, session: SessionId, tag: &LockTag, modes: u8) {
        if let Some(entry) = self.entries.get_mut(tag)
            && let Some(holder) = entry.holders.iter_mut().find(|h| h.session == session)
        {
            holder.own &= !modes;
        }
        self.release(session, tag, 0);
    }

    fn count(&mut self, session: SessionId, tag: &LockTag, mode: LockMode, scope: Scope) {
        if scope == Scope::Session {
            *self.session_counts.entry((session, tag.clone(), mode.bit())).or_default() += 1;
        }
    }

    /// Grants what is waited for in the order of the queue: to who conflicts with no holder, nor with anybody ahead that waits on; the latter only if
    /// it holds no part. That is who [`LockTable::blockers`] tells of.
    fn hand_over(&mut self, tag: &LockTag) {
        let Some(entry) = self.entries.get_mut(tag) else { return };
        let mut granted: SmallVec<[(SessionId, LockMode, Scope); 2]> = SmallVec::new();
        let mut held = entry.held();
        let (mut ahead, mut place) = (0, 0);
        while let Some(next) = entry.queue.get(place) {
            let (session, mode) = (next.session, next.mode);
            let holds_part = held.is_by(entry, session);
            let conflicts = match holds_part {
                true => entry.conflicts_with_holders(session, mode),
                false => mode.conflicts() & held.modes != 0,
            };
            if conflicts || (!holds_part && mode.conflicts() & ahead != 0) {
                ahead |= if next.is_heeded { mode.bit() } else { 0 };
                place += 1;
                continue;
            }
            let next = entry.queue.remove(place).expect("looked at above");
            match holds_part {
                true => entry.hold(session, mode, next.scope),
                false => entry.hold_first(session, mode, next.scope),
            }
            held.add(session, mode);
            self.waits.remove(&session);
            granted.push((session, mode, next.scope));
            next.end.end();
        }
        if entry.holders.is_empty() && entry.queue.is_empty() {
            self.entries.remove(tag);
        }
        for (session, mode, scope) in granted {
            self.count(session, tag, mode, scope);
        }
    }

    /// The sessions that a request has to wait for.
    pub(super) fn blockers(&self, session: SessionId, tag: &LockTag, mode: LockMode) -> Vec<SessionId> {
        let Some(entry) = self.entries.get(tag) else { return Vec::new() };
        let conflicts = mode.conflicts();
        let holders = entry.holders.iter().filter(|h| h.session != session && h.modes() & conflicts != 0);
        let mut blockers: Vec<SessionId> = holders.map(|h| h.session).collect();
        let holds_part = entry.holders.iter().any(|h| h.session == session);
        if !holds_part {
            let ahead = entry.queue.iter().take_while(|w| w.session != session);
            blockers.extend(ahead.filter(|w| w.holds_up(conflicts)).map(|w| w.session));
        }
        blockers
    }
}

/// Who holds a lock, found without going through all of them for each that waits.
struct Held {
    modes: u8,
    /// Their sessions, where they are more than a few.
    sessions: Option<FxHashSet<SessionId>>,
}

impl Held {
    fn is_by(&self, entry: &Entry, session: SessionId) -> bool {
        match &self.sessions {
            Some(sessions) => sessions.contains(&session),
            None => entry.holders.iter().any(|h| h.session == session),
        }
    }

    fn add(&mut self, session: SessionId, mode: LockMode) {
        self.modes |= mode.bit();
        if let Some(sessions) = &mut self.sessions {
            sessions.insert(session);
        }
    }
}

impl Entry {
    fn held(&self) -> Held {
        let is_many = self.holders.len().max(self.queue.len()) > FEW;
        Held {
            modes: self.holders.iter().fold(0, |modes, h| modes | h.modes()),
            sessions: is_many.then(|| self.holders.iter().map(|h| h.session).collect()),
        }
    }

    fn conflicts_with_holders(&self, session: SessionId, mode: LockMode) -> bool {
        let conflicts = mode.conflicts();
        self.holders.iter().any(|h| h.session != session && h.modes() & conflicts != 0)
    }

    fn hold(&mut self, session: SessionId, mode: LockMode, scope: Scope) {
        match self.holders.iter_mut().find(|h| h.session == session) {
            Some(holder) => holder.add(mode, scope),
            None => self.hold_first(session, mode, scope),
        }
    }

    /// As [`Entry::hold`] by a session that holds nothing of it.
    fn hold_first(&mut self, session: SessionId, mode: LockMode, scope: Scope) {
        let mut holder = Holder { session, transaction: 0, own: 0 };
        holder.add(mode, scope);
        self.holders.push(holder);
    }
}

/// The error of a lock that is held while the statement said NOWAIT.
pub(crate) fn not_available(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, format!("could not obtain lock on {what} \"{name}\""))
}

#[cfg(test)]
mod tests {
    use base::TreeId;

    use super::super::spread_table::ROOM_KEPT;
    use super::*;
    use crate::row::keys::Key;

    fn row(number: u32) -> LockTag {
        LockTag::Row(TreeId(20), Key::from_slice(&number.to_be_bytes()))
    }

    fn ask(table: &mut LockTable, session: u32, number: u32) -> Acquired {
        ask_for(table, session, number, RowLock::Update)
    }

    fn ask_for(table: &mut LockTable, session: u32, number: u32, mode: RowLock) -> Acquired {
        let (session, mode) = (SessionId(session), LockMode::Row(mode));
        table.acquire(session, &row(number), mode, Scope::Transaction, WaitPolicy::SkipLocked)
    }

    #[test]
    fn locks_of_one_with_many_are_shown_once_and_to_those_alone_who_have_or_await_them() {
        let mut table = LockTable::default();
        let shown = |table: &LockTable| table.many.as_ref().map(|many| many.shown.len());
        table.keep_many(SessionId(1), u64::MAX);
        for number in 0..1000 {
            let taken = ask_for(&mut table, 1, number, RowLock::NoKeyUpdate);
            assert!(matches!(taken, Acquired::AlreadyHeld));
        }
        for _ in 0..3 {
            (0..1000).for_each(|number| assert!(matches!(ask(&mut table, 2, number), Acquired::Busy)));
        }
        assert_eq!((shown(&table), table.entries.len()), (Some(0), 0), "who leaves rows out keeps none");
        for _ in 0..100 {
            (0..10).for_each(|number| drop(ask_for(&mut table, 2, number, RowLock::KeyShare)));
        }
        assert_eq!(shown(&table), Some(10));
        // What it takes behind another one is no hash, and stays.
        assert!(matches!(ask_for(&mut table, 2, 2000, RowLock::KeyShare), Acquired::Gained));
        assert!(matches!(ask_for(&mut table, 1, 2000, RowLock::NoKeyUpdate), Acquired::Gained));
        (0..10).for_each(|number| table.release(SessionId(2), &row(number), u8::MAX));
        table.release(SessionId(2), &row(2000), u8::MAX);
        assert_eq!((shown(&table), table.entries.len()), (Some(0), 1), "nobody else has them any more");
        for number in [9, 2000] {
            assert!(matches!(ask(&mut table, 2, number), Acquired::Busy));
        }
        table.release(SessionId(1), &row(2000), u8::MAX);
        let mode = LockMode::Row(RowLock::Update);
        let waits = table.acquire(SessionId(2), &row(20), mode, Scope::Transaction, WaitPolicy::Wait);
        assert!(matches!(waits, Acquired::Queued(_)) && shown(&table) == Some(1));
        table.release_many(SessionId(1));
        assert!(table.settle(SessionId(2), &row(20)));
        table.release(SessionId(2), &row(20), u8::MAX);
        assert!(table.is_empty());
    }

    #[test]
    fn who_holds_a_lock_has_it_whatever_one_with_many_may_seem_to_hold() {
        let mut table = LockTable::default();
        // So little room that some of its locks are others' too.
        table.keep_many(SessionId(1), 0);
        (0..20_000).for_each(|number| assert!(matches!(ask(&mut table, 1, number), Acquired::AlreadyHeld)));
        let asked: Vec<u32> = (20_000..30_000).collect();
        let gained: Vec<u32> =
            asked.iter().copied().filter(|n| matches!(ask(&mut table, 2, *n), Acquired::Gained)).collect();
        assert!((1000..9999).contains(&gained.len()), "{}", gained.len());
        (20_000..50_000).for_each(|number| drop(ask(&mut table, 3, number)));
        (50_000..90_000).for_each(|number| drop(ask(&mut table, 1, number)));
        for number in gained {
            assert!(matches!(ask(&mut table, 2, number), Acquired::AlreadyHeld));
            assert!(matches!(ask(&mut table, 1, number), Acquired::Busy));
        }
        (0..1000).for_each(|number| assert!(matches!(ask(&mut table, 2, number), Acquired::Busy)));
    }

    #[test]
    fn who_shares_a_row_waits_for_nobody_that_waits_for_it() {
        let mut table = LockTable::default();
        let mode = LockMode::Row(RowLock::Update);
        assert!(matches!(ask_for(&mut table, 1, 7, RowLock::KeyShare), Acquired::Gained));
        let deletes = table.acquire(SessionId(2), &row(7), mode, Scope::Transaction, WaitPolicy::Wait);
        assert!(matches!(deletes, Acquired::Queued(_)));
        assert!(matches!(ask_for(&mut table, 3, 7, RowLock::KeyShare), Acquired::Gained));
        assert!(matches!(ask_for(&mut table, 4, 7, RowLock::NoKeyUpdate), Acquired::Gained));
        assert!(matches!(ask_for(&mut table, 5, 7, RowLock::Share), Acquired::Busy));
        [1, 3, 4].into_iter().for_each(|session| table.release(SessionId(session), &row(7), u8::MAX));
        assert!(table.settle(SessionId(2), &row(7)));
        assert!(matches!(ask_for(&mut table, 3, 7, RowLock::KeyShare), Acquired::Busy));
        table.release(SessionId(2), &row(7), u8::MAX);
        assert!(table.is_empty());
    }

    #[test]
    fn who_waits_at_leisure_holds_nobody_up_and_is_granted_what_is_free() {
        use super::super::TableLock;
        let tag = LockTag::Table(base::Oid(7));
        let mut table = LockTable::default();
        let ask = |table: &mut LockTable, session: u32, mode: TableLock, policy: WaitPolicy| {
            table.acquire(SessionId(session), &tag, LockMode::Table(mode), Scope::Transaction, policy)
        };
        let writes =
            |table: &mut LockTable, session| ask(table, session, TableLock::RowExclusive, WaitPolicy::Wait);
        assert!(matches!(writes(&mut table, 1), Acquired::Gained));
        for (policy, is_held_up) in [(WaitPolicy::Briefly, true), (WaitPolicy::AtLeisure, false)] {
            let Acquired::Queued(wait) = ask(&mut table, 2, TableLock::Share, policy) else {
                panic!("somebody writes")
            };
            assert!(wait.at_most.is_some());
            let other = writes(&mut table, 3);
            assert_eq!(matches!(other, Acquired::Queued(_)), is_held_up, "{policy:?}");
            // The time is up.
            assert!(!wait.is_over() && !table.settle(SessionId(2), &tag));
            assert!(table.settle(SessionId(3), &tag), "who came behind it goes on");
            table.release(SessionId(3), &tag, u8::MAX);
        }
        let asked = ask(&mut table, 2, TableLock::Share, WaitPolicy::AtLeisure);
        assert!(matches!(writes(&mut table, 3), Acquired::Gained));
        table.release(SessionId(1), &tag, u8::MAX);
        assert!(matches!(&asked, Acquired::Queued(wait) if !wait.is_over()));
        table.release(SessionId(3), &tag, u8::MAX);
        assert!(matches!(&asked, Acquired::Queued(wait) if wait.is_over()));
        assert!(table.settle(SessionId(2), &tag));
        table.release(SessionId(2), &tag, u8::MAX);
        assert!(table.is_empty());
    }

    /// An ALTER TABLE that waits for many, and many that wait behind it; some of them hold a part.
    #[test]
    fn who_waits_is_granted_in_order_however_many_hold_and_wait() {
        use super::super::TableLock;
        const COUNT: u32 = 300;
        let tag = LockTag::Table(base::Oid(7));
        let mut table = LockTable::default();
        let ask = |table: &mut LockTable, session: u32, mode: TableLock| {
            let (session, mode) = (SessionId(session), LockMode::Table(mode));
            table.acquire(session, &tag, mode, Scope::Transaction, WaitPolicy::Wait)
        };
        for session in 0..COUNT {
            assert!(matches!(ask(&mut table, session, TableLock::RowExclusive), Acquired::Gained));
        }
        let alters = ask(&mut table, COUNT, TableLock::AccessExclusive);
        let waits: Vec<Acquired> =
            (0..COUNT).map(|n| ask(&mut table, COUNT + 1 + n, TableLock::RowExclusive)).collect();
        // It holds a part, and goes before who conflicts with that.
        assert!(matches!(ask(&mut table, 0, TableLock::RowShare), Acquired::Gained));
        let is_over = |acquired: &Acquired| matches!(acquired, Acquired::Queued(wait) if wait.is_over());
        for session in 0..COUNT {
            assert!(!is_over(&alters), "{session} still holds it");
            table.release(SessionId(session), &tag, u8::MAX);
        }
        assert!(is_over(&alters) && !waits.iter().any(is_over));
        assert!(table.settle(SessionId(COUNT), &tag));
        table.release(SessionId(COUNT), &tag, u8::MAX);
        assert!(waits.iter().all(is_over));
        for session in COUNT + 1..=2 * COUNT {
            assert!(table.settle(SessionId(session), &tag));
            table.release(SessionId(session), &tag, u8::MAX);
        }
        assert!(table.is_empty());
    }

    #[test]
    fn locks_that_are_gone_leave_no_room_behind() {
        let mut table = LockTable::default();
        const COUNT: u32 = 100_000;
        (0..COUNT).for_each(|number| assert!(matches!(ask(&mut table, 1, number), Acquired::Gained)));
        assert!(matches!(ask(&mut table, 2, COUNT), Acquired::Gained));
        (0..COUNT).for_each(|number| table.release(SessionId(1), &row(number), u8::MAX));
        assert!(table.entries.capacity() <= ROOM_KEPT, "{}", table.entries.capacity());
        assert!(matches!(ask(&mut table, 1, COUNT), Acquired::Busy));
    }
}
