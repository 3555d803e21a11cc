//! Which tenants with reservations fell asleep lately: those are likely to be back soon, for a message of theirs may be under way.

/// So long after it fell asleep a tenant is expected back.
pub(super) const LATELY: u64 = 1_000_000;

/// So many are kept; of more those that are due first.
const KEPT: usize = 4;

#[derive(Clone, Copy)]
struct Sleeper {
    account: u32,
    slept_at: u64,
    /// From when on it would have a deficit, if it had a task.
    due_at: u64,
}

impl Sleeper {
    fn is_expected(&self, now: u64) -> bool {
        now < self.slept_at.saturating_add(LATELY)
    }
}

/// Instants are of the scheduler's virtual time.
#[derive(Default)]
pub(super) struct Sleepers {
    kept: [Option<Sleeper>; KEPT],
}

impl Sleepers {
    /// The tenant of this account has no task left to run. It was forgotten when it woke.
    pub(super) fn note(&mut self, account: u32, slept_at: u64, due_at: u64) {
        // A place that nobody has who is expected, else that of who is due last, which may be this one.
        let due = |kept: Option<Sleeper>| {
            kept.filter(|sleeper| sleeper.is_expected(slept_at)).map_or(u64::MAX, |sleeper| sleeper.due_at)
        };
        let place = self.kept.iter_mut().max_by_key(|kept| due(**kept));
        if let Some(place) = place.filter(|place| due_at < due(**place)) {
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
        let expected = self.kept.iter().flatten().filter(|sleeper| sleeper.is_expected(now));
        expected.map(|sleeper| sleeper.due_at).min()
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
    }

    #[test]
    fn of_more_than_there_are_places_for_those_due_first_are_kept() {
        let mut sleepers = Sleepers::default();
        for (account, due_at) in [40_000, 20_000, 60_000, 50_000, 30_000, 70_000].into_iter().enumerate() {
            sleepers.note(account as u32, 1_000 * account as u64, due_at);
        }
        let mut kept: Vec<u64> = sleepers.kept.iter().flatten().map(|sleeper| sleeper.due_at).collect();
        kept.sort_unstable();
        assert_eq!(kept, [20_000, 30_000, 40_000, 50_000]);
        // Who is not expected any more makes room, whenever it is due.
        sleepers.note(9, 500 + LATELY, 90_000 + LATELY);
        assert_eq!(sleepers.first_due_at(500 + LATELY), Some(20_000));
        assert!(!sleepers.kept.iter().flatten().any(|sleeper| sleeper.due_at == 40_000));
    }
}
