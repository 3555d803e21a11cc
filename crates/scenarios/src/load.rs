//! The workloads that a group's clients can run, with the options of each.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio_postgres::Client;
use workloads::cpuio::Cpuio;
use workloads::dvdstore::{DvdStore, Size, Standard};
use workloads::pgbench::{Pgbench, Script};
use workloads::target::Target;
use workloads::tpcc::{self, Tpcc};
use workloads::tpch::{self, Tpch};
use workloads::workload::Workload;
use workloads::{run, steered};

/// Options by name, as they are given: numbers, or texts.
pub(crate) type Options = BTreeMap<String, Value>;

/// Which workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Tpcc,
    Cpuio,
    #[serde(rename = "dvdstore")]
    DvdStore,
    Tpch,
    Pgbench,
}

/// A workload with its size.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    Tpcc(Tpcc),
    Cpuio(Cpuio),
    DvdStore(DvdStore),
    Tpch(Tpch),
    Pgbench(Pgbench),
}

/// An option that a workload knows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Known {
    name: &'static str,
    default: Value,
    /// The values it may have, if they are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'static [&'static str]>,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [Kind::Tpcc, Kind::Cpuio, Kind::DvdStore, Kind::Tpch, Kind::Pgbench];

    /// The options that it knows, in the order in which they are shown.
    pub(crate) fn known_options(self) -> Vec<Known> {
        let none = Options::new();
        let mut given = Given { options: &none, known: Vec::new() };
        Load::of(self, &mut given).expect("the defaults are within their range");
        given.known
    }
}

/// Takes the options that a workload knows, one by one; what is left is unknown.
struct Given<'o> {
    options: &'o Options,
    known: Vec<Known>,
}

impl Given<'_> {
    fn choose(
        &mut self,
        name: &'static str,
        choices: &'static [&'static str],
    ) -> Result<&'static str, String> {
        let chosen = self.take(name, choices[0].to_owned())?;
        self.known.last_mut().expect("just taken").choices = Some(choices);
        let found = choices.iter().find(|choice| **choice == chosen);
        found
            .copied()
            .ok_or_else(|| format!("there is no {name} \"{chosen}\"; there are {}", choices.join(", ")))
    }

    fn take<T: FromStr + Serialize>(&mut self, name: &'static str, default: T) -> Result<T, String> {
        let told = serde_json::to_value(&default).expect("a number or a text");
        self.known.push(Known { name, default: told, choices: None });
        let text = match self.options.get(name) {
            None => return Ok(default),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        text.parse().map_err(|_| format!("the option {name} cannot be \"{text}\""))
    }

    fn end(self) -> Result<(), String> {
        let known: Vec<&str> = self.known.iter().map(|known| known.name).collect();
        match self.options.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(format!("there is no option \"{name}\" here; there are {}", known.join(", "))),
            None => Ok(()),
        }
    }
}

impl Load {
    /// A workload of the size that the options say; what they leave out is small enough to be loaded within seconds.
    ///
    /// # Errors
    /// Which option is unknown or out of range.
    pub(crate) fn new(kind: Kind, options: &Options) -> Result<Load, String> {
        let mut given = Given { options, known: Vec::new() };
        let load = Load::of(kind, &mut given)?;
        given.end()?;
        Ok(load)
    }

    fn of(kind: Kind, given: &mut Given<'_>) -> Result<Load, String> {
        Ok(match kind {
            Kind::Tpcc => {
                let (warehouses, scale) = (given.take("warehouses", 1u32)?, given.take("scale", 0.02)?);
                if warehouses > 100 {
                    return Err("there are 100 warehouses at most here".into());
                }
                Load::Tpcc(Tpcc { scale: tpcc::Scale::new(warehouses, scale)?, foreign_keys: false })
            }
            Kind::Cpuio => {
                let mix = format!(
                    "cpu={},scan={},lookup={}",
                    given.take("cpu", 1u32)?,
                    given.take("scan", 1u32)?,
                    { given.take("lookup", 1u32)? }
                );
                let cpuio = Cpuio {
                    rows: given.take("rows", 5_000u64)?,
                    row_bytes: given.take("row_bytes", 400u32)?,
                    mix: mix.parse()?,
                    cpu_rounds: given.take("rounds", 1_000u32)?,
                    scan_rows: given.take("scan_rows", 100u64)?,
                    lookup_rows: given.take("lookup_rows", 10u64)?,
                };
                if cpuio.rows > 10_000_000 {
                    return Err("there are 10000000 rows at most here".into());
                }
                cpuio.validate().map_err(|error| error.to_string())?;
                Load::Cpuio(cpuio)
            }
            Kind::DvdStore => {
                let size = Size::new(Standard::Small, given.take("scale", 0.1)?)?;
                Load::DvdStore(DvdStore { size })
            }
            Kind::Tpch => {
                let scale: f64 = given.take("scale", 0.01)?;
                if scale > 10.0 {
                    return Err("the scale is 10 at most here".into());
                }
                // Query 20 is left out unless it is asked for: its time grows much faster than the scale (docs/workloads.md).
                let queries: String = given.take("queries", "1-19,21-22".to_owned())?;
                let queries = queries.parse().map_err(|error| format!("queries: {error}"))?;
                Load::Tpch(Tpch {
                    scale: tpch::Scale::new(scale)?,
                    foreign_keys: false,
                    validation: false,
                    queries,
                })
            }
            Kind::Pgbench => {
                let scale = given.take("scale", 1u32)?;
                if !(1..=100).contains(&scale) {
                    return Err("pgbench's scale is from 1 to 100 here".into());
                }
                let script = match given.choose("script", &["tpcb-like", "select-only"])? {
                    "select-only" => Script::SelectOnly,
                    _ => Script::TpcbLike,
                };
                Load::Pgbench(Pgbench { script, scale })
            }
        })
    }

    /// What its tables are filled with, in words: loads of which this is equal can work in the same database.
    pub(crate) fn population(&self) -> String {
        match self {
            Load::Tpcc(of) => format!("TPC-C of {}", of.setting()),
            Load::Cpuio(of) => {
                format!("CPUIO of {} rows of {} bytes, {} alike", of.rows, of.row_bytes, of.lookup_rows)
            }
            Load::DvdStore(of) => format!("DVD Store of {}", of.setting()),
            Load::Tpch(of) => format!("TPC-H of {}", of.scale),
            Load::Pgbench(of) => format!("pgbench of scale {}", of.scale),
        }
    }

    /// What its template's name begins with.
    pub(crate) fn template(&self) -> &'static str {
        match self {
            Load::Tpcc(_) => "model_tpcc",
            Load::Cpuio(_) => "model_cpuio",
            Load::DvdStore(_) => "model_dvdstore",
            Load::Tpch(_) => "model_tpch",
            Load::Pgbench(_) => "model_pgbench",
        }
    }

    /// Makes and fills its tables in a database that has none of them.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) async fn fill(&self, client: &Client) -> workloads::Result<()> {
        const SEED: u64 = 1;
        let progress = &mut |_, _| {};
        match self {
            Load::Tpcc(of) => run::load(of, client, SEED, progress).await,
            Load::Cpuio(of) => run::load(of, client, SEED, progress).await,
            Load::DvdStore(of) => run::load(of, client, SEED, progress).await,
            Load::Tpch(of) => run::load(of, client, SEED, progress).await,
            Load::Pgbench(of) => run::load(of, client, SEED, progress).await,
        }
    }

    /// What its tables contradict of what the workload demands of them, in words; nothing of a workload that demands nothing.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) async fn check(&self, client: &Client) -> workloads::Result<Vec<String>> {
        match self {
            Load::Tpcc(of) => of.check(client).await,
            Load::Cpuio(of) => of.check(client).await,
            Load::DvdStore(of) => of.check(client).await,
            Load::Tpch(of) => of.check(client).await,
            Load::Pgbench(of) => of.check(client).await,
        }
    }

    /// A client of the target's one database, at work for as long as `rate` has a sender ([`steered::run`]).
    ///
    /// # Errors
    /// When it cannot connect, or the server refuses something.
    pub(crate) async fn work(
        &self,
        target: &Target,
        number: u32,
        seed: u64,
        rate: watch::Receiver<Option<f64>>,
        done: impl FnMut(Duration),
    ) -> workloads::Result<()> {
        match self {
            Load::Tpcc(of) => work(of, target, number, seed, rate, done).await,
            Load::Cpuio(of) => work(of, target, number, seed, rate, done).await,
            Load::DvdStore(of) => work(of, target, number, seed, rate, done).await,
            Load::Tpch(of) => work(of, target, number, seed, rate, done).await,
            Load::Pgbench(of) => work(of, target, number, seed, rate, done).await,
        }
    }
}

async fn work(
    workload: &impl Workload,
    target: &Target,
    number: u32,
    seed: u64,
    rate: watch::Receiver<Option<f64>>,
    done: impl FnMut(Duration),
) -> workloads::Result<()> {
    let connection = target.open(0).await?;
    let mut client = workload.client(connection, seed, number).await?;
    steered::run(&mut client, rate, seed, done).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn load(kind: Kind, options: Value) -> Result<Load, String> {
        Load::new(kind, &serde_json::from_value(options).expect("options"))
    }

    #[test]
    fn options_are_numbers_or_texts_and_unknown_ones_are_refused() {
        let population = |options| load(Kind::Tpcc, options).expect("options").population();
        assert_eq!(population(json!({ "warehouses": "2" })), population(json!({ "warehouses": 2 })));
        assert_ne!(population(json!({})), population(json!({ "warehouses": 2 })));
        let wrong = load(Kind::Tpcc, json!({ "rows": 1 })).expect_err("an option of another workload");
        assert!(wrong.contains("rows") && wrong.contains("warehouses"), "{wrong}");
        for (kind, options) in [
            (Kind::Tpcc, json!({ "warehouses": "two" })),
            (Kind::Tpcc, json!({ "warehouses": 0 })),
            (Kind::Tpcc, json!({ "scale": 2 })),
            (Kind::Cpuio, json!({ "cpu": 0, "scan": 0, "lookup": 0 })),
            (Kind::Cpuio, json!({ "rows": 10, "scan_rows": 11 })),
            (Kind::Cpuio, json!({ "rows": 100_000_000 })),
            (Kind::Pgbench, json!({ "script": "mine" })),
            (Kind::Pgbench, json!({ "scale": 0 })),
            (Kind::Tpch, json!({ "queries": "23" })),
            (Kind::Tpch, json!({ "scale": 11 })),
            (Kind::DvdStore, json!({ "scale": 0 })),
        ] {
            assert!(load(kind, options.clone()).is_err(), "{options}");
        }
    }

    #[test]
    fn every_default_that_is_listed_is_what_is_taken() {
        for kind in Kind::ALL {
            let known = kind.known_options();
            let all = known.iter().map(|of| (of.name.to_owned(), of.default.clone())).collect();
            let with = Load::new(kind, &all).expect("the defaults are options");
            let without = Load::new(kind, &Options::new()).expect("no options");
            assert_eq!(format!("{with:?}"), format!("{without:?}"));
            for of in &known {
                assert!(
                    of.choices.is_none_or(|all| all.iter().any(|choice| of.default == *choice)),
                    "{of:?}"
                );
            }
        }
        let names: Vec<_> = Kind::Tpcc.known_options().iter().map(|of| of.name).collect();
        assert_eq!(names, ["warehouses", "scale"]);
    }

    #[test]
    fn what_only_clients_do_is_not_of_the_population() {
        let population = |kind, options| load(kind, options).expect("options").population();
        let cpu = json!({ "scan": 0, "lookup": 0, "rounds": 7, "scan_rows": 5 });
        assert_eq!(population(Kind::Cpuio, cpu), population(Kind::Cpuio, json!({})));
        assert_ne!(population(Kind::Cpuio, json!({ "rows": 7_000 })), population(Kind::Cpuio, json!({})));
        let script = json!({ "script": "select-only" });
        assert_eq!(population(Kind::Pgbench, script), population(Kind::Pgbench, json!({})));
    }
}
