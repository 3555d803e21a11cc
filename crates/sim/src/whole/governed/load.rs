//! Clients of a tenant.

use base::Nanos;
use futures::future::{Either, select};

use super::{SECOND, Stage, surely};
use crate::client::Connection as _;
use crate::{Dice, Stop};

/// How a tenant's clients behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Load {
    /// As many clients that send one statement after the other.
    Busy(u64),
    /// One that sends some statements, then pauses for up to so many microseconds.
    Bursts { statements: u64, pause: u64 },
}

impl Load {
    /// As many clients that are busy.
    pub(super) fn clients(self) -> u64 {
        match self {
            Load::Busy(count) => count,
            Load::Bursts { .. } => 1,
        }
    }
}

/// One client: until `end` it sends what `next` says, a statement and its one parameter.
pub(super) async fn client(
    stage: &Stage<'_>,
    dice: &Dice,
    tenant: &str,
    load: Load,
    end: Nanos,
    mut next: impl FnMut() -> (&'static str, String),
) -> Result<(), Stop> {
    let mut client = stage.owner(tenant);
    let mut sent = 0;
    while stage.world.now() < end {
        let (sql, parameter) = next();
        let parameters = [parameter];
        let statement = std::pin::pin!(client.run(sql, &parameters));
        // One that a limit holds up is left where it is.
        match select(statement, std::pin::pin!(env::sleep_until(end + SECOND))).await {
            Either::Left((done, _)) => drop(done.map_err(surely)?),
            Either::Right(_) => return Ok(()),
        }
        sent += 1;
        if let Load::Bursts { statements, pause } = load
            && sent % statements == 0
        {
            dice.pause(pause).await;
        }
    }
    Ok(())
}
