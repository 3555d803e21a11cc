//! What an experiment is told.

use std::path::PathBuf;
use std::time::Duration;

use crate::Result;
use crate::world::Cores;

/// An experiment of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Experiment {
    /// Section 4.2, figure 4.
    Reservations,
    /// Section 4.3, figure 5 and table 1.
    Isolation,
    /// Section 4.4, figures 6 and 7.
    Metering,
    /// Memory for pages and for sorts, which the paper promises and does not measure.
    Memory,
    /// What promises cost: with many tenants, with one that means harm, with one that does not.
    Cost,
}

/// A part of an experiment that can be run by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Two tenants promised 60 and 20 I/Os a second, exchanged half-way.
    Figure4,
    /// 2 to 32 tenants with promises of I/O.
    Tenants,
    /// Half a worker against 24 tenants.
    Cpu,
    /// T1 (TPC-C) while three others arrive.
    Figure5,
    /// The same with each other workload as T1.
    Workloads,
    /// T1 beside 24 neighbours.
    Table1,
    /// Figure 5 and table 1 on PostgreSQL.
    Postgres,
    /// Figures 6 and 7.
    Metering,
    /// Buffer memory beside a scanning neighbour.
    Buffer,
    /// Working memory beside eight sorting neighbours.
    Working,
    /// Memory of an idle tenant, and its return.
    Lent,
    /// 500 tenants with promises at once.
    Crowd,
    /// A tenant that does what it can to harm the others.
    Hostile,
    /// Promises kept against none.
    Governor,
}

impl Experiment {
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Reservations => "reservations",
            Experiment::Isolation => "isolation",
            Experiment::Metering => "metering",
            Experiment::Memory => "memory",
            Experiment::Cost => "cost",
        }
    }

    fn all_parts(self) -> &'static [Part] {
        match self {
            Experiment::Reservations => &[Part::Figure4, Part::Tenants, Part::Cpu],
            Experiment::Isolation => &[Part::Figure5, Part::Table1, Part::Workloads, Part::Postgres],
            Experiment::Metering => &[Part::Metering],
            Experiment::Memory => &[Part::Buffer, Part::Working, Part::Lent],
            Experiment::Cost => &[Part::Crowd, Part::Hostile, Part::Governor],
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Experiment::Reservations => "Reservations are met",
            Experiment::Isolation => "A tenant beside its neighbours",
            Experiment::Metering => "Broken promises are on the ledger",
            Experiment::Memory => "Promised memory is there",
            Experiment::Cost => "What promises cost, and what a hostile tenant costs the others",
        }
    }

    pub(super) fn lead(self) -> &'static str {
        match self {
            Experiment::Reservations => {
                "Section 4.2 of the paper on SQLVM: tenants that want more than they were promised get their promises of I/O and \
                 processor time, and a changed promise is kept from then on."
            }
            Experiment::Isolation => {
                "Section 4.3 of the paper on SQLVM: one tenant's throughput and latency while others arrive, with reservations, \
                 with limits alone and with neither. PostgreSQL beside it."
            }
            Experiment::Metering => {
                "Section 4.4 of the paper on SQLVM: on a volume that was promised twice over, the ledger says what each tenant \
                 missed, and is held against counts that know nothing of it."
            }
            Experiment::Memory => {
                "Memory as section 2.3 of the paper on SQLVM promises it and its section 4 does not measure: a tenant beside \
                 neighbours that want all memory reads and spills no more than with what it was promised to itself, and has \
                 it back soon after it was idle."
            }
            Experiment::Cost => {
                "What is not in the paper: promises to many tenants at once, a tenant that does what it can to harm the \
                 others, and what keeping promises costs in processor time against keeping none."
            }
        }
    }
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Figure4 => "figure-4",
            Part::Tenants => "tenants",
            Part::Cpu => "cpu",
            Part::Figure5 => "figure-5",
            Part::Workloads => "workloads",
            Part::Table1 => "table-1",
            Part::Postgres => "postgres",
            Part::Metering => "metering",
            Part::Buffer => "buffer",
            Part::Working => "working",
            Part::Lent => "lent",
            Part::Crowd => "crowd",
            Part::Hostile => "hostile",
            Part::Governor => "governor",
        }
    }
}

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct Options {
    pub experiment: Experiment,
    /// Names of parts; none for all.
    pub only: Vec<String>,
    /// Where the report goes.
    pub out: PathBuf,
    /// The server's binary.
    pub server_binary: PathBuf,
    /// Where temporary folders of data are made; `None` for the system's place for them.
    pub data_dir: Option<PathBuf>,
    pub server_cores: Option<Cores>,
    pub load_cores: Option<Cores>,
    pub quick: bool,
    /// Part of the paper's durations.
    pub duration_factor: f64,
    /// Part of the population.
    pub population_factor: f64,
    pub repetitions: usize,
    pub seed: u64,
}

impl Options {
    /// Those of `--quick`.
    pub const QUICK_DURATION_FACTOR: f64 = 0.06;
    pub const QUICK_POPULATION_FACTOR: f64 = 0.1;

    /// The parts to run, in their order.
    ///
    /// # Errors
    /// When a name is none of a part, with those there are.
    pub(super) fn parts(&self) -> Result<Vec<Part>> {
        let all = self.experiment.all_parts();
        let names: Vec<&str> = all.iter().map(|part| part.name()).collect();
        if let Some(wrong) = self.only.iter().find(|name| !names.contains(&name.as_str())) {
            let experiment = self.experiment.name();
            return Err(
                format!("{experiment} has no part \"{wrong}\"; there are {}", names.join(", ")).into()
            );
        }
        let wanted = |part: &&Part| self.only.is_empty() || self.only.iter().any(|name| name == part.name());
        Ok(all.iter().filter(wanted).copied().collect())
    }

    /// What the paper gives so many seconds to, as long as it takes here; two seconds at least.
    pub(super) fn time(&self, paper_seconds: f64) -> Duration {
        Duration::from_secs_f64((paper_seconds * self.duration_factor).max(2.0))
    }

    /// So many rows or bytes, or the part of them that is used here; `least` at least.
    pub(super) fn amount(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.population_factor) as u64).max(least)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::sqlvm) fn options(experiment: Experiment, only: &[&str]) -> Options {
        Options {
            experiment,
            only: only.iter().map(ToString::to_string).collect(),
            out: PathBuf::new(),
            server_binary: PathBuf::new(),
            data_dir: None,
            server_cores: None,
            load_cores: None,
            quick: false,
            duration_factor: 0.1,
            population_factor: 0.5,
            repetitions: 1,
            seed: 1,
        }
    }

    #[test]
    fn parts_are_chosen_by_name_and_keep_their_order() {
        let parts = |only: &[&str]| options(Experiment::Reservations, only).parts();
        assert_eq!(parts(&[]).expect("all"), [Part::Figure4, Part::Tenants, Part::Cpu]);
        assert_eq!(parts(&["cpu", "figure-4"]).expect("two"), [Part::Figure4, Part::Cpu]);
        let error = parts(&["figure-5"]).expect_err("it is another experiment's");
        assert!(error.to_string().contains("figure-4, tenants, cpu"), "{error}");
    }

    #[test]
    fn durations_and_populations_are_parts_of_the_papers() {
        let options = options(Experiment::Metering, &[]);
        assert_eq!(options.time(300.0), Duration::from_secs(30));
        assert_eq!(options.time(1.0), Duration::from_secs(2), "less says nothing");
        assert_eq!((options.amount(1000, 10), options.amount(1000, 600)), (500, 600));
    }
}
