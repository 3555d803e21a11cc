//! How much of the promises the schedulers keep, and whose is broken first.
//!
//! The same words for processor time ([`crate::CpuScheduler`]) and for the I/O of a volume ([`crate::IoVolume`]).

/// Where the shortfall goes when the reservations in demand exceed what there is.
///
/// A dial between [`Overbooking::SPREAD`], each falls short in proportion to its reservation, and
/// [`Overbooking::LEAST_PENALTY`], the tenants with the lowest price go short first. In between the shortfall is split
/// between the two, in that proportion. Prices count by their order, not by how far they are apart. Example: reservations of 0.6 each at prices 1 and 10 on one core. Spread: 0.5 and 0.5. Least penalty:
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
    /// Weights only: no reservations, no limits of tenants.
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
    /// Whether reservations are kept.
    pub const fn reserves(self) -> bool {
        matches!(self, Policy::Reservations(_))
    }

    /// Whether tenants' limits are held.
    pub const fn limits(self) -> bool {
        !matches!(self, Policy::BestEffort)
    }

    /// Where a shortfall goes; [`Overbooking::SPREAD`] where nothing is reserved.
    pub const fn overbooking(self) -> Overbooking {
        match self {
            Policy::BestEffort | Policy::MaxOnly => Overbooking::SPREAD,
            Policy::Reservations(overbooking) => overbooking,
        }
    }

    /// As one word, for who shares it between threads.
    pub(crate) const fn to_bits(self) -> u32 {
        match self {
            Policy::BestEffort => 0,
            Policy::MaxOnly => 1,
            Policy::Reservations(overbooking) => 2 | (overbooking.permille() as u32) << 8,
        }
    }

    pub(crate) const fn from_bits(bits: u32) -> Policy {
        match bits & 0xff {
            0 => Policy::BestEffort,
            1 => Policy::MaxOnly,
            _ => Policy::Reservations(Overbooking((bits >> 8) as u16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_fits_a_word() {
        let dials = (0..=1000).map(|dial| Policy::Reservations(Overbooking::from_permille(dial).unwrap()));
        for policy in dials.chain([Policy::BestEffort, Policy::MaxOnly]) {
            assert_eq!(Policy::from_bits(policy.to_bits()), policy);
        }
        assert_eq!(Overbooking::from_permille(1001), None);
    }
}
