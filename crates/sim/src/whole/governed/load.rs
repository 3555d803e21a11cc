//! What tenants have, and their clients.

use base::Nanos;
use futures::future::{Either, join_all, select};

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

/// Of a row of [`table_of`], by its number.
pub(super) const READ: &str = "select n from t where n = $1::int4";
pub(super) const WRITE: &str = "update t set m = m + 1 where n = $1::int4";
/// Bytes of the text of a row of [`table_of`]: two fit a page.
const ROW_LEN: u64 = 3000;

/// What makes a table of so many rows, numbered from 0.
pub(super) fn table_of(rows: u64) -> Vec<String> {
    let row = |n: &u64| format!("({n}, 0, repeat('x', {ROW_LEN}))");
    let numbers: Vec<u64> = (0..rows).collect();
    let inserts = numbers.chunks(20).map(|some| {
        let rows: Vec<String> = some.iter().map(row).collect();
        format!("insert into t values {}", rows.join(", "))
    });
    let table = "create table t (n int primary key, m int not null, pad text)".to_owned();
    std::iter::once(table).chain(inserts).collect()
}

/// All clients of a tenant, each of which sends until `end` what `next`, given its number, says.
pub(super) fn clients<'a, N: FnMut() -> (&'static str, String) + 'a>(
    stage: &'a Stage<'_>,
    dice: &'a Dice,
    tenant: &'a str,
    load: Load,
    end: Nanos,
    next: impl Fn(u64) -> N + 'a,
) -> impl Iterator<Item = impl Future<Output = Result<(), Stop>> + 'a> {
    (0..load.clients()).map(move |n| client(stage, dice, tenant, load, end, next(n)))
}

/// Lets all clients work to their end; one promise is altered meanwhile, if so: after how long, and by what statement.
pub(super) async fn work(
    stage: &Stage<'_>,
    clients: Vec<impl Future<Output = Result<(), Stop>>>,
    altered: Option<(Nanos, String)>,
) -> Result<(), Stop> {
    let alter = async {
        if let Some((after, sql)) = altered {
            env::sleep(after).await;
            stage.administer(&sql).await?;
        }
        Ok::<_, Stop>(())
    };
    let (clients, altered) = futures::join!(join_all(clients), alter);
    altered?;
    clients.into_iter().collect()
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
