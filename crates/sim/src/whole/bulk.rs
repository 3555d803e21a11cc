//! Long work beside the short: a table is made anew, filled, indexed and referenced in one transaction, or changed as a whole, by the wire.
//!
//! All of its rows have one generation, which each transaction makes the next one. Whenever it is read, whatever ended the life before, it has
//! all of its rows with the same generation, not before the newest that was told of and not behind the last that was tried; and what refers
//! to it is whole too.

use std::cell::Cell;

use base::SqlState;

use super::client::WireClient;
use super::{MEMORY_AMPLE, Run};
use crate::campaign::{Task, work};
use crate::client::{Connection, Fate};
use crate::histories::object::Object;
use crate::{Dice, Stop};

/// Rows: more than a change looks at in one turn, 4,096, so that it runs in slices.
const ROWS: u64 = 4_200;

/// Bytes of a row, so that all of them are twice what a transaction keeps in memory, 1 MiB, and are poured in several parts.
const ROW_LEN: usize = 500;

/// Of a hundred lives of a seed with ample memory, so many have long work.
const LIVES_PERCENT: u64 = 12;

/// Of a hundred of these, so many have nothing else, and pauses amid it and after it: checkpoints by age come between the parts of a change
/// and its commit, others find nothing to do, and tenants close.
const QUIET_PERCENT: u64 = 50;

/// Microseconds that a client pauses at most between two transactions, and between two messages of one, where nothing else is done: more
/// than a checkpoint's interval.
const QUIET_PAUSE_MAX: u64 = 3_000_000;

/// Changes of the disk after which the power goes in such a life at the latest: others work meanwhile.
pub(super) const DISK_CHANGES_MAX: u64 = 2_000;

/// What is known of a tenant's table: generation 0 is none.
#[derive(Default)]
pub(super) struct Bulk {
    /// Told of, or read.
    told: Cell<u64>,
    /// The last that a transaction tried to make.
    tried: Cell<u64>,
    /// How many were told of.
    made: Cell<u64>,
}

impl Bulk {
    /// Generations that a client was told of.
    pub(super) fn generations(&self) -> u64 {
        self.made.get()
    }
}

/// What a client did in one transaction.
#[derive(Clone, Copy, Debug)]
enum Work {
    MadeAnew,
    Truncated,
    Updated,
    DeletedAndInserted,
    /// Rewritten, with other types, keys and names in between, beside tables that do not last as long as the transaction.
    Altered,
}

impl Work {
    /// A rewrite keeps its rows in the memory for changes, which has room for one of the tenants.
    fn draw(dice: &Dice, there: bool, may_rewrite: bool) -> Work {
        match dice.below(5) {
            0 if there => Work::Truncated,
            1 if there => Work::Updated,
            2 if there => Work::DeletedAndInserted,
            3 if there && may_rewrite => Work::Altered,
            _ => Work::MadeAnew,
        }
    }
}

/// What long work a life has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Share {
    None,
    BesideOthers,
    Alone,
}

impl<O: Object> Run<O> {
    /// What long work the life that begins has.
    pub(super) fn draw_bulk(&self, dice: &Dice) -> Share {
        if self.whole.memory < MEMORY_AMPLE || !dice.percent(LIVES_PERCENT) {
            return Share::None;
        }
        if dice.percent(QUIET_PERCENT) { Share::Alone } else { Share::BesideOthers }
    }

    /// Long work on the tables of all tenants until the power goes, in some lives.
    pub(super) async fn work_in_bulk(&self) -> Result<(), Stop> {
        if self.bulk_share == Share::None {
            return Ok(());
        }
        let mut clients: Vec<Task<'_>> = Vec::new();
        for (place, bulk) in self.bulk.iter().enumerate() {
            clients.push(Box::pin(self.work_in_bulk_of(place, bulk)));
        }
        work(clients).await
    }

    async fn work_in_bulk_of(&self, place: usize, bulk: &Bulk) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        let mut client = self.client_of(place);
        let (pause_max, pause_amid) = match self.bulk_share {
            Share::Alone => (QUIET_PAUSE_MAX, Some(&dice)),
            _ => (200_000, None),
        };
        loop {
            dice.pause(pause_max).await;
            let outcome = match read(&mut client, bulk).await {
                Ok(generation) => {
                    let work = Work::draw(&dice, generation > 0, place == 0);
                    change(&mut client, bulk, work, pause_amid).await
                }
                Err(fate) => Err(fate),
            };
            if let Err(fate) = outcome {
                client.recover(fate).await?;
            }
        }
    }

    /// Reads the tables of all tenants, at the end.
    pub(super) async fn read_bulk(&self) -> Result<(), Stop> {
        for (place, bulk) in self.bulk.iter().enumerate().filter(|(_, bulk)| bulk.tried.get() > 0) {
            let mut client = self.client_of(place);
            while let Err(fate) = read(&mut client, bulk).await {
                client.recover(fate).await?;
                Dice::of(&self.world).pause(50_000).await;
            }
        }
        Ok(())
    }
}

/// Reads the table and judges what it has; its generation.
async fn read(client: &mut WireClient, bulk: &Bulk) -> Result<u64, Fate> {
    let tried = bulk.tried.get();
    let sql = "begin isolation level repeatable read; \
               select count(*), min(generation), max(generation) from bulk; \
               select count(*), min(generation), max(generation) from bulk_part; commit";
    let generation = match client.script(sql, &[]).await {
        Ok(answer) => {
            let texts = answer.rows.iter().flatten().flatten();
            let numbers: Vec<u64> = texts.filter_map(|text| text.parse().ok()).collect();
            match numbers[..] {
                [ROWS, least, most, PARTS, parts_least, parts_most]
                    if [least, parts_least, parts_most].iter().all(|of| *of == most) =>
                {
                    most
                }
                _ => {
                    let what = format!("the table in bulk is torn: {:?}", answer.rows);
                    return Err(Stop::violation(what).into());
                }
            }
        }
        Err(Fate::Refused(error)) if error.state() == SqlState::UNDEFINED_TABLE => {
            client.script("rollback", &[]).await?;
            0
        }
        Err(fate) => return Err(fate),
    };
    let told = bulk.told.get();
    if !(told..=tried.max(told)).contains(&generation) {
        let what = format!("the table in bulk has generation {generation}: {told} was told, {tried} tried");
        return Err(Stop::violation(what).into());
    }
    bulk.told.set(generation);
    Ok(generation)
}

/// Rows that refer to every hundredth.
const PARTS: u64 = ROWS / 100;

/// One transaction, with pauses between its messages where there are `pauses`.
async fn change(client: &mut WireClient, bulk: &Bulk, work: Work, pauses: Option<&Dice>) -> Result<(), Fate> {
    let generation = bulk.tried.get() + 1;
    bulk.tried.set(generation);
    let data = |generation: u64| {
        let pad = "p".repeat(ROW_LEN);
        let rows = (1..=ROWS).map(|id| format!("{id}\t{generation}\t{pad}\n"));
        rows.collect::<String>().into_bytes()
    };
    let parts =
        format!("insert into bulk_part select g, g * 100, {generation} from generate_series(1, {PARTS}) g");
    let (before, data, behind) = match work {
        Work::MadeAnew => {
            let before = "drop table if exists bulk_part; drop table if exists bulk; \
                          create table bulk (id int primary key, generation int8 not null, pad text); \
                          copy bulk from stdin"
                .to_owned();
            let behind = format!(
                "create index on bulk (generation, id); \
                 update bulk set generation = generation + 1 where generation >= 0; \
                 create table bulk_part (id int primary key, bulk_id int references bulk, generation int8); \
                 {parts}; commit"
            );
            // The change behind the index makes it the next one.
            (before, data(generation - 1), behind)
        }
        Work::Truncated => {
            let before = "truncate bulk, bulk_part; copy bulk from stdin".to_owned();
            (before, data(generation), format!("{parts}; commit"))
        }
        Work::Updated => {
            let before = format!("update bulk set generation = {generation}");
            (before, Vec::new(), format!("update bulk_part set generation = {generation}; commit"))
        }
        Work::DeletedAndInserted => {
            let pad = format!("repeat('q', {ROW_LEN})");
            let rows = format!("select g, {generation}, {pad} from generate_series(1, {ROWS}) g");
            let before = "delete from bulk_part; delete from bulk".to_owned();
            (before, Vec::new(), format!("insert into bulk {rows}; {parts}; commit"))
        }
        Work::Altered => {
            let id_type = if generation.is_multiple_of(2) { "int8" } else { "int4" };
            let before = format!(
                "create table passing (id int); insert into passing select * from generate_series(1, 50); \
                 alter table passing add primary key (id); drop table passing; \
                 drop table bulk_part; alter table bulk drop constraint if exists bulk_key; alter table bulk rename to renamed; \
                 alter table renamed alter column id type {id_type}, alter column generation type int8 using {generation}"
            );
            let behind = format!(
                "alter table renamed rename to bulk; alter table bulk add constraint bulk_key unique (generation, id); \
                 create table bulk_part (id int primary key, bulk_id int references bulk, generation int8); \
                 {parts}; commit"
            );
            (before, Vec::new(), behind)
        }
    };
    let pause = async || {
        if let Some(dice) = pauses.filter(|dice| dice.percent(50)) {
            dice.pause(QUIET_PAUSE_MAX).await;
        }
    };
    // A session that was cut off may still be at it: its commit comes before the first look of this one.
    client.script("begin; select pg_advisory_xact_lock(7)", &[]).await?;
    client.script(&before, &data).await?;
    pause().await;
    match behind.strip_suffix("; commit") {
        Some(behind) if pauses.is_some() => {
            client.script(behind, &[]).await?;
            pause().await;
            client.script("commit", &[]).await?;
        }
        _ => drop(client.script(&behind, &[]).await?),
    }
    bulk.told.set(generation);
    bulk.made.set(bulk.made.get() + 1);
    Ok(())
}
