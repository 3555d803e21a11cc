//! What is wanted at the moment: the groups, the story that runs and how far it is. Everything the page asks for changes this; the runner
//! makes it so. Time is an argument, so that a story can be told without a clock.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde_json::{Map, Value, json};

use crate::figures::Figures;
use crate::group::GroupSpec;
use crate::load::{Kind, Load};
use crate::story::{Change, Story};

/// Groups at most.
pub(crate) const GROUPS_MAX: usize = 100;
/// A story's speed at least and at most.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=100.0;
/// Time that passes between two looks at most. A process that was held up does not tell a story all at once afterwards.
const TICK_MAX_S: f64 = 1.0;

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    /// What was asked for makes no sense.
    Invalid(String),
    /// There is no such thing.
    Missing(String),
    /// Something else has it.
    InUse(String),
}

/// How a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GroupState {
    /// Its tenants are being made.
    Loading,
    Running,
    /// Its shape leaves no client and no rate at the moment.
    Stopped,
    /// Something does not work, and is tried again.
    Failed,
}

impl GroupState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            GroupState::Loading => "loading",
            GroupState::Running => "running",
            GroupState::Stopped => "stopped",
            GroupState::Failed => "failed",
        }
    }
}

/// A group and how it is.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: u64,
    pub(crate) spec: GroupSpec,
    pub(crate) load: Load,
    is_of_story: bool,
    /// Seconds since it was loaded, as the story's speed counts them: what its shape goes by.
    pub(crate) age_s: f64,
    /// Once all its tenants were there, its clients work, also while others are added.
    pub(crate) has_begun: bool,
    pub(crate) state: GroupState,
    pub(crate) error: Option<String>,
    /// Of all its tenants; `None` before the first.
    pub(crate) figures: Option<Figures>,
    /// Of each of its tenants, in order.
    pub(crate) of_tenants: Vec<Figures>,
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl Group {
    fn new(id: u64, spec: GroupSpec, load: Load, is_of_story: bool) -> Group {
        Group {
            id,
            spec,
            load,
            is_of_story,
            age_s: 0.0,
            has_begun: false,
            state: GroupState::Loading,
            error: None,
            figures: None,
            of_tenants: Vec::new(),
        }
    }

    /// As it is to be from now on. Another workload or other tenants begin anew.
    fn turn_into(&mut self, spec: GroupSpec, load: Load) {
        let is_another =
            spec.tenant_prefix != self.spec.tenant_prefix || load.population() != self.load.population();
        if is_another {
            *self = Group::new(self.id, spec, load, self.is_of_story);
            return;
        }
        if spec.shape != self.spec.shape {
            self.age_s = 0.0;
        }
        (self.spec, self.load) = (spec, load);
    }

    fn json(&self) -> Value {
        let mut json = serde_json::to_value(&self.spec).expect("a group is JSON");
        json["id"] = json!(self.id.to_string());
        json["state"] = json!(self.state.name());
        json["error"] = json!(self.error);
        json["throughput"] = json!(self.figures.map(|figures| tenths(figures.per_second)));
        json["p99_ms"] = json!(self.figures.and_then(|figures| figures.p99_ms).map(tenths));
        json
    }
}

/// A story that runs.
#[derive(Clone, Debug)]
struct Run {
    story: usize,
    began_ms: i64,
    /// Seconds of the story that have passed.
    at_s: f64,
    /// Steps that were done.
    done: usize,
    speed: f64,
    is_paused: bool,
    /// Options of the server that it set.
    server_options: Vec<&'static str>,
}

/// What a tenant is to be like.
#[derive(Clone, Debug)]
pub(crate) struct WantedTenant {
    pub(crate) load: Load,
    /// As `WITH` has it.
    pub(crate) promises: crate::load::Options,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Board {
    stories: Vec<Story>,
    pub(crate) groups: Vec<Group>,
    run: Option<Run>,
    next_id: u64,
    /// To be run by the administrator, in this order.
    pub(crate) sql: VecDeque<String>,
    looked_s: Option<f64>,
}

impl Board {
    pub(crate) fn new(stories: Vec<Story>) -> Board {
        Board { stories, groups: Vec::new(), run: None, next_id: 1, sql: VecDeque::new(), looked_s: None }
    }

    /// Lets time pass up to `now_s`, on any clock that only goes on: the story's next steps are done.
    ///
    /// A story's time stands still while one of its groups is loading, and while it is paused; for the shapes of its groups too.
    pub(crate) fn tick(&mut self, now_s: f64) {
        let passed_s =
            self.looked_s.replace(now_s).map_or(0.0, |before| (now_s - before).clamp(0.0, TICK_MAX_S));
        let is_loading = self.is_loading();
        let mut speed = 1.0;
        let mut due = None;
        if let Some(run) = &mut self.run {
            speed = if run.is_paused { 0.0 } else { run.speed };
            if !is_loading {
                run.at_s += passed_s * speed;
            }
            due = Some((run.story, run.done, run.at_s));
        }
        let goes_on = |group: &&mut Group| group.has_begun && !(is_loading && group.is_of_story);
        for group in self.groups.iter_mut().filter(goes_on) {
            group.age_s += passed_s * speed;
        }
        if let Some((story, done, at_s)) = due {
            let come = self.stories[story].come(at_s);
            let changes: Vec<Change> =
                self.stories[story].steps[done..come].iter().flat_map(|step| step.changes.clone()).collect();
            changes.into_iter().for_each(|change| self.apply(change));
            self.run.as_mut().expect("it runs").done = come;
        }
    }

    /// A group of the story is being loaded, for which its time stands still.
    fn is_loading(&self) -> bool {
        self.groups.iter().any(|group| group.is_of_story && group.state == GroupState::Loading)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Group(spec) => {
                let load = spec.load().expect("a story's groups are within their range");
                let name = &spec.name;
                match self.groups.iter_mut().find(|group| group.is_of_story && group.spec.name == *name) {
                    Some(group) => group.turn_into(spec, load),
                    None => {
                        self.push(spec, load, true);
                    }
                }
            }
            Change::Leave(name) => {
                self.groups.retain(|group| !(group.is_of_story && group.spec.name == name))
            }
            Change::Server(option, value) => {
                self.sql.push_back(format!("ALTER SERVER SET ({option} = {value})"));
                let run = self.run.as_mut().expect("a story's change comes while it runs");
                if !run.server_options.contains(&option) {
                    run.server_options.push(option);
                }
            }
        }
    }

    fn push(&mut self, spec: GroupSpec, load: Load, is_of_story: bool) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.groups.push(Group::new(id, spec, load, is_of_story));
        id
    }

    /// Begins a story in place of the one that runs.
    ///
    /// # Errors
    /// When there is none, or a group that is not of a story has a name or tenants that it needs.
    pub(crate) fn start(&mut self, id: &str, now_ms: i64) -> Result<(), Problem> {
        let story = self.stories.iter().position(|story| story.id == id);
        let story = story.ok_or_else(|| Problem::Missing(format!("there is no story \"{id}\"")))?;
        for spec in self.stories[story].groups() {
            let others = self.groups.iter().filter(|group| !group.is_of_story);
            differ(spec, others.map(|group| &group.spec))?;
        }
        self.stop();
        self.run = Some(Run {
            story,
            began_ms: now_ms,
            at_s: 0.0,
            done: 0,
            speed: 1.0,
            is_paused: false,
            server_options: Vec::new(),
        });
        Ok(())
    }

    /// Ends the story, if one runs: its groups go, and what it set of the server is taken back.
    pub(crate) fn stop(&mut self) {
        let Some(run) = self.run.take() else { return };
        self.groups.retain(|group| !group.is_of_story);
        if !run.server_options.is_empty() {
            self.sql.push_back(format!("ALTER SERVER RESET ({})", run.server_options.join(", ")));
        }
    }

    /// Changes the speed of the story that runs, pauses it or lets it go on.
    ///
    /// # Errors
    /// When none runs, or the speed is out of range.
    pub(crate) fn steer(&mut self, speed: Option<f64>, paused: Option<bool>) -> Result<(), Problem> {
        let run = self.run.as_mut().ok_or_else(|| Problem::InUse("no story runs".into()))?;
        if let Some(speed) = speed {
            if !SPEEDS.contains(&speed) {
                let (least, most) = (SPEEDS.start(), SPEEDS.end());
                return Err(Problem::Invalid(format!("a speed is from {least} to {most}")));
            }
            run.speed = speed;
        }
        run.is_paused = paused.unwrap_or(run.is_paused);
        Ok(())
    }

    /// Adds a group; its number.
    ///
    /// # Errors
    /// When it is out of range, or has another one's name or tenants.
    pub(crate) fn add(&mut self, spec: GroupSpec) -> Result<u64, Problem> {
        let load = spec.load().map_err(Problem::Invalid)?;
        if self.groups.len() >= GROUPS_MAX {
            return Err(Problem::InUse(format!("there are {GROUPS_MAX} groups at most")));
        }
        self.is_free(&spec, None)?;
        Ok(self.push(spec, load, false))
    }

    /// Whether no other group, nor one that the running story will have, has the name or the tenants.
    fn is_free(&self, spec: &GroupSpec, own: Option<&Group>) -> Result<(), Problem> {
        let others = self.groups.iter().filter(|group| own.is_none_or(|own| own.id != group.id));
        differ(spec, others.map(|group| &group.spec))?;
        let to_come = self.run.iter().flat_map(|run| self.stories[run.story].groups());
        // A story's own group may be changed to anything that the others of its story leave.
        let name = own.filter(|own| own.is_of_story).map(|own| own.spec.name.as_str());
        differ(spec, to_come.filter(|other| name != Some(other.name.as_str())))
    }

    /// Changes the given fields of a group.
    ///
    /// # Errors
    /// As [`Board::add`], and when there is no such group.
    pub(crate) fn change(&mut self, id: &str, fields: Map<String, Value>) -> Result<(), Problem> {
        let at = self.find(id)?;
        let spec = self.groups[at].spec.changed(fields).map_err(Problem::Invalid)?;
        self.is_free(&spec, Some(&self.groups[at]))?;
        let load = spec.load().map_err(Problem::Invalid)?;
        self.groups[at].turn_into(spec, load);
        Ok(())
    }

    /// Removes a group and its tenants.
    ///
    /// # Errors
    /// When there is no such group.
    pub(crate) fn remove(&mut self, id: &str) -> Result<(), Problem> {
        let at = self.find(id)?;
        self.groups.remove(at);
        Ok(())
    }

    fn find(&self, id: &str) -> Result<usize, Problem> {
        let at = self.groups.iter().position(|group| group.id.to_string() == id);
        at.ok_or_else(|| Problem::Missing(format!("there is no group {id}")))
    }

    /// Puts these groups in the place of all that are there; a story that runs is stopped.
    ///
    /// # Errors
    /// As [`Board::add`]; nothing is changed then.
    pub(crate) fn replace(&mut self, specs: Vec<GroupSpec>) -> Result<(), Problem> {
        let mut fresh = Board::new(Vec::new());
        for spec in specs {
            let name = spec.name.clone();
            fresh.add(spec).map_err(|problem| problem.of(&name))?;
        }
        self.stop();
        self.groups.clear();
        for group in fresh.groups {
            self.push(group.spec, group.load, false);
        }
        Ok(())
    }

    /// Every tenant that there is to be, by its name.
    pub(crate) fn tenants(&self) -> BTreeMap<String, WantedTenant> {
        let of = |group: &Group| {
            let wanted = WantedTenant { load: group.load, promises: group.spec.promises.clone() };
            group.spec.tenant_names().map(move |name| (name, wanted.clone())).collect::<Vec<_>>()
        };
        self.groups.iter().flat_map(of).collect()
    }

    /// Whether a story was started whose first step was not done yet.
    pub(crate) fn is_about_to_begin(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.done == 0)
    }

    /// The story that runs and its last step, in words.
    pub(crate) fn told(&self) -> Option<(&'static str, &'static str)> {
        let run = self.run.as_ref()?;
        let story = &self.stories[run.story];
        Some((story.title, story.steps[run.done.saturating_sub(1)].text))
    }

    /// What the page is told.
    pub(crate) fn json(&self) -> Value {
        let running = self.run.as_ref().map(|run| {
            let story = &self.stories[run.story];
            let told: Vec<Value> =
                story.steps.iter().map(|step| json!({ "at_s": step.at_s, "text": step.text })).collect();
            json!({
                "story": story.id,
                "began_ms": run.began_ms,
                "at_s": run.at_s,
                "length_s": story.length_s(),
                "is_loading": self.is_loading(),
                // The first step is done at once: before it there is nothing to tell.
                "step": run.done.saturating_sub(1),
                "steps": told,
                "speed": run.speed,
                "paused": run.is_paused,
            })
        });
        let stories: Vec<_> = self.stories.iter().map(Story::listed).collect();
        let groups: Vec<_> = self.groups.iter().map(Group::json).collect();
        let workloads: Vec<Value> =
            Kind::ALL.iter().map(|kind| json!({ "name": kind, "options": kind.known_options() })).collect();
        json!({ "stories": stories, "running": running, "groups": groups, "workloads": workloads })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Problem::Invalid(text) | Problem::Missing(text) | Problem::InUse(text)) = self;
        f.write_str(text)
    }
}

impl Problem {
    fn of(self, group: &str) -> Problem {
        let about = |text: String| format!("the group \"{group}\": {text}");
        match self {
            Problem::Invalid(text) => Problem::Invalid(about(text)),
            Problem::Missing(text) => Problem::Missing(about(text)),
            Problem::InUse(text) => Problem::InUse(about(text)),
        }
    }
}

/// Whether a group has a name and tenants that none of the others has.
fn differ<'g>(spec: &GroupSpec, others: impl Iterator<Item = &'g GroupSpec>) -> Result<(), Problem> {
    for other in others {
        if other.name == spec.name {
            return Err(Problem::InUse(format!("there is a group \"{}\" already", spec.name)));
        }
        if other.tenant_prefix == spec.tenant_prefix {
            return Err(Problem::InUse(format!(
                "the tenants {}1, … are those of the group \"{}\"",
                spec.tenant_prefix, other.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
