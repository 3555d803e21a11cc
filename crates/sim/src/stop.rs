//! Why a task of a simulated server ends.

use std::fmt::Display;

use env::sim::World;

/// A task's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The power is off; what was under way is not known.
    PowerOff,
    /// Something that must never be, in words.
    Violation(String),
}

impl Stop {
    /// An operation failed that fails only without power.
    pub fn failed(world: &World, doing: &str, error: impl Display) -> Stop {
        if world.is_powered_off() { Stop::PowerOff } else { Stop::violation(format!("{doing}: {error}")) }
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
