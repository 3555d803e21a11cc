//! An index made again and again beside those who change the rows of its table, by the wire.
//!
//! Of each row `n` is its `id` and some number of steps, so that no two ever have the same one, and a unique index is never refused. Writers change one row,
//! put another one in its place, or take all rows a step further, which is a long change. Whatever index there is by then, it leads from a row's `n` back
//! to that row alone. That it has all others too is seen when the life's files are verified.

use base::SqlState;

use super::Run;
use super::bulk::Share;
use super::client::{Answer, WireClient};
use crate::campaign::{Task, work};
use crate::client::{Connection, Fate};
use crate::histories::object::Object;
use crate::{Dice, Stop};

/// Rows: enough for an index to be built beside writers, and for a change of all of them to run in slices.
const ROWS: u64 = 4_200;

/// What `n` grows by.
const STEP: u64 = 10_000;
const _: () = assert!(ROWS < STEP);

/// Clients of each tenant that change rows.
const WRITERS: usize = 2;

/// What a client of the table does.
#[derive(Clone, Copy)]
enum Role {
    /// Makes its index.
    Builder,
    /// Changes its rows.
    Writer,
}

impl Role {
    /// Microseconds that it pauses at most.
    fn pause_max(self) -> u64 {
        match self {
            Role::Builder => 30_000,
            Role::Writer => 2_000,
        }
    }
}

impl<O: Object> Run<O> {
    /// Such a table in each tenant, until the power goes, in the lives that have long work beside other work.
    pub(super) async fn index_beside_writers(&self) -> Result<(), Stop> {
        if self.bulk_share != Share::BesideOthers {
            return Ok(());
        }
        let mut clients: Vec<Task<'_>> = Vec::new();
        for place in 0..self.bulk.len() {
            clients.push(Box::pin(self.work_at_index_of(place, Role::Builder)));
            for _ in 0..WRITERS {
                clients.push(Box::pin(self.work_at_index_of(place, Role::Writer)));
            }
        }
        work(clients).await
    }

    /// A client of the table, made by whoever comes first.
    async fn work_at_index_of(&self, place: usize, role: Role) -> Result<(), Stop> {
        let (dice, mut client) = (Dice::of(&self.world), self.client_of(place));
        let mut is_filled = false;
        loop {
            dice.pause(role.pause_max()).await;
            let outcome = match (is_filled, role) {
                (false, _) => fill(&mut client).await.map(|()| is_filled = true),
                (true, Role::Builder) => make_index(&mut client, &dice).await,
                (true, Role::Writer) => change(&mut client, &dice).await,
            };
            if let Err(fate) = outcome {
                client.recover(fate).await?;
            }
        }
    }
}

/// Makes the table and its rows, unless they are there.
async fn fill(client: &mut WireClient) -> Result<(), Fate> {
    let make = "begin; select pg_advisory_xact_lock(9); \
                create table if not exists indexed (id int primary key, n int8 not null)";
    client.script(make, &[]).await?;
    let count = only(&client.script("select count(*) from indexed", &[]).await?)?;
    if count == "0" {
        let rows = format!("insert into indexed select g, g from generate_series(1, {ROWS}) g");
        client.script(&rows, &[]).await?;
    } else if count != ROWS.to_string() {
        return Err(Stop::violation(format!("{count} rows of {ROWS} have an index beside writers")).into());
    }
    client.script("commit", &[]).await?;
    Ok(())
}

async fn make_index(client: &mut WireClient, dice: &Dice) -> Result<(), Fate> {
    client.script("drop index if exists indexed_n", &[]).await?;
    let unique = if dice.percent(50) { "unique" } else { "" };
    let concurrently = if dice.percent(50) { "concurrently" } else { "" };
    let make = format!("create {unique} index {concurrently} indexed_n on indexed (n)");
    match client.script(&make, &[]).await {
        // By a session that was cut off, and was still at it.
        Err(Fate::Refused(error)) if error.state() == SqlState::DUPLICATE_TABLE => Ok(()),
        outcome => outcome.map(drop),
    }
}

async fn change(client: &mut WireClient, dice: &Dice) -> Result<(), Fate> {
    let id = 1 + dice.below(ROWS);
    let n = id + STEP * (1 + dice.below(1 << 40));
    let change = match dice.below(16) {
        0 => format!("update indexed set n = n + {STEP}"),
        1..6 => {
            let insert = format!("insert into indexed values ({id}, {n}) on conflict (id) do nothing");
            format!("delete from indexed where id = {id}; {insert}")
        }
        6..11 => format!("update indexed set n = {n} where id = {id}"),
        _ => return look_up(client, id).await,
    };
    client.script(&change, &[]).await.map(drop)
}

/// From a row's `n` back to the row, by one snapshot.
async fn look_up(client: &mut WireClient, id: u64) -> Result<(), Fate> {
    let begin = format!("begin isolation level repeatable read; select n from indexed where id = {id}");
    let n = only(&client.script(&begin, &[]).await?)?;
    let found = client.script(&format!("select id from indexed where n = {n}; commit"), &[]).await?;
    if only(&found)? != id.to_string() {
        return Err(Stop::violation(format!("row {id} is not found by its {n}: {:?}", found.rows)).into());
    }
    Ok(())
}

/// The only value of an answer.
fn only(answer: &Answer) -> Result<String, Stop> {
    let values: Vec<&String> = answer.rows.iter().flatten().flatten().collect();
    match values[..] {
        [value] => Ok(value.clone()),
        _ => {
            Err(Stop::violation(format!("a table beside whose writers an index is made: {:?}", answer.rows)))
        }
    }
}
