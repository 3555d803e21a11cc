//! The options of a rule, and their text form.

use std::fmt;
use std::str::FromStr;

use base::Nanos;

use crate::option::{OptionError, Value, duration_text};

/// What is done about a statement that exceeds a threshold. The later ones are the harder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum RunawayAction {
    /// It is written to the server's log.
    #[default]
    Log,
    /// It goes behind its tenant's other work and gets spare time last.
    Deprioritise,
    /// It ends with 57014.
    Cancel,
}

impl RunawayAction {
    const ALL: [RunawayAction; 3] = [RunawayAction::Log, RunawayAction::Deprioritise, RunawayAction::Cancel];

    /// Its name in SQL.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunawayAction::Log => "log",
            RunawayAction::Deprioritise => "deprioritise",
            RunawayAction::Cancel => "cancel",
        }
    }
}

/// Thresholds, of which the first that is exceeded decides, and the action. `None`: not looked at. Exactly the threshold does not exceed it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RunawayTerms {
    /// Time since the statement began, waits included.
    pub elapsed: Option<Nanos>,
    /// Processor time on all threads.
    pub cpu: Option<Nanos>,
    /// Rows read from tables and indexes.
    pub rows: Option<u64>,
    /// I/Os charged for it, as `iops` counts them.
    pub io: Option<u64>,
    pub action: RunawayAction,
}

const ROWS_MAX: u64 = 1 << 60;

/// Why a rule was refused; nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunawayError {
    /// No option of this name.
    UnknownKey { key: String },
    /// The value is not of the option's form.
    Malformed { key: &'static str, value: String, expected: &'static str },
    /// The value is of the right form and out of range.
    OutOfRange { key: &'static str, value: String, allowed: String },
    /// The rule has no threshold.
    WatchesNothing,
    /// There are as many rules as there can be: drop one first.
    TooMany { max: usize },
}

impl fmt::Display for RunawayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunawayError::UnknownKey { key } => write!(f, "unrecognized option of a runaway rule \"{key}\""),
            RunawayError::Malformed { key, value, expected } => {
                write!(f, "invalid value for \"{key}\" of a runaway rule: \"{value}\" is not {expected}")
            }
            RunawayError::OutOfRange { key, value, allowed } => {
                write!(f, "value {value} of \"{key}\" of a runaway rule is out of range: it may be {allowed}")
            }
            RunawayError::WatchesNothing => {
                f.write_str("a runaway rule needs at least one of \"elapsed\", \"cpu\", \"rows\" and \"io\"")
            }
            RunawayError::TooMany { max } => write!(f, "there cannot be more than {max} runaway rules"),
        }
    }
}
impl std::error::Error for RunawayError {}

impl From<OptionError> for RunawayError {
    /// The text forms are those of promises.
    fn from(error: OptionError) -> RunawayError {
        match error {
            OptionError::Malformed { key, value, expected } => {
                RunawayError::Malformed { key, value, expected }
            }
            OptionError::OutOfRange { key, value, allowed } => {
                RunawayError::OutOfRange { key, value, allowed }
            }
            other => unreachable!("a value alone has no {other:?}"),
        }
    }
}

/// The name of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunawayKey {
    Elapsed,
    Cpu,
    Rows,
    Io,
    Action,
}

impl RunawayKey {
    /// Every option in the order they are shown.
    pub const ALL: [RunawayKey; 5] =
        [RunawayKey::Elapsed, RunawayKey::Cpu, RunawayKey::Rows, RunawayKey::Io, RunawayKey::Action];

    /// Its name in SQL.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunawayKey::Elapsed => "elapsed",
            RunawayKey::Cpu => "cpu",
            RunawayKey::Rows => "rows",
            RunawayKey::Io => "io",
            RunawayKey::Action => "action",
        }
    }
}

impl RunawayTerms {
    /// Sets one option from its text; unchanged on error. `none` (or `unlimited`) takes a threshold away. Durations are as `statement_timeout`'s: `10s`, `500ms`, milliseconds without a unit.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), RunawayError> {
        let Some(known) = RunawayKey::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(key))
        else {
            return Err(RunawayError::UnknownKey { key: key.to_owned() });
        };
        let value = Value { key: known.as_str(), text: value.trim() };
        match known {
            RunawayKey::Elapsed => self.elapsed = value.limit(Value::duration_above_zero)?,
            RunawayKey::Cpu => self.cpu = value.limit(Value::duration_above_zero)?,
            RunawayKey::Rows => self.rows = value.limit(|value| value.whole(1, ROWS_MAX))?,
            RunawayKey::Io => self.io = value.limit(|value| value.whole(1, ROWS_MAX))?,
            RunawayKey::Action => {
                let action = RunawayAction::ALL
                    .into_iter()
                    .find(|action| value.text.eq_ignore_ascii_case(action.as_str()));
                self.action =
                    action.ok_or_else(|| value.malformed("\"log\", \"deprioritise\" or \"cancel\""))?;
            }
        }
        Ok(())
    }

    /// Takes a threshold away, or sets the action back to [`RunawayAction::Log`].
    pub fn reset(&mut self, key: &str) -> Result<(), RunawayError> {
        let default = RunawayTerms::default();
        let known = RunawayKey::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(key));
        self.set(key, &known.map_or_else(String::new, |known| default.get(known)))
    }

    /// Refuses a rule that could never act.
    pub fn validate(&self) -> Result<(), RunawayError> {
        let watches =
            self.elapsed.is_some() || self.cpu.is_some() || self.rows.is_some() || self.io.is_some();
        if watches { Ok(()) } else { Err(RunawayError::WatchesNothing) }
    }

    /// The value of an option as text that [`RunawayTerms::set`] reads back.
    pub fn get(&self, key: RunawayKey) -> String {
        let none = || "none".to_owned();
        match key {
            RunawayKey::Elapsed => self.elapsed.map_or_else(none, duration_text),
            RunawayKey::Cpu => self.cpu.map_or_else(none, duration_text),
            RunawayKey::Rows => self.rows.map_or_else(none, |rows| rows.to_string()),
            RunawayKey::Io => self.io.map_or_else(none, |io| io.to_string()),
            RunawayKey::Action => self.action.as_str().to_owned(),
        }
    }
}

impl fmt::Display for RunawayTerms {
    /// Thresholds that there are, and the action: `elapsed = 10s, rows = 1000000, action = cancel`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = RunawayKey::ALL.into_iter().map(|key| (key, self.get(key)));
        let mut separator = "";
        for (key, value) in shown.filter(|(_, value)| value != "none") {
            write!(f, "{separator}{} = {value}", key.as_str())?;
            separator = ", ";
        }
        Ok(())
    }
}

impl FromStr for RunawayTerms {
    type Err = RunawayError;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<RunawayTerms, RunawayError> {
        let mut terms = RunawayTerms::default();
        for option in text.split(", ").filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once(" = ").unwrap_or((option, ""));
            terms.set(key, value)?;
        }
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(key: &str, value: &str) -> String {
        let mut terms = RunawayTerms::default();
        let error = terms.set(key, value).expect_err(value).to_string();
        assert_eq!(terms, RunawayTerms::default(), "a refused option changes nothing");
        error
    }

    #[test]
    fn options_are_read_and_shown() {
        let mut terms = RunawayTerms::default();
        assert_eq!(terms.validate(), Err(RunawayError::WatchesNothing));
        for (key, value) in
            [("elapsed", "10s"), ("CPU", " 5000 "), ("rows", "1000000"), ("io", "5000"), ("action", "Cancel")]
        {
            terms.set(key, value).unwrap();
        }
        terms.validate().unwrap();
        assert_eq!(terms.to_string(), "elapsed = 10s, cpu = 5s, rows = 1000000, io = 5000, action = cancel");
        terms.set("rows", "none").unwrap();
        assert_eq!(terms.rows, None);
        assert_eq!(terms.to_string(), "elapsed = 10s, cpu = 5s, io = 5000, action = cancel");
    }

    #[test]
    fn bad_values_are_refused_with_what_is_allowed() {
        assert_eq!(refused("memory", "1"), "unrecognized option of a runaway rule \"memory\"");
        assert!(refused("elapsed", "0").contains("out of range"));
        assert!(refused("elapsed", "soon").contains("not a duration"));
        assert!(refused("cpu", "-1s").contains("not a duration"));
        assert!(refused("rows", "0").contains("1 to "));
        assert!(refused("rows", "1.5").contains("not a whole number"));
        assert!(refused("io", "99999999999999999999").contains("out of range"));
        assert!(refused("action", "kill").contains("deprioritise"));
        assert!(!refused("action", "kill").contains("tenant option"));
        assert_eq!(
            RunawayTerms::default().reset("colour"),
            Err(RunawayError::UnknownKey { key: "colour".to_owned() })
        );
        assert!("elapsed = soon".parse::<RunawayTerms>().is_err() && "rows".parse::<RunawayTerms>().is_err());
    }

    proptest! {
        #[test]
        fn shown_value_reads_back(elapsed in prop::option::of(1..1u64 << 50), cpu in prop::option::of(1..1u64 << 50), rows in prop::option::of(1..ROWS_MAX), io in prop::option::of(1..ROWS_MAX), action in 0..3usize) {
            let terms = RunawayTerms { elapsed: elapsed.map(Nanos), cpu: cpu.map(Nanos), rows, io, action: RunawayAction::ALL[action] };
            let mut again = RunawayTerms { rows: Some(1), io: Some(1), ..RunawayTerms::default() };
            for key in RunawayKey::ALL {
                again.set(key.as_str(), &terms.get(key)).unwrap();
            }
            prop_assert_eq!(again, terms);
            prop_assert_eq!(terms.to_string().parse(), Ok(terms));
            for key in RunawayKey::ALL {
                again.reset(key.as_str()).unwrap();
            }
            prop_assert_eq!(again, RunawayTerms::default());
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_change(value in ".{0,20}", key in 0..5usize) {
            let mut terms = RunawayTerms::default();
            if terms.set(RunawayKey::ALL[key].as_str(), &value).is_err() {
                prop_assert_eq!(terms, RunawayTerms::default());
            }
        }
    }
}
