//! Concurrent transactions over few keys, whose history is held against their isolation level.
//!
//! Nothing is compared with a model while it runs: sessions only note what they sent and were told, power cuts or not,
//! and at the end [`crate::isolation`] says whether the level allows it. So what a commit's reply promised, what a read
//! showed and who saw whom are all judged from outside.

pub(crate) mod object;
pub(crate) mod record;
pub(crate) mod session;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::TenantId;

use crate::campaign::{Scenario, Task};
use crate::client::{Client, Fate};
use crate::isolation::Level;
use crate::{Dice, Home, Stop};
use object::Object;
pub use object::{Lists, Registers};
use record::Record;

/// Sessions of each tenant.
const SESSIONS: u32 = 6;

/// See the module's description.
pub struct Histories<O: Object> {
    /// What the sessions ask for.
    level: Level,
    /// What the history must be.
    promised: Level,
    records: BTreeMap<TenantId, Rc<RefCell<Record<O>>>>,
}

impl<O: Object> Histories<O> {
    /// Transactions at `level`, whose history must be one.
    pub fn at(level: Level) -> Histories<O> {
        Histories::promised(level, level)
    }

    /// Transactions at `level` that are held against another: a server that gives less than it promises.
    pub fn promised(level: Level, promised: Level) -> Histories<O> {
        Histories { level, promised, records: BTreeMap::new() }
    }
}

impl<O: Object> Scenario for Histories<O> {
    async fn populate(&mut self, home: Rc<Home>) -> Result<(), Stop> {
        let record = self.records.entry(home.id).or_default();
        let mut client = Client::connect(&home, record, 1)?;
        match client.run(O::TABLE, &[]).await {
            Ok(_) => Ok(()),
            Err(Fate::Stop(stop)) => Err(stop),
            Err(Fate::Refused(error)) => Err(Stop::failed(home.world(), "making the table", error)),
        }
    }

    fn recovered(&mut self, home: &Home) -> Result<(), Stop> {
        self.records[&home.id].borrow_mut().recovered(home)
    }

    fn sessions(&self, home: &Rc<Home>) -> Vec<Task<'static>> {
        let record = &self.records[&home.id];
        let session = |number: u32| -> Task<'static> {
            let (home, record, level) = (home.clone(), record.clone(), self.level);
            Box::pin(async move {
                let client = Client::connect(&home, &record, number)?;
                session::run(client, record, Dice::of(home.world()), level, 0).await
            })
        };
        (1..=SESSIONS).map(session).collect()
    }

    fn finished(&self) -> Result<(), Stop> {
        for (tenant, record) in &self.records {
            record.borrow().judge(self.promised).map_err(|stop| stop.of_tenant(*tenant))?;
        }
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.records.values().map(|record| record.borrow().acknowledged).sum()
    }
}
