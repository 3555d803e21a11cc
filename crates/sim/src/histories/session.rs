//! What a client does: short transactions of random reads and writes, all noted.

use std::cell::RefCell;
use std::rc::Rc;

use super::object::{Object, READ, READ_RANGE, found_in};
use super::record::{KEYS, Record};
use crate::client::{Connection, Fate};
use crate::isolation::{Key, Level, Outcome};
use crate::{Dice, Stop};

/// A session's life, until the power goes.
///
/// `idle_percent` of its pauses are so long that a server looks after its tenants meanwhile.
pub(crate) async fn run<O: Object>(
    client: impl Connection,
    record: Rc<RefCell<Record<O>>>,
    dice: Dice,
    level: Level,
    idle_percent: u64,
) -> Result<(), Stop> {
    let mut session = Session { client, record, dice, level };
    loop {
        let idle = session.dice.percent(idle_percent);
        session.dice.pause(if idle { IDLE_MICROS_MAX } else { 300 }).await;
        if let Err(fate) = session.transaction().await {
            session.client.recover(fate).await?;
        }
    }
}

/// The longest idle pause.
const IDLE_MICROS_MAX: u64 = 2_000_000;

struct Session<O: Object, C> {
    client: C,
    record: Rc<RefCell<Record<O>>>,
    dice: Dice,
    level: Level,
}

fn begin(level: Level) -> &'static str {
    match level {
        Level::ReadCommitted => "begin isolation level read committed",
        Level::RepeatableRead => "begin isolation level repeatable read",
        Level::Serializable => "begin isolation level serializable",
    }
}

impl<O: Object, C: Connection> Session<O, C> {
    /// A single statement by itself is one at any level: it sees one state, which is also the one it changes.
    async fn transaction(&mut self) -> Result<(), Fate> {
        let place = self.record.borrow_mut().begin();
        if self.dice.percent(2) {
            return Err(Stop::Fault("the client hangs up".to_owned()).into());
        }
        if self.dice.percent(15) {
            self.statement(place, true).await?;
            self.record.borrow_mut().committed(place);
            return Ok(());
        }
        self.client.run(begin(self.level), &[]).await?;
        for _ in 0..1 + self.dice.below(5) {
            if self.dice.percent(40) {
                self.dice.pause(300).await;
            }
            self.statement(place, false).await?;
            if self.dice.percent(1) {
                return Err(Stop::Fault("the client hangs up".to_owned()).into());
            }
        }
        if self.dice.percent(5) {
            return self.client.run("rollback", &[]).await.map(drop);
        }
        self.record.borrow_mut().history[place].outcome = Outcome::Unknown;
        self.finish(place, "commit").await
    }

    async fn finish(&mut self, place: usize, sql: &'static str) -> Result<(), Fate> {
        let outcome = self.client.run(sql, &[]).await;
        match &outcome {
            Ok(_) => self.record.borrow_mut().committed(place),
            Err(Fate::Refused(_)) => self.record.borrow_mut().history[place].outcome = Outcome::Aborted,
            Err(Fate::Stop(_)) => {}
        }
        outcome.map(drop)
    }

    async fn statement(&mut self, place: usize, is_whole: bool) -> Result<(), Fate> {
        let first = self.record.borrow().first_key();
        let key = first + self.dice.below(KEYS.cast_unsigned()).cast_signed();
        match self.dice.below(100) {
            0..45 => self.write(place, key, is_whole).await,
            45..90 => self.read(place, key, key).await,
            _ => self.read(place, first, key).await,
        }
    }

    async fn read(&mut self, place: usize, first: Key, last: Key) -> Result<(), Fate> {
        let path = self.dice.below(2) as usize;
        let rows = if first == last {
            self.client.run(READ[path], &[first.to_string()]).await?
        } else {
            self.client.run(READ_RANGE[path], &[first.to_string(), last.to_string()]).await?
        };
        let found = found_in::<O>(first..=last, &rows).map_err(Stop::violation)?;
        self.record.borrow_mut().history[place].operations.extend(found);
        Ok(())
    }

    /// A statement that is a whole transaction counts as sent before it is answered: a power cut leaves its end unknown.
    async fn write(&mut self, place: usize, key: Key, is_whole: bool) -> Result<(), Fate> {
        let value = self.record.borrow_mut().value();
        let parameters = [key.to_string(), value.to_string()];
        if is_whole {
            let mut record = self.record.borrow_mut();
            record.history[place].operations.push(O::written(key, value));
            record.history[place].outcome = Outcome::Unknown;
            drop(record);
            return self.whole_write(place, &parameters).await;
        }
        let by_index = self.dice.percent(50);
        if !by_index || self.client.run(O::WRITE_BY_INDEX, &parameters).await?.is_empty() {
            self.client.run(O::WRITE, &parameters).await?;
        }
        self.record.borrow_mut().history[place].operations.push(O::written(key, value));
        Ok(())
    }

    async fn whole_write(&mut self, place: usize, parameters: &[String]) -> Result<(), Fate> {
        let outcome = self.client.run(O::WRITE, parameters).await;
        if let Err(Fate::Refused(_)) = &outcome {
            self.record.borrow_mut().history[place].outcome = Outcome::Aborted;
        }
        outcome.map(drop)
    }
}
