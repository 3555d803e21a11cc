//! The tenants of the groups: made from templates, promised what is wanted, dropped when no group has them.
//!
//! One piece of work at a time, chosen anew from what is wanted when the last one ended. What fails is tried again later, and other work is
//! done meanwhile. Only tenants that were made here are ever changed or dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Client;
use workloads::Result;
use workloads::target::Target;

use crate::board::WantedTenant;
use crate::group::promises_sql;
use crate::load::{Load, Options};

/// What is waited after a failure: the first time, and at most.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// How to reach the server as its administrator.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// `postgres://user:password@address`, without a database.
    pub(crate) url: String,
}

impl Door {
    /// # Errors
    /// When the URL is not one.
    pub(crate) fn to(&self, database: &str) -> Result<Target> {
        Target::new(&format!("{}/{database}", self.url), None)
    }
}

/// A tenant that is there.
#[derive(Clone, PartialEq, Debug)]
struct Made {
    population: String,
    promises: Options,
}

/// What failed, and when it is tried again.
#[derive(Clone, Debug)]
struct Failure {
    wait: Duration,
    again: Instant,
    error: String,
}

/// What there is to do.
#[derive(Clone, Debug)]
enum Work {
    Drop(String),
    Make(String, WantedTenant),
    Promise(String, WantedTenant),
}

impl Work {
    fn tenant(&self) -> &str {
        match self {
            Work::Drop(name) | Work::Make(name, _) | Work::Promise(name, _) => name,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    made: BTreeMap<String, Made>,
    /// Names by population.
    templates: BTreeMap<String, String>,
    failures: BTreeMap<String, Failure>,
}

impl Stage {
    /// Whether a tenant is there with what is wanted in it.
    pub(crate) fn has(&self, name: &str, load: &Load) -> bool {
        self.made.get(name).is_some_and(|made| made.population == load.population())
    }

    /// What went wrong with a tenant, and was not done since.
    pub(crate) fn error(&self, name: &str) -> Option<&str> {
        self.failures.get(name).map(|failure| failure.error.as_str())
    }

    /// The next piece of work, if there is any that is not to be tried later.
    fn next(&self, wanted: &BTreeMap<String, WantedTenant>, now: Instant) -> Option<Work> {
        let is_due = |name: &str| self.failures.get(name).is_none_or(|failure| failure.again <= now);
        let gone = self.made.iter().find(|(name, made)| {
            let keeps = wanted.get(*name).is_some_and(|wanted| wanted.load.population() == made.population);
            !keeps && is_due(name)
        });
        if let Some((name, _)) = gone {
            return Some(Work::Drop(name.clone()));
        }
        wanted.iter().filter(|(name, _)| is_due(name)).find_map(|(name, wanted)| {
            match self.made.get(name) {
                None => Some(Work::Make(name.clone(), wanted.clone())),
                // It is dropped first, later.
                Some(made) if made.population != wanted.load.population() => None,
                Some(made) => {
                    (made.promises != wanted.promises).then(|| Work::Promise(name.clone(), wanted.clone()))
                }
            }
        })
    }

    /// Does a piece of what there is to do; false if there was nothing. A failure is kept with its tenant.
    pub(crate) async fn work(
        stage: &std::cell::RefCell<Stage>,
        door: &Door,
        admin: &Client,
        wanted: &BTreeMap<String, WantedTenant>,
    ) -> bool {
        let next = {
            let mut stage = stage.borrow_mut();
            let Stage { failures, made, .. } = &mut *stage;
            failures.retain(|name, _| wanted.contains_key(name) || made.contains_key(name));
            stage.next(wanted, Instant::now())
        };
        let Some(work) = next else { return false };
        let outcome = match &work {
            Work::Drop(name) => execute(admin, &format!("DROP TENANT IF EXISTS {name}")).await,
            Work::Make(name, wanted) => make(stage, door, admin, name, wanted).await,
            Work::Promise(name, wanted) => promise(stage, admin, name, &wanted.promises).await,
        };
        let mut stage = stage.borrow_mut();
        match outcome {
            Ok(()) => {
                stage.failures.remove(work.tenant());
                match work {
                    Work::Drop(name) => {
                        stage.made.remove(&name);
                    }
                    Work::Make(name, wanted) | Work::Promise(name, wanted) => {
                        let made = Made { population: wanted.load.population(), promises: wanted.promises };
                        stage.made.insert(name, made);
                    }
                }
            }
            Err(error) => {
                let before = stage.failures.get(work.tenant());
                let wait = before.map_or(RETRY_MIN, |failure| (failure.wait * 2).min(RETRY_MAX));
                let failure =
                    Failure { wait, again: Instant::now() + wait, error: workloads::explain(&error) };
                stage.failures.insert(work.tenant().to_owned(), failure);
            }
        }
        true
    }
}

async fn execute(admin: &Client, sql: &str) -> Result<()> {
    Ok(admin.batch_execute(sql).await?)
}

async fn make(
    stage: &std::cell::RefCell<Stage>,
    door: &Door,
    admin: &Client,
    name: &str,
    wanted: &WantedTenant,
) -> Result<()> {
    let population = wanted.load.population();
    let known = stage.borrow().templates.get(&population).cloned();
    let template = match known {
        Some(template) => template,
        None => {
            let number = stage.borrow().templates.len() + 1;
            let template = format!("{}_{number}", wanted.load.template());
            // What an earlier attempt left.
            execute(admin, &format!("DROP TENANT IF EXISTS {template}")).await?;
            execute(admin, &format!("CREATE TENANT {template}")).await?;
            let client = door.to(&template)?.connect(0).await?;
            wanted.load.fill(&client).await?;
            stage.borrow_mut().templates.insert(population, template.clone());
            template
        }
    };
    let promises = promises_sql(&wanted.promises)?;
    let with = if promises.is_empty() { String::new() } else { format!(" WITH ({promises})") };
    execute(admin, &format!("CREATE TENANT {name} FROM TEMPLATE {template}{with}")).await
}

/// Promises what is wanted, and takes back what was promised here and is wanted no more.
async fn promise(
    stage: &std::cell::RefCell<Stage>,
    admin: &Client,
    name: &str,
    promises: &Options,
) -> Result<()> {
    let before = stage.borrow().made.get(name).map(|made| made.promises.clone()).unwrap_or_default();
    let gone: Vec<&str> =
        before.keys().filter(|key| !promises.contains_key(*key)).map(String::as_str).collect();
    if !gone.is_empty() {
        execute(admin, &format!("ALTER TENANT {name} RESET ({})", gone.join(", "))).await?;
    }
    let set = promises_sql(promises)?;
    if set.is_empty() { Ok(()) } else { execute(admin, &format!("ALTER TENANT {name} SET ({set})")).await }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::load::Kind;

    fn wanted(names: &[(&str, u32, f64)]) -> BTreeMap<String, WantedTenant> {
        let one = |(name, warehouses, cpu): &(&str, u32, f64)| {
            let options = serde_json::from_value(json!({ "warehouses": warehouses })).expect("options");
            let promises = serde_json::from_value(json!({ "cpu": cpu })).expect("options");
            let load = Load::new(Kind::Tpcc, &options).expect("a load");
            ((*name).to_owned(), WantedTenant { load, promises })
        };
        names.iter().map(one).collect()
    }

    /// Does all there is to do without a server; what was done, in words.
    fn play(stage: &mut Stage, wanted: &BTreeMap<String, WantedTenant>, now: Instant) -> Vec<String> {
        let mut done = Vec::new();
        while let Some(work) = stage.next(wanted, now) {
            assert!(done.len() < 100, "it ends");
            match work {
                Work::Drop(name) => {
                    stage.made.remove(&name);
                    done.push(format!("drop {name}"));
                }
                Work::Make(name, wanted) | Work::Promise(name, wanted) => {
                    let made = Made { population: wanted.load.population(), promises: wanted.promises };
                    let is_there = stage.made.insert(name.clone(), made).is_some();
                    done.push(format!("{} {name}", if is_there { "promise" } else { "make" }));
                }
            }
        }
        done
    }

    #[test]
    fn what_is_wanted_is_made_changed_and_dropped() {
        let now = Instant::now();
        let mut stage = Stage::default();
        let mut done = |names: &[(&str, u32, f64)]| play(&mut stage, &wanted(names), now);
        assert_eq!(done(&[("a1", 1, 0.1), ("a2", 1, 0.1)]), ["make a1", "make a2"]);
        assert!(done(&[("a1", 1, 0.1), ("a2", 1, 0.1)]).is_empty(), "it is as wanted");
        assert_eq!(done(&[("a1", 1, 0.2), ("a2", 1, 0.1)]), ["promise a1"]);
        // Another population takes another database.
        assert_eq!(done(&[("a1", 2, 0.2), ("a2", 1, 0.1)]), ["drop a1", "make a1"]);
        assert_eq!(done(&[("a2", 1, 0.1)]), ["drop a1"]);
        assert_eq!(done(&[]), ["drop a2"]);
    }

    #[test]
    fn what_failed_waits_and_holds_up_nothing_else() {
        let now = Instant::now();
        let mut stage = Stage::default();
        let again = now + Duration::from_secs(1);
        let failure = Failure { wait: RETRY_MIN, again, error: "no".into() };
        stage.failures.insert("a1".into(), failure);
        let wanted = wanted(&[("a1", 1, 0.1), ("a2", 1, 0.1)]);
        assert_eq!(play(&mut stage, &wanted, now), ["make a2"]);
        assert_eq!(stage.error("a1"), Some("no"));
        assert_eq!(play(&mut stage, &wanted, again), ["make a1"]);
    }
}
