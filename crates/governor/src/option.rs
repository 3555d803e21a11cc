//! Options as SQL gives them: their names, their texts, and why one is refused.
//!
//! Shared by everything that is altered by `SET (option = value, …)`: tenants, sizes, the server, volumes.

use std::fmt;
use std::num::NonZeroU32;

use base::{ByteCount, Nanos};

use crate::promise::MilliCores;

const WEIGHT_MAX: u64 = 1_000_000;
pub(crate) const BYTES_MAX: u64 = 1 << 60;
const SECONDS_MAX: u64 = 86_400 * 365;

/// Why an option was refused; nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionError {
    /// No option of this name.
    UnknownKey { key: String },
    /// The value is not of the option's form.
    Malformed { key: &'static str, value: String, expected: &'static str },
    /// The value is of the right form and out of range.
    OutOfRange { key: &'static str, value: String, allowed: String },
    /// The reservation is above the limit.
    AboveMax { key: &'static str, value: String, key_max: &'static str, value_max: String },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::UnknownKey { key } => write!(f, "unrecognized option \"{key}\""),
            OptionError::Malformed { key, value, expected } => {
                write!(f, "invalid value for option \"{key}\": \"{value}\" is not {expected}")
            }
            OptionError::OutOfRange { key, value, allowed } => {
                write!(f, "value {value} of option \"{key}\" is out of range: it may be {allowed}")
            }
            OptionError::AboveMax { key, value, key_max, value_max } => {
                write!(f, "option \"{key}\" ({value}) is above \"{key_max}\" ({value_max})")
            }
        }
    }
}
impl std::error::Error for OptionError {}

/// Makes the enum of an object's options: their names in SQL, in the order they are shown.
macro_rules! option_keys {
    ($(#[$doc:meta])* $keys:ident { $($name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $keys { $($name,)* }

        impl $keys {
            /// Every option in the order they are shown.
            pub const ALL: &[$keys] = &[$($keys::$name,)*];

            /// Its name in SQL.
            pub const fn as_str(self) -> &'static str {
                match self { $($keys::$name => $text,)* }
            }

            /// The option of that name, whatever its case.
            ///
            /// # Errors
            /// There is none.
            pub fn from_name(name: &str) -> Result<$keys, crate::OptionError> {
                let found = $keys::ALL.iter().copied().find(|key| key.as_str().eq_ignore_ascii_case(name));
                found.ok_or_else(|| crate::OptionError::UnknownKey { key: name.to_owned() })
            }
        }
    };
}
pub(crate) use option_keys;

pub(crate) fn decimal_text(number: u64, places: usize) -> String {
    let scale = 10u64.pow(places as u32);
    let decimals = format!("{:0places$}", number % scale);
    match decimals.trim_end_matches('0') {
        "" => (number / scale).to_string(),
        rest => format!("{}.{rest}", number / scale),
    }
}

/// A time in the largest unit that keeps it whole, as options are shown: `30s`, `1500ms`.
pub fn duration_text(time: Nanos) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if time.0.is_multiple_of(unit) {
            return format!("{}{name}", time.0 / unit);
        }
    }
    format!("{}ns", time.0)
}

/// One option's text on its way in.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    pub(crate) key: &'static str,
    pub(crate) text: &'a str,
}

impl Value<'_> {
    pub(crate) fn malformed(self, expected: &'static str) -> OptionError {
        OptionError::Malformed { key: self.key, value: self.text.to_owned(), expected }
    }

    pub(crate) fn out_of_range(self, allowed: String) -> OptionError {
        OptionError::OutOfRange { key: self.key, value: self.text.to_owned(), allowed }
    }

    pub(crate) fn limit<T>(
        self,
        read: impl FnOnce(Self) -> Result<T, OptionError>,
    ) -> Result<Option<T>, OptionError> {
        if ["none", "unlimited"].iter().any(|word| self.text.eq_ignore_ascii_case(word)) {
            return Ok(None);
        }
        read(self).map(Some)
    }

    pub(crate) fn whole(self, min: u64, max: u64) -> Result<u64, OptionError> {
        if !is_number(self.text) || self.text.contains('.') {
            return Err(self.malformed("a whole number"));
        }
        let number = self.text.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| self.out_of_range(format!("{min} to {max}")))
    }

    pub(crate) fn weight(self) -> Result<NonZeroU32, OptionError> {
        let weight = self.whole(1, WEIGHT_MAX)?;
        Ok(NonZeroU32::new(weight as u32).expect("at least 1"))
    }

    /// A number of 0 or more with at most `places` decimals, times 10^`places`.
    pub(crate) fn decimal(self, places: usize, max: u64, expected: &'static str) -> Result<u64, OptionError> {
        if !is_number(self.text) {
            return Err(self.malformed(expected));
        }
        let allowed = || format!("0 to {}, with at most {places} decimals", decimal_text(max, places));
        let negative = self.text.starts_with('-');
        let (whole, decimals) = self.text.split_once('.').unwrap_or((self.text, ""));
        let decimals = decimals.trim_end_matches('0');
        if negative || decimals.len() > places {
            return Err(self.out_of_range(allowed()));
        }
        let digits = format!("{whole}{decimals:0<places$}");
        digits.parse().ok().filter(|number| *number <= max).ok_or_else(|| self.out_of_range(allowed()))
    }

    pub(crate) fn cores(self) -> Result<MilliCores, OptionError> {
        let expected = "a number of cores such as 0.5";
        self.decimal(3, u64::from(MilliCores::MAX.0), expected).map(|number| MilliCores(number as u32))
    }

    pub(crate) fn cores_above_zero(self) -> Result<MilliCores, OptionError> {
        let cores = self.cores()?;
        if cores.0 == 0 {
            return Err(self.out_of_range(format!("0.001 to {}", MilliCores::MAX)));
        }
        Ok(cores)
    }

    pub(crate) fn bytes(self, min: u64) -> Result<ByteCount, OptionError> {
        if is_number(self.text) && self.text.starts_with('-') {
            return Err(self.out_of_range(format!("{min} to {}", ByteCount(BYTES_MAX))));
        }
        let bytes: ByteCount = self.text.parse().map_err(|_| self.malformed("a size such as 512MB"))?;
        if !(min..=BYTES_MAX).contains(&bytes.0) {
            return Err(self.out_of_range(format!("{min} to {}", ByteCount(BYTES_MAX))));
        }
        Ok(bytes)
    }

    /// A whole number with a unit; milliseconds without one, as PostgreSQL's `statement_timeout`.
    pub(crate) fn duration(self) -> Result<Nanos, OptionError> {
        let digits = self.text.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.text.len());
        let expected = "a duration such as 30s or 500ms";
        if digits == 0 {
            return Err(self.malformed(expected));
        }
        let unit = match self.text[digits..].trim() {
            "ns" => 1,
            "us" => 1_000,
            "" | "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(self.malformed(expected)),
        };
        let time = self.text[..digits].parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        let in_range = time.filter(|time| *time <= SECONDS_MAX * 1_000_000_000);
        in_range.map(Nanos).ok_or_else(|| self.out_of_range("0 to 365d".to_owned()))
    }

    pub(crate) fn duration_above_zero(self) -> Result<Nanos, OptionError> {
        let time = self.duration()?;
        if time.0 == 0 { Err(self.out_of_range("1ns to 365d".to_owned())) } else { Ok(time) }
    }
}

/// Digits with at most one point among them, and maybe a minus before.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(|byte| *byte == b'.').count() <= 1
}
