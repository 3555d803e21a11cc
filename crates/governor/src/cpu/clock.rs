//! The time by which deficits are counted.

/// A step back of less than this is two threads' clocks read in the other order, not a clock that was set.
const STEP_BACK_MIN: u64 = 100_000_000;

/// What telling the time brought to light.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Usual,
    /// The clock was set back by much: instants kept from before mean nothing.
    SetBack,
}

/// Real time, and *virtual time*: what of it the promises are counted by. The two advance together, except that virtual
/// time is held back while there is more due than one processor can give.
#[derive(Default)]
pub(super) struct VirtualClock {
    now: u64,
    virtual_now: u64,
}

impl VirtualClock {
    pub(super) fn tell(&mut self, now: u64) -> Step {
        if now >= self.now {
            self.virtual_now += now - self.now;
            self.now = now;
            return Step::Usual;
        }
        if self.now - now < STEP_BACK_MIN {
            return Step::Usual;
        }
        self.now = now;
        Step::SetBack
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn virtual_now(&self) -> u64 {
        self.virtual_now
    }

    /// Takes virtual time back to `latest` if it is later; whether it was.
    pub(super) fn hold(&mut self, latest: u64) -> bool {
        let held = self.virtual_now > latest;
        self.virtual_now = self.virtual_now.min(latest);
        held
    }
}
