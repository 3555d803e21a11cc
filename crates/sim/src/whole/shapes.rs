//! Prepared statements while the table beneath them is altered, by the wire.
//!
//! One client of a tenant alters a small table again and again: the type of a column, which columns and indexes there are, the table itself. All of its
//! rows have one generation, which each alteration makes the next one in the same transaction. Others run what they prepared once, by
//! each access path. Whatever a statement finds, it is every row asked for with the same generation, not before the newest
//! that was told of when it was sent and not behind the last that was tried. Where a statement's columns have become others it is refused, as by PostgreSQL,
//! and prepared anew.

use std::cell::Cell;

use base::SqlState;

use super::bulk::Share;
use super::client::WireClient;
use super::{MEMORY_AMPLE, Run};
use crate::campaign::{Task, work};
use crate::client::{Connection, Fate, Values};
use crate::histories::object::Object;
use crate::{Dice, Stop, require};

/// Rows of the table.
const ROWS: usize = 12;

/// Of a hundred lives of a seed with ample memory, so many have such a table.
const LIVES_PERCENT: u64 = 25;

/// Clients of each tenant that use it.
const USERS: usize = 2;

/// Microseconds that a client pauses at most.
const PAUSE_MAX: u64 = 1_500;

/// A statement that is prepared once, its parameter, and how many rows it finds, of generations alone.
struct Use {
    sql: &'static str,
    parameter: Option<&'static str>,
    rows: usize,
}

/// Only the second one's column is of another type at times.
static USES: [Use; 5] = [
    Use { sql: "select v::text from shape where id = $1", parameter: Some("7"), rows: 1 },
    Use { sql: "select v from shape where id >= $1 order by id", parameter: Some("1"), rows: ROWS },
    Use { sql: "select v::text from shape where w = $1", parameter: Some("50"), rows: 1 },
    Use { sql: "select min(v::text), max(v::text) from shape", parameter: None, rows: 1 },
    Use { sql: "update shape set w = w where id = $1 returning v::text", parameter: Some("3"), rows: 1 },
];

/// What is known of a tenant's table: generation 0 is none.
#[derive(Default)]
pub(super) struct Shape {
    /// Told of, or read.
    told: Cell<u64>,
    /// The last that a transaction tried to make.
    tried: Cell<u64>,
}

impl Shape {
    /// Judges what a statement found that was sent when generation `told` was known.
    fn judge(&self, told: u64, of: &Use, rows: &[Values]) -> Result<(), Stop> {
        require!(rows.len() == of.rows, "{}: {} rows, {} are there", of.sql, rows.len(), of.rows);
        let values = rows.iter().flatten();
        let generations = values.map(|value| value.as_deref().and_then(|text| text.parse::<u64>().ok()));
        let Some(generations) = generations.collect::<Option<Vec<u64>>>() else {
            return Err(Stop::violation(format!("{}: no generations: {rows:?}", of.sql)));
        };
        let (first, tried) = (generations[0], self.tried.get());
        require!(generations.iter().all(|one| *one == first), "{}: the table is torn: {rows:?}", of.sql);
        require!(
            (told..=tried).contains(&first),
            "{}: generation {first}: {told} was told, {tried} tried",
            of.sql
        );
        self.told.set(self.told.get().max(first));
        Ok(())
    }
}

impl<O: Object> Run<O> {
    /// Such a table in each tenant, altered and used until the power goes, in some lives.
    pub(super) async fn alter_shapes(&self) -> Result<(), Stop> {
        let is_quiet = self.bulk_share == Share::Alone;
        if self.whole.memory < MEMORY_AMPLE || is_quiet || !Dice::of(&self.world).percent(LIVES_PERCENT) {
            return Ok(());
        }
        let mut clients: Vec<Task<'_>> = Vec::new();
        for (place, shape) in self.shapes.iter().enumerate() {
            clients.push(Box::pin(self.alter_shape_of(place, shape)));
            for _ in 0..USERS {
                clients.push(Box::pin(self.use_shape_of(place, shape)));
            }
        }
        work(clients).await
    }

    async fn alter_shape_of(&self, place: usize, shape: &Shape) -> Result<(), Stop> {
        let (dice, mut client) = (Dice::of(&self.world), self.client_of(place));
        loop {
            dice.pause(PAUSE_MAX).await;
            if let Err(fate) = alter(&mut client, shape, &dice).await {
                client.recover(fate).await?;
            }
        }
    }

    async fn use_shape_of(&self, place: usize, shape: &Shape) -> Result<(), Stop> {
        let (dice, mut client) = (Dice::of(&self.world), self.odd_client_of(place));
        loop {
            dice.pause(PAUSE_MAX).await;
            let of = &USES[dice.below(USES.len() as u64) as usize];
            if let Err(fate) = use_once(&mut client, shape, of).await {
                client.recover(fate).await?;
            }
        }
    }

    /// Uses the tables of all tenants in each way, at the end.
    pub(super) async fn use_shapes(&self) -> Result<(), Stop> {
        for (place, shape) in self.shapes.iter().enumerate().filter(|(_, shape)| shape.tried.get() > 0) {
            let mut client = self.client_of(place);
            for of in &USES {
                while let Err(fate) = use_once(&mut client, shape, of).await {
                    client.recover(fate).await?;
                    Dice::of(&self.world).pause(50_000).await;
                }
            }
        }
        Ok(())
    }
}

async fn use_once(client: &mut WireClient, shape: &Shape, of: &Use) -> Result<(), Fate> {
    let told = shape.told.get();
    let parameters: Vec<String> = of.parameter.into_iter().map(str::to_owned).collect();
    match client.run(of.sql, &parameters).await {
        Ok(rows) => Ok(shape.judge(told, of, &rows)?),
        // Nobody was told that it is there.
        Err(Fate::Refused(error)) if told == 0 && error.state() == SqlState::UNDEFINED_TABLE => Ok(()),
        Err(Fate::Refused(error)) if is_stale(&error) => {
            client.hang_up();
            Ok(())
        }
        Err(fate) => Err(fate),
    }
}

fn is_stale(error: &base::SqlError) -> bool {
    error.state() == SqlState::FEATURE_NOT_SUPPORTED && error.message().starts_with("cached plan")
}

/// One transaction, whatever the table is like before.
async fn alter(client: &mut WireClient, shape: &Shape, dice: &Dice) -> Result<(), Fate> {
    // A session that was cut off may still be at it: its commit comes before what this one does.
    client.script("begin; select pg_advisory_xact_lock(8)", &[]).await?;
    let generation = shape.tried.get() + 1;
    shape.tried.set(generation);
    let kind = if dice.percent(50) { "int8" } else { "text" };
    let retyped = format!("alter table shape alter column v type {kind} using '{generation}'::{kind}");
    let altered = match dice.below(4) {
        0 if shape.told.get() > 0 => retyped,
        1 if shape.told.get() > 0 => format!(
            "alter table shape drop column if exists more; alter table shape add column more text default 'm'; {retyped}"
        ),
        2 if shape.told.get() > 0 => {
            format!("drop index if exists shape_w; {retyped}; create index shape_w on shape (w)")
        }
        _ => {
            let columns = match dice.percent(50) {
                true => format!("id int primary key, w int, v {kind}"),
                false => format!("v {kind}, w int, id int primary key"),
            };
            format!(
                "drop table if exists shape; create table shape ({columns}); \
                 insert into shape (id, w, v) select g, g * 10, '{generation}'::{kind} from generate_series(1, {ROWS}) g"
            )
        }
    };
    client.script(&altered, &[]).await?;
    if dice.percent(50) {
        dice.pause(PAUSE_MAX).await;
    }
    client.script("commit", &[]).await?;
    shape.told.set(generation);
    Ok(())
}
