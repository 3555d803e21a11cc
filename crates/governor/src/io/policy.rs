//! What the schedulers do with promises, and who misses what where they do not fit.

/// How a volume's requests are chosen. Switchable at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoPolicy {
    /// By weight only: no reservations, no limits of tenants.
    BestEffort,
    /// By weight, under the tenants' limits; no reservations.
    MaxOnly,
    /// Reservations and limits; the name for a server that is not overbooked. Where it is, as `Spread`.
    #[default]
    Reservations,
    /// Reservations and limits; where they do not fit, each tenant gets the same part of its own. Example: 100 and 300
    /// promised, 200 there: 50 and 150.
    Spread,
    /// Between `Spread` at 0 and, at 1000, all of the shortfall for the tenants with the lowest penalties: those of half
    /// the penalty get nothing before the others have theirs. Penalties closer than that share. In thousandths; more
    /// than 1000 is 1000.
    LeastPenalty { dial_permille: u16 },
}

impl IoPolicy {
    pub(super) const fn reserves(self) -> bool {
        !matches!(self, IoPolicy::BestEffort | IoPolicy::MaxOnly)
    }

    pub(super) const fn limits(self) -> bool {
        !matches!(self, IoPolicy::BestEffort)
    }

    pub(super) fn dial(self) -> f64 {
        match self {
            IoPolicy::LeastPenalty { dial_permille } => f64::from(dial_permille.min(1000)) / 1000.0,
            _ => 0.0,
        }
    }

    pub(super) const fn to_bits(self) -> u32 {
        match self {
            IoPolicy::BestEffort => 0,
            IoPolicy::MaxOnly => 1,
            IoPolicy::Reservations => 2,
            IoPolicy::Spread => 3,
            IoPolicy::LeastPenalty { dial_permille } => 4 | (dial_permille as u32) << 8,
        }
    }

    pub(super) const fn from_bits(bits: u32) -> IoPolicy {
        match bits & 0xff {
            0 => IoPolicy::BestEffort,
            1 => IoPolicy::MaxOnly,
            2 => IoPolicy::Reservations,
            3 => IoPolicy::Spread,
            _ => IoPolicy::LeastPenalty { dial_permille: (bits >> 8) as u16 },
        }
    }
}
