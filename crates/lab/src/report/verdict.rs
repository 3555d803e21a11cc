//! Whether what was asked for was reached.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What became of a demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Met,
    Missed,
    /// The run does not say: its conditions did not hold.
    Void,
}

/// A demand, and what was measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// What has to be so, with its threshold: `mean within 3 % of 60`.
    pub demand: String,
    pub measured: String,
    pub outcome: Outcome,
    /// What the paper has there; empty if it says nothing.
    pub paper: String,
}

impl Verdict {
    /// Met or missed.
    pub fn of(demand: impl Into<String>, measured: impl Into<String>, holds: bool) -> Verdict {
        let outcome = if holds { Outcome::Met } else { Outcome::Missed };
        Verdict { demand: demand.into(), measured: measured.into(), outcome, paper: String::new() }
    }

    /// With what the paper says.
    pub fn beside(mut self, paper: &str) -> Verdict {
        self.paper = paper.into();
        self
    }

    /// Void, whatever was measured, if `why` says so.
    pub fn unless(mut self, why: Option<&str>) -> Verdict {
        if let Some(why) = why {
            self.outcome = Outcome::Void;
            self.measured = format!("{}; void: {why}", self.measured);
        }
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Met => "met",
            Outcome::Missed => "missed",
            Outcome::Void => "void",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_run_neither_meets_nor_misses() {
        let met = Verdict::of("at least 1", "2", true);
        assert_eq!(met.outcome, Outcome::Met);
        assert_eq!(met.clone().unless(None), met);
        let void = met.unless(Some("the server was idle"));
        assert_eq!(void.outcome, Outcome::Void);
        assert!(void.measured.contains("the server was idle"), "{}", void.measured);
        assert_eq!(Verdict::of("at least 3", "2", false).outcome, Outcome::Missed);
    }
}
