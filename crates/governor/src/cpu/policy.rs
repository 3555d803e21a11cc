//! How much of the promises the schedulers keep, and whose is broken first.

use crate::promise::CpuPromise;

use super::rate::Rate;

/// Where the shortfall goes when the reservations in demand exceed the processor.
///
/// A dial between [`Overbooking::SPREAD`], each falls short in proportion to its reservation, and
/// [`Overbooking::LEAST_PENALTY`], the tenants with the lowest price go short first. In between the shortfall is split
/// between the two. Example: reservations of 0.6 each at prices 1 and 10 on one core. Spread: 0.5 and 0.5. Least penalty:
/// 0.4 and 0.6. Half-way: 0.45 and 0.55.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overbooking(u16);

impl Overbooking {
    pub const SPREAD: Overbooking = Overbooking(0);
    pub const LEAST_PENALTY: Overbooking = Overbooking(Overbooking::WHOLE);
    const WHOLE: u16 = 1000;

    /// A position of the dial in thousandths, 0 (spread) to 1000 (least penalty). `None` beyond that.
    pub const fn from_permille(dial: u16) -> Option<Overbooking> {
        if dial <= Overbooking::WHOLE { Some(Overbooking(dial)) } else { None }
    }

    /// In thousandths.
    pub const fn permille(self) -> u16 {
        self.0
    }
}

/// What of the promises is kept. It can be changed at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Weights only: no reservations, no limits.
    BestEffort,
    /// Limits and weights, no reservations.
    MaxOnly,
    /// Everything; where it cannot be, the shortfall goes by [`Overbooking`].
    Reservations(Overbooking),
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::Reservations(Overbooking::SPREAD)
    }
}

impl Policy {
    pub(super) fn reservation(self, promise: &CpuPromise) -> Option<Rate> {
        match self {
            Policy::BestEffort | Policy::MaxOnly => None,
            Policy::Reservations(_) => Rate::new(promise.reserved),
        }
    }

    pub(super) fn limit(self, promise: &CpuPromise) -> Option<Rate> {
        match self {
            Policy::BestEffort => None,
            Policy::MaxOnly | Policy::Reservations(_) => promise.max.and_then(Rate::new),
        }
    }

    pub(super) fn overbooking(self) -> Overbooking {
        match self {
            Policy::BestEffort | Policy::MaxOnly => Overbooking::SPREAD,
            Policy::Reservations(overbooking) => overbooking,
        }
    }
}
