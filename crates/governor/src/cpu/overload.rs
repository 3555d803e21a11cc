//! What happens while more is due than one processor can give.
//!
//! Deadlines are then missed by more and more. *Spread*: virtual time waits for the earliest deadline, so that everybody's due
//! grows more slowly, in proportion. *Least penalty*: time goes on, and of the tenants with a deficit the one with the
//! highest price goes first. It takes no more than its reservation, since it has no deficit then, so this is the split
//! that costs least: the dear ones whole, the cheap ones what is left. In between the two alternate by ticks.

use crate::policy::Overbooking;

/// How often is decided again.
pub(super) const TICK: u64 = 10_000_000;
/// By how much deadlines may be missed without that being an overload: some long polls together.
const LATE_MAX: u64 = 10_000_000;
/// The same while the two ways alternate.
const LATE_MAX_BETWEEN: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    /// By deadline; virtual time is held back.
    #[default]
    Deadline,
    /// By price, then deadline; virtual time goes on.
    Price,
}

#[derive(Default)]
pub(super) struct Overload {
    dial: Overbooking,
    order: Order,
    overloaded: bool,
    /// Whether virtual time was held back in this tick.
    held: bool,
    tick_at: u64,
    /// Ticks by price that are due, in thousandths.
    price_due: u16,
}

impl Overload {
    pub(super) fn set_dial(&mut self, dial: Overbooking) {
        *self = Overload { dial, ..Overload::default() };
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// By how much deadlines may be missed.
    pub(super) fn late_max(&self) -> u64 {
        let between = self.overloaded && self.dial != Overbooking::LEAST_PENALTY;
        if between { LATE_MAX_BETWEEN } else { LATE_MAX }
    }

    /// How much of what they missed tenants keep a claim to from one tick to the next: where the two ways alternate, what one
    /// tick left undone is not made up for in the next.
    pub(super) fn kept(&self) -> u64 {
        if self.dial == Overbooking::LEAST_PENALTY { LATE_MAX } else { 0 }
    }

    pub(super) fn is_overloaded(&self) -> bool {
        self.overloaded
    }

    pub(super) fn note_held(&mut self) {
        self.held = true;
    }

    /// Whether a tick has ended.
    pub(super) fn is_tick(&self, now: u64) -> bool {
        self.dial != Overbooking::SPREAD && now >= self.tick_at
    }

    /// Begins the next tick. `late`: somebody's deadline was missed by too much in the last one.
    pub(super) fn tick(&mut self, now: u64, late: bool) {
        self.tick_at = now + TICK;
        self.overloaded = late | std::mem::take(&mut self.held);
        self.order = Order::Deadline;
        if self.overloaded {
            self.price_due += self.dial.permille();
            if self.price_due >= Overbooking::LEAST_PENALTY.permille() {
                self.price_due -= Overbooking::LEAST_PENALTY.permille();
                self.order = Order::Price;
            }
        }
    }

    /// The clock was set back.
    pub(super) fn restart_tick(&mut self) {
        self.tick_at = 0;
    }
}
