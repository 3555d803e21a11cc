//! Advisory locks of a session, which outlive its transactions: each is held until it was unlocked as often as it was locked, or the session
//! ends.
//!
//! Others may have seen what a run of a statement locked and unlocked, so it stays done where the run is taken back. The statement's next run makes the same calls
//! again: those are answered, and not carried out a second time. A statement that fails keeps what it locked, as in PostgreSQL.

use base::{SqlError, SqlState};
use rustc_hash::FxHashMap;

use crate::interrupt::{Interrupt, Step};
use crate::locks::{Acquired, AdvisoryKey, LockMode, LockTag, Scope, TableLock, WaitPolicy};
use crate::tenant::Tenant;
use crate::txn::Txn;
use crate::view::View;

/// Locks that sessions of a tenant hold for themselves, at most: 3 MiB at some 200 bytes each. By its defaults PostgreSQL has room for 6,400 locks of all
/// kinds.
const SESSION_LOCKS_MAX: usize = 1 << 14;

/// A call that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Call {
    Lock(AdvisoryKey, LockMode),
    Unlock(AdvisoryKey, LockMode),
}

/// What the statement under way did with its session's locks: how often it made each call.
#[derive(Default, Debug)]
pub(crate) struct SessionLocks {
    /// In its present run.
    run: FxHashMap<Call, u32>,
    /// In runs that were taken back, less what the present run has come to again.
    before: FxHashMap<Call, u32>,
}

impl SessionLocks {
    fn note(&mut self, call: Call) {
        *self.run.entry(call).or_default() += 1;
    }

    /// Whether an earlier run has made the call; it is this run's then.
    fn takes_over(&mut self, call: Call) -> bool {
        let made = take_one(&mut self.before, call);
        if made {
            self.note(call);
        }
        made
    }

    /// What was locked and is unlocked within one run, the next one does anew.
    fn note_unlocked(&mut self, key: AdvisoryKey, mode: LockMode) {
        if !take_one(&mut self.run, Call::Lock(key, mode)) {
            self.note(Call::Unlock(key, mode));
        }
    }

    /// A lock that the statement waited for was granted; the call that waited has yet to be made again.
    fn note_granted(&mut self, key: AdvisoryKey, mode: LockMode) {
        *self.before.entry(Call::Lock(key, mode)).or_default() += 1;
    }

    fn note_all_unlocked(&mut self) {
        for calls in [&mut self.run, &mut self.before] {
            calls.retain(|call, _| matches!(call, Call::Unlock(..)));
        }
    }

    /// The run is taken back, and will be made again.
    pub(crate) fn rewind(&mut self) {
        for (call, times) in self.run.drain() {
            *self.before.entry(call).or_default() += times;
        }
    }

    /// There will be no other run.
    pub(crate) fn forget(&mut self) {
        *self = SessionLocks::default();
    }
}

/// Takes a call off `calls`, if it is there.
fn take_one(calls: &mut FxHashMap<Call, u32>, call: Call) -> bool {
    let Some(times) = calls.get_mut(&call) else { return false };
    *times -= 1;
    if *times == 0 {
        calls.remove(&call);
    }
    true
}

impl View<'_> {
    /// `pg_advisory_lock` and its kin: until unlocked as often as locked, or the session's end. False if it is held and the policy is not to
    /// wait.
    ///
    /// Errors: 40P01, 53200 where the tenant's sessions have [`SESSION_LOCKS_MAX`].
    pub fn lock_advisory_for_session(
        &mut self,
        key: AdvisoryKey,
        shared: bool,
        policy: WaitPolicy,
    ) -> Step<bool> {
        let (tenant, txn) = (&mut *self.tenant, &mut *self.txn);
        let (tag, mode) = (LockTag::Advisory(key), advisory_mode(shared));
        tenant.settle_wait(txn);
        if txn.session_locks.takes_over(Call::Lock(key, mode)) {
            return Ok(true);
        }
        if tenant.locks.has_own_to(SESSION_LOCKS_MAX, txn.session, &tag, mode) {
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of shared memory")
                .with_detail(format!(
                    "The sessions of a database hold {SESSION_LOCKS_MAX} advisory locks at most beyond their transactions."
                ))
                .into());
        }
        match tenant.locks.acquire(txn.session, &tag, mode, Scope::Session, policy) {
            Acquired::Gained | Acquired::AlreadyHeld => {
                txn.session_locks.note(Call::Lock(key, mode));
                Ok(true)
            }
            Acquired::Busy => Ok(false),
            Acquired::Deadlock(error) => Err(error.into()),
            Acquired::Queued(wait) => {
                txn.waiting = Some((tag, mode, Scope::Session));
                Err(Interrupt::Wait(wait))
            }
        }
    }

    /// `pg_advisory_unlock`; false if the session does not hold it.
    pub fn unlock_advisory(&mut self, key: AdvisoryKey, shared: bool) -> bool {
        let (tenant, txn) = (&mut *self.tenant, &mut *self.txn);
        let mode = advisory_mode(shared);
        tenant.settle_wait(txn);
        if txn.session_locks.takes_over(Call::Unlock(key, mode)) {
            return true;
        }
        let held = tenant.locks.release_own(txn.session, &LockTag::Advisory(key), mode);
        if held {
            txn.session_locks.note_unlocked(key, mode);
        }
        held
    }

    /// `pg_advisory_unlock_all`.
    pub fn unlock_advisory_all(&mut self) {
        let (tenant, txn) = (&mut *self.tenant, &mut *self.txn);
        tenant.settle_wait(txn);
        tenant.locks.release_session(txn.session);
        txn.session_locks.note_all_unlocked();
    }
}

impl Tenant {
    /// A statement has ended well, or a part of it that is not taken back any more: what only runs locked that were taken back, since they read something else,
    /// is let go of. What it did with sequences is forgotten.
    pub fn settle_session_locks(&mut self, txn: &mut Txn) {
        txn.sequence_calls.forget();
        let SessionLocks { before, .. } = std::mem::take(&mut txn.session_locks);
        for (call, locked) in &before {
            let Call::Lock(key, mode) = *call else { continue };
            let unlocked = before.get(&Call::Unlock(key, mode)).copied().unwrap_or_default();
            for _ in unlocked..*locked {
                self.locks.release_own(txn.session, &LockTag::Advisory(key), mode);
            }
        }
    }

    /// Finds out whether the lock waited for was granted; if not, leaves the queue.
    pub(crate) fn settle_wait(&mut self, txn: &mut Txn) {
        match self.granted(txn) {
            Some((tag, mode, Scope::Transaction)) => txn.held.push((tag, mode.bit())),
            Some((LockTag::Advisory(key), mode, Scope::Session)) => txn.session_locks.note_granted(key, mode),
            Some((_, _, Scope::Session)) => unreachable!("a session locks advisory keys alone"),
            None => {}
        }
    }

    /// Ends the wait of a statement that will not be run again: nobody is told of a lock that a session was granted.
    pub(crate) fn give_up_wait(&mut self, txn: &mut Txn) {
        match self.granted(txn) {
            Some((tag, mode, Scope::Transaction)) => txn.held.push((tag, mode.bit())),
            Some((tag, mode, Scope::Session)) => {
                self.locks.release_own(txn.session, &tag, mode);
            }
            None => {}
        }
    }

    /// The lock waited for, if it was granted; if not, the session leaves the queue.
    fn granted(&mut self, txn: &mut Txn) -> Option<(LockTag, LockMode, Scope)> {
        let (tag, mode, scope) = txn.waiting.take()?;
        let granted = self.locks.settle(txn.session, &tag);
        if self.locks.gave_back(txn.session) {
            txn.gave_back = true;
            txn.held.forget(&[LockTag::Ddl, LockTag::Branch]);
        }
        granted.then_some((tag, mode, scope))
    }
}

pub(crate) fn advisory_mode(shared: bool) -> LockMode {
    LockMode::Table(if shared { TableLock::Share } else { TableLock::Exclusive })
}
