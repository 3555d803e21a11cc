//! What an experiment has found: one value, written as JSON for programs and as a page for people.
//!
//! [`Report`] is the truth, and the JSON is it field by field (`docs/lab.md`); the page shows nothing that is not in it. A report is
//! written whenever a part of its experiment ends, so a run that is cut short leaves what it measured, marked as such.

mod html;
mod numbers;
mod plot;
mod verdict;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use numbers::{figure, percent, spread};
pub use verdict::{Outcome, Verdict};

use crate::Result;
use crate::world::machine::Machine;

/// Name and version of the JSON's form; another number means that a reader has to look again.
pub const SCHEMA: &str = "rowhouse-lab/1";

/// An experiment with all it measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    /// As on the command line: `sqlvm reservations`.
    pub experiment: String,
    pub title: String,
    /// What the experiment is about, in a few sentences.
    pub lead: String,
    pub status: Status,
    /// The durations and populations of `--quick`: a check of the experiment, not a measurement.
    pub quick: bool,
    /// Part of the paper's durations that was used; 1 is all of them.
    pub duration_factor: f64,
    pub repetitions: usize,
    /// When it began and when this was written, in microseconds since 1970.
    pub began_us: u64,
    pub written_us: u64,
    pub machine: Machine,
    /// Everything else that has to be known to do it again: a line each.
    pub setting: Vec<Fact>,
    pub sections: Vec<Section>,
}

/// How far an experiment came.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// Parts are still to come, or were when the process ended without a word.
    Running {
        part: String,
    },
    Complete,
    /// Ended before its end: by Ctrl-C or by a failure.
    Partial {
        why: String,
    },
}

/// A name and what belongs to it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// One figure or table of the paper, done anew.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    /// For links and programs: `figure-4`.
    pub id: String,
    pub title: String,
    /// What was done, in words.
    pub text: String,
    pub verdicts: Vec<Verdict>,
    pub plots: Vec<Plot>,
    pub tables: Vec<Table>,
    /// What has to be said beside the numbers.
    pub notes: Vec<String>,
}

/// Series over a common axis.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    pub title: String,
    /// With the unit: `seconds`.
    pub x_label: String,
    pub y_label: String,
    pub series: Vec<Series>,
    pub promised: Vec<Level>,
    /// Moments at which something began or changed.
    pub marks: Vec<Mark>,
    /// What of each series' raw values a point of the drawing is the mean of, in intervals; 0 and 1 are none.
    pub smoothed_over: usize,
}

/// The raw values of a series, one for each interval.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    /// Where the first interval ends on the axis, and how far the others are from each other.
    pub x_first: f64,
    pub x_step: f64,
    pub values: Vec<f64>,
}

/// What was promised, from where to where on the axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    pub name: String,
    pub y: f64,
    pub x_from: f64,
    pub x_to: f64,
}

/// A moment with a word to it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mark {
    pub x: f64,
    pub name: String,
}

/// Rows under a head. Cells are what is shown; the first column names the row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, head: &[&str]) -> Table {
        Table { title: title.into(), head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has another number of cells than the head.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.head.len(), "a cell for each column of \"{}\"", self.title);
        self.rows.push(cells);
    }
}

impl Fact {
    pub fn new(name: &str, value: impl ToString) -> Fact {
        Fact { name: name.into(), value: value.to_string() }
    }
}

impl Report {
    /// Writes `report.json` and `report.html` into the folder, which is made. Each file is replaced as a whole.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
        for (name, text) in [("report.json", self.to_json()?), ("report.html", self.to_html())] {
            let (path, partial) = (folder.join(name), folder.join(format!("{name}.partial")));
            std::fs::write(&partial, text)
                .and_then(|()| std::fs::rename(&partial, &path))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// # Errors
    /// When a number of it is not one.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// A page that needs nothing beside itself.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// Where [`Report::write`] puts the page.
    pub fn page_in(folder: &Path) -> PathBuf {
        folder.join("report.html")
    }

    /// The verdicts of all sections, with the section's title.
    pub fn verdicts(&self) -> impl Iterator<Item = (&str, &Verdict)> {
        self.sections
            .iter()
            .flat_map(|section| section.verdicts.iter().map(|verdict| (section.title.as_str(), verdict)))
    }
}

#[cfg(test)]
mod tests;
