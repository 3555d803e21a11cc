//! In which order loads that wait for room in memory get it.
//!
//! Of the tenants with loads that wait, the next room is for one that has less than it was promised; among equals for the one with the
//! fewest pages held and rooms taken, then for the one whose load has waited longest; within a tenant it is first come, first served. What a
//! tenant holds falls only if its loads get on, so by that rule alone one that holds much could wait for ever behind others that come and go: each
//! [`OLDEST_EVERY`]th room is for the load that has waited longest, whoever's it is. So a load gets room after at most that many times the
//! loads that waited when it came. Example: A holds 300 pages, B none, both have loads that wait and no promise: B, B, B, the oldest, B, …
//!
//! A choice looks at each tenant that has a load waiting: it costs nothing for those that have none, however many there are.

use std::collections::VecDeque;

use base::TenantId;
use rustc_hash::FxHashMap;

/// Of so many rooms one is for the load that has waited longest.
pub const OLDEST_EVERY: u64 = 4;

/// What a tenant has at the moment of a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomStanding {
    /// It has fewer pages in memory than it was promised.
    pub is_below_promise: bool,
    /// Pages that its statements hold, and rooms that its loads have taken.
    pub held: u64,
}

/// The loads that wait, each a `W`.
pub struct RoomLine<W> {
    tenants: FxHashMap<TenantId, VecDeque<(u64, W)>>,
    /// Number of the next load that comes.
    next: u64,
    given: u64,
}

impl<W> Default for RoomLine<W> {
    fn default() -> RoomLine<W> {
        RoomLine { tenants: FxHashMap::default(), next: 0, given: 0 }
    }
}

impl<W> RoomLine<W> {
    /// A load comes to wait.
    pub fn push(&mut self, tenant: TenantId, load: W) {
        self.tenants.entry(tenant).or_default().push_back((self.next, load));
        self.next += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Takes out the load that the next room is for. `standing` is asked for each tenant that has a load waiting, of its oldest one.
    pub fn next(&mut self, mut standing: impl FnMut(&W) -> RoomStanding) -> Option<W> {
        let is_for_oldest = self.given % OLDEST_EVERY == OLDEST_EVERY - 1;
        let rank = |(tenant, loads): (&TenantId, &VecDeque<(u64, W)>)| {
            let (number, load) = loads.front().expect("a tenant in the line has a load that waits");
            let standing = standing(load);
            let (class, held) = match is_for_oldest {
                true => (false, 0),
                false => (!standing.is_below_promise, standing.held),
            };
            (class, held, *number, *tenant)
        };
        let (.., tenant) = self.tenants.iter().map(rank).min()?;
        self.given += 1;
        let loads = self.tenants.get_mut(&tenant).expect("just seen");
        let (_, load) = loads.pop_front().expect("just seen");
        if loads.is_empty() {
            self.tenants.remove(&tenant);
        }
        Some(load)
    }

    /// Takes out a load of `tenant` that does not wait any more; `None` if none is the one.
    pub fn remove(&mut self, tenant: TenantId, is_it: impl Fn(&W) -> bool) -> Option<W> {
        let loads = self.tenants.get_mut(&tenant)?;
        let at = loads.iter().position(|(_, load)| is_it(load))?;
        let removed = loads.remove(at);
        if loads.is_empty() {
            self.tenants.remove(&tenant);
        }
        removed.map(|(_, load)| load)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: TenantId = TenantId(16);
    const B: TenantId = TenantId(17);
    const C: TenantId = TenantId(18);

    fn standing(is_below_promise: bool, held: u64) -> RoomStanding {
        RoomStanding { is_below_promise, held }
    }

    #[test]
    fn who_lacks_what_it_was_promised_is_first_then_who_holds_least() {
        let mut line = RoomLine::default();
        for n in 0..4 {
            [A, B, C].into_iter().for_each(|tenant| line.push(tenant, (tenant, n)));
        }
        let of = |(tenant, _): &(TenantId, u32)| match *tenant {
            A => standing(false, 3),
            B => standing(false, 2),
            _ => standing(true, 400),
        };
        let order: Vec<_> = std::iter::from_fn(|| line.next(of)).collect();
        let expected = [
            (C, 0),
            (C, 1),
            (C, 2),
            (A, 0), // The oldest of all.
            (C, 3),
            (B, 0),
            (B, 1),
            (A, 1),
            (B, 2),
            (B, 3),
            (A, 2),
            (A, 3),
        ];
        assert_eq!(order, expected);
        assert!(line.is_empty() && line.next(of).is_none());
    }

    #[test]
    fn equals_take_turns_by_what_they_got() {
        let mut line = RoomLine::default();
        (0..3).for_each(|n| line.push(A, (A, n)));
        (0..3).for_each(|n| line.push(B, (B, n)));
        let mut held: FxHashMap<TenantId, u64> = FxHashMap::default();
        let mut order = Vec::new();
        while let Some((tenant, _)) =
            line.next(|(tenant, _)| standing(false, held.get(tenant).copied().unwrap_or(0)))
        {
            *held.entry(tenant).or_default() += 1;
            order.push(tenant);
        }
        assert_eq!(order, [A, B, A, A, B, B], "the fourth is the oldest");
    }

    #[test]
    fn who_goes_away_is_not_chosen() {
        let mut line = RoomLine::default();
        [1, 2, 3].into_iter().for_each(|n| line.push(A, n));
        assert_eq!(line.remove(A, |n| *n == 2), Some(2));
        assert_eq!((line.remove(A, |n| *n == 2), line.remove(B, |_| true)), (None, None));
        assert_eq!(line.next(|_| standing(false, 0)), Some(1));
        assert_eq!(line.remove(A, |n| *n == 3), Some(3));
        assert!(line.is_empty());
    }

    proptest! {
        /// Each load gets room once, a tenant's in their order, and within the stated number of others.
        #[test]
        fn nobody_waits_for_ever(
            steps in prop::collection::vec((0..3u8, 0..12u64, 0..500u64, any::<bool>()), 1..400),
        ) {
            let mut line = RoomLine::default();
            let mut waiting: Vec<(usize, TenantId, u64)> = Vec::new();
            let mut held = [(false, 0); 12];
            let mut came = 0;
            for (step, tenant, now_held, below) in steps {
                let id = TenantId(16 + tenant);
                match step {
                    0 => {
                        // May be passed by three others for each that it finds, and itself.
                        let most = OLDEST_EVERY * (waiting.len() as u64 + 1);
                        line.push(id, (came, id));
                        waiting.push((came, id, most));
                        came += 1;
                    }
                    1 => held[tenant as usize] = (below, now_held),
                    _ => {
                        let of = |(_, tenant): &(usize, TenantId)| {
                            let (below, held) = held[tenant.0 as usize - 16];
                            standing(below, held)
                        };
                        let next = line.next(of);
                        prop_assert_eq!(next.is_some(), !waiting.is_empty());
                        let Some((number, tenant)) = next else { continue };
                        let first = waiting.iter().find(|(_, of, _)| *of == tenant).expect("it waited");
                        prop_assert_eq!(first.0, number);
                        waiting.retain(|(waits, ..)| *waits != number);
                        for (_, _, most) in &mut waiting {
                            prop_assert!(*most > 1, "passed by too many");
                            *most -= 1;
                        }
                    }
                }
            }
        }
    }
}
