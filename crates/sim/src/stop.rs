//! Why a task of a simulated server ends.

use std::fmt::Display;

use base::{SqlError, SqlState, TenantId};
use env::sim::World;

/// A task's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The power is off; what was under way is not known.
    PowerOff,
    /// A fault of the disk was met, and what was under way is not known.
    Fault(String),
    /// Something that must never be, in words.
    Violation(String),
}

impl Stop {
    /// An operation failed that fails only without power, or by a fault of the disk.
    pub fn failed(world: &World, doing: &str, error: impl Display) -> Stop {
        let what = format!("{doing}: {error}");
        match () {
            () if world.is_powered_off() => Stop::PowerOff,
            () if world.faults_struck() > 0 => Stop::Fault(what),
            () => Stop::Violation(what),
        }
    }

    /// `Ok` if a statement may be refused so: by other sessions, or by a fault of the disk that struck.
    pub fn unless_expected(world: &World, error: &SqlError) -> Result<(), Stop> {
        let by_sessions = [SqlState::DEADLOCK_DETECTED, SqlState::SERIALIZATION_FAILURE];
        let by_disk = [SqlState::IO_ERROR, SqlState::DISK_FULL, SqlState::DATA_CORRUPTED];
        let state = error.state();
        // Who asks how much room there is refuses before an operation finds out: that is no fault, which would excuse whatever else there is.
        let is_refused = state == SqlState::DISK_FULL && error.message().starts_with("the tenant needs ");
        if is_refused && world.was_limited() {
            return Ok(());
        }
        if by_sessions.contains(&state) || (by_disk.contains(&state) && world.faults_struck() > 0) {
            return Ok(());
        }
        Err(Stop::failed(world, "a statement", format!("{}: {error}", state.as_str())))
    }

    /// Says in a violation where it was found.
    pub(crate) fn after(self, context: &str) -> Stop {
        match self {
            Stop::Violation(what) => Stop::Violation(format!("{context}: {what}")),
            stop => stop,
        }
    }

    pub(crate) fn of_tenant(self, tenant: TenantId) -> Stop {
        self.after(&format!("tenant {tenant}"))
    }

    pub fn violation(what: impl Into<String>) -> Stop {
        Stop::Violation(what.into())
    }
}

/// `Err(Stop::Violation)` with a formatted text unless the condition holds.
#[macro_export]
macro_rules! require {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Stop::violation(format!($($text)+)));
        }
    };
}

#[cfg(test)]
mod tests {
    use base::ByteCount;

    use super::*;

    #[test]
    fn what_is_refused_for_a_limited_disk_excuses_nothing_else() {
        let world = World::new(1);
        let full = |message: &str| SqlError::new(SqlState::DISK_FULL, message.to_owned());
        let asked = full("the tenant needs 2MiB, and the volume of /data has 1MiB left");
        let found = full("the volume of /data is full");
        let is_expected = |error: &SqlError| Stop::unless_expected(&world, error).is_ok();
        assert!(!is_expected(&asked) && !is_expected(&found));
        world.set_disk_capacity(ByteCount::from_mib(1));
        assert!(world.env().disk.free_space("/".as_ref()).is_ok());
        assert!(is_expected(&asked) && !is_expected(&found));
        world.lift_capacity();
        assert!(is_expected(&asked), "it was refused before");
        world.mend_disk();
        assert!(!is_expected(&asked));
    }
}
