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
}

impl Sleepers {
    /// The tenant of this account has no task left to run. It was forgotten when it woke.
    pub(super) fn note(&mut self, account: u32, slept_at: u64, due_at: u64) {
        // A place that nobody has, else that of who has slept longest.
        let place = self.kept.iter_mut().min_by_key(|kept| kept.map(|sleeper| sleeper.slept_at));
        if let Some(place) = place {
            *place = Some(Sleeper { account, slept_at, due_at });
        }
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
        let lately =
            self.kept.iter().flatten().filter(|sleeper| now < sleeper.slept_at.saturating_add(LATELY));
        lately.map(|sleeper| sleeper.due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_falls_asleep_often_has_one_place() {
        let mut sleepers = Sleepers::default();
        sleepers.note(1, 1_000, 5_000);
        for round in 2..10 {
            sleepers.note(2, 1_000 * round, 90_000);
            sleepers.forget(2);
        }
        assert_eq!(sleepers.first_due_at(10_000), Some(5_000));
        // Of more than there are places for, who has slept longest is forgotten.
        (3..7).for_each(|account| sleepers.note(account, 10_000, 90_000));
        assert_eq!(sleepers.first_due_at(10_000), Some(90_000));
    }
}
