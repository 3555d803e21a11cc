//! Sums by queries of the analytical path while others transfer between what is summed, by the wire.
//!
//! Each row of a table begins with as much. A transfer takes some from one, gives it to another and counts itself in both, in one transaction. So whatever
//! state is read has the same sum, and says how many transfers are in it: all that anybody was told of when the query was sent, be it by a commit's reply or
//! a query's, and none that was sent after its answer. The queries are ones that the point path does not have, and one reads the table twice, which must be of
//! one state. Some are amid a change of their own transaction, which they see and nobody else; some are cancelled, their rows taken few at a time, or their
//! clients hang up or do not read for a while; some sort more than their tenant's working memory holds; at times nothing of the tenant is in memory when
//! they begin, and one tenant may be over its limits, so that its queries stand still.

use std::cell::Cell;
use std::path::Path;
use std::pin::pin;

use base::Nanos;
use futures::future::{Either, join_all, select};

use super::bulk::Share;
use super::client::WireClient;
use super::{DATA_DIR, Run, name, surely};
use crate::campaign::{Task, work};
use crate::client::{Connection, Fate, Values};
use crate::histories::object::Object;
use crate::{Dice, Stop, require};

/// Rows of the table, of which some pages are full.
const ROWS: i64 = 60;
/// What each has at first.
const OPENING: i64 = 100;
/// Clients of each tenant that transfer.
const TRANSFERRERS: usize = 2;
/// Microseconds that one of them pauses at most.
const TRANSFER_PAUSE_MAX: u64 = 1_000;
/// Queries of each tenant in a life at most: a debug build plans each for tens of milliseconds of real time.
const QUERIES_MAX: usize = 8;
/// Microseconds between two of them at most.
const QUERY_PAUSE_MAX: u64 = 5_000;
/// Of a hundred queries, so many find nothing of their tenant in memory, and so many clients hang up on theirs.
const EVICTED_PERCENT: u64 = 20;
const HANGING_UP_PERCENT: u64 = 15;
/// Microseconds after which they do at the latest.
const PATIENCE_MAX: u64 = 1_500;
/// Of a hundred queries, so many sort more than fits.
const SORTING_PERCENT: u64 = 5;
/// Of a hundred times, in so many as many ask at once: on one worker four queries of a tenant run at a time, and the others wait.
const AT_ONCE_PERCENT: u64 = 3;
const AT_ONCE: usize = 6;
/// Microseconds for which a client does not read the answer of [`many`] at most.
const UNREAD_MAX: u64 = 200_000;
/// What a query's own transaction adds for it to see.
const ADDED: i64 = 7;

/// One row: how many rows there are, what all have, and twice how many transfers are in it, by each of the two.
const SUM: &str = "select count(*), sum(a.balance), sum(a.transfers), sum(b.transfers) \
                   from account a full join account b on b.id = a.id";
/// All rows, with the sum of the transfers beside each.
const EACH: &str = "select id, balance, transfers, sum(transfers) over () from account order by balance, id";

/// How often each pair of rows is in [`many`].
const TIMES: i64 = 8;

/// So many rows, some 800 KB, that they do not fit between a query's thread and a client that does not read: the thread leaves its place to others.
fn many() -> String {
    format!(
        "select a.transfers, b.transfers, c.transfers \
         from account a full join account c on c.id = a.id, account b, generate_series(1, {TIMES}) g"
    )
}

/// How often each pair of rows is sorted in [`sorted`].
const SORTED_TIMES: i64 = 3;
/// Working memory of each tenant.
const WORK_MEMORY: &str = "3MB";
/// Limits of the first tenant in one of so many seeds, all with ample memory: a query takes some milliseconds of the processor, a sort hundreds of I/Os.
const LIMITS: &str = "cpu_max = 0.05, iops_max = 500";
const LIMITED_SEEDS: u64 = 6;
/// How often it is looked whether a query has put rows aside.
const SPILL_LOOK: Nanos = Nanos::from_micros(100);

/// One row: how many rows were sorted, some 5 MB in all, the sum of their places, and that of their transfers.
fn sorted() -> String {
    format!(
        "select count(*), sum(place), sum(transfers) from (select a.transfers, \
         row_number() over (order by a.pad || (b.id * 7919 % 101)::text, g, a.id) as place \
         from account a, account b, generate_series(1, {SORTED_TIMES}) g) s"
    )
}

/// What is known of a tenant's table.
#[derive(Default)]
pub(super) struct Sums {
    /// As many transfers at least are in any state from now on.
    told: Cell<u64>,
    /// Those whose own replies told of them.
    acknowledged: Cell<u64>,
    /// Those that were sent.
    tried: Cell<u64>,
    /// Answers that were judged.
    judged: Cell<u64>,
    /// Queries that put rows aside.
    spilled: Cell<u64>,
}

/// A row's numbers, if it has as many.
fn numbers<const N: usize>(row: &[Option<String>]) -> Option<[i64; N]> {
    let numbers: Option<Vec<i64>> = row.iter().map(|value| value.as_deref()?.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn sum_of<const N: usize>(rows: &[[i64; N]], column: usize) -> i64 {
    rows.iter().map(|row| row[column]).sum()
}

impl Sums {
    /// Answers that were judged.
    pub(super) fn judged(&self) -> u64 {
        self.judged.get()
    }

    /// Queries that put rows aside.
    pub(super) fn spilled(&self) -> u64 {
        self.spilled.get()
    }

    /// A transfer was told of that was sent when `told` were known.
    fn acknowledge(&self, told: u64) {
        self.acknowledged.set(self.acknowledged.get() + 1);
        self.told.set(self.told.get().max(told + 1).max(self.acknowledged.get()));
    }

    /// Judges how many transfers are in a state that was asked for when `told` were known, of which this is twice the number.
    fn judge(&self, told: u64, twice: i64) -> Result<u64, Stop> {
        let (transfers, tried) = (twice.unsigned_abs() / 2, self.tried.get());
        require!(twice >= 0 && twice % 2 == 0, "half a transfer is in the sum: {twice}");
        require!(
            (told..=tried).contains(&transfers),
            "{transfers} transfers are in the sum: {told} were told of, {tried} sent"
        );
        self.told.set(self.told.get().max(transfers));
        self.judged.set(self.judged.get() + 1);
        Ok(transfers)
    }

    /// Judges the row of [`SUM`], where the query's own transaction added so much; how many transfers are in it.
    fn judge_sum(&self, told: u64, row: &[Option<String>], added: i64) -> Result<u64, Stop> {
        let Some([rows, balance, left, right]) = numbers::<4>(row) else {
            return Err(Stop::violation(format!("{SUM}: {row:?}")));
        };
        require!(
            rows == ROWS && balance == ROWS * OPENING + added && left == right,
            "the sum is torn: {row:?}, with {added} added"
        );
        self.judge(told, left)
    }

    /// Judges the rows of [`EACH`].
    fn judge_each(&self, told: u64, rows: &[Values]) -> Result<u64, Stop> {
        let each: Option<Vec<[i64; 4]>> = rows.iter().map(|row| numbers(row)).collect();
        let Some(each) = each else {
            return Err(Stop::violation(format!("{EACH}: {rows:?}")));
        };
        let sum = |column: usize| sum_of(&each, column);
        let is_whole = i64::try_from(each.len()) == Ok(ROWS) && sum(1) == ROWS * OPENING;
        let is_in_order = each.is_sorted_by(|one, next| (one[1], one[0]) < (next[1], next[0]));
        let is_summed = each.iter().all(|row| row[3] == sum(2));
        require!(is_whole && is_in_order && is_summed, "the rows that are summed are torn: {rows:?}");
        self.judge(told, sum(2))
    }

    /// Judges the rows of [`many`].
    fn judge_many(&self, told: u64, rows: &[Values]) -> Result<u64, Stop> {
        let pairs: Option<Vec<[i64; 3]>> = rows.iter().map(|row| numbers(row)).collect();
        let Some(pairs) = pairs else {
            return Err(Stop::violation(format!("pairs of rows: {:?}", rows.first())));
        };
        let each = ROWS * TIMES;
        let (left, right) = (sum_of(&pairs, 0), sum_of(&pairs, 1));
        require!(
            i64::try_from(pairs.len()) == Ok(ROWS * each)
                && pairs.iter().all(|pair| pair[0] == pair[2])
                && left == right
                && left % each == 0,
            "pairs of rows are torn: {} of them with {left} and {right} in all",
            pairs.len()
        );
        self.judge(told, left / each)
    }

    /// Judges the row of [`sorted`].
    fn judge_sorted(&self, told: u64, rows: &[Values]) -> Result<u64, Stop> {
        let sorted = match rows {
            [row] => numbers::<3>(row),
            _ => None,
        };
        let Some([count, places, transfers]) = sorted else {
            return Err(Stop::violation(format!("a sort: {rows:?}")));
        };
        let each = ROWS * SORTED_TIMES;
        let all = ROWS * each;
        require!(
            count == all && places == all * (all + 1) / 2 && transfers % each == 0,
            "what is sorted is torn: {rows:?}"
        );
        self.judge(told, transfers / each)
    }
}

impl<O: Object> Run<O> {
    /// Makes the tables, and limits working memory. All queries are for the analytical path.
    pub(super) async fn found_sums(&self) -> Result<(), Stop> {
        if self.whole.analytic.is_none() {
            return Ok(());
        }
        let founding = format!(
            "create table account (id int primary key, balance int8 not null, transfers int8 not null, pad text); \
             insert into account select g, {OPENING}, 0, repeat('p', 500) from generate_series(1, {ROWS}) g"
        );
        let mut admin = self.administrator();
        for place in 0..self.sums.len() {
            let limit = format!("alter tenant {} set (work_memory_max = '{WORK_MEMORY}')", name(place));
            admin.script(&limit, &[]).await.map_err(surely)?;
            let mut client = self.client_of(place);
            client.script(&founding, &[]).await.map_err(surely)?;
            for sql in [SUM, EACH, &many(), &sorted()] {
                let told = client.script(&format!("explain {sql}"), &[]).await.map_err(surely)?;
                let first = told.rows.first().and_then(|row| row.first()?.as_deref());
                require!(
                    first.is_some_and(|line| line.starts_with("Analytical path")),
                    "{sql} is for the point path: {:?}",
                    told.rows
                );
            }
        }
        if self.whole.seed.is_multiple_of(LIMITED_SEEDS) {
            let limit = format!("alter tenant {} set ({LIMITS})", name(0));
            admin.script(&limit, &[]).await.map_err(surely)?;
        }
        Ok(())
    }

    /// Transfers and sums in all tenants, until the power goes.
    pub(super) async fn transfer_and_sum_up(&self) -> Result<(), Stop> {
        if self.whole.analytic.is_none() || self.bulk_share == Share::Alone {
            return Ok(());
        }
        let mut clients: Vec<Task<'_>> = Vec::new();
        for (place, sums) in self.sums.iter().enumerate() {
            clients.push(Box::pin(self.sum_up_in(place, sums)));
            for _ in 0..TRANSFERRERS {
                clients.push(Box::pin(self.transfer_in(place, sums)));
            }
        }
        work(clients).await
    }

    async fn transfer_in(&self, place: usize, sums: &Sums) -> Result<(), Stop> {
        let (dice, mut client) = (Dice::of(&self.world), self.client_of(place));
        loop {
            dice.pause(TRANSFER_PAUSE_MAX).await;
            if let Err(fate) = transfer(&mut client, sums, &dice).await {
                client.recover(fate).await?;
            }
        }
    }

    async fn sum_up_in(&self, place: usize, sums: &Sums) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        let mut client = self.client_of(place).with(Some(self.odd.clone()));
        let mut admin = self.administrator();
        let evict = format!("select rowhouse.evict('{}')", name(place));
        for _ in 0..QUERIES_MAX {
            dice.pause(QUERY_PAUSE_MAX).await;
            if dice.percent(EVICTED_PERCENT)
                && let Err(fate) = admin.script(&evict, &[]).await
            {
                admin.recover(fate).await?;
            }
            let asked = match dice.below(100) {
                drawn if drawn < SORTING_PERCENT => self.ask_for_sort(&mut client, sums).await,
                drawn if drawn < SORTING_PERCENT + AT_ONCE_PERCENT => self.ask_at_once(place, sums).await,
                _ => ask(&mut client, sums, &dice).await,
            };
            if let Err(fate) = asked {
                client.recover(fate).await?;
            }
        }
        Ok(())
    }

    /// Asks for what the tenant's working memory has no room to sort.
    async fn ask_for_sort(&self, client: &mut WireClient, sums: &Sums) -> Result<(), Fate> {
        let (told, sql) = (sums.told.get(), sorted());
        let answer = {
            let asked = pin!(client.script(&sql, &[]));
            match select(asked, pin!(self.look_for_spills(sums))).await {
                Either::Left((answer, _)) => answer?,
                Either::Right(((), asked)) => asked.await?,
            }
        };
        sums.judge_sorted(told, &answer.rows)?;
        Ok(())
    }

    /// Asks for more sums at once than may be under way.
    async fn ask_at_once(&self, place: usize, sums: &Sums) -> Result<(), Fate> {
        let mut clients: Vec<WireClient> = (0..AT_ONCE).map(|_| self.client_of(place)).collect();
        let mut all = Ok(());
        for outcome in join_all(clients.iter_mut().map(|client| ask_for_sum(client, sums, None))).await {
            match outcome {
                Err(fate @ Fate::Stop(Stop::PowerOff | Stop::Violation(_))) => return Err(fate),
                Err(fate) => all = Err(fate),
                Ok(()) => {}
            }
        }
        all
    }

    /// Looks until there is a file of a query that puts rows aside.
    async fn look_for_spills(&self, sums: &Sums) {
        let (disk, dir) = (self.world.env().disk, Path::new(DATA_DIR).join("tmp"));
        while disk.list(&dir).unwrap_or_default().is_empty() {
            env::sleep(SPILL_LOOK).await;
        }
        sums.spilled.set(sums.spilled.get() + 1);
    }

    /// Sums up in all tenants, at the end.
    pub(super) async fn sum_all_up(&self) -> Result<(), Stop> {
        if self.whole.analytic.is_none() {
            return Ok(());
        }
        for (place, sums) in self.sums.iter().enumerate() {
            let mut client = self.client_of(place);
            while let Err(fate) = ask_for_sum(&mut client, sums, None).await {
                client.recover(fate).await?;
                Dice::of(&self.world).pause(50_000).await;
            }
        }
        Ok(())
    }
}

/// One transaction. It comes to its rows in their order, so that no two wait for each other.
async fn transfer(client: &mut WireClient, sums: &Sums, dice: &Dice) -> Result<(), Fate> {
    let (first, amount) = (dice.between(1, ROWS - 1), dice.between(-9, 9));
    let second = dice.between(first + 1, ROWS);
    let change = |id: i64, by: i64| {
        format!("update account set balance = balance + ({by}), transfers = transfers + 1 where id = {id}")
    };
    let text = format!("begin; {}; {}; commit", change(first, amount), change(second, -amount));
    let told = sums.told.get();
    sums.tried.set(sums.tried.get() + 1);
    client.script(&text, &[]).await?;
    sums.acknowledge(told);
    Ok(())
}

/// Asks in one of the ways.
async fn ask(client: &mut WireClient, sums: &Sums, dice: &Dice) -> Result<(), Fate> {
    match dice.below(40) {
        0 => ask_for_many(client, sums, dice).await,
        1..11 => {
            let told = sums.told.get();
            let rows = client.run(EACH, &[]).await?;
            sums.judge_each(told, &rows)?;
            Ok(())
        }
        11..21 => ask_amid_a_change(client, sums, dice).await,
        _ => {
            let hangs_up = dice.percent(HANGING_UP_PERCENT);
            let patience = hangs_up.then(|| Nanos::from_micros(dice.below(PATIENCE_MAX)));
            ask_for_sum(client, sums, patience).await
        }
    }
}

/// Asks for the sum, and hangs up after some time.
async fn ask_for_sum(client: &mut WireClient, sums: &Sums, patience: Option<Nanos>) -> Result<(), Fate> {
    let told = sums.told.get();
    let rows = {
        let asked = pin!(client.run(SUM, &[]));
        match patience {
            None => asked.await?,
            Some(patience) => match select(asked, pin!(env::sleep(patience))).await {
                Either::Left((rows, _)) => rows?,
                Either::Right(_) => return Err(Stop::Fault("the client hangs up".to_owned()).into()),
            },
        }
    };
    let [row] = &rows[..] else {
        return Err(Stop::violation(format!("{SUM}: {rows:?}")).into());
    };
    sums.judge_sum(told, row, 0)?;
    Ok(())
}

/// Asks for more rows than fit on their way, and reads them late.
async fn ask_for_many(client: &mut WireClient, sums: &Sums, dice: &Dice) -> Result<(), Fate> {
    let unread = Nanos::from_micros(dice.below(UNREAD_MAX));
    let told = sums.told.get();
    let answer = client.script_unread(&many(), &[], unread).await?;
    sums.judge_many(told, &answer.rows)?;
    Ok(())
}

/// Asks before and after a change in one transaction, which is taken back: of one state both times, with the change in it the second time.
async fn ask_amid_a_change(client: &mut WireClient, sums: &Sums, dice: &Dice) -> Result<(), Fate> {
    let id = dice.between(1, ROWS);
    let text = format!(
        "begin isolation level repeatable read; {SUM}; \
         update account set balance = balance + {ADDED} where id = {id}; {SUM}; rollback"
    );
    let told = sums.told.get();
    let answer = client.script(&text, &[]).await?;
    let [before, after] = &answer.rows[..] else {
        return Err(Stop::violation(format!("{text}: {:?}", answer.rows)).into());
    };
    let first = sums.judge_sum(told, before, 0)?;
    let second = sums.judge_sum(told, after, ADDED)?;
    if first != second {
        let what = format!("{first} transfers and then {second} are in one snapshot's sum");
        return Err(Stop::violation(what).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(numbers: [i64; 4]) -> Values {
        numbers.iter().map(|number| Some(number.to_string())).collect()
    }

    #[test]
    fn sums_of_no_one_state_are_found() {
        let sums = Sums::default();
        sums.tried.set(5);
        (0..3).for_each(|told| sums.acknowledge(told));
        let all = ROWS * OPENING;
        let judged = |numbers: [i64; 4], added| sums.judge_sum(3, &row(numbers), added).is_ok();
        assert!(judged([ROWS, all, 6, 6], 0) && judged([ROWS, all + ADDED, 10, 10], ADDED));
        assert!(!judged([ROWS - 1, all, 6, 6], 0), "a row is missing");
        assert!(!judged([ROWS, all - 1, 6, 6], 0), "half of a transfer");
        assert!(!judged([ROWS, all + ADDED, 6, 6], 0), "what was taken back");
        assert!(!judged([ROWS, all, 6, 8], 0), "two states");
        assert!(!judged([ROWS, all, 4, 4], 0), "one that was told of is missing");
        assert!(!judged([ROWS, all, 12, 12], 0), "one that was not sent");
        assert!(!judged([ROWS, all, 7, 7], 0), "half of one");
        assert_eq!((sums.told.get(), sums.judged()), (5, 2), "what an answer told of is told");
    }

    #[test]
    fn rows_of_no_one_state_are_found() {
        let sums = Sums::default();
        sums.tried.set(1);
        let rows = |balance: i64, total: i64| -> Vec<Values> {
            let mut rows: Vec<Values> = (3..=ROWS).map(|id| row([id, OPENING, 0, total])).collect();
            rows.insert(0, row([1, OPENING - 4, 1, total]));
            rows.push(row([2, OPENING + balance, 1, total]));
            rows
        };
        assert!(sums.judge_each(0, &rows(4, 2)).is_ok());
        assert!(sums.judge_each(0, &rows(5, 2)).is_err(), "another sum");
        assert!(sums.judge_each(0, &rows(4, 0)).is_err(), "two states");
        assert!(sums.judge_each(0, &rows(4, 2)[1..]).is_err(), "a row is missing");
        let mut unordered = rows(4, 2);
        unordered.swap(5, 6);
        assert!(sums.judge_each(0, &unordered).is_err());
    }

    #[test]
    fn pairs_of_no_one_state_are_found() {
        let sums = Sums::default();
        sums.tried.set(1);
        let pairs = |second_of_last: i64| -> Vec<Values> {
            let transfers = |id: i64| i64::from(id <= 2);
            let pair = |n: i64| {
                let (left, right) = (n % ROWS + 1, n / ROWS % ROWS + 1);
                let right = transfers(right) + if n == ROWS * ROWS * TIMES - 1 { second_of_last } else { 0 };
                [transfers(left), right, transfers(left)]
            };
            let values = |pair: [i64; 3]| pair.iter().map(|number| Some(number.to_string())).collect();
            (0..ROWS * ROWS * TIMES).map(|n| values(pair(n))).collect()
        };
        assert!(sums.judge_many(0, &pairs(0)).is_ok());
        assert!(sums.judge_many(0, &pairs(1)).is_err(), "two states");
        assert!(sums.judge_many(0, &pairs(0)[1..]).is_err(), "a pair is missing");
    }
}
