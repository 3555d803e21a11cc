//! Which tenants with reservations fell asleep lately: those are likely to be back soon, for a message of theirs may be under way.

/// So long after it fell asleep a tenant is expected back.
const LATELY: u64 = 1_000_000;

/// So many are kept; of more the last ones.
const KEPT: usize = 4;

#[derive(Clone, Copy)]
struct Sleeper {
    account: u32,
    slept_at: u64,
    /// From when on it would have a deficit, if it had a task.
    due_at: u64,
}

/// Instants are of the scheduler's virtual time.
#[derive(Default)]
pub(super) struct Sleepers {
    kept: [Option<Sleeper>; KEPT],
    /// Which is the oldest.
    oldest: usize,
}

impl Sleepers {
    /// The tenant of this account has no task left to run. It was forgotten when it woke.
    pub(super) fn note(&mut self, account: u32, slept_at: u64, due_at: u64) {
        self.kept[self.oldest] = Some(Sleeper { account, slept_at, due_at });
        self.oldest = (self.oldest + 1) % KEPT;
    }

    /// It has one again, or is no more.
    pub(super) fn forget(&mut self, account: u32) {
        for kept in &mut self.kept {
            if kept.is_some_and(|sleeper| sleeper.account == account) {
                *kept = None;
            }
        }
    }

    /// From when on the first of them would have a deficit.
    pub(super) fn first_due_at(&self, now: u64) -> Option<u64> {
        let lately = self.kept.iter().flatten().filter(|sleeper| now < sleeper.slept_at.saturating_add(LATELY));
        lately.map(|sleeper| sleeper.due_at).min()
    }
}
