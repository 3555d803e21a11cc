//! What the administrator decides for a whole server, and for one of its volumes.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use base::Nanos;

use crate::meter::CpuTerms;
use crate::option::{OptionError, Value, decimal_text, duration_text, option_keys};
use crate::policy::{Overbooking, Policy};
use crate::promise::IOPS_MAX;

option_keys! {
    /// The name of an option of the server.
    ServerKey {
        Policy = "policy",
        Overbooking = "overbooking",
        MeteringInterval = "metering_interval",
    }
}

/// What is kept of the promises; [`Policy`] without its dial.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Kept {
    Weights,
    Limits,
    #[default]
    Reservations,
}

const KEPT: [(Kept, &str); 3] =
    [(Kept::Weights, "best_effort"), (Kept::Limits, "max_only"), (Kept::Reservations, "reservations")];

/// The shortest metering interval: the ledger's thread and the workers close each.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);
/// The longest: what is rolled up is by the minute.
const INTERVAL_MAX: Nanos = Nanos::from_secs(60);
const _: () =
    assert!(INTERVAL_MIN.0 <= CpuTerms::INTERVAL_DEFAULT.0 && CpuTerms::INTERVAL_DEFAULT.0 <= INTERVAL_MAX.0);

/// All that `ALTER SERVER SET (…)` can say. By default everything is kept, a shortfall is spread, and promises are metered by the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    kept: Kept,
    /// Remembered where it is not in force.
    overbooking: Overbooking,
    metering_interval: Nanos,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            kept: Kept::default(),
            overbooking: Overbooking::default(),
            metering_interval: CpuTerms::INTERVAL_DEFAULT,
        }
    }
}

impl ServerOptions {
    /// Sets one option from its text. Unchanged, and an error, if the name is unknown or the value not one of it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let known = ServerKey::from_name(key)?;
        let value = Value { key: known.as_str(), text: value.trim() };
        match known {
            ServerKey::Policy => {
                let named = KEPT.iter().find(|(_, name)| value.text.eq_ignore_ascii_case(name));
                let expected = "\"best_effort\", \"max_only\" or \"reservations\"";
                self.kept = named.ok_or_else(|| value.malformed(expected))?.0;
            }
            ServerKey::Overbooking => self.overbooking = dial(value)?,
            ServerKey::MeteringInterval => {
                let interval = value.duration()?;
                if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
                    let allowed = [INTERVAL_MIN, INTERVAL_MAX].map(duration_text).join(" to ");
                    return Err(value.out_of_range(allowed));
                }
                self.metering_interval = interval;
            }
        }
        Ok(())
    }

    /// Sets an option back to its default.
    pub fn reset(&mut self, key: &str) -> Result<(), OptionError> {
        self.set(key, &ServerOptions::default().get(ServerKey::from_name(key)?))
    }

    /// The value of an option as text that [`ServerOptions::set`] reads back.
    pub fn get(&self, key: ServerKey) -> String {
        match key {
            ServerKey::Policy => {
                let named = KEPT.iter().find(|(kept, _)| *kept == self.kept);
                named.expect("each has a name").1.to_owned()
            }
            ServerKey::Overbooking => match self.overbooking {
                Overbooking::SPREAD => "spread".to_owned(),
                Overbooking::LEAST_PENALTY => "least_penalty".to_owned(),
                between => decimal_text(u64::from(between.permille()), 3),
            },
            ServerKey::MeteringInterval => duration_text(self.metering_interval),
        }
    }

    /// How long a metering interval is, of each resource; from 100 ms to 60 s.
    pub fn metering_interval(&self) -> Nanos {
        self.metering_interval
    }

    /// What the schedulers are told.
    pub fn policy(&self) -> Policy {
        match self.kept {
            Kept::Weights => Policy::BestEffort,
            Kept::Limits => Policy::MaxOnly,
            Kept::Reservations => Policy::Reservations(self.overbooking),
        }
    }
}

fn dial(value: Value<'_>) -> Result<Overbooking, OptionError> {
    let named = [("spread", Overbooking::SPREAD), ("least_penalty", Overbooking::LEAST_PENALTY)];
    if let Some((_, dial)) = named.iter().find(|(name, _)| value.text.eq_ignore_ascii_case(name)) {
        return Ok(*dial);
    }
    let whole = u64::from(Overbooking::LEAST_PENALTY.permille());
    let permille = value.decimal(3, whole, "\"spread\", \"least_penalty\" or a number from 0 to 1")?;
    Ok(Overbooking::from_permille(permille as u16).expect("in range"))
}

impl fmt::Display for ServerOptions {
    /// `policy = reservations, overbooking = spread, metering_interval = 1s`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, ServerKey::ALL.iter().map(|key| (key.as_str(), self.get(*key))))
    }
}

impl FromStr for ServerOptions {
    type Err = OptionError;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<ServerOptions, OptionError> {
        let mut options = ServerOptions::default();
        displayed(text).try_for_each(|(key, value)| options.set(key, value))?;
        Ok(options)
    }
}

option_keys! {
    /// The name of an option of a volume.
    VolumeKey {
        IopsLimit = "iops_limit",
    }
}

/// All that `ALTER VOLUME … SET (…)` can say. By default nothing is limited.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VolumeOptions {
    /// I/Os a second of all tenants together; `None`: no limit. Held under every policy.
    pub iops_limit: Option<NonZeroU64>,
}

impl VolumeOptions {
    /// Sets one option from its text. Unchanged, and an error, if the name is unknown or the value not one of it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let known = VolumeKey::from_name(key)?;
        let value = Value { key: known.as_str(), text: value.trim() };
        match known {
            VolumeKey::IopsLimit => {
                self.iops_limit = value.limit(|value| value.whole(1, IOPS_MAX))?.and_then(NonZeroU64::new);
            }
        }
        Ok(())
    }

    /// Sets an option back to its default.
    pub fn reset(&mut self, key: &str) -> Result<(), OptionError> {
        self.set(key, &VolumeOptions::default().get(VolumeKey::from_name(key)?))
    }

    /// The value of an option as text that [`VolumeOptions::set`] reads back.
    pub fn get(&self, key: VolumeKey) -> String {
        match key {
            VolumeKey::IopsLimit => {
                self.iops_limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
            }
        }
    }
}

impl fmt::Display for VolumeOptions {
    /// `iops_limit = 300`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(f, VolumeKey::ALL.iter().map(|key| (key.as_str(), self.get(*key))))
    }
}

impl FromStr for VolumeOptions {
    type Err = OptionError;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<VolumeOptions, OptionError> {
        let mut options = VolumeOptions::default();
        displayed(text).try_for_each(|(key, value)| options.set(key, value))?;
        Ok(options)
    }
}

fn display<'a>(f: &mut fmt::Formatter<'_>, options: impl Iterator<Item = (&'a str, String)>) -> fmt::Result {
    let mut separator = "";
    for (key, value) in options {
        write!(f, "{separator}{key} = {value}")?;
        separator = ", ";
    }
    Ok(())
}

/// The options of a text that [`display`] made.
fn displayed(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let options = text.split(", ").filter(|option| !option.is_empty());
    options.map(|option| option.split_once(" = ").unwrap_or((option, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_of_the_dial_is_shown_as_it_reads() {
        for permille in 0..=1000 {
            let mut options = ServerOptions::default();
            options.set("overbooking", &decimal_text(permille, 3)).unwrap();
            assert_eq!(u64::from(options.policy().overbooking().permille()), permille);
            assert_eq!(options.to_string().parse(), Ok(options));
        }
    }

    #[test]
    fn the_dial_is_remembered_while_nothing_is_reserved() {
        let mut options = ServerOptions::default();
        assert_eq!(options.policy(), Policy::Reservations(Overbooking::SPREAD));
        options.set("OVERBOOKING", "0.25").unwrap();
        for (name, policy) in [("best_effort", Policy::BestEffort), ("MAX_ONLY", Policy::MaxOnly)] {
            options.set("policy", name).unwrap();
            assert_eq!(options.policy(), policy);
            assert_eq!(options.to_string().parse(), Ok(options));
        }
        options.reset("policy").unwrap();
        assert_eq!(options.policy(), Policy::Reservations(Overbooking::from_permille(250).unwrap()));
        options.set("overbooking", "least_penalty").unwrap();
        assert_eq!(options.get(ServerKey::Overbooking), "least_penalty");
    }

    #[test]
    fn a_metering_interval_is_a_tenth_of_a_second_to_a_minute() {
        let mut options = ServerOptions::default();
        assert_eq!(options.metering_interval(), CpuTerms::INTERVAL_DEFAULT);
        assert_eq!(
            "policy = reservations, overbooking = spread".parse(),
            Ok(options),
            "of an earlier version"
        );
        for (text, shown, interval) in
            [("100", "100ms", 100), ("1min", "60s", 60_000), ("2500ms", "2500ms", 2500), ("5s", "5s", 5000)]
        {
            options.set("Metering_Interval", text).unwrap();
            assert_eq!(options.metering_interval(), Nanos::from_millis(interval));
            assert_eq!(options.get(ServerKey::MeteringInterval), shown);
            assert_eq!(options.to_string().parse(), Ok(options));
        }
        let refused = options.set("metering_interval", "2min").unwrap_err().to_string();
        assert!(refused.contains("100ms to 60s"), "{refused}");
        options.reset("metering_interval").unwrap();
        assert_eq!(options, ServerOptions::default());
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let (mut server, mut volume) = (ServerOptions::default(), VolumeOptions::default());
        for (key, value) in [
            ("policy", "fair"),
            ("policy", ""),
            ("overbooking", "1.001"),
            ("overbooking", "-0.5"),
            ("overbooking", "0.0001"),
            ("overbooking", "NaN"),
            ("overbooking", "1e0"),
            ("metering_interval", "99ms"),
            ("metering_interval", "60001ms"),
            ("metering_interval", "0"),
            ("metering_interval", "-1s"),
            ("metering_interval", "none"),
            ("metering_interval", "soon"),
            ("colour", "red"),
        ] {
            assert!(server.set(key, value).is_err(), "{key} = {value}");
        }
        for (key, value) in [("iops_limit", "0"), ("iops_limit", "-1"), ("iops_limit", "1e30"), ("size", "1")]
        {
            assert!(volume.set(key, value).is_err(), "{key} = {value}");
        }
        assert_eq!((server, volume), Default::default());
        volume.set("iops_limit", "300").unwrap();
        assert_eq!(volume.to_string().parse(), Ok(volume));
        volume.reset("iops_limit").unwrap();
        assert_eq!(volume, VolumeOptions::default());
        assert_eq!(volume.to_string().parse(), Ok(volume));
    }
}
