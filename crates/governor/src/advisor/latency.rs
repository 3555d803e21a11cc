//! Which share of a core a tenant needs while it has something to do, for its statements to be fast enough.
//!
//! Of each minute on record two things are known: how long statements took, and the share of the time with a task in which the tenant got processor time (`given / active`, the effective share of `isolation.md`).
//! A reservation of R promises a share of R. The minutes are put in order of their share, from large to small, and cut into groups of 30. From the top on, groups whose statements' 99th percentile
//! is within the goal are taken; the smallest share of the last of them is enough. Example: groups with shares of 0.9, 0.6 and 0.3 have 4, 5 and 11 ms: for 5 ms it is 0.6.
//!
//! What that is worth: it is what was seen, not why. In minutes with a small share others ran, and the tenant itself may have done more, waited for its own locks or read other pages; so the share is
//! rather too large. If statements were too slow even in the group with the largest shares, processor time is not what they lacked. A share smaller than any on record may be enough, too.

use std::collections::BTreeMap;

use base::{Nanos, TenantId};

use crate::meter::{Resource, RollUpRow, SampleRow, Sampled, SparseHistogram};
use crate::promise::MilliCores;

/// Minutes of a group: with fewer, one odd minute decides.
const GROUP_MINUTES: usize = 30;

/// What is known of a minute: the share in thousandths, and the statements.
#[derive(Clone, Debug)]
pub(super) struct Minute {
    share: u32,
    times: SparseHistogram,
}

/// What the record says of the goal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareForGoal {
    /// This share was enough, and the next smaller ones on record were not.
    Enough(MilliCores),
    /// All shares on record were enough, the smallest of them this: less is not known.
    AllEnough(MilliCores),
    /// Statements were slower than the goal with the largest shares, too: it is not for want of processor time.
    NotForWantOfCpu,
    /// Fewer minutes than a group on record: nothing can be said.
    TooLittleOnRecord,
}

impl ShareForGoal {
    /// The share to reserve, if that is known to help.
    pub fn share(self) -> Option<MilliCores> {
        match self {
            ShareForGoal::Enough(share) | ShareForGoal::AllEnough(share) => Some(share),
            ShareForGoal::NotForWantOfCpu | ShareForGoal::TooLittleOnRecord => None,
        }
    }

    /// Whether a reservation keeps the goal, as far as that is known.
    pub(super) fn is_kept_by(self, reserved: MilliCores) -> Option<bool> {
        match self {
            ShareForGoal::Enough(share) => Some(reserved >= share),
            ShareForGoal::AllEnough(share) => (reserved >= share).then_some(true),
            ShareForGoal::NotForWantOfCpu => Some(false),
            ShareForGoal::TooLittleOnRecord => None,
        }
    }
}

/// The minutes of a tenant of which both are known. Rows of hours are left out: their shares are means.
pub(super) fn minutes(tenant: TenantId, rows: &[RollUpRow], samples: &[SampleRow]) -> Vec<Minute> {
    let mut shares = BTreeMap::new();
    for row in rows.iter().filter(|row| row.tenant == tenant && row.resource == Resource::Cpu) {
        if row.minutes == 1 && row.active > Nanos(0) {
            let share = u128::from(row.given) * 1000 / u128::from(row.active.0);
            // More than one task at a time: nobody had to wait for a core.
            shares.insert(row.from, share.min(1000) as u32);
        }
    }
    let of_it =
        |row: &&SampleRow| row.tenant == tenant && row.sampled == Sampled::StatementTime && row.minutes == 1;
    let minute = |row: &SampleRow| {
        let share = *shares.get(&row.from)?;
        Some(Minute { share, times: row.amounts.clone() })
    };
    samples.iter().filter(of_it).filter_map(minute).collect()
}

/// The share that was enough for 99 of 100 statements to take no longer than `goal`.
pub(super) fn share_for(minutes: &[Minute], goal: Nanos) -> ShareForGoal {
    let mut by_share: Vec<&Minute> = minutes.iter().collect();
    by_share.sort_by_key(|minute| std::cmp::Reverse(minute.share));
    let mut enough = None;
    // What is left over after whole groups, the smallest shares, is not judged.
    for group in by_share.chunks_exact(GROUP_MINUTES) {
        let mut times = SparseHistogram::default();
        group.iter().for_each(|minute| times.merge(&minute.times));
        let smallest = group.last().expect("a group has minutes").share;
        if Nanos(times.percentile(0.99)) > goal {
            return enough.map_or(ShareForGoal::NotForWantOfCpu, ShareForGoal::Enough);
        }
        enough = Some(MilliCores(smallest));
    }
    enough.map_or(ShareForGoal::TooLittleOnRecord, ShareForGoal::AllEnough)
}
