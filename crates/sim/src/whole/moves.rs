//! Tenants that are moved from worker to worker while their clients are at work.
//!
//! Nobody but the administrator notices: clients' histories, what they are told among them, are judged as without moves. A tenant's records are in the logs of both
//! workers then, and a crash comes between any two of them.

use base::SqlState;

use super::{Run, name};
use crate::client::{Connection, Fate};
use crate::histories::object::Object;
use crate::{Dice, Stop};

/// By which part of it the time between two moves grows with each.
const RARER_BY: u64 = 32;
/// Workers of the largest server.
const WORKERS_MAX: u64 = 2;

impl<O: Object> Run<O> {
    /// Moves tenants at random moments until the power goes.
    pub(super) async fn move_about(&self) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        let mut interval = [2_000, 30_000, 1_000_000][dice.below(3) as usize];
        let mut admin = self.administrator();
        loop {
            dice.pause(interval).await;
            // Moves write nothing: they get rare, so that a life whose clients are done comes to its end.
            interval += interval / RARER_BY;
            let tenant = name(dice.below(self.records.len() as u64) as usize);
            let to = match dice.below(8) {
                0 => "default".to_owned(),
                worker => (worker % WORKERS_MAX).to_string(),
            };
            match admin.script(&format!("alter tenant {tenant} set worker {to}"), &[]).await {
                Err(fate) if !is_expected(&fate) => admin.recover(fate).await?,
                _ => {}
            }
        }
    }
}

/// Another statement is about the tenant, or this life has one worker.
fn is_expected(fate: &Fate) -> bool {
    let expected = [SqlState::OBJECT_IN_USE, SqlState::INVALID_PARAMETER_VALUE];
    matches!(fate, Fate::Refused(error) if expected.contains(&error.state()))
}
