//! Bank and order book, straight on the tenant: short transactions over few rows, so that sessions meet; every isolation
//! level; foreign keys, unique and plain indexes, a table without a key, a sequence, values of several pages, DDL.
//!
//! The model is a map of all rows. What a READ COMMITTED statement reads is compared with its newest state, what a snapshot
//! transaction reads with the state at its beginning.

mod model;
mod schema;
mod session;
mod transaction;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::TenantId;

use crate::campaign::{Scenario, Task};
use crate::{Home, Stop};
use model::Model;

/// Sessions of each tenant.
const SESSIONS: u32 = 5;

/// See the module's description.
#[derive(Default)]
pub struct Exchange {
    models: BTreeMap<TenantId, Rc<RefCell<Model>>>,
}

impl Scenario for Exchange {
    async fn populate(&mut self, home: Rc<Home>) -> Result<(), Stop> {
        let model = self.models.entry(home.id).or_default();
        schema::populate(&home, model).await
    }

    fn recovered(&mut self, home: &Home) -> Result<(), Stop> {
        self.models[&home.id].borrow_mut().recovered(home)
    }

    fn sessions(&self, home: &Rc<Home>) -> Vec<Task<'static>> {
        let model = &self.models[&home.id];
        let session = |number| -> Task<'static> {
            let (home, model) = (home.clone(), model.clone());
            Box::pin(session::run(home, model, number))
        };
        (1..=SESSIONS).map(session).collect()
    }

    fn acknowledged(&self) -> u64 {
        self.models.values().map(|model| model.borrow().acknowledged).sum()
    }
}
