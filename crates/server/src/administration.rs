//! What administrators changed since the server started, counted by kind: whoever shows it looks whether the numbers have grown.

use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of what can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Administered {
    Tenants,
    Sizes,
    Server,
    Volumes,
    Rules,
}

impl Administered {
    /// All of them, in order.
    pub(crate) const ALL: [Administered; 5] = [
        Administered::Tenants,
        Administered::Sizes,
        Administered::Server,
        Administered::Volumes,
        Administered::Rules,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Administered::Tenants => "tenants",
            Administered::Sizes => "sizes",
            Administered::Server => "server",
            Administered::Volumes => "volumes",
            Administered::Rules => "rules",
        }
    }
}

/// Changes so far, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct AdministeredCounts([u64; Administered::ALL.len()]);

impl AdministeredCounts {
    pub(crate) fn of(&self, what: Administered) -> u64 {
        self.0[what as usize]
    }
}

/// One for each server.
#[derive(Default)]
pub(crate) struct AdministeredCounter([AtomicU64; Administered::ALL.len()]);

impl AdministeredCounter {
    /// Counts a change that is in force.
    pub(crate) fn note(&self, what: Administered) {
        self.0[what as usize].fetch_add(1, Ordering::Release);
    }

    pub(crate) fn counts(&self) -> AdministeredCounts {
        // Acquire pairs with `note`: who sees the number sees what was changed.
        AdministeredCounts(std::array::from_fn(|at| self.0[at].load(Ordering::Acquire)))
    }
}
