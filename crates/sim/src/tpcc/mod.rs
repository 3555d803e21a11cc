//! TPC-C through SQL sessions: New-Order, Payment, Delivery, Order-Status on a reduced population, by prepared
//! statements of the extended protocol.
//!
//! The model has each order and payment by the token its transaction wrote, so that after a recovery the database must hold
//! exactly those of the commits it came back with; the consistency conditions of clause 3.3.2 are computed from all rows.

mod consistency;
mod model;
mod population;
mod rows;
mod schema;
mod terminal;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::TenantId;

use crate::campaign::{Scenario, Task};
use crate::{Home, Stop};
use model::Model;

/// Sessions of each tenant.
const TERMINALS: u32 = 4;

/// See the module's description.
#[derive(Default)]
pub struct Tpcc {
    models: BTreeMap<TenantId, Rc<RefCell<Model>>>,
}

impl Scenario for Tpcc {
    async fn populate(&mut self, home: Rc<Home>) -> Result<(), Stop> {
        let model = self.models.entry(home.id).or_default();
        population::load(&home, model).await
    }

    fn recovered(&mut self, home: &Home) -> Result<(), Stop> {
        self.models[&home.id].borrow().journal.check(home.turn(|home| home.tenant.committed()))?;
        let (recovered, tables) = rows::read_all(home)?;
        self.models[&home.id].borrow_mut().recovered(recovered, &tables)?;
        consistency::check(&tables)
    }

    fn sessions(&self, home: &Rc<Home>) -> Vec<Task<'static>> {
        let model = &self.models[&home.id];
        let terminal =
            |number| -> Task<'static> { Box::pin(terminal::run(home.clone(), model.clone(), number)) };
        (1..=TERMINALS).map(terminal).collect()
    }

    fn acknowledged(&self) -> u64 {
        self.models.values().map(|model| model.borrow().acknowledged).sum()
    }
}
