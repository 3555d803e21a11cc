//! The experiments of the paper on performance isolation (SQLVM, CIDR 2013, section 4), made anew: what was promised is given
//! ([`reservations`]), a tenant does not notice its neighbours ([`isolation`]), and where promises cannot be kept the ledger says so
//! ([`metering`]). And what it leaves: that promised memory is there ([`memory`]), and what promises cost ([`cost`]).
//!
//! Each experiment is made of parts that end with a section of the report. Durations and populations are the paper's where it has
//! them; options make both smaller, which the report says.

mod actors;
mod careless;
mod cost;
mod crowd;
mod figure4;
mod host;
mod isolation;
mod memory;
mod metering;
mod options;
mod performance;
mod processor;
mod recompute;
mod reservations;
mod sections;
mod stage;

use crate::report::Status;
use crate::world::interrupt::{is_interruption, until_interrupted};
use crate::{Result, explain};

pub use options::{Experiment, Options, Part};
use stage::Stage;

/// Runs an experiment to its end, or until it is interrupted, and writes its report. What it started has ended when this returns.
///
/// # Errors
/// What kept it from its end. The report has what was measured before that, and says so.
pub fn run(options: &Options) -> Result<()> {
    let parts = options.parts()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let mut stage = Stage::ready(options)?;
        let outcome = until_interrupted(async {
            for part in parts {
                stage.begin(part)?;
                match part {
                    Part::Figure4 => reservations::figure_4(&mut stage).await?,
                    Part::Tenants => crowd::part(&mut stage).await?,
                    Part::Cpu => processor::part(&mut stage).await?,
                    Part::Figure5 => isolation::figure_5(&mut stage).await?,
                    Part::Workloads => isolation::each_workload(&mut stage).await?,
                    Part::Table1 => isolation::table_1(&mut stage).await?,
                    Part::Postgres => isolation::postgres(&mut stage).await?,
                    Part::Metering => metering::part(&mut stage).await?,
                    Part::Buffer => memory::buffer(&mut stage).await?,
                    Part::Working => memory::working(&mut stage).await?,
                    Part::Lent => memory::lent(&mut stage).await?,
                    Part::Crowd => cost::crowd(&mut stage).await?,
                    Part::Hostile => cost::hostile(&mut stage).await?,
                    Part::Governor => cost::governor(&mut stage).await?,
                }
                stage.end_part()?;
            }
            Ok(())
        })
        .await;
        let status = match &outcome {
            Ok(()) => Status::Complete,
            Err(error) if is_interruption(error) => Status::Partial { why: "interrupted".into() },
            Err(error) => Status::Partial { why: explain(error) },
        };
        stage.finish(status)?;
        outcome
    })
}
