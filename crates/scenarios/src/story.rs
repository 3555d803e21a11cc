//! Stories as data: at which second of it which groups are there and how the server divides what it has.

use serde::Serialize;

use crate::group::GroupSpec;

/// A story.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    /// In the order of their times; the first is at 0.
    pub(crate) steps: Vec<Step>,
    /// How long the last step is looked at, in seconds. What it made goes on until the story is stopped.
    pub(crate) last_s: f64,
}

/// What happens at a time.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Seconds of the story.
    pub(crate) at_s: f64,
    pub(crate) text: &'static str,
    pub(crate) changes: Vec<Change>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The story's group of this name is made, or made to be like this.
    Group(GroupSpec),
    /// The story's group of this name goes, and its tenants.
    Leave(&'static str),
    /// ALTER SERVER SET (option = value); taken back at the story's end.
    Server(&'static str, &'static str),
}

/// A story in the list of them.
#[derive(Serialize)]
pub(crate) struct Listed {
    id: &'static str,
    title: &'static str,
    text: &'static str,
    minutes: u32,
}

impl Story {
    pub(crate) fn listed(&self) -> Listed {
        let minutes = (self.length_s() / 60.0).ceil() as u32;
        Listed { id: self.id, title: self.title, text: self.text, minutes }
    }

    /// Until its last step was looked at, in seconds of the story.
    pub(crate) fn length_s(&self) -> f64 {
        self.steps.last().map_or(0.0, |step| step.at_s) + self.last_s
    }

    /// How many steps have come at this second of the story.
    pub(crate) fn come(&self, at_s: f64) -> usize {
        self.steps.iter().take_while(|step| step.at_s <= at_s).count()
    }

    /// Every group that it ever has, as each of its steps wants it.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &GroupSpec> {
        self.steps.iter().flat_map(|step| &step.changes).filter_map(|change| match change {
            Change::Group(spec) => Some(spec),
            Change::Leave(_) | Change::Server(..) => None,
        })
    }
}
