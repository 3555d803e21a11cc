//! Amounts with their unit in the type.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }
        impl Sub for $name {
            type Output = $name;
            /// Saturates at zero: an amount is never negative.
            fn sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }
    };
}

amount!(
    /// Nanoseconds: a duration, or an instant since the process's clock started.
    Nanos
);
amount!(
    /// Microseconds.
    Micros
);
amount!(
    /// Bytes.
    ByteCount
);

impl Nanos {
    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }
    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }
    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s * 1_000_000_000)
    }
    /// In seconds, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl ByteCount {
    /// `n` KiB.
    pub const fn from_kib(n: u64) -> ByteCount {
        ByteCount(n << 10)
    }
    /// `n` MiB.
    pub const fn from_mib(n: u64) -> ByteCount {
        ByteCount(n << 20)
    }
}

impl fmt::Display for ByteCount {
    /// The largest unit that keeps the amount whole: `4GiB`, `1536KiB`, `100B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if n != 0 && n.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", n >> shift);
            }
        }
        write!(f, "{n}B")
    }
}

/// The text is not a size such as `4GiB`, `512MB` or `8192`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseByteCountError;

impl fmt::Display for ParseByteCountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a size; write a whole number with a unit, for example 4GiB, 512MB or 8192")
    }
}
impl std::error::Error for ParseByteCountError {}

impl FromStr for ByteCount {
    type Err = ParseByteCountError;

    /// A whole number followed by `B`, `kB`/`KB`/`KiB`, `MB`/`MiB`, `GB`/`GiB`, `TB`/`TiB` or nothing. As in
    /// PostgreSQL's settings every unit is a power of 1024.
    fn from_str(text: &str) -> Result<ByteCount, ParseByteCountError> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| ParseByteCountError)?;
        let shift = match text[digits..].trim() {
            "" | "B" => 0,
            "kB" | "KB" | "KiB" | "K" | "k" => 10,
            "MB" | "MiB" | "M" => 20,
            "GB" | "GiB" | "G" => 30,
            "TB" | "TiB" | "T" => 40,
            _ => return Err(ParseByteCountError),
        };
        number.checked_shl(shift).filter(|n| n >> shift == number).map(ByteCount).ok_or(ParseByteCountError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed_in_powers_of_1024() {
        assert_eq!("4GiB".parse(), Ok(ByteCount(4 << 30)));
        assert_eq!("512MB".parse(), Ok(ByteCount(512 << 20)));
        assert_eq!("8192".parse(), Ok(ByteCount(8192)));
        assert_eq!(ByteCount(1536 << 10).to_string(), "1536KiB");
        assert!("-1".parse::<ByteCount>().is_err());
        assert!("4 parsecs".parse::<ByteCount>().is_err());
        assert!("99999999999TiB".parse::<ByteCount>().is_err());
    }
}
